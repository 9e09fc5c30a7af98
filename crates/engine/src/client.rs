//! One client: a simulated user who picks a page, fetches its files, and picks again.

use webstone_workload::{PageSequence, Sampler};

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
    rotation: u32,
    pub(crate) page_start_ns: u64,
    /// When the page was to start: in open loop earlier than it did, where no client was free.
    pub(crate) intended_ns: u64,
    pub(crate) waiting_since_ns: u64,
    /// Since when it waits, after a failure, for the events at hand to be handled; [`NOT_HELD`] when it does not.
    pub(crate) held_since_ns: u64,
    backoff_due_ns: u64,
    backoff_last_ns: u64,
    sequence: PageSequence,
    /// Random numbers of templates: a sequence of their own, so that they do not change which pages come.
    pub(crate) random: PageSequence,
    /// Requests made from templates.
    pub(crate) rendered: u64,
    /// Pages begun.
    pub(crate) pages: u64,
    /// Links kept for later.
    kept: Vec<u32>,
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
            kept: Vec::new(),
        }
    }

    /// A page begins; `intended_ns` is when it was to.
    #[inline]
    pub(crate) fn begin_page(&mut self, sampler: &Sampler, intended_ns: u64, now: u64) {
        self.page = self.sequence.next_page(sampler);
        self.pages += 1;
        self.doing = Doing::Page;
        self.page_ok = true;
        self.next_file = 0;
        self.page_start_ns = now;
        self.intended_ns = intended_ns;
    }

    /// It asks for the next file of its page: which.
    #[inline]
    pub(crate) fn ask_for_next_file(&mut self) -> u32 {
        self.next_file += 1;
        self.outstanding += 1;
        self.next_file - 1
    }

    /// One of its requests ended.
    #[inline]
    pub(crate) fn request_ended(&mut self, ok: bool) {
        self.outstanding -= 1;
        self.page_ok &= ok;
        if ok {
            // The next wait is short again.
            self.backoff_last_ns = 0;
        }
    }

    /// The rest of its page, which has this many files, is not asked for.
    pub(crate) fn give_page_up(&mut self, files: u32) {
        self.next_file = files;
    }

    pub(crate) fn stop(&mut self) {
        self.doing = Doing::Stopped;
    }

    /// It waits, of its own accord or before a retry.
    pub(crate) fn wait(&mut self, now: u64) {
        self.doing = Doing::Waiting;
        self.waiting_since_ns = now;
    }

    /// In open loop: it waits for an arrival.
    pub(crate) fn wait_for_arrival(&mut self, now: u64) {
        self.doing = Doing::Free;
        self.waiting_since_ns = now;
    }

    /// The same from the start, where it has no first answer that others wait for.
    pub(crate) fn stand_by(&mut self, now: u64) {
        self.wait_for_arrival(now);
        self.answered = true;
    }

    /// It waits for the events at hand to be handled, unless something of it is under way.
    pub(crate) fn hold(&mut self, now: u64) {
        if self.outstanding == 0 {
            self.held_since_ns = now;
        }
    }

    /// It waits no more: since when it did.
    pub(crate) fn resume(&mut self) -> u64 {
        std::mem::replace(&mut self.held_since_ns, NOT_HELD)
    }

    /// Which of an origin's addresses is next.
    #[inline]
    pub(crate) fn next_rotation(&mut self) -> u32 {
        self.rotation = self.rotation.wrapping_add(1);
        self.rotation.wrapping_sub(1)
    }

    /// Keeps a link for later.
    #[inline]
    pub(crate) fn keep(&mut self, link: u32) {
        self.kept.push(link);
    }

    /// A link that it kept and that fits.
    #[inline]
    pub(crate) fn take_kept(&mut self, fits: impl Fn(u32) -> bool) -> Option<u32> {
        // Nearly always the last.
        self.kept.pop_if(|link| fits(*link)).or_else(|| {
            let at = self.kept.iter().rposition(|link| fits(*link))?;
            Some(self.kept.swap_remove(at))
        })
    }

    /// A link that it kept, whichever.
    pub(crate) fn take_any_kept(&mut self) -> Option<u32> {
        self.kept.pop()
    }

    /// A link that it kept is of no more use.
    pub(crate) fn forget(&mut self, link: u32) {
        self.kept.retain(|kept| *kept != link);
    }

    /// The wait that is due at the end of its page; 0 without cause.
    #[inline]
    pub(crate) fn take_backoff_ns(&mut self) -> u64 {
        std::mem::take(&mut self.backoff_due_ns)
    }

    /// A connection could not be made: the page is given up, and the next begins after a wait that doubles each time.
    /// A refused connection is retried as a person would, never spun on.
    pub(crate) fn back_off(&mut self) {
        self.backoff_last_ns = (self.backoff_last_ns * 2).clamp(BACKOFF_NS_MIN, BACKOFF_NS_MAX);
        self.backoff_due_ns = self.backoff_last_ns;
    }
}
