//! Tests of the miner as a whole.

use super::super::read;
use super::*;
use proptest::prelude::*;

fn line(client: &str, second: u32, method: &str, url: &str, status: u16, size: &str) -> String {
    format!(
        "{client} - - [10/Oct/2000:13:55:{second:02} -0700] \"{method} {url} HTTP/1.1\" {status} {size}\n"
    )
}

fn get(url: &str, size: &str) -> String {
    line("h", 0, "GET", url, 200, size)
}

fn mined(log: &[u8], options: MineOptions) -> MineOutcome {
    let mut miner = Miner::new(options);
    miner.begin("access.log");
    miner.push(log);
    miner.finish()
}

fn rows(outcome: &MineOutcome) -> Vec<(u64, Vec<&str>, Option<u64>)> {
    outcome
        .workload
        .pages
        .iter()
        .map(|page| (page.weight, page.files.iter().map(|f| &*f.url).collect(), page.files[0].size))
        .collect()
}

/// The sum in the description of [`MineReport`].
fn accounted(report: &MineReport) -> u64 {
    report.blank
        + report.directives
        + report.unparsed
        + report.hits
        + report.partial
        + report.not_modified
        + report.other_statuses.values().sum::<u64>()
        + report.other_methods.values().sum::<u64>()
        + report.unusable
        + report.overflow
}

#[test]
fn hits_become_weights_and_the_rest_is_counted_apart() {
    let log = [
        get("/b", "5"),
        get("/a?x=1", "7"),
        get("/a?x=1", "7"),
        get("/a?x=1", "8"),
        get("/b", "-"),
        get("/c", "-"),
        line("h", 0, "GET", "/a", 206, "3"),
        line("h", 0, "GET", "/a", 304, "-"),
        line("h", 0, "GET", "/a", 404, "9"),
        line("h", 0, "HEAD", "/a", 200, "0"),
        line("h", 0, "POST", "/a", 200, "1"),
        line("h", 0, "POST", "/a", 200, "1"),
        get("*", "0"),
        "\n".into(),
        "nonsense \u{1b}\n".into(),
    ]
    .concat();
    let outcome = mined(log.as_bytes(), MineOptions::default());
    assert_eq!(
        rows(&outcome),
        [(3, vec!["/a?x=1"], Some(7)), (2, vec!["/b"], Some(5)), (1, vec!["/c"], None)]
    );
    let report = &outcome.report;
    assert_eq!((report.lines, report.hits, report.partial, report.not_modified), (15, 6, 1, 1));
    assert_eq!((report.blank, report.unusable, report.unparsed, report.sizeless_files), (1, 1, 1, 1));
    assert_eq!(report.other_statuses, [(404, 1)].into());
    assert_eq!(report.other_methods, [("HEAD".to_owned(), 1), ("POST".to_owned(), 2)].into());
    assert_eq!(accounted(report), 15);
    let shown = report.unparsed_examples[0].to_string();
    assert_eq!(
        shown,
        "access.log:15: expected a time in brackets, as in [10/Oct/2000:13:55:36 -0700]: nonsense \\u{1b}"
    );
    // The result is a workload that can be written and read.
    let list = crate::to_webstone2(&outcome.workload).unwrap();
    assert_eq!(read(list, "mined").unwrap(), outcome.workload);
}

#[test]
fn logs_of_several_formats_are_mined_together() {
    let json = r#"{"time":"2025-10-10T13:55:36+02:00","request":"GET /j.html HTTP/1.1","status":200,"body_bytes_sent":42}"#;
    let caddy =
        r#"{"ts":1700000000.1,"request":{"method":"GET","uri":"/caddy.html"},"status":200,"size":43}"#;
    let w3c = "#Software: IIS\r\n#Version: 1.0\r\n#Fields: date time cs-method cs-uri-stem cs-uri-query sc-status sc-bytes\r\n\
               2025-10-10 13:55:36 GET /iis.htm - 200 44\r\n2025-10-10 13:55:36 GET /iis.htm q 404 1\r\n\
               #Fields: sc-status cs-method cs-uri-stem\n200 GET /other\n# remark\n#Fields: date\nx\n";
    let mut miner = Miner::new(MineOptions::default());
    for log in [format!("{json}\n{caddy}\n{json}\n"), w3c.to_owned(), get("/a", "5")] {
        miner.begin("log");
        miner.push(log.as_bytes());
    }
    let outcome = miner.finish();
    assert_eq!(
        rows(&outcome),
        [
            (2, vec!["/j.html"], Some(42)),
            (1, vec!["/a"], Some(5)),
            (1, vec!["/caddy.html"], Some(43)),
            (1, vec!["/iis.htm"], None),
            (1, vec!["/other"], None),
        ]
    );
    let report = &outcome.report;
    assert_eq!((report.lines, report.directives, report.unparsed), (14, 4, 3), "{report:?}");
    assert_eq!(accounted(report), 14);
    let expected: Vec<&str> = report.unparsed_examples.iter().map(|example| example.expected).collect();
    assert_eq!(
        expected,
        [
            "expected a line of a log, not a comment",
            "expected #Fields with cs-method, cs-uri-stem and sc-status",
            "expected a time in brackets, as in [10/Oct/2000:13:55:36 -0700]"
        ]
    );
}

#[test]
fn queries_may_be_dropped() {
    let log = [get("/a?x=1", "7"), get("/a?x=2", "7"), get("/a", "7")].concat();
    let options = MineOptions { keep_query: false, ..MineOptions::default() };
    assert_eq!(rows(&mined(log.as_bytes(), options)), [(3, vec!["/a"], Some(7))]);
}

/// Debian's Apache httpd logs `%O`: the size of the whole answer.
#[test]
fn sizes_may_be_left_out() {
    let log = [get("/a", "757"), get("/b", "1284")].concat();
    let options = MineOptions { takes_sizes: false, ..MineOptions::default() };
    let outcome = mined(log.as_bytes(), options);
    assert_eq!(rows(&outcome), [(1, vec!["/a"], None), (1, vec!["/b"], None)]);
    assert_eq!(outcome.report.sizeless_files, 2);
}

#[test]
fn the_tail_is_counted() {
    let log: String = (0..10).flat_map(|n| (0..=n).map(move |_| get(&format!("/{n}"), "1"))).collect();
    let options = MineOptions { pages_max: Some(2), ..MineOptions::default() };
    let outcome = mined(log.as_bytes(), options);
    assert_eq!(rows(&outcome), [(10, vec!["/9"], Some(1)), (9, vec!["/8"], Some(1))]);
    assert_eq!((outcome.report.urls, outcome.report.tail_pages, outcome.report.tail_hits), (10, 8, 36));
}

#[test]
fn urls_beyond_the_limit_are_counted() {
    let log: String = (0..10).map(|n| get(&format!("/{n}"), "1")).collect::<String>().repeat(2);
    let options = MineOptions { urls_max: 4, ..MineOptions::default() };
    let outcome = mined(log.as_bytes(), options);
    assert_eq!((outcome.report.urls, outcome.report.hits, outcome.report.overflow), (4, 8, 12));
    let options = MineOptions { url_bytes_max: 7, ..MineOptions::default() };
    assert_eq!(mined(log.as_bytes(), options).report.urls, 3);
}

#[test]
fn sessions_become_pages() {
    let log = [
        line("a", 10, "GET", "/", 200, "100"),
        line("b", 10, "GET", "/x.html", 200, "200"),
        line("a", 10, "GET", "/logo.gif", 200, "10"),
        line("a", 11, "GET", "/style.css", 200, "20"),
        line("b", 20, "GET", "/logo.gif", 200, "10"),
        line("c", 30, "GET", "/", 200, "100"),
        line("c", 30, "GET", "/style.css", 200, "20"),
        line("c", 30, "GET", "/logo.gif", 200, "10"),
    ]
    .concat();
    let options = MineOptions { sessions: true, ..MineOptions::default() };
    let outcome = mined(log.as_bytes(), options);
    assert_eq!(
        rows(&outcome),
        [
            (2, vec!["/", "/logo.gif", "/style.css"], Some(100)),
            (1, vec!["/logo.gif"], Some(10)),
            (1, vec!["/x.html"], Some(200)),
        ]
    );
    assert_eq!(outcome.report.hits, 8);
    assert_eq!(read(crate::to_toml(&outcome.workload), "mined.toml").unwrap(), outcome.workload);
}

#[test]
fn sessions_are_found_by_the_date_of_the_log_and_by_nanoseconds() {
    let of = |log: &str| {
        let outcome = mined(log.as_bytes(), MineOptions { sessions: true, ..MineOptions::default() });
        let files = outcome.workload.pages.iter().map(|page| page.files.len()).collect::<Vec<_>>();
        (files, outcome.report.timeless)
    };
    let columns = "#Fields: time c-ip cs-method cs-uri-stem sc-status\n";
    let lines = "13:55:36 192.0.2.1 GET /index.html 200\n13:55:37 192.0.2.1 GET /logo.gif 200\n";
    assert_eq!(of(&format!("#Date: 2025-10-10 13:55:36\n{columns}{lines}")), (vec![2], 0));
    // Without the day nothing is known of the time, and that is told.
    assert_eq!(of(&format!("{columns}{lines}")), (vec![1, 1], 2));
    assert_eq!(of(&format!("#Date: yesterday, 13:55\n{columns}{lines}")), (vec![1, 1], 2));
    let json = |ns: u64, url: &str| {
        format!("{{\"time\":{ns},\"client\":\"a\",\"method\":\"GET\",\"uri\":\"{url}\",\"status\":200}}\n")
    };
    let start = 1_760_104_536_250_000_000;
    assert_eq!(of(&[json(start, "/"), json(start + 300_000_000, "/logo.gif")].concat()), (vec![2], 0));
}

#[test]
fn the_order_of_logs_changes_no_page() {
    let log = |second: u32| {
        let of = |after: u32, url| line("a", second + after, "GET", url, 200, "10");
        [of(0, "/"), of(0, "/logo.gif"), of(1, "/style.css"), of(9, "/"), of(9, "/logo.gif")].concat()
    };
    let mined = |logs: [(&str, &str); 2]| {
        let mut miner = Miner::new(MineOptions { sessions: true, ..MineOptions::default() });
        for (name, log) in logs {
            miner.begin(name);
            miner.push(log.as_bytes());
        }
        miner.finish().workload
    };
    let (older, newer) = (log(0), log(30));
    let workload = mined([("access.log.1", &older), ("access.log", &newer)]);
    assert_eq!(workload.pages.iter().map(|page| page.files.len()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(mined([("access.log", &newer), ("access.log.1", &older)]), workload);
    // A page that a rotation cut is whole where the logs are in order.
    let cut = older.match_indices('\n').nth(1).unwrap().0 + 1;
    let (first, second) = older.split_at(cut);
    let joined = mined([("access.log.1", first), ("access.log", second)]);
    assert_eq!(joined.pages.iter().map(|page| page.files.len()).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn several_logs_are_one_workload() {
    let mut miner = Miner::new(MineOptions { name: "both".into(), ..MineOptions::default() });
    miner.begin("one");
    miner.push(get("/a", "1").trim_end().as_bytes());
    miner.begin("two");
    miner.push(b"bad\r\n");
    miner.push(get("/a", "1").as_bytes());
    let outcome = miner.finish();
    assert_eq!(rows(&outcome), [(2, vec!["/a"], Some(1))]);
    assert_eq!(outcome.workload.name, "both");
    let example = &outcome.report.unparsed_examples[0];
    assert_eq!((&*example.source, example.line, &*example.text), ("two", 1, "bad"));
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let mut miner = Miner::new(MineOptions::default());
    miner.begin("zeros");
    for _ in 0..100 {
        miner.push(&[0; 1 << 16]);
    }
    assert!(miner.carry.capacity() < 4 * LINE_BYTES_MAX);
    miner.push(b"\n");
    miner.push(get("/a", "1").as_bytes());
    let outcome = miner.finish();
    assert_eq!((outcome.report.lines, outcome.report.unparsed, outcome.report.hits), (2, 1, 1));
    assert!(outcome.report.unparsed_examples[0].expected.contains("65,536"));
}

#[test]
fn the_longest_line_may_come_in_one_block_or_many() {
    for extra in [-2_isize, -1, 0, 1, 2, 3] {
        for end in ["", "\n", "\r\n"] {
            let line = get("/a", "1").trim_end().to_owned() + " ";
            let length = (LINE_BYTES_MAX as isize + extra) as usize;
            let text = line.clone() + &"x".repeat(length - line.len()) + end;
            let whole = mined(text.as_bytes(), MineOptions::default());
            let mut miner = Miner::new(MineOptions::default());
            miner.begin("access.log");
            text.as_bytes().chunks(1000).for_each(|piece| miner.push(piece));
            assert_eq!(miner.finish(), whole);
            assert_eq!(whole.report.hits, u64::from(extra <= 0), "{extra} {end:?}");
        }
    }
}

fn any_log() -> impl Strategy<Value = Vec<u8>> {
    let parts = ["a", "b", "/", "/x.html", "/y.gif?q", "nonsense"];
    let line =
        (0..6_usize, 0..4_u32, 0..6_usize, 0..5_usize).prop_map(move |(client, second, url, status)| {
            let statuses = [200, 200, 206, 304, 500];
            line(
                parts[client],
                second,
                if client == 5 { "PUT" } else { "GET" },
                parts[url],
                statuses[status],
                "12",
            )
        });
    let piece = prop_oneof![
        5 => line.prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => Just(b"\r\n\n".to_vec()),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_line_is_accounted_for_and_blocks_do_not_matter(
        log in any_log(), cut in 1..200_usize, sessions in any::<bool>(), urls_max in 0..4_usize,
    ) {
        let options = MineOptions { sessions, urls_max, ..MineOptions::default() };
        let whole = mined(&log, options.clone());
        prop_assert_eq!(accounted(&whole.report), whole.report.lines);
        prop_assert_eq!(whole.report.lines, log.split_inclusive(|byte| *byte == b'\n').count() as u64);
        let fetched: u64 = whole.workload.pages.iter().map(|page| page.weight).sum();
        prop_assert!(fetched <= whole.report.hits);
        if !sessions {
            prop_assert_eq!(fetched, whole.report.hits);
        }
        let mut miner = Miner::new(options);
        miner.begin("access.log");
        log.chunks(cut).for_each(|piece| miner.push(piece));
        prop_assert_eq!(miner.finish(), whole);
    }
}
