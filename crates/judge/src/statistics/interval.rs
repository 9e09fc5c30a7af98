//! An estimate with the interval around it: what every headline carries, so that no figure stands bare.

use serde::{Deserialize, Serialize};

/// The confidence of every interval that webstone computes.
pub const CONFIDENCE: f64 = 0.95;

/// How an interval was computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Student's t distribution; of a ratio, on its logarithm.
    StudentT,
    /// The bias-corrected and accelerated bootstrap.
    Bootstrap,
    /// Analysis of covariance: a ratio at one speed of the machine.
    Covariance,
    /// None: the point is all there is, and both ends are the point.
    #[default]
    None,
}

/// An estimate and the interval that contains the true value with the stated confidence, if the samples are
/// independent and of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The estimate, in the unit of the samples (a ratio has none).
    pub point: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How sure: 0.95.
    pub confidence: f64,
    /// How it was computed.
    pub method: Method,
    /// How many values it comes from; of a ratio, of both sides together.
    pub samples: usize,
}

impl Interval {
    /// A point without an interval.
    pub fn bare(point: f64) -> Interval {
        Interval { point, low: point, high: point, confidence: 0.0, method: Method::None, samples: 1 }
    }

    /// Applies an increasing function to the estimate and both ends.
    pub(crate) fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        Interval { point: f(self.point), low: f(self.low), high: f(self.high), ..self }
    }

    /// Half of its length: the number after `±`.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// [`Interval::half_width`] in percent of the point; `None` where the point is 0.
    pub fn half_width_percent(&self) -> Option<f64> {
        (self.point != 0.0).then(|| 100.0 * self.half_width() / self.point.abs())
    }

    /// Whether it is longer than the value that it stands around: nothing can be concluded from such an estimate.
    pub fn is_wider_than_its_value(&self) -> bool {
        self.high - self.low > self.point.abs()
    }

    /// Whether a value lies in it.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_wider_than_its_value_from_half_of_it_up_and_down() {
        let around = |low, high| Interval { point: 100.0, low, high, ..Interval::bare(100.0) };
        assert!(!around(50.0, 150.0).is_wider_than_its_value());
        assert!(around(49.0, 150.0).is_wider_than_its_value());
        assert!(around(-400.0, 600.0).is_wider_than_its_value());
        assert!(
            !Interval::bare(100.0).is_wider_than_its_value(),
            "a bare point has no interval to be judged by"
        );
        assert!(!Interval::bare(0.0).is_wider_than_its_value());
    }
}
