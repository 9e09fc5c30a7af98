//! What happened to TLS handshakes.

use super::quantity::Quantity;
use super::reading::Reading;
use super::table::{Better, Figure, Gate, some};
use crate::metrics::Handshakes;

const SECTION: &str = "TLS handshakes";

/// Counts of handshakes; absent for runs without TLS.
pub(super) static HANDSHAKES: &[Figure] = &[
    Figure::new("tls_handshakes_full", Quantity::Count, |r| some(handshakes(r)?.full))
        .called("TLS handshakes, full", "full handshakes")
        .column("full", "", Figure::ALWAYS)
        .defined(SECTION, "full")
        .prometheus("webstone_tls_handshakes_full_total")
        .otel("webstone.tls.handshakes.full", "{handshake}"),
    Figure::new("tls_handshakes_resumed", Quantity::Count, |r| some(handshakes(r)?.resumed))
        .called("TLS handshakes, resumed", "resumed handshakes")
        .column("resumed", "", Figure::ALWAYS)
        .defined(SECTION, "resumed")
        .prometheus("webstone_tls_handshakes_resumed_total")
        .otel("webstone.tls.handshakes.resumed", "{handshake}"),
    Figure::new("tls_handshakes_failed", Quantity::Count, |r| some(handshakes(r)?.failed))
        .called("TLS handshakes, failed", "failed handshakes")
        .column("failed", "", Figure::ALWAYS)
        .defined(SECTION, "failed")
        .prometheus("webstone_tls_handshakes_failed_total")
        .otel("webstone.tls.handshakes.failed", "{handshake}"),
    Figure::new("tls_early_data_accepted", Quantity::Count, |r| some(handshakes(r)?.early_data_accepted))
        .called("TLS early data accepted", "early data accepted")
        .column("early data", "taken", 3)
        .seldom()
        .defined(SECTION, "early_data_accepted")
        .prometheus("webstone_tls_early_data_accepted_total"),
    Figure::new("tls_early_data_rejected", Quantity::Count, |r| some(handshakes(r)?.early_data_rejected))
        .called("TLS early data rejected", "early data rejected")
        .column("early data", "refused", 3)
        .seldom()
        .defined(SECTION, "early_data_rejected")
        .prometheus("webstone_tls_early_data_rejected_total"),
    Figure::new("tls_too_early", Quantity::Count, |r| some(handshakes(r)?.too_early))
        .called("TLS requests too early", "requests sent again after status 425 (Too Early)")
        .column("early data", "425", 3)
        .seldom()
        .defined(SECTION, "too_early")
        .prometheus("webstone_tls_too_early_total"),
    Figure::new("tls_handshake_rate", Quantity::PerSecond, |r| {
        let seconds = r.measured().window_ns as f64 / 1e9;
        let handshakes = handshakes(r)?;
        (seconds > 0.0).then(|| (handshakes.ended() as f64 / seconds).into())
    })
    .called("TLS handshakes per second", "handshakes/s")
    .column("handshakes", "/s", Figure::ALWAYS)
    .defined(SECTION, "tls_handshake_rate")
    .gate(Gate::named("tls_handshake_rate", "TLS handshakes/s"), Better::More),
];

pub(super) fn handshakes<'r>(r: &'r Reading<'_>) -> Option<&'r Handshakes> {
    r.measured().handshakes.as_ref()
}
