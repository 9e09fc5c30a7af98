//! One contestant while it is up.

use std::sync::Arc;

use webstone_engine::{Plan, PlanError};
use webstone_lab::interrupt::Interrupt;
use webstone_lab::measured::MeasuredServer;
use webstone_lab::process_tree::ProcessTree;
use webstone_measure::metrics::Measured;
use webstone_measure::slices::Slice;
use webstone_model::duel::{Contestant, SideRun};
use webstone_model::spec::{ClientSpec, HttpVersion};
use webstone_store::redaction;

use crate::observer::Observer;
use crate::run::{RunBrief, RunError, RunSite, Served, ask, serve};
use crate::under_test::{UnderTest, program};

/// See the module comment. Stopped when it is dropped, if webstone started it.
pub(super) struct Up {
    brief: RunBrief,
    /// The server, if webstone started it.
    server: Option<UnderTest>,
    /// The processes of one that was up before, if they can be seen.
    found: Option<ProcessTree>,
    /// What it says it is.
    says: Option<String>,
    /// Which version of HTTP was chosen and why, where that was left to it.
    http_why: Option<String>,
}

impl Up {
    /// Starts it, or connects to it; with `check`, asks it for the files of the workload. The version of HTTP is chosen in the first start.
    /// Each start has a seed of its own, so that a path loses other packets.
    pub(super) fn start(
        asked: &mut RunBrief,
        site: &mut RunSite,
        (start, check): (usize, bool),
        observer: &mut dyn Observer,
        interrupt: &Interrupt,
    ) -> Result<Up, RunError> {
        let mut brief = asked.clone();
        brief.spec.client.seed = brief.spec.client.seed.wrapping_add(start as u64);
        let destinations = site.destinations.clone();
        let program = program()?;
        let mut served = serve(&mut brief, site, Some(program), observer, interrupt)?;
        site.destinations = destinations;
        ask(&mut brief, &mut site.facts, &mut served, check, observer, interrupt)?;
        for (known, found) in [(&mut asked.spec, &brief.spec), (&mut asked.effective, &brief.effective)] {
            known.client.http = found.client.http;
            known.client.connect_to.clone_from(&found.client.connect_to);
        }
        let Served { server, .. } = served;
        let found = site.found.processes.as_ref().map(MeasuredServer::processes);
        let (says, http_why) = (site.facts.server.clone(), site.facts.http.clone());
        Ok(Up { brief, server, found, says, http_why })
    }

    /// Its processes, if they can be seen.
    pub(super) fn processes(&self) -> Option<ProcessTree> {
        match &self.server {
            Some(under_test) => Some(under_test.server.processes()),
            None => self.found.clone(),
        }
    }

    /// What the user should know of it.
    pub(super) fn warnings(&self) -> &[String] {
        &self.brief.warnings
    }

    /// How it ended, if it did.
    pub(super) fn exit(&mut self) -> Option<String> {
        self.server.as_mut().and_then(|under_test| under_test.server.exit())
    }

    /// Its peak of memory begins now.
    pub(super) fn reset_memory(&self) {
        if let Some(processes) = self.processes() {
            processes.reset_peak();
        }
    }

    /// What is asked of it, and how. Pages come in another order in each start: the same first pages in all of them would be a choice of
    /// pages, and not a sample.
    pub(super) fn plan(&self, start: usize) -> Result<Arc<Plan>, PlanError> {
        let mut task = self.brief.effective.task();
        // In closed loop the duel decides whether it stays awake, slice by slice.
        task.generator.spin = task.generator.spin.filter(|_| task.load.rate.is_some());
        task.client.seed = task.client.seed.wrapping_add(start as u64);
        Ok(Arc::new(Plan::compile(&task, &self.brief.workload)?))
    }

    /// Its URL, and how it is asked.
    pub(super) fn url(&self) -> (&str, &ClientSpec) {
        let url = self.brief.effective.target.first().map_or("", String::as_str);
        (url, &self.brief.effective.client)
    }

    /// The version of HTTP that it is asked in.
    pub(super) fn http(&self) -> HttpVersion {
        self.brief.effective.client.http
    }

    /// Adds to a contestant's record what is known once it is up.
    pub(super) fn describe(&self, contestant: &mut Contestant) {
        contestant.server.clone_from(&self.says);
        contestant.http.clone_from(&self.http_why);
        if let Some(under_test) = &self.server {
            contestant.software.clone_from(&under_test.software);
            contestant.configuration.clone_from(&under_test.configuration);
        }
    }

    /// What it did between two starts, in these slices, as the record has it.
    pub(super) fn run<'a>(
        &self,
        measured: Measured,
        slices: impl Iterator<Item = &'a Slice> + Clone,
    ) -> SideRun {
        let lateness_ns = measured
            .open_loop
            .as_ref()
            .map(|open_loop| (measured.response.mean() - open_loop.response.mean()).max(0.0));
        SideRun {
            counts: measured.counts,
            errors: redaction::errors(measured.errors),
            statuses: measured.statuses,
            response: measured.response,
            distribution: measured.histograms.response,
            lateness_ns,
            resident_bytes_max: self
                .processes()
                .map(|tree| tree.memory().resident_max)
                .filter(|bytes| *bytes > 0),
            ..SideRun::default()
        }
        .with_slices(slices)
    }
}

/// An error with the name of the contestant that it is of.
pub(super) fn named(name: &str, error: RunError) -> RunError {
    match error {
        RunError::Interrupted => error,
        error => RunError::Refused {
            what: format!("{name}: {error}"),
            hint: error.hint().unwrap_or_else(|| "see what it says when it is started by hand".to_owned()),
        },
    }
}
