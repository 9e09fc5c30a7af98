//! Each violation by an HTTP/3 server is exactly one class of error, and one code that the server is sent. What is allowed is no error.
//! The table in `docs/http3.md` is this one.

use std::fmt::Write;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use webstone_workload::RequestDetail;

use super::http3::level;
use super::http3_server::{Deed, Fate, Http3Server};
use super::*;
use crate::h3::frames::{code, write_number};
use crate::h3::qpack;
use crate::h3::session::Http3;
use Deed::{
    Answer, Close, Control, EndControl, Finish, Open, OpenAndEnd, Reset, ResetControl, StopControl, Wait,
};

/// What servers do; the class of the one error; the code that they are told, and whether it ends the connection.
type Row = (&'static str, Vec<Deed>, Option<ErrorClass>, Option<(bool, u64)>);

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_number(kind, &mut bytes);
    write_number(payload.len() as u64, &mut bytes);
    bytes.extend(payload);
    bytes
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = qpack::PREFIX.to_vec();
    fields.iter().for_each(|(name, value)| qpack::write_field(name, value.as_bytes(), &mut section));
    frame(1, &section)
}

/// A HEADERS frame of this section.
fn section(bytes: &[u8]) -> Deed {
    Answer(frame(1, &[&qpack::PREFIX, bytes].concat()))
}

/// The connection is ended by this code.
fn connection(code: u64) -> Option<(bool, u64)> {
    Some((true, code))
}

/// The stream is given up by this code.
fn stream(code: u64) -> Option<(bool, u64)> {
    Some((false, code))
}

fn ok() -> Vec<u8> {
    headers(&[(":status", "200")])
}

/// Frames after a head.
fn after_head(frames: &[Vec<u8>]) -> Deed {
    Answer([ok(), frames.concat()].concat())
}

fn of_length(length: &str, body: &[u8]) -> Deed {
    Answer([headers(&[(":status", "200"), ("content-length", length)]), frame(0, body)].concat())
}

fn rows() -> Vec<Row> {
    use ErrorClass::{ClosedEarly, H3Closed, H3Compression, H3Flood, H3Protocol, H3Reset};
    let wrong = Some(H3Protocol);
    let body = || frame(0, b"x");
    let trailers = || headers(&[("x-trailer", "1")]);
    vec![
        ("DATA on the control stream", vec![Control(body())], wrong, connection(code::FRAME_UNEXPECTED)),
        ("HEADERS on the control stream", vec![Control(ok())], wrong, connection(code::FRAME_UNEXPECTED)),
        (
            "MAX_PUSH_ID on the control stream",
            vec![Control(frame(0xd, &[0]))],
            wrong,
            connection(code::FRAME_UNEXPECTED),
        ),
        (
            "a frame of HTTP/2 (PING) on the control stream",
            vec![Control(frame(6, &[0; 8]))],
            wrong,
            connection(code::FRAME_UNEXPECTED),
        ),
        (
            "a frame of HTTP/2 (PRIORITY) in an answer",
            vec![after_head(&[frame(2, &[0; 5])])],
            wrong,
            connection(code::FRAME_UNEXPECTED),
        ),
        ("SETTINGS in an answer", vec![Answer(frame(4, &[]))], wrong, connection(code::FRAME_UNEXPECTED)),
        ("GOAWAY in an answer", vec![Answer(frame(7, &[0]))], wrong, connection(code::FRAME_UNEXPECTED)),
        ("DATA before the head", vec![Answer(body())], wrong, connection(code::FRAME_UNEXPECTED)),
        (
            "DATA after an interim answer alone",
            vec![Answer([headers(&[(":status", "103")]), body()].concat())],
            wrong,
            connection(code::FRAME_UNEXPECTED),
        ),
        (
            "DATA after trailers",
            vec![after_head(&[body(), trailers(), body()])],
            wrong,
            connection(code::FRAME_UNEXPECTED),
        ),
        (
            "HEADERS after trailers",
            vec![after_head(&[trailers(), trailers()])],
            wrong,
            connection(code::FRAME_UNEXPECTED),
        ),
        (
            "a second control stream",
            vec![Open(vec![0, 4, 0])],
            wrong,
            connection(code::STREAM_CREATION_ERROR),
        ),
        (
            "a second encoder stream of QPACK",
            vec![Open(vec![2]), Open(vec![2])],
            wrong,
            connection(code::STREAM_CREATION_ERROR),
        ),
        ("a second SETTINGS frame", vec![Control(frame(4, &[]))], wrong, connection(code::FRAME_UNEXPECTED)),
        ("the end of the control stream", vec![EndControl], wrong, connection(code::CLOSED_CRITICAL_STREAM)),
        (
            "a reset of the control stream",
            vec![ResetControl],
            wrong,
            connection(code::CLOSED_CRITICAL_STREAM),
        ),
        (
            "a request to stop the client's control stream (STOP_SENDING)",
            vec![StopControl],
            wrong,
            connection(code::CLOSED_CRITICAL_STREAM),
        ),
        (
            "the end of QPACK's encoder stream",
            vec![OpenAndEnd(vec![2])],
            wrong,
            connection(code::CLOSED_CRITICAL_STREAM),
        ),
        ("a push stream", vec![Open(vec![1, 0])], wrong, connection(code::ID_ERROR)),
        ("PUSH_PROMISE in an answer", vec![Answer(frame(5, &[0]))], wrong, connection(code::ID_ERROR)),
        ("CANCEL_PUSH", vec![Control(frame(3, &[0]))], wrong, connection(code::ID_ERROR)),
        (
            "a header field of the dynamic table",
            vec![section(&[0x80])],
            Some(H3Compression),
            connection(code::QPACK_DECOMPRESSION_FAILED),
        ),
        (
            "an index beyond the static table",
            vec![section(&[0xff, 0x24])],
            Some(H3Compression),
            connection(code::QPACK_DECOMPRESSION_FAILED),
        ),
        (
            "a field section whose base is negative",
            vec![Answer(frame(1, &[0, 0x80, 0xd9]))],
            Some(H3Compression),
            connection(code::QPACK_DECOMPRESSION_FAILED),
        ),
        (
            "a field section that ends in the middle",
            vec![section(&[0x51, 5, b'a'])],
            Some(H3Compression),
            connection(code::QPACK_DECOMPRESSION_FAILED),
        ),
        (
            "an insertion into the dynamic table",
            vec![Open(vec![2, 0x80, 0])],
            Some(H3Compression),
            connection(code::QPACK_ENCODER_STREAM_ERROR),
        ),
        (
            "an acknowledgement of the dynamic table",
            vec![Open(vec![3, 0x80])],
            Some(H3Compression),
            connection(code::QPACK_DECODER_STREAM_ERROR),
        ),
        ("a body shorter than its content-length", vec![of_length("2", b"x"), Finish], wrong, None),
        ("a body longer than its content-length", vec![of_length("2", b"xxx"), Finish], wrong, None),
        (
            "two content-lengths",
            vec![Answer(headers(&[(":status", "200"), ("content-length", "1"), ("content-length", "2")]))],
            wrong,
            stream(code::MESSAGE_ERROR),
        ),
        (
            "a body after status 204",
            vec![Answer([headers(&[(":status", "204")]), body()].concat())],
            wrong,
            stream(code::MESSAGE_ERROR),
        ),
        (
            "a head without `:status`",
            vec![Answer(headers(&[("server", "x")]))],
            wrong,
            stream(code::MESSAGE_ERROR),
        ),
        (
            "`:status` after other fields",
            vec![Answer(headers(&[("server", "x"), (":status", "200")]))],
            wrong,
            stream(code::MESSAGE_ERROR),
        ),
        (
            "a pseudo-header field of requests",
            vec![Answer(headers(&[(":status", "200"), (":path", "/")]))],
            wrong,
            stream(code::MESSAGE_ERROR),
        ),
        (
            "`Connection`",
            vec![Answer(headers(&[(":status", "200"), ("connection", "close")]))],
            wrong,
            stream(code::MESSAGE_ERROR),
        ),
        (
            "a field's name in capital letters",
            vec![Answer(headers(&[(":status", "200"), ("X-Big", "1")]))],
            wrong,
            stream(code::MESSAGE_ERROR),
        ),
        ("status 101", vec![Answer(headers(&[(":status", "101")]))], wrong, stream(code::MESSAGE_ERROR)),
        ("a second final head", vec![after_head(&[ok()])], wrong, stream(code::MESSAGE_ERROR)),
        ("an answer that ends before its head", vec![Finish], wrong, None),
        (
            "an answer that ends in the middle of a frame",
            vec![after_head(&[vec![0, 5, b'x']]), Finish],
            wrong,
            connection(code::FRAME_ERROR),
        ),
        (
            "a field section of more than 256 KiB",
            vec![Answer(vec![1, 0x80, 4, 0, 1])],
            Some(H3Flood),
            stream(code::EXCESSIVE_LOAD),
        ),
        (
            "65 interim answers to a request",
            vec![Answer(headers(&[(":status", "103")]).repeat(65))],
            Some(H3Flood),
            stream(code::EXCESSIVE_LOAD),
        ),
        (
            "GOAWAY that is not one number",
            vec![Control(frame(7, &[0, 0]))],
            wrong,
            connection(code::FRAME_ERROR),
        ),
        (
            "GOAWAY with the number of no request",
            vec![Control(frame(7, &[3]))],
            wrong,
            connection(code::ID_ERROR),
        ),
        (
            "GOAWAY with a higher number than before",
            vec![Control(frame(7, &[8])), Control(frame(7, &[12]))],
            wrong,
            connection(code::ID_ERROR),
        ),
        ("a stream reset by H3_INTERNAL_ERROR", vec![Reset(0x102)], Some(H3Reset), None),
        (
            "a stream reset in the middle of the body",
            vec![after_head(&[body()]), Wait, Reset(code::REQUEST_CANCELLED)],
            Some(H3Reset),
            None,
        ),
        ("a connection closed by H3_INTERNAL_ERROR", vec![Close(0x102)], Some(H3Closed), None),
        ("a connection closed by an unknown code", vec![Close(0x1234)], Some(H3Closed), None),
        (
            "a connection closed by H3_NO_ERROR in the middle of an answer",
            vec![after_head(&[body()]), Wait, Close(code::NO_ERROR)],
            Some(ClosedEarly),
            None,
        ),
        (
            "a connection closed by H3_NO_ERROR before an answer: sent again",
            vec![Close(code::NO_ERROR)],
            None,
            None,
        ),
        (
            "a stream reset by H3_REQUEST_REJECTED: sent again",
            vec![Reset(code::REQUEST_REJECTED)],
            None,
            None,
        ),
        ("GOAWAY below the request: sent again", vec![Control(frame(7, &[0]))], None, None),
        (
            "GOAWAY above the request, and the answer",
            vec![Control(frame(7, &[8])), after_head(&[body()]), Finish],
            None,
            None,
        ),
        (
            "up to 64 interim answers",
            vec![
                Answer(
                    [
                        headers(&[(":status", "103"), ("link", "</a>")]).repeat(63),
                        headers(&[(":status", "100")]),
                        ok(),
                    ]
                    .concat(),
                ),
                Finish,
            ],
            None,
            None,
        ),
        ("trailers", vec![after_head(&[body(), trailers()]), Finish], None, None),
        (
            "unknown frames (GREASE)",
            vec![
                Control(frame(0x21, b"xx")),
                after_head(&[frame(0x40, b""), body(), frame(0x1f_ffff, b"x")]),
                Finish,
            ],
            None,
            None,
        ),
        (
            "unknown streams (GREASE), also ended and cut",
            vec![
                Open(vec![0x21, 1]),
                OpenAndEnd(vec![0x40, 0x54, 9]),
                OpenAndEnd(vec![0x80]),
                after_head(&[]),
                Finish,
            ],
            None,
            None,
        ),
        (
            "QPACK's streams without a dynamic table",
            vec![
                Control(frame(0x21, b"x")),
                Open(vec![2, 0x20]),
                Open(vec![3, 0x44]),
                after_head(&[]),
                Finish,
            ],
            None,
            None,
        ),
    ]
}

/// What it is, its bytes, the class of error, and the code of the stream or connection.
type Beginning = (&'static str, Vec<u8>, Option<ErrorClass>, Option<(bool, u64)>);

/// The same for the first bytes of a control stream.
fn beginnings() -> Vec<Beginning> {
    let wrong = Some(ErrorClass::H3Protocol);
    vec![
        (
            "a control stream that does not begin with SETTINGS",
            [0, 7, 1, 0].to_vec(),
            wrong,
            connection(code::MISSING_SETTINGS),
        ),
        ("a setting that only HTTP/2 has", [0, 4, 2, 2, 0].to_vec(), wrong, connection(code::SETTINGS_ERROR)),
        ("a setting given twice", [0, 4, 4, 6, 0, 6, 0].to_vec(), wrong, connection(code::SETTINGS_ERROR)),
        (
            "SETTINGS that end in the middle of one",
            [0, 4, 1, 6].to_vec(),
            wrong,
            connection(code::FRAME_ERROR),
        ),
        (
            "a SETTINGS frame of more than 16 KiB",
            [0, 4, 0x80, 0, 0x40, 1].to_vec(),
            Some(ErrorClass::H3Flood),
            connection(code::EXCESSIVE_LOAD),
        ),
        ("unknown settings, and QPACK's", [0, 4, 7, 0x21, 9, 1, 0x50, 0, 7, 4].to_vec(), None, None),
    ]
}

/// The first connection begins like this, its second request meets these deeds, and all others are answered.
fn play(begins: Option<Vec<u8>>, deeds: Option<Vec<Deed>>) -> (Measured, Vec<(bool, u64)>) {
    let mut deeds = deeds;
    let mut server = Http3Server::new(MS, 10, |number| match number {
        2 => deeds.take().map_or(Fate::Answer, Fate::Play),
        _ => Fate::Answer,
    });
    if let Some(begins) = begins {
        server.begins = begins;
    }
    let measured = level(ConnectionPolicy::KeepAlive, 1, 30 * MS).run_over::<Plain, Http3>(&mut server, None);
    (measured, server.told)
}

#[test]
fn each_misdeed_has_one_class_and_one_code() {
    let mut table =
        String::from("| what the server does | class of the error | the server is told |\n|---|---|---|\n");
    let begin =
        beginnings().into_iter().map(|(name, begins, class, told)| (name, Some(begins), None, class, told));
    let answer = rows().into_iter().map(|(name, deeds, class, told)| (name, None, Some(deeds), class, told));
    for (name, begins, deeds, class, told) in begin.chain(answer) {
        let (measured, heard) = play(begins, deeds);
        let expected: Vec<_> = class.iter().map(|class| (*class, 1)).collect();
        assert_eq!(errors(&measured), expected, "{name}: {:?}", measured.errors);
        assert_eq!(heard, told.into_iter().collect::<Vec<_>>(), "{name}");
        assert!(measured.counts.succeeded >= 5, "{name}: the load goes on: {:?}", measured.counts);
        let class = class.map_or_else(|| "none".to_owned(), |class| format!("`{}`", class.name()));
        let told = told.map_or_else(String::new, |(ends, code)| {
            format!("{}{}", code::name(code), if ends { ", and the connection ends" } else { "" })
        });
        writeln!(table, "| {name} | {class} | {told} |").unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http3.md");
    let document = std::fs::read_to_string(path).unwrap();
    assert!(document.contains(&table), "docs/http3.md must have this table:\n{table}");
}

/// The class of the error that the check before the load ends in, if its request meets these deeds.
fn checked(deeds: Vec<Deed>) -> Result<u16, ErrorClass> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", socket.local_addr().unwrap());
    let mut spec = level(ConnectionPolicy::KeepAlive, 1, MS).spec.client;
    spec.request_timeout = Nanos::from_secs(10);
    let mut server = Http3Server::new(0, 10, |_| Fate::Play(deeds.clone()));
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&socket, &stops));
        let outcome = crate::Probe::new(&url, &spec).unwrap().fetch("/", &RequestDetail::default());
        stops.store(true, Ordering::SeqCst);
        serving.join().unwrap();
        outcome.map(|answer| answer.status).map_err(|error| error.class)
    })
}

#[test]
fn the_check_before_the_load_accepts_and_refuses_what_a_run_does() {
    use ErrorClass::{H3Compression, H3Flood, H3Protocol};
    for (name, deeds, class, _) in rows() {
        match class {
            Some(H3Compression | H3Flood | H3Protocol) => {
                assert_eq!(checked(deeds).err(), class, "{name}");
            }
            None if deeds.ends_with(&[Finish]) => assert_eq!(checked(deeds), Ok(200), "{name}"),
            _ => {}
        }
    }
}
