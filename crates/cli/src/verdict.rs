//! Whether a finished run's figures can be trusted at all: what decides between the exit codes 0 and 4.
//!
//! The report shows the same facts above its tables; this is for scripts.

use webstone_model::record::RunRecord;

/// Failed requests above this share of all that ended make a level invalid, in percent.
pub(crate) const ERRORS_PERCENT_MAX: f64 = 1.0;

/// Why the measurement is invalid: one sentence a reason, none if it is valid.
pub(crate) fn invalid(record: &RunRecord) -> Vec<String> {
    let mut reasons = Vec::new();
    let broken: usize =
        record.iterations.iter().map(|run| run.identities.iter().filter(|check| !check.holds).count()).sum();
    if broken > 0 {
        let checks = if broken == 1 { "identity is" } else { "identities are" };
        reasons.push(format!("{broken} {checks} broken: the counters contradict each other"));
    }
    if record.iterations.is_empty() {
        reasons.push("no level was measured".to_owned());
    }
    for (clients, iterations) in record.levels() {
        let succeeded: u64 = iterations.iter().map(|run| run.measured.counts.succeeded).sum();
        let failed: u64 = iterations.iter().map(|run| run.measured.counts.failed).sum();
        let percent = failed as f64 * 100.0 / (succeeded + failed).max(1) as f64;
        let level = format!("{clients} {}", if clients == 1 { "client" } else { "clients" });
        if succeeded == 0 {
            reasons.push(format!("{level}: no request succeeded"));
        } else if percent > ERRORS_PERCENT_MAX {
            reasons.push(format!(
                "{level}: {percent:.1} % of the requests failed, and more than {ERRORS_PERCENT_MAX} % is too many"
            ));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use webstone_model::identities::IdentityCheck;
    use webstone_model::metrics::Measured;
    use webstone_model::record::{IterationRecord, RunState, SCHEMA_VERSION, TargetRecord};
    use webstone_model::spec::RunSpec;
    use webstone_model::workload::Workload;

    fn iteration(clients: u32, succeeded: u64, failed: u64) -> IterationRecord {
        let mut measured = Measured { window_ns: 1_000_000_000, ..Measured::default() };
        measured.counts.succeeded = succeeded;
        measured.counts.failed = failed;
        IterationRecord {
            clients,
            iteration: 1,
            started_at: String::new(),
            interrupted: false,
            measured,
            identities: Vec::new(),
            server: None,
            ..IterationRecord::default()
        }
    }

    fn reasons(iterations: Vec<IterationRecord>) -> Vec<String> {
        invalid(&RunRecord {
            schema: SCHEMA_VERSION,
            id: String::new(),
            tool: crate::version::tool(),
            started_at: String::new(),
            finished_at: None,
            state: RunState::Complete,
            command_line: Vec::new(),
            spec: RunSpec::default(),
            workload: Workload::default(),
            workload_sha256: String::new(),
            target: TargetRecord::default(),
            environment: BTreeMap::new(),
            warnings: Vec::new(),
            iterations,
        })
    }

    #[test]
    fn one_percent_of_errors_is_still_valid() {
        assert_eq!(reasons(vec![iteration(5, 99, 1)]), Vec::<String>::new());
        assert_eq!(
            reasons(vec![iteration(5, 98, 2), iteration(1, 1, 0)]),
            ["5 clients: 2.0 % of the requests failed, and more than 1 % is too many"]
        );
    }

    #[test]
    fn nothing_measured_is_invalid() {
        assert_eq!(reasons(vec![]), ["no level was measured"]);
        assert_eq!(reasons(vec![iteration(1, 0, 7)]), ["1 client: no request succeeded"]);
    }

    #[test]
    fn a_broken_identity_is_invalid() {
        let mut broken = iteration(1, 10, 0);
        let check = |holds| IdentityCheck { number: 1, rule: String::new(), evidence: String::new(), holds };
        broken.identities = vec![check(true), check(false)];
        assert_eq!(reasons(vec![broken]), ["1 identity is broken: the counters contradict each other"]);
    }
}
