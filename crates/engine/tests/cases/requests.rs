//! What clients request and how: methods, bodies, templates, proxies, sockets, addresses, pages and their files.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::peer::{Act, Peer, errors, file, one_page, run, spec};
use webstone_engine::{Control, LevelJob, Plan, run_level};
use webstone_measure::units::Nanos;
use webstone_workload::content;
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerPage, PerRequest};
use webstone_workload::load::{Check, HttpVersion, Resolve};
use webstone_workload::{Feed, FileRequest, Page, RequestDetail, Workload};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn ok() -> Act {
    Act::Write(OK.as_bytes().to_vec())
}

/// A correct server: answers, and closes when the request says so.
fn decent() -> Peer {
    Peer::start_with(|head| {
        if head.contains("Connection: close") || head.contains("HTTP/1.0\r\n") {
            vec![ok(), Act::Finish]
        } else {
            vec![ok()]
        }
    })
}

fn heads(peer: &Peer) -> Vec<String> {
    peer.requests.lock().unwrap().clone()
}

#[test]
fn policies_make_exactly_their_number_of_connections() {
    let workload = one_page(vec![file("/a", None), file("/b", None), file("/c", None)]);
    for (policy, connections) in [(PerRequest, 12), (PerPage, 4), (KeepAlive, 1)] {
        let peer = decent();
        let outcome = run(&spec(&peer.url, policy, 4), &workload, 1);
        let counts = outcome.measured.counts;
        assert_eq!(
            (counts.pages_completed, counts.succeeded, counts.connections),
            (4, 12, connections),
            "{policy:?}"
        );
        assert_eq!(outcome.measured.pages[0].connects, connections);
        let paths: Vec<String> =
            heads(&peer).iter().map(|h| h.split(' ').nth(1).unwrap().to_owned()).collect();
        assert_eq!(paths, ["/a", "/b", "/c"].repeat(4));
        assert_eq!(counts.lingered, 0);
    }
}

#[test]
fn pages_are_counted_exactly_however_many_clients_share_them() {
    let workload = one_page(vec![file("/a", None)]);
    for (clients, pages) in [(1, 1), (7, 100), (50, 20), (3, 1000)] {
        let peer = decent();
        let outcome = run(&spec(&peer.url, KeepAlive, pages), &workload, clients);
        assert_eq!(outcome.measured.counts.pages_completed, pages, "{clients} clients");
        assert_eq!(outcome.measured.clients.len(), clients as usize);
        assert_eq!(heads(&peer).len() as u64, pages);
    }
}

#[test]
fn pages_are_counted_exactly_after_a_warm_up_and_over_workers() {
    let peer = decent();
    let mut spec = spec(&peer.url, KeepAlive, 200);
    spec.load.warmup = Nanos::from_millis(100);
    spec.generator.workers = 2;
    let outcome = run(&spec, &one_page(vec![file("/a", None)]), 8);
    let counts = outcome.measured.counts;
    assert_eq!((counts.pages_completed, counts.carried_in, counts.in_flight), (200, 0, 0));
    assert!(heads(&peer).len() > 200, "nothing was warmed up");
}

#[test]
fn the_first_file_goes_alone_and_the_rest_in_parallel() {
    // Each answer takes 50 ms; five files, four at once after the first.
    let peer = Peer::start(vec![Act::Wait(Duration::from_millis(50)), ok()]);
    let mut spec = spec(&peer.url, KeepAlive, 2);
    spec.client.parallel = 4;
    let files = ["/1", "/2", "/3", "/4", "/5"].map(|url| file(url, None)).to_vec();
    let outcome = run(&spec, &one_page(files), 1);
    let counts = outcome.measured.counts;
    assert_eq!((counts.pages_completed, counts.succeeded, counts.connections), (2, 10, 4));
}

#[test]
fn methods_headers_and_bodies_arrive_as_written() {
    let peer = decent();
    let mut spec = spec(&peer.url, PerRequest, 1);
    spec.client.headers.add("X-Run", "1");
    let detail = RequestDetail {
        method: Some("DELETE".into()),
        headers: [("X-Page".to_owned(), "2".to_owned())].into_iter().collect(),
        ..RequestDetail::default()
    };
    let delete = FileRequest { url: "/d".into(), size: None, detail: Box::new(detail) };
    run(&spec, &one_page(vec![delete]), 1);
    let head = heads(&peer).remove(0);
    assert!(
        head.starts_with("DELETE /d HTTP/1.1\r\n") && head.contains("X-Run: 1\r\nX-Page: 2\r\n"),
        "{head}"
    );
}

#[test]
fn a_head_request_expects_no_body() {
    let peer = Peer::start(vec![Act::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n".to_vec())]);
    let mut spec = spec(&peer.url, KeepAlive, 3);
    spec.client.method = "HEAD".into();
    let outcome = run(&spec, &one_page(vec![file("/x", Some(500))]), 1);
    assert_eq!((errors(&outcome), outcome.measured.counts.body_bytes), (vec![], 0));
}

#[test]
fn answers_with_an_expected_status_are_valid_whatever_their_length() {
    let not_modified = Act::Write(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec());
    let missing = Act::Write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".to_vec());
    for (expected, answer, wrong) in [
        ("304,404", not_modified.clone(), 0),
        ("304,404", missing.clone(), 0),
        ("2xx,304", missing, 3),
        ("304", ok(), 3),
        ("2xx", not_modified, 3),
    ] {
        let peer = Peer::start(vec![answer]);
        let mut spec = spec(&peer.url, KeepAlive, 3);
        spec.client.expect_status = expected.parse().unwrap();
        let outcome = run(&spec, &one_page(vec![file("/x", Some(500))]), 1);
        let counts = outcome.measured.counts;
        assert_eq!((counts.succeeded, counts.failed), (3 - wrong, wrong), "{expected}");
    }
    // With an ordinary status, the length still counts.
    let peer = Peer::start(vec![ok()]);
    let mut spec = spec(&peer.url, KeepAlive, 1);
    spec.client.expect_status = "200,304".parse().unwrap();
    let outcome = run(&spec, &one_page(vec![file("/x", Some(500))]), 1);
    assert_eq!(errors(&outcome)[0].0, webstone_measure::errors::ErrorClass::WrongLength);
}

#[test]
fn several_fields_of_a_name_and_bodies_in_chunks_arrive() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut spec = spec(&format!("http://{}", listener.local_addr().unwrap()), PerRequest, 1);
    spec.client.method = "POST".into();
    spec.client.headers =
        [("Cookie", "a=1"), ("Transfer-Encoding", "chunked"), ("Cookie", "b=2")].into_iter().collect();
    let server = std::thread::spawn(move || {
        let mut all = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut received, mut buffer) = (Vec::new(), vec![0; 65_536]);
            while !received.ends_with(b"0\r\n\r\n") {
                let n = stream.read(&mut buffer).unwrap();
                received.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(OK.as_bytes()).unwrap();
            all.push(String::from_utf8(received).unwrap());
        }
        all
    });
    for body in ["abcdefghijkl", "n={{rand 1000000000 9999999999}}"] {
        spec.client.body = Some(body.to_owned());
        assert_eq!(errors(&run(&spec, &one_page(vec![file("/up", None)]), 1)), []);
    }
    for request in server.join().unwrap() {
        assert!(request.contains("\r\nCookie: a=1\r\nCookie: b=2\r\n"), "{request}");
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Transfer-Encoding: chunked") && !head.contains("Content-Length"), "{request}");
        assert!(body.starts_with("c\r\n") && body.len() == 3 + 12 + 2 + 5, "{request}");
    }
}

#[test]
fn a_body_of_megabytes_is_sent_whole() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut spec = spec(&format!("http://{}", listener.local_addr().unwrap()), PerRequest, 1);
    spec.client.method = "PUT".into();
    spec.client.body = Some("0123456789abcdef".repeat(1 << 19));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut received, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while !received.ends_with(b"abcdef") || received.len() < (8 << 20) {
            let n = stream.read(&mut buffer).unwrap();
            received.extend_from_slice(&buffer[..n]);
        }
        stream.write_all(OK.as_bytes()).unwrap();
        received
    });
    let outcome = run(&spec, &one_page(vec![file("/up", None)]), 1);
    assert_eq!(errors(&outcome), []);
    let received = server.join().unwrap();
    let end = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(String::from_utf8_lossy(&received[..end]).contains("Content-Length: 8388608\r\n"));
    assert_eq!(received.len() - end, 8 << 20);
    assert_eq!(outcome.measured.counts.sent_bytes, received.len() as u64);
}

#[test]
fn http_1_0_ends_connections_unless_it_asks_to_keep_them() {
    for (policy, connections) in [(PerRequest, 3), (KeepAlive, 1)] {
        let peer = Peer::start_with(|head| {
            assert!(head.contains(" HTTP/1.0\r\n"), "{head}");
            let keep = head.contains("Connection: keep-alive");
            let text = format!(
                "HTTP/1.0 200 OK\r\n{}Content-Length: 2\r\n\r\nok",
                if keep { "Connection: keep-alive\r\n" } else { "" }
            );
            let mut acts = vec![Act::Write(text.into_bytes())];
            if !keep {
                acts.push(Act::Finish);
            }
            acts
        });
        let mut spec = spec(&peer.url, policy, 3);
        spec.client.http = HttpVersion::Http10;
        let outcome = run(&spec, &one_page(vec![file("/x", None)]), 1);
        assert_eq!((errors(&outcome), outcome.measured.counts.connections), (vec![], connections));
    }
}

#[test]
fn templates_differ_from_request_to_request_and_carry_their_length() {
    let peer = decent();
    let detail = RequestDetail {
        method: Some("DELETE".into()),
        headers: [("X-Name".to_owned(), "{{users.name}}".to_owned())].into_iter().collect(),
        ..RequestDetail::default()
    };
    let templated =
        FileRequest { url: "/item/{{seq}}?r={{rand 5 7}}".into(), size: None, detail: Box::new(detail) };
    let mut workload = one_page(vec![templated]);
    let rows = vec![vec!["ann".to_owned()], vec!["bob".to_owned()]];
    workload.feeds.insert("users".into(), Feed { columns: vec!["name".into()], rows, ..Feed::default() });
    let outcome = run(&spec(&peer.url, KeepAlive, 4), &workload, 1);
    assert_eq!(errors(&outcome), []);
    let heads = heads(&peer);
    let mut names = BTreeMap::new();
    for (number, head) in heads.iter().enumerate() {
        assert!(head.starts_with(&format!("DELETE /item/{number}?r=")), "{head}");
        let value = head.split("r=").nth(1).unwrap().chars().next().unwrap();
        assert!(('5'..='7').contains(&value));
        *names.entry(head.split("X-Name: ").nth(1).unwrap()[..3].to_owned()).or_insert(0) += 1;
    }
    assert_eq!(names, BTreeMap::from([("ann".to_owned(), 2), ("bob".to_owned(), 2)]));
}

#[test]
fn contents_are_checked_to_the_byte() {
    let path = "/file.html";
    let mut body = vec![0; 100_000];
    content::fill(path, 0, &mut body);
    let answer = |body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let right = Act::Write(answer(&body));
    body[99_999] ^= 1;
    let wrong = Act::Write(answer(&body));
    for (act, expected) in [(right, 0), (wrong, 2)] {
        let peer = Peer::start(vec![act]);
        let mut spec = spec(&peer.url, KeepAlive, 2);
        spec.client.check = Check::Content;
        let outcome = run(&spec, &one_page(vec![file(path, Some(100_000))]), 1);
        assert_eq!(
            outcome.measured.errors.count(webstone_measure::errors::ErrorClass::WrongContent),
            expected
        );
        assert_eq!(outcome.measured.errors.total(), expected);
    }
}

#[test]
fn unix_sockets_carry_every_policy() {
    for policy in [PerRequest, PerPage, KeepAlive] {
        let directory = std::env::temp_dir().join(format!("webstone-{}-{policy:?}", std::process::id()));
        let _ = std::fs::remove_file(&directory);
        let listener = std::os::unix::net::UnixListener::bind(&directory).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(n) = stream.read(&mut buffer) {
                        if n == 0 || stream.write_all(OK.as_bytes()).is_err() {
                            return;
                        }
                        if String::from_utf8_lossy(&buffer[..n]).contains("Connection: close") {
                            return;
                        }
                    }
                });
            }
        });
        let mut spec = spec("http://example.org", policy, 50);
        spec.client.unix_socket = Some(directory.to_str().unwrap().to_owned());
        let outcome = run(&spec, &one_page(vec![file("/x", Some(2))]), 3);
        assert_eq!((errors(&outcome), outcome.measured.counts.pages_completed), (vec![], 50), "{policy:?}");
        std::fs::remove_file(&directory).unwrap();
    }
}

#[test]
fn several_targets_are_used_in_turn_from_several_sources() {
    let (one, two) = (decent(), decent());
    let mut spec = spec(&one.url, PerRequest, 20);
    spec.target.push(two.url.clone());
    spec.client.source = vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()];
    let outcome = run(&spec, &one_page(vec![file("/x", None)]), 2);
    assert_eq!(errors(&outcome), []);
    assert_eq!((heads(&one).len(), heads(&two).len()), (10, 10));
}

#[test]
fn a_proxy_is_asked_for_absolute_urls() {
    let proxy = decent();
    let mut spec = spec("http://origin.invalid:8080", KeepAlive, 2);
    spec.client.proxy = Some(proxy.url.clone());
    spec.client.allow_hosts = vec!["other.invalid".into()];
    let outcome = run(&spec, &one_page(vec![file("/x", None), file("http://other.invalid/y", None)]), 1);
    assert_eq!((errors(&outcome), outcome.measured.counts.connections), (vec![], 1));
    let lines: Vec<String> =
        heads(&proxy).iter().map(|head| head.lines().next().unwrap().to_owned()).collect();
    let page = ["GET http://origin.invalid:8080/x HTTP/1.1", "GET http://other.invalid/y HTTP/1.1"];
    assert_eq!(lines, page.repeat(2));
}

#[test]
fn names_are_resolved_for_each_connection_where_asked() {
    let peer = decent();
    let mut spec = spec(&peer.url.replace("127.0.0.1", "localhost"), PerRequest, 20);
    spec.client.resolve = Resolve::PerConnection;
    let outcome = run(&spec, &one_page(vec![file("/x", None)]), 4);
    assert_eq!((errors(&outcome), outcome.measured.counts.connections), (vec![], 20));
}

#[test]
fn ipv6_targets_work_where_the_host_has_them() {
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else {
        println!("skipped: this host has no IPv6 loopback address");
        return;
    };
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut buffer) = (stream.unwrap(), [0; 4096]);
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(OK.as_bytes());
        }
    });
    let outcome = run(&spec(&url, PerRequest, 5), &one_page(vec![file("/x", None)]), 1);
    assert_eq!((errors(&outcome), outcome.measured.counts.connections), (vec![], 5));
}

#[test]
fn the_page_sequence_does_not_depend_on_the_workers() {
    let workload = Workload {
        name: "w".into(),
        pages: (1..=5)
            .map(|n| Page { weight: n, files: vec![file(&format!("/{n}"), None)], think: Nanos::ZERO })
            .collect(),
        ..Workload::default()
    };
    let asked = |workers: u32, window: Nanos| {
        let peer = decent();
        let mut spec = spec(&peer.url, KeepAlive, 1_000_000);
        spec.load.duration = window;
        spec.generator.workers = workers;
        let plan = Arc::new(Plan::compile(&spec, &workload).unwrap());
        let (sender, receiver) = sync_channel(10_000);
        let job = LevelJob { transactions: Some(sender), ..LevelJob::new(plan, 4) };
        run_level(&job, &Control::new()).unwrap();
        drop(job);
        let mut pages = vec![Vec::new(); 4];
        receiver
            .iter()
            .flatten()
            .for_each(|transaction| pages[transaction.client as usize].push(transaction.page));
        pages
    };
    // On a busy machine a client may get too few pages: then it gets more time, and the test does not ask for less.
    let enough = |workers: u32| {
        let windows = (0..8).map(|doubled| Nanos::from_millis(300 << doubled));
        let mut tried = windows.map(|window| asked(workers, window));
        tried.find(|pages| pages.iter().all(|pages| pages.len() > 20)).expect("some 20 pages within 38 s")
    };
    for (one, two) in enough(1).iter().zip(&enough(2)) {
        let both = one.len().min(two.len());
        assert_eq!(one[..both], two[..both]);
    }
}
