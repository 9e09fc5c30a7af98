//! Slices that are left out: known disturbances in, the figures of the other slices out. That slices change nothing while all are
//! kept is tested by every other level here, which is counted in slices, too.

use ConnectionPolicy::{KeepAlive, PerPage, PerRequest};

use super::*;

/// Answers after 2 ms; after 12 ms from `from_ns` to `to_ns` of the window.
fn slow(from_ns: u64, to_ns: u64) -> impl Peer {
    server(0, move |now_ns, _| {
        let took_ns = if (from_ns..to_ns).contains(&now_ns) { 12 * MS } else { 2 * MS };
        vec![Act::Wait(took_ns), Act::Write(response(10))]
    })
}

/// Ten slices of 100 ms, all judged, with these left out.
fn level(clients: u32, left_out: &[u32]) -> Level {
    Level {
        clients,
        slice_ns: 100 * MS,
        slices: 10,
        left_out: left_out.to_vec(),
        ..Level::new(KeepAlive, &["/"], 1_000 * MS)
    }
}

/// The slow span is 300 to 500 ms, and 500 to 600 ms drain it.
#[test]
fn what_is_left_out_is_in_no_figure_but_the_seconds() {
    let measured = level(4, &[3, 4, 5]).run(slow(300 * MS, 500 * MS));
    assert_eq!((measured.window_ns, measured.left_out.ns, measured.left_out.slices), (700 * MS, 300 * MS, 3));
    assert_eq!(measured.response.max, 2 * MS, "nothing slow is left");
    assert_eq!(measured.response.min_or_zero(), 2 * MS);
    // Four clients, an answer every 2 ms each.
    let per_slice = 4 * 50;
    assert!(measured.counts.succeeded.abs_diff(7 * per_slice) <= 4, "{:?}", measured.counts);
    // What was in progress when the slow slices began is accounted for, and so is what was when they were over.
    assert_eq!((measured.counts.left_open, measured.counts.in_flight), (4, 4));
    assert!(measured.left_out.total.requests < 2 * per_slice, "{:?}", measured.left_out);
    let seconds = measured.seconds.total();
    assert_eq!(seconds.requests, measured.counts.succeeded + measured.left_out.total.requests);
}

#[test]
fn a_window_that_is_kept_whole_is_as_if_it_had_no_slices() {
    let with = |slice_ns, left_out: &[u32], is_whole| {
        let level = Level { slice_ns, is_whole, ..level(3, left_out) };
        let mut measured = level.run(slow(300 * MS, 500 * MS));
        // Rounds of the loop, which wakes once more for a slice, and memory.
        measured.generator = Default::default();
        measured
    };
    let plain = with(0, &[], false);
    assert!(plain.response.max > 2 * MS);
    assert_eq!(with(100 * MS, &[], false), plain);
    assert_eq!(with(100 * MS, &[0, 3, 4, 9], true), plain);
}

#[test]
fn any_slices_may_be_left_out() {
    for left_out in [&[0][..], &[9], &[0, 9], &[1, 3, 5, 7], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
        let measured = level(2, left_out).run(slow(0, 0));
        let kept = 10 - left_out.len() as u64;
        assert_eq!(
            (measured.window_ns, measured.left_out.slices),
            (kept * 100 * MS, 10 - kept),
            "{left_out:?}"
        );
        // Whatever is left out, those that wait when the window closes are seen.
        assert_eq!((measured.counts.in_flight, measured.unanswered.in_flight.count), (2, 2), "{left_out:?}");
    }
}

/// Each gap begins while a request waits for its connection: 30 ms to connect and 10 to answer, from 35 ms before the window on.
#[test]
fn connections_are_made_for_what_gaps_leave_open_too() {
    let mut level = level(1, &[1, 3, 5, 7, 9]);
    level.spec.client.connections = PerRequest;
    level.spec.load.warmup = Nanos(35 * MS);
    let counts = level.run(steady(30 * MS, 10 * MS, 10)).counts;
    assert_eq!((counts.started, counts.connections), (15, 10));
    assert_eq!((counts.left_open, counts.in_flight), (5, 1));
}

/// Each page is connected in a gap and ends after it: 20 ms to connect, 80 for each of two files, 20 to think.
#[test]
fn pages_that_begin_in_gaps_have_their_connections_from_there() {
    let mut level =
        Level { slice_ns: 100 * MS, slices: 10, ..Level::new(PerPage, &["/a", "/b"], 1_000 * MS) };
    level.left_out = vec![1, 3, 5, 7, 9];
    level.workload.pages[0].think = Nanos(20 * MS);
    level.spec.load.warmup = Nanos(90 * MS);
    let counts = level.run(steady(20 * MS, 80 * MS, 10)).counts;
    assert_eq!((counts.pages_completed, counts.connections), (5, 0));
}

/// A client whose request is never answered is in the figures, though the last slices are left out.
#[test]
fn a_request_without_an_answer_is_not_lost_with_a_slice() {
    let mut asked = 0;
    let peer = server(0, move |_, _| {
        asked += 1;
        if asked == 5 { Vec::new() } else { vec![Act::Wait(2 * MS), Act::Write(response(10))] }
    });
    let measured = level(1, &[7, 8, 9]).run(peer);
    assert_eq!(measured.unanswered.in_flight.count, 1);
    assert!(measured.unanswered.in_flight.max > 980 * MS, "{:?}", measured.unanswered.in_flight);
}

#[test]
fn an_open_loop_accounts_for_arrivals_in_every_slice() {
    for left_out in [&[][..], &[3, 4, 5], &[0, 9]] {
        let mut open = level(3, left_out);
        open.rate = Some("500".into());
        let measured = open.run(slow(300 * MS, 500 * MS));
        let arrivals = measured.open_loop.as_ref().unwrap();
        let kept_ms = measured.window_ns / MS;
        // 500 per second, one more or less at each seam.
        assert!(arrivals.planned.abs_diff(kept_ms / 2) <= 4, "{left_out:?}: {arrivals:?}");
        if left_out == [3, 4, 5] {
            assert!(measured.response.max <= 4 * MS, "{:?}", measured.response);
        }
    }
}

/// The machine stands still from 250 to 460 ms, which counts in three slices: from 10 ms after the answer at 248 ms on, when the ticker
/// should have ended the wait.
#[test]
fn a_stall_counts_in_each_slice_that_it_covers() {
    for (left_out, stalls, stalled_ms, longest_ms) in [
        (&[][..], 1, 202, 202),
        (&[2], 0, 160, 202),
        (&[3, 4], 1, 42, 202),
        (&[2, 4], 0, 100, 202),
        (&[2, 3, 4], 0, 0, 0),
    ] {
        let mut level = level(1, left_out);
        level.wire.stalls = vec![(249 * MS, 460 * MS)];
        let measured = level.run(slow(0, 0));
        let worker = &measured.generator.workers[0];
        assert_eq!(
            (worker.stalls, worker.stalled_ns / MS, worker.stalled_ns_max / MS),
            (stalls, stalled_ms, longest_ms),
            "{left_out:?}"
        );
    }
}

/// The window is extended by a slice while it is open, and not once it is closed.
#[test]
fn an_extension_is_known_to_all_or_to_none() {
    let judgements = Judgements::new(100 * MS, 1_000 * MS);
    assert!(judgements.extend() && judgements.extend());
    assert_eq!(judgements.extra_ns(), 200 * MS);
    judgements.closes();
    assert!(!judgements.extend());
    assert_eq!(judgements.extra_ns(), 200 * MS);
}
