//! The verdict, the headline, the bottleneck, and what else makes the figures doubtful. The verdict is above the figures, because a
//! figure that is read first is believed.

use webstone_judge::verdict::{
    Cause, LimitingResource, Reason, RuleResult, RuleStanding, Standing, Verdict, rules,
};
use webstone_measure::keys::LevelKey;
use webstone_model::record::RunRecord;

use super::cautions;
use super::headline;
use crate::advice;
use crate::document::{Block, Document, Tone};
use crate::judged::Judged;
use crate::numbers::{DOT, count, counted};
use crate::summary::Level;

/// Lines of a reason that the default report prints as it is.
const REASON_LINES_MAX: usize = 2;
/// Width of what stands before a line, in columns.
const MARGIN: usize = 3;
/// Before a caution.
const MARK: &str = "!";
/// Cautions that the default report and that of a quick measurement print.
const CAUTIONS_MAX: usize = 5;
const CAUTIONS_OF_HIT_MAX: usize = 2;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A quick measurement, which is not checked against the run rules.
    Hit,
    /// What fits a screen.
    Brief,
    /// Everything.
    Full,
}

/// The block above the tables.
pub(crate) fn begin(judged: &Judged<'_>, levels: &[Level<'_>], depth: Depth, doc: &mut Document) {
    let (record, verdict) = (judged.record, &judged.verdict);
    doc.gap();
    let headline = if depth == Depth::Hit { Vec::new() } else { headline::lines(judged, levels) };
    let say = |doc: &mut Document| {
        headline.iter().for_each(|(tone, line)| doc.item("", MARGIN, *tone, line));
    };
    // The answer of a search is always shown; it says itself where it is inconclusive.
    let is_search = record.spec.find.is_some();
    if is_search {
        say(doc);
    }
    standing(verdict, depth, doc);
    if !is_search {
        say(doc);
    }
    let is_said = depth != Depth::Full && says_bottleneck(verdict);
    if !record.iterations.is_empty() && !is_said {
        doc.item("", MARGIN, Tone::Plain, &verdict.limit.sentence);
    }
    if let Some(next) = advice::next(record, verdict) {
        doc.item("", MARGIN, Tone::Strong, format!("try: {next}"));
    }
    let mut cautions = cautions::of_levels(judged, levels);
    // The headline says how many failed; the report of a quick measurement does so in its last lines.
    cautions.retain(|caution| caution.title != cautions::ERRORS);
    if depth != Depth::Full && says_disturbed(verdict) {
        cautions.retain(|caution| caution.title != cautions::DISTURBED_BEFORE);
    }
    // Nothing else says what warnings say, such as where the load went.
    let warnings = cautions.iter().filter(|caution| caution.title == cautions::WARNING).count();
    if depth == Depth::Hit {
        cautions.sort_by_key(|caution| caution.title != cautions::WARNING);
    }
    let shown = match depth {
        Depth::Full => cautions.len(),
        Depth::Brief => CAUTIONS_MAX,
        Depth::Hit => warnings.clamp(CAUTIONS_OF_HIT_MAX, CAUTIONS_MAX),
    };
    for caution in cautions.iter().take(shown) {
        let lines = if depth == Depth::Full { caution.lines() } else { vec![caution.brief()] };
        for (place, line) in lines.iter().enumerate() {
            match place {
                0 => doc.item(MARK, MARGIN, Tone::Caution, format!("{}: {line}", caution.title)),
                _ => doc.item("", MARGIN, Tone::Plain, line),
            }
        }
    }
    if let more @ 1.. = cautions.len().saturating_sub(shown) {
        let text = format!("and {}: --full", counted(more as u64, "more caution", "more cautions"));
        doc.item("", MARGIN, Tone::Caution, text);
    }
}

/// All cautions of a record, each with its title in capitals and its whole sentence.
pub(crate) fn cautions(judged: &Judged<'_>, levels: &[Level<'_>]) -> Vec<(&'static str, String)> {
    let found = cautions::of_levels(judged, levels);
    found.into_iter().map(|caution| (caution.title, caution.whole())).collect()
}

/// The table of all run rules, at the end of the full report.
pub(super) fn rules_table(record: &RunRecord, doc: &mut Document) {
    let rules = rules(record);
    let met = rules.iter().filter(|rule| rule.standing == RuleStanding::Met).count() as u64;
    doc.heading("Run rules", format!("{} of {} met", count(met), count(rules.len() as u64)));
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0) + 2;
    for rule in &rules {
        let (word, tone) = match rule.standing {
            RuleStanding::Met => ("met", Tone::Plain),
            RuleStanding::NotMet => ("NOT MET", Tone::Caution),
            RuleStanding::CannotTell => ("CANNOT TELL", Tone::Caution),
        };
        doc.item(rule.id.as_str(), width, tone, format!("{word}: {}", rule.evidence));
    }
}

/// Whether a run rule is met, inside a sentence.
pub(crate) fn is_met(rule: &RuleResult) -> &'static str {
    match rule.standing {
        RuleStanding::Met => "met",
        RuleStanding::NotMet => "not met",
        RuleStanding::CannotTell => "unknown",
    }
}

fn standing(verdict: &Verdict, depth: Depth, doc: &mut Document) {
    let word = verdict.standing.word();
    match (verdict.standing, depth) {
        (Standing::Valid | Standing::Sound, _) => {
            let text = [word.to_owned()].into_iter().chain(open_rules(verdict, depth)).collect::<Vec<_>>();
            let tone = if verdict.standing == Standing::Valid { Tone::Good } else { Tone::Plain };
            doc.item("", MARGIN, tone, text.join(DOT));
        }
        (Standing::Noisy, _) => in_doubt(MARK, Tone::Caution, verdict, depth, doc),
        (Standing::Inconclusive, _) => in_doubt(MARK, Tone::Alarm, verdict, depth, doc),
        (Standing::Invalid, _) => in_doubt("✗", Tone::Alarm, verdict, depth, doc),
    }
}

/// How many run rules are open for certification; a quick measurement is not checked against them.
fn open_rules(verdict: &Verdict, depth: Depth) -> Option<String> {
    let unmet = verdict.unmet_rules.len() as u64;
    let how = if depth == Depth::Brief { " (--full lists them)" } else { "" };
    let verb = if unmet == 1 { "is" } else { "are" };
    let rules = counted(unmet, "run rule", "run rules");
    (unmet > 0 && depth != Depth::Hit).then(|| format!("{rules} {verb} open for certification{how}"))
}

/// The mark stands in the margin, where tables have their markers: it is the first thing on the line. What noise does to the figures comes
/// before what caused it.
fn in_doubt(mark: &str, tone: Tone, verdict: &Verdict, depth: Depth, doc: &mut Document) {
    let (word, told) = (verdict.standing.word(), verdict.told());
    let item = |text: &str| Block::Item {
        label: mark.to_owned(),
        width: MARGIN,
        tone,
        text: format!("{word}: {text}"),
    };
    if let Some(noise) = verdict.noise_told().filter(|_| verdict.reasons.is_empty()) {
        doc.0.push(item(&noise));
        match (&verdict.doubts[..], depth) {
            (_, Depth::Full) | ([_], _) => told.iter().for_each(|why| doc.item("", MARGIN, Tone::Plain, why)),
            _ => {
                let more = match more_windows(&verdict.doubts, verdict.doubt_told()) {
                    0 => "more".to_owned(),
                    more => counted(more, "more window", "more windows"),
                };
                let first =
                    verdict.doubt_told().map(|doubt| format!("{}; and {more}: --full", doubt.sentence));
                first.into_iter().for_each(|line| doc.item("", MARGIN, Tone::Plain, line));
            }
        }
        return;
    }
    let brief = || item(&reasons_in_brief(verdict));
    match (&told[..], depth) {
        ([only], Depth::Full) => doc.0.push(item(only)),
        ([only], _) => {
            let either = Box::new([item(only), brief()]);
            doc.0.push(Block::Either(only.clone(), REASON_LINES_MAX, either));
        }
        (_, Depth::Full) => {
            let number = counted(verdict.reasons.len() as u64, "reason", "reasons");
            doc.0.push(item(&format!("{}, for {number}", verdict.standing.meaning())));
            told.into_iter().for_each(|reason| doc.item("", MARGIN, Tone::Plain, reason));
        }
        _ => doc.0.push(brief()),
    }
    // Levels that are not invalid keep their bounds.
    if let Some(noise) = verdict.noise_told().filter(|_| verdict.standing == Standing::Invalid) {
        let is_only_incomplete = verdict.reasons.iter().all(|reason| reason.cause == Cause::Incomplete);
        let levels = if is_only_incomplete { "completed levels" } else { "other levels" };
        doc.item("", MARGIN, Tone::Caution, format!("{levels}: {noise}"));
    }
}

/// In how many windows there is another reason than this one. One of a level as a whole is in none.
fn more_windows(doubts: &[Reason], told: Option<&Reason>) -> u64 {
    let window = |doubt: &Reason| Some((doubt.level()?, doubt.iteration?));
    let mut windows: Vec<_> = doubts.iter().filter_map(window).collect();
    windows.sort_unstable();
    windows.dedup();
    windows.retain(|of| told.and_then(window) != Some(*of));
    windows.len() as u64
}

/// Why a run is invalid, noisy or inconclusive, a clause for each cause: what, where first, by how much.
pub(crate) fn reasons_in_brief(verdict: &Verdict) -> String {
    let of_cause = |reasons: &[Reason]| {
        let Some((first, others)) = reasons.split_first() else { return String::new() };
        let place = first.clients.map(|clients| format!(" at {}", LevelKey::new(clients, first.rate)));
        let place = place.unwrap_or_default();
        let number = others.len() as u64;
        let more = match first.iteration {
            _ if others.is_empty() => String::new(),
            // Several may be of one timed run.
            _ if first.cause == Cause::IdentityBroken => format!(", and {} more", count(number)),
            Some(_) => format!(", and in {}", counted(number, "more timed run", "more timed runs")),
            None => format!(", and at {}", counted(number, "more level", "more levels")),
        };
        match first.cause {
            // The measured value is the whole sentence.
            Cause::Incomplete | Cause::IdentityBroken => format!("{}{more}", first.sentence),
            Cause::NothingSucceeded => format!("{}{place}: {}{more}", name(first.cause), first.measured),
            cause => format!("{}{place}: {} (limit {}){more}", name(cause), first.measured, first.limit),
        }
    };
    let clauses: Vec<String> = verdict.decisive().chunk_by(|a, b| a.cause == b.cause).map(of_cause).collect();
    clauses.join("; ")
}

/// A cause in a few words, before the place.
pub(crate) fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Incomplete => "the run is incomplete",
        Cause::IdentityBroken => "counters contradict each other",
        Cause::NothingSucceeded => "no request succeeded",
        Cause::Errors => "too many requests failed",
        Cause::Unanswered => "requests stalled without an answer",
        Cause::GeneratorSaturated => "the load generator's CPU was the bottleneck",
        Cause::PathSaturated => "the relay of the path was the bottleneck, or late",
        Cause::ScheduleLag => "requests were sent too late",
        Cause::RateMissed => "the offered rate missed its target",
        Cause::ClientsStarved => "clients starved",
        Cause::WindowsApart => "hosts did not open their windows together",
        Cause::Disturbed => "other programs or the host took CPU time",
        Cause::Slowed => "a CPU of the server was slower than at its best",
        Cause::SlowerThanEarlier => "a CPU of the server was slower than in earlier runs",
        Cause::Crowded => "other programs used the test's CPUs",
        Cause::Unjudged => "part of the window was not watched",
        Cause::Imprecise => "iterations differ too much to conclude anything",
    }
}

/// Whether the verdict says that other programs took CPU time.
fn says_disturbed(verdict: &Verdict) -> bool {
    verdict.reasons.iter().chain(&verdict.doubts).any(|reason| reason.cause == Cause::Disturbed)
}

/// Whether the verdict names the bottleneck already.
fn says_bottleneck(verdict: &Verdict) -> bool {
    let is_saturated = |reason: &Reason| reason.cause == Cause::GeneratorSaturated;
    verdict.limit.resource == LimitingResource::Generator && verdict.reasons.iter().any(is_saturated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(cause: Cause, clients: u32, measured: &str, limit: &str) -> Reason {
        Reason {
            cause,
            clients: Some(clients),
            rate: None,
            iteration: Some(1),
            measured: measured.to_owned(),
            limit: limit.to_owned(),
            sentence: String::new(),
        }
    }

    #[test]
    fn windows_are_counted_once_whatever_disturbed_them() {
        let of_level =
            |clients| Reason { iteration: None, ..reason(Cause::SlowerThanEarlier, clients, "7.0 %", "6 %") };
        let doubts = [
            reason(Cause::Disturbed, 5, "2.5 %", "2 %"),
            reason(Cause::Disturbed, 40, "2.5 %", "2 %"),
            reason(Cause::Crowded, 40, "9.0 %", "8 %"),
            of_level(5),
            of_level(40),
        ];
        assert_eq!(more_windows(&doubts, Some(&doubts[0])), 1);
        assert_eq!(more_windows(&doubts[..1], Some(&doubts[0])), 0);
        assert_eq!(more_windows(&doubts, Some(&doubts[3])), 2);
    }

    #[test]
    fn a_cpu_that_was_slow_is_not_said_to_have_been_taken() {
        let record = webstone_model::fixture::record("a", &[(5, &[1_000.0]), (40, &[1_000.0])]);
        let mut verdict = webstone_judge::verdict::of_record(&record);
        verdict.reasons = Vec::new();
        verdict.doubts =
            vec![reason(Cause::Disturbed, 40, "2.5 %", "2 %"), reason(Cause::Slowed, 5, "6.4 %", "6 %")];
        assert_eq!(
            reasons_in_brief(&verdict),
            "other programs or the host took CPU time at 40 clients: 2.5 % (limit 2 %); a CPU of the server was slower than at \
             its best at 5 clients: 6.4 % (limit 6 %)"
        );
        verdict.doubts.insert(1, reason(Cause::Disturbed, 5, "9.5 %", "2 %"));
        verdict.doubts.truncate(2);
        assert_eq!(
            reasons_in_brief(&verdict),
            "other programs or the host took CPU time at 40 clients: 2.5 % (limit 2 %), and in 1 more timed run"
        );
    }
}
