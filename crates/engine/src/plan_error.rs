//! Why a plan cannot be made.

/// Why a specification cannot be run: always something that the user can fix.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct PlanError {
    /// What is wrong: the option or file, the value, the rule.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl PlanError {
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> PlanError {
        PlanError { what: what.into(), hint: Some(hint.into()) }
    }
}
