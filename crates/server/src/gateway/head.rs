//! The head of a handler's answer: RFC 3875 section 6. The fields of CGI itself (`Content-Type`, `Location`, `Status`) are
//! obeyed, the length frames the body, what concerns a connection is the server's own and dropped, all else goes to the
//! client.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};

/// Longest head that is read.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most fields of one.
const FIELDS_MAX: usize = 100;
/// Fields of a connection, or that the server writes itself.
const OWN: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "date",
    "server",
];

/// What an answer begins with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(super) status: StatusCode,
    pub(super) content_type: Option<HeaderValue>,
    /// Length of the body, where it is given.
    pub(super) length: Option<u64>,
    pub(super) redirect: Redirect,
    pub(super) others: Vec<(HeaderName, HeaderValue)>,
}

/// Where a `Location` leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// There is none.
    None,
    /// To another path of this server, which answers with it at once.
    Local(String),
    /// Elsewhere; the client is told.
    Client(HeaderValue),
}

/// Where the head ends in what has come, and the body begins.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'\n', &bytes[from..]) {
        let line = from + found + 1;
        match &bytes[line..] {
            [b'\n', ..] => return Some(line + 1),
            [b'\r', b'\n', ..] => return Some(line + 2),
            _ => from = line,
        }
    }
    None
}

impl Head {
    /// Reads a head, up to its empty line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Head, String> {
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut head = Head {
            status: StatusCode::OK,
            content_type: None,
            length: None,
            redirect: Redirect::None,
            others: Vec::new(),
        };
        let mut status = None;
        let mut location = None;
        for (index, line) in lines.filter(|line| !line.is_empty()).enumerate() {
            if index == FIELDS_MAX {
                return Err(format!("it has more than {FIELDS_MAX} header fields"));
            }
            let quoted = || String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
            let colon =
                memchr::memchr(b':', line).ok_or_else(|| format!("`{}` is not a header field", quoted()))?;
            let name = HeaderName::from_bytes(&line[..colon])
                .map_err(|_| format!("`{}` does not begin with the name of a header field", quoted()))?;
            let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii())
                .map_err(|_| format!("`{}` has a control character", quoted()))?;
            let once = |is_new: bool| match is_new {
                true => Ok(()),
                false => Err(format!("it has {name} twice")),
            };
            match name.as_str() {
                "status" => once(status.replace(parse_status(&value)?).is_none())?,
                "content-type" => once(head.content_type.replace(value).is_none())?,
                "content-length" => {
                    let length = value.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                    let length = length.and_then(|text| text.parse().ok());
                    let length = length.ok_or_else(|| format!("`{}` is not a length", quoted()))?;
                    once(head.length.replace(length).is_none())?;
                }
                "location" => once(location.replace(value).is_none())?,
                own if OWN.contains(&own) => {}
                _ => head.others.push((name, value)),
            }
        }
        if status.is_none() && location.is_none() && head.content_type.is_none() {
            return Err("it has neither Content-Type nor Location nor Status".to_owned());
        }
        if let Some(location) = location {
            let local =
                location.to_str().ok().filter(|path| path.starts_with('/') && !path.starts_with("//"));
            head.redirect = match local {
                // With a status, the redirect is for the client.
                Some(path) if status.is_none() => Redirect::Local(path.to_owned()),
                _ => Redirect::Client(location),
            };
        }
        let by_itself = match head.redirect {
            Redirect::Client(_) => StatusCode::FOUND,
            _ => StatusCode::OK,
        };
        head.status = status.unwrap_or(by_itself);
        Ok(head)
    }
}

/// Three digits, and any words after them.
fn parse_status(value: &HeaderValue) -> Result<StatusCode, String> {
    let text = value.to_str().unwrap_or_default();
    let digits = text.split(' ').next().unwrap_or_default();
    let code = digits.parse::<u16>().ok().filter(|code| (200..=599).contains(code) && digits.len() == 3);
    code.and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or_else(|| format!("`Status: {text}` is not from 200 to 599"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Head, String> {
        assert_eq!(end(text.as_bytes()), Some(text.len()), "{text:?}");
        Head::parse(text.as_bytes())
    }

    #[test]
    fn a_head_ends_with_an_empty_line_of_either_kind() {
        for (text, at) in
            [("A: b\r\n\r\nbody", 8), ("A: b\n\nbody", 6), ("A: b\r\n\nbody", 7), ("A: b\n\r\nbody", 7)]
        {
            assert_eq!(end(text.as_bytes()), Some(at), "{text:?}");
        }
        for text in ["", "A: b", "A: b\n", "A: b\r\nB: c\r\n", "A: b\r\n\r"] {
            assert_eq!(end(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn fields_of_cgi_are_obeyed_and_those_of_connections_dropped() {
        let head = parse(
            "Content-type: text/plain\nSTATUS: 404 Not here\nContent-Length: 12\nX-A: 1\nX-A: 2\nConnection: close\n\
             Transfer-Encoding: chunked\nServer: other\n\n",
        )
        .unwrap();
        assert_eq!((head.status.as_u16(), head.length), (404, Some(12)));
        assert_eq!(head.content_type.unwrap(), "text/plain");
        let others: Vec<(&str, &[u8])> =
            head.others.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(others, [("x-a", &b"1"[..]), ("x-a", b"2")]);
    }

    #[test]
    fn redirects_are_local_or_the_clients() {
        let redirect = |text: &str| {
            let head = parse(text).unwrap();
            (head.status.as_u16(), head.redirect)
        };
        let client = |text| Redirect::Client(HeaderValue::from_static(text));
        assert_eq!(redirect("Location: /a?b=1\n\n"), (200, Redirect::Local("/a?b=1".into())));
        assert_eq!(redirect("Location: http://a/b\n\n"), (302, client("http://a/b")));
        assert_eq!(redirect("Location: //a/b\n\n"), (302, client("//a/b")));
        assert_eq!(redirect("Location: /a\nStatus: 301 Moved\n\n"), (301, client("/a")));
    }

    #[test]
    fn garbage_is_named() {
        for (text, rule) in [
            ("X-A: 1\n\n", "neither Content-Type nor Location nor Status"),
            ("Content-Type text/plain\n\n", "is not a header field"),
            ("Bad Name: x\n\n", "does not begin with the name"),
            ("Content-Type: a\x01b\n\n", "control character"),
            ("Content-Type: a\nContent-Type: b\n\n", "content-type twice"),
            ("Status: 101 Switching\n\n", "is not from 200 to 599"),
            ("Status: ok\n\n", "is not from 200 to 599"),
            ("Status: 0200\n\n", "is not from 200 to 599"),
            ("Content-Type: a\nContent-Length: -1\n\n", "is not a length"),
            ("Content-Type: a\nContent-Length: 1, 1\n\n", "is not a length"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(rule), "{text:?}: {said}");
        }
        let many = "X: 1\n".repeat(101) + "\n";
        assert!(parse(&many).unwrap_err().contains("more than 100"));
    }
}
