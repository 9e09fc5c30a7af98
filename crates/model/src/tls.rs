//! What clients offer and ask for in TLS handshakes ([`TlsSpec`]), and the names of versions, cipher suites and groups.
//!
//! It says nothing of whether TLS is spoken: that is the URL's scheme, `https`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::shown::quoted;

/// How clients do TLS handshakes, where a URL is `https`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSpec {
    /// Versions offered.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites offered, the best first. One version's may be missing if the version is.
    pub ciphers: Vec<TlsCipher>,
    /// Groups for the key exchange offered, the best first; the first one's key is sent at once.
    pub groups: Vec<TlsGroup>,
    /// Whether the server must prove who it is: a chain of certificates to a trusted one, the right name, valid today.
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
    /// Host name sent in the handshake, and looked for in the certificate, instead of the URL's. Empty: none is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// Protocols offered, the best first. Empty: what the HTTP version says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<String>,
    /// File that receives the session keys, for Wireshark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_log: Option<String>,
    /// Whether requests are sent with the first flight of resumed handshakes, where the server allows it (TLS 1.3).
    pub early_data: bool,
    /// Share of new connections that resume an earlier session where they have one; the others do full handshakes.
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
    /// Whether nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == TlsSpec::default()
    }
}

/// Why a text is none of the names that are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not {what}; known are {known}", quoted(.text))]
pub struct TlsNameError {
    text: String,
    what: &'static str,
    known: String,
}

/// An enumeration whose values have names in the registry of TLS, read in letters of any size; a second name is OpenSSL's.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal: $($(#[$variant_doc:meta])* $variant:ident $shown:literal $other:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $shown, alias = $other)] $variant,)*
        }

        impl $name {
            /// All, the best first.
            pub const ALL: [$name; [$($shown),*].len()] = [$($name::$variant),*];

            /// The name that records and files use.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $shown,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $name {
            type Err = TlsNameError;

            fn from_str(text: &str) -> Result<$name, TlsNameError> {
                $(if text.eq_ignore_ascii_case($shown) || text.eq_ignore_ascii_case($other) {
                    return Ok($name::$variant);
                })*
                Err(TlsNameError { text: text.to_owned(), what: $what, known: [$($shown),*].join(", ") })
            }
        }
    };
}

named! {
    /// A version of TLS.
    TlsVersion, "a supported version of TLS":
    /// RFC 5246.
    Tls12 "1.2" "TLSv1.2",
    /// RFC 8446.
    Tls13 "1.3" "TLSv1.3",
}

named! {
    /// A cipher suite. AES-128 stands first: SHA-384, which the suites of AES-256 hash with, makes a handshake a fifth dearer.
    TlsCipher, "a supported cipher suite":
    /// TLS 1.3.
    Tls13Aes128 "TLS_AES_128_GCM_SHA256" "TLS13_AES_128_GCM_SHA256",
    /// TLS 1.3.
    Tls13Aes256 "TLS_AES_256_GCM_SHA384" "TLS13_AES_256_GCM_SHA384",
    /// TLS 1.3.
    Tls13ChaCha20 "TLS_CHACHA20_POLY1305_SHA256" "TLS13_CHACHA20_POLY1305_SHA256",
    /// TLS 1.2.
    EcdsaAes128 "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" "ECDHE-ECDSA-AES128-GCM-SHA256",
    /// TLS 1.2.
    RsaAes128 "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" "ECDHE-RSA-AES128-GCM-SHA256",
    /// TLS 1.2.
    EcdsaAes256 "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" "ECDHE-ECDSA-AES256-GCM-SHA384",
    /// TLS 1.2.
    RsaAes256 "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" "ECDHE-RSA-AES256-GCM-SHA384",
    /// TLS 1.2.
    EcdsaChaCha20 "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" "ECDHE-ECDSA-CHACHA20-POLY1305",
    /// TLS 1.2.
    RsaChaCha20 "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" "ECDHE-RSA-CHACHA20-POLY1305",
}

impl TlsCipher {
    /// The version that it belongs to.
    pub fn version(self) -> TlsVersion {
        use TlsCipher::{Tls13Aes128, Tls13Aes256, Tls13ChaCha20};
        match self {
            Tls13Aes128 | Tls13Aes256 | Tls13ChaCha20 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        }
    }
}

named! {
    /// A group for the key exchange.
    TlsGroup, "a supported group":
    /// RFC 7748.
    X25519 "X25519" "x25519",
    /// P-256.
    Secp256r1 "secp256r1" "P-256",
    /// P-384.
    Secp384r1 "secp384r1" "P-384",
    /// X25519 and ML-KEM-768 together, against computers to come; a seventh dearer.
    X25519Mlkem768 "X25519MLKEM768" "X25519-MLKEM768",
}

/// A share from 0 % to 100 %, in hundredths of a percent. Written `25%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u16);

/// Why a text is no share.
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

impl Serialize for Share {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Share {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A share from 0% to 100%, as in 25%" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RunSpec;

    #[test]
    fn names_are_the_registrys_or_openssls() {
        assert_eq!("tlsv1.3".parse(), Ok(TlsVersion::Tls13));
        assert_eq!("ECDHE-RSA-AES128-GCM-SHA256".parse(), Ok(TlsCipher::RsaAes128));
        assert_eq!("p-256".parse(), Ok(TlsGroup::Secp256r1));
        for cipher in TlsCipher::ALL {
            assert_eq!(cipher.name().parse(), Ok(cipher));
            assert_eq!(serde_json::to_value(cipher).unwrap(), cipher.name());
        }
        let error = "1.1".parse::<TlsVersion>().unwrap_err().to_string();
        assert_eq!(error, "`1.1` is not a supported version of TLS; known are 1.2, 1.3");
    }

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

    #[test]
    fn what_is_asked_for_reads_back_and_nothing_is_left_out() {
        let mut spec = RunSpec::default();
        assert!(!toml::to_string(&spec).unwrap().contains("tls"));
        spec.client.tls.resume = Share::ALL;
        spec.client.tls.versions = vec![TlsVersion::Tls13];
        let text = toml::to_string(&spec).unwrap();
        assert!(text.contains("[client.tls]") && text.contains("resume = \"100%\""), "{text}");
        assert_eq!(toml::from_str::<RunSpec>(&text).unwrap(), spec);
        let error = toml::from_str::<RunSpec>("[client.tls]\nversion = 3").unwrap_err();
        assert!(error.to_string().contains("unknown field `version`"), "{error}");
    }
}
