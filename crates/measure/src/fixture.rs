//! Timed runs with known rates, for tests of what is computed from several runs.

use crate::iteration::IterationRecord;
use crate::metrics::{Counts, Measured, Moments, WorkerUse};
use crate::parts::{ClockOffset, GeneratorPart};
use crate::server_use::ServerUse;
use crate::units::NANOS_PER_SECOND;

/// Length of every window.
pub const SECONDS: u64 = 10;

/// Timed runs of one or more levels, one for each rate.
pub fn runs(levels: &[(u32, &[f64])]) -> Vec<IterationRecord> {
    let runs = levels.iter().flat_map(|(clients, rates)| {
        rates.iter().enumerate().map(|(index, rate)| IterationRecord {
            clients: *clients,
            iteration: index as u32 + 1,
            measured: measured(*rate, 0),
            server: Some(ServerUse { user_ns: 4_000_000_000, ..ServerUse::default() }),
            ..IterationRecord::default()
        })
    });
    runs.collect()
}

/// A window in which requests succeed at a rate and all take equally long, with rate × time = 10; and some fail.
pub fn measured(rate: f64, failed: u64) -> Measured {
    let succeeded = (rate * SECONDS as f64).round() as u64;
    let mut measured = Measured {
        window_ns: SECONDS * NANOS_PER_SECOND,
        counts: Counts {
            succeeded,
            failed,
            connections: succeeded + failed,
            connections_answered: succeeded,
            ..Counts::default()
        },
        ..Measured::default()
    };
    if succeeded == 0 {
        return measured;
    }
    let response_ns = (10.0 / rate * NANOS_PER_SECOND as f64) as u64;
    measured.response.count = succeeded;
    measured.response.sum = succeeded * response_ns;
    measured.response.min = response_ns;
    measured.response.max = response_ns;
    measured.response_bytes.count = succeeded;
    measured.response_bytes.sum = succeeded * 1000;
    measured.histograms.response.record(response_ns);
    // As in a stored record; tests read thousands of these.
    measured.histograms.response.pack();
    measured.generator.workers = vec![WorkerUse { user_ns: 6_000_000_000, ..WorkerUse::default() }];
    measured
}

/// Divides the load of timed runs among several hosts. Each has as many workers as the original host, and its kernel
/// counted the same.
pub fn split(runs: &mut [IterationRecord], hosts: u32) {
    for run in runs {
        let workers = run.measured.generator.workers.clone();
        let response = run.measured.response.clone();
        let unanswered = run.measured.unanswered.response.clone();
        let mut first_client = 0;
        run.parts = (0..hosts)
            .map(|place| {
                let of = |value: u64| share(value, place, hosts);
                let clients = of(run.clients.into()) as u32;
                first_client += clients;
                let count = of(response.count);
                let waits = of(unanswered.count);
                GeneratorPart {
                    generator: place,
                    first_client: first_client - clients,
                    clients,
                    workers: workers.len() as u32,
                    counts: shared(&run.measured.counts, place, hosts),
                    response: part_of_moments(&response, count, place),
                    unanswered: part_of_moments(&unanswered, waits, place),
                    response_p50_ns: run.measured.histograms.response.value_at_percentile(50.0),
                    response_p99_ns: run.measured.histograms.response.value_at_percentile(99.0),
                    host: run.host.clone(),
                    clock: ClockOffset { offset_ns: 3_600_000_000_000, bound_ns: 100_000 },
                    opening_skew_ns: 200_000,
                    ..GeneratorPart::default()
                }
            })
            .collect();
        run.measured.generator.workers = vec![workers; hosts as usize].concat();
    }
}

/// An even share; the first host gets the remainder.
fn share(value: u64, place: u32, hosts: u32) -> u64 {
    value / u64::from(hosts) + u64::from(u64::from(place) < value % u64::from(hosts))
}

fn part_of_moments(of: &Moments, count: u64, place: u32) -> Moments {
    match count {
        0 => Moments::default(),
        _ => Moments {
            count,
            sum: part_of(of.sum.into(), count, of, place) as u64,
            sum_of_squares: part_of(of.sum_of_squares, count, of, place),
            ..of.clone()
        },
    }
}

/// The average sum of this many of the values; the first host gets the remainder.
fn part_of(sum: u128, count: u64, of: &Moments, place: u32) -> u128 {
    let left_over = if place == 0 { sum % u128::from(of.count) } else { 0 };
    sum / u128::from(of.count) * u128::from(count) + left_over
}

fn shared(counts: &Counts, place: u32, hosts: u32) -> Counts {
    let mut fields = serde_json::to_value(counts).expect("counters are numbers");
    for value in fields.as_object_mut().expect("they have names").values_mut() {
        *value = share(value.as_u64().expect("counters are numbers"), place, hosts).into();
    }
    serde_json::from_value(fields).expect("as they were")
}
