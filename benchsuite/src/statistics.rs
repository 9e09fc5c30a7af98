//! Medians and quartiles of a few values. No means: one disturbed round must not move a result.

use serde::Serialize;

/// Order statistics of a set of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// First quartile.
    pub lower: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub upper: f64,
    /// Largest.
    pub max: f64,
    /// How many values.
    pub count: usize,
}

impl Spread {
    /// Of any number of values; `None` of none. Quantiles interpolate between neighbours (Hyndman and Fan's type 7).
    pub fn of_values(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        Some(Spread { min, lower: at(0.25), median: at(0.5), upper: at(0.75), max, count: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_values_worked_by_hand() {
        let spread = Spread::of_values([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (spread.min, spread.lower, spread.median, spread.upper, spread.max),
            (1.0, 1.75, 2.5, 3.25, 4.0)
        );
        assert_eq!(Spread::of_values([7.0]).unwrap().median, 7.0);
        assert_eq!(Spread::of_values([]), None);
        assert_eq!(Spread::of_values([f64::NAN, 2.0]).unwrap().count, 1);
    }
}
