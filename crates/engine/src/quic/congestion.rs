//! How much may be in flight: NewReno (RFC 9002 section 7), and how fast it is sent (section 7.7).

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
    /// Bytes acknowledged since the window last grew, in congestion avoidance.
    acked: u64,
    datagram: u64,
    /// Bytes that may be sent now, and when that was computed.
    tokens: u64,
    tokens_ns: u64,
}

/// Datagrams that may always be sent at once.
const BURST: u64 = 16;

impl Congestion {
    pub(super) fn new(datagram: u64, now_ns: u64) -> Congestion {
        Congestion {
            window: (10 * datagram).min(14_720.max(2 * datagram)),
            threshold: u64::MAX,
            in_flight: 0,
            recovery_ns: None,
            is_limited: false,
            acked: 0,
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

    #[inline]
    pub(super) fn acked(&mut self, bytes: u64, sent_ns: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if !self.is_limited || self.recovery_ns.is_some_and(|since| sent_ns <= since) {
            return;
        }
        if self.window < self.threshold {
            self.window += bytes;
            return;
        }
        self.acked += bytes;
        if self.acked >= self.window {
            self.acked -= self.window;
            self.window += self.datagram;
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
        self.window = (self.window / 2).max(2 * self.datagram);
        self.threshold = self.window;
        self.acked = 0;
        true
    }

    /// Persistent congestion.
    pub(super) fn collapse(&mut self) {
        self.window = 2 * self.datagram;
        self.recovery_ns = None;
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
    fn window_doubles_halves_and_grows_by_one_datagram() {
        let mut reno = Congestion::new(1200, 0);
        assert_eq!(reno.window, 12_000);
        reno.sent(12_000);
        assert!(!reno.has_room());
        // Sending was not limited by the window, so it stays.
        reno.acked(1200, 1);
        assert_eq!(reno.window, 12_000);
        reno.is_limited = true;
        for _ in 0..9 {
            reno.acked(1200, 1);
        }
        assert_eq!((reno.window, reno.in_flight), (12_000 + 9 * 1200, 0));
        assert!(reno.reduce(5, 10));
        assert!(!reno.reduce(10, 11));
        assert_eq!(reno.window, 11_400);
        reno.sent(24_000);
        for _ in 0..9 {
            reno.acked(1200, 12);
        }
        assert_eq!(reno.window, 11_400);
        reno.acked(1200, 12);
        assert_eq!(reno.window, 12_600);
        // Sent before the reduction.
        reno.acked(12_600, 9);
        assert_eq!(reno.window, 12_600);
        reno.collapse();
        assert_eq!(reno.window, 2400);
    }

    #[test]
    fn pace_is_five_quarters_of_a_window_per_round_trip() {
        const MS: u64 = 1_000_000;
        let mut reno = Congestion::new(1000, 0);
        reno.window = 100_000;
        let (mut now, mut sent) = (0, 0_u64);
        while now < 400 * MS {
            match reno.paced_until(now, 100 * MS) {
                None => {
                    reno.sent(1000);
                    sent += 1000;
                }
                Some(until) => now = until,
            }
        }
        // Four round trips, and the burst at the beginning.
        assert!((515_000..520_000).contains(&sent), "{sent}");
    }
}
