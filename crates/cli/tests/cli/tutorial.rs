//! The tutorial, word for word: every line that `docs/five-minutes.md` asks to type, but with a free port.

use std::path::Path;
use std::process::Command;

use super::program::{Server, program, said};

#[test]
fn every_line_of_the_tutorial_works() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/five-minutes.md");
    let text = std::fs::read_to_string(page).unwrap();
    let typed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(typed.len() >= 6, "{typed:?}");
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(typed[0], "webstone serve --listen 127.0.0.1:8080 &");
    let server = Server::start(dir.path(), &[]);
    let path = format!(
        "{}:{}",
        Path::new(&program()).parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    for line in &typed[1..] {
        let line = line.replace("http://127.0.0.1:8080", &server.url);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(dir.path()).env("PATH", &path);
        let said =
            said(shell.env("XDG_DATA_HOME", dir.path().join("data")).env("WEBSTONE_VERIFY_RECORDS", "1"));
        // On a busy machine nothing may be concluded, and the record says so.
        assert!(said.code == 0 || said.code == 4, "{line}: {}\n{}", said.code, said.err);
        assert!(said.out.starts_with("webstone "), "{line}: {}", said.out);
    }
    let records = std::fs::read_dir(dir.path().join("runs")).unwrap();
    let pages = records.filter(|entry| entry.as_ref().unwrap().path().join("report.html").is_file());
    assert!(pages.count() >= 2, "`run` and `find` leave a page for the browser");
}
