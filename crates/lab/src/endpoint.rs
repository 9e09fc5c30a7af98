//! One host of a target: its name is resolved, and a connection is tried. Each failure has a message and a remedy of its own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use webstone_engine::connect_like;
use webstone_model::spec::ClientSpec;
use webstone_workload::target::{Target, UrlError};

/// Longest wait for the answer of a server that may expect TLS.
const TLS_PATIENCE: Duration = Duration::from_secs(2);

/// Why a target cannot be put under load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    /// What was tried and what came of it.
    pub what: String,
    /// What to do about it.
    pub hint: String,
    /// Whether the specification is wrong and not the target.
    pub is_usage: bool,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for TargetError {}

impl TargetError {
    /// The target's answer is not usable.
    pub fn target(what: impl Into<String>, hint: impl Into<String>) -> TargetError {
        TargetError { what: what.into(), hint: hint.into(), is_usage: false }
    }

    /// The text is not a target.
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> TargetError {
        TargetError { what: what.into(), hint: hint.into(), is_usage: true }
    }
}

impl From<UrlError> for TargetError {
    fn from(error: UrlError) -> TargetError {
        TargetError::usage(error.to_string(), error.remedy)
    }
}

/// The host's addresses, of the family that load will use.
pub fn resolve(target: &Target) -> Result<Vec<SocketAddr>, TargetError> {
    let Target { host, port, .. } = target;
    let failed = |cause: &str| {
        TargetError::target(
            format!("the host `{host}` is unknown: {cause}"),
            "check the spelling, or give the server's address instead of its name",
        )
    };
    let found = (host.as_str(), *port).to_socket_addrs().map_err(|error| failed(&plain(&error)))?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.dedup();
    // Load stays within the family that the system prefers, so the other one is not needed.
    let Some(first) = addresses.first().copied() else { return Err(failed("it has no address")) };
    addresses.retain(|address| address.is_ipv4() == first.is_ipv4() || first.ip().is_loopback());
    Ok(addresses)
}

/// Connects once to an address of the host as the clients will, in the order of the resolver.
pub fn reach(target: &Target, client: &ClientSpec) -> Result<SocketAddr, TargetError> {
    // The system call refuses a wait of no length.
    let patience = client.connect_timeout.as_duration().max(Duration::from_millis(1));
    let mut last = None;
    for address in resolve(target)? {
        match connect_like(client, &address, patience) {
            Ok(_) => return Ok(address),
            Err(error) => last = Some((address, error)),
        }
    }
    let (address, error) = last.expect("resolve returns at least one address");
    let port = target.port;
    Err(match error.kind() {
        io::ErrorKind::ConnectionRefused => TargetError::target(
            format!("{target}: connection refused by {address}: nothing listens on port {port}"),
            "start the server, or check the port; `webstone run` without a URL measures a server of its own",
        ),
        io::ErrorKind::TimedOut => TargetError::target(
            format!("{target}: no connection to {address} within {patience:?}"),
            "check the address, and that no firewall drops the packets",
        ),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => TargetError::target(
            format!("{target}: {address} cannot be reached: {}", plain(&error)),
            "check the address and the route to it (ip route get)",
        ),
        _ => TargetError::target(
            format!("{target}: no connection to {address}: {}", plain(&error)),
            "check the address and the port",
        ),
    })
}

/// Connects once to a Unix socket.
pub fn reach_socket(path: &str) -> Result<(), TargetError> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "check the path, and that the server has created its socket",
                io::ErrorKind::PermissionDenied => "run as a user who may write to the socket",
                _ => "start the server that listens on it",
            };
            Err(TargetError::target(format!("the Unix socket {path}: {}", plain(&error)), hint))
        }
    }
}

/// A TLS 1.2 ClientHello without extensions (RFC 5246, section 7.4.1.2): enough for any TLS server to answer, with its
/// own hello or with an alert.
const CLIENT_HELLO: [u8; 56] = {
    let mut hello = [0x5a; 56];
    // Record: handshake, version 3.1 as every client writes there, 51 bytes. Message: ClientHello, 47 bytes, version 3.3.
    let head = [0x16, 3, 1, 0, 51, 1, 0, 0, 47, 3, 3];
    // After 32 bytes of "random": no session, four cipher suites, no compression.
    let tail = [0, 0, 8, 0xc0, 0x2f, 0xc0, 0x2b, 0x00, 0x9c, 0x13, 0x01, 1, 0];
    let mut at = 0;
    while at < head.len() {
        hello[at] = head[at];
        at += 1;
    }
    at = 0;
    while at < tail.len() {
        hello[43 + at] = tail[at];
        at += 1;
    }
    hello
};

/// Whether a ClientHello is answered with a TLS record of version 3.x: a handshake message (22) or an alert (21).
pub fn speaks_tls(target: &Target) -> bool {
    let ask = || -> io::Result<bool> {
        let address = resolve(target).ok().and_then(|found| found.first().copied());
        let address = address.ok_or(io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, TLS_PATIENCE)?;
        stream.set_read_timeout(Some(TLS_PATIENCE))?;
        stream.write_all(&CLIENT_HELLO)?;
        let mut record = [0; 2];
        stream.read_exact(&mut record)?;
        Ok(matches!(record, [0x15 | 0x16, 0x03]))
    };
    ask().unwrap_or(false)
}

/// Whether an address is this host's own: loopback, or one that a socket can be bound to.
pub fn is_this_host(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// The operating system's words without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::fixture::{answering, refusing};

    fn target(url: &str) -> Target {
        url.parse().unwrap()
    }

    #[test]
    fn an_unknown_host_and_a_refused_port_have_their_own_messages() {
        let unknown = resolve(&target("http://no-such-host.invalid")).unwrap_err();
        assert!(unknown.what.starts_with("the host `no-such-host.invalid` is unknown"), "{unknown}");
        assert!(unknown.hint.contains("spelling"));
        let (_bound, address) = refusing();
        let refused = reach(&target(&format!("http://{address}")), &ClientSpec::default()).unwrap_err();
        let expected = format!(
            "http://{address}: connection refused by {address}: nothing listens on port {}",
            address.port()
        );
        assert_eq!(refused.what, expected);
        assert!(refused.hint.starts_with("start the server"));
    }

    #[test]
    fn tls_is_recognised_by_the_answer_to_a_greeting() {
        let speaks = |answer| speaks_tls(&target(&answering(answer)));
        assert!(speaks(&[0x15, 0x03, 0x03, 0, 2, 2, 10]), "an alert");
        assert!(speaks(&[0x16, 0x03, 0x03, 0, 2, 2, 0]), "a hello");
        for other in [&b"SSH-2.0-x\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b""] {
            assert!(!speaks(other));
        }
    }

    #[test]
    fn a_missing_unix_socket_is_named() {
        let told = reach_socket("/nonexistent/socket").unwrap_err();
        assert_eq!(told.what, "the Unix socket /nonexistent/socket: No such file or directory");
    }
}
