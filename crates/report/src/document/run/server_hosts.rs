//! The hosts of a server that has several: what it used on each at the level with the highest rate, and what each counted.

use crate::document::cell::Cell;
use webstone_judge::verdict::SERVER_CPU_PERCENT_MAX;
use webstone_model::record::RunRecord;

use super::generators::pinned;
use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::generators::hosts_in_words;
use crate::numbers::{Scale, bytes};
use crate::server_hosts::{self, ServerHostRow};
use crate::summary::{self, Level};

const SECTION: &str = "The server";
/// Hosts that are missing from some timed runs, named below the table.
const NOTES_MAX: usize = 4;

pub(crate) fn sheet(record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let agents = &record.target.agents;
    if agents.len() < 2 {
        return None;
    }
    let level = &levels[summary::peak(levels).unwrap_or(0)];
    let rows = server_hosts::rows(record, &level.runs);
    let costs = rows.iter().filter_map(|row| row.server).map(|server| server.cpu_per_1000_requests_s);
    let cost = Scale::seconds(costs);
    let agent = |row: &ServerHostRow| &agents[row.agent as usize];
    let mut table = Table::with_rows(&rows);
    table.number("#", "", Room::Always, |row| row.agent + 1);
    table.text("host", Room::Distinct(6), |row| Some(&agent(row).name).filter(|name| !name.is_empty()));
    table.text("CPUs", Room::Optional(2), |row| pinned(&agent(row).cpus));
    table.number("server", "% of a CPU", Room::Always, |row| {
        row.server.map(|server| Cell::Decimal(server.cpu_percent, 0))
    });
    table.defined(SECTION, "cpu_percent");
    table.number("1,000 requests", format!("CPU {}", cost.unit), Room::Always, |row| {
        row.server.map(|server| cost.cell(server.cpu_per_1000_requests_s))
    });
    table.defined(SECTION, "cpu_per_1000_requests_s");
    table.number("memory", "max", Room::Optional(7), |row| row.server.map(|it| bytes(it.resident_bytes_max)));
    table.defined(SECTION, "resident_bytes_max");
    table.number("processes", "max", Room::Optional(3), |row| Some(row.server?.processes?.processes_max));
    table.defined(SECTION, "processes_max");
    let whole = |percent: Option<f64>| percent.map(|percent| Cell::Decimal(percent, 0));
    table.number("all CPUs", "busy, %", Room::Optional(6), |row| whole(row.busy_percent));
    table.defined("The host", "cpus");
    if rows.iter().any(|row| row.link_percent_max.is_some()) {
        table.number("link", "max, %", Room::Optional(5), |row| whole(row.link_percent_max));
        table.defined("The host", "interfaces");
    }
    table.number("overflows", "of a listener", Room::Optional(4), |row| {
        row.host.tcp.map(|it| it.listen_overflows)
    });
    table.defined("The host", "listen_overflows").tones(|row| {
        let (used, cpus) =
            (row.server.map_or(0.0, |server| server.cpu_percent), agent(row).cpus.len() as f64);
        if summary::quotient(used, cpus) >= SERVER_CPU_PERCENT_MAX { Tone::Caution } else { Tone::Plain }
    });
    let table = table.done();
    let who = hosts_in_words(agents.iter().map(|agent| agent.boot.as_deref()));
    let explanation = format!("{who} of the server, at {}", level.load());
    let mut sheet = Sheet::new("Server hosts", explanation, table);
    let missing: Vec<String> = record
        .iterations
        .iter()
        .filter_map(|run| Some(format!("{}: {}", run.key(), run.server_missing.as_ref()?)))
        .collect();
    sheet.cautions(NOTES_MAX, missing);
    Some(sheet)
}
