//! Writes the record of a sweep without running it: `cargo run --release --example large_record -- RUNS_DIR LEVELS
//! PAGES`, by default 1,000 levels of a workload of 100,000 pages, each of which is requested at every level. The
//! record is made as a run makes it and is consistent, so that every command, including `verify`, can be measured
//! with it (`docs/records.md`). Tests make a small one.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example may panic and print")]

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use webstone_measure::identities::{self, Expectation};
use webstone_measure::metrics::{
    ClientTotals, Counts, Lifetime, Measured, PageHistograms, PageTotals, Second, WorkerUse,
};
use webstone_measure::units::{NANOS_PER_SECOND, Nanos};
use webstone_model::connection_identity::{ConnectionRules, of_connections};
use webstone_model::record::{IterationRecord, RunRecord, RunState, SCHEMA_VERSION, TargetRecord, Tool};
use webstone_model::spec::{ConnectionPolicy, Levels, RunSpec};
use webstone_report::{Format, Options, figures, render};
use webstone_store::clock::rfc3339;
use webstone_store::{Derived, FIGURES, REPORT, Store};
use webstone_workload::{FileRequest, Page, Workload};

/// Pages that are requested a hundred times as often, and have their own distributions.
const BUSY_PAGES: u32 = 32;
const BUSY_HITS: u32 = 100;
const WINDOW_NS: u64 = 10 * NANOS_PER_SECOND;

#[allow(dead_code, reason = "of the example; tests take the rest")]
fn main() {
    let mut words = std::env::args().skip(1);
    let runs = words.next().unwrap_or_else(|| "runs".to_owned());
    let mut number = |default| words.next().map_or(default, |word| word.parse().unwrap());
    let (levels, pages) = (number(1_000), number(100_000));
    println!("{}", write(Path::new(&runs), "large", levels, pages).display());
}

/// A record of levels with 1, 2, 3 … clients; returns its directory.
pub(crate) fn write(runs: &Path, name: &str, levels: u32, pages: u32) -> PathBuf {
    let began = SystemTime::now();
    let mut record = empty(name, levels, pages);
    record.started_at = rfc3339(began);
    let mut store = Store::create(runs, began, &mut record).unwrap();
    let mut at = began;
    for clients in 1..=levels {
        let mut run = iteration(clients, pages, at);
        let rules = ConnectionRules::of_run(&record.spec, &record);
        run.opened_ns = at.duration_since(began).ok().map(|since| since.as_nanos() as u64);
        run.identities.extend(of_connections(&run.measured, clients.into(), &rules));
        at += Duration::from_nanos(run.measured.window_ns);
        record.iterations.push(run);
        store.append(&mut record).unwrap();
        assert!(record.iterations.iter().all(|kept| kept.measured.pages.is_empty()), "rows leave memory");
    }
    record.state = RunState::Complete;
    let ended = at + Duration::from_secs(1);
    record.finished_at = Some(rfc3339(ended));
    record.took_ns = ended.duration_since(began).ok().map(|took| took.as_nanos() as u64);
    let page = render(&record, Format::Html, &Options::default()).unwrap();
    let derived =
        [Derived { name: FIGURES, bytes: figures::stored(&record) }, Derived { name: REPORT, bytes: page }];
    store.finish(&mut record, &derived).unwrap()
}

fn empty(name: &str, levels: u32, pages: u32) -> RunRecord {
    let mut spec = RunSpec { name: name.to_owned(), ..RunSpec::default() };
    spec.client.connections = ConnectionPolicy::KeepAlive;
    spec.load.clients = Levels((1..=levels).collect());
    spec.load.iterations = 1;
    // Each page a given number of times, which ends the level.
    spec.load.duration = Nanos::ZERO;
    spec.load.pages = Some((0..pages).map(|page| u64::from(hits(page))).sum());
    let file = |page| FileRequest {
        url: format!("/archive/{page}.html").into(),
        size: Some(5_000),
        ..FileRequest::default()
    };
    let page =
        |page| Page { weight: u64::from(hits(page)), files: vec![file(page)], think: Default::default() };
    let workload =
        Workload { name: "large".to_owned(), pages: (0..pages).map(page).collect(), ..Workload::default() };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    RunRecord {
        schema: SCHEMA_VERSION,
        id: String::new(),
        tool: Tool { name: "webstone".to_owned(), version, commit: None },
        started_at: String::new(),
        state: RunState::Partial,
        command_line: Vec::new(),
        spec,
        workload_sha256: workload.sha256(),
        workload,
        target: TargetRecord { url: "http://127.0.0.1:1/".to_owned(), ..TargetRecord::default() },
        environment: Default::default(),
        ..RunRecord::default()
    }
}

fn hits(page: u32) -> u32 {
    if page < BUSY_PAGES { BUSY_HITS } else { 1 + page % 2 }
}

/// A closed loop that is never idle: response times grow with the clients and are spread over eight octaves.
fn iteration(clients: u32, pages: u32, at: SystemTime) -> IterationRecord {
    let requests: u64 = (0..pages).map(|page| u64::from(hits(page))).sum();
    let mut measured = Measured {
        pages: vec![PageTotals::default(); pages as usize],
        clients: vec![ClientTotals::default(); clients as usize],
        page_histograms: (0..BUSY_PAGES.min(pages))
            .map(|page| PageHistograms { page, ..PageHistograms::default() })
            .collect(),
        ..Measured::default()
    };
    let mean_ns = u64::from(clients) * WINDOW_NS / requests;
    let mut random = u64::from(clients);
    let asked = (0..pages).flat_map(|page| std::iter::repeat_n(page, hits(page) as usize));
    for (number, page) in (0_u64..).zip(asked) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // From 1/16 of the mean to 16 times the mean, short ones more often.
        let octave = (random >> 60).trailing_zeros().min(8);
        let nanos = 1 + ((mean_ns >> 2) << octave) / 3 + (random >> 30) % (mean_ns / 4 + 1);
        // Each client makes one connection with its first request.
        let connect_ns = (number < u64::from(clients)).then(|| 20_000 + (random >> 40) % 30_000);
        // All clients are busy all the time, so their sum gives the time that has passed.
        let second = measured.response.sum / u64::from(clients) / NANOS_PER_SECOND;
        measured.seconds.0.resize(measured.seconds.0.len().max(second as usize + 1), Second::default());
        answered(&mut measured, page, second, number % u64::from(clients), nanos);
        if let Some(nanos) = connect_ns {
            connected(&mut measured, page, second, number % u64::from(clients), nanos);
        }
    }
    let connections = measured.connect.count;
    measured.counts = Counts {
        planned: requests,
        started: requests,
        succeeded: requests,
        connections,
        connections_answered: connections,
        pages_completed: requests,
        head_bytes: 200 * requests,
        body_bytes: 5_000 * requests,
        sent_bytes: 100 * requests,
        busy_ns: measured.response.sum,
        ..Counts::default()
    };
    // All clients are busy all the time, so this is how long it took.
    measured.window_ns = measured.response.sum / u64::from(clients);
    let seconds = measured.window_ns.div_ceil(NANOS_PER_SECOND) as usize;
    measured.seconds.0.resize(seconds, Second::default());
    measured.statuses.0.insert(200, requests);
    measured.lifetime = Lifetime {
        connections,
        requests,
        received_bytes: 5_200 * requests,
        sent_bytes: 100 * requests,
        ..Lifetime::default()
    };
    measured.generator.workers = vec![WorkerUse { user_ns: measured.window_ns / 4, ..WorkerUse::default() }];
    let expected = Expectation { clients: clients.into(), one_request_each: false, server_bytes: None };
    IterationRecord {
        clients,
        iteration: 1,
        started_at: rfc3339(at),
        identities: identities::check(&measured, &expected),
        measured,
        ..IterationRecord::default()
    }
}

fn answered(measured: &mut Measured, page: u32, second: u64, client: u64, nanos: u64) {
    for moments in [&mut measured.response, &mut measured.page] {
        moments.record(nanos);
    }
    measured.first_byte.record(nanos / 2);
    measured.response_bytes.record(5_200);
    measured.body_bytes.record(5_000);
    let mut of_all = vec![&mut measured.histograms];
    of_all.extend(measured.page_histograms.get_mut(page as usize).map(|own| &mut own.histograms));
    for histograms in of_all {
        histograms.response.record(nanos);
        histograms.page.record(nanos);
        histograms.first_byte.record(nanos / 2);
    }
    measured.generator.loop_delay.record(nanos / 50);
    measured.generator.receive_lag.record(nanos / 40);
    let row = PageTotals {
        hits: 1,
        time_ns: nanos,
        time_ns_max: nanos,
        requests: 1,
        response_ns: nanos,
        response_ns_max: nanos,
        body_bytes: 5_000,
        head_bytes: 200,
        ..PageTotals::default()
    };
    measured.pages[page as usize].merge(&row);
    let of_client = &mut measured.clients[client as usize];
    of_client.pages += 1;
    of_client.requests += 1;
    of_client.response_ns += nanos;
    of_client.bytes += 5_200;
    measured.seconds.0[second as usize].merge(&Second {
        requests: 1,
        pages: 1,
        bytes: 5_200,
        response_ns: nanos,
        response_ns_max: nanos,
        ..Second::default()
    });
}

fn connected(measured: &mut Measured, page: u32, second: u64, client: u64, nanos: u64) {
    measured.connect.record(nanos);
    measured.histograms.connect.record(nanos);
    if let Some(own) = measured.page_histograms.get_mut(page as usize) {
        own.histograms.connect.record(nanos);
    }
    measured.pages[page as usize].merge(&PageTotals {
        connects: 1,
        connect_ns: nanos,
        connect_ns_max: nanos,
        ..PageTotals::default()
    });
    measured.clients[client as usize].connects += 1;
    measured.seconds.0[second as usize].connections += 1;
}
