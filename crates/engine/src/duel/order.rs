//! Whose turn it is. A round has every side twice: in an order drawn from the seed, then in the reverse order (A B C, C B A), so that a
//! machine that drifts evenly within a round does so for all sides alike, and none always comes after the same other.

use webstone_workload::PageSequence;

/// Number of the random sequence that draws the orders; no client has it.
const ORDERS: u64 = u64::MAX - 2;

/// Rounds without end.
pub(super) struct Order {
    random: PageSequence,
    sides: Vec<usize>,
    /// Turns of the current round that are over.
    turn: usize,
}

impl Order {
    pub(super) fn new(seed: u64, sides: usize) -> Order {
        Order { random: PageSequence::new(seed, ORDERS), sides: (0..sides).collect(), turn: 0 }
    }

    /// Whether a new round begins with the next turn.
    pub(super) fn is_between_rounds(&self) -> bool {
        self.turn == 0
    }

    /// The side whose turn comes next.
    pub(super) fn next_side(&mut self) -> usize {
        let count = self.sides.len();
        if self.turn == 0 {
            // Fisher and Yates.
            for last in (1..count).rev() {
                let other = self.random.between(0, last as u64) as usize;
                self.sides.swap(last, other);
            }
        }
        let at = if self.turn < count { self.turn } else { 2 * count - 1 - self.turn };
        self.turn = (self.turn + 1) % (2 * count);
        self.sides[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_an_order_and_its_reverse_and_every_order_comes() {
        let mut order = Order::new(7, 3);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..600 {
            assert!(order.is_between_rounds());
            let round: Vec<usize> = (0..6).map(|_| order.next_side()).collect();
            let reverse: Vec<usize> = round[..3].iter().rev().copied().collect();
            assert_eq!(round[3..], reverse);
            let mut sorted = round[..3].to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
            *seen.entry(round[..3].to_vec()).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| *count > 60), "{seen:?}");
    }
}
