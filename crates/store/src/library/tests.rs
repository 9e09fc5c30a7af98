//! The library against what lies in the directory: rows are those of a fresh reading, whatever happened in between.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use webstone_judge::verdict::Standing;
use webstone_model::record::{RunRecord, RunState};

use super::*;
use crate::duel::{DUEL, DuelStore};
use crate::tests::{iteration, record, started};
use crate::{RECORD, Store};

/// A finished run below a directory, whose name is returned.
fn run(runs: &Path, name: &str, version: &str) -> String {
    let mut record = record();
    record.spec.name = name.to_owned();
    record.tool.version = version.to_owned();
    record.command_line = vec!["webstone".into(), "run".into()];
    record.environment.insert("hostname".to_owned(), "vm2".into());
    record.target.server = Some("nginx/1.24.0 (Debian)".to_owned());
    record.finished_at = Some("2026-01-31T12:31:05.250Z".to_owned());
    let mut store = Store::create(runs, started(), &mut record).unwrap();
    record.iterations.push(iteration(5, 1));
    store.append(&mut record).unwrap();
    record.state = RunState::Complete;
    let path = store.finish(&mut record, &[]).unwrap();
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Sets the time of what is at a path to years ago, long enough for the change to be noticed.
fn touch(path: &Path, second: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + second);
    File::open(path).unwrap().set_modified(time).unwrap();
}

fn settle(runs: &Path, name: &str, second: u64) {
    touch(&runs.join(name).join(RECORD), second);
    touch(&runs.join(name), second);
}

#[test]
fn a_run_is_a_row_with_what_a_list_and_a_search_need() {
    let runs = tempfile::tempdir().unwrap();
    let name = run(runs.path(), "nginx", "1.0.0");
    let library = Library::open(runs.path()).unwrap();
    let [row] = library.rows() else { panic!("{:?}", library.rows()) };
    assert_eq!((row.name.as_str(), row.kind, row.problem.as_deref()), (name.as_str(), RowKind::Run, None));
    assert_eq!((row.server.as_str(), row.server_version.as_str()), ("nginx", "1.24.0"));
    assert_eq!((row.host.as_str(), row.command.as_str(), row.protocol.as_str()), ("vm2", "run", "http/1.1"));
    assert_eq!((row.workload.as_str(), row.tool.as_str(), row.tls), ("w", "webstone 1.0.0", false));
    assert_eq!((row.state, row.duration_s), (Some(RunState::Complete), Some(60.0)));
    // 199 answers in two seconds.
    let peak = row.peak.as_ref().unwrap();
    assert_eq!((peak.level.as_str(), peak.clients, peak.rate_per_s), ("5 clients", 5, 99.5));
    assert!(peak.p99_s.unwrap() > 0.3, "{peak:?}");
    assert_eq!(row.level("5 clients"), Some(peak));
    assert_eq!(row.environment["webstone"], "1.0.0");
    assert_eq!(row.conditions.len(), 16);
    assert_eq!(library.row(&name), Some(row));
    assert_eq!(library.row("other"), None);
    // As JSON and back nothing is lost.
    let json = serde_json::to_string(row).unwrap();
    assert_eq!(&serde_json::from_str::<LibraryRow>(&json).unwrap(), row);
}

#[test]
fn the_peak_is_a_level_whose_figures_count_where_there_is_one() {
    let mut record = webstone_model::fixture::record("r", &[(10, &[1000.0]), (20, &[2000.0])]);
    let peak = |record: &RunRecord| LibraryRow::of_record("r", record).peak.unwrap().level;
    assert_eq!(peak(&record), "20 clients");
    record.iterations[1].measured.counts.failed = 100_000;
    assert_eq!(peak(&record), "10 clients");
    record.iterations[0].measured.counts.failed = 100_000;
    assert_eq!(peak(&record), "20 clients", "none counts");
}

/// A stored duel, whose name is returned.
fn duel(runs: &Path, contestants: &[(&str, u64)], starts: u64) -> String {
    let mut record = webstone_model::fixture::duel("", contestants, starts);
    let store = DuelStore::create(runs, started(), &mut record, None).unwrap();
    store.finish(&record).unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_duel_is_a_row_with_what_it_found() {
    let runs = tempfile::tempdir().unwrap();
    let name = duel(runs.path(), &[("old", 10_000), ("new", 10_240)], 6);
    let library = Library::open(runs.path()).unwrap();
    let [row] = library.rows() else { panic!("{:?}", library.rows()) };
    assert_eq!((row.name.as_str(), row.kind, row.problem.as_deref()), (name.as_str(), RowKind::Duel, None));
    assert_eq!((row.contestants.join(","), row.duellists()), ("old,new".into(), "new against old".into()));
    assert_eq!((row.answer.as_str(), row.verdict()), ("new +2.4 % CPU/request", "SOUND"));
    assert_eq!((row.state, row.duration_s, row.errors), (Some(RunState::Complete), Some(14.0), 0));
    assert_eq!((row.command.as_str(), row.host.as_str(), row.windows), ("duel", "box", 6));
    let json = serde_json::to_string(row).unwrap();
    assert_eq!(&serde_json::from_str::<LibraryRow>(&json).unwrap(), row);
    // The row from the index is that from the record.
    touch(&runs.path().join(&name).join(DUEL), 1);
    touch(&runs.path().join(&name), 1);
    let fresh = Library::open(runs.path()).unwrap().rows().to_vec();
    let index = fs::read_to_string(runs.path().join(INDEX)).unwrap();
    fs::write(runs.path().join(INDEX), index.replace("new +2.4 %", "told")).unwrap();
    let told = Library::open(runs.path()).unwrap();
    assert_eq!(told.rows()[0].answer, "told CPU/request");
    assert_eq!(LibraryRow { answer: fresh[0].answer.clone(), ..told.rows()[0].clone() }, fresh[0]);

    for (contestants, starts, answer) in [
        (&[("a", 10_000), ("b", 10_000)][..], 6, "no difference shown"),
        (&[("a", 10_000), ("b", 9_000), ("c", 9_000), ("d", 1)], 6, "b -10.0 % CPU/request; 2 more"),
        (&[("a", 10_000), ("b", 9_000)], 1, ""),
    ] {
        let runs = tempfile::tempdir().unwrap();
        duel(runs.path(), contestants, starts);
        assert_eq!(Library::open(runs.path()).unwrap().rows()[0].answer, answer);
    }
    fs::write(runs.path().join(&name).join(DUEL), "{").unwrap();
    let library = Library::open(runs.path()).unwrap();
    let row = &library.rows()[0];
    assert!(row.problem.as_ref().is_some_and(|problem| problem.contains("duel.json")), "{row:?}");
}

#[test]
fn the_index_is_used_as_long_as_sizes_and_times_match_and_made_again_where_it_is_damaged() {
    let runs = tempfile::tempdir().unwrap();
    let name = run(runs.path(), "a", "1.0.0");
    settle(runs.path(), &name, 1);
    let fresh = Library::open(runs.path()).unwrap().rows().to_vec();
    let index = runs.path().join(INDEX);
    let good = fs::read_to_string(&index).unwrap();
    // A word that only the index has shows that it was used.
    let told = good.replace("\"host\":\"vm2\"", "\"host\":\"told\"");
    assert_ne!(told, good);
    let host = || Library::open(runs.path()).unwrap().rows()[0].host.clone();
    fs::write(&index, &told).unwrap();
    assert_eq!(host(), "told");
    settle(runs.path(), &name, 2);
    assert_eq!(host(), "vm2", "another time");
    settle(runs.path(), &name, 1);
    fs::write(&index, &told).unwrap();
    let text = fs::read_to_string(runs.path().join(&name).join(RECORD)).unwrap();
    fs::write(runs.path().join(&name).join(RECORD), text + "\n").unwrap();
    settle(runs.path(), &name, 1);
    assert_eq!(host(), "vm2", "another size");
    let good = fs::read_to_string(&index).unwrap();
    let damaged = [
        String::new(),
        "\u{0}\u{1}".to_owned(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"index\":6", "\"index\":5"),
        good.replace("\"environments\":[0]", "\"environments\":[7]"),
        good.replace("\"environments\":[0]", ""),
        good.lines().rev().collect::<Vec<_>>().join("\n"),
        good.replace("{\"environment\"", "{\"environment\":7,\"x\""),
    ];
    for damage in damaged {
        assert_ne!(damage, good);
        fs::write(&index, &damage).unwrap();
        assert_eq!(Library::open(runs.path()).unwrap().rows(), fresh, "{damage}");
        assert_eq!(fs::read_to_string(&index).unwrap(), good, "{damage}");
    }
    fs::remove_file(&index).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &index).unwrap();
    assert_eq!(Library::open(runs.path()).unwrap().rows(), fresh);
    assert!(index.symlink_metadata().unwrap().is_file(), "the link is replaced, not followed");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    assert_eq!(Library::open(runs.path()).unwrap().rows(), fresh, "an index that cannot be written is none");
    let left: Vec<_> = fs::read_dir(runs.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn what_cannot_be_read_stays_a_row_that_says_why() {
    let runs = tempfile::tempdir().unwrap();
    let good = run(runs.path(), "good", "1.0.0");
    let make = |name: &str| {
        let path = runs.path().join(name);
        fs::create_dir(&path).unwrap();
        path.join(RECORD)
    };
    fs::write(make("1-damaged"), "{").unwrap();
    fs::write(make("2-newer"), "{\"schema\": 99}").unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(make("3-fifo")).status().unwrap();
    assert!(fifo.success());
    std::os::unix::fs::symlink(runs.path().join(&good).join(RECORD), make("4-link")).unwrap();
    fs::create_dir(make("5-directory")).unwrap();
    std::os::unix::fs::symlink(&good, runs.path().join("6-link-to-run")).unwrap();
    fs::create_dir(runs.path().join("7-nothing")).unwrap();
    fs::write(make("8-evil\u{1b}[2J\n\u{202e}"), "{").unwrap();
    fs::write(runs.path().join("9-file"), "").unwrap();
    File::create(make("9-sparse")).unwrap().set_len(2 << 30).unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"9-\xff");
    fs::create_dir(runs.path().join(odd)).unwrap();
    fs::write(runs.path().join(odd).join(RECORD), "{").unwrap();
    fs::create_dir(runs.path().join("9-series")).unwrap();
    fs::write(runs.path().join("9-series").join(SERIES), "[]").unwrap();
    let mut library = Library::open(runs.path()).unwrap();
    let said = |library: &Library| -> Vec<(String, String)> {
        let rows = library.rows().iter().rev();
        rows.map(|row| (row.name.clone(), row.problem.clone().unwrap_or_default())).collect()
    };
    let expected = [
        ("1-damaged", "EOF while parsing an object"),
        ("2-newer", "the record has schema 99"),
        ("20260131T123005Z-good", ""),
        ("3-fifo", "its record is not a plain file"),
        ("4-link", "its record is a symbolic link"),
        ("5-directory", "its record is not a plain file"),
        ("6-link-to-run", "it is a symbolic link"),
        ("8-evil\u{1b}[2J\n\u{202e}", "EOF while parsing an object"),
        ("9-series", "series.json: "),
        ("9-sparse", "at most 1073741824 are read"),
        ("9-\u{fffd}", "its name is not text in UTF-8"),
    ];
    let found = said(&library);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((name, problem), (known, part)) in found.iter().zip(expected) {
        assert_eq!(name, known);
        assert!(problem.contains(part) && problem.is_empty() == part.is_empty(), "{name}: {problem}");
    }
    library.refresh().unwrap();
    assert_eq!(said(&library), found);
    assert_eq!(said(&Library::open(runs.path()).unwrap()), found);
}

#[test]
fn texts_of_any_length_and_content_are_data_of_a_bounded_length() {
    let mut hostile = record();
    let long = "\u{1b}]0;evil\u{7}<script>".repeat(100_000);
    hostile.workload.name.clone_from(&long);
    hostile.target.url.clone_from(&long);
    hostile.target.server = Some(long.clone());
    hostile.tool.version.clone_from(&long);
    hostile.started_at.clone_from(&long);
    hostile.command_line = vec![long.clone(), long.clone()];
    hostile.environment.insert("hostname".to_owned(), long.clone().into());
    let settings: serde_json::Map<_, _> =
        (0..9_999).map(|n| (format!("{n}{long:.9}"), long[..999].into())).collect();
    hostile.environment.insert("sysctl".to_owned(), settings.into());
    let row = LibraryRow::of_record("x", &hostile);
    assert!(row.workload.starts_with("\u{1b}]0;evil") && row.workload.chars().count() == 201);
    let size = serde_json::to_string(&row).unwrap().len();
    assert!(size < 1_000_000, "{size}");
    assert!(
        row.environment.len() == 300 && row.environment.contains_key("webstone"),
        "versions before settings"
    );
    assert_eq!(row.standing, Some(Standing::Invalid));
}

#[test]
fn rows_are_made_piece_by_piece_where_only_the_newest_are_wanted() {
    let runs = tempfile::tempdir().unwrap();
    let names: Vec<String> = ["c", "b", "a"].iter().map(|name| run(runs.path(), name, "1")).collect();
    names.iter().for_each(|name| settle(runs.path(), name, 1));
    let unread = |library: &Library| library.rows().iter().map(|row| row.unread).collect::<Vec<_>>();
    let indexed = || fs::read_to_string(runs.path().join(INDEX)).unwrap().matches("{\"row\":").count();
    let mut library = Library::open_newest(runs.path(), 1).unwrap();
    let listed: Vec<&str> = library.rows().iter().map(|row| row.name.as_str()).collect();
    assert_eq!(listed, names);
    assert_eq!((unread(&library), indexed()), (vec![false, true, true], 1));
    assert!(library.refresh_newest(2).unwrap());
    assert_eq!(unread(&library), [false, false, true]);
    assert!(library.refresh().unwrap());
    assert_eq!((unread(&library), indexed()), (vec![false; 3], 3), "the last of them is not waited for");
    assert!(!library.refresh().unwrap(), "nothing changed");
}

#[test]
fn an_earlier_look_does_not_undo_a_later_one() {
    let runs = tempfile::tempdir().unwrap();
    settle(runs.path(), &run(runs.path(), "a", "1"), 1);
    let mut library = Library::open(runs.path()).unwrap();
    let earlier = Library::look(runs.path()).unwrap();
    settle(runs.path(), &run(runs.path(), "b", "1"), 1);
    assert!(library.refresh().unwrap());
    assert!(!library.refresh_from(earlier, usize::MAX));
    assert_eq!(library.rows().len(), 2);
    let later = Library::look(runs.path()).unwrap();
    assert!(!library.refresh_from(later, usize::MAX), "nothing changed");
}

#[test]
fn a_run_that_goes_on_is_followed() {
    let runs = tempfile::tempdir().unwrap();
    let mut record = record();
    let mut store = Store::create(runs.path(), started(), &mut record).unwrap();
    let mut library = Library::open(runs.path()).unwrap();
    let now = |library: &Library| {
        let [row] = library.rows() else { panic!("{:?}", library.rows()) };
        (row.state, row.windows, row.name.ends_with(".partial"))
    };
    assert_eq!(now(&library), (Some(RunState::Partial), 0, true));
    for windows in 1..3 {
        record.iterations.push(iteration(5 * windows, 1));
        store.append(&mut record).unwrap();
        assert!(library.refresh().unwrap());
        assert_eq!(now(&library), (Some(RunState::Partial), u64::from(windows), true));
    }
    record.state = RunState::Complete;
    store.finish(&mut record, &[]).unwrap();
    assert!(library.refresh().unwrap());
    assert_eq!(now(&library), (Some(RunState::Complete), 2, false));
}

#[test]
fn writers_at_the_same_time_do_no_harm() {
    let runs = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..3).map(|n| run(runs.path(), &n.to_string(), "1")).collect();
    let fresh = Library::open(runs.path()).unwrap().rows().to_vec();
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let (path, names, fresh) = (runs.path(), &names, &fresh);
            scope.spawn(move || {
                for round in 0..10 {
                    if round % 3 == worker % 3 {
                        let _ = fs::remove_file(path.join(INDEX));
                    }
                    assert_eq!(Library::open(path).unwrap().rows(), fresh);
                    let tag = format!("t{worker}");
                    let notes = Notes::edit(&path.join(&names[0]), |notes| {
                        notes.tags.insert(tag.clone());
                    });
                    assert!(notes.unwrap().tags.contains(&tag));
                }
            });
        }
    });
    let notes = Notes::load(&runs.path().join(&names[0])).unwrap();
    assert_eq!(notes.tags.len(), 4, "no writer's tag is lost: {notes:?}");
}

/// What happens to a run of the property test.
#[derive(Clone, Copy, Debug)]
enum Event {
    Add,
    Remove,
    Touch,
    Rewrite,
    Damage,
    Tag,
    Trash,
    Restore,
    Refresh,
}

fn events() -> impl Strategy<Value = Vec<(Event, usize)>> {
    use Event::*;
    let event =
        prop::sample::select(vec![Add, Add, Remove, Touch, Rewrite, Damage, Tag, Trash, Restore, Refresh]);
    prop::collection::vec((event, 0..4_usize), 1..25)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_index_equals_a_fresh_reading_after_anything(events in events()) {
        let templates = tempfile::tempdir().unwrap();
        let made: Vec<_> = ["1.0.0", "2.0.0"].iter().map(|version| run(templates.path(), "t", version)).collect();
        let runs = tempfile::tempdir().unwrap();
        let mut library = Library::open(runs.path()).unwrap();
        for (second, (event, place)) in (1..).zip(events) {
            let name = format!("run-{place}");
            let path = runs.path().join(&name);
            let there = path.exists();
            match event {
                Event::Add if !there => copy(&templates.path().join(&made[0]), &path),
                Event::Remove if there => fs::remove_dir_all(&path).unwrap(),
                Event::Rewrite if there => {
                    fs::copy(templates.path().join(&made[1]).join(RECORD), path.join(RECORD)).map(drop).unwrap();
                }
                Event::Damage if there => fs::write(path.join(RECORD), "{\"schema\": 1").unwrap(),
                Event::Tag if there => drop(Notes::edit(&path, |notes| { notes.tags.insert(format!("t{second}")); }).unwrap()),
                Event::Trash => drop(trash::discard(runs.path(), &name)),
                Event::Restore => drop(trash::restore(runs.path(), &name)),
                Event::Refresh => drop(library.refresh().unwrap()),
                _ => {}
            }
            let is_changed = matches!(event, Event::Add | Event::Touch | Event::Rewrite | Event::Damage);
            if is_changed && path.exists() {
                settle(runs.path(), &name, second);
            }
        }
        library.refresh().unwrap();
        let indexed = Library::open(runs.path()).unwrap();
        fs::remove_file(runs.path().join(INDEX)).ok();
        let fresh = Library::open(runs.path()).unwrap();
        prop_assert_eq!(indexed.rows(), fresh.rows());
        prop_assert_eq!(library.rows(), fresh.rows());
        for row in fresh.rows() {
            prop_assert_eq!(library.notes(&row.name), fresh.notes(&row.name));
        }
    }

    #[test]
    fn a_search_is_read_or_refused_and_never_hangs(text in "\\PC{0,60}") {
        let row = LibraryRow::default();
        if let Ok(query) = Query::parse(&text) {
            query.matches(&row, None);
        }
    }
}
