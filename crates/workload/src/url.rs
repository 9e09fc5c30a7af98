//! Which URLs a workload may name: a path with its query on the target, or a whole URL of another host.

use super::template::Template;
use webstone_model::shown::quoted;

/// Why a text is not such a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UrlFault {
    /// Byte offset in the text.
    pub(super) at: usize,
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

/// Checks a URL, and returns it parsed as a template.
pub(super) fn check(url: &str) -> Result<Template, UrlFault> {
    let fault = |at: usize, what: String, hint: &str| UrlFault { at, what, hint: Some(hint.to_owned()) };
    let template = Template::parse(url).map_err(|error| UrlFault {
        at: error.at,
        what: error.to_string(),
        hint: Some("a literal `{{` is written {{\"{{\"}}, or %7B%7B in a URL".to_owned()),
    })?;
    if !url.starts_with('/') {
        let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
            let hint = match url.find("://") {
                Some(_) => "only http:// and https:// can be requested",
                None => {
                    "a path begins with a slash: put `/` in front, or write a whole http://host:port/path"
                }
            };
            return Err(fault(0, format!("{} is not a URL or a path", quoted(url)), hint));
        };
        let host_at = url.len() - rest.len();
        let Some(length) = rest.find('/') else {
            let hint = "the path begins with a slash, as in http://host:port/";
            return Err(fault(url.len(), format!("{} has no path", quoted(url)), hint));
        };
        check_authority(&rest[..length]).map_err(|what| {
            fault(host_at, format!("{}: {what}", quoted(url)), "write http://host:port/path")
        })?;
    }
    for literal in template.literals() {
        if let Some((at, character)) = literal.char_indices().find(|(_, c)| !is_allowed(*c)) {
            // Offsets inside a template's literal are not offsets of the text; a plain one's are.
            let at = if template.is_plain() && literal == url { at } else { 0 };
            let hint = match character {
                '#' => "the part behind # is never sent to a server: leave it out".to_owned(),
                other => {
                    let mut bytes = [0; 4];
                    let escaped: String =
                        other.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect();
                    format!("write it as {escaped}")
                }
            };
            let what =
                format!("{} holds {}, which a URL cannot", quoted(url), quoted(&character.to_string()));
            return Err(UrlFault { at, what, hint: Some(hint) });
        }
    }
    Ok(template)
}

/// As [`check`], in a filelist, which has no feeds that a template could take a value from.
pub(super) fn check_in_list(url: &str) -> Result<(), UrlFault> {
    match check(url)?.feed_columns().next() {
        None => Ok(()),
        Some((feed, _)) => Err(UrlFault {
            at: 0,
            what: format!("{} names the feed {}, and a filelist has none", quoted(url), quoted(feed)),
            hint: Some(format!("write a TOML workload, with the values under [feeds.{feed}]")),
        }),
    }
}

/// Whether a URL names its own host.
pub fn is_absolute(url: &str) -> bool {
    !url.starts_with('/')
}

/// What a request line can carry: visible ASCII. Characters that RFC 3986 reserves without naming a use (`|`, `[`) are
/// let through, because real logs hold them and real servers answer them.
fn is_allowed(character: char) -> bool {
    character.is_ascii_graphic() && character != '#'
}

fn check_authority(text: &str) -> Result<(), String> {
    let authority: http::uri::Authority =
        text.parse().map_err(|_| format!("{} is not a host and port", quoted(text)))?;
    if text.contains('@') {
        return Err("a user name in a URL is not sent; use an Authorization header".to_owned());
    }
    if authority.host().is_empty() {
        return Err("the host is empty".to_owned());
    }
    let port = &text[authority.host().len()..];
    match port.strip_prefix(':') {
        Some(digits) if digits.parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
        None if port.is_empty() => Ok(()),
        _ => Err(format!("{} is not a port from 1 to 65535", quoted(port.trim_start_matches(':')))),
    }
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
            ("ftp://h/x", 0, "not a URL", "http://"),
            ("http://h", 8, "no path", "slash"),
            ("http:///x", 7, "not a host", "host:port"),
            ("http://h:0/x", 7, "port", "host:port"),
            ("http://h:99999/x", 7, "port", "host:port"),
            ("http://h:/x", 7, "port", "host:port"),
            ("http://u:p@h/x", 7, "user name", "host:port"),
            ("http://{{seq}}/x", 7, "not a host", "host:port"),
            ("/a b", 2, "` `", "%20"),
            ("/é", 1, "`é`", "%C3%A9"),
            ("/a#top", 2, "`#`", "never sent"),
            ("/{{x", 1, "closing", "%7B"),
        ] {
            let fault = check(url).unwrap_err();
            assert_eq!(fault.at, at, "{url}: {fault:?}");
            assert!(fault.what.contains(word) && fault.hint.unwrap().contains(hint), "{url}: {}", fault.what);
        }
    }
}
