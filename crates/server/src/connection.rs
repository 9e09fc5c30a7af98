//! One connection from its first byte to its last.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::IF_MODIFIED_SINCE;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Method, Request, Response};

use crate::body::ServerBody;
use crate::control;
use crate::counters::Count;
use crate::exchange::Exchange;
use crate::files::Found;
use crate::handlers;
use crate::host;
use crate::shard::Shard;
use crate::wire::{Stream, Wire, WireIo};

/// Most that hyper buffers of a connection: the longest request head, and the answer bytes waiting to be sent beside
/// the frame that went over this.
const BUFFER_BYTES: usize = 128 * 1024;

/// Serves a connection to its end. `peer` is `None` for Unix sockets.
pub(crate) async fn run(stream: Stream, peer: Option<IpAddr>, shard: Rc<Shard>) {
    let wire = Rc::new(Wire::new(stream, peer, Rc::clone(&shard)));
    let client = client_name(&shard, peer).await;
    let handler = Handler { shard: Rc::clone(&shard), wire: Rc::clone(&wire), client };
    let mut builder = http1::Builder::new();
    // A client that closes its half behind a request is owed the answer (RFC 9112, 9.6).
    builder.keep_alive(shard.shared.keep_alive).max_buf_size(BUFFER_BYTES).half_close(true);
    let mut connection = std::pin::pin!(builder.serve_connection(WireIo(Rc::clone(&wire)), handler));
    let result = std::future::poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        // A handler has ended it past hyper, which knows nothing of it.
        Poll::Pending if wire.has_ended() => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    })
    .await;
    if let Err(error) = result
        && error.is_parse()
    {
        wire.tally.add(Count::BadRequests, 1);
    }
    wire.linger().await;
}

/// What the access log calls the client. Looking its name up takes place before anything is served, once a connection
/// and without a cache, so that its whole cost is seen, as it was when servers did it by default.
async fn client_name(shard: &Rc<Shard>, peer: Option<IpAddr>) -> Rc<str> {
    let Some(peer) = peer else { return "unix:".into() };
    if !shard.log.is_on() {
        // Nobody reads it, and an empty name costs least.
        return Rc::default();
    }
    if shard.shared.resolve_names {
        let name = tokio::task::spawn_blocking(move || dns_lookup::lookup_addr(&peer)).await;
        if let Ok(Ok(name)) = name {
            return name.into();
        }
    }
    peer.to_string().into()
}

/// hyper's view of the handlers.
struct Handler {
    shard: Rc<Shard>,
    wire: Rc<Wire>,
    client: Rc<str>,
}

/// An answer that is there, or one that has to be waited for. Files in memory need no future of their own.
#[allow(clippy::large_enum_variant)] // boxing the answer would be one more allocation for each request
enum Answer {
    Ready(Option<Response<ServerBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ServerBody>>>>),
}

impl Service<Request<Incoming>> for Handler {
    type Response = Response<ServerBody>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        if control::is_control(request.uri().path()) {
            self.wire.tally.hide();
        }
        let exchange = Exchange::begin(&self.shard, &self.wire, &self.client, &request);
        let is_head = request.method() == Method::HEAD;
        if let Some(what) = host::problem(request.version(), request.headers()) {
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
    type Output = Result<Response<ServerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Answer::Ready(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                // hyper does not poll a future that has answered.
                None => Poll::Pending,
            },
            Answer::Later(future) => future.as_mut().poll(cx).map(Ok),
        }
    }
}
