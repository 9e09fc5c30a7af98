//! `generators`: the hosts that make load together.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What is done with the hosts.
#[derive(Args, Debug)]
pub struct GeneratorsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: GeneratorsCommand,
}

/// What is done with the hosts.
#[derive(Debug, Subcommand)]
pub enum GeneratorsCommand {
    /// Start every agent, and show its host, build, CPUs and clock
    Check(GeneratorsCheckArgs),
}

/// `generators check`.
#[derive(Args, Debug)]
pub struct GeneratorsCheckArgs {
    /// Testbed file whose `[[generators]]` are looked at
    ///
    /// Default: none. Example: -f testbed.toml
    #[arg(short = 'f', long, value_name = "FILE")]
    pub testbed: Option<PathBuf>,

    /// Command that runs `webstone agent` on a host; repeat it for each host, instead of those of a file
    ///
    /// Default: none. Example: --generator 'ssh gen1 webstone agent'
    #[arg(long, value_name = "COMMAND")]
    pub generator: Vec<String>,
}
