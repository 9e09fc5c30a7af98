//! The request body as typed: text, or the content of a file.

use std::path::Path;

use std::io::ErrorKind;

use webstone_store::plain_file::{self, Links};

use crate::failure::{Failure, plain};

/// Maximum size of a body in a specification, in bytes. It is part of every record.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// Reads `TEXT` or `@FILE`.
pub(crate) fn read(typed: &str) -> Result<String, Failure> {
    let Some(name) = typed.strip_prefix('@') else { return Ok(typed.to_owned()) };
    let path = Path::new(name);
    let wrong = |rule: String| Failure::usage(format!("--body {typed}: {rule}"));
    let bytes =
        plain_file::read(path, Links::Followed, BODY_BYTES_MAX).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                wrong(plain(&error)).hint("use a smaller body; it becomes part of every record")
            }
            _ => wrong(format!("cannot read the file: {}", plain(&error)))
                .hint("after @ comes the path of a file; put text that begins with @ into a file"),
        })?;
    String::from_utf8(bytes).map_err(|error| {
        wrong(format!("byte {} of the file is not UTF-8", error.utf8_error().valid_up_to() + 1))
            .hint("bodies must be text, because the specification contains them; encode binary data, for example as base64")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_a_text_or_a_files_content() {
        assert_eq!(read("a=1&b=@2"), Ok("a=1&b=@2".into()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("body");
        std::fs::write(&path, "line\n").unwrap();
        assert_eq!(read(&format!("@{}", path.display())), Ok("line\n".into()));
        std::fs::write(&path, b"ab\xff").unwrap();
        let message = read(&format!("@{}", path.display())).unwrap_err().message;
        assert!(message.ends_with("byte 3 of the file is not UTF-8"), "{message}");
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
