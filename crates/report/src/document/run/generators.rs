//! The hosts that made the load together: the part of each at the level with the highest rate, and how it measured.

use crate::document::cell::Cell;
use webstone_judge::verdict::WORKER_CPU_PERCENT_MAX;
use webstone_model::record::RunRecord;

use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::generators::{self, HostRow, name};
use crate::numbers::{Scale, cpu_list};
use crate::summary::{self, Level};

/// Sentences below the table.
const NOTES_MAX: usize = 8;
const SECTION: &str = "Load generators";

pub(crate) fn sheet(record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    if record.generators.is_empty() {
        return None;
    }
    let level = &levels[summary::peak(levels).unwrap_or(0)];
    let rows = generators::rows(record, &level.runs);
    let differing = generators::differing(record);
    let times = Scale::seconds(rows.iter().flat_map(|row| [row.p50_s, row.p99_s]));
    let skews = rows.iter().map(|row| row.opening_skew_ns.unsigned_abs() as f64 / 1e9);
    let skew = Scale::seconds(skews.chain(rows.iter().map(|row| row.clock.bound_ns as f64 / 1e9)));
    let rates = Scale::up_to("/s", 1.0, 1, rows.iter().map(|row| row.request_rate));

    let host = |row: &HostRow| &record.generators[row.generator as usize];
    let mut table = Table::with_rows(&rows);
    table.number("#", "", Room::Always, |row| row.generator + 1);
    table.text("host", Room::Distinct(6), |row| name(host(row), row.generator));
    table.text("CPUs", Room::Optional(2), |row| pinned(&host(row).cpus));
    table.number("workers", "", Room::Optional(3), |row| host(row).workers);
    table.number("clients", "", Room::Always, |row| row.clients.to_string()).defined(SECTION, "clients");
    table
        .number("requests", "/s", Room::Always, |row| rates.cell(row.request_rate))
        .defined(SECTION, "counts");
    table.number("errors", "%", Room::Optional(6), |row| Cell::Decimal(row.errors_percent, 2));
    table.defined(SECTION, "counts");
    table
        .number("p50", times.unit, Room::Always, |row| times.cell(row.p50_s))
        .defined(SECTION, "response_p50_ns");
    table
        .number("p99", times.unit, Room::Always, |row| times.cell(row.p99_s))
        .defined(SECTION, "response_p99_ns");
    table.number("worker", "max, %", Room::Optional(7), |row| Cell::Decimal(row.worker_percent_max, 0));
    table.defined("The verdict", "generator-saturated");
    if rows.iter().any(|row| row.link_percent_max.is_some()) {
        let link = |row: &HostRow| row.link_percent_max.map(|percent| Cell::Decimal(percent, 0));
        table.number("link", "max, %", Room::Optional(5), link).defined(SECTION, "host");
    }
    table
        .number("skew", skew.unit, Room::Optional(4), |row| late(&skew, row))
        .defined(SECTION, "opening_skew_ns");
    table.number("clock", skew.unit, Room::Optional(4), |row| skew.cell(row.clock.bound_ns as f64 / 1e9));
    table.defined(SECTION, "clock.bound_ns").explained(
        "skew: by how much a window opened after the agreed instant; clock: within which that is known",
    );
    table.number("ahead", "s", Room::Optional(1), |row| Cell::Decimal(row.clock.offset_ns as f64 / 1e9, 3));
    table.defined(SECTION, "clock.offset_ns").tones(|row| {
        let differs = differing.iter().any(|found| found.generator == row.generator);
        match row.worker_percent_max >= WORKER_CPU_PERCENT_MAX {
            true => Tone::Alarm,
            false if differs => Tone::Caution,
            false => Tone::Plain,
        }
    });
    let table = table.done();
    let who = generators::hosts_in_words(record.generators.iter().map(|host| host.boot.as_deref()));
    let explanation = format!("{who} that made the load together, at {}", level.load());
    let mut sheet = Sheet::new(SECTION, explanation, table);
    let told: Vec<String> =
        generators::failed(record).into_iter().chain(generators::told(record, &differing)).collect();
    sheet.cautions(NOTES_MAX, told);
    Some(sheet)
}

/// CPUs that a host's workers are pinned to; empty if they may run anywhere.
pub(super) fn pinned(cpus: &[u32]) -> Option<String> {
    (!cpus.is_empty()).then(|| cpu_list(cpus))
}

fn late(scale: &Scale, row: &HostRow) -> String {
    let shown = scale.show(row.opening_skew_ns.unsigned_abs() as f64 / 1e9);
    if row.opening_skew_ns < 0 { format!("-{}", shown.trim()) } else { shown }
}
