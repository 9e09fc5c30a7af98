//! HTTP/3 as others see it: the `h3` crate on quinn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use h3_quinn::OpenStreams;
use hyper::{Request, Response};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::ClientConfig;
use webstone_model::server_tls::ServerTls;
use webstone_model::spec::ServerSpec;
use webstone_server::{COUNTERS_PATH, Counters, FAULT_PATH, RunningServer, ServeOptions, Server};
use webstone_workload::tls::TlsVersion;

use crate::peer::content_of;
use crate::tls::{client, connect, server};

fn over_quic() -> RunningServer {
    server(|_, spec| (spec.http2, spec.http3) = (true, true))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// What a client needs for connections to a server.
struct Client {
    endpoint: quinn::Endpoint,
    config: quinn::ClientConfig,
    address: std::net::SocketAddr,
}

type Requests = h3::client::SendRequest<OpenStreams, Bytes>;

impl Client {
    fn new(server: &RunningServer) -> Client {
        let mut config = ClientConfig::clone(&client(server, &["h3"]));
        config.enable_early_data = true;
        let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
        let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        Client { endpoint, config, address: server.url().strip_prefix("https://").unwrap().parse().unwrap() }
    }

    fn connecting(&self) -> quinn::Connecting {
        self.endpoint.connect_with(self.config.clone(), self.address, "localhost").unwrap()
    }

    async fn dial(&self) -> (Requests, quinn::Connection) {
        over(self.connecting().await.unwrap()).await
    }
}

async fn over(connection: quinn::Connection) -> (Requests, quinn::Connection) {
    let (mut driver, requests) =
        h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
    tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    (requests, connection)
}

async fn ask(requests: &mut Requests, path: &str) -> Result<(Response<()>, Vec<u8>), h3::error::StreamError> {
    send(requests, "GET", path, None).await
}

async fn send(
    requests: &mut Requests,
    method: &str,
    path: &str,
    content: Option<&[u8]>,
) -> Result<(Response<()>, Vec<u8>), h3::error::StreamError> {
    let request = Request::builder().method(method).uri(format!("https://localhost{path}")).body(()).unwrap();
    let mut stream = requests.send_request(request).await?;
    if let Some(content) = content {
        stream.send_data(Bytes::copy_from_slice(content)).await?;
    }
    stream.finish().await?;
    let response = stream.recv_response().await?;
    let mut body = Vec::new();
    while let Some(mut some) = stream.recv_data().await? {
        body.extend_from_slice(&some.copy_to_bytes(some.remaining()));
    }
    Ok((response, body))
}

async fn counters(client: &Client) -> Counters {
    let (mut requests, _connection) = client.dial().await;
    serde_json::from_slice(&ask(&mut requests, COUNTERS_PATH).await.unwrap().1).unwrap()
}

#[test]
fn it_serves_what_the_other_versions_serve() {
    let server = over_quic();
    runtime().block_on(async {
        let client = Client::new(&server);
        let (mut requests, _connection) = client.dial().await;
        let (response, body) = ask(&mut requests, "/small.html").await.unwrap();
        assert_eq!((response.status().as_u16(), body), (200, content_of("/small.html", 500)));
        assert_eq!(response.headers()["content-length"], "500");
        assert!(response.headers().contains_key("date") && !response.headers().contains_key("alt-svc"));
        let (response, body) = send(&mut requests, "HEAD", "/small.html", None).await.unwrap();
        assert_eq!((response.headers()["content-length"].to_str().unwrap(), body.len()), ("500", 0));
        let sent: Vec<u8> = (0..300_000_u32).map(|index| index as u8).collect();
        let (_, body) = send(&mut requests, "POST", "/echo", Some(&sent)).await.unwrap();
        assert!(body == sent, "{} bytes came back", body.len());
        let (response, body) = ask(&mut requests, "/send?size=5000000&fill=pattern").await.unwrap();
        assert_eq!((response.status().as_u16(), body.len()), (200, 5_000_000));
        assert_eq!(ask(&mut requests, "/none").await.unwrap().0.status(), 404);
        let begin = Instant::now();
        let (_, body) = ask(&mut requests, "/test?size=4&drip=20ms&delay=20ms").await.unwrap();
        assert_eq!(body.len(), 4);
        assert!(begin.elapsed() >= Duration::from_millis(80), "{:?}", begin.elapsed());
        let (response, _) = ask(&mut requests, "/test?header=20k").await.unwrap();
        assert_eq!(response.headers()["x-filler"].len(), 20_000);
    });
}

#[test]
fn answers_over_tls_name_it() {
    let server = over_quic();
    let port = server.url().rsplit_once(':').unwrap().1;
    use std::io::{Read as _, Write as _};
    let mut stream = connect(&server, &client(&server, &["http/1.1"])).unwrap();
    write!(stream, "GET /small.html HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(&format!("alt-svc: h3=\":{port}\"\r\n")), "{answer}");
}

#[test]
fn faults_end_streams_and_connections_by_code() {
    let server = over_quic();
    runtime().block_on(async {
        let client = Client::new(&server);
        let (mut requests, _connection) = client.dial().await;
        for (query, expected) in [
            ("fault=refused-stream", "H3_REQUEST_REJECTED"),
            ("fault=reset-stream&code=excessive-load&after=100", "H3_EXCESSIVE_LOAD"),
            ("fault=reset-stream&code=4711", "0x1267"),
            ("fault=end-stream&after=100", "H3_MESSAGE_ERROR|bytes"),
        ] {
            let answer = ask(&mut requests, &format!("/test?size=1000&{query}")).await;
            let found = match answer {
                Ok((_, body)) => format!("{} bytes", body.len()),
                Err(error) => format!("{error:?} {error}"),
            };
            assert!(expected.split('|').any(|expected| found.contains(expected)), "{query}: {found}");
        }
        // The streams failed, not the connection.
        let (_, body) = ask(&mut requests, "/test?size=1000&fault=split-head&for=20ms").await.unwrap();
        assert_eq!(body.len(), 1000);
        let (_, body) = ask(&mut requests, "/test?size=1000&fault=goaway").await.unwrap();
        assert_eq!(body.len(), 1000);
        for (query, code) in [
            ("fault=close&after=100", 0x100),
            ("fault=reset", 0x102),
            ("fault=goaway&code=settings-error", 0x109),
        ] {
            let (mut requests, connection) = client.dial().await;
            ask(&mut requests, &format!("/test?size=1000&{query}")).await.unwrap_err();
            match connection.closed().await {
                quinn::ConnectionError::ApplicationClosed(close) => {
                    assert_eq!(close.error_code.into_inner(), code, "{query}");
                }
                other => panic!("{query}: {other}"),
            }
        }
        for query in ["fault=garbage", "fault=extra"] {
            let (mut requests, _connection) = client.dial().await;
            let answer = ask(&mut requests, &format!("/test?size=1000&{query}")).await;
            assert!(!matches!(&answer, Ok((_, body)) if body.len() == 1000), "{query}");
        }
    });
}

#[test]
fn connections_handshakes_and_early_data_are_counted() {
    let server = over_quic();
    runtime().block_on(async {
        let client = Client::new(&server);
        let (mut requests, connection) = client.dial().await;
        for _ in 0..3 {
            ask(&mut requests, "/small.html").await.unwrap();
        }
        connection.close(0x100_u32.into(), b"");
        // Tickets have come with the answers.
        let early = |reject: bool| {
            let client = &client;
            async move {
                if reject {
                    let (mut requests, _connection) = client.dial().await;
                    ask(&mut requests, &format!("{FAULT_PATH}?fault=reject-early-data")).await.unwrap();
                }
                let (connection, accepted) =
                    client.connecting().into_0rtt().map_err(|_| "no ticket").unwrap();
                let (mut requests, connection) = over(connection).await;
                let answer = ask(&mut requests, "/small.html").await;
                (accepted.await, answer.is_ok(), connection)
            }
        };
        let (accepted, is_answered, connection) = early(false).await;
        assert!(accepted && is_answered);
        connection.close(0x100_u32.into(), b"");
        let (accepted, _, connection) = early(true).await;
        assert!(!accepted);
        connection.close(0x100_u32.into(), b"");
        let mut found = counters(&client).await;
        let deadline = Instant::now() + Duration::from_secs(20);
        while found.open > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
            found = counters(&client).await;
        }
        assert_eq!((found.accepted, found.http3_connections), (3, 3), "{found:?}");
        assert_eq!(
            (found.handshakes_full, found.handshakes_resumed, found.early_requests),
            (1, 2, 1),
            "{found:?}"
        );
        assert!((4..=5).contains(&found.streams) && found.responses >= 4, "{found:?}");
        assert!(found.datagrams_received > 0 && found.bytes_sent > 4 * 500, "{found:?}");
    });
}

#[test]
fn requests_that_are_too_early_may_be_sent_again() {
    let server = over_quic();
    runtime().block_on(async {
        let client = Client::new(&server);
        let (mut requests, _connection) = client.dial().await;
        ask(&mut requests, &format!("{FAULT_PATH}?fault=too-early")).await.unwrap();
        let (connection, accepted) = client.connecting().into_0rtt().map_err(|_| "no ticket").unwrap();
        let (mut requests, _connection) = over(connection).await;
        assert_eq!(ask(&mut requests, "/small.html").await.unwrap().0.status(), 425);
        assert!(accepted.await);
        assert_eq!(ask(&mut requests, "/small.html").await.unwrap().1.len(), 500);
    });
}

#[test]
fn faults_before_the_first_request_are_played() {
    let server = over_quic();
    runtime().block_on(async {
        let client = Client::new(&server);
        let order = async |fault: &str| {
            let (mut requests, _connection) = client.dial().await;
            ask(&mut requests, &format!("{FAULT_PATH}?fault={fault}")).await.unwrap();
        };
        order("retry").await;
        let (mut requests, _connection) = client.dial().await;
        assert_eq!(ask(&mut requests, "/small.html").await.unwrap().1.len(), 500);
        order("close").await;
        let refused = client.connecting().await.unwrap_err();
        assert!(matches!(&refused, quinn::ConnectionError::ConnectionClosed(_)), "{refused}");
        order("alert&alert=no-application-protocol").await;
        let refused = client.connecting().await.unwrap_err();
        assert!(refused.to_string().contains("120") || format!("{refused:?}").contains("120"), "{refused:?}");
        order("delay&for=100ms").await;
        let begin = Instant::now();
        client.dial().await;
        assert!(begin.elapsed() >= Duration::from_millis(100));
    });
}

#[test]
fn without_tls_1_3_it_is_refused() {
    let refused = |tls: Option<ServerTls>| {
        let spec = ServerSpec { http3: true, tls, ..ServerSpec::default() };
        Server::start(ServeOptions::new(spec)).unwrap_err().what
    };
    assert!(refused(None).starts_with("--http 3: HTTP/3 is always encrypted"));
    let old = ServerTls { versions: vec![TlsVersion::Tls12], ..ServerTls::default() };
    assert!(refused(Some(old)).starts_with("--http 3: HTTP/3 needs TLS 1.3"));
}
