//! Statistics compared with values of SciPy, made by `reference/statistics.py`; and what follows from their definitions.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use serde_json::Value;
use webstone_judge::series::Scalability;
use webstone_judge::statistics::{
    BOOTSTRAP_SAMPLES_MIN, Interval, Method, Steadiness, bootstrap_mean, bootstrap_ratio, mean_interval,
    median, modified_z, mser5, noise_floor, outliers, ratio_interval, student_mean, student_ratio,
};

fn reference(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("reference/statistics.json")).unwrap();
    let cases = all[name].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[track_caller]
fn near(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected} within {tolerance}");
}

/// Ends within `share` of the interval's length; the point to the last digits.
#[track_caller]
fn agrees(actual: &Interval, case: &Value, share: f64) {
    let (low, high) = (number(&case["low"]), number(&case["high"]));
    near(actual.point, number(&case["point"]), number(&case["point"]) * 1e-12);
    near(actual.low, low, (high - low) * share);
    near(actual.high, high, (high - low) * share);
    assert_eq!(actual.confidence, 0.95);
}

#[test]
fn t_intervals_are_scipys() {
    for case in reference("mean_t") {
        let sample = numbers(&case["sample"]);
        let interval = mean_interval(&sample).unwrap();
        agrees(&interval, &case, 1e-9);
        assert_eq!((interval.method, interval.samples), (Method::StudentT, sample.len()));
    }
}

#[test]
fn t_intervals_of_ratios_are_scipys() {
    for case in reference("ratio_t") {
        let (a, b) = (numbers(&case["a"]), numbers(&case["b"]));
        let interval = ratio_interval(&a, &b).unwrap();
        agrees(&interval, &case, 1e-8);
        assert_eq!((interval.method, interval.samples), (Method::StudentT, a.len() + b.len()));
        let exchanged = ratio_interval(&b, &a).unwrap();
        near(exchanged.low * interval.high, 1.0, 1e-12);
        near(exchanged.point * interval.point, 1.0, 1e-12);
    }
}

/// Two samples with one of them constant leave the other's degrees of freedom: the interval is then t's own.
#[test]
fn the_t_quantile_is_scipys() {
    for case in reference("t_quantile") {
        let case = numbers(&case);
        let (freedom, expected) = (case[0], case[1]);
        if freedom.fract() != 0.0 {
            continue;
        }
        let n = freedom as usize + 1;
        let sample: Vec<f64> = (0..n).map(|index| index as f64).collect();
        let interval = student_mean(&sample).unwrap();
        let n = n as f64;
        let deviation = (n * (n + 1.0) / 12.0).sqrt();
        near(interval.half_width() * n.sqrt() / deviation, expected, expected * 1e-9);
    }
}

/// Different random numbers, so the ends agree within their Monte-Carlo error: 2 % of the length.
#[test]
fn bootstrap_intervals_are_scipys() {
    for case in reference("mean_bootstrap") {
        let sample = numbers(&case["samples"][0]);
        let interval = mean_interval(&sample).unwrap();
        agrees(&interval, &case, 0.02);
        assert_eq!((interval.method, interval.samples), (Method::Bootstrap, sample.len()));
        assert_eq!(mean_interval(&sample), Some(interval), "seeded");
    }
    for case in reference("ratio_bootstrap") {
        let (a, b) = (numbers(&case["samples"][0]), numbers(&case["samples"][1]));
        let interval = ratio_interval(&a, &b).unwrap();
        agrees(&interval, &case, 0.02);
        assert_eq!(interval.method, Method::Bootstrap);
    }
}

#[test]
fn modified_z_scores_are_scipys() {
    for case in reference("modified_z") {
        for (actual, expected) in modified_z(&numbers(&case["sample"])).iter().zip(numbers(&case["z"])) {
            near(*actual, expected, 1e-12);
        }
    }
}

#[test]
fn mser5_finds_the_point_of_the_definition() {
    let expected = [Steadiness::Later, Steadiness::FromTheStart, Steadiness::Never, Steadiness::FromTheStart];
    for (case, steadiness) in reference("mser5").iter().zip(expected) {
        let found = mser5(&numbers(&case["series"])).unwrap();
        assert_eq!(found.truncate as u64, case["truncate"].as_u64().unwrap());
        near(found.mean, number(&case["mean"]), 1e-6);
        near(found.mean_steady, number(&case["mean_steady"]), 1e-6);
        assert_eq!(found.steadiness, steadiness, "{found:?}");
    }
}

#[test]
fn what_has_no_interval_has_none() {
    assert_eq!((mean_interval(&[]), mean_interval(&[7.0])), (None, None));
    assert_eq!(mean_interval(&[1.0, f64::NAN]), None);
    assert_eq!(ratio_interval(&[1.0, 2.0], &[1.0]), None);
    assert_eq!(ratio_interval(&[1.0, 2.0], &[0.0, 0.0]), None);
    assert_eq!(ratio_interval(&[1.0, 2.0], &[-1.0, 3.0]), None);
    assert_eq!(ratio_interval(&[1.0, f64::INFINITY], &[1.0, 3.0]), None);
}

#[test]
fn values_all_alike_have_an_interval_of_no_length() {
    for n in [2, BOOTSTRAP_SAMPLES_MIN, 100] {
        let interval = mean_interval(&vec![3.0; n]).unwrap();
        assert_eq!((interval.low, interval.point, interval.high), (3.0, 3.0, 3.0));
        let ratio = ratio_interval(&vec![3.0; n], &vec![2.0; n]).unwrap();
        assert_eq!((ratio.low, ratio.high, ratio.half_width()), (1.5, 1.5, 0.0));
    }
    assert_eq!((bootstrap_mean(&[3.0; 30]), bootstrap_ratio(&[3.0; 30], &[1.0; 30])), (None, None));
}

#[test]
fn the_method_changes_at_the_threshold() {
    let sample: Vec<f64> = (0..BOOTSTRAP_SAMPLES_MIN).map(|index| 100.0 + index as f64).collect();
    assert_eq!(mean_interval(&sample).unwrap().method, Method::Bootstrap);
    assert_eq!(mean_interval(&sample[1..]).unwrap().method, Method::StudentT);
    assert_eq!(ratio_interval(&sample, &sample[1..]).unwrap().method, Method::StudentT);
    assert!(student_ratio(&sample, &sample).unwrap().contains(1.0));
}

#[test]
fn outliers_stand_apart_from_the_others_and_by_enough() {
    assert_eq!(outliers(&[1000.0, 1010.0, 700.0]), [2]);
    assert_eq!(outliers(&[1000.0, 1001.0, 980.0]), Vec::<usize>::new(), "2 % is no outlier");
    assert_eq!(outliers(&[1000.0, 700.0]), Vec::<usize>::new(), "two cannot say which");
    assert_eq!(outliers(&[5.0, 5.0, 5.0, 5.0, 9.0]), [4], "the MAD is 0");
    assert_eq!(outliers(&[5.0; 9]), Vec::<usize>::new());
    assert_eq!(outliers(&[100.0, 101.0, 99.0, 100.5, 50.0, 99.5, 150.0]), [4, 6]);
    assert_eq!(
        (median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0]), median(&[])),
        (Some(2.0), Some(2.5), None)
    );
}

#[test]
fn a_short_series_is_not_judged() {
    assert_eq!(mser5(&[1.0; 49]), None);
    assert_eq!(mser5(&[f64::NAN; 60]), None);
    let constant = mser5(&[7.0; 50]).unwrap();
    assert_eq!((constant.truncate, constant.steadiness), (0, Steadiness::FromTheStart));
    let silent = mser5(&[0.0; 50]).unwrap();
    assert_eq!((silent.shift_percent, silent.steadiness), (0.0, Steadiness::FromTheStart));
}

#[test]
fn the_noise_floor_is_the_far_end_of_the_interval() {
    let floor = noise_floor(&[1000.0, 1010.0, 990.0], &[1000.0, 1005.0, 995.0]).unwrap();
    assert!(floor.alike);
    let exchanged = noise_floor(&[1000.0, 1005.0, 995.0], &[1000.0, 1010.0, 990.0]).unwrap();
    near(floor.percent, 100.0 * (floor.ratio.high - 1.0), 1e-12);
    near(floor.percent, exchanged.percent, 1e-9);
    assert!(floor.percent >= 100.0 * floor.ratio.half_width() - 0.1);
    let apart = noise_floor(&[1000.0, 1001.0, 999.0], &[1100.0, 1101.0, 1099.0]).unwrap();
    assert!(!apart.alike && apart.percent > 9.0, "{apart:?}");
    assert_eq!(noise_floor(&[1.0], &[1.0, 1.0]), None);
}

/// The fit is the least squares of the throughput, as SciPy's trust-region method finds it; coefficients that want to be
/// negative are 0. The second case is the one that R's package `usl` prints with its documentation.
#[test]
fn scalability_is_scipys() {
    for case in reference("scalability") {
        let points: Vec<(f64, f64)> = numbers(&case["n"]).into_iter().zip(numbers(&case["x"])).collect();
        let law = Scalability::fit(&points).unwrap();
        near(law.lambda, number(&case["lambda"]), law.lambda * 1e-6);
        near(law.alpha, number(&case["alpha"]), 1e-6);
        near(law.beta, number(&case["beta"]), 1e-9);
        let squares: f64 = law.points.iter().map(|point| (point.measured - point.fitted).powi(2)).sum();
        assert!(squares <= number(&case["squares"]) * (1.0 + 1e-9), "{}: {squares}", case["name"]);
        let free = 1 + usize::from(law.alpha > 0.0) + usize::from(law.beta > 0.0);
        assert_eq!(law.degrees_of_freedom, points.len() - free);
    }
}

#[test]
fn a_law_is_found_again_in_its_own_values() {
    let law = |n: f64| 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0));
    let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|n| (n, law(n))).into();
    let fit = Scalability::fit(&points).unwrap();
    near(fit.lambda, 1000.0, 1e-6);
    near(fit.alpha, 0.05, 1e-9);
    near(fit.beta, 0.002, 1e-10);
    near(fit.peak_n.unwrap(), (0.95_f64 / 0.002).sqrt(), 1e-6);
    assert!(fit.residual_percent_max() < 1e-9);
    // Twice the throughput on twice the CPUs, without end.
    let linear = Scalability::fit(&[(1.0, 10.0), (2.0, 20.0), (4.0, 40.0)]).unwrap();
    near(linear.lambda, 10.0, 1e-9);
    assert!(linear.alpha.abs() < 1e-12 && linear.beta.abs() < 1e-12, "{linear:?}");
    assert!(linear.peak_n.is_none_or(|n| n >= 1e5), "{linear:?}");
    // More than that is no law's: the coefficients stop at 0, and the residuals show it.
    let beyond = Scalability::fit(&[(1.0, 10.0), (2.0, 30.0), (4.0, 90.0)]).unwrap();
    assert_eq!((beyond.alpha, beyond.beta, beyond.degrees_of_freedom), (0.0, 0.0, 2));
    assert!(beyond.residual_percent_max() > 20.0);
}

#[test]
fn a_law_that_falls_from_one_cpu_on_says_so() {
    for points in [
        [(1.0, 100.0), (2.0, 80.0), (4.0, 70.0)],
        [(1.0, 100.0), (2.0, 77.0), (4.0, 48.8)],
        [(1.0, 100.0), (2.0, 70.0), (4.0, 40.0)],
    ] {
        let law = Scalability::fit(&points).unwrap();
        assert_eq!(law.peak_n, Some(1.0), "{law:?}");
        assert!(law.at(1.0) > law.at(2.0) && law.at(2.0) > law.at(64.0), "{law:?}");
    }
    let rising = Scalability::fit(&[(1.0, 100.0), (2.0, 180.0), (4.0, 300.0), (8.0, 450.0)]).unwrap();
    assert!(rising.alpha < 1.0 && rising.peak_n.is_none_or(|n| n > 8.0), "{rising:?}");
}

#[test]
fn too_few_numbers_of_cpus_have_no_law() {
    let why = |points: &[(f64, f64)]| Scalability::fit(points).unwrap_err().to_string();
    assert_eq!(
        why(&[(1.0, 10.0), (2.0, 19.0), (2.0, 18.0)]),
        "the Universal Scalability Law has three coefficients: it needs the throughput at 3 numbers of CPUs or more"
    );
    assert_eq!(
        why(&[(1.0, 10.0), (2.0, 0.0), (4.0, 18.0)]),
        "2 CPUs with a throughput of 0 cannot be fitted"
    );
}
