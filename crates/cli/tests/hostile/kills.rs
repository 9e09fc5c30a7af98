//! What is left where webstone is killed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::program::{assert_ended, command, only_entry, webstone_in};

/// Waits until nothing is left in the directory for temporary files.
fn is_emptied(temporary: &Path, what: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let left: Vec<_> = fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{what}: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_is_killed_while_it_starts_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut was_there = false;
    for delay_ms in [5, 10, 15, 20, 30, 40, 60, 80, 120, 200, 300, 500] {
        let server = "busybox httpd -f -p {address}:{port} -h {root}";
        let arguments =
            ["run", "--server", "command", "--server-command", server, "-w", "standard", "-d", "2s"];
        let mut run = command(dir.path(), &arguments).env("TMPDIR", &temporary).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        was_there |= fs::read_dir(&temporary).unwrap().next().is_some();
        run.kill().unwrap();
        run.wait().unwrap();
        is_emptied(&temporary, &format!("killed after {delay_ms} ms"));
    }
    // Where the program is not installed there is no directory to be left.
    let installed = ["/bin/busybox", "/usr/bin/busybox"].iter().any(|path| Path::new(path).exists());
    if !installed {
        println!("skipped: busybox is not installed");
    }
    assert!(was_there || !installed, "none of them came so far");
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
