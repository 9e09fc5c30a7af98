//! Why a run did not end as planned: what to do about it, and who has to.

use webstone_engine::PlanError;
use webstone_measure::errors::Blame;

use crate::check::SpecError;
use crate::fleet::FleetError;
use crate::placement::PlacementError;
use crate::preflight::needs::Shortage;
use crate::preflight::target::TargetError;
use crate::record_all::RecordAllError;
use crate::sweep::SweepError;
use crate::workload_source::WorkloadSourceError;
use webstone_lab::agent::AgentError;
use webstone_lab::embedded::EmbeddedServerError;
use webstone_lab::environment::configuration::ConfigurationError;
use webstone_lab::servers::ServerError;
use webstone_store::StoreError;

/// Why a run did not end as planned.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The specification breaks a rule.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// It cannot be done as asked.
    #[error("{what}")]
    Refused {
        /// What, and why.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// There is no workload.
    #[error(transparent)]
    Workload(#[from] WorkloadSourceError),
    /// The server's configuration cannot be read.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// CPUs that are not available.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The machine cannot carry the run.
    #[error("{0}")]
    Shortage(Shortage),
    /// The target does not answer, or not as the workload needs it.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The embedded server did not start.
    #[error(transparent)]
    Server(#[from] EmbeddedServerError),
    /// The server under test did not start.
    #[error(transparent)]
    UnderTest(#[from] Box<ServerError>),
    /// The agent on the server's host did not start.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A host that is to make load is not available.
    #[error(transparent)]
    Fleet(FleetError),
    /// The engine cannot run the specification.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The record cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Transactions cannot be written.
    #[error(transparent)]
    RecordAll(#[from] RecordAllError),
    /// The sweep ended early.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// The user ended the run before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl From<FleetError> for RunError {
    fn from(error: FleetError) -> RunError {
        match error {
            FleetError::Interrupted => RunError::Interrupted,
            error => RunError::Fleet(error),
        }
    }
}

impl RunError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            RunError::Spec(error) => Some(error.remedy.clone()),
            RunError::Refused { hint, .. } => Some(hint.clone()),
            RunError::Workload(error) => error.hint(),
            RunError::Configuration(error) => Some(error.hint().to_owned()),
            RunError::Placement(error) => Some(error.hint()),
            RunError::Shortage(shortage) => Some(shortage.remedy.clone()),
            RunError::Target(error) => Some(error.hint.clone()),
            RunError::Server(error) => error.hint().map(str::to_owned),
            RunError::UnderTest(error) => error.hint(),
            RunError::Agent(error) => Some(error.hint()),
            RunError::Fleet(error) => error.hint(),
            RunError::Plan(error) => error.hint.clone(),
            RunError::Store(error) => error.hint().map(str::to_owned),
            RunError::RecordAll(error) => Some(error.hint().to_owned()),
            RunError::Sweep(SweepError::Store(error)) => error.hint().map(str::to_owned),
            RunError::Sweep(SweepError::RecordAll(error)) => Some(error.hint().to_owned()),
            RunError::Sweep(_) | RunError::Interrupted => None,
        }
    }

    /// Who has to act: what was asked for is [`Blame::User`]'s, and the exit code says so.
    pub fn blame(&self) -> Blame {
        match self {
            RunError::Spec(_)
            | RunError::Refused { .. }
            | RunError::Workload(_)
            | RunError::Configuration(_)
            | RunError::Placement(_)
            | RunError::Plan(_)
            | RunError::Agent(AgentError::Command { .. })
            | RunError::Interrupted => Blame::User,
            RunError::Target(error) if error.is_usage => Blame::User,
            RunError::Target(_) | RunError::Fleet(FleetError::Target { .. }) => Blame::Target,
            RunError::UnderTest(error) if matches!(**error, ServerError::Refused(_)) => Blame::User,
            _ => Blame::Generator,
        }
    }
}
