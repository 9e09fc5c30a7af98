//! The arguments of `find` and `calibrate`.

use std::path::PathBuf;

use clap::Args;
use webstone_measure::units::Nanos;
use webstone_model::search::{Over, SearchSpec};

use super::table::flags;
use super::{ClientArgs, GeneratorArgs, OpenLoopArgs, OutputArgs, RetryArgs, ServerElsewhereArgs, values};

flags! {
/// `webstone find`.
pub struct FindArgs {
    /// The URL to request, as http://HOST:PORT/PATH; with --workload the server, as http://HOST:PORT. Without one: the embedded
    /// server
    #[arg(value_name = "URL")]
    pub url: Option<String>,

    /// Conditions that a level has to keep, all of them
    ///
    /// A figure, <, <=, > or >=, and a limit with its unit; several are separated by commas. Figures: rate (requests/s),
    /// connects (1/s), throughput (bit/s, MB/s), avg, min, med, max and p(N) (response times), errors (%), offered (over rates:
    /// arrivals that began, %), fairness (Jain's index over the clients, 1 when all are served equally).
    ///
    /// Default: none, it must be given. Example: --slo 'p(99)<50ms,errors<0.1%,fairness>0.95'
    #[arg(long, value_name = "CONDITIONS", required = true, value_parser = values::slo)]
    pub slo: Option<String> => (find?.slo),

    /// What is raised to find the limit
    ///
    /// A rate is an open loop's: arrivals do not wait for responses, and a level also counts as broken when fewer than 99 % of
    /// them could begin (add a condition on `offered` to ask for more or less). Clients are a closed loop's: each sends its
    /// next request after the last answer.
    ///
    /// Example: --over clients
    #[arg(long, value_name = "LOAD", help_heading = "Search", value_parser = values::over())]
    pub over: Option<Over> => (find?.over),

    /// The lowest load that is tried, in arrivals per second or clients
    ///
    /// Over rates, where --to is more than 16 times as much, the search begins near what the server serves in a short closed loop.
    /// Otherwise this is doubled until the SLO breaks.
    ///
    /// Default: 10 arrivals/s, or 1 client. Example: --from 100
    #[arg(long, value_name = "N", help_heading = "Search", value_parser = values::load)]
    pub from: Option<u64> => (find?.from),

    /// The highest load that is tried
    ///
    /// Default: 1m arrivals/s, or 1024 clients. Example: --to 10k
    #[arg(long, value_name = "N", help_heading = "Search", value_parser = values::load)]
    pub to: Option<u64> => (find?.to),

    /// Maximum gap between the highest load kept and the lowest broken
    ///
    /// Example: --resolution 2%
    #[arg(long, value_name = "PERCENT", help_heading = "Search", value_parser = values::resolution)]
    pub resolution: Option<f64> => (find?.resolution_percent = |_| format!("{}%", SearchSpec::default().resolution_percent)),

    /// Maximum number of timed runs of an undecided level; 3 to 100
    ///
    /// Example: --repeats 20
    #[arg(long, value_name = "N", help_heading = "Search", value_parser = values::repeats)]
    pub repeats: Option<u32> => (find?.repeats),

    /// Over rates: clients that stand by for arrivals, the same number at every level
    ///
    /// Default: at each level as many as its
    /// arrivals need if each takes the longest time that the SLO allows (rate × time, Little's law), from 10 to 1000. Example:
    /// -c 200
    #[arg(short = 'c', long, value_name = "N", help_heading = "Load", value_parser = values::clients_max)]
    pub clients: Option<u32> => (find?.clients & load.clients),

    /// Arrivals of an open loop.
    #[command(flatten)]
    pub open_loop: OpenLoopArgs => (..),

    /// A workload instead of one URL: the name of a built-in one, or a file
    ///
    /// Default: none, the one URL; with the embedded server `standard`. Example: -w standard
    #[arg(short, long, value_name = "NAME|FILE", help_heading = "Load")]
    pub workload: Option<String> => (workload),

    /// Length of each timed run
    ///
    /// Example: -d 10s
    #[arg(short, long, value_name = "TIME", help_heading = "Load")]
    pub duration: Option<Nanos> => (load.duration),

    /// Warm-up before each timed run; not counted
    ///
    /// Example: --warmup 2s
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub warmup: Option<Nanos> => (load.warmup),

    /// Repetition of void timed runs.
    #[command(flatten)]
    pub retry: RetryArgs => (..),

    /// Clients.
    #[command(flatten)]
    pub client: ClientArgs => (..),

    /// Generator.
    #[command(flatten)]
    pub generator: GeneratorArgs => (..),

    /// Server elsewhere.
    #[command(flatten)]
    pub elsewhere: ServerElsewhereArgs => (..),

    /// Output.
    #[command(flatten)]
    pub output: OutputArgs => (..),

    /// Store no record
    #[arg(long, help_heading = "Output", conflicts_with = "runs_dir")]
    pub no_store: bool,
}
}

/// `webstone calibrate`.
#[derive(Args, Debug)]
pub struct CalibrateArgs {
    /// Length of each timed run
    ///
    /// Default: 1s. Example: -d 5s
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Nanos>,

    /// Timed runs of each mode
    ///
    /// Default: 3. Example: -i 5
    #[arg(short, long, value_name = "N", value_parser = values::count_u32)]
    pub iterations: Option<u32>,

    /// File to write the calibration to; runs read the default one
    ///
    /// Default: webstone/calibration.json below $XDG_DATA_HOME, or below ~/.local/share. Example: -o calibration.json
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Print the calibration as JSON instead of as a table
    #[arg(long)]
    pub json: bool,

    /// Print the calibration that is stored, and measure nothing
    #[arg(long, conflicts_with_all = ["duration", "iterations"])]
    pub show: bool,
}

/// `webstone null-server`, the other side of `calibrate`.
#[derive(Args, Debug)]
pub struct NullServerArgs {
    /// Length of the body
    #[arg(long, value_name = "BYTES", value_parser = values::number_u32, long_help = "Length of the body\n\nDefault: 500. Example: --body 5k")]
    pub body: Option<u32>,

    /// Path in webstone's generated fileset whose content the body is
    #[arg(
        long,
        value_name = "PATH",
        long_help = "Path whose content the body is\n\nDefault: /file500.html. Example: --path /file5k.html"
    )]
    pub path: Option<String>,

    /// Close each connection after its first answer
    #[arg(long)]
    pub close: bool,

    /// CPUs, an event loop on each
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list, long_help = "CPUs, an event loop on each\n\nDefault: one loop, not pinned. Example: --cpus 0-1")]
    pub cpus: Option<String>,

    /// End when standard input is closed
    #[arg(long)]
    pub until_stdin_closes: bool,
}
