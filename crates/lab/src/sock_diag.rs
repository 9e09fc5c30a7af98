//! What the kernel tells of its TCP sockets (`sock_diag(7)`), socket by socket. Who asks decides what it means.

use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};

/// The kernel writes no larger piece of an answer (`NLMSG_GOODSIZE` is a page or 8 KiB; `recv` may ask for 32 KiB).
const ANSWER_BYTES: usize = 32 * 1024;

/// Asks for the TCP sockets of one address family (`AF_INET`, `AF_INET6`) in any of these states, whose other end has a certain
/// port where one is given; `each` is told every one, with what belongs to these extensions.
///
/// # Errors
/// If the kernel does not answer, or what it answers cannot be read.
pub(crate) fn tcp_sockets(
    family: u8,
    states: StateFlags,
    remote_port: Option<u16>,
    extensions: ExtensionFlags,
    each: &mut dyn FnMut(&InetResponse),
) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&question(family, states, remote_port, extensions), 0)?;
    let mut answer = vec![0; ANSWER_BYTES];
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

fn question(family: u8, states: StateFlags, remote_port: Option<u16>, extensions: ExtensionFlags) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let any = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions,
        states,
        socket_id: SocketId { destination_port: remote_port.unwrap_or(0), ..any },
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}
