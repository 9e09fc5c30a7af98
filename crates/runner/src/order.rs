//! The order in which levels × iterations run (`docs/measurement.md`, "Sweep"), and the course of a search, whose next
//! step depends on what was measured. Pure.

use std::collections::BTreeMap;

use webstone_judge::search::Search;
use webstone_measure::keys::{IterationKey, LevelKey};
use webstone_measure::rate::RateProfile;
use webstone_model::record::{Arm, IterationRecord, RunRecord};
use webstone_model::spec::{LoadSpec, Order, RunSpec};
use webstone_model::threshold::GateError;
use webstone_workload::PageSequence;

/// One step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Clients of the level.
    pub clients: u32,
    /// Open loop: its rate.
    pub rate: Option<RateProfile>,
    /// Which of the level's iterations, from 1, counted in the order of running: its key names a step uniquely even where a
    /// level is listed twice.
    pub iteration: u32,
    /// Which arm of an A/A run it belongs to.
    pub arm: Option<Arm>,
}

impl Step {
    /// Which iteration it makes.
    pub fn key(&self) -> IterationKey {
        IterationKey::new(LevelKey::new(self.clients, self.rate), self.iteration)
    }
}

/// The steps of a run: listed beforehand, or found on the way.
#[derive(Clone, Debug)]
pub(crate) enum Steps {
    /// A sweep; the next is at this place.
    Listed(Vec<Step>, usize),
    /// A search, with the number of the record's iterations that it has taken in.
    Sought(Box<Search>, usize),
}

impl Steps {
    /// The steps that a specification asks for.
    ///
    /// # Errors
    /// If its search has an SLO that cannot be read.
    pub(crate) fn of_spec(spec: &RunSpec) -> Result<Steps, GateError> {
        Ok(match &spec.find {
            Some(find) => Steps::Sought(Box::new(Search::new(find)?), 0),
            None => Steps::Listed(steps(&spec.load, spec.client.seed), 0),
        })
    }

    /// Number of steps; of a search, the maximum.
    pub(crate) fn most(&self) -> usize {
        match self {
            Steps::Listed(steps, _) => steps.len(),
            Steps::Sought(search, _) => webstone_judge::search::iterations_max(search.spec()) as usize,
        }
    }

    /// Whether a void timed run is repeated. A search does not repeat one that shows something in spite of it.
    pub(crate) fn repeats(&self, record: &RunRecord, run: &IterationRecord) -> bool {
        match self {
            Steps::Listed(..) => true,
            Steps::Sought(search, _) => search.is_in_doubt(record, run),
        }
    }

    /// Repeats a step whose timed run was void: in a sweep at the end, because what disturbed it may not be over; a search
    /// asks for the same load again by itself.
    pub(crate) fn again(&mut self, step: Step) {
        if let Steps::Listed(steps, _) = self {
            steps.push(step);
        }
    }

    /// The search, where it is one.
    pub(crate) fn search(&mut self) -> Option<&mut Search> {
        match self {
            Steps::Listed(..) => None,
            Steps::Sought(search, _) => Some(search),
        }
    }

    /// The next step, after what was measured.
    pub(crate) fn next(&mut self, record: &RunRecord) -> Option<Step> {
        let measured = &record.iterations;
        match self {
            Steps::Listed(steps, at) => {
                *at += 1;
                steps.get(*at - 1).copied()
            }
            Steps::Sought(search, taken) => {
                measured.iter().skip(*taken).for_each(|run| search.observe_run(record, run));
                *taken = measured.len();
                let load = search.next()?;
                let clients = search.spec().clients_at(load);
                let rate = search.spec().rate_at(load);
                let level = search.spec().over.level(load);
                let before = measured.iter().filter(|run| run.level() == level).count();
                Some(Step { clients, rate, iteration: before as u32 + 1, arm: None })
            }
        }
    }
}

/// All steps in the order in which they run. The shuffle of [`Order::Random`] depends on `seed` alone.
pub fn steps(load: &LoadSpec, seed: u64) -> Vec<Step> {
    let levels = &levels(load);
    let iterations = load.iterations as usize;
    let mut order: Vec<Load> = match load.order {
        Order::Sequential => {
            levels.iter().flat_map(|level| std::iter::repeat_n(*level, iterations)).collect()
        }
        Order::Interleaved | Order::Random => {
            std::iter::repeat_n(levels, iterations).flatten().copied().collect()
        }
    };
    if load.order == Order::Random {
        shuffle(&mut order, seed);
    }
    let mut iteration_of: BTreeMap<Load, u32> = BTreeMap::new();
    let number = |(clients, rate)| {
        let iteration = iteration_of.entry((clients, rate)).or_default();
        *iteration += 1;
        Step { clients, rate, iteration: *iteration, arm: load.aa.then(|| arm(*iteration)) }
    };
    order.into_iter().map(number).collect()
}

/// Clients and rate of a level.
type Load = (u32, Option<RateProfile>);

/// The levels as they are listed: of rates, which share one number of clients, or of clients.
fn levels(load: &LoadSpec) -> Vec<Load> {
    let clients = &load.clients.0;
    match &load.rate {
        Some(rates) => rates
            .0
            .iter()
            .flat_map(|rate| clients.iter().max().map(|clients| (*clients, Some(*rate))))
            .collect(),
        None => clients.iter().map(|clients| (*clients, None)).collect(),
    }
}

/// A B B A, and again: each arm's iterations lie around the same moment, so that a machine that drifts evenly drifts for
/// both alike.
fn arm(iteration: u32) -> Arm {
    if matches!(iteration % 4, 0 | 1) { Arm::A } else { Arm::B }
}

/// R. A. Fisher and F. Yates' shuffle as R. Durstenfeld computes it (CACM 7(7), 1964), on the generator that the
/// clients use; the sequence number is one that no client has.
fn shuffle(levels: &mut [Load], seed: u64) {
    let mut random = PageSequence::new(seed, u64::MAX);
    for last in (1..levels.len()).rev() {
        levels.swap(last, random.between(0, last as u64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::spec::Levels;

    fn order(order: Order, levels: &[u32], iterations: u32, seed: u64) -> Vec<(u32, u32)> {
        let load = LoadSpec { clients: Levels(levels.to_vec()), iterations, order, ..LoadSpec::default() };
        steps(&load, seed).into_iter().map(|step| (step.clients, step.iteration)).collect()
    }

    #[test]
    fn interleaved_runs_every_level_before_the_next_iteration() {
        assert_eq!(
            order(Order::Interleaved, &[1, 2, 4], 2, 0),
            [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2)]
        );
    }

    #[test]
    fn sequential_finishes_a_level_first() {
        assert_eq!(
            order(Order::Sequential, &[1, 2, 4], 2, 0),
            [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (4, 2)]
        );
    }

    #[test]
    fn random_is_a_permutation_that_the_seed_fixes() {
        let levels: Vec<u32> = (1..=20).collect();
        let first = order(Order::Random, &levels, 3, 7);
        assert_eq!(first, order(Order::Random, &levels, 3, 7));
        assert_ne!(first, order(Order::Random, &levels, 3, 8));
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, order(Order::Sequential, &levels, 3, 0));
        assert_ne!(first, sorted);
        // Iterations of one level are numbered as they run.
        let of_five: Vec<u32> = first.iter().filter(|(c, _)| *c == 5).map(|(_, i)| *i).collect();
        assert_eq!(of_five, [1, 2, 3]);
    }

    #[test]
    fn a_level_listed_twice_gets_further_iterations() {
        assert_eq!(order(Order::Sequential, &[8, 8], 1, 0), [(8, 1), (8, 2)]);
    }

    #[test]
    fn arms_lie_around_the_same_moment() {
        let load = LoadSpec { clients: Levels(vec![1, 2]), iterations: 8, aa: true, ..LoadSpec::default() };
        let steps = steps(&load, 0);
        let arms = |clients| -> Vec<u32> {
            let of_a = steps.iter().filter(|step| step.clients == clients && step.arm == Some(Arm::A));
            of_a.map(|step| step.iteration).collect()
        };
        assert_eq!((arms(1), arms(2)), (vec![1, 4, 5, 8], vec![1, 4, 5, 8]));
        assert!(steps.iter().all(|step| step.arm.is_some()));
    }

    #[test]
    fn an_open_loop_sweeps_over_its_rates() {
        let load = LoadSpec {
            clients: Levels(vec![64]),
            rate: Some("2k,1k".parse().unwrap()),
            iterations: 2,
            ..LoadSpec::default()
        };
        let found: Vec<(u32, String, u32)> = steps(&load, 0)
            .into_iter()
            .map(|step| (step.clients, step.rate.unwrap().to_string(), step.iteration))
            .collect();
        let step = |rate: &str, iteration| (64, rate.to_owned(), iteration);
        assert_eq!(found, [step("2000", 1), step("1000", 1), step("2000", 2), step("1000", 2)]);
    }

    #[test]
    fn no_iterations_are_no_steps() {
        assert_eq!(order(Order::Interleaved, &[8], 0, 0), []);
    }
}
