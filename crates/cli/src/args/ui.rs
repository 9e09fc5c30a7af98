//! The arguments of `ui`.

use std::path::PathBuf;

use clap::Args;

use super::values;

/// `webstone ui`.
#[derive(Args, Debug)]
pub struct UiArgs {
    /// Port on 127.0.0.1
    ///
    /// Default: a free one. Example: --port 8080
    #[arg(long, value_name = "PORT", value_parser = values::port)]
    pub port: Option<u16>,

    /// Directory of the stored runs
    ///
    /// Default: runs. Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR")]
    pub runs_dir: Option<PathBuf>,

    /// Look only: no run is started or stopped, nothing is changed
    #[arg(long)]
    pub read_only: bool,

    /// Let testbeds do everything: run commands, read and write files, use sockets and proxies; write archives and certificates
    ///
    /// Without it, anyone who gets hold of the token can make load with the servers that webstone knows, and no more. `docs/security.md`
    /// lists what each key of a testbed may do.
    #[arg(long, conflicts_with = "read_only")]
    pub allow_commands: bool,

    /// End when no run is active and there was no request for a minute, as with `--watch`
    #[arg(long, hide = true)]
    pub until_idle: bool,
}
