//! How numbers are written: thousands separated, one unit and one number of decimals for all values that are compared.
//!
//! A column in which each cell has its own unit cannot be compared by eye. So a unit is chosen for a set of
//! values (by its median), and decimals so that the smallest still shows three digits where there is room.

pub(crate) use webstone_measure::units::grouped as count;

use webstone_measure::figures::Value;
use webstone_measure::figures::distributions::Distribution;

use webstone_measure::units::NANOS_PER_SECOND;

use super::cell::Cell;

/// Where nothing was measured.
pub(crate) const DASH: &str = "–";
/// Between facts on a line.
pub(crate) const DOT: &str = " · ";

/// A number with decimals, thousands separated.
pub(crate) fn decimal(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    match whole.parse::<u64>() {
        Ok(whole) => format!("{sign}{}{fraction}", count(whole)),
        Err(_) => text,
    }
}

/// A load as it was typed: rates have at most three decimals.
pub(crate) fn load(value: f64) -> String {
    round(&decimal(value, 3))
}

/// With its sign, unless it is shown as zero.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    let text = format!("{value:+.decimals$}");
    if text[1..].bytes().all(|byte| matches!(byte, b'0' | b'.')) { text[1..].to_owned() } else { text }
}

/// `1 page`, `2 pages`.
pub(crate) fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// The first of some names, and how many there are besides.
pub(crate) fn listed(names: &[impl AsRef<str>], most: usize) -> String {
    listed_by(", ", names, most)
}

/// The same with another separator, where names have commas in them.
pub(crate) fn listed_by(separator: &str, names: &[impl AsRef<str>], most: usize) -> String {
    let shown = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(separator);
    match names.len().saturating_sub(most) as u64 {
        0 => shown,
        more => format!("{shown} and {} more", count(more)),
    }
}

/// `0,1,4`.
pub(crate) fn cpu_list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Which of `count` things are shown where at most `most` can be: evenly chosen, the first, the last and `must` among
/// them.
pub(crate) fn spread(count: usize, most: usize, must: Option<usize>) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    let mut chosen: Vec<usize> = (0..most).map(|n| n * (count - 1) / (most - 1).max(1)).collect();
    if let Some(must) = must.filter(|must| !chosen.contains(must)) {
        let inner = 1..most.saturating_sub(1);
        if let Some(nearest) = inner.min_by_key(|place| chosen[*place].abs_diff(must)) {
            chosen[nearest] = must;
        }
    }
    chosen.sort_unstable();
    chosen
}

/// `p99.9`, and `max` of 100.
pub(crate) fn percentile_name(percentile: f64) -> String {
    if percentile == 100.0 { "max".to_owned() } else { format!("p{percentile}") }
}

/// A unit for a set of values, with the decimals that suit them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Name of the unit.
    pub(crate) unit: &'static str,
    factor: f64,
    decimals: usize,
}

impl Scale {
    /// For durations in seconds: s, ms or µs.
    pub(crate) fn seconds(values: impl IntoIterator<Item = f64>) -> Scale {
        Scale::fitting(&[("s", 1.0), ("ms", 1e3), ("µs", 1e6)], 3, values)
    }

    /// For sizes in bytes, in powers of a thousand.
    pub(crate) fn bytes(values: impl IntoIterator<Item = f64>) -> Scale {
        Scale::fitting(&[("TB", 1e-12), ("GB", 1e-9), ("MB", 1e-6), ("kB", 1e-3), ("B", 1.0)], 2, values)
    }

    /// For rates of data in bit/s, in powers of a thousand.
    pub(crate) fn bits_per_second(values: impl IntoIterator<Item = f64>) -> Scale {
        Scale::fitting(&[("Gbit/s", 1e-9), ("Mbit/s", 1e-6), ("kbit/s", 1e-3)], 2, values)
    }

    /// For numbers without a unit to choose.
    pub(crate) fn plain(decimals_max: usize, values: impl IntoIterator<Item = f64>) -> Scale {
        Scale::fitting(&[("", 1.0)], decimals_max, values)
    }

    /// In one unit, as many decimals as the values need.
    pub(crate) fn up_to(
        unit: &'static str,
        factor: f64,
        decimals_max: usize,
        values: impl IntoIterator<Item = f64>,
    ) -> Scale {
        Scale::fitting(&[(unit, factor)], decimals_max, values)
    }

    /// In one unit, always with this number of decimals.
    pub(crate) fn exactly(unit: &'static str, factor: f64, decimals: usize) -> Scale {
        Scale { unit, factor, decimals }
    }

    /// A value in the unit. An exact zero has blanks instead of decimals, so that it stands out.
    pub(crate) fn show(&self, value: f64) -> String {
        if value == 0.0 {
            let room = if self.decimals == 0 { 0 } else { self.decimals + 1 };
            return format!("0{}", " ".repeat(room));
        }
        decimal(value * self.factor, self.decimals)
    }

    /// A figure's value, marked where it is a lower bound.
    pub(crate) fn show_value(&self, value: Value) -> String {
        marked(value.is_at_least(), self.show(value.as_f64()))
    }

    /// The same with its unit, for prose.
    pub(crate) fn say_value(&self, value: Value) -> String {
        marked(value.is_at_least(), self.say(value.as_f64()))
    }

    /// A cell of a column in this unit.
    pub(crate) fn cell(&self, value: impl Into<Value>) -> Cell {
        Cell::Scaled(value.into(), *self)
    }

    /// The time at a percentile of a distribution, or its longest, marked where that is a lower bound.
    pub(crate) fn percentile(&self, times: &Distribution, percentile: f64) -> Cell {
        let time_s = times.each().into_iter().find(|(known, _)| *known == percentile);
        time_s
            .map(|(_, time_s)| Value::bounded(time_s, times.is_at_least(percentile)))
            .map(|it| self.cell(it))
            .into()
    }

    /// A value in base units as a number of this unit.
    pub(crate) fn in_unit(&self, value: f64) -> f64 {
        value * self.factor
    }

    /// A number of this unit in base units.
    pub(crate) fn in_base(&self, number: f64) -> f64 {
        number / self.factor
    }

    /// A value with its unit, for prose; a dash if it was not measured.
    pub(crate) fn say_or_dash(&self, value: f64) -> String {
        if value.is_finite() { self.say(value) } else { "–".to_owned() }
    }

    /// A value with its unit, for prose.
    pub(crate) fn say(&self, value: f64) -> String {
        let number = self.show(value);
        if self.unit.is_empty() {
            number.trim_end().to_owned()
        } else {
            format!("{} {}", number.trim_end(), self.unit)
        }
    }

    fn fitting(
        units: &[(&'static str, f64)],
        decimals_max: usize,
        values: impl IntoIterator<Item = f64>,
    ) -> Scale {
        let mut values: Vec<f64> = values.into_iter().filter(|v| *v > 0.0 && v.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let smallest_unit = units[units.len() - 1];
        let Some(&median) = values.get(values.len() / 2) else {
            return Scale { unit: smallest_unit.0, factor: smallest_unit.1, decimals: 0 };
        };
        let (unit, factor) =
            units.iter().copied().find(|(_, factor)| median * factor >= 0.9995).unwrap_or(smallest_unit);
        let magnitude = (values[0] * factor).log10().floor();
        let whole_only = matches!(unit, "B");
        let decimals =
            if whole_only { 0 } else { (2.0 - magnitude).clamp(0.0, decimals_max as f64) as usize };
        Scale { unit, factor, decimals }
    }
}

/// A number as it is shown, after a sign where it is a lower bound.
fn marked(is_at_least: bool, shown: String) -> String {
    if is_at_least { format!("≥\u{a0}{shown}") } else { shown }
}

/// Nanoseconds in seconds.
pub(crate) fn in_seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND as f64
}

/// One duration in seconds with a unit of its own, three digits, for prose.
pub(crate) fn seconds(value: f64) -> String {
    Scale::seconds([value]).say(value)
}

/// A round duration, as on an axis, without trailing zeros.
pub(crate) fn seconds_round(value: f64) -> String {
    round(&seconds(value))
}

/// A number, with its unit if it has one, without decimals that say nothing: `20 Mbit/s` of `20.0 Mbit/s`.
pub(crate) fn round(shown: &str) -> String {
    let (number, unit) = shown.split_at(shown.find(' ').unwrap_or(shown.len()));
    match number.contains('.') {
        true => format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
        false => shown.to_owned(),
    }
}

/// One size in bytes with a unit of its own, three digits, for prose.
pub(crate) fn bytes(value: u64) -> String {
    Scale::bytes([value as f64]).say(value as f64)
}

/// A percentage with two significant digits, for prose: `0.27 %`, `12 %`.
pub(crate) fn percent(value: f64) -> String {
    let decimals = if value >= 10.0 || value == 0.0 { 0 } else { 2 };
    if value > 0.0 && value < 0.01 { "<0.01 %".to_owned() } else { format!("{value:.decimals$} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(value), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(decimal(1234.567, 1), "1,234.6");
        assert_eq!(decimal(-1234.5, 2), "-1,234.50");
        assert_eq!(decimal(999.96, 1), "1,000.0");
        assert_eq!(decimal(f64::NAN, 1), "NaN");
        assert_eq!(decimal(1e30, 0), "1000000000000000019884624838656");
    }

    #[test]
    fn a_set_of_durations_shares_a_unit_and_its_decimals() {
        let scale = Scale::seconds([0.000_052, 0.0012, 0.0013, 1.5]);
        assert_eq!(scale.unit, "ms");
        assert_eq!(
            [0.000_052, 0.0012, 1.5, 0.0].map(|v| scale.show(v)),
            ["0.052", "1.200", "1,500.000", "0    "]
        );
    }

    #[test]
    fn one_value_shows_three_digits() {
        let shown: Vec<String> =
            [4.2e-7, 5.21e-5, 2.5e-4, 0.00123, 0.25, 1.0, 12.345, 700.0].map(seconds).into();
        assert_eq!(
            shown,
            ["0.420 µs", "52.1 µs", "250 µs", "1.23 ms", "250 ms", "1.00 s", "12.3 s", "700 s"]
        );
        assert_eq!([0, 512, 1500, 20_000_000].map(bytes), ["0 B", "512 B", "1.50 kB", "20.0 MB"]);
    }

    #[test]
    fn round_durations_have_no_idle_digits() {
        let shown = [1e-5, 2e-4, 0.005, 0.5, 10.0, 1.25].map(seconds_round);
        assert_eq!(shown, ["10 µs", "200 µs", "5 ms", "500 ms", "10 s", "1.25 s"]);
    }

    #[test]
    fn a_few_of_many_are_spread_evenly_and_keep_the_peak() {
        assert_eq!(spread(3, 8, Some(1)), [0, 1, 2]);
        assert_eq!(spread(1000, 5, None), [0, 249, 499, 749, 999]);
        assert_eq!(spread(1000, 5, Some(740)), [0, 249, 499, 740, 999]);
        assert_eq!(spread(1000, 5, Some(999)), [0, 249, 499, 749, 999]);
        assert_eq!(spread(9, 2, Some(4)), [0, 8]);
    }

    #[test]
    fn a_value_just_below_the_next_unit_takes_it() {
        assert_eq!(seconds(0.999_9), "1.000 s");
    }
}
