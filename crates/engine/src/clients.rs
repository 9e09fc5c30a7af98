//! The clients of a worker: which have started, which wait and for what, how much is in progress.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};

use crate::client::{Client, Doing};

/// Number of a worker's clients that start at once; after that, one starts for each first answer.
pub const STARTED_AT_ONCE: u32 = 256;
/// Clients started per second and worker however slow the answers are.
pub const STARTED_PER_SECOND: u64 = 1_000;

/// See the module comment. A client is known by its index in the worker.
pub(crate) struct Clients {
    all: Vec<Client>,
    /// Number of this worker's first client within the level.
    first: u32,
    next_to_start: u32,
    started_from_ns: u64,
    /// Clients started whose first answer is still to come.
    first_answers_due: u32,
    /// Clients that continue once the current events have been handled: after a failure, so that failures cannot
    /// nest.
    runnable: Vec<u32>,
    /// When waits end, and whose they are.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    pages_in_progress: u32,
    requests_in_progress: u32,
    last_page_end_ns: u64,
}

impl Clients {
    /// `clients` clients, whose numbers within the level begin at `first`.
    pub(crate) fn new(seed: u64, first: u32, clients: u32) -> Clients {
        Clients {
            all: (first..first + clients).map(|client| Client::new(seed, client)).collect(),
            first,
            next_to_start: 0,
            started_from_ns: 0,
            first_answers_due: 0,
            runnable: Vec::with_capacity(64),
            timers: BinaryHeap::new(),
            pages_in_progress: 0,
            requests_in_progress: 0,
            last_page_end_ns: 0,
        }
    }

    /// A client's number within the level.
    pub(crate) fn number(&self, client: u32) -> u32 {
        self.first + client
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.all.iter()
    }

    /// Begins to start clients, at a limited pace.
    pub(crate) fn start_from(&mut self, now: u64) {
        self.started_from_ns = now;
    }

    pub(crate) fn started_from_ns(&self) -> u64 {
        self.started_from_ns
    }

    /// The next client to start. While [`STARTED_AT_ONCE`] wait for their first answer, others start at a limited
    /// pace, so that a listen queue is not flooded and a slow server delays them only briefly.
    #[inline]
    pub(crate) fn next_to_start(&mut self, now: u64) -> Option<u32> {
        if self.all_started() {
            return None;
        }
        let by_time = now.saturating_sub(self.started_from_ns) * STARTED_PER_SECOND / 1_000_000_000;
        if self.first_answers_due >= STARTED_AT_ONCE && self.next_to_start >= by_time as u32 {
            return None;
        }
        self.next_to_start += 1;
        self.first_answers_due += 1;
        Some(self.next_to_start - 1)
    }

    #[inline]
    pub(crate) fn all_started(&self) -> bool {
        self.next_to_start as usize == self.all.len()
    }

    /// Starts no more clients.
    pub(crate) fn start_no_more(&mut self) {
        self.next_to_start = self.all.len() as u32;
    }

    /// Every client was started and has had its first answer, or first error.
    pub(crate) fn all_answered(&self) -> bool {
        self.all_started() && self.first_answers_due == 0
    }

    /// In open loop: all wait for arrivals, and none starts by itself.
    pub(crate) fn stand_by(&mut self, now: u64) {
        for client in &mut self.all {
            client.stand_by(now);
        }
        self.start_no_more();
    }

    /// A client has had its first answer or error, or will never get one.
    #[inline]
    pub(crate) fn answered(&mut self, client: u32) {
        let state = &mut self.all[client as usize];
        if !state.answered {
            state.answered = true;
            self.first_answers_due -= 1;
        }
    }

    #[inline]
    pub(crate) fn page_began(&mut self) {
        self.pages_in_progress += 1;
    }

    #[inline]
    pub(crate) fn page_ended(&mut self, now: u64) {
        self.pages_in_progress -= 1;
        self.last_page_end_ns = now;
    }

    pub(crate) fn pages_in_progress(&self) -> u32 {
        self.pages_in_progress
    }

    pub(crate) fn last_page_end_ns(&self) -> u64 {
        self.last_page_end_ns
    }

    #[inline]
    pub(crate) fn request_began(&mut self) {
        self.requests_in_progress += 1;
    }

    /// One of a client's requests ended.
    #[inline]
    pub(crate) fn request_ended(&mut self, client: u32, ok: bool) {
        self.all[client as usize].request_ended(ok);
        self.requests_in_progress -= 1;
        self.answered(client);
    }

    #[inline]
    pub(crate) fn requests_in_progress(&self) -> u32 {
        self.requests_in_progress
    }

    /// Lets a client continue once the current events have been handled. If a few hundred connections are closed at
    /// once, handling them takes longer than a request. The time is counted as waiting, since nothing is asked of the
    /// server meanwhile.
    pub(crate) fn hold(&mut self, client: u32, now: u64) {
        self.all[client as usize].hold(now);
        self.runnable.push(client);
    }

    #[inline]
    pub(crate) fn any_held(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// The next held client to continue.
    pub(crate) fn next_held(&mut self) -> Option<u32> {
        self.runnable.pop()
    }

    /// Lets stopped clients continue once the current events have been handled.
    pub(crate) fn resume_stopped(&mut self) {
        let stopped = (0..self.next_to_start).filter(|c| self.all[*c as usize].doing == Doing::Stopped);
        self.runnable.extend(stopped);
    }

    /// Has a client wait until `until_ns`.
    pub(crate) fn wait(&mut self, client: u32, now: u64, until_ns: u64) {
        self.all[client as usize].wait(now);
        self.timers.push(Reverse((until_ns, client)));
    }

    /// When the next wait ends; [`u64::MAX`] if no client waits.
    #[inline]
    pub(crate) fn next_wake_ns(&self) -> u64 {
        self.timers.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// A client whose wait has ended.
    #[inline]
    pub(crate) fn next_awake(&mut self, now: u64) -> Option<u32> {
        if self.next_wake_ns() > now {
            return None;
        }
        self.timers.pop().map(|Reverse((_, client))| client)
    }

    /// Forgets all waits.
    pub(crate) fn wake_no_more(&mut self) {
        self.timers.clear();
    }
}

impl Index<u32> for Clients {
    type Output = Client;

    #[inline]
    fn index(&self, client: u32) -> &Client {
        &self.all[client as usize]
    }
}

impl IndexMut<u32> for Clients {
    #[inline]
    fn index_mut(&mut self, client: u32) -> &mut Client {
        &mut self.all[client as usize]
    }
}
