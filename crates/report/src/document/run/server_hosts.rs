//! The hosts of a server that has several: what it used on each at the level with the highest rate, and what each counted.

use webstone_judge::verdict::SERVER_CPU_PERCENT_MAX;
use webstone_model::record::RunRecord;

use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, bytes, counted};
use crate::screen::{Screen, Tone};
use crate::server_hosts;
use crate::summary::{self, Level};

const SECTION: &str = "The server";
/// Hosts that are missing somewhere, told below the table.
const NOTES_MAX: usize = 4;

pub(crate) fn sheet(screen: &Screen, record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let agents = &record.target.agents;
    if agents.len() < 2 {
        return None;
    }
    let level = &levels[summary::peak(levels).unwrap_or(0)];
    let rows = server_hosts::rows(record, &level.runs);
    let costs = rows.iter().filter_map(|row| row.server).map(|server| server.cpu_per_1000_requests_s);
    let cost = Scale::seconds(screen, costs);
    let has_links = rows.iter().any(|row| row.link_percent_max.is_some());
    let mut table = Table::default();
    table.number("#", "", Room::Always);
    table.text("host", Room::Distinct(6));
    table.text("CPUs", Room::Optional(2));
    table.number("server", "% of a CPU", Room::Always).defined(SECTION, "cpu_percent");
    table.number("1,000 requests", &format!("CPU {}", cost.unit), Room::Always);
    table.defined(SECTION, "cpu_per_1000_requests_s");
    table.number("memory", "max", Room::Optional(7)).defined(SECTION, "resident_bytes_max");
    table.number("processes", "max", Room::Optional(3)).defined(SECTION, "processes_max");
    table.number("all CPUs", "busy, %", Room::Optional(6)).defined("The host", "cpus");
    if has_links {
        table.number("link", "max, %", Room::Optional(5)).defined("The host", "interfaces");
    }
    table.number("overflows", "of a listener", Room::Optional(4)).defined("The host", "listen_overflows");
    for row in &rows {
        let agent = &agents[row.agent as usize];
        let dash = || screen.dash().to_owned();
        let cpus: Vec<String> = agent.cpus.iter().map(u32::to_string).collect();
        let server = row.server;
        let processes = server.and_then(|server| server.processes);
        let mut cells = vec![
            (row.agent + 1).to_string(),
            screen.safe(if agent.name.is_empty() { screen.dash() } else { &agent.name }),
            if cpus.is_empty() { dash() } else { cpus.join(",") },
            server.map_or_else(dash, |server| format!("{:.0}", server.cpu_percent)),
            server.map_or_else(dash, |server| cost.show(server.cpu_per_1000_requests_s)),
            server.map_or_else(dash, |server| bytes(server.resident_bytes_max)),
            processes.map_or_else(dash, |processes| processes.processes_max.to_string()),
            row.busy_percent.map_or_else(dash, |busy| format!("{busy:.0}")),
        ];
        if has_links {
            cells.push(row.link_percent_max.map_or_else(dash, |percent| format!("{percent:.0}")));
        }
        cells.push(row.host.tcp.map_or_else(dash, |tcp| tcp.listen_overflows.to_string()));
        let used =
            server.map_or(0.0, |server| summary::quotient(server.cpu_percent, agent.cpus.len() as f64));
        let tone = if used >= SERVER_CPU_PERCENT_MAX { Tone::Caution } else { Tone::Plain };
        table.row_in(cells, tone, false);
    }
    let who = match server_hosts::machines(record) {
        Some(machines) if machines < agents.len() => {
            let machines = counted(machines as u64, "host", "hosts");
            format!("{} on {machines}", counted(agents.len() as u64, "agent", "agents"))
        }
        _ => counted(agents.len() as u64, "host", "hosts"),
    };
    let explanation = format!("{who} of the server, at {}", level.load());
    let mut sheet = Sheet::new("Server hosts", explanation, table);
    let missing: Vec<String> = record
        .iterations
        .iter()
        .filter_map(|run| Some(format!("{}: {}", run.key(), run.server_missing.as_ref()?)))
        .collect();
    let more = missing.len().saturating_sub(NOTES_MAX);
    let told = missing.into_iter().take(NOTES_MAX).map(|text| (Tone::Caution, screen.safe(&text)));
    sheet.notes.extend(told);
    sheet.notes.extend((more > 0).then(|| (Tone::Faint, format!("and {more} more of this kind"))));
    Some(sheet)
}
