//! What the kernel of a host counted in a window.

use serde::{Deserialize, Serialize};

use crate::disturbance::{CpuWatch, Disturbance, OthersUse};
use crate::metrics::add_all;
use crate::since_all;
use crate::units::is_zero;

/// What the kernel of the generator's host counted while a window was open. Everything but `descriptors` concerns the
/// whole machine (in its network namespace), including other programs' connections, and the server's if it is on this
/// host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostUse {
    /// Time from the first reading to the last, in nanoseconds: the length of the window, within a few milliseconds.
    /// On a very busy machine readings may be late, and this time much longer or shorter. All counters are for this
    /// time.
    pub elapsed_ns: u64,
    /// How long the window had been open at the first reading, in nanoseconds: 0 if that was before it opened.
    #[serde(skip_serializing_if = "is_zero")]
    pub opening_delay_ns: u64,
    /// Samples of this host and the server's processes: when the window opened, when it closed, and in between.
    #[serde(skip_serializing_if = "is_zero")]
    pub probes: u64,
    /// CPU time of these samples, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub probe_cpu_ns: u64,
    /// How much others took of the generator's CPUs just before the level; absent if it could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// CPU time of other programs: all but this one, the server's processes and the kernel's own threads. Where `/proc` does not show all
    /// processes, as in a container: at least what all CPUs were busy without this program and the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<OthersUse>,
    /// CPUs of the server on which a thread measured stalls that no counter shows, if this host is a virtual machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<CpuWatch>,
    /// Time for which a CPU quota throttled this program at most, in nanoseconds; absent if the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Time for which the host was suspended, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspended_ns: u64,
    /// Counters of TCP; absent if they could not be read.
    pub tcp: Option<TcpUse>,
    /// Connection requests dropped by the server's own listening sockets, because an accept queue was full or memory
    /// was short; absent if the server is not on this host, or the kernel does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener_drops: Option<u64>,
    /// Datagrams dropped by the server's own UDP sockets, because a receive queue was full; absent if the server is not on
    /// this host, or the run is not in HTTP/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagram_drops: Option<u64>,
    /// CPU by CPU, in ascending order of number.
    pub cpus: Vec<CpuUse>,
    /// The network interfaces that packets to the target take.
    #[serde(rename = "interfaces")]
    pub links: Vec<LinkUse>,
    /// Number of local ports that the kernel may choose from, for each address and port of the target.
    pub ports: Option<u64>,
    /// The pair of addresses that used most of them, at either end of the window; absent if the kernel did not report
    /// it, or if the sockets of the whole host were fewer than half of the ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_ports: Option<PairPorts>,
    /// Open files in the fullest table of this process, the maximum of both ends of the window; if the kernel allows
    /// it, each worker has its own table.
    pub descriptors: Option<u64>,
    /// Maximum number of files in a table.
    pub descriptors_max: Option<u64>,
    /// What the relay of a path (`server.path`) did; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathUse>,
}

/// What webstone's relay of a path did in a window: a process that carries every IP packet between clients and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PathUse {
    /// Time from the first reading to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the relay, in nanoseconds, including what the kernel does with packets as they arrive.
    pub cpu_ns: u64,
    /// Packets that a device dropped because the relay did not fetch them in time.
    pub overflowed: u64,
    /// From clients to the server.
    pub to_server: DirectionUse,
    /// From the server to clients.
    pub to_clients: DirectionUse,
}

/// One way of a path in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DirectionUse {
    /// Packets that arrived at the other end.
    pub packets: u64,
    /// Their bytes, with IP headers.
    pub bytes: u64,
    /// Packets lost on purpose, as the seed decides.
    pub lost: u64,
    /// Packets that found the queue of the path's rate full.
    pub queue_full: u64,
    /// How much later than the set delay packets left the relay, in nanoseconds: the sum over all packets.
    pub late_ns: u64,
    /// The most of it.
    pub late_ns_max: u64,
}

impl DirectionUse {
    /// What was counted since an earlier reading.
    pub fn since(self, before: DirectionUse) -> DirectionUse {
        since_all!(self, before, DirectionUse { packets, bytes, lost, queue_full, late_ns; late_ns_max })
    }

    fn plus(mut self, other: DirectionUse) -> DirectionUse {
        add_all!(self, other, DirectionUse { packets, bytes, lost, queue_full, late_ns; late_ns_max });
        DirectionUse { late_ns_max: self.late_ns_max.max(other.late_ns_max), ..self }
    }
}

impl PathUse {
    /// Both as one, of two windows.
    pub fn plus(mut self, other: PathUse) -> PathUse {
        add_all!(self, other, PathUse { elapsed_ns, cpu_ns, overflowed; to_server, to_clients });
        PathUse {
            to_server: self.to_server.plus(other.to_server),
            to_clients: self.to_clients.plus(other.to_clients),
            ..self
        }
    }

    /// Both ways together.
    pub fn both(self) -> DirectionUse {
        self.to_server.plus(self.to_clients)
    }

    /// CPU time of the relay in percent of the time; 0 without any time.
    pub fn cpu_percent(self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { 100.0 * self.cpu_ns as f64 / self.elapsed_ns as f64 }
    }
}

impl HostUse {
    /// Adds a later slice of the same window. Values that are states, not sums, are those of the later one.
    pub fn append(&mut self, later: &HostUse) {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b)).or(a).or(b);
        self.elapsed_ns = self.elapsed_ns.saturating_add(later.elapsed_ns);
        if let Some(others) = &later.others {
            self.others.get_or_insert_default().append(others);
        }
        for watch in &later.watched {
            match self.watched.iter_mut().find(|mine| mine.cpu == watch.cpu) {
                Some(mine) => mine.append(watch),
                None => self.watched.push(*watch),
            }
        }
        self.throttled_ns = sum(self.throttled_ns, later.throttled_ns);
        self.suspended_ns = self.suspended_ns.saturating_add(later.suspended_ns);
        self.tcp = match (self.tcp, later.tcp) {
            (Some(mine), Some(theirs)) => {
                let in_use = mine.in_use.max(theirs.in_use);
                Some(TcpUse { in_use, time_wait: theirs.time_wait, ..mine.plus(theirs) })
            }
            (mine, theirs) => mine.or(theirs),
        };
        self.path = match (self.path, later.path) {
            (Some(mine), Some(theirs)) => Some(mine.plus(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        for cpu in &later.cpus {
            match self.cpus.iter_mut().find(|mine| mine.cpu == cpu.cpu) {
                Some(mine) => mine.append(cpu),
                None => self.cpus.push(*cpu),
            }
        }
        for link in &later.links {
            match self.links.iter_mut().find(|mine| mine.name == link.name) {
                Some(mine) => mine.append(link),
                None => self.links.push(link.clone()),
            }
        }
    }
}

/// Local ports used by connections of one pair of addresses. The kernel gives each pair all of its local ports, so
/// the pair that uses most is the first to run out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PairPorts {
    /// Local address.
    pub source: String,
    /// Address and port of the target.
    pub target: String,
    /// Local ports used by connections between them, of any program.
    pub used: u64,
    /// The part in TIME_WAIT.
    pub time_wait: u64,
}

/// Differences of the kernel's TCP counters over a window, and sockets at its end. After each is its name in
/// `/proc/net/netstat` (`TcpExt`), `/proc/net/snmp` (`Tcp`) or `/proc/net/sockstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TcpUse {
    /// Connections that found the accept queue full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connection requests dropped by a listening socket for any reason, including the former (`ListenDrops`).
    pub listen_drops: u64,
    /// Segments sent (`OutSegs`).
    pub segments_sent: u64,
    /// Segments retransmitted (`RetransSegs`).
    pub retransmitted: u64,
    /// Retransmission timeouts (`TCPTimeouts`).
    pub timeouts: u64,
    /// SYN and SYN/ACK retransmissions (`TCPSynRetrans`).
    pub syn_retransmitted: u64,
    /// Sockets in TIME_WAIT when the window closed (`tw`).
    pub time_wait: u64,
    /// Sockets in use, the maximum of both ends of the window (`inuse`).
    pub in_use: u64,
}

impl TcpUse {
    /// Both counts as one, of two kernels or of two windows.
    pub fn plus(mut self, other: TcpUse) -> TcpUse {
        add_all!(self, other, TcpUse {
            listen_overflows, listen_drops, segments_sent, retransmitted, timeouts, syn_retransmitted, time_wait, in_use;
        });
        self
    }
}

/// What one CPU did in a window, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u32,
    /// Time that it was busy, including interrupts, in nanoseconds.
    pub busy_ns: u64,
    /// The part in programs.
    pub user_ns: u64,
    /// The part in the kernel on behalf of programs.
    pub system_ns: u64,
    /// The part in the kernel for devices (`irq` and `softirq`), including network packets.
    pub interrupt_ns: u64,
    /// Time that it was idle or waited for a disk.
    pub idle_ns: u64,
    /// Time that a hypervisor gave to other guests.
    pub stolen_ns: u64,
    /// Time for which it was throttled because of heat (`core_throttle_total_time_ms`); 0 if the processor does not
    /// report it.
    #[serde(skip_serializing_if = "is_zero")]
    pub heat_ns: u64,
    /// Its clock rate when the window closed, in hertz (`scaling_cur_freq`); absent if the kernel does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_hz: Option<u64>,
}

impl CpuUse {
    fn append(&mut self, later: &CpuUse) {
        add_all!(self, later, [busy_ns, user_ns, system_ns, interrupt_ns, idle_ns, stolen_ns, heat_ns]);
        self.frequency_hz = later.frequency_hz.or(self.frequency_hz);
    }
}

/// What went over a network interface in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(rename = "InterfaceUse"))]
pub struct LinkUse {
    /// Its name.
    pub name: String,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Its speed in bit/s, if it has one and reports it.
    pub speed_bps: Option<u64>,
    /// Bytes received, including link headers.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets dropped or with errors, in both directions.
    pub dropped_packets: u64,
}

impl LinkUse {
    fn append(&mut self, later: &LinkUse) {
        add_all!(self, later, [received_bytes, sent_bytes, received_packets, sent_packets, dropped_packets]);
    }
}
