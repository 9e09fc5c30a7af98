//! The schedule of an open loop: when each arrival is due, to the nanosecond. There is no clock here: a schedule
//! depends only on seed, rate and process, and a worker's share of it only on that and the worker's slots.
//!
//! All workers on all hosts together make exactly the schedule of a single worker: arrivals are numbered and assigned
//! to W slots in turn, so slot w gets the arrivals w, w + W, w + 2W and so on, and each worker has some of the slots.
//! So a result does not depend on the number of workers, and each worker computes its share without asking another.

use serde::{Deserialize, Serialize};

use crate::PageSequence;
use webstone_measure::rate::RateProfile;
use webstone_measure::units::NANOS_PER_SECOND;

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// Evenly spaced: as many per second as the rate says.
    #[default]
    Constant,
    /// Like independent users: intervals are exponentially distributed, with bursts.
    Poisson,
}

/// Which arrivals a worker gets: number k if `first` ≤ k mod `of` < `first + count`. If slots are divided without gap
/// or overlap, the result is the schedule of a single worker, however many slots each worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The first slot, from 0.
    pub first: u32,
    /// Number of consecutive slots: at least 1, and `first + count` ≤ `of`.
    pub count: u32,
    /// Number of slots of all workers.
    pub of: u32,
}

impl Slots {
    /// All slots: every arrival.
    pub const ALL: Slots = Slots { first: 0, count: 1, of: 1 };

    /// From the last arrival of one turn to the first of the next, in arrivals.
    fn gap(self) -> u32 {
        self.of - self.count + 1
    }
}

/// Client number of the page sequence that draws intervals; no client has it.
const GAPS: u64 = u64::MAX - 1;

/// Arrivals of one worker: nanoseconds since the start of the schedule, ascending. They never end, unless the rate
/// falls to 0. A copy continues independently.
#[derive(Clone, Debug)]
pub struct Arrivals(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Exact integers: arrival k is due at ⌊k × 10¹² / rate⌋, with the rate in arrivals per 1,000 s.
    Even { next: Exact, step: Exact, rate: u64 },
    /// The same for several slots: `step` between arrivals of a turn, `over` from one turn to the next.
    EvenTurns { next: Exact, step: Exact, over: Exact, rate: u64, turn: Turn },
    /// Arrival k of a ramp is due when k arrivals are expected.
    EvenRamp { profile: RateProfile, next: u64, turn: Turn },
    /// Arrival k is due when the expected number of arrivals reaches the sum of k + 1 exponential intervals whose
    /// mean is 1. A Poisson process whose time is stretched by the integral of a rate is the Poisson process of that
    /// rate: E. Çinlar, Introduction to Stochastic Processes, 1975, section 4.7.
    Poisson { profile: RateProfile, gaps: PageSequence, sum: f64, skip: u32, turn: Turn },
}

/// A time in nanoseconds, with the remainder in units of 1 / rate nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Exact {
    ns: u64,
    rest: u64,
}

impl Exact {
    /// The duration of this many intervals at a rate in arrivals per 1,000 s.
    fn of_gaps(gaps: u32, rate: u64) -> Exact {
        let span = 1000 * u128::from(NANOS_PER_SECOND) * u128::from(gaps);
        // A rate of 0 has no first arrival; `next` handles that.
        let rate = u128::from(rate.max(1));
        Exact { ns: (span / rate) as u64, rest: (span % rate) as u64 }
    }

    #[inline]
    fn add(&mut self, step: Exact, rate: u64) {
        self.ns = self.ns.saturating_add(step.ns);
        self.rest += step.rest;
        if self.rest >= rate {
            self.rest -= rate;
            self.ns = self.ns.saturating_add(1);
        }
    }
}

/// Position of a worker with several slots within its turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Arrivals left in the turn, including the next.
    left: u32,
    slots: Slots,
}

impl Turn {
    fn new(slots: Slots) -> Turn {
        Turn { left: slots.count, slots }
    }

    /// Moves on to the worker's next arrival; returns how much later it is in the whole schedule, in arrivals.
    #[inline]
    fn advance(&mut self) -> u32 {
        self.left -= 1;
        if self.left > 0 {
            return 1;
        }
        self.left = self.slots.count;
        self.slots.gap()
    }
}

impl Arrivals {
    /// The share of the worker with these slots.
    pub fn new(process: ArrivalProcess, profile: RateProfile, seed: u64, slots: Slots) -> Arrivals {
        debug_assert!(slots.count > 0 && slots.of - slots.first >= slots.count, "{slots:?}");
        let turn = Turn::new(slots);
        Arrivals(match process {
            ArrivalProcess::Constant if profile.is_ramp() => {
                Kind::EvenRamp { profile, next: slots.first.into(), turn }
            }
            ArrivalProcess::Constant => {
                let rate = profile.to.per_1000_s();
                let (next, over) = (Exact::of_gaps(slots.first, rate), Exact::of_gaps(slots.gap(), rate));
                match slots.count {
                    1 => Kind::Even { next, step: over, rate },
                    _ => Kind::EvenTurns { next, step: Exact::of_gaps(1, rate), over, rate, turn },
                }
            }
            ArrivalProcess::Poisson => {
                let gaps = PageSequence::new(seed, GAPS);
                Kind::Poisson { profile, gaps, sum: 0.0, skip: slots.first + 1, turn }
            }
        })
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let nanos = |seconds: f64| (seconds * NANOS_PER_SECOND as f64) as u64;
        match &mut self.0 {
            Kind::Even { rate: 0, .. } | Kind::EvenTurns { rate: 0, .. } => None,
            Kind::Even { next, step, rate } => {
                let due = next.ns;
                next.add(*step, *rate);
                Some(due)
            }
            Kind::EvenTurns { next, step, over, rate, turn } => {
                let due = next.ns;
                next.add(if turn.left > 1 { *step } else { *over }, *rate);
                turn.advance();
                Some(due)
            }
            Kind::EvenRamp { profile, next, turn } => {
                let due = profile.time_of(*next as f64)?;
                *next += u64::from(turn.advance());
                Some(nanos(due))
            }
            Kind::Poisson { profile, gaps, sum, skip, turn } => {
                for _ in 0..*skip {
                    // 1 − u is never 0, so the gap is finite.
                    *sum -= (1.0 - gaps.fraction()).ln();
                }
                *skip = turn.advance();
                profile.time_of(*sum).map(nanos)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ArrivalProcess::{Constant, Poisson};
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = NANOS_PER_SECOND;

    fn until(process: ArrivalProcess, profile: &str, end_ns: u64) -> Vec<u64> {
        let arrivals = Arrivals::new(process, profile.parse().unwrap(), 7, Slots::ALL);
        arrivals.take_while(|at| *at < end_ns).collect()
    }

    #[test]
    fn constant_arrivals_are_rate_times_time_exactly() {
        for (rate, seconds) in
            [("1000", 10), ("3", 7), ("7", 1), ("10k", 60), ("0.5", 100), ("999.999", 1000)]
        {
            let expected = rate.parse::<RateProfile>().unwrap().to.per_1000_s() * seconds / 1000;
            let found = until(Constant, rate, seconds * SECOND);
            assert_eq!(found.len() as u64, expected, "{rate} over {seconds} s");
            let gap = SECOND * 1000 / (expected * 1000 / seconds);
            assert!(found.windows(2).all(|pair| pair[1] - pair[0] == gap || pair[1] - pair[0] == gap + 1));
        }
        assert_eq!(
            until(Constant, "3", 2 * SECOND),
            [0, 333_333_333, 666_666_666, SECOND, 1_333_333_333, 1_666_666_666]
        );
    }

    #[test]
    fn a_ramp_has_its_integral_in_every_second() {
        let profile: RateProfile = "1k..5k/4s".parse().unwrap();
        for process in [Constant, Poisson] {
            let found = until(process, "1k..5k/4s", 6 * SECOND);
            for second in 0..6 {
                let (from, to) = (second * SECOND, (second + 1) * SECOND);
                let expected = profile.expected(to) - profile.expected(from);
                let count = found.iter().filter(|at| (from..to).contains(at)).count() as f64;
                // A Poisson count has the standard deviation √n.
                let tolerance = if process == Constant { 1.0 } else { 4.5 * expected.sqrt() };
                assert!(
                    (count - expected).abs() <= tolerance,
                    "{process:?}, second {second}: {count}, {expected}"
                );
            }
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_variance_of_the_exponential_distribution() {
        let found = until(Poisson, "10k", 100 * SECOND);
        let n = found.len() as f64;
        assert!((n - 1e6).abs() < 4.5 * 1e3, "{n}");
        let gaps: Vec<f64> = found.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e5).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // In units of the mean gap both are 1; their estimates' standard deviations are 1/√n and √8/√n.
        assert!(
            (mean - 1.0).abs() < 4.5 / 1e3 && (variance - 1.0).abs() < 4.5 * 8_f64.sqrt() / 1e3,
            "{mean} {variance}"
        );
        // And the tail: e⁻³ of the gaps are longer than three means.
        let long = gaps.iter().filter(|gap| **gap > 3.0).count() as f64 / n;
        assert!((long - (-3_f64).exp()).abs() < 1e-3, "{long}");
    }

    #[test]
    fn poisson_counts_in_a_second_have_a_variance_equal_to_their_mean() {
        let mut counts = vec![0_f64; 1000];
        for at in until(Poisson, "100", 1000 * SECOND) {
            counts[(at / SECOND) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 1000.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 999.0;
        // The ratio's standard deviation is √(2/n).
        assert!((variance / mean - 1.0).abs() < 4.5 * (2.0_f64 / 1000.0).sqrt(), "{variance} {mean}");
    }

    #[test]
    fn the_seed_decides_a_poisson_schedule_and_nothing_else() {
        let of = |seed| {
            Arrivals::new(Poisson, "1k".parse().unwrap(), seed, Slots::ALL).take(100).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_rate_that_falls_to_nothing_ends_the_schedule() {
        let found: Vec<u64> = Arrivals::new(Constant, "100..0/2s".parse().unwrap(), 0, Slots::ALL).collect();
        assert_eq!(found.len(), 100);
        assert!(found.iter().all(|at| *at < 2 * SECOND));
        let nothing = RateProfile::constant(webstone_measure::rate::Rate::ZERO);
        assert_eq!(Arrivals::new(Constant, nothing, 0, Slots::ALL).next(), None);
        assert_eq!(Arrivals::new(Poisson, nothing, 0, Slots::ALL).next(), None);
    }

    proptest! {
        /// Workers with one slot each.
        #[test]
        fn all_workers_together_make_the_schedule_of_one(
            workers in 1..9_u32,
            seed in 0..1000_u64,
            rate in rates(),
            process in processes(),
        ) {
            let dealt = vec![1; workers as usize];
            prop_assert_eq!(together(process, rate, seed, &dealt), together(process, rate, seed, &[1]));
        }

        /// Workers with several slots, not equally many.
        #[test]
        fn slots_make_the_schedule_of_one_however_they_are_dealt(
            dealt in prop::collection::vec(1..7_u32, 1..9),
            seed in 0..1000_u64,
            rate in rates(),
            process in processes(),
        ) {
            prop_assert_eq!(together(process, rate, seed, &dealt), together(process, rate, seed, &[1]));
        }
    }

    fn rates() -> impl Strategy<Value = &'static str> {
        prop_oneof![Just("1"), Just("10k"), Just("333.333"), Just("1k..9k/1s"), Just("900..0/2s"), Just("0")]
    }

    fn processes() -> impl Strategy<Value = ArrivalProcess> {
        prop_oneof![Just(Constant), Just(Poisson)]
    }

    /// Arrivals of all workers together in three seconds; `dealt` has the number of slots of each.
    fn together(process: ArrivalProcess, rate: &str, seed: u64, dealt: &[u32]) -> Vec<u64> {
        let profile = if rate == "0" {
            RateProfile::constant(webstone_measure::rate::Rate::ZERO)
        } else {
            rate.parse().unwrap()
        };
        let of = dealt.iter().sum();
        let mut first = 0;
        let mut all = Vec::new();
        for count in dealt.iter().copied() {
            let share: Vec<u64> = Arrivals::new(process, profile, seed, Slots { first, count, of })
                .take_while(|at| *at < 3 * SECOND)
                .collect();
            assert!(share.is_sorted());
            all.extend(share);
            first += count;
        }
        all.sort_unstable();
        all
    }

    /// Not only the sum is right: a worker's arrivals are those of its slots.
    #[test]
    fn a_worker_takes_the_arrivals_of_its_slots() {
        for process in [Constant, Poisson] {
            for rate in ["1k", "1k..9k/1s"] {
                let of = |slots| Arrivals::new(process, rate.parse().unwrap(), 7, slots);
                let whole: Vec<u64> = of(Slots::ALL).take(70).collect();
                let mine = (0..70).filter(|k| (2..5).contains(&(k % 7))).map(|k| whole[k]);
                let found: Vec<u64> = of(Slots { first: 2, count: 3, of: 7 }).take(30).collect();
                assert_eq!(found, mine.collect::<Vec<_>>(), "{process:?} {rate}");
            }
        }
    }
}
