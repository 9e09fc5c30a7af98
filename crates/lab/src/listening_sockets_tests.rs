//! Tests of listening sockets, and of what they drop, on the kernel of this host.

use std::net::{TcpListener, TcpStream, UdpSocket};

use super::*;

/// A listener of port 8080 and one of its connections, and a listener of port 22.
pub(crate) const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
    1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n   \
    2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n";

#[test]
fn only_listening_sockets_of_the_port_count() {
    assert_eq!(listed(TABLE, &Ports::tcp([8080])), [4711]);
    assert_eq!(listed(TABLE, &Ports::tcp([80])), Vec::<u64>::new());
    assert_eq!(listed("no table", &Ports::tcp([80])), Vec::<u64>::new());
}

#[test]
fn a_socket_at_another_address_is_another_server() {
    let at = |targets: &[&str]| {
        let targets = targets.iter().map(|target| target.parse().unwrap());
        listed(TABLE, &Ports::of_targets(targets, HttpVersion::Http11))
    };
    assert_eq!(at(&["127.0.0.1:8080"]), [4711]);
    assert_eq!(at(&["[::ffff:127.0.0.1]:8080"]), [4711]);
    assert_eq!(at(&["127.0.0.2:8080"]), [0; 0]);
    assert_eq!(at(&["192.0.2.1:22"]), [4713], "it listens at all addresses");
    assert_eq!(address_of("00000000000000000000000001000000"), Some("::1".parse().unwrap()));
    assert_eq!(address_of("0000000"), None);
    // The same of the kernel's answer.
    let listeners = ["127.0.0.1:0", "127.0.0.2:0", "0.0.0.0:0"].map(|at| TcpListener::bind(at).unwrap());
    for (listener, is_found) in listeners.iter().zip([true, false, true]) {
        let target = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        let ports = Ports::of_targets([target], HttpVersion::Http11);
        assert_eq!(asked(AF_INET, &ports).unwrap().contains(&inode(listener)), is_found);
        assert_eq!(dropped(&ports).unwrap().contains_key(&(inode(listener) as u32)), is_found);
    }
}

#[test]
fn the_kernel_names_the_listening_sockets_of_the_ports_alone() {
    for (address, family) in [("127.0.0.1:0", AF_INET), ("[::1]:0", AF_INET6)] {
        let listeners = [(); 3].map(|()| TcpListener::bind(address).unwrap());
        // A connection to one of them does not listen, whatever its port.
        let connection = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
        let (accepted, _) = listeners[0].accept().unwrap();
        for chosen in [&listeners[..1], &listeners] {
            let ports = Ports::tcp(chosen.iter().map(|one| one.local_addr().unwrap().port()));
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
        // The kernel accepts one connection more than the backlog.
        rustix::net::listen(&socket, 1).unwrap();
        TcpListener::from(socket)
    });
    let address = |socket: &TcpListener| socket.local_addr().unwrap();
    let dropped_by = |socket: &TcpListener| {
        let dropped = dropped(&Ports::tcp([address(socket).port()])).unwrap();
        assert_eq!(dropped.len(), 1, "{dropped:?}");
        dropped[&(inode(socket) as u32)]
    };
    assert_eq!((dropped_by(&full), dropped_by(&other)), (0, 0));
    let brief = std::time::Duration::from_millis(50);
    let kept: Vec<_> = (0..5).map(|_| TcpStream::connect_timeout(&address(&full), brief)).collect();
    assert!(kept.iter().any(Result::is_err), "of a queue of two, three found no room");
    assert!(dropped_by(&full) >= 3, "{}", dropped_by(&full));
    assert_eq!(dropped_by(&other), 0);
    assert_eq!(dropped(&Ports::default()).unwrap(), BTreeMap::new());
}

/// Of UDP, the server's own socket counts and those connected to it do not; what it has no room for is counted, and not as another's.
#[test]
fn sockets_of_udp_are_found_with_what_they_drop() {
    for (address, family) in [("127.0.0.1:0", AF_INET), ("[::1]:0", AF_INET6)] {
        let [full, other] = [(); 2].map(|()| UdpSocket::bind(address).unwrap());
        let ports =
            |socket: &UdpSocket| Ports::of_targets([socket.local_addr().unwrap()], HttpVersion::Http3);
        let client = UdpSocket::bind(address).unwrap();
        client.connect(full.local_addr().unwrap()).unwrap();
        assert_eq!(asked(family, &ports(&full)).unwrap(), [inode(&full)]);
        assert_eq!(asked(family, &Ports::tcp(ports(&full).numbers)).unwrap(), [0; 0]);
        assert_eq!(asked(family, &ports(&client)).unwrap(), [0; 0], "it is connected");
        // The smallest queue has room for some of them.
        rustix::net::sockopt::set_socket_recv_buffer_size(&full, 1).unwrap();
        (0..200).for_each(|_| drop(client.send(&[0; 1200])));
        let dropped = |socket: &UdpSocket| dropped(&ports(socket)).unwrap()[&(inode(socket) as u32)];
        assert!((100..200).contains(&dropped(&full)), "{}", dropped(&full));
        assert_eq!(dropped(&other), 0);
    }
    let row = TABLE.lines().nth(1).unwrap().replace(" 0A ", " 07 ");
    let ports = Ports::of_targets(["127.0.0.1:8080".parse().unwrap()], HttpVersion::Http3);
    assert_eq!(listed(&format!("head\n{row}\n"), &ports), [4711]);
}

fn inode(socket: &impl std::os::fd::AsFd) -> u64 {
    rustix::fs::fstat(socket).unwrap().st_ino
}

#[test]
fn more_sockets_than_one_answer_holds_are_all_told() {
    // An answer's message is 88 bytes and more; 500 need two pieces of the largest size.
    let listeners: Vec<TcpListener> = (0..500).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports = Ports::tcp(listeners.iter().map(|listener| listener.local_addr().unwrap().port()));
    assert_eq!(asked(AF_INET, &ports).unwrap().len(), 500);
}
