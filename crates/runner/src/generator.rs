//! The load generator as the sweep sees it: the engine, or in tests a script with known numbers, so that a whole sweep
//! can be asserted to the last digit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use webstone_engine::{
    Control, Echo, EngineError, LevelJob, LevelOutcome, Plan, PlanError, TraceEvent, Transaction, run_level,
};
use webstone_lab::environment::is_virtual;
use webstone_lab::machine::Root;
use webstone_measure::rate::RateProfile;
use webstone_model::event::{Live, LiveHost, Phase};
use webstone_model::generators::{GeneratorLoss, GeneratorPart};
use webstone_model::record::Disturbance;
use webstone_model::spec::{GeneratorSpec, RunSpec, parse_cpu_list};
use webstone_workload::Workload;

use crate::fleet::FleetError;
use crate::slicing::SlicedLevel;

/// Before a level, others on the generator's CPUs are looked for: for this part of its duration, but within these bounds.
const DURATIONS_PER_DISTURBANCE: u32 = 50;
pub(crate) const DISTURBANCE_MIN: Duration = Duration::from_millis(10);
const DISTURBANCE_MAX: Duration = Duration::from_millis(100);

/// Where a level's details go, where anybody wants them.
#[derive(Default)]
pub(crate) struct Outputs {
    /// The first exchanges, whole.
    pub(crate) trace: Option<SyncSender<TraceEvent>>,
    /// Every transaction.
    pub(crate) transactions: Option<SyncSender<Vec<Transaction>>>,
    /// Length of the slices in which its window is counted, in nanoseconds; 0 for none.
    pub(crate) slice_ns: u64,
    /// Who asks its workers for echoes.
    pub(crate) echoes: Vec<SocketAddr>,
    /// Which of the level's iterations it is, for hosts that write their own files of transactions.
    pub(crate) iteration: u32,
}

/// Turns a specification into levels.
pub(crate) trait LoadGenerator: Sync {
    /// A level that has not begun; with a rate, an open loop.
    fn level(&self, clients: u32, rate: Option<RateProfile>, outputs: Outputs) -> Box<dyn Level>;
}

/// What became of a level.
pub(crate) struct Made {
    pub(crate) outcome: LevelOutcome,
    /// What each host had of it; empty where this one made it alone.
    pub(crate) parts: Vec<GeneratorPart>,
    /// The host that was lost, which makes it void.
    pub(crate) lost: Option<GeneratorLoss>,
}

/// Why a level could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LevelError {
    /// Here.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// On several hosts.
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

/// One level: run on a thread of its own, watched and ended from another.
pub(crate) trait Level: Send + Sync {
    /// Runs it to its end. Called once.
    fn run(&self) -> Result<Made, LevelError>;
    /// Closes the window now.
    fn end_window(&self);
    /// Ends everything at once.
    fn abort(&self);
    /// Where it stands.
    fn phase(&self) -> Phase;
    /// Totals so far.
    fn live(&self) -> Live;
    /// The same of each host, where several make it.
    fn hosts(&self) -> Vec<LiveHost> {
        Vec::new()
    }
    /// Access to its window's slices; `None` if it has none.
    fn slices(&self) -> Option<&dyn SlicedLevel> {
        None
    }
    /// Time until the window opens, once that is known; zero after it has opened.
    fn opens_in(&self) -> Option<Duration>;
}

/// Makes a load generator for a specification whose target and workers are decided.
pub(crate) type Compile<'a> = &'a dyn Fn(&RunSpec, &Workload) -> Result<Box<dyn LoadGenerator>, PlanError>;

/// The engine.
pub(crate) fn engine(spec: &RunSpec, workload: &Workload) -> Result<Box<dyn LoadGenerator>, PlanError> {
    Ok(Box::new(Engine { plan: Arc::new(Plan::compile(&spec.task(), workload)?) }))
}

/// What other programs take of the generator's CPUs while it is idle, so that its own use need not be subtracted.
pub(crate) fn looked_for(spec: &RunSpec) -> Option<Disturbance> {
    let cpus = parse_cpu_list(&spec.generator.cpus).unwrap_or_default();
    let length = spec.load.duration.as_duration() / DURATIONS_PER_DISTURBANCE;
    let length = length.clamp(DISTURBANCE_MIN, DISTURBANCE_MAX);
    Some(webstone_engine::disturbance(&cpus, length)).filter(|seen| seen.looked_ns > 0)
}

/// An echo for each of the server's CPUs on this host. Only on a virtual machine, if workers here are pinned to other CPUs, and not in open loop,
/// where comparisons do not use them and they would wake workers that sleep.
pub(crate) fn echoes(spec: &RunSpec, rate: Option<RateProfile>, server_cpus: &[u32]) -> Vec<Echo> {
    let GeneratorSpec { pin, cpus, .. } = &spec.generator;
    let is_made_here = spec.generators.is_empty() && *pin && !cpus.is_empty();
    if rate.is_some() || !is_made_here || !is_virtual(&Root::default()) {
        return Vec::new();
    }
    server_cpus.iter().filter_map(|_| Echo::listen().ok()).collect()
}

struct Engine {
    plan: Arc<Plan>,
}

impl LoadGenerator for Engine {
    fn level(&self, clients: u32, rate: Option<RateProfile>, outputs: Outputs) -> Box<dyn Level> {
        let Outputs { trace, transactions, slice_ns, echoes, .. } = outputs;
        let job = LevelJob {
            rate,
            trace,
            transactions,
            slice_ns,
            echoes,
            ..LevelJob::new(Arc::clone(&self.plan), clients)
        };
        Box::new(EngineLevel { job, control: Control::new() })
    }
}

struct EngineLevel {
    job: LevelJob,
    control: Arc<Control>,
}

impl Level for EngineLevel {
    fn run(&self) -> Result<Made, LevelError> {
        let outcome = run_level(&self.job, &self.control)?;
        Ok(Made { outcome, parts: Vec::new(), lost: None })
    }

    fn end_window(&self) {
        self.control.end_window();
    }

    fn abort(&self) {
        self.control.abort();
    }

    fn phase(&self) -> Phase {
        self.control.phase()
    }

    fn live(&self) -> Live {
        self.control.live()
    }

    fn slices(&self) -> Option<&dyn SlicedLevel> {
        (self.job.slice_ns > 0).then_some(&*self.control as &dyn SlicedLevel)
    }

    fn opens_in(&self) -> Option<Duration> {
        self.control.opens_in()
    }
}
