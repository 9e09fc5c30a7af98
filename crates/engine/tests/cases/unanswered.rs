//! A server that falls silent while clients wait: figures include the time that they waited, over every protocol.

use super::peer::{file, one_page, run};
use super::protocols::{WAYS, Way};
use webstone_measure::figures::Figures;
use webstone_measure::units::Nanos;
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};
use webstone_workload::load::HttpVersion;

/// Every 20th answer stops, before its first byte or in its body, and never continues: in the end all clients wait
/// for one.
#[test]
fn waits_at_the_end_of_the_window_are_in_every_figure() {
    const CLIENTS: u64 = 4;
    let plain = Way { is_secure: false, http: HttpVersion::Http11 };
    for way in [plain].into_iter().chain(WAYS) {
        for (after, policy) in [("", KeepAlive), ("&after=100", KeepAlive), ("", PerRequest)] {
            let server = way.server(|_| {});
            let mut spec = way.spec(&server, policy, 1);
            spec.load.pages = None;
            spec.load.duration = Nanos::from_secs(1);
            spec.load.drain = Nanos::from_millis(10);
            let stalls = format!("/test?fault=stall{after}&size=500&every=20");
            let measured = run(&spec, &one_page(vec![file(&stalls, Some(500))]), CLIENTS as u32).measured;
            let (counts, waits) = (&measured.counts, &measured.unanswered);
            let case = format!("{way:?} {policy:?} {after}: {counts:?}");
            if counts.started == 0 {
                continue; // The worker had no CPU in the whole window.
            }
            // On a stalled machine there may be too little time for 80 requests; those in flight still wait.
            assert_eq!((counts.failed, counts.in_flight), (0, CLIENTS), "{case}");
            assert_eq!((waits.in_flight.count, waits.response.count), (CLIENTS, CLIENTS), "{case}");
            // Without a warm-up, everything that clients did lies in the window.
            assert_eq!(measured.response.sum + waits.response.sum, counts.busy_ns, "{case}");
            if policy == PerRequest {
                assert_eq!(counts.connections_answered, counts.succeeded, "{case}");
            }
            if counts.succeeded == 0 {
                continue;
            }
            let figures = Figures::of_measured(&measured);
            let requests = (counts.succeeded + CLIENTS) as f64;
            assert!(figures.latency_mean_s * 1e9 * requests >= counts.busy_ns as f64 * 0.999_999, "{case}");
            assert!(figures.latency_max_s * 1e9 >= waits.in_flight.max as f64 * 0.999_999, "{case}");
            let is_longest = waits.response.max as f64 > measured.response.max as f64 * 1.05;
            assert!(!is_longest || figures.latency_at_least_from_percentile.is_some(), "{case}");
        }
    }
}
