//! What there is to see of a run, made of its events alone: the same events give the same picture, however often a page is loaded.

use serde::Serialize;
use webstone_judge::verdict::Standing;
use webstone_measure::figures::PERCENTILES;
use webstone_model::event::{Ended, Event, EventLine, Live, LiveHost, Phase, Position};
use webstone_model::record::RunState;
use webstone_store::clock;

use super::points::{self, Point};

/// Warnings that are kept; a run that gives more has said enough.
const WARNINGS_MAX: usize = 200;
/// Time between two points of a chart, in nanoseconds of the window.
const POINT_NS: u64 = 950_000_000;

/// A host that has not reported for this time is called silent, in nanoseconds.
const SILENT_NS: u64 = 3_000_000_000;

/// Where a run stands, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// Before the load.
    #[default]
    Preparing,
    /// Under load.
    Running,
    /// Was told to end.
    Stopping,
    /// Ended as planned.
    Complete,
    /// Ended early, with what was measured.
    Interrupted,
    /// Ended by an error.
    Failed,
    /// Its process is gone and said nothing.
    Lost,
}

impl State {
    /// Whether nothing more comes.
    pub(crate) fn is_over(self) -> bool {
        !matches!(self, State::Preparing | State::Running | State::Stopping)
    }
}

/// Totals of the open window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    requests: u64,
    errors: u64,
    bytes: u64,
}

/// A level's chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LevelPoints {
    step: usize,
    label: String,
    points: Vec<Point>,
}

/// A level that ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EndedLevel {
    step: usize,
    label: String,
    iteration: u32,
    rate: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    errors: u64,
    interrupted: bool,
    void: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cell: Option<String>,
}

/// Something that the user should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    time: String,
    text: String,
}

/// A cell of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellState {
    name: String,
    round: u32,
    rounds: u32,
    state: &'static str,
    rate: Option<f64>,
    error: Option<String>,
}

/// One of several hosts that make the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HostRow {
    name: String,
    rate: f64,
    p99_ms: Option<f64>,
    cpu_percent: Option<f64>,
    note: String,
}

impl HostRow {
    fn of_host(host: &LiveHost) -> HostRow {
        let ms = |ns: u64| ns as f64 / 1e6;
        let note = match host.silent_ns {
            silent if silent >= SILENT_NS => format!("silent for {:.0} s", silent as f64 / 1e9),
            _ => format!("clock ± {:.3} ms", ms(host.clock.bound_ns)),
        };
        HostRow {
            name: host.name.clone(),
            rate: host.request_rate,
            p99_ms: host.response.map(|response| ms(response.p99_ns)),
            cpu_percent: host.busiest_worker.map(|share| share * 100.0),
            note,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Finished {
    state: State,
    /// Name of its record.
    run: Option<String>,
    message: Option<String>,
    hint: Option<String>,
    /// What its figures are worth, and the word for it.
    standing: Option<Standing>,
    verdict: Option<&'static str>,
}

impl Finished {
    /// Name of its record.
    pub(crate) fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// Notes what its figures are worth.
    pub(crate) fn judge(&mut self, standing: Option<Standing>) {
        self.standing = standing;
        self.verdict = standing.map(Standing::word);
    }
}

/// What changes from second to second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Scalars {
    pub(crate) state: State,
    phase: String,
    level: Option<String>,
    step: usize,
    steps: usize,
    iteration: u32,
    elapsed_ms: u64,
    left_ms: Option<u64>,
    totals: Totals,
    /// Of the response times of the window so far, in milliseconds: 50th, 90th, 99th, 99.9th, the longest.
    percentiles_ms: Option<[f64; 5]>,
}

impl Scalars {
    /// The step that runs.
    pub(crate) fn step(&self) -> usize {
        self.step
    }
}

/// What is seen of a run so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Picture {
    #[serde(flatten)]
    pub(crate) now: Scalars,
    target: String,
    workload: String,
    started: String,
    planned_ms: Option<u64>,
    open_loop: bool,
    levels: Vec<LevelPoints>,
    pub(crate) ended: Vec<EndedLevel>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) cells: Option<Vec<CellState>>,
    pub(crate) hosts: Vec<HostRow>,
    pub(crate) finished: Option<Finished>,
    #[serde(skip)]
    points_ever: usize,
    #[serde(skip)]
    last: Option<Live>,
    /// When the first event happened, and the latest; the level's start. In milliseconds since the epoch.
    #[serde(skip)]
    first_ms: u64,
    #[serde(skip)]
    level_ms: u64,
    #[serde(skip)]
    stopping: bool,
    /// Name of the series, where it is one.
    #[serde(skip)]
    series: Option<String>,
    #[serde(skip)]
    turn: Option<String>,
    #[serde(skip)]
    turn_left_ms: Option<u64>,
}

impl Picture {
    /// Adds an event.
    pub(crate) fn add(&mut self, line: EventLine) {
        let time = clock::parse_rfc3339(&line.time);
        let now_ms = time.map_or(0, |time| clock::since_epoch(time).as_millis() as u64);
        if self.first_ms == 0 {
            self.first_ms = now_ms;
            self.started.clone_from(&line.time);
        }
        self.now.elapsed_ms = now_ms.saturating_sub(self.first_ms);
        match line.event {
            Event::Preparing { what } | Event::Waiting { what } => {
                self.now.phase = what;
                self.enter(State::Preparing);
            }
            Event::RunStarted { target, workload, spec, steps, planned_ns, path, .. } => {
                if self.cells.is_some() {
                    // Cells lie in the series' directory.
                    let directory = path.as_deref().and_then(|path| path.rsplit('/').nth(1));
                    self.series = directory.map(str::to_owned).or(self.series.take());
                }
                self.target =
                    if target.embedded { "the embedded server".to_owned() } else { target.url.clone() };
                self.workload = workload;
                self.open_loop = spec.load.rate.is_some() || spec.find.is_some();
                self.now.steps = steps;
                self.planned_ms = planned_ns.map(|ns| ns / 1_000_000);
                self.enter(State::Running);
            }
            Event::LevelStarted { at } => {
                self.level_ms = now_ms;
                self.begin(at);
            }
            Event::Tick { at, phase, live } => self.tick(at, phase, live),
            Event::Hosts { hosts, .. } => self.hosts = hosts.iter().map(HostRow::of_host).collect(),
            Event::LevelEnded { at, level } => self.level_ended(at, &level),
            Event::Void { at, why } => self.void(at, why),
            Event::Warning { text } => self.warn(line.time, text),
            Event::Finished { state, path } => {
                let run = path.as_deref().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
                // A series continues with its next cell.
                if self.cells.is_none() {
                    self.end(of_record(state), run, None, None);
                }
            }
            Event::Turn { cell, round, rounds, time_left_ns, .. } => {
                self.turn_left_ms = time_left_ns.map(|ns| ns / 1_000_000);
                self.turn(cell, round, rounds);
            }
            Event::CellFailed { cell, error } => {
                let failed = self.cells.iter_mut().flatten().find(|known| known.name == cell);
                if let Some(known) = failed {
                    known.state = "failed";
                    known.error = Some(error.clone());
                }
                self.warn(line.time, format!("{cell}: {error}"));
            }
        }
        self.now.left_ms = self.left(now_ms);
    }

    /// The run was told to end.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        if !self.now.state.is_over() {
            self.now.state = State::Stopping;
        }
    }

    /// Ends it; what its events said about the end is kept.
    pub(crate) fn end(
        &mut self,
        state: State,
        run: Option<String>,
        message: Option<String>,
        hint: Option<String>,
    ) {
        let before = self.finished.take().unwrap_or_default();
        let state = if before.state.is_over() { before.state } else { state };
        let message = message.or(before.message);
        let (run, hint) = (before.run.or(run).or_else(|| self.series.clone()), hint.or(before.hint));
        self.finished = Some(Finished { state, run, message, hint, standing: None, verdict: None });
        self.now.state = state;
        self.now.left_ms = Some(0);
        for cell in self.cells.iter_mut().flatten().filter(|cell| cell.state == "running") {
            cell.state = if state == State::Complete { "done" } else { "waiting" };
        }
    }

    /// Whether the run has said what it measures.
    pub(crate) fn is_named(&self) -> bool {
        !self.workload.is_empty()
    }

    /// How many points there were so far, those of cells that are over among them.
    pub(crate) fn points_ever(&self) -> usize {
        self.points_ever
    }

    /// The points after the first `seen`, each with the step and the name of its level.
    pub(crate) fn points_after(&self, seen: usize) -> Vec<(usize, &str, Point)> {
        let of_level = |level: &'_ LevelPoints| level.points.len();
        let held: usize = self.levels.iter().map(of_level).sum();
        let unseen = self.points_ever.saturating_sub(seen).min(held);
        let all = self
            .levels
            .iter()
            .flat_map(|level| level.points.iter().map(|point| (level.step, level.label.as_str(), *point)));
        all.skip(held - unseen).collect()
    }

    /// The same with at most `points_max` points in all.
    pub(crate) fn decimated(&self, points_max: usize) -> Picture {
        let mut picture = self.clone();
        let all: usize = self.levels.iter().map(|level| level.points.len()).sum();
        for level in &mut picture.levels {
            let share = (level.points.len() * points_max).div_ceil(all.max(1)).max(2);
            level.points = points::decimated(&level.points, share);
        }
        picture
    }

    fn enter(&mut self, state: State) {
        self.now.state = if self.stopping { State::Stopping } else { state };
    }

    fn begin(&mut self, at: Position) {
        self.enter(State::Running);
        let label = at.level().to_string();
        self.now.level = Some(label.clone());
        (self.now.step, self.now.steps, self.now.iteration) = (at.step, at.steps, at.iteration);
        self.now.totals = Totals::default();
        self.now.percentiles_ms = None;
        self.now.phase = phase_name(Phase::Starting).to_owned();
        self.last = None;
        self.levels.push(LevelPoints { step: at.step, label, points: Vec::new() });
    }

    fn tick(&mut self, at: Position, phase: Phase, live: Live) {
        if self.levels.is_empty() || self.now.step != at.step {
            self.begin(at);
        }
        self.now.phase = phase_name(phase).to_owned();
        self.now.totals = Totals { requests: live.requests, errors: live.errors, bytes: live.bytes };
        if phase != Phase::Measuring {
            return;
        }
        let short_ms = |ns: u64| (ns as f64 / 1e3).round() / 1e3;
        self.now.percentiles_ms =
            live.response.map(|it| [it.p50_ns, it.p90_ns, it.p99_ns, it.p999_ns, it.max_ns].map(short_ms));
        let before = self.last.unwrap_or_default();
        if live.elapsed_ns < before.elapsed_ns {
            // The level is repeated.
            self.last = Some(live);
        } else if live.elapsed_ns - before.elapsed_ns >= POINT_NS {
            let point = Point::between(&before, &live, self.open_loop);
            self.last = Some(live);
            if let Some(level) = self.levels.last_mut() {
                level.points.push(point);
                self.points_ever += 1;
            }
        }
    }

    fn level_ended(&mut self, at: Position, level: &Ended) {
        let figures = &level.figures;
        let percentile_ms = |percent: f64| {
            let at = PERCENTILES.iter().position(|known| *known == percent);
            at.and_then(|at| figures.latency_percentiles_s.get(at)).map_or(0.0, |seconds| seconds * 1e3)
        };
        self.now.totals.requests = level.succeeded;
        self.now.totals.errors = level.failed;
        let rate = figures.request_rate;
        self.ended.push(EndedLevel {
            step: at.step,
            label: at.level().to_string(),
            iteration: at.iteration,
            rate,
            mean_ms: figures.latency_mean_s * 1e3,
            p50_ms: percentile_ms(50.0),
            p99_ms: percentile_ms(99.0),
            errors: level.failed,
            interrupted: level.interrupted,
            void: None,
            cell: self.turn.clone(),
        });
        let turn = self.turn.as_ref();
        let cell = self.cells.iter_mut().flatten().find(|cell| Some(&cell.name) == turn);
        if let Some(cell) = cell {
            cell.rate = Some(cell.rate.map_or(rate, |best| best.max(rate)));
        }
    }

    /// A timed run that will be repeated: what it measured does not count, but is shown.
    fn void(&mut self, at: Position, why: String) {
        let last = self.last.unwrap_or_default();
        let seconds = last.elapsed_ns as f64 / 1e9;
        let per = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
        self.ended.push(EndedLevel {
            step: at.step,
            label: at.level().to_string(),
            iteration: at.iteration,
            rate: per(last.requests as f64, seconds),
            mean_ms: per(last.response_ns as f64, last.requests as f64) / 1e6,
            p50_ms: last.response.map_or(0.0, |response| response.p50_ns as f64 / 1e6),
            p99_ms: last.response.map_or(0.0, |response| response.p99_ns as f64 / 1e6),
            errors: last.errors,
            interrupted: false,
            void: Some(why),
            cell: self.turn.clone(),
        });
    }

    fn turn(&mut self, name: String, round: u32, rounds: u32) {
        self.levels.clear();
        let cells = self.cells.get_or_insert_default();
        for cell in cells.iter_mut().filter(|cell| cell.state == "running") {
            cell.state = if cell.round == cell.rounds { "done" } else { "waiting" };
        }
        match cells.iter_mut().find(|cell| cell.name == name) {
            Some(cell) => (cell.round, cell.state) = (round, "running"),
            None => cells.push(CellState {
                name: name.clone(),
                round,
                rounds,
                state: "running",
                rate: None,
                error: None,
            }),
        }
        self.turn = Some(name);
    }

    fn warn(&mut self, time: String, text: String) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(Warning { time, text });
        }
    }

    /// Time left by the plan, in ms: of this step and of the steps to come. `None` where the plan has no time.
    fn left(&self, now_ms: u64) -> Option<u64> {
        if self.now.state.is_over() {
            return Some(0);
        }
        if self.cells.is_some() {
            return self.turn_left_ms;
        }
        let each = self.planned_ms? / self.now.steps.max(1) as u64;
        let to_come = self.now.steps.saturating_sub(self.now.step.max(1)) as u64;
        let gone = if self.level_ms == 0 { 0 } else { now_ms.saturating_sub(self.level_ms) };
        Some(each * to_come + each.saturating_sub(gone))
    }
}

/// A run's state as the record has it.
fn of_record(state: RunState) -> State {
    match state {
        RunState::Complete => State::Complete,
        RunState::Interrupted => State::Interrupted,
        _ => State::Failed,
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::WarmUp => "warm-up",
        Phase::Measuring => "measuring",
        Phase::Draining => "draining",
        Phase::Done => "done",
    }
}
