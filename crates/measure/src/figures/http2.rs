//! Figures of runs in HTTP/2 only: streams and frames.

use super::quantity::Quantity;
use super::reading::Reading;
use super::table::{Figure, some};
use crate::metrics::Http2Counts;

const HTTP2: &str = "HTTP/2";

fn counts<'a>(reading: &'a Reading<'_>) -> Option<&'a Http2Counts> {
    reading.measured().http2.as_ref()
}

/// Streams, and what servers did with them.
pub(super) static STREAMS: &[Figure] = &[
    Figure::new("streams", Quantity::Count, |r| some(counts(r)?.streams))
        .called("Streams opened", "streams opened")
        .column("streams", "opened", Figure::ALWAYS)
        .defined(HTTP2, "streams"),
    Figure::new("streams_concurrent_max", Quantity::Count, |r| some(counts(r)?.concurrent_max))
        .called("Concurrent streams", "most concurrent streams on a connection")
        .column("at once", "max, per connection", Figure::ALWAYS)
        .defined(HTTP2, "concurrent_max"),
    Figure::new("streams_allowed_min", Quantity::Count, |r| some(counts(r)?.allowed_min?))
        .called("Streams allowed", "fewest streams that the server allowed on a connection")
        .column("allowed", "per connection", 6)
        .defined(HTTP2, "allowed_min"),
    Figure::new("streams_waited", Quantity::Count, |r| some(counts(r)?.waited))
        .called("Requests waited", "requests that waited for a stream")
        .column("waited", "for a stream", 5)
        .defined(HTTP2, "waited"),
    Figure::new("streams_refused", Quantity::Count, |r| some(counts(r)?.refused))
        .called("Streams refused", "streams refused")
        .column("refused", "", Figure::ALWAYS)
        .defined(HTTP2, "refused"),
    Figure::new("streams_retried", Quantity::Count, |r| some(counts(r)?.retried))
        .called("Streams retried", "refused streams that were retried")
        .column("retried", "", 3)
        .defined(HTTP2, "retried"),
    Figure::new("streams_reset", Quantity::Count, |r| some(counts(r)?.reset))
        .called("Streams reset", "streams that the server reset")
        .column("reset", "by server", 7)
        .defined(HTTP2, "reset"),
    Figure::new("goaways", Quantity::Count, |r| some(counts(r)?.goaways))
        .called("GOAWAYs", "connections that the server ended by GOAWAY")
        .column("GOAWAY", "connections", 4)
        .defined(HTTP2, "goaways"),
    Figure::new("frames", Quantity::Count, |r| some(counts(r)?.frames))
        .called("Frames received", "frames received")
        .column("frames", "received", 2)
        .defined(HTTP2, "frames"),
];
