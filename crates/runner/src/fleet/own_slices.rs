//! The slices of a window on a host that makes load: it reports what it used in each, and keeps those that the controller says.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use webstone_engine::{Control, Sliced};
use webstone_lab::agent::Voice;
use webstone_lab::agent::load::{HostSlice, LoadAnswer, LoadAsk};
use webstone_lab::window::Window;
use webstone_measure::metrics::{Measured, WorkerUse};
use webstone_model::event::Phase;
use webstone_model::record::{HostUse, OthersUse};

use crate::slice_watch::{KeptUse, SliceReport, SliceWatch};

/// How long after the window the controller may take to say which slices to keep.
const SETTLE_PATIENCE: Duration = Duration::from_secs(20);
/// Other programs that are named.
const NAMED_MAX: usize = 2;

/// See the module comment.
pub(super) struct OwnSlices<'a> {
    voice: &'a Voice,
    /// The level.
    number: u64,
    watch: SliceWatch,
    said: usize,
    /// Whether each slice is kept, as far as the controller has said.
    kept: Vec<bool>,
    /// Whether figures are of all slices, once the controller has said.
    all: Option<bool>,
}

impl<'a> OwnSlices<'a> {
    pub(super) fn new(voice: &'a Voice, number: u64, length_ns: u64) -> OwnSlices<'a> {
        OwnSlices { voice, number, watch: SliceWatch::new(length_ns), said: 0, kept: Vec::new(), all: None }
    }

    /// Reads and reports what is due while the window is open, and when it has closed. Returns how long there is nothing to do.
    ///
    /// # Errors
    /// If the controller is gone.
    pub(super) fn look(
        &mut self,
        control: &Control,
        window: &mut Window<'_>,
    ) -> Result<Option<Duration>, String> {
        let Some((open_ns, close_ns)) = control.window_ns() else { return Ok(None) };
        let is_open = control.phase() == Phase::Measuring;
        match is_open {
            true => self.watch.read(Control::now_ns(), (open_ns, close_ns), window),
            false => {
                let slices = close_ns.saturating_sub(open_ns).div_ceil(self.watch.length_ns());
                self.watch.close(slices as usize, window);
            }
        }
        self.watch.take(control.slice_reports().into_iter().map(SliceReport::from));
        self.say(control.workers())?;
        Ok(is_open.then(|| self.watch.until_read(open_ns)))
    }

    /// The next slice is judged.
    pub(super) fn judged(&mut self, keep: bool) {
        self.kept.push(keep);
    }

    /// The controller has said whether figures are of all slices.
    pub(super) fn settled(&mut self, all: bool) {
        self.all = Some(all);
    }

    fn say(&mut self, workers: usize) -> Result<(), String> {
        while let Some((used, reports)) = self.watch.whole(self.said, workers) {
            let sum = |of: fn(&SliceReport) -> u64| reports.iter().map(of).fold(0, u64::saturating_add);
            let workers: Vec<WorkerUse> =
                reports.iter().flat_map(|report| &report.workers).cloned().collect();
            let slice = HostSlice {
                number: self.said as u32,
                ns: reports.iter().map(|report| report.ns).max().unwrap_or(0),
                requests: sum(|it| it.requests),
                errors: sum(|it| it.errors),
                busy_ns: sum(|it| it.busy_ns),
                host: used.map(|used| in_brief(&used.host, &workers)),
                workers,
            };
            self.said += 1;
            let answer = LoadAnswer::Slice(Box::new(slice));
            self.voice.say(self.number, answer, &[]).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// To be called when the level has ended and `window` has seen it: its figures, and what was used in kept slices if some are left out.
    ///
    /// # Errors
    /// If the controller does not say in time what to keep.
    pub(super) fn settle(
        mut self,
        sliced: Sliced,
        window: &mut Window<'_>,
        asks: &Receiver<(u64, LoadAsk, Vec<u8>)>,
    ) -> Result<(Measured, Option<KeptUse>), String> {
        self.watch.take(sliced.reports().into_iter().map(SliceReport::from));
        self.watch.close(self.watch.reported(), window);
        self.say(self.watch.reporters())?;
        let until = Instant::now() + SETTLE_PATIENCE;
        let all = loop {
            if let Some(all) = self.all {
                break all;
            }
            match asks.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((number, LoadAsk::Judge(keep), _)) if number == self.number => {
                    sliced.judge(keep);
                    self.judged(keep);
                }
                Ok((number, LoadAsk::Settle(all), _)) if number == self.number => self.settled(all),
                Ok(_) => {}
                Err(_) => return Err("was not told in time which slices to keep".to_owned()),
            }
        };
        let measured = sliced.together(all);
        let is_limited = !measured.left_out.is_empty();
        Ok((measured, is_limited.then(|| self.watch.used_in(self.kept))))
    }
}

/// Only what concerns the workers, so that a host has little to send.
fn in_brief(host: &HostUse, workers: &[WorkerUse]) -> HostUse {
    let is_ours = |cpu: u32| workers.iter().any(|worker| worker.cpu.is_none_or(|own| own == cpu));
    let others = host.others.as_ref().map(|others| OthersUse {
        cpu_ns: others.cpu_ns,
        busiest: others.busiest.iter().take(NAMED_MAX).cloned().collect(),
    });
    HostUse {
        elapsed_ns: host.elapsed_ns,
        others,
        throttled_ns: host.throttled_ns,
        suspended_ns: host.suspended_ns,
        cpus: host.cpus.iter().filter(|cpu| is_ours(cpu.cpu)).copied().collect(),
        ..HostUse::default()
    }
}
