//! The round-trip time (RFC 9002 section 5).

/// Granularity of timers, in ns (RFC 9002 section 6.1.2).
pub(super) const GRANULARITY_NS: u64 = 1_000_000;
/// Round-trip time assumed before the first sample, in ns.
const INITIAL_NS: u64 = 333_000_000;

/// See the module comment; all in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    pub(super) latest: u64,
    pub(super) smoothed: u64,
    variation: u64,
    /// `u64::MAX` before the first sample.
    pub(super) min: u64,
    /// When the first sample was taken.
    pub(super) first_sample_at: Option<u64>,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt {
            latest: 0,
            smoothed: INITIAL_NS,
            variation: INITIAL_NS / 2,
            min: u64::MAX,
            first_sample_at: None,
        }
    }
}

impl Rtt {
    /// A sample; `delay`: the acknowledgement delay that the peer reports, at most its `max_ack_delay`.
    #[inline]
    pub(super) fn sample(&mut self, latest: u64, delay: u64, now_ns: u64) {
        self.latest = latest;
        self.min = self.min.min(latest);
        if self.first_sample_at.is_none() {
            self.first_sample_at = Some(now_ns);
            (self.smoothed, self.variation) = (latest, latest / 2);
            return;
        }
        let adjusted = if latest >= self.min + delay { latest - delay } else { latest };
        let off = self.smoothed.abs_diff(adjusted);
        self.variation = (3 * self.variation + off) / 4;
        self.smoothed = (7 * self.smoothed + adjusted) / 8;
    }

    /// Probe timeout without the peer's delay and without backoff.
    #[inline]
    pub(super) fn probe_timeout(&self) -> u64 {
        self.smoothed + (4 * self.variation).max(GRANULARITY_NS)
    }

    /// A packet is lost if it was sent this long ago, and a later one was acknowledged (RFC 9002 section 6.1.2).
    #[inline]
    pub(super) fn loss_delay(&self) -> u64 {
        (self.latest.max(self.smoothed) * 9 / 8).max(GRANULARITY_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_standards_formulas() {
        const MS: u64 = 1_000_000;
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_timeout(), 999 * MS);
        rtt.sample(100 * MS, 20 * MS, 5);
        assert_eq!((rtt.smoothed, rtt.variation, rtt.min), (100 * MS, 50 * MS, 100 * MS));
        rtt.sample(140 * MS, 20 * MS, 9);
        assert_eq!((rtt.smoothed, rtt.variation), ((700 + 120) * MS / 8, (150 + 20) * MS / 4));
        // A delay that would bring the sample below the minimum is ignored.
        rtt.sample(101 * MS, 20 * MS, 9);
        assert_eq!((rtt.latest, rtt.min), (101 * MS, 100 * MS));
        assert_eq!(rtt.loss_delay(), rtt.smoothed.max(101 * MS) * 9 / 8);
        assert_eq!(rtt.first_sample_at, Some(5));
    }
}
