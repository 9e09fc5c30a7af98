//! `webstone checkfiles`: does a server serve every file of a workload, complete and unchanged?

use std::fmt::Write;

use webstone_model::spec::HttpVersion;
use webstone_runner::checkfiles::{FILES_HINT, check_files};
use webstone_runner::{Feeds, check};
use webstone_workload::aim;
use webstone_workload::target::Scheme;

use super::load_fileset;
use crate::args::CheckfilesArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent;

/// Maximum number of problems that are listed; a server without the fileset has thousands.
const PROBLEMS_MAX: usize = 50;

pub(super) fn execute(args: &CheckfilesArgs, console: &Console) -> Result<Exit, Failure> {
    let base =
        check::server_url(&args.url).map_err(|error| Failure::usage(error.to_string()).hint(error.remedy))?;
    let spec = intent::of_checkfiles(args)?;
    if spec.client.http == HttpVersion::Http3 && base.scheme == Scheme::Http {
        return Err(Failure::usage(format!(
            "--http: `3`, but {base} is without TLS, which HTTP/3 always has"
        ))
        .hint("write https://, or leave out --http"));
    }
    let workload =
        load_fileset(&spec.workload, if args.allow_feeds { Feeds::Anywhere } else { Feeds::Below })?;
    let strangers = aim::strangers(&workload, &[base.to_string()], &args.allow_hosts);
    if !strangers.is_empty() {
        let (what, hint) = aim::refusal(&workload.name, &strangers);
        return Err(Failure::usage(what).hint(hint));
    }
    let report = check_files(&base, &workload, &spec.client);
    let mut out = String::new();
    for problem in report.problems.iter().take(PROBLEMS_MAX) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{problem}");
    }
    if report.problems.len() > PROBLEMS_MAX {
        let _ = writeln!(out, "and {} more", report.problems.len() - PROBLEMS_MAX);
    }
    console::print(&out)?;
    if report.skipped > 0 {
        console.note(format!(
            "{} requests were left out: templates, and methods other than GET and HEAD",
            report.skipped
        ));
    }
    let files = |count: u64| format!("{count} {}", if count == 1 { "file" } else { "files" });
    if report.problems.is_empty() {
        console.note(format!("{} of {}: all are as they should be", files(report.checked), workload.name));
        return Ok(Exit::Done);
    }
    Err(Failure::failed(format!(
        "{} of {} at {base} are not as the workload {} has them",
        report.problems.len(),
        files(report.checked),
        workload.name
    ))
    .hint(FILES_HINT))
}
