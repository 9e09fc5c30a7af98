//! `--record-all` in every way of sending requests: a line for each request, with the counts of the record and the
//! server.

use std::path::Path;

use serde_json::Value;

use crate::program::{Said, assert_ended, webstone_in};

/// How requests are sent, and whether over TLS.
const WAYS: [(&str, &[&str], bool); 4] = [
    ("HTTP/1.1", &[], false),
    ("HTTP/1.1 over TLS", &["--tls"], true),
    ("HTTP/2", &["--http", "2"], false),
    ("HTTP/2 over TLS", &["--tls", "--http", "2"], true),
];

/// A transaction by the names of its columns.
struct Line<'a>(&'a [&'a str], Vec<&'a str>);

impl<'a> Line<'a> {
    fn text(&self, name: &str) -> &'a str {
        self.1[self.0.iter().position(|column| *column == name).unwrap()]
    }

    fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap()
    }

    /// The instants that a transaction has, in the order in which they must come.
    fn instants(&self) -> Vec<i64> {
        let names = ["start_ns", "connected_ns", "sent_ns", "first_byte_ns", "headers_done_ns", "end_ns"];
        names.iter().filter(|name| self.text(name) != "-").map(|name| self.number(name)).collect()
    }
}

fn run(dir: &Path, more: &[&str]) -> (Said, Value, String) {
    let fixed = ["run", "-w", "standard", "-c", "3", "--warmup", "0s", "--no-store", "--format", "json"];
    let said = webstone_in(dir, &[&fixed[..], &["--record-all", "all.tsv"], more].concat());
    assert_ended(&said);
    let record = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    (said, record, std::fs::read_to_string(dir.join("all.tsv")).unwrap())
}

#[test]
fn each_request_is_a_line_whatever_it_is_sent_over() {
    for (name, flags, is_tls) in WAYS {
        for policy in [&["--connections", "per-request"][..], &["-K", "--parallel", "4"]] {
            let dir = tempfile::tempdir().unwrap();
            let what = format!("{name} {policy:?}");
            let (said, record, text) = run(dir.path(), &[flags, policy, &["-n", "90", "-i", "2"]].concat());
            let mut lines = text.lines();
            assert!(lines.next().unwrap().starts_with("# webstone transactions"), "{what}");
            let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
            let lines: Vec<Line<'_>> = lines.map(|line| Line(&columns, line.split('\t').collect())).collect();
            let pages = record["workload"]["pages"].as_array().unwrap();
            let iterations = record["iterations"].as_array().unwrap();
            assert_eq!(iterations.len(), 2, "{what}: {}", said.err);
            for iteration in iterations {
                let number = iteration["iteration"].as_i64().unwrap();
                let told: Vec<&Line<'_>> =
                    lines.iter().filter(|line| line.number("iteration") == number).collect();
                let counts = &iteration["measured"]["counts"];
                let count = |name: &str| counts[name].as_i64().unwrap_or_default();
                let sum = |name: &str| told.iter().map(|line| line.number(name)).sum::<i64>();
                assert_eq!(told.len() as i64, count("succeeded"), "{what}: {counts}");
                assert_eq!((count("failed"), count("pages_completed")), (0, 90), "{what}: {counts}");
                assert_eq!(iteration["server"]["requests"], told.len(), "{what}");
                // Without TLS: heads with the framing of bodies, and bodies.
                assert_eq!(sum("body_bytes"), count("body_bytes"), "{what}");
                assert_eq!(sum("head_bytes"), count("head_bytes") + count("framing_bytes"), "{what}");
                // On the wire: what the server reports to have sent, including TLS records and all frames of HTTP/2.
                let received = iteration["measured"]["lifetime"]["received_bytes"].as_i64().unwrap();
                assert_eq!(iteration["server"]["sent_bytes"], received, "{what}");
                let plain = sum("body_bytes") + sum("head_bytes");
                assert!(
                    if is_tls { received > plain } else { received >= plain },
                    "{what}: {received}, {plain}"
                );
                assert_eq!(iteration["measured"]["handshakes"].is_object(), is_tls, "{what}");
                let connected = told.iter().filter(|line| line.text("connected_ns") != "-").count() as i64;
                assert!(connected >= count("connections") && count("connections") > 0, "{what}: {connected}");
            }
            assert_eq!(
                lines.len(),
                iterations
                    .iter()
                    .map(|it| it["server"]["requests"].as_u64().unwrap() as usize)
                    .sum::<usize>()
            );
            for line in &lines {
                let file = &pages[line.number("page") as usize]["files"][line.number("file") as usize];
                assert_eq!(line.number("body_bytes"), file["size"].as_i64().unwrap(), "{what}");
                assert_eq!((line.text("status"), line.text("error")), ("200", "-"), "{what}");
                assert!(line.number("head_bytes") > 0 && line.instants().is_sorted(), "{what}: {:?}", line.1);
                assert!(line.number("client") < 3 && line.text("clients") == "3", "{what}");
            }
        }
    }
}

/// If time ends the window, requests in progress at its ends are neither in the file nor in the counts.
#[test]
fn a_window_that_time_ends_has_as_many_lines_as_its_counts_say() {
    for (name, flags, _) in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let (_, record, text) = run(dir.path(), &[flags, &["-K", "-d", "300ms"]].concat());
        let counts = &record["iterations"][0]["measured"]["counts"];
        let ended = counts["succeeded"].as_u64().unwrap() + counts["failed"].as_u64().unwrap();
        assert_eq!(text.lines().count() as u64 - 2, ended, "{name}: {counts}");
        assert!(ended > 0, "{name}");
    }
}
