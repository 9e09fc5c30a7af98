//! `--record-all FILE`: the instants of every transaction, one line each (WebStone's -R). Tab-separated text that any
//! tool reads; instants are nanoseconds since the iteration's window opened, negative before it; `-` is an instant
//! that a transaction does not have.
//!
//! The engine hands over batches through a bounded channel. They are always taken out of it, even when the disk is
//! full: a writer that stopped would stop the load with it. The first error is kept and told after the level.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use webstone_engine::Transaction;
use webstone_measure::rate::RateProfile;
use webstone_model::record::{IterationRecord, RunRecord};
use webstone_store::without_number;

use crate::order::Step;

/// Names of the columns, in order.
pub const COLUMNS: [&str; 17] = [
    "clients",
    "iteration",
    "client",
    "page",
    "file",
    "start_ns",
    "connected_ns",
    "sent_ns",
    "first_byte_ns",
    "headers_done_ns",
    "end_ns",
    "status",
    "head_bytes",
    "body_bytes",
    "error",
    "intended_ns",
    "rate",
];

/// Why transactions are not (all) in the file.
#[derive(Debug, thiserror::Error)]
#[error("--record-all: cannot {action} {}: {}", path.display(), told(source, action))]
pub struct RecordAllError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl RecordAllError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self.source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                "a transaction takes about 120 bytes: free some space, or record a shorter run"
            }
            _ => "name a file that you may write to",
        }
    }
}

/// Bytes that are read at a time to find the last line that is kept.
const BLOCK_BYTES: u64 = 1 << 20;
const CREATE: &str = "create";
const WRITE: &str = "write";

/// The operating system's words without its number, and what became of the file.
fn told(source: &io::Error, action: &str) -> String {
    let rest = if action == WRITE { "; the transactions recorded end there" } else { "" };
    without_number(source) + rest
}

/// The file being written.
#[derive(Debug)]
pub(crate) struct RecordAll<W: Write = BufWriter<File>> {
    path: PathBuf,
    writer: W,
    error: Option<io::Error>,
}

impl RecordAll {
    /// Makes the file, replacing one of the same name, and writes the head.
    pub(crate) fn create(path: &Path) -> Result<RecordAll, RecordAllError> {
        let failed = |source| RecordAllError { action: CREATE, path: path.to_owned(), source };
        let writer = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
        let mut record = RecordAll { path: path.to_owned(), writer, error: None };
        record.head();
        record.checked().map(|()| record)
    }
}

impl RecordAll {
    /// The file of this run's earlier levels, to be continued. A line that was cut off is removed.
    pub(crate) fn append(path: &Path) -> Result<RecordAll, RecordAllError> {
        RecordAll::after(path, &|_| true)
    }

    /// The file of an earlier round, to be continued after the last transaction of `record`: those of a level that was cut off
    /// are removed, because the level is made again.
    pub(crate) fn go_on(path: &Path, record: &RunRecord) -> Result<RecordAll, RecordAllError> {
        let stored: HashSet<Key<String>> = record.iterations.iter().map(key_of).collect();
        let columns = COLUMNS.join("\t");
        RecordAll::after(path, &|line| line == columns || key(line).is_some_and(|key| stored.contains(&key)))
    }

    /// The file after its last line that is kept.
    fn after(path: &Path, is_kept: &dyn Fn(&str) -> bool) -> Result<RecordAll, RecordAllError> {
        let failed = |source| RecordAllError { action: CREATE, path: path.to_owned(), source };
        let file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        let kept = kept_bytes(&file, BLOCK_BYTES, is_kept).map_err(failed)?;
        file.set_len(kept).map_err(failed)?;
        let writer = BufWriter::with_capacity(1 << 20, file);
        let mut record = RecordAll { path: path.to_owned(), writer, error: None };
        if kept == 0 {
            record.head();
        }
        record.checked().map(|()| record)
    }
}

/// Which timed run a line is of: clients, iteration, rate.
type Key<T> = (T, T, T);

fn key_of(run: &IterationRecord) -> Key<String> {
    (run.clients.to_string(), run.iteration.to_string(), rate_column(run.rate))
}

fn key(line: &str) -> Option<Key<String>> {
    let mut columns = line.split('\t');
    let (clients, iteration, rate) = (columns.next()?, columns.next()?, columns.next_back()?);
    Some((clients.to_owned(), iteration.to_owned(), rate.to_owned()))
}

fn rate_column(rate: Option<RateProfile>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string())
}

/// The length of a file without what follows its last line that is kept: read from its end, where little follows it.
fn kept_bytes(file: &File, block_bytes: u64, is_kept: &dyn Fn(&str) -> bool) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(block_bytes);
        block.resize((end - start) as usize, 0);
        file.read_exact_at(&mut block, start)?;
        let mut line_end = block.len();
        while line_end > 0 {
            let is_whole = block[line_end - 1] == b'\n';
            let before = block[..line_end - 1].iter().rposition(|byte| *byte == b'\n');
            let line = before.map_or(0, |newline| newline + 1);
            if before.is_none() && start > 0 && line_end < block.len() {
                // It begins before the block.
                break;
            }
            let text = std::str::from_utf8(&block[line..line_end]).unwrap_or_default();
            if is_whole && is_kept(text.trim_end()) {
                return Ok(start + line_end as u64);
            }
            line_end = line;
        }
        end = start + line_end as u64;
    }
    Ok(0)
}

impl<W: Write> RecordAll<W> {
    fn head(&mut self) {
        let head = format!(
            "# webstone transactions; instants in ns since the window opened; - is none\n{}\n",
            COLUMNS.join("\t")
        );
        self.error = self.writer.write_all(head.as_bytes()).err();
    }

    /// Writes every batch of a level until the engine has dropped its end of the channel.
    pub(crate) fn drain(&mut self, step: Step, batches: Receiver<Vec<Transaction>>) {
        while let Ok(batch) = batches.recv() {
            if self.error.is_none() {
                self.error = self.write_batch(step, &batch).err();
            }
        }
        if self.error.is_none() {
            self.error = self.writer.flush().err();
        }
    }

    /// What went wrong so far.
    pub(crate) fn checked(&mut self) -> Result<(), RecordAllError> {
        match self.error.take() {
            Some(source) => Err(RecordAllError { action: WRITE, path: self.path.clone(), source }),
            None => Ok(()),
        }
    }

    fn write_batch(&mut self, step: Step, batch: &[Transaction]) -> io::Result<()> {
        let rate = rate_column(step.rate);
        for transaction in batch {
            let Transaction { client, page, file, start_ns, end_ns, status, head_bytes, body_bytes, .. } =
                transaction;
            let writer = &mut self.writer;
            write!(writer, "{}\t{}\t{client}\t{page}\t{file}\t{start_ns}", step.clients, step.iteration)?;
            let optional = [
                transaction.connected_ns,
                transaction.sent_ns,
                transaction.first_byte_ns,
                transaction.headers_done_ns,
            ];
            for instant in optional {
                match instant {
                    Some(instant) => write!(writer, "\t{instant}")?,
                    None => writer.write_all(b"\t-")?,
                }
            }
            let error = transaction.error.map_or("-", |class| class.name());
            let intended_ns = transaction.intended_ns;
            writeln!(
                writer,
                "\t{end_ns}\t{status}\t{head_bytes}\t{body_bytes}\t{error}\t{intended_ns}\t{rate}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use webstone_measure::errors::ErrorClass;

    const STEP: Step = Step { clients: 20, rate: None, iteration: 2, arm: None };

    fn transactions() -> Vec<Transaction> {
        let good = Transaction {
            client: 3,
            page: 1,
            file: 2,
            intended_ns: -60,
            start_ns: -50,
            connected_ns: Some(10),
            sent_ns: Some(20),
            first_byte_ns: Some(30),
            headers_done_ns: Some(40),
            end_ns: 50,
            status: 200,
            head_bytes: 100,
            body_bytes: 500,
            error: None,
        };
        let refused = Transaction {
            client: 4,
            start_ns: 7,
            end_ns: 8,
            error: Some(ErrorClass::Refused),
            ..Transaction::default()
        };
        vec![good, refused]
    }

    fn drained<W: Write + Send>(writer: W) -> RecordAll<W> {
        let mut record = RecordAll { path: "x.tsv".into(), writer, error: None };
        record.head();
        let (sender, receiver) = sync_channel(1);
        std::thread::scope(|scope| {
            let record = &mut record;
            scope.spawn(move || record.drain(STEP, receiver));
            // More than the channel holds: a writer that stopped taking would leave this blocked for ever.
            for _ in 0..10 {
                sender.send(transactions()).unwrap();
            }
            drop(sender);
        });
        record
    }

    #[test]
    fn each_transaction_is_a_line_under_the_head() {
        let record = drained(Vec::new());
        let text = String::from_utf8(record.writer).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 22);
        assert_eq!(lines[1].split('\t').collect::<Vec<_>>(), COLUMNS);
        assert_eq!(lines[2], "20\t2\t3\t1\t2\t-50\t10\t20\t30\t40\t50\t200\t100\t500\t-\t-60\t-");
        assert_eq!(lines[3], "20\t2\t4\t0\t0\t7\t-\t-\t-\t-\t8\t0\t0\t0\trefused\t0\t-");
    }

    #[test]
    fn a_host_that_begins_again_continues_its_file_after_the_last_whole_line() {
        let tail = "20\t2\t3\t1";
        let (_directory, path, _) = cut_off(tail);
        let before = std::fs::read_to_string(&path).unwrap();
        let mut record = RecordAll::append(&path).unwrap();
        record.write_batch(Step { iteration: 3, ..STEP }, &transactions()).unwrap();
        record.writer.flush().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let added = text.strip_prefix(before.strip_suffix(tail).unwrap()).expect("whole lines are kept");
        assert_eq!(added.lines().filter(|line| line.starts_with("20\t3\t")).count(), 2, "{added}");
    }

    /// A file of iterations 1 and 2 of a level, the second of which is not in the record.
    fn cut_off(tail: &str) -> (tempfile::TempDir, PathBuf, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("all.tsv");
        let mut record = RecordAll::create(&path).unwrap();
        record.write_batch(Step { iteration: 1, ..STEP }, &transactions()).unwrap();
        record.writer.flush().unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        for _ in 0..50 {
            record.write_batch(STEP, &transactions()).unwrap();
        }
        record.writer.write_all(tail.as_bytes()).unwrap();
        record.writer.flush().unwrap();
        (directory, path, kept)
    }

    #[test]
    fn what_a_cut_off_level_wrote_is_removed_before_it_is_made_again() {
        let run = IterationRecord { clients: 20, iteration: 1, ..IterationRecord::default() };
        let stored = RunRecord { iterations: vec![run], ..RunRecord::default() };
        for tail in ["", "20\t2\t3", "20\t1\t3\t1\t2\t-50", "\u{0}\u{0}"] {
            let (_directory, path, kept) = cut_off(tail);
            let mut record = RecordAll::go_on(&path, &stored).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), kept, "{tail:?}");
            record.write_batch(STEP, &transactions()).unwrap();
            record.writer.flush().unwrap();
            let whole = std::fs::read_to_string(&path).unwrap();
            assert_eq!(whole.lines().count(), kept.lines().count() + 2);
            // Nothing is removed from a file that is whole.
            let mut both = stored.clone();
            both.iterations.push(IterationRecord { iteration: 2, ..both.iterations[0].clone() });
            drop(RecordAll::go_on(&path, &both).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        }
        // Of a record without iterations, the head is kept; a file that is gone gets one.
        let (_directory, path, _) = cut_off("");
        for _ in 0..2 {
            drop(RecordAll::go_on(&path, &RunRecord::default()).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn lines_longer_than_a_block_end_nothing_early() {
        let (_directory, path, kept) = cut_off("20\t2\t3");
        let is_kept = |line: &str| line.starts_with("20\t1\t");
        let file = File::open(&path).unwrap();
        // The longest line has some 80 bytes.
        for block_bytes in [100, 128, 1000, 4096, 1 << 20] {
            assert_eq!(kept_bytes(&file, block_bytes, &is_kept).unwrap(), kept.len() as u64, "{block_bytes}");
        }
    }

    #[test]
    fn a_full_disk_is_told_and_stops_no_load() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = drained(full).checked().unwrap_err();
        assert_eq!(
            error.to_string(),
            "--record-all: cannot write x.tsv: No space left on device; the transactions recorded end there"
        );
        assert!(error.hint().contains("free some space"));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let error = RecordAll::create(Path::new("/nonexistent/t.tsv")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--record-all: cannot create /nonexistent/t.tsv: No such file or directory"
        );
    }
}
