//! Single blocking requests: for checks before and after a run, never for load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use webstone_measure::errors::ErrorClass;
use webstone_workload::load::{ClientSpec, ConnectionPolicy, HttpVersion};
use webstone_workload::target::{Scheme, Target};
use webstone_workload::tls::TlsSpec;
use webstone_workload::{Body, RequestDetail};

use crate::failure::{class_of, describe};
use crate::h1::request::{RequestParts, is_field_value, is_token, write_request};
use crate::h2::single::Single;
use crate::h3::single::Single as Single3;
use crate::origin::{all_addresses, split};
use crate::plan_error::PlanError;
use crate::probe_exchange::{Exchange, ProbeFailure, Reading, Stream, Waits, is_late};
use crate::proxy_protocol;
use crate::sys::{Source, connect_within, datagrams_to};
use crate::tls::{TlsPlan, TlsStream, told_of_stream};

/// Largest body that [`Probe::fetch`] holds in memory, in bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// A blocking client for single requests, with the engine's own response parser.
#[derive(Clone, Debug)]
pub struct Probe {
    target: Target,
    client: ClientSpec,
    tls: Option<ProbeTls>,
}

/// The TLS configuration of probes, made once for many.
#[derive(Clone, Debug)]
pub struct ProbeTls(TlsPlan);

impl ProbeTls {
    /// The configuration that clients of a run have. Offers only this version of HTTP, or, if it is left open, HTTP/2 and HTTP/1.1.
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

/// How much of an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// All of it. A body of more bytes is an error.
    Whole {
        /// Maximum number of bytes of the body.
        bytes_max: u64,
    },
    /// Its head, and a part of its body: an answer of any length is accepted, even an endless one.
    Beginning {
        /// Bytes of the body after which no more are read.
        bytes_max: u64,
        /// Time after the head.
        time_max: Duration,
    },
}

/// An answer to a probe.
#[derive(Clone, Debug)]
pub struct ProbeResponse {
    /// The version of HTTP that it came in.
    pub http: HttpVersion,
    /// Status code.
    pub status: u16,
    /// Header fields in order, names as sent.
    pub headers: Vec<(String, String)>,
    /// The body, decoded from its framing.
    pub body: Vec<u8>,
    /// Bytes that the answer took on the wire, as far as it was read.
    pub wire_bytes: u64,
    /// How far it was read.
    pub read: ReadTo,
}

/// How far an answer was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadTo {
    /// To its end.
    #[default]
    End,
    /// To the number of bytes of [`Extent::Beginning`].
    Bytes,
    /// Until the time of [`Extent::Beginning`] was over.
    Time,
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
    /// A probe of a base URL such as `http://127.0.0.1:8080`, which connects, asks and waits as these clients do: to the same places,
    /// with their method, header fields, body, version of HTTP and time limits. Fails if the URL is invalid.
    pub fn new(base_url: &str, client: &ClientSpec) -> Result<Probe, ProbeError> {
        let (target, _) = split("target", base_url).map_err(|error| ProbeError {
            class: ErrorClass::GeneratorIo,
            request: format!("{} {base_url}", client.method),
            detail: error.what,
            hint: error.hint,
        })?;
        Ok(Probe { target, client: client.clone(), tls: None })
    }

    /// Uses this TLS configuration for `https` URLs; by default, the server's certificate is not verified.
    #[must_use]
    pub fn with_tls(mut self, tls: ProbeTls) -> Probe {
        self.tls = Some(tls);
        self
    }

    /// Requests a path on a connection of its own; the answer has its body.
    ///
    /// # Errors
    /// If there is no complete answer in time, or its body has more than 64 MiB.
    pub fn fetch(&self, path: &str, detail: &RequestDetail) -> Result<ProbeResponse, ProbeError> {
        let mut body = Vec::new();
        let extent = Extent::Whole { bytes_max: BODY_BYTES_MAX };
        let answer = self.fetch_each(path, detail, extent, &mut |piece| body.extend_from_slice(piece))?;
        Ok(ProbeResponse { body, ..answer })
    }

    /// As [`Probe::fetch`], but passes the body on as it arrives, as far as `extent` goes, and returns an empty one. `detail` is what
    /// the path's file has of its own.
    ///
    /// # Errors
    /// If no answer comes in time, even if bytes keep arriving, or it has more bytes than its extent allows.
    pub fn fetch_each(
        &self,
        path: &str,
        detail: &RequestDetail,
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        let sent = detail.request(&self.client);
        let request = format!("{} {}{path}", sent.method, self.target);
        let failed = |class: ErrorClass, detail: String, hint: Option<String>| ProbeError {
            class,
            request: request.clone(),
            detail,
            hint,
        };
        // A plan would refuse these, but probes are sent before there is one.
        let stands = |(name, value): &(String, String)| is_token(name) && is_field_value(value);
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
            || !sent.fields.iter().all(stands)
            || !is_token(sent.method)
        {
            let detail = "the method, the path or a header field has a line end or another control character";
            return Err(failed(ErrorClass::GeneratorIo, detail.to_owned(), None));
        }
        if let Some((fault, hint)) = sent.fault(self.client.http) {
            return Err(failed(ErrorClass::GeneratorIo, fault, Some(hint)));
        }
        let parts = RequestParts {
            method: sent.method,
            target: path,
            host: &self.target.authority(),
            version: self.client.http,
            headers: sent.fields.iter().as_slice(),
            body: sent.body.map(Body::bytes),
            last: self.client.connections == ConnectionPolicy::PerRequest,
            body_later: false,
        };
        let addresses = match &self.client.unix_socket {
            Some(_) => Vec::new(),
            None => all_addresses("target", &self.client, &self.target)
                .map_err(|error| failed(ErrorClass::Dns, error.what, error.hint))?,
        };
        let begun = Instant::now();
        if self.client.http == HttpVersion::Http3 {
            let single = Single3::new(&parts)
                .map_err(|error| failed(ErrorClass::GeneratorIo, error.what, error.hint))?;
            let answer = self.fetch_over_datagrams(single, &addresses, extent, each);
            return answer.map_err(|(class, detail, hint)| failed(class, detail, hint));
        }
        let stream = self.connect(&addresses).map_err(|(address, error)| {
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
        let waits = Waits {
            begun,
            first_byte: self.client.first_byte_timeout.as_duration(),
            whole: self.client.request_timeout.as_duration(),
            extent,
        };
        let told = |error: &std::io::Error| {
            let tls = tls.as_ref().and_then(|tls| told_of_stream(&tls.0, error));
            tls.unwrap_or_else(|| (class_of(error, false), describe(error)))
        };
        let mut is_http2 = self.client.http == HttpVersion::Http2;
        let stream = match &tls {
            None => stream,
            Some(tls) => {
                let stream = TlsStream::new(&tls.0, &self.target, stream);
                let mut stream =
                    stream.map_err(|error| failed(ErrorClass::GeneratorIo, error.to_string(), None))?;
                if self.client.http == HttpVersion::Auto {
                    is_http2 = negotiated(&mut stream, &waits, &told)
                        .map_err(|(class, detail, hint)| failed(class, detail, hint))?;
                }
                Stream::Secure(Box::new(stream))
            }
        };
        let exchange = match is_http2 {
            true => Exchange::Http2(Single::new(&parts, self.target.scheme.name()).map_err(unplanned)?),
            false => {
                let mut bytes = Vec::new();
                write_request(&parts, &mut bytes);
                Exchange::Http1(bytes, Reading::new(sent.method == "HEAD"))
            }
        };
        let (class, detail, hint) = match exchange.run(stream, &waits, &told, each) {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        Err(failed(class, detail, hint))
    }

    /// Asks in HTTP/3, at the first address for which a socket can be made.
    fn fetch_over_datagrams(
        &self,
        single: Single3,
        addresses: &[SocketAddr],
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeFailure> {
        let unplanned = |error: PlanError| (ErrorClass::GeneratorIo, error.what, error.hint);
        let no_tls = || {
            let what = format!("{} is not an https:// URL, but HTTP/3 is always over TLS", self.target);
            (ErrorClass::GeneratorIo, what, Some("write https://, or run with --http 1.1 or 2".to_owned()))
        };
        let tls = self.planned_tls().map_err(unplanned)?.ok_or_else(no_tls)?;
        let secure = tls.0.secure(&self.target, false).map_err(unplanned)?.ok_or_else(no_tls)?;
        let mut failure = no_tls();
        for address in addresses {
            let source = Source::all(&self.client).find(|source| source.reaches(address));
            let socket = match datagrams_to(address, source) {
                Ok(socket) => socket,
                Err(error) => {
                    failure = (class_of(&error, true), format!("{address}: {}", describe(&error)), None);
                    continue;
                }
            };
            let waits = Waits {
                begun: Instant::now(),
                first_byte: self.client.first_byte_timeout.as_duration(),
                whole: self.client.request_timeout.as_duration(),
                extent,
            };
            let patience = self.client.connect_timeout.as_duration();
            let answer =
                single.run(&socket, (&tls.0, &secure, self.client.quic_version), patience, &waits, each);
            return answer.map_err(|(class, what, hint)| {
                let what = format!("{address}: {what}");
                let hint = hint.or_else(|| match class {
                    ErrorClass::QuicSilence | ErrorClass::Refused => Some(self.without_udp(address)),
                    ErrorClass::QuicVersion => {
                        Some("choose one that it offers with --quic-version".to_owned())
                    }
                    _ => None,
                });
                (class, what, hint)
            });
        }
        Err(failure)
    }

    /// What to do about a server that does not answer over UDP.
    fn without_udp(&self, address: &SocketAddr) -> String {
        let port = address.port();
        match connect_like(&self.client, address, Duration::from_secs(2)) {
            Ok(_) => format!(
                "the server answers over TCP: run with --http 2 or 1.1, enable HTTP/3 on it, or let UDP port {port} through"
            ),
            Err(_) => format!(
                "it does not answer over TCP either: is the server running, and does it listen on port {port}?"
            ),
        }
    }

    /// The TLS configuration, if the target's URL is `https`.
    fn planned_tls(&self) -> Result<Option<ProbeTls>, PlanError> {
        if self.target.scheme == Scheme::Http {
            return Ok(None);
        }
        let unverified = || ProbeTls::new(&TlsSpec { verify: false, ..TlsSpec::default() }, self.client.http);
        self.tls.clone().map_or_else(unverified, Ok).map(Some)
    }

    fn connect(&self, addresses: &[SocketAddr]) -> Result<Stream, (String, std::io::Error)> {
        if let Some(path) = &self.client.unix_socket {
            let stream = UnixStream::connect(path).map(Stream::Unix);
            return stream
                .and_then(|stream| self.introduced(stream, None))
                .map_err(|error| (format!("unix:{path}"), error));
        }
        let until = Instant::now() + self.client.connect_timeout.as_duration();
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

    /// Begins a connection like those of clients: with the header of the PROXY protocol, if they send it.
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

/// Does the handshake; returns whether it agreed on HTTP/2.
fn negotiated(
    stream: &mut TlsStream<Stream>,
    waits: &Waits,
    told: &dyn Fn(&std::io::Error) -> (ErrorClass, String),
) -> Result<bool, ProbeFailure> {
    let left = waits.left(0, None).max(Duration::from_millis(1));
    let below = stream.below();
    let shaken = below.set_read_timeout(left).and_then(|()| below.set_write_timeout(left));
    match shaken.and_then(|()| stream.shake_hands()) {
        Ok(()) => Ok(stream.speaks_http2()),
        Err(error) if is_late(&error) => Err(waits.late(0)),
        Err(error) => {
            let (class, what) = told(&error);
            Err((class, what, None))
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use webstone_measure::units::Nanos;

    fn answered_with(answer: &'static [u8]) -> Result<ProbeResponse, ProbeError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer).unwrap();
        });
        let result = waiting(&url, 60_000).fetch("/x", &RequestDetail::default());
        server.join().unwrap();
        result
    }

    fn waiting(url: &str, millis: u64) -> Probe {
        let client = ClientSpec { request_timeout: Nanos::from_millis(millis), ..ClientSpec::default() };
        Probe::new(url, &client).unwrap()
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
    fn endless(
        head: &'static [u8],
        piece: &'static [u8],
        pause: Duration,
        millis: u64,
        extent: Extent,
    ) -> Result<ProbeResponse, ProbeError> {
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
        let found = waiting(&url, millis).fetch_each("/x", &RequestDetail::default(), extent, &mut |_| {});
        server.join().unwrap();
        found
    }

    const WHOLE: Extent = Extent::Whole { bytes_max: 1 << 20 };
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

    #[test]
    fn an_endless_answer_is_given_up_at_its_limit_or_deadline() {
        let (no, minute) = (Duration::ZERO, 60_000);
        let error = endless(OK, &[b'x'; 65_536], no, minute, WHOLE).unwrap_err();
        assert_eq!(error.class, ErrorClass::WrongLength);
        assert_eq!(error.detail, "a body of more than 1048576 bytes; the rest was not read");
        let interim = b"HTTP/1.1 102 Processing\r\n\r\n";
        let error = endless(interim, interim, no, minute, WHOLE).unwrap_err();
        assert_eq!(error.class, ErrorClass::Malformed, "{error}");
        // Bytes that keep coming do not extend the deadline.
        let pause = Duration::from_millis(20);
        let error = endless(OK, b"x", pause, 3_000, WHOLE).unwrap_err();
        assert_eq!(error.class, ErrorClass::RequestTimeout, "{error}");
        assert!(error.detail.contains("not finished within 3s"), "{error}");
    }

    #[test]
    fn the_beginning_of_an_endless_answer_is_enough() {
        let soon = Extent::Beginning { bytes_max: 1 << 20, time_max: Duration::from_millis(200) };
        let late = Extent::Beginning { bytes_max: 1 << 20, time_max: Duration::from_secs(60) };
        let answer = endless(OK, &[b'x'; 65_536], Duration::ZERO, 60_000, late).unwrap();
        assert_eq!((answer.status, answer.read), (200, ReadTo::Bytes));
        let answer = endless(OK, b"data: 1\n\n", Duration::from_millis(20), 60_000, soon).unwrap();
        assert_eq!((answer.status, answer.read), (200, ReadTo::Time));
        // Without a complete head it is not an answer.
        let error =
            endless(b"HTTP/1.1 200 OK\r\nX: ", b"x", Duration::from_millis(20), 300, soon).unwrap_err();
        assert_eq!(error.class, ErrorClass::RequestTimeout, "{error}");
    }

    #[test]
    fn silence_and_an_unfinished_answer_have_different_errors() {
        // The kernel accepts the connection; nobody answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let error = waiting(&url, 200).fetch("/", &RequestDetail::default()).unwrap_err();
        assert_eq!(error.detail, "not a byte of an answer came within 200ms");
        let client = ClientSpec { first_byte_timeout: Nanos::from_millis(100), ..ClientSpec::default() };
        let error = Probe::new(&url, &client).unwrap().fetch("/", &RequestDetail::default()).unwrap_err();
        assert_eq!(error.class, ErrorClass::FirstByteTimeout);
        assert_eq!(error.detail, "not a byte of an answer came within 100ms");
    }

    #[test]
    fn a_probe_asks_as_clients_do() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = ClientSpec {
            method: "HEAD".to_owned(),
            headers: [("Content-Length", "6"), ("Cookie", "a"), ("Cookie", "b")].into_iter().collect(),
            body: Some("abcdef".to_owned()),
            http: HttpVersion::Http10,
            connections: ConnectionPolicy::KeepAlive,
            ..ClientSpec::default()
        };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"abcdef") {
                let mut buffer = [0; 1024];
                let n = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
            (String::from_utf8(request).unwrap(), stream)
        });
        let answer = Probe::new(&url, &client).unwrap().fetch("/x", &RequestDetail::default()).unwrap();
        let (request, _open) = server.join().unwrap();
        assert_eq!(
            (answer.status, answer.read, answer.header("content-length")),
            (200, ReadTo::End, Some("5"))
        );
        assert!(request.starts_with("HEAD /x HTTP/1.0\r\n"), "{request}");
        let fields = "Connection: keep-alive\r\nContent-Length: 6\r\nCookie: a\r\nCookie: b\r\n\r\nabcdef";
        assert!(request.ends_with(fields), "{request}");
    }

    #[test]
    fn invalid_requests_are_not_sent() {
        // Nobody accepts: a probe that connected would run into its timeout.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let plain = RequestDetail::default();
        for path in ["/a b", "/a\r\nEvil: x", "/\0"] {
            assert_eq!(waiting(&url, 5_000).fetch(path, &plain).unwrap_err().class, ErrorClass::GeneratorIo);
        }
        let refused = |name: &str, value: &str| {
            let detail =
                RequestDetail { headers: [(name, value)].into_iter().collect(), ..RequestDetail::default() };
            waiting(&url, 5_000).fetch("/", &detail).unwrap_err().detail
        };
        for (name, value) in [("X", "a\r\nEvil: x"), ("X\r\nEvil", "")] {
            assert!(refused(name, value).contains("line end"));
        }
        assert_eq!(refused("Content-Length", "6"), "`Content-Length: 6`, but the request has no body");
    }

    #[test]
    fn nobody_listening_is_refused_with_a_hint() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let probe = waiting(&format!("http://127.0.0.1:{port}"), 1_000);
        let error = probe.fetch("/", &RequestDetail::default()).unwrap_err();
        assert_eq!(error.class, ErrorClass::Refused);
        assert!(error.hint.is_some() && error.to_string().contains("connection refused"), "{error}");
    }
}
