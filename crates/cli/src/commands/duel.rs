//! `webstone duel`: contestants side by side, live as the interval narrows, then the report.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use webstone_judge::duel::{self, DuelJudgement, GateOutcome};
use webstone_judge::verdict::Standing;
use webstone_measure::slices::Slice;
use webstone_model::duel::DuelRecord;
use webstone_model::record::RunState;
use webstone_report::{Format, Options, Subject, duel_sentence, duel_verdict, interval_bar, render_duel};
use webstone_runner::RunError;
use webstone_runner::duel::{DuelNews, hold};
use webstone_store::{Derived, REPORT, redaction};

use super::run;
use crate::args::DuelArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent;
use crate::signals::SignalWatch;
use crate::version;

/// Letters of an interval's drawing.
const BAR: usize = 31;
/// Minimum time between two drawings of the line that says how far it is.
const REDRAW_MIN: Duration = Duration::from_millis(100);
/// The message of an interrupted duel.
const ENDING: &str = "ending this start; what was measured is kept (interrupt again to stop at once)";

pub(super) fn execute(
    args: &DuelArgs,
    console: &Console,
    command_line: Vec<String>,
) -> Result<Exit, Failure> {
    let options = intent::of_duel(args, version::tool(), command_line, derived)?;
    let output = args.output.as_deref();
    let format = intent::form_of(Subject::Duel, args.format, output)?;
    if let Some(path) = output {
        run::can_be_written(path)?;
    }
    let signals = SignalWatch::saying(ENDING)?;
    let mut watch = Watch::new(*console);
    let outcome = hold(&options, &mut |news| watch.hear(news), &signals.interrupt);
    watch.clear();
    let outcome = outcome.map_err(|error| match signals.exit() {
        Some(exit) => Failure { exit, ..failure(&error) },
        None => failure(&error),
    })?;
    deliver(&outcome.record, format, output, console)?;
    if let Some(path) = &outcome.path {
        console.note(format!("stored: {}", path.display()));
        super::verify::as_stored(path)?;
    }
    if let Some(error) = &outcome.error {
        return Err(failure(error));
    }
    if let Some(exit) = signals.exit() {
        console.note("interrupted: the report is of what was measured by then");
        return Ok(exit);
    }
    Ok(ended(&outcome.record, &duel::of_record(&outcome.record), format != Format::Text || output.is_some()))
}

/// A failure without the secrets of commands and URLs, which contestants are given as.
fn failure(error: &RunError) -> Failure {
    let failure = run::failure(error, "duel");
    let kept = |text: String| redaction::text(&text).text;
    Failure { message: kept(failure.message), hint: failure.hint.map(kept), ..failure }
}

/// What is computed from a finished record and kept beside it.
fn derived(record: &DuelRecord) -> Vec<Derived> {
    let page = render_duel(record, Format::Html, &Options::default());
    vec![Derived { name: REPORT, bytes: page.expect("a duel has a page") }]
}

fn deliver(
    record: &DuelRecord,
    format: Format,
    output: Option<&Path>,
    console: &Console,
) -> Result<(), Failure> {
    let report = render_duel(record, format, &console.report_options(output.is_some()));
    let report = report.map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
    console::deliver(&report, output)
}

/// The report of a stored duel.
pub(super) fn report(
    directory: &Path,
    format: Option<Format>,
    output: Option<&Path>,
    console: &Console,
) -> Result<Exit, Failure> {
    let format = intent::form_of(Subject::Duel, format, output)?;
    let record = webstone_store::duel::load(directory)?;
    deliver(&record, format, output, console)?;
    Ok(Exit::Done)
}

/// How it ended. With `says`, the answer goes to standard error as well: the report is for a program, or in a file.
fn ended(record: &DuelRecord, judgement: &DuelJudgement, says: bool) -> Exit {
    if says {
        for of in &judgement.comparisons {
            console::complain(duel_sentence(record, judgement, of));
        }
        console::complain(duel_verdict(record, judgement));
    }
    let outcome = |wanted| judgement.gates.iter().filter(move |gate| gate.outcome == wanted);
    let name = |number: usize| &record.contestants[number].name;
    for gate in outcome(GateOutcome::Broken) {
        console::complain(format!("--fail-if '{}': {} is beyond it", gate.gate, name(gate.contestant)));
    }
    let is_short = judgement.standing == Standing::Inconclusive && !judgement.gates.is_empty();
    if !judgement.standing.is_conclusive() && !is_short {
        return Exit::Invalid;
    }
    if outcome(GateOutcome::Broken).next().is_some() {
        return Exit::Gate;
    }
    if let Some(gate) = outcome(GateOutcome::Unknown).next() {
        console::complain(format!(
            "--fail-if '{}': not decided for {} within {}",
            gate.gate,
            name(gate.contestant),
            record.duel.at_most
        ));
        return Exit::Untold;
    }
    match record.state {
        RunState::Complete if judgement.standing.is_conclusive() => Exit::Done,
        _ => Exit::Invalid,
    }
}

/// What people see while it lasts: a line for each start with the interval, which narrows.
struct Watch {
    console: Console,
    live: bool,
    line_open: bool,
    drawn_at: Instant,
    began: Instant,
    /// How far the drawing reaches to either side, as a share; decided with the first interval that is drawn.
    reach: Option<f64>,
}

impl Watch {
    fn new(console: Console) -> Watch {
        Watch {
            console,
            live: console.is_live(),
            line_open: false,
            drawn_at: Instant::now(),
            began: Instant::now(),
            reach: None,
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.line_open) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }

    fn show(&mut self, text: &str) {
        if self.live && stderr().is_terminal() {
            let width = console::columns().unwrap_or(80).saturating_sub(1);
            let text: String = text.chars().take(width).collect();
            let _ = write!(stderr(), "\r\x1b[K{text}");
            let _ = stderr().flush();
            self.line_open = true;
        }
    }

    fn say(&mut self, text: &str) {
        if !self.console.quiet() {
            self.clear();
            console::complain(text);
        }
    }

    fn hear(&mut self, news: DuelNews<'_>) {
        match news {
            DuelNews::Preparing(what) if what.starts_with("building ") => self.say(what),
            DuelNews::Preparing(what) => self.show(what),
            DuelNews::Warning(text) => self.say(&format!("warning: {text}")),
            DuelNews::Answers(record) => self.answers(record),
            DuelNews::Slices(record, slices) => self.slices(record, slices),
            DuelNews::Start(record, judgement) => self.start(record, judgement),
        }
    }

    fn answers(&mut self, record: &DuelRecord) {
        // As --at-most counts.
        self.began = Instant::now();
        let names: Vec<&str> = record.contestants.iter().map(|it| it.name.as_str()).collect();
        self.say(&format!("in turns of {}: {}", record.duel.slice, names.join(", ")));
        if record.differences.is_empty() {
            self.say("all answer alike");
        }
        for it in record.differences.iter().take(5) {
            let name = &record.contestants[it.contestant as usize].name;
            self.say(&format!("DIFFERS: {name} answers {} otherwise: {}", it.url, it.what));
        }
    }

    fn slices(&mut self, record: &DuelRecord, slices: &[Slice]) {
        if !self.live || self.drawn_at.elapsed() < REDRAW_MIN {
            return;
        }
        self.drawn_at = Instant::now();
        let text = format!(
            "start {}: {} slices, {} s of at most {}",
            record.starts.len() + 1,
            slices.len(),
            self.began.elapsed().as_secs(),
            record.duel.at_most
        );
        self.show(&text);
    }

    fn start(&mut self, record: &DuelRecord, judgement: &DuelJudgement) {
        let several = judgement.comparisons.len() > 1;
        for of in &judgement.comparisons {
            let Some(ratio) = of.ratio(judgement.leading).filter(|ratio| ratio.high.is_finite()) else {
                continue;
            };
            if ratio.starts < 3 {
                continue;
            }
            if self.reach.is_none() {
                let widest =
                    (ratio.high - 1.0).abs().max((1.0 - ratio.low).abs()).max(2.0 * record.duel.precision);
                // Later intervals are shorter: the drawing has room for what is left of the first.
                self.reach = Some(((widest * 100.0).ceil() / 100.0).min(0.5));
                self.say(&format!(
                    "{} against {}, as it becomes known:",
                    judgement.leading.name(),
                    record.contestants[0].name
                ));
            }
            let reach = self.reach.unwrap_or(0.5);
            let bar = interval_bar(ratio, reach, BAR);
            let bar = if console::speaks_utf8() { bar } else { ascii(&bar) };
            let name = if several { format!("  {}", of.name) } else { String::new() };
            self.say(&format!(
                "{:>4} starts {:>4} s {bar} {:+.1} % ({:+.1} to {:+.1}){name}",
                ratio.starts,
                self.began.elapsed().as_secs(),
                100.0 * (ratio.ratio - 1.0),
                100.0 * (ratio.low - 1.0),
                100.0 * (ratio.high - 1.0),
            ));
        }
    }
}

fn ascii(bar: &str) -> String {
    bar.chars()
        .map(|letter| match letter {
            '─' => '-',
            '●' => 'o',
            '┊' => ':',
            '├' | '‹' => '<',
            '┤' | '›' => '>',
            other => other,
        })
        .collect()
}
