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
fn worked(works: [(u64, u64); 4]) -> RunRecord {
    let mut record = here();
    for (place, (run, (mean, best))) in record.iterations.iter_mut().zip(works).enumerate() {
        run.clients = 20;
        run.started_at = format!("2026-01-01T00:{:02}:00.000Z", 10 * place);
        run.host.as_mut().unwrap().watched =
            vec![CpuWatch { cpu: 0, work_ns_median: mean, work_ns_best: best, ..CpuWatch::default() }];
    }
    record
}

#[test]
fn a_cpu_is_held_against_itself_at_its_best_in_the_level() {
    let worths = |record: &RunRecord| -> Vec<Worth> {
        record.iterations.iter().take(4).map(|run| worth(record, run)).collect()
    };
    let quiet = worked([(5_200, 5_100), (5_100, 5_000), (5_250, 5_100), (5_299, 5_050)]);
    assert_eq!(worths(&quiet), [Worth::Clean; 4]);
    let slowed = worked([(5_200, 5_000), (5_300, 5_100), (5_520, 5_200), (5_449, 5_100)]);
    assert_eq!(worths(&slowed), [Worth::Clean, Worth::Disturbed, Worth::Void, Worth::Disturbed]);
    let told = losses(&slowed, &slowed.iterations[2]);
    let sentence = "the server's CPU 0 was 10 % slower than at its best in this level: something shares its core or its \
                    caches, or its clock fell";
    assert_eq!(told.iter().map(Loss::sentence).collect::<Vec<_>>(), [sentence]);
    let verdict = of(&slowed);
    let causes = |reasons: &[Reason]| reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>();
    assert_eq!(
        (causes(&verdict.reasons), causes(&verdict.doubts)),
        (vec![Cause::Slowed], vec![Cause::Slowed; 2])
    );
    assert_eq!((&*verdict.reasons[0].measured, &*verdict.reasons[0].limit), ("10.4 %", "9 %"));
    let barely = of(&worked([(5_200, 5_000), (5_302, 5_100), (5_200, 5_000), (5_200, 5_000)]));
    assert_eq!((&*barely.doubts[0].measured, &*barely.doubts[0].limit), ("6.04 %", "6 %"), "not 6.0 %");
    // What only later windows show comes too late for a repetition, and still leaves doubt.
    let late = worked([(6_500, 6_400), (6_500, 6_400), (5_100, 5_000), (5_100, 5_000)]);
    assert_eq!(worths(&late), [Worth::Disturbed, Worth::Disturbed, Worth::Clean, Worth::Clean]);
    // Of another level, or of a CPU that had little to do, nothing follows.
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

#[test]
fn short_windows_are_judged_by_stops_alone() {
    let short = |stalled_ns_max: u64| {
        of_first(|run| {
            run.measured.window_ns = SECOND / 2;
            let worker = &mut run.measured.generator.workers[0];
            (worker.stalled_ns, worker.stalled_ns_max) = (stalled_ns_max, stalled_ns_max);
        })
    };
    assert_eq!(short(SECOND / 4), []);
    assert_eq!(short(SECOND)[0].worth, Worth::Void);
}

#[test]
fn a_window_that_is_void_condemns_and_a_disturbed_one_leaves_a_doubt() {
    let verdict = |stalled_s: u64| {
        let mut record = here();
        record.iterations[2].measured.generator.workers[0].stalled_ns = stalled_s * SECOND;
        of(&record)
    };
    let causes = |reasons: &[Reason]| reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>();
    let clean = verdict(11);
    assert_eq!((causes(&clean.reasons), causes(&clean.doubts)), (vec![], vec![]));
    let disturbed = verdict(12);
    assert_eq!(disturbed.standing, Standing::Disturbed);
    assert_eq!((causes(&disturbed.reasons), causes(&disturbed.doubts)), (vec![], vec![Cause::Disturbed]));
    assert_eq!(disturbed.told().len(), 1);
    let void = verdict(30);
    assert_eq!(void.standing, Standing::Invalid);
    assert_eq!((causes(&void.reasons), causes(&void.doubts)), (vec![Cause::Disturbed], vec![]));
    assert_eq!((&*void.reasons[0].measured, &*void.reasons[0].limit), ("5.0 %", "5 %"));
}

#[test]
fn iterations_that_differ_too_much_allow_no_conclusion() {
    let with_last = |succeeded: u64| {
        let mut record = here();
        let runs = record.iterations.iter_mut().filter(|run| run.clients == 20);
        runs.last().unwrap().measured.counts.succeeded = succeeded;
        of(&record)
    };
    let as_the_others = here().iterations[0].measured.counts.succeeded;
    assert_eq!(with_last(as_the_others).doubts, []);
    let apart = with_last(as_the_others * 9);
    assert_eq!(apart.standing, Standing::Disturbed);
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
}

fn happens() -> impl Strategy<Value = Happens> {
    let ns = || 0..400 * SECOND;
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
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn more_disturbance_never_gives_a_better_verdict(
        shares in any::<bool>(),
        ours in any::<bool>(),
        happened in prop::collection::vec((0_usize..4, happens()), 1..12),
    ) {
        let mut record = here();
        if shares {
            record.target.cpus = vec![0, 1];
        }
        if !ours {
            record.target.embedded = false;
            record.environment.insert("target.this_host".into(), serde_json::json!(true));
        }
        // Run rules, which take long to judge, look at nothing of this.
        let judged = |record: &RunRecord| {
            let (reasons, doubts) = reasons::reasons(record);
            (!reasons.is_empty(), !doubts.is_empty() || !reasons.is_empty())
        };
        let mut before = judged(&record);
        let mut worths: Vec<Worth> = record.iterations.iter().map(|run| worth(&record, run)).collect();
        for (place, what) in happened {
            disturb(&mut record.iterations[place], &what);
            let now = worth(&record, &record.iterations[place]);
            prop_assert!(now >= worths[place], "{what:?}: {:?} to {now:?}", worths[place]);
            worths[place] = now;
            let now = judged(&record);
            prop_assert!(now >= before, "{what:?}: {before:?} to {now:?}");
            before = now;
        }
    }
}
