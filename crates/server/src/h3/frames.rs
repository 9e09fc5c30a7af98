//! Frames and integers of HTTP/3 (RFC 9114, 7; RFC 9000, 16).

use std::future::Future;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use quinn::RecvStream;

/// Types of frames.
pub(super) const DATA: u64 = 0x0;
pub(super) const HEADERS: u64 = 0x1;
pub(super) const SETTINGS: u64 = 0x4;
pub(super) const GOAWAY: u64 = 0x7;
/// Types that only a control stream may have, or that HTTP/2 alone has.
const NOT_OF_REQUESTS: [u64; 8] = [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9];
/// Types of unidirectional streams.
pub(super) const CONTROL: u64 = 0x0;

/// Longest head of a request.
const HEAD_BYTES_MAX: u64 = 128 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Why a stream cannot be read further: the error code of HTTP/3 that answers it; `None`: the client has gone or reset it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream cannot be read: {0:?}")]
pub(super) struct ReadFailure(pub(super) Option<u64>);

/// Appends an integer in its shortest form.
pub(super) fn put_integer(bytes: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => bytes.push(value as u8),
        0x40..0x4000 => bytes.extend_from_slice(&(0x4000 | value as u16).to_be_bytes()),
        0x4000..0x4000_0000 => bytes.extend_from_slice(&(0x8000_0000 | value as u32).to_be_bytes()),
        _ => bytes.extend_from_slice(&(0xC000_0000_0000_0000 | value).to_be_bytes()),
    }
}

/// Appends a frame's type and length.
pub(super) fn put_head(bytes: &mut Vec<u8>, kind: u64, length: u64) {
    put_integer(bytes, kind);
    put_integer(bytes, length);
}

/// The integer at the beginning, and its length.
fn integer(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let more = bytes.get(1..length)?;
    Some((more.iter().fold(u64::from(first & 0x3F), |value, byte| value << 8 | u64::from(*byte)), length))
}

/// Reads the frames of a request's stream.
pub(super) struct Frames {
    stream: RecvStream,
    buffer: BytesMut,
    /// Bytes of the DATA frame that are still to come.
    data_left: u64,
    has_ended: bool,
}

impl Frames {
    pub(super) fn new(stream: RecvStream) -> Frames {
        Frames { stream, buffer: BytesMut::new(), data_left: 0, has_ended: false }
    }

    /// Asks the client to send no more.
    pub(super) fn stop(&mut self, code: u64) {
        // An error means that the stream has ended already.
        let _ = self.stream.stop(super::varint(code));
    }

    /// The block of fields of the first frame that is not to be skipped.
    pub(super) async fn head(&mut self) -> Result<Bytes, ReadFailure> {
        loop {
            let Some((kind, length)) = self.frame_head().await? else {
                return Err(ReadFailure(Some(super::code::REQUEST_INCOMPLETE)));
            };
            match kind {
                HEADERS if length > HEAD_BYTES_MAX => {
                    return Err(ReadFailure(Some(super::code::EXCESSIVE_LOAD)));
                }
                HEADERS => return self.take(length).await,
                DATA => return Err(ReadFailure(Some(super::code::FRAME_UNEXPECTED))),
                _ if NOT_OF_REQUESTS.contains(&kind) => {
                    return Err(ReadFailure(Some(super::code::FRAME_UNEXPECTED)));
                }
                _ => self.skip(length).await?,
            }
        }
    }

    /// The next bytes of the body; `None` after its end.
    pub(super) async fn data(&mut self) -> Result<Option<Bytes>, ReadFailure> {
        while self.data_left == 0 {
            let Some((kind, length)) = self.frame_head().await? else { return Ok(None) };
            match kind {
                DATA => self.data_left = length,
                // Trailers, which nobody reads, and frames of types to come.
                HEADERS => self.skip(length).await?,
                _ if NOT_OF_REQUESTS.contains(&kind) => {
                    return Err(ReadFailure(Some(super::code::FRAME_UNEXPECTED)));
                }
                _ => self.skip(length).await?,
            }
        }
        if self.buffer.is_empty() && !self.fill().await? {
            return Err(ReadFailure(Some(super::code::FRAME_ERROR)));
        }
        let some = usize::try_from(self.data_left).unwrap_or(usize::MAX).min(self.buffer.len());
        self.data_left -= some as u64;
        Ok(Some(self.buffer.split_to(some).freeze()))
    }

    /// Whether it is known by now that nothing more comes.
    pub(super) async fn is_at_end(&mut self) -> bool {
        if !self.buffer.is_empty() {
            return false;
        }
        let mut fill = std::pin::pin!(self.fill());
        let filled = std::future::poll_fn(|cx| Poll::Ready(fill.as_mut().poll(cx))).await;
        matches!(filled, Poll::Ready(Ok(false)))
    }

    /// Type and length of the next frame; `None` where the stream ends before it.
    async fn frame_head(&mut self) -> Result<Option<(u64, u64)>, ReadFailure> {
        loop {
            let kind = integer(&self.buffer);
            let length = kind.and_then(|(_, used)| {
                integer(&self.buffer[used..]).map(|(length, more)| (length, used + more))
            });
            if let (Some((kind, _)), Some((length, used))) = (kind, length) {
                let _ = self.buffer.split_to(used);
                return Ok(Some((kind, length)));
            }
            if !self.fill().await? {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(ReadFailure(Some(super::code::FRAME_ERROR))),
                };
            }
        }
    }

    async fn take(&mut self, length: u64) -> Result<Bytes, ReadFailure> {
        while (self.buffer.len() as u64) < length {
            if !self.fill().await? {
                return Err(ReadFailure(Some(super::code::FRAME_ERROR)));
            }
        }
        Ok(self.buffer.split_to(length as usize).freeze())
    }

    async fn skip(&mut self, mut length: u64) -> Result<(), ReadFailure> {
        while length > 0 {
            if self.buffer.is_empty() && !self.fill().await? {
                return Err(ReadFailure(Some(super::code::FRAME_ERROR)));
            }
            let some = usize::try_from(length).unwrap_or(usize::MAX).min(self.buffer.len());
            let _ = self.buffer.split_to(some);
            length -= some as u64;
        }
        Ok(())
    }

    /// Reads more; whether there was any.
    async fn fill(&mut self) -> Result<bool, ReadFailure> {
        if self.has_ended {
            return Ok(false);
        }
        match self.stream.read_chunk(READ_BYTES, true).await {
            Ok(Some(chunk)) => {
                self.buffer.extend_from_slice(&chunk.bytes);
                Ok(true)
            }
            Ok(None) => {
                self.has_ended = true;
                Ok(false)
            }
            Err(_) => Err(ReadFailure(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_four_lengths() {
        // RFC 9000, A.1.
        for (value, length) in [(37, 1), (15_293, 2), (494_878_333, 4), (151_288_809_941_952_652, 8)] {
            let mut bytes = Vec::new();
            put_integer(&mut bytes, value);
            assert_eq!((bytes.len(), integer(&bytes)), (length, Some((value, length))));
            assert_eq!(integer(&bytes[..length - 1]), None);
        }
        assert_eq!(integer(&[0x40, 0x25]), Some((37, 2)));
    }
}
