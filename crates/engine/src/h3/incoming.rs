//! What streams bring, and what it means to exchanges.

use std::collections::VecDeque;

use webstone_measure::errors::ErrorClass;

use super::control::{Control, Violation};
use super::failure::class_of;
use super::frames::{Step, code, kind};
use super::order::{Order, Section, Wrong};
use super::qpack;
use super::session::Memory;
use super::streams::Streams;
use crate::exchange::{Exchanges, Progress};
use crate::h2::hpack::CompressionError;
use crate::h2::hpack::decoder::Fields;
use crate::quic::{Events, Stream};
use crate::session::{AnswerError, Heard, Sink};

/// A connection's state for what streams bring.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub(super) control: Control,
    /// Streams in use.
    pub(super) open: u32,
    /// Why the connection has to end.
    pub(super) violation: Option<Violation>,
    /// Traced answers as text, with their slots.
    pub(super) told: VecDeque<(u32, Vec<u8>)>,
}

impl Incoming {
    pub(super) fn clear(&mut self) {
        self.control.clear();
        self.open = 0;
        self.violation = None;
        self.told.clear();
    }
}

/// Handles the events of streams that a datagram causes.
pub(super) struct Hearing<'a, 'b> {
    pub(super) incoming: &'a mut Incoming,
    pub(super) memory: &'a mut Memory,
    pub(super) sink: &'a mut Sink<'b, Streams>,
}

impl Events for Hearing<'_, '_> {
    #[inline]
    fn data(&mut self, stream: Stream, bytes: &[u8], is_last: bool) {
        if self.incoming.violation.is_some() {
            return;
        }
        if stream.id & 3 != 0 {
            return self.unidirectional(stream.id, bytes, is_last);
        }
        let slot = stream.tag;
        // The exchange was given up, but QUIC has not been told yet.
        if self.sink.exchanges.slot(slot).id != stream.id {
            return;
        }
        if let Err(wrong) = self.answer(slot, bytes, is_last) {
            self.went_wrong(slot, wrong);
        }
    }

    /// QUIC has taken the request, but the server did not wait for all of it.
    #[cold]
    fn unsent(&mut self, stream: Stream, sent: u64) {
        if stream.id & 3 == 0 && self.sink.exchanges.slot(stream.tag).id == stream.id {
            let exchange = &mut self.sink.exchanges.slot_mut(stream.tag).exchange;
            (exchange.progress, exchange.sent) = (Progress::Sending, sent as u32);
        }
    }

    #[cold]
    fn reset(&mut self, stream: Stream, code: u64) {
        if stream.id & 3 != 0 {
            if let Err(violation) = self.incoming.control.ended(stream.id) {
                self.incoming.violation = Some(violation);
            }
            return;
        }
        let slot = stream.tag;
        if self.sink.exchanges.slot(slot).id != stream.id {
            return;
        }
        // Also ends a request that is not sent completely.
        self.memory.resets.push((stream.id, code::REQUEST_CANCELLED));
        self.close(slot);
        if code == code::REQUEST_REJECTED {
            self.memory.counts.rejected += 1;
            return self.memory.heard.push_back(Heard::Refused(slot, ErrorClass::H3Reset));
        }
        self.memory.counts.reset += 1;
        let name = code::name(code);
        let received = self.sink.exchanges.at(slot).received_bytes();
        let what =
            format!("the server reset the stream (RESET_STREAM) {received} bytes into the answer: {name}");
        *self.memory.counts.resets.entry(name).or_default() += 1;
        let failure = AnswerError::Layer(Box::new((ErrorClass::H3Reset, what)));
        self.memory.heard.push_back(Heard::Failed(slot, failure));
    }

    #[cold]
    fn stopped(&mut self, stream: Stream, _: u64) {
        if let Err(violation) = Control::stopped(stream.id) {
            self.incoming.violation = Some(violation);
        }
    }

    fn writable(&mut self, stream: Stream) {
        self.memory.writable.push((stream.tag, stream.id));
    }
}

impl Hearing<'_, '_> {
    #[cold]
    fn unidirectional(&mut self, id: u64, bytes: &[u8], is_last: bool) {
        let had_one = self.incoming.control.goaway.is_some();
        match self.incoming.control.take(id, bytes, is_last) {
            Ok(false) => {}
            Ok(true) => {
                // A graceful end takes two (RFC 9114 section 5.2), and connections are counted.
                self.memory.counts.goaways += u64::from(!had_one);
                self.memory.heard.push_back(Heard::Capacity);
            }
            Err(violation) => self.incoming.violation = Some(violation),
        }
    }

    #[cold]
    fn went_wrong(&mut self, slot: u32, wrong: Wrong) {
        match wrong {
            Wrong::Connection(violation) => self.incoming.violation = Some(violation),
            Wrong::Exchange(class, what, code) => {
                let id = self.sink.exchanges.slot(slot).id;
                self.memory.resets.push((id, code));
                self.memory.counts.given_up += 1;
                self.close(slot);
                let failure = AnswerError::Forbidden(class, what);
                self.memory.heard.push_back(Heard::Failed(slot, failure));
            }
        }
    }

    /// The stream of an exchange is over.
    #[inline]
    fn close(&mut self, slot: u32) {
        self.sink.exchanges.slot_mut(slot).id = super::streams::NONE;
        self.incoming.open -= 1;
    }

    #[inline]
    fn answer(&mut self, slot: u32, mut rest: &[u8], is_last: bool) -> Result<(), Wrong> {
        self.sink.answer(slot);
        while !rest.is_empty() {
            let (taken, step) = self.sink.exchanges.slot_mut(slot).reader.step(rest);
            let front = &rest[..taken];
            rest = &rest[taken..];
            match step {
                Step::Payload { kind: kind::DATA, piece, .. } => self.body(slot, piece)?,
                Step::Head { kind: kind::DATA, bytes, .. } => self.data_head(slot, bytes)?,
                Step::Head { kind: kind::HEADERS, length, bytes } => {
                    let stream = self.sink.exchanges.slot_mut(slot);
                    stream.order.headers(length)?;
                    stream.section_head_bytes = bytes as u8;
                    if length == 0 {
                        self.headers(slot, &[])?;
                    }
                }
                Step::Payload { kind: kind::HEADERS, piece, is_last: ends } => {
                    let has_begun = !self.sink.exchanges.slot(slot).section.is_empty();
                    match (has_begun, ends) {
                        (false, true) => self.headers(slot, piece)?,
                        (_, false) => self.part_of_headers(slot, piece),
                        (true, true) => {
                            let mut section = std::mem::take(&mut self.sink.exchanges.slot_mut(slot).section);
                            section.extend_from_slice(piece);
                            let done = self.headers(slot, &section);
                            section.clear();
                            self.sink.exchanges.slot_mut(slot).section = section;
                            done?;
                        }
                    }
                }
                Step::Head { kind, bytes, .. } => {
                    Order::other(kind)?;
                    self.sink.framing(slot, bytes);
                }
                // An unknown frame (section 9). A head in parts is counted once it is whole.
                Step::Payload { .. } => self.sink.framing(slot, front.len()),
                Step::NeedMore => {}
            }
        }
        if is_last { self.ended(slot) } else { Ok(()) }
    }

    #[cold]
    fn part_of_headers(&mut self, slot: u32, piece: &[u8]) {
        let stream = self.sink.exchanges.slot_mut(slot);
        stream.section.extend_from_slice(piece);
        let begun = stream.section.len() + usize::from(stream.section_head_bytes);
        self.sink.head_begun(slot, begun);
    }

    #[inline]
    fn headers(&mut self, slot: u32, section: &[u8]) -> Result<(), Wrong> {
        let fields = self
            .decode(slot, section)
            .map_err(|CompressionError(what)| Wrong::Connection((code::QPACK_DECOMPRESSION_FAILED, what)))?;
        let stream = self.sink.exchanges.slot_mut(slot);
        let wire_bytes = section.len() + usize::from(stream.section_head_bytes);
        match stream.order.section(&fields)? {
            Section::Interim => self.sink.interim(slot, wire_bytes),
            Section::Head => self.sink.head(slot, fields.status, wire_bytes),
            Section::Trailers => self.sink.framing(slot, wire_bytes),
        }
        Ok(())
    }

    #[inline]
    fn decode(&mut self, slot: u32, section: &[u8]) -> Result<Fields, CompressionError> {
        let exchange = self.sink.exchanges.at(slot);
        if exchange.traced > 0 {
            let mut text = Vec::new();
            let fields = qpack::decode(section, Some(&mut text));
            text.extend_from_slice(b"\r\n");
            self.incoming.told.push_back((slot, text));
            return fields;
        }
        let request = exchange.request;
        if let Some((fields, _)) = self.memory.known.recall(request, section) {
            return Ok(*fields);
        }
        let fields = qpack::decode(section, None)?;
        self.memory.known.keep(request, section, fields, std::iter::empty());
        Ok(fields)
    }

    #[inline]
    fn data_head(&mut self, slot: u32, bytes: usize) -> Result<(), Wrong> {
        self.sink.exchanges.slot(slot).order.data()?;
        self.sink.framing(slot, bytes);
        Ok(())
    }

    #[inline]
    fn body(&mut self, slot: u32, piece: &[u8]) -> Result<(), Wrong> {
        self.sink.exchanges.slot(slot).order.body()?;
        if self.sink.exchanges.at(slot).traced > 0 {
            self.incoming.told.push_back((slot, piece.to_vec()));
        }
        self.sink.body(slot, piece);
        Ok(())
    }

    /// The server has ended a stream.
    #[inline]
    fn ended(&mut self, slot: u32) -> Result<(), Wrong> {
        let stream = self.sink.exchanges.slot(slot);
        stream.order.ended(stream.reader.is_between_frames(), stream.exchange.body_bytes)?;
        if stream.exchange.progress == Progress::Sending {
            // The worker gives the request up. No acknowledgement may have more of it sent before that.
            self.sink.exchanges.slot_mut(slot).unsent = 0;
        } else {
            self.memory.counts.whole += 1;
            self.close(slot);
        }
        self.memory.heard.push_back(Heard::Whole(slot));
        Ok(())
    }
}

/// A violation as the error of an exchange.
pub(super) fn of_violation((code, what): Violation) -> AnswerError {
    AnswerError::Forbidden(class_of(code), what)
}
