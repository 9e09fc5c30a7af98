//! Where every line of the mined logs went.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::line::LineFault;
use webstone_measure::shown::printable;

/// Maximum number of examples of lines.
const EXAMPLES_MAX: usize = 5;
/// Maximum number of bytes kept of an example.
const EXAMPLE_BYTES_MAX: usize = 200;
/// Maximum number of methods with a counter of their own.
const METHODS_MAX: usize = 32;

/// Counters over all logs. `lines` is the sum of `blank`, `directives`, `unparsed`, `hits`, `partial`, `not_modified`,
/// `other_statuses`, `other_methods`, `unusable`, `elsewhere` and `overflow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MineReport {
    /// Lines read.
    pub lines: u64,
    /// Empty lines.
    pub blank: u64,
    /// Lines that say what a log has in which column (`#Fields:`), or how it was made.
    pub directives: u64,
    /// Lines that are in no known format.
    pub unparsed: u64,
    /// The first of those.
    pub unparsed_examples: Vec<UnparsedLine>,
    /// GETs answered 200 whose URL is counted: weights are made from these.
    pub hits: u64,
    /// GETs answered 206 (part of a file).
    pub partial: u64,
    /// GETs answered 304 (the client's copy is still good).
    pub not_modified: u64,
    /// GETs answered otherwise, by status.
    pub other_statuses: BTreeMap<u16, u64>,
    /// Other requests, by method; `…` is the sum of all methods after the first 32.
    pub other_methods: BTreeMap<String, u64>,
    /// GETs answered 200 whose target is not the URL of a file, or is longer than 8,192 bytes.
    pub unusable: u64,
    /// GETs answered 200 for a URL with its own host (`http://host/…`, `//host/…`): a workload with these would put
    /// that host under load.
    pub elsewhere: u64,
    /// GETs answered 200 for new URLs after the limit of distinct URLs was reached.
    pub overflow: u64,
    /// With sessions: hits without a time that can be read. Each is a page of its own.
    pub timeless: u64,
    /// With sessions: hits in new pages after the limit of distinct pages was reached.
    pub overflow_files: u64,
    /// Distinct URLs.
    pub urls: u64,
    /// Pages of the workload.
    pub pages: u64,
    /// Files of the workload whose size is not in the logs.
    pub sizeless_files: u64,
    /// Pages left out because only the most frequent were requested.
    pub tail_pages: u64,
    /// Fetches of those pages.
    pub tail_hits: u64,
}

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnparsedLine {
    /// The log that contains it.
    pub source: String,
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning, with anything unprintable escaped.
    pub text: String,
    /// What was expected.
    pub expected: &'static str,
}

impl fmt::Display for UnparsedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.source, self.line, self.expected, self.text)
    }
}

impl MineReport {
    pub(super) fn add_unparsed(&mut self, fault: LineFault, line: &[u8], source: &str, number: u64) {
        self.unparsed += 1;
        if self.unparsed_examples.len() < EXAMPLES_MAX {
            let shown = &line[..line.len().min(EXAMPLE_BYTES_MAX)];
            let mut text = printable(&String::from_utf8_lossy(shown));
            if shown.len() < line.len() {
                text.push('…');
            }
            let expected = fault.expected();
            self.unparsed_examples.push(UnparsedLine {
                source: source.to_owned(),
                line: number,
                text,
                expected,
            });
        }
    }

    pub(super) fn add_method(&mut self, method: &[u8]) {
        let name = String::from_utf8_lossy(method);
        if let Some(count) = self.other_methods.get_mut(&*name) {
            *count += 1;
            return;
        }
        let name = if self.other_methods.len() < METHODS_MAX { name.into_owned() } else { "…".to_owned() };
        *self.other_methods.entry(name).or_default() += 1;
    }
}
