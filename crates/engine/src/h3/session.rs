//! HTTP/3 on a link: many exchanges at a time, each a stream of a QUIC connection. Requests are copied from the plan's blocks.
//!
//! `incoming` decides what streams bring.

use std::borrow::Cow;
use std::collections::VecDeque;

use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::{Handshake, Http3Counts, Measured, Moments, UdpCounts};

use super::failure;
use super::frames::{code, kind, write_number};
use super::incoming::{Hearing, Incoming, of_violation};
use super::streams::{NONE, Streams};
use crate::exchange::{Exchanges, Progress};
use crate::h2::hpack::known_blocks::KnownBlocks;
use crate::h2::request::Variant;
use crate::plan::Plan;
use crate::quic::{Connection, Counts, DirectionCounts, Packed, QuicFailure};
use crate::session::{AnswerError, Heard, Session, Sink, Start};
use crate::tls::{QuicTls, random_id};

/// The control stream: its type, and SETTINGS that allow no dynamic table (QPACK_MAX_TABLE_CAPACITY and QPACK_BLOCKED_STREAMS 0).
pub(super) const CONTROL: [u8; 7] = [0, kind::SETTINGS as u8, 4, 1, 0, 7, 0];
/// Size of the buffer for datagrams: less than the kernel takes in one call.
const OUT_BYTES: usize = 64_000;
/// How much a connection receives before it needs a long queue. Until then the server's congestion window fits the queue that a socket
/// has at first, and a connection for one short answer saves the system calls.
const SHORT_QUEUE_BYTES: u64 = 32 << 10;
/// Maximum length of a frame's head.
const HEAD_BYTES_MAX: usize = 9;

/// State shared by the sessions of a worker.
pub(crate) struct Memory {
    tls: QuicTls,
    pub(super) known: KnownBlocks,
    pub(super) counts: Http3Counts,
    /// The counts when the window opened.
    at_open: Http3Counts,
    /// What the last datagrams meant to the exchanges of their link.
    pub(super) heard: VecDeque<Heard>,
    /// Streams to be given up once QUIC can be told, with their codes.
    pub(super) resets: Vec<(u64, u64)>,
    /// Slots and streams of requests of which more can be sent.
    pub(super) writable: Vec<(u32, u64)>,
    out: Vec<u8>,
    request: Vec<u8>,
}

/// See the module comment.
#[derive(Default)]
pub(crate) struct Http3 {
    connection: Box<Connection>,
    incoming: Incoming,
    streams_max: u32,
    is_last: bool,
    /// The connection was opened and has not been counted yet.
    is_live: bool,
    has_control: bool,
    /// The handshake's outcome was taken.
    was_agreed: bool,
    origin: u32,
    /// Datagrams are marked ECT(0).
    is_ect: bool,
    has_long_queue: bool,
    /// Requests that were sent before the handshake had ended.
    early: u64,
    /// How often the socket has dropped datagrams.
    dropped: u32,
    failure: Option<AnswerError>,
}

impl Session for Http3 {
    type Exchanges = Streams;
    type Memory = Memory;

    const DATAGRAMS: bool = true;

    fn memory(plan: &Plan, slot: u32) -> Memory {
        Memory {
            tls: QuicTls::new(plan, slot),
            known: KnownBlocks::new(plan.requests.len()),
            counts: Http3Counts::default(),
            at_open: Http3Counts::default(),
            heard: VecDeque::new(),
            resets: Vec::new(),
            writable: Vec::new(),
            out: vec![0; OUT_BYTES],
            request: Vec::new(),
        }
    }

    fn count_waited(memory: &mut Memory) {
        memory.counts.waited += 1;
    }

    fn count_refused(memory: &mut Memory, is_sent_again: bool) {
        memory.counts.refused += 1;
        memory.counts.retried += u64::from(is_sent_again);
    }

    fn count_unsent(memory: &mut Memory) {
        memory.counts.unsent += 1;
    }

    fn open_window<'a>(memory: &mut Memory, live: impl Iterator<Item = &'a Http3>) {
        // These are of connections that end from now on.
        memory.counts.rtt_smoothed = Moments::default();
        memory.counts.rtt_least = Moments::default();
        memory.counts.mtu = Moments::default();
        memory.at_open = snapshot(&memory.counts, live);
    }

    fn close_window<'a>(
        memory: &mut Memory,
        measured: &mut Measured,
        live: impl Iterator<Item = &'a Http3>,
        is_slice: bool,
    ) {
        let mut counts = snapshot(&memory.counts, live).since(&memory.at_open);
        if is_slice {
            // Live connections are counted once, when the window closes.
            counts.rtt_smoothed = memory.counts.rtt_smoothed.clone();
            counts.rtt_least = memory.counts.rtt_least.clone();
            counts.mtu = memory.counts.mtu.clone();
        }
        measured.http3 = Some(counts);
    }

    #[inline]
    fn goes_on(&self) -> bool {
        !self.is_last
            && self.failure.is_none()
            && self.incoming.control.goaway.is_none()
            && self.connection.failure().is_none()
    }

    fn extend(&mut self) -> bool {
        self.is_last = false;
        self.goes_on()
    }

    #[inline]
    fn capacity(&self) -> u32 {
        if !self.goes_on() {
            return 0;
        }
        let allowed = u32::try_from(self.connection.capacity_bi()).unwrap_or(u32::MAX);
        self.streams_max.saturating_sub(self.incoming.open).min(allowed)
    }

    #[inline]
    fn begin(&mut self, start: Start<'_>, streams: &mut Streams, memory: &mut Memory) {
        let Start { slot, number, request, is_last, plan } = start;
        let id = self.connection.open_bi(slot).unwrap_or(NONE);
        debug_assert!(id != NONE, "there was capacity");
        self.incoming.open += 1;
        self.is_last = is_last;
        memory.counts.streams += 1;
        self.early += u64::from(!self.was_agreed);
        memory.counts.concurrent_max = memory.counts.concurrent_max.max(self.incoming.open.into());
        if !std::mem::replace(&mut self.has_control, true)
            && let Some(control) = self.connection.open_uni(0)
        {
            self.connection.write(control, &CONTROL, false);
        }
        let stream = streams.slot_mut(slot);
        stream.open(id, request.is_head);
        let bytes = &mut memory.request;
        bytes.clear();
        bytes.resize(HEAD_BYTES_MAX, 0);
        plan.h2.block(number, Variant::Plain, &stream.exchange.rendered, bytes);
        let begin = put_head(bytes);
        let body = plan.h2.body(number, &stream.exchange.rendered);
        let has_body = !body.is_empty();
        stream.unsent = body.len();
        if has_body {
            bytes.push(kind::DATA as u8);
            write_number(body.len() as u64, bytes);
        }
        // The head always fits into a new stream's buffer.
        self.connection.write(id, &bytes[begin..], !has_body);
        let exchange = &mut stream.exchange;
        exchange.sent = (bytes.len() - begin) as u32;
        exchange.progress = Progress::Receiving;
        if has_body {
            exchange.progress = Progress::Sending;
            self.put_body(slot, streams, plan);
        }
    }

    fn unsent<'a>(&'a self, _: &'a Plan, _: &'a Streams) -> &'a [u8] {
        &[]
    }

    fn sent(&mut self, _: usize, _: bool, _: &mut Sink<'_, Streams>) -> u32 {
        0
    }

    fn request<'a>(&'a self, slot: u32, plan: &'a Plan, streams: &'a Streams) -> Cow<'a, [u8]> {
        let exchange = streams.at(slot);
        Cow::Owned(plan.h2.text(exchange.request, &exchange.rendered))
    }

    fn input(
        &mut self,
        input: &[u8],
        _: &mut Memory,
        _: &mut Sink<'_, Streams>,
    ) -> Result<(usize, Heard), AnswerError> {
        Ok((input.len(), Heard::Nothing))
    }

    fn end(&self, _: u32, _: &Streams) -> Result<(), AnswerError> {
        Err(AnswerError::EndInHead)
    }

    fn take_text(&mut self) -> Option<(u32, Vec<u8>)> {
        self.incoming.told.pop_front()
    }

    fn abandon(&mut self, slot: u32, streams: &mut Streams, memory: &mut Memory) -> bool {
        let stream = streams.slot_mut(slot);
        if stream.id != NONE {
            self.connection.reset(stream.id, code::REQUEST_CANCELLED);
            stream.id = NONE;
            self.incoming.open -= 1;
            memory.counts.given_up += 1;
        }
        true
    }

    const PASSED_OVER: ErrorClass = ErrorClass::H3Goaway;

    fn is_passed_over(&self, slot: u32, streams: &Streams) -> bool {
        let id = streams.slot(slot).id;
        id != NONE && self.incoming.control.goaway.is_some_and(|first| id >= first)
    }

    fn say_farewell(&mut self, failure: Option<ErrorClass>) -> bool {
        let code = match failure {
            None => code::NO_ERROR,
            Some(_) => self.incoming.violation.map_or(code::NO_ERROR, |(code, _)| code),
        };
        self.connection.close(code, "");
        true
    }

    fn open_datagrams(
        &mut self,
        origin: u32,
        plan: &Plan,
        memory: &mut Memory,
        now: u64,
    ) -> Result<(), AnswerError> {
        self.incoming.clear();
        self.streams_max = plan.streams;
        (self.is_last, self.has_control, self.was_agreed) = (false, false, false);
        (self.early, self.dropped) = (0, 0);
        (self.origin, self.has_long_queue) = (origin, false);
        self.failure = None;
        let not_secure = || AnswerError::Forbidden(ErrorClass::TlsHandshake, "HTTP/3 needs an https:// URL");
        let secure = plan.origins[origin as usize].secure.as_ref().ok_or_else(not_secure)?;
        let settings = memory.tls.next(origin).ok_or_else(not_secure)?;
        self.is_ect = settings.uses_ecn;
        let id = random_id(settings);
        let opened = self.connection.open(settings, secure.name(), id, now);
        opened.map_err(|error| AnswerError::Layer(Box::new(memory.tls.told(&error))))?;
        if let Some(qlog) = &plan.qlog
            && let Some(recorder) = qlog.next(id, now)
        {
            self.connection.record(recorder);
        }
        self.is_live = true;
        Ok(())
    }

    #[inline]
    fn hear(&mut self, datagram: &mut [u8], ecn: u8, memory: &mut Memory, sink: &mut Sink<'_, Streams>) {
        let had_room = self.connection.capacity_bi() > 0;
        let now = sink.now;
        let mut hearing = Hearing { incoming: &mut self.incoming, memory, sink };
        self.connection.hear(now, datagram, ecn, &mut hearing);
        for (id, code) in memory.resets.drain(..) {
            self.connection.reset(id, code);
        }
        if !memory.writable.is_empty() {
            self.write_on(memory, sink);
        }
        if !had_room && self.was_agreed && self.connection.capacity_bi() > 0 {
            memory.heard.push_back(Heard::Capacity);
        }
        if let Some(violation) = self.incoming.violation
            && self.failure.is_none()
        {
            self.failure = Some(of_violation(violation));
        }
    }

    #[inline]
    fn next_heard(memory: &mut Memory) -> Option<Heard> {
        memory.heard.pop_front()
    }

    #[inline]
    fn pack(&mut self, memory: &mut Memory, now: u64) -> Option<Packed> {
        let packed = self.connection.pack(now, &mut memory.out);
        memory.counts.sends += u64::from(packed.is_some());
        packed
    }

    #[inline]
    fn packed(memory: &Memory, bytes: usize) -> &[u8] {
        &memory.out[..bytes]
    }

    fn begins_marked(memory: &Memory, origin: u32) -> bool {
        memory.tls.uses_ecn(origin)
    }

    #[inline]
    fn marks(&mut self, is_ect: bool, memory: &mut Memory) -> bool {
        if self.is_ect == is_ect {
            return false;
        }
        self.is_ect = is_ect;
        if self.connection.has_lost_marks() {
            memory.tls.avoid_ecn(self.origin);
        }
        true
    }

    fn spare_is_ect(&self) -> Option<bool> {
        (!self.has_long_queue).then_some(self.is_ect)
    }

    #[inline]
    fn outgrows_queue(&mut self) -> bool {
        let outgrows = self.connection.received_udp_bytes() > SHORT_QUEUE_BYTES;
        outgrows && !std::mem::replace(&mut self.has_long_queue, true)
    }

    fn take_sent(&mut self) -> u32 {
        self.connection.take_completed()
    }

    fn has_left(&self, slot: u32, streams: &Streams) -> bool {
        self.connection.was_sent(streams.slot(slot).id)
    }

    fn count_receive(memory: &mut Memory) {
        memory.counts.receives += 1;
    }

    fn count_dropped(&mut self, memory: &mut Memory, dropped: u32) {
        let since = dropped.wrapping_sub(std::mem::replace(&mut self.dropped, dropped));
        memory.counts.receive_drops += u64::from(since);
    }

    fn take_back(&mut self, bytes: usize) {
        self.connection.take_back(bytes);
    }

    fn acknowledge_now(&mut self) {
        self.connection.acknowledge_now();
    }

    #[inline]
    fn awaits_datagrams(&self) -> bool {
        self.incoming.open > 0 || !self.connection.is_agreed()
    }

    #[inline]
    fn is_amid_answer(&self) -> bool {
        self.connection.is_amid_stream() || !self.connection.is_agreed()
    }

    #[inline]
    fn due_ns(&self) -> Option<u64> {
        self.connection.due_ns()
    }

    fn timeout(&mut self, now: u64) {
        self.connection.timeout(now);
    }

    fn sends_early(&self) -> bool {
        !self.was_agreed && self.connection.is_open()
    }

    fn is_agreed(&self) -> bool {
        self.was_agreed
    }

    fn take_agreed(&mut self, memory: &mut Memory) -> Result<Option<Handshake>, AnswerError> {
        if self.was_agreed || !self.connection.is_agreed() {
            return Ok(None);
        }
        let Some(tls) = self.connection.tls() else { return Ok(None) };
        let (_, was_taken) = self.connection.early_data();
        let agreed = memory.tls.agreed(tls, was_taken.filter(|_| self.early > 0));
        let agreed = agreed.map_err(|failed| AnswerError::Layer(Box::new(failed)))?;
        self.was_agreed = true;
        memory.counts.early_requests += self.early;
        if was_taken == Some(false) {
            memory.counts.early_repeated += self.early;
        }
        Ok(agreed)
    }

    #[inline]
    fn end_of_connection(&self, memory: &Memory) -> Option<AnswerError> {
        if let Some(failure) = &self.failure {
            return Some(failure.clone());
        }
        let failure = self.connection.failure()?;
        Some(AnswerError::Layer(Box::new(failure::told(
            failure,
            self.connection.version(),
            &memory.tls,
            self.has_heard(),
        ))))
    }

    fn may_have_been_in_vain(&self) -> bool {
        // NO_ERROR is 0 in QUIC (RFC 9000 section 20.1).
        let is_innocent = |failure: &QuicFailure| {
            matches!(
                failure,
                QuicFailure::ClosedByApplication(code::NO_ERROR, _)
                    | QuicFailure::ClosedByPeer(0, ..)
                    | QuicFailure::StatelessReset
                    | QuicFailure::Idle
            )
        };
        self.failure.is_none() && self.connection.failure().is_some_and(is_innocent)
    }

    fn was_rejected(&self) -> bool {
        self.connection.failure() == Some(&QuicFailure::EarlyLimits)
    }

    fn silence(&self, within: &str) -> Option<AnswerError> {
        (!self.has_heard()).then(|| AnswerError::Layer(Box::new(failure::silence(within))))
    }

    fn retire(&mut self, memory: &mut Memory) {
        if std::mem::take(&mut self.is_live) {
            memory.counts.given_up += u64::from(self.incoming.open);
            self.incoming.open = 0;
            self.add_to(&mut memory.counts);
        }
    }
}

impl Http3 {
    fn has_heard(&self) -> bool {
        self.connection.counts().packets_received > 0
    }

    /// Gives QUIC as much of a request's body as it takes.
    fn put_body(&mut self, slot: u32, streams: &mut Streams, plan: &Plan) {
        let stream = streams.slot_mut(slot);
        let body = plan.h2.body(stream.exchange.request, &stream.exchange.rendered);
        let rest = &body[body.len() - stream.unsent..];
        let taken = self.connection.write(stream.id, rest, true);
        stream.unsent -= taken;
        stream.exchange.sent += taken as u32;
        if stream.unsent == 0 {
            stream.exchange.progress = Progress::Receiving;
        }
    }

    #[cold]
    fn write_on(&mut self, memory: &mut Memory, sink: &mut Sink<'_, Streams>) {
        while let Some((slot, id)) = memory.writable.pop() {
            if sink.exchanges.slot(slot).id == id && sink.exchanges.slot(slot).unsent > 0 {
                self.put_body(slot, sink.exchanges, sink.plan);
            }
        }
    }

    /// Adds what the connection has counted so far.
    fn add_to(&self, all: &mut Http3Counts) {
        let counts = self.connection.counts();
        add_direction(&mut all.sent, &counts.sent);
        add_direction(&mut all.received, &counts.received);
        add_packets(all, counts);
        if let Some((least, smoothed)) = self.connection.rtt_ns() {
            all.rtt_least.record(least);
            all.rtt_smoothed.record(smoothed);
            all.mtu.record(self.connection.mtu().into());
        }
    }
}

/// The counts of connections that have ended, and of those that live.
fn snapshot<'a>(counts: &Http3Counts, live: impl Iterator<Item = &'a Http3>) -> Http3Counts {
    let mut all = counts.clone();
    for session in live.filter(|session| session.is_live) {
        all.streams_in_flight += u64::from(session.incoming.open);
        session.add_to(&mut all);
    }
    all
}

fn add_direction(to: &mut UdpCounts, from: &DirectionCounts) {
    to.merge(&UdpCounts {
        datagrams: from.datagrams,
        bytes: from.udp_bytes,
        stream_new: from.stream_new,
        stream_repeated: from.stream_repeated,
        other_frames: from.other_frames,
        padding: from.padding,
        overhead: from.overhead,
        ignored: from.ignored,
    });
}

fn add_packets(to: &mut Http3Counts, from: &Counts) {
    to.packets_sent += from.packets_sent;
    to.ack_packets_sent += from.ack_packets_sent;
    to.packets_acknowledged += from.packets_acknowledged;
    to.packets_lost += from.packets_lost;
    to.packets_lost_spuriously += from.packets_lost_spuriously;
    to.packets_discarded += from.packets_discarded;
    to.packets_in_flight += from.packets_in_flight;
    to.packets_received += from.packets_received;
    to.packets_undecryptable += from.packets_undecryptable;
    to.probe_timeouts += from.probe_timeouts;
    to.congestion_events += from.congestion_events;
    to.retries += from.retries;
    to.version_negotiations += from.version_negotiations;
    to.key_updates += from.key_updates;
    to.ce_received += from.ce_received;
}

/// Puts the head of a HEADERS frame before a section that begins at [`HEAD_BYTES_MAX`]; returns where the frame begins.
#[inline]
fn put_head(bytes: &mut [u8]) -> usize {
    let length = (bytes.len() - HEAD_BYTES_MAX) as u64;
    let mut head = [0_u8; HEAD_BYTES_MAX];
    head[0] = kind::HEADERS as u8;
    let number = crate::quic::varint::bytes(length);
    let marked = length | u64::from(number.trailing_zeros()) << (8 * number - 2);
    head[1..=number].copy_from_slice(&marked.to_be_bytes()[8 - number..]);
    let begin = HEAD_BYTES_MAX - 1 - number;
    bytes[begin..HEAD_BYTES_MAX].copy_from_slice(&head[..=number]);
    begin
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::{Events, Stream, fuzzing};

    struct Deaf;

    impl Events for Deaf {
        fn data(&mut self, _: Stream, _: &[u8], _: bool) {}
        fn reset(&mut self, _: Stream, _: u64) {}
    }

    /// A session whose server has sent CONNECTION_CLOSE of this type with this code.
    fn closed(kind: u8, code: u16) -> (Http3, ErrorClass) {
        let mut session = Http3::default();
        *session.connection = fuzzing::confirmed();
        let [high, low] = (code | 0x4000).to_be_bytes();
        // Of the transport, it names a frame, too.
        let frame = if kind == 0x1c { &[kind, high, low, 0, 0][..] } else { &[kind, high, low, 0] };
        session.connection.hear(1, &mut fuzzing::packet(0, frame), 0, &mut Deaf);
        let failure = session.connection.failure().expect("closed").clone();
        let class = failure::told(&failure, crate::quic::Version::V1, &QuicTls::default(), true).0;
        (session, class)
    }

    #[test]
    fn requests_on_a_connection_closed_without_an_error_are_sent_again() {
        for (kind, code, class) in [
            (0x1d, code::NO_ERROR as u16, ErrorClass::ClosedEarly),
            (0x1c, 0, ErrorClass::ClosedEarly),
            (0x1d, 0x102, ErrorClass::H3Closed),
            (0x1c, 1, ErrorClass::QuicClosed),
        ] {
            let (session, told) = closed(kind, code);
            assert_eq!(told, class, "{kind:#x}, {code:#x}");
            assert_eq!(session.may_have_been_in_vain(), class == ErrorClass::ClosedEarly);
        }
    }
}
