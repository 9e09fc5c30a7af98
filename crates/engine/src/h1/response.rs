//! Responses of HTTP/1.0 and 1.1, parsed as they arrive (RFC 9112 sections 4 to 7).
//!
//! The parser has a few words of state and no buffer. A head must be in one slice: until it is complete nothing is
//! consumed and the caller keeps the bytes. Bodies are passed through in slices, or skipped unread
//! ([`ResponseParser::skippable`]). The parser is strict where leniency would hide a broken server (contradicting
//! lengths, junk in a status line, bytes after the end), and lenient where the standard is (bare line feeds, missing
//! reason phrase).

use memchr::memchr;

use super::chunked::{Chunked, Piece};
use super::known_heads::KnownHeads;

/// Maximum size of a head in bytes; each interim head counts by itself.
pub const HEAD_BYTES_MAX: usize = 65_536;
/// Maximum number of interim (1xx) responses before a final one.
pub const INTERIM_MAX: u8 = 64;

/// A response being read.
#[derive(Clone, Copy, Debug)]
pub struct ResponseParser {
    state: State,
    /// Bytes of the head already searched for its end.
    searched: u32,
    interim: u8,
    no_body: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

/// What a final head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status code, 200 to 999.
    pub status: u16,
    /// Whether the server keeps the connection open after this response.
    pub keep_alive: bool,
    /// Length of the body, if the head gives it.
    pub length: Option<u64>,
}

/// What the front of the input was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A head is incomplete: call again with these bytes and more. Nothing was consumed.
    NeedMore,
    /// An interim (1xx) head.
    Interim,
    /// The final head.
    Head(Head),
    /// Body bytes.
    Body,
    /// Chunk framing and trailers.
    Framing,
    /// The response is whole; nothing was consumed.
    Done,
}

/// Bytes that are not a valid response, with what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// What the end of the stream means at this point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// The response is whole.
    Complete,
    /// Before or within a head.
    InHead,
    /// Within a body; how many bytes are missing, if the head gives the length.
    InBody(Option<u64>),
}

impl ResponseParser {
    /// A parser for the answer to one request. `to_head`: the request's method is HEAD, so no body follows.
    #[inline]
    pub fn new(to_head: bool) -> ResponseParser {
        ResponseParser { state: State::Head, searched: 0, interim: 0, no_body: to_head }
    }

    /// As [`Self::step`], but recalls known heads; `request` is the number of the request being answered.
    #[inline(always)]
    pub fn step_known(
        &mut self,
        input: &[u8],
        known: &mut KnownHeads,
        request: u32,
    ) -> Result<(usize, Step), Malformed> {
        if !matches!(self.state, State::Head) {
            return self.step(input);
        }
        match known.recall(request, input) {
            Some((length, fields)) => self.end_head(length, &fields),
            None => self.head(input, |head, fields| known.keep(request, head, fields)),
        }
    }

    /// Consumes the next piece from the front of `input`; returns how many bytes, and what they were.
    #[inline]
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, Step), Malformed> {
        match &mut self.state {
            State::Head => self.head(input, |_, _| {}),
            State::Length(remaining) => {
                let taken = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= taken as u64;
                if *remaining == 0 {
                    self.state = State::Done;
                }
                Ok((taken, Step::Body))
            }
            State::Chunked(chunked) => {
                let (taken, piece) = chunked.advance(input).map_err(Malformed)?;
                if chunked.is_done() {
                    self.state = State::Done;
                }
                Ok((taken, if piece == Piece::Data { Step::Body } else { Step::Framing }))
            }
            State::UntilClose => Ok((input.len(), Step::Body)),
            State::Done => Ok((0, Step::Done)),
        }
    }

    /// How many body bytes may be discarded unread: the rest of a body of known length, or everything up to the end
    /// of the stream. 0 in heads, in chunk framing and after the end.
    #[inline]
    pub fn skippable(&self) -> u64 {
        match self.state {
            State::Length(remaining) => remaining,
            State::UntilClose => u64::MAX,
            _ => 0,
        }
    }

    /// Records that `n` body bytes, at most [`Self::skippable`], were discarded.
    #[inline]
    pub fn skipped(&mut self, n: u64) {
        if let State::Length(remaining) = &mut self.state {
            *remaining -= n;
            if *remaining == 0 {
                self.state = State::Done;
            }
        }
    }

    /// Whether the response is whole.
    #[inline]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// What an end of the stream at this point means.
    pub fn at_end(&self) -> AtEnd {
        match self.state {
            State::Head => AtEnd::InHead,
            State::Length(remaining) => AtEnd::InBody(Some(remaining)),
            State::Chunked(_) => AtEnd::InBody(None),
            State::UntilClose | State::Done => AtEnd::Complete,
        }
    }

    fn head(&mut self, input: &[u8], keep: impl FnOnce(&[u8], &Fields)) -> Result<(usize, Step), Malformed> {
        // A head that came in parts is parsed only once its end has arrived. Otherwise 64 KiB that arrive byte by
        // byte would be parsed 65,536 times.
        if self.searched > 0 && !has_head_end(input, self.searched as usize) {
            return self.incomplete(input);
        }
        match parse_head(input)? {
            None => self.incomplete(input),
            Some((length, fields)) => {
                if length > HEAD_BYTES_MAX {
                    return Err(Malformed("a head longer than 64 KiB"));
                }
                keep(&input[..length], &fields);
                self.end_head(length, &fields)
            }
        }
    }

    fn incomplete(&mut self, input: &[u8]) -> Result<(usize, Step), Malformed> {
        if input.len() > HEAD_BYTES_MAX {
            return Err(Malformed("a head longer than 64 KiB"));
        }
        if !b"HTTP/1.".starts_with(&input[..input.len().min(7)]) {
            return Err(Malformed("it does not begin with HTTP/1."));
        }
        self.searched = input.len() as u32;
        Ok((0, Step::NeedMore))
    }

    /// A head of `length` bytes is complete: decides what follows it.
    #[inline]
    fn end_head(&mut self, length: usize, fields: &Fields) -> Result<(usize, Step), Malformed> {
        self.searched = 0;
        if fields.status < 200 {
            if fields.status == 101 {
                return Err(Malformed("101 Switching Protocols, which was not requested"));
            }
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(Malformed("more than 64 interim (1xx) responses"));
            }
            return Ok((length, Step::Interim));
        }
        let mut keep_alive = if fields.http_1_1 { !fields.close } else { fields.keep_alive && !fields.close };
        // RFC 9112 section 6.3, in its order.
        self.state = if self.no_body || fields.status == 204 || fields.status == 304 {
            State::Done
        } else if fields.transfer_encoding {
            if fields.length.is_some() {
                return Err(Malformed("both Content-Length and Transfer-Encoding"));
            }
            if !fields.http_1_1 {
                return Err(Malformed("Transfer-Encoding in HTTP/1.0"));
            }
            if fields.chunked { State::Chunked(Chunked::default()) } else { State::UntilClose }
        } else {
            match fields.length {
                Some(0) => State::Done,
                Some(length) => State::Length(length),
                None => State::UntilClose,
            }
        };
        if matches!(self.state, State::UntilClose) {
            keep_alive = false;
        }
        Ok((length, Step::Head(Head { status: fields.status, keep_alive, length: fields.length })))
    }
}

/// What the fields of a head say about its message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    status: u16,
    http_1_1: bool,
    close: bool,
    keep_alive: bool,
    length: Option<u64>,
    transfer_encoding: bool,
    chunked: bool,
    chunked_before: bool,
}

/// Whether `input` contains the empty line that ends a head. The first `searched` bytes were searched before.
fn has_head_end(input: &[u8], searched: usize) -> bool {
    let mut from = searched.saturating_sub(3);
    while let Some(found) = memchr(b'\n', &input[from..]) {
        let behind = &input[from + found + 1..];
        if behind.starts_with(b"\n") || behind.starts_with(b"\r\n") {
            return true;
        }
        from += found + 1;
    }
    false
}

/// Parses a head at the front of `input`: its length and fields, or `None` if it is incomplete.
#[inline]
fn parse_head(input: &[u8]) -> Result<Option<(usize, Fields)>, Malformed> {
    let Some(end) = memchr(b'\n', input) else { return Ok(None) };
    let mut fields = Fields::default();
    status_line(without_cr(&input[..end]), &mut fields)?;
    let mut at = end + 1;
    // Whether the previous field matters to framing: if so, a folded continuation is refused; after others it is
    // ignored (RFC 9112 section 5.2).
    let mut previous_matters = true;
    loop {
        let Some(found) = memchr(b'\n', &input[at..]) else { return Ok(None) };
        let line = without_cr(&input[at..at + found]);
        at += found + 1;
        if line.is_empty() {
            return Ok(Some((at, fields)));
        }
        if matches!(line[0], b' ' | b'\t') {
            if previous_matters {
                return Err(Malformed("a folded line in a field that sets the length of the body"));
            }
            continue;
        }
        previous_matters = field(line, &mut fields)?;
    }
}

#[inline]
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[inline]
fn status_line(line: &[u8], fields: &mut Fields) -> Result<(), Malformed> {
    // HTTP/1.x SP 3DIGIT [SP reason]
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', a, b, c, rest @ ..] = line else {
        return Err(Malformed("a status line that is not `HTTP/1.x nnn`"));
    };
    fields.http_1_1 = match minor {
        b'0' => false,
        b'1'..=b'9' => true,
        _ => return Err(Malformed("a status line that is not `HTTP/1.x nnn`")),
    };
    let digits = [a, b, c];
    if digits.iter().any(|digit| !digit.is_ascii_digit()) || *a == b'0' || !matches!(rest, [] | [b' ', ..]) {
        return Err(Malformed("a status that is not three digits"));
    }
    fields.status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(**digit - b'0'));
    Ok(())
}

/// Reads one field line; returns whether it matters to framing or persistence.
#[inline]
fn field(line: &[u8], fields: &mut Fields) -> Result<bool, Malformed> {
    let Some(colon) = memchr(b':', line) else { return Err(Malformed("a field without a colon")) };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    // White space before the colon is used to smuggle requests and responses (RFC 9112 section 5.1). Elsewhere in a
    // name it makes an unknown field, which is ignored.
    if matches!(name.last(), None | Some(b' ' | b'\t')) {
        return Err(Malformed("a field name that is empty or followed by white space"));
    }
    // The lengths of the three names that matter differ from nearly all others, so most fields cost one comparison.
    match name.len() {
        10 if name.eq_ignore_ascii_case(b"connection") => {
            for token in tokens(value) {
                fields.close |= token.eq_ignore_ascii_case(b"close");
                fields.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
            Ok(true)
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            // A list of equal values is one value (RFC 9110 section 8.6); values that differ are an attack or a
            // defect.
            for token in tokens(value) {
                let length = decimal(token).ok_or(Malformed("a Content-Length that is not a number"))?;
                if fields.length.is_some_and(|earlier| earlier != length) {
                    return Err(Malformed("two Content-Length values that differ"));
                }
                fields.length = Some(length);
            }
            if fields.length.is_none() {
                return Err(Malformed("a Content-Length that is not a number"));
            }
            Ok(true)
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            fields.transfer_encoding = true;
            for coding in tokens(value) {
                fields.chunked = coding.eq_ignore_ascii_case(b"chunked");
                // RFC 9112 section 6.1 forbids chunking twice: decoded once, the inner framing would be taken for the
                // body.
                if fields.chunked && std::mem::replace(&mut fields.chunked_before, true) {
                    return Err(Malformed("a Transfer-Encoding that is chunked twice"));
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The members of a comma-separated list, without surrounding white space.
#[inline]
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trimmed).filter(|token| !token.is_empty())
}

/// Without the white space that may surround a value: spaces and tabs only (RFC 9110 section 5.6.3).
#[inline]
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[inline]
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Outcome {
        status: u16,
        keep_alive: bool,
        body: Vec<u8>,
        head_bytes: usize,
        left_over: usize,
        done: bool,
        interim: usize,
    }

    /// Feeds `input` in pieces of `step` bytes, as a connection does, and keeps an incomplete head.
    fn parse(input: &[u8], step: usize, to_head: bool) -> Result<Outcome, Malformed> {
        let mut parser = ResponseParser::new(to_head);
        let (mut outcome, mut kept) = (Outcome::default(), Vec::new());
        for piece in input.chunks(step) {
            kept.extend_from_slice(piece);
            let mut at = 0;
            while at < kept.len() {
                let (n, what) = parser.step(&kept[at..])?;
                match what {
                    Step::NeedMore => break,
                    Step::Done => break,
                    Step::Interim => outcome.interim += 1,
                    Step::Head(head) => {
                        outcome.status = head.status;
                        outcome.keep_alive = head.keep_alive;
                        outcome.head_bytes = n;
                    }
                    Step::Body => outcome.body.extend_from_slice(&kept[at..at + n]),
                    Step::Framing => {}
                }
                at += n;
            }
            kept.drain(..at);
        }
        outcome.left_over = kept.len();
        outcome.done = parser.at_end() == AtEnd::Complete;
        Ok(outcome)
    }

    fn whole(text: &str) -> Result<Outcome, Malformed> {
        let first = parse(text.as_bytes(), text.len(), false);
        for step in 1..text.len().min(80) {
            let split = parse(text.as_bytes(), step, false);
            // The same outcome; which fault is reported may depend on the pieces.
            assert_eq!(split.as_ref().ok(), first.as_ref().ok(), "split into {step}");
        }
        first
    }

    #[test]
    fn a_plain_response() {
        let outcome = whole("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: x\r\n\r\nhello").unwrap();
        assert_eq!((outcome.status, outcome.keep_alive, outcome.done), (200, true, true));
        assert_eq!((outcome.body.as_slice(), outcome.left_over), (&b"hello"[..], 0));
    }

    #[test]
    fn persistence_follows_version_and_connection() {
        for (head, keep_alive) in [
            ("HTTP/1.1 200 OK\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n", false),
            ("HTTP/1.1 200 OK\r\nconnection: foo, CLOSE\r\n", false),
            ("HTTP/1.0 200 OK\r\n", false),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", true),
        ] {
            let text = format!("{head}Content-Length: 0\r\n\r\n");
            assert_eq!(whole(&text).unwrap().keep_alive, keep_alive, "{head}");
        }
    }

    #[test]
    fn bodies_end_as_rfc_9112_says() {
        for (text, body, left_over) in [
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nextra", "", 5),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", 0),
            ("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc", 0),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nX", "abc", 1),
            ("HTTP/1.0 200 OK\r\n\r\nto the end", "to the end", 0),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nto the end", "to the end", 0),
            ("HTTP/1.1 200 OK\nContent-Length: 2, 2\n\nabc", "ab", 1),
            ("HTTP/1.1 200 OK\r\nContent-Length:\t 2 ,\t2 \t\r\n\r\nab", "ab", 0),
        ] {
            let outcome = whole(text).unwrap();
            assert_eq!((outcome.body.as_slice(), outcome.left_over), (body.as_bytes(), left_over), "{text}");
            assert!(outcome.done, "{text}");
        }
        let to_head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", 7, true).unwrap();
        assert!(to_head.done && to_head.body.is_empty());
    }

    #[test]
    fn interim_responses_are_passed_over_up_to_a_flood() {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        let end = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let outcome = whole(&format!("HTTP/1.1 100 Continue\r\n\r\n{interim}{end}")).unwrap();
        assert_eq!((outcome.status, outcome.interim), (200, 2));
        let flood = interim.repeat(65) + end;
        assert!(parse(flood.as_bytes(), flood.len(), false).is_err());
    }

    #[test]
    fn contradictions_and_junk_are_malformed() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length\r\n: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n folded first\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\x0c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r5\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(whole(text).is_err(), "{text}");
        }
    }

    #[test]
    fn anything_but_http_is_refused_before_a_line_end() {
        assert_eq!(
            parse(b"\x15\x03\x01\x00\x02", 5, false),
            Err(Malformed("it does not begin with HTTP/1."))
        );
        assert!(parse(b"HTTP", 1, false).is_ok());
    }

    #[test]
    fn a_head_of_64_kib_is_the_largest() {
        let head = |filler: usize| {
            format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(filler))
        };
        let fixed = head(0).len();
        let largest = head(HEAD_BYTES_MAX - fixed);
        for step in [largest.len(), 1000, 1] {
            assert_eq!(parse(largest.as_bytes(), step, false).unwrap().status, 200);
        }
        let larger = head(HEAD_BYTES_MAX - fixed + 1);
        for step in [larger.len(), 1000] {
            assert!(parse(larger.as_bytes(), step, false).is_err());
        }
    }

    #[test]
    fn a_head_seen_before_reads_like_a_new_one() {
        let mut known = KnownHeads::new(3);
        let sound = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let longer = b"HTTP/1.1 200 OK\r\nContent-Length: 55\r\n\r\nhello";
        let closing = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        // Request 4 shares a slot with request 0.
        for (request, input, length, keep_alive) in [
            (0, &sound[..], 5, true),
            (0, sound, 5, true),
            (4, longer, 55, true),
            (0, sound, 5, true),
            (1, closing, 5, false),
            (1, sound, 5, true),
        ] {
            let mut parser = ResponseParser::new(false);
            let head = Head { status: 200, keep_alive, length: Some(length) };
            let expected = ResponseParser::new(false).step(input);
            assert_eq!(parser.step_known(input, &mut known, request), expected);
            assert_eq!(expected.map(|(_, step)| step), Ok(Step::Head(head)));
            assert_eq!(parser.skippable(), length);
            // A head that comes in parts is not compared with known ones.
            let mut parser = ResponseParser::new(false);
            assert_eq!(parser.step_known(&input[..20], &mut known, request), Ok((0, Step::NeedMore)));
        }
    }

    #[test]
    fn skipping_equals_reading() {
        let mut parser = ResponseParser::new(false);
        let (n, _) = parser.step(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n").unwrap();
        assert_eq!((n, parser.skippable()), (39, 10));
        parser.skipped(4);
        assert_eq!(parser.at_end(), AtEnd::InBody(Some(6)));
        parser.skipped(6);
        assert!(parser.is_done());
        assert_eq!(parser.skippable(), 0);
    }
}
