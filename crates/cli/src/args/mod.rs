//! The command line: every command and every flag. A flag is one entry, in the file of its topic: help, parser and
//! example, with its default, the key of a testbed that it sets, and how it sets it. `table` says what is in an
//! entry.
//!
//! A flag that was not typed is `None`. Defaults are those of `webstone_model::spec`; [`command`] writes them into
//! the help.

mod certify;
mod client;
mod compare;
mod duel;
mod examples;
mod files;
mod find;
mod generator;
mod generators;
mod load;
mod output;
mod series;
mod server;
pub(crate) mod table;
mod tls;
mod ui;
mod values;
mod workout;

pub use certify::{ArchiveArgs, CertifyArgs, ListFormat, VerifyArgs};
pub use client::ClientArgs;
pub use compare::{CompareArgs, ThresholdArgs, VerdictArgs};
pub use duel::DuelArgs;
pub use files::{CheckfilesArgs, GenfilesArgs, MineArgs, WorkloadCommand, WorkloadFormat, WorkloadsArgs};
pub use find::{CalibrateArgs, FindArgs, NullServerArgs};
pub use generator::GeneratorArgs;
pub use generators::{AgentArgs, GeneratorsArgs, GeneratorsCheckArgs, GeneratorsCommand, GeneratorsJobArgs};
pub use load::{HitLoadArgs, OpenLoopArgs, RetryArgs, RunLoadArgs};
pub use output::{ColorChoice, HistoryArgs, ListArgs, NoteArgs, OutputArgs, ReportArgs};
pub use series::{MatrixArgs, SeriesArgs, ServersArgs, ServersCommand};
pub use server::{
    OwnServerArgs, OwnTlsArgs, PathArgs, RespondArgs, RespondProtocol, ServeArgs, ServerElsewhereArgs,
    SuperviseArgs,
};
pub use tls::TlsArgs;
pub use ui::UiArgs;
pub use workout::WorkoutArgs;

use examples::*;
use table::flags;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

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

    /// Print errors and the report only: no progress, no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Write a log of what was decided, started and waited for, to find out why something failed
    ///
    /// Without secrets. WEBSTONE_LOG sets the level, like RUST_LOG; without --log, it logs to standard error.
    ///
    /// Default: no log. Example: --log webstone.log
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub log: Option<PathBuf>,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the benchmark: a workload at several numbers of clients
    ///
    /// Without a URL it starts the embedded reference server, or with --server one that is installed here (see `servers`). A
    /// server at a URL has to serve the workload's files (see `genfiles` and `checkfiles`). The report is printed and the run
    /// stored in runs/.
    ///
    /// Options override the testbed file (-f), which overrides the defaults. --dump-spec prints the result.
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),

    /// Load one URL and print a short report, as wrk does
    ///
    /// Connections are kept alive, the load lasts 10 s, and nothing is stored without --store.
    #[command(after_long_help = HIT_EXAMPLES)]
    Hit(Box<HitArgs>),

    /// Search for the highest load at which a server keeps an SLO
    ///
    /// The load is doubled until the SLO breaks; then the limit is narrowed down by bisection, and the levels on both sides of it
    /// are repeated until their 95 % intervals decide. The result is an interval: the highest load that kept the SLO, and the
    /// lowest that broke it. The search says first how long it can take.
    #[command(after_long_help = FIND_EXAMPLES)]
    Find(Box<FindArgs>),

    /// Detect a change of a server in a minute: versions side by side, in turns of milliseconds
    ///
    /// All contestants are up at once and have the load in turns of some 20 ms, so that disturbances of the machine affect all of them
    /// equally. The server's CPU time per request, rates and latencies are compared within each round of turns; contestants are restarted every
    /// few seconds. It ends when it knows. A second copy of the first contestant takes part: if it differs, the result is not believed.
    #[command(after_long_help = DUEL_EXAMPLES)]
    Duel(Box<DuelArgs>),

    /// Measure how much load this host can generate
    ///
    /// Measures kept connections, a connection for each request (closed by the server, or reset) and large bodies, with one worker
    /// and with all, against a null server that is cheaper than any real one. The result is stored; later runs on the same host
    /// and version report their load as a share of it.
    #[command(after_long_help = CALIBRATE_EXAMPLES)]
    Calibrate(CalibrateArgs),

    /// Stress a server with misbehaving clients: does it keep serving, does it leak, does it stay up?
    ///
    /// Well-behaved clients are measured alone, then in rounds among connections that break off, read or write slowly, close
    /// their half, send headers of a megabyte or no HTTP at all, then alone again. Between the phases the server's processes are
    /// checked. Each answer comes with its evidence; a "no" gives exit code 3.
    #[command(after_long_help = WORKOUT_EXAMPLES)]
    Workout(Box<WorkoutArgs>),

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

    /// Check that a server serves every file of a workload, complete and unchanged
    ///
    /// Every file is fetched once and compared, byte by byte, with what `genfiles` writes.
    Checkfiles(CheckfilesArgs),

    /// Make a workload from access logs
    ///
    /// Reads Common and Combined Log Format, JSON as nginx, Caddy, Traefik and Envoy write it, and W3C Extended (IIS, CloudFront), plain
    /// or gzip, in bounded memory. URLs become pages weighted by their hits. Lines that do not parse are counted and shown.
    ///
    /// Sizes of W3C logs (sc-bytes) and nginx's $bytes_sent count header fields as well, and are not taken. So do
    /// those of Debian's Apache httpd, but they look like any others: leave them out with --no-sizes.
    Mine(MineArgs),

    /// List the stored runs, the newest first, or search for some
    ///
    /// The index for searches is runs/.index.ndjson. It may be deleted: it is made again.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(ListArgs),

    /// Show or write the note and tags of a stored run
    ///
    /// They are stored beside the run, in RUN.notes.toml: the record, its check sums and its signature do not change.
    #[command(after_long_help = NOTE_EXAMPLES)]
    Note(NoteArgs),

    /// Print the report of a stored run, in any format
    ///
    /// A report needs the record only: it can be made years later, on another machine.
    Report(ReportArgs),

    /// Check a stored run against the run rules, and sign it
    ///
    /// Every run rule, WebStone 2.0's and webstone's own, is listed as met, not met, or unknown from the record,
    /// with the evidence. If all are met (or with --uncertified, labelled as such), the list is stored in the record as
    /// certificate.json and, with --key, the whole record is signed.
    #[command(after_long_help = CERTIFY_EXAMPLES)]
    Certify(CertifyArgs),

    /// Verify a stored run, series or archive: files, signature, and every figure recomputed
    ///
    /// Needs the directory or the archive of the run, nothing else. Names every file that was changed since.
    #[command(after_long_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),

    /// Pack a stored run into one file; the same run gives the same bytes
    ///
    /// Example: webstone archive runs/20260701T120000Z-webstone -o result.tar.gz
    Archive(ArchiveArgs),

    /// Compare stored runs: which figures changed, by how much, and whether by more than noise
    ///
    /// Level by level, every run against the first. Iterations are the samples: run each with -i 3 or more. Runs that
    /// measured different things (another workload, policy, protocol, host) are refused with the list of differences.
    #[command(after_long_help = COMPARE_EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Print published results from 1995 to 2000, or a server's stored runs over time
    ///
    /// The WebStone paper's Netsite and NCSA, FastTrack Beta 3, the ProLiant 5000 with IIS 2.0, the NetServer LT 6000r
    /// with IIS 5 and WASD v4.5: every figure as its document printed it. With a run, the same figures of it and the
    /// ratio.
    ///
    /// With --server, the stored runs of that server: comparable ones in one table, and where the figure looks as if it had
    /// changed for good, with what else changed there (docs/measurement.md, "Steps").
    #[command(after_long_help = HISTORY_EXAMPLES)]
    History(HistoryArgs),

    /// List the built-in workloads, or show one
    Workloads(WorkloadsArgs),

    /// Compare servers; without any, list those that can be started here
    ///
    /// Every server (and profile, connection policy, number of CPUs, where several are given) is a cell, and each cell a run with
    /// a record of its own. Iterations are interleaved over the cells: every level of every cell once, then, cells backwards,
    /// once more. Servers are ranked where their 95 % intervals differ. It says first how long it
    /// takes; --resume continues one that was interrupted or killed.
    #[command(after_long_help = SERVERS_EXAMPLES)]
    Servers(Box<ServersArgs>),

    /// Measure a server on 1, 2, 4 … CPUs under the same load
    ///
    /// The scaling table of the nineties (% over 1 CPU) with intervals, and the Universal Scalability Law fitted to it. The
    /// generator has the same CPUs throughout. Otherwise as `servers`.
    #[command(after_long_help = SCALE_EXAMPLES)]
    Scale(Box<SeriesArgs>),

    /// Make load on this host, or monitor a server on it, for a run elsewhere
    ///
    /// Started by a run on another host, as in `webstone run http://web1 --server-agent 'ssh root@web1 webstone agent'` or
    /// `--generator 'ssh gen1 webstone agent'`. It speaks with that run on standard input and output, listens on no network, and
    /// ends when its input does.
    Agent(AgentArgs),

    /// Look at the hosts that make load together, or print a Kubernetes Job of them
    ///
    /// `check` starts each host's agent and shows what it reports about its host, and the offset of its clock from this host's.
    /// `job` prints a manifest for `kubectl apply`. No load is made.
    #[command(after_long_help = GENERATORS_EXAMPLES)]
    Generators(GeneratorsArgs),

    /// Set up, run, watch and compare in a browser
    ///
    /// Prints an address of this host's loopback and serves it until Ctrl-C. The address contains a token: anyone who has it can
    /// start runs here. Runs that were started in the browser continue when this ends.
    ///
    /// From another host: ssh -L 8080:127.0.0.1:8080 HOST, with --port 8080 here.
    #[command(after_long_help = UI_EXAMPLES)]
    Ui(UiArgs),

    /// Compare dynamic responses with static files (SPICE)
    ///
    /// Every interface that the servers have here (CGI, FastCGI, PHP-FPM, modules, Lua, proxied applications …) answers with the
    /// same number of bytes as the files have on average, under the same load. The request efficiency of each is its rate over
    /// that of files, at the peaks and at 60 clients, with latency, fairness, the useful peak and CPU time per request. Without
    /// servers, the reference server's interfaces are measured. Otherwise as `servers`.
    #[command(after_long_help = SPICE_EXAMPLES)]
    Spice(Box<SeriesArgs>),

    /// Run the handler `send` for another server (webstone starts this by itself)
    #[command(hide = true)]
    Respond(RespondArgs),

    /// Run the helper that standard input names, for a run (webstone starts this by itself)
    #[command(hide = true)]
    Child,

    /// Remove a directory when its user is gone (webstone starts this by itself)
    #[command(hide = true)]
    Supervise(SuperviseArgs),

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
        /// Directory to write webstone.1, webstone-run.1 and so on to; without it, webstone.1 is printed
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

flags! {
/// `webstone run`.
pub struct RunArgs {
    /// The server under test, as http://HOST:PORT; several are used in turn. Without one: that of --server, or the embedded one
    ///
    /// Several are addresses of one site: `Host` and SNI are those of the first URL.
    ///
    /// The server only: the workload says which files are requested, so a path other than / is refused. Words that begin with
    /// / are pages, which take the workload's place: `WEIGHT:/PATH`, where `WEIGHT:` may be left out, and for a page of several
    /// files `WEIGHT:/PATH,/PATH`.
    ///
    /// Example: http://127.0.0.1:8080 40:/index.html,/logo.gif 5:/film.mpg
    #[arg(value_name = "URL|PAGE")]
    pub target: Vec<String>,

    /// Testbed file: a run as TOML, as --dump-spec prints it; flags override it
    ///
    /// Default: none. Example: -f testbed.toml
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub testbed: Option<PathBuf>,

    /// The workload: the name of a built-in one, or a file
    ///
    /// `webstone workloads` lists the built-in ones. A file is a filelist of WebStone 1.x or 2.x, or a workload in
    /// TOML; the format is detected.
    ///
    /// Example: -w general-and-media, or -w ./filelist
    #[arg(short, long, value_name = "NAME|FILE")]
    pub workload: Option<String> => (workload),

    /// Configuration file of the server under test, or a directory of them: kept in the record, without its secrets
    ///
    /// May be given several times. Keys, passwords, tokens and the like are taken out before anything is written.
    ///
    /// Default: none, the record says so. Example: --server-config /etc/nginx
    #[arg(long, value_name = "PATH")]
    pub server_config: Vec<PathBuf> => (
        server_config,
        |args, run| {
            run.server_config.extend(args.server_config.iter().map(|path| path.to_string_lossy().into_owned()));
        }
    ),

    /// Load.
    #[command(flatten)]
    pub load: RunLoadArgs => (..),

    /// Clients.
    #[command(flatten)]
    pub client: ClientArgs => (..),

    /// Generator.
    #[command(flatten)]
    pub generator: GeneratorArgs => (..),

    /// Server under test.
    #[command(flatten)]
    pub server: OwnServerArgs => (..),

    /// Path to it.
    #[command(flatten)]
    pub path: PathArgs => (..),

    /// Server elsewhere.
    #[command(flatten)]
    pub elsewhere: ServerElsewhereArgs => (..),

    /// Output.
    #[command(flatten)]
    pub output: OutputArgs => (..),

    /// Thresholds.
    #[command(flatten)]
    pub thresholds: ThresholdArgs,

    /// Verdict.
    #[command(flatten)]
    pub verdict: VerdictArgs,

    /// A testbed file in seconds: three of its levels, one iteration, windows of 2 s, or 20 ms for each client
    ///
    /// Its figures prove nothing. Other flags override it.
    #[arg(long, help_heading = "Load")]
    pub quick: bool,

    /// Print the run as a testbed file, and exit
    #[arg(long, help_heading = "Output")]
    pub dump_spec: bool,

    /// Print the levels and the time that they will take, and exit
    #[arg(long, help_heading = "Output")]
    pub plan: bool,

    /// Store no record
    #[arg(long, help_heading = "Output", conflicts_with = "runs_dir")]
    pub no_store: bool,
}
}

flags! {
/// `webstone hit`.
pub struct HitArgs {
    /// The URLs to request, as http://HOST:PORT/PATH; all of one server, drawn with the same probability
    #[arg(value_name = "URL", required_unless_present_any = ["url_file", "curl"])]
    pub urls: Vec<String>,

    /// Request what a command line of curl requests
    ///
    /// Its options for method, header fields, data, forms, credentials, redirects, TLS, addresses and time limits become webstone's;
    /// those that only change what curl shows are ignored, all others refused. Other options of webstone may stand beside it.
    ///
    /// Default: none. Example: --curl "curl -H 'Accept: text/html' http://127.0.0.1:8080/"
    #[arg(long, value_name = "COMMAND")]
    pub curl: Option<String>,

    /// File of URLs to request besides, one on each line; lines that begin with # are comments
    ///
    /// A line that stands there twice is drawn twice as often.
    ///
    /// Default: none. Example: --urls urls.txt
    #[arg(long = "urls", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub url_file: Option<PathBuf>,

    /// Load.
    #[command(flatten)]
    pub load: HitLoadArgs => (..),

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

    /// Thresholds.
    #[command(flatten)]
    pub thresholds: ThresholdArgs,

    /// Verdict.
    #[command(flatten)]
    pub verdict: VerdictArgs,

    /// Keep a record of the run, as `run` does
    #[arg(long, help_heading = "Output")]
    pub store: bool,
}
}

/// An example of a command from its help, for messages about missing arguments: the first that has all of `options`,
/// or otherwise the first. `None` if the help has no examples.
pub(crate) fn example_with(name: &str, options: &[&str]) -> Option<String> {
    let all = command();
    let own = all.find_subcommand(name)?.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let begins = format!("webstone {name} ");
    let lines = own.lines().chain(TOP_TEMPLATE.lines()).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| line.starts_with(&begins)).collect();
    let has_all = |line: &&&str| options.iter().all(|option| line.split(' ').any(|word| word == *option));
    lines.iter().find(has_all).or(lines.first()).map(|line| (*line).to_owned())
}

/// The example in the help of an option such as `--clients`.
pub(crate) fn option_example(name: &str, option: &str) -> Option<String> {
    let all = command();
    let option = option.trim_start_matches('-');
    let argument = all.find_subcommand(name)?.get_arguments().find(|it| it.get_long() == Some(option))?;
    let help = argument.get_long_help()?.to_string();
    Some(help.rsplit_once("Example: ")?.1.lines().next()?.trim().to_owned())
}

/// Parses a command line.
///
/// # Errors
/// Requested help, or what is wrong.
pub fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let parse = |command: clap::Command| {
        command.try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches))
    };
    // Writing the defaults into the help takes longer than the rest of the start-up, and is rarely needed.
    parse(Cli::command()).or_else(|_| parse(command()))
}

/// The definition of the command line, with the specification's defaults in the help of each flag.
pub fn command() -> clap::Command {
    table::documented(Cli::command())
}
