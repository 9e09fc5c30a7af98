//! A duel as a document: its result in a sentence for each contestant, the conditions, the verdict, the figures with their intervals, the
//! twin, and how it was measured.

mod charts;

use serde_json::Value;
use webstone_judge::duel::{DuelComparison, DuelJudgement, DuelRatio, GateOutcome, JudgedGate};
use webstone_judge::verdict::Standing;
use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_model::duel::{AnswerDifference, DuelFigure, DuelRecord, DuelStart};
use webstone_model::record::RunState;

use crate::document::cell::Cell;
use crate::document::chart::{Change, Changes, Chart};
use crate::document::table::{Room, Sheet, Table};
use crate::document::{Block, Document, Tone};
use crate::numbers::{Scale, count, counted, cpu_list, seconds, signed};

/// Width of the labels, in columns.
const LABEL: usize = 10;
/// Answers that differ, listed one by one.
const DIFFERENCES_MAX: usize = 5;

/// The document: the answer, the figures, how they came about; every start and the contestants on request.
pub(crate) fn document(record: &DuelRecord, judgement: &DuelJudgement) -> Document {
    let mut doc = Document::default();
    let broken = judgement.gates.iter().any(|gate| gate.outcome == GateOutcome::Broken);
    let sign = match (judgement.standing.is_conclusive(), broken) {
        (false, _) => "⚠️ ",
        (true, true) => "❌ ",
        (true, false) if !judgement.gates.is_empty() => "✅ ",
        (true, false) => "",
    };
    doc.title(sign, title(record));
    doc.gap();
    doc.part("answer", "Answer", answer(record, judgement));
    for of in &judgement.comparisons {
        let mut figures = figures(record, of);
        figures.charts(charts::course(record, judgement, of));
        let title = format!("{} against {}", of.name, record.contestants[0].name);
        doc.part(format!("against-{}", of.contestant), title, figures);
    }
    doc.gap();
    doc.part("notes", "How it was measured", notes(record, judgement));
    doc.part("time", "Over time", Document::of_charts(charts::over_time(record, judgement)));
    let mut more = |anchor: &str, title: &str, summary: &str, whole| {
        let mut folded = Document::default();
        folded.fold(summary, Document::default(), whole);
        doc.part(anchor, title, folded);
    };
    more("starts", "Starts", "Every start", starts(record, judgement));
    more("contestants", "Contestants", "The contestants, and the command", contestants(record));
    doc
}

/// Answers that differ, which come before any figure; a sentence for each contestant, the conditions, and the verdict.
fn answer(record: &DuelRecord, judgement: &DuelJudgement) -> Document {
    let mut doc = Document::default();
    differences(record).into_iter().for_each(|text| doc.item("DIFFERS", LABEL, Tone::Alarm, text));
    if !doc.0.is_empty() {
        doc.gap();
    }
    for of in &judgement.comparisons {
        let tone = match leading(judgement, of).map(tone_of) {
            Some(Tone::Plain) | None => Tone::Strong,
            Some(tone) => tone,
        };
        doc.text(tone, sentence(record, judgement, of));
    }
    gates(record, judgement).into_iter().for_each(|(label, tone, text)| doc.item(label, LABEL, tone, text));
    let tone = if judgement.standing.is_conclusive() { Tone::Good } else { Tone::Alarm };
    doc.text(tone, verdict_line(record, judgement));
    doc
}

/// The figures of a contestant beside those of the first.
fn figures(record: &DuelRecord, of: &DuelComparison) -> Document {
    let chart = Changes {
        id: format!("chart-changes-{}", of.contestant),
        title: "Change of every figure".to_owned(),
        definition: None,
        caption: "A dot is a change, its line the interval.",
        rows: of.ratios.iter().filter_map(change).collect(),
    };
    let sheet = sheet(record, of);
    let block = match chart.rows.is_empty() {
        true => Block::Sheet(sheet),
        false => Block::Chart(Box::new(Chart::Changes(chart)), Some(sheet)),
    };
    Document(vec![block])
}

fn change(ratio: &DuelRatio) -> Option<Change> {
    let in_percent = |value: f64| 100.0 * (value - 1.0);
    ratio.high.is_finite().then(|| Change {
        name: ratio.figure.name().to_owned(),
        shown: format!("{} %, {}", signed(in_percent(ratio.ratio), 1), word(ratio)),
        point: in_percent(ratio.ratio),
        interval: Some((in_percent(ratio.low), in_percent(ratio.high))),
        noise: 0.0,
        is_open: !ratio.differs(),
        tone: tone_of(ratio),
    })
}

/// `Duel: nginx:tuned against nginx`.
pub(crate) fn title(record: &DuelRecord) -> String {
    let others: Vec<&str> =
        record.challengers().map(|number| record.contestants[number].name.as_str()).collect();
    let first = record.contestants.first().map_or("", |first| first.name.as_str());
    format!("Duel: {} against {first}", others.join(", "))
}

fn leading<'a>(judgement: &DuelJudgement, of: &'a DuelComparison) -> Option<&'a DuelRatio> {
    of.ratio(judgement.leading)
}

/// `HEAD uses 3.1 % more CPU time per request than main (2.3 to 3.9 %)`.
pub fn sentence(record: &DuelRecord, judgement: &DuelJudgement, of: &DuelComparison) -> String {
    let first = &record.contestants[0].name;
    let name = &of.name;
    let Some(ratio) = leading(judgement, of) else {
        return format!("Nothing can be said of {name}: it has no figure in common with {first}.");
    };
    let figure = ratio.figure;
    if !ratio.high.is_finite() {
        return format!("{name} against {first}: too few starts for an interval.");
    }
    if !ratio.differs() {
        return format!(
            "No difference in {} is shown between {name} and {first}: {} % ({}).",
            figure.name(),
            percent(ratio.ratio, ratio),
            interval(ratio)
        );
    }
    let by = 100.0 * (ratio.ratio - 1.0).abs();
    let (from, to) = if ratio.ratio > 1.0 { (ratio.low, ratio.high) } else { (ratio.high, ratio.low) };
    let decimals = decimals(ratio);
    let range =
        format!("{:.decimals$} to {:.decimals$} %", 100.0 * (from - 1.0).abs(), 100.0 * (to - 1.0).abs());
    let more = if ratio.ratio > 1.0 { "more" } else { "less" };
    match figure {
        DuelFigure::Cpu => {
            format!("{name} uses {by:.decimals$} % {more} CPU time per request than {first} ({range}).")
        }
        DuelFigure::Rate => {
            let fewer = if ratio.ratio > 1.0 { "more" } else { "fewer" };
            format!("{name} answers {by:.decimals$} % {fewer} requests/s than {first} ({range}).")
        }
        _ => {
            let higher = if ratio.ratio > 1.0 { "higher" } else { "lower" };
            format!("{name}'s {} is {by:.decimals$} % {higher} than {first}'s ({range}).", figure.name())
        }
    }
}

/// Digits after the point that an interval of this width deserves.
fn decimals(ratio: &DuelRatio) -> usize {
    let width = 100.0 * (ratio.high - ratio.low);
    if width >= 20.0 {
        0
    } else if width >= 0.2 {
        1
    } else {
        2
    }
}

fn percent(value: f64, ratio: &DuelRatio) -> String {
    signed(100.0 * (value - 1.0), decimals(ratio))
}

/// `+2.3 to +3.9`.
fn interval(ratio: &DuelRatio) -> String {
    match ratio.high.is_finite() {
        true => format!("{} to {}", percent(ratio.low, ratio), percent(ratio.high, ratio)),
        false => "unknown".to_owned(),
    }
}

/// Answers that differ, which come before any figure.
fn differences(record: &DuelRecord) -> Vec<String> {
    let told = |of: &AnswerDifference| {
        let name = record.contestants.get(of.contestant as usize).map_or("", |it| it.name.as_str());
        format!("{name} answers {} otherwise: {}", of.url, of.what)
    };
    let mut told: Vec<String> = record.differences.iter().take(DIFFERENCES_MAX).map(told).collect();
    let more = record.differences.len().saturating_sub(DIFFERENCES_MAX);
    told.extend((more > 0).then(|| format!("and {}", counted(more as u64, "more answer", "more answers"))));
    if !told.is_empty() {
        told.push("who answers otherwise does other work: read the figures with that in mind".to_owned());
    }
    told
}

/// The outcome of the conditions.
fn gates(record: &DuelRecord, judgement: &DuelJudgement) -> Vec<(&'static str, Tone, String)> {
    let gate = |judged: &JudgedGate| {
        let (word, tone) = match judged.outcome {
            GateOutcome::Kept => ("kept", Tone::Good),
            GateOutcome::Broken => ("BROKEN", Tone::Alarm),
            GateOutcome::Unknown => ("unknown", Tone::Caution),
        };
        let name = &record.contestants[judged.contestant].name;
        (word, tone, format!("--fail-if '{}' for {name}", judged.gate))
    };
    judgement.gates.iter().map(gate).collect()
}

/// The twin, how the duel was measured, under which conditions, and further notes.
fn notes(record: &DuelRecord, judgement: &DuelJudgement) -> Document {
    let mut doc = Document::default();
    let mut say = |label: &str, tone, text: String| doc.item(label, LABEL, tone, text);
    twin_line(record, judgement).into_iter().for_each(|text| say("twin", Tone::Plain, text));
    say("measured", Tone::Plain, how(record));
    let version = record.contestants.iter().find_map(|contestant| contestant.http.clone());
    version.into_iter().for_each(|text| say("version", Tone::Plain, text));
    conditions(record).into_iter().for_each(|text| say("during", Tone::Plain, text));
    let notes = judgement.notes.iter().chain(&record.warnings);
    notes.for_each(|text| say("note", Tone::Caution, text.clone()));
    doc
}

/// Name, unit and factor of a figure in a table.
fn scale(ratio: &DuelRatio) -> (String, Scale) {
    let values = [ratio.base, ratio.value];
    let scale = match ratio.figure {
        DuelFigure::Cpu | DuelFigure::Latency | DuelFigure::P50 | DuelFigure::P90 | DuelFigure::P99 => {
            Scale::seconds(values)
        }
        DuelFigure::Bytes | DuelFigure::Memory => Scale::bytes(values),
        DuelFigure::Rate => Scale::plain(0, values),
    };
    let name = ratio.figure.name();
    let name = if scale.unit.is_empty() { name.to_owned() } else { format!("{name}, {}", scale.unit) };
    (name, scale)
}

fn sheet(record: &DuelRecord, of: &DuelComparison) -> Sheet {
    let first = &record.contestants[0].name;
    let mut table = Table::with_rows(&of.ratios);
    table.text("figure", Room::Always, |ratio| scale(ratio).0);
    table.number(first.as_str(), "", Room::Always, |ratio| scale(ratio).1.cell(ratio.base));
    table.number(of.name.as_str(), "", Room::Always, |ratio| scale(ratio).1.cell(ratio.value));
    table.number("change", "%", Room::Always, |ratio| percent(ratio.ratio, ratio));
    table.number("95 % interval", "%", Room::Always, interval);
    table.text("verdict", Room::Always, |ratio| match ratio.is_worse() {
        Some(true) => Cell::from(word(ratio)).signed("🔴"),
        Some(false) => Cell::from(word(ratio)).signed("🟢"),
        None => word(ratio).into(),
    });
    table.tones(tone_of);
    let (name, starts) = (&of.name, of.ratios.first().map_or(0, |ratio| ratio.starts));
    Sheet::new(
        format!("{name} against {first}"),
        format!("changes are paired within {}", counted(starts as u64, "start", "starts")),
        table.done(),
    )
}

fn tone_of(ratio: &DuelRatio) -> Tone {
    match ratio.is_worse() {
        Some(true) => Tone::Alarm,
        Some(false) => Tone::Good,
        None => Tone::Plain,
    }
}

/// What is concluded of a figure.
fn word(ratio: &DuelRatio) -> &'static str {
    match (ratio.is_worse(), ratio.differs()) {
        (Some(true), _) => "worse",
        (Some(false), _) => "better",
        (None, true) => "differs",
        (None, false) => "no difference shown",
    }
}

/// What the twin shows, if there is one.
fn twin_line(record: &DuelRecord, judgement: &DuelJudgement) -> Option<String> {
    let ratio = judgement.twin_ratio(record)?;
    let word = match (ratio.high.is_finite(), ratio.differs()) {
        (false, _) => "too few starts to tell",
        (true, true) => "not the same",
        (true, false) => "as it should be",
    };
    Some(format!(
        "{} took part: {} {} % ({}, at 99 %), {word}",
        record.twin_in_words(),
        ratio.figure.name(),
        percent(ratio.ratio, ratio),
        interval(ratio),
    ))
}

/// What disturbed it, and in open loop how late requests were: a line each, of what is known.
fn conditions(record: &DuelRecord) -> Vec<String> {
    let slices = || record.starts.iter().flat_map(|start| &start.slices);
    let share = |of: fn(&Slice) -> Option<u64>| {
        let waited: Option<u64> =
            slices().map(of).try_fold(0_u64, |sum, each| Some(sum.saturating_add(each?)));
        let took = slices().map(|slice| slice.took_ns).fold(0_u64, u64::saturating_add);
        waited.filter(|_| took > 0).map(|waited| format!("{:.1} %", 100.0 * waited as f64 / took as f64))
    };
    let waits = share(|slice| slice.waited_ns).zip(share(|slice| slice.generator_waited_ns));
    let waits = waits.map(|(server, generator)| {
        format!(
            "ready threads waited for a CPU: contestants' {server} of the time of their slices, the load generator's {generator}"
        )
    });
    let late = record.contestants.iter().enumerate().filter_map(|(number, contestant)| {
        let runs = || record.starts.iter().filter_map(move |start| start.sides.get(number));
        let all: Option<Vec<f64>> = runs().map(|run| run.lateness_ns).collect();
        let all = all.filter(|all| !all.is_empty())?;
        let mean_s = all.iter().sum::<f64>() / all.len() as f64 * 1e-9;
        Some(format!("{} {}", contestant.name, seconds(mean_s)))
    });
    let late: Vec<String> = late.collect();
    let late = (!late.is_empty()).then(|| {
        format!("requests waited for a free client, which is part of their latency: {}", late.join(", "))
    });
    let sleeps = record.environment.get("generator.stays_awake").and_then(Value::as_bool) == Some(false)
        && record
            .contestants
            .iter()
            .any(|contestant| contestant.agents.is_empty() && !contestant.cpus.is_empty());
    let sleeps = sleeps.then(|| {
        "the load generator slept between answers: CPU time includes waking it, which depends on the pace"
            .to_owned()
    });
    waits.into_iter().chain(late).chain(sleeps).collect()
}

/// How it was measured, in a line.
pub(crate) fn how(record: &DuelRecord) -> String {
    let slices: u64 = record.starts.iter().map(|start| start.slices.len() as u64).sum();
    let load = match record.spec.load.rate.as_ref().and_then(|rates| rates.0.first()) {
        Some(rate) => format!("{rate} requests/s"),
        None => {
            let clients = record.spec.load.clients.0.first().copied().unwrap_or_default();
            counted(u64::from(clients), "client", "clients")
        }
    };
    let starts = record.starts.len() as u64;
    let started = record.contestants.iter().filter(|contestant| contestant.is_started).count();
    let starts = match started {
        0 => counted(starts, "part, without starts", "parts, without starts"),
        all if all == record.contestants.len() => format!("{} of each", counted(starts, "start", "starts")),
        _ => format!("{} of each that webstone starts", counted(starts, "start", "starts")),
    };
    format!(
        "{starts}, {} slices of {}, {load}, workload {}, in {}",
        count(slices),
        record.duel.slice,
        record.workload.name,
        took(record)
    )
}

fn took(record: &DuelRecord) -> String {
    let whole = record.took_ns / 1_000_000_000;
    if whole < 60 { format!("{whole} s") } else { format!("{}:{:02} min", whole / 60, whole % 60) }
}

/// Whether CPU time leads and is known slice by slice; agents see it for whole starts.
fn is_cpu_by_slice(record: &DuelRecord, judgement: &DuelJudgement) -> bool {
    let mut slices = record.starts.iter().flat_map(|start| &start.slices);
    judgement.leading == DuelFigure::Cpu && slices.all(|slice| slice.cpu_ns.is_some())
}

/// A contestant's µs of CPU time per request over some slices, or its requests/s.
fn unweighted(slices: &[Slice], number: usize, is_cpu: bool) -> Option<f64> {
    let own = || slices.iter().filter(move |slice| slice.side as usize == number && slice.is_whole());
    let sum = |of: fn(&Slice) -> u64| own().map(|slice| of(slice) as f64).sum::<f64>();
    let value = match is_cpu {
        true => sum(|slice| slice.cpu_ns.unwrap_or(0)) / 1e3 / sum(|slice| slice.requests),
        false => sum(|slice| slice.requests) * 1e9 / sum(|slice| slice.took_ns),
    };
    Some(value).filter(|value| value.is_finite())
}

/// What each start showed.
fn starts(record: &DuelRecord, judgement: &DuelJudgement) -> Document {
    let by_slice = is_cpu_by_slice(record, judgement);
    let is_cpu = judgement.leading == DuelFigure::Cpu;
    let value = |of: &DuelStart, number: usize| {
        let run = of.sides.get(number).filter(|_| is_cpu && !by_slice);
        let whole =
            run.and_then(|run| Some(run.whole_cpu_ns()? as f64 / 1e3 / run.counts.succeeded.max(1) as f64));
        let of_slices = || unweighted(&of.slices, number, is_cpu).filter(|_| by_slice || !is_cpu);
        whole.or_else(of_slices).unwrap_or(f64::NAN)
    };
    let shown = |value: f64, decimals| match value.is_finite() {
        true => format!("{value:.decimals$}"),
        false => "NA".to_owned(),
    };
    let rows: Vec<(usize, &DuelStart)> = record.starts.iter().enumerate().collect();
    let mut table = Table::with_rows(&rows);
    table.number("start", "", Room::Always, |(start, _)| (start + 1).to_string());
    table.number("slices", "", Room::Always, |(_, of)| of.slices.len());
    for (number, contestant) in record.contestants.iter().enumerate() {
        let unit = if is_cpu { "CPU µs/request" } else { "requests/s" };
        let name = format!("{}: {unit}", contestant.name);
        table.number(name, "", Room::Always, |(_, of)| shown(value(of, number), 2));
        if number > 0 {
            table.number("% of the first", "", Room::Always, |(_, of)| {
                shown(100.0 * value(of, number) / value(of, 0), 1)
            });
        }
    }
    Document(vec![Block::Sheet(Sheet::new("Starts", "unweighted", table.done()))])
}

/// Who took part, and the command.
fn contestants(record: &DuelRecord) -> Document {
    let mut table = Table::with_rows(&record.contestants);
    table.text("name", Room::Always, |it| it.name.clone());
    table.text("given as", Room::Always, |it| it.given.clone());
    table.text("server", Room::Always, |it| {
        let software = it.software.as_ref().map(|software| format!("{software} {}", software.version));
        software.or_else(|| it.server.clone()).unwrap_or_default()
    });
    table.text("commit", Room::Always, |it| it.commit.clone().unwrap_or_default());
    table.text("CPUs", Room::Always, |it| cpu_list(&it.cpus));
    let mut doc = Document(vec![Block::Sheet(Sheet::new("Contestants", "", table.done()))]);
    doc.item("command", LABEL, Tone::Plain, record.command_line.join(" "));
    doc
}

/// The verdict in a line.
pub fn verdict_line(record: &DuelRecord, judgement: &DuelJudgement) -> String {
    if !judgement.reasons.is_empty() {
        return format!("{}: {}", judgement.standing.word(), judgement.reasons.join("; "));
    }
    let reach = judgement.comparisons.iter().filter_map(|of| leading(judgement, of)).map(DuelRatio::reach);
    let reach = reach.fold(0.0, f64::max);
    let wanted = record.duel.precision;
    let known = format!("{} is known to ±{:.2} %", judgement.leading.name(), 100.0 * reach);
    let ending = match (judgement.is_precise, record.state) {
        (true, _) => String::new(),
        (false, RunState::Interrupted) => ", when it was interrupted".to_owned(),
        (false, RunState::Failed) => ", when it failed".to_owned(),
        (false, _) if judgement.is_done() => ", enough for every condition".to_owned(),
        (false, _) => format!(" instead of {:.2} % after {}", 100.0 * wanted, Nanos(record.duel.at_most.0)),
    };
    let word = if judgement.standing == Standing::Sound { "SOUND" } else { judgement.standing.word() };
    format!("{word}: {known}{ending}")
}

/// The interval of the leading figure after each start, as letters: `──├──●──┤──`; for people who watch.
pub fn interval_bar(ratio: &DuelRatio, reach: f64, width: usize) -> String {
    let place = |value: f64| {
        let share = (value - (1.0 - reach)) / (2.0 * reach);
        (share.clamp(0.0, 1.0) * (width - 1) as f64).round() as usize
    };
    let (low, high, point) = (place(ratio.low), place(ratio.high.min(1e9)), place(ratio.ratio));
    let mut bar: Vec<char> =
        (0..width).map(|at| if (low..=high).contains(&at) { '─' } else { ' ' }).collect();
    bar[place(1.0)] = '┊';
    bar[low] = if ratio.low < 1.0 - reach { '‹' } else { '├' };
    bar[high] = if ratio.high > 1.0 + reach { '›' } else { '┤' };
    bar[point] = '●';
    bar.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::duel::{Contestant, DuelStart, SideRun};

    #[test]
    fn one_start_says_nothing_of_the_twin() {
        let record = webstone_model::fixture::duel("", &[("a", 100), ("b", 120)], 1);
        let text = crate::render_duel(&record, crate::Format::Text, &crate::Options::default()).unwrap();
        let text = String::from_utf8(text).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("too few starts to tell") && !text.contains("as it should be"), "{text}");
        // It was not stored, so no report can be made of it again.
        assert!(text.ends_with("see `webstone duel … -o duel.html`"), "{text}");
    }

    #[test]
    fn conditions_are_told_as_far_as_they_are_known() {
        let slice = Slice {
            took_ns: 20_000_000,
            waited_ns: Some(1_000_000),
            generator_waited_ns: Some(500_000),
            ..Slice::default()
        };
        let side = |lateness_ns| SideRun { lateness_ns, ..SideRun::default() };
        let contestant = |name: &str| Contestant { name: name.into(), ..Contestant::default() };
        let mut record = DuelRecord {
            contestants: vec![contestant("a"), contestant("b")],
            starts: vec![DuelStart {
                sides: vec![side(Some(2_000.0)), side(Some(3_000.0))],
                slices: vec![slice, slice],
                ..DuelStart::default()
            }],
            ..DuelRecord::default()
        };
        let waits = "ready threads waited for a CPU: contestants' 5.0 % of the time of their slices, the load generator's 2.5 %";
        let late = "requests waited for a free client, which is part of their latency: a 2.00 µs, b 3.00 µs";
        assert_eq!(conditions(&record), [waits, late]);
        record.starts[0].slices[0].waited_ns = None;
        record.starts[0].sides.iter_mut().for_each(|side| side.lateness_ns = None);
        assert_eq!(conditions(&record), [""; 0]);
    }
}
