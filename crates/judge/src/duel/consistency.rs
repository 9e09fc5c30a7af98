//! Whether the record of a duel agrees with itself: what its starts say against their slices, against their distributions, and against
//! the time that there was. As in [`crate::consistency`], editing a number takes editing all that it follows from.
//!
//! Some numbers stand alone, so that only what is impossible is found: connections, how busy clients and how late requests were, memory.

use webstone_measure::slices::Slice;
use webstone_measure::units::Nanos;
use webstone_model::duel::{DuelRecord, DuelStart, SideRun};
use webstone_model::record::RunState;

use super::STARTS_MAX;
use crate::consistency::{Books, Consistency, distribution, of_tool};
use crate::plausible;

/// Threads of the generator read their clocks one after the other.
const CLOCKS_APART_NS: u64 = 1_000_000;

/// Compares everything that the record of a duel says more than once.
pub fn check(record: &DuelRecord) -> Consistency {
    let mut books = Books { place: "the duel".to_owned(), found: Consistency::default() };
    whole(&mut books, record);
    let mut free_ns = 0;
    for (number, start) in record.starts.iter().enumerate() {
        books.place = format!("start {}", number + 1);
        let end_ns = times(&mut books, record, start);
        books.holds("a start begins after the one before it has ended", free_ns <= start.at_ns, || {
            format!("{} and {}", Nanos(start.at_ns), Nanos(free_ns))
        });
        free_ns = start.at_ns.saturating_add(end_ns);
        rounds(&mut books, record, start);
        books.equal(
            "every contestant is there once",
            start.sides.len() as u64,
            record.contestants.len() as u64,
        );
        for (side, (run, contestant)) in start.sides.iter().zip(&record.contestants).enumerate() {
            books.place = format!("start {}, {}", number + 1, contestant.name);
            let slices: Vec<&Slice> =
                start.slices.iter().filter(|slice| slice.side as usize == side).collect();
            of_slices(&mut books, run, &slices);
            of_counts(&mut books, record, run);
            let around_ns = record.duel.slice.0.saturating_mul(2 * record.contestants.len() as u64);
            let used_ns = run.whole_cpu_ns().or(run.cpu_ns).unwrap_or(0);
            books.holds(
                "CPU time is seen here or by an agent, not by both",
                run.cpu_ns.is_none() || run.cpu_elsewhere_ns.is_none(),
                || format!("{:?} and {:?}", run.cpu_ns, run.cpu_elsewhere_ns),
            );
            books.holds(
                "only an agent sees CPU time elsewhere",
                run.cpu_elsewhere_ns.is_none() || !contestant.agents.is_empty(),
                || format!("{:?} without an agent", run.cpu_elsewhere_ns),
            );
            let possible =
                plausible::of_cpu_time(used_ns, contestant.cpus.len(), end_ns.saturating_add(around_ns));
            books.holds("CPU time is time of the contestant's CPUs", possible.is_ok(), || {
                possible.err().unwrap_or_default()
            });
        }
    }
    books.place = "the duel".to_owned();
    books.holds("it took at least until its last start ended", free_ns <= record.took_ns, || {
        format!("{} and {}", Nanos(record.took_ns), Nanos(free_ns))
    });
    books.found
}

fn whole(books: &mut Books, record: &DuelRecord) {
    of_tool(books, &record.tool, record.environment.get("tool"));
    let contestants = &record.contestants;
    let twins = contestants.iter().filter(|contestant| contestant.is_twin).count();
    books.holds("two or more take part besides a twin", contestants.len() >= 2 + twins, || {
        format!("{} with {twins} twins", contestants.len())
    });
    books.equal("a twin takes part if it was asked for", twins as u64, u64::from(record.duel.twin));
    if let (Some(twin), Some(first)) = (record.twin(), contestants.first()) {
        let twin = &contestants[twin];
        let is_same = !first.is_twin
            && (&twin.given, twin.is_started, &twin.commit, &twin.cpus)
                == (&first.given, first.is_started, &first.commit, &first.cpus)
            && twin.software == first.software;
        books.holds("the twin is the first contestant again", is_same, || format!("{twin:?} and {first:?}"));
    }
    let twice = contestants.iter().enumerate().find(|(number, one)| {
        one.name.is_empty() || contestants[..*number].iter().any(|other| other.name == one.name)
    });
    books.holds("every contestant has a name of its own", twice.is_none(), || {
        twice.map(|(_, one)| format!("`{}`", one.name)).unwrap_or_default()
    });
    let others = record.differences.iter().filter(|one| {
        let number = one.contestant as usize;
        number == 0 || contestants.get(number).is_none_or(|contestant| contestant.is_twin)
    });
    books.equal("answers that differ are those of a contestant: others", others.count() as u64, 0);
    let is_ended = record.state != RunState::Partial;
    books.holds("a duel that ended has starts", !is_ended || !record.starts.is_empty(), || {
        "0 starts".to_owned()
    });
    books.holds(
        "no duel has more starts than looks are known for",
        record.starts.len() <= STARTS_MAX as usize,
        || format!("{} and {STARTS_MAX}", record.starts.len()),
    );
}

/// The slices of a start, one after the other. Returns when the last one had ended, counted from the beginning of the first.
fn times(books: &mut Books, record: &DuelRecord, start: &DuelStart) -> u64 {
    let mut free_ns = 0_u64;
    let (mut overlaps, mut short) = (None, None);
    for (number, slice) in start.slices.iter().enumerate() {
        if slice.at_ns.saturating_add(CLOCKS_APART_NS) < free_ns {
            overlaps = overlaps.or(Some((number, slice.at_ns, free_ns)));
        }
        if slice.took_ns.saturating_add(CLOCKS_APART_NS) < record.duel.slice.0 {
            short = short.or(Some((number, slice.took_ns)));
        }
        free_ns = slice.at_ns.saturating_add(slice.took_ns);
    }
    books.holds("a slice begins after the one before it has drained", overlaps.is_none(), || {
        let (number, at_ns, free_ns) = overlaps.unwrap_or_default();
        format!("slice {} at {at_ns} ns, and the one before until {free_ns} ns", number + 1)
    });
    books.holds("a slice is as long as was asked for, or longer", short.is_none(), || {
        let (number, took_ns) = short.unwrap_or_default();
        format!("slice {} of {took_ns} ns, and {} ns", number + 1, record.duel.slice.0)
    });
    let first_ns = start.slices.first().map_or(0, |slice| slice.at_ns);
    books.equal("times count from the first slice", first_ns, 0);
    free_ns
}

/// Every round has each contestant twice, in an order and in its reverse.
fn rounds(books: &mut Books, record: &DuelRecord, start: &DuelStart) {
    let length = 2 * record.contestants.len().max(1);
    books.equal("slices make whole rounds: left over", (start.slices.len() % length) as u64, 0);
    let is_round = |round: &[Slice]| {
        let sides: Vec<u32> = round.iter().map(|slice| slice.side).collect();
        let mut sorted = sides.clone();
        sorted.sort_unstable();
        sides.iter().eq(sides.iter().rev())
            && sorted.iter().enumerate().all(|(at, side)| *side as usize == at / 2)
    };
    let last = start.slices.chunks_exact(length).last().map_or(0, |round| round[0].at_ns);
    books.holds("a round begins while the start lasts", last <= record.duel.restart_every.0, || {
        format!("{last} and {}", record.duel.restart_every.0)
    });
    let wrong = start.slices.chunks_exact(length).position(|round| !is_round(round));
    books.holds(
        "a round has every contestant twice, the second time in reverse order",
        wrong.is_none(),
        || {
            let round = wrong.unwrap_or_default();
            let sides =
                start.slices[round * length..(round + 1) * length].iter().map(|slice| slice.side.to_string());
            format!("round {}: {}", round + 1, sides.collect::<Vec<_>>().join(" "))
        },
    );
}

/// A contestant's sums against its slices.
fn of_slices(books: &mut Books, run: &SideRun, slices: &[&Slice]) {
    let sum = |of: fn(&Slice) -> u64| slices.iter().map(|slice| of(slice)).fold(0, u64::saturating_add);
    let (counts, again) = (&run.counts, SideRun::default().with_slices(slices.iter().copied()));
    books.equal("requests: slices = total", sum(|slice| slice.requests), counts.succeeded);
    books.equal("errors: slices = total", sum(|slice| slice.errors), counts.failed);
    books.equal(
        "bytes: slices = heads + framing + bodies",
        sum(|slice| slice.bytes),
        counts.received_bytes(),
    );
    books.equal("response times: slices = total", sum(|slice| slice.response_ns), run.response.sum);
    // In open loop, arrivals that no client was free for are unanswered as well.
    let (unanswered, in_flight) = (sum(|slice| slice.unanswered), counts.in_flight);
    let agrees = if run.lateness_ns.is_some() { unanswered >= in_flight } else { unanswered == in_flight };
    books.holds("unanswered: slices = in flight", agrees, || format!("{unanswered} and {in_flight}"));
    books.equal("time under load: slices = total", again.slices_ns, run.slices_ns);
    for (rule, slices, total) in [
        ("CPU time: slices = total", again.cpu_ns, run.cpu_ns),
        ("CPU time without load: slices = total", again.resting_cpu_ns, run.resting_cpu_ns),
        ("waits for a CPU: slices = total", again.waited_ns, run.waited_ns),
        (
            "the generator's waits for a CPU: slices = total",
            again.generator_waited_ns,
            run.generator_waited_ns,
        ),
    ] {
        let said = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| value.to_string());
        books.holds(rule, slices == total, || format!("{} and {}", said(slices), said(total)));
    }
}

/// A contestant's sums against each other, and against its distribution.
fn of_counts(books: &mut Books, record: &DuelRecord, run: &SideRun) {
    let counts = &run.counts;
    distribution(books, "response times", &run.response, &run.distribution);
    books.equal("response times: as many as answers", run.response.count, counts.succeeded);
    books.equal("errors by class = failed", run.errors.total(), counts.failed);
    books.equal("planned = started + skipped", counts.planned, counts.started.saturating_add(counts.skipped));
    books.equal(
        "carried in + started = succeeded + failed + in flight",
        counts.carried_in.saturating_add(counts.started),
        counts.ended().saturating_add(counts.in_flight),
    );
    let statuses = run.statuses.sum();
    books.holds("every answer has a status", (counts.succeeded..=counts.ended()).contains(&statuses), || {
        format!("{statuses}, and {} to {}", counts.succeeded, counts.ended())
    });
    let client = &record.spec.client;
    let clients = u64::from(record.spec.load.clients.0.first().copied().unwrap_or_default());
    let at_once = clients.saturating_mul(client.parallel.max(client.pipeline).max(1).into());
    let most_ns = run.slices_ns.saturating_mul(at_once);
    books.holds("requests were in progress no longer than there was time", counts.busy_ns <= most_ns, || {
        format!("{} and {at_once} at once × {}", Nanos(counts.busy_ns), Nanos(run.slices_ns))
    });
    books.holds(
        "an open loop, and none other, has lateness",
        run.lateness_ns.is_some() == record.is_open_loop(),
        || format!("{:?}", run.lateness_ns),
    );
    let late_ns = run.lateness_ns.unwrap_or(0.0);
    books.holds(
        "requests were late by a part of their response times",
        (0.0..=run.response.mean()).contains(&late_ns),
        || format!("{late_ns} ns and {} ns", run.response.mean()),
    );
}

#[cfg(test)]
mod tests;
