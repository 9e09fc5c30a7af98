//! Thousands of random schedules: what the worker reports must be what a simple model of its clients says, and every
//! identity must hold. A failing schedule is named by its seed; to run it alone:
//! `WEBSTONE_SEED=<seed> cargo test -p webstone-engine --lib random_schedules`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use webstone_measure::figures::{Figures, PERCENTILES};
use webstone_measure::metrics::Second;
use webstone_workload::{PageSequence, Sampler};

use super::client_model::{Client, Diary};
use super::draw::Schedule;
use super::*;

/// Schedules of each kind.
const SCHEDULES: u64 = 1_500;

/// Runs all seeds, or the requested one, and names the one that fails.
fn each_seed(run: impl Fn(u64)) {
    let seeds = match std::env::var("WEBSTONE_SEED") {
        Ok(seed) => vec![seed.parse().expect("WEBSTONE_SEED is a number")],
        Err(_) => (0..SCHEDULES).collect::<Vec<u64>>(),
    };
    for seed in seeds {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(
            outcome.is_ok(),
            "seed {seed}, for the reason above; alone: WEBSTONE_SEED={seed} cargo test -p webstone-engine --lib random_schedules"
        );
    }
}

#[test]
fn random_schedules_in_closed_loop_are_as_modelled() {
    each_seed(|seed| {
        let schedule = Schedule::new(seed, false);
        let (measured, transactions) = schedule.level().run_told(&schedule);
        let weights = 1..=schedule.pages.len() as u64;
        let sampler = Sampler::new(weights.collect::<Vec<_>>().into_iter()).expect("there is a page");
        let diaries: Vec<Diary> = (0..schedule.clients)
            .map(|number| {
                let mut client = Client::new(&schedule, number);
                let mut pages = PageSequence::new(seed, number as u64);
                let mut now = 0;
                while now < schedule.close_ns() {
                    now = client.visit(pages.next_page(&sampler) as usize, now, now);
                }
                client.diary
            })
            .collect();
        same_requests(&schedule, &diaries, &transactions);
        agrees(&schedule, &diaries, &measured);
        waits_are_reported(&schedule, &diaries, &[], &measured);
        for (diary, client) in diaries.iter().zip(&measured.clients) {
            let ended = || diary.requests.iter().filter(|request| is_in(&schedule, request.end_ns));
            let right = || ended().filter(|request| request.error.is_none());
            assert_eq!(client.requests, right().count() as u64);
            assert_eq!(client.errors, (ended().count() - right().count()) as u64);
            assert_eq!(
                client.response_ns,
                right().map(|request| request.end_ns - request.start_ns).sum::<u64>()
            );
        }
    });
}

/// Each request must have the model's instants, whichever client made it. The first difference says most.
fn same_requests(schedule: &Schedule, diaries: &[Diary], transactions: &[Transaction]) {
    let since_open = |at_ns: u64| at_ns as i64 - schedule.warmup_ns as i64;
    let mut modelled: Vec<_> = ended(schedule, diaries)
        .map(|request| {
            let first_byte_ns = request.error.is_none().then(|| since_open(request.first_byte_ns));
            let starts_ns = (since_open(request.start_ns), since_open(request.intended_ns));
            (since_open(request.end_ns), starts_ns, first_byte_ns, request.error)
        })
        .collect();
    let mut found: Vec<_> = transactions
        .iter()
        .map(|one| {
            let first_byte_ns = one.first_byte_ns.filter(|_| one.error.is_none());
            (one.end_ns, (one.start_ns, one.intended_ns), first_byte_ns, one.error)
        })
        .collect();
    let order = |one: &(i64, (i64, i64), Option<i64>, Option<ErrorClass>)| (one.0, one.1, one.2);
    modelled.sort_by_key(order);
    found.sort_by_key(order);
    let differs = (0..modelled.len().max(found.len())).find(|nth| modelled.get(*nth) != found.get(*nth));
    if let Some(nth) = differs {
        panic!(
            "ended, started, intended, first byte, error: {:?}, modelled {:?}; before it {:?}\n{schedule:?}",
            found.get(nth),
            modelled.get(nth),
            &modelled[nth.saturating_sub(3)..nth]
        );
    }
}

/// Requests without a valid answer are counted with the time that they waited, and no figure is below that of all
/// requests together. `left` are the waits of arrivals that no client took.
fn waits_are_reported(schedule: &Schedule, diaries: &[Diary], left: &[u64], measured: &Measured) {
    let close_ns = schedule.close_ns();
    let waits = &measured.unanswered;
    let requests = || diaries.iter().flat_map(|diary| &diary.requests);
    let is_pending = |start_ns: u64, end_ns: u64| start_ns < close_ns && end_ns >= close_ns;
    let pending = requests().filter(|request| is_pending(request.start_ns, request.end_ns));
    let mut in_flight: Vec<u64> = pending.map(|request| close_ns - request.intended_ns).collect();
    in_flight.extend(left);
    let failed = ended(schedule, diaries).filter(|request| request.error.is_some());
    let mut unanswered: Vec<u64> = failed.map(|request| request.end_ns - request.intended_ns).collect();
    unanswered.extend(&in_flight);
    let once = |times: &[u64]| times.iter().map(|time_ns| (*time_ns, 1)).collect::<Vec<_>>();
    are("no answer", &waits.response, &waits.histograms.response, &once(&unanswered));
    assert_eq!(
        (waits.in_flight.count, waits.in_flight.sum),
        (in_flight.len() as u64, in_flight.iter().sum())
    );

    let right = ended(schedule, diaries).filter(|request| request.error.is_none());
    let mut all: Vec<u64> = right.map(|request| request.end_ns - request.intended_ns).collect();
    if all.is_empty() {
        return;
    }
    all.extend(&unanswered);
    all.sort_unstable();
    let figures = Figures::of_measured(measured);
    let mean_s = all.iter().sum::<u64>() as f64 / all.len() as f64 / 1e9;
    assert!(figures.latency_mean_s >= mean_s * (1.0 - 1e-12), "mean {} < {mean_s}", figures.latency_mean_s);
    for (percentile, found_s) in PERCENTILES.iter().zip(&figures.latency_percentiles_s) {
        let rank = webstone_measure::metrics::rank(percentile / 100.0, all.len() as u64) as usize;
        // To the precision of the histogram, which rounds up, but never above the longest.
        let least_s = all[rank - 1] as f64 / 1e9;
        assert!(*found_s >= least_s, "p{percentile}: {found_s} < {least_s}");
    }
    assert!(figures.latency_max_s >= *all.last().expect("not empty") as f64 / 1e9);
}

/// Clients without state are interchangeable, so it does not matter which free one takes an arrival.
#[test]
fn random_schedules_in_open_loop_are_as_modelled() {
    each_seed(|seed| {
        let schedule = Schedule::new(seed, true);
        let (measured, transactions) = schedule.level().run_told(&schedule);
        let rate = schedule.rate.expect("an open loop");
        let due = |from_ns: u64, to_ns: u64| {
            (0..).map(move |k| from_ns + k * SECOND / rate).take_while(move |due_ns| *due_ns < to_ns)
        };
        let arrivals = due(0, schedule.warmup_ns).chain(due(schedule.warmup_ns, schedule.close_ns()));
        let mut clients: Vec<Client<'_>> =
            (0..schedule.clients).map(|number| Client::new(&schedule, number)).collect();
        let mut free: BinaryHeap<Reverse<(u64, usize)>> =
            (0..schedule.clients).map(|number| Reverse((0, number))).collect();
        let (mut planned, mut started, mut skipped, mut waited) = (0, 0, 0, 0);
        let mut left = Vec::new();
        for due_ns in arrivals {
            planned += u64::from(is_in(&schedule, due_ns));
            let Reverse((free_ns, client)) = *free.peek().expect("there are clients");
            if schedule.skips && free_ns >= due_ns && due_ns + free_ns > 0 {
                skipped += u64::from(is_in(&schedule, due_ns));
                continue;
            }
            let start_ns = due_ns.max(free_ns);
            if start_ns >= schedule.close_ns() {
                left.push(schedule.close_ns() - due_ns);
                continue;
            }
            started += u64::from(is_in(&schedule, start_ns));
            waited += u64::from(is_in(&schedule, start_ns) && free_ns >= due_ns && due_ns + free_ns > 0);
            free.pop();
            free.push(Reverse((clients[client].visit(0, due_ns, start_ns), client)));
        }
        let diaries: Vec<Diary> = clients.into_iter().map(|client| client.diary).collect();
        same_requests(&schedule, &diaries, &transactions);
        agrees(&schedule, &diaries, &measured);
        waits_are_reported(&schedule, &diaries, &left, &measured);
        let open_loop = measured.open_loop.as_ref().expect("an open loop");
        assert_eq!(
            (open_loop.planned, open_loop.started, open_loop.skipped, open_loop.waited),
            (planned, started, skipped, waited)
        );
        let seen = open_loop.lag.count;
        are("lag", &open_loop.lag, &open_loop.lag_histogram, &[(0, seen)]);
        let right = || ended(&schedule, &diaries).filter(|request| request.error.is_none());
        let own: Vec<_> = right().map(|request| (request.end_ns - request.start_ns, 1)).collect();
        are("response", &open_loop.response, &open_loop.uncorrected.response, &own);
    });
}

/// On a busy machine time passes between any two readings of the clock, and no model knows how much. Anyway, every
/// nanosecond of every client must be accounted for, and the identities must hold.
#[test]
fn random_schedules_on_a_busy_machine_are_accounted_for() {
    for is_open in [false, true] {
        each_seed(|seed| {
            let schedule = Schedule::new(seed, is_open);
            let mut level = schedule.level();
            level.wire.interrupted = Some(seed);
            level.wire.call_ns = seed % 7 * US;
            if seed % 2 == 0 {
                // If no deadline is near, the loop waits without a time-out.
                let client = &mut level.spec.client;
                client.connect_timeout.0 += SECOND;
                client.first_byte_timeout.0 += SECOND;
                client.request_timeout.0 += SECOND;
            }
            level.run(&schedule);
        });
    }
}

/// Whether something that happens at this instant is counted.
fn is_in(schedule: &Schedule, at_ns: u64) -> bool {
    (schedule.warmup_ns..schedule.close_ns()).contains(&at_ns)
}

fn ended<'a>(
    schedule: &'a Schedule,
    diaries: &'a [Diary],
) -> impl Iterator<Item = &'a super::client_model::Request> {
    let all = diaries.iter().flat_map(|diary| &diary.requests);
    all.filter(|request| is_in(schedule, request.end_ns))
}

/// Compares what was measured with what the clients did.
fn agrees(schedule: &Schedule, diaries: &[Diary], measured: &Measured) {
    let is_in = |at_ns| is_in(schedule, at_ns);
    let clipped = |from_ns: u64, to_ns: u64| {
        to_ns.min(schedule.close_ns()).saturating_sub(from_ns.max(schedule.warmup_ns))
    };
    let requests = || diaries.iter().flat_map(|diary| &diary.requests);
    let ended = || ended(schedule, diaries);
    let right = || ended().filter(|request| request.error.is_none());
    let connects =
        || diaries.iter().flat_map(|diary| &diary.connects).filter(|connect| is_in(connect.end_ns));
    let pages = || diaries.iter().flat_map(|diary| &diary.pages).filter(|visit| is_in(visit.end_ns));
    let counts = &measured.counts;

    for (class, count) in errors(measured) {
        let expected = ended().filter(|request| request.error == Some(class)).count();
        assert_eq!(count, expected as u64, "{}", class.name());
    }
    assert_eq!(counts.failed, (ended().count() - right().count()) as u64);
    let times: Vec<_> = right().map(|request| (request.end_ns - request.intended_ns, 1)).collect();
    are("response", &measured.response, &measured.histograms.response, &times);
    let times: Vec<_> = right().map(|request| (request.first_byte_ns - request.intended_ns, 1)).collect();
    are("first byte", &measured.first_byte, &measured.histograms.first_byte, &times);
    let stood = connects().filter(|connect| connect.stands);
    let times: Vec<_> = stood.map(|connect| (connect.end_ns - connect.begun_ns, 1)).collect();
    are("connect", &measured.connect, &measured.histograms.connect, &times);
    let whole = pages().filter(|visit| visit.ok);
    let times: Vec<_> = whole.map(|visit| (visit.end_ns - visit.intended_ns, 1)).collect();
    are("page", &measured.page, &measured.histograms.page, &times);

    assert_eq!(counts.pages_failed, pages().filter(|visit| !visit.ok).count() as u64);
    assert_eq!(counts.connections_failed, connects().filter(|connect| !connect.stands).count() as u64);
    assert_eq!(counts.started, requests().filter(|request| is_in(request.start_ns)).count() as u64);
    let crosses =
        |at_ns: u64| requests().filter(move |r| r.start_ns < at_ns && r.end_ns >= at_ns).count() as u64;
    assert_eq!(counts.carried_in, crosses(schedule.warmup_ns));
    assert_eq!(counts.in_flight, crosses(schedule.close_ns()));
    let retries = diaries.iter().flat_map(|diary| &diary.retries).filter(|at_ns| is_in(**at_ns));
    assert_eq!(counts.stale_retries, retries.count() as u64);
    let busy_ns: u64 = requests().map(|request| clipped(request.start_ns, request.end_ns)).sum();
    let pauses = diaries.iter().flat_map(|diary| &diary.pauses);
    let idle_ns: u64 = pauses.map(|(from_ns, to_ns)| clipped(*from_ns, *to_ns)).sum();
    assert_eq!((counts.busy_ns, counts.idle_ns), (busy_ns, idle_ns));
    assert_eq!(measured.response_bytes.sum, right().map(|request| request.bytes).sum::<u64>());

    let after_close = |at_ns: u64| at_ns >= schedule.close_ns();
    let connects = diaries.iter().flat_map(|diary| &diary.connects);
    let in_vain = connects.filter(|connect| {
        let is_pending = after_close(connect.end_ns) && !after_close(connect.begun_ns);
        is_pending || is_in(connect.end_ns) && !connect.stands
    });
    let times: Vec<_> =
        in_vain.map(|connect| (connect.end_ns.min(schedule.close_ns()) - connect.begun_ns, 1)).collect();
    are("no connection", &measured.unanswered.connect, &measured.unanswered.histograms.connect, &times);
    if schedule.policy == ConnectionPolicy::PerRequest {
        assert_eq!(counts.connections_answered, counts.succeeded);
    }
    assert!(counts.connections_answered <= counts.succeeded);

    // Second by second.
    let mut seconds = vec![Second::default(); schedule.duration_ns.div_ceil(SECOND) as usize];
    for request in ended() {
        let second = &mut seconds[((request.end_ns - schedule.warmup_ns) / SECOND) as usize];
        match request.error {
            None => second.requests += 1,
            Some(_) => second.errors += 1,
        }
    }
    let found = measured.seconds.0.iter().map(|second| (second.requests, second.errors));
    assert!(
        found.eq(seconds.iter().map(|second| (second.requests, second.errors))),
        "{:?}",
        measured.seconds
    );
}
