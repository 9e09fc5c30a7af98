//! Paths of requests: decoded once, and always kept below the root.
//!
//! This is the first of two checks; the second is the operating system's (`directory`).

/// Why a path names nothing that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("the path has a % without two hexadecimal digits after it")]
    Escape,
    #[error("the path contains a zero byte")]
    Zero,
    #[error("the path does not begin with /")]
    NotAbsolute,
    #[error("the path has a `..` segment")]
    Parent,
}

/// Decodes `%XX` exactly once: `%252e` becomes `%2e`, which is three ordinary characters.
pub(crate) fn decode(raw: &str) -> Result<Vec<u8>, PathError> {
    let mut bytes = raw.bytes();
    let mut decoded = Vec::with_capacity(raw.len());
    let digit = |byte: Option<u8>| {
        let digit = byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or(PathError::Escape)?;
        Ok(digit as u8)
    };
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next())? * 16 + digit(bytes.next())?,
            byte => byte,
        });
    }
    Ok(decoded)
}

/// The path below the root that a request's path names: decoded, without empty and `.` segments, `index.html` added to
/// a directory's. A segment `..` is refused even where it would stay inside: no client has to send one. A backslash
/// is an ordinary character of a file's name.
pub(crate) fn below_root(raw: &str) -> Result<Vec<u8>, PathError> {
    let decoded = decode(raw)?;
    if decoded.contains(&0) {
        return Err(PathError::Zero);
    }
    let Some(rest) = decoded.strip_prefix(b"/") else {
        return Err(PathError::NotAbsolute);
    };
    let mut below = Vec::with_capacity(rest.len() + 10);
    for segment in rest.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => return Err(PathError::Parent),
            segment => {
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(segment);
            }
        }
    }
    if rest.is_empty() || rest.ends_with(b"/") || rest == b"." || rest.ends_with(b"/.") {
        if !below.is_empty() {
            below.push(b'/');
        }
        below.extend_from_slice(b"index.html");
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(raw: &str) -> Result<String, PathError> {
        below_root(raw).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn plain_paths_stay_as_they_are() {
        assert_eq!(below("/file500.html").unwrap(), "file500.html");
        assert_eq!(below("/a/b%20c/d").unwrap(), "a/b c/d");
        assert_eq!(below("//a///./b").unwrap(), "a/b");
        assert_eq!(below("/a%2Fb").unwrap(), "a/b");
    }

    #[test]
    fn directories_mean_their_index() {
        for (raw, expected) in [
            ("/", "index.html"),
            ("/.", "index.html"),
            ("/./", "index.html"),
            ("/a/", "a/index.html"),
            ("/a/.", "a/index.html"),
            ("/a.", "a."),
        ] {
            assert_eq!(below(raw).unwrap(), expected, "{raw}");
        }
    }

    #[test]
    fn no_spelling_leads_out_of_the_root() {
        for raw in [
            "/..",
            "/../etc/passwd",
            "/a/../b",
            "/%2e%2e/etc/passwd",
            "/%2e%2e%2fetc%2fpasswd",
            "/.%2E/x",
            "/a/..%2f..%2fetc",
            "/./../x",
        ] {
            assert_eq!(below(raw), Err(PathError::Parent), "{raw}");
        }
        // Decoded once only, and no other separator: ordinary names of files that do not exist.
        for (raw, expected) in [
            ("/%252e%252e/x", "%2e%2e/x"),
            ("/..\\..\\etc", "..\\..\\etc"),
            ("/%5c..%5c", "\\..\\"),
            ("/...", "..."),
        ] {
            assert_eq!(below(raw).unwrap(), expected);
        }
    }

    #[test]
    fn invalid_paths_are_refused() {
        assert_eq!(below("/a%00.html"), Err(PathError::Zero));
        assert_eq!(below("*"), Err(PathError::NotAbsolute));
        assert_eq!(below(""), Err(PathError::NotAbsolute));
        for raw in ["/%", "/%2", "/%zz", "/%2x", "/%+1"] {
            assert_eq!(below(raw), Err(PathError::Escape), "{raw}");
        }
    }
}
