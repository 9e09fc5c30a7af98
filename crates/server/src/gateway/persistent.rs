//! Persistent handlers: processes that stay, each at the other end of a socket pair that is its standard input and output.
//! The protocol is described in `crate::persistent`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::net::UnixStream;

use super::output::Output;
use super::process::{Process, only_inherited};
use super::slots::{Lease, Slot};
use super::stream::Stream;
use super::variables::Variables;
use super::{Gateway, HandlerFailure};
use crate::persistent::{Frame, VERSION, kind, push};

/// Bytes of a body in one frame.
const BODY_BYTES: usize = 64 * 1024;

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
        None => open(&lease, gateway).await?,
    };
    slot.stream.say(&request(variables, body));
    Ok(Asked { slot, lease })
}

/// Starts a process and waits until it says that it is ready.
async fn open(lease: &Lease, gateway: &Gateway) -> Result<Slot, HandlerFailure> {
    let start = || -> io::Result<Slot> {
        let (ours, theirs) = Pair::pair()?;
        let (program, arguments) =
            gateway.options.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        only_inherited(&mut command);
        command.args(arguments).stderr(Stdio::inherit());
        command
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)));
        let process = Process::spawn(command, gateway.reaper.clone())?;
        ours.set_nonblocking(true)?;
        Ok(Slot { stream: Stream::new(UnixStream::from_std(ours)?), _process: process })
    };
    let mut slot = start().map_err(HandlerFailure::Start)?;
    let ready = std::future::poll_fn(|cx| poll_frame(&mut slot.stream, cx, lease)).await;
    match ready.map_err(|error| HandlerFailure::Ended(format!("before it was ready: {error}")))? {
        (kind::VERSION, version) if version == VERSION => Ok(slot),
        (kind::VERSION, _) => {
            Err(HandlerFailure::Malformed("it speaks another version of the protocol".to_owned()))
        }
        _ => Err(HandlerFailure::Malformed("it does not begin with the version of the protocol".to_owned())),
    }
}

fn request(variables: &Variables, body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    for (name, value) in variables {
        for word in [name.as_bytes(), value] {
            content.extend_from_slice(word);
            content.push(0);
        }
    }
    let mut frames = Vec::with_capacity(content.len() + body.len() + 32);
    push(&mut frames, kind::REQUEST, &content);
    body.chunks(BODY_BYTES).for_each(|piece| push(&mut frames, kind::BODY, piece));
    push(&mut frames, kind::END, b"");
    frames
}

/// The next frame: its kind and what it holds.
fn poll_frame(stream: &mut Stream, cx: &mut Context<'_>, lease: &Lease) -> Poll<io::Result<(u8, Bytes)>> {
    loop {
        if let Some((frame, length)) = Frame::parse(&stream.inbound).map_err(io::Error::other)? {
            let (kind, content) = (frame.kind, frame.content.len());
            let mut whole = stream.inbound.split_to(length);
            whole.advance(length - content);
            return Poll::Ready(Ok((kind, whole.freeze())));
        }
        let mut scratch = lease.shard.slots.scratch.borrow_mut();
        if ready!(stream.poll_more(cx, &mut scratch))? == 0 {
            return Poll::Ready(Err(io::Error::other("it closed its end of the pipe")));
        }
    }
}

impl Output for Asked {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            match ready!(poll_frame(&mut self.slot.stream, cx, &self.lease))? {
                (kind::OUTPUT, piece) if piece.is_empty() => {}
                (kind::OUTPUT, piece) => return Poll::Ready(Ok(Some(piece))),
                (kind::END, _) => return Poll::Ready(Ok(None)),
                _ => return Poll::Ready(Err(io::Error::other("a frame that is neither output nor its end"))),
            }
        }
    }

    fn release(self: Box<Self>) {
        let Asked { slot, lease } = *self;
        lease.shard.slots.keep(slot);
    }
}
