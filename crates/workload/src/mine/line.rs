//! One line of an access log: Common Log Format, and the formats derived from it.
//!
//! Only what all of them share is read: `CLIENT … [TIME] … "METHOD URL VERSION" STATUS SIZE …`. Before it there may
//! be a virtual host; after it, referrer, agent, request times and whatever else a server was configured to log.
//! Nothing is copied: a line is a few positions in the block it came in.

use memchr::{memchr, memchr2};

/// What a workload needs from a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Name or address of the client.
    pub client: &'a [u8],
    /// The text in brackets.
    pub time: &'a [u8],
    /// Method, as logged.
    pub method: &'a [u8],
    /// Request target, as logged: with the log's escapes (`\"`, `\x22`).
    pub target: &'a [u8],
    /// Status.
    pub status: u16,
    /// Bytes sent; `None` if the log has `-`.
    pub size: Option<u64>,
}

/// Why a line is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFault {
    /// No time in brackets.
    NoTime,
    /// No request in quotes after the time.
    NoRequest,
    /// The quoted text is not a request: usually bytes of another protocol, or a connection without a request.
    NotARequest,
    /// No status and size after the request.
    NoStatus,
    /// A comment that is no directive of the W3C extended format.
    Comment,
    /// A `#Fields:` without what a workload needs.
    NoColumns,
    /// A line below `#Fields:` that does not have its columns.
    FewColumns,
    /// It begins like JSON but cannot be parsed.
    NotJson,
    /// JSON of something else than a request.
    NoFields,
    /// Longer than a line may be.
    TooLong,
}

impl LineFault {
    /// The fault in words: what was expected.
    pub fn expected(self) -> &'static str {
        match self {
            LineFault::NoTime => "expected a time in brackets, as in [10/Oct/2000:13:55:36 -0700]",
            LineFault::NoRequest => "expected a request in quotes after the time, as in \"GET / HTTP/1.1\"",
            LineFault::NotARequest => "expected a method, a URL and a version in the quotes",
            LineFault::NoStatus => "expected a status and a size after the request, as in 200 2326",
            LineFault::Comment => "expected a line of a log, not a comment",
            LineFault::NoColumns => "expected #Fields with cs-method, cs-uri-stem and sc-status",
            LineFault::FewColumns => "expected the columns that #Fields names, with a status from 100 to 999",
            LineFault::NotJson => "expected a whole JSON object on the line",
            LineFault::NoFields => {
                "expected method, URL and status, in fields as nginx, Caddy, Traefik or Envoy name them"
            }
            LineFault::TooLong => "expected at most 65,536 bytes per line",
        }
    }
}

/// Reads a line, without its line end.
pub fn parse(line: &[u8]) -> Result<LogLine<'_>, LineFault> {
    if line.first() == Some(&b'#') {
        return Err(LineFault::Comment);
    }
    let open = time_opens(line).ok_or(LineFault::NoTime)?;
    let time_start = open + 1;
    let time_length = memchr(b']', &line[time_start..]).ok_or(LineFault::NoTime)?;
    let time = &line[time_start..time_start + time_length];
    let mut rest = &line[time_start + time_length + 1..];
    let mut fault = LineFault::NoRequest;
    // The request is the first quoted text, unless a format has the host's name there.
    for _ in 0..2 {
        let Some((quoted, after)) = next_quoted(rest) else { break };
        rest = after;
        let Some((method, target)) = request(quoted) else {
            fault = LineFault::NotARequest;
            continue;
        };
        let (status, size) = status_and_size(after).ok_or(LineFault::NoStatus)?;
        return Ok(LogLine { client: client(&line[..open]), time, method, target, status, size });
    }
    Err(fault)
}

/// Offset of the bracket that opens the time: one before a digit, so that an IPv6 address or a user's name in
/// brackets is skipped.
fn time_opens(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'[', line).find(|at| {
        let inner = &line[at + 1..];
        // 10/Oct/2000:… or 2000-10-10T…
        let day =
            inner.len() > 11 && inner[0].is_ascii_digit() && inner[1].is_ascii_digit() && inner[2] == b'/';
        let iso = inner.len() > 11 && inner[..4].iter().all(u8::is_ascii_digit) && inner[4] == b'-';
        day || iso
    })
}

/// The client among the fields before the time: the first, or the second after a virtual host. The field after the
/// client (identd's answer) is `-` in practice, and shows which it is.
fn client(before: &[u8]) -> &[u8] {
    let mut fields = before.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let first = fields.next().unwrap_or_default();
    match (fields.next(), fields.next(), fields.next()) {
        (Some(second), Some(b"-"), Some(_)) if second != b"-" => second,
        _ => first,
    }
}

/// The next quoted text, without its quotes, and the rest.
fn next_quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = memchr(b'"', text)? + 1;
    let mut at = start;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some((&text[start..at], &text[at + 1..]));
        }
        at += 2;
    }
}

/// Method and target of a request line. Its version may be missing (HTTP/0.9), and its target may hold blanks.
pub(super) fn request(quoted: &[u8]) -> Option<(&[u8], &[u8])> {
    let method_length = memchr(b' ', quoted)?;
    let method = &quoted[..method_length];
    if method.is_empty() || method.len() > 32 || !method.iter().all(|b| b.is_ascii_alphabetic() || *b == b'-')
    {
        return None;
    }
    let rest = &quoted[method_length + 1..];
    let target = match memchr::memrchr(b' ', rest) {
        Some(at) if rest[at + 1..].starts_with(b"HTTP/") => &rest[..at],
        _ => rest,
    };
    (!target.is_empty()).then_some((method, target))
}

fn status_and_size(text: &[u8]) -> Option<(u16, Option<u64>)> {
    let text = text.strip_prefix(b" ")?;
    let digits = text.get(..3)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let status = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    let text = text[3..].strip_prefix(b" ")?;
    let length = memchr(b' ', text).unwrap_or(text.len());
    match &text[..length] {
        b"-" => Some((status, None)),
        digits => Some((status, Some(number(digits)?))),
    }
}

/// A whole number of at most 18 digits: no file has more bytes.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    number_within(digits, 18)
}

/// A whole number of at most this many digits, no more than 19: there is no overflow.
fn number_within(digits: &[u8], most: usize) -> Option<u64> {
    let is_number = (1..=most).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Seconds since 1970 of a time as logs have it; `None` if it is not a time.
pub(super) fn seconds(time: &[u8]) -> Option<i64> {
    // Seconds with a fraction, as Caddy writes them and nginx's $msec.
    let whole = time.split(|byte| *byte == b'.').next().unwrap_or_default();
    // Nanoseconds since 1970 have 19 digits.
    if let Some(seconds) = number_within(whole, 19) {
        // Or milliseconds, or finer.
        let in_seconds = std::iter::successors(Some(seconds), |fine| Some(fine / 1000));
        return in_seconds.into_iter().find(|seconds| *seconds < 100_000_000_000).map(u64::cast_signed);
    }
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = time.get(range)?;
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0')))
    };
    let is_iso = time.get(4) == Some(&b'-');
    let (year, month, day) = if is_iso {
        (number(0..4)?, number(5..7)?, number(8..10)?)
    } else {
        const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
        let month = MONTHS.chunks(3).position(|name| time.get(3..6) == Some(name))?;
        (number(7..11)?, month as i64 + 1, number(0..2)?)
    };
    // Both forms have the hour after the date and one separator.
    let hour = if is_iso { 11 } else { 12 };
    let clock =
        number(hour..hour + 2)? * 3600 + number(hour + 3..hour + 5)? * 60 + number(hour + 6..hour + 8)?;
    let zone = time.iter().rposition(|byte| matches!(byte, b'+' | b'-')).filter(|at| *at > hour);
    let offset = match zone {
        Some(at) => {
            let colon = usize::from(time.get(at + 3) == Some(&b':'));
            let span = number(at + 1..at + 3)? * 3600 + number(at + 3 + colon..at + 5 + colon)? * 60;
            if time[at] == b'-' { -span } else { span }
        }
        None => 0,
    };
    // Days of the civil calendar: months are counted from March, so that the leap day is the last of the year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + clock - offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(line: &str) -> Result<(String, String, String, u16, Option<u64>), LineFault> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        parse(line.as_bytes()).map(|l| (text(l.client), text(l.method), text(l.target), l.status, l.size))
    }

    #[test]
    fn the_formats_of_the_field_are_understood() {
        for (line, client, method, target, status, size) in [
            (
                "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a.gif HTTP/1.0\" 200 2326",
                "127.0.0.1",
                "GET",
                "/a.gif",
                200,
                Some(2326),
            ),
            (
                "h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 304 - \"http://r/\" \"Mozilla/5.0 (X; \\\"Y\\\")\"",
                "h",
                "GET",
                "/",
                304,
                None,
            ),
            (
                "::1 - - [10/Oct/2000:13:55:36 +0000] \"POST /x?y=z HTTP/2.0\" 200 0 \"-\" \"-\" 0.004 0.004 .",
                "::1",
                "POST",
                "/x?y=z",
                200,
                Some(0),
            ),
            (
                "www.example.com:80 10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /v HTTP/1.1\" 200 5",
                "10.0.0.1",
                "GET",
                "/v",
                200,
                Some(5),
            ),
            (
                "[2001:db8::1]:443 2001:db8::2 - bob [10/Oct/2000:13:55:36 -0700] \"GET /6 HTTP/1.1\" 200 5",
                "2001:db8::2",
                "GET",
                "/6",
                200,
                Some(5),
            ),
            (
                "h - a b [x] [10/Oct/2000:13:55:36 -0700] \"GET /u HTTP/1.1\" 200 5",
                "h",
                "GET",
                "/u",
                200,
                Some(5),
            ),
            (
                "h - - [2000-10-10T13:55:36+00:00] \"GET /iso HTTP/1.1\" 206 7",
                "h",
                "GET",
                "/iso",
                206,
                Some(7),
            ),
            ("h - - [10/Oct/2000:13:55:36 -0700] \"GET /09\" 200 5", "h", "GET", "/09", 200, Some(5)),
            (
                "h - - [10/Oct/2000:13:55:36 -0700] \"GET /a b c HTTP/1.0\" 200 5",
                "h",
                "GET",
                "/a b c",
                200,
                Some(5),
            ),
            (
                "h - - [10/Oct/2000:13:55:36 -0700] \"GET /q\\\"q HTTP/1.0\" 200 5",
                "h",
                "GET",
                "/q\\\"q",
                200,
                Some(5),
            ),
            (
                "h - - [10/Oct/2000:13:55:36 -0700] \"www.example.com\" \"GET /h HTTP/1.0\" 200 5",
                "h",
                "GET",
                "/h",
                200,
                Some(5),
            ),
            (
                "h - - [10/Oct/2000:13:55:36 -0700] 0.31 \"GET /t HTTP/1.0\" 200 5",
                "h",
                "GET",
                "/t",
                200,
                Some(5),
            ),
            // Apache's %D and %T, microseconds and seconds, where formats have them.
            (
                "h - - [10/Oct/2000:13:55:36 -0700] \"GET /D HTTP/1.1\" 200 5 1234 \"-\" \"curl\"",
                "h",
                "GET",
                "/D",
                200,
                Some(5),
            ),
            (
                "h 1234 - [10/Oct/2000:13:55:36 -0700] 0/1234 \"GET /TD HTTP/1.1\" 200 5",
                "h",
                "GET",
                "/TD",
                200,
                Some(5),
            ),
            (
                "h - - [10/Oct/2000:13:55:36 -0700] \"GET /k HTTP/1.1\" 200 5 **0/1234**",
                "h",
                "GET",
                "/k",
                200,
                Some(5),
            ),
            (
                "h - - [10/Oct/2000:13:55:36 -0700] \"GET http://p:80/x HTTP/1.0\" 200 5",
                "h",
                "GET",
                "http://p:80/x",
                200,
                Some(5),
            ),
        ] {
            let expected = (client.to_owned(), method.to_owned(), target.to_owned(), status, size);
            assert_eq!(shown(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn other_lines_say_what_is_missing() {
        let head = "h - - [10/Oct/2000:13:55:36 -0700]";
        for (line, fault) in [
            ("#Fields: date time".to_owned(), LineFault::Comment),
            ("hello".into(), LineFault::NoTime),
            ("h - - [10/Oct/2000:13:55:36 -0700 \"GET / HTTP/1.1\" 200 5".into(), LineFault::NoTime),
            ("h - - [yesterday] \"GET / HTTP/1.1\" 200 5".into(), LineFault::NoTime),
            (head.into(), LineFault::NoRequest),
            (format!("{head} \"GET / HTTP/1.1 200 5"), LineFault::NoRequest),
            (format!("{head} \"GET /\\"), LineFault::NoRequest),
            (format!("{head} \"-\" 408 0"), LineFault::NotARequest),
            (format!("{head} \"\\x16\\x03\\x01\" 400 226"), LineFault::NotARequest),
            (format!("{head} \"GET \" 400 226"), LineFault::NotARequest),
            (format!("{head} \"GET / HTTP/1.1\""), LineFault::NoStatus),
            (format!("{head} \"GET / HTTP/1.1\" 20"), LineFault::NoStatus),
            (format!("{head} \"GET / HTTP/1.1\" 200"), LineFault::NoStatus),
            (format!("{head} \"GET / HTTP/1.1\" 200 x"), LineFault::NoStatus),
            (format!("{head} \"GET / HTTP/1.1\" 200 9999999999999999999"), LineFault::NoStatus),
        ] {
            assert_eq!(shown(&line), Err(fault), "{line}");
        }
    }

    #[test]
    fn times_are_seconds() {
        for (time, expected) in [
            ("01/Jan/1970:00:00:00 +0000", 0),
            ("10/Oct/2000:13:55:36 -0700", 971_211_336),
            ("29/Feb/2024:23:59:59 +0100", 1_709_247_599),
            ("2000-10-10T13:55:36-07:00", 971_211_336),
            ("2000-10-10T20:55:36Z", 971_211_336),
            ("2000-10-10 20:55:36.123", 971_211_336),
            ("971211336", 971_211_336),
            ("971211336.25", 971_211_336),
            ("971211336250", 971_211_336),
            ("971211336250000000", 971_211_336),
            ("1760104536250000000", 1_760_104_536),
            ("1760104536250000.5", 1_760_104_536),
        ] {
            assert_eq!(seconds(time.as_bytes()), Some(expected), "{time}");
        }
        for time in [
            "",
            "99999999999999999999",
            "10/Foo/2000:13:55:36 -0700",
            "10/Oct/2000",
            "2000-10-10",
            "10/Oct/2000:13:55:36 -07",
        ] {
            assert_eq!(seconds(time.as_bytes()), None, "{time}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(
            line in proptest::collection::vec(prop_oneof![
                Just(b"[10/Oct/2000:13:55:36 -0700]".to_vec()), Just(b" \"GET /".to_vec()), Just(b"\" 200 5".to_vec()),
                Just(b"\\".to_vec()), Just(b"\"".to_vec()), Just(b" - - ".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..5),
            ], 0..12)
        ) {
            let line = line.concat();
            if let Ok(parsed) = parse(&line) {
                let _ = seconds(parsed.time);
            }
            let _ = seconds(&line);
        }
    }
}
