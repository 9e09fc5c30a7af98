//! What `find` was asked for: a search over rates or clients, on one URL with the habits of `hit`, or on a workload with those
//! of `run`.

use webstone_model::metric::Metric;
use webstone_model::search::{Over, SearchSpec};
use webstone_model::spec::{LoadSpec, RunSpec};
use webstone_model::threshold::Threshold;
use webstone_model::units::Nanos;
use webstone_report::Format;

use super::{Intent, apply, finish, hit_defaults, one_url, server_url};
use crate::args::FindArgs;
use crate::failure::Failure;

/// Most arrivals a second that a schedule knows; most clients of a level.
const RATE_MAX: u64 = 100_000_000;
const CLIENTS_MAX: u64 = 10_000_000;

pub(crate) fn of_find(args: &FindArgs) -> Result<Intent, Failure> {
    let (mut spec, workload) = match (&args.url, &args.workload) {
        (Some(url), None) => {
            let mut spec = hit_defaults();
            let workload = one_url(url, &mut spec)?;
            (spec, Some(workload))
        }
        (url, workload) => {
            let mut spec = RunSpec::default();
            if let Some(url) = url {
                spec.target = vec![server_url(url, "find")?.to_string()];
            }
            if let Some(workload) = workload {
                spec.workload.clone_from(workload);
            }
            (spec, None)
        }
    };
    spec = find_defaults(spec);
    spec.load.duration = args.duration.unwrap_or(spec.load.duration);
    spec.load.warmup = args.warmup.unwrap_or(spec.load.warmup);
    spec.load.arrivals = args.open_loop.arrivals.unwrap_or(spec.load.arrivals);
    spec.load.when_busy = args.open_loop.when_busy.unwrap_or(spec.load.when_busy);
    spec.load.retries = args.retry.retries.unwrap_or(LoadSpec::default().retries);
    let search = search(args)?;
    if spec.load.duration == Nanos::ZERO {
        return Err(Failure::usage("--duration 0s: a timed run of no time shows nothing")
            .hint("give each timed run a length, as in -d 3s"));
    }
    if search.over == Over::Rate && spec.load.duration.as_secs_f64() * (search.from as f64) < 1.0 {
        return Err(Failure::usage(format!(
            "--from {}: not a single arrival is due within --duration, {}",
            search.from, spec.load.duration
        ))
        .hint("search from a higher rate, or give a longer duration"));
    }
    // Room is foreseen for the highest load; the record lists the levels that were taken.
    search.fill(&mut spec.load, &[search.to]);
    spec.find = Some(search);
    apply::client(&args.client, &mut spec.client)?;
    apply::generator(&args.generator, &mut spec.generator);
    apply::elsewhere(&args.elsewhere, &mut spec.server);
    let intent = finish(spec, workload, &args.output, !args.no_store, Format::Text)?;
    Ok(Intent { check_target: !args.client.no_check, ..intent })
}

fn search(args: &FindArgs) -> Result<SearchSpec, Failure> {
    let mut search = SearchSpec::over(args.over.unwrap_or_default());
    search.slo = args.slo.0.iter().map(Threshold::text).collect::<Vec<_>>().join(",");
    search.from = args.from.map_or(search.from, u64::from);
    search.to = args.to.map_or(search.to.max(search.from), u64::from);
    search.resolution_percent = args.resolution.unwrap_or(search.resolution_percent);
    search.repeats = args.repeats.unwrap_or(search.repeats);
    search.clients = args.clients;
    if search.from > search.to {
        let what = match args.to {
            Some(_) => format!("--from {} is above --to {}", search.from, search.to),
            None => format!(
                "--from {} is above {}, the highest load unless --to is given",
                search.from, search.to
            ),
        };
        return Err(Failure::usage(what)
            .hint("write the lowest load to be tried behind --from, the highest behind --to"));
    }
    let (most, name) = match search.over {
        Over::Rate => (RATE_MAX, "arrivals a second"),
        Over::Clients => (CLIENTS_MAX, "clients"),
    };
    if search.to > most {
        return Err(Failure::usage(format!(
            "--to {}: more than {most} {name} cannot be asked for",
            search.to
        ))
        .hint(format!("write at most --to {}m", most / 1_000_000)));
    }
    if search.over == Over::Clients {
        let offered = |condition: &&Threshold| condition.metric() == Metric::OFFERED;
        if let Some(condition) = args.slo.0.iter().find(offered) {
            return Err(Failure::usage(format!(
                "--slo: `{condition}` is about arrivals, and a search over clients has none"
            ))
            .hint("leave the condition out, or search over rates: --over rate"));
        }
        let vain = [
            ("--clients says how many stand by for arrivals", args.clients.is_some()),
            ("--arrivals says how arrivals are spaced", args.open_loop.arrivals.is_some()),
            ("--when-busy says what becomes of arrivals", args.open_loop.when_busy.is_some()),
            ("--spin waits for arrivals", args.generator.spin),
        ];
        if let Some((what, _)) = vain.into_iter().find(|(_, given)| *given) {
            return Err(Failure::usage(format!("{what}, and a search over clients has none")).hint(
                "leave it out (--from and --to bound the clients), or search over rates: --over rate",
            ));
        }
    }
    Ok(search)
}

/// A search with nothing typed but what must be, on top of another command's habits.
pub(crate) fn find_defaults(mut spec: RunSpec) -> RunSpec {
    spec.name = "find".to_owned();
    spec.load = LoadSpec {
        duration: Nanos::from_secs(3),
        iterations: 1,
        warmup: Nanos::from_secs(1),
        ..LoadSpec::default()
    };
    spec.find = Some(SearchSpec::default());
    spec
}
