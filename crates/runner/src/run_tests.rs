//! Whole runs with a scripted load generator against listeners of the test's own: what is decided before the first
//! level, what is kept after the last.

use std::net::TcpListener;
use std::path::Path;

use super::prepare::fileset_bytes;
use super::*;
use crate::observer::Silent;
use crate::sweep::tests::{Act, Script};
use webstone_engine::PlanError;
use webstone_lab::fixture::refusing;
use webstone_measure::errors::Blame;
use webstone_measure::metrics::PageTotals;
use webstone_model::spec::Levels;
use webstone_workload::{FileRequest, Page};

/// A port that accepts connections; what is sent on them does not matter here.
fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

fn spec(target: &str, levels: &[u32]) -> RunSpec {
    let mut spec = RunSpec { target: vec![target.to_owned()], ..RunSpec::default() };
    spec.load.clients = Levels(levels.to_vec());
    spec
}

fn options(runs: Option<&Path>) -> RunnerOptions {
    RunnerOptions { runs_dir: runs.map(Path::to_owned), check_target: false, ..RunnerOptions::default() }
}

fn run_script(spec: RunSpec, options: RunnerOptions, act: Act, interrupt: &Interrupt) -> RunOutcome {
    run_acts(spec, options, &[act], &mut Silent, interrupt)
}

fn run_acts(
    spec: RunSpec,
    options: RunnerOptions,
    acts: &[Act],
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> RunOutcome {
    let compile = |_: &RunSpec, _: &Workload| -> Result<Box<dyn LoadGenerator>, PlanError> {
        Ok(Box::new(Script::new(acts)))
    };
    run_with(spec, options, observer, interrupt, &compile)
}

fn message(outcome: &RunOutcome) -> String {
    outcome.error.as_ref().expect("the run fails").to_string()
}

#[test]
fn a_run_is_kept_as_it_was_measured() {
    let runs = tempfile::tempdir().unwrap();
    let (_listener, url) = listening();
    let outcome =
        run_script(spec(&url, &[2, 3]), options(Some(runs.path())), Act::End, &Interrupt::default());
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let mut record = outcome.record.unwrap();
    assert_eq!((record.state, record.iterations.len()), (RunState::Complete, 2));
    assert_eq!((record.target.url.as_str(), record.target.embedded), (url.as_str(), false));
    assert_eq!(record.spec.generator.cpus, "", "the record keeps what was asked for");
    assert!(record.environment.contains_key("kernel.release"));
    assert!(record.finished_at.is_some());
    let path = outcome.path.unwrap();
    assert_eq!(path.file_name().unwrap().to_str(), Some(record.id.as_str()));
    // The script knows of one page only.
    record.pages.totals.resize(record.workload.pages.len(), PageTotals::default());
    assert_eq!(Store::load(&path).unwrap(), record);
}

#[test]
fn a_run_may_leave_no_file() {
    let (_listener, url) = listening();
    let outcome = run_script(spec(&url, &[2]), options(None), Act::End, &Interrupt::default());
    assert!(outcome.error.is_none() && outcome.path.is_none());
    assert_eq!(outcome.record.unwrap().iterations.len(), 1);
}

#[test]
fn the_engine_is_given_workers_and_cpus() {
    let (_listener, url) = listening();
    let compile = |spec: &RunSpec, _: &Workload| -> Result<Box<dyn LoadGenerator>, PlanError> {
        assert!(spec.generator.workers >= 1 && !spec.generator.cpus.is_empty());
        Err(PlanError { what: "seen".into(), hint: Some("h".into()) })
    };
    let outcome = run_with(spec(&url, &[2]), options(None), &mut Silent, &Interrupt::default(), &compile);
    assert_eq!(message(&outcome), "seen");
    assert_eq!(outcome.error.unwrap().hint().as_deref(), Some("h"));
}

#[test]
fn what_cannot_work_is_told_before_anything_is_written() {
    let runs = tempfile::tempdir().unwrap();
    let (_bound, address) = refusing();
    let (closed_port, closed) = (address.port(), format!("http://{address}"));
    let checked = |spec: RunSpec| {
        let options = RunnerOptions { check_target: true, ..options(Some(runs.path())) };
        let outcome = run_script(spec, options, Act::End, &Interrupt::default());
        assert!(outcome.record.is_none() && outcome.path.is_none());
        let error = outcome.error.unwrap();
        assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{error}");
        (error.to_string(), error.blame())
    };
    let (told, blame) = checked(spec(&closed, &[2]));
    assert!(told.ends_with(&format!("nothing listens on port {closed_port}")), "{told}");
    assert_eq!(blame, Blame::Target);
    let (told, blame) = checked(spec("ftp://127.0.0.1", &[2]));
    assert!(told.contains("`ftp` is not a protocol") && blame == Blame::User, "{told}");
    let (told, blame) = checked(spec("http://no-such-host.invalid", &[2]));
    assert!(told.contains("`no-such-host.invalid` is unknown") && blame == Blame::Target, "{told}");
    let (told, blame) = checked(RunSpec { workload: "standart".into(), ..spec(&closed, &[2]) });
    assert!(told.contains("no workload `standart`") && blame == Blame::User, "{told}");
    let (told, _) = checked(spec(&closed, &[]));
    assert!(told.contains("no level"), "{told}");
    let mut none = spec(&closed, &[2]);
    none.load.iterations = 0;
    assert!(checked(none).0.contains("load.iterations: `0` is less than 1"));
    let mut far = spec(&closed, &[2]);
    far.generator.cpus = "4000".into();
    let (told, blame) = checked(far);
    assert!(told.starts_with("--cpus names CPU 4000") && blame == Blame::User, "{told}");
    let (told, blame) = checked(spec(&closed, &[10_000_000]));
    assert!(told.contains("10000") && told.contains("needs") && blame == Blame::Generator, "{told}");
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_cannot_be_written_is_told_before_the_load() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (_listener, url) = listening();
    let outcome = run_script(spec(&url, &[2]), options(Some(file.path())), Act::End, &Interrupt::default());
    assert!(outcome.record.is_none());
    assert!(message(&outcome).contains("cannot create"), "{}", message(&outcome));
    assert!(outcome.error.unwrap().hint().unwrap().contains("--runs-dir"));
}

#[test]
fn interrupted_before_anything_was_measured_leaves_nothing() {
    let runs = tempfile::tempdir().unwrap();
    let (_listener, url) = listening();
    let interrupt = Interrupt::default();
    interrupt.raise();
    let outcome = run_script(spec(&url, &[2]), options(Some(runs.path())), Act::End, &interrupt);
    assert_eq!(message(&outcome), "interrupted before anything was measured");
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0);
}

#[test]
fn a_run_that_ends_after_a_void_window_keeps_it() {
    let (_listener, url) = listening();
    // Ended by the user while the next window warms up, by the user before it begins, by an error.
    for (last, raised_at, state) in [
        (Act::WarmUpUntilEnded, "tick", RunState::Interrupted),
        (Act::End, "void", RunState::Interrupted),
        (Act::Fail, "", RunState::Failed),
    ] {
        let runs = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let mut observer = |event: &Event| match event {
            Event::Void { .. } if raised_at == "void" => interrupt.raise(),
            Event::Tick { at, .. } if raised_at == "tick" && at.step == 2 => interrupt.raise(),
            _ => {}
        };
        let acts = [Act::Stalled(60), last];
        let mut spec = spec(&url, &[2]);
        spec.load.iterations = 2;
        let outcome = run_acts(spec, options(Some(runs.path())), &acts, &mut observer, &interrupt);
        assert_eq!(outcome.error.is_some(), state == RunState::Failed, "{:?}", outcome.error);
        let record = outcome.record.unwrap();
        assert_eq!((record.state, record.iterations.len(), record.voids.len()), (state, 0, 1));
        let path = outcome.path.expect("it is stored under its final name");
        assert_eq!(path.file_name().unwrap().to_str(), Some(record.id.as_str()));
        let stored = Store::load(&path).unwrap();
        assert_eq!((stored.state, &stored.voids), (state, &record.voids));
        assert_eq!(stored.voids[0].measured.counts.succeeded, 2);
    }
}

#[test]
fn a_level_that_fails_first_leaves_no_directory() {
    let runs = tempfile::tempdir().unwrap();
    let (_listener, url) = listening();
    let outcome = run_script(spec(&url, &[2]), options(Some(runs.path())), Act::Fail, &Interrupt::default());
    assert!(message(&outcome).contains("epoll_create failed"));
    assert_eq!(outcome.record.unwrap().state, RunState::Failed);
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0);
}

#[test]
fn files_of_several_pages_count_once() {
    let file = |url: &str, size| FileRequest { url: url.into(), size, ..FileRequest::default() };
    let page = |files| Page { weight: 1, files, think: Default::default() };
    let workload = Workload {
        pages: vec![
            page(vec![file("/a", Some(10)), file("/b", None)]),
            page(vec![file("/a", Some(10)), file("/c", Some(5))]),
        ],
        ..Workload::default()
    };
    assert_eq!(fileset_bytes(&workload), 15);
}
