//! A run in short, for a README or a pull request: verdict, headline, levels, bottleneck, and what was measured with which
//! configuration.

use webstone_judge::statistics::Interval;
use webstone_judge::verdict::{Standing, Verdict};
use webstone_measure::errors::ErrorTable;
use webstone_measure::figures::level::{CONNECTION_RATE, REQUEST_RATE};
use webstone_measure::figures::table::{self, Rank};
use webstone_measure::figures::{Figure, Group, Quantity};
use webstone_model::record::RunRecord;

use super::headline::cpu_bound;
use super::problems::Depth;
use super::{figures, header, headline, problems};
use crate::document::cell::Cell;
use crate::document::table::{Room, Table};
use crate::document::{Block, Document, Tone};
use crate::judged::Judged;
use crate::numbers::{DOT, Scale, bytes, counted};
use crate::summary::{self, Level};
use crate::{advice, configuration, definitions};

/// The groups whose headline figures the table of levels shows, in order.
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
/// The server's CPU time for 1,000 requests, which has a bound of its own.
const COST: &str = "server_cpu_per_1000_requests_s";
/// Errors named one by one.
const ERRORS_MAX: usize = 20;

/// The document.
pub(crate) fn document(judged: &Judged<'_>) -> Document {
    let (record, verdict) = (judged.record, &judged.verdict);
    let levels = summary::levels(record);
    let mut doc = Document::default();
    doc.title("", format!("webstone: {} on {}", record.workload.name, header::target(record)));
    begin(judged, &levels, &mut doc);
    if !levels.is_empty() {
        let sections = super::sections(judged, &levels, 0, Depth::Brief).into_iter();
        let mut sheets = sections.filter(|section| section.is_short).map(|section| section.sheet).peekable();
        doc.sheets(sheets.next_if(|_| judged.found.is_some()));
        doc.0.push(Block::Table(level_table(&levels)));
        if levels.iter().any(|level| most(level).is_some() || least(level).is_some()) {
            doc.text(
                Tone::Plain,
                "Up to, at least: how far noise may have moved the figure on the left; a dash is no such noise, or no bound.",
            );
        }
        if summary::peak(&levels).is_some() {
            let repeated = levels.iter().any(|level| level.statistics.request_rate.is_some());
            let interval =
                if repeated { " Interval: of the mean of requests/s over iterations." } else { "" };
            doc.text(Tone::Plain, format!("Bold: the level of the highest request rate.{interval}"));
        }
        doc.sheets(sheets);
        doc.0.extend(errors(record).map(Block::Table));
    }
    doc.0.push(Block::Table(facts(record, verdict)));
    let mut configuration = Document::default();
    configuration.sheets([configuration::sheet(&configuration::groups(record))]);
    doc.fold("Configuration", Document::default(), configuration);
    doc
}

fn begin(judged: &Judged<'_>, levels: &[Level<'_>], doc: &mut Document) {
    let (record, verdict) = (judged.record, &judged.verdict);
    let pair = |strong: &str, rest: String| {
        Block::Text(vec![(Tone::Strong, strong.to_owned()), (Tone::Plain, rest)])
    };
    let answer = judged.finding().map(|finding| pair(&finding.sentence, String::new()));
    doc.0.extend(answer);
    doc.0.push(pair(verdict.standing.word(), format!(": {}", verdict.standing.meaning())));
    doc.list(verdict.told());
    doc.list(verdict.noise_told().into_iter().collect());
    let cautions = problems::cautions(judged, levels).into_iter();
    let cautions = cautions.map(|(title, text)| format!("{title}: {text}")).collect();
    let Some(level) = levels.get(summary::peak(levels).unwrap_or(0)) else {
        doc.text(Tone::Plain, summary::no_figures(record));
        doc.list(cautions);
        return;
    };
    let level = super::answer(judged, levels).unwrap_or(level);
    let (rate, rest) = headline::parts(record, level);
    doc.0.push(pair(&rate, format!("{DOT}{}", rest.join(DOT))));
    doc.text(Tone::Plain, &verdict.limit.sentence);
    if let Some(next) = advice::next(record, verdict) {
        doc.text(Tone::Plain, format!("Try {next}."));
    }
    doc.list(cautions);
}

fn level_table(levels: &[Level<'_>]) -> Table {
    let peak = summary::peak(levels);
    let reused = levels.iter().any(|level| level.counts.connections_answered != level.counts.succeeded);
    let figures = headlines(levels, reused);
    // One unit for times that are read together, so that columns can be compared.
    let scale = |figure: &Figure| {
        let alike = figures.iter().filter(|other| is_alike(other, figure));
        let known = alike.flat_map(|figure| levels.iter().map(|level| level.values.value(figure)));
        figures::scale(figure, known.flatten().map(|value| value.as_f64()))
    };
    let mark = |place: usize, cell: Cell| if peak == Some(place) { cell.toned(Tone::Strong) } else { cell };
    let rows: Vec<(usize, &Level<'_>)> = levels.iter().enumerate().collect();
    let mut table = Table::with_rows(&rows);
    let (load, unit) = summary::load_column(levels);
    table.number(format!("{load}{unit}"), "", Room::Always, |(place, level)| {
        mark(*place, level.load_cell().into())
    });
    for figure in &figures {
        let scale = scale(figure);
        let value = |level: &Level<'_>| match level.values.value(figure) {
            Some(value) => scale.cell(value),
            None => "".into(),
        };
        if **figure != REQUEST_RATE {
            table.number(heading(figure, &scale), "", Room::Always, |(_, level)| value(level));
            if figure.key == COST && levels.iter().any(|level| least(level).is_some()) {
                table
                    .number("at least", "", Room::Always, |(_, level)| least(level).map(|it| scale.cell(it)));
            }
            continue;
        }
        table.number(heading(figure, &scale), "", Room::Always, |(place, level)| mark(*place, value(level)));
        if levels.iter().any(|level| level.statistics.request_rate.is_some()) {
            let ends = |i: Interval| {
                format!("{} – {}", scale.show(i.low.max(0.0)).trim(), scale.show(i.high).trim())
            };
            table.number("95 % interval", "", Room::Always, |(_, level)| {
                level.statistics.request_rate.map(ends).unwrap_or_default()
            });
        }
        if levels.iter().any(|level| most(level).is_some()) {
            table.number("up to", "", Room::Always, |(_, level)| most(level).map(|it| scale.cell(it)));
        }
    }
    if levels.iter().any(|level| level.standing > Standing::Sound) {
        table.text("verdict", Room::Always, |(_, level)| level.standing.word());
    }
    table.done()
}

/// What the request rate may be at most without noise, where it has a bound.
fn most(level: &Level<'_>) -> Option<f64> {
    Some(level.figures.request_rate * level.noise?.rate_factor()?)
}

/// What the server's CPU time for 1,000 requests is at least without noise, where noise may have raised it.
fn least(level: &Level<'_>) -> Option<f64> {
    cpu_bound(level, level.values.value(table::figure(COST)?)?.as_f64())
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

/// Whether two figures are read together, as response times are, and therefore share a unit.
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

fn errors(record: &RunRecord) -> Option<Table> {
    let mut all = ErrorTable::default();
    record.iterations.iter().for_each(|run| all.merge(&run.measured.errors));
    let classes: Vec<_> = all.iter().take(ERRORS_MAX).collect();
    let mut table = Table::with_rows(&classes);
    table.text("error", Room::Always, |(class, ..)| {
        let meaning = definitions::definition("Errors", class.name()).map_or("", |d| d.text.as_str());
        format!("{}: {meaning}", class.name())
    });
    table.number("requests", "", Room::Always, |(_, number, _)| *number);
    (all.total() > 0).then(|| table.done())
}

fn facts(record: &RunRecord, verdict: &Verdict) -> Table {
    let target = &record.target;
    let size = record.workload.mean_size().map(|size| format!("mean body {}", bytes(size.round() as u64)));
    let hash = record.workload_sha256.get(..16).unwrap_or(&record.workload_sha256);
    let unmet: Vec<&str> = verdict.unmet_rules.iter().map(|rule| rule.text.as_str()).collect();
    let mut facts: Vec<(&str, String)> = vec![
        ("target", header::joined([target.url.clone(), target.server.clone().unwrap_or_default()], DOT)),
        (
            "workload",
            header::joined(
                [
                    record.workload.name.clone(),
                    counted(record.workload.pages.len() as u64, "page", "pages"),
                    size.unwrap_or_default(),
                    format!("sha256 {hash}"),
                ],
                DOT,
            ),
        ),
        ("load", header::joined(header::load(record), DOT)),
        ("clients", header::joined(header::policy(record), DOT)),
        (
            if record.generators.is_empty() { "host" } else { "controller" },
            header::joined(header::host(record), DOT),
        ),
        ("server's host", header::joined(header::server_host(record), DOT)),
        ("tool", format!("{} {}{DOT}{}", record.tool.name, record.tool.version, record.started_at)),
        ("rules not met", unmet.join("; ")),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    let mut table = Table::with_rows(&facts);
    table.text("run", Room::Always, |(name, _)| *name);
    table.text(record.id.as_str(), Room::Always, |(_, text)| text).done()
}

#[cfg(test)]
mod tests {
    use webstone_judge::verdict::NoiseBound;
    use webstone_model::record::ServerUse;

    use super::*;
    use crate::document::table::Line;

    #[test]
    fn bounds_stand_on_the_right_of_their_figures() {
        let mut record = webstone_model::fixture::record("r", &[(10, &[1_000.0]), (20, &[2_000.0])]);
        for run in &mut record.iterations {
            run.server = Some(ServerUse { user_ns: 1_000_000_000, ..ServerUse::default() });
        }
        let mut levels = summary::levels(&record);
        levels[0].standing = Standing::Noisy;
        levels[0].noise = Some(NoiseBound {
            held_up_percent: 20.0,
            factor: Some(1.25),
            cpu_factor: Some(2.0),
            at_best: None,
            undisturbed: None,
        });
        let table = level_table(&levels);
        let place =
            |name: &str| table.columns.iter().position(|column| column.name.starts_with(name)).unwrap();
        assert_eq!(place("up to"), place("requests/s") + 1);
        assert_eq!(place("at least"), place("server CPU per 1,000 requests") + 1);
        let shown: Vec<Vec<String>> = (table.lines.iter())
            .filter_map(|line| match line {
                Line::Row(row) => Some(row.cells.iter().map(|cell| cell.shown().trim().to_owned()).collect()),
                _ => None,
            })
            .collect();
        assert_eq!([&shown[0][place("up to")], &shown[1][place("up to")]], ["1,250", "–"]);
        let number = |cell: &str| cell.parse::<f64>().unwrap();
        let cost = number(&shown[0][place("at least") - 1]);
        assert!((number(&shown[0][place("at least")]) / cost - 0.5).abs() < 0.01, "{shown:?}");
        assert_eq!(shown[0][place("verdict")], "NOISY");
    }
}
