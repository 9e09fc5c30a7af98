//! Open loop: latencies from the intended start, schedule lags, arrivals that wait or are skipped, ramps.

use webstone_measure::metrics::OpenLoop;
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};
use webstone_workload::load::WhenBusy;

use super::*;

fn level(rate: &str, clients: u32, duration_ns: u64) -> Level {
    Level { rate: Some(rate.into()), clients, ..Level::new(KeepAlive, &["/"], duration_ns) }
}

fn schedule(measured: &Measured) -> &OpenLoop {
    measured.open_loop.as_ref().expect("an open loop has its figures")
}

/// Arrivals every 10 ms, and a client that needs 15 ms for each: each arrival waits 5 ms longer than the previous
/// one.
#[test]
fn latency_counts_from_the_intended_start() {
    let measured = level("100", 1, SECOND).run(steady(0, 15 * MS, 10));
    let open_loop = schedule(&measured);
    let times: Vec<(u64, u64)> = (0..66).map(|k| (15 * MS + k * 5 * MS, 1)).collect();
    are("response", &measured.response, &measured.histograms.response, &times);
    are("first byte", &measured.first_byte, &measured.histograms.first_byte, &times);
    are("page", &measured.page, &measured.histograms.page, &times);
    // Counted from the actual start all are equal.
    let (uncorrected, own) = (&open_loop.uncorrected, [(15 * MS, 66)]);
    are("response", &open_loop.response, &uncorrected.response, &own);
    are("first byte", &open_loop.first_byte, &uncorrected.first_byte, &own);
    are("page", &open_loop.page, &uncorrected.page, &own);
    // Each was released at its instant.
    are("lag", &open_loop.lag, &open_loop.lag_histogram, &[(0, 100)]);
    assert_eq!((open_loop.planned, open_loop.started, open_loop.waited, open_loop.queued), (100, 67, 66, 33));
    assert_eq!((measured.counts.busy_ns, open_loop.free_ns), (SECOND, 0));
}

#[test]
fn clients_that_are_free_are_counted_free() {
    // Every 10 ms one of three clients is busy for 4 ms.
    let measured = level("100", 3, SECOND).run(steady(0, 4 * MS, 10));
    let open_loop = schedule(&measured);
    are("response", &measured.response, &measured.histograms.response, &[(4 * MS, 100)]);
    assert_eq!((open_loop.planned, open_loop.waited, open_loop.queued), (100, 0, 0));
    assert_eq!((measured.counts.busy_ns, open_loop.free_ns), (400 * MS, 2_600 * MS));
}

#[test]
fn arrivals_without_a_free_client_are_skipped_on_request() {
    let mut level = level("100", 1, SECOND);
    level.spec.load.when_busy = WhenBusy::Skip;
    let measured = level.run(steady(0, 15 * MS, 10));
    let open_loop = schedule(&measured);
    assert_eq!((open_loop.planned, open_loop.started, open_loop.skipped), (100, 50, 50));
    are("response", &measured.response, &measured.histograms.response, &[(15 * MS, 50)]);
    assert_eq!((measured.counts.busy_ns, open_loop.free_ns), (750 * MS, 250 * MS));
    assert_eq!((measured.counts.planned, measured.counts.skipped), (100, 50));
}

/// The machine stands still from 102 to 151 ms. Arrivals due in that time, at 110, 120, 130, 140 and 150 ms, are late
/// by the rest of it, and their latency counts from when they were due. The previous answer was waiting to be read
/// meanwhile.
#[test]
fn a_machine_that_stands_still_shows_in_the_schedule_lag() {
    let mut level = level("100", 10, SECOND);
    level.wire.stalls = vec![(102 * MS, 151 * MS)];
    let measured = level.run(steady(0, 4 * MS, 10));
    let open_loop = schedule(&measured);
    let late = [41 * MS, 31 * MS, 21 * MS, 11 * MS, MS];
    let lags: Vec<(u64, u64)> = late.map(|lag| (lag, 1)).into_iter().chain([(0, 95)]).collect();
    are("lag", &open_loop.lag, &open_loop.lag_histogram, &lags);
    let times: Vec<(u64, u64)> =
        late.map(|lag| (lag + 4 * MS, 1)).into_iter().chain([(51 * MS, 1), (4 * MS, 94)]).collect();
    are("response", &measured.response, &measured.histograms.response, &times);
    are("response", &open_loop.response, &open_loop.uncorrected.response, &[(51 * MS, 1), (4 * MS, 99)]);
}

/// A server that answers nothing from 3 to 4 s. With ten clients, ten requests are in progress meanwhile, and the
/// arrivals wait.
#[test]
fn a_stall_of_the_server_is_charged_to_every_arrival_that_it_delays() {
    let frozen = |now_ns: u64| (4 * SECOND).saturating_sub(now_ns) * u64::from(now_ns >= 3 * SECOND);
    let measured = level("1000", 10, 10 * SECOND)
        .run(server(0, move |now_ns, _| vec![Act::Wait(frozen(now_ns)), Act::Write(response(10))]));
    let open_loop = schedule(&measured);
    let stalled = (0..1000).map(|k| (SECOND - k * MS, 1));
    let times: Vec<(u64, u64)> = stalled.chain([(0, 9_000)]).collect();
    are("response", &measured.response, &measured.histograms.response, &times);
    // Counted from the actual start only ten were slow.
    let own: Vec<(u64, u64)> = (0..10).map(|k| (SECOND - k * MS, 1)).chain([(0, 9_990)]).collect();
    are("response", &open_loop.response, &open_loop.uncorrected.response, &own);
    // The one due at the very end found no free client either.
    assert_eq!((open_loop.planned, open_loop.waited, open_loop.skipped), (10_000, 991, 0));
}

/// With a client for each arrival during the stall, both latencies show it.
#[test]
fn with_clients_enough_both_latencies_show_a_stall() {
    let measured = level("400", 600, 4 * SECOND).run(server(0, |now_ns, _| {
        let frozen_ns = (2 * SECOND).saturating_sub(now_ns) * u64::from(now_ns >= SECOND);
        vec![Act::Wait(frozen_ns), Act::Write(response(10))]
    }));
    let open_loop = schedule(&measured);
    let times: Vec<(u64, u64)> = (0..400).map(|k| (SECOND - k * 2_500 * US, 1)).chain([(0, 1_200)]).collect();
    are("response", &measured.response, &measured.histograms.response, &times);
    are("response", &open_loop.response, &open_loop.uncorrected.response, &times);
    assert_eq!((open_loop.waited, open_loop.skipped), (0, 0));
}

/// Three files of 2 ms; the wait for a client counts for the first of them and for the page.
#[test]
fn a_page_of_several_files_is_one_arrival() {
    let mut level = level("200", 1, 100 * MS);
    level.workload.pages[0].files = vec![file("/1"), file("/2"), file("/3")];
    let measured = level.run(steady(0, 2 * MS, 10));
    // Due every 5 ms, done in 6: 16 pages, and two files of the next; the last ends with the window.
    let pages: Vec<(u64, u64)> = (0..16).map(|k| (6 * MS + k * MS, 1)).collect();
    are("page", &measured.page, &measured.histograms.page, &pages);
    let firsts = (0..17).map(|k| (2 * MS + k * MS, 1));
    let files: Vec<(u64, u64)> = firsts.chain([(2 * MS, 32)]).collect();
    are("response", &measured.response, &measured.histograms.response, &files);
    assert_eq!((schedule(&measured).planned, schedule(&measured).started), (20, 17));
}

/// The same in closed loop: as many slow requests as clients.
#[test]
fn a_closed_loop_sees_a_stall_once_per_client() {
    let mut level = Level::new(KeepAlive, &["/"], 3 * SECOND);
    level.clients = 10;
    let measured = level.run(server(0, |now_ns, _| {
        let frozen_ns = (2 * SECOND).saturating_sub(now_ns) * u64::from(now_ns >= SECOND);
        vec![Act::Wait(MS + frozen_ns), Act::Write(response(10))]
    }));
    let times = [(MS, 10 * (1_000 + 998)), (SECOND + MS, 10)];
    are("response", &measured.response, &measured.histograms.response, &times);
}

/// Arrival k of a ramp from 100 to 500 per second in 4 s is due when k arrivals are expected: 100 t + 50 t² = k.
#[test]
fn a_ramp_follows_its_integral_to_the_arrival() {
    let measured = level("100..500/4s", 5, 5 * SECOND).run(steady(0, 0, 10));
    // In the first second those from 0 to 149, and so on; the answers take no time.
    let seconds: Vec<u64> = measured.seconds.0.iter().map(|second| second.requests).collect();
    assert_eq!(seconds, [150, 250, 350, 450, 500]);
    assert_eq!((schedule(&measured).planned, schedule(&measured).queued), (1_700, 0));
    are("lag", &schedule(&measured).lag, &schedule(&measured).lag_histogram, &[(0, 1_700)]);
}

/// A warm-up of 25 ms at the same rate: its last arrival, at 20 ms, is answered in the window, whose own schedule
/// begins with it.
#[test]
fn a_window_begins_a_schedule_of_its_own() {
    let mut level = level("100", 2, 100 * MS);
    level.spec.load.warmup = Nanos(25 * MS);
    let measured = level.run(steady(0, 8 * MS, 10));
    let open_loop = schedule(&measured);
    assert_eq!((open_loop.planned, open_loop.started, open_loop.carried_in), (10, 10, 0));
    are("response", &measured.response, &measured.histograms.response, &[(8 * MS, 11)]);
    assert_eq!((measured.counts.carried_in, measured.counts.busy_ns), (1, 3 * MS + 80 * MS));
}

/// Four arrivals that found no free client in the warm-up begin in the window.
#[test]
fn arrivals_waiting_when_the_window_opens_are_carried_in() {
    let mut level = level("100", 1, 200 * MS);
    level.spec.load.warmup = Nanos(55 * MS);
    let measured = level.run(steady(0, 30 * MS, 10));
    let open_loop = schedule(&measured);
    // Due at 0 … 50 ms; begun by 55 ms: those due at 0 and 30.
    assert_eq!((open_loop.carried_in, open_loop.planned), (4, 20));
    // They end at 60, 90 … 240 ms; from 180 ms on, arrivals of the window begin, due from 55 ms on.
    let times: Vec<(u64, u64)> =
        [(60 - 10), (90 - 20), (120 - 30), (150 - 40), (180 - 50), (210 - 55), (240 - 65)]
            .map(|ms| (ms * MS, 1))
            .into();
    are("response", &measured.response, &measured.histograms.response, &times);
    assert_eq!((open_loop.started, open_loop.queued), (7, 17));
}

/// A dead server: five clients wait 10, 20, 40 … ms between their attempts, and every arrival is accounted for.
#[test]
fn a_dead_server_is_asked_at_a_limited_pace() {
    let connect = |_| Attempt::Refused { after_ns: 0 };
    let measured = level("1000", 5, SECOND).run(Scripted { connect, answer: |_, _: &str| vec![] });
    // A client's attempts are 0, 10, 30, 70, 150, 310, 630 and 1,270 ms after its first.
    assert_eq!(errors(&measured), [(ErrorClass::Refused, 35)]);
    let open_loop = schedule(&measured);
    assert_eq!((open_loop.planned, open_loop.started, open_loop.queued), (1_000, 35, 965));
}

/// One connection per request, a handshake of 2 ms: latency contains the wait, the connect and the answer.
#[test]
fn a_connect_is_part_of_an_arrivals_latency() {
    let mut level = level("200", 1, 100 * MS + 1);
    level.spec.client.connections = PerRequest;
    let measured = level.run(steady(2 * MS, 4 * MS, 10));
    let times: Vec<(u64, u64)> = (0..16).map(|k| (6 * MS + k * MS, 1)).collect();
    are("response", &measured.response, &measured.histograms.response, &times);
    are("connect", &measured.connect, &measured.histograms.connect, &[(2 * MS, 17)]);
}
