//! Timers of links over datagrams: a timer wheel with a resolution of 1 ms. A link has one valid entry. If it comes up too early, it is put
//! back, so that postponing a timer costs nothing.

/// Length of a tick.
pub(crate) const TIMER_NS: u64 = 1_000_000;
const SLOTS: u64 = 256;

/// See the module comment.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// By tick modulo [`SLOTS`].
    slots: Vec<Vec<u32>>,
    /// By link, the tick of its entry; 0: it has none.
    entries: Vec<u64>,
    /// The tick handled last.
    tick: u64,
    ready: Vec<u32>,
}

impl Timers {
    pub(crate) fn new(now_ns: u64) -> Timers {
        let slots = vec![Vec::new(); SLOTS as usize];
        Timers { slots, tick: now_ns / TIMER_NS, ..Timers::default() }
    }

    /// Schedules a look at a link: at the first tick at or after `due_ns`, or earlier.
    #[inline]
    pub(crate) fn wants(&mut self, link: u32, due_ns: u64) {
        let place = link as usize;
        if place >= self.entries.len() {
            self.entries.resize(place + 1, 0);
        }
        let tick = due_ns.div_ceil(TIMER_NS).clamp(self.tick + 1, self.tick + SLOTS - 1);
        let entry = &mut self.entries[place];
        if *entry == 0 || tick < *entry {
            *entry = tick;
            self.slots[(tick % SLOTS) as usize].push(link);
        }
    }

    /// Time has passed: finds the links to look at, for [`Timers::next_ready`].
    pub(crate) fn pass(&mut self, now_ns: u64) {
        let now = now_ns / TIMER_NS;
        while self.tick < now {
            self.tick += 1;
            let slot = &mut self.slots[(self.tick % SLOTS) as usize];
            for link in slot.drain(..) {
                let entry = &mut self.entries[link as usize];
                if *entry == self.tick {
                    *entry = 0;
                    self.ready.push(link);
                }
            }
        }
    }

    /// A link to look at.
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(timers: &mut Timers, now_ms: u64) -> Vec<u32> {
        timers.pass(now_ms * TIMER_NS);
        let mut ready: Vec<u32> = std::iter::from_fn(|| timers.next_ready()).collect();
        ready.sort_unstable();
        ready
    }

    #[test]
    fn links_are_found_when_they_are_due() {
        let mut timers = Timers::new(1_000 * TIMER_NS);
        timers.wants(7, 1_003 * TIMER_NS);
        timers.wants(8, 1_003 * TIMER_NS - 1);
        timers.wants(9, 1_200 * TIMER_NS);
        // Later than its entry: found early, and to be put back.
        timers.wants(8, 1_050 * TIMER_NS);
        // Earlier.
        timers.wants(9, 1_004 * TIMER_NS);
        // Past.
        timers.wants(1, 5);
        assert_eq!(ready(&mut timers, 1_001), [1]);
        assert_eq!(ready(&mut timers, 1_003), [7, 8]);
        assert_eq!(ready(&mut timers, 1_004), [9]);
        assert_eq!(ready(&mut timers, 1_900), [0; 0], "the entry at 1,200 counts no more");
    }

    #[test]
    fn what_is_far_away_is_found_early() {
        let mut timers = Timers::new(1_000 * TIMER_NS);
        timers.wants(0, u64::MAX);
        assert_eq!(ready(&mut timers, 1_254), [0; 0]);
        assert_eq!(ready(&mut timers, 1_255), [0]);
    }
}
