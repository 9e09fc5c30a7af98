//! A series as one table of comma-separated values: a row a cell and level, with what is known of its cell.

use webstone_judge::series::{CellSummary, LevelSummary, Summary};
use webstone_judge::statistics::{Interval, Method};
use webstone_measure::shown::shown;
use webstone_model::series::Caching;

use super::{Report, notes};

const COLUMNS: [&str; 53] = [
    "cell",
    "server",
    "profile",
    "interface",
    "connections",
    "server_cpus",
    "workload",
    "record",
    "standing",
    "iterations",
    "clients",
    "rate",
    "is_peak",
    "is_useful_peak",
    "request_rate",
    "request_rate_low",
    "request_rate_high",
    "connection_rate",
    "error_level_percent",
    "latency_mean_s",
    "latency_mean_low_s",
    "latency_mean_high_s",
    "latency_p99_s",
    "throughput_bps",
    "jain_pages",
    "latency_spread",
    "server_cpu_per_request_s",
    "rank_best",
    "rank_worst",
    "more_percent",
    "more_low_percent",
    "more_high_percent",
    "scaling_efficiency_percent",
    "scaling_efficiency_low_percent",
    "scaling_efficiency_high_percent",
    "spice_efficiency_percent",
    "spice_efficiency_low_percent",
    "spice_efficiency_high_percent",
    "spice_efficiency_told_percent",
    "spice_efficiency_told_low_percent",
    "spice_efficiency_told_high_percent",
    "caching",
    "origin_requests_per_request",
    "origin_hit_percent",
    "origin_saved_percent",
    "origin_cpu_percent",
    "not_told_from",
    "notes",
    "build",
    "handshakes",
    "tls_connections_percent",
    "full_handshakes_percent",
    "handshake_mean_s",
];

pub(super) fn render(report: &Report<'_>) -> Result<Vec<u8>, csv::Error> {
    let summary = report.summary;
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for (place, cell) in summary.cells.iter().enumerate() {
        for (number, level) in cell.levels.iter().enumerate() {
            let mut row = of_cell(cell);
            row.extend(of_level(cell, number, level));
            row.extend(of_peak(summary, place, cell.peak == Some(number)));
            row.extend(of_origin(cell, level));
            row.push(notes::not_told_from(summary, place));
            row.push(notes::of_cell(report, place));
            row.push(text(cell.at.build));
            row.push(text(cell.at.handshakes));
            let tls = level.tls.as_ref();
            row.push(text(tls.and_then(|tls| tls.connections_percent)));
            row.push(text(tls.map(|tls| tls.full_percent)));
            row.push(text(tls.map(|tls| tls.handshake_mean_s)));
            writer.write_record(row.iter().map(|cell| shown(cell).into_owned()))?;
        }
        // A cell that nothing was measured of has its row too: with its name, and why.
        if cell.levels.is_empty() {
            let mut row = of_cell(cell);
            row.resize(COLUMNS.len() - 6, String::new());
            row.push(notes::of_cell(report, place));
            row.push(text(cell.at.build));
            row.push(text(cell.at.handshakes));
            row.resize(COLUMNS.len(), String::new());
            writer.write_record(row.iter().map(|cell| shown(cell).into_owned()))?;
        }
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn ends(interval: Option<Interval>) -> [String; 2] {
    [text(interval.map(|it| it.low)), text(interval.map(|it| it.high))]
}

fn of_cell(cell: &CellSummary) -> Vec<String> {
    let at = &cell.at;
    let connections = serde_json::to_value(at.connections).unwrap_or_default();
    vec![
        cell.name.clone(),
        at.server.software.name().to_owned(),
        at.server.profile.name().to_owned(),
        at.interface.map_or_else(String::new, |interface| interface.to_string()),
        connections.as_str().unwrap_or_default().to_owned(),
        text(at.cpus),
        cell.workload.clone(),
        cell.record.clone().unwrap_or_default(),
        text(cell.standing.map(|standing| standing.word())),
        cell.iterations.to_string(),
    ]
}

fn of_level(cell: &CellSummary, number: usize, level: &LevelSummary) -> Vec<String> {
    let [rate_low, rate_high] = ends(level.request_rate_interval);
    let [latency_low, latency_high] = ends(level.latency_mean_interval);
    vec![
        level.clients.to_string(),
        text(level.rate),
        (cell.peak == Some(number)).to_string(),
        (cell.useful_peak == Some(number)).to_string(),
        level.request_rate.to_string(),
        rate_low,
        rate_high,
        level.connection_rate.to_string(),
        level.error_level_percent.to_string(),
        level.latency_mean_s.to_string(),
        latency_low,
        latency_high,
        text(level.latency_p99_s),
        level.throughput_bps.to_string(),
        text(level.jain_pages),
        text(level.latency_spread),
        text(level.server_cpu_per_request_s),
    ]
}

/// Of a proxy, whether it caches, and what it asked of the server behind it.
fn of_origin(cell: &CellSummary, level: &LevelSummary) -> Vec<String> {
    let asked = level.origin.and_then(|origin| origin.asked);
    vec![
        text(cell.at.caching.map(Caching::name)),
        text(asked.and_then(|asked| asked.origin_requests_per_request)),
        text(asked.and_then(|asked| asked.hit_percent)),
        text(asked.and_then(|asked| asked.saved_percent)),
        text(level.origin.and_then(|origin| origin.server).map(|server| server.cpu_percent)),
    ]
}

/// What is known of the cell's peak, in its row.
fn of_peak(summary: &Summary, place: usize, is_peak: bool) -> Vec<String> {
    let of_cell = is_peak.then_some(place);
    let ranked =
        summary.ranks.iter().flat_map(|ranks| &ranks.ranked).find(|ranked| Some(ranked.cell) == of_cell);
    let scaled =
        summary.scaling.iter().flat_map(|scaling| &scaling.rows).find(|row| Some(row.cell) == of_cell);
    let spiced = summary.spice.iter().flat_map(|spice| &spice.rows).find(|row| Some(row.cell) == of_cell);
    let rank = ranked.and_then(|ranked| ranked.rank);
    let mut columns = vec![text(rank.map(|rank| rank.best)), text(rank.map(|rank| rank.worst))];
    let intervals = [
        scaled.and_then(|row| row.more_percent),
        scaled.and_then(|row| row.efficiency_percent),
        spiced.and_then(|row| row.efficiency_percent),
        spiced.and_then(|row| row.efficiency_told_percent),
    ];
    for interval in intervals {
        let within = interval.filter(|interval| interval.method != Method::None);
        let [low, high] = ends(within);
        columns.extend([text(interval.map(|interval| interval.point)), low, high]);
    }
    columns
}
