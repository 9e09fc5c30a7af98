//! One worker: a thread with one event loop that carries many clients.
//!
//! This file holds the loop and its phases; `dispatch` passes events to links, `paging` is what a client does between
//! requests. Workers share nothing but [`Shared`], a few words that are written once or read rarely.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use webstone_measure::metrics::{Histogram, Measured, WorkerUse};
use webstone_measure::rate::RateProfile;
use webstone_workload::arrivals::Slots;

use crate::client::Doing;
use crate::clients::Clients;
use crate::echo::Answering;
use crate::exchange::{Exchanges, Progress};
use crate::layer::Layer;
use crate::line::Lines;
use crate::link::LinkState;
use crate::links::Links;
use crate::loop_clock::{LoopClock, TICK_NS};
use crate::observe::Observer;
use crate::pacing::{Pacer, Pacing};
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::resolver::Resolver;
use crate::sampling::Sampling;
use crate::session::Session;
use crate::shared::{Published, Shared};
use crate::slices::Slices;
use crate::sys::{Backend, EVENTS_PER_WAIT};
use crate::timers::{TIMER_NS, Timers};

/// How far ahead the opening and closing of the window are announced, so that every worker has read them in time.
pub(crate) const ANNOUNCE_NS: u64 = 3 * TICK_NS;
/// Token of the resolver's event; no link has this number.
pub(crate) const RESOLVER_TOKEN: u64 = u64::MAX;
/// Token of the ticker's event.
pub(crate) const TICKER_TOKEN: u64 = u64::MAX - 1;
/// Token of a question from the server's CPU.
pub(crate) const ECHO_TOKEN: u64 = u64::MAX - 2;

/// How far a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    WarmUp,
    Measuring,
    Draining,
    Done,
}

/// A worker's number, and its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    /// Its number among the workers of this host.
    pub(crate) number: usize,
    /// Its slots, of those of the whole level.
    pub(crate) slots: Slots,
    /// The CPU that it was pinned to.
    pub(crate) cpu: Option<u32>,
    /// Number of its first client within the level.
    pub(crate) first_client: u32,
    pub(crate) clients: u32,
    /// Open loop: the rate of all workers of all hosts together.
    pub(crate) rate: Option<RateProfile>,
    /// Who asks for echoes.
    pub(crate) echo: Option<SocketAddr>,
}

/// Each part changes only its own fields.
pub(crate) struct Worker<B: Backend, L: Layer, P: Session> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) seat: Seat,
    pub(crate) stage: Stage,
    drain_end_ns: u64,
    /// In closed loop: the instant from which clients begin no more pages; [`u64::MAX`] outside of duels.
    pub(crate) rests_from_ns: u64,
    /// Whether the time matters in every round: in open loop, with a limit of pages, and in a duel.
    pub(crate) is_timed: bool,
    /// In a duel: when the loop must be awake at the latest; otherwise [`u64::MAX`].
    pub(crate) awake_by_ns: u64,
    /// Events that were handled since deadlines are due to be enforced.
    unswept: usize,
    pub(crate) backend: B,
    pub(crate) clock: LoopClock,
    pub(crate) pacing: Pacing,
    pub(crate) clients: Clients,
    pub(crate) links: Links<B::Socket, L, P>,
    pub(crate) lines: Lines,
    /// What the layers of its links share.
    pub(crate) layers: L::Shared,
    /// What the sessions of its links share.
    pub(crate) memory: P::Memory,
    /// What is due on links over datagrams; unused otherwise.
    pub(crate) timers: Timers,
    /// In how many batches the last answer over datagrams came.
    pub(crate) usual_batches: usize,
    pub(crate) resolver: Option<Resolver>,
    echo: Option<Answering>,
    pub(crate) sampling: Sampling,
    pub(crate) recorder: Recorder,
    pub(crate) observer: Observer,
}

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// How often the ticker wakes the loop.
    const TICKER_NS: u64 = if P::DATAGRAMS { TIMER_NS } else { TICK_NS };

    /// A worker with its own back end. Must be called by the thread that runs it.
    pub(crate) fn new(
        plan: Arc<Plan>,
        shared: Arc<Shared>,
        seat: Seat,
        mut backend: B,
        observer: Observer,
    ) -> io::Result<Worker<B, L, P>> {
        let Seat { slots, first_client, clients, rate, .. } = seat;
        let pacer = rate.map(|rate| Pacer::new(&plan, rate, slots, clients));
        let shortest = plan.connect_timeout_ns.min(plan.first_byte_timeout_ns).min(plan.request_timeout_ns);
        let resolver = plan.resolve_each.then(|| Resolver::start(clients)).transpose()?;
        if let Some(resolver) = &resolver {
            backend.watch(resolver.waker(), RESOLVER_TOKEN)?;
        }
        let echo = seat.echo.and_then(|address| Answering::connect(address).ok());
        if let Some(echo) = &echo {
            backend.watch(echo, ECHO_TOKEN)?;
        }
        // For everything that may be late by a tick.
        backend.tick_every(Self::TICKER_NS, TICKER_TOKEN)?;
        let timers = if P::DATAGRAMS { Timers::new(backend.now_ns()) } else { Timers::default() };
        Ok(Worker {
            seat,
            stage: Stage::WarmUp,
            drain_end_ns: u64::MAX,
            rests_from_ns: u64::MAX,
            is_timed: rate.is_some() || plan.page_limit.is_some(),
            awake_by_ns: u64::MAX,
            unswept: 0,
            backend,
            clock: LoopClock::new(shortest),
            pacing: Pacing::new(pacer, plan.spin && clients > 0),
            clients: Clients::new(plan.seed, first_client, clients),
            links: Links::new(clients),
            lines: Lines::new(plan.bandwidth),
            layers: L::shared(&plan, slots.first),
            memory: P::memory(&plan, slots.first),
            timers,
            usual_batches: 1,
            resolver,
            echo,
            sampling: Sampling::new(),
            recorder: Recorder::new(&plan, clients as usize, rate.is_some(), shared.judgements.length_ns > 0),
            observer,
            plan,
            shared,
        })
    }

    /// Runs the level from `go_ns` to the end of the drain, and returns what was measured.
    pub(crate) fn run(mut self, go_ns: u64) -> io::Result<(Measured, Option<Slices>)> {
        self.clients.start_from(go_ns);
        self.backend.sleep_until(go_ns);
        self.clock.set(self.backend.now_ns());
        if self.pacing.is_open_loop() {
            self.pacing.begin(go_ns);
            self.clients.stand_by(go_ns);
        }
        while self.stage != Stage::Done {
            self.turn()?;
        }
        if P::DATAGRAMS {
            self.leave_all();
        }
        self.observer.flush();
        let slices = self.recorder.take_slices();
        Ok((self.recorder.finish(self.clients.requests_in_progress()), slices))
    }

    /// One round of the loop.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        let now = if self.only_answers_matter() { self.clock.read_ns() } else { self.now() };
        if now >= self.pacing.next_arrival_ns() {
            self.release_arrivals();
        }
        let mut began = self.start_clients(now);
        began |= self.wake_clients(now);
        began |= self.resume_held();
        began |= self.read_lines(now);
        let is_sweep_due = now >= self.clock.sweep_at_ns();
        if began {
            // However long this took, it was work and no stall.
            self.clock.set(self.backend.now_ns());
        }
        if self.stage == Stage::Draining && (now >= self.drain_end_ns || self.has_ended()) {
            self.stage = Stage::Done;
            return Ok(());
        }
        let mut until = self.clients.next_wake_ns().min(self.lines.next_due_ns());
        if self.minds_the_time() {
            until = until.min(self.clock.tick_ns()).min(self.clock.sweep_at_ns()).min(self.awake_by_ns);
        }
        if self.clients.any_held() {
            until = now;
        } else if !self.clients.all_started() {
            until = until.min(now + 1_000_000);
        }
        if self.links.held_over() > 0 {
            self.read_on();
            until = now;
        }
        if is_sweep_due {
            until = now;
        }
        if P::Exchanges::MANY {
            self.flush();
        }
        let count = self.wait(until, now)?;
        self.clock.reported(self.backend.now_ns(), count, || self.shared.close_ns());
        for index in 0..count {
            let event = self.backend.event(index);
            self.handle(event);
            if self.clock.read_ns() >= self.pacing.next_arrival_ns() {
                self.release_arrivals();
            }
        }
        if is_sweep_due {
            self.sweep(count);
        }
        Ok(())
    }

    /// Enforces deadlines once all events from before have been handled, of which the last wait brought `count`: while this program stood
    /// still, an answer may have arrived in time.
    #[cold]
    fn sweep(&mut self, count: usize) {
        // More may be queued than one wait returns: at most an event of each link.
        self.unswept += count;
        if count >= EVENTS_PER_WAIT && self.unswept < self.links.indices().len() {
            return;
        }
        self.unswept = 0;
        let now = self.now();
        self.clock.sweeps(now);
        self.enforce_deadlines(now);
        // However long this took, it was work and no stall.
        self.clock.set(self.backend.now_ns());
    }

    /// Handles what happened while the loop rested, before anything begins: a server may have closed connections, and said so.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        // Each link has one event at least, and who talks without end is heard again in the slice.
        for _ in 0..=self.links.indices().len() / EVENTS_PER_WAIT + 1 {
            let count = self.backend.wait(0)?;
            self.clock.reported(self.backend.now_ns(), count, || self.shared.close_ns());
            for index in 0..count {
                let event = self.backend.event(index);
                self.handle(event);
            }
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Whether every request has ended, and every connection that its server is to close has been closed: bytes that arrive until then
    /// count as well.
    fn has_ended(&self) -> bool {
        let lingers = |index| self.links[index].state == LinkState::Lingering;
        self.clients.requests_in_progress() == 0 && !self.links.indices().any(lingers)
    }

    /// Whether it matters if a tick is handled late, by up to another tick. If not, the loop waits without a time-out, and
    /// the ticker wakes it: every figure is recorded by the clock, not by when a tick was handled.
    fn minds_the_time(&self) -> bool {
        self.is_timed
            // A worker that sleeps through the opening of its window opens it late, even if it missed nothing else.
            || self.stage != Stage::Measuring
            || self.clock.sweeps_between_ticks()
    }

    /// Whether a round starts nothing by itself, so that the clock as read at the last answer is good enough. Anything
    /// else that is due waits for the tick.
    #[inline]
    fn only_answers_matter(&self) -> bool {
        !self.minds_the_time()
            && !self.clients.any_held()
            && self.clients.next_wake_ns() == u64::MAX
            && self.lines.next_due_ns() == u64::MAX
            && self.clients.all_started()
    }

    /// The ticker woke the loop.
    pub(crate) fn ticked(&mut self) {
        if let Some(ticks) = self.backend.take_ticks() {
            self.clock.ticked(&ticks, Self::TICKER_NS, self.shared.close_ns());
        }
        // Ticks and the loop's own instants are not in step: what is due within half a tick is done now, not at the next.
        let now = self.backend.now_ns();
        self.clock.set(now);
        if P::DATAGRAMS {
            self.run_timers(now);
        }
        if now + TICK_NS / 2 >= self.clock.tick_ns() {
            self.tick(now);
        }
    }

    /// The server's CPU asks for echoes.
    pub(crate) fn echo(&mut self) {
        let before = self.backend.now_ns();
        if let Some(echo) = &mut self.echo {
            echo.answer();
        }
        // However long this took, it was neither a stall nor load.
        let now = self.backend.now_ns();
        self.clock.set(now);
        self.pacing.add_awake(now - before);
    }

    /// Reads the clock, and does what has become due since it was last read.
    #[inline]
    pub(crate) fn now(&mut self) -> u64 {
        let now = self.backend.now_ns();
        if self.clock.stands_still(now) {
            self.clock.stood_still(now, self.shared.close_ns());
        }
        self.clock.set(now);
        if now >= self.clock.tick_ns() {
            self.tick(now);
        }
        now
    }

    /// Records how long an event waited for others of its batch: the generator's own delay.
    #[inline]
    pub(crate) fn note_delay(&mut self, now: u64) {
        self.recorder.loop_delay(self.clock.delay_ns(now));
    }

    #[cold]
    fn tick(&mut self, now: u64) {
        let open_ns = self.shared.opening.look(now);
        let mut close_ns = self.shared.closes_ns(open_ns);
        if close_ns <= now && self.stage == Stage::Measuring {
            self.shared.judgements.closes();
            close_ns = self.shared.closes_ns(open_ns);
        }
        if self.stage < Stage::Draining && !self.is_in_duel() {
            self.pacing.window_is(open_ns, close_ns);
        }
        if self.stage == Stage::WarmUp {
            if close_ns <= now && close_ns <= open_ns {
                // Ended before it opened: nothing is measured.
                self.stop_all(now);
            } else if open_ns <= now {
                // Even if the window is over: a worker that waited for its CPU all that time still had its clients.
                self.open(open_ns);
            } else if self.shared.settle.load(Relaxed) && self.clients.pages_in_progress() == 0 {
                self.published().settled.store(true, Relaxed);
            }
        }
        if self.stage == Stage::Measuring {
            let end = now.min(close_ns);
            self.recorder.end_seconds(end);
            while self.recorder.slice_end_ns() <= end {
                self.end_slice(self.recorder.slice_end_ns());
            }
            if close_ns <= now {
                self.close(close_ns);
            } else if self.is_out_of_pages() {
                self.close(self.clients.last_page_end_ns().max(self.recorder.open_ns() + 1));
            }
        }
        if self.shared.abort.load(Relaxed) && self.stage == Stage::Draining {
            self.drain_end_ns = now;
        }
        self.publish();
        self.leave_copy(now);
        let next_ns = now + TICK_NS;
        self.clock.tick_at(match self.stage {
            Stage::WarmUp => next_ns.min(self.shared.opening.soonest().max(now + 1)),
            Stage::Measuring => {
                let soonest_ns =
                    self.recorder.second_end_ns().min(self.recorder.slice_end_ns()).min(close_ns);
                let next_ns = next_ns.min(soonest_ns).max(now + 1);
                // The end of the last page is not known in advance; check for it more often.
                if self.plan.page_limit.is_some() { next_ns.min(now + TICK_NS / 10) } else { next_ns }
            }
            Stage::Draining | Stage::Done => next_ns.min(self.drain_end_ns.max(now + 1)),
        });
    }

    /// Leaves a copy of the response times for the watcher, once per second. It includes requests without an answer
    /// that have waited longer than the mean response time: shorter waits would only hide how long answers take.
    fn leave_copy(&mut self, now: u64) {
        let Some((mean_ns, response, failed)) = self.recorder.copy_due(now) else { return };
        let in_flight = || {
            let exchanges = self.links.exchanges().filter(|exchange| exchange.progress != Progress::Over);
            exchanges.map(|exchange| now.saturating_sub(exchange.intended_ns))
        };
        let failed = failed.into_iter().flat_map(Histogram::buckets);
        let failed = failed.flat_map(|(wait_ns, _, count)| (0..count).map(move |_| wait_ns));
        let published = &self.shared.workers[self.seat.number];
        published.oldest_in_flight_ns.store(in_flight().max().unwrap_or(0), Relaxed);
        published.copied.leave(response, in_flight().chain(failed).filter(|wait_ns| *wait_ns > mean_ns));
    }

    fn is_out_of_pages(&self) -> bool {
        self.plan.page_limit.is_some()
            && self.shared.pages_left.load(Relaxed) == 0
            && self.clients.pages_in_progress() == 0
            && self.clients.all_started()
    }

    pub(crate) fn open(&mut self, at_ns: u64) {
        self.stage = Stage::Measuring;
        let in_progress = (self.clients.requests_in_progress(), self.pacing.open());
        self.recorder.open(at_ns, in_progress, self.shared.judgements.length_ns);
        P::open_window(&mut self.memory, self.links.sessions());
        self.clock.open(at_ns);
        if self.plan.page_limit.is_some() {
            self.clients.resume_stopped();
        }
    }

    /// Ends a slice of the window and begins the next.
    fn end_slice(&mut self, at_ns: u64) {
        for exchange in self.links.exchanges().filter(|exchange| exchange.progress != Progress::Over) {
            self.recorder.in_progress(exchange, at_ns);
        }
        for client in self.clients.iter() {
            match client.doing {
                Doing::NotStarted => self.recorder.waited(self.clients.started_from_ns(), at_ns),
                Doing::Waiting => self.recorder.waited(client.waiting_since_ns, at_ns),
                Doing::Page | Doing::Free | Doing::Stopped => {}
            }
            self.recorder.waited(client.held_since_ns, at_ns);
        }
        self.free_in_slice(at_ns);
        let worker = self.worker_use(at_ns);
        P::close_window(&mut self.memory, &mut self.recorder.measured, self.links.sessions(), true);
        let in_progress = (self.clients.requests_in_progress(), self.pacing.open());
        let shared = (self.seat.number, &self.shared.judgements);
        self.recorder.end_slice(at_ns, worker, in_progress, shared);
        P::open_window(&mut self.memory, self.links.sessions());
        self.clock.begin_slice();
    }

    /// What the loop used in a part of the window that ends at `at_ns`, and how much of a stall is later.
    fn worker_use(&mut self, at_ns: u64) -> (WorkerUse, u64) {
        let (worker, later_ns) = self.clock.end_part(at_ns);
        let (spun_ns, backend) = (self.pacing.spun_ns(), B::NAME.to_owned());
        (WorkerUse { spun_ns, cpu: self.seat.cpu, backend, ..worker }, later_ns)
    }

    fn close(&mut self, at_ns: u64) {
        if self.recorder.is_in_slice(at_ns) {
            // What follows belongs to no slice.
            self.end_slice(at_ns);
        }
        for exchange in self.links.exchanges().filter(|exchange| exchange.progress != Progress::Over) {
            self.recorder.in_flight(&self.plan, exchange, at_ns);
        }
        for begun_ns in self.links.connecting() {
            self.recorder.connecting(begun_ns, at_ns);
        }
        for client in self.clients.iter() {
            match client.doing {
                Doing::NotStarted => self.recorder.waited(self.clients.started_from_ns(), at_ns),
                Doing::Waiting => self.recorder.waited(client.waiting_since_ns, at_ns),
                Doing::Page => self.recorder.page_in_progress(client.intended_ns, at_ns),
                Doing::Free | Doing::Stopped => {}
            }
            self.recorder.waited(client.held_since_ns, at_ns);
        }
        // First: counting millions of arrivals that wait takes time, which is not of the window.
        // With what is kept of every window, whichever slices are left out.
        let opening_delay_ns = self.clock.opening_delay_ns();
        let worker = WorkerUse { opening_delay_ns, ..self.worker_use(at_ns).0 };
        self.close_schedule(at_ns);
        self.recorder.close(at_ns, worker);
        P::close_window(&mut self.memory, &mut self.recorder.measured, self.links.sessions(), false);
        self.stop_all(at_ns);
    }

    fn stop_all(&mut self, at_ns: u64) {
        self.stage = Stage::Draining;
        self.drain_end_ns = at_ns + self.plan.drain_ns;
        self.clients.wake_no_more();
        self.clients.start_no_more();
        self.pacing.stop();
        self.published().draining.store(true, Relaxed);
    }

    fn published(&self) -> &Published {
        &self.shared.workers[self.seat.number]
    }

    fn publish(&self) {
        let totals = self.recorder.totals();
        let published = self.published();
        published.all_answered.store(self.clients.all_answered(), Relaxed);
        if let Some((planned, started)) = self.recorder.arrivals() {
            published.planned.store(planned, Relaxed);
            published.offered.store(started, Relaxed);
        }
        published.requests.store(totals.requests, Relaxed);
        published.errors.store(totals.errors, Relaxed);
        published.connections.store(totals.connections, Relaxed);
        published.pages.store(totals.pages, Relaxed);
        published.bytes.store(totals.bytes, Relaxed);
        published.response_ns.store(totals.response_ns, Relaxed);
    }

    /// Starts clients at a limited pace; returns whether any was started.
    fn start_clients(&mut self, now: u64) -> bool {
        if self.stage == Stage::Draining {
            return false;
        }
        let mut any = false;
        while let Some(client) = self.clients.next_to_start(now) {
            any = true;
            // Starting those before it took time, which is the load generator's and not the server's.
            let starts_ns = self.now();
            // Without a warm-up the window is already open.
            self.recorder.waited(self.clients.started_from_ns(), starts_ns);
            self.start_page(client, starts_ns, starts_ns);
            self.send_begun();
        }
        any
    }

    /// Ends the pauses that are over; returns whether there were any.
    fn wake_clients(&mut self, now: u64) -> bool {
        let mut any = false;
        while let Some(client) = self.clients.next_awake(now) {
            any = true;
            let woken_ns = self.now();
            self.recorder.waited(self.clients[client].waiting_since_ns, woken_ns);
            self.client_is_free(client, woken_ns);
            self.send_begun();
        }
        any
    }
}
