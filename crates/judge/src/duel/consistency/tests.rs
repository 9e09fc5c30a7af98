//! A sound record of a duel passes, and every number that is edited alone is found.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use webstone_model::fixture;

use super::*;

fn record() -> DuelRecord {
    fixture::duel("d", &[("old", 10_000), ("new", 10_500)], 6)
}

/// What is found, a line for each.
fn found(record: &DuelRecord) -> Vec<String> {
    let contradictions = check(record).contradictions.into_iter();
    contradictions.map(|it| format!("{}: {}: {}", it.place, it.rule, it.evidence)).collect()
}

#[test]
fn a_sound_duel_agrees_with_itself() {
    let record = record();
    let consistency = check(&record);
    assert_eq!(consistency.contradictions, []);
    assert!(consistency.checked > 6 * 3 * 20, "{}", consistency.checked);
    // A killed one has nothing yet.
    let empty = DuelRecord { starts: Vec::new(), state: RunState::Partial, ..record };
    assert_eq!(found(&empty), [""; 0]);
}

type Edit = fn(&mut DuelRecord);

#[test]
fn every_edited_number_is_found() {
    let edits: &[(Edit, &str)] = &[
        (|it| it.starts[1].slices[3].requests += 1, "requests: slices = total: 801 and 800"),
        (|it| it.starts[1].slices[3].errors += 1, "errors: slices = total: 1 and 0"),
        (
            |it| it.starts[1].slices[3].bytes -= 1,
            "bytes: slices = heads + framing + bodies: 327999 and 328000",
        ),
        (|it| it.starts[1].slices[3].response_ns += 1, "response times: slices = total"),
        (|it| it.starts[1].slices[3].unanswered += 1, "unanswered: slices = in flight: 1 and 0"),
        (|it| it.starts[1].slices[3].took_ns += 1, "time under load: slices = total"),
        (|it| it.starts[1].slices[3].took_ns -= 10_000_000, "a slice is as long as was asked for"),
        (|it| it.starts[1].slices[3].cpu_ns = Some(900_000), "CPU time: slices = total: 7"),
        (|it| it.starts[1].slices[3].cpu_ns = None, "CPU time: slices = total: unknown and"),
        (
            |it| it.starts[1].slices[3].resting_cpu_ns = Some(0),
            "CPU time without load: slices = total: 7000 and 8000",
        ),
        (|it| it.starts[1].slices[3].waited_ns = Some(0), "waits for a CPU: slices = total: 14000 and 16000"),
        (
            |it| it.starts[1].slices[3].generator_waited_ns = Some(0),
            "generator's waits for a CPU: slices = total",
        ),
        (
            |it| it.starts[1].slices[3].at_ns += 5_000_000,
            "slice 5 at 84000000 ns, and the one before until 88500000 ns",
        ),
        (|it| it.starts[1].slices[0].at_ns += 1, "times count from the first slice: 1 and 0"),
        (
            |it| it.starts[1].slices[3].side = 0,
            "twice, the second time in reverse order: round 1: 0 1 2 0 1 0",
        ),
        (|it| it.starts[1].slices.swap(0, 1), "a round has every contestant twice"),
        (|it| it.starts[1].slices.truncate(23), "slices make whole rounds: left over: 5 and 0"),
        (|it| it.starts[1].at_ns -= 1_900_000_000, "a start begins after the one before it has ended"),
        (
            |it| it.starts.swap(1, 2),
            "start 3: a start begins after the one before it has ended: 2s and 4503500us",
        ),
        (|it| drop(it.starts[1].sides.pop()), "every contestant is there once: 2 and 3"),
        (|it| it.took_ns = 1, "it took at least until its last start ended"),
        (
            |it| it.starts[1].sides[1].slices_ns += 1,
            "time under load: slices = total: 164000000 and 164000001",
        ),
        (|it| it.starts[1].sides[1].cpu_ns = Some(1), "CPU time: slices = total"),
        (
            |it| it.starts[1].sides[1].resting_cpu_ns = None,
            "CPU time without load: slices = total: 8000 and unknown",
        ),
        (|it| it.starts[1].sides[1].waited_ns = Some(1), "waits for a CPU: slices = total"),
        (|it| it.starts[1].sides[1].generator_waited_ns = Some(1), "the generator's waits for a CPU"),
        (|it| it.starts[1].sides[1].counts.succeeded += 1, "requests: slices = total: 800 and 801"),
        (|it| it.starts[1].sides[1].counts.failed += 1, "errors by class = failed: 0 and 1"),
        (|it| it.starts[1].sides[1].counts.in_flight += 1, "unanswered: slices = in flight: 0 and 1"),
        (|it| it.starts[1].sides[1].counts.started += 1, "planned = started + skipped: 800 and 801"),
        (|it| it.starts[1].sides[1].counts.planned += 1, "planned = started + skipped: 801 and 800"),
        (
            |it| it.starts[1].sides[1].counts.carried_in += 1,
            "carried in + started = succeeded + failed + in flight",
        ),
        (|it| it.starts[1].sides[1].counts.head_bytes += 1, "bytes: slices = heads + framing + bodies"),
        (|it| it.starts[1].sides[1].counts.framing_bytes += 1, "bytes: slices = heads + framing + bodies"),
        (|it| it.starts[1].sides[1].counts.body_bytes += 1, "bytes: slices = heads + framing + bodies"),
        (
            |it| it.starts[1].sides[1].counts.busy_ns *= 100,
            "requests were in progress no longer than there was time",
        ),
        (|it| it.starts[1].sides[1].response.sum += 1, "response times: slices = total"),
        (
            |it| it.starts[1].sides[1].response.count += 1,
            "response times: as many as their distribution holds",
        ),
        (|it| it.starts[1].sides[1].response.max += 1, "response times: the longest is their distribution's"),
        (
            |it| it.starts[1].sides[1].response.min = 1,
            "the shortest lies in their distribution's first bucket",
        ),
        (|it| it.starts[1].sides[1].response.sum_of_squares *= 2, "the sum of their squares"),
        (
            |it| it.starts[1].sides[1].distribution.record(150_000),
            "as many as their distribution holds: 800 and 801",
        ),
        (
            |it| it.starts[1].sides[1].statuses = webstone_measure::metrics::Statuses::of_counts(&[1]),
            "every answer has a status",
        ),
        (|it| it.starts[1].sides[1].lateness_ns = Some(1.0), "an open loop, and none other, has lateness"),
        (|it| it.starts[1].sides[1].lateness_ns = Some(1e9), "late by a part of their response times"),
        (|it| it.contestants[1].name = "old".into(), "every contestant has a name of its own: `old`"),
        (|it| it.contestants[2].cpus = vec![3], "the twin is the first contestant again"),
        (|it| it.contestants[2].is_twin = false, "a twin takes part if it was asked for: 0 and 1"),
        (|it| drop(it.contestants.remove(1)), "two or more take part besides a twin: 2 with 1 twins"),
        (|it| it.starts.clear(), "a duel that ended has starts: 0 starts"),
        (|it| it.differences.push(Default::default()), "others: 1 and 0"),
        (
            |it| it.duel.restart_every = Nanos(100_000_000),
            "a round begins while the start lasts: 378000000 and 100000000",
        ),
        (|it| it.duel.slice = Nanos(30_000_000), "slice 1 of 20500000 ns, and 30000000 ns"),
        (|it| drop(it.environment.insert("tool".into(), "wrk".into())), "the environment names the program"),
    ];
    for (edit, expected) in edits {
        let mut record = record();
        edit(&mut record);
        let found = found(&record);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected} is not in {found:#?}");
    }
}

/// Numbers of a start that nothing else in the record says: connections, pages and bytes that were sent, how busy clients were,
/// and the peak of memory.
const ALONE: [&str; 12] = [
    "/counts/connections",
    "/counts/connections_answered",
    "/counts/connections_failed",
    "/counts/stale_retries",
    "/counts/lingered",
    "/counts/surplus",
    "/counts/pages_completed",
    "/counts/pages_failed",
    "/counts/sent_bytes",
    "/counts/busy_ns",
    "/counts/idle_ns",
    "/resident_bytes_max",
];

/// The places of all numbers in a tree.
fn numbers(tree: &Value, place: &str, found: &mut Vec<String>) {
    match tree {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| numbers(value, &format!("{place}/{name}"), found));
        }
        Value::Array(values) => {
            (0..).zip(values).for_each(|(at, value)| numbers(value, &format!("{place}/{at}"), found));
        }
        Value::Number(_) => found.push(place.to_owned()),
        _ => {}
    }
}

/// With each number of a tree doubled, one at a time, what `check` does not notice.
fn unnoticed<T: Serialize + DeserializeOwned>(
    of: &T,
    is_noticed: &dyn Fn(T) -> bool,
) -> (usize, Vec<String>) {
    let tree = serde_json::to_value(of).unwrap();
    let mut places = Vec::new();
    numbers(&tree, "", &mut places);
    let count = places.len();
    places.retain(|place| {
        let mut tree = tree.clone();
        let number = tree.pointer_mut(place).unwrap();
        *number = (number.as_u64().unwrap() * 2 + 1).into();
        // What cannot be read any more is noticed as well.
        serde_json::from_value(tree).is_ok_and(|edited| !is_noticed(edited))
    });
    (count, places)
}

#[test]
fn every_number_of_a_start_is_tied_to_another() {
    let record = record();
    let (count, left) = unnoticed(&record.starts[1].sides[1], &|run| {
        let mut record = record.clone();
        record.starts[1].sides[1] = run;
        !found(&record).is_empty()
    });
    assert!(count > ALONE.len() + 20, "{count}");
    assert_eq!(left.iter().filter(|place| !ALONE.contains(&place.as_str())).collect::<Vec<_>>(), [""; 0]);
    for number in 0..record.starts[1].slices.len() {
        let (_, left) = unnoticed(&record.starts[1].slices[number], &|slice| {
            let mut record = record.clone();
            record.starts[1].slices[number] = slice;
            !found(&record).is_empty()
        });
        // Of the last one, only how long it took is said elsewhere.
        let allowed: &[&str] = if number == 23 { &["/at_ns"] } else { &[] };
        assert_eq!(left, allowed, "slice {number}");
    }
}

#[test]
fn no_contestant_uses_more_cpu_time_than_its_cpus_have() {
    // As somebody would do it who edits every sum as well.
    let mut record = record();
    for slice in record.starts[0].slices.iter_mut().filter(|slice| slice.side == 1) {
        slice.cpu_ns = Some(1_000_000_000);
    }
    let slices = record.starts[0].slices.clone();
    let run = std::mem::take(&mut record.starts[0].sides[1]);
    record.starts[0].sides[1] = run.with_slices(slices.iter().filter(|slice| slice.side == 1));
    assert_eq!(
        found(&record),
        [
            "start 1, new: CPU time is time of the contestant's CPUs: the server cannot have used 8.000 s of CPU time within \
          0.624 s on at most 2 CPUs"
        ]
    );
}

#[test]
fn a_record_of_absurd_numbers_is_judged_without_a_panic() {
    let mut record = record();
    for start in &mut record.starts {
        start.at_ns = u64::MAX;
        for slice in &mut start.slices {
            *slice = Slice {
                at_ns: u64::MAX,
                took_ns: u64::MAX,
                requests: u64::MAX,
                errors: u64::MAX,
                bytes: u64::MAX,
                response_ns: u64::MAX,
                cpu_ns: Some(u64::MAX),
                resting_cpu_ns: Some(u64::MAX),
                waited_ns: Some(u64::MAX),
                generator_waited_ns: Some(u64::MAX),
                ..*slice
            };
        }
        for run in &mut start.sides {
            let counts = &mut run.counts;
            (counts.succeeded, counts.failed, counts.in_flight) = (u64::MAX, u64::MAX, u64::MAX);
            (counts.head_bytes, counts.body_bytes, counts.framing_bytes) = (u64::MAX, u64::MAX, u64::MAX);
            run.resident_bytes_max = Some(u64::MAX);
            run.slices_ns = u64::MAX;
        }
    }
    record.duel.slice = Nanos(u64::MAX);
    assert!(!found(&record).is_empty());
    let _ = super::super::of_record(&record);
    let none = DuelRecord::default();
    let _ = (super::super::of_record(&none), check(&none));
}
