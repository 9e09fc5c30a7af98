//! The arguments of `workout`.

use std::path::PathBuf;

use webstone_judge::workout::Misdeed;
use webstone_measure::units::Nanos;
use webstone_model::spec::Levels;

use super::table::flags;
use super::{ClientArgs, GeneratorArgs, OwnServerArgs, values};

flags! {
/// `webstone workout`.
pub struct WorkoutArgs {
    /// The server, as http://HOST:PORT. Without one: the embedded server, or the one that --server names
    #[arg(value_name = "URL")]
    pub url: Option<String>,

    /// Well-behaved clients, which are measured
    ///
    /// Default: 10. Example: -c 50
    #[arg(short = 'c', long, value_name = "N", help_heading = "Workout", value_parser = values::clients_max)]
    pub clients: Option<u32> => (
        load.clients,
        |args, run| run.load.clients = Levels(args.clients.into_iter().collect())
    ),

    /// Length of each phase: before, each round, after
    ///
    /// Default: 5s, or no limit where --pages is given. Example: -d 30s
    #[arg(short, long, value_name = "TIME", help_heading = "Workout")]
    pub duration: Option<Nanos> => (load.duration),

    /// Number of pages that the well-behaved clients fetch in each phase; with --duration, whichever ends first
    ///
    /// Default: no limit. Example: -n 200
    #[arg(short = 'n', long, value_name = "N", help_heading = "Workout", value_parser = values::count)]
    pub pages: Option<u64> => (load.pages),

    /// Rounds with misbehaving connections; what grows in each of them leaks
    ///
    /// Default: 3. Example: --rounds 10
    #[arg(long, value_name = "N", help_heading = "Workout", value_parser = values::count_u32)]
    pub rounds: Option<u32>,

    /// Connections that misbehave at the same time; 0 for a plain stress test
    ///
    /// Default: 16. Example: --offenders 64
    #[arg(long, value_name = "N", help_heading = "Workout", value_parser = values::number_u32)]
    pub offenders: Option<u32>,

    /// Misdeeds to choose from
    ///
    /// break-request, break-response (the connection is dropped at a random byte, alternately with FIN and with a reset),
    /// slow-reader, slow-writer, half-closed (FIN after the request, which is allowed; left out in HTTP/2), oversized-header
    /// (1 MiB), malformed (a dozen kinds). They are done over TLS and in HTTP/2 where the well-behaved clients use these.
    ///
    /// Default: all of them. Example: --misdeeds slow-reader,malformed
    #[arg(long, value_name = "NAMES", help_heading = "Workout", value_delimiter = ',', conflicts_with = "break_")]
    pub misdeeds: Vec<Misdeed>,

    /// Only drop connections at random points of request or response: break-request,break-response
    #[arg(long = "break", help_heading = "Workout")]
    pub break_: bool,

    /// Change the number of misbehaving connections ten times a second, from one to all
    #[arg(long, help_heading = "Workout")]
    pub vary: bool,

    /// The workload: the name of a built-in one, or a file
    ///
    /// Default: standard. Example: -w workout-16k
    #[arg(short, long, value_name = "NAME|FILE", help_heading = "Workout")]
    pub workload: Option<String> => (workload),

    /// Print everything as JSON
    #[arg(long, help_heading = "Report and record")]
    pub json: bool,

    /// File to write the report to instead of standard output
    ///
    /// Default: standard output. Example: -o workout.txt
    #[arg(short, long, value_name = "FILE", help_heading = "Report and record")]
    pub output: Option<PathBuf>,

    /// Options of the well-behaved clients.
    #[command(flatten)]
    pub client: ClientArgs => (..),

    /// The load generator.
    #[command(flatten)]
    pub generator: GeneratorArgs => (..),

    /// The server, if webstone starts it.
    #[command(flatten)]
    pub server: OwnServerArgs => (..),
}
}
