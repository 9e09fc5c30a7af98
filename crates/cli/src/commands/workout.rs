//! `webstone workout`: misbehaving clients beside measured ones, and how the server coped.

use webstone_judge::workout::{PhaseRecord, Workout};
use webstone_report::{answer_line, phase_line, render_workout};
use webstone_runner::workout::{WorkoutOptions, workout};

use super::run;
use crate::args::WorkoutArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent;
use crate::signals::SignalWatch;
use crate::version;

pub(super) fn execute(args: &WorkoutArgs, console: &Console) -> Result<Exit, Failure> {
    let options: WorkoutOptions = intent::of_workout(args, version::tool())?;
    let signals = SignalWatch::start()?;
    let phases = options.rounds + 2;
    let duration = options.spec.load.duration;
    console.note(format!(
        "working out {}: {phases} phases of {duration}, {} in the middle with up to {} connections that misbehave",
        options.spec.target.first().map_or("a server started by webstone", String::as_str),
        options.rounds,
        options.offenders
    ));
    let mut done = Vec::new();
    let mut ended = |phase: &PhaseRecord| {
        done.push(phase.clone());
        let names = webstone_report::phase_names(&done);
        console.note(format!("[{}/{phases}] {}", done.len(), phase_line(phase, &names[done.len() - 1])));
    };
    let workout =
        workout(&options, &mut ended, &signals.interrupt).map_err(|error| match signals.exit() {
            Some(exit) => Failure { exit, ..run::failure(&error, "workout") },
            None => run::failure(&error, "workout"),
        })?;
    print(&workout, args, console)?;
    if let Some(exit) = signals.exit() {
        console.note("interrupted: the answers are based on the completed phases");
        return Ok(exit);
    }
    Ok(judged(&workout))
}

fn print(workout: &Workout, args: &WorkoutArgs, console: &Console) -> Result<(), Failure> {
    let text = if args.json {
        let whole = serde_json::json!({ "workout": workout, "answers": workout.answers() });
        format!("{whole:#}\n")
    } else {
        render_workout(workout, &console.report_options(args.output.is_some()))
    };
    console::deliver(text.as_bytes(), args.output.as_deref())
}

fn judged(workout: &Workout) -> Exit {
    let answers = workout.answers();
    let bad = answers.iter().filter(|answer| answer.is_good == Some(false));
    let mut exit = Exit::Done;
    for answer in bad {
        console::complain(format!("not so: {}", answer_line(answer)));
        exit = Exit::Gate;
    }
    exit
}
