//! Single values as they are typed on a command line, conditions among them. Every parser sees every input.

use webstone_measure::units::{Nanos, parse_count};
use webstone_model::spec::{Levels, parse_cpu_list};
use webstone_model::threshold::{FailIfs, Thresholds};
use webstone_workload::alt_svc::offer_of_h3;

/// Levels, durations, counts, lists of CPUs, and offers of Alt-Svc.
pub(crate) fn values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(levels) = text.parse::<Levels>() {
        assert!(!levels.0.is_empty() && levels.0.iter().all(|clients| *clients > 0));
        assert_eq!(levels.to_string().parse::<Levels>().as_ref(), Ok(&levels));
    }
    if let Ok(nanos) = text.parse::<Nanos>() {
        assert_eq!(nanos.to_string().parse::<Nanos>(), Ok(nanos));
    }
    if let Ok(count) = parse_count(text) {
        assert_eq!(parse_count(&count.to_string()), Ok(count));
    }
    if let Ok(thresholds) = text.parse::<Thresholds>() {
        for threshold in &thresholds.0 {
            assert!(threshold.limit() >= 0.0);
            let again = threshold.text().parse::<Thresholds>();
            assert_eq!(again, Ok(Thresholds(vec![threshold.clone()])));
        }
    }
    match text.parse::<FailIfs>() {
        Ok(conditions) => assert!(conditions.0.iter().all(|one| one.limit().is_finite())),
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}"),
    }
    if let Some(offer) = offer_of_h3([text]) {
        assert_eq!(offer_of_h3([&*offer.text]).as_ref(), Some(&offer));
    }
    if let Ok(cpus) = parse_cpu_list(text) {
        assert!(cpus.iter().all(|cpu| *cpu < 4096));
    }
}
