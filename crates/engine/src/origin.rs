//! Where requests go: the servers of a run, host names resolved.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use webstone_workload::target::{Scheme, Target};

use crate::plan_error::PlanError;
use crate::sys::Address;
use crate::tls::Secure;

/// Where connections go.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The server that requests name in `Host` and absolute URLs.
    pub(crate) authority: String,
    /// Scheme of its URL.
    pub(crate) scheme: Scheme,
    /// The server that connections go to: the same, or a proxy.
    pub(crate) target: Target,
    /// Whether the host is a name, not an address.
    pub(crate) is_named: bool,
    /// Addresses, used in turn by connections. Never empty.
    pub(crate) addresses: Vec<Address>,
    /// The peer of a TLS handshake; absent without TLS.
    pub(crate) secure: Option<Secure>,
}

/// A server and a path on it. `what` names the option or file in the error.
pub(crate) fn split<'a>(what: &str, url: &'a str) -> Result<(Target, Cow<'a, str>), PlanError> {
    Target::split(url).map_err(|error| PlanError::new(format!("{what}: {error}"), error.remedy))
}

/// Whether a host is a name that must be resolved.
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
    // A name such as `localhost` often has both families, and a server often listens on one. Prefer the family that
    // the system lists first and use it alone, or every second connection would fail.
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
    fn an_invalid_url_is_reported_with_its_place() {
        let error = split("--proxy", "ftp://h/").unwrap_err();
        assert_eq!(error.what, "--proxy: URL `ftp://h/`: `ftp` is not a protocol that can be measured");
        assert!(error.hint.is_some());
    }

    #[test]
    fn addresses_resolve_to_themselves() {
        assert_eq!(resolve("t", "127.0.0.1", 5).unwrap(), ["127.0.0.1:5".parse().unwrap()]);
        assert_eq!(resolve("t", "::1", 5).unwrap(), ["[::1]:5".parse().unwrap()]);
        let error = resolve("--proxy", "no-such-host.invalid", 5).unwrap_err();
        assert!(error.what.starts_with("--proxy: the host name `no-such-host.invalid`"), "{}", error.what);
    }
}
