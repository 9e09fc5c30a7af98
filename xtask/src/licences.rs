//! What `deny.toml` demands of dependencies, as far as it can be told without a network and without `cargo-deny`:
//! licences, banned crates and sources. Advisories need their database, so they are checked only where `cargo-deny` is
//! installed.

use std::collections::BTreeSet;

/// The demands of `deny.toml`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Demands {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
}

impl Demands {
    /// Reads the lists that this file checks.
    pub fn read(deny_toml: &str) -> Demands {
        let mut demands = Demands::default();
        let (mut section, mut list) = (String::new(), "");
        for line in deny_toml.lines() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.starts_with('#') {
                continue;
            }
            if line.starts_with('[') && line.ends_with(']') && !line.contains('"') {
                section = line.trim_matches(['[', ']']).to_owned();
                list = "";
                continue;
            }
            if let Some((key, _)) =
                line.split_once('=').filter(|(key, _)| !key.contains('"') && !key.contains('{'))
            {
                list = key.trim();
            }
            match (section.as_str(), list) {
                ("licenses", "allow") => demands.licences.extend(strings(line)),
                ("bans", "deny") => demands.banned.extend(banned(line)),
                _ => {}
            }
        }
        demands
    }

    /// Packages of `Cargo.lock` that are banned or come from elsewhere than crates.io or the repository.
    pub fn sources(&self, lock: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut name = "";
        for line in lock.lines() {
            if let Some(value) = line.strip_prefix("name = ") {
                name = value.trim_matches('"');
                if self.banned.contains(name) {
                    found.push(format!("{name} is banned by deny.toml"));
                }
            } else if let Some(source) = line.strip_prefix("source = ")
                && source.trim_matches('"') != "registry+https://github.com/rust-lang/crates.io-index"
            {
                found.push(format!("{name} comes from {source}, not from crates.io"));
            }
        }
        found
    }

    /// Packages whose licence is not allowed. `list` has `package version|licence` a line, as `cargo tree` prints it.
    pub fn licences(&self, list: &str) -> Vec<String> {
        let mut found = BTreeSet::new();
        for line in list.lines() {
            let Some((package, licence)) = line.rsplit_once('|') else { continue };
            if !allows(licence, &|one| self.licences.contains(one)) {
                found.insert(format!(
                    "{} has the licence `{licence}`, which deny.toml does not allow",
                    package.trim()
                ));
            }
        }
        found.into_iter().collect()
    }
}

fn strings(line: &str) -> impl Iterator<Item = String> {
    line.split('"').skip(1).step_by(2).map(str::to_owned)
}

/// Crates of an entry such as `{ crate = "openssl", reason = "…" }`.
fn banned(line: &str) -> impl Iterator<Item = String> {
    line.match_indices("crate =").filter_map(|(at, _)| strings(&line[at..]).next())
}

/// Whether an SPDX expression is satisfied by the allowed licences. `/` is the old way to write OR; AND binds stronger.
fn allows(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let result = any(&words, &mut at, allowed);
    result && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut result = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        result |= all(words, at, allowed);
    }
    result
}

fn all(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut result = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        result &= one(words, at, allowed);
    }
    result
}

fn one(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let result = any(words, at, allowed);
        *at += 1;
        return result;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return allowed(&format!("{word} WITH {exception}"));
    }
    allowed(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = r#"
# allow = ["GPL-3.0"]
[licenses]
allow = [
    "MIT", # the usual
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
]
confidence-threshold = 0.9

[bans]
multiple-versions = "warn"
deny = [
    { crate = "openssl-sys", reason = "one TLS" },
    { crate = "native-tls", reason = "one TLS" },
]

[sources]
allow-registry = ["https://github.com/rust-lang/crates.io-index"]
"#;

    #[test]
    fn demands_are_read() {
        let demands = Demands::read(DENY);
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(demands.licences, set(&["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "MIT"]));
        assert_eq!(demands.banned, set(&["native-tls", "openssl-sys"]));
    }

    #[test]
    fn the_repository_own_demands_are_not_empty() {
        let text = std::fs::read_to_string(crate::tree::root().join("deny.toml")).unwrap();
        let demands = Demands::read(&text);
        assert!(demands.licences.contains("MIT") && demands.banned.contains("openssl-sys"), "{demands:?}");
        assert!(demands.licences.len() > 3 && demands.banned.len() > 3, "{demands:?}");
    }

    #[test]
    fn licence_expressions_are_evaluated() {
        let demands = Demands::read(DENY);
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 OR MIT AND Apache-2.0",
        ] {
            assert_eq!(demands.licences(&format!("a v1|{good}")), Vec::<String>::new(), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "", "(MIT", "MIT MIT", "MIT WITH LLVM-exception"] {
            assert_eq!(demands.licences(&format!("a v1|{bad}")).len(), 1, "{bad}");
        }
    }

    #[test]
    fn banned_crates_and_other_sources_are_found() {
        let demands = Demands::read(DENY);
        let lock = "[[package]]\nname = \"openssl-sys\"\n\
            source = \"registry+https://github.com/rust-lang/crates.io-index\"\n\
            [[package]]\nname = \"a\"\nsource = \"git+https://example.org/a\"\n[[package]]\nname = \"ours\"\n";
        let found = demands.sources(lock);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
