//! Rates of an open loop, as typed and printed: one rate, several levels of a sweep, a ramp over a time.
//!
//! A rate counts arrivals per second: pages that begin. The crate `workload` makes a schedule from it (`arrivals`).

use std::fmt;
use std::str::FromStr;

use crate::units::{Nanos, grouped};

/// Arrivals per 1,000 s: an integer, so that a schedule can be exact at any rate that can be typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// Maximum rate, in arrivals per second.
const PER_SECOND_MAX: u64 = 100_000_000;
const RATE_EXPECTED: &str = "a rate from 0.001 to 100m arrivals per second";

impl Rate {
    /// No arrivals at all.
    pub const ZERO: Rate = Rate(0);

    /// A whole number of arrivals per second.
    pub const fn per_second(arrivals: u32) -> Rate {
        Rate(arrivals as u64 * 1000)
    }

    /// Arrivals per 1,000 s.
    pub const fn per_1000_s(self) -> u64 {
        self.0
    }

    /// Arrivals per second.
    pub fn per_s(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// As shown, with thousands separated: `12,500`, `1,234.5`.
    pub fn grouped(self) -> String {
        let fraction = Rate(self.0 % 1000).to_string();
        grouped(self.0 / 1000) + &fraction["0".len()..]
    }
}

impl FromStr for Rate {
    type Err = String;

    /// A decimal number with at most three decimals after scaling, and `k` or `m` for thousands and millions. 0 is
    /// accepted; callers that cannot use it must check.
    fn from_str(text: &str) -> Result<Rate, String> {
        let error = || format!("`{text}` is not {RATE_EXPECTED}");
        let text = text.trim();
        let (digits, factor) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
            Some(b'k') => (&text[..text.len() - 1], 1000),
            Some(b'm') => (&text[..text.len() - 1], 1_000_000),
            _ => (text, 1),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.len() <= 12 && part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return Err(error());
        }
        // In units of 10⁻¹² of what was typed, so that every digit counts until the last division.
        let scaled = format!("{whole}{fraction:0<12}").parse::<u128>().map_err(|_| error())?;
        let per_1000_s = scaled * factor * 1000;
        if per_1000_s % 1_000_000_000_000 != 0 {
            return Err(format!("`{text}` is finer than 0.001 arrivals per second"));
        }
        let per_1000_s = per_1000_s / 1_000_000_000_000;
        if per_1000_s > u128::from(PER_SECOND_MAX) * 1000 {
            return Err(error());
        }
        Ok(Rate(per_1000_s as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 1000, self.0 % 1000);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{fraction:03}").trim_end_matches('0'))
    }
}

/// The rate of a level during its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RateProfile {
    /// Rate when the window opens, and during the warm-up.
    pub from: Rate,
    /// Rate at the end of the ramp, and from then on.
    pub to: Rate,
    /// Time of the linear ramp; zero if the rate is constant.
    pub over: Nanos,
}

impl RateProfile {
    /// A constant rate.
    pub const fn constant(rate: Rate) -> RateProfile {
        RateProfile { from: rate, to: rate, over: Nanos::ZERO }
    }

    /// Whether the rate changes.
    pub fn is_ramp(&self) -> bool {
        self.over > Nanos::ZERO
    }

    /// The highest rate of the level.
    pub fn peak(&self) -> Rate {
        self.from.max(self.to)
    }

    /// Expected number of arrivals in the first `nanos` of the window: the integral of the rate.
    pub fn expected(&self, nanos: u64) -> f64 {
        let (t, over) = (Nanos(nanos).as_secs_f64(), self.over.as_secs_f64());
        let (from, to) = (self.from.per_s(), self.to.per_s());
        if t >= over {
            (from + to) / 2.0 * over + to * (t - over)
        } else {
            from * t + (to - from) * t * t / (2.0 * over)
        }
    }

    /// The inverse of [`RateProfile::expected`]: the time, in seconds, at which this many arrivals are expected;
    /// `None` if the rate falls to 0 before.
    pub fn time_of(&self, arrivals: f64) -> Option<f64> {
        let (from, to, over) = (self.from.per_s(), self.to.per_s(), self.over.as_secs_f64());
        let in_ramp = (from + to) / 2.0 * over;
        if arrivals >= in_ramp {
            return (to > 0.0).then(|| over + (arrivals - in_ramp) / to);
        }
        // (to − from)/(2 over) t² + from t − arrivals = 0, in a form without cancellation.
        let slope = (to - from) / over;
        let root = (from * from + 2.0 * slope * arrivals).max(0.0).sqrt();
        Some(if arrivals > 0.0 { 2.0 * arrivals / (from + root) } else { 0.0 })
    }
}

impl fmt::Display for RateProfile {
    /// In the form that [`RateProfile::from_str`] reads: `1000`, `1000..50000/1m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ramp() { write!(f, "{}..{}/{}", self.from, self.to, self.over) } else { self.to.fmt(f) }
    }
}

impl FromStr for RateProfile {
    type Err = RatesError;

    fn from_str(text: &str) -> Result<RateProfile, RatesError> {
        let Rates(levels) = text.parse()?;
        match levels[..] {
            [level] => Ok(level),
            _ => Err(RatesError::new(text, format!("it names {} levels", levels.len()))),
        }
    }
}

/// Rates, one level each, in the order given. At least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates(pub Vec<RateProfile>);

impl Rates {
    /// The highest rate of all levels.
    pub fn peak(&self) -> Rate {
        self.0.iter().map(RateProfile::peak).max().unwrap_or_default()
    }
}

/// Why a text is not a list of rates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a list of rates: {rule}; write one rate (10k), a list (1k,5k,10k), a range with a step (1k..10k+1k) or with a factor (1k..64k*2), or a ramp over a time (1k..50k/60s)"
)]
pub struct RatesError {
    text: String,
    rule: String,
}

impl RatesError {
    fn new(text: &str, rule: String) -> RatesError {
        RatesError { text: text.to_owned(), rule }
    }
}

/// Maximum number of levels in a range, as for client counts.
const LEVELS_MAX: usize = 10_000;

impl FromStr for Rates {
    type Err = RatesError;

    fn from_str(text: &str) -> Result<Rates, RatesError> {
        let error = |rule: String| RatesError::new(text, rule);
        let any = |word: &str| word.parse::<Rate>().map_err(error);
        let rate = |word: &str| match any(word)? {
            Rate::ZERO => Err(error(format!("a rate of {} has no arrivals", word.trim()))),
            rate => Ok(rate),
        };
        let mut levels = Vec::new();
        for part in text.split(',').map(str::trim) {
            let Some((from, rest)) = part.split_once("..") else {
                if part.contains('/') {
                    return Err(error(format!("{part} names no rate to ramp to")));
                }
                levels.push(RateProfile::constant(rate(part)?));
                continue;
            };
            if let Some((to, over)) = rest.split_once('/') {
                let over = over.parse::<Nanos>().map_err(|e| error(e.to_string()))?;
                let ramp = RateProfile { from: any(from)?, to: any(to)?, over };
                if over == Nanos::ZERO {
                    return Err(error(format!("the ramp {part} takes no time")));
                }
                if ramp.peak() == Rate::ZERO {
                    return Err(error(format!("the ramp {part} has no arrivals")));
                }
                levels.push(ramp);
                continue;
            }
            let (to, step, factor) = match (rest.split_once('+'), rest.split_once('*')) {
                (Some((to, step)), None) => (to, rate(step)?.0, 1000),
                (None, Some((to, factor))) => (to, 0, rate(factor)?.0),
                _ => {
                    return Err(error(format!(
                        "{part} has neither the step of a range nor the time of a ramp"
                    )));
                }
            };
            let (from, to) = (rate(from)?.0, rate(to)?.0);
            if from > to {
                return Err(error(format!("the range {part} runs backwards")));
            }
            if step == 0 && factor <= 1000 {
                return Err(error(format!("the factor of {part} must be more than 1")));
            }
            let mut value = from;
            while value <= to {
                if levels.len() >= LEVELS_MAX {
                    return Err(error(format!("more than {LEVELS_MAX} levels")));
                }
                levels.push(RateProfile::constant(Rate(value)));
                // A factor may be a fraction such as 1.5; the value grows by at least one, so that the loop ends.
                value = (value.saturating_mul(factor) / 1000 + step).max(value + 1);
            }
        }
        Ok(Rates(levels))
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, level) in self.0.iter().enumerate() {
            write!(f, "{}{level}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

crate::as_text!(RateProfile, "RateProfile", "Arrivals per second: 1000, or a ramp as 1000..50000/1m");
crate::as_text!(
    Rates,
    "Rates",
    "Arrivals per second, one level for each: 10k, 1k,5k,10k, 1k..10k+1k, 1k..64k*2 or 1k..50k/60s"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<Rates>().unwrap().to_string()
    }

    #[test]
    fn rates_have_five_forms() {
        assert_eq!(shown("10k"), "10000");
        assert_eq!(shown("1k,5k, 10.5k"), "1000,5000,10500");
        assert_eq!(shown("1k..3k+1k"), "1000,2000,3000");
        assert_eq!(shown("1..8*2"), "1,2,4,8");
        assert_eq!(shown("100..300*1.5"), "100,150,225");
        assert_eq!(shown("1k..50k/60s"), "1000..50000/1m");
        assert_eq!(shown("0..1m/500ms,0.5"), "0..1000000/500ms,0.5");
    }

    #[test]
    fn printed_rates_read_back() {
        for text in ["0.001", "99.25", "1000..2.5/1h", "1,2,3", "100m"] {
            let rates: Rates = text.parse().unwrap();
            assert_eq!(rates.to_string().parse::<Rates>().unwrap(), rates);
        }
    }

    #[test]
    fn each_error_says_its_rule() {
        for (text, rule) in [
            ("", "`` is not a rate"),
            ("fast", "`fast` is not a rate"),
            ("-5", "`-5` is not a rate"),
            ("1e3", "`1e3` is not a rate"),
            ("0", "a rate of 0 has no arrivals"),
            ("101m", "`101m` is not a rate"),
            ("99999999999999999999", "is not a rate"),
            ("0.0001", "finer than 0.001"),
            ("1k..5k", "neither the step of a range nor the time of a ramp"),
            ("1k..5k/x", "`x` is not a duration"),
            ("1k..5k/0s", "takes no time"),
            ("0..0/5s", "the ramp 0..0/5s has no arrivals"),
            ("5k..1k+1k", "runs backwards"),
            ("1k..5k*1", "must be more than 1"),
            ("1k/60s", "names no rate to ramp to"),
            ("0.001..100m+0.001", "more than 10000 levels"),
            ("1k,,2k", "`` is not a rate"),
        ] {
            let error = text.parse::<Rates>().unwrap_err().to_string();
            assert!(error.contains(rule) && error.contains("; write one rate"), "{text}: {error}");
        }
    }

    #[test]
    fn the_integral_of_a_ramp_and_its_inverse() {
        let ramp: RateProfile = "1k..5k/10s".parse().unwrap();
        // Trapezium: (1,000 + 5,000) / 2 × 10 s; then 5,000 per second.
        assert_eq!(
            [0, 5, 10, 12].map(|s| ramp.expected(s * 1_000_000_000)),
            [0.0, 10_000.0, 30_000.0, 40_000.0]
        );
        for profile in ["1k..5k/10s", "5k..1k/10s", "0..5k/10s", "700"] {
            let profile: RateProfile = profile.parse().unwrap();
            for seconds in [0.0, 0.001, 1.0, 9.999, 10.0, 11.0, 3600.0_f64] {
                let arrivals = profile.expected((seconds * 1e9) as u64);
                let back = profile.time_of(arrivals).unwrap();
                assert!((back - seconds).abs() < 1e-6, "{profile}: {seconds} s, {arrivals}, {back} s");
            }
        }
        let ends: RateProfile = "5k..0/10s".parse().unwrap();
        assert_eq!((ends.time_of(24_999.0).is_some(), ends.time_of(25_000.0)), (true, None));
    }
}
