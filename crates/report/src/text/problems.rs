//! The verdict, what limits, and what else makes the figures doubtful. It stands above them, because a figure that is
//! read first is believed.

use webstone_model::record::{HostUse, IterationRecord, RunRecord};
use webstone_model::statistics::Steadiness;
use webstone_model::verdict::{Cause, LOOP_DELAY_PERCENT_MAX, RuleStanding, Standing, Verdict, rules};

use crate::layout::{heading, labelled, push_line};
use crate::numbers::{count, counted, percent, seconds};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

/// Reasons shown one by one.
const REASONS_MAX: usize = 10;
/// Iterations named in one line.
const NAMED_MAX: usize = 8;
/// Share of the local ports, or of the files that may be open, from which on the report warns, in percent.
const PRESSURE_PERCENT: f64 = 80.0;

/// The block; `is_brief` leaves the names of unmet rules to the full report.
pub(crate) fn draw(
    screen: &Screen,
    record: &RunRecord,
    levels: &[Level<'_>],
    verdict: &Verdict,
    is_brief: bool,
    out: &mut String,
) {
    let mut problems = vec![standing(record, verdict, is_brief)];
    if !record.iterations.is_empty() {
        problems.push(Problem {
            tone: Tone::Plain,
            mark: |_| "",
            ..Problem::caution("LIMIT", &verdict.limit.sentence)
        });
    }
    errors(record, verdict, &mut problems);
    generator_delay(screen, levels, &mut problems);
    iterations(screen, levels, &mut problems);
    noise(levels, &mut problems);
    host(record, &mut problems);
    if !levels.is_empty()
        && levels.iter().all(|level| level.distributions.is_empty() && level.counts.succeeded > 0)
    {
        problems.push(Problem::caution(
            "NO DISTRIBUTIONS",
            "the record came without its histograms: no percentiles",
        ));
    }
    problems.extend(record.warnings.iter().map(|warning| Problem::caution("WARNING", warning)));
    out.push('\n');
    for problem in &problems {
        problem.draw(screen, out);
    }
}

/// The table of all run rules, at the end of the full report.
pub(super) fn rules_table(screen: &Screen, record: &RunRecord, out: &mut String) {
    let rules = rules(record);
    let met = rules.iter().filter(|rule| rule.standing == RuleStanding::Met).count() as u64;
    heading(screen, out, "Run rules", &format!("{} of {} met", count(met), count(rules.len() as u64)));
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0) + 2;
    for rule in &rules {
        let (word, tone) = match rule.standing {
            RuleStanding::Met => ("met", Tone::Plain),
            RuleStanding::NotMet => ("NOT MET", Tone::Caution),
            RuleStanding::CannotTell => ("CANNOT TELL", Tone::Caution),
        };
        labelled(screen, out, &rule.id, width, &screen.safe(&format!("{word}: {}", rule.evidence)), tone);
    }
}

struct Problem {
    tone: Tone,
    mark: fn(&Screen) -> &'static str,
    text: String,
    details: Vec<String>,
}

impl Problem {
    fn alarm(title: &str, text: &str) -> Problem {
        Problem { tone: Tone::Alarm, mark: Screen::alarm, ..Problem::caution(title, text) }
    }

    fn caution(title: &str, text: &str) -> Problem {
        Problem {
            tone: Tone::Caution,
            mark: Screen::caution,
            text: format!("{title}: {text}"),
            details: Vec::new(),
        }
    }

    fn draw(&self, screen: &Screen, out: &mut String) {
        let mark = (self.mark)(screen);
        // The mark stands in the margin, where tables have their markers: it is the first thing on the line.
        let mut lines = String::new();
        labelled(screen, &mut lines, mark, 3, &screen.safe(&self.text), self.tone);
        for detail in &self.details {
            labelled(screen, &mut lines, "", 3, &screen.safe(detail), Tone::Plain);
        }
        lines.lines().for_each(|line| push_line(out, line));
    }
}

fn standing(record: &RunRecord, verdict: &Verdict, is_brief: bool) -> Problem {
    let word = verdict.standing.word();
    match verdict.standing {
        Standing::Valid => Problem {
            tone: Tone::Good,
            mark: |_| "",
            ..Problem::caution(word, "sound, and every run rule is met")
        },
        Standing::Uncertified => {
            let unmet = verdict.unmet_rules.len() as u64;
            let all = rules(record).len() as u64;
            let ids: Vec<&str> = verdict.unmet_rules.iter().map(|rule| rule.id.as_str()).collect();
            let which = if is_brief { String::new() } else { format!(": {}", ids.join(", ")) };
            let verb = if unmet == 1 { "is" } else { "are" };
            Problem::caution(
                word,
                &format!("sound, but {} of {} run rules {verb} not met{which}", count(unmet), count(all)),
            )
        }
        Standing::Invalid => {
            let reasons = &verdict.reasons;
            let mut problem = match &reasons[..] {
                [only] => Problem::alarm(word, &only.sentence),
                several => {
                    let number = counted(several.len() as u64, "reason", "reasons");
                    let mut problem =
                        Problem::alarm(word, &format!("do not trust these figures, for {number}"));
                    problem.details =
                        several.iter().take(REASONS_MAX).map(|reason| reason.sentence.clone()).collect();
                    problem
                }
            };
            if reasons.len() > REASONS_MAX {
                problem.details.push(format!("and {} more", count((reasons.len() - REASONS_MAX) as u64)));
            }
            problem
        }
    }
}

/// Errors that are too few to condemn the run.
fn errors(record: &RunRecord, verdict: &Verdict, problems: &mut Vec<Problem>) {
    let counts = summary::counts(record);
    let condemned =
        verdict.reasons.iter().any(|r| matches!(r.cause, Cause::Errors | Cause::NothingSucceeded));
    if counts.failed == 0 || condemned {
        return;
    }
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

/// Levels at which the generator itself is a good part of the latency that it shows.
fn generator_delay(screen: &Screen, levels: &[Level<'_>], problems: &mut Vec<Problem>) {
    let delayed: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let (own, latency) =
                (level.generator.loop_delay_p50_s?, *level.figures.latency_percentiles_s.first()?);
            let text = format!("{} of {}", seconds(screen, own), seconds(screen, latency));
            let clients = counted(u64::from(level.clients), "client", "clients");
            (own * 100.0 > latency * LOOP_DELAY_PERCENT_MAX).then(|| format!("{text} at {clients}"))
        })
        .collect();
    if !delayed.is_empty() {
        let text = format!(
            "of the median latency, more than {LOOP_DELAY_PERCENT_MAX} % is the load generator's own delay: {}",
            listed(&delayed)
        );
        problems.push(Problem::caution("OWN DELAY", &text));
    }
}

/// Iterations that stand apart, and those that were not in their steady state.
fn iterations(screen: &Screen, levels: &[Level<'_>], problems: &mut Vec<Problem>) {
    let named = |run: &IterationRecord| {
        format!("iteration {} at {}", run.iteration, summary::load(run.clients, run.rate))
    };
    let mut apart = Vec::new();
    let (mut later, mut never) = (Vec::new(), Vec::new());
    for level in levels {
        for place in &level.statistics.outliers {
            let run = level.runs[*place];
            let rate = summary::request_rate(&run.measured);
            apart.push(format!("{} ({rate:.0} requests/s)", named(run)));
        }
        for (run, steady) in level.runs.iter().zip(&level.statistics.steady) {
            let Some(steady) = steady else { continue };
            match steady.steadiness {
                Steadiness::FromTheStart => {}
                Steadiness::Later => later.push(format!(
                    "{} (after {}; the mean rate is {:+.1} % off)",
                    named(run),
                    seconds(screen, steady.truncate as f64),
                    steady.shift_percent
                )),
                Steadiness::Never => never.push(named(run)),
            }
        }
    }
    let mut say = |title: &str, text: &str, found: Vec<String>| {
        if !found.is_empty() {
            problems.push(Problem::caution(title, &format!("{text}: {}", listed(&found))));
        }
    };
    say(
        "OUTLIERS",
        "apart from the other iterations of their level, and in every figure all the same",
        apart,
    );
    say("WARM-UP TOO SHORT", "by MSER-5 the steady state came later in", later);
    say("NOT STEADY", "by MSER-5 the rate goes on moving through", never);
}

fn noise(levels: &[Level<'_>], problems: &mut Vec<Problem>) {
    let parted: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let noise = level.statistics.noise.filter(|noise| !noise.alike)?;
            let off = 100.0 * (noise.ratio.point - 1.0);
            Some(format!("{} ({off:+.2} %)", level.load()))
        })
        .collect();
    if !parted.is_empty() {
        let text = format!(
            "both arms measure the same, and more than chance parts them at {}: the machine or the server changed \
             meanwhile",
            listed(&parted)
        );
        problems.push(Problem::caution("A/A ARMS DIFFER", &text));
    }
}

/// What the kernel counted that should not happen, and what was nearly used up.
fn host(record: &RunRecord, problems: &mut Vec<Problem>) {
    let uses = || record.iterations.iter().filter_map(|run| Some((run, run.host.as_ref()?)));
    let overflows: u64 =
        uses().filter_map(|(_, host)| Some(host.tcp?.listen_overflows)).fold(0, u64::saturating_add);
    if overflows > 0 {
        let text = format!(
            "connections found the listen queue full {} on this host: each waits a second or more for its next SYN",
            counted(overflows, "time", "times")
        );
        problems.push(Problem::caution("LISTEN QUEUE", &text));
    }
    let syn: u64 =
        uses().filter_map(|(_, host)| Some(host.tcp?.syn_retransmitted)).fold(0, u64::saturating_add);
    if syn > 0 && overflows == 0 {
        let text = format!(
            "{} sent again on this host: packets are lost, or a queue is full elsewhere",
            counted(syn, "SYN was", "SYNs were")
        );
        problems.push(Problem::caution("RETRANSMISSIONS", &text));
    }
    type Pressure = (&'static str, fn(&HostUse) -> Option<(u64, u64)>);
    let kinds: [Pressure; 2] = [
        ("local ports", |host| Some((host.tcp?.time_wait + host.tcp?.in_use, host.ports?))),
        ("files that may be open", |host| Some((host.descriptors?, host.descriptors_max?))),
    ];
    for (what, of) in kinds {
        let share = |(used, limit): (u64, u64)| summary::quotient(used as f64 * 100.0, limit as f64);
        let worst = uses()
            .filter_map(|(run, host)| Some((run, of(host)?)))
            .max_by(|a, b| share(a.1).total_cmp(&share(b.1)));
        let Some((run, (used, limit))) = worst.filter(|(_, use_)| share(*use_) >= PRESSURE_PERCENT) else {
            continue;
        };
        let text = format!(
            "{} of {} {what} were taken at {}",
            count(used),
            count(limit),
            summary::load(run.clients, run.rate)
        );
        problems.push(Problem::caution("PRESSURE", &text));
    }
}

fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
