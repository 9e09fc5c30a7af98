//! What is left after webstone was killed.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::program::{assert_ended, command, only_entry, webstone_in};

/// Longer than anything here takes on the slowest machine; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until nothing is left in the directory for temporary files.
fn is_emptied(temporary: &Path, what: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let left: Vec<_> = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{what}: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the run has made its server's directory, however long that takes; returns whether it did.
fn is_made(temporary: &Path, run: &mut Child) -> bool {
    let until = Instant::now() + PATIENCE;
    while fs::read_dir(temporary).unwrap().next().is_none() {
        if run.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(Instant::now() < until, "the run neither ends nor starts its server");
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_run_is_killed_while_it_starts_its_server() {
    if !["/bin/busybox", "/usr/bin/busybox"].iter().any(|path| Path::new(path).exists()) {
        println!("skipped: busybox is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let server = "busybox httpd -f -p {address}:{port} -h {root}";
    let arguments = ["run", "--server", "command", "--server-command", server, "-w", "standard", "-d", "60s"];
    let start = || command(dir.path(), &arguments).env("TMPDIR", &temporary).spawn().unwrap();
    let kill = |mut run: Child, what: &str| {
        run.kill().unwrap();
        run.wait().unwrap();
        is_emptied(&temporary, what);
    };
    for delay_ms in [5, 10, 20, 40, 80] {
        let run = start();
        std::thread::sleep(Duration::from_millis(delay_ms));
        kill(run, &format!("killed {delay_ms} ms after its start"));
    }
    for delay_ms in [0, 2, 5, 10, 20, 40, 80, 200] {
        let mut run = start();
        assert!(is_made(&temporary, &mut run), "it ended by itself");
        std::thread::sleep(Duration::from_millis(delay_ms));
        kill(run, &format!("killed {delay_ms} ms after its server's directory was made"));
    }
}

#[test]
fn a_verification_is_killed_while_it_unpacks() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    assert_ended(&webstone_in(dir.path(), &["run", "-c", "1", "-d", "200ms", "-i", "1"]));
    let run = only_entry(&dir.path().join("runs"));
    let said = webstone_in(dir.path(), &["archive", run.to_str().unwrap(), "-o", "a.tar.gz"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for signal in ["KILL", "INT", "TERM"] {
        for delay_ms in [1, 3, 5, 8, 12, 20, 40] {
            let mut verify =
                command(dir.path(), &["verify", "a.tar.gz"]).env("TMPDIR", &temporary).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay_ms));
            // It may have ended already.
            let _ =
                std::process::Command::new("kill").args(["-s", signal, &verify.id().to_string()]).output();
            verify.wait().unwrap();
            is_emptied(&temporary, signal);
        }
    }
    let whole = command(dir.path(), &["verify", "a.tar.gz"]).env("TMPDIR", &temporary).output().unwrap();
    assert_eq!(whole.status.code(), Some(0));
    is_emptied(&temporary, "undisturbed");
}
