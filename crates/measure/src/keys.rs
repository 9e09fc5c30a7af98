//! What identifies a level of a run, and an iteration of a level.
//!
//! Records have clients, rate and iteration as separate fields; code that looks up a level, or compares levels of two
//! records, uses these keys, never the text that is shown.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::rate::RateProfile;
use crate::units::grouped;

/// A level of a run: in closed loop its number of clients; in open loop its rate, regardless of how many clients wait
/// for arrivals. Ordered by load, closed loop first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LevelKey {
    /// Closed loop.
    Clients(u32),
    /// Open loop.
    Rate(RateProfile),
}

impl LevelKey {
    /// The level with this number of clients, or in open loop with a rate.
    pub fn new(clients: u32, rate: Option<RateProfile>) -> LevelKey {
        rate.map_or(LevelKey::Clients(clients), LevelKey::Rate)
    }

    /// `1,000`, or a ramp as typed.
    fn amount(self) -> String {
        match self {
            LevelKey::Clients(clients) => grouped(u64::from(clients)),
            LevelKey::Rate(rate) if rate.is_ramp() => rate.to_string(),
            LevelKey::Rate(rate) => rate.to.grouped(),
        }
    }
}

impl fmt::Display for LevelKey {
    /// `1 client`, `1,000 clients`, `5,000 arrivals/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = match self {
            LevelKey::Clients(1) => "client",
            LevelKey::Clients(_) => "clients",
            LevelKey::Rate(_) => "arrivals/s",
        };
        write!(f, "{} {noun}", self.amount())
    }
}

impl Serialize for LevelKey {
    /// As in files: `1000 clients`, `5000 arrivals/s`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            LevelKey::Clients(1) => serializer.serialize_str("1 client"),
            LevelKey::Clients(clients) => serializer.collect_str(&format_args!("{clients} clients")),
            LevelKey::Rate(rate) => serializer.collect_str(&format_args!("{rate} arrivals/s")),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for LevelKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LevelKey".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

/// Several levels as one text: `1, 2, 4 clients`.
pub fn levels_named(levels: &[LevelKey]) -> String {
    let same_kind = |a: &LevelKey, b: &LevelKey| std::mem::discriminant(a) == std::mem::discriminant(b);
    let named = levels.chunk_by(same_kind).map(|levels| match levels {
        [only] => only.to_string(),
        _ => {
            let amounts: Vec<String> = levels.iter().map(|level| level.amount()).collect();
            let noun = if matches!(levels[0], LevelKey::Rate(_)) { "arrivals/s" } else { "clients" };
            format!("{} {noun}", amounts.join(", "))
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

/// A timed run of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IterationKey {
    /// The level.
    pub level: LevelKey,
    /// Which of the level's iterations, from 1.
    pub iteration: u32,
    /// Which attempt, from 1, if it was void; `None` for the one that counts.
    pub attempt: Option<u32>,
}

impl IterationKey {
    /// The timed run that counts.
    pub fn new(level: LevelKey, iteration: u32) -> IterationKey {
        IterationKey { level, iteration, attempt: None }
    }
}

impl fmt::Display for IterationKey {
    /// `10 clients, iteration 2`; for a void one `10 clients, iteration 2, attempt 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, iteration {}", self.level, self.iteration)?;
        self.attempt.map_or(Ok(()), |attempt| write!(f, ", attempt {attempt}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> LevelKey {
        LevelKey::Rate(text.parse().unwrap())
    }

    #[test]
    fn keys_are_shown_in_words_and_stored_as_files_have_them() {
        for (key, shown, stored) in [
            (LevelKey::Clients(1), "1 client", "1 client"),
            (LevelKey::Clients(1000), "1,000 clients", "1000 clients"),
            (rate("5k"), "5,000 arrivals/s", "5000 arrivals/s"),
            (rate("1234.5"), "1,234.5 arrivals/s", "1234.5 arrivals/s"),
            (rate("1k..5k/6s"), "1000..5000/6s arrivals/s", "1000..5000/6s arrivals/s"),
        ] {
            assert_eq!(
                (key.to_string(), serde_json::to_value(key).unwrap()),
                (shown.to_owned(), stored.into())
            );
        }
        let run = IterationKey::new(LevelKey::Clients(10), 2);
        assert_eq!(run.to_string(), "10 clients, iteration 2");
        assert_eq!(
            IterationKey { attempt: Some(1), ..run }.to_string(),
            "10 clients, iteration 2, attempt 1"
        );
    }

    #[test]
    fn levels_of_one_kind_share_their_noun() {
        let clients = |numbers: &[u32]| numbers.iter().map(|n| LevelKey::Clients(*n)).collect::<Vec<_>>();
        assert_eq!(levels_named(&clients(&[1])), "1 client");
        assert_eq!(levels_named(&clients(&[1, 2])), "1, 2 clients");
        assert_eq!(levels_named(&[rate("1k"), rate("2k")]), "1,000, 2,000 arrivals/s");
        let both = [clients(&[2, 1]), vec![rate("5")]].concat();
        assert_eq!(levels_named(&both), "2, 1 clients, 5 arrivals/s");
        assert_eq!(levels_named(&[]), "");
    }

    #[test]
    fn levels_are_ordered_by_load() {
        let mut levels = [rate("10k"), rate("9k"), LevelKey::Clients(10), LevelKey::Clients(9)];
        levels.sort_unstable();
        assert_eq!(levels, [LevelKey::Clients(9), LevelKey::Clients(10), rate("9k"), rate("10k")]);
    }
}
