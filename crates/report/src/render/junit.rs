//! JUnit's XML, for continuous integration: GitLab's test reports, Jenkins' JUnit plugin, and actions that read them on GitHub.
//!
//! A run is a test suite. Its verdict is a test case, and so is each level, and each threshold at each level that it selects. What
//! makes a run invalid, and a threshold that is not kept, is a failure; a level of which only void timed runs are left is an error:
//! nothing is known of it. A NOISY run or level passes, as the exit code does, and says in its output how far the figures may be off.
//! An INCONCLUSIVE run is a failure, as its exit code is not 0; such a level is skipped, because the rest of the run may count. Readers
//! recognise a case by class and name, so neither contains anything of a single run, unless two runs of one report would share both.
//!
//! The format has no standard. Elements and attributes are those of Jenkins' schema (junit-10.xsd), in its order; times are seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use webstone_judge::verdict::{Loss, Reason, Standing, Verdict, losses};
use webstone_measure::figures::table::{self, Rank};
use webstone_measure::keys::LevelKey;
use webstone_model::record::RunRecord;

use crate::chart::escape;
use crate::document::run::{header, noise};
use crate::document::summary::{self, Level};
use crate::document::thresholds::measured;
use crate::judged::Judged;
use crate::{Options, checked};

/// The outcome of a case; the default is a success.
#[derive(Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) time_s: f64,
    /// `failure`, `error` or `skipped`, its kind, and why.
    pub(crate) outcome: Option<(&'static str, &'static str, Vec<String>)>,
    /// Its output.
    pub(crate) output: Vec<String>,
}

/// A run or a duel.
pub(crate) struct Suite<'a> {
    pub(crate) id: &'a str,
    /// RFC 3339, UTC.
    pub(crate) started_at: &'a str,
    pub(crate) host: Option<&'a Value>,
    /// Its workload and target.
    pub(crate) class: String,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) cases: Vec<Case>,
}

/// The document of runs.
pub(crate) fn render(records: &[Judged<'_>], options: &Options) -> String {
    let class = |record: &RunRecord| format!("{} on {}", record.workload.name, header::target(record));
    let classes: Vec<String> = records.iter().map(|judged| class(judged.record)).collect();
    let suites = records.iter().zip(&classes).map(|(judged, class)| {
        let record = judged.record;
        let is_shared = classes.iter().filter(|other| *other == class).count() > 1;
        Suite {
            id: &record.id,
            started_at: &record.started_at,
            host: record.environment.get("hostname"),
            class: if is_shared { format!("{class} {}", record.id) } else { class.clone() },
            properties: properties(record, &judged.verdict),
            cases: cases(judged, options),
        }
    });
    document(&suites.collect::<Vec<_>>())
}

/// The document.
pub(crate) fn document(suites: &[Suite<'_>]) -> String {
    let all: Vec<&Case> = suites.iter().flat_map(|suite| &suite.cases).collect();
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let _ = writeln!(out, "<testsuites name=\"webstone\"{}>", counts(&all));
    for Suite { id, started_at, host, class, properties, cases } in suites {
        let _ = writeln!(
            out,
            "  <testsuite name={} timestamp={} hostname={}{}>\n    <properties>",
            quoted(id),
            // Readers take it for ISO 8601 without a zone.
            quoted(started_at.get(..19).unwrap_or(started_at)),
            quoted(host.and_then(Value::as_str).unwrap_or_default()),
            counts(&cases.iter().collect::<Vec<_>>())
        );
        for (name, value) in properties {
            let _ = writeln!(out, "      <property name={} value={}/>", quoted(name), quoted(value));
        }
        out.push_str("    </properties>\n");
        // A dot would separate a package from a class.
        let class = format!("webstone.{}", class.replace('.', "_"));
        cases.iter().for_each(|case| write(case, &class, &mut out));
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

fn counts(cases: &[&Case]) -> String {
    let of =
        |kind: &str| cases.iter().filter(|case| case.outcome.as_ref().is_some_and(|it| it.0 == kind)).count();
    let time_s: f64 = cases.iter().map(|case| case.time_s).sum();
    format!(
        " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{time_s:.3}\"",
        cases.len(),
        of("failure"),
        of("error"),
        of("skipped")
    )
}

fn write(case: &Case, class: &str, out: &mut String) {
    let (name, time_s) = (quoted(&case.name), case.time_s);
    let _ = write!(out, "    <testcase name={name} classname={} time=\"{time_s:.3}\"", quoted(class));
    if case.outcome.is_none() && case.output.is_empty() {
        out.push_str("/>\n");
        return;
    }
    out.push_str(">\n");
    if let Some((element, kind, why)) = &case.outcome {
        let message = quoted(why.first().map_or("", String::as_str));
        let _ = writeln!(
            out,
            "      <{element} type=\"{kind}\" message={message}>{}</{element}>",
            text(&why.join("\n"))
        );
    }
    if !case.output.is_empty() {
        let _ = writeln!(out, "      <system-out>{}</system-out>", text(&case.output.join("\n")));
    }
    out.push_str("    </testcase>\n");
}

fn cases(judged: &Judged<'_>, options: &Options) -> Vec<Case> {
    let Judged { record, whole, verdict, .. } = judged;
    let levels = summary::levels(record);
    let is_failed = !verdict.standing.is_conclusive();
    let (told, limit) = (verdict.told(), verdict.limit.sentence.clone());
    let output = if record.iterations.is_empty() { Vec::new() } else { vec![limit] };
    let mut cases = vec![Case {
        name: "verdict".to_owned(),
        outcome: is_failed.then(|| ("failure", verdict.standing.word(), told.clone())),
        output: match is_failed {
            true => output,
            false => {
                let noise = verdict.noise_told().into_iter().collect();
                [vec![verdict.standing.word().to_owned()], noise, told, output].concat()
            }
        },
        ..Case::default()
    }];
    let outcomes = checked(whole, options);
    cases.extend(outcomes.iter().map(|outcome| {
        let value = measured(outcome);
        let missed = format!("{} at {}: measured {value}", outcome.threshold, outcome.level);
        Case {
            name: format!("{} at {}", outcome.threshold, outcome.level),
            outcome: (!outcome.passed).then(|| ("failure", "threshold", vec![missed])),
            output: vec![format!("measured {value}")],
            ..Case::default()
        }
    }));
    let mut voids: BTreeMap<LevelKey, Vec<String>> = BTreeMap::new();
    for (key, void) in record.void_attempts() {
        let why = losses(whole, void).first().map(Loss::sentence).unwrap_or_default();
        voids.entry(void.level()).or_default().push(format!("void: {key}: {why}"));
    }
    let known: BTreeSet<LevelKey> = levels.iter().map(Level::key).chain(voids.keys().copied()).collect();
    let at = |key: LevelKey| levels.iter().find(|level| level.key() == key);
    cases.extend(
        known.into_iter().map(|key| of_level(key, at(key), verdict, voids.remove(&key).unwrap_or_default())),
    );
    cases
}

fn of_level(key: LevelKey, level: Option<&Level<'_>>, verdict: &Verdict, voids: Vec<String>) -> Case {
    let name = key.to_string();
    let Some(level) = level else {
        return Case { name, outcome: Some(("error", "void", voids)), ..Case::default() };
    };
    let is_here = |reason: &&Reason| reason.level() == Some(key);
    let reasons: Vec<String> =
        verdict.reasons.iter().filter(is_here).map(|reason| reason.sentence.clone()).collect();
    let doubts: Vec<String> =
        verdict.doubts.iter().filter(is_here).map(|reason| reason.sentence.clone()).collect();
    let told = noise::told(verdict, key);
    let outcome = match (reasons.is_empty(), verdict.of_level(key)) {
        (false, _) => Some(("failure", Standing::Invalid.word(), reasons)),
        (true, standing @ Standing::Inconclusive) => {
            Some(("skipped", standing.word(), [vec![told.clone()], doubts.clone()].concat()))
        }
        (true, _) => None,
    };
    let figures = headlines(level).into_iter().map(|(name, value)| format!("{name}: {value}"));
    Case {
        name,
        time_s: level.figures.test_time_s,
        outcome,
        output: [told].into_iter().chain(figures).chain(doubts).chain(voids).collect(),
    }
}

/// The headline figures of a level, by their keys in the table, in base units.
fn headlines(level: &Level<'_>) -> Vec<(String, String)> {
    let figures = table::all().filter(|figure| figure.rank == Rank::Headline);
    let known = figures.filter_map(|figure| Some((figure.key.to_owned(), level.values.value(figure)?)));
    known.map(|(key, value)| (key, value.as_f64().to_string())).collect()
}

/// What the run was, and the headline figures at its peak.
fn properties(record: &RunRecord, verdict: &Verdict) -> Vec<(String, String)> {
    let levels = summary::levels(record);
    let peak = levels.get(summary::peak(&levels).unwrap_or(0));
    let said = [
        ("verdict", verdict.standing.word().to_owned()),
        ("workload", record.workload.name.clone()),
        ("target", record.target.url.clone()),
        ("server", record.target.server.clone().unwrap_or_default()),
        ("webstone", record.tool.version.clone()),
        ("peak", peak.map(Level::load).unwrap_or_default()),
    ];
    let said = said.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| (name.to_owned(), value))
        .chain(peak.map(headlines).unwrap_or_default())
        .collect()
}

/// Text as XML 1.0 may hold it: characters that it forbids, and invisible ones, are written as their numbers.
fn text(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c }).collect();
    let mut out = String::new();
    escape(&mut out, &text);
    out
}

/// An attribute's value.
fn quoted(value: &str) -> String {
    format!("\"{}\"", text(value))
}
