//! What packets are filled with: acknowledgements, limits, answers to the server, and the content of streams, as much as flow control
//! and the packet's room allow.

use super::connection::{Connection, record};
use super::frames::{self, kind};
use super::packing::Built;
use super::recorder::FrameRecord;
use super::sent::SentFrame;
use super::space::Space;
use super::streams::Owed;
use super::varint::{self, Writer};

/// Exponent of the delays that are sent, the default.
const ACK_DELAY_EXPONENT: u64 = 3;
/// Less content than this is not put at the end of a packet; the frame's head would cost as much.
const CONTENT_MIN: usize = 16;
/// Longest frame without content.
pub(super) const FRAME_MAX: usize = 1 + 3 * 8;

impl Connection {
    #[cold]
    pub(super) fn write_control(&mut self, writer: &mut Writer<'_>, built: &mut Built) {
        let has_room = |writer: &Writer<'_>| writer.room() >= FRAME_MAX;
        if self.flow.is_due && has_room(writer) {
            self.flow.is_due = false;
            writer.byte(kind::MAX_DATA);
            writer.varint(self.flow.limit);
            self.data.sent.add_frame(SentFrame::MaxData);
            record!(self.recording, "max_data", self.flow.limit, 0, 0);
        }
        if self.owes_max_streams && has_room(writer) {
            self.owes_max_streams = false;
            writer.byte(kind::MAX_STREAMS_UNI);
            writer.varint(self.streams.peer_max);
            self.data.sent.add_frame(SentFrame::MaxStreamsUni);
            record!(self.recording, "max_streams", self.streams.peer_max, 0, 0);
        }
        if built.is_early {
            return;
        }
        while has_room(writer)
            && let Some(sequence) = self.ids.take_retired()
        {
            writer.byte(kind::RETIRE_CONNECTION_ID);
            writer.varint(sequence);
            self.data.sent.add_frame(SentFrame::RetireId(sequence));
            record!(self.recording, "retire_connection_id", sequence, 0, 0);
        }
        if has_room(writer)
            && let Some(data) = self.path_response.take()
        {
            writer.byte(kind::PATH_RESPONSE);
            writer.bytes(&data);
            self.data.sent.add_frame(SentFrame::PathResponse);
            built.has_challenge_response = true;
            record!(self.recording, "path_response", 0, 0, 0);
        }
    }

    /// Frames of streams, in the order in which they were queued, until the packet is full.
    #[inline]
    pub(super) fn write_streams(&mut self, writer: &mut Writer<'_>, built: &mut Built) {
        let mut place = 0;
        while let Some(slot) = self.streams.pending.get(place).copied() {
            let stream = &mut self.streams.slots[slot as usize];
            let id = stream.id;
            if stream.is_used && stream.owed != Owed::default() {
                if writer.room() < 3 * FRAME_MAX {
                    built.is_full = true;
                    return;
                }
                self.write_owed(writer, slot);
            }
            let stream = &mut self.streams.slots[slot as usize];
            while stream.is_used && stream.send.wants() {
                let offset = stream.send.next_offset();
                let offset_bytes = if offset == 0 { 0 } else { varint::bytes(offset) };
                // The length has two bytes at most.
                let head = 1 + varint::bytes(id) + offset_bytes + 2;
                if writer.room() < head + CONTENT_MIN {
                    built.is_full = true;
                    return;
                }
                let room = writer.room() - head;
                let Some(chunk) = stream.send.next_chunk(room, self.flow.max.saturating_sub(self.flow.sent))
                else {
                    break;
                };
                let length = chunk.length as u64;
                let offset_bit = if chunk.offset == 0 { 0 } else { frames::STREAM_OFFSET };
                writer.byte(kind::STREAM | frames::STREAM_LENGTH | offset_bit | u8::from(chunk.is_last));
                writer.varint(id);
                if offset_bit != 0 {
                    writer.varint(chunk.offset);
                }
                writer.varint(length);
                writer.bytes(stream.send.bytes(chunk.offset, chunk.length));
                built.content += length;
                if chunk.is_new {
                    self.flow.sent += length;
                    self.counts.sent.stream_new += length;
                } else {
                    self.counts.sent.stream_repeated += length;
                }
                self.completed += u32::from(chunk.completes);
                self.data.sent.add_frame(SentFrame::Stream {
                    id,
                    offset: chunk.offset,
                    slot,
                    length: chunk.length as u16,
                    is_last: chunk.is_last,
                });
                record!(self.recording, "stream", id, chunk.offset, length);
            }
            // A stream that stays in the queue waits for the connection's limit.
            if !self.streams.unqueue(place) {
                place += 1;
            }
        }
        if place == 0 {
            self.congestion.is_limited = false;
        }
    }

    #[cold]
    fn write_owed(&mut self, writer: &mut Writer<'_>, slot: u32) {
        let stream = &mut self.streams.slots[slot as usize];
        let (id, code) = (stream.id, stream.code);
        let owed = std::mem::take(&mut stream.owed);
        if owed.reset {
            writer.byte(kind::RESET_STREAM);
            writer.varint(id);
            writer.varint(code);
            writer.varint(stream.send.sent());
            self.data.sent.add_frame(SentFrame::Reset { id, slot });
            record!(self.recording, "reset_stream", id, code, stream.send.sent());
        }
        if owed.stop {
            writer.byte(kind::STOP_SENDING);
            writer.varint(id);
            writer.varint(code);
            self.data.sent.add_frame(SentFrame::Stop { id, slot });
            record!(self.recording, "stop_sending", id, code, 0);
        }
        if owed.window {
            writer.byte(kind::MAX_STREAM_DATA);
            writer.varint(id);
            writer.varint(stream.receive.limit);
            self.data.sent.add_frame(SentFrame::MaxStreamData { id, slot });
            record!(self.recording, "max_stream_data", id, stream.receive.limit, 0);
        }
    }
}

/// Writes an ACK frame of as many ranges as there is room for. Returns the largest number.
#[inline]
pub(super) fn write_ack(writer: &mut Writer<'_>, space: &Space, now_ns: u64) -> Option<u64> {
    const HEAD_MAX: usize = 1 + 7 * 8;
    const RANGE_MAX: usize = 2 * 8;
    let room = writer.room().checked_sub(HEAD_MAX)?;
    let (mut ranges, delay_ns) = space.to_acknowledge(now_ns);
    let more = ranges.clone().skip(1).take(room / RANGE_MAX).count();
    let (mut low, end) = ranges.next()?;
    let ecn = space.ecn();
    writer.byte(if ecn.is_some() { kind::ACK_ECN } else { kind::ACK });
    writer.varint(end - 1);
    writer.varint(((delay_ns / 1000) >> ACK_DELAY_EXPONENT).min(varint::MAX));
    writer.varint(more as u64);
    writer.varint(end - 1 - low);
    for (start, end) in ranges.take(more) {
        // The gap before the range and the length of the range, each less one.
        writer.varint(low - end - 1);
        writer.varint(end - 1 - start);
        low = start;
    }
    for count in ecn.into_iter().flatten() {
        writer.varint(count);
    }
    Some(end - 1)
}
