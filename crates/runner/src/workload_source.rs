//! Where a run's workload comes from: a built-in name, or a file in any of the formats that the model reads.

use std::io;
use std::path::{Path, PathBuf};

use webstone_model::spec::ClientSpec;
use webstone_workload::Workload;
use webstone_workload::{WorkloadError, builtin, builtins, read_with};

use webstone_store::plain_file::{self, Links};

/// Largest workload, and feed of one, in bytes: of a million pages a workload has some 50 MB.
const WORKLOAD_BYTES_MAX: u64 = 1 << 30;
const FEED_BYTES_MAX: u64 = 256 << 20;

/// What to do about a feed that is refused.
const ALLOW_FEEDS: &str = "its rows would be sent to the server: copy the file beside the workload, or allow such files with --allow-feeds \
                           (client.allow_feeds = true)";

/// Why there is no workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadSourceError {
    /// Neither a built-in name nor a file.
    #[error("there is no workload `{name}`: it is not a built-in one, and there is no such file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in name that looks most like it.
        similar: Option<&'static str>,
    },
    /// The file cannot be read.
    #[error("the workload {}: {}", path.display(), webstone_store::without_number(source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is not a workload.
    #[error(transparent)]
    Malformed(#[from] WorkloadError),
}

impl WorkloadSourceError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            WorkloadSourceError::Unknown { similar: Some(similar), .. } => {
                Some(format!("did you mean `{similar}`? `webstone workloads` lists the built-in ones"))
            }
            WorkloadSourceError::Unknown { similar: None, .. } => {
                let names: Vec<&str> = builtins().iter().map(|builtin| builtin.name).collect();
                Some(format!("give the path of a filelist, or one of: {}", names.join(", ")))
            }
            WorkloadSourceError::Unreadable { source, .. } => Some(match source.kind() {
                io::ErrorKind::InvalidInput => {
                    "save it to a file first, and give that file's path".to_owned()
                }
                _ => "give the path of a filelist or TOML workload that you may read".to_owned(),
            }),
            WorkloadSourceError::Malformed(error) => error.hint.clone(),
        }
    }
}

/// Which files the feeds of a workload may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feeds {
    /// Those below the workload's own directory, by relative paths and not hidden: their rows are sent to the target, and the workload may
    /// be a stranger's.
    Below,
    /// All.
    Anywhere,
}

impl Feeds {
    /// As a specification has it.
    pub fn of_client(client: &ClientSpec) -> Feeds {
        if client.allow_feeds { Feeds::Anywhere } else { Feeds::Below }
    }
}

/// The workload of a built-in name or a path. A built-in name wins; write `./standard` for a file of that name. Files
/// that feeds name are read from beside the workload's own.
pub fn load_workload(name: &str, feeds: Feeds) -> Result<Workload, WorkloadSourceError> {
    if let Some(workload) = builtin(name) {
        return Ok(workload);
    }
    let path = Path::new(name);
    let bytes = plain_file::read(path, Links::Followed, WORKLOAD_BYTES_MAX).map_err(|source| match source
        .kind()
    {
        io::ErrorKind::NotFound => {
            WorkloadSourceError::Unknown { name: name.to_owned(), similar: similar(name) }
        }
        _ => WorkloadSourceError::Unreadable { path: path.to_owned(), source },
    })?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut is_outside = false;
    let feed = |file: &str| {
        let contents = match feeds {
            Feeds::Below => plain_file::read_below(beside, Path::new(file), FEED_BYTES_MAX),
            Feeds::Anywhere => {
                plain_file::read(&beside.join(file), Links::Followed, FEED_BYTES_MAX).map(Some)
            }
        };
        let contents = contents.map_err(|error| webstone_store::without_number(&error))?;
        is_outside |= contents.is_none();
        contents.ok_or_else(|| {
            "it must lie below the workload's directory, by a relative path, and not be hidden".to_owned()
        })
    };
    read_with(bytes, name, feed).map_err(|error| match is_outside {
        true => WorkloadSourceError::Malformed(WorkloadError { hint: Some(ALLOW_FEEDS.to_owned()), ..error }),
        false => error.into(),
    })
}

/// The built-in name within two edits, or the only one that the word begins.
fn similar(name: &str) -> Option<&'static str> {
    let names = || builtins().iter().map(|builtin| builtin.name);
    let near =
        names().map(|known| (strsim::levenshtein(name, known), known)).min().filter(|(edits, _)| *edits <= 2);
    near.map(|(_, known)| known).or_else(|| {
        let mut begun = names().filter(|known| !name.is_empty() && known.starts_with(name));
        begun.next().filter(|_| begun.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn built_in_names_and_files_are_found() {
        assert_eq!(load_workload("standard", Feeds::Below).unwrap().name, "standard");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mine");
        fs::write(&path, "/a 3 #10\n/b 1 #20\n").unwrap();
        let workload = load_workload(path.to_str().unwrap(), Feeds::Below).unwrap();
        let rows: Vec<(u64, &str, Option<u64>)> = workload
            .pages
            .iter()
            .map(|page| (page.weight, &*page.files[0].url, page.files[0].size))
            .collect();
        assert_eq!(rows, [(3, "/a", Some(10)), (1, "/b", Some(20))]);
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let hint = |name: &str| load_workload(name, Feeds::Below).unwrap_err().hint().unwrap();
        assert!(hint("standart").starts_with("did you mean `standard`?"), "{}", hint("standart"));
        assert!(hint("stan").starts_with("did you mean `standard`?"));
        assert!(hint("nothing-of-the-kind").starts_with("give the path of a filelist, or one of: standard"));
        assert!(hint("").starts_with("give the path"));
    }

    #[test]
    fn unreadable_and_malformed_files_name_themselves() {
        let directory = tempfile::tempdir().unwrap();
        let error = load_workload(directory.path().to_str().unwrap(), Feeds::Below).unwrap_err().to_string();
        assert_eq!(error, format!("the workload {}: Is a directory", directory.path().display()));
        let path = directory.path().join("bad");
        fs::write(&path, "/a -3\n").unwrap();
        let error = load_workload(path.to_str().unwrap(), Feeds::Below).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:1:", path.display())), "{error}");
    }

    #[test]
    fn feeds_stay_below_the_workloads_directory_unless_others_are_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("lists")).unwrap();
        fs::write(at("secret"), "name\nann\n").unwrap();
        fs::copy(at("secret"), at("lists/own.csv")).unwrap();
        std::os::unix::fs::symlink("../secret", at("lists/link.csv")).unwrap();
        let path = at("lists/w.toml");
        let load = |file: &str, feeds| {
            let text = format!("[feeds.f]\nfile = {file:?}\n[[pages]]\nurl = \"/?{{{{f.name}}}}\"\n");
            fs::write(&path, text).unwrap();
            load_workload(path.to_str().unwrap(), feeds).map(|workload| workload.feeds["f"].rows.len())
        };
        assert_eq!(load("own.csv", Feeds::Below).unwrap(), 1);
        for outside in ["../secret", "link.csv", at("secret").to_str().unwrap()] {
            let error = load(outside, Feeds::Below).unwrap_err();
            let what = error.to_string();
            assert!(
                what.contains(":2:8: feed `f`")
                    && what.contains("it must lie below the workload's directory"),
                "{what}"
            );
            assert_eq!(error.hint().as_deref(), Some(ALLOW_FEEDS));
            assert_eq!(load(outside, Feeds::Anywhere).unwrap(), 1, "{outside}");
        }
        let missing = load("none.csv", Feeds::Below).unwrap_err();
        assert_ne!(missing.hint().as_deref(), Some(ALLOW_FEEDS));
    }
}
