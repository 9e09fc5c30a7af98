//! Stored runs through the front: found, noted, compared, thrown away; whatever is in them.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use webstone_model::fixture;
use webstone_model::record::RunState;
use webstone_store::Store;
use webstone_store::duel::DuelStore;

use crate::front::Running;

/// Stores a run with these requests per second in its iterations, and returns its name.
fn stored(runs: &Path, name: &str, second: u64, rates: &[f64]) -> String {
    let mut record = fixture::record(name, &[(20, rates)]);
    name.clone_into(&mut record.spec.name);
    record.command_line = vec!["webstone".to_owned(), "run".to_owned()];
    record.state = RunState::Partial;
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + second);
    record.started_at = webstone_store::clock::rfc3339(started);
    let iterations = std::mem::take(&mut record.iterations);
    let mut store = Store::create(runs, started, &mut record).unwrap();
    for iteration in iterations {
        record.iterations.push(iteration);
        store.append(&mut record).unwrap();
    }
    record.state = RunState::Complete;
    let path = store.finish(&mut record, &[]).unwrap();
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// The request that renders a page, once.
fn rendering(front: &Running, page: &Value) -> String {
    format!(
        "GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\n\r\n",
        page["url"].as_str().unwrap(),
        front.port
    )
}

fn names(answer: &Value) -> Vec<&str> {
    answer["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[test]
fn runs_are_listed_searched_noted_and_thrown_away() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path();
    let front = Running::start(&runs.join("none-yet"), "/nonexistent".into(), false);
    assert_eq!(front.get("/api/library").1["total"], json!(0), "an empty library is no error");
    drop(front);
    let (older, newer) = (stored(runs, "older", 0, &[1000.0, 1010.0]), stored(runs, "newer", 60, &[900.0]));
    let front = Running::start(runs, "/nonexistent".into(), false);
    let (_, all) = front.get("/api/library");
    assert_eq!(names(&all), [newer.as_str(), older.as_str()]);
    assert_eq!(all["rows"][1]["rate"], json!(1005.0));
    // The order is of all rows, and not only of those that are shown.
    let slowest = front.get("/api/library?sort=rate&limit=1").1;
    assert_eq!((names(&slowest), &slowest["sort"]), (vec![newer.as_str()], &json!("rate")));
    assert_eq!(names(&front.get("/api/library?sort=-rate&limit=1").1), [older.as_str()]);
    assert_eq!(names(&front.get("/api/library?q=older").1), [older.as_str()]);
    let (status, wrong) = front.get("/api/library?q=verdit:valid");
    assert_eq!((status, wrong["matched"].clone()), (200, json!(0)));
    assert!(wrong["problem"]["message"].as_str().unwrap().contains("verdit"), "{wrong}");

    let note = json!({ "text": "before the new kernel\nand after", "tags": ["baseline"] });
    let (status, noted) = front.post(&format!("/api/runs/{older}/notes"), &note);
    assert_eq!((status, &noted["tags"]), (200, &json!(["baseline"])), "{noted}");
    let row = &front.get("/api/library?q=tag:baseline").1["rows"][0];
    assert_eq!((&row["name"], &row["note"]), (&json!(older), &json!("before the new kernel")));
    let (status, refused) =
        front.post(&format!("/api/runs/{older}/notes"), &json!({ "text": "", "tags": ["No Tag"] }));
    assert!(status == 422 && refused["hint"].is_string(), "{refused}");

    let run = front.get(&format!("/api/runs/{older}")).1;
    assert_eq!(run["notes"]["tags"], json!(["baseline"]));
    assert!(run["spec_toml"].as_str().unwrap().contains("clients = \"20\""), "{run}");
    assert!(run["files"].as_array().unwrap().iter().any(|file| file["name"] == "record.json"));
    assert!(Store::check(&runs.join(&older)).is_ok(), "notes leave the record as it is");

    // A search answers from what the front knows, and that is what it did itself.
    let searched = || front.get(&format!("/api/library?q={newer}")).1;
    assert_eq!(front.post(&format!("/api/runs/{newer}/trash"), &json!({})).0, 204);
    assert_eq!(names(&searched()), [""; 0]);
    assert_eq!(names(&front.get("/api/library").1), [older.as_str()]);
    assert_eq!(names(&front.get("/api/trash").1), [newer.as_str()]);
    assert_eq!(front.post(&format!("/api/trash/{newer}/restore"), &json!({})).0, 204);
    assert_eq!(names(&searched()), [newer.as_str()]);
    assert_eq!(names(&front.get("/api/library").1), [newer.as_str(), older.as_str()]);
}

#[test]
fn a_duel_is_listed_opened_and_not_compared() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path();
    let run = stored(runs, "run", 0, &[1000.0]);
    let mut record = fixture::duel("", &[("old", 10_000), ("<new>", 10_240)], 6);
    let store = DuelStore::create(runs, SystemTime::UNIX_EPOCH, &mut record, None).unwrap();
    let duel = store.finish(&record).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let front = Running::start(runs, "/nonexistent".into(), false);
    let found = front.get("/api/library?q=kind:duel").1;
    assert_eq!(names(&found), [duel.as_str()]);
    let row = &found["rows"][0];
    assert_eq!((&row["kind"], &row["server"]), (&json!("duel"), &json!("<new> against old")));
    assert_eq!((&row["answer"], &row["verdict"]), (&json!("<new> +2.4 % CPU/request"), &json!("SOUND")));
    assert_eq!((&row["rate"], &row["errors"]), (&Value::Null, &json!(0)));

    let detail = front.get(&format!("/api/runs/{duel}")).1;
    assert_eq!((&detail["verdict"]["word"], &detail["command"]), (&json!("SOUND"), &json!("duel")));
    let sentence = detail["verdict"]["sentences"][0].as_str().unwrap();
    assert!(sentence.starts_with("<new> uses 2.40 % more CPU time per request than old"), "{sentence}");
    assert_eq!(detail["spec_toml"], Value::Null);
    let (status, page) = front.post(&format!("/api/runs/{duel}/page"), &json!({}));
    let page = front.raw(&rendering(&front, &page));
    assert!(status == 200 && page.contains("Duel: &lt;new&gt; against old"), "{page}");
    let (status, refused) = front.post("/api/compare", &json!({ "runs": [run, duel] }));
    assert_eq!((status, &refused["error"]), (422, &json!(format!("{duel} is a duel, not a run"))));
    let history = front.get(&format!("/api/history?name={duel}")).1;
    assert_eq!(history["points"], json!([]), "{history}");
}

#[test]
fn what_somebody_else_does_with_the_runs_comes_into_a_search() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    std::fs::create_dir(&runs).unwrap();
    let first = stored(&runs, "baseline", 0, &[1000.0]);
    let front = Running::start(&runs, "/nonexistent".into(), false);
    let until = |wanted: &dyn Fn(&Value) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let found = front.get("/api/library?q=baseline").1;
            if wanted(&found) {
                return;
            }
            assert!(Instant::now() < end, "{found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until(&|found| names(found) == [first.as_str()]);
    let second = stored(&runs, "baseline", 1, &[1000.0]);
    until(&|found| names(found) == [second.as_str(), first.as_str()]);
    std::fs::remove_dir_all(&runs).unwrap();
    until(&|found| found["total"] == 0);
}

#[test]
fn a_report_is_rendered_anew_in_an_origin_of_its_own_and_once() {
    let directory = tempfile::tempdir().unwrap();
    let name = stored(directory.path(), "a", 0, &[1000.0]);
    std::fs::write(directory.path().join(&name).join("report.html"), "<script>somebody else's</script>")
        .unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    let (_, page) = front.post(&format!("/api/runs/{name}/page"), &json!({}));
    let request = rendering(&front, &page);
    let report = front.raw(&request);
    assert!(report.starts_with("HTTP/1.1 200") && report.contains("webstone report"));
    assert!(report.contains("content-security-policy: sandbox allow-scripts"));
    assert!(!report.contains("somebody else's") && !report.contains(&front.token));
    assert!(front.raw(&request).starts_with("HTTP/1.1 404"));
}

#[test]
fn two_runs_are_compared_and_what_forbids_it_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let (before, after) = (
        stored(directory.path(), "before", 0, &[1000.0, 1001.0, 999.0, 1000.0]),
        stored(directory.path(), "after", 60, &[1100.0, 1101.0, 1099.0, 1100.0]),
    );
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    let (status, compared) = front.post("/api/compare", &json!({ "runs": [before, after] }));
    assert_eq!(status, 200, "{compared}");
    let rate = compared["rows"].as_array().unwrap().iter().find(|row| row["figure"] == "rate").unwrap();
    assert!((rate["change_percent"].as_f64().unwrap() - 10.0).abs() < 0.2, "{rate}");
    assert_eq!((&rate["finding"], &rate["is_difference"]), (&json!("faster"), &json!(true)));
    assert!(compared["sentence"].as_str().unwrap().starts_with("faster"), "{compared}");
    assert!(compared["url"].as_str().unwrap().starts_with("/render/"));
    assert_eq!(compared["verdicts"].as_array().unwrap().len(), 2);
    let history = front.get(&format!("/api/history?name={after}")).1;
    let points = history["points"].as_array().unwrap().len() as u64 + history["excluded"].as_u64().unwrap();
    assert_eq!((points, &history["metric"]), (2, &json!("requests/s at 20 clients")), "{history}");
    assert_eq!(compared["iterations_needed"], Value::Null);
    let short = stored(directory.path(), "short", 120, &[1300.0]);
    let (_, few) = front.post("/api/compare", &json!({ "runs": [before, short] }));
    let rate = few["rows"].as_array().unwrap().iter().find(|row| row["figure"] == "rate").unwrap();
    assert_eq!((&few["iterations_needed"], &rate["finding"]), (&json!(3), &json!("cannot tell")), "{few}");
    let (status, same) = front.post("/api/compare", &json!({ "runs": [before, before] }));
    assert!(status == 422 && same["error"].as_str().unwrap().contains("itself"), "{same}");
    assert_eq!(front.post("/api/compare", &json!({ "runs": [before] })).0, 422);
    let mut other = fixture::record("other", &[(20, &[1.0])]);
    other.workload.name = "another".to_owned();
    other.workload_sha256 = "11".to_owned();
    let mut store = Store::create(
        directory.path(),
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        &mut other,
    )
    .unwrap();
    let iterations = std::mem::take(&mut other.iterations);
    for iteration in iterations {
        other.iterations.push(iteration);
        store.append(&mut other).unwrap();
    }
    let other = store.finish(&mut other, &[]).unwrap();
    let other = other.file_name().unwrap().to_str().unwrap();
    let (_, forbidden) = front.post("/api/compare", &json!({ "runs": [before, other] }));
    assert!(
        !forbidden["forbids"].as_array().unwrap().is_empty() && forbidden["url"].is_null(),
        "{forbidden}"
    );
    let (_, forced) = front.post("/api/compare", &json!({ "runs": [before, other], "force": true }));
    assert!(forced["url"].is_string(), "{forced}");
}

#[test]
fn a_history_has_its_step() {
    let directory = tempfile::tempdir().unwrap();
    let mut last = String::new();
    for number in 0..12_u64 {
        // A little noise, and a tenth more from the seventh run on.
        let noise = [0.0, 3.0, -2.0, 1.0][number as usize % 4];
        let rate = if number < 6 { 1000.0 } else { 1100.0 } + noise;
        last = stored(directory.path(), &format!("r{number}"), 60 * number, &[rate, rate + 1.0, rate - 1.0]);
    }
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    let history = front.get(&format!("/api/history?name={last}")).1;
    assert_eq!(
        (history["points"].as_array().unwrap().len(), &history["excluded"]),
        (12, &json!(0)),
        "{history}"
    );
    // Three iterations, a deviation of 1: Student's t of 2 degrees of freedom is 4.303, over the root of 3.
    let seventh = &history["points"][6];
    let [value, low, high] = ["value", "low", "high"].map(|end| seventh[end].as_f64().unwrap());
    assert!((value - low - 2.484).abs() < 0.001 && (high - value - 2.484).abs() < 0.001, "{seventh}");
    let [step] = history["steps"].as_array().unwrap().as_slice() else { panic!("{history}") };
    assert_eq!(step["at_run"], history["points"][6]["run"]);
    assert!((step["change_percent"].as_f64().unwrap() - 10.0).abs() < 0.5, "{step}");
}

#[test]
fn what_cannot_be_read_has_a_row_and_takes_notes() {
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("20260101T000000Z-broken");
    std::fs::create_dir(&broken).unwrap();
    std::fs::write(broken.join("record.json"), "{\"schema\": 1, <script>").unwrap();
    let front = Running::start(directory.path(), "/nonexistent".into(), false);
    let (_, all) = front.get("/api/library");
    assert!(all["rows"][0]["unreadable"].is_string(), "{all}");
    let (status, run) = front.get("/api/runs/20260101T000000Z-broken");
    assert!(status == 200 && run["unreadable"].is_string(), "{run}");
    let noted = front.post("/api/runs/20260101T000000Z-broken/notes", &json!({ "text": "x", "tags": [] }));
    assert_eq!(noted.0, 200);
    assert_eq!(front.post("/api/runs/20260101T000000Z-broken/page", &json!({})).0, 422);
}
