//! The CPU priority of a run: who gets it, what the record says of it, and that the session's is given back however the run ends.

use std::process::Command;

use serde_json::Value;

use crate::program::{command, program, said};

/// Whether this user may raise the priority of a process.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn may_raise() -> bool {
    let may = Command::new("nice").args(["-n", "-20", "nice"]).output();
    let may = may.is_ok_and(|output| output.stdout == b"-20\n");
    if !may {
        println!("skipped: this user may not raise the priority of a process");
    }
    may
}

fn nice_of(arguments: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let fixed = ["-c", "1", "-d", "50ms", "--no-store", "-q", "--format", "json"];
    let mut run = command(dir.path(), &[arguments, &fixed].concat());
    let said = said(run.env_remove("WEBSTONE_PRIORITY"));
    assert!(matches!(said.code, 0 | 4), "{}", said.err);
    let record: Value = serde_json::from_str(&said.out).unwrap();
    record["environment"]["priority.nice"].clone()
}

#[test]
fn a_run_on_a_server_of_its_own_comes_first_unless_told_otherwise() {
    if !may_raise() {
        return;
    }
    assert_eq!(nice_of(&["run"]), -20);
    assert_eq!(nice_of(&["run", "--no-priority"]), Value::Null);
}

/// It leaves other programs the CPU time of waiting, whichever CPUs it has.
#[test]
fn at_the_normal_priority_a_duel_sleeps_between_answers() {
    let dir = tempfile::tempdir().unwrap();
    let duel = ["duel", "reference", "reference,threads=1", "-w", "workout-0k", "--at-most", "1s"];
    let mut duel = command(dir.path(), &[&duel[..], &["--no-store", "--format", "json"]].concat());
    let said = said(duel.env("WEBSTONE_PRIORITY", "normal"));
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    assert_eq!(report["duel"]["environment"]["generator.stays_awake"], false);
}

#[test]
fn a_server_on_this_host_that_webstone_did_not_start_keeps_its_share() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", server.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        while let Ok((mut stream, _)) = server.accept() {
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|n| n > 0)
                && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").is_ok()
            {}
        }
    });
    assert_eq!(nice_of(&["run", &url, "-w", "workout-0k", "--no-check"]), Value::Null);
}

/// A session of its own, in which the run is killed while its priority is raised.
const KILLED: &str = "
    is() { i=0; while ! grep -q \"nice $1\" /proc/self/autogroup; do i=$((i+1)); [ $i -gt 600 ] && exit $2; sleep .05; done; }
    \"$0\" run -c 1 -d 60s --no-store -q & run=$!
    is -20 10; kill -9 $run; is 0 11";

#[test]
fn a_killed_run_does_not_leave_its_session_the_priority() {
    let grouped = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_default();
    if grouped.trim() != "1" {
        println!("skipped: the kernel does not group threads by session");
        return;
    }
    if !may_raise() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut session = Command::new("setsid");
    session.args(["--wait", "sh", "-c", KILLED, &program()]).current_dir(dir.path());
    let ended = session.env_remove("WEBSTONE_PRIORITY").status().unwrap();
    assert_eq!(ended.code(), Some(0), "10: it was not raised; 11: it was not given back");
}
