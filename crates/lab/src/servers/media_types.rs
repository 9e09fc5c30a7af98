//! Media types of the files that workloads have, in one table for all servers: the system's own tables differ, and how long
//! a header field is must not depend on which server was installed first.

/// Endings and their types.
pub(super) const MEDIA_TYPES: [(&str, &str); 12] = [
    ("html", "text/html"),
    ("htm", "text/html"),
    ("txt", "text/plain"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("gif", "image/gif"),
    ("jpg", "image/jpeg"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("pdf", "application/pdf"),
];

/// A line for each, as `line` writes it.
pub(super) fn lines(line: impl Fn(&str, &str) -> String) -> String {
    MEDIA_TYPES.iter().map(|(ending, media_type)| line(ending, media_type) + "\n").collect()
}
