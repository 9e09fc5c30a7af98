//! The protocol of persistent handlers, which is this project's own, after WASD's CGIplus: a program that stays, and gets
//! one request at a time on its standard input, as a CGI program would get it in its environment; what it writes to
//! standard output is what a CGI program would write.
//!
//! Both directions are frames: a letter, the length of what follows as four bytes (the most significant first), and that
//! many bytes.
//!
//! | frame | from | what follows |
//! |---|---|---|
//! | `V` | handler, once when it is ready | `1`, the version of the protocol |
//! | `R` | server | the CGI variables of a request, each `NAME`, NUL, value, NUL |
//! | `B` | server | a piece of the request's body |
//! | `E` | server | nothing: the request is whole |
//! | `O` | handler | a piece of its output: CGI header fields, an empty line, the body |
//! | `E` | handler | nothing: the output is whole |
//!
//! A handler reads a request to its `E` before it answers. It ends when its standard input does.

use crate::error::Malformed;

/// Bytes before what a frame holds.
const HEADER_BYTES: usize = 5;
/// Longest frame that is accepted.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// What `V` holds.
pub(crate) const VERSION: &[u8] = b"1";

/// Kinds of frames.
pub(crate) mod kind {
    pub(crate) const VERSION: u8 = b'V';
    pub(crate) const REQUEST: u8 = b'R';
    pub(crate) const BODY: u8 = b'B';
    pub(crate) const OUTPUT: u8 = b'O';
    pub(crate) const END: u8 = b'E';
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) content: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame that `bytes` begin with and the bytes that it takes; `None` if they end before it does.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, Malformed> {
        let Some(first) = bytes.first() else { return Ok(None) };
        if !b"VRBOE".contains(first) {
            return Err(Malformed("a frame begins with a letter other than V, R, B, O or E"));
        }
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [kind, length @ ..] = *header;
        let length = u32::from_be_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(Malformed("a frame is longer than 16 MiB"));
        }
        Ok(rest.get(..length).map(|content| (Frame { kind, content }, HEADER_BYTES + length)))
    }
}

/// Appends a frame.
pub(crate) fn push(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let length = u32::try_from(content.len()).expect("callers split what is longer than 16 MiB");
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(content);
}

/// The value of a variable in an `R` frame.
pub(crate) fn variable<'a>(request: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut words = request.split(|byte| *byte == 0);
    while let (Some(found), Some(value)) = (words.next(), words.next()) {
        if found == name.as_bytes() {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        push(&mut bytes, kind::OUTPUT, b"abc");
        push(&mut bytes, kind::END, b"");
        assert_eq!(bytes, *b"O\0\0\0\x03abcE\0\0\0\0");
        assert_eq!(Frame::parse(&bytes), Ok(Some((Frame { kind: b'O', content: b"abc" }, 8))));
        assert_eq!(Frame::parse(&bytes[8..]), Ok(Some((Frame { kind: b'E', content: b"" }, 5))));
        for end in 0..8 {
            assert_eq!(Frame::parse(&bytes[..end]), Ok(None), "{end}");
        }
        for garbage in [&b"HTTP/1.1 200 OK"[..], b"\0", b"O\xFF\0\0\0"] {
            assert!(Frame::parse(garbage).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn variables_are_found_by_name() {
        let request = b"A\0QUERY_STRING\0QUERY_STRING\0size=1\0EMPTY\0\0";
        assert_eq!(variable(request, "QUERY_STRING"), Some(&b"size=1"[..]), "a value is no name");
        assert_eq!(variable(request, "EMPTY"), Some(&b""[..]));
        assert_eq!(variable(request, "B"), None);
    }
}
