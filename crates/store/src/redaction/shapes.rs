//! Secrets that are recognised by their form: private keys, hashes of passwords, `user:password@` in URLs, the credentials of
//! HTTP's own authentication, tokens of known issuers.

use std::ops::Range;
use std::sync::LazyLock;

use regex_lite::Regex;

use super::names::{is_harmless, is_secret_parameter, pattern};

/// Each pattern names what is taken out `secret`.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // A key may be cut off: then everything after its first line belongs to it.
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<secret>.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        r"(?s)PuTTY-User-Key-File-\d+:(?P<secret>.*)",
        r"(?P<secret>AGE-SECRET-KEY-1[A-Z0-9]+)",
        // crypt(3), Apache's and LDAP's hashes, Argon2.
        r"(?P<secret>\$(?:apr1|1|2[abxy]?|5|6|7|y|gy|sha1|md5|argon2(?:id|i|d)|scrypt|pbkdf2(?:-sha\d+)?)\$[^\s:;'\x22]+)",
        r"(?P<secret>\{(?:SHA|SSHA|SHA256|SSHA256|SHA512|SSHA512|MD5|SMD5|CRYPT|PBKDF2)\}[^\s:;'\x22]+)",
        // .htpasswd with crypt of 13 characters, .htdigest.
        r"(?m)^[^\s:#;{}]+:(?P<secret>[./0-9A-Za-z]{13})\r?$",
        r"(?m)^[^\s:#;{}]+:[^:\n]+:(?P<secret>[0-9a-f]{32})\r?$",
        // scheme://user:password@host, or a token alone; a password may hold a slash.
        r"[A-Za-z][A-Za-z0-9+.\-]*://(?P<secret>[^\s/?#'\x22<>@]*:[^\s'\x22<>]*)@",
        r"[A-Za-z][A-Za-z0-9+.\-]*://(?P<secret>[^\s/?#'\x22<>@:]+)@",
        r"(?P<secret>[^\s:@/'\x22=;,(]+:[^\s@'\x22]+)@(?:tcp|unix|udp)?\(",
        r"\b(?i:basic|bearer|negotiate|apikey)(?:\\? )+(?P<secret>[A-Za-z0-9+/._~\-]*[A-Za-z0-9+/._~\-](?:[0-9]|[a-z][A-Z])[A-Za-z0-9+/._~\-]*=*)",
        r"(?i)\b(?:basic|bearer)(?:\\? )+(?P<secret>[A-Za-z0-9+/._~\-]+=+)",
        r"(?i)\bdigest +username=(?P<secret>[^\n]+)",
        // JSON Web Tokens, AWS, GitHub, GitLab, Slack, Stripe, Google, npm, PyPI, OpenAI and its like.
        r"(?P<secret>\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]*)",
        r"(?P<secret>\b(?:AKIA|ASIA)[A-Z0-9]{16}\b)",
        r"(?P<secret>\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_\-]{16,}|xox[abprs]-[A-Za-z0-9\-]{10,}|[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|AIza[A-Za-z0-9_\-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_\-]{30,}|sk-[A-Za-z0-9_\-]{20,}))",
        // Two directives whose secret has no name of its own.
        r"(?im)\bsecure_link_md5\s+(?P<secret>[^;\n]+)",
        r"(?im)\bstats\s+auth\s+(?P<secret>[^\s;]+:[^\s;]+)",
    ]
    .map(pattern)
    .into()
});

/// A user name with its password, or a token alone, before a host, of a URL or without a scheme.
static USERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"[A-Za-z][A-Za-z0-9+.\-]*://(?P<secret>[^\s/?#'\x22`<>@]*:[^\s'\x22`<>]*)@",
        r"[A-Za-z][A-Za-z0-9+.\-]*://(?P<secret>[^\s/?#'\x22`<>@:]+)@",
        r"(?:^|[\s`'\x22(])(?P<secret>[^\s:@/'\x22`=;,(]+:[^\s@/'\x22`]+)@",
    ]
    .map(pattern)
    .into()
});

/// A parameter of a query, a path or a form, after the first one.
static PARAMETER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"[?&;](?:amp;)?(?P<name>[A-Za-z0-9_.\-\[\]%$]+)=(?P<secret>(?:\{\{[^{}]*\}\}|[^&#;\s\x22'<>])+)")
});

/// `host:80/path@x`: what looks like a user and a password is a host and a port.
static PORT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[^/:@]*:\d+/"));

/// Where such secrets stand, in order, without overlap.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = PARAMETER
        .captures_iter(text)
        .filter(|captures| is_secret_parameter(&captures["name"]) && !is_harmless(&captures["secret"]))
        .filter_map(|captures| captures.name("secret"))
        .filter(|secret| !secret.as_str().contains(super::REDACTED))
        .map(|secret| secret.range())
        .collect();
    found.extend(shaped(&SHAPES, text));
    apart(found)
}

/// Where a user name with its password, or a token, stands before a host.
pub(super) fn users(text: &str) -> Vec<Range<usize>> {
    apart(shaped(&USERS, text).collect())
}

fn shaped<'a>(shapes: &'a [Regex], text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    shapes
        .iter()
        .flat_map(|shape| shape.captures_iter(text))
        .filter_map(|captures| captures.name("secret"))
        .filter(|secret| !secret.as_str().contains(super::REDACTED) && !secret.is_empty())
        .filter(|secret| !PORT.is_match(secret.as_str()))
        .map(|secret| secret.range())
}

/// In order, without those within others.
fn apart(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    found.retain(|range| {
        let apart = range.start >= end;
        end = end.max(range.end);
        apart
    });
    found
}
