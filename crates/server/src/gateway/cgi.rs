//! CGI/1.1 (RFC 3875): a process for each request. No shell is involved; the request is in the environment, its body on
//! standard input, the answer on standard output; standard error is the server's own.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use super::output::Output;
use super::process::Process;
use super::slots::Lease;
use super::variables::Variables;
use super::{Gateway, HandlerFailure};

/// A process and its output.
pub(super) struct Running {
    process: Process,
    stdout: Option<pipe::Receiver>,
    stdin: Option<pipe::Sender>,
    /// What of the request's body is not written yet.
    body: Bytes,
    lease: Lease,
}

/// Starts the program. That takes the kernel some tenths of a millisecond, so it is left to a thread that may wait.
pub(super) async fn start(
    lease: Lease,
    gateway: &Gateway,
    variables: Variables,
    body: Bytes,
) -> Result<Running, HandlerFailure> {
    let mut words = gateway.options.command.iter();
    let program = words.next().cloned().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words).env_clear().stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.envs(variables.iter().map(|(name, value)| (name, OsStr::from_bytes(value))));
    command.stdin(if body.is_empty() { Stdio::null() } else { Stdio::piped() });
    // RFC 3875, 7.2: the directory of the script.
    if let Some(directory) = Path::new(&program).parent() {
        command.current_dir(directory);
    }
    let reaper = gateway.reaper.clone();
    let spawned = tokio::task::spawn_blocking(move || Process::spawn(command, reaper)).await;
    let mut process = spawned.map_err(io::Error::other).flatten().map_err(HandlerFailure::Start)?;
    let (stdout, stdin) = match process.child() {
        Some(child) => (child.stdout.take(), child.stdin.take()),
        None => (None, None),
    };
    let stdout = stdout.map(|pipe| pipe::Receiver::from_owned_fd(OwnedFd::from(pipe))).transpose();
    let stdin = stdin.map(|pipe| pipe::Sender::from_owned_fd(OwnedFd::from(pipe))).transpose();
    let (stdout, stdin) = (stdout.map_err(HandlerFailure::Start)?, stdin.map_err(HandlerFailure::Start)?);
    Ok(Running { process, stdout, stdin, body, lease })
}

impl Running {
    /// Writes what it can of the request's body.
    fn write(&mut self, cx: &mut Context<'_>) {
        while let Some(stdin) = &mut self.stdin {
            match Pin::new(stdin).poll_write(cx, &self.body) {
                Poll::Pending => return,
                Poll::Ready(Ok(written)) => self.body.advance(written),
                // A program need not read its input.
                Poll::Ready(Err(_)) => self.body.clear(),
            }
            if self.body.is_empty() {
                self.stdin = None;
            }
        }
    }
}

impl Output for Running {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.write(cx);
        if let Some(stdout) = &mut self.stdout {
            let mut scratch = self.lease.shard.slots.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            ready!(Pin::new(stdout).poll_read(cx, &mut buffer))?;
            if !buffer.filled().is_empty() {
                return Poll::Ready(Ok(Some(Bytes::copy_from_slice(buffer.filled()))));
            }
            self.stdout = None;
        }
        // Without an announced length, only its end tells whether this was all.
        let status = ready!(self.process.poll_end(cx))?;
        match status.success() {
            true => Poll::Ready(Ok(None)),
            false => Poll::Ready(Err(io::Error::other(format!("{status}")))),
        }
    }

    fn release(self: Box<Self>) {}
}
