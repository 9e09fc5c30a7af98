//! Records with known rates, for tests of what is computed from several records.

use std::collections::BTreeMap;

use crate::generators::GeneratorRecord;
use crate::record::{RunRecord, RunState, SCHEMA_VERSION, TargetRecord};
use crate::spec::{Levels, RunSpec};
use webstone_measure::fixture::{self as runs, SECONDS};
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
