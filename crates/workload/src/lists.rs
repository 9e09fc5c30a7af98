//! What writing the two filelists has in common: what neither can express, and the comment at the beginning.

use super::problem::UnwritableError;
use super::{Page, Workload};
use webstone_measure::units::Nanos;

/// Checks that a workload has nothing that a filelist cannot express.
pub(super) fn expressible(workload: &Workload, format: &str) -> Result<(), UnwritableError> {
    let refuse = |place: String, what: &str| UnwritableError {
        what: format!("{place}{format} cannot express {what}"),
        hint: Some("write a TOML workload".to_owned()),
    };
    if !workload.feeds.is_empty() {
        return Err(refuse(String::new(), "feeds of template values"));
    }
    if workload.pages.is_empty() {
        return Err(refuse(String::new(), "a workload without pages"));
    }
    for (index, page) in workload.pages.iter().enumerate() {
        if let Some(what) = inexpressible(page) {
            return Err(refuse(format!("page {index}: "), what));
        }
    }
    Ok(())
}

fn inexpressible(page: &Page) -> Option<&'static str> {
    if page.think != Nanos::ZERO {
        return Some("think time");
    }
    if page.files.is_empty() {
        return Some("a page without files");
    }
    page.files.iter().find_map(|file| {
        let detail = &file.detail;
        match () {
            () if detail.method.is_some() => Some("a method"),
            () if detail.status.is_some() => Some("an expected status"),
            () if !detail.headers.is_empty() => Some("header fields"),
            () if detail.body.is_some() => Some("a request body"),
            () if detail.tls => Some("which pages are asked over TLS"),
            () if file.url.contains(|c: char| c.is_ascii_whitespace()) => Some("a template with blanks"),
            () => None,
        }
    })
}

/// Name and description as comment lines.
pub(super) fn comment(workload: &Workload) -> String {
    let mut text = String::new();
    for line in workload.name.lines().chain(workload.description.lines()) {
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.push_str("# ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
