//! Open loop on a worker: arrivals come when the schedule says, however slow the server is. A free client takes an
//! arrival at once; if none is free, the arrival waits for one, or is skipped.
//!
//! Waiting arrivals need no memory, however many there are: a schedule can be computed again, so the queue is the
//! part of it between two cursors, one at the next arrival and one at the oldest that waits.

use std::collections::VecDeque;

use webstone_measure::rate::RateProfile;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_workload::arrivals::{Arrivals, Slots};
use webstone_workload::load::WhenBusy;

use crate::exchange::Exchanges;
use crate::layer::Layer;
use crate::plan::Plan;
use crate::session::Session;
use crate::sys::{Backend, WITHOUT_END};
use crate::worker::{Stage, Worker};

/// Minimum and maximum time before an arrival at which the worker is awake. A thread that sleeps with a timer slack
/// of 1 ns wakes 5 µs late on a fast machine; on a virtual one 33 µs (median) and 50 µs (p99) were measured.
const MARGIN_NS_MIN: u64 = 5_000;
const MARGIN_NS_MAX: u64 = 100_000;
/// The margin follows the 99th percentile of how late sleeps end: a step down each time it was enough, 99 steps up if
/// not (H. Robbins, S. Monro: A Stochastic Approximation Method, 1951).
const MARGIN_STEP_NS: u64 = 50;
/// This close to an arrival, only the clock is read: even one poll of the kernel takes a good part of this time.
const GAZE_NS: u64 = 1_500;

/// If two polls are further apart, something else ran in between: an interrupt, or another program.
const POLL_NS_MAX: u64 = 20_000;

/// What paces a worker: its share of a schedule in open loop, nothing in closed loop.
pub(crate) struct Pacing {
    pacer: Option<Pacer>,
    /// In closed loop: whether the worker polls for events without sleeping, and for how long it has since the window opened.
    stays_awake: bool,
    awake_ns: u64,
    /// When the next arrival is due; [`u64::MAX`] if there is none.
    next_arrival_ns: u64,
}

impl Pacing {
    pub(crate) fn new(pacer: Option<Pacer>, stays_awake: bool) -> Pacing {
        Pacing { pacer, stays_awake, awake_ns: 0, next_arrival_ns: u64::MAX }
    }

    #[inline]
    pub(crate) fn is_open_loop(&self) -> bool {
        self.pacer.is_some()
    }

    /// When the next arrival is due; [`u64::MAX`] in closed loop.
    #[inline]
    pub(crate) fn next_arrival_ns(&self) -> u64 {
        self.next_arrival_ns
    }

    /// Begins the warm-up.
    pub(crate) fn begin(&mut self, now: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.begin(now);
        }
        self.note_next_arrival();
    }

    /// Announces when the window will open and close.
    pub(crate) fn window_is(&mut self, open_ns: u64, close_ns: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.window_is(open_ns, close_ns);
            self.note_next_arrival();
        }
    }

    /// In a duel: continues the schedule where the last slice left it, until `stop_ns`.
    pub(crate) fn begin_slice(&mut self, now: u64, stop_ns: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.begin_slice(now, stop_ns);
        }
        self.note_next_arrival();
    }

    /// Whether arrivals wait for a client.
    pub(crate) fn any_queued(&self) -> bool {
        self.pacer.as_ref().is_some_and(|pacer| pacer.queued > 0)
    }

    /// Forgets the arrivals that wait; returns how many there were.
    pub(crate) fn forget_queued(&mut self) -> u64 {
        self.pacer.as_mut().map_or(0, |pacer| std::mem::take(&mut pacer.queued))
    }

    /// Opens the window; returns how many arrivals wait.
    pub(crate) fn open(&mut self) -> u64 {
        self.awake_ns = 0;
        let Some(pacer) = &mut self.pacer else { return 0 };
        pacer.spun_ns = 0;
        pacer.queued
    }

    /// In closed loop: for this time the worker was awake, and not for the load.
    pub(crate) fn add_awake(&mut self, ns: u64) {
        self.awake_ns += ns;
    }

    /// Time spent spinning since the window opened.
    pub(crate) fn spun_ns(&self) -> u64 {
        self.pacer.as_ref().map_or(self.awake_ns, |pacer| pacer.spun_ns)
    }

    /// Ends the schedule and forgets waiting arrivals.
    pub(crate) fn stop(&mut self) {
        if let Some(pacer) = &mut self.pacer {
            pacer.stop();
        }
        self.next_arrival_ns = u64::MAX;
    }

    fn note_next_arrival(&mut self) {
        self.next_arrival_ns = self.pacer.as_ref().map_or(u64::MAX, Pacer::due_ns);
    }
}

/// A worker's share of the schedule.
pub(crate) struct Pacer {
    course: ArrivalTrack,
    /// At the next arrival that has not been released.
    upcoming: Cursor,
    /// At the oldest waiting arrival, if any waits.
    oldest: Cursor,
    /// When the last released arrival was due.
    seen_ns: u64,
    /// Arrivals that wait.
    queued: u64,
    /// Free clients, the longest free first.
    idle: VecDeque<u32>,
    when_busy: WhenBusy,
    spin: bool,
    margin_ns: u64,
    margin_ns_max: u64,
    /// Time spent spinning since the window opened.
    spun_ns: u64,
}

/// The schedule that both cursors walk along: the warm-up's until the window opens, then the window's own from its
/// beginning.
struct ArrivalTrack {
    warm_up_end_ns: u64,
    open_ns: u64,
    close_ns: u64,
    window: Arrivals,
}

#[derive(Clone)]
struct Cursor {
    arrivals: Arrivals,
    /// Start of the schedule that the arrivals belong to.
    start_ns: u64,
    in_window: bool,
    /// The arrival, in nanoseconds since the start of the schedule.
    drawn_ns: u64,
    /// When it is due; [`u64::MAX`] at the end of the schedule.
    due_ns: u64,
}

impl Cursor {
    fn advance(&mut self, course: &ArrivalTrack) {
        self.drawn_ns = self.arrivals.next().unwrap_or(u64::MAX);
        self.due_ns = self.start_ns.saturating_add(self.drawn_ns);
        self.settle(course);
    }

    /// Switches to the window's schedule once the warm-up has ended; ends the schedule when the window does.
    fn settle(&mut self, course: &ArrivalTrack) {
        if !self.in_window && self.due_ns >= course.warm_up_end_ns && course.warm_up_end_ns != u64::MAX {
            self.in_window = true;
            self.arrivals = course.window.clone();
            self.start_ns = course.open_ns;
            return self.advance(course);
        }
        if self.due_ns >= course.close_ns {
            self.due_ns = u64::MAX;
        }
    }
}

impl Pacer {
    /// The share of a worker with these slots and this many clients.
    pub(crate) fn new(plan: &Plan, rate: RateProfile, slots: Slots, clients: u32) -> Pacer {
        let share = |rate, seed| Arrivals::new(plan.arrivals, rate, seed, slots);
        let upcoming = Cursor {
            // With a seed of its own, so that a window's arrivals do not depend on the length of the warm-up.
            arrivals: share(RateProfile::constant(rate.from), !plan.seed),
            start_ns: 0,
            in_window: false,
            drawn_ns: u64::MAX,
            due_ns: u64::MAX,
        };
        // At most half of the time is spent spinning, unless the user wants all of it.
        let turn_ns = NANOS_PER_SECOND as f64 * f64::from(slots.of) / rate.peak().per_s();
        let gap_ns = turn_ns / f64::from(slots.count);
        let margin_ns_max = MARGIN_NS_MAX.min(gap_ns as u64 / 2);
        Pacer {
            course: ArrivalTrack {
                warm_up_end_ns: u64::MAX,
                open_ns: u64::MAX,
                close_ns: u64::MAX,
                window: share(rate, plan.seed),
            },
            oldest: upcoming.clone(),
            upcoming,
            seen_ns: 0,
            queued: 0,
            idle: (0..clients).collect(),
            when_busy: plan.when_busy,
            spin: plan.spin,
            margin_ns: margin_ns_max,
            margin_ns_max,
            spun_ns: 0,
        }
    }

    /// Begins the warm-up.
    fn begin(&mut self, now: u64) {
        self.upcoming.start_ns = now;
        self.upcoming.advance(&self.course);
    }

    /// See [`Pacing::window_is`].
    fn window_is(&mut self, open_ns: u64, close_ns: u64) {
        if self.course.warm_up_end_ns == u64::MAX && open_ns != u64::MAX {
            // If the announcement is late, arrivals already released remain part of the warm-up.
            self.course.warm_up_end_ns = open_ns.max(self.seen_ns + 1);
            self.course.open_ns = open_ns;
        }
        if close_ns > self.course.close_ns {
            // The window was extended: the schedule continues.
            self.upcoming.due_ns = self.upcoming.start_ns.saturating_add(self.upcoming.drawn_ns);
        }
        self.course.close_ns = close_ns;
        self.upcoming.settle(&self.course);
    }

    /// See [`Pacing::begin_slice`]. The schedule stands still while the other sides have their turns.
    fn begin_slice(&mut self, now: u64, stop_ns: u64) {
        let upcoming = &mut self.upcoming;
        if self.course.close_ns == u64::MAX {
            upcoming.in_window = true;
            upcoming.arrivals = self.course.window.clone();
            upcoming.drawn_ns = upcoming.arrivals.next().unwrap_or(u64::MAX);
            upcoming.start_ns = now;
        } else {
            upcoming.start_ns = now - (self.course.close_ns - upcoming.start_ns);
        }
        self.course.close_ns = stop_ns;
        upcoming.due_ns = upcoming.start_ns.saturating_add(upcoming.drawn_ns);
        upcoming.settle(&self.course);
    }

    /// When the next arrival is due; [`u64::MAX`] if there is none.
    fn due_ns(&self) -> u64 {
        self.upcoming.due_ns
    }

    /// Ends the schedule and forgets waiting arrivals.
    fn stop(&mut self) {
        self.upcoming.due_ns = u64::MAX;
        self.queued = 0;
    }

    /// Takes the oldest waiting arrival: its intended start.
    fn take_waiting(&mut self) -> Option<u64> {
        self.queued = self.queued.checked_sub(1)?;
        let intended_ns = self.oldest.due_ns;
        if self.queued > 0 {
            self.oldest.advance(&self.course);
        }
        Some(intended_ns)
    }

    /// Adjusts the margin after a sleep that no event ended.
    fn overslept(&mut self, by_ns: u64) {
        self.margin_ns = if by_ns > self.margin_ns {
            self.margin_ns + 99 * MARGIN_STEP_NS
        } else {
            self.margin_ns.saturating_sub(MARGIN_STEP_NS)
        };
        self.margin_ns = self.margin_ns.max(MARGIN_NS_MIN).min(self.margin_ns_max);
    }
}

/// What happened to an arrival when it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Started,
    Queued,
    Skipped,
}

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Releases every arrival that is due.
    pub(crate) fn release_arrivals(&mut self) {
        loop {
            let now = self.now();
            let Some(pacer) = self.pacing.pacer.as_mut().filter(|pacer| pacer.due_ns() <= now) else { break };
            let (intended_ns, in_window) = (pacer.upcoming.due_ns, pacer.upcoming.in_window);
            let client = pacer.idle.pop_front();
            let fate = match (client, pacer.when_busy) {
                (Some(_), _) => Fate::Started,
                (None, WhenBusy::Queue) => Fate::Queued,
                (None, WhenBusy::Skip) => Fate::Skipped,
            };
            if fate == Fate::Queued {
                if pacer.queued == 0 {
                    pacer.oldest = pacer.upcoming.clone();
                }
                pacer.queued += 1;
            }
            pacer.seen_ns = intended_ns;
            pacer.upcoming.advance(&pacer.course);
            self.recorder.arrival(in_window, fate, now - intended_ns);
            if let Some(client) = client {
                let since = self.clients[client].waiting_since_ns;
                self.recorder.was_free(since, now);
                self.recorder.arrival_started(false);
                self.start_page(client, intended_ns, now);
            }
        }
        self.pacing.note_next_arrival();
        if P::Exchanges::MANY {
            // Before anything else takes time.
            self.flush();
        }
    }

    /// A client has ended its page: it takes the arrival that waits longest, or is free for the next.
    #[inline(always)]
    pub(crate) fn client_is_free(&mut self, client: u32, now: u64) {
        let Some(pacer) = self.pacing.pacer.as_mut().filter(|_| self.stage != Stage::Draining) else {
            // Closed loop; or the level ends, and the client stops.
            return self.start_page(client, now, now);
        };
        match pacer.take_waiting() {
            Some(intended_ns) => {
                self.recorder.arrival_started(true);
                self.start_page(client, intended_ns, now);
            }
            None => {
                self.clients[client].wait_for_arrival(now);
                pacer.idle.push_back(client);
            }
        }
    }

    /// Waits for events until `until_ns` or the next arrival, whichever is first; returns the number of events.
    pub(crate) fn wait(&mut self, until_ns: u64, mut now: u64) -> std::io::Result<usize> {
        let Some(pacer) = &mut self.pacing.pacer else {
            if self.pacing.stays_awake {
                return self.wait_awake(until_ns);
            }
            return self.backend.wait(match until_ns {
                u64::MAX => WITHOUT_END,
                _ => until_ns.saturating_sub(now),
            });
        };
        let due_ns = pacer.due_ns();
        // Immediately before the next arrival only the clock is read.
        if due_ns > now && due_ns - now <= GAZE_NS {
            let begun = now;
            now = self.backend.spin_until(due_ns);
            pacer.spun_ns += now - begun;
            self.release_arrivals();
            return self.backend.wait(0);
        }
        let wake_ns = until_ns.min(due_ns.saturating_sub(pacer.margin_ns));
        let awake = wake_ns <= now || pacer.spin;
        let count = self.backend.wait(if awake { 0 } else { wake_ns - now })?;
        if count == 0 {
            let woken = self.backend.now_ns();
            match awake {
                true => pacer.spun_ns += woken.saturating_sub(now),
                false => pacer.overslept(woken.saturating_sub(wake_ns)),
            }
        }
        Ok(count)
    }

    /// Polls for events until there are some, or until `until_ns`. A server on this host then need not wake this thread, which
    /// would cost the server 5 µs or more each time.
    fn wait_awake(&mut self, until_ns: u64) -> std::io::Result<usize> {
        let count = self.backend.wait(0)?;
        if count > 0 {
            return Ok(count);
        }
        let mut now = self.backend.now_ns();
        while now < until_ns {
            let count = self.backend.wait(0)?;
            let before = std::mem::replace(&mut now, self.backend.now_ns());
            if now - before <= POLL_NS_MAX {
                self.pacing.awake_ns += now - before;
            }
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// As a slice ends: counts the time for which clients have been free.
    pub(crate) fn free_in_slice(&mut self, at_ns: u64) {
        let Some(pacer) = &self.pacing.pacer else { return };
        for client in &pacer.idle {
            self.recorder.was_free(self.clients[*client].waiting_since_ns, at_ns);
        }
    }

    /// Closes the window: arrivals that are due but not released count as waiting, like those that do wait.
    pub(crate) fn close_schedule(&mut self, at_ns: u64) {
        let Some(pacer) = &mut self.pacing.pacer else { return };
        pacer.window_is(self.recorder.open_ns(), at_ns);
        while let Some(due_ns) = pacer.take_waiting() {
            self.recorder.arrival_left(true, at_ns.saturating_sub(due_ns));
        }
        while pacer.due_ns() != u64::MAX {
            if pacer.upcoming.in_window {
                self.recorder.arrival_left(false, at_ns.saturating_sub(pacer.due_ns()));
            }
            pacer.upcoming.advance(&pacer.course);
        }
        for client in &pacer.idle {
            self.recorder.was_free(self.clients[*client].waiting_since_ns, at_ns);
        }
        pacer.idle.clear();
    }
}
