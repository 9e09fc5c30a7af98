//! What a record says about time, checked against the plan, the clocks, the CPUs and the seconds: a rate is a count over a window, and
//! a shorter window raises it.
//!
//! Nothing that an honest record can have is refused, on a busy machine either. Only times of the monotonic clock are compared:
//! moments are labels of the wall clock, which may be set. How long a host was monitored is judged by
//! [`crate::plausible::is_of_window`]; here it only must not be longer than there was time.

use super::Books;
use crate::plausible;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};

/// Two readings of one moment may lie apart by this share of the window, and this much besides.
const APART_SHARE: u64 = 20;
const APART_NS: u64 = NANOS_PER_SECOND;

/// The run as a whole.
pub(super) fn of_run(books: &mut Books, record: &RunRecord) {
    let began = moment(&record.started_at);
    books.holds("the run began at a moment", began.is_some(), || record.started_at.clone());
    let stamp: String = record.started_at.split('.').next().unwrap_or_default().replace(['-', ':'], "");
    books.holds(
        "the record's name begins with the moment when the run began",
        record.id.is_empty() || record.id.starts_with(&format!("{stamp}Z-")),
        || format!("{} and {}", record.id, record.started_at),
    );
    let ended = record.finished_at.as_deref().and_then(moment);
    books.holds(
        "a run that ended has a moment when it did",
        record.finished_at.is_none() || ended.is_some(),
        || format!("{:?}", record.finished_at),
    );
    let mut places: Vec<_> = record.iterations.iter().filter_map(|run| run.pages_at).collect();
    places.sort_unstable_by_key(|place| place.offset);
    books.holds(
        "rows of pages lie one after the other",
        places.windows(2).all(|pair| pair[0].offset.checked_add(pair[0].bytes) == Some(pair[1].offset)),
        || format!("{places:?}"),
    );
    match record.took_ns {
        Some(took_ns) => windows(books, record, took_ns),
        None if ended.is_none() => {}
        None => books.holds("a run that ended says how long it took", false, || "nothing".to_owned()),
    }
}

/// Windows within the run, by the monotonic clock. Moments are only labels: the wall clock may have been set at any time.
fn windows(books: &mut Books, record: &RunRecord, took_ns: u64) {
    let mut before_ns = 0;
    for run in &record.iterations {
        let is_label = moment(&run.started_at).is_some();
        books.holds("a window opened at a moment", is_label, || run.started_at.clone());
        let window_ns = run.measured.span_ns();
        let Some(opened_ns) = run.opened_ns else {
            books.equal("a window has its place in the run", window_ns, 0);
            continue;
        };
        let end_ns = opened_ns.saturating_add(window_ns);
        books.holds(
            "windows open one after the other, within the run",
            before_ns <= opened_ns && end_ns <= took_ns,
            || format!("{}: {opened_ns} to {end_ns} ns, after {before_ns} ns, of {took_ns} ns", run.key()),
        );
        before_ns = end_ns;
    }
}

/// How long a level can have been watched: from the end of the window before to the opening of the next. On a
/// busy machine readings may be late, but not later than that, or than the end of the run.
fn room_ns(record: &RunRecord, run: &IterationRecord) -> u64 {
    let Some(took_ns) = record.took_ns else { return u64::MAX };
    let Some(opened_ns) = run.opened_ns else { return took_ns };
    let others = || record.iterations.iter().chain(&record.voids);
    // A window that a lost host ended may have no length, and is not the one before itself.
    let earlier = others().filter(|it| it.opened_ns.is_some_and(|other_ns| other_ns < opened_ns));
    let ends = earlier.filter_map(|it| Some(it.opened_ns?.saturating_add(it.measured.span_ns())));
    let begins = others().filter_map(|it| it.opened_ns);
    let from_ns = ends.filter(|end_ns| *end_ns <= opened_ns).max().unwrap_or(0);
    let to_ns = begins.filter(|begin_ns| *begin_ns > opened_ns).min().unwrap_or(took_ns);
    to_ns.saturating_sub(from_ns)
}

/// One timed run.
pub(super) fn of_iteration(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    window(books, record, run);
    machines(books, run);
    progress(books, record, run);
    seconds(books, record, run);
}

/// A timed run that was void: what is stored of it.
pub(super) fn of_void(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    window(books, record, run);
    machines(books, run);
}

/// The window against the plan, and against the clock that the host was read by.
fn window(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    let (load, window_ns) = (&record.spec.load, run.measured.span_ns());
    // A host that is lost ends the window of the others.
    let ends_early = run.interrupted || load.pages.is_some() || run.lost.is_some();
    // It may have been extended, in place of disturbed slices.
    let extended = !run.slices.is_empty() && window_ns / 3 <= load.duration.0 / 2;
    books.holds(
        "the window is as long as was planned",
        match load.duration.0 {
            0 => true,
            planned_ns if window_ns > planned_ns => extended,
            planned_ns => window_ns == planned_ns || ends_early,
        },
        || format!("{window_ns} ns and {}", load.duration),
    );
    let of_parts = run.parts.iter().filter_map(|part| part.host.as_ref());
    let elsewhere = run.server_hosts.iter().map(|there| &there.host).chain(of_parts);
    let here = run.host.iter().map(|host| (host, 0));
    // Of another host's clock, which may run a little faster.
    let room_ns = room_ns(record, run);
    let hosts = here.chain(elsewhere.map(|host| (host, room_ns / APART_SHARE + APART_NS)));
    for (host, more_ns) in hosts {
        books.holds(
            "the host was monitored no longer than its level lasted",
            host.elapsed_ns <= room_ns.saturating_add(more_ns),
            || format!("{} ns and {room_ns} ns", host.elapsed_ns),
        );
    }
}

/// No CPU and no thread has more time than there was.
fn machines(books: &mut Books, run: &IterationRecord) {
    for there in &run.server_hosts {
        hosts_time(books, plausible::of_host(&there.host));
        hosts_time(books, plausible::of_server(run.server_on(there), &there.host, there.host.elapsed_ns));
    }
    if let Some(here) = run.host.as_ref().filter(|_| run.server_hosts.is_empty()) {
        // The server's counters are read at an instant of their own, but belong to the window.
        let elapsed_ns = here.elapsed_ns.max(run.measured.window_ns);
        hosts_time(books, plausible::of_server(run.server.as_ref(), here, elapsed_ns));
    }
    for here in run.host.iter().chain(run.parts.iter().filter_map(|part| part.host.as_ref())) {
        hosts_time(books, plausible::of_host(here));
        if let Some(disturbance) = &here.disturbance {
            let (longest, taken, looked) =
                (disturbance.longest_ns, disturbance.taken_ns, disturbance.looked_ns);
            books.holds(
                "others took no more than was monitored",
                longest <= taken && taken <= looked,
                || format!("{longest}, {taken} and {looked} ns"),
            );
        }
        let ascending = here.cpus.windows(2).all(|pair| pair[0].cpu < pair[1].cpu);
        books.holds("every CPU is there once", ascending, || "their numbers do not ascend".to_owned());
    }
    // Workers may end a slice late, as they may a window.
    let apart_ns = APART_NS.saturating_mul(1 + run.slices.len() as u64);
    let window_ns = run.measured.window_ns;
    let most_ns = window_ns.saturating_add(window_ns / APART_SHARE).saturating_add(apart_ns);
    for (place, worker) in run.measured.generator.workers.iter().enumerate() {
        let used_ns = worker.user_ns.saturating_add(worker.system_ns);
        let times = [used_ns, worker.spun_ns, worker.run_queue_ns.unwrap_or_default()];
        books.holds(
            "a worker has no more time than the window",
            times.iter().all(|time| *time <= most_ns),
            || format!("worker {place}: {times:?} ns and {most_ns}"),
        );
    }
}

fn hosts_time(books: &mut Books, found: Result<(), String>) {
    let holds = found.is_ok();
    books.holds("CPUs were busy no longer than there was time", holds, || found.err().unwrap_or_default());
}

/// Time in progress against response times, and the window's counters against those of the whole level.
fn progress(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    let (measured, counts) = (&run.measured, &run.measured.counts);
    if record.spec.client.parallel <= 1 && record.spec.load.pages.is_none() {
        let there = run.identities.iter().any(|check| check.number == 2);
        books
            .holds("identity 2 was checked", there || measured.window_ns == 0, || "it is missing".to_owned());
    }
    if measured.open_loop.is_none() {
        // A request that was carried in began before the window, and took at most as long as the longest.
        let carried_ns = counts.carried_in.saturating_mul(measured.response.max);
        let most_ns = counts.busy_ns.saturating_add(carried_ns);
        books.holds(
            "Σ response time is within the time in progress",
            measured.response.sum <= most_ns,
            || format!("{} ns and {most_ns} ns", measured.response.sum),
        );
    }
    if counts.failed == 0 && measured.open_loop.is_none() {
        let in_flight = counts.in_flight.saturating_add(counts.left_open);
        let in_flight_ns = in_flight.saturating_mul(measured.window_ns);
        let most_ns = measured.response.sum.saturating_add(in_flight_ns);
        books.holds("the time in progress is that of responses", counts.busy_ns <= most_ns, || {
            format!("{} ns and {most_ns} ns", counts.busy_ns)
        });
        let bytes = counts.head_bytes.saturating_add(counts.body_bytes).saturating_add(counts.framing_bytes);
        books.equal("heads, bodies and framing = responses", bytes, measured.response_bytes.sum);
        books.equal("bodies = body sizes", counts.body_bytes, measured.body_bytes.sum);
    }
    let whole = &measured.lifetime;
    for (rule, part, all) in [
        ("connections of the window are of the level", counts.connections, whole.connections),
        ("responses of the window are of the level", counts.succeeded, whole.requests),
        ("bytes sent in the window are of the level", counts.sent_bytes, whole.sent_bytes),
        ("bytes received in the window are of the level", counts.received_bytes(), whole.received_bytes),
    ] {
        books.holds(rule, part <= all, || format!("{part} and {all}"));
    }
    let served = run.server.as_ref().and_then(|server| server.requests);
    let none_lost = (counts.failed, whole.failed, whole.cut_off) == (0, 0, 0) && !run.interrupted;
    if let Some(served) = served.filter(|_| record.target.embedded && none_lost) {
        books.equal("requests of the level are those that the server answered", whole.requests, served);
    }
    books.equal(
        "an arm in an A/A run, and in none other",
        record.spec.load.aa.into(),
        run.arm.is_some().into(),
    );
}

/// Second by second: no second holds more time than its clients have, and none is left out.
fn seconds(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    let measured = &run.measured;
    let at_once = u64::from(run.clients).saturating_mul(record.spec.client.parallel.max(1).into());
    for (second, held) in measured.seconds.0.iter().enumerate() {
        let least = held.requests > 0 || held.response_ns == 0;
        let sound = least
            && held.response_ns_max <= held.response_ns
            && u128::from(held.response_ns) <= u128::from(held.requests) * u128::from(held.response_ns_max);
        books.holds("an interval's requests, their sum and their longest go together", sound, || {
            format!("second {second}: {held:?}")
        });
        let most_ns = at_once.saturating_mul(NANOS_PER_SECOND.saturating_add(held.response_ns_max));
        books.holds(
            "an interval holds no more response time than its clients have",
            measured.open_loop.is_some() || held.response_ns <= most_ns,
            || format!("second {second}: {} ns and {most_ns} ns", held.response_ns),
        );
    }
    // Clients that never wait, and whose requests all end within a second, leave no whole second empty.
    let counts = &measured.counts;
    let never_idle = counts.idle_ns == 0 && counts.failed == 0 && measured.open_loop.is_none();
    if never_idle && record.spec.load.pages.is_none() && measured.response.max < NANOS_PER_SECOND {
        let (whole, held) = (measured.span_ns() / NANOS_PER_SECOND, measured.seconds.0.len() as u64);
        books.holds("every second of the window is there", held >= whole, || format!("{held} and {whole}"));
    }
}

/// Nanoseconds since 1970 of a moment as records have it: `2026-01-31T12:30:05.250Z`.
fn moment(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |part: &str, from: u64, to: u64| {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u64>().ok().filter(|number| is_number && (from..=to).contains(number))
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (number(parts.next()?, 1970, 9999)?, number(parts.next()?, 1, 12)?, number(parts.next()?, 1, 31)?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = clock.splitn(3, ':');
    let (hour, minute, second) =
        (number(parts.next()?, 0, 23)?, number(parts.next()?, 0, 59)?, number(parts.next()?, 0, 60)?);
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let fraction_ns = number(fraction, 0, u64::MAX)? * 10_u64.pow(9 - digits);
    // Days of the proleptic Gregorian calendar, years beginning in March (Howard Hinnant, "chrono-Compatible Low-Level Date
    // Algorithms", days_from_civil).
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(fraction_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::Consistency;
    use webstone_measure::metrics::{Counts, Measured, Second, Seconds};
    use webstone_measure::units::Nanos;
    use webstone_model::record::{Arm, CpuUse, HostUse};

    #[test]
    fn moments_are_read_to_the_nanosecond() {
        assert_eq!(moment("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(moment("2026-01-31T12:30:05.250Z"), Some(1_769_862_605_250_000_000));
        assert_eq!(moment("2024-02-29T23:59:59Z"), Some(1_709_251_199_000_000_000));
        for wrong in ["", "2026-01-31", "2026-01-31T12:30:05", "2026-13-01T00:00:00Z", "+026-01-01T00:00:00Z"]
        {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    /// Two windows of ten seconds with one client that always has one request of a millisecond in progress.
    fn sound() -> RunRecord {
        let second = Second {
            requests: 1_000,
            response_ns: NANOS_PER_SECOND,
            response_ns_max: 2_000_000,
            ..Second::default()
        };
        let mut measured = Measured { window_ns: 10 * NANOS_PER_SECOND, ..Measured::default() };
        measured.seconds = Seconds(vec![second; 10]);
        measured.counts = Counts { busy_ns: 10 * NANOS_PER_SECOND, succeeded: 10_000, ..Counts::default() };
        measured.response.sum = 10 * NANOS_PER_SECOND;
        measured.response.max = 2_000_000;
        measured.lifetime.requests = 10_000;
        let cpu =
            CpuUse { busy_ns: 6 * NANOS_PER_SECOND, idle_ns: 4 * NANOS_PER_SECOND, ..CpuUse::default() };
        let host = HostUse { elapsed_ns: 10_003_000_000, cpus: vec![cpu], ..HostUse::default() };
        let identity = webstone_measure::identities::IdentityCheck {
            number: 2,
            rule: String::new(),
            evidence: String::new(),
            holds: true,
        };
        let run = |iteration: u32, started_at: &str| IterationRecord {
            clients: 1,
            iteration,
            started_at: started_at.to_owned(),
            opened_ns: Some(1_000_000_000 + u64::from(iteration - 1) * 10_050_000_000),
            measured: measured.clone(),
            identities: vec![identity.clone()],
            host: Some(host.clone()),
            ..IterationRecord::default()
        };
        let mut record: RunRecord = serde_json::from_value(serde_json::json!({
            "schema": 1, "id": "20260131T123005Z-x", "tool": { "name": "", "version": "", "commit": null },
            "started_at": "2026-01-31T12:30:05.250Z", "finished_at": "2026-01-31T12:30:27.250Z", "state": "complete",
            "command_line": [], "spec": {}, "workload": { "name": "", "pages": [] }, "workload_sha256": "",
            "target": { "url": "", "server": null, "embedded": true, "cpus": [] }, "environment": {}, "warnings": [],
            "iterations": []
        }))
        .unwrap();
        record.spec.load.duration = Nanos::from_secs(10);
        record.took_ns = Some(22_000_000_000);
        record.iterations = vec![run(1, "2026-01-31T12:30:06.250Z"), run(2, "2026-01-31T12:30:16.300Z")];
        record
    }

    fn broken(change: impl FnOnce(&mut RunRecord)) -> Vec<String> {
        let mut record = sound();
        change(&mut record);
        let mut books = Books { place: String::new(), found: Consistency::default() };
        of_run(&mut books, &record);
        record.iterations.iter().for_each(|run| of_iteration(&mut books, &record, run));
        books.found.contradictions.into_iter().map(|found| found.rule).collect()
    }

    #[test]
    fn the_others_end_early_where_a_host_was_lost() {
        let rule = "the window is as long as was planned";
        let with_window = |of: fn(u64) -> u64| {
            broken(|record| {
                let run = &mut record.iterations[0];
                run.lost = Some(webstone_model::generators::GeneratorLoss::default());
                run.measured.window_ns = of(run.measured.window_ns);
            })
        };
        assert!(!with_window(|ns| ns / 2).iter().any(|found| found == rule));
        assert!(with_window(|ns| ns * 2).iter().any(|found| found == rule));
    }

    #[test]
    fn each_lie_about_time_contradicts_something() {
        assert_eq!(broken(|_| ()), Vec::<String>::new());
        type Lie = fn(&mut IterationRecord);
        let lies: [(Lie, &str); 15] = [
            (|run| run.measured.window_ns /= 2, "the window is as long as was planned"),
            (|run| run.measured.window_ns *= 2, "the window is as long as was planned"),
            (
                |run| run.host.as_mut().unwrap().elapsed_ns *= 2,
                "the host was monitored no longer than its level lasted",
            ),
            (
                |run| run.host.as_mut().unwrap().cpus[0].idle_ns *= 3,
                "CPUs were busy no longer than there was time",
            ),
            (|run| run.opened_ns = Some(12_000_000_000), "windows open one after the other, within the run"),
            (|run| run.opened_ns = None, "a window has its place in the run"),
            (|run| run.started_at = "yesterday".into(), "a window opened at a moment"),
            (|run| run.identities.clear(), "identity 2 was checked"),
            (|run| run.measured.counts.busy_ns /= 2, "Σ response time is within the time in progress"),
            (|run| run.measured.counts.busy_ns *= 2, "the time in progress is that of responses"),
            (|run| run.measured.lifetime.requests -= 1, "responses of the window are of the level"),
            (|run| run.measured.seconds.0.truncate(5), "every second of the window is there"),
            (
                |run| run.measured.seconds.0[3].response_ns *= 3,
                "an interval's requests, their sum and their longest go together",
            ),
            (
                |run| {
                    run.measured.seconds.0[3].response_ns *= 2;
                    run.measured.seconds.0[3].requests *= 2;
                },
                "an interval holds no more response time than its clients have",
            ),
            (|run| run.arm = Some(Arm::A), "an arm in an A/A run, and in none other"),
        ];
        for (lie, rule) in lies {
            let found = broken(|record| lie(&mut record.iterations[0]));
            assert!(found.iter().any(|found| found == rule), "{rule}: {found:?}");
        }
        let shorter = |record: &mut RunRecord| record.took_ns = Some(20_000_000_000);
        assert!(broken(shorter).contains(&"windows open one after the other, within the run".to_owned()));
        let renamed = |record: &mut RunRecord| record.id = "20250131T123005Z-x".into();
        assert_eq!(broken(renamed), ["the record's name begins with the moment when the run began"]);
    }

    #[test]
    fn the_wall_clock_may_be_set_at_any_time() {
        for (second, ended) in [("11:30:16.300Z", "11:30:27.250Z"), ("13:45:00.000Z", "13:45:11.000Z")] {
            let stepped = |record: &mut RunRecord| {
                record.iterations[1].started_at = format!("2026-01-31T{second}");
                record.finished_at = Some(format!("2026-01-31T{ended}"));
            };
            assert_eq!(broken(stepped), Vec::<String>::new(), "{second}");
        }
    }

    #[test]
    fn a_host_may_be_looked_at_late_but_not_beyond_its_level() {
        let monitored_for = |millis: u64| {
            broken(|record| record.iterations[1].host.as_mut().unwrap().elapsed_ns = millis * 1_000_000)
        };
        // The window before ended 50 ms earlier, and the run ends 950 ms later.
        for millis in [6_000, 10_003, 11_000] {
            assert_eq!(monitored_for(millis), Vec::<String>::new(), "{millis}");
        }
        assert_eq!(monitored_for(11_001), ["the host was monitored no longer than its level lasted"]);
    }

    #[test]
    fn a_run_that_ended_says_how_long_it_took() {
        let rule = "a run that ended says how long it took";
        assert_eq!(broken(|record| record.took_ns = None), [rule]);
        let killed = |record: &mut RunRecord| (record.took_ns, record.finished_at) = (None, None);
        assert_eq!(broken(killed), Vec::<String>::new());
    }

    #[test]
    fn every_host_of_several_is_checked_against_its_time() {
        let of_fleet = |lie: fn(&mut IterationRecord)| {
            broken(|record| {
                record.iterations[0].measured.generator.workers = vec![Default::default()];
                webstone_model::fixture::split(record, 3);
                lie(&mut record.iterations[0]);
            })
        };
        assert_eq!(of_fleet(|_| ()), Vec::<String>::new());
        assert_eq!(
            of_fleet(|run| run.parts[2].host.as_mut().unwrap().cpus[0].idle_ns *= 3),
            ["CPUs were busy no longer than there was time"]
        );
        assert_eq!(
            of_fleet(|run| run.parts[1].host.as_mut().unwrap().elapsed_ns *= 2),
            ["the host was monitored no longer than its level lasted"]
        );
        assert_eq!(
            of_fleet(|run| run.measured.generator.workers[2].user_ns = 20 * NANOS_PER_SECOND),
            ["a worker has no more time than the window"]
        );
    }

    #[test]
    fn a_level_that_was_ended_early_has_a_shorter_window() {
        assert_eq!(broken(|record| record.spec.load.duration = Nanos::from_secs(11)).len(), 2);
        let interrupted = |record: &mut RunRecord| {
            record.spec.load.duration = Nanos::from_secs(11);
            record.iterations.iter_mut().for_each(|run| run.interrupted = true);
        };
        assert_eq!(broken(interrupted), Vec::<String>::new());
    }
}
