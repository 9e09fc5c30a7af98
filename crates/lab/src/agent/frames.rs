//! How messages travel between a run and an agent: a greeting of one line, then frames of four bytes of length (big-endian) and
//! as many of JSON.
//!
//! JSON, not a binary form: parts of records travel, which leave out fields that are empty, and a form that does not name its
//! fields cannot read those back. A window is two messages of some kilobytes.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a greeting begins with.
pub(super) const GREETING: &str = "WEBSTONE-AGENT ";
/// Longest greeting, in bytes.
const GREETING_BYTES_MAX: usize = 100;
/// Longest frame, in bytes: a thousand CPUs and all that is known of a host are a few hundred thousand.
const FRAME_BYTES_MAX: usize = 4 << 20;
/// As much of what makes no sense is shown.
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
pub(super) enum FrameError {
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
        /// It begins as one does: a terminal changed its end, or sent ours back.
        is_garbled: bool,
    },
    /// More than a frame can have.
    #[error("a message of {0} bytes was announced; the limit is {FRAME_BYTES_MAX}")]
    Oversized(usize),
    /// Nothing that is known.
    #[error("a message is invalid: {0}")]
    Garbled(String),
}

impl FrameError {
    fn of(error: io::Error) -> FrameError {
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

/// Sends one message.
pub(super) fn send(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    // The length goes first, in one write with the rest: half a frame is seen only where the writer died.
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    let announced = u32::try_from(length).ok().filter(|_| length <= FRAME_BYTES_MAX);
    let announced = announced.ok_or_else(|| io::Error::other("a message is too long to be sent"))?;
    frame[..4].copy_from_slice(&announced.to_be_bytes());
    output.write_all(&frame)?;
    output.flush()
}

/// Waits for one message.
pub(super) fn receive<T: DeserializeOwned>(input: &mut impl Read) -> Result<T, FrameError> {
    let mut head = [0; 4];
    let mut have = 0;
    while have < head.len() {
        match input.read(&mut head[have..]) {
            Ok(0) if have == 0 => return Err(FrameError::Ended),
            Ok(0) => return Err(FrameError::Torn),
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    let length = u32::from_be_bytes(head) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::Oversized(length));
    }
    // Grows as bytes come: a length alone takes no memory.
    let mut body = Vec::new();
    input.take(length as u64).read_to_end(&mut body).map_err(FrameError::of)?;
    if body.len() < length {
        return Err(FrameError::Torn);
    }
    serde_json::from_slice(&body).map_err(|error| {
        // It quotes what it stumbled over, with its escapes undone.
        let error = error.to_string();
        FrameError::Garbled(format!("{} ({})", shown(&body), error.escape_debug()))
    })
}

/// The beginning of what made no sense, harmless to a terminal.
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
    fn what_is_too_long_or_makes_no_sense_is_refused() {
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
