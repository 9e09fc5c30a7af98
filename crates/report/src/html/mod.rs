//! The report as one HTML file: no other file, no network, no script needed. Charts are SVG drawn here
//! (`crate::chart`); the little script adds a read-out under the pointer and the switch between light and dark.
//!
//! Nothing of a record can act: text is escaped in one place (`markup`), and a Content-Security-Policy admits only
//! the style sheet and the script of this program, by their hashes, and no request to anywhere.

mod definitions;
mod disclosure;
mod distributions;
mod figure;
mod headline;
pub(crate) mod history;
mod markup;
mod matrix;
mod pages;
mod search;
mod series;
mod sweep;

use std::collections::BTreeSet;

use base64::Engine as _;
use sha2::{Digest, Sha256};
use webstone_judge::statistics::LevelStatistics;
use webstone_judge::verdict::Verdict;
use webstone_model::record::RunRecord;

use crate::asctime::date_time;
use crate::numbers::count;
use crate::screen::Screen;
use crate::summary::{self, Level};
use crate::text::{header, sheets};
use crate::{Charset, Options};
use markup::{Html, spread};
pub(crate) use matrix::of_series;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// A level's rows in a table; of more levels so many are chosen.
const LEVELS_MAX: usize = 60;

/// One record of the report.
struct Run<'a> {
    record: &'a RunRecord,
    /// How it is called where there are several.
    name: String,
    verdict: Verdict,
    levels: Vec<Level<'a>>,
    /// Of each level, in the same order.
    statistics: Vec<LevelStatistics>,
}

impl Run<'_> {
    /// Whether any level has several iterations.
    fn repeated(&self) -> bool {
        self.levels.iter().any(|level| level.runs.len() > 1)
    }

    /// Index of the level with the highest request rate, where there is a choice.
    fn peak(&self) -> Option<usize> {
        summary::peak(&self.levels)
    }

    /// The level that the headline is about.
    fn best(&self) -> Option<&Level<'_>> {
        self.levels.get(self.peak().unwrap_or(0))
    }

    /// The statistics of that level.
    fn best_statistics(&self) -> Option<&LevelStatistics> {
        self.statistics.get(self.peak().unwrap_or(0))
    }

    /// Its name among several; alone, that of what is shown.
    fn label(&self, runs: &[Run<'_>], alone: &str) -> String {
        if runs.len() > 1 { self.name.clone() } else { alone.to_owned() }
    }
}

/// The report of one record, or of several drawn into the same charts; each with the verdict on the whole of it.
pub(crate) fn render(records: &[(&RunRecord, Verdict)], options: &Options) -> String {
    let screen = Screen::new(&Options { charset: Charset::Utf8, color: false, ..options.clone() });
    let runs = runs(records);
    page(&screen, &title(&runs), &subtitle(&runs), "", &runs, options)
}

fn runs<'a>(records: &[(&'a RunRecord, Verdict)]) -> Vec<Run<'a>> {
    let run = |(name, (record, verdict)): (String, &(&'a RunRecord, Verdict))| {
        let levels = summary::levels(record);
        let statistics = levels.iter().map(|level| LevelStatistics::of(&level.runs)).collect();
        Run { record, name, verdict: verdict.clone(), levels, statistics }
    };
    names(records).into_iter().zip(records).map(run).collect()
}

/// The page of these records; `before` is markup that stands before all that is drawn of them.
fn page(
    screen: &Screen,
    title: &str,
    subtitle: &str,
    before: &str,
    runs: &[Run<'_>],
    options: &Options,
) -> String {
    let mut html = Html::default();
    head(&mut html, title);
    html.raw("<header><p class=\"brand\">webstone report</p>");
    html.raw("<button id=\"theme\" type=\"button\" hidden>Theme: automatic</button>");
    html.element("h1", title).element("p class=\"sub\"", subtitle).raw("</header>\n");
    let mut body = Html::default();
    body.raw("<main id=\"main\" tabindex=\"-1\">").raw(before);
    headline::draw(&mut body, screen, runs);
    search::draw(&mut body, screen, runs);
    sweep::draw(&mut body, screen, runs);
    distributions::draw(&mut body, screen, runs);
    series::draw(&mut body, screen, runs);
    pages::draw(&mut body, screen, runs, options.pages_max);
    tables(&mut body, screen, runs, options.pages_max);
    disclosure::draw(&mut body, screen, runs);
    body.section("definitions", "Definitions");
    body.raw(&definitions::markup()).raw("</section></main>");
    let body = body.finish();
    navigation(&mut html, &body);
    html.raw(&body);
    foot(&mut html);
    html.finish()
}

fn foot(html: &mut Html) {
    html.raw("\n<footer><p>Made from the record alone by ");
    html.text(&format!("webstone {}", env!("CARGO_PKG_VERSION")));
    html.raw(". Values of a chart stand below it, under “Data”.</p></footer>");
    html.raw("<div id=\"readout\" aria-hidden=\"true\" hidden></div>\n<script>")
        .raw(SCRIPT)
        .raw("</script></body></html>\n");
}

fn head(html: &mut Html, title: &str) {
    let hash = |text: &str| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    html.raw(&format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; \
         script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'\">\n",
        hash(STYLE),
        hash(SCRIPT)
    ));
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    html.raw("<link rel=\"icon\" href=\"data:,\">\n");
    html.element("title", &format!("{title} – webstone report"));
    html.raw("\n<style>")
        .raw(STYLE)
        .raw("</style></head>\n<body><a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
}

fn title(runs: &[Run<'_>]) -> String {
    match runs {
        [only] => {
            let target = header::target(only.record);
            match &only.record.target.server {
                Some(server) if !only.record.target.embedded && only.record.target.software.is_none() => {
                    format!("{} on {server}, {target}", only.record.workload.name)
                }
                _ => format!("{} on {target}", only.record.workload.name),
            }
        }
        several => format!("{} records compared", several.len()),
    }
}

fn subtitle(runs: &[Run<'_>]) -> String {
    match runs {
        [only] => {
            let policy = header::policy(only.record);
            let connections = policy.first().cloned().unwrap_or_default();
            format!("{}, {connections}; run {}", date_time(&only.record.started_at), only.record.id)
        }
        several => several.iter().map(|run| run.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// Links to the sections that the report has, by their headings.
fn navigation(html: &mut Html, body: &str) {
    html.raw("<nav aria-label=\"Sections\"><ul>");
    for section in body.split("<section id=\"").skip(1) {
        let id = section.split('"').next().unwrap_or_default();
        // The heading was escaped when it was written.
        let title = section.split("-h\">").nth(2).and_then(|rest| rest.split("</h2>").next()).unwrap_or(id);
        html.raw(&format!("<li><a href=\"#{id}\">{title}</a></li>"));
    }
    html.raw("</ul></nav>\n");
}

fn tables(html: &mut Html, screen: &Screen, runs: &[Run<'_>], pages_max: usize) {
    if runs.iter().all(|run| run.levels.is_empty()) {
        return;
    }
    html.section("tables", "Tables");
    for run in runs.iter().filter(|run| !run.levels.is_empty()) {
        if runs.len() > 1 {
            html.raw("<details><summary><h3>").text(&run.name).raw("</h3></summary>");
        }
        let chosen: BTreeSet<usize> = spread(run.levels.len(), LEVELS_MAX, run.peak()).into_iter().collect();
        if chosen.len() < run.levels.len() {
            let text = format!(
                "{} of {} levels, evenly chosen; {} are left out and stand in the CSV report.",
                count(chosen.len() as u64),
                count(run.levels.len() as u64),
                count((run.levels.len() - chosen.len()) as u64)
            );
            html.element("p class=\"note\"", &text);
        }
        for sheet in sheets(screen, run.record, &run.levels, pages_max) {
            // Rows of these are no levels.
            let by_level = !matches!(sheet.title, "Pages" | "Errors");
            html.sheet(&sheet, &|row| !by_level || chosen.contains(&row));
        }
        if runs.len() > 1 {
            html.raw("</details>");
        }
    }
    html.raw("</section>");
}

/// What records are called in legends: their runs' names where these tell them apart, their identifiers otherwise.
fn names(records: &[(&RunRecord, Verdict)]) -> Vec<String> {
    let distinct = |names: &[&str]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let by_name: Vec<&str> = records.iter().map(|(record, _)| record.spec.name.as_str()).collect();
    let by_id: Vec<&str> = records.iter().map(|(record, _)| record.id.as_str()).collect();
    if distinct(&by_name) {
        return by_name.into_iter().map(str::to_owned).collect();
    }
    if distinct(&by_id) {
        return by_id.into_iter().map(str::to_owned).collect();
    }
    // The same record twice, say: numbers tell them apart.
    by_id.iter().enumerate().map(|(n, id)| format!("{id} ({})", n + 1)).collect()
}

/// Settings in which the records differ, a row each: the setting, then each record's value.
fn differences(runs: &[Run<'_>]) -> Vec<Vec<String>> {
    let settings: Vec<Vec<(String, String)>> = runs.iter().map(settings).collect();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in settings.iter().flatten() {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let mut rows = Vec::new();
    for key in keys {
        let value = |settings: &Vec<(String, String)>| {
            settings
                .iter()
                .find(|(name, _)| name == key)
                .map_or_else(|| "–".to_owned(), |(_, value)| value.clone())
        };
        let values: Vec<String> = settings.iter().map(value).collect();
        if values.iter().any(|value| *value != values[0]) {
            rows.push(std::iter::once(key.to_owned()).chain(values).collect());
        }
    }
    rows
}

fn settings(run: &Run<'_>) -> Vec<(String, String)> {
    let record = run.record;
    let mut settings = vec![
        ("started".to_owned(), date_time(&record.started_at)),
        ("target".to_owned(), header::target(record)),
        ("server".to_owned(), record.target.server.clone().unwrap_or_else(|| "not named".to_owned())),
        ("webstone".to_owned(), record.tool.version.clone()),
        ("workload".to_owned(), format!("{} {:.12}", record.workload.name, record.workload_sha256)),
    ];
    let host = record.environment.get("hostname").and_then(serde_json::Value::as_str).unwrap_or_default();
    settings.push(("host".to_owned(), host.to_owned()));
    let spec = serde_json::to_value(&record.spec).unwrap_or_default();
    let mut fields = Vec::new();
    disclosure::flatten("spec", &spec, &mut fields);
    // The name tells records apart already, and the workload and the target stand above.
    let told = ["spec.name", "spec.workload", "spec.target"];
    fields.retain(|(key, _)| !told.contains(&key.as_str()));
    settings
        .extend(fields.into_iter().map(|(key, value)| (key.trim_start_matches("spec.").to_owned(), value)));
    settings
}
