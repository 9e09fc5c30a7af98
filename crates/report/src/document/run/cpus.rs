//! What each CPU of this host, and of the server's if that is another, did at the level with the highest rate: how much of its time
//! was in programs, in the kernel and in interrupts. The kernel does not say which program it was.

use crate::document::cell::Cell;
use std::collections::BTreeMap;

use webstone_judge::verdict::DISTURBED_PERCENT_MAX;
use webstone_model::record::{CpuUse, HostUse, IterationRecord, RunRecord};

use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{DASH, percent, seconds};
use crate::summary::{self, Level};

/// Most CPUs in the table: the busiest.
const CPUS_MAX: usize = 16;

pub(crate) fn sheet(record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let level = &levels[summary::peak(levels).unwrap_or(0)];
    let is_alone = record.generators.is_empty();
    // A controller makes no load: its CPUs matter only if the server runs beside it.
    let has_server = record.environment.get("target.this_host").and_then(serde_json::Value::as_bool);
    if !is_alone && !record.target.embedded && has_server != Some(true) {
        return None;
    }
    let whose = if is_alone { "this host" } else { "the controller's host" };
    let (table, explanation) = table(level, whose, &of_generator, &|cpu| {
        let workers = level.runs.iter().filter(|_| is_alone).flat_map(|run| &run.measured.generator.workers);
        let worker = workers.into_iter().any(|worker| worker.cpu == Some(cpu));
        match (record.target.cpus.contains(&cpu), worker) {
            (true, true) => "server and generator",
            (true, false) => "server",
            (false, true) if record.stays_awake() => "generator, awake",
            (false, true) => "generator",
            (false, false) => DASH,
        }
    })?;
    // From this limit on, a caution says it.
    let seen =
        summary::disturbance(&record.iterations).filter(|seen| seen.taken_percent() < DISTURBED_PERCENT_MAX);
    let note = seen.map(|seen| {
        let (taken, longest) = (seen.taken_percent(), seconds(seen.longest_ns as f64 / 1e9));
        format!(
            "others took {} of the generator's CPUs before the levels, up to {longest} at once",
            percent(taken)
        )
    });
    let mut sheet = Sheet::new("CPUs", explanation, table);
    sheet.notes.extend(note.map(|text| (Tone::Faint, text)));
    Some(sheet)
}

/// The same of the server's host, where an agent read it; of several hosts, of the busiest one.
pub(crate) fn elsewhere(record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let level = &levels[summary::peak(levels).unwrap_or(0)];
    let busy = |agent: u32| {
        let hosts = level.runs.iter().filter_map(|run| of_server(run, agent));
        hosts.flat_map(|host| &host.cpus).map(|cpu| cpu.busy_ns).fold(0, u64::saturating_add)
    };
    let agents = record.target.agents.len() as u32;
    let place = (0..agents).rev().max_by_key(|agent| busy(*agent))?;
    let agent = &record.target.agents[place as usize];
    let whose = match agents {
        1 => record.server_host_named(place),
        _ => format!("{}, the busiest", record.server_host_named(place)),
    };
    let (table, explanation) = table(level, &whose, &|run| of_server(run, place), &|cpu| {
        if agent.cpus.contains(&cpu) { "server" } else { DASH }
    })?;
    Some(Sheet::new("CPUs there", explanation, table))
}

fn of_generator(run: &IterationRecord) -> Option<&HostUse> {
    run.host.as_ref()
}

fn of_server(run: &IterationRecord, agent: u32) -> Option<&HostUse> {
    Some(&run.server_hosts.iter().find(|there| there.agent == agent)?.host)
}

/// A level's CPUs, and what the table is about. `given_to` names who was to run on a CPU.
fn table(
    level: &Level<'_>,
    whose: &str,
    of: &dyn Fn(&IterationRecord) -> Option<&HostUse>,
    given_to: &dyn Fn(u32) -> &'static str,
) -> Option<(Table, String)> {
    let mut uses: BTreeMap<u32, CpuUse> = BTreeMap::new();
    for cpu in level.runs.iter().filter_map(|run| of(run)).flat_map(|host| &host.cpus) {
        let sum = uses.entry(cpu.cpu).or_default();
        sum.cpu = cpu.cpu;
        sum.busy_ns += cpu.busy_ns;
        sum.user_ns += cpu.user_ns;
        sum.system_ns += cpu.system_ns;
        sum.interrupt_ns += cpu.interrupt_ns;
        sum.idle_ns += cpu.idle_ns;
        sum.stolen_ns += cpu.stolen_ns;
    }
    // In a window of a few ticks, none may have been counted.
    if uses.values().all(|cpu| cpu.user_ns + cpu.system_ns + cpu.interrupt_ns == 0) {
        return None;
    }
    let all = uses.len();
    let mut busiest: Vec<CpuUse> = uses.into_values().collect();
    busiest.sort_by_key(|cpu| (std::cmp::Reverse(cpu.busy_ns), cpu.cpu));
    busiest.truncate(CPUS_MAX);
    busiest.sort_by_key(|cpu| cpu.cpu);
    let mut table = Table::with_rows(&busiest);
    table.number("CPU", "", Room::Always, |cpu| cpu.cpu.to_string());
    type Part = (&'static str, Room, fn(&CpuUse) -> u64);
    let parts: [Part; 5] = [
        ("user", Room::Always, |cpu| cpu.user_ns),
        ("system", Room::Always, |cpu| cpu.system_ns),
        ("interrupts", Room::Always, |cpu| cpu.interrupt_ns),
        ("idle", Room::Always, |cpu| cpu.idle_ns),
        ("stolen", Room::Optional(1), |cpu| cpu.stolen_ns),
    ];
    for (name, room, nanos) in parts {
        let percent = |cpu: &CpuUse| {
            let total = (cpu.busy_ns + cpu.idle_ns + cpu.stolen_ns) as f64;
            Cell::Decimal(summary::quotient(nanos(cpu) as f64 * 100.0, total), 0)
        };
        table.number(name, "%", room, percent).defined("The host", "cpus");
    }
    let table = table.text("given to", Room::Optional(2), |cpu| given_to(cpu.cpu)).done();
    let shown = if all > CPUS_MAX { format!(", the {CPUS_MAX} busiest of {all}") } else { String::new() };
    let at = level.load();
    Some((table, format!("of {whose} at {at}, all programs together{shown}")))
}
