//! Content codings that clients accept: `br,gzip,zstd`.

use std::fmt;
use std::str::FromStr;

use webstone_measure::shown::quoted;

webstone_measure::named! {
    /// A content coding (RFC 9110, section 8.4.1; RFC 7932 for br, RFC 8878 for zstd).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    Coding:
    /// Brotli.
    Br "br",
    /// gzip.
    Gzip "gzip",
    /// zlib, which HTTP calls deflate.
    Deflate "deflate",
    /// Zstandard.
    Zstd "zstd",
}

/// Codings in order of preference; by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codings(Vec<Coding>);

/// Why a text is not a list of codings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a content coding that can be checked; write br, gzip, deflate or zstd, or several as in br,gzip", quoted(.0))]
pub struct CodingsError(String);

impl Coding {
    /// The coding of this name, in upper or lower case; `x-gzip` is gzip (RFC 9110, section 8.4.1.3).
    pub fn by_name(name: &str) -> Option<Coding> {
        let name = if name.eq_ignore_ascii_case("x-gzip") { "gzip" } else { name };
        Coding::ALL.into_iter().find(|coding| coding.name().eq_ignore_ascii_case(name))
    }
}

impl Codings {
    /// Whether none is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is asked for.
    pub fn has(&self, coding: Coding) -> bool {
        self.0.contains(&coding)
    }

    /// The value of `Accept-Encoding`.
    pub fn field(&self) -> String {
        self.0.iter().map(|coding| coding.name()).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for Codings {
    type Err = CodingsError;

    fn from_str(text: &str) -> Result<Codings, CodingsError> {
        let mut codings = Vec::new();
        for word in text.split(',').map(str::trim) {
            let coding = Coding::by_name(word).ok_or_else(|| CodingsError(word.to_owned()))?;
            if !codings.contains(&coding) {
                codings.push(coding);
            }
        }
        Ok(Codings(codings))
    }
}

impl fmt::Display for Codings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field().replace(' ', ""))
    }
}

webstone_measure::as_text!(
    Codings,
    "AcceptedCodings",
    "Content codings that clients accept, in order of preference: br,gzip,zstd"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_are_names_in_order() {
        let codings: Codings = "zstd, BR,x-gzip,br".parse().unwrap();
        assert_eq!(
            (codings.to_string().as_str(), codings.field().as_str()),
            ("zstd,br,gzip", "zstd, br, gzip")
        );
        assert!(codings.has(Coding::Gzip) && !codings.has(Coding::Deflate));
        for text in ["", "br,", "compress", "*", "identity", "gzip;q=1"] {
            let error = text.parse::<Codings>().unwrap_err().to_string();
            assert!(error.ends_with("write br, gzip, deflate or zstd, or several as in br,gzip"), "{error}");
        }
    }
}
