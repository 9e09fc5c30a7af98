//! Connection IDs of the server (RFC 9000 section 5.1): the one that packets are sent to, one in reserve, and those to be retired.
//! Two at a time are the default of `active_connection_id_limit`.

use super::error::Fault;
use super::packet::ID_BYTES_MAX;

/// How many may wait to be retired.
const RETIRED_MAX: usize = 8;

/// A connection ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Id {
    bytes: [u8; ID_BYTES_MAX],
    length: u8,
}

impl Id {
    /// `None`: longer than an ID may be.
    pub(super) fn new(bytes: &[u8]) -> Option<Id> {
        let mut id = Id { length: bytes.len() as u8, ..Id::default() };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// An ID with its number, and the token of a stateless reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Issued {
    sequence: u64,
    id: Id,
    token: Option<[u8; 16]>,
}

/// See the module comment.
#[derive(Clone, Debug)]
pub(super) struct PeerIds {
    current: Issued,
    reserve: Option<Issued>,
    retire_prior_to: u64,
    retired: [u64; RETIRED_MAX],
    retired_count: usize,
}

impl Default for PeerIds {
    fn default() -> PeerIds {
        PeerIds::new(Id::default())
    }
}

impl PeerIds {
    pub(super) fn new(id: Id) -> PeerIds {
        let current = Issued { sequence: 0, id, token: None };
        PeerIds { current, reserve: None, retire_prior_to: 0, retired: [0; RETIRED_MAX], retired_count: 0 }
    }

    /// The ID to send to.
    #[inline]
    pub(super) fn current(&self) -> &[u8] {
        self.current.id.bytes()
    }

    /// The server chose another ID during the handshake.
    pub(super) fn replace(&mut self, id: Id) {
        self.current.id = id;
    }

    /// The token that came with the handshake.
    pub(super) fn set_token(&mut self, token: [u8; 16]) {
        self.current.token = Some(token);
    }

    /// The ID with a preferred address, which has number 1.
    pub(super) fn set_preferred(&mut self, id: Id, token: [u8; 16]) {
        self.reserve = Some(Issued { sequence: 1, id, token: Some(token) });
    }

    /// Whether this is the token of the ID in use, with which a stateless reset ends.
    pub(super) fn is_reset(&self, token: &[u8; 16]) -> bool {
        self.current.token.as_ref() == Some(token)
    }

    /// NEW_CONNECTION_ID.
    pub(super) fn issue(
        &mut self,
        sequence: u64,
        retire_prior_to: u64,
        id: &[u8],
        token: [u8; 16],
    ) -> Result<(), Fault> {
        if self.current.id.length == 0 {
            return Err(Fault::Protocol("NEW_CONNECTION_ID from a server without connection IDs"));
        }
        let id = Id::new(id).ok_or(Fault::FrameEncoding("a connection ID of more than 20 bytes"))?;
        let new = Issued { sequence, id, token: Some(token) };
        for known in [Some(&self.current), self.reserve.as_ref()].into_iter().flatten() {
            if known.sequence == sequence
                && (known.id != id || known.token.is_some_and(|known| known != token))
            {
                return Err(Fault::Protocol("two connection IDs with one number"));
            }
            if known.sequence != sequence && known.id == id {
                return Err(Fault::Protocol("two numbers for one connection ID"));
            }
        }
        let is_known =
            [Some(self.current.sequence), self.reserve.map(|known| known.sequence)].contains(&Some(sequence));
        if !is_known && sequence < self.retire_prior_to {
            return self.retire(sequence);
        }
        self.retire_prior_to = self.retire_prior_to.max(retire_prior_to);
        if let Some(reserve) = self.reserve.filter(|reserve| reserve.sequence < self.retire_prior_to) {
            self.retire(reserve.sequence)?;
            self.reserve = None;
        }
        if !is_known && self.reserve.is_none() {
            self.reserve = Some(new);
        } else if !is_known && self.current.sequence < self.retire_prior_to {
            // The reserve becomes the ID in use, and the new ID the reserve.
            self.retire(self.current.sequence)?;
            self.current = self.reserve.replace(new).unwrap_or(new);
        } else if !is_known {
            return Err(Fault::ConnectionIdLimit);
        }
        if self.current.sequence < self.retire_prior_to
            && let Some(reserve) = self.reserve.take()
        {
            self.retire(self.current.sequence)?;
            self.current = reserve;
        }
        Ok(())
    }

    fn retire(&mut self, sequence: u64) -> Result<(), Fault> {
        if self.retired[..self.retired_count].contains(&sequence) {
            return Ok(());
        }
        let place = self.retired.get_mut(self.retired_count).ok_or(Fault::ConnectionIdLimit)?;
        *place = sequence;
        self.retired_count += 1;
        Ok(())
    }

    /// Number of the next ID to retire by RETIRE_CONNECTION_ID.
    #[inline]
    pub(super) fn take_retired(&mut self) -> Option<u64> {
        self.retired_count = self.retired_count.checked_sub(1)?;
        Some(self.retired[self.retired_count])
    }

    #[inline]
    pub(super) fn has_retired(&self) -> bool {
        self.retired_count > 0
    }

    /// The frame was lost, and is to be sent again.
    pub(super) fn retire_again(&mut self, sequence: u64) {
        let _ = self.retire(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> PeerIds {
        PeerIds::new(Id::new(&[0; 8]).unwrap())
    }

    #[test]
    fn retired_ids_are_replaced() {
        let mut ids = ids();
        ids.issue(1, 0, &[1; 8], [1; 16]).unwrap();
        ids.issue(1, 0, &[1; 8], [1; 16]).unwrap();
        assert_eq!(ids.take_retired(), None);
        assert_eq!(ids.current(), [0; 8]);
        assert_eq!(ids.issue(2, 0, &[2; 8], [2; 16]), Err(Fault::ConnectionIdLimit));
        ids.issue(2, 1, &[2; 8], [2; 16]).unwrap();
        assert_eq!((ids.take_retired(), ids.take_retired()), (Some(0), None));
        assert_eq!(ids.current(), [1; 8]);
        assert!(ids.is_reset(&[1; 16]) && !ids.is_reset(&[2; 16]));
        ids.issue(3, 3, &[3; 8], [3; 16]).unwrap();
        let retired = [ids.take_retired(), ids.take_retired(), ids.take_retired()];
        assert_eq!((ids.current(), retired), (&[3; 8][..], [Some(1), Some(2), None]));
        // Late, and to be retired at once.
        ids.issue(0, 0, &[9; 8], [0; 16]).unwrap();
        assert_eq!(ids.take_retired(), Some(0));
    }

    #[test]
    fn contradictions_are_faults() {
        let mut ids = ids();
        ids.issue(1, 0, &[1; 8], [1; 16]).unwrap();
        assert!(matches!(ids.issue(1, 0, &[2; 8], [1; 16]), Err(Fault::Protocol(_))));
        assert!(matches!(ids.issue(1, 0, &[1; 8], [2; 16]), Err(Fault::Protocol(_))));
        assert!(matches!(ids.issue(2, 0, &[1; 8], [2; 16]), Err(Fault::Protocol(_))));
        assert!(matches!(PeerIds::default().issue(1, 0, &[1; 8], [1; 16]), Err(Fault::Protocol(_))));
        let flood = (2..).find_map(|n: u64| {
            ids.issue(n, n, &n.to_be_bytes(), [n as u8; 16]).err().map(|fault| (n, fault))
        });
        assert_eq!(flood, Some((9, Fault::ConnectionIdLimit)));
    }
}
