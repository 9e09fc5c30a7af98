//! Sides of a duel on the simulated network: what each slice counts is known to the nanosecond.

use std::sync::Arc;

use webstone_measure::metrics::Measured;
use webstone_measure::slices::Slice;
use webstone_workload::load::ConnectionPolicy;

use super::side::Side;
use crate::h1::session::Http1;
use crate::layer::Plain;
use crate::observe::Observer;
use crate::shared::Shared;
use crate::simulated_tests::network::{Act, Peer, Simulated};
use crate::simulated_tests::{Level, MS, US, response, server, steady};
use crate::sys::Backend;
use crate::worker::Worker;

const SLICE_NS: u64 = 10 * MS;
const DRAIN_NS: u64 = 50 * MS;

/// Runs slices of one side, one after the other.
fn slices(level: &Level, peer: &mut dyn Peer, count: usize) -> (Vec<Slice>, Measured) {
    slices_with_rests(level, peer, count, 0)
}

/// Runs slices of one side, which rests for this long before each.
fn slices_with_rests(
    level: &Level,
    peer: &mut dyn Peer,
    count: usize,
    rest_ns: u64,
) -> (Vec<Slice>, Measured) {
    let job = level.job(1);
    let network = Simulated::new(peer, level.wire.clone());
    let shared = Arc::new(Shared::new(&job.plan, u64::MAX, 1));
    let seat = job.dealt().unwrap()[0];
    let observer = Observer::new(None, None);
    let mut side = Worker::<_, Plain, Http1>::new(job.plan.clone(), shared, seat, network, observer).unwrap();
    Side::begin(&mut side, false);
    Side::open(&mut side);
    let mut slice = || {
        let rests_until_ns = side.backend.now_ns() + rest_ns;
        side.backend.pass_to(rests_until_ns);
        side.run_slice(SLICE_NS, DRAIN_NS).unwrap()
    };
    let made: Vec<Slice> = (0..count).map(|_| slice()).collect();
    let sum = made.iter().map(|slice| slice.took_ns).sum();
    (made, Side::end(&mut side, sum))
}

fn level(clients: u32) -> Level {
    Level { clients, ..Level::new(ConnectionPolicy::KeepAlive, &["/"], 1_000 * MS) }
}

/// A server that needs 103 µs is 3 % slower than one that needs 100 µs, exactly.
#[test]
fn the_rate_of_a_slice_is_that_of_its_server() {
    for (service_ns, requests) in [(100 * US, 100), (103 * US, 98)] {
        let (slices, measured) = slices(&level(1), &mut steady(0, service_ns, 10), 5);
        // The first one connects, which takes no time here.
        for slice in &slices {
            assert_eq!((slice.requests, slice.took_ns), (requests, requests * service_ns), "{slice:?}");
            assert_eq!((slice.response_ns, slice.errors, slice.unanswered), (requests * service_ns, 0, 0));
        }
        assert_eq!(measured.counts.succeeded, 5 * requests);
        assert_eq!(measured.window_ns, 5 * requests * service_ns);
        assert_eq!((measured.histograms.response.len(), measured.counts.in_flight), (5 * requests, 0));
        assert_eq!(measured.counts.connections, 1, "the link is kept from slice to slice");
    }
}

/// A server closes what was idle for 5 ms, which its connections are while the side rests: a request that may not be sent twice goes over
/// a new one.
#[test]
fn a_slice_begins_with_what_happened_in_the_rest() {
    let mut level = level(3);
    level.spec.client.method = "POST".to_owned();
    level.spec.client.body = Some("x".to_owned());
    let mut peer = server(0, |now_ns, _| {
        let mut acts = vec![Act::Wait(MS), Act::Write(response(10))];
        // Requests of the last millisecond of a slice are not followed by others.
        if now_ns % (30 * MS) >= 29 * MS {
            acts.extend([Act::Wait(5 * MS), Act::Finish]);
        }
        acts
    });
    let (slices, measured) = slices_with_rests(&level, &mut peer, 4, 20 * MS);
    let errors: Vec<u64> = slices.iter().map(|slice| slice.errors).collect();
    assert_eq!((errors, measured.counts.connections), (vec![0; 4], 3 * 4), "{slices:?}");
}

#[test]
fn sums_of_slices_are_the_totals() {
    let (slices, measured) = slices(&level(7), &mut steady(2 * MS, 300 * US, 1_000), 8);
    let sum = |of: fn(&Slice) -> u64| slices.iter().map(of).sum::<u64>();
    let counts = &measured.counts;
    assert_eq!(sum(|slice| slice.requests), counts.succeeded);
    assert_eq!(sum(|slice| slice.bytes), counts.head_bytes + counts.body_bytes);
    assert_eq!(sum(|slice| slice.response_ns), measured.response.sum);
    assert_eq!(sum(|slice| slice.took_ns), measured.window_ns);
    assert_eq!((counts.started, counts.failed, counts.connections), (counts.succeeded, 0, 7));
}

/// The fifth request is never answered. The others of its slice are, then its connection is closed; the next slice begins with a new one.
#[test]
fn what_does_not_drain_is_counted_and_not_waited_for() {
    let mut asked = 0;
    let mut peer = server(0, move |_, _| {
        asked += 1;
        if asked == 5 { vec![] } else { vec![Act::Wait(MS), Act::Write(response(10))] }
    });
    let (slices, measured) = slices(&level(2), &mut peer, 3);
    let unanswered: Vec<u64> = slices.iter().map(|slice| slice.unanswered).collect();
    assert_eq!(unanswered, [1, 0, 0]);
    assert_eq!(slices[0].took_ns, SLICE_NS + DRAIN_NS);
    assert_eq!((slices[1].took_ns, slices[1].requests), (SLICE_NS, 20));
    let counts = &measured.counts;
    assert_eq!((counts.in_flight, counts.connections), (1, 3));
    assert_eq!(counts.started, counts.succeeded + counts.failed + counts.in_flight);
    assert_eq!(measured.unanswered.histograms.response.len(), 1, "its age is a lower bound");
}

#[test]
fn a_page_that_has_begun_is_ended_before_the_side_rests() {
    let level = Level::new(ConnectionPolicy::KeepAlive, &["/a", "/b", "/c"], 1_000 * MS);
    let (slices, measured) = slices(&level, &mut steady(0, 700 * US, 10), 4);
    for slice in &slices {
        // Pages of 2.1 ms: the fifth begins at 8.4 ms.
        assert_eq!((slice.requests, slice.took_ns), (15, 10_500 * US));
    }
    assert_eq!((measured.counts.pages_completed, measured.counts.pages_failed), (20, 0));
}

/// After a rest, the schedule continues where it stopped: with an arrival every 3 ms, slices of 10 ms have 3 or 4, as the schedule has.
#[test]
fn an_open_loop_keeps_its_rate_over_slices() {
    let mut level = level(4);
    level.rate = Some("333.333".to_owned());
    let (slices, measured) = slices(&level, &mut steady(0, 200 * US, 10), 30);
    let requests: u64 = slices.iter().map(|slice| slice.requests).sum();
    assert_eq!(requests, 100, "{:?}", slices.iter().map(|slice| slice.requests).collect::<Vec<_>>());
    assert!(slices.iter().all(|slice| (3..=4).contains(&slice.requests) && slice.unanswered == 0));
    let open_loop = measured.open_loop.as_ref().unwrap();
    assert_eq!((open_loop.planned, open_loop.started, open_loop.queued), (100, 100, 0));
    assert_eq!(measured.response.max, 200 * US, "no arrival waited for the rest of another slice");
}

/// One client, and arrivals that come twice as fast as it is served: those of a slice are served before the side rests.
#[test]
fn arrivals_that_wait_are_served_before_the_side_rests() {
    let mut level = level(1);
    level.rate = Some("1000".to_owned());
    let (slices, measured) = slices(&level, &mut steady(0, 2 * MS, 10), 3);
    for slice in &slices {
        assert_eq!((slice.requests, slice.unanswered, slice.took_ns), (10, 0, 20 * MS));
    }
    assert_eq!(measured.response.max, 2 * MS * 10 - 9 * MS);
}
