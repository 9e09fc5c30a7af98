//! Who listens: inodes of listening TCP sockets, which `/proc/<pid>/fd` knows by the same number; and how many connection requests
//! each has dropped.
//!
//! The kernel is asked for listening sockets alone (`sock_diag(7)`). `/proc/net/tcp` would walk the table of all
//! connections to tell the same, milliseconds of CPU time where it is large, and is read only where asking fails.

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
pub(crate) mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// One listener of port 8080, a connection of its, and a listener of port 22.
    pub(crate) const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
        1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n   \
        2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n";

    #[test]
    fn only_listening_sockets_of_the_port_count() {
        assert_eq!(listed(TABLE, &BTreeSet::from([8080])), [4711]);
        assert_eq!(listed(TABLE, &BTreeSet::from([80])), Vec::<u64>::new());
        assert_eq!(listed("no table", &BTreeSet::from([80])), Vec::<u64>::new());
    }

    #[test]
    fn the_kernel_names_the_listening_sockets_of_the_ports_alone() {
        for (address, family) in [("127.0.0.1:0", AF_INET), ("[::1]:0", AF_INET6)] {
            let listeners = [(); 3].map(|()| TcpListener::bind(address).unwrap());
            // A connection to one of them listens to nobody, whatever its port.
            let connection = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
            let (accepted, _) = listeners[0].accept().unwrap();
            for chosen in [&listeners[..1], &listeners] {
                let ports = chosen.iter().map(|one| one.local_addr().unwrap().port()).collect();
                let inodes: BTreeSet<u64> = chosen.iter().map(inode).collect();
                assert_eq!(BTreeSet::from_iter(asked(family, &ports).unwrap()), inodes);
            }
            drop((connection, accepted));
        }
    }

    #[test]
    fn what_one_socket_drops_is_not_anothers() {
        let [full, other] = [(); 2].map(|()| {
            let address: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
            let kind = rustix::net::SocketType::STREAM;
            let socket = rustix::net::socket(rustix::net::AddressFamily::INET, kind, None).unwrap();
            rustix::net::bind(&socket, &address).unwrap();
            // The kernel takes one connection more than it is told.
            rustix::net::listen(&socket, 1).unwrap();
            TcpListener::from(socket)
        });
        let address = |socket: &TcpListener| socket.local_addr().unwrap();
        let dropped_by = |socket: &TcpListener| {
            let dropped = dropped(&BTreeSet::from([address(socket).port()])).unwrap();
            assert_eq!(dropped.len(), 1, "{dropped:?}");
            dropped[&(inode(socket) as u32)]
        };
        assert_eq!((dropped_by(&full), dropped_by(&other)), (0, 0));
        let brief = std::time::Duration::from_millis(50);
        let kept: Vec<_> = (0..5).map(|_| TcpStream::connect_timeout(&address(&full), brief)).collect();
        assert!(kept.iter().any(Result::is_err), "of a queue of two, three found no room");
        assert!(dropped_by(&full) >= 3, "{}", dropped_by(&full));
        assert_eq!(dropped_by(&other), 0);
        assert_eq!(dropped(&BTreeSet::new()).unwrap(), BTreeMap::new());
    }

    fn inode(socket: &TcpListener) -> u64 {
        rustix::fs::fstat(socket).unwrap().st_ino
    }

    #[test]
    fn more_sockets_than_one_answer_holds_are_all_told() {
        // An answer's message is 88 bytes and more; 500 need two pieces of the largest size.
        let listeners: Vec<TcpListener> =
            (0..500).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: BTreeSet<u16> =
            listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        assert_eq!(asked(AF_INET, &ports).unwrap().len(), 500);
    }
}
