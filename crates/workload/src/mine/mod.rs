//! Makes a workload from access logs: which URLs were fetched, how often, and how large they were.
//!
//! [`Miner`] takes a log in blocks of bytes, cut anywhere; the caller reads files and unpacks them. Memory is limited
//! whatever the log contains: with the default limits to about 300 MiB, for a million distinct URLs. Whatever exceeds
//! the limits, or is left out for any other reason, is counted in the [`MineReport`]: every line of a log is in
//! exactly one of its counters.

mod json;
mod line;
mod report;
mod sessions;
mod table;
mod target;
mod w3c;

use memchr::memchr;

use super::{FileRequest, Page, Workload};
use sessions::Sessions;
use table::UrlTable;
use target::Target;

pub use line::{LineFault, LogLine, parse as parse_line};
pub use report::{MineReport, UnparsedLine};

/// Longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 65_536;

/// What a W3C log may say of itself, besides its fields.
const DIRECTIVES: [&[u8]; 7] =
    [b"Version:", b"Software:", b"Date:", b"Start-Date:", b"End-Date:", b"Remark:", b"GMT-Offset:"];

/// What to mine, and the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MineOptions {
    /// Name of the workload to make.
    pub name: String,
    /// Whether URLs with different queries are different.
    pub keep_query: bool,
    /// Whether the numbers after a status are sizes of bodies. Debian's Apache httpd counts the head as well (`%O`), and a line
    /// does not show it.
    pub takes_sizes: bool,
    /// Keep at most this many pages, the most frequent ones.
    pub pages_max: Option<usize>,
    /// Whether to group files into pages: a document, and what the same client fetched within a second of it.
    pub sessions: bool,
    /// Distinct URLs (and, with sessions, distinct pages) that are kept in memory.
    pub urls_max: usize,
    /// Bytes of URLs that are kept in memory.
    pub url_bytes_max: usize,
}

impl Default for MineOptions {
    fn default() -> MineOptions {
        MineOptions {
            name: "mined".to_owned(),
            keep_query: true,
            takes_sizes: true,
            pages_max: None,
            sessions: false,
            urls_max: 1_000_000,
            url_bytes_max: 128 << 20,
        }
    }
}

/// The result of mining.
#[derive(Clone, Debug, PartialEq)]
pub struct MineOutcome {
    /// The workload; without pages if nothing in the logs counts.
    pub workload: Workload,
    /// Where every line went.
    pub report: MineReport,
}

/// Reads logs and counts.
#[derive(Debug)]
pub struct Miner {
    options: MineOptions,
    source: String,
    /// Complete lines of the current source.
    line: u64,
    /// A line whose end has not arrived.
    carry: Vec<u8>,
    /// Whether the line in `carry` is already too long; no more of its bytes are kept.
    overlong: bool,
    state: State,
}

/// What is counted, apart from reading lines.
#[derive(Debug)]
struct State {
    table: UrlTable,
    sessions: Sessions,
    scratch: Vec<u8>,
    /// The columns of a W3C log, as its last `#Fields:` names them, and room for what its lines are put together in.
    columns: Option<w3c::Columns>,
    /// The day that a W3C log says it is of.
    day: Option<w3c::Day>,
    columns_scratch: [Vec<u8>; 2],
    /// The last time, as text and in seconds: consecutive lines usually have the same.
    time: (Vec<u8>, Option<i64>),
    report: MineReport,
}

impl Miner {
    /// A miner that has read nothing.
    pub fn new(options: MineOptions) -> Miner {
        let state = State {
            table: UrlTable::default(),
            sessions: Sessions::default(),
            scratch: Vec::new(),
            columns: None,
            day: None,
            columns_scratch: Default::default(),
            time: (Vec::new(), None),
            report: MineReport::default(),
        };
        Miner { options, source: String::new(), line: 0, carry: Vec::new(), overlong: false, state }
    }

    /// Begins another log. Line numbers start again; a last line without a line end is complete.
    pub fn begin(&mut self, source: &str) {
        self.end_line();
        self.source = source.to_owned();
        self.state.columns = None;
        self.state.day = None;
        self.state.sessions.begin();
        self.line = 0;
    }

    /// Takes the next bytes of the current log, cut anywhere.
    pub fn push(&mut self, block: &[u8]) {
        let mut rest = block;
        if !self.carry.is_empty() || self.overlong {
            let Some(end) = memchr(b'\n', rest) else {
                self.carry_on(rest);
                return;
            };
            self.carry_on(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', rest) {
            self.line += 1;
            self.state.take(&rest[start..end], &self.options, &self.source, self.line);
            start = end + 1;
        }
        self.carry_on(&rest[start..]);
    }

    /// The counts so far, for a display of progress.
    pub fn report(&self) -> &MineReport {
        &self.state.report
    }

    /// Ends the last log and makes the workload: pages by descending hits, then by URL.
    pub fn finish(mut self) -> MineOutcome {
        self.end_line();
        let State { table, mut sessions, mut report, .. } = self.state;
        let mut pages: Vec<(Box<[u32]>, u64)> = if self.options.sessions {
            let pages = sessions.finish(self.options.urls_max);
            report.overflow_files = sessions.overflow;
            pages
        } else {
            (0..table.len() as u32).map(|number| (Box::from([number]), table.hits(number))).collect()
        };
        let urls = |files: &[u32]| files.iter().map(|file| table.url(*file)).collect::<Vec<_>>();
        pages.sort_by(|(a, a_hits), (b, b_hits)| b_hits.cmp(a_hits).then_with(|| urls(a).cmp(&urls(b))));
        report.urls = table.len() as u64;
        let kept = self.options.pages_max.unwrap_or(usize::MAX).min(pages.len());
        report.tail_pages = (pages.len() - kept) as u64;
        report.tail_hits = pages[kept..].iter().map(|(_, hits)| hits).sum();
        pages.truncate(kept);
        let file = |number: &u32| FileRequest {
            url: table.url(*number).into(),
            size: table.size(*number).filter(|_| self.options.takes_sizes),
            ..FileRequest::default()
        };
        let pages: Vec<Page> = pages
            .iter()
            .map(|(files, hits)| Page {
                weight: *hits,
                files: files.iter().map(file).collect(),
                think: Default::default(),
            })
            .collect();
        report.pages = pages.len() as u64;
        report.sizeless_files =
            pages.iter().flat_map(|page| &page.files).filter(|file| file.size.is_none()).count() as u64;
        let workload = Workload { name: self.options.name, pages, ..Workload::default() };
        MineOutcome { workload, report }
    }

    fn carry_on(&mut self, bytes: &[u8]) {
        if self.overlong || bytes.is_empty() {
            return;
        }
        // One byte more than allowed is kept, so that the line is recognized as too long.
        let room = LINE_BYTES_MAX + 2 - self.carry.len();
        self.overlong = bytes.len() > room;
        self.carry.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        if self.carry.is_empty() && !self.overlong {
            return;
        }
        self.line += 1;
        self.state.take(&self.carry, &self.options, &self.source, self.line);
        self.carry.clear();
        self.overlong = false;
    }
}

impl State {
    fn take(&mut self, line: &[u8], options: &MineOptions, source: &str, number: u64) {
        self.report.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) {
            self.report.blank += 1;
            return;
        }
        let counted = match line.first() {
            _ if line.len() > LINE_BYTES_MAX => Err(LineFault::TooLong),
            Some(b'#') => self.direct(line),
            Some(b'{') => json::parse(line).map(|owned| self.count(&owned.line(), options)),
            _ => self.count_text(line, options),
        };
        if let Err(fault) = counted {
            self.report.add_unparsed(fault, line, source, number);
        }
    }

    fn count_text(&mut self, line: &[u8], options: &MineOptions) -> Result<(), LineFault> {
        let Some(columns) = &self.columns else {
            return line::parse(line).map(|parsed| self.count(&parsed, options));
        };
        let mut scratch = std::mem::take(&mut self.columns_scratch);
        let parsed = columns.parse(line, self.day.as_ref(), &mut scratch);
        let counted = parsed.map(|parsed| self.count(&parsed, options));
        self.columns_scratch = scratch;
        counted
    }

    /// Takes a line that begins with `#`: what a W3C log says of itself.
    fn direct(&mut self, line: &[u8]) -> Result<(), LineFault> {
        if let Some(columns) = w3c::fields(line) {
            self.columns = None;
            self.columns = Some(columns?);
        } else if let Some(day) = w3c::day(line) {
            self.day = Some(day);
        } else if !DIRECTIVES.iter().any(|name| line[1..].starts_with(name)) {
            return Err(LineFault::Comment);
        }
        self.report.directives += 1;
        Ok(())
    }

    fn count(&mut self, line: &LogLine<'_>, options: &MineOptions) {
        let report = &mut self.report;
        if line.method != b"GET" {
            return report.add_method(line.method);
        }
        match line.status {
            200 => {}
            206 => return report.partial += 1,
            304 => return report.not_modified += 1,
            other => return *report.other_statuses.entry(other).or_default() += 1,
        }
        let url = match target::read(line.target, options.keep_query, &mut self.scratch) {
            Target::Path(path) => path,
            Target::Elsewhere => return report.elsewhere += 1,
            Target::Unusable => return report.unusable += 1,
        };
        let Some(file) = self.table.number(&url, options.urls_max, options.url_bytes_max) else {
            report.overflow += 1;
            return;
        };
        report.hits += 1;
        self.table.hit(file, line.size);
        if options.sessions {
            if self.time.0 != line.time {
                self.time = (line.time.to_vec(), line::seconds(line.time));
            }
            report.timeless += u64::from(self.time.1.is_none());
            self.sessions.hit(line.client, self.time.1, file, target::is_document(&url), options.urls_max);
        }
    }
}

#[cfg(test)]
mod tests;
