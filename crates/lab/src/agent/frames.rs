//! How messages travel between a run and an agent: a greeting of one line, then frames, each with its length in four bytes
//! (big-endian) and that many bytes of JSON. A frame whose length has its highest bit set is a piece of a payload, bytes that
//! belong to the next message which announces one: data too large for a frame travels in pieces, and is accepted only complete
//! and with the right check sum.
//!
//! JSON, not a binary form: parts of records travel, which leave out fields that are empty, and a form that does not name its
//! fields cannot read those back. A window is two messages of some kilobytes.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use webstone_measure::strict;

/// What a greeting begins with.
pub(super) const GREETING: &str = "WEBSTONE-AGENT ";
/// Longest greeting, in bytes.
const GREETING_BYTES_MAX: usize = 100;
/// Longest frame, in bytes: a thousand CPUs and all that is known of a host are a few hundred thousand.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// Marks the length of a frame that is a piece of a payload.
const PIECE: u32 = 1 << 31;
/// Longest piece that is sent, in bytes: urgent messages go between two of them.
const PIECE_BYTES: usize = 256 << 10;
/// Longest payload, in bytes: a window of a million clients is 20 MB.
const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// Bytes of invalid data that a message shows.
const SHOWN_BYTES_MAX: usize = 60;

/// How each side introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Version of the protocol.
    pub(super) protocol: u32,
    /// Version of webstone.
    pub(super) version: String,
}

/// Why nothing sensible can be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream ended between frames.
    #[error("the stream ended")]
    Ended,
    /// The stream ended within one.
    #[error("the stream ended in the middle of a message")]
    Torn,
    /// It could not be read.
    #[error("{0}")]
    Io(io::Error),
    /// There is no greeting.
    #[error("it sent {shown} instead of a greeting")]
    NoGreeting {
        /// What came.
        shown: String,
        /// It begins like a greeting: a terminal changed its end, or echoed ours.
        is_garbled: bool,
    },
    /// More than a frame can have.
    #[error("a message of {0} bytes was announced; the limit is {FRAME_BYTES_MAX}")]
    Oversized(usize),
    /// A payload is not what its message says.
    #[error("a payload of {0} came damaged: {1}")]
    Payload(&'static str, String),
    /// Not a known message.
    #[error("a message is invalid: {0}")]
    Garbled(String),
}

impl FrameError {
    fn from_io(error: io::Error) -> FrameError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => FrameError::Torn,
            _ => FrameError::Io(error),
        }
    }
}

/// Introduces this side.
pub(super) fn greet(output: &mut impl Write, greeting: &Greeting) -> io::Result<()> {
    output.write_all(format!("{GREETING}{} {}\n", greeting.protocol, greeting.version).as_bytes())?;
    output.flush()
}

/// Waits for the other side's greeting.
pub(super) fn greeted(input: &mut impl Read) -> Result<Greeting, FrameError> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < GREETING_BYTES_MAX {
        match input.read(&mut byte) {
            Ok(0) if line.is_empty() => return Err(FrameError::Ended),
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    let read = || {
        let (protocol, version) = std::str::from_utf8(&line).ok()?.strip_prefix(GREETING)?.split_once(' ')?;
        let is_plain =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        let version = Some(version.to_owned()).filter(|version| is_plain(version))?;
        Some(Greeting { protocol: protocol.parse().ok()?, version })
    };
    read().ok_or_else(|| FrameError::NoGreeting {
        shown: shown(&line),
        is_garbled: line.starts_with(GREETING.as_bytes()),
    })
}

/// What a message says of the payload that came before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// Its length in bytes.
    pub bytes: u64,
    /// SHA-256 over it, in hex.
    pub sha256: String,
}

impl Payload {
    /// Of these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Payload {
        Payload { bytes: bytes.len() as u64, sha256: sha256(bytes) }
    }

    /// The bytes, if they are those that were announced. `what` names them.
    ///
    /// # Errors
    /// If some are missing or others than were sent.
    pub fn check(&self, what: &'static str, bytes: Vec<u8>) -> Result<Vec<u8>, FrameError> {
        if bytes.len() as u64 != self.bytes {
            return Err(FrameError::Payload(what, format!("{} of {} bytes", bytes.len(), self.bytes)));
        }
        match sha256(&bytes) == self.sha256 {
            true => Ok(bytes),
            false => Err(FrameError::Payload(what, "its SHA-256 is another".to_owned())),
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends one message.
pub(super) fn send(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    // Length and content in one write, so that half a frame is seen only if the writer died.
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    let announced = u32::try_from(length).ok().filter(|_| length <= FRAME_BYTES_MAX);
    let announced = announced.ok_or_else(|| io::Error::other("a message is too long to be sent"))?;
    frame[..4].copy_from_slice(&announced.to_be_bytes());
    output.write_all(&frame)?;
    output.flush()
}

/// Frames of a payload, each to be written at once.
pub(super) fn pieces(payload: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    payload.chunks(PIECE_BYTES).map(|piece| {
        let mut frame = (PIECE | piece.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(piece);
        frame
    })
}

/// Waits for one message without a payload.
#[cfg(test)]
pub(super) fn receive<T: DeserializeOwned>(input: &mut impl Read) -> Result<T, FrameError> {
    Frames::new(input).next().map(|(message, _)| message)
}

/// Reads messages, and the payloads before them.
pub(super) struct Frames<R> {
    input: R,
    payload: Vec<u8>,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(input: R) -> Frames<R> {
        Frames { input, payload: Vec::new() }
    }

    /// Waits for one message, with whatever pieces came before it.
    #[cfg(test)]
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> Result<(T, Vec<u8>), FrameError> {
        self.next_with(|_| true)
    }

    /// Waits for one message. If it `has_payload`, it gets the pieces that have come; other messages may come between them.
    pub(super) fn next_with<T: DeserializeOwned>(
        &mut self,
        has_payload: impl Fn(&T) -> bool,
    ) -> Result<(T, Vec<u8>), FrameError> {
        loop {
            let head = self.head()?;
            if head & PIECE != 0 {
                let length = (head & !PIECE) as usize;
                if length > FRAME_BYTES_MAX {
                    return Err(FrameError::Oversized(head as usize));
                }
                if self.payload.len() + length > PAYLOAD_BYTES_MAX {
                    let more = format!("more than {PAYLOAD_BYTES_MAX} bytes");
                    return Err(FrameError::Payload("no message", more));
                }
                self.body(length)?;
                continue;
            }
            let length = head as usize;
            if length > FRAME_BYTES_MAX {
                return Err(FrameError::Oversized(length));
            }
            let before = self.payload.len();
            self.body(length)?;
            let body = self.payload.split_off(before);
            let message: T = strict::json(&body).map_err(|error| {
                // The error quotes the invalid text, with its escapes decoded.
                let error = error.to_string();
                FrameError::Garbled(format!("{} ({})", shown(&body), error.escape_debug()))
            })?;
            let payload = if has_payload(&message) { std::mem::take(&mut self.payload) } else { Vec::new() };
            return Ok((message, payload));
        }
    }

    fn head(&mut self) -> Result<u32, FrameError> {
        let mut head = [0; 4];
        let mut have = 0;
        while have < head.len() {
            match self.input.read(&mut head[have..]) {
                Ok(0) if have == 0 => return Err(FrameError::Ended),
                Ok(0) => return Err(FrameError::Torn),
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FrameError::Io(error)),
            }
        }
        Ok(u32::from_be_bytes(head))
    }

    /// Reads `length` bytes more. Memory grows as they come: an announced length alone takes none.
    fn body(&mut self, length: usize) -> Result<(), FrameError> {
        let before = self.payload.len();
        let read = self.input.by_ref().take(length as u64).read_to_end(&mut self.payload);
        read.map_err(FrameError::from_io)?;
        if self.payload.len() - before < length { Err(FrameError::Torn) } else { Ok(()) }
    }
}

/// The beginning of the invalid data, harmless to a terminal.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]);
    format!("`{}`{}", text.escape_debug(), if bytes.len() > SHOWN_BYTES_MAX { " …" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: &[u8]) -> String {
        receive::<Vec<u32>>(&mut &*bytes).unwrap_err().to_string()
    }

    #[test]
    fn what_is_sent_is_received_and_the_end_is_told_from_a_torn_message() {
        let mut stream = Vec::new();
        send(&mut stream, &vec![1, 2]).unwrap();
        send(&mut stream, &vec![3]).unwrap();
        let mut input = &stream[..];
        assert_eq!(receive::<Vec<u32>>(&mut input).unwrap(), [1, 2]);
        assert_eq!(receive::<Vec<u32>>(&mut input).unwrap(), [3]);
        assert!(matches!(receive::<Vec<u32>>(&mut input), Err(FrameError::Ended)));
        for cut in 1..9 {
            assert!(matches!(receive::<Vec<u32>>(&mut &stream[..cut]), Err(FrameError::Torn)), "{cut}");
        }
    }

    #[test]
    fn what_is_too_long_or_invalid_is_refused() {
        assert_eq!(
            said(b"HTTP/1.1 400"),
            "a message of 1213486160 bytes was announced; the limit is 4194304"
        );
        assert_eq!(
            said(b"\0\0\0\x05[1, x"),
            "a message is invalid: `[1, x` (expected value at line 1 column 5)"
        );
        assert!(said(b"\0\0\0\x01\x1b").contains(r"`\u{1b}`"));
        assert!(send(&mut Vec::new(), &"x".repeat(FRAME_BYTES_MAX)).is_err());
    }

    #[test]
    fn a_payload_comes_with_its_message_whole_and_others_go_between_its_pieces() {
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let mut stream = Vec::new();
        for (at, piece) in pieces(&bytes).enumerate() {
            stream.extend(piece);
            send(&mut stream, &at).unwrap();
        }
        send(&mut stream, &100).unwrap();
        let mut frames = Frames::new(&stream[..]);
        for at in 0..4 {
            assert_eq!(frames.next_with(|number: &usize| *number == 100).unwrap(), (at, Vec::new()));
        }
        let (message, payload) = frames.next_with(|number: &usize| *number == 100).unwrap();
        assert_eq!((message, payload.len()), (100, bytes.len()));
        let announced = Payload::from_bytes(&bytes);
        assert_eq!(announced.check("a test", payload).unwrap(), bytes);
        let other = announced.check("a test", vec![0; bytes.len()]).unwrap_err().to_string();
        assert_eq!(other, "a payload of a test came damaged: its SHA-256 is another");
        let short = announced.check("a test", vec![0; 3]).unwrap_err().to_string();
        assert!(short.contains("3 of 786437 bytes"), "{short}");
    }

    #[test]
    fn a_greeting_names_both_versions() {
        let ours = Greeting { protocol: 7, version: "1.2.3 (abc)".into() };
        let mut stream = Vec::new();
        greet(&mut stream, &ours).unwrap();
        assert_eq!(stream, b"WEBSTONE-AGENT 7 1.2.3 (abc)\n");
        assert_eq!(greeted(&mut &stream[..]).unwrap(), ours);
        assert!(matches!(greeted(&mut &b""[..]), Err(FrameError::Ended)));
        for (wrong, shown) in [
            (&b"Welcome to web1!\nWEBSTONE-AGENT 1 x\n"[..], "it sent `Welcome to web1!` instead"),
            (b"WEBSTONE-AGENT one 0.1\n", "it sent `WEBSTONE-AGENT one 0.1` instead"),
            (b"WEBSTONE-AGENT 1 \x1b[31m\n", r"it sent `WEBSTONE-AGENT 1 \u{1b}[31m` instead"),
            (&[0xff; 300], "it sent `\u{fffd}"),
        ] {
            let error = greeted(&mut &wrong[..]).unwrap_err().to_string();
            assert!(error.starts_with(shown), "{error}");
        }
    }
}
