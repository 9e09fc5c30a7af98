//! The limits of `bars.toml`, and the check of a session against them.

use serde::{Deserialize, Serialize};

use crate::statistics::Spread;

/// One limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Mode.
    pub mode: String,
    /// The tool that must reach it.
    pub tool: String,
    /// The tool that it is compared with, where the quantity is a ratio of two tools.
    pub against: Option<String>,
    /// What is limited.
    #[serde(default)]
    pub quantity: Quantity,
    /// The only server on which it is judged; absent: every server of the mode.
    pub server: Option<String>,
    /// Largest value that passes.
    pub at_most: f64,
    /// What is known to be possible.
    pub aim: Option<f64>,
    /// Why it is not held yet.
    pub pending: Option<String>,
}

/// What a bar limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Client CPU time per request, as a ratio to another tool's.
    #[default]
    Cpu,
    /// Memory for each further connection, in bytes.
    ConnectionBytes,
    /// CPU time per request: the most expensive number of clients, divided by the cheapest.
    CpuGrowth,
    /// CPU time per request with two workers, as a ratio to that of one beside another process.
    SecondWorker,
    /// Lateness of a schedule's requests, 99th percentile in microseconds.
    LatenessP99Us,
}

/// How a bar came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// At or below the limit.
    Met,
    /// Above it, as the least client of the same run is; webstone needs little more than that one.
    AtFloor,
    /// Above it.
    Missed,
    /// A tool, a mode or a server was not part of the session.
    NotMeasured,
    /// Not held yet.
    Pending,
}

/// A bar with what was measured on one server.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The bar.
    #[serde(flatten)]
    pub bar: Bar,
    /// The server.
    pub on: String,
    /// What was measured, round by round.
    pub measured: Option<Spread>,
    /// What the least client that these system calls allow reaches. It decides if that client misses the bar itself.
    pub floor: Option<Spread>,
    /// Share of a CPU that the tool and the one it is compared with used, 0 to 1: medians. Where a client sleeps because the
    /// server is slower, being woken is part of what a request costs it.
    pub busy: Option<(f64, f64)>,
    /// How it came out.
    pub outcome: Outcome,
}

/// If the least client misses a bar itself, webstone may need this factor more than that one.
const OVER_FLOOR_MAX: f64 = 1.15;

impl Quantity {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Cpu => "CPU/request",
            Quantity::ConnectionBytes => "bytes/connection",
            Quantity::CpuGrowth => "CPU/request, dearest to cheapest of 10 to 10,000 clients",
            Quantity::SecondWorker => "CPU/request, two workers to two processes of one",
            Quantity::LatenessP99Us => "lateness p99, µs",
        }
    }

    /// Decimals that are worth printing.
    pub fn decimals(self) -> usize {
        match self {
            Quantity::ConnectionBytes => 0,
            Quantity::LatenessP99Us => 1,
            _ => 3,
        }
    }
}

impl Outcome {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::AtFloor => "at the floor",
            Outcome::Missed => "MISSED",
            Outcome::NotMeasured => "not measured",
            Outcome::Pending => "pending",
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

    /// How the bar comes out with what was measured of its tool, and of the least client of the same run.
    pub fn outcome(&self, measured: Option<Spread>, floor: Option<Spread>) -> Outcome {
        let is_near_floor = |measured: Spread| {
            floor.is_some_and(|floor| {
                floor.median >= self.at_most && measured.median <= OVER_FLOOR_MAX * floor.median
            })
        };
        match measured {
            _ if self.pending.is_some() => Outcome::Pending,
            None => Outcome::NotMeasured,
            Some(measured) if measured.median <= self.at_most => Outcome::Met,
            Some(measured) if is_near_floor(measured) => Outcome::AtFloor,
            Some(_) => Outcome::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::modes::{Mode, Server};
    use crate::tools::KNOWN;

    #[test]
    fn the_bars_of_the_repository_name_what_exists_or_is_to_come() {
        let bars = Bar::all().unwrap();
        assert!(bars.len() > 30);
        for bar in &bars {
            let mode = Mode::all().find(|mode| mode.name() == bar.mode);
            let known = |tool: &str| KNOWN.iter().any(|known| known.name == tool);
            assert_ne!(mode.is_some() && known(&bar.tool), bar.pending.is_some(), "{bar:?}");
            assert_eq!(bar.against.is_some(), bar.quantity == Quantity::Cpu, "{bar:?}");
            assert!(bar.against.as_deref().is_none_or(known), "{bar:?}");
            let servers = mode.map_or(Server::value_variants(), Mode::servers);
            let is_loaded = |name: &String| servers.iter().any(|server| server.name() == *name);
            assert!(bar.server.as_ref().is_none_or(is_loaded), "{bar:?}");
            assert!(bar.aim.is_none_or(|aim| aim < bar.at_most), "{bar:?}");
        }
        let key = |bar: &Bar| (bar.mode.clone(), bar.tool.clone(), bar.against.clone(), bar.quantity.name());
        let mut keys: Vec<_> = bars.iter().map(key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), bars.len(), "a bar stands there twice");
    }

    #[test]
    fn a_bar_is_met_missed_not_measured_or_pending() {
        let bar = |pending: Option<&str>| Bar {
            mode: "large".into(),
            tool: "webstone".into(),
            against: Some("wrk".into()),
            quantity: Quantity::Cpu,
            server: None,
            at_most: 0.5,
            aim: None,
            pending: pending.map(str::to_owned),
        };
        let judge = |pending, values: &[f64], floor: &[f64]| {
            let spread = |values: &[f64]| Spread::of_values(values.iter().copied());
            bar(pending).outcome(spread(values), spread(floor))
        };
        assert_eq!(judge(None, &[0.4, 0.5, 0.9], &[]), Outcome::Met);
        assert_eq!(judge(None, &[0.4, 0.51, 0.9], &[]), Outcome::Missed);
        assert_eq!(judge(None, &[], &[]), Outcome::NotMeasured);
        assert_eq!(judge(Some("to come"), &[9.0], &[]), Outcome::Pending);
        // A bar that nobody can meet.
        assert_eq!(judge(None, &[0.57], &[0.5]), Outcome::AtFloor);
        assert_eq!(judge(None, &[0.58], &[0.5]), Outcome::Missed);
        assert_eq!(judge(None, &[0.51], &[0.49]), Outcome::Missed);
    }
}
