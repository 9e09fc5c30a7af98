//! The receiving half of a stream: data in order is passed on as it arrives, other data is kept until the gap before it is filled. Also
//! used for the bytes of the handshake.

use super::error::Fault;
use super::ranges::Ranges;
use super::varint;

/// Maximum number of gaps in a stream. More are a flood.
const GAPS_MAX: usize = 4096;
/// Delivered bytes at the front are removed once there are this many.
const DRAINED_MIN: usize = 256 << 10;

/// Pieces that arrived before earlier data.
#[derive(Debug, Default)]
struct Pieces {
    /// Bytes from `base` on; those not in `held` are undefined.
    bytes: Vec<u8>,
    base: u64,
    held: Ranges,
}

/// See the module comment.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    /// Where the next bytes to deliver begin.
    pub(super) next: u64,
    /// Where the received bytes end.
    pub(super) highest: u64,
    /// Up to where the peer may send.
    pub(super) limit: u64,
    /// Where the stream ends; `u64::MAX`: unknown.
    end: u64,
    pieces: Option<Box<Pieces>>,
    /// Nobody wants the data any more.
    pub(super) is_discarding: bool,
}

impl Default for ReceiveHalf {
    fn default() -> ReceiveHalf {
        ReceiveHalf { next: 0, highest: 0, limit: 0, end: u64::MAX, pieces: None, is_discarding: false }
    }
}

/// What a piece brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// Bytes not received before.
    pub(super) new: u64,
    /// By how much the end of the received bytes moved, which counts against the connection's limit.
    pub(super) advanced: u64,
    /// It came before earlier data.
    pub(super) is_early: bool,
}

impl ReceiveHalf {
    pub(super) fn open(&mut self, limit: u64) {
        *self = ReceiveHalf { limit, ..ReceiveHalf::default() };
    }

    /// Whether everything was received and passed on.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.next == self.end
    }

    /// Whether the end is known.
    #[inline]
    pub(super) fn is_end_known(&self) -> bool {
        self.end != u64::MAX
    }

    /// Takes a piece. `deliver` gets bytes in order, and whether they are the last.
    #[inline]
    pub(super) fn hear(
        &mut self,
        offset: u64,
        data: &[u8],
        is_last: bool,
        mut deliver: impl FnMut(&[u8], bool),
    ) -> Result<Heard, Fault> {
        let was_over = self.is_over();
        let end = offset + data.len() as u64;
        if end > varint::MAX {
            return Err(Fault::FrameEncoding("a stream of more than 2^62 bytes"));
        }
        if is_last {
            self.end_at(end)?;
        }
        if end > self.end {
            return Err(Fault::FinalSize);
        }
        if end > self.limit {
            return Err(Fault::FlowControl("more data on a stream than allowed"));
        }
        let advanced = end.saturating_sub(self.highest);
        self.highest += advanced;
        if self.is_discarding {
            // It is no longer known what has arrived, so data that fills a gap counts as repeated.
            if self.is_end_known() {
                self.next = self.end;
            }
            let new = advanced.min(data.len() as u64);
            return Ok(Heard { new, advanced, is_early: false });
        }
        if offset > self.next {
            let new = self.keep(offset, data)?;
            return Ok(Heard { new, advanced, is_early: true });
        }
        let fresh = data.get((self.next - offset) as usize..).unwrap_or_default();
        if was_over || fresh.is_empty() && self.end != self.next {
            return Ok(Heard { new: 0, advanced, is_early: false });
        }
        let mut new = fresh.len() as u64;
        if self.pieces.is_none() {
            self.next += new;
            deliver(fresh, self.next == self.end);
        } else {
            new = self.fill(fresh, &mut deliver);
        }
        Ok(Heard { new, advanced, is_early: false })
    }

    /// The stream ends there.
    pub(super) fn end_at(&mut self, end: u64) -> Result<(), Fault> {
        if end < self.highest || self.is_end_known() && end != self.end {
            return Err(Fault::FinalSize);
        }
        self.end = end;
        Ok(())
    }

    /// RESET_STREAM: nothing more is delivered. Returns by how much the end of the received bytes moved.
    pub(super) fn reset(&mut self, end: u64) -> Result<u64, Fault> {
        self.end_at(end)?;
        if end > self.limit {
            return Err(Fault::FlowControl("more data on a stream than allowed"));
        }
        let advanced = end - self.highest;
        (self.highest, self.next) = (end, end);
        self.pieces = None;
        Ok(advanced)
    }

    /// Nobody wants the rest.
    pub(super) fn discard(&mut self) {
        self.is_discarding = true;
        self.pieces = None;
        if self.is_end_known() {
            self.next = self.end;
        }
    }

    #[cold]
    fn keep(&mut self, offset: u64, data: &[u8]) -> Result<u64, Fault> {
        let pieces =
            self.pieces.get_or_insert_with(|| Box::new(Pieces { base: self.next, ..Pieces::default() }));
        let at = (offset - pieces.base) as usize;
        if pieces.bytes.len() < at + data.len() {
            pieces.bytes.resize(at + data.len(), 0);
        }
        pieces.bytes[at..at + data.len()].copy_from_slice(data);
        let new = pieces.held.insert(offset, offset + data.len() as u64);
        if pieces.held.len() > GAPS_MAX {
            return Err(Fault::Flood("data of a stream in thousands of pieces"));
        }
        Ok(new)
    }

    /// Delivers bytes that are next, and those kept after them. Returns how many of the former are new.
    #[cold]
    fn fill(&mut self, fresh: &[u8], deliver: &mut impl FnMut(&[u8], bool)) -> u64 {
        let Some(pieces) = &mut self.pieces else { return 0 };
        let start = self.next;
        self.next += fresh.len() as u64;
        let new = pieces.held.insert(start, self.next);
        let reached = pieces.held.first().map_or(self.next, |(_, end)| end.max(self.next));
        // Where the new bytes overlap kept ones, they are the same.
        let kept_from = (self.next - pieces.base) as usize;
        let kept = kept_from..(reached - pieces.base) as usize;
        if kept.is_empty() {
            deliver(fresh, self.next == self.end);
        } else {
            deliver(fresh, false);
            self.next = reached;
            deliver(&pieces.bytes[kept], self.next == self.end);
        }
        pieces.held.remove(0, self.next);
        if pieces.held.is_empty() {
            self.pieces = None;
        } else if (self.next - pieces.base) as usize >= DRAINED_MIN {
            let done = ((self.next - pieces.base) as usize).min(pieces.bytes.len());
            pieces.bytes.drain(..done);
            pieces.base += done as u64;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Draws;

    #[test]
    fn data_is_delivered_once_and_in_order() {
        let mut draws = Draws(3);
        let mut draw = |below: u64| draws.below(below);
        for _ in 0..500 {
            let content: Vec<u8> = (0..draw(120)).map(|_| draw(256) as u8).collect();
            let mut half = ReceiveHalf::default();
            half.open(1000);
            let (mut got, mut ends, mut new, mut advanced) = (Vec::new(), 0, 0, 0);
            for _ in 0..100_000 {
                let offset = draw(content.len() as u64 + 1) as usize;
                let end = (offset + draw(30) as usize).min(content.len());
                let is_last = end == content.len() && draw(2) == 0;
                let heard = half.hear(offset as u64, &content[offset..end], is_last, |bytes, is_last| {
                    assert_eq!(ends, 0);
                    got.extend_from_slice(bytes);
                    ends += usize::from(is_last);
                });
                let heard = heard.unwrap();
                new += heard.new;
                advanced += heard.advanced;
                if half.is_over() {
                    break;
                }
            }
            assert!(got == content && ends == 1 && half.pieces.is_none());
            assert_eq!((new, advanced), (content.len() as u64, content.len() as u64));
        }
    }

    #[test]
    fn limits_and_ends_are_checked() {
        let hear = |half: &mut ReceiveHalf, offset, data: &[u8], is_last| {
            half.hear(offset, data, is_last, |_, _| {}).map(|heard| heard.new)
        };
        let opened = || {
            let mut half = ReceiveHalf::default();
            half.open(10);
            half
        };
        let mut half = opened();
        assert_eq!(hear(&mut half, 0, &[0; 10], false), Ok(10));
        assert!(matches!(hear(&mut half, 10, &[0], false), Err(Fault::FlowControl(_))));
        let mut half = opened();
        assert_eq!(hear(&mut half, 4, &[0; 2], false), Ok(2));
        assert_eq!(hear(&mut half, 0, &[0; 3], true), Err(Fault::FinalSize));
        let mut half = opened();
        assert_eq!(hear(&mut half, 4, &[0; 2], true), Ok(2));
        assert_eq!(hear(&mut half, 6, &[0], false), Err(Fault::FinalSize));
        assert_eq!(hear(&mut half, 4, &[0], true), Err(Fault::FinalSize));
        assert_eq!(half.reset(7), Err(Fault::FinalSize));
        assert_eq!(half.reset(6), Ok(0));
        assert!(half.is_over());
        assert!(matches!(hear(&mut opened(), varint::MAX, &[0], false), Err(Fault::FrameEncoding(_))));
    }
}
