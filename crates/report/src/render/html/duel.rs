//! A duel as a page: what was found, the interval of the leading figure as it narrowed, the change of every figure, and the starts one by
//! one.

use webstone_judge::duel::{self, DuelComparison, DuelJudgement, DuelRatio};
use webstone_measure::slices::Slice;
use webstone_model::duel::{DuelFigure, DuelRecord};

use super::figure::{Figure, heading};
use super::markup::Html;
use super::{foot, head, navigation};
use crate::chart::{Axis, Change, Line, Point, changes};
use crate::document::duel::{
    conditions, differences_and_gates, how, sentence, sheet, title, twin_line, verdict_line, word,
};
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{Scale, count, signed};

/// The page.
pub(crate) fn render(record: &DuelRecord, judgement: &DuelJudgement) -> String {
    let mut html = Html::default();
    let subtitle = format!("{}; {}", how(record), record.id);
    head(&mut html, "webstone duel", &title(record), &subtitle);
    html.raw("</header>\n");
    let mut body = Html::default();
    body.raw("<main id=\"main\" tabindex=\"-1\">");
    answers(&mut body, record, judgement);
    for of in &judgement.comparisons {
        compared(&mut body, record, judgement, of);
    }
    starts(&mut body, record, judgement);
    contestants(&mut body, record);
    body.raw("</main>");
    let body = body.finish();
    navigation(&mut html, &body, None);
    html.raw(&body);
    foot(&mut html);
    html.finish()
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
    let mut notes = differences_and_gates(record, judgement);
    notes.extend(twin_line(record, judgement));
    notes.extend(conditions(record));
    notes.extend(judgement.notes.iter().chain(&record.warnings).cloned());
    html.raw("<ul>");
    for note in &notes {
        html.element("li", note);
    }
    html.raw("</ul></section>");
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
            let said: Vec<String> = rows.iter().map(|row| format!("{}: {}.", row.name, row.shown)).collect();
            html.raw("<figure>");
            heading(html, "Change of every figure", None);
            html.raw(&changes(
                &format!("chart-changes-{}", of.contestant),
                "Change of every figure",
                &said.join(" "),
                "change, %",
                &rows,
            ));
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
        class: match ratio.is_worse() {
            Some(true) => "bad",
            Some(false) => "good",
            None => "",
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
        y: in_percent(ratio.ratio).clamp(-reach, reach),
        interval: Some((in_percent(ratio.low).max(-reach), in_percent(ratio.high).min(reach))),
    };
    let points: Vec<Point> = drawn.iter().map(point).collect();
    let starts: Vec<f64> = points.iter().map(|point| point.x).collect();
    let line = Line { name: judgement.leading.name().to_owned(), points, marked: true, ..Line::default() };
    let mut figure = Figure::new(
        format!("chart-course-{}", of.contestant),
        format!("{}: the interval after each start", judgement.leading.name()),
        ("starts", Axis::counts("starts of each contestant", 0.0, &starts)),
        Axis::around_zero("change, %", -reach, reach, 6),
        Scale::exactly("%", 1.0, 2),
        vec![line],
    );
    figure.reference = vec![(starts[0], 0.0), (*starts.last().unwrap_or(&1.0), 0.0)];
    figure.draw(html);
}

/// What each start showed.
fn starts(html: &mut Html, record: &DuelRecord, judgement: &DuelJudgement) {
    html.section("starts", "Starts");
    let mut head = vec!["start".to_owned(), "slices".to_owned()];
    for (number, contestant) in record.contestants.iter().enumerate() {
        let unit = if judgement.leading == DuelFigure::Cpu { "CPU µs/request" } else { "requests/s" };
        head.push(format!("{}: {unit}", contestant.name));
        if number > 0 {
            head.push("% of the first".to_owned());
        }
    }
    let rows: Vec<Vec<String>> = record
        .starts
        .iter()
        .enumerate()
        .map(|(start, of)| {
            let mut row = vec![(start + 1).to_string(), count(of.slices.len() as u64)];
            let value = |number: usize| {
                let slices = || {
                    of.slices.iter().filter(move |slice| slice.side as usize == number && slice.is_whole())
                };
                let sum = |of: fn(&Slice) -> u64| slices().map(|slice| of(slice) as f64).sum::<f64>();
                let requests = sum(|slice| slice.requests);
                match judgement.leading {
                    DuelFigure::Cpu => sum(|slice| slice.cpu_ns.unwrap_or(0)) / 1e3 / requests.max(1.0),
                    _ => requests * 1e9 / sum(|slice| slice.took_ns).max(1.0),
                }
            };
            for number in 0..record.contestants.len() {
                row.push(format!("{:.2}", value(number)));
                if number > 0 {
                    row.push(format!("{:.1}", 100.0 * value(number) / value(0)));
                }
            }
            row
        })
        .collect();
    html.raw("<details><summary>Every start, unweighted</summary>");
    html.table("Starts", &head, &rows);
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
    table.text("CPUs", Room::Always, |it| {
        let cpus: Vec<String> = it.cpus.iter().map(u32::to_string).collect();
        cpus.join(", ")
    });
    html.sheet(&Sheet::new("Contestants", "", table.done()));
    html.element("p", &format!("Command: {}", record.command_line.join(" ")));
    html.raw("</section>");
}
