//! Sets of numbers as ranges: packets that were received, parts of streams that were acknowledged, lost or held. There are few
//! ranges, mostly one, and most insertions extend the last.

/// Ranges `start..end` in ascending order, neither empty nor adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }

    #[inline]
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.0.last().copied()
    }

    /// In ascending order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + Clone + '_ {
        self.0.iter().copied()
    }

    pub(super) fn drop_first(&mut self) {
        self.0.remove(0);
    }

    /// Adds `start..end`. Returns how many of its numbers are new.
    #[inline]
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        match self.0.last_mut() {
            None => self.0.push((start, end)),
            Some(last) if start > last.1 => self.0.push((start, end)),
            Some(last) if start == last.1 => last.1 = end,
            Some(_) => return self.insert_within(start, end),
        }
        end - start
    }

    fn insert_within(&mut self, start: u64, end: u64) -> u64 {
        // Those from `from` to before `to` overlap or touch.
        let from = self.0.partition_point(|range| range.1 < start);
        let to = self.0.partition_point(|range| range.0 <= end);
        if from == to {
            self.0.insert(from, (start, end));
            return end - start;
        }
        let merged = (start.min(self.0[from].0), end.max(self.0[to - 1].1));
        let had: u64 = self.0[from..to].iter().map(|range| range.1 - range.0).sum();
        self.0[from] = merged;
        self.0.drain(from + 1..to);
        merged.1 - merged.0 - had
    }

    /// Removes `start..end`.
    #[inline]
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if self.0.is_empty() || start >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.1 <= start);
        let to = self.0.partition_point(|range| range.0 < end);
        if from >= to {
            return;
        }
        let (before, after) = ((self.0[from].0, start), (end, self.0[to - 1].1));
        let kept = [before, after].into_iter().filter(|range| range.0 < range.1);
        self.0.splice(from..to, kept);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::draws::Draws;

    #[test]
    fn behaves_as_a_set() {
        let mut draws = Draws(7);
        let mut draw = |below: u64| draws.below(below);
        for _ in 0..300 {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for _ in 0..40 {
                let start = draw(60);
                let end = start + draw(12);
                if draw(3) == 0 {
                    ranges.remove(start, end);
                    set.retain(|n| !(start..end).contains(n));
                } else {
                    let new = (start..end).filter(|n| set.insert(*n)).count();
                    assert_eq!(ranges.insert(start, end), new as u64);
                }
                assert_eq!(
                    ranges.iter().flat_map(|(start, end)| start..end).collect::<Vec<_>>(),
                    Vec::from_iter(set.iter().copied())
                );
                assert!(ranges.0.iter().all(|range| range.0 < range.1));
                assert!(ranges.0.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ranges:?}");
            }
        }
    }
}
