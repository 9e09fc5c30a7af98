//! What the check before the load says of files that are not served as the workload has them, and what to do about it.

use webstone_workload::Workload;

use super::target::TargetError;
use crate::checkfiles::{FILES_HINT, FileProblem, FileProblemKind};

/// Files that a message names; the rest is counted.
const FILES_NAMED_MAX: usize = 5;

/// Why the run does not begin. `checked`: how many files were asked for, if all were.
pub(super) fn files_error(
    workload: &Workload,
    problems: &[FileProblem],
    checked: Option<u64>,
) -> TargetError {
    const MEASURE: &str = "--no-check measures anyway, and counts such answers as errors";
    // One URL of which no size is stated was typed by hand: no fileset could hold it.
    if let ([problem], [page]) = (problems, workload.pages.as_slice())
        && let [file] = page.files.as_slice()
        && file.size.is_none()
    {
        let advice = match problem.kind {
            FileProblemKind::Status { found, .. } => {
                let advice = match found {
                    304 => "the request asks for a revalidation",
                    301 | 302 | 303 | 307 | 308 => "--follow follows redirects",
                    300..=399 => "give the URL that it leads to",
                    401 | 407 => "add credentials: -H 'Authorization: …'",
                    405 => "choose another method with -m",
                    _ => "check the path",
                };
                format!("{advice}; --expect-status {found} counts such answers as valid")
            }
            _ => "try it with `curl -v`".to_owned(),
        };
        return TargetError::target(one_url_message(problem), format!("{advice}; {MEASURE}"));
    }
    let other = problems.iter().find_map(|problem| match problem.kind {
        FileProblemKind::Status { found, .. } if found != 404 => Some(found),
        _ => None,
    });
    let expect = other.map_or(String::new(), |status| {
        format!("; --expect-status 2xx,{status} counts such answers as valid")
    });
    TargetError::target(files_message(problems, checked), format!("{FILES_HINT}{expect}; {MEASURE}"))
}

fn one_url_message(problem: &FileProblem) -> String {
    let url = &problem.url;
    match &problem.kind {
        FileProblemKind::Status { found, expected } => {
            let from = if expected.is_default() { "from " } else { "" };
            let wanted = format!("{from}{}", expected.in_words());
            format!("{url} answers with status {found}, but only a status {wanted} counts as a success")
        }
        kind => format!("{url}: {kind}"),
    }
}

fn files_message(problems: &[FileProblem], checked: Option<u64>) -> String {
    let bad = problems.len();
    let of = checked.map_or(String::new(), |checked| format!(" {checked}"));
    let mut text = format!("{bad} of the workload's{of} files {}", if bad == 1 { "is" } else { "are" });
    text += " not served as the workload has them:";
    for problem in problems.iter().take(FILES_NAMED_MAX) {
        text += &format!("\n  {problem}");
    }
    if bad > FILES_NAMED_MAX {
        text += &format!("\n  and {} more", bad - FILES_NAMED_MAX);
    }
    text
}
