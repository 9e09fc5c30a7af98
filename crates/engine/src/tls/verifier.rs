//! How a server's certificate is judged: by rustls's verifier of chains, by a pin, by both, or not at all.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::key_log::hexadecimal;

/// See the module comment. If nothing is required of the certificate, its signature of the handshake is not checked
/// either: that is half the cost of verification.
#[derive(Debug)]
pub(super) struct Verifier {
    /// Verifier of chains; absent: any chain is accepted.
    pub(super) chains: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that the user named. The server's own may be one of them, as with curl, whatever its extensions
    /// say.
    pub(super) given: Vec<CertificateDer<'static>>,
    /// SHA-256 of the server's own certificate.
    pub(super) pin: Option<[u8; 32]>,
    pub(super) provider: Arc<CryptoProvider>,
}

/// The certificate is not the pinned one; this is its SHA-256.
#[derive(Debug, thiserror::Error)]
#[error("its certificate's SHA-256 is {0}, not the one of --tls-pin")]
pub(super) struct NotPinned(String);

impl Verifier {
    fn checks_signatures(&self) -> bool {
        self.chains.is_some() || self.pin.is_some()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(pin) = &self.pin {
            let found = sha256(leaf);
            if found != *pin {
                let other = OtherError(Arc::new(NotPinned(hexadecimal(&found))));
                return Err(CertificateError::Other(other).into());
            }
        }
        if self.given.iter().any(|given| given.as_ref() == leaf.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        match &self.chains {
            Some(chains) => chains.verify_server_cert(leaf, chain, name, ocsp, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !self.checks_signatures() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, leaf, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !self.checks_signatures() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, leaf, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}
