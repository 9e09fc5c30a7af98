//! A calibration as a table: what this host's load generator can do, mode by mode.

use webstone_judge::calibration::{Calibration, CalibrationRow, Ceiling, is_disturbing};
use webstone_model::record::Disturbance;

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
    table.number("workers", "", Room::Always);
    table.number("connects", "/s", Room::Optional(3));
    table.number("requests", "/s", Room::Always);
    table.number("95%", &format!("{}%", screen.plus_minus()), Room::Optional(2));
    table.number("throughput", "Gbit/s", Room::Always);
    table.number("CPU", "/request", Room::Always);
    table.number("worker", "% CPU", Room::Always);
    table.number("null server", "% CPU", Room::Always);
    for row in rows {
        let bound = match (row.ceiling, row.is_disturbed()) {
            (Ceiling::Elsewhere, true) => "*!",
            (Ceiling::Elsewhere, false) => "*",
            (Ceiling::Generator, true) => "!",
            (Ceiling::Generator, false) => "",
        };
        let percent = |value: Option<f64>| {
            value.map_or_else(|| screen.dash().to_owned(), |value| format!("{value:.0}"))
        };
        table.row(vec![
            format!("{}{bound}", row.mode.name()),
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
    let mut out = String::new();
    sheet.draw(&screen, &mut out);
    out
}

/// What others took of the generator's CPUs before a calibration, and what that means.
pub fn disturbance_line(seen: Disturbance) -> String {
    format!(
        "others took {:.1} % of the generator's CPUs before anything was measured: it can do more than these figures say; stop \
         other programs and calibrate again",
        seen.taken_percent()
    )
}

/// One row in a line, as it is measured.
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
