//! Quantities with units: how durations and counts are typed on a command line or in a file, and printed.
//!
//! Durations are nanoseconds in a `u64` (584 years), as in the monotonic clock that the engine reads.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Nanoseconds in a second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A span of time in nanoseconds. Reads and writes as `10s`, `500ms`, `1m30s`, `2h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// A whole number of seconds.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * NANOS_PER_SECOND)
    }

    /// A whole number of milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Nanos {
        Nanos(milliseconds * 1_000_000)
    }

    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// This span as a type of the standard library.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// The sum of counters. They may be forged, so it stays at the most that a counter holds.
pub fn sum(counters: impl IntoIterator<Item = u64>) -> u64 {
    counters.into_iter().fold(0, u64::saturating_add)
}

/// 1234567 as `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Why a text is not a quantity. The message has the text and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct QuantityError {
    text: String,
    expected: &'static str,
}

const DURATION_EXPECTED: &str =
    "a duration: write a number and a unit (ns, us, ms, s, m, h), as in 10s, 500ms or 1m30s";
const COUNT_EXPECTED: &str =
    "a count: write a whole number, with k, m or g for thousands, millions and billions, as in 10k";

impl FromStr for Nanos {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Nanos, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), expected: DURATION_EXPECTED };
        let mut rest = text.trim();
        let mut total = 0.0_f64;
        if rest.is_empty() {
            return Err(error());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number: f64 = rest[..digits].parse().map_err(|_| error())?;
            let unit_and_rest = &rest[digits..];
            let letters = unit_and_rest.find(|c: char| c.is_ascii_digit()).unwrap_or(unit_and_rest.len());
            let factor = match &unit_and_rest[..letters] {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                // A number without a unit means seconds, as in wrk, ab and hey.
                "s" | "" => 1e9,
                "m" | "min" => 60e9,
                "h" => 3600e9,
                _ => return Err(error()),
            };
            total += number * factor;
            rest = &unit_and_rest[letters..];
        }
        if total >= u64::MAX as f64 {
            return Err(error());
        }
        Ok(Nanos(total.round() as u64))
    }
}

impl fmt::Display for Nanos {
    /// The shortest exact form that [`Nanos::from_str`] can read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("h", 3600 * NANOS_PER_SECOND), ("m", 60 * NANOS_PER_SECOND), ("s", NANOS_PER_SECOND)];
        let mut rest = self.0;
        if rest == 0 {
            return f.write_str("0s");
        }
        if rest < NANOS_PER_SECOND || !rest.is_multiple_of(1_000_000) {
            return match rest {
                _ if rest.is_multiple_of(1_000_000) => write!(f, "{}ms", rest / 1_000_000),
                _ if rest.is_multiple_of(1_000) => write!(f, "{}us", rest / 1_000),
                _ => write!(f, "{rest}ns"),
            };
        }
        for (unit, size) in units {
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        if rest > 0 {
            write!(f, "{}ms", rest / 1_000_000)?;
        }
        Ok(())
    }
}

crate::as_text!(
    Nanos,
    "Duration",
    "A duration such as 10s, 500ms or 1m30s",
    "pattern": "^([0-9.]+(ns|us|ms|s|m|h)?)+$"
);

/// Bits per second. Reads and writes as `14.4k`, `2m`, `1g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

const BANDWIDTH_EXPECTED: &str =
    "a bandwidth: write bits per second from 300 to 100g, with k, m or g for thousands, as in 14.4k or 2m";

impl Bandwidth {
    /// Bits per second.
    pub const fn bits_per_s(self) -> u64 {
        self.0
    }

    /// How long it takes to transmit this many bytes.
    pub fn time_of(self, bytes: u64) -> Nanos {
        Nanos((u128::from(bytes) * 8 * u128::from(NANOS_PER_SECOND) / u128::from(self.0)) as u64)
    }

    /// `14.4 kbit/s`.
    pub fn in_words(self) -> String {
        let text = self.to_string();
        match text.strip_suffix(['k', 'm', 'g']) {
            Some(number) => {
                format!("{number} {}bit/s", text[number.len()..].replace('m', "M").replace('g', "G"))
            }
            None => format!("{text} bit/s"),
        }
    }
}

impl FromStr for Bandwidth {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Bandwidth, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), expected: BANDWIDTH_EXPECTED };
        let lower = text.trim().to_ascii_lowercase();
        let (number, factor) = match lower.as_bytes().last() {
            Some(b'k') => (&lower[..lower.len() - 1], 1e3),
            Some(b'm') => (&lower[..lower.len() - 1], 1e6),
            Some(b'g') => (&lower[..lower.len() - 1], 1e9),
            _ => (&lower[..], 1.0),
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let bits = number.parse::<f64>().ok().filter(|_| is_number).ok_or_else(error)? * factor;
        if !(300.0..=100e9).contains(&bits) || (bits - bits.round()).abs() > 1e-3 {
            return Err(error());
        }
        Ok(Bandwidth(bits.round() as u64))
    }
}

impl fmt::Display for Bandwidth {
    /// The shortest exact form that [`Bandwidth::from_str`] can read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("g", 1_000_000_000), ("m", 1_000_000), ("k", 1_000)];
        let fits = |size: &u64| self.0 >= *size && self.0.is_multiple_of(size / 1000);
        let Some((unit, size)) = units.into_iter().find(|(_, size)| fits(size)) else {
            return write!(f, "{}", self.0);
        };
        match self.0 % size / (size / 1000) {
            0 => write!(f, "{}{unit}", self.0 / size),
            part => write!(f, "{}.{}{unit}", self.0 / size, format!("{part:03}").trim_end_matches('0')),
        }
    }
}

crate::as_text!(Bandwidth, "Bandwidth", "Bits per second, such as 14.4k, 2m or 1g");

/// Reads a count such as `200`, `10k`, `1m` or `2g` (powers of a thousand, as in wrk).
pub fn parse_count(text: &str) -> Result<u64, QuantityError> {
    let error = || QuantityError { text: text.to_owned(), expected: COUNT_EXPECTED };
    let lower = text.trim().to_ascii_lowercase();
    let (number, factor) = match lower.as_bytes().last() {
        Some(b'k') => (&lower[..lower.len() - 1], 1_000),
        Some(b'm') => (&lower[..lower.len() - 1], 1_000_000),
        Some(b'g') => (&lower[..lower.len() - 1], 1_000_000_000),
        _ => (&lower[..], 1),
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(error)
}

/// For counters that are left out of files if they are 0.
pub fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_back_as_written() {
        for text in ["0s", "10s", "500ms", "1m30s", "2h", "250us", "17ns", "1s500ms", "1h1s"] {
            let nanos: Nanos = text.parse().unwrap();
            assert_eq!(nanos.to_string(), text);
        }
        assert_eq!("90".parse::<Nanos>().unwrap(), Nanos::from_secs(90));
        assert_eq!("1.5s".parse::<Nanos>().unwrap(), Nanos::from_millis(1500));
    }

    #[test]
    fn a_wrong_duration_says_what_is_expected() {
        for text in ["", "s", "-1s", "10 parsecs", "ten"] {
            let message = text.parse::<Nanos>().unwrap_err().to_string();
            assert!(message.contains("is not a duration"), "{message}");
        }
    }

    #[test]
    fn bandwidths_read_back_as_written() {
        for (text, bits, words) in [
            ("300", 300, "300 bit/s"),
            ("14.4k", 14_400, "14.4 kbit/s"),
            ("56k", 56_000, "56 kbit/s"),
            ("1.5m", 1_500_000, "1.5 Mbit/s"),
            ("1234.567k", 1_234_567, "1234.567 kbit/s"),
            ("10g", 10_000_000_000, "10 Gbit/s"),
        ] {
            let bandwidth: Bandwidth = text.parse().unwrap();
            assert_eq!(
                (bandwidth.bits_per_s(), &*bandwidth.to_string(), &*bandwidth.in_words()),
                (bits, text, words)
            );
        }
        assert_eq!("14.4K".parse::<Bandwidth>().unwrap().time_of(1800), Nanos::from_secs(1));
        for text in ["", "0", "k", "-1k", "299", "101g", "300.5", "1e6", "inf", "nan", "14,4k"] {
            let message = text.parse::<Bandwidth>().unwrap_err().to_string();
            assert!(message.contains("is not a bandwidth"), "{text}: {message}");
        }
    }

    #[test]
    fn counts_know_thousands() {
        assert_eq!(parse_count("10k"), Ok(10_000));
        assert_eq!(parse_count("1M"), Ok(1_000_000));
        assert_eq!(parse_count("7"), Ok(7));
        for text in ["", "k", "-1", "1.5", "99999999999g"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
