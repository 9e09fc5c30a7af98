//! A record that is VALID, and one change at a time that makes it something else.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::calibration::{Calibration, CalibrationRow, HostIdentity, Mode};
use webstone_measure::identities::IdentityCheck;
use webstone_measure::metrics::{
    ClientTotals, GeneratorUse, Histogram, Measured, OpenLoop, Second, Seconds, WorkerUse,
};
use webstone_model::record::{
    Arm, DirectionUse, HostUse, IterationRecord, LinkUse, PathUse, RunState, SCHEMA_VERSION, ScheduleKept,
    ServerUse, TargetRecord, TcpUse, Tool,
};
use webstone_model::spec::{ConnectionPolicy, Levels, RunSpec};
use webstone_workload::builtin;

pub(super) const SECOND: u64 = 1_000_000_000;
const LEVELS: [u32; 9] = [20, 30, 40, 50, 60, 70, 80, 90, 100];

/// Ten minutes of 1,000 requests per second of 2 ms each, with a generator at a half and a server at 60 %.
fn iteration(clients: u32, iteration: u32) -> IterationRecord {
    let mut measured = Measured {
        window_ns: 600 * SECOND,
        generator: GeneratorUse {
            workers: vec![WorkerUse { cpu: Some(1), user_ns: 300 * SECOND, ..WorkerUse::default() }],
            ..GeneratorUse::default()
        },
        clients: vec![
            ClientTotals { pages: 1, requests: 1, response_ns: 2_000_000, ..Default::default() };
            20
        ],
        // A tenth of a percent apart, so that intervals have a length.
        seconds: Seconds(vec![
            Second { requests: 1000 + u64::from(iteration % 2), ..Second::default() };
            600
        ]),
        ..Measured::default()
    };
    measured.counts.succeeded = 600 * (1000 + u64::from(iteration % 2));
    measured.response.record(2_000_000);
    measured.histograms.response.record_n(2_000_000, measured.counts.succeeded);
    measured.generator.loop_delay.record_n(20_000, 1000);
    IterationRecord {
        clients,
        iteration,
        measured,
        identities: vec![IdentityCheck {
            number: 1,
            rule: "a = b".into(),
            evidence: "1 and 1".into(),
            holds: true,
        }],
        server: Some(ServerUse { user_ns: 360 * SECOND, ..ServerUse::default() }),
        arm: Some(if matches!(iteration % 4, 0 | 1) { Arm::A } else { Arm::B }),
        host: Some(HostUse {
            elapsed_ns: 600 * SECOND,
            tcp: Some(TcpUse { segments_sent: 5000, ..TcpUse::default() }),
            links: vec![LinkUse {
                name: "eth0".into(),
                speed_bps: Some(SECOND),
                received_bytes: 600 * 50_000_000,
                ..LinkUse::default()
            }],
            ..HostUse::default()
        }),
        ..IterationRecord::default()
    }
}

/// Meets every rule.
pub(super) fn valid() -> RunRecord {
    let mut spec = RunSpec { target: vec!["http://192.0.2.7/".into()], ..RunSpec::default() };
    spec.load.clients = Levels(LEVELS.to_vec());
    spec.load.iterations = 4;
    spec.load.aa = true;
    for key in [
        "server.configuration",
        "server.logging",
        "server.dns",
        "server.processes",
        "server.host",
        "topology",
    ] {
        spec.disclosure.insert(key.into(), format!("the {key}"));
    }
    let workload = builtin("standard").unwrap();
    calibrated(RunRecord {
        schema: SCHEMA_VERSION,
        id: "run".into(),
        tool: Tool { name: "webstone".into(), version: "1".into(), commit: Some("abc".into()) },
        started_at: String::new(),
        state: RunState::Complete,
        command_line: vec!["webstone".into()],
        spec,
        workload_sha256: workload.sha256(),
        workload,
        target: TargetRecord {
            server: Some("nginx/1.26.3".into()),
            cpus: vec![0],
            ..TargetRecord::default()
        },
        environment: BTreeMap::from([
            ("target.this_host".into(), json!(false)),
            ("cpu.model".into(), json!("Example")),
        ]),
        iterations: (1..=4).flat_map(|i| LEVELS.map(|clients| iteration(clients, i))).collect(),
        ..RunRecord::default()
    })
}

/// The record with a calibration that fits it.
fn calibrated(mut record: RunRecord) -> RunRecord {
    let workers = &record.iterations[0].measured.generator.workers;
    let row = |mode, requests_per_s, response_bytes| CalibrationRow {
        backend: workers[0].backend.clone(),
        workers: workers.len() as u32,
        ..CalibrationRow::sample(mode, requests_per_s, response_bytes)
    };
    let calibration = Calibration {
        made_at: "2026-11-21T17:00:00Z".to_owned(),
        tool: record.tool.clone(),
        host: HostIdentity::of_environment(&record.environment),
        shared_cpus: false,
        disturbance: None,
        rows: vec![
            row(Mode::KeepAlive, 100_000.0, 700.0),
            row(Mode::PerRequest, 20_000.0, 700.0),
            row(Mode::Large, 5_000.0, 500_700.0),
        ],
    };
    record.environment.insert("calibration".to_owned(), json!(calibration));
    record
}

fn calibrate(record: &mut RunRecord) {
    *record = calibrated(record.clone());
}

pub(super) fn changed(change: impl FnOnce(&mut RunRecord)) -> Verdict {
    let mut record = valid();
    change(&mut record);
    of_record(&record)
}

#[test]
fn a_run_that_meets_everything_is_valid() {
    let verdict = of_record(&valid());
    assert_eq!((verdict.standing, verdict.reasons, verdict.unmet_rules), (Standing::Valid, vec![], vec![]));
    assert!(
        rules(&valid()).iter().all(|rule| rule.standing == RuleStanding::Met && !rule.evidence.is_empty())
    );
}

#[track_caller]
fn invalid(change: impl FnOnce(&mut RunRecord), cause: Cause, sentence: &str) {
    let verdict = changed(change);
    assert_eq!(verdict.standing, Standing::Invalid);
    let causes: Vec<Cause> = verdict.reasons.iter().map(|reason| reason.cause).collect();
    assert_eq!(causes, [cause], "{:#?}", verdict.reasons);
    assert_eq!(verdict.reasons[0].sentence, sentence);
}

#[test]
fn a_path_that_was_another_than_was_asked_for_makes_it_invalid() {
    let relayed = |cpu_percent: u64, overflowed: u64, late_ns: u64, sentence: &str| {
        let way = DirectionUse { packets: 600_000, late_ns: 600_000 * late_ns, ..DirectionUse::default() };
        let used = PathUse {
            elapsed_ns: 600 * SECOND,
            cpu_ns: 6 * cpu_percent * SECOND,
            overflowed,
            to_server: way,
            to_clients: way,
        };
        let change = |record: &mut RunRecord| {
            record.spec.server.path = Some("rtt=40ms".parse().unwrap());
            record.iterations[0].host.as_mut().unwrap().path = Some(used);
        };
        match sentence {
            "" => assert_eq!(changed(change).reasons, []),
            sentence => invalid(
                change,
                Cause::PathSaturated,
                &format!(
                    "20 clients, iteration 1: the relay of the path {sentence}: results reflect the relay, not the path that was set"
                ),
            ),
        }
    };
    relayed(89, 0, 1_900_000, "");
    relayed(90, 0, 0, "used 90.0 % of a CPU (limit 90 %)");
    relayed(1, 3, 0, "lost 3 packets that it did not fetch in time (limit 0 packets)");
    relayed(1, 0, 2_100_000, "sent packets 2.100 ms late on average (limit 2.000 ms)");
}

#[test]
fn each_cause_makes_it_invalid_with_its_evidence() {
    invalid(
        |record| record.iterations[0].identities[0].holds = false,
        Cause::IdentityBroken,
        "20 clients, iteration 1: identity 1 is broken: a = b: 1 and 1",
    );
    invalid(
        |record| record.iterations[1].measured.generator.workers[0].system_ns = 240 * SECOND,
        Cause::GeneratorSaturated,
        "30 clients, iteration 1: worker 0 on CPU 1 of the load generator used 90.0 % of its CPU; at 90 % or more, \
         results reflect the generator, not the server",
    );
    invalid(
        |record| {
            let worker = &mut record.iterations[0].measured.generator.workers[0];
            (worker.system_ns, worker.run_queue_ns) = (228 * SECOND, Some(24 * SECOND));
        },
        Cause::GeneratorSaturated,
        "20 clients, iteration 1: worker 0 on CPU 1 of the load generator used 88.0 % of its CPU and waited for it \
         4.0 % of the time, 91.7 % of what was left; at 90 % or more, results reflect the generator, not the server",
    );
    invalid(
        |record| {
            let run = &mut record.iterations[0];
            run.schedule =
                Some(ScheduleKept { asked_rate: 1000.0, offered_rate: 1000.0, ..ScheduleKept::default() });
            run.measured.open_loop = Some(unlike(&run.measured.histograms.response, 1_750_000));
        },
        Cause::ScheduleLag,
        "20 clients, iteration 1: the latency's p99 is 2.000 ms, and 1.750 ms without the load generator's own lateness (schedule \
         lag): 14.3 % more (limit 10 %); --spin sends requests closer to their time",
    );
    invalid(
        |record| {
            record.iterations[0].schedule = Some(ScheduleKept {
                asked_rate: 1000.0,
                offered_rate: 985.0,
                lag_p99_ns: 1000,
                ..ScheduleKept::default()
            });
        },
        Cause::RateMissed,
        "20 clients, iteration 1: 985.0 arrivals/s were offered instead of 1000.0: 1.5 % off (limit \
         1 %)",
    );
    invalid(
        |record| record.iterations[0].measured.clients[7].pages = 0,
        Cause::ClientsStarved,
        "20 clients, iteration 1: 1 client of 20 completed no page in the whole window",
    );
    invalid(
        |record| drop(record.iterations.pop()),
        Cause::Incomplete,
        "35 of 36 planned timed runs were completed: the record lacks some",
    );
    invalid(
        |record| record.state = RunState::Failed,
        Cause::Incomplete,
        "36 of 36 planned timed runs were completed, but the run was ended by an error",
    );
    invalid(
        |record| record.iterations[4].interrupted = true,
        Cause::Incomplete,
        "35 of 36 planned timed runs were completed: the record lacks some",
    );
}

#[test]
fn an_only_iteration_is_not_named() {
    let verdict = changed(|record| {
        record.spec.load.iterations = 1;
        record.iterations.retain(|run| run.iteration == 1);
        record.iterations[0].measured.clients[7].pages = 0;
    });
    let [reason] = &verdict.reasons[..] else { panic!("{:?}", verdict.reasons) };
    assert_eq!(reason.sentence, "20 clients: 1 client of 20 completed no page in the whole window");
    assert_eq!(reason.iteration, Some(1));
}

#[test]
fn levels_that_were_completed_before_a_run_ended_keep_their_standing() {
    let verdict = changed(|record| {
        record.state = RunState::Interrupted;
        record.iterations.retain(|run| run.clients <= 40);
        record.iterations.iter_mut().rfind(|run| run.clients == 40).unwrap().interrupted = true;
    });
    let of = |clients| verdict.of_level(LevelKey::Clients(clients));
    assert_eq!(verdict.standing, Standing::Invalid);
    assert!([20, 30].into_iter().all(|clients| of(clients) < Standing::Noisy), "{:?}", verdict.levels);
    assert_eq!(of(40), Standing::Invalid);
}

#[test]
fn arrivals_that_found_nobody_are_counted_in_words() {
    let said = |clients: u32, skipped: u64, queued: u64| {
        let run = IterationRecord {
            clients,
            measured: Measured {
                open_loop: Some(OpenLoop { skipped, queued, ..OpenLoop::default() }),
                ..Measured::default()
            },
            ..IterationRecord::default()
        };
        reasons::unserved(&run)
    };
    assert_eq!(said(1, 0, 1), "; its only client was busy, and 1 arrival waited at the end");
    assert_eq!(said(5, 0, 7), "; all 5 clients were busy, and 7 arrivals waited at the end");
    assert_eq!(said(1, 1, 0), "; 1 arrival found its only client busy and was skipped");
    assert_eq!(said(5, 2, 0), "; 2 arrivals found all 5 clients busy and were skipped");
}

fn failing(record: &mut RunRecord, succeeded: u64, failed: u64) {
    for run in record.iterations.iter_mut().filter(|run| run.clients == 50) {
        (run.measured.counts.succeeded, run.measured.counts.failed) = (succeeded, failed);
    }
}

#[test]
fn one_percent_of_errors_is_still_valid_and_a_hair_more_is_not() {
    assert_eq!(changed(|record| failing(record, 99_000, 1_000)).reasons, []);
    invalid(
        |record| failing(record, 98_999, 1_001),
        Cause::Errors,
        "50 clients: 1.001 % of the requests failed (4004 of 400000; limit 1 %)",
    );
    invalid(
        |record| failing(record, 0, 7),
        Cause::NothingSucceeded,
        "50 clients: no request succeeded, 28 failed",
    );
    invalid(
        |record| failing(record, 0, 0),
        Cause::NothingSucceeded,
        "50 clients: no request ended inside the measured window",
    );
}

#[test]
fn a_timed_run_in_which_nothing_succeeded_is_no_measurement() {
    let died = |record: &mut RunRecord| {
        failing(record, 99_000, 1);
        let last = record.iterations.iter_mut().rfind(|run| run.clients == 50).unwrap();
        (last.measured.counts.succeeded, last.measured.counts.failed) = (0, 20);
        last.iteration
    };
    let mut number = 0;
    let verdict = changed(|record| number = died(record));
    let said: Vec<&str> = verdict.reasons.iter().map(|reason| reason.sentence.as_str()).collect();
    let expected = format!("50 clients, iteration {number}: no request succeeded, 20 failed");
    assert!(said.contains(&expected.as_str()), "{said:?}");
    assert!(verdict.reasons.iter().all(|reason| reason.cause != Cause::Errors), "{said:?}");
    // One that the user cut off is incomplete, and no more.
    let verdict = changed(|record| {
        died(record);
        record.iterations.iter_mut().rfind(|run| run.clients == 50).unwrap().interrupted = true;
    });
    assert!(verdict.reasons.iter().all(|reason| reason.cause == Cause::Incomplete), "{:?}", verdict.reasons);
}

#[test]
fn nothing_measured_is_invalid() {
    let verdict = changed(|record| {
        record.iterations.clear();
        record.state = RunState::Interrupted;
    });
    assert_eq!(verdict.standing, Standing::Invalid);
    assert_eq!(
        verdict.reasons[0].sentence,
        "0 of 36 planned timed runs were completed: the run was ended by the user"
    );
    assert_eq!(verdict.limit.resource, LimitingResource::Unknown);
}

#[test]
fn limits_are_not_broken_by_what_lies_below_them() {
    let verdict = changed(|record| {
        let run = &mut record.iterations[0];
        run.measured.generator.workers[0].system_ns = 200 * SECOND;
        run.measured.generator.workers[0].run_queue_ns = Some(11 * SECOND);
        run.schedule = Some(ScheduleKept {
            asked_rate: 1000.0,
            offered_rate: 990.5,
            // A lag does not count if no percentile shows it.
            lag_p99_ns: 900_000,
            ..ScheduleKept::default()
        });
        run.measured.open_loop = Some(unlike(&run.measured.histograms.response, 1_819_000));
    });
    assert_eq!((verdict.standing, verdict.reasons), (Standing::Valid, vec![]));
}

/// An open loop all of whose answers took so long from their actual start.
fn unlike(response: &Histogram, without_ns: u64) -> OpenLoop {
    let mut open_loop = OpenLoop::default();
    open_loop.uncorrected.response.record_n(without_ns, response.len());
    open_loop
}

#[track_caller]
fn uncertified(change: impl FnOnce(&mut RunRecord), id: &str, evidence: &str) {
    let verdict = changed(change);
    assert_eq!(verdict.reasons, []);
    assert_eq!(verdict.standing, Standing::Sound);
    let unmet: Vec<(&str, &str)> =
        verdict.unmet_rules.iter().map(|rule| (rule.id.as_str(), rule.evidence.as_str())).collect();
    assert_eq!(unmet, [(id, evidence)]);
}

#[test]
fn each_rule_not_met_makes_it_uncertified() {
    let undisclosed =
        |key: &'static str| move |record: &mut RunRecord| drop(record.spec.disclosure.remove(key));
    let state = |key: &str| format!("not disclosed; state \"{key}\" under [disclosure] in the testbed file");
    for (id, key) in [
        ("server-configuration", "server.configuration"),
        ("server-logging", "server.logging"),
        ("server-dns", "server.dns"),
        ("server-processes", "server.processes"),
        ("topology", "topology"),
    ] {
        uncertified(undisclosed(key), id, &state(key));
    }
    uncertified(
        undisclosed("server.host"),
        "server-host",
        "the server's host is not described; state \"server.host\" under [disclosure] in the testbed file, or give --server-agent",
    );
    uncertified(
        |record| record.workload_sha256 = "0".into(),
        "standard-workload",
        "`standard` has the name of a built-in workload, but other content",
    );
    uncertified(
        |record| record.workload.name = "mine".into(),
        "standard-workload",
        "`mine` is not a built-in workload",
    );
    uncertified(
        |record| record.iterations[3].measured.window_ns = 599 * SECOND,
        "ten-minutes",
        "the shortest took 599.0 s, at 50 clients",
    );
    uncertified(
        |record| {
            record.spec.load.clients.0.retain(|clients| *clients != 70);
            record.iterations.retain(|run| run.clients != 70);
        },
        "client-range",
        "no level of 70 clients",
    );
    uncertified(
        |record| record.spec.client.connections = ConnectionPolicy::KeepAlive,
        "connections",
        "keep-alive; run with --connections per-request",
    );
    uncertified(
        |record| record.target.server = Some("nginx".into()),
        "server-software",
        "the server names itself `nginx`, without a version; state \"server.software\" under [disclosure] in the testbed \
         file",
    );
    uncertified(
        |record| {
            record.environment.remove("cpu.model");
            calibrate(record);
        },
        "load-generators",
        "the processor could not be read; state \"generator.host\" under [disclosure] in the testbed file",
    );
    uncertified(
        |record| drop(record.environment.insert("target.this_host".into(), json!(true))),
        "separate-hosts",
        "the server ran on the load generator's host, over its loopback",
    );
    uncertified(
        |record| drop(record.environment.insert("target.same_machine".into(), json!(true))),
        "separate-hosts",
        "the server has another address, but its agent runs on the load generator's machine",
    );
    uncertified(
        |record| {
            record.spec.disclosure.remove("server.host");
            let facts = json!({ "cpu.model": "Example", "memory.bytes": 1, "sysctl": {} });
            record.environment.insert("server.environment".into(), facts);
        },
        "server-host",
        "the server's own, as its agent read it, but kernel.release could not be read; state \"server.host\" under \
         [disclosure] in the testbed file",
    );
    uncertified(
        |record| record.iterations.iter_mut().for_each(|run| run.arm = None),
        "noise-floor",
        "an arm has fewer than 2 iterations with answers",
    );
    uncertified(
        |record| {
            record.tool.commit = None;
            calibrate(record);
        },
        "reproducible",
        "missing: commit",
    );
    uncertified(
        |record| {
            record.tool.commit = Some("abc-modified".to_owned());
            calibrate(record);
        },
        "reproducible",
        "built from uncommitted sources: abc-modified",
    );
    uncertified(
        |record| drop(record.environment.remove("calibration")),
        "calibration",
        "this host's generator was not calibrated; run `webstone calibrate`",
    );
    uncertified(
        |record| drop(record.environment.insert("kernel.release".into(), json!("7.0"))),
        "calibration",
        "the calibration in the record does not fit: it was made on another kernel: ``, not `7.0`",
    );
    uncertified(
        |record| {
            for second in &mut record.iterations[0].measured.seconds.0[..60] {
                second.requests = 500;
            }
        },
        "steady-state",
        "20 clients, iteration 1: the mean rate is -5.0 % off the rate after its first 60 s",
    );
    uncertified(
        |record| {
            // Slower in the last third: nothing is gained by cutting the beginning.
            for second in &mut record.iterations[0].measured.seconds.0[400..] {
                second.requests = 900;
            }
        },
        "steady-state",
        "20 clients, iteration 1: the rate never settled: its halves differ",
    );
}

#[test]
fn too_few_iterations_lack_a_noise_floor_as_well() {
    let verdict = changed(|record| {
        record.spec.load.iterations = 2;
        record.iterations.retain(|run| run.iteration <= 2);
    });
    let ids: Vec<&str> = verdict.unmet_rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!((verdict.standing, ids), (Standing::Sound, vec!["three-iterations", "noise-floor"]));
}

#[test]
fn what_the_record_cannot_tell_is_not_met() {
    let verdict = changed(|record| {
        record.environment.remove("target.this_host");
        record.iterations.iter_mut().for_each(|run| run.measured.seconds.0.truncate(40));
    });
    let standings: Vec<(&str, RuleStanding)> =
        verdict.unmet_rules.iter().map(|rule| (rule.id.as_str(), rule.standing)).collect();
    let cannot_tell = RuleStanding::CannotTell;
    assert_eq!(standings, [("separate-hosts", cannot_tell), ("steady-state", cannot_tell)]);
}

#[test]
fn the_embedded_server_discloses_itself() {
    let verdict = changed(|record| {
        record.target.embedded = true;
        record.spec.disclosure.clear();
        record.spec.disclosure.insert("topology".into(), "one host".into());
        record
            .environment
            .extend(["memory.bytes", "kernel.release", "sysctl"].map(|key| (key.into(), json!(1))));
    });
    let ids: Vec<&str> = verdict.unmet_rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(ids, ["separate-hosts"]);
}

#[test]
fn a_verdict_reads_back_from_its_own_json() {
    let verdict = changed(|record| record.tool.commit = None);
    let text = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
    assert!(text.starts_with("{\"standing\":\"sound\""), "{text}");
}
