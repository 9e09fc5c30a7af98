//! What TLS costs: each cell over TLS beside the same one without TLS, and resumed handshakes beside full ones.

use std::collections::BTreeMap;

use crate::document::cell::Cell;
use webstone_judge::series::{CellSummary, LevelSummary, Ranks, Summary};
use webstone_measure::tls::TlsCipher;
use webstone_model::series::{Coordinates, Handshakes};
use webstone_workload::tls::Share;

use super::Report;
use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{decimal, seconds, signed};

/// The table; `None` where handshakes do not vary.
pub(super) fn sheet(report: &Report<'_>) -> Option<Sheet> {
    let cells = report.summary.cells.iter().filter(|cell| cell.at.handshakes.is_some());
    let rows: Vec<(&CellSummary, &LevelSummary)> =
        cells.filter_map(|cell| Some((cell, cell.peak_level()?))).collect();
    rows.first()?;
    let percent = |value: f64| format!("{}%", decimal(value, 1));
    let over = |(cell, level): &(&CellSummary, &LevelSummary), than: Handshakes| {
        gain_percent(report, cell, level, than).map(|gain| format!("{}%", signed(gain, 1)))
    };
    let mut table = Table::with_rows(&rows);
    table.text("cell", Room::Distinct(14), |(cell, _)| &cell.name);
    table.number("requests", "1/s", Room::Always, |(_, level)| {
        Cell::Decimal(level.request_rate, usize::from(level.request_rate < 100.0))
    });
    table.number("over", "no TLS", Room::Always, |row| over(row, Handshakes::Off));
    table.number("over", "full", Room::Always, |row| over(row, Handshakes::Resumed(Share::NONE)));
    table.number("of connections", "over TLS", Room::Optional(2), |(_, level)| {
        Some(percent(level.tls.as_ref()?.connections_percent))
    });
    table.number("handshakes", "full", Room::Optional(1), |(_, level)| {
        level.tls.as_ref().map(|tls| percent(tls.full_percent))
    });
    table.number("handshake", "mean", Room::Optional(3), |(_, level)| {
        level.tls.as_ref().map(|tls| seconds(tls.handshake_mean_s))
    });
    table.number("CPU/request", "server", Room::Optional(2), |(_, level)| {
        level.server_cpu_per_request_s.map(seconds)
    });
    table.tones(|(cell, _)| if cell.counts() { Tone::Plain } else { Tone::Caution });
    let explanation = "each cell at its peak, beside the same one without TLS and with full handshakes";
    Some(Sheet::new("Handshakes", explanation, table.done()))
}

/// That the servers of a ranking agreed with the clients on cipher suites that differ; `None` where they are the same.
pub(super) fn suites_differ(summary: &Summary, ranks: &Ranks) -> Option<String> {
    let mut by_suite: BTreeMap<&[TlsCipher], Vec<String>> = BTreeMap::new();
    for ranked in &ranks.ranked {
        let cell = &summary.cells[ranked.cell];
        let tls = cell.peak_level().and_then(|level| level.tls.as_ref());
        if let Some(tls) = tls.filter(|tls| !tls.suites.is_empty()) {
            by_suite.entry(&tls.suites).or_default().push(cell.at.server.name());
        }
    }
    let first = by_suite.keys().next()?.first()?;
    let agreed = |(suites, servers): (&&[TlsCipher], &Vec<String>)| {
        let suites: Vec<String> = suites.iter().map(ToString::to_string).collect();
        format!("{} with {}", suites.join(", "), servers.join(", "))
    };
    (by_suite.len() > 1).then(|| {
        format!(
            "Cipher suites differ, and their cost is part of the ranks: {}. `--tls-ciphers {first}` makes them the same.",
            by_suite.iter().map(agreed).collect::<Vec<_>>().join("; ")
        )
    })
}

/// How much higher a cell's peak is than that of the same cell with other handshakes, in percent; `None` for that other cell itself, and
/// if either has no valid figures.
fn gain_percent(
    report: &Report<'_>,
    cell: &CellSummary,
    level: &LevelSummary,
    than: Handshakes,
) -> Option<f64> {
    let at = Coordinates { handshakes: Some(than), ..cell.at.clone() };
    let other = report.summary.cells.iter().find(|it| it.at == at && cell.at != at)?;
    let base = other.peak_level().filter(|_| other.counts() && cell.counts())?.request_rate;
    (base > 0.0).then(|| 100.0 * (level.request_rate / base - 1.0))
}
