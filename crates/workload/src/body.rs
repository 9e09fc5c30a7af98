//! Bodies of requests: texts, which may have templates, and bytes, which are sent as they are.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A text, possibly with templates.
    Text(&'a str),
    /// Bytes without templates.
    Bytes(&'a [u8]),
}

impl<'a> Body<'a> {
    /// Its bytes; of a text as it is written, with its templates.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Body::Text(text) => text.as_bytes(),
            Body::Bytes(bytes) => bytes,
        }
    }

    /// The text, if it can have templates.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Body::Text(text) => Some(text),
            Body::Bytes(_) => None,
        }
    }
}

/// Bytes, in files as base64 (RFC 4648, section 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

/// A text that is not base64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not base64 ({0}); write what `base64 -w0 FILE` prints")]
pub struct Base64Error(base64::DecodeError);

impl FromStr for Base64 {
    type Err = Base64Error;

    fn from_str(text: &str) -> Result<Base64, Base64Error> {
        STANDARD.decode(text.trim()).map(Base64).map_err(Base64Error)
    }
}

impl fmt::Display for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(&self.0))
    }
}

webstone_measure::as_text!(Base64, "Base64", "Bytes in base64");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_base64_and_read_back() {
        let bytes = Base64(vec![0, 255, b'{', b'{']);
        assert_eq!(bytes.to_string(), "AP97ew==");
        assert_eq!("AP97ew==\n".parse(), Ok(bytes));
        let error = "AP97e".parse::<Base64>().unwrap_err().to_string();
        assert!(error.starts_with("it is not base64 (") && error.contains("base64 -w0"), "{error}");
    }
}
