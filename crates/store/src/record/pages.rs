//! What each page did, in two files that any program reads.
//!
//! `pages.csv` has the sums over the whole run, a row per page that was asked for, in the order of the workload: what tables and charts of
//! pages are made from. It is written when the run ends.
//!
//! `page-rows.csv.gz` has the rows of every iteration, one gzip member each, after a member with the heading. Members in a
//! row are one gzip file (RFC 1952, 2.2), so `zcat`, pandas or DuckDB read it as one table; and a member can be appended
//! when its iteration ends, and read without the others: the iteration in `record.json` has its place (`pages_at`). Pages
//! that were never asked for have no row, and those with the most hits come first, so that the busiest pages are read
//! without unpacking the rest.
//!
//! A minimum is empty where there are no values.
//!
//! Why not binary columns: the numbers are mostly noise, which no format makes smaller; this one takes less than twice the
//! entropy of its rows, and it will be readable as long as there are gzip and text.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use webstone_measure::metrics::{PageTotals, Spread};
use webstone_model::pages::{PageRow, PageRowsError, PageSource, by_hits};
use webstone_model::record::IterationRecord;

use super::without_number;
use crate::plain_file::{self, Links};

/// Columns of both files: names of [`PageTotals`], in nanoseconds and bytes.
const COLUMNS: &str = "page,hits,failed,time_ns,time_ns_max,requests,errors,response_ns,response_ns_max,\
                       connects,connect_ns,connect_ns_max,body_bytes,head_bytes,unanswered,unanswered_ns,\
                       unanswered_ns_max,connect_ns_min,connect_ns_squares,response_ns_min,response_ns_squares,\
                       answer_bytes_min,answer_bytes_max,answer_bytes_squares,body_bytes_min,body_bytes_max,\
                       body_bytes_squares";
const NUMBERS: usize = 26;
/// The first of them are counts and sums, the others spreads.
const SUMS: usize = 16;
/// Bytes of a row, its newline included: a rate and 29 numbers of up to 39 digits.
const ROW_BYTES_MAX: u64 = 1 << 10;
/// The columns that say whose row it is.
const ITERATION_COLUMNS: &str = "clients,rate,iteration";
/// Times and sizes hardly compress; a higher level takes twice the time for some percent.
const LEVEL: Compression = Compression::fast();

/// The heading of `page-rows.csv.gz`, a gzip member.
pub(super) fn heading() -> Vec<u8> {
    member(&format!("{ITERATION_COLUMNS},{COLUMNS}\n"))
}

/// The rows of an iteration, a gzip member, and how many there are.
pub(super) fn rows_of(iteration: &IterationRecord) -> (Vec<u8>, u64) {
    let (rows, prefix) = (by_hits(&iteration.measured.pages), prefix(iteration));
    let mut text = String::with_capacity(rows.len() * 96);
    for row in &rows {
        text.push_str(&prefix);
        push_row(&mut text, row);
    }
    (member(&text), rows.len() as u64)
}

/// `pages.csv`.
pub(super) fn totals_text(totals: &[PageTotals]) -> String {
    let mut rows = by_hits(totals);
    rows.sort_unstable_by_key(|row| row.page);
    let mut text = format!("{COLUMNS}\n");
    rows.iter().for_each(|row| push_row(&mut text, row));
    text
}

/// Reads a line of `pages.csv` into the sums, one for each page of the workload.
pub(super) fn read_total(number: u64, line: &str, totals: &mut [PageTotals]) -> Result<(), String> {
    if number == 1 {
        return if line == COLUMNS { Ok(()) } else { Err(format!("the heading is not `{COLUMNS}`")) };
    }
    let row = parse(line.as_bytes(), totals.len()).ok_or_else(|| wrong_row(totals.len()))?;
    let total = &mut totals[row.page as usize];
    if *total != PageTotals::default() {
        return Err(format!("page {} is listed twice", row.page));
    }
    *total = row.totals;
    Ok(())
}

fn wrong_row(pages: usize) -> String {
    format!("expected a page number below {pages} and {NUMBERS} numbers after it")
}

/// `20,,1,`: clients, rate in open loop, iteration.
fn prefix(iteration: &IterationRecord) -> String {
    let rate = iteration.rate.map(|rate| rate.to_string()).unwrap_or_default();
    format!("{},{rate},{},", iteration.clients, iteration.iteration)
}

fn member(text: &str) -> Vec<u8> {
    // 255: of no particular system. Nothing of this machine or moment is in it.
    let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), LEVEL);
    let written = gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish());
    written.expect("a Vec accepts every write")
}

fn push_row(text: &mut String, row: &PageRow) {
    write!(text, "{}", row.page).expect("a String accepts every write");
    let mut totals = row.totals;
    for number in sums(&mut totals) {
        write!(text, ",{number}").expect("a String accepts every write");
    }
    let PageTotals { connect, response, answer, body, .. } = &row.totals;
    for (spread, has_max) in [(connect, false), (response, false), (answer, true), (body, true)] {
        let min = if spread.is_empty() { String::new() } else { spread.min.to_string() };
        let max = if has_max { format!(",{}", spread.max) } else { String::new() };
        write!(text, ",{min}{max},{}", spread.squares).expect("a String accepts every write");
    }
    text.push('\n');
}

/// The first numbers of a row in the order of its columns.
fn sums(totals: &mut PageTotals) -> [&mut u64; SUMS] {
    [
        &mut totals.hits,
        &mut totals.failed,
        &mut totals.time_ns,
        &mut totals.time_ns_max,
        &mut totals.requests,
        &mut totals.errors,
        &mut totals.response_ns,
        &mut totals.response_ns_max,
        &mut totals.connects,
        &mut totals.connect_ns,
        &mut totals.connect_ns_max,
        &mut totals.body_bytes,
        &mut totals.head_bytes,
        &mut totals.unanswered,
        &mut totals.unanswered_ns,
        &mut totals.unanswered_ns_max,
    ]
}

/// A row from `page` on; `None` if it is invalid, or of a page that the workload does not have.
fn parse(line: &[u8], pages: usize) -> Option<PageRow> {
    let mut words = line.split(|byte| *byte == b',');
    let page = u32::try_from(number(words.next()?)?).ok().filter(|page| (*page as usize) < pages)?;
    let mut row = PageRow { page, totals: PageTotals::default() };
    for into in sums(&mut row.totals) {
        *into = whole(words.next()?)?;
    }
    let totals = &mut row.totals;
    for (spread, max) in [
        (&mut totals.connect, Some(totals.connect_ns_max)),
        (&mut totals.response, Some(totals.response_ns_max)),
        (&mut totals.answer, None),
        (&mut totals.body, None),
    ] {
        let min = words.next()?;
        let max = max.map_or_else(|| whole(words.next()?), Some)?;
        let squares = number(words.next()?)?;
        // Without values there is no minimum, although the row has a maximum.
        *spread = match min {
            b"" => Spread::default(),
            min => Spread { min: whole(min)?, max, squares },
        };
    }
    words.next().is_none().then_some(row)
}

fn whole(word: &[u8]) -> Option<u64> {
    u64::try_from(number(word)?).ok()
}

fn number(word: &[u8]) -> Option<u128> {
    let digit = |value: u128, byte: &u8| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u128::from(byte - b'0')),
        _ => None,
    };
    if word.is_empty() { None } else { word.iter().try_fold(0, digit) }
}

/// `page-rows.csv.gz`, open: it is read by position, so that the run's directory may be renamed meanwhile.
#[derive(Debug)]
pub(super) struct RowsFile {
    path: PathBuf,
    file: File,
    /// Pages of the workload.
    pages: usize,
}

impl RowsFile {
    pub(super) fn open(path: &Path, pages: usize) -> io::Result<RowsFile> {
        Ok(RowsFile { path: path.to_owned(), file: plain_file::open(path, Links::Refused)?, pages })
    }
}

impl PageSource for RowsFile {
    fn rows(&self, iteration: &IterationRecord, most: usize) -> Result<Vec<PageRow>, PageRowsError> {
        let place = iteration.pages_at.unwrap_or_default();
        let whose = iteration.key();
        let wrong = |row: usize, what: &str| {
            PageRowsError(format!("{}: {whose}, row {row}: {what}", self.path.display()))
        };
        let section = Section { file: &self.file, at: place.offset, left: place.bytes };
        let mut text =
            BufReader::with_capacity(1 << 16, GzDecoder::new(BufReader::with_capacity(1 << 15, section)));
        let (prefix, held) = (prefix(iteration), usize::try_from(place.rows).unwrap_or(usize::MAX));
        if held > self.pages {
            let what =
                format!("record.json says there are {held}, but the workload has {} pages", self.pages);
            return Err(wrong(1, &what));
        }
        let mut rows: Vec<PageRow> = Vec::with_capacity(held.min(most).min(self.pages));
        let mut line = Vec::new();
        loop {
            let number = rows.len() + 1;
            if rows.len() == most && most < held {
                return Ok(rows);
            }
            match plain_file::read_line(&mut text, &mut line, ROW_BYTES_MAX) {
                Ok(0) if rows.len() == held => return Ok(rows),
                Ok(0) => {
                    return Err(wrong(number, &format!("the last one; record.json says there are {held}")));
                }
                Ok(_) if rows.len() == held => {
                    return Err(wrong(number, &format!("a surplus row; record.json says there are {held}")));
                }
                Ok(_) => {
                    let line = line.strip_suffix(b"\n").unwrap_or(&line);
                    let row = line
                        .strip_prefix(prefix.as_bytes())
                        .ok_or_else(|| wrong(number, &format!("does not begin with `{prefix}`")))?;
                    rows.push(parse(row, self.pages).ok_or_else(|| wrong(number, &wrong_row(self.pages)))?);
                }
                Err(error) => return Err(wrong(number, &without_number(&error))),
            }
        }
    }
}

/// A part of a file, as a stream.
struct Section<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let read = self.file.read_at(&mut into[..most], self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{iteration, record, started};
    use crate::{PAGE_ROWS, PAGES, Store};
    use flate2::read::MultiGzDecoder;
    use std::fs;
    use webstone_model::pages::RowsPlace;
    use webstone_model::record::{RunRecord, RunState};

    /// Page p of 300 with p % 5 hits: those with none have no row.
    fn measured_pages() -> Vec<PageTotals> {
        (0..300)
            .map(|page| match page % 5 {
                0 => PageTotals::default(),
                hits => PageTotals {
                    hits,
                    time_ns: 1_000 * page + 7,
                    head_bytes: u64::MAX - page,
                    ..PageTotals::default()
                },
            })
            .collect()
    }

    /// A run of two iterations, one of them of an open loop, as it is while it lasts.
    fn run(runs: &Path) -> (Store, RunRecord) {
        let mut record = record();
        record.workload.pages = vec![record.workload.pages[0].clone(); 300];
        let mut store = Store::create(runs, started(), &mut record).unwrap();
        for clients in [5, 9] {
            let mut next = iteration(clients, 1);
            next.rate = (clients == 9).then(|| "1k..2k/1m".parse().unwrap());
            next.measured.pages = measured_pages();
            record.iterations.push(next);
            store.append(&mut record).unwrap();
        }
        (store, record)
    }

    fn finished(runs: &Path) -> (PathBuf, RunRecord) {
        let (store, mut record) = run(runs);
        record.state = RunState::Complete;
        (store.finish(&mut record, &[]).unwrap(), record)
    }

    #[test]
    fn rows_leave_memory_and_come_back_one_iteration_at_a_time() {
        let runs = tempfile::tempdir().unwrap();
        let (path, record) = finished(runs.path());
        let loaded = Store::load(&path).unwrap();
        assert_eq!(loaded, record);
        let mut wanted = by_hits(&measured_pages());
        assert_eq!((wanted.len(), wanted[0].page, wanted[59].page, wanted[60].page), (240, 4, 299, 3));
        // The record as it was measured reads from the renamed directory, too.
        for record in [&loaded, &record] {
            for run in &record.iterations {
                assert_eq!(run.measured.pages, []);
                assert_eq!(run.pages_at.unwrap().rows, 240);
                assert_eq!(record.page_rows(run, 60).unwrap(), wanted[..60]);
            }
        }
        wanted.sort_by_key(|row| row.page);
        assert_eq!(loaded.page_rows(&loaded.iterations[1], usize::MAX).unwrap(), wanted);
        let sum = |page: usize| 2 * measured_pages()[page].time_ns;
        assert!((0..300).all(|page| loaded.page_totals()[page].time_ns == sum(page)));
    }

    #[test]
    fn other_programs_read_one_table() {
        let runs = tempfile::tempdir().unwrap();
        let (path, _) = finished(runs.path());
        let mut text = String::new();
        MultiGzDecoder::new(File::open(path.join(PAGE_ROWS)).unwrap()).read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 240);
        assert_eq!(lines[0], format!("clients,rate,iteration,{COLUMNS}"));
        assert_eq!(lines[1], "5,,1,4,4,0,4007,0,0,0,0,0,0,0,0,0,18446744073709551611,0,0,0,,0,,0,,0,0,,0,0");
        assert_eq!(
            lines[241],
            "9,1000..2000/1m,1,4,4,0,4007,0,0,0,0,0,0,0,0,0,18446744073709551611,0,0,0,,0,,0,,0,0,,0,0"
        );
        let totals = fs::read_to_string(path.join(PAGES)).unwrap();
        assert_eq!(
            totals.lines().nth(4),
            Some("4,8,0,8014,0,0,0,0,0,0,0,0,0,18446744073709551615,0,0,0,,0,,0,,0,0,,0,0")
        );
    }

    #[test]
    fn a_flipped_byte_is_found_and_named() {
        let runs = tempfile::tempdir().unwrap();
        let (path, _) = finished(runs.path());
        for name in [PAGE_ROWS, PAGES] {
            let good = fs::read(path.join(name)).unwrap();
            let mut bad = good.clone();
            bad[good.len() / 2] ^= 1;
            fs::write(path.join(name), bad).unwrap();
            let damage = Store::check(&path).unwrap().damage;
            assert_eq!(damage.iter().map(|one| one.file.as_str()).collect::<Vec<_>>(), [name]);
            fs::write(path.join(name), good).unwrap();
        }
        let file = path.join(PAGE_ROWS);
        let mut bytes = fs::read(&file).unwrap();
        let record = Store::load(&path).unwrap();
        let place = record.iterations[0].pages_at.unwrap();
        bytes[(place.offset + place.bytes / 2) as usize] ^= 1;
        fs::write(&file, bytes).unwrap();
        let record = Store::load(&path).unwrap();
        let error = record.page_rows(&record.iterations[0], usize::MAX).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: 5 clients, iteration 1, row ", file.display())), "{error}");
        assert!(record.page_rows(&record.iterations[1], usize::MAX).is_ok());
    }

    #[test]
    fn rows_of_another_iteration_are_not_taken_for_its_own() {
        let runs = tempfile::tempdir().unwrap();
        let (path, _) = finished(runs.path());
        let mut record = Store::load(&path).unwrap();
        let refused =
            |record: &RunRecord| record.page_rows(&record.iterations[0], usize::MAX).unwrap_err().to_string();
        let own = record.iterations[0].pages_at;
        record.iterations[0].pages_at = record.iterations[1].pages_at;
        assert!(refused(&record).ends_with("row 1: does not begin with `5,,1,`"), "{}", refused(&record));
        record.iterations[0].pages_at = own.map(|place| RowsPlace { rows: 239, ..place });
        assert!(refused(&record).ends_with("row 240: a surplus row; record.json says there are 239"));
        record.iterations[0].pages_at = own.map(|place| RowsPlace { rows: 241, ..place });
        assert!(refused(&record).ends_with("row 241: the last one; record.json says there are 241"));
    }

    #[test]
    fn a_run_that_was_killed_keeps_the_rows_of_what_was_stored() {
        let runs = tempfile::tempdir().unwrap();
        let (store, record) = run(runs.path());
        // Killed while the third iteration's rows were written.
        let file = store.path().join(PAGE_ROWS);
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend(&member("11,,1,0,1")[..12]);
        fs::write(&file, bytes).unwrap();
        let loaded = Store::load(store.path()).unwrap();
        assert_eq!(loaded, record);
        assert_eq!(loaded.page_rows(&loaded.iterations[1], usize::MAX).unwrap().len(), 240);
    }

    #[test]
    fn invalid_rows_are_refused() {
        let mut totals = vec![PageTotals::default(); 3];
        assert_eq!(read_total(1, COLUMNS, &mut totals), Ok(()));
        let empty = "2,1,0,0,0,0,0,0,0,0,0,0,0,9,0,0,0,,0,,0,,0,0,,0,0";
        assert_eq!(read_total(2, empty, &mut totals), Ok(()));
        assert_eq!((totals[2].hits, totals[2].head_bytes), (1, 9));
        assert!(totals[2].response.is_empty());
        let row = "1,1,0,0,0,2,0,8,5,1,4,4,11,9,0,0,0,4,16,3,34,9,11,202,5,6,61";
        assert_eq!(read_total(3, row, &mut totals), Ok(()));
        assert_eq!(totals[1].response.moments(2, 8).unwrap().max, 5);
        let mut text = String::new();
        push_row(&mut text, &PageRow { page: 1, totals: totals[1] });
        assert_eq!(text.trim_end(), row);
        totals[1] = PageTotals::default();
        for (line, what) in [
            (empty, "page 2 is listed twice"),
            (&empty.replacen('2', "3", 1), "expected a page number below 3"),
            ("1,1,0,0,0,0,0,0,0,0,0,0,0,9,0,0,0", "26 numbers"),
            ("1,1,0,0,0,0,0,0,0,0,0,0,0", "26 numbers"),
            ("1,1,0,0,0,0,0,0,0,0,0,0,0,9,9,9,9,9", "26 numbers"),
            ("1,,0,0,0,0,0,0,0,0,0,0,0,9,9,9,9", "26 numbers"),
            ("1,18446744073709551616,0,0,0,0,0,0,0,0,0,0,0,9,9,9,9", "26 numbers"),
            ("", "26 numbers"),
        ] {
            let error = read_total(2, line, &mut totals).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
        assert!(
            read_total(1, "page,hits", &mut totals).unwrap_err().starts_with("the heading is not `page,")
        );
    }
}
