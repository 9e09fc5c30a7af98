//! What waking a sleeping load generator costs a server on the same virtual machine.

use webstone_measure::server_figures::CPU_PER_REQUEST;
use webstone_model::record::{RunRecord, ServerUse};

use super::Caution;
use crate::numbers::{decimal, seconds};
use crate::summary::Level;

/// CPU time that it costs to wake a thread on another virtual CPU, in seconds (`docs/decisions/0071-awake-in-runs.md`).
const WAKE_S: f64 = 5e-6;
/// Share of a request's CPU time from which on the caution is given, in percent.
const SHARE_MIN: f64 = 5.0;

/// Levels at which waking may be a large part of what a request costs. In open loop the server is not asked for all it can do.
pub(super) fn find(record: &RunRecord, levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let is_virtual =
        record.environment.get("virtualisation").and_then(|facts| facts.get("machine")).is_some();
    let is_elsewhere = !record.target.agents.is_empty() || !record.spec.generators.is_empty();
    let wakes_nobody = is_elsewhere || record.spec.server.path.is_some() || record.stays_awake();
    let is_chosen = record.spec.generator.spin.is_some();
    if !is_virtual || wakes_nobody || is_chosen || record.spec.load.rate.is_some() {
        return;
    }
    let told: Vec<String> = levels.iter().filter_map(costly).collect();
    if !told.is_empty() {
        let what = "the server woke the load generator, which takes some microseconds of its CPU time on a virtual machine";
        let caution =
            Caution::new("WAKING", what).at(told).meaning("clients on other machines cost no such time");
        found.push(caution.remedy("pin the server to CPUs of its own and use --spin"));
    }
}

/// How often the server wakes a worker, where that costs it a large part of its time.
fn costly(level: &Level<'_>) -> Option<String> {
    let of_request_s = level.values.value(&CPU_PER_REQUEST)?.as_f64();
    let was_read = level.runs.iter().all(|run| run.server.as_ref().is_some_and(ServerUse::was_read));
    let workers = level.runs.iter().flat_map(|run| &run.measured.generator.workers);
    let wakes = workers.map(|worker| worker.sleeps).sum::<u64>() as f64 / level.counts.ended().max(1) as f64;
    let is_told = was_read && wakes * WAKE_S * 100.0 >= of_request_s * SHARE_MIN;
    let (wakes, of_request) = (decimal(wakes, 2), seconds(of_request_s));
    is_told.then(|| format!("{wakes} times per request of {of_request} at {}", level.load()))
}

#[cfg(test)]
mod tests {
    use webstone_measure::metrics::WorkerUse;
    use webstone_measure::units::NANOS_PER_SECOND;
    use webstone_model::record::{IterationRecord, STAYS_AWAKE};

    use super::*;
    use crate::summary;

    /// 100,000 requests of 12 µs, for which the generator slept this often.
    fn record(sleeps: u64) -> RunRecord {
        let mut run = IterationRecord { clients: 20, iteration: 1, ..IterationRecord::default() };
        run.measured.window_ns = 2 * NANOS_PER_SECOND;
        run.measured.counts.succeeded = 100_000;
        run.measured.generator.workers = vec![WorkerUse { sleeps, ..WorkerUse::default() }];
        run.server = Some(ServerUse {
            user_ns: NANOS_PER_SECOND,
            system_ns: NANOS_PER_SECOND / 5,
            ..ServerUse::default()
        });
        let mut record = RunRecord { iterations: vec![run], ..RunRecord::default() };
        let facts = serde_json::json!({ "machine": "kvm" });
        record.environment.insert("virtualisation".to_owned(), facts);
        record
    }

    fn said(record: &RunRecord) -> Option<String> {
        let mut found = Vec::new();
        find(record, &summary::levels(record), &mut found);
        found.first().map(Caution::brief)
    }

    #[test]
    fn it_is_told_with_what_a_request_costs() {
        let expected = "the server woke the load generator, which takes some microseconds of its CPU time on a virtual machine: 0.20 \
                        times per request of 12.0 µs at 20 clients; pin the server to CPUs of its own and use --spin";
        assert_eq!(said(&record(20_000)).as_deref(), Some(expected));
        assert_eq!(said(&record(10_000)), None, "4 % of a request");
    }

    #[test]
    fn it_is_not_told_where_nobody_sleeps_or_nobody_here_is_woken() {
        let changes: [fn(&mut RunRecord); 6] = [
            |record| record.environment.clear(),
            |record| drop(record.environment.insert(STAYS_AWAKE.to_owned(), true.into())),
            |record| record.spec.generator.spin = Some(false),
            |record| record.spec.load.rate = Some("100".parse().unwrap()),
            |record| record.spec.server.path = Some("rtt=1ms".parse().unwrap()),
            |record| record.iterations[0].server = None,
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut record = record(20_000);
            change(&mut record);
            assert_eq!(said(&record), None, "{at}");
        }
    }
}
