//! Forms as curl's -F has them: the body of multipart/form-data (RFC 7578), made once.

use std::hash::{DefaultHasher, Hasher};
use std::io::ErrorKind;
use std::path::Path;

use webstone_store::plain_file::{self, Links};
use webstone_store::without_number;

use super::body::BODY_BYTES_MAX;
use crate::failure::Failure;

/// Types of files by the ends of their names, as curl has them.
const TYPES: [(&str, &str); 10] = [
    ("gif", "image/gif"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("pdf", "application/pdf"),
    ("xml", "application/xml"),
];

/// What is sent of a form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// A part as typed, with its content.
struct Part {
    /// `Content-Disposition`, and `Content-Type` if it has one.
    head: String,
    content: Vec<u8>,
}

/// Reads fields, and the files that they name.
pub(crate) fn read(fields: &[String]) -> Result<Form, Failure> {
    let parts = fields.iter().map(|field| part(field)).collect::<Result<Vec<Part>, _>>()?;
    let total: usize = parts.iter().map(|part| part.content.len()).sum();
    if total as u64 > BODY_BYTES_MAX {
        return Err(Failure::usage(format!(
            "--form: the parts have {total} bytes, more than {BODY_BYTES_MAX}"
        ))
        .hint("use smaller files; the body is part of the specification"));
    }
    // The same form has the same bytes in every run.
    let mut sum = DefaultHasher::new();
    for part in &parts {
        sum.write(part.head.as_bytes());
        sum.write(&part.content);
    }
    let boundary = loop {
        let boundary = format!("webstone-{:016x}", sum.finish());
        if !parts.iter().any(|part| place(&part.content, boundary.as_bytes()).is_some()) {
            break boundary;
        }
        sum.write(b"again");
    };
    let mut body = Vec::with_capacity(total + parts.len() * 200);
    for part in &parts {
        body.extend_from_slice(format!("--{boundary}\r\n{}\r\n\r\n", part.head).as_bytes());
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Form { content_type: format!("multipart/form-data; boundary={boundary}"), body })
}

/// Where a text begins in the content of a part.
fn place(content: &[u8], text: &[u8]) -> Option<usize> {
    content.windows(text.len()).position(|window| window == text)
}

fn part(field: &str) -> Result<Part, Failure> {
    const FORM: &str = "write name=text, name=@file, name=<file, and ;type=image/png after it if need be";
    let wrong = |rule: String| Failure::usage(format!("--form {field}: {rule}"));
    let Some((name, value)) = field.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(wrong("it is not a name with a value".to_owned()).hint(FORM));
    };
    let (value, options) = options(value);
    let (mut kind, mut filename) = (None, None);
    for option in options {
        match option.split_once('=') {
            Some(("type", given)) if given.bytes().all(|byte| byte >= b' ') => kind = Some(given.to_owned()),
            Some(("filename", given)) => filename = Some(given.to_owned()),
            _ => return Err(wrong(format!("`;{option}` is not an option of a field")).hint(FORM)),
        }
    }
    let file = |name: &str| {
        plain_file::read(Path::new(name), Links::Followed, BODY_BYTES_MAX).map_err(|error| {
            match error.kind() {
                ErrorKind::FileTooLarge => wrong(without_number(&error))
                    .hint("use a smaller file; it becomes part of the specification"),
                _ => wrong(format!("cannot read the file: {}", without_number(&error))).hint(FORM),
            }
        })
    };
    let content = match value.as_bytes().first() {
        Some(b'@') => {
            let path = &value[1..];
            let base = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
            filename = filename.or(base);
            kind = kind.or_else(|| Some(type_of(path).to_owned()));
            file(path)?
        }
        Some(b'<') => file(&value[1..])?,
        _ => value.as_bytes().to_vec(),
    };
    let mut head = format!("Content-Disposition: form-data; name=\"{}\"", escaped(name));
    if let Some(filename) = filename {
        head += &format!("; filename=\"{}\"", escaped(&filename));
    }
    if let Some(kind) = kind {
        head += &format!("\r\nContent-Type: {kind}");
    }
    Ok(Part { head, content })
}

/// A value, and what follows it as `;type=…` or `;filename=…`. Other semicolons belong to the value.
fn options(value: &str) -> (&str, Vec<&str>) {
    let mut end = value.len();
    let mut options = Vec::new();
    while let Some(at) = value[..end].rfind(';') {
        let option = value[at + 1..end].trim_start();
        if !option.starts_with("type=") && !option.starts_with("filename=") {
            break;
        }
        options.insert(0, option);
        end = at;
    }
    (&value[..end], options)
}

fn type_of(path: &str) -> &'static str {
    let ending = Path::new(path).extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    TYPES
        .iter()
        .find(|(known, _)| ending.as_deref() == Some(known))
        .map_or("application/octet-stream", |(_, kind)| kind)
}

/// As browsers and curl write names (the WHATWG's multipart/form-data).
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(fields: &[&str]) -> Result<Form, String> {
        read(&fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>())
            .map_err(|error| error.message)
    }

    #[test]
    fn parts_are_written_as_curl_writes_them() {
        let dir = tempfile::tempdir().unwrap();
        let photo = dir.path().join("a \"b\".JPG");
        std::fs::write(&photo, b"\xff\xd8{{x}}\r\n").unwrap();
        let photo = photo.display();
        let fields = [
            "name=ann;x=1",
            &format!("p=@{photo}"),
            &format!("q=@{photo};type=a/b; filename=c"),
            &format!("r=<{photo}"),
        ];
        let Form { content_type, body } = form(&fields).unwrap();
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let expected = [
            &b"--B\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nann;x=1\r\n"[..],
            b"--B\r\nContent-Disposition: form-data; name=\"p\"; filename=\"a %22b%22.JPG\"\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8{{x}}\r\n\r\n",
            b"--B\r\nContent-Disposition: form-data; name=\"q\"; filename=\"c\"\r\nContent-Type: a/b\r\n\r\n\xff\xd8{{x}}\r\n\r\n",
            b"--B\r\nContent-Disposition: form-data; name=\"r\"\r\n\r\n\xff\xd8{{x}}\r\n\r\n",
            b"--B--\r\n",
        ]
        .concat();
        let mut with_b = Vec::new();
        let (mut rest, long) = (&body[..], boundary.as_bytes());
        while let Some(at) = place(rest, long) {
            with_b.extend_from_slice(&rest[..at]);
            with_b.push(b'B');
            rest = &rest[at + long.len()..];
        }
        with_b.extend_from_slice(rest);
        assert_eq!(String::from_utf8_lossy(&with_b), String::from_utf8_lossy(&expected));
        assert_eq!(form(&fields).unwrap().body, body, "the same every time");
    }

    #[test]
    fn fields_that_are_not_fields_are_named() {
        for (field, rule) in [
            ("name", "--form name: it is not a name with a value"),
            ("=x", "--form =x: it is not a name with a value"),
            ("a=@/no/such", "--form a=@/no/such: cannot read the file: No such file or directory"),
        ] {
            assert_eq!(form(&[field]).unwrap_err(), rule);
        }
    }
}
