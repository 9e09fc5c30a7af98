//! The size of datagrams (RFC 9000 section 14.3): 1,200 bytes, until a larger probe is acknowledged. Sizes are tried from the largest
//! down, as most paths carry the largest, and only by connections that fill datagrams.

/// The size that every path must carry for QUIC.
pub(super) const BASE: u16 = 1200;
/// Sizes tried below the largest: Ethernet with IPv6, tunnels, the least that IPv6 allows.
const SIZES: [u16; 3] = [1452, 1400, 1232];
/// How often a size is tried.
const TRIES: u8 = 3;
/// After this many losses of datagrams above the base size, each sent after all those that arrived, the path is assumed not to carry them
/// any more.
const BLACK_HOLE: u8 = 6;
/// How often sizes are tried again after a fall back to the base size (RFC 8899 section 4.3).
const RETURNS_MAX: u8 = 3;

/// See the module comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mtu {
    pub(super) current: u16,
    /// What to try next; 0: nothing.
    candidate: u16,
    tries: u8,
    is_in_flight: bool,
    /// Bytes of padding in the last probe.
    pub(super) probe_padding: u64,
    /// A full datagram was sent since the last probe.
    pub(super) is_filled: bool,
    lost_in_a_row: u8,
    /// Number of the last packet above the base size that arrived.
    arrived: u64,
    /// The largest size to try, and how often it may be tried again.
    max: u16,
    returns: u8,
}

impl Mtu {
    pub(super) fn new(max: u16, probes: bool) -> Mtu {
        let max = if probes && max > BASE { max } else { 0 };
        Mtu {
            current: BASE,
            candidate: max,
            tries: 0,
            is_in_flight: false,
            probe_padding: 0,
            is_filled: false,
            lost_in_a_row: 0,
            arrived: 0,
            max,
            returns: RETURNS_MAX,
        }
    }

    /// The peer's limit.
    pub(super) fn limit(&mut self, max: u16) {
        self.max = if self.max.min(max) > BASE { self.max.min(max) } else { 0 };
        self.candidate = self.candidate.min(self.max);
    }

    /// The size of a probe to send now.
    #[inline]
    pub(super) fn probe(&self) -> Option<u16> {
        (self.is_filled && self.candidate > self.current && !self.is_in_flight).then_some(self.candidate)
    }

    pub(super) fn probe_sent(&mut self, padding: u64) {
        self.probe_padding = padding;
        (self.is_in_flight, self.is_filled) = (true, false);
        self.tries += 1;
    }

    /// Returns whether the size is new.
    pub(super) fn probe_acked(&mut self, bytes: u16) -> bool {
        let is_larger = bytes > self.current;
        self.current = self.current.max(bytes);
        (self.is_in_flight, self.candidate, self.lost_in_a_row) = (false, 0, 0);
        is_larger
    }

    pub(super) fn probe_lost(&mut self) {
        self.is_in_flight = false;
        if self.tries >= TRIES {
            self.tries = 0;
            let tried = self.candidate;
            self.candidate =
                SIZES.into_iter().find(|size| *size < tried && *size > self.current).unwrap_or(0);
        }
    }

    #[inline]
    pub(super) fn acked(&mut self, number: u64, bytes: u16) {
        if bytes > BASE {
            self.lost_in_a_row = 0;
            self.arrived = self.arrived.max(number);
        }
    }

    /// A datagram was lost. Returns whether the size falls back to the base size. If a later one of more than that arrived, the cause was
    /// congestion.
    pub(super) fn lost(&mut self, number: u64, bytes: u16) -> bool {
        if bytes <= BASE || self.current == BASE || number < self.arrived {
            return false;
        }
        self.lost_in_a_row += 1;
        self.lost_in_a_row >= BLACK_HOLE && self.fall_back()
    }

    /// Falls back to the base size: nothing arrives, perhaps because of the size. Returns whether that is a change.
    pub(super) fn fall_back(&mut self) -> bool {
        if self.current == BASE {
            return false;
        }
        let (max, returns) = (self.max, self.returns);
        let candidate = if returns > 0 { max } else { 0 };
        let returns = returns.saturating_sub(1);
        *self = Mtu { candidate, max, returns, arrived: self.arrived, ..Mtu::new(BASE, false) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_sizes_from_the_largest_down() {
        let mut mtu = Mtu::new(1472, true);
        assert_eq!(mtu.probe(), None);
        let mut tried = Vec::new();
        loop {
            mtu.is_filled = true;
            let Some(size) = mtu.probe() else { break };
            mtu.probe_sent(0);
            assert_eq!(mtu.probe(), None);
            tried.push(size);
            if size <= 1400 {
                assert!(mtu.probe_acked(size));
            } else {
                mtu.probe_lost();
            }
        }
        assert_eq!(tried, [1472, 1472, 1472, 1452, 1452, 1452, 1400]);
        assert_eq!(mtu.current, 1400);
        let mut limited = Mtu::new(1472, true);
        limited.limit(1300);
        limited.is_filled = true;
        assert_eq!(limited.probe(), Some(1300));
        limited.limit(1200);
        assert_eq!(limited.probe(), None);
    }

    /// A path that carries 1,472 bytes.
    fn large() -> Mtu {
        let mut mtu = Mtu::new(1472, true);
        mtu.is_filled = true;
        mtu.probe_sent(0);
        assert!(mtu.probe_acked(1472));
        mtu
    }

    #[test]
    fn a_burst_of_losses_is_no_black_hole_if_later_datagrams_arrive() {
        let mut mtu = large();
        mtu.acked(60, 1472);
        assert!((10..60).all(|number| !mtu.lost(number, 1472)));
        // Small datagrams say nothing of large ones.
        mtu.acked(100, 1200);
        assert!((61..66).all(|number| !mtu.lost(number, 1472)));
        mtu.acked(66, 1472);
        assert!((67..72).all(|number| !mtu.lost(number, 1472)));
        assert!(mtu.lost(72, 1472));
        assert_eq!(mtu.current, 1200);
    }

    #[test]
    fn sizes_are_tried_again_three_times_after_a_fall() {
        let mut mtu = large();
        for falls in 1..=4 {
            assert!(mtu.fall_back() && !mtu.fall_back());
            mtu.is_filled = true;
            assert_eq!(mtu.probe(), (falls <= 3).then_some(1472));
            mtu.probe_sent(0);
            mtu.probe_acked(1472);
        }
    }
}
