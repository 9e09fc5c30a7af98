//! Where requests go: URLs taken apart, host names resolved.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use crate::plan::PlanError;
use crate::sys::Address;

/// A server by name: scheme, host and port of a URL, and the addresses behind them.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// `host` or `host:port`, as `Host` and absolute URLs name it.
    pub(crate) authority: String,
    /// Host without port or brackets.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
    /// The host is a name, not an address.
    pub(crate) is_named: bool,
    /// Addresses, used in turn by connections. Never empty.
    pub(crate) addresses: Vec<Address>,
}

/// A URL's origin and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// `host` or `host:port`.
    pub(crate) authority: String,
    /// Host without brackets.
    pub(crate) host: String,
    /// Port; 80 where none is given.
    pub(crate) port: u16,
    /// Path with its query; `/` where there is none.
    pub(crate) target: String,
}

/// Takes an `http://` URL apart. `what` names the option or file in the error.
pub(crate) fn parse_url(what: &str, text: &str) -> Result<Url, PlanError> {
    let error = |rule: &str, hint: &str| PlanError {
        what: format!("{what}: `{text}` {rule}"),
        hint: Some(hint.to_owned()),
    };
    let example = "write a URL such as http://127.0.0.1:8080/";
    let Some((scheme, _)) = text.split_once("://") else {
        return Err(error("has no scheme", example));
    };
    match scheme {
        "http" => {}
        "https" => {
            return Err(error(
                "asks for TLS (https), which this version does not support",
                "use the server's http:// address, or put a TLS-terminating proxy's plain side under test",
            ));
        }
        _ => return Err(error("is not an http:// URL", example)),
    }
    let uri: http::Uri = text.parse().map_err(|cause| error(&format!("is not a URL ({cause})"), example))?;
    let authority = uri.authority().ok_or_else(|| error("names no host", example))?;
    if authority.as_str().contains('@') {
        return Err(error("carries a user name", "send credentials with -H 'Authorization: …'"));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        return Err(error("names no host", example));
    }
    let port = match (authority.port(), authority.port_u16()) {
        (None, _) if authority.as_str().ends_with(authority.host()) => 80,
        (_, Some(port)) if port > 0 => port,
        _ => return Err(error("has a port that is not between 1 and 65535", example)),
    };
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok(Url { authority: authority.as_str().to_owned(), host, port, target })
}

/// Whether a host is a name, so that there is something to resolve.
pub(crate) fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err()
}

/// The addresses of a host. `what` names the option or file in the error.
pub(crate) fn resolve(what: &str, host: &str, port: u16) -> Result<Vec<SocketAddr>, PlanError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let failed = |cause: String| PlanError {
        what: format!("{what}: the host name `{host}` does not resolve: {cause}"),
        hint: Some("check the spelling, or give the server's address".to_owned()),
    };
    let found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| failed(error.to_string()))?.collect();
    // A name such as `localhost` often has both families, and a server often listens on one. Prefer what the system
    // lists first and stay within that family, so that connections in turn do not fail in turn.
    let first_is_v6 = found.first().ok_or_else(|| failed("it has no address".to_owned()))?.is_ipv6();
    let mut kept: Vec<SocketAddr> =
        found.into_iter().filter(|address| address.is_ipv6() == first_is_v6).collect();
    kept.dedup();
    // `localhost` first lists ::1 on many systems where servers listen on 127.0.0.1 only.
    if host == "localhost" && kept == [SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port)] {
        kept = vec![SocketAddr::from(([127, 0, 0, 1], port))];
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart() {
        let url = parse_url("target", "http://example.org:8080/a?b").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.target.as_str()), ("example.org", 8080, "/a?b"));
        assert_eq!(url.authority, "example.org:8080");
        let url = parse_url("target", "http://[::1]:81").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.target.as_str()), ("::1", 81, "/"));
        assert_eq!(parse_url("target", "http://h").unwrap().port, 80);
    }

    #[test]
    fn wrong_urls_name_the_rule() {
        for (text, rule) in [
            ("127.0.0.1:80", "no scheme"),
            ("https://h/", "TLS"),
            ("ftp://h/", "not an http://"),
            ("http://", "not a URL"),
            ("http://h:0/", "port"),
            ("http://h:99999/", "port"),
            ("http://h:/", "port"),
            ("http://u:p@h/", "user name"),
            ("http://a b/", "not a URL"),
        ] {
            let error = parse_url("target", text).unwrap_err();
            assert!(error.what.contains(rule) && error.hint.is_some(), "{text}: {}", error.what);
        }
    }

    #[test]
    fn addresses_resolve_to_themselves() {
        assert_eq!(resolve("t", "127.0.0.1", 5).unwrap(), ["127.0.0.1:5".parse().unwrap()]);
        assert_eq!(resolve("t", "::1", 5).unwrap(), ["[::1]:5".parse().unwrap()]);
        let error = resolve("--proxy", "no-such-host.invalid", 5).unwrap_err();
        assert!(error.what.starts_with("--proxy: the host name `no-such-host.invalid`"), "{}", error.what);
    }
}
