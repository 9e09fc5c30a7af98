//! The course of one level that several hosts make together, as the controller decides it: no clock, no process, no stream, so
//! that a test can play a thousand hosts. In come instants and what hosts said; out comes what they are to be told.
//!
//! A level needs every host that has a part in it. One that is lost makes the timed run void, whatever the others measured; they
//! are told to end, and what they have is kept.

use std::time::Duration;

use webstone_lab::agent::LEASE;
use webstone_lab::agent::load::LoadAnswer;

/// How long hosts may take to set up their workers.
const ARM_PATIENCE: Duration = Duration::from_secs(60);
/// How long a host may take to get warm beyond the warm-up: it waits 20 s for answers of clients that starve.
const WARM_PATIENCE: Duration = Duration::from_secs(40);
/// How long after its level must be over a host's result may come.
const RESULT_PATIENCE: Duration = Duration::from_secs(30);
/// How far ahead hosts are told an instant: the way there, and a host that is slow to read. Virtual machines stand still for half a second
/// now and then, and one that hears of it too late is lost to the level.
const AHEAD: Duration = Duration::from_secs(1);

/// Durations of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    /// The longest that requests which are under way may take after the window.
    pub(super) drain: Duration,
}

/// What a host is to be told. Instants are on the controller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    Go(u64),
    Open(u64),
    End,
    Abort,
}

/// Where a host stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// It has no part.
    Absent,
    Arming,
    Armed,
    Warm,
    Ended,
    Lost,
}

/// Where the level stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Hosts set up their workers.
    Arming,
    /// They were told when to begin.
    Warming,
    /// They were told when to open.
    Opened,
    /// All have ended, or are lost.
    Done,
}

/// The level.
#[derive(Debug)]
pub(super) struct LevelCourse {
    hosts: Vec<Host>,
    /// When each host was last heard.
    heard_ns: Vec<u64>,
    times: Times,
    stage: Stage,
    /// When the stage must be over, at the latest.
    until_ns: u64,
    go_ns: Option<u64>,
    open_ns: Option<u64>,
    is_ending: bool,
    is_aborting: bool,
    /// The first that was lost, and how.
    lost: Option<(usize, String)>,
}

impl LevelCourse {
    /// Hosts have just been told to arm; `has_part` says which have.
    pub(super) fn new(has_part: &[bool], times: Times, now_ns: u64) -> LevelCourse {
        LevelCourse {
            hosts: has_part.iter().map(|has| if *has { Host::Arming } else { Host::Absent }).collect(),
            heard_ns: vec![now_ns; has_part.len()],
            times,
            stage: Stage::Arming,
            until_ns: later(now_ns, ARM_PATIENCE),
            go_ns: None,
            open_ns: None,
            is_ending: false,
            is_aborting: false,
            lost: None,
        }
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// When the load begins, once that is decided.
    pub(super) fn go_ns(&self) -> Option<u64> {
        self.go_ns
    }

    /// When the window opens, once that is decided.
    pub(super) fn open_ns(&self) -> Option<u64> {
        self.open_ns
    }

    /// When the window closes, once that is decided; earlier where it was ended.
    pub(super) fn close_ns(&self) -> Option<u64> {
        Some(later(self.open_ns?, self.times.duration))
    }

    /// Who was lost first, and how.
    pub(super) fn lost(&self) -> Option<&(usize, String)> {
        self.lost.as_ref()
    }

    /// A message that belongs to no level came from a host: it is alive.
    pub(super) fn heard(&mut self, host: usize, now_ns: u64) {
        self.heard_ns[host] = self.heard_ns[host].max(now_ns);
    }

    /// A host said something of this level.
    pub(super) fn said(&mut self, host: usize, answer: &LoadAnswer, now_ns: u64) -> Vec<(usize, Tell)> {
        self.heard(host, now_ns);
        match (answer, &self.hosts[host]) {
            (_, Host::Absent | Host::Lost | Host::Ended) => return Vec::new(),
            (LoadAnswer::Armed, Host::Arming) => self.hosts[host] = Host::Armed,
            (LoadAnswer::Warm, Host::Armed) if self.go_ns.is_some() => self.hosts[host] = Host::Warm,
            (LoadAnswer::Beat(_) | LoadAnswer::Slice(_), _) => {}
            (LoadAnswer::Ended(ended), _) => {
                // Nobody ends before the window has, unless it was told to.
                let is_early = ended.opened_ns == 0 && !self.is_ending;
                match is_early {
                    true => return self.lose(host, "ended before its window opened".to_owned(), now_ns),
                    false => self.hosts[host] = Host::Ended,
                }
            }
            (LoadAnswer::Late(by_ns), _) => {
                let how = format!("was told an instant {:.0?} too late", Duration::from_nanos(*by_ns));
                return self.lose(host, how, now_ns);
            }
            (LoadAnswer::Failed(why), _) => return self.lose(host, format!("failed: {why}"), now_ns),
            (other, _) => {
                let other: String = format!("{other:?}").chars().take(40).collect();
                return self.lose(host, format!("broke the protocol: it said {other}"), now_ns);
            }
        }
        self.go_on(now_ns)
    }

    /// A host is gone, or its result cannot be read.
    pub(super) fn lose(&mut self, host: usize, how: String, now_ns: u64) -> Vec<(usize, Tell)> {
        if matches!(self.hosts[host], Host::Absent | Host::Lost) {
            return Vec::new();
        }
        // Its result is complete; that it is gone afterwards concerns the next level.
        if self.hosts[host] == Host::Ended && self.stage != Stage::Done && how.starts_with("ended") {
            return Vec::new();
        }
        self.hosts[host] = Host::Lost;
        self.lost.get_or_insert((host, how));
        let tell = match self.open_ns {
            Some(_) => self.end(now_ns),
            None => self.abort(now_ns),
        };
        [tell, self.go_on(now_ns)].concat()
    }

    /// The window shall close now.
    pub(super) fn end(&mut self, now_ns: u64) -> Vec<(usize, Tell)> {
        if self.is_ending {
            return Vec::new();
        }
        self.is_ending = true;
        self.until_ns = later(later(now_ns, self.times.drain), RESULT_PATIENCE);
        self.to_all(Tell::End)
    }

    /// Everything shall end at once.
    pub(super) fn abort(&mut self, now_ns: u64) -> Vec<(usize, Tell)> {
        if self.is_aborting {
            return Vec::new();
        }
        (self.is_ending, self.is_aborting) = (true, true);
        self.until_ns = later(now_ns, RESULT_PATIENCE);
        self.to_all(Tell::Abort)
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now_ns: u64) -> Vec<(usize, Tell)> {
        let mut tell = Vec::new();
        for host in 0..self.hosts.len() {
            if !self.is_awaited(host) {
                continue;
            }
            let silent = Duration::from_nanos(now_ns.saturating_sub(self.heard_ns[host]));
            if silent > LEASE {
                tell.extend(self.lose(host, format!("was silent for {} s", silent.as_secs()), now_ns));
            } else if now_ns > self.until_ns {
                let how = match (self.stage, &self.hosts[host]) {
                    (Stage::Arming, Host::Arming) => "did not set up its workers in time",
                    (Stage::Warming, Host::Armed) if !self.is_ending => "did not get warm in time",
                    (Stage::Arming | Stage::Warming, _) if !self.is_ending => continue,
                    _ => "did not send its result in time",
                };
                tell.extend(self.lose(host, how.to_owned(), now_ns));
            }
        }
        tell
    }

    /// Whether more has to come from a host.
    fn is_awaited(&self, host: usize) -> bool {
        !matches!(self.hosts[host], Host::Absent | Host::Ended | Host::Lost)
    }

    fn to_all(&self, tell: Tell) -> Vec<(usize, Tell)> {
        (0..self.hosts.len()).filter(|host| self.is_awaited(*host)).map(|host| (host, tell)).collect()
    }

    /// The next step, where all are ready for it.
    fn go_on(&mut self, now_ns: u64) -> Vec<(usize, Tell)> {
        if !(0..self.hosts.len()).any(|host| self.is_awaited(host)) {
            self.stage = Stage::Done;
            return Vec::new();
        }
        if self.is_ending {
            return Vec::new();
        }
        let all = |state: &Host| self.hosts.iter().all(|host| host == state || *host == Host::Absent);
        match self.stage {
            Stage::Arming if all(&Host::Armed) => {
                let at_ns = later(now_ns, AHEAD);
                (self.stage, self.go_ns) = (Stage::Warming, Some(at_ns));
                self.until_ns = later(later(at_ns, self.times.warmup), WARM_PATIENCE);
                if self.times.warmup.is_zero() {
                    // The window opens with the load.
                    self.opens(at_ns);
                }
                self.to_all(Tell::Go(at_ns))
            }
            Stage::Warming if all(&Host::Warm) => {
                let at_ns = later(now_ns, AHEAD);
                self.opens(at_ns);
                self.to_all(Tell::Open(at_ns))
            }
            _ => Vec::new(),
        }
    }

    fn opens(&mut self, at_ns: u64) {
        (self.stage, self.open_ns) = (Stage::Opened, Some(at_ns));
        self.until_ns = later(later(later(at_ns, self.times.duration), self.times.drain), RESULT_PATIENCE);
    }
}

fn later(ns: u64, by: Duration) -> u64 {
    ns.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
