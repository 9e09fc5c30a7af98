//! The header of the PROXY protocol, the first bytes of a connection from a load balancer
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, sections 2.1 and 2.2).

use std::net::{IpAddr, SocketAddr};

use webstone_workload::route::ProxyProtocol;

/// The header of a connection from the first address to the second. Without addresses, as over a Unix socket, it says that
/// they are unknown.
pub(crate) fn header(version: ProxyProtocol, ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    // Both ends of a socket have the same family.
    let ends = ends.filter(|(from, to)| from.is_ipv4() == to.is_ipv4());
    match version {
        ProxyProtocol::V1 => text(ends).into_bytes(),
        ProxyProtocol::V2 => binary(ends),
    }
}

fn text(ends: Option<(SocketAddr, SocketAddr)>) -> String {
    let Some((from, to)) = ends else { return "PROXY UNKNOWN\r\n".to_owned() };
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port())
}

fn binary(ends: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    /// Version 2, command PROXY.
    const COMMAND: u8 = 0x21;
    let (family, octets) = match ends {
        None => (0x00, Vec::new()),
        Some((from, to)) => match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => (0x11, [from.octets(), to.octets()].concat()),
            (from, to) => (0x21, [from, to].map(octets_of_v6).concat()),
        },
    };
    let ports = ends.map(|(from, to)| [from.port().to_be_bytes(), to.port().to_be_bytes()].concat());
    let addresses = [octets, ports.unwrap_or_default()].concat();
    let length = (addresses.len() as u16).to_be_bytes();
    [SIGNATURE, &[COMMAND, family], &length, &addresses].concat()
}

fn octets_of_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str) -> Option<(SocketAddr, SocketAddr)> {
        Some((from.parse().unwrap(), to.parse().unwrap()))
    }

    #[test]
    fn version_1_is_a_line() {
        let line = |ends| String::from_utf8(header(ProxyProtocol::V1, ends)).unwrap();
        let v4 = ends("192.0.2.1:56324", "192.0.2.2:443");
        assert_eq!(line(v4), "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n");
        let v6 = ends("[2001:db8::1]:1", "[fe80::1%3]:65535");
        assert_eq!(line(v6), "PROXY TCP6 2001:db8::1 fe80::1 1 65535\r\n");
        assert_eq!(line(None), "PROXY UNKNOWN\r\n");
        assert_eq!(line(ends("127.0.0.1:1", "[::1]:2")), "PROXY UNKNOWN\r\n");
    }

    #[test]
    fn version_2_is_binary() {
        let signature = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a];
        let v4 = header(ProxyProtocol::V2, ends("192.0.2.1:258", "192.0.2.2:443"));
        let rest = [0x21, 0x11, 0, 12, 192, 0, 2, 1, 192, 0, 2, 2, 1, 2, 1, 187];
        assert_eq!(v4, [&signature[..], &rest].concat());
        let v6 = header(ProxyProtocol::V2, ends("[::1]:1", "[2001:db8::2]:2"));
        assert_eq!((v6.len(), &v6[12..16]), (52, &[0x21, 0x21, 0, 36][..]));
        assert_eq!((v6[31], &v6[32..36], v6[47]), (1, &[0x20, 0x01, 0x0d, 0xb8][..], 2));
        assert_eq!(&v6[48..], [0, 1, 0, 2]);
        assert_eq!(header(ProxyProtocol::V2, None)[12..], [0x21, 0, 0, 0]);
    }
}
