//! Addresses of reports that are used once: a frame cannot send the token, and the address of a report must be useless in a
//! browser's history.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::guard::Token;

/// How long an address is good for.
const GOOD_FOR: Duration = Duration::from_secs(60);
/// Reports that wait to be fetched; each takes up to some megabytes.
const WAITING_MAX: usize = 8;

/// Reports that wait to be fetched.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    waiting: VecDeque<(Token, Instant, Vec<u8>)>,
}

impl Tickets {
    /// The address of a report, from the root.
    ///
    /// # Errors
    /// If the kernel gives no random bytes.
    pub(crate) fn issue(&mut self, report: Vec<u8>) -> std::io::Result<String> {
        let token = Token::random()?;
        let address = format!("/render/{}", token.text());
        while self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((token, Instant::now(), report));
        Ok(address)
    }

    /// The report of an address; once.
    pub(crate) fn redeem(&mut self, given: &str) -> Option<Vec<u8>> {
        self.waiting.retain(|(_, issued, _)| issued.elapsed() < GOOD_FOR);
        let at = self.waiting.iter().position(|(token, ..)| token.is(given))?;
        self.waiting.remove(at).map(|(_, _, report)| report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_good_once() {
        let mut tickets = Tickets::default();
        let address = tickets.issue(b"page".to_vec()).unwrap();
        let given = address.strip_prefix("/render/").unwrap().to_owned();
        assert_eq!(tickets.redeem("else"), None);
        assert_eq!(tickets.redeem(&given), Some(b"page".to_vec()));
        assert_eq!(tickets.redeem(&given), None);
    }

    #[test]
    fn those_that_nobody_fetches_are_forgotten() {
        let mut tickets = Tickets::default();
        let first = tickets.issue(Vec::new()).unwrap();
        for _ in 0..WAITING_MAX {
            tickets.issue(Vec::new()).unwrap();
        }
        assert_eq!(tickets.redeem(first.strip_prefix("/render/").unwrap()), None);
        assert_eq!(tickets.waiting.len(), WAITING_MAX);
    }
}
