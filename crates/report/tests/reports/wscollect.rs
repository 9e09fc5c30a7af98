//! A reader of the 2.x block that takes it apart as `wscollect` of WebStone 2.0.1 does: from the line that begins with
//! `WEBSTONE 2.0 results` on, a line is split at an optional colon and two blanks, or at a tab; the label is searched
//! for a word, and the number is the first run of digits and points. And a reader of every line, with the formats that WebStone 2.0.1
//! prints with.

use std::collections::BTreeMap;

use webstone_measure::figures::Figures;
use webstone_model::record::RunRecord;
use webstone_report::{Format, Options, render};

use crate::records;

/// Words of labels, in the order in which they are tried.
const WORDS: [&str; 6] = [
    "number of clients",
    "error rate",
    "connection rate",
    "Server thruput",
    "Little's Load",
    "Average response time",
];

/// What the script would collect from one file; the last block of a file wins.
fn collected(text: &str) -> BTreeMap<&'static str, f64> {
    let mut values = BTreeMap::new();
    for line in text.lines().skip_while(|line| !line.starts_with("WEBSTONE 2.0 results")).skip(1) {
        let (label, data) = split(line);
        if let Some(word) = WORDS.into_iter().find(|word| label.contains(word)) {
            values.insert(word, number(data));
        }
    }
    values
}

/// Splits at the first `:?\s{2,}|\t`.
fn split(line: &str) -> (&str, &str) {
    let blank = |at: usize| line[at..].chars().next().is_some_and(char::is_whitespace);
    for at in (0..line.len()).filter(|at| line.is_char_boundary(*at)) {
        let start = at + usize::from(line[at..].starts_with(':'));
        let blanks = line[start..].chars().take_while(|c| c.is_whitespace()).count();
        if blanks >= 2 || (start == at && blank(at) && line[at..].starts_with('\t')) {
            return (&line[..at], line[start..].trim_start());
        }
    }
    (line, "")
}

/// The first `[\d.]+`.
fn number(data: &str) -> f64 {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let from = data.find(is_part).unwrap_or(data.len());
    let digits: String = data[from..].chars().take_while(|c| is_part(*c)).collect();
    digits.parse().unwrap()
}

fn block(record: &RunRecord, options: &Options) -> String {
    String::from_utf8(render(record, Format::Webstone2, options).unwrap()).unwrap()
}

#[test]
fn the_script_finds_every_figure_of_a_block() {
    let record = records::small();
    for run in &record.iterations {
        let only =
            Options { clients: Some(run.clients), iteration: Some(run.iteration), ..Options::default() };
        let values = collected(&block(&record, &only));
        let figures = Figures::of_measured(&run.measured);
        assert_eq!(values.len(), WORDS.len(), "{values:?}");
        let near = |word: &str, expected: f64, decimals: i32| {
            let half = 0.5 * 10_f64.powi(-decimals) + 1e-9;
            assert!((values[word] - expected).abs() <= half, "{word}: {} and {expected}", values[word]);
        };
        near("number of clients", f64::from(run.clients), 0);
        near("connection rate", figures.connection_rate, 2);
        near("error rate", figures.error_rate, 4);
        near("Little's Load", run.measured.response.sum as f64 / run.measured.window_ns as f64, 2);
        near("Average response time", run.measured.response.mean() / 1e6, 4);
        // WebStone's megabit is 2^20 bits.
        near("Server thruput", figures.throughput_bps / 1_048_576.0, 2);
    }
}

#[test]
fn the_load_factor_is_of_completed_requests_alone() {
    let record = records::errors();
    let measured = &record.iterations[0].measured;
    let completed = measured.response.sum as f64 / measured.window_ns as f64;
    assert!(Figures::of_measured(measured).little - completed > 0.1, "{completed}");
    let collected = collected(&block(&record, &Options::default()))["Little's Load"];
    assert!((collected - completed).abs() < 0.006, "{collected} and {completed}");
}

#[test]
fn of_several_blocks_the_last_is_collected() {
    let record = records::small();
    let values = collected(&block(&record, &Options::default()));
    assert_eq!(values["number of clients"], 20.0);
}

#[test]
fn the_banner_of_a_broken_identity_confuses_nobody() {
    let record = records::errors();
    let text = block(&record, &Options::default());
    assert_eq!(text.matches("**** ERROR: identity 1 ").count(), 1, "{text}");
    assert_eq!(collected(&text)["number of clients"], 64.0);
}

#[test]
fn labels_stand_in_the_order_of_the_original() {
    let text = block(&records::paper::netsite(), &Options::default());
    let dots = format!("Reading results {}\n", ".".repeat(24));
    let labels = [
        "\n\n\nWaiting for READY from 24 clients\nAll READYs received\nSending GO to all clients\n",
        "All clients started at Tue Mar  7 01:33:16 1995\n\nWaiting for clients completion\n",
        &dots,
        "All clients ended at Tue Mar  7 01:43:16 1995\n\n",
        "\nPage # 0\n\nTotal number of times page was hit 1888\n5664 connection(s) to server, 0 errors\n",
        "\n23199744 body bytes moved + ",
        "Page size 12288 \n",
        "\nPage # 5\n\nTotal number of times page was hit 500\n",
        "WEBSTONE 2.0 results:\n",
        "Total number of clients: \t24\n",
        "Test time: \t\t\t600 seconds\n",
        "Server connection rate: \t20.16 connections/sec\n",
        "Server error rate: \t\t0.0000 err/sec\n",
        "Server thruput: \t\t39.12 Mbit/sec\n",
        "Little's Load Factor: \t\t23.83 \n",
        "Average response time: \t\t1181.8273 millisec\n",
        "Error Level:\t\t\t0.0000 %\n",
        "Average client thruput: \t1.6416 Mbit/sec\n",
        "Sum of client response times:\t14298.928119 sec\n",
        "Total number of pages read:\t4567\n",
        "12099 connection(s) to server, 0 errors\n",
        "\t\t\t   Average      Std Dev      Minimum      Maximum\n",
        "Connect time (sec) \t",
        "Response time (sec) \t",
        "Response size (bytes) \t",
        "Body size (bytes) \t",
        "3074355200 body bytes moved + 2306477 header bytes moved = 3076661677 total\n",
    ];
    let mut rest = text.as_str();
    for label in labels {
        let at =
            rest.find(label).unwrap_or_else(|| panic!("{label:?} is missing or out of order in\n{text}"));
        rest = &rest[at + label.len()..];
    }
}

/// Every line that WebStone 2.0.1 prints: `%u` and `%f` stand for numbers, `%s` for text.
const LINES: &[&str] = &[
    "",
    "WebMaster name = %s",
    "Client %u: %s \t# Processes: %u",
    "    Webserver: %s",
    "Waiting for READY from %u clients",
    "All READYs received",
    "Sending GO to all clients",
    "All clients started at %s",
    "Waiting for clients completion",
    "Reading results %s",
    "All clients ended at %s",
    "----------------------------------",
    "Total number of pages retrieved from server: %u",
    "Thruput average per connection: %u bytes/sec",
    "===============================================================================",
    "Page # %u",
    "Total number of times page was hit %u",
    "%u connection(s) to server, %u errors",
    "\t\t\t   Average      Std Dev      Minimum      Maximum",
    "Connect time (sec) \t%f   %f   %f   %f",
    "Response time (sec) \t%f   %f   %f   %f",
    "Response size (bytes) \t%u   %u   %u   %u",
    "Body size (bytes) \t%u   %u   %u   %u",
    "%u body bytes moved + %u header bytes moved = %u total",
    "Page size %u ",
    "WEBSTONE 2.0 results:",
    "Total number of clients: \t%u",
    "Test time: \t\t\t%u seconds",
    "Server connection rate: \t%f connections/sec",
    "Server error rate: \t\t%f err/sec",
    "Server thruput: \t\t%f Mbit/sec",
    "Little's Load Factor: \t\t%f ",
    "Average response time: \t\t%f millisec",
    "Error Level:\t\t\t%f %%",
    "Average client thruput: \t%f Mbit/sec",
    "Sum of client response times:\t%f sec",
    "Total number of pages read:\t%u",
];

/// Whether a line is what `printf` makes of a format. Numbers may be padded.
fn fits(format: &str, line: &str) -> bool {
    let Some((text, rest)) = format.split_once('%') else { return format == line };
    let Some(line) = line.strip_prefix(text) else { return false };
    let (kind, rest) = rest.split_at(1);
    if kind == "%" {
        return line.strip_prefix('%').is_some_and(|line| fits(rest, line));
    }
    let padding = if kind == "s" { 0 } else { line.len() - line.trim_start_matches(' ').len() };
    let is_part = |c: char| match kind {
        "s" => true,
        "u" => c.is_ascii_digit(),
        _ => c.is_ascii_digit() || c == '.',
    };
    let longest: usize = line[padding..].chars().take_while(|c| is_part(*c)).map(char::len_utf8).sum();
    let least = usize::from(kind != "s");
    let ends = (padding + least..=padding + longest).rev().filter(|end| line.is_char_boundary(*end));
    ends.into_iter().any(|end| fits(rest, &line[end..]))
}

/// With a block for each client, too; the second line is the command line.
#[test]
fn every_line_has_a_format_of_the_original() {
    let record = records::small();
    let all = Options { all_clients: true, ..Options::default() };
    let text = block(&record, &all);
    let command = record.command_line.join(" ");
    for line in text.lines().filter(|line| *line != command) {
        assert!(
            LINES.iter().any(|format| fits(format, line)),
            "{line:?} is not a line of WebStone's\n{text}"
        );
    }
    for format in LINES {
        assert!(text.lines().any(|line| fits(format, line)), "no line is {format:?}\n{text}");
    }
    let clients: u64 = record.iterations.iter().map(|run| u64::from(run.clients)).sum();
    assert_eq!(text.matches("Thruput average per connection").count() as u64, clients);
}

#[test]
fn a_format_takes_its_own_lines_alone() {
    assert!(fits(
        "Body size (bytes) \t%u   %u   %u   %u",
        "Body size (bytes) \t       500          0   500        500"
    ));
    assert!(!fits(
        "Body size (bytes) \t%u   %u   %u   %u",
        "Body size (bytes) \t       500          -          -          -"
    ));
    assert!(fits("Error Level:\t\t\t%f %%", "Error Level:\t\t\t0.1000 %"));
    assert!(!fits("Page # %u", "Page # "));
}
