//! Where a redirect leads: the URL in a `Location` field, resolved against the one that answered with it (RFC 3986, section 5.2).

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::target::{Target, UrlError};

/// Characters that a URL has only escaped; if a server sends them as they are, they are escaped as in browsers.
const UNSENDABLE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}');

/// Whether answers with this status lead elsewhere if they have a `Location`.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Whether the next request after this status is a GET without the body, as browsers and curl make it (RFC 9110, section 15.4).
pub fn becomes_get(status: u16, method: &str) -> bool {
    match status {
        301 | 302 => method == "POST",
        303 => method != "HEAD" && method != "GET",
        _ => false,
    }
}

/// Server and path of the URL that `location` leads to from a path of `target`. A fragment is not sent, so it is left out.
///
/// # Errors
/// If it leads to something that cannot be asked over HTTP.
pub fn resolve(target: &Target, path: &str, location: &str) -> Result<(Target, String), UrlError> {
    let location = location.trim();
    let location = location.split('#').next().unwrap_or_default();
    let location = utf8_percent_encode(location, UNSENDABLE).to_string();
    let has_scheme = location.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    let whole = match location.starts_with("//") {
        true => Some(format!("{}:{location}", target.scheme.name())),
        false => has_scheme.then(|| location.clone()),
    };
    if let Some(url) = whole {
        let (target, path) = Target::split(&url)?;
        return Ok((target, without_dots(&path)));
    }
    let asked = path.split(['?', '#']).next().unwrap_or("/");
    let path = match location.chars().next() {
        None => path.split('#').next().unwrap_or("/").to_owned(),
        Some('?') => format!("{asked}{location}"),
        Some('/') => without_dots(&location),
        Some(_) => {
            let folder = asked.rfind('/').map_or("/", |end| &asked[..=end]);
            without_dots(&format!("{folder}{location}"))
        }
    };
    Ok((target.clone(), path))
}

/// A path with its query, without the segments `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(from: &str, location: &str) -> String {
        let (target, path) = Target::split(from).unwrap();
        match resolve(&target, &path, location) {
            Ok((target, path)) => format!("{target}{path}"),
            Err(error) => error.rule,
        }
    }

    /// RFC 3986, sections 5.4.1 and 5.4.2; HTTP has no `;` of its own, and no fragment is sent.
    #[test]
    fn references_are_resolved_as_rfc_3986_has_them() {
        for (location, url) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g?y#s", "http://a/b/c/g?y"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
        ] {
            assert_eq!(led("http://a/b/c/d;p?q", location), url, "{location}");
        }
    }

    #[test]
    fn whole_urls_change_scheme_host_and_port() {
        for (location, url) in [
            ("https://a/x#top", "https://a/x"),
            ("HTTPS://B:8443", "https://b:8443/"),
            ("//b:81?x", "http://b:81/?x"),
            (" /a b\t", "http://a:8080/a%20b"),
            ("/\u{fc}?t={{x}}", "http://a:8080/%C3%BC?t=%7B%7Bx%7D%7D"),
            ("/r?to=http://b/", "http://a:8080/r?to=http://b/"),
            ("mailto:x@b", "the protocol is missing"),
            ("ftp://b/", "`ftp` is not a protocol that can be measured"),
        ] {
            assert_eq!(led("http://a:8080/", location), url, "{location}");
        }
    }

    #[test]
    fn posts_become_gets_where_browsers_do_it() {
        for (status, method, becomes) in [
            (301, "POST", true),
            (302, "POST", true),
            (302, "PUT", false),
            (303, "PUT", true),
            (303, "HEAD", false),
            (307, "POST", false),
            (308, "POST", false),
        ] {
            assert_eq!(becomes_get(status, method), becomes, "{status} {method}");
        }
        assert!(is_redirect(308) && !is_redirect(304) && !is_redirect(300));
    }
}
