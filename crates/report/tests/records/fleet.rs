//! A record of load that three hosts made together.

use serde_json::json;
use webstone_measure::metrics::Measured;
use webstone_model::generators::{ClockOffset, GeneratorHost, GeneratorLoss, GeneratorPart, GeneratorRecord};
use webstone_model::record::{
    AgentRecord, CpuUse, HostUse, IterationRecord, LinkUse, RunRecord, ServerHostUse,
};
use webstone_workload::Workload;

use super::simulation::{self, Service, simulate};
use super::{SECOND, empty, host, iteration_of, pages_of_several_files, words};

/// Three hosts that load one server, of which the third answers late; one attempt lost the second host.
pub fn fleet() -> RunRecord {
    let mut record = empty("20261121-140405-fleet", &[6, 12, 24], 3);
    record.started_at = "2026-11-21T14:04:05Z".to_owned();
    record.finished_at = Some("2026-11-21T14:05:23Z".to_owned());
    record.workload = pages_of_several_files();
    record.target.embedded = false;
    record.target.cpus = Vec::new();
    record.target.url = "http://192.0.2.7:8080/".to_owned();
    let environment = &mut record.environment;
    environment.insert("target.this_host".to_owned(), json!(false));
    environment
        .insert("server.environment".to_owned(), json!({ "hostname": "web1", "cpu.model": "Server CPU 1" }));
    record.target.agents = vec![AgentRecord {
        command: "ssh web1 webstone agent".to_owned(),
        version: "0.1.0".to_owned(),
        boot: Some("b0".to_owned()),
        round_trip_ns_min: 180_000,
        cpus: vec![0, 1, 2, 3],
        ..AgentRecord::default()
    }];
    let hosts = ["gen1", "gen2", "gen3"];
    let agents = hosts.map(|host| format!("ssh {host} webstone agent"));
    record.spec.generators = agents.clone().map(GeneratorHost::reached_by).to_vec();
    record.command_line = words("webstone run http://192.0.2.7:8080/ -c 6,12,24 -i 3");
    record.command_line.extend(agents.iter().flat_map(|agent| ["--generator".to_owned(), agent.clone()]));
    record.generators = hosts
        .iter()
        .zip(agents)
        .enumerate()
        .map(|(place, (name, command))| GeneratorRecord {
            command,
            name: (*name).to_owned(),
            target: None,
            pod: None,
            version: "0.1.0".to_owned(),
            program_sha256: "3f2a9c1d5b7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f901a2b3c4d5e6f7081".to_owned(),
            boot: Some(format!("b{}", place + 1)),
            cpus: vec![1],
            workers: 1,
            slots: 1,
            has_server: Some(false),
            round_trip_ns_min: 150_000,
            environment: [
                ("hostname".to_owned(), json!(name)),
                ("cpu.model".to_owned(), json!("Example CPU 9000")),
                ("cpu.online".to_owned(), json!("0-3")),
                ("kernel.release".to_owned(), json!("6.18.0")),
                ("memory.bytes".to_owned(), json!(16_000_000_000_u64)),
            ]
            .into(),
        })
        .collect();
    for iteration in 1..=3 {
        for (place, clients) in [6, 12, 24].into_iter().enumerate() {
            let second = 6 + 21 * (iteration - 1) + 7 * place as u32;
            let at = format!("2026-11-21T14:0{}:{:02}Z", 4 + second / 60, second % 60);
            let run = together(&record.workload, clients, iteration, &at, None);
            record.iterations.push(run);
        }
    }
    let mut lost = together(&record.workload, 12, 2, "2026-11-21T14:04:34Z", Some(1));
    lost.lost = Some(GeneratorLoss { generator: 1, why: "ended: killed by signal 9".to_owned() });
    // As it is stored.
    lost.measured.histograms = Default::default();
    (lost.measured.pages, lost.measured.clients, lost.measured.seconds) = Default::default();
    record.voids.push(lost);
    record
}

/// A timed run that three hosts make, each with its third of the clients, without the one that was lost.
fn together(
    workload: &Workload,
    clients: u32,
    iteration: u32,
    started_at: &str,
    lost: Option<u32>,
) -> IterationRecord {
    let (each, mut parts, mut whole) = (clients / 3, Vec::new(), None::<Measured>);
    for generator in (0..3).filter(|generator| lost != Some(*generator)) {
        // The third has a slower link.
        let (per_second, alone_ns) = if generator == 2 { (450, 4_000_000) } else { (667, 2_500_000) };
        let seed = u64::from(iteration * 100 + clients * 3 + generator);
        let mut measured = simulate(
            workload,
            each,
            6 * SECOND,
            &Service { seed, per_second, alone_ns, ..Service::default() },
        );
        let worker = simulation::worker(&measured);
        measured.generator.workers = vec![worker];
        let window = measured.window_ns;
        let mut host = host(&measured);
        host.links = vec![LinkUse {
            name: "eth0".to_owned(),
            speed_bps: Some(1_000_000_000),
            received_bytes: measured.response_bytes.sum,
            sent_bytes: 240 * measured.counts.ended(),
            received_packets: 3 * measured.counts.ended(),
            sent_packets: 3 * measured.counts.ended(),
            ..LinkUse::default()
        }];
        host.cpus = vec![CpuUse {
            cpu: 1,
            busy_ns: window / 5,
            user_ns: window / 20,
            system_ns: window / 20 * 3,
            idle_ns: window / 5 * 4,
            ..CpuUse::default()
        }];
        parts.push(GeneratorPart {
            generator,
            first_client: each * generator,
            clients: each,
            workers: 1,
            counts: measured.counts,
            response: measured.response.clone(),
            unanswered: measured.unanswered.response.clone(),
            response_p50_ns: measured.histograms.response.value_at_percentile(50.0),
            response_p99_ns: measured.histograms.response.value_at_percentile(99.0),
            host: Some(host),
            clock: ClockOffset {
                offset_ns: 3_600_000_000_000 * (i64::from(generator) - 1) + 12_345_678,
                bound_ns: 75_000 + 5_000 * u64::from(generator),
            },
            opening_skew_ns: [210_000, -90_000, 340_000][generator as usize] + i64::from(iteration) * 10_000,
            ..GeneratorPart::default()
        });
        match &mut whole {
            None => whole = Some(measured),
            Some(whole) => whole.merge_parallel(measured),
        }
    }
    let measured = whole.unwrap();
    let workers = measured.generator.workers.clone();
    let mut run = iteration_of(measured, clients, iteration, started_at);
    run.measured.generator.workers = workers;
    let there =
        run.host.replace(HostUse { elapsed_ns: run.measured.window_ns, ..HostUse::default() }).unwrap();
    let links = parts.iter().flat_map(|part: &GeneratorPart| &part.host.as_ref().unwrap().links);
    let link = links.fold(LinkUse::default(), |sum, link| LinkUse {
        name: "eth1".to_owned(),
        speed_bps: Some(10_000_000_000),
        received_bytes: sum.received_bytes + link.sent_bytes,
        sent_bytes: sum.sent_bytes + link.received_bytes,
        received_packets: sum.received_packets + link.sent_packets,
        sent_packets: sum.sent_packets + link.received_packets,
        ..sum
    });
    let there = HostUse { links: vec![link], disturbance: None, ..there };
    run.server_hosts = vec![ServerHostUse { host: there, ..ServerHostUse::default() }];
    run.parts = parts;
    let parts = webstone_measure::identities::of_parts(&run);
    run.identities.extend(parts);
    run
}
