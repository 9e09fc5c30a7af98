//! TLS on the simulated network: handshakes take exactly as long as the network and the server make them, wherever
//! records are cut. The server's side is rustls's.

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use webstone_workload::tls::{TlsGroup, TlsVersion};

use super::*;
use crate::simulated_tests::network::take_http1_request;
use crate::tls::Tls;

/// A TLS server for one connection at a time, which is established after 1 ms. Its first flight takes 3 ms, an answer
/// of `body_bytes` 2 ms.
struct Server {
    config: Arc<ServerConfig>,
    tls: Option<ServerConnection>,
    plain: Vec<u8>,
    body_bytes: usize,
    /// Every second answer has ten bytes instead.
    small_between: bool,
    /// If set, this is the answer to a request of which the head has come, and the connection is reset after it.
    hasty: Option<&'static [u8]>,
    answered: u64,
}

impl Server {
    fn new() -> Server {
        let made = rcgen::generate_simple_self_signed(vec!["192.0.2.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        Server {
            config: Arc::new(config),
            tls: None,
            plain: Vec::new(),
            body_bytes: 10,
            small_between: false,
            hasty: None,
            answered: 0,
        }
    }

    fn flight(&mut self) -> Vec<u8> {
        let tls = self.tls.as_mut().expect("it is connected");
        let mut wire = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut wire).unwrap();
        }
        wire
    }
}

impl Peer for &mut Server {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        let mut tls = ServerConnection::new(self.config.clone()).unwrap();
        tls.set_buffer_limit(None);
        self.tls = Some(tls);
        self.plain.clear();
        Attempt::Stands { handshake_ns: MS, served_ns: MS }
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        (!at_server.is_empty()).then(|| std::mem::take(at_server))
    }

    fn answer(&mut self, _: u64, wire: &[u8]) -> Vec<Act> {
        let tls = self.tls.as_mut().expect("it is connected");
        let mut rest = wire;
        while !rest.is_empty() && tls.read_tls(&mut rest).unwrap() > 0 {
            let state = tls.process_new_packets().unwrap();
            let mut piece = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut piece).unwrap();
            self.plain.extend(piece);
        }
        let is_first_flight = tls.is_handshaking();
        let mut acts = Vec::new();
        // The first flight, or tickets.
        let own = self.flight();
        if !own.is_empty() {
            acts.extend([Act::Wait(if is_first_flight { 3 * MS } else { 0 }), Act::Write(own)]);
        }
        if let Some(answer) = self.hasty.filter(|_| memchr::memmem::find(&self.plain, b"\r\n\r\n").is_some())
        {
            self.plain.clear();
            self.tls.as_mut().expect("as above").writer().write_all(answer).unwrap();
            acts.extend([Act::Write(self.flight()), Act::Reset]);
        }
        while let Some(request) = take_http1_request(&mut self.plain) {
            let is_last = memchr::memmem::find(&request, b"Connection: close").is_some();
            let tls = self.tls.as_mut().expect("as above");
            let is_small = self.small_between && self.answered % 2 == 1;
            self.answered += 1;
            tls.writer().write_all(&response(if is_small { 10 } else { self.body_bytes })).unwrap();
            if is_last {
                tls.send_close_notify();
            }
            let wire = self.flight();
            acts.extend([Act::Wait(2 * MS), Act::Write(wire)]);
            if is_last {
                acts.push(Act::Finish);
            }
        }
        acts
    }
}

/// An answer before a body was sent is read though the connection is reset, and the error says how much of the request went out: all of
/// it is sealed at once, and the socket takes it piece by piece.
#[test]
fn an_early_answer_counts_though_the_request_is_sealed_as_a_whole() {
    for (answer, class) in [
        (&b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"[..], ErrorClass::WrongStatus),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ErrorClass::AnsweredEarly),
    ] {
        let mut level = level(TlsVersion::Tls13);
        level.spec.client.method = "POST".into();
        level.spec.client.body = Some("x".repeat(1 << 20));
        level.wire.send_room = 40_000;
        let mut server = Server { hasty: Some(answer), ..Server::new() };
        let measured = level.run_over::<Tls, Http1>(&mut server, None);
        let told: Vec<_> = measured.errors.iter().collect();
        assert!(told.len() == 1 && told[0].0 == class && told[0].1 > 3, "{told:?}");
        if class == ErrorClass::AnsweredEarly {
            let detail = &told[0].2.unwrap().detail;
            let sent = detail.strip_prefix("status 200 after only ").and_then(|rest| rest.split(' ').next());
            let sent: u64 = sent.unwrap().parse().unwrap();
            // The socket takes 40,000 bytes; those of records count as not yet sent.
            assert!((38_000..40_000).contains(&sent), "{detail}");
        }
    }
}

fn level(version: TlsVersion) -> Level {
    let mut level = Level::new(ConnectionPolicy::KeepAlive, &["/"], 61 * MS);
    level.spec.target = vec!["https://192.0.2.1".into()];
    level.spec.client.tls.verify = false;
    level.spec.client.tls.versions = vec![version];
    level.wire.latency_ns = MS;
    level
}

#[test]
fn a_handshake_lasts_as_long_as_its_flights() {
    for segment_bytes in [usize::MAX, 1000, 7, 1] {
        for (version, handshake_ns) in [(TlsVersion::Tls13, 5 * MS), (TlsVersion::Tls12, 7 * MS)] {
            let mut level = level(version);
            level.wire.segment_bytes = segment_bytes;
            let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
            assert_eq!(errors(&measured), [], "{version} {segment_bytes}");
            are("connect", &measured.connect, &measured.histograms.connect, &[(MS, 1)]);
            let found = measured.handshakes.as_ref().unwrap();
            are("handshake", &found.time, &found.histogram, &[(handshake_ns, 1)]);
            assert_eq!((found.full, found.agreed[0].version), (1, version));
            assert_eq!((found.agreed[0].group, found.agreed[0].verified), (Some(TlsGroup::X25519), false));
            // One millisecond there, two at the server, one back; for the first also connect and handshake.
            let later = (61 * MS - MS - handshake_ns) / (4 * MS) - 1;
            let expected = [(4 * MS, later), (MS + handshake_ns + 4 * MS, 1)];
            are("response", &measured.response, &measured.histograms.response, &expected);
            assert_eq!(measured.response_bytes.sum, (later + 1) * response(10).len() as u64);
            assert_eq!(measured.counts.surplus, 0);
        }
    }
}

/// A resumed handshake of TLS 1.2 is a round trip shorter; one of TLS 1.3 takes as long, but less CPU time.
#[test]
fn resumed_handshakes_last_as_long_as_their_flights() {
    for (version, share, full_ns, resumed_ns) in [
        (TlsVersion::Tls13, "0%", 5 * MS, 0),
        (TlsVersion::Tls13, "100%", 5 * MS, 5 * MS),
        (TlsVersion::Tls12, "0%", 7 * MS, 0),
        (TlsVersion::Tls12, "100%", 7 * MS, 5 * MS),
    ] {
        let mut level = level(version);
        level.spec.client.connections = ConnectionPolicy::PerRequest;
        level.spec.client.tls.resume = share.parse().unwrap();
        // A connection is established after 1 ms, and an answer arrives 4 ms after the handshake.
        let resumes = resumed_ns > 0;
        let later_ns = if resumes { resumed_ns } else { full_ns };
        level.spec.load.duration = Nanos(MS + full_ns + 4 * MS + 9 * (MS + later_ns + 4 * MS) + MS / 2);
        let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
        assert_eq!((errors(&measured), measured.counts.succeeded), (vec![], 10), "{version} {share}");
        let found = measured.handshakes.as_ref().unwrap();
        let (full, resumed) = if resumes { (1, 9) } else { (10, 0) };
        assert_eq!((found.full, found.resumed, found.failed), (full, resumed, 0), "{version} {share}");
        let mut expected = vec![(full_ns, full)];
        expected.extend((resumed > 0).then_some((resumed_ns, resumed)));
        are("handshake", &found.time, &found.histogram, &expected);
        // A client that has its answer sees the end of the connection at the same instant.
        let answers: Vec<(u64, u64)> =
            expected.iter().map(|(handshake_ns, count)| (MS + handshake_ns + 4 * MS, *count)).collect();
        are("response", &measured.response, &measured.histograms.response, &answers);
    }
}

/// Each gap begins during a handshake, from 1 to 6 ms of every 10.
#[test]
fn handshakes_that_end_in_gaps_are_missing_without_harm() {
    let mut level = level(TlsVersion::Tls13);
    level.spec.client.connections = ConnectionPolicy::PerRequest;
    (level.spec.load.warmup, level.spec.load.duration) = (Nanos(MS / 2), Nanos(120 * MS));
    (level.slice_ns, level.slices, level.left_out) = (15 * MS, 8, vec![1, 3, 5, 7]);
    let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
    assert_eq!((measured.counts.connections, measured.handshakes.unwrap().full), (8, 4));
    assert_eq!((measured.counts.left_open, measured.counts.in_flight), (4, 1));
}

/// The header of the PROXY protocol does not get through, so that the handshake does not begin.
#[test]
fn a_connection_that_breaks_before_its_handshake_is_counted_with_it() {
    let mut level = level(TlsVersion::Tls13);
    level.spec.client.proxy_protocol = Some(webstone_workload::route::ProxyProtocol::V1);
    level.wire.send_room = 10;
    let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
    assert_eq!(errors(&measured), [(ErrorClass::GeneratorIo, 3)]);
    assert_eq!((measured.counts.connections, measured.handshakes.unwrap().failed), (3, 3));
}

/// Many records of a body are waited for at once, and its last byte is noticed when it comes.
#[test]
fn a_large_body_ends_when_its_last_byte_comes() {
    for (segment_bytes, receives_most) in
        [(usize::MAX, 160 << 10), (1400, 160 << 10), (1400, 16 << 10), (20_000, 7)]
    {
        for policy in [ConnectionPolicy::KeepAlive, ConnectionPolicy::PerRequest] {
            let mut level = level(TlsVersion::Tls13);
            level.spec.client.connections = policy;
            level.wire.segment_bytes = segment_bytes;
            level.wire.receives_most = receives_most;
            // 100 MB/s: some 5 ms for the body.
            level.wire.bytes_per_s = Some(100_000_000);
            level.spec.load.duration = Nanos(40 * MS);
            let mut server = Server { body_bytes: 500_000, ..Server::new() };
            let (sender, receiver) = sync_channel(1024);
            let measured = level.run_over::<Tls, Http1>(&mut server, Some(sender));
            assert_eq!(errors(&measured), [], "{segment_bytes} {policy:?}");
            let told: Vec<Transaction> = receiver.try_iter().flatten().collect();
            assert!(told.len() >= 2, "{segment_bytes} {receives_most} {policy:?}: {:?}", measured.counts);
            for told in told {
                // A record of 16 KiB has 22 bytes of its own, and so has the last one. The head is in the first
                // record, and close_notify comes after the last.
                let bytes = response(500_000).len() as u64;
                let wire_bytes = bytes + 22 * bytes.div_ceil(16 << 10);
                let took_ns = (told.end_ns - told.sent_ns.unwrap()) as u64;
                let least_ns = 4 * MS + wire_bytes * 10;
                // The request needs bandwidth, too; and there may be a segment or the close_notify that comes with
                // the end.
                let most_ns = least_ns + (400 + 2 * 1400) * 10;
                assert!(
                    (least_ns..=most_ns).contains(&took_ns),
                    "{segment_bytes} {policy:?}: {took_ns}, {least_ns}"
                );
            }
        }
    }
}

/// The number of bytes waited for in a large body must not apply to the small answer that comes next on the same
/// connection.
#[test]
fn a_small_answer_after_a_large_one_is_noticed_when_it_comes() {
    for segment_bytes in [usize::MAX, 1400, 20_000] {
        for body_bytes in (140_000..420_000).step_by(7_001) {
            let mut level = level(TlsVersion::Tls13);
            level.wire.segment_bytes = segment_bytes;
            level.wire.bytes_per_s = Some(100_000_000);
            level.spec.load.duration = Nanos(60 * MS);
            let mut server = Server { body_bytes, small_between: true, ..Server::new() };
            let (sender, receiver) = sync_channel(1024);
            let measured = level.run_over::<Tls, Http1>(&mut server, Some(sender));
            assert_eq!(errors(&measured), [], "{segment_bytes} {body_bytes}");
            let told: Vec<Transaction> = receiver.try_iter().flatten().collect();
            let small: Vec<u64> = (told.iter().filter(|told| told.body_bytes == 10))
                .map(|told| (told.end_ns - told.sent_ns.unwrap()) as u64)
                .collect();
            assert!(small.len() >= 2, "{segment_bytes} {body_bytes}: {told:?}");
            // The round trip, and the server's delay.
            assert!(
                small.iter().all(|took_ns| *took_ns < 4 * MS + 10_000),
                "{segment_bytes} {body_bytes}: {small:?}"
            );
        }
    }
}

/// Through a socket that takes a few bytes at a time, every record arrives whole.
#[test]
fn a_request_is_sent_in_parts() {
    let mut level = level(TlsVersion::Tls13);
    level.spec.load.duration = Nanos(4 * SECOND);
    level.wire.send_room = 50;
    let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
    assert!(measured.counts.succeeded > 100, "{}", measured.counts.succeeded);
}

/// A server without TLS at port 80, whose answers take as long as those over TLS at port 443.
struct Both {
    secure: Server,
    is_secure: bool,
}

impl Peer for &mut Both {
    fn connect(&mut self, connection: u64, address: &Address) -> Attempt {
        self.is_secure = matches!(address, Address::Internet(address) if address.port() == 443);
        (&mut &mut self.secure).connect(connection, address)
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        if self.is_secure {
            (&mut &mut self.secure).take_request(at_server)
        } else {
            take_http1_request(at_server)
        }
    }

    fn answer(&mut self, connection: u64, request: &[u8]) -> Vec<Act> {
        if self.is_secure {
            return (&mut &mut self.secure).answer(connection, request);
        }
        vec![Act::Wait(2 * MS), Act::Write(response(10)), Act::Finish]
    }
}

/// Connections count for the share over TLS once they can carry a request, wherever the window begins and ends:
/// without TLS when established, over TLS at the end of the handshake.
#[test]
fn the_share_of_connections_over_tls_needs_no_allowance_for_the_ends_of_a_window() {
    // Without TLS a connection is established after 1 ms, and its answer arrives 4 ms later; over TLS there are 5 ms
    // of handshake in between. So in a period of 15 ms a connection without TLS is established at 1 ms, one over TLS
    // at 6 ms, and its handshake ends at 11 ms.
    for (opens_ms, closes_ms, connections, over_tls, in_the_clear) in [
        (0, 150, 20, 10, 10),
        // Opens during a handshake: its end counts, its connection does not.
        (7, 12, 0, 1, 0),
        (7, 20, 1, 1, 1),
        (7, 52, 6, 3, 3),
        // Closes during one: the connection counts, the end of the handshake does not.
        (12, 23, 2, 0, 1),
        (0, 7, 2, 0, 1),
        (0, 14, 2, 1, 1),
    ] {
        let mut level = level(TlsVersion::Tls13);
        level.spec.target = vec!["http://192.0.2.1".into(), "https://192.0.2.1".into()];
        level.spec.client.connections = ConnectionPolicy::PerRequest;
        let mut secret = file("/b");
        secret.detail.tls = true;
        level.workload.pages[0].files = vec![file("/a"), secret];
        level.spec.load.warmup = Nanos(opens_ms * MS);
        // Half a millisecond more, so that nothing happens exactly as it closes.
        level.spec.load.duration = Nanos((closes_ms - opens_ms) * MS + MS / 2);
        let measured =
            level.run_over::<Tls, Http1>(&mut Both { secure: Server::new(), is_secure: false }, None);
        let what = format!("{opens_ms} to {closes_ms} ms");
        assert_eq!((errors(&measured), measured.counts.connections), (vec![], connections), "{what}");
        let found = measured.handshakes.as_ref().unwrap();
        assert_eq!((found.full, found.in_the_clear), (over_tls, in_the_clear), "{what}");
        let share = 100.0 * over_tls as f64 / (over_tls + in_the_clear) as f64;
        assert_eq!(found.connections_percent(), Some(share), "{what}");
    }
    // All over TLS: 100 %, though the window opens during a handshake and no connection begins in it.
    let mut level = level(TlsVersion::Tls13);
    (level.spec.load.warmup, level.spec.load.duration) = (Nanos(3 * MS), Nanos(5 * MS));
    let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
    let found = measured.handshakes.as_ref().unwrap();
    assert_eq!((measured.counts.connections, found.full, found.connections_percent()), (0, 1, Some(100.0)));
}
