//! The hosts that made the load together: what each had of it at the level with the highest rate, and how it measured.

use std::collections::BTreeSet;

use webstone_judge::verdict::WORKER_CPU_PERCENT_MAX;
use webstone_model::record::RunRecord;

use crate::generators::{self, HostRow, name};
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, counted};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

/// Sentences below the table.
const NOTES_MAX: usize = 8;
const SECTION: &str = "Load generators";

pub(crate) fn sheet(screen: &Screen, record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    if record.generators.is_empty() {
        return None;
    }
    let level = &levels[summary::peak(levels).unwrap_or(0)];
    let rows = generators::rows(record, &level.runs);
    let differing = generators::differing(record);
    let times = Scale::seconds(screen, rows.iter().flat_map(|row| [row.p50_s, row.p99_s]));
    let skews = rows.iter().map(|row| row.opening_skew_ns.unsigned_abs() as f64 / 1e9);
    let skew = Scale::seconds(screen, skews.chain(rows.iter().map(|row| row.clock.bound_ns as f64 / 1e9)));
    let rates = Scale::up_to("/s", 1.0, 1, rows.iter().map(|row| row.request_rate));
    let has_links = rows.iter().any(|row| row.link_percent_max.is_some());

    let mut table = Table::default();
    table.number("#", "", Room::Always);
    table.text("host", Room::Distinct(6));
    table.text("CPUs", Room::Optional(2));
    table.number("workers", "", Room::Optional(3));
    table.number("clients", "", Room::Always).defined(SECTION, "clients");
    table.number("requests", "/s", Room::Always).defined(SECTION, "counts");
    table.number("errors", "%", Room::Optional(6)).defined(SECTION, "counts");
    table.number("p50", times.unit, Room::Always).defined(SECTION, "response_p50_ns");
    table.number("p99", times.unit, Room::Always).defined(SECTION, "response_p99_ns");
    table.number("worker", "max, %", Room::Optional(7)).defined("The verdict", "generator-saturated");
    if has_links {
        table.number("link", "max, %", Room::Optional(5)).defined(SECTION, "host");
    }
    table.number("skew", skew.unit, Room::Optional(4));
    table.defined(SECTION, "opening_skew_ns");
    table.number("clock", skew.unit, Room::Optional(4)).defined(SECTION, "clock.bound_ns");
    table.explained(
        "skew: by how much a window opened after the agreed instant; clock: within which that is known",
    );
    table.number("ahead", "s", Room::Optional(1)).defined(SECTION, "clock.offset_ns");
    for row in &rows {
        let host = &record.generators[row.generator as usize];
        let cpus: Vec<String> = host.cpus.iter().map(u32::to_string).collect();
        let mut cells = vec![
            (row.generator + 1).to_string(),
            screen.safe(&name(host, row.generator)),
            if cpus.is_empty() { screen.dash().to_owned() } else { cpus.join(",") },
            host.workers.to_string(),
            row.clients.to_string(),
            rates.show(row.request_rate),
            format!("{:.2}", row.errors_percent),
            times.show(row.p50_s),
            times.show(row.p99_s),
            format!("{:.0}", row.worker_percent_max),
        ];
        if has_links {
            let link = row.link_percent_max.map(|percent| format!("{percent:.0}"));
            cells.push(link.unwrap_or_else(|| screen.dash().to_owned()));
        }
        cells.push(late(&skew, row));
        cells.push(skew.show(row.clock.bound_ns as f64 / 1e9));
        cells.push(format!("{:.3}", row.clock.offset_ns as f64 / 1e9));
        let differs = differing.iter().any(|found| found.generator == row.generator);
        let tone = match row.worker_percent_max >= WORKER_CPU_PERCENT_MAX {
            true => Tone::Alarm,
            false if differs => Tone::Caution,
            false => Tone::Plain,
        };
        table.row_in(cells, tone, false);
    }
    let boots: Option<BTreeSet<&str>> = record.generators.iter().map(|host| host.boot.as_deref()).collect();
    let generators = record.generators.len();
    let who = match boots.map(|boots| boots.len()) {
        // Agents with CPUs of their own, or pods, on one machine.
        Some(machines) if machines < generators => {
            let machines = counted(machines as u64, "host", "hosts");
            format!("{} on {machines}", counted(generators as u64, "agent", "agents"))
        }
        _ => counted(generators as u64, "host", "hosts"),
    };
    let explanation = format!("{who} that made the load together, at {}", level.load());
    let mut sheet = Sheet::new(SECTION, explanation, table);
    let told: Vec<String> =
        generators::failed(record).into_iter().chain(generators::told(record, &differing)).collect();
    let more = told.len().saturating_sub(NOTES_MAX);
    sheet.notes.extend(
        told.into_iter()
            .take(NOTES_MAX)
            .map(|text| (Tone::Caution, screen.safe(&text)))
            .chain((more > 0).then(|| (Tone::Faint, format!("and {more} more of this kind")))),
    );
    Some(sheet)
}

fn late(scale: &Scale, row: &HostRow) -> String {
    let shown = scale.show(row.opening_skew_ns.unsigned_abs() as f64 / 1e9);
    if row.opening_skew_ns < 0 { format!("-{}", shown.trim()) } else { shown }
}
