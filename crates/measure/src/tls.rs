//! The names of versions, cipher suites and groups of TLS.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::shown::quoted;

/// Why a text is not one of the known names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not {what}; known are {known}", quoted(.text))]
pub struct TlsNameError {
    text: String,
    what: &'static str,
    known: String,
}

/// An enumeration of names in the TLS registry, read in upper or lower case; the second name is OpenSSL's.
macro_rules! registered {
    ($(#[$doc:meta])* $name:ident, $what:literal: $($(#[$variant_doc:meta])* $variant:ident $shown:literal $other:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $shown, alias = $other)] $variant,)*
        }

        impl $name {
            /// All, in order of preference.
            pub const ALL: [$name; [$($shown),*].len()] = [$($name::$variant),*];

            /// The name in records and files.
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

registered! {
    /// A version of TLS.
    TlsVersion, "a supported version of TLS":
    /// RFC 5246.
    Tls12 "1.2" "TLSv1.2",
    /// RFC 8446.
    Tls13 "1.3" "TLSv1.3",
}

registered! {
    /// A cipher suite. AES-128 is first: with SHA-384, which the suites of AES-256 use, a handshake costs a fifth
    /// more.
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
    /// Its version of TLS.
    pub fn version(self) -> TlsVersion {
        use TlsCipher::{Tls13Aes128, Tls13Aes256, Tls13ChaCha20};
        match self {
            Tls13Aes128 | Tls13Aes256 | Tls13ChaCha20 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        }
    }
}

registered! {
    /// A group for the key exchange.
    TlsGroup, "a supported group":
    /// RFC 7748.
    X25519 "X25519" "x25519",
    /// P-256.
    Secp256r1 "secp256r1" "P-256",
    /// P-384.
    Secp384r1 "secp384r1" "P-384",
    /// X25519 and ML-KEM-768 combined, for resistance to quantum computers; costs a seventh more.
    X25519Mlkem768 "X25519MLKEM768" "X25519-MLKEM768",
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
