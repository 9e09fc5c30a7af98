//! TLS as others see it: OpenSSL's client, curl, and rustls as a client in this process.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use webstone_model::server_tls::{CertificateKey, ServerTls};
use webstone_model::spec::ServerSpec;
use webstone_server::{COUNTERS_PATH, Counters, FAULT_PATH, RunningServer};
use webstone_workload::tls::TlsVersion;

use crate::peer::{PATIENCE, content_of, start};

pub(crate) fn server(change: impl FnOnce(&mut ServerTls, &mut ServerSpec)) -> RunningServer {
    let mut spec = ServerSpec { threads: 1, ..ServerSpec::default() };
    let mut tls = ServerTls::default();
    change(&mut tls, &mut spec);
    start(ServerSpec { tls: Some(tls), ..spec })
}

/// A client that trusts the server's certificate, and keeps its sessions.
pub(crate) fn client(server: &RunningServer, alpn: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let pem = server.ready().certificate.as_ref().unwrap();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A connection whose handshake is over.
pub(crate) fn connect(server: &RunningServer, config: &Arc<ClientConfig>) -> io::Result<Stream> {
    connect_to(server.url().strip_prefix("https://").unwrap(), config)
}

fn connect_to(address: &str, config: &Arc<ClientConfig>) -> io::Result<Stream> {
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// One request on a connection of its own; the answer, and how the connection ended.
fn ask(server: &RunningServer, config: &Arc<ClientConfig>, path: &str) -> (Vec<u8>, io::Result<()>, Stream) {
    let mut stream = connect(server, config).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer).map(drop);
    (answer, end, stream)
}

fn body(answer: &[u8]) -> &[u8] {
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    &answer[at + 4..]
}

fn counters(server: &RunningServer, config: &Arc<ClientConfig>) -> Counters {
    serde_json::from_slice(body(&ask(server, config, COUNTERS_PATH).0)).unwrap()
}

/// The output of a program of the system, both streams; `None` where it is not installed.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
pub(crate) fn program(words: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output() else {
        println!("skipped: {} is not installed", words[0]);
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// The server's certificate in a file.
pub(crate) fn trusted(server: &RunningServer) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(server.ready().certificate.as_ref().unwrap().as_bytes()).unwrap();
    file
}

#[test]
fn files_come_whole_and_the_end_is_said() {
    let server = server(|_, _| ());
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    let config = client(&server, &[]);
    for (path, size) in [("/small.html", 500), ("/large.bin", 3_000_000), ("/empty.txt", 0)] {
        let (answer, end, _) = ask(&server, &config, path);
        assert!(body(&answer) == content_of(path, size), "{path}");
        // Without close_notify, rustls says that the stream was cut off.
        assert!(end.is_ok(), "{end:?}");
    }
    let counters = server.counters();
    assert_eq!((counters.responses, counters.handshakes_failed), (3, 0));
    assert_eq!(counters.handshakes_full + counters.handshakes_resumed, 3);
    assert_eq!(counters.body_bytes_sent, 3_000_500);
    // A record of 16 KiB has 22 bytes of its own: there are at least 184 of them.
    assert!(counters.bytes_sent > counters.body_bytes_sent + 184 * 22, "{counters:?}");
}

#[test]
fn one_server_listens_with_and_without_tls() {
    let server = server(|tls, _| tls.listen = Some("127.0.0.1:0".into()));
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
    let secure = server.ready().secure_url.clone().unwrap();
    assert!(secure.starts_with("https://127.0.0.1:") && server.ready().addresses.len() == 2, "{secure}");
    let mut plain = TcpStream::connect(server.url().strip_prefix("http://").unwrap()).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET /small.html HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap();
    assert_eq!(body(&answer), content_of("/small.html", 500));
    let config = client(&server, &[]);
    let mut stream = connect_to(secure.strip_prefix("https://").unwrap(), &config).unwrap();
    write!(stream, "GET /small.html HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(body(&answer), content_of("/small.html", 500));
    // Neither address takes what is the other's.
    assert!(connect_to(server.url().strip_prefix("http://").unwrap(), &config).is_err());
    let mut wrong = TcpStream::connect(secure.strip_prefix("https://").unwrap()).unwrap();
    wrong.set_read_timeout(Some(PATIENCE)).unwrap();
    wrong.write_all(b"GET /small.html HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = wrong.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    let counters = server.counters();
    assert_eq!((counters.responses, counters.handshakes_full, counters.handshakes_failed), (2, 1, 1));
}

#[test]
fn a_connection_is_kept_and_counted_once() {
    let server = server(|_, _| ());
    let mut stream = connect(&server, &client(&server, &["http/1.1"])).unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    for _ in 0..5 {
        stream.write_all(b"GET /small.html HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let mut body = vec![0; 500];
        stream.read_exact(&mut body).unwrap();
        assert_eq!(body, content_of("/small.html", 500));
    }
    let counters = server.counters();
    assert_eq!((counters.handshakes_full, counters.requests, counters.accepted), (1, 5, 1));
}

/// A socket that counts what it brings.
struct Counting(TcpStream, u64);

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1 += read as u64;
        Ok(read)
    }
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn both_sides_count_the_same_bytes_whichever_ends_a_connection() {
    let server = server(|_, _| ());
    let config = client(&server, &[]);
    let mut received = 0;
    for how in ["keep-alive", "close"] {
        let socket = TcpStream::connect(server.url().strip_prefix("https://").unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut stream = StreamOwned::new(connection, Counting(socket, 0));
        write!(stream, "GET /small.html HTTP/1.1\r\nHost: t\r\nConnection: {how}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let mut some = [0; 4096];
        while !answer.ends_with(&content_of("/small.html", 500)) {
            let read = stream.read(&mut some).unwrap();
            answer.extend_from_slice(&some[..read]);
        }
        if how == "close" {
            assert_eq!(stream.read(&mut some).unwrap(), 0);
        }
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        received += stream.sock.1;
    }
    let deadline = std::time::Instant::now() + PATIENCE;
    while server.counters().open > 0 {
        assert!(std::time::Instant::now() < deadline, "the connections do not end");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(server.counters().bytes_sent, received);
}

#[test]
fn what_lets_clients_resume_is_switched() {
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for (tickets, cache, resumes) in
            [(true, false, true), (false, true, true), (true, true, true), (false, false, false)]
        {
            let server = server(|tls, _| {
                (tls.tickets, tls.session_cache) = (Some(tickets), Some(cache));
                tls.versions = vec![version];
            });
            let config = client(&server, &[]);
            let kinds: Vec<bool> = (0..4)
                .map(|_| {
                    let (answer, end, stream) = ask(&server, &config, "/small.html");
                    assert!(end.is_ok() && body(&answer).len() == 500, "{end:?}");
                    stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
                })
                .collect();
            let case = format!("{version} tickets {tickets}, cache {cache}");
            assert_eq!(kinds, [false, resumes, resumes, resumes], "{case}");
            let resumed = kinds.iter().filter(|resumed| **resumed).count() as u64;
            let counters = server.counters();
            assert_eq!(
                (counters.handshakes_full, counters.handshakes_resumed),
                (4 - resumed, resumed),
                "{case}"
            );
        }
    }
}

#[test]
fn openssl_agrees_on_versions_certificates_and_resumption() {
    for (key, kind, version, protocol) in [
        (CertificateKey::Ecdsa, "id-ecPublicKey", TlsVersion::Tls13, "TLSv1.3"),
        (CertificateKey::Rsa, "rsaEncryption", TlsVersion::Tls12, "TLSv1.2"),
    ] {
        let server = server(|tls, _| (tls.certificate, tls.versions) = (key, vec![version]));
        let (file, address) = (trusted(&server), server.url().trim_start_matches("https://").to_owned());
        let path = file.path().to_str().unwrap();
        let line = ["openssl", "s_client", "-connect", &address, "-CAfile", path, "-verify_return_error"];
        let Some(said) = program(&[&line[..], &["-servername", "localhost", "-reconnect"]].concat()) else {
            return;
        };
        assert!(said.contains(protocol), "{said}");
        assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
        // `-reconnect` resumes by what the first handshake brought; with TLS 1.3 it has not read the tickets by then.
        if version == TlsVersion::Tls12 {
            assert_eq!(said.matches("Reused, TLSv1.2").count(), 5, "{said}");
            let counters = server.counters();
            assert_eq!((counters.handshakes_full, counters.handshakes_resumed), (1, 5));
        }
        let Some(text) = program(&["openssl", "x509", "-in", path, "-noout", "-text"]) else { return };
        assert!(text.contains(kind) && text.contains("DNS:localhost, IP Address:127.0.0.1"), "{text}");
        let other = if version == TlsVersion::Tls13 { "-tls1_2" } else { "-tls1_3" };
        let said = program(&["openssl", "s_client", "-connect", &address, other]).unwrap();
        assert!(said.contains("alert protocol version"), "{said}");
        assert_eq!(server.counters().handshakes_failed, 1);
    }
}

#[test]
fn curl_verifies_the_certificate_by_name_and_by_address() {
    let server = server(|_, _| ());
    let file = trusted(&server);
    let path = file.path().to_str().unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let url = server.url().replace("127.0.0.1", host) + "/small.html";
        let Some(said) = program(&["curl", "-sS", "--ipv4", "--cacert", path, &url]) else { return };
        assert_eq!(said.as_bytes(), content_of("/small.html", 500));
    }
    let said = program(&["curl", "-sS", server.url()]).unwrap();
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn certificates_that_are_named_are_used() {
    let made = webstone_server::Certificate::make(CertificateKey::Ecdsa, &[]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = (directory.path().join("a.crt"), directory.path().join("a.key"));
    std::fs::write(&cert, &made.cert_pem).unwrap();
    std::fs::write(&key, &made.key_pem).unwrap();
    let named = |cert: &std::path::Path, key: &std::path::Path| ServerSpec {
        tls: Some(ServerTls {
            cert: Some(cert.display().to_string()),
            key: Some(key.display().to_string()),
            ..ServerTls::default()
        }),
        ..ServerSpec::default()
    };
    let server = start(named(&cert, &key));
    assert_eq!(server.ready().certificate, None);
    let url = server.url().to_owned() + "/small.html";
    if let Some(said) = program(&["curl", "-sS", "--cacert", cert.to_str().unwrap(), &url]) {
        assert_eq!(said.len(), 500, "{said}");
    }
    for (cert, key, expected) in [
        (&key, &key, "it has no certificate"),
        (&cert, &cert, "there is no private key in it"),
        (&cert, &directory.path().join("none"), "--key "),
    ] {
        let options = webstone_server::ServeOptions::new(named(cert, key));
        let error = webstone_server::Server::start(options).unwrap_err();
        assert!(error.what.contains(expected) && error.hint.is_some(), "{error}");
    }
}

#[test]
fn each_fault_of_a_handshake_is_what_its_name_says() {
    let server = server(|_, _| ());
    let config = client(&server, &[]);
    let order = |query: &str| {
        let (answer, ..) = ask(&server, &config, &format!("{FAULT_PATH}?{query}"));
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    };
    for (query, expected) in [
        ("fault=alert&alert=unknown-ca", "UnknownCA"),
        ("fault=alert&alert=handshake-failure", "HandshakeFailure"),
        ("fault=alert&alert=unrecognized-name", "UnrecognisedName"),
        ("fault=garbage", "InvalidMessage"),
        ("fault=close", "UnexpectedEof"),
        ("fault=close&after=start", "UnexpectedEof"),
        ("fault=reset", "ConnectionReset"),
        ("fault=reset&after=start", "ConnectionReset"),
    ] {
        order(query);
        let failed = format!("{:?}", connect(&server, &config).map(drop).unwrap_err());
        assert!(failed.contains(expected), "{query}: {failed}");
        // Only one connection had the fault.
        assert!(connect(&server, &config).is_ok(), "{query}");
    }
    order("fault=delay&for=150ms");
    let since = std::time::Instant::now();
    connect(&server, &config).unwrap();
    assert!(since.elapsed() >= std::time::Duration::from_millis(150));
    assert_eq!(counters(&server, &config).handshakes_failed, 8);
}

#[test]
fn a_stream_may_end_without_close_notify() {
    let server = server(|_, _| ());
    let config = client(&server, &[]);
    for (query, bytes) in [("", 1000), ("&after=300", 300)] {
        let (answer, end, _) = ask(&server, &config, &format!("/test?fault=no-close-notify{query}"));
        assert_eq!(body(&answer).len(), bytes);
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
    // The other faults end the stream in order, and spoil the answer alone.
    let (answer, end, _) = ask(&server, &config, "/test?fault=truncate");
    assert_eq!((body(&answer).len(), end.is_ok()), (500, true));
    let (answer, end, _) = ask(&server, &config, "/test?until_close=1");
    assert_eq!((body(&answer).len(), end.is_ok()), (1000, true));
    let (_, end, _) = ask(&server, &config, "/test?fault=reset&after=head");
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}
