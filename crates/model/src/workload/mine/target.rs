//! From a request target in a log to a URL that a workload may name.

use std::borrow::Cow;

use super::super::url;

/// Longest URL that is kept, in bytes.
const URL_BYTES_MAX: usize = 8192;

/// The URL of a target: the log's escapes undone, what a URL cannot hold as percent escapes, without its query where
/// that is not wanted. `None` where it is no URL of a file (`*`, a host and port, nonsense) or is too long. `scratch` is
/// room for what must be rewritten.
pub(super) fn url<'a>(target: &'a [u8], keep_query: bool, scratch: &'a mut Vec<u8>) -> Option<Cow<'a, str>> {
    let is_path = target.first() == Some(&b'/');
    if !is_path && !target.starts_with(b"http://") && !target.starts_with(b"https://") {
        return None;
    }
    // A fragment is never part of a request; where a broken client sent one, servers drop it.
    let cut = |byte: &u8| *byte == b'#' || (*byte == b'?' && !keep_query);
    let target = &target[..target.iter().position(cut).unwrap_or(target.len())];
    let cleaned = if target.iter().all(|byte| PLAIN[usize::from(*byte)]) {
        target
    } else {
        scratch.clear();
        rewrite(target, scratch);
        &scratch[..]
    };
    if cleaned.len() > URL_BYTES_MAX {
        return None;
    }
    // Only visible ASCII is left, so this never fails.
    let text = std::str::from_utf8(cleaned).ok()?;
    if !is_path && url::check(text).is_err() {
        return None;
    }
    Some(Cow::Borrowed(text))
}

/// Whether a URL is that of a document rather than of something in it: by its ending, or for lack of one.
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

/// Bytes that stand for themselves: visible ASCII, without what opens a log's escape or a template.
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
        url(target, keep_query, &mut Vec::new()).map(Cow::into_owned)
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
            (b"http://h:80/x", "http://h:80/x"),
        ] {
            assert_eq!(cleaned(target, true).as_deref(), Some(expected));
        }
        assert_eq!(cleaned(b"/a?b", false).as_deref(), Some("/a"));
        for target in [&b"*"[..], b"h:443", b"", b"http://", b"http://h", b"http://a b/", b"ftp://h/"] {
            assert_eq!(cleaned(target, true), None);
        }
        assert_eq!(cleaned(&[b'/'; URL_BYTES_MAX + 1], true), None);
    }

    #[test]
    fn documents_are_told_by_their_ending() {
        for url in ["/", "/a/", "/a", "/a.html", "/A.HTM?x=.gif", "/x.d/y", "/i.php?q", "http://h/"] {
            assert!(is_document(url), "{url}");
        }
        for url in ["/a.gif", "/a.css?x", "/favicon.ico", "/a.html.gz"] {
            assert!(!is_document(url), "{url}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_kept_may_stand_in_a_workload(
            target in proptest::collection::vec(any::<u8>(), 0..40), keep in any::<bool>(), path in any::<bool>(),
        ) {
            let target = [if path { &b"/"[..] } else { b"http://h/" }, &target].concat();
            let url_text = cleaned(&target, keep).unwrap();
            prop_assert!(url::check(&url_text).is_ok(), "{}", url_text);
        }
    }
}
