//! Versions of HTTP, and paths, side by side: rates and latencies with what making a connection takes, and what goes over the network.

use webstone_judge::series::{CellSummary, LevelSummary};
use webstone_model::series::Coordinates;

use super::Report;
use super::sheets::at;
use crate::document::Tone;
use crate::document::cell::Cell;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{decimal, seconds};

type Row<'a> = (&'a CellSummary, &'a LevelSummary);

/// The table; `None` where neither varies.
pub(super) fn sheet(report: &Report<'_>) -> Option<Sheet> {
    let cells = report.summary.cells.iter().filter(|cell| cell.at.http.is_some() || cell.at.path.is_some());
    let rows: Vec<Row<'_>> = cells.filter_map(|cell| Some((cell, cell.peak_level()?))).collect();
    rows.first()?;
    let is_known = |of: fn(&LevelSummary) -> Option<f64>| rows.iter().any(|(_, level)| of(level).is_some());
    let whole = |value: f64| Cell::Decimal(value, 0);
    let handshake = |level: &LevelSummary| Some(level.tls.as_ref()?.handshake_mean_s);
    let mut table = Table::with_rows(&rows);
    match rows[0].0.at.http {
        Some(_) => table.text("HTTP", Room::Always, |(cell, _)| {
            cell.at.http.map(|http| http.name().replace("HTTP/", ""))
        }),
        None => table.text("path", Room::Always, |(cell, _)| cell.at.path.map(|path| path.to_string())),
    };
    table.number("requests", "1/s", Room::Always, |(_, level)| {
        Cell::Decimal(level.request_rate, usize::from(level.request_rate < 100.0))
    });
    table.number("latency", "mean", Room::Always, |(_, level)| seconds(level.latency_mean_s));
    table.number("latency", "p99", Room::Optional(4), |(_, level)| level.latency_p99_s.map(seconds));
    // Only new connections have a connect time.
    if is_known(|level| level.network.connect_mean_s) {
        table.number("connect", "mean", Room::Optional(5), |(_, level)| {
            level.network.connect_mean_s.map(seconds)
        });
    }
    if is_known(handshake) {
        table.number("handshake", "mean", Room::Optional(6), |(_, level)| handshake(level).map(seconds));
    }
    table.number("server", "CPU/request", Room::Optional(7), |(_, level)| {
        level.server_cpu_per_request_s.map(seconds)
    });
    table.number("both ways", "bytes/request", Room::Optional(3), |(_, level)| {
        level.network.bytes_per_request.map(whole)
    });
    let is_over_path = is_known(|level| level.network.path_lost_percent);
    if is_over_path {
        table.number("to clients", "bytes/response", Room::Optional(8), |(_, level)| {
            level.network.path_received_bytes_per_request.map(whole)
        });
        table.number("lost", "packets", Room::Optional(1), |(_, level)| {
            level.network.path_lost_percent.map(|lost| format!("{}%", decimal(lost, 2)))
        });
    }
    table.number("clients", "", Room::Optional(2), |(_, level)| at(level));
    table.tones(|(cell, _)| if cell.counts() { Tone::Plain } else { Tone::Caution });
    table.groups(|row| heading(row).filter(|title| first_of(&rows, title) == Some(row.0)));
    let explanation = "each cell at its peak; connect is TCP's alone, or QUIC's with its handshake";
    let mut sheet = Sheet::new("Network", explanation, table.done());
    if is_over_path {
        sheet.note(
            Tone::Faint,
            "Paths are those of a relay of webstone's on this host. It takes CPU time, and the kernel handles arriving packets in it, so that a \
             server's CPU time per request compares within a path only. A loopback has larger packets, and fewer headers.",
        );
    }
    Some(sheet)
}

/// What the cells of a group have in common.
fn heading((cell, _): &Row<'_>) -> Option<String> {
    let at = Coordinates { http: None, path: cell.at.http.and(cell.at.path), ..cell.at.clone() };
    Some(at.to_string())
}

fn first_of<'a>(rows: &[Row<'a>], title: &str) -> Option<&'a CellSummary> {
    rows.iter().find(|row| heading(row).as_deref() == Some(title)).map(|row| row.0)
}
