//! The keys that sign: ed25519, as `ssh-keygen -t ed25519` makes them (with or without a passphrase) or as
//! `openssl genpkey -algorithm ed25519` does (PKCS#8 in PEM).

use std::io;
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::DecodePrivateKey;
use ssh_key::Algorithm;
use ssh_key::private::Ed25519Keypair;

pub use ssh_key::PrivateKey;

use crate::plain_file::{self, Links};

/// Largest file that can be a key, in bytes.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Why a key cannot sign.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("--key {path}: cannot read it: {}", crate::without_number(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is not a key that can sign here.
    #[error("--key {path}: {what}")]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
}

impl KeyError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            KeyError::Io { .. } => MAKE,
            KeyError::NoKey { hint, .. } => hint,
        }
    }
}

const MAKE: &str = "`ssh-keygen -t ed25519 -f webstone-key` makes one";
const AGENT: &str = "leave --key out and sign the manifest with ssh-keygen, which can also use an agent or a \
    token: ssh-keygen -Y sign -n webstone -f KEY RUN/MANIFEST.sha256";

/// Reads a private key. `ask` returns the passphrase of a key that has one; `None` ends the attempt.
pub fn load(path: &Path, ask: &mut dyn FnMut() -> Option<String>) -> Result<PrivateKey, KeyError> {
    let io = |source| KeyError::Io { path: path.to_owned(), source };
    let bytes = match plain_file::read(path, Links::Followed, KEY_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(no_key(path, "it is too large for a key", MAKE));
        }
        read => read.map_err(io)?,
    };
    let text = String::from_utf8(bytes)
        .map_err(|_| no_key(path, "it is not a key in PEM or OpenSSH format", MAKE))?;
    let key = if text.contains("-----BEGIN OPENSSH PRIVATE KEY-----") {
        openssh(path, &text, ask)?
    } else if text.contains("-----BEGIN PRIVATE KEY-----") {
        let key = ed25519_dalek::SigningKey::from_pkcs8_pem(&text)
            .map_err(|error| no_key(path, &format!("it is not an ed25519 key in PKCS#8: {error}"), MAKE))?;
        PrivateKey::from(Ed25519Keypair::from_seed(&key.to_bytes()))
    } else {
        let (what, hint) = match text.trim_start() {
            text if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") => (
                "it is a PKCS#8 key with a passphrase, which is not supported",
                "remove the passphrase from a copy: openssl pkey -in KEY -out COPY; or use an OpenSSH key, which may have one",
            ),
            text if text.starts_with("ssh-") => {
                ("it is a public key", "name the private key: the file without .pub")
            }
            text if text.contains("PRIVATE KEY-----") => ("it is not an ed25519 key", MAKE),
            _ => ("it is neither an OpenSSH private key nor PKCS#8", MAKE),
        };
        return Err(no_key(path, what, hint));
    };
    match key.algorithm() {
        Algorithm::Ed25519 => Ok(key),
        other => Err(no_key(path, &format!("it is a key of type {other}; only ed25519 is supported"), MAKE)),
    }
}

fn openssh(path: &Path, text: &str, ask: &mut dyn FnMut() -> Option<String>) -> Result<PrivateKey, KeyError> {
    let key = PrivateKey::from_openssh(text)
        .map_err(|error| no_key(path, &format!("it is a damaged OpenSSH key: {error}"), MAKE))?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    let Some(passphrase) = ask() else {
        return Err(no_key(path, "it has a passphrase, and there is no terminal to ask for it", AGENT));
    };
    key.decrypt(passphrase).map_err(|_| no_key(path, "the passphrase is wrong", AGENT))
}

fn no_key(path: &Path, what: &str, hint: &'static str) -> KeyError {
    KeyError::NoKey { path: path.to_owned(), what: what.to_owned(), hint }
}
