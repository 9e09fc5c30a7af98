//! The request for a file of a workload. One whose header fields contradict its body is refused: servers read such bytes in different
//! ways, so that nobody knows what was measured.

use indexmap::IndexMap;

use crate::body::Body;
use crate::fields::Fields;
use crate::load::{ClientSpec, HttpVersion};
use crate::pages::{Feed, RequestDetail};
use crate::sampler::PageSequence;
use crate::template::{RenderContext, Template};

/// A file's own method, header fields and body, or the run's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// The run's fields, then the file's own; these replace the run's fields of the same name.
    pub fields: Fields,
    /// Body.
    pub body: Option<Body<'a>>,
}

impl RequestDetail {
    /// The request for a file with this detail.
    pub fn request<'a>(&'a self, client: &'a ClientSpec) -> Request<'a> {
        let mut fields = client.headers.clone();
        if !client.accept_encoding.is_empty() {
            fields.add("Accept-Encoding", client.accept_encoding.field());
        }
        self.headers.by_name().for_each(|(name, _)| fields.remove(name));
        self.headers.iter().for_each(|(name, value)| fields.add(name, &**value));
        let method = self.method.as_deref().unwrap_or(&client.method);
        let text = self.body.as_deref().or(client.body.as_deref()).map(Body::Text);
        let body = text.or(client.body_base64.as_ref().map(|body| Body::Bytes(&body.0)));
        Request { method, fields, body: body.filter(|_| !self.no_body) }
    }
}

impl Request<'_> {
    /// Why the request cannot be sent as it stands, and what to do: its header fields and its body disagree (RFC 9112, section 6),
    /// or it names two hosts (section 3.2). The plan refuses other connection-specific fields in HTTP/2.
    pub fn fault(&self, http: HttpVersion) -> Option<(String, String)> {
        let of = |name: &'static str| {
            self.fields
                .by_name()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, fields)| fields)
        };
        for name in ["Host", "Content-Length", "Transfer-Encoding"] {
            if let Some([_, _, ..]) = of(name) {
                return Some((
                    format!("`{name}` is given twice, but a request has one"),
                    "give it once".to_owned(),
                ));
            }
        }
        let (length, coding) = (of("Content-Length"), of("Transfer-Encoding"));
        if let Some([(name, coding)]) = coding {
            let field = format!("`{name}: {coding}`");
            let refused = |why: &str, hint: &str| Some((format!("{field}, but {why}"), hint.to_owned()));
            match http {
                HttpVersion::Http10 => {
                    return refused("HTTP/1.0 has no transfer codings", "remove it, or run with --http 1.1");
                }
                HttpVersion::Http2 | HttpVersion::Http3 => {
                    let why = format!("{} has no transfer codings", http.name());
                    return refused(&why, "remove it, or run with --http 1.1");
                }
                HttpVersion::Http11 | HttpVersion::Auto if !is_chunked(coding) => {
                    return refused(
                        "the only coding that can be sent is `chunked`",
                        "write chunked, or remove it",
                    );
                }
                HttpVersion::Http11 | HttpVersion::Auto if length.is_some() => {
                    return refused("`Content-Length` is given, too", "remove one of the two");
                }
                HttpVersion::Http11 | HttpVersion::Auto => {}
            }
        }
        if let Some([(name, length)]) = length {
            const HINT: &str = "remove it: the length of the body is sent without it";
            let body = self.body.map(Body::bytes).unwrap_or_default();
            if self.body.and_then(Body::text).is_some_and(|text| text.contains("{{")) {
                let what =
                    format!("`{name}: {length}`, but the body has templates, and with them many lengths");
                return Some((what, HINT.to_owned()));
            }
            if length.trim() != body.len().to_string() {
                let bytes = if body.len() == 1 { "byte" } else { "bytes" };
                let has = match self.body {
                    Some(_) => format!("the body has {} {bytes}", body.len()),
                    None => "the request has no body".to_owned(),
                };
                return Some((format!("`{name}: {length}`, but {has}"), HINT.to_owned()));
            }
        }
        None
    }

    /// The same with its templates filled in, as a client's first request has them; `None` where it has none. What cannot be parsed
    /// stays as it is: the plan of the run refuses it.
    pub fn filled(&self, feeds: &IndexMap<String, Feed>, seed: u64) -> Option<RequestDetail> {
        let texts = self.fields.iter().map(|(_, value)| &**value).chain(self.body.and_then(Body::text));
        if !texts.into_iter().any(|text| text.contains("{{")) {
            return None;
        }
        let mut random = PageSequence::new(seed, 0);
        let mut fill = |text: &str| {
            let Ok(template) = Template::parse(text) else { return text.to_owned() };
            let mut out = Vec::new();
            template.render(&mut out, &mut RenderContext { random: &mut random, sequence: 0, feeds, row: 0 });
            String::from_utf8_lossy(&out).into_owned()
        };
        let mut headers = self.fields.clone();
        headers.values_mut().for_each(|(_, value)| *value = fill(value));
        let body = self.body.and_then(Body::text).map(&mut fill);
        Some(RequestDetail {
            method: Some(self.method.to_owned()),
            headers,
            body,
            no_body: self.body.is_none(),
            ..RequestDetail::default()
        })
    }
}

fn is_chunked(coding: &str) -> bool {
    coding.trim().eq_ignore_ascii_case("chunked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(fields: &[(&str, &str)], body: Option<&str>, http: HttpVersion) -> Option<String> {
        let client = ClientSpec {
            headers: fields.iter().copied().collect(),
            body: body.map(str::to_owned),
            ..ClientSpec::default()
        };
        let detail = RequestDetail::default();
        let fault = detail.request(&client).fault(http);
        fault.map(|(what, hint)| format!("{what}; {hint}"))
    }

    #[test]
    fn fields_that_contradict_the_body_are_refused() {
        use HttpVersion::{Http2, Http10, Http11};
        let (length, coding) = ("content-length", "Transfer-Encoding");
        for (fields, body, http, part) in [
            (
                &[(length, "3")][..],
                Some("abcdef"),
                Http11,
                "`content-length: 3`, but the body has 6 bytes; remove it",
            ),
            (&[(length, "3")], Some("abcdef"), Http2, "the body has 6 bytes"),
            (&[(length, "3")], Some("a"), Http11, "the body has 1 byte;"),
            (&[(length, "6")], None, Http11, "the request has no body"),
            (&[(length, "+6")], Some("abcdef"), Http11, "the body has 6 bytes"),
            (&[(length, "6"), (length, "6")], Some("abcdef"), Http11, "given twice"),
            (&[(length, "7")], Some("{{seq}}"), Http11, "the body has templates"),
            (&[(coding, "chunked"), (length, "6")], Some("abcdef"), Http11, "remove one of the two"),
            (
                &[(coding, "gzip, chunked")],
                Some("abc"),
                Http11,
                "`Transfer-Encoding: gzip, chunked`, but the only coding",
            ),
            (&[(coding, "chunked"), (coding, "chunked")], Some("abc"), Http11, "given twice"),
            (&[(coding, "chunked")], Some("abc"), Http2, "HTTP/2 has no transfer codings; remove it"),
            (&[(coding, "chunked")], Some("abc"), Http10, "HTTP/1.0 has no transfer codings; remove it"),
            (&[("Host", "a"), ("host", "b")], None, Http11, "`Host` is given twice"),
        ] {
            let found = fault(fields, body, http).unwrap_or_default();
            assert!(found.contains(part), "{fields:?}: {found}");
        }
        for (fields, body) in [
            (&[(length, "6")][..], Some("abcdef")),
            (&[(length, " 0 ")], None),
            (&[(coding, "Chunked")], Some("abc")),
            (&[("Cookie", "a"), ("Cookie", "b")], None),
        ] {
            assert_eq!(fault(fields, body, Http11), None, "{fields:?}");
        }
    }

    #[test]
    fn templates_are_filled_as_for_a_first_request() {
        let row = |text: &str| vec![text.to_owned()];
        let feed = Feed { columns: row("name"), rows: vec![row("ann"), row("bob")], ..Feed::default() };
        let feeds = IndexMap::from([("users".to_owned(), feed)]);
        let mut client = ClientSpec {
            headers: [("X", "n{{seq}}"), ("Y", "{{wrong")].into_iter().collect(),
            body: Some("{{users.name}}".to_owned()),
            ..ClientSpec::default()
        };
        let detail = RequestDetail::default();
        let filled = detail.request(&client).filled(&feeds, 1).unwrap();
        assert_eq!(filled.body.as_deref(), Some("ann"));
        assert!(filled.headers.iter().map(|(_, value)| &**value).eq(["n0", "{{wrong"]));
        client.headers = Fields::default();
        client.body = None;
        assert_eq!(detail.request(&client).filled(&feeds, 1), None);
    }

    #[test]
    fn a_files_own_fields_replace_the_runs_of_their_name() {
        let client = ClientSpec {
            headers: [("Cookie", "run"), ("A", "1"), ("cookie", "2")].into_iter().collect(),
            body: Some("run".to_owned()),
            ..ClientSpec::default()
        };
        let detail = RequestDetail {
            method: Some("PUT".to_owned()),
            headers: [("COOKIE", "x"), ("COOKIE", "y")].into_iter().collect(),
            ..RequestDetail::default()
        };
        let request = detail.request(&client);
        assert_eq!((request.method, request.body), ("PUT", Some(Body::Text("run"))));
        assert!(request.fields.iter().map(|(n, v)| (&**n, &**v)).eq([
            ("A", "1"),
            ("COOKIE", "x"),
            ("COOKIE", "y")
        ]));
    }
}
