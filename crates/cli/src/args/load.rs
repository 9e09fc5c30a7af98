//! Flags of the load: how many clients, how long, how often.

use webstone_measure::rate::Rates;
use webstone_measure::units::Nanos;
use webstone_model::spec::{Levels, Order, WhenBusy};
use webstone_workload::arrivals::ArrivalProcess;

use super::table::flags;
use super::values;

flags! {
/// Options for arrivals, besides their rate.
#[command(next_help_heading = "Load")]
pub struct OpenLoopArgs {
    /// Open loop: how arrivals are spaced
    ///
    /// Example: --arrivals poisson
    #[arg(long, value_name = "PROCESS", value_parser = values::arrivals())]
    pub arrivals: Option<ArrivalProcess> => (load.arrivals),

    /// Open loop: what happens to an arrival when all clients are busy
    ///
    /// Example: --when-busy skip
    #[arg(long, value_name = "WHAT", value_parser = values::when_busy())]
    pub when_busy: Option<WhenBusy> => (load.when_busy),
}
}

flags! {
/// The load of `run`: a sweep.
#[command(next_help_heading = "Load")]
pub struct RunLoadArgs {
    /// Numbers of clients, one level for each
    ///
    /// A client is one simulated user: it requests one page at a time, and the next one when the last is complete. Write one
    /// count (64), a list (1,2,4), a range with a step (20..100+10) or with a factor (1..64*2). With --rate, write one count:
    /// the clients that stand by for arrivals, by default a twentieth of the rate, from 10 to 1000.
    ///
    /// Example: -c 20..100+10
    #[arg(short = 'c', long, value_name = "LEVELS")]
    pub clients: Option<Levels> => (load.clients),

    /// Open loop: arrivals per second, however slow the server is; one level for each rate
    ///
    /// An arrival starts one page, and so as many requests as the page has files. Latency then counts from the scheduled
    /// arrival, so a stall counts for every request that it delays. Write a rate (10k), a list (1k,5k), a range
    /// with a step (1k..10k+1k) or with a factor (1k..64k*2), or a ramp
    /// over a time (1k..50k/60s), which is also the length of the window unless --duration is given.
    ///
    /// Example: -R 1k..10k+1k
    #[arg(short = 'R', long, value_name = "RATES")]
    pub rate: Option<Rates> => (load.rate = "none: closed loop"),

    /// Arrivals of an open loop.
    #[command(flatten)]
    pub open_loop: OpenLoopArgs => (..),

    /// Length of each level's measured window, without warm-up; 0s ends levels by --pages alone
    ///
    /// A number is seconds; units are ns, us, ms, s, m and h.
    ///
    /// Example: -d 10m
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Nanos> => (load.duration),

    /// Timed runs of each level; two or more give 95 % intervals
    ///
    /// Example: -i 3
    #[arg(short, long, value_name = "N", value_parser = values::count_u32)]
    pub iterations: Option<u32> => (load.iterations),

    /// Measure the noise floor: run each level as two identical, interleaved arms (A/A)
    ///
    /// Both arms measure the same, so a difference between them is noise; a smaller change cannot be detected. Takes an
    /// even number of iterations, four or more.
    ///
    /// Example: --aa -i 6
    #[arg(long)]
    pub aa: bool => (load.aa),

    /// Number of pages that each level fetches; with --duration, whichever ends first
    ///
    /// k, m and g stand for thousands, millions and billions.
    ///
    /// Example: -n 10k
    #[arg(short = 'n', long, value_name = "N", value_parser = values::count)]
    pub pages: Option<u64> => (load.pages = "no limit"),

    /// Repetition test: fetch each page N times, in the workload's order, then report
    ///
    /// The pages are dealt to the clients in turn, whatever their weights. There is no warm-up and no duration.
    ///
    /// Default: none, pages are drawn by weight. Example: --repetitions 10
    #[arg(long, value_name = "N", value_parser = values::count_u32, conflicts_with_all = ["pages", "duration", "warmup", "rate"])]
    pub repetitions: Option<u32> => (load.repetitions),

    /// Warm-up before each measured window; not counted
    ///
    /// Example: --warmup 5s
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<Nanos> => (load.warmup),

    /// Maximum time for requests in progress to finish after the window
    ///
    /// Requests that take longer are cut off, and counted as such.
    ///
    /// Example: --drain 5s
    #[arg(long, value_name = "TIME")]
    pub drain: Option<Nanos> => (load.drain),

    /// Repetition of void timed runs.
    #[command(flatten)]
    pub retry: RetryArgs => (..),

    /// Order in which levels and iterations run
    ///
    /// Example: --order sequential
    #[arg(long, value_name = "ORDER", value_parser = values::order())]
    pub order: Option<Order> => (load.order),
}
}

flags! {
/// The load of `hit`: one level.
#[command(next_help_heading = "Load")]
pub struct HitLoadArgs {
    /// Clients, each with one connection
    ///
    /// With --rate they stand by for arrivals, and are by default a twentieth of the rate, from 10 to 1000.
    ///
    /// Example: -c 64
    #[arg(short = 'c', long, value_name = "N", value_parser = values::one_level)]
    pub clients: Option<Levels> => (load.clients),

    /// Open loop: arrivals per second, however slow the server is; -c clients stand by
    ///
    /// An arrival starts one request. Latency then counts from the scheduled
    /// arrival, so a stall counts for every request that it delays. Write a rate (10k), or a ramp
    /// over a time (1k..50k/60s), which is also the length of the window unless --duration is given.
    ///
    /// Example: -R 10k
    #[arg(short = 'R', long, value_name = "RATE", value_parser = values::one_rate)]
    pub rate: Option<Rates> => (load.rate = "none: closed loop"),

    /// Arrivals of an open loop.
    #[command(flatten)]
    pub open_loop: OpenLoopArgs => (..),

    /// Length of the measured window
    ///
    /// A number is seconds; units are ns, us, ms, s, m and h. With --requests and no --duration there is no limit.
    ///
    /// Example: -d 30s
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Nanos> => (load.duration),

    /// Requests in all, over all clients; with --duration, whichever ends first
    ///
    /// k, m and g stand for thousands, millions and billions.
    ///
    /// Example: -n 100k
    #[arg(short = 'n', long, value_name = "N", value_parser = values::count)]
    pub requests: Option<u64> => (
        load.pages = "no limit",
        |args, run| {
            run.load.pages = args.requests;
            run.load.duration = args.duration.unwrap_or_default();
        }
    ),

    /// Timed runs; `compare` needs three or more to distinguish a difference from noise
    ///
    /// Example: -i 5
    #[arg(short, long, value_name = "N", value_parser = values::count_u32)]
    pub iterations: Option<u32> => (load.iterations),

    /// Repetition test: fetch each URL N times, in the order given, then report
    ///
    /// Default: none. Example: --repetitions 10
    #[arg(long, value_name = "N", value_parser = values::count_u32, conflicts_with_all = ["requests", "duration", "warmup", "rate"])]
    pub repetitions: Option<u32> => (load.repetitions),

    /// Warm-up before the measured window; not counted
    ///
    /// Example: --warmup 2s
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<Nanos> => (load.warmup),

    /// Repetition of void timed runs.
    #[command(flatten)]
    pub retry: RetryArgs => (..),

    /// Accepted for compatibility with wrk; the distribution of response times is always printed
    #[arg(long)]
    pub latency: bool,
}
}

flags! {
/// Repetition of void timed runs.
#[command(next_help_heading = "Load")]
pub struct RetryArgs {
    /// Repeat disturbed timed runs: at most N per four timed runs of a level
    ///
    /// A timed run in which others took 5 % or more of the generator's or the server's CPU time (other programs, the host of a
    /// virtual machine, a CPU quota, heat), or in which the machine stood still for a second, is void: it is kept in the record,
    /// counts for no figure, and is repeated. The rule depends on no measured result. A sweep takes half as long again at most. If the
    /// last attempt is void too, it counts, and the verdict says how far it may be off. Not used with --record-all.
    ///
    /// Example: --retries 5
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub retries: Option<u32> => (load.retries),
}
}
