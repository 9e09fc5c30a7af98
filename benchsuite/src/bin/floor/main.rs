//! The least that a client can do: one `send` and one `recv` for each request, edge-triggered, and nothing else. No request is
//! timed, only the length of answers is checked, nothing times out, and the clock is read once per wait. Its cost is that of
//! the kernel for any load generator that uses these system calls.
//!
//! With a connection per request the descriptor is used again, as webstone's is: `connect`, `send`, `recv`, and what ends the
//! connection. This file has HTTP/1 without TLS and what all share; `layered` has TLS and HTTP/2, `http3` HTTP/3.

mod datagrams;
mod http2;
mod http3;
mod layered;
mod quic;
mod quic_ranges;
mod quic_wire;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt};
use serde_json::json;

/// Long enough for all connections to be busy.
const WARM_UP: Duration = Duration::from_millis(500);
/// Events taken at once, and room for one read, where bodies are small and where they are received whole: as webstone's
/// engine has them.
const BATCH: usize = 256;
const BUFFER_BYTES: usize = 16 * 1024;
const BODY_BYTES: usize = 160 * 1024;

/// The least that a client can do.
#[derive(Debug, Parser)]
struct Arguments {
    /// Connections.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How long it measures.
    seconds: u64,
    /// http://ADDRESS:PORT/PATH or https://ADDRESS:PORT/PATH
    url: String,
    /// `resume` is `per-request` with resumed TLS sessions, `h3-per-request` is it in HTTP/3.
    #[arg(value_parser = ["keep-alive", "receive", "per-request", "reset", "resume", "h2", "h3", "h3-per-request"])]
    way: String,
    /// Streams at a time on each connection, with `h2` and `h3` only.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    streams: Option<u64>,
}

fn main() -> ExitCode {
    let measured = load(Arguments::parse()).and_then(|load| {
        let measured = match load.way {
            Way::Http3 { .. } | Way::Http3PerRequest => measure::<http3::Clients<'_>>(&load),
            _ if load.is_layered() => measure::<layered::Clients<'_>>(&load),
            _ => measure::<Clients<'_>>(&load),
        };
        measured.map_err(|error| error.to_string())
    });
    match measured {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// When connections end, and how much is read of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Never.
    KeepAlive,
    /// Never; answers are large, and are received into memory.
    Receive,
    /// After each answer, once the server has ended them.
    PerRequest,
    /// After each answer, with a reset.
    Reset,
    /// As [`Way::PerRequest`] over TLS, whose sessions are resumed.
    Resume,
    /// Never; each has this many streams of HTTP/2 at a time.
    Http2 { streams: usize },
    /// The same of HTTP/3.
    Http3 { streams: usize },
    /// As [`Way::PerRequest`] in HTTP/3, where this side ends them.
    Http3PerRequest,
}

impl Way {
    fn keeps(self) -> bool {
        matches!(self, Way::KeepAlive | Way::Receive | Way::Http2 { .. })
    }
}

#[derive(Debug, PartialEq)]
struct Load {
    clients: usize,
    duration: Duration,
    address: SocketAddr,
    is_secure: bool,
    authority: String,
    path: String,
    way: Way,
}

impl Load {
    fn is_layered(&self) -> bool {
        self.is_secure || matches!(self.way, Way::Http2 { .. })
    }

    /// A request of HTTP/1, as webstone's own: fields cost the server time, and its pace changes what clients need.
    fn request(&self) -> String {
        let Load { authority, path, .. } = self;
        let close = if self.way.keeps() { "" } else { "Connection: close\r\n" };
        format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {AGENT}\r\nAccept: */*\r\n{close}\r\n"
        )
    }

    fn buffer_bytes(&self) -> usize {
        if self.way == Way::Receive { BODY_BYTES } else { BUFFER_BYTES }
    }
}

/// What requests say that the client is.
const AGENT: &str = concat!("webstone/", env!("CARGO_PKG_VERSION"));

fn load(arguments: Arguments) -> Result<Load, String> {
    let Arguments { connections, seconds, url, way, streams } = arguments;
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (authority, path) = rest
        .split_once('/')
        .filter(|_| ["http", "https"].contains(&scheme))
        .ok_or_else(|| format!("{url}: neither http://ADDRESS:PORT/PATH nor https"))?;
    let way = match (way.as_str(), streams) {
        ("keep-alive", None) => Way::KeepAlive,
        ("receive", None) => Way::Receive,
        ("per-request", None) => Way::PerRequest,
        ("reset", None) if scheme == "http" => Way::Reset,
        ("resume", None) if scheme == "https" => Way::Resume,
        ("h2", Some(streams)) => Way::Http2 { streams: streams as usize },
        ("h3", Some(streams)) if scheme == "https" => Way::Http3 { streams: streams as usize },
        ("h3-per-request", None) if scheme == "https" => Way::Http3PerRequest,
        _ => {
            return Err(format!(
                "{way}: reset needs http, resume and h3 https, h2 and h3 a number of streams"
            ));
        }
    };
    Ok(Load {
        clients: connections as usize,
        duration: Duration::from_secs(seconds),
        address: authority.parse().map_err(|_| format!("{authority}: not ADDRESS:PORT"))?,
        is_secure: scheme == "https",
        authority: authority.to_owned(),
        path: format!("/{path}"),
        way,
    })
}

/// Connections under load.
trait Drive<'a>: Sized {
    /// What is waited for.
    const INTEREST: epoll::EventFlags = epoll::EventFlags::IN
        .union(epoll::EventFlags::OUT)
        .union(epoll::EventFlags::RDHUP)
        .union(epoll::EventFlags::ET);
    /// How often [`tick`](Self::tick) is called; `None`: never.
    const TICK: Option<Duration> = None;

    /// Prepares for a load.
    fn new(load: &'a Load) -> io::Result<Self>;

    /// A socket that is not connected.
    fn open(load: &Load) -> io::Result<OwnedFd> {
        let family = if load.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(socket)
    }

    /// Takes a new socket, and has it connect.
    fn add(&mut self, socket: OwnedFd) -> io::Result<()>;

    /// Something happened to the connection of a number, counted from 0 in the order in which they were added.
    fn handle(&mut self, number: usize, flags: epoll::EventFlags) -> io::Result<()>;

    /// Answers that came whole.
    fn requests(&self) -> u64;

    /// Does what needs no event.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends all connections, where the kernel does not.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Loads the server, and says what it took as JSON.
fn measure<'a, D: Drive<'a>>(load: &'a Load) -> io::Result<String> {
    let mut clients = D::new(load)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for number in 0..load.clients {
        let socket = D::open(load)?;
        epoll::add(&poll, &socket, epoll::EventData::new_u64(number as u64), D::INTEREST)?;
        clients.add(socket)?;
    }
    let mut events = Vec::with_capacity(BATCH);
    let opens = Instant::now() + WARM_UP;
    let mut window: Option<(Instant, f64)> = None;
    let mut before = 0;
    let mut ticked = Instant::now();
    let longest = D::TICK.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    loop {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), longest.as_ref())?;
        for event in &events {
            clients.handle(event.data.u64() as usize, event.flags)?;
        }
        let now = Instant::now();
        if D::TICK.is_some_and(|tick| now - ticked >= tick) {
            ticked = now;
            clients.tick()?;
        }
        match window {
            None if now >= opens => {
                before = clients.requests();
                window = Some((now, own_cpu_s()?));
            }
            Some((opened, cpu_s)) if now - opened >= load.duration => {
                let requests = clients.requests() - before;
                let report = json!({
                    "requests": clients.requests(),
                    "rate": requests as f64 / (now - opened).as_secs_f64(),
                    "window_cpu_per_request_s": (own_cpu_s()? - cpu_s) / requests as f64,
                });
                clients.end()?;
                return Ok(report.to_string());
            }
            _ => {}
        }
    }
}

/// All clients, each with one connection.
struct Clients<'a> {
    load: &'a Load,
    request: String,
    /// Bytes of an answer.
    length: usize,
    sockets: Vec<OwnedFd>,
    /// Bytes of its answer that each has not read yet, [`UNASKED`] or [`ENDED`].
    due: Vec<usize>,
    buffer: Vec<u8>,
    /// Answers that came whole.
    requests: u64,
}

/// The connection is not established yet.
const UNASKED: usize = usize::MAX;
/// The answer is whole, and the server is to end the connection.
const ENDED: usize = 0;

impl<'a> Drive<'a> for Clients<'a> {
    fn new(load: &'a Load) -> io::Result<Clients<'a>> {
        let length = length_of_answer(load, &mut TcpStream::connect(load.address)?)?;
        Ok(Clients {
            load,
            request: load.request(),
            length,
            sockets: Vec::with_capacity(load.clients),
            due: Vec::with_capacity(load.clients),
            buffer: vec![0; load.buffer_bytes()],
            requests: 0,
        })
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.sockets.push(socket);
        self.due.push(UNASKED);
        self.connect(self.sockets.len() - 1)
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn handle(&mut self, number: usize, flags: epoll::EventFlags) -> io::Result<()> {
        let ended = flags.contains(epoll::EventFlags::RDHUP);
        match self.due[number] {
            UNASKED => self.ask(number),
            ENDED if ended => self.reconnect(number),
            ENDED => Ok(()),
            // The socket is only writable, which needs no reaction.
            _ if !flags.contains(epoll::EventFlags::IN) => Ok(()),
            _ => self.receive(number, ended),
        }
    }
}

impl Clients<'_> {
    fn receive(&mut self, number: usize, ended: bool) -> io::Result<()> {
        loop {
            let received = match net::recv(&self.sockets[number], &mut self.buffer[..], RecvFlags::empty()) {
                Ok((received, _)) => received,
                // The event of data that was already read with the rest.
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let due = self.due[number].checked_sub(received).filter(|_| received > 0).ok_or_else(unlike)?;
            self.due[number] = due;
            if due == 0 {
                break;
            }
            if received < self.buffer.len() {
                return Ok(());
            }
        }
        self.requests += 1;
        match self.load.way {
            Way::Reset => self.reconnect(number),
            Way::PerRequest if ended => self.reconnect(number),
            Way::PerRequest => Ok(()),
            _ => self.ask(number),
        }
    }

    fn ask(&mut self, number: usize) -> io::Result<()> {
        match net::send(&self.sockets[number], self.request.as_bytes(), SendFlags::NOSIGNAL) {
            Ok(_) => self.due[number] = self.length,
            // The connection is not established yet.
            Err(Errno::AGAIN) => self.due[number] = UNASKED,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Ends the connection in the way of the load, and sends the next request on a new one.
    fn reconnect(&mut self, number: usize) -> io::Result<()> {
        let socket = &self.sockets[number];
        if self.load.way == Way::PerRequest {
            net::shutdown(socket, Shutdown::Write)?;
        }
        net::connect_unspec(socket)?;
        self.connect(number)
    }

    fn connect(&mut self, number: usize) -> io::Result<()> {
        match net::connect(&self.sockets[number], &self.load.address) {
            // On loopback it is mostly established when the call returns.
            Ok(()) | Err(Errno::INPROGRESS) => self.ask(number),
            Err(error) => Err(error.into()),
        }
    }
}

/// Head and body of an answer, in bytes. All other answers must have the same length.
fn length_of_answer(load: &Load, socket: &mut (impl io::Read + io::Write)) -> io::Result<usize> {
    socket.write_all(load.request().as_bytes())?;
    let mut answer = vec![0; BUFFER_BYTES];
    let mut filled = 0;
    loop {
        let read = socket.read(&mut answer[filled..])?;
        if read == 0 {
            return Err(io::Error::other("the first answer has no end, or a head of more than 16 KiB"));
        }
        filled += read;
        let text = String::from_utf8_lossy(&answer[..filled]);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let body = head.lines().filter_map(|line| line.split_once(':'));
        return body
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .find_map(|(_, value)| value.trim().parse::<usize>().ok())
            .map(|body| head.len() + 4 + body)
            .ok_or_else(|| io::Error::other("the first answer has no Content-Length"));
    }
}

fn unlike() -> io::Error {
    io::Error::other("an answer was longer than the first, or the connection was closed")
}

/// User and system time of this process, in seconds.
fn own_cpu_s() -> io::Result<f64> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((used.user_time().num_microseconds() + used.system_time().num_microseconds()) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn loaded(text: &str) -> Result<Load, String> {
        let words = ["x"].into_iter().chain(text.split(' '));
        load(Arguments::try_parse_from(words).map_err(|error| error.to_string())?)
    }

    #[test]
    fn wrong_words_name_themselves() {
        for (text, part) in [
            ("1 2 http://127.0.0.1:1/", "<WAY>"),
            ("0 1 http://127.0.0.1:1/ reset", "invalid value '0' for '<CONNECTIONS>'"),
            ("1 x http://127.0.0.1:1/ reset", "invalid value 'x' for '<SECONDS>'"),
            ("1 1 ftp://127.0.0.1:1/ reset", "ftp://127.0.0.1:1/: neither http://"),
            ("1 1 http://localhost/ reset", "localhost: not ADDRESS:PORT"),
            ("1 1 http://127.0.0.1:1/ kept", "invalid value 'kept' for '<WAY>'"),
            ("1 1 http://127.0.0.1:1/ resume", "resume: reset needs http, resume and h3 https"),
            ("1 1 https://127.0.0.1:1/ reset", "reset: reset needs http"),
            ("1 1 http://127.0.0.1:1/ h2", "h2 and h3 a number of streams"),
            ("1 1 http://127.0.0.1:1/ h3 1", "h3: reset needs http, resume and h3 https"),
            ("1 1 https://127.0.0.1:1/ h3-per-request 2", "h3-per-request: "),
            ("1 1 http://127.0.0.1:1/ h2 0", "invalid value '0' for '[STREAMS]'"),
        ] {
            let error = loaded(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    /// Answers with `body` bytes until it is told to stop, and counts the answers. A connection is closed after its answer if the
    /// request asks for it.
    fn serve(listener: &TcpListener, body: usize) -> u64 {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {body}\r\n\r\n{}", "x".repeat(body));
        let mut answered = 0;
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 4096];
            // Until the client is gone, which may leave a last answer unread.
            while let Ok(read @ 1..) = socket.read(&mut request) {
                if request[..read] == *b"stop" {
                    return answered;
                }
                if socket.write_all(answer.as_bytes()).is_err() {
                    break;
                }
                answered += 1;
                if String::from_utf8_lossy(&request[..read]).contains("close") {
                    break;
                }
            }
        }
        answered
    }

    #[test]
    fn every_answer_is_counted_once() {
        for (way, body) in [("keep-alive", 5), ("receive", 500_000), ("per-request", 5), ("reset", 5)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || serve(&listener, body));
            let load = loaded(&format!("1 0 http://{address}/ {way}")).unwrap();
            let load = Load { duration: Duration::from_secs(1), ..load };
            let report: serde_json::Value =
                serde_json::from_str(&measure::<Clients<'_>>(&load).unwrap()).unwrap();
            TcpStream::connect(address).unwrap().write_all(b"stop").unwrap();
            let (requests, answered) = (report["requests"].as_u64().unwrap(), server.join().unwrap());
            // One was for the length alone, and the last may be under way.
            assert!(requests > 1, "{way} {report}");
            assert!((requests + 1..=requests + 2).contains(&answered), "{way}: {requests} of {answered}");
            assert!(report["rate"].as_f64().unwrap() > 0.0, "{way}");
        }
    }
}
