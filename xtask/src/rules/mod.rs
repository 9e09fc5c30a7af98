//! The house rules. Each is a function from the repository's files to violations; each says where and what to do.
//!
//! They run as tests of this crate and as `cargo xtask check`. A rule that finds nothing is worse than no rule, so each one
//! also has tests on small invented files that must break it. What clippy or cargo-deny can check is left to them.

mod crates;
mod decisions;
mod definitions;
mod doors;
mod effects;
mod english;
mod fuzzing;
mod links;
mod naming;
mod size;
mod wording;

use std::fmt;

use crate::source::Source;
use crate::tree::Tree;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// File, from the repository's root.
    pub path: String,
    /// Line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// A rule with its name.
pub struct Rule {
    /// What it demands.
    pub name: &'static str,
    /// The places that break it.
    pub check: fn(&Tree) -> Vec<Violation>,
}

/// Every rule, in the order in which they are printed.
pub const RULES: [Rule; 16] = [
    Rule { name: "dependencies make no cycle, tests included", check: crates::no_cycle },
    Rule { name: "every crate keeps the lints, and says why it allows one", check: crates::lints },
    Rule { name: "what a crate compiles in is in its package", check: crates::packaged_whole },
    Rule {
        name: "measure, workload, model and judge have no I/O, clock, thread or environment",
        check: effects::pure,
    },
    Rule { name: "types are read by measure::strict only", check: doors::strict_readers },
    Rule { name: "files of records are opened by store::plain_file only", check: doors::one_door_to_records },
    Rule { name: "every file opens with a module comment", check: naming::module_comment },
    Rule { name: "no file or module is a drawer for anything", check: naming::no_drawers },
    Rule { name: "no function is called get_ or only of", check: naming::telling_functions },
    Rule { name: "no file is longer than 600 lines, nor the overview than a page", check: size::limit },
    Rule { name: "nothing is left for later", check: wording::nothing_left_open },
    Rule { name: "help, messages and documents are plain English", check: english::plain },
    Rule { name: "texts are about the program", check: wording::about_the_program },
    Rule { name: "documents link to files that exist, and name every figure", check: documents },
    Rule { name: "every decision is listed by its title, in order", check: decisions::listed_in_order },
    Rule { name: "every fuzz target has its wrapper and its corpus", check: fuzzing::complete },
];

fn documents(tree: &Tree) -> Vec<Violation> {
    let mut found = links::resolve(tree);
    found.extend(definitions::measurement_names_every_figure(tree));
    found
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n  hint: {}", self.path, self.line.max(1), self.what, self.remedy)
    }
}

impl Violation {
    fn at_line(self, line: usize) -> Violation {
        Violation { line, ..self }
    }
}

fn at(source: &Source, offset: usize, what: String, remedy: &str) -> Violation {
    whole(&source.path, what, remedy).at_line(source.line(offset))
}

/// A violation by a whole file.
fn whole(path: &str, what: String, remedy: &str) -> Violation {
    Violation { path: path.to_owned(), line: 0, what, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_every_rule() {
        let tree = Tree::read(&crate::tree::root()).unwrap();
        assert!(tree.rust.len() > 30 && tree.texts.len() > 10, "the walk did not find the repository");
        let mut broken = String::new();
        for rule in RULES {
            for violation in (rule.check)(&tree) {
                broken.push_str(&format!("{violation}\n  rule: {}\n", rule.name));
            }
        }
        assert!(broken.is_empty(), "\n{broken}");
    }

    #[test]
    fn a_violation_says_where_and_what_to_do() {
        let violation =
            Violation { path: "a/b.rs".into(), line: 7, what: "is wrong".into(), remedy: "mend it".into() };
        assert_eq!(violation.to_string(), "a/b.rs:7: is wrong\n  hint: mend it");
    }
}
