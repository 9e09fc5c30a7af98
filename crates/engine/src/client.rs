//! One client: a simulated user who picks a page, fetches its files, and picks again.

use webstone_workload::{PageSequence, Sampler};

/// Shortest wait before a client tries again after a connection could not be made.
const BACKOFF_NS_MIN: u64 = 10_000_000;
/// Longest such wait.
const BACKOFF_NS_MAX: u64 = 1_000_000_000;

/// `held_since_ns` of a client that is not held after a failure.
pub(crate) const NOT_HELD: u64 = u64::MAX;

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Not started yet: clients are started slowly, to spare the listen queue.
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
    /// When the page should have started. In open loop it starts later if no client was free.
    pub(crate) intended_ns: u64,
    pub(crate) waiting_since_ns: u64,
    /// Since when it is held after a failure, until the current events have been handled; otherwise [`NOT_HELD`].
    pub(crate) held_since_ns: u64,
    backoff_due_ns: u64,
    backoff_last_ns: u64,
    sequence: PageSequence,
    /// Random numbers for templates, from a sequence of their own: they do not change which pages come.
    pub(crate) random: PageSequence,
    /// Requests made from templates.
    pub(crate) rendered: u64,
    /// Pages begun.
    pub(crate) pages: u64,
    /// When its line becomes free, if it has one of its own.
    pub(crate) line_free_ns: u64,
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
            line_free_ns: 0,
            kept: Vec::new(),
        }
    }

    /// Begins a page that should have started at `intended_ns`.
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

    /// Takes the next file of its page: returns which.
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

    /// Skips the rest of its page, which has this many files.
    pub(crate) fn give_page_up(&mut self, files: u32) {
        self.next_file = files;
    }

    pub(crate) fn stop(&mut self) {
        self.doing = Doing::Stopped;
    }

    /// Waits: think time, or before a retry.
    pub(crate) fn wait(&mut self, now: u64) {
        self.doing = Doing::Waiting;
        self.waiting_since_ns = now;
    }

    /// In open loop: it waits for an arrival.
    pub(crate) fn wait_for_arrival(&mut self, now: u64) {
        self.doing = Doing::Free;
        self.waiting_since_ns = now;
    }

    /// Waits for an arrival from the start; others do not wait for its first answer.
    pub(crate) fn stand_by(&mut self, now: u64) {
        self.wait_for_arrival(now);
        self.answered = true;
    }

    /// Waits until the current events have been handled, unless it has requests in progress.
    pub(crate) fn hold(&mut self, now: u64) {
        if self.outstanding == 0 {
            self.held_since_ns = now;
        }
    }

    /// Ends the wait, and returns since when it waited.
    pub(crate) fn resume(&mut self) -> u64 {
        std::mem::replace(&mut self.held_since_ns, NOT_HELD)
    }

    /// Which of an origin's addresses to use next.
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

    /// A kept link that fits.
    #[inline]
    pub(crate) fn take_kept(&mut self, fits: impl Fn(u32) -> bool) -> Option<u32> {
        // Nearly always the last one fits.
        self.kept.pop_if(|link| fits(*link)).or_else(|| {
            let at = self.kept.iter().rposition(|link| fits(*link))?;
            Some(self.kept.swap_remove(at))
        })
    }

    /// Any kept link.
    pub(crate) fn take_any_kept(&mut self) -> Option<u32> {
        self.kept.pop()
    }

    /// A kept link can no longer be used.
    pub(crate) fn forget(&mut self, link: u32) {
        self.kept.retain(|kept| *kept != link);
    }

    /// How long to back off at the end of its page; 0 if no connection failed.
    #[inline]
    pub(crate) fn take_backoff_ns(&mut self) -> u64 {
        std::mem::take(&mut self.backoff_due_ns)
    }

    /// A connection could not be made: the page is given up, and the next begins after a wait that doubles each time,
    /// so that a server that refuses connections is not flooded with attempts.
    pub(crate) fn back_off(&mut self) {
        self.backoff_last_ns = (self.backoff_last_ns * 2).clamp(BACKOFF_NS_MIN, BACKOFF_NS_MAX);
        self.backoff_due_ns = self.backoff_last_ns;
    }
}
