//! Why several hosts cannot make load together, and what to do about it.

use webstone_lab::agent::AgentError;

/// Why there is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// An agent did not start, or fell silent.
    #[error("generator {number}: {source}")]
    Agent {
        /// Which, from 1.
        number: usize,
        /// Why.
        source: AgentError,
    },
    /// The target cannot be put under load, seen from a host.
    #[error("from generator {number} ({name}): {what}")]
    Target {
        /// Which, from 1.
        number: usize,
        /// The host's own name.
        name: String,
        /// What was tried and what came of it.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// A host cannot make its part, or must not.
    #[error("{what}")]
    Refused {
        /// What is wrong.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// The user wants no more.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl FleetError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            FleetError::Agent { source, .. } => Some(source.hint()),
            FleetError::Target { hint, .. } | FleetError::Refused { hint, .. } => Some(hint.clone()),
            FleetError::Interrupted => None,
        }
    }
}
