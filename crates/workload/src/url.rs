//! Which URLs a workload may have: a path with its query on the target, or a whole URL of another host.

use super::problem::Fault;
use super::template::Template;
use crate::target::{Scheme, Target};
use webstone_measure::shown::quoted;

/// Checks a URL, and returns it parsed as a template.
pub(super) fn check(url: &str) -> Result<Template, Fault> {
    let fault = |at: usize, what: String, hint: &str| Fault::new(at, what).hint(hint);
    let template = Template::parse(url).map_err(|error| {
        fault(error.at, error.to_string(), "a literal `{{` is written {{\"{{\"}}, or %7B%7B in a URL")
    })?;
    if !url.starts_with('/') {
        let Some((scheme, rest)) = url.split_once("://") else {
            let hint = "a path begins with a slash: put `/` in front, or write a whole http://host:port/path";
            return Err(fault(0, format!("{} is not a URL or a path", quoted(url)), hint));
        };
        let host = if Scheme::by_name(scheme).is_some() { url.len() - rest.len() } else { 0 };
        Target::split(url).map_err(|error| fault(host, error.to_string(), &error.remedy))?;
        let path = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if !rest[path..].starts_with('/') {
            let hint = "the path begins with a slash, as in http://host:port/";
            return Err(fault(host + path, format!("{} has no path", quoted(url)), hint));
        }
    }
    for literal in template.literals() {
        if let Some((at, character)) = literal.char_indices().find(|(_, c)| !is_allowed(*c)) {
            // Offsets inside a template's literal are not offsets of the text, except in a text without placeholders.
            let at = if template.is_plain() && literal == url { at } else { 0 };
            let hint = match character {
                '#' => "the part after # is never sent to a server: leave it out".to_owned(),
                other => {
                    let mut bytes = [0; 4];
                    let escaped: String =
                        other.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect();
                    format!("write it as {escaped}")
                }
            };
            let what =
                format!("{} holds {}, which a URL cannot", quoted(url), quoted(&character.to_string()));
            return Err(fault(at, what, &hint));
        }
    }
    Ok(template)
}

/// As [`check`], for a filelist, which has no feeds for templates.
pub(super) fn check_in_list(url: &str) -> Result<(), Fault> {
    let template = check(url)?;
    let Some((feed, _)) = template.feed_columns().next() else { return Ok(()) };
    let what = format!("{} names the feed {}, and a filelist has none", quoted(url), quoted(feed));
    Err(Fault::new(0, what).hint(format!("write a TOML workload, with the values under [feeds.{feed}]")))
}

/// Whether a URL has its own host.
pub fn is_absolute(url: &str) -> bool {
    !url.starts_with('/')
}

/// What a request line may contain: visible ASCII. Characters that RFC 3986 reserves without a use (`|`, `[`) are
/// allowed, because real logs contain them and real servers answer them.
fn is_allowed(character: char) -> bool {
    character.is_ascii_graphic() && character != '#'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_whole_urls_are_urls() {
        for url in [
            "/",
            "/a.html",
            "/a?b=c&d=[e]|f",
            "http://h/",
            "https://h:8443/x",
            "http://[::1]:80/x",
            "/u/{{rand 1 9}}?n={{seq}}",
            "//double",
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn other_texts_are_not_and_the_fault_says_why() {
        for (url, at, word, hint) in [
            ("a.html", 0, "not a URL", "slash"),
            ("", 0, "not a URL", "slash"),
            ("ftp://h/x", 0, "`ftp` is not a protocol", "http://"),
            ("http://h", 8, "no path", "slash"),
            ("http://h?x/y", 8, "no path", "slash"),
            ("http:///x", 7, "host is missing", "http://HOST:PORT"),
            ("http://h:0/x", 7, "`0` is not a port", "65535"),
            ("http://u:p@h/x", 7, "user name", "header field"),
            ("http://{{seq}}/x", 7, "not a host", "http://HOST:PORT"),
            ("/a b", 2, "` `", "%20"),
            ("/é", 1, "`é`", "%C3%A9"),
            ("/a#top", 2, "`#`", "never sent"),
            ("/{{x", 1, "closing", "%7B"),
        ] {
            let fault = check(url).unwrap_err();
            assert_eq!(fault.offset, at, "{url}: {fault:?}");
            assert!(fault.what.contains(word) && fault.hint.unwrap().contains(hint), "{url}: {}", fault.what);
        }
    }
}
