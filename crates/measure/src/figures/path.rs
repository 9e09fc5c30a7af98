//! Figures of a path between clients and a server that webstone started (`server.path`): what its relay carried, lost, and added.

use super::host::HostFigures;
use super::quantity::Quantity;
use super::quotient;
use super::table::{Figure, Precision, Value, some};
use crate::host_use::{DirectionUse, PathUse};

const PATH: &str = "The path";

/// Per request that ended.
fn per_request(host: &HostFigures, of: fn(&PathUse) -> u64) -> Option<Value> {
    let path = host.path.as_ref().filter(|_| host.ended > 0)?;
    some(of(path) as f64 / host.ended as f64)
}

/// Packets that were given to the path in this direction.
fn given(direction: DirectionUse) -> u64 {
    direction.packets.saturating_add(direction.lost).saturating_add(direction.queue_full)
}

/// What went over it, and what the relay did to it.
pub(super) static CARRIED: &[Figure] = &[
    Figure::of_host("path_packets_per_s", Quantity::PerSecond, |host| {
        let path = host.path?;
        some(quotient(path.both().packets as f64 * 1e9, path.elapsed_ns as f64))
    })
    .called("Path packets", "packets that the path carried")
    .precision(Precision::UpTo(0))
    .column("carried", "packets/s", Figure::ALWAYS)
    .defined(PATH, "path_packets_per_s"),
    Figure::of_host("path_lost_percent", Quantity::Percent, |host| {
        let path = host.path?;
        some(100.0 * quotient(path.both().lost as f64, given(path.both()) as f64))
    })
    .called("Path loss", "packets that the path lost")
    .precision(Precision::UpTo(2))
    .column("lost", "%", Figure::ALWAYS)
    .defined(PATH, "path_lost_percent"),
    Figure::of_host("path_received_bytes_per_request", Quantity::Bytes, |host| {
        per_request(host, |path| path.to_clients.bytes)
    })
    .called("Path bytes received per request", "bytes that clients received over the path per request")
    .column("received", "*/request", Figure::ALWAYS)
    .defined(PATH, "path_received_bytes_per_request"),
    Figure::of_host("path_sent_bytes_per_request", Quantity::Bytes, |host| {
        per_request(host, |path| path.to_server.bytes)
    })
    .called("Path bytes sent per request", "bytes that the server received over the path per request")
    .column("sent", "*/request", 5)
    .defined(PATH, "path_sent_bytes_per_request"),
    Figure::of_host("path_late_mean_s", Quantity::Seconds, |host| {
        let both = host.path?.both();
        some(quotient(both.late_ns as f64 / 1e9, both.packets as f64))
    })
    .called("Path lateness, mean", "how late packets left the relay, mean")
    .column("late", "mean, *", Figure::ALWAYS)
    .defined(PATH, "path_late_mean"),
    Figure::of_host("path_late_max_s", Quantity::Seconds, |host| {
        some(host.path?.both().late_ns_max as f64 / 1e9)
    })
    .called("Path lateness, max", "how late packets left the relay, max")
    .column("late", "max, *", 6)
    .defined(PATH, "path_late_max"),
    Figure::of_host("path_cpu_percent", Quantity::Percent, |host| some(host.path?.cpu_percent()))
        .called("Path relay CPU", "CPU time of the path's relay")
        .precision(Precision::UpTo(1))
        .column("relay", "CPU %", Figure::ALWAYS)
        .defined(PATH, "path_cpu_percent"),
    Figure::of_host("path_queue_full", Quantity::Count, |host| some(host.path?.both().queue_full))
        .called("Path queue full", "packets that found the queue of the path's rate full")
        .column("queue", "full", 4)
        .seldom()
        .defined(PATH, "path_queue_full"),
    Figure::of_host("path_overflowed", Quantity::Count, |host| some(host.path?.overflowed))
        .called("Path packets overflowed", "packets that the relay did not fetch in time")
        .column("overflowed", "packets", 4)
        .seldom()
        .defined(PATH, "path_overflowed"),
];
