//! What each level is worth, and how far noise may have moved its figures, in every format that shows levels.

use std::io::Cursor;

use calamine::Reader as _;
use serde_json::Value;
use webstone_judge::verdict::{self, Standing};
use webstone_model::record::RunRecord;
use webstone_model::series::Series;
use webstone_report::{Format, Options, render, render_series};

use crate::records;

fn made(record: &RunRecord, format: Format) -> String {
    let options = Options { width: 200, full: true, ..Options::default() };
    String::from_utf8(render(record, format, &options).unwrap()).unwrap()
}

/// The factors of the record's noisy level, and of the one that is inconclusive.
fn factors(record: &RunRecord) -> [(f64, f64); 2] {
    let verdict = verdict::of_record(record);
    let standings: Vec<Standing> = verdict.levels.iter().map(|level| level.standing).collect();
    assert_eq!(standings, [Standing::Sound, Standing::Noisy, Standing::Inconclusive]);
    assert_eq!(verdict.standing, Standing::Noisy);
    [1, 2].map(|place: usize| {
        let noise = verdict.levels[place].noise.unwrap();
        (noise.rate_factor().unwrap(), noise.cpu_time_factor().unwrap())
    })
}

#[test]
fn tables_for_programs_have_the_standing_and_both_factors() {
    let record = records::noisy();
    let [noisy, inconclusive] = factors(&record);
    assert!((1.1..1.2).contains(&noisy.0) && inconclusive.0 > 2.0, "{noisy:?} {inconclusive:?}");
    let table = made(&record, Format::Csv);
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let heads = reader.headers().unwrap().clone();
    assert_eq!(&heads[heads.len() - 2], "level_noise_rate_factor", "new columns are the last");
    let place = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let cells = ["clients", "level_verdict", "level_noise_rate_factor", "level_noise_cpu_factor"].map(place);
    for row in reader.records().map(Result::unwrap) {
        let [clients, standing, rate, cpu] = cells.map(|place| row[place].to_owned());
        let expected = match &*clients {
            "5" => ("SOUND", None),
            "10" => ("NOISY", Some(noisy)),
            _ => ("INCONCLUSIVE", Some(inconclusive)),
        };
        assert_eq!((&*standing, rate.parse().ok().zip(cpu.parse().ok())), expected);
    }
    let workbook = render(&record, Format::Xlsx, &Options::default()).unwrap();
    let mut book: calamine::Xlsx<_> = calamine::Xlsx::new(Cursor::new(workbook)).unwrap();
    let levels = book.worksheet_range("Levels").unwrap();
    let rows: Vec<Vec<String>> =
        levels.rows().map(|row| row.iter().map(ToString::to_string).collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| head == name).unwrap();
    assert_eq!(rows[2][column("Verdict on the level")], "NOISY");
    assert_eq!(rows[2][column("Noise factor of the request rate")], noisy.0.to_string());
    assert_eq!(rows[2][column("Noise factor of CPU time")], noisy.1.to_string());
}

#[test]
fn metrics_have_the_standing_and_both_factors() {
    let record = records::noisy();
    let [noisy, inconclusive] = factors(&record);
    let metrics = made(&record, Format::Prometheus);
    let run = "run=\"20261121-100405-noisy\"";
    for line in [
        format!("webstone_level_verdict{{{run},clients=\"10\",verdict=\"noisy\"}} 1"),
        format!("webstone_level_verdict{{{run},clients=\"20\",verdict=\"inconclusive\"}} 1"),
        format!("webstone_level_verdict{{{run},clients=\"20\",verdict=\"noisy\"}} 0"),
        format!("webstone_level_noise_rate_factor{{{run},clients=\"10\"}} {}", noisy.0),
        format!("webstone_level_noise_cpu_factor{{{run},clients=\"20\"}} {}", inconclusive.1),
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains(&format!("webstone_level_noise_rate_factor{{{run},clients=\"5\"}}")));

    let request: Value = serde_json::from_str(&made(&record, Format::Otel)).unwrap();
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let points = |name: &str| {
        let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
        metric["gauge"]["dataPoints"].as_array().unwrap().clone()
    };
    let attribute = |point: &Value, key: &str| {
        let all = point["attributes"].as_array().unwrap();
        all.iter().find(|one| one["key"] == key).unwrap()["value"].clone()
    };
    for (name, value) in [("webstone.noise.rate_factor", noisy.0), ("webstone.noise.cpu_factor", noisy.1)] {
        let points = points(name);
        assert_eq!(points.len(), 4, "two iterations of two levels");
        let point =
            points.iter().find(|point| attribute(point, "webstone.clients")["intValue"] == "10").unwrap();
        assert_eq!(point["asDouble"].as_f64(), Some(value));
        assert_eq!(attribute(point, "webstone.level.verdict")["stringValue"], "NOISY");
    }
}

#[test]
fn a_level_of_which_nothing_can_be_concluded_is_skipped_in_continuous_integration() {
    let suite = made(&records::noisy(), Format::Junit);
    assert!(suite.contains("tests=\"4\" failures=\"0\" errors=\"0\" skipped=\"1\""), "{suite}");
    let case = |name: &str| {
        let case = suite.split(&format!("<testcase name=\"{name}\"")).nth(1).unwrap();
        case.split("</testcase>").next().unwrap().to_owned()
    };
    let noisy = case("10 clients");
    assert!(!noisy.contains("<skipped"), "{noisy}");
    assert!(
        noisy.contains("<system-out>NOISY: undisturbed, the request rate may be up to 12 % higher and mean response times up to 10 % shorter"),
        "{noisy}"
    );
    let inconclusive = case("20 clients");
    let skipped = "<skipped type=\"INCONCLUSIVE\" message=\"INCONCLUSIVE: nothing can be concluded: undisturbed, the request rate";
    assert!(inconclusive.contains(skipped), "{inconclusive}");
    assert!(case("verdict").contains("up to 12 % higher"), "{suite}");
    assert!(case("5 clients").contains("<system-out>SOUND\n"), "{suite}");
}

#[test]
fn people_read_the_bound_beside_the_figure() {
    let record = records::noisy();
    let markdown = made(&record, Format::Markdown);
    let head = markdown.lines().find(|line| line.starts_with("| clients | requests/s |")).unwrap();
    assert!(head.contains("| up to |") && head.ends_with("| verdict |"), "{head}");
    let row = markdown.lines().find(|line| line.starts_with("| 20 |")).unwrap();
    assert!(row.ends_with("| INCONCLUSIVE |"), "{row}");
    let hgrm = made(&record, Format::Hgrm);
    let of_level = "#[10 clients: NOISY: undisturbed, the request rate may be up to 12 % higher";
    assert!(hgrm.contains("\n#[5 clients: SOUND]\n"), "{hgrm}");
    let only = Options { clients: Some(10), ..Options::default() };
    let hgrm = String::from_utf8(render(&record, Format::Hgrm, &only).unwrap()).unwrap();
    assert!(hgrm.lines().any(|line| line.starts_with(of_level)), "{hgrm}");
}

fn noisy_series() -> (Series, Vec<Option<RunRecord>>) {
    let (series, mut records) = records::series();
    for record in records.iter_mut().flatten() {
        for run in record.iterations.iter_mut().filter(|run| run.clients == 20) {
            run.measured.generator.workers[0].run_queue_ns = Some(600_000_000);
        }
    }
    (series, records)
}

#[test]
fn a_series_says_how_much_higher_each_rate_may_be() {
    let (series, records) = noisy_series();
    let made = |format| {
        let options = Options { full: true, ..Options::default() };
        String::from_utf8(render_series(&series, &records, &[], format, &options).unwrap()).unwrap()
    };
    let text = made(Format::Text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.matches(" up to ").count() >= 3, "{text}");
    // 1,818 requests/s, of which a tenth of the time was taken.
    for format in [Format::Text, Format::Markdown, Format::Html] {
        let made = made(format);
        assert!(made.contains("2,020") && made.contains("Up to: what the rate may be"), "{format}: {made}");
    }
    let table = made(Format::Csv);
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let place = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let row = reader.records().map(Result::unwrap).find(|row| &row[place("clients")] == "20").unwrap();
    assert_eq!(&row[place("level_standing")], "NOISY");
    assert!(row[place("noise_rate_factor")].parse::<f64>().unwrap() > 1.1);
    let sound = String::from_utf8(
        render_series(
            &series,
            &records::series().1,
            &[],
            Format::Text,
            &Options { full: true, ..Options::default() },
        )
        .unwrap(),
    );
    assert!(!sound.unwrap().contains(" up to "));
}
