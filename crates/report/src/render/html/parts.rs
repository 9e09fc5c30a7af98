//! Where the time goes: the mean response time of a level, divided into what its requests waited for. Parts are quotients of exact sums
//! over the same requests, so they add up to the mean; what the sums do not separate is one part.

use webstone_measure::figures::level::LATENCY_MEAN;
use webstone_measure::metrics::{Measured, Moments};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::spec::Resolve;

use crate::numbers::spread;
use crate::summary::Level;

use super::Run;
use super::markup::Html;
use crate::document::chart::StackChart;
use crate::document::figures::{definition, scale};

/// Levels that are drawn.
const LEVELS_MAX: usize = 12;
/// Failed requests in percent from which connecting is not separated from the wait: the sum of connect times includes theirs.
const FAILED_PERCENT_MAX: u64 = 1;

/// Seconds of a mean request.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    /// Open loop: from the intended start to the actual one.
    queued: f64,
    /// Connecting; `None` where it is a part of the wait.
    connect: Option<f64>,
    /// Until the first byte, without the parts above.
    wait: f64,
    transfer: f64,
}

/// One of them.
type Part = fn(&Parts) -> f64;

/// One record has a row per level; several have a row each, at its peak.
pub(super) fn draw(html: &mut Html, runs: &[Run<'_>]) {
    let (names, rows): (&str, Vec<(String, &Level<'_>)>) = match runs {
        [only] => {
            let chosen = spread(only.levels.len(), LEVELS_MAX, only.peak());
            ("level", chosen.into_iter().map(|at| (only.levels[at].load(), &only.levels[at])).collect())
        }
        several => {
            let row = |run| -> Option<(String, &Level<'_>)> {
                let (run, level): (&Run<'_>, _) = (run, Run::best(run)?);
                Some((format!("{}, {}", run.name, level.load()), level))
            };
            ("record, at its peak", several.iter().filter_map(row).collect())
        }
    };
    let is_longer = rows.iter().any(|(_, level)| level.figures.latency_mean_is_at_least);
    let rows: Vec<(String, Parts)> =
        rows.into_iter().filter_map(|(name, level)| Some((name, Parts::of_level(level)?))).collect();
    if rows.is_empty() {
        return;
    }
    // All bars of a chart have the same parts: where connecting is unknown of one level, it is left out of all.
    let is_parted = rows.iter().all(|(_, parts)| parts.connect.is_some());
    let any = |of: Part| rows.iter().any(|(_, parts)| of(parts) > 0.0);
    let connect: Part = |parts| parts.connect.unwrap_or(0.0);
    let wait: Part =
        if is_parted { |parts| parts.wait } else { |parts| parts.wait + parts.connect.unwrap_or(0.0) };
    let mut columns: Vec<(&str, Part)> = Vec::new();
    if any(|parts| parts.queued) {
        columns.push(("waiting for a client", |parts| parts.queued));
    }
    if is_parted && any(connect) {
        let per_connection = |run: &Run<'_>| run.record.spec.client.resolve == Resolve::PerConnection;
        let name =
            if runs.iter().any(per_connection) { "connecting, name lookup included" } else { "connecting" };
        columns.push((name, connect));
    }
    columns.push((
        if is_parted { "waiting for the first byte" } else { "connecting and waiting for the first byte" },
        wait,
    ));
    columns.push(("receiving", |parts| parts.transfer));
    let names_of: Vec<&str> = columns.iter().map(|column| column.0).collect();
    let rows: Vec<(String, Vec<f64>)> = rows
        .iter()
        .map(|(name, parts)| (name.clone(), columns.iter().map(|column| (column.1)(parts)).collect()))
        .collect();
    StackChart {
        id: "chart-parts".to_owned(),
        title: "Where the time goes".to_owned(),
        definition: definition(&LATENCY_MEAN),
        caption: match is_longer {
            false => "Mean times per request; they add up to the mean latency.",
            true => {
                "Mean times per answered request. The mean latency is longer: it includes the time that requests without an answer \
                 waited."
            }
        },
        names,
        parts: &names_of,
        scale: scale(&LATENCY_MEAN, rows.iter().map(|(_, parts)| parts.iter().sum())),
        rows,
    }
    .draw(html);
}

impl Parts {
    /// `None` where nothing was answered, and of a record that has no first bytes.
    fn of_level(level: &Level<'_>) -> Option<Parts> {
        let sum = |of: fn(&Measured) -> Option<&Moments>| {
            level.runs.iter().try_fold((0_u64, 0_u64), |(count, sum), run| {
                let moments = of(&run.measured)?;
                Some((count + moments.count, sum + moments.sum))
            })
        };
        let (answered, response) = sum(|measured| Some(&measured.response))?;
        let (first_bytes, first_byte) = sum(|measured| Some(&measured.first_byte))?;
        let (_, connect) = sum(|measured| Some(&measured.connect))?;
        if answered == 0 || first_bytes != answered {
            return None;
        }
        let started = sum(|measured| Some(&measured.open_loop.as_ref()?.first_byte));
        let started = started.filter(|(count, _)| *count == answered).map_or(first_byte, |(_, sum)| sum);
        let mean = |sum: u64| sum as f64 / answered as f64 / NANOS_PER_SECOND as f64;
        let failed = level.counts.failed + level.counts.connections_failed;
        let can_part = failed * 100 <= level.counts.ended() * FAILED_PERCENT_MAX && connect <= started;
        let connect = can_part.then_some(connect);
        Some(Parts {
            queued: mean(first_byte.saturating_sub(started)),
            connect: connect.map(mean),
            wait: mean(started.min(first_byte) - connect.unwrap_or(0)),
            transfer: mean(response.saturating_sub(first_byte)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary;
    use webstone_measure::metrics::OpenLoop;
    use webstone_model::record::IterationRecord;

    /// Two requests of 10 ms, whose first bytes came after 7 ms; one connection of 2 ms.
    fn run() -> IterationRecord {
        let mut run = IterationRecord::default();
        let measured = &mut run.measured;
        measured.window_ns = NANOS_PER_SECOND;
        measured.counts.succeeded = 2;
        for _ in 0..2 {
            measured.response.record(10_000_000);
            measured.first_byte.record(7_000_000);
        }
        measured.connect.record(2_000_000);
        run
    }

    fn parts(run: &IterationRecord) -> Option<[f64; 4]> {
        let parts = Parts::of_level(&summary::level(vec![run]))?;
        let whole = [parts.queued, parts.connect.unwrap_or(-0.001), parts.wait, parts.transfer];
        Some(whole.map(|seconds| (seconds * 1e6).round() / 1e3))
    }

    #[test]
    fn parts_add_up_to_the_mean_response_time() {
        assert_eq!(parts(&run()), Some([0.0, 1.0, 6.0, 3.0]));
    }

    #[test]
    fn an_open_loop_waits_for_a_client_first() {
        let mut run = run();
        let mut open_loop = OpenLoop::default();
        (0..2).for_each(|_| open_loop.first_byte.record(5_000_000));
        run.measured.open_loop = Some(open_loop);
        assert_eq!(parts(&run), Some([2.0, 1.0, 4.0, 3.0]));
    }

    #[test]
    fn connecting_is_not_parted_from_the_wait_where_requests_failed() {
        let mut run = run();
        run.measured.counts.failed = 1;
        assert_eq!(parts(&run), Some([0.0, -1.0, 7.0, 3.0]));
    }

    #[test]
    fn what_was_not_measured_has_no_parts() {
        let mut run = run();
        run.measured.first_byte = Moments::default();
        assert_eq!(parts(&run), None);
        assert_eq!(parts(&IterationRecord::default()), None);
    }
}
