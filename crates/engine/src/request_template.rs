//! Requests that differ each time they are sent: heads and bodies with placeholders.

use indexmap::IndexMap;
use webstone_workload::load::GeneratorTask;
use webstone_workload::template::{RenderContext, Template};
use webstone_workload::{Feed, FileRequest};

use crate::client::Client;
use crate::feeds::check_fields;
use crate::h1::request::{RequestParts, is_target, write_request};
use crate::plan_error::PlanError;

/// A request with placeholders.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    /// The request line.
    line: Template,
    /// Header fields without the final empty line; for a connection that stays open.
    keep: Template,
    /// The same for the last request on a connection.
    last: Template,
    body: Option<Template>,
    is_chunked: bool,
}

impl RequestTemplate {
    /// Whether a request has any placeholder.
    pub(crate) fn is_needed(what: &str, spec: &GeneratorTask, file: &FileRequest) -> Result<bool, PlanError> {
        let headers = spec.client.headers.iter().chain(&file.detail.headers).map(|(_, value)| value);
        let body = file.detail.body.as_ref().or(spec.client.body.as_ref()).filter(|_| !file.detail.no_body);
        for text in headers.chain(body).map(String::as_str).chain([&*file.url]) {
            if text.contains("{{") && !parse_template(what, text)?.is_plain() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the text between the placeholders of a target is valid in a request line.
    pub(crate) fn is_target(what: &str, text: &str) -> Result<bool, PlanError> {
        let template = parse_template(what, text)?;
        Ok(template.literals().all(|literal| literal.is_empty() || is_target(literal)))
    }

    /// The request line, which is filled with encoded values: [`crate::feeds::for_targets`].
    pub(crate) fn line(&self) -> &Template {
        &self.line
    }

    /// Makes the template of a request, and takes its body out of `parts`.
    pub(crate) fn for_file(
        what: &str,
        parts: &mut RequestParts<'_>,
        feeds: &IndexMap<String, Feed>,
    ) -> Result<RequestTemplate, PlanError> {
        let is_chunked = parts.is_chunked();
        let body = parts.body.take().or(is_chunked.then_some(&b""[..]));
        let head = |last: bool| -> Result<(Template, Template), PlanError> {
            let mut bytes = Vec::new();
            write_request(&RequestParts { last, body_later: body.is_some(), ..*parts }, &mut bytes);
            // Without the empty line: fields of the body are added when it is rendered.
            bytes.truncate(bytes.len() - 2);
            let text = String::from_utf8(bytes).expect("made of strings");
            let line_end = text.find("\r\n").map_or(0, |at| at + 2);
            let (line, fields) = text.split_at(line_end);
            Ok((parse_template(what, line)?, parse_template(what, fields)?))
        };
        let ((line, keep), (_, last)) = (head(false)?, head(true)?);
        check_fields(what, &keep, feeds)?;
        let body = body.map(|body| parse_template(what, &String::from_utf8_lossy(body))).transpose()?;
        Ok(RequestTemplate { line, keep, last, body, is_chunked })
    }

    /// Appends the request, filled with the client's next values, to `out`. `for_targets` are the feeds encoded for
    /// request lines.
    pub(crate) fn render(
        &self,
        feeds: &IndexMap<String, Feed>,
        for_targets: &IndexMap<String, Feed>,
        is_last: bool,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) {
        let mut context = RenderContext {
            random: &mut client.random,
            sequence: client.rendered,
            feeds: for_targets,
            row: client.pages - 1,
        };
        client.rendered += 1;
        self.line.render(out, &mut context);
        context.feeds = feeds;
        let head = if is_last { &self.last } else { &self.keep };
        head.render(out, &mut context);
        let Some(body) = &self.body else { return out.extend_from_slice(b"\r\n") };
        // The length precedes the body but is known only after it: render in place, then move the body.
        let head_end = out.len();
        body.render(out, &mut context);
        let bytes = out.len() - head_end;
        let front = match self.is_chunked {
            true if bytes == 0 => "\r\n".to_owned(),
            true => format!("\r\n{bytes:x}\r\n"),
            false => format!("Content-Length: {bytes}\r\n\r\n"),
        };
        out.splice(head_end..head_end, front.bytes());
        if self.is_chunked {
            out.extend_from_slice(if bytes == 0 { b"0\r\n\r\n" } else { b"\r\n0\r\n\r\n" });
        }
    }
}

fn parse_template(what: &str, text: &str) -> Result<Template, PlanError> {
    Template::parse(text).map_err(|error| {
        PlanError::new(format!("{what}: `{text}`: {error}"), "write {{\"{{\"}} for two literal braces")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_workload::load::HttpVersion;

    #[test]
    fn a_rendered_body_has_its_own_content_length() {
        let mut parts = RequestParts {
            method: "POST",
            target: "/{{seq}}",
            host: "h",
            version: HttpVersion::Http11,
            headers: &[],
            body: Some(b"n={{rand 1000 9999}}"),
            last: false,
            body_later: false,
        };
        let template = RequestTemplate::for_file("test", &mut parts, &IndexMap::new()).unwrap();
        let mut client = Client::new(1, 0);
        client.pages = 1;
        for number in 0..3 {
            let mut out = Vec::new();
            template.render(&IndexMap::new(), &IndexMap::new(), true, &mut client, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with(&format!("POST /{number} HTTP/1.1\r\n")), "{text}");
            assert_eq!(text.matches("Content-Length: ").count(), 1, "{text}");
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(
                head.ends_with("Content-Length: 6") && body.len() == 6 && body.starts_with("n="),
                "{text}"
            );
        }
    }
}
