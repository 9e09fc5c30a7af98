//! A raw peer that speaks HTTP/2 frame by frame, and what no correct server would send: each violation has exactly one class.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::peer::{errors, file, one_page, run, spec};
use webstone_engine::LevelOutcome;
use webstone_engine::h2::frames::{self, Reader, Step, flag, kind};
use webstone_engine::h2::hpack::decoder::Decoder;
use webstone_engine::h2::hpack::encoder::{self, Literal};
use webstone_measure::errors::ErrorClass;
use webstone_workload::FileRequest;
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_workload::load::GeneratorTask;

/// What the peer does with a request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Write(Vec<u8>),
    /// Writes bytes one at a time.
    Drip(Vec<u8>),
    Wait(Duration),
    /// Closes its sending side and continues to read.
    Finish,
    Hold,
}

/// A request as the peer saw it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The number of its connection, from 1 on.
    pub(super) number: usize,
    pub(super) stream: u32,
    head: String,
    pub(super) body: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) seen: Vec<Seen>,
    /// Type, stream and payload of frames that are neither requests nor acknowledgements.
    pub(super) told: Vec<(u8, u32, Vec<u8>)>,
    /// Error codes of received RST_STREAM and GOAWAY frames.
    pub(super) resets: Vec<u32>,
    pub(super) goaways: Vec<u32>,
}

pub(super) struct Peer {
    pub(super) url: String,
    pub(super) log: Arc<Mutex<Log>>,
}

type Script = Arc<dyn Fn(&Seen) -> Vec<Act> + Send + Sync>;

impl Peer {
    /// A peer that writes `greeting` on each connection, and does what the script says for each whole request.
    pub(super) fn start(
        greeting: Vec<u8>,
        script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
    ) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Log::default()));
        // Not generic over the script: the threads would be compiled for each test.
        Peer::listen(listener, log.clone(), greeting, Arc::new(script));
        Peer { url, log }
    }

    fn listen(listener: TcpListener, shared: Arc<Mutex<Log>>, greeting: Vec<u8>, script: Script) {
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, script, greeting) = (shared.clone(), script.clone(), greeting.clone());
                std::thread::spawn(move || {
                    let _ = serve(stream.unwrap(), &greeting, &log, &*script);
                });
            }
        });
    }
}

fn serve(
    mut stream: TcpStream,
    greeting: &[u8],
    log: &Mutex<Log>,
    script: &dyn Fn(&Seen) -> Vec<Act>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    assert_eq!(preface, frames::PREFACE);
    stream.write_all(greeting)?;
    let (mut reader, mut decoder, mut number) = (Reader::default(), Decoder::with_text(), 0);
    let mut open: Vec<Seen> = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..n];
        while !rest.is_empty() {
            let (used, step) = reader.step(rest).unwrap();
            rest = &rest[used..];
            let (id, ends) = match step {
                Step::Frame(head, payload) if head.kind == kind::HEADERS => {
                    assert!(head.has(flag::END_HEADERS) && head.stream % 2 == 1);
                    let mut text = Vec::new();
                    decoder.decode_text(payload, &mut text).unwrap();
                    let head_text = String::from_utf8(text).unwrap();
                    open.push(Seen { stream: head.stream, head: head_text, ..Seen::default() });
                    (head.stream, head.has(flag::END_STREAM))
                }
                Step::Data { stream, piece, ends, .. } => {
                    if let Some(seen) = open.iter_mut().find(|seen| seen.stream == stream) {
                        seen.body.extend_from_slice(piece);
                    }
                    (stream, ends == Some(true))
                }
                Step::Frame(head, payload) => {
                    let mut log = log.lock().unwrap();
                    if !head.has(flag::ACK) {
                        log.told.push((head.kind, head.stream, payload.to_vec()));
                    }
                    match head.kind {
                        kind::RST_STREAM => log.resets.push(frames::number(payload)),
                        kind::GOAWAY => log.goaways.push(frames::number(&payload[4..])),
                        _ => {}
                    }
                    continue;
                }
                Step::NeedMore => continue,
            };
            let Some(at) = open.iter().position(|seen| seen.stream == id && ends) else { continue };
            number += 1;
            let seen = Seen { number, ..open.remove(at) };
            log.lock().unwrap().seen.push(seen.clone());
            for act in script(&seen) {
                match act {
                    Act::Write(bytes) => stream.write_all(&bytes)?,
                    Act::Drip(bytes) => bytes.iter().try_for_each(|byte| stream.write_all(&[*byte]))?,
                    Act::Wait(span) => std::thread::sleep(span),
                    Act::Finish => {
                        stream.shutdown(Shutdown::Write)?;
                        return drain(&mut stream, &mut reader, log);
                    }
                    Act::Hold => return drain(&mut stream, &mut reader, log),
                }
            }
        }
    }
}

/// Reads on until the client closes; notes the reason that it gives.
fn drain(stream: &mut TcpStream, reader: &mut Reader, log: &Mutex<Log>) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..n];
        while !rest.is_empty() {
            let Ok((used, step)) = reader.step(rest) else { return Ok(()) };
            rest = &rest[used..];
            if let Step::Frame(head, payload) = step {
                match head.kind {
                    kind::RST_STREAM => log.lock().unwrap().resets.push(frames::number(payload)),
                    kind::GOAWAY => log.lock().unwrap().goaways.push(frames::number(&payload[4..])),
                    _ => {}
                }
            }
        }
    }
}

pub(super) fn frame(of_kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frames::write_head(payload.len(), of_kind, flags, stream, &mut out);
    out.extend_from_slice(payload);
    out
}

pub(super) fn numbers(of_kind: u8, stream: u32, numbers: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    frames::write_numbers(of_kind, stream, numbers, &mut out);
    out
}

pub(super) fn settings(list: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frames::write_settings(list.iter().copied(), &mut out);
    out
}

pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        encoder::field(name, value.as_bytes(), Literal::Plain, &mut out);
    }
    out
}

pub(super) fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flags, stream, &block(fields))
}

pub(super) fn data(stream: u32, flags: u8, body: &[u8]) -> Vec<u8> {
    frame(kind::DATA, flags, stream, body)
}

/// An answer of two bytes.
pub(super) fn answer(stream: u32) -> Vec<u8> {
    let head = headers(stream, 0, &[(":status", "200"), ("content-length", "2")]);
    [head, data(stream, flag::END_STREAM, b"ok")].concat()
}

pub(super) fn h2(url: &str, policy: ConnectionPolicy, pages: u64) -> GeneratorTask {
    let mut spec = spec(url, policy, pages);
    spec.client.http = webstone_workload::load::HttpVersion::Http2;
    spec
}

pub(super) fn get(size: Option<u64>) -> Vec<FileRequest> {
    vec![file("/x", size)]
}

pub(super) const END: u8 = flag::END_STREAM;

type Written = Arc<dyn Fn(&Seen) -> Vec<u8> + Send + Sync>;

/// Two pages must fail in `class`, under every policy, from a peer that begins correctly and writes `written` for
/// each request. `told`: the code of the GOAWAY or RST_STREAM that the peer must receive, if any.
fn fails(class: ErrorClass, told: Option<u32>, written: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) {
    let written: Written = Arc::new(written);
    fails_as_written(class, told, &written);
}

fn fails_as_written(class: ErrorClass, told: Option<u32>, written: &Written) {
    for policy in [PerRequest, PerPage, KeepAlive] {
        let script = written.clone();
        // A peer that closes at once receives nothing more.
        let end = if told.is_some() { vec![] } else { vec![Act::Finish] };
        let peer =
            Peer::start(settings(&[]), move |seen| [vec![Act::Write(script(seen))], end.clone()].concat());
        let outcome = run(&h2(&peer.url, policy, 2), &one_page(get(None)), 1);
        assert_eq!(errors(&outcome), [(class, 2)], "{policy:?}: {:?}", outcome.measured.errors);
        if let Some(code) = told {
            // The last frames may still be in transit.
            for _ in 0..500 {
                let log = peer.log.lock().unwrap();
                if log.goaways.iter().chain(&log.resets).any(|known| *known == code) {
                    break;
                }
                drop(log);
                std::thread::sleep(Duration::from_millis(10));
            }
            let log = peer.log.lock().unwrap();
            assert!(
                log.goaways.iter().chain(&log.resets).any(|known| *known == code),
                "{:?} {:?}",
                log.goaways,
                log.resets
            );
        }
    }
}

pub(super) fn succeeds(outcome: &LevelOutcome, requests: u64) {
    assert_eq!(errors(outcome), [], "{:?}", outcome.measured.errors);
    assert_eq!(outcome.measured.counts.succeeded, requests);
}

#[test]
fn answers_are_whole_however_they_are_cut() {
    for policy in [PerRequest, PerPage, KeepAlive] {
        let peer = Peer::start(settings(&[]), |seen| {
            let id = seen.stream;
            let early = headers(id, 0, &[(":status", "103"), ("link", "</a>")]);
            let head = block(&[(":status", "200"), ("content-length", "5"), ("x-a", "b")]);
            let (one, two) = head.split_at(3);
            let head =
                [frame(kind::HEADERS, 0, id, one), frame(kind::CONTINUATION, flag::END_HEADERS, id, two)]
                    .concat();
            let padded = frame(kind::DATA, flag::PADDED, id, b"\x03hel\0\0\0");
            let unknown = frame(0xbe, 0xff, id, b"?");
            let rest = data(id, 0, b"lo");
            let trailers = headers(id, END, &[("x-sum", "1")]);
            vec![Act::Drip([early, head, padded, unknown, rest, trailers].concat())]
        });
        let outcome = run(&h2(&peer.url, policy, 3), &one_page(get(Some(5))), 1);
        succeeds(&outcome, 3);
        assert_eq!(outcome.measured.counts.body_bytes, 15);
        let connections = if policy == KeepAlive { 1 } else { 3 };
        assert_eq!(outcome.measured.counts.connections, connections);
        assert_eq!(outcome.measured.http2.unwrap().streams, 3);
    }
}

#[test]
fn answers_without_a_body() {
    for (method, status) in [("HEAD", "200"), ("GET", "204"), ("GET", "304")] {
        for at_once in [true, false] {
            let peer = Peer::start(settings(&[]), move |seen| {
                let length = if status == "204" { ("x", "y") } else { ("content-length", "99") };
                let head =
                    headers(seen.stream, if at_once { END } else { 0 }, &[(":status", status), length]);
                let rest = if at_once { Vec::new() } else { data(seen.stream, END, b"") };
                vec![Act::Write([head, rest].concat())]
            });
            let mut spec = h2(&peer.url, KeepAlive, 3);
            spec.client.method = method.into();
            let mut files = get(None);
            files[0].detail.status = Some(status.parse().unwrap());
            let outcome = run(&spec, &one_page(files), 1);
            succeeds(&outcome, 3);
            assert!(peer.log.lock().unwrap().seen[0].head.starts_with(&format!(":method: {method}\r\n")));
        }
    }
    fails(ErrorClass::H2Protocol, Some(1), |seen| {
        [headers(seen.stream, 0, &[(":status", "204")]), data(seen.stream, END, b"x")].concat()
    });
}

#[test]
fn violations_of_the_protocol() {
    type Misdeed = fn(u32) -> Vec<u8>;
    let misdeeds: [Misdeed; 24] = [
        |id| data(id, END, b"a body before the final head"),
        |id| headers(id, END, &[("x", "no status")]),
        |id| headers(id, END, &[(":status", "20")]),
        |id| headers(id, END, &[(":status", "101")]),
        |id| headers(id, END, &[(":status", "103")]),
        |id| headers(id, END, &[("x", "y"), (":status", "200")]),
        |id| headers(id, END, &[(":status", "200"), ("X-Large", "y")]),
        |id| headers(id, END, &[(":status", "200"), ("connection", "close")]),
        |id| headers(id, END, &[(":status", "200"), (":path", "/")]),
        |id| headers(id, END, &[(":status", "200"), ("content-length", "5")]),
        |id| {
            [headers(id, 0, &[(":status", "200"), ("content-length", "5")]), data(id, END, b"four")].concat()
        },
        |id| {
            [headers(id, 0, &[(":status", "200"), ("content-length", "3")]), data(id, END, b"four")].concat()
        },
        |id| [headers(id, 0, &[(":status", "200")]), headers(id, END, &[(":status", "200")])].concat(),
        |id| [headers(id, 0, &[(":status", "200")]), headers(id, 0, &[("x", "y")])].concat(),
        |id| headers(id + 2, END, &[(":status", "200")]),
        |_| headers(2, END, &[(":status", "200")]),
        |_| headers(0, END, &[(":status", "200")]),
        |_| data(0, END, b"x"),
        |id| frame(kind::PING, 0, id, &[0; 8]),
        |id| {
            [frame(kind::HEADERS, 0, id, &block(&[(":status", "200")])), frame(kind::PING, 0, 0, &[0; 8])]
                .concat()
        },
        |id| frame(kind::CONTINUATION, flag::END_HEADERS, id, &block(&[(":status", "200")])),
        |id| frame(kind::PUSH_PROMISE, flag::END_HEADERS, id, &[0, 0, 0, 2, 0x82]),
        |_| numbers(kind::WINDOW_UPDATE, 0, &[0]),
        |_| settings(&[(frames::setting::ENABLE_PUSH, 1)]),
    ];
    for misdeed in misdeeds {
        fails(ErrorClass::H2Protocol, Some(1), move |seen| misdeed(seen.stream));
    }
}

#[test]
fn violations_of_other_classes() {
    fails(ErrorClass::H2FrameSize, Some(6), |_| frame(kind::PING, 0, 0, &[0; 7]));
    fails(ErrorClass::H2FrameSize, Some(6), |seen| data(seen.stream, 0, &[0; 16_385]));
    fails(ErrorClass::H2FlowControl, Some(3), |_| numbers(kind::WINDOW_UPDATE, 0, &[u32::MAX >> 1]));
    fails(ErrorClass::H2FlowControl, Some(3), |seen| {
        numbers(kind::WINDOW_UPDATE, seen.stream, &[u32::MAX >> 1])
    });
    fails(ErrorClass::H2FlowControl, Some(3), |_| {
        settings(&[(frames::setting::INITIAL_WINDOW_SIZE, 1 << 31)])
    });
    fails(ErrorClass::H2Compression, Some(9), |seen| {
        frame(kind::HEADERS, flag::END_HEADERS, seen.stream, &[0xff; 9])
    });
    fails(ErrorClass::H2Compression, Some(9), |seen| {
        frame(kind::HEADERS, flag::END_HEADERS, seen.stream, &[0xbe])
    });
    fails(ErrorClass::H2Reset, None, |seen| numbers(kind::RST_STREAM, seen.stream, &[2]));
    fails(ErrorClass::H2Goaway, None, |_| numbers(kind::GOAWAY, 0, &[0, 2]));
    fails(ErrorClass::ClosedEarly, None, |_| Vec::new());
    fails(ErrorClass::ClosedEarly, None, |seen| headers(seen.stream, 0, &[(":status", "103")]));
    fails(ErrorClass::ShortBody, None, |seen| {
        [headers(seen.stream, 0, &[(":status", "200")]), data(seen.stream, 0, b"no end")].concat()
    });
    fails(ErrorClass::WrongStatus, None, |seen| headers(seen.stream, END, &[(":status", "404")]));
}

#[test]
fn floods_have_an_end() {
    for flood in [
        |_: u32| frame(kind::PING, 0, 0, &[0; 8]),
        |_: u32| settings(&[]),
        |id: u32| numbers(kind::WINDOW_UPDATE, id, &[1]),
        |_: u32| frame(0xbe, 0, 0, b""),
    ] {
        fails(ErrorClass::H2Flood, Some(11), move |seen| flood(seen.stream).repeat(10_100));
    }
    fails(ErrorClass::H2Flood, Some(11), |seen| headers(seen.stream, 0, &[(":status", "103")]).repeat(65));
    fails(ErrorClass::H2Flood, Some(11), |seen| {
        [headers(seen.stream, 0, &[(":status", "200")]), data(seen.stream, 0, b"").repeat(10_100)].concat()
    });
    fails(ErrorClass::H2Flood, Some(11), |seen| {
        [
            frame(kind::HEADERS, 0, seen.stream, b""),
            frame(kind::CONTINUATION, 0, seen.stream, b"").repeat(100),
        ]
        .concat()
    });
}

/// A server that speaks HTTP/1, or something unknown.
#[test]
fn servers_without_http2_are_recognized() {
    for greeting in
        ["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "\x15\x03\x01\0\x02\x02F and more"]
    {
        let peer = Peer::start(greeting.into(), |_| vec![Act::Finish]);
        let outcome = run(&h2(&peer.url, KeepAlive, 2), &one_page(get(None)), 1);
        assert_eq!(errors(&outcome), [(ErrorClass::H2NotSpoken, 2)]);
    }
    let peer = Peer::start(frame(kind::PING, 0, 0, &[0; 8]), |_| vec![Act::Hold]);
    let outcome = run(&h2(&peer.url, KeepAlive, 2), &one_page(get(None)), 1);
    assert_eq!(errors(&outcome), [(ErrorClass::H2Protocol, 2)]);
}

#[test]
fn requests_that_the_server_refused_are_sent_again() {
    // Every third request is refused at first.
    let peer = Peer::start(settings(&[]), |seen| {
        let refuses = seen.number % 3 == 0;
        vec![Act::Write(if refuses {
            numbers(kind::RST_STREAM, seen.stream, &[7])
        } else {
            answer(seen.stream)
        })]
    });
    let mut spec = h2(&peer.url, KeepAlive, 20);
    spec.client.method = "POST".into();
    let outcome = run(&spec, &one_page(get(Some(2))), 1);
    succeeds(&outcome, 20);
    let counts = outcome.measured.http2.unwrap();
    assert_eq!((counts.refused, counts.retried, counts.streams), (9, 9, 29));
    assert_eq!(outcome.measured.counts.connections, 1);
    // A server that refuses for ever.
    let peer =
        Peer::start(settings(&[]), |seen| vec![Act::Write(numbers(kind::RST_STREAM, seen.stream, &[7]))]);
    let outcome = run(&h2(&peer.url, KeepAlive, 2), &one_page(get(None)), 1);
    assert_eq!(errors(&outcome), [(ErrorClass::H2Reset, 2)]);
}

/// A connection ended as by nginx: its last answer, and a GOAWAY without an error. Unanswered requests go to another connection.
#[test]
fn a_goaway_without_an_error_code_is_not_an_error() {
    let peer = Peer::start(settings(&[]), |seen| match seen.number {
        4 => vec![
            Act::Write([numbers(kind::GOAWAY, 0, &[seen.stream, 0]), answer(seen.stream)].concat()),
            Act::Finish,
        ],
        _ => vec![Act::Write(answer(seen.stream))],
    });
    let mut spec = h2(&peer.url, KeepAlive, 24);
    spec.client.clients_per_connection = 3;
    let outcome = run(&spec, &one_page(get(Some(2))), 3);
    succeeds(&outcome, 24);
    let counts = outcome.measured.http2.unwrap();
    let connections = outcome.measured.lifetime.connections;
    assert!(connections > 3 && (connections - 1..=connections).contains(&counts.goaways), "{counts:?}");
    assert_eq!(counts.streams - counts.refused, 24);
    // A server that does nothing else.
    let peer = Peer::start(settings(&[]), |_| vec![Act::Write(numbers(kind::GOAWAY, 0, &[0, 0])), Act::Hold]);
    let outcome = run(&h2(&peer.url, KeepAlive, 2), &one_page(get(None)), 1);
    assert_eq!(errors(&outcome), [(ErrorClass::H2Goaway, 2)]);
}

#[test]
fn streams_are_capped_by_the_server_and_by_the_run() {
    for (allowed, asked) in [(2, None), (100, Some(2))] {
        let list = [(frames::setting::MAX_CONCURRENT_STREAMS, allowed)];
        let peer = Peer::start(settings(&list), |seen| {
            // Time for more requests to arrive, which must not happen.
            vec![Act::Wait(Duration::from_millis(3)), Act::Write(answer(seen.stream))]
        });
        let mut spec = h2(&peer.url, KeepAlive, 40);
        spec.client.clients_per_connection = 8;
        spec.client.streams = asked;
        let outcome = run(&spec, &one_page(get(Some(2))), 16);
        succeeds(&outcome, 40);
        let counts = outcome.measured.http2.unwrap();
        assert_eq!((outcome.measured.lifetime.connections, counts.allowed_min), (2, Some(allowed.into())));
        assert!(counts.waited > 0, "{counts:?}");
        if asked.is_some() {
            assert_eq!(counts.concurrent_max, 2);
        }
    }
}

#[test]
fn bodies_follow_the_windows() {
    let list = [(frames::setting::INITIAL_WINDOW_SIZE, 1000)];
    // With the preface the windows of stream and connection are raised, so that all of it comes.
    let greeting = [settings(&list), numbers(kind::WINDOW_UPDATE, 0, &[1 << 20])].concat();
    let raised = settings(&[(frames::setting::INITIAL_WINDOW_SIZE, 1 << 20)]);
    let peer = Peer::start([greeting, raised].concat(), |seen| vec![Act::Write(answer(seen.stream))]);
    let body: String = (0..100_000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    let mut spec = h2(&peer.url, KeepAlive, 6);
    spec.client.method = "POST".into();
    spec.client.body = Some(body.clone());
    spec.client.clients_per_connection = 3;
    let outcome = run(&spec, &one_page(get(Some(2))), 3);
    succeeds(&outcome, 6);
    for seen in &peer.log.lock().unwrap().seen {
        assert_eq!(seen.body, body.as_bytes());
        assert!(seen.head.contains("content-length: 100000\r\n"), "{}", seen.head);
    }
}

/// An answer that is complete before the request is: the stream is given up, but nothing else.
#[test]
fn an_early_answer_ends_a_stream_only() {
    // The connection's first window is never raised, so the body stops; the answer comes with the greeting.
    let greeting = [settings(&[]), headers(1, END, &[(":status", "413")])].concat();
    let peer = Peer::start(greeting, |_| vec![]);
    let mut spec = h2(&peer.url, PerRequest, 1);
    spec.client.method = "POST".into();
    spec.client.body = Some("x".repeat(100_000));
    let mut files = get(None);
    files[0].detail.status = Some(413);
    let outcome = run(&spec, &one_page(files), 1);
    succeeds(&outcome, 1);
}

#[test]
fn templates_and_tables_of_any_size() {
    for table_bytes in [0, 100, 4096, 65_536] {
        let list = [(frames::setting::HEADER_TABLE_SIZE, table_bytes)];
        let peer = Peer::start(settings(&list), |seen| vec![Act::Write(answer(seen.stream))]);
        let mut spec = h2(&peer.url, KeepAlive, 10);
        spec.client.headers.add("X-N", "n{{seq}}");
        let outcome = run(&spec, &one_page(vec![file("/a?{{seq}}", Some(2)), file("/b", Some(2))]), 1);
        succeeds(&outcome, 20);
        let mut paths: Vec<String> = Vec::new();
        for seen in &peer.log.lock().unwrap().seen {
            let line =
                |name: &str| seen.head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            assert!(peer.url.ends_with(&line(":authority: ")), "{}", seen.head);
            assert!(line("x-n: n").parse::<u32>().is_ok());
            paths.push(line(":path: "));
        }
        assert_eq!(paths[..4], ["/a?0", "/b", "/a?2", "/b"]);
    }
}

#[test]
fn a_limit_of_requests_ends_connections() {
    let peer = Peer::start(settings(&[]), |seen| vec![Act::Write(answer(seen.stream))]);
    let mut spec = h2(&peer.url, KeepAlive, 12);
    spec.client.requests_per_connection = Some(4);
    let outcome = run(&spec, &one_page(get(Some(2))), 1);
    succeeds(&outcome, 12);
    assert_eq!(outcome.measured.counts.connections, 3);
    let counts = peer.log.lock().unwrap().seen.iter().filter(|seen| seen.number == 4).count();
    assert_eq!(counts, 3);
}

#[test]
fn files_of_a_page_are_streams_of_one_connection() {
    let peer = Peer::start(settings(&[]), |seen| vec![Act::Write(answer(seen.stream))]);
    let mut spec = h2(&peer.url, PerPage, 3);
    spec.client.parallel = 4;
    let files: Vec<FileRequest> = (0..5).map(|n| file(&format!("/{n}"), Some(2))).collect();
    let outcome = run(&spec, &one_page(files), 1);
    succeeds(&outcome, 15);
    assert_eq!((outcome.measured.counts.connections, outcome.measured.http2.unwrap().concurrent_max), (3, 4));
}
