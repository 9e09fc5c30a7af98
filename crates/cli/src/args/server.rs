//! Flags of the reference server: as a command of its own, and as the embedded target of `run`.

use std::path::PathBuf;

use clap::Args;

use super::values;

/// `webstone serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 takes a free one
    ///
    /// Example: --listen 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen)]
    pub listen: Option<String>,

    /// Threads; 0: one for each CPU it may run on
    ///
    /// Example: --threads 2
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub threads: Option<u32>,

    /// CPUs to run on
    ///
    /// Example: --cpus 0-1
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub cpus: Option<String>,

    /// Serve this workload's generated files from memory
    ///
    /// Example: --workload general-and-media
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "root")]
    pub workload: Option<String>,

    /// Serve the files below this directory instead
    ///
    /// Example: --root /var/www/html
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Read files from disk for every request
    #[arg(long)]
    pub no_cache: bool,

    /// End every connection after its first response
    #[arg(long)]
    pub no_keep_alive: bool,

    /// Write an access log in Common Log Format
    ///
    /// Example: --access-log access.log
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,

    /// Name clients in the access log instead of giving their addresses
    #[arg(long)]
    pub resolve_names: bool,

    /// Length of the listen queue, in connections
    ///
    /// Example: --backlog 128
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub backlog: Option<u32>,

    /// End when standard input is closed, so that the server never outlives the program that started it
    #[arg(long)]
    pub until_stdin_closes: bool,
}

/// The embedded server of `run`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Embedded server")]
pub struct EmbeddedServerArgs {
    /// Address and port of the embedded server; port 0 takes a free one
    ///
    /// Example: --server-listen 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen)]
    pub server_listen: Option<String>,

    /// Its threads; 0: one for each CPU it may run on
    ///
    /// Example: --server-threads 1
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub server_threads: Option<u32>,

    /// CPUs that it is pinned to
    ///
    /// Example: --server-cpus 0
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub server_cpus: Option<String>,

    /// Serve the files below this directory instead of the workload's from memory
    ///
    /// Example: --server-root ./files
    #[arg(long, value_name = "DIR")]
    pub server_root: Option<PathBuf>,

    /// Read files from disk for every request
    #[arg(long, visible_alias = "no-cache")]
    pub server_no_cache: bool,

    /// End every connection after its first response
    #[arg(long)]
    pub server_no_keep_alive: bool,

    /// Write an access log in Common Log Format
    ///
    /// Example: --server-log access.log
    #[arg(long, value_name = "FILE")]
    pub server_log: Option<PathBuf>,

    /// Name clients in the access log instead of giving their addresses
    #[arg(long)]
    pub server_resolve_names: bool,

    /// Length of its listen queue, in connections
    ///
    /// Example: --server-backlog 128
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub server_backlog: Option<u32>,
}
