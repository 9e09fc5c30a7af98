//! One connection from its first byte to its last.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::IF_MODIFIED_SINCE;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper::{Method, Request, Response, Version};

use crate::body::{BodyError, ServerBody};
use crate::connection_faults::ConnectionFault;
use crate::control;
use crate::counters::Count;
use crate::delay;
use crate::exchange::Exchange;
use crate::files::Found;
use crate::handlers;
use crate::host;
use crate::shard::Shard;
use crate::tls;
use crate::wire::{Accepted, Socket, Stream, Wire, WireIo};

/// Most that hyper buffers for a connection: the longest request head, and the answer bytes waiting to be sent, apart from the frame that
/// exceeded this.
const BUFFER_BYTES: usize = 128 * 1024;
/// Streams that a client of HTTP/2 or 3 may have open on a connection: more than load generators ask for.
pub(crate) const STREAMS_MAX: u32 = 1000;
/// Bytes of a request's body that clients may send before they hear that more may come, as many as TCP's largest receive buffer: on a long
/// path a smaller window would make bodies slower than over HTTP/1.
pub(crate) const WINDOW_BYTES: u32 = 6 << 20;
/// The same for all requests of a connection of HTTP/2.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// Serves a connection to its end. `peer` is `None` for Unix sockets; `over_tls`: whether it begins with a TLS handshake.
pub(crate) async fn run(accepted: Accepted, peer: Option<IpAddr>, over_tls: bool, shard: Rc<Shard>) {
    let socket = Socket::new(accepted, &shard);
    let fault = shard.shared.test_handlers.then(|| shard.shared.connection_faults.next()).flatten();
    let (stream, agreed) = match shard.shared.tls.as_ref().filter(|_| over_tls) {
        None => (Stream::Plain(socket), false),
        Some(tls) => {
            let misdeed = match fault {
                Some(ConnectionFault::Handshake(misdeed)) => Some(misdeed),
                _ => None,
            };
            // A handshake's state is large and short-lived: it is not kept beside the connection's.
            let Some(stream) = Box::pin(tls.accept(socket, misdeed)).await else { return };
            let agreed = tls::is_http2(&stream);
            (Stream::Tls(stream), agreed)
        }
    };
    let wire = Rc::new(Wire::new(stream, peer, Rc::clone(&shard)));
    let client = client_name(&shard, peer).await;
    let handler = Handler { shard: Rc::clone(&shard), wire: Rc::clone(&wire), client };
    let in_clear = shard.shared.http2 && !over_tls;
    if agreed || (in_clear && wire.begins_with_preface().await) {
        wire.tally.add(Count::Http2Connections, 1);
        if let Some(ConnectionFault::LateSettings(span)) = fault {
            delay::pause(span).await;
        }
        Box::pin(http2(handler, &wire)).await;
    } else {
        http1(handler, &wire).await;
    }
    wire.linger().await;
}

async fn http1(handler: Handler, wire: &Rc<Wire>) {
    let mut builder = http1::Builder::new();
    // A client that closes its half after a request still gets the answer (RFC 9112, 9.6).
    builder.keep_alive(handler.shard.shared.keep_alive).max_buf_size(BUFFER_BYTES).half_close(true);
    let mut connection = std::pin::pin!(builder.serve_connection(WireIo(Rc::clone(wire)), handler));
    let result = std::future::poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        // A handler has ended it without hyper.
        Poll::Pending if wire.has_ended() => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    })
    .await;
    if let Err(error) = result
        && error.is_parse()
    {
        wire.tally.add(Count::BadRequests, 1);
    }
}

async fn http2(handler: Handler, wire: &Rc<Wire>) {
    let mut builder = http2::Builder::new(OnThisThread);
    builder.max_concurrent_streams(STREAMS_MAX);
    builder.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let mut connection = std::pin::pin!(builder.serve_connection(WireIo(Rc::clone(wire)), handler));
    let mut told = false;
    // The client's error was answered by GOAWAY; there is nothing else to do.
    let _ = std::future::poll_fn(|cx| {
        wire.wake_on_change(cx.waker());
        if wire.wants_no_more() && !std::mem::replace(&mut told, true) {
            connection.as_mut().graceful_shutdown();
        }
        match connection.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending if wire.has_ended() => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
}

/// Runs what hyper starts for each stream on the thread that has the connection.
#[derive(Clone, Copy)]
struct OnThisThread;

impl<F> hyper::rt::Executor<F> for OnThisThread
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// The client's name in the access log. It is looked up before anything is served, once per connection and without a cache, so
/// that its whole cost is measured, as it was when servers did it by default.
pub(crate) async fn client_name(shard: &Rc<Shard>, peer: Option<IpAddr>) -> Rc<str> {
    let Some(peer) = peer else { return "unix:".into() };
    if !shard.log.is_on() {
        // Without an access log nobody reads it.
        return Rc::default();
    }
    if let Some(names) = &shard.shared.names {
        if let Some(name) = names.name(peer).await {
            return name.into();
        }
    } else if shard.shared.resolve_names {
        let name = tokio::task::spawn_blocking(move || dns_lookup::lookup_addr(&peer)).await;
        if let Ok(Ok(name)) = name {
            return name.into();
        }
    }
    peer.to_string().into()
}

/// The handlers, as a connection sees them.
pub(crate) struct Handler {
    pub(crate) shard: Rc<Shard>,
    pub(crate) wire: Rc<Wire>,
    pub(crate) client: Rc<str>,
}

/// An answer that is ready, or one to wait for. Files in memory need no future of their own.
#[allow(
    clippy::large_enum_variant,
    reason = "boxing the answer would be one more allocation for each request"
)]
pub(crate) enum Answer {
    Ready(Option<Response<ServerBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ServerBody>>>>),
}

impl Service<Request<Incoming>> for Handler {
    type Response = Response<ServerBody>;
    type Error = BodyError;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        self.begin(request)
    }
}

impl Handler {
    /// The answer to a request that is not processed as early data (RFC 8470 section 5.2).
    pub(crate) fn too_early<B>(&self, request: &Request<B>) -> Response<ServerBody> {
        let exchange = Exchange::begin(&self.shard, &self.wire, &self.client, request);
        handlers::too_early(exchange, request.method() == Method::HEAD)
    }

    /// Begins to answer.
    pub(crate) fn begin<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Unpin + 'static,
    {
        if control::is_control(request.uri().path()) {
            self.wire.tally.hide();
        }
        let exchange = Exchange::begin(&self.shard, &self.wire, &self.client, &request);
        let is_head = request.method() == Method::HEAD;
        if request.version() >= Version::HTTP_2 && !self.shard.shared.keep_alive {
            self.wire.refuse_more();
        }
        if let Some(what) = host::problem(&request) {
            self.wire.tally.add(Count::BadRequests, 1);
            return Answer::Ready(Some(handlers::refused(exchange, is_head, what)));
        }
        if (is_head || request.method() == Method::GET)
            && request.body().is_end_stream()
            && let Some(entry) = self.shard.table.find(request.uri().path())
        {
            let since = request.headers().get(IF_MODIFIED_SINCE);
            return Answer::Ready(Some(handlers::file(exchange, is_head, since, Ok(Found::Memory(entry)))));
        }
        Answer::Later(Box::pin(handlers::answer(exchange, request)))
    }
}

impl Future for Answer {
    type Output = Result<Response<ServerBody>, BodyError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Answer::Ready(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                // hyper does not poll a future that has answered.
                None => Poll::Pending,
            },
            Answer::Later(future) => future.as_mut().poll(cx).map(|mut response| {
                // An answer may be a reset of its stream; see `stream_faults`.
                response.extensions_mut().remove::<BodyError>().map_or(Ok(response), Err)
            }),
        }
    }
}
