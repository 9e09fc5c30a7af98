//! The text of the display: what was planned, how a level is going, how it went. Without I/O, so that tests can check
//! it.

use std::time::Duration;

use webstone_model::event::{Ended, Live, LiveHost, Phase, Position};
use webstone_model::record::TargetRecord;
use webstone_model::search::Over;
use webstone_model::spec::RunSpec;

use webstone_measure::units::grouped;

use super::hosts;
use super::numbers::{latency, rate, wait};

/// Length of the progress bar of a window, in cells.
const BAR_CELLS: usize = 16;
/// A request in flight that has waited this long is mentioned.
const WAITING_SHOWN_NS: u64 = 1_000_000_000;

/// A running level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) at: Position,
    pub(super) phase: Phase,
    /// Totals about one second ago; zeros at the beginning.
    pub(super) before: Live,
    /// Totals now.
    pub(super) live: Live,
    /// Length of the window; zero if pages end it.
    pub(super) window: Duration,
    /// The time planned after this level.
    pub(super) later: Duration,
}

/// Planned length of the whole run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) time: Duration,
    /// Clients start at a limited pace, which takes additional time.
    pub(super) at_least: bool,
}

/// What is about to happen.
pub(super) fn opening(
    target: &TargetRecord,
    workload: &str,
    spec: &RunSpec,
    steps: usize,
    planned: Option<Planned>,
) -> String {
    let server = match &target.software {
        Some(software) => format!("{software} at "),
        None if target.embedded => "the embedded server at ".to_owned(),
        None => String::new(),
    };
    if let Some(find) = &spec.find {
        let load = &spec.load;
        let each = load.warmup.as_duration() + load.duration.as_duration();
        let usual = webstone_judge::search::iterations_usual(find);
        let what = match find.over {
            Over::Rate => "the highest rate at which",
            Over::Clients => "the most clients with which",
        };
        return format!(
            "searching for {what} {server}{} keeps {}: usually about {usual} timed runs, {}; at most {steps}, {} if \
             no answer is late",
            target.url,
            find.slo,
            wait(each * u32::try_from(usual).unwrap_or(u32::MAX)),
            wait(each * u32::try_from(steps).unwrap_or(u32::MAX)),
        );
    }
    let iterations = (spec.load.iterations as usize).max(1);
    let levels = match steps / iterations {
        1 => "1 level".to_owned(),
        levels => format!("{levels} levels"),
    };
    let levels = if iterations == 1 { levels } else { format!("{levels} × {iterations} iterations") };
    let time = length(planned);
    format!("{} on {server}{}: {levels}{time}", workload, target.url)
}

/// A cell's turn in a round of a series begins.
pub(super) fn turn(
    cell: &str,
    (round, rounds): (u32, u32),
    turns_left: u32,
    time_left: Option<Duration>,
) -> String {
    let left = match (time_left, turns_left) {
        (Some(time), _) => format!(", about {} left", wait(time)),
        (None, 1) => String::new(),
        (None, turns) => format!(", {turns} to go"),
    };
    format!("{cell}: round {round} of {rounds}{left}")
}

fn length(planned: Option<Planned>) -> String {
    let Some(Planned { time, at_least }) = planned else { return String::new() };
    format!(", {} {}", if at_least { "at least" } else { "about" }, wait(time))
}

/// A running level: position, bar, time left, rate, latency, errors. On a narrow terminal the bar is dropped first,
/// then the 99th percentile, then the total time left: errors are always shown. If one of several hosts is
/// remarkable, it is named before all of this; if none is and there is space, all hosts are shown in short form.
pub(super) fn running(run: &Running, hosts: &[LiveHost], width: usize) -> String {
    let details = [Detail::Bar, Detail::Tail, Detail::Total, Detail::Least];
    let lines = details.map(|detail| running_with(run, detail));
    let [whole, .., least] = &lines;
    let is_measuring = run.phase == Phase::Measuring;
    let with = |line: &String, hosts: String| format!("{line}  {hosts}");
    let with_hosts: Vec<String> = match hosts::remark(hosts).filter(|_| is_measuring) {
        Some(remark) => lines.iter().map(|line| with(line, remark.clone())).collect(),
        None => {
            hosts::each(hosts).filter(|_| is_measuring).map(|each| with(whole, each)).into_iter().collect()
        }
    };
    let fits = |line: &&String| line.chars().count() < width;
    with_hosts.iter().chain(&lines).find(fits).unwrap_or(least).clone()
}

/// How much of a line is shown, from everything to the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Bar,
    Tail,
    Total,
    Least,
}

fn running_with(run: &Running, detail: Detail) -> String {
    let place = place(run.at);
    let state = match run.phase {
        Phase::Starting => return format!("{place}  starting"),
        Phase::WarmUp => return format!("{place}  warming up"),
        Phase::Draining => return format!("{place}  waiting for requests in progress"),
        Phase::Done => return format!("{place}  done"),
        Phase::Measuring => {
            let elapsed = Duration::from_nanos(run.live.elapsed_ns);
            if run.window.is_zero() {
                format!("{} pages", grouped(run.live.pages))
            } else {
                let left = run.window.saturating_sub(elapsed);
                let all = if run.later.is_zero() || detail > Detail::Total {
                    String::new()
                } else {
                    format!(" ({} in all)", wait(left + run.later))
                };
                let bar = if detail == Detail::Bar {
                    format!("{} ", bar(elapsed, run.window))
                } else {
                    String::new()
                };
                format!("{bar}{} left{all}", wait(left))
            }
        }
    };
    let seconds = (run.live.elapsed_ns - run.before.elapsed_ns) as f64 / 1e9;
    let requests = run.live.requests.saturating_sub(run.before.requests) as f64;
    let response_s = run.live.response_ns.saturating_sub(run.before.response_ns) as f64 / 1e9;
    let per_second = if seconds > 0.0 { requests / seconds } else { 0.0 };
    let mean = if requests > 0.0 { latency(response_s / requests) } else { "no answer".to_owned() };
    // For the whole window so far; the mean is for the last second.
    let p99 = run
        .live
        .response
        .filter(|_| detail <= Detail::Tail)
        .map_or(String::new(), |so_far| format!("  p99 {}", latency(so_far.p99_ns as f64 / 1e9)));
    let offered = if run.at.rate.is_some() { offered(run, seconds) } else { String::new() };
    format!(
        "{place}  {state}  {offered}{} requests/s  {mean}{p99}  {}{}",
        rate(per_second),
        errors(run.live.errors),
        waiting(&run.live)
    )
}

/// The oldest request in flight, if it has waited long enough to be mentioned.
fn waiting(live: &Live) -> String {
    match live.oldest_in_flight_ns {
        ns if ns < WAITING_SHOWN_NS => String::new(),
        ns => format!("  oldest waits {}", latency(ns as f64 / 1e9)),
    }
}

/// In open loop: arrivals offered and due in the last second, to show whether the schedule is kept.
fn offered(run: &Running, seconds: f64) -> String {
    let per_second = |of: fn(&Live) -> u64| {
        let count = of(&run.live).saturating_sub(of(&run.before)) as f64;
        if seconds > 0.0 { count / seconds } else { 0.0 }
    };
    format!(
        "offered {} of {}/s  ",
        rate(per_second(|live| live.offered)),
        rate(per_second(|live| live.planned))
    )
}

/// A level that ended.
pub(super) fn ended(at: Position, level: &Ended) -> String {
    let interrupted = if level.interrupted { ", interrupted" } else { "" };
    let broken = match level.identities_broken {
        0 => String::new(),
        broken => format!(", {broken} identities broken"),
    };
    let mean = match level.succeeded {
        0 => "no valid response".to_owned(),
        _ => {
            let at_least = if level.figures.latency_mean_is_at_least { "at least " } else { "" };
            format!("mean latency {at_least}{}", latency(level.figures.latency_mean_s))
        }
    };
    let offered = match level.schedule {
        Some(kept) => format!("offered {} of {}/s, ", rate(kept.offered_rate), rate(kept.asked_rate)),
        None => String::new(),
    };
    format!(
        "{}: {offered}{} requests/s, {mean}, {}{interrupted}{broken}",
        place(at),
        rate(level.figures.request_rate),
        errors(level.failed),
    )
}

/// A timed run that is void and will be repeated.
pub(super) fn void(at: Position) -> String {
    format!("{}: too noisy, to be measured again", place(at))
}

/// The text cut to a terminal's width, so that it never wraps and can be erased.
pub(super) fn fitted(text: &str, width: usize) -> String {
    // The last column stays free: some terminals wrap when it is written.
    text.chars().take(width.saturating_sub(1)).collect()
}

fn place(at: Position) -> String {
    let load = at.level();
    let iteration = if at.iteration > 1 { format!(", iteration {}", at.iteration) } else { String::new() };
    format!("[{}/{}] {load}{iteration}", at.step, at.steps)
}

fn errors(count: u64) -> String {
    format!("{} {}", grouped(count), if count == 1 { "error" } else { "errors" })
}

fn bar(elapsed: Duration, window: Duration) -> String {
    let share = elapsed.as_secs_f64() / window.as_secs_f64();
    let full = ((share * BAR_CELLS as f64) as usize).min(BAR_CELLS);
    format!("{}{}", "━".repeat(full), "─".repeat(BAR_CELLS - full))
}

#[cfg(test)]
mod tests {
    use webstone_model::event::LivePercentiles;
    use webstone_model::record::IterationRecord;

    use super::*;

    const AT: Position = Position { step: 2, steps: 4, clients: 1000, rate: None, iteration: 1 };

    fn run(phase: Phase) -> Running {
        Running {
            at: AT,
            phase,
            before: Live { elapsed_ns: 2_000_000_000, requests: 1000, ..Live::default() },
            live: Live {
                elapsed_ns: 3_000_000_000,
                requests: 3500,
                errors: 1,
                pages: 3500,
                response_ns: 2_500_000_000,
                ..Live::default()
            },
            window: Duration::from_secs(6),
            later: Duration::from_secs(14),
        }
    }

    #[test]
    fn a_slow_start_gives_only_a_lower_bound() {
        let said = |at_least| length(Some(Planned { time: Duration::from_secs(54), at_least }));
        assert_eq!([said(false), said(true), length(None)], [", about 54 s", ", at least 54 s", ""]);
    }

    #[test]
    fn errors_are_seen_on_a_narrow_terminal() {
        let mut narrow = run(Phase::Measuring);
        narrow.live.response = Some(LivePercentiles { p99_ns: 4_200_000, ..LivePercentiles::default() });
        assert!(running(&narrow, &[], 120).contains('━') && running(&narrow, &[], 120).contains("p99"));
        for width in [80, 72, 68] {
            let line = running(&narrow, &[], width);
            assert!(line.ends_with("  1 error") && line.chars().count() < width, "{width}: {line}");
        }
    }

    #[test]
    fn hosts_are_shown_where_there_is_room_and_the_remarkable_one_before_the_bar() {
        let host = |generator, silent_ns| LiveHost { generator, silent_ns, ..LiveHost::default() };
        let (alike, silent) = ([host(0, 0), host(1, 0)], [host(0, 0), host(1, 5_000_000_000)]);
        assert!(running(&run(Phase::Measuring), &alike, 200).ends_with("  1 error  1: 0/s  2: 0/s"));
        assert!(running(&run(Phase::Measuring), &alike, 100).ends_with("  1 error"));
        for width in [200, 115, 100] {
            let line = running(&run(Phase::Measuring), &silent, width);
            assert!(line.ends_with("  1 error  generator 2 silent for 5 s"), "{width}: {line}");
            assert_eq!(line.contains('━'), width == 200, "{width}: {line}");
        }
        assert!(running(&run(Phase::Measuring), &silent, 70).ends_with("  1 error"));
        assert_eq!(running(&run(Phase::Draining), &silent, 200), running(&run(Phase::Draining), &[], 200));
    }

    #[test]
    fn a_running_level_shows_the_last_second() {
        assert_eq!(
            running(&run(Phase::Measuring), &[], 200),
            "[2/4] 1,000 clients  ━━━━━━━━──────── 3 s left (17 s in all)  2,500 requests/s  1.00 ms  1 error"
        );
        let mut second = run(Phase::Measuring);
        second.live.response =
            Some(LivePercentiles { count: 3500, p99_ns: 4_200_000, ..LivePercentiles::default() });
        assert!(running(&second, &[], 200).ends_with("2,500 requests/s  1.00 ms  p99 4.20 ms  1 error"));
        assert_eq!(running(&run(Phase::WarmUp), &[], 200), "[2/4] 1,000 clients  warming up");
    }

    #[test]
    fn an_open_loop_shows_what_it_offers() {
        let mut open = run(Phase::Measuring);
        open.at.rate = Some("1k..5k/6s".parse().unwrap());
        (open.before.planned, open.before.offered) = (1000, 1000);
        (open.live.planned, open.live.offered) = (4000, 3500);
        assert_eq!(
            running(&open, &[], 200),
            "[2/4] 1000..5000/6s arrivals/s  ━━━━━━━━──────── 3 s left (17 s in all)  offered 2,500 of 3,000/s  2,500 \
             requests/s  1.00 ms  1 error"
        );
    }

    #[test]
    fn a_level_by_pages_has_no_bar() {
        let by_pages = Running { window: Duration::ZERO, ..run(Phase::Measuring) };
        assert_eq!(
            running(&by_pages, &[], 200),
            "[2/4] 1,000 clients  3,500 pages  2,500 requests/s  1.00 ms  1 error"
        );
    }

    #[test]
    fn the_first_moment_divides_by_nothing() {
        let first = Running { before: Live::default(), live: Live::default(), ..run(Phase::Measuring) };
        assert!(running(&first, &[], 200).ends_with("0 requests/s  no answer  0 errors"));
    }

    #[test]
    fn a_line_never_reaches_the_last_column() {
        assert_eq!(fitted("äbcdef", 4), "äbc");
        assert_eq!(fitted("ab", 80), "ab");
        assert_eq!(fitted("ab", 0), "");
    }

    #[test]
    fn a_level_that_ended_is_one_line() {
        let mut iteration = IterationRecord {
            clients: 1,
            iteration: 2,
            started_at: String::new(),
            interrupted: true,
            measured: webstone_measure::metrics::Measured { window_ns: 2_000_000_000, ..Default::default() },
            identities: Vec::new(),
            server: None,
            ..IterationRecord::default()
        };
        iteration.measured.counts.succeeded = 50;
        iteration.measured.counts.failed = 1200;
        (0..50).for_each(|_| iteration.measured.response.record(40_000_000));
        let at = Position { step: 5, steps: 6, clients: 1, rate: None, iteration: 2 };
        assert_eq!(
            ended(at, &Ended::of_iteration(&iteration)),
            "[5/6] 1 client, iteration 2: 25.0 requests/s, mean latency 40.0 ms, 1,200 errors, interrupted"
        );
        iteration.measured.counts.succeeded = 0;
        iteration.interrupted = false;
        assert_eq!(
            ended(at, &Ended::of_iteration(&iteration)),
            "[5/6] 1 client, iteration 2: 0 requests/s, no valid response, 1,200 errors"
        );
    }
}
