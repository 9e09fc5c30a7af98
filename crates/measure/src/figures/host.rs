//! What the kernel of a host counted while windows were open: on the generator's host, and on the server's if an
//! agent monitored it. The counters are those of the whole machine, in its network namespace; all are defined in
//! `docs/measurement.md`, "The host of the generator".

use super::quantity::Quantity;
use super::table::{Better, Figure, Gate, Precision, some};
use super::{quotient, seconds};
use crate::disturbance::Disturbance;
use crate::host_use::{CpuUse, HostUse, LinkUse, PathUse, TcpUse};
use crate::iteration::IterationRecord;
use crate::metrics::{add, add_all};
use crate::server_hosts::hosts_at_once;

/// The counters of a host, summed over the windows in which they were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFigures {
    /// Time between readings, in seconds.
    pub elapsed_s: f64,
    /// Requests that ended in those windows.
    pub ended: u64,
    /// Counters of TCP; absent if they were read in no window.
    pub tcp: Option<TcpUse>,
    /// Requests that ended in the windows in which the TCP counters were read.
    pub tcp_ended: u64,
    /// The interfaces towards the target.
    pub links: Option<Links>,
    /// All CPUs together; absent if they were read in no window.
    pub cpus: Option<CpuUse>,
    /// Number of samples.
    pub probes: u64,
    /// CPU time of the samples, in nanoseconds.
    pub probe_cpu_ns: u64,
    /// How much others took of the generator's CPUs before the windows.
    pub disturbance: Option<Disturbance>,
    /// Upper bound of the delay between asking for a reading at the opening of a window and taking it, in
    /// nanoseconds; for the server's host.
    pub opening_delay_ns_max: u64,
    /// The same at the close of a window.
    pub close_delay_ns_max: u64,
    /// What the relay of a path did; absent without one.
    pub path: Option<PathUse>,
}

/// What went over the interfaces towards the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    /// Their names, in order of appearance.
    pub names: Vec<String>,
    /// The sums.
    pub sum: LinkUse,
    /// Packets in both directions. On a loopback interface every packet sent is also received here, and counts once.
    pub packets: u64,
    /// Their bytes, counted alike.
    pub bytes: u64,
    /// Time between the readings that had any, in seconds.
    pub elapsed_s: f64,
    /// Requests that ended in those windows.
    pub ended: u64,
}

impl HostFigures {
    /// For the hosts that made the load, all together; `None` if no kernel was read in these iterations.
    pub fn of_generator(runs: &[&IterationRecord]) -> Option<HostFigures> {
        let mut sum: Option<HostFigures> = None;
        for run in runs {
            let makers = run.load_makers();
            let hosts: Vec<(&HostUse, u64)> =
                makers.iter().filter_map(|maker| Some((maker.host?, maker.ended))).collect();
            if !hosts.is_empty() {
                sum.get_or_insert_default().add(&hosts);
            }
        }
        sum
    }

    /// For the server's hosts, all together; `None` if no agent monitored one.
    pub fn of_server(runs: &[&IterationRecord]) -> Option<HostFigures> {
        let mut sum: Option<HostFigures> = None;
        for run in runs {
            let Some(host) = hosts_at_once(&run.server_hosts) else { continue };
            let sum = sum.get_or_insert_default();
            sum.add(&[(&host, run.measured.counts.ended())]);
            for there in &run.server_hosts {
                sum.opening_delay_ns_max = sum.opening_delay_ns_max.max(there.opening_delay_ns_max);
                sum.close_delay_ns_max = sum.close_delay_ns_max.max(there.close_delay_ns_max);
            }
        }
        sum
    }

    /// For one of the server's hosts, by its agent.
    pub fn on_host(runs: &[&IterationRecord], agent: u32) -> Option<HostFigures> {
        let mut sum: Option<HostFigures> = None;
        for run in runs {
            let Some(there) = run.server_hosts.iter().find(|there| there.agent == agent) else { continue };
            sum.get_or_insert_default().add(&[(&there.host, run.measured.counts.ended())]);
        }
        sum
    }

    /// Adds a window. Several hosts had it at the same time, so its time counts once.
    fn add(&mut self, hosts: &[(&HostUse, u64)]) {
        let longest_s = |hosts: &mut dyn Iterator<Item = &(&HostUse, u64)>| {
            hosts.map(|(host, _)| seconds(host.elapsed_ns)).fold(0.0, f64::max)
        };
        self.elapsed_s += longest_s(&mut hosts.iter());
        for (host, ended) in hosts {
            self.count(host, *ended);
        }
        let linked_s = longest_s(&mut hosts.iter().filter(|(host, _)| !host.links.is_empty()));
        if let Some(links) = self.links.as_mut().filter(|_| linked_s > 0.0) {
            links.elapsed_s += linked_s;
        }
    }

    fn count(&mut self, host: &HostUse, ended: u64) {
        self.ended = self.ended.saturating_add(ended);
        self.probes = self.probes.saturating_add(host.probes);
        self.probe_cpu_ns = self.probe_cpu_ns.saturating_add(host.probe_cpu_ns);
        self.disturbance = match (self.disturbance, host.disturbance) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        self.path = match (self.path, host.path) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        if let Some(tcp) = host.tcp {
            let sum = self.tcp.get_or_insert_default();
            add_all!(sum, tcp, [listen_overflows, listen_drops, segments_sent, retransmitted]);
            add(&mut self.tcp_ended, ended);
        }
        for cpu in &host.cpus {
            let sum = self.cpus.get_or_insert_default();
            add_all!(sum, cpu, [busy_ns, user_ns, system_ns, interrupt_ns, idle_ns, stolen_ns]);
        }
        if host.links.is_empty() {
            return;
        }
        let links = self.links.get_or_insert_default();
        add(&mut links.ended, ended);
        for link in &host.links {
            if !links.names.contains(&link.name) {
                links.names.push(link.name.clone());
            }
            add_all!(
                links.sum,
                link,
                [received_bytes, sent_bytes, received_packets, sent_packets, dropped_packets,]
            );
            add(&mut links.packets, link.sent_packets);
            add(&mut links.packets, if link.loopback { 0 } else { link.received_packets });
            add(&mut links.bytes, link.sent_bytes);
            add(&mut links.bytes, if link.loopback { 0 } else { link.received_bytes });
        }
    }
}

impl Links {
    /// A count per second.
    fn rate(&self, count: u64) -> f64 {
        quotient(count as f64, self.elapsed_s)
    }
}

const HOST: &str = "The host";

/// A raw counter of a host.
macro_rules! raw {
    ($key:literal, $quantity:ident, $long:literal, $name:literal, $of:expr) => {
        Figure::of_host($key, Quantity::$quantity, $of).called($long, $long).defined(HOST, $name).detail()
    };
}

/// The first counters of TCP in the table: columns of CSV keep their places.
pub(super) static TCP: &[Figure] = &[
    raw!("host_listen_overflows", Count, "Host listen overflows", "listen_overflows", |host| {
        some(host.tcp?.listen_overflows)
    })
    .column("overflows", "of a listener", 2)
    .prometheus("webstone_host_listen_overflows_total"),
    raw!("host_segments_sent", Count, "Host segments sent", "segments_sent", |host| {
        some(host.tcp?.segments_sent)
    }),
    raw!("host_segments_retransmitted", Count, "Host segments retransmitted", "retransmitted", |host| {
        some(host.tcp?.retransmitted)
    })
    .column("retransmitted", "segments", 2),
];

/// What else the kernel counted, and the monitoring overhead.
pub(super) static COUNTED: &[Figure] = &[
    raw!("network_received_bytes", Bytes, "Network received", "interfaces", |host| {
        some(host.links.as_ref()?.sum.received_bytes)
    }),
    raw!("network_received_packets", Count, "Network received packets", "interfaces", |host| {
        some(host.links.as_ref()?.sum.received_packets)
    }),
    raw!("network_sent_bytes", Bytes, "Network sent", "interfaces", |host| {
        some(host.links.as_ref()?.sum.sent_bytes)
    }),
    raw!("network_sent_packets", Count, "Network sent packets", "interfaces", |host| {
        some(host.links.as_ref()?.sum.sent_packets)
    }),
    raw!("network_dropped_packets", Count, "Network dropped packets", "interfaces", |host| {
        some(host.links.as_ref()?.sum.dropped_packets)
    })
    .column("dropped", "packets", 1),
    raw!("host_cpu_user_s", Duration, "Host CPU user", "cpus", |host| some(seconds(host.cpus?.user_ns))),
    raw!("host_cpu_system_s", Duration, "Host CPU system", "cpus", |host| {
        some(seconds(host.cpus?.system_ns))
    }),
    raw!("host_cpu_interrupt_s", Duration, "Host CPU interrupt", "cpus", |host| {
        some(seconds(host.cpus?.interrupt_ns))
    }),
    raw!("host_cpu_idle_s", Duration, "Host CPU idle", "cpus", |host| some(seconds(host.cpus?.idle_ns))),
    raw!("host_cpu_stolen_s", Duration, "Host CPU stolen", "cpus", |host| {
        some(seconds(host.cpus?.stolen_ns))
    }),
    raw!("host_listen_drops", Count, "Host listen drops", "listen_drops", |host| {
        some(host.tcp?.listen_drops)
    }),
    raw!("probes", Count, "Probes", "probes", |host| (host.probes > 0).then(|| host.probes.into()))
        .prometheus("webstone_probes_total"),
    raw!("probe_cpu_s", Duration, "Probe CPU", "probe_cpu_ns", |host| {
        (host.probes > 0).then(|| seconds(host.probe_cpu_ns).into())
    })
    .prometheus("webstone_probe_cpu_seconds_total"),
    raw!("disturbance_looked_s", Duration, "Disturbance looked", "disturbance", |host| {
        some(seconds(host.disturbance?.looked_ns))
    })
    .prometheus("webstone_disturbance_looked_seconds_total"),
    raw!("disturbance_taken_s", Duration, "Disturbance taken", "disturbance", |host| {
        some(seconds(host.disturbance?.taken_ns))
    })
    .prometheus("webstone_disturbance_taken_seconds_total"),
    raw!("disturbance_longest_s", Duration, "Disturbance longest", "disturbance", |host| {
        some(seconds(host.disturbance?.longest_ns))
    })
    .prometheus("webstone_disturbance_longest_seconds"),
];

/// A raw counter of the server's host.
macro_rules! there {
    ($key:literal, $quantity:ident, $long:literal, $name:literal, $of:expr) => {
        Figure::new($key, Quantity::$quantity, |r| r.server_host().and_then($of))
            .called($long, $long)
            .defined(HOST, $name)
            .detail()
    };
}

/// What an agent read on the server's host.
pub(super) static SERVER_HOST: &[Figure] = &[
    there!(
        "server_host_listen_overflows",
        Count,
        "Server host listen overflows",
        "listen_overflows",
        |host| { some(host.tcp?.listen_overflows) }
    ),
    there!("server_host_listen_drops", Count, "Server host listen drops", "listen_drops", |host| {
        some(host.tcp?.listen_drops)
    }),
    there!(
        "server_host_segments_retransmitted",
        Count,
        "Server host segments retransmitted",
        "retransmitted",
        |host| some(host.tcp?.retransmitted)
    ),
    there!("server_host_received_bytes", Bytes, "Server host received", "interfaces", |host| {
        some(host.links.as_ref().map_or(0, |links| links.sum.received_bytes))
    }),
    there!("server_host_sent_bytes", Bytes, "Server host sent", "interfaces", |host| {
        some(host.links.as_ref().map_or(0, |links| links.sum.sent_bytes))
    }),
    there!("server_host_probes", Count, "Server host probes", "probes", |host| some(host.probes)),
    there!("server_host_elapsed_s", Duration, "Server host elapsed", "", |host| some(host.elapsed_s)),
    there!("server_host_cpu_busy_s", Duration, "Server host CPU busy", "cpus", |host| {
        some(seconds(host.cpus.map_or(0, |cpus| cpus.busy_ns)))
    }),
    there!("server_host_cpu_idle_s", Duration, "Server host CPU idle", "cpus", |host| {
        some(seconds(host.cpus.map_or(0, |cpus| cpus.idle_ns)))
    }),
    there!("server_host_probe_cpu_s", Duration, "Server host probe CPU", "probe_cpu_ns", |host| {
        some(seconds(host.probe_cpu_ns))
    }),
    there!("server_host_opening_delay_max_s", Duration, "Server host opening delay max", "", |host| {
        some(seconds(host.opening_delay_ns_max))
    }),
    there!("server_host_close_delay_max_s", Duration, "Server host close delay max", "", |host| {
        some(seconds(host.close_delay_ns_max))
    }),
];

/// Network traffic, per second and per request.
pub(super) static NETWORK: &[Figure] = &[
    Figure::of_host("network_received_bit_per_s", Quantity::BitsPerSecond, |host| {
        let links = host.links.as_ref()?;
        some(8.0 * links.rate(links.sum.received_bytes))
    })
    .called("Network received", "received")
    .precision(Precision::Scaled)
    .column("received", "*", Figure::ALWAYS)
    .json("host.received_bit_per_s")
    .defined(HOST, "interfaces"),
    Figure::of_host("network_received_packets_per_s", Quantity::PerSecond, |host| {
        let links = host.links.as_ref()?;
        some(links.rate(links.sum.received_packets))
    })
    .called("Network received packets", "packets received")
    .precision(Precision::UpTo(0))
    .column("packets", "1/s", 4)
    .json("host.received_packets_per_s")
    .defined(HOST, "interfaces"),
    Figure::of_host("network_sent_bit_per_s", Quantity::BitsPerSecond, |host| {
        let links = host.links.as_ref()?;
        some(8.0 * links.rate(links.sum.sent_bytes))
    })
    .called("Network sent", "sent")
    .precision(Precision::Scaled)
    .column("sent", "*", Figure::ALWAYS)
    .json("host.sent_bit_per_s")
    .defined(HOST, "interfaces"),
    Figure::of_host("network_sent_packets_per_s", Quantity::PerSecond, |host| {
        let links = host.links.as_ref()?;
        some(links.rate(links.sum.sent_packets))
    })
    .called("Network sent packets", "packets sent")
    .precision(Precision::UpTo(0))
    .column("packets", "1/s", 4)
    .json("host.sent_packets_per_s")
    .defined(HOST, "interfaces"),
    Figure::of_host("network_packets_per_request", Quantity::Ratio, |host| {
        let links = host.links.as_ref()?;
        some(quotient(links.packets as f64, links.ended as f64))
    })
    .called("Network packets per request", "packets per request")
    .precision(Precision::Exactly(2))
    .column("packets", "a request", 3)
    .json("host.packets_per_request")
    .defined(HOST, "interfaces"),
    RETRANSMISSIONS,
];

/// The size of an exchange as networks see it.
pub(super) static NETWORK_BYTES: &[Figure] =
    &[Figure::of_host("network_bytes_per_request", Quantity::Bytes, |host| {
        let links = host.links.as_ref()?;
        (links.ended > 0).then(|| quotient(links.bytes as f64, links.ended as f64).into())
    })
    .called("Network bytes per request", "bytes per request")
    .column("both ways", "*/request", 3)
    .json("host.bytes_per_request")
    .defined(HOST, "interfaces")];

/// `retransmissions`: retransmitted segments per 1,000 requests that ended.
const RETRANSMISSIONS: Figure =
    Figure::of_host("retransmissions_per_1000_requests", Quantity::Ratio, |host| {
        let retransmitted = host.tcp?.retransmitted as f64;
        (host.tcp_ended > 0).then(|| (1000.0 * retransmitted / host.tcp_ended as f64).into())
    })
    .called("Retransmissions per 1,000 requests", "retransmissions per 1,000 requests")
    .precision(Precision::UpTo(3))
    .column("retransmitted", "1,000 requests", 3)
    .defined(HOST, "retransmissions_per_1000_requests")
    .json("host.retransmissions_per_1000_requests")
    .prometheus("webstone_retransmissions_per_1000_requests")
    .otel("webstone.retransmissions", "{segment}/1000{request}")
    .gate(
        Gate::compared("retransmissions", "TCP retransmissions per 1,000 requests")
            .differs()
            .of_machines()
            .words("fewer", "more"),
        Better::Less,
    )
    .headline();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Reading;
    use crate::metric::Metric;
    use crate::metrics::{Counts, Measured};

    /// A window in which 900 requests succeeded and 100 failed.
    fn run(tcp: Option<TcpUse>) -> IterationRecord {
        let counts = Counts { succeeded: 900, failed: 100, ..Counts::default() };
        let host = HostUse { elapsed_ns: 2_000_000_000, tcp, ..HostUse::default() };
        let measured = Measured { window_ns: 2_000_000_000, counts, ..Measured::default() };
        IterationRecord { host: Some(host), measured, ..IterationRecord::default() }
    }

    #[test]
    fn hosts_that_load_together_are_added_and_their_time_counts_once() {
        let alone = {
            let mut run = run(sent_again(6));
            let links = vec![LinkUse { name: "eth0".to_owned(), sent_bytes: 900, ..LinkUse::default() }];
            run.host.as_mut().unwrap().links = links;
            run
        };
        let mut runs = [alone.clone()];
        crate::fixture::split(&mut runs, 3);
        let of = |run: &IterationRecord| HostFigures::of_generator(&[run]).unwrap();
        let (one, three) = (of(&alone), of(&runs[0]));
        // Each host of the fixture counted the same as the original.
        assert_eq!((one.ended, three.ended), (1000, 1000));
        assert_eq!((one.elapsed_s, three.elapsed_s), (2.0, 2.0));
        assert_eq!(three.tcp.unwrap().retransmitted, 18);
        let (one, three) = (one.links.unwrap(), three.links.unwrap());
        assert_eq!((one.sum.sent_bytes, three.sum.sent_bytes), (900, 2700));
        assert_eq!(three.rate(three.sum.sent_bytes), 3.0 * one.rate(one.sum.sent_bytes));
        assert_eq!((three.names, three.elapsed_s, three.ended), (vec!["eth0".to_owned()], 2.0, 1000));
    }

    fn sent_again(retransmitted: u64) -> Option<TcpUse> {
        Some(TcpUse { retransmitted, ..TcpUse::default() })
    }

    #[test]
    fn retransmissions_are_per_request_of_windows_that_counted_them() {
        let metric = Metric::named("retransmissions").expect("it has a gate");
        let of = |runs: &[&IterationRecord]| metric.value(&Reading::of_level(runs));
        assert_eq!(of(&[&run(sent_again(3))]), Some(3.0));
        // 3 + 0 for 2,000 requests; the third window's counters were not read, so its requests do not count.
        let runs = [run(sent_again(3)), run(sent_again(0)), run(None)];
        assert_eq!(of(&runs.iter().collect::<Vec<_>>()), Some(1.5));
        assert_eq!(of(&[&run(None)]), None);
        assert_eq!(of(&[&IterationRecord::default()]), None);
        let idle = IterationRecord { measured: Measured::default(), ..run(sent_again(3)) };
        assert_eq!(of(&[&idle]), None, "nothing ended that they could be of");
    }
}
