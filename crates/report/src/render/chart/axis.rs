//! Axes: from values to positions, and round ticks.
//!
//! Values come in base units (seconds, bytes, 1/s) and are shown in the unit of a [`Scale`], the same one that tables
//! use. Ticks are multiples of 1, 2 or 5 × a power of ten; their labels have the decimals of their step and no more.

use crate::numbers::{Scale, decimal, load};

/// How values become positions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mapping {
    Linear,
    Log,
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// What it shows, with its unit.
    pub(crate) label: String,
    mapping: Mapping,
    low: f64,
    high: f64,
    /// Positions in base units, with labels.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero to a little above the largest value, with about `wanted` ticks.
    pub(crate) fn from_zero(
        label: &str,
        scale: &Scale,
        values: impl IntoIterator<Item = f64>,
        wanted: usize,
    ) -> Axis {
        let high = values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let high = if high > 0.0 { scale.in_unit(high) } else { 1.0 };
        let step = nice_step(high / wanted.max(1) as f64);
        let steps = (high / step - 1e-9).ceil().max(1.0);
        Axis {
            label: with_unit(label, scale.unit),
            mapping: Mapping::Linear,
            low: 0.0,
            high: scale.in_base(steps * step),
            ticks: (0..=steps as u32)
                .map(|n| (scale.in_base(f64::from(n) * step), step_label(f64::from(n) * step, step)))
                .collect(),
        }
    }

    /// Loads or whole numbers, such as clients or seconds, from `low` (or below) to the largest: ticks at the values
    /// themselves where they are few, at round numbers otherwise. Logarithmic where they span more than a factor of
    /// thirty, as sweeps that double do.
    pub(crate) fn counts(label: &str, low: f64, values: &[f64]) -> Axis {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let is_whole = values.iter().all(|value| value.fract() == 0.0);
        let most = if is_whole { most.max(1.0) } else { most };
        let logarithmic = least > 0.0 && most / least > 30.0 && low > 0.0;
        let label = label.to_owned();
        if logarithmic {
            let ticks = if values.len() <= 12 { own_ticks(values) } else { log_ticks(least, most, &load) };
            let label = format!("{label}, logarithmic scale");
            return Axis { label, mapping: Mapping::Log, low: least, high: most, ticks };
        }
        let step = nice_step((most - low.min(least)) / 6.0);
        let step = if is_whole { step.max(1.0) } else { step };
        let ticks = match values.len() {
            0..=9 => own_ticks(values),
            _ => (0..=(most / step) as u32).map(|n| f64::from(n) * step).map(|v| (v, load(v))).collect(),
        };
        // A single value is drawn in the middle.
        let (low, high) = if values.len() == 1 { (0.0, 2.0 * most) } else { (0.0, most) };
        Axis { label, mapping: Mapping::Linear, low, high, ticks }
    }

    /// Durations in seconds on a logarithmic axis; every label has its own unit.
    pub(crate) fn durations(
        label: &str,
        values: impl IntoIterator<Item = f64>,
        say: &dyn Fn(f64) -> String,
    ) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.into_iter().filter(|v| *v > 0.0 && v.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high == 0.0 {
            (low, high) = (1e-3, 1e-2);
        }
        let (low, high) = (round_down(low), round_up(high));
        // One value is no range.
        let high = if high <= low { low * 10.0 } else { high };
        Axis { label: label.to_owned(), mapping: Mapping::Log, low, high, ticks: log_ticks(low, high, say) }
    }

    /// From a value of at most zero to one above it; the ends need not be round. About `wanted` ticks, one of them at zero.
    pub(crate) fn around_zero(label: &str, low: f64, high: f64, wanted: usize) -> Axis {
        let step = nice_step((high - low) / wanted.max(1) as f64);
        let whole = |value: f64| (value / step).trunc() as i32;
        let ticks = (whole(low)..=whole(high)).map(|n| f64::from(n) * step);
        Axis {
            label: label.to_owned(),
            mapping: Mapping::Linear,
            low,
            high,
            ticks: ticks.map(|value| (value, step_label(value, step))).collect(),
        }
    }

    /// Quantiles, stretched towards 100 %: a tick for each further nine, as HdrHistogram plots them. Positions are
    /// those of [`nines`].
    pub(crate) fn percentiles(nines_max: f64) -> Axis {
        let nines_max = nines_max.max(2.0);
        let mut ticks = vec![(0.0, "0".to_owned()), (nines(0.5), "50".to_owned())];
        for n in 1..=nines_max as usize {
            let label = match n {
                1 => "90".to_owned(),
                2 => "99".to_owned(),
                _ => format!("99.{}", "9".repeat(n - 2)),
            };
            ticks.push((n as f64, label));
        }
        Axis { label: "percentile, %".to_owned(), mapping: Mapping::Linear, low: 0.0, high: nines_max, ticks }
    }

    /// Where a value lies: 0 at the low end, 1 at the high one, clamped outside of both, where a drawing cuts it off.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let share = match self.mapping {
            Mapping::Linear => (value - self.low) / (self.high - self.low),
            Mapping::Log => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
        };
        if share.is_finite() { share.clamp(-0.1, 1.1) } else { 0.0 }
    }
}

/// Position of a quantile (0 to 1) on a percentile axis: 0.9 is 1, 0.99 is 2.
pub(crate) fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

fn with_unit(label: &str, unit: &str) -> String {
    match (label, unit) {
        ("", only) | (only, "") => only.to_owned(),
        _ => format!("{label}, {unit}"),
    }
}

fn own_ticks(values: &[f64]) -> Vec<(f64, String)> {
    values.iter().map(|value| (*value, load(*value))).collect()
}

/// The smallest of 1, 2, 5 × 10ⁿ that is not below `raw`.
fn nice_step(raw: f64) -> f64 {
    if !(raw > 0.0 && raw.is_finite()) {
        return 1.0;
    }
    let power = 10_f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|n| n * power)
        .find(|step| *step >= raw * 0.999_999)
        .unwrap_or(power)
}

fn step_label(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    decimal(value, (-step.log10().floor()).max(0.0) as usize)
}

fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [5.0, 2.0].into_iter().map(|n| n * power).find(|v| *v <= value * 1.000_001).unwrap_or(power)
}

fn round_up(value: f64) -> f64 {
    nice_step(value)
}

/// Decades up to which 2 and 5 have labels as well.
const DECADES_PARTED: f64 = 3.05;

/// Powers of ten, with 2 and 5 between them where there is room.
fn log_ticks(low: f64, high: f64, say: &dyn Fn(f64) -> String) -> Vec<(f64, String)> {
    let decades = (high / low).log10();
    let between: &[f64] = if decades <= DECADES_PARTED { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let mut ticks = Vec::new();
    for exponent in first..=last {
        for n in between {
            let value = n * 10_f64.powi(exponent);
            if value >= low * 0.999_999 && value <= high * 1.000_001 {
                ticks.push((value, say(value)));
            }
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let rate = Scale::plain(0, [28_469.0]);
        let axis = Axis::from_zero("requests/s", &rate, [1_234.0, 28_469.0], 5);
        assert_eq!(labels(&axis), ["0", "10,000", "20,000", "30,000"]);
        assert!((axis.position(28_469.0) - 28_469.0 / 30_000.0).abs() < 1e-12);
        let axis = Axis::from_zero("x", &Scale::plain(2, [0.3]), [0.3], 3);
        assert_eq!(labels(&axis), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(&Axis::from_zero("x", &rate, [], 4)), ["0", "0.5", "1.0"]);
        assert_eq!(labels(&Axis::from_zero("x", &rate, [f64::NAN, f64::INFINITY], 1)), ["0", "1"]);
    }

    #[test]
    fn an_axis_has_the_unit_of_its_scale() {
        let scale = Scale::seconds([0.0123]);
        let axis = Axis::from_zero("latency", &scale, [0.0123], 3);
        assert_eq!((axis.label.as_str(), labels(&axis)), ("latency, ms", vec!["0", "5", "10", "15"]));
        assert!((axis.position(0.015) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn clients_are_their_own_ticks_while_they_are_few() {
        assert_eq!(labels(&Axis::counts("clients", 1.0, &[5.0, 10.0, 20.0, 40.0])), ["5", "10", "20", "40"]);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(labels(&Axis::counts("clients", 0.0, &hundred)), ["0", "20", "40", "60", "80", "100"]);
        let doubling: Vec<f64> = (0..12).map(|n| f64::from(1 << n)).collect();
        let axis = Axis::counts("clients", 1.0, &doubling);
        assert!((axis.position(32.0) - 5.0 / 11.0).abs() < 1e-12, "{axis:?}");
        assert!((Axis::counts("clients", 1.0, &[64.0]).position(64.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn rates_below_one_have_their_decimals() {
        assert_eq!(labels(&Axis::counts("arrivals/s", 1.0, &[0.5, 1.0, 1.5])), ["0.5", "1", "1.5"]);
        assert_eq!(
            labels(&Axis::counts("arrivals/s", 1.0, &[0.001, 0.25, 12_500.5])),
            ["0.001", "0.25", "12,500.5"]
        );
        let many: Vec<f64> = (1..=20).map(|n| f64::from(n) / 10.0).collect();
        assert_eq!(labels(&Axis::counts("arrivals/s", 1.0, &many)), ["0", "0.5", "1", "1.5", "2"]);
        let wide: Vec<f64> = (0..20).map(|n| f64::from(n).mul_add(5.0, 0.5)).collect();
        assert_eq!(labels(&Axis::counts("arrivals/s", 1.0, &wide)), ["0.5", "1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn a_logarithmic_axis_shows_decades_or_their_parts() {
        let say = |v: f64| format!("{v}");
        assert_eq!(
            labels(&Axis::durations("", [0.0012, 0.04], &say)),
            ["0.001", "0.002", "0.005", "0.01", "0.02", "0.05"]
        );
        let wide = Axis::durations("", [1e-4, 1.0], &say);
        assert_eq!(labels(&wide), ["0.0001", "0.001", "0.01", "0.1", "1"]);
        assert!((wide.position(0.01) - 0.5).abs() < 1e-12);
        assert_eq!(labels(&Axis::durations("", [], &say)), ["0.001", "0.002", "0.005", "0.01"]);
    }

    #[test]
    fn an_axis_around_zero_has_a_tick_there() {
        let axis = Axis::around_zero("change, %", -13.0, 8.0, 5);
        assert_eq!(labels(&axis), ["-10", "-5", "0", "5"]);
        assert!((axis.position(0.0) - 13.0 / 21.0).abs() < 1e-12);
        assert_eq!(labels(&Axis::around_zero("", -0.4, 0.0, 2)), ["-0.4", "-0.2", "0"]);
    }

    #[test]
    fn each_further_nine_is_as_wide_as_the_one_before() {
        let axis = Axis::percentiles(nines(0.9999));
        assert_eq!(labels(&axis), ["0", "50", "90", "99", "99.9", "99.99"]);
        assert!((axis.position(nines(0.99)) - 0.5).abs() < 1e-9);
    }
}
