//! The field Host, without which a request of HTTP/1.1 names no site: exactly one, and one that can be a host (RFC 9112, 3.2).
//! A server that guessed would accept clients that other servers refuse, and with two fields requests are smuggled past a proxy
//! that reads the other one.

use hyper::header::HOST;
use hyper::{HeaderMap, Request, Version};

/// What is wrong with the request's host, if anything is. HTTP/1.0 may leave it out; in HTTP/2 and 3 it is the pseudo-header
/// `:authority`, and the field is one that a client may leave out (RFC 9113, 8.3.1).
pub(crate) fn problem<B>(request: &Request<B>) -> Option<&'static str> {
    if request.version() >= Version::HTTP_2 && request.uri().authority().is_some() {
        return None;
    }
    field_problem(request.version(), request.headers())
}

fn field_problem(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version < Version::HTTP_11 => None,
        (None, _) => Some("the request has no Host, which HTTP/1.1 requires\n"),
        (Some(_), Some(_)) => Some("the request has more than one Host\n"),
        (Some(host), None) if is_host(host.as_bytes()) => None,
        (Some(_), None) => Some("the request's Host is not a host with an optional port\n"),
    }
}

/// Whether these can be `uri-host [":" port]`: no blank, no userinfo, no path. It may be empty (RFC 9110, 7.2).
fn is_host(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(version: Version, hosts: &[&'static str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, hyper::header::HeaderValue::from_static(host));
        }
        field_problem(version, &headers)
    }

    #[test]
    fn exactly_one_host_is_needed_from_http_1_1_on() {
        for host in ["a", "a.example:8080", "127.0.0.1", "[::1]:80", "", "a%20b", "under_score"] {
            assert_eq!(problem(Version::HTTP_11, &[host]), None, "{host}");
        }
        assert!(problem(Version::HTTP_11, &[]).is_some_and(|what| what.contains("no Host")));
        assert_eq!(problem(Version::HTTP_10, &[]), None);
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(problem(version, &["a", "a"]).is_some_and(|what| what.contains("more than one")));
            for host in ["a b", "user@a", "a/b", "a?b", "a#b", "a,\tb", "\"a\"", "a\\b"] {
                assert!(
                    problem(version, &[host]).is_some_and(|what| what.contains("is not a host")),
                    "{host}"
                );
            }
        }
    }
}
