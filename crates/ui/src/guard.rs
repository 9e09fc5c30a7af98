//! Who may ask for what. The token of the front is as good as a shell: with it, programs can be started here. So nothing is
//! read before `Host`, which keeps out pages whose name was pointed at this address (DNS rebinding); nothing that other pages
//! can send without asking (forms, images, cookies) is enough; and changes need the exact origin besides.
//!
//! There is no cookie: servers under test are other ports of the same host, and a cookie would go to them as well.

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, StatusCode, Uri};

/// What the browser says of where a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// 256 random bits, in hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// If the kernel gives no random bytes.
    pub(crate) fn random() -> std::io::Result<Token> {
        use std::io::Read;
        let mut bytes = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// As it stands in addresses.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether it was given, compared in constant time.
    pub(crate) fn is(&self, given: &str) -> bool {
        let differing = |(a, b): (u8, u8)| a ^ b;
        given.len() == self.0.len()
            && self.0.bytes().zip(given.bytes()).map(differing).fold(0, |all, one| all | one) == 0
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The pages' own files, which are the same for everybody.
    Asset,
    /// A report, at an address that is used once.
    Once,
    /// Reading.
    Read,
    /// What changes something, starts it, or needs a body.
    Post,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The name in the address is not this front's.
    #[error("this address is not the one that `webstone ui` printed")]
    Host,
    /// Another page sent it.
    #[error("requests of other sites are refused")]
    Site,
    /// The method is not the one of this address.
    #[error("this method is not allowed here")]
    Method,
    /// No token, or a wrong one.
    #[error("the token is missing or wrong: open the address that `webstone ui` printed")]
    Token,
    /// A body of another type.
    #[error("the body has to be JSON, with `Content-Type: application/json`")]
    Type,
}

impl Refusal {
    /// The status that says so.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Refusal::Host => StatusCode::MISDIRECTED_REQUEST,
            Refusal::Site => StatusCode::FORBIDDEN,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Token => StatusCode::UNAUTHORIZED,
            Refusal::Type => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }
}

/// Admits requests or refuses them.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: [String; 2],
    token: Token,
}

impl Guard {
    /// Of a front on this port of the loopback address.
    pub(crate) fn new(port: u16, token: Token) -> Guard {
        Guard { hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")], token }
    }

    /// Whether a request may pass.
    ///
    /// # Errors
    /// The first rule that it breaks, the most harmful first.
    pub(crate) fn admit(
        &self,
        door: Door,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let host = single(headers, &HOST).ok().flatten().ok_or(Refusal::Host)?;
        if !self.hosts.iter().any(|own| own == host) || uri.authority().is_some() {
            return Err(Refusal::Host);
        }
        let origin = single(headers, &ORIGIN).map_err(|()| Refusal::Site)?;
        let site = single(headers, &FETCH_SITE).map_err(|()| Refusal::Site)?;
        // A page is opened from the terminal (`none`), or from a link in another window of the front.
        let is_own = |site: &str| site == "same-origin" || (door == Door::Asset && site == "none");
        let is_from_here = |origin: &str| origin.strip_prefix("http://") == Some(host);
        let is_named = door == Door::Asset || site.is_none_or(is_own);
        let is_linked = door == Door::Asset && *method == Method::GET;
        if !is_named || !(is_linked || origin.is_none_or(is_from_here)) {
            return Err(Refusal::Site);
        }
        let wanted = if door == Door::Post { Method::POST } else { Method::GET };
        if *method != wanted {
            return Err(Refusal::Method);
        }
        if matches!(door, Door::Read | Door::Post) {
            let given = single(headers, &AUTHORIZATION).ok().flatten();
            let given = given.and_then(|text| text.strip_prefix("Bearer "));
            if !given.is_some_and(|given| self.token.is(given)) {
                return Err(Refusal::Token);
            }
        }
        if door == Door::Post {
            if origin.is_none() || site.is_none() {
                return Err(Refusal::Site);
            }
            let kind = single(headers, &CONTENT_TYPE).ok().flatten().unwrap_or_default();
            if kind.split(';').next().map(str::trim) != Some("application/json") {
                return Err(Refusal::Type);
            }
        }
        Ok(())
    }
}

/// The value of a header field that stands there at most once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// What a request says; `None`: nothing.
    #[derive(Clone, Copy)]
    struct Said {
        method: &'static str,
        host: Option<&'static str>,
        origin: Option<&'static str>,
        site: Option<&'static str>,
        token: Option<&'static str>,
        kind: Option<&'static str>,
    }

    fn asked(door: Door, said: Said) -> Result<(), Refusal> {
        let guard = Guard::new(8000, Token(TOKEN.to_owned()));
        let mut headers = HeaderMap::new();
        let bearer = said.token.map(|token| format!("Bearer {token}"));
        for (name, value) in [
            (HOST, said.host),
            (ORIGIN, said.origin),
            (FETCH_SITE, said.site),
            (AUTHORIZATION, bearer.as_deref()),
            (CONTENT_TYPE, said.kind),
        ] {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        guard.admit(door, &said.method.parse().unwrap(), &"/api/x".parse().unwrap(), &headers)
    }

    #[test]
    fn of_all_requests_for_a_change_one_passes() {
        let mut passed = Vec::new();
        let mut tried = 0;
        for method in ["POST", "GET", "PUT", "DELETE", "OPTIONS", "HEAD"] {
            for host in [
                Some("127.0.0.1:8000"),
                Some("127.0.0.1"),
                Some("evil.test:8000"),
                Some("127.0.0.1:80"),
                None,
            ] {
                for origin in [
                    Some("http://127.0.0.1:8000"),
                    Some("http://127.0.0.1:8001"),
                    Some("https://127.0.0.1:8000"),
                    Some("http://evil.test"),
                    Some("null"),
                    None,
                ] {
                    for site in
                        [Some("same-origin"), Some("same-site"), Some("cross-site"), Some("none"), None]
                    {
                        for token in [Some(TOKEN), Some(&TOKEN[1..]), Some(""), None] {
                            for kind in [
                                Some("application/json"),
                                Some("text/plain"),
                                Some("application/x-www-form-urlencoded"),
                                None,
                            ] {
                                tried += 1;
                                let said = Said { method, host, origin, site, token, kind };
                                if asked(Door::Post, said).is_ok() {
                                    passed.push((method, host, origin, site, token, kind));
                                }
                            }
                        }
                    }
                }
            }
        }
        let only = (
            "POST",
            Some("127.0.0.1:8000"),
            Some("http://127.0.0.1:8000"),
            Some("same-origin"),
            Some(TOKEN),
            Some("application/json"),
        );
        assert_eq!((tried, passed), (14_400, vec![only]));
    }

    #[test]
    fn reading_needs_the_token_and_no_other_page() {
        let good = Said {
            method: "GET",
            host: Some("localhost:8000"),
            origin: None,
            site: Some("same-origin"),
            token: Some(TOKEN),
            kind: None,
        };
        assert_eq!(asked(Door::Read, good), Ok(()));
        assert_eq!(asked(Door::Read, Said { site: None, ..good }), Ok(()), "curl on the same host");
        let wrong = [
            (Said { token: None, ..good }, Refusal::Token),
            (Said { token: Some("x"), ..good }, Refusal::Token),
            (Said { site: Some("cross-site"), ..good }, Refusal::Site),
            (Said { site: Some("same-site"), ..good }, Refusal::Site),
            (Said { origin: Some("http://evil.test"), ..good }, Refusal::Site),
            (Said { host: Some("evil.test:8000"), ..good }, Refusal::Host),
            (Said { method: "POST", ..good }, Refusal::Method),
        ];
        for (said, refusal) in wrong {
            assert_eq!(asked(Door::Read, said), Err(refusal));
        }
    }

    #[test]
    fn a_page_opens_from_a_terminal_and_from_nowhere_else_does_a_report() {
        let opened = Said {
            method: "GET",
            host: Some("127.0.0.1:8000"),
            origin: None,
            site: Some("none"),
            token: None,
            kind: None,
        };
        assert_eq!(asked(Door::Asset, opened), Ok(()));
        assert_eq!(
            asked(Door::Asset, Said { site: Some("cross-site"), ..opened }),
            Ok(()),
            "a link in a mail"
        );
        assert_eq!(asked(Door::Asset, Said { host: Some("evil.test:8000"), ..opened }), Err(Refusal::Host));
        assert_eq!(asked(Door::Asset, Said { method: "POST", ..opened }), Err(Refusal::Method));
        assert_eq!(asked(Door::Once, opened), Err(Refusal::Site), "typed into the address bar");
        assert_eq!(asked(Door::Once, Said { site: Some("same-origin"), ..opened }), Ok(()));
    }

    #[test]
    fn two_values_are_as_wrong_as_another() {
        let guard = Guard::new(8000, Token(TOKEN.to_owned()));
        let mut headers = HeaderMap::new();
        headers.append(HOST, HeaderValue::from_static("127.0.0.1:8000"));
        headers.append(HOST, HeaderValue::from_static("127.0.0.1:8000"));
        let admitted = guard.admit(Door::Asset, &Method::GET, &"/".parse().unwrap(), &headers);
        assert_eq!(admitted, Err(Refusal::Host));
        headers.remove(HOST);
        headers.append(HOST, HeaderValue::from_static("127.0.0.1:8000"));
        let elsewhere: Uri = "http://evil.test/".parse().unwrap();
        assert_eq!(guard.admit(Door::Asset, &Method::GET, &elsewhere, &headers), Err(Refusal::Host));
    }

    #[test]
    fn tokens_differ_and_are_long() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.text().len(), 64);
        assert!(one.is(one.text()) && !one.is(other.text()) && !one.is(&one.text()[..63]));
        assert_eq!(format!("{one:?}"), "Token(…)");
    }
}
