//! The handler's answer to a request, in the form of CGI and its successors: header fields, an empty line, the body. Each piece
//! of the body is one write, the head goes with the first.

use std::cell::Cell;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::fill::FRAME_BYTES;
use crate::send::Send;

/// How an answer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// With a `Status` field where it is not 200, as CGI has it.
    StatusField,
    /// With the status line of HTTP, as uwsgi's programs do.
    StatusLine,
}

/// Takes what is written.
pub(super) trait Sink {
    /// One write of the handler; `is_last` with the last one.
    fn write(&mut self, content: &[u8], is_last: bool) -> io::Result<()>;
}

/// Answers a request with the query `query` (`None`: it has none).
pub(super) fn answer(
    opening: Opening,
    method: &[u8],
    query: Option<&[u8]>,
    random: &Cell<u64>,
    sink: &mut impl Sink,
) -> io::Result<()> {
    let parsed = match query.map(std::str::from_utf8).transpose() {
        Ok(query) => Send::parse(query).map_err(|error| error.to_string()),
        Err(_) => Err("the query is not UTF-8".to_owned()),
    };
    match parsed {
        Err(rule) => {
            let words = if method == b"HEAD" { String::new() } else { rule.clone() + "\n" };
            let text = head(opening, "400 Bad Request", rule.len() as u64 + 1) + &words;
            sink.write(text.as_bytes(), true)
        }
        Ok(send) => {
            let head = head(opening, "200 OK", send.size);
            if method == b"HEAD" {
                return sink.write(head.as_bytes(), true);
            }
            body(send, head.into_bytes(), random, sink)
        }
    }
}

fn body(send: Send, head: Vec<u8>, random: &Cell<u64>, sink: &mut impl Sink) -> io::Result<()> {
    let pieces = send.pieces();
    let mut buffer = head;
    let mut offset = 0;
    loop {
        let left = usize::try_from(pieces.end(offset, send.size) - offset).unwrap_or(usize::MAX);
        let bytes = send.fill.make(offset, left.min(FRAME_BYTES), random);
        buffer.extend_from_slice(&bytes);
        offset += bytes.len() as u64;
        let is_last = offset >= send.size;
        sink.write(&buffer, is_last)?;
        if is_last {
            return Ok(());
        }
        buffer.clear();
    }
}

fn head(opening: Opening, status: &str, length: u64) -> String {
    let first = match opening {
        Opening::StatusLine => format!("HTTP/1.1 {status}\r\n"),
        Opening::StatusField if status.starts_with("200") => String::new(),
        Opening::StatusField => format!("Status: {status}\r\n"),
    };
    format!("{first}Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")
}

/// A seed that differs between processes, and between one process and the next of the same number.
pub(super) fn seed() -> Cell<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    // Any seed but zero.
    Cell::new((now ^ u64::from(std::process::id()) << 40) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<(Vec<u8>, bool)>);

    impl Sink for Kept {
        fn write(&mut self, content: &[u8], is_last: bool) -> io::Result<()> {
            self.0.push((content.to_vec(), is_last));
            Ok(())
        }
    }

    fn answered(opening: Opening, method: &str, query: &str) -> Vec<(String, bool)> {
        let mut kept = Kept::default();
        answer(opening, method.as_bytes(), Some(query.as_bytes()), &Cell::new(1), &mut kept).unwrap();
        kept.0.into_iter().map(|(bytes, last)| (String::from_utf8(bytes).unwrap(), last)).collect()
    }

    const HEAD: &str = "Content-Type: text/plain\r\nContent-Length: ";

    #[test]
    fn each_piece_is_one_write_and_the_head_goes_with_the_first() {
        let writes = answered(Opening::StatusField, "GET", "size=6&writes=3&fill=pattern");
        let expected = [(format!("{HEAD}6\r\n\r\n?@"), false), ("AB".into(), false), ("CD".into(), true)];
        assert_eq!(writes, expected);
        let writes = answered(Opening::StatusField, "GET", "size=0");
        assert_eq!(writes, [(format!("{HEAD}0\r\n\r\n"), true)]);
        let large = answered(Opening::StatusField, "GET", "size=600000&fill=none");
        assert_eq!(large.len(), 3, "no more than 256 KiB is kept in memory");
        assert_eq!(large.iter().map(|(text, _)| text.matches('?').count()).sum::<usize>(), 600_000);
    }

    #[test]
    fn an_invalid_query_is_a_bad_request() {
        let writes = answered(Opening::StatusField, "GET", "size=x");
        let [(text, true)] = &writes[..] else { panic!("{writes:?}") };
        assert!(text.starts_with("Status: 400 Bad Request\r\n") && text.contains("size=x: "), "{text}");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{text}");
        let mut kept = Kept::default();
        answer(Opening::StatusField, b"GET", Some(b"\xFF"), &Cell::new(1), &mut kept).unwrap();
        assert!(kept.0[0].0.starts_with(b"Status: 400"));
    }

    #[test]
    fn head_has_no_body_and_uwsgi_a_status_line() {
        assert_eq!(
            answered(Opening::StatusLine, "HEAD", "size=5"),
            [(format!("HTTP/1.1 200 OK\r\n{HEAD}5\r\n\r\n"), true)]
        );
    }
}
