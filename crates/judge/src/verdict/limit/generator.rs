//! The load generator's busiest worker.

use std::collections::BTreeMap;

use crate::verdict::bounds::{RUN_QUEUE_PERCENT_MAX, percent, run_queue_percent};
use webstone_model::record::IterationRecord;

/// The worker that wanted most of its CPU, over all iterations of a level.
#[derive(Default)]
pub(super) struct Generator {
    /// Which of several hosts it is on, and its number there.
    place: (Option<u32>, usize),
    cpu: Option<u32>,
    is_alone: bool,
    /// Its CPU time, without waiting awake for arrivals, in percent of the windows.
    pub(super) used: f64,
    /// Time that it was ready to run and did not, in percent of the windows.
    waited: f64,
}

impl Generator {
    /// `None` where no worker is in the record.
    pub(super) fn of_level(runs: &[&IterationRecord]) -> Option<Generator> {
        let mut workers: BTreeMap<(Option<u32>, usize), (Generator, f64)> = BTreeMap::new();
        for run in runs {
            let window_ns = run.measured.window_ns;
            for maker in run.load_makers() {
                for (number, worker) in maker.workers.iter().enumerate() {
                    let (sum, windows) = workers.entry((maker.generator, number)).or_default();
                    sum.cpu = worker.cpu;
                    sum.used += worker.worked_ns() as f64;
                    sum.waited += run_queue_percent(worker, window_ns) * window_ns as f64 / 100.0;
                    *windows += window_ns as f64;
                }
            }
        }
        let is_alone = workers.len() == 1;
        let shares = workers.into_iter().map(|(place, (sum, windows))| Generator {
            place,
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

    /// What makes the load, where it limits: the load generator, or one of several.
    pub(super) fn name(&self) -> &'static str {
        if self.place.0.is_some() { "A load generator" } else { "The load generator" }
    }

    pub(super) fn text(&self) -> String {
        let place = self.cpu.map_or("its CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        let busiest = if self.is_alone { "" } else { "busiest " };
        let waited = match self.waited >= RUN_QUEUE_PERCENT_MAX {
            true => format!(" and waited for it {:.0} % of the time", self.waited),
            false => String::new(),
        };
        let whose = match self.place {
            (None, _) => format!("the generator's {busiest}worker"),
            (Some(host), number) => format!("the busiest worker, {number} of generator {},", host + 1),
        };
        format!("{whose} used {:.0} % of {place}{waited}", self.used)
    }
}
