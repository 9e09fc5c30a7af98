//! Truth on real sockets: the reference server answers on a known schedule of delays, sizes and faults, and what the
//! client reports must be that schedule: exact counts, the server's own bytes, no latency below its delay. That times
//! are exact is tested on a simulated network, where nothing else adds to them: `src/simulated_tests`.

use super::peer::{counted, errors, file, impatient, one_page, run, spec};
use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::Histogram;
use webstone_model::spec::ServerSpec;
use webstone_server::{RunningServer, ServeOptions, Server};
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_workload::load::HttpVersion;

const POLICIES: [ConnectionPolicy; 3] = [PerRequest, PerPage, KeepAlive];
/// Three significant digits: a recorded value differs from the true one by no more than this share.
const PRECISION: f64 = 0.001;

fn server(threads: u32) -> RunningServer {
    Server::start(ServeOptions {
        test_handlers: true,
        ..ServeOptions::new(ServerSpec { threads, ..ServerSpec::default() })
    })
    .unwrap()
}

/// A histogram must have `count` values for each of the delays, in ascending order, none shorter than its delay.
/// Server, kernel and machine may add to them; that nothing else does is tested on a simulated network.
fn holds(histogram: &Histogram, delays_ns: &[u64], count: u64) {
    assert_eq!(histogram.len(), delays_ns.len() as u64 * count);
    for (index, delay) in delays_ns.iter().enumerate() {
        // The middle of each delay's share of the distribution.
        let quantile = (index as f64 + 0.5) / delays_ns.len() as f64;
        let found = histogram.value_at_quantile(quantile);
        let least = (*delay as f64 * (1.0 - PRECISION)) as u64;
        assert!(found >= least, "{found} ns where {delay} ns was scheduled, at {quantile}");
    }
}

#[test]
fn no_latency_is_below_the_delay_that_the_server_scheduled() {
    let delays = [0, 50, 100, 200].map(|ms| ms * 1_000_000_u64);
    for policy in POLICIES {
        let server = server(1);
        let workload = one_page(vec![file("/test?delays=0,50ms,100ms,200ms&size=1000", Some(1000))]);
        let outcome = run(&spec(server.url(), policy, 48), &workload, 12);
        let measured = &outcome.measured;
        assert_eq!((errors(&outcome), measured.counts.succeeded), (vec![], 48), "{policy:?}");
        for histogram in
            [&measured.histograms.response, &measured.histograms.first_byte, &measured.histograms.page]
        {
            holds(histogram, &delays, 12);
        }
        let scheduled_ns: u64 = delays.iter().map(|delay| delay * 12).sum();
        assert!(measured.response.sum >= scheduled_ns, "{} < {scheduled_ns}", measured.response.sum);
        assert_eq!(measured.lifetime.received_bytes, counted(&server).bytes_sent);
    }
}

#[test]
fn bytes_in_are_bytes_out_from_0_to_16_mib() {
    let sizes = ["0", "1", "100", "10000", "65535", "65536", "65537", "1000000", "16777216"];
    for policy in POLICIES {
        for chunked in ["", "&chunked=1", "&until_close=1"] {
            let server = server(2);
            let spec = spec(server.url(), policy, 4);
            let url = |size: &&str| file(&format!("/test?size={size}{chunked}"), Some(size.parse().unwrap()));
            let workload = one_page(sizes.iter().map(url).collect());
            let outcome = run(&spec, &workload, 2);
            let measured = &outcome.measured;
            assert_eq!(errors(&outcome), [], "{policy:?} {chunked}");
            let body: u64 = sizes.iter().map(|size| size.parse::<u64>().unwrap()).sum();
            assert_eq!(measured.counts.body_bytes, 4 * body);
            assert_eq!((measured.body_bytes.min, measured.body_bytes.max), (0, 16_777_216));
            assert_eq!(measured.pages[0].body_bytes, 4 * body);
            let counted = counted(&server);
            assert_eq!(measured.lifetime.received_bytes, counted.bytes_sent, "{policy:?} {chunked}");
            assert_eq!(measured.lifetime.sent_bytes, counted.bytes_received);
            assert_eq!((measured.lifetime.requests, measured.lifetime.connections), (36, counted.accepted));
            assert_eq!(counted.responses, 36);
        }
    }
}

/// A line of 64 kbit/s brings 8,000 bytes per second.
#[test]
fn no_answer_comes_faster_than_the_line_brings_it() {
    for (policy, http) in
        [(PerRequest, HttpVersion::Http11), (KeepAlive, HttpVersion::Http11), (KeepAlive, HttpVersion::Http2)]
    {
        let server = Server::start(ServeOptions {
            test_handlers: true,
            ..ServeOptions::new(ServerSpec { threads: 1, http2: true, ..ServerSpec::default() })
        })
        .unwrap();
        let mut spec = spec(server.url(), policy, 8);
        spec.client.http = http;
        spec.client.bandwidth = Some("64k".parse().unwrap());
        let outcome = run(&spec, &one_page(vec![file("/test?size=1600", Some(1600))]), 4);
        let measured = &outcome.measured;
        assert_eq!((errors(&outcome), measured.counts.succeeded), (vec![], 8), "{policy:?} {http:?}");
        assert!(measured.response.min >= 200_000_000, "{:?}", measured.response);
        assert_eq!(measured.lifetime.received_bytes, counted(&server).bytes_sent);
    }
}

/// Runs 60 pages, one client, with a fault in every tenth answer, under each policy. If a fault hits a reused
/// connection before any byte of the answer, the client may send the request again on a new one: those are retries
/// and not errors.
fn every_tenth(query: &str, size: u64, class: ErrorClass, retried_when_reused: bool) {
    for policy in POLICIES {
        let server = server(1);
        let workload = one_page(vec![file(&format!("/test?{query}&size={size}&every=10"), Some(size))]);
        let outcome = run(&impatient(spec(server.url(), policy, 60), class), &workload, 1);
        let counts = outcome.measured.counts;
        let asked = counts.succeeded + counts.failed + counts.stale_retries;
        let struck = asked / 10;
        let retried = policy == KeepAlive && retried_when_reused;
        let expected = if retried { (0, struck) } else { (struck, 0) };
        assert_eq!((counts.failed, counts.stale_retries), expected, "{policy:?} {query}: {counts:?}");
        assert_eq!(
            outcome.measured.errors.count(class),
            counts.failed,
            "{policy:?} {query}: {:?}",
            errors(&outcome)
        );
        assert_eq!(counts.pages_completed + counts.pages_failed, 60);
        assert_eq!(counts.body_bytes, counts.succeeded * size);
        let statuses = &outcome.measured.statuses.0;
        let of = |status| statuses.get(&status).copied().unwrap_or_default();
        // Bytes discarded by a reset, and a malformed head, are not counted.
        let has_head = query == "fault=bad-chunk"
            || matches!(class, ErrorClass::ShortBody | ErrorClass::WrongLength)
            || query == "fault=stall&after=500";
        let is_known = !query.starts_with("fault=reset&after");
        let with_200 = counts.succeeded + if has_head { counts.failed } else { 0 };
        let with_503 = if class == ErrorClass::WrongStatus { counts.failed } else { 0 };
        let with_200 = if is_known { with_200 } else { of(200).clamp(counts.succeeded, counts.ended()) };
        assert_eq!((of(200), of(503)), (with_200, with_503), "{policy:?} {query}: {statuses:?}");
        assert_eq!(counted(&server).requests, asked);
    }
}

#[test]
fn every_fault_is_counted_exactly_in_its_class() {
    every_tenth("fault=reset", 1000, ErrorClass::Reset, true);
    every_tenth("fault=reset&after=head", 1000, ErrorClass::Reset, false);
    every_tenth("fault=reset&after=500", 1000, ErrorClass::Reset, false);
    every_tenth("fault=close", 1000, ErrorClass::ClosedEarly, true);
    every_tenth("fault=close&after=head", 1000, ErrorClass::ClosedEarly, false);
    every_tenth("fault=close&after=500", 1000, ErrorClass::ShortBody, false);
    every_tenth("fault=truncate", 100_000, ErrorClass::ShortBody, false);
    every_tenth("fault=garbage", 1000, ErrorClass::Malformed, false);
    every_tenth("fault=bad-chunk", 1000, ErrorClass::Malformed, false);
    every_tenth("fault=wrong-length&by=-10", 1000, ErrorClass::WrongLength, false);
    every_tenth("fault=wrong-length&by=10", 1000, ErrorClass::WrongLength, false);
    every_tenth("fault=status&status=503", 1000, ErrorClass::WrongStatus, false);
    every_tenth("fault=stall", 1000, ErrorClass::FirstByteTimeout, false);
    every_tenth("fault=stall&after=500", 1000, ErrorClass::RequestTimeout, false);
}

#[test]
fn bytes_after_a_response_are_always_noticed() {
    for policy in POLICIES {
        let server = server(1);
        let workload = one_page(vec![file("/test?fault=extra&extra=7&size=1000&every=10", Some(1000))]);
        let outcome = run(&spec(server.url(), policy, 60), &workload, 1);
        let counts = outcome.measured.counts;
        // With the response's last bytes, between two requests, or in place of the next answer: which is chance, but
        // the sum is exact.
        assert_eq!(
            outcome.measured.errors.count(ErrorClass::Malformed),
            counts.failed,
            "{:?}",
            errors(&outcome)
        );
        assert_eq!(counts.failed + counts.surplus, counted(&server).requests / 10, "{policy:?}: {counts:?}");
    }
}

#[test]
fn a_drip_slower_than_the_time_out_is_a_time_out() {
    let server = server(1);
    let outcome = run(
        &impatient(spec(server.url(), KeepAlive, 4), ErrorClass::RequestTimeout),
        &one_page(vec![file("/test?drip=100ms&bytes=10&size=1000", None)]),
        4,
    );
    assert_eq!(errors(&outcome), [(ErrorClass::RequestTimeout, 4)]);
}

#[test]
fn long_heads_and_interim_answers_are_part_of_the_head() {
    let server = server(1);
    let workload = one_page(vec![file("/test?header=60000&interim=3&size=10", Some(10))]);
    let outcome = run(&spec(server.url(), KeepAlive, 10), &workload, 2);
    let counts = outcome.measured.counts;
    assert_eq!((errors(&outcome), counts.body_bytes), (vec![], 100));
    assert!(counts.head_bytes > 600_000, "{counts:?}");
    assert_eq!(outcome.measured.lifetime.received_bytes, counted(&server).bytes_sent);
}
