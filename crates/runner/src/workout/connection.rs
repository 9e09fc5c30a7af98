//! The connection of a misdeed: a socket, over TLS where the server's URL says so, whose calls return soon, so that deadlines can
//! be checked.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use webstone_engine::TlsStream;

use super::misdeeds::Scene;

/// Pause of slow readers.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes that a slow reader takes from the socket at a time, and room that its kernel announces for more.
const SIP_BYTES: usize = 16;
const RECEIVE_BUFFER_BYTES: usize = 4096;
/// How long a call may take before the deadline is checked.
const SLICE: Duration = Duration::from_millis(50);

/// What a call for bytes got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Bytes(usize),
    /// None yet.
    Nothing,
    /// None any more: the server closed or reset the connection.
    End,
}

/// Why bytes were not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The server closed or reset the connection.
    Closed,
    /// The server did not read on, and the deadline is over.
    Unread,
}

/// See the module comment. When dropped, it closes without a close_notify of TLS.
pub(super) enum Connection {
    Plain(Socket),
    Secure(Box<TlsStream<Socket>>),
}

impl Connection {
    /// Connects, and does the handshake of TLS. A slow reader announces little room from the start.
    ///
    /// # Errors
    /// If either fails or is not done by the deadline.
    pub(super) fn new(scene: &Scene, is_slow: bool, deadline: Instant) -> io::Result<Connection> {
        let socket = Socket::connected(scene, is_slow)?;
        let Some(tls) = &scene.tls else { return Ok(Connection::Plain(socket)) };
        let mut stream = tls.over(&scene.target, socket)?;
        loop {
            match stream.shake_hands() {
                Ok(()) => return Ok(Connection::Secure(Box::new(stream))),
                Err(error) if is_pause(error.kind()) && !scene.is_over(deadline) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes all bytes; a server that does not read them has until the deadline.
    pub(super) fn write_all(&mut self, bytes: &[u8], scene: &Scene, deadline: Instant) -> Result<(), Unsent> {
        let mut rest = bytes;
        loop {
            let is_last = rest.is_empty();
            let written = match (&mut *self, is_last) {
                (Connection::Plain(_), true) => Ok(0),
                (Connection::Plain(socket), false) => socket.write(rest),
                (Connection::Secure(stream), true) => stream.flush().map(|()| 0),
                (Connection::Secure(stream), false) => stream.write(rest),
            };
            match written {
                Ok(_) if is_last => return Ok(()),
                Ok(0) => return Err(Unsent::Closed),
                Ok(written) => rest = &rest[written..],
                Err(error) if !is_pause(error.kind()) => return Err(Unsent::Closed),
                Err(_) if scene.is_over(deadline) => return Err(Unsent::Unread),
                Err(_) => {}
            }
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Got {
        let read = match self {
            Connection::Plain(socket) => socket.read(buffer),
            Connection::Secure(stream) => stream.read(buffer),
        };
        match read {
            Ok(0) => Got::End,
            Ok(read) => Got::Bytes(read),
            Err(error) if is_pause(error.kind()) => Got::Nothing,
            Err(_) => Got::End,
        }
    }

    /// Says that nothing more will be written: FIN, over TLS after its close_notify.
    pub(super) fn close_half(&mut self) -> io::Result<()> {
        if let Connection::Secure(stream) = self {
            stream.close_notify()?;
        }
        self.socket().stream.shutdown(Shutdown::Write)
    }

    /// From here on, a few bytes are read from the socket at a time, with pauses.
    pub(super) fn slow_down(&mut self) {
        match self {
            Connection::Plain(socket) => socket.is_slow = true,
            Connection::Secure(stream) => stream.below_mut().is_slow = true,
        }
    }

    /// Makes closing send a reset; if that is not possible, a FIN.
    pub(super) fn reset_at_end(&self) {
        let _ = set_socket_linger(&self.socket().stream, Some(Duration::ZERO));
    }

    fn socket(&self) -> &Socket {
        match self {
            Connection::Plain(socket) => socket,
            Connection::Secure(stream) => stream.below(),
        }
    }
}

/// The socket, which a slow reader reads slowly.
pub(super) struct Socket {
    stream: TcpStream,
    is_slow: bool,
    has_sipped: bool,
}

impl Socket {
    fn connected(scene: &Scene, is_slow: bool) -> rustix::io::Result<Socket> {
        let family = if scene.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let descriptor: OwnedFd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        if is_slow {
            // Before it is connected: the window that the kernel announces follows from it.
            set_socket_recv_buffer_size(&descriptor, RECEIVE_BUFFER_BYTES)?;
        }
        set_socket_timeout(&descriptor, Timeout::Send, Some(scene.patience))?;
        connect(&descriptor, &scene.address)?;
        set_socket_timeout(&descriptor, Timeout::Send, Some(SLICE))?;
        set_socket_timeout(&descriptor, Timeout::Recv, Some(SLICE))?;
        Ok(Socket { stream: TcpStream::from(descriptor), is_slow: false, has_sipped: false })
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_slow {
            return self.stream.read(buffer);
        }
        // TLS would read on until a record is whole, whatever the clock says.
        if std::mem::replace(&mut self.has_sipped, false) {
            return Err(ErrorKind::WouldBlock.into());
        }
        std::thread::sleep(PAUSE);
        self.has_sipped = true;
        let most = buffer.len().min(SIP_BYTES);
        self.stream.read(&mut buffer[..most])
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
