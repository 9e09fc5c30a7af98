//! What received frames mean to a link and its streams, and which frames a server must not send.

use std::collections::VecDeque;

use webstone_measure::errors::ErrorClass;

use super::frames::{self, FrameError, Head, Step, code, flag, kind, number, setting};
use super::hpack::CompressionError;
use super::session::{Http2, Memory};
use super::streams::Streams;
use crate::exchange::{Exchanges, Progress};
use crate::h1::response::INTERIM_MAX;
use crate::session::{AnswerError, Heard, Sink};

/// Maximum length of a header block in bytes, and maximum number of its frames.
const BLOCK_BYTES_MAX: usize = 256 * 1024;
const BLOCK_FRAMES_MAX: u32 = 64;
/// Maximum number of frames that belong to no answer, between two that do, or between two pieces of requests' bodies.
const CONTROL_FRAMES_MAX: u32 = 10_000;
/// Maximum amount of data that we have to send and the server does not read, in bytes.
const OUT_BYTES_MAX: usize = 1 << 20;

/// A session's state for received bytes.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// The server's SETTINGS have arrived, which must be its first frame.
    has_settings: bool,
    /// The connection's flow-control window, what is left of it, and what has arrived since the last WINDOW_UPDATE, in
    /// bytes.
    window: u32,
    window_left: u32,
    window_used: u32,
    /// Frames since the last one that belonged to an answer, and since the last piece of a request's body.
    pub(super) control_frames: u32,
    /// An incomplete header block.
    block: Vec<u8>,
    block_head: Head,
    block_frames: u32,
    /// Bytes of its frames.
    block_wire_bytes: usize,
    /// Traced answers as text, with their slots.
    pub(super) told: VecDeque<(u32, Vec<u8>)>,
}

impl Incoming {
    pub(super) fn clear(&mut self, window: u32) {
        self.has_settings = false;
        self.window = window;
        self.window_left = window;
        self.window_used = 0;
        self.control_frames = 0;
        self.block.clear();
        self.block_head = Head::default();
        self.told.clear();
    }
}

fn protocol(what: &'static str) -> AnswerError {
    AnswerError::Forbidden(ErrorClass::H2Protocol, what)
}

fn flow_control(what: &'static str) -> AnswerError {
    AnswerError::Forbidden(ErrorClass::H2FlowControl, what)
}

fn flood(what: &'static str) -> AnswerError {
    AnswerError::Forbidden(ErrorClass::H2Flood, what)
}

fn compression(CompressionError(what): CompressionError) -> AnswerError {
    AnswerError::Forbidden(ErrorClass::H2Compression, what)
}

fn framing(error: FrameError) -> AnswerError {
    match error {
        FrameError::Size(what) => AnswerError::Forbidden(ErrorClass::H2FrameSize, what),
        FrameError::Padding => protocol("a frame with more padding than payload"),
    }
}

impl Http2 {
    /// Takes bytes until something concerns an exchange.
    pub(super) fn hear(
        &mut self,
        input: &[u8],
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<(usize, Heard), AnswerError> {
        let mut reader = std::mem::take(&mut self.reader);
        let mut at = 0;
        let mut heard = Ok(Heard::Nothing);
        while heard == Ok(Heard::Nothing) && at < input.len() {
            heard = match reader.step(&input[at..]) {
                Ok((used, step)) => {
                    at += used;
                    self.take(step, memory, sink)
                }
                Err(error) => {
                    let front = if reader.held().is_empty() { &input[at..] } else { reader.held() };
                    Err(self.no_frame(error, front))
                }
            };
        }
        self.reader = reader;
        heard.map(|heard| (at, heard))
    }

    #[cold]
    fn no_frame(&self, error: FrameError, front: &[u8]) -> AnswerError {
        match self.incoming.has_settings {
            true => framing(error),
            false if front.starts_with(b"HTTP/") => {
                AnswerError::Forbidden(ErrorClass::H2NotSpoken, "the server answers with HTTP/1")
            }
            false => {
                AnswerError::Forbidden(ErrorClass::H2NotSpoken, "the server does not send HTTP/2 frames")
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        step: Step<'_>,
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<Heard, AnswerError> {
        match step {
            Step::NeedMore => Ok(Heard::Nothing),
            Step::Frame(head, payload) => {
                memory.counts.frames += 1;
                self.frame(&head, payload, memory, sink)
            }
            Step::Data { stream, piece, counted, is_first, ends } => {
                memory.counts.frames += u64::from(is_first);
                self.is_expected(kind::DATA, stream)?;
                let framing = counted as usize - piece.len() + if is_first { frames::HEAD_BYTES } else { 0 };
                self.data(stream, piece, (counted, framing), ends, sink)
            }
        }
    }

    /// Whether a frame of this type is allowed at this point.
    #[inline]
    fn is_expected(&self, of_kind: u8, stream: u32) -> Result<(), AnswerError> {
        if !self.incoming.has_settings && of_kind != kind::SETTINGS {
            return Err(protocol("a connection that does not begin with SETTINGS"));
        }
        let block = self.incoming.block_head.stream;
        if (of_kind == kind::CONTINUATION) != (block != 0) || (block != 0 && block != stream) {
            return Err(protocol("a header block interrupted by another frame"));
        }
        Ok(())
    }

    #[inline]
    fn frame(
        &mut self,
        head: &Head,
        payload: &[u8],
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<Heard, AnswerError> {
        self.is_expected(head.kind, head.stream)?;
        if head.kind == kind::HEADERS {
            let block = frames::header_block(head, payload).map_err(framing)?;
            let wire_bytes = frames::HEAD_BYTES + payload.len();
            if head.has(flag::END_HEADERS) {
                return self.headers(head, block, wire_bytes, memory, sink);
            }
            self.incoming.block_head = *head;
            self.incoming.block_frames = 0;
            self.incoming.block_wire_bytes = wire_bytes;
            self.incoming.block.extend_from_slice(block);
            return Ok(Heard::Nothing);
        }
        if head.kind == kind::CONTINUATION {
            return self.continuation(head, payload, memory, sink);
        }
        self.is_no_flood()?;
        let is_on_connection = head.stream == 0;
        match head.kind {
            kind::SETTINGS | kind::PING | kind::GOAWAY if !is_on_connection => {
                Err(protocol("a SETTINGS, PING or GOAWAY frame on a stream"))
            }
            kind::RST_STREAM | kind::PRIORITY if is_on_connection => {
                Err(protocol("a RST_STREAM or PRIORITY frame on stream 0"))
            }
            kind::SETTINGS => self.settings(head, payload, memory, sink),
            kind::PING => {
                if !head.has(flag::ACK) {
                    frames::write_head(8, kind::PING, flag::ACK, 0, &mut self.out);
                    self.out.extend_from_slice(payload);
                }
                Ok(Heard::Nothing)
            }
            kind::GOAWAY => {
                Ok(self.goaway(number(payload) & frames::WINDOW_BYTES_MAX, number(&payload[4..]), memory))
            }
            kind::WINDOW_UPDATE => self.window(head.stream, number(payload) & frames::WINDOW_BYTES_MAX, sink),
            kind::RST_STREAM => self.was_reset(head.stream, number(payload), memory, sink),
            kind::PUSH_PROMISE => Err(protocol("PUSH_PROMISE, though the client disabled push")),
            // Unknown frames are ignored (section 5.5).
            _ => Ok(Heard::Nothing),
        }
    }

    /// Counts a frame that belongs to no answer; an error if there are too many.
    fn is_no_flood(&mut self) -> Result<(), AnswerError> {
        self.incoming.control_frames += 1;
        if self.incoming.control_frames > CONTROL_FRAMES_MAX {
            return Err(flood("10,000 consecutive frames that belong to no answer"));
        }
        let unsent = self.out.len() - self.sent;
        if unsent > OUT_BYTES_MAX && self.incoming.control_frames > CONTROL_FRAMES_MAX / 100 {
            return Err(flood("PING or SETTINGS frames whose acknowledgements the server does not read"));
        }
        Ok(())
    }

    fn continuation(
        &mut self,
        head: &Head,
        payload: &[u8],
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<Heard, AnswerError> {
        let incoming = &mut self.incoming;
        incoming.block_frames += 1;
        incoming.block_wire_bytes += frames::HEAD_BYTES + payload.len();
        incoming.block.extend_from_slice(payload);
        if incoming.block.len() > BLOCK_BYTES_MAX || incoming.block_frames > BLOCK_FRAMES_MAX {
            return Err(flood("a header block of more than 64 frames, or 256 KiB"));
        }
        if !head.has(flag::END_HEADERS) {
            return Ok(Heard::Nothing);
        }
        let block = std::mem::take(&mut incoming.block);
        let (first, wire_bytes) = (std::mem::take(&mut incoming.block_head), incoming.block_wire_bytes);
        self.headers(&first, &block, wire_bytes, memory, sink)
    }

    /// The slot of the stream that a frame is for; `None` if the stream is over.
    #[inline]
    fn known(&self, id: u32, sink: &Sink<'_, Streams>) -> Result<Option<u32>, AnswerError> {
        if id == 0 || id & 1 == 0 || id >= self.next_id {
            return Err(protocol("a frame on a stream that was never opened"));
        }
        Ok(sink.exchanges.find(id))
    }

    /// Whether a part of an answer may come on a stream that is over: only if this side has reset it (section 5.1).
    #[cold]
    fn may_be_late(&self, id: u32) -> Result<(), AnswerError> {
        match self.resets.may_have(id) {
            true => Ok(()),
            false => Err(protocol("a part of an answer on a stream that the server has ended")),
        }
    }

    /// Fails an exchange whose answer is invalid. The connection stays usable.
    #[cold]
    fn spoilt(&mut self, slot: u32, what: &'static str, sink: &mut Sink<'_, Streams>) -> Heard {
        self.reset(slot, code::PROTOCOL_ERROR, sink.exchanges);
        Heard::Failed(slot, protocol(what))
    }

    #[inline]
    fn headers(
        &mut self,
        head: &Head,
        block: &[u8],
        wire_bytes: usize,
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<Heard, AnswerError> {
        let slot = self.known(head.stream, sink)?;
        let request = slot.map_or(0, |slot| sink.exchanges.at(slot).request);
        // Also for a stream that is over, to keep the table in step.
        let fields = if self.decoder.keeps_text() {
            let mut text = Vec::new();
            let fields = self.decoder.decode_text(block, &mut text);
            if let Some(slot) = slot.filter(|slot| sink.exchanges.at(*slot).traced > 0) {
                text.extend_from_slice(b"\r\n");
                self.incoming.told.push_back((slot, text));
            }
            fields
        } else {
            self.decoder.decode_known(block, &mut memory.known, request)
        };
        let fields = fields.map_err(compression)?;
        let Some(slot) = slot else {
            self.may_be_late(head.stream)?;
            self.is_no_flood()?;
            return Ok(Heard::Nothing);
        };
        sink.answer(slot);
        let ends_stream = head.has(flag::END_STREAM);
        if let Some(problem) = fields.problem {
            return Ok(self.spoilt(slot, problem, sink));
        }
        let stream = sink.exchanges.slot_mut(slot);
        if stream.has_final_head {
            if fields.status != 0 || !ends_stream {
                return Ok(self.spoilt(slot, "a second head after the final one", sink));
            }
            sink.framing(slot, wire_bytes);
            return Ok(self.whole(slot, sink));
        }
        match fields.status {
            0 => return Ok(self.spoilt(slot, "a head without `:status`", sink)),
            101 => return Ok(self.spoilt(slot, "a status 101, which HTTP/2 does not have", sink)),
            1..200 if ends_stream => {
                return Ok(self.spoilt(slot, "an interim (1xx) head that ends the stream", sink));
            }
            1..200 => {
                stream.interim += 1;
                if stream.interim > INTERIM_MAX {
                    return Err(flood("more than 64 interim (1xx) heads of one answer"));
                }
                self.is_no_flood()?;
                sink.interim(slot, wire_bytes);
                return Ok(Heard::Nothing);
            }
            _ => {}
        }
        stream.has_final_head = true;
        stream.has_no_body = stream.is_head || matches!(fields.status, 204 | 304);
        if !stream.has_no_body {
            stream.content_length = fields.content_length.unwrap_or(u64::MAX);
        }
        sink.head(slot, fields.status, wire_bytes);
        if ends_stream {
            return Ok(self.whole(slot, sink));
        }
        Ok(Heard::Nothing)
    }

    #[inline]
    fn data(
        &mut self,
        id: u32,
        piece: &[u8],
        (counted, framing): (u32, usize),
        ends: Option<bool>,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<Heard, AnswerError> {
        let slot = self.known(id, sink)?;
        let incoming = &mut self.incoming;
        let too_much = || flow_control("more data than the flow-control window allows");
        incoming.window_left = incoming.window_left.checked_sub(counted).ok_or_else(too_much)?;
        incoming.window_used += counted;
        if incoming.window_used > incoming.window / 2 {
            let used = std::mem::take(&mut incoming.window_used);
            incoming.window_left += used;
            frames::write_numbers(kind::WINDOW_UPDATE, 0, &[used], &mut self.out);
        }
        let Some(slot) = slot else {
            self.may_be_late(id)?;
            if piece.is_empty() {
                self.is_no_flood()?;
            }
            return Ok(Heard::Nothing);
        };
        let stream = sink.exchanges.slot_mut(slot);
        stream.window_left = stream.window_left.checked_sub(counted).ok_or_else(too_much)?;
        if !stream.has_final_head {
            return Ok(self.spoilt(slot, "a body before the final head", sink));
        }
        if piece.is_empty() {
            if ends == Some(false) {
                self.is_no_flood()?;
            }
        } else {
            self.incoming.control_frames = 0;
            if stream.has_no_body {
                return Ok(self.spoilt(slot, "a body in an answer that must have none", sink));
            }
        }
        if stream.window_left <= self.window / 2 && ends != Some(true) {
            let used = self.window - stream.window_left;
            stream.window_left = self.window;
            frames::write_numbers(kind::WINDOW_UPDATE, id, &[used], &mut self.out);
        }
        if self.decoder.keeps_text() && sink.exchanges.at(slot).traced > 0 && !piece.is_empty() {
            self.incoming.told.push_back((slot, piece.to_vec()));
        }
        sink.body(slot, piece);
        sink.framing(slot, framing);
        if ends == Some(true) {
            return Ok(self.whole(slot, sink));
        }
        Ok(Heard::Nothing)
    }

    /// The server has ended a stream.
    #[inline]
    fn whole(&mut self, slot: u32, sink: &mut Sink<'_, Streams>) -> Heard {
        let stream = sink.exchanges.slot(slot);
        let exchange = &stream.exchange;
        if stream.content_length != u64::MAX && exchange.body_bytes != stream.content_length {
            let is_short = exchange.body_bytes < stream.content_length;
            let what = if is_short {
                "a body shorter than its content-length"
            } else {
                "a body longer than its content-length"
            };
            return self.spoilt(slot, what, sink);
        }
        self.incoming.control_frames = 0;
        // If the request is not sent completely, the worker gives it up.
        if exchange.progress != Progress::Sending {
            self.close(slot, sink.exchanges);
        }
        Heard::Whole(slot)
    }

    fn settings(
        &mut self,
        head: &Head,
        payload: &[u8],
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<Heard, AnswerError> {
        if head.has(flag::ACK) {
            if !self.incoming.has_settings {
                return Err(protocol("a connection that does not begin with SETTINGS"));
            }
            return Ok(Heard::Nothing);
        }
        if !std::mem::replace(&mut self.incoming.has_settings, true) {
            // Unlimited unless the server sets a limit (section 6.5.2).
            self.peer.streams_max = u32::MAX;
        }
        for setting in payload.chunks_exact(6) {
            let value = number(&setting[2..]);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                setting::HEADER_TABLE_SIZE => self.table_is_small(value),
                setting::ENABLE_PUSH if value != 0 => {
                    return Err(protocol("SETTINGS_ENABLE_PUSH 1, which servers must not send"));
                }
                setting::MAX_CONCURRENT_STREAMS => {
                    self.peer.streams_max = value;
                    let counts = &mut memory.counts;
                    counts.allowed_min = counts.allowed_min.into_iter().chain([value.into()]).min();
                }
                setting::INITIAL_WINDOW_SIZE => {
                    if value > frames::WINDOW_BYTES_MAX {
                        return Err(flow_control("SETTINGS_INITIAL_WINDOW_SIZE of more than 2^31 - 1 bytes"));
                    }
                    let more = i64::from(value) - i64::from(std::mem::replace(&mut self.peer.window, value));
                    for stream in sink.exchanges.open_mut() {
                        stream.send_window += more;
                        if stream.send_window > frames::WINDOW_BYTES_MAX.into() {
                            return Err(flow_control("a flow-control window of more than 2^31 - 1 bytes"));
                        }
                    }
                }
                // A valid value is ignored: longer frames would gain nothing, and make other streams wait.
                setting::MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                    return Err(protocol("SETTINGS_MAX_FRAME_SIZE not between 2^14 and 2^24 - 1 bytes"));
                }
                _ => {}
            }
        }
        frames::write_head(0, kind::SETTINGS, flag::ACK, 0, &mut self.out);
        self.put_bodies(sink.exchanges, sink.plan);
        Ok(Heard::Capacity)
    }

    fn goaway(&mut self, last: u32, why: u32, memory: &mut Memory) -> Heard {
        memory.counts.goaways += u64::from(self.last_answered.is_none());
        // A server may first announce that it will end the connection, and later give its last stream (section 6.8).
        self.last_answered = Some(self.last_answered.map_or(last, |earlier| earlier.min(last)));
        match why {
            code::NO_ERROR => Heard::Capacity,
            _ => Heard::GivenUp(AnswerError::GivenUp(ErrorClass::H2Goaway, why)),
        }
    }

    fn window(&mut self, id: u32, more: u32, sink: &mut Sink<'_, Streams>) -> Result<Heard, AnswerError> {
        const MOST: i64 = frames::WINDOW_BYTES_MAX as i64;
        if id == 0 {
            if more == 0 {
                return Err(protocol("WINDOW_UPDATE with an increment of 0"));
            }
            self.send_window += i64::from(more);
            if self.send_window > MOST {
                return Err(flow_control("a flow-control window of more than 2^31 - 1 bytes"));
            }
        } else if let Some(slot) = self.known(id, sink)? {
            if more == 0 {
                return Ok(self.spoilt(slot, "WINDOW_UPDATE with an increment of 0", sink));
            }
            let stream = sink.exchanges.slot_mut(slot);
            stream.send_window += i64::from(more);
            if stream.send_window > MOST {
                self.reset(slot, code::FLOW_CONTROL_ERROR, sink.exchanges);
                return Ok(Heard::Failed(
                    slot,
                    flow_control("a flow-control window of more than 2^31 - 1 bytes"),
                ));
            }
        }
        self.put_bodies(sink.exchanges, sink.plan);
        Ok(Heard::Nothing)
    }

    fn was_reset(
        &mut self,
        id: u32,
        why: u32,
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<Heard, AnswerError> {
        let Some(slot) = self.known(id, sink)? else { return Ok(Heard::Nothing) };
        self.close(slot, sink.exchanges);
        if why == code::REFUSED_STREAM {
            return Ok(Heard::Refused(slot, ErrorClass::H2Reset));
        }
        memory.counts.reset += 1;
        Ok(Heard::Failed(slot, AnswerError::GivenUp(ErrorClass::H2Reset, why)))
    }
}
