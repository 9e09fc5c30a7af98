//! What the generator reports about itself: how late it was, how long it stood still, how long it spun.

use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};

use super::*;

/// Ten answers arrive together, and each read and write takes 5 µs: the first is read 5 µs after the report, each
/// following one after the write and the read of the next.
#[test]
fn loop_delay_is_how_long_an_event_waits_for_others() {
    let mut level = Level::new(KeepAlive, &["/"], 29 * MS);
    level.clients = 10;
    level.wire.call_ns = 5 * US;
    let measured = level.run(server(0, |now_ns, _| {
        // All end at 10 ms, then at 20 ms.
        vec![Act::Wait(10 * MS - now_ns % (10 * MS)), Act::Write(response(10))]
    }));
    assert_eq!(measured.counts.succeeded, 20);
    let mut expected = Histogram::new();
    for place in 0..10 {
        expected.record_n(5 * US + place * 10 * US, 2);
        // As at the beginning: each connection was reported with those before it, whose requests were written first.
        expected.record(place * 5 * US);
    }
    let found = &measured.generator.loop_delay;
    assert!(found == &expected, "{:?}", found.buckets().collect::<Vec<_>>());
}

/// Bytes arrive 1 ms after each request; the machine stands still from 100.3 to 150 ms.
#[test]
fn receive_lag_is_how_long_bytes_are_queued() {
    let mut level = Level::new(KeepAlive, &["/"], 200 * MS);
    level.wire.stalls = vec![(100_300 * US, 150 * MS)];
    let measured = level.run(steady(0, MS, 10));
    let mut expected = Histogram::new();
    expected.record_n(0, 150 - 1);
    // For what arrived at 101 ms.
    expected.record(49 * MS);
    let found = &measured.generator.receive_lag;
    assert!(found == &expected, "{:?}", found.buckets().collect::<Vec<_>>());
}

/// Forty clients connect within 2 ms, again and again; the machine stands still from 101 to 110 ms. One in seventeen
/// connections is asked.
#[test]
fn connect_lag_is_connect_time_beyond_the_handshake() {
    let mut level = Level::new(PerRequest, &["/"], 200 * MS);
    level.clients = 40;
    level.wire.stalls = vec![(101 * MS, 110 * MS)];
    let measured = level.run(steady(2 * MS, 2 * MS, 10));
    let connects = measured.counts.connections;
    let lags = &measured.generator.connect_lag;
    assert_eq!(lags.len(), (connects - 1) / 17 + 1);
    // Connects begun at 100 ms were established at 102 and noticed at 110: forty, of which two or three were asked.
    let late = [(2 * MS, connects - 40), (10 * MS, 40)];
    are("connect", &measured.connect, &measured.histograms.connect, &late);
    let mut expected = Histogram::new();
    // They are the connects 1,001 to 1,040; the first, 18th, 35th … are asked: here 1,004, 1,021 and 1,038.
    expected.record_n(8 * MS, 3);
    expected.record_n(0, lags.len() - 3);
    assert!(lags == &expected, "{:?}", lags.buckets().collect::<Vec<_>>());
}

/// A worker that sleeps while the machine stands still notices it by its ticker, which was due at 110 … 140 ms.
#[test]
fn a_stop_of_the_machine_is_reported_as_a_stall() {
    let mut level = Level::new(KeepAlive, &["/"], 400 * MS);
    level.wire.stalls = vec![(104 * MS, 150 * MS)];
    let measured = level.run(steady(0, 100 * MS, 10));
    let worker = &measured.generator.workers[0];
    assert_eq!((worker.stalls, worker.stalled_ns, worker.stalled_ns_max), (1, 40 * MS, 40 * MS));
    // No answer was due meanwhile, so no request was affected.
    are("response", &measured.response, &measured.histograms.response, &[(100 * MS, 3)]);
}

/// The answers to 600 requests arrive after 1 ms, while the machine stands still for longer than a request may take: they are read, which
/// takes three waits, before the limit is enforced.
#[test]
fn an_answer_that_came_in_time_is_no_time_out() {
    let mut level = Level::new(KeepAlive, &["/"], 400 * MS);
    level.clients = 600;
    level.spec.client.request_timeout = Nanos(50 * MS);
    level.wire.stalls = vec![(100_300 * US, 250 * MS)];
    let measured = level.run(steady(0, MS, 10));
    assert_eq!(errors(&measured), []);
    assert_eq!(measured.histograms.response.value_at_percentile(100.0), measured.response.max);
    assert!(measured.response.max > 140 * MS, "{}", measured.response.max);
}

/// Two hundred clients begin at once, and beginning takes the generator 20 µs each: the last has waited 4 ms for the others, which is no
/// time of the server, and then, like the first, 4 ms until its event is handled.
#[test]
fn clients_that_begin_together_do_not_wait_for_the_server() {
    let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
    level.clients = 200;
    level.wire.call_ns = 20 * US;
    let measured = level.run(steady(MS, 20 * MS, 10));
    assert!((MS..6 * MS).contains(&measured.connect.max), "{}", measured.connect.max);
}

/// A worker that waits awake in closed loop reports the same figures as one that sleeps, and all of its window as waiting but the
/// polls that found something.
#[test]
fn waiting_awake_changes_no_figure() {
    let mut level = Level::new(KeepAlive, &["/"], SECOND);
    let asleep = level.run(steady(0, 10 * MS, 10));
    level.spec.generator.spin = Some(true);
    let awake = level.run(steady(0, 10 * MS, 10));
    assert_eq!((&asleep.counts, &asleep.response), (&awake.counts, &awake.response));
    assert!(asleep.histograms.response == awake.histograms.response);
    let spun = |measured: &Measured| measured.generator.workers[0].spun_ns;
    assert_eq!(spun(&asleep), 0);
    assert!((SECOND - SECOND / 50..=SECOND).contains(&spun(&awake)), "{}", spun(&awake));
}

/// Nearly all of a window with 20 arrivals, 50 ms apart, is spent spinning if that is requested.
#[test]
fn spinning_is_reported() {
    let mut level = Level::new(KeepAlive, &["/"], SECOND);
    level.rate = Some("20".into());
    let asleep = level.run(steady(0, MS, 10)).generator.workers[0].spun_ns;
    level.spec.generator.spin = Some(true);
    let awake = level.run(steady(0, MS, 10)).generator.workers[0].spun_ns;
    // Otherwise it wakes 100 µs before each arrival, later less: sleeps end on time.
    assert!((1..=20 * 100 * US).contains(&asleep), "{asleep}");
    // Spinning: all but the polls that found one of 40 events or 100 ticks, half a microsecond each.
    assert!((SECOND - 140 * 500..SECOND).contains(&awake), "{awake}");
}
