//! Events of a run while it runs: owned and serialisable, so that the live display, a file of JSON lines and a
//! browser all read the same. Documented for users in `docs/events.md`.

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::generators::ClockOffset;
use crate::record::{IterationRecord, RunState, ScheduleKept, TargetRecord};
use crate::spec::RunSpec;
use webstone_measure::figures::Figures;
use webstone_measure::keys::LevelKey;
use webstone_measure::rate::RateProfile;
use webstone_measure::strict;

pub use webstone_measure::live::{Live, LivePercentiles, Phase};

/// Version of the events' schema. It is raised when older readers would misunderstand a change.
pub const EVENTS_SCHEMA: u32 = 1;

/// One of several hosts in an open window so far, as last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LiveHost {
    /// Which of the run's generators, from 0.
    pub generator: u32,
    /// The host's own name.
    pub name: String,
    /// Number of its clients.
    pub clients: u32,
    /// Time since its window opened, in nanoseconds.
    pub elapsed_ns: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that succeeded per second, between its last two reports.
    pub request_rate: f64,
    /// Percentiles of its own response times so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<LivePercentiles>,
    /// Share of one CPU that its busiest worker used in the last second, from 0 to 1; absent if its kernel does not
    /// report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_worker: Option<f64>,
    /// The offset of its clock from the controller's.
    pub clock: ClockOffset,
    /// Time since its last report, in nanoseconds.
    pub silent_ns: u64,
}

/// The position of a step in the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    /// Its number in the order of execution, from 1.
    pub step: usize,
    /// Steps of the whole sweep: levels × iterations.
    pub steps: usize,
    /// Clients of the level.
    pub clients: u32,
    /// Open loop: its rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// Which of the level's iterations, from 1.
    pub iteration: u32,
}

impl Position {
    /// The current level.
    pub fn level(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }
}

/// Summary of a level's iteration. The record has all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ended {
    /// Whether the user cut it off.
    pub interrupted: bool,
    /// Requests that succeeded in the window.
    pub succeeded: u64,
    /// Requests that failed in the window.
    pub failed: u64,
    /// Number of identities that do not hold.
    pub identities_broken: usize,
    /// Open loop: how well the schedule was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleKept>,
    /// The figures.
    pub figures: Figures,
}

impl Ended {
    /// The summary of an iteration.
    pub fn of_iteration(iteration: &IterationRecord) -> Ended {
        Ended {
            interrupted: iteration.interrupted,
            succeeded: iteration.measured.counts.succeeded,
            failed: iteration.measured.counts.failed,
            identities_broken: iteration.identities.iter().filter(|check| !check.holds).count(),
            schedule: iteration.schedule,
            figures: Figures::of_measured(&iteration.measured),
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Something before the load begins.
    Preparing {
        /// In words: "starting the embedded server".
        what: String,
    },
    /// What is done before the load takes longer than a second.
    Waiting {
        /// In words: "checking http://127.0.0.1:8080/ …".
        what: String,
    },
    /// Everything is ready; the first level starts next.
    RunStarted {
        /// Name of the record's directory.
        id: String,
        /// Path of that directory during the run, if the run is stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The server under test.
        #[serde(deserialize_with = "of_a_record")]
        target: Box<TargetRecord>,
        /// Name of the workload.
        workload: String,
        /// The specification, with every default filled in and without secrets.
        #[serde(deserialize_with = "of_a_record")]
        spec: Box<RunSpec>,
        /// Steps of the sweep.
        steps: usize,
        /// Planned time of the whole sweep, without drains, in nanoseconds; absent if levels end by pages.
        #[serde(skip_serializing_if = "Option::is_none")]
        planned_ns: Option<u64>,
        /// Whether a level has more clients than start at once, so that starting them takes additional time.
        paced: bool,
        /// If several hosts make the load: the share of each, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dealt: Option<String>,
    },
    /// A level starts.
    LevelStarted {
        /// Which.
        at: Position,
    },
    /// A level is running; about ten times a second.
    Tick {
        /// Which.
        at: Position,
        /// Its phase.
        phase: Phase,
        /// Totals over the open window so far.
        live: Live,
    },
    /// A window is open on several hosts; once per second.
    Hosts {
        /// Which.
        at: Position,
        /// Each host with a part in it.
        hosts: Vec<LiveHost>,
    },
    /// A level ended and, if the run is stored, is on the disk.
    LevelEnded {
        /// Which.
        at: Position,
        /// Its summary.
        level: Box<Ended>,
    },
    /// A timed run was void and will be repeated; it is stored as void.
    Void {
        /// Which.
        at: Position,
        /// Who lost CPU time and how much, as a sentence without its full stop.
        why: String,
    },
    /// Something that the user should know but that stops nothing. Also in the record's warnings.
    Warning {
        /// The warning.
        text: String,
    },
    /// The run has ended, successfully or not.
    Finished {
        /// How it ended.
        state: RunState,
        /// Path of the stored record, under its final name if that was possible.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A series: a cell's turn in a round begins. The events of its run follow.
    Turn {
        /// The cell's name.
        cell: String,
        /// Round, from 1.
        round: u32,
        /// Rounds of the series.
        rounds: u32,
        /// Turns that are left, including this one.
        turns_left: u32,
        /// The time that they will take, judging by those before, in nanoseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        time_left_ns: Option<u64>,
    },
    /// A series: the cell failed; the others continue.
    CellFailed {
        /// The cell's name.
        cell: String,
        /// Why.
        error: String,
    },
}

/// Reads what is also part of records: structs only from tables.
fn of_a_record<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<Box<T>, D::Error> {
    strict::tree(&Value::deserialize(from)?).map(Box::new).map_err(D::Error::custom)
}

/// A line of `--events`: one event, and when it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "webstone event"))]
pub struct EventLine {
    /// [`EVENTS_SCHEMA`] of the writer.
    pub schema: u32,
    /// When it happened (RFC 3339, UTC).
    pub time: String,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_back_from_its_line() {
        let at = Position { step: 1, steps: 4, clients: 20, rate: None, iteration: 1 };
        let response =
            Some(LivePercentiles { count: 9, p50_ns: 1, p90_ns: 2, p99_ns: 3, p999_ns: 4, max_ns: 5 });
        let live = Live { elapsed_ns: 7, requests: 9, response, ..Live::default() };
        let level = Box::new(Ended::of_iteration(&IterationRecord::default()));
        let started = Event::RunStarted {
            id: "r".to_owned(),
            path: None,
            target: Box::default(),
            workload: "standard".to_owned(),
            spec: Box::default(),
            steps: 4,
            planned_ns: Some(1),
            paced: false,
            dealt: None,
        };
        for event in [
            started,
            Event::Tick { at, phase: Phase::WarmUp, live },
            Event::LevelEnded { at, level },
            Event::Finished { state: RunState::Complete, path: Some("runs/r".to_owned()) },
        ] {
            let line =
                EventLine { schema: EVENTS_SCHEMA, time: "2026-01-01T00:00:00.000Z".to_owned(), event };
            let text = serde_json::to_string(&line).unwrap();
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<EventLine>(&text).unwrap(), line, "{text}");
        }
        let tick = Event::Tick { at, phase: Phase::WarmUp, live };
        let text = serde_json::to_string(&tick).unwrap();
        assert!(
            text.starts_with(
                r#"{"event":"tick","at":{"step":1,"steps":4,"clients":20,"iteration":1},"phase":"warm-up""#
            ),
            "{text}"
        );
    }
}
