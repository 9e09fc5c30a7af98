//! `--record-all FILE`: the instants of every transaction, one line each (WebStone's -R). Tab-separated text that any
//! tool reads; instants are nanoseconds since the iteration's window opened, negative before it; `-` is an instant
//! that a transaction does not have.
//!
//! The engine hands over batches through a bounded channel. They are always taken out of it, even when the disk is
//! full: a writer that stopped would stop the load with it. The first error is kept and told after the level.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use webstone_engine::Transaction;

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

const CREATE: &str = "create";
const WRITE: &str = "write";

/// The operating system's words without its number, and what became of the file.
fn told(source: &io::Error, action: &str) -> String {
    let text = source.to_string();
    let words = text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words);
    let rest = if action == WRITE { "; the transactions recorded end there" } else { "" };
    format!("{words}{rest}")
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
    /// The file of an earlier round, to be continued.
    pub(crate) fn go_on(path: &Path) -> Result<RecordAll, RecordAllError> {
        let failed = |source| RecordAllError { action: CREATE, path: path.to_owned(), source };
        let file = File::options().append(true).create(true).open(path).map_err(failed)?;
        Ok(RecordAll { path: path.to_owned(), writer: BufWriter::with_capacity(1 << 20, file), error: None })
    }
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
        let rate = step.rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string());
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
