//! What goes wrong: every failure in its class, at its instant, with the waits that follow.

use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};
use webstone_workload::load::HttpVersion;

use super::*;
use crate::h2::session::Http2;

/// Attempts end after 20 ms; the waits between them are 10, 20, 40 … ms.
#[test]
fn a_connect_ends_with_its_time_out() {
    let mut level = Level::new(KeepAlive, &["/"], SECOND);
    level.clients = 3;
    level.spec.client.connect_timeout = Nanos(20 * MS);
    let connect = |_| Attempt::Lost;
    let measured = level.run(Scripted { connect, answer: |_, _: &str| vec![] });
    // Attempts begin at 0, 30, 70, 130, 230, 410 and 750 ms.
    assert_eq!(errors(&measured), [(ErrorClass::ConnectTimeout, 3 * 7)]);
    assert_eq!((measured.counts.busy_ns, measured.counts.idle_ns), (3 * 140 * MS, 3 * 860 * MS));
    assert_eq!((measured.counts.connections, measured.counts.connections_failed), (0, 21));
}

/// A request may take less time than a connect: it ends with its own time-out, which counts from its start.
#[test]
fn a_connect_ends_with_the_time_out_of_its_request() {
    let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
    level.spec.client.connect_timeout = Nanos(30 * MS);
    level.spec.client.request_timeout = Nanos(20 * MS);
    let connect = |_| Attempt::Lost;
    let measured = level.run(Scripted { connect, answer: |_, _: &str| vec![] });
    // Attempts begin at 0, 30 and 70 ms.
    assert_eq!(errors(&measured), [(ErrorClass::RequestTimeout, 3)]);
    assert_eq!((measured.counts.busy_ns, measured.counts.connections_failed), (60 * MS, 3));
    let detail = &measured.errors.iter().find_map(|(_, _, example)| example).unwrap().detail;
    assert!(detail.starts_with("nothing within 20ms"), "{detail}");
    // After 15 ms the server closes the connection that the second request uses; the next connect is lost, and lasts 5 ms.
    let mut attempts = 0;
    let connect = |_| {
        attempts += 1;
        if attempts % 2 == 1 { Attempt::Stands { handshake_ns: 0, served_ns: 0 } } else { Attempt::Lost }
    };
    let mut number = 0;
    let answer = |_: u64, _: &str| {
        number += 1;
        match number % 2 {
            1 => vec![Act::Write(response(10))],
            _ => vec![Act::Wait(15 * MS), Act::Finish],
        }
    };
    let measured = level.run(Scripted { connect, answer });
    assert_eq!(errors(&measured), [(ErrorClass::RequestTimeout, measured.counts.stale_retries)]);
    assert_eq!(measured.unanswered.response.max, 20 * MS);
}

/// Of two clients that wait for the same connection each has a time-out of its own. One ends the connect only if nobody else waits.
#[test]
fn a_connect_goes_on_for_those_who_still_wait() {
    let mut level = Level::new(KeepAlive, &["/"], 95 * MS);
    (level.spec.client.http, level.spec.client.clients_per_connection) = (HttpVersion::Http2, 2);
    level.spec.client.request_timeout = Nanos(20 * MS);
    level.clients = 2;
    let peer = Scripted { connect: |_| Attempt::Lost, answer: |_, _: &str| vec![] };
    let measured = level.run_over::<Plain, Http2>(peer, None);
    // Of the first, which ends alone, at 20 ms; of the second with the connect, which is followed by a wait of 10 ms. From then on they
    // take turns: at 40, 60 and 80 ms, and at 50, 70 and 90 ms.
    assert_eq!(errors(&measured), [(ErrorClass::RequestTimeout, 8)]);
    assert_eq!(measured.counts.connections_failed, 1);
}

/// Reported after 300 µs, which delays the following waits by as much each time.
#[test]
fn refused_connections_are_retried_after_waits() {
    let attempts_ns = std::cell::RefCell::new(Vec::new());
    let connect = |now_ns| {
        attempts_ns.borrow_mut().push(now_ns);
        Attempt::Refused { after_ns: 300 * US }
    };
    let level = Level::new(KeepAlive, &["/"], SECOND);
    let measured = level.run(Scripted { connect, answer: |_, _: &str| vec![] });
    let expected = [0, 10_300, 30_600, 70_900, 151_200, 311_500, 631_800].map(|us| us * US);
    assert_eq!(*attempts_ns.borrow(), expected);
    assert_eq!(errors(&measured), [(ErrorClass::Refused, 7)]);
    assert_eq!((measured.counts.busy_ns, measured.counts.idle_ns), (2_100 * US, SECOND - 2_100 * US));
}

/// A page is given up if no connection is possible, and begins again after the wait; a success makes waits short.
#[test]
fn a_success_makes_the_next_wait_short_again() {
    let mut attempts = 0;
    let connect = move |_| {
        attempts += 1;
        match attempts % 3 {
            0 => Attempt::Stands { handshake_ns: MS, served_ns: MS },
            _ => Attempt::Refused { after_ns: MS },
        }
    };
    let level = Level::new(PerRequest, &["/"], 3 * 34 * MS);
    let answer = |_: u64, _: &str| vec![Act::Write(response(10))];
    let measured = level.run(Scripted { connect, answer });
    // Refused, 10 ms, refused, 20 ms, answered: 33 ms; the third time that ends at 99 ms.
    assert_eq!((measured.counts.pages_completed, measured.counts.pages_failed), (3, 7));
    assert_eq!(measured.counts.idle_ns, 3 * 30 * MS + 2 * MS);
}

/// A call that fails at once is counted in its class, with nothing in progress.
#[test]
fn a_call_that_fails_has_its_class() {
    use rustix::io::Errno;
    for (errno, class) in [
        (Errno::ADDRNOTAVAIL, ErrorClass::OutOfPorts),
        (Errno::MFILE, ErrorClass::OutOfDescriptors),
        (Errno::NETUNREACH, ErrorClass::Unreachable),
        (Errno::INVAL, ErrorClass::GeneratorIo),
    ] {
        let level = Level::new(KeepAlive, &["/"], 65 * MS);
        let connect = |_| Attempt::Fails(errno);
        let measured = level.run(Scripted { connect, answer: |_, _: &str| vec![] });
        // At 0, 10 and 30 ms.
        assert_eq!(errors(&measured), [(class, 3)]);
        assert_eq!((measured.counts.busy_ns, measured.counts.idle_ns), (0, 65 * MS));
    }
}

/// Whatever ends a connect is followed by a wait: a reset, too.
#[test]
fn a_connect_that_is_reset_is_retried_after_waits() {
    let mut level = Level::new(KeepAlive, &["/"], 65 * MS);
    // So that time passes even without a wait.
    level.wire.call_ns = 100 * US;
    let connect = |_| Attempt::Fails(rustix::io::Errno::CONNRESET);
    let measured = level.run(Scripted { connect, answer: |_, _: &str| vec![] });
    // At 0, 10 and 30 ms.
    assert_eq!(errors(&measured), [(ErrorClass::Reset, 3)]);
    assert_eq!((measured.counts.connections, measured.counts.connections_failed), (0, 3));
}

/// Nothing comes for 20 ms after a connect of 2: the next request begins at once.
#[test]
fn silence_ends_with_the_time_out_of_the_first_byte() {
    let mut level = Level::new(PerRequest, &["/"], 220 * MS + 1);
    level.spec.client.first_byte_timeout = Nanos(20 * MS);
    let measured = level.run(server(2 * MS, |_, _| vec![Act::Wait(SECOND), Act::Write(response(10))]));
    assert_eq!(errors(&measured), [(ErrorClass::FirstByteTimeout, 10)]);
    assert_eq!((measured.counts.busy_ns, measured.counts.connections), (220 * MS + 1, 10));
}

/// The first byte comes, the last does not. The time-out counts from the request's start, including its connect.
#[test]
fn an_answer_that_stops_ends_with_the_time_out_of_the_request() {
    let mut level = Level::new(KeepAlive, &["/"], 250 * MS + 1);
    level.spec.client.request_timeout = Nanos(25 * MS);
    let measured = level.run(server(2 * MS, |_, _| vec![Act::Wait(5 * MS), Act::Write(HEAD.into())]));
    assert_eq!(errors(&measured), [(ErrorClass::RequestTimeout, 10)]);
    assert_eq!((measured.counts.in_flight, measured.counts.connections), (1, 10));
}

/// The server resets or closes after each byte of its answer: what the client counts, and when.
#[test]
fn an_end_after_each_byte_has_its_class() {
    let head = HEAD.len();
    let whole = [HEAD, b"0123456789"].concat();
    for policy in POLICIES {
        for (end, receives_most) in
            [(Act::Reset, 16_384), (Act::Finish, 16_384), (Act::Reset, 1), (Act::Finish, 5)]
        {
            for bytes in 0..whole.len() {
                let mut level = Level::new(policy, &["/"], 30 * MS + 1);
                level.wire.receives_most = receives_most;
                let cut = whole[..bytes].to_vec();
                let acts = vec![Act::Wait(MS), Act::Write(cut), Act::Wait(MS), end.clone()];
                let measured = level.run(server(MS, move |_, _| acts.clone()));
                let class = match end {
                    Act::Reset => ErrorClass::Reset,
                    _ if bytes < head => ErrorClass::ClosedEarly,
                    _ => ErrorClass::ShortBody,
                };
                // Connected after 1 ms, cut off after 3; the next begins at once.
                assert_eq!(errors(&measured), [(class, 10)], "{policy:?}, {end:?} after {bytes}");
                assert_eq!(measured.counts.busy_ns, 30 * MS + 1);
                assert_eq!(measured.lifetime.received_bytes, 10 * bytes as u64);
            }
        }
    }
}

/// On a kept connection a request is sent again if it fails before the first byte of its answer, but not later.
#[test]
fn only_requests_without_a_first_byte_are_sent_again() {
    for (end, class) in [(Act::Reset, ErrorClass::Reset), (Act::Finish, ErrorClass::ClosedEarly)] {
        for bytes in [0, 1, 20] {
            let mut number = 0;
            let level = Level::new(KeepAlive, &["/"], 40 * MS);
            let measured = level.run(server(0, |_, _| {
                number += 1;
                let cut = response(10)[..bytes].to_vec();
                match number % 2 {
                    1 => vec![Act::Wait(MS), Act::Write(response(10))],
                    _ => vec![Act::Wait(MS), Act::Write(cut), end.clone()],
                }
            }));
            let counts = measured.counts;
            match bytes {
                // The second request of each connection is sent again as the first of another: 1 ms, then 2 ms each.
                0 => {
                    assert_eq!((counts.stale_retries, errors(&measured)), (19, vec![]));
                    let times = [(MS, 1), (2 * MS, 19)];
                    are("response", &measured.response, &measured.histograms.response, &times);
                }
                _ => {
                    assert_eq!((counts.stale_retries, errors(&measured)), (0, vec![(class, 19)]));
                    are("response", &measured.response, &measured.histograms.response, &[(MS, 20)]);
                }
            }
        }
    }
}

/// A request that is sent again was sent when it was sent last. Each second request of a connection is: 1 ms, then a connect of 2.
#[test]
fn a_request_is_sent_when_it_is_sent_last() {
    let mut number = 0;
    let (measured, told) = Level::new(KeepAlive, &["/"], 60 * MS).run_told(server(2 * MS, |_, _| {
        number += 1;
        match number % 2 {
            1 => vec![Act::Wait(MS), Act::Write(response(10))],
            _ => vec![Act::Wait(MS), Act::Finish],
        }
    }));
    assert!(measured.counts.stale_retries > 10 && told.len() > 10, "{:?}", measured.counts);
    assert!(told.iter().all(|told| told.sent_ns == told.connected_ns && told.sent_ns.is_some()), "{told:?}");
}

#[test]
fn an_answer_with_another_status_is_an_error_and_the_connection_sound() {
    let mut number = 0;
    let level = Level::new(KeepAlive, &["/"], 20 * MS + 1);
    let measured = level.run(server(0, |_, _| {
        number += 1;
        let busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec();
        vec![Act::Wait(MS), Act::Write(if number % 5 == 0 { busy } else { response(10) })]
    }));
    assert_eq!(errors(&measured), [(ErrorClass::WrongStatus, 4)]);
    assert_eq!((measured.counts.succeeded, measured.counts.connections), (16, 1));
    are("response", &measured.response, &measured.histograms.response, &[(MS, 16)]);
}

/// One request times out before the window, one in a slice that is left out: neither is in the figures, and both failed in the level.
#[test]
fn every_failure_is_one_of_the_level() {
    let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
    level.spec.load.warmup = Nanos(50 * MS);
    level.spec.client.first_byte_timeout = Nanos(20 * MS);
    (level.slice_ns, level.slices, level.left_out) = (20 * MS, 5, vec![2]);
    let mut silent_from_ns = [0, 75 * MS].into_iter().peekable();
    let measured =
        level.run(server(0, move |now_ns, _| match silent_from_ns.next_if(|from_ns| now_ns >= *from_ns) {
            Some(_) => vec![],
            None => vec![Act::Wait(MS), Act::Write(response(10))],
        }));
    assert_eq!((measured.counts.failed, measured.left_out.total.errors, measured.lifetime.failed), (0, 1, 2));
}

/// If a server announces the end of a connection but does not close, the client closes after two seconds.
#[test]
fn a_connection_that_the_server_leaves_open_is_closed_in_the_end() {
    let level = Level::new(PerRequest, &["/"], 3 * SECOND);
    let answer = |_: u64, request: &str| {
        assert!(request.contains("Connection: close"));
        vec![Act::Wait(500 * MS), Act::Write(response(10))]
    };
    struct Stubborn<A>(A);
    impl<A: FnMut(u64, &str) -> Vec<Act>> Peer for Stubborn<A> {
        fn connect(&mut self, _: u64, _: &Address) -> Attempt {
            Attempt::Stands { handshake_ns: 0, served_ns: 0 }
        }
        fn answer(&mut self, now_ns: u64, request: &[u8]) -> Vec<Act> {
            (self.0)(now_ns, std::str::from_utf8(request).unwrap())
        }
    }
    let measured = level.run(Stubborn(answer));
    // Those answered at 500 ms; the one of a second later is still open when the window closes at 3 s.
    assert_eq!((measured.counts.succeeded, measured.counts.lingered), (5, 1));
}

/// A connection that takes no header of the PROXY protocol was established.
#[test]
fn a_connection_that_breaks_before_its_first_bytes_is_counted() {
    let mut level = Level::new(PerRequest, &["/"], 65 * MS);
    level.spec.client.proxy_protocol = Some(webstone_workload::route::ProxyProtocol::V1);
    level.wire.send_room = 10;
    let measured = level.run(steady(MS, MS, 10));
    // At 1, 12 and 33 ms.
    assert_eq!(errors(&measured), [(ErrorClass::GeneratorIo, 3)]);
    assert_eq!((measured.counts.connections, measured.counts.connections_failed), (3, 0));
}

/// What a server sends on a connection that it is to close counts as received, after the last answer of a level as well.
#[test]
fn last_words_are_heard_before_a_level_ends() {
    const WORDS: &[u8] = b"goodbye";
    let mut level = Level::new(PerRequest, &["/"], 35 * MS);
    level.spec.load.drain = Nanos(SECOND);
    let measured = level.run(server(MS, |_, _| {
        let words = Act::Write(WORDS.to_vec());
        vec![Act::Wait(9 * MS), Act::Write(response(10)), Act::Wait(5 * MS), words, Act::Finish]
    }));
    let answers = measured.lifetime.requests;
    assert!(answers >= 4, "{answers}");
    assert_eq!(measured.lifetime.received_bytes, answers * (response(10).len() + WORDS.len()) as u64);
}

/// A server that sends faster than it is read delays no client's time-out, and not the level's end.
#[test]
fn a_server_that_never_pauses_delays_neither_time_outs_nor_the_end() {
    let mut level = Level::new(KeepAlive, &["/"], 350 * MS);
    level.clients = 3;
    // So that bodies are received, not thrown away.
    level.spec.client.check = webstone_workload::load::Check::Content;
    level.spec.client.request_timeout = Nanos(100 * MS);
    level.spec.load.drain = Nanos(50 * MS);
    level.wire.call_ns = 50 * US;
    level.wire.receives_most = 64 * 1024;
    let measured = level.run(server(0, |_, _| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\n".to_vec();
        vec![Act::Write(head), Act::Fill(1_000_000_000_000_000_000)]
    }));
    // A round reads 1 MiB of each: 16 calls of 50 µs, 2.4 ms for all three; time-outs are late by as much.
    assert_eq!(errors(&measured), [(ErrorClass::RequestTimeout, 9)]);
    assert_eq!(measured.counts.in_flight, 3);
    assert_eq!(measured.lifetime.cut_off, 3);
    assert!(measured.clients.iter().all(|client| client.errors == 3), "{:?}", measured.clients);
}
