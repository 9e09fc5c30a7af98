//! The check before the load: what it asks, how long it waits, and what it says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::program::{Server, command, webstone_in};

/// A server of one thread per connection that keeps what it was asked.
struct Asked {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Asked {
    /// Reads bodies as Content-Length says, and has `answer` write what follows.
    fn start(answer: fn(&mut TcpStream)) -> Asked {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, kept) = (stream.unwrap(), kept.clone());
                std::thread::spawn(move || {
                    while let Some(request) = request(&mut stream) {
                        kept.lock().unwrap().push(request);
                        answer(&mut stream);
                    }
                });
            }
        });
        Asked { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// The next request with its body.
fn request(stream: &mut TcpStream) -> Option<String> {
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.ends_with("\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        text.push(byte[0].into());
    }
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(text + &String::from_utf8(body).unwrap())
}

fn ok(stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
}

const ONE: [&str; 6] = ["-n", "1", "-c", "1", "-q", "--warmup=0s"];

#[test]
fn the_check_asks_what_the_clients_ask() {
    let dir = tempfile::tempdir().unwrap();
    let server = Asked::start(ok);
    let body = [
        "-m",
        "PUT",
        "--body",
        "abcdef",
        "-H",
        "Content-Length: 6",
        "-H",
        "Cookie: a=1",
        "-H",
        "Cookie: b=2",
    ];
    let said = webstone_in(dir.path(), &[&["hit", &server.url], &body[..], &ONE].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "one by the check, one by the load");
    assert_eq!(requests[0], requests[1]);
    assert!(requests[0].starts_with("PUT /x HTTP/1.1\r\n"), "{}", requests[0]);
    let fields = "\r\nContent-Length: 6\r\nCookie: a=1\r\nCookie: b=2\r\n\r\nabcdef";
    assert!(requests[0].ends_with(fields), "{}", requests[0]);
}

#[test]
fn the_check_connects_where_and_how_the_clients_do() {
    let dir = tempfile::tempdir().unwrap();
    let server = Asked::start(ok);
    let address = server.url.trim_start_matches("http://").trim_end_matches("/x");
    let lead = format!("named.invalid:80:{address}");
    let line = ["hit", "http://named.invalid/x", "--connect-to", &lead, "--proxy-protocol", "v1"];
    let said = webstone_in(dir.path(), &[&line[..], &["--body", "abc"], &ONE].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "one by the check, one by the load");
    let parts = requests.iter().map(|request| request.split_once("\r\n").unwrap());
    let (headers, requests): (Vec<_>, Vec<_>) = parts.unzip();
    assert!(headers.iter().all(|it| it.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 ")), "{headers:?}");
    assert_eq!(requests[0], requests[1]);
    assert!(requests[0].starts_with("POST /x HTTP/1.1\r\nHost: named.invalid\r\n"), "{}", requests[0]);
}

#[test]
fn a_head_request_is_checked_by_head_and_a_large_body_by_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    // More than anybody reads.
    let server = Asked::start(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n");
    });
    let said = webstone_in(dir.path(), &[&["hit", &server.url, "-m", "HEAD"], &ONE[..]].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    assert!(
        server.requests().iter().all(|request| request.starts_with("HEAD /x ")),
        "{:?}",
        server.requests()
    );
    let server = Asked::start(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 80000000\r\n\r\n");
        for _ in 0..800 {
            let _ = stream.write_all(&[b'x'; 100_000]);
        }
    });
    let said = webstone_in(dir.path(), &[&["hit", &server.url, "--format", "json"], &ONE[..]].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["iterations"][0]["measured"]["counts"]["succeeded"], 1);
}

#[test]
fn an_event_stream_passes_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let server = Asked::start(|stream| {
        let mut wrote = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        while wrote.is_ok() {
            std::thread::sleep(Duration::from_millis(50));
            wrote = stream.write_all(b"data: 1\n\n");
        }
    });
    let run = ["hit", &server.url, "--format", "json", "-d", "1s", "-c", "1", "-q", "--warmup=0s"];
    let said = webstone_in(dir.path(), &run);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("was not finished 2s after its head"), "{warnings}");
}

#[test]
fn a_server_that_says_nothing_is_named_while_it_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    // The kernel accepts for it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x?token=hunter2", silent.local_addr().unwrap());
    let shown = url.replace("hunter2", "[redacted]");
    let output = command(dir.path(), &["hit", &url, "--first-byte-timeout", "4s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        format!(
            "checking {shown} …\n\
             error: GET {url}: not a byte of an answer came within 4s\n\
             hint: the port is open, but nothing answers: is it an HTTP server, and is it healthy? --first-byte-timeout and \
             --timeout allow more time\n"
        )
    );
    let slow = Asked::start(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        std::thread::sleep(Duration::from_secs(60));
    });
    let said = webstone_in(dir.path(), &["hit", &slow.url, "--timeout", "5s"]);
    let told = format!("error: GET {}: the answer was not finished within 5s: 20 bytes came\n", slow.url);
    assert!(
        said.err.contains(&told) && said.err.ends_with("hint: allow more time with --timeout\n"),
        "{}",
        said.err
    );
}

#[test]
fn a_request_that_contradicts_its_body_is_never_sent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Asked::start(ok);
    let url = &*server.url;
    let remove = "hint: remove it: the length of the body is sent without it\n";
    for (arguments, told) in [
        (
            &["--body", "abcdef", "-H", "Content-Length: 3"][..],
            format!("error: --header (client.headers): `Content-Length: 3`, but the body has 6 bytes\n{remove}"),
        ),
        (
            &["-H", "Content-Length: 3"],
            format!("error: {url}: `Content-Length: 3`, but the request has no body\n{remove}"),
        ),
        (
            &["--body", "a", "-H", "Transfer-Encoding: gzip"],
            "error: --header (client.headers): `Transfer-Encoding: gzip`, but the only coding that can be sent is `chunked`\n\
             hint: write chunked, or remove it\n"
                .to_owned(),
        ),
        (
            &["-H", "Host: a", "-H", "host: b"],
            "error: --header (client.headers): `Host` is given twice, but a request has one\nhint: give it once\n".to_owned(),
        ),
    ] {
        let said = webstone_in(dir.path(), &[&["hit", url], arguments].concat());
        assert_eq!((said.code, said.err), (2, told));
    }
    let file = format!(
        "name = \"t\"\ntarget = [\"{url}\"]\n[client]\nbody = \"abc\"\n[client.headers]\nContent-Length = \"4\"\n",
        url = url.trim_end_matches("/x")
    );
    std::fs::write(dir.path().join("t.toml"), file).unwrap();
    let said = webstone_in(dir.path(), &["run", "-f", "t.toml"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("testbed file t.toml, line 5: --header (client.headers): `Content-Length: 4`"),
        "{}",
        said.err
    );
    let pages = "[[pages]]\nurl = \"/a\"\n[[pages]]\nurl = \"/b\"\nbody = \"abc\"\nmethod = \"POST\"\nheaders = { Content-Length = \"4\" }\n";
    std::fs::write(dir.path().join("w.toml"), pages).unwrap();
    for check in ["--no-check", "--no-store"] {
        let said = webstone_in(dir.path(), &["run", url.trim_end_matches("/x"), "-w", "w.toml", check]);
        assert_eq!(said.code, 2);
        let told = "page 1: /b: `Content-Length: 4`, but the body has 3 bytes";
        assert!(said.err.contains(told), "{}", said.err);
    }
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn statuses_that_are_expected_are_valid() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let (missing, moved) =
        (format!("{}/nowhere", server.url), format!("{}/test?size=1&fault=status&status=302", server.url));
    std::fs::write(dir.path().join("t.toml"), "[client]\nexpect_status = \"404\"\n").unwrap();
    std::fs::write(dir.path().join("w.toml"), "[[pages]]\nfiles = [\"/nowhere\"]\n").unwrap();
    let more = ["-n", "7", "-c", "1", "-q", "--format", "json"];
    let ends = ["-d", "0s", "--warmup", "0s"];
    for run in [
        &["hit", &missing, "--expect-status", "404"][..],
        &["hit", &moved, "--expect-status", "2xx,302"],
        &["hit", &moved, "--expect-status", "3xx"],
        &[&["run", &server.url, "-w", "w.toml", "--expect-status", "404"][..], &ends].concat(),
        &[&["run", &server.url, "-w", "w.toml", "-f", "t.toml"][..], &ends].concat(),
    ] {
        let said = webstone_in(dir.path(), &[run, &more[..]].concat());
        assert!(matches!(said.code, 0 | 4), "{run:?}: {}", said.err);
        let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(report["iterations"][0]["measured"]["counts"]["succeeded"], 7, "{run:?}");
    }
    let said = webstone_in(
        dir.path(),
        &["hit", &format!("{}/test?size=1", server.url), "--expect-status", "304,404"],
    );
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("answers with status 200, but only a status 304 or 404 counts as a success\n"),
        "{}",
        said.err
    );
    let said = webstone_in(dir.path(), &["hit", &missing, "--expect-status", "40x"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("`40x` is not a status from 200 to 599 or a class of them"), "{}", said.err);
}

#[test]
fn a_private_key_with_a_passphrase_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let pem = |kind: &str| format!("-----BEGIN {kind}-----\nMIIB\n-----END {kind}-----\n");
    std::fs::write(dir.path().join("c.pem"), pem("CERTIFICATE")).unwrap();
    std::fs::write(dir.path().join("k.pem"), pem("ENCRYPTED PRIVATE KEY")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let said = webstone_in(dir.path(), &["hit", &url, "-k", "--cert", "c.pem", "--key", "k.pem"]);
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: --key `k.pem`: the private key has a passphrase\n\
         hint: write the key without it to another file: openssl pkey -in KEY -out FILE\n"
    );
}

/// A port that leads to a server's TCP port, and to nothing over UDP.
fn relay(url: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (from, to) = (listener.local_addr().unwrap(), url.trim_start_matches("https://").to_owned());
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
            for (mut from, mut to) in [(&near, &far), (&far, &near)]
                .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    format!("https://{from}")
}

#[test]
fn a_run_has_the_version_that_its_target_offers() {
    let dir = tempfile::tempdir().unwrap();
    let few = ["-k", "-c", "1", "-n", "2", "-d", "0", "--warmup", "0s", "--no-store", "--http"];
    let serve = |http| Server::start(dir.path(), &["--tls", "--http", http, "-w", "workout-0k"]);
    let (three, two) = (serve("3"), serve("2"));
    let (own, relayed) = (&three.url, relay(&three.url));
    let port = own.rsplit_once(':').unwrap().1;
    for (url, http, why) in [
        (own, "3", format!("HTTP/3, offered by Alt-Svc of {own} (h3=\":{port}\")")),
        // Over UDP its port is mute: the clients must go where Alt-Svc leads.
        (&relayed, "3", format!("HTTP/3, offered by Alt-Svc of {relayed} (h3=\":{port}\")")),
        (
            &two.url,
            "2",
            format!("HTTP/2, agreed on by ALPN with {0}; no Alt-Svc of {0} offers HTTP/3", two.url),
        ),
    ] {
        let said = webstone_in(
            dir.path(),
            &[&["run", &format!("{url}/test"), "--format", "json"], &few[..], &["auto"]].concat(),
        );
        let record: serde_json::Value =
            serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
        assert_eq!(
            (&record["spec"]["client"]["http"], &record["target"]["http"]),
            (&http.into(), &why.into())
        );
        let measured = &record["iterations"][0]["measured"];
        assert_eq!(
            (&measured["counts"]["succeeded"], measured["http3"].is_object()),
            (&2.into(), http == "3")
        );
    }
    // Asked in a version, a server that offers HTTP/3 as well is said to.
    let offer = format!("h3=\":{port}\"");
    for (url, http, offers) in
        [(own, "1.1", Some(&offer)), (own, "2", Some(&offer)), (own, "3", None), (&two.url, "2", None)]
    {
        let said = webstone_in(
            dir.path(),
            &[&["run", &format!("{url}/test"), "--format", "json"], &few[..], &[http]].concat(),
        );
        let record: serde_json::Value =
            serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
        assert_eq!(record["target"]["offers_http3"].as_str(), offers.map(String::as_str));
    }
    let said =
        webstone_in(dir.path(), &["hit", &format!("{own}/test"), "-k", "--no-check", "--http", "auto"]);
    assert!(
        said.code == 2 && said.err.contains("`auto` is decided by the check before the load"),
        "{said:?}"
    );
    let said = webstone_in(
        dir.path(),
        &["duel", own, &two.url, "-k", "-w", "workout-0k", "--http", "auto", "--no-store"],
    );
    assert!(said.code == 2 && said.err.contains("`auto` is not the same for all"), "{said:?}");
}
