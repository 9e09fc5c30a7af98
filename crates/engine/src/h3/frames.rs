//! Frames of HTTP/3 (RFC 9114 section 7): a type, a length and a payload, cut anywhere.

use crate::quic::varint;

/// Types of frames.
#[expect(missing_docs, reason = "named as in RFC 9114 section 7.2")]
pub mod kind {
    pub const DATA: u64 = 0x0;
    pub const HEADERS: u64 = 0x1;
    pub const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub const PUSH_PROMISE: u64 = 0x5;
    pub const GOAWAY: u64 = 0x7;
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// Frames of HTTP/2 that must not be sent.
    pub const OF_HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];
}

/// Types of unidirectional streams.
#[expect(missing_docs, reason = "named as in RFC 9114 section 6.2 and RFC 9204 section 4.2")]
pub mod stream {
    pub const CONTROL: u64 = 0x0;
    pub const PUSH: u64 = 0x1;
    pub const QPACK_ENCODER: u64 = 0x2;
    pub const QPACK_DECODER: u64 = 0x3;
}

/// Error codes.
#[expect(missing_docs, reason = "named as in RFC 9114 section 8.1 and RFC 9204 section 6")]
pub mod code {
    pub const NO_ERROR: u64 = 0x100;
    pub const STREAM_CREATION_ERROR: u64 = 0x103;
    pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    pub const FRAME_UNEXPECTED: u64 = 0x105;
    pub const FRAME_ERROR: u64 = 0x106;
    pub const EXCESSIVE_LOAD: u64 = 0x107;
    pub const ID_ERROR: u64 = 0x108;
    pub const SETTINGS_ERROR: u64 = 0x109;
    pub const MISSING_SETTINGS: u64 = 0x10a;
    pub const REQUEST_REJECTED: u64 = 0x10b;
    pub const REQUEST_CANCELLED: u64 = 0x10c;
    pub const MESSAGE_ERROR: u64 = 0x10e;
    pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
    pub const QPACK_ENCODER_STREAM_ERROR: u64 = 0x201;
    pub const QPACK_DECODER_STREAM_ERROR: u64 = 0x202;

    const FIRST: [&str; 17] = [
        "H3_NO_ERROR",
        "H3_GENERAL_PROTOCOL_ERROR",
        "H3_INTERNAL_ERROR",
        "H3_STREAM_CREATION_ERROR",
        "H3_CLOSED_CRITICAL_STREAM",
        "H3_FRAME_UNEXPECTED",
        "H3_FRAME_ERROR",
        "H3_EXCESSIVE_LOAD",
        "H3_ID_ERROR",
        "H3_SETTINGS_ERROR",
        "H3_MISSING_SETTINGS",
        "H3_REQUEST_REJECTED",
        "H3_REQUEST_CANCELLED",
        "H3_REQUEST_INCOMPLETE",
        "H3_MESSAGE_ERROR",
        "H3_CONNECT_ERROR",
        "H3_VERSION_FALLBACK",
    ];

    /// Its name, or its number if it has none.
    pub fn name(code: u64) -> String {
        let qpack = match code {
            QPACK_DECOMPRESSION_FAILED => Some("QPACK_DECOMPRESSION_FAILED"),
            QPACK_ENCODER_STREAM_ERROR => Some("QPACK_ENCODER_STREAM_ERROR"),
            QPACK_DECODER_STREAM_ERROR => Some("QPACK_DECODER_STREAM_ERROR"),
            _ => None,
        };
        let first =
            code.checked_sub(NO_ERROR).and_then(|place| FIRST.get(usize::try_from(place).ok()?).copied());
        qpack.or(first).map_or_else(|| format!("error code {code:#x}"), str::to_owned)
    }
}

/// Appends an integer of variable length.
pub fn write_number(value: u64, out: &mut Vec<u8>) {
    let bytes = varint::bytes(value);
    let marked = value | (bytes.trailing_zeros() as u64) << (8 * bytes - 2);
    out.extend_from_slice(&marked.to_be_bytes()[8 - bytes..]);
}

/// Longest head of a frame: two integers.
pub const HEAD_BYTES_MAX: usize = 16;

/// Divides what a stream brings into frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    kind: u64,
    left: u64,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A part of a head.
    NeedMore,
    /// A head.
    Head {
        /// The frame's type.
        kind: u64,
        /// Length of its payload, which follows unless it is 0.
        length: u64,
        /// Length of the head.
        bytes: usize,
    },
    /// A piece of the payload.
    Payload {
        /// The frame's type.
        kind: u64,
        /// The piece, which is not empty.
        piece: &'a [u8],
        /// Whether it is the last.
        is_last: bool,
    },
}

impl Reader {
    /// Takes the next bytes, of which there must be at least one; returns how many, and what they are.
    #[inline]
    pub fn step<'a>(&mut self, input: &'a [u8]) -> (usize, Step<'a>) {
        if self.left > 0 {
            let taken = usize::try_from(self.left).map_or(input.len(), |left| left.min(input.len()));
            self.left -= taken as u64;
            return (
                taken,
                Step::Payload { kind: self.kind, piece: &input[..taken], is_last: self.left == 0 },
            );
        }
        if self.head_bytes > 0 {
            return self.continue_head(input);
        }
        match head(input) {
            Some((kind, length, bytes)) => {
                (self.kind, self.left) = (kind, length);
                (bytes, Step::Head { kind, length, bytes })
            }
            None => {
                self.head[..input.len()].copy_from_slice(input);
                self.head_bytes = input.len() as u8;
                (input.len(), Step::NeedMore)
            }
        }
    }

    #[cold]
    fn continue_head<'a>(&mut self, input: &'a [u8]) -> (usize, Step<'a>) {
        let had = usize::from(self.head_bytes);
        let taken = input.len().min(HEAD_BYTES_MAX - had);
        self.head[had..had + taken].copy_from_slice(&input[..taken]);
        match head(&self.head[..had + taken]) {
            Some((kind, length, bytes)) => {
                (self.kind, self.left, self.head_bytes) = (kind, length, 0);
                (bytes - had, Step::Head { kind, length, bytes })
            }
            None => {
                self.head_bytes += taken as u8;
                (taken, Step::NeedMore)
            }
        }
    }

    /// Whether every frame that has begun has also ended.
    #[inline]
    pub fn is_between_frames(&self) -> bool {
        self.left == 0 && self.head_bytes == 0
    }
}

/// Type, length, and size of the head, if all of it is there.
#[inline]
fn head(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, first) = varint::read(bytes)?;
    let (length, second) = varint::read(&bytes[first..])?;
    Some((kind, length, first + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard() {
        // RFC 9000 appendix A.1.
        for (value, written) in [
            (37, &[0x25][..]),
            (15_293, &[0x7b, 0xbd]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]),
        ] {
            let mut out = Vec::new();
            write_number(value, &mut out);
            assert_eq!(out, written);
        }
    }

    #[test]
    fn frames_are_the_same_wherever_they_are_cut() {
        let mut whole = Vec::new();
        for (kind, payload) in [(kind::HEADERS, &b"abc"[..]), (0x1234_5678, b""), (kind::DATA, &[b'x'; 300])]
        {
            write_number(kind, &mut whole);
            write_number(payload.len() as u64, &mut whole);
            whole.extend_from_slice(payload);
        }
        let read = |cuts: &[usize]| {
            let (mut reader, mut found) = (Reader::default(), Vec::new());
            let mut start = 0;
            for end in cuts.iter().copied().chain([whole.len()]) {
                let mut rest = &whole[start..end];
                while !rest.is_empty() {
                    let (taken, step) = reader.step(rest);
                    rest = &rest[taken..];
                    match step {
                        Step::NeedMore => assert!(rest.is_empty()),
                        Step::Head { kind, length, bytes } => found.push((kind, length, bytes, Vec::new())),
                        Step::Payload { kind, piece, is_last } => {
                            let frame = found.last_mut().unwrap();
                            frame.3.extend_from_slice(piece);
                            assert_eq!((frame.0, frame.3.len() as u64 == frame.1), (kind, is_last));
                        }
                    }
                }
                start = end;
            }
            assert!(reader.is_between_frames());
            found
        };
        let expected = read(&[]);
        assert_eq!(expected.iter().map(|frame| frame.2).collect::<Vec<_>>(), [2, 5, 3]);
        for cut in 1..whole.len() {
            assert_eq!(read(&[cut]), expected);
        }
        assert_eq!(read(&(1..whole.len()).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn codes_have_names() {
        assert_eq!(code::name(code::REQUEST_REJECTED), "H3_REQUEST_REJECTED");
        assert_eq!(code::name(0x110), "H3_VERSION_FALLBACK");
        assert_eq!(code::name(0x200), "QPACK_DECOMPRESSION_FAILED");
        assert_eq!(
            (code::name(0x111), code::name(7)),
            ("error code 0x111".to_owned(), "error code 0x7".to_owned())
        );
    }
}
