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

/// Removes the protection from the head of a packet, which must be long enough for it.
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
    /// Of the previous phase, for packets that arrive late.
    previous: Option<Box<dyn PacketKey>>,
    /// Of the next phase; derived when a packet seems to need them.
    next: Option<PacketKeySet>,
    /// `None`: there will be no other keys.
    secrets: Option<Secrets>,
    pub(super) phase: bool,
    /// Smallest number received in this phase.
    first_received: u64,
    /// Number of the first packet sent in this phase; `None`: none yet.
    first_sent: Option<u64>,
    /// Packets sent in this phase.
    sent: u64,
    /// A packet sent in this phase was acknowledged.
    is_acknowledged: bool,
    /// A packet sent in this phase has acknowledged one received in it.
    has_acknowledged: bool,
    updates: u64,
}

/// What became of a 1-RTT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// Decrypted: its number, and where its frames are.
    Whole {
        number: u64,
        start: usize,
        end: usize,
    },
    NotAuthentic,
    /// Protected with keys that the peer must not use yet.
    TooEarly,
    /// It has bits set that must be 0.
    Reserved,
}

impl OneRtt {
    pub(super) fn new(keys: Keys, secrets: Secrets) -> OneRtt {
        OneRtt { secrets: Some(secrets), ..OneRtt::without_updates(keys) }
    }

    /// Keys that never change.
    pub(super) fn without_updates(keys: Keys) -> OneRtt {
        OneRtt {
            header: keys.local.header,
            local: keys.local.packet,
            remote_header: keys.remote.header,
            remote: keys.remote.packet,
            previous: None,
            next: None,
            secrets: None,
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
            (false, false, _) => match self.next_keys() {
                Some(next) => &next.remote,
                None => return Opened::NotAuthentic,
            },
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

    /// The keys of the next phase.
    #[cold]
    fn next_keys(&mut self) -> Option<&PacketKeySet> {
        if self.next.is_none() {
            self.next = self.secrets.as_mut().map(Secrets::next_packet_keys);
        }
        self.next.as_ref()
    }

    fn turn(&mut self) {
        self.next_keys();
        let Some(next) = self.next.take() else { return };
        self.previous = Some(std::mem::replace(&mut self.remote, next.remote));
        self.local = next.local;
        self.phase = !self.phase;
        self.updates += 1;
        (self.first_received, self.first_sent, self.sent) = (u64::MAX, None, 0);
        (self.is_acknowledged, self.has_acknowledged) = (false, false);
    }

    /// Initiates a key update if `packets` were sent with the current keys and an update is allowed. Returns whether the current keys
    /// have reached the cipher's limit, so that nothing more may be sent.
    #[inline]
    pub(super) fn update_after(&mut self, packets: u64) -> bool {
        let limit = self.local.confidentiality_limit();
        // Packets and their acknowledgements may be lost, so begin long before the limit.
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

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;
    use crate::quic::frames::{self, Frame};
    use crate::quic::packet::{Head, Long, head};

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    /// The server's Initial of RFC 9001 section A.3 and RFC 9369 section A.3.
    #[test]
    fn initial_packets_of_the_standards_appendices() {
        let payload = bytes(
            "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200130100002e0033\
             0024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00020304",
        );
        let v1 = "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4c\
                  f73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7a\
                  af2f58891850abbdca3d20398c276456cbc42158407dd074ee";
        let v2 = "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf8726301791535823003\
                  5f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2c984c707f0a0812d8cd5a6881ea\
                  f21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140";
        for (version, first, packet) in [(Version::V1, 0xc1, bytes(v1)), (Version::V2, 0xd1, bytes(v2))] {
            let Some(Head::Long { kind: Long::Initial, source, number_at, end }) = head(&packet, version)
            else {
                panic!("{version:?}");
            };
            assert_eq!((&packet[source], end), (&bytes("f067a5502a4262b5")[..], packet.len()));
            let destination = bytes("8394c8f03e515708");
            let client = initial(version, &destination, Side::Client);
            let mut opened = packet.clone();
            let bared = bare(&*client.remote.header, &mut opened, number_at, 0).unwrap();
            assert_eq!((bared.number, bared.number_bytes, bared.first), (1, 2, first));
            let plain = open(&*client.remote.packet, &mut opened, number_at, &bared).unwrap();
            assert_eq!(plain, payload);
            let mut rest = plain;
            assert!(matches!(frames::next(&mut rest), Ok(Frame::Ack(ack)) if ack.largest == 0));
            let Ok(Frame::Crypto { offset: 0, data }) = frames::next(&mut rest) else { panic!() };
            assert_eq!((data.len(), rest.len()), (90, 0));
            // The server makes the same packet.
            let server = initial(version, &destination, Side::Server);
            let mut sealed = packet.clone();
            sealed[0] = first;
            sealed[number_at..number_at + 2].copy_from_slice(&[0, 1]);
            sealed[number_at + 2..end - TAG_BYTES].copy_from_slice(&payload);
            seal(&*server.local.header, &*server.local.packet, &mut sealed, number_at, 2, 1);
            assert_eq!(sealed, packet);
        }
    }

    /// RFC 9001 section A.5.
    #[test]
    fn the_short_packet_of_the_standards_appendix() {
        let SupportedCipherSuite::Tls13(suite) = TLS13_CHACHA20_POLY1305_SHA256 else { panic!() };
        let key = |hex: &str| AeadKey::from(<[u8; 32]>::try_from(bytes(hex)).unwrap());
        let iv = Iv::from(<[u8; 12]>::try_from(bytes("e0459b3474bdd0e44a41c144")).unwrap());
        let packet_key = suite
            .quic
            .unwrap()
            .packet_key(key("c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8"), iv);
        let header_key = suite
            .quic
            .unwrap()
            .header_protection_key(key("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"));
        let mut packet = [bytes("4200bff401"), vec![0; TAG_BYTES]].concat();
        seal(&*header_key, &*packet_key, &mut packet, 1, 3, 654_360_564);
        assert_eq!(packet, bytes("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));
        let bared = bare(&*header_key, &mut packet, 1, 654_360_564).unwrap();
        assert_eq!(bared.number, 654_360_564);
        assert_eq!(open(&*packet_key, &mut packet, 1, &bared), Some(&[1][..]));
    }
}
