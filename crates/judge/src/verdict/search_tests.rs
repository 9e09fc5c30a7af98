//! What the verdict on a search takes from the loads that it tried: noise counts where it may have broken the SLO.

use super::*;
use webstone_model::fixture;
use webstone_model::search::{Over, SearchSpec};

/// A finished search for `avg<1s`: request rates of its timed runs with one and with two clients. Below 10 requests/s they break it.
fn search(kept: &[f64], broken: &[f64]) -> RunRecord {
    let mut record = fixture::record("f", &[(1, kept), (2, broken)]);
    let spec = SearchSpec::over(Over::Clients);
    record.spec.find = Some(SearchSpec { slo: "avg<1s".to_owned(), to: 2, repeats: 3, ..spec });
    record
}

fn doubts(record: &RunRecord) -> Vec<(Cause, Option<u32>)> {
    of_record(record).doubts.iter().map(|doubt| (doubt.cause, doubt.clients)).collect()
}

#[test]
fn iterations_that_scatter_count_only_at_the_edge() {
    // From 1,000 to 9,000 requests/s, and far from the limit.
    let (wide, narrow) = ([1_000.0, 9_000.0, 3_000.0], [5.0, 5.01, 4.99]);
    let record = search(&wide, &narrow);
    let found = crate::search::of_record(&record).unwrap();
    assert_eq!((found.kept, found.broken), (Some(1), Some(2)), "{}", found.sentence);
    assert_eq!(doubts(&record), []);
    assert_eq!(of_record(&record).standing, Standing::Sound);
    // A level that cannot be decided is the edge, and imprecise.
    let record = search(&[1_000.0, 1_001.0, 999.0], &[2.0, 9.0, 5.0]);
    let found = crate::search::of_record(&record).unwrap();
    assert_eq!((found.kept, found.edge()), (Some(1), Some(2)), "{}", found.sentence);
    assert_eq!(doubts(&record), [(Cause::Imprecise, Some(2))]);
}

#[test]
fn what_was_not_observed_counts_only_at_the_edge() {
    let unseen = |clients: u32| {
        let mut record = search(&[1_000.0, 1_001.0, 999.0], &[5.0, 5.01, 4.99]);
        for run in record.iterations.iter_mut().filter(|run| run.clients == clients) {
            run.server_missing = Some("its counters were read over 4.20 s".to_owned());
        }
        record
    };
    assert_eq!(doubts(&unseen(1)), []);
    assert_eq!(doubts(&unseen(2)), [(Cause::Unjudged, Some(2)); 3]);
}
