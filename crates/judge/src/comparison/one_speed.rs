//! Figures of two runs at one speed of the machine.
//!
//! On a virtual machine two runs of the same thing differ by what the hypervisor did to each: it moves CPUs apart and together, and lends
//! them to others. That lasts for seconds or minutes, so the windows of one run are alike, and their scatter says little about the next
//! run. An echo between the CPUs of server and load generator was timed in each window. What it explains is taken out of both runs.

use super::{Row, Side};
use crate::statistics::{AdjustedRatio, Paired, Prior};
use crate::verdict;
use webstone_measure::figures::Quantity;
use webstone_measure::metric::Metric;
use webstone_model::record::{IterationRecord, RunRecord};

/// A request takes longer by a share of what an echo does: 0.23 of it for nginx, 0.61 for the reference server, with the workload `standard`.
/// Windows in which its CPUs did not move had echoes with a deviation of 2.5 %. Each run has something of its own, such as the luck of its server's
/// start: 0.7 % over 21 runs of nginx on an idle machine, 1.6 % beside a busy loop.
const PRIOR: Prior = Prior { slope: 0.4, slope_error: 0.2, covariate_error: 0.025, side_deviation: 0.01 };

/// How long the echo took in each timed run of a level, of both records; `None` unless both have it in all, from one version of this program.
/// Not in open loop: near its limit a server that is a little slower may answer in twice the time.
pub(super) fn echoes(records: [&RunRecord; 2], runs: [&[&IterationRecord]; 2]) -> Option<[Vec<f64>; 2]> {
    let [one, other] = records;
    let is_open_loop = runs.iter().any(|runs| runs.iter().any(|run| run.rate.is_some()));
    if is_open_loop || one.tool.version != other.tool.version {
        return None;
    }
    Some([verdict::echoes(one, runs[0])?, verdict::echoes(other, runs[1])?])
}

/// Whether a figure follows the machine's speed as an echo does, in closed loop.
pub(super) fn follows_speed(metric: Metric) -> bool {
    !metric.differs() && (metric.grows_with_load() || metric.quantity() == Quantity::Seconds)
}

impl Row {
    /// The candidate over the baseline at one speed of the machine, where it is known.
    pub(super) fn at_one_speed(&self) -> Option<AdjustedRatio> {
        let is_known = |side: &Side| side.echoes.len() == side.samples.len();
        if !is_known(&self.candidate) || !is_known(&self.baseline) {
            return None;
        }
        let pairs = |side: &Side| -> Vec<Paired> {
            side.samples.iter().copied().zip(side.echoes.iter().copied()).collect()
        };
        let slope = if self.metric.grows_with_load() { -PRIOR.slope } else { PRIOR.slope };
        AdjustedRatio::between(&pairs(&self.candidate), &pairs(&self.baseline), Prior { slope, ..PRIOR })
    }
}

#[cfg(test)]
#[path = "one_speed_tests.rs"]
mod tests;
