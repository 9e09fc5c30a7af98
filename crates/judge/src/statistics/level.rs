//! The statistics of a level over its iterations, computed once and in one way for every report and for the verdict.

use serde::{Deserialize, Serialize};

use super::{Interval, NoiseFloor, SteadyState, mean_interval, mser5, noise_floor, outliers};
use webstone_measure::metric::{Metric, Reading};
use webstone_measure::metrics::Mean;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{Arm, IterationRecord};

/// What a level's iterations say together, and about each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelStatistics {
    /// Valid responses per second, over iterations; null below two.
    pub request_rate: Option<Interval>,
    /// Connections per second.
    pub connection_rate: Option<Interval>,
    /// Mean response time in seconds, of iterations with valid responses.
    pub latency_mean_s: Option<Interval>,
    /// Throughput in bit/s.
    pub throughput_bps: Option<Interval>,
    /// CPU time of the server per ended request in seconds, where it was seen: noise hardly touches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_per_request_s: Option<Interval>,
    /// Iterations whose request rate or mean response time stands apart from the others', by their place in the level,
    /// from 0. They still count in every figure.
    pub outliers: Vec<usize>,
    /// MSER-5 over the requests of each second, iteration by iteration; null where a window is too short to tell.
    pub steady: Vec<Option<SteadyState>>,
    /// The noise floor of the request rate, where the run has two arms (`--aa`).
    pub noise: Option<NoiseFloor>,
}

impl LevelStatistics {
    /// Of a level's iterations, in the order in which they ran.
    pub fn of_runs(runs: &[&IterationRecord]) -> LevelStatistics {
        let rates = sample(runs, |run| per_second(run, run.measured.counts.succeeded as f64));
        let latencies = sample(runs, |run| {
            let mean = Mean::of_moments(&run.measured.response, &run.measured.unanswered.response)?;
            Some(mean.ns / NANOS_PER_SECOND as f64)
        });
        let interval = |sample: &[(usize, f64)]| mean_interval(&values(sample));
        let of =
            |value: fn(&IterationRecord) -> f64| interval(&sample(runs, |run| per_second(run, value(run))));
        let mut apart: Vec<usize> = [&rates, &latencies]
            .into_iter()
            .flat_map(|sample| outliers(&values(sample)).into_iter().map(|index| sample[index].0))
            .collect();
        apart.sort_unstable();
        apart.dedup();
        LevelStatistics {
            request_rate: interval(&rates),
            connection_rate: of(|run| run.measured.counts.connections_answered as f64),
            latency_mean_s: interval(&latencies),
            throughput_bps: of(|run| run.measured.response_bytes.sum as f64 * 8.0),
            server_cpu_per_request_s: interval(&sample(runs, |run| {
                Metric::SERVER_CPU.value(&Reading::of_run(run))
            })),
            outliers: apart,
            steady: runs.iter().map(|run| steady_state(run)).collect(),
            noise: request_rate_noise(runs),
        }
    }
}

/// MSER-5 over the requests of each second of a window. Of whole seconds only: a last one that is shorter would look
/// like a drop.
pub fn steady_state(run: &IterationRecord) -> Option<SteadyState> {
    let whole = (run.measured.span_ns() / NANOS_PER_SECOND) as usize;
    let seconds = run.measured.seconds.0.iter().take(whole);
    mser5(&seconds.map(|second| second.requests as f64).collect::<Vec<_>>())
}

/// The noise floor of a level's request rate. `None` where the run has no two arms, or an arm has fewer than two
/// iterations with answers.
pub fn request_rate_noise(runs: &[&IterationRecord]) -> Option<NoiseFloor> {
    let arm = |arm: Arm| {
        let runs: Vec<&IterationRecord> = runs.iter().copied().filter(|run| run.arm == Some(arm)).collect();
        values(&sample(&runs, |run| per_second(run, run.measured.counts.succeeded as f64)))
    };
    noise_floor(&arm(Arm::A), &arm(Arm::B))
}

/// The value of each iteration that has one, with its place.
fn sample(runs: &[&IterationRecord], value: impl Fn(&IterationRecord) -> Option<f64>) -> Vec<(usize, f64)> {
    runs.iter().enumerate().filter_map(|(place, run)| Some((place, value(run)?))).collect()
}

fn values(sample: &[(usize, f64)]) -> Vec<f64> {
    sample.iter().map(|(_, value)| *value).collect()
}

fn per_second(run: &IterationRecord, count: f64) -> Option<f64> {
    let window = run.measured.window_ns as f64 / NANOS_PER_SECOND as f64;
    (window > 0.0).then(|| count / window)
}
