//! Counters of requests, connections, pages and bytes, and the sizes of responses.

use super::quantity::Quantity;
use super::table::{Figure, some};

const COUNTED: &str = "Counters";

/// A counter, with names of its own if it has any.
macro_rules! counter {
    ($key:literal, $long:literal, $field:ident) => {
        Figure::new($key, Quantity::Count, |r| some(r.measured().counts.$field))
            .called($long, stringify!($field))
            .defined(COUNTED, stringify!($field))
            .detail()
    };
}

/// The four figures of a kind of size.
macro_rules! sizes {
    ($key:literal, $words:literal, $moments:ident) => {
        sizes!($key, $words, $moments, ["mean" "mean" mean(), "std_dev" "std dev" standard_deviation(), "min" "min" min, "max" "max" max])
    };
    ($key:literal, $words:literal, $moments:ident, [$($part:literal $shown:literal $of:ident $(($($no:tt)*))?),*]) => {
        [$(
            Figure::new(concat!($key, "_", $part, "_bytes"), Quantity::Bytes, |r| {
                let sizes = &r.measured().$moments;
                (sizes.count > 0).then(|| sizes.$of $(($($no)*))?.into())
            })
            .called(concat!($words, " ", $shown), concat!($words, " ", $shown))
            .defined("Figures", "")
            .detail(),
        )*]
    };
}

const RESPONSES: [Figure; 4] = sizes!("response_size", "Response size", response_bytes);
const BODIES: [Figure; 4] = sizes!("body_size", "Body size", body_bytes);

/// Sizes of responses and of their bodies.
pub(super) static SIZES: &[Figure] =
    &[RESPONSES[0], RESPONSES[1], RESPONSES[2], RESPONSES[3], BODIES[0], BODIES[1], BODIES[2], BODIES[3]];

/// The counters of a window.
pub(super) static COUNTERS: &[Figure] = &[
    counter!("requests_planned", "Requests planned", planned).prometheus("webstone_requests_planned_total"),
    counter!("requests_skipped", "Requests skipped", skipped).prometheus("webstone_requests_skipped_total"),
    counter!("requests_carried_in", "Requests carried in", carried_in)
        .prometheus("webstone_requests_carried_in_total"),
    counter!("requests_started", "Requests started", started)
        .prometheus("webstone_requests_started_total")
        .otel("webstone.requests.started", "{request}"),
    counter!("requests_succeeded", "Requests succeeded", succeeded)
        .prometheus("webstone_requests_succeeded_total")
        .otel("webstone.requests.succeeded", "{request}"),
    counter!("requests_failed", "Requests failed", failed)
        .prometheus("webstone_requests_failed_total")
        .otel("webstone.requests.failed", "{request}"),
    counter!("requests_in_flight", "Requests in flight", in_flight).prometheus("webstone_requests_in_flight"),
    counter!("connections", "Connections", connections)
        .prometheus("webstone_connections_total")
        .otel("webstone.connections", "{connection}"),
    counter!("connections_failed", "Connections failed", connections_failed)
        .prometheus("webstone_connections_failed_total")
        .otel("webstone.connections.failed", "{connection}"),
    counter!("stale_retries", "Stale retries", stale_retries).prometheus("webstone_stale_retries_total"),
    counter!("connections_lingered", "Connections lingered", lingered),
    counter!("pages_completed", "Pages completed", pages_completed)
        .prometheus("webstone_pages_completed_total")
        .otel("webstone.pages.completed", "{page}"),
    counter!("pages_failed", "Pages failed", pages_failed)
        .prometheus("webstone_pages_failed_total")
        .otel("webstone.pages.failed", "{page}"),
    counter!("head_bytes", "Heads", head_bytes).in_bytes().prometheus("webstone_head_bytes_total"),
    counter!("body_bytes", "Bodies", body_bytes).in_bytes().prometheus("webstone_body_bytes_total"),
    counter!("framing_bytes", "Framing", framing_bytes).in_bytes().prometheus("webstone_framing_bytes_total"),
    counter!("sent_bytes", "Sent", sent_bytes)
        .in_bytes()
        .prometheus("webstone_sent_bytes_total")
        .otel("webstone.sent", "By"),
];

/// Sums of the counters above that one format needs.
pub(super) static MORE: &[Figure] =
    &[Figure::new("received_bytes", Quantity::Bytes, |r| some(r.measured().counts.received_bytes()))
        .called("Received", "received")
        .defined(COUNTED, "body_bytes")
        .otel("webstone.received", "By")
        .detail()];
