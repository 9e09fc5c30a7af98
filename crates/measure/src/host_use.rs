//! What the kernel of a host counted in a window.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disturbance::{CpuWatch, Disturbance, OthersUse};
use crate::units::is_zero;

/// What the kernel of the generator's host counted while a window was open. Everything but `descriptors` is of the whole
/// machine (of its network namespace): other programs' connections are in it, and the server's where it is on this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostUse {
    /// Time from the first reading to the last, in nanoseconds: the window, within some milliseconds. On a machine so busy that
    /// nobody looked in time it may be much more or less, and all counters are of this time.
    pub elapsed_ns: u64,
    /// How long the window had been open when the first of them was taken, in nanoseconds: 0 where it was taken before.
    #[serde(skip_serializing_if = "is_zero")]
    pub opening_delay_ns: u64,
    /// Samples of this host and the server's processes: when the window opened, when it closed, and in between.
    #[serde(skip_serializing_if = "is_zero")]
    pub probes: u64,
    /// CPU time that those looks took of this host, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub probe_cpu_ns: u64,
    /// What others took of the generator's CPUs just before the level; absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// What other programs used: all but this one, the server's processes and the kernel's own threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<OthersUse>,
    /// CPUs of the server on which a thread measured time that no counter shows, if this host is a virtual machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<CpuWatch>,
    /// Time for which a CPU quota throttled this program, in nanoseconds; absent where the kernel counts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Time for which the host was suspended, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspended_ns: u64,
    /// Counters of TCP; absent where they could not be read.
    pub tcp: Option<TcpUse>,
    /// Connection requests that the server's own listening sockets dropped, because an accept queue was full or for want of memory;
    /// absent where the server is not on this host, or the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener_drops: Option<u64>,
    /// CPU by CPU, in ascending order of number.
    pub cpus: Vec<CpuUse>,
    /// The network interfaces that packets to the target take.
    #[serde(rename = "interfaces")]
    pub links: Vec<LinkUse>,
    /// Local ports that the kernel may choose from, for each address and port of the target.
    pub ports: Option<u64>,
    /// The pair of addresses that had taken most of them, at either end of the window; absent where the kernel
    /// did not report it, and where the sockets of the whole host were fewer than half of the ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_ports: Option<PairPorts>,
    /// Files open in the fullest table of this process, the most at either end of the window; where the kernel lets it, each
    /// worker has a table of its own.
    pub descriptors: Option<u64>,
    /// Files that a table may hold.
    pub descriptors_max: Option<u64>,
}

/// Local ports that connections of one pair of addresses have. The kernel gives each pair all of its local ports, so the pair
/// that has most is the first to run out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PairPorts {
    /// Local address.
    pub source: String,
    /// Address and port of the target.
    pub target: String,
    /// Local ports that connections between them have, of any program.
    pub used: u64,
    /// Of them, in TIME_WAIT.
    pub time_wait: u64,
}

/// Differences of the kernel's TCP counters over a window, and sockets at its end. Names of `/proc/net/netstat`
/// (`TcpExt`), `/proc/net/snmp` (`Tcp`) and `/proc/net/sockstat` stand after each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TcpUse {
    /// Connections that found the accept queue full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connection requests dropped by a listening socket for any reason, the former among them (`ListenDrops`).
    pub listen_drops: u64,
    /// Segments sent (`OutSegs`).
    pub segments_sent: u64,
    /// Segments retransmitted (`RetransSegs`).
    pub retransmitted: u64,
    /// Retransmission timers that ran out (`TCPTimeouts`).
    pub timeouts: u64,
    /// SYN and SYN/ACK retransmissions (`TCPSynRetrans`).
    pub syn_retransmitted: u64,
    /// Sockets in TIME_WAIT when the window closed (`tw`).
    pub time_wait: u64,
    /// Sockets in use, the most at either end of the window (`inuse`).
    pub in_use: u64,
}

impl TcpUse {
    /// Both counts as one, of two kernels or of two windows.
    pub fn plus(self, other: TcpUse) -> TcpUse {
        let sum = u64::saturating_add;
        TcpUse {
            listen_overflows: sum(self.listen_overflows, other.listen_overflows),
            listen_drops: sum(self.listen_drops, other.listen_drops),
            segments_sent: sum(self.segments_sent, other.segments_sent),
            retransmitted: sum(self.retransmitted, other.retransmitted),
            timeouts: sum(self.timeouts, other.timeouts),
            syn_retransmitted: sum(self.syn_retransmitted, other.syn_retransmitted),
            time_wait: sum(self.time_wait, other.time_wait),
            in_use: sum(self.in_use, other.in_use),
        }
    }
}

/// What one CPU did in a window, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u32,
    /// Time that it worked, interrupts included, in nanoseconds.
    pub busy_ns: u64,
    /// Of that, for programs.
    pub user_ns: u64,
    /// Of that, in the kernel on behalf of programs.
    pub system_ns: u64,
    /// Of that, in the kernel for devices (`irq` and `softirq`), the network's packets among them.
    pub interrupt_ns: u64,
    /// Time that it was idle or waited for a disk.
    pub idle_ns: u64,
    /// Time that a hypervisor gave to other guests.
    pub stolen_ns: u64,
    /// Time for which its heat slowed it down (`core_throttle_total_time_ms`); 0 where the processor does not tell.
    #[serde(skip_serializing_if = "is_zero")]
    pub heat_ns: u64,
    /// Its clock when the window closed, in hertz (`scaling_cur_freq`); absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_hz: Option<u64>,
}

/// What went over a network interface in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "InterfaceUse")]
pub struct LinkUse {
    /// Its name.
    pub name: String,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Its speed in bit/s, where it has one and tells it.
    pub speed_bps: Option<u64>,
    /// Bytes received, link headers included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets dropped or in error, both ways.
    pub dropped_packets: u64,
}
