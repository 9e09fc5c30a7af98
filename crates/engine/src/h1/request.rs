//! Requests of HTTP/1.0 and 1.1, written once before the run (RFC 9112 section 3).

use webstone_workload::load::HttpVersion;

/// What a request is made of.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// Method, as it appears in the request line.
    pub method: &'a str,
    /// Request target: a path with its query, or an absolute URL for a proxy.
    pub target: &'a str,
    /// Value of `Host`.
    pub host: &'a str,
    /// Version that the request line names.
    pub version: HttpVersion,
    /// Additional header fields; one with the name of a default field replaces it.
    pub headers: &'a [(String, String)],
    /// Body. With one, or with a method that usually has one, `Content-Length` is written, unless the body is sent in chunks.
    pub body: Option<&'a [u8]>,
    /// Whether this is the last request on its connection.
    pub last: bool,
    /// The body and its length are added later: neither is written here.
    pub body_later: bool,
}

impl RequestParts<'_> {
    /// Whether the body is sent in chunks: no other transfer coding is planned.
    pub fn is_chunked(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"))
    }
}

/// Appends the request to `out`.
pub fn write_request(parts: &RequestParts<'_>, out: &mut Vec<u8>) {
    let given = |name: &str| parts.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let version = match parts.version {
        HttpVersion::Http10 => "1.0",
        // Requests of a run in HTTP/2 are made elsewhere.
        _ => "1.1",
    };
    let mut line = |pieces: &[&str]| {
        pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        out.extend_from_slice(b"\r\n");
    };
    line(&[parts.method, " ", parts.target, " HTTP/", version]);
    if !given("host") {
        line(&["Host: ", parts.host]);
    }
    if !given("user-agent") {
        line(&["User-Agent: webstone/", env!("CARGO_PKG_VERSION")]);
    }
    if !given("accept") {
        line(&["Accept: */*"]);
    }
    if !given("connection") {
        match (parts.version, parts.last) {
            (HttpVersion::Http10, false) => line(&["Connection: keep-alive"]),
            // This is already the version's default.
            (HttpVersion::Http10, true) | (_, false) => {}
            (_, true) => line(&["Connection: close"]),
        }
    }
    for (name, value) in parts.headers {
        line(&[name, ": ", value]);
    }
    let body = parts.body.unwrap_or_default();
    let has_body_by_nature = matches!(parts.method, "POST" | "PUT" | "PATCH");
    let has_length = (parts.body.is_some() || has_body_by_nature) && !parts.body_later;
    if has_length && !given("content-length") && !given("transfer-encoding") {
        line(&["Content-Length: ", &body.len().to_string()]);
    }
    line(&[]);
    if !parts.is_chunked() || parts.body_later {
        return out.extend_from_slice(body);
    }
    // One chunk is enough (RFC 9112, section 7.1).
    if !body.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Whether a text is valid as a method or field name (RFC 9110 section 5.6.2, `token`).
pub fn is_token(text: &str) -> bool {
    let special = b"!#$%&'*+-.^_`|~";
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || special.contains(&byte))
}

/// Whether a text is valid as a field value: no line end and no other control character but the tab.
pub fn is_field_value(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f))
}

/// Whether a text is valid as a request target: visible ASCII without white space.
pub fn is_target(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a method may be retried automatically (RFC 9110 section 9.2.2).
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
}

/// Whether a method asks for nothing to change (RFC 9110 section 9.2.1).
pub fn is_safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &RequestParts<'_>) -> String {
        let mut out = Vec::new();
        write_request(parts, &mut out);
        String::from_utf8(out).unwrap()
    }

    const PLAIN: RequestParts<'static> = RequestParts {
        method: "GET",
        target: "/a?b=1",
        host: "example.org:8080",
        version: HttpVersion::Http11,
        headers: &[],
        body: None,
        last: false,
        body_later: false,
    };

    #[test]
    fn a_plain_get() {
        let agent = concat!("User-Agent: webstone/", env!("CARGO_PKG_VERSION"));
        let expected =
            format!("GET /a?b=1 HTTP/1.1\r\nHost: example.org:8080\r\n{agent}\r\nAccept: */*\r\n\r\n");
        assert_eq!(written(&PLAIN), expected);
    }

    #[test]
    fn the_connection_field_follows_version_and_place() {
        for (version, last, field) in [
            (HttpVersion::Http11, true, Some("close")),
            (HttpVersion::Http11, false, None),
            (HttpVersion::Http10, true, None),
            (HttpVersion::Http10, false, Some("keep-alive")),
        ] {
            let text = written(&RequestParts { version, last, ..PLAIN });
            let found = text.lines().find_map(|line| line.strip_prefix("Connection: "));
            assert_eq!(found, field, "{text}");
        }
    }

    #[test]
    fn a_given_field_replaces_the_default() {
        let headers =
            [("host".to_owned(), "other".to_owned()), ("ACCEPT".to_owned(), "text/html".to_owned())];
        let text = written(&RequestParts { headers: &headers, ..PLAIN });
        assert_eq!(text.matches("ost: ").count(), 1);
        assert!(text.contains("host: other\r\nACCEPT: text/html\r\n"), "{text}");
    }

    #[test]
    fn bodies_carry_their_length() {
        let text = written(&RequestParts { method: "POST", body: Some(b"a=1"), ..PLAIN });
        assert!(text.ends_with("Content-Length: 3\r\n\r\na=1"), "{text}");
        let text = written(&RequestParts { method: "PUT", ..PLAIN });
        assert!(text.ends_with("Content-Length: 0\r\n\r\n"), "{text}");
    }

    #[test]
    fn bodies_go_in_chunks_where_that_is_asked_for() {
        let headers = [("Transfer-Encoding".to_owned(), "chunked".to_owned())];
        let chunked = RequestParts { method: "POST", headers: &headers, ..PLAIN };
        for (body, sent) in [
            (Some(&b"abcdefghijkl"[..]), "c\r\nabcdefghijkl\r\n0\r\n\r\n"),
            (Some(b""), "0\r\n\r\n"),
            (None, "0\r\n\r\n"),
        ] {
            let text = written(&RequestParts { body, ..chunked });
            assert!(text.ends_with(&format!("Transfer-Encoding: chunked\r\n\r\n{sent}")), "{text}");
            assert!(!text.contains("Content-Length"), "{text}");
        }
    }

    #[test]
    fn methods_values_and_targets_are_validated() {
        assert!(is_token("X-Id") && !is_token("X Id") && !is_token("") && !is_token("X:"));
        assert!(is_field_value("a\tb ü") && !is_field_value("a\r\nb") && !is_field_value("\0"));
        assert!(is_target("/a?b") && !is_target("/a b") && !is_target("") && !is_target("/ü"));
    }
}
