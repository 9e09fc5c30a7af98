//! One request and its response, in HTTP/1 or HTTP/2, over any stream, within time limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use webstone_measure::errors::ErrorClass;
use webstone_workload::load::HttpVersion;

use crate::h1::response::{AtEnd, ResponseParser, Step};
use crate::h2::single::Single;
use crate::probe::{Extent, ProbeResponse, ReadTo};
use crate::tls::TlsStream;

/// The hint for a server that does not answer in HTTP/2.
const NO_HTTP2: &str = "run with --http 1.1, or enable HTTP/2 on this port";

/// A stream, with or without TLS.
pub(crate) enum Stream {
    Internet(TcpStream),
    Unix(UnixStream),
    Secure(Box<TlsStream<Stream>>),
}

impl Stream {
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        match self {
            Stream::Internet(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Secure(stream) => stream.below().set_read_timeout(timeout),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        match self {
            Stream::Internet(stream) => stream.set_write_timeout(Some(timeout)),
            Stream::Unix(stream) => stream.set_write_timeout(Some(timeout)),
            Stream::Secure(stream) => stream.below().set_write_timeout(timeout),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Internet(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Secure(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Internet(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Secure(stream) => stream.write_all(bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Why there is no response: class, message, hint.
pub(crate) type ProbeFailure = (ErrorClass, String, Option<String>);

/// Time limits of an exchange.
pub(crate) struct Waits {
    pub(crate) begun: Instant,
    pub(crate) first_byte: Duration,
    pub(crate) whole: Duration,
    pub(crate) extent: Extent,
}

impl Waits {
    pub(crate) fn bytes_max(&self) -> u64 {
        match self.extent {
            Extent::Whole { bytes_max } | Extent::Beginning { bytes_max, .. } => bytes_max,
        }
    }

    /// How long the next bytes may take, by what has arrived: nothing, something, the head.
    pub(crate) fn left(&self, wire_bytes: u64, head_at: Option<Instant>) -> Duration {
        let whole = self.begun + self.whole;
        let until = match (self.extent, head_at) {
            (Extent::Beginning { time_max, .. }, Some(head_at)) => whole.min(head_at + time_max),
            _ if wire_bytes == 0 => whole.min(self.begun + self.first_byte),
            _ => whole,
        };
        until.saturating_duration_since(Instant::now())
    }

    /// The error of a request that took too long.
    pub(crate) fn late(&self, wire_bytes: u64) -> ProbeFailure {
        match wire_bytes {
            0 if self.first_byte < self.whole => {
                let what = format!("not a byte of an answer came within {:?}", self.first_byte);
                (ErrorClass::FirstByteTimeout, what, None)
            }
            0 => (
                ErrorClass::RequestTimeout,
                format!("not a byte of an answer came within {:?}", self.whole),
                None,
            ),
            bytes => {
                let what = format!("the answer was not finished within {:?}: {bytes} bytes came", self.whole);
                (ErrorClass::RequestTimeout, what, Some("allow more time with --timeout".to_owned()))
            }
        }
    }
}

/// Whether an error says that a time limit has passed.
pub(crate) fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// A request and its response so far.
pub(crate) enum Exchange {
    Http1(Vec<u8>, Reading),
    Http2(Single),
}

impl Exchange {
    /// Sends the request, and reads as much of the answer as is asked for. `told` puts an error into words.
    pub(crate) fn run(
        mut self,
        mut stream: Stream,
        waits: &Waits,
        told: &dyn Fn(&std::io::Error) -> (ErrorClass, String),
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeFailure> {
        let broken = |error: &std::io::Error, wire_bytes: u64| {
            if is_late(error) {
                return waits.late(wire_bytes);
            }
            let (class, what) = told(error);
            (class, what, None)
        };
        let mut buffer = vec![0; 65_536];
        let mut head_at = None;
        let mut unsent = None;
        while !self.is_done() {
            let wire_bytes = self.wire_bytes();
            // A time-out per read would never end with a server that keeps sending. The handshake reads, too.
            let left = waits.left(wire_bytes, head_at);
            let result = match left.is_zero() {
                true => Err(std::io::ErrorKind::TimedOut.into()),
                false => self.turn(&mut stream, left, &mut unsent, &mut buffer),
            };
            let n = match result {
                Ok(n) => n,
                Err(error) if is_late(&error) && self.status() != 0 && head_at.is_some() => {
                    match waits.extent {
                        Extent::Beginning { .. } => return Ok(self.answer(ReadTo::Time)),
                        Extent::Whole { .. } => return Err(waits.late(wire_bytes)),
                    }
                }
                Err(error) => {
                    let (class, what, hint) = broken(unsent.as_ref().unwrap_or(&error), wire_bytes);
                    // Servers that know only HTTP/1 may close the connection on HTTP/2's preface.
                    let is_closed = wire_bytes == 0 && class == ErrorClass::Reset;
                    return Err((class, what, hint.or_else(|| self.no_http2(is_closed))));
                }
            };
            if n == 0 {
                if self.may_end() {
                    break;
                }
                if let Some(error) = unsent {
                    return Err(broken(&error, wire_bytes));
                }
                if wire_bytes == 0 {
                    let what = "the connection was closed without an answer".to_owned();
                    return Err((ErrorClass::ClosedEarly, what, self.no_http2(true)));
                }
                let what = format!("the answer ended early, after {wire_bytes} bytes");
                return Err((ErrorClass::ShortBody, what, None));
            }
            self.take(&buffer[..n], each)?;
            if head_at.is_none() && self.status() != 0 {
                head_at = Some(Instant::now());
            }
            if self.body_bytes() > waits.bytes_max() {
                match waits.extent {
                    Extent::Beginning { .. } => return Ok(self.answer(ReadTo::Bytes)),
                    Extent::Whole { bytes_max } => {
                        let what = format!("a body of more than {bytes_max} bytes; the rest was not read");
                        return Err((ErrorClass::WrongLength, what, None));
                    }
                }
            }
        }
        Ok(self.answer(ReadTo::End))
    }

    /// Sends the rest of the request and reads the response. A server may refuse a body and close without reading it: its response then
    /// matters, not the error of sending.
    fn turn(
        &mut self,
        stream: &mut Stream,
        left: Duration,
        unsent: &mut Option<std::io::Error>,
        buffer: &mut [u8],
    ) -> std::io::Result<usize> {
        stream.set_read_timeout(left)?;
        stream.set_write_timeout(left)?;
        let out = match self {
            Exchange::Http1(bytes, _) => bytes,
            Exchange::Http2(single) => &mut single.out,
        };
        if !out.is_empty()
            && let Err(error) = stream.write_all(&std::mem::take(out))
        {
            match error.kind() {
                std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset => {
                    *unsent = Some(error);
                }
                _ => return Err(error),
            }
        }
        stream.read(buffer)
    }

    fn take(&mut self, input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), ProbeFailure> {
        match self {
            Exchange::Http1(_, reading) => {
                let is_first = reading.wire_bytes == 0;
                reading.take(input, each).map_err(|what| {
                    // A TLS server answers a request without TLS with an alert record: type 21, version 3.
                    let tls = is_first && input.starts_with(&[0x15, 0x03]);
                    let detail = if tls { "the server speaks TLS on this port" } else { what };
                    let hint = tls.then(|| "write https:// instead of http://".to_owned());
                    (ErrorClass::Malformed, format!("not an HTTP/1 answer: {detail}"), hint)
                })
            }
            Exchange::Http2(single) => single.take(input, each).map_err(|(class, detail)| {
                (class, detail, (class == ErrorClass::H2NotSpoken).then(|| NO_HTTP2.to_owned()))
            }),
        }
    }

    fn no_http2(&self, is_closed: bool) -> Option<String> {
        (is_closed && matches!(self, Exchange::Http2(_))).then(|| NO_HTTP2.to_owned())
    }

    fn is_done(&self) -> bool {
        match self {
            Exchange::Http1(_, reading) => reading.parser.is_done(),
            Exchange::Http2(single) => single.is_done,
        }
    }

    /// Whether the end of the stream ends the answer.
    fn may_end(&self) -> bool {
        matches!(self, Exchange::Http1(_, reading) if reading.parser.at_end() == AtEnd::Complete)
    }

    /// 0 before the head.
    fn status(&self) -> u16 {
        match self {
            Exchange::Http1(_, reading) => reading.status,
            Exchange::Http2(single) => single.status,
        }
    }

    fn wire_bytes(&self) -> u64 {
        match self {
            Exchange::Http1(_, reading) => reading.wire_bytes,
            Exchange::Http2(single) => single.wire_bytes,
        }
    }

    fn body_bytes(&self) -> u64 {
        match self {
            Exchange::Http1(_, reading) => reading.body_bytes,
            Exchange::Http2(single) => single.body_bytes,
        }
    }

    fn answer(self, read: ReadTo) -> ProbeResponse {
        let (status, wire_bytes) = (self.status(), self.wire_bytes());
        let (http, headers) = match self {
            Exchange::Http1(_, reading) => (HttpVersion::Http11, reading.headers),
            Exchange::Http2(single) => (HttpVersion::Http2, single.headers),
        };
        ProbeResponse { http, status, headers, body: Vec::new(), wire_bytes, read }
    }
}

/// A response being read.
pub(crate) struct Reading {
    parser: ResponseParser,
    kept: Vec<u8>,
    status: u16,
    headers: Vec<(String, String)>,
    body_bytes: u64,
    wire_bytes: u64,
}

impl Reading {
    pub(crate) fn new(to_head: bool) -> Reading {
        Reading {
            parser: ResponseParser::new(to_head),
            kept: Vec::new(),
            status: 0,
            headers: Vec::new(),
            body_bytes: 0,
            wire_bytes: 0,
        }
    }

    fn take(&mut self, input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), &'static str> {
        self.wire_bytes += input.len() as u64;
        self.kept.extend_from_slice(input);
        let mut at = 0;
        while at < self.kept.len() && !self.parser.is_done() {
            let input = &self.kept[at..];
            let (used, step) = self.parser.step(input).map_err(|malformed| malformed.0)?;
            match step {
                Step::NeedMore | Step::Done => break,
                Step::Head(head) => {
                    self.status = head.status;
                    self.headers = fields(&input[..used]);
                }
                Step::Body => {
                    self.body_bytes += used as u64;
                    each(&input[..used]);
                }
                Step::Interim | Step::Framing => {}
            }
            at += used;
        }
        self.kept.drain(..at);
        Ok(())
    }
}

fn fields(head: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(head);
    let pair =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    text.lines().skip(1).filter_map(pair).collect()
}
