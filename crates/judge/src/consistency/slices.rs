//! The slices of a window against the window.

use webstone_measure::iteration::IterationRecord;
use webstone_measure::window_slices::WindowSlice;

use super::Books;

/// The slices of a window make it up, and those that are left out are those that say why.
pub(super) fn of_window(books: &mut Books, iteration: &IterationRecord) {
    let (measured, slices) = (&iteration.measured, &iteration.slices);
    if slices.is_empty() {
        books.equal("nothing is left out without slices", measured.left_out.slices, 0);
        return;
    }
    let is_left_out = |slice: &&WindowSlice| slice.left_out.is_some();
    let sum = |of: fn(&WindowSlice) -> u64| slices.iter().map(of).fold(0, u64::saturating_add);
    let total = &measured.left_out.total;
    let all = |kept: u64, left_out: u64| kept.saturating_add(left_out);
    books.equal("length: slices = window", sum(|slice| slice.ns), measured.span_ns());
    let counts = &measured.counts;
    books.equal(
        "requests: slices = total",
        sum(|slice| slice.requests),
        all(counts.succeeded, total.requests),
    );
    books.equal("errors: slices = total", sum(|slice| slice.errors), all(counts.failed, total.errors));
    if !measured.left_out.is_empty() {
        let left_out = slices.iter().filter(is_left_out).map(|slice| slice.ns).fold(0, u64::saturating_add);
        books.equal("left out: slices = window", left_out, measured.left_out.ns);
    }
}
