//! The figures of the server behind a proxy in a level: what the proxy requested from it, compared with what clients
//! requested from the proxy. Every formula is defined in `docs/measurement.md`, "The origin behind a proxy".

use serde::Serialize;

use crate::figures::Reading;
use crate::figures::quantity::Quantity;
use crate::figures::table::{Figure, Precision, some};
use crate::iteration::IterationRecord;
use crate::server_figures::{ServerFigures, server_use};
use crate::server_use::{OriginCounts, ServerUse};
use crate::units::{self, NANOS_PER_SECOND};

/// What the origin did in those iterations of a level in which it was visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OriginFigures {
    /// What its processes used; requests are those of clients. Absent if they were not visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerFigures>,
    /// What was requested from it; absent if it did not report that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedFigures>,
}

/// What a proxy requested from its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AskedFigures {
    /// Requests to the origin.
    pub requests: u64,
    /// Requests to the origin / window, 1/s.
    pub origin_request_rate: f64,
    /// Requests to the origin / valid responses to clients; absent if there were none.
    pub origin_requests_per_request: Option<f64>,
    /// 100 × (1 − the former), at least 0: valid responses without a request to the origin, in percent.
    pub hit_percent: Option<f64>,
    /// Requests to the origin that were answered 304 (the proxy's copy is still good), in percent; absent without
    /// requests.
    pub revalidated_percent: Option<f64>,
    /// 100 × (1 − bytes of bodies from the origin / bytes of bodies to clients), in percent. Negative if the proxy
    /// fetches more than it delivers; absent if it delivers nothing.
    pub saved_percent: Option<f64>,
    /// Bits of bodies that the origin sent, 1/s.
    pub origin_body_bps: f64,
    /// Connections that the proxy made to the origin / window, 1/s.
    pub origin_connection_rate: f64,
    /// Connections / requests to the origin: 1 if none is kept. Absent without requests.
    pub origin_connections_per_request: Option<f64>,
}

impl OriginFigures {
    /// Over these iterations; `None` if the origin was monitored in none.
    pub fn of_runs(runs: &[&IterationRecord]) -> Option<OriginFigures> {
        let figures =
            OriginFigures { server: ServerFigures::of_origin(runs), asked: AskedFigures::of_runs(runs) };
        (figures != OriginFigures::default()).then_some(figures)
    }
}

impl AskedFigures {
    fn of_runs(runs: &[&IterationRecord]) -> Option<AskedFigures> {
        let seen: Vec<(&IterationRecord, OriginCounts)> =
            runs.iter().filter_map(|run| Some((*run, run.origin.as_ref()?.counted?))).collect();
        if seen.is_empty() {
            return None;
        }
        let asked = |of: fn(&OriginCounts) -> u64| units::sum(seen.iter().map(|(_, asked)| of(asked)));
        let given = |of: fn(&IterationRecord) -> u64| units::sum(seen.iter().map(|(run, _)| of(run))) as f64;
        let (requests, body_bytes) = (asked(|it| it.requests), asked(|it| it.body_bytes) as f64);
        let window_ns = given(|run| run.measured.window_ns);
        let per_s = |count: f64| quotient(count * NANOS_PER_SECOND as f64, window_ns).unwrap_or_default();
        let of_requests = |count: u64| quotient(count as f64, requests as f64);
        let per_request = quotient(requests as f64, given(|run| run.measured.counts.succeeded));
        Some(AskedFigures {
            requests,
            origin_request_rate: per_s(requests as f64),
            origin_requests_per_request: per_request,
            hit_percent: per_request.map(|share| (100.0 * (1.0 - share)).max(0.0)),
            revalidated_percent: of_requests(asked(|it| it.not_modified)).map(|share| 100.0 * share),
            saved_percent: quotient(body_bytes, given(|run| run.measured.counts.body_bytes))
                .map(|share| 100.0 * (1.0 - share)),
            origin_body_bps: per_s(8.0 * body_bytes),
            origin_connection_rate: per_s(asked(|it| it.connections) as f64),
            origin_connections_per_request: of_requests(asked(|it| it.connections)),
        })
    }
}

/// a / b; `None` if b is 0.
fn quotient(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

const ORIGIN: &str = "The origin";

fn used(reading: &Reading<'_>) -> Option<ServerUse> {
    server_use(reading.runs(), |run| run.origin.as_ref()?.server.as_ref())
}

fn sum(reading: &Reading<'_>, of: fn(&OriginCounts) -> u64) -> Option<u64> {
    let counted = reading.runs().iter().filter_map(|run| run.origin.as_ref()?.counted);
    counted.map(|counted| of(&counted)).reduce(u64::saturating_add)
}

fn asked(reading: &Reading<'_>) -> Option<AskedFigures> {
    reading.origin()?.asked
}

/// A counter of its own.
macro_rules! counted {
    ($key:literal, $quantity:ident, $long:literal, $field:ident) => {
        Figure::new($key, Quantity::$quantity, |r| some(sum(r, |counted| counted.$field)?))
            .called($long, $long)
            .defined(ORIGIN, stringify!($field))
            .prometheus(concat!("webstone_origin_", stringify!($field), "_total"))
            .detail()
    };
}

/// What its processes used and what it counted, unchanged.
pub(crate) static USE: &[Figure] = &[
    Figure::new("origin_user_s", Quantity::Duration, |r| some(used(r)?.user_ns as f64 / 1e9))
        .called("Origin user", "origin user time")
        .defined(ORIGIN, "server")
        .labelled("webstone_origin_cpu_seconds_total", "mode", "user")
        .detail(),
    Figure::new("origin_system_s", Quantity::Duration, |r| some(used(r)?.system_ns as f64 / 1e9))
        .called("Origin system", "origin system time")
        .defined(ORIGIN, "server")
        .labelled("webstone_origin_cpu_seconds_total", "mode", "system")
        .detail(),
    Figure::new("origin_resident_max_bytes", Quantity::Bytes, |r| some(used(r)?.resident_bytes_max))
        .called("Origin memory", "origin memory")
        .column("memory", "max, *", 8)
        .defined(ORIGIN, "server"),
    counted!("origin_requests", Count, "Origin requests", requests),
    counted!("origin_not_modified", Count, "Origin not modified", not_modified),
    counted!("origin_connections", Count, "Origin connections", connections),
    counted!("origin_body_bytes", Bytes, "Origin body", body_bytes),
    counted!("origin_sent_bytes", Bytes, "Origin sent", sent_bytes),
    counted!("origin_received_bytes", Bytes, "Origin received", received_bytes),
];

/// What the proxy requested from it, compared with what clients requested from the proxy.
pub(crate) static ASKED: &[Figure] = &[
    Figure::new("origin_requests_per_request", Quantity::Ratio, |r| {
        some(asked(r)?.origin_requests_per_request?)
    })
    .called("Origin requests per request", "origin requests per request")
    .precision(Precision::Exactly(4))
    .column("asked", "per request", Figure::ALWAYS)
    .defined(ORIGIN, "origin_requests_per_request"),
    Figure::new("origin_hit_percent", Quantity::Percent, |r| some(asked(r)?.hit_percent?))
        .called("Cache hits", "cache hits")
        .column("hits", "%", Figure::ALWAYS)
        .defined(ORIGIN, "hit_percent")
        .headline(),
    Figure::new("origin_saved_percent", Quantity::Percent, |r| some(asked(r)?.saved_percent?))
        .called("Bytes saved", "bytes saved")
        .column("saved", "bytes, %", Figure::ALWAYS)
        .defined(ORIGIN, "saved_percent")
        .headline(),
];

/// What it did per second, and its use of CPUs.
pub(crate) static MACHINE: &[Figure] = &[
    Figure::new("origin_request_per_s", Quantity::PerSecond, |r| some(asked(r)?.origin_request_rate))
        .called("Origin requests", "origin requests")
        .precision(Precision::UpTo(1))
        .column("requests", "1/s", Figure::ALWAYS)
        .defined(ORIGIN, "origin_request_rate")
        .headline(),
    Figure::new("origin_revalidated_percent", Quantity::Percent, |r| some(asked(r)?.revalidated_percent?))
        .called("Origin requests answered 304", "origin requests answered 304")
        .column("unchanged", "304, %", 4)
        .seldom()
        .defined(ORIGIN, "revalidated_percent"),
    Figure::new("origin_body_bit_per_s", Quantity::BitsPerSecond, |r| some(asked(r)?.origin_body_bps))
        .called("Origin bodies", "origin bodies")
        .precision(Precision::Scaled)
        .column("bodies", "*", 5)
        .defined(ORIGIN, "origin_body_bps"),
    Figure::new("origin_connections_per_request", Quantity::Ratio, |r| {
        some(asked(r)?.origin_connections_per_request?)
    })
    .called("Origin connections per request", "origin connections per request")
    .precision(Precision::Exactly(4))
    .column("connects", "each asked", 6)
    .defined(ORIGIN, "origin_connections_per_request"),
    Figure::new("origin_cpu_percent", Quantity::Percent, |r| some(r.origin()?.server?.cpu_percent))
        .called("Origin CPU", "origin CPU")
        .precision(Precision::Exactly(0))
        .defined(ORIGIN, "server")
        .headline(),
    Figure::new("origin_cpu_user_percent", Quantity::Percent, |r| some(r.origin()?.server?.cpu_user_percent))
        .called("Origin CPU in user mode", "origin CPU in user mode")
        .precision(Precision::Exactly(0))
        .column("user", "% of a CPU", Figure::ALWAYS)
        .defined(ORIGIN, "server"),
    Figure::new("origin_cpu_system_percent", Quantity::Percent, |r| {
        some(r.origin()?.server?.cpu_system_percent)
    })
    .called("Origin CPU in the kernel", "origin CPU in the kernel")
    .precision(Precision::Exactly(0))
    .column("system", "% of a CPU", Figure::ALWAYS)
    .defined(ORIGIN, "server"),
    Figure::new("origin_cpu_per_1000_requests_s", Quantity::Seconds, |r| {
        some(r.origin()?.server?.cpu_per_1000_requests_s)
    })
    .called("Origin CPU per 1,000 requests", "origin CPU per 1,000 requests")
    .column("1,000 requests", "CPU *", Figure::ALWAYS)
    .defined(ORIGIN, "server"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counts, Measured};
    use crate::server_use::{OriginUse, ServerUse};

    fn run(counted: Option<OriginCounts>, server: Option<ServerUse>) -> IterationRecord {
        let counts = Counts { succeeded: 900, failed: 100, body_bytes: 9_000, ..Counts::default() };
        let measured = Measured { window_ns: 2 * NANOS_PER_SECOND, counts, ..Measured::default() };
        IterationRecord {
            origin: Some(OriginUse { server, counted }),
            measured,
            ..IterationRecord::default()
        }
    }

    #[test]
    fn shares_are_of_valid_responses_in_windows_with_reports_of_the_origin() {
        let asked = OriginCounts {
            requests: 90,
            not_modified: 9,
            connections: 45,
            body_bytes: 450,
            ..OriginCounts::default()
        };
        let server = ServerUse { user_ns: NANOS_PER_SECOND, ..ServerUse::default() };
        let runs = [run(Some(asked), Some(server)), run(None, None), run(Some(asked), None)];
        let figures = OriginFigures::of_runs(&runs.iter().collect::<Vec<_>>()).unwrap();
        let expected = AskedFigures {
            requests: 180,
            origin_request_rate: 45.0,
            origin_requests_per_request: Some(0.1),
            hit_percent: Some(90.0),
            revalidated_percent: Some(10.0),
            saved_percent: Some(95.0),
            origin_body_bps: 1_800.0,
            origin_connection_rate: 22.5,
            origin_connections_per_request: Some(0.5),
        };
        assert_eq!(figures.asked, Some(expected));
        // In the only window in which its processes were visible: one second of CPU per 1,000 requests that ended.
        let server = figures.server.unwrap();
        assert_eq!((server.cpu_percent, server.cpu_per_1000_requests_s), (50.0, 1.0));
    }

    #[test]
    fn a_proxy_that_requests_more_than_clients_has_no_hits_and_negative_savings() {
        let asked = OriginCounts { requests: 1_800, body_bytes: 13_500, ..OriginCounts::default() };
        let asked = AskedFigures::of_runs(&[&run(Some(asked), None)]).unwrap();
        assert_eq!((asked.hit_percent, asked.saved_percent), (Some(0.0), Some(-50.0)));
        assert_eq!(asked.origin_requests_per_request, Some(2.0));
    }

    #[test]
    fn without_requests_there_are_no_shares() {
        assert_eq!(OriginFigures::of_runs(&[&IterationRecord::default()]), None);
        let idle = IterationRecord {
            origin: Some(OriginUse { server: None, counted: Some(OriginCounts::default()) }),
            ..IterationRecord::default()
        };
        assert_eq!(OriginFigures::of_runs(&[&idle]).unwrap().asked, Some(AskedFigures::default()));
    }
}
