//! Figures of two runs at one speed of the machine.
//!
//! On a virtual machine two runs of the same thing differ by what the hypervisor did to each: it moves CPUs apart and together, and lends
//! them to others. It does so for seconds or minutes, so that the windows of a run are alike, and their scatter says little of the next
//! run. An echo between the CPUs of server and load generator was timed in each window; what it explains is taken out of both runs.

use super::{Row, Side};
use crate::statistics::{AtOneValue, Expected, Paired};
use crate::verdict;
use webstone_measure::figures::Quantity;
use webstone_measure::metric::Metric;
use webstone_model::record::{IterationRecord, RunRecord};

/// By how much a request takes longer when an echo does: 0.22 to 0.58 of the share, for servers and files of different sizes. An echo is known
/// to 2 %. What else a run has in common, such as the luck of its server's start, was 0.7 % over 21 runs on an idle machine and 1.6 % beside a busy
/// loop.
const EXPECTED: Expected = Expected { slope: 0.4, error: 0.25, of_covariate: 0.02, of_side: 0.01 };

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
    pub(super) fn at_one_speed(&self) -> Option<AtOneValue> {
        let pairs = |side: &Side| -> Vec<Paired> {
            let is_known = side.echoes.len() == side.samples.len();
            if is_known {
                side.samples.iter().copied().zip(side.echoes.iter().copied()).collect()
            } else {
                Vec::new()
            }
        };
        let slope = if self.metric.grows_with_load() { -EXPECTED.slope } else { EXPECTED.slope };
        AtOneValue::of(&pairs(&self.candidate), &pairs(&self.baseline), Expected { slope, ..EXPECTED })
    }
}

#[cfg(test)]
#[path = "one_speed_tests.rs"]
mod tests;
