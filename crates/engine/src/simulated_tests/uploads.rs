//! Requests with large bodies, and servers that answer, count or give up while one is sent.

use webstone_workload::load::ConnectionPolicy::KeepAlive;
use webstone_workload::load::HttpVersion;

use super::*;
use crate::h2::frames::{self, flag, kind, setting};
use crate::h2::hpack::encoder::{self, Literal};
use crate::h2::session::Http2;

/// How much a socket takes: one frame of a body, and a little.
const ROOM: usize = 20_000;

fn upload(bytes: usize, duration_ns: u64) -> Level {
    let mut level = Level::new(KeepAlive, &["/"], duration_ns);
    level.spec.client.method = "POST".into();
    level.spec.client.body = Some("x".repeat(bytes));
    level.wire.latency_ns = MS;
    level.wire.send_room = ROOM;
    level
}

fn stands() -> Attempt {
    Attempt::Stands { handshake_ns: MS, served_ns: MS }
}

/// A server that answers what it has read first, and resets the connection after a moment.
struct Hasty {
    answer: Vec<u8>,
    wait_ns: u64,
}

impl Peer for Hasty {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        stands()
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        (!at_server.is_empty()).then(|| std::mem::take(at_server))
    }

    fn answer(&mut self, _: u64, _: &[u8]) -> Vec<Act> {
        vec![Act::Wait(self.wait_ns), Act::Write(self.answer.clone()), Act::Reset]
    }
}

/// Frames with a status for the first stream of a connection.
fn refusal(status: &[u8]) -> Vec<u8> {
    let (mut out, mut block) = (Vec::new(), Vec::new());
    frames::write_settings([], &mut out);
    encoder::field(":status", status, Literal::Plain, &mut block);
    frames::write_head(block.len(), kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &mut out);
    out.extend(block);
    out
}

/// A refusal and a reset arrive while the socket is full, or between the event and the call that sends more. The refusal
/// is in the queue either way, and is what the server said (RFC 9112, section 9.5).
#[test]
fn an_answer_before_a_reset_is_read_though_more_was_to_be_sent() {
    for wait_ns in [0, 1] {
        let mut level = upload(1 << 20, 100 * MS);
        level.wire.call_ns = 10;
        let answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
        let one = level.run(Hasty { answer, wait_ns });
        level.spec.client.http = HttpVersion::Http2;
        let many = level.run_over::<Plain, Http2>(Hasty { answer: refusal(b"413"), wait_ns }, None);
        for measured in [one, many] {
            let found = errors(&measured);
            assert_eq!((found.len(), found[0].0), (1, ErrorClass::WrongStatus), "{wait_ns}: {found:?}");
            assert!(found[0].1 > 10, "{found:?}");
        }
    }
}

/// Without an answer, a reset during an upload is a reset.
#[test]
fn a_reset_alone_is_a_reset() {
    for wait_ns in [0, 1] {
        let mut level = upload(1 << 20, 100 * MS);
        level.wire.call_ns = 10;
        let one = level.run(Hasty { answer: Vec::new(), wait_ns });
        level.spec.client.http = HttpVersion::Http2;
        let many = level.run_over::<Plain, Http2>(Hasty { answer: Vec::new(), wait_ns }, None);
        for measured in [one, many] {
            let found = errors(&measured);
            assert_eq!((found.len(), found[0].0), (1, ErrorClass::Reset), "{wait_ns}: {found:?}");
        }
    }
}

/// A server that sends many WINDOW_UPDATEs for each DATA frame that it has read, and answers at the end.
struct Chatty {
    updates: usize,
}

impl Peer for Chatty {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        stands()
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        if at_server.starts_with(frames::PREFACE) {
            at_server.drain(..frames::PREFACE.len());
        }
        let head = at_server.first_chunk::<9>()?;
        let end = frames::HEAD_BYTES + (usize::from(head[1]) << 8 | usize::from(head[2]));
        (at_server.len() >= end).then(|| at_server.drain(..end).collect())
    }

    fn answer(&mut self, _: u64, frame: &[u8]) -> Vec<Act> {
        let (stream, mut out) = (frames::number(&frame[5..]), Vec::new());
        match frame[3] {
            kind::SETTINGS if frame[4] & flag::ACK == 0 => {
                frames::write_settings([(setting::INITIAL_WINDOW_SIZE, 1 << 30)], &mut out);
                frames::write_numbers(kind::WINDOW_UPDATE, 0, &[1 << 30], &mut out);
            }
            kind::DATA => {
                for _ in 0..self.updates {
                    frames::write_numbers(kind::WINDOW_UPDATE, 0, &[1], &mut out);
                }
                if frame[4] & flag::END_STREAM != 0 {
                    let mut block = Vec::new();
                    encoder::field(":status", b"200", Literal::Plain, &mut block);
                    let flags = flag::END_HEADERS | flag::END_STREAM;
                    frames::write_head(block.len(), kind::HEADERS, flags, stream, &mut out);
                    out.extend(block);
                }
            }
            _ => {}
        }
        vec![Act::Write(out)]
    }
}

/// 128 KiB wait for the socket while the server reads and tells that it has room: that is no flood, however much was
/// sent before.
#[test]
fn window_updates_during_an_upload_are_no_flood() {
    let mut level = upload(4 << 20, 2 * SECOND);
    level.spec.client.http = HttpVersion::Http2;
    let measured = level.run_over::<Plain, Http2>(Chatty { updates: 300 }, None);
    assert_eq!(errors(&measured), []);
    assert!(measured.counts.succeeded >= 2, "{:?}", measured.counts);
}
