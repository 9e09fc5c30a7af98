//! A calibration as a table: what this host's load generator can do, mode by mode.

use crate::document::cell::Cell;
use webstone_judge::calibration::{Calibration, CalibrationRow, Ceiling, is_disturbing};
use webstone_model::record::Disturbance;

use crate::Options;
use crate::asctime::date_time;
use crate::document::table::{Room, Sheet, Table};
use crate::document::{Document, Tone};
use crate::numbers::{count, seconds};
use crate::render::text;

/// The table, ending in a newline.
pub fn render_calibration(calibration: &Calibration, options: &Options) -> String {
    let mut doc = Document::default();
    doc.sheets([sheet(calibration)]);
    text::render(&doc, options)
}

fn sheet(calibration: &Calibration) -> Sheet {
    let rows = &calibration.rows;
    let whole = |percent: f64| Cell::Decimal(percent, 0);
    let mut table = Table::with_rows(rows);
    table.text("mode", Room::Always, |row| {
        let at_least = if row.ceiling == Ceiling::Elsewhere { "*" } else { "" };
        format!("{}{at_least}{}", row.mode.name(), if row.is_disturbed() { "!" } else { "" })
    });
    table.number("workers", "", Room::Always, |row| row.workers);
    table.number("connects", "/s", Room::Optional(3), |row| row.connections_per_s.round() as u64);
    table.number("requests", "/s", Room::Always, |row| row.requests_per_s.round() as u64);
    table.number("95%", "±%", Room::Optional(2), |row| {
        row.requests_reach_percent.map(|reach| Cell::Decimal(reach, 1))
    });
    table.number("throughput", "Gbit/s", Room::Always, |row| Cell::Decimal(row.throughput_bps / 1e9, 2));
    table.number("CPU", "/request", Room::Always, |row| seconds(row.cpu_per_request_s));
    table.number("worker", "% CPU", Room::Always, |row| whole(row.worker_percent));
    table.number("null server", "% CPU", Room::Always, |row| row.server_percent.map(whole));
    let mut sheet = Sheet::new(
        "Calibration",
        "what this host's load generator can do, against the null server",
        table.done(),
    );
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
    if let Some(seen) = calibration.disturbance.filter(|seen| is_disturbing(*seen)) {
        note(Tone::Caution, disturbance_line(seen));
    }
    if rows.iter().any(CalibrationRow::is_disturbed) {
        let text = "! something else had the CPU of a worker for more than 5 % of the time: the generator alone can do more";
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
    sheet
}

/// CPU time that other programs took before a calibration, and what that means.
pub fn disturbance_line(seen: Disturbance) -> String {
    format!(
        "others took {:.1} % of the generator's CPUs before anything was measured: it can do more than these figures say; stop \
         other programs and calibrate again",
        seen.taken_percent()
    )
}

/// One row as a line, printed when it has been measured.
pub fn calibration_line(row: &CalibrationRow) -> String {
    let kept_off = row.kept_off_percent.filter(|_| row.is_disturbed()).map_or_else(String::new, |percent| {
        format!("; something else had it for {percent:.0} % of the time")
    });
    let bound = if row.ceiling == Ceiling::Elsewhere { "at least " } else { "" };
    let workers = if row.workers == 1 { "worker" } else { "workers" };
    format!(
        "{}, {} {workers}: {bound}{} requests/s, {:.2} Gbit/s, worker at {:.0} % of its CPU{kept_off}",
        row.mode.name(),
        row.workers,
        count(row.requests_per_s.round() as u64),
        row.throughput_bps / 1e9,
        row.worker_percent
    )
}

#[cfg(test)]
mod tests {
    use webstone_judge::calibration::{HostIdentity, Mode};
    use webstone_model::record::Tool;

    use super::*;

    fn calibration(taken_ns: u64, kept_off_percent: Option<f64>) -> Calibration {
        let row = CalibrationRow {
            mode: Mode::KeepAlive,
            backend: "epoll".to_owned(),
            workers: 1,
            clients: 64,
            body_bytes: 500,
            iterations: 3,
            requests_per_s: 50_000.0,
            requests_reach_percent: None,
            connections_per_s: 0.0,
            throughput_bps: 1e9,
            response_bytes: 600.0,
            cpu_per_request_s: 1e-5,
            worker_percent: 60.0,
            kept_off_percent,
            server_percent: None,
            ceiling: Ceiling::Elsewhere,
        };
        let disturbance = Disturbance { looked_ns: 300_000_000, taken_ns, longest_ns: taken_ns };
        Calibration {
            made_at: "2026-11-21T17:00:00Z".to_owned(),
            tool: Tool::default(),
            host: HostIdentity::default(),
            shared_cpus: false,
            disturbance: Some(disturbance),
            rows: vec![row],
        }
    }

    fn said(calibration: &Calibration) -> String {
        let text = render_calibration(calibration, &Options::default());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_disturbed_calibration_says_so() {
        let quiet = calibration(1_000_000, Some(3.0));
        assert!(!quiet.is_disturbed());
        assert!(
            said(&quiet).contains("keep-alive* ") && !said(&quiet).contains("can do more"),
            "{}",
            said(&quiet)
        );
        assert!(calibration_line(&quiet.rows[0]).ends_with("worker at 60 % of its CPU"));

        let before = calibration(150_000_000, None);
        assert!(before.is_disturbed());
        assert!(
            said(&before).contains("others took 50.0 % of the generator's CPUs before anything was measured")
        );

        let meanwhile = calibration(0, Some(38.0));
        assert!(meanwhile.is_disturbed());
        assert!(
            said(&meanwhile).contains("keep-alive*! ")
                && said(&meanwhile).contains("the generator alone can do more")
        );
        assert!(
            calibration_line(&meanwhile.rows[0]).ends_with("; something else had it for 38 % of the time")
        );
    }
}
