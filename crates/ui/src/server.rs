//! The front's sockets: HTTP/1.1 on the loopback address, by hyper.
//!
//! Every user of the host can connect. So a client without a token costs little (a head of 16 kB, no body), and holds a place only
//! as long as nobody else wants it: [`Places`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use webstone_lab::sock_diag;

use crate::answer::{self, Answer, Failed};
use crate::guard::Door;
use crate::places::Places;
use crate::routes::{self, Front};

/// Connections at a time: some tabs, each with a stream and a few requests.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection without a token keeps its place from other connections of the same user.
const GRACE: Duration = Duration::from_secs(1);
/// Connections that wait to be accepted.
const QUEUE_MAX: i32 = 4096;
/// Largest body of a request, in bytes: a testbed file with a body of some megabytes in it.
const BODY_BYTES_MAX: u64 = 8 << 20;
/// Largest head, in bytes. More of a body is not read ahead either.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to send the body, which only those with the token may.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves until the process ends.
///
/// # Errors
/// If the listening socket fails.
pub(crate) async fn serve(listener: TcpListener, front: Arc<Front>) -> io::Result<()> {
    // One client could fill the queue of the standard library, 128 connections, and block all others.
    rustix::net::listen(&listener, QUEUE_MAX)?;
    let places = Arc::new(Places::new(CONNECTIONS_MAX, GRACE));
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The connection was gone again, or too many files are open for now.
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let user = stream.local_addr().and_then(|here| sock_diag::owner(client, here)).ok().flatten();
        let (front, places) = (Arc::clone(&front), Arc::clone(&places));
        tokio::spawn(async move {
            if !places.wait(user).await {
                return tracing::debug!(?user, "a connection was refused: its user has too many");
            }
            let has_token = Arc::new(AtomicBool::new(false));
            let task = tokio::spawn(connection(stream, front, Arc::clone(&has_token)));
            places.take(user, has_token, task.abort_handle());
        });
    }
}

async fn connection(stream: TcpStream, front: Arc<Front>, has_token: Arc<AtomicBool>) {
    // Events should be seen when they happen, but the front serves without this, too.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let (front, has_token) = (Arc::clone(&front), Arc::clone(&has_token));
        async move { Ok::<Answer, std::convert::Infallible>(answered(request, front, &has_token).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn answered(request: Request<Incoming>, front: Arc<Front>, has_token: &AtomicBool) -> Answer {
    let (head, body) = request.into_parts();
    let door = routes::door(head.uri.path());
    if let Err(refusal) = front.guard().admit(door, &head.method, &head.uri, &head.headers) {
        return unread(answer::failure(refusal.status(), &refusal.to_string(), None), &body);
    }
    if matches!(door, Door::Read | Door::Post) {
        has_token.store(true, Relaxed);
    }
    if door != Door::Post {
        if !body.is_end_stream() {
            let what = "a request for this address has no body";
            return unread(answer::failure(StatusCode::BAD_REQUEST, what, None), &body);
        }
        let answer = routes::answer(&front, &head.uri, Vec::new()).await;
        // The address of a report is a token of its own.
        has_token.fetch_or(door == Door::Once && answer.status() == StatusCode::OK, Relaxed);
        return answer;
    }
    let too_slow = || {
        let what = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        Err(Failed::new(StatusCode::REQUEST_TIMEOUT, &what, None))
    };
    match tokio::time::timeout(BODY_TIMEOUT, whole(body)).await.unwrap_or_else(|_| too_slow()) {
        Ok(body) => routes::answer(&front, &head.uri, body).await,
        Err(failed) => ended(failed.into()),
    }
}

/// An answer to a request whose body, if it has one, nobody reads.
fn unread(answer: Answer, body: &Incoming) -> Answer {
    if body.is_end_stream() { answer } else { ended(answer) }
}

/// The last answer of a connection.
fn ended(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// A body, read to its end.
async fn whole(mut body: Incoming) -> Result<Vec<u8>, Failed> {
    let too_large = || {
        let message = format!("the body is larger than {} MiB", BODY_BYTES_MAX >> 20);
        Failed::new(StatusCode::PAYLOAD_TOO_LARGE, &message, None)
    };
    if body.size_hint().lower() > BODY_BYTES_MAX {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| Failed::new(StatusCode::BAD_REQUEST, &error.to_string(), None))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > BODY_BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(bytes)
}
