//! What both classic texts of WebStone and the per-page table need: sizes of pages, names of client hosts, and text
//! that stays on its line.

use webstone_judge::verdict::{Cause, Reason, Verdict};
use webstone_measure::metrics::{Measured, Moments, PageTotals};
use webstone_measure::shown::shown;
use webstone_model::generators::{GeneratorPart, GeneratorRecord};
use webstone_model::record::{IterationRecord, RunRecord};

use crate::summary::quotient;

/// Body bytes of a whole page: what the workload states, or else what its files were on average. `None` where
/// neither is known.
pub(crate) fn page_size(record: &RunRecord, index: usize, totals: &PageTotals) -> Option<u64> {
    let files = record.workload.pages.get(index).map_or(&[][..], |page| &page.files);
    let stated = files.iter().map(|file| file.size).sum::<Option<u64>>();
    if let (Some(size), false) = (stated, files.is_empty()) {
        return Some(size);
    }
    let mean = (totals.requests > 0).then(|| totals.body_bytes as f64 / totals.requests as f64)?;
    Some((mean * files.len().max(1) as f64).round() as u64)
}

/// What a waiting client received, in bytes/s: WebStone divides by the response times of completed requests alone.
pub(crate) fn thruput(measured: &Measured) -> f64 {
    quotient(measured.response_bytes.sum as f64 * 1e9, measured.response.sum as f64)
}

/// Name of the host that the run was started on.
pub(crate) fn own_host(record: &RunRecord) -> String {
    let name = ["hostname", "host"].into_iter().find_map(|key| record.environment.get(key)?.as_str());
    one_line(name.unwrap_or("localhost"))
}

/// The hosts that clients ran on, with the number of clients of each and where they reach the server.
pub(crate) fn client_hosts(record: &RunRecord, run: &IterationRecord) -> Vec<(String, u32, String)> {
    let target = || one_line(&record.target.url);
    if run.parts.is_empty() {
        return vec![(own_host(record), run.clients, target())];
    }
    let named = |part: &GeneratorPart| {
        let host = record.generators.get(part.generator as usize);
        let name = host.map_or_else(|| record.generator_named(part.generator), GeneratorRecord::place);
        let own = host.and_then(|host| host.target.as_deref()).map(one_line);
        (one_line(&name), part.clients, own.unwrap_or_else(target))
    };
    run.parts.iter().map(named).collect()
}

/// Broken identities of a run, its end before time, and what else the verdict says of it, in the banner that WebStone 2.x printed above
/// results that are not valid.
pub(crate) fn banner(run: &IterationRecord, verdict: &Verdict) -> String {
    let mut errors: Vec<String> = run
        .identities
        .iter()
        .filter(|check| !check.holds)
        .map(|check| format!("identity {} does not hold: {}: {}", check.number, check.rule, check.evidence))
        .collect();
    if run.interrupted {
        errors.push("the run was ended by the user before its time".to_owned());
    }
    let told = told(run, verdict);
    if errors.is_empty() && told.is_empty() {
        return String::new();
    }
    let rule = "*".repeat(70);
    let word = verdict.standing.word();
    let lines = errors.iter().map(|error| ("ERROR", &**error)).chain(told.into_iter().map(|why| (word, why)));
    let lines: String = lines.map(|(word, why)| format!("**** {word}: {}\n", one_line(why))).collect();
    format!("{rule}\n{lines}{rule}\n")
}

/// What makes the whole run, or this part of it, invalid or doubtful, beyond broken identities.
fn told<'a>(run: &IterationRecord, verdict: &'a Verdict) -> Vec<&'a str> {
    let is_of = |reason: &&Reason| {
        reason.level().is_none_or(|level| level == run.level())
            && reason.iteration.is_none_or(|iteration| iteration == run.iteration)
            && reason.cause != Cause::IdentityBroken
    };
    verdict.decisive().iter().filter(is_of).map(|reason| &*reason.sentence).collect()
}

/// Text from the record without control characters: scripts read these formats line by line.
pub(crate) fn one_line(text: &str) -> String {
    shown(text).into_owned()
}

/// Nanoseconds as seconds with six decimals, cut off as the microseconds of a `timeval` are.
pub(crate) fn timeval(nanos: u64) -> String {
    format!("{}.{:06}", nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000)
}

/// Standard deviation of a sample (divisor n − 1), or 0 where the moments contradict themselves: a record edited by
/// hand must not end a report.
pub(crate) fn standard_deviation(moments: &Moments) -> f64 {
    let squared = u128::from(moments.sum).checked_mul(u128::from(moments.sum));
    let scaled = moments.sum_of_squares.checked_mul(u128::from(moments.count));
    match (scaled, squared) {
        (Some(scaled), Some(squared)) if scaled < squared => 0.0,
        _ => moments.standard_deviation(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_that_contradict_themselves_have_no_deviation() {
        let impossible = Moments { count: 2, sum: 10, sum_of_squares: 1, min: 5, max: 5 };
        assert_eq!(standard_deviation(&impossible), 0.0);
        let mut possible = Moments::default();
        [1, 3].into_iter().for_each(|value| possible.record(value));
        assert_eq!(standard_deviation(&possible), 2.0_f64.sqrt());
    }

    #[test]
    fn a_timeval_is_cut_off_at_microseconds() {
        assert_eq!(timeval(12_000_345_999), "12.000345");
        assert_eq!(timeval(0), "0.000000");
    }
}
