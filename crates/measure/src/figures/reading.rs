//! What figures are computed from: one iteration, or all of a level as one measurement.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::distributions::{Distribution, Distributions};
use super::generator::{GeneratorFigures, OpenLoopFigures};
use super::host::HostFigures;
use super::{Figures, Value};
use crate::iteration::IterationRecord;
use crate::metrics::{Fairness, Measured, fairness, times_at};
use crate::origin_figures::OriginFigures;
use crate::server_figures::{ServerFigures, server_use};
use crate::server_use::ServerUse;

/// One iteration, or all of a level. What several figures need is computed once, on first use.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    measured: Cow<'a, Measured>,
    runs: Vec<&'a IterationRecord>,
    figures: OnceCell<Figures>,
    distributions: OnceCell<Distributions>,
    fairness: OnceCell<Option<Fairness>>,
    generator: OnceCell<GeneratorFigures>,
    open_loop: OnceCell<Option<OpenLoopFigures>>,
    server: OnceCell<Option<ServerFigures>>,
    server_use: OnceCell<Option<ServerUse>>,
    origin: OnceCell<Option<OriginFigures>>,
    host: OnceCell<Option<HostFigures>>,
    server_host: OnceCell<Option<HostFigures>>,
}

impl<'a> Reading<'a> {
    /// Reads one iteration.
    pub fn of_run(run: &'a IterationRecord) -> Reading<'a> {
        Reading::new(Cow::Borrowed(&run.measured), vec![run])
    }

    /// Reads all iterations of a level as one measurement. A single one is borrowed, as it has megabytes.
    pub fn of_level(runs: &[&'a IterationRecord]) -> Reading<'a> {
        match runs {
            [run] => Reading::of_run(run),
            _ => Reading::new(Cow::Owned(IterationRecord::merged(runs)), runs.to_vec()),
        }
    }

    fn new(measured: Cow<'a, Measured>, runs: Vec<&'a IterationRecord>) -> Reading<'a> {
        Reading {
            figures: OnceCell::new(),
            measured,
            runs,
            distributions: OnceCell::new(),
            fairness: OnceCell::new(),
            generator: OnceCell::new(),
            open_loop: OnceCell::new(),
            server: OnceCell::new(),
            server_use: OnceCell::new(),
            origin: OnceCell::new(),
            host: OnceCell::new(),
            server_host: OnceCell::new(),
        }
    }

    /// What was measured, iterations merged.
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    /// The iterations, in the order in which they ran.
    pub fn runs(&self) -> &[&'a IterationRecord] {
        &self.runs
    }

    /// Figures computed from counters.
    pub fn figures(&self) -> &Figures {
        self.figures.get_or_init(|| Figures::of_measured(&self.measured))
    }

    /// Percentiles of times.
    pub fn distributions(&self) -> &Distributions {
        self.distributions.get_or_init(|| Distributions::of_measured(&self.measured))
    }

    /// How equally clients were served.
    pub fn fairness(&self) -> Option<&Fairness> {
        self.fairness.get_or_init(|| fairness(&self.measured.clients)).as_ref()
    }

    /// What the load generator used and added.
    pub fn generator(&self) -> &GeneratorFigures {
        self.generator.get_or_init(|| GeneratorFigures::of_measured(&self.measured, self.figures()))
    }

    /// What happened to an open loop's schedule.
    pub fn open_loop(&self) -> Option<&OpenLoopFigures> {
        self.open_loop.get_or_init(|| OpenLoopFigures::of_measured(&self.measured)).as_ref()
    }

    /// What the server's processes did, per request and second.
    pub fn server(&self) -> Option<&ServerFigures> {
        self.server.get_or_init(|| ServerFigures::of_runs(&self.runs)).as_ref()
    }

    /// What the server's processes used, in all windows in which they were visible.
    pub fn server_use(&self) -> Option<&ServerUse> {
        self.server_use.get_or_init(|| server_use(&self.runs, IterationRecord::server_used)).as_ref()
    }

    /// What the server behind a proxy did.
    pub fn origin(&self) -> Option<&OriginFigures> {
        self.origin.get_or_init(|| OriginFigures::of_runs(&self.runs)).as_ref()
    }

    /// What the kernel of the generator's host counted.
    pub fn host(&self) -> Option<&HostFigures> {
        self.host.get_or_init(|| HostFigures::of_generator(&self.runs)).as_ref()
    }

    /// What the kernel of the server's host counted, if an agent monitored it.
    pub fn server_host(&self) -> Option<&HostFigures> {
        self.server_host.get_or_init(|| HostFigures::of_server(&self.runs)).as_ref()
    }

    /// The response time at a percentile above 0 and at most 100, in seconds; `None` if nothing was answered.
    pub fn percentile(&self, percentile: f64) -> Option<f64> {
        let (answered, unanswered) =
            (&self.measured.histograms.response, &self.measured.unanswered.histograms.response);
        let (times, _) = times_at(answered, unanswered, &[percentile / 100.0]);
        (!answered.is_empty()).then(|| super::seconds(times[0]))
    }

    /// The response time at one of the percentiles in reports.
    pub(crate) fn latency(&self, percentile: f64, time_s: fn(&Distribution) -> f64) -> Option<Value> {
        Some(self.distributions().response.as_ref()?.value(percentile, time_s))
    }

    /// The value, if the window has a length.
    pub(crate) fn windowed(&self, value: impl Into<Value>) -> Option<Value> {
        (self.measured.window_ns > 0).then(|| value.into())
    }

    /// The value, if any request was answered.
    pub(crate) fn answered(&self, value: impl Into<Value>) -> Option<Value> {
        (self.measured.response.count > 0).then(|| value.into())
    }
}
