//! Does one operation a given number of times, for `cargo xtask instructions` to count instructions under callgrind.
//!
//! `webstone-operations OPERATION COUNT [URL [WORKERS]]`. Nothing is printed and nothing depends on the clock more than the
//! engine itself does. Twice the count does twice the work with the same start-up, so the difference is the operations' cost.

use std::hint::black_box;
use std::sync::Arc;

use indexmap::IndexMap;
use webstone_engine::h1::known_heads::KnownHeads;
use webstone_engine::h1::request::{RequestParts, write_request};
use webstone_engine::h1::response::ResponseParser;
use webstone_engine::{Control, LevelJob, Plan, run_level};
use webstone_measure::metrics::Histogram;
use webstone_measure::units::Nanos;
use webstone_model::spec::{ClientSpec, ConnectionPolicy, GeneratorTask, HttpVersion};
use webstone_workload::template::{RenderContext, Template};
use webstone_workload::tls::TlsSpec;
use webstone_workload::{FileRequest, Page, PageSequence, Sampler, Workload};

/// Clients of a worker: enough that events come in batches, as under load.
const CLIENTS: u32 = 64;
/// Weights of the `standard` workload.
const WEIGHTS: [u64; 5] = [350, 500, 140, 9, 1];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, count, url @ ..] = &arguments[..] else {
        panic!("usage: webstone-operations OPERATION COUNT [URL [WORKERS]]");
    };
    let count: u64 = count.parse().expect("a number of times");
    match (operation.as_str(), url) {
        ("parse-response", []) => parse_response(count),
        ("recall-response", []) => recall_response(count),
        ("write-request", []) => build_request(count),
        ("render-request", []) => render_request(count),
        ("pick-page", []) => pick_page(count),
        ("record-latency", []) => record_latency(count),
        ("keep-alive" | "https", [url]) => level(url, kept(HttpVersion::Http11), count, 1),
        ("keep-alive", [url, workers]) => {
            level(url, kept(HttpVersion::Http11), count, workers.parse().expect("a number of workers"));
        }
        ("per-request", [url]) => {
            let client = ClientSpec { connections: ConnectionPolicy::PerRequest, ..ClientSpec::default() };
            level(url, client, count, 1);
        }
        ("h2c" | "h2", [url]) => level(url, kept(HttpVersion::Http2), count, 1),
        ("h3", [url]) => level(url, kept(HttpVersion::Http3), count, 1),
        _ => panic!("{operation} is no operation, or a URL is missing or too much"),
    }
}

/// A head and a body of 500 bytes, as nginx sends them.
fn response() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 15:00:00 GMT\r\n\
                Content-Type: text/html\r\nContent-Length: 500\r\nLast-Modified: Sat, 21 Nov 2026 14:00:00 GMT\r\n\
                Connection: keep-alive\r\nETag: \"6560b2a0-1f4\"\r\nAccept-Ranges: bytes\r\n\r\n";
    [head.as_bytes(), &[b'x'; 500]].concat()
}

fn parse_response(count: u64) {
    let response = response();
    for _ in 0..count {
        let mut parser = ResponseParser::new(false);
        let mut at = 0;
        while !parser.is_done() {
            at += parser.step(&black_box(&response)[at..]).expect("well-formed").0;
        }
        assert_eq!(at, response.len());
    }
}

fn recall_response(count: u64) {
    let response = response();
    let mut known = KnownHeads::new(1);
    for _ in 0..count {
        let mut parser = ResponseParser::new(false);
        let mut at = 0;
        while !parser.is_done() {
            at += parser.step_known(&black_box(&response)[at..], &mut known, 0).expect("well-formed").0;
        }
        assert_eq!(at, response.len());
    }
}

fn build_request(count: u64) {
    let headers = [("Accept".to_owned(), "text/html".to_owned())];
    let parts = RequestParts {
        method: "GET",
        target: "/file500.html",
        host: "127.0.0.1:8080",
        version: HttpVersion::Http11,
        headers: &headers,
        body: None,
        last: true,
        body_later: false,
    };
    let mut out = Vec::with_capacity(1024);
    for _ in 0..count {
        out.clear();
        write_request(black_box(&parts), &mut out);
        black_box(&out);
    }
}

fn render_request(count: u64) {
    let template = Template::parse("GET /item/{{seq}}?n={{rand 1000 9999}} HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("a template");
    let (mut random, feeds) = (PageSequence::new(1, 3), IndexMap::new());
    let mut out = Vec::with_capacity(1024);
    for number in 0..count {
        out.clear();
        // Of four digits always, so that the second half is no longer than the first.
        let sequence = 1000 + number % 9000;
        let mut context = RenderContext { random: &mut random, sequence, feeds: &feeds, row: 0 };
        black_box(&template).render(&mut out, &mut context);
        black_box(&out);
    }
}

fn pick_page(count: u64) {
    let sampler = Sampler::new(WEIGHTS.into_iter()).expect("small weights");
    let mut sequence = PageSequence::new(1, 1);
    for _ in 0..count {
        black_box(sequence.next_page(black_box(&sampler)));
    }
}

fn record_latency(count: u64) {
    let mut histogram = Histogram::new();
    for number in 0..count {
        histogram.record(black_box(50_000 + number % 1024 * 300));
    }
    assert_eq!(histogram.len(), count);
}

/// Clients that keep their connections and verify no certificate.
fn kept(http: HttpVersion) -> ClientSpec {
    let tls = TlsSpec { verify: false, ..TlsSpec::default() };
    ClientSpec { connections: ConnectionPolicy::KeepAlive, http, tls, ..ClientSpec::default() }
}

/// A level of `count` requests with everything that is measured by default.
fn level(url: &str, client: ClientSpec, count: u64, workers: u32) {
    let mut spec = GeneratorTask { target: vec![url.to_owned()], client, ..GeneratorTask::default() };
    spec.load.duration = Nanos::ZERO;
    spec.load.warmup = Nanos::ZERO;
    spec.load.pages = Some(count);
    spec.generator.workers = workers;
    // Under callgrind everything takes fifty times as long.
    spec.client.request_timeout = Nanos::from_secs(600);
    spec.client.first_byte_timeout = Nanos::from_secs(600);
    spec.client.connect_timeout = Nanos::from_secs(600);
    let page = |(number, weight)| Page {
        weight,
        files: vec![FileRequest { url: format!("/file{number}.html").into(), ..FileRequest::default() }],
        think: Nanos::ZERO,
    };
    let pages = WEIGHTS.into_iter().enumerate().map(page).collect();
    let workload = Workload { name: "mix".into(), pages, ..Workload::default() };
    let plan = Arc::new(Plan::compile(&spec, &workload).expect("a plan"));
    let job = LevelJob::new(plan, CLIENTS * workers);
    let measured = run_level(&job, &Control::new()).expect("a level").measured;
    assert_eq!((measured.counts.pages_completed, measured.counts.failed), (count, 0));
}
