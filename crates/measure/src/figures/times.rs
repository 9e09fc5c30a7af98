//! Mean, deviation, minimum, maximum and percentiles of each kind of time, except for the response time, which has
//! entries of its own.

use super::distributions::Distribution;
use super::quantity::Quantity;
use super::reading::Reading;
use super::seconds;
use super::table::{Figure, Value, some};
use super::tls;
use crate::metrics::{self, Mean, Moments};

/// One column of a kind of time.
macro_rules! part {
    ($key:literal, $part:literal, $words:literal, $shown:literal, $defined:expr, $of:expr) => {
        Figure::new(concat!($key, "_", $part, "_s"), Quantity::Seconds, $of)
            .called(concat!($words, " ", $shown), concat!($words, " ", $shown))
            .defined($defined.0, $defined.1)
            .detail()
    };
}

/// The column of a percentile.
macro_rules! percentile {
    ($key:literal, $words:literal, $defined:expr, $of:path, $part:literal, $shown:literal, $percent:literal, $field:ident) => {
        part!($key, $part, $words, $shown, $defined, |r| Some($of(r)?.value($percent, |it| it.$field)))
    };
}

/// The columns of a distribution's percentiles; the maximum is exact if the moments are known.
macro_rules! percentiles {
    ($key:literal, $words:literal, $defined:expr, $moments:path, $distribution:path) => {
        [
            percentile!($key, $words, $defined, $distribution, "p50", "p50", 50.0, p50_s),
            percentile!($key, $words, $defined, $distribution, "p75", "p75", 75.0, p75_s),
            percentile!($key, $words, $defined, $distribution, "p90", "p90", 90.0, p90_s),
            percentile!($key, $words, $defined, $distribution, "p95", "p95", 95.0, p95_s),
            percentile!($key, $words, $defined, $distribution, "p99", "p99", 99.0, p99_s),
            percentile!($key, $words, $defined, $distribution, "p99_9", "p99.9", 99.9, p99_9_s),
            percentile!($key, $words, $defined, $distribution, "p99_99", "p99.99", 99.99, p99_99_s),
            part!($key, "max", $words, "max", $defined, |r| {
                let exact = $moments(r).map(|times| times.max());
                exact.or_else(|| Some($distribution(r)?.value(100.0, |it| it.max_s)))
            }),
        ]
    };
}

macro_rules! p99_999 {
    ($key:literal, $words:literal, $defined:expr, $distribution:path) => {
        part!($key, "p99_999", $words, "p99.999", $defined, |r| {
            Some($distribution(r)?.value(99.999, |it| it.p99_999_s))
        })
    };
}

/// The columns of a kind of time: of its moments, then of its distribution. Options after the paths are for the mean.
macro_rules! times {
    ($key:literal, $words:literal, $defined:expr, $moments:path, $distribution:path $(, $mean:ident $value:tt)*) => {{
        const P: [Figure; 8] = percentiles!($key, $words, $defined, $moments, $distribution);
        [
            part!($key, "mean", $words, "mean", $defined, |r| $moments(r)?.mean()) $(.$mean $value)*,
            part!($key, "std_dev", $words, "std dev", $defined, |r| {
                some($moments(r)?.answered.standard_deviation() / 1e9)
            }),
            part!($key, "min", $words, "min", $defined, |r| some(seconds($moments(r)?.answered.min))),
            P[0], P[1], P[2], P[3], P[4], P[5], P[6], P[7],
        ]
    }};
}

const INSTANTS: (&str, &str) = ("Instants", "");

/// TCP connect time.
pub(super) static CONNECT: &[Figure] = &times!(
    "connect",
    "Connect",
    ("Figures", "connect_mean_s"),
    connect_moments,
    connect,
    json("figures.connect_mean_s"),
    overview()
);
/// Start to first byte; its mean is among the parts.
pub(super) static FIRST_BYTE: &[Figure] =
    &percentiles!("first_byte", "First byte", INSTANTS, no_moments, first_byte);
/// Start of the first file to last byte of the last file.
pub(super) static PAGE: &[Figure] = &times!("page", "Page", INSTANTS, page_moments, page);
/// Open loop: how late the generator itself was.
pub(super) static SCHEDULE_LAG: &[Figure] = &[
    LAG[0],
    LAG[1],
    LAG[2],
    LAG[3].column("lag", "p50, *", 6),
    LAG[4],
    LAG[5],
    LAG[6],
    LAG[7].column("lag", "p99, *", Figure::ALWAYS).overview(),
    LAG[8],
    LAG[9],
    LAG[10].column("lag", "max, *", 7),
];
const LAG: [Figure; 11] = times!("schedule_lag", "Schedule lag", ("Open loop", "lag"), lag_moments, lag);
/// From the TCP connection's establishment to the end of the TLS handshake.
pub(super) static TLS_HANDSHAKE: &[Figure] = &[
    TLS[0].overview(),
    TLS[1],
    TLS[2],
    TLS[3].column("handshake", "p50, *", Figure::ALWAYS).overview(),
    TLS[4],
    TLS[5],
    TLS[6],
    TLS[7].column("handshake", "p99, *", Figure::ALWAYS).overview(),
    TLS[8],
    TLS[9],
    TLS[10].column("handshake", "max, *", 4),
];
const TLS: [Figure; 11] =
    times!("tls_handshake", "TLS handshake", ("TLS handshakes", "time"), tls_moments, tls_handshake);
/// Open loop: response time from the actual start.
pub(super) static LATENCY_UNCORRECTED: &[Figure] = &times!(
    "latency_uncorrected",
    "Latency uncorrected",
    ("Open loop", ""),
    uncorrected_moments,
    uncorrected
);
/// Open loop: time to first byte from the actual start.
pub(super) static FIRST_BYTE_UNCORRECTED: &[Figure] = &times!(
    "first_byte_uncorrected",
    "First byte uncorrected",
    ("Open loop", ""),
    first_byte_uncorrected_moments,
    first_byte_uncorrected
);

/// The 99.999th percentile of every kind of time, added later than the others: columns of CSV keep their places.
pub(super) static P99_999: &[Figure] = &[
    Figure::new("latency_p99_999_s", Quantity::Seconds, |r| r.latency(99.999, |it| it.p99_999_s))
        .called("Latency p99.999", "p99.999")
        .defined("Figures", "latency_percentiles_s")
        .json("figures.latency_percentiles_s")
        .detail(),
    p99_999!("connect", "Connect", ("Figures", "connect_mean_s"), connect),
    p99_999!("first_byte", "First byte", INSTANTS, first_byte),
    p99_999!("page", "Page", INSTANTS, page),
    p99_999!("schedule_lag", "Schedule lag", ("Open loop", "lag"), lag),
    p99_999!("latency_uncorrected", "Latency uncorrected", ("Open loop", ""), uncorrected),
    p99_999!("first_byte_uncorrected", "First byte uncorrected", ("Open loop", ""), first_byte_uncorrected),
    p99_999!("tls_handshake", "TLS handshake", ("TLS handshakes", "time"), tls_handshake),
];

/// A kind of time: for answered requests, and for unanswered ones.
#[derive(Clone, Copy)]
struct Times<'r> {
    answered: &'r Moments,
    unanswered: Option<&'r Moments>,
}

impl Times<'_> {
    fn mean(&self) -> Option<Value> {
        let unanswered = self.unanswered.map_or((0, 0), |waits| (waits.sum, waits.count));
        let mean = Mean::with_waits((self.answered.sum, self.answered.count), unanswered)?;
        Some(Value::bounded(mean.ns / 1e9, mean.is_at_least))
    }

    fn max(&self) -> Value {
        longest(self.answered, self.unanswered)
    }
}

/// The maximum over answered requests and the waits of unanswered ones.
pub(super) fn longest(answered: &Moments, unanswered: Option<&Moments>) -> Value {
    let (ns, is_at_least) =
        unanswered.map_or((answered.max, false), |waits| metrics::longest(answered, waits));
    Value::bounded(seconds(ns), is_at_least)
}

fn known(answered: &Moments) -> Option<Times<'_>> {
    (answered.count > 0).then_some(Times { answered, unanswered: None })
}

fn known_with<'r>(answered: &'r Moments, unanswered: &'r Moments) -> Option<Times<'r>> {
    (answered.count > 0).then_some(Times { answered, unanswered: Some(unanswered) })
}

/// A distribution of the window.
macro_rules! distributions {
    ($($name:ident $field:ident,)*) => {
        $(fn $name<'r>(r: &'r Reading<'_>) -> Option<&'r Distribution> {
            r.distributions().$field.as_ref()
        })*
    };
}

distributions! {
    connect connect, first_byte first_byte, page page, lag schedule_lag, uncorrected response_uncorrected,
    first_byte_uncorrected first_byte_uncorrected, tls_handshake tls_handshake,
}

fn no_moments<'r>(_: &'r Reading<'_>) -> Option<Times<'r>> {
    None
}

fn connect_moments<'r>(r: &'r Reading<'_>) -> Option<Times<'r>> {
    known_with(&r.measured().connect, &r.measured().unanswered.connect)
}

fn page_moments<'r>(r: &'r Reading<'_>) -> Option<Times<'r>> {
    known_with(&r.measured().page, &r.measured().unanswered.page)
}

fn lag_moments<'r>(r: &'r Reading<'_>) -> Option<Times<'r>> {
    known(&r.measured().open_loop.as_ref()?.lag)
}

fn uncorrected_moments<'r>(r: &'r Reading<'_>) -> Option<Times<'r>> {
    known(&r.measured().open_loop.as_ref()?.response)
}

fn first_byte_uncorrected_moments<'r>(r: &'r Reading<'_>) -> Option<Times<'r>> {
    known(&r.measured().open_loop.as_ref()?.first_byte)
}

fn tls_moments<'r>(r: &'r Reading<'_>) -> Option<Times<'r>> {
    known(&tls::handshakes(r)?.time)
}
