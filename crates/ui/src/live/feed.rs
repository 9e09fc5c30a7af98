//! The file of a run's events, followed while it grows.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use webstone_measure::strict;
use webstone_model::event::EventLine;
use webstone_store::plain_file::{self, Links};

use super::state::Picture;

/// Points of a chart that a page is given when it opens.
pub(crate) const POINTS_MAX: usize = 600;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Most bytes read at a look: as many as a run writes in a day. The rest is read at the next look.
const LOOK_MAX: usize = 64 << 20;
/// Longest line. A run's specification may hold a body of some megabytes.
const LINE_MAX: usize = 32 << 20;

/// What was read of a run's events.
#[derive(Debug)]
pub(crate) struct Feed {
    path: PathBuf,
    file: Option<File>,
    /// Bytes that may still be read: of this user's run all, of somebody else's as many as at one look.
    left: usize,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
    /// What the events come to.
    pub(crate) picture: Picture,
}

impl Feed {
    /// Follows a file that need not exist yet.
    pub(crate) fn new(path: &Path, is_own: bool) -> Feed {
        let left = if is_own { usize::MAX } else { LOOK_MAX };
        Feed { path: path.to_owned(), file: None, left, rest: Vec::new(), picture: Picture::default() }
    }

    /// Reads what was added.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub(crate) fn follow(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => match plain_file::open(&self.path, Links::Refused) {
                Ok(file) => self.file.insert(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        let mut chunk = vec![0; CHUNK];
        for _ in 0..LOOK_MAX / CHUNK {
            let read = file.read(&mut chunk)?.min(self.left);
            self.left -= read;
            if read == 0 {
                return Ok(());
            }
            let mut bytes = &chunk[..read];
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                self.rest.extend_from_slice(&bytes[..end]);
                bytes = &bytes[end + 1..];
                // A line of a later version may not be understood here: it is skipped.
                if let Ok(line) = strict::json::<EventLine>(&self.rest) {
                    self.picture.add(line);
                }
                self.rest.clear();
            }
            if self.rest.len() + bytes.len() <= LINE_MAX {
                self.rest.extend_from_slice(bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::{Value, json};
    use webstone_model::event::{EVENTS_SCHEMA, Ended, Event, Live, LivePercentiles, Phase, Position};
    use webstone_model::record::{IterationRecord, RunState, TargetRecord};

    use super::super::State;
    use super::*;

    fn line(second: u32, event: Event) -> String {
        let time = format!("2026-01-01T00:00:{second:02}.000Z");
        serde_json::to_string(&EventLine { schema: EVENTS_SCHEMA, time, event }).unwrap() + "\n"
    }

    fn at(step: usize) -> Position {
        Position { step, steps: 2, clients: 20, rate: None, iteration: 1 }
    }

    fn tick(second: u64) -> Event {
        let response =
            Some(LivePercentiles { count: 100 * second, p99_ns: 4_000_000, ..LivePercentiles::default() });
        let live = Live {
            elapsed_ns: second * 1_000_000_000,
            requests: 100 * second,
            response_ns: second * 100_000_000,
            response,
            ..Live::default()
        };
        Event::Tick { at: at(1), phase: Phase::Measuring, live }
    }

    fn a_run() -> Vec<String> {
        let started = Event::RunStarted {
            id: "r".to_owned(),
            path: None,
            target: Box::new(TargetRecord { url: "http://a/".to_owned(), ..TargetRecord::default() }),
            workload: "standard".to_owned(),
            spec: Box::default(),
            steps: 2,
            planned_ns: Some(20_000_000_000),
            paced: false,
            dealt: None,
        };
        let mut lines = vec![
            line(0, Event::Preparing { what: "starting the embedded server".to_owned() }),
            line(1, started),
            line(1, Event::LevelStarted { at: at(1) }),
        ];
        lines.extend((1..=8).map(|second| line(1 + second as u32, tick(second))));
        let level = Box::new(Ended::of_iteration(&IterationRecord::default()));
        lines.push(line(11, Event::LevelEnded { at: at(1), level }));
        lines.push(line(11, Event::Warning { text: "<b>slow</b>".to_owned() }));
        lines
    }

    fn seen(feed: &Feed) -> Value {
        serde_json::to_value(&feed.picture).unwrap()
    }

    #[test]
    fn the_same_events_give_the_same_picture_in_whatever_pieces_they_come() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.ndjson");
        let text: String = a_run().concat();
        let mut growing = Feed::new(&path, true);
        growing.follow().unwrap();
        assert_eq!(seen(&growing)["state"], json!("preparing"), "nothing is there yet");
        for piece in text.as_bytes().chunks(37) {
            let mut file = File::options().append(true).create(true).open(&path).unwrap();
            file.write_all(piece).unwrap();
            growing.follow().unwrap();
        }
        let mut later = Feed::new(&path, true);
        later.follow().unwrap();
        assert_eq!(seen(&growing), seen(&later));
        let picture = seen(&later);
        assert_eq!(picture["level"], json!("20 clients"));
        assert_eq!(picture["levels"][0]["points"].as_array().unwrap().len(), 8);
        assert_eq!(picture["levels"][0]["points"][3], json!([4000, 100.0, 4.0, 1.0, 0.0, null, null]));
        assert_eq!(picture["left_ms"], json!(10_000), "one step of ten seconds is to come");
        assert_eq!(picture["warnings"][0]["text"], json!("<b>slow</b>"));
    }

    #[test]
    fn a_run_ends_as_it_says_or_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.ndjson");
        let ended = Event::Finished { state: RunState::Complete, path: Some("runs/a-run".to_owned()) };
        std::fs::write(&path, a_run().concat() + "no event\n" + &line(12, ended)).unwrap();
        let mut feed = Feed::new(&path, true);
        feed.follow().unwrap();
        assert_eq!(seen(&feed)["finished"]["run"], json!("a-run"));
        feed.picture.end(State::Lost, None, Some("exit code 4".to_owned()), None);
        assert_eq!(seen(&feed)["state"], json!("complete"), "what it said itself counts");
        std::fs::write(&path, a_run().concat()).unwrap();
        let mut feed = Feed::new(&path, true);
        feed.follow().unwrap();
        feed.picture.end(State::Lost, None, None, None);
        assert_eq!(seen(&feed)["state"], json!("lost"));
        assert_eq!(seen(&feed)["left_ms"], json!(0));
    }

    #[test]
    fn a_series_that_ended_leads_to_its_report() {
        let mut feed = Feed::new(Path::new("/nonexistent"), true);
        let turn =
            Event::Turn { cell: "nginx".to_owned(), round: 1, rounds: 1, turns_left: 1, time_left_ns: None };
        let cell = "runs/a-series/a-cell.partial";
        let with_path = |text: String| {
            let mut event: Value = serde_json::from_str(&text).unwrap();
            if event["event"] == "run-started" {
                event["path"] = json!(cell);
            }
            event.to_string()
        };
        let mut events = vec![line(0, turn)];
        events.extend(a_run().into_iter().map(with_path));
        let ended = Event::Finished { state: RunState::Partial, path: Some(cell.to_owned()) };
        events.push(line(12, ended));
        for text in events {
            feed.picture.add(serde_json::from_str(&text).unwrap());
        }
        assert_eq!(seen(&feed)["finished"], Value::Null, "a cell's part of a round is no end");
        feed.picture.end(State::Complete, None, None, None);
        let seen = seen(&feed);
        assert_eq!(
            (&seen["finished"]["run"], &seen["cells"][0]["state"]),
            (&json!("a-series"), &json!("done")),
            "{seen}"
        );
    }

    #[test]
    fn a_page_gets_no_more_points_than_it_draws() {
        let mut feed = Feed::new(Path::new("/nonexistent"), true);
        for second in 1..=2000 {
            feed.picture.add(serde_json::from_str(&line(1, tick(second))).unwrap());
        }
        let few = serde_json::to_value(feed.picture.decimated(POINTS_MAX)).unwrap();
        assert!(few["levels"][0]["points"].as_array().unwrap().len() <= POINTS_MAX);
    }
}
