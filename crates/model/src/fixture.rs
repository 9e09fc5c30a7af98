//! Records with known rates, for the tests of what is computed from several of them.

use std::collections::BTreeMap;

use crate::metrics::{Counts, Measured, WorkerUse};
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
        counts: Counts { succeeded, failed, connections: succeeded + failed, ..Counts::default() },
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
    measured.generator.workers = vec![WorkerUse { user_ns: 6_000_000_000, ..WorkerUse::default() }];
    measured
}
