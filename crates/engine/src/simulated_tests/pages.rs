//! The figures of requests and pages in closed loop: every instant, every policy, the ends of the window.

use webstone_measure::figures::{Figures, PERCENTILES};
use webstone_measure::metrics::Moments;
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};

use super::*;

/// A connection takes 700 µs, a byte 250 µs each way; the server waits 3 ms and writes the head, and the body 2 ms
/// later.
fn slow_body() -> (Wire, impl Peer) {
    let acts =
        || vec![Act::Wait(3 * MS), Act::Write(HEAD.into()), Act::Wait(2 * MS), Act::Write(vec![b'x'; 10])];
    (Wire { latency_ns: 250 * US, ..Wire::default() }, server(700 * US, move |_, _| acts()))
}

#[test]
fn every_figure_of_a_request_is_what_was_put_in() {
    let mut level = Level::new(PerRequest, &["/a", "/b"], 174 * MS);
    level.workload.pages[0].think = Nanos(5 * MS);
    let (wire, peer) = slow_body();
    level.wire = wire;
    let measured = level.run(peer);
    // Connected after 700 µs, at the server after 950, answered at 3,950, read at 4,200; the rest 2 ms later. Two of
    // them are a page, which takes 17.4 ms with its pause: ten fit.
    are("connect", &measured.connect, &measured.histograms.connect, &[(700 * US, 20)]);
    are("first byte", &measured.first_byte, &measured.histograms.first_byte, &[(4_200 * US, 20)]);
    are("response", &measured.response, &measured.histograms.response, &[(6_200 * US, 20)]);
    are("page", &measured.page, &measured.histograms.page, &[(12_400 * US, 10)]);
    let counts = measured.counts;
    assert_eq!((counts.busy_ns, counts.idle_ns), (124 * MS, 50 * MS), "{counts:?}");
    assert_eq!((counts.started, counts.succeeded, counts.in_flight, counts.connections), (20, 20, 0, 20));

    let bytes = 20 * (HEAD.len() as u64 + 10);
    let figures = Figures::of_measured(&measured);
    for (what, found, expected) in [
        ("connect", figures.connect_mean_s, 0.000_7),
        ("first byte", figures.first_byte_mean_s, 0.004_2),
        ("latency", figures.latency_mean_s, 0.006_2),
        ("longest", figures.latency_max_s, 0.006_2),
        ("transfer", figures.transfer_mean_s, 0.002),
        ("Little's load factor", figures.little, 124.0 / 174.0),
        ("request rate", figures.request_rate, 20.0 / 0.174),
        ("connection rate", figures.connection_rate, 20.0 / 0.174),
        ("throughput", figures.throughput_bps, 8.0 * bytes as f64 / 0.174),
        ("client throughput", figures.client_throughput_bps, 8.0 * bytes as f64 / 0.124),
        ("pages", figures.pages_per_minute, 600.0 / 0.174),
    ] {
        assert!((found - expected).abs() <= expected * 1e-9, "{what}: {found}, not {expected}");
    }
    let page = &measured.pages[0];
    assert_eq!((page.hits, page.time_ns, page.time_ns_max), (10, 124 * MS, 12_400 * US));
    assert_eq!((page.requests, page.response_ns, page.response_ns_max), (20, 124 * MS, 6_200 * US));
    assert_eq!((page.connects, page.connect_ns, page.connect_ns_max), (20, 14 * MS, 700 * US));
    let client = &measured.clients[0];
    assert_eq!((client.requests, client.response_ns, client.bytes), (20, 124 * MS, bytes));
    let second = measured.seconds.0[0];
    assert_eq!((second.requests, second.response_ns, second.response_ns_max), (20, 124 * MS, 6_200 * US));
}

#[test]
fn every_instant_of_a_transaction_is_what_was_put_in() {
    let mut level = Level::new(KeepAlive, &["/a", "/b"], 20 * MS);
    let (wire, peer) = slow_body();
    level.wire = wire;
    let (_, transactions) = level.run_told(peer);
    let instants = |t: &Transaction| {
        let us = |instant: Option<i64>| instant.map(|ns| ns as f64 / 1e3);
        let sent = us(t.sent_ns);
        (
            [us(Some(t.start_ns)), us(t.connected_ns), sent, us(t.first_byte_ns)],
            us(t.headers_done_ns),
            us(Some(t.end_ns)),
        )
    };
    let all: Vec<_> = transactions.iter().map(instants).collect();
    assert_eq!(all[0], ([Some(0.0), Some(700.0), Some(700.0), Some(4_200.0)], Some(4_200.0), Some(6_200.0)));
    // The second is requested at the instant at which the first is complete, on the same connection.
    assert_eq!(all[1], ([Some(6_200.0), None, Some(6_200.0), Some(9_700.0)], Some(9_700.0), Some(11_700.0)));
    assert_eq!(
        all[2],
        ([Some(11_700.0), None, Some(11_700.0), Some(15_200.0)], Some(15_200.0), Some(17_200.0))
    );
    assert_eq!(all.len(), 3);
}

/// Each of 1,009 delays once, 100 µs apart, in mixed order. It is a prime, so that no percentile falls between two of
/// them.
#[test]
fn percentiles_are_those_of_the_delays() {
    let delay_ns = |number: u64| (number * 7919 % 1009 + 1) * 100 * US;
    let level = Level::new(KeepAlive, &["/"], 509_545 * 100 * US + 1);
    let mut number = 0;
    let measured = level.run(server(0, |_, _| {
        number += 1;
        vec![Act::Wait(delay_ns(number - 1)), Act::Write(response(10))]
    }));
    let delays: Vec<(u64, u64)> = (0..1009).map(|number| (delay_ns(number), 1)).collect();
    are("response", &measured.response, &measured.histograms.response, &delays);
    are("first byte", &measured.first_byte, &measured.histograms.first_byte, &delays);
    are("page", &measured.page, &measured.histograms.page, &delays);
    let found = Figures::of_measured(&measured).latency_percentiles_s;
    for (found, percentile) in found.into_iter().zip(PERCENTILES) {
        let expected = (percentile / 100.0 * 1009.0).ceil() / 10_000.0;
        assert!((found / expected - 1.0).abs() <= 0.001, "p{percentile}: {found}, not {expected}");
    }
}

/// Three files of 1 ms each, a connection 400 µs, four pages.
#[test]
fn a_policy_decides_what_is_charged_with_a_connect() {
    let connects = |policy: ConnectionPolicy, per_connection: Option<u32>, window_ns: u64| {
        let mut level = Level::new(policy, &["/a", "/b", "/c"], window_ns);
        level.spec.client.requests_per_connection = per_connection;
        let measured = level.run(steady(400 * US, MS, 10));
        assert_eq!(measured.counts.pages_completed, 4, "{policy:?}");
        measured
    };
    for (policy, limit, all_ns, connections, pages) in [
        (PerRequest, None, 16_800 * US, 12, vec![(4_200 * US, 4)]),
        (PerPage, None, 13_600 * US, 4, vec![(3_400 * US, 4)]),
        (KeepAlive, None, 12_400 * US, 1, vec![(3_400 * US, 1), (3_000 * US, 3)]),
        // The first, fifth and ninth requests are the first on their connections.
        (KeepAlive, Some(4), 13_200 * US, 3, vec![(3_400 * US, 3), (3_000 * US, 1)]),
    ] {
        let measured = connects(policy, limit, all_ns + 1);
        are("connect", &measured.connect, &measured.histograms.connect, &[(400 * US, connections)]);
        let times = [(1_400 * US, connections), (MS, 12 - connections)];
        are("response", &measured.response, &measured.histograms.response, &times);
        are("page", &measured.page, &measured.histograms.page, &pages);
        assert_eq!((measured.counts.succeeded, measured.counts.in_flight), (12, 1), "{policy:?}");
    }
}

/// The document in 2 ms, then five files of 3 ms, four at a time: the fifth takes the first free connection.
#[test]
fn files_in_parallel_share_the_pages_time() {
    let mut level = Level::new(KeepAlive, &["/doc", "/1", "/2", "/3", "/4", "/5"], 17 * MS + 1);
    level.spec.client.parallel = 4;
    let measured = level.run(server(400 * US, |_, request| {
        let delay_ns = if request.contains("/doc") { 2 * MS } else { 3 * MS };
        vec![Act::Wait(delay_ns), Act::Write(response(10))]
    }));
    // 2.4 ms; then three new connections and a kept one, which is free for the fifth after 3 ms.
    are("page", &measured.page, &measured.histograms.page, &[(8_400 * US, 1), (8 * MS, 1)]);
    are("connect", &measured.connect, &measured.histograms.connect, &[(400 * US, 4)]);
    let times = [(2_400 * US, 1), (3_400 * US, 3), (3 * MS, 7), (2 * MS, 1)];
    are("response", &measured.response, &measured.histograms.response, &times);
}

/// Ten clients, whose answers end at 10, 19, 28 ms …; the window is open from 35 to 2,535 ms.
#[test]
fn a_window_counts_what_ends_in_it_and_all_time_within_it() {
    let mut level = Level::new(KeepAlive, &["/"], 2_500 * MS);
    level.clients = 10;
    level.spec.load.warmup = Nanos(35 * MS);
    let measured = level.run(steady(MS, 9 * MS, 10));
    let counts = measured.counts;
    assert_eq!((counts.carried_in, counts.in_flight, counts.connections), (10, 10, 0));
    // From 37 to 2,530 ms.
    assert_eq!(counts.succeeded, 2_780);
    are("response", &measured.response, &measured.histograms.response, &[(9 * MS, 2_780)]);
    assert_eq!((counts.busy_ns, Figures::of_measured(&measured).little), (25 * SECOND, 10.0));
    // What ends exactly with a second, as at 2,035 ms, belongs to the next.
    let seconds: Vec<u64> = measured.seconds.0.iter().map(|second| second.requests).collect();
    assert_eq!(seconds, [1_110, 1_110, 560]);
}

/// What is in progress when the window closes at 1,050 ms is answered 50 ms later.
#[test]
fn a_drain_ends_when_it_should() {
    for (drain_us, cut_off) in [(0, 10), (49_950, 10), (50_050, 0)] {
        let mut level = Level::new(KeepAlive, &["/"], 1_050 * MS);
        level.clients = 10;
        level.spec.load.drain = Nanos(drain_us * US);
        let measured = level.run(steady(0, 100 * MS, 10));
        assert_eq!((measured.counts.succeeded, measured.counts.in_flight), (100, 10));
        assert_eq!(measured.lifetime.cut_off, cut_off, "{drain_us} µs");
        assert_eq!(measured.lifetime.received_bytes, (110 - cut_off) * response(10).len() as u64);
    }
}

/// A page takes 4 ms and its pause 6: a window of one second from 3 ms on, with three clients.
#[test]
fn think_time_is_waited_to_the_nanosecond() {
    let mut level = Level::new(KeepAlive, &["/"], SECOND);
    level.clients = 3;
    level.spec.load.warmup = Nanos(3 * MS);
    level.workload.pages[0].think = Nanos(6 * MS);
    let measured = level.run(steady(0, 4 * MS, 10));
    let counts = measured.counts;
    assert_eq!((counts.busy_ns, counts.idle_ns), (3 * 400 * MS, 3 * 600 * MS));
    assert_eq!((counts.pages_completed, counts.carried_in, counts.in_flight), (300, 3, 3));
    assert!((Figures::of_measured(&measured).little - 1.2).abs() < 1e-9);
}

/// A byte takes one microsecond, and comes alone or with a thousand others; a read returns one byte, a few, or all.
#[test]
fn a_body_is_read_at_the_pace_at_which_it_comes() {
    let answer = response(5_000);
    let whole_us = answer.len() as u64;
    for check in [webstone_workload::load::Check::Size, webstone_workload::load::Check::Content] {
        for (segment_bytes, receives_most) in [(1, 16_384), (1_000, 7), (1_000, 1), (1_000, 16_384)] {
            let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
            level.spec.client.check = check;
            level.wire = Wire {
                latency_ns: 300 * US,
                bytes_per_s: Some(1_000_000),
                segment_bytes,
                receives_most,
                ..Wire::default()
            };
            let mut request_us = 0;
            let measured = level.run(server(600 * US, |_, request| {
                request_us = request.len() as u64;
                vec![Act::Wait(50 * US), Act::Write(answer.clone())]
            }));
            let first_us = 300 + request_us + 50 + 300 + segment_bytes as u64;
            let response_us = 300 + request_us + 50 + 300 + whole_us;
            let count = (100_000 - 600) / response_us;
            let times = |us: u64| [((us + 600) * US, 1), (us * US, count - 1)];
            are("first byte", &measured.first_byte, &measured.histograms.first_byte, &times(first_us));
            are("response", &measured.response, &measured.histograms.response, &times(response_us));
            assert_eq!(measured.counts.body_bytes, 5_000 * count);
        }
    }
}

/// 10,000 bytes of a body are sent a thousand at a time, each of which must be acknowledged before the next.
#[test]
fn a_request_is_written_at_the_pace_at_which_it_is_taken() {
    let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
    level.spec.client.method = "POST".into();
    level.spec.client.body = Some("x".repeat(10_000));
    level.wire =
        Wire { latency_ns: 300 * US, bytes_per_s: Some(1_000_000), send_room: 1_000, ..Wire::default() };
    let mut request_us = 0;
    let measured = level.run(server(0, |_, request| {
        request_us = request.len() as u64;
        vec![Act::Write(response(10))]
    }));
    // Of eleven parts, ten wait for the round trip of the one before.
    let response_us = request_us + 10 * 600 + 300 + response(10).len() as u64 + 300;
    let count = 100_000 / response_us;
    are("response", &measured.response, &measured.histograms.response, &[(response_us * US, count)]);
    assert_eq!(measured.response_bytes.sum, count * response(10).len() as u64);
    assert!(request_us > 10_000 && request_us <= 11_000, "{request_us} bytes in eleven parts");
}

/// A request on a kept connection that the server closes at the same moment: it is sent again on a new connection,
/// and its time counts from its first start.
#[test]
fn a_retry_is_charged_with_the_time_before_it() {
    let mut level = Level::new(KeepAlive, &["/"], 20 * MS);
    level.wire.latency_ns = 250 * US;
    let acts = || vec![Act::Wait(2 * MS), Act::Write(response(10)), Act::Wait(100 * US), Act::Finish];
    let measured = level.run(server(500 * US, |_, _| acts()));
    // The first: 500 µs to connect, 2.5 ms for the answer. Each following one notices the end after 100 µs.
    let times = [(3 * MS, 1), (3_100 * US, 5)];
    are("response", &measured.response, &measured.histograms.response, &times);
    // Connect time is the new connection's own, without the 100 µs before it. The seventh has connected, too.
    are("connect", &measured.connect, &measured.histograms.connect, &[(500 * US, 7)]);
    assert_eq!((measured.counts.stale_retries, errors(&measured)), (6, vec![]));
}

/// The connection is established by the call, like that of a Unix socket: it took no time.
#[test]
fn a_connection_established_at_once_is_counted() {
    let level = Level::new(PerRequest, &["/"], 10 * MS + 1);
    let connect = |_| Attempt::StandsAtOnce;
    let answer = |_: u64, _: &str| vec![Act::Wait(MS), Act::Write(response(10))];
    let measured = level.run(Scripted { connect, answer });
    are("connect", &measured.connect, &measured.histograms.connect, &[(0, 11)]);
    are("response", &measured.response, &measured.histograms.response, &[(MS, 10)]);
}

/// A queue of eight at a server that takes one connection every 5 ms. If it is full, the kernel retransmits the SYN
/// after one second, and after three.
#[test]
fn a_full_accept_queue_shows_in_connect_times() {
    let mut level = Level::new(KeepAlive, &["/"], 4 * SECOND);
    level.clients = 20;
    level.workload.pages[0].think = Nanos::from_secs(100);
    // When each connection in the queue is taken; those in the queue at an instant are taken later.
    let mut queue = AcceptQueue { room: 8, pace_ns: 5 * MS, taken_ns: Vec::new() };
    let connect = |now_ns: u64| {
        let tries = [0, SECOND, 3 * SECOND].map(|after_ns| now_ns + after_ns);
        match tries.into_iter().find_map(|tried_ns| Some((tried_ns, queue.enter(tried_ns)?))) {
            None => Attempt::Lost,
            Some((tried_ns, taken_ns)) => {
                Attempt::Stands { handshake_ns: tried_ns + 400 * US - now_ns, served_ns: taken_ns - now_ns }
            }
        }
    };
    let answer = |_: u64, _: &str| vec![Act::Write(response(10)), Act::Finish];
    let measured = level.run(Scripted { connect, answer });
    let times = [(400 * US, 8), (SECOND + 400 * US, 8), (3 * SECOND + 400 * US, 4)];
    are("connect", &measured.connect, &measured.histograms.connect, &times);
    // The answer comes when the connection is taken from the queue: 5, 10 … 40 ms after the attempt that found space.
    let answers = |base_ns: u64, count: u64| (1..=count).map(move |place| (base_ns + place * 5 * MS, 1));
    let answers: Vec<_> = answers(0, 8).chain(answers(SECOND, 8)).chain(answers(3 * SECOND, 4)).collect();
    are("response", &measured.response, &measured.histograms.response, &answers);
}

/// Established connections that the server has not taken yet.
struct AcceptQueue {
    room: usize,
    /// How often one is taken.
    pace_ns: u64,
    taken_ns: Vec<u64>,
}

impl AcceptQueue {
    /// When a connection that arrives at an instant is taken; `None` if the queue is full. Later instants may be
    /// asked for before earlier ones, but they are too far apart to affect each other.
    fn enter(&mut self, at_ns: u64) -> Option<u64> {
        let near =
            |taken_ns: &&u64| **taken_ns > at_ns && **taken_ns <= at_ns + self.room as u64 * self.pace_ns;
        let waiting = self.taken_ns.iter().filter(near).count();
        (waiting < self.room).then(|| {
            let taken_ns = at_ns + (waiting as u64 + 1) * self.pace_ns;
            self.taken_ns.push(taken_ns);
            taken_ns
        })
    }
}

#[test]
fn sizes_are_exact_however_they_are_framed() {
    for (answer, head, framing, body) in [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc".to_vec(), 38, 0, 3),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec(), 47, 10, 3),
        (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(), 60, 0, 0),
    ] {
        for policy in POLICIES {
            for receives_most in [1, 16_384] {
                let mut level = Level::new(policy, &["/"], 10 * MS + 1);
                level.wire.receives_most = receives_most;
                let measured = level.run(server(0, |_, _| vec![Act::Wait(MS), Act::Write(answer.clone())]));
                let counts = measured.counts;
                assert_eq!(counts.succeeded, 10, "{policy:?}");
                assert_eq!(
                    (counts.head_bytes, counts.framing_bytes, counts.body_bytes),
                    (10 * head, 10 * framing, 10 * body)
                );
                let mut sizes = Moments::default();
                (0..10).for_each(|_| sizes.record(head + framing + body));
                assert_eq!(measured.response_bytes, sizes);
            }
        }
    }
}
