//! Stored runs by name. Whatever name a page sends, it stays below the directory of runs.

use std::path::{Path, PathBuf};

/// The directory of a run or a series, where the name is one and it exists. Links are not followed out of the directory of runs.
pub(crate) fn locate(runs_dir: &Path, name: &str) -> Option<PathBuf> {
    if !is_name(name) {
        return None;
    }
    let path = runs_dir.join(name);
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_directory.then_some(path)
}

/// Whether it can be a run's name: a single part of a path that is not hidden.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && c != '/' && c != '\\';
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        let runs = tempfile::tempdir().unwrap();
        let secret = tempfile::tempdir().unwrap();
        std::fs::create_dir(runs.path().join("a-run")).unwrap();
        std::fs::create_dir(runs.path().join(".live")).unwrap();
        std::fs::write(runs.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(secret.path(), runs.path().join("link")).unwrap();
        assert_eq!(locate(runs.path(), "a-run"), Some(runs.path().join("a-run")));
        let absolute = secret.path().to_str().unwrap();
        for name in
            ["", ".", "..", "../a-run", "a-run/..", ".live", "file", "link", "a-run\0", absolute, "nothing"]
        {
            assert_eq!(locate(runs.path(), name), None, "{name:?}");
        }
    }
}
