//! A packet number space (RFC 9000 section 12.3): what was sent and received in it, and what of that is to be acknowledged.

use super::ecn::EcnEcho;
use super::ranges::Ranges;
use super::receive::ReceiveHalf;
use super::rtt::GRANULARITY_NS;
use super::send::SendHalf;
use super::sent::Sent;

/// The packet number spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceId {
    Initial,
    Handshake,
    /// Of 0-RTT and 1-RTT packets.
    Data,
}

/// A packet that must be acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) number: u64,
    /// The number expected: one more than the largest received before.
    pub(super) expected: u64,
    /// The ECN bits of its datagram.
    pub(super) ecn: u8,
}

/// Ranges of received packets that are remembered.
const RECEIVED_MAX: usize = 64;
/// How long an acknowledgement may wait for a packet to go with, in ns: the default of `max_ack_delay`, less the two ticks by which a timer
/// may be late: one until its tick, and one until the worker, whose ticks are out of step, wakes.
const ACK_DELAY_NS: u64 = 23_000_000;
/// The first packets of a connection are acknowledged in pairs, so that the server finds its rate. Later ones are acknowledged in groups of
/// `TOGETHER`, or after 1/`RTT_PARTS` of the minimum RTT. As in Chrome (docs/decisions/0072-acknowledge-ten-packets.md).
const EAGER_TO: u64 = 100;
const EAGER_TOGETHER: u32 = 2;
const TOGETHER: u32 = 10;
const RTT_PARTS: u64 = 4;
/// After this many packets that need no acknowledgement, one asks for an acknowledgement.
pub(super) const SILENT_RUN_MAX: u32 = 32;

/// See the module comment.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub(super) next_number: u64,
    /// Packets received.
    received: Ranges,
    /// Smaller numbers count as received.
    received_from: u64,
    /// When the packet with the largest number arrived.
    largest_received_ns: u64,
    /// Packets up to this one need not be acknowledged any more: the peer knows that they were received.
    reported_to: u64,
    /// Packets received since the last acknowledgement that must be acknowledged.
    unacknowledged: u32,
    /// When the next acknowledgement must be sent; `u64::MAX`: never.
    ack_due_ns: u64,
    /// Datagrams received with ECT(0), ECT(1) and CE.
    ecn: [u64; 3],
    pub(super) echo: EcnEcho,
    pub(super) sent: Sent,
    pub(super) crypto_out: SendHalf,
    pub(super) crypto_in: ReceiveHalf,
    /// Packets to be sent because of a probe timeout.
    pub(super) probes: u8,
    /// Packets sent in a row that need no acknowledgement.
    pub(super) silent_run: u32,
}

impl Space {
    /// Forgets everything; buffers stay.
    pub(super) fn clear(&mut self) {
        let (mut received, mut sent, mut crypto_out) = (
            std::mem::take(&mut self.received),
            std::mem::take(&mut self.sent),
            std::mem::take(&mut self.crypto_out),
        );
        received.clear();
        sent.clear();
        crypto_out.open(u64::MAX);
        *self = Space { received, sent, crypto_out, ack_due_ns: u64::MAX, ..Space::default() };
    }

    pub(super) fn new() -> Space {
        let mut space = Space::default();
        space.clear();
        space
    }

    /// One more than the largest number received.
    #[inline]
    pub(super) fn expected(&self) -> u64 {
        self.received.last().map_or(0, |(_, end)| end)
    }

    /// A packet was received; returns whether for the first time.
    #[inline]
    pub(super) fn hear(&mut self, number: u64, now_ns: u64, ecn: u8) -> bool {
        if number < self.received_from || self.received.insert(number, number + 1) == 0 {
            return false;
        }
        // A late packet must be acknowledged even if the acknowledgements of later ones have arrived.
        self.reported_to = self.reported_to.min(number);
        if self.received.len() > RECEIVED_MAX {
            self.received_from = self.received.first().map_or(0, |(_, end)| end);
            self.received.drop_first();
        }
        if self.expected() == number + 1 {
            self.largest_received_ns = now_ns;
        }
        // ECT(1) is 1, ECT(0) 2, CE 3.
        if let Some(counted) = [None, Some(1), Some(0), Some(2)][usize::from(ecn & 3)] {
            self.ecn[counted] += 1;
        }
        true
    }

    /// The packet received last must be acknowledged: at once, or soon. `is_prompt`: at once if several wait.
    #[inline]
    pub(super) fn owe(&mut self, received: Received, now_ns: u64, is_prompt: bool, rtt_min_ns: u64) {
        self.unacknowledged += 1;
        let Received { number, expected, ecn } = received;
        let is_eager = number < EAGER_TO;
        let together = if is_eager { EAGER_TOGETHER } else { TOGETHER };
        if number != expected || ecn & 3 == 3 || is_prompt && self.unacknowledged >= together {
            self.ack_due_ns = 0;
        }
        let delay_ns = match is_prompt && !is_eager {
            true => (rtt_min_ns / RTT_PARTS).clamp(GRANULARITY_NS, ACK_DELAY_NS),
            false => ACK_DELAY_NS,
        };
        self.ack_due_ns = self.ack_due_ns.min(now_ns + delay_ns);
    }

    /// An acknowledgement is due at once.
    pub(super) fn owe_now(&mut self) {
        self.unacknowledged += 1;
        self.ack_due_ns = 0;
    }

    /// What is to be acknowledged soon is due at once.
    pub(super) fn hurry(&mut self) {
        if self.owes() {
            self.ack_due_ns = 0;
        }
    }

    /// When an acknowledgement must be sent; `u64::MAX`: never.
    #[inline]
    pub(super) fn ack_due_ns(&self) -> u64 {
        self.ack_due_ns
    }

    /// Whether there is something to acknowledge.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.unacknowledged > 0
    }

    /// An acknowledgement was sent.
    #[inline]
    pub(super) fn acknowledged(&mut self) {
        (self.unacknowledged, self.ack_due_ns) = (0, u64::MAX);
    }

    /// The ranges to acknowledge as `start..end`, the highest first, and how long ago the largest came.
    #[inline]
    pub(super) fn to_acknowledge(&self, now_ns: u64) -> (impl Iterator<Item = (u64, u64)> + Clone + '_, u64) {
        let from = self.reported_to;
        let ranges = self.received.iter().rev().take_while(move |(_, end)| *end > from);
        (ranges, now_ns.saturating_sub(self.largest_received_ns))
    }

    /// The peer has received an acknowledgement up to this packet.
    #[inline]
    pub(super) fn reported(&mut self, largest: u64) {
        self.reported_to = self.reported_to.max(largest);
    }

    /// The counts of ECN marks, if there were any.
    #[inline]
    pub(super) fn ecn(&self) -> Option<[u64; 3]> {
        (self.ecn != [0; 3]).then_some(self.ecn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Receives packets 0.5 ms apart from `number` on until an acknowledgement is due at once; returns how many.
    fn until_due(space: &mut Space, number: u64, is_prompt: bool, rtt_min_ns: u64) -> u64 {
        for count in 1..=40 {
            let (number, now_ns) = (number + count - 1, count * MS / 2);
            let received = Received { number, expected: number, ecn: 0 };
            space.owe(received, now_ns, is_prompt, rtt_min_ns);
            if space.ack_due_ns() <= now_ns {
                space.acknowledged();
                return count;
            }
        }
        u64::MAX
    }

    #[test]
    fn a_body_is_acknowledged_in_pairs_and_then_in_tens() {
        let mut space = Space::new();
        assert_eq!(until_due(&mut space, 0, true, 80 * MS), 2);
        assert_eq!(until_due(&mut space, 98, true, 80 * MS), 2);
        assert_eq!(until_due(&mut space, 100, true, 80 * MS), 10);
        // A quarter of a round trip of 8 ms after the first; but not sooner than the granularity of timers.
        assert_eq!(until_due(&mut space, 110, true, 8 * MS), 1 + 4);
        assert_eq!(until_due(&mut space, 120, true, MS / 10), 1 + 2);
        // Nothing more is awaited: the next packet sent carries the acknowledgement.
        assert_eq!(until_due(&mut space, 130, false, MS), u64::MAX);
        assert_eq!(space.ack_due_ns(), MS / 2 + ACK_DELAY_NS);
    }

    #[test]
    fn a_gap_and_a_mark_of_congestion_are_acknowledged_at_once() {
        for (expected, ecn) in [(499, 0), (500, 3)] {
            let mut space = Space::new();
            space.owe(Received { number: 500, expected, ecn }, MS, false, 20 * MS);
            assert_eq!(space.ack_due_ns(), 0);
        }
    }
}
