//! The definition of every figure, a link away: the page of [`crate::definitions`] as markup, with an anchor at every
//! heading and at the first cell of every row, and which of them a chart, a tile or a column of a table points at. Tests
//! hold those against the page, and follow every link of a report.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::definitions::{PAGE, anchor};

/// Identifiers of definitions that several charts point at.
pub(super) const CONNECTIONS: &str = "def-figures-of-a-level-connection_rate";
pub(super) const REQUESTS: &str = "def-figures-of-a-level-request_rate";
pub(super) const THROUGHPUT: &str = "def-figures-of-a-level-throughput_bps";
pub(super) const LATENCY: &str = "def-figures-of-a-level-latency_mean_s";
pub(super) const PERCENTILES: &str = "def-percentiles";
pub(super) const PAGES: &str = "def-figures-of-a-level-pages_per_minute";
pub(super) const LITTLE: &str = "def-figures-of-a-level-little";
pub(super) const ERROR_LEVEL: &str = "def-figures-of-a-level-error_level_percent";
pub(super) const ERRORS: &str = "def-figures-of-a-level-error_rate";
pub(super) const WEBSTONE: &str = "def-figures-of-a-level-webstone_number";
pub(super) const SEARCH: &str = "def-search-for-an-slo";
pub(super) const SERIES: &str = "def-the-series";
pub(super) const GENERATOR_CPU: &str = "def-figures-of-a-level-generator_cpu_per_request_s";
pub(super) const SERVER_CPU: &str = "def-the-server-under-test-user_ns-system_ns";
pub(super) const HITS: &str = "def-pages-hits";
pub(super) const PAGE_RESPONSE: &str = "def-pages-response_ns";
pub(super) const PAGE_CONNECT: &str = "def-pages-connect_ns";
pub(super) const IDENTITIES: &str = "def-identities";
pub(super) const ERROR_CLASSES: &str = "def-errors-by-whom-they-blame";

/// The definition of a column of a sheet.
pub(super) fn of_column(sheet: &str, name: &str, unit: &str) -> Option<&'static str> {
    Some(match (sheet, name) {
        ("Levels", "connects") => CONNECTIONS,
        ("Levels", "requests") => REQUESTS,
        ("Levels" | "Pages", "errors") => ERRORS,
        ("Levels", "latency") if unit.starts_with("p99") => PERCENTILES,
        ("Levels", "latency") => LATENCY,
        ("Levels", "throughput") => THROUGHPUT,
        ("Levels", "a client") => "def-figures-of-a-level-client_throughput_bps",
        ("Levels", "Little's") => LITTLE,
        ("Levels", "pages") => "def-figures-of-a-level-pages_per_minute",
        ("Times", name) if name.starts_with('p') || name == "max" => PERCENTILES,
        ("Pages", "hits") => HITS,
        ("Pages", "time") if unit == "max" => "def-pages-time_ns_max",
        ("Pages", "time") => "def-pages-time_ns",
        ("Pages", "a file") => PAGE_RESPONSE,
        ("Pages", "connect") if unit == "max" => "def-pages-connect_ns_max",
        ("Pages", "connect") => PAGE_CONNECT,
        ("Pages", "connects") => "def-pages-connects",
        ("Pages", "body data") => "def-pages-body_bytes",
        ("Fairness", "Jain") if unit == "pages" => "def-fairness-jain_pages",
        ("Fairness", "Jain") => "def-fairness-jain_latency",
        ("Fairness", "pages") => "def-fairness-pages",
        ("Fairness", "latency") => "def-fairness-latency_ns",
        ("Fairness", "starved") => "def-fairness-starved",
        ("Levels", "95%" | "lowest" | "highest") => "def-statistics",
        ("Open loop", "asked") => "def-open-loop-asked_rate",
        ("Open loop", "offered") => "def-open-loop-offered_rate",
        ("Open loop", "skipped") => "def-open-loop-skipped",
        ("Open loop", "waited") => "def-open-loop-waited",
        ("Open loop", "queued") => "def-open-loop-queued",
        ("Open loop", "lag") => "def-open-loop-lag",
        ("Open loop", "awake") => "def-open-loop-spun_ns",
        ("Open loop", _) => "def-open-loop",
        ("Machines", "kept off") => "def-the-verdict-generator-saturated",
        ("Machines", "own delay" | "receive lag") => "def-instants-of-a-request",
        ("Machines", "generator" | "busiest") => GENERATOR_CPU,
        ("Machines", "server") => SERVER_CPU,
        ("Machines", "memory") => "def-the-server-under-test-resident_bytes_max",
        ("Server", "user" | "system") => "def-the-server-under-test-cpu_user_percent-cpu_system_percent",
        ("Server", "1,000 requests") => "def-the-server-under-test-cpu_per_1000_requests_s",
        ("Server", "memory") if unit.starts_with("max") => "def-the-server-under-test-resident_bytes_max",
        ("Server", "memory") => "def-the-server-under-test-proportional_bytes",
        ("Server", "switches" | "preempted") => {
            "def-the-server-under-test-switches_voluntary-switches_involuntary"
        }
        ("Server", "faults" | "from disk") => "def-the-server-under-test-faults_minor-faults_major",
        ("Server", "disk read" | "written") => "def-the-server-under-test-disk_read_bytes-disk_written_bytes",
        ("Server", "held up") => "def-the-server-under-test-throttled_ns",
        ("Server", "descriptors" | "processes" | "threads") => {
            "def-the-server-under-test-processes_max-threads_max-descriptors_max"
        }
        ("Origin", "requests") => "def-the-origin-behind-a-proxy-origin_request_rate",
        ("Origin", "asked") => "def-the-origin-behind-a-proxy-origin_requests_per_request",
        ("Origin", "hits") => "def-the-origin-behind-a-proxy-hit_percent",
        ("Origin", "unchanged") => "def-the-origin-behind-a-proxy-revalidated_percent",
        ("Origin", "saved") => "def-the-origin-behind-a-proxy-saved_percent",
        ("Origin", "bodies") => "def-the-origin-behind-a-proxy-origin_body_bps",
        ("Origin", "connects") => "def-the-origin-behind-a-proxy-origin_connections_per_request",
        ("Origin", "user" | "system" | "1,000 requests" | "memory") => "def-the-origin-behind-a-proxy-server",
        ("CPUs" | "CPUs there", "user" | "system" | "interrupts" | "idle" | "stolen") => {
            "def-the-host-of-the-generator-cpus"
        }
        ("Network" | "Network there", "overflows") => "def-the-host-of-the-generator-listen_overflows",
        ("Network" | "Network there", "sent again") => {
            "def-the-host-of-the-generator-segments_sent-retransmitted"
        }
        ("Network" | "Network there", "received" | "sent" | "packets" | "dropped") => {
            "def-the-host-of-the-generator-interfaces"
        }
        ("Errors", "class" | "blames") => ERROR_CLASSES,
        _ => return None,
    })
}

/// All definitions as markup; headings begin at the third level.
pub(super) fn markup() -> String {
    let mut events = Vec::new();
    let mut section = String::new();
    let mut heading: Option<Vec<Event<'_>>> = None;
    // Inside the first cell of a row: its text so far, and where it began.
    let mut cell: Option<(String, usize)> = None;
    let mut cells = 0;
    for event in Parser::new_ext(PAGE, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(Vec::new()),
            Event::End(TagEnd::Heading(level)) => {
                let content = heading.take().unwrap_or_default();
                section = content.iter().filter_map(text_of).collect();
                // The title of the page is the title of the section that this stands in.
                if level == HeadingLevel::H1 {
                    continue;
                }
                let tag = if level == HeadingLevel::H2 { "h3" } else { "h4" };
                events.push(Event::Html(format!("<{tag} id=\"{}\">", anchor(&section, None)).into()));
                events.extend(content);
                events.push(Event::Html(format!("</{tag}>\n").into()));
            }
            event if heading.is_some() => heading.iter_mut().for_each(|content| content.push(event.clone())),
            // Links to other pages of the documentation lead nowhere from here; their text stays.
            Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link) => {}
            Event::Start(Tag::Table(_)) => {
                events.push(Event::Html(
                    "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Definitions\">".into(),
                ));
                events.push(event);
            }
            Event::End(TagEnd::Table) => {
                events.push(event);
                events.push(Event::Html("</div>\n".into()));
            }
            Event::Start(Tag::TableRow | Tag::TableHead) => {
                cells = 0;
                events.push(event);
            }
            Event::Start(Tag::TableCell) => {
                cells += 1;
                events.push(event);
                if cells == 1 {
                    cell = Some((String::new(), events.len()));
                }
            }
            Event::End(TagEnd::TableCell) => {
                if let Some((text, begin)) = cell.take() {
                    let begun = format!("<span id=\"{}\">", anchor(&section, Some(&text)));
                    events.insert(begin, Event::InlineHtml(begun.into()));
                    events.push(Event::InlineHtml("</span>".into()));
                }
                events.push(event);
            }
            event => {
                if let (Some((text, _)), Some(part)) = (&mut cell, text_of(&event)) {
                    text.push_str(part);
                }
                events.push(event);
            }
        }
    }
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    out
}

fn text_of<'a>(event: &'a Event<'_>) -> Option<&'a str> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::definitions;

    #[test]
    fn rows_and_sections_can_be_pointed_at() {
        let markup = markup();
        let pointed_at = [
            CONNECTIONS,
            REQUESTS,
            THROUGHPUT,
            LATENCY,
            PERCENTILES,
            LITTLE,
            ERROR_LEVEL,
            ERRORS,
            WEBSTONE,
            SERIES,
            GENERATOR_CPU,
            SERVER_CPU,
            HITS,
            PAGE_RESPONSE,
            PAGE_CONNECT,
            IDENTITIES,
            ERROR_CLASSES,
        ]
        .map(str::to_owned);
        let defined = definitions().iter().map(|it| anchor(it.section, Some(&it.name)));
        for id in pointed_at.into_iter().chain(defined) {
            assert_eq!(markup.matches(&format!("id=\"{id}\"")).count(), 1, "{id}\n{markup}");
        }
        assert!(!markup.contains("<a "), "no link leads out of the report");
        assert!(markup.contains("<span id=\"def-figures-of-a-level-little\"><code>little</code></span>"));
    }
}
