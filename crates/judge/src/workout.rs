//! A stress test of a server: well-behaved clients are measured before, while and after others misbehave, and the server's
//! processes are looked at in between. The questions are those of WASD's WWWRKOUT: does it still serve those who behave,
//! does it leak, does it stay up?

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::statistics::ratio_interval;
use crate::verdict::DISTURBED_PERCENT_MAX;
use webstone_model::record::SoftwareRecord;

webstone_measure::named! {
    /// A way to misbehave. Each is done on a connection of its own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    Misdeed:
    /// The connection is dropped within the request, at a random byte, by turns with FIN and with a reset.
    BreakRequest "break-request",
    /// The connection is dropped within the response, at a random byte, by turns with FIN and with a reset.
    BreakResponse "break-response",
    /// The response is read a few bytes at a time, with pauses.
    SlowReader "slow-reader",
    /// The request is written a byte at a time, with pauses.
    SlowWriter "slow-writer",
    /// The client's half is closed (FIN; over TLS, after close_notify) right after the request. HTTP/1.1 allows it: a whole
    /// answer is due.
    HalfClosed "half-closed",
    /// A header field of 1 MiB.
    OversizedHeader "oversized-header",
    /// Bytes that are not a request by RFC 9112, or not frames by RFC 9113, of a dozen kinds.
    Malformed "malformed",
}

impl Misdeed {
    /// What WWWRKOUT's /BREAK does.
    pub const BREAKS: [Misdeed; 2] = [Misdeed::BreakRequest, Misdeed::BreakResponse];

    /// Why it cannot be done in HTTP/2, where it cannot.
    pub fn not_in_http2(self) -> Option<&'static str> {
        let why = "a client of HTTP/2 that closes its half can no longer let the answer flow (WINDOW_UPDATE), so none is due";
        (self == Misdeed::HalfClosed).then_some(why)
    }
}

impl fmt::Display for Misdeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no misdeed has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a misdeed; write one of {names}", names = Misdeed::ALL.map(Misdeed::name).join(", "))]
pub struct MisdeedError(String);

impl FromStr for Misdeed {
    type Err = MisdeedError;

    fn from_str(text: &str) -> Result<Misdeed, MisdeedError> {
        let found = Misdeed::ALL.into_iter().find(|misdeed| misdeed.name() == text);
        found.ok_or_else(|| MisdeedError(text.to_owned()))
    }
}

/// How servers took a misdeed, connection by connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Connections that were tried.
    pub tried: u64,
    /// Connections that could not be made.
    pub not_connected: u64,
    /// Answered with a status below 400.
    pub answered: u64,
    /// Answered with a status of 400 or above.
    pub rejected: u64,
    /// Closed or reset by the server without an answer; in HTTP/2, or only its stream.
    pub closed: u64,
    /// Dropped by the client: because that was the misdeed, or because no answer came within its patience.
    pub dropped: u64,
}

impl Tally {
    /// Adds another.
    pub fn merge(&mut self, other: &Tally) {
        self.tried += other.tried;
        self.not_connected += other.not_connected;
        self.answered += other.answered;
        self.rejected += other.rejected;
        self.closed += other.closed;
        self.dropped += other.dropped;
    }
}

/// When well-behaved clients were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Alone.
    Before,
    /// Among those that misbehave.
    During,
    /// Alone again.
    After,
}

/// What the well-behaved clients saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Valid responses.
    pub succeeded: u64,
    /// Failed requests.
    pub failed: u64,
    /// Valid responses a second.
    pub request_rate: f64,
    /// The same of each timed run of the phase, where there were several: what tells a slower server from noise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_rates: Vec<f64>,
    /// What others took of the load generator's CPUs before the timed runs, in percent; absent if not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_percent: Option<f64>,
    /// Median response time in seconds.
    pub latency_p50_s: f64,
    /// 99th percentile of the response time in seconds.
    pub latency_p99_s: f64,
    /// Longest response time in seconds.
    pub latency_max_s: f64,
    /// Clients that completed no page.
    pub starved: u64,
    /// Why nothing, or not all, could be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Service {
    /// Failed requests in percent of all; 100 where there was none.
    pub fn failed_percent(&self) -> f64 {
        match self.succeeded + self.failed {
            0 => 100.0,
            all => 100.0 * self.failed as f64 / all as f64,
        }
    }
}

/// The server's processes at a quiet moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerState {
    /// First process of the server and when it started, in ticks since the machine did: another pair is another process.
    pub head: Option<(u32, u64)>,
    /// Processes.
    pub processes: u64,
    /// Threads of all processes.
    pub threads: u64,
    /// Open descriptors of all processes; `None` where not all can be seen.
    pub descriptors: Option<u64>,
    /// Resident memory of all processes in bytes; what they share counts for each.
    pub resident_bytes: u64,
}

/// One phase, with the server's state when it was over and had settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Which.
    pub phase: Phase,
    /// What the well-behaved saw.
    pub service: Service,
    /// How the server took each misdeed.
    pub misdeeds: Vec<(Misdeed, Tally)>,
    /// Its processes afterwards; `None` where they cannot be seen.
    pub state: Option<ServerState>,
}

/// A whole workout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workout {
    /// The server's URL.
    pub target: String,
    /// Its software, where webstone started it.
    pub software: Option<SoftwareRecord>,
    /// Well-behaved clients.
    pub clients: u32,
    /// Connections that misbehave at a time, at most.
    pub offenders: u32,
    /// Whether their number changed all the time.
    pub vary: bool,
    /// What those that misbehave speak: `HTTP/1.1`, `HTTP/2 over TLS`.
    #[serde(default)]
    pub speaks: String,
    /// Misdeeds that were asked for and cannot be done in it, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<(Misdeed, String)>,
    /// Seed of everything random.
    pub seed: u64,
    /// Before, rounds, after.
    pub phases: Vec<PhaseRecord>,
}

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Does it serve the well-behaved while others misbehave?
    Serves,
    /// Does it serve them as before when the others are gone?
    Recovers,
    /// Does it close its files?
    KeepsDescriptors,
    /// Does its memory stay as it is?
    KeepsMemory,
    /// Is it still the same process, and does it answer?
    StaysUp,
}

/// An answer with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What was asked.
    pub question: Question,
    /// Yes, no, or unknown.
    pub is_good: Option<bool>,
    /// The figures that it rests on.
    pub evidence: String,
}

/// Failed requests of the well-behaved, in percent, up to which a server counts as serving them.
pub const FAILED_PERCENT_MAX: f64 = 0.1;
/// Rate after a workout in percent of that before it, from which on a server has recovered. The whole 95 % interval of that share
/// must lie above it, or below it, or it is unknown.
pub const RECOVERED_PERCENT_MIN: f64 = 80.0;
/// Timed runs of the phases before and after: what the interval comes from.
pub const TIMED_RUNS_ALONE: u32 = 5;
/// Descriptors that may remain per round, whatever they are for.
pub const DESCRIPTORS_FREE: u64 = 2;
/// Growth of memory per round, in bytes and in percent, below which it is not called growth.
pub const GROWTH_BYTES_MIN: u64 = 256 << 10;
/// See [`GROWTH_BYTES_MIN`].
pub const GROWTH_PERCENT_MIN: f64 = 1.0;

/// Why an interrupted workout has no answer.
const NOT_MEASURED: &str = "the workout ended before this was measured";

impl Workout {
    /// The answers, in the order of [`Question`].
    pub fn answers(&self) -> Vec<Answer> {
        vec![
            self.serves(),
            self.recovers(),
            self.keeps(Question::KeepsDescriptors),
            self.keeps(Question::KeepsMemory),
            self.stays_up(),
        ]
    }

    /// Misdeeds over all rounds.
    pub fn misdeeds(&self) -> Vec<(Misdeed, Tally)> {
        let mut sums: Vec<(Misdeed, Tally)> = Vec::new();
        for (misdeed, tally) in self.phases.iter().flat_map(|phase| &phase.misdeeds) {
            match sums.iter_mut().find(|(of, _)| of == misdeed) {
                Some((_, sum)) => sum.merge(tally),
                None => sums.push((*misdeed, *tally)),
            }
        }
        sums
    }

    fn phases(&self, wanted: Phase) -> impl Iterator<Item = &PhaseRecord> {
        self.phases.iter().filter(move |phase| phase.phase == wanted)
    }

    fn serves(&self) -> Answer {
        let rounds: Vec<&Service> = self.phases(Phase::During).map(|phase| &phase.service).collect();
        let worst = rounds.iter().copied().max_by(|a, b| a.failed_percent().total_cmp(&b.failed_percent()));
        let before = self.phases(Phase::Before).next().map(|phase| &phase.service);
        let (Some(worst), Some(before)) = (worst, before) else {
            return unknown(Question::Serves, NOT_MEASURED);
        };
        if let Some(error) = rounds.iter().find_map(|service| service.error.as_ref()) {
            return Answer { question: Question::Serves, is_good: Some(false), evidence: error.clone() };
        }
        let starved = rounds.iter().map(|service| service.starved).max().unwrap_or(0);
        let failed: u64 = rounds.iter().map(|service| service.failed).sum();
        let all: u64 = failed + rounds.iter().map(|service| service.succeeded).sum::<u64>();
        let rate = rounds.iter().map(|service| service.request_rate).fold(f64::INFINITY, f64::min);
        let p99 = rounds.iter().map(|service| service.latency_p99_s).fold(0.0, f64::max);
        let evidence = format!(
            "{failed} of {all} requests of the well-behaved failed, {starved} clients got nothing; at worst {:.0} % of the \
             rate before, and {:.1} times the 99th percentile",
            100.0 * rate / before.request_rate.max(f64::MIN_POSITIVE),
            p99 / before.latency_p99_s.max(f64::MIN_POSITIVE)
        );
        let is_good = match (worst.failed_percent() <= FAILED_PERCENT_MAX, starved, before.starved) {
            (true, 0, _) => Some(true),
            // Alone, they did not complete a page either: a phase is too short for one.
            (true, _, 1..) => None,
            _ => Some(false),
        };
        Answer { question: Question::Serves, is_good, evidence }
    }

    fn recovers(&self) -> Answer {
        let question = Question::Recovers;
        let service = |phase| self.phases(phase).next().map(|phase| &phase.service);
        let (Some(before), Some(after)) = (service(Phase::Before), service(Phase::After)) else {
            return unknown(question, NOT_MEASURED);
        };
        if let Some(error) = &after.error {
            return Answer { question, is_good: Some(false), evidence: error.clone() };
        }
        let failures = format!("{} of {} requests failed", after.failed, after.failed + after.succeeded);
        if after.failed_percent() > FAILED_PERCENT_MAX {
            return Answer { question, is_good: Some(false), evidence: failures };
        }
        let share = 100.0 * after.request_rate / before.request_rate.max(f64::MIN_POSITIVE);
        let Some(interval) = ratio_interval(&after.request_rates, &before.request_rates) else {
            let why =
                format!("{share:.0} % of the rate before, too few timed runs to rule out noise; {failures}");
            return unknown(question, &why);
        };
        // If others had not taken some of its CPU time, the generator might have been faster, in either phase.
        let left = |service: &Service| 1.0 - (service.taken_percent.unwrap_or(0.0) / 100.0).clamp(0.0, 0.99);
        let (low, high) = (100.0 * interval.low * left(before), 100.0 * interval.high / left(after));
        let is_good = match (low >= RECOVERED_PERCENT_MIN, high >= RECOVERED_PERCENT_MIN) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        };
        let taken = [before, after].iter().filter_map(|service| service.taken_percent).reduce(f64::max);
        let taken = taken.filter(|percent| *percent >= DISTURBED_PERCENT_MAX);
        let disturbed = taken.map_or_else(String::new, |percent| {
            format!(", with up to {percent:.0} % of the generator's CPUs taken by others")
        });
        let evidence = format!(
            "{:.0} % of the rate before (95 % interval {low:.0} to {high:.0} %{disturbed}), at least {RECOVERED_PERCENT_MIN:.0} % \
             required; {failures}",
            100.0 * interval.point
        );
        Answer { question, is_good, evidence }
    }

    /// What grew in every round will go on growing. The first round is left out, because it fills caches and pools.
    fn keeps(&self, question: Question) -> Answer {
        let states: Option<Vec<&ServerState>> =
            self.phases(Phase::During).map(|phase| phase.state.as_ref()).collect();
        let Some(states) = states.filter(|states| !states.is_empty()) else {
            return unknown(question, "the server's processes cannot be seen from here");
        };
        if states.len() < 2 {
            return unknown(question, "one round cannot show growth; use --rounds 3");
        }
        if states.windows(2).any(|pair| pair[0].head != pair[1].head) {
            return unknown(question, "the server was restarted in between");
        }
        let values: Option<Vec<u64>> = states
            .iter()
            .map(|state| match question {
                Question::KeepsDescriptors => state.descriptors,
                _ => Some(state.resident_bytes),
            })
            .collect();
        let Some(values) = values else {
            return unknown(question, "this user may not see what its processes have open");
        };
        let grows = |pair: &[u64]| {
            let growth = match question {
                Question::KeepsDescriptors => DESCRIPTORS_FREE,
                _ => GROWTH_BYTES_MIN.max((pair[0] as f64 * GROWTH_PERCENT_MIN / 100.0) as u64),
            };
            pair[1] > pair[0] + growth
        };
        let grows_always = values.windows(2).all(grows);
        let shown: Vec<String> = values
            .iter()
            .map(|value| match question {
                Question::KeepsDescriptors => value.to_string(),
                _ => format!("{:.1}", *value as f64 / (1 << 20) as f64),
            })
            .collect();
        let what = match question {
            Question::KeepsDescriptors => "open files",
            _ => "MiB resident",
        };
        let evidence = format!("{} {what} after each round", shown.join(", "));
        Answer { question, is_good: Some(!grows_always), evidence }
    }

    fn stays_up(&self) -> Answer {
        let question = Question::StaysUp;
        let Some(after) = self.phases(Phase::After).next() else {
            return unknown(question, NOT_MEASURED);
        };
        let answers = after.service.error.is_none() && after.service.succeeded > 0;
        let states: Vec<&ServerState> = self.phases.iter().filter_map(|phase| phase.state.as_ref()).collect();
        let same = states.windows(2).all(|pair| pair[0].head == pair[1].head)
            && states.iter().all(|state| state.head.is_some());
        let evidence = match (answers, states.as_slice()) {
            (false, _) => "it no longer answers".to_owned(),
            (true, []) => "it answers; its processes cannot be seen from here".to_owned(),
            (true, [first, ..]) if same => format!(
                "it answers, and its first process is still {}",
                first.head.map_or_else(String::new, |(pid, _)| pid.to_string())
            ),
            (true, _) => "it answers, but its first process is another one: it was restarted".to_owned(),
        };
        Answer { question, is_good: Some(answers && (states.is_empty() || same)), evidence }
    }
}

fn unknown(question: Question, why: &str) -> Answer {
    Answer { question, is_good: None, evidence: why.to_owned() }
}

#[cfg(test)]
#[path = "workout_tests.rs"]
mod tests;
