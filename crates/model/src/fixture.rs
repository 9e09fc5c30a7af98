//! Records with known rates, for tests of what is computed from several records.

use std::collections::BTreeMap;

use crate::duel::{Contestant, DUEL_SCHEMA, DuelRecord, DuelSpec, DuelStart, SideRun};
use crate::generators::GeneratorRecord;
use crate::record::{
    CpuUse, CpuWatch, HostUse, IterationRecord, RunRecord, RunState, SCHEMA_VERSION, TargetRecord, Tool,
};
use crate::spec::{Levels, RunSpec};
use webstone_measure::fixture::{self as runs, SECONDS};
use webstone_measure::metrics::Statuses;
use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_workload::Workload;

pub use webstone_measure::fixture::measured;

/// A record of one or more levels, with an iteration for each rate.
pub fn record(id: &str, levels: &[(u32, &[f64])]) -> RunRecord {
    let mut spec = RunSpec::default();
    spec.load.clients = Levels(levels.iter().map(|(clients, _)| *clients).collect());
    spec.load.duration = Nanos::from_secs(SECONDS);
    RunRecord {
        schema: SCHEMA_VERSION,
        id: id.to_owned(),
        state: RunState::Complete,
        iterations: runs::runs(levels),
        spec,
        workload: Workload { name: "w".to_owned(), ..Workload::default() },
        workload_sha256: "00".to_owned(),
        target: TargetRecord { url: "http://127.0.0.1:1".to_owned(), ..TargetRecord::default() },
        environment: BTreeMap::from([("hostname".to_owned(), "box".into())]),
        ..RunRecord::default()
    }
}

/// A run whose server had CPU 0 of this host, with a window for each of these times of the fixed work, in nanoseconds.
pub fn timed(hostname: &str, works: &[u64]) -> RunRecord {
    let mut record = record("a", &[(5, &vec![1_000.0; works.len()])]);
    record.target.cpus = vec![0];
    record.environment.insert("hostname".to_owned(), hostname.into());
    record.environment.insert("target.this_host".to_owned(), true.into());
    for (window, work_ns) in record.iterations.iter_mut().zip(works) {
        let watch = CpuWatch { work_ns_median: *work_ns, work_ns_best: *work_ns, ..CpuWatch::default() };
        let busy = CpuUse { cpu: 0, busy_ns: 9, idle_ns: 1, ..CpuUse::default() };
        window.host = Some(HostUse { watched: vec![watch], cpus: vec![busy], ..HostUse::default() });
    }
    record
}

/// A run with a window for each of these rates, in requests per second, and of the echo between server and load generator, in nanoseconds.
pub fn echoing(rates: &[f64], echoes_ns: &[f64]) -> RunRecord {
    let mut record = timed("box", &vec![5_000; rates.len()]);
    for ((window, rate), echo_ns) in
        record.iterations.iter_mut().zip(runs::runs(&[(5, rates)])).zip(echoes_ns)
    {
        let host = window.host.take();
        *window = IterationRecord { host, ..rate };
        for watch in window.host.iter_mut().flat_map(|host| &mut host.watched) {
            (watch.echo_ns, watch.echoes) = (*echo_ns as u64, 40);
        }
    }
    record
}

/// Requests of a slice of [`duel`], and rounds of a start.
const SLICE_REQUESTS: u64 = 100;
const ROUNDS: u64 = 4;

/// A sound duel of contestants with a known CPU time per request, in nanoseconds, within 0.25 %; a twin of the first takes part.
pub fn duel(id: &str, contestants: &[(&str, u64)], starts: u64) -> DuelRecord {
    let mut spec = RunSpec::default();
    spec.load.clients = Levels(vec![16]);
    let contestant = |name: &str| Contestant {
        name: name.to_owned(),
        given: format!("./{name} --port {{port}}"),
        is_started: true,
        cpus: vec![0, 1],
        ..Contestant::default()
    };
    let mut sides: Vec<(Contestant, u64)> =
        contestants.iter().map(|(name, cpu_ns)| (contestant(name), *cpu_ns)).collect();
    let (first, cpu_ns) = sides[0].clone();
    sides.push((Contestant { name: format!("{} (twin)", first.name), is_twin: true, ..first }, cpu_ns));
    let each_ns = 2_000_000_000;
    DuelRecord {
        schema: DUEL_SCHEMA,
        id: id.to_owned(),
        tool: Tool { name: "webstone".to_owned(), version: "0.1.0".to_owned(), commit: None },
        started_at: "2026-01-31T12:30:05.000Z".to_owned(),
        command_line: ["webstone", "duel", "…"].map(str::to_owned).to_vec(),
        state: RunState::Complete,
        took_ns: (starts + 1) * each_ns,
        spec,
        duel: DuelSpec::default(),
        workload: Workload { name: "w".to_owned(), ..Workload::default() },
        environment: BTreeMap::from([("hostname".to_owned(), "box".into())]),
        starts: (0..starts).map(|start| duel_start(start, start * each_ns, &sides)).collect(),
        contestants: sides.into_iter().map(|(contestant, _)| contestant).collect(),
        ..DuelRecord::default()
    }
}

fn duel_start(number: u64, at_ns: u64, sides: &[(Contestant, u64)]) -> DuelStart {
    let count = sides.len() as u64;
    let mut runs = vec![SideRun::default(); sides.len()];
    let mut slices = Vec::new();
    for turn in 0..ROUNDS * 2 * count {
        let place = turn % (2 * count);
        let side = place.min(2 * count - 1 - place);
        let noise = (number * 7 + turn * 3) % 11;
        let run = &mut runs[side as usize];
        let before = run.response.sum;
        for request in 0..SLICE_REQUESTS {
            let response_ns = 150_000 + 1_000 * (request % 7) + noise;
            run.response.record(response_ns);
            run.distribution.record(response_ns);
        }
        let counts = &mut run.counts;
        for (total, more) in [
            (&mut counts.planned, SLICE_REQUESTS),
            (&mut counts.started, SLICE_REQUESTS),
            (&mut counts.succeeded, SLICE_REQUESTS),
            (&mut counts.head_bytes, 100 * SLICE_REQUESTS),
            (&mut counts.framing_bytes, 10 * SLICE_REQUESTS),
            (&mut counts.body_bytes, 300 * SLICE_REQUESTS),
        ] {
            *total += more;
        }
        counts.busy_ns = run.response.sum;
        slices.push(Slice {
            side: side as u32,
            at_ns: turn * 21_000_000,
            took_ns: 20_500_000,
            requests: SLICE_REQUESTS,
            bytes: 410 * SLICE_REQUESTS,
            response_ns: run.response.sum - before,
            cpu_ns: Some(SLICE_REQUESTS * sides[side as usize].1 * (1_995 + noise) / 2_000),
            resting_cpu_ns: Some(1_000),
            waited_ns: Some(2_000),
            generator_waited_ns: Some(3_000),
            ..Slice::default()
        });
    }
    for (side, run) in runs.iter_mut().enumerate() {
        let mut statuses = vec![0; 201];
        statuses[200] = run.counts.succeeded;
        run.statuses = Statuses::of_counts(&statuses);
        run.resident_bytes_max = Some(10_000_000);
        *run = std::mem::take(run).with_slices(slices.iter().filter(|slice| slice.side as usize == side));
    }
    DuelStart { at_ns, sides: runs, slices }
}

/// Divides a record's load among several hosts. Each has as many workers as the original host, and its kernel counted
/// the same.
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
    runs::split(&mut record.iterations, hosts);
}
