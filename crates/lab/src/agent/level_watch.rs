//! What an agent is asked about a level, and what its answers say was used: in the window, and in slices of it. Each answer tells of the
//! time since the reading before, which is in the answer to an earlier question.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use webstone_judge::plausible;
use webstone_model::record::{ProcessUse, ServerHostUse, ServerUse};

use super::messages::{Age, Answer, Closed, Interval};

/// Share of a window, or slice, in percent: readings that may be later than this do not count for it.
const LATE_PERCENT_MAX: f64 = 5.0;
/// Two clocks may differ by this share, in percent, plus a constant.
const CLOCKS_PERCENT_MAX: f64 = 1.0;
const CLOCKS_SLACK: Duration = Duration::from_millis(2);

/// What the server and its host used during a window, or a slice.
#[derive(Clone, Debug)]
pub(super) struct Elsewhere {
    /// What the host did.
    pub host: ServerHostUse,
    /// `None` where its processes could not be seen.
    pub server: Option<ServerUse>,
}

impl Elsewhere {
    /// The same with no more threads than a record has.
    fn of_window(self) -> Elsewhere {
        let of_window = |server: ServerUse| ServerUse {
            processes: server.processes.map(ProcessUse::of_window),
            ..server
        };
        Elsewhere { server: self.server.map(of_window), ..self }
    }

    /// The same, unless its readings may have been too late for a window, or a slice, of this length.
    pub(super) fn on_time(self, what: &str, ns: u64) -> Result<Elsewhere, String> {
        let delay_ns = self.host.opening_delay_ns_max + self.host.close_delay_ns_max;
        let percent = delay_ns as f64 * 100.0 / ns.max(1) as f64;
        if percent <= LATE_PERCENT_MAX {
            return Ok(self);
        }
        Err(format!(
            "its samples were up to {:.1} ms late, more than {LATE_PERCENT_MAX:.0} % of the {what}",
            delay_ns as f64 / 1e6
        ))
    }
}

/// A question, and its answer once that has come.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) asked: Instant,
    /// The answer, and how long it took.
    pub(super) answer: Option<(Answer, Duration)>,
}

/// A reading of an agent.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// When it was asked for.
    asked: Instant,
    /// How much later it was taken, at most.
    delay_max: Duration,
}

impl Reading {
    /// The reading of an answer that took this long.
    fn new(asked: Instant, took: Duration, age: Age) -> Reading {
        Reading { asked, delay_max: took.saturating_sub(Duration::from_nanos(age.nanos)) }
    }

    /// What was used from this reading to a later one.
    ///
    /// # Errors
    /// If no host can have used that, or its clock disagrees with the clock here.
    fn until(self, later: Reading, used: Interval) -> Result<Elsewhere, String> {
        let Interval { host, server, .. } = used;
        let apart = later.asked.saturating_duration_since(self.asked);
        clocks_agree(host.elapsed_ns, (apart.saturating_sub(self.delay_max), apart + later.delay_max))?;
        plausible::of_host(&host)?;
        plausible::of_server(server.as_ref(), &host, host.elapsed_ns)?;
        let server =
            server.map(|server| ServerUse { processes: server.processes.map(ProcessUse::bounded), ..server });
        let host = ServerHostUse {
            host,
            opening_delay_ns_max: self.delay_max.as_nanos() as u64,
            close_delay_ns_max: later.delay_max.as_nanos() as u64,
            ..ServerHostUse::default()
        };
        Ok(Elsewhere { host, server })
    }
}

/// The questions of a level by their numbers, and what was used.
#[derive(Debug, Default)]
pub(super) struct LevelWatch {
    pub(super) opening: Option<u64>,
    pub(super) close: Option<u64>,
    /// Slices whose end was asked for and is not evaluated, in order.
    slices: VecDeque<(usize, u64)>,
    opened: Option<Reading>,
    /// The last reading that was evaluated.
    last_read: Option<Reading>,
    /// What was used in slices whose end was asked for.
    in_slices: BTreeMap<usize, Result<Elsewhere, String>>,
    in_last_slice: Option<Result<Elsewhere, String>>,
    in_window: Option<Result<Elsewhere, String>>,
}

impl LevelWatch {
    /// The end of a slice, which is not the last, was asked for.
    pub(super) fn ends_slice(&mut self, slice: usize, number: u64) {
        self.slices.push_back((slice, number));
    }

    /// What was used in a slice, if it was evaluated. One whose end was not asked for is the last.
    pub(super) fn in_slice(&self, slice: usize) -> Option<&Result<Elsewhere, String>> {
        let is_asked = || self.slices.iter().any(|(it, _)| *it == slice);
        self.in_slices.get(&slice).or_else(|| self.in_last_slice.as_ref().filter(|_| !is_asked()))
    }

    /// The question whose answer tells of a slice, once it was asked.
    pub(super) fn question_of(&self, slice: usize) -> Option<u64> {
        let asked = self.slices.iter().find(|(it, _)| *it == slice);
        asked.map(|(_, number)| *number).or(self.close)
    }

    /// Slices up to this one are not asked for again.
    pub(super) fn forget_slices(&mut self, last: usize) {
        self.in_slices.retain(|slice, _| *slice > last);
    }

    /// What was used in the window, once it was evaluated; only once.
    pub(super) fn take_window(&mut self) -> Option<Result<Elsewhere, String>> {
        self.in_window.take()
    }

    /// Evaluates the answers that have come, in the order of the questions.
    ///
    /// # Errors
    /// An answer to another question.
    pub(super) fn evaluate(&mut self, questions: &mut BTreeMap<u64, Question>) -> Result<(), Answer> {
        match answered(self.opening, questions) {
            Some((Answer::Opened(age), asked, took)) => {
                self.opened = Some(Reading::new(asked, took, age));
                self.last_read = self.opened;
            }
            Some((other, ..)) => return Err(other),
            None => {}
        }
        while let Some((slice, number)) = self.slices.front().copied()
            && let Some((answer, asked, took)) = answered(Some(number), questions)
        {
            self.slices.pop_front();
            let Answer::Slice(used) = answer else { return Err(answer) };
            let read = Reading::new(asked, took, used.age);
            let used = in_slice(self.last_read.replace(read), read, *used);
            self.in_slices.insert(slice, used);
        }
        match answered(self.close, questions) {
            Some((Answer::Closed(closed), asked, took)) => {
                let Closed { window, last_slice } = *closed;
                let read = Reading::new(asked, took, window.age);
                self.in_last_slice = last_slice.map(|used| in_slice(self.last_read, read, used));
                self.in_window = Some(match self.opened {
                    Some(opened) => opened.until(read, window).map(Elsewhere::of_window),
                    None => Err("the window closed before the agent saw it open".to_owned()),
                });
            }
            Some((other, ..)) => return Err(other),
            None => {}
        }
        Ok(())
    }
}

/// Takes a question that has been answered: the answer, when it was asked, and how long it took.
fn answered(
    number: Option<u64>,
    questions: &mut BTreeMap<u64, Question>,
) -> Option<(Answer, Instant, Duration)> {
    let (answer, took) = questions.get_mut(&number?)?.answer.take()?;
    Some((answer, questions.remove(&number?)?.asked, took))
}

/// What was used in a slice, if its readings were on time.
fn in_slice(before: Option<Reading>, end: Reading, used: Interval) -> Result<Elsewhere, String> {
    let before = before.ok_or("the slice ended before the agent saw the window open")?;
    let elapsed_ns = used.host.elapsed_ns;
    before.until(end, used)?.on_time("slice", elapsed_ns)
}

/// Whether the time between two readings by the agent's clock agrees with the time between two moments here.
fn clocks_agree(elapsed_ns: u64, bounds: (Duration, Duration)) -> Result<(), String> {
    let elapsed = Duration::from_nanos(elapsed_ns);
    let slack = CLOCKS_SLACK + bounds.1.mul_f64(CLOCKS_PERCENT_MAX / 100.0);
    if elapsed + slack >= bounds.0 && elapsed <= bounds.1 + slack {
        return Ok(());
    }
    Err(format!(
        "its clock counted {elapsed:.2?} between two samples that were {:.2?} to {:.2?} apart by the clock here",
        bounds.0, bounds.1
    ))
}

#[cfg(test)]
mod tests {
    use webstone_model::record::HostUse;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Questions asked at these times, in milliseconds, each answered within two; and the time of each.
    struct Asking {
        began: Instant,
        questions: BTreeMap<u64, Question>,
    }

    impl Asking {
        fn ask(&mut self, number: u64, at_ms: u64, answer: Option<(Answer, u64)>) {
            let answer = answer.map(|(answer, took_ms)| (answer, Duration::from_millis(took_ms)));
            let asked = self.began + Duration::from_millis(at_ms);
            self.questions.insert(number, Question { asked, answer });
        }
    }

    fn used(elapsed_ms: u64, user_ms: u64) -> Interval {
        Interval {
            host: HostUse { elapsed_ns: elapsed_ms * MS, ..HostUse::default() },
            server: Some(ServerUse { user_ns: user_ms * MS, ..ServerUse::default() }),
            age: Age::default(),
        }
    }

    fn user_ms(used: Option<&Result<Elsewhere, String>>) -> u64 {
        used.unwrap().as_ref().unwrap().server.as_ref().unwrap().user_ns / MS
    }

    #[test]
    fn slices_are_told_of_in_order_and_the_last_with_the_window() {
        let mut asking = Asking { began: Instant::now(), questions: BTreeMap::new() };
        let mut watch = LevelWatch { opening: Some(1), ..LevelWatch::default() };
        asking.ask(1, 0, Some((Answer::Opened(Age::default()), 2)));
        watch.ends_slice(0, 2);
        asking.ask(2, 1_000, None);
        watch.ends_slice(2, 3);
        // The second answer is of no use before the first.
        asking.ask(3, 3_000, Some((Answer::Slice(Box::new(used(2_000, 20))), 2)));
        watch.evaluate(&mut asking.questions).unwrap();
        assert!(watch.in_slice(0).is_none() && watch.in_slice(2).is_none());
        assert_eq!((watch.question_of(0), watch.question_of(3)), (Some(2), None));
        asking.ask(2, 1_000, Some((Answer::Slice(Box::new(used(1_000, 10))), 2)));
        watch.evaluate(&mut asking.questions).unwrap();
        assert_eq!((user_ms(watch.in_slice(0)), user_ms(watch.in_slice(2))), (10, 20));
        watch.close = Some(4);
        assert!(watch.in_slice(3).is_none() && watch.question_of(3) == Some(4));
        let closed = Closed { window: used(4_000, 70), last_slice: Some(used(1_000, 40)) };
        asking.ask(4, 4_000, Some((Answer::Closed(Box::new(closed)), 2)));
        watch.evaluate(&mut asking.questions).unwrap();
        assert_eq!((user_ms(watch.in_slice(3)), user_ms(watch.take_window().as_ref())), (40, 70));
        assert!(watch.take_window().is_none() && asking.questions.is_empty());
        watch.forget_slices(0);
        assert_eq!(user_ms(watch.in_slice(2)), 20);
    }

    #[test]
    fn a_slice_that_was_read_late_has_no_figures_and_the_next_begins_there() {
        let mut asking = Asking { began: Instant::now(), questions: BTreeMap::new() };
        let mut watch = LevelWatch { opening: Some(1), ..LevelWatch::default() };
        asking.ask(1, 0, Some((Answer::Opened(Age::default()), 2)));
        watch.ends_slice(0, 2);
        asking.ask(2, 1_000, Some((Answer::Slice(Box::new(used(1_090, 10))), 90)));
        watch.ends_slice(1, 3);
        asking.ask(3, 2_000, Some((Answer::Slice(Box::new(used(1_910, 20))), 1)));
        watch.evaluate(&mut asking.questions).unwrap();
        let late = "its samples were up to 92.0 ms late, more than 5 % of the slice";
        assert_eq!(watch.in_slice(0).unwrap().as_ref().unwrap_err(), late);
        // Its first reading was late by as much.
        assert!(watch.in_slice(1).unwrap().is_err());
        watch.ends_slice(2, 4);
        asking.ask(4, 3_000, Some((Answer::Ready, 1)));
        assert_eq!(watch.evaluate(&mut asking.questions), Err(Answer::Ready));
    }

    #[test]
    fn late_readings_are_of_no_window() {
        let late = |opening, close| {
            let host = ServerHostUse {
                opening_delay_ns_max: opening,
                close_delay_ns_max: close,
                ..ServerHostUse::default()
            };
            Elsewhere { host, server: None }.on_time("window", 1_000_000_000)
        };
        assert!(late(20_000_000, 30_000_000).is_ok());
        assert_eq!(
            late(20_000_000, 31_000_000).unwrap_err(),
            "its samples were up to 51.0 ms late, more than 5 % of the window"
        );
        assert!(Elsewhere { host: ServerHostUse::default(), server: None }.on_time("window", 0).is_ok());
    }

    #[test]
    fn a_clock_that_runs_differently_is_noticed() {
        let bounds = (Duration::from_millis(990), Duration::from_millis(1010));
        for fits in [980_000_000, 1_000_000_000, 1_022_000_000] {
            assert_eq!(clocks_agree(fits, bounds), Ok(()), "{fits}");
        }
        for strange in [900_000_000, 1_100_000_000] {
            let error = clocks_agree(strange, bounds).unwrap_err();
            assert!(error.ends_with("apart by the clock here"), "{error}");
        }
    }
}
