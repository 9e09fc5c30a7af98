//! The tutorials, word for word: every line that they ask to type, but with a free port.

use std::path::Path;
use std::process::Command;

use super::program::{Said, Server, program, said};

/// The lines that a page asks to type.
fn typed(page: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(page).unwrap();
    let typed = text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned);
    typed.collect()
}

/// Types into a shell in a directory.
fn shell(text: &str, dir: &Path) -> Said {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", Path::new(&program()).parent().unwrap().display());
    let mut shell = Command::new("sh");
    shell.args(["-c", text]).current_dir(dir).env("PATH", path);
    shell.env("XDG_DATA_HOME", dir.join("data")).env("WEBSTONE_VERIFY_RECORDS", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        shell.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@t");
    }
    said(&mut shell)
}

#[test]
fn every_line_of_the_tutorial_works() {
    let typed = typed("five-minutes.md");
    assert!(typed.len() >= 6, "{typed:?}");
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(typed[0], "webstone serve --listen 127.0.0.1:8080 &");
    let server = Server::start(dir.path(), &[]);
    for line in &typed[1..] {
        let said = shell(&line.replace("http://127.0.0.1:8080", &server.url), dir.path());
        // On a busy machine nothing may be concluded, or found, and the record says so.
        let is_told = matches!(said.code, 0 | 4) || said.code == 1 && line.contains(" find ");
        assert!(is_told, "{line}: {}\n{}", said.code, said.err);
        assert!(said.out.starts_with("webstone "), "{line}: {}", said.out);
    }
    let records = std::fs::read_dir(dir.path().join("runs")).unwrap();
    let pages = records.filter(|entry| entry.as_ref().unwrap().path().join("report.html").is_file());
    assert!(pages.count() >= 2, "`run` and `find` leave a page for the browser");
}

/// In one shell, because it begins with a directory of its own. What is decided depends on the machine.
#[test]
fn every_line_of_the_tutorial_on_changes_works() {
    let typed = typed("is-my-change-slower.md");
    assert!(typed.len() >= 10, "{typed:?}");
    let dir = tempfile::tempdir().unwrap();
    let said = shell(&typed.join("\n"), dir.path());
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    assert!(said.out.contains("Duel: HEAD against HEAD~1"), "{}\n{}", said.out, said.err);
    assert!(
        said.out.contains("\n### ") && said.out.contains("Duel: HEAD against HEAD\\~1\n"),
        "{}",
        said.out
    );
    let runs = dir.path().join("shop/runs");
    assert!(
        runs.join(said.out.lines().last().unwrap().split_whitespace().next().unwrap()).is_dir(),
        "{}",
        said.out
    );
    assert!(dir.path().join("shop/duel.html").is_file());
}
