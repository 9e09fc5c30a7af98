//! One client: a simulated user who picks a page, fetches its files, and picks again.

use webstone_model::workload::PageSequence;

/// Shortest wait before a client tries again after a connection could not be made.
const BACKOFF_NS_MIN: u64 = 10_000_000;
/// Longest such wait.
const BACKOFF_NS_MAX: u64 = 1_000_000_000;

/// Of a client that no failure holds.
pub(crate) const NOT_HELD: u64 = u64::MAX;

/// What a client is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Not begun yet: clients are started at a pace that spares the listen queue.
    NotStarted,
    /// Within a page.
    Page,
    /// Thinking, or waiting before a retry.
    Waiting,
    /// In open loop: waiting for an arrival.
    Free,
    /// Between pages, stopped until the window opens (page-limited runs) or for good.
    Stopped,
}

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) doing: Doing,
    /// All files of the page so far succeeded.
    pub(crate) page_ok: bool,
    /// It has had its first answer, or first error.
    pub(crate) answered: bool,
    pub(crate) page: u32,
    /// The next file of the page to ask for.
    pub(crate) next_file: u32,
    /// Requests in progress.
    pub(crate) outstanding: u32,
    /// Which of an origin's addresses comes next.
    pub(crate) rotation: u32,
    pub(crate) page_start_ns: u64,
    /// When the page was to start: in open loop earlier than it did, where no client was free.
    pub(crate) intended_ns: u64,
    pub(crate) waiting_since_ns: u64,
    /// Since when it waits, behind a failure, for the events at hand to be handled; [`NOT_HELD`] when it does not.
    pub(crate) held_since_ns: u64,
    /// Wait due at the end of the page; 0 without cause.
    pub(crate) backoff_due_ns: u64,
    backoff_last_ns: u64,
    pub(crate) sequence: PageSequence,
    /// Random numbers of templates: a sequence of their own, so that they do not change which pages come.
    pub(crate) random: PageSequence,
    /// Requests made from templates.
    pub(crate) rendered: u64,
    /// Pages begun.
    pub(crate) pages: u64,
    /// Connections kept alive.
    pub(crate) idle: Vec<u32>,
}

impl Client {
    /// Client `number` of the level.
    pub(crate) fn new(seed: u64, number: u32) -> Client {
        Client {
            doing: Doing::NotStarted,
            page_ok: true,
            answered: false,
            page: 0,
            next_file: 0,
            outstanding: 0,
            rotation: number,
            page_start_ns: 0,
            intended_ns: 0,
            waiting_since_ns: 0,
            held_since_ns: NOT_HELD,
            backoff_due_ns: 0,
            backoff_last_ns: 0,
            sequence: PageSequence::new(seed, u64::from(number)),
            random: PageSequence::new(!seed, u64::from(number)),
            rendered: 0,
            pages: 0,
            idle: Vec::new(),
        }
    }

    /// A connection could not be made: the page is given up, and the next begins after a wait that doubles each time.
    /// A refused connection is retried as a person would, never spun on.
    pub(crate) fn back_off(&mut self) {
        self.backoff_last_ns = (self.backoff_last_ns * 2).clamp(BACKOFF_NS_MIN, BACKOFF_NS_MAX);
        self.backoff_due_ns = self.backoff_last_ns;
    }

    /// A request succeeded: the next wait is short again.
    #[inline]
    pub(crate) fn recover(&mut self) {
        self.backoff_last_ns = 0;
    }
}
