//! What HTTP/2 servers may do, and what they may not, besides single frames: with a peer that speaks frame by frame.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::frame_peer::{Act, END, Peer, answer, data, get, h2, headers, numbers, settings, succeeds};
use super::peer::{errors, one_page, run};
use webstone_engine::h2::frames::{kind, setting};
use webstone_measure::errors::ErrorClass;
use webstone_measure::units::Nanos;
use webstone_workload::load::ConnectionPolicy::KeepAlive;

/// The window of a connection before its first WINDOW_UPDATE, in bytes.
const WINDOW: usize = 65_535;
/// RFC 9113, section 7.
const INTERNAL_ERROR: u32 = 2;

/// Go's server raises both windows by what it has read, a few KiB at a time.
#[test]
fn an_upload_may_take_any_number_of_window_updates() {
    const UPDATES: usize = 5_100;
    let raised = [numbers(kind::WINDOW_UPDATE, 0, &[10]), numbers(kind::WINDOW_UPDATE, 1, &[10])].concat();
    let greeting = [settings(&[(setting::INITIAL_WINDOW_SIZE, WINDOW as u32)]), raised.repeat(UPDATES)];
    let peer = Peer::start(greeting.concat(), |seen| vec![Act::Write(answer(seen.stream))]);
    let mut spec = h2(&peer.url, KeepAlive, 1);
    spec.client.method = "POST".into();
    spec.client.body = Some("x".repeat(WINDOW + 10 * UPDATES));
    let outcome = run(&spec, &one_page(get(Some(2))), 1);
    succeeds(&outcome, 1);
    assert_eq!(peer.log.lock().unwrap().seen[0].body.len(), WINDOW + 10 * UPDATES);
}

/// Requests above the last stream that a GOAWAY names were not processed, whatever its code: they are sent again, and only
/// the others fail (RFC 9113, section 6.8).
#[test]
fn a_goaway_with_an_error_fails_only_what_may_have_been_processed() {
    let total = AtomicUsize::new(0);
    let peer = Peer::start(settings(&[]), move |seen| match total.fetch_add(1, Relaxed) {
        0 | 1 => vec![],
        2 => vec![Act::Write(numbers(kind::GOAWAY, 0, &[1, INTERNAL_ERROR])), Act::Finish],
        _ => vec![Act::Write(answer(seen.stream))],
    });
    let mut spec = h2(&peer.url, KeepAlive, 6);
    spec.client.method = "POST".into();
    spec.client.clients_per_connection = 3;
    let outcome = run(&spec, &one_page(get(Some(2))), 3);
    assert_eq!(errors(&outcome), [(ErrorClass::H2Goaway, 1)]);
    assert_eq!((outcome.measured.counts.succeeded, outcome.measured.counts.connections), (5, 2));
    let counts = outcome.measured.http2.unwrap();
    assert_eq!((counts.refused, counts.retried), (2, 2));
}

/// What waits for a stream was never sent, so that no error of the connection is its own.
#[test]
fn requests_that_wait_survive_an_error_of_their_connection() {
    for (misdeed, class) in [
        (numbers(kind::GOAWAY, 0, &[1, INTERNAL_ERROR]), ErrorClass::H2Goaway),
        (data(0, END, b"x"), ErrorClass::H2Protocol),
    ] {
        let total = AtomicUsize::new(0);
        let peer = Peer::start(settings(&[]), move |seen| match total.fetch_add(1, Relaxed) {
            0 => vec![Act::Write(misdeed.clone()), Act::Hold],
            _ => vec![Act::Write(answer(seen.stream))],
        });
        let mut spec = h2(&peer.url, KeepAlive, 6);
        spec.client.method = "POST".into();
        spec.client.clients_per_connection = 3;
        spec.client.streams = Some(1);
        let outcome = run(&spec, &one_page(get(Some(2))), 3);
        assert_eq!(errors(&outcome), [(class, 1)], "{:?}", outcome.measured.errors);
        assert_eq!((outcome.measured.counts.succeeded, outcome.measured.counts.connections), (5, 2));
    }
}

/// A server that processes nothing on any connection: each request fails after 17 attempts, also those that wait.
#[test]
fn a_server_that_always_goes_away_has_an_end() {
    for streams in [None, Some(1)] {
        let peer = Peer::start(settings(&[]), |_| {
            vec![Act::Write(numbers(kind::GOAWAY, 0, &[0, INTERNAL_ERROR])), Act::Finish]
        });
        let mut spec = h2(&peer.url, KeepAlive, 6);
        spec.client.clients_per_connection = 3;
        spec.client.streams = streams;
        let outcome = run(&spec, &one_page(get(None)), 3);
        assert_eq!(errors(&outcome), [(ErrorClass::H2Goaway, 6)]);
    }
}

/// RFC 9113, section 5.1: a stream that the server has ended brings nothing more.
#[test]
fn frames_on_a_stream_that_the_server_has_ended_are_a_violation() {
    for misdeed in [|id| data(id, 0, b"more"), |id| headers(id, END, &[(":status", "200")])] {
        let peer = Peer::start(settings(&[]), move |seen| {
            vec![Act::Write([answer(seen.stream), misdeed(seen.stream)].concat())]
        });
        // The second request of each connection has begun when the frame after the first answer is read.
        let outcome = run(&h2(&peer.url, KeepAlive, 4), &one_page(get(Some(2))), 1);
        assert_eq!(errors(&outcome), [(ErrorClass::H2Protocol, 2)]);
        assert_eq!((outcome.measured.counts.succeeded, outcome.measured.counts.connections), (2, 2));
        // Later, with no request in progress.
        let peer = Peer::start(settings(&[]), move |seen| {
            let later = Act::Wait(Duration::from_millis(50));
            vec![Act::Write(answer(seen.stream)), later, Act::Write(misdeed(seen.stream))]
        });
        let mut workload = one_page(get(Some(2)));
        workload.pages[0].think = Nanos::from_secs(3);
        let outcome = run(&h2(&peer.url, KeepAlive, 3), &workload, 1);
        succeeds(&outcome, 3);
        assert_eq!((outcome.measured.counts.surplus, outcome.measured.counts.connections), (2, 3));
    }
}

/// The client gave the request up, and the answer was on its way.
#[test]
fn frames_on_a_stream_that_the_client_has_reset_are_ignored() {
    let peer = Peer::start(settings(&[]), |seen| match seen.number {
        2 => vec![],
        // The client has given the second up, whose answer comes now.
        3 => vec![Act::Write([answer(seen.stream - 2), answer(seen.stream)].concat())],
        _ => vec![Act::Write(answer(seen.stream))],
    });
    let class = ErrorClass::FirstByteTimeout;
    let mut spec = h2(&peer.url, KeepAlive, 4);
    spec.client.first_byte_timeout = Nanos::from_secs(5);
    spec.load.drain = Nanos::from_secs(5);
    let outcome = run(&spec, &one_page(get(Some(2))), 1);
    assert_eq!(errors(&outcome), [(class, 1)]);
    assert_eq!((outcome.measured.counts.succeeded, outcome.measured.counts.connections), (3, 1));
    assert!(peer.log.lock().unwrap().goaways.is_empty());
}

/// RFC 9113, section 8.2.1.
#[test]
fn white_space_around_a_value_is_a_violation() {
    for value in [" y", "y ", "\ty", "y\t", " "] {
        let peer = Peer::start(settings(&[]), move |seen| {
            vec![Act::Write(headers(seen.stream, END, &[(":status", "200"), ("x", value)]))]
        });
        let outcome = run(&h2(&peer.url, KeepAlive, 2), &one_page(get(None)), 1);
        assert_eq!(errors(&outcome), [(ErrorClass::H2Protocol, 2)], "{value:?}");
    }
}

#[test]
fn silence_times_out_and_the_connection_stays_usable() {
    for class in [ErrorClass::FirstByteTimeout, ErrorClass::RequestTimeout] {
        let peer = Peer::start(settings(&[]), move |seen| match seen.number {
            2 if class == ErrorClass::RequestTimeout => {
                vec![Act::Write(headers(seen.stream, 0, &[(":status", "200")]))]
            }
            2 => vec![],
            _ => vec![Act::Write(answer(seen.stream))],
        });
        let mut spec = h2(&peer.url, KeepAlive, 4);
        match class {
            ErrorClass::FirstByteTimeout => spec.client.first_byte_timeout = Nanos::from_secs(5),
            _ => spec.client.request_timeout = Nanos::from_secs(5),
        }
        let outcome = run(&spec, &one_page(get(Some(2))), 1);
        assert_eq!(errors(&outcome), [(class, 1)]);
        assert_eq!((outcome.measured.counts.succeeded, outcome.measured.counts.connections), (3, 1));
        assert_eq!(peer.log.lock().unwrap().resets, [8], "CANCEL");
    }
}
