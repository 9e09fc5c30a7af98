//! How much may be in flight (RFC 9002 section 7, with the growth of [`Cubic`]), and how fast it is sent (section 7.7).

use super::cubic::Cubic;

/// See the module comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Congestion {
    pub(super) window: u64,
    threshold: u64,
    pub(super) in_flight: u64,
    /// Packets sent before this belong to the current recovery period.
    recovery_ns: Option<u64>,
    /// Sending stopped because of the window, so that it may grow.
    pub(super) is_limited: bool,
    cubic: Cubic,
    datagram: u64,
    /// Bytes that may be sent now, and when that was computed.
    tokens: u64,
    tokens_ns: u64,
}

/// Datagrams that may always be sent at once.
const BURST: u64 = 16;
/// Bytes of a stream that are kept until they are acknowledged: at least, and at most.
const KEPT: (u64, u64) = (256 << 10, 4 << 20);

impl Congestion {
    pub(super) fn new(datagram: u64, now_ns: u64) -> Congestion {
        Congestion {
            window: (10 * datagram).min(14_720.max(2 * datagram)),
            threshold: u64::MAX,
            in_flight: 0,
            recovery_ns: None,
            is_limited: false,
            cubic: Cubic::default(),
            datagram,
            tokens: BURST * datagram,
            tokens_ns: now_ns,
        }
    }

    /// The size of datagrams that the path carries has changed.
    pub(super) fn set_datagram(&mut self, datagram: u64) {
        self.datagram = datagram;
        self.window = self.window.max(2 * datagram);
    }

    /// Whether a datagram may be sent.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.in_flight + self.datagram <= self.window
    }

    #[inline]
    pub(super) fn sent(&mut self, bytes: u64) {
        self.in_flight += bytes;
        self.tokens = self.tokens.saturating_sub(bytes);
    }

    /// How many bytes of a stream to keep: two windows, so that the next is there when the first is acknowledged.
    #[inline]
    pub(super) fn kept_max(&self) -> usize {
        (2 * self.window).clamp(KEPT.0, KEPT.1) as usize
    }

    #[inline]
    pub(super) fn acked(&mut self, bytes: u64, sent_ns: u64, now_ns: u64, smoothed_ns: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if self.recovery_ns.is_some_and(|since| sent_ns <= since) {
            return;
        }
        if self.window < self.threshold {
            self.window += if self.is_limited { bytes } else { 0 };
        } else if self.is_limited {
            self.window = self.cubic.grown(self.window, bytes, self.datagram, now_ns, smoothed_ns);
        } else {
            self.cubic.is_idle(now_ns);
        }
    }

    /// No longer in flight, without being lost or acknowledged.
    pub(super) fn discarded(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// A packet sent at `sent_ns` was lost, or marked. Returns whether that reduced the window.
    pub(super) fn reduce(&mut self, sent_ns: u64, now_ns: u64) -> bool {
        if self.recovery_ns.is_some_and(|since| sent_ns <= since) {
            return false;
        }
        self.recovery_ns = Some(now_ns);
        self.window = self.cubic.reduced(self.window, self.datagram, now_ns);
        self.threshold = self.window;
        true
    }

    /// Persistent congestion.
    pub(super) fn collapse(&mut self) {
        self.window = 2 * self.datagram;
        self.recovery_ns = None;
        self.cubic.forget();
    }

    /// Sending waits for its pace. At 5/4 of a window per round trip that uses the window up, unless there is little to send.
    #[inline]
    pub(super) fn waits_for_pace(&mut self) {
        self.is_limited |= self.in_flight >= self.window / 2;
    }

    /// When the next datagram may be sent, if not now.
    #[inline]
    pub(super) fn paced_until(&mut self, now_ns: u64, smoothed_ns: u64) -> Option<u64> {
        if self.tokens >= self.datagram && self.tokens > self.window / 2 {
            return None;
        }
        // Bytes per ns: 5/4 of the window per round trip.
        let smoothed = smoothed_ns.max(1) as u128;
        let rate = |ns: u64| (u128::from(self.window) * u128::from(ns) * 5 / 4 / smoothed) as u64;
        // What accumulates in two ticks of 1 ms may be sent at once.
        let most = rate(2_000_000).max(BURST * self.datagram);
        self.tokens = self.tokens.saturating_add(rate(now_ns.saturating_sub(self.tokens_ns))).min(most);
        self.tokens_ns = now_ns;
        let missing = self.datagram.saturating_sub(self.tokens);
        if missing == 0 {
            return None;
        }
        let wait = u128::from(missing) * smoothed * 4 / 5 / u128::from(self.window.max(1));
        Some(now_ns + wait as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_doubles_shrinks_and_grows_as_it_is_used() {
        let mut congestion = Congestion::new(1200, 0);
        assert_eq!(congestion.window, 12_000);
        congestion.sent(12_000);
        assert!(!congestion.has_room());
        // Sending was not limited by the window, so it stays.
        congestion.acked(1200, 1, 2, 1);
        assert_eq!(congestion.window, 12_000);
        congestion.is_limited = true;
        for _ in 0..9 {
            congestion.acked(1200, 1, 2, 1);
        }
        assert_eq!((congestion.window, congestion.in_flight), (12_000 + 9 * 1200, 0));
        assert!(congestion.reduce(5, 10));
        assert!(!congestion.reduce(10, 11));
        assert_eq!(congestion.window, 15_960, "7/10");
        // At first as Reno with this reduction: 9/17 of a datagram for a window.
        congestion.sent(15_960);
        congestion.acked(15_960, 12, 13, 1);
        assert_eq!(congestion.window, 15_960 + 635);
        // Sent before the reduction.
        congestion.acked(12_600, 9, 13, 1);
        assert_eq!(congestion.window, 16_595);
        assert_eq!((congestion.kept_max(), congestion.collapse(), congestion.window), (256 << 10, (), 2400));
        congestion.window = 3_000_000;
        assert_eq!(congestion.kept_max(), 4 << 20);
    }

    #[test]
    fn a_pace_limits_only_where_the_window_is_used_up() {
        let mut congestion = Congestion::new(1200, 0);
        congestion.sent(1200);
        congestion.waits_for_pace();
        assert!(!congestion.is_limited);
        congestion.sent(6000);
        congestion.waits_for_pace();
        assert!(congestion.is_limited);
    }

    #[test]
    fn pace_is_five_quarters_of_a_window_per_round_trip() {
        const MS: u64 = 1_000_000;
        let mut congestion = Congestion::new(1000, 0);
        congestion.window = 100_000;
        let (mut now, mut sent) = (0, 0_u64);
        while now < 400 * MS {
            match congestion.paced_until(now, 100 * MS) {
                None => {
                    congestion.sent(1000);
                    sent += 1000;
                }
                Some(until) => now = until,
            }
        }
        // Four round trips, and the burst at the beginning.
        assert!((515_000..520_000).contains(&sent), "{sent}");
    }
}
