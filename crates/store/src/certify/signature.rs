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

/// The signers of a file in the format of `ssh-keygen -Y verify -f` (ssh-keygen(1), "ALLOWED SIGNERS"): principals, options,
/// key. Lines with options that this program does not check are errors.
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
        let (who, rest) = line.split_once([' ', '\t']).ok_or_else(|| format!("line {number} has no key"))?;
        let at = rest.find("ssh-").ok_or_else(|| {
            format!("line {number} has no name before its key: write NAME ssh-ed25519 AAAA…, or give a .pub file to --signer")
        })?;
        let (options, key) = rest.split_at(at);
        for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("namespaces", names))
                    if names.trim_matches('"').split(',').any(|name| name == NAMESPACE) => {}
                _ => {
                    return Err(format!(
                        "line {number}: the option `{option}` is not supported; check with ssh-keygen -Y verify"
                    ));
                }
            }
        }
        let key = PublicKey::from_openssh(key).map_err(|error| format!("line {number}: {error}"))?;
        allowed.push(Allowed {
            who: who.trim_matches('"').to_owned(),
            fingerprint: fingerprint(&key).to_string(),
        });
    }
    Ok(allowed)
}
