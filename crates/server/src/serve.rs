//! `webstone serve`: the server as a process of its own, from its start to the signal that ends it.

use std::future::Future;
use std::io::Read;
use std::pin::Pin;
use std::task::Poll;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::error::ServeError;
use crate::options::{self, Placement, ServeOptions};
use crate::server::{Ready, ServeReport, Server};

/// Serves until SIGTERM, SIGINT or SIGHUP, or, with [`ServeOptions::until_stdin_closes`], until standard input ends.
///
/// `on_ready` is called once, when the server listens. The calling thread is pinned with the others, and the process's limit of open files
/// is raised as far as allowed: it is the first limit that a server reaches.
///
/// # Errors
/// Those of [`Server::start`].
pub fn serve(options: ServeOptions, on_ready: impl FnOnce(&Ready)) -> Result<ServeReport, ServeError> {
    options::pin(&Placement::of_spec(&options.server)?.all)?;
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| ServeError::system("starting an event loop", &error))?;
    // Before the server is announced: from now on a signal ends it in order.
    let _entered = runtime.enter();
    let watch = |kind| signal(kind).map_err(|error| ServeError::system("watching for signals", &error));
    let (mut terminate, mut interrupt) = (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
    // If `nohup` made it ignored, it stays ignored.
    let mut hang_up = if is_hang_up_ignored() { None } else { Some(watch(SignalKind::hangup())?) };
    let mut stdin = options.until_stdin_closes.then(end_of_stdin);
    let server = Server::start(options)?;
    on_ready(server.ready());
    runtime.block_on(std::future::poll_fn(|cx| {
        let mut has_come = |signal: &mut Signal| signal.poll_recv(cx).is_ready();
        let is_over =
            has_come(&mut terminate) | has_come(&mut interrupt) | hang_up.as_mut().is_some_and(has_come);
        let is_at_end = stdin.as_mut().is_some_and(|stdin| Pin::new(stdin).poll(cx).is_ready());
        if is_over || is_at_end { Poll::Ready(()) } else { Poll::Pending }
    }));
    Ok(server.stop())
}

/// Ready, with a value or an error, when standard input has ended. What comes in is dropped.
fn end_of_stdin() -> oneshot::Receiver<()> {
    let (ended, has_ended) = oneshot::channel();
    // If the thread does not start, the sender is dropped and the server ends at once, which is right: a server must not
    // outlive its parent.
    let _ = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut scratch = [0; 256];
        let mut stdin = std::io::stdin().lock();
        loop {
            match stdin.read(&mut scratch) {
                Ok(1..) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let _ = ended.send(());
    });
    has_ended
}

/// Whether this process was started with SIGHUP ignored, the first bit of the kernel's mask.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, accepting fails later, which is counted and reported.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
