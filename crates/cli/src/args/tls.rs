//! Flags of TLS: what clients offer and require, if a URL is https.

use std::path::PathBuf;

use webstone_workload::tls::{Share, TlsCipher, TlsGroup, TlsVersion};

use super::table::flags;

flags! {
/// How clients do TLS handshakes.
#[command(next_help_heading = "TLS (https:// URLs)")]
pub struct TlsArgs {
    /// Do not verify the server's certificate, like curl -k
    ///
    /// Handshakes then cost the client less, because neither chain nor signature is checked. The report says so.
    #[arg(short = 'k', long)]
    pub insecure: bool => (client.tls.verify, |_, run| run.client.tls.verify = false),

    /// File of certificates (PEM) to trust instead of the system's
    ///
    /// A server's own certificate may be named too. Then its name is checked, but not its expiry.
    ///
    /// Example: --cacert ca.pem
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub cacert: Option<PathBuf> => (client.tls.cacert = "the system's trusted certificates"),

    /// TLS versions to offer
    ///
    /// Example: --tls-version 1.3
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',', value_parser = str::parse::<TlsVersion>)]
    pub tls_version: Vec<TlsVersion> => (client.tls.versions),

    /// Cipher suites to offer, in order of preference, by their IANA or OpenSSL names
    ///
    /// Each TLS version offered needs at least one.
    ///
    /// Example: --tls-ciphers TLS_AES_256_GCM_SHA384,ECDHE-RSA-AES256-GCM-SHA384
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = str::parse::<TlsCipher>)]
    pub tls_ciphers: Vec<TlsCipher> => (
        client.tls.ciphers = "all supported ones, AES-128 first",
        |args, run| {
            let tls = &mut run.client.tls;
            tls.ciphers.clone_from(&args.tls_ciphers);
            // Suites without versions imply their versions.
            if args.tls_version.is_empty() {
                tls.versions.retain(|version| tls.ciphers.iter().any(|cipher| cipher.version() == *version));
            }
        }
    ),

    /// Key-exchange groups to offer, in order of preference
    ///
    /// X25519MLKEM768 resists quantum computers; handshakes cost about a seventh more.
    ///
    /// Example: --tls-groups X25519MLKEM768,X25519
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = str::parse::<TlsGroup>)]
    pub tls_groups: Vec<TlsGroup> => (client.tls.groups),

    /// Accept only the server certificate with this SHA-256 fingerprint, in hexadecimal
    ///
    /// `openssl x509 -in CERT -noout -fingerprint -sha256` prints it. The chain is verified, too, unless -k is given.
    ///
    /// Example: --tls-pin 7f3a…09
    #[arg(long, value_name = "SHA256")]
    pub tls_pin: Option<String> => (client.tls.pin = "none"),

    /// File with the client certificate and its chain (PEM); it may also contain the key
    ///
    /// Example: --cert client.pem
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub cert: Option<PathBuf> => (client.tls.cert = "none"),

    /// File with the private key of the client certificate (PEM), without a passphrase
    ///
    /// Example: --key client.key
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "cert")]
    pub key: Option<PathBuf> => (client.tls.key = "the certificate's file"),

    /// Host name to send in the handshake and to expect in the certificate; '' sends none
    ///
    /// Example: --sni www.example.org
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String> => (client.tls.sni = "the URL's host name"),

    /// Application protocols to offer (ALPN), in order of preference
    ///
    /// Example: --alpn h2,http/1.1
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub alpn: Vec<String> => (client.tls.alpn = "what --http says"),

    /// Share of new connections that resume an earlier session, if they have one
    ///
    /// The others do a full handshake, like a new visitor. The seed decides which.
    ///
    /// Example: --tls-resume 80%
    #[arg(long, value_name = "PERCENT", value_parser = str::parse::<Share>)]
    pub tls_resume: Option<Share> => (client.tls.resume),

    /// Append session keys to a file, for Wireshark; SSLKEYLOGFILE does the same
    ///
    /// Anyone who can read the file can decrypt the traffic. It slows handshakes down.
    ///
    /// Example: --tls-key-log keys.log
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub tls_key_log: Option<PathBuf> => (client.tls.key_log = "none"),

    /// Send requests as early data in resumed handshakes, if the server allows it (TLS 1.3, 0-RTT)
    ///
    /// Needs --tls-resume.
    #[arg(long)]
    pub early_data: bool => (client.tls.early_data),
}
}
