//! Which crates may have effects: I/O and clocks stay outside the pure ones.

use super::{Violation, at};
use crate::tree::Tree;

/// Modules of the standard library that [`PURE`] crates may not name, and why not.
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
/// What these crates hold is a function of its arguments.
const PURE: [&str; 4] =
    ["crates/measure/src/", "crates/model/src/", "crates/workload/src/", "crates/judge/src/"];

/// [`PURE`] crates name nothing that has an effect.
pub fn pure(tree: &Tree) -> Vec<Violation> {
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
        pure(&Tree::with_files(&[("crates/model/src/a.rs", text)])).len()
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
        let elsewhere = Tree::with_files(&[("crates/runner/src/a.rs", "use std::fs;")]);
        assert_eq!(pure(&elsewhere), []);
    }
}
