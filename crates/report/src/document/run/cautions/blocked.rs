//! The server did not run because it waited in the kernel, as for a disk: nobody is answered meanwhile, and no CPU is busy.

use webstone_measure::server_figures::while_read;
use webstone_model::record::{IterationRecord, ProcessUse, RunRecord};

use super::Caution;
use crate::summary;

/// Share of a timed run for which it waited for a disk, in percent, from which on the caution is given.
const DISK_SHARE_MIN: f64 = 5.0;
/// Readings at which a thread was blocked, and their share in percent, from which on the caution is given: at a few it may be chance.
const BLOCKED_MIN: u64 = 2;
const BLOCKED_SHARE_MIN: u64 = 50;

pub(super) fn find(record: &RunRecord, found: &mut Vec<Caution>) {
    let told: Vec<String> = record.iterations.iter().filter_map(|run| blocked(record, run)).collect();
    if !told.is_empty() {
        let caution =
            Caution::new("BLOCKED", "the server was blocked in the kernel, for example by a disk").at(told);
        found.push(
            caution
                .meaning("a blocked thread answers nobody")
                .remedy("if it writes an access log, try --server-log off"),
        );
    }
}

/// How long it was, in a timed run.
fn blocked(record: &RunRecord, run: &IterationRecord) -> Option<String> {
    let used = run.server_used()?.processes.as_ref()?;
    let how = by_disk(used, while_read(run).0).or_else(|| at_readings(used))?;
    Some(format!("{how} {}", summary::window(record, run)))
}

fn by_disk(used: &ProcessUse, read_ns: f64) -> Option<String> {
    let share = 100.0 * used.disk_wait_ns? as f64 / read_ns;
    (share >= DISK_SHARE_MIN).then(|| format!("for {share:.0} % of"))
}

fn at_readings(used: &ProcessUse) -> Option<String> {
    let (blocked, all) = (used.readings_blocked, used.readings);
    let is_told = blocked >= BLOCKED_MIN && 100 * blocked >= BLOCKED_SHARE_MIN * all;
    is_told.then(|| format!("at {blocked} of {all} readings in"))
}

#[cfg(test)]
mod tests {
    use webstone_model::record::ServerUse;

    use super::*;

    /// Timed runs of a second, in each of which the server's processes did this.
    fn said(used: &[ProcessUse]) -> Option<String> {
        let iterations = (1..).zip(used).map(|(iteration, used)| {
            let server = ServerUse { user_ns: 1, processes: Some(used.clone()), ..ServerUse::default() };
            let mut run = IterationRecord {
                clients: 20,
                iteration,
                server: Some(server),
                ..IterationRecord::default()
            };
            run.measured.window_ns = 1_000_000_000;
            run
        });
        let record = RunRecord { iterations: iterations.collect(), ..RunRecord::default() };
        let mut found = Vec::new();
        find(&record, &mut found);
        found.first().map(Caution::whole)
    }

    #[test]
    fn long_waits_and_a_thread_that_is_always_blocked_are_told() {
        let waited = |ms: u64| ProcessUse { disk_wait_ns: Some(ms * 1_000_000), ..ProcessUse::default() };
        let blocked =
            |readings_blocked| ProcessUse { readings: 4, readings_blocked, ..ProcessUse::default() };
        assert_eq!(
            said(&[waited(930), waited(49), blocked(2), blocked(4)]).as_deref(),
            Some(
                "the server was blocked in the kernel, for example by a disk: for 93 % of iteration 1 at 20 clients, at 2 of 4 readings in \
                 iteration 3 at 20 clients, at 4 of 4 readings in iteration 4 at 20 clients; a blocked thread answers nobody; \
                 if it writes an access log, try --server-log off"
            )
        );
        assert_eq!(said(&[waited(49), blocked(1), ProcessUse::default()]), None);
        let alone = said(&[waited(930)]).unwrap();
        assert!(alone.contains("for 93 % of the window at 20 clients; "), "{alone}");
    }
}
