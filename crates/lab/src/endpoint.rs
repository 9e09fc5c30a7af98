//! One host of a target: its name is resolved, and a connection is tried. Each failure has a message and a remedy of its own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use webstone_engine::{addresses, connect_like};
use webstone_model::spec::{ClientSpec, HttpVersion};
use webstone_store::without_number;
use webstone_workload::addresses::AddressRange;
use webstone_workload::route::Reached;
use webstone_workload::target::{Target, UrlError};

/// Longest wait for the answer of a server that may expect TLS.
const TLS_PATIENCE: Duration = Duration::from_secs(2);
/// How long the other addresses of a host have after one has accepted a connection.
const OTHERS_PATIENCE: Duration = Duration::from_secs(1);
/// Most addresses of a host that are tried.
const TRIED_MAX: usize = 64;

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

/// All addresses of the host, the system's preferred ones first.
pub fn resolve(target: &Target) -> Result<Vec<SocketAddr>, TargetError> {
    let Target { host, port, .. } = target;
    addresses(host, *port).map_err(|error| match host.split_once('%') {
        Some(_) => TargetError::target(
            format!("the address `{host}`: {}", without_number(&error)),
            "after the % stands an interface of this host: `ip address` lists them",
        ),
        None => TargetError::target(
            format!("the host `{host}` is unknown: {}", without_number(&error)),
            "check the spelling, or give the server's address instead of its name",
        ),
    })
}

/// Where a host was reached, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The addresses that accept connections, of the family that is preferred among them.
    pub reached: Reached,
    /// A message that names them, if other addresses of the host did not answer.
    pub said: Option<String>,
}

/// Tries all addresses of the host at the same time, with the clients' options (RFC 8305 without its delay). A dead address costs a
/// second, not its timeout.
pub fn reach(target: &Target, client: &ClientSpec) -> Result<Contact, TargetError> {
    let all = resolve(target)?;
    // A local address reaches addresses of its own family only.
    let sources = || client.source.iter().flat_map(AddressRange::addresses);
    let fits = |address: &&SocketAddr| {
        client.source.is_empty() || sources().any(|source| source.is_ipv4() == address.is_ipv4())
    };
    let fitting: Vec<SocketAddr> = all.iter().filter(fits).copied().take(TRIED_MAX).collect();
    let tried = if fitting.is_empty() { all } else { fitting };
    let outcomes = tried_at_once(&tried, client);
    let is_reached = |address: &SocketAddr| {
        outcomes.iter().any(|(tried, outcome)| tried == address && matches!(outcome, Some(Ok(()))))
    };
    let Some(first) = tried.iter().find(|address| is_reached(address)) else {
        return Err(unreached(target, client, &tried, outcomes));
    };
    let addresses: Vec<SocketAddr> =
        tried.iter().filter(|it| it.is_ipv4() == first.is_ipv4() && is_reached(it)).copied().collect();
    let failed = tried.iter().filter(|address| !is_reached(address)).map(|address| {
        let outcome = outcomes.iter().find(|(tried, _)| tried == address).and_then(|(_, it)| it.as_ref());
        let how = match outcome {
            Some(Err(error)) => in_a_word(error),
            _ => "does not answer".to_owned(),
        };
        format!("{} {how}", address.ip())
    });
    let failed: Vec<String> = failed.collect();
    let listed: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
    let said = (!failed.is_empty())
        .then(|| format!("{} is {} ({})", target.host, listed.join(", "), failed.join(", ")));
    let reached = Reached { host: target.host.clone(), port: target.port, addresses };
    Ok(Contact { reached, said })
}

/// What became of a connection to each address; `None` for those that took too long.
type Outcomes = Vec<(SocketAddr, Option<io::Result<()>>)>;

fn tried_at_once(tried: &[SocketAddr], client: &ClientSpec) -> Outcomes {
    // The system call refuses a wait of no length.
    let patience = client.connect_timeout.as_duration().max(Duration::from_millis(1));
    if let [only] = tried {
        // The check asks over UDP, and a server may listen there alone.
        if client.http == HttpVersion::Http3 {
            return vec![(*only, Some(Ok(())))];
        }
        return vec![(*only, Some(connect_like(client, only, patience).map(drop)))];
    }
    let (tell, told) = channel();
    for address in tried.iter().copied() {
        let (tell, client) = (tell.clone(), client.clone());
        // They end with their timeout, whether anybody still listens or not.
        std::thread::spawn(move || tell.send((address, connect_like(&client, &address, patience).map(drop))));
    }
    drop(tell);
    let mut outcomes: Outcomes = tried.iter().map(|address| (*address, None)).collect();
    let mut until = Instant::now() + patience + OTHERS_PATIENCE;
    while let Ok((address, outcome)) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if outcome.is_ok() {
            until = until.min(Instant::now() + OTHERS_PATIENCE);
        }
        for (tried, is_known) in &mut outcomes {
            if *tried == address {
                *is_known = Some(outcome);
                break;
            }
        }
    }
    // Where none answers over TCP, the check still asks over UDP.
    if client.http == HttpVersion::Http3
        && !outcomes.iter().any(|(_, outcome)| matches!(outcome, Some(Ok(()))))
    {
        outcomes.iter_mut().for_each(|(_, outcome)| *outcome = Some(Ok(())));
    }
    outcomes
}

fn in_a_word(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refuses".to_owned(),
        io::ErrorKind::TimedOut => "does not answer".to_owned(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => "cannot be reached".to_owned(),
        _ => format!("fails: {}", without_number(error)),
    }
}

/// No address of a host accepts connections.
fn unreached(target: &Target, client: &ClientSpec, tried: &[SocketAddr], outcomes: Outcomes) -> TargetError {
    let patience = client.connect_timeout.as_duration().max(Duration::from_millis(1));
    let mut errors: Vec<io::Error> = outcomes
        .into_iter()
        .map(|(_, outcome)| outcome.and_then(Result::err).unwrap_or_else(|| io::ErrorKind::TimedOut.into()))
        .collect();
    let kind = errors[0].kind();
    if errors.iter().any(|error| error.kind() != kind) {
        let each =
            tried.iter().zip(&errors).map(|(address, error)| format!("{address} {}", in_a_word(error)));
        let each: Vec<String> = each.collect();
        return TargetError::target(
            format!("{target}: none of its addresses accepts a connection: {}", each.join(", ")),
            "start the server, or check the port and the route to it",
        );
    }
    let error = errors.remove(0);
    let address = tried.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" and ");
    let port = target.port;
    match error.kind() {
        io::ErrorKind::ConnectionRefused => TargetError::target(
            format!("{target}: connection refused by {address}: nothing listens on port {port}"),
            "start the server, or check the port; `webstone run` without a URL measures a server of its own",
        ),
        io::ErrorKind::TimedOut => TargetError::target(
            format!("{target}: no connection to {address} within {patience:?}"),
            "check the address, and that no firewall drops the packets",
        ),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => TargetError::target(
            format!("{target}: {address} cannot be reached: {}", without_number(&error)),
            "check the address and the route to it (ip route get)",
        ),
        _ => TargetError::target(
            format!("{target}: no connection to {address}: {}", without_number(&error)),
            match tried[0] {
                SocketAddr::V6(only) if only.ip().is_unicast_link_local() && only.scope_id() == 0 => {
                    "a link-local address needs its interface, as in http://[fe80::1%eth0]:8080"
                }
                _ => "check the address and the port",
            },
        ),
    }
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
            Err(TargetError::target(format!("the Unix socket {path}: {}", without_number(&error)), hint))
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

/// Whether a ClientHello is answered with a TLS record of version 3.x: a handshake message (22) or an alert (21). Connects to
/// the address that clients use.
pub fn speaks_tls(target: &Target, client: &ClientSpec) -> bool {
    if client.unix_socket.is_some() || client.proxy_protocol.is_some() {
        return false;
    }
    let ask = || -> io::Result<bool> {
        let place = client.connected_to(target);
        let known = client.reached_at(&place.host, place.port).map(<[SocketAddr]>::to_vec);
        let found = known.map_or_else(|| addresses(&place.host, place.port), Ok)?;
        let mut stream = TcpStream::connect_timeout(&found[0], TLS_PATIENCE)?;
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
    fn of_two_addresses_the_one_that_answers_is_kept_and_said() {
        // A port that is free on one family and listened on on the other.
        let listener = std::net::TcpListener::bind("[::1]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let [v4, v6]: [SocketAddr; 2] =
            [([127, 0, 0, 1], port).into(), (std::net::Ipv6Addr::LOCALHOST, port).into()];
        let outcomes = tried_at_once(&[v4, v6], &ClientSpec::default());
        assert!(matches!(&outcomes[..], [(_, Some(Err(_))), (_, Some(Ok(())))]), "{outcomes:?}");
        let localhost = target(&format!("http://localhost:{port}"));
        if resolve(&localhost).unwrap().len() == 2 {
            let contact = reach(&localhost, &ClientSpec::default()).unwrap();
            assert_eq!(contact.said.as_deref(), Some("localhost is ::1 (127.0.0.1 refuses)"));
            assert_eq!(contact.reached.addresses, [v6]);
            let client = ClientSpec { source: vec!["127.0.0.1".parse().unwrap()], ..ClientSpec::default() };
            assert!(reach(&localhost, &client).unwrap_err().what.contains("connection refused by 127.0.0.1"));
        }
        let only = reach(&target(&format!("http://[::1]:{port}")), &ClientSpec::default()).unwrap();
        assert_eq!((only.said, only.reached.addresses), (None, vec![v6]));
        drop(listener);
        let refused = unreached(
            &localhost,
            &ClientSpec::default(),
            &[v4, v6],
            tried_at_once(&[v4, v6], &ClientSpec::default()),
        );
        assert_eq!(
            refused.what,
            format!("{localhost}: connection refused by {v4} and {v6}: nothing listens on port {port}")
        );
    }

    #[test]
    fn a_zone_without_an_interface_is_named() {
        let error = reach(&target("http://[fe80::1%no-such]/"), &ClientSpec::default()).unwrap_err();
        assert_eq!(error.what, "the address `fe80::1%no-such`: there is no network interface `no-such`");
    }

    #[test]
    fn tls_is_recognised_by_the_answer_to_a_greeting() {
        let speaks = |answer| speaks_tls(&target(&answering(answer)), &ClientSpec::default());
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
