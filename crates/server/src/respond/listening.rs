//! A slot: one process that accepts connections and answers one request at a time. It waits for its listening socket and all
//! its connections at once, so that a connection that a server keeps open does not block others.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv, sockopt};

use super::answer::{Opening, Sink, answer, seed};
use super::cgi::write_all;
use super::protocol::{Protocol, Step};

/// The listening socket among the events.
const LISTENER: u64 = 0;
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;
/// How long a server may take to take a piece of an answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);

/// Answers what comes at a listening socket, which other processes may share. Does not end by itself.
pub(super) fn serve<P: Protocol>(listener: &OwnedFd, opening: Opening) -> io::Result<()> {
    rustix::io::ioctl_fionbio(listener, true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    // Of the processes that share the socket, the kernel wakes one.
    let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), flags)?;
    let mut slot = Slot { epoll, opening, random: seed(), scratch: vec![0; READ_BYTES], out: Vec::new() };
    let mut connections: HashMap<u64, Connection<P>> = HashMap::new();
    let mut last = LISTENER;
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        match epoll::wait(&slot.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            let id = event.data.u64();
            if id != LISTENER {
                let is_over = connections.get_mut(&id).is_some_and(|connection| !slot.serve(connection));
                if is_over {
                    // Closing takes it out of the events.
                    connections.remove(&id);
                }
                continue;
            }
            let Some(stream) = accepted(listener)? else { continue };
            let mut connection = Connection { stream, protocol: P::default(), inbound: Vec::new() };
            // Usually the request is already there; then there is no wait.
            if slot.serve(&mut connection) {
                last += 1;
                let data = epoll::EventData::new_u64(last);
                epoll::add(&slot.epoll, &connection.stream, data, epoll::EventFlags::IN)?;
                connections.insert(last, connection);
            }
        }
    }
}

/// A connection; `None` if another process took it, or the peer has gone.
fn accepted(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    match accept_with(listener, SocketFlags::CLOEXEC) {
        Ok(stream) => {
            sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, Some(WRITE_PATIENCE))?;
            Ok(Some(stream))
        }
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::MFILE | Errno::NFILE) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

struct Connection<P> {
    stream: OwnedFd,
    protocol: P,
    inbound: Vec<u8>,
}

struct Slot {
    epoll: OwnedFd,
    opening: Opening,
    random: Cell<u64>,
    scratch: Vec<u8>,
    out: Vec<u8>,
}

impl Slot {
    /// Reads once and does what it can; returns whether the connection continues. A server's error ends its connection and nothing else.
    fn serve<P: Protocol>(&mut self, connection: &mut Connection<P>) -> bool {
        let read = match recv(&connection.stream, &mut self.scratch[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((read, _)) => read,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        };
        connection.inbound.extend_from_slice(&self.scratch[..read]);
        loop {
            let is_done = match connection.protocol.step(&mut connection.inbound) {
                Ok(Step::More) => return true,
                Ok(Step::Say(bytes)) => write_all(&connection.stream, &bytes).is_ok(),
                Ok(Step::Request { method, query }) => {
                    let out = &mut self.out;
                    let (stream, protocol) = (connection.stream.as_fd(), &connection.protocol);
                    let mut sink = Wrapped { stream, protocol, out };
                    let written =
                        answer(self.opening, &method, query.as_deref(), &self.random, &mut sink).is_ok();
                    written && connection.protocol.keeps()
                }
                Err(_) => false,
            };
            if !is_done {
                return false;
            }
        }
    }
}

struct Wrapped<'a, P> {
    stream: std::os::fd::BorrowedFd<'a>,
    protocol: &'a P,
    out: &'a mut Vec<u8>,
}

impl<P: Protocol> Sink for Wrapped<'_, P> {
    fn write(&mut self, content: &[u8], is_last: bool) -> io::Result<()> {
        self.out.clear();
        self.protocol.wrap(content, is_last, self.out);
        write_all(self.stream, self.out)
    }
}
