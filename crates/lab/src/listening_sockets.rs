//! Listening TCP sockets by inode, the number by which `/proc/<pid>/fd` names them, and how many connection requests each has
//! dropped.
//!
//! The kernel is asked for listening sockets only (`sock_diag(7)`). `/proc/net/tcp` walks the table of all connections, which
//! takes milliseconds of CPU time if it is large, and is read only if asking fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, StateFlags};

use crate::machine::Root;
use crate::sock_diag::tcp_sockets;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Inodes of the sockets that listen on any of these ports; `None` if the kernel does not report them.
pub(crate) fn listening(root: &Root, ports: &BTreeSet<u16>) -> Option<Vec<u64>> {
    if *root == Root::default()
        && let (Ok(mut found), Ok(more)) = (asked(AF_INET, ports), asked(AF_INET6, ports))
    {
        found.extend(more);
        return Some(found);
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| root.text(path));
    let is_told = tables.iter().any(Option::is_some);
    is_told.then(|| tables.iter().flatten().flat_map(|table| listed(table, ports)).collect())
}

/// The same of one address family, from the kernel.
fn asked(family: u8, ports: &BTreeSet<u16>) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    tcp_sockets(family, StateFlags::LISTEN, None, ExtensionFlags::empty(), &mut |socket| {
        if ports.contains(&socket.header.socket_id.source_port) {
            found.push(u64::from(socket.header.inode));
        }
    })?;
    Ok(found)
}

/// Connection requests that each socket listening on any of these ports has dropped so far (`sk_drops`), by inode: its accept queue was
/// full, or it lacked memory. The kernel's `ListenOverflows` and `ListenDrops` are of all sockets of the host.
///
/// # Errors
/// If the kernel does not report them.
pub(crate) fn dropped(ports: &BTreeSet<u16>) -> io::Result<BTreeMap<u32, u32>> {
    let mut found = BTreeMap::new();
    for family in [AF_INET, AF_INET6] {
        tcp_sockets(family, StateFlags::LISTEN, None, ExtensionFlags::SKMEMINFO, &mut |socket| {
            let drops = socket.nlas.iter().find_map(|about| match about {
                Nla::MemInfo(memory) => Some(memory.drops),
                _ => None,
            });
            if let Some(drops) = drops.filter(|_| ports.contains(&socket.header.socket_id.source_port)) {
                found.insert(socket.header.inode, drops);
            }
        })?;
    }
    Ok(found)
}

/// The same from the text of `/proc/net/tcp`: number, local address, remote address, state, and the inode in the tenth
/// column.
fn listed(table: &str, ports: &BTreeSet<u16>) -> Vec<u64> {
    let inode = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let port = u16::from_str_radix(words.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        (*words.get(3)? == LISTEN && ports.contains(&port)).then(|| words.get(9)?.parse().ok()).flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
#[path = "listening_sockets_tests.rs"]
pub(crate) mod tests;
