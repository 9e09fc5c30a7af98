//! `webstone run`, `hit` and `find`: the run itself, its report, its verdict.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use webstone_judge::search::{self, Answer, Finding};
use webstone_judge::verdict;
use webstone_measure::errors::Blame;
use webstone_model::generators::GeneratorHost;
use webstone_model::record::RunRecord;
use webstone_model::spec::RunSpec;
use webstone_model::threshold::Outcome;
use webstone_report::{Format, Options, ReportError, render, write};
use webstone_runner::{RunError, RunnerOptions};
use webstone_store::{Derived, FIGURES, REPORT};
use webstone_ui::registry::watched_by;

use super::series::is_tried;
use super::{calibrate, gates, verify};
use crate::console::{self, Console, Delivery};
use crate::display::Display;
use crate::events::{All, EventLines};
use crate::failure::{Exit, Failure};
use crate::flags;
use crate::intent::Intent;
use crate::signals::SignalWatch;
use crate::version;
use crate::watch::Announcement;

/// Makes the run, prints its report, and says how it ended. `command_line` is stored in the record.
pub(super) fn execute(intent: Intent, console: &Console, command_line: Vec<String>) -> Result<Exit, Failure> {
    console::can_be_shown(intent.format, intent.output.as_deref())?;
    if let Some(path) = &intent.output {
        can_be_written(path)?;
    }
    let signals = SignalWatch::start()?;
    let watch =
        Announcement { command: intent.command, name: &intent.spec.name, command_line: &command_line };
    let watched = intent.watch.as_deref().map(|runs| watch.begin(runs, console)).transpose()?;
    let by_front = intent.events.as_deref().and_then(|events| watched_by(Path::new(events)));
    let (mut watched, watched_by) = watched.map_or((None, by_front), |(events, by)| (Some(events), Some(by)));
    let options = RunnerOptions {
        tool: version::tool(),
        command_line,
        runs_dir: intent.runs_dir.clone(),
        workload: intent.workload.clone(),
        calibration: calibrate::file(),
        speeds: calibrate::speeds_file(),
        check_target: intent.check_target,
        derive: Some(derived),
        trace: Some(Box::new(io::stderr())),
        watched_by,
        ..RunnerOptions::default()
    };
    let mut display = Display::new(*console, warnings_come_with_the_report(&intent));
    let mut events = intent.events.as_deref().map(EventLines::open).transpose()?;
    let mut observer = All(vec![&mut display]);
    observer.0.extend([&mut events, &mut watched].into_iter().flatten().map(|events| events as _));
    let outcome =
        webstone_runner::run(intent.spec.clone(), options, &mut observer, signals.interrupt.clone());
    drop((display, events, watched));

    // What was measured is reported whatever happened afterwards.
    let measured = outcome.record.as_ref().filter(|record| !record.is_empty());
    let mut outcomes = Vec::new();
    if let Some(record) = measured {
        outcomes = report(record, &intent, outcome.path.as_deref(), console)?;
        if let Some(path) = &outcome.path {
            console.note(format!("record: {}", path.display()));
            let page = path.join(REPORT);
            if page.exists() {
                console.note(format!("report: {}", page.display()));
            }
            verify::as_stored(path)?;
        }
        // Read first above the figures, and last where the terminal ends; elsewhere its reasons are told below.
        let verdict = verdict::of_record(record);
        let is_told_below = verdict.standing > intent.required && !is_read_with_messages(&intent);
        if matches!(intent.format, Format::Text | Format::Hit) && !is_told_below {
            console.note(verdict.in_a_line());
        }
    }
    match (outcome.error, signals.exit()) {
        (Some(RunError::Interrupted), Some(exit)) => {
            console.note("interrupted before anything was measured");
            Ok(exit)
        }
        (Some(error), _) => Err(failure(&error, intent.command)),
        (None, Some(exit)) => Ok(exit),
        (None, None) => Ok(judged(outcome.record.as_ref(), &outcomes, &intent)),
    }
}

/// `hit` is short: its report shows the warnings soon after they occur. They are printed earlier only if messages go
/// to a terminal and the report elsewhere.
fn warnings_come_with_the_report(intent: &Intent) -> bool {
    let is_elsewhere = intent.output.is_some() || (io::stderr().is_terminal() && !io::stdout().is_terminal());
    intent.format == Format::Hit && !is_elsewhere
}

/// Whether the report and the messages have the same destination, where nothing should be said twice: a terminal, or
/// the same file or pipe (`2>&1`).
fn is_read_with_messages(intent: &Intent) -> bool {
    let shown = matches!(intent.format, Format::Text | Format::Hit) && intent.output.is_none();
    let is_terminal = || io::stdout().is_terminal() && io::stderr().is_terminal();
    shown && (is_terminal() || is_one_file(io::stdout(), io::stderr()))
}

/// Whether two streams are the same file, pipe or socket.
fn is_one_file(one: impl AsFd, other: impl AsFd) -> bool {
    let identity = |stream: &dyn AsFd| {
        let found = File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        Some((found.dev(), found.ino()))
    };
    identity(&one).is_some_and(|found| identity(&other) == Some(found))
}

/// Prints the specification as a testbed file.
pub(super) fn dump(spec: &RunSpec) -> Result<Exit, Failure> {
    let text = toml::to_string(spec)
        .map_err(|error| Failure::failed(format!("the specification cannot be written as TOML: {error}")))?;
    console::print(&text)?;
    Ok(Exit::Done)
}

/// Prints the levels, and how long they take.
pub(super) fn plan(spec: &RunSpec) -> Result<Exit, Failure> {
    let load = &spec.load;
    let levels = load
        .rate
        .as_ref()
        .map_or_else(|| format!("{} clients", load.clients), |rates| format!("{rates} arrivals/s"));
    let hosts: usize = spec.generators.iter().map(GeneratorHost::count).sum();
    let by = match hosts {
        0 => String::new(),
        1 => ", from 1 host".to_owned(),
        hosts => format!(", from {hosts} hosts"),
    };
    let target = spec.target.first().map_or_else(|| spec.server.software.name(), String::as_str);
    let one = load.warmup.0.saturating_add(load.duration.0);
    let all =
        Duration::from_nanos(one.saturating_mul(load.levels() as u64).saturating_mul(load.iterations.into()));
    let time = match load.duration.0 {
        0 => "until their pages are fetched".to_owned(),
        _ => format!("{} under load", crate::display::wait(all)),
    };
    console::print(&format!(
        "{target}, {}: {levels}{by}\n{} levels × {} iterations: {time}\n",
        spec.workload,
        load.levels(),
        load.iterations
    ))?;
    Ok(Exit::Done)
}

/// Checks before the run that the report can be written. The file's content does not change yet.
pub(super) fn can_be_written(path: &Path) -> Result<(), Failure> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| Failure::file("write the report to", path, &error))
}

/// Files stored beside a record and included in its check sums. A page that cannot be made is left out, as it can be
/// made later.
pub(super) fn derived(record: &RunRecord) -> Vec<Derived> {
    let figures = Derived { name: FIGURES, bytes: webstone_report::figures::stored(record) };
    let page = page(record).ok();
    std::iter::once(figures).chain(page.map(|bytes| Derived { name: REPORT, bytes })).collect()
}

/// The page stored beside a record.
pub(super) fn page(record: &RunRecord) -> Result<Vec<u8>, ReportError> {
    render(record, Format::Html, &Options { beside_record: true, ..Options::default() })
}

fn report(
    record: &RunRecord,
    intent: &Intent,
    stored: Option<&Path>,
    console: &Console,
) -> Result<Vec<Outcome>, Failure> {
    let options = Options {
        full: intent.full,
        thresholds: intent.thresholds.clone(),
        full_command: stored.map(|path| format!("webstone report {} --full", path.display())),
        ..console.report_options(intent.output.is_some())
    };
    let mut out = Delivery::to(intent.output.as_deref());
    match write(record, intent.format, &options, &mut out) {
        Err(_) if out.is_failed() => {}
        other => other.map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?,
    }
    let outcomes = gates::check(record, intent.format, &options);
    out.end()?;
    Ok(outcomes)
}

/// For a run that ended as planned: can its figures be trusted, and do they keep the thresholds? Figures that cannot
/// be trusted neither keep nor break them.
fn judged(record: Option<&RunRecord>, outcomes: &[Outcome], intent: &Intent) -> Exit {
    let (required, is_said) = (intent.required, is_read_with_messages(intent));
    let kept = gates::exit(outcomes);
    let Some(record) = record else { return kept };
    let verdict = verdict::of_record(record);
    if verdict.standing <= required {
        return search::of_record(record).map_or(kept, |finding| found(&finding, is_said));
    }
    if !is_said {
        let word = verdict.standing.word().to_lowercase();
        // Without a reason it is only not as good as it was required to be.
        let required = || vec![format!("--require {}", required.word().to_lowercase())];
        for reason in Some(verdict.told()).filter(|told| !told.is_empty()).unwrap_or_else(required) {
            console::complain(format!("{word}: {reason}"));
        }
    } else if verdict.standing.is_conclusive() {
        let required = required.word().to_lowercase();
        console::complain(format!(
            "the run is {}, and --require asks for {required}",
            verdict.standing.word()
        ));
    }
    if intent.is_tried && is_tried(record, &verdict) { kept } else { Exit::Invalid }
}

/// The result of a search, for scripts; the report has it in words.
fn found(finding: &Finding, is_said: bool) -> Exit {
    let (word, exit) = match finding.answer {
        Answer::Between | Answer::Always => return Exit::Done,
        Answer::Never => ("never kept", Exit::Gate),
        Answer::Unclear | Answer::Unfinished => ("undecided", Exit::Failed),
    };
    if !is_said {
        console::complain(format!("{word}: {}", finding.sentence));
    }
    exit
}

/// Why a run of a command did not end as planned.
pub(super) fn failure(error: &RunError, command: &str) -> Failure {
    if let RunError::Spec(error) = error {
        return flags::failure(error, command);
    }
    let exit = match error.blame() {
        Blame::User => Exit::Usage,
        Blame::Target | Blame::Network | Blame::Generator => Exit::Failed,
    };
    let hint = error.hint().map(|hint| flags::named(&hint, command));
    Failure { exit, message: flags::named(&error.to_string(), command), hint }
}
