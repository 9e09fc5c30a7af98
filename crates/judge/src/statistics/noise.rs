//! The A/A noise floor: how far apart two measurements of one and the same thing come out here.

use serde::{Deserialize, Serialize};

use super::{Interval, ratio_interval};

/// What two interleaved arms of the same thing say about each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// The mean of arm A over the mean of arm B, with its 95 % interval. The truth is 1.
    pub ratio: Interval,
    /// The floor, in percent: by how much the end of the interval that is farther from 1 exceeds it, as the ratio of the
    /// greater over the smaller, so that it does not matter which arm is called A. A smaller difference cannot be
    /// detected. It is the half-width of the interval where both arms came out alike, and more where they did not.
    pub percent: f64,
    /// Whether the interval contains 1. Where it does not, something other than chance parted the arms, as drift does;
    /// it happens by chance in one of 20 runs.
    pub alike: bool,
}

impl NoiseFloor {
    /// Percent above which a floor is useless: it would hide that one server is twice as fast as another.
    pub const PERCENT_MAX: f64 = 100.0;

    /// The floor in words, with two decimals where they mean something.
    pub fn in_words(percent: f64) -> String {
        if percent > NoiseFloor::PERCENT_MAX {
            "more than 100 %".to_owned()
        } else {
            format!("{percent:.2} %")
        }
    }
}

/// The noise floor of two arms. `None` as for [`ratio_interval`].
pub fn noise_floor(a: &[f64], b: &[f64]) -> Option<NoiseFloor> {
    let ratio = ratio_interval(a, b)?;
    let percent = 100.0 * (ratio.high.max(1.0 / ratio.low) - 1.0);
    // If all values of an arm but one are 0, there may be no lower end.
    if !percent.is_finite() {
        return None;
    }
    Some(NoiseFloor { ratio, percent, alike: ratio.contains(1.0) })
}
