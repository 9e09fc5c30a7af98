//! Signatures in OpenSSH's format (`PROTOCOL.sshsig`), and who is allowed to have made them.

use std::path::Path;

use ssh_key::{Algorithm, Fingerprint, HashAlg, LineEnding, PrivateKey, PublicKey, SshSig};

use crate::plain_file::{self, Links};

/// Largest file that holds a public key, in bytes.
const SIGNER_BYTES_MAX: u64 = 64 << 10;

/// Namespace of the signature, so that a signature of something else with the same key is not valid for a record.
pub const NAMESPACE: &str = "webstone";

/// Who signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// `SHA256:…`, as ssh-keygen prints it.
    pub fingerprint: String,
    /// The public key, as a line of an `authorized_keys` file.
    pub public_key: String,
}

/// Why a signature is not valid for a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It is a good signature of something else: the manifest, or the signature, was changed.
    #[error("the signature does not match {0}: it was made for other content")]
    Other(String),
    /// It cannot be one.
    #[error("{0}")]
    NotOne(String),
}

/// Signs the bytes of a manifest.
///
/// # Errors
/// In words, if the key cannot sign.
pub fn sign(key: &PrivateKey, manifest: &[u8]) -> Result<String, String> {
    let signature = key.sign(NAMESPACE, HashAlg::Sha512, manifest).map_err(|error| error.to_string())?;
    text_of(&signature).ok_or_else(|| "the signature cannot be written as text".to_owned())
}

/// Checks that a signature is valid for these bytes, and returns whose it is.
pub fn check(signature: &[u8], manifest: &[u8]) -> Result<Signed, SignatureError> {
    let none = |what: String| SignatureError::NotOne(what);
    let parsed =
        SshSig::from_pem(signature).map_err(|error| none(format!("is not an OpenSSH signature: {error}")))?;
    // PEM has room for bytes that readers ignore. There is one form without them.
    if text_of(&parsed).is_none_or(|text| text.as_bytes() != signature) {
        return Err(none(
            "has a signature that ssh-keygen did not write in this form: it was changed".to_owned(),
        ));
    }
    if parsed.namespace() != NAMESPACE {
        let found = parsed.namespace();
        return Err(none(format!(
            "is a signature in the namespace `{found}`; a record's is in `{NAMESPACE}`"
        )));
    }
    if parsed.algorithm() != Algorithm::Ed25519 {
        return Err(none(format!("was made with {}; only ed25519 is supported", parsed.algorithm())));
    }
    let key = PublicKey::from(parsed.public_key().clone());
    let fingerprint = fingerprint(&key).to_string();
    key.verify(NAMESPACE, manifest, &parsed).map_err(|_| SignatureError::Other(fingerprint.clone()))?;
    Ok(Signed { fingerprint, public_key: key.to_openssh().unwrap_or_default() })
}

/// The fingerprint of a key's public half.
pub fn fingerprint_of(key: &PrivateKey) -> String {
    fingerprint(key.public_key()).to_string()
}

fn fingerprint(key: &PublicKey) -> Fingerprint {
    key.fingerprint(HashAlg::Sha256)
}

/// As ssh-keygen writes it: lines of 70, a newline at the end.
fn text_of(signature: &SshSig) -> Option<String> {
    let mut text = signature.to_pem(LineEnding::LF).ok()?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Some(text)
}

/// Who may sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The name that goes with the key, where there is one.
    pub who: String,
    /// The fingerprint of the key.
    pub fingerprint: String,
}

/// A signer as a user names one: a fingerprint, a public key, or a file that holds one.
///
/// # Errors
/// What is wrong with it, in words.
pub fn signer(text: &str) -> Result<Allowed, String> {
    if text.starts_with("SHA256:") {
        let fingerprint: Fingerprint =
            text.parse().map_err(|_| "is not a fingerprint as ssh-keygen -l prints it".to_owned())?;
        return Ok(Allowed { who: String::new(), fingerprint: fingerprint.to_string() });
    }
    let line = match text.starts_with("ssh-") {
        true => text.to_owned(),
        false => plain_file::read_text(Path::new(text), Links::Followed, SIGNER_BYTES_MAX)
            .map_err(|error| format!("cannot be read: {}", crate::without_number(&error)))?,
    };
    let key = PublicKey::from_openssh(line.trim()).map_err(|_| "has no OpenSSH public key".to_owned())?;
    Ok(Allowed { who: key.comment().to_owned(), fingerprint: fingerprint(&key).to_string() })
}

/// Types of keys in a file of allowed signers.
const KEY_TYPES: [&str; 8] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ssh-dss",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// The signers of a file in the format of `ssh-keygen -Y verify -f` (ssh-keygen(1), "ALLOWED SIGNERS"): principals, options,
/// key. Lines for other namespaces are left out, and so are keys of types that sign no record. Other options are not checked by this
/// program, so lines with them are errors.
///
/// # Errors
/// The line and what is wrong with it, in words.
pub fn allowed_signers(text: &str) -> Result<Vec<Allowed>, String> {
    let mut allowed = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let found = allowed_signer(line).map_err(|what| format!("line {number}{what}"))?;
        allowed.extend(found);
    }
    Ok(allowed)
}

/// The signer of a line; `None` where it cannot be one of a record.
fn allowed_signer(line: &str) -> Result<Option<Allowed>, String> {
    if key_type(line).is_some() {
        return Err(
            " has no name before its key: write NAME ssh-ed25519 AAAA…, or give a .pub file to --signer"
                .to_owned(),
        );
    }
    let (who, rest) = principals(line)?;
    let (options, key) = if key_type(rest).is_some() { ("", rest) } else { first_word(rest)? };
    let Some(kind) = key_type(key) else { return Err(" has no key".to_owned()) };
    if !is_for_records(options)? {
        return Ok(None);
    }
    match PublicKey::from_openssh(key) {
        Ok(key) => Ok(Some(Allowed { who: who.to_owned(), fingerprint: fingerprint(&key).to_string() })),
        Err(_) if kind != KEY_TYPES[0] => Ok(None),
        Err(error) => Err(format!(": {error}")),
    }
}

/// The type of the key that a text begins with.
fn key_type(text: &str) -> Option<&'static str> {
    let word = text.split([' ', '\t']).next()?;
    KEY_TYPES.into_iter().find(|kind| *kind == word)
}

/// Who a line is of, without quotes, and what follows.
fn principals(line: &str) -> Result<(&str, &str), String> {
    let blank = [' ', '\t'];
    let split = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').filter(|(_, rest)| rest.starts_with(blank)),
        None => line.split_once(blank).filter(|(who, _)| !who.contains('"')),
    };
    let (who, rest) =
        split.ok_or_else(|| " has no key after its name, or a quote that does not end".to_owned())?;
    Ok((who, rest.trim_start_matches(blank)))
}

/// Up to the first blank outside of quotes, and what follows.
fn first_word(text: &str) -> Result<(&str, &str), String> {
    let blank = outside_quotes(text, |c| matches!(c, ' ' | '\t'))?;
    let (word, rest) = text.split_at(blank.unwrap_or(text.len()));
    Ok((word, rest.trim_start_matches([' ', '\t'])))
}

/// Where the first such character is that is in no quotes. A quote after a backslash ends none.
fn outside_quotes(text: &str, is_it: impl Fn(char) -> bool) -> Result<Option<usize>, String> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            c if !is_quoted && is_it(c) => return Ok(Some(at)),
            _ => {}
        }
        is_escaped = c == '\\';
    }
    if is_quoted { Err(" has a quote that does not end".to_owned()) } else { Ok(None) }
}

/// Whether options allow a key to sign records.
fn is_for_records(options: &str) -> Result<bool, String> {
    let (mut namespaces, mut unknown) = (None, None);
    let mut rest = options;
    while !rest.is_empty() {
        let end = outside_quotes(rest, |c| c == ',')?.unwrap_or(rest.len());
        let option = &rest[..end];
        rest = rest[end..].trim_start_matches(',');
        match option.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("namespaces") && namespaces.is_none() => {
                let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                // An escaped quote is in no name of ours.
                let value = value.filter(|value| !value.contains(['"', '\\']));
                namespaces = Some(
                    value.ok_or_else(|| format!(": the option `{option}` is not namespaces=\"NAME,…\""))?,
                );
            }
            Some((name, _)) if name.eq_ignore_ascii_case("namespaces") => {
                return Err(": it has several lists of namespaces".to_owned());
            }
            _ => unknown = Some(option),
        }
    }
    if namespaces.is_some_and(|list| !lists(list, NAMESPACE)) {
        return Ok(false);
    }
    match unknown {
        None => Ok(true),
        Some(option) => {
            Err(format!(": the option `{option}` is not supported; check with ssh-keygen -Y verify"))
        }
    }
}

/// Whether a list of patterns (ssh_config(5), "PATTERNS") has a name: one of them matches, and none after `!` does.
fn lists(patterns: &str, name: &str) -> bool {
    let matching = |pattern: &&str| matches(pattern.trim_start_matches('!').as_bytes(), name.as_bytes());
    let mut matching = patterns.split(',').filter(matching).peekable();
    matching.peek().is_some() && matching.all(|pattern| !pattern.starts_with('!'))
}

/// Whether a pattern with `*` and `?` is one of a name.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], _) => name.is_empty(),
        ([b'*', b'*', ..], _) => matches(&pattern[1..], name),
        ([b'*', pattern @ ..], _) => (0..=name.len()).any(|skipped| matches(pattern, &name[skipped..])),
        ([b'?', pattern @ ..], [_, name @ ..]) => matches(pattern, name),
        ([one, pattern @ ..], [other, name @ ..]) => one == other && matches(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJQjEXaMsYmaslnkT5IgIYNkb3pMY/8zzCbCQS2mF8qE";
    const OTHER: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBA== laptop";

    /// The names of the signers.
    fn names(text: &str) -> Result<Vec<String>, String> {
        Ok(allowed_signers(text)?.into_iter().map(|signer| signer.who).collect())
    }

    #[test]
    fn what_ssh_keygen_takes_is_taken() {
        let file = format!(
            "# who may sign\n\na@example.org {KEY}\nb@example.org,c@example.org\tnamespaces=\"git,webstone\" {KEY} a comment\n\
             \"d e@example.org\" NAMESPACES=\"webstone\"  {KEY}\nf namespaces=\"web*\" {KEY}\ng namespaces=\"file, webstone,!git\" {KEY}\n\
             h namespaces=\"*\" {KEY}\n"
        );
        let taken = ["a@example.org", "b@example.org,c@example.org", "d e@example.org", "f", "h"];
        // In a list of patterns a blank is part of one.
        assert_eq!(names(&file).unwrap(), taken);
        let [first, ..] = &allowed_signers(&file).unwrap()[..] else { panic!("{file}") };
        assert!(first.fingerprint.starts_with("SHA256:"), "{first:?}");
    }

    #[test]
    fn lines_that_are_not_for_records_are_left_out() {
        let file = format!(
            "git namespaces=\"git\" {KEY}\nca cert-authority,namespaces=\"git\" {KEY}\nnot namespaces=\"*,!webstone\" {KEY}\n\
             more namespaces=\"webstones\" {KEY}\nnone namespaces=\"\" {KEY}\nother {OTHER}\nyes {KEY}\n"
        );
        assert_eq!(names(&file).unwrap(), ["yes"]);
    }

    #[test]
    fn what_is_not_understood_allows_nobody() {
        for (line, why) in [
            (format!("a cert-authority {KEY}"), "the option `cert-authority` is not supported"),
            (
                format!("a valid-before=\"20260101\",namespaces=\"webstone\" {KEY}"),
                "`valid-before=\"20260101\"`",
            ),
            (format!("a namespaces=\"git\",namespaces=\"webstone\" {KEY}"), "several lists of namespaces"),
            (format!("a namespaces=\"webstone\",namespaces=\"git\" {KEY}"), "several lists of namespaces"),
            (format!("a namespaces=webstone {KEY}"), "is not namespaces="),
            (format!("a namespaces=\"webstone {KEY}"), "a quote that does not end"),
            (format!("a namespaces=\"git\\\",webstone\" {KEY}"), "is not namespaces="),
            (format!("\"a b {KEY}"), "a quote that does not end"),
            (KEY.to_owned(), "has no name before its key"),
            ("a".to_owned(), "has no key"),
            ("a ssh-ed25519 AAAA".to_owned(), "line 1: "),
            ("a ssh-new AAAA".to_owned(), "has no key"),
        ] {
            let error = names(&line).unwrap_err();
            assert!(error.starts_with("line 1") && error.contains(why), "{line}: {error}");
        }
    }
}
