//! Addresses, and the sockets that listen at them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::error::ServeError;

const FORM: &str = "write ADDRESS:PORT (127.0.0.1:8080, [::1]:8080, localhost:0) or unix:/path/of/socket";

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Reads a list of addresses, separated by commas. Of a name's addresses the first is taken.
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Address>, ServeError> {
        text.split(',').map(|part| Address::parse(part.trim())).collect()
    }

    /// Its IP address; a Unix socket has none.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Address::Tcp(address) => Some(address.ip()),
            Address::Unix(_) => None,
        }
    }

    fn parse(text: &str) -> Result<Address, ServeError> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(ServeError::option("--listen", text, "the path of the socket is missing", FORM));
            }
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        if let Ok(address) = text.parse() {
            return Ok(Address::Tcp(address));
        }
        let port =
            text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if port.is_none() || text.contains('/') {
            return Err(ServeError::option("--listen", text, "this is not an address with a port", FORM));
        }
        let resolved = text.to_socket_addrs().map_err(|error| {
            let rule = format!("the name does not resolve: {error}");
            ServeError::option(
                "--listen",
                text,
                &rule,
                "name an address of this host; `ip address` lists them",
            )
        })?;
        resolved.into_iter().next().map(Address::Tcp).ok_or_else(|| {
            ServeError::option("--listen", text, "the name has no address", "name an address of this host")
        })
    }
}

/// Ports that are tried where the kernel chooses one that must be free over TCP and UDP.
const PORTS_TRIED: u32 = 16;

/// Bytes asked for the receive queue of UDP. The kernel's default holds the first datagrams of 90 clients.
const RECEIVE_BYTES: usize = 4 << 20;

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    /// The address with its real port.
    pub(crate) address: Address,
    /// Whether connections to it are over TLS.
    pub(crate) over_tls: bool,
    /// With HTTP/3, the UDP socket of the same address and port, until it is taken.
    pub(crate) datagrams: Option<UdpSocket>,
    backlog: i32,
}

impl Listener {
    /// Binds and listens for TLS, with HTTP/3 also at the UDP port of the same number.
    pub(crate) fn bind_both(address: &Address, backlog: u32, quic: bool) -> Result<Listener, ServeError> {
        let mut attempts = PORTS_TRIED;
        loop {
            let mut listener = Listener::bind(address, backlog)?;
            listener.over_tls = true;
            let Address::Tcp(bound) = listener.address else { return Ok(listener) };
            if !quic {
                return Ok(listener);
            }
            attempts -= 1;
            match UdpSocket::bind(bound) {
                Ok(socket) => {
                    // All clients' datagrams wait in this one queue. Where the kernel allows only a shorter one, that is not an error.
                    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES);
                    listener.datagrams = Some(socket);
                    return Ok(listener);
                }
                // The port that the kernel chose for TCP is taken over UDP.
                Err(error)
                    if error.kind() == std::io::ErrorKind::AddrInUse
                        && attempts > 0
                        && *address != listener.address => {}
                Err(error) => return Err(ServeError::listen(&format!("{bound} (UDP)"), error)),
            }
        }
    }

    /// Binds and listens, without TLS.
    pub(crate) fn bind(address: &Address, backlog: u32) -> Result<Listener, ServeError> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        match address {
            Address::Tcp(address) => Listener::bind_tcp(*address, backlog)
                .map_err(|errno| ServeError::listen(&address.to_string(), errno.into())),
            Address::Unix(path) => {
                let fail =
                    |errno: Errno| ServeError::listen(&format!("unix:{}", path.display()), errno.into());
                remove_stale(path).map_err(fail)?;
                let socket = bind_unix(path, backlog).map_err(fail)?;
                Ok(Listener { socket, address: address.clone(), over_tls: false, datagrams: None, backlog })
            }
        }
    }

    fn bind_tcp(address: SocketAddr, backlog: i32) -> Result<Listener, Errno> {
        let mut socket = tcp_socket(address)?;
        rustix::net::bind(&socket, &address)?;
        let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        if address.port() == 0 {
            // A port that the kernel chose is given back as soon as the socket stops listening, one that was asked
            // for is not (see `pause`). So it is asked for, while the first socket still holds it.
            let asked = tcp_socket(bound)?;
            rustix::net::bind(&asked, &bound)?;
            socket = asked;
        }
        rustix::net::listen(&socket, backlog)?;
        Ok(Listener { socket, address: Address::Tcp(bound), over_tls: false, datagrams: None, backlog })
    }

    /// Stops listening; the port stays ours. Connections in the queue are reset: accept them first.
    pub(crate) fn pause(&self) -> Result<(), Errno> {
        match &self.address {
            // On Linux this returns a listening socket to its state before `listen`.
            Address::Tcp(_) => rustix::net::shutdown(&self.socket, Shutdown::Read),
            // A Unix socket does not come back from a shutdown, but its path may be bound again.
            Address::Unix(_) => rustix::net::shutdown(&self.socket, Shutdown::Both),
        }
    }

    /// Listens again.
    pub(crate) fn resume(&mut self) -> Result<(), Errno> {
        match &self.address {
            Address::Tcp(_) => rustix::net::listen(&self.socket, self.backlog),
            Address::Unix(path) => {
                match rustix::fs::unlink(path) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno),
                }
                self.socket = bind_unix(path, self.backlog)?;
                Ok(())
            }
        }
    }

    /// How users write the address: `127.0.0.1:8080` or `unix:/path`.
    pub(crate) fn name(&self) -> String {
        match &self.address {
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// A URL at which the server can be reached from this host; `None` for a Unix socket, which has none.
    pub(crate) fn url(&self) -> Option<String> {
        let scheme = if self.over_tls { "https" } else { "http" };
        let Address::Tcp(address) = self.address else { return None };
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        Some(format!("{scheme}://{}", SocketAddr::new(ip, address.port())))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // A later client gets a clear "not found". An error means that it is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn tcp_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of an earlier server in TIME_WAIT must not keep this one from its port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Accepted connections inherit it on Linux, which saves a system call for each.
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

fn bind_unix(path: &Path, backlog: i32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket)
}

/// Removes the socket of a server that died: one at which nobody listens. Anything else is left alone.
fn remove_stale(path: &Path) -> Result<(), Errno> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    let is_refused = || {
        let error = UnixStream::connect(path).err();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    if is_socket && is_refused() {
        return rustix::fs::unlink(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_three_forms() {
        let list = Address::parse_list("127.0.0.1:80, [::1]:0,unix:/tmp/x").unwrap();
        let expected = [
            Address::Tcp("127.0.0.1:80".parse().unwrap()),
            Address::Tcp("[::1]:0".parse().unwrap()),
            Address::Unix("/tmp/x".into()),
        ];
        assert_eq!(list, expected);
        assert!(matches!(&Address::parse_list("localhost:0").unwrap()[..], [Address::Tcp(_)]));
    }

    #[test]
    fn a_bad_address_says_what_to_write() {
        for text in ["", "8080", ":8080", "127.0.0.1", "127.0.0.1:99999", "http://127.0.0.1:80", "unix:"] {
            let error = Address::parse_list(text).unwrap_err();
            assert!(error.what.starts_with("--listen"), "{error}");
            assert!(error.hint.unwrap().contains("ADDRESS:PORT"), "{text}");
        }
    }

    #[test]
    fn a_chosen_port_survives_a_pause() {
        let address = Address::Tcp("127.0.0.1:0".parse().unwrap());
        let mut listener = Listener::bind(&address, 16).unwrap();
        let Address::Tcp(bound) = listener.address else { panic!("not TCP") };
        assert_ne!(bound.port(), 0);
        std::net::TcpStream::connect(bound).unwrap();
        listener.pause().unwrap();
        let error = std::net::TcpStream::connect(bound).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        // Nobody else gets the port meanwhile.
        let second = Address::Tcp(bound);
        let taken = Listener::bind(&second, 16).and_then(|other| {
            listener.resume().map_err(|errno| ServeError::listen("", errno.into())).map(|()| other)
        });
        assert!(taken.unwrap_err().what.contains("in use"));
    }
}
