//! The slices of a window against the window.

use webstone_measure::iteration::IterationRecord;
use webstone_measure::window_slices::WindowSlice;

use super::Books;

/// The slices add up to the window, and those that are left out have a reason.
pub(super) fn of_window(books: &mut Books, iteration: &IterationRecord) {
    let (measured, slices) = (&iteration.measured, &iteration.slices);
    if slices.is_empty() {
        books.equal("nothing is left out without slices", measured.left_out.slices, 0);
        return;
    }
    let is_left_out = |slice: &&WindowSlice| slice.left_out.is_some();
    let sum = |of: fn(&WindowSlice) -> u64| slices.iter().map(of).fold(0, u64::saturating_add);
    let total = measured.span_total();
    books.equal("length: slices = window", sum(|slice| slice.ns), measured.span_ns());
    books.equal("requests: slices = total", sum(|slice| slice.requests), total.requests);
    books.equal("errors: slices = total", sum(|slice| slice.errors), total.errors);
    if !measured.left_out.is_empty() {
        let left_out = slices.iter().filter(is_left_out).map(|slice| slice.ns).fold(0, u64::saturating_add);
        books.equal("left out: slices = window", left_out, measured.left_out.ns);
    }
}

#[cfg(test)]
mod tests {
    use webstone_measure::metrics::{LeftOut, Second};

    use super::*;
    use crate::consistency::Consistency;

    /// Four slices of a quarter of a second, of which the second is left out.
    fn run() -> IterationRecord {
        let slice = |requests, why: Option<&str>| WindowSlice {
            ns: 250,
            requests,
            left_out: why.map(str::to_owned),
            ..WindowSlice::default()
        };
        let mut run = IterationRecord {
            slices: vec![slice(5, None), slice(2, Some("others")), slice(5, None), slice(5, None)],
            ..IterationRecord::default()
        };
        let total = Second { requests: 2, ..Second::default() };
        run.measured.window_ns = 750;
        run.measured.counts.succeeded = 15;
        run.measured.left_out = LeftOut { ns: 250, slices: 1, total };
        run
    }

    fn broken(change: impl FnOnce(&mut IterationRecord)) -> usize {
        let mut run = run();
        change(&mut run);
        let mut books = Books { place: String::new(), found: Consistency::default() };
        of_window(&mut books, &run);
        books.found.contradictions.len()
    }

    #[test]
    fn a_window_and_its_slices_agree() {
        assert_eq!(broken(|_| ()), 0);
        // Of a window that is kept whole.
        assert_eq!(
            broken(|run| {
                run.measured.left_out = LeftOut::default();
                run.measured.window_ns = 1_000;
                run.measured.counts.succeeded = 17;
            }),
            0
        );
        assert_eq!(broken(|run| run.slices[2].requests += 1), 1);
        assert_eq!(broken(|run| run.slices[2].errors += 1), 1);
        assert_eq!(broken(|run| run.slices[0].left_out = Some("it was slow".to_owned())), 1);
        assert_eq!(broken(|run| run.slices[1].left_out = None), 1);
        assert_eq!(broken(|run| run.measured.window_ns += 1), 1);
        assert_eq!(broken(|run| run.slices.clear()), 1);
    }
}
