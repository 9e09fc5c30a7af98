//! Single blocking requests: for checks before and after a run, never for load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use webstone_measure::errors::ErrorClass;
use webstone_workload::load::{ClientSpec, HttpVersion};
use webstone_workload::target::{Scheme, Target};
use webstone_workload::tls::TlsSpec;

use crate::failure::{class_of, describe};
use crate::h1::request::{RequestParts, is_field_value, is_token, write_request};
use crate::h1::response::{AtEnd, ResponseParser, Step};
use crate::h2::single::Single;
use crate::origin::{all_addresses, split};
use crate::plan_error::PlanError;
use crate::proxy_protocol;
use crate::sys::{Source, connect_within};
use crate::tls::{TlsPlan, TlsStream, told_of_stream};

/// Largest body that [`Probe::fetch`] holds in memory, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// The hint for a server that does not answer in HTTP/2.
const NO_HTTP2: &str = "run with --http 1.1, or enable HTTP/2 on this port";

/// A blocking client for single requests, with the engine's own response parser.
#[derive(Clone, Debug)]
pub struct Probe {
    target: Target,
    /// Where connections go and come from.
    client: ClientSpec,
    headers: Vec<(String, String)>,
    tls: Option<ProbeTls>,
    timeout: Duration,
    is_http2: bool,
}

/// The TLS configuration of probes, made once for many.
#[derive(Clone, Debug)]
pub struct ProbeTls(TlsPlan);

impl ProbeTls {
    /// The configuration that clients of a run have. Offers this version alone.
    ///
    /// # Errors
    /// If a file cannot be read, or settings contradict each other.
    pub fn new(spec: &TlsSpec, http: HttpVersion) -> Result<ProbeTls, PlanError> {
        let spec = TlsSpec { alpn: Vec::new(), ..spec.clone() };
        Ok(ProbeTls(TlsPlan::new(&spec, http)?))
    }

    /// TLS over a stream of the caller, to send bytes that a probe would not send.
    ///
    /// # Errors
    /// If the target's URL is not `https`.
    pub fn over<S: Read + Write>(&self, target: &Target, stream: S) -> std::io::Result<TlsStream<S>> {
        TlsStream::new(&self.0, target, stream)
    }
}

/// A whole answer to a probe.
#[derive(Clone, Debug)]
pub struct ProbeResponse {
    /// Status code.
    pub status: u16,
    /// Header fields in order, names as sent.
    pub headers: Vec<(String, String)>,
    /// The body, decoded from its framing.
    pub body: Vec<u8>,
    /// Bytes that the whole answer took on the wire.
    pub wire_bytes: u64,
}

impl ProbeResponse {
    /// The value of a header field, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// Why a probe got no answer.
#[derive(Debug, thiserror::Error)]
#[error("{request}: {detail}")]
pub struct ProbeError {
    /// Class in which load would count it.
    pub class: ErrorClass,
    /// Method and URL.
    pub request: String,
    /// What happened, in words.
    pub detail: String,
    /// What to do about it, if anything.
    pub hint: Option<String>,
}

impl Probe {
    /// A probe of a base URL such as `http://127.0.0.1:8080`. `timeout` is for the whole request. Fails if the URL is
    /// invalid or its host does not resolve.
    pub fn new(base_url: &str, timeout: Duration) -> Result<Probe, ProbeError> {
        let failed = |class: ErrorClass, error: PlanError| ProbeError {
            class,
            request: format!("GET {base_url}"),
            detail: error.what,
            hint: error.hint,
        };
        let (target, _) =
            split("target", base_url).map_err(|error| failed(ErrorClass::GeneratorIo, error))?;
        Ok(Probe {
            target,
            client: ClientSpec::default(),
            headers: Vec::new(),
            tls: None,
            timeout,
            is_http2: false,
        })
    }

    /// Connects as these clients do: from their local addresses, and to their Unix socket if they use one.
    #[must_use]
    pub fn connecting_like(mut self, client: &ClientSpec) -> Probe {
        self.client = client.clone();
        self
    }

    /// Uses this HTTP version; HTTP/2 with prior knowledge.
    #[must_use]
    pub fn with_version(mut self, version: HttpVersion) -> Probe {
        self.is_http2 = version == HttpVersion::Http2;
        self
    }

    /// Uses this TLS configuration for `https` URLs; by default, the server's certificate is not verified.
    #[must_use]
    pub fn with_tls(mut self, tls: ProbeTls) -> Probe {
        self.tls = Some(tls);
        self
    }

    /// Adds these header fields to every request.
    #[must_use]
    pub fn with_headers<'a>(mut self, headers: impl IntoIterator<Item = (&'a String, &'a String)>) -> Probe {
        self.headers = headers.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        self
    }

    /// `GET path` on a connection of its own.
    ///
    /// # Errors
    /// If there is no complete answer within the timeout, or its body has more than 64 MiB.
    pub fn fetch(&self, path: &str) -> Result<ProbeResponse, ProbeError> {
        let mut body = Vec::new();
        let answer = self.fetch_each(path, BODY_BYTES_MAX, &mut |piece| body.extend_from_slice(piece))?;
        Ok(ProbeResponse { body, ..answer })
    }

    /// As [`Probe::fetch`], but passes the body on as it arrives, at most `body_bytes_max` of it, and returns an
    /// empty one.
    ///
    /// # Errors
    /// If there is no complete answer within the timeout, even if bytes keep arriving, or its body has more bytes.
    pub fn fetch_each(
        &self,
        path: &str,
        body_bytes_max: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        let request = format!("GET {}{path}", self.target);
        let failed = |class: ErrorClass, detail: String, hint: Option<String>| ProbeError {
            class,
            request: request.clone(),
            detail,
            hint,
        };
        // A plan would refuse these, but probes are sent before there is one.
        let stands = |(name, value): &(String, String)| is_token(name) && is_field_value(value);
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) || !self.headers.iter().all(stands) {
            let detail = "the path or a header field has a line end or another control character".to_owned();
            return Err(failed(ErrorClass::GeneratorIo, detail, None));
        }
        let until = Instant::now() + self.timeout;
        let addresses = match &self.client.unix_socket {
            Some(_) => Vec::new(),
            None => all_addresses("target", &self.client, &self.target)
                .map_err(|error| failed(ErrorClass::Dns, error.what, error.hint))?,
        };
        let stream = self.connect(&addresses, until).map_err(|(address, error)| {
            let class = class_of(&error, true);
            let hint = match class {
                ErrorClass::Refused => {
                    Some("is the server running, and does it listen on this port?".to_owned())
                }
                ErrorClass::Unreachable => Some("is there a route to this host?".to_owned()),
                _ => None,
            };
            failed(class, format!("{address}: {}", describe(&error)), hint)
        })?;
        let unplanned = |error: PlanError| failed(ErrorClass::GeneratorIo, error.what, error.hint);
        let tls = self.planned_tls().map_err(unplanned)?;
        let mut stream = match &tls {
            None => stream,
            Some(tls) => {
                let stream = TlsStream::new(&tls.0, &self.target, stream);
                let stream =
                    stream.map_err(|error| failed(ErrorClass::GeneratorIo, error.to_string(), None))?;
                Stream::Secure(Box::new(stream))
            }
        };
        let mut bytes = Vec::new();
        let parts = RequestParts {
            method: "GET",
            target: path,
            host: &self.target.authority(),
            version: HttpVersion::Http11,
            headers: &self.headers,
            body: None,
            last: true,
            body_later: false,
        };
        write_request(&parts, &mut bytes);
        let late = || {
            failed(ErrorClass::RequestTimeout, format!("no complete answer within {:?}", self.timeout), None)
        };
        let broken = |error: &std::io::Error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => late(),
            _ => match tls.as_ref().and_then(|tls| told_of_stream(&tls.0, error)) {
                Some((class, what)) => failed(class, what, None),
                None => failed(class_of(error, false), describe(error), None),
            },
        };
        // The handshake reads before the first answer is read.
        stream.set_read_timeout(self.timeout).map_err(|error| broken(&error))?;
        stream.set_write_timeout(self.timeout).map_err(|error| broken(&error))?;
        if self.is_http2 {
            let mut single = Single::new(&parts, self.target.scheme.name())
                .map_err(|error| failed(ErrorClass::GeneratorIo, error.what, error.hint))?;
            let mut buffer = vec![0; 65_536];
            while !single.is_done {
                stream.write_all(&single.out).map_err(|error| broken(&error))?;
                single.out.clear();
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(late());
                }
                stream.set_read_timeout(left).map_err(|error| broken(&error))?;
                // Servers that know only HTTP/1 may close on the preface.
                let unanswered = single.wire_bytes == 0;
                let n = stream.read(&mut buffer).map_err(|error| {
                    let error = broken(&error);
                    let is_closed = unanswered && error.class == ErrorClass::Reset;
                    ProbeError { hint: is_closed.then(|| NO_HTTP2.to_owned()), ..error }
                })?;
                if n == 0 {
                    let class =
                        if single.status == 0 { ErrorClass::ClosedEarly } else { ErrorClass::ShortBody };
                    let detail = match unanswered {
                        true => "the connection was closed without an answer".to_owned(),
                        false => {
                            format!("the connection was closed {} bytes into the answer", single.wire_bytes)
                        }
                    };
                    return Err(failed(class, detail, unanswered.then(|| NO_HTTP2.to_owned())));
                }
                single.take(&buffer[..n], each).map_err(|(class, detail)| {
                    let is_not_spoken = class == ErrorClass::H2NotSpoken;
                    failed(class, detail, is_not_spoken.then(|| NO_HTTP2.to_owned()))
                })?;
                if single.body_bytes > body_bytes_max {
                    let detail = format!("a body of more than {body_bytes_max} bytes; the rest was not read");
                    return Err(failed(ErrorClass::WrongLength, detail, None));
                }
            }
            let Single { status, headers, wire_bytes, .. } = single;
            return Ok(ProbeResponse { status, headers, body: Vec::new(), wire_bytes });
        }
        stream.write_all(&bytes).map_err(|error| broken(&error))?;
        let mut reading = Reading::new();
        while !reading.parser.is_done() {
            // The timeout of a single read would never end a server that sends all the time.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            stream.set_read_timeout(left).map_err(|error| broken(&error))?;
            let n = stream.read(&mut reading.buffer).map_err(|error| broken(&error))?;
            if n == 0 {
                match reading.parser.at_end() {
                    AtEnd::Complete => break,
                    AtEnd::InHead if reading.wire_bytes == 0 => {
                        let detail = "the connection was closed without an answer".to_owned();
                        return Err(failed(ErrorClass::ClosedEarly, detail, None));
                    }
                    _ => {
                        let detail = format!("the answer ended early, after {} bytes", reading.wire_bytes);
                        return Err(failed(ErrorClass::ShortBody, detail, None));
                    }
                }
            }
            let first = reading.wire_bytes == 0;
            let taken = reading.take(n, each);
            if reading.body_bytes > body_bytes_max {
                let detail = format!("a body of more than {body_bytes_max} bytes; the rest was not read");
                return Err(failed(ErrorClass::WrongLength, detail, None));
            }
            taken.map_err(|what| {
                // A TLS server answers a request without TLS with an alert record: type 21, version 3.
                let tls = first && reading.buffer.starts_with(&[0x15, 0x03]);
                let detail = if tls { "the server speaks TLS on this port" } else { what };
                let hint = tls.then(|| "write https:// instead of http://".to_owned());
                failed(ErrorClass::Malformed, format!("not an HTTP/1 answer: {detail}"), hint)
            })?;
        }
        Ok(ProbeResponse {
            status: reading.status,
            headers: reading.headers,
            body: Vec::new(),
            wire_bytes: reading.wire_bytes,
        })
    }

    /// The TLS configuration, if the target's URL is `https`.
    fn planned_tls(&self) -> Result<Option<ProbeTls>, PlanError> {
        if self.target.scheme == Scheme::Http {
            return Ok(None);
        }
        let unverified = || {
            let version = if self.is_http2 { HttpVersion::Http2 } else { HttpVersion::Http11 };
            ProbeTls::new(&TlsSpec { verify: false, ..TlsSpec::default() }, version)
        };
        self.tls.clone().map_or_else(unverified, Ok).map(Some)
    }

    fn connect(&self, addresses: &[SocketAddr], until: Instant) -> Result<Stream, (String, std::io::Error)> {
        if let Some(path) = &self.client.unix_socket {
            let stream = UnixStream::connect(path).map(Stream::Unix);
            return stream
                .and_then(|stream| self.introduced(stream, None))
                .map_err(|error| (format!("unix:{path}"), error));
        }
        let mut failure = None;
        for address in addresses {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let stream = connect_like(&self.client, address, left).and_then(|stream| {
                let from = stream.local_addr()?;
                self.introduced(Stream::Internet(stream), Some((from, *address)))
            });
            match stream {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = Some((address.to_string(), error)),
            }
        }
        Err(failure.expect("a resolved name has an address"))
    }

    /// A connection that has begun as the clients' do.
    fn introduced(
        &self,
        mut stream: Stream,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) -> std::io::Result<Stream> {
        if let Some(version) = self.client.proxy_protocol {
            stream.write_all(&proxy_protocol::header(version, ends))?;
        }
        Ok(stream)
    }
}

/// Connects to an address as clients of a run do, from the first of their local addresses if they have any.
///
/// # Errors
/// What the operating system says.
pub fn connect_like(
    client: &ClientSpec,
    address: &SocketAddr,
    patience: Duration,
) -> std::io::Result<TcpStream> {
    connect_within(patience, address, Source::all(client).find(|source| source.reaches(address)).as_ref())
}

/// A stream, with or without TLS.
enum Stream {
    Internet(TcpStream),
    Unix(UnixStream),
    Secure(Box<TlsStream<Stream>>),
}

impl Stream {
    fn set_read_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        match self {
            Stream::Internet(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Secure(stream) => stream.below().set_read_timeout(timeout),
        }
    }

    fn set_write_timeout(&self, timeout: Duration) -> std::io::Result<()> {
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

/// A response being read.
struct Reading {
    parser: ResponseParser,
    buffer: Vec<u8>,
    kept: Vec<u8>,
    status: u16,
    headers: Vec<(String, String)>,
    body_bytes: u64,
    wire_bytes: u64,
}

impl Reading {
    fn new() -> Reading {
        Reading {
            parser: ResponseParser::new(false),
            buffer: vec![0; 65_536],
            kept: Vec::new(),
            status: 0,
            headers: Vec::new(),
            body_bytes: 0,
            wire_bytes: 0,
        }
    }

    fn take(&mut self, n: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), &'static str> {
        self.wire_bytes += n as u64;
        self.kept.extend_from_slice(&self.buffer[..n]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answered_with(answer: &'static [u8]) -> Result<ProbeResponse, ProbeError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer).unwrap();
        });
        let result = Probe::new(&url, Duration::from_secs(5)).unwrap().fetch("/x");
        server.join().unwrap();
        result
    }

    #[test]
    fn a_probe_uses_the_source_address_of_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = ClientSpec { source: vec!["127.0.0.5".parse().unwrap()], ..ClientSpec::default() };
        let _kept = connect_like(&client, &address, Duration::from_secs(5)).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip().to_string(), "127.0.0.5");
        drop(listener);
        let error = connect_like(&client, &address, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_whole_answer() {
        let answer = answered_with(
            b"HTTP/1.1 404 No\r\nServer: x y\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        );
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.body.as_slice(), answer.wire_bytes), (404, &b"hi"[..], 72));
        assert_eq!(answer.header("SERVER"), Some("x y"));
    }

    #[test]
    fn broken_answers_have_their_class() {
        assert_eq!(answered_with(b"").unwrap_err().class, ErrorClass::ClosedEarly);
        let short = answered_with(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi").unwrap_err();
        assert_eq!(short.class, ErrorClass::ShortBody);
        let tls = answered_with(b"\x15\x03\x01\x00\x02\x02\x46").unwrap_err();
        assert!(tls.to_string().contains("speaks TLS") && tls.hint.is_some(), "{tls}");
    }

    /// Answers with a head, then sends pieces until the connection ends, with a pause after each.
    fn endless(head: &'static [u8], piece: &'static [u8], pause: Duration, timeout: Duration) -> ProbeError {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(head).unwrap();
            while stream.write_all(piece).is_ok() {
                std::thread::sleep(pause);
            }
        });
        let error = Probe::new(&url, timeout).unwrap().fetch("/x").unwrap_err();
        server.join().unwrap();
        error
    }

    #[test]
    fn an_endless_answer_is_given_up_at_its_limit_or_deadline() {
        let (no, minute) = (Duration::ZERO, Duration::from_secs(60));
        let error = endless(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 65_536], no, minute);
        assert_eq!(error.class, ErrorClass::WrongLength);
        assert_eq!(error.detail, "a body of more than 67108864 bytes; the rest was not read");
        let interim = b"HTTP/1.1 102 Processing\r\n\r\n";
        let error = endless(interim, interim, no, minute);
        assert_eq!(error.class, ErrorClass::Malformed, "{error}");
        // Bytes that keep coming do not extend the deadline.
        let pause = Duration::from_millis(20);
        let error = endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x", pause, Duration::from_millis(300));
        assert_eq!(error.class, ErrorClass::RequestTimeout, "{error}");
    }

    #[test]
    fn invalid_header_fields_are_not_sent() {
        // Nobody accepts: a probe that connected would run into its timeout.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let probe = Probe::new(&url, Duration::from_secs(5)).unwrap();
        for path in ["/a b", "/a\r\nEvil: x", "/\0"] {
            assert_eq!(probe.fetch(path).unwrap_err().class, ErrorClass::GeneratorIo);
        }
        let evil = [("X".to_owned(), "a\r\nEvil: x".to_owned()), ("X\r\nEvil".to_owned(), String::new())];
        for (name, value) in &evil {
            let error = probe.clone().with_headers([(name, value)]).fetch("/").unwrap_err();
            assert!(error.detail.contains("line end"), "{error}");
        }
    }

    #[test]
    fn nobody_listening_is_refused_with_a_hint() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let probe = Probe::new(&format!("http://127.0.0.1:{port}"), Duration::from_secs(1)).unwrap();
        let error = probe.fetch("/").unwrap_err();
        assert_eq!(error.class, ErrorClass::Refused);
        assert!(error.hint.is_some() && error.to_string().contains("connection refused"), "{error}");
    }
}
