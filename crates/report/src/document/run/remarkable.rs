//! Which tables the default report shows besides the levels: those with something that a reader has to see. This is the one place
//! that says what is remarkable; the bounds are the verdict's.

use webstone_judge::series::USEFUL_JAIN_MIN;
use webstone_judge::verdict::{
    RATE_MISSED_PERCENT_MAX, SCHEDULE_LAG_PERCENT_MAX, WORKER_CPU_PERCENT_MAX, losses,
};
use webstone_model::record::RunRecord;

use super::Part;
use super::groups::loses;
use crate::summary::{self, Level};

/// Share of a bound, from which on a figure is near it.
const NEAR: f64 = 0.9;

/// Whether a table has to be seen.
pub(super) fn is(part: Part, record: &RunRecord, levels: &[Level<'_>]) -> bool {
    match part {
        Part::Errors => summary::counts(record).failed > 0,
        Part::Machines => levels.iter().any(generator_is_near_its_limit),
        Part::Cpus => is_disturbed(record),
        Part::Fairness => levels.iter().any(is_unfair),
        // Whether certificates were verified and sessions resumed, figures cannot be read without.
        Part::Tls => true,
        // Which hosts made the load, and whether one of them differs, belongs to what was measured.
        Part::Generators => true,
        // So do the hosts of a server that has several.
        Part::ServerHosts => true,
        Part::OpenLoop => levels.iter().any(is_late),
        Part::Http2 => levels.iter().any(was_refused_streams),
        // What QUIC did, TCP's counters do not show.
        Part::Http3 => true,
        Part::Network => levels.iter().any(|level| loses(level.host.as_ref())),
        Part::NetworkThere => levels.iter().any(|level| loses(level.server_host.as_ref())),
        _ => false,
    }
}

fn generator_is_near_its_limit(level: &Level<'_>) -> bool {
    let waited = level.generator.waited_percent.unwrap_or_default();
    level.generator.busiest_percent + waited >= WORKER_CPU_PERCENT_MAX * NEAR
}

fn is_disturbed(record: &RunRecord) -> bool {
    !record.voids.is_empty() || record.iterations.iter().any(|run| !losses(record, run).is_empty())
}

/// One client has nobody to be compared with; in open loop clients stand by, and a rate may not need them all.
fn is_unfair(level: &Level<'_>) -> bool {
    let unfair = |fairness: &webstone_measure::metrics::Fairness| {
        fairness.starved > 0 || fairness.jain_pages < USEFUL_JAIN_MIN
    };
    level.clients > 1 && level.rate.is_none() && level.fairness.as_ref().is_some_and(unfair)
}

/// Requests waited for streams, or came in vain.
fn was_refused_streams(level: &Level<'_>) -> bool {
    level.http2.is_some_and(|counts| counts.waited > 0 || counts.refused > 0)
}

fn is_late(level: &Level<'_>) -> bool {
    let Some(open_loop) = &level.open_loop else { return false };
    let kept = open_loop.kept;
    let times = &level.distributions;
    let is_longer =
        times.response.as_ref().zip(times.response_uncorrected.as_ref()).is_some_and(|(with, without)| {
            let percentiles =
                [(with.p50_s, without.p50_s), (with.p90_s, without.p90_s), (with.p99_s, without.p99_s)];
            percentiles
                .iter()
                .any(|(with, without)| (with - without) * 100.0 >= without * SCHEDULE_LAG_PERCENT_MAX * NEAR)
        });
    let missed = (kept.asked_rate - kept.offered_rate).abs();
    open_loop.skipped > 0
        || open_loop.queued > 0
        || is_longer
        || missed * 100.0 >= kept.asked_rate * RATE_MISSED_PERCENT_MAX * NEAR
}
