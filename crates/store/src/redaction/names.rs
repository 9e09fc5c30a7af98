//! Secrets that a name announces: `ssl_password x;`, `RequestHeader set Authorization "Basic x"`, `"api_key": "x"`.
//!
//! A name is taken apart into words (`AuthLDAPBindPassword` → auth, ldap, bind, password), so that one short list serves
//! every syntax, and `server_tokens off` or `ssl_certificate_key /etc/key.pem` stay what they are.

use std::ops::Range;
use std::sync::LazyLock;

use regex_lite::Regex;

use super::REDACTED;

/// A word that makes a name a secret's.
const WORDS: [&str; 20] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "pwd",
    "secret",
    "token",
    "apikey",
    "authtoken",
    "accesskey",
    "secretkey",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
    "requirepass",
    "masterauth",
    "psk",
    "insecurepassword",
];
/// Words that make a name secret if a word of the second list precedes.
const KEYS: [&str; 18] = [
    "subscription",
    "api",
    "access",
    "private",
    "secret",
    "auth",
    "signing",
    "encryption",
    "master",
    "shared",
    "hmac",
    "jwt",
    "account",
    "storage",
    "app",
    "application",
    "license",
    "crypt",
];
/// A last word that says that the value is *about* a secret, or where it lies.
const ABOUT: [&str; 34] = [
    "file",
    "path",
    "dir",
    "directory",
    "timeout",
    "lifetime",
    "ttl",
    "length",
    "size",
    "name",
    "type",
    "zone",
    "policy",
    "domain",
    "expires",
    "max",
    "min",
    "count",
    "algorithm",
    "format",
    "env",
    "url",
    "uri",
    "endpoint",
    "realm",
    "enabled",
    "required",
    "only",
    "httponly",
    "secure",
    "samesite",
    "issuer",
    "method",
    "dialog",
];
/// `proxy_pass` passes a request on; `mysql_pass` is a password.
const PASSES_ON: [&str; 9] =
    ["proxy", "fastcgi", "uwsgi", "scgi", "grpc", "memcached", "redis2", "ajp", "balancer"];
/// Names that are secrets as a header field and something else elsewhere (HAProxy's `cookie`).
const COOKIES: [&str; 5] = ["cookie", "cookie2", "set-cookie", "http_cookie", "set_cookie"];

/// Last words that make a name a secret's if a sign follows, or in a header field; in prose they are ordinary words.
const WEAK: [&str; 20] = [
    "auth",
    "jwt",
    "pin",
    "otp",
    "totp",
    "cvv",
    "cvc",
    "sid",
    "sessid",
    "sessionid",
    "jsessionid",
    "phpsessid",
    "asid",
    "csrf",
    "xsrf",
    "nonce",
    "assertion",
    "sas",
    "bearer",
    "saml",
];
/// Last words that do so only in a header field or a query.
const OF_REQUESTS: [&str; 7] = ["key", "session", "sig", "hmac", "ticket", "access", "cred"];
/// Last words that do so only in a query.
const OF_QUERIES: [&str; 3] = ["code", "pass", "credential"];
/// Words before `key` in names that are not secret.
const NO_KEYS: [&str; 6] = ["idempotency", "cache", "sort", "surrogate", "partition", "primary"];

/// Whether the value of this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_cookie(&lower) || has_secret_words(name)
}

/// Whether the value of a header field, a variable or a field of a form is a secret.
pub(super) fn is_secret_field(name: &str) -> bool {
    is_secret(name) || is_weak(name) || ends_in(name, &OF_REQUESTS)
}

/// Whether the value of a parameter in a query, or after a path, is a secret.
pub(super) fn is_secret_parameter(name: &str) -> bool {
    is_secret_field(name) || ends_in(name, &OF_QUERIES)
}

/// `X-Auth`, `jwt`, `sessionid`, `session_id`.
fn is_weak(name: &str) -> bool {
    let words = words(name);
    let last_two = words.len().checked_sub(2).map(|at| (words[at].as_str(), words[at + 1].as_str()));
    ends_in(name, &WEAK) || matches!(last_two, Some(("session" | "sess", "id")))
}

fn ends_in(name: &str, list: &[&str]) -> bool {
    let words = words(name);
    let before = words.len().checked_sub(2).map(|at| words[at].as_str());
    words.last().is_some_and(|last| list.contains(&last.as_str()))
        && !before.is_some_and(|before| NO_KEYS.contains(&before))
}

fn is_cookie(lower: &str) -> bool {
    COOKIES.contains(&lower)
}

fn has_secret_words(name: &str) -> bool {
    let words = words(name);
    let Some(last) = words.last() else { return false };
    if ABOUT.contains(&last.as_str()) || last.ends_with("file") {
        return false;
    }
    let before = words.len().checked_sub(2).map(|at| words[at].as_str());
    match last.as_str() {
        "pw" | "signature" => return true,
        "pass" => return !before.is_some_and(|word| PASSES_ON.contains(&word)),
        "key" => return before.is_some_and(|word| KEYS.contains(&word)),
        _ => {}
    }
    // `PGPASSWORD`, `clientsecret`; the short words are part of many harmless names.
    let is_one = |word: &String| WORDS.iter().any(|it| word == it || it.len() > 4 && word.ends_with(it));
    words.iter().any(is_one)
}

/// `apiKey`, `APIKey`, `api-key`, `API_KEY` → api, key.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let after_lower = at > 0 && letters[at - 1].is_ascii_lowercase();
        let before_lower = at > 0
            && letters[at - 1].is_ascii_uppercase()
            && letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
        if !letter.is_ascii_alphanumeric() || letter.is_ascii_uppercase() && (after_lower || before_lower) {
            words.push(String::new());
        }
        if letter.is_ascii_alphanumeric() {
            words.last_mut().expect("it begins with one").push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Harmless values: switches, empty ones, references to another place, and patterns that fit everything.
pub(super) fn is_harmless(value: &str) -> bool {
    static HARMLESS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?x)^(?i: | on | off | true | false | yes | no | null | none | nil | default | optional | 0 | 1
            | \[redacted\]
            | \$(http|sent_http|upstream|arg|cookie|ssl|proxy|request)_[a-z0-9_]+ | \$[0-9]
            | \$\{[a-z_][a-z0-9_]*\} | \{\$[a-z_][a-z0-9_.]*\} | \{\{?(env|http|vars)\.[^{}\s]*\}\}? | %\{[^{}]*\}e?s?\]? | %\[[^\]]*\]
            | \{\{[^{}]*\}\}
            | getenv\(.*\).* | \$_(env|server)\[.*\].*
            | \^? \(? \.[*+]? \)? \$? | !?\^\$ | -m\ found | !-m\ found
            )$"#,
        )
    });
    HARMLESS.is_match(value.trim().trim_end_matches([';', ',']).trim().trim_matches(['"', '\'']))
}

/// A pattern of this module's own, which is tested.
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns are constants and each has a test")
}

/// Where the values of secret names stand, in order.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z_][A-Za-z0-9_.\-]*"));
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut done = 0;
    for name in NAME.find_iter(text) {
        if name.start() < done {
            continue;
        }
        let place = Place::around(text, name.range());
        let ranges =
            if place.name == "map" { place.entries_of_map() } else { place.value().into_iter().collect() };
        for range in ranges {
            if !is_harmless(&text[range.clone()]) {
                done = range.end;
                found.push(range);
            }
        }
    }
    found
}

/// How much of a line before a name is looked at, in bytes.
const BEFORE_BYTES_MAX: usize = 2_000;

/// A name in its surroundings.
struct Place<'a> {
    text: &'a str,
    name: &'a str,
    /// The line up to the name.
    before: &'a str,
    line_start: usize,
    end: usize,
    /// The quotation mark inside which the name stands.
    quote: Option<char>,
}

impl<'a> Place<'a> {
    fn around(text: &'a str, name: Range<usize>) -> Place<'a> {
        // A line of megabytes, as minified JSON is, is not read again for each of its names.
        let near = name.start.saturating_sub(BEFORE_BYTES_MAX);
        let near = (near..name.start).find(|at| text.is_char_boundary(*at)).unwrap_or(name.start);
        let line_start = text[near..name.start].rfind('\n').map_or(near, |at| near + at + 1);
        let before = &text[line_start..name.start];
        let mut quote = None;
        let mut escaped = false;
        for letter in before.chars() {
            match letter {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' | '\'' if quote == Some(letter) => quote = None,
                '"' | '\'' if quote.is_none() => quote = Some(letter),
                _ => {}
            }
        }
        Place { text, name: &text[name.clone()], before, line_start, end: name.end, quote }
    }

    /// Where the value stands, if the name is a secret's and has one.
    fn value(&self) -> Option<Range<usize>> {
        let variable = self.before.ends_with('$');
        let cookie = is_cookie(&self.name.to_ascii_lowercase());
        let auth = self.name.eq_ignore_ascii_case("auth");
        let strong = has_secret_words(self.name);
        // Only as the name of a field, or with a sign after it.
        let field = !cookie && !auth && !strong && is_secret_field(self.name);
        if !(cookie || auth || field || strong) || self.before.ends_with(['/', '\\']) {
            return None;
        }
        static SEPARATOR: LazyLock<Regex> = LazyLock::new(|| {
            pattern(
                r#"^(?P<close>\\?["'])?(?P<bracket>\]|\)|\})?(?P<space>[ \t]*)(?P<sign>===?|!==?|=>|:=|\?=|=|:|,|!?~\*?|>)?[ \t]*"#,
            )
        });
        let rest = &self.text[self.end..];
        let parts = SEPARATOR.captures(rest)?;
        let sign = parts.name("sign").map_or("", |sign| sign.as_str());
        let bracket = parts.name("bracket").map_or("", |bracket| bracket.as_str());
        let opening = self.before.trim_end_matches(['"', '\'', '\\', '$', '%', '-']);
        let named_whole = parts.name("close").is_none_or(|mark| {
            self.before.trim_end_matches(['$', '-']).ends_with(mark.as_str().trim_start_matches('\\'))
        });
        let spaced = parts.get(0).is_some_and(|all| all.as_str().ends_with([' ', '\t']));
        let separates = match sign {
            "," => parts.name("close").is_some() && opening.ends_with('('),
            ">" => opening.ends_with('<'),
            "" if auth => opening.trim_end().to_ascii_lowercase().ends_with("stats"),
            "" if cookie || field => self.names_a_field(),
            "=" | ":" | "=>" if field => is_weak(self.name) || self.names_a_field(),
            _ if field => false,
            "" if variable => {
                self.before[..self.before.len() - 1].trim_end().ends_with("set")
                    || self.before.trim_start().starts_with("js_var")
            }
            // A value of another name, as in `zone=token burst=5`.
            "" => {
                !opening.trim_end().ends_with(['=', ':'])
                    || opening.trim_end().to_ascii_lowercase().ends_with("http:")
            }
            // nginx: a zone of that name, and its size.
            ":" if opening.ends_with("zone=") => false,
            _ => !auth || sign == "=",
        };
        let closed = match bracket {
            ")" => opening.ends_with("hdr(") || sign == "=",
            "}" => opening.to_ascii_lowercase().ends_with("%{http:") && spaced,
            "]" => !sign.is_empty(),
            _ => true,
        };
        let apart = !sign.is_empty() || spaced || rest[parts.get(0)?.end()..].starts_with(['\n', '\r']);
        (named_whole && separates && closed && apart).then_some(())?;
        let start = self.end + parts.get(0)?.end();
        let tight = sign == "=" && !spaced && parts["space"].is_empty();
        // Quotation marks around the name alone end with it.
        let quote = self
            .quote
            .filter(|quote| parts.name("close").is_none_or(|mark| !mark.as_str().ends_with(*quote)));
        Place { quote, ..*self }.value_at(start, tight, sign)
    }

    /// Whether the line sets, adds or compares a header field.
    fn names_a_field(&self) -> bool {
        let before = self.before.to_ascii_lowercase();
        before.contains("header") || before.contains("hdr(") || before.contains("-h ")
    }

    fn value_at(&self, start: usize, tight: bool, sign: &str) -> Option<Range<usize>> {
        let rest = &self.text[start..];
        if rest.starts_with(REDACTED) {
            return None;
        }
        // A quoted value ends with its quotation mark, even if that is lines below.
        for mark in ["\\\"", "\\'", "\"", "'"] {
            let inside = self.quote.is_some_and(|quote| mark.len() == 1 && mark.starts_with(quote));
            if let Some(value) = rest.strip_prefix(mark).filter(|_| !inside) {
                let length = unescaped(value, mark).unwrap_or(value.len());
                return Some(start + mark.len()..start + mark.len() + length);
            }
        }
        let line = line_of(rest);
        if matches!(line.trim(), "" | "\\" | "|" | ">" | "|-" | ">-" | "|+") {
            return self.value_below(start + line.len(), line.trim(), sign);
        }
        let mut length = line.len();
        while rest[..length].ends_with('\\') && length < rest.len() {
            length += 1 + line_of(&rest[length + 1..]).len();
        }
        let mut value = &rest[..length];
        if tight {
            let end = |letter: char| letter.is_whitespace() || letter == '&';
            // An escaped blank is part of the word.
            let ends = value.match_indices(end).map(|(at, _)| at).find(|at| !value[..*at].ends_with('\\'));
            value = &value[..ends.unwrap_or(value.len())];
        }
        if sign == ">" {
            value = value.split('<').next().unwrap_or_default();
        }
        if let Some(quote) = self.quote {
            let escaped = format!("\\{quote}");
            let ends = unescaped(value, quote.encode_utf8(&mut [0; 4])).or_else(|| value.find(&escaped));
            value = &value[..ends.unwrap_or(value.len())];
        }
        let value = without_end(value);
        (!value.is_empty()).then(|| start..start + value.len())
    }

    /// The value stands on the lines below: one of them, or a block of YAML.
    fn value_below(&self, line_end: usize, marker: &str, sign: &str) -> Option<Range<usize>> {
        let block = marker.starts_with(['|', '>']);
        let indent = |line: &str| line.len() - line.trim_start().len();
        let own = indent(&self.text[self.line_start..]);
        let from = line_end + 1;
        let mut end = from;
        for line in self.text.get(from..)?.split_inclusive('\n') {
            if !line.trim().is_empty() && indent(line) <= own {
                break;
            }
            end += line.len();
            if !block && !line.trim().is_empty() {
                break;
            }
        }
        let lines = self.text[from..end].trim_end();
        let value = lines.trim_start();
        // Another section, or nothing that belongs to the name.
        let foreign = value.is_empty() || value.starts_with(['{', '}', '[', '<', '#', '-']) || sign == ",";
        let keyed = !block && value.contains([':', '=']) && !value.starts_with(['"', '\'']);
        if foreign || keyed {
            return None;
        }
        let start = from + lines.len() - value.len();
        Some(start..start + value.trim_end_matches(';').len())
    }

    /// nginx: `map $http_x_api_key $client { "key" client; }` has its secrets on the left, `map $uri $api_key { / "key"; }` on
    /// the right.
    fn entries_of_map(&self) -> Vec<Range<usize>> {
        static HEAD: LazyLock<Regex> = LazyLock::new(|| {
            pattern(r#"^\s+["']?\$\{?(?P<name>[A-Za-z0-9_]+)[^{};\n]*?(?:\$(?P<to>[A-Za-z0-9_]+)\s*)?\{"#)
        });
        static KEY: LazyLock<Regex> = LazyLock::new(|| {
            pattern(
                r#"(?:^|[;{]|\n)(?:\s|#[^\n]*\n)*(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;{}"']+)(?:\s+(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;{}"']+))?"#,
            )
        });
        const WORDS: [&str; 4] = ["default", "hostnames", "volatile", "include"];
        let rest = &self.text[self.end..];
        let Some(head) = HEAD.captures(rest) else { return Vec::new() };
        let from = match head["name"].split_once('_') {
            Some(("arg", name)) => is_secret_parameter(name),
            Some(("http", name)) => is_secret_field(name),
            Some(("cookie", _)) => true,
            _ => is_secret(&head["name"]),
        };
        let to = head.name("to").is_some_and(|name| is_secret(name.as_str()) || is_weak(name.as_str()));
        let start = self.end + head.get(0).map_or(0, |all| all.end());
        let length = self.text[start..].find('}').unwrap_or(self.text.len() - start);
        let keys = KEY.captures_iter(&self.text[start..start + length]);
        let mut found = Vec::new();
        for entry in keys {
            let key = entry.name("key").filter(|key| from && !WORDS.contains(&key.as_str()));
            let value = entry.name("value").filter(|_| to && !entry["key"].eq("include"));
            found.extend(
                [key, value].into_iter().flatten().map(|part| start + part.start()..start + part.end()),
            );
        }
        found
    }
}

/// A value without the end of the statement around it: semicolons, and brackets that were opened before it.
fn without_end(value: &str) -> &str {
    let mut value = value.trim_end();
    while let Some(last) = value.chars().last() {
        let opener = match last {
            ')' => '(',
            '}' => '{',
            ']' => '[',
            _ => last,
        };
        let ends = matches!(last, ';' | ',' | '{' | '"' | '\'') || opener != last && !value.contains(opener);
        if !ends {
            break;
        }
        value = value[..value.len() - 1].trim_end();
    }
    value
}

fn line_of(text: &str) -> &str {
    text.split(['\n', '\r']).next().unwrap_or_default()
}

/// The first `mark` without a backslash before it.
fn unescaped(text: &str, mark: &str) -> Option<usize> {
    text.match_indices(mark).map(|(at, _)| at).find(|at| {
        let backslashes = text[..*at].chars().rev().take_while(|letter| *letter == '\\').count();
        mark.starts_with('\\') || backslashes % 2 == 0
    })
}
