//! Many exchanges on a link: clients that share connections of HTTP/2, with a server whose delays are all known.

use std::collections::{BTreeSet, VecDeque};

use webstone_workload::load::ConnectionPolicy::KeepAlive;
use webstone_workload::load::HttpVersion;

use super::*;
use crate::h2::frames::{self, flag, kind};
use crate::h2::hpack::encoder::{self, Literal};
use crate::h2::session::Http2;

/// A server with a delay and a status for the n-th request of a connection; it sends its settings with the first.
pub(super) struct Framed<D, S> {
    pub(super) handshake_ns: u64,
    pub(super) streams_max: u32,
    pub(super) delay_ns: D,
    pub(super) status: S,
}

/// The status of every request.
fn ok(_: u32) -> &'static str {
    "200"
}

impl<D: FnMut(u32) -> u64, S: FnMut(u32) -> &'static str> Peer for Framed<D, S> {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        Attempt::Stands { handshake_ns: self.handshake_ns, served_ns: self.handshake_ns }
    }

    /// The next HEADERS frame; all others are ignored.
    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        if at_server.starts_with(frames::PREFACE) {
            at_server.drain(..frames::PREFACE.len());
        }
        loop {
            let head = at_server.first_chunk::<9>()?;
            let length = usize::from(head[1]) << 8 | usize::from(head[2]);
            if at_server.len() < frames::HEAD_BYTES + length {
                return None;
            }
            let frame: Vec<u8> = at_server.drain(..frames::HEAD_BYTES + length).collect();
            if frame[3] == kind::HEADERS {
                assert_eq!(frame[4], flag::END_HEADERS | flag::END_STREAM);
                return Some(frame);
            }
        }
    }

    fn answer(&mut self, _: u64, request: &[u8]) -> Vec<Act> {
        let stream = frames::number(&request[5..]);
        let mut acts = Vec::new();
        if stream == 1 {
            let mut settings = Vec::new();
            frames::write_settings(
                [(frames::setting::MAX_CONCURRENT_STREAMS, self.streams_max)],
                &mut settings,
            );
            acts.push(Act::Write(settings));
        }
        let mut answer = Vec::new();
        let mut block = Vec::new();
        encoder::field(":status", (self.status)(stream / 2).as_bytes(), Literal::Plain, &mut block);
        encoder::field("content-length", b"2", Literal::Plain, &mut block);
        frames::write_head(block.len(), kind::HEADERS, flag::END_HEADERS, stream, &mut answer);
        answer.extend_from_slice(&block);
        frames::write_head(2, kind::DATA, flag::END_STREAM, stream, &mut answer);
        answer.extend_from_slice(b"ok");
        acts.extend([Act::Wait((self.delay_ns)(stream / 2)), Act::Write(answer)]);
        acts
    }
}

fn level(clients: u32, per_connection: u32, streams: Option<u32>, duration_ns: u64) -> Level {
    let mut level = Level::new(KeepAlive, &["/"], duration_ns);
    level.spec.client.http = HttpVersion::Http2;
    level.spec.client.clients_per_connection = per_connection;
    level.spec.client.streams = streams;
    level.clients = clients;
    level.wire.latency_ns = MS;
    level
}

fn steady_frames(streams_max: u32) -> impl Peer {
    Framed { handshake_ns: 2 * MS, streams_max, delay_ns: |_| 3 * MS, status: ok }
}

/// Ten clients wait 2 ms for their connection; then each request takes 3 ms and the round trip.
#[test]
fn clients_of_a_connection_do_not_wait_for_each_other() {
    for segment_bytes in [usize::MAX, 7, 1] {
        let mut level = level(10, 10, None, 58 * MS);
        level.wire.segment_bytes = segment_bytes;
        let measured = level.run_over::<Plain, Http2>(steady_frames(100), None);
        assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
        are("response", &measured.response, &measured.histograms.response, &[(7 * MS, 10), (5 * MS, 100)]);
        let counts = measured.http2.unwrap();
        assert_eq!((counts.concurrent_max, counts.waited, counts.allowed_min), (10, 0, Some(100)));
    }
}

/// A line of 1,800 bytes per second brings answers of 25 bytes.
#[test]
fn a_line_brings_frames_too() {
    let mut level = level(1, 1, None, SECOND);
    let unlimited = level.run_over::<Plain, Http2>(steady_frames(100), None);
    assert_eq!(unlimited.response.min, 5 * MS);
    level.spec.client.bandwidth = Some("14.4k".parse().unwrap());
    let measured = level.run_over::<Plain, Http2>(steady_frames(100), None);
    assert_eq!(errors(&measured), []);
    assert_eq!(measured.response.min, 5 * MS + 25 * SECOND / 1800);
}

/// Five at a time: the others wait their turn, and the wait is part of their latency.
#[test]
fn a_cap_makes_requests_wait_in_order() {
    let measured = level(10, 10, Some(5), 58 * MS).run_over::<Plain, Http2>(steady_frames(100), None);
    assert_eq!(errors(&measured), []);
    let expected = [(7 * MS, 5), (12 * MS, 5), (10 * MS, 45)];
    are("response", &measured.response, &measured.histograms.response, &expected);
    let counts = measured.http2.unwrap();
    // All but the first five waited, including those that still wait as the window closes.
    assert_eq!((counts.concurrent_max, counts.waited), (5, 60));
}

#[test]
fn clients_are_dealt_to_connections_in_order() {
    let measured = level(10, 4, None, 20 * MS).run_over::<Plain, Http2>(steady_frames(100), None);
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 3));
    let connects: Vec<u64> = measured.clients.iter().map(|client| client.connects).collect();
    assert_eq!(connects, [1, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
}

/// A request does not wait for a stream for ever.
#[test]
fn a_wait_for_a_stream_times_out() {
    let mut level = level(2, 2, Some(1), 100 * MS);
    level.spec.client.first_byte_timeout = Nanos(30 * MS);
    let peer = Framed { handshake_ns: 2 * MS, streams_max: 100, delay_ns: |_| SECOND, status: ok };
    let measured = level.run_over::<Plain, Http2>(peer, None);
    let found = errors(&measured);
    assert_eq!((found.len(), found[0].0), (1, ErrorClass::FirstByteTimeout));
    assert!(found[0].1 >= 4, "{found:?}");
}

/// RFC 9113, section 7.
const INTERNAL_ERROR: u32 = 2;

/// A server that refuses streams, resets others, and counts what reaches its client before the window ends.
struct Booked {
    ends_ns: u64,
    requests: u64,
    frames: u64,
    refused: u64,
    reset: u64,
}

impl Peer for &mut Booked {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        Attempt::Stands { handshake_ns: MS, served_ns: MS }
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        steady_frames(100).take_request(at_server)
    }

    fn answer(&mut self, now_ns: u64, request: &[u8]) -> Vec<Act> {
        let number = frames::number(&request[5..]) / 2;
        self.requests += 1;
        // 1 ms to answer, and 1 ms in transit.
        let is_in_time = now_ns + 2 * MS < self.ends_ns;
        let code = match number {
            n if n % 5 == 4 => Some(frames::code::REFUSED_STREAM),
            n if n % 7 == 6 => Some(INTERNAL_ERROR),
            _ => None,
        };
        let mut framed = Framed { handshake_ns: 0, streams_max: 100, delay_ns: |_| MS, status: ok };
        let mut acts = framed.answer(now_ns, request);
        if let Some(code) = code {
            let mut reset = Vec::new();
            frames::write_head(4, frames::kind::RST_STREAM, 0, 2 * number + 1, &mut reset);
            reset.extend(code.to_be_bytes());
            *acts.last_mut().unwrap() = Act::Write(reset);
        }
        if is_in_time {
            self.refused += u64::from(code == Some(frames::code::REFUSED_STREAM));
            self.reset += u64::from(code == Some(INTERNAL_ERROR));
            self.frames += if code.is_some() { 1 } else { 2 };
        }
        // The settings, with the first.
        self.frames += u64::from(number == 0);
        acts
    }
}

#[test]
fn streams_and_frames_are_those_of_the_server() {
    for clients in [1, 3, 10] {
        let duration_ns = 90 * MS + MS / 2;
        let begin_ns = crate::simulated_tests::network::BEGIN_NS;
        let mut server =
            Booked { ends_ns: begin_ns + duration_ns, requests: 0, frames: 0, refused: 0, reset: 0 };
        let measured = level(clients, clients, None, duration_ns).run_over::<Plain, Http2>(&mut server, None);
        let found = measured.http2.unwrap();
        let what = format!("{clients} clients: {found:?}");
        // Each client's last request reaches the server after the window's end, or within it.
        assert!((found.streams - u64::from(clients)..=found.streams).contains(&server.requests), "{what}");
        assert_eq!(
            (found.frames, found.refused, found.reset),
            (server.frames, server.refused, server.reset),
            "{what}"
        );
        assert_eq!((found.retried, found.goaways), (server.refused, 0), "{what}");
        assert!(server.refused > 0 && server.reset > 0, "{what}");
        assert_eq!(errors(&measured), [(ErrorClass::H2Reset, server.reset)]);
        assert_eq!(measured.counts.connections, 1, "a reset is a stream's");
        let answered = (server.frames - 1 - server.refused - server.reset) / 2;
        assert_eq!(
            (measured.counts.succeeded, u64::from(clients)),
            (answered, found.concurrent_max),
            "{what}"
        );
    }
}

/// When requests end, by a model that knows nothing of frames: each connection has a queue and a limited number of
/// places; its n-th request takes a known time, or until the answers before it have been sent.
fn model(
    clients: u32,
    per_connection: u32,
    cap: usize,
    delay_ns: fn(u32, u64) -> u64,
    seed: u64,
    end_ns: u64,
) -> Vec<u64> {
    let mut taken = Vec::new();
    for first in (0..clients).step_by(per_connection as usize) {
        let mut queue: VecDeque<u64> = (first..clients.min(first + per_connection)).map(|_| 0).collect();
        // When requests in service end, which they are, and when they started.
        let mut served: BTreeSet<(u64, u32, u64)> = BTreeSet::new();
        let (mut now, mut begun, mut last_ns) = (2 * MS, 0, 0);
        loop {
            while served.len() < cap && !queue.is_empty() {
                let started_ns = queue.pop_front().unwrap();
                last_ns = last_ns.max(now + 2 * MS + delay_ns(begun, seed));
                served.insert((last_ns, begun, started_ns));
                begun += 1;
            }
            let (ended_ns, _, started_ns) = served.pop_first().unwrap();
            if ended_ns >= end_ns {
                break;
            }
            now = ended_ns;
            taken.push(ended_ns - started_ns);
            queue.push_back(now);
        }
    }
    taken.sort_unstable();
    taken
}

#[test]
fn random_delays_agree_with_a_plain_model() {
    // Different for each request, so that no two end at the same instant.
    fn delay_ns(number: u32, seed: u64) -> u64 {
        let mixed = (u64::from(number) + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed.wrapping_mul(0xd134_2543_de82_ef95));
        (mixed >> 40) * 1_000 / 7 % (9 * MS) + u64::from(number)
    }
    for seed in 1..200 {
        let clients = 1 + (seed * 7 % 23) as u32;
        let per_connection = 1 + (seed * 5 % 11) as u32;
        let cap = 1 + (seed % 6) as u32;
        // The limit is the server's or our own. The server's is known only once its settings have arrived.
        let level = level(clients, per_connection, Some(cap), 200 * MS);
        let delay_ns_of = |number| delay_ns(number, seed);
        let peer = Framed { handshake_ns: 2 * MS, streams_max: 1000, delay_ns: delay_ns_of, status: ok };
        let (sender, receiver) = sync_channel(1024);
        let measured = level.run_over::<Plain, Http2>(peer, Some(sender));
        assert_eq!(errors(&measured), [], "seed {seed}");
        let mut taken: Vec<u64> =
            receiver.try_iter().flatten().map(|told| (told.end_ns - told.start_ns) as u64).collect();
        taken.sort_unstable();
        assert_eq!(
            taken,
            model(clients, per_connection, cap as usize, delay_ns, seed, 200 * MS),
            "seed {seed}"
        );
    }
}
