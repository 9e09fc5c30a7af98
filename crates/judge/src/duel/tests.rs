//! Duels with a known truth: noise is put into slices, and the intervals must contain the ratio that was put in.

use webstone_measure::metrics::Counts;
use webstone_model::duel::{Contestant, DuelRecord, DuelSpec, DuelStart, SideRun};

use super::*;
use webstone_measure::slices::Slice;

/// Random numbers of a test: a linear congruential generator (Knuth, MMIX).
struct Draw(u64);

impl Draw {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Nearly normal, of mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A machine with neighbours, as it was measured: its speed flips by a third within seconds, one slice in ten is disturbed by up to
/// a half, and each start has luck of its own.
struct Machine {
    draw: Draw,
    is_slow: bool,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine { draw: Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), is_slow: false }
    }

    /// A start of contestants whose requests cost these many nanoseconds on a machine at its best.
    fn start(&mut self, costs_ns: &[f64], rounds: usize) -> DuelStart {
        let luck: Vec<f64> = costs_ns.iter().map(|_| 1.0 + 0.004 * self.draw.normal()).collect();
        let mut start = DuelStart::default();
        for _ in 0..rounds {
            let order: Vec<usize> = (0..costs_ns.len()).chain((0..costs_ns.len()).rev()).collect();
            for side in order {
                if self.draw.uniform() < 0.02 {
                    self.is_slow = !self.is_slow;
                }
                let mut speed = if self.is_slow { 1.35 } else { 1.0 } * (1.0 + 0.02 * self.draw.normal());
                if self.draw.uniform() < 0.1 {
                    speed *= 1.0 + 0.5 * self.draw.uniform();
                }
                let cost = costs_ns[side] * luck[side] * speed;
                let requests = (20e6 / cost) as u64;
                start.slices.push(Slice {
                    side: side as u32,
                    took_ns: (requests as f64 * cost * 1.1) as u64,
                    requests,
                    response_ns: (requests as f64 * cost * 16.0) as u64,
                    cpu_ns: Some((requests as f64 * cost) as u64),
                    resting_cpu_ns: Some(0),
                    ..Slice::default()
                });
            }
        }
        start.sides = (0..costs_ns.len())
            .map(|side| {
                let of_side = || start.slices.iter().filter(move |slice| slice.side as usize == side);
                let mut run = SideRun {
                    slices_ns: of_side().map(|slice| slice.took_ns).sum(),
                    counts: Counts {
                        succeeded: of_side().map(|slice| slice.requests).sum(),
                        ..Counts::default()
                    },
                    ..SideRun::default()
                };
                run.distribution.record_n((costs_ns[side] * 16.0) as u64, run.counts.succeeded);
                run
            })
            .collect();
        start
    }
}

/// A duel of contestants with these costs; with a twin, the last is the second copy of the first.
fn record(costs_ns: &[f64], twin: bool) -> DuelRecord {
    let contestants = (0..costs_ns.len()).map(|number| Contestant {
        name: char::from(b'a' + number as u8).to_string(),
        is_started: true,
        is_twin: twin && number + 1 == costs_ns.len(),
        ..Contestant::default()
    });
    DuelRecord { contestants: contestants.collect(), ..DuelRecord::default() }
}

/// Holds a duel until it is precise, or 40 starts were made.
fn held(seed: u64, costs_ns: &[f64], twin: bool, duel: DuelSpec) -> (DuelRecord, DuelJudgement) {
    let mut machine = Machine::new(seed);
    let mut record = DuelRecord { duel, ..record(costs_ns, twin) };
    loop {
        record.starts.push(machine.start(costs_ns, 10));
        if looks(&record).is_look(record.starts.len()) {
            let judgement = of_record(&record);
            if judgement.is_done() || record.starts.len() >= 38 {
                return (record, judgement);
            }
        }
    }
}

/// The interval of CPU time, looked at as a duel looks at it, until it is precise.
fn interval_when_done(seed: u64, costs_ns: &[f64]) -> DuelRatio {
    let mut machine = Machine::new(seed);
    let mut record = record(costs_ns, false);
    let looks = looks(&record);
    loop {
        record.starts.push(machine.start(costs_ns, 6));
        if !looks.is_look(record.starts.len()) {
            continue;
        }
        let last = course(&record, 1, DuelFigure::Cpu).pop().unwrap();
        if last.reach() <= 0.01 || record.starts.len() >= 30 {
            return last;
        }
    }
}

/// A thousand duels of a server with one that costs 3 % more, each stopped when it was precise: at least 93 of 100 intervals contain
/// the truth. And a thousand of equals: at most 5 of 100 claim a difference.
#[test]
fn intervals_contain_the_truth_and_equals_do_not_differ() {
    let (mut right, mut told, mut alarms) = (0, 0, 0);
    for seed in 0..1_000 {
        let costly = interval_when_done(seed, &[15_000.0, 15_450.0]);
        right += usize::from(costly.low <= 1.03 && 1.03 <= costly.high);
        told += usize::from(costly.low > 1.0);
        let equal = interval_when_done(1_000_000 + seed, &[15_000.0, 15_000.0]);
        alarms += usize::from(equal.differs());
    }
    assert!(right >= 930, "{right} of 1000 contain 1.03");
    assert!(told >= 950, "{told} of 1000 tell 3 %");
    assert!(alarms <= 50, "{alarms} of 1000 equals are told apart");
}

#[test]
fn a_duel_ends_when_it_is_precise_and_says_so() {
    let (record, judgement) =
        held(1, &[15_000.0, 16_500.0, 15_000.0], true, DuelSpec { precision: 0.05, ..DuelSpec::default() });
    assert_eq!((judgement.standing, judgement.leading), (Standing::Sound, DuelFigure::Cpu), "{judgement:?}");
    assert!(judgement.is_precise && record.starts.len() < 38);
    let [of] = &judgement.comparisons[..] else { panic!("one challenger") };
    let ratio = of.ratio(DuelFigure::Cpu).unwrap();
    assert!(ratio.low > 1.04 && ratio.high < 1.16 && ratio.is_worse() == Some(true), "{ratio:?}");
    assert!((ratio.value / ratio.base - 1.1).abs() < 0.05);
    let rate = of.ratio(DuelFigure::Rate).unwrap();
    assert!(rate.high < 1.0 && rate.is_worse() == Some(true), "{rate:?}");
    let p99 = of.ratio(DuelFigure::P99).unwrap();
    assert!((p99.ratio - 1.1).abs() < 0.01, "{p99:?}");
    // The course narrows to what the judgement says.
    let course = course(&record, 1, DuelFigure::Cpu);
    assert_eq!(course.len(), record.starts.len() - 1);
    assert_eq!(course.last().map(|last| (last.low, last.high)), Some((ratio.low, ratio.high)));
}

#[test]
fn a_twin_that_differs_makes_the_result_invalid() {
    let (_, judgement) = held(2, &[15_000.0, 15_000.0, 15_600.0], true, DuelSpec::default());
    assert_eq!(judgement.standing, Standing::Invalid);
    assert!(
        judgement.reasons[0].starts_with("a second copy of a differs from it by +"),
        "{:?}",
        judgement.reasons
    );
}

#[test]
fn a_gate_is_broken_only_beyond_its_limit_and_kept_only_within() {
    let gates = |text: &str| DuelSpec { fail_if: vec![text.parse().unwrap()], ..DuelSpec::default() };
    let outcome = |costs: &[f64], text| held(3, costs, false, gates(text)).1.gates[0].outcome;
    let costly = [15_000.0, 16_500.0];
    assert_eq!(outcome(&costly, "cpu > +3%"), GateOutcome::Broken);
    assert_eq!(outcome(&costly, "cpu > +15%"), GateOutcome::Kept);
    assert_eq!(outcome(&costly, "rate < -3%"), GateOutcome::Broken);
    assert_eq!(outcome(&costly, "cpu > +10%"), GateOutcome::Unknown, "the limit is the truth");
    assert_eq!(outcome(&costly, "memory > +10%"), GateOutcome::Unknown, "it was not seen");
    // Decided long before it is precise.
    let (record, judgement) = held(3, &[15_000.0, 22_000.0], false, gates("cpu > +3%"));
    assert!(
        judgement.is_done() && !judgement.is_precise && record.starts.len() <= 6,
        "{}",
        record.starts.len()
    );
}

/// CPU time is known exactly after five starts, p99 is anywhere between 1 and 2 ms in each.
#[test]
fn a_duel_does_not_end_while_a_condition_is_undecided() {
    let gate = |text: &str| vec![text.parse().unwrap()];
    let (mut record, _) = held(8, &[15_000.0, 15_000.0], false, DuelSpec::default());
    let mut draw = Draw(8);
    for run in record.starts.iter_mut().flat_map(|start| &mut start.sides) {
        run.distribution = Default::default();
        run.distribution.record_n(1_000_000 + (1e6 * draw.uniform()) as u64, run.counts.succeeded);
    }
    assert!(of_record(&record).is_precise && of_record(&record).is_done());
    record.duel.fail_if = gate("p99 > +3%");
    let judgement = of_record(&record);
    assert_eq!(judgement.gates[0].outcome, GateOutcome::Unknown);
    assert!(judgement.is_precise && !judgement.is_done());
    // What is never seen is not waited for.
    record.duel.fail_if = gate("memory > +3%");
    assert!(of_record(&record).is_done());
    record.duel.fail_if = gate("cpu > +15%");
    assert!(of_record(&record).is_done());
}

#[test]
fn too_few_starts_decide_no_condition() {
    let duel = DuelSpec { fail_if: vec!["cpu > +3%".parse().unwrap()], ..DuelSpec::default() };
    let (mut record, judgement) = held(3, &[15_000.0, 22_000.0], false, duel);
    assert_eq!(judgement.gates[0].outcome, GateOutcome::Broken);
    record.starts.truncate(4);
    let judgement = of_record(&record);
    assert_eq!(judgement.standing, Standing::Inconclusive);
    assert_eq!(judgement.gates[0].outcome, GateOutcome::Unknown);
}

#[test]
fn what_is_wrong_is_told_by_name() {
    let (mut record, _) = held(4, &[15_000.0, 15_000.0], false, DuelSpec::default());
    for start in &mut record.starts {
        start.sides[1].counts.failed = start.sides[1].counts.succeeded;
    }
    let judgement = of_record(&record);
    assert_eq!(judgement.standing, Standing::Invalid);
    assert!(judgement.reasons[0].starts_with("b: "), "{:?}", judgement.reasons);

    let (mut record, _) = held(4, &[15_000.0, 15_000.0], false, DuelSpec::default());
    record.starts.iter_mut().for_each(|start| start.slices.iter_mut().for_each(|slice| slice.unanswered = 1));
    assert_eq!(of_record(&record).standing, Standing::Invalid);

    let (mut record, _) = held(4, &[15_000.0, 15_000.0], false, DuelSpec::default());
    record.starts.truncate(3);
    let judgement = of_record(&record);
    assert_eq!(judgement.standing, Standing::Inconclusive);
    assert!(
        judgement.reasons[0].contains("was started 3 times, and 5 are needed"),
        "{:?}",
        judgement.reasons
    );
}

#[test]
fn a_contestant_that_hangs_in_one_start_makes_the_result_invalid() {
    let (mut record, _) = held(4, &[15_000.0, 15_000.0], false, DuelSpec::default());
    record.starts[2].sides[1] = SideRun::default();
    let judgement = of_record(&record);
    assert_eq!(judgement.standing, Standing::Invalid);
    assert_eq!(judgement.reasons, ["b answered nothing in start 3"]);
}

/// Shifts the p99 of a contestant.
fn with_p99(record: &mut DuelRecord, number: usize, p99_ns: u64) {
    for start in &mut record.starts {
        let run = &mut start.sides[number];
        run.distribution = Default::default();
        run.distribution.record_n(p99_ns, run.counts.succeeded);
    }
}

#[test]
fn the_twin_is_judged_in_the_figures_of_conditions_too() {
    let (mut record, _) = held(9, &[15_000.0, 15_000.0, 15_000.0], true, DuelSpec::default());
    for (number, p99_ns) in [(0, 1_000_000), (1, 1_080_000), (2, 1_080_000)] {
        with_p99(&mut record, number, p99_ns);
    }
    assert_eq!(of_record(&record).standing, Standing::Sound);
    let judged = |record: &mut DuelRecord, gate: &str| {
        record.duel.fail_if = vec![gate.parse().unwrap()];
        of_record(record)
    };
    let judgement = judged(&mut record, "p99 > +5%");
    assert_eq!(judgement.standing, Standing::Invalid);
    assert!(judgement.reasons[0].contains("by +8.0 % in p99 latency"), "{:?}", judgement.reasons);
    assert_eq!(judged(&mut record, "p99 > +20%").standing, Standing::Sound, "a tenth is left");
    // A condition that is stricter than the precision is stricter for the twin, too.
    record.duel.precision = 0.3;
    record.duel.fail_if.clear();
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices).filter(|slice| slice.side == 2)
    {
        slice.cpu_ns = slice.cpu_ns.map(|cpu_ns| cpu_ns * 105 / 100);
    }
    assert_eq!(of_record(&record).standing, Standing::Sound);
    assert_eq!(judged(&mut record, "cpu > +3%").standing, Standing::Invalid);
}

/// The twin of a server that agents see has no CPU time; in open loop, there is no rate either.
#[test]
fn a_twin_without_cpu_time_is_judged_by_what_leads_without() {
    let (mut record, _) = held(10, &[15_000.0, 15_000.0, 15_000.0], true, DuelSpec::default());
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices) {
        slice.cpu_ns = None;
        if slice.side == 2 {
            slice.response_ns = slice.response_ns * 108 / 100;
        }
    }
    for run in record.starts.iter_mut().flat_map(|start| &mut start.sides[..2]) {
        run.cpu_elsewhere_ns = Some(run.counts.succeeded * 15_000);
    }
    record.duel.at_most = record.duel.restart_every;
    assert_eq!((of_record(&record).standing, of_record(&record).leading), (Standing::Sound, DuelFigure::Cpu));
    assert_eq!(of_record(&record).twin_ratio(&record).map(|ratio| ratio.figure), Some(DuelFigure::Rate));
    record.spec.load.rate = Some("1000".parse().unwrap());
    let judgement = of_record(&record);
    assert_eq!(judgement.twin_ratio(&record).map(|ratio| ratio.figure), Some(DuelFigure::Latency));
    assert_eq!(judgement.standing, Standing::Invalid);
    assert!(judgement.reasons[0].contains("in mean latency"), "{:?}", judgement.reasons);
}

/// Arrivals of 20 ms take 40 ms: each waits for those before it.
#[test]
fn a_contestant_that_does_not_keep_up_with_arrivals_makes_the_result_invalid() {
    let (mut record, _) = held(11, &[15_000.0, 15_000.0], false, DuelSpec::default());
    record.spec.load.rate = Some("1000".parse().unwrap());
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices) {
        slice.took_ns = 21_000_000;
    }
    assert_eq!(of_record(&record).standing, Standing::Sound);
    // A few slow answers make slices long as well.
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices).filter(|slice| slice.side == 1)
    {
        slice.took_ns = 40_000_000;
    }
    assert_eq!(of_record(&record).standing, Standing::Sound);
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices).filter(|slice| slice.side == 1)
    {
        slice.response_ns = slice.requests * 10_000_000;
    }
    with_p99(&mut record, 1, 10_000_000);
    let judgement = of_record(&record);
    assert_eq!(judgement.standing, Standing::Invalid);
    assert!(
        judgement.reasons[0]
            .starts_with("b cannot keep up: it took 40ms on average for the arrivals of 20ms"),
        "{:?}",
        judgement.reasons
    );
}

/// A server that was up serves its twin as well, so its memory is that of twice the connections.
#[test]
fn memory_of_a_server_that_is_its_own_twin_is_not_compared() {
    let (mut record, _) = held(12, &[15_000.0, 15_000.0, 15_000.0], true, DuelSpec::default());
    for (number, run) in record.starts.iter_mut().flat_map(|start| start.sides.iter_mut().enumerate()) {
        run.resident_bytes_max = Some(if number == 1 { 16 << 20 } else { 32 << 20 });
    }
    let memory = |record: &DuelRecord| of_record(record).comparisons[0].ratio(DuelFigure::Memory).is_some();
    let notes = |record: &DuelRecord| of_record(record).notes.join("\n");
    assert!(memory(&record) && !notes(&record).contains("stayed up"));
    record.contestants.iter_mut().for_each(|contestant| contestant.is_started = false);
    assert!(!memory(&record));
    assert!(notes(&record).contains("a, b stayed up") && notes(&record).contains("memory is not compared"));
    record.contestants[2].is_twin = false;
    assert!(memory(&record));
}

/// Without CPU times rates lead; in open loop, latencies.
#[test]
fn what_cannot_be_seen_is_left_to_what_can() {
    let (mut record, _) = held(5, &[15_000.0, 15_000.0], false, DuelSpec::default());
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices) {
        slice.cpu_ns = None;
    }
    let judgement = of_record(&record);
    assert_eq!(judgement.leading, DuelFigure::Rate);
    assert!(judgement.notes[0].contains("cannot be seen"), "{:?}", judgement.notes);
    record.spec.load.rate = Some("1000".parse().unwrap());
    let judgement = of_record(&record);
    assert_eq!(judgement.leading, DuelFigure::Latency);
    assert!(judgement.comparisons[0].ratio(DuelFigure::Rate).is_none());
}

#[test]
fn work_between_turns_is_told() {
    let (mut record, _) = held(6, &[15_000.0, 15_000.0], false, DuelSpec::default());
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices).filter(|slice| slice.side == 1)
    {
        slice.resting_cpu_ns = slice.cpu_ns.map(|cpu_ns| cpu_ns / 10);
    }
    let notes = of_record(&record).notes;
    assert!(notes.iter().any(|note| note.starts_with("b: 9 % of its CPU time")), "{notes:?}");
}

/// A server that was up before is its own twin, so that it works in its twin's turns.
#[test]
fn a_server_that_webstone_did_not_start_does_not_work_between_its_turns() {
    let (mut record, _) = held(6, &[15_000.0, 15_000.0, 15_000.0], true, DuelSpec::default());
    record.contestants.iter_mut().for_each(|contestant| contestant.is_started = false);
    for slice in record.starts.iter_mut().flat_map(|start| &mut start.slices) {
        slice.resting_cpu_ns = slice.cpu_ns;
    }
    let notes = of_record(&record).notes;
    assert!(!notes.iter().any(|note| note.contains("between its turns")), "{notes:?}");
}

/// A few failures do not make a duel invalid, but are mentioned.
#[test]
fn requests_that_are_in_no_latency_are_told() {
    let (mut record, _) = held(7, &[15_000.0, 15_000.0], false, DuelSpec::default());
    let counts = &mut record.starts[0].sides[1].counts;
    (counts.failed, counts.in_flight) = (3, 2);
    let judgement = of_record(&record);
    assert_eq!(judgement.standing, Standing::Sound);
    let told = "b: 3 requests failed and 2 were not answered in time; they are in no latency";
    assert!(judgement.notes.iter().any(|note| note == told), "{:?}", judgement.notes);
}

/// Nothing that a stranger may have written into a record makes it panic.
#[test]
fn an_empty_record_and_a_senseless_one_are_judged() {
    assert_eq!(of_record(&record(&[1.0, 1.0], true)).standing, Standing::Inconclusive);
    let mut senseless = record(&[1.0, 1.0], false);
    let slice =
        Slice { side: 9, took_ns: u64::MAX, requests: u64::MAX, cpu_ns: Some(u64::MAX), ..Slice::default() };
    let mut start = DuelStart { slices: vec![slice; 7], ..DuelStart::default() };
    start.slices.extend([Slice { side: 0, ..slice }; 4]);
    senseless.starts = vec![start; 6];
    assert_ne!(of_record(&senseless).standing, Standing::Sound);
    assert_eq!(of_record(&DuelRecord::default()).standing, Standing::Inconclusive);
}
