//! What counts as taken, and that more of it never helps.

use proptest::prelude::*;

use super::tests::{SECOND, valid};
use super::*;
use webstone_model::record::{CpuUse, CpuWatch, OtherUse, OthersUse, ProcessUse, ServerUse};

/// A valid run with the server on this host: worker on CPU 1, server on CPU 0, a window of 600 s.
fn here() -> RunRecord {
    let mut record = valid();
    record.target.embedded = true;
    for run in &mut record.iterations {
        let host = run.host.as_mut().unwrap();
        host.others = Some(OthersUse::default());
        host.cpus = vec![cpu(0, 300), cpu(1, 300)];
        let processes = ProcessUse { run_queue_ns: Some(0), ..ProcessUse::default() };
        run.server = Some(ServerUse {
            user_ns: 300 * SECOND,
            processes: Some(processes),
            ..run.server.take().unwrap_or_default()
        });
    }
    record
}

fn cpu(cpu: u32, busy_s: u64) -> CpuUse {
    let (busy_ns, idle_ns) = (busy_s * SECOND, (600 - busy_s) * SECOND);
    CpuUse { cpu, busy_ns, idle_ns, ..CpuUse::default() }
}

fn of_first(change: impl FnOnce(&mut webstone_model::record::IterationRecord)) -> Vec<Loss> {
    let mut record = here();
    change(&mut record.iterations[0]);
    losses(&record, &record.iterations[0])
}

#[test]
fn nothing_taken_is_clean() {
    let record = here();
    assert_eq!(losses(&record, &record.iterations[0]), []);
    assert_eq!(worth(&record, &record.iterations[0]), Worth::Clean);
}

#[test]
fn each_way_of_taking_is_told_with_its_share() {
    let told = |change: &dyn Fn(&mut webstone_model::record::IterationRecord)| {
        let losses = of_first(|run| change(run));
        losses.iter().map(|loss| (loss.worth, loss.sentence())).collect::<Vec<_>>()
    };
    let worker = "worker 0 of the load generator on CPU 1 lost";
    assert_eq!(
        told(&|run| {
            run.measured.generator.workers[0].run_queue_ns = Some(60 * SECOND);
            let yes = OtherUse { process: 7, name: "yes".to_owned(), cpu_ns: 60 * SECOND };
            let host = run.host.as_mut().unwrap();
            host.others = Some(OthersUse { cpu_ns: 60 * SECOND, busiest: vec![yes] });
        }),
        [(
            Worth::Void,
            format!("{worker} 10.0 % of its CPU time: other programs used it, mostly yes (process 7)")
        )]
    );
    assert_eq!(
        told(&|run| {
            run.measured.generator.workers[0].run_queue_ns = Some(60 * SECOND);
            let of = |process, name: &str| OtherUse { process, name: name.to_owned(), cpu_ns: 20 * SECOND };
            let host = run.host.as_mut().unwrap();
            let busiest = vec![of(7, "cc"), of(8, "ld"), of(9, "cc")];
            host.others = Some(OthersUse { cpu_ns: 60 * SECOND, busiest });
        })[0]
            .1,
        format!(
            "{worker} 10.0 % of its CPU time: other programs used it, mostly cc (2 processes), ld (process 8)"
        )
    );
    assert_eq!(
        told(&|run| run.measured.generator.workers[0].stalled_ns = 18 * SECOND),
        [(
            Worth::Disturbed,
            format!("{worker} 3.0 % of its CPU time: the hypervisor took it, or the process was stopped")
        )]
    );
    assert_eq!(
        told(&|run| run.measured.generator.workers[0].stalled_ns_max = 3 * SECOND / 2),
        [(
            Worth::Void,
            "worker 0 of the load generator on CPU 1 stood still for 1.500 s: the hypervisor took its CPU, or the process \
             was stopped"
                .to_owned()
        )]
    );
    assert_eq!(
        told(&|run| run.host.as_mut().unwrap().throttled_ns = Some(30 * SECOND))[0],
        (
            Worth::Void,
            format!("{worker} 5.0 % of its CPU time: a CPU quota of its control group throttled it")
        )
    );
    assert_eq!(
        told(&|run| run.host.as_mut().unwrap().cpus[0].stolen_ns = 30 * SECOND)[0].1,
        "the server lost 5.0 % of its CPU time: the hypervisor took it, or the process was stopped"
    );
    assert_eq!(
        told(&|run| {
            run.host.as_mut().unwrap().watched =
                vec![CpuWatch { cpu: 0, stalled_ns: 12 * SECOND, ..CpuWatch::default() }];
        })[0]
            .0,
        Worth::Disturbed
    );
    assert_eq!(
        told(&|run| run.host.as_mut().unwrap().cpus[1].heat_ns = 15 * SECOND)[0].1,
        format!("{worker} 2.5 % of its CPU time: the processor slowed down because of heat")
    );
    assert_eq!(
        told(&|run| run.host.as_mut().unwrap().suspended_ns = SECOND)[0].0,
        Worth::Void,
        "however long the window"
    );
}

/// Four windows of one level on a server's CPU that is busy, in which the piece of work took so long: mean and best.
pub(super) fn worked(works: [(u64, u64); 4]) -> RunRecord {
    let mut record = here();
    for (place, (run, (mean, best))) in record.iterations.iter_mut().zip(works).enumerate() {
        run.clients = 20;
        run.opened_ns = Some(600 * SECOND * place as u64);
        run.server.as_mut().unwrap().user_ns = 600 * SECOND;
        run.host.as_mut().unwrap().watched =
            vec![CpuWatch { cpu: 0, work_ns_median: mean, work_ns_best: best, ..CpuWatch::default() }];
    }
    record
}

#[test]
fn a_cpu_is_compared_with_itself_at_its_best_in_the_level() {
    let worths = |record: &RunRecord| -> Vec<Worth> {
        record.iterations.iter().take(4).map(|run| worth(record, run)).collect()
    };
    let quiet = worked([(5_200, 5_100), (5_100, 5_000), (5_250, 5_100), (5_299, 5_050)]);
    assert_eq!(worths(&quiet), [Worth::Clean; 4]);
    let slowed = worked([(5_200, 5_000), (5_300, 5_100), (5_520, 5_200), (5_449, 5_100)]);
    assert_eq!(worths(&slowed), [Worth::Clean, Worth::Disturbed, Worth::Void, Worth::Disturbed]);
    let told = losses(&slowed, &slowed.iterations[2]);
    let sentence = "the server lost 10 % to a slow CPU: CPU 0 was 10 % slower than at its best in this level, for the 100 % of \
                    its time that the server wanted; something shares its core or its caches, or its clock fell";
    assert_eq!(told.iter().map(Loss::sentence).collect::<Vec<_>>(), [sentence]);
    let verdict = of_record(&slowed);
    let causes = |reasons: &[Reason]| reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>();
    assert_eq!((causes(&verdict.reasons), causes(&verdict.doubts)), (vec![], vec![Cause::Slowed; 3]));
    assert_eq!((&*verdict.doubts[1].measured, &*verdict.doubts[1].limit), ("10.4 %", "6 %"));
    let barely = of_record(&worked([(5_200, 5_000), (5_302, 5_100), (5_200, 5_000), (5_200, 5_000)]));
    assert_eq!((&*barely.doubts[0].measured, &*barely.doubts[0].limit), ("6.04 %", "6 %"), "not 6.0 %");
    // What only later windows show comes too late for a repetition, and still leaves doubt.
    let late = worked([(6_500, 6_400), (6_500, 6_400), (5_100, 5_000), (5_100, 5_000)]);
    assert_eq!(worths(&late), [Worth::Disturbed, Worth::Disturbed, Worth::Clean, Worth::Clean]);
    // Which windows were before is told by their order, not by a clock that somebody set.
    for opened_ns in [true, false] {
        let mut set_back = slowed.clone();
        set_back.iterations[2].started_at = "1970-01-01T00:00:00.000Z".to_owned();
        if !opened_ns {
            set_back.iterations.iter_mut().for_each(|run| run.opened_ns = None);
        }
        assert_eq!(worths(&set_back)[2], Worth::Void, "{opened_ns}");
        // The one before it is not judged by what came later.
        let mut late = late.clone();
        late.iterations.iter_mut().filter(|_| !opened_ns).for_each(|run| run.opened_ns = None);
        assert_eq!(worths(&late)[..2], [Worth::Disturbed; 2], "{opened_ns}");
    }
    // Windows of another level, or of a CPU that had little to do, do not count.
    let mut other = slowed.clone();
    other.iterations[0].clients = 1;
    other.iterations[1].clients = 2;
    other.iterations[3].clients = 3;
    assert_eq!(worths(&other)[2], Worth::Disturbed, "slower than at its own best only");
    let mut idle = slowed;
    for run in &mut idle.iterations {
        run.host.as_mut().unwrap().cpus[0] = cpu(0, 299);
    }
    assert_eq!(worths(&idle), [Worth::Clean; 4]);
}

#[test]
fn a_slow_cpu_counts_for_the_part_that_the_server_has_of_it() {
    // As slow as it ever was seen to be.
    let slow = worked([(5_000, 5_000), (5_000, 5_000), (5_000, 5_000), (19_895, 5_000)]);
    let with = |used_s: u64, waited_s: u64| {
        let mut record = slow.clone();
        let server = record.iterations[3].server.as_mut().unwrap();
        (server.user_ns, server.system_ns) = (used_s * SECOND, 0);
        server.processes.as_mut().unwrap().run_queue_ns = Some(waited_s * SECOND);
        losses(&record, &record.iterations[3])
    };
    assert_eq!(with(600, 0)[0].worth, Worth::Void);
    assert_eq!(with(18, 0)[0].worth, Worth::Disturbed, "3 % of 298 % is 8.9 %");
    assert_eq!(with(6, 0), [], "3 %");
    let waited = with(6, 30);
    assert_eq!(
        (waited[0].worth, waited[0].percent.round()),
        (Worth::Void, 18.0),
        "what it waited, it wanted"
    );
    let mut unknown = slow.clone();
    unknown.iterations[3].server = None;
    assert_eq!(losses(&unknown, &unknown.iterations[3])[0].worth, Worth::Void);
}

/// Another program takes CPU time from the server.
fn take_from_server(run: &mut webstone_model::record::IterationRecord, ns: u64) {
    let host = run.host.as_mut().unwrap();
    host.cpus[0].busy_ns += ns;
    host.cpus[0].idle_ns = host.cpus[0].idle_ns.saturating_sub(ns);
    host.others.get_or_insert_default().cpu_ns += ns;
    let processes = run.server.as_mut().unwrap().processes.as_mut().unwrap();
    *processes.run_queue_ns.get_or_insert(0) += ns;
}

#[test]
fn what_a_server_takes_from_itself_is_its_own_matter() {
    let queue = |run: &mut webstone_model::record::IterationRecord| {
        let processes = run.server.as_mut().unwrap().processes.as_mut().unwrap();
        processes.run_queue_ns = Some(9_000 * SECOND);
    };
    assert_eq!(of_first(queue), []);
    let others = of_first(|run| {
        queue(run);
        take_from_server(run, 60 * SECOND);
    });
    assert_eq!((others[0].worth, others[0].percent), (Worth::Void, 10.0));
}

#[test]
fn programs_beside_a_server_of_somebody_elses_may_be_its_own() {
    let mut record = here();
    record.target.embedded = false;
    record.environment.insert("target.this_host".into(), serde_json::json!(true));
    take_from_server(&mut record.iterations[0], 300 * SECOND);
    assert_eq!(worth(&record, &record.iterations[0]), Worth::Disturbed);
    record.iterations[0].host.as_mut().unwrap().cpus[0].stolen_ns = 30 * SECOND;
    assert_eq!(worth(&record, &record.iterations[0]), Worth::Void);
}

#[test]
fn workers_that_share_a_cpu_wait_for_each_other() {
    let share = |others_ns: u64| {
        let mut record = here();
        let run = &mut record.iterations[0];
        let worker = run.measured.generator.workers[0].clone();
        run.measured.generator.workers = vec![worker.clone(), worker];
        for worker in &mut run.measured.generator.workers {
            worker.run_queue_ns = Some(240 * SECOND);
        }
        run.host.as_mut().unwrap().others.as_mut().unwrap().cpu_ns = others_ns;
        worth(&record, &record.iterations[0])
    };
    assert_eq!([share(0), share(60 * SECOND)], [Worth::Clean, Worth::Void]);
}

/// Four windows of equal length, of a level of their own.
fn short(window_ns: u64) -> RunRecord {
    let mut record = here();
    for run in record.iterations.iter_mut().take(4) {
        run.clients = 21;
        run.measured.window_ns = window_ns;
        run.server.as_mut().unwrap().user_ns = window_ns / 2;
        let worker = &mut run.measured.generator.workers[0];
        (worker.user_ns, worker.system_ns) = (window_ns / 4, window_ns / 4);
    }
    record
}

#[test]
fn a_window_of_any_length_is_judged_by_the_same_shares() {
    for window_ns in [SECOND / 1000, SECOND / 20, SECOND - 1, SECOND, 600 * SECOND] {
        let worth_of = |share: u64| {
            let mut record = short(window_ns);
            for run in record.iterations.iter_mut().take(4) {
                run.measured.generator.workers[0].run_queue_ns = Some((window_ns * share).div_ceil(1000));
            }
            worth(&record, &record.iterations[0])
        };
        let worths = [19, 20, 49, 50].map(worth_of);
        assert_eq!(worths, [Worth::Clean, Worth::Disturbed, Worth::Disturbed, Worth::Void], "{window_ns} ns");
        // Of the server, too, whose CPUs' ticks say nothing of so short a time.
        let mut record = short(window_ns);
        record.iterations.iter_mut().take(4).for_each(|run| take_from_server(run, window_ns / 10));
        assert_eq!(worth(&record, &record.iterations[0]), Worth::Void, "{window_ns} ns");
    }
}

#[test]
fn short_windows_of_a_level_are_judged_on_their_sum_and_told_once() {
    let mut record = short(SECOND / 20);
    // A tenth of one of four is 2.5 % of all.
    record.iterations[2].measured.generator.workers[0].run_queue_ns = Some(SECOND / 200);
    let verdict = of_record(&record);
    assert_eq!((verdict.standing, verdict.reasons.len()), (Standing::Noisy, 0), "{:?}", verdict.reasons);
    let [doubt] = &verdict.doubts[..] else { panic!("{:?}", verdict.doubts) };
    assert_eq!(
        doubt.sentence,
        "21 clients, all 4 timed runs: worker 0 of the load generator on CPU 1 lost 2.5 % of its CPU time: other programs used \
         it"
    );
    assert_eq!((doubt.cause, doubt.iteration), (Cause::Disturbed, None));
    // A void window, which is no iteration any more, is judged by itself.
    let void = record.iterations[2].clone();
    assert_eq!(losses(&record, &void)[0].worth, Worth::Void);
}

#[test]
fn a_short_window_that_was_crowded_is_told_by_itself() {
    let mut record = short(SECOND / 20);
    // Of two CPUs the test left half of 100 ms.
    let others = OthersUse { cpu_ns: SECOND / 100, ..OthersUse::default() };
    record.iterations[1].host.as_mut().unwrap().others = Some(others);
    let verdict = of_record(&record);
    let [doubt] = &verdict.doubts[..] else { panic!("{:?}", verdict.doubts) };
    assert_eq!((doubt.cause, doubt.iteration), (Cause::Crowded, Some(1)));
    assert_eq!(doubt.limit, "8 %");
    assert_eq!(
        doubt.sentence,
        "21 clients, iteration 1: other programs used 20 % of what the test left of its CPUs; a request may have cost up to 12 % \
         more CPU time"
    );
}

#[test]
fn what_nobody_saw_is_not_called_sound() {
    let of_delay = |window_ns: u64, delay_ns: u64| {
        let mut record = short(window_ns);
        let runs = record.iterations.iter_mut().take(4);
        runs.for_each(|run| run.host.as_mut().unwrap().opening_delay_ns = delay_ns);
        of_record(&record)
    };
    let told = |verdict: &Verdict| verdict.reasons.iter().chain(&verdict.doubts).map(|it| it.cause).next();
    let ms = SECOND / 1000;
    assert_eq!(told(&of_delay(500 * ms, 9 * ms)), None);
    assert_eq!(of_delay(500 * ms, 10 * ms).standing, Standing::Noisy);
    let late = of_delay(50 * ms, 10 * ms);
    assert_eq!((late.standing, told(&late)), (Standing::Noisy, Some(Cause::Unjudged)));
    let half = of_delay(50 * ms, 26 * ms);
    assert_eq!(
        half.levels.iter().find(|level| level.clients == 21).unwrap().standing,
        Standing::Inconclusive
    );
    assert_eq!(
        late.doubts[0].sentence,
        "21 clients, all 4 timed runs: what the server lost cannot be judged: its counters were first read when 20.0 % of the \
         window was over"
    );
    let mut record = here();
    record.iterations[1].server_missing = Some("its counters were read over 4.20 s".to_owned());
    let missing = of_record(&record);
    assert_eq!(told(&missing), Some(Cause::Unjudged));
    assert_eq!(missing.of_level(record.iterations[1].level()), Standing::Inconclusive);
    // Such a window is repeated, unless it is the server that ended.
    assert_eq!(worth(&record, &record.iterations[1]), Worth::Void);
    record.iterations[1].server_ended = true;
    assert_eq!(worth(&record, &record.iterations[1]), Worth::Disturbed);
    assert_eq!(of_record(&record).of_level(record.iterations[1].level()), Standing::Noisy);
}

#[test]
fn noise_widens_the_interval_until_nothing_can_be_concluded() {
    let verdict = |stalled_s: u64| {
        let mut record = here();
        for run in record.iterations.iter_mut().filter(|run| run.clients == 20) {
            let worker = &mut run.measured.generator.workers[0];
            // Far less than was left to it.
            (worker.user_ns, worker.stalled_ns) = (100 * SECOND, stalled_s * SECOND);
        }
        let level = record.iterations[0].level();
        let verdict = of_record(&record);
        assert_eq!(verdict.reasons, []);
        assert!(
            verdict.levels.iter().filter(|other| other.level() != level).all(|other| other.noise.is_none())
        );
        (verdict.of_level(level), verdict.noise_of(level).and_then(|noise| noise.factor), verdict)
    };
    let (standing, factor, clean) = verdict(11);
    assert_eq!((standing, factor, clean.doubts.len()), (Standing::Sound, None, 0));
    let (standing, factor, noisy) = verdict(60);
    assert_eq!((standing, noisy.standing), (Standing::Noisy, Standing::Noisy));
    assert!((factor.unwrap() - 1.0 / 0.9).abs() < 1e-9, "a tenth was taken: {factor:?}");
    assert_eq!((&*noisy.doubts[0].measured, &*noisy.doubts[0].limit), ("10.0 %", "2 %"));
    assert_eq!(verdict(299).0, Standing::Noisy);
    let (standing, factor, one) = verdict(301);
    assert_eq!(standing, Standing::Inconclusive);
    assert!(factor.unwrap() > 2.0);
    assert_eq!(one.standing, Standing::Noisy, "the other levels tell something");
}

#[test]
fn a_schedule_has_no_bound_on_what_noise_cost() {
    let verdict = |stalled_s: u64| {
        let mut record = here();
        for run in record.iterations.iter_mut().filter(|run| run.clients == 20) {
            run.rate = Some("100".parse().unwrap());
            run.measured.generator.workers[0].stalled_ns = stalled_s * SECOND;
        }
        let level = record.iterations[0].level();
        let verdict = of_record(&record);
        (verdict.of_level(level), verdict.noise_of(level).and_then(|noise| noise.factor))
    };
    assert_eq!(verdict(11), (Standing::Sound, None));
    assert_eq!(verdict(29), (Standing::Noisy, None));
    assert_eq!(verdict(30), (Standing::Inconclusive, None));
}

#[test]
fn a_worker_that_lacked_its_cpu_may_be_the_bottleneck_all_the_same() {
    let verdict = |used_s: u64, waited_s: u64| {
        let mut record = here();
        let worker = &mut record.iterations[0].measured.generator.workers[0];
        (worker.user_ns, worker.system_ns, worker.run_queue_ns) =
            (used_s * SECOND, 0, Some(waited_s * SECOND));
        of_record(&record)
            .reasons
            .iter()
            .map(|reason| (reason.cause, reason.measured.clone()))
            .collect::<Vec<_>>()
    };
    let saturated = |measured: &str| vec![(Cause::GeneratorSaturated, measured.to_owned())];
    assert_eq!(verdict(539, 0), []);
    assert_eq!(verdict(540, 0), saturated("90.0 %"));
    // Of 300 s that it could have had it used 240.
    assert_eq!(verdict(240, 300), []);
    assert_eq!(verdict(270, 300), saturated("90.0 %"));
}

#[test]
fn iterations_that_differ_too_much_allow_no_conclusion() {
    let with_last = |succeeded: u64| {
        let mut record = here();
        let runs = record.iterations.iter_mut().filter(|run| run.clients == 20);
        runs.last().unwrap().measured.counts.succeeded = succeeded;
        of_record(&record)
    };
    let as_the_others = here().iterations[0].measured.counts.succeeded;
    assert_eq!(with_last(as_the_others).doubts, []);
    let apart = with_last(as_the_others * 9);
    assert_eq!(apart.of_level(here().iterations[0].level()), Standing::Inconclusive);
    assert_eq!(apart.doubts[0].cause, Cause::Imprecise);
    assert!(apart.doubts[0].sentence.contains("nothing can be concluded"), "{:?}", apart.doubts);
}

/// One thing that may happen to a window on a busy machine.
#[derive(Clone, Debug)]
enum Happens {
    ToWorker(u64),
    ToServer(u64),
    StealFromWorker(u64),
    StealFromServer(u64),
    Stall(u64),
    Watch(u64),
    /// The work takes longer, where a CPU is watched.
    Slow(u64),
    Quota(u64),
    Heat(u64),
    Suspend(u64),
    /// The server is sampled later.
    Late(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    // Any order of magnitude, as windows have any length.
    let ns = || (0_u32..30, 0.0..400.0).prop_map(|(halvings, s)| (s * SECOND as f64) as u64 >> halvings);
    prop_oneof![
        ns().prop_map(Happens::ToWorker),
        ns().prop_map(Happens::ToServer),
        ns().prop_map(Happens::StealFromWorker),
        ns().prop_map(Happens::StealFromServer),
        ns().prop_map(Happens::Stall),
        ns().prop_map(Happens::Watch),
        (1_u64..10_000).prop_map(Happens::Slow),
        ns().prop_map(Happens::Quota),
        ns().prop_map(Happens::Heat),
        ns().prop_map(Happens::Suspend),
        ns().prop_map(Happens::Late),
    ]
}

fn disturb(run: &mut webstone_model::record::IterationRecord, what: &Happens) {
    let worker = &mut run.measured.generator.workers[0];
    let host = run.host.as_mut().unwrap();
    match *what {
        Happens::ToWorker(ns) => {
            *worker.run_queue_ns.get_or_insert(0) += ns;
            host.others.get_or_insert_default().cpu_ns += ns;
            host.cpus[1].busy_ns += ns;
        }
        Happens::ToServer(ns) => take_from_server(run, ns),
        Happens::StealFromWorker(ns) => host.cpus[1].stolen_ns += ns,
        Happens::StealFromServer(ns) => host.cpus[0].stolen_ns += ns,
        Happens::Stall(ns) => {
            worker.stalled_ns += ns;
            worker.stalled_ns_max = worker.stalled_ns_max.max(ns);
        }
        Happens::Watch(ns) => {
            host.watched.push(CpuWatch { cpu: 0, stalled_ns: ns, stalled_ns_max: ns, ..CpuWatch::default() });
        }
        Happens::Slow(ns) => host.watched.iter_mut().for_each(|watch| watch.work_ns_median += ns),
        Happens::Quota(ns) => *host.throttled_ns.get_or_insert(0) += ns,
        Happens::Heat(ns) => host.cpus[1].heat_ns += ns,
        Happens::Suspend(ns) => host.suspended_ns += ns,
        Happens::Late(ns) => host.opening_delay_ns += ns,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn more_disturbance_never_gives_a_better_verdict(
        shares in any::<bool>(),
        ours in any::<bool>(),
        lengths in prop::collection::vec(
            prop_oneof![100_000..SECOND, SECOND..10 * SECOND, Just(600 * SECOND)], 4
        ),
        happened in prop::collection::vec((0_usize..4, happens()), 1..12),
    ) {
        let mut record = here();
        for (run, window_ns) in record.iterations.iter_mut().zip(lengths) {
            run.clients = 20;
            run.measured.window_ns = window_ns;
        }
        if shares {
            record.target.cpus = vec![0, 1];
        }
        if !ours {
            record.target.embedded = false;
            record.environment.insert("target.this_host".into(), serde_json::json!(true));
        }
        // Run rules, which take long to judge, do not depend on any of this.
        let judged = |record: &RunRecord| {
            let (reasons, doubts) = reasons::reasons(record);
            let levels = levels::judged(record, &reasons, &doubts, Standing::Sound);
            let bound = levels.iter().find(|level| level.clients == 20).and_then(|level| level.noise);
            // Unbounded is wider than any bound.
            let factor = bound.map_or(1.0, |noise| noise.factor.unwrap_or(f64::INFINITY));
            let at_20 = levels.iter().find(|level| level.clients == 20).map(|level| level.standing);
            (levels::together(&levels, &reasons, Standing::Sound), at_20, factor)
        };
        let mut before = judged(&record);
        let mut worths: Vec<Worth> = record.iterations.iter().map(|run| worth(&record, run)).collect();
        for (place, what) in happened {
            disturb(&mut record.iterations[place], &what);
            let now = worth(&record, &record.iterations[place]);
            prop_assert!(now >= worths[place], "{what:?}: {:?} to {now:?}", worths[place]);
            worths[place] = now;
            let now = judged(&record);
            // An invalid level has no bound.
            let is_wider = now.2 >= before.2 * (1.0 - 1e-12) || now.1 == Some(Standing::Invalid);
            let is_worse = now.0 >= before.0 && now.1 >= before.1 && is_wider;
            prop_assert!(is_worse, "{what:?}: {before:?} to {now:?}");
            before = now;
        }
    }
}
