//! Tests of which resource limits, and by which evidence.

use serde_json::json;

use super::super::tests::{SECOND, changed};
use super::*;
use crate::verdict::Standing;
use webstone_measure::rate::{Rate, RateProfile, Rates};
use webstone_model::record::{
    AgentRecord, CpuUse, DirectionUse, HostUse, OriginRecord, OriginUse, OthersUse, PathUse, ProcessUse,
    ScheduleKept, ServerHostUse, ServerUse, TcpUse, ThreadUse,
};
use webstone_model::spec::{HttpVersion, Levels};

/// A run of 20 clients, the server on CPU 0 or as it is changed to.
fn limit_of(change: impl Fn(&mut RunRecord, &mut IterationRecord)) -> Limit {
    let verdict = changed(|record| {
        record.spec.load.clients = Levels(vec![20]);
        record.iterations.retain(|run| run.clients == 20);
        let mut runs = std::mem::take(&mut record.iterations);
        runs.iter_mut().for_each(|run| change(record, run));
        record.iterations = runs;
    });
    assert_eq!(verdict.level_limits.len(), 1);
    assert_eq!(verdict.level_limits[0].limit, verdict.limit);
    verdict.limit
}

#[track_caller]
fn limited(
    change: impl Fn(&mut RunRecord, &mut IterationRecord),
    resource: LimitingResource,
    sentence: &str,
) {
    let limit = limit_of(change);
    assert_eq!((limit.resource, limit.sentence.as_str()), (resource, sentence));
}

/// Seconds of the 600 that were used: by the server, by interrupts and by other programs on CPU 0, by the generator on CPU 1.
fn used(run: &mut IterationRecord, server: u64, interrupts: u64, others: u64, generator: u64) {
    run.server = Some(ServerUse { user_ns: server * SECOND, ..ServerUse::default() });
    run.measured.counts.busy_ns = 20 * 600 * SECOND;
    run.measured.generator.workers[0].user_ns = generator * SECOND;
    let cpu = |cpu, program: u64, interrupts: u64| CpuUse {
        cpu,
        busy_ns: (program + interrupts) * SECOND,
        user_ns: program * SECOND,
        interrupt_ns: interrupts * SECOND,
        idle_ns: (600 - program - interrupts) * SECOND,
        ..CpuUse::default()
    };
    let host = run.host.as_mut().unwrap();
    // What does not fit on the first CPU runs on the second.
    let first = (server + others).min(600 - interrupts);
    host.cpus = vec![cpu(0, first, interrupts), cpu(1, generator + server + others - first, 0)];
    host.links.clear();
}

/// The server's threads: each with its name, its seconds of CPU time and of waiting for it. They are of process 7.
fn threads(run: &mut IterationRecord, threads: &[(&str, u64, u64)]) {
    let of = |(place, (name, cpu_s, waited_s)): (usize, &(&str, u64, u64))| ThreadUse {
        process: 7,
        thread: 7 + place as u32,
        name: (*name).to_owned(),
        cpu_ns: cpu_s * SECOND,
        run_queue_ns: waited_s * SECOND,
    };
    let busiest: Vec<ThreadUse> = threads.iter().enumerate().map(of).collect();
    let run_queue_ns = Some(busiest.iter().map(|thread| thread.run_queue_ns).sum());
    let threads_cpu_ns = Some(busiest.iter().map(|thread| thread.cpu_ns).sum());
    let processes = ProcessUse {
        busiest,
        run_queue_ns,
        threads_cpu_ns,
        threads_max: threads.len() as u64,
        ..ProcessUse::default()
    };
    run.server.as_mut().unwrap().processes = Some(processes);
}

#[test]
fn a_cpu_at_its_ceiling_is_the_bottleneck() {
    limited(
        |_, run| used(run, 594, 0, 0, 300),
        LimitingResource::Server,
        "The server's CPU is the bottleneck at 20 clients: the server used 99 % of its 1 CPU (the generator's \
         worker used 50 % of CPU 1).",
    );
    limited(
        |_, run| used(run, 400, 190, 0, 300),
        LimitingResource::Server,
        "The server's CPU is the bottleneck at 20 clients: the server used 67 % of its 1 CPU, and with 32 % \
         in interrupts 98 % were busy in all.",
    );
    limited(
        |_, run| used(run, 300, 0, 0, 580),
        LimitingResource::Generator,
        "The load generator is the bottleneck at 20 clients: the generator's worker used 97 % of CPU 1. What \
         the server can do beyond that is unknown.",
    );
    limited(
        |_, run| {
            used(run, 60, 0, 0, 300);
            run.measured.generator.workers[0].run_queue_ns = Some(270 * SECOND);
        },
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: the generator's worker used 50 % of CPU 1 and waited \
         for it 45 % of the time.",
    );
    limited(
        |_, run| {
            used(run, 360, 0, 0, 300);
            let link = webstone_model::record::LinkUse {
                name: "eth0".into(),
                speed_bps: Some(SECOND),
                received_bytes: 600 * 117_000_000,
                ..Default::default()
            };
            run.host.as_mut().unwrap().links = vec![link];
        },
        LimitingResource::Network,
        "The network is the bottleneck at 20 clients: eth0 received 936 Mbit/s, 94 % of the link's 1000 (the \
         generator's worker used 50 % of CPU 1, the server used 60 % of its 1 CPU).",
    );
}

#[test]
fn a_thread_at_its_ceiling_is_named() {
    let on_two = |record: &mut RunRecord| record.target.cpus = vec![0, 1];
    // The figures of one worker of nginx on two CPUs: 47 % of both, which is 94 % of one.
    limited(
        |record, run| {
            on_two(record);
            used(run, 564, 0, 0, 30);
            threads(run, &[("nginx", 564, 6), ("nginx", 0, 0)]);
        },
        LimitingResource::ServerThread,
        "A single thread of the server is the bottleneck at 20 clients: `nginx` (process 7) used 94 % of a \
         CPU; the server used 47 % of its 2 CPUs (the generator's worker used 5 % of CPU 1). One thread \
         cannot use more than one CPU.",
    );
    // The same without figures of threads: all of it may have been one's.
    limited(
        |record, run| {
            on_two(record);
            used(run, 564, 0, 0, 30);
        },
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: no CPU was clearly at its limit, but server and generator \
         were not mostly idle either; the server used 47 % of its 2 CPUs, its busiest \
         CPU was busy 94 % of the time, the generator's worker used 5 % of CPU 1, 1 % of what it can do by \
         its calibration.",
    );
    // As many threads as CPUs.
    limited(
        |record, run| {
            on_two(record);
            used(run, 1110, 0, 0, 30);
            threads(run, &[("nginx", 560, 6), ("nginx", 550, 0)]);
        },
        LimitingResource::Server,
        "The server's CPU is the bottleneck at 20 clients: the server used 92 % of its 2 CPUs, its busiest \
         thread 93 % of one (the generator's worker used 5 % of CPU 1).",
    );
    // Two that share one of the two CPUs, and nobody else there.
    limited(
        |record, run| {
            record.target.cpus = vec![0, 2];
            used(run, 540, 0, 0, 30);
            threads(run, &[("a", 275, 300), ("b", 265, 310)]);
        },
        LimitingResource::ServerThread,
        "Threads of the server that share a CPU are the bottleneck at 20 clients: `a` (process 7) used 46 % \
         of a CPU and waited for it 50 % of the time; the server used 45 % of its 2 CPUs.",
    );
    // A quota, beneath which both CPUs look idle.
    limited(
        |record, run| {
            on_two(record);
            used(run, 120, 0, 0, 30);
            threads(run, &[("a", 120, 3)]);
            run.server.as_mut().unwrap().processes.as_mut().unwrap().throttled_ns = Some(450 * SECOND);
        },
        LimitingResource::Server,
        "The CPU quota of the server's control group is the bottleneck at 20 clients: it throttled the server \
         for 75 % of the time; the server used 10 % of its 2 CPUs, its busiest thread 20 % of one (the \
         generator's worker used 5 % of CPU 1).",
    );
}

#[test]
fn what_others_took_is_no_limit_of_the_server() {
    limited(
        |_, run| used(run, 200, 0, 380, 300),
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: other programs ran on the server's CPUs; the server \
         used 33 % of its 1 CPU, its busiest CPU was busy 97 % of the time, other programs used 63 % of its \
         CPUs, the generator's worker used 50 % of CPU 1, 1 % of what it can do by its calibration.",
    );
    // Its only thread waited for its CPU because of them.
    limited(
        |_, run| {
            used(run, 300, 0, 60, 150);
            threads(run, &[("nginx", 300, 260)]);
        },
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: other programs ran on the server's CPUs; the server \
         used 50 % of its 1 CPU, its threads waited for a CPU 43 % of the time in all, its busiest CPU was busy 60 % of the time, other programs used 10 % of its \
         CPUs, the generator's worker used 25 % of CPU 1, 1 % of what it can do by its calibration.",
    );
    limited(
        |_, run| {
            used(run, 30, 0, 0, 30);
            run.host.as_mut().unwrap().cpus[0].stolen_ns = 80 * SECOND;
        },
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: the hypervisor gave 12 % of CPU 0 to others; the server \
         used 5 % of its 1 CPU, its busiest CPU was busy 16 % of the time, the generator's worker used 5 % of \
         CPU 1, 1 % of what it can do by its calibration.",
    );
    limited(
        |record, run| {
            record.target.cpus = vec![0, 1];
            used(run, 360, 0, 0, 300);
            run.host.as_mut().unwrap().cpus[1] =
                CpuUse { cpu: 1, busy_ns: 594 * SECOND, idle_ns: 6 * SECOND, ..CpuUse::default() };
        },
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: server and generator share CPU 1, which was 99 % busy; \
         the server used 30 % of its 2 CPUs, its busiest CPU was busy 60 % of the time, other programs used 24 \
         % of its CPUs, the generator's worker used 50 % of CPU 1, 1 % of what it can do by its calibration.",
    );
}

#[test]
fn only_what_the_servers_own_sockets_dropped_is_told_of_it() {
    let of = |listener_drops: Option<u64>| {
        let limit = limit_of(|_, run| {
            used(run, 60, 6, 0, 60);
            let host = run.host.as_mut().unwrap();
            host.tcp = Some(TcpUse { listen_overflows: 3, ..TcpUse::default() });
            host.listener_drops = listener_drops;
        });
        limit.sentence.split("Also seen: ").nth(1).unwrap().to_owned()
    };
    assert!(
        of(None).starts_with("this host's kernel counted 12 accept-queue overflows of any program and 0 of")
    );
    let own = "the server's listening sockets dropped 8 connection requests, this host's kernel counted 0 of";
    assert!(of(Some(2)).starts_with(own), "{}", of(Some(2)));
}

#[test]
fn of_http3_it_is_told_what_sockets_of_udp_dropped() {
    let of = |datagram_drops: Option<u64>| {
        let limit = limit_of(|record, run| {
            record.spec.client.http = HttpVersion::Http3;
            used(run, 60, 6, 0, 60);
            let host = run.host.as_mut().unwrap();
            (host.tcp, host.datagram_drops) = (Some(TcpUse::default()), datagram_drops);
        });
        limit.sentence
    };
    let own = of(Some(2));
    assert!(!own.contains("calibration"), "that is of HTTP/1: {own}");
    assert!(
        own.contains("the server's UDP sockets dropped 8 datagrams") && !own.contains("segments"),
        "{own}"
    );
    assert!(!of(Some(0)).contains("UDP sockets dropped 8"), "{}", of(Some(0)));
}

/// A server of this host, whose CPU others keep busy.
fn beside_others(run: &mut IterationRecord, used_s: u64, waited_s: u64) {
    used(run, used_s, 0, 600 - used_s - 10, 60);
    threads(run, &[("slow", used_s, waited_s)]);
    let host = run.host.as_mut().unwrap();
    host.others = Some(OthersUse { cpu_ns: (600 - used_s - 10) * SECOND, ..OthersUse::default() });
}

#[test]
fn a_server_that_neither_ran_nor_waited_lacked_no_cpu_whatever_had_them() {
    let of = |used_s, waited_s| {
        limit_of(move |record, run| {
            record.environment.insert("target.this_host".into(), json!(true));
            record.target.embedded = true;
            beside_others(run, used_s, waited_s);
        })
    };
    let idle = of(18, 6);
    assert_eq!(idle.resource, LimitingResource::None, "{}", idle.sentence);
    assert!(idle.sentence.contains("a lock, a queue, a rate limit"), "{}", idle.sentence);
    assert!(idle.sentence.contains("its threads waited for a CPU 1 % of the time"), "{}", idle.sentence);
    // It lost 5 % of its CPU, which is why the run is INVALID, and still lacked none.
    let disturbed = of(18, 36);
    assert_eq!(disturbed.resource, LimitingResource::None, "{}", disturbed.sentence);
    // What waited for a CPU most of the time may have been limited by that.
    assert_eq!(of(18, 300).resource, LimitingResource::Unknown);
    // Of threads that ended, nobody knows whether they waited.
    let ended = limit_of(|record, run| {
        record.environment.insert("target.this_host".into(), json!(true));
        record.target.embedded = true;
        beside_others(run, 18, 6);
        run.server.as_mut().unwrap().user_ns = 36 * SECOND;
    });
    assert_eq!(ended.resource, LimitingResource::Unknown, "{}", ended.sentence);
}

#[test]
fn nothing_is_ruled_out_that_was_not_demonstrably_idle() {
    limited(
        |_, run| used(run, 360, 30, 0, 300),
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: no CPU was clearly at its limit, but server and generator \
         were not mostly idle either; the server used 60 % of its 1 CPU, its busiest \
         CPU was busy 65 % of the time, the generator's worker used 50 % of CPU 1, 1 % of what it can do by \
         its calibration.",
    );
    limited(
        |_, run| {
            run.server = None;
            run.host = None;
        },
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: the CPU time of the server was not measured; the \
         kernel's counters were not read; the generator's worker used 50 % of CPU 1, 1 % of what it can do by \
         its calibration.",
    );
    limited(
        |_, run| used(run, 60, 6, 0, 60),
        LimitingResource::None,
        "Neither CPU nor network is the bottleneck at 20 clients: the server used 10 % of its 1 CPU, its \
         busiest CPU was busy 11 % of the time, the generator's worker used 10 % of CPU 1, 1 % of what it can \
         do by its calibration. Answers wait for a lock, a queue, a rate limit, a disk, a backend or a setting of the \
         server; or the clients are too few to keep it busy. Also seen: this host's kernel counted 0 \
         accept-queue overflows of any program and 0 of 20000 segments retransmitted (0 of them SYN).",
    );
    // Clients that think.
    limited(
        |_, run| {
            used(run, 60, 6, 0, 60);
            run.measured.counts.busy_ns = 200 * SECOND;
        },
        LimitingResource::Unknown,
        "The bottleneck at 20 clients is unknown: only 0.3 requests were in progress on average; the \
         server used 10 % of its 1 CPU, its busiest CPU was busy 11 % of the time, the generator's worker \
         used 10 % of CPU 1, 1 % of what it can do by its calibration.",
    );
    limited(
        |_, run| {
            used(run, 60, 6, 0, 60);
            threads(run, &[("php-fpm", 30, 0), ("php-fpm", 30, 0)]);
            run.host.as_mut().unwrap().tcp =
                Some(TcpUse { listen_overflows: 3, segments_sent: 5_000, ..TcpUse::default() });
            let processes = run.server.as_mut().unwrap().processes.as_mut().unwrap();
            (processes.faults_major, processes.disk_read_bytes) = (6_000, Some(600 * 4_500_000));
            processes.disk_wait_ns = Some(120 * SECOND);
        },
        LimitingResource::None,
        "Neither CPU nor network is the bottleneck at 20 clients: the server used 10 % of its 1 CPU, its \
         busiest CPU was busy 11 % of the time, the generator's worker used 10 % of CPU 1, 1 % of what it can \
         do by its calibration. Answers wait for a lock, a queue, a rate limit, a disk, a backend or a setting of the \
         server; or the clients are too few to keep it busy. Also seen: this host's kernel counted 12 \
         accept-queue overflows of any program and 0 of 20000 segments retransmitted (0 of them SYN), disks read 4500.0 kB/s \
         for the server, 10.0 page faults per second waited for a disk, the server waited for a disk 20 % of the time, 20.0 \
         requests in progress for 2 threads of the server.",
    );
}

#[test]
fn a_rate_that_stays_the_same_shows_that_clients_do_not_lack() {
    let verdict = changed(|record| {
        record.iterations.iter_mut().for_each(|run| used(run, 60, 6, 0, 60));
    });
    let of = |clients: u32| {
        let found = verdict.level_limits.iter().find(|it| it.clients == clients).unwrap();
        found.limit.sentence.clone()
    };
    assert!(of(20).contains("or the clients are too few to keep it busy"), "{}", of(20));
    assert!(
        of(30).contains("setting of the server is the limit: 20 clients had the same rate to within 5 %"),
        "{}",
        of(30)
    );
}

#[test]
fn an_offered_rate_that_was_served_is_the_limit() {
    let open_loop = |record: &mut RunRecord, run: &mut IterationRecord, queued: u64| {
        used(run, 590, 0, 0, 300);
        let rate = RateProfile::constant(Rate::per_second(1000));
        record.spec.load.rate = Some(Rates(vec![rate]));
        run.rate = Some(rate);
        let arrivals = webstone_measure::metrics::OpenLoop {
            planned: 600_000,
            started: 600_000 - queued,
            queued,
            ..Default::default()
        };
        run.schedule = Some(ScheduleKept {
            asked_rate: 1000.0,
            offered_rate: (600_000 - queued) as f64 / 600.0,
            ..ScheduleKept::default()
        });
        run.measured.open_loop = Some(arrivals);
        run.measured.counts.started = 600_000 - queued;
    };
    limited(
        |record, run| open_loop(record, run, 0),
        LimitingResource::OfferedRate,
        "The offered rate is the limit at 1,000 arrivals/s: the server kept up with it (the server used 98 % \
         of its 1 CPU, the generator's worker used 50 % of CPU 1).",
    );
    limited(
        |record, run| open_loop(record, run, 30_000),
        LimitingResource::Server,
        "The server's CPU is the bottleneck at 1,000 arrivals/s: the server used 98 % of its 1 CPU (the \
         generator's worker used 50 % of CPU 1).",
    );
}

/// A proxy on CPU 0 whose origin has `cpus`, both with this many seconds of CPU time.
#[track_caller]
fn limited_proxy(cpus: &[u32], proxy_s: u64, origin_s: u64, resource: LimitingResource, sentence: &str) {
    let used = |seconds: u64| ServerUse { user_ns: seconds * SECOND, ..ServerUse::default() };
    let verdict = changed(|record| {
        record.spec.load.clients = Levels(vec![20]);
        record.target.origin = Some(OriginRecord { cpus: cpus.to_vec(), ..OriginRecord::default() });
        record.iterations.retain(|run| run.clients == 20);
        for run in &mut record.iterations {
            run.server = Some(used(proxy_s));
            run.origin = Some(OriginUse { server: Some(used(origin_s)), counted: None });
            run.host.as_mut().unwrap().links.clear();
        }
    });
    assert_eq!((verdict.limit.resource, verdict.limit.sentence.as_str()), (resource, sentence));
}

#[test]
fn an_origin_at_its_limit_is_told_from_its_proxy() {
    limited_proxy(
        &[2, 3],
        240,
        1188,
        LimitingResource::Origin,
        "The origin is the bottleneck at 20 clients: the origin used 99 % of its 2 CPUs (the proxy used 40 % of its 1 CPU). \
         What the proxy can do beyond that is unknown.",
    );
    limited_proxy(
        &[2],
        588,
        60,
        LimitingResource::Server,
        "The server's CPU is the bottleneck at 20 clients: the proxy used 98 % of its 1 CPU (the origin used 10 % of its 1 CPU, the generator's \
         worker used 50 % of CPU 1).",
    );
    limited_proxy(
        &[0],
        240,
        348,
        LimitingResource::Origin,
        "The origin, more than the proxy, is the bottleneck at 20 clients: they share CPUs, the origin used 58 % of its 1 CPU and the \
         proxy used 40 % of its 1 CPU. What the proxy can do beyond that is unknown.",
    );
    limited_proxy(
        &[0],
        480,
        90,
        LimitingResource::Server,
        "The proxy's CPU, more than the origin's, is the bottleneck at 20 clients: they share CPUs, the origin used 15 % of its 1 CPU \
         and the proxy used 80 % of its 1 CPU.",
    );
}

#[test]
fn a_strange_server_on_this_host_is_seen_by_the_cpus_left_to_it() {
    let verdict = changed(|record| {
        record.environment.insert("target.this_host".into(), json!(true));
        record.target.cpus.clear();
        for run in &mut record.iterations {
            run.server = None;
            let host = run.host.as_mut().unwrap();
            host.links.clear();
            let cpu = |cpu, busy_s: u64| CpuUse {
                cpu,
                busy_ns: busy_s * SECOND,
                idle_ns: (600 - busy_s) * SECOND,
                ..CpuUse::default()
            };
            host.cpus = vec![cpu(0, 590), cpu(1, 300)];
        }
    });
    assert_eq!(verdict.limit.resource, LimitingResource::Unknown);
    assert!(
        verdict
            .limit
            .sentence
            .contains("what was left to it, 1 CPU, was busy 98 % of the time, for it or for others"),
        "{}",
        verdict.limit.sentence
    );
}

#[test]
fn a_server_elsewhere_is_judged_by_what_its_agent_read() {
    let verdict = changed(|record| {
        record.spec.disclosure.remove("server.host");
        let facts = json!({ "cpu.model": "Example", "memory.bytes": 1, "kernel.release": "7", "sysctl": {} });
        record.environment.insert("server.environment".into(), facts);
        record.environment.insert("target.same_machine".into(), json!(false));
        // Two CPUs there, in an interval that is longer than the window; CPU 0 here is nobody's.
        record.target.agents = vec![AgentRecord { cpus: vec![4, 5], ..AgentRecord::default() }];
        for run in &mut record.iterations {
            run.server = Some(ServerUse { user_ns: 1_212 * SECOND, ..ServerUse::default() });
            let tcp = Some(TcpUse { listen_overflows: 1, ..TcpUse::default() });
            let host = HostUse { elapsed_ns: 606 * SECOND, tcp, ..HostUse::default() };
            run.server_hosts = vec![ServerHostUse { host, ..ServerHostUse::default() }];
        }
    });
    assert_eq!((verdict.standing, verdict.limit.resource), (Standing::Valid, LimitingResource::Server));
    assert!(
        verdict.limit.sentence.contains("the server used 100 % of its 2 CPUs"),
        "{}",
        verdict.limit.sentence
    );
}

#[test]
fn the_relay_of_a_path_is_named_where_it_has_no_more() {
    let with = |cpu_percent: u64| {
        limit_of(|record, run| {
            used(run, 6, 0, 0, 6);
            record.spec.server.path = Some("rtt=40ms".parse().unwrap());
            let to_clients = DirectionUse { packets: 600 * 100_000, ..DirectionUse::default() };
            let (elapsed_ns, cpu_ns) = (600 * SECOND, 6 * cpu_percent * SECOND);
            run.host.as_mut().unwrap().path =
                Some(PathUse { elapsed_ns, cpu_ns, to_clients, ..PathUse::default() });
        })
    };
    let full = with(95);
    assert_eq!(full.resource, LimitingResource::Network);
    let said = "The relay of the path is the bottleneck at 20 clients: the path's relay used 95 % of a CPU for 100000 packets/s (";
    assert!(full.sentence.starts_with(said), "{}", full.sentence);
    let idle = with(5);
    assert_ne!(idle.resource, LimitingResource::Network);
    assert!(idle.sentence.contains("the path's relay used 5 % of a CPU"), "{}", idle.sentence);
}

#[test]
fn the_clients_own_lines_are_named_where_they_are_full() {
    // 20 clients of 14.4 kbit/s bring 36,000 bytes per second.
    let with = |bytes: u64| {
        limit_of(|record, run| {
            used(run, 6, 0, 0, 6);
            record.spec.client.bandwidth = Some("14.4k".parse().unwrap());
            run.measured.response.sum = 20 * 600 * SECOND;
            run.measured.response_bytes.sum = bytes * 600;
        })
    };
    let full = with(34_900);
    assert_eq!(full.resource, LimitingResource::Network);
    let said = "The bandwidth of the clients is the bottleneck at 20 clients: 14.4 kbit/s for each, 97 % of it used while answers were due (";
    assert!(full.sentence.starts_with(said), "{}", full.sentence);
    assert_ne!(with(30_000).resource, LimitingResource::Network);
}

#[test]
fn the_peak_is_a_level_whose_figures_count() {
    let mut record = webstone_model::fixture::record("r", &[(10, &[1000.0]), (20, &[2000.0])]);
    let at = |record: &RunRecord, clients: &str| {
        crate::verdict::of_record(record).limit.sentence.contains(clients)
    };
    assert!(at(&record, "at 20 clients"));
    record.iterations[1].measured.counts.failed = 100_000;
    assert!(at(&record, "at 10 clients"), "{:?}", crate::verdict::of_record(&record).limit);
}
