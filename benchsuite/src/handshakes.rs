//! The TLS handshakes of a run as the server logged them, to check that all tools did the same. wrk and oha resume nearly every
//! session that a server lets them, ab none, and each offers cipher suites in an order of its own.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::modes::Mode;

/// nginx's format of a line: whether the session was resumed (`r`) or not (`.`), version, cipher suite.
pub const LOG_FORMAT: &str = "$ssl_session_reused $ssl_protocol $ssl_cipher";
/// Share of full handshakes where all should be resumed: each client's first is full.
const FULL_SHARE_MAX: f64 = 0.1;
/// Connections per request where each should have a new one: those of the last requests are not logged yet.
const NEW_SHARE_MIN: f64 = 0.9;

/// How many handshakes there were of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Handshakes(BTreeMap<String, u64>);

impl Handshakes {
    /// Reads what nginx logged.
    pub fn of_log(text: &str) -> Handshakes {
        let mut kinds = BTreeMap::new();
        for line in text.lines() {
            let kind = match line.split_once(' ') {
                Some(("r", agreed)) => format!("resumed {agreed}"),
                Some((".", agreed)) => format!("full {agreed}"),
                _ => format!("not understood: {line}"),
            };
            *kinds.entry(kind).or_default() += 1;
        }
        Handshakes(kinds)
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Handshakes) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind.clone()).or_default() += count;
        }
    }

    /// Checks that they are those of a mode, with this number of requests.
    ///
    /// # Errors
    /// What they are instead.
    pub fn fit(&self, mode: Mode, requests: u64) -> Result<(), String> {
        let count = |start: &str| -> u64 {
            self.0.iter().filter(|(kind, _)| kind.starts_with(start)).map(|(_, count)| count).sum()
        };
        let (full, resumed) = (count("full "), count("resumed "));
        let all: u64 = self.0.values().sum();
        let is_enough = mode.keeps_alive() || all as f64 >= NEW_SHARE_MIN * requests as f64;
        let fits = match mode {
            _ if mode.is_secure() && !is_enough => false,
            Mode::HttpsFull | Mode::H3Full => full > 0 && full == all,
            Mode::HttpsResumed => {
                resumed > 0 && full + resumed == all && full as f64 <= FULL_SHARE_MAX * all as f64
            }
            _ if mode.is_secure() => full + resumed == all && all > 0,
            _ => all == 0,
        };
        if fits { Ok(()) } else { Err(format!("its handshakes were {self}, of {requests} requests")) }
    }
}

impl fmt::Display for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (number, (kind, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {kind}", if number > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = ". TLSv1.3 TLS_AES_128_GCM_SHA256\n";
    const RESUMED: &str = "r TLSv1.3 TLS_AES_128_GCM_SHA256\n";

    #[test]
    fn the_wrong_kind_of_handshake_is_no_result() {
        for (log, mode, fits) in [
            (FULL.repeat(91), Mode::H3Full, true),
            (FULL.repeat(64), Mode::H3Full, false),
            (FULL.repeat(103), Mode::HttpsFull, true),
            (FULL.repeat(300) + RESUMED, Mode::HttpsFull, false),
            (String::new(), Mode::HttpsFull, false),
            (FULL.repeat(10) + &RESUMED.repeat(90), Mode::HttpsResumed, true),
            (FULL.repeat(11) + &RESUMED.repeat(89), Mode::HttpsResumed, false),
            (FULL.repeat(3), Mode::HttpsResumed, false),
            (FULL.to_owned() + RESUMED, Mode::H2Ten, true),
            (String::new(), Mode::H2Ten, false),
            ("- - -\n".to_owned(), Mode::HttpsKeepAlive, false),
            (String::new(), Mode::H2cTen, true),
        ] {
            let found = Handshakes::of_log(&log);
            assert_eq!(found.fit(mode, 100).is_ok(), fits, "{mode:?} {found}");
        }
    }

    #[test]
    fn kinds_are_counted() {
        let mut found = Handshakes::of_log(&(FULL.to_owned() + RESUMED + FULL));
        found.add(&Handshakes::of_log(RESUMED));
        assert_eq!(
            found.to_string(),
            "2 full TLSv1.3 TLS_AES_128_GCM_SHA256, 2 resumed TLSv1.3 TLS_AES_128_GCM_SHA256"
        );
    }
}
