//! The report as one HTML file: no other file, no network, no script needed. Charts are SVG drawn here
//! (`crate::chart`); the little script adds reading and zooming of charts, switches of lines and levels, and the choice
//! between light and dark.
//!
//! The most important comes first: the verdict in a line, the figures of the peak, then the reasons, then the charts. Definitions are
//! folded, and not printed.
//!
//! Nothing of a record can act: text is escaped in one place (`markup`), and a Content-Security-Policy admits only
//! the style sheet and the script of this program, by their hashes, and no request to anywhere.

mod definitions;
mod disclosure;
mod distributions;
mod document;
mod figure;
mod headline;
mod lab;
mod levels;
mod markup;
mod notes;
mod pages;
mod parts;
mod search;
mod sweep;

use std::collections::BTreeSet;

use base64::Engine as _;
use sha2::{Digest, Sha256};
use webstone_judge::comparison::{self as judged, Comparison};
use webstone_judge::verdict::Verdict;
use webstone_measure::keys::LevelKey;
use webstone_model::record::RunRecord;

use crate::Options;
use crate::asctime::date_time;
use crate::comparison::{self, Forbidden};
use crate::document::{Block, Document};
use crate::judged::Judged;
use crate::numbers::{count, spread};
use crate::summary::{self, Level};
use crate::text::{header, sheets};
use markup::Html;

/// The style sheet of reports, for other pages that should look like them.
pub const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// Most levels that have rows in a table; of more, a selection.
const LEVELS_MAX: usize = 60;

/// One record of the report.
struct Run<'a> {
    judged: &'a Judged<'a>,
    /// What is shown.
    record: &'a RunRecord,
    /// How it is called where there are several.
    name: String,
    verdict: &'a Verdict,
    levels: Vec<Level<'a>>,
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

    /// The level of a key.
    fn level(&self, key: LevelKey) -> Option<&Level<'_>> {
        self.levels.iter().find(|level| level.key() == key)
    }

    /// Its name among several; alone, that of what is shown.
    fn label(&self, runs: &[Run<'_>], alone: &str) -> String {
        if runs.len() > 1 { self.name.clone() } else { alone.to_owned() }
    }
}

/// What a page begins with.
enum Lead<'a> {
    /// One record: its verdict and its peak.
    Record,
    /// Several, each compared with the first.
    Compared(&'a Comparison, Forbidden),
    /// The cells of a series: where each has its own report, their comparison, and notes on them.
    Series { links: &'a [Option<String>], together: &'a Document, notes: &'a Document },
}

/// The report of one record, or of several drawn into the same charts; each with the verdict on the whole of it.
pub(crate) fn render(records: &[Judged<'_>], options: &Options) -> String {
    let runs = runs(records);
    let compared = (records.len() > 1).then(|| {
        let records: Vec<&RunRecord> = records.iter().map(|judged| judged.record).collect();
        judged::compare(&records, &judged::Options::default())
    });
    let lead = match &compared {
        None => Lead::Record,
        Some(comparison) => Lead::Compared(comparison, Forbidden::Refused),
    };
    page(&title(&runs), &subtitle(&runs), &lead, &runs, options)
}

/// A comparison, with the records that were compared.
pub(crate) fn of_comparison(comparison: &Comparison, records: &[RunRecord], options: &Options) -> String {
    let records: Vec<_> = records.iter().map(Judged::whole).collect();
    let runs = runs(&records);
    let lead = Lead::Compared(comparison, Forbidden::Forced);
    page(&title(&runs), &subtitle(&runs), &lead, &runs, options)
}

/// The page of a series: what its cells say together, then the charts and tables that any several records have. `links` lead to the
/// reports of the cells, in the order of the plan, where they have one.
pub(crate) fn of_series(
    title: &str,
    subtitle: &str,
    together: &Document,
    notes: &Document,
    records: &[Option<RunRecord>],
    links: &[Option<String>],
    options: &Options,
) -> String {
    let linked = links.iter().cloned().chain(std::iter::repeat(None));
    let (records, links): (Vec<_>, Vec<Option<String>>) = (records.iter().zip(linked))
        .filter_map(|(record, link)| Some((Judged::whole(record.as_ref()?), link)))
        .unzip();
    let lead = Lead::Series { links: &links, together, notes };
    page(title, subtitle, &lead, &runs(&records), options)
}

/// A document as a page of its own, below its title.
pub(crate) fn of_document(brand: &str, subtitle: &str, document: &Document) -> String {
    let title = document.0.iter().find_map(|block| match block {
        Block::Title(_, title) => Some(title.as_str()),
        _ => None,
    });
    let page = Page { title: title.unwrap_or_default(), subtitle, ..Page::branded(brand) };
    page.draw(|html| {
        html.document(document);
    })
}

fn runs<'a>(records: &'a [Judged<'a>]) -> Vec<Run<'a>> {
    let run = |(name, judged): (String, &'a Judged<'a>)| Run {
        judged,
        record: judged.record,
        name,
        verdict: &judged.verdict,
        levels: summary::levels(judged.record),
    };
    names(records).into_iter().zip(records).map(run).collect()
}

fn page(title: &str, subtitle: &str, lead: &Lead<'_>, runs: &[Run<'_>], options: &Options) -> String {
    let brand = match lead {
        Lead::Compared(_, Forbidden::Forced) => "webstone compare",
        _ => "webstone report",
    };
    let series = runs.first().filter(|_| runs.len() == 1 && options.beside_record);
    let chosen = levels::Chosen::of_runs(runs);
    let is_one = matches!(lead, Lead::Record);
    let page = Page {
        title,
        subtitle,
        class: if is_one { " class=\"one\"" } else { "" },
        series: series.and_then(|run| run.record.series.as_deref()),
        levels: Some(&chosen),
        ..Page::branded(brand)
    };
    page.draw(|body| {
        begin(body, lead, runs);
        search::draw(body, runs);
        sweep::draw(body, runs);
        levels::draw(body, runs, &chosen);
        pages::draw(body, runs, options.pages_max);
        tables(body, runs, options.pages_max);
        disclosure::draw(body, runs);
        if is_one {
            body.element(
                "p class=\"note in-print\"",
                "Not printed: levels over time, pages, fairness, run rules, specification, environment, definitions. The file has them.",
            );
        }
        body.section("definitions", "Definitions");
        body.raw("<details><summary>What every figure means, and where it comes from</summary>");
        body.raw(&definitions::markup()).raw("</details></section>");
    })
}

/// The parts of a page around its sections.
struct Page<'a> {
    brand: &'a str,
    title: &'a str,
    subtitle: &'a str,
    /// Class of the part between the navigation and the foot.
    class: &'a str,
    /// The series whose page stands one directory up.
    series: Option<&'a str>,
    /// What its selector chooses from.
    levels: Option<&'a levels::Chosen>,
}

impl<'a> Page<'a> {
    fn branded(brand: &'a str) -> Page<'a> {
        Page { brand, title: "", subtitle: "", class: "", series: None, levels: None }
    }

    fn draw(&self, sections: impl FnOnce(&mut Html)) -> String {
        let mut html = Html::default();
        head(&mut html, self.brand, self.title, self.subtitle);
        if let Some(series) = self.series {
            html.raw("<p class=\"sub\">One cell of a series: <a href=\"../report.html\">").text(series);
            html.raw("</a></p>");
        }
        let mut body = Html::default();
        sections(&mut body);
        let body = body.finish();
        html.raw("</header>\n");
        navigation(&mut html, &body, self.levels);
        html.raw(&format!("<main id=\"main\" tabindex=\"-1\"{}>", self.class)).raw(&body).raw("</main>");
        foot(&mut html);
        html.finish()
    }
}

/// Verdict, figures, and what there is to say about them, in this order.
fn begin(html: &mut Html, lead: &Lead<'_>, runs: &[Run<'_>]) {
    match lead {
        Lead::Record => {
            for run in runs {
                headline::answer(html, run);
                headline::verdict(html, run);
                headline::tiles(html, run);
                notes::draw(html, run);
            }
        }
        Lead::Compared(comparison, forbidden) => {
            headline::verdicts(html, runs, &[]);
            html.section("comparison", "Comparison");
            html.document(&comparison::document(comparison, *forbidden)).raw("</section>");
            headline::peaks(html, runs);
            notes::draw_each(html, runs, true, |_| ());
        }
        Lead::Series { links, together, notes } => {
            headline::verdicts(html, runs, links);
            html.document(together);
            notes::draw_each(html, runs, false, |html| {
                html.document(notes);
            });
        }
    }
}

fn foot(html: &mut Html) {
    html.raw("\n<footer><p>Made from the record alone by ");
    html.text(&format!("webstone {}", env!("CARGO_PKG_VERSION")));
    html.raw(". The values of a chart stand below it, under “Data”.</p>");
    html.raw(
        "<p id=\"keys\" hidden>Charts: drag across one to zoom, double-click to see all again. With the keyboard: arrow keys read \
         values, + and − zoom, 0 shows all.</p></footer>",
    );
    html.raw(
        "<div id=\"readout\" aria-hidden=\"true\" hidden></div><p id=\"said\" role=\"status\"></p>\n<script>",
    )
    .raw(SCRIPT)
    .raw("</script></body></html>\n");
}

/// All before the navigation.
fn head(html: &mut Html, brand: &str, title: &str, subtitle: &str) {
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
    html.element("title", &format!("{title} – {brand}"));
    html.raw("\n<style>")
        .raw(STYLE)
        .raw("</style></head>\n<body><a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
    html.raw("<header>").element("p class=\"brand\"", brand);
    html.raw("<button id=\"theme\" type=\"button\" hidden>Theme: automatic</button>");
    html.element("h1", title).element("p class=\"sub\"", subtitle);
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
        several => format!("{} runs compared", several.len()),
    }
}

fn subtitle(runs: &[Run<'_>]) -> String {
    match runs {
        [only] => {
            let policy = header::policy(only.record);
            let connections = policy.first().cloned().unwrap_or_default();
            format!("{}, {connections}; run {}", date_time(&only.record.started_at), only.record.id)
        }
        several => {
            let named = several.iter().enumerate();
            let named = named.map(|(place, run)| format!("{} ({})", run.name, comparison::letter(place)));
            named.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Links to the sections that the report has, by their headings, and the selector of levels.
fn navigation(html: &mut Html, body: &str, chosen: Option<&levels::Chosen>) {
    html.raw("<nav aria-label=\"Sections\"><ul>");
    for section in body.split("<section id=\"").skip(1) {
        let id = section.split('"').next().unwrap_or_default();
        // The heading was escaped when it was written.
        let title = section.split("-h\">").nth(2).and_then(|rest| rest.split("</h2>").next()).unwrap_or(id);
        html.raw(&format!("<li><a href=\"#{id}\">{title}</a></li>"));
    }
    html.raw("</ul>");
    if let Some(chosen) = chosen.filter(|chosen| chosen.is_choice()) {
        chosen.selector(html);
    }
    html.raw("</nav>\n");
}

fn tables(html: &mut Html, runs: &[Run<'_>], pages_max: usize) {
    if runs.iter().all(|run| run.levels.is_empty()) {
        return;
    }
    html.section("tables", "Tables");
    for run in runs.iter().filter(|run| !run.levels.is_empty()) {
        if runs.len() > 1 {
            html.raw("<details><summary><h3>").text(&run.name).raw("</h3></summary>");
        }
        let names: Vec<String> = run.levels.iter().map(Level::load).collect();
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
        // Of a level's row the first cell is its load; a mark after it says that it was interrupted.
        let level = |cell: &str| {
            let cell = cell.trim_end_matches('*');
            match run.levels.iter().position(|level| level.load_cell() == cell) {
                Some(place) => chosen.contains(&place).then(|| names[place].as_str()),
                None => Some(""),
            }
        };
        for sheet in sheets(run.judged, &run.levels, pages_max) {
            let load = summary::load_column(&run.levels).0;
            if sheet.table.columns.first().is_some_and(|column| column.name == load) {
                html.sheet_of_levels(&sheet, &level);
            } else {
                html.sheet(&sheet);
            }
        }
        if runs.len() > 1 {
            html.raw("</details>");
        }
    }
    html.raw("</section>");
}

/// What records are called in legends: the names of their runs if these differ, otherwise their identifiers.
fn names(records: &[Judged<'_>]) -> Vec<String> {
    let distinct = |names: &[&str]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let by_name: Vec<&str> = records.iter().map(|judged| judged.record.spec.name.as_str()).collect();
    let by_id: Vec<&str> = records.iter().map(|judged| judged.record.id.as_str()).collect();
    if distinct(&by_name) {
        return by_name.into_iter().map(str::to_owned).collect();
    }
    if distinct(&by_id) {
        return by_id.into_iter().map(str::to_owned).collect();
    }
    // The same record twice, for example: they are numbered.
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
    // The name is the column's head already, and workload and target are above.
    let told = ["spec.name", "spec.workload", "spec.target"];
    fields.retain(|(key, _)| !told.contains(&key.as_str()));
    settings
        .extend(fields.into_iter().map(|(key, value)| (key.trim_start_matches("spec.").to_owned(), value)));
    settings
}
