//! Flags of TLS: what clients offer and ask for where a URL is https.

use std::path::PathBuf;

use clap::Args;
use webstone_model::tls::{Share, TlsCipher, TlsGroup, TlsVersion};

/// How clients do TLS handshakes.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS (https:// URLs)")]
pub struct TlsArgs {
    /// Do not verify the server's certificate, as with curl
    ///
    /// Handshakes then cost the client less: neither the chain nor the signature is checked. The report says so.
    #[arg(short = 'k', long)]
    pub insecure: bool,

    /// Certificates to trust instead of the system's: a file in PEM form
    ///
    /// Example: --cacert ca.pem
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub cacert: Option<PathBuf>,

    /// TLS versions to offer
    ///
    /// Example: --tls-version 1.3
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',', value_parser = str::parse::<TlsVersion>)]
    pub tls_version: Vec<TlsVersion>,

    /// Cipher suites to offer, the best first, by their names in the registry or OpenSSL's
    ///
    /// Each TLS version that is offered needs one of its own.
    ///
    /// Example: --tls-ciphers TLS_AES_256_GCM_SHA384,ECDHE-RSA-AES256-GCM-SHA384
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = str::parse::<TlsCipher>)]
    pub tls_ciphers: Vec<TlsCipher>,

    /// Groups of the key exchange to offer, the best first
    ///
    /// X25519MLKEM768 resists quantum computers, and makes a handshake about a seventh dearer.
    ///
    /// Example: --tls-groups X25519MLKEM768,X25519
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = str::parse::<TlsGroup>)]
    pub tls_groups: Vec<TlsGroup>,

    /// Accept only the server certificate with this SHA-256, in hexadecimal digits
    ///
    /// It is what `openssl x509 -in CERT -noout -fingerprint -sha256` prints. The chain is verified besides, unless -k is given.
    ///
    /// Example: --tls-pin 7f3a…09
    #[arg(long, value_name = "SHA256")]
    pub tls_pin: Option<String>,

    /// Client certificate and its chain: a file in PEM form, perhaps with the key
    ///
    /// Example: --cert client.pem
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub cert: Option<PathBuf>,

    /// Private key of the client certificate: a file in PEM form, without a passphrase
    ///
    /// Example: --key client.key
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "cert")]
    pub key: Option<PathBuf>,

    /// Host name to send in the handshake, and to look for in the certificate; '' sends none
    ///
    /// Example: --sni www.example.org
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,

    /// Application protocols to offer (ALPN), the best first
    ///
    /// Example: --alpn h2,http/1.1
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub alpn: Vec<String>,

    /// Share of new connections that resume an earlier session, where there is one
    ///
    /// Others do a full handshake, as a new visitor does. The seed decides which.
    ///
    /// Example: --tls-resume 80%
    #[arg(long, value_name = "PERCENT", value_parser = str::parse::<Share>)]
    pub tls_resume: Option<Share>,

    /// Append session keys to a file, for Wireshark; SSLKEYLOGFILE does the same
    ///
    /// Whoever reads it can decrypt the traffic. It slows handshakes down.
    ///
    /// Example: --tls-key-log keys.log
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub tls_key_log: Option<PathBuf>,

    /// Send requests with the first bytes of resumed handshakes, where the server allows it (TLS 1.3, 0-RTT)
    ///
    /// Needs --tls-resume.
    #[arg(long)]
    pub early_data: bool,
}
