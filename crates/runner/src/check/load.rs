//! Levels, windows and arrivals: what follows from a rate where it was not given, and what excludes what.

use webstone_judge::search::{LOOK_FIRST, REPEATS_MAX};
use webstone_measure::metric::Metric;
use webstone_measure::rate::Rates;
use webstone_measure::units::Nanos;
use webstone_model::generators::GeneratorHost;
use webstone_model::search::{Over, SearchSpec};
use webstone_model::spec::{Levels, LoadSpec, RunSpec};

use super::{Asked, SpecError};

/// Most timed runs of a level, and of all levels together: each is planned before the first, and in the record.
pub(crate) const ITERATIONS_MAX: u32 = 10_000;
const TIMED_RUNS_MAX: u64 = 100_000;
/// Most arrivals per second of a schedule; most clients of a level.
const RATE_MAX: u64 = 100_000_000;
const CLIENTS_MAX: u64 = 10_000_000;

/// What [`complete`] may set.
pub(super) const COMPLETED: [&str; 3] = ["load.duration", "load.warmup", "load.clients"];

/// Completes an open loop: clients to serve its rates, and a window as long as its ramp.
pub(super) fn complete(load: &mut LoadSpec, asked: &Asked) {
    if load.repetitions.is_some() {
        // It ends by its pages, and a warm-up would fetch some of them.
        if !asked.says("load.duration", load.duration != asked.defaults.load.duration) {
            load.duration = Nanos::ZERO;
        }
        if !asked.says("load.warmup", load.warmup != asked.defaults.load.warmup) {
            load.warmup = Nanos::ZERO;
        }
    }
    let of_hosts: Option<Vec<u32>> = asked.spec.generators.iter().map(of_host).collect();
    if let Some(clients) = of_hosts.filter(|hosts| !hosts.is_empty() && load.rate.is_none())
        && !asked.says("load.clients", load.clients != asked.defaults.load.clients)
    {
        load.clients = Levels(vec![clients.iter().fold(0, |sum: u32, clients| sum.saturating_add(*clients))]);
    }
    let Some(rates) = &load.rate else { return };
    let ramp = rates.0.iter().map(|rate| rate.over).max().unwrap_or_default();
    if ramp > Nanos::ZERO && !asked.says("load.duration", load.duration != asked.defaults.load.duration) {
        load.duration = ramp;
    }
    if !asked.says("load.clients", load.clients != asked.defaults.load.clients) {
        load.clients = Levels(vec![clients_for(rates)]);
    }
}

/// Clients of a host; of a Job, those of all its pods.
fn of_host(host: &GeneratorHost) -> Option<u32> {
    Some(host.clients?.saturating_mul(host.count() as u32))
}

/// Clients to serve a rate whose answers take 50 ms, within bounds that every server bears.
fn clients_for(rates: &Rates) -> u32 {
    ((rates.peak().per_s() / 20.0).ceil() as u32).clamp(10, 1000)
}

pub(super) fn check(spec: &RunSpec) -> Result<(), SpecError> {
    if let Some(find) = &spec.find {
        search(find, &spec.load)?;
    }
    closed_or_open(&spec.load)?;
    match &spec.load.rate {
        Some(rates) => open_loop(&spec.load, rates)?,
        None => no_open_loop(spec)?,
    }
    match spec.client.think {
        Some(think) if spec.load.rate.is_some() => Err(SpecError::value(
            "client.think",
            think,
            "a pause between pages, but the schedule of load.rate says when they begin",
            "leave out client.think or load.rate",
        )),
        _ => Ok(()),
    }
}

fn closed_or_open(load: &LoadSpec) -> Result<(), SpecError> {
    const ITERATIONS: &str = "load.iterations";
    if load.clients.0.is_empty() {
        return Err(SpecError::new("load.clients", "no level is given", "say how many, as in 20..100+10"));
    }
    if load.iterations == 0 {
        return Err(SpecError::zero(ITERATIONS, "write at least 1"));
    }
    if load.iterations > ITERATIONS_MAX {
        let remedy = "3 to 10 give an interval; for a longer run, make its windows longer with load.duration";
        let rule = format!("more than {ITERATIONS_MAX}");
        return Err(SpecError::value(ITERATIONS, load.iterations, &rule, remedy));
    }
    let timed_runs = load.levels() as u64 * u64::from(load.iterations);
    if timed_runs > TIMED_RUNS_MAX {
        let rule = format!(
            "`{}` of {} levels are {timed_runs} timed runs, more than {TIMED_RUNS_MAX}",
            load.iterations,
            load.levels()
        );
        return Err(SpecError::new(ITERATIONS, rule, "ask for fewer levels, or fewer iterations"));
    }
    if load.aa && (load.iterations < 4 || load.iterations % 2 == 1) {
        let rule = "not an even number of at least 4, which the two arms of load.aa need";
        return Err(SpecError::value(ITERATIONS, load.iterations, rule, "write 4, 6 or more"));
    }
    if load.pages == Some(0) {
        let remedy = "write at least 1, or leave it out to end levels by load.duration";
        return Err(SpecError::zero("load.pages", remedy));
    }
    if let Some(repetitions) = load.repetitions {
        repetition_test(load, repetitions)?;
    }
    if load.duration == Nanos::ZERO && load.pages.is_none() && load.repetitions.is_none() {
        return Err(SpecError::new(
            "load.duration",
            "`0s`, and load.pages is not given: a level would never end",
            "give one of them, as in 10s or in 10k pages",
        ));
    }
    Ok(())
}

/// A repetition test ends after its pages, whose number depends on the workload, and counts every one of them.
fn repetition_test(load: &LoadSpec, repetitions: u32) -> Result<(), SpecError> {
    const KEY: &str = "load.repetitions";
    if repetitions == 0 {
        return Err(SpecError::zero(KEY, "write how often each page is fetched, as in 10"));
    }
    let beside = |key: &str| {
        SpecError::value(KEY, repetitions, &format!("not possible beside {key}"), "give one of the two")
    };
    if load.rate.is_some() {
        return Err(beside("load.rate"));
    }
    if load.duration > Nanos::ZERO {
        return Err(beside("load.duration"));
    }
    if load.warmup > Nanos::ZERO {
        return Err(beside("load.warmup"));
    }
    Ok(())
}

fn open_loop(load: &LoadSpec, rates: &Rates) -> Result<(), SpecError> {
    if load.clients.0.len() != 1 {
        return Err(SpecError::value(
            "load.clients",
            &load.clients,
            "more than one level, but the levels are those of load.rate",
            "write one count, of clients that stand by for arrivals, or leave it out",
        ));
    }
    if let Some(pages) = load.pages {
        return Err(SpecError::new(
            "load.pages",
            format!("`{pages}`, but a schedule of load.rate ends by time"),
            "give load.duration instead: arrivals are rate × duration, to the last one",
        ));
    }
    if let Some(ramp) = rates.0.iter().find(|rate| rate.over > load.duration) {
        return Err(SpecError::new(
            "load.rate",
            format!("the ramp `{ramp}` takes longer than load.duration, {}", load.duration),
            format!("give {} or more, or a shorter ramp", ramp.over),
        ));
    }
    if let Some(rate) = rates.0.iter().find(|rate| rate.expected(load.duration.0) < 1.0) {
        return Err(SpecError::new(
            "load.rate",
            format!("`{rate}` has not a single arrival within load.duration, {}", load.duration),
            "give a higher rate or a longer duration",
        ));
    }
    Ok(())
}

/// What means nothing without an open loop.
fn no_open_loop(spec: &RunSpec) -> Result<(), SpecError> {
    let (load, defaults) = (&spec.load, LoadSpec::default());
    let vain = [
        ("load.arrivals", "it spaces the arrivals", load.arrivals != defaults.arrivals),
        ("load.when_busy", "it applies to the arrivals", load.when_busy != defaults.when_busy),
    ];
    match vain.into_iter().find(|(_, _, given)| *given) {
        Some((key, what, _)) => Err(SpecError::new(
            key,
            format!("{what} of an open loop, but load.rate is not given"),
            "add a rate, as in 1k, or leave it out",
        )),
        None => Ok(()),
    }
}

/// A search over loads.
fn search(find: &SearchSpec, load: &LoadSpec) -> Result<(), SpecError> {
    let conditions = find.conditions().map_err(|error| {
        SpecError::new("find.slo", error.to_string(), "write it as in p(99)<50ms,errors<0.1%")
    })?;
    if find.from == 0 {
        return Err(SpecError::zero("find.from", "write at least 1"));
    }
    if find.from > find.to {
        let is = format!("above find.to, {}", find.to);
        let remedy = "write the lowest load to be tried as find.from, the highest as find.to";
        return Err(SpecError::value("find.from", find.from, &is, remedy));
    }
    if let Some(begin) = find.begin.filter(|begin| !(find.from..=find.to).contains(begin)) {
        let is = format!("not from {} to {}", find.from, find.to);
        let remedy = "remove it: the search then finds out where to begin";
        return Err(SpecError::value("find.begin", begin, &is, remedy));
    }
    let (most, name) = match find.over {
        Over::Rate => (RATE_MAX, "arrivals per second"),
        Over::Clients => (CLIENTS_MAX, "clients"),
    };
    if find.to > most {
        let is = format!("more than {most} {name}");
        return Err(SpecError::value(
            "find.to",
            find.to,
            &is,
            format!("write at most {}m", most / 1_000_000),
        ));
    }
    if !(LOOK_FIRST..=REPEATS_MAX).contains(&find.repeats) {
        let remedy = format!("write {LOOK_FIRST} to {REPEATS_MAX}");
        return Err(SpecError::value(
            "find.repeats",
            find.repeats,
            "not a possible number of timed runs of a level",
            remedy,
        ));
    }
    if !(0.01..=100.0).contains(&find.resolution_percent) {
        let remedy = "write 0.01 to 100";
        return Err(SpecError::value(
            "find.resolution_percent",
            find.resolution_percent,
            "not a percentage in range",
            remedy,
        ));
    }
    if load.duration == Nanos::ZERO {
        let remedy = "give each timed run a length, as in 3s";
        return Err(SpecError::new("load.duration", "`0s`: a timed run needs time", remedy));
    }
    match find.over {
        Over::Rate if load.duration.as_secs_f64() * (find.from as f64) < 1.0 => Err(SpecError::new(
            "find.from",
            format!("`{}`: not a single arrival is due within load.duration, {}", find.from, load.duration),
            "search from a higher rate, or give a longer duration",
        )),
        Over::Rate => Ok(()),
        Over::Clients => {
            if let Some(condition) = conditions.iter().find(|condition| condition.metric() == Metric::OFFERED)
            {
                return Err(SpecError::new(
                    "find.slo",
                    format!("`{condition}` is about arrivals, but a search over clients has none"),
                    "leave the condition out, or search over rates with find.over",
                ));
            }
            match find.clients {
                Some(clients) => Err(SpecError::new(
                    "find.clients",
                    format!("`{clients}` stand by for arrivals, but a search over clients has none"),
                    "leave it out (find.from and find.to bound the clients), or search over rates with find.over",
                )),
                None => Ok(()),
            }
        }
    }
}
