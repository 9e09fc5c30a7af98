//! The meaning of `find`: a search over rates or clients, with one URL and the defaults of `hit`, or with a workload
//! and those of `run`.

use webstone_measure::units::Nanos;
use webstone_model::search::{Over, SearchSpec};
use webstone_model::spec::{LoadSpec, RunSpec};
use webstone_report::Format;
use webstone_runner::check::Asked;

use super::{Intent, finish, hit_defaults, lay_over, pages, run_defaults};
use crate::args::FindArgs;
use crate::failure::Failure;

pub(crate) fn of_find(args: &FindArgs) -> Result<Intent, Failure> {
    let (mut spec, workload) = match (&args.url, &args.workload) {
        (Some(url), None) => {
            let mut spec = hit_defaults();
            let workload = pages::of_urls(std::slice::from_ref(url), None, &mut spec)?;
            (spec, Some(workload))
        }
        (url, _) => {
            let mut spec = run_defaults();
            if let Some(url) = url {
                spec.target = vec![url.clone()];
            }
            (spec, None)
        }
    };
    spec = find_defaults(spec, args.over.unwrap_or_default());
    lay_over(args, &mut spec)?;
    if let Some(search) = &mut spec.find {
        if args.to.is_none() {
            search.to = search.to.max(search.from);
        }
        // Resources are checked for the highest load; the record lists the levels that were run.
        search.fill(&mut spec.load, &[search.to]);
    }
    // The search decides how many clients there are.
    let given = vec!["load.clients", "load.duration"];
    let asked = Asked { spec, defaults: run_defaults(), given, testbed: None };
    let intent = finish("find", asked, workload, &args.output, !args.no_store, Format::Text)?;
    Ok(Intent { check_target: !args.client.no_check, ..intent })
}

/// The search without optional flags, based on another command's defaults.
pub(crate) fn find_defaults(mut spec: RunSpec, over: Over) -> RunSpec {
    spec.name = "find".to_owned();
    spec.load = LoadSpec {
        duration: Nanos::from_secs(2),
        iterations: 1,
        warmup: Nanos::from_millis(500),
        // A level in doubt is measured again anyway.
        retries: 0,
        ..LoadSpec::default()
    };
    spec.find = Some(SearchSpec::over(over));
    spec
}
