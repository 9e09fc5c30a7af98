//! The size of datagrams (RFC 9000 section 14.3): 1,200 bytes, until a larger probe is acknowledged. Sizes are tried from the largest
//! down, as most paths carry the largest, and only by connections that fill datagrams.

/// The size that every path must carry for QUIC.
pub(super) const BASE: u16 = 1200;
/// Sizes tried below the largest: Ethernet with IPv6, tunnels, the least that IPv6 allows.
const SIZES: [u16; 3] = [1452, 1400, 1232];
/// How often a size is tried.
const TRIES: u8 = 3;
/// After this many consecutive losses of datagrams above the base size, the path is assumed not to carry them any more.
const BLACK_HOLE: u8 = 6;

/// See the module comment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mtu {
    pub(super) current: u16,
    /// What to try next; 0: nothing.
    candidate: u16,
    tries: u8,
    is_in_flight: bool,
    /// A full datagram was sent since the last probe.
    pub(super) is_filled: bool,
    lost_in_a_row: u8,
}

impl Mtu {
    pub(super) fn new(max: u16, probes: bool) -> Mtu {
        let candidate = if probes && max > BASE { max } else { 0 };
        Mtu { current: BASE, candidate, tries: 0, is_in_flight: false, is_filled: false, lost_in_a_row: 0 }
    }

    /// The peer's limit.
    pub(super) fn limit(&mut self, max: u16) {
        self.candidate = if self.candidate > max.max(BASE) { max } else { self.candidate };
        self.candidate = if self.candidate > BASE { self.candidate } else { 0 };
    }

    /// The size of a probe to send now.
    #[inline]
    pub(super) fn probe(&self) -> Option<u16> {
        (self.is_filled && self.candidate > self.current && !self.is_in_flight).then_some(self.candidate)
    }

    pub(super) fn probe_sent(&mut self) {
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
    pub(super) fn acked(&mut self, bytes: u16) {
        if bytes > BASE {
            self.lost_in_a_row = 0;
        }
    }

    /// A datagram was lost. Returns whether the size falls back to the base size.
    pub(super) fn lost(&mut self, bytes: u16) -> bool {
        if bytes <= BASE || self.current == BASE {
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
        *self = Mtu::new(BASE, false);
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
            mtu.probe_sent();
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
        for _ in 0..5 {
            assert!(!mtu.lost(1400));
        }
        mtu.acked(1400);
        assert!((0..5).all(|_| !mtu.lost(1400)) && mtu.lost(1400));
        assert_eq!((mtu.current, mtu.probe()), (1200, None));
        let mut limited = Mtu::new(1472, true);
        limited.limit(1300);
        limited.is_filled = true;
        assert_eq!(limited.probe(), Some(1300));
        limited.limit(1200);
        assert_eq!(limited.probe(), None);
    }
}
