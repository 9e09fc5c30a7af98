//! What a stranger's record can write to the terminal.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{Said, assert_ended, only_entry, webstone_in};

/// Repaints the terminal, rings the bell, changes the text direction, begins a line with a verdict, and is an image
/// in Markdown and a script in HTML.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}1m\r\u{202e}\u{2066}\u{2028}\u{85}\u{7f}\nVERIFIED  forged\n![i](http://e.invalid/i.png)<script>alert(1)</script>|`*";

/// A record of a short run.
fn record(dir: &Path) -> PathBuf {
    let said =
        webstone_in(dir, &["run", "-w", "standard", "-c", "1", "-d", "300ms", "-i", "2", "--warmup", "0"]);
    assert_ended(&said);
    only_entry(&dir.join("runs"))
}

/// Finds the texts in a value, as JSON pointers.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| texts(item, &format!("{at}/{n}"), found))
        }
        Value::Object(fields) => fields.iter().for_each(|(name, item)| {
            texts(item, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found)
        }),
        _ => {}
    }
}

fn spoil(value: &mut Value, at: &str) {
    let text = value.pointer_mut(at).unwrap();
    *text = Value::String(format!("{}{HOSTILE}", text.as_str().unwrap()));
}

/// Checks that nothing of it was printed unchanged.
fn harmless(said: &Said, what: &str) {
    for (stream, text) in [("stdout", &said.out), ("stderr", &said.err)] {
        let raw = |c: char| {
            c.is_control() && !matches!(c, '\n' | '\r' | '\t')
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        let bad = text
            .replace("\r\n", "\n")
            .lines()
            .find(|line| {
                // In HTML a line break is white space.
                line.contains(raw)
                    || line.contains('\r')
                    || line.starts_with("VERIFIED") && !text.contains("<html")
            })
            .map(str::to_owned);
        assert_eq!(bad, None, "{what}: {stream}");
    }
}

#[test]
fn a_record_whose_every_text_is_hostile_paints_a_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let run = record(dir.path());
    let path = run.join("record.json");
    let whole: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mut all = Vec::new();
    texts(&whole, "", &mut all);
    assert!(all.len() > 100, "{all:?}");
    let name = run.to_str().unwrap();

    // A text with a format of its own, such as a version, is refused: then the message is checked. All others are
    // made hostile at once.
    let mut spoilt = whole.clone();
    let mut refused = Vec::new();
    let mut tried = BTreeSet::new();
    for at in &all {
        // Only the first item of a list; the environment may contain anything.
        let kind: String = at.chars().filter(|c| !c.is_ascii_digit()).collect();
        if at.starts_with("/environment/") || !tried.insert(kind) {
            spoil(&mut spoilt, at);
            continue;
        }
        let mut alone = whole.clone();
        spoil(&mut alone, at);
        fs::write(&path, alone.to_string()).unwrap();
        let said = webstone_in(dir.path(), &["verify", name]);
        harmless(&said, at);
        assert_eq!(said.code, 6, "{at}: {}{}", said.out, said.err);
        if webstone_in(dir.path(), &["report", name, "--format", "hgrm"]).code == 0 {
            spoil(&mut spoilt, at);
        } else {
            refused.push(at.as_str());
        }
    }
    // Other items of a list are refused like the first.
    for at in all.iter().filter(|at| {
        let kind = |at: &str| at.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        refused.iter().any(|first| kind(first) == kind(at))
    }) {
        *spoilt.pointer_mut(at).unwrap() = whole.pointer(at).unwrap().clone();
    }
    assert!(tried.len() - refused.len() > 20, "{refused:?} of {}", tried.len());
    // A warning and a disclosed fact, which a short run does not have; names are texts, too.
    let more = Value::from(vec![HOSTILE]);
    spoilt["warnings"] = more;
    spoilt["environment"][HOSTILE] = Value::from(HOSTILE);
    spoilt["spec"]["disclosure"] = serde_json::json!({ "cpu": HOSTILE });
    fs::write(&path, spoilt.to_string()).unwrap();

    for format in [
        "text",
        "html",
        "hit",
        "json",
        "csv",
        "webstone1",
        "webstone2",
        "markdown",
        "hgrm",
        "prometheus",
        "otel",
    ] {
        for color in ["never", "always"] {
            let mut said = webstone_in(dir.path(), &["report", name, "--format", format, "--color", color]);
            if color == "always" {
                for style in
                    ["\u{1b}[1m", "\u{1b}[2m", "\u{1b}[1;32m", "\u{1b}[33m", "\u{1b}[1;31m", "\u{1b}[0m"]
                {
                    said.out = said.out.replace(style, "");
                }
            }
            let what = format!("report --format {format} --color {color}");
            assert_eq!(said.code, 0, "{what}: {}", said.err);
            harmless(&said, &what);
            if format == "html" {
                assert!(!said.out.contains("<script>alert"), "{what}");
            }
            if format == "markdown" {
                assert!(!said.out.contains("![i]") && !said.out.contains("<script"), "{what}: {}", said.out);
            }
            if ["json", "otel"].contains(&format) {
                let value: Value = serde_json::from_str(&said.out).unwrap();
                assert!(value.to_string().contains("\u{202e}"), "the value stays the same");
            }
        }
    }
    let commands: [&[&str]; 11] = [
        &["report", name, "--format", "csv", "--table", "pages"],
        &["verify", name],
        &["verify", name, "--format", "markdown"],
        &["verify", name, "--format", "json"],
        &["compare", name, name],
        &["compare", name, name, "--format", "html"],
        &["compare", name, name, "--format", "markdown"],
        &["compare", name, name, "--format", "json"],
        &["certify", name, "--uncertified"],
        &["history", name],
        &["history", name, "--format", "markdown"],
    ];
    for arguments in commands {
        let said = webstone_in(dir.path(), arguments);
        harmless(&said, &arguments.join(" "));
        let unverified = ["verify", "certify"].contains(&arguments[0]);
        assert_eq!(
            said.code == 6 || said.code == 1,
            unverified,
            "{arguments:?}: {}: {}",
            said.code,
            said.err
        );
    }
}

#[test]
fn a_file_with_a_hostile_name_in_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar.gz");
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        fs::File::create(&path).unwrap(),
        flate2::Compression::fast(),
    ));
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    tar.append_data(&mut header, "r/x\u{1b}[2J\rVERIFIED\u{202e}", &b"x"[..]).unwrap();
    tar.into_inner().unwrap().finish().unwrap();
    for format in ["text", "markdown", "json"] {
        let said = webstone_in(dir.path(), &["verify", "a.tar.gz", "--format", format]);
        assert_eq!(said.code, 6, "{}{}", said.out, said.err);
        harmless(&said, format);
    }
}

#[test]
fn a_server_that_fails_writes_on_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("s.sh"),
        "printf 'a\\033[2J\\033]0;t\\007b\\302\\2331m\\342\\200\\256\\nVERIFIED forged\\n' >&2; exit 3\n# {port}",
    )
    .unwrap();
    let script = dir.path().join("s.sh");
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let line = format!("sh {} {{port}}", script.display());
    let said =
        webstone_in(dir.path(), &["run", "--server", "command", "--server-command", &line, "-d", "1s"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("\\u{1b}[2J"), "it is quoted: {}", said.err);
    harmless(&said, "a server that fails");
}
