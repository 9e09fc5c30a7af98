//! The server's unidirectional streams: control, QPACK, and others, which are ignored (RFC 9114 section 6.2).

use super::frames::{Reader, Step, code, kind, stream};
use crate::quic::varint;

/// Longest SETTINGS or GOAWAY frame that is read, in bytes.
const PAYLOAD_BYTES_MAX: u64 = 16 << 10;
/// Frames of the control stream above which they are a flood.
const FRAMES_MAX: u32 = 10_000;

/// What the server did wrong: the code of CONNECTION_CLOSE, and the same in words.
pub(super) type Violation = (u64, &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Control,
    Encoder,
    Decoder,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u64,
    /// Unknown until all bytes of the type have arrived.
    kind: Option<Kind>,
    begun: [u8; 8],
    begun_bytes: u8,
}

/// See the module comment.
#[derive(Debug, Default)]
pub(super) struct Control {
    streams: Vec<Stream>,
    reader: Reader,
    payload: Vec<u8>,
    has_settings: bool,
    frames: u32,
    /// More bytes of the ID of a stream that the server's QPACK decoder cancels are to come.
    is_cancelling: bool,
    /// The first request that the server will not answer, once it has said so.
    pub(super) goaway: Option<u64>,
}

impl Control {
    pub(super) fn clear(&mut self) {
        self.streams.clear();
        self.payload.clear();
        *self = Control {
            streams: std::mem::take(&mut self.streams),
            payload: std::mem::take(&mut self.payload),
            ..Control::default()
        };
    }

    /// Takes the next bytes of a stream. Returns whether GOAWAY was among them.
    pub(super) fn take(&mut self, id: u64, bytes: &[u8], is_last: bool) -> Result<bool, Violation> {
        let place = match self.streams.iter().position(|stream| stream.id == id) {
            Some(place) => place,
            None => {
                self.streams.push(Stream { id, kind: None, begun: [0; 8], begun_bytes: 0 });
                self.streams.len() - 1
            }
        };
        let mut rest = bytes;
        while self.streams[place].kind.is_none() && !rest.is_empty() {
            let stream = &mut self.streams[place];
            stream.begun[usize::from(stream.begun_bytes)] = rest[0];
            stream.begun_bytes += 1;
            rest = &rest[1..];
            if let Some((kind, _)) = varint::read(&stream.begun[..usize::from(stream.begun_bytes)]) {
                self.streams[place].kind = Some(self.begun(kind)?);
            }
        }
        let goes_away = match self.streams[place].kind {
            Some(Kind::Control) => self.control(rest)?,
            Some(Kind::Encoder) => {
                // "Set Dynamic Table Capacity 0" is the only instruction that our table allows.
                if rest.iter().any(|byte| *byte != 0x20) {
                    let what = "an instruction for QPACK's dynamic table, which the client does not allow";
                    return Err((code::QPACK_ENCODER_STREAM_ERROR, what));
                }
                false
            }
            Some(Kind::Decoder) => {
                self.decoder(rest)?;
                false
            }
            Some(Kind::Other) | None => false,
        };
        if is_last {
            self.ended(id)?;
        }
        Ok(goes_away)
    }

    /// Instructions of the server's QPACK decoder (RFC 9204 section 4.4). Our sections refer to no dynamic table, so there is nothing to
    /// acknowledge, and only streams can be cancelled.
    fn decoder(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        for byte in bytes {
            if self.is_cancelling {
                self.is_cancelling = byte & 0x80 != 0;
            } else if byte & 0xc0 == 0x40 {
                // A prefix of six ones: more bytes of the stream's ID follow (RFC 7541 section 5.1).
                self.is_cancelling = byte & 0x3f == 0x3f;
            } else {
                let what = "an acknowledgement of QPACK's dynamic table, which the client does not use";
                return Err((code::QPACK_DECODER_STREAM_ERROR, what));
            }
        }
        Ok(())
    }

    /// A stream has ended, or was reset.
    pub(super) fn ended(&mut self, id: u64) -> Result<(), Violation> {
        let found = self.streams.iter().position(|stream| stream.id == id);
        match found.map(|place| self.streams.swap_remove(place).kind) {
            Some(Some(Kind::Control | Kind::Encoder | Kind::Decoder)) => Err((
                code::CLOSED_CRITICAL_STREAM,
                "the end of a control or QPACK stream, which must stay open",
            )),
            _ => Ok(()),
        }
    }

    /// The server asks for the end of a stream of the client (STOP_SENDING), whose only unidirectional one is the control stream
    /// (RFC 9114 section 6.2.1).
    pub(super) fn stopped(id: u64) -> Result<(), Violation> {
        match id & 3 {
            2 => Err((code::CLOSED_CRITICAL_STREAM, "STOP_SENDING for the client's control stream")),
            _ => Ok(()),
        }
    }

    fn begun(&self, kind: u64) -> Result<Kind, Violation> {
        let kind = match kind {
            stream::CONTROL => Kind::Control,
            stream::QPACK_ENCODER => Kind::Encoder,
            stream::QPACK_DECODER => Kind::Decoder,
            stream::PUSH => return Err((code::ID_ERROR, "a push stream, though the client allows no push")),
            _ => return Ok(Kind::Other),
        };
        if self.streams.iter().any(|stream| stream.kind == Some(kind)) {
            return Err((code::STREAM_CREATION_ERROR, "a second control or QPACK stream"));
        }
        Ok(kind)
    }

    fn control(&mut self, mut rest: &[u8]) -> Result<bool, Violation> {
        let before = self.goaway;
        while !rest.is_empty() {
            let (taken, step) = self.reader.step(rest);
            rest = &rest[taken..];
            match step {
                Step::NeedMore => {}
                Step::Head { kind, length, .. } => {
                    self.head(kind, length)?;
                    if length == 0 {
                        self.frame(kind)?;
                    }
                }
                Step::Payload { kind: kind::SETTINGS | kind::GOAWAY, piece, is_last: false } => {
                    self.payload.extend_from_slice(piece);
                }
                Step::Payload { kind: kind @ (kind::SETTINGS | kind::GOAWAY), piece, .. } => {
                    self.payload.extend_from_slice(piece);
                    self.frame(kind)?;
                }
                Step::Payload { .. } => {}
            }
        }
        Ok(self.goaway != before)
    }

    fn head(&mut self, kind: u64, length: u64) -> Result<(), Violation> {
        self.frames += 1;
        if self.frames > FRAMES_MAX {
            return Err((code::EXCESSIVE_LOAD, "10,000 frames on the control stream"));
        }
        if !self.has_settings && kind != kind::SETTINGS {
            return Err((code::MISSING_SETTINGS, "a control stream that does not begin with SETTINGS"));
        }
        let what = match kind {
            kind::SETTINGS if self.has_settings => "a second SETTINGS frame",
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
                "a DATA, HEADERS or PUSH_PROMISE frame on the control stream"
            }
            kind::MAX_PUSH_ID => "MAX_PUSH_ID, which servers must not send",
            kind::CANCEL_PUSH => {
                return Err((code::ID_ERROR, "CANCEL_PUSH for a push that was never allowed"));
            }
            _ if kind::OF_HTTP2.contains(&kind) => "a frame that only HTTP/2 has",
            kind::SETTINGS | kind::GOAWAY if length > PAYLOAD_BYTES_MAX => {
                return Err((code::EXCESSIVE_LOAD, "a SETTINGS or GOAWAY frame of more than 16 KiB"));
            }
            _ => return Ok(()),
        };
        Err((code::FRAME_UNEXPECTED, what))
    }

    /// A whole frame. Its payload was kept if it matters.
    fn frame(&mut self, kind: u64) -> Result<(), Violation> {
        let payload = std::mem::take(&mut self.payload);
        match kind {
            kind::SETTINGS => {
                self.has_settings = true;
                settings(&payload)?;
            }
            kind::GOAWAY => {
                let id = varint::read(&payload).filter(|(_, bytes)| *bytes == payload.len());
                let Some((id, _)) = id else {
                    return Err((code::FRAME_ERROR, "a GOAWAY frame that is not one number"));
                };
                if id & 3 != 0 || self.goaway.is_some_and(|earlier| id > earlier) {
                    let what = "GOAWAY with an identifier that is not a request's, or higher than before";
                    return Err((code::ID_ERROR, what));
                }
                self.goaway = Some(id);
            }
            _ => {}
        }
        self.payload = payload;
        self.payload.clear();
        Ok(())
    }
}

/// Checks the server's settings (RFC 9114 section 7.2.4). None of them changes what we send.
fn settings(mut rest: &[u8]) -> Result<(), Violation> {
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let Some((id, first)) = varint::read(rest) else { return Err(CUT) };
        let Some((_, second)) = varint::read(&rest[first..]) else { return Err(CUT) };
        rest = &rest[first + second..];
        // Those of HTTP/2 (RFC 9114 section 11.2.2).
        if matches!(id, 0 | 2..=5) {
            return Err((code::SETTINGS_ERROR, "a setting that is reserved because of HTTP/2"));
        }
        if seen.contains(&id) {
            return Err((code::SETTINGS_ERROR, "a setting that is given twice"));
        }
        seen.push(id);
    }
    Ok(())
}

const CUT: Violation = (code::FRAME_ERROR, "a SETTINGS frame that ends in the middle of a setting");

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of the bytes of streams 3, 7, 11 …, the same wherever they are cut.
    fn told(streams: &[&[u8]]) -> Result<Option<u64>, u64> {
        let run = |size: usize| {
            let mut control = Control::default();
            for (number, bytes) in streams.iter().enumerate() {
                for piece in bytes.chunks(size) {
                    control.take(3 + 4 * number as u64, piece, false).map_err(|violation| violation.0)?;
                }
            }
            Ok(control.goaway)
        };
        let whole = run(usize::MAX);
        for size in 1..8 {
            assert_eq!(run(size), whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn what_a_server_may_say_is_taken() {
        assert_eq!(told(&[&[0, 4, 0]]), Ok(None));
        assert_eq!(told(&[&[0, 4, 2, 6, 0, 0x21, 3, 1, 2, 3, 7, 1, 8, 7, 1, 4]]), Ok(Some(4)));
        assert_eq!(told(&[&[0, 4, 0], &[2, 0x20], &[3, 0x44], &[0x40, 0x54, 1, 2, 3]]), Ok(None));
        assert_eq!(told(&[&[0, 4, 3, 0x01, 0x50, 0x00]]), Ok(None));
        // Streams 63 and 200 are cancelled: their numbers take two and three bytes.
        assert_eq!(told(&[&[0, 4, 0], &[3, 0x7f, 0x00, 0x7f, 0x89, 0x01, 0x44]]), Ok(None));
    }

    #[test]
    fn each_misdeed_has_its_code() {
        for (streams, code) in [
            (&[&[0_u8, 7, 1, 0][..]][..], code::MISSING_SETTINGS),
            (&[&[0, 4, 0, 4, 0]], code::FRAME_UNEXPECTED),
            (&[&[0, 4, 0, 0, 1, 1]], code::FRAME_UNEXPECTED),
            (&[&[0, 4, 0, 1, 0]], code::FRAME_UNEXPECTED),
            (&[&[0, 4, 0, 0xd, 1, 0]], code::FRAME_UNEXPECTED),
            (&[&[0, 4, 0, 6, 0]], code::FRAME_UNEXPECTED),
            (&[&[0, 4, 0, 3, 1, 0]], code::ID_ERROR),
            (&[&[0, 4, 2, 0, 0]], code::SETTINGS_ERROR),
            (&[&[0, 4, 2, 2, 0]], code::SETTINGS_ERROR),
            (&[&[0, 4, 2, 5, 0]], code::SETTINGS_ERROR),
            (&[&[0, 4, 4, 6, 0, 6, 0]], code::SETTINGS_ERROR),
            (&[&[0, 4, 1, 6]], code::FRAME_ERROR),
            (&[&[0, 4, 0, 7, 0]], code::FRAME_ERROR),
            (&[&[0, 4, 0, 7, 2, 0, 0]], code::FRAME_ERROR),
            (&[&[0, 4, 0, 7, 1, 3]], code::ID_ERROR),
            (&[&[0, 4, 0, 7, 1, 4, 7, 1, 8]], code::ID_ERROR),
            (&[&[0, 4, 0x80, 1, 0, 0]], code::EXCESSIVE_LOAD),
            (&[&[0, 4, 0], &[0, 4, 0]], code::STREAM_CREATION_ERROR),
            (&[&[1, 0]], code::ID_ERROR),
            (&[&[2, 0x80, 0]], code::QPACK_ENCODER_STREAM_ERROR),
            (&[&[3, 0x80]], code::QPACK_DECODER_STREAM_ERROR),
            (&[&[3, 0x44, 0x80]], code::QPACK_DECODER_STREAM_ERROR),
            (&[&[3, 0x7f, 0x89, 0x01, 0x01]], code::QPACK_DECODER_STREAM_ERROR),
        ] {
            assert_eq!(told(streams), Err(code), "{streams:x?}");
        }
    }

    #[test]
    fn critical_streams_must_stay_open() {
        for kind in [0, 2, 3] {
            let mut control = Control::default();
            let content: &[u8] = if kind == 0 { &[0, 4, 0] } else { &[kind] };
            assert_eq!(control.take(3, content, true).unwrap_err().0, code::CLOSED_CRITICAL_STREAM);
        }
        let mut control = Control::default();
        assert_eq!(control.take(3, &[0x21, 9], true), Ok(false));
        assert_eq!(control.ended(7), Ok(()));
    }
}
