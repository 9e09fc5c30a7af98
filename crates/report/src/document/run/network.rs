//! What went over the interfaces towards the target in each level, and what the kernel's TCP had to repeat or refuse: counters
//! of this host, whoever caused them.

use webstone_measure::figures::Group;
use webstone_measure::figures::host::HostFigures;

use super::figures;
use crate::document::Tone;
use crate::document::table::{Sheet, Table};
use crate::summary::Level;

const GROUPS: [Group; 2] = [Group::Network, Group::Host];

/// One of the two hosts of a level.
type Host = for<'l> fn(&'l Level<'_>) -> Option<&'l HostFigures>;

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    let (table, names) = table(levels, |level| level.host.as_ref())?;
    let is_alone = levels.iter().flat_map(|level| &level.runs).all(|run| run.parts.is_empty());
    let by = if is_alone { "this host counts it" } else { "the load generators' hosts count it" };
    let explanation = format!("all traffic on {names}, as {by}");
    Some(Sheet::new("Network", explanation, table))
}

/// The same seen from the server's host, where an agent looked at it there.
pub(crate) fn elsewhere(levels: &[Level<'_>]) -> Option<Sheet> {
    let (table, names) = table(levels, |level| level.server_host.as_ref())?;
    let agents = levels.iter().flat_map(|level| &level.runs).flat_map(|run| &run.server_hosts);
    let by = match agents.map(|there| there.agent).max() {
        None | Some(0) => "the server's host counts it",
        Some(_) => "the server's hosts count it",
    };
    let explanation = format!("all traffic on {names}, as {by}");
    Some(Sheet::new("Network there", explanation, table))
}

/// The table, and the names of the interfaces.
fn table(levels: &[Level<'_>], host: Host) -> Option<(Table, String)> {
    let links = || levels.iter().filter_map(|level| host(level)?.links.as_ref());
    links().next()?;
    let columns = figures::columns(levels, &GROUPS, &|level, figure| figure.value_of(host(level)?));
    let tone = |level: &Level<'_>| {
        let lost = host(level).is_some_and(|host| {
            host.tcp.is_some_and(|tcp| tcp.listen_overflows > 0)
                || host.links.as_ref().is_some_and(|links| links.sum.dropped_packets > 0)
        });
        if lost { Tone::Caution } else { Tone::Plain }
    };
    let table = figures::table(levels, &columns, &tone);
    let mut names: Vec<&str> = links().flat_map(|links| &links.names).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    Some((table, names.join(" and ")))
}
