//! Records with known rates, for the tests of what is computed from several of them.

use std::collections::BTreeMap;

use crate::generators::{ClockOffset, GeneratorPart, GeneratorRecord};
use crate::metrics::{Counts, Measured, Moments, WorkerUse};
use crate::record::{IterationRecord, RunRecord, RunState, SCHEMA_VERSION, ServerUse, TargetRecord, Tool};
use crate::spec::{Levels, RunSpec};
use crate::units::{NANOS_PER_SECOND, Nanos};
use crate::workload::Workload;

/// Length of every window.
const SECONDS: u64 = 10;

/// A record of one level or more, an iteration for each rate.
pub fn record(id: &str, levels: &[(u32, &[f64])]) -> RunRecord {
    let mut spec = RunSpec::default();
    spec.load.clients = Levels(levels.iter().map(|(clients, _)| *clients).collect());
    spec.load.duration = Nanos::from_secs(SECONDS);
    let iterations = levels.iter().flat_map(|(clients, rates)| {
        rates.iter().enumerate().map(|(index, rate)| IterationRecord {
            clients: *clients,
            iteration: index as u32 + 1,
            measured: measured(*rate, 0),
            server: Some(ServerUse { user_ns: 4_000_000_000, ..ServerUse::default() }),
            ..IterationRecord::default()
        })
    });
    RunRecord {
        schema: SCHEMA_VERSION,
        id: id.to_owned(),
        tool: Tool::default(),
        started_at: String::new(),
        finished_at: None,
        took_ns: None,
        state: RunState::Complete,
        command_line: Vec::new(),
        iterations: iterations.collect(),
        spec,
        workload: Workload { name: "w".to_owned(), ..Workload::default() },
        workload_sha256: "00".to_owned(),
        target: TargetRecord { url: "http://127.0.0.1:1".to_owned(), ..TargetRecord::default() },
        generators: Vec::new(),
        environment: BTreeMap::from([("hostname".to_owned(), "box".into())]),
        warnings: Vec::new(),
        voids: Vec::new(),
        series: None,
        pages: Default::default(),
    }
}

/// A window in which requests succeed at a rate and all last the same, rate × time = 10; and some fail.
pub fn measured(rate: f64, failed: u64) -> Measured {
    let succeeded = (rate * SECONDS as f64).round() as u64;
    let mut measured = Measured {
        window_ns: SECONDS * NANOS_PER_SECOND,
        counts: Counts {
            succeeded,
            failed,
            connections: succeeded + failed,
            connections_answered: succeeded,
            ..Counts::default()
        },
        ..Measured::default()
    };
    if succeeded == 0 {
        return measured;
    }
    let response_ns = (10.0 / rate * NANOS_PER_SECOND as f64) as u64;
    measured.response.count = succeeded;
    measured.response.sum = succeeded * response_ns;
    measured.response.min = response_ns;
    measured.response.max = response_ns;
    measured.response_bytes.count = succeeded;
    measured.response_bytes.sum = succeeded * 1000;
    measured.histograms.response.record(response_ns);
    // As in a stored record; tests read thousands of these.
    measured.histograms.response.pack();
    measured.generator.workers = vec![WorkerUse { user_ns: 6_000_000_000, ..WorkerUse::default() }];
    measured
}

/// Makes a record's load one that several hosts made, each its share of it. Each has the workers that the one host had, and its
/// kernel counted what that host's did.
pub fn split(record: &mut RunRecord, hosts: u32) {
    let alone = record.iterations.iter().map(|run| run.measured.generator.workers.len()).max().unwrap_or(0);
    record.generators = (0..hosts)
        .map(|place| GeneratorRecord {
            command: format!("ssh gen{} webstone agent", place + 1),
            name: format!("gen{}", place + 1),
            version: record.tool.version.clone(),
            program_sha256: "5eed".to_owned(),
            boot: Some(format!("boot-{}", place + 1)),
            workers: alone as u32,
            has_server: Some(false),
            environment: BTreeMap::from([("cpu.model".to_owned(), "Example".into())]),
            ..GeneratorRecord::default()
        })
        .collect();
    for run in &mut record.iterations {
        let workers = run.measured.generator.workers.clone();
        let response = run.measured.response.clone();
        let unanswered = run.measured.unanswered.response.clone();
        let mut first_client = 0;
        run.parts = (0..hosts)
            .map(|place| {
                let of = |value: u64| share(value, place, hosts);
                let clients = of(run.clients.into()) as u32;
                first_client += clients;
                let count = of(response.count);
                let waits = of(unanswered.count);
                GeneratorPart {
                    generator: place,
                    first_client: first_client - clients,
                    clients,
                    workers: workers.len() as u32,
                    counts: shared(&run.measured.counts, place, hosts),
                    response: part_of_moments(&response, count, place),
                    unanswered: part_of_moments(&unanswered, waits, place),
                    response_p50_ns: run.measured.histograms.response.value_at_percentile(50.0),
                    response_p99_ns: run.measured.histograms.response.value_at_percentile(99.0),
                    host: run.host.clone(),
                    clock: ClockOffset { offset_ns: 3_600_000_000_000, bound_ns: 100_000 },
                    opening_skew_ns: 200_000,
                    ..GeneratorPart::default()
                }
            })
            .collect();
        run.measured.generator.workers = vec![workers; hosts as usize].concat();
    }
}

/// What is left over goes to the first.
fn share(value: u64, place: u32, hosts: u32) -> u64 {
    value / u64::from(hosts) + u64::from(u64::from(place) < value % u64::from(hosts))
}

fn part_of_moments(of: &Moments, count: u64, place: u32) -> Moments {
    match count {
        0 => Moments::default(),
        _ => Moments {
            count,
            sum: part_of(of.sum.into(), count, of, place) as u64,
            sum_of_squares: part_of(of.sum_of_squares, count, of, place),
            ..of.clone()
        },
    }
}

/// What so many of the values add up to, on the mean; what does not divide is the first's.
fn part_of(sum: u128, count: u64, of: &Moments, place: u32) -> u128 {
    let left_over = if place == 0 { sum % u128::from(of.count) } else { 0 };
    sum / u128::from(of.count) * u128::from(count) + left_over
}

fn shared(counts: &Counts, place: u32, hosts: u32) -> Counts {
    let mut fields = serde_json::to_value(counts).expect("counters are numbers");
    for value in fields.as_object_mut().expect("they have names").values_mut() {
        *value = share(value.as_u64().expect("counters are numbers"), place, hosts).into();
    }
    serde_json::from_value(fields).expect("as they were")
}
