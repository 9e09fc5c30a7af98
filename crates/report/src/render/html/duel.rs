//! A duel as a page: what was found, the interval of the leading figure as it narrowed, the change of every figure, and the starts one by
//! one.

use webstone_judge::duel::{self, DuelComparison, DuelJudgement, DuelRatio};
use webstone_measure::slices::Slice;
use webstone_model::duel::{DuelFigure, DuelRecord, DuelStart};

use super::Page;
use super::figure::Figure;
use super::markup::Html;
use crate::chart::{Axis, Line, Point};
use crate::document::Tone;
use crate::document::chart::{Change, Chart};
use crate::document::duel::{
    differences, gates, how, listed, notes, sentence, sheet, title, verdict_line, word,
};
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{Scale, cpu_list, signed};

/// The page.
pub(crate) fn render(record: &DuelRecord, judgement: &DuelJudgement) -> String {
    let subtitle = format!("{}; {}", how(record), record.id);
    Page { title: &title(record), subtitle: &subtitle, ..Page::of("webstone duel") }.draw(|body| {
        answers(body, record, judgement);
        judgement.comparisons.iter().for_each(|of| compared(body, record, judgement, of));
        over_time(body, record, judgement);
        starts(body, record, judgement);
        contestants(body, record);
    })
}

fn answers(html: &mut Html, record: &DuelRecord, judgement: &DuelJudgement) {
    html.section("answer", "Answer");
    let class = match (judgement.standing.is_conclusive(), is_worse(judgement)) {
        (false, _) => "verdict invalid",
        (true, true) => "verdict disturbed",
        (true, false) => "verdict",
    };
    html.raw(&format!("<div class=\"{class}\">"));
    for of in &judgement.comparisons {
        html.element("p", &sentence(record, judgement, of));
    }
    html.element("p", &verdict_line(record, judgement)).raw("</div>");
    let notes = [differences(record), gates(record, judgement), notes(record, judgement)].concat();
    html.list(listed(notes).into_iter().chain(record.warnings.iter().cloned())).raw("</section>");
}

fn is_worse(judgement: &DuelJudgement) -> bool {
    let leading = judgement.comparisons.iter().filter_map(|of| of.ratio(judgement.leading));
    leading.filter_map(DuelRatio::is_worse).any(|is_worse| is_worse)
}

fn compared(html: &mut Html, record: &DuelRecord, judgement: &DuelJudgement, of: &DuelComparison) {
    let id = format!("against-{}", of.contestant);
    html.section(&id, &format!("{} against {}", of.name, record.contestants[0].name));
    html.charts(|html| {
        course(html, record, judgement, of);
        let rows: Vec<Change> = of.ratios.iter().filter_map(change).collect();
        if !rows.is_empty() {
            html.raw("<figure>");
            html.chart(&Chart {
                id: format!("chart-changes-{}", of.contestant),
                title: "Change of every figure".to_owned(),
                definition: None,
                caption: "A dot is a change, its line the interval.",
                rows,
            });
            html.raw("</figure>\n");
        }
    });
    html.sheet(&sheet(record, of));
    html.raw("</section>");
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
        tone: match ratio.is_worse() {
            Some(true) => Tone::Alarm,
            Some(false) => Tone::Good,
            None => Tone::Plain,
        },
    })
}

/// The interval after each start: it narrows.
fn course(html: &mut Html, record: &DuelRecord, judgement: &DuelJudgement, of: &DuelComparison) {
    let course = duel::course(record, of.contestant, judgement.leading);
    // The first intervals are as wide as the page.
    let drawn: Vec<&DuelRatio> = course.iter().filter(|ratio| ratio.starts >= 3).collect();
    let Some(last) = drawn.last() else { return };
    let in_percent = |value: f64| 100.0 * (value - 1.0);
    let reach = drawn
        .iter()
        .filter(|ratio| ratio.starts >= 4)
        .map(|ratio| in_percent(ratio.high).max(-in_percent(ratio.low)));
    let reach = reach.fold(in_percent(last.high).abs().max(in_percent(last.low).abs()), f64::max) * 1.1;
    let point = |ratio: &&DuelRatio| Point {
        x: ratio.starts as f64,
        y: in_percent(ratio.ratio),
        interval: Some((in_percent(ratio.low), in_percent(ratio.high))),
    };
    let points: Vec<Point> = drawn.iter().map(point).collect();
    let starts: Vec<f64> = points.iter().map(|point| point.x).collect();
    let mut figure = Figure::new(
        format!("chart-course-{}", of.contestant),
        format!("{}: the interval after each start", judgement.leading.name()),
        ("starts", Axis::counts("starts of each contestant", 0.0, &starts)),
        Axis::around_zero("change, %", -reach, reach, 6),
        Scale::exactly("%", 1.0, 2),
        vec![Line::marked(judgement.leading.name(), 0, points)],
    );
    figure.plot.reference = vec![(starts[0], 0.0), (*starts.last().unwrap_or(&1.0), 0.0)];
    figure.draw(html);
}

/// Points of a contestant in the chart over time, at most.
const POINTS_MAX: usize = 150;

/// The leading figure of all contestants over time, a few rounds of slices at a time. A disturbance of the machine shows in all lines.
fn over_time(html: &mut Html, record: &DuelRecord, judgement: &DuelJudgement) {
    let is_cpu = is_cpu_by_slice(record, judgement);
    let round = (2 * record.contestants.len()).max(1);
    let rounds: usize = record.starts.iter().map(|start| start.slices.len() / round).sum();
    let together = round * rounds.div_ceil(POINTS_MAX).max(1);
    let mut lines: Vec<Line> = record
        .contestants
        .iter()
        .enumerate()
        .map(|(style, contestant)| Line::plain(&*contestant.name, style, Vec::new()))
        .collect();
    for start in &record.starts {
        for slices in start.slices.chunks(together) {
            let x = start.at_ns.saturating_add(slices[0].at_ns) as f64 / 1e9;
            for (number, line) in lines.iter_mut().enumerate() {
                let y = unweighted(slices, number, is_cpu);
                line.points.extend(y.map(|y| Point { x, y, interval: None }));
            }
        }
    }
    // A value outside of the usual range is a slice that something disturbed: its line leaves the chart, and its number stays.
    let mut values: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.y).collect();
    values.sort_unstable_by(f64::total_cmp);
    let Some(usual) = values.get(values.len() * 98 / 100) else { return };
    let most = usual * 1.25;
    let (name, scale) = match is_cpu {
        true => ("CPU time per request", Scale::exactly("µs", 1.0, 1)),
        false => ("requests/s while it has the load", Scale::exactly("", 1.0, 0)),
    };
    let seconds: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point.y.min(most));
    let y = Axis::from_zero("", &scale, values, 4);
    html.section("time", "Over time");
    html.charts(|html| {
        Figure {
            caption: format!(
                "Each point is {} of slices. What the machine does, it does to all contestants; what differs between them stays.",
                if together == round { "a round".to_owned() } else { format!("{} rounds", together / round) }
            ),
            ..Figure::new("chart-time", name, ("seconds", Axis::counts("seconds", 0.0, &seconds)), y, scale, lines)
        }
        .draw(html);
    });
    html.raw("</section>");
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
fn starts(html: &mut Html, record: &DuelRecord, judgement: &DuelJudgement) {
    html.section("starts", "Starts");
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
    let mut table = Table::of(&rows);
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
    html.raw("<details><summary>Every start, unweighted</summary>");
    html.table("Starts", table.done());
    html.raw("</details></section>");
}

fn contestants(html: &mut Html, record: &DuelRecord) {
    html.section("contestants", "Contestants");
    let mut table = Table::of(&record.contestants);
    table.text("name", Room::Always, |it| it.name.clone());
    table.text("given as", Room::Always, |it| it.given.clone());
    table.text("server", Room::Always, |it| {
        let software = it.software.as_ref().map(|software| format!("{software} {}", software.version));
        software.or_else(|| it.server.clone()).unwrap_or_default()
    });
    table.text("commit", Room::Always, |it| it.commit.clone().unwrap_or_default());
    table.text("CPUs", Room::Always, |it| cpu_list(&it.cpus));
    html.sheet(&Sheet::new("Contestants", "", table.done()));
    html.element("p", &format!("Command: {}", record.command_line.join(" ")));
    html.raw("</section>");
}

#[cfg(test)]
mod tests {
    use crate::{Format, Options, render_duel};

    #[test]
    fn what_a_disturbed_slice_took_is_tabulated_as_it_was() {
        let mut record = webstone_model::fixture::duel("d", &[("old", 10_000), ("new", 10_240)], 6);
        let mut slices = record.starts[2].slices.iter_mut().filter(|slice| slice.side == 0);
        // Two of 100 requests each are a point.
        for slice in [slices.next(), slices.next()].into_iter().flatten() {
            slice.cpu_ns = Some(432_100_000);
        }
        let html = render_duel(&record, Format::Html, &Options::default()).unwrap();
        let html = String::from_utf8(html).unwrap();
        assert!(html.contains("4,321.0"), "the point is cut to the chart");
    }
}
