//! The kernel's sockets of TCP and UDP (`sock_diag(7)`), one by one. The callers decide what they mean.

use std::io;
use std::net::SocketAddr;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddr};

/// The kernel writes no larger piece of an answer (`NLMSG_GOODSIZE` is a page or 8 KiB; `recv` may ask for 32 KiB).
const ANSWER_BYTES: usize = 32 * 1024;

/// Asks for the sockets of one protocol (`IPPROTO_TCP`, `IPPROTO_UDP`) and address family (`AF_INET`, `AF_INET6`) in any of these
/// states, whose other end has a certain port, if one is given; `each` gets every one, with these extensions.
///
/// # Errors
/// If the kernel does not answer, or its answer cannot be read.
pub(crate) fn sockets(
    (protocol, family): (u8, u8),
    states: StateFlags,
    remote_port: Option<u16>,
    extensions: ExtensionFlags,
    each: &mut dyn FnMut(&InetResponse),
) -> io::Result<()> {
    let any = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
    let socket_id = SocketId { destination_port: remote_port.unwrap_or(0), ..any };
    let request = InetRequest { family, protocol, extensions, states, socket_id };
    let (socket, mut answer) = ask(request, NLM_F_REQUEST | NLM_F_DUMP)?;
    loop {
        let length = socket.recv(&mut &mut answer[..], 0)?;
        let mut rest = &answer[..length];
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(io::Error::other)?;
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => each(&socket),
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
            // Messages begin on multiples of four bytes (NLMSG_ALIGNTO).
            let taken = (message.header.length as usize).next_multiple_of(4).max(4);
            rest = rest.get(taken..).unwrap_or_default();
        }
    }
}

/// The user who owns the end `local` of a TCP connection between two programs of this host; `None` unless that end is
/// established: the kernel no longer knows the owner of a closed one.
///
/// # Errors
/// If the kernel does not answer, or has no such connection.
pub fn owner(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    let any = if local.is_ipv4() { SocketId::new_v4() } else { SocketId::new_v6() };
    let socket_id = SocketId {
        source_port: local.port(),
        source_address: local.ip(),
        destination_port: remote.port(),
        destination_address: remote.ip(),
        cookie: [0xff; 8],
        ..any
    };
    let request = InetRequest {
        family: if local.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let (socket, mut answer) = ask(request, NLM_F_REQUEST)?;
    let length = socket.recv(&mut &mut answer[..], 0)?;
    let message =
        NetlinkMessage::<SockDiagMessage>::deserialize(&answer[..length]).map_err(io::Error::other)?;
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
            Ok((found.header.state == TCP_ESTABLISHED).then_some(found.header.uid))
        }
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends a question; the socket that the answer comes on, and room for it.
fn ask(request: InetRequest, flags: u16) -> io::Result<(Socket, Vec<u8>)> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&NetlinkAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    Ok((socket, vec![0; ANSWER_BYTES]))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn an_end_belongs_to_its_user_until_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let here = server.local_addr().unwrap();
        assert_eq!(owner(peer, here).unwrap(), Some(rustix::process::geteuid().as_raw()));
        drop(client);
        // In FIN_WAIT it has no owner; without a socket, the kernel says so.
        assert!(!matches!(owner(peer, here), Ok(Some(_))));
        drop(server);
        assert!(owner("127.0.0.1:1".parse().unwrap(), here).is_err());
    }
}
