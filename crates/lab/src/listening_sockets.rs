//! A server's sockets by inode, the number by which `/proc/<pid>/fd` names them, and how much each has dropped: listening sockets of
//! TCP, and for HTTP/3 unconnected ones of UDP.
//!
//! The kernel is asked for listening sockets only (`sock_diag(7)`). `/proc/net/tcp` walks the table of all connections, which
//! takes milliseconds of CPU time if it is large, and is read only if asking fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, StateFlags};

use serde::{Deserialize, Serialize};
use webstone_model::spec::HttpVersion;

use crate::machine::Root;
use crate::sock_diag::sockets;

/// Ports of a server, of TCP or of UDP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Their numbers.
    pub numbers: BTreeSet<u16>,
    /// Addresses of this host that the load goes to; empty: any.
    #[serde(skip)]
    pub addresses: BTreeSet<IpAddr>,
    /// They are of UDP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_udp: bool,
}

impl Ports {
    /// Those of this host that a version of HTTP goes to.
    pub fn of_targets(targets: impl IntoIterator<Item = SocketAddr>, http: HttpVersion) -> Ports {
        let mut ports = Ports { over_udp: http == HttpVersion::Http3, ..Ports::default() };
        for target in targets {
            ports.numbers.insert(target.port());
            ports.addresses.insert(target.ip().to_canonical());
        }
        ports
    }

    /// Of TCP, at any address.
    pub fn tcp(numbers: impl IntoIterator<Item = u16>) -> Ports {
        Ports { numbers: numbers.into_iter().collect(), ..Ports::default() }
    }

    /// Whether what is sent to them arrives at a socket with this address, which has all of the host's if it is unspecified.
    fn lead_to(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let is_at =
            self.addresses.is_empty() || address.is_unspecified() || self.addresses.contains(&address);
        is_at && self.numbers.contains(&port)
    }

    /// Protocol and state of the sockets to look for, and the state in `/proc/net`. A server's UDP socket has no other end.
    fn kind(&self) -> (u8, StateFlags, &'static str) {
        match self.over_udp {
            false => (IPPROTO_TCP, StateFlags::LISTEN, "0A"),
            true => (IPPROTO_UDP, StateFlags::CLOSE, "07"),
        }
    }
}

/// Inodes of the sockets that listen on any of these ports; `None` if the kernel does not report them.
pub(crate) fn listening(root: &Root, ports: &Ports) -> Option<Vec<u64>> {
    if *root == Root::default()
        && let (Ok(mut found), Ok(more)) = (asked(AF_INET, ports), asked(AF_INET6, ports))
    {
        found.extend(more);
        return Some(found);
    }
    let tables = match ports.over_udp {
        false => ["/proc/net/tcp", "/proc/net/tcp6"],
        true => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let tables = tables.map(|path| root.text(path));
    let is_told = tables.iter().any(Option::is_some);
    is_told.then(|| tables.iter().flatten().flat_map(|table| listed(table, ports)).collect())
}

/// The same of one address family, from the kernel.
fn asked(family: u8, ports: &Ports) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let (protocol, states, _) = ports.kind();
    sockets((protocol, family), states, None, ExtensionFlags::empty(), &mut |socket| {
        let id = &socket.header.socket_id;
        if ports.lead_to(id.source_address, id.source_port) {
            found.push(u64::from(socket.header.inode));
        }
    })?;
    Ok(found)
}

/// What each socket listening on any of these ports has dropped so far (`sk_drops`), by inode: connection requests, because its accept
/// queue was full or it lacked memory; of UDP datagrams, because its receive queue was full. The kernel's `ListenOverflows`,
/// `ListenDrops` and `RcvbufErrors` are of all sockets of the host.
///
/// # Errors
/// If the kernel does not report them.
pub(crate) fn dropped(ports: &Ports) -> io::Result<BTreeMap<u32, u32>> {
    let mut found = BTreeMap::new();
    for family in [AF_INET, AF_INET6] {
        let (protocol, states, _) = ports.kind();
        sockets((protocol, family), states, None, ExtensionFlags::SKMEMINFO, &mut |socket| {
            let drops = socket.nlas.iter().find_map(|about| match about {
                Nla::MemInfo(memory) => Some(memory.drops),
                _ => None,
            });
            let id = &socket.header.socket_id;
            if let Some(drops) = drops.filter(|_| ports.lead_to(id.source_address, id.source_port)) {
                found.insert(socket.header.inode, drops);
            }
        })?;
    }
    Ok(found)
}

/// The same from the text of `/proc/net/tcp` or `/proc/net/udp`: number, local address, remote address, state, and the inode in the tenth
/// column.
fn listed(table: &str, ports: &Ports) -> Vec<u64> {
    let (.., state) = ports.kind();
    let inode = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = words.get(1)?.rsplit_once(':')?;
        let (address, port) = (address_of(address)?, u16::from_str_radix(port, 16).ok()?);
        (*words.get(3)? == state && ports.lead_to(address, port))
            .then(|| words.get(9)?.parse().ok())
            .flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// An address as these tables have it: words of 32 bits in the machine's order, each in hexadecimal.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(word(0)?.into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            Some(<[u8; 16]>::try_from(words).ok()?.into())
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "listening_sockets_tests.rs"]
pub(crate) mod tests;
