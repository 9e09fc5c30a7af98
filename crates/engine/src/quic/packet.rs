//! Heads of packets (RFC 9000 section 17, RFC 9369 section 3.2): read from datagrams, and written.
//!
//! A client's own connection ID is empty here, so packets to it name none.

use std::ops::Range;

use super::settings::Version;
use super::varint::{self, Writer};

/// Bytes of an authentication tag.
pub(super) const TAG_BYTES: usize = 16;
/// Longest connection ID, in bytes.
pub(super) const ID_BYTES_MAX: usize = 20;

const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
/// Key phase of a short head.
pub(super) const PHASE: u8 = 0x04;

/// The types of long packets, as version 1 numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Long {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

impl Version {
    /// The number in packets.
    pub fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 0x6b33_43cf,
        }
    }

    pub(super) fn of_rustls(self) -> rustls::quic::Version {
        match self {
            Version::V1 => rustls::quic::Version::V1,
            Version::V2 => rustls::quic::Version::V2,
        }
    }

    fn long_bits(self, kind: Long) -> u8 {
        (kind as u8 + u8::from(self == Version::V2)) & 3
    }

    fn long_kind(self, first: u8) -> Long {
        const KINDS: [Long; 4] = [Long::Initial, Long::ZeroRtt, Long::Handshake, Long::Retry];
        let bits = first >> 4 & 3;
        KINDS[usize::from(bits.wrapping_sub(u8::from(self == Version::V2)) & 3)]
    }
}

/// What a datagram, or the rest of one, begins with. Positions count from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Short,
    /// `end`: of the packet.
    Long {
        kind: Long,
        source: Range<usize>,
        number_at: usize,
        end: usize,
    },
    Retry {
        source: Range<usize>,
        token: Range<usize>,
    },
    VersionNegotiation {
        source: Range<usize>,
        versions: Range<usize>,
    },
}

/// Reads a head; `None` if it is not one of this version, or not for a connection with an empty ID.
pub(super) fn head(bytes: &[u8], version: Version) -> Option<Head> {
    let first = *bytes.first()?;
    if first & LONG == 0 {
        // The first byte, a packet number of up to 4 bytes, and a sample of 16.
        return (first & FIXED != 0 && bytes.len() >= 1 + 4 + 16).then_some(Head::Short);
    }
    let number = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?);
    if *bytes.get(5)? != 0 {
        return None;
    }
    let source = 7..7 + usize::from(*bytes.get(6)?);
    let at = source.end;
    let rest = bytes.get(at..)?;
    if number == 0 {
        return Some(Head::VersionNegotiation { source, versions: at..bytes.len() });
    }
    if number != version.number() || first & FIXED == 0 || source.len() > ID_BYTES_MAX {
        return None;
    }
    let kind = version.long_kind(first);
    let mut number_at = at;
    match kind {
        Long::Retry => {
            let end = rest.len().checked_sub(TAG_BYTES)?;
            return Some(Head::Retry { source, token: at..at + end });
        }
        Long::Initial => {
            let (token_bytes, length) = varint::read(rest)?;
            // Only clients send tokens (RFC 9000 section 17.2.2).
            if token_bytes != 0 {
                return None;
            }
            number_at += length;
        }
        Long::ZeroRtt | Long::Handshake => {}
    }
    let (payload_bytes, length) = varint::read(bytes.get(number_at..)?)?;
    number_at += length;
    let end = number_at.checked_add(usize::try_from(payload_bytes).ok()?)?;
    let has_sample = end >= number_at + 4 + 16;
    (end <= bytes.len() && has_sample).then_some(Head::Long { kind, source, number_at, end })
}

/// Writes a long head up to the packet number, with two bytes of length that are set later. Returns whether there was room.
pub(super) fn write_long(
    writer: &mut Writer<'_>,
    version: Version,
    kind: Long,
    number_bytes: usize,
    destination: &[u8],
    token: &[u8],
) -> bool {
    let token_bytes = if kind == Long::Initial { varint::bytes(token.len() as u64) + token.len() } else { 0 };
    if writer.room() < 7 + destination.len() + token_bytes + 2 + 4 + TAG_BYTES {
        return false;
    }
    writer.byte(LONG | FIXED | version.long_bits(kind) << 4 | (number_bytes - 1) as u8);
    writer.bytes(&version.number().to_be_bytes());
    writer.byte(destination.len() as u8);
    writer.bytes(destination);
    writer.byte(0);
    if kind == Long::Initial {
        writer.varint(token.len() as u64);
        writer.bytes(token);
    }
    writer.two_bytes(0);
    true
}

/// Writes a short head up to the packet number. Returns whether there was room.
#[inline]
pub(super) fn write_short(
    writer: &mut Writer<'_>,
    phase: bool,
    number_bytes: usize,
    destination: &[u8],
) -> bool {
    if writer.room() < 1 + destination.len() + 4 + TAG_BYTES {
        return false;
    }
    writer.byte(FIXED | if phase { PHASE } else { 0 } | (number_bytes - 1) as u8);
    writer.bytes(destination);
    true
}

/// How many bytes of a packet number are sent, so that the receiver can recover it (RFC 9000 section A.2).
#[inline]
pub(super) fn number_bytes(number: u64, largest_acked: Option<u64>) -> usize {
    let unacked = largest_acked.map_or(number + 1, |acked| number - acked);
    match unacked {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    }
}

/// The packet number whose last bytes are `truncated` (RFC 9000 section A.3); `expected`: one more than the largest received.
#[inline]
pub(super) fn whole_number(truncated: u64, number_bytes: usize, expected: u64) -> u64 {
    let window = 1_u64 << (8 * number_bytes);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_standards_appendix() {
        assert_eq!(number_bytes(0xac_5c02, Some(0xab_e8b3)), 2);
        assert_eq!(number_bytes(0xac_e8fe, Some(0xab_e8b3)), 3);
        assert_eq!(whole_number(0x9b32, 2, 0xa82f_30ea + 1), 0xa82f_9b32);
        for expected in [0_u64, 1, 100, 127, 128, 255, 256, 70_000, 1 << 40] {
            for number in expected.saturating_sub(60)..expected + 60 {
                let sent = number_bytes(number, expected.checked_sub(60));
                for bytes in sent..=4 {
                    let truncated = number & ((1 << (8 * bytes)) - 1);
                    assert_eq!(whole_number(truncated, bytes, expected), number);
                }
            }
        }
    }

    #[test]
    fn heads_read_as_written_and_not_when_cut() {
        for version in [Version::V1, Version::V2] {
            for kind in [Long::Initial, Long::Handshake] {
                let mut out = [0; 100];
                let mut writer = Writer::new(&mut out, 0, 100);
                assert!(write_long(&mut writer, version, kind, 2, &[], &[]));
                let number_at = writer.at();
                out[number_at - 2..number_at].copy_from_slice(&(0x4000_u16 | 40).to_be_bytes());
                let end = number_at + 40;
                assert_eq!(
                    head(&out[..end], version),
                    Some(Head::Long { kind, source: 7..7, number_at, end })
                );
                assert!((0..end).all(|cut| head(&out[..cut], version).is_none()));
                let other = if version == Version::V1 { Version::V2 } else { Version::V1 };
                assert_eq!(head(&out, other), None);
            }
        }
    }

    #[test]
    fn an_initial_packet_of_a_server_has_no_token() {
        let read = |token: &[u8]| {
            let mut out = [0; 100];
            let mut writer = Writer::new(&mut out, 0, 100);
            assert!(write_long(&mut writer, Version::V1, Long::Initial, 2, &[], token));
            let number_at = writer.at();
            out[number_at - 2..number_at].copy_from_slice(&(0x4000_u16 | 40).to_be_bytes());
            head(&out[..number_at + 40], Version::V1)
        };
        assert!(matches!(read(&[]), Some(Head::Long { kind: Long::Initial, .. })));
        assert_eq!(read(b"token"), None);
    }
}
