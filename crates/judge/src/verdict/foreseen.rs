//! The run rules that a plan decides, before anything is measured: by the same rules as a record, applied to one that is as
//! planned. What only a measurement tells is left out.

use webstone_measure::units::Nanos;
use webstone_model::record::{IterationRecord, RunRecord, RunState, SCHEMA_VERSION};
use webstone_model::spec::RunSpec;
use webstone_workload::Workload;
use webstone_workload::builtin;

use super::{RuleResult, RuleStanding, rules};

/// Rules that a specification meets or breaks by itself.
const PLANNED: [&str; 5] =
    ["standard-workload", "ten-minutes", "client-range", "connections", "three-iterations"];

/// The rules that a plan decides, with what a record of it would say. A search plans no levels: of it only the workload and the
/// connections are known.
pub fn foreseen(spec: &RunSpec) -> Vec<RuleResult> {
    let record = as_planned(spec);
    let mut decided = rules(&record);
    let needs_levels =
        |rule: &RuleResult| matches!(rule.id.as_str(), "ten-minutes" | "client-range" | "three-iterations");
    decided.retain(|rule| PLANNED.contains(&rule.id.as_str()));
    decided.retain(|rule| !(record.iterations.is_empty() && needs_levels(rule)));
    if !spec.load.aa {
        // With two arms only the measurement tells how far they lie apart.
        decided.extend(rules(&record).into_iter().filter(|rule| rule.id == "noise-floor"));
        decided.iter_mut().filter(|rule| rule.id == "noise-floor").for_each(|rule| {
            rule.standing = RuleStanding::NotMet;
        });
    }
    decided
}

/// A record of a run that went as planned and measured nothing.
fn as_planned(spec: &RunSpec) -> RunRecord {
    let named = || Workload { name: spec.workload.clone(), ..Workload::default() };
    let workload = builtin(&spec.workload).unwrap_or_else(named);
    RunRecord {
        schema: SCHEMA_VERSION,
        state: RunState::Complete,
        spec: spec.clone(),
        workload_sha256: workload.sha256(),
        workload,
        iterations: planned(spec),
        ..RunRecord::default()
    }
}

/// The timed runs as planned, empty.
fn planned(spec: &RunSpec) -> Vec<IterationRecord> {
    if spec.find.is_some() || spec.load.duration == Nanos::ZERO {
        return Vec::new();
    }
    let load = &spec.load;
    let levels: Vec<(u32, _)> = match &load.rate {
        Some(rates) => {
            rates.0.iter().map(|rate| (load.clients.0.first().copied().unwrap_or(1), Some(*rate))).collect()
        }
        None => load.clients.0.iter().map(|clients| (*clients, None)).collect(),
    };
    let mut runs = Vec::new();
    for (clients, rate) in levels {
        for iteration in 1..=load.iterations {
            let mut run = IterationRecord { clients, rate, iteration, ..IterationRecord::default() };
            run.measured.window_ns = load.duration.0;
            runs.push(run);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use webstone_model::spec::{ConnectionPolicy, Levels};

    use super::*;

    fn standing(spec: &RunSpec, id: &str) -> Option<RuleStanding> {
        foreseen(spec).into_iter().find(|rule| rule.id == id).map(|rule| rule.standing)
    }

    #[test]
    fn a_plan_by_the_rules_breaks_none_that_it_decides() {
        let mut spec = RunSpec::default();
        spec.load.clients = Levels(vec![20, 30, 40, 50, 60, 70, 80, 90, 100]);
        spec.load.duration = Nanos::from_secs(600);
        spec.load.iterations = 6;
        spec.load.aa = true;
        let rules = foreseen(&spec);
        assert_eq!(rules.len(), PLANNED.len());
        assert!(rules.iter().all(|rule| rule.standing == RuleStanding::Met), "{rules:?}");
    }

    #[test]
    fn what_breaks_a_rule_is_known_before() {
        let mut spec = RunSpec::default();
        spec.client.connections = ConnectionPolicy::KeepAlive;
        spec.workload = "./own.toml".to_owned();
        for id in [
            "standard-workload",
            "ten-minutes",
            "client-range",
            "connections",
            "three-iterations",
            "noise-floor",
        ] {
            assert_eq!(standing(&spec, id), Some(RuleStanding::NotMet), "{id}");
        }
        spec.load.duration = Nanos::ZERO;
        assert_eq!(standing(&spec, "ten-minutes"), None, "pages end the level, whenever that is");
    }
}
