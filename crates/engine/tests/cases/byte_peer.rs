//! What no correct server would send, byte by byte: each has its class of error, none causes a hang or a panic.

use std::time::Duration;

use super::peer::{Act, Peer, errors, file, impatient, one_page, run, spec};
use webstone_measure::errors::ErrorClass;
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerRequest};

const POLICIES: [ConnectionPolicy; 3] = [PerRequest, ConnectionPolicy::PerPage, KeepAlive];

/// Two pages from a peer that writes `answer` and finishes: both must fail in `class`, under every policy.
fn fails(answer: &[u8], class: ErrorClass) {
    for policy in POLICIES {
        let peer = Peer::start(vec![Act::Write(answer.to_vec()), Act::Finish]);
        let outcome = run(&spec(&peer.url, policy, 2), &one_page(vec![file("/x", None)]), 1);
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
        assert_eq!(errors(&outcome), [(class, 2)], "{policy:?}: {shown}");
        assert_eq!(outcome.measured.counts.pages_failed, 2, "{shown}");
        let (_, _, example) = outcome.measured.errors.iter().next().unwrap();
        let example = example.unwrap();
        assert_eq!(example.request, format!("GET {}/x", peer.url));
        assert!(!example.detail.is_empty() && peer.url.ends_with(&example.address), "{example:?}");
    }
}

/// Two pages from a peer that plays a script: both must succeed with a body of `body` bytes.
fn succeeds(script: &[Act], body: u64) {
    for policy in POLICIES {
        let peer = Peer::start(script.to_vec());
        let outcome = run(&spec(&peer.url, policy, 2), &one_page(vec![file("/x", Some(body))]), 1);
        assert_eq!(errors(&outcome), [], "{policy:?}: {:?}", outcome.measured.errors);
        assert_eq!(outcome.measured.counts.pages_completed, 2);
        assert_eq!(outcome.measured.counts.body_bytes, 2 * body);
    }
}

fn write(text: &str) -> Act {
    Act::Write(text.as_bytes().to_vec())
}

fn padded_head(bytes: usize) -> Vec<u8> {
    let empty = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: \r\n\r\n".len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: {}\r\n\r\n", "x".repeat(bytes - empty)).into_bytes()
}

#[test]
fn a_response_split_everywhere_is_whole() {
    succeeds(&[Act::Drip(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec())], 5);
    succeeds(&[Act::Drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n".to_vec())], 5);
}

#[test]
fn a_head_of_64_kib_is_read_and_one_byte_more_is_malformed() {
    let mut answer = padded_head(65_536);
    answer.extend_from_slice(b"ok");
    succeeds(&[Act::Write(answer)], 2);
    fails(&padded_head(65_537), ErrorClass::Malformed);
    fails(&[b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &[b'x'; 200_000]].concat(), ErrorClass::Malformed);
}

#[test]
fn interim_responses_are_read_past_and_a_flood_is_malformed() {
    let end = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    succeeds(&[write(&hint.repeat(10)), Act::Wait(Duration::from_millis(5)), write(end)], 2);
    fails(hint.repeat(10_000).as_bytes(), ErrorClass::Malformed);
}

#[test]
fn contradictions_are_malformed() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\rjunk\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more than was announced",
        "HTTP/1.1 304 Not Modified\r\n\r\na body after 304",
        "HTTP/1.1 204 No Content\r\n\r\na body after 204",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/3 200 OK\r\n\r\n",
        "\x16\x03\x01 not HTTP at all",
        "\n\n\n\n",
        "ICY 200 OK\r\n\r\n",
    ] {
        fails(answer.as_bytes(), ErrorClass::Malformed);
    }
}

#[test]
fn early_ends_have_their_class() {
    fails(b"", ErrorClass::ClosedEarly);
    fails(b"HTTP/1.1 200 OK\r\nContent-Le", ErrorClass::ClosedEarly);
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", ErrorClass::ShortBody);
    fails(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", ErrorClass::ShortBody);
    fails(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", ErrorClass::ShortBody);
}

#[test]
fn statuses_other_than_expected_are_errors() {
    fails(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", ErrorClass::WrongStatus);
    fails(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", ErrorClass::WrongStatus);
    fails(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", ErrorClass::WrongStatus);
    fails(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", ErrorClass::WrongStatus);
}

#[test]
fn a_body_of_another_length_than_the_workload_states_is_an_error() {
    let peer = Peer::start(vec![write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]);
    let outcome = run(&spec(&peer.url, KeepAlive, 4), &one_page(vec![file("/x", Some(3))]), 1);
    assert_eq!(errors(&outcome), [(ErrorClass::WrongLength, 4)]);
    // The answers were whole, so the connection could be used for all of them.
    assert_eq!(outcome.measured.counts.connections, 1);
}

#[test]
fn a_body_that_the_end_of_the_connection_delimits_is_whole() {
    succeeds(&[write("HTTP/1.0 200 OK\r\n\r\n"), Act::Drip(b"to the end".to_vec()), Act::Finish], 10);
    succeeds(&[write("HTTP/1.1 200 OK\r\n\r\n"), Act::Finish], 0);
}

#[test]
fn silence_times_out_in_the_class_of_its_moment() {
    for (script, class) in [
        (vec![Act::Hold], ErrorClass::FirstByteTimeout),
        (vec![write("HTTP/1.1 200 OK\r\n"), Act::Hold], ErrorClass::RequestTimeout),
        (
            vec![write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), Act::Hold],
            ErrorClass::RequestTimeout,
        ),
    ] {
        let peer = Peer::start(script);
        let spec = impatient(spec(&peer.url, PerRequest, 2), class);
        let outcome = run(&spec, &one_page(vec![file("/x", None)]), 2);
        assert_eq!(errors(&outcome), [(class, 2)]);
    }
}

#[test]
fn a_reset_is_a_reset_wherever_it_comes() {
    for answer in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"] {
        // The pause lets the bytes arrive before the reset discards them.
        let peer = Peer::start(vec![write(answer), Act::Wait(Duration::from_millis(20)), Act::Reset]);
        let outcome = run(&spec(&peer.url, PerRequest, 3), &one_page(vec![file("/x", None)]), 1);
        assert_eq!(errors(&outcome), [(ErrorClass::Reset, 3)], "{answer:?}");
    }
}

#[test]
fn refused_connections_are_counted_and_not_spun_on() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut spec = spec(&format!("http://127.0.0.1:{port}"), PerRequest, 4);
    spec.load.pages = None;
    spec.load.duration = webstone_measure::units::Nanos::from_secs(3);
    let outcome = run(&spec, &one_page(vec![file("/x", None)]), 1);
    let refused = outcome.measured.errors.count(ErrorClass::Refused);
    // Waits of 10, 20, 40 to 1,280 ms: nine attempts fit, however fast the machine is.
    assert!((1..=9).contains(&refused), "{refused}");
    assert_eq!(outcome.measured.counts.connections_failed, refused);
}

#[test]
fn a_connection_announced_as_closing_is_not_used_again() {
    let answer = write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    // The peer announces the end and then holds the connection open: a client that believes it opens a new one.
    let peer = Peer::start(vec![answer, Act::Hold]);
    let outcome = run(&spec(&peer.url, KeepAlive, 5), &one_page(vec![file("/x", None)]), 1);
    assert_eq!((errors(&outcome), outcome.measured.counts.connections), (vec![], 5));
    assert_eq!(peer.requests.lock().unwrap().len(), 5);
}

#[test]
fn a_request_on_a_closed_connection_is_sent_once_again_on_a_new_one() {
    // Each connection is closed directly after its first answer, without being announced in the head.
    let peer = Peer::start(vec![write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), Act::Finish]);
    let outcome = run(&spec(&peer.url, KeepAlive, 20), &one_page(vec![file("/x", None)]), 1);
    assert_eq!(errors(&outcome), []);
    assert_eq!(outcome.measured.counts.succeeded, 20);
    assert_eq!(outcome.measured.counts.connections, 20);
}

#[test]
fn a_limit_of_requests_ends_connections_and_announces_it() {
    let peer = Peer::start_with(|head| {
        let close = head.contains("Connection: close");
        let mut acts = vec![write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")];
        if close {
            acts.push(Act::Finish);
        }
        acts
    });
    let mut spec = spec(&peer.url, KeepAlive, 12);
    spec.client.requests_per_connection = Some(4);
    let outcome = run(&spec, &one_page(vec![file("/x", None)]), 1);
    assert_eq!((errors(&outcome), outcome.measured.counts.connections), (vec![], 3));
    let closing =
        peer.requests.lock().unwrap().iter().filter(|head| head.contains("Connection: close")).count();
    assert_eq!(closing, 3);
}

#[test]
fn an_answer_before_the_request_was_read_causes_no_confusion() {
    // 32 MiB of request body; the peer reads only the head, refuses and closes.
    let mut spec = spec("http://127.0.0.1:1", PerRequest, 2);
    let peer = Peer::start(vec![
        write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        Act::Wait(Duration::from_millis(50)),
        Act::Finish,
    ]);
    spec.target = vec![peer.url.clone()];
    spec.client.method = "POST".into();
    spec.client.body = Some("x".repeat(32 << 20));
    let outcome = run(&spec, &one_page(vec![file("/x", None)]), 1);
    assert_eq!(errors(&outcome), [(ErrorClass::WrongStatus, 2)], "{:?}", outcome.measured.errors);
}

#[test]
fn a_listen_queue_that_never_empties_times_connects_out() {
    // On Linux a queue of length 0 holds one connection; it is never accepted. Further SYNs are dropped.
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = std::net::SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
    let spec = spec(&format!("http://{address}"), PerRequest, 6);
    let mut spec = impatient(spec, ErrorClass::FirstByteTimeout);
    spec.client.connect_timeout = webstone_measure::units::Nanos::from_millis(300);
    let outcome = run(&spec, &one_page(vec![file("/x", None)]), 6);
    let timed_out = outcome.measured.errors.count(ErrorClass::ConnectTimeout);
    let silent = outcome.measured.errors.count(ErrorClass::FirstByteTimeout);
    assert_eq!(timed_out + silent, 6, "{:?}", errors(&outcome));
    assert!(timed_out >= 4, "{:?}", errors(&outcome));
    assert_eq!(outcome.measured.counts.connections_failed, timed_out);
}
