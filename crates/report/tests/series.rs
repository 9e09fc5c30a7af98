//! The report of a series, from records with known content.
#![allow(clippy::unwrap_used)] // a test that cannot go on may panic

mod records;

use serde_json::Value;
use webstone_model::record::RunRecord;
use webstone_model::series::{Kind, Matrix, SERIES_SCHEMA, Series};
use webstone_report::{Format, Options, render_series};

/// Two servers on one and two CPUs; of the last cell nothing is measured.
fn series() -> (Series, Vec<Option<RunRecord>>) {
    let small = records::small();
    let matrix: Matrix = toml::from_str("servers = ['nginx', 'apache:tuned']\ncpus = [1, 2]").unwrap();
    let cells = matrix.cells(&small.spec).unwrap();
    let last = cells.len() - 1;
    let record = |(place, cell): (usize, &webstone_model::series::Cell)| {
        let record = RunRecord { id: cell.name.clone(), spec: cell.spec.clone(), ..small.clone() };
        (place < last).then_some(record)
    };
    let records = cells.iter().enumerate().map(record).collect();
    let series = Series {
        schema: SERIES_SCHEMA,
        id: "20261121T100405Z-<scale>".to_owned(),
        kind: Kind::Scale,
        tool: small.tool.clone(),
        started_at: small.started_at.clone(),
        command_line: Vec::new(),
        rounds: small.spec.load.iterations,
        warnings: vec!["with 2 CPUs | there is <b>one</b> warning".to_owned()],
        without_secrets: false,
        cells,
    };
    (series, records)
}

fn rendered(format: Format) -> String {
    let (series, records) = series();
    String::from_utf8(render_series(&series, &records, format, &Options::default()).unwrap()).unwrap()
}

#[test]
fn the_text_fits_a_terminal_and_says_what_is_missing() {
    let text = rendered(Format::Text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in [
        "CPUs against CPUs: nginx, apache:tuned (",
        "Not finished: 18 of 24 iterations are made; `webstone scale --resume DIR`",
        "with 2 CPUs | there is <b>one</b> warning",
        "\nScaling  ",
        "No law: the Universal Scalability Law has three coefficients",
        "NA: the run is invalid or not there",
        "not measured",
        "ranks take 3 iterations or more of each (-i)",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(part) || flat.contains(part.trim()), "{part}:\n{text}");
    }
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
    let csv = rendered(Format::Csv);
    let mut lines = csv.lines();
    let columns = lines.next().unwrap().split(',').count();
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 9, "three cells of three levels");
    assert!(rows.iter().all(|row| row.split(',').count() == columns), "{csv}");
    assert!(rows[8].starts_with("apache-tuned-1cpu,apache,tuned,,"), "{csv}");
    let json: Value = serde_json::from_str(&rendered(Format::Json)).unwrap();
    assert_eq!(json["computed"]["cells"].as_array().unwrap().len(), 4);
    assert_eq!(json["computed"]["cells"][3]["record"], Value::Null);
    assert_eq!(json["series"]["cells"][1]["at"]["cpus"], 2);
}

#[test]
fn forms_that_hold_one_run_are_refused() {
    let (series, records) = series();
    for format in [Format::Xlsx, Format::Hit, Format::Hgrm, Format::Webstone1, Format::Prometheus] {
        let error = render_series(&series, &records, format, &Options::default()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("a series cannot be written as {format}\nhint: ")), "{error}");
    }
}
