//! The parameters of a handler's query, each read once; errors say which parameter, its value and the rule.

use std::cell::Cell;
use std::time::Duration;

use webstone_measure::units::{Nanos, parse_count};

use crate::path;

/// Why a query cannot be answered; the text of a 400.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct QueryError(pub(crate) String);

/// Names and decoded values in order.
#[derive(Debug)]
pub(crate) struct Query {
    pairs: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    name: String,
    value: String,
    used: Cell<bool>,
}

impl Query {
    /// Splits at `&` and `=` and decodes; a name alone has an empty value.
    pub(crate) fn parse(text: Option<&str>) -> Result<Query, QueryError> {
        let mut pairs: Vec<Pair> = Vec::new();
        for part in text.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let decode = |text: &str| -> Result<String, QueryError> {
                let bytes = path::decode(text).map_err(|_| {
                    QueryError(format!("{part}: a % without two hexadecimal digits after it"))
                })?;
                String::from_utf8(bytes).map_err(|_| QueryError(format!("{part}: not UTF-8")))
            };
            let (name, value) = (decode(name)?, decode(value)?);
            if pairs.iter().any(|pair| pair.name == name) {
                return Err(QueryError(format!("{name} is given twice")));
            }
            pairs.push(Pair { name, value, used: Cell::new(false) });
        }
        Ok(Query { pairs })
    }

    /// The value of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|pair| pair.name == name)?;
        pair.used.set(true);
        Some(&pair.value)
    }

    /// A count from `min` to `max`, with `k`, `m` and `g` for thousands, millions and billions.
    pub(crate) fn count(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, QueryError> {
        self.text(name).map(|value| count(name, value, min, max)).transpose()
    }

    /// A duration such as `10ms`; a bare number is seconds.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>, QueryError> {
        self.text(name).map(|value| duration(name, value)).transpose()
    }

    /// A list, separated by commas.
    pub(crate) fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, QueryError>,
    ) -> Result<Vec<T>, QueryError> {
        self.text(name).map_or(Ok(Vec::new()), |value| value.split(',').map(read).collect())
    }

    /// `1`, `0`, or the name alone for `1`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, QueryError> {
        match self.text(name) {
            None | Some("0") => Ok(false),
            Some("1" | "") => Ok(true),
            Some(value) => Err(QueryError(format!("{name}={value}: write {name}=1 or {name}=0"))),
        }
    }

    /// Fails for the first unknown parameter: a misspelt fault would otherwise test nothing.
    pub(crate) fn finish(&self, known: &str) -> Result<(), QueryError> {
        match self.pairs.iter().find(|pair| !pair.used.get()) {
            None => Ok(()),
            Some(pair) => Err(QueryError(format!("{}: unknown parameter; known are {known}", pair.name))),
        }
    }
}

/// Reads a count.
pub(crate) fn count(name: &str, value: &str, min: u64, max: u64) -> Result<u64, QueryError> {
    let number = parse_count(value).map_err(|error| QueryError(format!("{name}={value}: {error}")))?;
    if !(min..=max).contains(&number) {
        return Err(QueryError(format!("{name}={value}: must be from {min} to {max}")));
    }
    Ok(number)
}

/// Reads a duration.
pub(crate) fn duration(name: &str, value: &str) -> Result<Duration, QueryError> {
    let nanos: Nanos = value.parse().map_err(|error| QueryError(format!("{name}={value}: {error}")))?;
    Ok(nanos.as_duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(Some(text)).unwrap()
    }

    #[test]
    fn values_have_types() {
        let query = query("size=10k&delay=1m30s&on&list=0,1ms&x=%41");
        assert_eq!(query.count("size", 0, 10_000), Ok(Some(10_000)));
        assert_eq!(query.duration("delay"), Ok(Some(Duration::from_secs(90))));
        assert_eq!(query.flag("on"), Ok(true));
        assert_eq!(query.flag("off"), Ok(false));
        assert_eq!(query.text("x"), Some("A"));
        let list = query.list("list", |value| duration("list", value));
        assert_eq!(list, Ok(vec![Duration::ZERO, Duration::from_millis(1)]));
        assert_eq!(query.finish(""), Ok(()));
    }

    #[test]
    fn errors_name_the_parameter() {
        for (text, expected) in [("size=-1", "size=-1"), ("size=9", "from 0 to 5"), ("size=", "size=:")] {
            let error = query(text).count("size", 0, 5).unwrap_err();
            assert!(error.0.contains(expected), "{error}");
        }
        assert!(query("delay=soon").duration("delay").unwrap_err().0.contains("delay=soon"));
        assert!(query("on=yes").flag("on").unwrap_err().0.contains("on=1"));
        assert!(query("sise=1").finish("size").unwrap_err().0.contains("sise"));
        for text in ["a=1&a=2", "a=%", "a=%ff"] {
            assert!(Query::parse(Some(text)).is_err(), "{text}");
        }
    }
}
