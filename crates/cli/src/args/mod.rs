//! What may be typed: every command and flag, its help and its parser. The first of two steps, as in ripgrep: nothing
//! here knows what a flag leads to; `intent` turns what was typed into what it means.
//!
//! A flag that was not typed is `None`, because its default stands in `webstone_model::spec` and nowhere else;
//! [`command`] writes those defaults into the help.

mod certify;
mod client;
mod compare;
mod defaults;
mod files;
mod find;
mod generator;
mod load;
mod output;
mod server;
mod values;

pub use certify::{ArchiveArgs, CertifyArgs, ListFormat, VerifyArgs};
pub use client::ClientArgs;
pub use compare::{CompareArgs, ThresholdArgs};
pub use files::{CheckfilesArgs, GenfilesArgs, MineArgs, WorkloadCommand, WorkloadFormat, WorkloadsArgs};
pub use find::{CalibrateArgs, FindArgs, NullServerArgs};
pub use generator::GeneratorArgs;
pub use load::{HitLoadArgs, RunLoadArgs};
pub use output::{ColorChoice, HistoryArgs, OutputArgs, ReportArgs};
pub use server::{EmbeddedServerArgs, ServeArgs};
pub(crate) use values::listen;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "webstone",
    about = "The web-server benchmark",
    long_about = None,
    version = crate::version::LINE,
    disable_help_subcommand = true,
    infer_long_args = false,
    subcommand_required = true,
    arg_required_else_help = true,
    override_usage = "webstone COMMAND [OPTIONS]",
    subcommand_help_heading = "All commands",
    help_template = TOP_TEMPLATE,
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,

    /// When to colour the output: auto (on a terminal, unless NO_COLOR is set), always or never
    ///
    /// Example: --color never
    #[arg(long, global = true, value_name = "WHEN", value_enum, hide_possible_values = true)]
    pub color: Option<ColorChoice>,

    /// Print no progress and no notes; errors and the report itself remain
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// What `webstone --help` shows: first the commands that people use, each as one can type it.
const TOP_TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

What people type:
  webstone run
      Benchmark the embedded server: the `standard` workload, four client counts, half a minute,
      a report, a record in runs/.
  webstone genfiles /var/www/html
      Write the workload's files where a real server can serve them.
  webstone checkfiles http://127.0.0.1:8080
      See that the server serves every one of them, whole and unchanged.
  webstone run http://127.0.0.1:8080 -c 20..100+10 -d 1m -i 3
      Benchmark that server: nine client counts, a minute each, three times.
  webstone hit http://127.0.0.1:8080/index.html -c 64 -d 10s
      One URL, one load, a short answer.
  webstone report runs/20260701T120000Z-webstone --format json
      Print a stored run again, in any format.
  webstone verify result.tar.gz
      Check a run that somebody hands you: every file, the signature, every figure computed again.
  webstone compare last~1 last --fail-if 'rate<-3%'
      Hold one run against another: faster, slower, or no difference shown.
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,errors<0.1%'
      The highest load at which the server keeps that.

All commands:
{subcommands}

Options:
{options}

Exit codes: 0 done · 1 webstone failed · 2 usage · 3 a threshold failed · 4 the measurement is invalid
            5 a run rule is not met · 6 a record does not verify · 130, 143 interrupted
`webstone COMMAND --help` explains every option with its unit, default and an example.
";

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the benchmark: a workload, a sweep over numbers of clients, a report, a record
    ///
    /// With nothing given, the embedded reference server is started as a process of its own and measured. With a
    /// URL, that server is measured; it has to serve the workload's files (see `genfiles` and `checkfiles`).
    ///
    /// What is typed overrides the testbed file (-f), which overrides the defaults. --dump-spec prints the result.
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),

    /// Request one URL under one load and print a short answer, with the habits of wrk
    ///
    /// Connections are kept alive, the load lasts 10 s, nothing is stored unless --store is given.
    #[command(after_long_help = HIT_EXAMPLES)]
    Hit(Box<HitArgs>),

    /// Search for the highest load at which a server keeps an SLO
    ///
    /// The load is doubled until the SLO breaks, then the edge is narrowed down by bisection, and the levels on both sides
    /// of it are repeated until each counts as kept or broken by its interval over the timed runs, or cannot be decided. What
    /// is reported is the interval: the highest load kept, the lowest broken. How long that can take is said beforehand.
    #[command(after_long_help = FIND_EXAMPLES)]
    Find(Box<FindArgs>),

    /// Measure what this host's load generator can do
    ///
    /// Every mode (small answers on kept connections, a connection for each request, ended by the server or by a reset, large
    /// bodies), with epoll and io_uring, with one worker and with all, against a null server that is cheaper than any real
    /// one. The result is stored; runs on the same host with the same version quote their load as a share of it.
    #[command(after_long_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),

    /// The server that `calibrate` measures against: the same answer to every request
    #[command(hide = true)]
    NullServer(NullServerArgs),

    /// Run the reference server
    ///
    /// It serves a workload's generated files from memory, or a directory. When it listens it prints one line on
    /// standard output: READY and its URL. It ends on Ctrl-C.
    #[command(after_long_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),

    /// Write the files of a workload into a directory, for a server to serve
    ///
    /// Exact sizes, the same content on every machine, and a manifest of checksums.
    Genfiles(GenfilesArgs),

    /// Ask a server for every file of a workload and tell which are missing or wrong
    ///
    /// Every file is fetched once and compared, byte by byte, with what `genfiles` writes.
    Checkfiles(CheckfilesArgs),

    /// Make a workload from access logs
    ///
    /// Reads Common and Combined Log Format, plain or gzip, in bounded memory. URLs become pages weighted by their
    /// hits. Lines that do not parse are counted and shown.
    Mine(MineArgs),

    /// Print stored runs again, in any format
    ///
    /// A report is made from the record alone, so it can be made years later and on another machine.
    Report(ReportArgs),

    /// Hold the run rules against a stored run, and sign it
    ///
    /// Every run rule, WebStone 2.0's and webstone's own, is listed as met, not met, or not to be told from the record,
    /// with the evidence. Where all are met (or with --uncertified, labelled as that) the list is put into the record as
    /// certificate.json and, with --key, the record is signed whole.
    #[command(after_long_help = CERTIFY_EXAMPLES)]
    Certify(CertifyArgs),

    /// Check a run that somebody hands you: every file, the signature, every figure computed again
    ///
    /// Needs the run's directory or its archive and nothing else. Whatever was changed since is named, with its file.
    #[command(after_long_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),

    /// Make one file of a stored run, to hand it on: the same run gives the same bytes
    ///
    /// Example: webstone archive runs/20260701T120000Z-webstone -o result.tar.gz
    Archive(ArchiveArgs),

    /// Compare stored runs: by how much each figure changed, how sure that is, and whether it is more than noise
    ///
    /// Level by level, every run against the first. Iterations are the samples: run each with -i 3 or more. Runs that
    /// measured different things (another workload, policy, protocol, host) are refused with the list of differences.
    #[command(after_long_help = COMPARE_EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Print published results from 1995 to 2000, alone or with a run beside them
    ///
    /// The WebStone paper's Netsite and NCSA, FastTrack Beta 3, the ProLiant 5000 with IIS 2.0, the NetServer LT 6000r
    /// with IIS 5 and WASD v4.5: every figure as its document printed it. With a run, the same figures of it and the
    /// ratio.
    #[command(after_long_help = HISTORY_EXAMPLES)]
    History(HistoryArgs),

    /// List the built-in workloads, or show one
    Workloads(WorkloadsArgs),

    /// Print a completion script for a shell
    ///
    /// Example: webstone completions bash > ~/.local/share/bash-completion/completions/webstone
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },

    /// Print the manual page, or write the pages of all commands into a directory
    Man {
        /// Directory that receives webstone.1, webstone-run.1 and so on; without it webstone.1 is printed
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  webstone run
  webstone run http://127.0.0.1:8080 -w standard -c 20..100+10 -d 10m -i 3
  webstone run http://[::1]:8080 -c 1..256*2 --connections keep-alive --name nginx-keepalive
  webstone run -f testbed.toml -d 30s
  webstone run --format json | jq '.computed.levels[].figures.request_rate'
  webstone run http://127.0.0.1:8080 -c 64 --dump-spec > testbed.toml

Exit codes: 0 done, 1 webstone failed, 2 usage, 3 a threshold failed, 4 the measurement is invalid (a broken identity, a
level without a success, or errors above 1 %), 130 interrupted by Ctrl-C, 143 by SIGTERM. Interrupted once, a run ends its level, keeps
and reports what was measured; interrupted twice, it stops at once.";

const HIT_EXAMPLES: &str = "\
Examples:
  webstone hit http://127.0.0.1:8080/index.html
  webstone hit http://127.0.0.1:8080/ -t 1 -c 64 -d 30s --latency
  webstone hit http://127.0.0.1:8080/ -n 100k
  webstone hit http://127.0.0.1:8080/ --threshold 'p(99)<50ms,errors<0.1%'
  webstone hit http://127.0.0.1:8080/api -m POST --body @order.json -H 'Content-Type: application/json'
  webstone hit http://127.0.0.1:8080/ --connections per-request --format json";

const COMPARE_EXAMPLES: &str = "\
Examples:
  webstone compare runs/20260701T120000Z-before runs/20260701T130000Z-after
  webstone compare before after --noise-floor 2% --format markdown
  webstone compare before after --noise-floor runs/20260701T110000Z-aa
  webstone compare before after --fail-if 'rate<-3%' --fail-if 'p(99)>+10%,errors>+0.1pp'
  webstone compare before after --fail-if 'rate{clients:40}<-3%' --threshold 'p(99)<50ms'
  webstone compare last~1 last --force

Exit codes: 0 done, 1 webstone failed or a condition could not be judged, 2 usage or not comparable, 3 a condition or
threshold failed, 4 one was asked for and a run is invalid (--force judges it all the same).";

const FIND_EXAMPLES: &str = "\
Examples:
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,errors<0.1%'
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,fairness>0.95' --to 4k --resolution 2%
  webstone find http://127.0.0.1:8080 -w standard --slo 'avg<20ms' -d 10s --repeats 20 -o search.html

Exit codes: 0 the limit was found, or the SLO is kept up to --to; 1 webstone failed, or noise leaves the edge undecided;
2 usage; 3 the SLO is never kept; 4 the measurement is invalid; 130, 143 interrupted: what was measured is kept.";

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  webstone calibrate
  webstone calibrate -d 5s -i 5
  webstone calibrate --show";

const SERVE_EXAMPLES: &str = "\
Examples:
  webstone serve
  webstone serve --listen 127.0.0.1:8080 --threads 2 --cpus 0-1
  webstone serve --listen [::1]:8080 --root /var/www/html --access-log access.log";

const CERTIFY_EXAMPLES: &str = "\
Examples:
  webstone certify runs/20260701T120000Z-webstone
  webstone certify runs/20260701T120000Z-webstone --key ~/.ssh/id_ed25519 --archive result.tar.gz
  webstone certify runs/20260701T120000Z-webstone --key webstone-key --uncertified --format markdown

Exit codes: 0 every rule is met (or --uncertified was given), 5 one is not, 6 the record does not verify, 1 webstone
failed, 2 usage. docs/certify.md says how to check a signature without webstone.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  webstone verify runs/20260701T120000Z-webstone
  webstone verify result.tar.gz --signer tester.pub
  webstone verify result.zip --allowed-signers allowed_signers --format json

Exit codes: 0 everything is as it was, 6 something is not, 1 webstone failed, 2 usage.";

const HISTORY_EXAMPLES: &str = "\
Examples:
  webstone history
  webstone history --only fasttrack
  webstone history runs/20260701T120000Z-webstone --only html
  webstone history runs/20260701T120000Z-webstone -o history.html
  webstone history --format csv -o history.csv";

/// `webstone run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The server under test, as http://HOST:PORT; several are used in turn. Without one: the embedded server
    ///
    /// Names a server only: which files are requested is the workload's matter, so a path other than / is refused.
    #[arg(value_name = "URL")]
    pub target: Vec<String>,

    /// Testbed file: a run as TOML, as --dump-spec prints it; flags override it
    ///
    /// Default: none. Example: -f testbed.toml
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub testbed: Option<PathBuf>,

    /// The workload: the name of a built-in one, or a file
    ///
    /// `webstone workloads` lists the built-in ones. A file is a filelist of WebStone 1.x or 2.x, or a workload in
    /// TOML; which of them is told from its content.
    ///
    /// Example: -w general-and-media, or -w ./filelist
    #[arg(short, long, value_name = "NAME|FILE")]
    pub workload: Option<String>,

    /// Configuration file of the server under test, or a directory of them: kept in the record, without its secrets
    ///
    /// May be given several times. Keys, passwords, tokens and the like are taken out before anything is written.
    ///
    /// Default: none, the record says so. Example: --server-config /etc/nginx
    #[arg(long, value_name = "PATH")]
    pub server_config: Vec<PathBuf>,

    /// Load.
    #[command(flatten)]
    pub load: RunLoadArgs,

    /// Clients.
    #[command(flatten)]
    pub client: ClientArgs,

    /// Generator.
    #[command(flatten)]
    pub generator: GeneratorArgs,

    /// Embedded server.
    #[command(flatten)]
    pub server: EmbeddedServerArgs,

    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,

    /// Thresholds.
    #[command(flatten)]
    pub thresholds: ThresholdArgs,

    /// Print the run as it would be made, as a testbed file, and exit
    #[arg(long, help_heading = "Output")]
    pub dump_spec: bool,

    /// Store no record
    #[arg(long, help_heading = "Output", conflicts_with = "runs_dir")]
    pub no_store: bool,
}

/// `webstone hit`.
#[derive(Args, Debug)]
pub struct HitArgs {
    /// The URL to request, as http://HOST:PORT/PATH
    #[arg(value_name = "URL")]
    pub url: String,

    /// Load.
    #[command(flatten)]
    pub load: HitLoadArgs,

    /// Clients.
    #[command(flatten)]
    pub client: ClientArgs,

    /// Generator.
    #[command(flatten)]
    pub generator: GeneratorArgs,

    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,

    /// Thresholds.
    #[command(flatten)]
    pub thresholds: ThresholdArgs,

    /// Keep a record of the run, as `run` does
    #[arg(long, help_heading = "Output")]
    pub store: bool,
}

/// The definition of the command line, with the defaults of the specification written into the help of each flag.
pub fn command() -> clap::Command {
    defaults::documented(Cli::command())
}
