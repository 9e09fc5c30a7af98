//! One direction of a path: which packets are lost, and when the others are due. No I/O, no clock: times, in nanoseconds, are the caller's.
//!
//! Losses are drawn from a seed, one number per packet: the same packets in the same order have the same losses. Jitter is drawn
//! separately, so that it changes no loss. Packets never overtake each other: one that takes longer delays those after it.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use webstone_measure::host_use::DirectionUse;
use webstone_measure::units::Bandwidth;
use webstone_model::network_path::PathSpec;
use webstone_workload::tls::Share;

/// How long a packet may wait for the rate of the path: what would wait longer finds the queue full.
const QUEUE_NS_MAX: u64 = 100_000_000;
/// Most bytes that wait at a time: the relay's memory.
const WAITING_BYTES_MAX: usize = 512 << 20;
/// Most buffers that are kept for later packets.
const FREE_MAX: usize = 4096;

/// Jitter is drawn by another seed than losses.
const JITTER_SEED: u64 = 0xd1b5_4a32_d192_ed03;

/// See the module comment.
pub(super) struct Direction {
    delay_ns: u64,
    jitter_ns: u64,
    loss: Share,
    rate: Option<Bandwidth>,
    draws: Xoshiro256PlusPlus,
    jitter_draws: Xoshiro256PlusPlus,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    free: Vec<Vec<u8>>,
    /// When the path has sent everything that it took, at its rate.
    idle_from_ns: u64,
    pub(super) counted: DirectionUse,
}

struct Waiting {
    packet: Vec<u8>,
    due_ns: u64,
    /// How late it was read.
    late_ns: u64,
}

impl Direction {
    pub(super) fn new(path: PathSpec, seed: u64) -> Direction {
        Direction {
            delay_ns: path.delay().0,
            jitter_ns: path.jitter.0,
            loss: path.loss,
            rate: path.rate,
            draws: Xoshiro256PlusPlus::seed_from_u64(seed),
            jitter_draws: Xoshiro256PlusPlus::seed_from_u64(seed ^ JITTER_SEED),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free: Vec::new(),
            idle_from_ns: 0,
            counted: DirectionUse::default(),
        }
    }

    /// Takes a packet that was read now, and that may have been there since `since_ns`.
    pub(super) fn take(&mut self, packet: &[u8], since_ns: u64, now_ns: u64) {
        // The remainder prefers small numbers by one in 10^15.
        if self.loss.has((self.draws.next_u64() % 10_000) as u16) {
            self.counted.lost += 1;
            return;
        }
        let sent_ns = match self.rate {
            None => now_ns,
            Some(rate) => self.idle_from_ns.max(now_ns) + rate.time_of(packet.len() as u64).0,
        };
        if sent_ns - now_ns > QUEUE_NS_MAX || self.waiting_bytes + packet.len() > WAITING_BYTES_MAX {
            self.counted.queue_full += 1;
            return;
        }
        self.idle_from_ns = sent_ns;
        self.waiting_bytes += packet.len();
        let mut kept = self.free.pop().unwrap_or_default();
        kept.extend_from_slice(packet);
        let late_ns = now_ns.saturating_sub(since_ns);
        let due_ns = sent_ns + self.delay_ns + self.drawn_jitter_ns();
        let due_ns = due_ns.max(self.waiting.back().map_or(0, |before| before.due_ns));
        self.waiting.push_back(Waiting { packet: kept, due_ns, late_ns });
    }

    /// From zero to the jitter, evenly.
    fn drawn_jitter_ns(&mut self) -> u64 {
        if self.jitter_ns == 0 {
            return 0;
        }
        ((u128::from(self.jitter_draws.next_u64()) * u128::from(self.jitter_ns + 1)) >> 64) as u64
    }

    /// When the next packet is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.waiting.front().map(|next| next.due_ns)
    }

    /// The next packet, if it is due.
    pub(super) fn next(&self, now_ns: u64) -> Option<&[u8]> {
        self.waiting.front().filter(|next| next.due_ns <= now_ns).map(|next| next.packet.as_slice())
    }

    /// The next packet has left.
    pub(super) fn left(&mut self, now_ns: u64) {
        let Some(Waiting { mut packet, due_ns, late_ns }) = self.waiting.pop_front() else { return };
        let late_ns = late_ns + now_ns.saturating_sub(due_ns);
        self.counted.packets += 1;
        self.counted.bytes += packet.len() as u64;
        self.counted.late_ns += late_ns;
        self.counted.late_ns_max = self.counted.late_ns_max.max(late_ns);
        self.waiting_bytes -= packet.len();
        if self.free.len() < FREE_MAX {
            packet.clear();
            self.free.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(path: &str, seed: u64) -> Direction {
        Direction::new(path.parse().unwrap(), seed)
    }

    #[test]
    fn packets_leave_half_a_round_trip_later_in_their_order() {
        let mut direction = direction("rtt=20ms", 1);
        direction.take(b"one", 100, 100);
        direction.take(b"three", 150, 200);
        assert_eq!((direction.due_ns(), direction.next(10_000_099)), (Some(10_000_100), None));
        assert_eq!(direction.next(10_000_100), Some(&b"one"[..]));
        direction.left(10_000_100);
        assert_eq!(direction.next(10_000_230), Some(&b"three"[..]));
        // Read 50 ns after it came, sent 30 ns after it was due.
        direction.left(10_000_230);
        let counted =
            DirectionUse { packets: 2, bytes: 8, late_ns: 80, late_ns_max: 80, ..DirectionUse::default() };
        assert_eq!((direction.due_ns(), direction.counted, direction.waiting_bytes), (None, counted, 0));
    }

    #[test]
    fn a_seed_decides_what_is_lost_and_the_share_is_as_set() {
        let lost = |seed: u64| {
            let mut direction = direction("rtt=0,loss=1%", seed);
            let mut lost = Vec::new();
            for number in 0..100_000_u64 {
                let before = direction.counted.lost;
                direction.take(b"x", 0, 0);
                if direction.counted.lost > before {
                    lost.push(number);
                }
            }
            lost
        };
        let (first, other) = (lost(7), lost(8));
        assert_eq!(first, lost(7));
        assert_ne!(first, other);
        // Six standard deviations of a binomial distribution.
        for lost in [first, other] {
            assert!((811..1190).contains(&lost.len()), "{}", lost.len());
        }
    }

    #[test]
    fn jitter_is_even_keeps_the_order_and_changes_no_loss() {
        let lost_and_delays = |path: &str, gap_ns: u64| {
            let mut direction = direction(path, 7);
            let (mut lost, mut delays) = (Vec::new(), Vec::new());
            for number in 0..10_000_u64 {
                let at_ns = number * gap_ns;
                direction.take(b"x", at_ns, at_ns);
                match direction.waiting.back() {
                    None => lost.push(number),
                    Some(last) => {
                        delays.push(last.due_ns - at_ns);
                        // Far apart, none keeps another back.
                        if gap_ns > 10_000_000 {
                            direction.waiting.clear();
                        }
                    }
                }
            }
            (lost, delays)
        };
        let apart = 100_000_000;
        let (lost, delays) = lost_and_delays("rtt=20ms,jitter=8ms,loss=1%", apart);
        assert_eq!(lost, lost_and_delays("rtt=20ms,loss=1%", apart).0);
        assert!(delays.iter().all(|delay| (10_000_000..=18_000_000).contains(delay)));
        let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
        // Six standard errors: 8 ms / √12 / √9,900.
        assert!((mean - 14e6).abs() < 6.0 * 23_211.0, "{mean}");
        assert_eq!(delays, lost_and_delays("rtt=20ms,jitter=8ms,loss=1%", apart).1);
        let (_, dense) = lost_and_delays("rtt=20ms,jitter=8ms", 1_000);
        assert!(
            (1..dense.len()).all(|n| dense[n] + 1_000 >= dense[n - 1]),
            "none leaves before the one before it"
        );
    }

    #[test]
    fn a_rate_spaces_packets_and_its_queue_is_a_tenth_of_a_second() {
        // 1,000 bytes take 8 ms.
        let mut direction = direction("rtt=2ms,rate=1m", 1);
        for _ in 0..20 {
            direction.take(&[0; 1_000], 0, 0);
        }
        assert_eq!((direction.waiting.len(), direction.counted.queue_full), (12, 8));
        for number in 1..=12 {
            let due_ns = direction.due_ns().unwrap();
            assert_eq!(due_ns, 8_000_000 * number + 1_000_000);
            direction.left(due_ns);
        }
        direction.take(&[0; 1_000], 200_000_000, 200_000_000);
        assert_eq!(direction.due_ns(), Some(209_000_000), "an idle path begins at once");
        assert_eq!(direction.counted.late_ns, 0);
    }
}
