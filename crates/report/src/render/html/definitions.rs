//! The definition of every figure, a link away: the page of [`crate::definitions`] as markup, with an anchor at every heading and at the
//! first cell of every row; and the anchors that charts and tiles link to. Tests compare these with the page, and follow every link of a
//! report.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::definitions::{PAGE, anchor};

/// Identifiers of definitions that are not in the model's table of figures.
pub(super) const PERCENTILES: &str = "def-percentiles";
pub(super) const SEARCH: &str = "def-search-for-an-slo";
pub(super) const SECONDS: &str = "def-seconds";
pub(super) const GENERATOR_CPU: &str = "def-figures-of-a-level-generator_cpu_per_request_s";
pub(super) const SERVER_CPU: &str = "def-the-server-under-test-user_ns-system_ns";
pub(super) const HITS: &str = "def-pages-hits";
pub(super) const PAGE_RESPONSE: &str = "def-pages-response_ns";
pub(super) const PAGE_CONNECT: &str = "def-pages-connect_ns";
pub(super) const IDENTITIES: &str = "def-identities";

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
        let pointed_at =
            [PERCENTILES, SECONDS, GENERATOR_CPU, SERVER_CPU, HITS, PAGE_RESPONSE, PAGE_CONNECT, IDENTITIES]
                .map(str::to_owned);
        let defined = definitions().iter().map(|it| anchor(it.section, Some(&it.name)));
        for id in pointed_at.into_iter().chain(defined) {
            assert_eq!(markup.matches(&format!("id=\"{id}\"")).count(), 1, "{id}\n{markup}");
        }
        assert!(!markup.contains("<a "), "no link leads out of the report");
        assert!(markup.contains("<span id=\"def-figures-of-a-level-little\"><code>little</code></span>"));
    }
}
