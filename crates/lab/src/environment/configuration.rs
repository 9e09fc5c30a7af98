//! The server's configuration files, as the user names them: read before the run, without their secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use webstone_store::plain_file::{self, Links};
use webstone_store::redaction;

/// Largest file, and most files, of a configuration; more is taken for a typing error.
const FILE_BYTES_MAX: u64 = 1 << 20;
const FILES_MAX: usize = 1_000;
const TOTAL_BYTES_MAX: u64 = 8 << 20;

/// Why a configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The operating system refused.
    #[error("--server-config {path}: cannot read it: {}", webstone_store::without_number(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// More than a configuration has.
    #[error("--server-config {path}: {what}")]
    TooMuch {
        /// The file or directory.
        path: PathBuf,
        /// What is too much.
        what: String,
    },
}

impl ConfigurationError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ConfigurationError::Io { .. } => {
                "name a file or a directory that you may read, or remove --server-config"
            }
            ConfigurationError::TooMuch { .. } => "name the server's configuration files one by one",
        }
    }
}

/// Reads files, and directories with all that is in them. Every file comes with its path, the check sum of what is kept,
/// the number of secrets redacted, and its text, if it is text.
pub fn read(paths: &[String]) -> Result<Vec<Value>, ConfigurationError> {
    let mut files = Vec::new();
    for path in paths {
        collect(Path::new(path), &mut files, 0)?;
    }
    files.dedup();
    let mut total = 0;
    let mut kept = Vec::with_capacity(files.len());
    for path in files {
        let too_much = |what: String| {
            let rule =
                format!("a configuration has at most {FILE_BYTES_MAX} per file and {TOTAL_BYTES_MAX} in all");
            ConfigurationError::TooMuch { path: path.clone(), what: format!("{what}; {rule}") }
        };
        let bytes = match plain_file::read(&path, Links::Followed, FILE_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(too_much(error.to_string()));
            }
            read => read.map_err(|source| ConfigurationError::Io { path: path.clone(), source })?,
        };
        total += bytes.len() as u64;
        if total > TOTAL_BYTES_MAX {
            return Err(too_much(format!("together with the files before it, it has {total} bytes")));
        }
        kept.push(self::kept(&path.display().to_string(), bytes));
    }
    Ok(kept)
}

/// One file as a record keeps it.
pub(crate) fn kept(path: &str, bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => {
            let redacted = redaction::text(&text);
            json!({
                "path": path,
                "sha256": format!("{:x}", Sha256::digest(&redacted.text)),
                "secrets_redacted": redacted.secrets,
                "text": redacted.text,
            })
        }
        // A binary file may be a key, and is of no use to a reader.
        _ => json!({ "path": path, "left_out": "it is not text in UTF-8" }),
    }
}

/// Directories deeper than this are not a configuration, or a cycle of links.
const DEPTH_MAX: usize = 8;

fn collect(path: &Path, files: &mut Vec<PathBuf>, depth: usize) -> Result<(), ConfigurationError> {
    let io = |source| ConfigurationError::Io { path: path.to_owned(), source };
    // Links are followed: `sites-enabled` is made of them.
    let found = fs::metadata(path).map_err(io)?;
    if found.is_dir() && depth < DEPTH_MAX {
        let entries = fs::read_dir(path).map_err(io)?;
        let mut names: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        names.sort();
        return names.iter().try_for_each(|name| collect(name, files, depth + 1));
    }
    if !found.is_file() {
        let source = io::Error::other("it is neither a file nor a directory, or is nested too deep");
        return if depth == 0 { Err(io(source)) } else { Ok(()) };
    }
    if files.len() >= FILES_MAX {
        let what = format!("more than {FILES_MAX} files");
        return Err(ConfigurationError::TooMuch { path: path.to_owned(), what });
    }
    files.push(path.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_are_kept_without_their_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("nginx.conf"), "worker_processes 4;\n").unwrap();
        fs::create_dir(at("conf.d")).unwrap();
        fs::write(at("conf.d/b.conf"), "proxy_set_header Authorization \"Basic c2VjcmV0\";\n").unwrap();
        fs::write(at("conf.d/a.bin"), b"\xff\xfe\x00").unwrap();
        let paths = [at("nginx.conf"), at("conf.d")].map(|path| path.display().to_string());
        let files = read(&paths).unwrap();
        assert_eq!(files.len(), 3);
        assert_eq!(files[0]["text"], "worker_processes 4;\n");
        assert_eq!(files[0]["secrets_redacted"], 0);
        assert_eq!(files[0]["sha256"], format!("{:x}", Sha256::digest("worker_processes 4;\n")));
        assert_eq!(files[1]["left_out"], "it is not text in UTF-8");
        assert_eq!(files[2]["text"], "proxy_set_header Authorization \"[redacted]\";\n");
        assert_eq!(files[2]["secrets_redacted"], 1);
    }

    #[test]
    fn an_unusable_configuration_is_reported_with_a_remedy() {
        let error = read(&["/nonexistent/x".to_owned()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--server-config /nonexistent/x: cannot read it: No such file or directory"
        );
        assert!(error.hint().starts_with("name a file"));
        assert!(
            read(&["/dev/null".to_owned()])
                .unwrap_err()
                .to_string()
                .contains("neither a file nor a directory")
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("big");
        fs::File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        let error = read(&[path.display().to_string()]).unwrap_err();
        assert!(matches!(error, ConfigurationError::TooMuch { .. }), "{error}");
    }
}
