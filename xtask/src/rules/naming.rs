//! Names and first lines: what a file says about itself before one reads it.

use super::{Violation, at, whole};
use crate::source::is_word;
use crate::tree::Tree;

/// Names that say nothing about what is inside.
const DRAWERS: [&str; 6] = ["util", "utils", "common", "misc", "helper", "helpers"];
/// Fewest characters of a module comment that can say what the file owns and why.
const COMMENT_MIN: usize = 20;

/// Every file opens with `//!` and says something.
pub fn module_comment(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &tree.rust {
        let comment: String = source
            .text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ");
        let what = match comment.len() {
            0 => "does not open with a module comment",
            length if length < COMMENT_MIN => "has a module comment that says next to nothing",
            _ => continue,
        };
        let remedy = "first line: `//!` and what the file owns, what it leaves out, why it is the way it is";
        found.push(at(source, 0, what.to_owned(), remedy));
    }
    found
}

/// No file, folder, module, type or function is named after nothing in particular.
pub fn no_drawers(tree: &Tree) -> Vec<Violation> {
    let remedy = "name it after what it holds";
    let mut found = Vec::new();
    for path in tree.paths.iter().filter(|path| path.ends_with(".rs")) {
        let mut parts = path.split('/').map(|part| part.trim_end_matches(".rs"));
        if let Some(part) = parts.find(|part| DRAWERS.contains(part)) {
            let what = format!("a file named {part}");
            found.push(whole(path, what, remedy));
        }
    }
    for source in &tree.rust {
        for keyword in ["mod", "fn", "struct", "trait", "enum"] {
            for offset in source.find(keyword) {
                let name = name_after(&source.code[offset + keyword.len()..]);
                if DRAWERS.contains(&name.to_ascii_lowercase().as_str()) {
                    found.push(at(source, offset, format!("{keyword} {name}"), remedy));
                }
            }
        }
    }
    found
}

/// Functions are named after what they return, without `get_`, and what is made of something says of what: `of_record`.
pub fn telling_functions(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &tree.rust {
        for offset in source.find("get_") {
            if source.code[..offset].trim_end().ends_with("fn") {
                let name = name_after(&source.code[offset..]);
                let remedy = format!("call it {}", name.trim_start_matches("get_"));
                found.push(at(source, offset, format!("fn {name}"), &remedy));
            }
        }
        let nameless = source.find("fn").filter(|offset| name_after(&source.code[offset + 2..]) == "of");
        found.extend(nameless.map(|offset| at(source, offset, "fn of".to_owned(), "say of what: of_record")));
    }
    found
}

fn name_after(code: &str) -> &str {
    let code = code.trim_start();
    &code[..code.find(|c| !is_word(c)).unwrap_or(code.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_empty_module_comment_is_found() {
        let one = |text| module_comment(&Tree::with_files(&[("crates/x/src/a.rs", text)])).len();
        assert_eq!(one("//! Pages and their weights, as read from a list.\nfn f() {}"), 0);
        assert_eq!(one("//! Pages and their\n//! weights, as read.\n"), 0);
        assert_eq!(one("// Pages and their weights, as read from a list.\nfn f() {}"), 1);
        assert_eq!(one("//! Pages.\nfn f() {}"), 1);
        assert_eq!(one("\n//! Pages and their weights, as read from a list."), 1);
        assert_eq!(one(""), 1);
    }

    #[test]
    fn drawers_are_found() {
        let one = |path, text| no_drawers(&Tree::with_files(&[(path, text)])).len();
        assert_eq!(one("crates/x/src/util.rs", ""), 1);
        assert_eq!(one("crates/x/tests/common/mod.rs", ""), 1);
        assert_eq!(one("crates/x/src/a.rs", "mod helpers;"), 1);
        assert_eq!(one("crates/x/src/a.rs", "struct Utils;"), 1);
        assert_eq!(one("crates/x/src/commonplace.rs", "mod utility { fn commons() {} }"), 0);
        assert_eq!(one("crates/x/src/a.rs", "// mod util"), 0);
    }

    #[test]
    fn getters_and_functions_of_nothing_are_found() {
        let one = |text| telling_functions(&Tree::with_files(&[("crates/x/src/a.rs", text)])).len();
        assert_eq!(one("pub fn get_rate(&self) {}"), 1);
        assert_eq!(one("fn of(it: u8) {} fn of<'a>() {} let of = |x| x; fn of_it() {} type F = fn(u8);"), 2);
        assert_eq!(one("fn get(&self) {} fn forget_it() {} x.get_mut(3); fn target_of() {}"), 0);
    }
}
