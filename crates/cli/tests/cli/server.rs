//! `webstone serve`: the contract with the program that starts it, and the files that it serves.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::program::{Server, command, webstone_in};

fn get(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn it_says_ready_serves_the_workload_and_ends_with_its_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(
        dir.path(),
        &["--listen", "127.0.0.1:0", "--threads", "1", "--workload", "workout-16k"],
    );
    let workload =
        webstone_in(dir.path(), &["workloads", "show", "workout-16k", "--format", "webstone2"]).out;
    let path =
        workload.lines().find(|line| line.starts_with('/')).unwrap().split(' ').next().unwrap().to_owned();
    let answer = get(&server.url, &path);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body.len(), 16384);
    assert!(get(&server.url, "/file500.html").starts_with("HTTP/1.1 404 "));
    let said = server.end();
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", ""));
}

#[test]
fn a_signal_ends_it_in_order() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT"] {
        let server = Server::start(dir.path(), &["--threads", "1"]);
        let id = server.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        assert_eq!(server.end().code, 0, "{signal}");
    }
}

#[test]
fn invalid_options_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let taken = server.url.strip_prefix("http://").unwrap().to_owned();
    for (arguments, code, text) in [
        (
            ["--listen", taken.as_str()],
            1,
            format!(
                "error: --listen {taken}: the address is in use by another process\n\
                 hint: stop that process (`ss -ltnp` shows it), or use port 0 for a free one\n"
            ),
        ),
        (
            ["--root", "/nonexistent"],
            1,
            "error: --root /nonexistent: the directory does not exist\n\
             hint: `webstone genfiles` creates the files of a workload\n"
                .to_owned(),
        ),
        (
            ["--workload", "standart"],
            2,
            "error: there is no workload `standart`: it is not a built-in one, and there is no such file\n\
             hint: did you mean `standard`? `webstone workloads` lists the built-in ones\n"
                .to_owned(),
        ),
    ] {
        let said = webstone_in(dir.path(), &[["serve"].as_slice(), &arguments].concat());
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (code, "", text.as_str()));
    }
}

#[test]
fn a_reader_that_went_away_does_not_panic() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = command(dir.path(), &["workloads", "show", "webbench-static"]).spawn().unwrap();
    // More than a pipe can hold is still to be written when its reader is gone.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}
