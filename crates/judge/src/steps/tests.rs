//! Steps against Apache Otava, and against histories in which it is known whether there is one.

use std::collections::BTreeMap;

use serde_json::Value;
use webstone_workload::PageSequence;

use super::points::{OURS, Rules, points};
use super::*;

/// As Otava has them.
const OTAVA: Rules = Rules { side_min: 1, divisor_less: 0.0, p_max: 0.001 };

#[test]
fn points_are_those_of_apache_otava() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../tests/reference/steps.json")).expect("steps.py wrote it");
    assert_eq!(cases.len(), 47);
    for case in &cases {
        let number = |value: &Value| value.as_f64().unwrap();
        let values: Vec<f64> = case["values"].as_array().unwrap().iter().map(number).collect();
        let expected = case["points"].as_array().unwrap();
        let found = points(&values, &OTAVA);
        let places: Vec<usize> = found.iter().map(|point| point.index).collect();
        let known: Vec<u64> = expected.iter().map(|point| point["index"].as_u64().unwrap()).collect();
        assert_eq!(places, known.iter().map(|place| *place as usize).collect::<Vec<_>>(), "{}", case["name"]);
        for (found, expected) in found.iter().zip(expected) {
            let p = number(&expected["p_value"]);
            assert!((found.p_value - p).abs() <= 1e-6 * p, "{}: {found:?} is not {p}", case["name"]);
        }
    }
}

/// Normal values around 100, by Box and Muller.
fn noise(seed: u64, length: usize, deviation: f64) -> Vec<f64> {
    let mut random = PageSequence::new(seed, 0);
    let mut uniform = || (random.between(1, 1 << 53)) as f64 / (1_u64 << 53) as f64;
    let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    (0..length).map(|_| 100.0 + deviation * normal()).collect()
}

fn found(values: &[f64]) -> Vec<Step> {
    let nothing = BTreeMap::new();
    let history: Vec<Point<'_>> =
        values.iter().map(|value| Point { value: *value, surroundings: &nothing }).collect();
    steps(&history).unwrap()
}

#[test]
fn in_noise_there_are_hardly_any_steps() {
    // These seeds: 9, 10, 26, 29, 64. What docs/measurement.md says.
    for (length, most) in [(10, 20), (20, 20), (50, 40), (100, 50), (200, 90)] {
        let is_stepped = |seed: &u64| !points(&noise(*seed, length, 2.0), &OURS).is_empty();
        let stepped = (0..1_000).filter(is_stepped).count();
        assert!((1..=most).contains(&stepped), "{length} runs: {stepped} of 1,000");
    }
}

#[test]
fn a_planted_step_is_found_where_it_is_and_as_large_as_it_is() {
    // Steps of five standard deviations; with 20 and 100 runs also of three, sometimes found a run or two beside.
    for (length, place, size, least) in
        [(10, 5, 5.0, 190), (20, 10, 5.0, 199), (20, 16, 3.0, 170), (100, 50, 3.0, 196), (100, 95, -5.0, 198)]
    {
        let (mut places, mut sizes) = (0, 0);
        for seed in 0..200 {
            let mut values = noise(seed, length, 1.0);
            values[place..].iter_mut().for_each(|value| *value += size);
            let steps = found(&values);
            let Some(step) = steps.iter().find(|step| step.index.abs_diff(place) <= 2) else { continue };
            places += 1;
            sizes += usize::from(step.change.unwrap().contains(size));
        }
        assert!(places >= least, "{size} at {place} of {length}: {places} of 200");
        // The place is chosen for its difference, so that intervals hold the truth a little less often than they say.
        assert!(sizes * 100 >= places * 85, "{size} at {place} of {length}: {sizes} of {places}");
    }
}

#[test]
fn sides_means_and_size_are_those_of_the_runs_between_steps() {
    let level = |value: f64, runs: usize| (0..runs).map(move |run| value + (run % 3) as f64 * 0.1);
    let values: Vec<f64> = level(100.0, 8).chain(level(110.0, 6)).chain(level(121.0, 7)).collect();
    let steps = found(&values);
    let sides: Vec<_> = steps.iter().map(|step| (step.index, step.runs_before, step.runs_after)).collect();
    assert_eq!(sides, [(8, 8, 6), (14, 6, 7)]);
    assert!((steps[0].before - 100.0875).abs() < 1e-9 && (steps[0].after - 110.1).abs() < 1e-9);
    let change = steps[0].change.unwrap();
    assert!((change.point - 100.0 * (110.1 / 100.0875 - 1.0)).abs() < 1e-9);
    assert!(change.low < change.point && change.point < change.high && change.confidence == 0.95);
    assert!(steps[1].change.unwrap().low > 9.0);
    assert_eq!(found(&values), steps, "the same history gives the same steps");
}

#[test]
fn one_odd_run_is_no_step_and_values_that_are_all_alike_have_none() {
    for odd in [0, 10, 19] {
        let mut values = noise(7, 20, 1.0);
        values[odd] += 30.0;
        assert_eq!(found(&values), [], "{odd}");
    }
    assert_eq!(found(&[5.0; 40]), []);
    assert_eq!(found(&[0.0; 40]), []);
    let exact: Vec<f64> = [1.0; 10].into_iter().chain([2.0; 10]).collect();
    let steps = found(&exact);
    assert_eq!(steps.iter().map(|step| (step.index, step.p_value)).collect::<Vec<_>>(), [(10, 0.0)]);
    let from_nothing: Vec<f64> = [0.0; 10].into_iter().chain([2.0; 10]).collect();
    assert_eq!(found(&from_nothing)[0].change, None);
}

#[test]
fn too_few_runs_and_invalid_values_have_no_steps() {
    let nothing = BTreeMap::new();
    let of = |values: &[f64]| {
        let history: Vec<_> =
            values.iter().map(|value| Point { value: *value, surroundings: &nothing }).collect();
        steps(&history)
    };
    assert_eq!(of(&[1.0; 9]), None);
    assert_eq!(of(&[1.0; 10]), Some(Vec::new()));
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let mut values = [1.0; 12];
        values[3] = bad;
        assert_eq!(of(&values), None);
    }
}

#[test]
fn what_else_changed_is_told_with_whether_it_holds_throughout() {
    let facts = |kernel: &str, server: &str, other: &str| -> BTreeMap<String, String> {
        let facts = [("kernel", kernel), ("server", server), ("microcode", other)];
        facts
            .into_iter()
            .filter(|fact| !fact.1.is_empty())
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect()
    };
    // The server is another one run later than the step; the microcode is known from the step on, with one exception.
    let sides: Vec<BTreeMap<String, String>> = (0..12)
        .map(|run| {
            facts(
                if run < 6 { "6.1" } else { "6.2" },
                if run < 7 { "1.0" } else { "1.1" },
                if run < 6 || run == 9 { "" } else { "0x1" },
            )
        })
        .collect();
    let values = [100.0, 100.1, 100.2, 100.0, 100.1, 100.2, 90.0, 90.1, 90.2, 90.0, 90.1, 90.2];
    let history: Vec<Point<'_>> = values
        .iter()
        .zip(&sides)
        .map(|(value, surroundings)| Point { value: *value, surroundings })
        .collect();
    let steps = steps(&history).unwrap();
    assert_eq!(steps.len(), 1);
    let told: Vec<(&str, &str, &str, bool)> = (steps[0].changed.iter())
        .map(|it| (it.what.as_str(), it.before.as_str(), it.after.as_str(), it.throughout))
        .collect();
    assert_eq!(
        told,
        [("kernel", "6.1", "6.2", true), ("microcode", "", "0x1", false), ("server", "1.0", "1.1", false)]
    );
}
