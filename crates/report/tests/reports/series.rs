//! The report of a series, from records with known content.

use serde_json::Value;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::RunRecord;
use webstone_model::series::{Cell, Kind, Matrix, Series};
use webstone_model::spec::Levels;
use webstone_report::{Format, Options, render_series};

use crate::records;

fn rendered(format: Format) -> String {
    let (series, records) = records::series();
    let options = Options { full: true, ..Options::default() };
    String::from_utf8(render_series(&series, &records, &[], format, &options).unwrap()).unwrap()
}

#[test]
fn the_text_fits_a_terminal_and_says_what_is_missing() {
    let text = rendered(Format::Text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in [
        "CPU scaling: nginx, apache:tuned (",
        "Not finished: 18 of 24 iterations done; `webstone scale --resume DIR`",
        "with 2 CPUs | there is <b>one</b> warning",
        "\nScaling  ",
        "No law: the Universal Scalability Law has three coefficients",
        "NA: the run is invalid or missing",
        "not measured",
        "ranks need 3 or more iterations of each (-i)",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(part) || flat.contains(part.trim()), "{part}:\n{text}");
    }
}

#[test]
fn what_many_tables_have_in_common_is_said_once() {
    let text = flat(&rendered(Format::Text));
    assert!(text.matches("Scaling ").count() > 1, "{text}");
    for note in ["NA: the run is invalid or missing", "No law: the Universal Scalability Law has"] {
        assert_eq!(text.matches(note).count(), 1, "{note}\n{text}");
    }
    // A table for each number of CPUs, none of which this series was made for.
    let matrix = "servers = [\"nginx\"]\ninterfaces = [\"static\", \"php-fpm\"]\ncpus = [1, 2]";
    let (series, records) = with(matrix, Kind::Scale, &[&[100, 101], &[200, 201], &[50, 51], &[90, 91]]);
    let options = Options::default();
    let brief = render_series(&series, &records, &[], Format::Text, &options).unwrap();
    let brief = flat(&String::from_utf8(brief).unwrap());
    assert!(brief.contains("Not shown: SPICE (2 tables), "), "{brief}");
}

#[test]
fn a_page_links_to_the_reports_of_cells_that_have_one() {
    let (series, records) = records::series();
    let links = [Some("x/report.html".to_owned()), None, Some("a\"b".to_owned())];
    let page = render_series(&series, &records, &links, Format::Html, &Options::default()).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<a href=\"x/report.html\">nginx-1cpu</a>"), "{page}");
    assert!(page.contains("<b>nginx-2cpu</b>") && page.contains("<a href=\"a&quot;b\">"));
}

#[test]
fn every_other_form_has_every_cell_and_nothing_becomes_markup() {
    let markdown = rendered(Format::Markdown);
    assert!(
        markdown.contains("there is &lt;b&gt;one&lt;/b&gt; warning") && markdown.contains("\\|"),
        "{markdown}"
    );
    assert!(markdown.contains("| apache-tuned-1cpu |"), "{markdown}");
    let html = rendered(Format::Html);
    assert!(html.contains("&lt;b&gt;one&lt;/b&gt;") && !html.contains("<b>one</b>"));
    assert!(html.contains("<section id=\"matrix\"") && html.contains("id=\"chart-scaling-t\""));
    let (verdicts, matrix) = (html.find("id=\"verdict\""), html.find("id=\"matrix\""));
    assert!(verdicts.is_some() && verdicts < matrix, "verdicts stand above ranks");
    let csv = rendered(Format::Csv);
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 10, "three cells of three levels, and the one that nothing was measured of");
    assert!(rows.iter().all(|row| row.split(',').count() == columns), "{csv}");
    assert!(rows[8].starts_with("apache-tuned-1cpu,apache,tuned,,"), "{csv}");
    assert!(
        rows[9].starts_with("apache-tuned-2cpu,apache,tuned,,")
            && rows[9].trim_end_matches(',').ends_with(",not measured"),
        "{csv}"
    );
    let json: Value = serde_json::from_str(&rendered(Format::Json)).unwrap();
    assert_eq!(json["computed"]["cells"].as_array().unwrap().len(), 4);
    assert_eq!(json["computed"]["cells"][3]["record"], Value::Null);
    assert_eq!(json["series"]["cells"][1]["at"]["cpus"], 2);
}

/// A record whose iterations had these rates, and a warning of its own.
fn with_rates(small: &RunRecord, cell: &Cell, rates: &[u64], warning: &str) -> RunRecord {
    let mut run = small.iterations[0].clone();
    run.clients = 10;
    let of = |(place, rate): (usize, &u64)| {
        let mut run = run.clone();
        run.iteration = place as u32 + 1;
        let seconds = run.measured.window_ns / NANOS_PER_SECOND;
        run.measured.counts.succeeded = rate * seconds;
        run
    };
    RunRecord {
        id: cell.name.clone(),
        spec: cell.spec.clone(),
        iterations: rates.iter().enumerate().map(of).collect(),
        warnings: vec![warning.to_owned()],
        ..small.clone()
    }
}

/// A series whose cells have these rates.
fn with(matrix: &str, kind: Kind, rates: &[&[u64]]) -> (Series, Vec<Option<RunRecord>>) {
    let mut small = records::small();
    small.spec.load.clients = Levels(vec![10]);
    small.spec.load.iterations = rates[0].len() as u32;
    let matrix: Matrix = toml::from_str(matrix).unwrap();
    let cells = matrix.cells(&small.spec).unwrap();
    let (plan, _) = records::series();
    let records = cells
        .iter()
        .zip(rates)
        .map(|(cell, rates)| Some(with_rates(&small, cell, rates, "the <link> is slow")));
    let records = records.collect();
    (Series { kind, rounds: rates[0].len() as u32, warnings: Vec::new(), cells, ..plan }, records)
}

fn in_every_form(series: &Series, records: &[Option<RunRecord>]) -> Vec<(Format, String)> {
    let forms = [Format::Text, Format::Markdown, Format::Html, Format::Csv, Format::Json];
    let of = |format| {
        let bytes =
            render_series(series, records, &[], format, &Options { full: true, ..Options::default() })
                .unwrap();
        (format, String::from_utf8(bytes).unwrap())
    };
    forms.map(of).to_vec()
}

/// One line, without the marks that a format needs, so that a sentence is found wherever it is broken.
fn flat(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ranks_are_ranges_and_servers_that_do_not_differ_are_named() {
    let (series, records) = with(
        "servers = ['nginx', 'apache', 'caddy', 'lighttpd']",
        Kind::Servers,
        &[
            &[38_381, 46_300, 30_462, 51_700, 25_062],
            &[65_000, 65_900, 64_100, 66_600, 63_400],
            &[37_043, 37_900, 36_186, 38_300, 35_786],
            &[10, 10_000, 20, 12, 9_000],
        ],
    );
    for (format, raw) in in_every_form(&series, &records) {
        let text = flat(&raw);
        match format {
            Format::Json => {
                let json: Value = serde_json::from_str(&text).unwrap();
                let ranked = json["computed"]["ranks"][0]["ranked"].as_array().unwrap().clone();
                assert_eq!(ranked[1]["rank"], serde_json::json!({"best": 2, "worst": 3}));
                assert_eq!(ranked[1]["not_told_from"], serde_json::json!([1, 2]));
                assert!(ranked[3]["without"].as_str().unwrap().contains("nothing can be concluded"));
            }
            Format::Csv => {
                let mut rows = csv::Reader::from_reader(raw.as_bytes());
                let head = rows.headers().unwrap().clone();
                let nginx = rows.records().next().unwrap().unwrap();
                let of = |name: &str| nginx.get(head.iter().position(|it| it == name).unwrap()).unwrap();
                let told = ["rank_best", "rank_worst", "not_told_from"].map(of);
                assert_eq!(told, ["2", "3", "apache | caddy"]);
            }
            _ => {
                for part in [
                    "1–2",
                    "2–3",
                    "No significant difference: apache and nginx; nginx and caddy.",
                    "No rank: lighttpd (INCONCLUSIVE).",
                    "lighttpd is INCONCLUSIVE: 10 clients: nothing can be concluded: its 5 iterations range from 10 to 10000 requests/s",
                ] {
                    assert!(text.contains(part), "{format}: {part}\n{text}");
                }
            }
        }
    }
}

#[test]
fn a_rate_that_the_generator_limited_is_the_least_and_has_a_rank() {
    let rates = [&[65_000, 65_900, 64_100][..], &[38_000, 38_300, 37_800]];
    let (series, mut records) = with("servers = ['nginx', 'apache']", Kind::Servers, &rates);
    for run in &mut records[0].as_mut().unwrap().iterations {
        run.measured.generator.workers[0].system_ns = run.measured.window_ns;
    }
    for (format, raw) in in_every_form(&series, &records) {
        let text = flat(&raw);
        match format {
            Format::Json => {
                let json: Value = serde_json::from_str(&text).unwrap();
                let ranks = json["computed"]["ranks"][0]["ranked"].as_array().unwrap().clone();
                let places = ranks.iter().map(|it| it["rank"]["worst"].as_u64()).collect::<Vec<_>>();
                assert_eq!(places, [Some(1), Some(2)]);
                assert_eq!(json["computed"]["cells"][0]["levels"][0]["is_least"], true);
            }
            Format::Csv => {}
            _ => {
                for part in ["≥65,000", "nginx is INVALID: ", "≥: the load generator was the bottleneck"]
                {
                    assert!(text.contains(part), "{format}: {part}\n{text}");
                }
                assert!(!text.contains("No rank:"), "{format}: {text}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_several_cells_is_told_once() {
    let scattered = &[10, 10_000, 20, 12, 9_000][..];
    let (series, records) = with(
        "servers = ['nginx', 'caddy', 'apache', 'lighttpd']",
        Kind::Servers,
        &[scattered, scattered, &[65_000, 65_900, 64_100, 66_600, 63_400], scattered],
    );
    for (format, raw) in in_every_form(&series, &records) {
        if matches!(format, Format::Json | Format::Csv) {
            continue;
        }
        let text = flat(&raw);
        let told = "nginx, caddy and lighttpd are INCONCLUSIVE: 10 clients: nothing can be concluded";
        assert!(text.contains(told), "{format}: {text}");
        assert!(!text.contains("nginx is INCONCLUSIVE"), "{format}: {text}");
    }
}

#[test]
fn what_cannot_be_is_an_alarm_in_every_form() {
    let (series, records) = with(
        "servers = ['nginx']\ncpus = [1, 2]",
        Kind::Scale,
        &[&[300, 303, 297], &[19_593, 19_700, 19_486]],
    );
    for (format, text) in in_every_form(&series, &records) {
        let text = flat(&text);
        for part in [
            "nginx-2cpu: an efficiency of 3266 % (",
            "Most likely its baseline, nginx-1cpu, came out too low",
        ] {
            assert!(text.contains(part), "{format}: {part}\n{text}");
        }
    }
}

#[test]
fn efficiencies_have_their_intervals_in_every_form() {
    let (series, records) = with(
        "servers = ['nginx']\ninterfaces = ['static', 'cgi']",
        Kind::Spice,
        &[&[10_000, 10_100, 9_900], &[1_000, 1_010, 990]],
    );
    for (format, text) in in_every_form(&series, &records) {
        let part = match format {
            Format::Csv => ",10,9.77",
            Format::Json => "\"efficiency_percent\"",
            _ => "10.0% (9.8 to 10.2)",
        };
        assert!(flat(&text).contains(part), "{format}: {part}\n{text}");
    }
}

#[test]
fn what_tls_costs_is_told_beside_the_same_without_it() {
    let (series, mut records) = with(
        "servers = ['nginx']\nhandshakes = ['off', 'full', 'resumed']",
        Kind::Servers,
        &[&[1_000, 1_000, 1_000], &[500, 500, 500], &[750, 750, 750]],
    );
    for (record, (full, resumed)) in records.iter_mut().flatten().zip([(0, 0), (8, 0), (2, 6)]) {
        for run in &mut record.iterations {
            let ended = full + resumed;
            run.measured.counts.connections = 100;
            run.measured.counts.connections_answered = 100;
            run.measured.handshakes = (ended > 0).then(|| webstone_measure::metrics::Handshakes {
                full,
                resumed,
                in_the_clear: 100 - ended,
                time: webstone_measure::metrics::Moments {
                    count: ended,
                    sum: ended * 2_000_000,
                    ..Default::default()
                },
                ..Default::default()
            });
        }
    }
    let options = Options { full: true, width: 120, ..Options::default() };
    let of = |format| {
        let bytes = render_series(&series, &records, &[], format, &options).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let text = of(Format::Text);
    let row = |name: &str| {
        let rows = text.split("\nHandshakes").nth(1).unwrap_or_else(|| panic!("no table in {text}"));
        let line = rows.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("nginx-tls-off")[1..4], ["1,000", "–", "+100.0%"].map(str::to_owned), "{text}");
    assert_eq!(
        row("nginx-tls-full")[1..6],
        ["500", "-50.0%", "–", "8.0%", "100.0%"].map(str::to_owned),
        "{text}"
    );
    let resumed = ["750", "-25.0%", "+50.0%", "8.0%", "25.0%"].map(str::to_owned);
    assert_eq!(row("nginx-tls-resumed")[1..6], resumed, "{text}");
    assert!(of(Format::Csv).contains(",resumed,8,25,0.002"), "{}", of(Format::Csv));
    // Where it does not vary, the title says it.
    let (mut series, records) = with("servers = ['nginx']", Kind::Servers, &[&[1_000, 1_000, 1_000]]);
    series.cells[0].spec.server.tls = Some(Default::default());
    let text = render_series(&series, &records, &[], Format::Text, &Options::default()).unwrap();
    let text = flat(&String::from_utf8(text).unwrap());
    assert!(text.contains("interleaved, over TLS with full handshakes; series"), "{text}");
}

#[test]
fn ranks_of_servers_that_agreed_on_other_suites_say_so() {
    use webstone_measure::metrics::{Agreed, Handshakes};
    use webstone_measure::tls::{TlsCipher, TlsVersion};
    let (mut series, mut records) = with(
        "servers = ['nginx', 'apache', 'caddy']",
        Kind::Servers,
        &[&[1_000, 1_010, 990], &[2_000, 2_020, 1_980], &[3_000, 3_010, 2_990]],
    );
    series.cells.iter_mut().for_each(|cell| cell.spec.server.tls = Some(Default::default()));
    let mut text_with = |ciphers: [TlsCipher; 3]| {
        for (record, cipher) in records.iter_mut().flatten().zip(ciphers) {
            for run in &mut record.iterations {
                let agreed = Agreed {
                    version: TlsVersion::Tls13,
                    cipher,
                    group: None,
                    alpn: None,
                    verified: true,
                    count: 8,
                };
                run.measured.handshakes =
                    Some(Handshakes { full: 8, agreed: vec![agreed], ..Handshakes::default() });
            }
        }
        let text = render_series(&series, &records, &[], Format::Text, &Options::default()).unwrap();
        flat(&String::from_utf8(text).unwrap())
    };
    let (short, long) = (TlsCipher::Tls13Aes128, TlsCipher::Tls13Aes256);
    let text = text_with([long, short, short]);
    let note = "Cipher suites differ, and their cost is part of the ranks: TLS_AES_128_GCM_SHA256 with caddy, apache; \
                TLS_AES_256_GCM_SHA384 with nginx. `--tls-ciphers TLS_AES_128_GCM_SHA256` makes them the same.";
    assert!(text.contains(note), "{text}");
    let text = text_with([short; 3]);
    assert!(!text.contains("suites differ"), "{text}");
}

#[test]
fn what_the_reports_of_cells_warn_of_is_in_every_form() {
    let (series, records) = with(
        "servers = ['nginx', 'apache']",
        Kind::Servers,
        &[&[1000, 1010, 990, 2000, 1005], &[2000, 2020, 1980, 1999, 2001]],
    );
    for (format, text) in in_every_form(&series, &records) {
        let text = flat(&text);
        for part in ["OUTLIERS", "differ from the others of their level", "the <link> is slow"] {
            assert!(text.contains(part), "{format}: {part}\n{text}");
        }
        if format != Format::Json && format != Format::Csv {
            assert_eq!(text.matches("the <link> is slow").count(), 1, "{format}");
            assert!(
                text.contains("WARNING, nginx, apache: the <link>"),
                "{format}: said once of both\n{text}"
            );
        }
    }
}

/// The workbook of a series is that of its cells: a summary and the data of every client.
#[test]
fn a_series_is_a_workbook_with_the_data_of_clients() {
    use calamine::Reader as _;
    let (series, records) = records::series();
    let book = render_series(&series, &records, &[], Format::Xlsx, &Options::default()).unwrap();
    let mut book = calamine::Xlsx::new(std::io::Cursor::new(book)).unwrap();
    let summary = book.worksheet_range("Summary").unwrap();
    let runs: Vec<String> = summary.rows().skip(1).take(3).map(|row| row[0].to_string()).collect();
    assert_eq!(runs, ["nginx-1cpu", "nginx-2cpu", "apache-tuned-1cpu"]);
    let clients = book.worksheet_range("Client Data").unwrap();
    let of_last = clients.rows().filter(|row| row[0] == "apache-tuned-1cpu").count();
    assert!(of_last > 0, "{:?}", clients.rows().next());
    let nothing = vec![None; records.len()];
    let error = render_series(&series, &nothing, &[], Format::Xlsx, &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "nothing of the series is measured yet, so there is no workbook");
}

/// Both peaks at their own clients, and a chart with a line for each number of CPUs whose peak is marked.
#[test]
fn peaks_stand_together_and_are_marked_in_the_charts() {
    let markdown = rendered(Format::Markdown);
    let peaks = markdown.split("#### Peaks").nth(1).unwrap();
    assert!(peaks.contains("| nginx-2cpu | 1,818 at 20 | 471 at 20 |"), "{peaks}");
    let html = rendered(Format::Html);
    let chart = html.split("id=\"chart-family-requests_per_s-0-t\"").nth(1).unwrap();
    assert!(chart.contains("1 CPU") && chart.contains("2 CPUs, peak"), "{chart}");
}

#[test]
fn forms_that_hold_one_run_are_refused() {
    let (series, records) = records::series();
    for format in [Format::Hit, Format::Hgrm, Format::Webstone1, Format::Prometheus] {
        let error =
            render_series(&series, &records, &[], format, &Options::default()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("a series cannot be written as {format}\nhint: ")), "{error}");
    }
}
