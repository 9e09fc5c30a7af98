//! The access log in Common Log Format (as NCSA httpd and Apache write it), in UTC.
//!
//! Threads gather lines in memory and hand them over in batches; one writer thread owns the file. A slow disk
//! therefore never stops an event loop: when [`BATCHES`] batches wait for the writer, a thread keeps up to
//! [`KEPT_BYTES`] more and then drops lines, which are counted.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::ServeError;
use crate::exchange::LogLine;
use crate::options;

/// How often each thread hands over what it has gathered; lines reach the file well within a second.
pub(crate) const HAND_OVER_EVERY: Duration = Duration::from_millis(250);
/// Size at which a batch is handed over at once.
const BATCH_BYTES: usize = 32 * 1024;
/// Batches that may wait for the writer.
const BATCHES: usize = 64;
/// What a thread keeps while the writer lags.
const KEPT_BYTES: usize = 256 * 1024;

/// Lines of text, with their number.
#[derive(Debug, Default)]
struct Batch {
    text: String,
    lines: u64,
}

/// The writer thread of a log file.
#[derive(Debug)]
pub(crate) struct LogWriter {
    sender: SyncSender<Batch>,
    thread: JoinHandle<Option<String>>,
}

impl LogWriter {
    /// Opens the file for appending and starts its writer.
    pub(crate) fn open(path: &str, dropped: &Arc<AtomicU64>, cpus: &[u32]) -> Result<LogWriter, ServeError> {
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
            let hint = "name a file in an existing, writable directory";
            ServeError::option("--access-log", path, &error.to_string(), hint)
        })?;
        let (sender, receiver) = sync_channel(BATCHES);
        let (dropped, cpus, path) = (Arc::clone(dropped), cpus.to_vec(), path.to_owned());
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                // Errors are ignored: the log works on any CPU.
                let _ = options::pin(&cpus);
                write_batches(file, &path, &receiver, &dropped)
            })
            .map_err(|error| ServeError::system("starting the access log's thread", &error))?;
        Ok(LogWriter { sender, thread })
    }

    /// The end that one serving thread writes to.
    pub(crate) fn thread_log(&self, dropped: &Arc<AtomicU64>) -> ThreadLog {
        ThreadLog {
            gathered: RefCell::default(),
            sender: Some(self.sender.clone()),
            dropped: Arc::clone(dropped),
            clock: RefCell::default(),
        }
    }

    /// Waits until everything handed over is written; all threads' ends must be gone. The first error, if any.
    pub(crate) fn finish(self) -> Option<String> {
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Some("the access log's thread panicked".to_owned()))
    }
}

fn write_batches(
    mut file: File,
    path: &str,
    batches: &Receiver<Batch>,
    dropped: &AtomicU64,
) -> Option<String> {
    let mut first_error = None;
    for batch in batches {
        // Written straight to the file: a batch is the buffer.
        if let Err(error) = file.write_all(batch.text.as_bytes()) {
            dropped.fetch_add(batch.lines, Ordering::Relaxed);
            first_error.get_or_insert_with(|| format!("--access-log {path}: {error}"));
        }
    }
    first_error
}

/// One serving thread's end of the log.
#[derive(Debug)]
pub(crate) struct ThreadLog {
    gathered: RefCell<Batch>,
    sender: Option<SyncSender<Batch>>,
    dropped: Arc<AtomicU64>,
    clock: RefCell<Clock>,
}

impl ThreadLog {
    /// A log that takes nothing.
    pub(crate) fn off() -> ThreadLog {
        ThreadLog {
            gathered: RefCell::default(),
            sender: None,
            dropped: Arc::default(),
            clock: RefCell::default(),
        }
    }

    /// Whether lines are wanted.
    pub(crate) fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    /// Adds one line.
    pub(crate) fn write(&self, line: &LogLine, status: u16, body_bytes: u64) {
        let mut batch = self.gathered.borrow_mut();
        if batch.text.len() >= KEPT_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.clock.borrow_mut().advance(SystemTime::now());
        format_line(&mut batch.text, line, &self.clock.borrow().text, status, body_bytes);
        batch.lines += 1;
        let full = batch.text.len() >= BATCH_BYTES;
        drop(batch);
        if full {
            self.hand_over();
        }
    }

    /// Gives the gathered lines to the writer, unless it lags.
    pub(crate) fn hand_over(&self) {
        let Some(sender) = &self.sender else { return };
        let batch = self.gathered.take();
        if batch.lines > 0
            && let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = sender.try_send(batch)
        {
            self.gathered.replace(batch);
        }
    }
}

impl Drop for ThreadLog {
    /// At shutdown nothing else has to run on this thread, so it may wait for the writer.
    fn drop(&mut self) {
        let batch = self.gathered.take();
        if let (Some(sender), 1..) = (&self.sender, batch.lines)
            && let Err(lost) = sender.send(batch)
        {
            self.dropped.fetch_add(lost.0.lines, Ordering::Relaxed);
        }
    }
}

/// The time in Common Log Format, rewritten once a second.
#[derive(Debug, Default)]
struct Clock {
    second: u64,
    text: String,
}

impl Clock {
    fn advance(&mut self, now: SystemTime) {
        let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if second != self.second || self.text.is_empty() {
            self.second = second;
            // An HTTP date has fixed columns: `Sun, 06 Nov 1994 08:49:37 GMT`.
            let date = httpdate::fmt_http_date(now);
            self.text = format!("{}/{}/{}:{} +0000", &date[5..7], &date[8..11], &date[12..16], &date[17..25]);
        }
    }
}

fn format_line(text: &mut String, line: &LogLine, time: &str, status: u16, body_bytes: u64) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{} - - [{time}] \"{} ", line.client, line.method);
    escape(text, line.uri.path_and_query().map_or("*", |path| path.as_str()));
    let _ = write!(text, " {:?}\" {status} ", line.version);
    match body_bytes {
        0 => text.push('-'),
        bytes => {
            let _ = write!(text, "{bytes}");
        }
    }
    text.push('\n');
}

/// A request must not be able to end its field or its line.
fn escape(text: &mut String, part: &str) {
    for c in part.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(text, "\\x{:02x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::{Method, Version};

    fn line(path: &str) -> LogLine {
        LogLine {
            client: "192.0.2.1".into(),
            method: Method::GET,
            uri: path.parse().unwrap(),
            version: Version::HTTP_10,
        }
    }

    #[test]
    fn a_line_is_common_log_format() {
        let mut clock = Clock::default();
        clock.advance(UNIX_EPOCH + Duration::from_secs(971_211_336));
        let mut text = String::new();
        format_line(&mut text, &line("/a.html?x=1"), &clock.text, 200, 2326);
        format_line(&mut text, &line("/none"), &clock.text, 304, 0);
        assert_eq!(
            text,
            "192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] \"GET /a.html?x=1 HTTP/1.0\" 200 2326\n\
             192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] \"GET /none HTTP/1.0\" 304 -\n"
        );
    }

    #[test]
    fn a_request_cannot_end_its_field() {
        let mut text = String::new();
        escape(&mut text, "/a\"b\\c\nd");
        assert_eq!(text, "/a\\\"b\\\\c\\x0ad");
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = LogWriter::open("/dev/full", &dropped, &[]).unwrap();
        let log = writer.thread_log(&dropped);
        for _ in 0..1000 {
            log.write(&line("/x"), 200, 1);
        }
        drop(log);
        let error = writer.finish().unwrap();
        assert!(error.contains("/dev/full") && error.contains("space"), "{error}");
        assert_eq!(dropped.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn a_writer_that_hangs_costs_lines_and_no_time() {
        let dropped = Arc::new(AtomicU64::new(0));
        let (sender, receiver) = sync_channel(BATCHES);
        let mut log = ThreadLog::off();
        (log.sender, log.dropped) = (Some(sender), Arc::clone(&dropped));
        let lines = 100_000_u64;
        for _ in 0..lines {
            log.write(&line("/some/path"), 200, 1);
        }
        let waiting: u64 = receiver.try_iter().map(|batch| batch.lines).sum();
        let kept = log.gathered.borrow().lines;
        assert!(dropped.load(Ordering::Relaxed) > 0);
        assert_eq!(waiting + kept + dropped.load(Ordering::Relaxed), lines);
    }
}
