//! What the kernel of this host counted while a window was open: TCP, CPUs, network interfaces, ports, descriptors.
//!
//! Read twice, where the window opens and where it closes; the record keeps the differences. The counters are the machine's (of its
//! network namespace), not this process': the kernel has no others. Over a path, clients and server have a namespace each, whose
//! counters are added. A file that cannot be read leaves its part out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use webstone_measure::since_all;
use webstone_model::record::{CpuUse, HostUse, LinkUse, PairPorts, TcpUse};

use crate::control_group::Throttled;
use crate::limits;
use crate::link_speed::link_speed_mbps;
use crate::listening_sockets::{Ports, dropped};
use crate::machine::Root;
use crate::others::OthersReading;
use crate::pair_ports::fullest;
use crate::path::{Path, PathReading, counters};
use crate::process_use::TICK_NS;

/// The two clocks are read one after the other: a smaller difference than this, in nanoseconds, is not a suspend.
const SUSPEND_NS_MIN: u64 = 10_000_000;
const MEGABIT: u64 = 1_000_000;
/// A kernel that counts interrupts by themselves counts those of devices as well, a clock's at least. One that looks at each tick what a
/// CPU does never meets any: they end before the tick comes. More than this share of the busy time is of the former.
const DEVICES_SHARE: u64 = 100_000;

/// What each CPU has done so far.
#[derive(Clone, Debug, Default)]
struct Cpus {
    each: Vec<CpuUse>,
    /// Whether the time of interrupts is no process' time as well.
    are_interrupts_apart: bool,
}

/// One reading of every counter.
#[derive(Clone, Debug)]
pub(crate) struct HostReading {
    /// Before and after the CPUs' counters were read: on a busy machine, reading may itself be interrupted.
    began: Instant,
    ended: Instant,
    tcp: Option<TcpUse>,
    cpus: Cpus,
    links: Vec<LinkUse>,
    descriptors: Option<u64>,
    others: OthersReading,
    throttled: Option<Throttled>,
    /// Difference between the clock that counts suspended time and the one that does not.
    asleep_ns: u64,
    pair_ports: Option<PairPorts>,
    /// What the server's sockets have dropped, by inode; of UDP, these are datagrams.
    dropped: Option<BTreeMap<u32, u32>>,
    over_udp: bool,
    path: Option<PathReading>,
}

impl HostReading {
    /// Reads everything; of links, those named, of local ports, those taken towards the targets, and of listening sockets, those of
    /// these ports.
    pub(crate) fn take(
        root: &Root,
        links: &BTreeSet<String>,
        targets: &BTreeSet<SocketAddr>,
        listening: &Ports,
        path: Option<&Path>,
    ) -> HostReading {
        // First, for its counters are of the packets alone.
        let of_path = path.and_then(Path::reading);
        let dropped = || if listening.numbers.is_empty() { None } else { dropped(listening).ok() };
        let (there, dropped) =
            path.map_or_else(|| (None, dropped()), |path| path.within(|| (tcp(root), dropped())));
        let tcp = together(tcp(root), there);
        let began = Instant::now();
        let cpus = cpus(root);
        HostReading {
            began,
            ended: Instant::now(),
            tcp,
            cpus,
            links: links.iter().filter_map(|name| link(root, name)).collect(),
            descriptors: root.fullest_table(),
            others: OthersReading::take(root),
            throttled: Throttled::of_process(root, std::process::id()),
            asleep_ns: asleep_ns(),
            dropped,
            over_udp: listening.over_udp,
            path: of_path,
            // Last, because it takes longest.
            pair_ports: tcp.filter(|tcp| may_lack_ports(root, tcp)).and_then(|_| fullest(targets).ok()?),
        }
    }

    /// The same between two slices of a window: only what is a sum, which is cheap enough to be read some times a second.
    pub(crate) fn of_slice(&self, root: &Root, links: &BTreeSet<String>, path: Option<&Path>) -> HostReading {
        let of_path = path.and_then(Path::reading);
        let there = path.and_then(|path| path.within(|| tcp(root)));
        let tcp = together(tcp(root), there);
        let began = Instant::now();
        let cpus = cpus(root);
        HostReading {
            began,
            ended: Instant::now(),
            tcp,
            cpus,
            links: links.iter().filter_map(|name| link(root, name)).collect(),
            descriptors: None,
            others: self.others.again(root),
            throttled: Throttled::of_process(root, std::process::id()),
            asleep_ns: asleep_ns(),
            dropped: None,
            over_udp: false,
            path: of_path,
            pair_ports: None,
        }
    }

    /// When it was begun.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// When it was whole.
    pub(crate) fn ended(&self) -> Instant {
        self.ended
    }

    /// Reads again what other programs have used.
    pub(crate) fn others_again(&mut self, root: &Root) {
        self.others = OthersReading::take(root);
    }

    /// What was counted from this reading to a later one. `own`: processes that, with their descendants, are not other
    /// programs.
    pub(crate) fn until(&self, later: &HostReading, root: &Root, own: &BTreeSet<u32>) -> HostUse {
        let (dropped, tcp) = (self.dropped_until(later), self.tcp_until(later));
        let limits = limits::read(root);
        let known = |limit: u64| Some(limit).filter(|limit| *limit < u64::MAX);
        let cpus = paired(&self.cpus.each, &later.cpus.each, |cpu| cpu.cpu, cpu_until);
        HostUse {
            elapsed_ns: (later.ended - self.began).as_nanos() as u64,
            others: self.others.until(&later.others, own, busy_ns(&cpus, later.cpus.are_interrupts_apart)),
            throttled_ns: self.throttled.as_ref().zip(later.throttled.as_ref()).and_then(|(a, b)| a.until(b)),
            suspended_ns: Some(later.asleep_ns.saturating_sub(self.asleep_ns))
                .filter(|slept_ns| *slept_ns >= SUSPEND_NS_MIN)
                .unwrap_or(0),
            tcp,
            cpus,
            links: paired(
                &self.links,
                &later.links,
                |link| link.name.clone(),
                |before, after| {
                    since_all!(after.clone(), before, LinkUse {
                        received_bytes, sent_bytes, received_packets, sent_packets, dropped_packets;
                        name, loopback, speed_bps
                    })
                },
            ),
            ports: root.text("/proc/sys/net/ipv4/ip_local_port_range").map(|_| limits.ports),
            pair_ports: [&self.pair_ports, &later.pair_ports]
                .into_iter()
                .flatten()
                .max_by_key(|pair| pair.used)
                .cloned(),
            listener_drops: dropped
                .filter(|_| !later.over_udp)
                .zip(tcp)
                .map(|(dropped, tcp)| dropped.min(tcp.listen_drops)),
            datagram_drops: dropped.filter(|_| later.over_udp),
            descriptors: self.descriptors.max(later.descriptors),
            descriptors_max: known(limits.descriptors),
            path: self.path.zip(later.path).map(|(before, after)| before.until(&after)),
            // The caller knows what the sample cost.
            ..HostUse::default()
        }
    }

    /// What TCP counted from this reading to a later one.
    fn tcp_until(&self, later: &HostReading) -> Option<TcpUse> {
        let (before, after) = self.tcp.zip(later.tcp)?;
        let since = since_all!(after, before, TcpUse {
            listen_overflows, listen_drops, segments_sent, retransmitted, timeouts, syn_retransmitted; time_wait, in_use
        });
        // A short drain may end, and its connections be gone, before the close is noticed.
        Some(TcpUse { in_use: before.in_use.max(after.in_use), ..since })
    }

    /// What the server's sockets dropped from this reading to a later one. A listening socket with `TCP_DEFER_ACCEPT`, which Apache httpd
    /// sets, also counts the last packet of every handshake, though that delays nothing: dropped connection requests are in the kernel's
    /// `ListenDrops` too.
    fn dropped_until(&self, later: &HostReading) -> Option<u64> {
        let (before, later) = self.dropped.as_ref().zip(later.dropped.as_ref())?;
        let since = |(inode, drops): (&u32, &u32)| {
            u64::from(drops.wrapping_sub(before.get(inode).copied().unwrap_or(0)))
        };
        (!later.is_empty()).then(|| later.iter().map(since).sum())
    }
}

/// What a CPU did between two readings.
fn cpu_until(before: &CpuUse, after: &CpuUse) -> CpuUse {
    since_all!(*after, before, CpuUse {
        busy_ns, user_ns, system_ns, interrupt_ns, idle_ns, stolen_ns, heat_ns; cpu, frequency_hz
    })
}

/// How long all programs, and threads of the kernel, kept CPUs busy: with interrupts where these are also in the time of the process
/// that they interrupted.
fn busy_ns(cpus: &[CpuUse], are_interrupts_apart: bool) -> u64 {
    let of = |cpu: &CpuUse| match are_interrupts_apart {
        true => cpu.busy_ns.saturating_sub(cpu.interrupt_ns),
        false => cpu.busy_ns,
    };
    cpus.iter().map(of).fold(0, u64::saturating_add)
}

/// Time for which this host has been suspended since it was started.
fn asleep_ns() -> u64 {
    let nanos = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    nanos(ClockId::Boottime).saturating_sub(nanos(ClockId::Monotonic))
}

/// Whether the host has enough sockets for one pair of addresses to have half of the local ports. If not, the kernel need not be
/// asked for every connection, which takes some milliseconds of CPU time for 10,000.
fn may_lack_ports(root: &Root, tcp: &TcpUse) -> bool {
    2 * (tcp.in_use + tcp.time_wait) >= limits::read(root).ports
}

/// Differences of entries of the same name in two readings.
fn paired<T, K: PartialEq>(
    before: &[T],
    after: &[T],
    key: impl Fn(&T) -> K,
    difference: impl Fn(&T, &T) -> T,
) -> Vec<T> {
    let earlier = |later: &T| before.iter().find(|earlier| key(earlier) == key(later));
    after.iter().filter_map(|later| Some(difference(earlier(later)?, later))).collect()
}

fn tcp(root: &Root) -> Option<TcpUse> {
    let extended = named(&root.text("/proc/thread-self/net/netstat")?, "TcpExt:");
    let basic = named(&root.text("/proc/thread-self/net/snmp")?, "Tcp:");
    // The maps own their texts.
    let of = |map: &BTreeMap<String, u64>, name: &str| map.get(name).copied().unwrap_or(0);
    let (in_use, time_wait) = sockets(root);
    Some(TcpUse {
        listen_overflows: of(&extended, "ListenOverflows"),
        listen_drops: of(&extended, "ListenDrops"),
        segments_sent: of(&basic, "OutSegs"),
        retransmitted: of(&basic, "RetransSegs"),
        timeouts: of(&extended, "TCPTimeouts"),
        syn_retransmitted: of(&extended, "TCPSynRetrans"),
        time_wait,
        in_use,
    })
}

/// The sum over the clients' network and, if there is a path, the server's.
fn together(here: Option<TcpUse>, there: Option<TcpUse>) -> Option<TcpUse> {
    here.zip(there).map(|(here, there)| here.plus(there)).or(here)
}

/// Pairs of lines, names and values, that both begin with `prefix`.
fn named(text: &str, prefix: &str) -> BTreeMap<String, u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return BTreeMap::new() };
    let pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

/// TCP sockets in use, of both versions of IP, and those in TIME_WAIT.
fn sockets(root: &Root) -> (u64, u64) {
    let value = |path: &str, prefix: &str, name: &str| -> u64 {
        let text = root.text(path).unwrap_or_default();
        let Some(line) = text.lines().find_map(|line| line.strip_prefix(prefix)) else { return 0 };
        let mut words = line.split_whitespace().skip_while(|word| *word != name).skip(1);
        words.next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let in_use = value("/proc/thread-self/net/sockstat", "TCP:", "inuse")
        + value("/proc/thread-self/net/sockstat6", "TCP6:", "inuse");
    (in_use, value("/proc/thread-self/net/sockstat", "TCP:", "tw"))
}

/// `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal in ticks, a line each CPU.
fn cpus(root: &Root) -> Cpus {
    let text = root.text("/proc/stat").unwrap_or_default();
    let of_cpu = |cpu: u32, file: &str| root.number(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}"));
    let of_line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        let (idle, stolen) = (at(3) + at(4), at(7));
        let (user, system, interrupt) = (at(0) + at(1), at(2), at(5) + at(6));
        Some(CpuUse {
            cpu,
            busy_ns: (user + system + interrupt) * TICK_NS,
            user_ns: user * TICK_NS,
            system_ns: system * TICK_NS,
            interrupt_ns: interrupt * TICK_NS,
            idle_ns: idle * TICK_NS,
            stolen_ns: stolen * TICK_NS,
            // Milliseconds of throttling by heat.
            heat_ns: of_cpu(cpu, "thermal_throttle/core_throttle_total_time_ms").unwrap_or(0) * 1_000_000,
            // Kilohertz.
            frequency_hz: of_cpu(cpu, "cpufreq/scaling_cur_freq").map(|khz| khz * 1_000),
        })
    };
    // The first line is the sum over all, and its name is followed by a space instead of a number.
    let each = text.lines().filter(|line| !line.starts_with("cpu ")).filter_map(of_line).collect();
    let all = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let all: Vec<u64> = all.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let are_interrupts_apart = match all[..] {
        [user, nice, system, _, _, devices, soft, ..] => {
            devices > (user + nice + system + soft) / DEVICES_SHARE
        }
        _ => false,
    };
    Cpus { each, are_interrupts_apart }
}

fn link(root: &Root, name: &str) -> Option<LinkUse> {
    let directory = format!("/sys/class/net/{name}");
    // `/sys` shows the network in which it was mounted, so not the device of a path.
    if let (false, Some(counted)) = (root.exists(&directory), counters(root, name)) {
        let [received_bytes, received_packets, received_errors, received_dropped, _, _, _, _, sent @ ..] =
            counted;
        let [sent_bytes, sent_packets, sent_errors, sent_dropped, ..] = sent;
        return Some(LinkUse {
            name: name.to_owned(),
            received_bytes,
            sent_bytes,
            received_packets,
            sent_packets,
            dropped_packets: received_errors + received_dropped + sent_errors + sent_dropped,
            ..LinkUse::default()
        });
    }
    let counter = |counter: &str| root.number(&format!("{directory}/statistics/{counter}"));
    let both = |a: &str, b: &str| counter(a).unwrap_or(0) + counter(b).unwrap_or(0);
    Some(LinkUse {
        name: name.to_owned(),
        loopback: name == LOOPBACK,
        speed_bps: link_speed_mbps(root, name).map(|speed| speed * MEGABIT),
        received_bytes: counter("rx_bytes")?,
        sent_bytes: counter("tx_bytes")?,
        received_packets: counter("rx_packets").unwrap_or(0),
        sent_packets: counter("tx_packets").unwrap_or(0),
        dropped_packets: both("rx_dropped", "tx_dropped") + both("rx_errors", "tx_errors"),
    })
}

/// Its name on every Linux.
pub const LOOPBACK: &str = "lo";

/// The interfaces that packets to these addresses take: the loopback where the target is this host, otherwise by the
/// longest prefix in the kernel's main routing table, and by the least metric where several are as long.
pub fn links_towards(
    root: &Root,
    addresses: impl IntoIterator<Item = IpAddr>,
    this_host: bool,
) -> BTreeSet<String> {
    if this_host {
        return BTreeSet::from([LOOPBACK.to_owned()]);
    }
    let route = |address: IpAddr| match address {
        IpAddr::V4(address) => route4(root, address),
        IpAddr::V6(address) => route6(root, address),
    };
    addresses.into_iter().filter_map(route).collect()
}

/// `RTF_UP`, without which a route is not in use, and `RTF_REJECT`, which leads nowhere.
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

fn is_used(flags: u32) -> bool {
    flags & UP != 0 && flags & REJECT == 0
}

/// `/proc/net/route`: interface, destination, gateway, flags, two counters, metric, mask; numbers in hexadecimal,
/// addresses as they lie in memory.
fn route4(root: &Root, address: Ipv4Addr) -> Option<String> {
    if address.is_loopback() {
        return Some(LOOPBACK.to_owned());
    }
    let text = root.text("/proc/net/route")?;
    let fits = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let bits = |at: usize| hex(at).map(|word| u32::from_be_bytes(word.to_ne_bytes()));
        let (destination, mask, metric) = (bits(1)?, bits(7)?, words.get(6)?.parse::<u32>().ok()?);
        let fits = is_used(hex(3)?) && address.to_bits() & mask == destination;
        fits.then(|| ((mask.count_ones(), Reverse(metric)), words[0].to_owned()))
    };
    text.lines().skip(1).filter_map(fits).max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

/// `/proc/net/ipv6_route`: destination, its prefix length, source, its length, next hop, metric, two counters, flags,
/// interface; all in hexadecimal.
fn route6(root: &Root, address: Ipv6Addr) -> Option<String> {
    if let Some(address) = address.to_ipv4_mapped() {
        return route4(root, address);
    }
    if address.is_loopback() {
        return Some(LOOPBACK.to_owned());
    }
    let text = root.text("/proc/net/ipv6_route")?;
    let fits = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let destination = u128::from_str_radix(words.first()?, 16).ok()?;
        let length = hex(1).filter(|length| *length <= 128)?;
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        let name = words.last().filter(|name| **name != LOOPBACK)?;
        let fits = is_used(hex(8)?) && address.to_bits() & mask == destination;
        fits.then(|| ((length, Reverse(hex(5).unwrap_or(u32::MAX))), (*name).to_owned()))
    };
    text.lines().filter_map(fits).max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

#[cfg(test)]
#[path = "host_use_tests.rs"]
mod tests;
