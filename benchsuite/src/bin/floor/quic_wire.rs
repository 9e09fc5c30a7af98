//! Frames of QUIC (RFC 9000, section 19), as far as the least client reads them.

use std::io;

use super::quic::unlike;

/// Appends a number of variable length.
pub(crate) fn varint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread<'a>(pub(crate) &'a [u8]);

impl<'a> Unread<'a> {
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(unlike)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> io::Result<u64> {
        let first = *self.0.first().ok_or_else(unlike)?;
        let digits = self.take(1 << (first >> 6))?;
        let low = digits[1..].iter();
        Ok(low.fold(u64::from(first & 0x3f), |value, digit| value << 8 | u64::from(*digit)))
    }

    fn skip(&mut self, varints: usize) -> io::Result<()> {
        (0..varints).try_for_each(|_| self.varint().map(drop))
    }
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Nothing that is to be acknowledged.
    Quiet,
    /// Bytes of TLS, from an offset on.
    Tls(u64, &'a [u8]),
    /// Bytes of an answer.
    Answer(Part<'a>),
    /// The server allows this many streams.
    Streams(u64),
    /// The server has heard the handshake's end.
    Done,
    /// Something to acknowledge.
    Other,
}

/// Bytes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) stream: u64,
    pub(crate) begin: u64,
    pub(crate) data: &'a [u8],
    pub(crate) is_last: bool,
}

/// The frames of a packet.
#[derive(Debug)]
pub(crate) struct Frames<'a>(pub(crate) Unread<'a>);

impl<'a> Iterator for Frames<'a> {
    type Item = io::Result<Frame<'a>>;

    #[inline]
    fn next(&mut self) -> Option<io::Result<Frame<'a>>> {
        let (kind, rest) = self.0.0.split_first()?;
        self.0.0 = rest;
        Some(read(*kind, &mut self.0))
    }
}

#[inline]
fn read<'a>(kind: u8, unread: &mut Unread<'a>) -> io::Result<Frame<'a>> {
    match kind {
        // PADDING.
        0x00 => Ok(Frame::Quiet),
        0x08..=0x0f => {
            let stream = unread.varint()?;
            let begin = if kind & 4 != 0 { unread.varint()? } else { 0 };
            let bytes = if kind & 2 != 0 { unread.varint()? as usize } else { unread.0.len() };
            let data = unread.take(bytes)?;
            // Streams of the server's own have no answers.
            let is_answer = stream & 3 == 0;
            let part = Part { stream, begin, data, is_last: kind & 1 != 0 };
            Ok(if is_answer { Frame::Answer(part) } else { Frame::Other })
        }
        _ => read_seldom(kind, unread),
    }
}

fn read_seldom<'a>(kind: u8, unread: &mut Unread<'a>) -> io::Result<Frame<'a>> {
    match kind {
        // PING.
        0x01 => {}
        // ACK: the largest number, its delay, ranges, and counts of ECN.
        0x02 | 0x03 => {
            unread.skip(2)?;
            let ranges = unread.varint()? as usize;
            unread.skip(1 + 2 * ranges + if kind == 0x03 { 3 } else { 0 })?;
            return Ok(Frame::Quiet);
        }
        0x06 => {
            let (offset, bytes) = (unread.varint()?, unread.varint()? as usize);
            return Ok(Frame::Tls(offset, unread.take(bytes)?));
        }
        // NEW_TOKEN.
        0x07 => {
            let bytes = unread.varint()? as usize;
            unread.take(bytes)?;
        }
        0x12 => return Ok(Frame::Streams(unread.varint()?)),
        // MAX_DATA, MAX_STREAMS of the other kind, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID.
        0x10 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => unread.skip(1)?,
        // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED.
        0x05 | 0x11 | 0x15 => unread.skip(2)?,
        // NEW_CONNECTION_ID, which is not needed unless it retires the first.
        0x18 => {
            unread.varint()?;
            if unread.varint()? > 0 {
                return Err(io::Error::other("the server retires its connection ID"));
            }
            let bytes = usize::from(unread.take(1)?[0]);
            unread.take(bytes + 16)?;
        }
        0x1e => return Ok(Frame::Done),
        0x1c | 0x1d => {
            let code = unread.varint()?;
            unread.skip(if kind == 0x1c { 1 } else { 0 })?;
            let bytes = unread.varint()? as usize;
            let reason = String::from_utf8_lossy(unread.take(bytes)?);
            return Err(io::Error::other(format!("the server closed a connection: {code:#x} {reason}")));
        }
        0x04 => return Err(io::Error::other("the server reset a stream")),
        _ => return Err(unlike()),
    }
    Ok(Frame::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
            let mut bytes = Vec::new();
            varint(&mut bytes, value);
            let mut unread = Unread(&bytes);
            assert_eq!((unread.varint().unwrap(), unread.0.len()), (value, 0));
            assert!(Unread(&bytes[..bytes.len() - 1]).varint().is_err());
        }
    }

    #[test]
    fn frames_are_read_to_their_end() {
        let answer = |begin, data, is_last| Frame::Answer(Part { stream: 4, begin, data, is_last });
        for (bytes, expected) in [
            (
                &[0, 1, 2, 9, 0, 1, 0, 3, 2, 0x1e][..],
                &[Frame::Quiet, Frame::Other, Frame::Quiet, Frame::Done][..],
            ),
            (&[3, 9, 0, 0, 0, 1, 2, 3, 0x12, 5], &[Frame::Quiet, Frame::Streams(5)]),
            (&[6, 2, 1, 7, 7, 1, 9], &[Frame::Tls(2, &[7]), Frame::Other]),
            (&[0x0e, 4, 8, 2, 1, 1, 9, 4, 1], &[answer(8, &[1, 1], false), answer(0, &[1], true)]),
            // The control stream of the server.
            (&[0x0a, 3, 1, 0], &[Frame::Other]),
        ] {
            let frames: Vec<_> = Frames(Unread(bytes)).map(Result::unwrap).collect();
            assert_eq!(frames, expected, "{bytes:?}");
        }
        for (bytes, part) in [
            (&[0x1d, 0x41, 0x02, 2, b'n', b'o'][..], "closed a connection: 0x102 no"),
            (&[4, 0, 0, 0], "reset a stream"),
            (&[0x18, 1, 1, 0], "retires"),
            (&[0x1f], "does not read"),
            (&[8], "does not read"),
        ] {
            let error = Frames(Unread(bytes)).next().unwrap().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
