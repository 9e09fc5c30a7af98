//! Points of the live charts: a second each, as an array of numbers, since a page gets one every second.

use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};
use webstone_model::event::Live;

/// A second of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// Milliseconds since the window opened.
    pub(crate) at_ms: u64,
    /// Requests that succeeded, per second.
    pub(crate) rate: f64,
    /// 99th percentile of the response times of the window so far, in milliseconds.
    pub(crate) p99_ms: Option<f64>,
    /// Mean response time in this second, in milliseconds.
    pub(crate) mean_ms: Option<f64>,
    /// Requests that failed, per second.
    pub(crate) errors: f64,
    /// Open loop: arrivals that were due, per second.
    pub(crate) due: Option<f64>,
    /// Open loop: arrivals that began a page, per second.
    pub(crate) offered: Option<f64>,
}

impl Point {
    /// What happened between two looks at a window.
    pub(crate) fn between(before: &Live, now: &Live, is_open_loop: bool) -> Point {
        let seconds = (now.elapsed_ns - before.elapsed_ns) as f64 / 1e9;
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let requests = now.requests.saturating_sub(before.requests);
        let waited_ns = now.response_ns.saturating_sub(before.response_ns);
        Point {
            at_ms: now.elapsed_ns / 1_000_000,
            rate: per_second(now.requests, before.requests),
            p99_ms: now.response.map(|response| response.p99_ns as f64 / 1e6),
            mean_ms: (requests > 0).then(|| waited_ns as f64 / requests as f64 / 1e6),
            errors: per_second(now.errors, before.errors),
            due: is_open_loop.then(|| per_second(now.planned, before.planned)),
            offered: is_open_loop.then(|| per_second(now.offered, before.offered)),
        }
    }
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let short = |value: f64| (value * 1e3).round() / 1e3;
        let mut tuple = serializer.serialize_tuple(7)?;
        tuple.serialize_element(&self.at_ms)?;
        tuple.serialize_element(&short(self.rate))?;
        tuple.serialize_element(&self.p99_ms.map(short))?;
        tuple.serialize_element(&self.mean_ms.map(short))?;
        tuple.serialize_element(&short(self.errors))?;
        tuple.serialize_element(&self.due.map(short))?;
        tuple.serialize_element(&self.offered.map(short))?;
        tuple.end()
    }
}

/// At most `points_max` points, and at least two: of each stretch those with the highest and the lowest rate, so that no dip or
/// peak is lost between two that are drawn.
pub(crate) fn decimated(points: &[Point], points_max: usize) -> Vec<Point> {
    let points_max = points_max.max(2);
    if points.len() <= points_max {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(points_max / 2);
    let extremes = points.chunks(stretch).flat_map(|part| {
        let by_rate = |a: &&Point, b: &&Point| a.rate.total_cmp(&b.rate);
        let (low, high) = (part.iter().min_by(by_rate), part.iter().max_by(by_rate));
        let mut both: Vec<Point> = low.into_iter().chain(high).copied().collect();
        both.sort_by_key(|point| point.at_ms);
        both.dedup_by_key(|point| point.at_ms);
        both
    });
    extremes.collect()
}

#[cfg(test)]
mod tests {
    use webstone_model::event::LivePercentiles;

    use super::*;

    #[test]
    fn a_point_is_what_happened_in_between() {
        let before =
            Live { elapsed_ns: 1_000_000_000, requests: 100, response_ns: 5_000_000, ..Live::default() };
        let response = Some(LivePercentiles { p99_ns: 2_500_000, ..LivePercentiles::default() });
        let now = Live {
            elapsed_ns: 3_000_000_000,
            requests: 300,
            errors: 4,
            planned: 220,
            offered: 210,
            response_ns: 105_000_000,
            response,
            ..before
        };
        let point = Point::between(&before, &now, true);
        let text = serde_json::to_string(&point).unwrap();
        assert_eq!(text, "[3000,100.0,2.5,0.5,2.0,110.0,105.0]");
        let closed = Point::between(&before, &Live { requests: 100, response: None, ..now }, false);
        assert_eq!(serde_json::to_string(&closed).unwrap(), "[3000,0.0,null,null,2.0,null,null]");
    }

    #[test]
    fn decimation_keeps_peaks_dips_and_order() {
        let mut points: Vec<Point> =
            (0..5000).map(|at| Point { at_ms: at, rate: 100.0, ..Point::default() }).collect();
        points[1234].rate = 0.0;
        points[4321].rate = 500.0;
        let few = decimated(&points, 600);
        assert!(few.len() <= 600, "{}", few.len());
        assert!(few.is_sorted_by_key(|point| point.at_ms));
        assert!(few.iter().any(|point| point.rate == 0.0) && few.iter().any(|point| point.rate == 500.0));
        assert_eq!(decimated(&points[..10], 600), points[..10]);
    }
}
