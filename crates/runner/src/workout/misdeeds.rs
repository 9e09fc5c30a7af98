//! How each misdeed is done: a blocking client on a socket of its own, written against the socket and not against a library,
//! because no library lets one behave like this.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore;
use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use webstone_judge::workout::{Misdeed, Tally};

/// Pause of those that are slow.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes that a slow reader takes at a time, and room that its kernel announces for more.
const SIP_BYTES: usize = 16;
const RECEIVE_BUFFER_BYTES: usize = 4096;
/// Length of the header field that is too long.
const OVERSIZED_BYTES: usize = 1 << 20;
/// Longest part of a response that is read before it is broken off.
const BREAK_BYTES_MAX: u64 = 64 << 10;
/// How long a socket call may take before the clock is looked at.
const SLICE: Duration = Duration::from_millis(50);

/// What is no request. `{host}` is filled in.
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

/// Whom to trouble, and how long to bear with it.
#[derive(Debug)]
pub(super) struct Scene {
    /// The server.
    pub(super) address: SocketAddr,
    /// Its name in requests.
    pub(super) host: String,
    /// Paths that it serves; at least one.
    pub(super) paths: Vec<String>,
    /// Longest time for one misdeed.
    pub(super) patience: Duration,
    /// Set when all is over.
    pub(super) stop: AtomicBool,
}

/// What a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Status(u16),
    Closed,
    Nothing,
}

/// Does one, and counts how it was taken.
pub(super) fn commit(misdeed: Misdeed, scene: &Scene, random: &mut Xoshiro256PlusPlus, tally: &mut Tally) {
    tally.tried += 1;
    let Ok(mut stream) = connected(scene, misdeed) else {
        tally.not_connected += 1;
        return;
    };
    let deadline = Instant::now() + scene.patience;
    let path = &scene.paths[below(random, scene.paths.len() as u64) as usize];
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: webstone-workout\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        scene.host
    )
    .into_bytes();
    let reply = match misdeed {
        Misdeed::BreakRequest => {
            let cut = 1 + below(random, request.len() as u64 - 1) as usize;
            // A server that has hung up already is none that was troubled.
            let _ = stream.write_all(&request[..cut]);
            Reply::Nothing
        }
        Misdeed::BreakResponse => {
            let most = 1 + below(random, BREAK_BYTES_MAX);
            match stream.write_all(&request) {
                Ok(()) => read_some(&mut stream, scene, deadline, most),
                Err(_) => Reply::Closed,
            }
        }
        Misdeed::SlowReader => match stream.write_all(&request) {
            Ok(()) => sip(&mut stream, scene, deadline),
            Err(_) => Reply::Closed,
        },
        Misdeed::SlowWriter => trickle(&mut stream, &request, scene, deadline),
        Misdeed::HalfClosed => {
            let sent = stream.write_all(&request).and_then(|()| stream.shutdown(Shutdown::Write));
            match sent {
                Ok(()) => read_some(&mut stream, scene, deadline, u64::MAX),
                Err(_) => Reply::Closed,
            }
        }
        Misdeed::OversizedHeader => oversized(&mut stream, scene, deadline),
        Misdeed::Malformed => {
            let bytes = MALFORMED[below(random, MALFORMED.len() as u64) as usize];
            match stream.write_all(&with_host(bytes, &scene.host)) {
                Ok(()) => read_some(&mut stream, scene, deadline, 1),
                Err(_) => Reply::Closed,
            }
        }
    };
    if matches!(misdeed, Misdeed::BreakRequest | Misdeed::BreakResponse) && random.next_u64() & 1 == 1 {
        // With nothing to linger for, closing resets the connection. If it cannot be set, it is a FIN.
        let _ = set_socket_linger(&stream, Some(Duration::ZERO));
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

fn connected(scene: &Scene, misdeed: Misdeed) -> rustix::io::Result<TcpStream> {
    let family = if scene.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let descriptor: OwnedFd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if misdeed == Misdeed::SlowReader {
        // Before it is connected: the window that the kernel announces follows from it.
        set_socket_recv_buffer_size(&descriptor, RECEIVE_BUFFER_BYTES)?;
    }
    set_socket_timeout(&descriptor, Timeout::Send, Some(scene.patience))?;
    connect(&descriptor, &scene.address)?;
    set_socket_timeout(&descriptor, Timeout::Send, Some(SLICE))?;
    set_socket_timeout(&descriptor, Timeout::Recv, Some(SLICE))?;
    Ok(TcpStream::from(descriptor))
}

fn is_over(scene: &Scene, deadline: Instant) -> bool {
    scene.stop.load(Relaxed) || Instant::now() >= deadline
}

fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Reads at most so many bytes, or to the end.
fn read_some(stream: &mut TcpStream, scene: &Scene, deadline: Instant, most: u64) -> Reply {
    let (mut head, mut taken, mut buffer) = (Vec::new(), 0_u64, [0; 8192]);
    while !is_over(scene, deadline) && (taken < most || head.len() < STATUS_BYTES) {
        match stream.read(&mut buffer) {
            Ok(0) => return status(&head).map_or(Reply::Closed, Reply::Status),
            Ok(read) => {
                taken += read as u64;
                if head.len() < STATUS_BYTES {
                    head.extend_from_slice(&buffer[..read]);
                }
            }
            Err(error) if is_pause(error.kind()) => {}
            Err(_) => return status(&head).map_or(Reply::Closed, Reply::Status),
        }
    }
    status(&head).map_or(Reply::Nothing, Reply::Status)
}

/// Reads a few bytes at a time until its patience is at its end.
fn sip(stream: &mut TcpStream, scene: &Scene, deadline: Instant) -> Reply {
    let (mut head, mut buffer) = (Vec::new(), [0; SIP_BYTES]);
    while !is_over(scene, deadline) {
        match stream.read(&mut buffer) {
            Ok(0) => return status(&head).map_or(Reply::Closed, Reply::Status),
            Ok(read) if head.len() < STATUS_BYTES => head.extend_from_slice(&buffer[..read]),
            Ok(_) => {}
            Err(error) if is_pause(error.kind()) => {}
            Err(_) => return Reply::Closed,
        }
        std::thread::sleep(PAUSE);
    }
    Reply::Nothing
}

/// Writes a byte at a time; the pause is the wait for an answer.
fn trickle(stream: &mut TcpStream, request: &[u8], scene: &Scene, deadline: Instant) -> Reply {
    let mut buffer = [0; 512];
    for byte in request.iter().take(request.len() - 1) {
        if is_over(scene, deadline) {
            return Reply::Nothing;
        }
        if stream.write_all(&[*byte]).is_err() {
            return Reply::Closed;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Reply::Closed,
            Ok(read) => return status(&buffer[..read]).map_or(Reply::Closed, Reply::Status),
            Err(error) if is_pause(error.kind()) => {}
            Err(_) => return Reply::Closed,
        }
    }
    Reply::Nothing
}

fn oversized(stream: &mut TcpStream, scene: &Scene, deadline: Instant) -> Reply {
    let begin = format!("GET / HTTP/1.1\r\nHost: {}\r\nX-Oversized: ", scene.host);
    let field = vec![b'a'; 16 << 10];
    let mut sent = stream.write_all(begin.as_bytes());
    let mut left = OVERSIZED_BYTES;
    while sent.is_ok() && left > 0 && !is_over(scene, deadline) {
        sent = stream.write_all(&field);
        left = left.saturating_sub(field.len());
    }
    // A server that has had enough answers and hangs up, and what was written since resets the connection: the answer may
    // be lost on the way.
    let sent = sent.and_then(|()| stream.write_all(b"\r\n\r\n"));
    match (read_some(stream, scene, deadline, 1), sent) {
        (Reply::Nothing, Err(_)) => Reply::Closed,
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
    use std::net::TcpListener;
    use std::thread;

    use rand_xoshiro::rand_core::SeedableRng;

    /// One connection to a server that does as it is told; gives the tally and what the server received.
    fn done(misdeed: Misdeed, serve: fn(&mut TcpStream) -> Vec<u8>) -> (Tally, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scene = Scene {
            address: listener.local_addr().unwrap(),
            host: "example".to_owned(),
            paths: vec!["/file".to_owned()],
            patience: Duration::from_millis(600),
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
        let (tally, received) = done(Misdeed::SlowWriter, to_the_end);
        assert_eq!((tally.tried, tally.dropped), (1, 1));
        assert!((2..100).contains(&received.len()), "a byte a pause: {}", received.len());
        let (tally, _) = done(Misdeed::SlowWriter, |stream| {
            stream.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap();
            to_the_end(stream)
        });
        assert_eq!((tally.tried, tally.rejected), (1, 1));
        let (tally, _) = done(Misdeed::SlowReader, |stream| {
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
            host: String::new(),
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
