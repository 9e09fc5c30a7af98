//! The arguments of commands that make a series of runs: `servers`, `scale`, `spice`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use webstone_model::generators::GeneratorHost;
use webstone_model::network_path::PathChoice;
use webstone_model::series::{Caching, Delivery, Handshakes};
use webstone_model::spec::{ConnectionPolicy, HttpVersion, Interface, Profile, ServerChoice};

use super::table::{Flags, flags};
use super::{ClientArgs, OutputArgs, OwnServerArgs, PathArgs, RunLoadArgs, values};

/// `webstone servers`.
#[derive(Args, Debug)]
#[command(disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
pub struct ServersArgs {
    /// What to do; without it, and without servers, the servers are listed.
    #[command(subcommand)]
    pub command: Option<ServersCommand>,

    /// A series.
    #[command(flatten)]
    pub series: SeriesArgs,
}

/// Other actions of `servers`.
#[derive(Debug, Subcommand)]
pub enum ServersCommand {
    /// List the servers that --server takes, with the version of each that is installed here
    List,
    /// Print the configuration of a server; the tuned one gives its reasons
    Show {
        /// The server, with its profile: nginx, or nginx:tuned
        #[arg(value_name = "SERVER[:PROFILE]")]
        server: ServerChoice,

        /// What answers /send
        ///
        /// Default: nothing. Example: --interface fastcgi
        #[arg(long, value_name = "NAME")]
        interface: Option<Interface>,
    },
}

flags! {
/// What varies from cell to cell.
#[command(next_help_heading = "Matrix")]
pub struct MatrixArgs {
    /// Profiles that every server is run in: stock, tuned, or both
    ///
    /// Default: the one after the server's name. Example: --profiles stock,tuned
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::profile())]
    pub profiles: Vec<Profile> => (series?.profiles),

    /// Interfaces between server and handler, each in a cell of its own; `static` serves files
    ///
    /// Servers without an interface of that name are left out, and the report says so.
    ///
    /// Default: with `spice`, static and all that the servers have here; otherwise the interface does not vary.
    /// Example: --interfaces static,cgi,fastcgi
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "server_interface")]
    pub interfaces: Vec<Delivery> => (series?.interfaces),

    /// The workload of cells in which a program answers; give several, separated by commas, for a cell each
    ///
    /// Default: with `spice`, one answer as large as the files of --workload on average; otherwise that of --workload.
    /// Example: --dynamic-workload spice
    #[arg(long, value_name = "NAME|FILE")]
    pub dynamic_workload: Option<String> => (series?.dynamic_workload),

    /// Connection policies, each in a cell of its own
    ///
    /// Default: the one of --connections. Example: --policies per-request,keep-alive
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::connection_policy(),
        conflicts_with_all = ["connections", "keep_alive"])]
    pub policies: Vec<ConnectionPolicy> => (series?.connections),

    /// Whether a proxy caches answers (other servers: files), each in a cell of its own: on, off, or both
    ///
    /// Default: what the profile says. Example: --caching on,off
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::caching(),
        conflicts_with_all = ["server_cache", "server_no_cache"])]
    pub caching: Vec<Caching> => (series?.caching),

    /// A build of the server, in a cell of its own; give the option once per build
    ///
    /// Programs, as for --server-program; command lines where the server is `command`, as for --server-command. The cells take
    /// turns, so that both builds meet the same noise: many short timed runs tell more than a few long ones.
    ///
    /// Default: the installed one. Example: --build old/nginx --build new/nginx -d 1s -i 40
    #[arg(long = "build", value_name = "PROGRAM", conflicts_with_all = ["server_program", "server_command"])]
    pub builds: Vec<String> => (series?.builds),

    /// Whether the server looks up the names of its clients, each in a cell of its own: on, off, or both
    ///
    /// Default: as --server-resolve-names says. Example: --lookups on,off
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::lookups(),
        conflicts_with = "server_resolve_names")]
    pub lookups: Vec<Caching> => (series?.resolve_names),

    /// Whether connections are over TLS, each in a cell of its own: off, full (every handshake is full), resumed, or the share of
    /// handshakes that resumes an earlier session
    ///
    /// Workloads that request pages over TLS have no cell without it, and the report says so.
    ///
    /// Default: as --tls and --tls-resume say. Example: --handshakes off,full,resumed
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["tls_resume", "server_tls"])]
    pub handshakes: Vec<Handshakes> => (series?.handshakes),

    /// A path between clients and server, or off, in a cell of its own; give the option once per path
    ///
    /// Default: as --path says. Example: --paths off --paths rtt=20ms,loss=1%
    #[arg(long, value_name = "PATH", conflicts_with = "path")]
    pub paths: Vec<PathChoice> => (series?.paths),

    /// Versions of HTTP, each in a cell of its own
    ///
    /// Default: the one of --http. Example: --http-versions 1.1,2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::http_version(),
        conflicts_with = "http")]
    pub http_versions: Vec<HttpVersion> => (series?.http),

    /// Numbers of CPUs of the server, each in a cell of its own
    ///
    /// The server is pinned to that many, one of each core before the second of any, and configured to use them. The generator
    /// keeps the same CPUs throughout: those that the server never gets, where there are any.
    ///
    /// Default: with `scale`, 1, 2, 4 … up to the number of CPUs; otherwise the server's CPUs do not vary.
    /// Example: --cpus 1,2,4
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::count_u32,
        conflicts_with = "server_cpus")]
    pub cpus: Vec<u32> => (series?.cpus),
}
}

flags! {
/// A series: a matrix, the load of every cell, and where the output goes.
pub struct SeriesArgs {
    /// The servers, separated by commas, each with its profile: nginx,apache:tuned,caddy
    #[arg(value_name = "SERVERS", value_delimiter = ',')]
    pub servers: Vec<ServerChoice>,

    /// Testbed file: the matrix under `[series]`, the rest as for any run; flags override it
    ///
    /// Default: none. Example: -f testbed.toml
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub testbed: Option<PathBuf>,

    /// Continue a series that was interrupted or killed
    ///
    /// Its directory holds the plan without secrets and without bodies of more than 64 KiB: if its requests have such,
    /// repeat the whole command line and add --resume.
    ///
    /// Default: none, a new one begins. Example: --resume runs/20260701T120000Z-servers
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dump_spec", "plan"])]
    pub resume: Option<PathBuf>,

    /// The workload: the name of a built-in one, or a file; give several, separated by commas, for a cell each
    ///
    /// Example: -w general-and-media, -w ./filelist, or -w workout-0k,workout-16k
    #[arg(short, long, value_name = "NAME|FILE")]
    pub workload: Option<String> => (workload),

    /// What varies.
    #[command(flatten)]
    pub matrix: MatrixArgs => (..),

    /// A testbed file in minutes: three of its levels, one iteration, windows of 2 s, or 20 ms for each client, and only CPUs that
    /// are here
    ///
    /// The cells are the same, so that every table and chart of the full series can be looked at; its figures prove nothing.
    /// Other flags override it.
    #[arg(long, help_heading = "Load")]
    pub quick: bool,

    /// Load.
    #[command(flatten)]
    pub load: RunLoadArgs => (..),

    /// Clients.
    #[command(flatten)]
    pub client: ClientArgs => (..),

    /// Command that runs `webstone agent` on a host that makes load; repeat it for each host
    ///
    /// See `webstone run --help` and `docs/generators.md`.
    ///
    /// Example: --generator 'ssh gen1 webstone agent'
    #[arg(long, value_name = "COMMAND", help_heading = "Generator")]
    pub generator: Vec<String> => (
        generators.agent = "none: this host makes the load",
        |args, run| run.generators = args.generator.iter().map(GeneratorHost::reached_by).collect()
    ),

    /// Number of worker threads of the generator; 0 means one per CPU that it has
    ///
    /// Example: -t 2
    #[arg(short = 't', long, visible_alias = "threads", value_name = "N", help_heading = "Generator",
        value_parser = values::number_u32)]
    pub workers: Option<u32> => (generator.workers),

    /// CPUs that the generator's workers are pinned to
    ///
    /// Default: chosen by webstone. Example: --generator-cpus 4-7
    #[arg(long, value_name = "LIST", help_heading = "Generator", value_parser = values::cpu_list)]
    pub generator_cpus: Option<String> => (generator.cpus),

    /// Write the instants of every transaction to a file for each cell, whose name has the cell's (WebStone's -R)
    ///
    /// Default: none. Example: --record-all all.tsv, for all-nginx.tsv
    #[arg(long, value_name = "FILE", help_heading = "Generator")]
    pub record_all: Option<PathBuf> => (generator.record_all = "none"),

    /// Server under test.
    #[command(flatten)]
    pub server: OwnServerArgs => (..),

    /// Path to it.
    #[command(flatten)]
    pub path: PathArgs => (..),

    /// Output.
    #[command(flatten)]
    pub output: OutputArgs => (..),

    /// Print the series as a testbed file, and exit
    #[arg(long, help_heading = "Output")]
    pub dump_spec: bool,

    /// Print the cells and the time that they will take, and exit
    #[arg(long, help_heading = "Output")]
    pub plan: bool,
}
}

impl SeriesArgs {
    /// Whether anything was given that concerns a series.
    pub fn is_series(&self) -> bool {
        let about_output = self.plan || self.dump_spec || self.output.output.is_some();
        self.is_plan() || self.resume.is_some() || about_output
    }

    /// Whether anything was given that says what to measure, apart from requests and the server's options.
    pub fn is_plan(&self) -> bool {
        let of_plan = ["load.clients", "load.duration", "load.iterations", "workload"];
        let is_of_plan = |key: &&str| key.starts_with("series.") || of_plan.contains(key);
        self.names_servers() || self.testbed.is_some() || self.typed_keys().iter().any(is_of_plan)
    }

    /// Whether servers are given.
    pub fn names_servers(&self) -> bool {
        !self.servers.is_empty() || self.server.server.is_some()
    }
}
