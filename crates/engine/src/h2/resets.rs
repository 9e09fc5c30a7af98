//! Streams that this side has reset: what the server sent on them before it knew is no error (RFC 9113, section 5.1).

use std::collections::VecDeque;

/// How many are known by their identifiers. What is older than these is assumed to be reset.
const RECENT_MAX: usize = 256;

/// See the module comment.
#[derive(Debug, Default)]
pub(super) struct Resets {
    recent: VecDeque<u32>,
    /// The highest identifier of those forgotten.
    forgotten: u32,
}

impl Resets {
    pub(super) fn clear(&mut self) {
        self.recent.clear();
        self.forgotten = 0;
    }

    pub(super) fn add(&mut self, id: u32) {
        self.recent.push_back(id);
        if self.recent.len() > RECENT_MAX {
            self.forgotten = self.forgotten.max(self.recent.pop_front().unwrap_or(0));
        }
    }

    /// Whether a stream may have been reset.
    pub(super) fn may_have(&self, id: u32) -> bool {
        id <= self.forgotten || self.recent.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_reset_are_known_and_the_oldest_assumed() {
        let mut resets = Resets::default();
        (1..=4 * RECENT_MAX as u32).step_by(4).for_each(|id| resets.add(id));
        assert_eq!([1, 3, 5].map(|id| resets.may_have(id)), [true, false, true]);
        (3001..3101).step_by(2).for_each(|id| resets.add(id));
        assert_eq!([3, 199, 201, 203].map(|id| resets.may_have(id)), [true, false, true, false]);
        resets.clear();
        assert!(!resets.may_have(1));
    }
}
