//! How long the HTML report of a large record takes: `cargo run --release -p webstone-report --example html_speed --
//! LEVELS PAGES DETAILED`, by default 1,000 levels, a workload of 100,000 pages, and 20 levels with a table of all
//! pages. A row of such a table is 104 bytes: 1,000 levels with 100,000 rows each would be 10 GB before any report.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // an example may panic and print

use std::time::Instant;

use webstone_model::metrics::{ClientTotals, Interval, Measured, PageTotals, Series, WorkerUse};
use webstone_model::record::{IterationRecord, RunRecord, RunState, SCHEMA_VERSION, TargetRecord, Tool};
use webstone_model::spec::{Levels, RunSpec};
use webstone_model::units::Nanos;
use webstone_model::workload::{FileRequest, Page, Workload};
use webstone_report::{Format, Options, render};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u32>().unwrap());
    let (levels, pages) = (numbers.next().unwrap_or(1_000), numbers.next().unwrap_or(100_000));
    let detailed = numbers.next().unwrap_or(20);
    let record = record(levels, pages, detailed);
    let begin = Instant::now();
    let html = render(&record, Format::Html, &Options::default()).unwrap();
    println!(
        "{levels} levels, {pages} pages, {detailed} of them with all pages: {:.2} s, {} kB",
        begin.elapsed().as_secs_f64(),
        html.len() / 1000
    );
}

fn record(levels: u32, pages: u32, detailed: u32) -> RunRecord {
    let mut spec = RunSpec::default();
    spec.load.clients = Levels((1..=levels).collect());
    let page = |n: u32| Page {
        weight: u64::from(1 + n % 7),
        files: vec![FileRequest {
            url: format!("/archive/{n}.html").into(),
            size: Some(5000),
            ..FileRequest::default()
        }],
        think: Nanos::ZERO,
    };
    let workload =
        Workload { name: "large".to_owned(), pages: (0..pages).map(page).collect(), ..Workload::default() };
    RunRecord {
        schema: SCHEMA_VERSION,
        id: "large".to_owned(),
        tool: Tool { name: "webstone".to_owned(), version: "0".to_owned(), commit: None },
        started_at: "2026-11-21T10:00:00Z".to_owned(),
        finished_at: None,
        state: RunState::Complete,
        command_line: Vec::new(),
        spec,
        workload,
        workload_sha256: String::new(),
        target: TargetRecord::default(),
        environment: Default::default(),
        warnings: Vec::new(),
        iterations: (1..=levels)
            .map(|clients| iteration(clients, if clients <= detailed { pages } else { 0 }))
            .collect(),
    }
}

/// Ten seconds in which 20,000 requests a second took from 50 µs to some 50 ms each.
fn iteration(clients: u32, pages: u32) -> IterationRecord {
    let mut measured = Measured { window_ns: 10_000_000_000, ..Measured::default() };
    let mut random = u64::from(clients);
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let nanos = (50_000 << ((random >> 60) % 11)) | ((random >> 20) % 50_000);
        measured.response.record(nanos);
        measured.first_byte.record(nanos / 2);
        measured.histograms.response.record(nanos);
        measured.histograms.first_byte.record(nanos / 2);
        measured.histograms.page.record(nanos);
        measured.histograms.connect.record(nanos / 10);
        measured.generator.loop_delay.record(nanos / 50);
    }
    measured.counts.succeeded = 20_000;
    measured.counts.started = 20_000;
    measured.counts.connections = 20_000;
    measured.counts.busy_ns = measured.response.sum;
    measured.response_bytes.record(100_000_000);
    measured.pages = vec![
        PageTotals { hits: 2, requests: 2, response_ns: 200_000, ..PageTotals::default() };
        pages as usize
    ];
    measured.clients =
        vec![
            ClientTotals { pages: 20, requests: 20, response_ns: 2_000_000, ..ClientTotals::default() };
            clients as usize
        ];
    measured.series =
        Series(vec![Interval { requests: 2_000, response_ns: 10_000_000, ..Interval::default() }; 10]);
    measured.generator.workers = vec![WorkerUse { user_ns: 1_000_000_000, ..WorkerUse::default() }];
    IterationRecord { clients, iteration: 1, measured, ..IterationRecord::default() }
}
