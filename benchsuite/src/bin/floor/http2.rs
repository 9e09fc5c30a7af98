//! HTTP/2 for the least client (RFC 9113): requests from blocks that are encoded once, and frames of which only length, type and
//! end are read. A server that says anything out of the ordinary ends the program.

use std::io;

use super::{AGENT, Load};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Largest window of flow control.
const WINDOW: u32 = (1 << 31) - 1;
/// The initial window of a connection.
const WINDOW_AT_FIRST: u32 = 65_535;
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The fields of a request: as the first of a connection, which enter the server's table, and as any other, which refer to it.
#[derive(Debug)]
pub(crate) struct Blocks {
    first: Vec<u8>,
    later: Vec<u8>,
}

impl Blocks {
    pub(crate) fn new(load: &Load) -> Blocks {
        // `:method: GET` and `:scheme` are whole in the static table (RFC 7541, appendix A).
        let mut common = vec![0x82, if load.is_secure { 0x87 } else { 0x86 }];
        // A literal that is not indexed, whose name is the fourth of that table.
        literal(0x04, &load.path, &mut common);
        let mut first = common.clone();
        // `:authority`, `user-agent` and `accept` are literals that enter the table, where the last is the 62nd.
        literal(0x41, &load.authority, &mut first);
        literal(0x40 | 58, AGENT, &mut first);
        literal(0x40 | 19, "*/*", &mut first);
        Blocks { first, later: [&common[..], &[0x80 | 64, 0x80 | 63, 0x80 | 62]].concat() }
    }
}

fn literal(start: u8, text: &str, out: &mut Vec<u8>) {
    // Longer lengths take more than a byte, and no address or path of the suite is as long.
    assert!(text.len() < 127, "{text} is too long");
    out.extend([start, text.len() as u8]);
    out.extend(text.as_bytes());
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Talk {
    /// The stream of the next request.
    stream: u32,
    /// What has come of a frame's head.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of its payload that are still to come.
    payload_left: usize,
    /// Bytes of bodies since the window was raised.
    unacknowledged: u32,
}

impl Talk {
    /// A connection begins, with what is sent first.
    pub(crate) fn begin(out: &mut Vec<u8>) -> Talk {
        out.extend_from_slice(PREFACE);
        frame(SETTINGS, 0, 0, 12, out);
        // No push, and the largest window for each stream.
        out.extend([0, 2, 0, 0, 0, 0]);
        out.extend([0, 4]);
        out.extend(WINDOW.to_be_bytes());
        raise(WINDOW - WINDOW_AT_FIRST, out);
        Talk { stream: 1, head: [0; HEAD_BYTES], head_bytes: 0, payload_left: 0, unacknowledged: 0 }
    }

    /// One more request.
    pub(crate) fn ask(&mut self, blocks: &Blocks, out: &mut Vec<u8>) {
        let block = if self.stream == 1 { &blocks.first } else { &blocks.later };
        frame(HEADERS, END_HEADERS | END_STREAM, self.stream, block.len(), out);
        out.extend_from_slice(block);
        self.stream += 2;
    }

    /// Takes bytes that came; returns how many answers they end. Replies go to `out`.
    pub(crate) fn take(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let mut answers = 0;
        while !input.is_empty() {
            if self.head_bytes < HEAD_BYTES {
                let taken = input.len().min(HEAD_BYTES - self.head_bytes);
                self.head[self.head_bytes..][..taken].copy_from_slice(&input[..taken]);
                self.head_bytes += taken;
                input = &input[taken..];
                if self.head_bytes < HEAD_BYTES {
                    break;
                }
                let [high, middle, low, ..] = self.head;
                self.payload_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            }
            let taken = input.len().min(self.payload_left);
            self.payload_left -= taken;
            input = &input[taken..];
            if self.payload_left == 0 {
                self.head_bytes = 0;
                answers += usize::from(self.framed(out)?);
            }
        }
        Ok(answers)
    }

    /// Handles a whole frame; returns whether it ends an answer.
    fn framed(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let [high, middle, low, kind, flags, ..] = self.head;
        match kind {
            DATA => {
                self.unacknowledged += u32::from_be_bytes([0, high, middle, low]);
                if self.unacknowledged > WINDOW / 2 {
                    raise(std::mem::take(&mut self.unacknowledged), out);
                }
            }
            HEADERS => {}
            SETTINGS if flags & ACK == 0 => {
                frame(SETTINGS, ACK, 0, 0, out);
                return Ok(false);
            }
            SETTINGS | WINDOW_UPDATE => return Ok(false),
            kind => return Err(io::Error::other(format!("a frame of type {kind} came"))),
        }
        Ok(flags & END_STREAM != 0)
    }
}

fn raise(by: u32, out: &mut Vec<u8>) {
    frame(WINDOW_UPDATE, 0, 0, 4, out);
    out.extend(by.to_be_bytes());
}

fn frame(kind: u8, flags: u8, stream: u32, length: usize, out: &mut Vec<u8>) {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    out.extend([high, middle, low, kind, flags]);
    out.extend(stream.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two answers, settings, and their acknowledgement, cut at every byte.
    #[test]
    fn answers_are_counted_wherever_frames_are_cut() {
        let mut wire = Vec::new();
        frame(SETTINGS, 0, 0, 6, &mut wire);
        wire.extend([0, 3, 0, 0, 0, 100]);
        frame(SETTINGS, ACK, 0, 0, &mut wire);
        for stream in [1, 3] {
            frame(HEADERS, END_HEADERS, stream, 1, &mut wire);
            wire.push(0x88);
            frame(DATA, 0, stream, 3, &mut wire);
            wire.extend(b"abc");
            frame(DATA, END_STREAM, stream, 0, &mut wire);
        }
        for cut in 0..wire.len() {
            let mut out = Vec::new();
            let mut talk = Talk::begin(&mut out);
            out.clear();
            let found =
                talk.take(&wire[..cut], &mut out).unwrap() + talk.take(&wire[cut..], &mut out).unwrap();
            assert_eq!((found, talk.unacknowledged), (2, 6), "{cut}");
            assert_eq!(out, [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn the_end_of_a_connection_is_an_error() {
        let mut wire = Vec::new();
        frame(7, 0, 0, 8, &mut wire);
        wire.extend([0; 8]);
        assert!(Talk::begin(&mut Vec::new()).take(&wire, &mut Vec::new()).is_err());
    }
}
