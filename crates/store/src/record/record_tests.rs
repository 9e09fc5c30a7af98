//! Records that tests of the store write, and tests of the layout.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use webstone_measure::metrics::{
    ClientTotals, Histograms, Measured, PageHistograms, PageTotals, Second, Seconds,
};
use webstone_model::record::{
    IterationRecord, RunRecord, RunState, SCHEMA_VERSION, ServerUse, TargetRecord, Tool,
};
use webstone_model::spec::RunSpec;
use webstone_workload::{FileRequest, Page, Workload};

use crate::clock;

pub(crate) fn started() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_769_862_605_250)
}

pub(crate) fn record() -> RunRecord {
    let file = FileRequest { url: "/file500.html".into(), size: Some(500), ..FileRequest::default() };
    let page = Page { weight: 1, files: vec![file], think: Default::default() };
    RunRecord {
        schema: SCHEMA_VERSION,
        id: String::new(),
        tool: Tool { name: "webstone".into(), version: "0.1.0".into(), commit: None },
        started_at: clock::rfc3339(started()),
        state: RunState::Partial,
        command_line: vec!["webstone".into(), "run".into()],
        spec: RunSpec::default(),
        workload: Workload { name: "w".into(), pages: vec![page], ..Workload::default() },
        workload_sha256: "00".into(),
        target: TargetRecord { url: "http://127.0.0.1:1".into(), ..TargetRecord::default() },
        environment: BTreeMap::from([("kernel".to_owned(), "6.18".into())]),
        warnings: vec!["w".into()],
        ..RunRecord::default()
    }
}

/// An iteration with something in every field that a file of its own holds.
pub(crate) fn iteration(clients: u32, number: u32) -> IterationRecord {
    let mut measured = Measured { window_ns: 2_000_000_000, ..Measured::default() };
    let mut page = Histograms::default();
    for value in 1..200_u64 {
        let nanos = value * value * 7_919 + u64::from(clients * number);
        measured.response.record(nanos);
        measured.histograms.response.record(nanos);
        measured.histograms.first_byte.record(nanos / 3);
        measured.histograms.page.record(nanos + 5);
        measured.generator.loop_delay.record(value);
        measured.generator.receive_lag.record(value + 7);
        measured.generator.connect_lag.record(value + 11);
        page.response.record(nanos);
    }
    measured.counts.succeeded = 199;
    measured.pages = vec![PageTotals { hits: 199, ..PageTotals::default() }];
    measured.page_histograms = vec![PageHistograms { page: 0, histograms: page }];
    measured.clients = vec![ClientTotals { pages: 1, ..ClientTotals::default() }; clients as usize];
    let second = |requests| Second { requests, bytes: 7, ..Second::default() };
    measured.seconds = Seconds(vec![second(100), second(99)]);
    IterationRecord {
        clients,
        iteration: number,
        started_at: clock::rfc3339(started() + Duration::from_secs(3)),
        interrupted: false,
        measured,
        identities: Vec::new(),
        server: Some(ServerUse { user_ns: 5, ..ServerUse::default() }),
        ..IterationRecord::default()
    }
}
