//! Tests of which resource limits, and by which evidence.

use serde_json::json;

use super::tests::{SECOND, changed};
use super::*;
use crate::record::{
    AgentRecord, CpuUse, HostUse, IterationRecord, OriginRecord, OriginUse, ServerHostUse, ServerUse, TcpUse,
};
use crate::spec::Levels;

#[track_caller]
fn limited(change: impl Fn(&mut IterationRecord), resource: LimitingResource, sentence: &str) {
    let verdict = changed(|record| {
        record.spec.load.clients = Levels(vec![20]);
        record.iterations.retain(|run| run.clients == 20);
        record.iterations.iter_mut().for_each(change);
    });
    assert_eq!((verdict.limit.resource, verdict.limit.sentence.as_str()), (resource, sentence));
    assert_eq!(verdict.level_limits, [LevelLimit { clients: 20, rate: None, limit: verdict.limit.clone() }]);
}

#[test]
fn other_programs_on_the_servers_cpus_are_no_limit_of_the_server() {
    let busy = |run: &mut IterationRecord, own: u64| {
        run.server = Some(ServerUse { user_ns: own * SECOND, ..ServerUse::default() });
        if let Some(host) = &mut run.host {
            host.cpus = vec![
                CpuUse {
                    cpu: 0,
                    busy_ns: 580 * SECOND,
                    idle_ns: 10 * SECOND,
                    stolen_ns: 10 * SECOND,
                    ..CpuUse::default()
                },
                CpuUse { cpu: 1, busy_ns: 300 * SECOND, idle_ns: 300 * SECOND, ..CpuUse::default() },
            ];
        }
    };
    limited(
        |run| busy(run, 60),
        LimitingResource::Unknown,
        "The limiting resource cannot be told: at 20 clients other programs had the server's CPUs: the server used \
         10 % of its 1 CPU, and interrupts and other programs kept them busy for 98 % of the time in all.",
    );
    limited(
        |run| busy(run, 400),
        LimitingResource::Server,
        "The server's CPU limits at 20 clients: the server used 67 % of its 1 CPU, and interrupts and other programs \
         kept them busy for 98 % of the time in all.",
    );
    limited(
        |run| run.measured.generator.workers[0].run_queue_ns = Some(270 * SECOND),
        LimitingResource::Generator,
        "The load generator limits at 20 clients: the generator's worker used 50 % of CPU 1 and waited 45 % of the \
         time for other programs to leave it; what the server could do more is not seen.",
    );
}

#[test]
fn the_limiting_resource_is_told_with_its_evidence() {
    limited(
        |run| {
            run.server =
                Some(ServerUse { user_ns: 300 * SECOND, system_ns: 294 * SECOND, ..ServerUse::default() })
        },
        LimitingResource::Server,
        "The server's CPU limits at 20 clients: the server used 99 % of its 1 CPU (the generator's worker used 50 % of CPU 1, eth0 received 400 Mbit/s, 40 % of the link's 1000).",
    );
    limited(
        |run| run.host.as_mut().unwrap().interfaces[0].received_bytes = 600 * 117_000_000,
        LimitingResource::Network,
        "The network limits at 20 clients: eth0 received 936 Mbit/s, 94 % of the link's 1000 (the generator's worker used 50 % of CPU 1, the server used 60 % of its 1 CPU).",
    );
    limited(
        |run| run.measured.generator.workers[0].user_ns = 580 * SECOND,
        LimitingResource::Generator,
        "The load generator limits at 20 clients: the generator's worker used 97 % of CPU 1; what the \
         server could do more is not seen.",
    );
    limited(
        |run| run.host.as_mut().unwrap().tcp.as_mut().unwrap().listen_overflows = 3,
        LimitingResource::None,
        "Neither server, network nor generator limits at 20 clients: the server used 60 % of its 1 CPU, eth0 received \
         400 Mbit/s, 40 % of the link's 1000, the generator's worker used 50 % of CPU 1, 1 % of what it can do by its \
         calibration; this host's kernel counted 12 listen-queue overflows, 0 of 20000 segments sent again (0 of them SYN). What limits is a lock, a \
         queue or a setting of the server; this was the highest level, and more clients may raise the rate.",
    );
    limited(
        |run| {
            let stolen_ns = 60 * SECOND;
            let cpu =
                |cpu, busy_ns| CpuUse { cpu, busy_ns, idle_ns: 300 * SECOND, stolen_ns, ..CpuUse::default() };
            run.host.as_mut().unwrap().cpus = vec![cpu(0, 240 * SECOND), cpu(1, 340 * SECOND)];
        },
        LimitingResource::Unknown,
        "The limiting resource cannot be told: at 20 clients a hypervisor gave 10 % of CPU 0 to others; the server used 60 % \
         of its 1 CPU, eth0 received 400 Mbit/s, 40 % of the link's 1000, the generator's worker used 50 % of CPU 1, 1 % of what it \
         can do by its calibration.",
    );
    limited(
        |run| {
            run.measured.generator.workers[0].cpu = Some(0);
            let cpu = CpuUse { cpu: 0, busy_ns: 594 * SECOND, idle_ns: 6 * SECOND, ..CpuUse::default() };
            run.host.as_mut().unwrap().cpus = vec![cpu];
        },
        LimitingResource::Unknown,
        "The limiting resource cannot be told: at 20 clients server and generator share CPU 0, which was busy for 99 % of the \
         time: the server used 60 % of its 1 CPU, the generator's worker used 50 % of CPU 0.",
    );
    limited(
        |run| {
            run.server = None;
            run.host = None;
        },
        LimitingResource::Unknown,
        "The limiting resource cannot be told: at 20 clients the CPU of the server was not measured; the generator's worker used 50 % of CPU 1, 1 % of what it can do by its calibration, the kernel's counters were not read.",
    );
}

/// A proxy on CPU 0 whose origin has `cpus`, both with so many seconds of CPU time.
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
            run.host.as_mut().unwrap().interfaces.clear();
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
        "The origin limits at 20 clients, not the proxy: the origin used 99 % of its 2 CPUs (the proxy used 40 % of its 1 CPU); what the \
         proxy could do more is not seen.",
    );
    limited_proxy(
        &[2],
        588,
        60,
        LimitingResource::Server,
        "The server's CPU limits at 20 clients: the proxy used 98 % of its 1 CPU (the origin used 10 % of its 1 CPU, the generator's \
         worker used 50 % of CPU 1).",
    );
    limited_proxy(
        &[0],
        240,
        348,
        LimitingResource::Origin,
        "The origin limits at 20 clients, not the proxy alone: they share CPUs, the origin used 58 % of its 1 CPU and the proxy used 40 % \
         of its 1 CPU; what the proxy could do more is not seen.",
    );
    limited_proxy(
        &[0],
        480,
        90,
        LimitingResource::Server,
        "The server's CPU limits at 20 clients: proxy and origin share CPUs, the proxy used 80 % of its 1 CPU and the origin used 15 % of \
         its 1 CPU.",
    );
}

#[test]
fn a_strange_server_on_this_host_is_seen_by_the_cpus_left_to_it() {
    let verdict = changed(|record| {
        record.environment.insert("target.this_host".into(), json!(true));
        for run in &mut record.iterations {
            run.server = None;
            let host = run.host.as_mut().unwrap();
            host.interfaces.clear();
            let cpu = |cpu, busy_s: u64| CpuUse {
                cpu,
                busy_ns: busy_s * SECOND,
                idle_ns: (600 - busy_s) * SECOND,
                ..CpuUse::default()
            };
            host.cpus = vec![cpu(0, 590), cpu(1, 300)];
        }
    });
    assert_eq!(verdict.limit.resource, LimitingResource::Server);
    assert!(
        verdict.limit.sentence.contains("the 1 CPU left to the server worked 98 % of the time, for whomever")
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
        record.target.agent = Some(AgentRecord { cpus: vec![4, 5], ..AgentRecord::default() });
        for run in &mut record.iterations {
            run.server = Some(ServerUse { user_ns: 1_212 * SECOND, ..ServerUse::default() });
            let tcp = Some(TcpUse { listen_overflows: 1, ..TcpUse::default() });
            let host = HostUse { elapsed_ns: 606 * SECOND, tcp, ..HostUse::default() };
            run.server_host = Some(ServerHostUse { host, ..ServerHostUse::default() });
        }
    });
    assert_eq!((verdict.standing, verdict.limit.resource), (Standing::Valid, LimitingResource::Server));
    assert!(
        verdict.limit.sentence.contains("the server used 100 % of its 2 CPUs"),
        "{}",
        verdict.limit.sentence
    );
}
