//! Two runs on a machine whose speed changes, with the truth known.

use super::super::tests::rate_row;
use super::super::{Comparison, Options, Row, compare};
use crate::noisy::Noisy;
use crate::statistics::Method;
use webstone_measure::rate::{Rate, RateProfile};
use webstone_model::fixture::echoing;
use webstone_model::record::RunRecord;

const WINDOWS: usize = 10;

/// A run on a machine whose CPUs are far apart, or near, for ten windows on average: an echo then takes half as long again, and a request a sixth.
fn run(rate: f64, noisy: &mut Noisy) -> RunRecord {
    let mut is_far = noisy.uniform() < 0.5;
    let (mut rates, mut echoes) = (Vec::new(), Vec::new());
    for _ in 0..WINDOWS {
        if noisy.uniform() < 0.1 {
            is_far = !is_far;
        }
        let (request, echo) = if is_far { (7.0 / 6.0, 1.5) } else { (1.0, 1.0) };
        rates.push(rate / request * (1.0 + 0.01 * noisy.normal()));
        echoes.push(8_000.0 * echo * (1.0 + 0.02 * noisy.normal()));
    }
    echoing(&rates, &echoes)
}

fn without_echoes(mut record: RunRecord) -> RunRecord {
    let windows = record.iterations.iter_mut().filter_map(|run| run.host.as_mut());
    windows.flat_map(|host| &mut host.watched).for_each(|watch| watch.echoes = 0);
    record
}

fn compared(a: &RunRecord, b: &RunRecord) -> Comparison {
    compare(&[a, b], &Options::default())
}

/// In how many of 200 comparisons the rate is called different.
fn shown(ratio: f64, of: impl Fn(RunRecord) -> RunRecord) -> usize {
    let mut noisy = Noisy::new(11);
    let row = |noisy: &mut Noisy| -> Row {
        let (a, b) = (of(run(50_000.0, noisy)), of(run(50_000.0 * ratio, noisy)));
        rate_row(&compared(&a, &b), 0).clone()
    };
    (0..200).filter(|_| row(&mut noisy).finding.is_difference()).count()
}

#[test]
fn what_the_machine_did_is_not_called_a_change() {
    let (with, without) = (shown(1.0, |record| record), shown(1.0, without_echoes));
    assert!(with <= 6, "{with} of 200");
    // Windows of one run are alike, and say little of the next run.
    assert!(without >= 40, "{without} of 200");
}

#[test]
fn a_tenth_is_told() {
    let told = shown(1.1, |record| record).min(shown(1.0 / 1.1, |record| record));
    assert!(told >= 180, "{told} of 200");
}

#[test]
fn figures_that_the_speed_moves_are_compared_at_one() {
    let (a, b) = (echoing(&[100.0, 101.0, 99.0], &[8e3; 3]), echoing(&[90.0, 91.0, 89.0], &[10e3; 3]));
    let methods = |a: &RunRecord, b: &RunRecord| -> Vec<String> {
        let compared = compared(a, b);
        let rows = compared.candidates[0].levels[0].rows.iter();
        let at_one = rows.filter(|row| row.ratio.is_some_and(|ratio| ratio.method == Method::Covariance));
        at_one.map(|row| row.metric.to_string()).collect()
    };
    let all = methods(&a, &b);
    assert!(
        ["rate", "avg", "p(99)", "client-cpu"].iter().all(|name| all.contains(&(*name).to_owned())),
        "{all:?}"
    );
    let speed = |a: &RunRecord, b: &RunRecord| {
        let compared = compared(a, b);
        let found = compared.candidates[0]
            .differences
            .iter()
            .find(|found| found.what.starts_with("speed of the machine"));
        found.map(|found| (found.baseline.clone(), found.candidate.clone()))
    };
    let told = ("8.0 µs for an echo".to_owned(), "10.0 µs for an echo (25 % more)".to_owned());
    assert_eq!(speed(&a, &b), Some(told));
    // An echo that takes a quarter more costs about a tenth of the rate.
    let change = rate_row(&compared(&a, &b), 0).change.unwrap();
    assert!(change.low < 0.0 && change.high > 0.0 && change.point > -3.0, "{change:?}");

    // Another machine, another version, a window without enough echoes; and in open loop a queue multiplies what a slow machine costs.
    let mut others = [b.clone(), b.clone(), b.clone(), b];
    others[0].environment.insert("hostname".to_owned(), "other".into());
    others[1].tool.version = "9".to_owned();
    others[2].iterations[1].host.as_mut().unwrap().watched[0].echoes = 3;
    let mut bases = [a.clone(), a.clone(), a.clone(), a];
    for run in bases[3].iterations.iter_mut().chain(&mut others[3].iterations) {
        run.rate = Some(RateProfile::constant(Rate::per_second(100)));
    }
    for (base, other) in bases.iter().zip(&others) {
        assert_eq!(compared(base, other).candidates[0].levels.len(), 1);
        assert_eq!((methods(base, other), speed(base, other)), (Vec::new(), None));
    }
}
