//! FastCGI: processes that stay, started by the server, each listening at a socket of its own that is its standard input
//! (`FCGI_LISTENSOCK_FILENO`), each with one kept connection. With a shared socket, chance would decide which process gets a connection; so
//! a slot is a process.
//!
//! The sockets are in Linux's abstract namespace: they have no file that could be left behind.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Connected;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixStream;

use super::output::Output;
use super::process::{Process, only_inherited};
use super::slots::{Lease, Slot};
use super::stream::Stream;
use super::variables::Variables;
use super::{Gateway, HandlerFailure};
use crate::fastcgi::{
    KEEP_CONNECTION, Record, kind, push_begin, push_pair, push_record, push_stream, status,
};

/// Identifier of every request: there is one at a time on a connection.
const REQUEST: u16 = 1;
/// Connections that may wait at a slot's socket, which gets only one.
const BACKLOG: i32 = 4;

/// A slot with a request.
pub(super) struct Asked {
    slot: Slot,
    lease: Lease,
}

/// Gives a request to a process that has nothing to do, or to a new one.
pub(super) async fn start(
    lease: Lease,
    gateway: &Gateway,
    variables: &Variables,
    body: &[u8],
) -> Result<Asked, HandlerFailure> {
    let mut slot = match lease.shard.slots.idle() {
        Some(slot) => slot,
        None => open(gateway).map_err(HandlerFailure::Start)?,
    };
    slot.stream.say(&request(variables, body));
    Ok(Asked { slot, lease })
}

fn open(gateway: &Gateway) -> io::Result<Slot> {
    let (program, arguments) = gateway.options.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let socket =
        || rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let listener = socket()?;
    // Bound to no name, a socket gets a free one of the abstract namespace (unix(7), autobind).
    rustix::net::bind(&listener, &SocketAddrUnix::new_unnamed())?;
    rustix::net::listen(&listener, BACKLOG)?;
    let address = SocketAddrUnix::try_from(rustix::net::getsockname(&listener)?)?;
    // It waits in the queue until the process accepts it.
    let stream: OwnedFd = socket()?;
    rustix::net::connect(&stream, &address)?;
    let stream = Connected::from(stream);
    stream.set_nonblocking(true)?;
    let mut command = Command::new(program);
    only_inherited(&mut command);
    command.args(arguments).stdin(Stdio::from(listener)).stdout(Stdio::null()).stderr(Stdio::inherit());
    let process = Process::spawn(command, gateway.reaper.clone())?;
    Ok(Slot { stream: Stream::new(UnixStream::from_std(stream)?), _process: process })
}

fn request(variables: &Variables, body: &[u8]) -> Vec<u8> {
    let mut parameters = Vec::new();
    for (name, value) in variables {
        push_pair(&mut parameters, name.as_bytes(), value);
    }
    let mut out = Vec::with_capacity(parameters.len() + body.len() + 64);
    push_begin(&mut out, REQUEST, KEEP_CONNECTION);
    push_stream(&mut out, kind::PARAMS, REQUEST, &parameters);
    push_record(&mut out, kind::PARAMS, REQUEST, b"");
    push_stream(&mut out, kind::STDIN, REQUEST, body);
    push_record(&mut out, kind::STDIN, REQUEST, b"");
    out
}

impl Output for Asked {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let stream = &mut self.slot.stream;
        loop {
            let Some((record, length)) = Record::parse(&stream.inbound).map_err(io::Error::other)? else {
                let mut scratch = self.lease.shard.slots.scratch.borrow_mut();
                if ready!(stream.poll_more(cx, &mut scratch))? == 0 {
                    return Poll::Ready(Err(io::Error::other("it closed the connection")));
                }
                continue;
            };
            let ended = record.content.get(4).copied();
            let (kind, content, is_ours) = (record.kind, record.content.len(), record.request == REQUEST);
            let mut whole = stream.inbound.split_to(length);
            match kind {
                kind::STDOUT if is_ours && content > 0 => {
                    whole.advance(crate::fastcgi::HEADER_BYTES);
                    whole.truncate(content);
                    return Poll::Ready(Ok(Some(whole.freeze())));
                }
                kind::END_REQUEST if is_ours => {
                    return Poll::Ready(match ended {
                        Some(status::COMPLETE) => Ok(None),
                        _ => Err(io::Error::other("it refused the request")),
                    });
                }
                // Standard error is for people, and an empty record ends a stream.
                kind::STDERR | kind::STDOUT => {}
                _ => return Poll::Ready(Err(io::Error::other("a record that a responder does not send"))),
            }
        }
    }

    fn release(self: Box<Self>) {
        let Asked { slot, lease } = *self;
        lease.shard.slots.keep(slot);
    }
}
