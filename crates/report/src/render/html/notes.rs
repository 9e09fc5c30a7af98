//! The reasons of the verdict, the bottleneck, and other notes: all prose of the page, below the figures that it is about.

use webstone_judge::calibration;

use crate::numbers::counted;
use crate::text::cautions;
use crate::text::problems::is_met;

use super::Run;
use super::markup::Html;

/// The section of one record.
pub(super) fn draw(html: &mut Html, run: &Run<'_>) {
    html.section("notes", "Notes");
    reasons(html, run);
    // The page says above what a search found.
    limit(html, run, false);
    cautions(html, run);
    rules(html, run);
    html.raw("</section>");
}

/// The section for several records: what `first` draws, then a fold for each; with its cautions, unless `first` has drawn them.
pub(super) fn draw_each(
    html: &mut Html,
    runs: &[Run<'_>],
    with_cautions: bool,
    first: impl FnOnce(&mut Html),
) {
    html.section("notes", "Notes");
    first(html);
    for run in runs {
        html.raw("<details class=\"printed\"><summary><h3>").text(&run.name).raw("</h3></summary>");
        reasons(html, run);
        limit(html, run, true);
        if with_cautions {
            cautions(html, run);
        }
        rules(html, run);
        html.raw("</details>");
    }
    html.raw("</section>");
}

/// Why the verdict is what it is.
fn reasons(html: &mut Html, run: &Run<'_>) {
    let told = run.verdict.told();
    if told.is_empty() {
        return;
    }
    let word = run.verdict.standing.word();
    html.raw("<p><b>").text(word).raw("</b> because:</p><ul class=\"reasons\">");
    for sentence in told {
        html.element("li", &sentence);
    }
    html.raw("</ul>");
}

fn limit(html: &mut Html, run: &Run<'_>, with_answer: bool) {
    html.element("p", &run.verdict.limit.sentence);
    if let Some((over, finding)) = &run.judged.found {
        if with_answer {
            html.raw("<p><b>Search:</b> ").text(&finding.sentence).raw("</p>");
        }
        if let Some(peak) = finding.useful_peak {
            html.raw("<p><b>Useful peak:</b> ").text(&peak.sentence(*over)).raw(".</p>");
        }
    }
    if let Some(said) = calibration::said(run.record) {
        html.raw("<p><b>Load generator:</b> ").text(&said).raw("</p>");
    }
}

fn cautions(html: &mut Html, run: &Run<'_>) {
    for caution in cautions::of_levels(run.judged, &run.levels) {
        let (title, brief) = (capitalised(caution.title), caution.brief());
        let Some(rest) = caution.rest() else {
            html.raw("<p><b>").text(&title).raw(":</b> ").text(&brief).raw("</p>");
            continue;
        };
        html.raw("<details class=\"printed\"><summary><b>").text(&title).raw(":</b> ").text(&brief);
        html.raw("</summary>").element("p", &rest).raw("</details>");
    }
}

fn rules(html: &mut Html, run: &Run<'_>) {
    let unmet = &run.verdict.unmet_rules;
    if unmet.is_empty() {
        return;
    }
    let number = counted(unmet.len() as u64, "run rule is", "run rules are");
    html.raw("<details class=\"printed\"><summary>")
        .text(&format!("{number} not met, or unknown from the record"));
    html.raw("</summary><ul>");
    for rule in unmet {
        html.raw("<li>").text(&rule.text).raw(" <em>").text(is_met(rule)).raw(":</em> ").text(&rule.evidence);
        html.raw("</li>");
    }
    html.raw("</ul></details>");
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
