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
mod generators;
mod load;
mod output;
mod series;
mod server;
mod tls;
mod values;
mod workout;

pub use certify::{ArchiveArgs, CertifyArgs, ListFormat, VerifyArgs};
pub use client::ClientArgs;
pub use compare::{CompareArgs, ThresholdArgs};
pub use files::{CheckfilesArgs, GenfilesArgs, MineArgs, WorkloadCommand, WorkloadFormat, WorkloadsArgs};
pub use find::{CalibrateArgs, FindArgs, NullServerArgs};
pub use generator::GeneratorArgs;
pub use generators::{GeneratorsArgs, GeneratorsCheckArgs, GeneratorsCommand};
pub use load::{HitLoadArgs, OpenLoopArgs, RetryArgs, RunLoadArgs};
pub use output::{ColorChoice, HistoryArgs, ListArgs, OutputArgs, ReportArgs};
pub use series::{SeriesArgs, ServersArgs, ServersCommand};
pub use server::{
    OwnServerArgs, OwnTlsArgs, RespondArgs, RespondProtocol, ServeArgs, ServerElsewhereArgs, SuperviseArgs,
};
pub use tls::TlsArgs;
pub use workout::WorkoutArgs;

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

/// What `webstone --help` shows: first the commands that people use, each as one can type it.
const TOP_TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Common commands:
  webstone run
      Benchmark the embedded server: the `standard` workload, four client counts, half a minute,
      a report, a record in runs/.
  webstone run --server nginx:tuned
      The same on nginx: configured, started, measured, stopped.
  webstone genfiles /var/www/html
      Write the workload's files where a real server can serve them.
  webstone checkfiles http://127.0.0.1:8080
      Check that the server serves every one of them, complete and unchanged.
  webstone run http://127.0.0.1:8080 -c 20..100+10 -d 1m -i 3
      Benchmark that server: nine client counts, a minute each, three times.
  webstone hit http://127.0.0.1:8080/index.html -c 64 -d 10s
      One URL, one load, a short answer.
  webstone report runs/20260701T120000Z-webstone --format json
      Print the report of a stored run, in any format.
  webstone verify result.tar.gz
      Verify a stored run or an archive: files, signature, and every figure recomputed.
  webstone compare last~1 last --fail-if 'rate<-3%'
      Compare two runs: faster, slower, or no difference shown.
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,errors<0.1%'
      The highest load at which the server keeps this SLO.
  webstone servers nginx,apache,lighttpd,caddy
      Compare servers, ranked where their intervals differ.

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
    /// Reads Common and Combined Log Format, plain or gzip, in bounded memory. URLs become pages weighted by their
    /// hits. Lines that do not parse are counted and shown.
    Mine(MineArgs),

    /// List the stored runs, the newest first
    List(ListArgs),

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

    /// Verify a stored run or an archive: files, signature, and every figure recomputed
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
    /// Print published results from 1995 to 2000, alone or with a run beside them
    ///
    /// The WebStone paper's Netsite and NCSA, FastTrack Beta 3, the ProLiant 5000 with IIS 2.0, the NetServer LT 6000r
    /// with IIS 5 and WASD v4.5: every figure as its document printed it. With a run, the same figures of it and the
    /// ratio.
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
    /// What a run on another host starts, as in `webstone run http://web1 --server-agent 'ssh root@web1 webstone agent'` or
    /// `--generator 'ssh gen1 webstone agent'`. It speaks with that run on standard input and output, listens on no network, and
    /// ends when its input does.
    Agent,

    /// Look at the hosts that make load together
    ///
    /// Starts each host's agent and shows what it says of its host, and how its clock stands to this host's. No load is made.
    #[command(after_long_help = GENERATORS_EXAMPLES)]
    Generators(GeneratorsArgs),

    /// Compare dynamic responses with static files (SPICE)
    ///
    /// Every interface that the servers have here (CGI, FastCGI, PHP-FPM, modules, Lua, proxied applications …) answers with the
    /// same number of bytes as the files have on average, under the same load. The request efficiency of each is its rate over
    /// that of files, at the peaks and at 60 clients, with latency, fairness, the useful peak and CPU time a request. Without
    /// servers, the reference server's interfaces are measured. Otherwise as `servers`.
    #[command(after_long_help = SPICE_EXAMPLES)]
    Spice(Box<SeriesArgs>),

    /// Be the handler `send` for another server (webstone starts this by itself)
    #[command(hide = true)]
    Respond(RespondArgs),

    /// Be what standard input says, for a run (webstone starts this by itself)
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

const RUN_EXAMPLES: &str = "\
Examples:
  webstone run
  webstone run http://127.0.0.1:8080 -w standard -c 20..100+10 -d 10m -i 3
  webstone run --server nginx --server-log off --server-cpus 0 -c 20..100+10
  webstone run --server haproxy:tuned --server-origin http://192.0.2.7:8080
  webstone run http://web1 --server-agent 'ssh root@web1 webstone agent'
  webstone run http://[::1]:8080 -c 1..256*2 --connections keep-alive --name nginx-keepalive
  webstone run -f testbed.toml -d 30s
  webstone run --format json | jq '.computed.levels[].figures.request_rate'
  webstone run http://127.0.0.1:8080 -c 64 --dump-spec > testbed.toml

Exit codes: 0 done, 1 webstone failed, 2 usage, 3 a threshold failed, 4 the measurement is invalid (a broken identity, a
level without a success, or errors above 1 %), 130 interrupted by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP. Interrupted
once, a run ends its level, keeps and reports what was measured; interrupted twice, it stops at once.";

const GENERATORS_EXAMPLES: &str = "\
Examples:
  webstone generators check -f testbed.toml
  webstone generators check --generator 'ssh gen1 webstone agent' --generator 'ssh gen2 webstone agent'

Exit codes: 0 all hosts can make load together, 1 one of them cannot, 2 usage.";

const SERVERS_EXAMPLES: &str = "\
Examples:
  webstone servers
  webstone servers show nginx:tuned
  webstone servers nginx,apache,lighttpd,caddy -w standard -c 20..100+10 -d 1m -i 5
  webstone servers nginx,apache --profiles stock,tuned --policies per-request,keep-alive --plan
  webstone servers -f testbed.toml -o servers.html
  webstone servers --resume runs/20260701T120000Z-servers
  webstone report runs/20260701T120000Z-servers --format csv

Exit codes: 0 done, 1 webstone or a cell failed, 2 usage, 4 the figures of a cell are invalid, 130 or 143 interrupted.";

const SCALE_EXAMPLES: &str = "\
Examples:
  webstone scale nginx:tuned --cpus 1,2,4,8 -c 20..100+20 -d 1m -i 5
  webstone scale nginx,apache,reference --cpus 1,2,4 -w silicon-surf
  webstone scale -f testbed.toml --plan
  webstone scale --resume runs/20260701T120000Z-scale

Exit codes: as of `webstone servers`.";

const SPICE_EXAMPLES: &str = "\
Examples:
  webstone spice nginx
  webstone spice nginx,apache --interfaces static,cgi,fastcgi,php-fpm,lua,module -c 10..60+10 -d 1m -i 5
  webstone spice apache --cpus 1,2,4 --plan
  webstone spice nginx:tuned -w standard --policies per-request,keep-alive
  webstone spice --resume runs/20260701T120000Z-spice

Exit codes: as of `webstone servers`.";

const HIT_EXAMPLES: &str = "\
Examples:
  webstone hit http://127.0.0.1:8080/index.html
  webstone hit http://127.0.0.1:8080/ -t 1 -c 64 -d 30s --latency
  webstone hit http://127.0.0.1:8080/ -n 100k
  webstone hit http://127.0.0.1:8080/a.html http://127.0.0.1:8080/b.gif --repetitions 10
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
threshold failed, 4 one was asked for and a run is invalid (--force judges it anyway).";

const FIND_EXAMPLES: &str = "\
Examples:
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,errors<0.1%'
  webstone find http://127.0.0.1:8080/ --slo 'p(99)<50ms,fairness>0.95' --to 4k --resolution 2%
  webstone find http://127.0.0.1:8080 -w standard --slo 'avg<20ms' -d 10s --repeats 20 -o search.html

Exit codes: 0 the limit was found, or the SLO is kept up to --to; 1 webstone failed, or noise leaves the edge undecided;
2 usage; 3 the SLO is never kept; 4 the measurement is invalid; 130, 143 interrupted: what was measured is kept.";

const WORKOUT_EXAMPLES: &str = "\
Examples:
  webstone workout
  webstone workout http://127.0.0.1:8080 -c 50 -d 30s --offenders 64 --vary
  webstone workout --server nginx:tuned --misdeeds slow-writer,slow-reader --offenders 500
  webstone workout http://127.0.0.1:8080 -w workout-16k -n 200 --break";

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
    /// The server under test, as http://HOST:PORT; several are used in turn. Without one: that of --server, or the embedded one
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

    /// Server under test.
    #[command(flatten)]
    pub server: OwnServerArgs,

    /// Server elsewhere.
    #[command(flatten)]
    pub elsewhere: ServerElsewhereArgs,

    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,

    /// Thresholds.
    #[command(flatten)]
    pub thresholds: ThresholdArgs,

    /// Print the run as a testbed file, and exit
    #[arg(long, help_heading = "Output")]
    pub dump_spec: bool,

    /// Store no record
    #[arg(long, help_heading = "Output", conflicts_with = "runs_dir")]
    pub no_store: bool,
}

/// `webstone hit`.
#[derive(Args, Debug)]
pub struct HitArgs {
    /// The URLs to request, as http://HOST:PORT/PATH; all of one server, drawn with the same probability
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,

    /// Load.
    #[command(flatten)]
    pub load: HitLoadArgs,

    /// Clients.
    #[command(flatten)]
    pub client: ClientArgs,

    /// Generator.
    #[command(flatten)]
    pub generator: GeneratorArgs,

    /// Server elsewhere.
    #[command(flatten)]
    pub elsewhere: ServerElsewhereArgs,

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

/// A command line as its help shows it, for whoever typed too little; `None` of a command without examples.
pub(crate) fn example(name: &str) -> Option<String> {
    let all = command();
    let own = all.find_subcommand(name)?.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let begins = format!("webstone {name} ");
    let mut lines = own.lines().chain(TOP_TEMPLATE.lines()).map(str::trim);
    lines.find(|line| line.starts_with(&begins)).map(str::to_owned)
}

/// The example of an option, `--clients` say, as its help shows it.
pub(crate) fn option_example(name: &str, option: &str) -> Option<String> {
    let all = command();
    let option = option.trim_start_matches('-');
    let argument = all.find_subcommand(name)?.get_arguments().find(|it| it.get_long() == Some(option))?;
    let help = argument.get_long_help()?.to_string();
    Some(help.rsplit_once("Example: ")?.1.lines().next()?.trim().to_owned())
}

/// The definition of the command line, with the defaults of the specification written into the help of each flag.
pub fn command() -> clap::Command {
    defaults::documented(Cli::command())
}
