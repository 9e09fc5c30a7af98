//! What makes the figures doubtful. It stands above them, because a figure that is read first is believed.

use webstone_model::record::{RunRecord, RunState};

use crate::layout::{labelled, push_line};
use crate::numbers::{count, counted, percent};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level, SATURATED_PERCENT};

/// Broken identities shown one by one.
const IDENTITIES_MAX: usize = 10;
/// Levels named in one line.
const LEVELS_MAX: usize = 8;

/// The block of problems; nothing where there is none. `whole` is false when the options show a part of the record,
/// of which nothing can be said to be missing.
pub(crate) fn draw(screen: &Screen, record: &RunRecord, levels: &[Level<'_>], whole: bool, out: &mut String) {
    let mut problems = Vec::new();
    state(record, whole, &mut problems);
    identities(record, &mut problems);
    outcome(record, levels, &mut problems);
    generator(levels, &mut problems);
    starved(record, levels, &mut problems);
    if !levels.is_empty()
        && levels.iter().all(|level| level.distributions.is_empty() && level.counts.succeeded > 0)
    {
        problems.push(Problem::caution(
            "NO DISTRIBUTIONS",
            "the record came without its histograms: no percentiles",
        ));
    }
    problems.extend(record.warnings.iter().map(|warning| Problem::caution("WARNING", warning)));
    if problems.is_empty() {
        return;
    }
    out.push('\n');
    for problem in &problems {
        problem.draw(screen, out);
    }
}

struct Problem {
    tone: Tone,
    text: String,
    details: Vec<String>,
}

impl Problem {
    fn alarm(title: &str, text: &str) -> Problem {
        Problem { tone: Tone::Alarm, text: format!("{title}: {text}"), details: Vec::new() }
    }

    fn caution(title: &str, text: &str) -> Problem {
        Problem { tone: Tone::Caution, text: format!("{title}: {text}"), details: Vec::new() }
    }

    fn draw(&self, screen: &Screen, out: &mut String) {
        let mark = if self.tone == Tone::Alarm { screen.alarm() } else { screen.caution() };
        // The mark stands in the margin, where tables have their markers: it is the first thing on the line.
        let mut lines = String::new();
        labelled(screen, &mut lines, mark, 3, &screen.safe(&self.text), self.tone);
        for detail in &self.details {
            labelled(screen, &mut lines, "", 3, &screen.safe(detail), Tone::Plain);
        }
        lines.lines().for_each(|line| push_line(out, line));
    }
}

fn state(record: &RunRecord, whole: bool, problems: &mut Vec<Problem>) {
    let load = &record.spec.load;
    let planned = load.clients.0.len() as u64 * u64::from(load.iterations.max(1));
    let measured = record.iterations.len() as u64;
    let runs = format!("{} of {} planned timed runs were measured", count(measured), count(planned));
    match record.state {
        RunState::Partial => problems
            .push(Problem::alarm("PARTIAL", &format!("the run is still going on, or was killed; {runs}"))),
        RunState::Interrupted => {
            problems.push(Problem::caution("INTERRUPTED", &format!("ended by the user; {runs}")));
        }
        RunState::Failed => problems.push(Problem::alarm("FAILED", &format!("ended by an error; {runs}"))),
        RunState::Complete if whole && measured < planned => {
            problems.push(Problem::alarm("INCOMPLETE", &runs))
        }
        RunState::Complete => {}
    }
}

fn identities(record: &RunRecord, problems: &mut Vec<Problem>) {
    let mut broken = Vec::new();
    let mut checked = 0;
    for run in &record.iterations {
        checked += run.identities.len() as u64;
        for check in run.identities.iter().filter(|check| !check.holds) {
            broken.push(format!(
                "{}, iteration {}, identity {}: {}: {}",
                counted(u64::from(run.clients), "client", "clients"),
                run.iteration,
                check.number,
                check.rule,
                check.evidence
            ));
        }
    }
    if broken.is_empty() {
        return;
    }
    let total = broken.len() as u64;
    let verb = if total == 1 { "does" } else { "do" };
    let mut problem = Problem::alarm(
        "DO NOT TRUST THESE FIGURES",
        &format!(
            "{} of {} identity checks {verb} not hold, so the counters contradict each other",
            count(total),
            count(checked)
        ),
    );
    problem.details = broken;
    if problem.details.len() > IDENTITIES_MAX {
        problem.details.truncate(IDENTITIES_MAX);
        problem.details.push(format!("and {} more", count(total - IDENTITIES_MAX as u64)));
    }
    problems.push(problem);
}

fn outcome(record: &RunRecord, levels: &[Level<'_>], problems: &mut Vec<Problem>) {
    let counts = summary::counts(record);
    if levels.is_empty() {
        return;
    }
    if counts.succeeded == 0 {
        let text = match counts.failed {
            0 => "no request ended inside a measured window".to_owned(),
            failed => format!("{} failed; see Errors", counted(failed, "request", "requests")),
        };
        problems.push(Problem::alarm("NO VALID RESPONSE", &text));
        return;
    }
    if counts.failed > 0 {
        let share = counts.failed as f64 / counts.ended() as f64 * 100.0;
        problems.push(Problem::caution(
            "ERRORS",
            &format!(
                "{} of {} requests failed ({}); they count as errors and as nothing else",
                count(counts.failed),
                count(counts.ended()),
                percent(share)
            ),
        ));
    }
}

fn generator(levels: &[Level<'_>], problems: &mut Vec<Problem>) {
    let saturated: Vec<&Level<'_>> =
        levels.iter().filter(|level| level.generator.cpu_percent >= SATURATED_PERCENT).collect();
    if saturated.is_empty() {
        return;
    }
    problems.push(Problem::alarm(
        "GENERATOR SATURATED",
        &format!(
            "the load generator used {SATURATED_PERCENT} % or more of its CPUs at {}: these levels show its own limit, \
             not the server's",
            names(&saturated)
        ),
    ));
}

fn starved(record: &RunRecord, levels: &[Level<'_>], problems: &mut Vec<Problem>) {
    // Where fewer pages than clients were asked for, some clients can have none.
    let enough =
        |level: &&Level<'_>| record.spec.load.pages.is_none_or(|pages| pages >= u64::from(level.clients));
    let starved = |level: &&Level<'_>| level.fairness.as_ref().is_some_and(|f| f.starved > 0);
    let levels: Vec<&Level<'_>> = levels.iter().filter(enough).filter(starved).collect();
    if levels.is_empty() {
        return;
    }
    let text = format!("some clients completed no page at {}", names(&levels));
    problems.push(Problem::caution("STARVED CLIENTS", &text));
}

fn names(levels: &[&Level<'_>]) -> String {
    let shown: Vec<String> = levels.iter().take(LEVELS_MAX).map(|l| count(u64::from(l.clients))).collect();
    let unit = if levels.len() == 1 && levels[0].clients == 1 { "client" } else { "clients" };
    match levels.len() - shown.len() {
        0 => format!("{} {unit}", shown.join(", ")),
        more => format!("{} clients and {more} more levels", shown.join(", ")),
    }
}
