//! What HTTP/2 servers may do, and what they may not, besides single frames: with a peer that speaks frame by frame.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::frame_peer::{Act, END, Peer, answer, data, get, h2, numbers, settings, succeeds};
use super::peer::{errors, one_page, run};
use webstone_engine::h2::frames::{kind, setting};
use webstone_measure::errors::ErrorClass;
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
