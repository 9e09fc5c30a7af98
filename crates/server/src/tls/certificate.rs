//! Certificates made at start: self-signed, for this host alone, so that a client that is given them can verify them.

use std::fmt;
use std::net::IpAddr;

use rcgen::{CertificateParams, DnType, KeyPair, RsaKeySize};
use webstone_model::server_tls::CertificateKey;

/// Common name of certificates that are made here, so that their origin is visible.
const NAME: &str = "webstone";

/// A certificate with its private key, both as PEM.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate. Clients that are given it can verify the server.
    pub cert_pem: String,
    /// Its private key.
    pub key_pem: String,
}

/// The key must not be printed.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("cert_pem", &self.cert_pem).finish_non_exhaustive()
    }
}

impl Certificate {
    /// Makes one for `localhost`, the loopback's addresses, and `more`.
    ///
    /// # Errors
    /// In words, if keys cannot be made.
    pub fn make(key: CertificateKey, more: &[IpAddr]) -> Result<Certificate, String> {
        let attempt = || {
            let key = match key {
                CertificateKey::Ecdsa => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
                CertificateKey::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?,
            };
            let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
            for address in more.iter().filter(|address| !address.is_unspecified()).map(IpAddr::to_string) {
                if !names.contains(&address) {
                    names.push(address);
                }
            }
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name.push(DnType::CommonName, NAME);
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2049, 12, 31);
            let certificate = params.self_signed(&key)?;
            Ok(Certificate { cert_pem: certificate.pem(), key_pem: key.serialize_pem() })
        };
        attempt().map_err(|error: rcgen::Error| format!("making a certificate failed: {error}"))
    }
}
