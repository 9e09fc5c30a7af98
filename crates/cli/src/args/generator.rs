//! Flags of the load generator itself: its threads, and what it keeps for debugging.

use std::path::PathBuf;

use webstone_model::generators::GeneratorHost;

use super::table::flags;
use super::values;

flags! {
/// The generator's own settings.
#[command(next_help_heading = "Generator")]
pub struct GeneratorArgs {
    /// Command that runs `webstone agent` on a host that makes load; repeat it for each host
    ///
    /// The hosts make every level together: clients and arrivals are divided among them by their workers, their windows open at the same
    /// instant, and their results are merged exactly. This host makes no load then. Split into words as a shell would; no shell is
    /// started. It must not ask for a password. The same build of webstone must be installed on every host. See
    /// `docs/generators.md`.
    ///
    /// Example: --generator 'ssh gen1 webstone agent' --generator 'ssh gen2 webstone agent'
    #[arg(long, value_name = "COMMAND")]
    pub generator: Vec<String> => (
        generators.agent = "none: this host makes the load",
        |args, run| run.generators = args.generator.iter().map(GeneratorHost::reached_by).collect()
    ),

    /// Number of worker threads, each with one event loop; 0 means one per CPU that the server under test does not need
    ///
    /// Example: -t 2
    #[arg(short = 't', long, visible_alias = "threads", value_name = "N", value_parser = values::number_u32)]
    pub workers: Option<u32> => (generator.workers),

    /// CPUs that workers are pinned to, in turn
    ///
    /// Example: --cpus 0-3,6
    #[arg(long, visible_alias = "generator-cpus", value_name = "LIST", value_parser = values::cpu_list)]
    pub cpus: Option<String> => (generator.cpus = "chosen by webstone"),

    /// Do not pin workers to CPUs
    #[arg(long, conflicts_with = "cpus")]
    pub no_pin: bool => (
        generator.pin,
        |_, run| (run.generator.pin, run.generator.cpus) = (false, String::new())
    ),

    /// Do not raise the CPU priority of load generator and server
    ///
    /// By default both come before other programs, so that a busy machine takes less from them: at nice -20, where the kernel allows
    /// it (root, CAP_SYS_NICE or RLIMIT_NICE), and never beside a server on this host that webstone did not start. With
    /// WEBSTONE_PRIORITY=normal in the environment no command raises it or waits awake unless told to, and the browser front does not
    /// lower its own.
    #[arg(long)]
    pub no_priority: bool => (generator.priority, |_, run| run.generator.priority = false),

    /// Wait for answers and arrivals without sleeping; takes a whole CPU per worker
    ///
    /// The default in closed loop on a virtual machine, if webstone starts the server, on other CPUs: there a server spends 5 µs or
    /// more on each waking of a worker, a tenth to a half of its speed. In open loop it sends requests closer to their time.
    #[arg(long, conflicts_with = "no_spin")]
    pub spin: bool => (generator.spin = "decided by webstone", |_, run| run.generator.spin = Some(true)),

    /// Sleep while there is nothing to do
    #[arg(long)]
    pub no_spin: bool => (generator.spin = "decided by webstone", |_, run| run.generator.spin = Some(false)),

    /// Number of pages that get percentiles of their own, those with the highest weights first
    ///
    /// Each takes four histograms per worker in memory.
    ///
    /// Example: --page-histograms 100
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub page_histograms: Option<u32> => (generator.page_histograms),

    /// Keep deviation, minimum and maximum of times and sizes for each page and client, as WebStone's text prints them
    ///
    /// Costs a tenth of the generator's work for a request. On with --format webstone1 and webstone2.
    #[arg(long)]
    pub spreads: bool => (generator.spreads),

    /// Print the first N requests and responses on standard error, secrets masked
    ///
    /// Example: --trace 1
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub trace: Option<u32> => (generator.trace),

    /// Write every transaction to a file: tab-separated text, about 120 bytes each; slows the generator down
    ///
    /// Columns: clients, iteration, client, page, file, start_ns, connected_ns, sent_ns, first_byte_ns,
    /// headers_done_ns, end_ns, status, head_bytes, body_bytes, error, intended_ns, rate. Instants are in nanoseconds since the window
    /// opened, and negative before it; - stands for none.
    ///
    /// Example: --record-all transactions.tsv
    #[arg(long, value_name = "FILE")]
    pub record_all: Option<PathBuf> => (generator.record_all = "none"),

    /// HTTP/3: write what QUIC did on the first connections to files in this directory, for qvis (qlog 0.3, JSON text sequences)
    ///
    /// Packets with their frames, losses, round-trip times, congestion window, key updates, how the connection ended; no keys and no
    /// contents. Logged connections are slower.
    ///
    /// Example: --qlog qlogs
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub qlog: Option<PathBuf> => (generator.qlog = "none"),

    /// Number of connections that --qlog logs, of all levels together
    ///
    /// Example: --qlog-connections 1
    #[arg(long, value_name = "N", value_parser = values::count_u32, requires = "qlog")]
    pub qlog_connections: Option<u32> => (generator.qlog_connections),
}
}
