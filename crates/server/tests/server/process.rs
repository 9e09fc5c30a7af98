//! The server as a process of its own: ready, signals, end of standard input.
//!
//! The child is this test binary itself, told by an environment variable to be a server.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use webstone_model::spec::ServerSpec;
use webstone_server::{Ready, ServeOptions, ServeReport};

use crate::peer::{PATIENCE, Peer, fileset};

const READY_FILE: &str = "WEBSTONE_TEST_READY_FILE";

/// Not a test: what the child process runs.
#[test]
fn child_server() {
    let Ok(ready_file) = std::env::var(READY_FILE) else { return };
    let spec = ServerSpec { threads: 2, ..ServerSpec::default() };
    let options = ServeOptions {
        fileset: fileset(),
        until_stdin_closes: true,
        test_handlers: true,
        ..ServeOptions::new(spec)
    };
    let report = webstone_server::serve(options, |ready| {
        write_whole(Path::new(&ready_file), &serde_json::to_vec(ready).unwrap());
    });
    write_whole(
        &Path::new(&ready_file).with_extension("report"),
        &serde_json::to_vec(&report.unwrap()).unwrap(),
    );
}

fn write_whole(path: &Path, bytes: &[u8]) {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, bytes).unwrap();
    std::fs::rename(&partial, path).unwrap();
}

fn spawn(ready_file: &Path) -> (Child, Ready) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::child_server"])
        .env(READY_FILE, ready_file)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !ready_file.exists() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "the server did not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    let ready: Ready = serde_json::from_slice(&std::fs::read(ready_file).unwrap()).unwrap();
    assert_eq!((ready.pid, ready.threads), (child.id(), 2));
    (child, ready)
}

fn ends_well(mut child: Child, ready_file: &Path) {
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the server did not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success());
    let report = std::fs::read(ready_file.with_extension("report")).unwrap();
    let report: ServeReport = serde_json::from_slice(&report).unwrap();
    assert_eq!((report.counters.responses, report.counters.pid), (1, child.id()));
}

#[test]
fn a_server_ends_with_its_parent_or_by_a_signal() {
    for end in ["stdin", "-TERM", "-INT"] {
        let directory = tempfile::tempdir().unwrap();
        let ready_file = directory.path().join("ready");
        let (mut child, ready) = spawn(&ready_file);
        assert_eq!(Peer::at(&ready.url).get("/small.html").status, 200);
        let stdin = child.stdin.take();
        if end == "stdin" {
            drop(stdin);
            ends_well(child, &ready_file);
        } else {
            let process = rustix::process::Pid::from_child(&child);
            let signal =
                if end == "-INT" { rustix::process::Signal::INT } else { rustix::process::Signal::TERM };
            rustix::process::kill_process(process, signal).unwrap();
            ends_well(child, &ready_file);
        }
    }
}
