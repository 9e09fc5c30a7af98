//! Runs with real processes: the embedded server, a run that is killed, a server that is killed, a disk that is full.
//!
//! This test has a `main` of its own because it plays three parts. Without arguments it runs the tests; as
//! `<self> child` it is the embedded server, as `webstone child` would be; as `<self> sweep DIR` it is a run that
//! somebody else kills. Loads are a few clients for a fraction of a second, and nothing asserts how fast they were.
#![allow(clippy::print_stdout, reason = "a test with a main of its own says what it did")]
#![allow(
    clippy::unwrap_used,
    reason = "clippy sees tests only in #[test] functions, and these are in a main"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use webstone_lab::Interrupt;
use webstone_lab::child::{CHILD, Child};
use webstone_measure::units::Nanos;
use webstone_model::event::{Event, Phase};
use webstone_model::record::{RunRecord, RunState};
use webstone_model::spec::{ConnectionPolicy, Levels, RunSpec};
use webstone_runner::observer::Silent;
use webstone_runner::{RunError, RunOutcome, RunnerOptions, SweepError, run};
use webstone_server::{Fileset, ServeOptions, serve};
use webstone_store::{Store, StoreError};
use webstone_workload::{builtin, content};

/// Longer than anything here takes on the slowest machine; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [CHILD] => serve_as_child(),
        ["sweep", runs] => drop(run_for_ever(Path::new(runs))),
        // As nextest asks: once for all tests, once for the ignored ones.
        words if words.contains(&"--list") => {
            let listed = TESTS.iter().filter(|_| !words.contains(&"--ignored"));
            listed.for_each(|(name, _)| println!("{name}: test"));
        }
        filters => run_tests(filters),
    }
    ExitCode::SUCCESS
}

const TESTS: [(&str, fn()); 7] = [
    ("a_run_on_the_embedded_server_is_exact", a_run_on_the_embedded_server_is_exact),
    ("a_killed_run_leaves_a_readable_record", a_killed_run_leaves_a_readable_record),
    ("a_killed_server_fails_the_run_and_keeps_the_level", a_killed_server_fails_the_run_and_keeps_the_level),
    ("an_interrupt_keeps_what_was_measured", an_interrupt_keeps_what_was_measured),
    ("two_interrupts_end_a_drain", two_interrupts_end_a_drain),
    ("a_full_disk_loses_no_finished_level", a_full_disk_loses_no_finished_level),
    ("a_fileset_with_a_missing_file_is_told", a_fileset_with_a_missing_file_is_told),
];

fn run_tests(filters: &[&str]) {
    let names: Vec<&&str> = filters.iter().filter(|filter| !filter.starts_with('-')).collect();
    for (name, test) in TESTS {
        if names.is_empty() || names.iter().any(|filter| name.contains(**filter)) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// `webstone child`, as far as a run needs it.
fn serve_as_child() {
    let Child::Server { server, workload } = Child::told().expect("a run says what to be") else {
        panic!("a run starts the reference server only")
    };
    let has_root = server.root.is_some();
    let mut options = ServeOptions::new(*server);
    options.test_handlers = true;
    options.until_stdin_closes = true;
    if let Some(workload) = builtin(&workload).filter(|_| !has_root) {
        let files = workload.pages.iter().flat_map(|page| &page.files);
        let entries = files.filter_map(|file| Some((file.url.to_string(), file.size?))).collect();
        options.fileset = Fileset::from_entries(entries, content::fill);
    }
    serve(options, |ready| println!("READY {}", ready.url)).expect("the server starts");
}

fn spec(levels: &[u32], milliseconds: u64) -> RunSpec {
    let mut spec = RunSpec::default();
    spec.load.clients = Levels(levels.to_vec());
    spec.load.duration = Nanos::from_millis(milliseconds);
    spec.load.warmup = Nanos::from_millis(50);
    // Which levels there are must not depend on what else the machine does.
    spec.load.retries = 0;
    spec
}

fn options(runs: &Path) -> RunnerOptions {
    RunnerOptions { runs_dir: Some(runs.to_owned()), ..RunnerOptions::default() }
}

fn run_quietly(spec: RunSpec, runs: &Path) -> RunOutcome {
    verified(run(spec, options(runs), &mut Silent, Interrupt::new()))
}

/// What was stored agrees with itself, whatever the machine did meanwhile. A record that is partial has nothing to verify yet.
fn verified(outcome: RunOutcome) -> RunOutcome {
    if let Some(path) = outcome.path.as_ref().filter(|path| path.extension().is_none()) {
        let found = webstone_judge::consistency::check(&Store::load_whole(path).unwrap());
        assert_eq!(found.contradictions, [], "{}", path.display());
        assert_eq!(Store::check(path).unwrap().damage, [], "{}", path.display());
    }
    outcome
}

fn directories(runs: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Every identity holds that was checked, and identity 4 was checked.
fn assert_exact(record: &RunRecord) {
    assert!(record.whole().counts.succeeded > 0);
    for iteration in &record.iterations {
        assert_eq!(iteration.measured.counts.failed, 0);
        let broken: Vec<_> = iteration.identities.iter().filter(|check| !check.holds).collect();
        assert!(broken.is_empty(), "{broken:?}");
        assert!(iteration.identities.iter().any(|check| check.number == 4));
    }
}

fn a_run_on_the_embedded_server_is_exact() {
    let runs = tempfile::tempdir().unwrap();
    let mut server_cpu_ns = 0;
    for policy in [ConnectionPolicy::PerRequest, ConnectionPolicy::PerPage, ConnectionPolicy::KeepAlive] {
        let mut spec = spec(&[1, 3], 200);
        spec.load.iterations = 2;
        spec.client.connections = policy;
        let outcome = run_quietly(spec, runs.path());
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        let record = outcome.record.unwrap();
        assert_eq!((record.state, record.iterations.len()), (RunState::Complete, 4));
        assert_exact(&record);
        assert!(record.target.embedded && record.target.server.is_some());
        for iteration in &record.iterations {
            let server = iteration.server.as_ref().unwrap();
            assert_eq!(server.accepted, Some(iteration.measured.lifetime.connections));
            assert_eq!(server.requests, Some(iteration.measured.lifetime.requests));
            // On a busy machine its counters may be read too late to count.
            assert!(server.resident_bytes_max > 0 || iteration.server_missing.is_some());
            server_cpu_ns += server.user_ns + server.system_ns;
        }
        assert!(Store::load(&outcome.path.unwrap()).unwrap() == record, "the record reads back equal");
    }
    // Not of each window: the kernel counts in ticks of 10 ms, and on a busy machine a server may get less than one.
    assert!(server_cpu_ns > 0);
}

/// A run that ends only when it is killed.
fn run_for_ever(runs: &Path) -> RunOutcome {
    let mut spec = spec(&[1, 2], 100);
    spec.load.iterations = 10_000;
    run_quietly(spec, runs)
}

fn a_killed_run_leaves_a_readable_record() {
    let runs = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("sweep")
        .arg(runs.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let stored = || {
        let [directory] = &directories(runs.path())[..] else { return 0 };
        fs::read_to_string(directory.join("iterations.ndjson")).map_or(0, |text| text.lines().count())
    };
    wait_for("three iterations", || stored() >= 3);
    let servers = children(child.id());
    assert_eq!(servers.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();

    let [directory] = &directories(runs.path())[..] else { panic!("one run, one directory") };
    assert!(directory.to_str().unwrap().ends_with(".partial"));
    let record = Store::load(directory).unwrap();
    assert_eq!(record.state, RunState::Partial);
    assert!(record.iterations.len() >= 3);
    assert_exact(&record);
    wait_for("the server to end with its parent", || !is_running(servers[0]));
}

fn a_killed_server_fails_the_run_and_keeps_the_level() {
    let runs = tempfile::tempdir().unwrap();
    let mut killed = None;
    let mut observer = |event: &Event| {
        if let Event::Tick { at, live, .. } = event
            && at.step == 2
            && live.requests > 0
            && killed.is_none()
        {
            let [server] = children(std::process::id())[..] else { panic!("one server") };
            let pid = rustix::process::Pid::from_raw(server as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            killed = Some(server);
        }
    };
    let outcome = run(spec(&[1, 2], 2_000), options(runs.path()), &mut observer, Interrupt::new());
    assert!(killed.is_some());
    let Some(RunError::Sweep(SweepError::ServerEnded(how))) = &outcome.error else {
        panic!("{:?}", outcome.error)
    };
    assert!(how.contains("killed by signal 9"), "{how}");
    let record = outcome.record.unwrap();
    assert_eq!((record.state, record.iterations.len()), (RunState::Failed, 2));
    assert!(record.iterations[1].measured.counts.succeeded > 0);
    assert!(record.iterations[1].interrupted);
    assert!(Store::load(&outcome.path.unwrap()).unwrap() == record, "the record reads back equal");
}

/// Raises the interrupt at the given ticks, counted from the first one with at least this many requests measured.
fn interrupted_after(ticks: &'static [u32], requests_min: u64, spec: RunSpec, runs: &Path) -> RunOutcome {
    let interrupt = Interrupt::new();
    let raised = Arc::clone(&interrupt);
    let mut seen = 0;
    let mut observer = |event: &Event| {
        if let Event::Tick { phase: Phase::Measuring | Phase::Draining, live, .. } = event
            && live.requests >= requests_min
        {
            seen += 1;
            ticks.iter().filter(|tick| **tick == seen).for_each(|_| raised.raise());
        }
    };
    let options = RunnerOptions { check_target: false, ..options(runs) };
    verified(run(spec, options, &mut observer, interrupt))
}

fn an_interrupt_keeps_what_was_measured() {
    let runs = tempfile::tempdir().unwrap();
    let outcome = interrupted_after(&[2], 1, spec(&[2, 3], 60_000), runs.path());
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let record = outcome.record.unwrap();
    assert_eq!((record.state, record.iterations.len()), (RunState::Interrupted, 1));
    assert!(record.iterations[0].interrupted);
    assert!(record.iterations[0].measured.window_ns < Nanos::from_secs(60).0);
    assert_exact(&record);
    assert!(Store::load(&outcome.path.unwrap()).unwrap() == record, "the record reads back equal");
}

fn two_interrupts_end_a_drain() {
    let runs = tempfile::tempdir().unwrap();
    // Every answer takes ten minutes, and the drain would wait for them.
    let file = runs.path().join("slow");
    fs::write(&file, "/test?delay=10m&size=1 1 #1\n").unwrap();
    let mut spec = spec(&[2], 600_000);
    spec.workload = file.to_str().unwrap().to_owned();
    spec.load.drain = Nanos::from_secs(600);
    spec.client.first_byte_timeout = Nanos::from_secs(600);
    spec.client.request_timeout = Nanos::from_secs(600);
    let started = Instant::now();
    let outcome = interrupted_after(&[1, 2], 0, spec, runs.path());
    assert!(started.elapsed() < PATIENCE, "the drain was waited for");
    let record = outcome.record.unwrap();
    assert_eq!((record.state, record.iterations.len()), (RunState::Interrupted, 1));
    let level = &record.iterations[0];
    assert_eq!((level.measured.counts.succeeded, level.measured.lifetime.cut_off), (0, 2));
    assert!(level.identities.iter().all(|check| check.holds), "{:?}", level.identities);
}

fn a_full_disk_loses_no_finished_level() {
    let Some(disk) = SmallDisk::mounted(256 << 10) else {
        println!("skipped: a small disk cannot be mounted here (it needs root and mount -t tmpfs)");
        return;
    };
    let mut spec = spec(&[1, 2], 100);
    spec.load.iterations = 500;
    let outcome = run_quietly(spec, disk.path());
    let error = outcome.error.unwrap();
    let RunError::Sweep(SweepError::Store(StoreError::Io { source, .. })) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert!(error.hint().unwrap().contains("free some space"));
    let record = outcome.record.unwrap();
    assert_eq!(record.state, RunState::Failed);
    assert_exact(&record);
    // On the disk is everything but the level that did not fit.
    let stored = Store::load(&outcome.path.unwrap()).unwrap();
    assert!(!stored.iterations.is_empty());
    assert_eq!(stored.state, RunState::Partial);
    let measured = record.iterations.len();
    assert!(
        stored.iterations == record.iterations[..measured - 1],
        "{} of {measured}",
        stored.iterations.len()
    );
}

fn a_fileset_with_a_missing_file_is_told() {
    let (runs, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let workload = builtin("standard").unwrap();
    for file in workload.pages.iter().flat_map(|page| &page.files).skip(1) {
        let mut body = vec![0; file.size.unwrap() as usize];
        content::fill(&file.url, 0, &mut body);
        fs::write(root.path().join(file.url.trim_start_matches('/')), body).unwrap();
    }
    let mut spec = spec(&[1], 100);
    spec.server.root = Some(root.path().to_str().unwrap().to_owned());
    let outcome = run_quietly(spec, runs.path());
    let error = outcome.error.unwrap();
    assert!(error.to_string().contains("1 of the workload's 5 files is not served"), "{error}");
    assert!(error.to_string().contains("/file500.html: missing (status 404)"), "{error}");
    assert!(outcome.record.is_none());
    assert!(children(std::process::id()).is_empty(), "the server is stopped");
}

/// A file system of a few hundred kilobytes in memory, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mounted(bytes: u64) -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(directory.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut found = Vec::new();
    for task in tasks {
        let list = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().map(|word| word.parse::<u32>().unwrap()));
    }
    found
}

/// Whether a process exists and is not merely waiting to be reaped.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "waited for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
