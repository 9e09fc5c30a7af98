//! Arguments of the commands that let others trust a result: `certify`, `verify`, `archive`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How a list of rules or checks is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A list for people
    #[default]
    Text,
    /// JSON for programs
    Json,
    /// Markdown for a page or a pull request
    Markdown,
}

/// `webstone certify`.
#[derive(Args, Debug)]
pub struct CertifyArgs {
    /// The run's directory, its record.json, its name (the newest run of it), or `last`
    #[arg(value_name = "RUN")]
    pub run: PathBuf,

    /// Sign with this private key: ed25519, in OpenSSH or PKCS#8 format
    ///
    /// `ssh-keygen -t ed25519 -f webstone-key` makes one. The key itself is only read.
    ///
    /// Default: none, the record is not signed. Example: --key ~/.ssh/id_ed25519
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Write and sign the certificate even if a rule is not met, labelled as uncertified
    #[arg(long)]
    pub uncertified: bool,

    /// Replace an existing signature
    #[arg(long)]
    pub force: bool,

    /// Pack the record into an archive, too: .tar.gz or .zip
    ///
    /// Default: none. Example: --archive result.tar.gz
    #[arg(long, value_name = "FILE")]
    pub archive: Option<PathBuf>,

    /// Format of the list of rules
    ///
    /// Default: text. Example: --format markdown
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<ListFormat>,
}

/// `webstone verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Directories of runs, series or duels, `last`, or archives of runs and duels (.tar.gz, .zip)
    #[arg(value_name = "RUN|SERIES|ARCHIVE", required = true)]
    pub runs: Vec<PathBuf>,

    /// The key that must have signed: its fingerprint, its public key, or the file with it; may be given several times
    ///
    /// Default: any key, whose fingerprint is printed. Example: --signer SHA256:XCTZ…, or --signer tester.pub
    #[arg(long, value_name = "KEY")]
    pub signer: Vec<String>,

    /// File of keys that may have signed, as `ssh-keygen -Y verify -f` reads it
    ///
    /// Default: none. Example: --allowed-signers allowed_signers
    #[arg(long, value_name = "FILE")]
    pub allowed_signers: Option<PathBuf>,

    /// Format of the answer
    ///
    /// Default: text. Example: --format json
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<ListFormat>,
}

/// `webstone archive`.
#[derive(Args, Debug)]
pub struct ArchiveArgs {
    /// The run's directory, its record.json, its name (the newest run of it), or `last`
    #[arg(value_name = "RUN")]
    pub run: PathBuf,

    /// The archive, .tar.gz or .zip
    ///
    /// Default: the run's name with .tar.gz, in this directory. Example: -o result.zip
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
