//! One level: start the workers, open and close the measured window, gather what they measured.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use webstone_model::event::{Live, Phase};
use webstone_model::metrics::Measured;
use webstone_model::rate::RateProfile;

use crate::h1::session::Http1;
use crate::h2::session::Http2;
use crate::layer::{Layer, Plain};
use crate::live::Merged;
use crate::observe::Observer;
use crate::plan::Plan;
use crate::session::Session;
use crate::sys;
use crate::sys::clock::now_ns;
use crate::tls::Tls;
use crate::transactions::{TraceEvent, Transaction};
use crate::worker::{ANNOUNCE_NS, Published, Seat, Shared, Worker};

/// How often the level looks at its workers where something may have to be done, and where nothing but an interruption.
const WATCH_EVERY: Duration = Duration::from_millis(5);
const WATCH_SELDOM: Duration = Duration::from_millis(40);
/// How long the window waits, behind the warm-up, for clients that have had no answer yet. Then it opens without them:
/// clients that starve are a result.
const FIRST_ANSWERS_NS_MAX: u64 = 20_000_000_000;

/// One level to run: how many clients, at which rate, on which plan.
#[derive(Clone)]
pub struct LevelJob {
    /// What to request and how.
    pub plan: Arc<Plan>,
    /// Number of clients.
    pub clients: u32,
    /// Open loop: arrivals that clients serve; they stand by until one comes. Absent: closed loop.
    pub rate: Option<RateProfile>,
    /// Receives the first exchanges whole, where the specification asks for a trace.
    pub trace: Option<SyncSender<TraceEvent>>,
    /// Receives every transaction, where the specification asks for them.
    pub transactions: Option<SyncSender<Vec<Transaction>>>,
}

/// The result of a level.
#[derive(Clone, Debug)]
pub struct LevelOutcome {
    /// Everything measured, all workers together.
    pub measured: Measured,
    /// Wall-clock time at which the window opened.
    pub opened_at: SystemTime,
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
}

/// Ends a level early and watches it, from another thread. One per level.
#[derive(Debug, Default)]
pub struct Control {
    phase: AtomicU8,
    end: AtomicBool,
    abort: AtomicBool,
    shared: OnceLock<Arc<Shared>>,
    merged: Merged,
}

impl Control {
    /// A control for one level.
    pub fn new() -> Arc<Control> {
        Arc::new(Control::default())
    }

    /// Closes the window now; what was measured is returned as usual.
    pub fn end_window(&self) {
        self.end.store(true, Ordering::Relaxed);
    }

    /// Ends everything at once, without a drain; what was measured is still returned.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        self.end_window();
    }

    /// The phase of the level.
    pub fn phase(&self) -> Phase {
        [Phase::Starting, Phase::WarmUp, Phase::Measuring, Phase::Draining, Phase::Done]
            [usize::from(self.phase.load(Ordering::Relaxed))]
    }

    /// How long it is until the window opens, once that is known: nothing from then on.
    pub fn opens_in(&self) -> Option<Duration> {
        let open_ns = self.shared.get()?.open_ns.load(Ordering::Relaxed);
        (open_ns != u64::MAX).then(|| Duration::from_nanos(open_ns.saturating_sub(now_ns())))
    }

    /// Totals so far. Cheap; does not disturb the workers.
    pub fn live(&self) -> Live {
        let Some(shared) = self.shared.get() else { return Live::default() };
        let sum = |field: fn(&Published) -> &AtomicU64| {
            shared.workers.iter().map(|worker| field(worker).load(Ordering::Relaxed)).sum()
        };
        let open_ns = shared.open_ns.load(Ordering::Relaxed);
        let end_ns = now_ns().min(shared.close_ns.load(Ordering::Relaxed));
        Live {
            elapsed_ns: end_ns.saturating_sub(open_ns),
            planned: sum(|w| &w.planned),
            offered: sum(|w| &w.offered),
            requests: sum(|w| &w.requests),
            errors: sum(|w| &w.errors),
            connections: sum(|w| &w.connections),
            pages: sum(|w| &w.pages),
            bytes: sum(|w| &w.bytes),
            response_ns: sum(|w| &w.response_ns),
            response: self.merged.of(shared.workers.iter().map(|worker| &worker.copied)),
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// Runs one level to its end and returns what it measured. Blocks; workers are threads of their own.
pub fn run_level(job: &LevelJob, control: &Arc<Control>) -> Result<LevelOutcome, EngineError> {
    let plan = &job.plan;
    let workers = plan.workers.min(job.clients).max(1);
    let shared = Arc::new(Shared {
        open_ns: AtomicU64::new(u64::MAX),
        close_ns: AtomicU64::new(u64::MAX),
        abort: AtomicBool::new(false),
        settle: AtomicBool::new(false),
        pages_left: AtomicU64::new(plan.page_limit.unwrap_or(u64::MAX)),
        traced: AtomicU32::new(0),
        workers: (0..workers).map(|_| Published::default()).collect(),
    });
    let threads = start_workers(job, &shared, workers)?;
    // A control serves one level; a second use would show the first one's totals.
    let _ = control.shared.set(shared.clone());
    let go_ns = now_ns() + 1_000_000;
    if plan.warmup_ns == 0 {
        open_at(plan, &shared, go_ns);
    }
    let running: Vec<JoinHandle<_>> = threads.into_iter().map(|thread| thread.go(go_ns)).collect();
    control.enter(Phase::WarmUp);
    let interrupted = watch(plan, &shared, control, &running, go_ns);
    let opened_at = wall_clock_of(shared.open_ns.load(Ordering::Relaxed));

    let mut measured = Measured::default();
    let mut failure = None;
    for (number, thread) in running.into_iter().enumerate() {
        match thread.join() {
            Ok(Ok(part)) => measured.merge_parallel(part),
            Ok(Err(source)) => {
                failure = Some(EngineError::System { what: "waiting for sockets (epoll_wait)", source })
            }
            Err(_) => failure = Some(EngineError::WorkerPanicked(number)),
        }
    }
    control.enter(Phase::Done);
    match failure {
        Some(error) => Err(error),
        None => Ok(LevelOutcome { measured, opened_at, interrupted }),
    }
}

/// A worker that is set up and waits for the word.
struct Waiting {
    go: mpsc::Sender<u64>,
    thread: JoinHandle<std::io::Result<Measured>>,
}

impl Waiting {
    fn go(self, go_ns: u64) -> JoinHandle<std::io::Result<Measured>> {
        // A worker that died meanwhile says so when it is joined.
        let _ = self.go.send(go_ns);
        self.thread
    }
}

/// What a worker's thread begins with.
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
    /// Sets a worker up, waits for the word, and runs it.
    fn work(mut self) -> std::io::Result<Measured> {
        let backend = sys::Epoll::new(self.plan.receives_bodies())?;
        let observer = Observer::new(self.trace.take(), self.transactions.take());
        // A worker is compiled for each protocol over each layer, so that a request pays for no other.
        match (self.plan.is_h2(), self.plan.tls.is_some()) {
            (false, false) => self.run::<Plain, Http1>(backend, observer),
            (false, true) => self.run::<Tls, Http1>(backend, observer),
            (true, false) => self.run::<Plain, Http2>(backend, observer),
            (true, true) => self.run::<Tls, Http2>(backend, observer),
        }
    }

    fn run<L: Layer, P: Session>(self, backend: sys::Epoll, observer: Observer) -> std::io::Result<Measured> {
        let worker = Worker::<_, L, P>::new(self.plan, self.shared, self.seat, backend, observer)?;
        if self.seat.rate.is_some() {
            sys::thread::wake_punctually();
        }
        let _ = self.ready.send(());
        drop(self.ready);
        match self.word.recv() {
            Ok(go_ns) => worker.run(go_ns),
            // The level was given up before it began.
            Err(_) => Ok(Measured::default()),
        }
    }
}

/// Whether each worker has a table of open files of its own, so that the limit on descriptors is for each by itself.
pub fn workers_own_descriptors() -> bool {
    sys::thread::may_own_descriptors()
}

/// Starts the workers, each with its share of the clients, and waits until all are ready.
fn start_workers(job: &LevelJob, shared: &Arc<Shared>, workers: u32) -> Result<Vec<Waiting>, EngineError> {
    let (ready, all_ready) = mpsc::channel();
    let mut threads = Vec::new();
    for number in 0..workers {
        // Those that share connections stay together.
        let together = job.plan.clients_per_connection;
        let groups = job.clients.div_ceil(together);
        let first_of = |number| share(groups, workers, number).saturating_mul(together).min(job.clients);
        let first = first_of(number);
        let clients = first_of(number + 1) - first;
        let cpu = job.plan.cpus.get(number as usize % job.plan.cpus.len().max(1)).copied();
        let (go, word) = mpsc::channel();
        let rate = job.rate;
        let (ready, plan, shared) = (ready.clone(), job.plan.clone(), shared.clone());
        let (trace, transactions) = (job.trace.clone(), job.transactions.clone());
        let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            // Where it fails, all workers share the process's.
            sys::thread::own_descriptors();
            // Pinning first: memory that the worker fills then lies near its CPU.
            let pinned = cpu.filter(|cpu| sys::thread::pin(*cpu).is_ok());
            let seat =
                Seat { number: number as usize, workers, cpu: pinned, first_client: first, clients, rate };
            Start { plan, shared, seat, trace, transactions, ready, word }.work()
        });
        let thread = thread.map_err(|source| EngineError::System { what: "starting a thread", source })?;
        threads.push(Waiting { go, thread });
    }
    drop(ready);
    // Ends early if a worker failed to set up; its error comes out when it is joined.
    for _ in 0..workers {
        if all_ready.recv().is_err() {
            break;
        }
    }
    Ok(threads)
}

/// First client of a worker when `clients` are dealt evenly.
fn share(clients: u32, workers: u32, number: u32) -> u32 {
    (u64::from(clients) * u64::from(number) / u64::from(workers)) as u32
}

/// How long a level needs no watching: each look takes a CPU from something, from a worker perhaps.
fn quiet_time(plan: &Plan, shared: &Shared) -> Duration {
    let is_open = shared.open_ns.load(Ordering::Relaxed) != u64::MAX;
    if !is_open || plan.page_limit.is_some() {
        return WATCH_EVERY;
    }
    let left_ns = shared.close_ns.load(Ordering::Relaxed).saturating_sub(now_ns());
    Duration::from_nanos(left_ns).clamp(WATCH_EVERY, WATCH_SELDOM)
}

fn open_at(plan: &Plan, shared: &Shared, open_ns: u64) {
    // The end first: a worker that sees the window open must know when it closes.
    if plan.duration_ns > 0 {
        shared.close_ns.store(open_ns + plan.duration_ns, Ordering::SeqCst);
    }
    shared.open_ns.store(open_ns, Ordering::SeqCst);
}

/// Sees the level through its phases until its workers are done; whether it was interrupted.
fn watch<T>(plan: &Plan, shared: &Shared, control: &Control, running: &[JoinHandle<T>], go_ns: u64) -> bool {
    let mut interrupted = false;
    let all =
        |flag: fn(&Published) -> &AtomicBool| shared.workers.iter().all(|w| flag(w).load(Ordering::Relaxed));
    while !running.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(quiet_time(plan, shared));
        let now = now_ns();
        let is_open = shared.open_ns.load(Ordering::Relaxed) != u64::MAX;
        let warm_ns = go_ns + plan.warmup_ns;
        let is_warm = now >= warm_ns && (all(|w| &w.all_answered) || now >= warm_ns + FIRST_ANSWERS_NS_MAX);
        if !is_open && is_warm {
            shared.settle.store(plan.page_limit.is_some(), Ordering::Relaxed);
            if plan.page_limit.is_none() || all(|w| &w.settled) {
                open_at(plan, shared, now + ANNOUNCE_NS);
            }
        }
        if control.end.load(Ordering::Relaxed) && !interrupted && !all(|w| &w.draining) {
            interrupted = true;
            let close_ns = (now + ANNOUNCE_NS).min(shared.close_ns.load(Ordering::Relaxed));
            shared.close_ns.store(close_ns, Ordering::Relaxed);
        }
        if control.abort.load(Ordering::Relaxed) {
            shared.abort.store(true, Ordering::Relaxed);
        }
        if all(|w| &w.draining) {
            control.enter(Phase::Draining);
        } else if now >= shared.open_ns.load(Ordering::Relaxed) {
            control.enter(Phase::Measuring);
        }
    }
    interrupted
}

/// The wall-clock time of an instant on the monotonic clock that lies near now.
fn wall_clock_of(instant_ns: u64) -> SystemTime {
    let (wall, now) = (SystemTime::now(), now_ns());
    if instant_ns > now { wall } else { wall - Duration::from_nanos(now - instant_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_dealt_evenly() {
        for (clients, workers) in [(10, 3), (1, 1), (7, 7), (100_000, 64)] {
            let sizes: Vec<u32> =
                (0..workers).map(|w| share(clients, workers, w + 1) - share(clients, workers, w)).collect();
            assert_eq!(sizes.iter().sum::<u32>(), clients);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }
}
