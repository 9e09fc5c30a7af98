//! `--events`: events of a run as lines of JSON to a file or an open descriptor. A thread writes them, so that a slow
//! reader delays nothing: if it is late, ticks are left out, and everything else is queued.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use webstone_model::event::{EVENTS_SCHEMA, Event, EventLine};
use webstone_runner::observer::Observer;
use webstone_store::clock;

use crate::console;
use crate::failure::Failure;

/// Number of queued events from which on ticks are left out.
const BEHIND: usize = 16;
/// How long the end of the program waits for a reader.
const PATIENCE: Duration = Duration::from_secs(1);

/// An observer that writes lines.
#[derive(Debug)]
pub(crate) struct EventLines {
    lines: Option<Sender<EventLine>>,
    waiting: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl EventLines {
    /// Opens the descriptor or file that `--events` names.
    pub(crate) fn open(named: &str) -> Result<EventLines, Failure> {
        let file = match named.parse::<u32>() {
            // Opened again by its name, so that the parent's descriptor does not change.
            Ok(number) => OpenOptions::new().append(true).open(format!("/proc/self/fd/{number}")),
            Err(_) => File::create(named),
        };
        let file = file.map_err(|error| {
            Failure::usage(format!("--events {named}: cannot be written to: {error}"))
                .hint("name a file, or an open file descriptor: webstone run --events 3 3>events.ndjson")
        })?;
        let (lines, to_write) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&waiting);
        let thread = std::thread::spawn(move || write(file, &to_write, &counted));
        Ok(EventLines { lines: Some(lines), waiting, thread })
    }
}

fn write(mut file: File, lines: &Receiver<EventLine>, waiting: &AtomicUsize) {
    for line in lines {
        let written = serde_json::to_vec(&line).map_err(std::io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            file.write_all(&bytes)
        });
        waiting.fetch_sub(1, Relaxed);
        if let Err(error) = written {
            console::complain(format!("warning: --events: no more events are written: {error}"));
            return;
        }
    }
}

impl Observer for EventLines {
    fn event(&mut self, event: &Event) {
        let is_tick = matches!(event, Event::Tick { .. } | Event::Hosts { .. });
        if is_tick && self.waiting.load(Relaxed) >= BEHIND {
            return;
        }
        let time = clock::rfc3339(SystemTime::now());
        if let Some(lines) = &self.lines {
            self.waiting.fetch_add(1, Relaxed);
            // If the writer has given up, it has reported why.
            let _ = lines.send(EventLine { schema: EVENTS_SCHEMA, time, event: event.clone() });
        }
    }
}

impl Drop for EventLines {
    /// Waits until everything is written, but not for a reader that no longer reads.
    fn drop(&mut self) {
        self.lines = None;
        let began = Instant::now();
        while !self.thread.is_finished() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Several observers as one.
pub(crate) struct All<'a>(pub(crate) Vec<&'a mut dyn Observer>);

impl Observer for All<'_> {
    fn event(&mut self, event: &Event) {
        self.0.iter_mut().for_each(|observer| observer.event(event));
    }
}
