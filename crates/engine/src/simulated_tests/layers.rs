//! Links over a layer other than the plain one: a handshake before the first request, records instead of bytes, and a
//! closing record. The layer is a toy with the traps of TLS: records arrive in parts, some are the layer's own, and a
//! stream may be cut.

use webstone_measure::metrics::Handshake;
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerPage, PerRequest};

use super::*;
use crate::h2::frames::{self, flag, kind};
use crate::h2::hpack::encoder::{self, Literal};
use crate::h2::session::Http2;
use crate::session::AnswerError;
use crate::simulated_tests::network::take_http1_request;

const HELLO: &[u8] = b"hello";
const WELCOME: &[u8] = b"welcome";
/// Kinds of record.
const DATA: u8 = 1;
const LAST_WORD: u8 = 2;
const TICKET: u8 = 3;

/// A record: its kind, the length of its content, and the content with every bit inverted.
fn record(kind: u8, plain: &[u8]) -> Vec<u8> {
    let length = u16::try_from(plain.len()).unwrap().to_be_bytes();
    [kind, length[0], length[1]].into_iter().chain(plain.iter().map(|byte| !byte)).collect()
}

/// Takes the first whole record.
fn take_record(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let [kind, high, low, ..] = bytes[..] else { return None };
    let end = 3 + usize::from(u16::from_be_bytes([high, low]));
    if bytes.len() < end {
        return None;
    }
    let plain = bytes[3..end].iter().map(|byte| !byte).collect();
    bytes.drain(..end);
    Some((kind, plain))
}

/// `RECORDS_MAX`: number of data records that a connection may seal.
#[derive(Default)]
struct Veil<const RECORDS_MAX: usize = { usize::MAX }> {
    is_open: bool,
    /// An incomplete record, or an incomplete handshake.
    part: Vec<u8>,
    plain: Vec<u8>,
    out: Vec<u8>,
    /// Bytes of the session in `out`.
    sealed: usize,
    records: usize,
    is_spent: bool,
    was_last_word_heard: bool,
}

impl<const RECORDS_MAX: usize> Layer for Veil<RECORDS_MAX> {
    const IS_PLAIN: bool = false;

    type Shared = ();

    fn shared(_: &Plan, _: u32) {}

    fn open(&mut self, origin: u32, plan: &Plan, (): &mut ()) {
        assert_eq!(plan.origins[origin as usize].authority, "192.0.2.1");
        *self = Self { out: HELLO.to_vec(), ..Self::default() };
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn is_agreed(&self) -> bool {
        self.is_open
    }

    fn handshake(&mut self, wire: &[u8], (): &mut ()) -> Result<usize, AnswerError> {
        let taken = wire.len().min(WELCOME.len() - self.part.len());
        self.part.extend_from_slice(&wire[..taken]);
        if !WELCOME.starts_with(&self.part) {
            return Err(AnswerError::Malformed("no welcome"));
        }
        if self.part == WELCOME {
            self.is_open = true;
            self.part.clear();
        }
        Ok(taken)
    }

    fn take_agreed(&mut self, (): &()) -> Option<Handshake> {
        None
    }

    fn must_send(&self) -> bool {
        false
    }

    fn seal<'a>(&'a mut self, plain: &'a [u8], (): &'a mut ()) -> &'a [u8] {
        if self.records == RECORDS_MAX && !plain.is_empty() {
            self.is_spent = true;
        } else if self.sealed == 0 && !plain.is_empty() {
            self.records += 1;
            self.sealed = plain.len();
            self.out.extend(record(DATA, plain));
        }
        &self.out
    }

    fn is_spent(&self) -> bool {
        self.is_spent
    }

    fn sent(&mut self, n: usize, (): &mut ()) -> usize {
        self.out.drain(..n);
        if self.out.is_empty() { std::mem::take(&mut self.sealed) } else { 0 }
    }

    fn unseal(&mut self, wire: &[u8], (): &mut ()) -> Result<usize, AnswerError> {
        self.plain.clear();
        self.part.extend_from_slice(wire);
        while let Some((kind, plain)) = take_record(&mut self.part) {
            match kind {
                DATA => self.plain.extend(plain),
                LAST_WORD => self.was_last_word_heard = true,
                TICKET => {}
                _ => return Err(AnswerError::Malformed("no record")),
            }
        }
        Ok(self.plain.len())
    }

    fn plain<'a>(&'a self, _: &'a [u8], (): &'a ()) -> &'a [u8] {
        &self.plain
    }

    fn close(&mut self) {
        self.out.extend(record(LAST_WORD, b""));
    }

    fn may_end(&self) -> bool {
        self.was_last_word_heard
    }
}

/// A server with this layer. Connections are established after 1 ms and greeted with `welcome`; each request is
/// answered as `answer` says.
struct Veiled<W, A> {
    welcome: W,
    answer: A,
    /// Number of bytes that it has read.
    read: u64,
}

impl<W: FnMut() -> Vec<Act>, A: FnMut() -> Vec<Act>> Peer for &mut Veiled<W, A> {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        Attempt::Stands { handshake_ns: MS, served_ns: MS }
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        let before = at_server.len();
        let request = if at_server.starts_with(HELLO) {
            at_server.drain(..HELLO.len()).collect()
        } else {
            let (kind, mut plain) = take_record(at_server)?;
            assert_eq!(kind, DATA);
            take_http1_request(&mut plain).expect("a request in each record")
        };
        self.read += (before - at_server.len()) as u64;
        Some(request)
    }

    fn answer(&mut self, _: u64, request: &[u8]) -> Vec<Act> {
        if request == HELLO { (self.welcome)() } else { (self.answer)() }
    }
}

fn veiled<W: FnMut() -> Vec<Act>, A: FnMut() -> Vec<Act>>(welcome: W, answer: A) -> Veiled<W, A> {
    Veiled { welcome, answer, read: 0 }
}

fn welcomed() -> Vec<Act> {
    vec![Act::Write(WELCOME.to_vec())]
}

/// A byte takes 1 ms each way, so the handshake adds 2 ms to the first request; an answer takes 2 ms. A ticket that
/// comes while the client thinks, or within an answer, is no reason to give up the link.
#[test]
fn a_handshake_comes_before_the_first_request_only() {
    for segment_bytes in [usize::MAX, 7, 1] {
        let mut level = Level::new(KeepAlive, &["/"], 60 * MS);
        level.workload.pages[0].think = Nanos(8 * MS);
        level.wire.latency_ns = MS;
        level.wire.segment_bytes = segment_bytes;
        let ticket = || Act::Write(record(TICKET, b"a ticket"));
        let answer = move || {
            vec![
                ticket(),
                Act::Write(record(DATA, &response(10))),
                Act::Wait(3 * MS),
                ticket(),
                Act::Wait(MS),
            ]
        };
        let measured = level.run_over::<Veil, Http1>(&mut veiled(welcomed, answer), None);
        assert_eq!(errors(&measured), []);
        are("connect", &measured.connect, &measured.histograms.connect, &[(MS, 1)]);
        // At 5, 15 … 55 ms.
        are("response", &measured.response, &measured.histograms.response, &[(5 * MS, 1), (2 * MS, 5)]);
        assert_eq!((measured.counts.connections, measured.counts.surplus), (1, 0));
        // Only the session's bytes; the layer's own belong to no answer.
        assert_eq!(measured.response_bytes.sum, 6 * response(10).len() as u64);
    }
}

/// The line delivers 900 bytes per second. The greeting has 7; a ticket and an answer have 900 together, so they take a second.
#[test]
fn a_line_brings_the_handshake_too() {
    let welcome = || vec![Act::Write(WELCOME.to_vec())];
    let ticket = || record(TICKET, b"a ticket");
    let answer = || record(DATA, &response(900 - 3 - ticket().len() - response(100).len() + 100));
    let answers = || vec![Act::Write([ticket(), answer()].concat())];
    assert_eq!(ticket().len() + answer().len(), 900);
    let mut level = Level::new(KeepAlive, &["/"], 2_200 * MS);
    level.spec.client.bandwidth = Some("7200".parse().unwrap());
    let measured = level.run_over::<Veil, Http1>(&mut veiled(welcome, answers), None);
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
    // The connection takes 1 ms, and 20 pieces of 45 bytes would take 50 ms each; the smallest has 64.
    let pieces_ns: u64 = 14 * (64 * SECOND / 900) + 4 * SECOND / 900;
    let greeting_ns = MS + 7 * SECOND / 900;
    let times = [(greeting_ns + pieces_ns, 1), (pieces_ns, 1)];
    are("response", &measured.response, &measured.histograms.response, &times);
}

/// What follows the greeting in the same segment belongs to the session, or to the layer.
#[test]
fn records_may_come_with_the_end_of_the_handshake() {
    let welcome = || vec![Act::Write([WELCOME, &record(TICKET, b"early")].concat())];
    let answer = || vec![Act::Wait(MS), Act::Write(record(DATA, &response(10)))];
    let level = Level::new(KeepAlive, &["/"], 10 * MS);
    let measured = level.run_over::<Veil, Http1>(&mut veiled(welcome, answer), None);
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
}

/// Through a socket that takes a few bytes at a time, the hello and each record arrive whole, and a request counts as
/// sent when its last byte is.
#[test]
fn records_are_sent_in_parts() {
    let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
    level.wire.latency_ns = MS;
    level.wire.send_room = 3;
    let answer = || vec![Act::Write(record(DATA, &response(10)))];
    let (sender, receiver) = sync_channel(1024);
    let measured = level.run_over::<Veil, Http1>(&mut veiled(welcomed, answer), Some(sender));
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
    let first = receiver.try_iter().flatten().next().unwrap();
    let sent_ns = first.sent_ns.unwrap();
    // Three bytes every 2 ms. The last are acknowledged with the answer.
    assert!(sent_ns > 20 * MS as i64, "{sent_ns}");
    assert_eq!(first.first_byte_ns, Some(sent_ns + 2 * MS as i64));
}

/// A body that ends with the stream is complete only if that end was announced.
#[test]
fn a_truncated_stream_is_not_a_complete_body() {
    for is_announced in [true, false] {
        let answer = move || {
            let body = record(DATA, b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
            let last = if is_announced { record(LAST_WORD, b"") } else { Vec::new() };
            vec![Act::Wait(MS), Act::Write([body, last].concat()), Act::Finish]
        };
        let level = Level::new(PerRequest, &["/"], 21 * MS);
        let measured = level.run_over::<Veil, Http1>(&mut veiled(welcomed, answer), None);
        let found = errors(&measured);
        if is_announced {
            assert_eq!((found, measured.counts.succeeded), (vec![], 10));
        } else {
            assert_eq!(
                (found.len(), found[0].0, measured.counts.succeeded),
                (1, ErrorClass::TlsTruncated, 0)
            );
        }
    }
}

/// A stream that ends without an announcement, before anything of an answer has come, was closed early: nothing was cut.
#[test]
fn an_end_before_an_answer_is_no_truncation() {
    for (begun, class) in [(&b""[..], ErrorClass::ClosedEarly), (b"HTTP/1.1 2", ErrorClass::TlsTruncated)] {
        let answer = || vec![Act::Wait(MS), Act::Write(record(DATA, begun)), Act::Finish];
        let level = Level::new(PerRequest, &["/"], 21 * MS);
        let measured = level.run_over::<Veil, Http1>(&mut veiled(welcomed, answer), None);
        let found = errors(&measured);
        assert_eq!((found.len(), found[0].0), (1, class));
        assert_eq!((found[0].1, measured.counts.succeeded), (10, 0));
    }
}

/// A client that ends a connection announces it first; it closes at once, so the server reads no more.
#[test]
fn a_client_announces_that_it_closes() {
    let mut peer = veiled(welcomed, || vec![Act::Wait(MS), Act::Write(record(DATA, &response(10)))]);
    // With several files per page, it is not known at the time of sending which request is the last of a page.
    let mut level = Level::new(PerPage, &["/a", "/b"], 61 * MS / 2);
    level.spec.client.parallel = 2;
    let measured = level.run_over::<Veil, Http1>(&mut peer, None);
    // A connect and two answers of 1 ms each.
    assert_eq!((errors(&measured), measured.counts.pages_completed), (vec![], 10));
    let last_words = 10 * record(LAST_WORD, b"").len();
    // The eleventh connection is established after the window's end, and nobody reads its hello.
    assert_eq!(measured.lifetime.sent_bytes - peer.read, (last_words + HELLO.len()) as u64);
}

/// A connection whose keys have sealed as many records as they may is announced as closed and ends. A request that
/// may be sent again goes to the next connection, as if the server had closed; otherwise it is an error.
#[test]
fn a_connection_whose_keys_are_spent_ends() {
    let answer = || vec![Act::Wait(MS), Act::Write(record(DATA, &response(10)))];
    for (method, retried, failed) in [("GET", 4, 0), ("POST", 0, 4)] {
        let mut level = Level::new(KeepAlive, &["/"], 23 * MS + MS / 2);
        level.spec.client.method = method.into();
        let mut peer = veiled(welcomed, answer);
        let measured = level.run_over::<Veil<4>, Http1>(&mut peer, None);
        let expected = if failed > 0 { vec![(ErrorClass::TlsKeyLimit, failed)] } else { vec![] };
        assert_eq!(errors(&measured), expected, "{method}");
        // A connect and four answers of 1 ms each, again and again; on the fifth connection there is time for two.
        let counts = &measured.counts;
        assert_eq!(
            (counts.succeeded, counts.stale_retries, counts.connections),
            (18, retried, 5),
            "{method}"
        );
        // Not read by the peer: the closing record of each connection that ended, except perhaps the last.
        let last_word = record(LAST_WORD, b"").len() as u64;
        let unread = measured.lifetime.sent_bytes - peer.read;
        assert!((4 * last_word..=5 * last_word).contains(&unread), "{method} {unread}");
    }
}

#[test]
fn a_handshake_that_fails_has_its_class() {
    let level = |connect_timeout_ns| {
        let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
        level.spec.client.connect_timeout = Nanos(connect_timeout_ns);
        level
    };
    for (welcome, class) in [
        (vec![], ErrorClass::ConnectTimeout),
        (vec![Act::Write(b"wel".to_vec())], ErrorClass::ConnectTimeout),
        (vec![Act::Write(b"go away".to_vec())], ErrorClass::Malformed),
        (vec![Act::Wait(MS), Act::Write(b"wel".to_vec()), Act::Finish], ErrorClass::TlsHandshake),
        (vec![Act::Wait(MS), Act::Reset], ErrorClass::Reset),
    ] {
        let mut peer = veiled(|| welcome.clone(), Vec::new);
        let measured = level(20 * MS).run_over::<Veil, Http1>(&mut peer, None);
        let found = errors(&measured);
        assert_eq!((found.len(), found[0].0, measured.counts.succeeded), (1, class, 0), "{welcome:?}");
    }
    // The time-out of the request counts from its start, not from that of the handshake.
    let mut level = level(20 * MS);
    level.spec.client.request_timeout = Nanos(15 * MS);
    let measured = level.run_over::<Veil, Http1>(&mut veiled(Vec::new, Vec::new), None);
    assert_eq!(errors(&measured), [(ErrorClass::RequestTimeout, 6)]);
    assert_eq!(measured.unanswered.response.max, 15 * MS);
}

/// A server of HTTP/2 over this layer. `ahead` comes with its greeting, and `first` before the answer to the first request
/// of each connection.
struct Framed {
    ahead: Vec<u8>,
    first: Vec<u8>,
}

impl Peer for Framed {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        Attempt::Stands { handshake_ns: MS, served_ns: MS }
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        match at_server.starts_with(HELLO) {
            true => Some(at_server.drain(..HELLO.len()).collect()),
            false => take_record(at_server).map(|(_, plain)| plain),
        }
    }

    fn answer(&mut self, _: u64, request: &[u8]) -> Vec<Act> {
        if request == HELLO {
            return vec![Act::Write([WELCOME, &record(DATA, &self.ahead)].concat())];
        }
        if !request.starts_with(frames::PREFACE) {
            return vec![];
        }
        let (mut answer, mut block) = (self.first.clone(), Vec::new());
        encoder::field(":status", b"200", Literal::Plain, &mut block);
        let flags = flag::END_HEADERS | flag::END_STREAM;
        frames::write_head(block.len(), kind::HEADERS, flags, 1, &mut answer);
        answer.extend(block);
        vec![Act::Wait(MS), Act::Write(record(DATA, &answer))]
    }
}

/// All of them count, and the last may be cut.
#[test]
fn frames_may_come_with_the_end_of_the_handshake() {
    let mut ahead = Vec::new();
    frames::write_settings([], &mut ahead);
    frames::write_numbers(kind::WINDOW_UPDATE, 0, &[1 << 20], &mut ahead);
    frames::write_settings([(frames::setting::MAX_CONCURRENT_STREAMS, 7)], &mut ahead);
    for cut in [ahead.len(), 9, 12, 22, 25] {
        let mut level = Level::new(PerRequest, &["/"], 50 * MS);
        level.spec.client.http = webstone_workload::load::HttpVersion::Http2;
        let peer = Framed { ahead: ahead[..cut].to_vec(), first: ahead[cut..].to_vec() };
        let measured = level.run_over::<Veil, Http2>(peer, None);
        assert_eq!(errors(&measured), [], "{cut}");
        assert!(measured.counts.succeeded > 10, "{cut}: {:?}", measured.counts);
        assert_eq!(measured.http2.unwrap().allowed_min, Some(7), "{cut}");
    }
}

/// A server that ends each connection before a request could be sent, with an error code or without.
#[test]
fn a_server_that_goes_away_at_once_has_an_end() {
    for code in [frames::code::NO_ERROR, frames::code::ENHANCE_YOUR_CALM] {
        let mut ahead = Vec::new();
        frames::write_settings([], &mut ahead);
        frames::write_numbers(kind::GOAWAY, 0, &[0, code], &mut ahead);
        for clients in [1, 3] {
            let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
            level.spec.client.http = webstone_workload::load::HttpVersion::Http2;
            level.spec.client.clients_per_connection = clients;
            level.clients = clients;
            let peer = Framed { ahead: ahead.clone(), first: Vec::new() };
            let measured = level.run_over::<Veil, Http2>(peer, None);
            let found = errors(&measured);
            assert_eq!((found.len(), found[0].0), (1, ErrorClass::H2Goaway), "{code} {clients}");
            assert!(found[0].1 >= 5, "{code} {clients}: {found:?}");
        }
    }
}
