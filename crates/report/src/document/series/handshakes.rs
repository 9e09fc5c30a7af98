//! What TLS costs: each cell over TLS beside the same one without TLS, and resumed handshakes beside full ones.

use webstone_judge::series::{CellSummary, LevelSummary};
use webstone_model::series::{Coordinates, Handshakes};
use webstone_workload::tls::Share;

use super::Report;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{decimal, seconds, signed};
use crate::screen::{Screen, Tone};

/// The table; `None` where handshakes do not vary.
pub(super) fn sheet(screen: &Screen, report: &Report<'_>) -> Option<Sheet> {
    let mut table = Table::default();
    table.text("cell", Room::Distinct(14)).number("requests", "1/s", Room::Always);
    table.number("over", "no TLS", Room::Always).number("over", "full", Room::Always);
    table.number("of connections", "over TLS", Room::Optional(2)).number(
        "handshakes",
        "full",
        Room::Optional(1),
    );
    table.number("handshake", "mean", Room::Optional(3)).number("CPU/request", "server", Room::Optional(2));
    let dash = || screen.dash().to_owned();
    let percent = |value: Option<f64>| value.map_or_else(dash, |value| format!("{}%", decimal(value, 1)));
    let time = |value: Option<f64>| value.map_or_else(dash, |value| seconds(screen, value));
    let mut any = false;
    for cell in report.summary.cells.iter().filter(|cell| cell.at.handshakes.is_some()) {
        let Some(level) = cell.peak_level() else { continue };
        any = true;
        let tls = level.tls.as_ref();
        let over = |than: Handshakes| {
            let gain = gain_percent(report, cell, level, than);
            gain.map_or_else(dash, |gain| format!("{}%", signed(gain, 1)))
        };
        let row = vec![
            cell.name.clone(),
            decimal(level.request_rate, usize::from(level.request_rate < 100.0)),
            over(Handshakes::Off),
            over(Handshakes::Resumed(Share::NONE)),
            percent(tls.and_then(|tls| tls.connections_percent)),
            percent(tls.map(|tls| tls.full_percent)),
            time(tls.map(|tls| tls.handshake_mean_s)),
            time(level.server_cpu_per_request_s),
        ];
        table.row_in(row, if cell.counts() { Tone::Plain } else { Tone::Caution }, false);
    }
    let explanation = "each cell at its peak, beside the same one without TLS and with full handshakes";
    any.then(|| Sheet::new("Handshakes", explanation.to_owned(), table))
}

/// How much higher a cell's peak is than that of the same one with other handshakes, in percent; `None` of that one itself, and
/// where one of both has no figures that count.
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
