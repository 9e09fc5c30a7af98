//! What is read first: whether the figures can be trusted, which resource limited them, and the few that a run is
//! remembered by. The verdict stands above the throughput, because a figure that is read first is believed.

use webstone_judge::calibration;
use webstone_judge::search;
use webstone_judge::statistics::{Interval, Method};
use webstone_judge::verdict::{RuleStanding, Standing, Verdict};
use webstone_model::record::RunState;

use crate::numbers::{Scale, count, counted, percent, seconds};
use crate::screen::Screen;
use crate::summary::Level;
use crate::text::problems;

use super::markup::Html;
use super::{Run, definitions};

pub(super) fn draw(html: &mut Html, screen: &Screen, runs: &[Run<'_>]) {
    html.section("verdict", if runs.len() == 1 { "Verdict" } else { "Verdicts" });
    for run in runs {
        verdict(html, screen, run, runs.len() > 1);
    }
    html.raw("</section>").section("headline", "Headline");
    match runs {
        [only] => tiles(html, screen, only),
        several => compared(html, screen, several),
    }
    html.raw("</section>");
}

fn verdict(html: &mut Html, screen: &Screen, run: &Run<'_>, named: bool) {
    let Verdict { standing, unmet_rules, limit, .. } = &run.verdict;
    let (class, meaning) = match standing {
        Standing::Valid => ("valid", "every run rule is met"),
        Standing::Uncertified => ("uncertified", "sound figures; not every run rule is met"),
        Standing::Disturbed => ("disturbed", "the figures are in doubt"),
        Standing::Invalid => ("invalid", "do not use these figures"),
    };
    html.raw("<div class=\"verdict ").raw(class).raw("\">");
    if named {
        html.element("h3", &run.name);
    }
    html.raw("<p class=\"standing\"><strong>")
        .text(standing.word())
        .raw("</strong> ")
        .text(meaning)
        .raw("</p>");
    let state = match run.record.state {
        RunState::Complete => None,
        RunState::Partial => {
            Some("The run is still going on, or was killed: this is what was measured until then.")
        }
        RunState::Interrupted => Some("The user ended the run: this is what was measured until then."),
        RunState::Failed => Some("An error ended the run: this is what was measured until then."),
    };
    if let Some(state) = state {
        html.element("p", state);
    }
    let told = run.verdict.told();
    if !told.is_empty() {
        html.raw("<ul>");
        for sentence in told {
            html.element("li", &sentence);
        }
        html.raw("</ul>");
    }
    if let Some(finding) = search::of_record(run.record) {
        html.raw("<p><b>Search:</b> ").text(&finding.sentence);
        if let Some(peak) = finding.useful_peak {
            html.text(" Useful peak: ")
                .text(&peak.sentence(run.record.spec.find.as_ref().map(|find| find.over).unwrap_or_default()))
                .raw(".");
        }
        html.raw("</p>");
    }
    if let Some(said) = calibration::said(run.record) {
        html.raw("<p><b>Generator:</b> ").text(&said).raw("</p>");
    }
    html.raw("<p><b>What limits:</b> ").text(&limit.sentence).raw("</p>");
    for (title, text) in problems::cautions(screen, run.record, &run.levels, &run.verdict) {
        html.raw("<p><b>").text(&capitalised(title)).raw(":</b> ").text(&text).raw("</p>");
    }
    if !unmet_rules.is_empty() {
        let number = counted(unmet_rules.len() as u64, "run rule is", "run rules are");
        html.raw("<details class=\"printed\"><summary>")
            .text(&format!("{number} not met, or cannot be told from the record"));
        html.raw("</summary><ul>");
        for rule in unmet_rules {
            let standing = match rule.standing {
                RuleStanding::Met => "met",
                RuleStanding::NotMet => "not met",
                RuleStanding::CannotTell => "cannot be told",
            };
            html.raw("<li>").text(&rule.text).raw(" <em>").text(standing).raw(":</em> ").text(&rule.evidence);
            html.raw("</li>");
        }
        html.raw("</ul></details>");
    }
    html.raw("</div>\n");
}

/// `Listen queue` of `LISTEN QUEUE`; abbreviations keep their capitals.
fn capitalised(title: &str) -> String {
    match title.strip_prefix("A/A ") {
        Some(rest) => format!("A/A {}", rest.to_lowercase()),
        None => {
            let lower = title.to_lowercase().replace("cpu", "CPU");
            lower[..1].to_uppercase() + &lower[1..]
        }
    }
}

/// The figures of the peak, large.
fn tiles(html: &mut Html, screen: &Screen, run: &Run<'_>) {
    let (Some(best), Some(statistics)) = (run.best(), run.best_statistics()) else {
        html.element("p", "Nothing was measured: the record holds no timed run.");
        return;
    };
    let f = &best.figures;
    let clients = best.load();
    let of = if run.levels.len() > 1 {
        format!("At the peak of {} levels, {clients}", count(run.levels.len() as u64))
    } else {
        format!("At {clients}")
    };
    let windows = match best.runs.len() {
        1 => "one timed run".to_owned(),
        several => format!("{several} timed runs"),
    };
    let length = seconds(screen, f.test_time_s);
    html.element(
        "p",
        &format!(
            "{of}: {windows}, {length} in all, {} answered.",
            counted(best.counts.succeeded, "request", "requests")
        ),
    );
    html.raw("<dl class=\"tiles\">");
    let rate = Scale::plain(1, [f.request_rate]);
    let interval = within(statistics.request_rate, &rate);
    tile(html, "Requests/s", definitions::REQUESTS, &rate.say(f.request_rate), &interval);
    if (f.connection_rate - f.request_rate).abs() > 0.02 * f.request_rate {
        let scale = Scale::plain(1, [f.connection_rate]);
        tile(html, "Connections/s", definitions::CONNECTIONS, &scale.say(f.connection_rate), "");
    }
    let latency = Scale::seconds(screen, [f.latency_mean_s]);
    let interval = within(statistics.latency_mean_s, &latency);
    tile(html, "Latency, mean", definitions::LATENCY, &latency.say(f.latency_mean_s), &interval);
    if let Some(response) = &best.distributions.response {
        let more = format!(
            "p99.9 {}, longest {}",
            seconds(screen, response.p99_9_s),
            seconds(screen, response.max_s)
        );
        tile(html, "Latency, p99", definitions::PERCENTILES, &seconds(screen, response.p99_s), &more);
    }
    let throughput = Scale::bits_per_second([f.throughput_bps]);
    let interval = within(statistics.throughput_bps, &throughput);
    tile(html, "Throughput", definitions::THROUGHPUT, &throughput.say(f.throughput_bps), &interval);
    let failed = format!("{} of {} requests", count(best.counts.failed), count(best.counts.ended()));
    tile(html, "Error level", definitions::ERROR_LEVEL, &percent(f.error_level_percent), &failed);
    let by_pages =
        |a: &&Level<'_>, b: &&Level<'_>| a.figures.pages_per_minute.total_cmp(&b.figures.pages_per_minute);
    if let Some(level) = run.levels.iter().max_by(by_pages) {
        let at = format!("pages a minute, at {}", level.load());
        tile(html, "WEBSTONE number", definitions::WEBSTONE, &count(level.figures.webstone_number), &at);
    }
    html.raw("</dl>");
}

fn tile(html: &mut Html, name: &str, definition: &str, value: &str, more: &str) {
    html.raw("<div><dt>").defined(name, Some(definition)).raw("</dt><dd class=\"value\">").text(value);
    html.raw("</dd>");
    if !more.is_empty() {
        html.element("dd", more);
    }
    html.raw("</div>");
}

/// An interval in words, short enough for its place.
fn within(interval: Option<Interval>, scale: &Scale) -> String {
    let Some(interval) = interval else { return String::new() };
    let method = match interval.method {
        Method::StudentT => "Student’s t",
        Method::Bootstrap => "bootstrap",
        Method::None => return String::new(),
    };
    format!(
        "95 %: {} to {} ({method})",
        scale.show(interval.low.max(0.0)).trim_end(),
        scale.say(interval.high)
    )
}

/// Several records: a row each, with its peak, and in what their specifications differ.
fn compared(html: &mut Html, screen: &Screen, runs: &[Run<'_>]) {
    let best = || runs.iter().filter_map(Run::best);
    let rate = Scale::plain(1, best().map(|level| level.figures.request_rate));
    let latency = Scale::seconds(screen, best().map(|level| level.figures.latency_mean_s));
    let tail = |level: &Level<'_>| level.distributions.response.as_ref().map(|d| d.p99_s);
    let tails = Scale::seconds(screen, best().filter_map(tail));
    let throughput = Scale::bits_per_second(best().map(|level| level.figures.throughput_bps));
    let head = [
        "record".to_owned(),
        "verdict".to_owned(),
        "peak at clients".to_owned(),
        "requests/s".to_owned(),
        "95 % from".to_owned(),
        "to".to_owned(),
        format!("latency, mean, {}", latency.unit),
        format!("latency, p99, {}", tails.unit),
        format!("throughput, {}", throughput.unit),
        "error level".to_owned(),
    ];
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let mut row = vec![run.name.clone(), run.verdict.standing.word().to_owned()];
            match run.best() {
                Some(level) => {
                    let interval = run.best_statistics().and_then(|statistics| statistics.request_rate);
                    let end = |of: fn(&Interval) -> f64| {
                        interval.as_ref().map_or("–".to_owned(), |i| rate.show(of(i).max(0.0)))
                    };
                    row.extend([
                        count(level.clients.into()),
                        rate.show(level.figures.request_rate),
                        end(|interval| interval.low),
                        end(|interval| interval.high),
                        latency.show(level.figures.latency_mean_s),
                        tail(level).map_or("–".to_owned(), |value| tails.show(value)),
                        throughput.show(level.figures.throughput_bps),
                        percent(level.figures.error_level_percent),
                    ]);
                }
                None => row.extend(["–"; 8].map(str::to_owned)),
            }
            row
        })
        .collect();
    html.table("The peak of each record", &head, &rows);
    html.element(
        "p class=\"note\"",
        "Each record’s peak is the level with the highest request rate. Whether a difference is more than noise is \
         what webstone compare tells.",
    );
    let differing = super::differences(runs);
    if differing.is_empty() {
        html.element("p", "The specifications and targets of the records do not differ.");
        return;
    }
    let mut head = vec!["setting".to_owned()];
    head.extend(runs.iter().map(|run| run.name.clone()));
    html.table("In what the records differ", &head, &differing);
}
