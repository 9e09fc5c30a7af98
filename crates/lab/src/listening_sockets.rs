//! Who listens: inodes of listening TCP sockets, which `/proc/<pid>/fd` knows by the same number.
//!
//! The kernel is asked for listening sockets alone (`sock_diag(7)`). `/proc/net/tcp` would walk the table of all
//! connections to tell the same, milliseconds of CPU time where it is large, and is read only where asking fails.

use std::collections::BTreeSet;
use std::io;

use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6};
use netlink_packet_sock_diag::inet::StateFlags;

use crate::machine::Root;
use crate::sock_diag::tcp_sockets;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Inodes of the sockets that listen on any of these ports; `None` where the kernel does not tell.
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
    tcp_sockets(family, StateFlags::LISTEN, None, &mut |socket| {
        if ports.contains(&socket.socket_id.source_port) {
            found.push(u64::from(socket.inode));
        }
    })?;
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
