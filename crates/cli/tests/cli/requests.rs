//! What is requested: redirects, codings, forms, and options of curl.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::program::{Server, webstone_in};

/// A server that answers by a function of the request, and keeps the requests.
struct Site {
    url: String,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Site {
    fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (requests.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, kept, answer) = (stream.unwrap(), kept.clone(), answer.clone());
                std::thread::spawn(move || {
                    while let Some(request) = request(&mut stream) {
                        let answer = answer(&String::from_utf8_lossy(&request));
                        kept.lock().unwrap().push(request);
                        let _ = stream.write_all(&answer);
                    }
                });
            }
        });
        Site { url, requests }
    }

    /// The newest request.
    fn newest(&self) -> String {
        String::from_utf8_lossy(self.requests.lock().unwrap().last().unwrap()).into_owned()
    }
}

fn request(stream: &mut impl Read) -> Option<Vec<u8>> {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    request.extend(body);
    Some(request)
}

fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

const ONE: [&str; 6] = ["-n", "1", "-c", "1", "-q", "--warmup=0s"];

/// By one client.
fn hit(dir: &Path, args: &[&str]) -> Value {
    hit_with(dir, &[args, &["-c1"]].concat())
}

fn hit_with(dir: &Path, args: &[&str]) -> Value {
    let said = webstone_in(dir, &[&["hit"], args, &["-q", "--warmup=0s", "--format", "json"]].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

fn site_of_redirects(request: &str) -> Vec<u8> {
    match request.split(' ').nth(1).unwrap() {
        "/old" => answer("301 Moved", "Location: new/?a=1\r\n", b"moved"),
        "/new/?a=1" => answer("302 Found", "Location: ../end\r\n", b""),
        "/form" => answer("303 See Other", "Location: /end\r\n", b""),
        "/loop" => answer("302 Found", "Location: /pool\r\n", b""),
        "/pool" => answer("302 Found", "Location: /loop\r\n", b""),
        "/far" => answer("302 Found", "Location: http://elsewhere.test/\r\n", b""),
        _ => answer("200 OK", "", b"hello"),
    }
}

#[test]
fn redirects_are_followed_and_every_step_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::start(site_of_redirects);
    let old = format!("{}/old", site.url);
    let report = hit(dir.path(), &[&old, "--follow", "-n", "5"]);
    let measured = &report["iterations"][0]["measured"];
    let counts = &measured["counts"];
    assert_eq!((&counts["succeeded"], &counts["pages_completed"]), (&15.into(), &5.into()));
    assert_eq!(measured["statuses"], serde_json::json!({ "200": 5, "301": 5, "302": 5 }));
    let said = webstone_in(dir.path(), &["hit", &old, "--follow=2", "-n", "1", "-c1"]);
    assert!(said.out.contains("followed: /old 301 → /new/?a=1 302 → /end\n"), "{}", said.out);
    assert!(said.out.contains("status: 200 (1), 301 (1), 302 (1)"), "{}", said.out);
    // A form that was taken leads to a page.
    hit(dir.path(), &[&format!("{}/form", site.url), "--follow", "--body", "a=1", "-n", "1"]);
    assert!(site.newest().starts_with("GET /end HTTP/1.1\r\n"), "{}", site.newest());
    assert!(!site.newest().contains("Content-Length"), "{}", site.newest());
}

#[test]
fn redirects_that_cannot_be_followed_are_said_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::start(site_of_redirects);
    for (path, options, code, said) in [
        ("/old", &["--follow=1"][..], 1, "more than 1 redirects: "),
        ("/loop", &["--follow"], 1, "redirects in a loop: "),
        ("/far", &["--follow"], 1, "/far redirects to another host: http://elsewhere.test\n"),
        ("/old", &["--follow", "--no-check"], 2, "--follow and --no-check cannot be used together"),
        (
            "/old",
            &[],
            1,
            "hint: --follow follows redirects; --expect-status 301 counts such answers as valid",
        ),
    ] {
        let url = format!("{}{path}", site.url);
        let done = webstone_in(dir.path(), &[&["hit", &url], options, &ONE].concat());
        assert_eq!(done.code, code, "{path}: {}", done.err);
        assert!(done.err.contains(said), "{path}: {}", done.err);
    }
    std::fs::write(dir.path().join("t.toml"), "[client]\nfollow = 3\nparallel = 4\n").unwrap();
    let done = webstone_in(dir.path(), &["run", &site.url, "-f", "t.toml"]);
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("t.toml, line 2: ") && done.err.contains("client.parallel"), "{}", done.err);
}

/// `hello` × 1,000.
fn gzip() -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(&b"hello".repeat(1_000)).unwrap();
    out.finish().unwrap()
}

#[test]
fn coded_bodies_are_decoded_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::start(|request| match request.split(' ').nth(1).unwrap() {
        "/plain" => answer("200 OK", "", &b"hello".repeat(1_000)),
        "/false" => answer("200 OK", "Content-Encoding: gzip\r\n", b"hello"),
        "/other" => answer("200 OK", "Content-Encoding: br\r\n", b"\x0b\x02\x80hello\x03"),
        _ if request.contains("\r\nAccept-Encoding: br, gzip\r\n") => {
            answer("200 OK", "Content-Encoding: gzip\r\n", &gzip())
        }
        _ => answer("406 Not Acceptable", "", b""),
    });
    let options = ["--accept-encoding", "br,gzip", "-n", "3"];
    let url = |path: &str| format!("{}{path}", site.url);
    let report = hit(dir.path(), &[&[&*url("/x")], &options[..]].concat());
    let wire = gzip().len();
    let sample =
        serde_json::json!({ "url": url("/x"), "coding": "gzip", "wire_bytes": wire, "decoded_bytes": 5000 });
    assert_eq!(report["target"]["coded"], serde_json::json!([sample]));
    // Under load they are counted as they come.
    assert_eq!(report["iterations"][0]["measured"]["counts"]["body_bytes"], 3 * wire);
    let said = webstone_in(dir.path(), &[&["hit", &*url("/x")], &options[..]].concat());
    let line = format!("coded: gzip in 1 answer of the check: {wire} B on the wire, 5.00 kB decoded (");
    assert!(said.out.contains(&line), "{}", said.out);
    let said = webstone_in(dir.path(), &[&["hit", &*url("/plain")], &options[..]].concat());
    assert!(
        said.out.contains("coded: no answer of the check was coded (br, gzip accepted)\n"),
        "{}",
        said.out
    );
    for (path, accepted, what) in [
        ("/false", "gzip", "/false: Content-Encoding is gzip, but the body cannot be decoded: "),
        ("/other", "gzip", "/other: Content-Encoding is br, but only gzip is accepted\n"),
    ] {
        let done = webstone_in(
            dir.path(),
            &[&["hit", &*url(path), "--accept-encoding", accepted], &ONE[..]].concat(),
        );
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains(what), "{}", done.err);
    }
    // A workload states decoded lengths.
    std::fs::write(dir.path().join("w.toml"), "[[pages]]\nfiles = [{ url = \"/x\", size = 5000 }]\n")
        .unwrap();
    std::fs::write(dir.path().join("v.toml"), "[[pages]]\nfiles = [{ url = \"/x\", size = 5001 }]\n")
        .unwrap();
    let run = |workload: &str, more: &[&str]| {
        let run = [
            "run",
            &site.url,
            "-w",
            workload,
            "--accept-encoding",
            "br,gzip",
            "-n1",
            "-d0s",
            "-c1",
            "--warmup=0s",
            "-q",
        ];
        webstone_in(dir.path(), &[&run[..], more].concat())
    };
    let said = run("w.toml", &[]);
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    let said = run("v.toml", &[]);
    assert!(said.err.contains("/x: 5000 bytes where the workload states 5001\n"), "{}", said.err);
    let said = run("w.toml", &["--check", "content"]);
    assert_eq!(said.code, 2, "{said:?}");
}

#[test]
fn forms_and_bytes_are_sent_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::start(|_| answer("200 OK", "", b"ok"));
    std::fs::write(dir.path().join("photo.png"), b"\x89PNG\xff{{x}}").unwrap();
    let report = hit(
        dir.path(),
        &[
            &site.url,
            "-F",
            "name=ann",
            "-F",
            "password=secret",
            "--form",
            "photo=@photo.png",
            "-n2",
            "--store",
        ],
    );
    let newest = site.requests.lock().unwrap().last().unwrap().clone();
    let text = String::from_utf8_lossy(&newest);
    assert!(text.starts_with("POST / HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("\r\nContent-Type: multipart/form-data; boundary=webstone-"), "{text}");
    assert!(
        text.contains("name=\"photo\"; filename=\"photo.png\"\r\nContent-Type: image/png\r\n\r\n"),
        "{text}"
    );
    assert!(newest.windows(10).any(|window| window == b"\x89PNG\xff{{x}}"), "{text}");
    // The record has its length and check sum.
    let kept = report["spec"]["client"]["body"].as_str().unwrap();
    assert!(kept.contains("bytes, SHA-256 ") && report["spec"]["client"]["body_base64"].is_null(), "{kept}");
    assert!(!report.to_string().contains("secret"), "{report}");
    // In HTTP/1.0, too, and a file that is not text as a whole body.
    hit(dir.path(), &[&site.url, "--body", "@photo.png", "--http", "1.0", "-n1"]);
    assert!(site.requests.lock().unwrap().last().unwrap().ends_with(b"\r\n\r\n\x89PNG\xff{{x}}"));
    std::fs::write(dir.path().join("t.toml"), "[client]\nmethod = \"PUT\"\nbody_base64 = \"AP8=\"\n")
        .unwrap();
    let said = webstone_in(
        dir.path(),
        &["run", &site.url, "/", "-f", "t.toml", "-n1", "-d0s", "-c1", "--warmup=0s", "-q"],
    );
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    assert!(site.requests.lock().unwrap().last().unwrap().ends_with(b"Content-Length: 2\r\n\r\n\x00\xff"));
    for (options, what) in [
        (&["-F", "a=@none"][..], "--form a=@none: cannot read the file"),
        (&["-F", "a=1", "-H", "Content-Type: x"], "--form: a header field Content-Type is given, too"),
        (&["-F", "a=1", "-H", "X: {{seq}}"], "the body is bytes, which have none"),
        (&["--body-base64", "?"], "--body-base64: `?`: it is not base64 ("),
    ] {
        let said = webstone_in(dir.path(), &[&["hit", &site.url], options, &ONE].concat());
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(what), "{}", said.err);
    }
}

#[test]
fn a_command_line_of_curl_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::start(|_| answer("200 OK", "", b"ok"));
    let curl =
        format!("curl -sS -o /dev/null -u ann:secret -H 'X: 1' -d a=1 --data-raw 'b={{{{' {}/form", site.url);
    let report = hit(dir.path(), &["--curl", &curl, "-n2"]);
    let newest = site.newest();
    assert!(newest.starts_with("POST /form HTTP/1.1\r\n"), "{newest}");
    for line in
        ["Authorization: Basic YW5uOnNlY3JldA==", "X: 1", "Content-Type: application/x-www-form-urlencoded"]
    {
        assert!(newest.contains(&format!("\r\n{line}\r\n")), "{newest}");
    }
    assert!(newest.ends_with("\r\n\r\na=1&b={{"), "{newest}");
    assert!(!report.to_string().contains("YW5u"), "{report}");
    let said = webstone_in(dir.path(), &["hit", "--curl", "curl --http3 http://a/"]);
    assert_eq!(
        (said.code, &*said.err),
        (
            2,
            "error: --curl: --http3 is not an option of curl that webstone knows\n\
             hint: leave it out if it changes nothing that is measured; `webstone hit --help` has webstone's own options\n"
        )
    );
}

#[test]
fn a_pipeline_is_answered_request_by_request() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = format!("{}/file500.html", server.url);
    let report = hit_with(dir.path(), &[&url, "--pipeline", "4", "-c", "8", "-n", "400"]);
    let counts = &report["iterations"][0]["measured"]["counts"];
    assert_eq!(
        (&counts["succeeded"], &counts["failed"], &counts["connections"]),
        (&400.into(), &0.into(), &2.into())
    );
    let responses = &report["iterations"][0]["measured"]["response"]["count"];
    assert_eq!(responses, &400);
    for (options, what) in [
        (&["--http", "2"][..], "only HTTP/1.1 has pipelines"),
        (&["--connections", "per-request"], "connections are not kept alive"),
        (&["-m", "POST"], "has a request that no other may follow before its answer"),
    ] {
        let said = webstone_in(
            dir.path(),
            &[&["hit", &url, "--pipeline", "2", "--no-check"], options, &ONE].concat(),
        );
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(what), "{}", said.err);
    }
}

/// That a line brings what it should, and no more, is tested in the engine.
#[test]
fn slow_clients_are_told_in_report_and_record() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let url = format!("{}/test?size=800", server.url);
    let slow = ["hit", &url, "-c", "2", "-n", "4", "--bandwidth", "64K", "--think", "10ms", "--store", "-q"];
    let said = webstone_in(dir.path(), &slow);
    let told = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(" · 64 kbit/s for each client · think time 10ms "), "{}{}", said.out, said.err);
    let stored = webstone_in(dir.path(), &["report", "last", "--format", "json"]);
    let stored: serde_json::Value = serde_json::from_str(&stored.out).unwrap();
    let client = &stored["spec"]["client"];
    assert_eq!((&client["bandwidth"], &client["think"]), (&"64k".into(), &"10ms".into()));
    // 800 bytes take a tenth of a second.
    let response = &stored["iterations"][0]["measured"]["response"];
    assert!(response["min"].as_u64().unwrap() >= 100_000_000, "{response}");
}
