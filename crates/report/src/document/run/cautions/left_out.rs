//! What was measured and is in no figure, because it was disturbed.

use webstone_judge::verdict::{Loss, LossKind, losses};
use webstone_model::record::{IterationRecord, RunRecord};

use super::Caution;
use crate::judged::Judged;
use crate::numbers::{counted, seconds};
use crate::summary;

/// Void timed runs that are listed, a sentence each.
const VOIDS_MAX: usize = 3;

/// Timed runs that were void, and what disturbed them.
pub(super) fn voids(judged: &Judged<'_>, found: &mut Vec<Caution>) {
    let Judged { record, whole, .. } = judged;
    if record.voids.is_empty() {
        return;
    }
    let told: Vec<String> = record
        .voids
        .iter()
        .map(|run| {
            let why = losses(whole, run).first().map(Loss::sentence).unwrap_or_default();
            because(summary::place(record, run), &why)
        })
        .collect();
    let number = counted(told.len() as u64, "timed run was", "timed runs were");
    let them = if told.len() == 1 { "it" } else { "them" };
    // A run that was ended early has not repeated all of them.
    let is_repeated = |void: &IterationRecord| whole.iterations.iter().any(|run| run.key() == void.key());
    let repeated = match record.voids.iter().filter(|void| is_repeated(void)).count() {
        0 => format!("the run ended before webstone had repeated {them}"),
        all if all == told.len() => format!("webstone repeated {them}"),
        some => format!("webstone repeated {some} of them before the run ended"),
    };
    let is_of_hosts = record.voids.iter().any(|run| {
        losses(whole, run).iter().any(|loss| matches!(loss.kind, LossKind::Gone | LossKind::Apart))
    });
    let void = match is_of_hosts {
        true => format!("void, and the figures leave {them} out"),
        false => format!("disturbed so much that the figures leave {them} out"),
    };
    let failed = |run: &IterationRecord| run.measured.counts.failed + run.measured.left_out.total.errors;
    let errors = errors_in(record.voids.iter().map(failed).sum(), them);
    let what = format!("{number} {void}; {repeated}{errors}");
    // If every timed run was void, the brief report names them, too.
    let places_max_brief = if record.iterations.is_empty() { VOIDS_MAX } else { 0 };
    found.push(Caution {
        are_sentences: true,
        places_max: VOIDS_MAX,
        places_max_brief,
        ..Caution::new("VOID", what).at(told)
    });
}

/// What happened, and why where that is known.
fn because(what: String, why: &str) -> String {
    if why.is_empty() { what } else { format!("{what}: {why}") }
}

/// Errors in what is left out: perhaps not the disturbance's, and in no count of errors either.
fn errors_in(errors: u64, them: &str) -> String {
    match errors {
        0 => String::new(),
        _ => format!("; {} in {them}", counted(errors, "request failed", "requests failed")),
    }
}

/// Disturbed slices of windows, which are in no figure.
pub(super) fn slices(record: &RunRecord, found: &mut Vec<Caution>) {
    let with = || record.iterations.iter().filter(|run| !run.measured.left_out.is_empty());
    let told: Vec<String> = with()
        .map(|run| {
            let (left_out, span_ns) = (&run.measured.left_out, run.measured.span_ns());
            // One that lost more may be kept: a slice is also left out because it was read too late, or follows a disturbed one.
            let without = run.slices.iter().filter(|slice| slice.left_out.is_some());
            let worst = without.max_by(|a, b| a.lost_percent.total_cmp(&b.lost_percent));
            let why = worst.and_then(|slice| slice.left_out.as_deref()).unwrap_or_default();
            let (part, whole) = (seconds(left_out.ns as f64 / 1e9), seconds(span_ns as f64 / 1e9));
            because(format!("{part} of {whole} of {}", summary::window(record, run)), why)
        })
        .collect();
    if told.is_empty() {
        return;
    }
    let sum = |of: fn(&IterationRecord) -> u64| record.iterations.iter().map(of).sum::<u64>() as f64 / 1e9;
    let errors = with().map(|run| run.measured.left_out.total.errors).sum();
    let what = format!(
        "{} of {} was disturbed and is in no figure{}",
        seconds(sum(|run| run.measured.left_out.ns)),
        seconds(sum(|run| run.measured.span_ns())),
        errors_in(errors, "it")
    );
    found.push(Caution {
        are_sentences: true,
        places_max: VOIDS_MAX,
        places_max_brief: 0,
        ..Caution::new("LEFT OUT", what).at(told)
    });
}

#[cfg(test)]
mod tests {
    use webstone_measure::metrics::LeftOut;
    use webstone_measure::window_slices::WindowSlice;

    /// A record with a second left out of each of these iterations.
    fn told(iterations: usize, slices: &[(f64, Option<&str>)]) -> String {
        let mut record = webstone_model::fixture::record("a", &[(20, &vec![1_000.0; iterations])]);
        for run in &mut record.iterations {
            run.measured.left_out = LeftOut { ns: 1_000_000_000, slices: 1, ..LeftOut::default() };
            let slice = |(lost_percent, why): &(f64, Option<&str>)| WindowSlice {
                ns: 1_000_000_000,
                lost_percent: *lost_percent,
                left_out: why.map(str::to_owned),
                ..WindowSlice::default()
            };
            run.slices = slices.iter().map(slice).collect();
        }
        let mut found = Vec::new();
        super::slices(&record, &mut found);
        found[0].lines().join("\n")
    }

    #[test]
    fn why_is_that_of_the_worst_slice_that_was_left_out() {
        let slices = [(3.0, Some("the slice before")), (9.0, Some("cc: 9 %, 2 ms")), (12.0, None)];
        let said = told(1, &slices);
        assert!(said.ends_with(" of the window at 20 clients: cc: 9 %, 2 ms"), "{said}");
        let unknown = told(1, &[(12.0, None)]);
        assert!(unknown.ends_with(" of the window at 20 clients"), "{unknown}");
    }

    #[test]
    fn each_window_has_a_line() {
        let said = told(2, &[(9.0, Some("cc: 9 %, 2 ms"))]);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert!(lines[0].ends_with("is in no figure"), "{said}");
        assert!(lines[2].ends_with(" of iteration 2 at 20 clients: cc: 9 %, 2 ms"), "{said}");
    }
}
