//! The command to try next, where the load generator was the bottleneck: figures of the generator answer no question about a
//! server.

use webstone_judge::verdict::{Cause, LimitingResource, Verdict};
use webstone_model::record::RunRecord;
use webstone_model::spec::{ConnectionPolicy, parse_cpu_list};

/// The next command, with why; `None` where the generator was not the bottleneck.
pub(crate) fn next(record: &RunRecord, verdict: &Verdict) -> Option<String> {
    let is_saturated = verdict.reasons.iter().any(|reason| reason.cause == Cause::GeneratorSaturated);
    if !is_saturated && verdict.limit.resource != LimitingResource::Generator {
        return None;
    }
    if record.spec.client.connections != ConnectionPolicy::KeepAlive && record.spec.find.is_none() {
        let command = again(&record.command_line, "--connections", "keep-alive");
        return Some(format!("`{command}`, which costs the generator least"));
    }
    if !record.generators.is_empty() {
        return Some(
            "another `--generator`, or more CPUs on each of the hosts that make the load".to_owned(),
        );
    }
    let workers = record.iterations.iter().map(|run| run.measured.generator.workers.len()).max().unwrap_or(0);
    let allowed = record.environment.get("cpu.allowed").and_then(|list| parse_cpu_list(list.as_str()?).ok());
    let spare = allowed.map_or(0, |cpus| cpus.len()).saturating_sub(workers + record.target.cpus.len());
    if spare > 0 {
        let command = again(&record.command_line, "--workers", &(workers + spare).to_string());
        return Some(format!("`{command}`, for {spare} more of this host's CPUs"));
    }
    Some(
        "`webstone calibrate`, which measures how much this generator can do; beyond that it needs more CPUs, or the server \
         a host of its own"
            .to_owned(),
    )
}

/// A command line with an option set, as a shell reads it.
fn again(command_line: &[String], option: &str, value: &str) -> String {
    let mut words = vec!["webstone".to_owned()];
    let mut rest = command_line.iter().skip(1);
    while let Some(word) = rest.next() {
        if word == option {
            rest.next();
        } else if !word.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')) {
            words.push(quoted(word));
        }
    }
    words.extend([option.to_owned(), value.to_owned()]);
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%~".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> String {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        again(&words, "--connections", "keep-alive")
    }

    #[test]
    fn the_command_is_the_same_but_for_the_option() {
        assert_eq!(command("/x/webstone|run"), "webstone run --connections keep-alive");
        let typed = "webstone|run|--connections|per-request|-H|a: it's";
        assert_eq!(command(typed), "webstone run -H 'a: it'\\''s' --connections keep-alive");
        assert_eq!(command("webstone|run|--connections=per-page"), "webstone run --connections keep-alive");
    }
}
