//! Where requests go: the servers of a run, host names resolved.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use webstone_workload::load::ClientSpec;
use webstone_workload::target::{Scheme, Target};

use crate::plan_error::PlanError;
use crate::sys::{Address, interface_number};
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
    host.split('%').next().is_none_or(|address| address.parse::<IpAddr>().is_err())
}

/// Every address of a host, each once, in the system's order of preference. The zone of an IPv6 address is an interface of this host.
///
/// # Errors
/// What the system's resolver says; for a zone, that there is no such interface.
pub fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Some((address, zone)) = host.split_once('%')
        && let Ok(address) = address.parse::<Ipv6Addr>()
    {
        let number = interface_number(zone).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => error,
            _ => io::Error::new(io::ErrorKind::NotFound, format!("there is no network interface `{zone}`")),
        })?;
        return Ok(vec![SocketAddrV6::new(address, port, 0, number).into()]);
    }
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs()? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    // Where the system lists ::1 alone, servers often listen on 127.0.0.1 alone.
    if host == "localhost" && !found.iter().any(SocketAddr::is_ipv4) {
        found.push(([127, 0, 0, 1], port).into());
    }
    match found.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::NotFound, "it has no address")),
        false => Ok(found),
    }
}

/// Every address at which these clients connect to a target. A host that was reached before the load is not resolved again. `what`
/// names the option or file in the error.
pub(crate) fn all_addresses(
    what: &str,
    client: &ClientSpec,
    target: &Target,
) -> Result<Vec<SocketAddr>, PlanError> {
    let Target { host, port, .. } = client.connected_to(target);
    if let Some(reached) = client.reached_at(&host, port) {
        return Ok(reached.to_vec());
    }
    addresses(&host, port).map_err(|error| PlanError {
        what: format!("{what}: the host name `{host}` does not resolve: {error}"),
        hint: Some("check the spelling, or give the server's address".to_owned()),
    })
}

/// The addresses that load goes to, all of one family. Which families the server listens on is unknown until it was reached; that of the
/// first address is the most likely. If both were used in turn, every other connection could fail.
pub(crate) fn resolve(
    what: &str,
    client: &ClientSpec,
    target: &Target,
) -> Result<Vec<SocketAddr>, PlanError> {
    let mut found = all_addresses(what, client, target)?;
    let is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    found.retain(|address| address.is_ipv6() == is_v6);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_workload::route::Reached;

    #[test]
    fn an_invalid_url_is_reported_with_its_place() {
        let error = split("--proxy", "ftp://h/").unwrap_err();
        assert_eq!(error.what, "--proxy: URL `ftp://h/`: `ftp` is not a protocol that can be measured");
        assert!(error.hint.is_some());
    }

    #[test]
    fn addresses_resolve_to_themselves() {
        let client = ClientSpec::default();
        let resolved = |what, url: &str| resolve(what, &client, &url.parse().unwrap());
        assert_eq!(resolved("t", "http://127.0.0.1:5").unwrap(), ["127.0.0.1:5".parse().unwrap()]);
        assert_eq!(resolved("t", "http://[::1]:5").unwrap(), ["[::1]:5".parse().unwrap()]);
        let error = resolved("--proxy", "http://no-such-host.invalid:5").unwrap_err();
        assert!(error.what.starts_with("--proxy: the host name `no-such-host.invalid`"), "{}", error.what);
    }

    #[test]
    fn a_zone_is_an_interface() {
        for zone in ["lo", "1"] {
            let found = addresses(&format!("fe80::1%{zone}"), 80).unwrap();
            assert_eq!(found, ["[fe80::1%1]:80".parse().unwrap()], "the first interface is loopback");
            assert!(!is_name(&format!("fe80::1%{zone}")));
        }
        let error = addresses("fe80::1%no-such", 80).unwrap_err();
        assert_eq!(error.to_string(), "there is no network interface `no-such`");
    }

    #[test]
    fn what_was_reached_is_not_resolved_again() {
        let mut client = ClientSpec {
            connect_to: vec!["a.invalid:80:b.invalid:81".parse().unwrap()],
            ..ClientSpec::default()
        };
        let addresses: Vec<SocketAddr> =
            vec!["192.0.2.1:81".parse().unwrap(), "192.0.2.2:81".parse().unwrap()];
        client.reached.push(Reached { host: "b.invalid".into(), port: 81, addresses: addresses.clone() });
        assert_eq!(resolve("t", &client, &"http://a.invalid".parse().unwrap()).unwrap(), addresses);
        assert!(resolve("t", &client, &"http://a.invalid:82".parse().unwrap()).is_err());
        client.connect_to.clear();
        client.reached[0] =
            Reached { host: "localhost".into(), port: 80, addresses: vec!["[::1]:80".parse().unwrap()] };
        assert_eq!(
            resolve("t", &client, &"http://localhost".parse().unwrap()).unwrap(),
            client.reached[0].addresses
        );
    }
}
