//! What `find` was asked for: a search over rates or clients, on one URL with the habits of `hit`, or on a workload with those
//! of `run`.

use webstone_measure::units::Nanos;
use webstone_model::search::SearchSpec;
use webstone_model::spec::{LoadSpec, RunSpec};
use webstone_model::threshold::Threshold;
use webstone_report::Format;
use webstone_runner::check::Asked;

use super::{Intent, apply, finish, hit_defaults, pages, run_defaults};
use crate::args::FindArgs;
use crate::failure::Failure;

pub(crate) fn of_find(args: &FindArgs) -> Result<Intent, Failure> {
    let (mut spec, workload) = match (&args.url, &args.workload) {
        (Some(url), None) => {
            let mut spec = hit_defaults();
            let workload = pages::of_urls(std::slice::from_ref(url), &mut spec)?;
            (spec, Some(workload))
        }
        (url, workload) => {
            let mut spec = run_defaults();
            if let Some(url) = url {
                spec.target = vec![url.clone()];
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
    spec.load.retries = args.retry.retries.unwrap_or(spec.load.retries);
    let search = search(args);
    // Room is foreseen for the highest load; the record lists the levels that were taken.
    search.fill(&mut spec.load, &[search.to]);
    spec.find = Some(search);
    apply::client(&args.client, &mut spec.client)?;
    apply::generators(&args.generator, &mut spec);
    apply::elsewhere(&args.elsewhere, &mut spec.server);
    // The search says how many clients there are.
    let given = vec!["load.clients", "load.duration"];
    let asked = Asked { spec, defaults: run_defaults(), given, testbed: None };
    let intent = finish("find", asked, workload, &args.output, !args.no_store, Format::Text)?;
    Ok(Intent { check_target: !args.client.no_check, ..intent })
}

fn search(args: &FindArgs) -> SearchSpec {
    let mut search = SearchSpec::over(args.over.unwrap_or_default());
    search.slo = args.slo.0.iter().map(Threshold::text).collect::<Vec<_>>().join(",");
    search.from = args.from.map_or(search.from, u64::from);
    search.to = args.to.map_or(search.to.max(search.from), u64::from);
    search.resolution_percent = args.resolution.unwrap_or(search.resolution_percent);
    search.repeats = args.repeats.unwrap_or(search.repeats);
    search.clients = args.clients;
    search
}

/// A search with nothing typed but what must be, on top of another command's habits.
pub(crate) fn find_defaults(mut spec: RunSpec) -> RunSpec {
    spec.name = "find".to_owned();
    spec.load = LoadSpec {
        duration: Nanos::from_secs(2),
        iterations: 1,
        warmup: Nanos::from_millis(500),
        // A level in doubt is measured again anyway.
        retries: 0,
        ..LoadSpec::default()
    };
    spec.find = Some(SearchSpec::default());
    spec
}
