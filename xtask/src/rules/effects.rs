//! Where effects may stand: I/O and clocks outside `model`, unsafe in one folder, printing in one crate.

use super::{Violation, at};
use crate::tree::Tree;

/// Modules of the standard library that `model` may not name, and why not.
const EFFECTS: [(&str, &str); 5] = [
    ("fs", "files are the runner's work; take a reader or bytes"),
    ("thread", "threads are the engine's work"),
    ("process", "processes are the runner's work"),
    ("env", "the environment is read by cli; take a value"),
    ("os", "the operating system is the engine's and the runner's work"),
];
/// Types that read a clock or touch the world, wherever they are imported from.
const EFFECT_NAMES: [&str; 9] = [
    "Instant",
    "SystemTime",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "stdin",
    "stdout",
    "stderr",
];
/// The one folder with unsafe in it. The fuzzers' wrappers expand to it too.
const UNSAFE_IN: [&str; 2] = ["crates/engine/src/sys/", "fuzz/"];
/// Programs, as against libraries.
const PRINT_IN: [&str; 4] = ["crates/cli/", "xtask/", "fuzz/", "benchsuite/"];

/// What these crates hold is a function of its arguments.
const PURE: [&str; 4] =
    ["crates/measure/src/", "crates/model/src/", "crates/workload/src/", "crates/judge/src/"];

/// [`PURE`] crates name nothing that has an effect.
pub fn model_is_pure(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.rust.iter().filter(|s| PURE.iter().any(|folder| s.path.starts_with(folder))) {
        let grouped = std_groups(&source.code);
        for (module, remedy) in EFFECTS {
            for offset in source.find(module) {
                let direct = source.code[..offset].ends_with("std::");
                let in_group = grouped.iter().any(|group| group.contains(&offset));
                if (direct || in_group) && !source.is_test(offset) {
                    found.push(at(source, offset, format!("{} names std::{module}", source.path), remedy));
                }
            }
        }
        for name in EFFECT_NAMES {
            for offset in source.find(name).filter(|offset| !source.is_test(*offset)) {
                let remedy = "it takes instants as nanoseconds and data as bytes or a reader";
                found.push(at(source, offset, format!("{} names {name}", source.path), remedy));
            }
        }
    }
    found
}

/// The word `unsafe` stands in one folder.
pub fn unsafe_in_sys(tree: &Tree) -> Vec<Violation> {
    let remedy = "put the call behind a safe function in crates/engine/src/sys";
    let sources = tree.rust.iter().filter(|s| !UNSAFE_IN.iter().any(|folder| s.path.starts_with(folder)));
    sources
        .flat_map(|s| s.find("unsafe").map(|offset| at(s, offset, "unsafe outside sys".to_owned(), remedy)))
        .collect()
}

/// Libraries neither print nor exit.
pub fn printing_in_cli(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &tree.rust {
        if PRINT_IN.iter().any(|folder| source.path.starts_with(folder)) || source.path.ends_with("/build.rs")
        {
            continue;
        }
        for call in ["println!", "print!", "eprintln!", "eprint!", "dbg!", "process::exit", "process::abort"]
        {
            for offset in source.find(call).filter(|offset| !source.is_test(*offset)) {
                let remedy = "return a value or an error and let crates/cli print it";
                found.push(at(source, offset, format!("{call} outside cli"), remedy));
            }
        }
    }
    found
}

/// Ranges of the braces of `use std::{…}`.
fn std_groups(code: &str) -> Vec<std::ops::Range<usize>> {
    let start = |(offset, _): (usize, &str)| {
        let end = code[offset..].find(';').map_or(code.len(), |length| offset + length);
        offset..end
    };
    code.match_indices("use std::{").map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> usize {
        model_is_pure(&Tree::of(&[("crates/model/src/a.rs", text)])).len()
    }

    #[test]
    fn effects_in_model_are_found() {
        for text in [
            "use std::fs;",
            "use std::{fmt, fs::File};",
            "let t = std::time::Instant::now();",
            "std::thread::spawn(f);",
            "use std::net::{IpAddr, TcpStream};",
            "let x = std::env::var(\"A\");",
            "use std::{\n  fmt,\n  process,\n};",
        ] {
            assert_eq!(model(text), 1, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_an_effect_passes() {
        for text in [
            "use std::net::IpAddr;",
            "use std::io::{self, BufRead, Read};",
            "// std::fs is the runner's",
            "let fs = 1; let process = \"std::env\";",
            "#[cfg(test)]\nmod tests { use std::fs; }",
            "const X: &str = env!(\"X\");",
        ] {
            assert_eq!(model(text), 0, "{text}");
        }
        let elsewhere = Tree::of(&[("crates/runner/src/a.rs", "use std::fs;")]);
        assert_eq!(model_is_pure(&elsewhere), []);
    }

    #[test]
    fn unsafe_has_one_folder() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(unsafe_in_sys(&Tree::of(&[("crates/engine/src/sys/epoll.rs", text)])), []);
        assert_eq!(unsafe_in_sys(&Tree::of(&[("crates/engine/src/h1/a.rs", text)])).len(), 1);
        assert_eq!(unsafe_in_sys(&Tree::of(&[("crates/runner/tests/a.rs", text)])).len(), 1);
        assert_eq!(unsafe_in_sys(&Tree::of(&[("crates/model/src/lib.rs", "#![forbid(unsafe_code)]")])), []);
    }

    #[test]
    fn printing_has_one_crate() {
        let text = "fn f() { println!(\"a\"); std::process::exit(1) }";
        assert_eq!(printing_in_cli(&Tree::of(&[("crates/report/src/a.rs", text)])).len(), 2);
        assert_eq!(printing_in_cli(&Tree::of(&[("crates/cli/src/a.rs", text)])), []);
        assert_eq!(printing_in_cli(&Tree::of(&[("crates/report/tests/a.rs", text)])), []);
        let test = "#[cfg(test)]\nmod tests { fn f() { eprintln!(); } }";
        assert_eq!(printing_in_cli(&Tree::of(&[("crates/report/src/a.rs", test)])), []);
        assert_eq!(printing_in_cli(&Tree::of(&[("crates/report/src/a.rs", "writeln!(f)?;")])), []);
    }
}
