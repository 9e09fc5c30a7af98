//! Control of a level from another thread: it ends the level early, reads its totals, and gives the instants at which
//! the level begins and its window opens when several hosts agree on them.
//!
//! Everything that decides when a level begins, opens and closes changes under one lock, so that an end and an
//! opening at the same time cannot undo each other. Workers do not take the lock: they read [`Shared`].

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use webstone_measure::live::{Live, Phase};
use webstone_measure::metrics::Histogram;

use crate::live::Merged;
use crate::loop_clock::TICK_NS;
use crate::plan::Plan;
use crate::shared::{Published, Shared};
use crate::slices::{Judgements, WorkerSlice};
use crate::sys::clock::now_ns;
use crate::worker::ANNOUNCE_NS;

/// Who decides when a level begins and when its window opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// The level: it begins at once, and opens its window once it is warm.
    #[default]
    Own,
    /// The holder of its [`Control`]: the level begins at [`Control::go_at`] and its window opens at
    /// [`Control::open_at`], or when it begins if there is no warm-up. Until then it waits, or stays in warm-up.
    Agreed,
}

/// Why an agreed instant was refused. The level continues as before until it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstantError {
    /// Too early: the workers are not set up, or the level is not warm yet.
    #[error("the level is not ready for this instant")]
    NotReady,
    /// The instant is already decided, by an earlier call or by the level itself.
    #[error("the instant was decided before")]
    Decided,
    /// The level was ended.
    #[error("the level was ended")]
    Ended,
    /// The instant is past, or so near that workers might learn of it too late. If the level began or opened anyway,
    /// what it measured must not count.
    #[error("the instant comes {by_ns} ns too early to be kept")]
    Late {
        /// How much later it would have to be, in nanoseconds.
        by_ns: u64,
    },
}

/// Ends a level early and watches it, from another thread. One per level.
#[derive(Debug, Default)]
pub struct Control {
    phase: AtomicU8,
    pub(crate) end: AtomicBool,
    pub(crate) abort: AtomicBool,
    /// Set once the workers are set up.
    course: OnceLock<Arc<LevelClock>>,
    merged: Merged,
}

impl Control {
    /// A control for one level.
    pub fn new() -> Arc<Control> {
        Arc::new(Control::default())
    }

    /// Closes the window now; what was measured is returned as usual. If the window is not open yet, it never opens.
    pub fn end_window(&self) {
        self.end.store(true, Ordering::SeqCst);
    }

    /// Ends everything at once, without a drain; what was measured is still returned.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        self.end_window();
    }

    /// The phase of the level.
    pub fn phase(&self) -> Phase {
        [Phase::Starting, Phase::WarmUp, Phase::Measuring, Phase::Draining, Phase::Done]
            [usize::from(self.phase.load(Ordering::Relaxed))]
    }

    /// The clock of all instants here: monotonic, in nanoseconds, of this host.
    pub fn now_ns() -> u64 {
        now_ns()
    }

    /// Whether all workers are set up, so that the level can begin.
    pub fn is_armed(&self) -> bool {
        self.course.get().is_some_and(|course| course.lock().is_armed)
    }

    /// Begins a level with agreed instants, at an instant of [`Control::now_ns`] at least 30 ms ahead. To be called
    /// once, when it is armed. Without a warm-up the window opens at the same instant.
    pub fn go_at(&self, at_ns: u64) -> Result<(), InstantError> {
        self.decide(at_ns, LevelClock::may_begin, |course, state| {
            course.begin(state, at_ns);
            // This thread may have stalled meanwhile, and workers wake shortly before the instant.
            in_time(at_ns, TICK_NS).is_ok()
        })
    }

    /// Whether the window may open or is open: the warm-up is over, and every client has had an answer or has waited
    /// 20 s for it.
    pub fn is_warm(&self) -> bool {
        self.course.get().is_some_and(|course| course.lock().is_warm || course.is_opening())
    }

    /// Opens the window of a level with agreed instants, at an instant of [`Control::now_ns`] at least 30 ms ahead.
    /// To be called once, when it is warm.
    pub fn open_at(&self, at_ns: u64) -> Result<(), InstantError> {
        self.decide(at_ns, LevelClock::may_open, |course, _| course.shared.opening.announce(at_ns, now_ns))
    }

    fn decide(
        &self,
        at_ns: u64,
        may: impl Fn(&LevelClock, &State) -> Result<(), InstantError>,
        act: impl Fn(&LevelClock, &mut State) -> bool,
    ) -> Result<(), InstantError> {
        let course = self.course.get().ok_or(InstantError::NotReady)?;
        let mut state = course.lock();
        if state.is_over || self.end.load(Ordering::SeqCst) {
            return Err(InstantError::Ended);
        }
        may(course, &state)?;
        in_time(at_ns, ANNOUNCE_NS)?;
        if act(course, &mut state) {
            return Ok(());
        }
        Err(InstantError::Late { by_ns: (now_ns() + ANNOUNCE_NS).saturating_sub(at_ns) })
    }

    /// Time until the window opens, once that is known; zero after it has opened.
    pub fn opens_in(&self) -> Option<Duration> {
        let open_ns = self.course.get()?.shared.opening.get();
        (open_ns != u64::MAX).then(|| Duration::from_nanos(open_ns.saturating_sub(now_ns())))
    }

    /// Length of the window's slices, in nanoseconds; 0 for none.
    pub fn slice_ns(&self) -> u64 {
        self.judgements().map_or(0, |judgements| judgements.length_ns)
    }

    /// When the window opens and closes, as far as that is decided; `None` while that is unknown.
    pub fn window_ns(&self) -> Option<(u64, u64)> {
        let shared = &self.course.get()?.shared;
        Some((shared.opening.get(), shared.close_ns())).filter(|(_, close_ns)| *close_ns < u64::MAX)
    }

    /// Number of the level's workers on this host.
    pub fn workers(&self) -> usize {
        self.course.get().map_or(0, |course| course.shared.workers.len())
    }

    /// The slices that workers have ended since the last call, in order for each worker.
    pub fn slice_reports(&self) -> Vec<WorkerSlice> {
        self.judgements().map(Judgements::take_reports).unwrap_or_default()
    }

    /// Decides whether the next slice, in order, is kept. To be called by one thread only.
    pub fn judge_slice(&self, keep: bool) {
        if let Some(judgements) = self.judgements() {
            judgements.judge(keep);
        }
    }

    /// Extends the window by one slice; returns whether that was in time. To be called by one thread only.
    pub fn extend(&self) -> bool {
        self.judgements().is_some_and(|judgements| judgements.length_ns > 0 && judgements.extend())
    }

    fn judgements(&self) -> Option<&Judgements> {
        Some(&self.course.get()?.shared.judgements)
    }

    /// Totals so far. Cheap, and does not disturb the workers.
    pub fn live(&self) -> Live {
        let Some(course) = self.course.get() else { return Live::default() };
        let shared = &course.shared;
        let sum = |field: fn(&Published) -> &AtomicU64| {
            shared.workers.iter().map(|worker| field(worker).load(Ordering::Relaxed)).sum()
        };
        let open_ns = shared.opening.get();
        let end_ns = now_ns().min(shared.close_ns());
        Live {
            elapsed_ns: end_ns.saturating_sub(open_ns),
            planned: sum(|w| &w.planned),
            offered: sum(|w| &w.offered),
            requests: sum(|w| &w.requests),
            errors: sum(|w| &w.errors),
            connections: sum(|w| &w.connections),
            pages: sum(|w| &w.pages),
            bytes: sum(|w| &w.bytes),
            response_ns: sum(|w| &w.response_ns),
            oldest_in_flight_ns: shared
                .workers
                .iter()
                .map(|worker| worker.oldest_in_flight_ns.load(Ordering::Relaxed))
                .max()
                .unwrap_or(0),
            response: self.merged.percentiles(shared.workers.iter().map(|worker| &worker.copied)),
        }
    }

    /// The response times of which [`Control::live`] gives percentiles.
    pub fn live_response(&self) -> Histogram {
        let Some(course) = self.course.get() else { return Histogram::default() };
        self.merged.response(course.shared.workers.iter().map(|worker| &worker.copied))
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Attaches the level. A control serves one level only; a second one would show the totals of the first.
    pub(crate) fn watches(&self, course: &Arc<LevelClock>) {
        let _ = self.course.set(course.clone());
    }
}

fn in_time(at_ns: u64, ahead_ns: u64) -> Result<(), InstantError> {
    match (now_ns() + ahead_ns).saturating_sub(at_ns) {
        0 => Ok(()),
        by_ns => Err(InstantError::Late { by_ns }),
    }
}

/// Decides when a level begins, and when its window opens and closes.
#[derive(Debug)]
pub(crate) struct LevelClock {
    pub(crate) shared: Arc<Shared>,
    opening: Opening,
    warmup_ns: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    is_armed: bool,
    /// Sends each worker, before it begins, the instant at which to begin. A worker whose channel is dropped does not
    /// begin.
    words: Vec<mpsc::Sender<u64>>,
    pub(crate) go_ns: Option<u64>,
    is_warm: bool,
    is_over: bool,
}

impl LevelClock {
    pub(crate) fn new(plan: &Plan, opening: Opening, shared: Arc<Shared>) -> Arc<LevelClock> {
        Arc::new(LevelClock { shared, opening, warmup_ns: plan.warmup_ns, state: Mutex::default() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All workers are set up and wait for the instant at which to begin.
    pub(crate) fn armed(&self, words: Vec<mpsc::Sender<u64>>) {
        let mut state = self.lock();
        state.words = words;
        state.is_armed = true;
        if self.opening == Opening::Own {
            self.begin(&mut state, now_ns() + 1_000_000);
        }
    }

    fn may_begin(&self, state: &State) -> Result<(), InstantError> {
        match (self.opening, state.is_armed, state.go_ns) {
            (Opening::Own, ..) | (_, _, Some(_)) => Err(InstantError::Decided),
            (_, false, _) => Err(InstantError::NotReady),
            _ => Ok(()),
        }
    }

    fn begin(&self, state: &mut State, at_ns: u64) {
        if self.warmup_ns == 0 {
            // Needs no notice ahead: workers still wait for the instant at which to begin.
            self.shared.opening.set(at_ns);
        }
        state.go_ns = Some(at_ns);
        for word in &state.words {
            // A worker that has died reports that when it is joined.
            let _ = word.send(at_ns);
        }
    }

    /// All clients have had their answers: the window may open, at once unless the instant is agreed on. To be called
    /// again if the instant was announced too late.
    pub(crate) fn warm(&self, clock: impl Fn() -> u64) {
        let mut state = self.lock();
        state.is_warm |= !state.is_over;
        if !state.is_over && self.opening == Opening::Own && !self.is_opening() {
            self.shared.opening.announce(clock() + ANNOUNCE_NS, clock);
        }
    }

    fn may_open(&self, state: &State) -> Result<(), InstantError> {
        match (self.opening, self.is_opening()) {
            (Opening::Own, _) | (_, true) => Err(InstantError::Decided),
            _ if !state.is_warm => Err(InstantError::NotReady),
            _ => Ok(()),
        }
    }

    /// Whether it is known when the window opens.
    pub(crate) fn is_opening(&self) -> bool {
        self.shared.opening.get() != u64::MAX
    }

    /// Ends the level soon, whatever else was decided.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.words.clear();
        self.shared.end_ns.fetch_min(now_ns() + ANNOUNCE_NS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use webstone_measure::units::Nanos;
    use webstone_workload::load::GeneratorTask;
    use webstone_workload::{FileRequest, Page, Workload};

    use super::*;

    fn course(opening: Opening) -> Arc<LevelClock> {
        let mut spec = GeneratorTask { target: vec!["http://192.0.2.1".into()], ..GeneratorTask::default() };
        spec.load.warmup = Nanos::from_secs(1);
        let files = vec![FileRequest { url: "/".into(), ..FileRequest::default() }];
        let page = Page { weight: 1, files, think: Nanos::ZERO };
        let workload = Workload { name: "w".into(), pages: vec![page], ..Workload::default() };
        let plan = Plan::compile(&spec, &workload).unwrap();
        LevelClock::new(&plan, opening, Arc::new(Shared::new(&plan, u64::MAX, 0)))
    }

    /// An end between the last check of the clients and the opening must not be lost, or the window would last its full
    /// length.
    #[test]
    fn an_end_before_the_opening_is_final() {
        for opening in [Opening::Own, Opening::Agreed] {
            let course = course(opening);
            let control = Control::default();
            control.watches(&course);
            course.armed(Vec::new());
            let go_at = control.go_at(now_ns() + 1_000_000_000);
            assert_eq!(go_at.is_ok(), opening == Opening::Agreed);
            if opening == Opening::Agreed {
                course.warm(now_ns);
            }
            let before_ns = now_ns();
            course.end();
            course.warm(now_ns);
            assert_eq!(control.open_at(now_ns() + 1_000_000_000), Err(InstantError::Ended));
            assert!(!course.is_opening());
            assert!((before_ns..now_ns()).contains(&(course.shared.close_ns() - ANNOUNCE_NS)));
        }
    }

    #[test]
    fn a_level_of_its_own_opens_when_it_is_warm_and_an_agreed_one_does_not() {
        for opening in [Opening::Own, Opening::Agreed] {
            let course = course(opening);
            course.armed(Vec::new());
            assert_eq!(course.lock().go_ns.is_some(), opening == Opening::Own);
            course.warm(|| 5);
            assert_eq!(course.is_opening(), opening == Opening::Own);
        }
    }

    /// The watching thread loses its CPU just as it announces the opening.
    #[test]
    fn an_opening_announced_too_late_is_announced_again() {
        let course = course(Opening::Own);
        course.armed(Vec::new());
        let now = Cell::new(5);
        course.warm(|| now.replace(5 + ANNOUNCE_NS));
        assert!(!course.is_opening());
        course.warm(|| now.get());
        assert_eq!(course.shared.opening.get(), 5 + 2 * ANNOUNCE_NS);
    }
}
