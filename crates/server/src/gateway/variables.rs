//! The meta-variables of a request, as RFC 3875 section 4.1 defines them. A handler's environment holds these, a `PATH`, and
//! nothing of the server's own.
//!
//! Left out: `AUTH_TYPE`, `REMOTE_USER` and `REMOTE_IDENT`, because this server identifies nobody; `REMOTE_HOST`, because a
//! look-up for each request is not asked for; the command line of an "indexed" query (section 4.4), which has let clients
//! pass options to interpreters.

use std::path::Path;

use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderName, PROXY_AUTHORIZATION,
};
use hyper::{HeaderMap, Version};

use super::{Asked, HandlerFailure, SCRIPT};
use crate::body::SERVER_NAME;
use crate::path;

/// Where programs are found by handlers.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Names and values, without a zero byte.
pub(super) type Variables = Vec<(String, Vec<u8>)>;

/// The variables of a request.
pub(super) fn variables(asked: &Asked<'_>, root: Option<&Path>) -> Result<Variables, HandlerFailure> {
    let headers = &asked.parts.headers;
    let mut out: Variables = Vec::with_capacity(16 + headers.len());
    let mut set = |name: &str, value: &[u8]| out.push((name.to_owned(), value.to_vec()));
    set("GATEWAY_INTERFACE", b"CGI/1.1");
    set("SERVER_SOFTWARE", SERVER_NAME.as_bytes());
    set("SERVER_PROTOCOL", protocol(asked.parts.version).as_bytes());
    let local = asked.local.map(|local| local.ip().to_string());
    // In HTTP/2 the host is not a field; a handler gets it in the same variable.
    let authority = asked.parts.uri.authority().map(|authority| authority.as_str());
    if let Some(authority) = authority.filter(|_| !headers.contains_key(HOST)) {
        set("HTTP_HOST", authority.as_bytes());
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(authority);
    set("SERVER_NAME", host.and_then(server_name).or(local.as_deref()).unwrap_or("localhost").as_bytes());
    let port = asked.local.map_or(80, |local| local.port());
    set("SERVER_PORT", port.to_string().as_bytes());
    if asked.is_encrypted {
        // No standard has it; every server sets it.
        set("HTTPS", b"on");
    }
    set("REQUEST_METHOD", asked.method.as_str().as_bytes());
    set("SCRIPT_NAME", SCRIPT.as_bytes());
    set("QUERY_STRING", asked.query.as_bytes());
    // A Unix socket's client has no address, but the variable is required.
    let peer = asked.peer.map_or_else(|| "127.0.0.1".to_owned(), |peer| peer.to_string());
    set("REMOTE_ADDR", peer.as_bytes());
    if !asked.body.is_empty() {
        set("CONTENT_LENGTH", asked.body.len().to_string().as_bytes());
    }
    if let Some(media_type) = headers.get(CONTENT_TYPE) {
        set("CONTENT_TYPE", media_type.as_bytes());
    }
    let below = asked.path.strip_prefix(SCRIPT).unwrap_or_default();
    if !below.is_empty() {
        let below = path::decode(below)
            .map_err(|_| HandlerFailure::Request("the path has invalid percent-encoding"))?;
        if below.contains(&0) {
            return Err(HandlerFailure::Request("the path contains a zero byte"));
        }
        set("PATH_INFO", &below);
        if let Some(root) = root
            && let Ok(translated) = path::below_root(&String::from_utf8_lossy(&below).replace('%', "%25"))
        {
            let root = std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str());
            set("PATH_TRANSLATED", &[root, b"/", &translated].concat());
        }
    }
    set("PATH", SEARCH_PATH.as_bytes());
    protocol_specific(headers, &mut out);
    Ok(out)
}

/// Header fields as `HTTP_*` (section 4.1.18). Left out: what has a variable of its own, credentials, what concerns this
/// connection only, `Proxy` (whose variable many programs take for their own setting), and names with an underscore, which
/// look the same as those with a hyphen.
fn protocol_specific(headers: &HeaderMap, out: &mut Variables) {
    const LEFT_OUT: [HeaderName; 5] =
        [CONTENT_LENGTH, CONTENT_TYPE, AUTHORIZATION, PROXY_AUTHORIZATION, CONNECTION];
    for name in headers.keys() {
        let text = name.as_str();
        if LEFT_OUT.contains(name) || text == "proxy" || text.contains('_') {
            continue;
        }
        let between: &[u8] = if *name == COOKIE { b"; " } else { b", " };
        let values: Vec<&[u8]> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
        let variable = format!("HTTP_{}", text.to_ascii_uppercase().replace('-', "_"));
        out.push((variable, values.join(between)));
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

/// The name that the client called the server by, without the port; `None` if there is none, or it is not a name.
fn server_name(host: &str) -> Option<&str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use hyper::{Method, Request};

    use super::*;

    fn variables_of(
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<BTreeMap<String, String>, HandlerFailure> {
        let mut request = Request::builder().uri("/").version(Version::HTTP_10);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let asked = Asked {
            method: Method::POST,
            path: path.to_owned(),
            query: query.to_owned(),
            parts: &parts,
            body: Bytes::from_static(b"four"),
            peer: Some("192.0.2.1".parse().unwrap()),
            local: Some("127.0.0.1:8080".parse().unwrap()),
            is_encrypted: false,
        };
        let variables = variables(&asked, Some(Path::new("/root")))?;
        let count = variables.len();
        let map: BTreeMap<String, String> =
            variables.into_iter().map(|(name, value)| (name, String::from_utf8(value).unwrap())).collect();
        assert_eq!(map.len(), count, "each variable once");
        Ok(map)
    }

    #[test]
    fn every_variable_of_the_standard_is_there() {
        let headers = [
            ("Host", "example.org:8080"),
            ("Content-Type", "text/x"),
            ("X-Thing", "a"),
            ("X-Thing", "b"),
            ("Cookie", "a=1"),
            ("Cookie", "b=2"),
        ];
        let found = variables_of("/send/a%20b/%C3%A4", "size=1&x=%20", &headers).unwrap();
        let expected = [
            ("CONTENT_LENGTH", "4"),
            ("CONTENT_TYPE", "text/x"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_HOST", "example.org:8080"),
            ("HTTP_X_THING", "a, b"),
            ("PATH", SEARCH_PATH),
            ("PATH_INFO", "/a b/ä"),
            ("PATH_TRANSLATED", "/root/a b/ä"),
            ("QUERY_STRING", "size=1&x=%20"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("REQUEST_METHOD", "POST"),
            ("SCRIPT_NAME", "/send"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "8080"),
            ("SERVER_PROTOCOL", "HTTP/1.0"),
            ("SERVER_SOFTWARE", SERVER_NAME),
        ];
        let expected: BTreeMap<String, String> =
            expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_could_deceive_a_handler_stays_out() {
        let headers = [
            ("Host", "evil;$(x)"),
            ("Proxy", "http://evil"),
            ("Authorization", "secret"),
            ("X_Real_Ip", "1.2.3.4"),
            ("Connection", "close"),
        ];
        let found = variables_of("/send", "", &headers).unwrap();
        assert_eq!(found["SERVER_NAME"], "127.0.0.1");
        assert_eq!(found["QUERY_STRING"], "");
        let of_fields: Vec<&String> = found.keys().filter(|name| name.starts_with("HTTP_")).collect();
        assert_eq!(of_fields, ["HTTP_HOST"]);
        assert!(!found.contains_key("PATH_INFO") && !found.contains_key("PATH_TRANSLATED"));
        let outside = variables_of("/send/../../etc", "", &[]).unwrap();
        assert_eq!((outside["PATH_INFO"].as_str(), outside.get("PATH_TRANSLATED")), ("/../../etc", None));
        assert!(matches!(variables_of("/send/%00", "", &[]), Err(HandlerFailure::Request(_))));
        assert!(matches!(variables_of("/send/%zz", "", &[]), Err(HandlerFailure::Request(_))));
    }
}
