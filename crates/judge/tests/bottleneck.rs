//! Over many windows, made up at random: no sentence about the bottleneck says what the tables of its record refute, and others
//! on the server's CPUs are never taken for a lock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

#[path = "refuted/mod.rs"]
mod refuted;

use std::collections::BTreeMap;

use webstone_judge::verdict::{self, LimitingResource};
use webstone_measure::metrics::{GeneratorUse, Measured, OpenLoop, WorkerUse};
use webstone_measure::rate::{Rate, RateProfile};
use webstone_model::record::{
    CpuUse, HostUse, IterationRecord, LinkUse, ProcessUse, RunRecord, SCHEMA_VERSION, ScheduleKept,
    ServerUse, TargetRecord, ThreadUse, Tool,
};
use webstone_model::spec::RunSpec;
use webstone_workload::builtin;

const SECOND: u64 = 1_000_000_000;
const WINDOW_S: u64 = 10;

/// SplitMix64: the same windows on every machine (S. Vigna's public-domain code).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Milliseconds of a window: often nearly none or nearly all, where bounds are.
    fn time(&mut self, all_ms: u64) -> u64 {
        match self.below(3) {
            0 => self.below(all_ms / 10 + 1),
            1 => all_ms - self.below(all_ms / 10 + 1),
            _ => self.below(all_ms + 1),
        }
    }
}

/// A window on two CPUs: the server on the first or both, the generator on the second.
fn window(base: &RunRecord, chance: &mut Chance) -> RunRecord {
    let all_ms = WINDOW_S * 1000;
    let mut record = base.clone();
    let on_both = chance.below(2) == 0;
    record.target.cpus = if on_both { vec![0, 1] } else { vec![0] };
    let ns = |ms: u64| ms * 1_000_000;
    let generator = chance.time(all_ms);
    let first = chance.time(all_ms);
    let second = if on_both { chance.time(all_ms - generator) } else { 0 };
    let interrupts = chance.time(all_ms - first);
    let others = chance.time(all_ms - first - interrupts);
    let used = first + second;
    let mut processes = ProcessUse { throttled_ns: Some(0), threads_max: 2, ..ProcessUse::default() };
    if chance.below(4) > 0 {
        let one = (used.div_ceil(2) + chance.below(used / 2 + 1)).min(used).min(all_ms);
        for (thread, cpu_ms) in [(1, one), (2, used - one)] {
            let waited_ms = chance.time(all_ms.saturating_sub(cpu_ms));
            processes.busiest.push(ThreadUse {
                process: 1,
                thread,
                name: "server".into(),
                cpu_ns: ns(cpu_ms),
                run_queue_ns: ns(waited_ms),
            });
        }
        processes.run_queue_ns = Some(processes.busiest.iter().map(|thread| thread.run_queue_ns).sum());
    }
    if chance.below(8) == 0 {
        processes.throttled_ns = Some(ns(chance.time(all_ms)));
    }
    let cpu = |cpu, programs: u64, interrupts: u64| CpuUse {
        cpu,
        busy_ns: ns(programs + interrupts),
        user_ns: ns(programs),
        interrupt_ns: ns(interrupts),
        idle_ns: ns(all_ms - programs - interrupts),
        ..CpuUse::default()
    };
    let link = LinkUse {
        name: "eth0".into(),
        speed_bps: Some(1_000_000_000),
        received_bytes: chance.time(all_ms) * 125_000,
        ..LinkUse::default()
    };
    let mut measured = Measured { window_ns: WINDOW_S * SECOND, ..Measured::default() };
    measured.generator = GeneratorUse {
        workers: vec![WorkerUse { cpu: Some(1), user_ns: ns(generator), ..WorkerUse::default() }],
        ..GeneratorUse::default()
    };
    measured.counts.succeeded = 10_000;
    measured.counts.started = 10_000;
    measured.counts.busy_ns = 20 * WINDOW_S * SECOND;
    let mut run = IterationRecord {
        clients: 20,
        server: Some(ServerUse { user_ns: ns(used), processes: Some(processes), ..ServerUse::default() }),
        host: Some(HostUse {
            elapsed_ns: WINDOW_S * SECOND,
            cpus: vec![cpu(0, first + others, interrupts), cpu(1, second + generator, 0)],
            links: if chance.below(2) == 0 { vec![link] } else { vec![] },
            ..HostUse::default()
        }),
        measured,
        ..IterationRecord::default()
    };
    if chance.below(4) == 0 {
        let started = 10_000 - chance.below(2) * chance.below(3_000);
        run.rate = Some(RateProfile::constant(Rate::per_second(1000)));
        run.measured.open_loop = Some(OpenLoop { planned: 10_000, started, ..OpenLoop::default() });
        let offered_rate = started as f64 / WINDOW_S as f64;
        run.schedule = Some(ScheduleKept { asked_rate: 1000.0, offered_rate, ..ScheduleKept::default() });
    }
    record.iterations = vec![run];
    record
}

/// A record without anything measured.
fn base() -> serde_json::Value {
    serde_json::json!({
        "schema": SCHEMA_VERSION, "id": "made-up", "tool": Tool::default(), "started_at": "", "finished_at": null,
        "state": "complete", "command_line": [], "spec": RunSpec::default(), "workload": builtin("standard").unwrap(),
        "workload_sha256": "", "target": TargetRecord::default(), "environment": {}, "warnings": [], "iterations": [],
    })
}

#[test]
fn no_sentence_says_what_its_own_tables_refute() {
    let (base, mut chance) = (serde_json::from_value(base()).unwrap(), Chance(11));
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..8_000 {
        let record = window(&base, &mut chance);
        let limit = verdict::of_record(&record).limit;
        let runs: Vec<&IterationRecord> = record.iterations.iter().collect();
        assert_eq!(refuted::refuted(&record, &runs, &limit), None);
        *told.entry(format!("{:?}", limit.resource)).or_default() += 1;
    }
    // Each is met, so that none goes untested.
    for resource in ["Server", "ServerThread", "Generator", "Network", "OfferedRate", "None", "Unknown"] {
        assert!(told.get(resource).is_some_and(|times| *times > 20), "{resource}: {told:?}");
    }
}

#[test]
fn others_on_the_servers_cpus_never_make_a_bottleneck_of_something_else() {
    let (base, mut chance) = (serde_json::from_value(base()).unwrap(), Chance(12));
    let mut disturbed = 0;
    for _ in 0..8_000 {
        let mut record = window(&base, &mut chance);
        let before = verdict::of_record(&record).limit.resource;
        let run = &mut record.iterations[0];
        let cpu = &mut run.host.as_mut().unwrap().cpus[0];
        let taken = chance.below(cpu.idle_ns + 1);
        (cpu.idle_ns, cpu.busy_ns, cpu.user_ns) =
            (cpu.idle_ns - taken, cpu.busy_ns + taken, cpu.user_ns + taken);
        let after = verdict::of_record(&record).limit.resource;
        // What was at its ceiling still is; what was not does not get there by them.
        assert!(after == before || after == LimitingResource::Unknown, "{before:?} became {after:?}");
        disturbed += u64::from(after != before);
    }
    assert!(disturbed > 20, "{disturbed}");
}
