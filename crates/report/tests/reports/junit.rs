//! JUnit's XML, read by a parser that is not ours, as continuous integration reads it.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use webstone_judge::verdict;
use webstone_model::record::RunRecord;
use webstone_model::threshold::Thresholds;
use webstone_report::{Format, Options, render_all};

use crate::records;

/// An element with its attributes, what is in it, and its text.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Element>,
    text: String,
}

impl Element {
    fn begun(start: &BytesStart<'_>) -> Element {
        let attribute = |it: quick_xml::events::attributes::Attribute<'_>| {
            (it.key.as_ref().to_owned(), quick_xml::escape::unescape(&it.value).unwrap().into_owned())
        };
        Element {
            name: start.name().as_ref().to_owned(),
            attributes: start.attributes().map(|it| attribute(it.unwrap())).collect(),
            ..Element::default()
        }
    }

    fn all(&self, name: &str) -> Vec<&Element> {
        self.children.iter().filter(|child| child.name == name).collect()
    }

    fn case(&self, name: &str) -> &Element {
        self.all("testcase").into_iter().find(|case| case.attributes["name"] == name).unwrap()
    }

    fn property(&self, name: &str) -> &str {
        let properties = self.all("properties")[0].all("property");
        &properties.into_iter().find(|it| it.attributes["name"] == name).unwrap().attributes["value"]
    }

    fn count(&self, attribute: &str) -> usize {
        self.attributes[attribute].parse().unwrap()
    }
}

fn parse(xml: &str) -> Element {
    // XML 1.0, "Characters": what a document may hold at all.
    let is_legal =
        |c: char| matches!(c, '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(is_legal), "{xml}");
    let mut reader = Reader::from_str(xml);
    let mut open = vec![Element::default()];
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => open.push(Element::begun(&start)),
            Event::Empty(start) => open.last_mut().unwrap().children.push(Element::begun(&start)),
            Event::End(_) => {
                let whole = open.pop().unwrap();
                open.last_mut().unwrap().children.push(whole);
            }
            Event::Text(text) => open.last_mut().unwrap().text.push_str(&text),
            Event::GeneralRef(reference) => {
                open.last_mut().unwrap().text.push_str(&format!("&{};", &*reference));
            }
            Event::Eof => return open.pop().unwrap().children.pop().unwrap(),
            _ => {}
        }
    }
}

fn report(records: &[RunRecord], thresholds: &str) -> Element {
    let thresholds = thresholds.parse::<Thresholds>().map(|it| it.0).unwrap_or_default();
    let options = Options { thresholds, ..Options::default() };
    parse(&String::from_utf8(render_all(records, Format::Junit, &options).unwrap()).unwrap())
}

#[test]
fn a_run_is_a_suite_of_its_verdict_its_thresholds_and_its_levels() {
    let report = report(&[records::small()], "p(99)<50ms,errors<1%");
    let [suite] = report.all("testsuite")[..] else { panic!("{report:?}") };
    let names: Vec<&str> =
        suite.all("testcase").iter().map(|case| case.attributes["name"].as_str()).collect();
    let levels = ["5 clients", "10 clients", "20 clients"];
    let of = |threshold: &str| levels.map(|level| format!("{threshold} at {level}"));
    assert_eq!(names[0], "verdict");
    assert_eq!(names[1..4], of("p(99)<50ms"));
    assert_eq!(names[4..7], of("errors<1%"));
    assert_eq!(names[7..], levels);
    assert_eq!([suite.count("tests"), suite.count("failures"), suite.count("errors")], [10, 1, 0]);
    assert_eq!(suite.attributes["timestamp"], "2026-11-21T10:04:05");
    assert_eq!(suite.attributes["time"].parse::<f64>().unwrap(), 36.0);
    let failed = suite.case("p(99)<50ms at 20 clients").all("failure")[0];
    assert_eq!(failed.attributes["message"], "p(99)<50ms at 20 clients: measured 52.8 ms");
    assert!(suite.case("verdict").all("system-out")[0].text.starts_with("SOUND"));
    assert_eq!(suite.property("peak"), "20 clients");
    assert!(suite.property("requests_per_s").parse::<f64>().unwrap() > 1_800.0);
    assert!(suite.all("testcase").iter().all(|case| case.attributes["classname"].matches('.').count() == 1));
}

#[test]
fn what_makes_a_run_invalid_is_a_failure_and_what_is_void_an_error() {
    let record = records::errors();
    let report_of_errors = report(std::slice::from_ref(&record), "");
    let suite = report_of_errors.all("testsuite")[0];
    let failure = suite.case("verdict").all("failure")[0];
    let told = verdict::of_record(&record).told();
    assert_eq!((&*failure.attributes["type"], &failure.attributes["message"]), ("INVALID", &told[0]));
    assert!(suite.count("failures") >= 1);

    let report = report(&[records::void_only()], "");
    let suite = report.all("testsuite")[0];
    assert_eq!(suite.count("errors"), 1);
    let error = suite.case("10 clients").all("error")[0];
    assert!(
        error.attributes["message"].starts_with("void: 10 clients, iteration 1, attempt 1: "),
        "{error:?}"
    );
}

#[test]
fn runs_of_one_report_have_cases_of_their_own() {
    let report = report(&[records::small(), records::small(), records::hit()], "");
    let suites = report.all("testsuite");
    assert_eq!(suites.len(), 3);
    let sum: usize = suites.iter().map(|suite| suite.count("tests")).sum();
    assert_eq!(report.count("tests"), sum);
    let mut other = records::small();
    other.id = "another".to_owned();
    let report = self::report(&[records::small(), other], "");
    let mut seen = std::collections::BTreeSet::new();
    for case in report.all("testsuite").iter().flat_map(|suite| suite.all("testcase")) {
        assert!(seen.insert((&case.attributes["classname"], &case.attributes["name"])), "{case:?}");
    }
}

#[test]
fn text_of_strangers_stays_text() {
    let mut record = records::hostile();
    record.workload.name = "\u{0}\u{1b}[2J\u{fffe}]]>\r\n<failure/>&#0;".to_owned();
    let report = report(&[record], "");
    let suite = report.all("testsuite")[0];
    assert!(suite.property("workload").contains("]]>"));
    assert!(suite.property("target").contains("<script>"));
    assert_eq!(suite.all("testcase").len(), suite.count("tests"));
    for record in records::all() {
        assert!(!self::report(&[record], "rate>1").children.is_empty());
    }
}
