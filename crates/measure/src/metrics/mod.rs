//! What is counted while a level runs. Everything merges exactly: workers to a generator, generators to an iteration,
//! iterations to a level. Percentiles are computed from merged histograms, never averaged.

mod coarse;
mod counts;
mod fairness;
mod handshakes;
mod hdr;
mod histogram;
mod http2;
mod http3;
mod measured;
mod moments;
mod open_loop;
mod packed;
mod seconds;
mod statuses;
mod totals;
mod unanswered;
mod wire;

pub use counts::Counts;
pub use fairness::{Fairness, fairness};
pub use handshakes::{Agreed, Handshake, Handshakes};
pub use histogram::{Histogram, HistogramError, rank};
pub use http2::Http2Counts;
pub use http3::{Http3Counts, UdpCounts};
pub use measured::{GeneratorUse, Histograms, LeftOut, Lifetime, Measured, PageHistograms, WorkerUse};
pub use moments::Moments;
pub use open_loop::OpenLoop;
pub use seconds::{Second, Seconds};
pub use statuses::Statuses;
pub use totals::{ClientMoments, ClientTotals, PageTotals, Spread};
pub use unanswered::{Mean, Unanswered, longest, times_at};
pub use wire::WireError;

/// Adds to a total. Measured values never overflow 64 bits; values that somebody wrote into a record may, and must
/// neither panic nor wrap.
pub(crate) fn add(total: &mut u64, more: u64) {
    *total = total.saturating_add(more);
}

/// [`add`] for several fields. With the type and, after a semicolon, its other fields, a forgotten field does not compile.
macro_rules! add_all {
    ($to:expr, $from:expr, [$($field:ident),* $(,)?]) => {
        $($crate::metrics::add(&mut $to.$field, $from.$field);)*
    };
    ($to:expr, $from:expr, $type:ident { $($field:ident),*; $($other:ident),* }) => {
        let $type { $($field: _,)* $($other: _,)* } = &$to;
        $crate::metrics::add_all!($to, $from, [$($field),*]);
    };
}
pub(crate) use add_all;

/// What was counted between two readings of the same counters. Fields after the semicolon
/// are those of the later one; a forgotten field does not compile.
#[macro_export]
macro_rules! since_all {
    ($later:expr, $earlier:expr, $type:ident { $($field:ident),*; $($other:ident),* }) => {{
        let mut since = $later;
        let $type { $($field: _,)* $($other: _,)* } = &since;
        $(since.$field = since.$field.saturating_sub($earlier.$field);)*
        since
    }};
}
