//! The meaning of `workout`: one level of well-behaved clients on a workload, and misbehaving ones.

use webstone_judge::workout::Misdeed;
use webstone_measure::units::Nanos;
use webstone_model::record::Tool;
use webstone_model::spec::{Levels, RunSpec};
use webstone_runner::check::{Asked, check};
use webstone_runner::workout::WorkoutOptions;

use super::{alone, lay_over, target};
use crate::args::WorkoutArgs;
use crate::args::table::Flags;
use crate::failure::Failure;
use crate::flags;

/// Number of well-behaved clients, and of others, unless given.
const CLIENTS: u32 = 10;
const OFFENDERS: u32 = 16;
/// More threads than this are of no use, and many machines do not have them.
const OFFENDERS_MAX: u32 = 4096;
const ROUNDS: u32 = 3;
const DURATION: Nanos = Nanos::from_secs(5);

pub(crate) fn of_workout(args: &WorkoutArgs, tool: Tool) -> Result<WorkoutOptions, Failure> {
    let mut spec = RunSpec::default();
    let urls: Vec<String> = args.url.iter().cloned().collect();
    target::newest(&urls, &args.server, &mut spec);
    spec.load.clients = Levels(vec![CLIENTS]);
    spec.load.iterations = 1;
    spec.load.duration = if args.pages.is_some() { Nanos::ZERO } else { DURATION };
    spec.load.warmup = Nanos::ZERO;
    lay_over(args, &mut spec)?;
    if spec.load.duration == Nanos::ZERO && args.pages.is_none() {
        return Err(Failure::usage("--duration 0s: a phase needs time")
            .hint("write a time, as in -d 5s, or a number of pages, as in -n 200"));
    }
    alone(&args.generator, "a workout", "leave it out, or use `run`")?;
    if args.client.proxy_protocol.is_some() {
        return Err(Failure::usage("--proxy-protocol: clients that misbehave cannot send it")
            .hint("give an address of the server that does not expect it"));
    }
    let asked = Asked { spec, defaults: RunSpec::default(), given: args.typed_keys(), testbed: None };
    let spec = check(&asked).map_err(|error| flags::failure(&error, "workout"))?.spec;
    let offenders = args.offenders.unwrap_or(OFFENDERS);
    if offenders > OFFENDERS_MAX {
        return Err(Failure::usage(format!(
            "--offenders {offenders}: each is a thread, and at most {OFFENDERS_MAX} are possible"
        ))
        .hint("give fewer; there can be many more well-behaved clients (-c)"));
    }
    let misdeeds = match (args.break_, args.misdeeds.as_slice()) {
        (true, _) => Misdeed::BREAKS.to_vec(),
        (false, []) => Misdeed::ALL.to_vec(),
        (false, some) => some.to_vec(),
    };
    Ok(WorkoutOptions {
        tool,
        spec,
        misdeeds,
        offenders,
        vary: args.vary,
        rounds: args.rounds.unwrap_or(ROUNDS),
        check_target: !args.client.no_check,
    })
}
