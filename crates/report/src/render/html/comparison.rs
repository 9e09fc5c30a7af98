//! What `webstone compare` concludes, on a page: for each record that is compared with the first, how their settings differ, by how
//! much each figure changed at every level, and whether that is more than noise. A dot is a change, its whisker the interval,
//! the band under it the noise floor.

use webstone_judge::comparison::{
    Candidate, Comparison, Difference, Finding, LevelComparison, Row, Weight, Why,
};

use crate::chart::{self, Change};
use crate::comparison::{
    Look, changes, digits, floor_sources, gates, is_known, is_worse, leading, letter, only, open_ends,
    reasons, rows, summary, title,
};
use crate::definitions::anchor_of;
use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::signed;

use super::figure::heading;
use super::markup::Html;
use super::{Run, levels};

/// Differences up to which their table stands open.
const DIFFERENCES_OPEN_MAX: usize = 6;

/// What is shown of records that must not be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forbidden {
    /// Only why.
    Refused,
    /// The changes as well, by the user's wish.
    Forced,
}

/// The section.
pub(super) fn draw(html: &mut Html, comparison: &Comparison, runs: &[Run<'_>], forbidden: Forbidden) {
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
        html.raw(if is_worse(candidate) {
            "<div class=\"verdict disturbed\">"
        } else {
            "<div class=\"verdict\">"
        });
        html.element("p", &format!("{letter} against A: {}.", summary(candidate)));
        if is_forbidden {
            html.element("p", "Not measured alike: what differs may be the cause of every change.");
        }
        html.raw("</div>");
        if candidate.levels.len() > 1 {
            html.charts(|html| over_levels(html, candidate));
        }
        for at in &candidate.levels {
            of_level(html, comparison, candidate, at);
        }
        how_to_read(html, comparison, candidate);
        differences(html, candidate);
    }
    for sheet in gates(comparison) {
        html.sheet(&sheet);
    }
    html.raw("</section>");
}

/// The leading figure at every level.
fn over_levels(html: &mut Html, candidate: &Candidate) {
    let leading = leading(candidate);
    let rows: Vec<Change> = rows(candidate, leading)
        .zip(&candidate.levels)
        .filter_map(|((_, row), at)| change(row, levels::name(at.key())))
        .collect();
    let title = format!("{}, at each level", title(leading));
    html.raw("<figure>");
    chart(html, &format!("chart-changes-{}", candidate.record), &title, &rows);
    html.raw("</figure>\n");
}

/// Every figure at one level: a chart of those that change by percent, and a table of all.
fn of_level(html: &mut Html, comparison: &Comparison, candidate: &Candidate, at: &LevelComparison) {
    let key = at.key();
    let load = levels::name(key);
    let known: Vec<_> = at.rows.iter().filter(|row| is_known(row)).map(|row| (None, at, row)).collect();
    let several = candidate.levels.len() > 1;
    if several {
        let is_open = known.iter().any(|(.., row)| row.finding.is_difference()) || *at == candidate.levels[0];
        html.raw("<details class=\"level\" data-level=\"").text(&load);
        html.raw(if is_open { "\" open>" } else { "\">" });
        html.raw("<summary><h4>").text(&load).raw("</h4></summary>");
    }
    let drawn: Vec<Change> = known.iter().filter_map(|(.., row)| change(row, title(row.metric))).collect();
    let heading = format!("{} against A at {load}", letter(candidate.record));
    let id = format!("chart-changes-{}-{}", candidate.record, levels::suffix(key));
    html.raw("<figure class=\"wide\">");
    chart(html, &id, &heading, &drawn);
    let table = changes(comparison, candidate, &known, Look::Page);
    let explanation = format!("{heading}, means over iterations");
    html.sheet(&Sheet::new("Changes", explanation, table)).raw("</figure>\n");
    if several {
        html.raw("</details>");
    }
}

/// Title and chart, where there is any change to draw.
fn chart(html: &mut Html, id: &str, title: &str, rows: &[Change]) {
    heading(html, title, anchor_of("Comparison", "").as_deref());
    if !rows.is_empty() {
        let said: Vec<String> = rows.iter().map(|row| format!("{}: {}.", row.name, row.shown)).collect();
        html.raw(&chart::changes(id, title, &said.join(" "), "change, %", rows));
    }
}

/// `None` where nothing can be drawn: no change is known, or it is no percentage.
fn change(row: &Row, name: String) -> Option<Change> {
    if row.metric.differs() {
        return None;
    }
    let point = row.point().filter(|point| point.is_finite())?;
    let interval = row.change.filter(|change| change.low < change.high).map(|it| (it.low, it.high));
    let word = row.finding.word(row.metric);
    Some(Change {
        name,
        shown: format!("{} %, {word}", signed(point, digits(row))),
        point,
        interval,
        noise: row.floor.map_or(0.0, |floor| floor.value),
        is_open: row.finding == Finding::CannotTell || row.why == Some(Why::Unbounded),
        class: match row.finding {
            Finding::Better => "good",
            Finding::Worse => "bad",
            Finding::NoDifferenceShown | Finding::CannotTell => "",
        },
    })
}

/// How to read charts and tables, once for each record.
fn how_to_read(html: &mut Html, comparison: &Comparison, candidate: &Candidate) {
    let mut said = Vec::new();
    let sources = floor_sources(candidate);
    if !sources.is_empty() {
        said.push(format!(
            "Grey: the noise floor ({}). A change is shown when its whole {:.0} % interval lies beyond it.",
            sources.join(", "),
            comparison.confidence * 100.0
        ));
    }
    for finding in [Finding::NoDifferenceShown, Finding::CannotTell] {
        if let Some((word, reasons)) = reasons(candidate, finding) {
            said.push(format!("“{word}”: {reasons}."));
        }
    }
    if let Some(why) = open_ends(candidate) {
        said.push(format!("{}{}.", why[..1].to_uppercase(), &why[1..]));
    }
    if !said.is_empty() {
        html.element("p class=\"note\"", &said.join(" "));
    }
}

/// How the record differs from the first, apart from its figures.
fn differences(html: &mut Html, candidate: &Candidate) {
    let letter = letter(candidate.record);
    for levels in only(candidate) {
        html.element("p", &format!("Only {levels}."));
    }
    if candidate.differences.is_empty() {
        return;
    }
    let forbids = |difference: &Difference| difference.weight == Weight::Forbids;
    let mut table = Table::of(&candidate.differences);
    table.text("", Room::Always, |it| &it.what).text("A", Room::Always, |it| &it.baseline);
    table.text(letter.as_str(), Room::Always, |it| &it.candidate);
    table.text("", Room::Always, |it| if forbids(it) { "not comparable" } else { "" });
    let table = table.tones(|it| if forbids(it) { Tone::Alarm } else { Tone::Plain }).done();
    let sheet = Sheet::new("Differences", "beside the figures", table);
    match candidate.differences.len() {
        ..=DIFFERENCES_OPEN_MAX => html.sheet(&sheet),
        many => html.fold(&format!("{many} differences between the two runs"), |html| html.sheet(&sheet)),
    };
}
