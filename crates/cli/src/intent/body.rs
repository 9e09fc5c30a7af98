//! The request body as typed: text, or the content of a file.

use std::path::Path;

use std::io::ErrorKind;

use webstone_store::plain_file::{self, Links};
use webstone_store::without_number;

use crate::failure::Failure;

/// Maximum size of a body in a specification, in bytes. It is part of every record.
pub(crate) const BODY_BYTES_MAX: u64 = 16 << 20;

/// Reads `TEXT` or `@FILE`. A file that is not text comes back as its bytes.
pub(crate) fn read(typed: &str) -> Result<Result<String, Vec<u8>>, Failure> {
    let Some(name) = typed.strip_prefix('@') else { return Ok(Ok(typed.to_owned())) };
    let path = Path::new(name);
    let wrong = |rule: String| Failure::usage(format!("--body {typed}: {rule}"));
    let bytes =
        plain_file::read(path, Links::Followed, BODY_BYTES_MAX).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                wrong(without_number(&error)).hint("use a smaller body; it becomes part of every record")
            }
            _ => wrong(format!("cannot read the file: {}", without_number(&error)))
                .hint("after @ comes the path of a file; put text that begins with @ into a file"),
        })?;
    Ok(String::from_utf8(bytes).map_err(|error| error.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_a_text_or_a_files_content() {
        assert_eq!(read("a=1&b=@2"), Ok(Ok("a=1&b=@2".into())));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("body");
        std::fs::write(&path, "line\n").unwrap();
        assert_eq!(read(&format!("@{}", path.display())), Ok(Ok("line\n".into())));
        std::fs::write(&path, b"ab\xff").unwrap();
        assert_eq!(read(&format!("@{}", path.display())), Ok(Err(b"ab\xff".to_vec())));
    }

    #[test]
    fn a_missing_file_is_named() {
        assert_eq!(
            read("@/nonexistent/x").unwrap_err().to_string(),
            "error: --body @/nonexistent/x: cannot read the file: No such file or directory\n\
             hint: after @ comes the path of a file; put text that begins with @ into a file"
        );
    }
}
