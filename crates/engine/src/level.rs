//! One level: start the workers, open and close the measured window, gather what they measured.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::SystemTime;

use webstone_model::metrics::Measured;

use crate::plan::Plan;
use crate::transactions::{TraceEvent, Transaction};

/// One level to run: how many clients, on which plan.
#[derive(Clone)]
pub struct LevelJob {
    /// What to request and how.
    pub plan: Arc<Plan>,
    /// Number of clients.
    pub clients: u32,
    /// Receives the first exchanges whole, where the specification asks for a trace.
    pub trace: Option<SyncSender<TraceEvent>>,
    /// Receives every transaction, where the specification asks for them.
    pub transactions: Option<SyncSender<Vec<Transaction>>>,
}

/// What a level left behind.
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

/// Where a level stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Workers are being set up.
    Starting,
    /// Under load; nothing is counted yet.
    WarmUp,
    /// The window is open.
    Measuring,
    /// The window is closed; requests in progress may finish.
    Draining,
    /// Over.
    Done,
}

/// What a live display shows: totals over the open window so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Time since the window opened, in nanoseconds.
    pub elapsed_ns: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Connections established.
    pub connections: u64,
    /// Pages completed.
    pub pages: u64,
    /// Bytes of valid responses.
    pub bytes: u64,
    /// Σ response time, in nanoseconds.
    pub response_ns: u64,
}

/// Ends a level early and watches it, from another thread. One per level.
#[derive(Debug, Default)]
pub struct Control {}

impl Control {
    /// A control for one level.
    pub fn new() -> Arc<Control> {
        Arc::new(Control::default())
    }

    /// Closes the window now; what was measured is returned as usual.
    pub fn end_window(&self) {}

    /// Ends everything at once, without a drain; what was measured is still returned.
    pub fn abort(&self) {}

    /// Where the level stands.
    pub fn phase(&self) -> Phase {
        Phase::Done
    }

    /// Totals so far. Cheap; does not disturb the workers.
    pub fn live(&self) -> Live {
        Live::default()
    }
}

/// Runs one level to its end and returns what it measured. Blocks; workers are threads of their own.
pub fn run_level(_job: &LevelJob, _control: &Arc<Control>) -> Result<LevelOutcome, EngineError> {
    unreachable!("placeholder of the first commit")
}
