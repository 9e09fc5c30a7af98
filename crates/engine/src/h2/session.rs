//! HTTP/2 on a link: many exchanges at a time, each a stream. Requests are copied from the plan's blocks into one
//! buffer for all streams; answers are passed on as they arrive.
//!
//! `incoming` decides what received frames mean.

use std::borrow::Cow;
use std::collections::VecDeque;

use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::{Http2Counts, Measured};

use super::frames::{self, Reader, code, flag, kind, setting};
use super::hpack::decoder::Decoder;
use super::hpack::known_blocks::KnownBlocks;
use super::hpack::{TABLE_BYTES, encoder};
use super::incoming::Incoming;
use super::request::Variant;
use super::resets::Resets;
use super::streams::Streams;
use crate::exchange::{Exchanges, Progress};
use crate::plan::Plan;
use crate::session::{AnswerError, Heard, Session, Sink, Start};

/// Maximum number of streams before the server has given its limit: the minimum limit that RFC 9113 section 6.5.2
/// recommends.
const STREAMS_UNTOLD: u32 = 100;
/// How many bytes of bodies are buffered for sending at a time.
const OUT_BYTES: usize = 128 * 1024;

/// State shared by the sessions of a worker.
pub(crate) struct Memory {
    pub(super) known: KnownBlocks,
    pub(super) counts: Http2Counts,
    /// The counts when the window opened.
    at_open: Http2Counts,
}

/// See the module comment.
#[derive(Default)]
pub(crate) struct Http2 {
    pub(super) reader: Reader,
    pub(super) decoder: Decoder,
    pub(super) incoming: Incoming,
    /// Flow-control window of each stream, in bytes.
    pub(super) window: u32,
    /// Bytes to send, and how many of them were sent.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// Requests whose last byte is in `out`: its position, the slot, the stream.
    ends: VecDeque<(usize, u32, u32)>,
    pub(super) next_id: u32,
    pub(super) open: u32,
    streams_max: u32,
    variant: Variant,
    /// The next header block must first reduce the size of the dynamic table.
    resizes: bool,
    pub(super) peer: PeerSettings,
    /// What is left of the connection's window for sending.
    pub(super) send_window: i64,
    /// Slots with a body that is not completely in `out`.
    sending: VecDeque<u32>,
    pub(super) resets: Resets,
    is_last: bool,
    /// The last stream that the server will answer, once it has said so.
    pub(super) last_answered: Option<u32>,
}

/// Settings of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    pub(super) streams_max: u32,
    pub(super) window: u32,
    pub(super) frame_bytes_max: usize,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            streams_max: STREAMS_UNTOLD,
            window: frames::WINDOW_BYTES,
            frame_bytes_max: frames::FRAME_BYTES_MAX,
        }
    }
}

impl Session for Http2 {
    type Exchanges = Streams;
    type Memory = Memory;

    fn memory(plan: &Plan, _: u32) -> Memory {
        let (counts, at_open) = (Http2Counts::default(), Http2Counts::default());
        Memory { known: KnownBlocks::new(plan.requests.len()), counts, at_open }
    }

    fn count_waited(memory: &mut Memory) {
        memory.counts.waited += 1;
    }

    fn count_refused(memory: &mut Memory, is_sent_again: bool) {
        memory.counts.refused += 1;
        memory.counts.retried += u64::from(is_sent_again);
    }

    fn open_window<'a>(memory: &mut Memory, _: impl Iterator<Item = &'a Self>) {
        memory.at_open = memory.counts;
    }

    fn close_window<'a>(
        memory: &mut Memory,
        measured: &mut Measured,
        _: impl Iterator<Item = &'a Self>,
        _is_slice: bool,
    ) {
        measured.http2 = Some(memory.counts.since(&memory.at_open));
    }

    fn open(&mut self, plan: &Plan) {
        self.reader.clear();
        if self.decoder.keeps_text() == (plan.trace > 0) {
            self.decoder.clear();
        } else {
            self.decoder = Decoder::with_text();
        }
        let settings = &plan.h2_settings;
        self.reader.allow(settings.frame.map_or(frames::FRAME_BYTES_MAX, |bytes| bytes as usize));
        self.decoder.allow(settings.header_table.map_or(TABLE_BYTES, |bytes| bytes as usize));
        self.incoming.clear(settings.connection_window);
        self.window = settings.window;
        self.out.clear();
        self.sent = 0;
        self.ends.clear();
        self.next_id = 1;
        self.open = 0;
        self.streams_max = plan.streams;
        self.variant = Variant::First;
        self.resizes = false;
        self.peer = PeerSettings::default();
        self.send_window = frames::WINDOW_BYTES.into();
        self.sending.clear();
        self.resets.clear();
        self.is_last = false;
        self.last_answered = None;
        self.out.extend_from_slice(frames::PREFACE);
        let all = [
            (setting::HEADER_TABLE_SIZE, settings.header_table),
            (setting::ENABLE_PUSH, Some(0)),
            (setting::INITIAL_WINDOW_SIZE, Some(settings.window)),
            (setting::MAX_FRAME_SIZE, settings.frame),
            (setting::MAX_HEADER_LIST_SIZE, settings.header_list),
        ];
        frames::write_settings(all.into_iter().filter_map(|(id, value)| Some((id, value?))), &mut self.out);
        let more = settings.connection_window - frames::WINDOW_BYTES;
        if more > 0 {
            frames::write_numbers(kind::WINDOW_UPDATE, 0, &[more], &mut self.out);
        }
    }

    #[inline]
    fn goes_on(&self) -> bool {
        !self.is_last && self.last_answered.is_none() && self.next_id < frames::WINDOW_BYTES_MAX
    }

    fn extend(&mut self) -> bool {
        self.is_last = false;
        self.goes_on()
    }

    #[inline]
    fn capacity(&self) -> u32 {
        let most = self.streams_max.min(self.peer.streams_max);
        if self.goes_on() { most.saturating_sub(self.open) } else { 0 }
    }

    #[inline]
    fn begin(&mut self, start: Start<'_>, streams: &mut Streams, memory: &mut Memory) {
        let Start { slot, number, request, is_last, plan } = start;
        let id = self.next_id;
        self.next_id += 2;
        self.open += 1;
        self.is_last = is_last;
        memory.counts.streams += 1;
        memory.counts.concurrent_max = memory.counts.concurrent_max.max(self.open.into());
        streams.opened(slot, id);
        let stream = streams.slot_mut(slot);
        stream.is_head = request.is_head;
        stream.has_final_head = false;
        stream.interim = 0;
        stream.has_no_body = false;
        stream.content_length = u64::MAX;
        stream.window_left = self.window;
        stream.send_window = self.peer.window.into();
        let exchange = &mut stream.exchange;
        exchange.progress = Progress::Sending;
        let begin = self.out.len();
        frames::write_head(0, 0, 0, 0, &mut self.out);
        if std::mem::take(&mut self.resizes) {
            encoder::table_size(0, &mut self.out);
        }
        plan.h2.block(number, self.variant, &exchange.rendered, &mut self.out);
        if self.variant == Variant::First {
            self.variant = Variant::Warm;
        }
        stream.unsent = plan.h2.body(number, &exchange.rendered).len();
        self.finish_headers(begin, id, stream.unsent == 0);
        exchange.sent = (self.out.len() - begin) as u32;
        if stream.unsent == 0 {
            self.ends.push_back((self.out.len(), slot, id));
        } else {
            self.sending.push_back(slot);
            self.put_bodies(streams, plan);
        }
    }

    #[inline]
    fn unsent<'a>(&'a self, _: &'a Plan, _: &'a Streams) -> &'a [u8] {
        &self.out[self.sent..]
    }

    fn sent(&mut self, n: usize, _: bool, sink: &mut Sink<'_, Streams>) -> u32 {
        self.sent += n;
        let mut requests = 0;
        while let Some((end, slot, id)) = self.ends.front().copied() {
            if end > self.sent {
                break;
            }
            self.ends.pop_front();
            if sink.exchanges.slot(slot).id == id {
                sink.sent(slot, 0, true);
                requests += 1;
            }
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            if !self.sending.is_empty() {
                self.put_bodies(sink.exchanges, sink.plan);
            }
        } else if self.sent > OUT_BYTES {
            self.forget_sent();
        }
        requests
    }

    fn request<'a>(&'a self, slot: u32, plan: &'a Plan, streams: &'a Streams) -> Cow<'a, [u8]> {
        let exchange = streams.at(slot);
        Cow::Owned(plan.h2.text(exchange.request, &exchange.rendered))
    }

    fn input(
        &mut self,
        input: &[u8],
        memory: &mut Memory,
        sink: &mut Sink<'_, Streams>,
    ) -> Result<(usize, Heard), AnswerError> {
        self.hear(input, memory, sink)
    }

    fn end(&self, slot: u32, streams: &Streams) -> Result<(), AnswerError> {
        let stream = streams.slot(slot);
        if !stream.has_final_head {
            return Err(AnswerError::EndInHead);
        }
        let announced = (stream.content_length != u64::MAX).then_some(stream.content_length);
        Err(AnswerError::EndInBody(announced.map(|length| length.saturating_sub(stream.exchange.body_bytes))))
    }

    fn take_text(&mut self) -> Option<(u32, Vec<u8>)> {
        self.incoming.told.pop_front()
    }

    fn abandon(&mut self, slot: u32, streams: &mut Streams, _: &mut Memory) -> bool {
        self.reset(slot, code::CANCEL, streams);
        true
    }

    const PASSED_OVER: ErrorClass = ErrorClass::H2Goaway;

    fn is_passed_over(&self, slot: u32, streams: &Streams) -> bool {
        self.last_answered.is_some_and(|last| streams.slot(slot).id > last)
    }

    fn say_farewell(&mut self, failure: Option<ErrorClass>) -> bool {
        let code = match failure {
            None => code::NO_ERROR,
            Some(ErrorClass::H2Protocol) => code::PROTOCOL_ERROR,
            Some(ErrorClass::H2FrameSize) => code::FRAME_SIZE_ERROR,
            Some(ErrorClass::H2FlowControl) => code::FLOW_CONTROL_ERROR,
            Some(ErrorClass::H2Compression) => code::COMPRESSION_ERROR,
            Some(ErrorClass::H2Flood) => code::ENHANCE_YOUR_CALM,
            // A server that does not speak HTTP/2, or has gone, gets no message.
            Some(_) => return true,
        };
        // The last stream of the server's that we handled: 0, as it may open none.
        frames::write_numbers(kind::GOAWAY, 0, &[0, code], &mut self.out);
        true
    }

    fn given_up(class: ErrorClass, code: u32, received: u64) -> String {
        let name = code::name(code);
        match class {
            ErrorClass::H2Goaway => format!("the server ended the connection (GOAWAY): {name}"),
            _ => format!("the server reset the stream (RST_STREAM) {received} bytes into the answer: {name}"),
        }
    }
}

impl Http2 {
    /// Drops what was sent: while the server's windows have room, more is buffered before the rest of a body is sent.
    fn forget_sent(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        self.out.drain(..sent);
        self.ends.iter_mut().for_each(|(end, ..)| *end -= sent);
    }

    /// Resets a stream.
    pub(super) fn reset(&mut self, slot: u32, code: u32, streams: &mut Streams) {
        let id = streams.slot(slot).id;
        if id > 0 {
            frames::write_numbers(kind::RST_STREAM, id, &[code], &mut self.out);
            self.resets.add(id);
            self.close(slot, streams);
        }
    }

    /// Frees the stream of an exchange.
    #[inline]
    pub(super) fn close(&mut self, slot: u32, streams: &mut Streams) {
        let stream = streams.slot_mut(slot);
        if std::mem::take(&mut stream.id) > 0 {
            self.open -= 1;
            if stream.unsent > 0 {
                stream.unsent = 0;
                self.sending.retain(|sending| *sending != slot);
            }
        }
    }

    /// The server has announced a table that is smaller than our blocks need.
    pub(super) fn table_is_small(&mut self, bytes: u32) {
        if (bytes as usize) < TABLE_BYTES && self.variant != Variant::Plain {
            self.variant = Variant::Plain;
            self.resizes = true;
        }
    }

    /// Writes the frame head at `begin`; divides the block into several frames if it is long.
    #[inline]
    fn finish_headers(&mut self, begin: usize, id: u32, ends_stream: bool) {
        let length = self.out.len() - begin - frames::HEAD_BYTES;
        let end_stream = if ends_stream { flag::END_STREAM } else { 0 };
        let max = self.peer.frame_bytes_max;
        if length <= max {
            let [_, high, middle, low] = (length as u32).to_be_bytes();
            let [a, b, c, d] = id.to_be_bytes();
            let head = [high, middle, low, kind::HEADERS, flag::END_HEADERS | end_stream, a, b, c, d];
            self.out[begin..begin + frames::HEAD_BYTES].copy_from_slice(&head);
            return;
        }
        let block = self.out.split_off(begin + frames::HEAD_BYTES);
        self.out.truncate(begin);
        let last = block.len().div_ceil(max) - 1;
        for (number, piece) in block.chunks(max).enumerate() {
            let of_kind = if number == 0 { kind::HEADERS } else { kind::CONTINUATION };
            let mut flags = if number == 0 { end_stream } else { 0 };
            flags |= if number == last { flag::END_HEADERS } else { 0 };
            frames::write_head(piece.len(), of_kind, flags, id, &mut self.out);
            self.out.extend_from_slice(piece);
        }
    }

    /// Buffers as much of bodies as the windows allow, one frame per stream in turn.
    pub(super) fn put_bodies(&mut self, streams: &mut Streams, plan: &Plan) {
        let mut stuck = 0;
        while stuck < self.sending.len() && self.send_window > 0 && self.out.len() - self.sent < OUT_BYTES {
            let Some(slot) = self.sending.pop_front() else { return };
            let stream = streams.slot_mut(slot);
            let window = self.send_window.min(stream.send_window);
            if window <= 0 {
                stuck += 1;
                self.sending.push_back(slot);
                continue;
            }
            stuck = 0;
            let body = plan.h2.body(stream.exchange.request, &stream.exchange.rendered);
            let length = stream.unsent.min(self.peer.frame_bytes_max).min(window as usize);
            let piece = &body[body.len() - stream.unsent..][..length];
            stream.unsent -= length;
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
            let flags = if stream.unsent == 0 { flag::END_STREAM } else { 0 };
            frames::write_head(length, kind::DATA, flags, stream.id, &mut self.out);
            self.out.extend_from_slice(piece);
            // A receiver may send any number of WINDOW_UPDATEs for what it reads (section 6.9.1).
            self.incoming.control_frames = 0;
            stream.exchange.sent += (frames::HEAD_BYTES + length) as u32;
            if stream.unsent == 0 {
                self.ends.push_back((self.out.len(), slot, stream.id));
            } else {
                self.sending.push_back(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_bytes_are_dropped_and_ends_stay_where_they_were() {
        let out: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let ends = [(200_001, 0, 1), (300_000, 1, 3)].into();
        let mut session = Http2 { out: out.clone(), sent: 200_000, ends, ..Http2::default() };
        session.forget_sent();
        assert_eq!((&session.out[..], session.sent), (&out[200_000..], 0));
        assert_eq!(session.ends, [(1, 0, 1), (100_000, 1, 3)]);
    }
}
