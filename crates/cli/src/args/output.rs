//! Flags for output: report formats, files, the store; and the arguments of `report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use webstone_report::{CsvTable, Format};
use webstone_store::library::HistoryMetric;

use super::compare::ThresholdArgs;
use super::table::flags;
use super::values;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

flags! {
/// Where the report goes, and the record.
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Name of the run, part of its directory's name: letters, digits, dots, hyphens and underscores
    ///
    /// Example: --name nginx-sendfile-off
    #[arg(long, value_name = "NAME")]
    pub name: Option<String> => (name = |run| run.name.clone()),

    /// Format of the report; with -o, the file's ending can say it (html, json, csv, xlsx, md, hgrm, prom, xml, txt)
    ///
    /// Example: --format json
    #[arg(long, value_name = "FORMAT", value_parser = values::report_format())]
    pub format: Option<Format> => (= |run| if run.name == "hit" { "hit" } else { "text" }.to_owned()),

    /// Write the report to a file instead of standard output
    ///
    /// Example: -o report.html
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf> => (= "standard output"),

    /// Text report: all tables and all run rules, not only what fits a screen
    #[arg(long)]
    pub full: bool,

    /// Directory with the records of runs
    ///
    /// Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR")]
    pub runs_dir: Option<PathBuf> => (= "runs"),

    /// Write events as JSON lines while the run lasts: to an open file descriptor, by its number, or a file
    ///
    /// Levels as they start and end, and about ten times a second the totals so far, with percentiles; docs/events.md.
    ///
    /// Example: --events 3 3>events.ndjson
    #[arg(long, value_name = "FD|FILE")]
    pub events: Option<String> => (= "none"),

    /// Print an address where a browser on this host can watch the run
    ///
    /// Starts `webstone ui`, which ends by itself a minute after the run, when no page is open any more.
    #[arg(long)]
    pub watch: bool,
}
}

/// `webstone report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Runs: directories, their record.json, names (the newest run of that --name), `last` or `last~1`; in HTML, several share the
    /// same charts
    #[arg(value_name = "RUN", required_unless_present = "like")]
    pub runs: Vec<PathBuf>,

    /// Print the tables and figures of a published document in its own shape, with these runs or series below the printed figures:
    /// webstone-paper, fasttrack, proliant, netserver or wasd
    ///
    /// What was not measured as it was there is NA. In text, HTML, Markdown and JSON; figures are in HTML.
    ///
    /// Default: the report of each run. Example: --like fasttrack -o then-and-now.html
    #[arg(long, value_name = "DOCUMENT", conflicts_with_all = ["full", "clients", "iteration", "all_clients"])]
    pub like: Option<String>,

    /// With --like: results of your own as TOML, which stand below the printed ones that they name
    ///
    /// The form is that of the published ones (docs/documents.md).
    ///
    /// Default: none. Example: --published iis.toml
    #[arg(long, value_name = "FILE", requires = "like")]
    pub published: Option<PathBuf>,

    /// Format of the report; several runs share one workbook or one set of metrics
    ///
    /// Default: by the ending of the file of -o (html, json, csv, xlsx, md, hgrm, prom, xml, txt), else text. Example: --format csv
    #[arg(long, value_name = "FORMAT", value_parser = values::report_format())]
    pub format: Option<Format>,

    /// Write the report to a file instead of standard output
    ///
    /// Default: standard output. Example: -o report.html
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Text report: all tables and all run rules, not only what fits a screen
    #[arg(long)]
    pub full: bool,

    /// Only the level with this number of clients
    ///
    /// Default: all levels. Example: --clients 40
    #[arg(short = 'c', long, value_name = "N", value_parser = values::count_u32)]
    pub clients: Option<u32>,

    /// Only the iteration of this number, from 1
    ///
    /// Default: all iterations. Example: --iteration 2
    #[arg(short = 'i', long, value_name = "N", value_parser = values::count_u32)]
    pub iteration: Option<u32>,

    /// With --format webstone2: a block for each client as well, as WebStone's -a prints them
    #[arg(short = 'a', long)]
    pub all_clients: bool,

    /// With --format csv: which table
    ///
    /// Default: levels. Example: --table pages
    #[arg(long, value_name = "TABLE", value_parser = values::csv_table())]
    pub table: Option<CsvTable>,

    /// With --format hgrm: which distribution
    ///
    /// Default: response. Example: --histogram first-byte
    #[arg(long, value_name = "NAME", value_parser = values::histogram())]
    pub histogram: Option<String>,

    /// With --format text, html or prometheus: maximum number of pages to show
    ///
    /// Default: 20. Example: --pages 100
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub pages: Option<u32>,

    /// Directory with the records of runs, for those that are given by name
    ///
    /// Default: runs. Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR")]
    pub runs_dir: Option<PathBuf>,

    /// Thresholds.
    #[command(flatten)]
    pub thresholds: ThresholdArgs,
}

/// `webstone list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to search for: words, which may stand anywhere, and KEY:VALUE; all of it must match
    ///
    /// Keys: name, kind (run, series, duel), state (complete, partial, interrupted, failed), verdict (certified, valid, sound, noisy,
    /// inconclusive, invalid, unreadable), tag, workload, server, host, target, command, protocol (http/1.1, h2, tls), limit
    /// (server, network, generator …), tool, since and until (2026-01-31).
    ///
    /// Default: none, every run is listed. Example: nginx verdict:valid tag:baseline
    #[arg(value_name = "QUERY")]
    pub query: Vec<String>,

    /// All of them, not only the newest 20
    #[arg(long)]
    pub all: bool,

    /// Directory with the records of runs
    ///
    /// Default: runs. Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR")]
    pub runs_dir: Option<PathBuf>,
}

/// `webstone note`.
#[derive(Args, Debug)]
pub struct NoteArgs {
    /// The directory of a run, series or duel, its name (the newest of it), `last` or `last~1`
    #[arg(value_name = "RUN")]
    pub run: PathBuf,

    /// Text of the note, at most 64 KiB, in place of what was there; an empty one removes it
    ///
    /// Default: the text stays as it is. Example: --text 'before the new kernel'
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,

    /// Add a tag, of a-z, 0-9, `.`, `_` and `-`; can be repeated, up to 20
    ///
    /// Default: none. Example: --tag baseline
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,

    /// Remove a tag; can be repeated
    ///
    /// Default: none. Example: --untag baseline
    #[arg(long, value_name = "TAG")]
    pub untag: Vec<String>,

    /// Directory with the records of runs, for those that are given by name
    ///
    /// Default: runs. Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR")]
    pub runs_dir: Option<PathBuf>,
}

/// `webstone history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// Runs or series to show beside the published results that were measured under the same conditions: directories, their
    /// record.json, names (the newest run of that --name), `last` or `last~1`
    ///
    /// Default: none, the published results are printed as they are. Example: runs/20260701T120000Z-webstone
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,

    /// Only results whose name, server, system, load or tool contains this text, in any case
    ///
    /// Default: all. Example: --only proliant
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,

    /// Show the stored runs of this server over time instead, and what looks like a step: a name as --server of `run` takes it
    /// (nginx, nginx:tuned); of others the one they send; webstone: the embedded one
    ///
    /// Default: none, published results are printed. Example: --server nginx
    #[arg(long, value_name = "NAME", conflicts_with_all = ["runs", "only"])]
    pub server: Option<String>,

    /// With --server: the figure, at the level that most runs have their peak at: rate or p99 (of response times)
    ///
    /// Default: rate. Example: --metric p99
    #[arg(long, value_name = "FIGURE", value_parser = values::history_metric(), requires = "server", hide_possible_values = true)]
    pub metric: Option<HistoryMetric>,

    /// Format: text, html, markdown, csv or json; with --server text or json
    ///
    /// Default: by the ending of the file of -o (html, md, csv, json), else text. Example: --format markdown
    #[arg(long, value_name = "FORMAT", value_parser = values::report_format(), hide_possible_values = true)]
    pub format: Option<Format>,

    /// Write to a file instead of standard output
    ///
    /// Default: standard output. Example: -o history.csv
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Directory with the records of runs: those that are given by name, and those of --server
    ///
    /// Default: runs. Example: --runs-dir /srv/benchmarks
    #[arg(long, value_name = "DIR")]
    pub runs_dir: Option<PathBuf>,
}
