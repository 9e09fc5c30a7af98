//! One worker: a thread with one event loop that carries many clients.
//!
//! This file holds the loop, its clock and its phases; `dispatch` deals events to links, `paging` is what a client
//! does between requests. Workers share nothing but [`Shared`], a few words that are written once or read seldom.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;

use webstone_model::metrics::{Measured, WorkerUse};
use webstone_model::rate::RateProfile;

use crate::client::{Client, Doing};
use crate::exchange::{Exchanges, Progress};
use crate::layer::Layer;
use crate::link::{Link, LinkState};
use crate::live::{COPIED_EVERY_NS, Copied};
use crate::pacing::Pacer;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::resolver::Resolver;
use crate::session::Session;
use crate::stalls::{STALL_NS, Stalls};
use crate::sys::Backend;
use crate::transactions::{TraceEvent, Transaction};

/// How often a worker looks at [`Shared`] and publishes its totals.
const TICK_NS: u64 = 10_000_000;
/// How far ahead the window's opening and closing are announced, so that every worker has read it in time.
pub(crate) const ANNOUNCE_NS: u64 = 3 * TICK_NS;
/// Clients of a worker that may wait for their first answer while others are started: so many start at once, and then one
/// for each that was answered.
pub const STARTED_AT_ONCE: u32 = 256;
/// Clients started per second and worker however slow the answers are.
pub const STARTED_PER_SECOND: u64 = 1_000;
/// What the resolver's event is registered under; no link has this number.
pub(crate) const RESOLVER_TOKEN: u64 = u64::MAX;
/// What the ticker's event is registered under.
pub(crate) const TICKER_TOKEN: u64 = u64::MAX - 1;
/// No link has this index.
pub(crate) const NO_LINK: u32 = u32::MAX;

/// What the level and its workers tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// When the window opens; [`u64::MAX`] until that is known.
    pub(crate) open_ns: AtomicU64,
    /// When it closes.
    pub(crate) close_ns: AtomicU64,
    /// Finish at once, without a drain.
    pub(crate) abort: AtomicBool,
    /// In page-limited runs: clients begin no page until the window opens.
    pub(crate) settle: AtomicBool,
    /// Pages that may still begin, in page-limited runs.
    pub(crate) pages_left: AtomicU64,
    /// Exchanges traced so far.
    pub(crate) traced: AtomicU32,
    /// What each worker publishes.
    pub(crate) workers: Vec<Published>,
}

/// One worker's totals, for the live display. On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Published {
    /// Every client was started and has had its first answer, or first error.
    pub(crate) all_answered: AtomicBool,
    pub(crate) settled: AtomicBool,
    pub(crate) draining: AtomicBool,
    pub(crate) planned: AtomicU64,
    pub(crate) offered: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) response_ns: AtomicU64,
    pub(crate) copied: Copied,
}

/// Where a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    WarmUp,
    Measuring,
    Draining,
    Done,
}

/// Which worker it is, and whose clients are its.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) number: usize,
    /// How many workers there are.
    pub(crate) workers: u32,
    /// The CPU that it was pinned to.
    pub(crate) cpu: Option<u32>,
    pub(crate) first_client: u32,
    pub(crate) clients: u32,
    /// Open loop: the rate of all workers together.
    pub(crate) rate: Option<RateProfile>,
}

pub(crate) struct Worker<B: Backend, L: Layer, P: Session> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) shared: Arc<Shared>,
    /// When the last copy for percentiles was left.
    copied_ns: u64,
    pub(crate) number: usize,
    cpu: Option<u32>,
    pub(crate) stage: Stage,
    pub(crate) backend: B,
    pub(crate) clients: Vec<Client>,
    /// Number of the first client in the level.
    pub(crate) first_client: u32,
    pub(crate) links: Vec<Link<B::Socket, L, P>>,
    /// Links in state `Free`.
    pub(crate) free: Vec<u32>,
    /// Clients that go on once the events at hand are handled: after a failure, so that failures cannot nest.
    pub(crate) runnable: Vec<u32>,
    /// Links whose receive queue was left before it was empty.
    pub(crate) held_over: VecDeque<u32>,
    pub(crate) timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// The schedule, in open loop.
    pub(crate) pacer: Option<Pacer>,
    /// When the next arrival is due; [`u64::MAX`] in closed loop.
    pub(crate) next_arrival_ns: u64,
    pub(crate) recorder: Recorder,
    /// What sessions remember together.
    pub(crate) memory: P::Memory,
    /// Requests in progress.
    pub(crate) active: u32,
    pub(crate) pages_in_progress: u32,
    /// Clients started whose first answer is still to come.
    pub(crate) first_answers_due: u32,
    next_to_start: u32,
    /// When the last page ended.
    pub(crate) last_end_ns: u64,
    /// The round of the loop.
    pub(crate) round: u32,
    events: u64,
    loops: u64,
    /// When the events at hand were reported.
    reported_ns: u64,
    tick_ns: u64,
    sweep_at_ns: u64,
    sweep_every_ns: u64,
    drain_end_ns: u64,
    go_ns: u64,
    /// The clock as it was read last.
    clock_ns: u64,
    /// The same before the events at hand were waited for.
    slept_from_ns: u64,
    stalls: Stalls,
    pub(crate) resolver: Option<Resolver>,
    /// The link whose bytes the kernel stamps as they come in, or [`NO_LINK`]. It is one at a time.
    pub(crate) stamped: u32,
    /// Connections until the kernel is asked how long one's handshake took.
    pub(crate) connections_until_asked: u32,
    /// Connections begun so far.
    pub(crate) connections: u32,
    pub(crate) trace: Option<SyncSender<TraceEvent>>,
    pub(crate) transactions: Option<SyncSender<Vec<Transaction>>>,
    pub(crate) transaction_buffer: Vec<Transaction>,
}

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// A worker on a back end of its own. Must be called by the thread that runs it.
    pub(crate) fn new(
        plan: Arc<Plan>,
        shared: Arc<Shared>,
        seat: Seat,
        mut backend: B,
    ) -> io::Result<Worker<B, L, P>> {
        let Seat { number, workers, cpu, first_client, clients, rate } = seat;
        let pacer = rate.map(|rate| Pacer::new(&plan, rate, number as u32, workers, clients));
        let shortest = plan.connect_timeout_ns.min(plan.first_byte_timeout_ns).min(plan.request_timeout_ns);
        let resolver = plan.resolve_each.then(|| Resolver::start(clients)).transpose()?;
        if let Some(resolver) = &resolver {
            backend.watch(resolver.waker(), RESOLVER_TOKEN)?;
        }
        // For what may come late by a tick.
        backend.tick_every(TICK_NS, TICKER_TOKEN)?;
        Ok(Worker {
            number,
            cpu,
            stage: Stage::WarmUp,
            backend,
            resolver,
            stamped: NO_LINK,
            connections_until_asked: 1,
            connections: 0,
            clients: (first_client..first_client + clients).map(|c| Client::new(plan.seed, c)).collect(),
            first_client,
            links: Vec::with_capacity(clients as usize + clients as usize / 4 + 16),
            free: Vec::new(),
            runnable: Vec::with_capacity(64),
            held_over: VecDeque::new(),
            timers: BinaryHeap::new(),
            recorder: Recorder::new(&plan, clients as usize, rate.is_some()),
            pacer,
            next_arrival_ns: u64::MAX,
            memory: P::memory(&plan),
            active: 0,
            pages_in_progress: 0,
            first_answers_due: 0,
            next_to_start: 0,
            last_end_ns: 0,
            round: 0,
            events: 0,
            loops: 0,
            reported_ns: 0,
            tick_ns: 0,
            sweep_at_ns: 0,
            sweep_every_ns: (shortest / 20).clamp(1_000_000, 100_000_000),
            drain_end_ns: u64::MAX,
            go_ns: 0,
            clock_ns: 0,
            slept_from_ns: 0,
            stalls: Stalls::default(),
            trace: None,
            transactions: None,
            transaction_buffer: Vec::new(),
            plan,
            shared,
            copied_ns: 0,
        })
    }

    /// Runs the level from `go_ns` to the end of the drain, and gives what was measured.
    pub(crate) fn run(mut self, go_ns: u64) -> io::Result<Measured> {
        self.go_ns = go_ns;
        self.backend.sleep_until(go_ns);
        self.clock_ns = self.backend.now_ns();
        self.stand_by(go_ns);
        while self.stage != Stage::Done {
            self.turn()?;
        }
        self.flush_transactions();
        self.recorder.measured.lifetime.cut_off = u64::from(self.active);
        Ok(std::mem::take(&mut self.recorder.measured))
    }

    /// One round of the loop.
    fn turn(&mut self) -> io::Result<()> {
        let now = if self.only_answers_matter() { self.clock_ns } else { self.now() };
        if now >= self.next_arrival_ns {
            self.release_arrivals();
        }
        let mut began = self.start_clients(now);
        began |= self.wake_clients(now);
        began |= self.resume_held(now);
        if now >= self.sweep_at_ns {
            self.sweep_at_ns = now + self.sweep_every_ns;
            self.enforce_deadlines(now);
            began = true;
        }
        if began {
            // However many there were, this was work and no stall.
            self.clock_ns = self.backend.now_ns();
        }
        if self.stage == Stage::Draining && (self.active == 0 || now >= self.drain_end_ns) {
            self.stage = Stage::Done;
            return Ok(());
        }
        let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let mut until =
            if self.minds_the_time() { self.tick_ns.min(self.sweep_at_ns).min(timer) } else { timer };
        if !self.runnable.is_empty() {
            until = now;
        } else if self.next_to_start < self.clients.len() as u32 {
            until = until.min(now + 1_000_000);
        }
        if !self.held_over.is_empty() {
            self.read_on();
            until = now;
        }
        let count = self.wait(until, now)?;
        self.round = self.round.wrapping_add(1);
        self.loops += 1;
        self.events += count as u64;
        self.reported_ns = self.backend.now_ns();
        self.slept_from_ns = self.clock_ns;
        self.clock_ns = self.reported_ns;
        if self.reported_ns - self.slept_from_ns >= TICK_NS + STALL_NS {
            self.overslept();
        }
        for index in 0..count {
            let event = self.backend.event(index);
            self.handle(event);
            if self.clock_ns >= self.next_arrival_ns {
                self.release_arrivals();
            }
        }
        Ok(())
    }

    /// Whether a tick that comes late by another would be noticed. Where not, the loop waits without a time-out, and the ticker
    /// wakes it: every figure is booked by the clock, not by when a tick was handled.
    fn minds_the_time(&self) -> bool {
        self.pacer.is_some()
            || self.plan.page_limit.is_some()
            || self.stage >= Stage::Draining
            || self.sweep_every_ns < TICK_NS
    }

    /// Whether a round begins nothing by itself, so that the clock as the last answer found it will do: what else is due is
    /// due to the tick.
    #[inline]
    fn only_answers_matter(&self) -> bool {
        !self.minds_the_time()
            && self.runnable.is_empty()
            && self.timers.is_empty()
            && self.next_to_start as usize == self.clients.len()
    }

    /// The ticker woke the loop.
    pub(crate) fn ticked(&mut self) {
        if let Some(ticks) = self.backend.take_ticks() {
            let woken_ns = self.reported_ns.min(self.shared.close_ns.load(Relaxed));
            self.stalls.ticks(ticks.due_ns, ticks.count, TICK_NS, self.slept_from_ns, woken_ns);
        }
        // Its instants and the loop's own drift against each other; what is nearly due need not wait for the next.
        let now = self.backend.now_ns();
        self.clock_ns = now;
        if now + TICK_NS / 2 >= self.tick_ns {
            self.tick(now);
        }
    }

    /// Reads the clock, and does what has become due since it was last read.
    #[inline]
    pub(crate) fn now(&mut self) -> u64 {
        let now = self.backend.now_ns();
        if now - self.clock_ns >= STALL_NS {
            self.stood_still(now);
        }
        self.clock_ns = now;
        if now >= self.tick_ns {
            self.tick(now);
        }
        now
    }

    /// A wait ended long after the ticker should have ended it. A stop looks like this: the wait had what it returns, or
    /// nothing, before the tick, and returned behind the stop.
    #[cold]
    fn overslept(&mut self) {
        let woken_ns = self.reported_ns.min(self.shared.close_ns.load(Relaxed));
        self.stalls.gap(self.slept_from_ns + TICK_NS, woken_ns);
        // The ticks that came meanwhile tell of the same.
        self.slept_from_ns = self.reported_ns;
    }

    #[cold]
    fn stood_still(&mut self, now: u64) {
        self.stalls.gap(self.clock_ns, now.min(self.shared.close_ns.load(Relaxed)));
    }

    /// Notes how long an event waited behind others of its batch: the generator's own delay.
    #[inline]
    pub(crate) fn note_delay(&mut self, now: u64) {
        if self.recorder.is_open {
            self.recorder.measured.generator.loop_delay.record(now.saturating_sub(self.reported_ns));
        }
    }

    #[cold]
    fn tick(&mut self, now: u64) {
        let open_ns = self.shared.open_ns.load(Relaxed);
        let close_ns = self.shared.close_ns.load(Relaxed);
        if let Some(pacer) = self.pacer.as_mut().filter(|_| self.stage < Stage::Draining) {
            pacer.window_is(open_ns, close_ns);
            self.note_next_arrival();
        }
        if self.stage == Stage::WarmUp {
            if close_ns <= now && close_ns <= open_ns {
                // Ended before it opened: nothing is measured.
                self.stop_all(now);
            } else if open_ns <= now {
                // Even if it has closed meanwhile: a worker that was kept off its CPU all that time had its clients all the same.
                self.open(open_ns);
            } else if self.shared.settle.load(Relaxed) && self.pages_in_progress == 0 {
                self.shared.workers[self.number].settled.store(true, Relaxed);
            }
        }
        if self.stage == Stage::Measuring {
            let end = now.min(close_ns);
            while self.recorder.second_end_ns <= end {
                self.recorder.end_second();
            }
            if close_ns <= now {
                self.close(close_ns);
            } else if self.is_out_of_pages() {
                self.close(self.last_end_ns.max(self.recorder.open_ns + 1));
            }
        }
        if self.shared.abort.load(Relaxed) && self.stage == Stage::Draining {
            self.drain_end_ns = now;
        }
        self.publish();
        if self.recorder.is_open && now >= self.copied_ns + COPIED_EVERY_NS {
            self.copied_ns = now;
            self.shared.workers[self.number].copied.leave(&self.recorder.measured.histograms.response);
        }
        self.tick_ns = now + TICK_NS;
        match self.stage {
            Stage::WarmUp => self.tick_ns = self.tick_ns.min(open_ns.max(now + 1)),
            Stage::Measuring => {
                self.tick_ns = self.tick_ns.min(self.recorder.second_end_ns).min(close_ns).max(now + 1);
                if self.plan.page_limit.is_some() {
                    // The end of the last page is not known ahead; look for it more often.
                    self.tick_ns = self.tick_ns.min(now + TICK_NS / 10);
                }
            }
            Stage::Draining | Stage::Done => self.tick_ns = self.tick_ns.min(self.drain_end_ns.max(now + 1)),
        }
    }

    fn is_out_of_pages(&self) -> bool {
        self.plan.page_limit.is_some()
            && self.shared.pages_left.load(Relaxed) == 0
            && self.pages_in_progress == 0
            && self.next_to_start as usize == self.clients.len()
    }

    fn open(&mut self, at_ns: u64) {
        self.stage = Stage::Measuring;
        self.recorder.open(at_ns);
        self.stalls.open(at_ns);
        self.recorder.measured.counts.carried_in = u64::from(self.active);
        if let (Some(pacer), Some(open_loop)) = (&mut self.pacer, &mut self.recorder.measured.open_loop) {
            open_loop.carried_in = pacer.queued;
            pacer.spun_ns = 0;
        }
        self.loops = 0;
        self.events = 0;
        if self.plan.page_limit.is_some() {
            let stopped =
                (0..self.next_to_start).filter(|c| self.clients[*c as usize].doing == Doing::Stopped);
            self.runnable.extend(stopped);
        }
    }

    fn close(&mut self, at_ns: u64) {
        for index in 0..self.links.len() {
            for slot in 0..self.links[index].exchanges.slots() {
                let exchange = self.links[index].exchanges.at(slot);
                if exchange.progress != Progress::Over {
                    self.recorder.in_flight(exchange.start_ns, at_ns);
                }
            }
        }
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.doing == Doing::Waiting {
                let since = client.waiting_since_ns;
                self.recorder.waited(since, at_ns);
            }
            let held_since_ns = self.clients[index].held_since_ns;
            self.recorder.waited(held_since_ns, at_ns);
        }
        self.close_schedule(at_ns);
        self.stalls.close();
        let worker = WorkerUse {
            stalls: self.stalls.count,
            stalled_ns: self.stalls.all_ns,
            stalled_ns_max: self.stalls.longest_ns,
            spun_ns: self.pacer.as_ref().map_or(0, |pacer| pacer.spun_ns),
            cpu: self.cpu,
            backend: B::NAME.to_owned(),
            loops: self.loops,
            events: self.events,
            ..WorkerUse::default()
        };
        self.recorder.close(at_ns, worker);
        self.stop_all(at_ns);
    }

    fn stop_all(&mut self, at_ns: u64) {
        self.stage = Stage::Draining;
        self.drain_end_ns = at_ns + self.plan.drain_ns;
        self.timers.clear();
        if let Some(pacer) = &mut self.pacer {
            pacer.stop();
        }
        self.next_arrival_ns = u64::MAX;
        self.next_to_start = self.clients.len() as u32;
        self.shared.workers[self.number].draining.store(true, Relaxed);
    }

    fn publish(&self) {
        let totals = self.recorder.totals();
        let published = &self.shared.workers[self.number];
        let all_answered = self.next_to_start as usize == self.clients.len() && self.first_answers_due == 0;
        published.all_answered.store(all_answered, Relaxed);
        if let Some(open_loop) = &self.recorder.measured.open_loop {
            published.planned.store(open_loop.planned, Relaxed);
            published.offered.store(open_loop.started, Relaxed);
        }
        published.requests.store(totals.requests, Relaxed);
        published.errors.store(totals.errors, Relaxed);
        published.connections.store(totals.connections, Relaxed);
        published.pages.store(totals.pages, Relaxed);
        published.bytes.store(totals.bytes, Relaxed);
        published.response_ns.store(totals.response_ns, Relaxed);
    }

    /// In open loop: all clients stand by for arrivals, and none starts of itself.
    fn stand_by(&mut self, now: u64) {
        let Some(pacer) = &mut self.pacer else { return };
        pacer.begin(now);
        for client in &mut self.clients {
            client.doing = Doing::Free;
            client.answered = true;
            client.waiting_since_ns = now;
        }
        self.next_to_start = self.clients.len() as u32;
        self.note_next_arrival();
    }

    /// Starts clients at a pace: a few hundred may wait for their first answer at a time, so that a listen queue is
    /// not flooded, but a slow server holds nobody back for long.
    /// Whether any was.
    fn start_clients(&mut self, now: u64) -> bool {
        let all = self.clients.len() as u32;
        if self.next_to_start >= all || self.stage == Stage::Draining {
            return false;
        }
        let before = self.next_to_start;
        let by_time = (now.saturating_sub(self.go_ns) * STARTED_PER_SECOND / 1_000_000_000) as u32;
        while self.next_to_start < all
            && (self.first_answers_due < STARTED_AT_ONCE || self.next_to_start < by_time)
        {
            let client = self.next_to_start;
            self.next_to_start += 1;
            self.first_answers_due += 1;
            self.start_page(client, now, now);
        }
        self.next_to_start > before
    }

    /// Whether any client's pause has ended.
    fn wake_clients(&mut self, now: u64) -> bool {
        let mut any = false;
        while let Some(Reverse((at, client))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            any = true;
            self.timers.pop();
            let since = self.clients[client as usize].waiting_since_ns;
            self.recorder.waited(since, now);
            self.client_is_free(client, now);
        }
        any
    }

    /// A link that nobody uses.
    pub(crate) fn free_link(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        self.links.push(Link::vacant());
        self.links.len() as u32 - 1
    }

    /// Gives a link's place back; its socket, if it kept one, may be connected again.
    pub(crate) fn give_back(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        link.state = LinkState::Free;
        link.deadline_ns = u64::MAX;
        self.free.push(index);
    }
}
