//! Content types by file name. Only what benchmark filesets and ordinary sites hold; anything else is bytes.

/// The media type of a path, from the extension of its last segment.
pub(crate) fn of_path(path: &[u8]) -> &'static str {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let mut parts = name.rsplitn(2, |byte| *byte == b'.');
    let extension = parts.next().unwrap_or_default().to_ascii_lowercase();
    if parts.next().is_none() {
        return "application/octet-stream";
    }
    match &*extension {
        b"html" | b"htm" => "text/html",
        b"txt" | b"log" | b"md" => "text/plain",
        b"css" => "text/css",
        b"js" | b"mjs" => "text/javascript",
        b"json" => "application/json",
        b"xml" => "application/xml",
        b"csv" => "text/csv",
        b"gif" => "image/gif",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"png" => "image/png",
        b"svg" => "image/svg+xml",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"ico" => "image/x-icon",
        b"pdf" => "application/pdf",
        b"wasm" => "application/wasm",
        b"woff2" => "font/woff2",
        b"mp3" => "audio/mpeg",
        b"wav" => "audio/wav",
        b"mp4" => "video/mp4",
        b"mpg" | b"mpeg" => "video/mpeg",
        b"webm" => "video/webm",
        b"zip" => "application/zip",
        b"gz" => "application/gzip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::of_path;

    #[test]
    fn the_last_extension_decides() {
        for (path, expected) in [
            ("/file500.html", "text/html"),
            ("/a.html/b", "application/octet-stream"),
            ("/A.HTM", "text/html"),
            ("/x.tar.gz", "application/gzip"),
            ("html", "application/octet-stream"),
            ("/.", "application/octet-stream"),
            ("", "application/octet-stream"),
        ] {
            assert_eq!(of_path(path.as_bytes()), expected, "{path}");
        }
    }
}
