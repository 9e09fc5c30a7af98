//! Figures of runs in HTTP/3 only: streams, datagrams, packets and paths.

use super::quantity::Quantity;
use super::reading::Reading;
use super::table::{Figure, Value, some};
use crate::metrics::{Http3Counts, Moments};

const HTTP3: &str = "HTTP/3";

fn counts<'a>(reading: &'a Reading<'_>) -> Option<&'a Http3Counts> {
    reading.measured().http3.as_ref()
}

/// Per request that ended.
fn per_request(reading: &Reading<'_>, of: fn(&Http3Counts) -> u64) -> Option<Value> {
    let ended = reading.measured().counts.ended();
    (ended > 0).then_some(())?;
    some(of(counts(reading)?) as f64 / ended as f64)
}

/// Per call of the socket.
fn per_call(datagrams: u64, calls: u64) -> Option<Value> {
    (calls > 0).then(|| (datagrams as f64 / calls as f64).into())
}

/// In seconds.
fn mean(moments: &Moments) -> Option<Value> {
    (moments.count > 0).then(|| (moments.mean() / 1e9).into())
}

/// Streams, and what servers did with them; then datagrams, packets and paths.
pub(super) static STREAMS: &[Figure] = &[
    Figure::new("h3_streams", Quantity::Count, |r| some(counts(r)?.streams))
        .called("HTTP/3 streams opened", "HTTP/3 streams opened")
        .column("streams", "opened", Figure::ALWAYS)
        .defined(HTTP3, "streams"),
    Figure::new("h3_concurrent_max", Quantity::Count, |r| some(counts(r)?.concurrent_max))
        .called("HTTP/3 concurrent streams", "most concurrent HTTP/3 streams on a connection")
        .column("at once", "max, per connection", 6)
        .defined(HTTP3, "concurrent_max"),
    Figure::new("h3_waited", Quantity::Count, |r| some(counts(r)?.waited))
        .called("HTTP/3 requests waited", "requests that waited for an HTTP/3 stream")
        .column("waited", "for a stream", 4)
        .defined(HTTP3, "waited"),
    Figure::new("h3_refused", Quantity::Count, |r| some(counts(r)?.refused))
        .called("HTTP/3 requests refused", "HTTP/3 requests refused")
        .column("refused", "", 5)
        .defined(HTTP3, "refused"),
    Figure::new("h3_retried", Quantity::Count, |r| some(counts(r)?.retried))
        .called("HTTP/3 requests retried", "refused HTTP/3 requests that were retried")
        .column("retried", "", 2)
        .defined(HTTP3, "retried"),
    Figure::new("h3_reset", Quantity::Count, |r| some(counts(r)?.reset))
        .called("HTTP/3 streams reset", "HTTP/3 streams that the server reset")
        .column("reset", "by server", 7)
        .defined(HTTP3, "reset"),
    Figure::new("h3_goaways", Quantity::Count, |r| some(counts(r)?.goaways))
        .called("HTTP/3 GOAWAYs", "HTTP/3 connections that the server ended by GOAWAY")
        .column("GOAWAY", "connections", 3)
        .defined(HTTP3, "goaways"),
];

/// What QUIC sent and received.
pub(super) static DATAGRAMS: &[Figure] = &[
    Figure::new("datagrams_sent_per_request", Quantity::Ratio, |r| per_request(r, |c| c.sent.datagrams))
        .called("Datagrams sent per request", "datagrams sent per request")
        .column("datagrams", "sent/request", Figure::ALWAYS)
        .defined(HTTP3, "datagrams_sent_per_request"),
    Figure::new("datagrams_received_per_request", Quantity::Ratio, |r| {
        per_request(r, |c| c.received.datagrams)
    })
    .called("Datagrams received per request", "datagrams received per request")
    .column("datagrams", "received/request", Figure::ALWAYS)
    .defined(HTTP3, "datagrams_received_per_request"),
    Figure::new("datagrams_per_send", Quantity::Ratio, |r| {
        counts(r).and_then(|c| per_call(c.sent.datagrams, c.sends))
    })
    .called("Datagrams per send", "datagrams per system call that sent some")
    .column("datagrams", "per send", 3)
    .defined(HTTP3, "datagrams_per_send"),
    Figure::new("datagrams_per_receive", Quantity::Ratio, |r| {
        counts(r).and_then(|c| per_call(c.received.datagrams, c.receives))
    })
    .called("Datagrams per receive", "datagrams per system call that received some")
    .column("datagrams", "per receive", 3)
    .defined(HTTP3, "datagrams_per_receive"),
    Figure::new("udp_bytes_sent_per_request", Quantity::Bytes, |r| per_request(r, |c| c.sent.bytes))
        .called("UDP bytes sent per request", "UDP bytes sent per request")
        .column("UDP", "sent/request", 5)
        .defined(HTTP3, "udp_bytes_sent_per_request"),
    Figure::new("udp_bytes_received_per_request", Quantity::Bytes, |r| per_request(r, |c| c.received.bytes))
        .called("UDP bytes received per request", "UDP bytes received per request")
        .column("UDP", "received/request", 5)
        .defined(HTTP3, "udp_bytes_received_per_request"),
    Figure::new("packets_lost", Quantity::Count, |r| some(counts(r)?.packets_lost))
        .called("Packets lost", "packets lost")
        .column("packets", "lost", Figure::ALWAYS)
        .defined(HTTP3, "packets_lost"),
    Figure::new("packets_lost_spuriously", Quantity::Count, |r| some(counts(r)?.packets_lost_spuriously))
        .called("Spurious losses", "packets that were believed to be lost and were not")
        .column("of those", "spurious", 3)
        .defined(HTTP3, "packets_lost_spuriously"),
    Figure::new("probe_timeouts", Quantity::Count, |r| some(counts(r)?.probe_timeouts))
        .called("Probe timeouts", "probe timeouts (PTO)")
        .column("PTOs", "", 7)
        .defined(HTTP3, "probe_timeouts"),
    Figure::new("rtt_smoothed_s", Quantity::Seconds, |r| mean(&counts(r)?.rtt_smoothed))
        .called("Round-trip time, smoothed", "smoothed round-trip time")
        .column("RTT", "smoothed, *", 6)
        .defined(HTTP3, "rtt_smoothed"),
    Figure::new("rtt_least_s", Quantity::Seconds, |r| {
        let least = &counts(r)?.rtt_least;
        (least.count > 0).then(|| (least.min as f64 / 1e9).into())
    })
    .called("Round-trip time, least", "least round-trip time")
    .column("RTT", "least, *", 6)
    .defined(HTTP3, "rtt_least"),
    Figure::new("mtu_bytes", Quantity::Count, |r| {
        let mtu = &counts(r)?.mtu;
        (mtu.count > 0).then_some(mtu.min.into())
    })
    .called("Path MTU", "smallest of the paths' largest datagrams, in bytes")
    .column("MTU", "bytes", 4)
    .defined(HTTP3, "mtu"),
    Figure::new("retries_quic", Quantity::Count, |r| some(counts(r)?.retries))
        .called("Retry", "connections that began again after Retry")
        .column("Retry", "connections", 1)
        .seldom()
        .defined(HTTP3, "retries"),
    Figure::new("version_negotiations", Quantity::Count, |r| some(counts(r)?.version_negotiations))
        .called("Version Negotiation", "Version Negotiation packets")
        .column("version", "negotiation", 1)
        .seldom()
        .defined(HTTP3, "version_negotiations"),
    Figure::new("datagrams_unsent", Quantity::Count, |r| some(counts(r)?.unsent))
        .called("Sends cut short", "sends whose datagrams the socket did not take all")
        .column("sends", "cut short", 1)
        .seldom()
        .defined(HTTP3, "unsent"),
    Figure::new("h3_early_requests", Quantity::Count, |r| some(counts(r)?.early_requests))
        .called("HTTP/3 early requests", "HTTP/3 requests sent as early data")
        .column("0-RTT", "requests", 5)
        .seldom()
        .defined(HTTP3, "early_requests"),
    Figure::new("h3_early_repeated", Quantity::Count, |r| some(counts(r)?.early_repeated))
        .called("HTTP/3 early requests sent again", "HTTP/3 requests sent again after rejected early data")
        .column("0-RTT", "sent again", 5)
        .seldom()
        .defined(HTTP3, "early_repeated"),
    Figure::new("datagram_receive_drops", Quantity::Count, |r| some(counts(r)?.receive_drops))
        .called(
            "Full receive queues",
            "times that a socket dropped datagrams because its receive queue was full",
        )
        .column("receive", "drops", 8)
        .defined(HTTP3, "receive_drops"),
];
