//! What the server's processes did in each level: CPU time by mode and by request, memory, context switches, page faults,
//! descriptors, disk. The figures are the model's.

use webstone_model::record::HostUse;
use webstone_model::server_figures::{ProcessFigures, ServerFigures};

use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

/// A column: its head, and the text of each level.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) unit: String,
    pub(super) room: Room,
    pub(super) cells: Vec<Option<String>>,
}

pub(crate) fn sheet(screen: &Screen, levels: &[Level<'_>]) -> Option<Sheet> {
    let servers: Vec<Option<ServerFigures>> = levels.iter().map(|level| level.server).collect();
    servers.iter().flatten().find(|server| server.processes.is_some())?;
    let mut columns = cpu(screen, &servers);
    columns.extend(processes(&servers));
    // What could be seen in no level has no column.
    columns.retain(|column| column.cells.iter().any(Option::is_some));
    let table = table(screen, levels, &columns);
    let explanation = "what its processes used, in the windows in which they could be looked at";
    let mut sheet = Sheet::new("Server", explanation, table);
    sheet.notes.extend(cost(screen, levels).map(|text| (Tone::Faint, text)));
    Some(sheet)
}

/// What looking took of the host that the server runs on, and how late an agent's readings may have been.
fn cost(screen: &Screen, levels: &[Level<'_>]) -> Option<String> {
    let runs = || levels.iter().flat_map(|level| &level.runs);
    let elsewhere = || runs().filter_map(|run| run.server_host.as_ref());
    let is_elsewhere = elsewhere().next().is_some();
    let hosts: Vec<&HostUse> = match is_elsewhere {
        true => elsewhere().map(|it| &it.host).collect(),
        false => runs().filter_map(|run| run.host.as_ref()).collect(),
    };
    let looks: u64 = hosts.iter().map(|host| host.probes).sum();
    let cost_ns: u64 = hosts.iter().map(|host| host.probe_cpu_ns).sum();
    if looks == 0 {
        return None;
    }
    let each = crate::numbers::seconds(screen, cost_ns as f64 / looks as f64 / 1e9);
    let all = crate::numbers::counted(looks, "look", "looks");
    let note = format!("looking cost {each} of CPU time a look, {all} in all");
    if !is_elsewhere {
        return Some(note);
    }
    let delays = elsewhere().flat_map(|it| [it.opening_delay_ns_max, it.close_delay_ns_max]);
    let late = crate::numbers::seconds(screen, delays.max().unwrap_or_default() as f64 / 1e9);
    Some(format!("{note}, on the server's host; a reading was taken at most {late} after it was asked for"))
}

/// A row a level, its load first; a dash where nothing is known.
pub(super) fn table(screen: &Screen, levels: &[Level<'_>], columns: &[Column]) -> Table {
    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    for column in columns {
        table.number(column.name, &column.unit, column.room);
    }
    for (place, level) in levels.iter().enumerate() {
        let cells = columns
            .iter()
            .map(|column| column.cells[place].clone().unwrap_or_else(|| screen.dash().to_owned()));
        table.row(std::iter::once(level.load_cell()).chain(cells).collect());
    }
    table
}

pub(super) fn cpu(screen: &Screen, servers: &[Option<ServerFigures>]) -> Vec<Column> {
    let value = |of: fn(&ServerFigures) -> f64| servers.iter().flatten().map(of);
    let cells =
        |show: &dyn Fn(&ServerFigures) -> String| servers.iter().map(|it| it.as_ref().map(show)).collect();
    let cost = Scale::seconds(screen, value(|it| it.cpu_per_1000_requests_s));
    let memory = Scale::bytes(value(|it| it.resident_bytes_max as f64));
    let column = |name, unit: &str, room, cells| Column { name, unit: unit.to_owned(), room, cells };
    vec![
        column("user", "% of a CPU", Room::Always, cells(&|it| format!("{:.0}", it.cpu_user_percent))),
        column("system", "% of a CPU", Room::Always, cells(&|it| format!("{:.0}", it.cpu_system_percent))),
        column(
            "1,000 requests",
            &format!("CPU {}", cost.unit),
            Room::Always,
            cells(&|it| cost.show(it.cpu_per_1000_requests_s)),
        ),
        column(
            "memory",
            &format!("max, {}", memory.unit),
            Room::Optional(8),
            cells(&|it| memory.show(it.resident_bytes_max as f64)),
        ),
    ]
}

fn processes(servers: &[Option<ServerFigures>]) -> Vec<Column> {
    let seen = || servers.iter().map(|server| server.and_then(|server| server.processes));
    // A column of what may be absent, in one scale.
    type Value = fn(&ProcessFigures) -> Option<f64>;
    let column = |name, unit: &str, rank, scale: fn(&[f64]) -> Scale, of: Value| {
        let known: Vec<f64> = seen().flatten().filter_map(|it| of(&it)).collect();
        let scale = scale(&known);
        Column {
            name,
            unit: unit.replace('*', scale.unit),
            room: Room::Optional(rank),
            cells: seen().map(|it| Some(scale.show(of(&it?)?))).collect(),
        }
    };
    let whole = |name, unit: &str, rank, of: fn(&ProcessFigures) -> Option<u64>| Column {
        name,
        unit: unit.to_owned(),
        room: Room::Optional(rank),
        cells: seen().map(|it| Some(count(of(&it?)?))).collect(),
    };
    let plain: fn(&[f64]) -> Scale = |values| Scale::plain(2, values.iter().copied());
    let bytes: fn(&[f64]) -> Scale = |values| Scale::bytes(values.iter().copied());
    let mut columns = vec![
        column("memory", "shared once, *", 5, bytes, |it| it.proportional_bytes.map(|bytes| bytes as f64)),
        column("switches", "a request", 9, plain, |it| Some(it.switches_voluntary_per_request)),
        column("preempted", "1/s", 6, plain, |it| Some(it.switches_involuntary_per_s)),
        column("faults", "1/s", 4, plain, |it| Some(it.faults_minor_per_s)),
        column("from disk", "faults, 1/s", 2, plain, |it| Some(it.faults_major_per_s)),
        column("disk read", "*/s", 1, bytes, |it| it.disk_read_bytes_per_s),
        column("written", "*/s", 3, bytes, |it| it.disk_written_bytes_per_s),
        column("held up", "by a quota, %", 1, plain, |it| {
            it.throttled_percent.filter(|percent| *percent > 0.0)
        }),
        whole("descriptors", "max", 7, |it| it.descriptors_max),
        whole("processes", "max", 2, |it| Some(it.processes_max)),
        whole("threads", "max", 3, |it| Some(it.threads_max)),
    ];
    // One that never happened needs no column.
    columns.retain(|column| {
        !matches!(column.name, "from disk" | "disk read" | "written")
            || column.cells.iter().flatten().any(|cell| cell.trim() != "0")
    });
    columns
}
