//! Open loop: levels are rates, and every format says which rate a figure is of.

use std::io::Cursor;

use calamine::{Data, Reader, Xlsx};
use webstone_measure::metrics::Histogram;
use webstone_measure::rate::RateProfile;
use webstone_model::record::RunRecord;
use webstone_report::{CsvTable, Format, Options, render};

use crate::records;

/// As they are written into cells.
const RATES: [&str; 3] = ["500", "1k", "1500"];

fn text(record: &RunRecord, format: Format, options: &Options) -> String {
    String::from_utf8(render(record, format, options).unwrap()).unwrap()
}

fn rates() -> [String; 3] {
    RATES.map(|rate| rate.parse::<RateProfile>().unwrap().to_string())
}

#[test]
fn the_short_report_and_the_percentiles_name_the_rate() {
    let record = records::open_loop();
    let made = text(&record, Format::Markdown, &Options::default());
    let head = made.lines().find(|line| line.contains("requests/s |")).unwrap();
    assert!(head.contains("arrivals/s |") && !head.contains("clients"), "{head}");
    let made = text(&record, Format::Hgrm, &Options::default());
    assert!(made.lines().next().unwrap().contains("milliseconds, 1,500 arrivals/s, "), "{made}");
}

#[test]
fn a_delay_of_the_load_generator_is_named_with_its_rate() {
    let mut record = records::open_loop();
    for run in &mut record.iterations {
        run.measured.generator.loop_delay = Histogram::new();
        (0..100).for_each(|_| run.measured.generator.loop_delay.record(1_000_000_000));
    }
    let options = Options { full: true, width: 400, ..Options::default() };
    let made = text(&record, Format::Text, &options);
    let caution = made.lines().find(|line| line.contains("OWN DELAY: ")).unwrap();
    assert!(caution.contains(" at 500 arrivals/s") && caution.contains(" at 1,500 arrivals/s"), "{caution}");
}

#[test]
fn every_table_below_a_level_has_its_rate() {
    let mut record = records::open_loop();
    for table in [CsvTable::Levels, CsvTable::Pages] {
        let made = text(&record, Format::Csv, &Options { csv_table: table, ..Options::default() });
        let mut reader = csv::Reader::from_reader(made.as_bytes());
        let place = reader.headers().unwrap().iter().position(|name| name == "rate_per_s").unwrap();
        let seen: Vec<String> = reader.records().map(|row| row.unwrap()[place].to_owned()).collect();
        assert!(rates().iter().all(|rate| seen.contains(rate)), "{table:?}: {seen:?}");
    }
    for table in [CsvTable::Generators, CsvTable::ServerHosts] {
        let made = text(&record, Format::Csv, &Options { csv_table: table, ..Options::default() });
        assert!(made.lines().next().unwrap().ends_with(",rate_per_s"), "{table:?}");
    }
    for run in &mut record.iterations {
        records::fail(&mut run.measured, webstone_measure::errors::ErrorClass::Refused, 1, 0, "x");
    }
    let bytes = render(&record, Format::Xlsx, &Options::default()).unwrap();
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(bytes)).unwrap();
    for sheet in
        ["Levels", "Iterations", "Client Data", "Percentiles", "Seconds", "Errors", "Identities", "Generator"]
    {
        let range = book.worksheet_range(sheet).unwrap();
        let rows: Vec<&[Data]> = range.rows().collect();
        let is_rate = |cell: &Data| cell.to_string().starts_with("Rate");
        let place = rows[0].iter().position(is_rate).unwrap_or_else(|| panic!("{sheet}: {:?}", rows[0]));
        let seen: Vec<String> = rows[1..].iter().map(|row| row[place].to_string()).collect();
        assert!(rates().iter().all(|rate| seen.contains(rate)), "{sheet}: {seen:?}");
    }
    let curves = book.worksheet_range("Percentile Curves").unwrap();
    let heads: Vec<String> = curves.rows().next().unwrap()[2..].iter().map(ToString::to_string).collect();
    assert_eq!(heads.len(), 3);
    for (head, level) in heads.iter().zip(["500 arrivals/s", "1,000 arrivals/s", "1,500 arrivals/s"]) {
        assert!(head.starts_with(level), "{head}");
    }
}

#[test]
fn a_selection_of_nothing_names_the_rates() {
    let only = Options { clients: Some(7), ..Options::default() };
    let error = render(&records::open_loop(), Format::Text, &only).unwrap_err().to_string();
    let held = "it holds 500 arrivals/s with 50 clients (iteration 1, 2), 1,000 arrivals/s with 50 clients";
    assert!(error.contains(held), "{error}");
}
