//! Attributes that switch a check off must say why.

use super::{Violation, at};
use crate::source::{Attribute, Source};
use crate::tree::Tree;

/// `#[allow]` and `#[expect]`, also inside `cfg_attr`, carry `reason = "…"` or a comment behind them on their line.
pub fn lint_reasons(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &tree.rust {
        for attribute in source.attributes() {
            let switches_off = ["allow(", "expect("].iter().any(|name| {
                attribute.code.starts_with(name)
                    || (attribute.code.starts_with("cfg_attr")
                        && attribute.code.contains(&format!(" {name}")))
            });
            let explained = has_text(attribute.text, "reason") || has_comment(source, &attribute);
            if switches_off && !explained {
                let remedy = "add `reason = \"…\"`, or mend what the lint found";
                found.push(at(
                    source,
                    attribute.offset,
                    format!("#[{}] without a reason", attribute.text),
                    remedy,
                ));
            }
        }
    }
    found
}

/// `#[ignore]` carries its reason: `#[ignore = "…"]`.
pub fn ignore_reasons(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &tree.rust {
        for attribute in source.attributes() {
            if attribute.code.trim_start().starts_with("ignore") && !has_text(attribute.text, "ignore") {
                let remedy = "write `#[ignore = \"why\"]`, or let the test find out and print `skipped: why`";
                found.push(at(source, attribute.offset, "#[ignore] without a reason".to_owned(), remedy));
            }
        }
    }
    found
}

/// Whether a comment follows on the line where the attribute ends.
fn has_comment(source: &Source, attribute: &Attribute<'_>) -> bool {
    let end = source.text[attribute.offset..].find(attribute.text).map_or(0, |at| attribute.offset + at);
    let rest = source.text[end + attribute.text.len()..].lines().next().unwrap_or_default();
    rest.strip_prefix(']')
        .and_then(|rest| rest.trim().strip_prefix("//"))
        .is_some_and(|why| why.trim().len() > 5)
}

/// Whether `key = "something"` stands in an attribute.
fn has_text(attribute: &str, key: &str) -> bool {
    attribute.match_indices(key).any(|(at, _)| {
        let value = attribute[at + key.len()..].trim_start().strip_prefix('=').map(str::trim_start);
        value
            .and_then(|v| v.strip_prefix('"'))
            .is_some_and(|v| v.trim_start().len() > 1 && !v.starts_with('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lint_without_a_reason_is_found() {
        let one = |text| lint_reasons(&Tree::of(&[("crates/x/src/a.rs", text)])).len();
        assert_eq!(one("#[allow(dead_code)] fn f() {}"), 1);
        assert_eq!(one("#![expect(clippy::exit)]"), 1);
        assert_eq!(one("#[cfg_attr(test, allow(dead_code))] fn f() {}"), 1);
        assert_eq!(one("#[allow(dead_code, reason = \"\")] fn f() {}"), 1);
        assert_eq!(one("#[allow(\n    dead_code,\n    reason = \"kept for the layout\"\n)]\nfn f() {}"), 0);
        assert_eq!(one("#![allow(clippy::unwrap_used)] // a test may panic\nfn f() {}"), 0);
        assert_eq!(one("#[allow(dead_code)] //\nfn f() {}"), 1);
        assert_eq!(one("#[allow(dead_code)]\n// not behind it\nfn f() {}"), 1);
        assert_eq!(one("#[derive(Clone)] struct A; // #[allow(x)]"), 0);
    }

    #[test]
    fn an_ignored_test_without_a_reason_is_found() {
        let one = |text| ignore_reasons(&Tree::of(&[("crates/x/tests/a.rs", text)])).len();
        assert_eq!(one("#[test]\n#[ignore]\nfn f() {}"), 1);
        assert_eq!(one("#[test]\n#[ignore = \"a benchmark: run with --ignored\"]\nfn f() {}"), 0);
    }
}
