//! The figures of the server behind a proxy in a level: what the proxy asked of it for what clients asked of the proxy. Every
//! formula is defined in `docs/measurement.md`, "The origin behind a proxy".

use schemars::JsonSchema;
use serde::Serialize;

use crate::record::{IterationRecord, OriginCounts};
use crate::server_figures::ServerFigures;
use crate::units::NANOS_PER_SECOND;

/// What the origin did over the iterations of a level for which it could be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OriginFigures {
    /// What its processes used; requests are those of clients. Absent where they could not be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerFigures>,
    /// What was asked of it; absent where it did not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedFigures>,
}

/// What a proxy asked of its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AskedFigures {
    /// Requests to the origin.
    pub requests: u64,
    /// Requests to the origin / window, 1/s.
    pub origin_request_rate: f64,
    /// Requests to the origin / valid responses to clients; absent where clients had none.
    pub origin_requests_per_request: Option<f64>,
    /// 100 × (1 − the former), and not below 0: valid responses for which the origin was not asked, in percent.
    pub hit_percent: Option<f64>,
    /// Of the requests to the origin, those answered 304 (the proxy's copy is still good), in percent; absent without
    /// requests.
    pub revalidated_percent: Option<f64>,
    /// 100 × (1 − bytes of bodies from the origin / bytes of bodies to clients), in percent; absent where clients had none.
    /// Below 0 where the proxy fetches more than it hands on.
    pub saved_percent: Option<f64>,
    /// Bits of bodies that the origin sent, 1/s.
    pub origin_body_bps: f64,
    /// Connections that the proxy made to the origin / window, 1/s.
    pub origin_connection_rate: f64,
    /// Connections / requests to the origin: 1 where none is kept. Absent without requests.
    pub origin_connections_per_request: Option<f64>,
}

impl OriginFigures {
    /// Over these iterations; `None` where the origin was looked at in none.
    pub fn of(runs: &[&IterationRecord]) -> Option<OriginFigures> {
        let figures = OriginFigures { server: ServerFigures::of_origin(runs), asked: AskedFigures::of(runs) };
        (figures != OriginFigures::default()).then_some(figures)
    }
}

impl AskedFigures {
    fn of(runs: &[&IterationRecord]) -> Option<AskedFigures> {
        let seen: Vec<(&IterationRecord, OriginCounts)> =
            runs.iter().filter_map(|run| Some((*run, run.origin.as_ref()?.counted?))).collect();
        if seen.is_empty() {
            return None;
        }
        let asked = |of: fn(&OriginCounts) -> u64| seen.iter().map(|(_, asked)| of(asked)).sum::<u64>();
        let given = |of: fn(&IterationRecord) -> u64| seen.iter().map(|(run, _)| of(run)).sum::<u64>() as f64;
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

/// a / b; `None` of nothing.
fn quotient(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counts, Measured};
    use crate::record::{OriginUse, ServerUse};

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
    fn shares_are_of_valid_responses_over_the_windows_in_which_the_origin_told() {
        let asked = OriginCounts {
            requests: 90,
            not_modified: 9,
            connections: 45,
            body_bytes: 450,
            ..OriginCounts::default()
        };
        let server = ServerUse { user_ns: NANOS_PER_SECOND, ..ServerUse::default() };
        let runs = [run(Some(asked), Some(server)), run(None, None), run(Some(asked), None)];
        let figures = OriginFigures::of(&runs.iter().collect::<Vec<_>>()).unwrap();
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
        // Of the one window in which its processes were seen: a second of CPU for 1,000 requests that ended.
        let server = figures.server.unwrap();
        assert_eq!((server.cpu_percent, server.cpu_per_1000_requests_s), (50.0, 1.0));
    }

    #[test]
    fn a_proxy_that_asks_for_more_than_it_is_asked_has_no_hits_and_saves_less_than_nothing() {
        let asked = OriginCounts { requests: 1_800, body_bytes: 13_500, ..OriginCounts::default() };
        let asked = AskedFigures::of(&[&run(Some(asked), None)]).unwrap();
        assert_eq!((asked.hit_percent, asked.saved_percent), (Some(0.0), Some(-50.0)));
        assert_eq!(asked.origin_requests_per_request, Some(2.0));
    }

    #[test]
    fn what_did_not_happen_has_no_share() {
        assert_eq!(OriginFigures::of(&[&IterationRecord::default()]), None);
        let idle = IterationRecord {
            origin: Some(OriginUse { server: None, counted: Some(OriginCounts::default()) }),
            ..IterationRecord::default()
        };
        assert_eq!(OriginFigures::of(&[&idle]).unwrap().asked, Some(AskedFigures::default()));
    }
}
