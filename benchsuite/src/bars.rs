//! The limits of `bars.toml`, held against a session.

use serde::{Deserialize, Serialize};

use crate::statistics::Spread;

/// One limit: client CPU per request of `tool`, as a ratio to that of `against`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Mode.
    pub mode: String,
    /// The tool that must reach it.
    pub tool: String,
    /// The tool that it is compared with.
    pub against: String,
    /// Largest ratio that passes.
    pub at_most: f64,
    /// What is known to be possible.
    pub aim: Option<f64>,
}

/// How a bar came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// At or below the limit.
    Met,
    /// Above it.
    Missed,
    /// A tool or a mode was not part of the session.
    NotMeasured,
}

impl Outcome {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Missed => "MISSED",
            Outcome::NotMeasured => "not measured",
        }
    }
}

impl Bar {
    /// The bars of the repository.
    ///
    /// # Errors
    /// If the file is not what it should be.
    pub fn all() -> Result<Vec<Bar>, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            bar: Vec<Bar>,
        }
        let file: File =
            toml::from_str(include_str!("../bars.toml")).map_err(|error| format!("bars.toml: {error}"))?;
        Ok(file.bar)
    }

    /// Holds the bar against the rounds' ratios.
    pub fn judge(&self, ratio: Option<Spread>) -> Outcome {
        match ratio {
            None => Outcome::NotMeasured,
            Some(ratio) if ratio.median <= self.at_most => Outcome::Met,
            Some(_) => Outcome::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::Mode;

    #[test]
    fn the_bars_of_the_repository_name_modes_that_exist() {
        let bars = Bar::all().unwrap();
        assert!(bars.len() > 10);
        for bar in bars {
            assert!(Mode::ALL.iter().any(|mode| mode.name() == bar.mode), "{}", bar.mode);
            assert!(bar.aim.is_none_or(|aim| aim < bar.at_most));
        }
    }

    #[test]
    fn a_bar_is_met_missed_or_not_measured() {
        let bar = Bar {
            mode: "large".into(),
            tool: "webstone".into(),
            against: "wrk".into(),
            at_most: 0.5,
            aim: None,
        };
        assert_eq!(bar.judge(Spread::of([0.4, 0.5, 0.9])), Outcome::Met);
        assert_eq!(bar.judge(Spread::of([0.4, 0.51, 0.9])), Outcome::Missed);
        assert_eq!(bar.judge(None), Outcome::NotMeasured);
    }
}
