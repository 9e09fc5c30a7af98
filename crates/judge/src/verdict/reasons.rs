//! What makes a run INVALID, NOISY or INCONCLUSIVE. One function per cause; each reason has the measured value and the limit that it broke.

use super::bounds::{
    CROWDED_COST_PERCENT, CROWDED_PERCENT_CLEAN, ERRORS_PERCENT_MAX, GENERATOR_WINDOW_NS_MIN,
    INTERVAL_PERCENT_MAX, PATH_LATE_NS_MAX, PATH_LATE_PERCENT_MAX, RATE_MISSED_PERCENT_MAX,
    SCHEDULE_LAG_PERCENT_MAX, SHORT_WINDOW_NS, SLOWER_PERCENT_CLEAN, STALL_NS_CLEAN, STALLED_PERCENT_MAX,
    TAKEN_PERCENT_CLEAN, WORKER_CPU_PERCENT_MAX, counted, percent, run_queue_percent, time, worker_percent,
};
use super::disturbance::{self, LossKind};
use super::{Cause, Reason};
use super::{earlier, fleet, lateness};
use crate::search;
use crate::statistics;
use webstone_measure::figures::unanswered::{stalled_after_ns, stalled_share};
use webstone_measure::identities;
use webstone_measure::metrics::{Moments, WorkerUse, fairness};
use webstone_model::record::{HostUse, IterationRecord, RunRecord, RunState};

/// The identity of the parts.
const PARTS: u8 = 5;

/// Everything that makes the run invalid, and what makes it noisy or inconclusive; the gravest causes first.
pub(super) fn reasons(record: &RunRecord) -> (Vec<Reason>, Vec<Reason>) {
    let (mut reasons, mut doubts) = (Vec::new(), Vec::new());
    for run in &record.iterations {
        disturbed(record, run, &mut reasons, &mut doubts);
    }
    for (_, runs) in record.levels() {
        slower(record, &runs, &mut doubts);
        imprecise(&runs, &mut doubts);
    }
    for run in &record.iterations {
        identities(run, &mut reasons);
        if run.measured.window_ns >= GENERATOR_WINDOW_NS_MIN {
            saturated(record, run, &mut reasons);
            relayed(record, run, &mut reasons);
        }
        schedule(record, run, &mut reasons);
        starved(record, run, &mut reasons);
    }
    for (_, runs) in record.levels() {
        errors(&runs, &mut reasons);
        unanswered(&runs, &mut reasons);
    }
    sought(record, &mut reasons);
    sought(record, &mut doubts);
    incomplete(record, &mut reasons);
    let mut runs = record.iterations.iter().chain(&record.voids);
    if record.spec.load.iterations <= 1 && runs.all(|run| run.iteration <= 1) {
        reasons.iter_mut().chain(&mut doubts).for_each(omit_only_iteration);
    }
    // Stable: inside a cause, in the order of the record.
    reasons.sort_by_key(|reason| reason.cause);
    doubts.sort_by_key(|reason| reason.cause);
    (reasons, doubts)
}

/// Names the level alone where each has one iteration.
fn omit_only_iteration(reason: &mut Reason) {
    let (Some(level), Some(number)) = (reason.level(), reason.iteration) else { return };
    if let Some(rest) = reason.sentence.strip_prefix(&format!("{level}, iteration {number}")) {
        reason.sentence = format!("{level}{rest}");
    }
}

/// What others took while the window was open. A host that was lost or late makes the run invalid, noise makes it noisy.
fn disturbed(record: &RunRecord, run: &IterationRecord, reasons: &mut Vec<Reason>, doubts: &mut Vec<Reason>) {
    let losses = disturbance::losses(record, run);
    let together = disturbance::judged_with(record, run);
    let is_first = std::ptr::eq(together[0], run);
    // One sentence per window, or for all that are judged together: the worst loss shows what to do, and the others would say the
    // same of the next CPU.
    let Some(worst) = losses.first() else { return };
    match worst.kind {
        LossKind::Gone => {
            let sentence =
                format!("{}; what is here is the others' alone, and was not repeated", worst.sentence());
            let limit = "every host to the end".to_owned();
            let measured = "a host was lost".to_owned();
            return reasons.push(of_run(run, Cause::Incomplete, measured, limit, &sentence));
        }
        LossKind::Apart => {
            let most_ns = fleet::furthest(run).map_or(0, |part| part.apart_ns_max());
            let limit = time(fleet::apart_ns_max(run.measured.window_ns) as f64);
            let measured = time(most_ns as f64);
            return reasons.push(of_run(run, Cause::WindowsApart, measured, limit, &worst.sentence()));
        }
        // Told already.
        LossKind::Taken | LossKind::Unseen if !is_first => return,
        LossKind::Taken | LossKind::Slow | LossKind::Unseen | LossKind::Crowded | LossKind::LeftOut => {}
    }
    let is_slow = worst.kind == LossKind::Slow;
    let by_share = worst.kind != LossKind::Taken || worst.percent >= TAKEN_PERCENT_CLEAN;
    let (measured, limit) = match by_share {
        true if worst.kind == LossKind::Crowded => {
            let share = worst.percent * 100.0 / CROWDED_COST_PERCENT;
            (rounded(share, CROWDED_PERCENT_CLEAN), format!("{CROWDED_PERCENT_CLEAN} %"))
        }
        true => {
            let limit = if is_slow { SLOWER_PERCENT_CLEAN } else { TAKEN_PERCENT_CLEAN };
            (rounded(worst.percent, limit), format!("{limit} %"))
        }
        false => (time(worst.stalled_ns_max as f64), time(STALL_NS_CLEAN as f64)),
    };
    let cause = match worst.kind {
        LossKind::Slow => Cause::Slowed,
        LossKind::Unseen => Cause::Unjudged,
        LossKind::Crowded => Cause::Crowded,
        _ => Cause::Disturbed,
    };
    let mut reason = of_run(run, cause, measured, limit, &worst.sentence());
    // The others are of this window alone.
    let is_of_all = matches!(worst.kind, LossKind::Taken | LossKind::Unseen);
    if is_of_all && together.len() > 1 {
        reason.iteration = None;
        reason.sentence = format!("{}, all {} timed runs: {}", run.level(), together.len(), worst.sentence());
    }
    doubts.push(reason);
}

/// A machine that was faster in earlier runs.
fn slower(record: &RunRecord, runs: &[&IterationRecord], doubts: &mut Vec<Reason>) {
    let Some(drift) = earlier::of_level(record, runs, &record.earlier_speeds)
        .filter(|it| it.slower_percent >= SLOWER_PERCENT_CLEAN)
    else {
        return;
    };
    let measured = rounded(drift.slower_percent, SLOWER_PERCENT_CLEAN);
    let sentence = format!(
        "CPU {} was {measured} slower than in the fastest 5 % of {} of earlier runs on this machine (limit {SLOWER_PERCENT_CLEAN} %)",
        drift.earlier.cpu,
        counted(u64::from(drift.earlier.windows), "window", "windows")
    );
    doubts.push(of_level(
        runs,
        Cause::SlowerThanEarlier,
        measured,
        format!("{SLOWER_PERCENT_CLEAN} %"),
        &sentence,
    ));
}

/// Iterations that differ so much that their mean is meaningless.
fn imprecise(runs: &[&IterationRecord], doubts: &mut Vec<Reason>) {
    let whole: Vec<&IterationRecord> = runs.iter().copied().filter(|run| !run.interrupted).collect();
    let rates: Vec<f64> = whole.iter().map(|run| rate(run)).collect();
    let (lowest, highest) =
        rates.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    // No interval is wider than that of two values, 2 × 12.7 times half of their distance: nothing to resample.
    if (highest - lowest) * 13.0 <= statistics::mean(&rates) {
        return;
    }
    let Some(interval) = statistics::mean_interval(&rates) else { return };
    let width = percent(interval.high - interval.low, interval.point);
    if width <= INTERVAL_PERCENT_MAX {
        return;
    }
    let sentence = format!(
        "nothing can be concluded: its {} range from {lowest:.0} to {highest:.0} requests/s, and the 95 % interval is \
         ±{:.0} %",
        counted(rates.len() as u64, "iteration", "iterations"),
        width / 2.0
    );
    let [measured, limit] = [width, INTERVAL_PERCENT_MAX].map(|percent| format!("±{:.0} %", percent / 2.0));
    doubts.push(of_level(runs, Cause::Imprecise, measured, limit, &sentence));
}

/// Valid responses a second.
fn rate(run: &IterationRecord) -> f64 {
    match run.measured.window_ns {
        0 => 0.0,
        window_ns => run.measured.counts.succeeded as f64 * 1e9 / window_ns as f64,
    }
}

fn of_run(run: &IterationRecord, cause: Cause, measured: String, limit: String, sentence: &str) -> Reason {
    Reason {
        cause,
        clients: Some(run.clients),
        rate: run.rate,
        iteration: Some(run.iteration),
        sentence: format!("{}: {sentence}", run.key()),
        measured,
        limit,
    }
}

fn of_level(
    runs: &[&IterationRecord],
    cause: Cause,
    measured: String,
    limit: String,
    sentence: &str,
) -> Reason {
    let sentence = format!("{}: {sentence}", runs[0].level());
    Reason { iteration: None, sentence, ..of_run(runs[0], cause, measured, limit, "") }
}

fn incomplete(record: &RunRecord, reasons: &mut Vec<Reason>) {
    let planned = record.spec.load.levels() as u64 * u64::from(record.spec.load.iterations);
    let whole = record.iterations.iter().filter(|run| !run.interrupted).count() as u64;
    if whole >= planned && record.state == RunState::Complete && whole > 0 {
        return;
    }
    let why = match record.state {
        RunState::Partial => "the run is still going on, or was killed",
        RunState::Interrupted => "the run was ended by the user",
        RunState::Failed => "the run was ended by an error",
        RunState::Complete => "the record lacks some",
    };
    let measured = counted(whole, "timed run", "timed runs");
    let (limit, sentence) = match &record.spec.find {
        Some(_) => {
            ("a search that came to its end".to_owned(), format!("the search ended after {measured}: {why}"))
        }
        None => {
            // "1 of 1 planned timed runs": the word belongs to all of them, however few.
            let due = counted(planned, "planned timed runs", "planned timed runs");
            // One that ended badly may have done so after its last timed run.
            let sentence = match whole >= planned && whole > 0 {
                true => format!("{whole} of {due} were completed, but {why}"),
                false => format!("{whole} of {due} were completed: {why}"),
            };
            (format!("{planned} planned"), sentence)
        }
    };
    let (cause, clients, rate, iteration) = (Cause::Incomplete, None, None, None);
    reasons.push(Reason { cause, clients, rate, iteration, measured, limit, sentence });
}

fn identities(run: &IterationRecord, reasons: &mut Vec<Reason>) {
    // What hosts had of the whole is added up again: a record may come from elsewhere.
    let parts = identities::of_parts(run);
    let stored = run.identities.iter().filter(|check| parts.is_empty() || check.number != PARTS);
    for check in stored.chain(&parts).filter(|check| !check.holds) {
        let sentence = format!("identity {} is broken: {}: {}", check.number, check.rule, check.evidence);
        let rule = format!("identity {}: {}", check.number, check.rule);
        reasons.push(of_run(run, Cause::IdentityBroken, check.evidence.clone(), rule, &sentence));
    }
}

/// Over all iterations of a level, so that one bad second of a short iteration does not condemn a long run. But an iteration
/// in which nothing succeeded counts by itself: clients that are refused wait, and fail too seldom to show in a share.
fn errors(runs: &[&IterationRecord], reasons: &mut Vec<Reason>) {
    let sum = |of: fn(&IterationRecord) -> u64| runs.iter().map(|run| of(run)).fold(0, u64::saturating_add);
    let succeeded = sum(|run| run.measured.counts.succeeded);
    let failed = sum(|run| run.measured.counts.failed);
    let share = percent(failed as f64, succeeded.saturating_add(failed) as f64);
    let (cause, measured, limit, sentence) = if succeeded == 0 {
        let (measured, limit, what) = nothing_succeeded(runs);
        (Cause::NothingSucceeded, measured, limit, what)
    } else {
        let in_vain = runs.iter().filter(|run| !run.interrupted && run.measured.counts.succeeded == 0);
        for run in in_vain {
            let (measured, limit, what) = nothing_succeeded(&[run]);
            reasons.push(of_run(run, Cause::NothingSucceeded, measured, limit, &what));
        }
        if share <= ERRORS_PERCENT_MAX {
            return;
        }
        let what = format!(
            "{} of the requests failed ({failed} of {}; limit {ERRORS_PERCENT_MAX} %)",
            rounded(share, ERRORS_PERCENT_MAX),
            succeeded.saturating_add(failed)
        );
        (Cause::Errors, rounded(share, ERRORS_PERCENT_MAX), format!("{ERRORS_PERCENT_MAX} %"), what)
    };
    reasons.push(of_level(runs, cause, measured, limit, &sentence));
}

/// Requests that waited much longer than answered ones and had no valid answer. The server's doing: the figures say what it did, as
/// lower bounds, and how far beyond them the truth lies is not known.
fn unanswered(runs: &[&IterationRecord], reasons: &mut Vec<Reason>) {
    let share = stalled_share(runs) * 100.0;
    let sum = |of: fn(&IterationRecord) -> u64| runs.iter().map(|run| of(run)).fold(0, u64::saturating_add);
    // If nothing succeeded at all, another reason says so.
    if share <= STALLED_PERCENT_MAX || sum(|run| run.measured.counts.succeeded) == 0 {
        return;
    }
    let of_what = if runs[0].rate.is_some() { "arrivals" } else { "clients' time" };
    let in_flight = in_flight(runs);
    let failed = match sum(|run| run.measured.counts.failed) {
        0 => String::new(),
        count => format!("; {} failed", counted(count, "request", "requests")),
    };
    let sentence = format!(
        "{} of the {of_what} went to requests that had no valid answer after {}, much longer than answered ones took (limit \
         {STALLED_PERCENT_MAX} %){in_flight}{failed}",
        rounded(share, STALLED_PERCENT_MAX),
        time(stalled_after_ns(runs) as f64),
    );
    let (measured, limit) = (rounded(share, STALLED_PERCENT_MAX), format!("{STALLED_PERCENT_MAX} %"));
    reasons.push(of_level(runs, Cause::Unanswered, measured, limit, &sentence));
}

/// `; 8 requests in flight at the end, the oldest for 7.9 s`; nothing where none was.
fn in_flight(runs: &[&IterationRecord]) -> String {
    let mut waits = Moments::default();
    runs.iter().for_each(|run| waits.merge(&run.measured.unanswered.in_flight));
    match waits.count {
        0 => String::new(),
        count => format!(
            "; {} in flight at the end, the oldest for {}",
            counted(count, "request", "requests"),
            time(waits.max as f64)
        ),
    }
}

/// What was measured, what it has to be, and a sentence about it.
fn nothing_succeeded(runs: &[&IterationRecord]) -> (String, String, String) {
    let failed = runs.iter().map(|run| run.measured.counts.failed).fold(0, u64::saturating_add);
    let what = match failed {
        0 => format!("no request ended inside the measured window{}", in_flight(runs)),
        _ => format!("no request succeeded, {failed} failed{}", in_flight(runs)),
    };
    (format!("{failed} failed"), "1 valid response".to_owned(), what)
}

/// A worker that used up its CPU, or would have if it had had it whenever it was ready to run: what others take from a worker must not
/// hide that it is the bottleneck.
fn saturated(record: &RunRecord, run: &IterationRecord, reasons: &mut Vec<Reason>) {
    for maker in run.load_makers() {
        for (number, worker) in maker.workers.iter().enumerate() {
            let used = worker_percent(worker, run.measured.window_ns);
            // A worker that shares its CPU with the server waits for the server, and not because it has too much to do itself.
            let queued = match disturbance::shares_its_cpu(record, &maker, worker) {
                true => 0.0,
                false => run_queue_percent(worker, run.measured.window_ns),
            };
            let waited = queued + robbed_percent(maker.host, worker, run.measured.window_ns);
            let wanted = percent(used, (100.0 - waited).max(used));
            if wanted < WORKER_CPU_PERCENT_MAX {
                continue;
            }
            let place = worker.cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
            let took = match used < WORKER_CPU_PERCENT_MAX {
                true => {
                    format!(" and waited for it {waited:.1} % of the time, {wanted:.1} % of what was left")
                }
                false => String::new(),
            };
            let sentence = format!(
                "worker {number}{place} of {} used {used:.1} % of its CPU{took}; at \
                 {WORKER_CPU_PERCENT_MAX} % or more, results reflect the generator, not the server",
                maker.name()
            );
            let (measured, limit) = (format!("{wanted:.1} %"), format!("{WORKER_CPU_PERCENT_MAX} %"));
            reasons.push(of_run(run, Cause::GeneratorSaturated, measured, limit, &sentence));
        }
    }
}

/// Time for which a hypervisor had a worker's CPU, as far as the run queue does not show it, in percent of the window. Both signs of
/// it come in pieces of 10 ms (the kernel's ticks, and the worker's own), of which a few in a short window would say too much.
fn robbed_percent(host: Option<&HostUse>, worker: &WorkerUse, window_ns: u64) -> f64 {
    if window_ns < SHORT_WINDOW_NS {
        return 0.0;
    }
    let told = worker.cpu.and_then(|cpu| disturbance::cpu_of(host?, cpu));
    let stalled_ns = worker.stalled_ns.saturating_sub(worker.run_queue_ns.unwrap_or(0));
    percent(told.map_or(0, |cpu| cpu.stolen_ns).max(stalled_ns).min(window_ns) as f64, window_ns as f64)
}

/// A relay that used up its CPU, lost what it was not to lose, or was late: the path was not as asked for.
fn relayed(record: &RunRecord, run: &IterationRecord, reasons: &mut Vec<Reason>) {
    let (Some(used), Some(path)) = (run.host.as_ref().and_then(|host| host.path), record.spec.server.path)
    else {
        return;
    };
    let late_ns = used.both().late_ns as f64 / used.both().packets.max(1) as f64;
    let late_ns_max = PATH_LATE_NS_MAX.max(path.delay().0 as f64 * PATH_LATE_PERCENT_MAX / 100.0);
    let (measured, limit, what) = if used.cpu_percent() >= WORKER_CPU_PERCENT_MAX {
        let measured = format!("{:.1} %", used.cpu_percent());
        let what = format!("used {measured} of a CPU");
        (measured, format!("{WORKER_CPU_PERCENT_MAX} %"), what)
    } else if used.overflowed > 0 {
        let measured = counted(used.overflowed, "packet", "packets");
        let what = format!("lost {measured} that it did not fetch in time");
        (measured, "0 packets".to_owned(), what)
    } else if late_ns > late_ns_max {
        let measured = time(late_ns);
        let what = format!("sent packets {measured} late on average");
        (measured, time(late_ns_max), what)
    } else {
        return;
    };
    let sentence = format!(
        "the relay of the path {what} (limit {limit}): results reflect the relay, not the path that was set"
    );
    reasons.push(of_run(run, Cause::PathSaturated, measured, limit, &sentence));
}

fn schedule(record: &RunRecord, run: &IterationRecord, reasons: &mut Vec<Reason>) {
    let Some(kept) = run.schedule else { return };
    if let Some(late) = lateness::of_run(run).filter(|late| late.percent() > SCHEDULE_LAG_PERCENT_MAX) {
        let measured = rounded(late.percent(), SCHEDULE_LAG_PERCENT_MAX);
        let sentence = format!(
            "the latency's p{:.0} is {}, and {} without the load generator's own lateness (schedule lag): {measured} more (limit \
             {SCHEDULE_LAG_PERCENT_MAX} %){}",
            late.percentile,
            time(late.with_ns as f64),
            time(late.without_ns as f64),
            if record.spec.generator.spin == Some(true) {
                ""
            } else {
                "; --spin sends requests closer to their time"
            }
        );
        let limit = format!("{SCHEDULE_LAG_PERCENT_MAX} %");
        reasons.push(of_run(run, Cause::ScheduleLag, measured, limit, &sentence));
    }
    let missed = percent(kept.asked_rate - kept.offered_rate, kept.asked_rate);
    if missed.abs() > RATE_MISSED_PERCENT_MAX {
        let sentence = format!(
            "{:.1} arrivals/s were offered instead of {:.1}: {} % off (limit {RATE_MISSED_PERCENT_MAX} \
             %){}",
            kept.offered_rate,
            kept.asked_rate,
            rounded(missed.abs(), RATE_MISSED_PERCENT_MAX).trim_end_matches(" %"),
            unserved(run)
        );
        let measured = format!("{:.1} arrivals/s", kept.offered_rate);
        let limit = format!("{:.1} arrivals/s within {RATE_MISSED_PERCENT_MAX} %", kept.asked_rate);
        reasons.push(of_run(run, Cause::RateMissed, measured, limit, &sentence));
    }
}

/// A search for an SLO goes beyond the load that a server can carry, to know where that is: what breaks there is what was
/// sought. And a generator that is late or at its limit only makes an SLO harder to keep: what counts as kept is kept
/// anyway, so its faults count only where they may be what broke the SLO.
fn sought(record: &RunRecord, reasons: &mut Vec<Reason>) {
    let (Some(find), Some(finding)) = (&record.spec.find, search::of_record(record)) else { return };
    let Some(search) = search::search_of(record) else { return };
    // Where everything is kept, nothing that the generator did can have broken it.
    let edge = finding.edge().unwrap_or(u64::MAX);
    let shortest_s = find.times().into_iter().reduce(f64::min);
    reasons.retain(|reason| {
        let run = record.iterations.iter().find(|run| {
            Some(run.level()) == reason.level()
                && reason.iteration.is_none_or(|number| number == run.iteration)
        });
        let Some(run) = run else { return true };
        let load = find.over.load(run);
        // What neither generator nor noise can break was broken by the server.
        let may_have_broken = || load == edge && !search.is_broken_for_sure(load);
        match reason.cause {
            // If the SLO limits errors, the SLO judges them.
            Cause::Errors => load < edge && !search.limits_errors(),
            Cause::NothingSucceeded | Cause::Unanswered | Cause::ClientsStarved => load < edge,
            // Noise only makes an SLO harder to keep, too.
            Cause::GeneratorSaturated
            | Cause::PathSaturated
            | Cause::Disturbed
            | Cause::Slowed
            | Cause::SlowerThanEarlier
            | Cause::Crowded
            | Cause::Unjudged
            | Cause::Imprecise => may_have_broken(),
            // Arrivals that waited for a client, or found none, were the server's doing.
            Cause::RateMissed => may_have_broken() && unserved(run).is_empty(),
            Cause::ScheduleLag => {
                let lag_s = run.schedule.map_or(0.0, |kept| kept.lag_p99_ns as f64 / 1e9);
                let limit_s = shortest_s.unwrap_or(f64::INFINITY);
                may_have_broken() && percent(lag_s, limit_s) > SCHEDULE_LAG_PERCENT_MAX
            }
            // They are of the record, not of a load.
            Cause::Incomplete | Cause::IdentityBroken | Cause::WindowsApart => true,
        }
    });
}

/// Where arrivals found no client free: how many, because then it was the server that did not keep up, or the clients
/// were too few for its latency.
pub(super) fn unserved(run: &IterationRecord) -> String {
    let Some(open_loop) = &run.measured.open_loop else { return String::new() };
    let (clients, were) = match run.clients {
        1 => ("its only client".to_owned(), "was"),
        clients => (format!("all {clients} clients"), "were"),
    };
    let arrivals = |count: u64| counted(count, "arrival", "arrivals");
    match (open_loop.skipped, open_loop.queued) {
        (0, 0) => String::new(),
        (0, queued) => {
            format!("; {clients} {were} busy, and {} waited at the end", arrivals(queued))
        }
        (1, _) => format!("; 1 arrival found {clients} busy and was skipped"),
        (skipped, _) => format!("; {} found {clients} busy and were skipped", arrivals(skipped)),
    }
}

/// A client that completed nothing in a whole window, while others did.
fn starved(record: &RunRecord, run: &IterationRecord, reasons: &mut Vec<Reason>) {
    // Where fewer pages than clients were asked for, some clients can have none.
    // In open loop they stand by, and a rate may not need them all.
    let few = record.spec.load.pages.is_some_and(|pages| pages < u64::from(run.clients));
    if few || run.rate.is_some() {
        return;
    }
    let Some(served) = fairness(&run.measured.clients).filter(|served| served.starved > 0) else { return };
    let measured = counted(served.starved, "client", "clients");
    let sentence = format!("{measured} of {} completed no page in the whole window", run.clients);
    reasons.push(of_run(run, Cause::ClientsStarved, measured, "0 clients".to_owned(), &sentence));
}

/// A percentage at its limit or beyond, with enough decimals to differ from the limit where it does.
fn rounded(value: f64, limit: f64) -> String {
    let decimals = (1..6).find(|decimals| format!("{value:.decimals$}") != format!("{limit:.decimals$}"));
    format!("{value:.*} %", decimals.unwrap_or(1))
}

#[cfg(test)]
#[path = "saturated_tests.rs"]
mod saturated_tests;
