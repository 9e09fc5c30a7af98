//! What is wrong with a specification, for its author.

use webstone_lab::servers::Refusal;
use webstone_model::spec::RunSpec;
use webstone_workload::target::UrlError;

use super::Testbed;

/// A rule that a specification breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{key}: {rule}", place.as_ref().map_or_else(String::new, |place| format!("{place}: ")))]
pub struct SpecError {
    /// Where it was written, where that is known: file and line, or the cell of a series.
    pub place: Option<String>,
    /// The key, as in `load.clients`.
    pub key: String,
    /// The value and the rule. Other keys in it stand outside of backquotes.
    pub rule: String,
    /// What to do about it.
    pub remedy: String,
}

impl SpecError {
    pub(crate) fn new(key: &str, rule: impl Into<String>, remedy: impl Into<String>) -> SpecError {
        SpecError { place: None, key: key.to_owned(), rule: rule.into(), remedy: remedy.into() }
    }

    /// For a value that must not be what `is` says.
    pub(crate) fn value(
        key: &str,
        value: impl std::fmt::Display,
        is: &str,
        remedy: impl Into<String>,
    ) -> SpecError {
        SpecError::new(key, format!("`{value}` is {is}"), remedy)
    }

    /// For a zero that must be at least 1.
    pub(crate) fn zero(key: &str, remedy: &str) -> SpecError {
        SpecError::value(key, 0, "less than 1", remedy)
    }

    pub(crate) fn of_url(key: &str, error: &UrlError) -> SpecError {
        SpecError::new(key, error.to_string(), error.remedy.clone())
    }

    /// What a driver says begins with the key.
    pub(crate) fn refused(refusal: &Refusal) -> SpecError {
        let (key, rule) = refusal.what.split_once(": ").unwrap_or(("server", &refusal.what));
        SpecError::new(key, rule, refusal.hint.clone())
    }

    /// The same with its place in the file, where the value is the file's.
    pub(super) fn placed(self, testbed: &Testbed, spec: &RunSpec) -> SpecError {
        SpecError { place: self.place.clone().or_else(|| testbed.place(&self.key, spec)), ..self }
    }

    /// The same, of a cell of a series.
    pub(crate) fn of_cell(self, name: &str) -> SpecError {
        SpecError { place: self.place.or_else(|| Some(name.to_owned())), ..self }
    }
}
