//! What the server's processes did in each level: CPU time by mode and per request, memory, context switches, page faults, open files,
//! disk. The figures are the model's.

use webstone_measure::figures::Group;
use webstone_model::record::HostUse;

use super::groups;
use crate::document::Tone;
use crate::document::table::Sheet;
use crate::numbers::{counted, seconds};
use crate::summary::Level;

const GROUPS: [Group; 3] = [Group::Machine, Group::Server, Group::ServerUse];

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    levels.iter().filter_map(|level| level.server).find(|server| server.processes.is_some())?;
    let table = groups::table(levels, &GROUPS, |_| false);
    let explanation = "what its processes used, in the windows that could be sampled";
    let mut sheet = Sheet::new("Server", explanation, table);
    sheet.notes.extend(cost(levels).map(|text| (Tone::Faint, text)));
    Some(sheet)
}

/// The monitoring overhead on the server's host, and how late an agent's readings may have been.
fn cost(levels: &[Level<'_>]) -> Option<String> {
    let runs = || levels.iter().flat_map(|level| &level.runs);
    let elsewhere = || runs().flat_map(|run| &run.server_hosts);
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
    let each = seconds(cost_ns as f64 / looks as f64 / 1e9);
    let all = counted(looks, "sample", "samples");
    let note = format!("monitoring overhead: {each} of CPU time per sample, {all}");
    if !is_elsewhere {
        return Some(note);
    }
    let delays = elsewhere().flat_map(|it| [it.opening_delay_ns_max, it.close_delay_ns_max]);
    let late = seconds(delays.max().unwrap_or_default() as f64 / 1e9);
    let agents = elsewhere().map(|there| there.agent).max().unwrap_or_default();
    let hosts = if agents == 0 { "host" } else { "hosts" };
    Some(format!("{note}, on the server's {hosts}; samples were at most {late} late"))
}
