//! What is read first: the verdict, and the few most important figures. The verdict is above them, because a figure that is read first
//! is believed; its reasons are below, in `notes`.

use webstone_judge::statistics::{Interval, Method};
use webstone_judge::verdict::Standing;
use webstone_measure::figures::Figure;
use webstone_measure::figures::level::{
    CONNECTION_RATE, ERROR_LEVEL, LATENCY_MAX, LATENCY_MEAN, LATENCY_P99, REQUEST_RATE, THROUGHPUT,
    WEBSTONE_NUMBER,
};
use webstone_measure::figures::table;
use webstone_measure::server_figures::CPU_PER_REQUEST;
use webstone_model::record::RunState;

use crate::document::table::{Room, Table};
use crate::numbers::{Scale, count, counted, seconds};
use crate::summary::{self, Level};
use crate::text::answer as answer_level;
use crate::text::headline::{cpu_bound, without_noise};

use super::Run;
use super::markup::Html;
use crate::document::figures::{definition, said, scale, title, value};

/// Runs beyond which those with the same verdict share a line.
const VERDICT_LINES_MAX: usize = 6;

/// What a search found, in a sentence.
pub(super) fn answer(html: &mut Html, run: &Run<'_>) {
    let Some(finding) = run.judged.finding() else { return };
    html.section("answer", "Answer");
    html.element("p class=\"answer\"", &finding.sentence).raw("</section>");
}

/// The verdict on one record, in a line.
pub(super) fn verdict(html: &mut Html, run: &Run<'_>) {
    html.section("verdict", "Verdict");
    html.raw("<div class=\"verdict ").raw(class(run)).raw("\"><p class=\"standing\"><strong>");
    html.text(run.verdict.standing.word()).raw("</strong> ").text(run.verdict.standing.meaning());
    html.raw(" <a href=\"#notes\">Why</a></p>");
    if let Some(noise) = run.verdict.noise_told() {
        html.element("p", &noise);
    }
    if let Some(state) = state(run) {
        html.element("p", state);
    }
    html.raw("</div></section>");
}

/// The verdicts on several, a line each, or, of many, a line for all with the same; `links` are where their own reports
/// stand.
pub(super) fn verdicts(html: &mut Html, runs: &[Run<'_>], links: &[Option<String>]) {
    html.section("verdict", "Verdicts").raw("<ul class=\"standings\">");
    let links = links.iter().map(Option::as_deref).chain(std::iter::repeat(None));
    let mut lines: Vec<Vec<(&Run<'_>, Option<&str>)>> = Vec::new();
    for (run, link) in runs.iter().zip(links) {
        let is_same = |line: &&mut Vec<(&Run<'_>, _)>| {
            let first = line[0].0;
            (first.verdict.standing, state(first)) == (run.verdict.standing, state(run))
        };
        match lines.iter_mut().find(is_same).filter(|_| runs.len() > VERDICT_LINES_MAX) {
            Some(line) => line.push((run, link)),
            None => lines.push(vec![(run, link)]),
        }
    }
    for line in lines {
        let (first, _) = line[0];
        html.raw("<li class=\"verdict ").raw(class(first)).raw("\"><strong>");
        html.text(first.verdict.standing.word()).raw("</strong> ");
        for (place, (run, link)) in line.iter().enumerate() {
            html.text(if place > 0 { ", " } else { "" });
            match link {
                Some(link) => html.raw("<a href=\"").text(link).raw("\">").text(&run.name).raw("</a>"),
                None => html.element("b", &run.name),
            };
        }
        html.text(": ").text(first.verdict.standing.meaning());
        if let Some(state) = state(first) {
            html.text("; ").text(state);
        }
        html.raw("</li>");
    }
    html.raw("</ul></section>");
}

/// The figures of the peak, large.
pub(super) fn tiles(html: &mut Html, run: &Run<'_>) {
    html.section("headline", "Headline");
    match answer_level(run.judged, &run.levels).or_else(|| run.best()) {
        Some(best) => of_level(html, run, best),
        None => {
            html.element("p", &crate::summary::no_figures(run.record));
        }
    }
    html.raw("</section>");
}

/// Several records: a row each, with its peak, and in what their specifications differ.
pub(super) fn peaks(html: &mut Html, runs: &[Run<'_>]) {
    html.section("peaks", "The peak of each record");
    let rows: Vec<(&Run<'_>, Option<&Level<'_>>)> = runs.iter().map(|run| (run, run.best())).collect();
    let mut table = Table::with_rows(&rows);
    table.number("record", "", Room::Always, |(run, _)| &run.name);
    table.number("verdict", "", Room::Always, |(run, _)| run.verdict.standing.word());
    table.number("peak at", "", Room::Always, |(_, level)| level.map(Level::load));
    for figure in [&REQUEST_RATE, &LATENCY_MEAN, &LATENCY_P99, &THROUGHPUT, &ERROR_LEVEL] {
        let scale = scale(figure, rows.iter().filter_map(|(_, level)| value((*level)?, figure)));
        let name = match scale.unit {
            "" => title(figure),
            unit => format!("{}, {unit}", title(figure)),
        };
        table.number(name, "", Room::Always, |(_, level)| {
            level.and_then(|level| level.values.value(figure)).map(|value| scale.cell(value))
        });
        if figure == &REQUEST_RATE {
            let interval = |level: Option<&Level<'_>>| level.and_then(|it| it.statistics.request_rate);
            table.number("95 % from", "", Room::Always, |(_, level)| {
                interval(*level).map(|it| scale.cell(it.low.max(0.0)))
            });
            table.number("to", "", Room::Always, |(_, level)| interval(*level).map(|it| scale.cell(it.high)));
        }
    }
    html.table("The peak of each record", table.done());
    html.element("p class=\"note\"", "A record’s peak is its level with the highest request rate, among those whose figures count if any does.");
    html.raw("</section>");
}

fn class(run: &Run<'_>) -> &'static str {
    match run.verdict.standing {
        Standing::Valid => "valid",
        Standing::Sound => "sound",
        Standing::Noisy => "noisy",
        Standing::Inconclusive => "inconclusive",
        Standing::Invalid => "invalid",
    }
}

/// How far a run got that did not end by itself.
fn state(run: &Run<'_>) -> Option<&'static str> {
    match run.record.state {
        RunState::Complete => None,
        RunState::Partial => Some("the run was killed or is still going on: this is what it measured so far"),
        RunState::Interrupted => Some("the user ended the run: this is what it measured until then"),
        RunState::Failed => Some("an error ended the run: this is what it measured until then"),
    }
}

fn of_level(html: &mut Html, run: &Run<'_>, best: &Level<'_>) {
    let load = best.load();
    let of = match run.levels.len() {
        1 => format!("At {load}"),
        _ if answer_level(run.judged, &run.levels).is_some() => {
            format!("At the highest load that keeps the SLO, {load}")
        }
        levels => format!("At the peak of {} levels, {load}", count(levels as u64)),
    };
    let windows = counted(best.runs.len() as u64, "timed run", "timed runs");
    let length = seconds(best.figures.test_time_s);
    let answered = counted(best.counts.succeeded, "request", "requests");
    html.element("p", &format!("{of}: {windows}, {length} in all, {answered} answered."));
    html.raw("<dl class=\"tiles\">");
    let statistics = &best.statistics;
    let rates = &best.figures;
    let mut shown: Vec<(&Figure, Option<Interval>)> = vec![(&REQUEST_RATE, statistics.request_rate)];
    let differs = (rates.connection_rate - rates.request_rate).abs() > 0.02 * rates.request_rate;
    if differs && rates.connection_rate > 0.01 * rates.request_rate {
        shown.push((&CONNECTION_RATE, statistics.connection_rate));
    }
    shown.push((&LATENCY_MEAN, statistics.latency_mean_s));
    shown.extend([(&LATENCY_P99, None), (&THROUGHPUT, statistics.throughput_bps), (&ERROR_LEVEL, None)]);
    shown.push((&CPU_PER_REQUEST, statistics.server_cpu_per_request_s));
    for (figure, interval) in shown {
        let Some(value) = value(best, figure) else { continue };
        let scale = scale(figure, [value]);
        let more = match figure {
            _ if figure == &LATENCY_P99 => tail(best),
            _ if figure == &ERROR_LEVEL => {
                format!("{} of {} requests", count(best.counts.failed), count(best.counts.ended()))
            }
            _ if figure == &CPU_PER_REQUEST => {
                let bound =
                    cpu_bound(best, value).map(|least| format!("undisturbed at least {}", scale.say(least)));
                let parts = [within(interval, &scale), bound.unwrap_or_default()];
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
            }
            _ => within(interval, &scale),
        };
        tile(html, figure, &said(best, figure, &scale), &more);
    }
    if let Some(level) = summary::highest(&run.levels, |level| level.figures.pages_per_minute) {
        let level = &run.levels[level];
        let at = format!("pages a minute, at {}", level.load());
        tile(html, &WEBSTONE_NUMBER, &count(level.figures.webstone_number), &at);
    }
    html.raw("</dl>");
    if let Some(estimate) = without_noise(best) {
        html.element("p", &format!("{estimate}."));
    }
}

fn tile(html: &mut Html, figure: &Figure, shown: &str, more: &str) {
    html.raw("<div><dt>").defined(&title(figure), definition(figure).as_deref());
    html.raw("</dt>").element("dd class=\"value\"", shown);
    if !more.is_empty() {
        html.element("dd", more);
    }
    html.raw("</div>");
}

/// The longest times of a level, below the 99th percentile.
fn tail(level: &Level<'_>) -> String {
    let longer = [table::figure("latency_p99_9_s"), Some(&LATENCY_MAX)].into_iter().flatten();
    let said = longer.filter_map(|figure| {
        let value = value(level, figure)?;
        Some(format!("{} {}", figure.short, said(level, figure, &scale(figure, [value]))))
    });
    said.collect::<Vec<_>>().join(", ")
}

/// An interval in words, short enough for its place.
fn within(interval: Option<Interval>, scale: &Scale) -> String {
    let Some(interval) = interval.filter(|interval| interval.method != Method::None) else {
        return String::new();
    };
    let low = scale.show(interval.low.max(0.0));
    format!("95 %: {} to {}", low.trim_end(), scale.say(interval.high))
}
