//! The offset of another host's monotonic clock to this one's, from four stamps of an echo, two here and two there.
//!
//! The shortest round trip tells most: the offset is the difference of the midpoints, wrong by at most half of the round-trip
//! time (F. Cristian: Probabilistic clock synchronization, Distributed Computing 3, 1989).

use webstone_model::generators::ClockOffset;

/// Stamps of one echo, in nanoseconds: `sent` and `came` on the clock here, `received` and `replied` on the clock there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
    pub(crate) replied_ns: u64,
    pub(crate) came_ns: u64,
}

/// An operating system lets a clock run at most 500 parts in a million too fast or too slow; both clocks may be wrong.
const DRIFT_PER_MILLION: u64 = 1_000;
/// How much two estimates may differ besides, in nanoseconds: the resolution of clocks.
const GRAIN_NS: u64 = 1_000;

impl Sample {
    /// The round-trip time without the time on the other host, in nanoseconds. `None` if the stamps cannot be an echo's.
    pub(crate) fn way_ns(&self) -> Option<u64> {
        let here = self.came_ns.checked_sub(self.sent_ns)?;
        here.checked_sub(self.replied_ns.checked_sub(self.received_ns)?)
    }

    fn offset(&self) -> Option<ClockOffset> {
        let way_ns = self.way_ns()?;
        let there = i128::from(self.received_ns) + i128::from(self.replied_ns);
        let here = i128::from(self.sent_ns) + i128::from(self.came_ns);
        let offset_ns = i64::try_from((there - here).div_euclid(2)).ok()?;
        // Rounded up, so that the bound is not too narrow.
        Some(ClockOffset { offset_ns, bound_ns: way_ns / 2 + 1 })
    }
}

/// The offset by the shortest of some round trips; `None` where there is none.
pub(crate) fn estimate(samples: &[Sample]) -> Option<ClockOffset> {
    let shortest = samples.iter().filter(|sample| sample.way_ns().is_some());
    shortest.min_by_key(|sample| sample.way_ns())?.offset()
}

/// An instant of the clock here on the clock there.
pub(crate) fn there(offset: ClockOffset, here_ns: u64) -> u64 {
    here_ns.saturating_add_signed(offset.offset_ns)
}

/// An instant of the clock there on the clock here.
pub(crate) fn here(offset: ClockOffset, there_ns: u64) -> u64 {
    there_ns.saturating_sub_signed(offset.offset_ns)
}

/// Whether the clock there advanced as clocks do between two estimates, taken this many nanoseconds apart.
pub(crate) fn went_on(before: ClockOffset, after: ClockOffset, elapsed_ns: u64) -> bool {
    let apart = before.offset_ns.abs_diff(after.offset_ns);
    apart <= before.bound_ns + after.bound_ns + GRAIN_NS + elapsed_ns / 1_000_000 * DRIFT_PER_MILLION
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    use super::*;

    /// An echo over ways of these lengths to a clock that is ahead by `offset_ns`.
    fn echo(sent_ns: u64, to_ns: u64, held_ns: u64, back_ns: u64, offset_ns: i64) -> Sample {
        Sample {
            sent_ns,
            received_ns: (sent_ns + to_ns).saturating_add_signed(offset_ns),
            replied_ns: (sent_ns + to_ns + held_ns).saturating_add_signed(offset_ns),
            came_ns: sent_ns + to_ns + held_ns + back_ns,
        }
    }

    #[test]
    fn the_truth_lies_within_the_bound_however_uneven_the_ways_are() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut up_to = |most: u64| random.next_u64() % most;
        for _ in 0..1_000 {
            let offset_ns = up_to(1 << 50) as i64 - (1 << 49);
            let samples: Vec<Sample> = (0..16)
                .map(|_| {
                    echo(
                        (1 << 51) + up_to(1 << 30),
                        up_to(5_000_000),
                        up_to(1_000_000),
                        up_to(90_000),
                        offset_ns,
                    )
                })
                .collect();
            let found = estimate(&samples).unwrap();
            assert!(found.offset_ns.abs_diff(offset_ns) <= found.bound_ns, "{found:?} {offset_ns}");
            let shortest = samples.iter().filter_map(Sample::way_ns).min().unwrap();
            assert_eq!(found.bound_ns, shortest / 2 + 1);
            assert_eq!(here(found, there(found, 1 << 51)), 1 << 51);
        }
    }

    #[test]
    fn even_ways_give_the_offset_itself() {
        let found =
            estimate(&[echo(1_000_000, 90_000, 5, 90_000, -400), echo(2_000_000, 500, 80, 500, -400)]);
        assert_eq!(found, Some(ClockOffset { offset_ns: -400, bound_ns: 501 }));
        assert_eq!(estimate(&[]), None);
        // Stamps that no echo has.
        assert_eq!(estimate(&[Sample { sent_ns: 5, received_ns: 9, replied_ns: 8, came_ns: 7 }]), None);
        assert_eq!(estimate(&[Sample { sent_ns: 5, received_ns: 0, replied_ns: 8, came_ns: 7 }]), None);
    }

    #[test]
    fn a_jump_is_told_from_a_drift() {
        let at = |offset_ns| ClockOffset { offset_ns, bound_ns: 100_000 };
        let minute_ns = 60_000_000_000;
        assert!(went_on(at(0), at(200_000), 0));
        assert!(went_on(at(0), at(60_000_000), minute_ns), "a clock that is slewed as fast as it may be");
        assert!(!went_on(at(0), at(-61_000_000), minute_ns));
        assert!(!went_on(at(0), at(500_000), 1_000_000));
    }
}
