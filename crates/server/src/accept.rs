//! Accepting connections and dealing them out to threads.
//!
//! One thread accepts for all (see the crate's comment for why) and gives each connection to the thread that has the
//! fewest open, so that k connections over n threads differ by at most one, whatever their addresses.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketFlags;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::connection;
use crate::h3;
use crate::listener::{Address, Listener};
use crate::readiness;
use crate::shard::{Shard, Shared};
use crate::wire;

/// Connections accepted before other work of the thread has its turn.
const ACCEPTS_AT_ONCE: u32 = 64;
/// Wait after a failure that needs time to pass: too many open files, no memory.
const BACK_OFF: Duration = Duration::from_millis(20);

/// An accepted connection on its way to its thread.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// Of TCP, or of a Unix socket.
    Socket {
        socket: OwnedFd,
        /// The client's address; `None` for a Unix socket.
        peer: Option<IpAddr>,
        /// Whether TLS is spoken where it was accepted.
        over_tls: bool,
    },
    /// Of QUIC: its first datagram has come.
    Quic {
        incoming: Box<quinn::Incoming>,
        /// Where it came.
        local: SocketAddr,
    },
}

/// What the accepting thread can be told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Stop listening for a time.
    Refuse { span: Duration, done: oneshot::Sender<()> },
}

/// Senders of orders to the accepting thread, one per listener.
#[derive(Debug)]
pub(crate) struct Acceptor {
    orders: Vec<UnboundedSender<Order>>,
}

impl Acceptor {
    /// For `listeners` listeners, with the receivers of their orders.
    pub(crate) fn new(listeners: usize) -> (Acceptor, Vec<UnboundedReceiver<Order>>) {
        let (orders, receivers) = (0..listeners).map(|_| unbounded_channel()).unzip();
        (Acceptor { orders }, receivers)
    }

    /// Returns when nothing listens any more.
    pub(crate) async fn refuse(&self, span: Duration) {
        for orders in &self.orders {
            let (done, is_done) = oneshot::channel();
            if orders.send(Order::Refuse { span, done }).is_ok() {
                // An error means that the listener has already gone.
                let _ = is_done.await;
            }
        }
    }
}

/// Gives connections to threads. Lives on the accepting thread.
#[derive(Debug)]
pub(crate) struct Dealer {
    shard: Rc<Shard>,
    /// Ends of the other threads' queues; index 0, this thread, has none.
    threads: Vec<Option<UnboundedSender<Accepted>>>,
    /// Connections given to each thread so far.
    dealt: Vec<Cell<u64>>,
    /// Where the search for the least busy thread begins: ties go round.
    next: Cell<usize>,
}

impl Dealer {
    pub(crate) fn new(shard: Rc<Shard>, others: Vec<UnboundedSender<Accepted>>) -> Dealer {
        let threads: Vec<_> = std::iter::once(None).chain(others.into_iter().map(Some)).collect();
        let dealt = threads.iter().map(|_| Cell::new(0)).collect();
        Dealer { shard, threads, dealt, next: Cell::new(0) }
    }

    /// What all threads share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shard.shared
    }

    /// Counts an attempt to accept that failed.
    pub(crate) fn failed(&self) {
        self.shared().accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn deal(&self, accepted: Accepted) {
        let counters = &self.shard.shared.counters;
        let count = self.threads.len();
        let open = |index: usize| self.dealt[index].get().wrapping_sub(counters[index].finished());
        let chosen = least_busy(self.next.get(), count, open);
        self.next.set((chosen + 1) % count);
        self.dealt[chosen].set(self.dealt[chosen].get() + 1);
        match &self.threads[chosen] {
            None => serve(accepted, &self.shard),
            // If the thread has ended, the server is stopping, and the connection closes here.
            Some(queue) => drop(queue.send(accepted)),
        }
    }
}

/// Begins to serve a connection on the calling thread.
pub(crate) fn serve(accepted: Accepted, shard: &Rc<Shard>) {
    let (socket, peer, over_tls) = match accepted {
        Accepted::Socket { socket, peer, over_tls } => (socket, peer, over_tls),
        Accepted::Quic { incoming, local } => {
            return drop(tokio::task::spawn_local(h3::run(*incoming, local, Rc::clone(shard))));
        }
    };
    let stream = if peer.is_some() {
        tokio::net::TcpStream::from_std(socket.into()).map(wire::Accepted::Tcp)
    } else {
        tokio::net::UnixStream::from_std(socket.into()).map(wire::Accepted::Unix)
    };
    match stream {
        Ok(stream) => {
            tokio::task::spawn_local(connection::run(stream, peer, over_tls, Rc::clone(shard)));
        }
        Err(_) => {
            shard.shared.accept_errors.fetch_add(1, Ordering::Relaxed);
            shard.tally.block().connection_finished();
        }
    }
}

/// Serves what other threads accepted, until they stop.
pub(crate) async fn serve_queue(mut queue: UnboundedReceiver<Accepted>, shard: Rc<Shard>) {
    while let Some(accepted) = queue.recv().await {
        serve(accepted, &shard);
    }
}

/// The thread with the fewest open connections; of several, the next in turn from `next`.
fn least_busy(next: usize, count: usize, open: impl Fn(usize) -> u64) -> usize {
    (0..count).map(|step| (next + step) % count).min_by_key(|index| open(*index)).unwrap_or(0)
}

/// What is known of every connection that is accepted at an address.
#[derive(Clone, Copy)]
struct Kind {
    is_tcp: bool,
    over_tls: bool,
}

enum Event {
    Order(Option<Order>),
    BackOff,
}

/// Accepts at one address until the server stops or listening again fails.
pub(crate) async fn accept(mut listener: Listener, mut orders: UnboundedReceiver<Order>, dealer: Rc<Dealer>) {
    let kind = Kind { is_tcp: matches!(listener.address, Address::Tcp(_)), over_tls: listener.over_tls };
    loop {
        let Ok(socket) = readiness::readable(listener.socket.as_fd()) else {
            dealer.shard.shared.accept_errors.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(BACK_OFF).await;
            continue;
        };
        let order = loop {
            let event = poll_fn(|cx| match orders.poll_recv(cx) {
                Poll::Ready(order) => Poll::Ready(Event::Order(order)),
                Poll::Pending => poll_accept(cx, &socket, kind, &dealer).map(|()| Event::BackOff),
            });
            match event.await {
                Event::Order(order) => break order,
                Event::BackOff => tokio::time::sleep(BACK_OFF).await,
            }
        };
        // Deregistered before the socket stops listening, because the event loop would take it for closed.
        drop(socket);
        let Some(Order::Refuse { span, done }) = order else { return };
        while let Ok(accepted) = accept_one(listener.socket.as_fd(), kind) {
            dealer.deal(accepted);
        }
        if listener.pause().is_ok() {
            // The caller may have gone; the order is carried out anyway.
            let _ = done.send(());
            tokio::time::sleep(span).await;
            while listener.resume().is_err() {
                dealer.shard.shared.accept_errors.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}

/// Accepts all waiting connections. Ready only when it should pause.
fn poll_accept(
    cx: &mut Context<'_>,
    socket: &AsyncFd<BorrowedFd<'_>>,
    kind: Kind,
    dealer: &Dealer,
) -> Poll<()> {
    for _ in 0..ACCEPTS_AT_ONCE {
        let Ok(mut guard) = ready!(socket.poll_read_ready(cx)) else { return Poll::Ready(()) };
        let Ok(result) = guard.try_io(|socket| Ok(accept_one(*socket.get_ref(), kind)?)) else { continue };
        match result {
            Ok(accepted) => dealer.deal(accepted),
            // The client gave up while it waited.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => {
                dealer.shard.shared.accept_errors.fetch_add(1, Ordering::Relaxed);
                return Poll::Ready(());
            }
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

fn accept_one(socket: BorrowedFd<'_>, kind: Kind) -> Result<Accepted, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let over_tls = kind.over_tls;
    if !kind.is_tcp {
        return Ok(Accepted::Socket {
            socket: rustix::net::accept_with(socket, flags)?,
            peer: None,
            over_tls,
        });
    }
    let (socket, address) = rustix::net::acceptfrom_with(socket, flags)?;
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    // The address of a TCP client is always known; otherwise the log would show 0.0.0.0.
    let peer = address.map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip().to_canonical());
    Ok(Accepted::Socket { socket, peer: Some(peer), over_tls })
}

#[cfg(test)]
mod tests {
    use super::least_busy;

    #[test]
    fn connections_are_dealt_out_evenly() {
        let mut open = [0_u64; 3];
        let mut next = 0;
        let mut deal = |open: &mut [u64; 3]| {
            let chosen = least_busy(next, 3, |index| open[index]);
            open[chosen] += 1;
            next = (chosen + 1) % 3;
            chosen
        };
        let first: Vec<usize> = (0..6).map(|_| deal(&mut open)).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 2]);
        // Where connections have ended, the next ones go.
        open = [2, 0, 2];
        assert_eq!([deal(&mut open), deal(&mut open)], [1, 1]);
        assert_eq!(deal(&mut open), 2);
    }
}
