//! Runs of one server over time, as a table with its steps.

use webstone_judge::steps::{Changed, RUNS_MIN, Step};

use crate::Options;
use crate::asctime::date_time;
use crate::document::table::{Room, Sheet, Table};
use crate::document::{Document, Tone};
use crate::numbers::{Scale, counted, decimal, seconds, signed};
use crate::render::text;

/// Most facts that are named beside a step; of the others, how many.
const CHANGED_MAX: usize = 8;

/// The unit of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineUnit {
    /// Responses per second.
    PerSecond,
    /// Seconds.
    Seconds,
}

/// Comparable runs in the order of their time.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline<'a> {
    /// What the runs are of: `nginx (tuned), standard, on vm2`.
    pub title: String,
    /// The figure, with its level: `request rate at 20 clients`.
    pub figure: String,
    /// Its unit.
    pub unit: TimelineUnit,
    /// The runs.
    pub runs: Vec<TimelineRun<'a>>,
    /// What looks like a step; `None` if there are too few runs.
    pub steps: Option<&'a [Step]>,
    /// Runs from which on there would be a step if noise could not have made it, by their places.
    pub within_noise: &'a [usize],
}

/// A run of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineRun<'a> {
    /// Its name.
    pub name: &'a str,
    /// When it began (RFC 3339, UTC).
    pub started: &'a str,
    /// The server's version.
    pub version: &'a str,
    /// The figure.
    pub value: f64,
    /// Both ends of its 95 % interval, where it has one.
    pub interval: Option<[f64; 2]>,
    /// What it may be without noise, where noise matters: a higher rate, infinite where it has no bound, or a shorter time, 0 where it
    /// has none.
    pub undisturbed: Option<f64>,
    /// The word of the verdict.
    pub verdict: &'a str,
}

/// The timelines one below the other, each with its table and a sentence for each step.
pub fn render_timelines(timelines: &[Timeline<'_>], options: &Options) -> String {
    let mut doc = Document::default();
    doc.sheets(timelines.iter().map(sheet));
    text::render(&doc, options)
}

fn sheet(timeline: &Timeline<'_>) -> Sheet {
    let values = timeline.runs.iter().map(|run| run.value);
    let (scale, unit) = match timeline.unit {
        TimelineUnit::PerSecond => (Scale::plain(1, values), "/s"),
        TimelineUnit::Seconds => {
            let scale = Scale::seconds(values);
            (scale, scale.unit)
        }
    };
    let steps = timeline.steps.unwrap_or_default();
    let step = |index: usize| steps.iter().find(|step| step.index == index);
    let rows: Vec<(usize, &TimelineRun<'_>)> = timeline.runs.iter().enumerate().collect();
    let mut table = Table::with_rows(&rows);
    table.text("run", Room::Always, |(_, run)| run.name);
    table.text("started", Room::Optional(1), |(_, run)| date_time(run.started));
    table.text("version", Room::Optional(2), |(_, run)| run.version);
    table.number("value", unit, Room::Always, |(_, run)| scale.cell(run.value));
    if timeline.runs.iter().any(|run| run.interval.is_some()) {
        table.number("95 % interval", unit, Room::Optional(4), |(_, run)| {
            run.interval
                .map(|[low, high]| format!("{} to {}", scale.show(low).trim(), scale.show(high).trim()))
        });
    }
    if timeline.runs.iter().any(|run| run.undisturbed.is_some()) {
        let (name, unbounded) = match timeline.unit {
            TimelineUnit::PerSecond => ("up to", "∞"),
            TimelineUnit::Seconds => ("at least", "0"),
        };
        table.number(name, unit, Room::Always, |(_, run)| {
            let is_bounded = |value: f64| value.is_finite() && value > 0.0;
            run.undisturbed.map(|value| if is_bounded(value) { scale.cell(value) } else { unbounded.into() })
        });
    }
    table.text("verdict", Room::Optional(3), |(_, run)| run.verdict);
    if !steps.is_empty() {
        table.number("step", "", Room::Always, |(index, _)| {
            step(*index).map_or_else(String::new, |step| match step.change {
                Some(change) => format!("{} %", signed(change.point, 1)),
                None => "new".to_owned(),
            })
        });
    }
    table.tones(|(index, _)| if step(*index).is_some() { Tone::Caution } else { Tone::Plain });
    let table = table.marks(|(index, _)| step(*index).is_some()).done();
    let mut sheet = Sheet::new(timeline.title.as_str(), timeline.figure.as_str(), table);
    match timeline.steps {
        None => {
            let has = counted(timeline.runs.len() as u64, "run", "runs");
            let text = format!(
                "Steps are looked for in {RUNS_MIN} comparable runs or more; this history has {has}."
            );
            sheet.note(Tone::Faint, text);
        }
        Some([]) => sheet.note(Tone::Faint, "Nothing looks like a step."),
        Some(steps) => steps.iter().for_each(|step| told(timeline, step, &mut sheet)),
    }
    for run in timeline.within_noise.iter().filter_map(|place| timeline.runs.get(*place)) {
        let text = format!("No step at {}: noise of the runs there may have made the change.", run.name);
        sheet.note(Tone::Faint, text);
    }
    sheet
}

fn told(timeline: &Timeline<'_>, step: &Step, sheet: &mut Sheet) {
    let value = |value: f64| match timeline.unit {
        TimelineUnit::PerSecond => format!("{}/s", decimal(value, if value < 100.0 { 1 } else { 0 })),
        TimelineUnit::Seconds => seconds(value),
    };
    let runs = |runs: usize| counted(runs as u64, "run", "runs");
    let size = step.change.map_or_else(String::new, |change| {
        let [point, low, high] = [change.point, change.low, change.high].map(|percent| signed(percent, 1));
        format!(": {point} % (95 % interval {low} to {high} %)")
    });
    let sentence = format!(
        "Looks like a step at {}: {} over {} before, {} over {} from then on{size}.",
        timeline.runs.get(step.index).map_or("", |run| run.name),
        value(step.before),
        runs(step.runs_before),
        value(step.after),
        runs(step.runs_after),
    );
    sheet.note(Tone::Caution, sentence);
    let changed = match step.changed.as_slice() {
        [] => "Nothing else that is recorded changed there.".to_owned(),
        changed => {
            let mut parts: Vec<String> = changed.iter().take(CHANGED_MAX).map(in_words).collect();
            if changed.len() > CHANGED_MAX {
                parts.push(format!("and {} more (--format json)", changed.len() - CHANGED_MAX));
            }
            format!("What else changed there: {}.", parts.join("; "))
        }
    };
    sheet.note(Tone::Plain, changed);
}

/// `kernel from 6.1 to 6.2`, with `(most runs)` if it does not hold for all.
fn in_words(changed: &Changed) -> String {
    let known = |value: &str| if value.is_empty() { "unknown".to_owned() } else { value.to_owned() };
    let most = if changed.throughout { "" } else { " (most runs)" };
    format!("{} from {} to {}{most}", changed.what, known(&changed.before), known(&changed.after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_judge::statistics::Interval;

    fn runs(number: usize) -> Vec<TimelineRun<'static>> {
        let run = |place| TimelineRun {
            name: "20260101T000000Z-night",
            started: "2026-01-01T00:00:00.000Z",
            version: "1.24.0",
            value: if place < 6 { 12_345.0 } else { 11_111.0 },
            interval: (place == 6).then_some([11_000.0, 11_222.0]),
            undisturbed: None,
            verdict: "VALID",
        };
        (0..number).map(run).collect()
    }

    #[test]
    fn a_step_is_marked_and_told_with_what_else_changed() {
        let changed = |what: &str, before: &str, after: &str, throughout| Changed {
            what: what.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            throughout,
        };
        let steps = [Step {
            index: 6,
            runs_before: 6,
            runs_after: 6,
            before: 12_345.0,
            after: 11_111.0,
            change: Some(Interval { low: -10.4, high: -9.6, ..Interval::bare(-10.0) }),
            p_value: 1e-9,
            changed: vec![
                changed("kernel", "6.1", "6.2\u{1b}[2J", true),
                changed("microcode", "", "0x1", false),
            ],
        }];
        let mut timeline = Timeline {
            title: "nginx (tuned), standard, on vm2".to_owned(),
            figure: "request rate at 20 clients".to_owned(),
            unit: TimelineUnit::PerSecond,
            runs: runs(12),
            steps: Some(&steps),
            within_noise: &[],
        };
        let options = Options { width: 110, ..Options::default() };
        let text = render_timelines(&[timeline.clone()], &options);
        let marked: Vec<&str> =
            text.lines().filter(|line| line.contains(" VALID ") && line.contains("-10.0 %")).collect();
        assert_eq!(marked.len(), 1, "{text}");
        assert!(marked[0].contains("11,111"), "{text}");
        assert!(marked[0].contains(" 11,000 to 11,222 "), "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Looks like a step at 20260101T000000Z-night: 12,345/s over 6 runs before, 11,111/s over 6 runs from then on: \
             -10.0 % (95 % interval -10.4 to -9.6 %).",
            "What else changed there: kernel from 6.1 to 6.2\\u{1b}[2J; microcode from unknown to 0x1 (most runs).",
        ] {
            assert!(flat.contains(part), "{text}");
        }
        timeline.steps = Some(&[]);
        assert!(render_timelines(&[timeline.clone()], &options).contains("Nothing looks like a step."));
        timeline.steps = None;
        timeline.runs.truncate(9);
        let text = render_timelines(&[timeline], &options);
        assert!(text.contains("10 comparable runs or more; this history has 9 runs."), "{text}");
    }

    #[test]
    fn noise_is_told_in_numbers_and_makes_no_step() {
        let mut timeline = Timeline {
            title: "nginx".to_owned(),
            figure: "request rate at 20 clients".to_owned(),
            unit: TimelineUnit::PerSecond,
            runs: runs(12),
            steps: Some(&[]),
            within_noise: &[6],
        };
        timeline.runs[6].undisturbed = Some(26_666.4);
        timeline.runs[7].undisturbed = Some(f64::INFINITY);
        let said = |timeline: &Timeline<'_>| {
            render_timelines(std::slice::from_ref(timeline), &Options { width: 110, ..Options::default() })
        };
        let text = said(&timeline);
        for part in ["up to", " 26,666 ", " ∞ ", "No step at 20260101T000000Z-night: noise of the runs there"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        timeline.unit = TimelineUnit::Seconds;
        timeline.runs[7].undisturbed = Some(0.0);
        assert!(said(&timeline).contains("at least"), "{}", said(&timeline));
    }
}
