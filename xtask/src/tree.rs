//! The files of the repository, as the house rules walk them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// Directories that hold nothing written by hand.
pub const NOT_OURS: [&str; 4] = ["target", ".git", "runs", "artifacts"];
/// Endings of files that people read as text.
const TEXT: [&str; 7] = ["md", "toml", "sh", "yml", "html", "css", "js"];

/// Everything that the rules look at, read once.
#[derive(Debug, Default)]
pub struct Tree {
    /// All Rust files.
    pub rust: Vec<Source>,
    /// Documents, manifests and scripts: path and text.
    pub texts: Vec<(String, String)>,
    /// Every file's path, whatever it holds.
    pub paths: Vec<String>,
}

impl Tree {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// The first directory or text file that cannot be read.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.walk(root, root)?;
        tree.rust.sort_by(|a, b| a.path.cmp(&b.path));
        tree.texts.sort();
        tree.paths.sort();
        Ok(tree)
    }

    /// A tree of given files, for tests of the rules.
    #[cfg(test)]
    pub fn with_files(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add((*path).to_owned(), (*text).to_owned());
        }
        tree
    }

    /// The text of a document, manifest or script.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|(p, _)| p == path).map(|(_, text)| text.as_str())
    }

    fn walk(&mut self, root: &Path, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !NOT_OURS.iter().any(|skipped| name == *skipped) {
                    self.walk(root, &path)?;
                }
                continue;
            }
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            // What a link leads to is read where it stands.
            if is_text(&relative) && !kind.is_symlink() {
                let text = fs::read_to_string(&path)
                    .map_err(|error| io::Error::new(error.kind(), format!("{relative}: {error}")))?;
                self.add(relative, text);
            } else {
                self.paths.push(relative);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, text: String) {
        self.paths.push(path.clone());
        match path.ends_with(".rs") {
            true => self.rust.push(Source::new(&path, text)),
            false => self.texts.push((path, text)),
        }
    }
}

/// The root of the repository: xtask lives one below it.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn is_text(path: &str) -> bool {
    if path.contains("/corpus/") {
        return false;
    }
    match path.rsplit('/').next().and_then(|name| name.rsplit_once('.')) {
        Some((_, ending)) => ending == "rs" || TEXT.contains(&ending),
        None => path.starts_with(".ci/"),
    }
}
