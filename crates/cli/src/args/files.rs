//! Arguments of the commands around workloads and their files: `genfiles`, `checkfiles`, `mine`, `workloads`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use webstone_measure::units::Nanos;
use webstone_model::spec::HttpVersion;

use super::table::flags;
use super::{TlsArgs, values};

/// A format that workloads are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WorkloadFormat {
    /// TOML: says everything that a workload can
    #[default]
    Toml,
    /// Filelist of WebStone 1.x: pages of files, no sizes
    Webstone1,
    /// Filelist of WebStone 2.x: one URL per page, with weight and size
    Webstone2,
}

flags! {
/// `webstone genfiles`.
pub struct GenfilesArgs {
    /// Directory to write the files to; created if necessary
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// The workload: the name of a built-in one, or a file
    ///
    /// Example: -w general-and-media
    #[arg(short, long, value_name = "NAME|FILE")]
    pub workload: Option<String> => (workload),

    /// Write every file, even over files of another workload or with the right size
    #[arg(long)]
    pub force: bool,

    /// Size in bytes of files whose size the workload does not state
    ///
    /// Default: none, such a file is an error. Example: --default-size 10k
    #[arg(long, value_name = "BYTES", value_parser = values::number)]
    pub default_size: Option<u64>,
}
}

flags! {
/// `webstone checkfiles`.
pub struct CheckfilesArgs {
    /// The server, as http://HOST:PORT
    #[arg(value_name = "URL")]
    pub url: String,

    /// The workload: the name of a built-in one, or a file
    ///
    /// Example: -w general-and-media
    #[arg(short, long, value_name = "NAME|FILE")]
    pub workload: Option<String> => (workload),

    /// Hosts besides the server that the workload's URLs may name: HOST for all its ports, HOST:PORT for one
    ///
    /// Example: --allow-hosts images.test,127.0.0.2:8081
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', value_parser = values::host)]
    pub allow_hosts: Vec<String> => (client.allow_hosts = "none"),

    /// Let feeds of the workload be files outside of its own directory
    #[arg(long)]
    pub allow_feeds: bool => (client.allow_feeds),

    /// HTTP version
    ///
    /// Example: --http 3
    #[arg(long, value_name = "VERSION", value_parser = values::http_version())]
    pub http: Option<HttpVersion> => (client.http),

    /// Maximum time for one file
    ///
    /// Example: --timeout 10s
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Nanos> => (client.request_timeout),

    /// TLS.
    #[command(flatten)]
    pub tls: TlsArgs => (..),
}
}

/// `webstone mine`.
#[derive(Args, Debug)]
pub struct MineArgs {
    /// Access logs, plain or gzip; - is standard input
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,

    /// Name of the workload
    ///
    /// Default: mined. Example: --name shop-june
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Group hits into pages: an HTML hit and the other hits from the same client within a second of it
    #[arg(long)]
    pub sessions: bool,

    /// Treat URLs that differ only in their query as one URL, without the query
    #[arg(long)]
    pub no_query: bool,

    /// Take no sizes from the logs: files of any size are right
    ///
    /// For logs that count the head of an answer as well, which their lines do not show: Apache httpd's `%O`, as in Debian's
    /// `combined`.
    #[arg(long)]
    pub no_sizes: bool,

    /// Keep at most this many pages, the most frequent ones
    ///
    /// Default: all. Example: --pages 1000
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub pages: Option<u32>,

    /// Format of the workload
    ///
    /// Default: toml. Example: --format webstone2
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<WorkloadFormat>,

    /// Write the workload to a file instead of standard output
    ///
    /// Default: standard output. Example: -o shop.toml
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `webstone workloads`.
#[derive(Args, Debug)]
#[command(disable_help_subcommand = true)]
pub struct WorkloadsArgs {
    /// What to do; without it, the built-in workloads are listed.
    #[command(subcommand)]
    pub command: Option<WorkloadCommand>,
}

/// What `workloads` does.
#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// List the built-in workloads: pages, files, mean size, what they are like
    List,
    /// Print a workload whole, in a format that -w reads
    Show {
        /// The name of a built-in one, or a file
        #[arg(value_name = "NAME|FILE")]
        workload: String,

        /// Format of the workload
        ///
        /// Default: toml. Example: --format webstone1
        #[arg(long, value_name = "FORMAT", value_enum)]
        format: Option<WorkloadFormat>,
    },
}
