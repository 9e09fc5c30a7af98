//! The search on a noisy machine, against synthetic servers whose limit is known: what it answers is right, or it says that it cannot
//! tell; it is never wrong.

use webstone_model::search::Over;
use webstone_workload::PageSequence;

use super::doubt::Noise;
use super::*;

/// What a server does with one timed run.
struct Run {
    values: Vec<Option<f64>>,
    shown: Result<Shown, Doubt>,
}

struct Random(PageSequence);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.between(1, 1 << 52) as f64 / (1_u64 << 52) as f64
    }

    fn has(&mut self, share: f64) -> bool {
        self.uniform() < share
    }

    /// By how much a disturbance lengthens times: mostly little, sometimes tenfold.
    fn lengthens(&mut self) -> f64 {
        (-self.uniform().ln()).exp().min(30.0)
    }
}

fn spec() -> SearchSpec {
    SearchSpec { slo: "p(99)<50ms,errors<1%".to_owned(), ..SearchSpec::over(Over::Rate) }
}

/// A timed run in which requests take `seconds` and `refused` percent of them are refused, or never begin; in noise both may be worse.
fn run(random: &mut Random, disturbed: f64, seconds: f64, refused: f64, offered: f64) -> Run {
    let is_disturbed = random.has(disturbed);
    let seconds = if is_disturbed { seconds * random.lengthens() } else { seconds * 1.02 };
    // A stall lets requests come in a bunch, of which a limiter refuses some.
    let bunched = if is_disturbed && random.has(0.02) { 1.5 } else { 0.0 };
    let refused = refused + bunched;
    // Another just before the end leaves arrivals that have not begun; how long it was is known.
    let stalled = if is_disturbed { 2.0 * random.uniform() } else { 0.0 };
    let offered = offered - stalled * random.uniform();
    let values = vec![Some(seconds), Some(refused), Some(offered)];
    let is_kept = seconds < 0.05 && refused < 1.0 && offered >= 99.0;
    let shown = match (is_kept, refused >= 1.0 || offered + stalled < 99.0, is_disturbed) {
        (true, _, true) => Ok(Shown::KeptInNoise),
        (true, _, false) => Ok(Shown::Plain),
        (false, true, _) => Ok(Shown::BrokenForSure),
        (false, false, true) => Err(Doubt::Disturbed),
        (false, false, false) => Ok(Shown::Plain),
    };
    Run { values, shown }
}

/// Searches to the end; `probe` is the rate that the closed loop found.
fn searched(spec: &SearchSpec, probe: f64, mut server: impl FnMut(u64) -> Run) -> Finding {
    let mut search = Search::new(spec).unwrap();
    assert!(spec.is_probed());
    search.begin_near(probe);
    let most = iterations_max(search.spec());
    let mut taken = 0;
    while let Some(load) = search.next() {
        assert!((spec.from..=spec.to).contains(&load), "{load}");
        taken += 1;
        assert!(taken <= most, "{taken} of {most}");
        let Run { values, shown } = server(load);
        match shown {
            Ok(shown) => search.observe_as(load, values, shown),
            Err(doubt) => search.doubt(load, doubt),
        }
    }
    let finding = search.finding();
    assert_ne!(finding.answer, Answer::Unfinished);
    finding
}

/// Searches for limits that are drawn at random; the probe is off by a factor of up to 4. `beyond`: by which factor the SLO lets a load
/// exceed what the server carries. Gives how many were found, and timed runs.
fn simulations(beyond: f64, server: impl Fn(&mut Random, f64, u64) -> Run) -> (u32, f64) {
    let (mut found, mut iterations) = (0, 0);
    for seed in 0..1000 {
        let mut random = Random(PageSequence::new(seed, 17));
        let limit = (50.0 * 2_000_f64.powf(random.uniform())).round();
        let probe = limit * 4_f64.powf(2.0 * random.uniform() - 1.0);
        let finding = searched(&spec(), probe, |load| server(&mut random, limit, load));
        iterations += finding.iterations;
        let (kept, broken) = (finding.kept.unwrap_or(0), finding.broken.unwrap_or(u64::MAX));
        let is_right = kept as f64 <= limit * beyond && broken as f64 > limit;
        assert!(is_right, "{limit}: {}", finding.sentence);
        found += u32::from(finding.answer == Answer::Between && broken as f64 <= kept as f64 * 1.5);
    }
    (found, iterations as f64 / 1000.0)
}

#[test]
fn a_server_that_refuses_what_is_too_much_is_never_misjudged() {
    let limiter = |random: &mut Random, disturbed, limit: f64, load: u64| {
        let refused = (100.0 - 100.0 * limit / load as f64).max(0.0);
        run(random, disturbed, 0.002, refused, 100.0)
    };
    for disturbed in [0.0, 0.5, 1.0] {
        let (found, iterations) =
            simulations(1.0102, |random, limit, load| limiter(random, disturbed, limit, load));
        println!("disturbed {disturbed}: {found} of 1000 found in {iterations} timed runs");
        assert!(found >= 950 && iterations < 25.0, "{disturbed}: {found}, {iterations}");
    }
}

#[test]
fn a_server_with_a_fixed_service_time_is_never_misjudged() {
    // Beyond the limit a queue grows for the 2.5 s of warm-up and window; clients stand by for 50 ms of it.
    let queue = |random: &mut Random, disturbed, limit: f64, load: u64| {
        let over = (load as f64 / limit - 1.0).max(0.0);
        let offered = 100.0 - 100.0 * ((over * 2.5 - 0.05) / 2.0).clamp(0.0, over / (1.0 + over));
        run(random, disturbed, 0.010 + over * 2.5, 0.0, offered)
    };
    for (disturbed, least) in [(0.0, 990), (0.5, 950), (1.0, 800)] {
        let (found, iterations) =
            simulations(1.0161, |random, limit, load| queue(random, disturbed, limit, load));
        println!("disturbed {disturbed}: {found} of 1000 found in {iterations} timed runs");
        assert!(found >= least && iterations < 35.0, "{disturbed}: {found}, {iterations}");
    }
}

#[test]
fn noise_alone_is_no_answer() {
    for seed in 0..200 {
        let mut random = Random(PageSequence::new(seed, 19));
        let finding = searched(&spec(), 1_000.0, |_| {
            let values = vec![Some(0.06 * random.lengthens()), Some(0.0), Some(100.0)];
            Run { values, shown: Err(Doubt::Disturbed) }
        });
        assert_eq!((finding.answer, finding.kept, finding.broken), (Answer::Unclear, None, None));
    }
}

#[test]
fn a_search_begins_near_what_a_probe_found() {
    let begins = |pages_per_s: f64| {
        let mut spec = spec();
        spec.begin_near(pages_per_s);
        (rising(&spec).into_iter().take(4).collect::<Vec<_>>(), falling(&spec).into_iter().take(3).collect())
    };
    assert_eq!(begins(1_000.0), (vec![750, 1125, 2250, 4500], vec![375, 188, 94]));
    assert_eq!(begins(0.0), (vec![10, 20, 40, 80], Vec::<u64>::new()), "nothing is known");
    assert_eq!(begins(1.0).0[..2], [10, 15]);
    assert_eq!(begins(1e9), (vec![1_000_000], vec![500_000, 250_000, 125_000]));
    let narrow = SearchSpec { from: 5_000, to: 20_000, ..spec() };
    assert!(!narrow.is_probed() && !SearchSpec::over(Over::Clients).is_probed());
}

fn example() -> webstone_measure::errors::ErrorExample {
    webstone_measure::errors::ErrorExample {
        at_ns: 0,
        address: String::new(),
        request: String::new(),
        detail: String::new(),
    }
}

/// One timed run of 2 s, of 500 arrivals/s, as a record has it: half of the answers are 429, or half of the arrivals wait.
fn measured(refused: bool) -> IterationRecord {
    let mut run = IterationRecord::default();
    let measured = &mut run.measured;
    measured.window_ns = 2_000_000_000;
    measured.open_loop = Some(webstone_measure::metrics::OpenLoop {
        planned: 1_000,
        started: if refused { 1_000 } else { 500 },
        queued: if refused { 0 } else { 500 },
        ..Default::default()
    });
    measured.counts.succeeded = 500;
    if refused {
        measured.counts.failed = 500;
        for _ in 0..500 {
            measured.errors.add(webstone_measure::errors::ErrorClass::WrongStatus, example);
        }
    }
    run
}

#[test]
fn what_no_disturbance_does_breaks_an_slo_however_noisy_it_was() {
    let conditions = spec().conditions().unwrap();
    let shown = |run: &IterationRecord, values: [f64; 3], may_limit| {
        let noise = Noise { is_disturbed: true, may_limit };
        doubt::shown(&conditions, &values.map(Some), run, Some(0.05), noise)
    };
    let refusing = measured(true);
    assert_eq!(shown(&refusing, [0.2, 50.0, 100.0], true), Ok(Shown::BrokenForSure));
    assert_eq!(shown(&refusing, [0.2, 0.5, 100.0], true), Err(Doubt::Disturbed), "few are within the SLO");
    // One answer that says no beside half of the load in requests that hang, which a stall makes.
    let mut hanging = measured(true);
    (hanging.measured.counts.succeeded, hanging.measured.counts.failed) = (999, 1);
    hanging.measured.errors = Default::default();
    hanging.measured.errors.add(webstone_measure::errors::ErrorClass::WrongStatus, example);
    assert_eq!(shown(&hanging, [0.01, 50.0, 100.0], false), Err(Doubt::Disturbed));
    // Timeouts and resets are what a busy machine may make.
    let mut timeouts = measured(true);
    timeouts.measured.errors = Default::default();
    for _ in 0..500 {
        timeouts.measured.errors.add(webstone_measure::errors::ErrorClass::FirstByteTimeout, example);
    }
    assert_eq!(shown(&timeouts, [0.01, 50.0, 100.0], false), Err(Doubt::Disturbed));
    // A queue grows: for sure only before a server that did not lack CPU time, and beyond what a stall leaves.
    let mut waiting = measured(false);
    assert_eq!(shown(&waiting, [0.2, 0.0, 50.0], false), Ok(Shown::BrokenForSure));
    assert_eq!(shown(&waiting, [0.2, 0.0, 50.0], true), Err(Doubt::Disturbed));
    assert_eq!(shown(&waiting, [0.2, 0.0, 100.0], false), Ok(Shown::BrokenForSure), "half are not answered");
    // A queue does not make a request cost more CPU time; what disturbs does.
    let cpu = SearchSpec { slo: "server-cpu<1ms,offered>1%".to_owned(), ..spec() }.conditions().unwrap();
    let noise = Noise { is_disturbed: true, may_limit: false };
    let shown_of_cpu = doubt::shown(&cpu, &[Some(0.002), Some(50.0)], &waiting, None, noise);
    assert_eq!(shown_of_cpu, Err(Doubt::Disturbed));
    waiting.measured.open_loop.as_mut().unwrap().queued = 80;
    assert_eq!(shown(&waiting, [0.2, 0.0, 100.0], false), Err(Doubt::Disturbed));
    let stalled = webstone_measure::metrics::WorkerUse { stalled_ns_max: 200_000_000, ..Default::default() };
    waiting.measured.generator.workers = vec![stalled];
    assert_eq!(shown(&waiting, [0.01, 0.0, 92.0], false), Err(Doubt::Disturbed));
    assert_eq!(shown(&waiting, [0.01, 0.0, 88.0], false), Ok(Shown::BrokenForSure));
}
