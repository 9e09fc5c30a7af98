//! The arguments of `duel`.

use std::path::PathBuf;

use webstone_measure::rate::Rates;
use webstone_measure::units::Nanos;
use webstone_model::duel::DuelGate;
use webstone_model::spec::Levels;
use webstone_report::{Format, Subject};

use super::table::flags;
use super::{ClientArgs, GeneratorArgs, OwnServerArgs, values};

flags! {
/// `webstone duel`.
pub struct DuelArgs {
    /// Two or more: the first is what the others are compared with
    ///
    /// Each is a server (nginx, nginx:tuned, reference), one with settings as a testbed file has them for its server (nginx,access_log=off), one with
    /// a configuration file in which the port is {port} (nginx:./nginx.conf), a command ('./app --port {port}'), a URL that is up, a
    /// testbed file (for its server), or with --serve a revision of git (main, HEAD~3, v1.2; `.` for the files as they are). A name may
    /// stand before it: old='./app-1.2 --port {port}'.
    #[arg(value_name = "CONTESTANT", required = true, num_args = 2..)]
    pub contestants: Vec<String>,

    /// The command that builds a revision, in a worktree of its own
    ///
    /// Default: nothing is built. Example: --build 'cargo build --release'
    #[arg(long, value_name = "COMMAND", help_heading = "Revisions", requires = "serve")]
    pub build: Option<String>,

    /// The command line that serves a revision, started in its worktree; with {port}
    ///
    /// Default: contestants are no revisions. Example: --serve './target/release/app --port {port}'
    #[arg(long, value_name = "COMMAND", help_heading = "Revisions")]
    pub serve: Option<String>,

    /// The repository of the revisions
    ///
    /// Default: the current directory. Example: --repository ../server
    #[arg(long, value_name = "DIR", help_heading = "Revisions", requires = "serve")]
    pub repository: Option<PathBuf>,

    /// End when the 95 % interval is within ± this
    ///
    /// Of the server's CPU time per request, where it can be seen, and otherwise of the rate, in open loop of the mean latency. With --fail-if
    /// the duel ends when every condition is decided instead.
    ///
    /// Default: 1%. Example: --precision 0.5%
    #[arg(long, value_name = "PERCENT", help_heading = "Duel", value_parser = values::resolution)]
    pub precision: Option<f64>,

    /// End after this time at the latest
    ///
    /// It counts from when the first start is ready for load: checking revisions out and building them is not part of it.
    ///
    /// Default: 5m. Example: --at-most 90s
    #[arg(long, value_name = "TIME", help_heading = "Duel")]
    pub at_most: Option<Nanos>,

    /// Fail, with exit code 3, if a figure has changed by more than this for certain; exit code 5 if the time is not enough to decide
    ///
    /// Figures are cpu, rate, latency (its mean), p50, p90, p99, bytes, memory. The duel ends as soon as every condition is decided. Give
    /// the option once for each.
    ///
    /// Default: none. Example: --fail-if 'cpu > +3%'
    #[arg(long, value_name = "CHANGE", help_heading = "Duel")]
    pub fail_if: Vec<DuelGate>,

    /// Start contestants at least this often before anything is concluded
    ///
    /// A start has luck of its own (memory layout, hash seeds), so starts are what the interval is computed from.
    ///
    /// Default: 5. Example: --starts 10
    #[arg(long, value_name = "N", help_heading = "Duel", value_parser = values::count_u32)]
    pub starts: Option<u32>,

    /// Restart contestants after this time under load
    ///
    /// Give more to a server that needs time to warm up, such as one with a just-in-time compiler.
    ///
    /// Default: 3s, or over a path five slices of each contestant if that is longer. Example: --restart-every 30s
    #[arg(long, value_name = "TIME", help_heading = "Duel")]
    pub restart_every: Option<Nanos>,

    /// How long a contestant has the load before it drains and the next has its turn
    ///
    /// Default: 20ms, or ten mean response times or ten round trips of a path if that is longer. Example: --slice 50ms
    #[arg(long, value_name = "TIME", help_heading = "Duel")]
    pub slice: Option<Nanos>,

    /// Leave out the second copy of the first contestant, which shows whether something other than the program differs
    #[arg(long, help_heading = "Duel")]
    pub no_twin: bool,

    /// Clients that each contestant has
    ///
    /// Default: 16, or with --rate a twentieth of the rate, from 10 to 1000. Example: -c 64
    #[arg(short = 'c', long, value_name = "N", help_heading = "Load", value_parser = values::one_level)]
    pub clients: Option<Levels> => (load.clients),

    /// Open loop: arrivals per second while a contestant has the load; CPU time and latency are then compared at equal rates
    ///
    /// Default: none, a closed loop. Example: -R 5k
    #[arg(short = 'R', long, value_name = "RATE", help_heading = "Load", value_parser = values::one_rate)]
    pub rate: Option<Rates> => (load.rate),

    /// The workload: the name of a built-in one, or a file
    ///
    /// Default: the path / for commands, revisions and URLs; `standard` for servers that webstone configures. Example: -w general-and-media
    #[arg(short, long, value_name = "NAME|FILE", help_heading = "Load")]
    pub workload: Option<String> => (workload),

    /// Ask for this path instead of a workload's files; give the option several times for several pages. Or the network path to contestants
    ///
    /// What begins with / is a path of URLs. Others have a round-trip time and a loss, as in `webstone run`: all contestants, which webstone must
    /// start, are then asked over a path of their own. Slices are at least ten round trips long. See `docs/path.md`.
    ///
    /// Default: none, over this host's loopback. Example: --path /api/items, or --path rtt=20ms,loss=1%
    #[arg(long, value_name = "PATH", help_heading = "Load")]
    pub path: Vec<String>,

    /// Command that runs `webstone agent` on the host of a contestant that is up there, to see its CPU time
    ///
    /// With the name of a contestant before it, it is for that one; without, it is started once for each contestant that is a URL. Split
    /// into words as a shell would; no shell is started. The same version of webstone must be installed there.
    ///
    /// Default: none, and rates are compared. Example: --server-agent new='ssh root@web1 webstone agent'
    #[arg(long, value_name = "[NAME=]COMMAND", help_heading = "Report and record")]
    pub server_agent: Vec<String>,

    /// Format of the report; with -o, the file's ending can say it (html, json, md, xml, txt)
    ///
    /// Markdown is made for a comment on a pull request; junit for continuous integration.
    ///
    /// Default: text. Example: --format markdown
    #[arg(long, value_name = "FORMAT", help_heading = "Report and record", value_parser = values::format_of(Subject::Duel))]
    pub format: Option<Format>,

    /// File to write the report to instead of standard output
    ///
    /// Default: standard output. Example: -o duel.md
    #[arg(short, long, value_name = "FILE", help_heading = "Report and record")]
    pub output: Option<PathBuf>,

    /// Directory with the records
    ///
    /// Default: runs. Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR", help_heading = "Report and record")]
    pub runs_dir: Option<PathBuf>,

    /// Store no record
    #[arg(long, help_heading = "Report and record")]
    pub no_store: bool,

    /// Options of the clients.
    #[command(flatten)]
    pub client: ClientArgs => (..),

    /// The load generator.
    #[command(flatten)]
    pub generator: GeneratorArgs => (..),

    /// What holds for all contestants that webstone starts.
    #[command(flatten)]
    pub server: OwnServerArgs => (..),
}
}
