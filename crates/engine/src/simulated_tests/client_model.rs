//! A model of a client, as simple as possible: it fetches its pages one after the other, and knows in advance when
//! each answer comes. No loop, no events, no sockets. With random schedules the worker is compared with it.

use webstone_measure::errors::ErrorClass;
use webstone_workload::load::ConnectionPolicy;

use super::draw::{Ending, Schedule};
use super::{MS, SECOND};

/// Everything that a client did, in this order. Instants are nanoseconds since the level began.
#[derive(Debug, Default)]
pub(super) struct Diary {
    pub(super) requests: Vec<Request>,
    pub(super) connects: Vec<Connect>,
    /// When a request was sent a second time.
    pub(super) retries: Vec<u64>,
    /// Pauses: from, to.
    pub(super) pauses: Vec<(u64, u64)>,
    pub(super) pages: Vec<Visit>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) intended_ns: u64,
    pub(super) start_ns: u64,
    pub(super) first_byte_ns: u64,
    pub(super) end_ns: u64,
    pub(super) error: Option<ErrorClass>,
    pub(super) bytes: u64,
    /// Whether it had no connection.
    is_unconnected: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Connect {
    pub(super) begun_ns: u64,
    pub(super) end_ns: u64,
    pub(super) stands: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) intended_ns: u64,
    pub(super) end_ns: u64,
    pub(super) ok: bool,
}

/// A connection that the client keeps.
#[derive(Clone, Copy, Debug)]
struct Kept {
    uses: u32,
    /// When the server begins to read from it.
    served_ns: u64,
    /// When the client learns that the server has closed it after its last answer.
    ended_ns: u64,
}

/// See the module comment.
pub(super) struct Client<'a> {
    schedule: &'a Schedule,
    number: usize,
    connects: usize,
    kept: Option<Kept>,
    backoff_ns: u64,
    pub(super) diary: Diary,
}

/// How an exchange on a connection ended.
struct Exchange {
    end_ns: u64,
    first_byte_ns: u64,
    bytes: u64,
    outcome: Outcome,
    /// When the server closes the connection after the answer.
    ended_ns: u64,
}

enum Outcome {
    /// Complete; whether its status was right, and whether the server keeps the connection open.
    Whole {
        ok: bool,
        keeps: bool,
    },
    /// The connection ended before the first byte.
    Nothing(ErrorClass),
    Failed(ErrorClass),
}

impl<'a> Client<'a> {
    pub(super) fn new(schedule: &'a Schedule, number: usize) -> Client<'a> {
        Client { schedule, number, connects: 0, kept: None, backoff_ns: 0, diary: Diary::default() }
    }

    /// Fetches a page; returns when the client is free again.
    pub(super) fn visit(&mut self, page: usize, intended_ns: u64, start_ns: u64) -> u64 {
        let schedule = self.schedule;
        let (mut now, mut ok) = (start_ns, true);
        let mut backoff_ns = 0;
        for file in 0..schedule.pages[page].files {
            if now >= schedule.close_ns() {
                return now;
            }
            let intended_ns = if file == 0 { intended_ns } else { now };
            let request = self.ask(page, file, intended_ns, now);
            self.diary.requests.push(request);
            now = request.end_ns;
            ok &= request.error.is_none();
            if request.error.is_none() {
                self.backoff_ns = 0;
            } else if request.is_unconnected {
                self.backoff_ns = (2 * self.backoff_ns).clamp(10 * MS, SECOND);
                backoff_ns = self.backoff_ns;
                break;
            }
        }
        self.diary.pages.push(Visit { intended_ns, end_ns: now, ok });
        if schedule.policy == ConnectionPolicy::PerPage {
            self.kept = None;
        }
        let think_ns = if schedule.rate.is_some() { 0 } else { schedule.pages[page].think_ns };
        let pause_ns = think_ns.max(backoff_ns);
        if pause_ns > 0 && now < schedule.close_ns() {
            self.diary.pauses.push((now, now + pause_ns));
        }
        now + pause_ns
    }

    /// One request, from its start to its end, on as many connections as it takes.
    fn ask(&mut self, page: usize, file: usize, intended_ns: u64, start_ns: u64) -> Request {
        let failed = |error, end_ns| Request {
            intended_ns,
            start_ns,
            first_byte_ns: 0,
            end_ns,
            error: Some(error),
            bytes: 0,
            is_unconnected: true,
        };
        let (mut now, mut is_retry) = (start_ns, false);
        loop {
            let kept = self.kept.take().filter(|kept| !is_retry && kept.ended_ns > now);
            let is_reused = kept.is_some();
            let mut link = match kept {
                Some(kept) => kept,
                None => match self.connect(start_ns, now) {
                    Ok((stands_ns, served_ns)) => {
                        now = stands_ns;
                        Kept { uses: 0, served_ns, ended_ns: u64::MAX }
                    }
                    Err((class, end_ns)) => return failed(class, end_ns),
                },
            };
            link.uses += 1;
            let is_last = link.uses >= self.schedule.uses_max
                || match self.schedule.policy {
                    ConnectionPolicy::PerRequest => true,
                    ConnectionPolicy::PerPage => file + 1 == self.schedule.pages[page].files,
                    ConnectionPolicy::KeepAlive => false,
                };
            let exchange = self.exchange(page, file, is_last, &link, start_ns, now);
            now = exchange.end_ns;
            let error = match exchange.outcome {
                Outcome::Nothing(_) if is_reused => {
                    self.diary.retries.push(now);
                    is_retry = true;
                    continue;
                }
                Outcome::Nothing(class) | Outcome::Failed(class) => Some(class),
                Outcome::Whole { ok, keeps } => {
                    if keeps && !is_last && exchange.ended_ns > now {
                        self.kept = Some(Kept { ended_ns: exchange.ended_ns, ..link });
                    }
                    (!ok).then_some(ErrorClass::WrongStatus)
                }
            };
            let (first_byte_ns, bytes) = (exchange.first_byte_ns, exchange.bytes);
            let is_unconnected = false;
            return Request {
                intended_ns,
                start_ns,
                first_byte_ns,
                end_ns: now,
                error,
                bytes,
                is_unconnected,
            };
        }
    }

    /// For a request that began at `start_ns`: when the connection is established and when the server reads from it; or how and when it
    /// failed.
    fn connect(&mut self, start_ns: u64, begun_ns: u64) -> Result<(u64, u64), (ErrorClass, u64)> {
        let schedule = self.schedule;
        let target = (self.number + self.connects) % schedule.targets;
        self.connects += 1;
        let of_connect_ns = begun_ns + schedule.connect_timeout_ns;
        let of_request_ns = start_ns + schedule.request_timeout_ns;
        let given_up_ns = schedule.swept_ns(begun_ns.max(of_connect_ns.min(of_request_ns)));
        let of_request = of_request_ns < of_connect_ns;
        let class = if of_request { ErrorClass::RequestTimeout } else { ErrorClass::ConnectTimeout };
        let fate = schedule.connect(begun_ns, target);
        let (end_ns, error) = match fate.stands_ns {
            Some(after_ns) if begun_ns + after_ns <= given_up_ns => (begun_ns + after_ns, fate.error),
            _ => (given_up_ns, Some(class)),
        };
        self.diary.connects.push(Connect { begun_ns, end_ns, stands: error.is_none() });
        match error {
            None => Ok((end_ns, begun_ns + fate.served_ns)),
            Some(class) => Err((class, end_ns)),
        }
    }

    fn exchange(
        &self,
        page: usize,
        file: usize,
        is_last: bool,
        link: &Kept,
        start_ns: u64,
        sent_ns: u64,
    ) -> Exchange {
        let schedule = self.schedule;
        let latency_ns = schedule.latency_ns;
        // A request larger than the socket's buffer: each part but the last must be acknowledged before the next is
        // sent.
        let parts = schedule.request_bytes(page, file, is_last).div_ceil(schedule.send_room) as u64;
        let whole_ns = sent_ns + (parts - 1) * 2 * latency_ns + latency_ns;
        let asked_ns = whole_ns.max(link.served_ns);
        let answer = schedule.answer(asked_ns, page, file);
        let limit_ns = start_ns + schedule.request_timeout_ns;
        let mut given_up_ns =
            schedule.swept_ns(sent_ns.max(limit_ns.min(sent_ns + schedule.first_byte_timeout_ns)));
        let mut exchange = Exchange {
            end_ns: 0,
            first_byte_ns: 0,
            bytes: 0,
            outcome: Outcome::Failed(ErrorClass::Malformed),
            ended_ns: u64::MAX,
        };
        let ended = |exchange: Exchange, end_ns, outcome| Exchange { end_ns, outcome, ..exchange };
        let timed_out = |exchange: Exchange, at_ns: u64| {
            let of_request = at_ns - start_ns >= schedule.request_timeout_ns;
            let class = if of_request { ErrorClass::RequestTimeout } else { ErrorClass::FirstByteTimeout };
            ended(exchange, at_ns, Outcome::Failed(class))
        };

        // If the connection ended meanwhile, nothing of this answer is sent.
        if link.ended_ns <= given_up_ns {
            return ended(exchange, link.ended_ns, Outcome::Nothing(ErrorClass::Reset));
        }
        let mut at_ns = asked_ns + latency_ns;
        for (wait_ns, bytes) in &answer.pieces {
            at_ns += wait_ns;
            if at_ns > given_up_ns {
                return timed_out(exchange, given_up_ns);
            }
            if answer.is_garbage {
                return ended(exchange, at_ns, Outcome::Failed(ErrorClass::Malformed));
            }
            if exchange.bytes == 0 {
                exchange.first_byte_ns = at_ns;
                given_up_ns = schedule.swept_ns(at_ns.max(limit_ns));
            }
            exchange.bytes += bytes;
        }
        let is_whole = exchange.bytes == answer.whole_bytes;
        let end_ns = match answer.ending {
            Ending::Finish(wait_ns) | Ending::Reset(wait_ns) => at_ns + wait_ns,
            // A connection that the client asked to be closed ends with the last byte.
            Ending::Never if is_last && is_whole => at_ns,
            Ending::Never => u64::MAX,
        };
        exchange.ended_ns = end_ns;
        if is_whole && !answer.until_close {
            let whole = Outcome::Whole { ok: answer.ok, keeps: answer.keeps };
            return ended(exchange, at_ns, whole);
        }
        if end_ns > given_up_ns {
            return timed_out(exchange, given_up_ns);
        }
        let class = match answer.ending {
            Ending::Reset(_) => ErrorClass::Reset,
            _ if exchange.bytes < answer.head_bytes => ErrorClass::ClosedEarly,
            _ => ErrorClass::ShortBody,
        };
        let outcome = match exchange.bytes {
            0 => Outcome::Nothing(class),
            bytes if answer.until_close && class != ErrorClass::Reset && bytes >= answer.head_bytes => {
                Outcome::Whole { ok: answer.ok, keeps: false }
            }
            _ => Outcome::Failed(class),
        };
        ended(exchange, end_ns, outcome)
    }
}
