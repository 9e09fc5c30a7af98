//! What TLS handshakes offer and ask for: something of each kind, and nothing that contradicts itself. Files are read when the run
//! is planned.

use webstone_workload::tls::{Share, TlsSpec};

use super::SpecError;

/// Longest name of a protocol, in bytes (RFC 7301).
const ALPN_BYTES_MAX: usize = 255;

/// Checks what a specification says of TLS against its rules.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(tls: &TlsSpec) -> Result<(), SpecError> {
    for (key, is_empty, remedy) in [
        ("client.tls.versions", tls.versions.is_empty(), "write 1.2, 1.3 or both"),
        ("client.tls.ciphers", tls.ciphers.is_empty(), "write the names of cipher suites, or leave it out"),
        ("client.tls.groups", tls.groups.is_empty(), "write the names of groups, or leave it out"),
    ] {
        if is_empty {
            return Err(SpecError::new(key, "the list is empty", remedy));
        }
    }
    for version in &tls.versions {
        if !tls.ciphers.iter().any(|cipher| cipher.version() == *version) {
            return Err(SpecError::new(
                "client.tls.ciphers",
                format!("none of them is for TLS {version}, which client.tls.versions offers"),
                "add one for that version, or remove the version",
            ));
        }
    }
    if tls.key.is_some() && tls.cert.is_none() {
        let remedy = "give its certificate in client.tls.cert";
        return Err(SpecError::new("client.tls.key", "the key has no certificate", remedy));
    }
    if let Some(name) = tls.alpn.iter().find(|name| name.is_empty() || name.len() > ALPN_BYTES_MAX) {
        let remedy = "write names of 1 to 255 bytes, as in http/1.1";
        return Err(SpecError::value("client.tls.alpn", name, "not the name of a protocol", remedy));
    }
    if tls.early_data && tls.resume == Share::NONE {
        return Err(SpecError::new(
            "client.tls.early_data",
            "early data is sent only in resumed handshakes, and none is resumed",
            "resume a share of them with client.tls.resume, such as 100%",
        ));
    }
    Ok(())
}
