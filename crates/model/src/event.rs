//! What a run tells while it runs: owned and serialisable, so that the live display, a file of JSON lines and a browser read the
//! same. `docs/events.md` is for readers.

use schemars::JsonSchema;
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

/// Version of the events' schema. It grows when a reader of the older one would misread.
pub const EVENTS_SCHEMA: u32 = 1;

/// What one of several hosts has made of an open window so far, as it last said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LiveHost {
    /// Which of the run's generators, from 0.
    pub generator: u32,
    /// The host's own name.
    pub name: String,
    /// How many clients it has.
    pub clients: u32,
    /// Time since its window opened, in nanoseconds.
    pub elapsed_ns: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that succeeded per second, between the last two times that it spoke.
    pub request_rate: f64,
    /// Percentiles of its own response times so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<LivePercentiles>,
    /// Share of one CPU that its busiest worker used in the last second, from 0 to 1; absent where its kernel keeps no account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_worker: Option<f64>,
    /// How its clock stands to the controller's.
    pub clock: ClockOffset,
    /// How long nothing has come from it, in nanoseconds.
    pub silent_ns: u64,
}

/// Where a step stands in the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// Its number in the order of running, from 1.
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
    /// Which level runs.
    pub fn level(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }
}

/// What a level's iteration came to. The record has all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// Whether the user cut it off.
    pub interrupted: bool,
    /// Requests that succeeded in the window.
    pub succeeded: u64,
    /// Requests that failed in the window.
    pub failed: u64,
    /// Identities that do not hold.
    pub identities_broken: usize,
    /// Open loop: how well the schedule was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleKept>,
    /// The figures.
    pub figures: Figures,
}

impl Ended {
    /// Of an iteration.
    pub fn of(iteration: &IterationRecord) -> Ended {
        Ended {
            interrupted: iteration.interrupted,
            succeeded: iteration.measured.counts.succeeded,
            failed: iteration.measured.counts.failed,
            identities_broken: iteration.identities.iter().filter(|check| !check.holds).count(),
            schedule: iteration.schedule,
            figures: Figures::of(&iteration.measured),
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Something before the load begins.
    Preparing {
        /// In words: "starting the embedded server".
        what: String,
    },
    /// Everything is ready; the first level starts next.
    RunStarted {
        /// Name of the record's directory.
        id: String,
        /// Path of that directory while the run lasts, where the run is stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The server under test.
        #[serde(deserialize_with = "of_a_record")]
        target: Box<TargetRecord>,
        /// Name of the workload.
        workload: String,
        /// What was asked for, with every default filled in and without secrets.
        #[serde(deserialize_with = "of_a_record")]
        spec: Box<RunSpec>,
        /// Steps of the sweep.
        steps: usize,
        /// Time that the whole sweep takes as planned, drains not included, in nanoseconds; absent where pages end the levels.
        #[serde(skip_serializing_if = "Option::is_none")]
        planned_ns: Option<u64>,
        /// Whether a level has more clients than start at once, so that its start takes time besides.
        paced: bool,
        /// Of a load that several hosts make: which has which share, in words.
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
        /// Where it stands.
        phase: Phase,
        /// Totals over the open window so far.
        live: Live,
    },
    /// A window is open on several hosts; once a second.
    Hosts {
        /// Which.
        at: Position,
        /// Each host that has a part in it.
        hosts: Vec<LiveHost>,
    },
    /// A level ended and, where the run is stored, is on the disk.
    LevelEnded {
        /// Which.
        at: Position,
        /// What it came to.
        level: Box<Ended>,
    },
    /// A timed run was void and will be made again; it is on the disk as such.
    Void {
        /// Which.
        at: Position,
        /// What was taken from whom, in a sentence without its end.
        why: String,
    },
    /// Something that the user should know and that stops nothing. It is in the record's warnings as well.
    Warning {
        /// What.
        text: String,
    },
    /// The run is over, however it ended.
    Finished {
        /// How it ended.
        state: RunState,
        /// Path of the stored record, under its final name where it could be given one.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A series: a cell's part of a round begins. The events of its run follow.
    Turn {
        /// The cell's name.
        cell: String,
        /// Round, from 1.
        round: u32,
        /// Rounds of the series.
        rounds: u32,
        /// Turns that are left, this one included.
        turns_left: u32,
        /// What they will take, as those before did, in nanoseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        time_left_ns: Option<u64>,
    },
    /// A series: the cell failed; the others go on.
    CellFailed {
        /// The cell's name.
        cell: String,
        /// Why.
        error: String,
    },
}

/// Reads what records hold too; structs from tables alone.
fn of_a_record<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<Box<T>, D::Error> {
    strict::tree(&Value::deserialize(from)?).map(Box::new).map_err(D::Error::custom)
}

/// A line of `--events`: one event and when it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "webstone event")]
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
        let level = Box::new(Ended::of(&IterationRecord::default()));
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
