//! Each fixed record as the blocks of its documents (`RECORD.document.json`), and one of the records in each format: both are compared
//! with files in `tests/golden`. After an intended change: `UPDATE_GOLDEN=1 cargo test -p webstone-report`,
//! and read the difference.

use std::path::Path;

use calamine::Reader as _;
use webstone_judge::comparison::Comparison;
use webstone_judge::verdict::Standing;
use webstone_measure::units::Nanos;
use webstone_model::record::RunRecord;
use webstone_model::spec::{ConnectionPolicy, HttpVersion};
use webstone_report::{Charset, CsvTable, Format, Options, blocks, render, render_comparison};

use crate::records;

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

/// An HTML report without what has a file of its own (style, script, definitions), one element per line.
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

/// Each family of metrics, with its first sample.
fn families(metrics: &str) -> String {
    let lines: Vec<&str> = metrics.lines().collect();
    let is_first = |(index, line): &(usize, &&str)| {
        line.starts_with('#') || lines[index.saturating_sub(1)].starts_with('#')
    };
    lines.iter().enumerate().filter(is_first).map(|(_, line)| format!("{line}\n")).collect()
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

/// The full, quick and short reports of every record.
#[test]
fn documents() {
    let full = Options { full: true, pages_max: 20, ..Options::default() };
    for (name, record) in [
        ("small", records::small()),
        ("proxied", records::proxied()),
        ("server-hosts", records::server_hosts::server_hosts()),
        ("fleet", records::fleet::fleet()),
        ("hit", records::hit()),
        ("errors", records::errors()),
        ("interrupted", records::interrupted()),
        ("sliced", records::sliced::sliced()),
        ("nothing", records::nothing()),
        ("void-only", records::void_only()),
        ("refused", records::refused()),
        ("without-histograms", records::without_histograms()),
        ("many-pages", records::many_pages()),
    ] {
        let of = |format| blocks(&record, format, &full).unwrap();
        let all = [("full", Format::Text), ("quick", Format::Hit), ("short", Format::Markdown)]
            .map(|(name, format)| format!("\"{name}\": {}", of(format).trim_end()));
        golden(&format!("{name}.document.json"), &format!("{{\n{}\n}}\n", all.join(",\n")));
    }
}

/// Slices that were left out are reported, and their seconds are not taken for damage.
#[test]
fn slices_that_are_left_out_are_no_damage() {
    let told = text(&records::sliced::sliced(), Format::Text, &Options::default());
    assert!(told.contains("LEFT OUT: 1.00 s of 7.00 s was disturbed and is in no figure"), "{told}");
    assert!(told.contains("NOISY") || told.contains("SOUND"), "{told}");
    assert!(!told.contains("DAMAGED"), "{told}");
}

/// What is left out is in no figure, and its errors may be the server's.
#[test]
fn errors_in_what_is_left_out_are_told() {
    let told = |record: &RunRecord| text(record, Format::Text, &Options::default()).replace("\n     ", " ");
    let mut sliced = records::sliced::sliced();
    assert!(!told(&sliced).contains("in no figure;"));
    sliced.iterations[0].measured.left_out.total.errors = 1;
    assert!(told(&sliced).contains("is in no figure; 1 request failed in it"), "{}", told(&sliced));
    let mut void = records::void_only();
    void.voids[0].measured.counts.failed = 39;
    void.voids[0].measured.left_out.total.errors = 1;
    assert!(told(&void).contains("had repeated it; 40 requests failed in it"), "{}", told(&void));
}

/// Widths, colours and characters of a terminal.
#[test]
fn text_for_a_terminal() {
    let (small, errors) = (records::small(), records::errors());
    golden("small-80.txt", &text(&small, Format::Text, &Options::default()));
    golden("errors.txt", &text(&errors, Format::Text, &Options::default()));
    golden("errors-hit.txt", &text(&errors, Format::Hit, &Options::default()));
    let narrow = Options { width: 60, color: true, charset: Charset::Ascii, ..Options::default() };
    golden("small-60-ascii-color.txt", &text(&small, Format::Text, &narrow));
}

/// What fits a screen: the verdict, the headline, the bottleneck and the levels, and whatever has to be seen besides.
#[test]
fn the_default_report_is_short() {
    let options =
        Options { full_command: Some("webstone report last --full".to_owned()), ..Options::default() };
    // With errors there is a table of errors.
    for (name, record, lines_max) in [
        ("brief.txt", records::small(), 26),
        ("", records::proxied(), 39),
        ("", records::errors(), 45),
        ("", records::refused(), 45),
        ("brief-fleet.txt", records::fleet::fleet(), 50),
    ] {
        let brief = String::from_utf8(render(&record, Format::Text, &options).unwrap()).unwrap();
        if !name.is_empty() {
            golden(name, &brief);
        }
        let lines = brief.lines().count();
        assert!(lines <= lines_max, "{} has {lines} lines", record.id);
        assert!(brief.contains("requests/s at "), "{brief}");
        assert!(!brief.contains("ERRORS"), "the headline says it: {brief}");
    }
    golden("brief-comparison.txt", &compared(&records::comparison(), Format::Text, &options));
}

fn compared(comparison: &Comparison, format: Format, options: &Options) -> String {
    String::from_utf8(render_comparison(comparison, &[], format, options).unwrap()).unwrap()
}

#[test]
fn a_comparison() {
    let narrow = Options { full: true, ..Options::default() };
    let comparison = records::comparison();
    golden("comparison.txt", &compared(&comparison, Format::Text, &narrow));
    golden("comparison.md", &compared(&comparison, Format::Markdown, &narrow));
    let hopeless = records::hopeless_comparison();
    golden("comparison-hopeless.md", &compared(&hopeless, Format::Markdown, &narrow));
    let records = records::before_and_after();
    let page = render_comparison(&comparison, &records, Format::Html, &narrow).unwrap();
    golden("comparison.html", &section(&body(&String::from_utf8(page).unwrap()), "comparison"));
}

#[test]
fn a_comparison_tells_one_reason_for_doubt_and_every_reason_to_be_invalid() {
    let told = |standing: Standing, full: bool| {
        let mut comparison = records::comparison();
        comparison.records[0].standing = standing;
        comparison.records[0].reasons = ["one", "two", "three"].map(|word| format!("reason {word}")).to_vec();
        let text = compared(&comparison, Format::Text, &Options { full, ..Options::default() });
        (text.matches("reason ").count(), text.contains("2 more reasons for doubt"))
    };
    assert_eq!(told(Standing::Noisy, false), (1, true));
    assert_eq!(told(Standing::Noisy, true), (3, false));
    assert_eq!(told(Standing::Invalid, false), (3, false));
}

#[test]
fn a_comparison_in_open_loop_is_led_by_the_mean_response_time() {
    let mut records = records::before_and_after();
    for run in records.iter_mut().flat_map(|record| &mut record.iterations) {
        run.rate = Some("1000".parse().unwrap());
    }
    let [a, b] = &records;
    let comparison = webstone_judge::comparison::compare(&[a, b], &Default::default());
    for format in [Format::Text, Format::Markdown] {
        let told = compared(&comparison, format, &Options::default());
        assert!(told.contains("; mean response time +") && !told.contains("; request rate"), "{told}");
    }
}

/// One iteration has no noise floor, which is not one of 0.
#[test]
fn a_comparison_of_single_iterations_has_no_noise_floor() {
    let (a, mut b) = (records::hit(), records::hit());
    b.id.push('b');
    let comparison = webstone_judge::comparison::compare(&[&a, &b], &Default::default());
    let full = Options { full: true, ..Options::default() };
    for format in [Format::Text, Format::Markdown, Format::Html] {
        let records = [a.clone(), b.clone()];
        let made = render_comparison(&comparison, &records, format, &full).unwrap();
        let made = String::from_utf8(made).unwrap();
        assert!(!made.contains("±0.00") && !made.contains("0.00 (the standard error"), "{format}: {made}");
        let why = "too few iterations; three of each are the least";
        assert!(
            made.contains("cannot tell") && (format != Format::Html || made.contains(why)),
            "{format}: {made}"
        );
    }
    let json = render_comparison(&comparison, &[], Format::Json, &full).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(json["candidates"][0]["levels"][0]["rows"][0]["floor"].is_null());
}

/// What calamine, a reader that is not ours, finds in a workbook: sheet by sheet, one line per row.
fn cells(workbook: &[u8], only: &[&str]) -> String {
    let mut book: calamine::Xlsx<_> = calamine::Reader::new(std::io::Cursor::new(workbook)).unwrap();
    let mut text = String::new();
    for name in book.sheet_names() {
        if !only.is_empty() && !only.contains(&name.as_str()) {
            continue;
        }
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
fn formats() {
    let (small, errors, plain) = (records::small(), records::errors(), Options::default());
    golden("small.md", &text(&small, Format::Markdown, &plain));
    golden("small.html", &body(&text(&small, Format::Html, &plain)));
    golden("small-xlsx.txt", &cells(&render(&small, Format::Xlsx, &plain).unwrap(), &[]));
    let of_errors = ["Summary", "Errors", "Identities"];
    golden("errors-xlsx.txt", &cells(&render(&errors, Format::Xlsx, &plain).unwrap(), &of_errors));
    golden("small.json", &text(&small, Format::Json, &plain));
    golden("small.hgrm", &text(&small, Format::Hgrm, &plain));
    let connect = Options { clients: Some(5), histogram: "connect".to_owned(), ..plain.clone() };
    golden("small-connect-5.hgrm", &text(&small, Format::Hgrm, &connect));
    golden("errors.prom", &text(&errors, Format::Prometheus, &plain));
    golden("proxied.prom", &families(&text(&records::proxied(), Format::Prometheus, &plain)));
    golden("errors-otel.json", &text(&errors, Format::Otel, &plain));
    golden("errors-junit.xml", &text(&errors, Format::Junit, &plain));
    let (ncsa, netsite) = (records::paper::ncsa(), records::paper::netsite());
    golden("ncsa-webstone1.txt", &text(&ncsa, Format::Webstone1, &plain));
    golden("netsite-webstone2.txt", &text(&netsite, Format::Webstone2, &plain));
    golden("errors-webstone2.txt", &text(&errors, Format::Webstone2, &plain));
}

#[test]
fn tables_of_comma_separated_values() {
    let of = |record: &RunRecord, csv_table| {
        text(record, Format::Csv, &Options { csv_table, ..Options::default() })
    };
    golden("small-columns.txt", &columns(&of(&records::small(), CsvTable::Levels)));
    golden("proxied-columns.txt", &columns(&of(&records::proxied(), CsvTable::Levels)));
    golden("small-pages.csv", &of(&records::small(), CsvTable::Pages));
    golden("fleet-generators.csv", &of(&records::fleet::fleet(), CsvTable::Generators));
    let table = of(&records::server_hosts::server_hosts(), CsvTable::ServerHosts);
    golden("server-hosts.csv", &table);
    // A head, and two hosts in nine timed runs, of which one is missing once.
    assert_eq!(table.lines().count(), 1 + 2 * 9 - 1);
}

#[test]
fn several_hosts_are_in_every_format() {
    let (servers, fleet, plain) =
        (records::server_hosts::server_hosts(), records::fleet::fleet(), Options::default());
    let page = body(&text(&servers, Format::Html, &plain));
    assert!(section(&page, "tables").contains("Server hosts"));
    let page = body(&text(&fleet, Format::Html, &plain));
    assert!(section(&page, "tables").contains("Load generators"));
    let height = |record, name: &str| {
        let workbook = render(record, Format::Xlsx, &plain).unwrap();
        let mut workbook = calamine::Xlsx::new(std::io::Cursor::new(workbook)).unwrap();
        workbook.worksheet_range(name).unwrap().height()
    };
    assert_eq!(height(&servers, "Server hosts"), 2 * 9);
    // A head, and three hosts in nine timed runs.
    assert_eq!(height(&fleet, "Load generators"), 1 + 3 * 9);
    let report: serde_json::Value = serde_json::from_str(&text(&fleet, Format::Json, &plain)).unwrap();
    assert_eq!(report["generators"][1]["name"], "gen2");
    assert_eq!(report["iterations"][0]["parts"][2]["generator"], 2);
    assert_eq!(report["computed"]["differing"][0]["generator"], 2);
    assert_eq!(report["voids"][0]["lost"]["why"], "ended: killed by signal 9");
}

#[test]
fn the_history_and_a_run_beside_it() {
    use webstone_report::history::{Published, published, render};
    let all: Vec<&Published> = published().iter().collect();
    let of = |wanted: &str| all.iter().copied().filter(|result| result.matches(wanted)).collect::<Vec<_>>();
    let made = |published: &[&Published], runs: &[RunRecord], format| {
        String::from_utf8(render(published, runs, format, &wide()).unwrap()).unwrap()
    };
    golden("history-proliant.txt", &made(&of("proliant"), &[], Format::Text));
    golden("history-proliant.md", &made(&of("proliant-1cpu-html"), &[], Format::Markdown));
    golden("history-proliant.csv", &made(&of("proliant"), &[], Format::Csv));
    golden("history-proliant.json", &made(&of("proliant-1cpu-html"), &[], Format::Json));
    let runs = [as_measured_by("standard", records::small())];
    golden("history-beside.txt", &made(&of("html"), &runs, Format::Text));
    let mut workout = as_measured_by("workout-0k", records::small());
    workout.spec.load.duration = Nanos::ZERO;
    workout.spec.load.pages = Some(200);
    golden("history-beside-wasd.txt", &made(&of("wasd"), &[workout], Format::Text));
    let paper = as_measured_by("general-and-media", records::paper::ncsa());
    golden("history-beside-paper.txt", &made(&of("ncsa"), &[paper], Format::Text));
    golden("history-beside.md", &made(&of("html"), &runs, Format::Markdown));
    golden("history-beside.csv", &made(&of("html"), &runs, Format::Csv));
    golden("history-beside.json", &made(&of("proliant-1cpu-html"), &runs, Format::Json));
    let nothing = made(&of("html"), &[records::nothing()], Format::Text);
    assert!(nothing.contains("Nothing to compare: none of these results"), "{nothing}");
    assert!(!nothing.contains("Measured under the same conditions"), "{nothing}");
}

/// A record of this workload over HTTP/1.0 without kept connections, the server on one CPU.
fn as_measured_by(workload: &str, mut record: RunRecord) -> RunRecord {
    record.workload.name = workload.to_owned();
    record.spec.client.http = HttpVersion::Http10;
    record.target.embedded = true;
    record.target.cpus = vec![0];
    record
}

/// Each condition alone prevents the comparison with a table.
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
