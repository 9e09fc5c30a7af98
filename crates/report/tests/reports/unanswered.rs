//! Requests without an answer: what every format makes of the time that they waited.

use webstone_model::record::RunRecord;
use webstone_report::{Format, Options, render};

use crate::records;

const WAITED_NS: u64 = 6_000_000_000;

fn text(record: &RunRecord, format: Format, options: &Options) -> String {
    String::from_utf8(render(record, format, options).unwrap()).unwrap()
}

/// [`records::small`], with clients that hang at every level.
fn hung() -> RunRecord {
    let mut record = records::small();
    for run in &mut record.iterations {
        (0..1_000).for_each(|_| run.measured.unanswered.request_in_flight(WAITED_NS, false));
        run.measured.counts.in_flight += 1_000;
    }
    record
}

/// Mean, maximum and count of the last lines, and the highest value of a row.
fn summed(hgrm: &str) -> [f64; 4] {
    let number = |label: &str| -> f64 {
        let rest = hgrm.split(label).nth(1).unwrap().trim_start_matches([' ', '=']);
        rest.split([',', ']']).next().unwrap().trim().parse().unwrap()
    };
    let mut rows = hgrm.lines().filter(|line| line.contains(" 1.000000000000 "));
    let last = rows.next_back().unwrap().split_whitespace().next().unwrap().parse().unwrap();
    [number("#[Mean"), number("#[Max"), number("Total count"), last]
}

#[test]
fn percentile_texts_include_those_that_waited() {
    let (sound, hung) = (records::small(), hung());
    let of = |record: &RunRecord, name: &str| {
        let options = Options { histogram: name.to_owned(), ..Options::default() };
        text(record, Format::Hgrm, &options)
    };
    for name in ["first-byte", "response"] {
        let [before, after] = [of(&sound, name), of(&hung, name)];
        let said = "#[with the time that those waited that were not answered]";
        assert!(after.contains(said), "{after}");
        let ([_, _, answered, _], [mean, max, all, last]) = (summed(&before), summed(&after));
        assert_eq!((max, last), (6_000.0, 6_000.0), "{name}");
        // Some were in flight before.
        assert!(all >= answered + 2_000.0 && mean > 300.0, "{name}: {all} of {answered}, mean {mean}");
    }
    // Nothing that matters waited.
    for made in [of(&hung, "connect"), of(&sound, "response")] {
        assert!(!made.contains("not answered"), "{made}");
    }
}

#[test]
fn charts_include_those_that_waited_and_say_so() {
    let included = "Waits without an answer are part of: time to first byte, latency";
    let longer = "Mean times per answered request. The mean latency is longer";
    let sum = "they add up to the mean latency";
    let page = text(&hung(), Format::Html, &Options::default());
    assert!(page.contains(included) && page.contains(longer) && !page.contains(sum));
    let page = text(&records::small(), Format::Html, &Options::default());
    assert!(!page.contains(included) && !page.contains(longer) && page.contains(sum));
}
