//! Which crate may depend on which. The arrows are those of `ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::manifest::{Dependency, Kind, dependencies, package_name};
use crate::tree::Tree;

/// Crates of the product, and the crates that each may name.
const ARROWS: [(&str, &[&str]); 12] = [
    (
        "webstone",
        &[
            "webstone-ui",
            "webstone-runner",
            "webstone-report",
            "webstone-lab",
            "webstone-store",
            "webstone-server",
            "webstone-judge",
            "webstone-model",
            "webstone-workload",
            "webstone-measure",
        ],
    ),
    (
        "webstone-ui",
        &[
            "webstone-runner",
            "webstone-report",
            "webstone-lab",
            "webstone-store",
            "webstone-judge",
            "webstone-model",
            "webstone-workload",
            "webstone-measure",
        ],
    ),
    (
        "webstone-runner",
        &[
            "webstone-lab",
            "webstone-store",
            "webstone-engine",
            "webstone-server",
            "webstone-judge",
            "webstone-model",
            "webstone-workload",
            "webstone-measure",
        ],
    ),
    (
        "webstone-lab",
        &[
            "webstone-store",
            "webstone-engine",
            "webstone-server",
            "webstone-judge",
            "webstone-model",
            "webstone-workload",
            "webstone-measure",
        ],
    ),
    ("webstone-report", &["webstone-judge", "webstone-model", "webstone-workload", "webstone-measure"]),
    ("webstone-store", &["webstone-judge", "webstone-model", "webstone-workload", "webstone-measure"]),
    ("webstone-server", &["webstone-model", "webstone-workload", "webstone-measure"]),
    ("webstone-judge", &["webstone-model", "webstone-workload", "webstone-measure"]),
    ("webstone-model", &["webstone-workload", "webstone-measure"]),
    ("webstone-engine", &["webstone-workload", "webstone-measure"]),
    ("webstone-workload", &["webstone-measure"]),
    ("webstone-measure", &[]),
];

/// Normal and build dependencies follow [`ARROWS`].
pub fn follow(tree: &Tree) -> Vec<Violation> {
    let manifests = manifests(tree);
    let mut found = Vec::new();
    for (package, (path, dependencies)) in &manifests {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| name == package) else {
            if path.starts_with("crates/") {
                found.push(Violation {
                    path: path.clone(),
                    line: 0,
                    what: format!("crate {package} has no place in the order of crates"),
                    remedy: "give it one in ARCHITECTURE.md and in xtask/src/rules/arrows.rs".to_owned(),
                });
            }
            continue;
        };
        for dependency in dependencies.iter().filter(|d| d.kind != Kind::Dev) {
            let name = dependency.package.as_str();
            if manifests.contains_key(name) && !allowed.contains(&name) {
                found.push(Violation {
                    path: path.clone(),
                    line: dependency.line,
                    what: format!("{package} depends on {name}"),
                    remedy: format!(
                        "{package} may name {}; move what is shared down to a crate that both may name",
                        list(allowed)
                    ),
                });
            }
        }
    }
    found
}

/// No crate reaches itself, over dependencies of any kind.
pub fn no_cycle(tree: &Tree) -> Vec<Violation> {
    let manifests = manifests(tree);
    let mut found = Vec::new();
    for (package, (path, dependencies)) in &manifests {
        for dependency in dependencies {
            let mut seen = BTreeSet::new();
            let mut open = vec![dependency.package.as_str()];
            while let Some(name) = open.pop() {
                if let Some((_, next)) = manifests.get(name).filter(|_| seen.insert(name)) {
                    open.extend(next.iter().map(|d| d.package.as_str()));
                }
            }
            if seen.contains(package.as_str()) {
                found.push(Violation {
                    path: path.clone(),
                    line: dependency.line,
                    what: format!("{package} depends on {}, which leads back to it", dependency.package),
                    remedy: "move the test that needs both to the crate that stands higher".to_owned(),
                });
            }
        }
    }
    found
}

/// Every manifest has a table of lints; an allowed lint has a comment on its line.
pub fn lints(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        if package_name(text).is_some() && !text.contains("[lints]") && !text.contains("[lints.") {
            found.push(Violation {
                path: path.clone(),
                line: 0,
                what: "has no [lints]".to_owned(),
                remedy: "write `[lints]` and `workspace = true`".to_owned(),
            });
        }
        let mut in_lints = false;
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                in_lints = line.contains("lints");
            }
            if in_lints && line.contains("\"allow\"") && !line.contains('#') {
                found.push(Violation {
                    path: path.clone(),
                    line: number + 1,
                    what: "allows a lint without saying why".to_owned(),
                    remedy: "give the reason in a comment at the end of the line".to_owned(),
                });
            }
        }
    }
    found
}

/// Package → path of its manifest and its dependencies.
fn manifests(tree: &Tree) -> BTreeMap<String, (String, Vec<Dependency>)> {
    tree.texts
        .iter()
        .filter(|(path, _)| path.ends_with("Cargo.toml"))
        .filter_map(|(path, text)| {
            let name = package_name(text)?;
            Some((name.to_owned(), (path.clone(), dependencies(text))))
        })
        .collect()
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "no other crate".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(engine: &str, server: &str) -> Tree {
        let manifest = |name: &str, rest: &str| {
            format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
        };
        Tree::of(&[
            ("crates/model/Cargo.toml", &manifest("webstone-model", "")),
            ("crates/engine/Cargo.toml", &manifest("webstone-engine", engine)),
            ("crates/server/Cargo.toml", &manifest("webstone-server", server)),
        ])
    }

    #[test]
    fn an_arrow_against_the_order_is_found() {
        let good = tree("[dependencies]\nwebstone-model.workspace = true\nserde = \"1\"\n", "");
        assert_eq!(follow(&good), []);
        let tests_may = tree("[dev-dependencies]\nwebstone-server.workspace = true\n", "");
        assert_eq!(follow(&tests_may), []);
        let wrong = follow(&tree("[dependencies]\nwebstone-server.workspace = true\n", ""));
        assert_eq!((wrong.len(), wrong[0].line), (1, 6));
        assert_eq!(wrong[0].what, "webstone-engine depends on webstone-server");
        let unknown = Tree::of(&[("crates/x/Cargo.toml", "[package]\nname = \"webstone-x\"\n")]);
        assert_eq!(follow(&unknown).len(), 1);
    }

    #[test]
    fn a_cycle_through_tests_is_found() {
        let needs_server = "[dev-dependencies]\nwebstone-server = \"1\"\n";
        let needs_engine = "[dev-dependencies]\nwebstone-engine = \"1\"\n";
        assert_eq!(no_cycle(&tree(needs_server, "")), []);
        assert_eq!(no_cycle(&tree(needs_server, needs_engine)).len(), 2);
    }

    #[test]
    fn lints_are_kept_and_explained() {
        let manifest =
            |lints: &str| Tree::of(&[("crates/x/Cargo.toml", &format!("[package]\nname = \"x\"\n{lints}"))]);
        assert_eq!(lints(&manifest("[lints]\nworkspace = true\n")), []);
        assert_eq!(lints(&manifest("")).len(), 1);
        assert_eq!(lints(&manifest("[lints.clippy]\nexit = \"allow\"\n")).len(), 1);
        assert_eq!(lints(&manifest("[lints.clippy]\nexit = \"allow\" # it is the command\n")), []);
    }
}
