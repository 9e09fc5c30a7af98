//! Slots of one thread: how many requests its handlers have at once, and the processes that stay between requests. Nothing
//! is shared between threads, so that nothing is locked.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::head::Head;
use super::output::{HandlerBody, Output};
use super::process::Process;
use super::stream::{READ_BYTES, Stream};
use super::{Asked, Gateway, HandlerFailure, Interface, cgi, fastcgi, persistent, variables};
use crate::shard::Shard;

/// Slots of a thread where no number is asked for: one works while another waits for the server.
const SLOTS: usize = 2;

/// A thread's slots.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    /// Processes that stay and have nothing to do; a server has those of one interface.
    idle: RefCell<Vec<Slot>>,
    /// The buffer of every read.
    pub(super) scratch: RefCell<Box<[u8]>>,
}

impl Slots {
    /// The share of one of `threads` threads.
    pub(crate) fn new(gateway: Option<&Gateway>, threads: usize) -> Slots {
        let threads = threads.max(1);
        let each = match gateway.map_or(0, |gateway| gateway.options.slots as usize) {
            0 => SLOTS,
            all => all.div_ceil(threads),
        };
        let scratch = if gateway.is_some() { READ_BYTES } else { 0 };
        Slots {
            free: Arc::new(Semaphore::new(each)),
            idle: RefCell::default(),
            scratch: RefCell::new(vec![0; scratch].into()),
        }
    }
}

impl Slots {
    /// A process that has nothing to do and is still there.
    pub(super) fn idle(&self) -> Option<Slot> {
        loop {
            // One that has ended meanwhile is dropped.
            let slot = self.idle.borrow_mut().pop()?;
            if !slot.stream.is_spoilt() {
                return Some(slot);
            }
        }
    }

    /// A process has nothing to do any more.
    pub(super) fn keep(&self, slot: Slot) {
        self.idle.borrow_mut().push(slot);
    }
}

/// A process that stays, and the connection to it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) stream: Stream,
    /// Dropped after the stream, so that the process ends with it.
    pub(super) _process: Process,
}

/// A slot that is taken, given back when this is dropped.
pub(super) struct Lease {
    pub(super) shard: Rc<Shard>,
    _permit: OwnedSemaphorePermit,
}

/// Waits for a free slot, asks the handler in it, and reads the head of its answer.
pub(super) async fn ask(shard: &Rc<Shard>, asked: &Asked<'_>) -> Result<(Head, HandlerBody), HandlerFailure> {
    let Some(gateway) = &shard.shared.gateway else {
        return Err(HandlerFailure::Start(io::Error::other("the server has no handler")));
    };
    let variables = variables::variables(asked, gateway.root.as_deref())?;
    let silence_max = gateway.options.silence_max;
    let permit =
        within(silence_max, Arc::clone(&shard.slots.free).acquire_owned(), HandlerFailure::Busy).await?;
    // The semaphore is never closed.
    let permit = permit.map_err(|_| HandlerFailure::Busy(silence_max))?;
    let lease = Lease { shard: Rc::clone(shard), _permit: permit };
    let body = asked.body.clone();
    let output: Box<dyn Output> = match gateway.options.interface {
        Interface::Cgi => Box::new(cgi::start(lease, gateway, variables, body).await?),
        Interface::FastCgi => Box::new(fastcgi::start(lease, gateway, &variables, &body).await?),
        Interface::Persistent => {
            let started = persistent::start(lease, gateway, &variables, &body);
            Box::new(within(silence_max, started, HandlerFailure::Silent).await??)
        }
    };
    HandlerBody::begin(output, gateway).await
}

async fn within<T>(
    most: std::time::Duration,
    future: impl Future<Output = T>,
    failure: impl Fn(std::time::Duration) -> HandlerFailure,
) -> Result<T, HandlerFailure> {
    let mut future = std::pin::pin!(future);
    // Usually it is ready at once, and no timer is needed.
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await;
    match first {
        std::task::Poll::Ready(value) => Ok(value),
        std::task::Poll::Pending => tokio::time::timeout(most, future).await.map_err(|_| failure(most)),
    }
}
