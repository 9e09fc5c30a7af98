//! A network namespace, and addresses of network devices in that of the calling thread (`rtnetlink(7)`).

use std::io;
use std::net::IpAddr;

use netlink_sys::{Socket, SocketAddr as NetlinkAddr};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

use crate::machine::Root;

/// `NETLINK_ROUTE`.
const ROUTE: isize = 0;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const NLM_F_REQUEST_ACK: u16 = 0x1 | 0x4;
/// `NLM_F_CREATE | NLM_F_EXCL`.
const NLM_F_NEW: u16 = 0x400 | 0x200;
const IFF_UP: u32 = 1;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Largest IP packet of a path, in bytes: Ethernet's.
pub(super) const MTU: u32 = 1500;
/// Packets that a device keeps until the relay fetches them.
const QUEUE_PACKETS: u32 = 65_536;
/// `IFA_F_NODAD`: nobody else is on the path who could have the address.
const IFA_F_NODAD: u8 = 2;

/// Settings below `/proc/sys` that a new namespace takes from the kernel's defaults. (It inherits congestion control and buffer sizes.)
const SETTINGS: [&str; 4] = [
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/net/ipv4/ip_local_port_range",
    "/proc/sys/net/ipv4/tcp_max_syn_backlog",
    "/proc/sys/net/ipv4/tcp_tw_reuse",
];

/// Puts the calling thread into a new network namespace, with its loopback up and the settings of the one that it comes from.
pub(super) fn own_network() -> io::Result<()> {
    let root = Root::default();
    let settings = SETTINGS.map(|path| (path, root.text(path)));
    webstone_engine::own_network()?;
    // Where `/proc/sys` may not be written, as in containers, the defaults stay, and the record has them.
    for (path, value) in settings.iter().filter_map(|(path, value)| Some((path, value.as_ref()?))) {
        root.write(path, value);
    }
    link(index_of("lo")?, &[])
}

/// Gives a device its address, and brings it up.
pub(super) fn up(name: &str, address: IpAddr) -> io::Result<()> {
    let index = index_of(name)?;
    // `ifaddrmsg`: family, bits that the network shares, flags, scope, index.
    let (family, prefix, flags, octets) = match address {
        IpAddr::V4(address) => (AddressFamily::INET, 24, 0, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::INET6, 64, IFA_F_NODAD, address.octets().to_vec()),
    };
    let mut body = vec![family.as_raw() as u8, prefix, flags, 0];
    body.extend(index.to_ne_bytes());
    attribute(&mut body, IFA_LOCAL, &octets);
    attribute(&mut body, IFA_ADDRESS, &octets);
    ask(RTM_NEWADDR, NLM_F_REQUEST_ACK | NLM_F_NEW, &body)?;
    link(index, &[(IFLA_MTU, MTU), (IFLA_TXQLEN, QUEUE_PACKETS)])
}

/// Packets of a device in the calling thread's namespace that it dropped when they were sent to it.
pub(super) fn overflowed(name: &str) -> u64 {
    counters(&Root::default(), name).map_or(0, |counters| counters[11])
}

/// The counters of a device in the calling thread's namespace: bytes, packets, errors, drops and four more received, then the same
/// sent.
pub(crate) fn counters(root: &Root, name: &str) -> Option<[u64; 16]> {
    let text = root.text("/proc/thread-self/net/dev")?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut counters = [0; 16];
    for (counter, word) in counters.iter_mut().zip(line.split_whitespace()) {
        *counter = word.parse().ok()?;
    }
    Some(counters)
}

fn index_of(name: &str) -> io::Result<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(&any, name)?)
}

/// Brings a link up, with these numbers set.
fn link(index: u32, numbers: &[(u16, u32)]) -> io::Result<()> {
    // `ifinfomsg`: family, type, index, flags, which of them change.
    let mut body = vec![0, 0, 0, 0];
    for part in [index, IFF_UP, IFF_UP] {
        body.extend(part.to_ne_bytes());
    }
    numbers.iter().for_each(|(kind, value)| attribute(&mut body, *kind, &value.to_ne_bytes()));
    ask(RTM_NEWLINK, NLM_F_REQUEST_ACK, &body)
}

/// `rtattr` with its content, a multiple of four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, content: &[u8]) {
    body.extend((4 + content.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(content);
}

/// Sends a request and waits for its acknowledgement.
fn ask(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Its number, and the kernel's port.
    message.extend([0; 8]);
    message.extend(body);
    let mut route = Socket::new(ROUTE)?;
    route.bind_auto()?;
    route.connect(&NetlinkAddr::new(0, 0))?;
    route.send(&message, 0)?;
    let mut answer = [0; 4096];
    let length = route.recv(&mut &mut answer[..], 0)?;
    let answer = &answer[..length];
    let at = |from: usize, count: usize| answer.get(from..from + count).ok_or(io::ErrorKind::InvalidData);
    if at(4, 2)? != NLMSG_ERROR.to_ne_bytes() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    match i32::from_ne_bytes(at(16, 4)?.try_into().expect("four bytes")) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
