//! Requests of a run in HTTP/2 or HTTP/3, encoded with the plan: header blocks that only need to be copied.
//!
//! Fields that all requests to a server share are added to its dynamic table by the first block on a connection; in
//! other blocks each takes one byte. All other fields are literals that change no table, so a block is the same
//! whenever it is sent. In HTTP/3 no block uses a dynamic table.

use indexmap::IndexMap;
use webstone_workload::Feed;
use webstone_workload::template::{RenderContext, Template};

use super::hpack::decoder::Decoder;
use super::hpack::encoder::{self, Literal};
use super::hpack::static_table::FIELDS;
use super::hpack::{ENTRY_BYTES, TABLE_BYTES, static_table};
use crate::client::Client;
use crate::h1::request::RequestParts;
use crate::h3::qpack;
use crate::plan_error::PlanError;
use crate::slice::Slice;

/// How fields are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    /// For HTTP/2.
    #[default]
    Hpack,
    /// For HTTP/3.
    Qpack,
}

impl Coding {
    fn field(self, name: &str, value: &[u8], literal: Literal, out: &mut Vec<u8>) {
        match self {
            Coding::Hpack => {
                encoder::field(name, value, literal, out);
            }
            Coding::Qpack => qpack::write_field(name, value, out),
        }
    }
}

/// Which table entries a block refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Variant {
    /// None yet: it adds them.
    #[default]
    First,
    /// Those that the first block added.
    Warm,
    /// None, and it adds none: the server's table is too small.
    Plain,
}

/// All requests of a plan.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    coding: Coding,
    all: Vec<Request>,
    bytes: Vec<u8>,
    templates: Vec<Templates>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    /// By [`Variant`]: the parts before and after the path, if that is filled in. Otherwise the first part is the
    /// whole block.
    blocks: [(Slice, Slice); 3],
    body: Slice,
    template: Option<u32>,
}

/// The parts that are filled in when a request is sent.
#[derive(Debug)]
struct Templates {
    path: Template,
    fields: Vec<(String, Template)>,
    body: Option<Template>,
}

/// A request, until all requests of the plan are known.
struct Draft {
    origin: u32,
    /// Pseudo-header fields except the path, then the others.
    fields: Vec<(String, String)>,
    path: String,
    body: Vec<u8>,
    templates: Option<Templates>,
}

/// Collects requests.
#[derive(Default)]
pub(crate) struct Builder {
    coding: Coding,
    drafts: Vec<Draft>,
}

impl Builder {
    pub(crate) fn new(coding: Coding) -> Builder {
        Builder { coding, drafts: Vec::new() }
    }

    /// Adds the next request; the server is given by its number in the plan.
    pub(crate) fn add(
        &mut self,
        what: &str,
        origin: u32,
        scheme: &str,
        is_templated: bool,
        parts: &RequestParts<'_>,
    ) -> Result<(), PlanError> {
        let given = |name: &str| parts.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        let host = given("host").map_or(parts.host, |(_, value)| value);
        let mut fields: Vec<(String, String)> =
            [(":method", parts.method), (":scheme", scheme), (":authority", host)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        if given("user-agent").is_none() {
            fields
                .push(("user-agent".to_owned(), concat!("webstone/", env!("CARGO_PKG_VERSION")).to_owned()));
        }
        if given("accept").is_none() {
            fields.push(("accept".to_owned(), "*/*".to_owned()));
        }
        for (name, value) in parts.headers {
            let name = name.to_ascii_lowercase();
            let is_hop = matches!(
                &*name,
                "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade"
            );
            if is_hop || (name == "te" && value != "trailers") {
                let version = if self.coding == Coding::Qpack { "HTTP/3" } else { "HTTP/2" };
                return Err(PlanError::new(
                    format!(
                        "{what}: `{name}: {value}` is a connection-specific header field, which {version} forbids"
                    ),
                    "remove it, or run with --http 1.1",
                ));
            }
            if name != "host" {
                fields.push((name, value.trim().to_owned()));
            }
        }
        let mut templates = None;
        let has_body_by_nature = matches!(parts.method, "POST" | "PUT" | "PATCH");
        if is_templated {
            let parsed = |text: &str| {
                Template::parse(text)
                    .map_err(|error| PlanError { what: format!("{what}: {error}"), hint: None })
            };
            let mut filled = Vec::new();
            let mut fixed = Vec::new();
            for (name, value) in fields {
                let template = parsed(&value)?;
                if template.is_plain() || name.starts_with(':') {
                    // An escaped brace is written as a template, too.
                    let text: String = template.literals().collect();
                    fixed.push((name, text));
                } else {
                    filled.push((name, template));
                }
            }
            fields = fixed;
            let body = parts.body.map(|body| parsed(&String::from_utf8_lossy(body))).transpose()?;
            templates = Some(Templates { path: parsed(parts.target)?, fields: filled, body });
        }
        let fills_body = templates.as_ref().is_some_and(|templates| templates.body.is_some());
        let body = parts.body.filter(|_| !fills_body).unwrap_or_default().to_vec();
        if (parts.body.is_some() || has_body_by_nature) && !fills_body && given("content-length").is_none() {
            fields.push(("content-length".to_owned(), body.len().to_string()));
        }
        self.drafts.push(Draft { origin, fields, path: parts.target.to_owned(), body, templates });
        Ok(())
    }

    /// Encodes the blocks.
    pub(crate) fn finish(self) -> Result<Requests, PlanError> {
        let mut requests = Requests { coding: self.coding, ..Requests::default() };
        let origins = self.drafts.iter().map(|draft| draft.origin + 1).max().unwrap_or(0);
        let common: Vec<Vec<(String, String)>> =
            (0..origins).map(|origin| self.shared_by_all(origin)).collect();
        for draft in self.drafts {
            let common = &common[draft.origin as usize];
            let blocks = [Variant::First, Variant::Warm, Variant::Plain];
            let blocks = match self.coding {
                Coding::Hpack => blocks.map(|variant| requests.blocks(&draft, common, variant)),
                Coding::Qpack => [requests.blocks(&draft, common, Variant::Plain); 3],
            };
            let body = requests.append(&draft.body);
            let template = draft.templates.is_some().then_some(requests.templates.len() as u32);
            requests.templates.extend(draft.templates);
            requests.all.push(Request { blocks, body, template });
        }
        if u32::try_from(requests.bytes.len()).is_err() {
            return Err(PlanError::new(
                "the requests of the workload take more than 4 GiB",
                "shorten the bodies or split the workload",
            ));
        }
        Ok(requests)
    }

    /// The fields that all requests to a server share and that are not in the static table, as many as a dynamic
    /// table can hold.
    fn shared_by_all(&self, origin: u32) -> Vec<(String, String)> {
        let mut drafts = self.drafts.iter().filter(|draft| draft.origin == origin);
        if self.coding == Coding::Qpack {
            return Vec::new();
        }
        let Some(first) = drafts.next() else { return Vec::new() };
        let mut common = first.fields.clone();
        common.retain(|(name, value)| {
            name != ":method" && !matches!(static_table::find(name, value), Some((_, true)))
        });
        for draft in drafts {
            common.retain(|field| draft.fields.contains(field));
        }
        let mut bytes = 0;
        common.retain(|(name, value)| {
            let size = name.len() + value.len() + ENTRY_BYTES;
            let has_room = bytes + size <= TABLE_BYTES;
            bytes += if has_room { size } else { 0 };
            has_room
        });
        common
    }
}

impl Requests {
    fn append(&mut self, bytes: &[u8]) -> Slice {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Slice::of_bytes(start, bytes.len())
    }

    fn blocks(&mut self, draft: &Draft, common: &[(String, String)], variant: Variant) -> (Slice, Slice) {
        let mut before = if self.coding == Coding::Qpack { qpack::PREFIX.to_vec() } else { Vec::new() };
        let mut behind = Vec::new();
        let own = draft.fields.iter().filter(|field| field.0.starts_with(':') || !common.contains(field));
        let shared = common.iter().filter(|field| !field.0.starts_with(':'));
        // Pseudo-header fields first, then shared fields, which are in the same order for all requests.
        let (pseudo, own): (Vec<_>, Vec<_>) = own.partition(|field| field.0.starts_with(':'));
        for field in pseudo.into_iter().chain(shared).chain(own) {
            let (name, value) = field;
            let out = if name.starts_with(':') { &mut before } else { &mut behind };
            let place = common.iter().position(|known| known == field);
            match place.filter(|_| variant != Variant::Plain) {
                // The newest entry has the lowest index.
                Some(place) if variant == Variant::Warm => {
                    encoder::indexed(FIELDS.len() + common.len() - place, out);
                }
                Some(_) => {
                    self.coding.field(name, value.as_bytes(), Literal::Inserted, out);
                }
                None => {
                    self.coding.field(name, value.as_bytes(), Literal::Plain, out);
                }
            }
        }
        if draft.templates.is_some() {
            return (self.append(&before), self.append(&behind));
        }
        self.coding.field(":path", draft.path.as_bytes(), Literal::Plain, &mut before);
        before.extend(behind);
        (self.append(&before), Slice::default())
    }

    fn slice(&self, slice: Slice) -> &[u8] {
        &self.bytes[slice.start()..slice.end()]
    }

    /// Fills in a request with the client's next values, for [`Requests::block`] and [`Requests::body`].
    pub(crate) fn render(
        &self,
        number: u32,
        feeds: &IndexMap<String, Feed>,
        for_targets: &IndexMap<String, Feed>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) {
        let Some(template) = self.all[number as usize].template else { return };
        let templates = &self.templates[template as usize];
        let (random, sequence) = (&mut client.random, client.rendered);
        let mut context = RenderContext { random, sequence, feeds: for_targets, row: client.pages - 1 };
        client.rendered += 1;
        let mut value = Vec::new();
        templates.path.render(&mut value, &mut context);
        let mut piece = Vec::new();
        self.coding.field(":path", &value, Literal::Plain, &mut piece);
        put(&piece, out);
        context.feeds = feeds;
        piece.clear();
        for (name, template) in &templates.fields {
            value.clear();
            template.render(&mut value, &mut context);
            self.coding.field(name, value.trim_ascii(), Literal::Plain, &mut piece);
        }
        value.clear();
        if let Some(body) = &templates.body {
            body.render(&mut value, &mut context);
            let length = value.len().to_string();
            self.coding.field("content-length", length.as_bytes(), Literal::Plain, &mut piece);
        }
        put(&piece, out);
        out.extend_from_slice(&value);
    }

    /// Appends a request's header block. `rendered` is what [`Requests::render`] made.
    #[inline]
    pub(crate) fn block(&self, number: u32, variant: Variant, rendered: &[u8], out: &mut Vec<u8>) {
        let (before, behind) = self.all[number as usize].blocks[variant as usize];
        out.extend_from_slice(self.slice(before));
        if !rendered.is_empty() {
            let (path, rest) = take(rendered);
            out.extend_from_slice(path);
            out.extend_from_slice(self.slice(behind));
            out.extend_from_slice(take(rest).0);
        }
    }

    /// A request's body.
    #[inline]
    pub(crate) fn body<'a>(&'a self, number: u32, rendered: &'a [u8]) -> &'a [u8] {
        let request = &self.all[number as usize];
        if rendered.is_empty() || !request.body.is_empty() {
            return self.slice(request.body);
        }
        take(take(rendered).1).1
    }

    /// The whole request as text, for a trace.
    pub(crate) fn text(&self, number: u32, rendered: &[u8]) -> Vec<u8> {
        let (mut block, mut text) = (Vec::new(), Vec::new());
        self.block(number, Variant::Plain, rendered, &mut block);
        // Decoding what was encoded here cannot fail.
        let _ = match self.coding {
            Coding::Hpack => Decoder::with_text().decode_text(&block, &mut text),
            Coding::Qpack => qpack::decode(&block, Some(&mut text)),
        };
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(self.body(number, rendered));
        text
    }
}

fn put(piece: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(piece.len() as u32).to_le_bytes());
    out.extend_from_slice(piece);
}

/// The first piece, and the rest.
fn take(rendered: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = rendered.split_at(4);
    rest.split_at(u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_workload::load::HttpVersion;

    fn parts<'a>(
        target: &'a str,
        headers: &'a [(String, String)],
        body: Option<&'a [u8]>,
    ) -> RequestParts<'a> {
        RequestParts {
            method: if body.is_some() { "POST" } else { "GET" },
            target,
            host: "h:8080",
            version: HttpVersion::Http2,
            headers,
            body,
            last: false,
            body_later: false,
        }
    }

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> String {
        let mut out = Vec::new();
        decoder.decode_text(block, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_variants_say_the_same_in_any_order() {
        let own = [("X-Own".to_owned(), "1".to_owned()), ("Accept".to_owned(), "text/html".to_owned())];
        let mut builder = Builder::default();
        for (target, headers) in [("/", &own[..0]), ("/a", &own[..1]), ("/b?c", &own[..0])] {
            builder.add("test", 0, "http", false, &parts(target, headers, None)).unwrap();
        }
        builder.add("test", 1, "http", false, &parts("/p", &own, Some(b"body"))).unwrap();
        let requests = builder.finish().unwrap();
        let agent = concat!("user-agent: webstone/", env!("CARGO_PKG_VERSION"));
        let expected = [
            format!(
                ":method: GET\r\n:scheme: http\r\n:authority: h:8080\r\n:path: /\r\n{agent}\r\naccept: */*\r\n"
            ),
            format!(
                ":method: GET\r\n:scheme: http\r\n:authority: h:8080\r\n:path: /a\r\n{agent}\r\naccept: */*\r\nx-own: 1\r\n"
            ),
            format!(
                ":method: GET\r\n:scheme: http\r\n:authority: h:8080\r\n:path: /b?c\r\n{agent}\r\naccept: */*\r\n"
            ),
        ];
        let block = |number: u32, variant| {
            let mut block = Vec::new();
            requests.block(number, variant, &[], &mut block);
            block
        };
        for first in 0..3_u32 {
            let mut decoder = Decoder::with_text();
            assert_eq!(decoded(&mut decoder, &block(first, Variant::First)), expected[first as usize]);
            for number in [0, 1, 2, 1, 0_u32] {
                assert_eq!(decoded(&mut decoder, &block(number, Variant::Warm)), expected[number as usize]);
                assert_eq!(decoded(&mut decoder, &block(number, Variant::Plain)), expected[number as usize]);
            }
        }
        // Method, scheme and path from the static table, and three entries of the dynamic one.
        assert_eq!(block(0, Variant::Warm).len(), 6);
        assert!(
            String::from_utf8(requests.text(3, &[]))
                .unwrap()
                .ends_with("accept: text/html\r\ncontent-length: 4\r\n\r\nbody")
        );
    }

    #[test]
    fn rendered_values_are_in_their_places() {
        let headers = [("X-N".to_owned(), "n{{seq}}".to_owned())];
        let mut builder = Builder::default();
        builder.add("test", 0, "http", true, &parts("/{{seq}}", &headers, Some(b"{{seq}}{{seq}}"))).unwrap();
        let requests = builder.finish().unwrap();
        let mut client = Client::new(1, 0);
        client.pages = 1;
        let none = IndexMap::new();
        for number in 0..12 {
            let mut rendered = Vec::new();
            requests.render(0, &none, &none, &mut client, &mut rendered);
            let text = String::from_utf8(requests.text(0, &rendered)).unwrap();
            let body = format!("{number}{number}");
            assert!(text.contains(&format!(":path: /{number}\r\n")), "{text}");
            let end = format!("x-n: n{number}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            assert!(text.ends_with(&end), "{text}");
        }
    }

    #[test]
    fn fields_of_http1_are_refused() {
        let headers = [("Connection".to_owned(), "close".to_owned())];
        let error =
            Builder::default().add("page 0", 0, "http", false, &parts("/", &headers, None)).unwrap_err();
        assert!(error.what.contains("page 0: `connection: close`") && error.hint.is_some(), "{}", error.what);
    }
}
