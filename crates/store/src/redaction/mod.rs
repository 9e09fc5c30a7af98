//! Takes secrets out of whatever is about to be stored: server configurations, the command line, the specification, the
//! workload, environment variables. What is sent to the server is never touched, only what is kept.
//!
//! No file format is parsed here. nginx, Apache httpd, lighttpd, Caddy, HAProxy, PHP, YAML, JSON, XML and shells agree on more
//! than they differ in: a name, perhaps a separator, a value. `names` knows which names announce a secret and where their value
//! ends; `shapes` knows secrets by their form, without a name. In doubt too much is redacted: nobody misses a value, and
//! everybody can read a key.

mod names;
mod shapes;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;
use sha2::{Digest, Sha256};
use webstone_measure::errors::{ErrorCount, ErrorTable};
use webstone_measure::strict;
use webstone_model::generators::{GeneratorLoss, GeneratorRecord};
use webstone_model::record::AgentRecord;
pub use webstone_model::redacted::REDACTED;
use webstone_model::spec::RunSpec;
use webstone_workload::Workload;

/// Longest body that a record keeps, in bytes.
const BODY_KEPT_BYTES_MAX: usize = 64 << 10;

/// A text without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// The text.
    pub text: String,
    /// How many secrets were taken out.
    pub secrets: usize,
}

/// A configuration, or any other text, without its secrets.
pub fn text(text: &str) -> Redacted {
    let named = replace(text, names::secrets(text));
    let shaped = replace(&named.text, shapes::secrets(&named.text));
    Redacted { text: shaped.text, secrets: named.secrets + shaped.secrets }
}

/// A message for people, which quotes what they typed, without users and passwords before hosts.
pub fn message(text: &str) -> Cow<'_, str> {
    match text.contains('@') {
        false => Cow::Borrowed(text),
        true => Cow::Owned(replace(text, shapes::users(text)).text),
    }
}

/// The value of a header field, a variable or a key, with its name known for sure.
pub fn value(name: &str, value: &str) -> String {
    if names::is_secret_field(name) && !names::is_harmless(value) {
        REDACTED.to_owned()
    } else {
        text(value).text
    }
}

/// A line of an exchange, as a trace shows it: the first line or a field of a head, or a line of a body.
pub fn line_of_exchange(line: &str, is_head: bool) -> String {
    match line.split_once(':').filter(|(name, _)| is_head && !name.contains(' ')) {
        Some((name, secret)) if names::is_secret_field(name) && !names::is_harmless(secret) => {
            format!("{name}: {REDACTED}")
        }
        _ => form(line),
    }
}

/// A request's body: the first field of a form has no separator before it.
fn form(body: &str) -> String {
    text(&format!("&{body}")).text.split_off(1)
}

/// A command line, word by word: `-H 'Authorization: …'`, `--body 'password=…'`, URLs with a password.
pub fn command_line(words: &[String]) -> Vec<String> {
    let (mut after_body, mut after_bytes) = (false, false);
    let mut kept = Vec::with_capacity(words.len());
    for word in words {
        // The value of an option may begin with a header's name: `-HCookie: …`.
        let (option, rest) = match word.strip_prefix("-H") {
            Some(rest) if !rest.is_empty() => ("-H", rest),
            _ => ("", word.as_str()),
        };
        let header = rest.split_once(':').or_else(|| rest.strip_prefix("--header=")?.split_once(':'));
        kept.push(match header {
            _ if after_body => form(word),
            _ if after_bytes => REDACTED.to_owned(),
            _ if word.starts_with("--body-base64=") => format!("--body-base64={REDACTED}"),
            _ if word.starts_with("--form=") => format!("--form={}", form(&word["--form=".len()..])),
            _ if word.starts_with("--body=") => format!("--body={}", form(&word["--body=".len()..])),
            // A whole command is not a header, whatever stands in it before a colon.
            Some((name, secret))
                if !name.trim().contains(char::is_whitespace)
                    && names::is_secret_field(name.trim())
                    && !names::is_harmless(secret) =>
            {
                let head = &rest[..rest.len() - secret.len()];
                format!("{option}{head} {REDACTED}")
            }
            // A page with its weight, which looks like a user and a hash where its path has 13 characters.
            Some((weight, path)) if path.starts_with('/') && weight.bytes().all(|c| c.is_ascii_digit()) => {
                format!("{weight}:{}", text(path).text)
            }
            _ => text(word).text,
        });
        after_body = matches!(&**word, "--body" | "--form" | "-F");
        after_bytes = word == "--body-base64";
    }
    kept
}

/// A specification as a record keeps it.
pub fn spec(spec: &RunSpec) -> RunSpec {
    let mut kept = spec.clone();
    let client = &mut kept.client;
    client.headers.values_mut().for_each(|(name, secret)| *secret = value(name, secret));
    client.body = client.body.as_deref().map(body);
    if let Some(bytes) = client.body_base64.take() {
        // Parts of a form may be secrets, and nothing says which.
        client.body = Some(unkept(&bytes.0, "it is not text"));
    }
    // All other texts: targets, names, commands, disclosures, and those of later versions.
    let whole = serde_json::to_value(&kept).ok().and_then(|mut value| {
        every_text(&mut value);
        strict::tree::<RunSpec>(&value).ok()
    });
    let Some(mut whole) = whole else { return kept };
    // Headers are sent in the order in which they were given, which a tree of values does not keep.
    whole.client.headers.order_like(&kept.client.headers);
    whole
}

/// The hosts that made a load, as a record keeps them: the commands that started their agents, and what they said of themselves.
pub fn generators(generators: &mut [GeneratorRecord]) {
    for host in generators {
        host.command = text(&host.command).text;
        host.environment.values_mut().for_each(every_text);
    }
}

/// The agents that monitored the server, as a record keeps them.
pub fn server_agents(agents: &mut [AgentRecord]) {
    for agent in agents {
        agent.command = text(&agent.command).text;
        agent.environment.values_mut().for_each(every_text);
    }
}

/// A host that was lost, as a record keeps it: the reason may be the last output of its command.
pub fn loss(lost: &mut GeneratorLoss) {
    lost.why = text(&lost.why).text;
}

fn every_text(value: &mut Value) {
    match value {
        Value::String(words) => *words = text(words).text,
        Value::Array(items) => items.iter_mut().for_each(every_text),
        Value::Object(fields) => fields.values_mut().for_each(every_text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A request's body as a record keeps it: a long one by its length and check sum. Looking for secrets takes a second per megabyte, and
/// every report of the record would carry it.
fn body(body: &str) -> String {
    match body.len() {
        length if length > BODY_KEPT_BYTES_MAX => {
            unkept(body.as_bytes(), &format!("it is longer than {BODY_KEPT_BYTES_MAX}"))
        }
        _ => form(body),
    }
}

fn unkept(body: &[u8], why: &str) -> String {
    let sum = Sha256::digest(body);
    format!("[body of {} bytes, SHA-256 {sum:x}; not kept, because {why}]", body.len())
}

/// A workload as a record keeps it. Feeds often hold names and passwords: only their shape and a fingerprint are kept. The check sum is
/// then of what is kept: one of the whole would let a reader try passwords.
pub fn workload(workload: &mut Workload) {
    workload.name = text(&workload.name).text;
    workload.description = text(&workload.description).text;
    workload.feeds.values_mut().for_each(|feed| *feed = feed.sealed());
    for file in workload.pages.iter_mut().flat_map(|page| page.files.iter_mut()) {
        // There may be 100,000 of them, nearly all without a query.
        let named =
            |part: &str| part.split_once('=').is_some_and(|(name, _)| names::is_secret_parameter(name));
        if file.url.contains('@') || file.url.split(['?', '&', '/', ';']).any(named) {
            file.url = text(&file.url).text.into();
        }
        if !file.detail.is_plain() {
            file.detail.headers.values_mut().for_each(|(name, secret)| *secret = value(name, secret));
            file.detail.body = file.detail.body.as_deref().map(body);
        }
    }
}

/// The first example of each class of error names its request, and that may have a token in its query.
pub fn errors(table: ErrorTable) -> ErrorTable {
    let mut classes: Vec<ErrorCount> = table.into();
    for example in classes.iter_mut().filter_map(|class| class.first.as_mut()) {
        example.request = text(&example.request).text;
        example.detail = text(&example.detail).text;
    }
    classes.into()
}

/// Ranges must be in order, without overlap.
fn replace(text: &str, secrets: Vec<Range<usize>>) -> Redacted {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for secret in &secrets {
        kept += &text[from..secret.start];
        kept += REDACTED;
        from = secret.end;
    }
    kept += &text[from..];
    Redacted { text: kept, secrets: secrets.len() }
}

#[cfg(test)]
mod tests;
