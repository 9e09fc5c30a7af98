//! The front's sockets: HTTP/1.1 on the loopback address, by hyper.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::answer::{self, Answer, Failed};
use crate::routes::{self, Front};

/// Connections at a time: some tabs, each with a stream and a few requests.
const CONNECTIONS_MAX: usize = 64;
/// Largest body of a request, in bytes: a testbed file with a body of some megabytes in it.
const BODY_BYTES_MAX: u64 = 8 << 20;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until the process ends.
///
/// # Errors
/// If the listening socket fails.
pub(crate) async fn serve(listener: TcpListener, front: Arc<Front>) -> io::Result<()> {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&free).acquire_owned().await.map_err(io::Error::other)?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // One that was gone again, or no descriptor for now.
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let front = Arc::clone(&front);
        tokio::spawn(async move {
            connection(stream, front).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, front: Arc<Front>) {
    // Events have to be seen when they happen; that they are not, is no reason to serve nothing.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let front = Arc::clone(&front);
        async move { Ok::<Answer, std::convert::Infallible>(answered(request, front).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn answered(request: Request<Incoming>, front: Arc<Front>) -> Answer {
    let (head, body) = request.into_parts();
    let door = routes::door(head.uri.path());
    if let Err(refusal) = front.guard().admit(door, &head.method, &head.uri, &head.headers) {
        return answer::failure(refusal.status(), &refusal.to_string(), None);
    }
    match whole(body).await {
        Ok(body) => routes::answer(&front, &head.uri, body).await,
        Err(failed) => failed.into(),
    }
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
