//! TLS handshakes: how many were full, resumed, failed, how long they took, and what was agreed on.

use serde::{Deserialize, Serialize};

use super::{Histogram, Moments, add, add_all};
use crate::tls::{TlsCipher, TlsGroup, TlsVersion};

/// One successful handshake, as the load generator saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Whether it resumed an earlier session.
    pub is_resumed: bool,
    /// Whether the server accepted early data; absent if none was sent.
    pub took_early_data: Option<bool>,
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite.
    pub cipher: TlsCipher,
    /// The group of the key exchange; absent if a session was resumed without one.
    pub group: Option<TlsGroup>,
    /// The application protocol; absent if the server chose none.
    pub alpn: Option<&'static str>,
    /// Whether the server's certificate was verified.
    pub is_verified: bool,
}

/// What handshakes agreed on, and how many did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Agreed {
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite.
    pub cipher: TlsCipher,
    /// The group of the key exchange; absent if sessions were resumed without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<TlsGroup>,
    /// The application protocol (ALPN); absent if the server chose none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
    /// Whether the server's certificate was verified.
    pub verified: bool,
    /// Number of such handshakes that ended within the window.
    pub count: u64,
}

impl Agreed {
    fn is_of(&self, handshake: &Handshake) -> bool {
        let one =
            (handshake.version, handshake.cipher, handshake.group, handshake.alpn, handshake.is_verified);
        (self.version, self.cipher, self.group, self.alpn.as_deref(), self.verified) == one
    }

    fn is_like(&self, other: &Agreed) -> bool {
        Agreed { count: 0, ..self.clone() } == Agreed { count: 0, ..other.clone() }
    }
}

/// The handshakes that ended within a window. Sums exactly over workers and hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Handshakes {
    /// Handshakes that began a session.
    pub full: u64,
    /// Handshakes that resumed one.
    pub resumed: u64,
    /// Handshakes that failed.
    pub failed: u64,
    /// Connections without TLS, in a run that has handshakes. They are counted when established, and handshakes when
    /// they end: when a connection can carry a request.
    pub in_the_clear: u64,
    /// Connections whose early data the server accepted.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub early_data_accepted: u64,
    /// Connections whose early data the server rejected, so that the request was sent again.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub early_data_rejected: u64,
    /// Requests sent as early data that the server answered with 425 (Too Early), so that they were sent again after the handshake.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub too_early: u64,
    /// Time from the TCP connection's establishment to the end of the handshake, in nanoseconds, full and resumed.
    pub time: Moments,
    /// The same as a distribution; stored in `histograms.hlog`.
    #[serde(skip)]
    pub histogram: Histogram,
    /// What was agreed on.
    pub agreed: Vec<Agreed>,
}

impl Handshakes {
    /// The share over TLS, in percent, of all connections that became able to carry a request within the window.
    /// `None` if there were none.
    pub fn connections_percent(&self) -> Option<f64> {
        let all = self.ended().saturating_add(self.in_the_clear);
        (all > 0).then(|| 100.0 * self.ended() as f64 / all as f64)
    }

    /// Adds a successful handshake and its time. Allocates for a new combination of parameters.
    pub fn record(&mut self, handshake: &Handshake, took_ns: u64) {
        match handshake.is_resumed {
            true => self.resumed += 1,
            false => self.full += 1,
        }
        match handshake.took_early_data {
            Some(true) => self.early_data_accepted += 1,
            Some(false) => self.early_data_rejected += 1,
            None => {}
        }
        self.time.record(took_ns);
        self.histogram.record(took_ns);
        match self.agreed.iter_mut().find(|agreed| agreed.is_of(handshake)) {
            Some(agreed) => agreed.count += 1,
            None => self.agreed.push(Agreed {
                version: handshake.version,
                cipher: handshake.cipher,
                group: handshake.group,
                alpn: handshake.alpn.map(str::to_owned),
                verified: handshake.is_verified,
                count: 1,
            }),
        }
    }

    /// Number of successful handshakes.
    pub fn ended(&self) -> u64 {
        self.full.saturating_add(self.resumed)
    }

    /// Adds another worker's, host's or iteration's handshakes.
    pub fn merge(&mut self, other: &Handshakes) {
        add_all!(
            self,
            other,
            [full, resumed, failed, in_the_clear, early_data_accepted, early_data_rejected, too_early]
        );
        self.time.merge(&other.time);
        self.histogram.merge(&other.histogram);
        for theirs in &other.agreed {
            match self.agreed.iter_mut().find(|mine| mine.is_like(theirs)) {
                Some(mine) => add(&mut mine.count, theirs.count),
                None => self.agreed.push(theirs.clone()),
            }
        }
        // In the same order whichever came first.
        self.agreed.sort_by_key(|agreed| {
            (agreed.version, agreed.cipher, agreed.group, agreed.alpn.clone(), agreed.verified)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_counted_by_what_they_agreed_on() {
        let full = Handshake {
            is_resumed: false,
            took_early_data: None,
            version: TlsVersion::Tls13,
            cipher: TlsCipher::Tls13Aes128,
            group: Some(TlsGroup::X25519),
            alpn: Some("http/1.1"),
            is_verified: true,
        };
        let mut mine = Handshakes::default();
        mine.record(&full, 5);
        mine.record(&Handshake { is_resumed: true, ..full }, 3);
        let mut theirs = Handshakes { failed: 2, ..Handshakes::default() };
        let old = Handshake { version: TlsVersion::Tls12, cipher: TlsCipher::RsaAes128, ..full };
        theirs.record(&old, 7);
        let mut merged = mine.clone();
        merged.merge(&theirs);
        assert_eq!((merged.full, merged.resumed, merged.failed, merged.ended()), (2, 1, 2, 3));
        assert_eq!((merged.time.sum, merged.histogram.len()), (15, 3));
        let counts: Vec<_> = merged.agreed.iter().map(|agreed| (agreed.version, agreed.count)).collect();
        assert_eq!(counts, [(TlsVersion::Tls12, 1), (TlsVersion::Tls13, 2)]);
        theirs.merge(&mine);
        assert_eq!(theirs, merged);
    }

    #[test]
    fn the_share_over_tls_is_of_connections_that_could_carry_a_request() {
        let of = |full, in_the_clear| {
            Handshakes { full, in_the_clear, ..Handshakes::default() }.connections_percent()
        };
        assert_eq!((of(1, 3), of(5, 0), of(0, 3), of(0, 0)), (Some(25.0), Some(100.0), Some(0.0), None));
        let mut one = Handshakes { full: 1, ..Handshakes::default() };
        one.merge(&Handshakes { in_the_clear: 2, ..Handshakes::default() });
        assert_eq!((one.in_the_clear, one.connections_percent().map(f64::round)), (2, Some(33.0)));
    }
}
