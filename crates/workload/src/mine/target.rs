//! Turns a request target in a log into a path that a workload may request from the server.

use std::borrow::Cow;

/// Maximum length of a URL, in bytes.
const URL_BYTES_MAX: usize = 8192;

/// What a target in a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// A path on the server that wrote the log.
    Path(Cow<'a, str>),
    /// A URL of any host, with or without scheme (`//host/…`): a client tested whether the server is an open proxy,
    /// or it is one. A workload with such a URL would put that host under load.
    Elsewhere,
    /// Not the URL of a file (`*`, a host and port, nonsense), or too long.
    Unusable,
}

/// The path of a target: without the log's escapes, percent-encoded where necessary, and without its query if that is
/// not wanted. `scratch` is a buffer for a path that must be rewritten.
pub(super) fn read<'a>(target: &'a [u8], keep_query: bool, scratch: &'a mut Vec<u8>) -> Target<'a> {
    if target.first() != Some(&b'/') {
        return if has_scheme(target) { Target::Elsewhere } else { Target::Unusable };
    }
    // A fragment is not part of a request; if a broken client sends one, servers ignore it.
    let cut = |byte: &u8| *byte == b'#' || (*byte == b'?' && !keep_query);
    let target = &target[..target.iter().position(cut).unwrap_or(target.len())];
    let cleaned = if target.iter().all(|byte| PLAIN[usize::from(*byte)]) {
        target
    } else {
        scratch.clear();
        rewrite(target, scratch);
        &scratch[..]
    };
    if cleaned.starts_with(b"//") {
        return Target::Elsewhere;
    }
    match std::str::from_utf8(cleaned) {
        Ok(text) if text.len() <= URL_BYTES_MAX => Target::Path(Cow::Borrowed(text)),
        // Only visible ASCII is left, so it is always valid text.
        _ => Target::Unusable,
    }
}

/// Whether a target has a scheme, as requests to proxies do.
fn has_scheme(target: &[u8]) -> bool {
    let scheme =
        target.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
    scheme > 0 && target[scheme..].starts_with(b"://")
}

/// Whether a URL is that of a document and not of something in it: it has the ending of one, or none.
pub(super) fn is_document(url: &str) -> bool {
    let path = &url[..url.find('?').unwrap_or(url.len())];
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        None => true,
        Some((_, ending)) => ["html", "htm", "shtml", "xhtml", "php", "asp", "aspx", "jsp", "cgi", "pl"]
            .iter()
            .any(|document| ending.eq_ignore_ascii_case(document)),
    }
}

/// Bytes that need no encoding: visible ASCII, except for the characters that begin a log's escape or a template.
static PLAIN: [bool; 256] = plain();

const fn plain() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte <= 0x7e {
        table[byte] = byte != b'\\' as usize && byte != b'{' as usize && byte != b'#' as usize;
        byte += 1;
    }
    table
}

fn rewrite(target: &[u8], out: &mut Vec<u8>) {
    let mut rest = target;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let value = match (byte, after) {
            (b'\\', [b'x', high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = &after[3..];
                let digit = |hex: u8| char::from(hex).to_digit(16).unwrap_or(0) as u8;
                digit(*high) << 4 | digit(*low)
            }
            (b'\\', [escaped, ..]) => {
                rest = &after[1..];
                match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => *other,
                }
            }
            _ => *byte,
        };
        if PLAIN[usize::from(value)] {
            out.push(value);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend([b'%', HEX[usize::from(value >> 4)], HEX[usize::from(value & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cleaned(target: &[u8], keep_query: bool) -> Option<String> {
        match read(target, keep_query, &mut Vec::new()) {
            Target::Path(path) => Some(path.into_owned()),
            Target::Elsewhere | Target::Unusable => None,
        }
    }

    #[test]
    fn targets_become_urls() {
        for (target, expected) in [
            (&b"/a?b=c"[..], "/a?b=c"),
            (b"/a b", "/a%20b"),
            (b"/q\\\"q\\x22\\\\", "/q\"q\"%5C"),
            (b"/\\xe2\\x82\\xac\xff", "/%E2%82%AC%FF"),
            (b"/{{seq}}", "/%7B%7Bseq}}"),
            (b"/a#b?c", "/a"),
            (b"/\\", "/%5C"),
        ] {
            assert_eq!(cleaned(target, true).as_deref(), Some(expected));
        }
        assert_eq!(cleaned(b"/a?b", false).as_deref(), Some("/a"));
        for target in [&b"*"[..], b"h:443", b"", b"://h/", b"h/x?u=http://h/"] {
            assert_eq!(read(target, true, &mut Vec::new()), Target::Unusable);
        }
        assert_eq!(cleaned(&[b'/'; URL_BYTES_MAX + 1], true), None);
    }

    #[test]
    fn urls_of_other_hosts_are_recognized() {
        for target in [
            &b"http://h:80/x"[..],
            b"HTTP://h/",
            b"https://h",
            b"ftp://h/",
            b"http://",
            b"//h/x",
            b"\\x2f/h",
            b"/\\x2fh/",
        ] {
            let is_path = target[0] == b'\\';
            let expected = if is_path { Target::Unusable } else { Target::Elsewhere };
            assert_eq!(read(target, true, &mut Vec::new()), expected, "{}", String::from_utf8_lossy(target));
        }
        assert_eq!(cleaned(b"/go?to=http://h/", true).as_deref(), Some("/go?to=http://h/"));
    }

    #[test]
    fn documents_are_recognized_by_their_ending() {
        for url in ["/", "/a/", "/a", "/a.html", "/A.HTM?x=.gif", "/x.d/y", "/i.php?q", "http://h/"] {
            assert!(is_document(url), "{url}");
        }
        for url in ["/a.gif", "/a.css?x", "/favicon.ico", "/a.html.gz"] {
            assert!(!is_document(url), "{url}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_kept_is_valid_in_a_workload(
            target in proptest::collection::vec(any::<u8>(), 0..40), keep in any::<bool>(),
        ) {
            let target = [b"/", &target[..]].concat();
            if let Some(path) = cleaned(&target, keep) {
                prop_assert!(path.starts_with('/') && !path.starts_with("//"), "{}", path);
                prop_assert!(crate::url::check(&path).is_ok(), "{}", path);
            }
        }
    }
}
