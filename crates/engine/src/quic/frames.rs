//! Frames of QUIC (RFC 9000 section 19), read from a decrypted packet. What they mean is decided by `hearing`, those that a client sends
//! are written by `packing`.

use super::error::Fault;
use super::varint;

/// Types of frames that are written or compared.
#[expect(missing_docs, reason = "named as in RFC 9000 section 19")]
pub mod kind {
    pub const PING: u8 = 0x01;
    pub const ACK: u8 = 0x02;
    pub const ACK_ECN: u8 = 0x03;
    pub const RESET_STREAM: u8 = 0x04;
    pub const STOP_SENDING: u8 = 0x05;
    pub const CRYPTO: u8 = 0x06;
    pub const STREAM: u8 = 0x08;
    pub const MAX_DATA: u8 = 0x10;
    pub const MAX_STREAM_DATA: u8 = 0x11;
    pub const MAX_STREAMS_UNI: u8 = 0x13;
    pub const RETIRE_CONNECTION_ID: u8 = 0x19;
    pub const PATH_RESPONSE: u8 = 0x1b;
    pub const CONNECTION_CLOSE: u8 = 0x1c;
    pub const CONNECTION_CLOSE_APPLICATION: u8 = 0x1d;
}

/// Bits of a STREAM frame's type.
pub(super) const STREAM_OFFSET: u8 = 4;
pub(super) const STREAM_LENGTH: u8 = 2;
pub(super) const STREAM_FIN: u8 = 1;

/// A frame.
#[expect(missing_docs, reason = "named as in RFC 9000 section 19")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A run of this many.
    Padding(usize),
    Ping,
    Ack(Ack<'a>),
    ResetStream {
        stream: u64,
        code: u64,
        final_size: u64,
    },
    StopSending {
        stream: u64,
        code: u64,
    },
    Crypto {
        offset: u64,
        data: &'a [u8],
    },
    NewToken(&'a [u8]),
    Stream {
        stream: u64,
        offset: u64,
        data: &'a [u8],
        fin: bool,
    },
    MaxData(u64),
    MaxStreamData {
        stream: u64,
        max: u64,
    },
    MaxStreams {
        is_uni: bool,
        max: u64,
    },
    DataBlocked(u64),
    StreamDataBlocked {
        stream: u64,
        max: u64,
    },
    StreamsBlocked {
        is_uni: bool,
        max: u64,
    },
    NewConnectionId {
        sequence: u64,
        retire_prior_to: u64,
        id: &'a [u8],
        token: [u8; 16],
    },
    RetireConnectionId(u64),
    PathChallenge([u8; 8]),
    PathResponse([u8; 8]),
    /// `frame`: the type of the frame to blame, 0 in a close of the application.
    Close {
        is_application: bool,
        code: u64,
        frame: u64,
        reason: &'a [u8],
    },
    HandshakeDone,
}

/// An ACK frame whose ranges are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Largest acknowledged number.
    pub largest: u64,
    /// As sent, to be scaled by the peer's exponent.
    pub delay: u64,
    /// Smallest number of the first range.
    pub first_low: u64,
    /// Pairs of gap and length.
    rest: &'a [u8],
    /// Datagrams received with ECT(0), ECT(1) and CE.
    pub ecn: Option<[u64; 3]>,
}

impl Ack<'_> {
    /// Its ranges `low..=high`, the highest first.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut rest = self.rest;
        let mut next = Some((self.first_low, self.largest));
        std::iter::from_fn(move || {
            let (low, high) = next?;
            // Checked when the frame was read.
            next = take(&mut rest).zip(take(&mut rest)).and_then(|(gap, length)| {
                let high = low.checked_sub(gap + 2)?;
                Some((high.checked_sub(length)?, high))
            });
            Some((low, high))
        })
    }
}

impl Frame<'_> {
    /// Its name in qlog, and its numbers: subject, offset, length.
    pub(super) fn summary(&self) -> (&'static str, u64, u64, u64) {
        let length = |data: &[u8]| data.len() as u64;
        match *self {
            Frame::Padding(n) => ("padding", 0, 0, n as u64),
            Frame::Ping => ("ping", 0, 0, 0),
            Frame::Ack(ack) => ("ack", ack.largest, ack.first_low, 0),
            Frame::ResetStream { stream, code, final_size } => ("reset_stream", stream, code, final_size),
            Frame::StopSending { stream, code } => ("stop_sending", stream, code, 0),
            Frame::Crypto { offset, data } => ("crypto", 0, offset, length(data)),
            Frame::NewToken(token) => ("new_token", 0, 0, length(token)),
            Frame::Stream { stream, offset, data, .. } => ("stream", stream, offset, length(data)),
            Frame::MaxData(max) => ("max_data", max, 0, 0),
            Frame::MaxStreamData { stream, max } => ("max_stream_data", stream, max, 0),
            Frame::MaxStreams { max, .. } => ("max_streams", max, 0, 0),
            Frame::DataBlocked(max) => ("data_blocked", max, 0, 0),
            Frame::StreamDataBlocked { stream, max } => ("stream_data_blocked", stream, max, 0),
            Frame::StreamsBlocked { max, .. } => ("streams_blocked", max, 0, 0),
            Frame::NewConnectionId { sequence, retire_prior_to, .. } => {
                ("new_connection_id", sequence, retire_prior_to, 0)
            }
            Frame::RetireConnectionId(sequence) => ("retire_connection_id", sequence, 0, 0),
            Frame::PathChallenge(_) => ("path_challenge", 0, 0, 0),
            Frame::PathResponse(_) => ("path_response", 0, 0, 0),
            Frame::Close { code, frame, .. } => ("connection_close", code, frame, 0),
            Frame::HandshakeDone => ("handshake_done", 0, 0, 0),
        }
    }

    /// Whether a packet with it must be acknowledged (RFC 9002 section 2).
    #[inline]
    pub fn is_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding(_) | Frame::Ack(_) | Frame::Close { .. })
    }

    /// Whether it may stand in an Initial or Handshake packet (RFC 9000 section 12.4).
    pub fn is_of_handshake(&self) -> bool {
        matches!(
            self,
            Frame::Padding(_)
                | Frame::Ping
                | Frame::Ack(_)
                | Frame::Crypto { .. }
                | Frame::Close { is_application: false, .. }
        )
    }
}

#[inline]
fn take(rest: &mut &[u8]) -> Option<u64> {
    let (value, bytes) = varint::read(rest)?;
    *rest = &rest[bytes..];
    Some(value)
}

#[inline]
fn take_bytes<'a>(rest: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let count = usize::try_from(count).ok()?;
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    take_bytes(rest, N as u64)?.try_into().ok()
}

/// Takes the next frame off the bytes of a packet.
///
/// # Errors
/// If it cannot be read, or is of an unknown type: RFC 9000 section 12.4, and DATAGRAM, which was not negotiated.
#[inline]
pub fn next<'a>(rest: &mut &'a [u8]) -> Result<Frame<'a>, Fault> {
    // The fast path: most frames of a run of answers are STREAM frames.
    if let Some(kind @ 0x08..=0x0f) = rest.first().copied() {
        *rest = &rest[1..];
        return stream(kind, rest).ok_or(Fault::FrameEncoding("a STREAM frame that is cut off"));
    }
    other(rest)
}

#[inline]
fn stream<'a>(kind: u8, rest: &mut &'a [u8]) -> Option<Frame<'a>> {
    let stream = take(rest)?;
    let offset = if kind & STREAM_OFFSET == 0 { 0 } else { take(rest)? };
    let data = match kind & STREAM_LENGTH {
        0 => std::mem::take(rest),
        _ => {
            let length = take(rest)?;
            take_bytes(rest, length)?
        }
    };
    Some(Frame::Stream { stream, offset, data, fin: kind & STREAM_FIN != 0 })
}

fn other<'a>(rest: &mut &'a [u8]) -> Result<Frame<'a>, Fault> {
    const CUT: Fault = Fault::FrameEncoding("a frame that is cut off");
    let (kind, bytes) = varint::read(rest).ok_or(CUT)?;
    if bytes != varint::bytes(kind) {
        return Err(Fault::Protocol("a frame type that is not encoded as short as possible"));
    }
    *rest = &rest[bytes..];
    if kind == 0 {
        let more = zeros(rest);
        *rest = &rest[more..];
        return Ok(Frame::Padding(more + 1));
    }
    body(kind, rest).ok_or(CUT)?
}

/// How many zeros bytes begin with. Padding is most of a handshake's datagrams.
fn zeros(bytes: &[u8]) -> usize {
    let blocks =
        bytes.as_chunks::<16>().0.iter().take_while(|block| u128::from_ne_bytes(**block) == 0).count();
    let rest = &bytes[16 * blocks..];
    16 * blocks + rest.iter().take_while(|byte| **byte == 0).count()
}

/// `None`: cut off.
fn body<'a>(kind: u64, rest: &mut &'a [u8]) -> Option<Result<Frame<'a>, Fault>> {
    let frame = match kind {
        0x01 => Frame::Ping,
        0x02 | 0x03 => return ack(kind == 0x03, rest).map(|ack| ack.map(Frame::Ack)),
        0x04 => Frame::ResetStream { stream: take(rest)?, code: take(rest)?, final_size: take(rest)? },
        0x05 => Frame::StopSending { stream: take(rest)?, code: take(rest)? },
        0x06 => {
            let (offset, length) = (take(rest)?, take(rest)?);
            Frame::Crypto { offset, data: take_bytes(rest, length)? }
        }
        0x07 => {
            let length = take(rest)?;
            let token = take_bytes(rest, length)?;
            if token.is_empty() {
                return Some(Err(Fault::FrameEncoding("a NEW_TOKEN frame without a token")));
            }
            Frame::NewToken(token)
        }
        0x10 => Frame::MaxData(take(rest)?),
        0x11 => Frame::MaxStreamData { stream: take(rest)?, max: take(rest)? },
        0x12 | 0x13 | 0x16 | 0x17 => {
            let (is_uni, max) = (kind & 1 != 0, take(rest)?);
            if max > 1 << 60 {
                return Some(Err(Fault::FrameEncoding("a limit of more than 2^60 streams")));
            }
            match kind {
                0x12 | 0x13 => Frame::MaxStreams { is_uni, max },
                _ => Frame::StreamsBlocked { is_uni, max },
            }
        }
        0x14 => Frame::DataBlocked(take(rest)?),
        0x15 => Frame::StreamDataBlocked { stream: take(rest)?, max: take(rest)? },
        0x18 => {
            let (sequence, retire_prior_to) = (take(rest)?, take(rest)?);
            let length = take_bytes(rest, 1)?[0];
            if !(1..=20).contains(&length) || retire_prior_to > sequence {
                return Some(Err(Fault::FrameEncoding("an invalid NEW_CONNECTION_ID frame")));
            }
            let id = take_bytes(rest, length.into())?;
            Frame::NewConnectionId { sequence, retire_prior_to, id, token: take_array(rest)? }
        }
        0x19 => Frame::RetireConnectionId(take(rest)?),
        0x1a => Frame::PathChallenge(take_array(rest)?),
        0x1b => Frame::PathResponse(take_array(rest)?),
        0x1c | 0x1d => {
            let is_application = kind == 0x1d;
            let code = take(rest)?;
            let frame = if is_application { 0 } else { take(rest)? };
            let length = take(rest)?;
            Frame::Close { is_application, code, frame, reason: take_bytes(rest, length)? }
        }
        0x1e => Frame::HandshakeDone,
        0x30 | 0x31 => return Some(Err(Fault::FrameEncoding("a DATAGRAM frame, which was not negotiated"))),
        _ => return Some(Err(Fault::FrameEncoding("a frame of an unknown type"))),
    };
    Some(Ok(frame))
}

fn ack<'a>(has_ecn: bool, rest: &mut &'a [u8]) -> Option<Result<Ack<'a>, Fault>> {
    const NEGATIVE: Fault = Fault::FrameEncoding("an ACK frame of negative packet numbers");
    let (largest, delay, count, first) = (take(rest)?, take(rest)?, take(rest)?, take(rest)?);
    let Some(first_low) = largest.checked_sub(first) else { return Some(Err(NEGATIVE)) };
    let (ranges, mut low) = (*rest, first_low);
    for _ in 0..count {
        let (gap, length) = (take(rest)?, take(rest)?);
        let Some(next) = low.checked_sub(gap + 2).and_then(|high| high.checked_sub(length)) else {
            return Some(Err(NEGATIVE));
        };
        low = next;
    }
    let ranges = &ranges[..ranges.len() - rest.len()];
    let ecn = if has_ecn { Some([take(rest)?, take(rest)?, take(rest)?]) } else { None };
    Some(Ok(Ack { largest, delay, first_low, rest: ranges, ecn }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_an_ack() {
        // 20..=17, a gap of 2 numbers (16, 15), 14..=14, a gap of 1 (13), 12..=10.
        let bytes = [0x03, 20, 5, 2, 3, 1, 0, 0, 2, 7, 0, 1, 0x01];
        let mut rest = &bytes[..];
        let Ok(Frame::Ack(ack)) = next(&mut rest) else { panic!() };
        assert_eq!(ack.ranges().collect::<Vec<_>>(), [(17, 20), (14, 14), (10, 12)]);
        assert_eq!((ack.delay, ack.ecn), (5, Some([7, 0, 1])));
        assert_eq!(next(&mut rest), Ok(Frame::Ping));
        assert!(rest.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let cut = |bytes: &[u8]| {
            let whole = next(&mut &bytes[..]);
            assert!(whole.is_ok(), "{bytes:?}: {whole:?}");
            for at in 1..bytes.len() {
                assert!(
                    matches!(next(&mut &bytes[..at]), Err(Fault::FrameEncoding(_))),
                    "{bytes:?} cut at {at}"
                );
            }
        };
        cut(&[2, 5, 0, 1, 0, 1, 0]);
        cut(&[4, 0, 1, 2]);
        cut(&[5, 0, 1]);
        cut(&[6, 0, 1, 9]);
        cut(&[7, 1, 9]);
        cut(&[0x0e, 0, 1, 1, 9]);
        cut(&[0x10, 1]);
        cut(&[0x11, 0, 1]);
        cut(&[0x12, 1]);
        cut(&[0x14, 1]);
        cut(&[0x15, 0, 1]);
        cut(&[0x16, 1]);
        cut(&[[0x18, 1, 0, 4].as_slice(), &[7; 20]].concat());
        cut(&[0x19, 0]);
        cut(&[0x1a, 1, 2, 3, 4, 5, 6, 7, 8]);
        cut(&[0x1b, 1, 2, 3, 4, 5, 6, 7, 8]);
        cut(&[0x1c, 1, 6, 1, 9]);
        cut(&[0x1d, 1, 1, 9]);
        let fault = |bytes: &[u8]| next(&mut &bytes[..]).unwrap_err();
        assert!(matches!(fault(&[0x40, 0x01]), Fault::Protocol(_)));
        for bytes in [
            &[0x02, 1, 0, 0, 2][..],
            &[0x02, 5, 0, 1, 0, 4, 0],
            &[0x07, 0],
            &[0x12, 0xd0, 0, 0, 0, 0, 0, 0, 1],
            &[0x18, 1, 0, 0],
            &[0x18, 1, 2, 1],
            &[0x1f],
            &[0x30],
        ] {
            assert!(matches!(fault(bytes), Fault::FrameEncoding(_)), "{bytes:?}");
        }
    }
}
