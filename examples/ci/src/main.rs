//! A server that greets. Its port is the first argument.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// How often it hashes the path for each request: work that a change can add to.
const ROUNDS: u32 = 1;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: hello PORT")?.parse()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let greet = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(greet));
        tokio::spawn(greet);
    }
}

async fn greet(request: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut hasher = DefaultHasher::new();
    for round in 0..ROUNDS {
        (round, request.uri().path()).hash(&mut hasher);
    }
    std::hint::black_box(hasher.finish());
    Ok(Response::new(Full::new(Bytes::from_static(b"hello\n"))))
}
