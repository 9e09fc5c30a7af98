//! `--quick`: a testbed file in minutes, so that every table and chart of it can be looked at.

use webstone_lab::machine::{Root, allowed_cpus};
use webstone_measure::units::Nanos;
use webstone_model::spec::RunSpec;

/// The shortest window, and the time for each client of the largest level: in a shorter one some clients get no answer from slow
/// servers. Programs on a machine that is busy with others answer a few times per second.
const WINDOW_MIN: Nanos = Nanos::from_secs(2);
const WINDOW_OF_CLIENT: Nanos = Nanos(20_000_000);
const WARMUP: Nanos = Nanos(300_000_000);

/// The same cells with the minimum load that fills every table: one short iteration of the first, the middle and the
/// last level, only with numbers of CPUs that this machine has.
pub(super) fn quick(spec: &mut RunSpec) {
    let load = &mut spec.load;
    load.iterations = 1;
    thin(&mut load.clients.0);
    if let Some(rates) = &mut load.rate {
        thin(&mut rates.0);
    }
    let most = u64::from(load.clients.0.iter().copied().max().unwrap_or_default());
    let window = WINDOW_MIN.max(Nanos(WINDOW_OF_CLIENT.0.saturating_mul(most)));
    load.duration = load.duration.min(window);
    load.warmup = load.warmup.min(WARMUP);
    if let Some(matrix) = &mut spec.series {
        let here = allowed_cpus(&Root::default()).len() as u32;
        let fewest = matrix.cpus.iter().min().copied();
        matrix.cpus.retain(|cpus| *cpus <= here || Some(*cpus) == fewest);
    }
}

/// The first, the middle and the last.
fn thin<T: Copy + PartialEq>(levels: &mut Vec<T>) {
    if let ([first, .., last], middle) = (&levels[..], levels.len() / 2) {
        let mut three = vec![*first, levels[middle], *last];
        three.dedup();
        *levels = three;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rates_are_left_of_many() {
        let mut spec = RunSpec::default();
        let mut quick = |rates: &str| {
            spec.load.rate = Some(rates.parse().unwrap());
            super::quick(&mut spec);
            spec.load.rate.clone().unwrap()
        };
        for (rates, left) in
            [("100,200,400,800,1600", "100,400,1600"), ("100,200", "100,200"), ("100", "100")]
        {
            assert_eq!(quick(rates), left.parse().unwrap());
        }
    }

    #[test]
    fn a_window_has_time_for_the_clients_of_its_largest_level() {
        let mut spec = RunSpec::default();
        (spec.load.duration, spec.load.iterations) = (Nanos::from_secs(600), 5);
        let mut quick = |levels: &str| {
            spec.load.duration = Nanos::from_secs(600);
            spec.load.clients = levels.parse().unwrap();
            super::quick(&mut spec);
            (spec.load.clients.to_string(), spec.load.duration, spec.load.iterations)
        };
        assert_eq!(quick("10..100+10,200..600+100"), ("10,80,600".to_owned(), Nanos::from_secs(12), 1));
        assert_eq!(quick("24"), ("24".to_owned(), Nanos::from_secs(2), 1));
        assert_eq!(quick("16..128+16"), ("16,80,128".to_owned(), Nanos(2_560_000_000), 1));
    }
}
