//! HTTP/2 as others see it: curl, nghttp, h2load, and the `h2` crate's client.

use std::time::{Duration, Instant};

use h2::client::SendRequest;
use h2::{Error, Reason};
use hyper::{Request, Response};
use tokio::net::TcpStream;
use webstone_model::server_tls::ServerTls;
use webstone_model::spec::ServerSpec;
use webstone_server::{FAULT_PATH, RunningServer};

use crate::peer::{Peer, content_of, start};
use crate::tls::{client, connect, program, trusted};

fn in_clear() -> RunningServer {
    start(ServerSpec { threads: 1, http2: true, ..ServerSpec::default() })
}

fn over_tls() -> RunningServer {
    let tls = Some(ServerTls::default());
    start(ServerSpec { threads: 1, http2: true, tls, ..ServerSpec::default() })
}

/// One connection without TLS, driven by a task of its own; how it ended.
type Driven = tokio::task::JoinHandle<Result<(), Error>>;

async fn dial(server: &RunningServer) -> (SendRequest<bytes::Bytes>, Driven) {
    let socket = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    (client, tokio::spawn(connection))
}

async fn ask(client: &mut SendRequest<bytes::Bytes>, path: &str) -> Result<(u16, Vec<u8>), Error> {
    let request = Request::get(format!("http://localhost{path}")).body(()).unwrap();
    std::future::poll_fn(|cx| client.poll_ready(cx)).await?;
    let (response, _) = client.send_request(request, true)?;
    let response: Response<h2::RecvStream> = response.await?;
    let (parts, mut stream) = response.into_parts();
    let mut body = Vec::new();
    while let Some(some) = stream.data().await {
        let some = some?;
        stream.flow_control().release_capacity(some.len())?;
        body.extend_from_slice(&some);
    }
    Ok((parts.status.as_u16(), body))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn both_versions_are_spoken_at_one_address() {
    let server = in_clear();
    let answer = Peer::connect(&server).get("/small.html");
    assert_eq!((answer.version.as_str(), answer.body), ("HTTP/1.1", content_of("/small.html", 500)));
    // It begins as the preface does, and then differs.
    let mut other = Peer::connect(&server);
    other.send("P");
    other.send("OST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(other.answer(false).body, b"ab");
    runtime().block_on(async {
        let (mut client, _) = dial(&server).await;
        for (path, size) in [("/small.html", 500), ("/large.bin", 3_000_000), ("/empty.txt", 0)] {
            let (status, body) = ask(&mut client, path).await.unwrap();
            assert!(status == 200 && body == content_of(path, size), "{path}");
        }
        assert_eq!(ask(&mut client, "/none").await.unwrap().0, 404);
        let (_, sent) = ask(&mut client, "/send?size=100000&writes=4").await.unwrap();
        assert_eq!(sent.len(), 100_000);
    });
    let counters = server.counters();
    assert_eq!((counters.http2_connections, counters.requests, counters.responses), (1, 7, 7));
}

#[test]
fn without_it_the_preface_is_no_request() {
    let server = start(ServerSpec { threads: 1, ..ServerSpec::default() });
    let mut peer = Peer::connect(&server);
    peer.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(peer.is_closed(), "it is told nothing that it could misread");
    let tls = start(ServerSpec { threads: 1, tls: Some(ServerTls::default()), ..ServerSpec::default() });
    let stream = connect(&tls, &client(&tls, &["h2", "http/1.1"])).unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[test]
fn curl_and_nghttp_agree_on_it_over_tls() {
    let server = over_tls();
    let stream = connect(&server, &client(&server, &["h2", "http/1.1"])).unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
    let file = trusted(&server);
    let (path, url) = (file.path().to_str().unwrap(), server.url().to_owned() + "/small.html");
    let format = "\n%{http_version} %{http_code} %{size_download}";
    for (flag, expected) in [("--http2", "\n2 200 500"), ("--http1.1", "\n1.1 200 500")] {
        let Some(said) = program(&["curl", "-sS", "--cacert", path, flag, "-w", format, &url]) else {
            return;
        };
        assert!(said.ends_with(expected), "{said}");
    }
    let Some(said) = program(&["nghttp", "-ns", &url]) else { return };
    assert!(said.contains("200") && said.contains("/small.html"), "{said}");
}

#[test]
fn h2load_and_the_server_count_the_same() {
    for server in [in_clear(), over_tls()] {
        let url = server.url().to_owned() + "/small.html";
        let Some(said) = program(&["h2load", "-n", "2000", "-c", "4", "-m", "25", &url]) else { return };
        assert!(said.contains("2000 succeeded, 0 failed, 0 errored"), "{said}");
        let counters = server.counters();
        assert_eq!((counters.requests, counters.responses, counters.http2_connections), (2000, 2000, 4));
        assert_eq!(counters.body_bytes_sent, 1_000_000);
    }
}

#[test]
fn without_keep_alive_a_connection_is_wanted_for_one_request() {
    let server = start(ServerSpec { threads: 1, http2: true, keep_alive: false, ..ServerSpec::default() });
    runtime().block_on(async {
        let (mut client, driven) = dial(&server).await;
        assert_eq!(ask(&mut client, "/small.html").await.unwrap().1.len(), 500);
        drop(client);
        assert!(driven.await.unwrap().is_ok(), "GOAWAY without an error");
    });
}

#[test]
fn streams_are_reset_by_their_reason() {
    let server = in_clear();
    runtime().block_on(async {
        let (mut client, _) = dial(&server).await;
        for (query, reason) in [
            ("fault=reset-stream", Reason::INTERNAL_ERROR),
            ("fault=reset-stream&code=enhance-your-calm", Reason::ENHANCE_YOUR_CALM),
            ("fault=reset-stream&code=cancel&after=300", Reason::CANCEL),
            ("fault=refused-stream", Reason::REFUSED_STREAM),
            ("fault=reset-stream&code=4711", Reason::from(4711)),
        ] {
            let error = ask(&mut client, &format!("/test?{query}")).await.unwrap_err();
            assert!(error.is_reset() && error.reason() == Some(reason), "{query}: {error:?}");
        }
        // The connection continues.
        assert_eq!(ask(&mut client, "/test?size=7").await.unwrap().1.len(), 7);
        for query in ["fault=bad-chunk", "fault=extra", "until_close=1", "fault=reset-stream&code=oops"] {
            assert_eq!(ask(&mut client, &format!("/test?{query}")).await.unwrap().0, 400, "{query}");
        }
    });
    let counters = server.counters();
    assert_eq!((counters.faults, counters.responses, counters.aborted), (5, 5, 0));
    assert_eq!(Peer::connect(&server).get("/test?fault=goaway").status, 400);
}

#[test]
fn connections_end_by_goaway_or_worse() {
    let server = in_clear();
    runtime().block_on(async {
        let (mut client, driven) = dial(&server).await;
        assert_eq!(ask(&mut client, "/test?fault=goaway&size=3").await.unwrap().1.len(), 3);
        drop(client);
        assert!(driven.await.unwrap().is_ok());
        let (mut client, _) = dial(&server).await;
        let error = ask(&mut client, "/test?fault=goaway&code=enhance-your-calm").await.unwrap_err();
        assert!(error.is_go_away() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM), "{error:?}");
        let (mut client, _) = dial(&server).await;
        let error = ask(&mut client, "/test?fault=garbage").await.unwrap_err();
        assert!(error.reason() == Some(Reason::FRAME_SIZE_ERROR), "{error:?}");
        for query in ["fault=close", "fault=close&after=100", "fault=reset", "fault=reset&after=100"] {
            let (mut client, _) = dial(&server).await;
            let error = ask(&mut client, &format!("/test?{query}")).await.unwrap_err();
            assert!(error.is_io(), "{query}: {error:?}");
        }
        let (mut client, _) = dial(&server).await;
        let stalled = ask(&mut client, "/test?fault=stall&after=100");
        assert!(tokio::time::timeout(Duration::from_millis(150), stalled).await.is_err());
        // Every third stream, and no other.
        let (mut client, _) = dial(&server).await;
        for number in 1..=6 {
            let answer = ask(&mut client, "/test?fault=refused-stream&every=3").await;
            assert_eq!(answer.is_err(), number % 3 == 0, "{number}: {answer:?}");
        }
    });
}

#[test]
fn settings_may_be_late() {
    let server = in_clear();
    runtime().block_on(async {
        let (mut client, _) = dial(&server).await;
        let order = format!("{FAULT_PATH}?fault=late-settings&for=150ms");
        assert_eq!(ask(&mut client, &order).await.unwrap().0, 200);
        let since = Instant::now();
        let (mut late, _) = dial(&server).await;
        assert_eq!(ask(&mut late, "/small.html").await.unwrap().0, 200);
        assert!(since.elapsed() >= Duration::from_millis(150));
    });
}
