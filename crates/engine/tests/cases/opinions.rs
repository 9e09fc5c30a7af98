//! Second opinions on TLS and HTTP/2 from programs that share no code with ours: OpenSSL's `s_server`, and Python's
//! `h2`. For Hyper and rustls see `protocols` and `tls`, for nginx and nghttpd without TLS `h2_servers`.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::h2_servers::{nginx_paths, start};
use super::peer::{errors, file, one_page, run, spec};
use super::tls_peer::{Identity, scratch};
use webstone_engine::{Control, LevelJob, Plan, TraceKind, run_level};
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerPage, PerRequest};
use webstone_workload::load::HttpVersion;
use webstone_workload::tls::{Share, TlsVersion};

/// A program that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn written(name: &str, text: &str) -> PathBuf {
    let path = scratch(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// `s_server -www` says on each page whether the session was new or reused, and what was agreed on.
#[test]
fn openssl_reports_the_same_handshakes() {
    const PAGES: u64 = 30;
    if Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: openssl is not installed");
        return;
    }
    for (version, flag) in [(TlsVersion::Tls12, "-tls1_2"), (TlsVersion::Tls13, "-tls1_3")] {
        for share in ["0%", "50%", "100%"] {
            let identity = Identity::for_name("127.0.0.1", 2090);
            let certificate = written("cert.pem", &identity.leaf_pem);
            let key = written("key.pem", &identity.key_pem);
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut child = Command::new("openssl")
                .args(["s_server", "-www", flag, "-accept", &format!("127.0.0.1:{port}"), "-cert"])
                .args([certificate.as_os_str(), "-key".as_ref(), key.as_os_str()])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let _server = Ended(child);
            // It serves one connection at a time, so the test must not connect just to see whether it is up.
            assert!(said.any(|line| line.starts_with("ACCEPT")), "s_server did not start");

            let mut spec = spec(&format!("https://127.0.0.1:{port}"), PerRequest, PAGES);
            spec.client.tls.cacert = identity.cacert();
            spec.client.tls.versions = vec![version];
            spec.client.tls.resume = share.parse::<Share>().unwrap();
            spec.generator.trace = PAGES as u32;
            let plan = Arc::new(Plan::compile(&spec, &one_page(vec![file("/", None)])).unwrap());
            let (sender, receiver) = sync_channel(100_000);
            let job = LevelJob { trace: Some(sender), ..LevelJob::new(plan, 1) };
            let outcome = run_level(&job, &Control::new()).unwrap();
            drop(job);
            assert_eq!(
                (errors(&outcome), outcome.measured.counts.succeeded),
                (vec![], PAGES),
                "{version} {share}: {:?}",
                outcome.measured.errors
            );
            let mut pages = vec![String::new(); PAGES as usize];
            for event in receiver.iter() {
                if let TraceKind::Received(bytes) = event.kind {
                    pages[event.exchange as usize - 1] += &String::from_utf8_lossy(&bytes);
                }
            }
            let count = |start: &str| -> u64 {
                let agreed = format!("{start}, TLSv{version}, Cipher is ");
                pages.iter().filter(|page| page.contains(&agreed)).count() as u64
            };
            let found = outcome.measured.handshakes.as_ref().unwrap();
            assert_eq!((found.full, found.resumed), (count("New"), count("Reused")), "{version} {share}");
            assert_eq!((found.ended(), found.failed), (PAGES, 0));
            match share {
                "0%" => assert_eq!(found.resumed, 0),
                "100%" => assert_eq!(found.full, 1),
                _ => assert!((5..=25).contains(&found.resumed), "{found:?}"),
            }
        }
    }
}

/// nginx logs for each connection whether its session was resumed (`r`) or not (`.`), and what was agreed on.
#[test]
fn nginx_logs_the_same_handshakes() {
    const PAGES: u64 = 40;
    for (http, alpn) in [(HttpVersion::Http11, "http/1.1"), (HttpVersion::Http2, "h2")] {
        for version in TlsVersion::ALL {
            for (policy, share) in
                [(PerRequest, "0%"), (PerRequest, "50%"), (PerRequest, "100%"), (KeepAlive, "0%")]
            {
                let identity = Identity::for_name("127.0.0.1", 2090);
                let served = start("nginx", |directory, port| {
                    std::fs::write(directory.join("cert.pem"), &identity.leaf_pem).unwrap();
                    std::fs::write(directory.join("key.pem"), &identity.key_pem).unwrap();
                    let at = directory.display();
                    let paths = nginx_paths(directory);
                    let configuration = format!(
                        "master_process off; daemon off; pid {at}/pid; error_log {at}/error.log; events {{}}\n\
                         http {{ {paths} map $connection_requests $is_first {{ 1 1; default 0; }}\n\
                         log_format l '$ssl_session_reused $ssl_protocol $ssl_cipher $ssl_alpn_protocol';\n\
                         access_log {at}/handshakes.log l if=$is_first;\n\
                         server {{ listen 127.0.0.1:{port} ssl http2; root {at}/www; ssl_protocols TLSv{version};\n\
                         ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem; ssl_session_tickets on; }} }}"
                    );
                    std::fs::write(directory.join("nginx.conf"), configuration).unwrap();
                    vec!["-c".to_owned(), format!("{at}/nginx.conf")]
                });
                let Some(served) = served else { return };
                let mut spec = spec(&served.url.replace("http:", "https:"), policy, PAGES);
                spec.client.http = http;
                spec.client.tls.cacert = identity.cacert();
                spec.client.tls.versions = vec![version];
                spec.client.tls.resume = share.parse::<Share>().unwrap();
                let outcome = run(&spec, &one_page(vec![file("/small", Some(100))]), 4);
                let what = format!("{http:?} {version} {policy:?} {share}");
                assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], PAGES), "{what}");
                let found = outcome.measured.handshakes.as_ref().unwrap();
                let log = served.logged("handshakes.log", found.ended());
                let count = |start: &str| log.lines().filter(|line| line.starts_with(start)).count() as u64;
                assert_eq!(
                    (found.full, found.resumed, found.failed),
                    (count(". "), count("r "), 0),
                    "{what}\n{log}"
                );
                let connections = if policy == PerRequest { PAGES } else { 4 };
                assert_eq!(
                    (found.ended(), outcome.measured.lifetime.connections),
                    (connections, connections)
                );
                match share {
                    "0%" => assert_eq!(found.resumed, 0, "{what}"),
                    // Each of four clients has a session from its first connection on, its own or another's.
                    "100%" => assert!(found.full <= 4 && found.resumed >= PAGES - 4, "{what}: {found:?}"),
                    _ => assert!(found.resumed > 5 && found.full > 5, "{what}: {found:?}"),
                }
                let cipher = match version {
                    TlsVersion::Tls12 => "ECDHE-ECDSA-AES128-GCM-SHA256",
                    TlsVersion::Tls13 => "TLS_AES_128_GCM_SHA256",
                };
                let agreed = format!(" TLSv{version} {cipher} {alpn}");
                assert!(log.lines().all(|line| line.ends_with(&agreed)), "{what}\n{log}");
                assert!(found.agreed.iter().all(|agreed| agreed.alpn.as_deref() == Some(alpn)), "{what}");
            }
        }
    }
}

/// A server of Python's `h2`: it prints its port, then a line for each request and for each ended connection.
const PYTHON: &str = r#"
import socket, sys, threading
import h2.config, h2.connection, h2.events

BODY = b"x" * int(sys.argv[1])
lock = threading.Lock()

def say(*words):
    with lock:
        print(*words, flush=True)

def serve(client):
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    connection.initiate_connection()
    client.sendall(connection.data_to_send())
    waiting, most, open_now = {}, 0, set()
    while True:
        data = client.recv(65536)
        if not data:
            break
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                open_now.add(event.stream_id)
                most = max(most, len(open_now))
                fields = dict(event.headers)
                say("request", fields[":method"], fields[":path"])
            if isinstance(event, h2.events.StreamEnded):
                connection.send_headers(event.stream_id, [(":status", "200"), ("content-length", str(len(BODY)))])
                waiting[event.stream_id] = BODY
        for stream in list(waiting):
            while waiting[stream]:
                room = min(connection.local_flow_control_window(stream), connection.max_outbound_frame_size)
                if room == 0:
                    break
                connection.send_data(stream, waiting[stream][:room])
                waiting[stream] = waiting[stream][room:]
            if not waiting[stream]:
                connection.end_stream(stream)
                del waiting[stream]
                open_now.discard(stream)
        client.sendall(connection.data_to_send())
    say("connection", most)

listener = socket.create_server(("127.0.0.1", 0), backlog=100)
say("port", listener.getsockname()[1])
while True:
    client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"#;

#[test]
fn pythons_h2_sees_the_same_requests() {
    const PAGES: u64 = 60;
    // The user's own Python may not find modules installed by the system's packages.
    let python = ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let import = Command::new(python).args(["-c", "import h2.connection"]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    });
    let Some(python) = python else {
        println!("skipped: no Python with h2 (Debian: python3-h2)");
        return;
    };
    for (policy, per_connection, parallel, connections, size) in [
        (PerRequest, 1, 1, 2 * PAGES, 300),
        (PerPage, 1, 2, PAGES, 300),
        (KeepAlive, 1, 1, 8, 300),
        (KeepAlive, 4, 1, 2, 300),
        // More than a stream's initial window, and more than a frame.
        (KeepAlive, 4, 1, 2, 150_000),
    ] {
        let mut child = Command::new(python)
            .args(["-c", PYTHON, &format!("{size}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let server = Ended(child);
        let port = said.next().unwrap().strip_prefix("port ").unwrap().to_owned();
        let mut spec = spec(&format!("http://127.0.0.1:{port}"), policy, PAGES);
        spec.client.http = HttpVersion::Http2;
        spec.client.clients_per_connection = per_connection;
        spec.client.parallel = parallel;
        let workload = one_page(vec![file("/one", Some(size)), file("/two", Some(size))]);
        let outcome = run(&spec, &workload, 8);
        let what = format!("{policy:?} {per_connection} {size}");
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 2 * PAGES), "{what}");
        // It notices the ends of the last connections a little later.
        let (mut lines, mut ended) = (Vec::new(), 0);
        while ended < connections
            && let Some(line) = said.next()
        {
            ended += u64::from(line.starts_with("connection "));
            lines.push(line);
        }
        drop(server);
        lines.extend(said);
        let said: Vec<String> = lines;
        let count = |line: &str| said.iter().filter(|said| *said == line).count() as u64;
        assert_eq!((count("request GET /one"), count("request GET /two")), (PAGES, PAGES), "{what}");
        let most: Vec<u64> =
            said.iter().filter_map(|line| line.strip_prefix("connection ")?.parse().ok()).collect();
        let found = outcome.measured.http2.unwrap();
        assert_eq!(
            (most.len() as u64, outcome.measured.lifetime.connections),
            (connections, connections),
            "{what}"
        );
        assert_eq!((found.streams, found.refused, found.reset), (2 * PAGES, 0, 0), "{what}");
        // We count a stream until its answer has arrived, the server until it was sent.
        assert!(most.iter().max() <= Some(&found.concurrent_max), "{what}: {most:?} {found:?}");
    }
}
