//! A path between client and server that loses, delays, duplicates, reorders and marks datagrams, by seed.

use std::collections::BTreeMap;

use crate::draws::Draws;

/// A datagram on its way.
#[derive(Clone, Debug)]
pub(super) struct Flying {
    pub(super) is_to_server: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) ecn: u8,
}

/// See the module comment. Shares are of 1,000.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) draws: Draws,
    pub(super) latency_ns: u64,
    pub(super) jitter_ns: u64,
    pub(super) loss: u64,
    pub(super) duplicates: u64,
    pub(super) marks: u64,
    /// Marks are removed.
    pub(super) bleaches: bool,
    pub(super) mtu: usize,
    /// Datagrams by the instant when they arrive, and the order in which they were sent.
    pub(super) flying: BTreeMap<(u64, u64), Flying>,
    sent: u64,
    pub(super) lost: u64,
    pub(super) too_long: u64,
    /// Datagrams that are too long do not leave the client's host, which says so.
    pub(super) is_narrow_at_client: bool,
    /// Bytes of datagrams that the client sent.
    pub(super) left: u64,
    pub(super) duplicated: u64,
    /// Datagrams and bytes that arrived at the client.
    pub(super) arrived: (u64, u64),
}

impl Path {
    pub(super) fn new(seed: u64, latency_ns: u64) -> Path {
        Path {
            draws: Draws(seed),
            latency_ns,
            jitter_ns: 0,
            loss: 0,
            duplicates: 0,
            marks: 0,
            bleaches: false,
            mtu: 65_535,
            flying: BTreeMap::new(),
            sent: 0,
            lost: 0,
            too_long: 0,
            is_narrow_at_client: false,
            left: 0,
            duplicated: 0,
            arrived: (0, 0),
        }
    }

    pub(super) fn send(&mut self, now_ns: u64, is_to_server: bool, bytes: &[u8], ecn: u8) {
        self.left += if is_to_server { bytes.len() as u64 } else { 0 };
        if bytes.len() > self.mtu {
            self.too_long += 1;
            return;
        }
        if self.draws.per_mille(self.loss) {
            self.lost += 1;
            return;
        }
        let marked = if ecn != 0 && self.draws.per_mille(self.marks) { 3 } else { ecn };
        let ecn = if self.bleaches { 0 } else { marked };
        let copies = 1 + u64::from(self.draws.per_mille(self.duplicates));
        self.duplicated += copies - 1;
        for _ in 0..copies {
            let jitter = if self.jitter_ns > 0 { self.draws.below(self.jitter_ns) } else { 0 };
            self.sent += 1;
            let flying = Flying { is_to_server, bytes: bytes.to_vec(), ecn };
            self.flying.insert((now_ns + self.latency_ns + jitter, self.sent), flying);
        }
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.flying.keys().next().map(|(at, _)| *at)
    }

    /// The next datagram that has arrived.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<Flying> {
        let first = self.flying.first_entry().filter(|entry| entry.key().0 <= now_ns)?;
        let flying = first.remove();
        if !flying.is_to_server {
            self.arrived.0 += 1;
            self.arrived.1 += flying.bytes.len() as u64;
        }
        Some(flying)
    }
}
