//! Count, sum, sum of squares, minimum and maximum of a quantity: exact, mergeable, five words to update.

use serde::{Deserialize, Serialize};

use super::add;

/// Exact integer moments, so that merging in any order gives the same bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moments {
    /// How many values.
    pub count: u64,
    /// Their sum; `u64::MAX` where it is more.
    pub sum: u64,
    /// The sum of their squares, as a decimal string in JSON (a double is too small).
    #[serde(with = "u128_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub sum_of_squares: u128,
    /// The minimum; `u64::MAX` without values.
    pub min: u64,
    /// The maximum; 0 without values.
    pub max: u64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { count: 0, sum: 0, sum_of_squares: 0, min: u64::MAX, max: 0 }
    }
}

impl Moments {
    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.sum_of_squares += u128::from(value) * u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds the values of another.
    pub fn merge(&mut self, other: &Moments) {
        add(&mut self.count, other.count);
        add(&mut self.sum, other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Whether the sum is more than 64 bits hold: the mean is then too low. In nanoseconds that is 584 years of waiting, which an open loop
    /// at twice what the server can do, 100,000 requests/s, reaches in 20 minutes.
    pub fn is_full(&self) -> bool {
        self.sum == u64::MAX
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Arithmetic mean; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Sample standard deviation (divisor n − 1); 0 below two values.
    pub fn standard_deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        // n·Σx² − (Σx)², in integers: nothing is lost by cancellation. (Σx)² always fits 128 bits; the product is the
        // larger of the two unless an edited record contradicts itself.
        let n = u128::from(self.count);
        let sum = u128::from(self.sum);
        let scaled = n.checked_mul(self.sum_of_squares).map(|product| product.saturating_sub(sum * sum));
        let variance = match scaled {
            Some(scaled) => scaled as f64 / (self.count as f64 * (self.count - 1) as f64),
            None => {
                let mean = self.mean();
                (self.sum_of_squares as f64 - self.sum as f64 * mean) / (self.count - 1) as f64
            }
        };
        variance.max(0.0).sqrt()
    }

    /// The minimum, or 0 without values.
    pub fn min_or_zero(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }
}

pub(super) mod u128_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::metrics) fn serialize<S: Serializer>(
        value: &u128,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in crate::metrics) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_values_worked_by_hand() {
        // Known values: mean 5, sum of squared deviations 32, so s = sqrt(32 / 7).
        let mut moments = Moments::default();
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            moments.record(value);
        }
        assert_eq!(moments.mean(), 5.0);
        assert!((moments.standard_deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((moments.min, moments.max, moments.count), (2, 9, 8));
    }

    #[test]
    fn a_small_spread_on_a_large_offset_survives() {
        let mut moments = Moments::default();
        for value in [10_000_000_000, 10_000_000_001, 10_000_000_002] {
            moments.record(value);
        }
        assert!((moments.standard_deviation() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_sum_that_is_too_large_is_said_to_be() {
        let (mut moments, mut other) = (Moments::default(), Moments::default());
        moments.record(u64::MAX - 1);
        other.record(1);
        assert!(!moments.is_full() && !other.is_full());
        other.merge(&moments);
        moments.record(9);
        assert!(moments.is_full() && other.is_full());
    }

    #[test]
    fn merging_equals_recording_in_one() {
        let (mut a, mut b, mut whole) = (Moments::default(), Moments::default(), Moments::default());
        for value in 0..1000_u64 {
            let value = value * value % 7919;
            if value % 3 == 0 {
                a.record(value)
            } else {
                b.record(value)
            }
            whole.record(value);
        }
        a.merge(&b);
        assert_eq!(a, whole);
        let json = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<Moments>(&json).unwrap(), a);
    }
}
