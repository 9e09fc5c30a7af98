//! Numbers in a line of progress: short, with units.

use std::time::Duration;
use webstone_measure::units::grouped;

/// `12345.6` → `12,346`; below a hundred with three significant digits, as in the tables of the report, because a
/// slow server has small rates.
pub(super) fn rate(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        // Rounded as in tables: with a window of 2 s every second rate ends in a half.
        v => grouped(v.round_ties_even() as u64),
    }
}

/// Seconds in the unit that reads best, with three significant digits.
pub(super) fn latency(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A time to wait, rounded up to seconds: `1 h 02 min`, `3 min 05 s`, `12 s`.
pub(crate) fn wait(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        assert_eq!(
            [0.0, 5.714, 9.995, 12.34, 99.94, 99.95, 1234567.4, 92988.5, 92989.5].map(rate),
            ["0", "5.71", "10.0", "12.3", "99.9", "100", "1,234,567", "92,988", "92,990"]
        );
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 0.000_001_5, 0.000_999, 0.0012, 0.0456, 0.1234, 2.5].map(latency),
            ["0.00 µs", "1.50 µs", "999 µs", "1.20 ms", "45.6 ms", "123 ms", "2.50 s"]
        );
        let waits = [0, 1, 59_001, 185_000, 3_720_000].map(|ms| wait(Duration::from_millis(ms)));
        assert_eq!(waits, ["0 s", "1 s", "1 min 00 s", "3 min 05 s", "1 h 02 min"]);
    }
}
