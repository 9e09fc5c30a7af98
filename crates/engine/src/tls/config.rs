//! A run's TLS specification as configuration of rustls: made once with the plan, and shared by all workers.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    CipherSuite, ClientConfig, KeyLog, NamedGroup, NoKeyLog, ProtocolVersion, RootCertStore,
    SupportedCipherSuite, SupportedProtocolVersion,
};
use webstone_measure::shown::quoted;
use webstone_workload::load::HttpVersion;
use webstone_workload::target::{Place, Scheme, Target};
use webstone_workload::tls::{Share, TlsCipher, TlsGroup, TlsSpec, TlsVersion};

use super::key_log::KeyFile;
use super::tunnel;
use super::verifier::Verifier;
use crate::plan_error::PlanError;

/// Files in which systems keep the certificates that they trust, the most common first.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// How a run uses TLS.
#[derive(Clone, Debug)]
pub(crate) struct TlsPlan {
    pub(super) config: Arc<ClientConfig>,
    /// Share of connections that resume a session.
    pub(super) resume: Share,
    pub(super) is_verified: bool,
    /// The protocol of the requests, by its ALPN name.
    pub(super) speaks: &'static str,
    /// What is offered, in words.
    pub(super) offered: Arc<str>,
    /// The file for session keys. Each worker opens it again, because the process's files are not in the worker's
    /// table of open files.
    key_log: Option<String>,
    sni: Option<String>,
}

/// The peer of a handshake, for an origin over TLS.
#[derive(Clone, Debug)]
pub(crate) struct Secure {
    pub(super) name: ServerName<'static>,
    /// The `CONNECT` request to a proxy, if there is one.
    pub(super) tunnel: Option<Vec<u8>>,
}

impl TlsPlan {
    /// Reads the files that the specification names.
    ///
    /// # Errors
    /// If a file cannot be read, or settings contradict each other.
    pub(crate) fn new(spec: &TlsSpec, http: HttpVersion) -> Result<TlsPlan, PlanError> {
        let provider = Arc::new(provider(spec));
        let versions: Vec<&'static SupportedProtocolVersion> =
            spec.versions.iter().map(|version| version_of(*version)).collect();
        let chains = spec.verify.then(|| chains(spec, &provider)).transpose()?;
        let given = spec.cacert.as_deref().filter(|_| spec.verify);
        let given = given.map_or(Ok(Vec::new()), |path| certificates("--cacert", path))?;
        let pin = spec.pin.as_deref().map(pin).transpose()?;
        let verifier = Verifier { chains, given, pin, provider: provider.clone() };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| {
                PlanError::new(
                    format!("--tls-version, --tls-ciphers, --tls-groups: {error}"),
                    "give at least one cipher suite for each version, and one group",
                )
            })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match identity(spec)? {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                PlanError::new(
                    format!("--cert {}, --key: {error}", quoted(spec.cert.as_deref().unwrap_or_default())),
                    "give a certificate and the private key that belongs to it",
                )
            })?,
        };
        let (speaks, offers): (_, &[&str]) = match http {
            // Most servers do not know this name of HTTP/1.0, and some end a handshake that offers nothing that they
            // know.
            HttpVersion::Http10 => ("http/1.0", &[]),
            HttpVersion::Http11 => ("http/1.1", &["http/1.1"]),
            HttpVersion::Http2 => ("h2", &["h2"]),
            HttpVersion::Http3 => ("h3", &["h3"]),
            HttpVersion::Auto => ("http/1.1", &["h2", "http/1.1"]),
        };
        config.alpn_protocols = match spec.alpn.is_empty() {
            true => offers.iter().map(|name| name.as_bytes().to_vec()).collect(),
            false => spec.alpn.iter().map(|name| name.as_bytes().to_vec()).collect(),
        };
        config.enable_sni = spec.sni.as_deref() != Some("");
        config.enable_early_data = spec.early_data;
        if let Some(path) = &spec.key_log {
            let file = KeyFile::open(path).map_err(|error| {
                PlanError::new(
                    format!("--tls-key-log {}: {error}", quoted(path)),
                    "name a file that can be written",
                )
            })?;
            // For probes.
            config.key_log = Arc::new(file);
        }
        Ok(TlsPlan {
            config: Arc::new(config),
            resume: spec.resume,
            is_verified: spec.verify || spec.pin.is_some(),
            speaks,
            offered: offered(spec).into(),
            key_log: spec.key_log.clone(),
            sni: spec.sni.clone().filter(|name| !name.is_empty()),
        })
    }

    /// Where a worker writes session keys; opened by its own thread. If the file can no longer be opened, nothing is
    /// written: the plan's own descriptor would be a different file in the worker's table.
    pub(super) fn key_log(&self) -> Arc<dyn KeyLog> {
        let file = self.key_log.as_ref().and_then(|path| KeyFile::open(path).ok());
        file.map_or_else(|| Arc::new(NoKeyLog {}) as Arc<dyn KeyLog>, |file| Arc::new(file))
    }

    /// The TLS peer of connections to a target; `None` if its URL is not https://. `is_proxied`: a tunnel through a
    /// proxy comes first.
    pub(crate) fn secure(&self, target: &Target, is_proxied: bool) -> Result<Option<Secure>, PlanError> {
        if target.scheme == Scheme::Http {
            return Ok(None);
        }
        let host = self.sni.as_deref().unwrap_or(target.host_without_zone());
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            PlanError::new(
                format!("{} cannot be sent as a server name (SNI)", quoted(host)),
                "give another name with --sni HOST",
            )
        })?;
        let place = Place { host: target.host_without_zone().to_owned(), port: Some(target.port) };
        let tunnel = is_proxied.then(|| tunnel::request(&place.to_string()));
        Ok(Some(Secure { name, tunnel }))
    }
}

/// Draws the random numbers of a handshake once. A process's and a thread's first keys wait for entropy, up to
/// hundreds of milliseconds, which should not happen during a client's first handshake.
pub(super) fn draw_first_keys(config: &ClientConfig) {
    let provider = config.crypto_provider();
    let _ = provider.secure_random.fill(&mut [0; 32]);
    for group in &provider.kx_groups {
        let _ = group.start();
    }
}

/// The name of a negotiated version.
pub(super) fn named_version(version: ProtocolVersion) -> TlsVersion {
    match version {
        ProtocolVersion::TLSv1_2 => TlsVersion::Tls12,
        _ => TlsVersion::Tls13,
    }
}

/// The name of a negotiated suite: one of those offered.
pub(super) fn named_cipher(suite: CipherSuite) -> TlsCipher {
    let found = TlsCipher::ALL.into_iter().find(|cipher| suite_of(*cipher).suite() == suite);
    found.unwrap_or(TlsCipher::Tls13Aes128)
}

/// The name of a negotiated group: one of those offered.
pub(super) fn named_group(group: NamedGroup) -> Option<TlsGroup> {
    TlsGroup::ALL.into_iter().find(|known| group_of(*known).name() == group)
}

fn provider(spec: &TlsSpec) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: spec.ciphers.iter().map(|cipher| suite_of(*cipher)).collect(),
        kx_groups: spec.groups.iter().map(|group| group_of(*group)).collect(),
        ..default_provider()
    }
}

fn version_of(version: TlsVersion) -> &'static SupportedProtocolVersion {
    match version {
        TlsVersion::Tls12 => &rustls::version::TLS12,
        TlsVersion::Tls13 => &rustls::version::TLS13,
    }
}

fn suite_of(cipher: TlsCipher) -> SupportedCipherSuite {
    match cipher {
        TlsCipher::Tls13Aes128 => cipher_suite::TLS13_AES_128_GCM_SHA256,
        TlsCipher::Tls13Aes256 => cipher_suite::TLS13_AES_256_GCM_SHA384,
        TlsCipher::Tls13ChaCha20 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        TlsCipher::EcdsaAes128 => cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        TlsCipher::RsaAes128 => cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        TlsCipher::EcdsaAes256 => cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        TlsCipher::RsaAes256 => cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        TlsCipher::EcdsaChaCha20 => cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        TlsCipher::RsaChaCha20 => cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

fn group_of(group: TlsGroup) -> &'static dyn SupportedKxGroup {
    match group {
        TlsGroup::X25519 => kx_group::X25519,
        TlsGroup::Secp256r1 => kx_group::SECP256R1,
        TlsGroup::Secp384r1 => kx_group::SECP384R1,
        TlsGroup::X25519Mlkem768 => kx_group::X25519MLKEM768,
    }
}

fn offered(spec: &TlsSpec) -> String {
    fn list<T: std::fmt::Display>(items: &[T]) -> String {
        items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
    let (versions, ciphers, groups) = (list(&spec.versions), list(&spec.ciphers), list(&spec.groups));
    format!("the client offered TLS {versions}; {ciphers}; groups {groups}")
}

/// The verifier of chains that end at a trusted certificate.
fn chains(spec: &TlsSpec, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, PlanError> {
    let mut roots = RootCertStore::empty();
    match &spec.cacert {
        Some(path) => {
            let found = certificates("--cacert", path)?;
            let (taken, _) = roots.add_parsable_certificates(found);
            if taken == 0 {
                return Err(PlanError::new(
                    format!("--cacert {}: none of its certificates can be read", quoted(path)),
                    "give a file with certificates in PEM format",
                ));
            }
        }
        None => {
            let named = std::env::var("SSL_CERT_FILE").ok();
            let path = named.as_deref().or_else(|| BUNDLES.into_iter().find(|path| Path::new(path).exists()));
            let none = || {
                PlanError::new(
                    "this system has no list of trusted certificates",
                    "give one with --cacert FILE, or skip verification with -k",
                )
            };
            let found = certificates("SSL_CERT_FILE", path.ok_or_else(none)?)?;
            roots.add_parsable_certificates(found);
        }
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().map_err(|error| {
        PlanError::new(
            format!("the trusted certificates cannot be used: {error}"),
            "give others with --cacert FILE, or skip verification with -k",
        )
    })
}

fn certificates(what: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, PlanError> {
    let unreadable = |error: rustls::pki_types::pem::Error| {
        PlanError::new(
            format!("{what} {}: {}", quoted(path), in_words(&error)),
            "give a file with certificates in PEM format",
        )
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect();
    match found.map_err(unreadable)? {
        found if found.is_empty() => Err(PlanError::new(
            format!("{what} {}: it has no certificate", quoted(path)),
            "give a file with certificates in PEM format, which begin with -----BEGIN CERTIFICATE-----",
        )),
        found => Ok(found),
    }
}

/// Certificate and key of the client, if given.
#[allow(clippy::type_complexity, reason = "both are passed to one call")]
fn identity(
    spec: &TlsSpec,
) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, PlanError> {
    let Some(cert) = &spec.cert else { return Ok(None) };
    // As curl does: the key may be in the certificate's file.
    let path = spec.key.as_ref().unwrap_or(cert);
    let chain = certificates("--cert", cert)?;
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| {
        if std::fs::read(path).is_ok_and(|pem| has_passphrase(&pem)) {
            return PlanError::new(
                format!("--key {}: the private key has a passphrase", quoted(path)),
                "write the key without it to another file: openssl pkey -in KEY -out FILE",
            );
        }
        PlanError::new(
            format!("--key {}: {}", quoted(path), in_words(&error)),
            "give a file with a private key in PEM format, without a passphrase",
        )
    })?;
    Ok(Some((chain, key)))
}

/// Whether a private key in PEM is encrypted: as PKCS #8 has it (RFC 5958), or as OpenSSL once wrote it.
fn has_passphrase(pem: &[u8]) -> bool {
    let marks: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];
    marks.into_iter().any(|mark| memchr::memmem::find(pem, mark).is_some())
}

fn in_words(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::Io(error) => crate::failure::describe(error),
        Error::NoItemsFound => "it has no private key".to_owned(),
        other => other.to_string(),
    }
}

fn pin(text: &str) -> Result<[u8; 32], PlanError> {
    let digits: String = text.chars().filter(|c| *c != ':').collect();
    let byte = |at: usize| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes.filter(|_| digits.len() == 64).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        PlanError::new(
            format!("--tls-pin {}: not a SHA-256 hash in hexadecimal", quoted(text)),
            "print it with `openssl x509 -in CERT -noout -fingerprint -sha256`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_their_values() {
        for cipher in TlsCipher::ALL {
            let suite = suite_of(cipher);
            assert_eq!(named_cipher(suite.suite()), cipher);
            let name = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
            assert_eq!(name, cipher.name());
            assert_eq!(named_version(suite.version().version), cipher.version());
        }
        for group in TlsGroup::ALL {
            assert_eq!(named_group(group_of(group).name()), Some(group));
            assert!(format!("{:?}", group_of(group).name()).eq_ignore_ascii_case(group.name()));
        }
    }

    #[test]
    fn unusable_settings_are_reported_with_option_value_and_remedy() {
        let told = |change: &dyn Fn(&mut TlsSpec)| {
            let mut spec = TlsSpec { verify: false, ..TlsSpec::default() };
            change(&mut spec);
            let error = TlsPlan::new(&spec, HttpVersion::Http11).unwrap_err();
            assert!(error.hint.is_some());
            error.what
        };
        let missing = "/no/such/file".to_owned();
        assert_eq!(
            told(&|spec| spec.cert = Some(missing.clone())),
            "--cert `/no/such/file`: no such file or directory"
        );
        let roots = |spec: &mut TlsSpec| {
            spec.verify = true;
            spec.cacert = Some("/dev/null".into());
        };
        assert_eq!(told(&roots), "--cacert `/dev/null`: it has no certificate");
        for pin in ["", "12", &"0".repeat(63), &"g".repeat(64)] {
            assert!(told(&|spec| spec.pin = Some(pin.to_owned())).starts_with("--tls-pin"), "{pin}");
        }
        for encrypted in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIB\n-----END RSA PRIVATE KEY-----\n",
        ] {
            assert!(has_passphrase(encrypted.as_bytes()));
        }
        assert!(!has_passphrase(b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"));
        let colons = ["ab"; 32].join(":");
        assert_eq!(pin(&colons).unwrap(), [0xab; 32]);
    }
}
