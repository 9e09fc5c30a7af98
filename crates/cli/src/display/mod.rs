//! The display of a run, on standard error: on a terminal one line that is redrawn, and always one line for each
//! level that has ended. `line` makes the text, without a terminal.

mod hosts;
mod line;
mod numbers;

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use webstone_measure::shown::shown;
use webstone_model::event::{Event, Live, LiveHost, Phase, Position};
use webstone_model::spec::RunSpec;
use webstone_runner::observer::Observer;

use crate::console::{self, Console};

pub(crate) use numbers::wait;

/// Minimum time between two drawings of the live line.
const REDRAW_MIN: Duration = Duration::from_millis(100);
/// Length of the moving window for the live rate, in nanoseconds of the run's own clock.
const RATE_WINDOW_NS: u64 = 1_000_000_000;

/// An observer that shows events to people.
#[derive(Debug)]
pub(crate) struct Display {
    console: Console,
    live: bool,
    /// Whether the report will show the warnings, so that they are not printed before it.
    warnings_later: bool,
    /// Length of each level's window; zero if pages end the level.
    window: Duration,
    /// Warm-up and window of each level together.
    step: Duration,
    /// The running level's ticks of the last second.
    recent: VecDeque<Live>,
    /// Each host's last report, if several make the load.
    hosts: Vec<LiveHost>,
    drawn_at: Option<Instant>,
    /// Whether the cursor is at the end of a live line.
    line_open: bool,
    is_series: bool,
    /// Warnings of runs in a series, nearly all of which have the same ones.
    warned: BTreeSet<String>,
}

impl Display {
    pub(crate) fn new(console: Console, warnings_later: bool) -> Display {
        Display {
            console,
            live: console.is_live(),
            warnings_later,
            window: Duration::ZERO,
            step: Duration::ZERO,
            recent: VecDeque::new(),
            hosts: Vec::new(),
            drawn_at: None,
            line_open: false,
            is_series: false,
            warned: BTreeSet::new(),
        }
    }

    /// For a series: a line for each cell's turn in a round, then its levels; a warning that most runs have is shown
    /// once.
    pub(crate) fn of_series(console: Console) -> Display {
        let mut display = Display::new(console, false);
        display.is_series = true;
        display
    }

    fn times_of(&mut self, spec: &RunSpec) {
        let load = &spec.load;
        self.window = load.duration.as_duration();
        self.step = self.window + load.warmup.as_duration();
    }

    /// Prints a separate line above the live line.
    fn say(&mut self, text: &str) {
        if !self.console.quiet() {
            self.clear();
            console::complain(text);
        }
    }

    /// Forgets the level that has ended.
    fn forget(&mut self) {
        self.recent.clear();
        self.hosts.clear();
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.line_open) {
            draw("");
        }
    }

    fn show(&mut self, text: &str) {
        if self.live {
            let plain = |text: &str| text.replace('━', "=").replace('─', "-");
            let text = &*if console::speaks_utf8() { Cow::Borrowed(text) } else { plain(text).into() };
            draw(&line::fitted(&shown(text), width()));
            self.line_open = true;
        }
    }

    fn tick(&mut self, at: Position, phase: Phase, live: Live) {
        if live.elapsed_ns < self.recent.back().map_or(0, |last| last.elapsed_ns) {
            self.recent.clear();
        }
        self.recent.push_back(live);
        while self.recent.len() > 2 && live.elapsed_ns - self.recent[1].elapsed_ns >= RATE_WINDOW_NS {
            self.recent.pop_front();
        }
        if !self.live || self.drawn_at.is_some_and(|drawn| drawn.elapsed() < REDRAW_MIN) {
            return;
        }
        self.drawn_at = Some(Instant::now());
        let before = self.recent.front().copied().filter(|_| self.recent.len() > 1).unwrap_or_default();
        let later = self.step * u32::try_from(at.steps - at.step.min(at.steps)).unwrap_or(u32::MAX);
        let running = line::Running { at, phase, before, live, window: self.window, later };
        let text = line::running(&running, &self.hosts, width());
        self.show(&text);
    }
}

impl Observer for Display {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Preparing { what } if self.live => self.show(what),
            // What takes long is said wherever it goes.
            Event::Preparing { what } if what.starts_with("waiting for ") => self.say(what),
            Event::Preparing { .. } => {}
            Event::Waiting { what } if self.live => self.show(what),
            Event::Waiting { what } => self.say(&shown(what)),
            Event::RunStarted { spec, .. } if self.is_series => self.times_of(spec),
            Event::RunStarted { target, workload, spec, steps, planned_ns, paced, dealt, .. } => {
                self.times_of(spec);
                let planned = planned_ns.map(Duration::from_nanos);
                let planned = planned.map(|time| line::Planned { time, at_least: *paced });
                self.say(&line::opening(target, workload, spec, *steps, planned));
                dealt.iter().for_each(|dealt| self.say(dealt));
            }
            Event::LevelStarted { .. } => self.forget(),
            Event::Tick { at, phase, live } => self.tick(*at, *phase, *live),
            Event::Hosts { hosts, .. } => self.hosts.clone_from(hosts),
            Event::LevelEnded { at, level } => {
                self.forget();
                self.say(&line::ended(*at, level));
            }
            // Why stands in the report.
            Event::Void { at, .. } => {
                self.forget();
                self.say(&line::void(*at));
            }
            Event::Warning { .. } if self.warnings_later => {}
            Event::Warning { text } if self.is_series && !self.warned.insert(text.clone()) => {}
            Event::Warning { text } => self.say(&format!("warning: {text}")),
            Event::Finished { .. } => self.clear(),
            Event::Turn { cell, round, rounds, turns_left, time_left_ns } => {
                let time_left = time_left_ns.map(Duration::from_nanos);
                self.say(&line::turn(cell, (*round, *rounds), *turns_left, time_left));
            }
            Event::CellFailed { cell, error } => self.say(&format!("failed: {cell}: {error}")),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Width of the live line in columns.
fn width() -> usize {
    console::columns().or_else(|| console::width(io::stderr())).unwrap_or(80)
}

/// Replaces the live line: returns to its beginning, erases it, writes the new text.
fn draw(text: &str) {
    let mut err = io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{text}");
    let _ = err.flush();
}
