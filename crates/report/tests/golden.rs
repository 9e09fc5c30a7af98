//! Every format of the fixed records, held against files in `tests/golden`. After a change that is meant:
//! `UPDATE_GOLDEN=1 cargo test -p webstone-report`, and read the difference.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod records;

use std::path::Path;

use calamine::Reader as _;
use webstone_judge::comparison::Comparison;
use webstone_measure::units::Nanos;
use webstone_model::record::RunRecord;
use webstone_model::spec::{ConnectionPolicy, HttpVersion};
use webstone_report::{Charset, ComparisonFormat, CsvTable, Format, Options, render, render_comparison};

fn text(record: &RunRecord, format: Format, options: &Options) -> String {
    let full = Options { full: true, ..options.clone() };
    String::from_utf8(render(record, format, &full).unwrap()).unwrap()
}

#[track_caller]
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected != actual {
        let line = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
        panic!(
            "{name} differs, first at line {}. If that is meant: UPDATE_GOLDEN=1 cargo test -p webstone-report\n{actual}",
            line.map_or(expected.lines().count().min(actual.lines().count()) + 1, |line| line + 1)
        );
    }
}

/// The columns of a CSV table, each with its cell of the first row.
fn columns(table: &str) -> String {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let names = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    names.iter().zip(&row).map(|(name, cell)| format!("{name:<28} {cell}\n")).collect()
}

/// An HTML report without what has a file of its own (style, script, definitions), an element a line.
fn body(page: &str) -> String {
    let mut body = String::new();
    let mut rest = page;
    for (begin, end) in
        [("<style>", "</style>"), ("<section id=\"definitions\"", "</section>"), ("<script>", "</script>")]
    {
        let (before, behind) = rest.split_once(begin).unwrap();
        body.push_str(before);
        body.push('…');
        rest = behind.split_once(end).unwrap().1;
    }
    body.push_str(rest);
    // Its hashes change with the style sheet and the script.
    let (before, policy) = body.split_once("<meta http-equiv").unwrap();
    format!("{before}{}", policy.split_once('\n').unwrap().1).replace("><", ">\n<")
}

/// One section of a page.
fn section(body: &str, id: &str) -> String {
    let begin = format!("<section id=\"{id}\"");
    let section = body.split_once(&begin).unwrap().1.split_once("</section>").unwrap().0;
    format!("{begin}{section}</section>\n")
}

fn wide() -> Options {
    Options { width: 120, ..Options::default() }
}

#[test]
fn a_proxy_with_the_origin_behind_it() {
    let record = records::proxied();
    golden("proxied.txt", &text(&record, Format::Text, &wide()));
    golden("proxied.md", &text(&record, Format::Markdown, &Options::default()));
    golden("proxied.prom", &text(&record, Format::Prometheus, &Options::default()));
    golden("proxied-columns.txt", &columns(&text(&record, Format::Csv, &Options::default())));
}

#[test]
fn several_hosts_of_the_server() {
    let record = records::server_hosts::server_hosts();
    golden("server-hosts-80.txt", &text(&record, Format::Text, &Options::default()));
    golden("server-hosts-full.txt", &text(&record, Format::Text, &Options { full: true, ..wide() }));
    let hosts = Options { csv_table: CsvTable::ServerHosts, ..Options::default() };
    let table = text(&record, Format::Csv, &hosts);
    golden("server-hosts.csv", &table);
    // A head, and two hosts in nine timed runs, of which one is missing once.
    assert_eq!(table.lines().count(), 1 + 2 * 9 - 1);
    let page = body(&text(&record, Format::Html, &Options::default()));
    assert!(section(&page, "tables").contains("Server hosts"));
    assert!(text(&record, Format::Markdown, &Options::default()).contains("Server hosts"));
    let workbook = render(&record, Format::Xlsx, &Options::default()).unwrap();
    let mut workbook = calamine::Xlsx::new(std::io::Cursor::new(workbook)).unwrap();
    assert_eq!(workbook.worksheet_range("Server hosts").unwrap().height(), 2 * 9);
}

#[test]
fn several_hosts_that_make_the_load() {
    let record = records::fleet::fleet();
    golden("fleet-80.txt", &text(&record, Format::Text, &Options::default()));
    golden("fleet-120.txt", &text(&record, Format::Text, &wide()));
    golden("fleet.md", &text(&record, Format::Markdown, &Options::default()));
    let hosts = Options { csv_table: CsvTable::Generators, ..Options::default() };
    golden("fleet-generators.csv", &text(&record, Format::Csv, &hosts));
    let page = body(&text(&record, Format::Html, &Options::default()));
    golden("fleet-tables.html", &section(&page, "tables"));
    let workbook = render(&record, Format::Xlsx, &Options::default()).unwrap();
    let mut workbook = calamine::Xlsx::new(std::io::Cursor::new(workbook)).unwrap();
    let hosts = workbook.worksheet_range("Load generators").unwrap();
    // A head, and three hosts in nine timed runs.
    assert_eq!(hosts.height(), 1 + 3 * 9);
    let written = String::from_utf8(render(&record, Format::Json, &Options::default()).unwrap()).unwrap();
    let report: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(report["generators"][1]["name"], "gen2");
    assert_eq!(report["iterations"][0]["parts"][2]["generator"], 2);
    assert_eq!(report["computed"]["differing"][0]["generator"], 2);
    assert_eq!(report["voids"][0]["lost"]["why"], "ended: killed by signal 9");
}

#[test]
fn a_sweep_with_two_iterations() {
    let record = records::small();
    golden("small-80.txt", &text(&record, Format::Text, &Options::default()));
    golden("small-120.txt", &text(&record, Format::Text, &wide()));
    let narrow = Options { width: 60, ..Options::default() };
    golden("small-60.txt", &text(&record, Format::Text, &narrow));
    let ascii = Options { charset: Charset::Ascii, ..Options::default() };
    golden("small-ascii.txt", &text(&record, Format::Text, &ascii));
    let color = Options { color: true, ..Options::default() };
    golden("small-color.txt", &text(&record, Format::Text, &color));
    golden("small.json", &text(&record, Format::Json, &Options::default()));
    golden("small.csv", &text(&record, Format::Csv, &Options::default()));
    golden("small-columns.txt", &columns(&text(&record, Format::Csv, &Options::default())));
    let pages = Options { csv_table: CsvTable::Pages, ..Options::default() };
    golden("small-pages.csv", &text(&record, Format::Csv, &pages));
    golden("small-webstone1.txt", &text(&record, Format::Webstone1, &Options::default()));
    golden("small.html", &body(&text(&record, Format::Html, &Options::default())));
    golden("small-webstone2.txt", &text(&record, Format::Webstone2, &Options::default()));
}

/// What fits a screen: the verdict, the headline, the bottleneck and the levels, and whatever has to be seen besides.
#[test]
fn the_default_report_is_short() {
    let options =
        Options { full_command: Some("webstone report last --full".to_owned()), ..Options::default() };
    // Errors bring their table along.
    for (name, record, lines_max) in [
        ("brief.txt", records::small(), 26),
        ("brief-proxied.txt", records::proxied(), 39),
        ("brief-errors.txt", records::errors(), 45),
        ("brief-refused.txt", records::refused(), 45),
        ("brief-fleet.txt", records::fleet::fleet(), 50),
    ] {
        let brief = String::from_utf8(render(&record, Format::Text, &options).unwrap()).unwrap();
        golden(name, &brief);
        let lines = brief.lines().count();
        assert!(lines <= lines_max, "{name} has {lines} lines");
        assert!(brief.contains("requests/s at "), "{brief}");
        assert!(!brief.contains("ERRORS"), "the headline says it: {brief}");
    }
    golden("brief-comparison.txt", &compared(&records::comparison(), ComparisonFormat::Text, &options));
}

fn compared(comparison: &Comparison, format: ComparisonFormat, options: &Options) -> String {
    render_comparison(comparison, &[], format, options).unwrap()
}

#[test]
fn a_comparison() {
    let narrow = Options { full: true, ..Options::default() };
    for (name, comparison) in
        [("comparison", records::comparison()), ("comparison-hopeless", records::hopeless_comparison())]
    {
        golden(&format!("{name}-80.txt"), &compared(&comparison, ComparisonFormat::Text, &narrow));
        golden(&format!("{name}.md"), &compared(&comparison, ComparisonFormat::Markdown, &narrow));
    }
    golden(
        "comparison-120.txt",
        &compared(&records::comparison(), ComparisonFormat::Text, &Options { full: true, ..wide() }),
    );
    let records = records::before_and_after();
    let page = render_comparison(&records::comparison(), &records, ComparisonFormat::Html, &narrow).unwrap();
    golden("comparison.html", &section(&body(&page), "comparison"));
}

/// Everything that calamine, a reader that is not ours, finds in a workbook: sheet by sheet, a line a row.
fn cells(workbook: &[u8]) -> String {
    let mut book: calamine::Xlsx<_> = calamine::Reader::new(std::io::Cursor::new(workbook)).unwrap();
    let mut text = String::new();
    for name in book.sheet_names() {
        let range = book.worksheet_range(&name).unwrap();
        text.push_str(&format!("=== {name}: {} rows, {} columns\n", range.height(), range.width()));
        for row in range.rows().take(12) {
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            text.push_str(cells.join("\t").trim_end());
            text.push('\n');
        }
    }
    text
}

#[test]
fn formats_for_other_programs() {
    let (small, errors) = (records::small(), records::errors());
    let plain = Options::default();
    let workbook = render(&small, Format::Xlsx, &plain).unwrap();
    golden("small-xlsx.txt", &cells(&workbook));
    golden("errors-xlsx.txt", &cells(&render(&errors, Format::Xlsx, &plain).unwrap()));
    golden("small.md", &text(&small, Format::Markdown, &plain));
    golden("errors.md", &text(&errors, Format::Markdown, &plain));
    golden("nothing.md", &text(&records::nothing(), Format::Markdown, &plain));
    golden("refused.md", &text(&records::refused(), Format::Markdown, &plain));
    golden("small.hgrm", &text(&small, Format::Hgrm, &plain));
    golden(
        "small-connect-5.hgrm",
        &text(
            &small,
            Format::Hgrm,
            &Options { clients: Some(5), histogram: "connect".to_owned(), ..plain.clone() },
        ),
    );
    golden("nothing.hgrm", &text(&records::nothing(), Format::Hgrm, &plain));
    let level = Options { clients: Some(10), iteration: Some(1), pages_max: 2, ..plain.clone() };
    golden("small.prom", &text(&small, Format::Prometheus, &level));
    golden("errors.prom", &text(&errors, Format::Prometheus, &plain));
    golden("errors-junit.xml", &text(&errors, Format::Junit, &plain));
    golden("small-otel.json", &text(&small, Format::Otel, &level));
    golden("errors-otel.json", &text(&errors, Format::Otel, &plain));
}

#[test]
fn the_history_and_a_run_beside_it() {
    use webstone_report::history::{Published, published, render};
    let all: Vec<&Published> = published().iter().collect();
    let of = |wanted: &str| all.iter().copied().filter(|result| result.matches(wanted)).collect::<Vec<_>>();
    let made = |published: &[&Published], runs: &[RunRecord], format, options: &Options| {
        String::from_utf8(render(published, runs, format, options).unwrap()).unwrap()
    };
    golden("history.txt", &made(&all, &[], Format::Text, &wide()));
    golden("history.csv", &made(&all, &[], Format::Csv, &wide()));
    golden("history-proliant.txt", &made(&of("proliant"), &[], Format::Text, &Options::default()));
    golden("history-proliant.md", &made(&of("proliant-1cpu-html"), &[], Format::Markdown, &wide()));
    golden("history-proliant.json", &made(&of("proliant-1cpu-html"), &[], Format::Json, &wide()));
    let runs = [as_measured_by("standard", records::small())];
    golden("history-beside.txt", &made(&of("html"), &runs, Format::Text, &Options::default()));
    let mut workout = as_measured_by("workout-0k", records::small());
    workout.spec.load.duration = Nanos::ZERO;
    workout.spec.load.pages = Some(200);
    golden("history-beside-wasd.txt", &made(&of("wasd"), &[workout], Format::Text, &Options::default()));
    let paper = as_measured_by("general-and-media", records::paper::ncsa());
    golden("history-beside-paper.txt", &made(&of("ncsa"), &[paper], Format::Text, &Options::default()));
    golden("history-beside.md", &made(&of("html"), &runs, Format::Markdown, &wide()));
    golden("history-beside.csv", &made(&of("html"), &runs, Format::Csv, &wide()));
    golden("history-beside.json", &made(&of("proliant-1cpu-html"), &runs, Format::Json, &wide()));
    golden(
        "history-beside-nothing.txt",
        &made(&of("html"), &[records::nothing()], Format::Text, &Options::default()),
    );
}

/// A record of this workload over HTTP/1.0 without kept connections, the server on one CPU.
fn as_measured_by(workload: &str, mut record: RunRecord) -> RunRecord {
    record.workload.name = workload.to_owned();
    record.spec.client.http = HttpVersion::Http10;
    record.target.embedded = true;
    record.target.cpus = vec![0];
    record
}

/// Every condition by itself keeps a table away.
#[test]
fn what_was_measured_otherwise_is_not_compared() {
    use webstone_report::history::{Other, Published, apart, beside, published};
    let tables: Vec<&Published> = published().iter().filter(|it| it.id == "wasd-cached").collect();
    let alike = as_measured_by("workout-16k", records::small());
    let compared = beside(&alike, &tables);
    assert_eq!(compared.len(), 1, "{compared:?}");
    assert_eq!(compared[0].row.name(), "16K, 10 clients");
    let why = |change: &dyn Fn(&mut RunRecord)| {
        let mut record = alike.clone();
        change(&mut record);
        assert!(beside(&record, &tables).is_empty());
        apart(&record, &tables)[0].other
    };
    assert_eq!(why(&|it| it.workload.name = "workout-2k".to_owned()), Other::Workload);
    assert_eq!(why(&|it| it.workload.pages[0].files[0].url = "/send?size=0".into()), Other::Interface);
    assert_eq!(why(&|it| it.spec.client.http = HttpVersion::Http11), Other::Http);
    assert_eq!(why(&|it| it.spec.client.connections = ConnectionPolicy::KeepAlive), Other::Connections);
    assert_eq!(why(&|it| it.spec.server.cache = Some(false)), Other::Cache);
    assert_eq!(why(&|it| it.spec.server.resolve_names = true), Other::ResolveNames);
    assert_eq!(why(&|it| it.iterations.retain(|run| run.clients != 10)), Other::Clients);
    let scaled: Vec<&Published> = published().iter().filter(|it| it.id == "lt6000r-static").collect();
    let mut two = as_measured_by("webbench-static", records::small());
    two.target.cpus = vec![0, 1];
    let rows: Vec<String> = beside(&two, &scaled).iter().map(|it| it.row.name()).collect();
    assert_eq!(rows, ["2 CPUs"]);
    two.target.cpus = vec![0, 1, 2];
    assert_eq!(apart(&two, &scaled)[0].other, Other::Cpus);
}

#[test]
fn a_single_level() {
    let record = records::hit();
    golden("hit.txt", &text(&record, Format::Hit, &Options::default()));
    golden("hit-text.txt", &text(&record, Format::Text, &Options::default()));
}

#[test]
fn errors_and_a_broken_identity() {
    let record = records::errors();
    golden("errors.txt", &text(&record, Format::Text, &Options::default()));
    golden("errors-hit.txt", &text(&record, Format::Hit, &Options::default()));
    golden("errors-webstone2.txt", &text(&record, Format::Webstone2, &Options::default()));
}

#[test]
fn interrupted_killed_refused_and_without_histograms() {
    golden("interrupted.txt", &text(&records::interrupted(), Format::Text, &Options::default()));
    golden("nothing.txt", &text(&records::nothing(), Format::Text, &Options::default()));
    golden("void-only.txt", &text(&records::void_only(), Format::Text, &Options::default()));
    golden("void-only-hit.txt", &text(&records::void_only(), Format::Hit, &Options::default()));
    golden("void-only.md", &text(&records::void_only(), Format::Markdown, &Options::default()));
    golden("nothing-hit.txt", &text(&records::nothing(), Format::Hit, &Options::default()));
    golden("refused.txt", &text(&records::refused(), Format::Text, &Options::default()));
    golden("refused-hit.txt", &text(&records::refused(), Format::Hit, &Options::default()));
    golden("refused-webstone2.txt", &text(&records::refused(), Format::Webstone2, &Options::default()));
    golden(
        "without-histograms.txt",
        &text(&records::without_histograms(), Format::Text, &Options::default()),
    );
}

#[test]
fn a_long_workload_and_a_saturated_generator() {
    golden("many-pages.txt", &text(&records::many_pages(), Format::Text, &wide()));
}

#[test]
fn the_runs_of_the_paper() {
    golden(
        "netsite-webstone1.txt",
        &text(&records::paper::netsite(), Format::Webstone1, &Options::default()),
    );
    golden("ncsa-webstone1.txt", &text(&records::paper::ncsa(), Format::Webstone1, &Options::default()));
    golden(
        "netsite-webstone2.txt",
        &text(&records::paper::netsite(), Format::Webstone2, &Options::default()),
    );
}
