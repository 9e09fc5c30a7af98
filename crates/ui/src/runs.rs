//! The runs that can be watched: found in the registry, followed by their events, started, stopped, queued.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use webstone_judge::verdict;
use webstone_store::plain_file::{self, Links};

use crate::launch::{Launcher, Order};
use crate::live::{Feed, POINTS_MAX, State};
use crate::registry::{self, Entry, Place};
use crate::usage::{Shares, Usage};
use crate::{pages, stored};

/// How long a process may be gone before its run counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// Bytes of a run's messages that are read for its error.
const OUTPUT_TAIL: u64 = 16 << 10;

/// Most runs that were not started that are kept.
const UNSTARTED_MAX: usize = 5;

/// A run in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Brief {
    pub(crate) id: String,
    pub(crate) name: String,
    command: String,
    pub(crate) state: State,
    started: String,
    watched_in_terminal: bool,
}

/// A run that waits for the one that is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Queued {
    id: u64,
    command: String,
    name: String,
    #[serde(skip)]
    order: Order,
}

/// A run of the queue that was not started when its turn came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unstarted {
    command: String,
    name: String,
    error: String,
}

#[derive(Debug)]
struct Watched {
    place: Place,
    entry: Entry,
    feed: Feed,
    usage: Usage,
    shares: Shares,
    /// When its process was first seen to be gone with nobody saying how it ended.
    gone: Option<Instant>,
    /// Whether all is known of how it ended.
    is_settled: bool,
    /// How often it was told to end.
    stops: u32,
    /// Pages that watch it, and the most at a time.
    pages: (u32, u32),
}

/// All runs that can be watched.
#[derive(Debug)]
pub(crate) struct Runs {
    runs_dir: PathBuf,
    launcher: Launcher,
    watched: BTreeMap<String, Watched>,
    queue: VecDeque<Queued>,
    queued_ever: u64,
    /// The last few, the newest last: nobody waits for the answer, so a page shows them.
    unstarted: VecDeque<Unstarted>,
}

/// The outcome of a request to start a run.
#[derive(Debug)]
pub(crate) enum Started {
    /// It runs.
    Now(String),
    /// It waits for its turn.
    Queued(u64),
    /// Another one is on.
    Busy(Brief),
}

impl Runs {
    /// Of a directory of runs.
    pub(crate) fn new(runs_dir: PathBuf, launcher: Launcher) -> Runs {
        registry::tidy(&runs_dir);
        Runs {
            runs_dir,
            launcher,
            watched: BTreeMap::new(),
            queue: VecDeque::new(),
            queued_ever: 0,
            unstarted: VecDeque::new(),
        }
    }

    /// Finds new runs, and reads what those that are on have reported since. Starts the next of the queue where none is on.
    pub(crate) fn refresh(&mut self) {
        for place in registry::places(&self.runs_dir) {
            let id = place.id();
            if self.watched.contains_key(&id) {
                continue;
            }
            // One that is being made has no entry yet; it has one at the next look.
            let Ok(entry) = place.entry() else { continue };
            let feed = Feed::new(&place.events(), place.is_own());
            let (usage, shares) = (Usage::default(), Shares::default());
            self.watched.insert(
                id,
                Watched {
                    place,
                    entry,
                    feed,
                    usage,
                    shares,
                    gone: None,
                    is_settled: false,
                    stops: 0,
                    pages: (0, 0),
                },
            );
        }
        for run in self.watched.values_mut().filter(|run| !run.is_over()) {
            run.look(&self.runs_dir);
        }
        if self.on().is_none()
            && let Some(next) = self.queue.pop_front()
            && let Err(error) = self.launch(next.order.clone())
        {
            tracing::warn!(%error, name = next.name, "a run of the queue was not started");
            let Queued { command, name, .. } = next;
            self.unstarted.push_back(Unstarted { command, name, error: error.to_string() });
            if self.unstarted.len() > UNSTARTED_MAX {
                self.unstarted.pop_front();
            }
        }
    }

    /// Those that are on, and the last that ended.
    pub(crate) fn briefs(&self) -> Vec<Brief> {
        self.watched.iter().rev().map(|(id, run)| run.brief(id)).collect()
    }

    /// Those that wait.
    pub(crate) fn queue(&self) -> Vec<Queued> {
        self.queue.iter().cloned().collect()
    }

    /// Those whose turn came and that were not started.
    pub(crate) fn unstarted(&self) -> Vec<Unstarted> {
        self.unstarted.iter().cloned().collect()
    }

    /// The run that is on.
    pub(crate) fn on(&self) -> Option<Brief> {
        self.watched.iter().find(|(_, run)| !run.is_over()).map(|(id, run)| run.brief(id))
    }

    /// The processes of the runs that are on.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let on = self.watched.values().filter(|run| !run.is_over());
        on.filter_map(|run| Some(run.entry.process?.id)).collect()
    }

    /// Starts a run, or lets it wait.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(&mut self, order: Order, may_wait: bool) -> io::Result<Started> {
        self.refresh();
        let Some(on) = self.on() else { return Ok(Started::Now(self.launch(order)?)) };
        if !may_wait {
            return Ok(Started::Busy(on));
        }
        self.queued_ever += 1;
        let (command, name) = (order.command.clone(), order.name.clone());
        self.queue.push_back(Queued { id: self.queued_ever, command, name, order });
        Ok(Started::Queued(self.queued_ever))
    }

    /// Takes a run out of the queue; `false` if it is not there.
    pub(crate) fn forget(&mut self, id: u64) -> bool {
        let before = self.queue.len();
        self.queue.retain(|queued| queued.id != id);
        self.queue.len() < before
    }

    /// Tells a run to end: after this level, or at once. `None`: there is no such run.
    pub(crate) fn stop(&mut self, id: &str, at_once: bool) -> Option<io::Result<()>> {
        let run = self.watched.get_mut(id)?;
        // Somebody else's word is not enough to end a process.
        if !run.place.is_own() {
            return Some(Err(io::Error::from(io::ErrorKind::PermissionDenied)));
        }
        let Some(process) = run.entry.process else {
            return Some(Err(io::Error::from(io::ErrorKind::NotFound)));
        };
        // A run that is told to end again may have ended meanwhile.
        if !process.is_alive() {
            return Some(Err(io::Error::from(io::ErrorKind::NotFound)));
        }
        // The first interrupt ends the level, the second stops at once; a third would end the process with nothing kept.
        let wanted = if at_once { 2 } else { 1 };
        while run.stops < wanted {
            if let Err(error) = process.interrupt() {
                return Some(Err(error));
            }
            run.stops += 1;
            if run.stops < wanted {
                // Two signals that are pending at once are one.
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        run.feed.picture.stop();
        Some(Ok(()))
    }

    /// What a page shows when it opens.
    pub(crate) fn snapshot(&self, id: &str) -> Option<Value> {
        let run = self.watched.get(id)?;
        let mut snapshot = serde_json::to_value(run.feed.picture.decimated(POINTS_MAX)).ok()?;
        for (key, value) in [
            ("id", json!(id)),
            ("name", json!(run.entry.name)),
            ("command", json!(run.entry.command)),
            ("command_line", json!(run.entry.command_line)),
            ("watched_in_terminal", json!(run.entry.in_terminal)),
            ("cpu", json!(run.shares)),
        ] {
            snapshot[key] = value;
        }
        if snapshot["started"] == "" {
            snapshot["started"] = json!(run.entry.started);
        }
        Some(snapshot)
    }

    /// What is new since a page was last told; `told` includes it afterwards.
    pub(crate) fn news(&self, id: &str, told: &mut Told) -> Option<Vec<Value>> {
        let run = self.watched.get(id)?;
        let picture = &run.feed.picture;
        let mut news = Vec::new();
        if !told.is_named && picture.is_named() {
            // A page that was opened before the run had begun gets all of it again.
            news.push(json!({ "snapshot": self.snapshot(id)? }));
            *told = self.told(id)?;
            return Some(news);
        }
        let (ended, warnings) = (picture.ended.len(), picture.warnings.len());
        let rows = picture.ended.iter().skip(told.ended);
        news.extend(rows.map(|row| json!({ "ended": row })));
        news.extend(picture.warnings.iter().skip(told.warnings).map(|one| json!({ "warning": one })));
        (told.ended, told.warnings) = (ended, warnings);
        let cells = json!(picture.cells);
        if cells != told.cells {
            news.push(json!({ "cells": cells }));
            told.cells = cells;
        }
        let mut frame = serde_json::to_value(&picture.now).ok()?;
        frame["cpu"] = json!(run.shares);
        if !picture.hosts.is_empty() {
            frame["hosts"] = json!(picture.hosts);
        }
        // A reloaded page has every point, so one that stays open must miss none.
        let mut unseen = picture.points_after(told.points);
        told.points = picture.points_ever();
        let latest = unseen.pop_if(|(step, ..)| *step == picture.now.step());
        news.extend(unseen.iter().map(
            |(step, level, point)| json!({ "frame": { "step": step, "level": level, "point": point } }),
        ));
        frame["point"] = json!(latest.map(|(.., point)| point));
        news.push(json!({ "frame": frame }));
        if let Some(finished) = picture.finished.as_ref().filter(|_| run.is_over()) {
            news.push(json!({ "finished": finished }));
        }
        Some(news)
    }

    /// What a page has been told by a snapshot.
    pub(crate) fn told(&self, id: &str) -> Option<Told> {
        let picture = &self.watched.get(id)?.feed.picture;
        Some(Told {
            ended: picture.ended.len(),
            warnings: picture.warnings.len(),
            cells: json!(picture.cells),
            points: picture.points_ever(),
            is_named: picture.is_named(),
        })
    }

    /// A page begins or ceases to watch a run.
    pub(crate) fn count_page(&mut self, id: &str, is_new: bool) {
        let Some(run) = self.watched.get_mut(id) else { return };
        let (now, most) = run.pages;
        let now = if is_new { now + 1 } else { now.saturating_sub(1) };
        run.pages = (now, most.max(now));
        if now > most
            && !run.is_over()
            && run.place.is_own()
            && let Err(error) = run.place.note_watched(now)
        {
            tracing::warn!(%error, "how many pages watch a run was not noted");
        }
    }

    fn launch(&mut self, order: Order) -> io::Result<String> {
        let place = self.launcher.launch(order)?;
        let id = place.id();
        self.refresh();
        Ok(id)
    }
}

/// What a page was told so far.
#[derive(Debug)]
pub(crate) struct Told {
    ended: usize,
    warnings: usize,
    cells: Value,
    points: usize,
    /// Whether it knows what is measured.
    is_named: bool,
}

impl Watched {
    fn is_over(&self) -> bool {
        self.is_settled
    }

    fn is_alive(&self) -> bool {
        self.entry.process.is_some_and(|process| process.is_alive())
    }

    fn brief(&self, id: &str) -> Brief {
        Brief {
            id: id.to_owned(),
            name: self.entry.name.clone(),
            command: self.entry.command.clone(),
            state: self.feed.picture.now.state,
            started: self.entry.started.clone(),
            watched_in_terminal: self.entry.in_terminal,
        }
    }

    fn look(&mut self, runs_dir: &Path) {
        if self.entry.process.is_none() {
            self.entry = self.place.entry().unwrap_or_else(|_| self.entry.clone());
        }
        // In this order: what a process wrote before it ended is read after it was seen to be gone.
        let is_alive = self.is_alive();
        if let Err(error) = self.feed.follow() {
            tracing::warn!(%error, id = self.place.id(), "the events of a run cannot be read");
        }
        if is_alive {
            self.shares =
                self.entry.process.map_or_else(Shares::default, |process| self.usage.look(process.id));
            return;
        }
        self.shares = Shares::default();
        let end = self.place.process_end();
        // The end of a process is noted a moment after it has gone. The front that started it may be gone itself.
        let is_told = self.entry.in_terminal && self.feed.picture.finished.is_some();
        if end.is_none() && !is_told && self.gone.get_or_insert_with(Instant::now).elapsed() < LOST_AFTER {
            return;
        }
        let code = end.as_ref().and_then(|end| end.code);
        let (state, (message, hint)) = match (code, &end) {
            // 4: ended as planned, with figures that cannot be trusted; 3: a threshold failed. The record says so.
            (Some(0 | 3 | 4), _) => (State::Complete, (None, None)),
            (Some(130 | 143), _) => (State::Interrupted, (None, None)),
            (Some(_), _) => (State::Failed, self.complaint()),
            (None, Some(_)) => (State::Failed, (Some("its process was killed".to_owned()), None)),
            // Nobody here waited for it: its front is gone, or it runs in a terminal. But the run has reported how it ended.
            (None, None) if self.feed.picture.finished.is_some() => (State::Complete, (None, None)),
            (None, None) => (State::Lost, (Some("its process is gone".to_owned()), None)),
        };
        self.feed.picture.end(state, None, message, hint);
        if let Some(finished) = &mut self.feed.picture.finished {
            // That a run ended as planned says nothing about its figures.
            let directory = finished.run().and_then(|run| stored::locate(runs_dir, run));
            let record = directory.and_then(|directory| pages::load(&directory).ok());
            finished.judge(record.map(|record| verdict::of_record(&record).standing));
        }
        self.is_settled = true;
    }

    /// The last complaint that the run printed, and the hint below it.
    fn complaint(&self) -> (Option<String>, Option<String>) {
        let output = plain_file::read_end(&self.place.output(), Links::Refused, OUTPUT_TAIL);
        let text = String::from_utf8_lossy(&output.unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let hint = lines.iter().rposition(|line| line.starts_with("hint: "));
        let message = match hint {
            Some(at) => lines[..at].iter().rposition(|line| line.starts_with("error: ")),
            None => lines.iter().rposition(|line| line.starts_with("error: ")),
        };
        let told = message.map(|at| lines[at].trim_start_matches("error: ").to_owned());
        let last = || lines.iter().rfind(|line| !line.trim().is_empty()).map(|line| (*line).to_owned());
        (told.or_else(last), hint.map(|at| lines[at].trim_start_matches("hint: ").to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::What;

    #[test]
    fn a_run_of_the_queue_that_cannot_be_started_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let runs_dir = directory.path().to_owned();
        let launcher = Launcher::start("/nonexistent".into(), runs_dir.clone()).unwrap();
        let mut runs = Runs::new(runs_dir, launcher);
        for id in 0..UNSTARTED_MAX as u64 + 2 {
            let (command, name) = ("run".to_owned(), format!("night {id}"));
            let what = What::Testbed(String::new());
            let order = Order { command: command.clone(), name: name.clone(), what };
            runs.queue.push_back(Queued { id, command, name, order });
            runs.refresh();
        }
        assert_eq!(runs.queue(), []);
        let told = runs.unstarted();
        let last = told.last().unwrap();
        assert_eq!(
            (told.len(), last.name.as_str(), last.error.is_empty()),
            (UNSTARTED_MAX, "night 6", false)
        );
    }
}
