//! What went over the interfaces towards the target in each level, and what the kernel's TCP had to repeat or refuse: counters
//! of this host, whoever caused them.

use webstone_model::record::{HostUse, InterfaceUse, IterationRecord, TcpUse};

use super::cpus::{of_generator, of_server};
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level, quotient};

/// A level's traffic over all its windows.
#[derive(Clone, Debug, Default)]
struct Traffic {
    names: Vec<String>,
    seconds: f64,
    links: InterfaceUse,
    /// Packets of both directions. Over a loopback every packet that was sent is received here as well, and is one.
    packets: u64,
    tcp: TcpUse,
}

impl Traffic {
    fn of(level: &Level<'_>, host: fn(&IterationRecord) -> Option<&HostUse>) -> Option<Traffic> {
        let mut sum = Traffic::default();
        let hosts = level.runs.iter().filter_map(|run| host(run));
        for host in hosts.filter(|host| !host.interfaces.is_empty()) {
            sum.seconds += host.elapsed_ns as f64 / 1e9;
            for link in &host.interfaces {
                if !sum.names.contains(&link.name) {
                    sum.names.push(link.name.clone());
                }
                sum.links.received_bytes += link.received_bytes;
                sum.links.sent_bytes += link.sent_bytes;
                sum.links.received_packets += link.received_packets;
                sum.links.sent_packets += link.sent_packets;
                sum.links.dropped_packets += link.dropped_packets;
                sum.packets += link.sent_packets + if link.loopback { 0 } else { link.received_packets };
            }
            let tcp = host.tcp.unwrap_or_default();
            sum.tcp.listen_overflows += tcp.listen_overflows;
            sum.tcp.retransmitted += tcp.retransmitted;
        }
        (sum.seconds > 0.0).then_some(sum)
    }

    fn rate(&self, count: u64) -> f64 {
        quotient(count as f64, self.seconds)
    }
}

pub(crate) fn sheet(screen: &Screen, levels: &[Level<'_>]) -> Option<Sheet> {
    let (table, names) = table(screen, levels, of_generator)?;
    let explanation = format!("{names}, whosever packets they were, seen from this host");
    Some(Sheet::new("Network", explanation, table))
}

/// The same seen from the server's host, where an agent looked at it there.
pub(crate) fn elsewhere(screen: &Screen, levels: &[Level<'_>]) -> Option<Sheet> {
    let (table, names) = table(screen, levels, of_server)?;
    let explanation = format!("{names}, whosever packets they were, seen from the server's host");
    Some(Sheet::new("Network there", explanation, table))
}

/// The table, and the names of the interfaces.
fn table(
    screen: &Screen,
    levels: &[Level<'_>],
    host: fn(&IterationRecord) -> Option<&HostUse>,
) -> Option<(Table, String)> {
    let traffic: Vec<Option<Traffic>> = levels.iter().map(|level| Traffic::of(level, host)).collect();
    let seen = || traffic.iter().flatten();
    seen().next()?;
    let bits = Scale::bits_per_second(
        seen().flat_map(|t| [t.links.received_bytes, t.links.sent_bytes].map(|bytes| 8.0 * t.rate(bytes))),
    );
    let packets = Scale::plain(0, [1.0]);
    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    table.number("received", bits.unit, Room::Always).number("packets", "1/s", Room::Optional(4));
    table.number("sent", bits.unit, Room::Always).number("packets", "1/s", Room::Optional(4));
    table.number("packets", "a request", Room::Optional(3));
    table.number("dropped", "packets", Room::Optional(1));
    table.number("overflows", "of a listener", Room::Optional(2));
    table.number("sent again", "segments", Room::Optional(2));
    for (level, traffic) in levels.iter().zip(&traffic) {
        let mut cells = vec![level.load_cell()];
        match traffic {
            Some(t) => {
                let (links, ended) = (&t.links, level.counts.ended());
                let a_request = quotient(t.packets as f64, ended as f64);
                cells.extend([
                    bits.show(8.0 * t.rate(links.received_bytes)),
                    packets.show(t.rate(links.received_packets)),
                    bits.show(8.0 * t.rate(links.sent_bytes)),
                    packets.show(t.rate(links.sent_packets)),
                    format!("{a_request:.2}"),
                    count(links.dropped_packets),
                    count(t.tcp.listen_overflows),
                    count(t.tcp.retransmitted),
                ]);
            }
            None => cells.extend([screen.dash(); 8].map(str::to_owned)),
        }
        let lost =
            traffic.as_ref().is_some_and(|t| t.tcp.listen_overflows > 0 || t.links.dropped_packets > 0);
        table.row_in(cells, if lost { Tone::Caution } else { Tone::Plain }, false);
    }
    let mut names: Vec<&str> = seen().flat_map(|t| &t.names).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    Some((table, names.join(" and ")))
}
