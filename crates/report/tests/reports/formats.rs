//! The formats that other programs read, each checked with a reader that is not ours: a workbook read by calamine and
//! openpyxl, metrics checked by promtool, OTLP parsed by its field names, percentile text read back.

use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use calamine::{Data, Reader, Xlsx};
use serde_json::Value;
use webstone_measure::errors::{ErrorClass, ErrorExample};
use webstone_measure::figures::Figures;
use webstone_model::record::{IterationRecord, RunRecord, TcpUse};
use webstone_model::spec::HttpVersion;
use webstone_report::{Format, Options, ReportError, render, render_all};

use crate::records;

fn workbook(records: &[RunRecord]) -> Vec<u8> {
    render_all(records, Format::Xlsx, &Options::default()).unwrap()
}

fn text(record: &RunRecord, format: Format, options: &Options) -> String {
    String::from_utf8(render(record, format, options).unwrap()).unwrap()
}

/// The classes of error that metrics have, and how many failed requests they count.
fn classes_of(record: &RunRecord) -> Vec<(String, String)> {
    let metrics = text(record, Format::Prometheus, &Options::default());
    let lines = metrics.lines().filter(|line| line.starts_with("webstone_errors_total{"));
    let class = |line: &str| line.split("class=\"").nth(1)?.split('"').next().map(str::to_owned);
    lines.map(|line| (class(line).unwrap(), line.rsplit(' ').next().unwrap().to_owned())).collect()
}

#[test]
fn metrics_have_the_classes_of_error_of_the_protocols_in_use_and_those_that_occurred() {
    let (all, http2, tls) = (32, 8, 7);
    let mut record = records::hit();
    let one = |record: &RunRecord| classes_of(record).len() / record.iterations.len();
    assert_eq!(one(&record), all - http2 - tls);
    assert!(
        classes_of(&record).contains(&("refused".to_owned(), "0".to_owned())),
        "zeros of what may occur stay"
    );
    record.spec.client.http = HttpVersion::Http2;
    assert_eq!(one(&record), all - tls);
    record.target.url = "http://127.0.0.1:1 https://127.0.0.1:2".to_owned();
    assert_eq!(one(&record), all);
    record.spec.client.http = HttpVersion::Http11;
    assert_eq!(one(&record), all - http2);
    record.target.url = "http://127.0.0.1:1".to_owned();
    let mut pages = record.clone();
    pages.workload.pages[0].files[0].detail.tls = true;
    assert_eq!(one(&pages), all - http2);
    // An error of HTTP/2 is counted even if nothing says that the run speaks HTTP/2.
    let example =
        || ErrorExample { at_ns: 0, address: String::new(), request: String::new(), detail: String::new() };
    record.iterations[0].measured.errors.add(ErrorClass::H2Goaway, example);
    assert_eq!(one(&record), all - http2 - tls + 1);
    assert!(classes_of(&record).contains(&("h2-goaway".to_owned(), "1".to_owned())));
}

fn sheet(bytes: &[u8], name: &str) -> Vec<Vec<Data>> {
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(bytes)).unwrap();
    book.worksheet_range(name).unwrap().rows().map(<[Data]>::to_vec).collect()
}

fn column(rows: &[Vec<Data>], heading: &str) -> Vec<Data> {
    let place = rows[0].iter().position(|cell| *cell == Data::String(heading.to_owned()));
    let place = place.unwrap_or_else(|| panic!("no column `{heading}` in {:?}", rows[0]));
    rows[1..].iter().map(|row| row[place].clone()).collect()
}

#[test]
fn the_same_record_gives_the_same_workbook() {
    let records = [records::small()];
    assert!(workbook(&records) == workbook(&records));
}

#[test]
fn a_workbook_has_a_sheet_a_table_and_the_figures_of_the_record() {
    let record = records::small();
    let bytes = workbook(std::slice::from_ref(&record));
    let book: Xlsx<_> = Xlsx::new(Cursor::new(&bytes[..])).unwrap();
    assert_eq!(
        book.sheet_names(),
        [
            "Summary",
            "Configuration",
            "Disclosure",
            "Levels",
            "Iterations",
            "Client Data",
            "Pages",
            "Percentiles",
            "Percentile Curves",
            "Seconds",
            "Errors",
            "Identities",
            "Generator",
            "Environment",
            "Definitions"
        ]
    );
    let levels = sheet(&bytes, "Levels");
    let rates: Vec<Data> = record
        .levels()
        .iter()
        .map(|(_, runs)| Data::Float(Figures::of_measured(&IterationRecord::merged(runs)).request_rate))
        .collect();
    assert_eq!(column(&levels, "Requests, 1/s"), rates);
    assert_eq!(column(&sheet(&bytes, "Client Data"), "Client").len(), 2 * (5 + 10 + 20));
    assert_eq!(column(&sheet(&bytes, "Seconds"), "Until, s").len(), 6 * 6);
    assert_eq!(column(&sheet(&bytes, "Iterations"), "Requests, 1/s").len(), 6);
    let curve = sheet(&bytes, "Percentile Curves");
    assert_eq!(curve[4][..2], [Data::Float(50.0), Data::Float(2.0)]);
}

#[test]
fn every_record_makes_a_workbook_that_opens() {
    for record in records::all() {
        let bytes = workbook(&[record]);
        assert_eq!(sheet(&bytes, "Levels")[0][1], Data::String("Clients".to_owned()));
    }
}

#[test]
fn several_records_share_a_workbook() {
    let bytes = workbook(&[records::small(), records::hit()]);
    let levels = sheet(&bytes, "Levels");
    assert_eq!(column(&levels, "Clients"), [5.0, 10.0, 20.0, 64.0].map(Data::Float));
    assert_eq!(levels[4][0], Data::String("20261121-110000-hit".to_owned()));
}

#[test]
fn what_looks_like_a_formula_stays_text() {
    let mut record = records::hit();
    let hostile = "=HYPERLINK(\"http://192.0.2.1\",\"x\")";
    record.id = "=1+1".to_owned();
    record.workload.pages[0].files[0].url = hostile.into();
    let bytes = workbook(&[record]);
    assert_eq!(sheet(&bytes, "Pages")[1][2], Data::String(hostile.to_owned()));
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(&bytes[..])).unwrap();
    for name in book.sheet_names() {
        let formulas = book.worksheet_formula(&name).unwrap();
        assert_eq!(formulas.used_cells().count(), 0, "{name}");
    }
}

/// A Python with openpyxl, where there is one. Debian's packages are seen by Debian's interpreter only.
fn python_with(module: &str) -> Option<&'static str> {
    let found = ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let import =
            Command::new(python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        println!("skipped: no python3 with {module}");
    }
    found
}

fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn openpyxl_reads_the_workbook_and_its_charts() {
    let Some(python) = python_with("openpyxl") else { return };
    let path = scratch("openpyxl.xlsx", &workbook(&[records::small(), records::errors()]));
    let program = "
import sys, openpyxl, warnings
warnings.simplefilter('error')
book = openpyxl.load_workbook(sys.argv[1])
for sheet in book:
    series = [len(chart.series) for chart in sheet._charts]
    kinds = {c.data_type for row in sheet.iter_rows() for c in row if c.value is not None}
    print(sheet.title, sheet.max_row, sheet.freeze_panes, series, 'f' in kinds)
levels = book['Levels']
print(levels['F2'].number_format, levels['A1'].font.bold, book.properties.created)
curves = book['Percentile Curves']._charts[0]
print(curves.x_axis.scaling.logBase, curves.y_axis.scaling.logBase, curves.x_axis.delete)
";
    let output = Command::new(python).args(["-c", program]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    for line in [
        "Levels 5 C2 [] False",
        "Percentile Curves 39 C2 [4] False",
        "Seconds 43 D2 [3] False",
        "#,##0.0 True 2026-11-21 10:04:48",
        "10.0 10.0 ",
    ] {
        assert!(said.contains(line), "`{line}` is missing in\n{said}");
    }
    assert!(said.starts_with("Summary ") && said.contains(" B2 [2, 2, 2, 2] False"), "{said}");
}

#[test]
fn promtool_finds_nothing_to_complain_about() {
    let version =
        Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if version.is_err() {
        println!("skipped: promtool is not installed");
        return;
    }
    for records in records::all().into_iter().map(|record| vec![record]).chain([records::all()]) {
        let metrics = render_all(&records, Format::Prometheus, &Options::default()).unwrap();
        let mut check = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        check.stdin.take().unwrap().write_all(&metrics).unwrap();
        let output = check.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn prometheus_counts_agree_with_the_record() {
    let record = records::small();
    let metrics = text(&record, Format::Prometheus, &Options::default());
    let sum = |prefix: &str| -> f64 {
        let values = metrics.lines().filter(|line| line.starts_with(prefix));
        values.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    };
    let whole = record.whole();
    assert_eq!(sum("webstone_requests_succeeded_total{"), whole.counts.succeeded as f64);
    assert_eq!(sum("webstone_response_duration_seconds_count{"), whole.counts.succeeded as f64);
    assert_eq!(sum("webstone_page_hits_total{"), whole.counts.pages_completed as f64);
    let response_s = whole.response.sum as f64 / 1e9;
    assert!((sum("webstone_response_duration_seconds_sum{") / response_s - 1.0).abs() < 1e-12);
}

#[test]
fn prometheus_bounds_its_series() {
    let mut record = records::small();
    let iteration = record.iterations[0].clone();
    record.iterations = (1..=1_000)
        .map(|clients| {
            let mut run = iteration.clone();
            run.clients = clients;
            run
        })
        .collect();
    let metrics = text(&record, Format::Prometheus, &Options { pages_max: 1, ..Options::default() });
    assert!(metrics.lines().count() < 27_000, "{}", metrics.lines().count());
    for line in [
        "webstone_export_omitted{run=\"20261121-100405-webstone\",what=\"iterations\"} 800",
        "webstone_export_omitted{run=\"20261121-100405-webstone\",what=\"levels\"} 950",
        "webstone_export_omitted{run=\"20261121-100405-webstone\",what=\"pages\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

/// Percentile text as plotters of HdrHistogram read it: four fields a line, comments begin with `#`.
fn plotted(hgrm: &str) -> Vec<[f64; 4]> {
    let fields =
        |line: &str| -> Vec<f64> { line.split_whitespace().filter_map(|f| f.parse().ok()).collect() };
    let lines = hgrm.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| fields(line).try_into().ok()).collect()
}

#[test]
fn percentile_text_reads_back_as_the_histogram() {
    let record = records::small();
    for (name, clients) in [("response", 10), ("first-byte", 5), ("connect", 20), ("page", 20)] {
        let options = Options { clients: Some(clients), histogram: name.to_owned(), ..Options::default() };
        let hgrm = text(&record, Format::Hgrm, &options);
        let runs: Vec<_> = record.iterations.iter().filter(|run| run.clients == clients).collect();
        let merged = IterationRecord::merged(&runs);
        let (_, histogram) = merged.histograms.named().into_iter().find(|(n, _)| *n == name).unwrap();
        let rows = plotted(&hgrm);
        assert!(rows.len() > 40, "{}", rows.len());
        for [value_ms, quantile, count, inverse] in rows {
            assert_eq!(
                (value_ms * 1e6).round() as u64,
                histogram.value_at_quantile(quantile),
                "{name} {quantile}"
            );
            assert!(count / histogram.len() as f64 >= quantile - 1e-9);
            assert!((inverse * (1.0 - quantile) - 1.0).abs() < 0.01);
        }
        assert!(hgrm.contains(&format!("Total count    = {:12}]", histogram.len())), "{hgrm}");
    }
}

#[test]
fn percentile_text_says_what_it_holds() {
    let record = records::small();
    let hgrm = text(&record, Format::Hgrm, &Options::default());
    let first = hgrm.lines().next().unwrap();
    assert_eq!(
        first,
        "#[webstone 20261121-100405-webstone: response time in milliseconds, 20 clients, 2 iterations together; of 3 \
         levels that of the highest rate]"
    );
    let wrong = Options { histogram: "latency".to_owned(), ..Options::default() };
    let message = render(&record, Format::Hgrm, &wrong).unwrap_err().to_string();
    assert!(message.contains("it holds connect, first-byte, response, page"), "{message}");
    let both = render_all(&[records::small(), records::hit()], Format::Hgrm, &Options::default());
    assert!(matches!(both, Err((1, ReportError::OneOnly { .. }))));
}

#[test]
fn every_format_shows_that_a_run_is_invalid() {
    let record = records::errors();
    for format in Format::ALL.into_iter().filter(|format| !format.is_binary()) {
        let made = text(&record, format, &Options::default());
        assert!(made.to_uppercase().contains("INVALID"), "{format}:\n{made}");
    }
    let summary = sheet(&workbook(std::slice::from_ref(&record)), "Summary");
    assert_eq!(column(&summary, "Verdict")[0], Data::String("INVALID".to_owned()));
    // A sound run has no banner above its results.
    for format in [Format::Webstone1, Format::Webstone2] {
        assert!(!text(&records::small(), format, &Options::default()).contains("****"), "{format}");
    }
}

#[test]
fn each_row_of_levels_has_its_verdict() {
    let mut record = records::small();
    let last = record.iterations.iter_mut().filter(|run| run.clients == 20);
    last.for_each(|run| records::fail(&mut run.measured, ErrorClass::Refused, 5_000, 0, "refused"));
    let made = text(&record, Format::Csv, &Options::default());
    let mut reader = csv::Reader::from_reader(made.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let place = |name: &str| heads.iter().position(|head| head == name).unwrap();
    for row in reader.records().map(Result::unwrap) {
        assert_eq!(&row[place("verdict")], "INVALID");
        let of_level = if &row[place("clients")] == "20" { "INVALID" } else { "SOUND" };
        assert_eq!(&row[place("level_verdict")], of_level);
    }
    // The classic texts are of one iteration each.
    for format in [Format::Webstone1, Format::Webstone2] {
        let made = text(&record, format, &Options::default());
        assert_eq!(made.matches("**** INVALID: ").count(), 2, "{format}:\n{made}");
    }
}

#[test]
fn a_worker_that_waits_awake_does_not_use_its_cpu() {
    let mut record = records::small();
    for run in &mut record.iterations {
        let worker = &mut run.measured.generator.workers[0];
        (worker.user_ns, worker.system_ns, worker.spun_ns) = (6_000_000_000, 0, 5_700_000_000);
    }
    let workers = sheet(&workbook(&[record]), "Generator");
    assert_eq!(column(&workers, "Share of its CPU, %")[0], Data::Float(5.0));
    assert_eq!(column(&workers, "Awake, s")[0], Data::Float(5.7));
}

#[test]
fn otlp_counts_agree_with_the_record() {
    let record = records::errors();
    let request: Value = serde_json::from_str(&text(&record, Format::Otel, &Options::default())).unwrap();
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let duration = &metric("http.client.request.duration")["exponentialHistogram"]["dataPoints"][0];
    let measured = &record.iterations[0].measured;
    assert_eq!(duration["count"], measured.counts.succeeded.to_string());
    let buckets = duration["positive"]["bucketCounts"].as_array().unwrap();
    let sum: u64 = buckets.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, measured.counts.succeeded);
    assert!(buckets.len() <= 160);
    let start: u64 = duration["startTimeUnixNano"].as_str().unwrap().parse().unwrap();
    let end: u64 = duration["timeUnixNano"].as_str().unwrap().parse().unwrap();
    // 2026-11-21T11:00:01Z
    assert_eq!((start, end - start), (1_795_258_801_000_000_000, measured.window_ns));
    let errors = metric("webstone.errors")["sum"]["dataPoints"].as_array().unwrap();
    assert_eq!(errors.len(), 3);
    assert_eq!(errors[0]["asInt"], "120");
}

/// The quantile of an exponential histogram, as a backend computes it, is the HdrHistogram's within a bucket.
#[test]
fn exponential_buckets_keep_the_percentiles() {
    let record = records::hit();
    let request: Value = serde_json::from_str(&text(&record, Format::Otel, &Options::default())).unwrap();
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let point = &metrics[0]["exponentialHistogram"]["dataPoints"][0];
    let base = 2_f64.powf(2_f64.powi(-(point["scale"].as_i64().unwrap() as i32)));
    let offset = point["positive"]["offset"].as_i64().unwrap() as i32;
    let counts: Vec<u64> = point["positive"]["bucketCounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count.as_str().unwrap().parse().unwrap())
        .collect();
    let histogram = &record.iterations[0].measured.histograms.response;
    for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let wanted = webstone_measure::metrics::rank(quantile, histogram.len());
        let mut seen = 0;
        let place = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let upper = base.powi(offset + place.unwrap() as i32 + 1);
        let value = histogram.value_at_quantile(quantile) as f64 / 1e9;
        assert!(
            value <= upper * 1.000_001 && value > upper / base * 0.999_999,
            "{quantile}: {value} {upper}"
        );
    }
}

/// The protobuf definition itself, where Python has it: its JSON parser refuses unknown names and wrong types.
#[test]
fn the_protobuf_definition_accepts_otlp() {
    let Some(python) = python_with("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2") else {
        return;
    };
    for records in [vec![records::small()], vec![records::errors(), records::nothing()], records::all()] {
        let made = render_all(&records, Format::Otel, &Options::default()).unwrap();
        let path = scratch("otlp.json", &made);
        let program = "
import sys
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
request = json_format.Parse(open(sys.argv[1]).read(), ExportMetricsServiceRequest())
print(len(request.resource_metrics), request.ByteSize() > 100)
";
        let output = Command::new(python).args(["-c", program]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{} True\n", records.len()));
    }
}

/// A figure that is nowhere but in the table of figures is in every format that shows its group.
#[test]
fn retransmissions_are_in_every_format() {
    let mut record = records::small();
    for run in &mut record.iterations {
        let host = run.host.as_mut().unwrap();
        host.tcp = Some(TcpUse { retransmitted: 7, ..TcpUse::default() });
    }
    let ended: u64 = record.levels()[0].1.iter().map(|run| run.measured.counts.ended()).sum();
    let expected = 1000.0 * 14.0 / ended as f64;
    let options = Options { width: 200, full: true, ..Options::default() };
    let json: Value = serde_json::from_str(&text(&record, Format::Json, &options)).unwrap();
    let level = &json["computed"]["levels"][0];
    assert_eq!(level["host"]["retransmissions_per_1000_requests"].as_f64(), Some(expected));
    assert_eq!(
        column(&sheet(&workbook(&[record.clone()]), "Levels"), "Retransmissions per 1,000 requests")[0],
        Data::Float(expected)
    );
    let shown = format!("{expected:.3}");
    for (format, name) in [
        (Format::Text, "1,000 requests"),
        (Format::Html, "#def-the-host-of-the-generator-retransmissions_per_1000_requests"),
        (Format::Markdown, "| retransmissions per 1,000 requests |"),
    ] {
        let text = text(&record, format, &options);
        assert!(text.contains(name) && text.contains(&shown), "{format}: {name}, {shown}\n{text}");
    }
    for (format, name) in [
        (Format::Csv, "retransmissions_per_1000_requests"),
        (Format::Prometheus, "webstone_retransmissions_per_1000_requests{"),
        (Format::Otel, "webstone.retransmissions"),
    ] {
        let text = text(&record, format, &options);
        let of_first = 7000.0 / record.iterations[0].measured.counts.ended() as f64;
        assert!(text.contains(name) && text.contains(&of_first.to_string()), "{format}: {name}\n{text}");
    }
}

/// What `verify` checks in a record apart from its files, here in one made by several hosts.
#[test]
fn a_record_of_several_hosts_agrees_with_itself_and_a_part_that_was_changed_does_not() {
    let rules = |record: &RunRecord| -> Vec<String> {
        let found = webstone_judge::consistency::check(record).contradictions;
        found.into_iter().map(|found| format!("{}: {}", found.place, found.rule)).collect()
    };
    let sound = records::fleet::fleet();
    // Simulated runs do not have everything that a stored record has.
    let simulated = rules(&sound);
    let is_of_hosts = |rule: &&String| rule.contains("host") || rule.contains("part");
    assert_eq!(simulated.iter().filter(is_of_hosts).collect::<Vec<_>>(), Vec::<&String>::new());
    type Change = fn(&mut RunRecord);
    let changes: [Change; 5] = [
        |record| record.iterations[0].parts[1].counts.succeeded += 1,
        |record| record.iterations[0].parts[1].response_p50_ns *= 3,
        |record| record.iterations[0].parts[2].response.sum -= 1,
        |record| drop(record.iterations[3].parts.pop()),
        |record| record.voids[0].parts[0].counts.failed += 1,
    ];
    for change in changes {
        let mut changed = sound.clone();
        change(&mut changed);
        let found = rules(&changed);
        let more: Vec<&String> = found.iter().filter(|rule| !simulated.contains(rule)).collect();
        assert!(!more.is_empty() && more.iter().all(is_of_hosts), "{more:?}");
    }
}
