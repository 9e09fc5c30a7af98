//! The null server: for each head that ends in an empty line, the same bytes again, and nothing else.
//!
//! It is cheaper than any real server, so the load on it shows the load generator's own limit: `webstone calibrate` and the benchmark suite
//! measure against it. One epoll loop per CPU; one `recv` and one `send` per request, no `epoll_ctl` after a connection's first. It reads
//! no method, path, field or body, and is not a web server.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

const BUFFER_BYTES: usize = 64 * 1024;
const BATCH: usize = 1024;
/// The key of the listener's events; no descriptor has this number.
const LISTENER: u64 = u64::MAX;

/// What it answers, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NullOptions {
    /// Length of the body.
    pub body_bytes: usize,
    /// The body is what webstone's generated fileset has at this path.
    pub path: String,
    /// Whether each connection is closed after its first answer.
    pub close: bool,
    /// One event loop on each of these CPUs; none: one loop, not pinned.
    pub cpus: Vec<u32>,
    /// Whether it ends when standard input does.
    pub until_stdin_closes: bool,
}

impl Default for NullOptions {
    /// 500 bytes on kept connections, one loop, not pinned.
    fn default() -> NullOptions {
        NullOptions {
            body_bytes: 500,
            path: "/file500.html".to_owned(),
            close: false,
            cpus: Vec::new(),
            until_stdin_closes: false,
        }
    }
}

impl NullOptions {
    /// Head and body, as they are sent every time.
    fn answer(&self) -> Vec<u8> {
        let connection = if self.close { "close" } else { "keep-alive" };
        // The fields of an nginx, so that every client has the same to parse.
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nServer: null\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Type: text/html\r\n\
             Content-Length: {}\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\nConnection: {connection}\r\n\
             ETag: \"null\"\r\nAccept-Ranges: bytes\r\n\r\n",
            self.body_bytes
        )
        .into_bytes();
        let head = answer.len();
        answer.resize(head + self.body_bytes, 0);
        webstone_workload::content::fill(&self.path, 0, &mut answer[head..]);
        answer
    }
}

/// Serves until the process ends, or until standard input does; `ready` is told the URL when it listens.
///
/// # Errors
/// If a socket, an event loop or a CPU is not available.
pub fn serve_null(options: &NullOptions, ready: impl FnOnce(&str) -> io::Result<()>) -> io::Result<()> {
    let answer: Arc<[u8]> = options.answer().into();
    let loops = options.cpus.len().max(1);
    let first = listen(0, loops > 1)?;
    let port = first.local_addr()?.port();
    let mut listeners = vec![first];
    while listeners.len() < loops {
        listeners.push(listen(port, true)?);
    }
    let (ended, end) = std::sync::mpsc::channel();
    for (number, listener) in listeners.into_iter().enumerate() {
        let (answer, close, cpu) = (answer.clone(), options.close, options.cpus.get(number).copied());
        let ended = ended.clone();
        std::thread::spawn(move || {
            let run = || -> io::Result<()> {
                if let Some(cpu) = cpu {
                    let mut set = CpuSet::new();
                    set.set(cpu as usize);
                    sched_setaffinity(None, &set)?;
                }
                Loop::new(listener, answer, close)?.run()
            };
            // An error means that the process is ending.
            let _ = ended.send(run());
        });
    }
    if options.until_stdin_closes {
        std::thread::spawn(move || {
            let end = io::copy(&mut io::stdin().lock(), &mut io::sink());
            let _ = ended.send(end.map(drop));
        });
    }
    ready(&format!("http://127.0.0.1:{port}"))?;
    end.recv().unwrap_or(Ok(()))
}

fn listen(port: u16, shared: bool) -> io::Result<TcpListener> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    // Connections inherit it: the last segment of a large body must not wait for an acknowledgement.
    sockopt::set_tcp_nodelay(&socket, true)?;
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    net::listen(&socket, 16_384)?;
    Ok(socket.into())
}

/// One accepted connection.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// How much of an empty line the input read so far ends with, in bytes.
    matched: u8,
    /// Answers still to be sent whole.
    due: u64,
    /// Bytes of the first of them that were sent.
    sent: usize,
}

/// What becomes of a connection after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
}

struct Loop {
    epoll: OwnedFd,
    listener: TcpListener,
    /// Indexed by their descriptors, under which they are registered.
    connections: Vec<Option<Connection>>,
    answer: Arc<[u8]>,
    close: bool,
    buffer: Vec<u8>,
}

impl Loop {
    fn new(listener: TcpListener, answer: Arc<[u8]>, close: bool) -> io::Result<Loop> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Loop { epoll, listener, connections: Vec::new(), answer, close, buffer: vec![0; BUFFER_BYTES] })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(BATCH);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let token = event.data.u64();
                if token == LISTENER {
                    self.accept()?;
                    continue;
                }
                let place = &mut self.connections[token as usize];
                if let Some(connection) = place {
                    let flags = event.flags;
                    let fate = connection.turn(flags, &self.answer, self.close, &mut self.buffer);
                    if fate == Fate::Ends {
                        *place = None;
                    }
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let number = socket.as_raw_fd() as usize;
            // Edge-triggered and for both directions: nothing is ever registered again.
            let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &socket, EventData::new_u64(number as u64), interest)?;
            if self.connections.len() <= number {
                self.connections.resize_with(number + 1, || None);
            }
            self.connections[number] = Some(Connection { socket, matched: 0, due: 0, sent: 0 });
        }
    }
}

impl Connection {
    fn turn(&mut self, flags: EventFlags, answer: &[u8], close: bool, buffer: &mut [u8]) -> Fate {
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            return Fate::Ends;
        }
        let mut ended = false;
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP) {
            loop {
                match net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                    Ok((0, _)) => {
                        ended = true;
                        break;
                    }
                    Ok((read, _)) => {
                        self.due += count_heads(&mut self.matched, &buffer[..read]);
                        // Less than there was room for: the queue is empty, unless its end is there to be read.
                        if read < buffer.len() && !flags.contains(EventFlags::RDHUP) {
                            break;
                        }
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(_) => return Fate::Ends,
                }
            }
        }
        while self.due > 0 {
            match net::send(&self.socket, &answer[self.sent..], SendFlags::NOSIGNAL) {
                Ok(written) if self.sent + written == answer.len() => {
                    if close {
                        return Fate::Ends;
                    }
                    self.sent = 0;
                    self.due -= 1;
                }
                // The rest is sent when an event reports room in the queue.
                Ok(written) => self.sent += written,
                Err(Errno::AGAIN) => return Fate::Stays,
                Err(Errno::INTR) => {}
                Err(_) => return Fate::Ends,
            }
        }
        if ended { Fate::Ends } else { Fate::Stays }
    }
}

/// How many heads end in `bytes`. `matched`: how many bytes of an empty line the bytes before ended with.
fn count_heads(matched: &mut u8, bytes: &[u8]) -> u64 {
    const END: &[u8; 4] = b"\r\n\r\n";
    // Nearly always one head comes whole and alone.
    if *matched == 0 && bytes.ends_with(END) && memchr::memmem::find(bytes, END) == Some(bytes.len() - 4) {
        return 1;
    }
    let mut heads = 0;
    for byte in bytes {
        *matched = match (*matched, byte) {
            (at, byte) if *byte == END[usize::from(at)] => at + 1,
            (_, b'\r') => 1,
            _ => 0,
        };
        if *matched == 4 {
            heads += 1;
            *matched = 0;
        }
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    /// A server in a thread of its own, which ends with the tests.
    fn started(options: &NullOptions) -> (SocketAddrV4, Vec<u8>) {
        let listener = listen(0, false).unwrap();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let answer = options.answer();
        let server = Loop::new(listener, answer.clone().into(), options.close).unwrap();
        std::thread::spawn(move || server.run());
        (address, answer)
    }

    #[test]
    fn heads_are_counted_however_they_are_cut() {
        let text = b"GET / HTTP/1.1\r\nA: b\r\n\r\nGET / HTTP/1.1\r\r\n\r\nGET /\r\n";
        for cut in 0..text.len() {
            let mut matched = 0;
            let heads = count_heads(&mut matched, &text[..cut]) + count_heads(&mut matched, &text[cut..]);
            assert_eq!((heads, matched), (2, 2), "cut at {cut}");
        }
        let mut matched = 0;
        assert_eq!(count_heads(&mut matched, b"GET / HTTP/1.1\r\n\r\n"), 1);
        assert_eq!(count_heads(&mut matched, b"a\r\n\r\nb\r\n\r\n"), 2);
    }

    #[test]
    fn pipelined_requests_get_an_answer_each_and_the_connection_stays() {
        let (address, answer) = started(&NullOptions::default());
        assert!(answer.len() > 700 && answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        let mut stream = TcpStream::connect(address).unwrap();
        for requests in [1, 3] {
            stream.write_all("GET / HTTP/1.1\r\n\r\n".repeat(requests).as_bytes()).unwrap();
            let mut answers = vec![0; answer.len() * requests];
            stream.read_exact(&mut answers).unwrap();
            assert_eq!(answers, answer.repeat(requests));
        }
        // The server ends the connection when the client has ended its side.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn large_bodies_come_whole_and_a_closing_server_closes() {
        let (address, answer) = started(&NullOptions {
            body_bytes: 5_248_000,
            path: "/file5m.html".to_owned(),
            close: true,
            ..NullOptions::default()
        });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // The queues fill up first, so that the rest has to wait for room.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(received == answer, "{} bytes of {}", received.len(), answer.len());
    }
}
