//! What several hosts had of a timed run, checked against the whole and against the hosts that the record names.

use super::{Books, distribution};
use webstone_measure::identities;
use webstone_measure::metrics::rank;
use webstone_model::generators::GeneratorPart;
use webstone_model::record::{IterationRecord, RunRecord};

/// A percentile may be off by this share, because distributions have buckets.
const BUCKET_SHARE: u64 = 256;

/// A timed run that counts.
pub(super) fn of_iteration(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    hosts(books, record, run);
    for check in identities::of_parts(run) {
        books.holds(&check.rule, check.holds, || check.evidence);
    }
    run.parts.iter().filter(|part| part.has_distribution).for_each(|part| distributed(books, part));
    if run.measured.histograms.response.is_empty() {
        return;
    }
    for (name, percentile, of) in [
        ("50th", 50.0, (|part| part.response_p50_ns) as fn(&GeneratorPart) -> u64),
        ("99th", 99.0, |part| part.response_p99_ns),
    ] {
        let of_parts = || run.parts.iter().filter(|part| part.response.count > 0).map(of);
        let (Some(least), Some(most)) = (of_parts().min(), of_parts().max()) else { continue };
        let whole = run.measured.histograms.response.value_at_percentile(percentile);
        let slack = whole / BUCKET_SHARE;
        // A percentile of all lies between the least and the greatest of those that they are made of.
        let lies = least <= whole.saturating_add(slack) && whole <= most.saturating_add(slack);
        books.holds(&format!("the {name} percentile of all hosts lies between those of each"), lies, || {
            format!("{whole} and {least} to {most} ns")
        });
    }
    for part in &run.parts {
        books.holds(
            "a part's percentiles leave room for the values of the whole",
            is_within(run, part),
            || {
                let number = part.generator.saturating_add(1);
                format!("generator {number}: {} and {} ns", part.response_p50_ns, part.response_p99_ns)
            },
        );
    }
}

/// A host whose distribution is in the record.
fn distributed(books: &mut Books, part: &GeneratorPart) {
    let name = format!("response times of generator {}", part.generator.saturating_add(1));
    distribution(books, &name, &part.response, &part.distribution);
    for (percentile, stored) in [(50.0, part.response_p50_ns), (99.0, part.response_p99_ns)] {
        let again = part.distribution.value_at_percentile(percentile);
        books.equal(&format!("{name}: the {percentile}th percentile is their distribution's"), stored, again);
    }
}

/// Whether the whole has as many values on either side of a part's percentiles as the part itself must have.
fn is_within(run: &IterationRecord, part: &GeneratorPart) -> bool {
    let own = part.response.count;
    if own == 0 {
        return true;
    }
    [(0.5, part.response_p50_ns), (0.99, part.response_p99_ns)].into_iter().all(|(quantile, value)| {
        let rank = rank(quantile, own);
        let (mut up_to, mut from) = (0_u64, 0_u64);
        for (low, width, count) in run.measured.histograms.response.buckets() {
            up_to = up_to.saturating_add(if low <= value { count } else { 0 });
            from = from.saturating_add(if low.saturating_add(width - 1) >= value { count } else { 0 });
        }
        // Ranks are rounded from doubles: one more or less is no contradiction.
        up_to.saturating_add(1) >= rank && from.saturating_add(1) > own - rank
    })
}

/// A timed run that was void: it has no totals of clients, but its parts still add up.
pub(super) fn of_void(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    hosts(books, record, run);
    for check in identities::of_parts(run) {
        books.holds(&check.rule, check.holds, || check.evidence);
    }
}

fn hosts(books: &mut Books, record: &RunRecord, run: &IterationRecord) {
    let known = record.generators.len() as u64;
    let lost = run.lost.as_ref().map(|lost| lost.generator);
    if known == 0 {
        books.holds(
            "a run that one host loads has no parts of several",
            run.parts.is_empty() && lost.is_none(),
            || format!("{} parts", run.parts.len()),
        );
        return;
    }
    let named = run.parts.iter().map(|part| part.generator).chain(lost);
    books.holds(
        "every part is of a host that the record names",
        named.clone().all(|generator| u64::from(generator) < known),
        || format!("{:?} of {known}", named.clone().collect::<Vec<_>>()),
    );
    let workers: u64 = record.generators.iter().map(|host| u64::from(host.workers)).sum();
    let groups = u64::from(run.clients.div_ceil(record.spec.client.clients_per_link()));
    // A level of few clients leaves some workers without any, and perhaps a host.
    let are_all = run.parts.len() as u64 == known || lost.is_some() || groups < workers;
    books.holds("every host has a part", are_all, || format!("{} and {known}", run.parts.len()));
    for part in &run.parts {
        let response = &part.response;
        let sound = part.response_p50_ns <= part.response_p99_ns
            && part.response_p99_ns <= response.max.saturating_add(response.max / BUCKET_SHARE)
            && response.count == part.counts.succeeded;
        books.holds("a part's response times go together", sound, || {
            format!(
                "generator {}: {} and {} ns, at most {}; {} of {}",
                part.generator.saturating_add(1),
                part.response_p50_ns,
                part.response_p99_ns,
                response.max,
                response.count,
                part.counts.succeeded
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sound_run;
    use super::super::{Books, Consistency};
    use super::*;
    use webstone_measure::metrics::{Histogram, Moments};
    use webstone_model::generators::GeneratorLoss;

    fn broken(change: impl FnOnce(&mut RunRecord)) -> Vec<String> {
        let mut record = webstone_model::fixture::record("a", &[]);
        record.iterations = vec![sound_run()];
        webstone_model::fixture::split(&mut record, 3);
        change(&mut record);
        let mut books = Books { place: String::new(), found: Consistency::default() };
        of_iteration(&mut books, &record, &record.iterations[0]);
        books.found.contradictions.into_iter().map(|found| found.rule).collect()
    }

    #[test]
    fn parts_that_are_changed_contradict_the_whole() {
        assert_eq!(broken(|_| ()), Vec::<String>::new());
        type Change = fn(&mut RunRecord);
        let changes: [(&str, Change); 11] = [
            ("a part's successes", |r| r.iterations[0].parts[1].counts.succeeded += 1),
            ("a part's errors", |r| r.iterations[0].parts[1].counts.failed += 1),
            ("a part's clients", |r| r.iterations[0].parts[0].clients += 1),
            ("a part's workers", |r| r.iterations[0].parts[0].workers += 1),
            ("a part's sum", |r| r.iterations[0].parts[0].response.sum += 1),
            ("a percentile above the other", |r| r.iterations[0].parts[0].response_p50_ns = 9_000_000),
            ("all percentiles", |r| {
                r.iterations[0].parts.iter_mut().for_each(|part| part.response_p50_ns /= 2);
            }),
            ("a part fewer", |r| drop(r.iterations[0].parts.pop())),
            ("a host fewer", |r| drop(r.generators.pop())),
            ("no host", |r| r.generators.clear()),
            ("a host that is none", |r| r.iterations[0].parts[2].generator = 7),
        ];
        for (what, change) in changes {
            assert!(!broken(change).is_empty(), "{what} was not noticed");
        }
    }

    #[test]
    fn distributions_of_hosts_that_are_changed_contradict_the_rest() {
        // Three requests of 1, 2 and 3 ms, one of each host.
        let distributed = |change: fn(&mut RunRecord)| {
            broken(|record| {
                for (part, nanos) in
                    record.iterations[0].parts.iter_mut().zip([1_000_000, 2_000_000, 3_000_000])
                {
                    let mut response = Moments::default();
                    response.record(nanos);
                    part.response = response;
                    (part.response_p50_ns, part.response_p99_ns) = (nanos, nanos);
                    part.has_distribution = true;
                    part.distribution.record(nanos);
                }
                change(record);
            })
        };
        assert_eq!(distributed(|_| ()), Vec::<String>::new());
        type Change = fn(&mut RunRecord);
        let changes: [(&str, Change); 4] = [
            ("a value more", |r| r.iterations[0].parts[1].distribution.record(2_000_000)),
            ("another value", |r| {
                r.iterations[0].parts[1].distribution = Histogram::default();
                r.iterations[0].parts[1].distribution.record(2_100_000);
            }),
            ("no line of it", |r| r.iterations[0].parts[1].distribution = Histogram::default()),
            ("another percentile", |r| r.iterations[0].parts[1].response_p99_ns = 2_900_000),
        ];
        for (what, change) in changes {
            assert!(!distributed(change).is_empty(), "{what} was not noticed");
        }
        let percentile = distributed(|r| r.iterations[0].parts[1].response_p50_ns = 1_900_000);
        assert_eq!(
            percentile,
            ["response times of generator 2: the 50th percentile is their distribution's"]
        );
    }

    #[test]
    fn a_part_that_a_lost_host_has_not_is_not_missed() {
        let found = broken(|record| {
            let run = &mut record.iterations[0];
            run.lost = Some(GeneratorLoss { generator: 2, why: "ended".to_owned() });
            run.parts.pop();
        });
        let is_missed = |found: &[String]| found.iter().any(|rule| rule == "every host has a part");
        assert!(!is_missed(&found), "{found:?}");
        let without = |clients: u32| {
            broken(|record| {
                record.generators.iter_mut().for_each(|host| host.workers = 4);
                record.iterations[0].clients = clients;
                record.iterations[0].parts.pop();
            })
        };
        assert!(is_missed(&without(12)) && !is_missed(&without(1)), "a level of one client");
        let stranger = |record: &mut RunRecord| {
            record.iterations[0].lost = Some(GeneratorLoss { generator: 3, why: "ended".to_owned() });
        };
        assert_eq!(broken(stranger), ["every part is of a host that the record names"]);
    }
}
