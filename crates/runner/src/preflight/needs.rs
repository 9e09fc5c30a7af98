//! What a run needs of the machine, against what there is. Arithmetic only: [`webstone_lab::limits`] reads, this decides.
//!
//! A closed loop bounds most needs exactly: it never has more requests in progress than clients × parallel. Only the
//! number of connections in TIME_WAIT depends on a rate that is not known yet; it is bounded by what one worker can
//! open at most.

use std::fmt;
use webstone_lab::limits::Limits;

use webstone_judge::search::iterations_max;
use webstone_model::spec::{ConnectionPolicy, HttpVersion, RunSpec, Software};
use webstone_workload::addresses::{AddressRange, PortRange};

/// Descriptors beside connections: standard streams, record files, trace, name service, and the server's pipes.
const DESCRIPTORS_FIXED: u64 = 64;
/// Descriptors of one worker beside its connections: epoll, timer, wake-up.
const DESCRIPTORS_PER_WORKER: u64 = 8;
/// How long a closed connection blocks its port: TCP_TIMEWAIT_LEN of Linux (`include/net/tcp.h`), a constant that
/// `net.ipv4.tcp_fin_timeout` does not change.
const TIME_WAIT_S: u64 = 60;
/// The same where `net.ipv4.tcp_tw_reuse` applies (`tcp_twsk_unique` of Linux: a second).
const TIME_WAIT_REUSED_S: u64 = 1;
/// What one distribution of a kept iteration takes in memory, in bytes: three or four octaves of 8 KiB.
const MEMORY_PER_HISTOGRAM: u64 = 32 << 10;
/// Most connections that one worker opens in a second, with room to spare on the machines of 2026.
const CONNECTIONS_PER_WORKER_S: u64 = 40_000;
/// Most small keep-alive requests that one worker makes in a second.
const REQUESTS_PER_WORKER_S: u64 = 250_000;
/// User memory of one connection in the generator, in bytes; the second number is for QUIC, whose streams, packets and keys are kept
/// here and not in the kernel.
const MEMORY_PER_CONNECTION: [u64; 2] = [2 << 10, 20 << 10];
/// Kernel memory of one end of an established, idle TCP connection, in bytes.
const KERNEL_MEMORY_PER_SOCKET: u64 = 4 << 10;
/// User memory of one connection in the embedded server, in bytes: its task and its read buffer.
const SERVER_MEMORY_PER_CONNECTION: u64 = 24 << 10;

/// The load, as far as it needs resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Connections that may be open at once: the largest level × files in parallel.
    pub connections: u64,
    /// When connections end.
    pub policy: ConnectionPolicy,
    /// Requests after which a client ends a kept-alive connection itself.
    pub requests_per_connection: Option<u32>,
    /// Connections end with a reset, which leaves no TIME_WAIT.
    pub reset: bool,
    /// Whether it is in HTTP/2 or HTTP/3.
    pub has_streams: bool,
    /// Whether it is in HTTP/3.
    pub over_udp: bool,
    /// Number of workers.
    pub workers: u64,
    /// Each worker has a table of open files of its own, to which the limit on descriptors applies by itself.
    pub workers_own_descriptors: bool,
    /// Local addresses that connections come from; at least 1.
    pub sources: u64,
    /// Local ports of each that they may have, where that is restricted.
    pub source_ports: Option<u64>,
    /// Addresses with ports that connections go to, each resolved one counted; 0 for a Unix socket, and where other hosts make
    /// the load.
    pub destinations: u64,
    /// Whether all of them are on this host.
    pub loopback: bool,
    /// Listen queue that the embedded server asks for, where it is the target.
    pub embedded_backlog: Option<u64>,
    /// Bytes that the metrics of a running level may come to own.
    pub metrics_bytes: u64,
    /// Bytes that the distributions of all iterations take, which are kept until the report is made.
    pub record_bytes: u64,
    /// Bytes of the fileset, where the embedded server holds it in memory.
    pub fileset_bytes: u64,
}

impl Load {
    /// The load of a specification, whose `generator.workers` has been decided, on a workload of `pages` pages.
    /// `destinations` are resolved.
    pub fn of_spec(spec: &RunSpec, pages: u64, destinations: u64, loopback: bool) -> Load {
        let clients = spec.load.clients.0.iter().copied().max().unwrap_or_default();
        let workers = u64::from(spec.generator.workers.max(1));
        // Four histograms overall, four for each page that has its own, and the generator's two.
        // An open loop adds the schedule lag and three distributions from the actual start.
        let histograms = if spec.load.rate.is_some() { 10 } else { 6 }
            + 4 * u64::from(spec.generator.page_histograms).min(pages);
        let is_embedded = spec.target.is_empty() && spec.server.software == Software::Reference;
        let listed = spec.load.levels() as u64 * u64::from(spec.load.iterations);
        let iterations = spec.find.as_ref().map_or(listed, iterations_max);
        Load {
            connections: spec.client.connections_max(clients),
            policy: spec.client.connections,
            requests_per_connection: spec.client.requests_per_connection,
            reset: spec.client.reset,
            has_streams: spec.client.http.has_streams(),
            over_udp: spec.client.http == HttpVersion::Http3,
            workers,
            workers_own_descriptors: webstone_engine::workers_own_descriptors(),
            sources: spec.client.source.iter().map(AddressRange::count).sum::<u64>().max(1),
            source_ports: spec.client.source_ports.map(PortRange::count),
            destinations: if spec.client.unix_socket.is_some() { 0 } else { destinations },
            loopback,
            embedded_backlog: is_embedded.then_some(u64::from(spec.server.reference_backlog())),
            metrics_bytes: workers * histograms * webstone_measure::metrics::Histogram::bytes_max() as u64,
            record_bytes: iterations * histograms * MEMORY_PER_HISTOGRAM,
            fileset_bytes: 0,
        }
    }

    /// Other hosts have the connections, and see to their own resources. The embedded server has their other ends.
    pub fn is_made_elsewhere(&mut self) {
        self.destinations = 0;
        if self.embedded_backlog.is_none() {
            self.connections = 0;
        }
    }

    /// Descriptors that it may need: where each file or page has a connection of its own, the previous one may still
    /// wait for the server to close.
    pub fn descriptors(&self) -> u64 {
        self.descriptors_for(match self.policy {
            ConnectionPolicy::KeepAlive => self.connections,
            _ => 2 * self.connections,
        })
    }

    /// Descriptors for a number of connections, in the fullest table of open files: this process's where all workers share it, and the
    /// embedded server's where that has one descriptor for each connection.
    fn descriptors_for(&self, connections: u64) -> u64 {
        match self.descriptors_are_shared_out() {
            true => connections.div_ceil(self.workers) + DESCRIPTORS_FIXED + DESCRIPTORS_PER_WORKER,
            false => connections + DESCRIPTORS_FIXED + self.workers * DESCRIPTORS_PER_WORKER,
        }
    }

    fn descriptors_are_shared_out(&self) -> bool {
        self.workers_own_descriptors && self.embedded_backlog.is_none()
    }

    /// Most connections per second that the client itself ends first: those leave their TIME_WAIT, and with it a
    /// blocked port, on this side. With a connection per request or page the server is asked to close, and
    /// TIME_WAIT is on its side.
    fn closed_by_client_s(&self) -> u64 {
        match (self.policy, self.requests_per_connection) {
            // UDP has no TIME_WAIT.
            _ if self.reset || self.over_udp => 0,
            // HTTP/2 and HTTP/3 cannot ask a server to close first.
            (ConnectionPolicy::PerRequest | ConnectionPolicy::PerPage, _) if self.has_streams => {
                self.workers * CONNECTIONS_PER_WORKER_S
            }
            (ConnectionPolicy::KeepAlive, Some(limit)) => (self.workers * CONNECTIONS_PER_WORKER_S)
                .min(self.workers * REQUESTS_PER_WORKER_S / u64::from(limit.max(1))),
            _ => 0,
        }
    }
}

/// What is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Open files of the process.
    Descriptors,
    /// Open files of one worker.
    WorkerDescriptors,
    /// Local ports.
    Ports,
    /// The server's listen queue.
    ListenQueue,
    /// Memory.
    Memory,
}

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It may go well.
    Possible,
    /// It cannot go well.
    Certain,
}

/// One resource of which there is less than the run needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Which.
    pub resource: Resource,
    /// How sure it is.
    pub severity: Severity,
    /// How much is needed.
    pub needed: u64,
    /// How much there is.
    pub available: u64,
    /// What to set, and to what.
    pub remedy: String,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { needed, available, .. } = self;
        let may = if self.severity == Severity::Certain { "needs" } else { "may need" };
        let who = match self.resource {
            Resource::Descriptors => "the run",
            Resource::WorkerDescriptors => "each worker",
            Resource::Ports => {
                return write!(f, "the run {may} {needed} local ports, but there are only {available}");
            }
            Resource::ListenQueue => {
                return write!(
                    f,
                    "{needed} clients may connect at once, but the listen queue holds only {available}"
                );
            }
            Resource::Memory => {
                let [needed, available] = [needed, available].map(|bytes| bytes.div_ceil(1 << 20));
                return write!(f, "the run {may} {needed} MiB of memory, but only {available} MiB are free");
            }
        };
        write!(f, "{who} {may} {needed} open files, but only {available} are allowed")
    }
}

/// Everything of which there is too little, the certain first.
pub fn shortages(load: &Load, limits: &Limits) -> Vec<Shortage> {
    let mut found: Vec<Shortage> =
        [descriptors(load, limits), ports(load, limits), listen_queue(load, limits), memory(load, limits)]
            .into_iter()
            .flatten()
            .collect();
    found.sort_by_key(|shortage| std::cmp::Reverse(shortage.severity));
    found
}

fn descriptors(load: &Load, limits: &Limits) -> Option<Shortage> {
    let (min, needed, available) =
        (load.descriptors_for(load.connections), load.descriptors(), limits.descriptors);
    let (severity, needed) = match available {
        _ if available < min => (Severity::Certain, min),
        _ if available < needed => (Severity::Possible, needed),
        _ => return None,
    };
    let wanted = round_up(load.descriptors());
    let (resource, fewer) = match load.descriptors_are_shared_out() {
        true => (Resource::WorkerDescriptors, "more workers or fewer clients"),
        false => (Resource::Descriptors, "fewer clients or workers"),
    };
    let remedy = format!(
        "ulimit -n {wanted} (as root, or with `* hard nofile {wanted}` in /etc/security/limits.conf), or use {fewer}"
    );
    Some(Shortage { resource, severity, needed, available, remedy })
}

fn ports(load: &Load, limits: &Limits) -> Option<Shortage> {
    if load.destinations == 0 {
        return None;
    }
    // A UDP socket has its port towards all destinations.
    let destinations = if load.over_udp { 1 } else { load.destinations };
    let tuples = load.sources * destinations;
    let ports = load.source_ports.unwrap_or(limits.ports);
    let available = ports * tuples;
    let reused = limits.tw_reuse == 1 || (limits.tw_reuse == 2 && load.loopback);
    let wait_s = if reused { TIME_WAIT_REUSED_S } else { TIME_WAIT_S };
    let waiting = load.closed_by_client_s() * wait_s;
    let (severity, needed) = match available {
        _ if available < load.connections => (Severity::Certain, load.connections),
        _ if available < load.connections + waiting => (Severity::Possible, load.connections + waiting),
        _ => return None,
    };
    let mut remedies = Vec::new();
    if load.source_ports.is_some() {
        let ports = needed.div_ceil(tuples);
        remedies.push(format!("--source-port-range with {ports} ports"));
    } else if limits.ports < 64_000 {
        remedies.push("sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"".to_owned());
    }
    if waiting > 0 && !reused {
        remedies.push("sysctl -w net.ipv4.tcp_tw_reuse=1".to_owned());
    }
    let sources = needed.div_ceil(load.source_ports.unwrap_or(limits.ports.max(64_000)) * destinations);
    if sources > load.sources || remedies.is_empty() {
        let sources = sources.max(load.sources + 1);
        remedies
            .push(format!("--source with {sources} local addresses (127.0.0.2, 127.0.0.3 … on loopback)"));
    }
    Some(Shortage { resource: Resource::Ports, severity, needed, available, remedy: remedies.join("; ") })
}

fn listen_queue(load: &Load, limits: &Limits) -> Option<Shortage> {
    let backlog = load.embedded_backlog.filter(|_| !load.over_udp)?;
    let (needed, available) = (load.connections, backlog.min(limits.somaxconn));
    if needed <= available {
        return None;
    }
    let wanted = round_up(needed);
    let mut remedies = Vec::new();
    if backlog < needed {
        remedies.push(format!("--server-backlog {wanted}"));
    }
    if limits.somaxconn < needed {
        remedies.push(format!("sysctl -w net.core.somaxconn={wanted}"));
    }
    let remedy = remedies.join("; ");
    Some(Shortage {
        resource: Resource::ListenQueue,
        severity: Severity::Possible,
        needed,
        available,
        remedy,
    })
}

fn memory(load: &Load, limits: &Limits) -> Option<Shortage> {
    let server = if load.embedded_backlog.is_some() { SERVER_MEMORY_PER_CONNECTION } else { 0 };
    let sockets = if load.loopback { 2 } else { 1 } * KERNEL_MEMORY_PER_SOCKET;
    let needed = load.connections * (MEMORY_PER_CONNECTION[usize::from(load.over_udp)] + server + sockets)
        + load.metrics_bytes
        + load.record_bytes
        + load.fileset_bytes;
    let available = limits.memory_bytes;
    if needed <= available {
        return None;
    }
    let remedy = if load.fileset_bytes > available / 2 {
        "serve the fileset from a directory (webstone genfiles, then --server-root DIR), or use fewer clients"
            .to_owned()
    } else if load.record_bytes > available / 2 {
        "run fewer levels and iterations at once, or give --page-histograms 0".to_owned()
    } else {
        "use fewer clients, or --page-histograms 0".to_owned()
    };
    Some(Shortage { resource: Resource::Memory, severity: Severity::Possible, needed, available, remedy })
}

/// The next power of two, as people set limits by hand.
fn round_up(needed: u64) -> u64 {
    needed.next_power_of_two().max(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::spec::Levels;

    const LINUX: Limits =
        Limits { descriptors: 1024, ports: 28_232, tw_reuse: 2, somaxconn: 4096, memory_bytes: 8 << 30 };

    fn load(clients: u32, policy: ConnectionPolicy) -> Load {
        let mut spec = RunSpec::default();
        spec.load.clients = Levels(vec![1, clients, 2]);
        spec.client.connections = policy;
        spec.generator.workers = 1;
        spec.target = vec!["http://192.0.2.1".into()];
        Load { workers_own_descriptors: false, ..Load::of_spec(&spec, 5, 1, false) }
    }

    fn found(load: &Load, limits: Limits) -> Vec<(Resource, Severity, u64, u64)> {
        let rows = shortages(load, &limits);
        rows.into_iter().map(|s| (s.resource, s.severity, s.needed, s.available)).collect()
    }

    #[test]
    fn a_small_run_fits_an_ordinary_machine() {
        assert_eq!(found(&load(40, ConnectionPolicy::PerRequest), LINUX), []);
        assert_eq!(found(&load(900, ConnectionPolicy::KeepAlive), LINUX), []);
    }

    #[test]
    fn a_load_that_other_hosts_make_needs_nothing_of_this_one() {
        let mut elsewhere = load(40_000, ConnectionPolicy::KeepAlive);
        assert_eq!(found(&elsewhere, LINUX).len(), 2, "open files and ports");
        elsewhere.is_made_elsewhere();
        assert_eq!(found(&elsewhere, LINUX), []);
        // The embedded server has the other ends of the connections.
        let mut ours = Load { embedded_backlog: Some(4096), ..load(40_000, ConnectionPolicy::KeepAlive) };
        ours.is_made_elsewhere();
        let resources: Vec<Resource> = found(&ours, LINUX).into_iter().map(|it| it.0).collect();
        assert!(resources.contains(&Resource::Descriptors) && !resources.contains(&Resource::Ports));
    }

    #[test]
    fn descriptors_are_counted_to_the_last_one() {
        use ConnectionPolicy::{KeepAlive, PerRequest};
        // 64 fixed and 8 for the worker.
        assert_eq!(found(&load(952, KeepAlive), LINUX), []);
        assert_eq!(
            found(&load(953, KeepAlive), LINUX),
            [(Resource::Descriptors, Severity::Certain, 1025, 1024)]
        );
        // A lingering one for each in use may be needed.
        assert_eq!(found(&load(476, PerRequest), LINUX), []);
        assert_eq!(
            found(&load(477, PerRequest), LINUX),
            [(Resource::Descriptors, Severity::Possible, 1026, 1024)]
        );
        let mut parallel = load(100, KeepAlive);
        parallel.connections *= 10;
        assert_eq!(found(&parallel, LINUX), [(Resource::Descriptors, Severity::Certain, 1072, 1024)]);
    }

    #[test]
    fn workers_with_tables_of_their_own_need_their_share_each() {
        let mut own = Load { workers_own_descriptors: true, ..load(20_000, ConnectionPolicy::KeepAlive) };
        own.workers = 21;
        // 953 connections at most, 64 fixed and 8 for the worker.
        assert_eq!(found(&own, LINUX), [(Resource::WorkerDescriptors, Severity::Certain, 1025, 1024)]);
        let shortage = shortages(&own, &LINUX).remove(0);
        assert_eq!(shortage.to_string(), "each worker needs 1025 open files, but only 1024 are allowed");
        assert!(shortage.remedy.ends_with("more workers or fewer clients"));
        own.workers = 22;
        assert_eq!(found(&own, LINUX), []);
        own.embedded_backlog = Some(1 << 20);
        let needed = 20_000 + 64 + 22 * 8;
        let embedded = found(&own, Limits { somaxconn: 1 << 20, ..LINUX });
        assert_eq!(embedded[0], (Resource::Descriptors, Severity::Certain, needed, 1024));
    }

    #[test]
    fn the_remedy_covers_lingering_ones_as_well() {
        let shortage = shortages(&load(20_000, ConnectionPolicy::PerRequest), &LINUX).remove(0);
        assert_eq!(shortage.to_string(), "the run needs 20072 open files, but only 1024 are allowed");
        assert!(shortage.remedy.starts_with("ulimit -n 65536"), "{}", shortage.remedy);
    }

    #[test]
    fn ports_are_counted_for_each_pair_of_addresses() {
        let limits = Limits { descriptors: 1 << 20, ..LINUX };
        let mut many = load(28_233, ConnectionPolicy::KeepAlive);
        assert_eq!(found(&many, limits), [(Resource::Ports, Severity::Certain, 28_233, 28_232)]);
        let remedy = shortages(&many, &limits).remove(0).remedy;
        assert_eq!(remedy, "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"");
        many.sources = 2;
        assert_eq!(found(&many, limits), []);
        many.sources = 1;
        many.destinations = 0;
        assert_eq!(found(&many, limits), [], "a Unix socket has no ports");
    }

    #[test]
    fn a_range_of_ports_is_all_that_there_is() {
        let mut few = Load { source_ports: Some(10), ..load(11, ConnectionPolicy::KeepAlive) };
        assert_eq!(found(&few, LINUX), [(Resource::Ports, Severity::Certain, 11, 10)]);
        let remedy = shortages(&few, &LINUX).remove(0).remedy;
        assert_eq!(
            remedy,
            "--source-port-range with 11 ports; --source with 2 local addresses (127.0.0.2, 127.0.0.3 … on loopback)"
        );
        few.connections = 10;
        assert_eq!(found(&few, LINUX), []);
    }

    #[test]
    fn more_than_one_range_needs_more_addresses() {
        let limits = Limits { descriptors: 1 << 20, ports: 64_512, ..LINUX };
        let remedy = shortages(&load(200_000, ConnectionPolicy::KeepAlive), &limits).remove(0).remedy;
        assert!(remedy.starts_with("--source with 4 local addresses"), "{remedy}");
    }

    #[test]
    fn time_wait_counts_where_the_client_closes_first() {
        let mut limited = load(10, ConnectionPolicy::KeepAlive);
        limited.requests_per_connection = Some(100);
        // 2,500 connections a second for 60 s.
        assert_eq!(found(&limited, LINUX), [(Resource::Ports, Severity::Possible, 150_010, 28_232)]);
        let remedy = shortages(&limited, &LINUX).remove(0).remedy;
        assert!(remedy.contains("tcp_tw_reuse=1"), "{remedy}");
        limited.loopback = true;
        assert_eq!(found(&limited, LINUX), [], "on loopback, ports come back after a second");
        limited.loopback = false;
        limited.reset = true;
        assert_eq!(found(&limited, LINUX), [], "a reset leaves no TIME_WAIT");
    }

    #[test]
    fn udp_has_its_ports_for_all_destinations_and_no_time_wait() {
        let limits = Limits { descriptors: 1 << 20, ..LINUX };
        let mut many = Load { over_udp: true, ..load(28_233, ConnectionPolicy::KeepAlive) };
        many.destinations = 2;
        assert_eq!(found(&many, limits), [(Resource::Ports, Severity::Certain, 28_233, 28_232)]);
        many.sources = 2;
        assert_eq!(found(&many, limits), []);
        let mut brief = load(10, ConnectionPolicy::PerRequest);
        brief.has_streams = true;
        assert_eq!(found(&brief, LINUX)[0].0, Resource::Ports, "the client closes first");
        brief.over_udp = true;
        brief.embedded_backlog = Some(1);
        assert_eq!(found(&brief, LINUX), [], "nor a listen queue");
    }

    #[test]
    fn the_listen_queue_is_the_smaller_of_both() {
        let mut embedded = load(500, ConnectionPolicy::KeepAlive);
        embedded.embedded_backlog = Some(4096);
        assert_eq!(found(&embedded, LINUX), []);
        let narrow = Limits { somaxconn: 128, ..LINUX };
        assert_eq!(found(&embedded, narrow), [(Resource::ListenQueue, Severity::Possible, 500, 128)]);
        assert_eq!(shortages(&embedded, &narrow)[0].remedy, "sysctl -w net.core.somaxconn=1024");
        embedded.embedded_backlog = Some(64);
        assert_eq!(shortages(&embedded, &LINUX)[0].remedy, "--server-backlog 1024");
    }

    #[test]
    fn memory_counts_connections_metrics_and_files() {
        let mut heavy = load(10, ConnectionPolicy::KeepAlive);
        heavy.metrics_bytes = 0;
        heavy.record_bytes = 0;
        // Three levels of one iteration, 26 distributions each.
        assert_eq!(load(10, ConnectionPolicy::KeepAlive).record_bytes, 3 * 26 * MEMORY_PER_HISTOGRAM);
        let per_connection = MEMORY_PER_CONNECTION[0] + KERNEL_MEMORY_PER_SOCKET;
        let limits = Limits { memory_bytes: 10 * per_connection, ..LINUX };
        assert_eq!(found(&heavy, limits), []);
        heavy.fileset_bytes = 1;
        let short = found(&heavy, limits);
        assert_eq!(
            short,
            [(Resource::Memory, Severity::Possible, 10 * per_connection + 1, 10 * per_connection)]
        );
    }

    #[test]
    fn what_cannot_work_is_told_first() {
        let mut load = load(2_000, ConnectionPolicy::KeepAlive);
        load.embedded_backlog = Some(1);
        load.metrics_bytes = 16 << 30;
        let severities: Vec<Severity> = found(&load, LINUX).into_iter().map(|row| row.1).collect();
        assert_eq!(severities, [Severity::Certain, Severity::Possible, Severity::Possible]);
    }
}
