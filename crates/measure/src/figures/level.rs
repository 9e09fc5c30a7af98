//! The headline figures of the table: rates, volume, response times and their parts, fairness.

use super::quantity::Quantity;
use super::seconds;
use super::table::{Better, Figure, Gate, Precision, Value, some};
use super::times::longest;
use crate::metrics::Mean;

const LEVEL: &str = "Figures";
const FAIR: &str = "Fairness";

/// Events per second, and the length of the measurement.
pub(super) static RATES: &[Figure] = &[
    Figure::new("test_time_s", Quantity::Duration, |r| some(r.figures().test_time_s))
        .called("Test time", "time")
        .defined(LEVEL, "test_time_s")
        .json("figures.test_time_s")
        .prometheus("webstone_window_seconds"),
    CONNECTION_RATE,
    REQUEST_RATE,
    ERROR_RATE,
    ERROR_LEVEL,
];

/// `connects`: connections established per second.
pub const CONNECTION_RATE: Figure =
    Figure::new("connections_per_s", Quantity::PerSecond, |r| r.windowed(r.figures().connection_rate))
        .called("Connections", "connections")
        .column("connects", "/s", 22)
        .defined(LEVEL, "connection_rate")
        .json("figures.connection_rate")
        .prometheus("webstone_connections_per_second")
        .otel("webstone.connection.rate", "{connection}/s")
        .gate(Gate::compared("connects", "1/s"), Better::More)
        .headline();

/// `rate`: valid responses per second.
pub const REQUEST_RATE: Figure =
    Figure::new("requests_per_s", Quantity::PerSecond, |r| r.windowed(r.figures().request_rate))
        .called("Requests", "requests")
        .column("requests", "/s", Figure::ALWAYS)
        .defined(LEVEL, "request_rate")
        .json("figures.request_rate")
        .prometheus("webstone_requests_per_second")
        .otel("webstone.request.rate", "{request}/s")
        .gate(Gate::compared("rate", "requests/s"), Better::More)
        .headline();

/// Failed requests per second.
pub const ERROR_RATE: Figure =
    Figure::new("errors_per_s", Quantity::PerSecond, |r| r.windowed(r.figures().error_rate))
        .called("Errors", "errors")
        .column("errors", "/s", Figure::ALWAYS)
        .defined(LEVEL, "error_rate")
        .json("figures.error_rate")
        .prometheus("webstone_errors_per_second")
        .headline();

/// `errors`: the error level. Absent if nothing was attempted.
pub const ERROR_LEVEL: Figure = Figure::new("error_level_percent", Quantity::Percent, |r| {
    let counts = &r.measured().counts;
    (counts.ended() > 0 || counts.connections_failed > 0).then(|| r.figures().error_level_percent.into())
})
.called("Error level", "error level")
.precision(Precision::UpTo(3))
.defined(LEVEL, "error_level_percent")
.json("figures.error_level_percent")
.prometheus("webstone_error_ratio")
.gate(Gate::compared("errors", "%").differs().words("fewer", "more"), Better::Less);

/// How much was transferred.
pub(super) static VOLUME: &[Figure] =
    &[THROUGHPUT, CLIENT_THROUGHPUT, LITTLE, PAGES_PER_MINUTE, WEBSTONE_NUMBER];

/// `throughput`: bits of valid responses per second.
pub const THROUGHPUT: Figure =
    Figure::new("throughput_bit_per_s", Quantity::BitsPerSecond, |r| r.windowed(r.figures().throughput_bps))
        .called("Throughput", "throughput")
        .column("throughput", "Mbit/s", Figure::ALWAYS)
        .defined(LEVEL, "throughput_bps")
        .json("figures.throughput_bps")
        .prometheus("webstone_throughput_bytes_per_second")
        .otel("webstone.throughput", "By/s")
        .gate(Gate::compared("throughput", "bit/s, MB/s"), Better::More)
        .headline();

/// Throughput of a single client while it waits.
pub const CLIENT_THROUGHPUT: Figure =
    Figure::new("client_throughput_bit_per_s", Quantity::BitsPerSecond, |r| {
        r.windowed(r.figures().client_throughput_bps)
    })
    .called("Throughput of a waiting client", "throughput per client")
    .column("per client", "Mbit/s", 0)
    .defined(LEVEL, "client_throughput_bps")
    .json("figures.client_throughput_bps")
    .prometheus("webstone_client_throughput_bytes_per_second");

/// Little's load factor: requests in progress.
pub const LITTLE: Figure =
    Figure::new("little_load_factor", Quantity::Ratio, |r| r.windowed(r.figures().little))
        .called("Little's load factor", "Little's load")
        .precision(Precision::Exactly(2))
        .column("Little's", "load", 21)
        .defined(LEVEL, "little")
        .json("figures.little")
        .prometheus("webstone_little_load")
        .otel("webstone.load", "{request}")
        .headline();

/// Complete pages per minute.
pub const PAGES_PER_MINUTE: Figure =
    Figure::new("pages_per_minute", Quantity::PerMinute, |r| r.windowed(r.figures().pages_per_minute))
        .called("Pages", "pages")
        .column("pages", "/min", 3)
        .defined(LEVEL, "pages_per_minute")
        .json("figures.pages_per_minute");

/// The WEBSTONE number.
pub const WEBSTONE_NUMBER: Figure =
    Figure::new("webstone_number", Quantity::Count, |r| r.windowed(r.figures().webstone_number))
        .called("WEBSTONE number", "WEBSTONE number")
        .defined(LEVEL, "webstone_number")
        .json("figures.webstone_number")
        .prometheus("webstone_number");

/// Response times.
pub(super) static LATENCY: &[Figure] = &[
    LATENCY_MEAN,
    Figure::new("latency_std_dev_s", Quantity::Seconds, |r| {
        r.answered(r.measured().response.standard_deviation() / 1e9)
    })
    .called("Latency std dev", "latency std dev")
    .defined("Figures", "latency_mean_s")
    .detail(),
    LATENCY_MIN,
    LATENCY_P50,
    Figure::new("latency_p75_s", Quantity::Seconds, |r| r.latency(75.0, |it| it.p75_s))
        .called("Latency p75", "p75")
        .defined(LEVEL, "latency_percentiles_s")
        .json("figures.latency_percentiles_s")
        .detail(),
    LATENCY_P90,
    Figure::new("latency_p95_s", Quantity::Seconds, |r| r.latency(95.0, |it| it.p95_s))
        .called("Latency p95", "p95")
        .defined(LEVEL, "latency_percentiles_s")
        .json("figures.latency_percentiles_s")
        .detail(),
    LATENCY_P99,
    Figure::new("latency_p99_9_s", Quantity::Seconds, |r| r.latency(99.9, |it| it.p99_9_s))
        .called("Latency p99.9", "p99.9")
        .defined(LEVEL, "latency_percentiles_s")
        .json("figures.latency_percentiles_s"),
    Figure::new("latency_p99_99_s", Quantity::Seconds, |r| r.latency(99.99, |it| it.p99_99_s))
        .called("Latency p99.99", "p99.99")
        .defined(LEVEL, "latency_percentiles_s")
        .json("figures.latency_percentiles_s")
        .detail(),
    LATENCY_MAX,
];

/// `avg`: mean response time.
pub const LATENCY_MEAN: Figure = Figure::new("latency_mean_s", Quantity::Seconds, |r| {
    let is_at_least = r.figures().latency_mean_is_at_least;
    r.answered(Value::bounded(r.figures().latency_mean_s, is_at_least))
})
.called("Latency mean", "latency mean")
.column("latency", "mean, *", Figure::ALWAYS)
.defined(LEVEL, "latency_mean_s")
.json("figures.latency_mean_s")
.gate(Gate::compared("avg", "mean response time"), Better::Less)
.headline();

/// `min`: shortest response time, exactly.
pub const LATENCY_MIN: Figure =
    Figure::new("latency_min_s", Quantity::Seconds, |r| r.answered(seconds(r.measured().response.min)))
        .called("Latency min", "min")
        .defined("Figures", "latency_mean_s")
        .gate(Gate::named("min", "shortest response time"), Better::Less)
        .detail();

/// The median response time.
pub const LATENCY_P50: Figure =
    Figure::new("latency_p50_s", Quantity::Seconds, |r| r.latency(50.0, |it| it.p50_s))
        .called("Latency p50", "p50")
        .defined(LEVEL, "latency_percentiles_s")
        .json("figures.latency_percentiles_s")
        .headline();

/// The 90th percentile of response times.
pub const LATENCY_P90: Figure =
    Figure::new("latency_p90_s", Quantity::Seconds, |r| r.latency(90.0, |it| it.p90_s))
        .called("Latency p90", "p90")
        .defined(LEVEL, "latency_percentiles_s")
        .json("figures.latency_percentiles_s")
        .headline();

/// The 99th percentile of response times.
pub const LATENCY_P99: Figure =
    Figure::new("latency_p99_s", Quantity::Seconds, |r| r.latency(99.0, |it| it.p99_s))
        .called("Latency p99", "p99")
        .column("latency", "p99, *", 26)
        .defined(LEVEL, "latency_percentiles_s")
        .json("figures.latency_percentiles_s")
        .headline();

/// `max`: longest response time, exactly.
pub const LATENCY_MAX: Figure = Figure::new("latency_max_s", Quantity::Seconds, |r| {
    r.answered(longest(&r.measured().response, Some(&r.measured().unanswered.response)))
})
.called("Latency max", "max")
.defined(LEVEL, "latency_max_s")
.json("figures.latency_max_s")
.gate(Gate::named("max", "longest response time"), Better::Less)
.headline();

/// The parts of a response time without columns of their own above.
pub(super) static PARTS: &[Figure] = &[
    Figure::new("first_byte_mean_s", Quantity::Seconds, |r| {
        let measured = r.measured();
        let mean = Mean::of_moments(&measured.first_byte, &measured.unanswered.first_byte);
        let is_at_least = mean.is_some_and(|mean| mean.is_at_least);
        r.answered(Value::bounded(r.figures().first_byte_mean_s, is_at_least))
    })
    .called("First byte mean", "first byte mean")
    .defined(LEVEL, "first_byte_mean_s")
    .json("figures.first_byte_mean_s"),
    Figure::new("transfer_mean_s", Quantity::Seconds, |r| r.answered(r.figures().transfer_mean_s))
        .called("Transfer mean", "transfer mean")
        .defined(LEVEL, "transfer_mean_s")
        .json("figures.transfer_mean_s"),
];

/// `fairness`: Jain's index over the clients' completed pages.
pub const JAIN_PAGES: Figure =
    Figure::new("fairness_jain_pages", Quantity::Share, |r| some(r.fairness()?.jain_pages))
        .called("Fairness by pages (Jain)", "fairness")
        .column("Jain", "pages", Figure::ALWAYS)
        .defined(FAIR, "jain_pages")
        .prometheus("webstone_fairness_jain_pages_ratio")
        .gate(Gate::named("fairness", "Jain's index, 1 when all clients are served equally"), Better::More);

/// How equally clients were served.
pub(super) static FAIRNESS: &[Figure] = &[
    JAIN_PAGES,
    Figure::new("fairness_jain_latency", Quantity::Share, |r| some(r.fairness()?.jain_latency))
        .called("Fairness by latency (Jain)", "fairness by latency")
        .column("Jain", "latency", 2)
        .defined(FAIR, "jain_latency")
        .prometheus("webstone_fairness_jain_latency_ratio"),
    Figure::new("client_pages_min", Quantity::Count, |r| some(r.fairness()?.pages.0))
        .called("Client pages min", "fewest pages of a client")
        .column("pages", "fewest", Figure::ALWAYS)
        .defined(FAIR, "pages"),
    Figure::new("client_pages_max", Quantity::Count, |r| some(r.fairness()?.pages.1))
        .called("Client pages max", "most pages of a client")
        .column("pages", "most", Figure::ALWAYS)
        .defined(FAIR, "pages"),
    Figure::new("clients_starved", Quantity::Count, |r| some(r.fairness()?.starved))
        .called("Starved clients", "starved clients")
        .column("starved", "clients", Figure::ALWAYS)
        .defined(FAIR, "starved")
        .prometheus("webstone_clients_starved"),
];

/// The shortest and the longest mean response time of a client.
pub(super) static FAIRNESS_TIMES: &[Figure] = &[
    Figure::new("client_latency_mean_min_s", Quantity::Seconds, |r| some(r.fairness()?.latency_ns.0 / 1e9))
        .called("Latency mean of the fastest client", "fastest client")
        .column("latency", "lowest, *", 0)
        .defined(FAIR, "latency_ns"),
    Figure::new("client_latency_mean_max_s", Quantity::Seconds, |r| some(r.fairness()?.latency_ns.1 / 1e9))
        .called("Latency mean of the slowest client", "slowest client")
        .column("latency", "highest, *", 1)
        .defined(FAIR, "latency_ns"),
];

/// Whether the figures contradict each other.
pub(super) static IDENTITIES: &[Figure] = &[Figure::new("identities_broken", Quantity::Count, |r| {
    some(r.runs().iter().flat_map(|run| &run.identities).filter(|check| !check.holds).count())
})
.called("Identities broken", "broken identities")
.defined("Identities", "")
.prometheus("webstone_identities_broken")
.detail()];
