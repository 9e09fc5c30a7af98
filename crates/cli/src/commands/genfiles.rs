//! `webstone genfiles`: writes the files of a workload, for a server to serve.

use std::collections::BTreeMap;

use webstone_lab::fileset::{FilesetOptions, FilesetReport, MANIFEST, generate};
use webstone_model::spec::RunSpec;
use webstone_runner::Feeds;

use super::load_fileset;
use crate::args::GenfilesArgs;
use crate::console::Console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: &GenfilesArgs, console: &Console) -> Result<Exit, Failure> {
    let name = args.workload.clone().unwrap_or_else(|| RunSpec::default().workload);
    let workload = load_fileset(&name, Feeds::Anywhere)?;
    let options = FilesetOptions { force: args.force, default_size: args.default_size };
    let report = generate(&workload, &args.dir, &options)
        .map_err(|error| Failure { hint: error.hint(), ..Failure::failed(error.to_string()) })?;
    summary(&report).iter().for_each(|line| console.note(line));
    console.note(format!(
        "{} holds the files of {}; {MANIFEST} in it holds their check sums",
        args.dir.display(),
        workload.name
    ));
    Ok(Exit::Done)
}

fn summary(report: &FilesetReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{} files of {} bytes: {} written, {} were there with the right size",
        report.files, report.bytes, report.written, report.kept
    )];
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for left_out in &report.left_out {
        *reasons.entry(left_out.reason.to_string()).or_default() += 1;
    }
    lines.extend(reasons.iter().map(|(reason, count)| format!("left out {count}: {reason}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_lab::fileset::{LeftOut, LeftOutReason};

    #[test]
    fn files_left_out_are_counted_by_reason() {
        let left_out = |url: &str, reason| LeftOut { url: url.to_owned(), reason };
        let report = FilesetReport {
            files: 2,
            bytes: 30,
            written: 1,
            written_bytes: 10,
            kept: 1,
            left_out: vec![
                left_out("/a?b", LeftOutReason::Query),
                left_out("/a?c", LeftOutReason::Query),
                left_out("http://h/", LeftOutReason::OtherHost),
            ],
        };
        assert_eq!(
            summary(&report),
            [
                "2 files of 30 bytes: 1 written, 1 were there with the right size",
                "left out 2: it has a query, so a handler answers it",
                "left out 1: it names a host of its own",
            ]
        );
    }
}
