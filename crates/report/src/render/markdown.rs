//! Tables of GitHub-flavoured Markdown, for a README or a pull request: what the figures are worth, the headline, the
//! levels, their bottleneck, and what was measured with what.
//!
//! Texts that others wrote (paths, server names, warnings) cannot leave their cell or become markup: see [`safe`].

use std::fmt::Write as _;

use webstone_judge::statistics::Interval;
use webstone_judge::verdict::{Standing, Verdict};
use webstone_measure::figures::level::{CONNECTION_RATE, REQUEST_RATE};
use webstone_measure::figures::table::{self, Rank};
use webstone_measure::figures::{Figure, Group, Quantity};
use webstone_measure::shown::shown;
use webstone_model::record::RunRecord;

use crate::numbers::{Scale, bytes, count, counted};
use crate::screen::Screen;
use crate::summary::{self, Level};
use crate::text::{self, figures, header, headline, problems};
use crate::{Options, advice, configuration, definitions, series};

/// What the table of levels shows the headline figures of, in its order.
const GROUPS: [Group; 10] = [
    Group::Rates,
    Group::Latency,
    Group::Volume,
    Group::Machine,
    Group::Server,
    Group::Network,
    Group::Host,
    Group::Origin,
    Group::Tls,
    Group::Unanswered,
];
/// Errors named one by one.
const ERRORS_MAX: usize = 20;

/// The text, ending in a newline.
pub(crate) fn render(record: &RunRecord, verdict: &Verdict, options: &Options) -> String {
    let screen = Screen::new(&Options { charset: options.charset, ..Options::default() });
    let levels = summary::levels(record);
    let mut out = String::new();
    let against = header::target(record);
    let _ = writeln!(out, "### webstone: {} on {}\n", safe(&record.workload.name), safe(&against));
    headline(&screen, record, verdict, &levels, &mut out);
    if let Some((over, finding)) = text::sought(record) {
        series::markdown::draw(&text::search::sheet(&screen, over, &finding), &mut out);
    }
    if !levels.is_empty() {
        level_table(&screen, &levels, &mut out);
        if let Some(sheet) = text::generators::sheet(&screen, record, &levels) {
            series::markdown::draw(&sheet, &mut out);
        }
        if let Some(sheet) = text::server_hosts::sheet(&screen, record, &levels) {
            series::markdown::draw(&sheet, &mut out);
        }
        errors(record, &mut out);
    }
    facts(record, verdict, &mut out);
    out.push_str("<details><summary>Configuration</summary>\n\n");
    series::markdown::draw(&configuration::sheet(&configuration::of(record)), &mut out);
    out.push_str("</details>\n");
    out
}

fn headline(screen: &Screen, record: &RunRecord, verdict: &Verdict, levels: &[Level<'_>], out: &mut String) {
    let _ = writeln!(out, "**{}**: {}\n", verdict.standing.word(), what_it_means(verdict.standing));
    let list = |lines: Vec<String>, out: &mut String| {
        for line in &lines {
            let _ = writeln!(out, "- {}", safe(line));
        }
        if !lines.is_empty() {
            out.push('\n');
        }
    };
    let told_cautions = || {
        let cautions = problems::cautions(screen, record, levels, verdict);
        cautions.iter().map(|(title, text)| format!("{title}: {text}")).collect()
    };
    list(verdict.told(), out);
    let Some(level) = levels.get(summary::peak(levels).unwrap_or(0)) else {
        let _ = writeln!(out, "{}\n", summary::no_figures(record));
        list(told_cautions(), out);
        return;
    };
    if let Some((_, finding)) = text::sought(record) {
        let _ = writeln!(out, "**{}**\n", safe(&finding.sentence));
    } else {
        let (rate, rest) = headline::parts(screen, record, level);
        let _ = writeln!(out, "**{rate}** · {}\n", rest.join(" · "));
    }
    let _ = writeln!(out, "{}\n", safe(&verdict.limit.sentence));
    if let Some(next) = advice::next(record, verdict) {
        let _ = writeln!(out, "Try {}.\n", safe(&next));
    }
    list(told_cautions(), out);
}

fn what_it_means(standing: Standing) -> &'static str {
    match standing {
        Standing::Valid => "every run rule is met",
        Standing::Uncertified => "sound, but not every run rule is met: good for work, not for publication",
        Standing::Disturbed => "the figures are in doubt",
        Standing::Invalid => "not to be used",
    }
}

fn level_table(screen: &Screen, levels: &[Level<'_>], out: &mut String) {
    let peak = summary::peak(levels);
    let reused = levels.iter().any(|level| level.counts.connections_answered != level.counts.succeeded);
    let intervals: Vec<Option<Interval>> = levels.iter().map(|level| level.statistics.request_rate).collect();
    let repeated = intervals.iter().any(Option::is_some);
    let figures = headlines(levels, reused);
    // One unit for times that are read together, so that columns compare by eye.
    let scale = |figure: &Figure| {
        let alike = figures.iter().filter(|other| is_alike(other, figure));
        let known = alike.flat_map(|figure| levels.iter().map(|level| level.values.value(figure)));
        figures::scale(screen, figure, known.flatten().map(|value| value.as_f64()))
    };
    let scales: Vec<Scale> = figures.iter().map(|figure| scale(figure)).collect();
    let mut table = Table::default();
    for (index, level) in levels.iter().enumerate() {
        let mark = |text: String| if peak == Some(index) { format!("**{}**", text.trim()) } else { text };
        table.cell("clients", mark(level.load_cell()));
        for (figure, scale) in figures.iter().zip(&scales) {
            let value = level.values.value(figure).map(|value| scale.show_value(screen, value));
            let is_rate = **figure == REQUEST_RATE;
            let value = value.unwrap_or_default();
            table.cell(&heading(figure, scale), if is_rate { mark(value) } else { value });
            if is_rate && repeated {
                let ends = intervals[index].map(|i| {
                    format!("{} – {}", scale.show(i.low.max(0.0)).trim(), scale.show(i.high).trim())
                });
                table.cell("95 % interval", ends.unwrap_or_default());
            }
        }
        table.end_row();
    }
    table.draw(out);
    if peak.is_some() {
        out.push_str("Bold: the level of the highest request rate.");
        out.push_str(if repeated {
            " Interval: of the mean of requests/s over iterations.\n\n"
        } else {
            "\n\n"
        });
    }
}

/// The headline figures that are known at any level, group by group. New connections say nothing where each request has one.
fn headlines(levels: &[Level<'_>], reused: bool) -> Vec<&'static Figure> {
    let figures = GROUPS.iter().flat_map(|group| table::of_group(*group));
    let known = |figure: &Figure| levels.iter().any(|level| level.values.value(figure).is_some());
    figures
        .filter(|figure| figure.rank == Rank::Headline && known(figure))
        .filter(|figure| reused || **figure != CONNECTION_RATE)
        .collect()
}

/// Whether two figures are read together: response times are, what they cost is not.
fn is_alike(a: &Figure, b: &Figure) -> bool {
    let is_time = a.quantity == Quantity::Seconds && b.quantity == Quantity::Seconds;
    a == b || (is_time && a.defined.section == b.defined.section)
}

/// `requests/s`, `latency mean, ms`, `Little's load`.
fn heading(figure: &Figure, scale: &Scale) -> String {
    match (scale.unit, scale.unit.strip_prefix("1/")) {
        ("", _) => figure.short.to_owned(),
        (_, Some(per)) => format!("{}/{per}", figure.short),
        (unit, None) => format!("{}, {unit}", figure.short),
    }
}

fn errors(record: &RunRecord, out: &mut String) {
    let mut all = webstone_measure::errors::ErrorTable::default();
    record.iterations.iter().for_each(|run| all.merge(&run.measured.errors));
    if all.total() == 0 {
        return;
    }
    let mut table = Table { text_columns: 1, ..Table::default() };
    for (class, number, _) in all.iter().take(ERRORS_MAX) {
        let meaning = definitions::definition("Errors", class.name()).map_or("", |d| d.text.as_str());
        table.cell("error", format!("{}: {}", class.name(), safe(meaning)));
        table.cell("requests", count(number));
        table.end_row();
    }
    table.draw(out);
}

fn facts(record: &RunRecord, verdict: &Verdict, out: &mut String) {
    let joined = |parts: Vec<String>| {
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    };
    let mut table = Table { text_columns: 2, ..Table::default() };
    let mut fact = |name: &str, text: String| {
        if !text.is_empty() {
            table.cell("run", name.to_owned());
            table.cell(&safe(&record.id), safe(&text));
            table.end_row();
        }
    };
    let target = &record.target;
    fact("target", joined(vec![target.url.clone(), target.server.clone().unwrap_or_default()]));
    let size = record.workload.mean_size().map(|size| format!("mean body {}", bytes(size.round() as u64)));
    let hash = record.workload_sha256.get(..16).unwrap_or(&record.workload_sha256);
    fact(
        "workload",
        joined(vec![
            record.workload.name.clone(),
            counted(record.workload.pages.len() as u64, "page", "pages"),
            size.unwrap_or_default(),
            format!("sha256 {hash}"),
        ]),
    );
    fact("load", joined(header::load(record)));
    fact("clients", joined(header::policy(record)));
    fact(if record.generators.is_empty() { "host" } else { "controller" }, joined(header::host(record)));
    fact("server's host", joined(header::server_host(record)));
    fact(
        "tool",
        joined(vec![format!("{} {}", record.tool.name, record.tool.version), record.started_at.clone()]),
    );
    let unmet: Vec<&str> = verdict.unmet_rules.iter().map(|rule| rule.text.as_str()).collect();
    fact("rules not met", unmet.join("; "));
    table.draw(out);
}

/// A table being filled cell by cell: the first row's names are its headings.
#[derive(Default)]
struct Table {
    /// Columns of text, aligned to the left; the others are numbers.
    text_columns: usize,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    row: Vec<String>,
}

impl Table {
    fn cell(&mut self, heading: &str, text: String) {
        if self.rows.is_empty() {
            self.headings.push(heading.to_owned());
        }
        self.row.push(text.trim().to_owned());
    }

    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    fn draw(&self, out: &mut String) {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        out.push_str(&line(&self.headings));
        let rule = |index| if index < self.text_columns { ":---" } else { "---:" };
        let rules: Vec<String> = (0..self.headings.len()).map(|index| rule(index).to_owned()).collect();
        out.push_str(&line(&rules));
        self.rows.iter().for_each(|row| out.push_str(&line(row)));
        out.push('\n');
    }
}

/// A text that others wrote, so that it stays text on its line and in its cell: what cannot be seen becomes its number, what
/// Markdown or HTML would take for markup is escaped (CommonMark, section 2.4).
pub fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in shown(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => safe.extend(['\\', c]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // GitHub would call a user or a team of that name.
            '@' => safe.push_str("@\u{2060}"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_cell_or_becomes_markup() {
        assert_eq!(
            safe("a|b\n<img src=x> `c` [d](e) \u{1b}[2J *f* @team"),
            "a\\|b &lt;img src=x&gt; \\`c\\` \\[d\\](e) \\\\u{1b}\\[2J \\*f\\* @\u{2060}team"
        );
    }
}
