//! How each misdeed is done: by a blocking client on its own connection, which sends bytes it makes itself, because no
//! library lets one behave like this. Over TLS, the same bytes go through its records.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore;
use webstone_engine::ProbeTls;
use webstone_judge::workout::{Misdeed, Tally};
use webstone_workload::target::Target;

use super::connection::{Connection, Got, Unsent};
use super::http2;

/// Length of the header field that is too long.
const OVERSIZED_BYTES: usize = 1 << 20;
/// Bytes of it that are written at a time.
const PIECE_BYTES: usize = 16 << 10;
/// Longest part of a response that is read before it is broken off.
const BREAK_BYTES_MAX: u64 = 64 << 10;
/// Malformed requests. `{host}` is filled in.
const MALFORMED: [&[u8]; 14] = [
    b"GET\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: elsewhere\r\n\r\n",
    b"G\x00T / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\n folded: yes\r\nno colon\r\n\r\n",
    b"GET /%zz/%00/../../../../etc/passwd HTTP/1.1\r\nHost: {host}\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nhello\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x01\x02\x03\x04\x05\x06\x07\r\n\r\n",
];

/// The server to be disturbed, and how long a misdeed may last.
#[derive(Debug)]
pub(super) struct Scene {
    /// The server.
    pub(super) address: SocketAddr,
    /// Its URL.
    pub(super) target: Target,
    /// How TLS is spoken to it, where it is.
    pub(super) tls: Option<ProbeTls>,
    /// Whether requests are HTTP/2, and not HTTP/1.1.
    pub(super) is_http2: bool,
    /// Paths that it serves; at least one.
    pub(super) paths: Vec<String>,
    /// Longest time for one misdeed.
    pub(super) patience: Duration,
    /// Set when all is over.
    pub(super) stop: AtomicBool,
}

impl Scene {
    /// Whether a misdeed that may last until then is over.
    pub(super) fn is_over(&self, deadline: Instant) -> bool {
        self.stop.load(Relaxed) || Instant::now() >= deadline
    }

    fn host(&self) -> String {
        self.target.authority()
    }

    fn request(&self, path: &str) -> Vec<u8> {
        if self.is_http2 {
            return http2::request(&self.host(), path, self.tls.is_some());
        }
        let host = self.host();
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: webstone-workout\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        )
        .into_bytes()
    }

    fn malformed(&self, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        match self.is_http2 {
            true => http2::malformed(below(random, http2::MALFORMED), &self.host(), self.tls.is_some()),
            false => with_host(MALFORMED[below(random, MALFORMED.len() as u64) as usize], &self.host()),
        }
    }

    /// A request with a header field that is too long, piece by piece.
    fn oversized(&self) -> Vec<Vec<u8>> {
        if self.is_http2 {
            return http2::oversized(&self.host(), self.tls.is_some(), OVERSIZED_BYTES);
        }
        let begin = format!("GET / HTTP/1.1\r\nHost: {}\r\nX-Oversized: ", self.host()).into_bytes();
        let field = std::iter::repeat_n(vec![b'a'; PIECE_BYTES], OVERSIZED_BYTES / PIECE_BYTES);
        std::iter::once(begin).chain(field).chain([b"\r\n\r\n".to_vec()]).collect()
    }
}

/// What a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Status(u16),
    Closed,
    Nothing,
}

impl From<Unsent> for Reply {
    fn from(unsent: Unsent) -> Reply {
        match unsent {
            Unsent::Closed => Reply::Closed,
            Unsent::Unread => Reply::Nothing,
        }
    }
}

/// An answer as received so far.
enum Answer {
    Http1(Vec<u8>),
    Http2(http2::Answer),
}

impl Answer {
    fn in_scene(scene: &Scene) -> Answer {
        if scene.is_http2 { Answer::Http2(http2::Answer::new()) } else { Answer::Http1(Vec::new()) }
    }

    fn take(&mut self, bytes: &[u8]) {
        match self {
            Answer::Http1(head) if head.len() < STATUS_BYTES => head.extend_from_slice(bytes),
            Answer::Http1(_) => {}
            Answer::Http2(answer) => answer.take(bytes),
        }
    }

    /// The reply; `None` while it is not known yet.
    fn reply(&self) -> Option<Reply> {
        match self {
            Answer::Http1(head) => status(head).map(Reply::Status),
            Answer::Http2(answer) => answer.reply,
        }
    }

    /// Whether it ended while the connection stays: only HTTP/2 tells.
    fn is_whole(&self) -> bool {
        matches!(self, Answer::Http2(http2::Answer { is_whole: true, .. }))
    }

    /// Whether enough was received to know the reply, or that there is none.
    fn is_told(&self) -> bool {
        match self {
            Answer::Http1(head) => head.len() >= STATUS_BYTES,
            Answer::Http2(answer) => answer.reply.is_some(),
        }
    }
}

/// Commits a misdeed, and counts how the server reacted.
pub(super) fn commit(misdeed: Misdeed, scene: &Scene, random: &mut Xoshiro256PlusPlus, tally: &mut Tally) {
    tally.tried += 1;
    let deadline = Instant::now() + scene.patience;
    let Ok(mut connection) = Connection::new(scene, misdeed == Misdeed::SlowReader, deadline) else {
        tally.not_connected += 1;
        return;
    };
    let path = &scene.paths[below(random, scene.paths.len() as u64) as usize];
    let request = scene.request(path);
    let reply = match misdeed {
        Misdeed::BreakRequest => {
            let cut = 1 + below(random, request.len() as u64 - 1) as usize;
            // A server that has already hung up was not disturbed.
            let _ = connection.write_all(&request[..cut], scene, deadline);
            Reply::Nothing
        }
        Misdeed::BreakResponse => {
            let most = 1 + below(random, BREAK_BYTES_MAX);
            match connection.write_all(&request, scene, deadline) {
                Ok(()) => read_some(&mut connection, scene, deadline, most),
                Err(unsent) => unsent.into(),
            }
        }
        Misdeed::SlowReader => match connection.write_all(&request, scene, deadline) {
            Ok(()) => sip(&mut connection, scene, deadline),
            Err(unsent) => unsent.into(),
        },
        Misdeed::SlowWriter => trickle(&mut connection, &request, scene, deadline),
        Misdeed::HalfClosed => {
            let sent = connection.write_all(&request, scene, deadline);
            match sent.and_then(|()| connection.close_half().map_err(|_| Unsent::Closed)) {
                Ok(()) => read_some(&mut connection, scene, deadline, u64::MAX),
                Err(unsent) => unsent.into(),
            }
        }
        Misdeed::OversizedHeader => oversized(&mut connection, scene, deadline),
        Misdeed::Malformed => match connection.write_all(&scene.malformed(random), scene, deadline) {
            Ok(()) => read_some(&mut connection, scene, deadline, 1),
            Err(unsent) => unsent.into(),
        },
    };
    if matches!(misdeed, Misdeed::BreakRequest | Misdeed::BreakResponse) && random.next_u64() & 1 == 1 {
        connection.reset_at_end();
    }
    match reply {
        _ if misdeed == Misdeed::BreakRequest => tally.dropped += 1,
        Reply::Status(status) if status >= 400 => tally.rejected += 1,
        Reply::Status(_) => tally.answered += 1,
        Reply::Closed => tally.closed += 1,
        Reply::Nothing => tally.dropped += 1,
    }
}

/// A number below a bound that is not 0. The bias of a remainder of 64 bits is nothing here.
pub(super) fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    random.next_u64() % bound
}

/// Reads at most this many bytes, or to the end: enough to see how the request was received.
fn read_some(connection: &mut Connection, scene: &Scene, deadline: Instant, most: u64) -> Reply {
    let (mut answer, mut taken, mut buffer) = (Answer::in_scene(scene), 0_u64, [0; 8192]);
    while !scene.is_over(deadline) && (taken < most || !answer.is_told()) && !answer.is_whole() {
        match connection.read(&mut buffer) {
            Got::Bytes(read) => {
                taken += read as u64;
                answer.take(&buffer[..read]);
            }
            Got::Nothing => {}
            Got::End => return answer.reply().unwrap_or(Reply::Closed),
        }
    }
    answer.reply().unwrap_or(Reply::Nothing)
}

/// Reads a few bytes at a time until the deadline.
fn sip(connection: &mut Connection, scene: &Scene, deadline: Instant) -> Reply {
    let (mut answer, mut buffer) = (Answer::in_scene(scene), [0; 512]);
    connection.slow_down();
    while !scene.is_over(deadline) {
        match connection.read(&mut buffer) {
            Got::Bytes(read) => answer.take(&buffer[..read]),
            Got::Nothing => {}
            Got::End => return answer.reply().unwrap_or(Reply::Closed),
        }
    }
    Reply::Nothing
}

/// Writes a byte at a time; the pause is the wait for an answer. Over TLS, each is a record.
fn trickle(connection: &mut Connection, request: &[u8], scene: &Scene, deadline: Instant) -> Reply {
    let (mut answer, mut buffer) = (Answer::in_scene(scene), [0; 512]);
    for byte in request.iter().take(request.len() - 1) {
        if scene.is_over(deadline) {
            return Reply::Nothing;
        }
        if let Err(unsent) = connection.write_all(&[*byte], scene, deadline) {
            return unsent.into();
        }
        match connection.read(&mut buffer) {
            Got::End => return Reply::Closed,
            Got::Nothing => {}
            Got::Bytes(read) => answer.take(&buffer[..read]),
        }
        // In HTTP/2, a server's settings come before any answer.
        if let Some(reply) = answer.reply().or((!scene.is_http2 && answer.is_told()).then_some(Reply::Closed))
        {
            return reply;
        }
    }
    Reply::Nothing
}

fn oversized(connection: &mut Connection, scene: &Scene, deadline: Instant) -> Reply {
    // A server may answer and read no more, without closing: half of the time is for what it answers.
    let until = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
    let sent = scene.oversized().iter().try_for_each(|piece| connection.write_all(piece, scene, until));
    // A server that has had enough may answer and close; what is written after that resets the connection, and the answer
    // may be lost.
    match (read_some(connection, scene, deadline, 1), sent) {
        (Reply::Nothing, Err(unsent)) => unsent.into(),
        (reply, _) => reply,
    }
}

/// Bytes of `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;

fn status(head: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(head.get(..STATUS_BYTES)?).ok()?;
    text.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok()
}

fn with_host(bytes: &[u8], host: &str) -> Vec<u8> {
    const PLACE: &[u8] = b"{host}";
    let mut filled = Vec::with_capacity(bytes.len() + host.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(PLACE.len()).position(|window| window == PLACE) {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(host.as_bytes());
        rest = &rest[at + PLACE.len()..];
    }
    filled.extend_from_slice(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use rand_xoshiro::rand_core::SeedableRng;

    /// One connection to a server that does as it is told; gives the tally and what the server received.
    fn done(misdeed: Misdeed, serve: fn(&mut TcpStream) -> Vec<u8>) -> (Tally, Vec<u8>) {
        done_within(60_000, misdeed, serve)
    }

    /// The same for clients that wait as long as this, in ms.
    fn done_within(
        patience_ms: u64,
        misdeed: Misdeed,
        serve: fn(&mut TcpStream) -> Vec<u8>,
    ) -> (Tally, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scene = Scene {
            address: listener.local_addr().unwrap(),
            target: Target::split("http://example").unwrap().0,
            tls: None,
            is_http2: false,
            paths: vec!["/file".to_owned()],
            patience: Duration::from_millis(patience_ms),
            stop: AtomicBool::new(false),
        };
        let server = thread::spawn(move || serve(&mut listener.accept().unwrap().0));
        let mut tally = Tally::default();
        commit(misdeed, &scene, &mut Xoshiro256PlusPlus::seed_from_u64(7), &mut tally);
        (tally, server.join().unwrap())
    }

    fn to_the_end(stream: &mut TcpStream) -> Vec<u8> {
        let mut received = Vec::new();
        // A reset ends it, too.
        let _ = stream.read_to_end(&mut received);
        received
    }

    /// Reads until an empty line, then answers.
    fn answering(stream: &mut TcpStream) -> Vec<u8> {
        let (mut received, mut part) = (Vec::new(), [0; 65536]);
        while !received.ends_with(b"\r\n\r\n") {
            match stream.read(&mut part) {
                Ok(read @ 1..) => received.extend_from_slice(&part[..read]),
                _ => break,
            }
        }
        if received.ends_with(b"\r\n\r\n") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        received
    }

    #[test]
    fn a_broken_request_is_a_part_of_one() {
        let (tally, received) = done(Misdeed::BreakRequest, to_the_end);
        assert_eq!((tally.tried, tally.dropped), (1, 1));
        assert!(b"GET /file HTTP/1.1\r\n".starts_with(&received[..received.len().min(20)]), "{received:?}");
        assert!(!received.ends_with(b"\r\n\r\n"));
    }

    #[test]
    fn a_half_closed_connection_gets_its_answer() {
        let (tally, _) = done(Misdeed::HalfClosed, answering);
        assert_eq!((tally.tried, tally.answered), (1, 1));
        let (tally, _) = done(Misdeed::HalfClosed, |_| Vec::new());
        assert_eq!((tally.tried, tally.closed), (1, 1));
    }

    #[test]
    fn slow_ones_stay_until_their_patience_ends_or_the_server_s() {
        let (tally, received) = done_within(1_500, Misdeed::SlowWriter, to_the_end);
        assert_eq!((tally.tried, tally.dropped), (1, 1));
        assert!((2..100).contains(&received.len()), "a byte a pause: {}", received.len());
        let (tally, _) = done(Misdeed::SlowWriter, |stream| {
            stream.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap();
            to_the_end(stream)
        });
        assert_eq!((tally.tried, tally.rejected), (1, 1));
        let (tally, _) = done_within(600, Misdeed::SlowReader, |stream| {
            answering(stream);
            let _ = stream.write_all(&vec![b'x'; 1 << 20]);
            to_the_end(stream)
        });
        assert_eq!((tally.tried, tally.dropped), (1, 1));
    }

    #[test]
    fn an_oversized_field_is_rejected_or_ends_the_connection() {
        let (tally, _) = done(Misdeed::OversizedHeader, |stream| {
            let mut first = [0; 100];
            stream.read_exact(&mut first).unwrap();
            first.to_vec()
        });
        assert_eq!((tally.tried, tally.closed), (1, 1));
        let (tally, received) = done(Misdeed::OversizedHeader, answering);
        assert_eq!((tally.tried, tally.answered), (1, 1));
        assert!(received.len() > OVERSIZED_BYTES);
    }

    #[test]
    fn a_server_that_reads_no_more_has_not_closed() {
        let unread = |stream: &mut TcpStream| {
            // Fewer bytes than are sent fit into the buffers.
            rustix::net::sockopt::set_socket_recv_buffer_size(&*stream, 4096).unwrap();
            std::mem::forget(stream.try_clone().unwrap()); // Open until this process ends.
            Vec::new()
        };
        let (tally, _) = done_within(600, Misdeed::OversizedHeader, unread);
        assert_eq!((tally.tried, tally.dropped, tally.closed), (1, 1, 0));
        let (tally, _) = done_within(10_000, Misdeed::OversizedHeader, |stream| {
            stream.write_all(b"HTTP/1.1 431 Request Header Fields Too Large\r\n\r\n").unwrap();
            std::mem::forget(stream.try_clone().unwrap());
            Vec::new()
        });
        assert_eq!((tally.tried, tally.rejected), (1, 1));
    }

    #[test]
    fn what_is_malformed_names_its_host_and_is_counted_by_its_answer() {
        let (tally, _) = done(Misdeed::Malformed, |stream| {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            to_the_end(stream)
        });
        assert_eq!((tally.tried, tally.rejected), (1, 1));
        assert_eq!(with_host(b"a{host}b{host}", "x:1"), b"ax:1bx:1");
        assert_eq!(with_host(b"none", "x"), b"none");
    }

    #[test]
    fn a_server_that_is_not_there_is_counted_as_such() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scene = Scene {
            address: listener.local_addr().unwrap(),
            target: Target::split("http://example").unwrap().0,
            tls: None,
            is_http2: false,
            paths: vec!["/".to_owned()],
            patience: Duration::from_secs(1),
            stop: AtomicBool::new(false),
        };
        drop(listener);
        let mut tally = Tally::default();
        commit(Misdeed::Malformed, &scene, &mut Xoshiro256PlusPlus::seed_from_u64(1), &mut tally);
        assert_eq!(tally, Tally { tried: 1, not_connected: 1, ..Tally::default() });
    }
}
