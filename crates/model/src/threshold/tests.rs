//! The grammar of conditions, its messages, and thresholds checked against records.

use super::*;
use crate::record::{HostUse, IterationRecord, TcpUse};
use webstone_measure::metrics::{ClientTotals, Counts, Measured};
use webstone_measure::units::NANOS_PER_SECOND;

fn read(text: &str) -> Vec<Threshold> {
    text.parse::<Thresholds>().unwrap_or_else(|error| panic!("{error}")).0
}

fn refused(text: &str) -> String {
    text.parse::<Thresholds>().map(|read| format!("{read:?}")).unwrap_err().to_string()
}

fn refused_change(text: &str) -> String {
    text.parse::<FailIfs>().map(|read| format!("{read:?}")).unwrap_err().to_string()
}

#[test]
fn values_are_converted_to_base_units() {
    for (text, metric, relation, limit) in [
        ("p(99)<50ms", Metric::Percentile(99.0), Relation::Below, 0.05),
        ("p(99.9) <= 1.5 s", Metric::Percentile(99.9), Relation::AtMost, 1.5),
        ("p99.9<250us", Metric::Percentile(99.9), Relation::Below, 250.0 * 1e-6),
        ("avg<2m", Metric::MEAN, Relation::Below, 120.0),
        ("med<1ms", Metric::Percentile(50.0), Relation::Below, 0.001),
        ("min>=0ns", Metric::named("min").unwrap(), Relation::AtLeast, 0.0),
        ("max<7µs", Metric::named("max").unwrap(), Relation::Below, 7.0 * 1e-6),
        ("rate>10k", Metric::RATE, Relation::Above, 10_000.0),
        ("rate>1.5m/s", Metric::RATE, Relation::Above, 1.5e6),
        ("connects>=200/s", Metric::CONNECTS, Relation::AtLeast, 200.0),
        ("errors<0.1%", Metric::ERRORS, Relation::Below, 0.1),
        ("errors<=0", Metric::ERRORS, Relation::AtMost, 0.0),
        ("throughput>100Mbit/s", Metric::THROUGHPUT, Relation::Above, 100e6),
        ("throughput>2MB/s", Metric::THROUGHPUT, Relation::Above, 16e6),
        ("server-cpu<20us", Metric::SERVER_CPU, Relation::Below, 20.0 * 1e-6),
        ("client-cpu<20us", Metric::named("client-cpu").unwrap(), Relation::Below, 20.0 * 1e-6),
    ] {
        let [one] = &read(text)[..] else { panic!("{text}") };
        assert_eq!((one.metric(), one.relation(), one.limit()), (metric, relation, limit), "{text}");
        assert_eq!(one.to_string(), text);
    }
}

#[test]
fn several_are_separated_by_commas_and_levels_are_selected_in_braces() {
    let all = read(" p(99){clients:20,40}<50ms , errors<0.1%,rate { clients : 1..4*2 } > 10");
    let texts: Vec<&str> = all.iter().map(Threshold::text).collect();
    assert_eq!(texts, ["p(99){clients:20,40}<50ms", "errors<0.1%", "rate { clients : 1..4*2 } > 10"]);
    let selected = |one: &Threshold| [1, 2, 3, 20, 40].map(|clients| one.selects(clients));
    assert_eq!(selected(&all[0]), [false, false, false, true, true]);
    assert_eq!(selected(&all[1]), [true; 5]);
    assert_eq!(selected(&all[2]), [true, true, false, false, false]);
    assert_eq!((all[0].missing_level(&[20, 40]), all[0].missing_level(&[20, 30])), (None, Some(40)));
}

#[test]
fn changes_are_signed_percent_or_percentage_points() {
    for (text, metric, limit, fails, passes) in [
        ("rate<-3%", Metric::RATE, -3.0, -3.5, -3.0),
        ("p(99)>+10%", Metric::Percentile(99.0), 10.0, 10.5, 10.0),
        ("avg > 5 %", Metric::MEAN, 5.0, 6.0, -6.0),
        ("errors>+0.1pp", Metric::ERRORS, 0.1, 0.2, 0.1),
    ] {
        let read = text.parse::<FailIfs>().unwrap().0;
        assert_eq!((read.len(), read[0].metric(), read[0].limit()), (1, metric, limit), "{text}");
        assert!(read[0].holds(fails) && !read[0].holds(passes), "{text}");
    }
}

#[test]
fn an_error_names_the_column_the_rule_and_the_remedy() {
    let names: Vec<&str> = Metric::names().into_iter().map(|(name, _)| name).collect();
    let all = {
        let (last, others) = names.split_last().unwrap();
        format!("{} or {last}", others.join(", "))
    };
    assert!(all.starts_with("rate, connects, throughput, avg, med, p(99), errors, "), "{all}");
    for (text, message) in [
        ("", "``, column 1: a figure is expected here; write FIGURES"),
        (
            "latency<5ms",
            "`latency<5ms`, column 1: `latency` is not a figure; write avg, med or p(99): response times",
        ),
        (
            "p(99)<50",
            "`p(99)<50`, column 9: the limit of `p(99)` needs a unit; write ns, us, ms, s or m after the number",
        ),
        (
            "p(99)<50ms,rate",
            "`p(99)<50ms,rate`, column 16: a relation is expected after `rate`; write <, <=, > or >=",
        ),
        (
            "p(0)<1s",
            "`p(0)<1s`, column 3: a percentile is above 0 and at most 100; write p(50), p(99) or p(99.9)",
        ),
        ("p(99<1s", "`p(99<1s`, column 5: the percentile has no closing bracket; write it as in p(99)"),
        ("p<1s", "`p<1s`, column 1: a percentile has a number; write p(99)"),
        (
            "errors<0.01",
            "`errors<0.01`, column 12: the limit of `errors` needs a unit; write % after the number: it is a share",
        ),
        (
            "rate>5ms",
            "`rate>5ms`, column 7: `ms` is not a unit of `rate`; write the number alone, or with k, m or /s after it",
        ),
        (
            "rate==5",
            "`rate==5`, column 5: a measured value is hardly ever equal to anything; write <, <=, > or >=",
        ),
        (
            "rate<-3%",
            "`rate<-3%`, column 6: a limit has no sign; write the value itself; changes are for --fail-if",
        ),
        (
            "rate>1..2",
            "`rate>1..2`, column 6: `1..2` is not a number below 10^18; write digits, with a point before decimals",
        ),
        (
            "rate{40}>1",
            "`rate{40}>1`, column 6: levels are selected by their number of clients; write the levels as in {clients:40} or {clients:20..100+10}",
        ),
        (
            "rate{clients:x}>1",
            "`rate{clients:x}>1`, column 14: `x` names no levels; write the levels as in {clients:40} or {clients:20..100+10}",
        ),
        (
            "rate{clients:4>1",
            "`rate{clients:4>1`, column 17: the selection has no closing brace; write the levels as in {clients:40} or {clients:20..100+10}",
        ),
        (
            "rate>1 rate>2",
            "`rate>1 rate>2`, column 8: `rate` is not a unit of `rate`; write the number alone, or with k, m or /s after it",
        ),
        (
            "avg<1s!",
            "`avg<1s!`, column 7: nothing but a comma and another condition can follow here; write one condition, or several separated by commas",
        ),
        ("größe<1s", "`größe<1s`, column 1: `größe` is not a figure; write FIGURES"),
    ] {
        assert_eq!(refused(text), message.replace("FIGURES", &all));
    }
    assert_eq!(
        refused_change("rate<-3"),
        "`rate<-3`, column 8: the change of `rate` needs its unit, %; write a change against the baseline in percent, as in rate<-3% or p(99)>+10%"
    );
    assert_eq!(
        refused_change("errors>+1%"),
        "`errors>+1%`, column 10: `%` is not the unit of a change of `errors`; write percentage points, as in errors>+0.1pp: there may be no errors to compare with"
    );
    assert!(refused_change("rate<-+3%").contains("column 8: one sign is enough"));
}

fn record() -> RunRecord {
    let mut record = crate::fixture::record("r", &[]);
    for (clients, succeeded) in [(2, 100), (4, 300), (2, 200)] {
        let mut measured = Measured {
            window_ns: 1_000_000_000,
            counts: Counts { succeeded, ..Counts::default() },
            ..Measured::default()
        };
        for _ in 0..succeeded {
            measured.response.record(u64::from(clients) * 1_000_000);
        }
        record.iterations.push(IterationRecord { clients, measured, ..IterationRecord::default() });
    }
    record
}

#[test]
fn a_threshold_is_checked_for_each_level_as_a_whole() {
    let outcomes = evaluate(&read("rate>200,avg{clients:4}<=4ms,p(99)<1s"), &record());
    let seen: Vec<_> =
        outcomes.iter().map(|one| (one.threshold.as_str(), one.clients, one.measured, one.passed)).collect();
    assert_eq!(
        seen,
        [
            // 300 responses in two windows of one second.
            ("rate>200", 2, Some(150.0), false),
            ("rate>200", 4, Some(300.0), true),
            ("avg{clients:4}<=4ms", 4, Some(0.004), true),
            // There are no histograms: an unknown value keeps no threshold.
            ("p(99)<1s", 2, None, false),
            ("p(99)<1s", 4, None, false),
        ]
    );
}

/// One hung client of five is hidden by the other four in every figure that counts requests.
#[test]
fn a_hung_client_breaks_what_the_others_keep() {
    let mut run = IterationRecord { clients: 5, ..IterationRecord::default() };
    run.measured.window_ns = 10 * NANOS_PER_SECOND;
    run.measured.clients = vec![ClientTotals::default(); 5];
    run.measured.counts.succeeded = 4_000;
    for _ in 0..4_000 {
        run.measured.response.record(10_000_000);
        run.measured.histograms.response.record(10_000_000);
    }
    let outcomes = |run: &IterationRecord| {
        let mut record = crate::fixture::record("r", &[]);
        record.iterations.push(run.clone());
        evaluate(&read("p(99)<50ms,errors<1%,avg<50ms,p(99)>0s"), &record)
    };
    assert!(outcomes(&run).iter().all(|outcome| outcome.passed && outcome.unanswered_percent.is_none()));
    run.measured.unanswered.request_in_flight(10 * NANOS_PER_SECOND, false);
    let found = outcomes(&run);
    assert_eq!(found.iter().map(|outcome| outcome.passed).collect::<Vec<_>>(), [false, false, true, true]);
    // By number of requests it is invisible, but it had a fifth of the clients' time.
    assert!(found[0].measured.is_some_and(|p99| p99 < 0.0101), "{found:?}");
    for outcome in &found[..2] {
        let share = outcome.unanswered_percent.unwrap();
        assert!((share - 20.0).abs() < 0.1, "{outcome:?}");
    }
    // A search for an SLO gets a value that breaks it.
    let reading = Reading::of_run(&run);
    let seen: Vec<f64> =
        read("p(99)<50ms,errors<1%,avg<50ms").iter().filter_map(|one| one.value(&reading)).collect();
    assert!(seen[0] >= 10.0 && (seen[1] - 20.0).abs() < 0.1 && seen[2] < 0.05, "{seen:?}");
}

#[test]
fn a_threshold_on_retransmissions_is_of_their_number() {
    let limit = &"retransmissions<1".parse::<Thresholds>().unwrap().0[0];
    let keeps = |retransmitted| {
        let tcp = Some(TcpUse { retransmitted, ..TcpUse::default() });
        let counts = Counts { succeeded: 900, failed: 100, ..Counts::default() };
        let run = IterationRecord {
            host: Some(HostUse { elapsed_ns: 2_000_000_000, tcp, ..HostUse::default() }),
            measured: Measured { window_ns: 2_000_000_000, counts, ..Measured::default() },
            ..IterationRecord::default()
        };
        limit.relation().holds(limit.metric().value(&Reading::of_run(&run)).unwrap(), limit.limit())
    };
    assert!(keeps(0) && !keeps(1), "1 for 1,000 requests is not below 1");
}
