//! A curl command line as one of `hit`: options that change what is requested become webstone's, those that only change what curl
//! shows are ignored, and all others are refused by name.

use std::ffi::OsString;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use webstone_measure::shown::quoted;
use webstone_store::plain_file::{self, Links};
use webstone_store::without_number;
use webstone_workload::Base64;

use crate::failure::Failure;
use crate::intent::body::BODY_BYTES_MAX;

/// All but RFC 3986's unreserved characters.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What an option of curl does to the command line.
#[derive(Clone, Copy)]
enum Does {
    /// Nothing that is measured.
    Nothing,
    /// The same, with a value.
    NothingWith,
    /// These words stand for it.
    Says(&'static [&'static str]),
    /// This option has its value.
    Has(&'static str),
    /// It is a header field of this name.
    Field(&'static str),
    Data(Data),
    /// Something of its own, without a value or with one.
    Flag(fn(&mut Curl)),
    Value(fn(&mut Curl, &str) -> Result<(), Failure>),
}

/// How the value of `-d` and the like becomes a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// `@FILE` without its line ends.
    Plain,
    Raw,
    /// `@FILE` as it is.
    Binary,
    Encoded,
    Json,
}

use Does::{Field, Flag, Has, Nothing, NothingWith, Says, Value};

/// Short name (or a space), long names, effect.
const OPTIONS: &[(char, &[&str], Does)] = &[
    ('X', &["request"], Value(|curl, method| curl.set_method(method))),
    ('I', &["head"], Flag(|curl| curl.method = Some("HEAD".to_owned()))),
    ('H', &["header"], Value(Curl::header)),
    ('d', &["data", "data-ascii"], Does::Data(Data::Plain)),
    (' ', &["data-raw"], Does::Data(Data::Raw)),
    (' ', &["data-binary"], Does::Data(Data::Binary)),
    (' ', &["data-urlencode"], Does::Data(Data::Encoded)),
    (' ', &["json"], Does::Data(Data::Json)),
    ('G', &["get"], Flag(|curl| curl.is_query = true)),
    ('F', &["form"], Has("--form")),
    ('T', &["upload-file"], Value(Curl::upload)),
    ('u', &["user"], Value(Curl::user)),
    (' ', &["oauth2-bearer"], Value(|curl, token| curl.field("Authorization", &format!("Bearer {token}")))),
    ('b', &["cookie"], Value(Curl::cookie)),
    ('A', &["user-agent"], Field("User-Agent")),
    ('e', &["referer"], Field("Referer")),
    ('r', &["range"], Value(|curl, range| curl.field("Range", &format!("bytes={range}")))),
    ('k', &["insecure"], Says(&["--insecure"])),
    (' ', &["compressed"], Says(&["--accept-encoding", "deflate,gzip,br,zstd"])),
    ('0', &["http1.0"], Says(&["--http", "1.0"])),
    (' ', &["http1.1"], Says(&["--http", "1.1"])),
    (' ', &["http2", "http2-prior-knowledge"], Says(&["--http", "2"])),
    ('L', &["location", "location-trusted"], Flag(|curl| curl.follows = true)),
    (' ', &["max-redirs"], Value(Curl::redirects)),
    (' ', &["resolve"], Value(Curl::resolve)),
    (' ', &["connect-to"], Has("--connect-to")),
    (' ', &["unix-socket"], Has("--unix-socket")),
    ('x', &["proxy"], Value(Curl::proxy)),
    (' ', &["haproxy-protocol"], Says(&["--proxy-protocol", "v1"])),
    (' ', &["cacert"], Has("--cacert")),
    ('E', &["cert"], Has("--cert")),
    (' ', &["key"], Has("--key")),
    (' ', &["ciphers"], Value(|curl, list| curl.has("--tls-ciphers", &list.replace(':', ",")))),
    (' ', &["tls13-ciphers"], Value(|curl, list| curl.has("--tls-ciphers", &list.replace(':', ",")))),
    (' ', &["curves"], Value(|curl, list| curl.has("--tls-groups", &list.replace(':', ",")))),
    (' ', &["tlsv1.2"], Says(&["--tls-version", "1.2,1.3"])),
    (' ', &["tlsv1.3"], Says(&["--tls-version", "1.3"])),
    ('m', &["max-time"], Value(|curl, seconds| curl.has("--timeout", &format!("{seconds}s")))),
    (' ', &["connect-timeout"], Value(|curl, time| curl.has("--connect-timeout", &format!("{time}s")))),
    (' ', &["url"], Value(|curl, url| curl.set_url(url))),
    ('g', &["globoff"], Flag(|curl| curl.is_literal = true)),
    ('s', &["silent"], Nothing),
    ('S', &["show-error"], Nothing),
    ('v', &["verbose"], Nothing),
    ('i', &["include", "show-headers"], Nothing),
    ('f', &["fail", "fail-with-body"], Nothing),
    ('#', &["progress-bar", "no-progress-meter"], Nothing),
    ('N', &["no-buffer"], Nothing),
    ('O', &["remote-name"], Nothing),
    ('J', &["remote-header-name"], Nothing),
    ('q', &["disable"], Nothing),
    (
        ' ',
        &["path-as-is", "tcp-nodelay", "no-keepalive", "create-dirs", "styled-output", "no-styled-output"],
        Nothing,
    ),
    (' ', &["trace-time", "trace-ids", "remove-on-error", "retry-all-errors", "retry-connrefused"], Nothing),
    ('o', &["output"], NothingWith),
    ('w', &["write-out"], NothingWith),
    ('D', &["dump-header"], NothingWith),
    ('c', &["cookie-jar"], NothingWith),
    (
        ' ',
        &[
            "output-dir",
            "stderr",
            "trace",
            "trace-ascii",
            "keepalive-time",
            "retry",
            "retry-delay",
            "retry-max-time",
        ],
        NothingWith,
    ),
];

/// What was read so far.
#[derive(Default)]
struct Curl {
    words: Vec<String>,
    url: Option<String>,
    method: Option<String>,
    fields: Vec<String>,
    body: Option<Vec<u8>>,
    /// The data are the URL's query.
    is_query: bool,
    is_json: bool,
    is_upload: bool,
    is_literal: bool,
    follows: bool,
    redirects: Option<u32>,
}

/// The command line with webstone's options where `--curl COMMAND` of `hit` stands; `None` of other command lines.
pub(crate) fn command(arguments: &[OsString]) -> Result<Option<Vec<OsString>>, Failure> {
    let (at, value, ends) = match arguments.iter().position(|word| word == "--curl") {
        Some(at) => match arguments.get(at + 1) {
            Some(value) => (at, value.clone(), at + 2),
            // The parser says that it is missing.
            None => return Ok(None),
        },
        None => {
            let value = |word: &OsString| word.to_str()?.strip_prefix("--curl=").map(OsString::from);
            match arguments.iter().enumerate().find_map(|(at, word)| Some((at, value(word)?))) {
                Some((at, value)) => (at, value, at + 1),
                None => return Ok(None),
            }
        }
    };
    let before = &arguments[..at];
    let is_hit = before.iter().any(|word| word == "hit");
    // As with a URL, the command may be left out.
    if !is_hit && before.len() != 1 {
        return Ok(None);
    }
    let text = value.to_str().ok_or_else(|| Failure::usage("--curl: the command line is not UTF-8"))?;
    let words = words(text)?.into_iter().map(OsString::from);
    let hit = (!is_hit).then(|| OsString::from("hit"));
    Ok(Some(
        before.iter().cloned().chain(hit).chain(words).chain(arguments[ends..].iter().cloned()).collect(),
    ))
}

/// The words of `hit` for a command line of curl.
fn words(text: &str) -> Result<Vec<String>, Failure> {
    let wrong = |rule: String| Failure::usage(format!("--curl: {rule}"));
    if text.contains("$'") {
        return Err(wrong("`$'…'` is a quotation of bash's own".to_owned())
            .hint("write the text in plain quotation marks; --data-binary @FILE takes other bytes"));
    }
    // As shells continue a line, and as browsers copy a request.
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let all = shlex::split(&text).ok_or_else(|| {
        wrong("a quotation mark is not closed".to_owned())
            .hint("put the whole command line between single quotation marks")
    })?;
    let is_program = |word: &String| word == "curl" || word.ends_with("/curl");
    let mut rest = all.iter().skip(usize::from(all.first().is_some_and(is_program)));
    let mut curl = Curl::default();
    let mut is_over = false;
    while let Some(word) = rest.next() {
        if is_over || !word.starts_with('-') || word == "-" {
            curl.set_url(word)?;
            continue;
        }
        if word == "--" {
            is_over = true;
            continue;
        }
        if let Some(long) = word.strip_prefix("--") {
            let does = OPTIONS.iter().find(|(_, names, _)| names.contains(&long)).map(|(.., does)| *does);
            curl.take(word, does.ok_or_else(|| unknown(word))?, None, &mut rest)?;
            continue;
        }
        // Several in one word, the last perhaps with its value: -sSLo FILE, -XPOST.
        for (at, letter) in word[1..].char_indices() {
            let name = format!("-{letter}");
            let does = OPTIONS.iter().find(|(short, ..)| *short == letter && letter != ' ');
            let does = does.map(|(.., does)| *does).ok_or_else(|| unknown(&name))?;
            let value = Some(&word[1 + at + letter.len_utf8()..]).filter(|value| !value.is_empty());
            if curl.take(&name, does, value, &mut rest)? {
                break;
            }
        }
    }
    curl.said()
}

fn unknown(option: &str) -> Failure {
    Failure::usage(format!("--curl: {option} is not an option of curl that webstone knows"))
        .hint("leave it out if it changes nothing that is measured; `webstone hit --help` has webstone's own options")
}

impl Curl {
    /// Takes an option; returns whether it had a value.
    fn take<'a>(
        &mut self,
        name: &str,
        does: Does,
        attached: Option<&'a str>,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<bool, Failure> {
        let mut value = || {
            attached.or_else(|| rest.next().map(String::as_str)).ok_or_else(|| {
                Failure::usage(format!("--curl: {name}: a value is missing"))
                    .hint("write it after the option")
            })
        };
        match does {
            Nothing => return Ok(false),
            Flag(set) => {
                set(self);
                return Ok(false);
            }
            Says(words) => {
                self.words.extend(words.iter().map(|word| (*word).to_owned()));
                return Ok(false);
            }
            NothingWith => {
                value()?;
            }
            Has(option) => self.has(option, value()?)?,
            Field(field) => self.field(field, value()?)?,
            Does::Data(data) => self.data(name, data, value()?)?,
            Value(set) => set(self, value()?)?,
        }
        Ok(true)
    }

    fn has(&mut self, option: &str, value: &str) -> Result<(), Failure> {
        self.words.push(option.to_owned());
        self.words.push(value.to_owned());
        Ok(())
    }

    fn set_method(&mut self, method: &str) -> Result<(), Failure> {
        self.method = Some(method.to_owned());
        Ok(())
    }

    fn set_url(&mut self, url: &str) -> Result<(), Failure> {
        if let Some(first) = &self.url {
            return Err(Failure::usage(format!("--curl: `{url}` is a second URL, after `{first}`"))
                .hint("give one; --urls FILE takes several"));
        }
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        self.url = Some(url);
        Ok(())
    }

    fn field(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        self.fields.push(format!("{name}: {value}"));
        Ok(())
    }

    fn has_field(&self, name: &str) -> bool {
        let is = |field: &String| {
            field.split(':').next().is_some_and(|found| found.trim().eq_ignore_ascii_case(name))
        };
        self.fields.iter().any(is)
    }

    fn header(&mut self, field: &str) -> Result<(), Failure> {
        let wrong = |rule: &str, hint: &str| {
            Err(Failure::usage(format!("--curl: -H {}: {rule}", quoted(field))).hint(hint))
        };
        match field.split_once(':') {
            _ if field.starts_with('@') => {
                wrong("fields are not read from a file", "write each with an -H of its own")
            }
            Some((_, value)) if value.trim().is_empty() => {
                wrong("a default field cannot be removed", "leave it out, or give it a value")
            }
            Some(_) => {
                self.fields.push(field.to_owned());
                Ok(())
            }
            None => match field.strip_suffix(';') {
                Some(name) => self.field(name, ""),
                None => wrong("it has no colon", "write -H 'Name: value'"),
            },
        }
    }

    fn data(&mut self, option: &str, data: Data, value: &str) -> Result<(), Failure> {
        self.is_json |= data == Data::Json;
        let bytes = match (data, value.strip_prefix('@')) {
            (Data::Encoded, _) => self.encoded(option, value)?,
            (Data::Raw, _) | (_, None) => value.as_bytes().to_vec(),
            (_, Some(path)) => {
                let mut bytes = content(option, path)?;
                if data == Data::Plain {
                    bytes.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
                }
                bytes
            }
        };
        match &mut self.body {
            None => self.body = Some(bytes),
            Some(body) => {
                if data != Data::Json {
                    body.push(b'&');
                }
                body.extend_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// `text`, `=text`, `name=text`, `@file` or `name@file`, the text escaped.
    fn encoded(&self, option: &str, value: &str) -> Result<Vec<u8>, Failure> {
        let (name, text) = match value.find(['=', '@']) {
            None => ("", value.as_bytes().to_vec()),
            Some(at) if value.as_bytes()[at] == b'=' => (&value[..at], value.as_bytes()[at + 1..].to_vec()),
            Some(at) => (&value[..at], content(option, &value[at + 1..])?),
        };
        let mut out = if name.is_empty() { String::new() } else { format!("{name}=") };
        out.extend(percent_encode(&text, RESERVED));
        Ok(out.into_bytes())
    }

    fn upload(&mut self, path: &str) -> Result<(), Failure> {
        self.body = Some(content("-T", path)?);
        self.is_upload = true;
        Ok(())
    }

    fn user(&mut self, user: &str) -> Result<(), Failure> {
        if !user.contains(':') {
            return Err(Failure::usage("--curl: -u: the password is missing, and nobody is asked for it")
                .hint("write -u NAME:PASSWORD"));
        }
        self.field("Authorization", &format!("Basic {}", Base64(user.as_bytes().to_vec())))
    }

    fn cookie(&mut self, cookies: &str) -> Result<(), Failure> {
        if !cookies.contains('=') {
            return Err(Failure::usage(format!(
                "--curl: -b {}: cookies are not read from a file",
                quoted(cookies)
            ))
            .hint("write -b 'name=value; name=value'"));
        }
        self.field("Cookie", cookies)
    }

    fn redirects(&mut self, most: &str) -> Result<(), Failure> {
        let wrong = |_| {
            Failure::usage(format!("--curl: --max-redirs {}: it is not a number", quoted(most)))
                .hint("write 0 or more")
        };
        self.redirects = Some(most.parse().map_err(wrong)?);
        Ok(())
    }

    /// `HOST:PORT:ADDRESS`.
    fn resolve(&mut self, route: &str) -> Result<(), Failure> {
        let parts = route.trim_start_matches('+').splitn(3, ':').collect::<Vec<_>>();
        match parts[..] {
            [host, port, address] if !address.is_empty() && !address.contains(',') => {
                let address = match address.contains(':') && !address.starts_with('[') {
                    true => format!("[{address}]"),
                    false => address.to_owned(),
                };
                let host = if host == "*" { "" } else { host };
                self.has("--connect-to", &format!("{host}:{port}:{address}:{port}"))
            }
            _ => Err(Failure::usage(format!(
                "--curl: --resolve {}: it is not HOST:PORT:ADDRESS",
                quoted(route)
            ))
            .hint("write one address, as in example.org:443:127.0.0.1")),
        }
    }

    fn proxy(&mut self, proxy: &str) -> Result<(), Failure> {
        let url = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
        self.has("--proxy", &url)
    }

    fn said(mut self) -> Result<Vec<String>, Failure> {
        let Some(mut url) = self.url.take() else {
            return Err(Failure::usage("--curl: the URL is missing")
                .hint("write --curl \"curl -H 'Accept: text/html' http://127.0.0.1:8080/\""));
        };
        let path = url.split_once("://").and_then(|(_, rest)| Some(&rest[rest.find(['/', '?'])?..]));
        if let Some(mark) = path.and_then(|path| path.chars().find(|c| matches!(c, '{' | '}' | '[' | ']'))) {
            if !self.is_literal {
                return Err(Failure::usage(format!(
                    "--curl: `{url}`: to curl, {} begins or ends a list of URLs",
                    quoted(&mark.to_string())
                ))
                .hint("give one URL; -g takes the character as it is, and --urls FILE several URLs"));
            }
            url = url.replace('{', "%7B").replace('}', "%7D");
        }
        if self.is_query
            && let Some(body) = self.body.take()
        {
            let mark = if url.contains('?') { '&' } else { '?' };
            url = format!("{url}{mark}{}", String::from_utf8_lossy(&body));
        } else if self.body.is_some() && !self.is_upload {
            let kind = if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" };
            if !self.has_field("Content-Type") {
                self.field("Content-Type", kind)?;
            }
            if self.is_json && !self.has_field("Accept") {
                self.field("Accept", kind)?;
            }
        }
        let mut words = vec![url];
        let method = self.method.or_else(|| self.is_upload.then(|| "PUT".to_owned()));
        words.extend(method.into_iter().flat_map(|method| ["-m".to_owned(), method]));
        for field in self.fields {
            // Braces are not templates of webstone's.
            words.extend(["-H".to_owned(), field.replace("{{", "{{\"{{\"}}")]);
        }
        if let Some(body) = self.body {
            let text = String::from_utf8(body).map_err(|error| error.into_bytes());
            words.extend(match text {
                Ok(text) if !text.starts_with('@') && !text.contains("{{") => ["--body".to_owned(), text],
                Ok(text) => ["--body-base64".to_owned(), Base64(text.into_bytes()).to_string()],
                Err(bytes) => ["--body-base64".to_owned(), Base64(bytes).to_string()],
            });
        }
        match (self.follows, self.redirects) {
            (true, None) => words.push("--follow=50".to_owned()),
            (true, Some(most)) if most > 0 => words.push(format!("--follow={most}")),
            _ => {}
        }
        words.extend(self.words);
        Ok(words)
    }
}

fn content(option: &str, path: &str) -> Result<Vec<u8>, Failure> {
    plain_file::read(Path::new(path), Links::Followed, BODY_BYTES_MAX).map_err(|error| {
        Failure::usage(format!("--curl: {option} @{path}: cannot read the file: {}", without_number(&error)))
            .hint("after @ stands the path of a file")
    })
}

#[cfg(test)]
#[path = "curl_tests.rs"]
mod tests;
