//! A level that several hosts make together must be the same as on a single host, client by client and arrival by
//! arrival. Every worker runs in a simulation of its own, with the same server.

use std::collections::BTreeMap;

use webstone_measure::metrics::Counts;
use webstone_workload::arrivals::{ArrivalProcess, Arrivals, Slots};
use webstone_workload::load::ConnectionPolicy::KeepAlive;
use webstone_workload::{PageSequence, Sampler};

use super::http3_server::{Fate, Http3Server};
use super::*;
use crate::h3::session::Http3;

const WEIGHTS: [u64; 4] = [35, 50, 14, 1];

/// Pages of different weights, with one or two files.
fn level(clients: u32) -> Level {
    let mut level = Level { clients, ..Level::new(KeepAlive, &["/"], 300 * MS) };
    level.spec.client.seed = 1995;
    let page = |(number, weight): (usize, u64)| Page {
        weight,
        files: (0..1 + number % 2).map(|nth| file(&format!("/{number}/{nth}"))).collect(),
        think: Nanos(number as u64 * 300 * US),
    };
    level.workload.pages = WEIGHTS.into_iter().enumerate().map(page).collect();
    level
}

/// Answers take as long as the URL says, so that pages differ.
fn peer() -> impl Peer {
    server(100 * US, |_, request| {
        // GET /page/file HTTP/1.1
        let [page, file] = [5, 7].map(|at| u64::from(request.as_bytes()[at] - b'0'));
        vec![Act::Wait((page + 1) * 400 * US + file), Act::Write(response(10 + page as usize))]
    })
}

/// Everything that the workers of these hosts measured, in their order, and every transaction.
fn made_by(level: &Level, hosts: &[Seats]) -> (Measured, Vec<Transaction>) {
    let mut all = (Measured::default(), Vec::new());
    for seats in hosts {
        let job = LevelJob { seats: *seats, ..level.job(1) };
        let mut here = Measured::default();
        for seat in job.dealt().unwrap() {
            let (sender, receiver) = sync_channel(1024);
            here.merge_parallel(level.run_seat::<Plain, Http1>(&job, seat, &mut peer(), Some(sender)));
            all.1.extend(receiver.try_iter().flatten());
        }
        assert_eq!(here.clients.len(), job.clients_here().len(), "{seats:?}");
        all.0.merge_parallel(here);
    }
    all
}

/// Hosts, each with its slots per worker and its workers.
fn hosts(of_each: &[(u32, u32)]) -> Vec<Seats> {
    let of = of_each.iter().map(|(each, workers)| each * workers).sum();
    let mut first = 0;
    let seats = of_each.iter().map(|(each, workers)| {
        let seats = Seats { first, each: *each, workers: *workers, of };
        first += each * workers;
        seats
    });
    seats.collect()
}

/// Divisions of seven slots; the first is the single host's.
fn deals() -> [Vec<Seats>; 5] {
    [
        vec![Seats::all_here(7)],
        hosts(&[(1, 3), (2, 2)]),
        hosts(&[(4, 1), (1, 3)]),
        hosts(&[(1, 2), (3, 1), (2, 1)]),
        hosts(&[(7, 1)]),
    ]
}

/// The pages of each client, in its order.
fn pages_of(transactions: &[Transaction]) -> BTreeMap<u32, Vec<u32>> {
    let mut firsts: Vec<_> = transactions.iter().filter(|one| one.file == 0).collect();
    firsts.sort_by_key(|one| one.start_ns);
    firsts.iter().fold(BTreeMap::new(), |mut pages, one| {
        pages.entry(one.client).or_insert_with(Vec::new).push(one.page);
        pages
    })
}

/// The pages of a client are the first of its own sequence, whichever host makes it.
fn are_their_own(pages: &BTreeMap<u32, Vec<u32>>) {
    let sampler = Sampler::new(WEIGHTS.into_iter()).unwrap();
    for (client, found) in pages {
        let mut sequence = PageSequence::new(1995, u64::from(*client));
        assert!(found.iter().all(|page| *page == sequence.next_page(&sampler)), "client {client}: {found:?}");
    }
}

/// Clients of a closed loop do not affect each other here, so everything is the same to the nanosecond.
#[test]
fn a_closed_loop_is_the_single_hosts_to_the_nanosecond() {
    let level = level(20);
    let [alone, others @ ..] = deals().map(|hosts| made_by(&level, &hosts));
    let sorted = |mut transactions: Vec<Transaction>| {
        transactions.sort_by_key(|one| (one.client, one.start_ns));
        transactions
    };
    let (whole, transactions) = (alone.0, sorted(alone.1));
    let pages = pages_of(&transactions);
    assert_eq!(pages.keys().copied().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(pages.values().all(|pages| pages.len() > 100));
    are_their_own(&pages);
    for (measured, theirs) in others {
        assert_eq!(sorted(theirs), transactions);
        assert_eq!((measured.window_ns, measured.counts), (whole.window_ns, whole.counts));
        assert_eq!((&measured.clients, &measured.pages), (&whole.clients, &whole.pages));
        assert_eq!((&measured.response, &measured.page), (&whole.response, &whole.page));
        assert_eq!((&measured.statuses, &measured.lifetime), (&whole.statuses, &whole.lifetime));
        assert!(measured.histograms.response == whole.histograms.response);
        assert!(measured.seconds.0 == whole.seconds.0);
    }
}

/// The same over HTTP/3, whose connections have counts and timers of their own.
#[test]
fn workers_of_http3_are_the_single_worker_to_the_nanosecond() {
    let mut level = super::http3::level(KeepAlive, 20, 300 * MS);
    level.spec.client.clients_per_connection = 1;
    let made_by = |hosts: &[Seats]| {
        let (mut all, mut answered) = (Measured::default(), 0);
        for seats in hosts {
            let job = LevelJob { seats: *seats, ..level.job(1) };
            for seat in job.dealt().unwrap() {
                let mut server = Http3Server::new(3 * MS, 1_000, |_| Fate::Answer);
                all.merge_parallel(level.run_seat::<Plain, Http3>(&job, seat, &mut &mut server, None));
                answered += server.answered;
            }
        }
        assert_eq!((errors(&all), answered), (vec![], all.lifetime.requests));
        all
    };
    let [whole, others @ ..] = deals().map(|hosts| made_by(&hosts));
    let of = |measured: &Measured| {
        let http3 = measured.http3.as_ref().unwrap();
        (http3.streams, http3.whole, http3.streams_in_flight, http3.packets_lost, http3.probe_timeouts)
    };
    // Of each client: 7 ms with the handshake, then 5 ms for each request.
    assert_eq!((whole.counts.succeeded, whole.counts.connections), (20 * 59, 20));
    for measured in others {
        // Keys are random, so now and then one header more is sent.
        let counts = |measured: &Measured| Counts { sent_bytes: 0, ..measured.counts };
        assert_eq!((measured.window_ns, counts(&measured)), (whole.window_ns, counts(&whole)));
        assert_eq!((&measured.clients, &measured.response), (&whole.clients, &whole.response));
        assert_eq!((&measured.connect, of(&measured)), (&whole.connect, of(&whole)));
        assert_eq!(measured.handshakes.as_ref().unwrap().full, 20);
        assert!(measured.histograms.response == whole.histograms.response);
        let expected = Expectation { clients: 20, one_request_each: true, server_bytes: None };
        assert!(check(&measured, &expected).iter().all(|identity| identity.holds));
    }
}

/// In open loop it depends on the worker which of its clients takes an arrival, but not when, and each client
/// continues its own pages.
#[test]
fn an_open_loop_has_the_single_hosts_arrivals_and_page_sequences() {
    for (process, rate) in [
        (ArrivalProcess::Constant, "2000"),
        (ArrivalProcess::Poisson, "2000"),
        (ArrivalProcess::Constant, "1k..5k/200ms"),
    ] {
        let mut level = Level { rate: Some(rate.into()), ..level(120) };
        level.spec.load.arrivals = process;
        let due = Arrivals::new(process, rate.parse().unwrap(), 1995, Slots::ALL);
        let due: Vec<i64> = due.take_while(|at| *at < 300 * MS).map(|at| at as i64).collect();
        for hosts in deals() {
            let (measured, transactions) = made_by(&level, &hosts);
            let open_loop = measured.open_loop.as_ref().unwrap();
            assert_eq!((open_loop.planned, open_loop.started), (due.len() as u64, due.len() as u64));
            assert_eq!(measured.clients.len(), 120);
            let mut firsts: Vec<i64> =
                transactions.iter().filter(|one| one.file == 0).map(|one| one.intended_ns).collect();
            firsts.sort_unstable();
            // What is in progress at the end is in no transaction: some of the last few arrivals.
            let mut ended = firsts.iter().peekable();
            let missing: Vec<i64> =
                due.iter().copied().filter(|at| ended.next_if_eq(&at).is_none()).collect();
            assert_eq!(ended.next(), None, "{process:?} {rate} {hosts:?}: no arrival of the schedule");
            assert!(
                missing.iter().all(|at| *at > 290 * MS as i64),
                "{process:?} {rate} {hosts:?}: {missing:?}"
            );
            let pages = pages_of(&transactions);
            assert!(pages.len() > 20);
            are_their_own(&pages);
        }
    }
}

/// A worker without clients is not started, and gets no arrivals, as it could not serve them.
#[test]
fn workers_without_clients_are_not_started() {
    let job = level(3).job(7);
    let dealt = job.dealt().unwrap();
    let clients: Vec<_> = dealt.iter().map(|seat| (seat.number, seat.first_client, seat.clients)).collect();
    assert_eq!(clients, [(0, 0, 1), (1, 1, 1), (2, 2, 1)]);
    assert_eq!(LevelJob::new(job.plan.clone(), 3).seats, Seats::all_here(job.plan.workers.min(3)));

    let open = Level { rate: Some("100".into()), ..level(3) }.job(7);
    assert!(matches!(open.dealt(), Err(crate::EngineError::Seats(_))));
    // A host all of whose workers have clients may be one of many.
    let seats = Seats { first: 0, each: 3, workers: 1, of: 7 };
    assert_eq!(LevelJob { seats, ..open }.dealt().unwrap().len(), 1);
}

/// Clients that share a connection stay on one worker, whichever host it is on.
#[test]
fn clients_that_share_connections_stay_together() {
    let mut level = level(20);
    level.spec.client.http = webstone_workload::load::HttpVersion::Http2;
    level.spec.client.clients_per_connection = 3;
    for hosts in deals() {
        let mut next = 0;
        for seats in hosts {
            for seat in (LevelJob { seats, ..level.job(1) }).dealt().unwrap() {
                assert_eq!((seat.first_client, seat.first_client % 3), (next, 0));
                next += seat.clients;
            }
        }
        assert_eq!(next, 20);
    }
    // Seven connections with at most three clients: no worker is without one.
    let plan = level.job(1).plan;
    assert_eq!(LevelJob::new(plan.clone(), 4).seats.workers, plan.workers.min(2));
}
