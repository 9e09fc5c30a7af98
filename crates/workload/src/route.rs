//! How connections get to a server: somewhere else than its URL says (`--connect-to`), with the PROXY protocol, at addresses that
//! answered before.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::load::ClientSpec;
use crate::target::{Place, Target};

/// Connections to one place go to another: curl's `HOST1:PORT1:HOST2:PORT2`. Requests and TLS still name the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo {
    from: End,
    to: End,
}

/// Host and port. Left out, it matches any, or keeps that of the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    host: Option<String>,
    port: Option<u16>,
}

impl ConnectTo {
    /// The place that connections go to, as far as it is written.
    pub fn destination(&self) -> String {
        self.to.to_string()
    }

    fn covers(&self, target: &Target) -> bool {
        self.from.host.as_ref().is_none_or(|host| *host == target.host)
            && self.from.port.is_none_or(|port| port == target.port)
    }
}

impl FromStr for ConnectTo {
    type Err = String;

    fn from_str(text: &str) -> Result<ConnectTo, String> {
        let wrong = |rule: &str| {
            format!("`{text}` {rule}; write HOST:PORT:HOST:PORT, as in a.test:443:127.0.0.1:8443")
        };
        let mut in_brackets = false;
        let parts: Vec<&str> = text
            .split(|c| {
                in_brackets = (in_brackets || c == '[') && c != ']';
                c == ':' && !in_brackets
            })
            .collect();
        let [host1, port1, host2, port2] = parts[..] else { return Err(wrong("does not have four parts")) };
        let end = |host: &str, port: &str| -> Result<End, String> {
            let host = match host {
                "" => None,
                host => match host.parse::<Place>() {
                    Ok(Place { host, port: None }) => Some(host),
                    _ => return Err(wrong(&format!("names the host `{host}`, which is not one"))),
                },
            };
            let number = || port.parse().ok().filter(|number: &u16| *number > 0 && !port.starts_with('+'));
            let port = match port {
                "" => None,
                _ => Some(
                    number().ok_or_else(|| wrong(&format!("names the port `{port}`, which is not one")))?,
                ),
            };
            Ok(End { host, port })
        };
        Ok(ConnectTo { from: end(host1, port1)?, to: end(host2, port2)? })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "{}", Place { host: host.clone(), port: None })?;
        }
        f.write_str(":")?;
        self.port.map_or(Ok(()), |port| write!(f, "{port}"))
    }
}

impl fmt::Display for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.from, self.to)
    }
}

webstone_measure::as_text!(
    ConnectTo,
    "ConnectTo",
    "Connections to the first HOST:PORT go to the second: HOST:PORT:HOST:PORT, each of which may be empty."
);

webstone_measure::named! {
    /// Version of the PROXY protocol, with which a load balancer says whom it connects for
    /// (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    ProxyProtocol:
    /// A line of text.
    V1 "v1",
    /// A binary header.
    V2 "v2",
}

/// The addresses of a host that connections go to, as the check before the load found them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Host, as in [`Target`].
    pub host: String,
    /// Port.
    pub port: u16,
    /// Those that accept connections, of one family; at least one.
    pub addresses: Vec<SocketAddr>,
}

impl ClientSpec {
    /// Where connections for a target go: to the target, or where `connect_to` leads.
    pub fn connected_to(&self, target: &Target) -> Target {
        let mut target = target.clone();
        if let Some(ConnectTo { to, .. }) = self.connect_to.iter().find(|route| route.covers(&target)) {
            target.host = to.host.clone().unwrap_or(target.host);
            target.port = to.port.unwrap_or(target.port);
        }
        target
    }

    /// These clients with connections for one target led to another, as several targets of a run are used in turn.
    #[must_use]
    pub fn leading(&self, from: &Target, to: &Target) -> ClientSpec {
        let to = self.connected_to(to);
        let end = |target: &Target| End { host: Some(target.host.clone()), port: Some(target.port) };
        let route = ConnectTo { from: end(from), to: end(&to) };
        ClientSpec { connect_to: [&[route], &self.connect_to[..]].concat(), ..self.clone() }
    }

    /// The addresses that a host was reached at, if it was.
    pub fn reached_at(&self, host: &str, port: u16) -> Option<&[SocketAddr]> {
        let known = self.reached.iter().find(|known| known.host == host && known.port == port);
        known.map(|known| &*known.addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(routes: &[&str], url: &str) -> String {
        let connect_to = routes.iter().map(|route| route.parse().unwrap()).collect();
        let client = ClientSpec { connect_to, ..ClientSpec::default() };
        client.connected_to(&url.parse().unwrap()).to_string()
    }

    #[test]
    fn connections_are_led_as_by_curl() {
        for (routes, url, expected) in [
            (&["a:80:b:81"][..], "http://a", "http://b:81"),
            (&["a:80:b:81"], "http://a:82", "http://a:82"),
            (&["A::[::1]:"], "https://a:82", "https://[::1]:82"),
            (&[":80::81"], "http://c", "http://c:81"),
            (&[":::81"], "http://c", "http://c:81"),
            (&[":::"], "http://c", "http://c"),
            (&["a:80:b:81", "a::c:"], "http://a", "http://b:81"),
            (&["a:80:b:81", "a::c:"], "http://a:82", "http://c:82"),
            (&["[::1]:80:[fe80::1%lo]:81"], "http://[0::1]", "http://[fe80::1%lo]:81"),
            // The result of one rule is not subject to the next.
            (&["a::b:", "b::c:"], "http://a", "http://b"),
        ] {
            assert_eq!(led(routes, url), expected, "{routes:?}");
            for route in routes {
                let parsed: ConnectTo = route.parse().unwrap();
                assert_eq!(parsed.to_string().parse(), Ok(parsed), "{route}");
            }
        }
    }

    #[test]
    fn what_is_not_four_parts_is_refused() {
        for (text, rule) in [
            ("", "does not have four parts"),
            ("a:80:b", "does not have four parts"),
            ("a:80:b:81:82", "does not have four parts"),
            ("a:80:::1:81", "does not have four parts"),
            ("a:80:[::1:81", "does not have four parts"),
            ("a b:80:b:81", "names the host `a b`"),
            ("a:0:b:81", "names the port `0`"),
            ("a:80:b:99999", "names the port `99999`"),
            ("a:80:b:+1", "names the port `+1`"),
        ] {
            let error = text.parse::<ConnectTo>().unwrap_err();
            assert!(error.contains(rule) && error.contains("; write HOST:PORT:HOST:PORT"), "{error}");
        }
    }
}
