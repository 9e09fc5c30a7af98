//! TLS of the server that webstone starts: its certificate, its versions, and how clients can resume sessions. Part
//! of [`crate::spec::ServerSpec`]; for clients see `webstone_workload::tls`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use webstone_workload::tls::TlsVersion;

webstone_measure::named! {
    /// The key of a certificate that webstone makes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    CertificateKey:
    /// ECDSA on P-256, as most sites have today.
    #[default]
    Ecdsa "ecdsa",
    /// RSA of 2,048 bits: a signature costs the server about ten times as much.
    Rsa "rsa",
}

impl FromStr for CertificateKey {
    type Err = String;

    fn from_str(text: &str) -> Result<CertificateKey, String> {
        let named = CertificateKey::ALL.into_iter().find(|key| key.name() == text);
        named.ok_or_else(|| format!("`{text}` is not a type of key; write ecdsa (P-256) or rsa (2,048 bits)"))
    }
}

/// TLS of a server. If absent, the server has plain HTTP only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ServerTls {
    /// Address and port of a second listener, with TLS; `server.listen` is then without TLS. Port 0 takes a free one.
    /// Absent: `server.listen` uses TLS, or, if the workload requests some pages over TLS and others without, a
    /// second listener is opened on a free port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The key of the certificate that is made for the run, which is valid for localhost, 127.0.0.1, ::1 and the
    /// listening address.
    pub certificate: CertificateKey,
    /// File with a certificate and its chain, as PEM. Absent: one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// File with its private key, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Versions that it supports.
    pub versions: Vec<TlsVersion>,
    /// Whether clients get session tickets for resumption. Absent: decided by the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tickets: Option<bool>,
    /// Whether the server keeps sessions that can be resumed by their identifiers. Absent: decided by the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_cache: Option<bool>,
}

impl Default for ServerTls {
    fn default() -> ServerTls {
        ServerTls {
            listen: None,
            certificate: CertificateKey::default(),
            cert: None,
            key: None,
            versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
            tickets: None,
            session_cache: None,
        }
    }
}

impl ServerTls {
    /// Whether a version is supported.
    pub fn has(&self, version: TlsVersion) -> bool {
        self.versions.contains(&version)
    }

    /// Checks it; an error has the key below `server.tls`, the rule, and the remedy.
    ///
    /// # Errors
    /// No version, a certificate without its key, or a key without its certificate.
    pub fn check(&self) -> Result<(), (&'static str, &'static str, &'static str)> {
        if self.versions.is_empty() {
            return Err(("server.tls.versions", "no TLS version is given", "write 1.2, 1.3 or both"));
        }
        match (&self.cert, &self.key) {
            (Some(_), None) => Err((
                "server.tls.cert",
                "the certificate has no private key",
                "give the file of the key, too, or neither to have both made",
            )),
            (None, Some(_)) => Err((
                "server.tls.key",
                "the private key has no certificate",
                "give the file of the certificate, too, or neither to have both made",
            )),
            _ => Ok(()),
        }
    }

    /// Whether webstone makes the certificate.
    pub fn is_made(&self) -> bool {
        self.cert.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_files_and_on_the_command_line() {
        for key in CertificateKey::ALL {
            assert_eq!(key.name().parse(), Ok(key));
            assert_eq!(toml::Value::try_from(key).unwrap().as_str(), Some(key.name()));
        }
        assert!("dsa".parse::<CertificateKey>().unwrap_err().contains("`dsa`"));
    }

    #[test]
    fn a_certificate_and_its_key_belong_together() {
        let of = |cert: Option<&str>, key: Option<&str>| {
            let tls =
                ServerTls { cert: cert.map(Into::into), key: key.map(Into::into), ..ServerTls::default() };
            tls.check().err().map(|(key, _, _)| key)
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some("a"), Some("b")), None);
        assert_eq!(of(Some("a"), None), Some("server.tls.cert"));
        assert_eq!(of(None, Some("b")), Some("server.tls.key"));
        let none = ServerTls { versions: Vec::new(), ..ServerTls::default() };
        assert_eq!(none.check().unwrap_err().0, "server.tls.versions");
    }
}
