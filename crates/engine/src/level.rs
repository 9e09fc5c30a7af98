//! One level: starts the workers, opens and closes the measured window, and collects what they measured.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use webstone_measure::live::Phase;
use webstone_measure::metrics::Measured;
use webstone_measure::rate::RateProfile;

use crate::control::{Control, LevelClock, Opening};
use crate::h1::pipeline::Pipelined;
use crate::h1::session::Http1;
use crate::h2::session::Http2;
use crate::h3::session::Http3;
use crate::layer::{Layer, Plain};
use crate::loop_clock::TICK_NS;
use crate::observe::Observer;
use crate::plan::Plan;
use crate::seats::{Seats, clients_of, pages_of};
use crate::session::Session;
use crate::shared::{Published, Shared};
use crate::slices::{Judgements, Sliced, Slices};
use crate::sys;
use crate::sys::clock::now_ns;
use crate::tls::Tls;
use crate::transactions::{TraceEvent, Transaction};
use crate::worker::{Seat, Worker};

/// How often the level checks its workers: when something may have to be done, and when only an interruption can
/// happen.
const WATCH_EVERY: Duration = Duration::from_millis(5);
const WATCH_SELDOM: Duration = Duration::from_millis(100);
/// How long the window waits, after the warm-up, for clients that have had no answer yet. Then it opens without them:
/// clients that starve are a result.
const FIRST_ANSWERS_NS_MAX: u64 = 20_000_000_000;

/// One level to run: its clients, rate and plan, and which part of it is made here.
#[derive(Clone)]
pub struct LevelJob {
    /// What to request and how.
    pub plan: Arc<Plan>,
    /// Number of clients, on all hosts.
    pub clients: u32,
    /// Open loop: arrivals, on all hosts, for which clients wait. Absent: closed loop.
    pub rate: Option<RateProfile>,
    /// Which part of the level is made here.
    pub seats: Seats,
    /// Who decides when it begins and when its window opens.
    pub opening: Opening,
    /// Length of the slices that are counted by themselves, in nanoseconds; 0 for none. See [`LevelOutcome::sliced`].
    pub slice_ns: u64,
    /// In closed loop: who asks the workers for echoes ([`Echo`](crate::Echo)), the first one the first worker, and so on.
    pub echoes: Vec<SocketAddr>,
    /// Receives the first exchanges completely, if the specification asks for a trace.
    pub trace: Option<SyncSender<TraceEvent>>,
    /// Receives every transaction, if the specification asks for them.
    pub transactions: Option<SyncSender<Vec<Transaction>>>,
}

impl LevelJob {
    /// A closed loop of this many clients on this host alone, which decides itself when its window opens.
    pub fn new(plan: Arc<Plan>, clients: u32) -> LevelJob {
        let groups = clients.div_ceil(plan.clients_per_connection);
        let seats = Seats::all_here(plan.workers.min(groups).max(1));
        LevelJob {
            plan,
            clients,
            rate: None,
            seats,
            opening: Opening::Own,
            slice_ns: 0,
            echoes: Vec::new(),
            trace: None,
            transactions: None,
        }
    }

    /// The numbers within the level of the clients on this host: [`Measured::clients`] has the same order. Empty if
    /// the seats are invalid.
    pub fn clients_here(&self) -> Range<u32> {
        match self.seats.check() {
            Ok(()) => self.seats.clients(self.clients, self.plan.clients_per_connection),
            Err(_) => 0..0,
        }
    }

    /// The workers that are started here, each with its clients; workers without clients are left out.
    pub(crate) fn dealt(&self) -> Result<Vec<Seat>, EngineError> {
        self.seats.check().map_err(EngineError::Seats)?;
        let mut dealt = Vec::new();
        for worker in 0..self.seats.workers {
            let slots = self.seats.slots(worker);
            let clients = clients_of(slots, self.clients, self.plan.clients_per_connection);
            if !clients.is_empty() {
                dealt.push(Seat {
                    number: dealt.len(),
                    slots,
                    cpu: None,
                    first_client: clients.start,
                    clients: clients.len() as u32,
                    rate: self.rate,
                    echo: self.echoes.get(dealt.len()).copied(),
                });
            } else if self.rate.is_some() {
                let what = format!(
                    "{slots:?} have arrivals and no client to serve them; deal at most as many slots as there are \
                     clients, or groups of clients that share a connection"
                );
                return Err(EngineError::Seats(what));
            }
        }
        Ok(dealt)
    }
}

/// The result of a level.
#[derive(Debug)]
pub struct LevelOutcome {
    /// Everything measured here, all workers together; empty if the window has slices.
    pub measured: Measured,
    /// The window's slices, if the job asks for them: [`Sliced::together`] makes the figures.
    pub sliced: Option<Sliced>,
    /// Wall-clock time at which the window opened.
    pub opened_at: SystemTime,
    /// When the window opened, on the clock of [`Control::now_ns`]; absent where it did not.
    pub opened_ns: Option<u64>,
    /// When the last worker closed it, on the same clock.
    pub closed_ns: Option<u64>,
    /// Whether [`Control::end_window`] or [`Control::abort`] ended it before its time.
    pub interrupted: bool,
}

/// Why a level could not run at all. Failed requests are not such errors: they are counted.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A system call that the event loop cannot do without failed.
    #[error("{what} failed: {source}")]
    System {
        /// The call, in words.
        what: &'static str,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A worker panicked: a defect of this program.
    #[error("worker {0} panicked; this is a defect of webstone, please report it")]
    WorkerPanicked(usize),
    /// The given part of the level is invalid.
    #[error("the level cannot be shared among hosts like this: {0}")]
    Seats(String),
}

/// Runs one level, or this host's part of it, and returns what it measured. Blocks until the end; workers are threads
/// of their own.
pub fn run_level(job: &LevelJob, control: &Arc<Control>) -> Result<LevelOutcome, EngineError> {
    let plan = &job.plan;
    let dealt = job.dealt()?;
    let (here, clients) = (job.clients_here(), job.clients);
    let pages_left = plan.page_limit.map(|pages| pages_of(pages, &here, clients));
    if let Some(pages) = plan.page_limit {
        // In a repetition test, the hosts before this one have the first pages, and the others the last.
        plan.sampler.begin_turn(pages_of(pages, &(0..here.start), clients));
    }
    let mut shared = Shared::new(plan, pages_left.unwrap_or(u64::MAX), dealt.len());
    shared.judgements = Judgements::new(job.slice_ns, plan.duration_ns);
    let shared = Arc::new(shared);
    let (running, words) = start_workers(job, &shared, dealt)?;
    let course = LevelClock::new(plan, job.opening, shared);
    control.watches(&course);
    match words {
        Some(words) => course.armed(words),
        None => course.end(),
    }
    if job.opening == Opening::Own {
        control.enter(Phase::WarmUp);
    }
    let interrupted = watch(plan, &course, control, &running);
    let open_ns = course.shared.opening.get();
    let opened_at = wall_clock_of(open_ns);
    // A host without workers opens the window by waiting for its instant.
    let is_open_without = running.is_empty() && !interrupted;

    let (mut measured, mut workers) = (Measured::default(), Vec::new());
    let (mut failure, mut span_ns) = (None, 0);
    for (number, thread) in running.into_iter().enumerate() {
        match thread.join() {
            Ok(Ok((ending, Some(slices)))) => {
                span_ns = span_ns.max(slices.span_ns());
                workers.push((ending, slices));
            }
            Ok(Ok((part, None))) => {
                span_ns = span_ns.max(part.window_ns);
                measured.merge_parallel(part);
            }
            Ok(Err(source)) => {
                failure = Some(EngineError::System { what: "waiting for sockets (epoll_wait)", source })
            }
            Err(_) => failure = Some(EngineError::WorkerPanicked(number)),
        }
    }
    control.enter(Phase::Done);
    if let Some(error) = failure {
        return Err(error);
    }
    let opened_ns = (span_ns > 0 || is_open_without).then_some(open_ns);
    let closed_ns = opened_ns.map(|opened_ns| opened_ns + span_ns);
    let shared = Arc::clone(&course.shared);
    let sliced = (!workers.is_empty()).then_some(Sliced { workers, shared });
    Ok(LevelOutcome { measured, sliced, opened_at, opened_ns, closed_ns, interrupted })
}

/// What a worker returns.
type Part = (Measured, Option<Slices>);

/// What a worker's thread starts with.
struct Start {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    seat: Seat,
    trace: Option<SyncSender<TraceEvent>>,
    transactions: Option<SyncSender<Vec<Transaction>>>,
    ready: mpsc::Sender<()>,
    word: mpsc::Receiver<u64>,
}

impl Start {
    /// Sets up a worker, waits for the instant at which to begin, and runs it.
    fn work(mut self) -> std::io::Result<Part> {
        let backend = sys::Epoll::new(self.plan.receives_bodies())?;
        let observer = Observer::new(self.trace.take(), self.transactions.take());
        // A worker is compiled for each protocol over each layer, so that a request pays only for its own.
        match (self.plan.is_h2(), self.plan.tls.is_some()) {
            _ if self.plan.is_h3() => self.run::<Plain, Http3>(backend, observer),
            (false, false) if self.plan.is_pipelined() => self.run::<Plain, Pipelined>(backend, observer),
            (false, true) if self.plan.is_pipelined() => self.run::<Tls, Pipelined>(backend, observer),
            (false, false) => self.run::<Plain, Http1>(backend, observer),
            (false, true) => self.run::<Tls, Http1>(backend, observer),
            (true, false) => self.run::<Plain, Http2>(backend, observer),
            (true, true) => self.run::<Tls, Http2>(backend, observer),
        }
    }

    fn run<L: Layer, P: Session>(self, backend: sys::Epoll, observer: Observer) -> std::io::Result<Part> {
        let worker = Worker::<_, L, P>::new(self.plan, self.shared, self.seat, backend, observer)?;
        if self.seat.rate.is_some() {
            sys::thread::wake_punctually();
        }
        let _ = self.ready.send(());
        drop(self.ready);
        match begins(&self.word) {
            Some(go_ns) => worker.run(go_ns),
            None => Ok(Part::default()),
        }
    }
}

/// Waits for the instant at which to begin, until shortly before it: `None` if the level is given up first.
fn begins(word: &mpsc::Receiver<u64>) -> Option<u64> {
    let go_ns = word.recv().ok()?;
    let ahead_ns = go_ns.saturating_sub(now_ns() + TICK_NS);
    if ahead_ns > 0
        && word.recv_timeout(Duration::from_nanos(ahead_ns)) == Err(RecvTimeoutError::Disconnected)
    {
        return None;
    }
    Some(go_ns)
}

/// Whether each worker has its own table of open files, so that the limit on open files applies to each separately.
pub fn workers_own_descriptors() -> bool {
    sys::thread::may_own_descriptors()
}

/// The workers' threads, and how to tell each when to begin; `None` if one could not be set up.
type Started = (Vec<JoinHandle<std::io::Result<Part>>>, Option<Vec<mpsc::Sender<u64>>>);

/// Starts the workers, each with its clients, and waits until all are ready.
fn start_workers(job: &LevelJob, shared: &Arc<Shared>, dealt: Vec<Seat>) -> Result<Started, EngineError> {
    let (ready, all_ready) = mpsc::channel();
    let (mut threads, mut words) = (Vec::new(), Vec::new());
    for mut seat in dealt {
        let number = seat.number;
        let cpu = job.plan.cpus.get(number % job.plan.cpus.len().max(1)).copied();
        let (go, word) = mpsc::channel();
        let (ready, plan, shared) = (ready.clone(), job.plan.clone(), shared.clone());
        let (trace, transactions) = (job.trace.clone(), job.transactions.clone());
        let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            // If it fails, all workers share the process's table.
            sys::thread::own_descriptors();
            // Pin first, so that the worker's memory is allocated near its CPU.
            seat.cpu = cpu.filter(|cpu| sys::thread::pin(*cpu).is_ok());
            Start { plan, shared, seat, trace, transactions, ready, word }.work()
        });
        threads.push(thread.map_err(|source| EngineError::System { what: "starting a thread", source })?);
        words.push(go);
    }
    drop(ready);
    // A worker that fails to set up drops its sender; its error is returned when it is joined.
    let are_ready = threads.iter().all(|_| all_ready.recv().is_ok());
    Ok((threads, are_ready.then_some(words)))
}

/// How long a level need not be checked: each check takes CPU time from something, perhaps from a worker.
fn quiet_time(plan: &Plan, shared: &Shared) -> Duration {
    let is_open = shared.opening.get() != u64::MAX;
    if !is_open || plan.page_limit.is_some() {
        return WATCH_EVERY;
    }
    let (now, open_ns) = (now_ns(), shared.opening.get());
    // Not while workers open the window, but soon after.
    let next_ns =
        if now < open_ns { open_ns.saturating_add(WATCH_EVERY.as_nanos() as u64) } else { shared.close_ns() };
    Duration::from_nanos(next_ns.saturating_sub(now)).clamp(WATCH_EVERY, WATCH_SELDOM)
}

/// Takes the level through its phases until its workers are done; returns whether it was interrupted.
fn watch<T>(plan: &Plan, course: &LevelClock, control: &Control, running: &[JoinHandle<T>]) -> bool {
    let shared = &*course.shared;
    let mut interrupted = false;
    let all =
        |flag: fn(&Published) -> &AtomicBool| shared.workers.iter().all(|w| flag(w).load(Ordering::Relaxed));
    let is_draining = || !running.is_empty() && all(|w| &w.draining);
    let is_open = || now_ns() >= shared.opening.get();
    // Without workers, wait for the window to open.
    let is_done = |interrupted| match running {
        [] => interrupted || is_open(),
        _ => running.iter().all(JoinHandle::is_finished),
    };
    while !is_done(interrupted) {
        std::thread::sleep(quiet_time(plan, shared));
        let now = now_ns();
        let go_ns = course.lock().go_ns;
        if let Some(go_ns) = go_ns.filter(|_| !course.is_opening()) {
            let warm_ns = go_ns.saturating_add(plan.warmup_ns);
            let patience_ns = warm_ns.saturating_add(FIRST_ANSWERS_NS_MAX);
            let is_warm = now >= warm_ns && (all(|w| &w.all_answered) || now >= patience_ns);
            if is_warm {
                shared.settle.store(plan.page_limit.is_some(), Ordering::Relaxed);
                if plan.page_limit.is_none() || all(|w| &w.settled) {
                    course.warm(now_ns);
                }
            }
        }
        if control.end.load(Ordering::SeqCst) && !interrupted && !is_draining() {
            interrupted = true;
            course.end();
        }
        if control.abort.load(Ordering::Relaxed) {
            shared.abort.store(true, Ordering::Relaxed);
        }
        if is_draining() {
            control.enter(Phase::Draining);
        } else if now >= shared.opening.get() {
            control.enter(Phase::Measuring);
        } else if go_ns.is_some_and(|go_ns| now >= go_ns) {
            control.enter(Phase::WarmUp);
        }
    }
    interrupted
}

/// The wall-clock time of an instant on the monotonic clock near now.
fn wall_clock_of(instant_ns: u64) -> SystemTime {
    let (wall, now) = (SystemTime::now(), now_ns());
    if instant_ns > now { wall } else { wall - Duration::from_nanos(now - instant_ns) }
}
