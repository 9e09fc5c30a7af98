//! Records with known content, for the tests of every format. Simulated ones satisfy the identities by construction,
//! because a tiny closed loop is played through; the WebStone paper's are filled with its printed numbers.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

pub mod fleet;
pub mod paper;
pub mod server_hosts;
pub mod simulation;
pub mod sliced;

use serde_json::json;
use webstone_judge::comparison::{self, Comparison};
use webstone_measure::errors::{ErrorClass, ErrorExample};
use webstone_measure::identities::{Expectation, check};
use webstone_measure::metrics::{GeneratorUse, Histograms, Measured, OpenLoop, Seconds};
use webstone_measure::units::Nanos;
use webstone_model::record::{
    CpuUse, Disturbance, HostUse, IterationRecord, LinkUse, OriginCounts, OriginRecord, OriginUse,
    ProcessUse, RunRecord, RunState, SCHEMA_VERSION, ScheduleKept, ServerUse, SoftwareRecord, TargetRecord,
    Tool,
};
use webstone_model::series;
use webstone_model::spec::{ConnectionPolicy, Levels, RunSpec};
use webstone_model::threshold::{FailIfs, Thresholds};
use webstone_workload::{FileRequest, Page, Workload};

use simulation::{Service, simulate};

/// Records that every format has to render.
pub fn all() -> Vec<RunRecord> {
    vec![
        small(),
        hit(),
        errors(),
        interrupted(),
        sliced::sliced(),
        nothing(),
        void_only(),
        refused(),
        without_histograms(),
        many_pages(),
        fleet::fleet(),
        paper::netsite(),
    ]
}

/// Three levels, two iterations each, pages of one to three files, on the embedded server.
pub fn small() -> RunRecord {
    let mut record = empty("20261121-100405-webstone", &[5, 10, 20], 2);
    record.workload = pages_of_several_files();
    for (iteration, at) in [(1, "10:04:06"), (2, "10:04:27")] {
        for clients in [5, 10, 20] {
            let service = Service { seed: u64::from(iteration * 100 + clients), ..Service::default() };
            let measured = simulate(&record.workload, clients, 6 * SECOND, &service);
            record.iterations.push(iteration_of(measured, clients, iteration, &format!("2026-11-21T{at}Z")));
        }
    }
    record
}

/// [`small`], in which other programs took a tenth of the time at 10 clients, and two thirds at 20.
pub fn noisy() -> RunRecord {
    let mut record = small();
    record.id = "20261121-100405-noisy".to_owned();
    for run in &mut record.iterations {
        let worker = &mut run.measured.generator.workers[0];
        worker.run_queue_ns = match run.clients {
            10 => Some(SECOND * 6 / 10),
            20 => Some(SECOND * 4),
            _ => Some(0),
        };
    }
    record
}

/// [`small`] as an open loop of 500, 1,000 and 1,500 arrivals/s, each of which began a page; latencies from the actual start equal those
/// from the intended one.
pub fn open_loop() -> RunRecord {
    let mut record = small();
    record.id = "20261121-120000-open".to_owned();
    record.spec.load.rate = Some("500..1500+500".parse().unwrap());
    record.spec.load.clients = Levels(vec![50]);
    for run in &mut record.iterations {
        let (rate, per_s) = match run.clients {
            5 => ("500", 500),
            10 => ("1k", 1000),
            _ => ("1500", 1500),
        };
        run.rate = Some(rate.parse().unwrap());
        run.clients = 50;
        let mut open_loop = OpenLoop { planned: 6 * per_s, started: 6 * per_s, ..OpenLoop::default() };
        for nanos in [5_000, 8_000, 21_000] {
            open_loop.lag.record(nanos);
            open_loop.lag_histogram.record(nanos);
        }
        open_loop.response = run.measured.response.clone();
        open_loop.uncorrected.response = run.measured.histograms.response.clone();
        run.measured.open_loop = Some(open_loop);
        run.schedule = ScheduleKept::of_measured(&run.measured);
    }
    record
}

/// The small sweep through a cache before an origin that webstone started; the origin's counters are missing at 20 clients.
pub fn proxied() -> RunRecord {
    let mut record = small();
    record.target.embedded = false;
    record.target.software = Some(SoftwareRecord {
        name: "haproxy".to_owned(),
        profile: "stock".to_owned(),
        version: "HAProxy version 3.0.11".to_owned(),
        ..SoftwareRecord::default()
    });
    record.target.origin = Some(OriginRecord {
        url: "http://127.0.0.1:40124".to_owned(),
        ours: true,
        cpus: vec![1],
        unseen: Vec::new(),
    });
    for run in &mut record.iterations {
        let (counts, window_ns) = (run.measured.counts, run.measured.window_ns);
        let requests = counts.succeeded / 10;
        let counted = OriginCounts {
            requests,
            not_modified: requests / 5,
            connections: requests / 4,
            body_bytes: counts.body_bytes / 20,
            sent_bytes: counts.body_bytes / 20 + 200 * requests,
            received_bytes: 120 * requests,
            elapsed_ns: window_ns,
        };
        let used = ServerUse {
            user_ns: window_ns / 50,
            system_ns: window_ns / 25,
            resident_bytes_max: 9_400_000,
            ..ServerUse::default()
        };
        run.origin = Some(OriginUse { server: Some(used), counted: (run.clients < 20).then_some(counted) });
    }
    record
}

/// Three iterations of two levels, and the same of a server that is 3 % slower; with gates of every kind.
pub fn comparison() -> Comparison {
    let [a, b] = before_and_after();
    let options = comparison::Options {
        fail_if: "rate<-2%,p(99)>+50%,errors>+1pp".parse::<FailIfs>().unwrap().0,
        thresholds: "p(99)<50ms,rate{clients:20}>1k".parse::<Thresholds>().unwrap().0,
        ..comparison::Options::default()
    };
    comparison::compare(&[&a, &b], &options)
}

/// Two servers on one and two CPUs; of the last cell nothing is measured.
pub fn series() -> (series::Series, Vec<Option<RunRecord>>) {
    let small = small();
    let matrix: series::Matrix =
        toml::from_str("servers = ['nginx', 'apache:tuned']\ncpus = [1, 2]").unwrap();
    let cells = matrix.cells(&small.spec).unwrap();
    let last = cells.len() - 1;
    let record = |(place, cell): (usize, &series::Cell)| {
        let record = RunRecord { id: cell.name.clone(), spec: cell.spec.clone(), ..small.clone() };
        (place < last).then_some(record)
    };
    let records = cells.iter().enumerate().map(record).collect();
    let series = series::Series {
        schema: series::SERIES_SCHEMA,
        id: "20261121T100405Z-<scale>".to_owned(),
        kind: series::Kind::Scale,
        tool: small.tool.clone(),
        started_at: small.started_at.clone(),
        command_line: Vec::new(),
        rounds: small.spec.load.iterations,
        warnings: vec!["with 2 CPUs | there is <b>one</b> warning".to_owned()],
        without_secrets: false,
        cells,
    };
    (series, records)
}

/// The records of [`comparison`].
pub fn before_and_after() -> [RunRecord; 2] {
    let named = |id: &str, name: &str, per_second: u64| {
        let mut record = sweep(id, per_second);
        record.spec.name = name.to_owned();
        record
    };
    [named("20261121-100000-before", "before", 2_000), named("20261121-110000-after", "after", 1_940)]
}

/// Two runs with hardly a setting in common, and with names that would be markup.
pub fn hopeless_comparison() -> Comparison {
    let mut other = hit();
    other.id = "<img>|`x`".to_owned();
    other.iterations.push(other.iterations[0].clone());
    other.iterations[1].clients = 5;
    comparison::compare(&[&small(), &other], &comparison::Options::default())
}

fn sweep(id: &str, per_second: u64) -> RunRecord {
    let mut record = empty(id, &[10, 20], 3);
    record.workload = one_page("/index.html", 612);
    for iteration in 1..=3 {
        for clients in [10, 20] {
            let seed = per_second + u64::from(iteration * 100 + clients);
            let service = Service { per_second, seed, ..Service::default() };
            let measured = simulate(&record.workload, clients, 6 * SECOND, &service);
            record.iterations.push(iteration_of(measured, clients, iteration, "2026-11-21T10:00:00Z"));
        }
    }
    record
}

/// One level, connections kept alive, one page: what `webstone hit` stores.
pub fn hit() -> RunRecord {
    let mut record = empty("20261121-110000-hit", &[64], 1);
    record.spec.client.connections = ConnectionPolicy::KeepAlive;
    record.command_line = words("webstone hit http://192.0.2.7:8080/index.html -c 64 -d 6s");
    record.target = TargetRecord {
        url: "http://192.0.2.7:8080/index.html".to_owned(),
        server: Some("nginx/1.24.0".to_owned()),
        ..TargetRecord::default()
    };
    record.workload = one_page("/index.html", 612);
    let service = Service { per_second: 8_000, keep_alive: true, ..Service::default() };
    let measured = simulate(&record.workload, 64, 6 * SECOND, &service);
    record.iterations.push(iteration_of(measured, 64, 1, "2026-11-21T11:00:01Z"));
    record
}

/// The hit with errors of several classes, one of them with a hostile text from the server, and a broken identity.
pub fn errors() -> RunRecord {
    let mut record = hit();
    let run = &mut record.iterations[0];
    fail(&mut run.measured, ErrorClass::WrongStatus, 120, 1_234_567_890, "status 503, expected 200 to 299");
    fail(&mut run.measured, ErrorClass::Malformed, 3, 20_000_000, "status line \"HTP/1.1 \u{1b}[2J200\"");
    fail(
        &mut run.measured,
        ErrorClass::OutOfPorts,
        1,
        5_900_000_000,
        "EADDRNOTAVAIL: Cannot assign requested address",
    );
    // The second client starves, and the last one gets its requests. And a request in progress is lost.
    let starved = std::mem::take(&mut run.measured.clients[1]);
    let lucky = &mut run.measured.clients[63];
    lucky.pages += starved.pages;
    lucky.requests += starved.requests;
    lucky.response_ns += starved.response_ns;
    lucky.bytes += starved.bytes;
    lucky.unanswered += starved.unanswered;
    lucky.unanswered_ns += starved.unanswered_ns;
    run.measured.counts.planned += 1;
    run.measured.counts.started += 1;
    run.identities = identities(&run.measured, 64);
    record.warnings.push("the limit of open files is 1,024; it was raised to 20,000".to_owned());
    record
}

/// Ended by the user in the middle of the second level of three.
pub fn interrupted() -> RunRecord {
    let mut record = small();
    record.iterations.truncate(2);
    record.state = RunState::Interrupted;
    record.finished_at = Some("2026-11-21T10:04:17Z".to_owned());
    let measured = simulate(&record.workload, 10, 2 * SECOND + SECOND / 2, &Service::default());
    record.iterations[1] = iteration_of(measured, 10, 1, "2026-11-21T10:04:14Z");
    record.iterations[1].interrupted = true;
    record
}

/// Killed before the first timed run was complete.
pub fn nothing() -> RunRecord {
    let mut record = empty("20261121-120000-killed", &[5, 10], 1);
    record.state = RunState::Partial;
    record.finished_at = None;
    record
}

/// Ended by the user while the only window, which was void, was being repeated.
pub fn void_only() -> RunRecord {
    let mut record = empty("20261121-123000-void", &[10], 1);
    record.state = RunState::Interrupted;
    let mut run = small().iterations[1].clone();
    (run.clients, run.iteration) = (10, 1);
    let measured = &mut run.measured;
    measured.histograms = Default::default();
    (measured.pages, measured.clients, measured.page_histograms) = Default::default();
    (measured.seconds, measured.open_loop) = Default::default();
    measured.generator.workers[0].stalls = 1;
    measured.generator.workers[0].stalled_ns = measured.window_ns / 10;
    measured.generator.workers[0].stalled_ns_max = measured.window_ns / 10;
    record.voids.push(run);
    record
}

/// Nobody listened: not one valid response.
pub fn refused() -> RunRecord {
    let mut record = empty("20261121-130000-refused", &[10], 1);
    record.workload = one_page("/index.html", 612);
    let mut measured = Measured {
        window_ns: 6 * SECOND,
        clients: vec![Default::default(); 10],
        pages: vec![Default::default()],
        seconds: Seconds(vec![Default::default(); 6]),
        ..Measured::default()
    };
    fail(&mut measured, ErrorClass::Refused, 600, 100_000, "ECONNREFUSED: Connection refused");
    measured.counts.connections_failed = 600;
    let mut run = iteration_of(measured, 10, 1, "2026-11-21T13:00:01Z");
    run.server = None;
    record.iterations.push(run);
    record
}

/// A record read without its histograms and series.
pub fn without_histograms() -> RunRecord {
    let mut record = hit();
    for run in &mut record.iterations {
        run.measured.histograms = Histograms::default();
        run.measured.unanswered.histograms = Histograms::default();
        run.measured.page_histograms.clear();
        run.measured.seconds = Seconds::default();
        run.measured.generator.loop_delay = Default::default();
        run.measured.generator.receive_lag = Default::default();
        run.measured.generator.connect_lag = Default::default();
    }
    record
}

/// A workload of 30 pages, more than the per-page table shows; the generator is at its limit at the higher level.
pub fn many_pages() -> RunRecord {
    let mut record = empty("20261121-140000-mined", &[8, 16], 1);
    record.workload = Workload {
        name: "mined".to_owned(),
        pages: (0..30_u64)
            .map(|n| Page {
                weight: 1 + (n * 7) % 30,
                files: vec![file(
                    &format!("/archive/{}/a-rather-long-name-{n}.html", 2000 + n),
                    500 + n * 997,
                )],
                think: Nanos::ZERO,
            })
            .collect(),
        ..Workload::default()
    };
    for clients in [8, 16] {
        let measured = simulate(&record.workload, clients, 6 * SECOND, &Service::default());
        record.iterations.push(iteration_of(measured, clients, 1, "2026-11-21T14:00:01Z"));
    }
    for worker in &mut record.iterations[1].measured.generator.workers {
        worker.system_ns = 5_600_000_000 - worker.user_ns;
    }
    record
}

/// Hostile text in every field that a server or a file can set.
pub fn hostile() -> RunRecord {
    const SCRIPT: &str =
        "</script><script>console.error('acted')</script>\"'><img src=x onerror=console.error(1)>";
    let mut record = errors();
    record.id = format!("id{SCRIPT}");
    record.spec.name = format!("name{SCRIPT}");
    record.spec.client.headers.add("X-Evil", SCRIPT);
    record.spec.disclosure.insert(format!("key{SCRIPT}"), SCRIPT.to_owned());
    record.command_line.push(SCRIPT.to_owned());
    record.tool.version = SCRIPT.to_owned();
    record.tool.commit = Some(SCRIPT.to_owned());
    record.target.url = format!("http://192.0.2.7/{SCRIPT}");
    record.target.server = Some(SCRIPT.to_owned());
    record.workload = one_page(&format!("/{SCRIPT}"), 612);
    record.workload.name = SCRIPT.to_owned();
    record.workload_sha256 = SCRIPT.to_owned();
    record
        .environment
        .insert(SCRIPT.to_owned(), json!({ SCRIPT: [SCRIPT], "nginx.conf": format!("a\n{SCRIPT}\n") }));
    record.warnings.push(SCRIPT.to_owned());
    record.started_at = SCRIPT.to_owned();
    let run = &mut record.iterations[0];
    fail(&mut run.measured, ErrorClass::Reset, 2, 1, SCRIPT);
    run.identities[0].rule = SCRIPT.to_owned();
    run.identities[0].evidence = SCRIPT.to_owned();
    run.identities[0].holds = false;
    record
}

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// A record without iterations.
pub fn empty(id: &str, levels: &[u32], iterations: u32) -> RunRecord {
    let mut spec = RunSpec::default();
    spec.load.clients = Levels(levels.to_vec());
    spec.load.iterations = iterations;
    RunRecord {
        schema: SCHEMA_VERSION,
        id: id.to_owned(),
        tool: Tool { name: "webstone".to_owned(), version: "0.1.0".to_owned(), commit: None },
        started_at: "2026-11-21T10:04:05Z".to_owned(),
        finished_at: Some("2026-11-21T10:04:48Z".to_owned()),
        state: RunState::Complete,
        command_line: words("webstone run -c 5,10,20 -i 2"),
        spec,
        workload: one_page("/", 1024),
        workload_sha256: "3f2a9c1d5b7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f901a2b3c4d5e6f7081".to_owned(),
        target: TargetRecord {
            url: "http://127.0.0.1:40123/".to_owned(),
            server: Some("webstone/0.1.0".to_owned()),
            embedded: true,
            cpus: vec![0],
            ..TargetRecord::default()
        },
        environment: [
            ("hostname".to_owned(), json!("bench1")),
            ("kernel.release".to_owned(), json!("6.18.0")),
            ("cpu.model".to_owned(), json!("Example CPU 9000")),
            ("cpu.online".to_owned(), json!("0-3")),
            ("cpu.allowed".to_owned(), json!("0,2")),
            ("memory.bytes".to_owned(), json!(16_000_000_000_u64)),
            ("sysctl".to_owned(), json!({"net.core.somaxconn": 4096})),
        ]
        .into(),
        ..RunRecord::default()
    }
}

/// An iteration with its identities checked and a server that used half of a CPU.
pub fn iteration_of(
    mut measured: Measured,
    clients: u32,
    iteration: u32,
    started_at: &str,
) -> IterationRecord {
    measured.generator = GeneratorUse {
        workers: vec![simulation::worker(&measured)],
        loop_delay: simulation::loop_delay(),
        receive_lag: simulation::receive_lag(),
        connect_lag: simulation::connect_lag(),
        metrics_bytes_max: 3 << 20,
    };
    IterationRecord {
        clients,
        iteration,
        started_at: started_at.to_owned(),
        interrupted: false,
        identities: identities(&measured, clients),
        server: Some(ServerUse {
            user_ns: measured.window_ns / 8,
            system_ns: measured.window_ns / 8 * 3,
            resident_bytes_max: 18_300_000,
            processes: Some(processes(&measured)),
            ..ServerUse::default()
        }),
        host: Some(host(&measured)),
        measured,
        ..IterationRecord::default()
    }
}

/// What a server of two processes does: it waits for each second request, and writes a log.
fn processes(measured: &Measured) -> ProcessUse {
    let ended = measured.counts.ended();
    ProcessUse {
        switches_voluntary: ended / 2,
        switches_involuntary: ended / 100,
        faults_minor: 1_200,
        faults_major: 0,
        disk_read_bytes: Some(0),
        disk_written_bytes: Some(ended * 90),
        throttled_ns: Some(0),
        processes_max: 2,
        threads_max: 2,
        descriptors_max: Some(40),
        resident_bytes: 17_900_000,
        proportional_bytes: Some(11_400_000),
        ..ProcessUse::default()
    }
}

/// A host with the server on one CPU and the generator on another, and all their packets on its loopback.
fn host(measured: &Measured) -> HostUse {
    let window = measured.window_ns;
    let cpu = |cpu, user_ns, system_ns, interrupt_ns| CpuUse {
        cpu,
        busy_ns: user_ns + system_ns + interrupt_ns,
        user_ns,
        system_ns,
        interrupt_ns,
        idle_ns: window - user_ns - system_ns - interrupt_ns,
        ..CpuUse::default()
    };
    let (ended, bytes) = (measured.counts.ended(), measured.response_bytes.sum);
    HostUse {
        elapsed_ns: window,
        probes: window / 1_000_000_000 + 2,
        probe_cpu_ns: (window / 1_000_000_000 + 2) * 180_000,
        disturbance: Some(Disturbance { looked_ns: 100_000_000, taken_ns: 180_000, longest_ns: 9_000 }),
        cpus: vec![cpu(0, window / 8, window / 8 * 2, window / 8), cpu(2, window / 50, window / 33, 0)],
        links: vec![LinkUse {
            name: "lo".to_owned(),
            loopback: true,
            received_bytes: bytes + 240 * ended,
            sent_bytes: bytes + 240 * ended,
            received_packets: 3 * ended,
            sent_packets: 3 * ended,
            ..LinkUse::default()
        }],
        ..HostUse::default()
    }
}

/// How long a request waited before it failed.
const FAILED_AFTER_NS: u64 = 1_000_000;

/// `n` failed requests, all of client 0, page 0 and the first second.
pub fn fail(measured: &mut Measured, class: ErrorClass, n: u64, at_ns: u64, detail: &str) {
    for _ in 0..n {
        measured.errors.add(class, || ErrorExample {
            at_ns,
            address: "192.0.2.7:8080".to_owned(),
            request: "GET http://192.0.2.7:8080/index.html".to_owned(),
            detail: detail.to_owned(),
        });
    }
    let counts = &mut measured.counts;
    counts.planned += n;
    counts.started += n;
    counts.failed += n;
    counts.pages_failed += n;
    measured.pages[0].errors += n;
    measured.pages[0].failed += n;
    measured.clients[0].errors += n;
    measured.seconds.0[0].errors += n;
    for _ in 0..n {
        measured.unanswered.request(FAILED_AFTER_NS, true);
        measured.unanswered.page(FAILED_AFTER_NS);
    }
    measured.pages[0].unanswered += n;
    measured.pages[0].unanswered_ns += n * FAILED_AFTER_NS;
    measured.pages[0].unanswered_ns_max = measured.pages[0].unanswered_ns_max.max(FAILED_AFTER_NS);
    measured.clients[0].unanswered += n;
    measured.clients[0].unanswered_ns += n * FAILED_AFTER_NS;
}

fn identities(measured: &Measured, clients: u32) -> Vec<webstone_measure::identities::IdentityCheck> {
    check(measured, &Expectation { clients: u64::from(clients), one_request_each: false, server_bytes: None })
}

/// A page of one file.
pub fn one_page(url: &str, size: u64) -> Workload {
    Workload {
        name: "one".to_owned(),
        pages: vec![Page { weight: 1, files: vec![file(url, size)], think: Nanos::ZERO }],
        ..Workload::default()
    }
}

fn pages_of_several_files() -> Workload {
    let page = |weight, files: &[(&str, u64)]| Page {
        weight,
        files: files.iter().map(|(url, size)| file(url, *size)).collect(),
        think: Nanos::ZERO,
    };
    Workload {
        name: "mixed".to_owned(),
        pages: vec![
            page(60, &[("/file500.html", 500)]),
            page(30, &[("/file3k.html", 3072), ("/file4k.html", 4096), ("/file5k.html", 5120)]),
            page(10, &[("/file500k.html", 512_000), ("/file13k.html", 13_312)]),
        ],
        ..Workload::default()
    }
}

fn file(url: &str, size: u64) -> FileRequest {
    FileRequest { url: url.into(), size: Some(size), ..FileRequest::default() }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
