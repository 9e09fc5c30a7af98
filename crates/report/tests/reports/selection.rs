//! What holds for every format: selection of a level, empty records, narrow terminals, CSV that reads back, hostile
//! text, and large sweeps.

use webstone_judge::search::{self, Answer};
use webstone_measure::figures::Figures;
use webstone_measure::metrics::{ClientTotals, PageTotals};
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_model::search::{Over, SearchSpec};
use webstone_report::{Charset, CsvTable, Format, Options, ReportError, render};

use crate::records;

fn text(record: &RunRecord, format: Format, options: &Options) -> String {
    String::from_utf8(render(record, format, options).unwrap()).unwrap()
}

#[test]
fn every_format_of_every_record_is_made() {
    for record in records::all() {
        for format in Format::ALL {
            if format.is_binary() {
                continue; // `formats.rs` opens it
            }
            let made = text(&record, format, &Options::default());
            let empty =
                matches!(format, Format::Webstone1 | Format::Webstone2) && record.iterations.is_empty();
            assert_eq!(made.is_empty(), empty, "{format} of {}", record.id);
            assert!(made.is_empty() || made.ends_with('\n'), "{format} of {}", record.id);
            assert!(!made.contains("NaN") && !made.contains("inf "), "{format} of {}:\n{made}", record.id);
        }
    }
}

#[test]
fn a_selection_shows_one_level_and_one_iteration() {
    let record = records::small();
    let only = Options { clients: Some(10), iteration: Some(2), full: true, ..Options::default() };
    assert_eq!(text(&record, Format::Webstone2, &only).matches("WEBSTONE 2.0 results:").count(), 1);
    assert_eq!(text(&record, Format::Csv, &only).lines().count(), 2);
    let shown = text(&record, Format::Text, &only);
    assert!(!shown.contains("INVALID"), "a part is not an incomplete whole:\n{shown}");
    let level = Options { clients: Some(10), full: true, ..Options::default() };
    assert_eq!(text(&record, Format::Webstone1, &level).matches("WEBSTONE number:").count(), 2);
}

#[test]
fn a_selection_of_nothing_says_what_there_is() {
    let record = records::small();
    let error = render(
        &record,
        Format::Text,
        &Options { clients: Some(7), iteration: Some(3), ..Options::default() },
    )
    .unwrap_err();
    assert!(matches!(error, ReportError::NothingSelected { .. }));
    assert_eq!(
        error.to_string(),
        "the record has no iteration 3 of 7 clients: it holds 5 clients (iteration 1, 2), 10 clients (iteration 1, 2), \
         20 clients (iteration 1, 2)\nhint: leave out the selection, or choose one of these"
    );
}

#[test]
fn lines_keep_to_the_width_of_the_terminal() {
    for record in records::all() {
        for width in [60, 80, 100, 132, 200] {
            for charset in [Charset::Utf8, Charset::Ascii] {
                for (format, full) in [(Format::Text, true), (Format::Text, false), (Format::Hit, false)] {
                    let options = Options { width, charset, full, ..Options::default() };
                    let made = text(&record, format, &options);
                    for line in made.lines() {
                        let columns = line.chars().count();
                        assert!(columns <= width, "{columns} > {width} in {}: {line}", record.id);
                        assert!(charset == Charset::Utf8 || line.is_ascii(), "{line}");
                    }
                }
            }
        }
    }
}

#[test]
fn colour_changes_no_character() {
    for record in records::all() {
        let plain = text(&record, Format::Text, &Options::default());
        let colored = text(&record, Format::Text, &Options { color: true, ..Options::default() });
        assert!(colored.contains("\x1b["));
        assert_eq!(without_escapes(&colored), plain);
    }
}

fn without_escapes(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').unwrap().1);
    }
    // A coloured label keeps the spaces after it, where a plain line is trimmed.
    plain.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn no_text_of_the_record_reaches_the_terminal_as_a_command() {
    let mut record = records::errors();
    let bell = "\x1b]0;owned\x07\r\nRequests/sec: 9".to_owned();
    record.id.clone_from(&bell);
    record.started_at.clone_from(&bell);
    record.command_line = vec![bell.clone()];
    record.target.url.clone_from(&bell);
    record.target.server = Some(bell.clone());
    record.workload.name.clone_from(&bell);
    record.workload.pages[0].files[0].url = bell.clone().into();
    record.warnings = vec![bell.clone()];
    record.environment.insert("hostname".to_owned(), bell.clone().into());
    record.iterations[0].started_at.clone_from(&bell);
    for format in [Format::Text, Format::Hit, Format::Webstone1, Format::Webstone2] {
        let made = text(&record, format, &Options::default());
        let commands = made.chars().filter(|c| c.is_control() && !matches!(c, '\n' | '\t')).count();
        assert_eq!(commands, 0, "{format}: {made:?}");
        let forged = made.lines().filter(|line| line.starts_with("Requests/sec: 9")).count();
        assert_eq!(forged, 0, "{format}: {made}");
    }
}

#[test]
fn csv_reads_back_with_the_figures_of_the_record() {
    let mut record = records::small();
    record.id = "quote \" comma , line\r\nend".to_owned();
    let made = text(&record, Format::Csv, &Options::default());
    let mut reader = csv::Reader::from_reader(made.as_bytes());
    let names = reader.headers().unwrap().clone();
    let column =
        |name: &str| names.iter().position(|n| n == name).unwrap_or_else(|| panic!("no column {name}"));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), record.iterations.len());
    for (row, run) in rows.iter().zip(&record.iterations) {
        let figures = Figures::of_measured(&run.measured);
        // A line end in foreign text must not begin a line, not even inside quotes, which `grep` and `cut` do not know.
        assert_eq!(&row[column("run")], "quote \" comma , line  end");
        assert_eq!(row[column("clients")].parse(), Ok(run.clients));
        assert_eq!(row[column("iteration")].parse(), Ok(run.iteration));
        assert_eq!(row[column("requests_per_s")].parse(), Ok(figures.request_rate));
        assert_eq!(row[column("latency_mean_s")].parse(), Ok(figures.latency_mean_s));
        assert_eq!(row[column("latency_p99_s")].parse(), Ok(figures.latency_percentiles_s[4]));
        assert_eq!(row[column("latency_max_s")].parse(), Ok(figures.latency_max_s));
        assert_eq!(row[column("connections")].parse(), Ok(run.measured.counts.connections));
        assert_eq!(row[column("errors_refused")].parse(), Ok(0));
    }
    assert!(made.ends_with("\r\n"), "RFC 4180 ends lines with CRLF");
}

#[test]
fn csv_leaves_empty_what_was_not_measured() {
    let made = text(&records::refused(), Format::Csv, &Options::default());
    let mut reader = csv::Reader::from_reader(made.as_bytes());
    let names = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    let cell = |name: &str| row[names.iter().position(|n| n == name).unwrap()].to_owned();
    assert_eq!((cell("latency_mean_s").as_str(), cell("latency_p50_s").as_str()), ("", ""));
    assert_eq!((cell("server_user_s").as_str(), cell("errors_refused").as_str()), ("", "600"));
    assert_eq!((cell("requests_failed").as_str(), cell("connections_failed").as_str()), ("600", "600"));
}

#[test]
fn the_csv_of_an_empty_record_has_its_columns() {
    let made = text(&records::nothing(), Format::Csv, &Options::default());
    let full = text(&records::hit(), Format::Csv, &Options::default());
    assert_eq!(made.lines().collect::<Vec<_>>(), [full.lines().next().unwrap()]);
    let pages = Options { csv_table: CsvTable::Pages, ..Options::default() };
    let made = text(&records::nothing(), Format::Csv, &pages);
    let full = text(&records::hit(), Format::Csv, &pages);
    assert_eq!(made.lines().collect::<Vec<_>>(), [full.lines().next().unwrap()]);
}

#[test]
fn a_sweep_of_a_thousand_levels_and_a_hundred_pages_is_one_report() {
    let mut record = records::many_pages();
    let mut run = record.iterations.swap_remove(0);
    run.measured.pages.resize(100, PageTotals { hits: 1, requests: 1, ..PageTotals::default() });
    run.measured
        .clients
        .resize(100, ClientTotals { pages: 1, requests: 1, response_ns: 1, ..ClientTotals::default() });
    record.iterations = (1..=1000)
        .map(|clients| webstone_model::record::IterationRecord { clients, ..run.clone() })
        .collect();
    let made = text(&record, Format::Text, &Options { full: true, ..Options::default() });
    let level_rows = made
        .split("\nLevels")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next())
        .map(|section| section.lines().filter(|line| line.contains("1,833")).count());
    assert_eq!(level_rows, Some(1000));
    assert!(made.contains("and 80 more pages"), "the busiest 20 of 100 are shown");
}

/// Formats that print the cautions, or the outcome of a search.
const TOLD: [Format; 4] = [Format::Text, Format::Markdown, Format::Html, Format::Junit];

#[test]
fn a_selection_shows_its_own_void_runs_only() {
    let record = records::fleet::fleet();
    let of = |clients| Options { clients: Some(clients), full: true, width: 200, ..Options::default() };
    for format in TOLD {
        let made = text(&record, format, &of(24));
        for void in ["VOID:", "Void:", "void: ", "errors=\"1\""] {
            assert!(!made.contains(void), "{format}: {void}\n{made}");
        }
    }
    let made = text(&record, Format::Text, &of(12));
    assert!(made.contains("1 timed run was void") && made.contains("webstone repeated it"), "{made}");
    let first = Options { iteration: Some(1), ..of(12) };
    assert!(!text(&record, Format::Text, &first).contains("VOID"));
}

#[test]
fn a_selection_keeps_what_the_search_found() {
    let mut record = records::small();
    let third = |run: &IterationRecord| IterationRecord { iteration: run.iteration + 2, ..run.clone() };
    let more: Vec<_> = record.iterations.iter().map(third).collect();
    record.iterations.extend(more);
    let slo = "p(99)<40ms".to_owned();
    let spec =
        SearchSpec { slo, from: 5, to: 20, resolution_percent: 100.0, ..SearchSpec::over(Over::Clients) };
    record.spec.find = Some(SearchSpec { repeats: 4, ..spec });
    let finding = search::of_record(&record).unwrap();
    assert_eq!((finding.answer, finding.kept), (Answer::Between, Some(10)), "{}", finding.sentence);
    // Formats escape the rest of it, each in its own way.
    let said = "is kept with 10 clients and broken with 20 clients";
    assert!(finding.sentence.contains(said), "{}", finding.sentence);
    for clients in [5, 10, 20] {
        let only = Options { clients: Some(clients), full: true, width: 200, ..Options::default() };
        for format in TOLD.into_iter().filter(|format| *format != Format::Junit).chain([Format::Json]) {
            let made = text(&record, format, &only);
            assert!(made.contains(said), "{format} of {clients} clients:\n{made}");
        }
    }
}
