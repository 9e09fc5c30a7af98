//! The time of a worker's loop: the clock as last read, what is due by it, and how long the loop worked, waited or
//! stood still.

use webstone_measure::metrics::WorkerUse;

use crate::stalls::{STALL_NS, Stalls};
use crate::sys::Ticks;

/// Rounds have the same numbers again after 2³² of them, which take longer than this: no round is shorter than a system call.
const ROUNDS_AGAIN_NS: u64 = (1 << 32) * 50;

/// How often a worker checks what the level tells it, and publishes its totals.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// See the module comment.
pub(crate) struct LoopClock {
    /// The clock as last read.
    read_ns: u64,
    /// The clock as last read before waiting for the current events.
    slept_from_ns: u64,
    /// When the current events were reported.
    reported_ns: u64,
    tick_ns: u64,
    sweep_at_ns: u64,
    sweep_every_ns: u64,
    round: u32,
    /// How late the window was opened.
    opening_delay_ns: u64,
    /// Counted since the window opened.
    loops: u64,
    events: u64,
    stalls: Stalls,
}

impl LoopClock {
    /// Deadlines are checked several times within the shortest time-out.
    pub(crate) fn new(shortest_timeout_ns: u64) -> LoopClock {
        LoopClock {
            read_ns: 0,
            slept_from_ns: 0,
            reported_ns: 0,
            tick_ns: 0,
            sweep_at_ns: 0,
            sweep_every_ns: (shortest_timeout_ns / 20).clamp(1_000_000, 100_000_000),
            round: 0,
            opening_delay_ns: 0,
            loops: 0,
            events: 0,
            stalls: Stalls::default(),
        }
    }

    #[inline]
    pub(crate) fn read_ns(&self) -> u64 {
        self.read_ns
    }

    /// Sets the clock to `now`.
    #[inline]
    pub(crate) fn set(&mut self, now: u64) {
        self.read_ns = now;
    }

    /// Whether the worker was awake and did not read the clock for longer than its own work takes.
    #[inline]
    pub(crate) fn stands_still(&self, now: u64) -> bool {
        now - self.read_ns >= STALL_NS
    }

    #[cold]
    pub(crate) fn stood_still(&mut self, now: u64, close_ns: u64) {
        self.stalls.gap(self.read_ns, now.min(close_ns));
    }

    /// Records that a wait ended with this many events.
    #[inline]
    pub(crate) fn reported(&mut self, now: u64, events: usize, close_ns: impl FnOnce() -> u64) {
        self.round = self.round.wrapping_add(1);
        self.loops += 1;
        self.events += events as u64;
        self.reported_ns = now;
        self.slept_from_ns = self.read_ns;
        self.read_ns = now;
        if self.reported_ns - self.slept_from_ns >= TICK_NS + STALL_NS {
            self.overslept(close_ns());
        }
    }

    /// Records a wait that ended long after the ticker should have ended it. This is what a stopped process looks
    /// like: its wait was over before the tick, but returned only after the stop.
    #[cold]
    fn overslept(&mut self, close_ns: u64) {
        self.stalls.gap(self.slept_from_ns + TICK_NS, self.reported_ns.min(close_ns));
        // So that the ticks due meanwhile are not counted as the same stall again.
        self.slept_from_ns = self.reported_ns;
    }

    /// Records that the ticker woke the loop.
    pub(crate) fn ticked(&mut self, ticks: &Ticks, period_ns: u64, close_ns: u64) {
        let woken_ns = self.reported_ns.min(close_ns);
        self.stalls.ticks(ticks.due_ns, ticks.count, period_ns, self.slept_from_ns, woken_ns);
    }

    /// The loop continues after others had their turns on its thread. The time in between was no stall.
    pub(crate) fn resume(&mut self, now: u64) {
        self.read_ns = now;
        self.slept_from_ns = now;
        self.reported_ns = now;
    }

    /// How long an event has waited for others of its batch: the generator's own delay.
    #[inline]
    pub(crate) fn delay_ns(&self, now: u64) -> u64 {
        now.saturating_sub(self.reported_ns)
    }

    /// Whether something that was done in a round was done in this one. `since_ns`: when it began, which may have been in an earlier round,
    /// as connects do whose name is resolved first.
    #[inline]
    pub(crate) fn is_of_this_round(&self, round: u32, since_ns: u64) -> bool {
        round == self.round && self.reported_ns.saturating_sub(since_ns) < ROUNDS_AGAIN_NS
    }

    /// The number of the current round.
    #[inline]
    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    #[inline]
    pub(crate) fn tick_ns(&self) -> u64 {
        self.tick_ns
    }

    pub(crate) fn tick_at(&mut self, at_ns: u64) {
        self.tick_ns = at_ns;
    }

    /// When deadlines are to be checked next.
    #[inline]
    pub(crate) fn sweep_at_ns(&self) -> u64 {
        self.sweep_at_ns
    }

    pub(crate) fn sweeps(&mut self, now: u64) {
        self.sweep_at_ns = now + self.sweep_every_ns;
    }

    /// Whether deadlines are checked more often than the ticker wakes the loop.
    #[inline]
    pub(crate) fn sweeps_between_ticks(&self) -> bool {
        self.sweep_every_ns < TICK_NS
    }

    /// Opens the window now; it should have opened at `open_ns`.
    pub(crate) fn open(&mut self, open_ns: u64) {
        self.opening_delay_ns = self.read_ns.saturating_sub(open_ns);
        self.stalls.open(open_ns);
        self.loops = 0;
        self.events = 0;
    }

    /// How late the window was opened.
    pub(crate) fn opening_delay_ns(&self) -> u64 {
        self.opening_delay_ns
    }

    /// Begins the next slice where the last one ended. It may begin late without harm: it counts from then.
    pub(crate) fn begin_slice(&mut self) {
        self.stalls.go_on();
        self.loops = 0;
        self.events = 0;
    }

    /// Ends the window, or a slice of it, at `end_ns`; returns what the loop measured in it, and how much of a stall is later.
    pub(crate) fn end_part(&mut self, end_ns: u64) -> (WorkerUse, u64) {
        let later_ns = self.stalls.end(end_ns);
        let worker = WorkerUse {
            stalls: self.stalls.count,
            stalled_ns: self.stalls.all_ns,
            stalled_ns_max: self.stalls.longest_ns,
            loops: self.loops,
            events: self.events,
            ..WorkerUse::default()
        };
        (worker, later_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds have the same number again after 2³² of them, but not the same time.
    #[test]
    fn a_round_with_an_earlier_ones_number_is_another() {
        let mut clock = LoopClock::new(u64::MAX);
        clock.reported(1_000, 1, || u64::MAX);
        let (round, opened_ns) = (clock.round(), 1_500);
        assert!(clock.is_of_this_round(round, opened_ns) && clock.is_of_this_round(round, 500));
        clock.reported(2_000, 1, || u64::MAX);
        assert!(!clock.is_of_this_round(round, opened_ns));
        clock.round = round.wrapping_sub(1);
        let again_ns = opened_ns + ROUNDS_AGAIN_NS;
        clock.reported(again_ns, 1, || u64::MAX);
        assert_eq!(clock.round(), round);
        assert!(!clock.is_of_this_round(round, opened_ns) && clock.is_of_this_round(round, again_ns));
    }
}
