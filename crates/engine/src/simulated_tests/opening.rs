//! When a window opens, where whoever announces it is kept off its CPU.

use webstone_model::spec::ConnectionPolicy::KeepAlive;

use super::*;

/// An opening at 30 ms is proposed at 5 ms, and settled at 60 ms only, by a clock that was read at 6 ms: the worker has passed it by
/// then and counted nothing, so it must not hold. The next, at 90 ms, does. Each answer takes 1 ms.
#[test]
fn what_is_announced_late_opens_no_window() {
    const FIRST_NS: u64 = BEGIN_NS + 30 * MS;
    const SECOND_NS: u64 = BEGIN_NS + 90 * MS;
    for rate in [None, Some("1000")] {
        let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
        level.rate = rate.map(str::to_owned);
        let job = level.job(1);
        let shared = Arc::new(Shared::new(&job.plan, u64::MAX, 1));
        let announcer = shared.clone();
        let mut asked = 0;
        let mut peer = server(0, |now_ns, _| {
            asked += 1;
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
