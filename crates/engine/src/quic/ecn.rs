//! Whether the path keeps marks of congestion (RFC 9000 section 13.4).

/// What the peer counted must cover what was sent and acknowledged, per packet number space.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnEcho {
    counted: [u64; 3],
}

/// What an ACK frame says of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    Fine,
    /// Datagrams were marked on the way: congestion.
    Marked,
    /// The path, or the peer, does not keep marks: send none.
    Broken,
}

impl EcnEcho {
    /// An ACK frame that raised the largest acknowledged number, with `newly_marked` packets that had been sent with ECT(0).
    pub(super) fn check(&mut self, counts: Option<[u64; 3]>, newly_marked: u64) -> Echo {
        let Some(counts) = counts else {
            return if newly_marked > 0 { Echo::Broken } else { Echo::Fine };
        };
        let before = std::mem::replace(&mut self.counted, counts);
        let rise = |at: usize| counts[at].checked_sub(before[at]);
        match (rise(0), rise(1), rise(2)) {
            (Some(ect0), Some(0), Some(ce)) if ect0 + ce >= newly_marked => {
                if ce > 0 {
                    Echo::Marked
                } else {
                    Echo::Fine
                }
            }
            _ => Echo::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_must_cover_what_was_acknowledged() {
        let mut echo = EcnEcho::default();
        assert_eq!(echo.check(Some([3, 0, 0]), 3), Echo::Fine);
        assert_eq!(echo.check(Some([4, 0, 1]), 2), Echo::Marked);
        assert_eq!(echo.check(Some([4, 0, 1]), 1), Echo::Broken);
        assert_eq!(echo.check(Some([3, 0, 1]), 0), Echo::Broken);
        assert_eq!(echo.check(Some([3, 1, 1]), 0), Echo::Broken);
        assert_eq!(echo.check(None, 0), Echo::Fine);
        assert_eq!(echo.check(None, 1), Echo::Broken);
    }
}
