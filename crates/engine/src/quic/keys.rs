//! Protection of packets (RFC 9001 sections 5 and 6): in place, with keys of rustls. Changes of keys and their limits.

use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};
use rustls::{Side, SupportedCipherSuite};

use super::packet::{PHASE, TAG_BYTES, whole_number};
use super::settings::Version;

/// Keys of Initial packets, made from the first destination connection ID.
pub(super) fn initial(version: Version, destination: &[u8], side: Side) -> Keys {
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        unreachable!("the suite is one of TLS 1.3");
    };
    let quic = suite.quic.expect("the suite has keys of QUIC");
    Keys::initial(version.of_rustls(), suite, quic, destination, side)
}

/// Encrypts a packet in place. Its number is at `number_at`, its plaintext ends `TAG_BYTES` before its end.
#[inline]
pub(super) fn seal(
    header: &dyn HeaderProtectionKey,
    key: &dyn PacketKey,
    packet: &mut [u8],
    number_at: usize,
    number_bytes: usize,
    number: u64,
) {
    const WHY: &str = "the packet has room for a tag, and is shorter than what a cipher may encrypt";
    let (head, rest) = packet.split_at_mut(number_at + number_bytes);
    let (payload, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
    tag.copy_from_slice(key.encrypt_in_place(number, head, payload).expect(WHY).as_ref());
    let (first, rest) = packet.split_first_mut().expect(WHY);
    let (head, sample) = rest.split_at_mut(number_at - 1 + 4);
    let number = &mut head[number_at - 1..][..number_bytes];
    header.encrypt_in_place(&sample[..16], first, number).expect(WHY);
}

/// A packet whose head is no longer protected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bared {
    pub(super) number: u64,
    pub(super) number_bytes: usize,
    pub(super) first: u8,
}

/// Takes the protection off the head of a packet that is long enough for it.
#[inline]
pub(super) fn bare(
    header: &dyn HeaderProtectionKey,
    packet: &mut [u8],
    number_at: usize,
    expected: u64,
) -> Option<Bared> {
    let (head, sample) = packet.split_at_mut(number_at + 4);
    let (first, rest) = head.split_first_mut()?;
    header.decrypt_in_place(sample.get(..16)?, first, &mut rest[number_at - 1..]).ok()?;
    let number_bytes = usize::from(*first & 3) + 1;
    let digits = &rest[number_at - 1..][..number_bytes];
    let truncated = digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit));
    Some(Bared { number: whole_number(truncated, number_bytes, expected), number_bytes, first: *first })
}

/// Decrypts a packet in place; `None` if it is not authentic.
#[inline]
pub(super) fn open<'a>(
    key: &dyn PacketKey,
    packet: &'a mut [u8],
    number_at: usize,
    bared: &Bared,
) -> Option<&'a [u8]> {
    let (head, payload) = packet.split_at_mut(number_at + bared.number_bytes);
    key.decrypt_in_place(bared.number, head, payload).ok()
}

/// Keys of 1-RTT packets.
pub(super) struct OneRtt {
    pub(super) header: Box<dyn HeaderProtectionKey>,
    pub(super) local: Box<dyn PacketKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    remote: Box<dyn PacketKey>,
    /// Of the phase before, for packets that come late.
    previous: Option<Box<dyn PacketKey>>,
    /// Of the phase after; made when a packet seems to need them.
    next: Option<PacketKeySet>,
    secrets: Secrets,
    pub(super) phase: bool,
    /// Smallest number received in this phase.
    first_received: u64,
    /// Number of the first packet sent in this phase; `None`: none yet.
    first_sent: Option<u64>,
    /// Packets sent in this phase.
    sent: u64,
    /// A packet sent in this phase was acknowledged.
    is_acknowledged: bool,
    /// A packet received in this phase was acknowledged in one sent in it.
    has_acknowledged: bool,
    updates: u64,
}

/// What became of a packet of 1-RTT keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// Decrypted: its number, and where its frames are.
    Whole {
        number: u64,
        start: usize,
        end: usize,
    },
    NotAuthentic,
    /// With keys that the peer must not use yet.
    TooEarly,
    /// It has bits set that must be 0.
    Reserved,
}

impl OneRtt {
    pub(super) fn new(keys: Keys, secrets: Secrets) -> OneRtt {
        OneRtt {
            header: keys.local.header,
            local: keys.local.packet,
            remote_header: keys.remote.header,
            remote: keys.remote.packet,
            previous: None,
            next: None,
            secrets,
            phase: false,
            first_received: u64::MAX,
            first_sent: None,
            sent: 0,
            is_acknowledged: false,
            has_acknowledged: false,
            updates: 0,
        }
    }

    /// Decrypts a short packet in place, and follows the peer to new keys.
    #[inline]
    pub(super) fn open(&mut self, packet: &mut [u8], expected: u64) -> Opened {
        let Some(bared) = bare(&*self.remote_header, packet, 1, expected) else {
            return Opened::NotAuthentic;
        };
        let is_current = (bared.first & PHASE != 0) == self.phase;
        let is_late = !is_current && bared.number < self.first_received;
        let key = match (is_current, is_late, &self.previous) {
            (true, ..) => &self.remote,
            (false, true, Some(previous)) => previous,
            (false, true, None) => return Opened::NotAuthentic,
            (false, false, _) => &self.next.get_or_insert_with(|| self.secrets.next_packet_keys()).remote,
        };
        let start = 1 + bared.number_bytes;
        let Some(plain) = open(&**key, packet, 1, &bared) else { return Opened::NotAuthentic };
        let end = start + plain.len();
        if bared.first & 0x18 != 0 {
            return Opened::Reserved;
        }
        if is_current {
            self.first_received = self.first_received.min(bared.number);
        } else if !is_late {
            // RFC 9001 section 6.1: not before this phase was acknowledged to the peer.
            if self.updates > 0 && !self.has_acknowledged {
                return Opened::TooEarly;
            }
            self.turn();
            self.first_received = bared.number;
        }
        Opened::Whole { number: bared.number, start, end }
    }

    fn turn(&mut self) {
        let next = self.next.take().unwrap_or_else(|| self.secrets.next_packet_keys());
        self.previous = Some(std::mem::replace(&mut self.remote, next.remote));
        self.local = next.local;
        self.phase = !self.phase;
        self.updates += 1;
        (self.first_received, self.first_sent, self.sent) = (u64::MAX, None, 0);
        (self.is_acknowledged, self.has_acknowledged) = (false, false);
    }

    /// Begins new keys from this side if `packets` were sent with these, and it may. Returns whether as many as the cipher allows
    /// were sent, so that nothing more may be.
    #[inline]
    pub(super) fn update_after(&mut self, packets: u64) -> bool {
        let limit = self.local.confidentiality_limit();
        // Packets may be lost, and what acknowledges them: begin long before the limit.
        if self.sent >= packets.min(limit / 2) && self.is_acknowledged {
            self.turn();
        }
        self.sent >= limit
    }

    /// A packet was sent; `acks`: it acknowledges packets up to this number.
    #[inline]
    pub(super) fn sent(&mut self, number: u64, acks: Option<u64>) {
        self.sent += 1;
        self.first_sent.get_or_insert(number);
        if acks.is_some_and(|largest| largest >= self.first_received) {
            self.has_acknowledged = true;
        }
    }

    /// A packet was acknowledged.
    #[inline]
    pub(super) fn acknowledged(&mut self, number: u64) {
        self.is_acknowledged |= self.first_sent.is_some_and(|first| number >= first);
    }

    /// How often keys were changed.
    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// How many packets may fail to decrypt.
    pub(super) fn failures_max(&self) -> u64 {
        self.remote.integrity_limit()
    }
}

/// Keys of one direction at one level of the handshake, as [`seal`] takes them.
pub(super) fn parts(keys: &DirectionalKeys) -> (&dyn HeaderProtectionKey, &dyn PacketKey) {
    (&*keys.header, &*keys.packet)
}
