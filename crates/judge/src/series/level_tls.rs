//! What became of a level's TLS handshakes, in the few figures by which cells are compared.

use std::collections::BTreeSet;

use serde::Serialize;
use webstone_measure::metrics::Measured;
use webstone_measure::tls::TlsCipher;

/// TLS of a level, over all of its iterations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelTls {
    /// Connections over TLS among those that could carry a request for the first time inside the window, in percent.
    pub connections_percent: f64,
    /// Of those handshakes, how many were full, in percent.
    pub full_percent: f64,
    /// Mean time of a handshake, in seconds.
    pub handshake_mean_s: f64,
    /// The cipher suites that they agreed on.
    pub suites: Vec<TlsCipher>,
}

impl LevelTls {
    /// Of what was measured; `None` without a handshake that ended well.
    pub(super) fn of_window(measured: &Measured) -> Option<LevelTls> {
        let handshakes = measured.handshakes.as_ref().filter(|handshakes| handshakes.ended() > 0)?;
        let ended = handshakes.ended() as f64;
        let suites: BTreeSet<TlsCipher> = handshakes.agreed.iter().map(|agreed| agreed.cipher).collect();
        Some(LevelTls {
            connections_percent: handshakes.connections_percent()?,
            full_percent: 100.0 * handshakes.full as f64 / ended,
            handshake_mean_s: handshakes.time.sum as f64 / ended / 1e9,
            suites: suites.into_iter().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::metrics::{Handshake, Handshakes};
    use webstone_workload::tls::TlsVersion;

    #[test]
    fn shares_are_of_connections_and_of_handshakes() {
        let mut handshakes = Handshakes { in_the_clear: 46, ..Handshakes::default() };
        for (is_resumed, took_ns) in
            [(false, 4_000_000), (true, 1_000_000), (true, 1_000_000), (true, 2_000_000)]
        {
            let handshake = Handshake {
                is_resumed,
                took_early_data: None,
                version: TlsVersion::Tls13,
                cipher: TlsCipher::Tls13Aes128,
                group: None,
                alpn: None,
                is_verified: true,
            };
            handshakes.record(&handshake, took_ns);
        }
        let mut measured = Measured { handshakes: Some(handshakes), ..Measured::default() };
        // Counted when they begin, as a window may have them.
        measured.counts.connections = 49;
        measured.counts.connections_answered = 49;
        let told = LevelTls::of_window(&measured).unwrap();
        assert_eq!((told.connections_percent, told.full_percent), (8.0, 25.0));
        assert!((told.handshake_mean_s - 0.002).abs() < 1e-12);
        assert_eq!(told.suites, [TlsCipher::Tls13Aes128]);
        assert_eq!(LevelTls::of_window(&Measured::default()), None);
    }
}
