//! `webstone mine`: access logs → a workload, with an account of every line.

use std::io::{self, IsTerminal};

use webstone_runner::mining::mine;
use webstone_workload::mine::{MineOptions, MineReport};

use super::workloads::written;
use crate::args::MineArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: &MineArgs, console: &Console) -> Result<Exit, Failure> {
    let mut options = MineOptions {
        sessions: args.sessions,
        keep_query: !args.no_query,
        takes_sizes: !args.no_sizes,
        pages_max: args.pages.map(|pages| pages as usize),
        ..MineOptions::default()
    };
    if let Some(name) = &args.name {
        options.name.clone_from(name);
    }
    let outcome = mine(&args.logs, options, &mut |_| {})
        .map_err(|error| Failure { hint: error.hint(), ..Failure::failed(error.to_string()) })?;
    account(&outcome.report).iter().for_each(|line| console.note(line));
    let text = written(&outcome.workload, args.format.unwrap_or_default())?;
    // A log may contain anything, and its URLs are in the workload.
    if args.output.is_none() && io::stdout().is_terminal() {
        console::print(&text)?;
    } else {
        console::deliver(text.as_bytes(), args.output.as_deref())?;
    }
    Ok(Exit::Done)
}

/// What happened to every line; zeros are left out.
fn account(report: &MineReport) -> Vec<String> {
    let statuses: u64 = report.other_statuses.values().sum();
    let methods: u64 = report.other_methods.values().sum();
    let names = |names: Vec<String>| names.join(", ");
    let by_status =
        report.other_statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    let by_method = report.other_methods.iter().map(|(method, count)| format!("{method}: {count}")).collect();
    let mut lines = vec![format!(
        "{} lines: {} hits of {} URLs, {} pages",
        report.lines, report.hits, report.urls, report.pages
    )];
    let mut row = |count: u64, text: String| {
        if count > 0 {
            lines.push(format!("{count:>12} {text}"));
        }
    };
    row(report.not_modified, "answered 304 (the client's copy was good)".to_owned());
    row(report.partial, "answered 206 (part of a file)".to_owned());
    row(statuses, format!("answered otherwise ({})", names(by_status)));
    row(methods, format!("of other methods ({})", names(by_method)));
    row(report.unusable, "without a URL that can be requested".to_owned());
    row(
        report.elsewhere,
        "for other hosts (http://host/…, //host/…), left out: load goes to the target only".to_owned(),
    );
    row(report.timeless, "hits without a time: pages of their own".to_owned());
    row(report.overflow, "of URLs beyond the limit of memory".to_owned());
    row(report.overflow_files, "in pages beyond the limit of memory".to_owned());
    row(report.tail_hits, format!("of {} rarer pages that were left out (--pages)", report.tail_pages));
    row(report.blank, "blank".to_owned());
    row(report.directives, "about the log itself (#Fields and the like)".to_owned());
    row(report.unparsed, "not understood:".to_owned());
    lines.extend(report.unparsed_examples.iter().map(|example| format!("{:13}{example}", "")));
    if report.sizeless_files > 0 {
        lines.push(format!(
            "{} files have no size: the logs do not contain that of the body",
            report.sizeless_files
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_accounted_for() {
        let mut report = MineReport {
            lines: 10,
            hits: 4,
            urls: 2,
            pages: 2,
            not_modified: 1,
            timeless: 4,
            ..MineReport::default()
        };
        report.other_statuses.insert(404, 3);
        report.other_methods.insert("POST".into(), 2);
        assert_eq!(
            account(&report),
            [
                "10 lines: 4 hits of 2 URLs, 2 pages",
                "           1 answered 304 (the client's copy was good)",
                "           3 answered otherwise (404: 3)",
                "           2 of other methods (POST: 2)",
                "           4 hits without a time: pages of their own",
            ]
        );
    }
}
