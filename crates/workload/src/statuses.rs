//! Which statuses count as a success: `2xx`, `304,404`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use webstone_measure::shown::quoted;

/// A set of statuses; by default the class 2xx. In ascending order, each once, and a whole class as one range: the same set is
/// always equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

/// Why a text is not a list of statuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a status from 200 to 599 or a class of them; write them as in 304, 2xx or 200,304,404", quoted(.0))]
pub struct StatusesError(String);

impl Statuses {
    /// Exactly this one.
    pub fn one(status: u16) -> Statuses {
        Statuses(vec![status..=status])
    }

    fn of_ranges(ranges: &[RangeInclusive<u16>]) -> Statuses {
        let has = |status: &u16| ranges.iter().any(|range| range.contains(status));
        let of_class = |class: u16| {
            let all = class * 100..=class * 100 + 99;
            match all.clone().all(|status| has(&status)) {
                true => vec![all],
                false => all.filter(has).map(|status| status..=status).collect(),
            }
        };
        Statuses((2..6).flat_map(of_class).collect())
    }

    /// Whether a status is one of them.
    pub fn has(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    /// Whether nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == Statuses::default()
    }

    /// In a sentence: `200 to 299`, `304 or 404`.
    pub fn in_words(&self) -> String {
        let word = |range: &RangeInclusive<u16>| match range.start() == range.end() {
            true => range.start().to_string(),
            false => format!("{} to {}", range.start(), range.end()),
        };
        let words: Vec<String> = self.0.iter().map(word).collect();
        match words.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

impl Default for Statuses {
    fn default() -> Statuses {
        Statuses(vec![200..=299])
    }
}

impl FromStr for Statuses {
    type Err = StatusesError;

    fn from_str(text: &str) -> Result<Statuses, StatusesError> {
        let one = |word: &str| {
            let word = word.trim();
            let range = match word.strip_suffix("xx").or_else(|| word.strip_suffix("XX")) {
                Some(class) => {
                    class.parse::<u16>().ok().filter(|class| *class < 10).map(|it| it * 100..=it * 100 + 99)
                }
                None => word.parse::<u16>().ok().map(|status| status..=status),
            };
            // Answers with 1xx are never the last.
            range
                .filter(|range| (200..600).contains(range.start()))
                .ok_or_else(|| StatusesError(word.to_owned()))
        };
        text.split(',').map(one).collect::<Result<Vec<_>, _>>().map(|ranges| Statuses::of_ranges(&ranges))
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}xx", range.start() / 100)?,
            }
        }
        Ok(())
    }
}

webstone_measure::as_text!(
    Statuses,
    "ExpectedStatuses",
    "Statuses and classes of them: 304, 2xx or 200,304,404"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_and_classes() {
        for (text, shown, words, fit, others) in [
            ("304", "304", "304", &[304][..], &[200, 404][..]),
            ("2xx", "2xx", "200 to 299", &[200, 299], &[199, 300]),
            ("304, 404,2XX", "2xx,304,404", "200 to 299, 304 or 404", &[304, 404, 204], &[500, 403]),
        ] {
            let statuses: Statuses = text.parse().unwrap();
            assert_eq!((statuses.to_string().as_str(), statuses.in_words().as_str()), (shown, words));
            assert!(fit.iter().all(|status| statuses.has(*status)), "{text}");
            assert!(!others.iter().any(|status| statuses.has(*status)), "{text}");
        }
        assert!("2xx".parse::<Statuses>().unwrap().is_default());
        let all_of_2xx = (200..300).rev().map(|status| status.to_string()).collect::<Vec<_>>().join(",");
        for (one, other) in
            [("200,304", "304,200"), ("2xx", "204,2xx,2xx"), ("404", "404,404"), ("2xx", all_of_2xx.as_str())]
        {
            assert_eq!(
                one.parse::<Statuses>().unwrap(),
                other.parse::<Statuses>().unwrap(),
                "{one} and {other}"
            );
        }
        for text in ["", "2x", "99", "100", "1xx", "600", "9xx", "xx", "20xx", "200,", "200;404", "-1", "ok"]
        {
            let error = text.parse::<Statuses>().unwrap_err().to_string();
            assert!(error.contains("200,304,404"), "{text}: {error}");
        }
    }
}
