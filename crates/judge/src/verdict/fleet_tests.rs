//! A load that several hosts make: which loss is whose, and that nothing that goes wrong on a host improves a verdict.

use proptest::prelude::*;

use super::disturbance::losses;
use super::tests::{SECOND, valid};
use super::*;
use crate::calibration;
use serde_json::json;
use webstone_model::fixture::split;
use webstone_model::generators::{GeneratorHost, GeneratorLoss};
use webstone_model::kubernetes::PodsOfJob;
use webstone_model::record::{AgentRecord, CpuUse, HostUse, IterationRecord, LinkUse, OthersUse, TcpUse};

/// Three hosts with a worker on CPU 1 each, windows of 600 s; the controller has nothing to do with the load.
fn fleet() -> RunRecord {
    let mut record = valid();
    for run in &mut record.iterations {
        let host = run.host.as_mut().unwrap();
        host.others = Some(OthersUse::default());
        host.cpus = [0, 1]
            .map(|cpu| CpuUse { cpu, busy_ns: 300 * SECOND, idle_ns: 300 * SECOND, ..CpuUse::default() })
            .to_vec();
        run.measured.response.merge(&run.measured.response.clone());
        run.measured.counts.connections = run.measured.counts.succeeded;
    }
    split(&mut record, 3);
    for host in &mut record.generators {
        host.version.clone_from(&record.tool.version);
    }
    record.target.agents =
        vec![AgentRecord { cpus: vec![0], boot: Some("the server's".into()), ..AgentRecord::default() }];
    record
}

fn told(change: impl FnOnce(&mut IterationRecord)) -> Vec<(Worth, String)> {
    let mut record = fleet();
    change(&mut record.iterations[0]);
    losses(&record, &record.iterations[0]).iter().map(|loss| (loss.worth, loss.sentence())).collect()
}

fn host(run: &mut IterationRecord, generator: usize) -> &mut HostUse {
    run.parts[generator].host.as_mut().unwrap()
}

fn standing(record: &RunRecord, id: &str) -> (RuleStanding, String) {
    let rule = rules(record).into_iter().find(|rule| rule.id == id).unwrap();
    (rule.standing, rule.evidence)
}

#[test]
fn nothing_that_went_wrong_is_clean() {
    assert_eq!(told(|_| ()), []);
    let verdict = of_record(&fleet());
    assert_eq!((verdict.reasons, verdict.doubts), (vec![], vec![]));
}

/// Separate hosts, each calibrated, that met every rule.
fn certifiable() -> RunRecord {
    let mut record = fleet();
    // The controller's calibration is not a generator's; these hosts are like it.
    let calibration = record.environment.remove(calibration::KEY).unwrap();
    for host in &mut record.generators {
        host.environment.insert(calibration::KEY.to_owned(), calibration.clone());
    }
    record
}

#[test]
fn a_run_from_separate_hosts_that_meets_every_rule_is_valid() {
    let verdict = of_record(&certifiable());
    assert_eq!((verdict.standing, verdict.unmet_rules), (Standing::Valid, vec![]));
    let all = rules(&certifiable());
    assert_eq!(all.len(), rules(&valid()).len() + 2);
    // And with one host that shares the server's kernel, or is not calibrated, it is not.
    let unmet = |change: &dyn Fn(&mut RunRecord)| {
        let mut record = certifiable();
        change(&mut record);
        let verdict = of_record(&record);
        assert_eq!(verdict.standing, Standing::Sound);
        verdict
            .unmet_rules
            .into_iter()
            .map(|rule| (rule.id, rule.standing, rule.evidence))
            .collect::<Vec<_>>()
    };
    let of_one = |id: &str, standing, evidence: &str| vec![(id.to_owned(), standing, evidence.to_owned())];
    assert_eq!(
        unmet(&|record| record.generators[1].boot = Some("the server's".into())),
        of_one(
            "separate-hosts",
            RuleStanding::NotMet,
            "the server's agent runs on the machine of generator 2"
        )
    );
    assert_eq!(
        unmet(&|record| drop(record.generators[2].environment.remove(calibration::KEY))),
        of_one(
            "calibration",
            RuleStanding::NotMet,
            "generator 3 was not calibrated; run `webstone calibrate` there"
        )
    );
}

#[test]
fn each_host_answers_for_its_own_workers() {
    let worker = "worker 0 of generator 2 on CPU 1 lost";
    assert_eq!(
        told(|run| run.measured.generator.workers[1].run_queue_ns = Some(60 * SECOND)),
        [(Worth::Void, format!("{worker} 10.0 % of its CPU time: other programs used it"))]
    );
    assert_eq!(
        told(|run| host(run, 1).cpus[1].stolen_ns = 18 * SECOND),
        [(
            Worth::Disturbed,
            format!("{worker} 3.0 % of its CPU time: the hypervisor took it, or the process was stopped")
        )]
    );
    let throttled = told(|run| host(run, 2).throttled_ns = Some(30 * SECOND));
    assert_eq!(
        throttled,
        [(
            Worth::Void,
            "worker 0 of generator 3 on CPU 1 lost 5.0 % of its CPU time: a CPU quota of its control group throttled it"
                .to_owned()
        )]
    );
    assert_eq!(told(|run| host(run, 0).cpus[0].stolen_ns = 600 * SECOND), [], "a CPU without a worker");
    assert_eq!(
        told(|run| run.host.as_mut().unwrap().cpus[1].stolen_ns = 600 * SECOND),
        [],
        "the controller makes no load"
    );
}

#[test]
fn cpus_of_different_hosts_are_different_cpus() {
    // Worker and server have the number 0 on hosts of their own: what the worker waited for was not the server.
    let waits = |has_server: Option<bool>| {
        let mut record = fleet();
        record.generators[1].has_server = has_server;
        let run = &mut record.iterations[0];
        run.measured.generator.workers[1].cpu = Some(0);
        run.measured.generator.workers[1].run_queue_ns = Some(60 * SECOND);
        worth(&record, &record.iterations[0])
    };
    assert_eq!([waits(Some(false)), waits(None)], [Worth::Void; 2]);
    assert_eq!(waits(Some(true)), Worth::Clean, "the server may wait for the worker, and the worker for it");
    // Two workers with one number on two hosts do not share a CPU either: each waited for somebody else.
    let both = told(|run| {
        for worker in &mut run.measured.generator.workers {
            worker.run_queue_ns = Some(60 * SECOND);
        }
    });
    assert_eq!(both.len(), 3);
}

#[test]
fn a_host_that_was_lost_makes_the_run_void_and_a_record_that_keeps_it_incomplete() {
    let lose = |run: &mut IterationRecord| {
        run.lost = Some(GeneratorLoss { generator: 1, why: "ended: killed by signal 9".to_owned() });
    };
    let sentence = "generator 2 (ssh gen2 webstone agent) was lost: ended: killed by signal 9";
    assert_eq!(told(lose), [(Worth::Void, sentence.to_owned())]);
    // However short the window, and before whatever else was wrong.
    let short = told(|run| {
        lose(run);
        run.measured.window_ns = SECOND / 10;
        run.measured.generator.workers[0].stalled_ns_max = 2 * SECOND;
    });
    assert_eq!((short.len(), &short[0].1[..]), (2, sentence));
    let mut record = fleet();
    lose(&mut record.iterations[2]);
    let verdict = of_record(&record);
    assert_eq!(verdict.standing, Standing::Invalid);
    let [reason] = &verdict.reasons[..] else { panic!("{:?}", verdict.reasons) };
    assert_eq!((reason.cause, reason.iteration), (Cause::Incomplete, Some(1)));
    assert_eq!(
        reason.sentence,
        format!(
            "40 clients, iteration 1: {sentence}; what is here is the others' alone, and was not repeated"
        )
    );
}

#[test]
fn windows_that_open_apart_make_the_run_void() {
    let apart = |skew_ns: i64, bound_ns: u64, window_ns: u64| {
        told(move |run| {
            run.measured.window_ns = window_ns;
            let part = &mut run.parts[1];
            (part.opening_skew_ns, part.clock.bound_ns) = (skew_ns, bound_ns);
        })
    };
    // A thousandth of 600 s is more than 5 ms.
    assert_eq!(apart(599_000_000, 1_000_000, 600 * SECOND), []);
    assert_eq!(
        apart(599_000_000, 1_000_001, 600 * SECOND)[0].1,
        "generator 2 opened its window 599.000 ms late, within 1.000 ms (limit 600.000 ms)"
    );
    assert_eq!(apart(4_900_000, 100_000, SECOND), []);
    let early = apart(-7_300_000, 100_000, SECOND);
    assert_eq!(
        early,
        [(
            Worth::Void,
            "generator 2 opened its window 7.300 ms early, within 0.100 ms (limit 5.000 ms)"
                .replace("0.100 ms", "100.0 µs")
        )]
    );
    assert_eq!(
        apart(0, 10_120_000, SECOND)[0].1,
        "generator 2 opened its window on time by a clock that is known within 10.120 ms (limit 5.000 ms)"
    );
    assert_eq!(apart(i64::MIN, u64::MAX, SECOND).len(), 1);
    let mut record = fleet();
    record.iterations[0].parts[2].opening_skew_ns = -700_000_000;
    let verdict = of_record(&record);
    assert_eq!(verdict.reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>(), [Cause::WindowsApart]);
    assert_eq!((&*verdict.reasons[0].measured, &*verdict.reasons[0].limit), ("700.100 ms", "600.000 ms"));
}

#[test]
fn parts_that_do_not_add_up_break_an_identity() {
    let mut record = fleet();
    record.iterations[0].parts[0].counts.succeeded -= 1;
    let verdict = of_record(&record);
    let [reason] = &verdict.reasons[..] else { panic!("{:?}", verdict.reasons) };
    assert_eq!(reason.cause, Cause::IdentityBroken);
    assert!(
        reason.sentence.contains("identity 5 is broken: counters: hosts = total: succeeded: "),
        "{reason:?}"
    );
}

#[test]
fn a_worker_at_its_limit_is_named_with_its_host() {
    let mut record = fleet();
    for run in &mut record.iterations {
        run.measured.generator.workers[2].user_ns = 570 * SECOND;
    }
    let verdict = of_record(&record);
    let sentence = &verdict.reasons[0].sentence;
    assert!(sentence.contains("worker 0 on CPU 1 of generator 3 used 95.0 % of its CPU"), "{sentence}");
    let limit = verdict.limit.sentence;
    assert!(
        limit.starts_with("A load generator is the bottleneck at ")
            && limit.contains("the busiest worker, 0 of generator 3, used 95 % of CPU 1"),
        "{limit}"
    );
}

#[test]
fn links_and_kernels_of_all_hosts_are_told() {
    let mut record = fleet();
    for run in &mut record.iterations {
        let of = |received_s: u64| LinkUse {
            name: "eth0".into(),
            speed_bps: Some(SECOND),
            received_bytes: received_s * 600 * 1_000_000,
            ..LinkUse::default()
        };
        for (place, mbyte_s) in [(0, 50), (1, 120), (2, 50)] {
            host(run, place).links = vec![of(mbyte_s)];
        }
    }
    let verdict = of_record(&record);
    assert_eq!(verdict.limit.resource, LimitingResource::Network);
    let told = "generator 2's eth0 received 960 Mbit/s, 96 % of the link's 1000";
    assert!(verdict.limit.sentence.contains(told), "{}", verdict.limit.sentence);
    let mut record = fleet();
    for run in &mut record.iterations {
        run.server = None;
        host(run, 1).tcp = Some(TcpUse { syn_retransmitted: 1, retransmitted: 1, ..TcpUse::default() });
    }
    let sentence = of_record(&record).limit.sentence;
    assert!(
        sentence.contains("generator 2's kernel counted 0 accept-queue overflows of any program and 4 of "),
        "{sentence}"
    );
    assert!(sentence.contains("generator 3's kernel counted"), "{sentence}");
}

#[test]
fn rules_count_hosts_and_compare_their_programs_and_openings() {
    let record = fleet();
    let of = |change: &dyn Fn(&mut RunRecord), id: &str| {
        let mut record = record.clone();
        change(&mut record);
        standing(&record, id)
    };
    let met = |text: &str| (RuleStanding::Met, text.to_owned());
    assert_eq!(of(&|_| (), "load-generators"), met("3 hosts, 3 workers, Example"));
    let twins =
        of(&|record| record.generators[2].boot = record.generators[0].boot.clone(), "load-generators");
    assert_eq!(twins, met("3 agents on 2 hosts, 3 workers, Example"));
    let pods_of_one_machine = |record: &mut RunRecord| {
        let pods = PodsOfJob { pods: 3, share_nodes: true, ..PodsOfJob::default() };
        record.spec.generators = vec![GeneratorHost { kubernetes: Some(pods), ..GeneratorHost::default() }];
        record.generators[2].boot = record.generators[0].boot.clone();
    };
    assert_eq!(
        of(&pods_of_one_machine, "load-generators"),
        (
            RuleStanding::NotMet,
            "3 agents on 2 hosts: pods shared a machine (share_nodes), and slowed each other down".to_owned()
        )
    );
    let allowed_in_vain = |record: &mut RunRecord| {
        pods_of_one_machine(record);
        record.generators[2].boot = Some("its own".to_owned());
    };
    assert_eq!(of(&allowed_in_vain, "load-generators").0, RuleStanding::Met);
    assert_eq!(of(&|record| record.generators[1].boot = None, "load-generators").0, RuleStanding::CannotTell);
    let nameless = |record: &mut RunRecord| record.generators[1].environment.clear();
    assert_eq!(of(&nameless, "load-generators").0, RuleStanding::NotMet);

    assert_eq!(of(&|_| (), "same-program").0, RuleStanding::Met);
    let (standing, evidence) =
        of(&|record| record.generators[2].program_sha256 = "other".into(), "same-program");
    assert_eq!(
        (standing, &*evidence),
        (RuleStanding::NotMet, "generator 3 ran another program than generator 1")
    );
    assert_eq!(
        of(&|record| record.generators[0].version = "2".into(), "same-program").0,
        RuleStanding::NotMet
    );
    assert_eq!(
        of(&|record| record.generators[0].program_sha256.clear(), "same-program").0,
        RuleStanding::CannotTell
    );

    let (standing, evidence) =
        of(&|record| record.iterations[1].parts[1].opening_skew_ns = -900_000, "aligned-windows");
    assert_eq!(
        (standing, &*evidence),
        (
            RuleStanding::Met,
            "30 clients, iteration 1: generator 2 900.0 µs early, within 100.0 µs at worst (limit 600.000 ms)"
        )
    );
    let late = of(&|record| record.iterations[1].parts[1].opening_skew_ns = 600_000_000, "aligned-windows");
    assert_eq!(late.0, RuleStanding::NotMet);
    assert_eq!(
        of(&|record| record.iterations.iter_mut().for_each(|run| run.parts.clear()), "aligned-windows").0,
        RuleStanding::CannotTell
    );
    assert_eq!(
        of(&|_| (), "calibration").1,
        "generator 1 was not calibrated; run `webstone calibrate` there"
    );
    let alone = rules(&valid());
    assert!(alone.iter().all(|rule| rule.id != "same-program" && rule.id != "aligned-windows"));
}

#[test]
fn hosts_are_separate_only_by_their_boots() {
    let record = fleet();
    let of = |change: &dyn Fn(&mut RunRecord)| {
        let mut record = record.clone();
        change(&mut record);
        standing(&record, "separate-hosts").0
    };
    assert_eq!(of(&|_| ()), RuleStanding::Met);
    let servers = |record: &mut RunRecord| record.generators[1].boot = Some("the server's".into());
    assert_eq!(of(&servers), RuleStanding::NotMet);
    assert_eq!(of(&|record| record.generators[1].has_server = Some(true)), RuleStanding::NotMet);
    assert_eq!(of(&|record| record.generators[1].boot = None), RuleStanding::CannotTell);
    assert_eq!(of(&|record| record.target.agents.clear()), RuleStanding::CannotTell);
    assert_eq!(of(&|record| record.target.agents[0].boot = None), RuleStanding::CannotTell);
    // Another address is no evidence.
    let address = |record: &mut RunRecord| {
        record.target.agents.clear();
        record.environment.insert("target.this_host".into(), json!(false));
    };
    assert_eq!(of(&address), RuleStanding::CannotTell);
}

/// One thing that may happen on a host.
#[derive(Clone, Debug)]
enum Happens {
    Queue(u64),
    Steal(u64),
    Stall(u64),
    Quota(u64),
    Heat(u64),
    Suspend(u64),
    Skew(u64),
    Bound(u64),
    Loss,
}

fn happens() -> impl Strategy<Value = Happens> {
    let ns = || 0..400 * SECOND;
    let skew = || prop_oneof![0..1_000_000_000_u64, 0..2_000_000_u64];
    prop_oneof![
        ns().prop_map(Happens::Queue),
        ns().prop_map(Happens::Steal),
        ns().prop_map(Happens::Stall),
        ns().prop_map(Happens::Quota),
        ns().prop_map(Happens::Heat),
        ns().prop_map(Happens::Suspend),
        skew().prop_map(Happens::Skew),
        skew().prop_map(Happens::Bound),
        Just(Happens::Loss),
    ]
}

fn disturb(run: &mut IterationRecord, generator: usize, what: &Happens) {
    let worker = &mut run.measured.generator.workers[generator];
    let part = &mut run.parts[generator];
    let host = part.host.as_mut().unwrap();
    match *what {
        Happens::Queue(ns) => {
            *worker.run_queue_ns.get_or_insert(0) += ns;
            host.others.get_or_insert_default().cpu_ns += ns;
        }
        Happens::Steal(ns) => host.cpus[1].stolen_ns += ns,
        Happens::Stall(ns) => {
            worker.stalled_ns += ns;
            worker.stalled_ns_max = worker.stalled_ns_max.max(ns);
        }
        Happens::Quota(ns) => *host.throttled_ns.get_or_insert(0) += ns,
        Happens::Heat(ns) => host.cpus[1].heat_ns += ns,
        Happens::Suspend(ns) => host.suspended_ns += ns,
        Happens::Skew(ns) => {
            let away = if part.opening_skew_ns < 0 { -1 } else { 1 };
            part.opening_skew_ns += away * ns as i64;
        }
        Happens::Bound(ns) => part.clock.bound_ns += ns,
        Happens::Loss => {
            run.lost = Some(GeneratorLoss { generator: generator as u32, why: "silent for 15 s".to_owned() });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn more_disturbance_skew_or_loss_on_any_host_never_gives_a_better_verdict(
        beside_the_server in any::<bool>(),
        early in any::<bool>(),
        window_ms in prop_oneof![Just(600_000_u64), 100_u64..5_000],
        happened in prop::collection::vec((0_usize..4, 0_usize..3, happens()), 1..12),
    ) {
        let mut record = fleet();
        record.generators[1].has_server = Some(beside_the_server);
        for run in &mut record.iterations {
            run.measured.window_ns = window_ms * 1_000_000;
            run.parts[0].opening_skew_ns *= if early { -1 } else { 1 };
        }
        let judged = |record: &RunRecord| {
            let (reasons, doubts) = reasons::reasons(record);
            (!reasons.is_empty(), !doubts.is_empty() || !reasons.is_empty())
        };
        let mut before = judged(&record);
        let mut worths: Vec<Worth> = record.iterations.iter().map(|run| worth(&record, run)).collect();
        for (place, generator, what) in happened {
            disturb(&mut record.iterations[place], generator, &what);
            let now = worth(&record, &record.iterations[place]);
            prop_assert!(now >= worths[place], "{what:?}: {:?} to {now:?}", worths[place]);
            worths[place] = now;
            let now = judged(&record);
            prop_assert!(now >= before, "{what:?}: {before:?} to {now:?}");
            before = now;
        }
    }

    #[test]
    fn hosts_that_differ_by_noise_are_not_named(
        noise in prop::collection::vec(prop::collection::vec(-0.08_f64..0.08, 36), 2..12),
    ) {
        let mut record = valid();
        split(&mut record, noise.len() as u32);
        for (place, run) in record.iterations.iter_mut().enumerate() {
            for (part, noise) in run.parts.iter_mut().zip(&noise) {
                part.response_p50_ns = (1e6 * (1.0 + noise[place] / 2.0)) as u64;
                part.counts.succeeded = (1e6 * (1.0 + noise[place] / 2.0)) as u64;
                part.clients = 10;
            }
        }
        prop_assert_eq!(differing(&record), vec![]);
    }
}

#[test]
fn a_host_that_differs_in_every_timed_run_is_named_with_its_evidence() {
    let with = |hosts: u32, times: [u64; 4]| {
        let mut record = valid();
        for run in &mut record.iterations {
            run.measured.response.count = 3;
        }
        split(&mut record, hosts);
        for run in record.iterations.iter_mut().filter(|run| run.clients == 30) {
            for part in &mut run.parts {
                part.response_p50_ns = 2_000_000 + u64::from(part.generator) * 10_000;
            }
            run.parts[1].response_p50_ns = times[run.iteration as usize - 1];
        }
        // If clients cannot be divided evenly among three hosts, rates differ.
        let mut found = differing(&record);
        found.retain(|found| found.quantity == "median latency");
        found
    };
    let [found] = &with(3, [2_500_000, 2_400_000, 2_300_000, 2_600_000])[..] else { panic!() };
    assert_eq!((found.generator, found.clients, found.iterations), (1, 30, 4));
    assert_eq!(
        found.sentence,
        "30 clients: the median latency of generator 2 (ssh gen2 webstone agent) was 13 % or more above the median of all \
         hosts in each of 4 timed runs"
    );
    assert_eq!(with(3, [2_500_000, 2_400_000, 2_050_000, 2_600_000]), [], "not in every timed run");
    assert_eq!(with(3, [2_500_000, 2_400_000, 1_500_000, 2_600_000]), [], "once on the other side");
    assert_eq!(with(2, [2_500_000; 4]), [], "of two nobody can tell which differs");
    let below = with(3, [1_000_000; 4]);
    assert!(below[0].sentence.contains("50 % or more below"), "{below:?}");
}

#[test]
fn a_rate_per_client_that_differs_is_named_too() {
    let mut record = valid();
    split(&mut record, 4);
    for run in &mut record.iterations {
        run.parts[3].counts.succeeded /= 2;
    }
    let found = differing(&record);
    assert_eq!(found.len(), 9, "each level: {found:?}");
    assert!(
        found.iter().all(|it| it.generator == 3 && it.quantity == "rate per client" && it.percent < -40.0)
    );
}
