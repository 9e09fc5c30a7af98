//! A series as one table of comma-separated values: a row per cell and level, with what is known of its cell.

use webstone_judge::series::{CellSummary, LevelSummary};
use webstone_judge::statistics::{Interval, Method};
use webstone_model::series::Caching;

use super::{Report, notes};
use crate::csv::Row;

pub(super) fn render(report: &Report<'_>) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(row(report, None).names())?;
    for (place, cell) in report.summary.cells.iter().enumerate() {
        for number in 0..cell.levels.len() {
            row(report, Some((place, Some(number)))).write(&mut writer)?;
        }
        // A cell without measurements has a row too, with its name and the reason.
        if cell.levels.is_empty() {
            row(report, Some((place, None))).write(&mut writer)?;
        }
    }
    writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
}

/// A cell, by its place, with one of its levels; `None` of both gives the names of columns.
fn row(report: &Report<'_>, at: Option<(usize, Option<usize>)>) -> Row {
    let summary = report.summary;
    let (place, number) = at.unzip();
    let number = number.flatten();
    let cell: Option<&CellSummary> = place.map(|place| &summary.cells[place]);
    let level: Option<&LevelSummary> = cell.zip(number).map(|(cell, number)| &cell.levels[number]);
    let coordinates = cell.map(|cell| &cell.at);
    let mut row = Row::default();
    row.named("cell", cell.map(|cell| &cell.name));
    row.named("server", coordinates.map(|at| at.server.software.name()));
    row.named("profile", coordinates.map(|at| at.server.profile.name()));
    row.named("interface", coordinates.and_then(|at| at.interface).map(|interface| interface.to_string()));
    let connections = coordinates.map(|at| serde_json::to_value(at.connections).unwrap_or_default());
    row.named("connections", connections.as_ref().and_then(serde_json::Value::as_str));
    row.named("server_cpus", coordinates.and_then(|at| at.cpus));
    row.named("workload", cell.map(|cell| &cell.workload));
    row.named("record", cell.and_then(|cell| cell.record.as_ref()));
    row.named("standing", cell.and_then(|cell| cell.standing).map(|standing| standing.word()));
    row.named("iterations", cell.map(|cell| cell.iterations));
    row.named("clients", level.map(|level| level.clients));
    row.named("rate", level.and_then(|level| level.rate).map(|rate| rate.to_string()));
    let is = |peak: fn(&CellSummary) -> Option<usize>| level.zip(cell).map(|(_, cell)| peak(cell) == number);
    row.named("is_peak", is(|cell| cell.peak));
    row.named("is_useful_peak", is(|cell| cell.useful_peak));
    row.named("request_rate", level.map(|level| level.request_rate));
    row.named("request_rate_is_least", level.map(|level| level.is_least));
    ends(&mut row, "request_rate", level.and_then(|level| level.request_rate_interval));
    row.named("connection_rate", level.map(|level| level.connection_rate));
    row.named("error_level_percent", level.map(|level| level.error_level_percent));
    row.named("latency_mean_s", level.map(|level| level.latency_mean_s));
    ends(&mut row, "latency_mean", level.and_then(|level| level.latency_mean_interval));
    row.named("latency_p99_s", level.and_then(|level| level.latency_p99_s));
    row.named("throughput_bps", level.map(|level| level.throughput_bps));
    row.named("jain_pages", level.and_then(|level| level.jain_pages));
    row.named("latency_spread", level.and_then(|level| level.latency_spread));
    row.named("server_cpu_per_request_s", level.and_then(|level| level.server_cpu_per_request_s));
    // These are of the cell's peak, so they are in the peak's row.
    let of_peak = place.filter(|_| cell.is_some_and(|cell| number.is_some() && cell.peak == number));
    let ranked = summary.ranks.iter().flat_map(|it| &it.ranked).find(|it| Some(it.cell) == of_peak);
    let scaled = summary.scaling.iter().flat_map(|it| &it.rows).find(|it| Some(it.cell) == of_peak);
    let spiced = summary.spice.iter().flat_map(|it| &it.rows).find(|it| Some(it.cell) == of_peak);
    let rank = ranked.and_then(|ranked| ranked.rank);
    row.named("rank_best", rank.map(|rank| rank.best));
    row.named("rank_worst", rank.map(|rank| rank.worst));
    for (name, interval) in [
        ("more", scaled.and_then(|row| row.more_percent)),
        ("scaling_efficiency", scaled.and_then(|row| row.efficiency_percent)),
        ("spice_efficiency", spiced.and_then(|row| row.efficiency_percent)),
        ("spice_efficiency_told", spiced.and_then(|row| row.efficiency_told_percent)),
    ] {
        let within = interval.filter(|interval| interval.method != Method::None);
        row.named(format!("{name}_percent"), interval.map(|interval| interval.point));
        row.named(format!("{name}_low_percent"), within.map(|interval| interval.low));
        row.named(format!("{name}_high_percent"), within.map(|interval| interval.high));
    }
    // Of a proxy, whether it caches, and what it asked of the server behind it.
    let origin = level.and_then(|level| level.origin);
    let asked = origin.and_then(|origin| origin.asked);
    row.named(
        "caching",
        coordinates.filter(|_| level.is_some()).and_then(|at| at.caching).map(Caching::name),
    );
    row.named("origin_requests_per_request", asked.and_then(|asked| asked.origin_requests_per_request));
    row.named("origin_hit_percent", asked.and_then(|asked| asked.hit_percent));
    row.named("origin_saved_percent", asked.and_then(|asked| asked.saved_percent));
    row.named("origin_cpu_percent", origin.and_then(|origin| origin.server).map(|server| server.cpu_percent));
    row.named("not_told_from", place.filter(|_| level.is_some()).map(|at| notes::not_told_from(summary, at)));
    row.named("notes", place.map(|place| notes::of_cell(report, place)));
    row.named("build", coordinates.and_then(|at| at.build).map(|build| build.to_string()));
    row.named(
        "handshakes",
        coordinates.and_then(|at| at.handshakes).map(|handshakes| handshakes.to_string()),
    );
    let tls = level.and_then(|level| level.tls.as_ref());
    row.named("tls_connections_percent", tls.map(|tls| tls.connections_percent));
    row.named("full_handshakes_percent", tls.map(|tls| tls.full_percent));
    row.named("handshake_mean_s", tls.map(|tls| tls.handshake_mean_s));
    row.named("path", coordinates.and_then(|at| at.path).map(|path| path.to_string()));
    row.named("http", coordinates.and_then(|at| at.http).map(|http| http.name()));
    row.named("connect_mean_s", level.and_then(|level| level.network.connect_mean_s));
    row.named("network_bytes_per_request", level.and_then(|level| level.network.bytes_per_request));
    row.named(
        "path_received_bytes_per_request",
        level.and_then(|level| level.network.path_received_bytes_per_request),
    );
    row.named("path_lost_percent", level.and_then(|level| level.network.path_lost_percent));
    row.named("level_standing", level.map(|level| level.standing.word()));
    row.named("noise_rate_factor", level.and_then(|level| level.noise_factor));
    row
}

fn ends(row: &mut Row, name: &str, interval: Option<Interval>) {
    let unit = if name == "latency_mean" { "_s" } else { "" };
    row.named(format!("{name}_low{unit}"), interval.map(|it| it.low));
    row.named(format!("{name}_high{unit}"), interval.map(|it| it.high));
}
