//! What a run tells while it runs. The command line turns these into a live display or plain lines; tests turn them
//! into lists.

use std::path::Path;
use std::time::Duration;

use webstone_engine::{Live, Phase};
use webstone_model::rate::RateProfile;
use webstone_model::record::{IterationRecord, RunRecord, RunState};

/// Receives the events of a run, in order, on the thread that called [`crate::run()`].
pub trait Observer {
    /// One event. It should return soon: ticks of the running level wait for it, the load does not.
    fn event(&mut self, event: Event<'_>);
}

/// Every function of one event is an observer.
impl<F: FnMut(Event<'_>)> Observer for F {
    fn event(&mut self, event: Event<'_>) {
        self(event)
    }
}

/// Where a step stands in the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its number in the order of running, from 1.
    pub step: usize,
    /// Steps of the whole sweep: levels × iterations.
    pub steps: usize,
    /// Clients of the level.
    pub clients: u32,
    /// Open loop: its rate.
    pub rate: Option<RateProfile>,
    /// Which of the level's iterations, from 1.
    pub iteration: u32,
}

/// One thing that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something before the load begins, in words: "starting the embedded server".
    Preparing(&'a str),
    /// Everything is ready; the first level starts next.
    RunStarted {
        /// The record so far: specification, workload, target, environment; no iterations.
        record: &'a RunRecord,
        /// Directory that the record is being written to, where it is stored.
        path: Option<&'a Path>,
        /// Steps of the sweep.
        steps: usize,
        /// Time that the whole sweep takes as planned, drains not included; `None` where pages end the levels.
        planned: Option<Duration>,
        /// Whether a level has more clients than start at once, so that its start takes time beside `planned`.
        paced: bool,
    },
    /// A level starts.
    LevelStarted(Position),
    /// A level is running; about ten times a second.
    Tick {
        /// Which.
        at: Position,
        /// Where it stands.
        phase: Phase,
        /// Totals over the open window so far.
        live: Live,
    },
    /// A level ended and, where the run is stored, is on the disk.
    LevelEnded {
        /// Which.
        at: Position,
        /// What it left behind.
        iteration: &'a IterationRecord,
    },
    /// A timed run was void and will be made again; it is on the disk as such.
    Void {
        /// Which.
        at: Position,
        /// What was taken from whom, in a sentence without its end.
        why: &'a str,
    },
    /// Something that the user should know and that stops nothing. It is in the record's warnings as well.
    Warning(&'a str),
    /// The run is over, however it ended. [`crate::run()`] returns the record and the error next.
    Finished {
        /// How it ended.
        state: RunState,
        /// Directory of the stored record, under its final name where it could be given one.
        path: Option<&'a Path>,
    },
}

/// An observer that looks away.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: Event<'_>) {}
}
