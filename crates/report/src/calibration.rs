//! A calibration as a table: what this host's load generator can do, mode by mode.

use webstone_model::calibration::{Calibration, CalibrationRow, Ceiling};

use crate::Options;
use crate::asctime::date_time;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};

/// The table, ending in a newline.
pub fn render_calibration(calibration: &Calibration, options: &Options) -> String {
    let screen = Screen::new(options);
    let rows = &calibration.rows;
    let mut table = Table::default();
    table.text("mode", Room::Always);
    table.text("back end", Room::Always);
    table.number("workers", "", Room::Always);
    table.number("connects", "/s", Room::Optional(3));
    table.number("requests", "/s", Room::Always);
    table.number("95%", &format!("{}%", screen.plus_minus()), Room::Optional(2));
    table.number("throughput", "Gbit/s", Room::Always);
    table.number("CPU", "/request", Room::Always);
    table.number("worker", "% CPU", Room::Always);
    table.number("null server", "% CPU", Room::Always);
    for row in rows {
        let bound = if row.ceiling == Ceiling::Elsewhere { "*" } else { "" };
        let percent = |value: Option<f64>| {
            value.map_or_else(|| screen.dash().to_owned(), |value| format!("{value:.0}"))
        };
        table.row(vec![
            format!("{}{bound}", row.mode.name()),
            row.backend.clone(),
            row.workers.to_string(),
            count(row.connections_per_s.round() as u64),
            count(row.requests_per_s.round() as u64),
            row.requests_reach_percent
                .map_or_else(|| screen.dash().to_owned(), |reach| format!("{reach:.1}")),
            format!("{:.2}", row.throughput_bps / 1e9),
            Scale::seconds(&screen, [row.cpu_per_request_s]).say(row.cpu_per_request_s),
            percent(Some(row.worker_percent)),
            percent(row.server_percent),
        ]);
    }
    let mut sheet =
        Sheet::new("Calibration", "what this host's load generator can do, against the null server", table);
    let host = &calibration.host;
    let mut note = |tone, text: String| sheet.notes.push((tone, text));
    if rows.iter().any(|row| row.ceiling == Ceiling::Elsewhere) {
        let text =
            "* at least: the generator was not at its limit, the null server or the kernel between them was";
        note(Tone::Faint, text.to_owned());
    }
    if calibration.shared_cpus {
        let text = "null server and workers had to share CPUs: these figures are of both together, and the generator \
                    alone can do more";
        note(Tone::Caution, text.to_owned());
    }
    note(
        Tone::Faint,
        format!(
            "{}, {}, CPUs {}, Linux {}; webstone {}; {}",
            host.hostname,
            host.cpu_model,
            host.cpus,
            host.kernel,
            calibration.tool.version,
            date_time(&calibration.made_at)
        ),
    );
    let mut out = String::new();
    sheet.draw(&screen, &mut out);
    out
}

/// One row in a line, as it is measured.
pub fn calibration_line(row: &CalibrationRow) -> String {
    let bound = if row.ceiling == Ceiling::Elsewhere { "at least " } else { "" };
    let workers = if row.workers == 1 { "worker" } else { "workers" };
    format!(
        "{}, {}, {} {workers}: {bound}{} requests/s, {:.2} Gbit/s, worker at {:.0} % of its CPU",
        row.mode.name(),
        row.backend,
        row.workers,
        count(row.requests_per_s.round() as u64),
        row.throughput_bps / 1e9,
        row.worker_percent
    )
}
