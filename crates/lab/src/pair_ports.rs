//! Local ports that a run has taken. Each pair of addresses (a source address, an address and port of the target) has all local
//! ports, so one pair's ports run out, and neither the sockets of the host nor its connections in TIME_WAIT show how soon.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_TIME_WAIT};
use netlink_packet_sock_diag::inet::{ExtensionFlags, StateFlags};
use webstone_model::record::PairPorts;

use crate::sock_diag::sockets;

/// Of all pairs of addresses that lead to one of these targets, the pair with most local ports; `None` without any.
///
/// # Errors
/// If the kernel does not report them.
pub(crate) fn fullest(targets: &BTreeSet<SocketAddr>) -> io::Result<Option<PairPorts>> {
    // A listening socket has no other end; all others hold a port, those in TIME_WAIT, too.
    let states = StateFlags::all().difference(StateFlags::LISTEN | StateFlags::CLOSE);
    let mut pairs: BTreeMap<(IpAddr, SocketAddr), (u64, u64)> = BTreeMap::new();
    let ports: BTreeSet<(u8, u16)> = targets
        .iter()
        .map(|target| (if target.is_ipv4() { AF_INET } else { AF_INET6 }, target.port()))
        .collect();
    for (family, port) in ports {
        sockets((IPPROTO_TCP, family), states.clone(), Some(port), ExtensionFlags::empty(), &mut |socket| {
            let id = &socket.header.socket_id;
            let target = SocketAddr::new(id.destination_address, id.destination_port);
            if targets.contains(&target) {
                let (used, time_wait) = pairs.entry((id.source_address, target)).or_default();
                *used += 1;
                *time_wait += u64::from(socket.header.state == TCP_TIME_WAIT);
            }
        })?;
    }
    let fullest = pairs.into_iter().max_by_key(|(_, (used, _))| *used);
    Ok(fullest.map(|((source, target), (used, time_wait))| PairPorts {
        source: source.to_string(),
        target: target.to_string(),
        used,
        time_wait,
    }))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Makes a connection between two listeners' ends: the client closes first, so TIME_WAIT is the client's.
    fn ended_by_the_client(listener: &TcpListener) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        drop(client);
        drop(server);
    }

    /// A listener, as a target, without connections: those to a port that another test had just now may still be in TIME_WAIT.
    fn fresh(address: &str) -> (TcpListener, BTreeSet<SocketAddr>) {
        let one = || {
            let listener = TcpListener::bind(address).unwrap();
            let targets = BTreeSet::from([listener.local_addr().unwrap()]);
            fullest(&targets).unwrap().is_none().then_some((listener, targets))
        };
        (0..100).find_map(|_| one()).expect("a port that nobody uses")
    }

    #[test]
    fn only_the_ports_of_the_pair_count() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            if TcpListener::bind(address).is_err() {
                println!("skipped: this host has no {address}");
                continue;
            }
            let (listener, targets) = fresh(address);
            let (target, other) = (listener.local_addr().unwrap(), TcpListener::bind(address).unwrap());
            let kept: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(target).unwrap()).collect();
            (0..3).for_each(|_| drop(listener.accept().unwrap()));
            (0..2).for_each(|_| ended_by_the_client(&listener));
            // Connections to other targets are other pairs, and so are those in TIME_WAIT on the server's side.
            (0..9).for_each(|_| ended_by_the_client(&other));
            // On a busy machine the kernel takes in the last packets later.
            let begun = std::time::Instant::now();
            let mut found = fullest(&targets).unwrap().unwrap();
            while (found.used, found.time_wait) != (5, 2) && begun.elapsed().as_secs() < 30 {
                std::thread::sleep(std::time::Duration::from_millis(10));
                found = fullest(&targets).unwrap().unwrap();
            }
            assert_eq!(
                (found.source.as_str(), found.target),
                (&*target.ip().to_string(), target.to_string())
            );
            assert_eq!((found.used, found.time_wait), (5, 2));
            drop(kept);
        }
    }

    #[test]
    fn pairs_differ_by_their_source_address() {
        let (listener, targets) = fresh("127.0.0.1:0");
        let target = listener.local_addr().unwrap();
        let from = |source: &str| {
            let socket =
                rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
            let socket = socket.unwrap();
            rustix::net::bind(&socket, &source.parse::<SocketAddr>().unwrap()).unwrap();
            rustix::net::connect(&socket, &target).unwrap();
            socket
        };
        let kept = ["127.0.0.2:0", "127.0.0.3:0", "127.0.0.3:0"].map(from);
        let found = fullest(&targets).unwrap().unwrap();
        assert_eq!((found.source.as_str(), found.used, found.time_wait), ("127.0.0.3", 2, 0));
        drop(kept);
    }
}
