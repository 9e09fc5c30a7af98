//! Non-blocking stream sockets, with two optimisations for a connection per request: a descriptor is reused after its
//! connection has ended (`socket()` and `close()` cost more than the rest of a connection), and a body that is not
//! needed is discarded in the kernel.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use rustix::time::Timespec;
use webstone_workload::addresses::{AddressRange, PortRange};
use webstone_workload::load::ClientSpec;

use super::{handshake, stamps};

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// An Internet address and port.
    Internet(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Internet(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The local address and ports of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    address: Option<IpAddr>,
    ports: Option<PortRange>,
    /// Whether we choose from these ports, by binding, because the kernel cannot.
    binds_ports: bool,
}

/// The port to try next if the kernel does not choose, as an offset into its range.
static NEXT_PORT: AtomicU32 = AtomicU32::new(0);

/// Since Linux 6.3; the libc crate has it for some targets only.
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;

impl Source {
    /// The sources that clients use in turn; if there are none, the kernel chooses.
    pub(crate) fn all(client: &ClientSpec) -> impl Iterator<Item = Source> {
        let ports = client.source_ports;
        let binds_ports = ports.is_some_and(|ports| !kernel_chooses(ports));
        let addresses = client.source.iter().flat_map(AddressRange::addresses).map(Some);
        let any = (client.source.is_empty() && ports.is_some()).then_some(None);
        addresses.chain(any).map(move |address| Source { address, ports, binds_ports })
    }

    /// Whether connections from it can reach an address of this family.
    pub(crate) fn reaches(&self, address: &SocketAddr) -> bool {
        self.address.is_none_or(|own| own.is_ipv4() == address.is_ipv4())
    }

    /// Whether a socket can be bound to it.
    ///
    /// # Errors
    /// The option, what is wrong, and what to do about it.
    pub(crate) fn check(&self) -> Result<(), (String, &'static str)> {
        let address = self.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let Err(error) = Socket::new(&Address::Internet(SocketAddr::new(address, 0)), Some(*self)) else {
            return Ok(());
        };
        let why = crate::failure::describe(&error);
        Err(match self.ports.filter(|_| self.address.is_none() || self.binds_ports) {
            Some(ports) => (
                format!("--source-port-range: cannot connect from a port of {ports}: {why}"),
                "give ports that are free (ss -tan); those below net.ipv4.ip_unprivileged_port_start need root",
            ),
            None => (
                format!("--source: cannot connect from {address}: {why}"),
                "give addresses of this host (ip address); on loopback any of 127.0.0.0/8",
            ),
        })
    }

    pub(super) fn bind(&self, descriptor: &OwnedFd, family: AddressFamily) -> io::Result<()> {
        let any = if family == AddressFamily::INET { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        match self.ports {
            Some(ports) if self.binds_ports => {
                let begin = u64::from(NEXT_PORT.fetch_add(1, Ordering::Relaxed));
                for step in 0..ports.count() {
                    let port = ports.first + ((begin + step) % ports.count()) as u16;
                    match net::bind(descriptor, &SocketAddr::new(self.address.unwrap_or(any), port)) {
                        Err(Errno::ADDRINUSE) => {}
                        done => return Ok(done?),
                    }
                }
                // The same error as the kernel's when it has no port left.
                return Err(Errno::ADDRNOTAVAIL.into());
            }
            Some(ports) => choose_from(descriptor, ports)?,
            None => {}
        }
        let Some(address) = self.address else { return Ok(()) };
        // Without it, bind() would reserve a port for this socket alone; with it, connect() chooses the port, and
        // connections to different servers may share one.
        set_ip_option(descriptor, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        Ok(net::bind(descriptor, &SocketAddr::new(address, 0))?)
    }
}

/// Whether the kernel can choose from exactly these ports. It has the option since Linux 6.3, wants at least two
/// ports, and ignores a bound outside its own range.
fn kernel_chooses(ports: PortRange) -> bool {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let own: Vec<u16> = range.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let is_within = matches!(own[..], [first, last] if first <= ports.first && ports.last <= last);
    let trial = || net::socket(AddressFamily::INET, SocketType::STREAM, None).map_err(io::Error::from);
    is_within && ports.count() > 1 && trial().is_ok_and(|socket| choose_from(&socket, ports).is_ok())
}

fn choose_from(descriptor: &OwnedFd, ports: PortRange) -> io::Result<()> {
    let range = u32::from(ports.last) << 16 | u32::from(ports.first);
    set_ip_option(descriptor, IP_LOCAL_PORT_RANGE, range.cast_signed())
}

/// A blocking connection from a source, for single requests.
pub(crate) fn connect_within(
    timeout: Duration,
    address: &SocketAddr,
    source: Option<&Source>,
) -> io::Result<TcpStream> {
    let Some(source) = source else { return TcpStream::connect_timeout(address, timeout) };
    let address = Address::Internet(*address);
    let socket = Socket::new(&address, Some(*source))?;
    if source.binds_ports {
        // Otherwise the port would be in TIME_WAIT for a minute, and the run may need it.
        socket.reset_on_close()?;
    }
    if socket.connect(&address)? == Connect::InProgress {
        let timeout = Timespec::try_from(timeout).ok();
        if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], timeout.as_ref())? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if let Some(error) = socket.take_error() {
            return Err(error);
        }
    }
    let stream = TcpStream::from(socket.descriptor);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Result of starting to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connect {
    /// The connection is established.
    Done,
    /// In progress; the socket becomes writable at the end.
    InProgress,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing for now.
    WouldBlock,
    /// The peer sends no more.
    End,
}

/// A non-blocking stream socket.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
}

impl Socket {
    /// A socket for an address, bound to `source` where one is given.
    pub(crate) fn new(address: &Address, source: Option<Source>) -> io::Result<Socket> {
        let family = match address {
            Address::Internet(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Internet(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor = net::socket_with(family, SocketType::STREAM, flags, None)?;
        if family != AddressFamily::UNIX {
            sockopt::set_tcp_nodelay(&descriptor, true)?;
            if let Some(source) = source {
                source.bind(&descriptor, family)?;
            }
        }
        Ok(Socket { descriptor })
    }

    /// Starts to connect.
    pub(crate) fn connect(&self, address: &Address) -> io::Result<Connect> {
        let result = match address {
            Address::Internet(address) => net::connect(&self.descriptor, address),
            Address::Unix(path) => net::connect(&self.descriptor, &unix_address(path)?),
        };
        match result {
            Ok(()) => Ok(Connect::Done),
            Err(Errno::INPROGRESS) => Ok(Connect::InProgress),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the connection so that [`Socket::connect`] may be called again. The peer sees a reset unless both sides
    /// had closed their sending sides before.
    pub(crate) fn disconnect(&self) -> io::Result<()> {
        Ok(net::connect_unspec(&self.descriptor)?)
    }

    /// Makes closing the socket reset its connection, at once and without TIME_WAIT.
    pub(crate) fn reset_on_close(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.descriptor, Some(Duration::ZERO))?)
    }

    /// Closes the sending side.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        Ok(net::shutdown(&self.descriptor, Shutdown::Write)?)
    }

    /// Sends as much of `bytes` as the socket takes, and returns how many; 0 if it takes none for now.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match net::send(&self.descriptor, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => Ok(n),
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads into `buffer`, which must not be empty.
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        received(net::recv(&self.descriptor, buffer, RecvFlags::empty()).map(|(_, n)| n))
    }

    /// Number of bytes that could be read now.
    pub(crate) fn queued(&self) -> usize {
        rustix::io::ioctl_fionread(&self.descriptor).map_or(0, |bytes| bytes as usize)
    }

    /// Asks for a receive queue of this many bytes, and so for a window that is no larger. The kernel doubles the size,
    /// for its own bookkeeping. If it refuses, the peer sends further ahead of the reader, which changes no instant that
    /// is measured.
    pub(crate) fn bound_queue(&self, bytes: u32) {
        let _ = sockopt::set_socket_recv_buffer_size(&self.descriptor, bytes as usize);
    }

    /// Has the kernel note when bytes arrive, for [`Socket::receive_stamped`].
    pub(crate) fn stamp(&self) -> io::Result<()> {
        stamps::ask(self.descriptor.as_fd())
    }

    /// Reads into `buffer`, which must not be empty. Also returns how long the last of these bytes had been in the
    /// kernel, in nanoseconds.
    pub(crate) fn receive_stamped(&self, buffer: &mut [u8]) -> io::Result<(Received, Option<u64>)> {
        stamps::receive(self.descriptor.as_fd(), buffer)
    }

    /// Has the kernel report readiness only when this many bytes have arrived (SO_RCVLOWAT; the end of the stream is
    /// reported anyway).
    pub(crate) fn awaits(&self, bytes: u32) {
        let bytes = bytes as libc::c_int;
        // SAFETY: the descriptor is open; the option's value is an int that lives until the call returns, with its size.
        unsafe {
            libc::setsockopt(
                self.descriptor.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw const bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }

    /// Discards up to `scratch.len()` bytes of a TCP stream in the kernel: `MSG_TRUNC` avoids the copy, which is half
    /// the cost of a large body. `scratch` is not written; only its length counts.
    #[inline]
    pub(crate) fn discard(&self, scratch: &mut [u8]) -> io::Result<Received> {
        received(net::recv(&self.descriptor, scratch, RecvFlags::TRUNC).map(|(_, n)| n))
    }

    /// The local address of its connection; `None` for a Unix socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        net::getsockname(&self.descriptor).ok()?.try_into().ok()
    }

    /// How long the handshake took, from SYN to SYN-ACK, as measured by the kernel, in nanoseconds (a whole number of
    /// microseconds). To be called before anything is sent, because the kernel continues to measure. `None` for sockets
    /// other than TCP, and after a retransmission, when the kernel measures only the last segment.
    pub(crate) fn handshake_ns(&self) -> Option<u64> {
        handshake::time_ns(self.descriptor.as_fd())
    }

    /// The error of a failed connect.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        match sockopt::socket_error(&self.descriptor) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error.into()),
        }
    }
}

impl From<OwnedFd> for Socket {
    fn from(descriptor: OwnedFd) -> Socket {
        Socket { descriptor }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[inline]
fn received(result: Result<usize, Errno>) -> io::Result<Received> {
    match result {
        Ok(0) => Ok(Received::End),
        Ok(n) => Ok(Received::Bytes(n)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::WouldBlock),
        Err(error) => Err(error.into()),
    }
}

fn set_ip_option(descriptor: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open; the option's value is an int that lives until the call returns, with its size.
    let result = unsafe {
        libc::setsockopt(
            descriptor.as_raw_fd(),
            libc::IPPROTO_IP,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn unix_address(path: &Path) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    /// Makes connections from a range of ports until that fails; returns the ports that the server saw, and the
    /// error.
    fn exhausted(mut client: ClientSpec, ports: PortRange, listen: &str) -> (BTreeSet<u16>, io::Error) {
        let listener = TcpListener::bind(listen).unwrap();
        let address = listener.local_addr().unwrap();
        client.source_ports = Some(ports);
        let source = Source::all(&client).next().unwrap();
        assert!(source.reaches(&address));
        let (mut kept, mut seen) = (Vec::new(), BTreeSet::new());
        loop {
            match connect_within(Duration::from_secs(5), &address, Some(&source)) {
                Ok(stream) => {
                    let (there, from) = listener.accept().unwrap();
                    assert!(seen.insert(from.port()), "a port has one connection to an address");
                    kept.push((stream, there));
                }
                Err(error) => return (seen, error),
            }
        }
    }

    #[test]
    fn connections_come_from_the_ports_of_a_range_until_all_are_taken() {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let first: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
        let within = PortRange { first: first + 2_000, last: first + 2_031 };
        let one = PortRange { first: first - 500, last: first - 500 };
        let outside = |case: u16| PortRange { first: first - 100 * case, last: first - 100 * case + 19 };
        let from =
            |address: &str| ClientSpec { source: vec![address.parse().unwrap()], ..ClientSpec::default() };
        for (ports, listen, client) in [
            (within, "127.0.0.1:0", ClientSpec::default()),
            (within, "127.0.0.1:0", from("127.0.0.7")),
            (within, "[::1]:0", ClientSpec::default()),
            (outside(8), "127.0.0.1:0", ClientSpec::default()),
            (outside(7), "127.0.0.1:0", from("127.0.0.8")),
            (outside(6), "[::1]:0", ClientSpec::default()),
            (one, "127.0.0.1:0", from("127.0.0.9")),
            // No port stays in TIME_WAIT: these are probes.
            (one, "127.0.0.1:0", from("127.0.0.9")),
        ] {
            let (seen, error) = exhausted(client, ports, listen);
            assert_eq!(Errno::from_io_error(&error), Some(Errno::ADDRNOTAVAIL), "{ports} {listen}: {error}");
            assert!(seen.iter().all(|port| (ports.first..=ports.last).contains(port)), "{ports}: {seen:?}");
            // Other tests may use some of the ports.
            assert!(seen.len() as u64 * 10 >= ports.count() * 8, "{ports} {listen}: {seen:?}");
        }
    }
}
