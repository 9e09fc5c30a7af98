//! The contract of `send`, in one place for every interface: `size` bytes of printable text, in `writes` writes, filled as
//! `fill` says. The handlers in other languages (`lab/src/servers/handlers/`) keep the same one.

use crate::body::Pieces;
use crate::fill::BodyFill;
use crate::query::{Query, QueryError};

/// Body length where none is asked for.
const SIZE_BYTES: u64 = 10_240;
/// Longest body that a handler makes.
pub(crate) const MADE_BYTES_MAX: u64 = 1 << 40;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Send {
    pub(crate) size: u64,
    /// At least 1, and at most a write for each byte.
    pub(crate) writes: u64,
    pub(crate) fill: BodyFill,
}

impl Send {
    /// Reads a query string.
    pub(crate) fn parse(query: Option<&str>) -> Result<Send, QueryError> {
        let query = Query::parse(query)?;
        let size = query.count("size", 0, MADE_BYTES_MAX)?.unwrap_or(SIZE_BYTES);
        let writes = query.count("writes", 1, size.max(1))?.unwrap_or(1);
        let fill = fill(&query, BodyFill::Random)?;
        match query.text("head") {
            None | Some("built") => {}
            Some("ready") => {
                let rule = "head=ready: only a module within the server has a ready-made head; write built";
                return Err(QueryError(rule.to_owned()));
            }
            Some(other) => return Err(QueryError(format!("head={other}: write built"))),
        }
        query.finish("size, writes, fill and head")?;
        Ok(Send { size, writes, fill })
    }

    /// Where each write ends.
    pub(crate) fn pieces(self) -> Pieces {
        if self.writes == 1 { Pieces::One } else { Pieces::Equal(self.writes) }
    }
}

/// The fill that a query asks for.
pub(crate) fn fill(query: &Query, default: BodyFill) -> Result<BodyFill, QueryError> {
    match query.text("fill") {
        None => Ok(default),
        Some("random") => Ok(BodyFill::Random),
        Some("pattern") => Ok(BodyFill::Pattern),
        Some("none") => Ok(BodyFill::Constant),
        Some(other) => Err(QueryError(format!("fill={other}: write random, pattern or none"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_size_writes_and_fill() {
        let of = |query: &str| Send::parse(Some(query));
        let default = Send { size: 10_240, writes: 1, fill: BodyFill::Random };
        assert_eq!((Send::parse(None), of("")), (Ok(default), Ok(default)));
        let asked = Send { size: 6250, writes: 4, fill: BodyFill::Pattern };
        assert_eq!(of("size=6250&writes=4&fill=pattern"), Ok(asked));
        assert_eq!(of("head=built"), Ok(default));
        assert_eq!(of("size=0").map(|send| send.pieces()), Ok(Pieces::One));
        for (query, rule) in [
            ("size=x", "size=x"),
            ("size=2&writes=3", "writes=3: must be from 1 to 2"),
            ("fill=zero", "write random, pattern or none"),
            ("head=ready", "only a module within the server"),
            ("head=none", "head=none: write built"),
            ("sise=1", "unknown parameter"),
        ] {
            assert!(of(query).unwrap_err().0.contains(rule), "{query}");
        }
    }
}
