//! What was counted of requests, connections, pages and bytes, and the sizes of responses.

use super::quantity::Quantity;
use super::table::{Figure, some};

const COUNTED: &str = "Counters";

/// A counter, with its names where it has more than one.
macro_rules! counter {
    ($key:literal, $long:literal, $name:literal, $of:expr) => {
        Figure::new($key, Quantity::Count, $of).called($long, $name).defined(COUNTED, $name).detail()
    };
}

/// The four numbers of a kind of size.
macro_rules! sizes {
    ($key:literal, $words:literal, $moments:ident) => {
        [
            Figure::new(concat!($key, "_mean_bytes"), Quantity::Bytes, |r| {
                let sizes = &r.measured().$moments;
                (sizes.count > 0).then(|| sizes.mean().into())
            })
            .called(concat!($words, " mean"), concat!($words, " mean"))
            .defined("Figures", "")
            .detail(),
            Figure::new(concat!($key, "_std_dev_bytes"), Quantity::Bytes, |r| {
                let sizes = &r.measured().$moments;
                (sizes.count > 0).then(|| sizes.standard_deviation().into())
            })
            .called(concat!($words, " std dev"), concat!($words, " std dev"))
            .defined("Figures", "")
            .detail(),
            Figure::new(concat!($key, "_min_bytes"), Quantity::Bytes, |r| {
                let sizes = &r.measured().$moments;
                (sizes.count > 0).then(|| sizes.min.into())
            })
            .called(concat!($words, " min"), concat!($words, " min"))
            .defined("Figures", "")
            .detail(),
            Figure::new(concat!($key, "_max_bytes"), Quantity::Bytes, |r| {
                let sizes = &r.measured().$moments;
                (sizes.count > 0).then(|| sizes.max.into())
            })
            .called(concat!($words, " max"), concat!($words, " max"))
            .defined("Figures", "")
            .detail(),
        ]
    };
}

const RESPONSES: [Figure; 4] = sizes!("response_size", "Response size", response_bytes);
const BODIES: [Figure; 4] = sizes!("body_size", "Body size", body_bytes);

/// Sizes of responses and of their bodies.
pub(super) static SIZES: &[Figure] =
    &[RESPONSES[0], RESPONSES[1], RESPONSES[2], RESPONSES[3], BODIES[0], BODIES[1], BODIES[2], BODIES[3]];

/// The counters of a window.
pub(super) static COUNTERS: &[Figure] = &[
    counter!("requests_planned", "Requests planned", "planned", |r| some(r.measured().counts.planned))
        .prometheus("webstone_requests_planned_total"),
    counter!("requests_skipped", "Requests skipped", "skipped", |r| some(r.measured().counts.skipped))
        .prometheus("webstone_requests_skipped_total"),
    counter!("requests_carried_in", "Requests carried in", "carried_in", |r| {
        some(r.measured().counts.carried_in)
    })
    .prometheus("webstone_requests_carried_in_total"),
    counter!("requests_started", "Requests started", "started", |r| some(r.measured().counts.started))
        .prometheus("webstone_requests_started_total")
        .otel("webstone.requests.started", "{request}"),
    counter!("requests_succeeded", "Requests succeeded", "succeeded", |r| {
        some(r.measured().counts.succeeded)
    })
    .prometheus("webstone_requests_succeeded_total")
    .otel("webstone.requests.succeeded", "{request}"),
    counter!("requests_failed", "Requests failed", "failed", |r| some(r.measured().counts.failed))
        .prometheus("webstone_requests_failed_total")
        .otel("webstone.requests.failed", "{request}"),
    counter!("requests_in_flight", "Requests in flight", "in_flight", |r| {
        some(r.measured().counts.in_flight)
    })
    .prometheus("webstone_requests_in_flight"),
    counter!("connections", "Connections", "connections", |r| some(r.measured().counts.connections))
        .prometheus("webstone_connections_total")
        .otel("webstone.connections", "{connection}"),
    counter!("connections_failed", "Connections failed", "connections_failed", |r| {
        some(r.measured().counts.connections_failed)
    })
    .prometheus("webstone_connections_failed_total")
    .otel("webstone.connections.failed", "{connection}"),
    counter!("stale_retries", "Stale retries", "stale_retries", |r| {
        some(r.measured().counts.stale_retries)
    })
    .prometheus("webstone_stale_retries_total"),
    counter!("connections_lingered", "Connections lingered", "lingered", |r| {
        some(r.measured().counts.lingered)
    }),
    counter!("pages_completed", "Pages completed", "pages_completed", |r| {
        some(r.measured().counts.pages_completed)
    })
    .prometheus("webstone_pages_completed_total")
    .otel("webstone.pages.completed", "{page}"),
    counter!("pages_failed", "Pages failed", "pages_failed", |r| some(r.measured().counts.pages_failed))
        .prometheus("webstone_pages_failed_total")
        .otel("webstone.pages.failed", "{page}"),
    counter!("head_bytes", "Heads", "head_bytes", |r| some(r.measured().counts.head_bytes))
        .in_bytes()
        .prometheus("webstone_head_bytes_total"),
    counter!("body_bytes", "Bodies", "body_bytes", |r| some(r.measured().counts.body_bytes))
        .in_bytes()
        .prometheus("webstone_body_bytes_total"),
    counter!("framing_bytes", "Framing", "framing_bytes", |r| some(r.measured().counts.framing_bytes))
        .in_bytes()
        .prometheus("webstone_framing_bytes_total"),
    counter!("sent_bytes", "Sent", "sent_bytes", |r| some(r.measured().counts.sent_bytes))
        .in_bytes()
        .prometheus("webstone_sent_bytes_total")
        .otel("webstone.sent", "By"),
];

/// Sums of the former that one format asks for.
pub(super) static MORE: &[Figure] =
    &[Figure::new("received_bytes", Quantity::Bytes, |r| some(r.measured().counts.received_bytes()))
        .called("Received", "received")
        .defined(COUNTED, "body_bytes")
        .otel("webstone.received", "By")
        .detail()];
