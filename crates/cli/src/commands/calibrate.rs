//! `webstone calibrate`: how much load this host can generate, as a table and as a file; and the null server that it uses.

use std::path::{Path, PathBuf};

use webstone_judge::calibration::{CalibrationRow, is_disturbing};
use webstone_measure::units::Nanos;
use webstone_model::spec::parse_cpu_list;
use webstone_report::{calibration_line, disturbance_line, render_calibration};
use webstone_runner::calibrate::{self, CalibrateOptions};
use webstone_server::{NullOptions, serve_null};

use super::run;
use crate::args::{CalibrateArgs, NullServerArgs};
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::signals::SignalWatch;
use crate::version;

/// The file of the calibration that runs read. `None` without a home directory.
pub(super) fn file() -> Option<PathBuf> {
    Some(directory()?.join("calibration.json"))
}

/// The file in which runs keep how fast this host's CPUs were. `None` without a home directory.
pub(super) fn speeds_file() -> Option<PathBuf> {
    Some(directory()?.join("cpu-speed.json"))
}

/// By the XDG Base Directory Specification, section 3.
fn directory() -> Option<PathBuf> {
    // By the specification, a relative path in the variable is ignored.
    let named = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share"));
    Some(named.or_else(home)?.join("webstone"))
}

pub(super) fn execute(args: &CalibrateArgs, console: &Console) -> Result<Exit, Failure> {
    let path = args.output.clone().or_else(file).ok_or_else(|| {
        Failure::usage("there is no place to store the calibration: neither XDG_DATA_HOME nor HOME is set")
            .hint("name a file: -o calibration.json")
    })?;
    let options = console.report_options(false);
    if args.show {
        let stored = calibrate::read(&path).map_err(|error| Failure::file("read", &path, &error))?;
        let Some(stored) = stored else {
            return Err(Failure::failed(format!("no calibration is stored in {}", path.display()))
                .hint("make one: webstone calibrate"));
        };
        return print(&stored, args.json, &options);
    }
    let duration = args.duration.unwrap_or(Nanos::from_secs(1));
    if duration == Nanos::ZERO {
        return Err(Failure::usage("--duration 0s: a timed run needs time").hint("write a time, as in -d 1s"));
    }
    let how = CalibrateOptions { tool: version::tool(), duration, iterations: args.iterations.unwrap_or(3) };
    let signals = SignalWatch::start()?;
    let plan = calibrate::plan(&how).map_err(|error| run::failure(&error, "calibrate"))?;
    plan.warnings.iter().for_each(|warning| console.note(format!("warning: {warning}")));
    let disturbance = calibrate::disturbance(&plan);
    if is_disturbing(disturbance) {
        console.note(format!("warning: {}", disturbance_line(disturbance)));
    }
    console.note(format!(
        "calibrating the load generator of this host: {} rows of {} timed runs, about {}",
        plan.cases.len(),
        how.iterations,
        Nanos::from_secs(plan.time.as_secs().max(1))
    ));
    let mut number = 0;
    let rows = plan.cases.len();
    let mut measured = |row: &CalibrationRow| {
        number += 1;
        console.note(format!("[{number}/{rows}] {}", calibration_line(row)));
    };
    match calibrate::calibrate(&plan, &how, disturbance, &mut measured, &signals.interrupt) {
        Ok(calibration) => {
            // The measurement took minutes: it is printed even if it cannot be stored, and stored even if it cannot
            // be printed.
            let printed = print(&calibration, args.json, &options);
            write(&path, &calibration)?;
            console.note(format!("calibration: {}", path.display()));
            printed
        }
        Err(error) => match signals.exit() {
            Some(exit) => {
                console.note("interrupted: nothing was stored; an older calibration is unchanged");
                Ok(exit)
            }
            None => Err(run::failure(&error, "calibrate")),
        },
    }
}

fn write(path: &Path, calibration: &webstone_judge::calibration::Calibration) -> Result<(), Failure> {
    calibrate::write(path, calibration).map_err(|error| Failure::file("write", path, &error))
}

fn print(
    calibration: &webstone_judge::calibration::Calibration,
    json: bool,
    options: &webstone_report::Options,
) -> Result<Exit, Failure> {
    let text = if json {
        let text = serde_json::to_string_pretty(calibration).map_err(|error| {
            Failure::failed(format!("the calibration cannot be written as JSON: {error}"))
        })?;
        text + "\n"
    } else {
        render_calibration(calibration, options)
    };
    console::print(&text)?;
    Ok(Exit::Done)
}

/// `webstone null-server`.
pub(super) fn serve(args: &NullServerArgs) -> Result<Exit, Failure> {
    let default = NullOptions::default();
    let options = NullOptions {
        body_bytes: args.body.map_or(default.body_bytes, |bytes| bytes as usize),
        path: args.path.clone().unwrap_or(default.path),
        close: args.close,
        cpus: parse_cpu_list(args.cpus.as_deref().unwrap_or_default()).map_err(Failure::usage)?,
        until_stdin_closes: args.until_stdin_closes,
    };
    serve_null_server(&options)
}

/// Runs the null server until it is ended.
pub(super) fn serve_null_server(options: &NullOptions) -> Result<Exit, Failure> {
    let ready = |url: &str| {
        // Programs that start the server wait for this line.
        console::print(&format!("READY {url}\n")).map_err(|failure| std::io::Error::other(failure.message))
    };
    serve_null(options, ready).map_err(|error| Failure::failed(format!("the null server ended: {error}")))?;
    Ok(Exit::Done)
}
