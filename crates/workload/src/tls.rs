//! What clients offer and require in TLS handshakes.
//!
//! Whether TLS is used at all is decided by the URL's scheme, `https`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use webstone_measure::shown::quoted;

pub use webstone_measure::tls::{TlsCipher, TlsGroup, TlsNameError, TlsVersion};

/// How clients do TLS handshakes, if a URL is `https`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TlsSpec {
    /// Versions offered.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites offered, in order of preference. At least one for each version offered.
    pub ciphers: Vec<TlsCipher>,
    /// Key exchange groups offered, in order of preference; the key share of the first is sent at once.
    pub groups: Vec<TlsGroup>,
    /// Whether the server's certificate is verified: a chain to a trusted one, the right name, valid today.
    pub verify: bool,
    /// File of certificates (PEM) that are trusted instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<String>,
    /// SHA-256 of the server's own certificate (DER), in hexadecimal digits; no other is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// File with the client's certificate and its chain (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// File with the client's private key (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Host name to send in the handshake, and to verify in the certificate, instead of the URL's. Empty: none is
    /// sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// Protocols offered, in order of preference. Empty: the one of the HTTP version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<String>,
    /// File that receives the session keys, for Wireshark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_log: Option<String>,
    /// Whether requests are sent with the first flight of resumed handshakes, if the server allows it (TLS 1.3).
    pub early_data: bool,
    /// Share of new connections that resume an earlier session if they have one; the others do full handshakes.
    pub resume: Share,
}

impl Default for TlsSpec {
    fn default() -> TlsSpec {
        TlsSpec {
            versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
            ciphers: TlsCipher::ALL.to_vec(),
            groups: vec![TlsGroup::X25519, TlsGroup::Secp256r1, TlsGroup::Secp384r1],
            verify: true,
            cacert: None,
            pin: None,
            cert: None,
            key: None,
            sni: None,
            alpn: Vec::new(),
            key_log: None,
            early_data: false,
            resume: Share::NONE,
        }
    }
}

impl TlsSpec {
    /// Whether everything is the default.
    pub fn is_default(&self) -> bool {
        *self == TlsSpec::default()
    }
}

/// A share from 0 % to 100 %, in hundredths of a percent. Written `25%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u16);

/// Why a text is not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a share; write a percentage from 0% to 100%, as in 25%", quoted(.0))]
pub struct ShareError(String);

impl Share {
    /// Nothing.
    pub const NONE: Share = Share(0);
    /// Everything.
    pub const ALL: Share = Share(10_000);

    /// Whether a number drawn from 0 to 9,999 falls within it.
    pub fn has(self, drawn: u16) -> bool {
        drawn < self.0
    }

    /// In percent.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Share, ShareError> {
        let error = || ShareError(text.to_owned());
        let number = text.trim().strip_suffix('%').unwrap_or(text).trim();
        let percent: f64 = number.parse().map_err(|_| error())?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(error());
        }
        Ok(Share((percent * 100.0).round() as u16))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent())
    }
}

webstone_measure::as_text!(Share, "Share", "A share from 0% to 100%, as in 25%");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        for (text, shown, of_10_000) in [("0%", "0%", 0), ("12.5", "12.5%", 1250), ("100 %", "100%", 10_000)]
        {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.to_string(), shown);
            assert_eq!((0..10_000).filter(|drawn| share.has(*drawn)).count(), of_10_000);
        }
        for text in ["", "%", "101%", "-1%", "half", "NaN"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
