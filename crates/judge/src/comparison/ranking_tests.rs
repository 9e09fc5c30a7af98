//! Ranks of results whose scatter is known, and what must hold of ranks whatever the scatter.

use proptest::prelude::*;

use super::*;
use webstone_measure::metrics::{Counts, Measured};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_workload::PageSequence;

fn level(rates: &[u64]) -> Vec<IterationRecord> {
    let run = |(place, rate): (usize, &u64)| IterationRecord {
        clients: 10,
        iteration: place as u32 + 1,
        measured: Measured {
            window_ns: NANOS_PER_SECOND,
            counts: Counts { succeeded: *rate, ..Counts::default() },
            ..Measured::default()
        },
        ..IterationRecord::default()
    };
    rates.iter().enumerate().map(run).collect()
}

fn of_levels(levels: &[&[u64]]) -> Result<Ranking, NoRanking> {
    let levels: Vec<Vec<IterationRecord>> = levels.iter().map(|rates| level(rates)).collect();
    let levels: Vec<_> =
        levels.iter().map(|runs| RankedLevel { runs: runs.iter().collect(), better_by: 1.0 }).collect();
    rank(Metric::RATE, &levels)
}

/// Best and worst places.
fn places(ranking: &Ranking) -> Vec<(u32, u32)> {
    ranking.ranks.iter().map(|rank| (rank.best, rank.worst)).collect()
}

fn untold(ranking: &Ranking) -> Vec<(usize, usize)> {
    ranking.pairs.iter().filter(|pair| !pair.differ).map(|pair| (pair.first, pair.second)).collect()
}

#[test]
fn those_that_do_not_differ_have_the_same_range() {
    let ranking = of_levels(&[
        &[1000, 1010, 990, 1005],
        &[2000, 2020, 1990, 2010],
        &[1003, 1013, 993, 1001],
        &[500, 505, 495, 502],
    ])
    .unwrap();
    assert_eq!(places(&ranking), [(2, 3), (1, 1), (2, 3), (4, 4)]);
    assert_eq!(untold(&ranking), [(0, 2)]);
}

/// Where the load generator was the bottleneck, the rate is the least: ahead of lower ones, and with none ahead of it.
#[test]
fn a_rate_that_is_the_least_leaves_all_places_above_open() {
    let levels =
        [level(&[2000, 2020, 1990, 2010]), level(&[1000, 1010, 990, 1005]), level(&[500, 505, 495, 502])];
    let places_with = |least: usize| {
        let better_by = |place: usize| if place == least { f64::INFINITY } else { 1.0 };
        let ranked = levels.iter().enumerate();
        let ranked: Vec<_> = ranked
            .map(|(place, runs)| RankedLevel { runs: runs.iter().collect(), better_by: better_by(place) })
            .collect();
        let ranking = rank(Metric::RATE, &ranked).unwrap();
        let is_of_least = |pair: &&Pair| pair.first == least || pair.second == least;
        assert!(ranking.pairs.iter().all(|pair| pair.ratio.is_none() == is_of_least(&pair)));
        places(&ranking)
    };
    assert_eq!(places_with(0), [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(places_with(1), [(1, 2), (1, 2), (3, 3)]);
    assert_eq!(places_with(2), [(1, 3), (2, 3), (1, 3)]);
}

/// 65,000 ± 3 %, 38,381 ± 36 % and 37,043 ± 4 %: at 59 % of the first, and no better than the third, the second was called
/// first for its noise alone.
#[test]
fn noise_gains_no_place() {
    let ranking = of_levels(&[
        &[65_000, 65_900, 64_100, 66_600, 63_400],
        &[38_381, 46_300, 30_462, 51_700, 25_062],
        &[37_043, 37_900, 36_186, 38_300, 35_786],
    ])
    .unwrap();
    assert_eq!(places(&ranking), [(1, 2), (2, 3), (2, 3)]);
    assert_eq!(untold(&ranking), [(0, 1), (1, 2)], "who does not differ is named");
}

#[test]
fn what_noise_may_have_taken_from_the_worse_one_leaves_both_places_open() {
    let places_with = |slower: f64, faster: f64| {
        let mut all = [[1000.0, 1001.0, 999.0], [1200.0, 1201.0, 1199.0]].map(|samples| contestant(&samples));
        (all[0].better_by, all[1].better_by) = (slower, faster);
        places(&ranked(&all, true).unwrap())
    };
    assert_eq!(places_with(1.0, 1.0), [(2, 2), (1, 1)]);
    assert_eq!(places_with(1.1, 1.0), [(2, 2), (1, 1)]);
    assert_eq!(places_with(1.3, 1.0), [(2, 2), (1, 2)], "its own noise does not lift it");
    assert_eq!(places_with(1.0, 1.3), [(2, 2), (1, 1)], "the faster one may be faster still");
}

#[test]
fn scatter_of_all_leaves_every_place_open() {
    let ranking = of_levels(&[&[1000, 2000, 1500], &[1600, 1100, 2100]]).unwrap();
    assert_eq!(places(&ranking), [(1, 2), (1, 2)]);
}

#[test]
fn less_can_be_better() {
    let levels = [[100, 101, 99].map(f64::from), [200, 202, 198].map(f64::from)];
    let all: Vec<Contestant> = levels.iter().map(|samples| contestant(samples)).collect();
    assert_eq!(places(&ranked(&all, true).unwrap()), [(2, 2), (1, 1)]);
    assert_eq!(places(&ranked(&all, false).unwrap()), [(1, 1), (2, 2)]);
}

#[test]
fn equal_estimates_share_their_places() {
    let ranking = of_levels(&[&[1000, 1000, 1000], &[1000, 1000, 1000], &[900, 900, 900]]).unwrap();
    assert_eq!(places(&ranking), [(1, 2), (1, 2), (3, 3)]);
}

#[test]
fn too_little_is_told() {
    assert_eq!(of_levels(&[&[1000, 1001]]), Err(NoRanking::TooFew));
    assert_eq!(of_levels(&[&[1000, 1001], &[2000, 2001]]), Err(NoRanking::TooFewIterations(2)));
    assert_eq!(
        NoRanking::TooFewIterations(2).to_string(),
        "ranks need 3 or more iterations of each (-i); this has 2"
    );
}

fn contestant(samples: &[f64]) -> Contestant {
    let noise_percent = 100.0 * statistics::standard_deviation(samples)
        / (samples.len() as f64).sqrt()
        / statistics::mean(samples);
    Contestant { samples: samples.to_vec(), noise_percent, better_by: 1.0 }
}

/// A result: its mean, how far its iterations lie from it in pairs up and down, and how much farther when it is noisier. All
/// are whole numbers, so that the mean is exactly the same in both.
#[derive(Clone, Debug)]
struct Scattered {
    mean: u32,
    steps: Vec<u32>,
    times: u32,
}

impl Scattered {
    fn contestant(&self, times: u32) -> Contestant {
        let mean = f64::from(self.mean);
        let pairs = self.steps.iter().flat_map(|step| [-1.0, 1.0].map(|sign| sign * f64::from(step * times)));
        let samples: Vec<f64> = std::iter::once(mean).chain(pairs.map(|off| mean + off)).collect();
        assert!(samples.iter().all(|value| *value > 0.0) && statistics::mean(&samples) == mean);
        contestant(&samples)
    }
}

/// Means that are often near each other, scatter from none to large, three to seven iterations.
fn scattered() -> impl Strategy<Value = Scattered> {
    (20_000..24_000_u32, prop::collection::vec(0..400_u32, 1..=3), 0..4_u32, 1..=12_u32).prop_map(
        |(mean, steps, shift, times)| {
            let steps = steps.into_iter().map(|step| step << shift >> 1).collect();
            Scattered { mean: mean / 50 * 50, steps, times }
        },
    )
}

fn all_of(results: &[Scattered], noisier: impl Fn(usize) -> bool) -> Ranking {
    let times = |place: usize| if noisier(place) { results[place].times } else { 1 };
    let all: Vec<Contestant> =
        results.iter().enumerate().map(|(place, one)| one.contestant(times(place))).collect();
    ranked(&all, true).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn more_noise_of_one_never_narrows_a_range_and_never_improves_its_own(
        results in prop::collection::vec(scattered(), 2..7),
        which in any::<prop::sample::Index>(),
    ) {
        // Twelve times the largest step would pass below zero.
        let results: Vec<Scattered> = results
            .into_iter()
            .map(|one| Scattered { times: one.times.min(19_999 / one.steps.iter().max().unwrap().max(&1)), ..one })
            .map(|one| Scattered { times: one.times.max(1), ..one })
            .collect();
        let noisy = which.index(results.len());
        let (before, after) = (all_of(&results, |_| false), all_of(&results, |place| place == noisy));
        for (place, (old, new)) in before.ranks.iter().zip(&after.ranks).enumerate() {
            prop_assert!(new.best <= old.best && new.worst >= old.worst, "{place}: {old:?} became {new:?}");
        }
        prop_assert_eq!(before.ranks[noisy].best, after.ranks[noisy].best, "its own noise gains it no place");
        // No pair differs that did not differ before.
        for (old, new) in before.pairs.iter().zip(&after.pairs) {
            prop_assert!(old.differ || !new.differ, "{old:?} became {new:?}");
        }
    }

    #[test]
    fn a_range_holds_its_place_by_estimate_and_overlaps_those_that_it_is_not_told_from(
        results in prop::collection::vec(scattered(), 2..7),
    ) {
        let ranking = all_of(&results, |_| false);
        for (place, rank) in ranking.ranks.iter().enumerate() {
            let better = results.iter().filter(|other| other.mean > results[place].mean).count() as u32;
            let worse = results.iter().filter(|other| other.mean < results[place].mean).count() as u32;
            prop_assert!(rank.best <= better + 1 && rank.worst >= results.len() as u32 - worse);
            prop_assert!(rank.best >= 1 && rank.worst <= results.len() as u32);
        }
        for pair in &ranking.pairs {
            let (a, b) = (ranking.ranks[pair.first], ranking.ranks[pair.second]);
            let overlap = a.best <= b.worst && b.best <= a.worst;
            prop_assert!(pair.differ || overlap, "{pair:?}: {a:?} and {b:?}");
            // If two differ, the faster one has the better best place.
            let (ahead, behind) =
                if results[pair.first].mean > results[pair.second].mean { (a, b) } else { (b, a) };
            prop_assert!(!pair.differ || ahead.best < behind.best, "{pair:?}: {ahead:?} and {behind:?}");
        }
    }
}

/// Six results, all equally noisy, and 400 rankings: every range holds the true place in 95 % of the rankings, wherever the
/// true means lie. (Of equal truths any of their places is true.)
#[test]
fn ranges_hold_the_true_places_as_often_as_they_say() {
    let mut sequence = PageSequence::new(5, 0);
    let mut uniform = move || (sequence.between(0, u64::from(u32::MAX)) as f64 + 0.5) / 4_294_967_296.0;
    let mut normal = move || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    for (truths, iterations) in [
        ([1000.0; 6], 3),
        ([1000.0; 6], 10),
        ([1000.0, 1000.0, 990.0, 980.0, 900.0, 900.0], 5),
        ([1000.0, 995.0, 990.0, 985.0, 980.0, 975.0], 5),
        ([1000.0, 995.0, 990.0, 985.0, 980.0, 975.0], 25),
    ] {
        let mut right = 0;
        for _ in 0..400 {
            let all: Vec<Contestant> = truths
                .iter()
                .map(|truth| {
                    let samples: Vec<f64> =
                        (0..iterations).map(|_| truth * (1.0 + 0.01 * normal())).collect();
                    contestant(&samples)
                })
                .collect();
            let ranking = ranked(&all, true).unwrap();
            let holds = ranking.ranks.iter().enumerate().all(|(place, rank)| {
                let better = truths.iter().filter(|truth| **truth > truths[place]).count() as u32;
                let no_worse = truths.iter().filter(|truth| **truth >= truths[place]).count() as u32;
                rank.best <= no_worse && rank.worst > better
            });
            right += u32::from(holds);
        }
        assert!(right >= 363, "{truths:?}, {iterations} iterations: {right} of 400");
    }
}
