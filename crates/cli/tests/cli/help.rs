//! Help, version, completions, manual pages: they teach, and go to standard output.

use crate::program::{webstone, webstone_in};

#[test]
fn the_first_help_shows_what_people_type() {
    let said = webstone(&["--help"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for command in ["run", "genfiles", "checkfiles", "hit", "report"] {
        assert!(said.out.contains(&format!("\n  webstone {command}")), "{command}");
    }
    assert!(said.out.contains(
        "Exit codes: 0 done · 1 webstone failed · 2 usage · 3 a threshold failed · 4 invalid or inconclusive"
    ));
}

#[test]
fn every_command_has_a_help_that_begins_with_what_it_does() {
    for (command, about) in [
        ("run", "Run the benchmark: a workload at several numbers of clients\n"),
        ("hit", "Load one URL and print a short report, as wrk does\n"),
        ("find", "Search for the highest load at which a server keeps an SLO\n"),
        ("calibrate", "Measure how much load this host can generate\n"),
        ("serve", "Run the reference server\n"),
        ("genfiles", "Write the files of a workload into a directory, for a server to serve\n"),
        ("checkfiles", "Check that a server serves every file of a workload, complete and unchanged\n"),
        ("mine", "Make a workload from access logs\n"),
        ("report", "Print the report of a stored run, in any format\n"),
        ("ui", "Set up, run, watch and compare in a browser\n"),
        ("workloads", "List the built-in workloads, or show one\n"),
        ("completions", "Print a completion script for a shell\n"),
        ("man", "Print the manual page, or write the pages of all commands into a directory"),
    ] {
        for flag in ["-h", "--help"] {
            let said = webstone(&[command, flag]);
            assert_eq!((said.code, said.err.as_str()), (0, ""), "{command} {flag}");
            assert!(said.out.starts_with(about), "{command} {flag}: {}", said.out);
        }
    }
}

#[test]
fn help_is_a_command_as_well() {
    let asked = webstone(&["help", "run"]);
    assert_eq!((asked.code, asked.err.as_str()), (0, ""));
    assert_eq!(asked.out, webstone(&["run", "--help"]).out);
    assert_eq!(webstone(&["help"]).out, webstone(&["--help"]).out);
}

#[test]
fn the_help_of_a_flag_gives_unit_default_and_example() {
    let out = webstone(&["run", "--help"]).out;
    let start = out.find("-d, --duration <TIME>").unwrap();
    let end = start + out[start..].find("-i, --iterations").unwrap();
    let words = out[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words,
        "-d, --duration <TIME> Length of each level's measured window, without warm-up; 0s ends levels by --pages alone \
         A number is seconds; units are ns, us, ms, s, m and h. Example: -d 10m Default: 6s"
    );
    let hit = webstone(&["hit", "--help"]).out;
    assert!(hit.contains("Default: keep-alive") && hit.contains("Default: 10s"), "{hit}");
}

#[test]
fn the_short_help_shows_the_options_that_people_use_and_says_where_the_rest_is() {
    let options = |out: &str| {
        // Lines indented further are text about an option; examples of commands follow.
        let is_option = |line: &&str| ["  -", "      --"].iter().any(|begin| line.starts_with(begin));
        out.split("Examples:").next().unwrap().lines().filter(is_option).count()
    };
    for command in ["run", "hit", "find", "servers", "scale", "spice", "workout"] {
        let (short, long) = (webstone(&[command, "-h"]).out, webstone(&[command, "--help"]).out);
        let last = short.lines().last().unwrap();
        let all: usize = last.split(' ').filter_map(|word| word.parse().ok()).next().unwrap();
        assert_eq!(last, format!("`webstone {command} --help` has all {all} options."));
        assert!((20..=30).contains(&options(&short)), "{command}: {}", options(&short));
        assert_eq!(options(&long), all, "{command}");
        assert!(!long.contains(last), "{command}");
    }
    assert!(!webstone(&["serve", "-h"]).out.contains("has all"), "all are shown");
}

#[test]
fn the_version_is_the_packages() {
    let said = webstone(&["--version"]);
    assert_eq!(said.code, 0);
    assert!(said.out.starts_with(concat!("webstone ", env!("CARGO_PKG_VERSION"))), "{}", said.out);
    assert_eq!(said.out.lines().count(), 1);
}

#[test]
fn every_shell_gets_a_script_that_knows_the_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = webstone(&["completions", shell]);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{shell}");
        assert!(said.out.contains("requests-per-connection") && said.out.contains("checkfiles"), "{shell}");
    }
}

#[test]
fn bash_completes_names_of_runs_and_servers() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("script"), webstone(&["completions", "bash"]).out).unwrap();
    for run in
        ["runs/2026-01-02T03-04-05-hit", "runs/2026-02-02T03-04-05-run", "elsewhere/2025-01-01T00-00-00-a"]
    {
        std::fs::create_dir_all(dir.path().join(run)).unwrap();
    }
    // As bash calls it for what is typed, with the cursor at the end.
    let completed = |words: &[&str]| {
        let typed = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let script = format!(
            "source ./script; COMP_WORDS=({typed}); COMP_CWORD={}; _webstone_names webstone '{}' '{}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let bash = std::process::Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output();
        let Ok(bash) = bash else { return None };
        assert!(bash.stderr.is_empty(), "{}", String::from_utf8_lossy(&bash.stderr));
        Some(String::from_utf8(bash.stdout).unwrap())
    };
    let Some(found) = completed(&["webstone", "report", "2026-02"]) else {
        return println!("skipped: there is no bash");
    };
    assert_eq!(found, "2026-02-02T03-04-05-run\n");
    let both = completed(&["webstone", "compare", "--full", "2026"]).unwrap();
    assert_eq!(both.lines().count(), 2, "{both}");
    let elsewhere = completed(&["webstone", "report", "--runs-dir", "elsewhere", "20"]).unwrap();
    assert_eq!(elsewhere, "2025-01-01T00-00-00-a\n");
    assert_eq!(completed(&["webstone", "servers", "nginx,lig"]).unwrap(), "nginx,lighttpd\n");
    assert_eq!(completed(&["webstone", "run", "--server", "cad"]).unwrap(), "caddy\n");
    assert!(completed(&["webstone", "report", "--format", "2026"]).unwrap().trim().is_empty());
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let said = webstone(&["man"]);
    assert!(said.code == 0 && said.out.contains(".TH webstone 1"), "{}", said.out);
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(dir.path(), &["man", "pages/man1"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", ""));
    let mut names: Vec<String> = std::fs::read_dir(dir.path().join("pages/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let commands = [
        "agent",
        "calibrate",
        "checkfiles",
        "archive",
        "certify",
        "compare",
        "completions",
        "duel",
        "find",
        "generators",
        "genfiles",
        "history",
        "hit",
        "list",
        "man",
        "mine",
        "note",
        "report",
        "run",
        "scale",
        "serve",
        "servers",
        "spice",
        "ui",
        "verify",
        "workloads",
        "workout",
    ];
    let mut expected: Vec<String> = commands.iter().map(|command| format!("webstone-{command}.1")).collect();
    expected.push("webstone.1".to_owned());
    expected.sort();
    assert_eq!(names, expected);
    let run = std::fs::read_to_string(dir.path().join("pages/man1/webstone-run.1")).unwrap();
    assert!(run.contains(".TH webstone-run 1") && run.contains("20..100+10"), "{run}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let said = webstone_in(dir.path(), &["man", "file/below"]);
    let expected = "error: cannot create file/below: Not a directory\nhint: part of this path is a file where a directory is needed\n";
    assert_eq!((said.code, said.err.as_str()), (1, expected));
}
