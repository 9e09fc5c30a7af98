//! What `webstone compare` concludes, on a page: for each record that is held against the first, in what the two differ, by how
//! much each figure changed at every level, and whether that is more than noise. A dot is a change, its whisker the interval,
//! the band behind it the noise floor.

use webstone_judge::comparison::{Candidate, Comparison, Difference, Finding, LevelComparison, Row, Weight};
use webstone_measure::keys::levels_named;
use webstone_measure::metric::Metric;

use crate::chart::{Change, changes};
use crate::comparison::{
    because, decimals, floor_source, gates, is_known, letter, rows, scaled, summary, tone_of,
};
use crate::definitions::anchor_of;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::signed;
use crate::screen::{Screen, Tone};

use super::figure::heading;
use super::markup::Html;
use super::{Run, figures, levels};

/// Differences up to which their table stands open.
const DIFFERENCES_OPEN_MAX: usize = 6;

/// What is shown of records that must not be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forbidden {
    /// Only why.
    Refused,
    /// The changes as well: somebody asked for them.
    Forced,
}

/// The section.
pub(super) fn draw(
    html: &mut Html,
    screen: &Screen,
    comparison: &Comparison,
    runs: &[Run<'_>],
    forbidden: Forbidden,
) {
    html.section("comparison", "Comparison");
    for candidate in &comparison.candidates {
        let (letter, of) = (letter(candidate.record), &runs[candidate.record].name);
        html.element("h3", &format!("{letter}, {of}, against A, {}", runs[0].name));
        let is_forbidden = candidate.differences.iter().any(|one| one.weight == Weight::Forbids);
        if is_forbidden && forbidden == Forbidden::Refused {
            html.raw("<div class=\"verdict invalid\">");
            html.element("p", "These two runs were not measured alike, so their figures are not compared.");
            html.raw("</div>");
            differences(html, candidate);
            continue;
        }
        let is_worse =
            candidate.levels.iter().flat_map(|level| &level.rows).any(|row| row.finding == Finding::Worse);
        html.raw(if is_worse { "<div class=\"verdict disturbed\">" } else { "<div class=\"verdict\">" });
        html.element("p", &format!("{letter} against A: {}.", summary(candidate)));
        if is_forbidden {
            html.element("p", "Not measured alike: what differs may be the cause of every change.");
        }
        html.raw("</div>");
        if candidate.levels.len() > 1 {
            html.charts(|html| over_levels(html, candidate));
        }
        for at in &candidate.levels {
            of_level(html, screen, comparison, candidate, at);
        }
        how_to_read(html, comparison, candidate);
        differences(html, candidate);
    }
    for sheet in gates(screen, comparison) {
        html.sheet(&sheet);
    }
    html.raw("</section>");
}

/// The request rate at every level.
fn over_levels(html: &mut Html, candidate: &Candidate) {
    let rows: Vec<Change> = rows(candidate, Metric::RATE)
        .zip(&candidate.levels)
        .filter_map(|((_, row), at)| change(row, levels::name(at.key())))
        .collect();
    let title = format!("{}, at each level", name(Metric::RATE));
    html.raw("<figure>");
    chart(html, &format!("chart-changes-{}", candidate.record), &title, &rows);
    html.raw("</figure>\n");
}

/// Every figure at one level: a chart of those that change by percent, and a table of all.
fn of_level(
    html: &mut Html,
    screen: &Screen,
    comparison: &Comparison,
    candidate: &Candidate,
    at: &LevelComparison,
) {
    let key = at.key();
    let load = levels::name(key);
    let known: Vec<&Row> = at.rows.iter().filter(|row| is_known(row)).collect();
    let several = candidate.levels.len() > 1;
    if several {
        let is_open = known.iter().any(|row| row.finding.is_difference()) || *at == candidate.levels[0];
        html.raw("<details class=\"level\" data-level=\"").text(&load);
        html.raw(if is_open { "\" open>" } else { "\">" });
        html.raw("<summary><h4>").text(&load).raw("</h4></summary>");
    }
    let drawn: Vec<Change> = known.iter().filter_map(|row| change(row, name(row.metric))).collect();
    let title = format!("{} against A at {load}", letter(candidate.record));
    let id = format!("chart-changes-{}-{}", candidate.record, levels::suffix(key));
    html.raw("<figure class=\"wide\">");
    chart(html, &id, &title, &drawn);
    html.sheet(&table(screen, comparison, candidate, &known, &title)).raw("</figure>\n");
    if several {
        html.raw("</details>");
    }
}

/// Title and chart, where there is any change to draw.
fn chart(html: &mut Html, id: &str, title: &str, rows: &[Change]) {
    heading(html, title, anchor_of("Comparison", "").as_deref());
    if !rows.is_empty() {
        let said: Vec<String> = rows.iter().map(|row| format!("{}: {}.", row.name, row.shown)).collect();
        html.raw(&changes(id, title, &said.join(" "), "change, %", rows));
    }
}

/// `None` where nothing can be drawn: no change is known, or it is no percentage.
fn change(row: &Row, name: String) -> Option<Change> {
    if row.metric.differs() {
        return None;
    }
    let point = row.point().filter(|point| point.is_finite())?;
    let digits = row.change.as_ref().map_or(1, decimals);
    let interval = row.change.filter(|change| change.low < change.high).map(|it| (it.low, it.high));
    let word = row.finding.word(row.metric);
    Some(Change {
        name,
        shown: format!("{} %, {word}", signed(point, digits)),
        point,
        interval,
        noise: row.floor.value,
        is_open: row.finding == Finding::CannotTell,
        class: match row.finding {
            Finding::Better => "good",
            Finding::Worse => "bad",
            Finding::NoDifferenceShown | Finding::CannotTell => "",
        },
    })
}

fn table(
    screen: &Screen,
    comparison: &Comparison,
    candidate: &Candidate,
    known: &[&Row],
    title: &str,
) -> Sheet {
    let mut table = Table::default();
    table.text("", Room::Always).number("A", "", Room::Always);
    table.number(&letter(candidate.record), "", Room::Always).number("change", "", Room::Always);
    table.number(&format!("{:.0} % interval", comparison.confidence * 100.0), "", Room::Always);
    table.number("noise floor", "", Room::Always).text("verdict", Room::Always);
    for row in known {
        let (unit, [baseline, changed]) = scaled(screen, row);
        let dash = || screen.dash().to_owned();
        let (digits, percent) = (row.change.as_ref().map_or(1, decimals), row.metric.unit_of_change());
        let interval = row.change.as_ref().map_or_else(dash, |change| {
            format!("{} to {} {percent}", signed(change.low, digits), signed(change.high, digits))
        });
        let name = match (unit.as_str(), name(row.metric)) {
            ("" | "1/s" | "1/min", name) => name,
            (unit, name) => format!("{name}, {unit}"),
        };
        let cells = vec![
            name,
            baseline,
            changed,
            row.point().map_or_else(dash, |point| format!("{} {percent}", signed(point, digits))),
            interval,
            format!("{}{:.2} {percent}", screen.plus_minus(), row.floor.value),
            row.finding.word(row.metric).to_owned(),
        ];
        table.row_in(cells, tone_of(row.finding), false);
    }
    Sheet::new("Changes", format!("{title}, means over iterations"), table)
}

/// What a reader of charts and tables has to know, once for each record.
fn how_to_read(html: &mut Html, comparison: &Comparison, candidate: &Candidate) {
    let rows = || candidate.levels.iter().flat_map(|level| &level.rows).filter(|row| is_known(row));
    let mut sources: Vec<&str> = rows().map(|row| floor_source(row.floor.source)).collect();
    sources.sort_unstable();
    sources.dedup();
    if sources.is_empty() {
        return;
    }
    let mut text = format!(
        "Grey: the noise floor ({}). A change is shown when its whole {:.0} % interval lies beyond it.",
        sources.join(", "),
        comparison.confidence * 100.0
    );
    for finding in [Finding::NoDifferenceShown, Finding::CannotTell] {
        let of = || rows().filter(|row| row.finding == finding);
        let mut reasons: Vec<&str> = of().filter_map(|row| Some(because(row.why?))).collect();
        reasons.sort_unstable();
        reasons.dedup();
        if let (Some(row), false) = (of().next(), reasons.is_empty()) {
            text.push_str(&format!(" “{}”: {}.", finding.word(row.metric), reasons.join(", or ")));
        }
    }
    html.element("p class=\"note\"", &text);
}

/// In what the record differs from the first beside the figures.
fn differences(html: &mut Html, candidate: &Candidate) {
    let letter = letter(candidate.record);
    for (who, levels) in [("A", &candidate.only_baseline), (letter.as_str(), &candidate.only_candidate)] {
        if !levels.is_empty() {
            html.element("p", &format!("Only {who} has {}.", levels_named(levels)));
        }
    }
    if candidate.differences.is_empty() {
        return;
    }
    let is_long = candidate.differences.len() > DIFFERENCES_OPEN_MAX;
    if is_long {
        html.raw("<details class=\"printed\"><summary>");
        html.text(&format!("{} differences between the two runs", candidate.differences.len()));
        html.raw("</summary>");
    }
    let mut table = Table::default();
    table.text("", Room::Always).text("A", Room::Always).text(&letter, Room::Always).text("", Room::Always);
    for Difference { what, baseline, candidate, weight } in &candidate.differences {
        let (word, tone) = match weight {
            Weight::Forbids => ("not comparable", Tone::Alarm),
            Weight::Noted => ("", Tone::Plain),
        };
        let cells = vec![what.clone(), baseline.clone(), candidate.clone(), word.to_owned()];
        table.row_in(cells, tone, false);
    }
    html.sheet(&Sheet::new("Differences", "beside the figures", table));
    if is_long {
        html.raw("</details>");
    }
}

/// What a figure is called in the table of figures; of a percentile that has no entry there, what conditions call it.
fn name(metric: Metric) -> String {
    use webstone_measure::figures::table;
    match metric {
        Metric::Of(figure) => figures::title(figure),
        Metric::Percentile(percentile) => {
            let key = format!("latency_p{}_s", percentile.to_string().replace('.', "_"));
            table::figure(&key).map_or_else(|| metric.to_string(), figures::title)
        }
    }
}
