//! Which files a workload needs below a server's root, and which of its requests are for no such file.

use std::collections::BTreeMap;
use std::fmt;

use webstone_workload::content::file_path;
use webstone_workload::is_absolute;
use webstone_workload::{FileRequest, Workload};

use super::{FilesetError, MANIFEST};

/// Longest name that the file systems of Linux take, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A file of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedFile {
    /// Path below the root, with `/`.
    pub(super) path: String,
    /// A URL that it is requested by.
    pub(super) url: String,
    /// Its size in bytes.
    pub(super) size: u64,
}

/// A request that no file of the set answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its URL.
    pub url: String,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why no file of the set answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// It names a host of its own.
    OtherHost,
    /// It has a query: a handler computes the answer.
    Query,
    /// Its URL holds template values.
    Template,
    /// Its method does not fetch a file.
    Method,
    /// It expects another status than success.
    Status,
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOutReason::OtherHost => "it names a host of its own",
            LeftOutReason::Query => "it has a query, so a handler answers it",
            LeftOutReason::Template => "its URL holds template values",
            LeftOutReason::Method => "its method does not fetch a file",
            LeftOutReason::Status => "it expects another status than success",
        })
    }
}

/// Where a size was stated.
struct Stated {
    page: usize,
    url: String,
    size: Option<u64>,
}

/// The files, by path, and the requests that are not for files (each URL once).
pub(super) fn plan(
    workload: &Workload,
    default_size: Option<u64>,
) -> Result<(Vec<PlannedFile>, Vec<LeftOut>), FilesetError> {
    let mut stated: BTreeMap<String, Stated> = BTreeMap::new();
    let mut left_out = BTreeMap::new();
    for (page, contents) in workload.pages.iter().enumerate() {
        for file in &contents.files {
            if let Some(reason) = reason_to_leave_out(file) {
                left_out.entry(&*file.url).or_insert(reason);
                continue;
            }
            let refuse = |what: String, hint: &str| FilesetError::Unusable {
                page,
                url: file.url.to_string(),
                what,
                hint: hint.to_owned(),
            };
            let path = safe_path(&file.url).map_err(|what| {
                refuse(what.to_owned(), "change the URL in the workload: a fileset has only plain names")
            })?;
            match stated.get_mut(&path) {
                None => {
                    stated.insert(path, Stated { page, url: file.url.to_string(), size: file.size });
                }
                Some(first) => match (first.size, file.size) {
                    (Some(a), Some(b)) if a != b => {
                        let (page, url) = (first.page, &first.url);
                        let what = format!("{b} bytes here, but {a} bytes as `{url}` on page {page}");
                        return Err(refuse(what, "give the file one size in the workload"));
                    }
                    (None, size) => first.size = size,
                    _ => {}
                },
            }
        }
    }
    check_directories(&stated)?;
    let mut files = Vec::with_capacity(stated.len());
    for (path, Stated { page, url, size }) in stated {
        let Some(size) = size.or(default_size) else {
            return Err(FilesetError::NoSize { page, url });
        };
        files.push(PlannedFile { path, url, size });
    }
    let left_out: Vec<LeftOut> =
        left_out.into_iter().map(|(url, reason)| LeftOut { url: url.to_owned(), reason }).collect();
    if files.is_empty() {
        return Err(FilesetError::Empty { name: workload.name.clone(), left_out: left_out.len() });
    }
    Ok((files, left_out))
}

fn reason_to_leave_out(file: &FileRequest) -> Option<LeftOutReason> {
    let fetches = |method: &String| method == "GET" || method == "HEAD";
    match () {
        () if is_absolute(&file.url) => Some(LeftOutReason::OtherHost),
        () if file.url.contains("{{") => Some(LeftOutReason::Template),
        () if file.url.contains('?') => Some(LeftOutReason::Query),
        () if !file.detail.method.as_ref().is_none_or(fetches) => Some(LeftOutReason::Method),
        () if file.detail.status.is_some_and(|status| status != 200) => Some(LeftOutReason::Status),
        () => None,
    }
}

/// The path of a URL's file below the root, if nothing in it leads elsewhere.
fn safe_path(url: &str) -> Result<String, &'static str> {
    let path = file_path(url);
    let path = path.strip_prefix('/').ok_or("the path does not begin with a slash")?;
    for name in path.split('/') {
        match name {
            ".." | "." => {
                return Err("`.` and `..` are not file names");
            }
            "" => return Err("two slashes in a row: a name is empty"),
            name if name.len() > NAME_BYTES_MAX => return Err("a name is longer than 255 bytes"),
            name if name.chars().any(char::is_control) => return Err("a name contains a control character"),
            _ => {}
        }
    }
    if path == MANIFEST {
        return Err("the fileset's manifest has this name");
    }
    Ok(path.to_owned())
}

/// No path may be both a file and a directory of another.
fn check_directories(stated: &BTreeMap<String, Stated>) -> Result<(), FilesetError> {
    for (path, file) in stated {
        for (at, _) in path.match_indices('/') {
            if let Some(parent) = stated.get(&path[..at]) {
                return Err(FilesetError::Unusable {
                    page: file.page,
                    url: file.url.clone(),
                    what: format!(
                        "`{}` on page {} is a file, but is also needed as a directory",
                        parent.url, parent.page
                    ),
                    hint: "change one of the two URLs in the workload".to_owned(),
                });
            }
        }
    }
    Ok(())
}
