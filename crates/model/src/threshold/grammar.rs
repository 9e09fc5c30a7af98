//! Parses conditions. Thresholds and changes have the same grammar, except for the value:
//!
//! ```text
//! list      = condition { "," condition }
//! condition = metric [ "{" "clients" ":" levels "}" ] relation value
//! metric    = the name of a figure that has a gate (`figures::table`) | "med" | "p(" number ")" | "p" number
//! relation  = "<" | "<=" | ">" | ">="
//! value     = number unit                   of a threshold: ns us ms s m; % of errors and offered; bit/s … Gbit/s, B/s … GB/s;
//!                                           of fairness no unit; of a rate: k, m or nothing, and /s or nothing
//!           | [ "+" | "-" ] number unit     of a change: %; of figures that are often 0: their own unit, or pp (percentage points)
//! ```
//!
//! Spaces are allowed between any two of these. An error gives the column at which parsing stopped.

use std::str::FromStr;

use super::{Condition, FailIf, FailIfs, Relation, Threshold, Thresholds};
use crate::spec::Levels;
use webstone_measure::metric::{Metric, Quantity};

/// Why a text is not a condition: where parsing stopped, the rule, and the remedy after `; write`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`, column {column}: {rule}; write {remedy}")]
pub struct GateError {
    text: String,
    /// Where parsing stopped, in characters from 1.
    pub column: usize,
    rule: String,
    remedy: String,
}

impl FromStr for Thresholds {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Thresholds, GateError> {
        Ok(Thresholds(list(text, Scanner::measured)?.into_iter().map(Threshold).collect()))
    }
}

impl FromStr for FailIfs {
    type Err = GateError;

    fn from_str(text: &str) -> Result<FailIfs, GateError> {
        Ok(FailIfs(list(text, Scanner::change)?.into_iter().map(FailIf).collect()))
    }
}

type Value<'a> = fn(&mut Scanner<'a>, Metric) -> Result<f64, GateError>;

fn list<'a>(text: &'a str, value: Value<'a>) -> Result<Vec<Condition>, GateError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut all = Vec::new();
    loop {
        all.push(scanner.condition(value)?);
        if scanner.rest().is_empty() {
            return Ok(all);
        }
        if !scanner.take(",") {
            let rule = "nothing but a comma and another condition can follow here";
            return Err(scanner.error(rule, "one condition, or several separated by commas"));
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    /// Number of bytes parsed.
    at: usize,
}

impl<'a> Scanner<'a> {
    fn condition(&mut self, value: Value<'a>) -> Result<Condition, GateError> {
        self.skip_spaces();
        let start = self.at;
        let metric = self.metric()?;
        let clients = self.selector()?;
        let relation = self.relation(metric)?;
        let limit = value(self, metric)?;
        let text = self.text[start..self.at].trim_end().to_owned();
        self.skip_spaces();
        Ok(Condition { text, metric, clients, relation, limit })
    }

    fn metric(&mut self) -> Result<Metric, GateError> {
        let start = self.at;
        let word = self.word(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if let Some(metric) = Metric::named(word) {
            return Ok(metric);
        }
        Ok(match word {
            "p" if self.take("(") => {
                let percentile = self.percentile()?;
                if !self.take(")") {
                    return Err(self.error("the percentile has no closing bracket", "it as in p(99)"));
                }
                percentile
            }
            _ if word
                .strip_prefix('p')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) =>
            {
                self.at = start + 1;
                self.percentile()?
            }
            _ => {
                self.at = start;
                let rule = match word {
                    "" => "a figure is expected here".to_owned(),
                    "p" => "a percentile has a number".to_owned(),
                    _ => format!("`{word}` is not a figure"),
                };
                let all = || {
                    let names: Vec<&str> = Metric::names().into_iter().map(|(name, _)| name).collect();
                    let (last, others) = names.split_last().expect("there are figures");
                    format!("{} or {last}", others.join(", "))
                };
                let meant = match word {
                    "latency" | "mean" | "average" | "http_req_duration" => {
                        "avg, med or p(99): response times"
                    }
                    "p" => "p(99)",
                    "rps" | "requests" | "http_reqs" | "qps" => "rate: valid responses per second",
                    "median" => "med",
                    "http_req_failed" | "error" | "error_rate" => "errors: the share of failed requests",
                    "connections" | "connection_rate" => "connects: connections per second",
                    "fair" | "jain" => "fairness: Jain's index over the clients",
                    "cpu" => "client-cpu or server-cpu: CPU time per request",
                    _ => &all(),
                };
                return Err(self.error(rule, meant));
            }
        })
    }

    fn percentile(&mut self) -> Result<Metric, GateError> {
        self.skip_spaces();
        let start = self.at;
        let percentile = self.number()?;
        if percentile > 0.0 && percentile <= 100.0 {
            return Ok(Metric::Percentile(percentile));
        }
        self.at = start;
        Err(self.error("a percentile is above 0 and at most 100", "p(50), p(99) or p(99.9)"))
    }

    fn selector(&mut self) -> Result<Option<Levels>, GateError> {
        if !self.take("{") {
            return Ok(None);
        }
        let form = "the levels as in {clients:40} or {clients:20..100+10}";
        self.skip_spaces();
        if !self.take("clients") || !self.take(":") {
            return Err(self.error("levels are selected by their number of clients", form));
        }
        self.skip_spaces();
        let rest = self.rest();
        let Some(end) = rest.find('}') else {
            self.at = self.text.len();
            return Err(self.error("the selection has no closing brace", form));
        };
        let levels = rest[..end].parse::<Levels>();
        let levels = levels.map_err(|_| self.error(format!("`{}` names no levels", &rest[..end]), form))?;
        self.at += end + 1;
        Ok(Some(levels))
    }

    fn relation(&mut self, metric: Metric) -> Result<Relation, GateError> {
        self.skip_spaces();
        let known = [
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("<", Relation::Below),
            (">", Relation::Above),
        ];
        if let Some((_, relation)) = known.into_iter().find(|(sign, _)| self.take(sign)) {
            return Ok(relation);
        }
        let rule = if self.rest().starts_with(['=', '!']) {
            "a measured value is hardly ever equal to anything".to_owned()
        } else {
            format!("a relation is expected after `{metric}`")
        };
        Err(self.error(rule, "<, <=, > or >="))
    }

    /// Parses a limit of a measured value, in the base unit.
    fn measured(&mut self, metric: Metric) -> Result<f64, GateError> {
        self.skip_spaces();
        if self.rest().starts_with(['-', '+']) {
            return Err(self.error("a limit has no sign", "the value itself; changes are for --fail-if"));
        }
        let number = self.number()?;
        self.skip_spaces();
        let start = self.at;
        let unit = self.word(|c| c.is_alphabetic() || matches!(c, '/' | '%'));
        let factor = factor(metric.quantity(), unit);
        // Zero is zero in any unit.
        let factor = factor.or_else(|| (number == 0.0 && unit.is_empty()).then_some(1.0));
        factor.map(|factor| number * factor).ok_or_else(|| {
            self.at = start;
            let rule = if unit.is_empty() {
                format!("the limit of `{metric}` needs a unit")
            } else {
                format!("`{unit}` is not a unit of `{metric}`")
            };
            let units = match metric.quantity() {
                Quantity::Seconds | Quantity::Duration => "ns, us, ms, s or m after the number",
                Quantity::Percent => "% after the number: it is a share",
                Quantity::BitsPerSecond => "Mbit/s, MB/s or the like after the number",
                Quantity::BytesPerSecond => "kB/s, MB/s or the like after the number",
                Quantity::Bytes => "B, kB, MB or GB after the number",
                Quantity::PerSecond => "the number alone, or with k, m or /s after it",
                Quantity::Share => "the number alone, between 0 and 1",
                _ => "the number alone",
            };
            self.error(rule, units)
        })
    }

    /// Parses a limit of a change, in percent or percentage points.
    fn change(&mut self, metric: Metric) -> Result<f64, GateError> {
        self.skip_spaces();
        let sign = match (self.take("-"), self.take("+")) {
            (true, false) => -1.0,
            (true, true) => return Err(self.error("one sign is enough", "+3% or -3%")),
            _ => 1.0,
        };
        let number = self.number()?;
        self.skip_spaces();
        let start = self.at;
        let unit = self.word(|c| c.is_alphabetic() || matches!(c, '/' | '%'));
        let wanted = metric.unit_of_change();
        let remedy = match wanted {
            "%" => "a change against the baseline in percent, as in rate<-3% or p(99)>+10%".to_owned(),
            "pp" => {
                format!("percentage points, as in {metric}>+0.1pp: there may be no {metric} to compare with")
            }
            unit => format!("a difference, as in {metric}>+0.1{unit}: the baseline may have none"),
        };
        if unit == wanted {
            return Ok(sign * number);
        }
        self.at = start;
        let rule = if unit.is_empty() {
            format!("the change of `{metric}` needs its unit, {wanted}")
        } else {
            format!("`{unit}` is not the unit of a change of `{metric}`")
        };
        Err(self.error(rule, &remedy))
    }

    fn number(&mut self) -> Result<f64, GateError> {
        let start = self.at;
        let digits = self.word(|c| c.is_ascii_digit() || c == '.');
        digits.parse::<f64>().ok().filter(|number| *number < 1e18).ok_or_else(|| {
            self.at = start;
            let rule = match digits {
                "" => "a number is expected here".to_owned(),
                _ => format!("`{digits}` is not a number below 10^18"),
            };
            self.error(rule, "digits, with a point before decimals")
        })
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes what is expected, including spaces before it, or nothing.
    fn take(&mut self, expected: &str) -> bool {
        let rest = self.rest().trim_start();
        let found = rest.starts_with(expected);
        if found {
            self.at = self.text.len() - rest.len() + expected.len();
        }
        found
    }

    fn error(&self, rule: impl Into<String>, remedy: &str) -> GateError {
        GateError {
            text: self.text.to_owned(),
            column: self.text[..self.at].chars().count() + 1,
            rule: rule.into(),
            remedy: remedy.to_owned(),
        }
    }
}

/// The factor that converts a unit to the base unit.
fn factor(quantity: Quantity, unit: &str) -> Option<f64> {
    let units: &[(&str, f64)] = match quantity {
        Quantity::Seconds | Quantity::Duration => {
            &[("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0)]
        }
        Quantity::Percent => &[("%", 1.0)],
        Quantity::Share | Quantity::Count | Quantity::Ratio | Quantity::PerMinute => &[("", 1.0)],
        Quantity::Bytes => &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)],
        Quantity::BytesPerSecond => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)],
        Quantity::PerSecond => &[("", 1.0), ("/s", 1.0), ("k", 1e3), ("k/s", 1e3), ("m", 1e6), ("m/s", 1e6)],
        Quantity::BitsPerSecond => &[
            ("bit/s", 1.0),
            ("kbit/s", 1e3),
            ("Mbit/s", 1e6),
            ("Gbit/s", 1e9),
            ("B/s", 8.0),
            ("kB/s", 8e3),
            ("MB/s", 8e6),
            ("GB/s", 8e9),
        ],
    };
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}
