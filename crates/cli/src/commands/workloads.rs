//! `webstone workloads`: lists the workloads for -w.

use std::fmt::Write;

use webstone_runner::Feeds;
use webstone_workload::Workload;
use webstone_workload::builtins;

use super::load_workload;
use crate::args::{WorkloadCommand, WorkloadFormat, WorkloadsArgs};
use crate::console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: &WorkloadsArgs) -> Result<Exit, Failure> {
    let text = match &args.command {
        None | Some(WorkloadCommand::List) => list(),
        Some(WorkloadCommand::Show { workload, format }) => {
            written(&load_workload(workload, Feeds::Anywhere)?, format.unwrap_or_default())?
        }
    };
    console::print(&text)?;
    Ok(Exit::Done)
}

/// A workload as text in a format that -w reads.
pub(super) fn written(workload: &Workload, format: WorkloadFormat) -> Result<String, Failure> {
    let written = match format {
        WorkloadFormat::Toml => Ok(webstone_workload::to_toml(workload)),
        WorkloadFormat::Webstone1 => webstone_workload::to_webstone1(workload),
        WorkloadFormat::Webstone2 => webstone_workload::to_webstone2(workload),
    };
    written
        .map_err(|error| Failure { hint: error.hint, ..Failure::usage(format!("--format: {}", error.what)) })
}

/// One line for each built-in workload; `mean` is the weighted mean size of a request, in bytes.
fn list() -> String {
    let mut out =
        format!("{:<18} {:>6} {:>6} {:>10}  {}\n", "name", "pages", "files", "mean size", "what it is");
    for builtin in builtins() {
        let workload = builtin.workload();
        let files: usize = workload.pages.iter().map(|page| page.files.len()).sum();
        let mean = workload.mean_size().map_or_else(|| "unknown".to_owned(), |mean| format!("{mean:.0}"));
        let pages = workload.pages.len();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:<18} {pages:>6} {files:>6} {mean:>10}  {}", builtin.name, builtin.summary);
    }
    out
}
