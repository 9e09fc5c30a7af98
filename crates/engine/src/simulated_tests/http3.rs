//! HTTP/3 on the simulated network, against quinn-proto: known delays in, the same figures out; with loss, what is counted equals what
//! the network and the server counted.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};
use webstone_workload::load::HttpVersion;

use super::http3_server::{Deed, Fate, Http3Server, answer};
use super::*;
use crate::h3::frames::code;
use crate::h3::session::Http3;
use crate::simulated_tests::network::DatagramPath;

pub(super) fn level(policy: ConnectionPolicy, clients: u32, duration_ns: u64) -> Level {
    let mut level = Level::new(policy, &["/"], duration_ns);
    level.spec.target = vec!["https://192.0.2.1".into()];
    level.spec.client.http = HttpVersion::Http3;
    level.spec.client.tls.verify = false;
    level.clients = clients;
    level.wire.latency_ns = MS;
    level
}

fn all_answered(_: u64) -> Fate {
    Fate::Answer
}

/// A handshake takes a round trip of 2 ms, a request another and the server's 3 ms.
#[test]
fn times_are_those_of_the_path_and_the_server() {
    let mut server = Http3Server::new(3 * MS, 10, all_answered);
    let measured = level(KeepAlive, 1, 100 * MS).run_over::<Plain, Http3>(&mut server, None);
    are("connect", &measured.connect, &measured.histograms.connect, &[(2 * MS, 1)]);
    are("response", &measured.response, &measured.histograms.response, &[(7 * MS, 1), (5 * MS, 18)]);
    are("first byte", &measured.first_byte, &measured.histograms.first_byte, &[(7 * MS, 1), (5 * MS, 18)]);
    let http3 = measured.http3.clone().unwrap();
    assert_eq!((http3.streams, http3.whole, http3.streams_in_flight), (20, 19, 1));
    assert_eq!((http3.packets_lost, http3.probe_timeouts, http3.unsent), (0, 0, 0));
    assert_eq!((http3.rtt_least.count, http3.rtt_least.min), (1, 2 * MS));
    assert_eq!(measured.handshakes.unwrap().full, 1);
    assert_eq!(
        (server.accepted, server.farewells),
        (1, 0),
        "the farewell is on its way as the simulation ends"
    );
}

/// Where marks of ECN get lost, one connection finds that out, and those after it mark nothing.
#[test]
fn connections_mark_until_one_has_lost_its_marks() {
    for bleaches in [false, true] {
        let mut server = Http3Server::new(0, 10, all_answered);
        let mut level = level(PerRequest, 1, 100 * MS);
        level.wire.datagrams.bleaches = bleaches;
        let measured = level.run_over::<Plain, Http3>(&mut server, None);
        assert_eq!(errors(&measured), []);
        assert!(measured.lifetime.connections > 20);
        let totals = server.totals;
        // The first flight of one connection is all that was sent before the server's first acknowledgement.
        let expected = if bleaches { 1..=3 } else { totals.sent.0..=totals.sent.0 };
        assert!(expected.contains(&totals.marked), "{totals:?}");
    }
}

/// A quarter of the round trip of 80 ms is longer than the packets of a flight are apart.
#[test]
fn bodies_are_acknowledged_ten_packets_at_a_time() {
    let mut server = Http3Server::new(0, 500_000, all_answered);
    let mut level = level(KeepAlive, 1, 10 * SECOND);
    level.wire.latency_ns = 40 * MS;
    let measured = level.run_over::<Plain, Http3>(&mut server, None);
    assert_eq!(errors(&measured), []);
    let http3 = measured.http3.clone().unwrap();
    let (received, told) = (http3.packets_received, http3.ack_packets_sent);
    // The first 100 are acknowledged in pairs.
    assert!(received > 10_000 && told <= received / 10 + 50 && told >= received / 25, "{http3:?}");
}

/// A stream that a gap interrupts is carried in after it, and each connection is counted once.
#[test]
fn slices_that_are_left_out_leave_every_stream_and_packet_accounted_for() {
    for (left_out, gaps) in [(&[][..], 0), (&[3, 4][..], 1), (&[0, 5, 6, 9][..], 2)] {
        let mut server = Http3Server::new(3 * MS, 10, all_answered);
        let sliced = Level {
            slice_ns: 100 * MS,
            slices: 10,
            left_out: left_out.to_vec(),
            ..level(KeepAlive, 3, 1_000 * MS)
        };
        let measured = sliced.run_over::<Plain, Http3>(&mut server, None);
        let kept = 10 - left_out.len() as u64;
        assert_eq!(measured.window_ns, kept * 100 * MS);
        let http3 = measured.http3.clone().unwrap();
        // Three clients, an answer every 5 ms each.
        assert!(http3.whole.abs_diff(kept * 3 * 20) <= 3 * (gaps + 1), "{left_out:?}: {http3:?}");
        assert_eq!(http3.streams_left_open, 3 * gaps, "{left_out:?}");
        assert_eq!((http3.rtt_least.count, http3.mtu.count, http3.streams_in_flight), (3, 3, 3));
        for (rule, left, right) in http3.identities() {
            assert_eq!(left, right, "{left_out:?}: {rule}");
        }
    }
}

#[test]
fn each_request_may_have_a_connection_of_its_own() {
    let mut server = Http3Server::new(3 * MS, 10, all_answered);
    let measured = level(PerRequest, 2, 70 * MS + 1).run_over::<Plain, Http3>(&mut server, None);
    are("connect", &measured.connect, &measured.histograms.connect, &[(2 * MS, 20)]);
    are("response", &measured.response, &measured.histograms.response, &[(7 * MS, 20)]);
    let http3 = measured.http3.clone().unwrap();
    assert_eq!((http3.streams, http3.whole, http3.streams_in_flight), (20, 20, 0));
    assert_eq!((server.accepted, server.farewells, server.answered), (22, 20, 20));
}

/// On a path that loses, repeats, delays and marks datagrams, everything is answered, and every count equals the other side's.
#[test]
fn what_is_counted_is_what_happened_whatever_the_path_does() {
    for seed in 1..=10 {
        let mut server = Http3Server::new(MS, 5_000, all_answered);
        let mut level = level(KeepAlive, 8, 2 * SECOND);
        level.spec.client.clients_per_connection = 4;
        level.spec.client.method = "POST".into();
        level.spec.client.body = Some("b".repeat(3_000));
        level.spec.load.drain = Nanos::from_secs(60);
        level.wire.datagrams = DatagramPath {
            seed,
            loss: 10,
            duplicates: 5,
            late: (20, 10 * MS),
            marks: if seed % 2 == 0 { 10 } else { 0 },
            bleaches: seed % 5 == 0,
            bytes_max: if seed % 3 == 0 { 1_300 } else { 65_527 },
            ..DatagramPath::default()
        };
        let measured = level.run_over::<Plain, Http3>(&mut server, None);
        assert_eq!((errors(&measured), &server.told), (vec![], &vec![]), "seed {seed}");
        let http3 = measured.http3.clone().unwrap();
        let counts = &measured.counts;
        assert!(counts.succeeded > 500 && http3.packets_lost > 0, "seed {seed}: {counts:?}");
        assert_eq!((server.accepted, measured.lifetime.connections), (2, 2));
        assert_eq!(server.answered, measured.lifetime.requests, "seed {seed}");
        assert_eq!(server.request_body_bytes, 3_000 * server.answered, "seed {seed}");
        assert_eq!(measured.lifetime.sent_bytes, server.totals.sent.1, "seed {seed}");
        assert_eq!(measured.lifetime.received_bytes, server.totals.received.1, "seed {seed}");
        let (sends, receives) = server.totals.calls;
        // What is still under way when the window closes, and the connections' ends, are in no figure.
        for (calls, counted) in [(sends, http3.sends), (receives, http3.receives)] {
            assert!(
                (counted..=counted + 60).contains(&calls),
                "seed {seed}: {calls} calls, {counted} counted"
            );
        }
        assert_eq!(measured.body_bytes.sum, 5_000 * counts.succeeded);
        assert!(measured.response.min >= 3 * MS, "seed {seed}");
        if seed % 3 == 0 {
            assert!(http3.mtu.max <= 1_300, "{:?}", http3.mtu);
        }
    }
}

/// On a long path a body takes the round trips that slow start needs, and later those that the server's window of 1.25 MB needs: what
/// the client keeps of it is no limit.
#[test]
fn a_long_body_takes_few_round_trips_on_a_long_path() {
    let mut server = Http3Server::new(MS, 10, all_answered);
    let mut long = level(KeepAlive, 1, 10 * SECOND);
    long.wire.latency_ns = 50 * MS;
    long.spec.client.method = "POST".into();
    long.spec.client.body = Some("b".repeat(2_000_000));
    let measured = long.run_over::<Plain, Http3>(&mut server, None);
    assert_eq!((errors(&measured), &server.told), (vec![], &vec![]));
    let (max, min) = (measured.response.max / MS, measured.response.min / MS);
    assert!((700..1000).contains(&max) && (200..350).contains(&min), "{max} ms, then {min} ms");
}

/// A connection for each request, all but the first resumed: the request goes with the first datagram, and its answer arrives a round
/// trip and the server's 3 ms later. If early data is rejected, the answer takes another round trip. That happens only once: tickets of a
/// server that rejects early data do not allow it.
#[test]
fn early_data_saves_the_round_trip_of_the_handshake() {
    let mut server = Http3Server::new(3 * MS, 10, all_answered);
    let mut early = level(PerRequest, 1, 102 * MS + 1);
    early.spec.client.tls.resume = webstone_workload::tls::Share::ALL;
    early.spec.client.tls.early_data = true;
    let measured = early.run_over::<Plain, Http3>(&mut server, None);
    are("connect", &measured.connect, &measured.histograms.connect, &[(0, 20), (2 * MS, 1)]);
    are("response", &measured.response, &measured.histograms.response, &[(5 * MS, 19), (7 * MS, 1)]);
    let (http3, handshakes) = (measured.http3.clone().unwrap(), measured.handshakes.clone().unwrap());
    assert_eq!((handshakes.full, handshakes.resumed, handshakes.early_data_accepted), (1, 19, 19));
    assert_eq!((http3.early_requests, http3.early_repeated, server.answered), (19, 0, 21));
    let mut server = Http3Server::new(3 * MS, 10, all_answered);
    server.takes_early = Some(1);
    let measured = early.run_over::<Plain, Http3>(&mut server, None);
    are("response", &measured.response, &measured.histograms.response, &[(7 * MS, 14)]);
    let (http3, handshakes) = (measured.http3.clone().unwrap(), measured.handshakes.clone().unwrap());
    assert_eq!((handshakes.early_data_accepted, handshakes.early_data_rejected), (0, 1));
    assert_eq!((http3.early_requests, http3.early_repeated, errors(&measured)), (1, 1, vec![]));
    assert_eq!(server.answered, 15, "no request is answered twice");
}

/// A server that rejects early data may allow less than the request has sent: the request moves to another connection.
#[test]
fn early_data_that_is_rejected_and_too_long_is_sent_again_on_another_connection() {
    let mut server = Http3Server::new(3 * MS, 10, all_answered);
    (server.takes_early, server.then_allows) = (Some(1), Some(10));
    let mut early = level(PerRequest, 1, 100 * MS);
    early.spec.client.tls.resume = webstone_workload::tls::Share::ALL;
    early.spec.client.tls.early_data = true;
    let measured = early.run_over::<Plain, Http3>(&mut server, None);
    let (http3, handshakes) = (measured.http3.clone().unwrap(), measured.handshakes.clone().unwrap());
    assert_eq!((errors(&measured), handshakes.failed), (vec![], 1));
    assert_eq!((http3.refused, http3.retried, http3.given_up), (1, 1, 1));
    let (answered, succeeded) = (server.answered, measured.counts.succeeded);
    assert!(answered - succeeded <= 1 && succeeded >= 5, "{answered} answered, {succeeded} heard");
    let expected = Expectation { clients: 1, one_request_each: false, server_bytes: None };
    for identity in check(&measured, &expected) {
        assert!(identity.holds, "{identity:?}");
    }
}

/// A request that is too early is answered with 425 after 5 ms, and retried on its connection, which takes another 5 ms.
#[test]
fn requests_that_are_too_early_are_sent_again_after_the_handshake() {
    let refusing = |deeds| {
        let mut server = Http3Server::new(3 * MS, 10, all_answered);
        server.refuses_early = Some(deeds);
        server
    };
    let mut server = refusing(Vec::new());
    let mut early = level(PerRequest, 1, 107 * MS + 1);
    early.spec.client.tls.resume = webstone_workload::tls::Share::ALL;
    early.spec.client.tls.early_data = true;
    let measured = early.run_over::<Plain, Http3>(&mut server, None);
    are("connect", &measured.connect, &measured.histograms.connect, &[(0, 11), (2 * MS, 1)]);
    are("response", &measured.response, &measured.histograms.response, &[(7 * MS, 1), (10 * MS, 10)]);
    are("first byte", &measured.first_byte, &measured.histograms.first_byte, &[(7 * MS, 1), (10 * MS, 10)]);
    assert_eq!((errors(&measured), measured.body_bytes.sum), (vec![], 110));
    let (http3, handshakes) = (measured.http3.clone().unwrap(), measured.handshakes.clone().unwrap());
    assert_eq!((handshakes.resumed, handshakes.early_data_accepted, handshakes.too_early), (10, 10, 10));
    assert_eq!((http3.early_requests, http3.early_repeated), (10, 0));
    assert_eq!((http3.streams, http3.whole, http3.streams_in_flight), (22, 21, 1));
    assert_eq!((server.answered, server.accepted), (measured.lifetime.requests, 12));
    // After GOAWAY the connection takes no more requests: the retry uses a new one without early data, whose handshake takes 2 ms.
    let mut server = refusing(vec![Deed::Control(vec![7, 1, 4])]);
    let measured = early.run_over::<Plain, Http3>(&mut server, None);
    are("response", &measured.response, &measured.histograms.response, &[(7 * MS, 1), (12 * MS, 8)]);
    let handshakes = measured.handshakes.clone().unwrap();
    assert_eq!((errors(&measured), handshakes.too_early, handshakes.early_data_rejected), (vec![], 8, 0));
    // If the workload expects the status, it is an answer like any other.
    early.spec.client.expect_status = "200,425".parse().unwrap();
    let measured = early.run_over::<Plain, Http3>(&mut refusing(Vec::new()), None);
    let handshakes = measured.handshakes.clone().unwrap();
    assert_eq!((errors(&measured), handshakes.too_early), (vec![], 0));
    are("response", &measured.response, &measured.histograms.response, &[(5 * MS, 20), (7 * MS, 1)]);
}

/// Of three requests one is rejected, and is sent again; one of five is reset, which is an error with the code's name.
#[test]
fn resets_are_told_by_their_code() {
    let fate = |number| match number {
        _ if number % 3 == 0 => Fate::Reset(code::REQUEST_REJECTED),
        _ if number % 5 == 0 => Fate::Reset(code::REQUEST_CANCELLED),
        _ => Fate::Answer,
    };
    let mut server = Http3Server::new(MS, 10, fate);
    let measured = level(KeepAlive, 1, 200 * MS).run_over::<Plain, Http3>(&mut server, None);
    let http3 = measured.http3.clone().unwrap();
    assert!(http3.rejected > 10 && http3.reset > 5, "{http3:?}");
    assert_eq!((http3.refused, http3.retried), (http3.rejected, http3.rejected));
    assert_eq!(http3.resets, [("H3_REQUEST_CANCELLED".to_owned(), http3.reset)].into());
    assert_eq!(errors(&measured), [(ErrorClass::H3Reset, http3.reset)]);
    let example = measured.errors.iter().next().unwrap().2.unwrap();
    assert!(example.detail.contains("H3_REQUEST_CANCELLED"), "{example:?}");
}

/// A server that has gone refuses the next datagram, and the kernel says so before it returns the answers that arrived earlier.
#[test]
fn answers_that_came_before_a_refusal_count() {
    let mut server = Http3Server::new(MS, 10, all_answered);
    let mut refused = level(KeepAlive, 1, 200 * MS);
    refused.wire.datagrams.refused_after = 12;
    let measured = refused.run_over::<Plain, Http3>(&mut server, None);
    assert!(measured.lifetime.connections > 5, "{:?}", measured.lifetime);
    assert_eq!(errors(&measured), []);
    let http3 = measured.http3.clone().unwrap();
    assert_eq!((http3.retried, server.answered), (0, measured.lifetime.requests));
}

/// An answer that the server began before it rejected the request is not a part of the next one.
#[test]
fn what_arrived_before_a_rejection_is_forgotten() {
    let fate = |number| match number % 3 {
        0 => {
            let mut begun = answer(200, 10);
            begun.truncate(begun.len() - 4);
            let rejected = Deed::Reset(code::REQUEST_REJECTED);
            Fate::Play(vec![Deed::Answer(begun), Deed::Wait, rejected])
        }
        _ => Fate::Answer,
    };
    let mut server = Http3Server::new(MS, 10, fate);
    let measured = level(KeepAlive, 1, 200 * MS).run_over::<Plain, Http3>(&mut server, None);
    let http3 = measured.http3.clone().unwrap();
    assert!(http3.rejected > 10, "{http3:?}");
    assert_eq!((http3.refused, http3.retried), (http3.rejected, http3.rejected));
    assert_eq!(errors(&measured), []);
    assert_eq!(measured.body_bytes.sum, 10 * measured.counts.succeeded);
}

/// Over real sockets, with kept connections and one for each request, with one worker and several: connections, requests and bodies are
/// those that the server counted.
#[test]
fn real_sockets_agree_with_the_server() {
    for (policy, workers) in [(KeepAlive, 1), (PerRequest, 1), (KeepAlive, 3), (PerRequest, 3)] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut level = level(policy, 4, 2_000 * MS);
        level.spec.target = vec![format!("https://{}", socket.local_addr().unwrap())];
        level.spec.client.method = "POST".into();
        level.spec.client.body = Some("b".repeat(3_000));
        level.spec.load.drain = Nanos::from_secs(60);
        let mut server = Http3Server::new(0, 5_000, all_answered);
        let stops = AtomicBool::new(false);
        let measured = std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.serve(&socket, &stops));
            let outcome = crate::run_level(&level.job(workers), &crate::Control::new());
            std::thread::sleep(Duration::from_millis(200));
            stops.store(true, Ordering::SeqCst);
            serving.join().unwrap();
            outcome.unwrap().measured
        });
        assert_eq!(errors(&measured), [], "{policy:?}");
        assert_eq!(measured.generator.workers.len(), workers as usize);
        let expected = Expectation { clients: 4, one_request_each: false, server_bytes: None };
        for identity in check(&measured, &expected) {
            assert!(identity.holds, "{identity:?}");
        }
        // Under a sanitizer the window may be over before the first answer.
        assert!(measured.lifetime.requests > 0, "{policy:?}");
        assert_eq!(measured.lifetime.requests, server.answered, "{policy:?}");
        assert_eq!(measured.lifetime.connections, server.accepted, "{policy:?}");
        assert_eq!(server.request_body_bytes, 3_000 * server.answered, "{policy:?}");
        assert_eq!(server.farewells, server.accepted, "{policy:?}");
        assert_eq!(measured.body_bytes.sum, 5_000 * measured.counts.succeeded);
    }
}

/// The machine stands still for longer than a probe timeout while an answer arrives: that is read before timers are looked at.
#[test]
fn a_worker_that_was_late_sends_no_probes() {
    let mut server = Http3Server::new(3 * MS, 10, all_answered);
    let mut late = level(KeepAlive, 1, SECOND);
    late.wire.stalls = (1..5).map(|nth| (nth * 150 * MS, nth * 150 * MS + 100 * MS)).collect();
    let measured = late.run_over::<Plain, Http3>(&mut server, None);
    let http3 = measured.http3.clone().unwrap();
    assert_eq!((http3.probe_timeouts, http3.packets_lost), (0, 0), "{http3:?}");
    assert!(measured.response.max >= 100 * MS && http3.whole > 50);
}

/// Both sides give a silent connection up after 30 s; one that awaits an answer is not silent.
#[test]
fn an_answer_may_take_longer_than_the_idle_timeout() {
    let mut server = Http3Server::new(70 * SECOND, 10, all_answered);
    let mut level = level(KeepAlive, 1, 200 * SECOND);
    level.spec.client.first_byte_timeout = Nanos::from_secs(100);
    level.spec.client.request_timeout = Nanos::from_secs(100);
    let measured = level.run_over::<Plain, Http3>(&mut server, None);
    assert_eq!((errors(&measured), measured.counts.succeeded), (vec![], 2));
    assert_eq!(measured.lifetime.connections, 1);
    let http3 = measured.http3.clone().unwrap();
    assert_eq!((http3.packets_lost, http3.probe_timeouts), (0, 0), "{http3:?}");
}

/// The server closes a connection, and its CONNECTION_CLOSE is lost. The client learns of it from the answer to its next packet: the
/// CONNECTION_CLOSE again, or a stateless reset. If there is neither, the idle timeout ends the connection. A request on a reused
/// connection is retried.
#[test]
fn a_lost_farewell_is_told_again_or_missed() {
    use ErrorClass::{ClosedEarly, QuicIdle, QuicReset};
    // The first request is acknowledged, so that nothing is sent before the PING halfway to the idle timeout; the second is sent again by
    // probe timeouts.
    for (lost, resets_none, class, waited_ns) in [
        (1, false, ClosedEarly, [0, 0]),
        (u64::MAX, false, QuicReset, [15 * SECOND, 0]),
        (u64::MAX, true, QuicIdle, [45 * SECOND, 30 * SECOND]),
    ] {
        for place in [1, 2] {
            let close = vec![Deed::Lose(lost), Deed::Close(code::NO_ERROR)];
            let fate = |number| if number == place { Fate::Play(close.clone()) } else { Fate::Answer };
            let mut server = Http3Server::new(3 * MS, 10, fate);
            server.resets_none = resets_none;
            let mut level = level(KeepAlive, 1, 60 * SECOND);
            level.spec.client.first_byte_timeout = Nanos::from_secs(100);
            level.spec.client.request_timeout = Nanos::from_secs(100);
            let measured = level.run_over::<Plain, Http3>(&mut server, None);
            let is_first = place == 1;
            let expected = if is_first { vec![(class, 1)] } else { vec![] };
            assert_eq!(errors(&measured), expected, "{class:?}: {:?}", measured.errors);
            let waited = if is_first { measured.unanswered.response.max } else { measured.response.max };
            let least = waited_ns[place as usize - 1];
            assert!((least..least + 200 * MS).contains(&waited), "{class:?} {place}: {waited} ns");
            assert_eq!((server.accepted, measured.counts.stale_retries), (2, u64::from(!is_first)));
            assert!(measured.counts.succeeded > 1000 && server.totals.lost > 0, "{:?}", measured.counts);
        }
    }
}

/// A server answers wholly while a body is being sent, and acknowledges more of it in the same moment: the request is over, nothing more
/// of it is sent, and its stream is free for another.
#[test]
fn an_answer_before_the_body_was_sent_frees_its_stream() {
    let mut early = 0;
    // What is not given to QUIC at first is less than what one acknowledgement frees, which comes with the answer or before it.
    for bytes in (10_000..19_000).step_by(1_000) {
        let mut server = Http3Server::new(0, 10, all_answered);
        server.answers_after = Some(bytes);
        let mut level = level(KeepAlive, 1, 200 * MS);
        // On a new connection 256 kB of a body are kept, later more.
        level.spec.client.requests_per_connection = Some(4);
        level.spec.client.streams = Some(1);
        level.spec.client.method = "POST".into();
        level.spec.client.body = Some("b".repeat(280_000));
        let measured = level.run_over::<Plain, Http3>(&mut server, None);
        let others = errors(&measured).iter().any(|(class, _)| *class != ErrorClass::AnsweredEarly);
        let (failed, succeeded) = (measured.counts.failed, measured.counts.succeeded);
        assert!(!others && failed + succeeded > 20, "{bytes}: {:?}", measured.errors);
        early += failed;
    }
    assert!(early > 0);
}

/// What QUIC keeps of a body is not sent yet: an early answer is no success, however much is kept, and the error says what was sent.
#[test]
fn an_early_answer_is_told_by_what_was_sent() {
    for body_bytes in [20_000, 100_000, 280_000] {
        let mut server = Http3Server::new(0, 10, all_answered);
        server.answers_after = Some(10_000);
        let mut level = level(PerRequest, 1, 200 * MS);
        level.spec.client.method = "POST".into();
        level.spec.client.body = Some("b".repeat(body_bytes));
        let measured = level.run_over::<Plain, Http3>(&mut server, None);
        let counts = &measured.counts;
        assert!(counts.succeeded == 0 && counts.failed > 20, "{body_bytes}: {counts:?}");
        for (class, _, first) in measured.errors.iter() {
            assert_eq!(class, ErrorClass::AnsweredEarly);
            let detail = &first.unwrap().detail;
            let sent = detail.strip_prefix("status 200 after only ").and_then(|rest| rest.split(' ').next());
            // The first flight: no more than ten datagrams.
            let sent: u64 = sent.unwrap().parse().unwrap();
            assert!((10_000..14_720).contains(&sent), "{detail}");
        }
    }
}

/// A graceful end takes two GOAWAY frames, the first of which names no request (RFC 9114 section 5.2).
#[test]
fn a_connection_that_ends_in_two_steps_is_counted_once() {
    let goaway = |id: &[u8]| Deed::Control([&[7, id.len() as u8], id].concat());
    // 2^62 − 4, then the stream after the second one.
    let last = goaway(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]);
    let mut deeds = Some(vec![last, Deed::Wait, goaway(&[8]), Deed::Answer(answer(200, 10)), Deed::Finish]);
    let mut server = Http3Server::new(MS, 10, |number| match number {
        2 => deeds.take().map_or(Fate::Answer, Fate::Play),
        _ => Fate::Answer,
    });
    let measured = level(KeepAlive, 1, 50 * MS).run_over::<Plain, Http3>(&mut server, None);
    assert_eq!((errors(&measured), measured.http3.unwrap().goaways), (vec![], 1));
}

/// Nobody answers: that is an error of its own.
#[test]
fn silence_has_a_class_of_its_own() {
    let mut server = Http3Server::new(MS, 10, all_answered);
    let mut level = level(KeepAlive, 1, 500 * MS);
    level.wire.datagrams.loss = 1000;
    level.spec.client.connect_timeout = Nanos::from_millis(200);
    let measured = level.run_over::<Plain, Http3>(&mut server, None);
    let (class, count, example) = measured.errors.iter().next().unwrap();
    assert_eq!((class, count >= 1), (ErrorClass::QuicSilence, true));
    assert!(example.unwrap().detail.contains("is UDP blocked"), "{example:?}");
    assert_eq!(measured.counts.connections_failed, count);
    assert!(server.totals.lost > count, "Initial packets are sent again");
}
