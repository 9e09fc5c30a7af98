//! The sending half of a stream: bytes that are kept until they are acknowledged. Also used for the bytes of the handshake.

use super::ranges::Ranges;

/// Acknowledged bytes at the front are removed once they are this many, and at least a quarter of all.
const DRAINED_MIN: usize = 64 << 10;

/// What is known of the end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// More may be written.
    #[default]
    Open,
    /// To be sent, perhaps again.
    Queued,
    Sent,
    Acknowledged,
}

/// A piece to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) length: usize,
    /// It is sent for the first time.
    pub(super) is_new: bool,
    /// The stream ends after it.
    pub(super) is_last: bool,
    /// With it, all of the stream has been sent for the first time.
    pub(super) completes: bool,
}

/// See the module comment.
#[derive(Debug, Default)]
pub(super) struct SendHalf {
    /// Bytes from `base` on.
    pub(super) buffer: Vec<u8>,
    base: u64,
    /// Offset of the first byte that was never sent.
    sent: u64,
    /// Everything before it is acknowledged.
    acked_to: u64,
    /// What is acknowledged after `acked_to`.
    acked: Ranges,
    /// To be sent again.
    lost: Ranges,
    end: End,
    /// Whether all of it was sent, perhaps in vain.
    was_sent: bool,
    /// Offset up to which the peer allows data.
    pub(super) max: u64,
}

impl SendHalf {
    /// Begins a stream; buffers stay.
    pub(super) fn open(&mut self, max: u64) {
        self.buffer.clear();
        self.acked.clear();
        self.lost.clear();
        (self.base, self.sent, self.acked_to, self.end, self.max) = (0, 0, 0, End::Open, max);
        self.was_sent = false;
    }

    /// Whether more may be written.
    #[inline]
    pub(super) fn is_writable(&self) -> bool {
        self.end == End::Open
    }

    /// How many bytes may be written if at most `kept_max` are kept.
    #[inline]
    pub(super) fn room(&self, kept_max: usize) -> usize {
        kept_max.saturating_sub((self.written() - self.acked_to) as usize)
    }

    /// Appends; see [`SendHalf::room`].
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Ends the stream after what was written.
    #[inline]
    pub(super) fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Queued;
        }
    }

    /// Where what was written ends.
    #[inline]
    pub(super) fn written(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    /// Where what was sent ends, which is the final size after a reset.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether all of it was sent at least once.
    pub(super) fn was_sent(&self) -> bool {
        self.was_sent
    }

    /// Whether nothing has to be sent any more.
    #[inline]
    pub(super) fn is_acknowledged(&self) -> bool {
        self.end == End::Acknowledged && self.acked_to == self.written()
    }

    /// Whether there is something to send, if flow control of the connection allows new bytes.
    #[inline]
    pub(super) fn wants(&self) -> bool {
        !self.lost.is_empty() || self.sent < self.written().min(self.max) || self.is_end_due()
    }

    #[inline]
    fn is_end_due(&self) -> bool {
        self.end == End::Queued && self.sent == self.written()
    }

    /// Where the next piece will begin.
    #[inline]
    pub(super) fn next_offset(&self) -> u64 {
        self.lost.first().map_or(self.sent, |(start, _)| start)
    }

    /// The next piece of at most `room` bytes; `credit`: how many new bytes the connection may send.
    #[inline]
    pub(super) fn next_chunk(&mut self, room: usize, credit: u64) -> Option<Chunk> {
        let written = self.written();
        let (offset, length, is_new) = match self.lost.first() {
            Some((start, end)) if room > 0 => {
                let length = (end - start).min(room as u64);
                self.lost.remove(start, start + length);
                (start, length, false)
            }
            Some(_) => return None,
            None => {
                let length = written.min(self.max).saturating_sub(self.sent).min(credit).min(room as u64);
                let offset = self.sent;
                self.sent += length;
                (offset, length, true)
            }
        };
        let is_last = self.end == End::Queued && offset + length == written && self.sent == written;
        if length == 0 && !is_last {
            return None;
        }
        let completes = is_last && !self.was_sent;
        self.was_sent |= is_last;
        if is_last {
            self.end = End::Sent;
        }
        Some(Chunk { offset, length: length as usize, is_new, is_last, completes })
    }

    /// The bytes of a piece.
    #[inline]
    pub(super) fn bytes(&self, offset: u64, length: usize) -> &[u8] {
        let at = (offset - self.base) as usize;
        &self.buffer[at..at + length]
    }

    /// A piece was acknowledged.
    #[inline]
    pub(super) fn acked(&mut self, offset: u64, length: u64, is_last: bool) {
        if is_last {
            self.end = End::Acknowledged;
        }
        let end = offset + length;
        if end > self.acked_to {
            self.lost.remove(offset, end);
            if offset > self.acked_to {
                self.acked.insert(offset, end);
                return;
            }
            self.acked_to = end;
            while let Some((_, end)) = self.acked.first().filter(|range| range.0 <= self.acked_to) {
                self.acked_to = self.acked_to.max(end);
                self.acked.drop_first();
            }
            let done = (self.acked_to - self.base) as usize;
            if done == self.buffer.len() {
                self.buffer.clear();
                self.base = self.acked_to;
            } else if done >= DRAINED_MIN.max(self.buffer.len() / 4) {
                self.buffer.drain(..done);
                self.base = self.acked_to;
            }
        }
    }

    /// A piece was lost, or is to be sent once more. Returns whether there is something to do.
    pub(super) fn lost(&mut self, offset: u64, length: u64, is_last: bool) -> bool {
        if is_last && self.end == End::Sent {
            self.end = End::Queued;
        }
        let (start, end) = (offset.max(self.acked_to), offset + length);
        self.lost.insert(start, end);
        for (start, end) in self.acked.iter() {
            self.lost.remove(start, end);
        }
        self.wants()
    }

    /// Drops what was written; nothing more is sent.
    pub(super) fn abandon(&mut self) {
        self.buffer.clear();
        self.lost.clear();
        self.acked.clear();
        (self.base, self.acked_to) = (self.sent, self.sent);
        self.end = End::Acknowledged;
    }

    /// Frees memory that small streams do not need.
    pub(super) fn shrink(&mut self, bytes_max: usize) {
        if self.buffer.capacity() > bytes_max {
            self.buffer = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Draws;

    #[test]
    fn every_byte_is_sent_until_it_is_acknowledged() {
        let mut draws = Draws(5);
        let mut draw = |below: u64| draws.below(below);
        for _ in 0..300 {
            let mut half = SendHalf::default();
            half.open(u64::MAX);
            let content: Vec<u8> = (0..draw(200)).map(|_| draw(256) as u8).collect();
            let (mut written, mut in_flight) = (0, Vec::new());
            let (mut arrived, mut ended, mut new) = (vec![None; content.len()], false, 0);
            for _ in 0..100_000 {
                match draw(4) {
                    0 if written < content.len() => {
                        let n = (1 + draw(40) as usize).min(content.len() - written);
                        half.write(&content[written..written + n]);
                        written += n;
                    }
                    0 => half.finish(),
                    1 => {
                        if let Some(chunk) = half.next_chunk(1 + draw(30) as usize, u64::MAX) {
                            let bytes = half.bytes(chunk.offset, chunk.length).to_vec();
                            new += if chunk.is_new { chunk.length } else { 0 };
                            in_flight.push((chunk, bytes));
                        }
                    }
                    _ if in_flight.is_empty() => {}
                    fate => {
                        let (chunk, bytes) = in_flight.swap_remove(draw(in_flight.len() as u64) as usize);
                        let length = chunk.length as u64;
                        if fate == 2 {
                            half.lost(chunk.offset, length, chunk.is_last);
                            continue;
                        }
                        half.acked(chunk.offset, length, chunk.is_last);
                        ended |= chunk.is_last;
                        for (nth, byte) in bytes.iter().enumerate() {
                            arrived[chunk.offset as usize + nth] = Some(*byte);
                        }
                    }
                }
                if half.is_acknowledged() {
                    break;
                }
            }
            assert!(half.is_acknowledged() && ended && !half.wants());
            assert_eq!(arrived, content.iter().map(|byte| Some(*byte)).collect::<Vec<_>>());
            assert_eq!(new, content.len());
        }
    }

    #[test]
    fn limits_hold_back_new_bytes_alone() {
        let mut half = SendHalf::default();
        half.open(10);
        half.write(&[1; 30]);
        half.finish();
        assert_eq!(half.next_chunk(100, 4).map(|chunk| chunk.length), Some(4));
        assert_eq!(
            half.next_chunk(100, 100).map(|chunk| (chunk.offset, chunk.length, chunk.is_last)),
            Some((4, 6, false))
        );
        assert_eq!(half.next_chunk(100, 100), None);
        assert!(half.lost(0, 4, false));
        assert_eq!(half.next_chunk(100, 0).map(|chunk| (chunk.length, chunk.is_new)), Some((4, false)));
        assert!(!half.wants());
        half.max = 30;
        let last = half.next_chunk(100, 100).unwrap();
        assert_eq!((last.offset, last.length, last.is_last), (10, 20, true));
        assert!(half.lost(0, 30, true));
        assert_eq!(
            half.next_chunk(100, 100).map(|chunk| (chunk.offset, chunk.length, chunk.is_last)),
            Some((0, 30, true))
        );
    }
}
