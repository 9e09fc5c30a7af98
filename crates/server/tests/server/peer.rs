//! A byte peer: writes what it is told, reads what comes, and takes an answer apart with code of its own.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use webstone_model::spec::ServerSpec;
use webstone_server::{COUNTERS_PATH, Counters, Fileset, RunningServer, ServeOptions, Server};

/// Long enough for any answer; a test that meets it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server of `threads` threads with the files of [`fileset`].
pub(crate) fn server(threads: u32) -> RunningServer {
    start(ServerSpec { threads, ..ServerSpec::default() })
}

pub(crate) fn start(spec: ServerSpec) -> RunningServer {
    Server::start(ServeOptions { fileset: fileset(), test_handlers: true, ..ServeOptions::new(spec) })
        .unwrap()
}

pub(crate) fn fileset() -> Fileset {
    let entries = [("/empty.txt", 0), ("/small.html", 500), ("/large.bin", 3_000_000), ("/a b.txt", 7)];
    Fileset::from_entries(entries.map(|(path, size)| (path.to_owned(), size)).to_vec(), content)
}

/// Content of the files: each byte follows from path and offset.
pub(crate) fn content(path: &str, offset: u64, out: &mut [u8]) {
    for (index, byte) in out.iter_mut().enumerate() {
        *byte = b'a' + ((offset + index as u64 + path.len() as u64) % 23) as u8;
    }
}

pub(crate) fn content_of(path: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    content(path, 0, &mut bytes);
    bytes
}

/// One connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// Bytes read and not used yet.
    pub(crate) rest: Vec<u8>,
    /// All bytes read.
    pub(crate) received: u64,
    /// All bytes written.
    pub(crate) sent: u64,
}

/// An answer in parts.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) version: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Peer {
    pub(crate) fn connect(server: &RunningServer) -> Peer {
        Peer::at(server.url())
    }

    pub(crate) fn at(url: &str) -> Peer {
        let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream, rest: Vec::new(), received: 0, sent: 0 }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
        self.sent += text.len() as u64;
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.answer(false)
    }

    /// One read; `Ok(0)` at the end.
    pub(crate) fn read_some(&mut self) -> io::Result<usize> {
        let mut buffer = vec![0; 256 * 1024];
        let read = self.stream.read(&mut buffer)?;
        self.rest.extend_from_slice(&buffer[..read]);
        self.received += read as u64;
        Ok(read)
    }

    /// Reads to the end of the connection, whatever it is, and returns all unused bytes with the way it ended.
    pub(crate) fn read_to_end(&mut self) -> (Vec<u8>, io::Result<()>) {
        let end = loop {
            match self.read_some() {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        (std::mem::take(&mut self.rest), end)
    }

    pub(crate) fn read_head(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.read_some().unwrap() > 0, "the connection ended inside a head: {:?}", self.rest);
        };
        let head = String::from_utf8(self.rest.drain(..end).collect()).unwrap();
        let mut words = head.split_whitespace();
        let version = words.next().unwrap().to_owned();
        let status = words.next().unwrap().parse().unwrap();
        Answer { status, version, head, body: Vec::new() }
    }

    /// Reads one whole answer; `head_only` for the answer to HEAD.
    pub(crate) fn answer(&mut self, head_only: bool) -> Answer {
        let mut answer = self.read_head();
        if head_only || matches!(answer.status, 100..=199 | 204 | 304) {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = self.chunks().concat();
        } else if let Some(length) = answer.header("content-length") {
            let length = length.parse().unwrap();
            self.need(length);
            answer.body = self.rest.drain(..length).collect();
        } else {
            answer.body = self.read_to_end().0;
        }
        answer
    }

    /// Reads a chunked body and returns its chunks.
    pub(crate) fn chunks(&mut self) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        loop {
            let at = loop {
                if let Some(at) = self.rest.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                assert!(self.read_some().unwrap() > 0, "the connection ended inside a chunk size");
            };
            let line: Vec<u8> = self.rest.drain(..at + 2).collect();
            let size = usize::from_str_radix(std::str::from_utf8(&line[..at]).unwrap(), 16).unwrap();
            self.need(size + 2);
            let chunk: Vec<u8> = self.rest.drain(..size + 2).collect();
            assert_eq!(&chunk[size..], b"\r\n");
            if size == 0 {
                return chunks;
            }
            chunks.push(chunk[..size].to_vec());
        }
    }

    fn need(&mut self, bytes: usize) {
        while self.rest.len() < bytes {
            assert!(
                self.read_some().unwrap() > 0,
                "the connection ended after {} of {bytes} bytes",
                self.rest.len()
            );
        }
    }

    /// Whether the server has closed in order, with nothing left to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        let (rest, end) = self.read_to_end();
        rest.is_empty() && end.is_ok()
    }
}

/// The counters, asked for over HTTP.
pub(crate) fn counters(server: &RunningServer) -> Counters {
    serde_json::from_slice(&Peer::connect(server).get(COUNTERS_PATH).body).unwrap()
}

/// The counters once `is_there` holds: for what the server does after its last byte, such as closing.
pub(crate) fn counters_when(server: &RunningServer, is_there: impl Fn(&Counters) -> bool) -> Counters {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counters = counters(server);
        if is_there(&counters) {
            return counters;
        }
        assert!(Instant::now() < deadline, "never came: {counters:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
