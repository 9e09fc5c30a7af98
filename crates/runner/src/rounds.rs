//! A record that grows round by round: every level once, then, perhaps in another process and after other runs, every level
//! once more. What each round has to make, and that it measures what the record began with.

use std::path::Path;

use webstone_judge::comparison::machine_differences;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::spec::{GeneratorSpec, RunSpec, parse_cpu_list};

use crate::order::{self, Step};
use crate::run::RunError;
use webstone_store::Store;

/// Opens the record so far; it replaces `record`, which this round would have begun with workers as in `generator`.
///
/// # Errors
/// If it cannot be read, and if this round would measure something else.
pub(crate) fn go_on(
    path: &Path,
    record: &mut RunRecord,
    generator: &GeneratorSpec,
) -> Result<Store, RunError> {
    let (store, mut begun) = Store::reopen(path)?;
    if let Some((what, before, now)) = changed(&begun, record, generator) {
        return Err(RunError::Refused {
            what: format!(
                "{} cannot be resumed: {what} was {before} when it began, but is now {now}",
                path.display()
            ),
            hint: "start a new series, or restore what was there".to_owned(),
        });
    }
    let new: Vec<String> =
        record.warnings.iter().filter(|warning| !begun.warnings.contains(warning)).cloned().collect();
    if !new.is_empty() {
        begun.warnings.extend(new);
        store.rewrite(&begun)?;
    }
    *record = begun;
    Ok(store)
}

/// The first thing that the two would measure differently: what it is, before, now. Two runs that may not be compared are not one.
fn changed(
    begun: &RunRecord,
    now: &RunRecord,
    generator: &GeneratorSpec,
) -> Option<(String, String, String)> {
    let software = |record: &RunRecord| match &record.target.software {
        Some(software) => format!("{software} {} of {}", software.version, software.program),
        None => "the reference server".to_owned(),
    };
    type Part = (&'static str, fn(&RunRecord) -> String);
    let parts: [Part; 4] = [
        ("webstone", |record| {
            format!("{} {}", record.tool.version, record.tool.commit.as_deref().unwrap_or(""))
        }),
        ("the workload", |record| format!("{} ({:.12})", record.workload.name, record.workload_sha256)),
        ("the list of the server's CPUs", |record| format!("{:?}", record.target.cpus)),
        ("the list of the origin's CPUs", |record| {
            record.target.origin.as_ref().map_or_else(String::new, |origin| format!("{:?}", origin.cpus))
        }),
    ];
    let of_parts = parts.into_iter().map(|(what, part)| (what, part(begun), part(now)));
    let mut all = of_parts.chain([("the server", software(begun), software(now))]);
    let different = all.find(|(_, before, now)| before.trim() != now.trim());
    let same = || begun.spec == now.spec;
    let of_machine = || {
        let first = machine_differences(begun, now).into_iter().next()?;
        Some((format!("of the machine, `{}`", first.what), first.baseline, first.candidate))
    };
    different
        .map(|(what, before, now)| (what.to_owned(), before, now))
        .or_else(of_machine)
        .or_else(|| other_workers(begun, generator))
        .or_else(|| {
            (!same())
                .then(|| ("its specification".to_owned(), "another one".to_owned(), "changed".to_owned()))
        })
}

/// Whether this host's workers are others than those that made the load so far.
fn other_workers(begun: &RunRecord, generator: &GeneratorSpec) -> Option<(String, String, String)> {
    // A level of few clients has fewer.
    let workers_of = |run: &&IterationRecord| run.measured.generator.workers.len();
    let most = begun.iterations.iter().max_by_key(workers_of)?;
    let used = &most.measured.generator.workers;
    if used.is_empty() || !begun.generators.is_empty() {
        return None;
    }
    let groups = most.clients.div_ceil(begun.spec.client.clients_per_link());
    let may_use = parse_cpu_list(&generator.cpus).unwrap_or_default();
    let pinned: Vec<u32> = used.iter().filter_map(|worker| worker.cpu).collect();
    let is_same = used.len() == generator.workers.min(groups.max(1)) as usize
        && pinned.iter().all(|cpu| may_use.contains(cpu));
    (!is_same).then(|| {
        let listed = |number: usize, cpus: &[u32]| format!("{number} on CPUs {cpus:?}");
        (
            "the list of the generator's workers".to_owned(),
            listed(used.len(), &pinned),
            listed(generator.workers as usize, &may_use),
        )
    })
}

/// The steps of a round: the levels of one iteration that are missing.
pub(crate) fn steps(spec: &RunSpec, iteration: u32, record: &RunRecord) -> Vec<Step> {
    missing(spec, record).into_iter().filter(|step| step.iteration == iteration).collect()
}

/// Whether all that the specification asks for is there.
pub(crate) fn is_done(record: &RunRecord) -> bool {
    missing(&record.spec, record).is_empty()
}

/// The lowest iteration of which something is missing; `None` where nothing is.
pub(crate) fn next_round(record: &RunRecord) -> Option<u32> {
    missing(&record.spec, record).iter().map(|step| step.iteration).min()
}

fn missing(spec: &RunSpec, record: &RunRecord) -> Vec<Step> {
    let mut all = order::steps(&spec.load, spec.client.seed);
    all.retain(|step| !record.iterations.iter().any(|run| run.key() == step.key()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::metrics::WorkerUse;
    use webstone_model::record::IterationRecord;

    /// A record as this host began it, and the same before it measures.
    fn pair() -> (RunRecord, RunRecord, GeneratorSpec) {
        let environment =
            [("hostname", "a"), ("cpu.allowed", "0-3"), ("cpu.frequency.governor", "performance")];
        let now = RunRecord {
            environment: environment.map(|(name, value)| (name.to_owned(), value.into())).into(),
            ..RunRecord::default()
        };
        let mut run = IterationRecord { clients: 5, ..IterationRecord::default() };
        run.measured.generator.workers =
            [0, 1].map(|cpu| WorkerUse { cpu: Some(cpu), ..WorkerUse::default() }).into();
        let begun = RunRecord { iterations: vec![run], ..now.clone() };
        (begun, now, GeneratorSpec { workers: 2, cpus: "0-1".to_owned(), ..GeneratorSpec::default() })
    }

    #[test]
    fn a_round_on_a_machine_that_differs_is_refused() {
        let (begun, now, generator) = pair();
        assert_eq!(changed(&begun, &now, &generator), None);
        for (name, value, told) in [
            ("hostname", "b", "of the machine, `host`"),
            ("cpu.allowed", "0-1", "of the machine, `CPUs that the generator may use`"),
            ("cpu.frequency.governor", "powersave", "of the machine, `frequency governor`"),
        ] {
            let mut changed_since = begun.clone();
            changed_since.environment.insert(name.to_owned(), value.into());
            let (what, before, _) = changed(&changed_since, &now, &generator).unwrap();
            assert_eq!((&*what, &*before), (told, value));
        }
    }

    #[test]
    fn a_first_level_of_fewer_clients_than_workers_is_the_same_machine() {
        let (mut begun, now, generator) = pair();
        let mut of_one = IterationRecord { clients: 1, ..IterationRecord::default() };
        of_one.measured.generator.workers = begun.iterations[0].measured.generator.workers[..1].to_vec();
        begun.iterations.insert(0, of_one);
        assert_eq!(changed(&begun, &now, &generator), None);
        begun.iterations.truncate(1);
        assert_eq!(changed(&begun, &now, &generator), None);
    }

    #[test]
    fn a_round_of_other_workers_is_refused() {
        let (begun, now, generator) = pair();
        for (workers, cpus) in [(1, "0-1"), (2, "1-2")] {
            let others = GeneratorSpec { workers, cpus: cpus.to_owned(), ..generator.clone() };
            let (what, before, _) = changed(&begun, &now, &others).unwrap();
            assert_eq!((&*what, &*before), ("the list of the generator's workers", "2 on CPUs [0, 1]"));
        }
    }
}
