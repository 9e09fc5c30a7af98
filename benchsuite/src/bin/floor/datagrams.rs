//! UDP sockets that send and receive many datagrams by one call (UDP_SEGMENT, UDP_GRO), as webstone's engine does.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt as nix_sockopt};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

/// Bytes of a datagram; the kernel cuts what is sent by one call into these, and the last may be shorter.
pub(crate) const DATAGRAM_BYTES: usize = 1452;
/// Room for what one call receives.
const RECEIVED_BYTES: usize = 64 * 1024;
/// Size of the receive queue.
const QUEUE_BYTES: usize = 2 << 20;

/// A socket that does not block. Nothing comes until it is connected.
pub(crate) fn open(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    setsockopt(&socket, nix_sockopt::UdpGsoSegment, &(DATAGRAM_BYTES as i32))?;
    setsockopt(&socket, nix_sockopt::UdpGroSegment, &true)?;
    sockopt::set_socket_recv_buffer_size(&socket, QUEUE_BYTES)?;
    Ok(socket)
}

/// Sends datagrams of [`DATAGRAM_BYTES`], of which the last may be shorter. Those that the kernel has no room for are lost.
pub(crate) fn send(socket: impl AsFd, datagrams: &[u8]) -> io::Result<()> {
    match net::send(socket, datagrams, SendFlags::NOSIGNAL) {
        Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Where datagrams are received.
#[derive(Debug)]
pub(crate) struct Receiver {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new() -> Receiver {
        Receiver { bytes: vec![0; RECEIVED_BYTES], control: nix::cmsg_space!(i32) }
    }

    /// Datagrams that came together; `None`: nothing for now.
    pub(crate) fn receive(&mut self, socket: &OwnedFd) -> io::Result<Option<std::slice::ChunksMut<'_, u8>>> {
        let mut parts = [IoSliceMut::new(&mut self.bytes)];
        let message =
            match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut self.control), MsgFlags::empty()) {
                Ok(message) => message,
                Err(nix::Error::EAGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
        let n = message.bytes;
        let stride = message.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::UdpGroSegments(stride) => usize::try_from(stride).ok(),
            _ => None,
        });
        Ok(Some(self.bytes[..n].chunks_mut(stride.unwrap_or(n).max(1))))
    }
}
