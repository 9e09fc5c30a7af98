//! Responses by status code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::add;

/// Responses by status code, for requests that ended within the window. A request that failed before the head of its
/// response was complete is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Statuses(pub BTreeMap<u16, u64>);

impl Statuses {
    /// From an array whose index is the status.
    pub fn of_counts(counts: &[u64]) -> Statuses {
        let seen = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Statuses(seen.map(|(status, count)| (status as u16, *count)).collect())
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All responses.
    pub fn sum(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds another worker's, host's or iteration's counts.
    pub fn merge(&mut self, other: &Statuses) {
        for (status, count) in &other.0 {
            add(self.0.entry(*status).or_default(), *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_add_up() {
        let mut counts = [0; 1000];
        (counts[200], counts[404]) = (5, 2);
        let mut statuses = Statuses::of_counts(&counts);
        statuses.merge(&Statuses([(200, 1), (503, 4)].into()));
        assert_eq!(statuses.0, [(200, 6), (404, 2), (503, 4)].into());
        assert_eq!(statuses.sum(), 12);
        let text = serde_json::to_string(&statuses).unwrap();
        assert_eq!(text, r#"{"200":6,"404":2,"503":4}"#);
        assert_eq!(serde_json::from_str::<Statuses>(&text).unwrap(), statuses);
    }
}
