//! The server in a URL: [`Target`], the only parser of scheme, host and port, for connecting, comparing and showing.
//! It does not check the path.
//!
//! A Unix socket is not a kind of target: it says where connections go (`client.unix_socket`), while the URL still
//! gives the server's name.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use webstone_measure::shown::quoted;

const USER_RULE: &str = "a user name in a URL is not sent";
const USER_REMEDY: &str = "write a header field instead, as in 'Authorization: Basic …'";
const FORM: &str = "write http://HOST:PORT/PATH, as in http://127.0.0.1:8080/index.html";

webstone_measure::named! {
    /// The scheme of a URL.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Scheme:
    /// HTTP without TLS.
    Http "http",
    /// HTTP over TLS.
    Https "https",
}

impl Scheme {
    /// The scheme of this name, in upper or lower case.
    pub fn by_name(name: &str) -> Option<Scheme> {
        Scheme::ALL.into_iter().find(|known| name.eq_ignore_ascii_case(known.name()))
    }

    /// The port of a URL without one.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A server in a URL. Displayed as `http://host:port`, without the scheme's default port; different URLs of one
/// server (capital letters, the default port, a trailing slash) are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The scheme.
    pub scheme: Scheme,
    /// Name in small letters, or address; an IPv6 address has no brackets, and may have a zone: `fe80::1%eth0`.
    pub host: String,
    /// Port, at least 1.
    pub port: u16,
    /// Protocols that a TLS handshake offers, in order of preference (RFC 7301). Not part of a URL.
    pub alpn: Vec<String>,
}

/// Why a text is not a valid URL of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("URL {}: {rule}", quoted(.url))]
pub struct UrlError {
    /// The text.
    pub url: String,
    /// The rule that it breaks.
    pub rule: String,
    /// What to write instead.
    pub remedy: String,
}

impl UrlError {
    fn new(url: &str, rule: impl Into<String>, remedy: impl Into<String>) -> UrlError {
        UrlError { url: without_user(url), rule: rule.into(), remedy: remedy.into() }
    }
}

/// A URL as messages show it: without its user name and password.
fn without_user(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    match user_end(&url[start..]) {
        Some(end) => format!("{}[redacted]{}", &url[..start], &url[start + end..]),
        None => url.to_owned(),
    }
}

/// Where the user name and password end that a URL has after its scheme. A password may hold a slash.
fn user_end(rest: &str) -> Option<usize> {
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_password =
        || authority.rsplit_once(':').is_some_and(|(host, port)| !host.ends_with(']') && !is_port(port));
    rest.rfind('@').filter(|_| authority.contains('@') || is_password())
}

impl Target {
    /// Splits a URL into the server, and the path with its query, unchanged and with its leading slash. The path may
    /// contain templates and a fragment.
    pub fn split(url: &str) -> Result<(Target, Cow<'_, str>), UrlError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            let is_word =
                url != "localhost" && url.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let remedy = match url {
                "" => FORM.to_owned(),
                name if is_word => {
                    format!("write http://{name}, or --server {name} if webstone is to start it")
                }
                url => format!("write http://{}", without_user(url)),
            };
            return Err(UrlError::new(url, "the protocol is missing", remedy));
        };
        let Some(scheme) = Scheme::by_name(scheme) else {
            let rule = format!("{} is not a protocol that can be measured", quoted(scheme));
            return Err(UrlError::new(url, rule, FORM));
        };
        if user_end(rest).is_some() {
            return Err(UrlError::new(url, USER_RULE, USER_REMEDY));
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let place = Place::read(authority).map_err(|(rule, remedy)| UrlError::new(url, rule, remedy))?;
        let port = place.port.unwrap_or(scheme.default_port());
        let path = match path {
            "" => Cow::Borrowed("/"),
            path if path.starts_with('/') => Cow::Borrowed(path),
            path => Cow::Owned(format!("/{path}")),
        };
        Ok((Target { scheme, host: place.host, port, alpn: Vec::new() }, path))
    }

    /// `host`, or `host:port` where the port is not the scheme's own: as `Host` and absolute URLs name the server (RFC 9110,
    /// section 7.2). A zone means something on this host only, and is not sent (RFC 6874, section 4).
    pub fn authority(&self) -> String {
        self.place(self.host_without_zone()).to_string()
    }

    /// The host as a server knows it.
    pub fn host_without_zone(&self) -> &str {
        self.host.split('%').next().unwrap_or(&self.host)
    }

    /// This host with the target's port, if that is not the scheme's own.
    pub fn place(&self, host: &str) -> Place {
        let port = Some(self.port).filter(|port| *port != self.scheme.default_port());
        Place { host: host.to_owned(), port }
    }
}

impl FromStr for Target {
    type Err = UrlError;

    /// Parses a URL of a server, without a path.
    fn from_str(url: &str) -> Result<Target, UrlError> {
        let (target, path) = Target::split(url)?;
        match &*path {
            "/" => Ok(target),
            path => Err(UrlError::new(
                url,
                format!("it must name only a server, but it has the path {}", quoted(path)),
                format!("write {target}"),
            )),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.place(&self.host))
    }
}

/// A host, with a port if that matters: `HOST` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name in small letters, or address; an IPv6 address has no brackets, and may have a zone.
    pub host: String,
    /// Port, at least 1; `None`: any.
    pub port: Option<u16>,
}

impl Place {
    /// Whether a target is at this host and port.
    pub fn covers(&self, target: &Target) -> bool {
        self.host == target.host && self.port.is_none_or(|port| port == target.port)
    }

    /// Parses a place; the error is the rule that it breaks, and the remedy.
    fn read(text: &str) -> Result<Place, (String, &'static str)> {
        if text.contains('@') {
            return Err((USER_RULE.to_owned(), USER_REMEDY));
        }
        let bracket = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (host, port) = match bracket {
            Some((host, port)) => (host, port),
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let (address, zone) = match host.split_once('%') {
            Some((address, zone)) if bracket.is_some() => (address, Some(zone_of(zone))),
            _ => (host, None),
        };
        let host = match (bracket, address.parse::<Ipv6Addr>()) {
            (Some(_), Ok(address)) => match zone {
                None => address.to_string(),
                Some(zone) if !zone.is_empty() && zone.bytes().all(is_of_name) => format!("{address}%{zone}"),
                Some(zone) => {
                    let rule = format!("{} is not a network interface", quoted(zone));
                    return Err((rule, "write its name or number, as in http://[fe80::1%eth0]:8080"));
                }
            },
            (None, _) if text.parse::<Ipv6Addr>().is_ok() => {
                let rule = format!("{} is an IPv6 address without brackets", quoted(text));
                return Err((rule, "write it in brackets, as in http://[::1]:8080"));
            }
            (None, _) if host.is_empty() => return Err(("the host is missing".to_owned(), FORM)),
            (None, _) if host.bytes().all(is_of_name) => host.to_ascii_lowercase(),
            _ => return Err((format!("{} is not a host", quoted(host)), FORM)),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let number = digits.parse().ok().filter(|port| *port > 0);
                Some(number.ok_or_else(|| no_port(digits))?)
            }
            rest => return Err(no_port(rest.unwrap_or(port))),
        };
        Ok(Place { host, port })
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        Place::read(text).map_err(|(rule, _)| rule)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.host.split_once('%')) {
            // Read back, it would otherwise be an escaped percent sign.
            (true, Some((address, zone))) if zone.starts_with("25") => write!(f, "[{address}%25{zone}]")?,
            (true, _) => write!(f, "[{}]", self.host)?,
            (false, _) => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A zone as it was meant: RFC 6874 escapes the percent sign before it (`%25eth0`), and users write it as `ip` and curl take it.
fn zone_of(text: &str) -> &str {
    text.strip_prefix("25").filter(|rest| !rest.is_empty()).unwrap_or(text)
}

fn no_port(text: &str) -> (String, &'static str) {
    (format!("{} is not a port", quoted(text)), "write a port from 1 to 65535")
}

/// Whether a registered name may contain this byte (RFC 3986, section 3.2.2); without escapes, which no resolver
/// accepts.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(url: &str) -> (String, String, u16, String) {
        let (target, path) = Target::split(url).unwrap();
        assert!(target.alpn.is_empty());
        (target.to_string(), target.host, target.port, path.into_owned())
    }

    #[test]
    fn a_url_is_a_server_and_a_path() {
        for (url, shown, host, port, path) in [
            ("http://a", "http://a", "a", 80, "/"),
            ("HTTP://A:80/", "http://a", "a", 80, "/"),
            ("https://a", "https://a", "a", 443, "/"),
            ("https://a:80", "https://a:80", "a", 80, "/"),
            ("http://127.0.0.1:8080/x?y=1", "http://127.0.0.1:8080", "127.0.0.1", 8080, "/x?y=1"),
            ("http://[0:0::1]:81", "http://[::1]:81", "::1", 81, "/"),
            ("http://[FE80:0::1%eth0.7]/x", "http://[fe80::1%eth0.7]", "fe80::1%eth0.7", 80, "/x"),
            ("http://[fe80::1%25eth0]:81/", "http://[fe80::1%eth0]:81", "fe80::1%eth0", 81, "/"),
            ("http://[fe80::1%2525]/", "http://[fe80::1%2525]", "fe80::1%25", 80, "/"),
            ("http://[fe80::1%2]/", "http://[fe80::1%2]", "fe80::1%2", 80, "/"),
            ("http://a?b", "http://a", "a", 80, "/?b"),
            ("http://a_b/{{rand 1 9}}#x", "http://a_b", "a_b", 80, "/{{rand 1 9}}#x"),
            ("http://a/u@b://c", "http://a", "a", 80, "/u@b://c"),
        ] {
            assert_eq!(parts(url), (shown.into(), host.into(), port, path.into()), "{url}");
        }
    }

    #[test]
    fn an_error_has_url_rule_and_remedy() {
        for (url, rule, remedy) in [
            ("localhost:8080", "the protocol is missing", "write http://localhost:8080"),
            (
                "nginx",
                "the protocol is missing",
                "write http://nginx, or --server nginx if webstone is to start it",
            ),
            ("", "the protocol is missing", FORM),
            ("ftp://a/", "`ftp` is not a protocol that can be measured", FORM),
            ("http://", "the host is missing", FORM),
            ("http:///x", "the host is missing", FORM),
            ("http://:80/x", "the host is missing", FORM),
            ("http://a b/", "`a b` is not a host", FORM),
            ("http://ä/", "`ä` is not a host", FORM),
            ("http://{{seq}}/", "`{{seq}}` is not a host", FORM),
            ("http://[::g]/", "`::g` is not a host", FORM),
            ("http://[::1/", "`[` is not a host", FORM),
            (
                "http://[fe80::1%]/",
                "`` is not a network interface",
                "write its name or number, as in http://[fe80::1%eth0]:8080",
            ),
            ("http://[fe80::1%e/h]/", "`[fe80` is not a host", FORM),
            ("http://[a%eth0]/", "`a%eth0` is not a host", FORM),
            ("http://a%eth0/", "`a%eth0` is not a host", FORM),
            (
                "http://::1/",
                "`::1` is an IPv6 address without brackets",
                "write it in brackets, as in http://[::1]:8080",
            ),
            ("http://a:0/", "`0` is not a port", "write a port from 1 to 65535"),
            ("http://a:65536/", "`65536` is not a port", "write a port from 1 to 65535"),
            ("http://a:+1/", "`+1` is not a port", "write a port from 1 to 65535"),
            ("http://a:/", "`` is not a port", "write a port from 1 to 65535"),
            ("http://[::1]80/", "`80` is not a port", "write a port from 1 to 65535"),
        ] {
            let error = Target::split(url).unwrap_err();
            assert_eq!((error.url.as_str(), error.rule.as_str(), error.remedy.as_str()), (url, rule, remedy));
            assert_eq!(error.to_string(), format!("URL `{url}`: {rule}"));
        }
    }

    #[test]
    fn a_password_is_in_no_message() {
        for (url, shown) in [
            ("http://me:pw@a/", "http://[redacted]@a/"),
            ("http://pw@a/x@y", "http://[redacted]@y"),
            ("http://me:p/w@a/", "http://[redacted]@a/"),
            ("http://me:p@w#1@a:80/", "http://[redacted]@a:80/"),
            ("ftp://me:pw@a", "ftp://[redacted]@a"),
            ("me:pw@a", "[redacted]@a"),
        ] {
            let error = Target::split(url).unwrap_err();
            assert_eq!(error.url, shown);
            assert!(!format!("{error} {}", error.remedy).contains("pw"), "{error}");
        }
        assert_eq!(Target::split("http://me:pw@a/").unwrap_err().rule, USER_RULE);
        for url in ["http://a:80x/", "http://[::1]:x/@", "http://a:81x"] {
            assert!(!Target::split(url).unwrap_err().url.contains("redacted"), "{url}");
        }
        assert!(Target::split("http://a:80/me@x").is_ok() && Target::split("http://a/me:pw@x").is_ok());
    }

    #[test]
    fn a_server_alone_has_no_path() {
        assert_eq!("http://a/".parse::<Target>().unwrap().authority(), "a");
        assert_eq!("http://[fe80::1%eth0]:81".parse::<Target>().unwrap().authority(), "[fe80::1]:81");
        let error = "http://a:81/x".parse::<Target>().unwrap_err();
        assert_eq!(
            (error.rule.as_str(), error.remedy.as_str()),
            ("it must name only a server, but it has the path `/x`", "write http://a:81")
        );
    }

    #[test]
    fn a_place_covers_the_targets_there() {
        let covers = |place: &str, url: &str| place.parse::<Place>().unwrap().covers(&url.parse().unwrap());
        assert!(
            covers("A", "http://a:81") && covers("a:443", "https://A/") && covers("[::1]", "http://[::1]")
        );
        assert!(!covers("a", "http://b") && !covers("a:80", "https://a"));
        for text in ["", "http://a", "a/", "u@a", "a:", "a:0", "a:99999", ":80", "a b"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_and_prints_back(text in ".{0,40}") {
            check_round_trip(&text);
        }

        /// Texts that are mostly valid URLs.
        #[test]
        fn a_displayed_target_parses_to_the_same(
            scheme in "(http|https|HTTP|ftp)(://)?",
            host in "[a-zA-Z0-9._-]{0,9}|\\[[0-9a-f:.]{0,12}\\]|\\[fe80::1%[25e%.]{0,4}\\]|[a-z@:%\\[\\]]{0,6}",
            port in "(:[0-9+]{0,6})?",
            path in "([/?#][a-z{} /:@]{0,8})?",
        ) {
            check_round_trip(&format!("{scheme}{host}{port}{path}"));
        }
    }

    fn check_round_trip(text: &str) {
        let Ok((target, path)) = Target::split(text) else { return };
        assert!(path.starts_with('/') && target.port > 0, "{text}");
        assert_eq!(target.to_string().parse().as_ref(), Ok(&target), "{text}");
        let whole = format!("{target}{path}");
        assert_eq!(Target::split(&whole), Ok((target, path)), "{text}");
    }
}
