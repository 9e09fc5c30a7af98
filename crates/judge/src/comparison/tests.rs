//! What `compare` concludes, over simulated records whose truth is known, and what it refuses.

use super::*;
use crate::noisy::Noisy;
use crate::statistics::CONFIDENCE;
use webstone_model::fixture::{measured, record};
use webstone_model::record::Arm;
use webstone_model::spec::ConnectionPolicy;
use webstone_model::threshold::FailIfs;

pub(super) fn rate_row(comparison: &Comparison, level: usize) -> &Row {
    comparison.candidates[0].levels[level].rows.iter().find(|row| row.metric == Metric::RATE).unwrap()
}

fn without_floor() -> Options<'static> {
    Options { noise: Noise::Percent(0.0), ..Options::default() }
}

/// The rows that `compare` would make, without the cost of whole records.
fn simulated(ratio: f64, deviation: f64, iterations: usize, noisy: &mut Noisy, noise: Noise<'_>) -> Row {
    let (a, b) =
        (noisy.rates(10_000.0, deviation, iterations), noisy.rates(10_000.0 * ratio, deviation, iterations));
    let (a, b) = (record("a", &[(40, &a)]), record("b", &[(40, &b)]));
    rate_row(&compare(&[&a, &b], &Options { noise, ..Options::default() }), 0).clone()
}

/// A worker that stood still for a fifth may have cost a fifth of its own side's rate, and nothing of the other's.
#[test]
fn noise_widens_the_interval_of_its_own_side_only() {
    let rates = [10_000.0, 10_010.0, 9_990.0];
    let of = |stalled: [u64; 2]| {
        let mut records = [record("a", &[(40, &rates)]), record("b", &[(40, &rates)])];
        for (record, percent) in records.iter_mut().zip(stalled) {
            for run in &mut record.iterations {
                let ns = run.measured.window_ns * percent / 100;
                run.measured.generator.workers[0].stalled_ns = ns;
            }
        }
        let [a, b] = &records;
        rate_row(&compare(&[a, b], &without_floor()), 0).ratio.unwrap()
    };
    let shown_from = |stalled_of_baseline: u64| {
        let mut records = [record("a", &[(40, &rates)]), record("b", &[(40, &rates)])];
        for run in &mut records[0].iterations {
            run.measured.generator.workers[0].stalled_ns = run.measured.window_ns * stalled_of_baseline / 100;
        }
        let [a, b] = &records;
        rate_row(&compare(&[a, b], &without_floor()), 0).shows_from.unwrap()
    };
    // The candidate must be faster by more than noise may have taken from the baseline.
    assert!(shown_from(0) < 1.0 && shown_from(20) > 25.0, "{} {}", shown_from(0), shown_from(20));
    let quiet = of([0, 0]);
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    for (stalled, less, more) in [([0, 20], 1.0, 1.25), ([20, 0], 1.25, 1.0), ([20, 20], 1.25, 1.25)] {
        let noisy = of(stalled);
        assert!(
            near(noisy.low, quiet.low / less) && near(noisy.high, quiet.high * more),
            "{stalled:?} {noisy:?}"
        );
        assert_eq!(noisy.point, quiet.point);
    }
}

/// What stops a process while it runs raises its CPU time; what another program takes does not.
#[test]
fn noise_that_costs_cpu_time_widens_its_interval() {
    let rates = [10_000.0, 10_010.0, 9_990.0];
    let of = |kind: fn(&mut IterationRecord)| {
        let mut records = [record("a", &[(40, &rates)]), record("b", &[(40, &rates)])];
        records[1].iterations.iter_mut().for_each(kind);
        let [a, b] = &records;
        let compared = compare(&[a, b], &without_floor());
        let rows = &compared.candidates[0].levels[0].rows;
        let cpu = rows.iter().find(|row| row.metric == Metric::named("client-cpu").unwrap()).unwrap();
        cpu.ratio.unwrap()
    };
    let quiet = of(|_| {});
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    let stopped = of(|run| run.measured.generator.workers[0].stalled_ns = run.measured.window_ns / 5);
    assert!(near(stopped.low, quiet.low * 0.8) && near(stopped.high, quiet.high), "{stopped:?} {quiet:?}");
    let waited = of(|run| run.measured.generator.workers[0].run_queue_ns = Some(run.measured.window_ns / 5));
    assert!(near(waited.low, quiet.low) && near(waited.high, quiet.high), "{waited:?} {quiet:?}");
}

/// A worker that was held up for a fifth may have delayed every tenth request for any time, and not the median.
#[test]
fn what_noise_may_have_made_is_not_shown() {
    let rates = [10_000.0, 10_010.0, 9_990.0];
    let of = |slower: usize, noisy: usize| {
        let mut records = [record("a", &[(40, &rates)]), record("b", &[(40, &rates)])];
        for run in &mut records[slower].iterations {
            let response = &mut run.measured.histograms.response;
            *response = Default::default();
            response.record_n(3_000_000, 100_000);
            response.pack();
        }
        for run in &mut records[noisy].iterations {
            run.measured.generator.workers[0].stalled_ns = run.measured.window_ns / 5;
        }
        let [a, b] = &records;
        let condition = if slower == 1 { "p(95)>+10%" } else { "p(95)<-10%" };
        let gate = |fail_when| {
            let fail_if = condition.parse::<FailIfs>().unwrap().0;
            compare(&[a, b], &Options { fail_if, fail_when, ..Options::default() }).fail_if[0].result
        };
        let compared = compare(&[a, b], &Options::default());
        let rows = &compared.candidates[0].levels[0].rows;
        let [median, p95] = [50.0, 95.0]
            .map(|percentile| rows.iter().find(|row| row.metric == Metric::Percentile(percentile)).unwrap());
        let is_open =
            p95.ends(&p95.change.unwrap()).0 == -100.0 || p95.ends(&p95.change.unwrap()).1.is_infinite();
        assert!(is_open && median.ends(&median.change.unwrap()).1.is_finite());
        let expected = if slower == noisy { GateResult::CannotTell } else { GateResult::Failed };
        assert_eq!((gate(FailWhen::Shown), gate(FailWhen::Possible)), (expected, GateResult::Failed));
        [median, p95].map(|row| (row.finding, row.why))
    };
    let unbounded = (Finding::NoDifferenceShown, Some(Why::Unbounded));
    assert_eq!(of(1, 1), [(Finding::Worse, None), unbounded]);
    assert_eq!(of(1, 0), [(Finding::Worse, None); 2]);
    assert_eq!(of(0, 0), [(Finding::Better, None), unbounded]);
    assert_eq!(of(0, 1), [(Finding::Better, None); 2]);
}

/// 1,000 simulated comparisons for each true ratio: the 95 % interval contains it in 95 % of them, within four standard
/// deviations of the binomial distribution (0.69 % each).
#[test]
fn the_interval_covers_the_true_ratio_as_often_as_it_says() {
    for (ratio, deviation, iterations) in
        [(1.0, 0.01, 3), (0.99, 0.01, 5), (0.97, 0.02, 5), (1.1, 0.005, 3), (0.9, 0.03, 10)]
    {
        let mut noisy = Noisy::new(iterations as u64);
        let covered = (0..1000)
            .filter(|_| {
                let row = simulated(ratio, deviation, iterations, &mut noisy, Noise::Records);
                row.ratio.unwrap().contains(ratio)
            })
            .count();
        assert!((922..=978).contains(&covered), "{ratio} {deviation} {iterations}: {covered} of 1000");
    }
}

/// What the words say of 500 simulated comparisons each.
#[test]
fn the_words_are_right_as_often_as_they_say() {
    let words = |ratio: f64, deviation: f64, noise: Noise<'_>| {
        let mut noisy = Noisy::new(7);
        let (mut worse, mut none, mut better) = (0, 0, 0);
        for _ in 0..500 {
            match simulated(ratio, deviation, 5, &mut noisy, noise).finding {
                Finding::Worse => worse += 1,
                Finding::Better => better += 1,
                Finding::NoDifferenceShown => none += 1,
                Finding::CannotTell => panic!("five iterations are enough"),
            }
        }
        (worse, none, better)
    };
    // Nothing differs: at most 5 % are found to, on either side, within four standard deviations (4.9 each of 500).
    let (worse, none, better) = words(1.0, 0.01, Noise::Percent(0.0));
    assert!(worse + better <= 25 + 19 && none >= 456, "{worse} {none} {better}");
    // With the floor of the iterations' own scatter, hardly ever.
    let (worse, _, better) = words(1.0, 0.01, Noise::Records);
    assert!(worse + better <= 5, "{worse} {better}");
    // A difference as large as the floor is not one beyond it.
    let (worse, _, better) = words(0.97, 0.002, Noise::Percent(3.1));
    assert!(worse <= 12 && better == 0, "{worse} {better}");
    // 1, 3 and 10 % slower, where iterations scatter by 0.1, 0.5 and 1 %: found nearly always, and never as faster.
    for (ratio, deviation) in [(0.99, 0.001), (0.97, 0.005), (0.9, 0.01)] {
        let (worse, none, better) = words(ratio, deviation, Noise::Records);
        assert!(worse >= 495 && better == 0, "{ratio}: {worse} {none} {better}");
    }
    // 1 % slower under a scatter of 2 % cannot be seen in five iterations, and is not claimed.
    let (worse, none, _) = words(0.99, 0.02, Noise::Records);
    assert!(none >= 480, "{worse} {none}");
}

/// Nine levels, nothing differs: the chance that any of them is called different is kept at 5 %, where nine separate
/// tests would have 37 %.
#[test]
fn many_levels_do_not_find_what_is_not_there() {
    let mut noisy = Noisy::new(3);
    let (mut any, mut any_uncorrected) = (0, 0);
    for _ in 0..200 {
        let mut levels = || -> Vec<Vec<f64>> { (0..9).map(|_| noisy.rates(1e4, 0.01, 4)).collect() };
        let (a, b) = (levels(), levels());
        let of = |levels: &[Vec<f64>]| {
            let named: Vec<(u32, &[f64])> = (1..).zip(levels.iter().map(Vec::as_slice)).collect();
            record("r", &named)
        };
        let comparison = compare(&[&of(&a), &of(&b)], &without_floor());
        let mut rows = comparison.candidates[0].levels.iter().flat_map(|level| &level.rows);
        any += usize::from(rows.clone().any(|row| row.finding.is_difference()));
        any_uncorrected += usize::from(rows.any(|row| row.shown_at(CONFIDENCE)));
    }
    assert!(any <= 10 + 12, "{any} of 200");
    assert!(any_uncorrected >= 40, "{any_uncorrected} of 200");
}

/// One level, four figures that move by themselves, nothing differs: the chance that any is called different is kept at 5 %.
#[test]
fn many_figures_do_not_find_what_is_not_there() {
    let mut noisy = Noisy::new(11);
    let (mut any, mut any_uncorrected) = (0, 0);
    for _ in 0..200 {
        let mut of = || {
            let mut record = record("r", &[(40, &noisy.rates(1e4, 0.01, 5))]);
            for run in &mut record.iterations {
                let values = noisy.rates(1e9, 0.01, 3);
                let requests = run.measured.counts.succeeded as f64;
                let cpu_ns = |of_ten_thousand: f64| (of_ten_thousand * requests / 1e4) as u64;
                run.server.as_mut().unwrap().user_ns = cpu_ns(values[0]);
                run.measured.generator.workers[0].user_ns = cpu_ns(values[1]);
                run.measured.response_bytes.sum = (values[2] * 100.0) as u64;
            }
            record
        };
        let comparison = compare(&[&of(), &of()], &without_floor());
        let rows = &comparison.candidates[0].levels[0].rows;
        any += usize::from(rows.iter().any(|row| row.finding.is_difference()));
        any_uncorrected += usize::from(rows.iter().any(|row| row.shown_at(CONFIDENCE)));
    }
    assert!(any <= 10 + 12, "{any} of 200");
    assert!(any_uncorrected >= 30, "{any_uncorrected} of 200");
}

/// S. Holm's procedure on p values: 0.01, 0.04, 0.03 and 0.005 at α = 0.05 reject the first and the last only.
#[test]
fn holm_steps_down() {
    let rejects = |p: [f64; 4]| holm(4, |member, confidence| p[member] <= 1.0 - confidence);
    assert_eq!(rejects([0.01, 0.04, 0.03, 0.005]), [true, false, false, true]);
    assert_eq!(rejects([0.012, 0.012, 0.012, 0.012]), [true; 4]);
    assert_eq!(rejects([0.013, 0.013, 0.013, 0.013]), [false; 4]);
    // 0.04 falls only because the three others did.
    assert_eq!(rejects([0.001, 0.04, 0.002, 0.003]), [true; 4]);
    assert_eq!(holm(0, |_, _| true), Vec::<bool>::new());
}

/// By the definition: p ≤ α · weight / weight of all that are left. With weights of 3, 1, 1 and 1 the first has half of α.
#[test]
fn holm_gives_a_member_its_share() {
    let rejects = |p: [f64; 4]| {
        judging::weighted_holm(&[3, 1, 1, 1], |member, confidence| p[member] <= 1.0 - confidence)
    };
    let half = 0.025;
    assert_eq!(rejects([half * 0.999, 1.0, 1.0, 1.0]), [true, false, false, false]);
    assert_eq!(rejects([half * 1.001, 1.0, 1.0, 1.0]), [false; 4]);
    // Once it is rejected, the others share all of α; before, they share half.
    assert_eq!(rejects([half * 0.999, 0.0166, 0.03, 0.03]), [true, true, false, false]);
    assert_eq!(rejects([half * 1.001, 0.0166, 0.03, 0.03]), [false; 4]);
    assert_eq!(rejects([0.04, 0.008, 0.009, 0.01]), [true; 4]);
}

/// In open loop the rate is given. Noise without a bound may have made any change of the response times, so none would have been shown.
#[test]
fn in_open_loop_the_mean_leads_and_without_a_bound_nothing_would_show() {
    let of = |stalled: u64| {
        let mut records =
            [record("a", &[(40, &[99.0, 100.0, 101.0])]), record("b", &[(40, &[99.0, 100.0, 101.0])])];
        for run in records.iter_mut().flat_map(|record| &mut record.iterations) {
            run.rate = Some("100".parse().unwrap());
            run.measured.generator.workers[0].stalled_ns = run.measured.window_ns * stalled / 100;
        }
        let [a, b] = &records;
        let rows = compare(&[a, b], &Options::default()).candidates.remove(0).levels.remove(0).rows;
        let shows_from = |metric| rows.iter().find(|row| row.metric == metric).unwrap().shows_from;
        (shows_from(leading(true)), shows_from(Metric::RATE))
    };
    let (mean, rate) = of(0);
    assert!(mean < rate, "it has the larger share: {mean:?} {rate:?}");
    assert_eq!(of(20), (None, None));
}

/// Against the definition, on p-values that fall one by one, and without asking all of all.
#[test]
fn holm_of_a_large_family_asks_each_member_a_few_times() {
    const MEMBERS: usize = 1_000;
    let alpha = 1.0 - statistics::CONFIDENCE;
    for fallen in [0, 1, 400, 999, MEMBERS] {
        // The i-th smallest is just below its limit, up to the first that is not; those after it would be again.
        let p = |rank: usize| {
            let limit = alpha / (MEMBERS - rank) as f64;
            if rank == fallen { limit * 1.000_1 } else { limit * 0.999_9 }
        };
        let rank_of = |member: usize| member * 7 % MEMBERS;
        let asked = std::cell::Cell::new(0);
        let rejected = holm(MEMBERS, |member, confidence| {
            asked.set(asked.get() + 1);
            p(rank_of(member)) <= 1.0 - confidence
        });
        let count = rejected.iter().filter(|one| **one).count();
        assert!((0..MEMBERS).all(|member| rejected[member] == (rank_of(member) < fallen)), "{count}");
        assert!(asked.get() <= MEMBERS * 11, "{}", asked.get());
    }
}

fn finding(a: &[f64], b: &[f64]) -> (Finding, Option<Why>) {
    let (a, b) = (record("a", &[(1, a)]), record("b", &[(1, b)]));
    let row = rate_row(&compare(&[&a, &b], &Options::default()), 0).clone();
    (row.finding, row.why)
}

#[test]
fn too_few_iterations_cannot_tell_that_there_is_no_difference() {
    let few = Some(Why::TooFewIterations);
    assert_eq!(finding(&[100.0], &[200.0]), (Finding::CannotTell, few));
    assert_eq!(finding(&[100.0, 101.0], &[101.0, 100.0, 102.0]), (Finding::CannotTell, few));
    // What two iterations show is shown nevertheless.
    assert_eq!(finding(&[100.0, 100.1], &[50.0, 50.1]), (Finding::Worse, None));
    for (a, b) in [([0.0; 3], [50.0, 50.1, 50.2]), ([50.0, 50.1, 50.2], [0.0; 3])] {
        assert_eq!(finding(&a, &b), (Finding::CannotTell, Some(Why::NoRatio)));
    }
    assert_eq!(
        finding(&[100.0, 101.0, 102.0], &[102.0, 101.0, 100.0]),
        (Finding::NoDifferenceShown, Some(Why::WithinInterval))
    );
    let within_noise: (Vec<f64>, Vec<f64>) =
        (0..15).map(|i| (1000.0 + f64::from(i % 3) * 10.0, 1007.4 + f64::from(i % 3) * 10.0)).unzip();
    assert_eq!(
        finding(&within_noise.0, &within_noise.1),
        (Finding::NoDifferenceShown, Some(Why::WithinNoise))
    );
}

/// A saturated generator, of one of two levels: where it was, more is not better.
#[test]
fn nothing_is_found_at_a_level_that_is_invalid() {
    let [a, mut b] = ["a", "b"].map(|name| {
        let rates = if name == "a" { [1000.0, 1001.0, 999.0] } else { [2000.0, 2001.0, 1999.0] };
        record(name, &[(1, &rates), (2, &rates)])
    });
    let found = |a: &RunRecord, b: &RunRecord| {
        let compared = compare(&[a, b], &Options::default());
        [0, 1].map(|level| rate_row(&compared, level)).map(|row| (row.finding, row.why))
    };
    assert_eq!(found(&a, &b), [(Finding::Better, None); 2]);
    for run in b.iterations.iter_mut().filter(|run| run.clients == 2) {
        let worker = &mut run.measured.generator.workers[0];
        worker.user_ns = run.measured.window_ns / 100 * 95;
    }
    let invalid = (Finding::CannotTell, Some(Why::Invalid));
    assert_eq!(found(&a, &b), [(Finding::Better, None), invalid]);
    assert_eq!(found(&b, &a), [(Finding::Worse, None), invalid]);
}

/// Iterations of 23, 117 and 287 requests/s among 18,000, as a host that took half of a CPU made them.
#[test]
fn nothing_is_concluded_from_an_interval_that_is_wider_than_its_value() {
    let wide = [23.0, 18_000.0, 17_900.0, 287.0];
    for (a, b) in [(&wide, &[18_000.0, 18_010.0, 17_990.0, 18_020.0]), (&wide, &wide)] {
        assert_eq!(finding(a, b), (Finding::CannotTell, Some(Why::TooWide)));
        assert_eq!(finding(b, a), (Finding::CannotTell, Some(Why::TooWide)));
    }
    // Half of the value up and down is the bound; a difference that would be shown is not claimed beyond it either.
    let (steady, few) = ([1000.0, 1001.0, 999.0], [10.0, 6.0, 8.0]);
    assert_eq!(finding(&steady, &few), (Finding::CannotTell, Some(Why::TooWide)));
    let fewer = [10.0, 9.5, 9.8];
    assert_eq!(finding(&steady, &fewer), (Finding::Worse, None));
    // A condition is neither met nor missed.
    let of = |b: &[f64], fail_when: FailWhen| {
        let (a, b) = (record("a", &[(1, &steady)]), record("b", &[(1, b)]));
        let fail_if = "rate<-3%".parse::<FailIfs>().unwrap().0;
        let options = Options { fail_if, fail_when, ..Options::default() };
        compare(&[&a, &b], &options).fail_if[0].result
    };
    assert_eq!(of(&few, FailWhen::Shown), GateResult::CannotTell);
    assert_eq!(of(&few, FailWhen::Measured), GateResult::Failed, "asked for the bare figures");
    assert_eq!(of(&fewer, FailWhen::Shown), GateResult::Failed);
}

#[test]
fn a_change_of_errors_is_a_difference_and_needs_no_errors_before() {
    let make = |id: &str, failed: [u64; 3]| {
        let mut record = record(id, &[(1, &[100.0; 3])]);
        for (run, failed) in record.iterations.iter_mut().zip(failed) {
            run.measured = measured(100.0, failed);
        }
        record
    };
    let (none, some) = (make("a", [0; 3]), make("b", [50, 51, 49]));
    let errors = |a: &RunRecord, b: &RunRecord| {
        let rows = compare(&[a, b], &Options::default()).candidates[0].levels[0].rows.clone();
        rows.into_iter().find(|row| row.metric == Metric::ERRORS).unwrap()
    };
    let row = errors(&none, &some);
    // 50 of 1,050 is 4.76 %.
    assert!((row.change.unwrap().point - 4.761_8).abs() < 1e-3, "{row:?}");
    assert_eq!((row.finding, row.finding.word(row.metric), row.ratio), (Finding::Worse, "more", None));
    let row = errors(&none, &none);
    assert_eq!((row.finding, row.change.unwrap().point), (Finding::NoDifferenceShown, 0.0));
}

/// Equal iterations have an interval of no length; what is left is the width of a histogram's bucket.
#[test]
fn a_step_of_the_histogram_is_no_difference() {
    let comparison = compare(
        &[&record("a", &[(1, &[1000.0; 3])]), &record("b", &[(1, &[999.1; 3])])],
        &Options::default(),
    );
    let rows = &comparison.candidates[0].levels[0].rows;
    let p99 = rows.iter().find(|row| row.metric == Metric::Percentile(99.0)).unwrap();
    assert!(p99.change.unwrap().point.abs() < 0.1, "{p99:?}");
    assert_eq!(
        (p99.floor.unwrap().source, p99.finding),
        (FloorSource::Histogram, Finding::NoDifferenceShown)
    );
    let mean = rows.iter().find(|row| row.metric == Metric::MEAN).unwrap();
    assert_eq!(mean.finding, Finding::Worse);
}

#[test]
fn the_noise_floor_comes_from_what_is_known() {
    let (a, b) = (record("a", &[(1, &[100.0, 101.0, 102.0])]), record("b", &[(1, &[99.0, 100.0, 101.0])]));
    let floor = |a: &RunRecord, b: &RunRecord, noise| {
        rate_row(&compare(&[a, b], &Options { noise, ..Options::default() }), 0).floor.unwrap()
    };
    // The standard deviation is 1 of 101, and 1 of 100, over the root of three iterations.
    let scatter = floor(&a, &b, Noise::Records);
    assert!(
        (scatter.value - 1.0 / 3.0_f64.sqrt()).abs() < 1e-9 && scatter.source == FloorSource::Iterations,
        "{scatter:?}"
    );
    assert_eq!(floor(&a, &b, Noise::Percent(2.5)), Floor { value: 2.5, source: FloorSource::Given });
    let mut arms = record("aa", &[(1, &[100.0, 103.0, 101.0, 104.0, 102.0, 105.0])]);
    for (index, run) in arms.iterations.iter_mut().enumerate() {
        run.arm = Some(if index % 2 == 0 { Arm::A } else { Arm::B });
    }
    let wanted = statistics::noise_floor(&[100.0, 101.0, 102.0], &[103.0, 104.0, 105.0]).unwrap().percent;
    let expected = Floor { value: wanted, source: FloorSource::Arms };
    assert_eq!(floor(&arms, &b, Noise::Records), expected);
    assert_eq!(floor(&a, &b, Noise::Run(&arms)), expected);
    // A level that the A/A run has not: its noisiest one stands in.
    let (a, b) = (record("a", &[(9, &[1e3, 1e3])]), record("b", &[(9, &[1e3, 1e3])]));
    assert_eq!(floor(&a, &b, Noise::Run(&arms)), expected);
    // A run without arms knows nothing.
    assert_eq!(floor(&a, &b, Noise::Run(&b)).source, FloorSource::Iterations);
}

#[test]
fn one_iteration_does_not_say_what_is_noise() {
    let (one, two) = (record("a", &[(1, &[100.0])]), record("b", &[(1, &[99.0, 100.0])]));
    let floors = |a: &RunRecord, b: &RunRecord, noise| -> Vec<Option<Floor>> {
        let compared = compare(&[a, b], &Options { noise, ..Options::default() });
        compared.candidates[0].levels[0].rows.iter().map(|row| row.floor).collect()
    };
    for (a, b) in [(&one, &one), (&one, &two), (&two, &one)] {
        let floors = floors(a, b, Noise::Records);
        assert!(!floors.is_empty() && floors.iter().all(Option::is_none), "{floors:?}");
    }
    // What was typed is known nevertheless.
    let typed = Some(Floor { value: 2.5, source: FloorSource::Given });
    assert!(floors(&one, &one, Noise::Percent(2.5)).contains(&typed));
}

fn results(condition: &str, fail_when: FailWhen, b: &[f64]) -> Vec<GateResult> {
    let fail_if = condition.parse::<FailIfs>().unwrap().0;
    let a = record("a", &[(1, &[1000.0, 1002.0, 998.0])]);
    let options = Options { fail_if, fail_when, ..Options::default() };
    compare(&[&a, &record("b", &[(1, b)])], &options).fail_if.iter().map(|gate| gate.result).collect()
}

#[test]
fn a_condition_fails_when_the_interval_supports_it() {
    use GateResult::{CannotTell, Failed, Passed};
    let slower = [948.0, 952.0, 950.0];
    let scattered = [920.0, 980.0, 950.0];
    for (condition, fail_when, samples, result) in [
        ("rate<-3%", FailWhen::Shown, &slower[..], Failed),
        ("rate<-5%", FailWhen::Shown, &slower, Passed),
        ("rate<-5%", FailWhen::Possible, &slower, Failed),
        ("rate<-3%", FailWhen::Shown, &scattered, Passed),
        ("rate<-3%", FailWhen::Measured, &scattered, Failed),
        ("rate<-3%", FailWhen::Possible, &[990.0, 991.0, 989.0], Passed),
        ("avg>+3%", FailWhen::Shown, &slower, Failed),
        ("p(97)>+3%", FailWhen::Shown, &slower, Failed),
        ("rate>+3%", FailWhen::Shown, &slower, Passed),
        // An improvement is asked for, and there is none.
        ("rate<+3%", FailWhen::Shown, &[1000.0, 1002.0, 998.0], Failed),
        ("rate<-3%", FailWhen::Shown, &[500.0], CannotTell),
        // As in the table: two iterations can show a change, but cannot rule one out.
        ("rate<-3%", FailWhen::Shown, &[500.0, 500.1], Failed),
        ("rate<-3%", FailWhen::Shown, &[1000.0, 1002.0], CannotTell),
        ("rate<-3%", FailWhen::Possible, &[1000.0, 1000.1], Passed),
        ("rate<-3%", FailWhen::Measured, &[500.0], Failed),
        ("errors>+0.1pp", FailWhen::Shown, &slower, Passed),
    ] {
        assert_eq!(results(condition, fail_when, samples), [result], "{condition} {fail_when:?} {samples:?}");
    }
}

#[test]
fn a_condition_selects_levels() {
    let a = record("a", &[(1, &[1e3, 1001.0, 999.0]), (2, &[1e3, 1001.0, 999.0])]);
    let b = record("b", &[(1, &[1e3, 1001.0, 999.0]), (2, &[900.0, 901.0, 899.0])]);
    let failed = |condition: &str| {
        let fail_if = condition.parse::<FailIfs>().unwrap().0;
        compare(&[&a, &b], &Options { fail_if, ..Options::default() }).failed()
    };
    assert!(failed("rate<-3%") && failed("rate{clients:2}<-3%") && !failed("rate{clients:1}<-3%"));
}

#[test]
fn levels_of_one_record_only_are_named() {
    let a = record("a", &[(1, &[1.0]), (2, &[1.0]), (3, &[1.0])]);
    let b = record("b", &[(2, &[1.0]), (4, &[1.0])]);
    let candidate = compare(&[&a, &b], &Options::default()).candidates.remove(0);
    let levels: Vec<u32> = candidate.levels.iter().map(|level| level.clients).collect();
    assert_eq!(
        (
            levels,
            webstone_measure::keys::levels_named(&candidate.only_baseline),
            webstone_measure::keys::levels_named(&candidate.only_candidate)
        ),
        (vec![2], "1, 3 clients".to_owned(), "4 clients".to_owned())
    );
}

#[test]
fn new_connections_are_neither_good_nor_bad_where_they_are_kept() {
    let has = |record: &RunRecord| {
        let rows = &compare(&[record, record], &Options::default()).candidates[0].levels[0].rows;
        rows.iter().any(|row| row.metric == Metric::CONNECTS)
    };
    let mut kept = record("a", &[(1, &[1.0])]);
    assert!(has(&kept));
    kept.spec.client.connections = ConnectionPolicy::KeepAlive;
    assert!(!has(&kept));
}

#[test]
fn what_is_not_comparable_is_named_with_both_values() {
    let a = record("a", &[(1, &[1.0])]);
    assert_eq!(differences(&a, &a), []);
    let mut b = a.clone();
    b.workload_sha256 = "f".repeat(64);
    b.spec.client.connections = ConnectionPolicy::KeepAlive;
    b.spec.client.reset = true;
    b.spec.client.check = webstone_model::spec::Check::Content;
    b.spec.client.http = webstone_model::spec::HttpVersion::Http10;
    b.spec.load.duration = webstone_measure::units::Nanos::from_secs(21);
    b.spec.load.warmup = webstone_measure::units::Nanos::from_millis(1500);
    b.environment.insert("hostname".to_owned(), "other".into());
    b.environment.insert("cpu.mitigations".to_owned(), serde_json::json!({ "meltdown": "PTI" }));
    b.target.cpus = vec![0, 1];
    b.target.server = Some("nginx/1.27".to_owned());
    b.tool.version = "2".to_owned();
    let told: Vec<(String, String, String, Weight)> =
        differences(&a, &b).into_iter().map(|d| (d.what, d.baseline, d.candidate, d.weight)).collect();
    use Weight::{Forbids, Noted};
    let expected = [
        ("workload", "w (sha256 00)", "w (sha256 ffffffffffff)", Forbids),
        ("duration of a level", "10s", "21s", Forbids),
        ("connection policy", "per-request", "keep-alive", Forbids),
        ("protocol", "HTTP/1.1", "HTTP/1.0", Forbids),
        ("check of answers", "size", "content", Forbids),
        ("connections end with a reset", "no", "yes", Forbids),
        ("host", "box", "other", Forbids),
        ("mitigations", "unknown", "{\"meltdown\":\"PTI\"}", Forbids),
        ("CPUs of the server", "unknown", "0,1", Forbids),
        ("warm-up", "1s", "1s500ms", Noted),
        ("server", "it did not report its name", "nginx/1.27", Noted),
        ("measured with", " ", " 2", Noted),
    ];
    let expected: Vec<_> =
        expected.map(|(what, a, b, weight)| (what.to_owned(), a.to_owned(), b.to_owned(), weight)).into();
    assert_eq!(told, expected);
}
