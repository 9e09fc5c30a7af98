//! The clients of a worker: who has been started, who waits for what, how much is under way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};

use crate::client::{Client, Doing};

/// Clients of a worker that may wait for their first answer while others are started: this many start at once, and then one
/// for each that was answered.
pub const STARTED_AT_ONCE: u32 = 256;
/// Clients started per second and worker however slow the answers are.
pub const STARTED_PER_SECOND: u64 = 1_000;

/// See the module comment. A client is known by its index in the worker.
pub(crate) struct Clients {
    all: Vec<Client>,
    /// Number of the first in the level.
    first: u32,
    next_to_start: u32,
    started_from_ns: u64,
    /// Clients started whose first answer is still to come.
    first_answers_due: u32,
    /// Clients that go on once the events at hand are handled: after a failure, so that failures cannot nest.
    runnable: Vec<u32>,
    /// When waits end, and whose.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    pages_in_progress: u32,
    requests_in_progress: u32,
    last_page_end_ns: u64,
}

impl Clients {
    /// So many clients, numbered in the level from `first` on.
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

    /// A client's number in the level.
    pub(crate) fn number(&self, client: u32) -> u32 {
        self.first + client
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.all.iter()
    }

    /// From now on clients are started at a pace.
    pub(crate) fn start_from(&mut self, now: u64) {
        self.started_from_ns = now;
    }

    pub(crate) fn started_from_ns(&self) -> u64 {
        self.started_from_ns
    }

    /// The next client to start: a few hundred may wait for their first answer at a time, so that a listen queue is not flooded,
    /// but a slow server delays the others only briefly.
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

    /// No more are started.
    pub(crate) fn start_no_more(&mut self) {
        self.next_to_start = self.all.len() as u32;
    }

    /// Every client was started and has had its first answer, or first error.
    pub(crate) fn all_answered(&self) -> bool {
        self.all_started() && self.first_answers_due == 0
    }

    /// In open loop: all stand by for arrivals, and none starts of itself.
    pub(crate) fn stand_by(&mut self, now: u64) {
        for client in &mut self.all {
            client.stand_by(now);
        }
        self.start_no_more();
    }

    /// A client has had an answer, or an error, or will have none.
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

    /// Lets a client go on once the events at hand are handled. With a few hundred clients whose connections are closed at
    /// once that takes longer than a request, so it is booked: as waiting, because nothing is asked of the server meanwhile.
    pub(crate) fn hold(&mut self, client: u32, now: u64) {
        self.all[client as usize].hold(now);
        self.runnable.push(client);
    }

    #[inline]
    pub(crate) fn any_held(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// A client that goes on now.
    pub(crate) fn next_held(&mut self) -> Option<u32> {
        self.runnable.pop()
    }

    /// Clients that had stopped go on once the events at hand are handled.
    pub(crate) fn resume_stopped(&mut self) {
        let stopped = (0..self.next_to_start).filter(|c| self.all[*c as usize].doing == Doing::Stopped);
        self.runnable.extend(stopped);
    }

    /// A client waits until an instant.
    pub(crate) fn wait(&mut self, client: u32, now: u64, until_ns: u64) {
        self.all[client as usize].wait(now);
        self.timers.push(Reverse((until_ns, client)));
    }

    /// When the next wait ends; [`u64::MAX`] where nobody waits.
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

    /// Nobody is woken any more.
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
