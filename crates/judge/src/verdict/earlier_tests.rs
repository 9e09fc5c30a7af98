//! Earlier runs show how much faster the machine may be, which bounds the figures and changes nothing else.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::bounds::SHORT_WINDOW_NS;
use super::disturbance::{Worth, worth};
use super::disturbance_tests::worked;
use super::*;
use webstone_model::record::{AgentRecord, EarlierSpeed};
use webstone_model::spec::Levels;

/// A whole run of one level.
fn level(works: [(u64, u64); 4]) -> RunRecord {
    let mut record = worked(works);
    record.iterations.truncate(works.len());
    record.iterations.iter_mut().zip(1..).for_each(|(run, number)| run.iteration = number);
    record.spec.load.clients = Levels(vec![20]);
    record.spec.load.iterations = works.len() as u32;
    record
}

/// A run whose windows were alike, on a CPU that took 5,000 ns for the fixed work, and this time in earlier runs.
fn after(work_ns: u64) -> RunRecord {
    let mut record = level([(5_000, 5_000); 4]);
    record.earlier_speeds = vec![EarlierSpeed { cpu: 0, windows: 240, work_ns }];
    record
}

fn causes(verdict: &Verdict) -> Vec<Cause> {
    verdict.doubts.iter().map(|doubt| doubt.cause).collect()
}

#[test]
fn a_machine_that_was_faster_makes_a_level_noisy_with_its_own_bound() {
    let verdict = of_record(&after(4_000));
    let level = verdict.levels[0].level();
    assert_eq!(
        (verdict.of_level(level), causes(&verdict)),
        (Standing::Noisy, vec![Cause::SlowerThanEarlier])
    );
    assert_eq!(
        verdict.doubts[0].sentence,
        "20 clients: CPU 0 was 25.0 % slower than in the fastest 5 % of 240 windows of earlier runs on this machine (limit 6 %)"
    );
    let noise = verdict.noise_of(level).unwrap();
    // Requests suffer twice as much as work in registers.
    let of_machine = |noise: NoiseBound| (noise.rate_factor(), noise.cpu_time_factor());
    assert_eq!(of_machine(noise), (Some(1.5), Some(1.5)));
    assert_eq!(
        verdict.noise_told().unwrap(),
        "undisturbed, request rates may be up to 50 % higher and mean response times up to 34 % shorter; this machine was faster in earlier runs"
    );
    // What is measured side by side is slow alike, and no window is repeated for it.
    assert_eq!((noise.factor, noise.cpu_factor), (Some(1.0), Some(1.0)));
    assert_eq!(verdict.rate_factor_of(level), Some(1.0));
    let record = after(4_000);
    assert!(record.iterations.iter().all(|run| worth(&record, run) == Worth::Clean));
    // A little is within what any machine does, and faster than before is no fault.
    for work_ns in [4_800, 5_000, 6_000] {
        let verdict = of_record(&after(work_ns));
        assert_eq!((causes(&verdict), verdict.noise_of(level)), (vec![], None), "{work_ns}");
    }
}

#[test]
fn windows_that_are_slower_than_others_of_their_run_are_not_counted_twice() {
    let mut record = level([(5_000, 5_000), (6_000, 5_900), (5_000, 5_000), (5_000, 5_000)]);
    let bound = |record: &RunRecord| of_record(record).levels[0].noise.unwrap();
    assert_eq!(bound(&record).at_best, None);
    record.earlier_speeds = vec![EarlierSpeed { cpu: 0, windows: 9, work_ns: 5_000 }];
    let noise = bound(&record);
    let (within, best) = (noise.factor.unwrap(), noise.rate_factor().unwrap());
    // One of four windows was slower by 20 %, which costs twice as much, whatever it is compared with.
    assert!((within - 1.10).abs() < 1e-9 && (best - 1.10).abs() < 1e-9, "{noise:?}");
    record.earlier_speeds[0].work_ns = 4_000;
    let noise = bound(&record);
    assert_eq!(noise.factor, Some(within));
    assert!((noise.rate_factor().unwrap() - (3.0 * 1.5 + 2.0) / 4.0).abs() < 1e-9, "{noise:?}");
}

#[test]
fn two_runs_are_compared_at_one_speed() {
    let at = |work_ns: u64| level([(work_ns, work_ns); 4]);
    let rate_factor = |record: &RunRecord, other: &RunRecord| {
        let level = &super::beside(record, other)[0];
        level.noise.and_then(|noise| noise.rate_factor())
    };
    // The slower of two by its own side only.
    assert_eq!(rate_factor(&at(6_000), &at(5_000)), Some(1.4));
    assert_eq!(rate_factor(&at(5_000), &at(6_000)), None);
    assert_eq!(rate_factor(&at(5_250), &at(5_000)), None);
    // That it was slower than in earlier runs says nothing of the other one.
    let mut both = [at(5_000), at(5_000)];
    for record in &mut both {
        record.earlier_speeds = vec![EarlierSpeed { cpu: 0, windows: 240, work_ns: 2_500 }];
    }
    assert_eq!(of_record(&both[0]).levels[0].noise.unwrap().rate_factor(), Some(3.0));
    assert_eq!(rate_factor(&both[0], &both[1]), None);
}

#[test]
fn two_runs_that_were_slow_now_and_then_are_compared_by_their_average_speeds() {
    let rate_factor = |record: &RunRecord, other: &RunRecord| {
        let level = &super::beside(record, other)[0];
        (level.standing, level.noise.and_then(|noise| noise.rate_factor()))
    };
    let steady = level([(5_000, 5_000); 4]);
    let mut unsteady = level([(5_000, 5_000), (6_000, 5_900), (5_000, 5_000), (5_000, 5_000)]);
    let alone = of_record(&unsteady).levels[0].noise.unwrap().rate_factor().unwrap();
    assert!((alone - 1.10).abs() < 1e-9, "{alone}");
    // On average 5 % slower, which is less than what is judged.
    for other in [&steady, &unsteady] {
        assert_eq!(rate_factor(&unsteady, other), (Standing::Noisy, None));
    }
    let slow = level([(5_000, 5_000), (6_400, 5_900), (5_000, 5_000), (5_000, 5_000)]);
    let (_, factor) = rate_factor(&slow, &steady);
    assert!((factor.unwrap() - 1.14).abs() < 1e-9, "7 % slower on average");
    assert_eq!(rate_factor(&steady, &slow), (Standing::Sound, None));
    // Where a window of one of them leaves its speed unknown, each is compared with itself at its best.
    unsteady.iterations[2].host.as_mut().unwrap().watched.clear();
    for (record, other, expected) in [(&unsteady, &steady, Some(1.10)), (&steady, &unsteady, None)] {
        let (_, factor) = rate_factor(record, other);
        assert_eq!(factor.map(|factor| (factor * 100.0).round() / 100.0), expected);
    }
}

#[test]
fn what_both_runs_lost_alike_does_not_part_them() {
    let lost = |of_generator: u64, of_server: u64| {
        let mut record = level([(5_000, 5_000); 4]);
        for run in &mut record.iterations {
            let part = run.measured.window_ns / 100;
            run.measured.generator.workers[0].stalled_ns = of_generator * part;
            let watch = &mut run.host.as_mut().unwrap().watched[0];
            (watch.watched_ns, watch.stalled_ns) = (100 * part, of_server * part);
        }
        record
    };
    let beside = |record: &RunRecord, other: &RunRecord| {
        let noise = super::beside(record, other)[0].noise;
        let hundredths = |number: f64| (100.0 * number).round() / 100.0;
        noise.map(|noise| (hundredths(noise.factor.unwrap()), noise.held_up_percent.round()))
    };
    // It may have delayed that share of the requests for any time, in both.
    assert_eq!(beside(&lost(10, 0), &lost(10, 0)), Some((1.0, 10.0)));
    assert_eq!(beside(&lost(20, 0), &lost(10, 0)), Some((1.13, 20.0)));
    assert_eq!(beside(&lost(10, 0), &lost(20, 0)), Some((1.0, 10.0)));
    assert_eq!(beside(&lost(10, 0), &lost(0, 0)), Some((1.11, 10.0)));
    assert_eq!(beside(&lost(0, 0), &lost(10, 0)), None);
    // A server may lose more requests by the same time than the load generator, or fewer.
    assert_eq!(beside(&lost(10, 0), &lost(0, 10)), Some((1.11, 10.0)));
    assert_eq!(beside(&lost(0, 10), &lost(10, 0)), Some((1.11, 10.0)));
}

#[test]
fn in_open_loop_a_slower_machine_may_have_made_any_response_time() {
    let open = |works: [(u64, u64); 4]| {
        let mut record = level(works);
        record.iterations.iter_mut().for_each(|run| run.rate = Some("1000".parse().unwrap()));
        record
    };
    let noise = |record: &RunRecord, other: &RunRecord| {
        let noise = super::beside(record, other)[0].noise;
        noise.map(|noise| (noise.rate_factor(), noise.cpu_time_factor()))
    };
    let (steady, slower) = (open([(5_000, 5_000); 4]), open([(6_000, 6_000); 4]));
    assert_eq!(noise(&slower, &steady), Some((None, Some(1.4))));
    assert_eq!(noise(&steady, &slower), None);
    // Slow now and then, and 5 % slower on average: a queue may have made more of it.
    let unsteady = open([(5_000, 5_000), (6_000, 5_900), (5_000, 5_000), (5_000, 5_000)]);
    let (rate_factor, cpu_factor) = noise(&unsteady, &steady).unwrap();
    assert!(rate_factor.is_none() && (cpu_factor.unwrap() - 1.1).abs() < 1e-9, "{cpu_factor:?}");
}

#[test]
fn nothing_is_said_where_nothing_is_known() {
    let changed = |change: &dyn Fn(&mut RunRecord)| {
        let mut record = after(4_000);
        change(&mut record);
        causes(&of_record(&record)).contains(&Cause::SlowerThanEarlier)
    };
    assert!(changed(&|_| {}));
    assert!(!changed(&|record| record.earlier_speeds[0].cpu = 1));
    assert!(!changed(&|record| record.earlier_speeds[0].work_ns = 0));
    // An agent's CPU 0 is not this host's.
    assert!(!changed(&|record| record.target.agents = vec![AgentRecord::default()]));
    assert!(!changed(&|record| {
        record.iterations.iter_mut().for_each(|run| run.measured.window_ns = SHORT_WINDOW_NS - 1);
    }));
    // The server had the CPU for a tenth of the time, or it was mostly idle.
    assert!(!changed(&|record| {
        record.iterations.iter_mut().for_each(|run| run.server.as_mut().unwrap().user_ns /= 10);
    }));
    assert!(!changed(&|record| {
        let cpus = record.iterations.iter_mut().flat_map(|run| &mut run.host.as_mut().unwrap().cpus);
        cpus.for_each(|cpu| cpu.busy_ns /= 2);
    }));
    assert_eq!(speeds(&after(4_000), |watch| watch.work_ns_best), BTreeMap::from([(0, vec![5_000; 4])]));
}

proptest! {
    #[test]
    fn a_slower_machine_makes_nothing_better(faster in 1_000_u64..6_000, slower in 0_u64..3_000) {
        let of = |work_ns: u64| {
            let verdict = of_record(&after(work_ns));
            (verdict.standing, verdict.levels[0].noise.and_then(|noise| noise.rate_factor()).unwrap_or(1.0))
        };
        // The longer it took in earlier runs, the less slow the machine is now.
        let (slow, less) = (of(faster), of(faster + slower));
        prop_assert!(slow.0 >= less.0 && slow.1 >= less.1, "{slow:?} {less:?}");
    }
}
