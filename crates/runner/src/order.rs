//! The order in which levels × iterations run (`docs/measurement.md`, "Sweep"), and the course of a search, whose next
//! step depends on what was measured. Pure.

use std::collections::BTreeMap;

use webstone_model::record::{Arm, IterationRecord};
use webstone_model::search::{Over, Search};
use webstone_model::spec::{LoadSpec, Order, RunSpec};
use webstone_model::threshold::GateError;
use webstone_model::workload::PageSequence;

/// One step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Clients of the level.
    pub clients: u32,
    /// Which of the level's iterations, from 1, counted in the order of running: (clients, iteration) names a step
    /// uniquely even where a level is listed twice.
    pub iteration: u32,
    /// Which arm of an A/A run it belongs to.
    pub arm: Option<Arm>,
}

/// The steps of a run: listed beforehand, or found on the way.
#[derive(Clone, Debug)]
pub(crate) enum Course {
    /// A sweep; the next is at this place.
    Listed(Vec<Step>, usize),
    /// A search, with the number of the record's iterations that it has taken in.
    Sought(Box<Search>, usize),
}

impl Course {
    /// The course that a specification asks for.
    ///
    /// # Errors
    /// If its search has an SLO that cannot be read.
    pub(crate) fn of(spec: &RunSpec) -> Result<Course, GateError> {
        Ok(match &spec.find {
            Some(find) => Course::Sought(Box::new(Search::new(find)?), 0),
            None => Course::Listed(steps(&spec.load, spec.client.seed), 0),
        })
    }

    /// Steps that there are; of a search, that there can be.
    pub(crate) fn most(&self) -> usize {
        match self {
            Course::Listed(steps, _) => steps.len(),
            Course::Sought(search, _) => search.spec().iterations_max() as usize,
        }
    }

    /// The next step, after what was measured.
    pub(crate) fn next(&mut self, measured: &[IterationRecord]) -> Option<Step> {
        match self {
            Course::Listed(steps, at) => {
                *at += 1;
                steps.get(*at - 1).copied()
            }
            Course::Sought(search, taken) => {
                measured.iter().skip(*taken).for_each(|run| search.observe_run(run));
                *taken = measured.len();
                let load = search.next()?;
                let clients = match search.spec().over {
                    Over::Clients => u32::try_from(load).unwrap_or(u32::MAX),
                };
                let before = measured.iter().filter(|run| run.clients == clients).count() as u32;
                Some(Step { clients, iteration: before + 1, arm: None })
            }
        }
    }
}

/// All steps in the order in which they run. The shuffle of [`Order::Random`] depends on `seed` alone.
pub fn steps(load: &LoadSpec, seed: u64) -> Vec<Step> {
    let levels = &load.clients.0;
    let iterations = load.iterations as usize;
    let mut clients: Vec<u32> = match load.order {
        Order::Sequential => {
            levels.iter().flat_map(|level| std::iter::repeat_n(*level, iterations)).collect()
        }
        Order::Interleaved | Order::Random => {
            std::iter::repeat_n(levels, iterations).flatten().copied().collect()
        }
    };
    if load.order == Order::Random {
        shuffle(&mut clients, seed);
    }
    let mut iteration_of: BTreeMap<u32, u32> = BTreeMap::new();
    let number = |clients| {
        let iteration = iteration_of.entry(clients).or_default();
        *iteration += 1;
        Step { clients, iteration: *iteration, arm: load.aa.then(|| arm(*iteration)) }
    };
    clients.into_iter().map(number).collect()
}

/// A B B A, and again: each arm's iterations lie around the same moment, so that a machine that drifts evenly drifts for
/// both alike.
fn arm(iteration: u32) -> Arm {
    if matches!(iteration % 4, 0 | 1) { Arm::A } else { Arm::B }
}

/// R. A. Fisher and F. Yates' shuffle as R. Durstenfeld computes it (CACM 7(7), 1964), on the generator that the
/// clients use; the sequence number is one that no client has.
fn shuffle(clients: &mut [u32], seed: u64) {
    let mut random = PageSequence::new(seed, u64::MAX);
    for last in (1..clients.len()).rev() {
        clients.swap(last, random.between(0, last as u64) as usize);
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
    fn no_iterations_are_no_steps() {
        assert_eq!(order(Order::Interleaved, &[8], 0, 0), []);
    }
}
