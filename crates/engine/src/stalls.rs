//! Time in which a worker stood still without a reason of its own: its CPU was given to something else, or to another
//! virtual machine, or the whole process was stopped. The kernel's counters do not show all of it.
//!
//! Two signs, which exclude each other. While the worker is awake it reads the clock with every event, so a gap
//! between two readings is a stall. While it sleeps its ticker wakes it at known instants, so a late tick is a stall;
//! ticks are samples, and each stands for the period between two of them. These stalls include what the kernel counts
//! as waiting for a CPU; that time is known exactly from elsewhere, and is subtracted when the run is judged.

/// Shorter gaps have causes within the worker: a large write, interrupts, a page fault.
pub(crate) const STALL_NS: u64 = 2_000_000;

/// The stalls of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stalls {
    /// Number of stalls.
    pub(crate) count: u64,
    /// Estimated sum of all, in nanoseconds.
    pub(crate) all_ns: u64,
    /// The longest, in nanoseconds, from its first sign to its end.
    pub(crate) longest_ns: u64,
    /// The last, which may have begun before the window, and may extend beyond a slice of it.
    last: Stall,
    is_open: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stall {
    from_ns: u64,
    to_ns: u64,
    /// How much of it is counted in the current slice or later, from when on.
    rest_ns: u64,
    rest_from_ns: u64,
}

impl Stalls {
    /// The window opened at `open_ns`. If a stall delayed this call, its part after `open_ns` counts.
    pub(crate) fn open(&mut self, open_ns: u64) {
        let Stall { from_ns, to_ns, .. } = self.last;
        *self = Stalls { is_open: true, ..Stalls::default() };
        if to_ns > open_ns {
            self.gap(from_ns.max(open_ns), to_ns);
        }
    }

    /// The window, or a slice of it, ended at `end_ns`. Returns how much of the last stall is later, which belongs to the next slice.
    pub(crate) fn end(&mut self, end_ns: u64) -> u64 {
        self.is_open = false;
        let last = &mut self.last;
        if last.to_ns <= end_ns {
            last.rest_ns = 0;
            return 0;
        }
        last.rest_ns -= last.rest_ns.min(end_ns.saturating_sub(last.rest_from_ns));
        last.rest_from_ns = last.rest_from_ns.max(end_ns);
        self.all_ns -= last.rest_ns;
        last.rest_ns
    }

    /// The next slice begins at the end of the last. A stall that reaches into it is as long as it is, and counts as one where it began.
    pub(crate) fn go_on(&mut self) {
        let last = self.last;
        *self = Stalls { is_open: true, all_ns: last.rest_ns, last, ..Stalls::default() };
        if last.rest_ns > 0 {
            self.longest_ns = last.to_ns - last.from_ns;
        }
    }

    /// The worker was awake between these two instants and did not read the clock.
    pub(crate) fn gap(&mut self, from_ns: u64, to_ns: u64) {
        let length_ns = to_ns.saturating_sub(from_ns);
        self.add(from_ns, to_ns, length_ns);
    }

    /// The worker was awake until `awake_ns`, slept, and woke at `woken_ns`; meanwhile `count` ticks were due, the first at
    /// `due_ns`, one every `period_ns`.
    pub(crate) fn ticks(&mut self, due_ns: u64, count: u64, period_ns: u64, awake_ns: u64, woken_ns: u64) {
        // A tick that was due before the worker slept was not late because of the sleep.
        let from_ns = due_ns.max(awake_ns);
        let Some(beyond_ns) = woken_ns.checked_sub(from_ns + STALL_NS) else { return };
        let late = (beyond_ns / period_ns + 1).min(count);
        self.add(from_ns, woken_ns, late * period_ns);
    }

    fn add(&mut self, from_ns: u64, to_ns: u64, estimate_ns: u64) {
        self.last = Stall { from_ns, to_ns, rest_ns: estimate_ns, rest_from_ns: from_ns };
        if !self.is_open {
            return;
        }
        self.count += 1;
        self.all_ns += estimate_ns;
        self.longest_ns = self.longest_ns.max(to_ns.saturating_sub(from_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn open() -> Stalls {
        let mut stalls = Stalls::default();
        stalls.open(100 * MS);
        stalls
    }

    #[test]
    fn a_late_tick_stands_for_its_period() {
        let mut stalls = open();
        // Awake until 205 ms, due at 210, woken at 211: in time. At 215: late.
        stalls.ticks(210 * MS, 1, 10 * MS, 205 * MS, 211 * MS);
        assert_eq!((stalls.count, stalls.all_ns), (0, 0));
        stalls.ticks(210 * MS, 1, 10 * MS, 205 * MS, 215 * MS);
        assert_eq!((stalls.count, stalls.all_ns, stalls.longest_ns), (1, 10 * MS, 5 * MS));
        // Due while the worker was busy.
        stalls.ticks(220 * MS, 1, 10 * MS, 224 * MS, 225 * MS);
        assert_eq!(stalls.count, 1);
    }

    #[test]
    fn a_stop_is_as_long_as_it_was() {
        let mut stalls = open();
        // Due at 1,000, 1,010 … 2,490; woken at 2,500.
        stalls.ticks(1_000 * MS, 150, 10 * MS, 995 * MS, 2_500 * MS);
        assert_eq!((stalls.all_ns, stalls.longest_ns), (1_500 * MS, 1_500 * MS));
        // The last of them was not late.
        let mut stalls = open();
        stalls.ticks(1_000 * MS, 3, 10 * MS, 995 * MS, 1_021 * MS);
        assert_eq!(stalls.all_ns, 20 * MS);
    }

    #[test]
    fn only_what_reaches_into_the_window_counts() {
        let mut stalls = Stalls::default();
        stalls.gap(10 * MS, 150 * MS);
        assert_eq!((stalls.count, stalls.all_ns), (0, 0));
        stalls.open(100 * MS);
        assert_eq!((stalls.count, stalls.all_ns, stalls.longest_ns), (1, 50 * MS, 50 * MS));
        stalls.open(200 * MS);
        assert_eq!(stalls.count, 0);
        stalls.end(300 * MS);
        stalls.gap(300 * MS, 400 * MS);
        assert_eq!(stalls.count, 0);
    }

    #[test]
    fn a_stall_is_divided_among_slices() {
        let mut stalls = open();
        stalls.gap(110 * MS, 120 * MS);
        stalls.gap(150 * MS, 420 * MS);
        let mut slices = Vec::new();
        for end_ns in [200, 300, 400, 500].map(|ms| ms * MS) {
            let rest_ns = stalls.end(end_ns);
            slices.push((stalls.count, stalls.all_ns / MS, stalls.longest_ns / MS, rest_ns / MS));
            stalls.go_on();
        }
        assert_eq!(slices, [(2, 60, 270, 220), (0, 100, 270, 120), (0, 100, 270, 20), (0, 20, 270, 0)]);
        stalls.end(600 * MS);
        assert_eq!((stalls.count, stalls.all_ns, stalls.longest_ns), (0, 0, 0));
    }
}
