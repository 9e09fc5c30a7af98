//! One HTTP/3 request on its own connection, for the probe: blocking, over a socket of the caller.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use webstone_measure::errors::ErrorClass;
use webstone_workload::load::{HttpVersion, QuicVersion};

use super::control::{Control, Violation};
use super::failure::{self, class_of};
use super::frames::{Reader, Step, code, kind, write_number};
use super::order::{Order, Section, Wrong};
use super::qpack;
use super::session::CONTROL;
use crate::failure::{class_of as class_of_error, describe};
use crate::h1::request::RequestParts;
use crate::h2::request::{Builder, Coding, Variant};
use crate::plan_error::PlanError;
use crate::probe::{Extent, ProbeResponse, ReadTo};
use crate::probe_exchange::{ProbeFailure, Waits};
use crate::quic::{Connection, Events, Stream};
use crate::sys::is_too_long;
use crate::tls::{QuicTls, Secure, TlsPlan, random_id};

/// A request, ready to be sent.
#[derive(Debug)]
pub(crate) struct Single {
    head: Vec<u8>,
    body: Vec<u8>,
    is_head: bool,
}

/// What has arrived of the answer.
struct Answer<'a> {
    control: Control,
    reader: Reader,
    section: Vec<u8>,
    status: u16,
    headers: Vec<(String, String)>,
    order: Order,
    body_bytes: u64,
    is_done: bool,
    /// QUIC can take more of the request.
    is_writable: bool,
    failure: Option<(ErrorClass, String)>,
    violation: Option<Violation>,
    each: &'a mut dyn FnMut(&[u8]),
}

impl Single {
    pub(crate) fn new(parts: &RequestParts<'_>) -> Result<Single, PlanError> {
        let mut builder = Builder::new(Coding::Qpack);
        builder.add("a probe", 0, "https", false, parts)?;
        let requests = builder.finish()?;
        let mut section = Vec::new();
        requests.block(0, Variant::Plain, &[], &mut section);
        let mut head = vec![kind::HEADERS as u8];
        write_number(section.len() as u64, &mut head);
        head.extend_from_slice(&section);
        let body = requests.body(0, &[]).to_vec();
        if !body.is_empty() {
            head.push(kind::DATA as u8);
            write_number(body.len() as u64, &mut head);
        }
        Ok(Single { head, body, is_head: parts.method == "HEAD" })
    }

    /// Sends the request over a connected socket, and reads as much of the answer as `waits` asks for.
    pub(crate) fn run(
        &self,
        socket: &UdpSocket,
        (tls, secure, version): (&TlsPlan, &Secure, QuicVersion),
        connect_within: Duration,
        waits: &Waits,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeFailure> {
        let is_v6 = socket.peer_addr().is_ok_and(|address| address.is_ipv6());
        let (shared, mut settings) = QuicTls::single(tls, is_v6, version);
        (settings.uses_ecn, settings.paces) = (false, false);
        let began = Instant::now();
        // Not zero, which could mean "never".
        let now = || 1_000_000_000 + began.elapsed().as_nanos() as u64;
        let mut connection = Connection::default();
        let told = |(class, what): (ErrorClass, String)| (class, what, None);
        let id = random_id(&settings);
        connection.open(&settings, secure.name(), id, now()).map_err(|error| told(shared.told(&error)))?;
        let mut answer = Answer::new(self.is_head, each);
        let mut buffer = vec![0; 65_536];
        let (mut stream, mut head_at) = (None, None);
        let mut unsent = &self.body[..];
        let outcome = loop {
            if stream.is_none() && connection.is_agreed() {
                if let Some(Err(other)) = connection.tls().map(|tls| shared.agreed(tls, None)) {
                    break Err(told(other));
                }
                if let Some(id) = connection.open_uni(0) {
                    connection.write(id, &CONTROL, false);
                }
                stream = connection.open_bi(0);
                if let Some(id) = stream {
                    connection.write(id, &self.head, unsent.is_empty());
                    answer.is_writable = !unsent.is_empty();
                }
            }
            if let Some(id) = stream.filter(|_| std::mem::take(&mut answer.is_writable)) {
                let taken = connection.write(id, unsent, true);
                unsent = &unsent[taken..];
            }
            send(&mut connection, now(), socket, &mut buffer);
            if answer.is_done {
                break Ok(ReadTo::End);
            }
            if let Some(violation) = answer.violation {
                connection.close(violation.0, "");
                break Err((class_of(violation.0), violation.1.to_owned(), None));
            }
            if let Some(failed) = answer.failure.take() {
                break Err(told(failed));
            }
            let has_heard = connection.counts().packets_received > 0;
            if let Some(failure) = connection.failure() {
                break Err(told(failure::told(failure, settings.version, &shared, has_heard)));
            }
            if answer.body_bytes > waits.bytes_max() {
                break match waits.extent {
                    Extent::Beginning { .. } => Ok(ReadTo::Bytes),
                    Extent::Whole { bytes_max } => {
                        let what = format!("a body of more than {bytes_max} bytes; the rest was not read");
                        Err((ErrorClass::WrongLength, what, None))
                    }
                };
            }
            let connecting =
                (!connection.is_agreed()).then(|| connect_within.saturating_sub(began.elapsed()));
            let bytes = answer.wire_bytes();
            let left = connecting.unwrap_or_else(|| waits.left(bytes, head_at));
            if left.is_zero() {
                break match (connecting, waits.extent) {
                    (Some(_), _) if !has_heard => Err(told(failure::silence(&format!("{connect_within:?}")))),
                    (Some(_), _) => {
                        let what = format!("the QUIC handshake was not complete within {connect_within:?}");
                        Err((ErrorClass::ConnectTimeout, what, None))
                    }
                    (None, Extent::Beginning { .. }) if head_at.is_some() => Ok(ReadTo::Time),
                    (None, _) => Err(waits.late(bytes)),
                };
            }
            let due = connection.due_ns().unwrap_or(u64::MAX).saturating_sub(now());
            let wait = left.min(Duration::from_nanos(due)).max(Duration::from_micros(200));
            let received = socket.set_read_timeout(Some(wait)).and_then(|()| socket.recv(&mut buffer));
            match received {
                Ok(n) => connection.hear(now(), &mut buffer[..n], 0, &mut answer),
                Err(error) if is_too_long(&error) => {}
                Err(error) => match error.kind() {
                    std::io::ErrorKind::WouldBlock
                    | std::io::ErrorKind::TimedOut
                    | std::io::ErrorKind::Interrupted => {}
                    _ => break Err((class_of_error(&error, true), describe(&error), None)),
                },
            }
            connection.timeout(now());
            if head_at.is_none() && answer.status != 0 {
                head_at = Some(Instant::now());
            }
        };
        connection.close(code::NO_ERROR, "");
        send(&mut connection, now(), socket, &mut buffer);
        outcome.map(|read| ProbeResponse {
            http: HttpVersion::Http3,
            status: answer.status,
            headers: answer.headers,
            body: Vec::new(),
            wire_bytes: connection.counts().received.udp_bytes,
            read,
        })
    }
}

fn send(connection: &mut Connection, now_ns: u64, socket: &UdpSocket, buffer: &mut [u8]) {
    while let Some(packed) = connection.pack(now_ns, buffer) {
        for datagram in buffer[..packed.bytes].chunks(packed.segment.max(1)) {
            // A datagram that cannot be sent is lost, and the next read reports why.
            let _ = socket.send(datagram);
        }
    }
}

impl<'a> Answer<'a> {
    fn new(is_head: bool, each: &'a mut dyn FnMut(&[u8])) -> Answer<'a> {
        Answer {
            control: Control::default(),
            reader: Reader::default(),
            section: Vec::new(),
            status: 0,
            headers: Vec::new(),
            order: Order::new(is_head),
            body_bytes: 0,
            is_done: false,
            is_writable: false,
            failure: None,
            violation: None,
            each,
        }
    }

    fn wire_bytes(&self) -> u64 {
        self.body_bytes + u64::from(self.status > 0) + self.section.len() as u64
    }

    fn take(&mut self, mut rest: &[u8], is_last: bool) -> Result<(), Wrong> {
        while !rest.is_empty() {
            let (taken, step) = self.reader.step(rest);
            rest = &rest[taken..];
            match step {
                Step::Payload { kind: kind::DATA, piece, .. } => {
                    self.order.body()?;
                    self.body_bytes += piece.len() as u64;
                    (self.each)(piece);
                }
                Step::Payload { kind: kind::HEADERS, piece, is_last } => {
                    self.section.extend_from_slice(piece);
                    if is_last {
                        self.headers()?;
                    }
                }
                Step::Head { kind: kind::HEADERS, length, .. } => {
                    self.order.headers(length)?;
                    if length == 0 {
                        self.headers()?;
                    }
                }
                Step::Head { kind: kind::DATA, .. } => self.order.data()?,
                Step::Head { kind, .. } => Order::other(kind)?,
                Step::Payload { .. } | Step::NeedMore => {}
            }
        }
        if is_last {
            self.order.ended(self.reader.is_between_frames(), self.body_bytes)?;
            self.is_done = true;
        }
        Ok(())
    }

    fn headers(&mut self) -> Result<(), Wrong> {
        let mut text = Vec::new();
        let fields = qpack::decode(&std::mem::take(&mut self.section), Some(&mut text))
            .map_err(|error| Wrong::Connection((code::QPACK_DECOMPRESSION_FAILED, error.0)))?;
        if self.order.section(&fields)? == Section::Head {
            self.status = fields.status;
            let text = String::from_utf8_lossy(&text);
            let pairs = text.lines().filter_map(|line| line.split_once(": "));
            self.headers = pairs.skip(1).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        }
        Ok(())
    }
}

impl Events for Answer<'_> {
    fn data(&mut self, stream: Stream, bytes: &[u8], is_last: bool) {
        if self.violation.is_some() || self.failure.is_some() {
            return;
        }
        let taken = match stream.id & 3 {
            0 => self.take(bytes, is_last),
            _ => self.control.take(stream.id, bytes, is_last).map(|_| ()).map_err(Wrong::from),
        };
        match taken {
            Ok(()) => {}
            Err(Wrong::Connection(violation)) => self.violation = Some(violation),
            Err(Wrong::Exchange(class, what, _)) => self.failure = Some((class, what.to_owned())),
        }
    }

    fn reset(&mut self, stream: Stream, code: u64) {
        if stream.id & 3 != 0 {
            self.violation = self.control.ended(stream.id).err();
        } else if !self.is_done {
            let what = format!("the server reset the stream (RESET_STREAM): {}", code::name(code));
            self.failure = Some((ErrorClass::H3Reset, what));
        }
    }

    fn stopped(&mut self, stream: Stream, _: u64) {
        if let Err(violation) = Control::stopped(stream.id) {
            self.violation = Some(violation);
        }
    }

    fn writable(&mut self, _: Stream) {
        self.is_writable = true;
    }
}
