//! The search against synthetic servers whose limit is known, in seeded simulations; and its odd cases.

use webstone_model::search::{Over, RATE_KEPT};

use super::*;
use crate::noisy::Noisy;

/// Simulated searches for each kind of noise.
const SEARCHES: u64 = 400;

fn spec(slo: &str) -> SearchSpec {
    SearchSpec { slo: slo.to_owned(), ..SearchSpec::over(Over::Clients) }
}

/// Runs a search to its end; `server` answers with the values of the conditions at a load.
fn searched(spec: &SearchSpec, mut server: impl FnMut(u64) -> Vec<Option<f64>>) -> (Finding, Vec<u64>) {
    let mut search = Search::new(spec).unwrap();
    let mut asked = Vec::new();
    while let Some(load) = search.next() {
        assert!((spec.from..=spec.to).contains(&load), "{load}");
        asked.push(load);
        assert!(asked.len() as u64 <= iterations_max(spec), "{asked:?}");
        search.observe(load, server(load));
    }
    let finding = search.finding();
    assert_ne!(finding.answer, Answer::Unfinished);
    assert_eq!(finding.iterations, asked.len() as u64);
    (finding, asked)
}

/// How often the interval contains the limit, and the mean number of iterations, in simulations of a server whose
/// p99 grows with a power of the load and reaches the limit of 50 ms at a load drawn at random.
fn simulations(power: f64, deviation: f64, hiccups: f64) -> (u32, f64, f64) {
    let spec = spec("p(99)<50ms");
    let (mut right, mut iterations, mut width) = (0, 0, 0.0);
    for seed in 0..SEARCHES {
        let mut noise = Noisy::new(seed);
        let knee = 3.0 * 200_f64.powf(noise.uniform());
        let (finding, asked) = searched(&spec, |load| {
            let hiccup = if noise.uniform() < hiccups { 1.0 + noise.uniform() } else { 1.0 };
            let p99 = 0.05 * (load as f64 / knee).powf(power) * (deviation * noise.normal()).exp() * hiccup;
            Some(p99.max(0.004)).into_iter().map(Some).collect()
        });
        let (kept, broken) =
            (finding.kept.unwrap_or(0) as f64, finding.broken.map_or(f64::MAX, |n| n as f64));
        right += u32::from(kept <= knee && knee <= broken);
        iterations += asked.len();
        width += (broken.min(1024.0) / kept.max(1.0)).ln();
    }
    (right, iterations as f64 / SEARCHES as f64, width / SEARCHES as f64)
}

/// A slope of 1 is a closed loop at its limit, where latency grows with the
/// number of clients; one of 4 a queue before it; one of 0.5 a limit that hardly shows.
#[test]
fn the_limit_lies_in_the_interval_in_at_least_95_of_100_searches() {
    for (power, deviation, hiccups) in [
        (1.0, 0.0, 0.0),
        (1.0, 0.02, 0.0),
        (1.0, 0.05, 0.0),
        (1.0, 0.15, 0.0),
        (4.0, 0.10, 0.0),
        (0.5, 0.05, 0.0),
        (1.0, 0.03, 0.03),
    ] {
        let (right, iterations, width) = simulations(power, deviation, hiccups);
        println!(
            "slope {power}, noise {deviation}, hiccups {hiccups}: {right} of {SEARCHES} right, {iterations} timed runs, \
             interval {:.1} %",
            100.0 * (width.exp() - 1.0)
        );
        assert!(
            u64::from(right) * 100 >= SEARCHES * 95,
            "{right} of {SEARCHES} with noise of {deviation}, slope {power}, hiccups {hiccups}"
        );
    }
}

/// An open loop on a server that carries `capacity` requests/s in 10 ms each: above it a queue grows for the 4 s of warm-up
/// and window, in which the last percent of the answers waits longest. The SLO breaks where that wait is 40 ms.
#[test]
fn the_limit_of_an_open_loop_lies_in_the_interval_in_at_least_95_of_100_searches() {
    for deviation in [0.0, 0.05, 0.15] {
        let spec = SearchSpec { slo: "p(99)<50ms,errors<1%".to_owned(), ..SearchSpec::default() };
        let (mut right, mut iterations) = (0, 0);
        for seed in 0..SEARCHES {
            let mut noise = Noisy::new(seed);
            let capacity = 30.0 * 10_000_f64.powf(noise.uniform());
            let limit = capacity * (1.0 + 0.040 / 4.0);
            let (finding, asked) = searched(&spec, |load| {
                let over = (load as f64 / capacity - 1.0).max(0.0);
                let p99 = (0.010 + 4.0 * over) * (deviation * noise.normal()).exp();
                vec![Some(p99), Some(0.0), Some(100.0 / (1.0 + over))]
            });
            assert_eq!(finding.levels[0].conditions[2].condition, RATE_KEPT);
            let (kept, broken) = (finding.kept.unwrap_or(0), finding.broken.unwrap_or(u64::MAX));
            right += u32::from(kept as f64 <= limit && limit <= broken as f64);
            iterations += asked.len();
        }
        println!(
            "noise {deviation}: {right} of {SEARCHES} right, {} timed runs",
            iterations as f64 / SEARCHES as f64
        );
        assert!(u64::from(right) * 100 >= SEARCHES * 95, "{right} of {SEARCHES} with noise of {deviation}");
    }
}

#[test]
fn over_rates_the_load_must_be_given_and_clients_follow_littles_law() {
    let of = |slo: &str| SearchSpec { slo: slo.to_owned(), ..SearchSpec::default() };
    let texts = |spec: &SearchSpec| -> Vec<String> {
        spec.conditions().unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(texts(&of("avg<1s")), ["avg<1s", "offered>=99%"]);
    assert_eq!(texts(&of("avg<1s,offered>50%")), ["avg<1s", "offered>50%"]);
    assert_eq!(texts(&spec("avg<1s")), ["avg<1s"]);
    // 2,000/s × 200 ms; a lower limit is no time that requests may take.
    let spec = of("med<20ms,p(99)<=200ms,max>9s");
    assert_eq!([1, 2000, 100_000].map(|load| spec.clients_at(load)), [10, 400, 1000]);
    assert_eq!(of("errors<1%").clients_at(2000), 100);
    // Nor is CPU time.
    assert_eq!(of("errors<1%,server-cpu<2ms,client-cpu<1s").clients_at(2000), 100);
    assert_eq!(of("p(99)<=200ms,server-cpu<100us").times(), [0.2]);
    let given = SearchSpec { clients: Some(7), ..spec };
    assert_eq!((given.clients_at(1), given.clients_at(100_000)), (7, 7));
    assert_eq!(given.rate_at(1500).unwrap().to_string(), "1500");
    // A server that takes no more than 100/s, as fast as ever: the rate that was asked for is not kept.
    let full = |load: u64| vec![Some(0.001), Some(100.0 * 100_f64.min(load as f64) / load as f64)];
    let (finding, _) = searched(&of("p(99)<50ms"), full);
    let (kept, broken) = (finding.kept.unwrap(), finding.broken.unwrap());
    assert!(kept <= 101 && 101 < broken && broken <= kept * 21 / 20 + 1, "{kept} to {broken}");
    assert_eq!(
        finding.sentence,
        format!(
            "p(99)<50ms is kept at {kept} arrivals/s and broken at {broken} arrivals/s (by offered>=99%): the limit lies \
             between."
        )
    );
}

/// A server with slots for `slots` requests of 20 ms each: p99 is 20 ms times the rounds that a client waits.
fn slots(slots: u64) -> impl FnMut(u64) -> Vec<Option<f64>> {
    move |load| vec![Some(0.020 * load.div_ceil(slots) as f64)]
}

#[test]
fn without_noise_the_limit_is_found_to_one_client_and_each_edge_is_measured_three_times() {
    let exact = SearchSpec { resolution_percent: 0.5, ..spec("p(99)<30ms") };
    let (finding, asked) = searched(&exact, slots(40));
    assert_eq!((finding.answer, finding.kept, finding.broken), (Answer::Between, Some(40), Some(41)));
    assert_eq!(asked[..7], [1, 2, 4, 8, 16, 32, 64], "doubled until it broke");
    for edge in [40, 41] {
        assert_eq!(asked.iter().filter(|load| **load == edge).count(), 3, "{asked:?}");
    }
    assert_eq!(
        finding.sentence,
        "p(99)<30ms is kept with 40 clients and broken with 41 clients: the limit lies between."
    );
    assert_eq!(finding.kept_again, None);
}

#[test]
fn never_and_always_have_words_of_their_own() {
    let (never, _) = searched(&spec("p(99)<10ms"), slots(40));
    assert_eq!((never.answer, never.kept, never.broken), (Answer::Never, None, Some(1)));
    assert_eq!(never.sentence, "p(99)<10ms is never kept: it is broken with 1 client already.");
    let to_30 = SearchSpec { to: 30, ..spec("p(99)<30ms") };
    let (always, _) = searched(&to_30, slots(40));
    assert_eq!((always.answer, always.kept, always.broken), (Answer::Always, Some(30), None));
    assert!(
        always.sentence.contains("kept up to 30 clients, the highest load that was allowed"),
        "{}",
        always.sentence
    );
    let one = SearchSpec { from: 7, to: 7, ..spec("p(99)<30ms") };
    assert_eq!(searched(&one, slots(40)).0.kept, Some(7));
}

#[test]
fn a_floor_below_the_rate_is_looked_for_above() {
    let rising = |load: u64| vec![Some(load as f64 * 50.0), Some(0.020 * load.div_ceil(40) as f64)];
    let (finding, _) = searched(&spec("rate>500,p(99)<30ms"), rising);
    let (kept, broken) = (finding.kept.unwrap(), finding.broken.unwrap());
    assert!(kept <= 40 && 40 < broken && kept >= 38, "{kept} to {broken}");
    let (finding, _) = searched(&spec("rate>5000,p(99)<30ms"), rising);
    assert_eq!((finding.answer, finding.kept), (Answer::Never, None));
    let (finding, _) = searched(&spec("rate>1m"), |load| vec![Some(load as f64)]);
    assert_eq!((finding.answer, finding.kept, finding.broken), (Answer::Never, None, None));
    assert!(
        finding.sentence.contains("no load from 1 to 1,024 clients keeps all its conditions"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_range_between_too_little_load_and_too_much_is_found() {
    let server = |load: u64| vec![Some(load as f64 * 50.0), Some(0.020 * load.div_ceil(40) as f64)];
    let slo = "rate>1700,p(99)<30ms";
    // From below, from beyond the limit, and from within the range.
    for begin in [None, Some(600), Some(36)] {
        let spec = SearchSpec { begin, resolution_percent: 0.5, ..spec(slo) };
        let (finding, _) = searched(&spec, server);
        assert_eq!((finding.answer, finding.kept, finding.broken), (Answer::Between, Some(40), Some(41)));
    }
    // An empty range is still never kept.
    let (finding, _) = searched(&spec("rate>2000,p(99)<30ms"), server);
    assert_eq!((finding.answer, finding.kept), (Answer::Never, None));
}

#[test]
fn what_breaks_and_holds_again_is_said() {
    // 16 clients fall into a hole that 32 do not.
    let hole = |load: u64| vec![Some(if (12..=20).contains(&load) || load > 300 { 0.080 } else { 0.010 })];
    let (finding, _) = searched(&spec("p(99)<50ms"), hole);
    assert_eq!((finding.answer, finding.kept, finding.broken), (Answer::Between, Some(11), Some(12)));
    assert_eq!(finding.kept_again, Some(32));
    assert!(
        finding.sentence.contains("Yet it is kept with 32 clients, though not with 12 clients"),
        "{}",
        finding.sentence
    );
}

#[test]
fn one_hiccup_breaks_no_level_and_no_answer_keeps_none() {
    let mut runs = 0;
    let hiccup = |load: u64| {
        runs += 1;
        vec![Some(if runs == 4 { 5.0 } else { 0.020 * load.div_ceil(40) as f64 })]
    };
    let (finding, asked) = searched(&SearchSpec { resolution_percent: 0.5, ..spec("p(99)<30ms") }, hiccup);
    assert_eq!(asked[..7], [1, 2, 4, 8, 8, 8, 16], "the fourth is repeated");
    assert_eq!((finding.kept, finding.broken), (Some(40), Some(41)));
    let (finding, _) = searched(&spec("errors<1%"), |load| vec![(load < 10).then_some(0.0)]);
    assert_eq!((finding.kept, finding.broken), (Some(9), Some(10)));
}

#[test]
fn pure_noise_ends_in_bounded_time_and_decides_nothing_by_force() {
    let mut undecided = 0;
    for seed in 0..200 {
        let mut noise = Noisy::new(seed);
        let (finding, _) = searched(&spec("p(99)<50ms"), |_| vec![Some(0.05 * noise.normal().exp())]);
        undecided += u32::from(finding.answer == Answer::Unclear);
        let levels = finding.levels.iter().filter(|level| level.standing == LevelStanding::Undecided);
        assert!(levels.clone().all(|level| level.iterations == 8));
    }
    assert!(undecided > 150, "{undecided} of 200");
}

#[test]
fn the_bound_is_what_the_worst_server_takes_at_most() {
    let ranges =
        [1, 2, 3, 10, 1000, 10_000_000].into_iter().flat_map(|to| [(to, None), (to, Some(to / 3 + 1))]);
    for (to, begin) in ranges {
        for resolution_percent in [0.01, 1.0, 5.0, 100.0] {
            let spec = SearchSpec { to, begin, resolution_percent, ..spec("p(99)<50ms,rate>10") };
            for seed in 0..20 {
                let mut noise = Noisy::new(seed);
                // `searched` fails if the bound is passed.
                searched(&spec, |_| {
                    vec![Some(0.05 * noise.normal().exp()), Some(10.0 * noise.normal().exp())]
                });
            }
            assert!(iterations_usual(&spec) <= iterations_max(&spec));
        }
    }
}

#[test]
fn an_unfinished_search_says_what_it_knows() {
    let mut search = Search::new(&spec("p(99)<30ms")).unwrap();
    assert_eq!(search.finding().sentence, "The search did not end: nothing is decided yet.");
    for _ in 0..3 {
        search.observe(4, vec![Some(0.020)]);
    }
    let finding = search.finding();
    assert_eq!((finding.answer, finding.kept, finding.broken), (Answer::Unfinished, Some(4), None));
    assert_eq!(finding.sentence, "The search did not end: p(99)<30ms is kept with 4 clients.");
}

#[test]
fn looks_share_their_error() {
    assert_eq!((confidence(3), confidence(8)), (0.95, 1.0 - 0.05 / 3.0));
    let standing_of = |values: &[f64], repeats| {
        let runs: Vec<Vec<Option<f64>>> = values.iter().map(|value| vec![Some(*value)]).collect();
        standing::standing(&spec("avg<10s").conditions().unwrap(), &runs, repeats)
    };
    assert_eq!(standing_of(&[9.0, 9.0], 8), LevelStanding::Open);
    assert_eq!(standing_of(&[9.0, 9.0, 9.0], 8), LevelStanding::Kept);
    assert_eq!(standing_of(&[10.0, 10.0, 10.0], 8), LevelStanding::Broken);
    // ln x: mean 2.1972, deviation 0.0635; t(2) at 95 % is 4.303: up to ln 10.53, which does not keep 10.
    assert_eq!(standing_of(&[8.45, 9.0, 9.585], 3), LevelStanding::Undecided);
    assert_eq!(standing_of(&[8.45, 9.0, 9.585], 8), LevelStanding::Open);
    // What was decided at one look stays decided.
    assert_eq!(standing_of(&[9.0, 9.0, 9.0, 90.0, 90.0], 8), LevelStanding::Kept);
}

/// Runs a search in which some timed runs cannot tell; `server` answers `None` for those, and says why.
fn doubted(spec: &SearchSpec, mut server: impl FnMut(u64) -> Result<f64, Doubt>) -> Finding {
    let mut search = Search::new(spec).unwrap();
    let mut asked = 0;
    while let Some(load) = search.next() {
        asked += 1;
        assert!(asked <= iterations_max(spec), "{load}");
        match server(load) {
            Ok(p99) => search.observe(load, vec![Some(p99)]),
            Err(doubt) => search.doubt(load, doubt),
        }
    }
    let finding = search.finding();
    assert_eq!(finding.iterations, asked);
    assert_ne!(finding.answer, Answer::Unfinished);
    finding
}

#[test]
fn what_cannot_be_told_is_not_called_broken() {
    let spec = spec("p(99)<50ms");
    // The generator was late everywhere: nothing is known, and nothing is "never kept".
    let finding = doubted(&spec, |_| Err(Doubt::Generator));
    assert_eq!((finding.answer, finding.kept, finding.broken), (Answer::Unclear, None, None));
    assert_eq!(
        finding.sentence,
        "no level could be shown to keep p(99)<50ms, and no level above could be shown to break it. Cannot tell with 1, \
         2, 3, 4 clients: the generator was late or at its limit."
    );
    assert!(finding.levels.iter().all(|level| level.standing == LevelStanding::CannotTell));
    // Few requests at low loads are no reason to end the search below the limit.
    let truth = |load: u64| if load < 100 { 0.01 } else { 0.2 };
    let finding = doubted(&spec, |load| if load < 5 { Err(Doubt::TooFew) } else { Ok(truth(load)) });
    assert_eq!(finding.answer, Answer::Between, "{}", finding.sentence);
    assert!(finding.kept.unwrap() < 100 && finding.broken.unwrap() >= 100, "{}", finding.sentence);
    assert!(
        finding
            .sentence
            .ends_with("Cannot tell with 1, 2, 4 clients: the requests were too few for the percentile."),
        "{}",
        finding.sentence
    );
    // One in three runs in doubt does not change what the others say.
    let mut run = 0;
    let finding = doubted(&spec, |load| {
        run += 1;
        if run % 3 == 0 { Err(Doubt::Generator) } else { Ok(truth(load)) }
    });
    assert_eq!(finding.answer, Answer::Between, "{}", finding.sentence);
    assert!(finding.kept.unwrap() < 100 && finding.broken.unwrap() >= 100, "{}", finding.sentence);
}

#[test]
fn only_a_broken_run_is_doubted_and_only_for_what_the_server_has_not_done() {
    let conditions = spec("p(99)<50ms").conditions().unwrap();
    let of = |value: Option<f64>, change: &dyn Fn(&mut IterationRecord)| {
        let mut run = IterationRecord::default();
        run.measured.window_ns = 10_000_000_000;
        run.measured.counts.succeeded = 1_000;
        change(&mut run);
        doubt::shown(&conditions, &[value], &run, Some(0.05), doubt::Noise::default()).err()
    };
    let worker = |run: &mut IterationRecord, user_ns, run_queue_ns| {
        let worker = webstone_measure::metrics::WorkerUse {
            user_ns,
            run_queue_ns: Some(run_queue_ns),
            ..Default::default()
        };
        run.measured.generator.workers = vec![worker];
    };
    let lag = |run: &mut IterationRecord, lag_p99_ns| {
        let kept = webstone_model::record::ScheduleKept {
            asked_rate: 100.0,
            offered_rate: 100.0,
            lag_p99_ns,
            ..Default::default()
        };
        run.schedule = Some(kept);
    };
    let missed = |run: &mut IterationRecord, queued| {
        lag(run, 0);
        run.schedule.as_mut().unwrap().offered_rate = 90.0;
        run.measured.open_loop = Some(webstone_measure::metrics::OpenLoop { queued, ..Default::default() });
    };
    let late = Some(Doubt::Generator);
    assert_eq!(of(Some(0.06), &|_| ()), None);
    assert_eq!(of(Some(0.06), &|run| worker(run, 5_000_000_000, 4_500_000_000)), late);
    assert_eq!(of(Some(0.04), &|run| worker(run, 5_000_000_000, 4_500_000_000)), None, "kept is kept");
    assert_eq!(of(Some(0.06), &|run| worker(run, 5_000_000_000, 3_000_000_000)), None);
    assert_eq!(of(Some(0.06), &|run| lag(run, 5_100_000)), late);
    assert_eq!(of(Some(0.06), &|run| lag(run, 4_900_000)), None);
    assert_eq!(of(Some(0.06), &|run| missed(run, 0)), late);
    assert_eq!(of(Some(0.06), &|run| missed(run, 100)), None, "the server was slow");
    assert_eq!(of(Some(0.06), &|run| run.measured.counts.succeeded = 99), Some(Doubt::TooFew));
    assert_eq!(of(Some(0.06), &|run| run.measured.counts.succeeded = 100), None);
    let longest = spec("p(100)<50ms").conditions().unwrap();
    let mut run = IterationRecord::default();
    run.measured.counts.succeeded = 1_000;
    let quiet = doubt::Noise::default();
    assert_eq!(
        doubt::shown(&longest, &[Some(0.06)], &run, None, quiet),
        Ok(Shown::Plain),
        "always one request"
    );
    let run = IterationRecord::default();
    let noise = doubt::Noise { is_disturbed: true, may_limit: false };
    assert_eq!(doubt::shown(&conditions, &[Some(0.06)], &run, None, noise), Err(Doubt::Disturbed));
    assert_eq!(doubt::shown(&conditions, &[Some(0.04)], &run, None, noise), Ok(Shown::KeptInNoise));
    assert_eq!(of(None, &|run| run.measured.counts.succeeded = 0), None, "a server that answers nothing");
}
