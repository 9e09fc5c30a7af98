//! When a window opens, and how clients are accounted for that have not started by then.

use webstone_workload::load::ConnectionPolicy::KeepAlive;

use super::*;

/// The announcing thread loses its CPU: an opening at 30 ms is proposed at 5 ms, but settled only at 60 ms, with a
/// clock that was read at 6 ms. The worker has passed it by then and counted nothing, so it must not become valid.
/// The next one, at 90 ms, does. Each answer takes 1 ms.
#[test]
fn an_opening_announced_late_opens_no_window() {
    const FIRST_NS: u64 = BEGIN_NS + 30 * MS;
    const SECOND_NS: u64 = BEGIN_NS + 90 * MS;
    for rate in [None, Some("1000")] {
        let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
        level.rate = rate.map(str::to_owned);
        let job = level.job(1);
        let shared = Arc::new(Shared::new(&job.plan, u64::MAX, 1));
        let announcer = shared.clone();
        let mut peer = server(0, |now_ns, _| {
            match now_ns / MS {
                5 => announcer.opening.propose(FIRST_NS),
                60 if announcer.opening.soonest() != SECOND_NS => {
                    assert!(!announcer.opening.settle(FIRST_NS, BEGIN_NS + 6 * MS));
                    assert!(announcer.opening.announce(SECOND_NS, || BEGIN_NS + now_ns));
                }
                _ => {}
            }
            vec![Act::Wait(MS), Act::Write(response(10))]
        });
        let seat = job.dealt().unwrap()[0];
        let measured = level.run_told_of::<Plain, Http1>(&job, seat, shared, &mut peer, None);
        assert_eq!((measured.counts.started, measured.counts.carried_in), (100, 1), "{rate:?}");
    }
}

/// A worker reports when it opened its window, not when it should have: it stood still from 40 to 50 ms, and the
/// window was to open at 43. A worker that only waits for answers, and has nothing to do when the window opens, opens
/// it on time.
#[test]
fn a_window_that_opens_late_is_reported() {
    const OPEN_NS: u64 = BEGIN_NS + 43 * MS;
    let delay_of = |stalls: &[(u64, u64)], answer_ns: u64| {
        let mut level = Level::new(KeepAlive, &["/"], 200 * MS);
        level.wire.stalls = stalls.to_vec();
        let job = level.job(1);
        let shared = Arc::new(Shared::new(&job.plan, u64::MAX, 1));
        let announcer = shared.clone();
        let mut peer = server(0, |now_ns, _| {
            if announcer.opening.soonest() == u64::MAX {
                assert!(announcer.opening.announce(OPEN_NS, || BEGIN_NS + now_ns));
            }
            vec![Act::Wait(answer_ns), Act::Write(response(10))]
        });
        let seat = job.dealt().unwrap()[0];
        let measured = level.run_told_of::<Plain, Http1>(&job, seat, shared, &mut peer, None);
        measured.generator.workers[0].opening_delay_ns
    };
    assert_eq!(delay_of(&[], MS), 0);
    assert_eq!(delay_of(&[], 150 * MS), 0);
    assert_eq!(delay_of(&[(40 * MS, 50 * MS)], MS), 7 * MS);
    assert_eq!(delay_of(&[(40 * MS, 50 * MS)], 150 * MS), 7 * MS);
}

/// Slices end when a worker next looks at the clock; that says nothing of when the window opened. The machine stands still where the
/// window opens at 43 ms, or where its second slice begins at 93.
#[test]
fn a_slice_that_begins_late_is_no_late_opening() {
    for (stall, delay_ns) in [((40 * MS, 50 * MS), 7 * MS), ((90 * MS, 105 * MS), 0)] {
        for left_out in [&[][..], &[0], &[1], &[0, 1, 2, 3]] {
            let mut level = Level::new(KeepAlive, &["/"], 200 * MS);
            level.spec.load.warmup = Nanos(43 * MS);
            level.wire.stalls = vec![stall];
            (level.slice_ns, level.slices, level.left_out) = (50 * MS, 4, left_out.to_vec());
            let measured = level.run(steady(0, MS, 10));
            let worker = &measured.generator.workers[0];
            assert_eq!(worker.opening_delay_ns, delay_ns, "{stall:?} {left_out:?}");
        }
    }
}

/// Without a warm-up, the first 256 clients start as the window opens, each further one a millisecond after the
/// previous, and those after number 999 not within this window of a second. Answers come later.
#[test]
fn clients_wait_on_purpose_until_they_are_started() {
    let mut level = Level::new(KeepAlive, &["/"], SECOND);
    level.clients = 1_300;
    let counts = level.run(steady(0, 10 * SECOND, 10)).counts;
    let late_ns: u64 = (257..1_000).map(|millisecond| millisecond * MS).sum();
    assert_eq!((counts.started, counts.in_flight), (999, 999));
    assert_eq!(counts.idle_ns, late_ns + (1_300 - 999) * SECOND);
    assert_eq!(counts.busy_ns, 999 * SECOND - late_ns);
}
