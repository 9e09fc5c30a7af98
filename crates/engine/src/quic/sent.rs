//! Packets that were sent in one packet number space, with the frames in them, until their fate is known (RFC 9002 section A.1).
//!
//! Both are queues: a packet is found by its number, its frames by their place, and nothing is allocated once the queues have
//! grown to what is in flight.

use std::collections::VecDeque;

/// What a packet held that must be sent again if it is lost, or that is done when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentFrame {
    Stream {
        id: u64,
        offset: u64,
        slot: u32,
        length: u16,
        is_last: bool,
    },
    Crypto {
        offset: u64,
        length: u16,
    },
    /// Acknowledged packets up to this one.
    Ack {
        largest: u64,
    },
    Reset {
        id: u64,
        slot: u32,
    },
    Stop {
        id: u64,
        slot: u32,
    },
    MaxData,
    MaxStreamData {
        id: u64,
        slot: u32,
    },
    MaxStreamsUni,
    RetireId(u64),
    PathResponse,
    MtuProbe,
}

/// What is known of the fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    InFlight,
    /// It held nothing that the peer must acknowledge, and is not counted as in flight.
    Silent,
    Acknowledged,
    /// Believed to be lost.
    Lost,
    /// Given up; its fate is unknown.
    Discarded,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    pub(super) sent_ns: u64,
    /// Place of its first frame, modulo 2^32.
    pub(super) frames_at: u32,
    pub(super) frames: u16,
    pub(super) bytes: u16,
    pub(super) fate: Fate,
    /// Marked ECT(0).
    pub(super) is_ect: bool,
    /// Sent with keys of early data.
    pub(super) is_early: bool,
    pub(super) is_eliciting: bool,
}

/// See the module comment.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Number of the first packet in the queue.
    pub(super) first: u64,
    pub(super) packets: VecDeque<SentPacket>,
    frames: VecDeque<SentFrame>,
    /// Place of the first frame in the queue.
    frames_first: u32,
    pub(super) largest_acked: Option<u64>,
    /// How many packets are in flight and must be acknowledged.
    pub(super) eliciting: u32,
    /// When the last of those was sent.
    pub(super) last_eliciting_ns: u64,
    /// When the next packet will be believed to be lost; `u64::MAX`: none.
    pub(super) loss_ns: u64,
    /// No packet with a smaller number is in flight.
    pub(super) settled_to: u64,
}

/// Maximum number of packets kept because the first one needs no acknowledgement.
const SILENT_MAX: usize = 64;
/// Maximum number of packets kept because the first one, believed to be lost, may still be acknowledged.
const LOST_MAX: usize = 1024;

impl Sent {
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.frames.clear();
        let (packets, frames) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.frames));
        *self = Sent { packets, frames, loss_ns: u64::MAX, ..Sent::default() };
    }

    /// Place of the next frame.
    #[inline]
    pub(super) fn frames_end(&self) -> u32 {
        self.frames_first.wrapping_add(self.frames.len() as u32)
    }

    #[inline]
    pub(super) fn add_frame(&mut self, frame: SentFrame) {
        self.frames.push_back(frame);
    }

    /// Takes back frames of a packet that is not sent.
    pub(super) fn truncate_frames(&mut self, end: u32) {
        self.frames.truncate(end.wrapping_sub(self.frames_first) as usize);
    }

    #[inline]
    pub(super) fn frame(&self, packet: &SentPacket, nth: u16) -> SentFrame {
        let place = packet.frames_at.wrapping_sub(self.frames_first) as usize + usize::from(nth);
        self.frames[place]
    }

    /// Adds the next packet.
    #[inline]
    pub(super) fn push(&mut self, packet: SentPacket) {
        if packet.fate == Fate::InFlight && packet.is_eliciting {
            self.eliciting += 1;
            self.last_eliciting_ns = packet.sent_ns;
        }
        self.packets.push_back(packet);
    }

    /// The packet of a number, unless it is forgotten or was not sent.
    #[inline]
    pub(super) fn at_mut(&mut self, number: u64) -> Option<&mut SentPacket> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// A packet is no longer in flight.
    #[inline]
    pub(super) fn landed(&mut self, packet: &SentPacket) {
        self.eliciting -= u32::from(packet.is_eliciting);
    }

    /// Forgets packets at the front whose fate is settled. Lost ones that were sent after `lost_before_ns` are kept, as they may still be
    /// acknowledged.
    #[inline]
    pub(super) fn forget(&mut self, lost_before_ns: u64) {
        while let Some(packet) = self.packets.front() {
            let acked = self.largest_acked;
            let is_settled = match packet.fate {
                Fate::InFlight => false,
                Fate::Acknowledged | Fate::Discarded => true,
                Fate::Lost => packet.sent_ns < lost_before_ns || self.packets.len() > LOST_MAX,
                Fate::Silent => {
                    acked.is_some_and(|largest| largest > self.first + 3) || self.packets.len() > SILENT_MAX
                }
            };
            if !is_settled {
                break;
            }
            let frames = packet.frames;
            // One or two. `drain` would cost more than they do.
            for _ in 0..frames {
                self.frames.pop_front();
            }
            self.frames_first = self.frames_first.wrapping_add(frames.into());
            self.packets.pop_front();
            self.first += 1;
        }
    }

    /// Bytes kept on the heap.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.packets.capacity() * size_of::<SentPacket>() + self.frames.capacity() * size_of::<SentFrame>()
    }
}
