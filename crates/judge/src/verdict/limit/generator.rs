//! The load generator's busiest worker.

use std::collections::BTreeMap;

use crate::verdict::bounds::{RUN_QUEUE_PERCENT_MAX, percent, run_queue_percent};
use webstone_model::record::IterationRecord;

/// The worker that wanted most of its CPU, over all iterations of a level.
#[derive(Default)]
pub(super) struct Generator {
    cpu: Option<u32>,
    is_alone: bool,
    /// Its CPU time, without waiting awake for arrivals, in percent of the windows.
    pub(super) used: f64,
    /// Time that it was ready to run and did not, in percent of the windows.
    waited: f64,
}

impl Generator {
    /// `None` where no worker is in the record.
    pub(super) fn of(runs: &[&IterationRecord]) -> Option<Generator> {
        let mut workers: BTreeMap<usize, (Generator, f64)> = BTreeMap::new();
        for run in runs {
            let window_ns = run.measured.window_ns;
            for (place, worker) in run.measured.generator.workers.iter().enumerate() {
                let (sum, windows) = workers.entry(place).or_default();
                sum.cpu = worker.cpu;
                sum.used += worker.worked_ns() as f64;
                sum.waited += run_queue_percent(worker, window_ns) * window_ns as f64 / 100.0;
                *windows += window_ns as f64;
            }
        }
        let is_alone = workers.len() == 1;
        let shares = workers.into_values().map(|(sum, windows)| Generator {
            cpu: sum.cpu,
            is_alone,
            used: percent(sum.used, windows),
            waited: percent(sum.waited, windows),
        });
        shares.max_by(|a, b| a.wanted().total_cmp(&b.wanted()))
    }

    /// How much of its CPU it used or would have used.
    pub(super) fn wanted(&self) -> f64 {
        self.used + self.waited
    }

    pub(super) fn text(&self) -> String {
        let place = self.cpu.map_or("its CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        let busiest = if self.is_alone { "" } else { "busiest " };
        let waited = match self.waited >= RUN_QUEUE_PERCENT_MAX {
            true => format!(" and waited for it {:.0} % of the time", self.waited),
            false => String::new(),
        };
        format!("the generator's {busiest}worker used {:.0} % of {place}{waited}", self.used)
    }
}
