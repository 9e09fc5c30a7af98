//! wrk, ab and h2load against the reference server.

use std::process::Command;

use webstone_model::spec::ServerSpec;
use webstone_server::{Fileset, RunningServer, ServeOptions, Server};
use webstone_workload::{builtin, content};

use crate::program::find;

fn server() -> RunningServer {
    let workload = builtin("standard").unwrap();
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let entries = files.map(|file| (file.url.to_string(), file.size.unwrap())).collect();
    let mut options = ServeOptions::new(ServerSpec::default());
    options.fileset = Fileset::from_entries(entries, content::fill);
    Server::start(options).unwrap()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// The number after a label.
fn number(text: &str, label: &str) -> u64 {
    let rest = text.split(label).nth(1).unwrap_or_else(|| panic!("no `{label}` in {text}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind `{label}` in {text}"))
}

#[test]
fn wrk_drives_the_reference_server_without_an_error() {
    let Some(wrk) = find("wrk", "wrk") else { return };
    let server = server();
    for connection in ["keep-alive", "close"] {
        let url = format!("{}/file5k.html", server.url());
        let header = format!("Connection: {connection}");
        let text = output(Command::new(&wrk).args(["-t1", "-c16", "-d1s", "-H", &header, &url]));
        assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
        assert!(text.contains("requests in"), "{text}");
    }
    assert_eq!(server.counters().status.success, server.counters().responses);
}

#[test]
fn ab_drives_the_reference_server_without_an_error() {
    let Some(ab) = find("ab", "apache2-utils") else { return };
    let server = server();
    for keep_alive in [&[][..], &["-k"]] {
        let before = server.counters();
        let url = format!("{}/file50k.html", server.url());
        let text =
            output(Command::new(&ab).args(["-q", "-n", "2000", "-c", "16"]).args(keep_alive).arg(&url));
        assert_eq!(number(&text, "Complete requests:"), 2000, "{text}");
        assert_eq!(number(&text, "Failed requests:"), 0, "{text}");
        assert_eq!(number(&text, "HTML transferred:"), 2000 * 51_250, "{text}");
        assert_eq!(server.counters().since(&before).responses, 2000);
    }
}

#[test]
fn h2load_drives_the_reference_server_without_an_error() {
    let Some(h2load) = find("h2load", "nghttp2-client") else { return };
    let server = server();
    let url = format!("{}/file500.html", server.url());
    let text = output(Command::new(&h2load).args(["--h1", "-n", "2000", "-c", "16", &url]));
    assert!(text.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
    assert_eq!(server.counters().responses, 2000);
}
