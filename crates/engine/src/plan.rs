//! A specification and a workload, compiled: request bytes, addresses, limits.

use webstone_model::spec::RunSpec;
use webstone_model::workload::Workload;

/// Everything that a level needs to know before its first request, computed once.
#[derive(Debug)]
pub struct Plan {}

/// Why a specification cannot be run: always something that the user can mend.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct PlanError {
    /// What is wrong: the option or file, the value, the rule.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Plan {
    /// Compiles a run. `spec.target` must name at least one URL and `spec.generator` its workers: the caller has put
    /// the embedded server's address and its choice of workers there. Resolves host names.
    pub fn compile(_spec: &RunSpec, _workload: &Workload) -> Result<Plan, PlanError> {
        unreachable!("placeholder of the first commit")
    }
}
