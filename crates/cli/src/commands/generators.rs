//! `webstone generators`: checks the hosts that are to make load together, before any load; and prints the manifest
//! of a Kubernetes Job for them.

use std::collections::BTreeMap;
use std::time::Duration;

use webstone_lab::cpus::cpu_list;
use webstone_lab::interrupt::Interrupt;
use webstone_runner::fleet::{CheckedHost, Job, JobError, check};

use crate::args::{GeneratorsCheckArgs, GeneratorsJobArgs};
use crate::console::{self, Console, print};
use crate::failure::{Exit, Failure};
use crate::{intent, version};

pub(super) fn execute(args: &GeneratorsCheckArgs, console: &Console) -> Result<Exit, Failure> {
    let hosts = intent::generators(args)?;
    if hosts.is_empty() {
        return Err(Failure::usage("no host is named").hint(
            "give --generator 'ssh gen1 webstone agent', or -f with a testbed file that has [[generators]]",
        ));
    }
    let found = check(&hosts, &version::tool(), &Interrupt::default(), &mut |what| console.note(what))
        .map_err(|error| {
            let failure = Failure::failed(error.to_string());
            error.hint().into_iter().fold(failure, Failure::hint)
        })?;
    let mut lines = Vec::new();
    let mut errors = Vec::new();
    for (number, host) in found.iter().enumerate() {
        match host {
            Ok(host) => lines.push(line(number + 1, host)),
            Err(error) => errors.push((error.to_string(), error.hint())),
        }
    }
    lines.extend(twice(&found));
    print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    let mut failures = in_turn(errors);
    let last = failures.pop();
    failures.iter().for_each(console::fail);
    last.map_or(Ok(Exit::Done), Err)
}

/// Errors of several hosts, each with its hint, unless the next one has the same hint.
fn in_turn(errors: Vec<(String, Option<String>)>) -> Vec<Failure> {
    let hints: Vec<Option<String>> = errors.iter().map(|(_, hint)| hint.clone()).collect();
    let failure = |(place, (text, hint)): (usize, (String, Option<String>))| {
        let hint = hint.filter(|hint| hints.get(place + 1).and_then(Option::as_ref) != Some(hint));
        hint.into_iter().fold(Failure::failed(text), Failure::hint)
    };
    errors.into_iter().enumerate().map(failure).collect()
}

/// Prints the manifest.
pub(super) fn job(args: GeneratorsJobArgs) -> Result<Exit, Failure> {
    if args.idle > args.deadline {
        return Err(Failure::usage(format!(
            "--idle: pods would wait for {}, but the Job ends after {} (--deadline)",
            args.idle, args.deadline
        ))
        .hint("write a longer --deadline, or a shorter --idle"));
    }
    let job = Job {
        name: args.name,
        namespace: args.namespace,
        pods: args.pods,
        cpus: args.cpus,
        memory: args.memory,
        image: args.image,
        deadline: args.deadline,
        idle: args.idle,
        ttl: args.ttl,
        node_selector: args.node_selector,
        host_network: args.host_network,
        share_nodes: args.share_nodes,
    };
    let manifest = job
        .manifest()
        .map_err(|JobError { what, hint }| Failure::usage(format!("--name: {what}")).hint(hint))?;
    print(&manifest)?;
    Ok(Exit::Done)
}

fn line(number: usize, host: &CheckedHost) -> String {
    let CheckedHost { pod, described, clock, round_trip_ns } = host;
    let cpus = described.cpus.len();
    let clock = clock.map_or_else(
        || "its agent does not echo".to_owned(),
        |clock| format!("clock known within {}", shown(clock.bound_ns)),
    );
    let calibration = match &described.calibration {
        Some(Ok(made_at)) => format!("calibrated {}", made_at.get(..10).unwrap_or(made_at)),
        Some(Err(why)) => format!("calibration not used: {why}"),
        None => "not calibrated".to_owned(),
    };
    let pod = pod.as_ref().map(|pod| format!(" ({})", pod.in_words())).unwrap_or_default();
    format!(
        "generator {number}: {}{pod}, webstone {}, {cpus} {} ({}), {calibration}, round trip {}, {clock}",
        described.name,
        described.version,
        if cpus == 1 { "CPU" } else { "CPUs" },
        cpu_list(&described.cpus),
        shown(*round_trip_ns),
    )
}

/// For example `1.5ms`.
fn shown(ns: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(ns))
}

/// Warnings about agents on the same machine, which counts once and must not give two of them the same CPUs.
fn twice<E>(found: &[Result<CheckedHost, E>]) -> Vec<String> {
    let mut machines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (number, host) in found.iter().enumerate() {
        if let Ok(CheckedHost { described, .. }) = host
            && let Some(boot) = &described.boot
        {
            machines.entry(boot).or_default().push((number + 1).to_string());
        }
    }
    let several = machines.into_values().filter(|numbers| numbers.len() > 1);
    several
        .map(|numbers| {
            format!("note: generators {} are on one machine, and count as one host", numbers.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_hint_but_not_twice_in_a_row() {
        let said = |errors: &[(&str, Option<&str>)]| {
            let own = |(what, hint): &(&str, Option<&str>)| ((*what).to_owned(), hint.map(str::to_owned));
            let failures = in_turn(errors.iter().map(own).collect());
            failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(said(&[]), "");
        let all = [("a", Some("x")), ("b", Some("x")), ("c", None), ("d", Some("y"))];
        assert_eq!(said(&all), "error: a\nerror: b\nhint: x\nerror: c\nerror: d\nhint: y");
    }
}
