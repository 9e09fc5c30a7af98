//! `/test` and `/schedule`: answers with known delays, sizes and faults, for tests that must know the truth.
//!
//! | parameter | meaning |
//! |---|---|
//! | `status=200` | status, 200 to 599 |
//! | `size=1k` | body length in bytes |
//! | `sizes=0,100,16m` | the k-th request gets the k-th size, in turn |
//! | `fill=pattern` | `pattern`, `random` or `none`, as for `/send` |
//! | `delay=10ms` | time from the request to the head |
//! | `delays=0,10ms,2s` | the k-th request gets the k-th delay, in turn |
//! | `freeze=3s,1s` | answers are withheld for 1 s, from 3 s after the first request on: requests of that time are answered at its end |
//! | `pause=10ms` | time from the head to the body |
//! | `drip=100ms`, `bytes=1` | this many bytes at a time, with this time between |
//! | `writes=4` | number of writes, as for `/send` |
//! | `chunked=1`, `chunk=4k` | no length; chunks of this many bytes |
//! | `until_close=1` | no length; the body ends with the connection |
//! | `close=1` | `Connection: close` |
//! | `header=64k` | one more header field with a value of this many bytes |
//! | `interim=2` | number of 103 answers first |
//! | `fault=…` | see below |
//! | `every=10` | only each 10th request has the fault |
//!
//! Requests are counted over all connections and threads, from 1, for each spelling of path and query on its own.
//!
//! | fault | what happens |
//! |---|---|
//! | `reset`, `close` | the connection ends with a reset, or with a FIN, at `after` |
//! | `stall` | nothing more is sent from `after` on: forever, or for the time `for`, and then the rest |
//! | `truncate` | `close` in the middle of the body, or `after` this many bytes of it |
//! | `garbage` | bytes that are not HTTP, then a FIN |
//! | `bad-chunk` | a chunked body with an invalid chunk size in its middle, or `after` this many bytes |
//! | `extra` | this many bytes (`extra=7`) follow the whole answer |
//! | `wrong-length` | the body, and the length announced, differ from `size` by `by` bytes (`by=-10`) |
//! | `wrong-content` | a body that no fill makes |
//! | `status` | `status` is answered only by the requests that `every` chooses, 200 by the others |
//! | `no-close-notify` | over TLS, a FIN without `close_notify` after the whole answer, or `after` this many bytes of its body |
//! | `reset-stream` | in HTTP/2 and 3, the stream is reset by `code` (a name such as `enhance-your-calm`, or a number) at `after` |
//! | `refused-stream` | in HTTP/2 and 3, the stream is refused before it begins: a client may send it again |
//! | `goaway` | in HTTP/2 and 3, GOAWAY by `code`: with `no-error` (the default) what is under way is answered; with another all ends |
//! | `end-stream` | in HTTP/3, the stream ends in order in the middle of the body, or `after` this many bytes of it |
//! | `split-head` | in HTTP/3, the frame of the head comes in two halves, with the time `for` (10ms) between; the answer is valid |
//!
//! `after=start` is before the first byte (the default), `after=head` in the middle of the head, and a number is after that many bytes of
//! the body. A reset loses what the kernel has not sent yet. In HTTP/2 `head` is `start`, because half a head is not a frame; `close` and
//! `reset` end the connection with all its streams; `bad-chunk`, `extra`, `until_close` and `interim` have no counterpart. In HTTP/3
//! `close` closes the connection with H3_NO_ERROR, `reset` with H3_INTERNAL_ERROR, and `goaway` with an error with that code; `extra` is
//! body beyond the length announced, and `garbage` a frame that answers may not have. Faults before the first request are in
//! `connection_faults`.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode, Version};

use crate::body::{Content, Made, Pieces, ServerBody, respond};
use crate::delay;
use crate::exchange::Exchange;
use crate::faults::{self, At, Fault, Raw};
use crate::fill::BodyFill;
use crate::handlers::bad_query;
use crate::query::{self, Query, QueryError};
use crate::send::{MADE_BYTES_MAX, fill};
use crate::stream_faults::{self, Code};

/// Body length where none is asked for.
const SIZE: u64 = 1000;
/// Longest value of the additional header field.
const HEADER_BYTES_MAX: u64 = 1 << 20;
/// Most interim answers.
const INTERIM_MAX: u64 = 100_000;
/// Most spellings of path and query that are counted.
const SPELLINGS_MAX: usize = 10_000;
/// The additional header field.
pub(crate) const FILLER: &str = "x-filler";

const KNOWN: &str = "status, size, sizes, fill, delay, delays, freeze, pause, drip, bytes, writes, chunked, chunk, until_close, \
                     close, header, interim, fault, after, for, extra, by, code, every";

/// One answer, as the query has it.
#[derive(Clone, Debug)]
struct TestAnswer {
    status: u16,
    size: u64,
    sizes: Vec<u64>,
    fill: BodyFill,
    delay: Duration,
    delays: Vec<Duration>,
    /// From when after the first request, and for how long.
    freeze: Option<(Duration, Duration)>,
    pause: Duration,
    pieces: Pieces,
    separate: bool,
    gap: Duration,
    chunked: bool,
    until_close: bool,
    close: bool,
    header: usize,
    interim: u64,
    fault: Option<Fault>,
    every: u64,
}

/// Answers `/test` and `/schedule`.
pub(crate) async fn answer(
    mut exchange: Exchange,
    request: &hyper::http::request::Parts,
) -> Response<ServerBody> {
    let start = Instant::now();
    let is_head = request.method == Method::HEAD;
    let spelling = request.uri.path_and_query().map_or("", |path| path.as_str());
    let plan = TestAnswer::parse(request.uri.query()).and_then(|plan| plan.for_request(&exchange, spelling));
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return bad_query(exchange, is_head, &error),
    };
    let has_streams = request.version >= Version::HTTP_2;
    if let Some(what) = plan.problem(request.version) {
        return bad_query(exchange, is_head, &QueryError(what.to_owned()));
    }
    delay::until(start, plan.delay).await;
    if plan.interim > 0 && request.version == Version::HTTP_11 {
        faults::interim(&exchange, plan.interim).await;
    }
    let raw = Raw {
        status: plan.status,
        size: plan.size,
        fill: plan.fill,
        header: plan.header,
        is_head,
        pause: plan.pause,
    };
    match plan.fault {
        // These two continue after a time, which hyper's own answer can do.
        Some(Fault::Stall(At::Start, Some(span))) => delay::pause(span).await,
        Some(Fault::Stall(At::Body(_), Some(_))) if !is_head => {}
        Some(fault) if fault.is_raw() && has_streams => {
            return stream_faults::perform(exchange, raw, fault).await;
        }
        Some(fault) if fault.is_raw() => {
            exchange.set_status(plan.status);
            return faults::perform(exchange, raw, fault).await;
        }
        _ if plan.until_close => {
            exchange.set_status(plan.status);
            return faults::perform_until_close(exchange, raw).await;
        }
        _ => {}
    }
    plan.respond(exchange, is_head)
}

impl TestAnswer {
    fn parse(query: Option<&str>) -> Result<TestAnswer, QueryError> {
        let query = Query::parse(query)?;
        let size = query.count("size", 0, MADE_BYTES_MAX)?.unwrap_or(SIZE);
        let writes = query.count("writes", 1, 1 << 20)?;
        let drip = query.duration("drip")?;
        let bytes = query.count("bytes", 1, MADE_BYTES_MAX)?.unwrap_or(1);
        let chunked = query.flag("chunked")?;
        let chunk = query.count("chunk", 1, MADE_BYTES_MAX)?;
        let (pieces, separate) = match (drip, writes, chunk) {
            (Some(_), None, None) => (Pieces::Of(bytes), true),
            (None, Some(writes), None) => (Pieces::Equal(writes), true),
            (None, None, Some(chunk)) => (Pieces::Of(chunk), false),
            (None, None, None) => (Pieces::One, false),
            _ => return Err(QueryError("give only one of drip, writes and chunk".to_owned())),
        };
        let answer = TestAnswer {
            status: query.count("status", 200, 599)?.unwrap_or(200) as u16,
            size,
            sizes: query.list("sizes", |value| query::count("sizes", value, 0, MADE_BYTES_MAX))?,
            fill: fill(&query, BodyFill::Pattern)?,
            delay: query.duration("delay")?.unwrap_or_default(),
            delays: query.list("delays", |value| query::duration("delays", value))?,
            freeze: match query.list("freeze", |value| query::duration("freeze", value))?[..] {
                [] => None,
                [from, span] => Some((from, span)),
                _ => return Err(QueryError("freeze takes two durations, as in freeze=3s,1s".to_owned())),
            },
            pause: query.duration("pause")?.unwrap_or_default(),
            pieces,
            separate,
            gap: drip.unwrap_or_default(),
            chunked,
            until_close: query.flag("until_close")?,
            close: query.flag("close")?,
            header: query.count("header", 1, HEADER_BYTES_MAX)?.unwrap_or(0) as usize,
            interim: query.count("interim", 0, INTERIM_MAX)?.unwrap_or(0),
            fault: fault(&query, size)?,
            every: query.count("every", 1, u64::MAX)?.unwrap_or(1),
        };
        query.finish(KNOWN)?;
        Ok(answer)
    }

    /// Why the protocol cannot have what the query asks for, if so.
    fn problem(&self, version: Version) -> Option<&'static str> {
        match (version >= Version::HTTP_2, self.fault) {
            (true, _) if self.until_close => {
                Some("until_close: an answer of HTTP/2 or HTTP/3 cannot end with its connection")
            }
            (true, Some(fault)) => stream_faults::problem(fault, version == Version::HTTP_3),
            (false, Some(Fault::ResetStream(..) | Fault::GoAway(_))) => {
                Some("fault: reset-stream, refused-stream and goaway need HTTP/2 or HTTP/3")
            }
            (false, Some(Fault::EndStream(_) | Fault::SplitHead(_))) => {
                Some("fault: end-stream and split-head need HTTP/3")
            }
            _ => None,
        }
    }

    /// Decides what depends on the number of the request.
    fn for_request(mut self, exchange: &Exchange, spelling: &str) -> Result<TestAnswer, QueryError> {
        let mut number = 1;
        if self.every > 1 || !self.delays.is_empty() || !self.sizes.is_empty() {
            let mut counts = exchange.shard.shared.test_counts.lock().unwrap_or_else(PoisonError::into_inner);
            if !counts.contains_key(spelling) && counts.len() >= SPELLINGS_MAX {
                return Err(QueryError(format!(
                    "more than {SPELLINGS_MAX} different queries are being counted"
                )));
            }
            let count = counts.entry(spelling.into()).or_default();
            *count += 1;
            number = *count;
        }
        if let Some((from, span)) = self.freeze {
            let mut firsts = exchange.shard.shared.test_firsts.lock().unwrap_or_else(PoisonError::into_inner);
            let (now, known) = (Instant::now(), firsts.len());
            if !firsts.contains_key(spelling) && known >= SPELLINGS_MAX {
                return Err(QueryError(format!("more than {SPELLINGS_MAX} different queries freeze")));
            }
            let age = now - *firsts.entry(spelling.into()).or_insert(now);
            if (from..from + span).contains(&age) {
                self.delay = from + span - age;
            }
        }
        let turn = (number - 1) as usize;
        if !self.delays.is_empty() {
            self.delay = self.delays[turn % self.delays.len()];
        }
        if !self.sizes.is_empty() {
            self.size = self.sizes[turn % self.sizes.len()];
        }
        let has_fault = number.is_multiple_of(self.every);
        match self.fault {
            Some(Fault::Status) if !has_fault => self.status = 200,
            Some(Fault::WrongLength(by)) if has_fault => self.size = self.size.saturating_add_signed(by),
            Some(Fault::WrongContent) if has_fault => self.fill = BodyFill::Wrong,
            Some(Fault::Stall(At::Body(at), Some(span))) if has_fault => {
                if at == 0 {
                    self.pause += span;
                } else {
                    (self.pieces, self.separate, self.gap) = (Pieces::SplitAt(at), true, span);
                }
            }
            _ => {}
        }
        self.fault = self.fault.filter(|_| has_fault);
        Ok(self)
    }

    fn respond(self, exchange: Exchange, is_head: bool) -> Response<ServerBody> {
        let made = Made {
            fill: self.fill,
            size: self.size,
            chunked: self.chunked,
            pieces: self.pieces,
            separate: self.separate,
            gap: self.gap,
            pause: self.pause,
        };
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let mut response = respond(exchange, status, is_head, Content::Made(made));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if self.header > 0
            && let Ok(value) = HeaderValue::try_from("x".repeat(self.header))
        {
            headers.insert(HeaderName::from_static(FILLER), value);
        }
        response
    }
}

fn fault(query: &Query, size: u64) -> Result<Option<Fault>, QueryError> {
    let after = match query.text("after") {
        None => None,
        Some("start") => Some(At::Start),
        Some("head") => Some(At::Head),
        Some(value) => Some(At::Body(
            query::count("after", value, 0, size)
                .map_err(|error| QueryError(format!("{error}; or write after=start or after=head")))?,
        )),
    };
    let span = query.duration("for")?;
    let extra = query.count("extra", 1, 1 << 20)?.unwrap_or(7);
    let by = query.text("by").map_or(Ok(1), |value| {
        value
            .parse::<i64>()
            .map_err(|_| QueryError(format!("by={value}: write a number of bytes, as in by=-10")))
    })?;
    let code = query.text("code").map(|text| Code::parse(text).map_err(QueryError)).transpose()?;
    let in_body = match after {
        Some(At::Body(at)) => at,
        _ => size / 2,
    };
    let start = after.unwrap_or(At::Start);
    let fault = match query.text("fault") {
        None if after.is_some() || span.is_some() => {
            return Err(QueryError("after and for need fault=".to_owned()));
        }
        None => None,
        Some("reset") => Some(Fault::Reset(start)),
        Some("close") => Some(Fault::Close(start)),
        Some("stall") => Some(Fault::Stall(start, span)),
        Some("truncate") => Some(Fault::Close(At::Body(in_body))),
        Some("garbage") => Some(Fault::Garbage),
        Some("bad-chunk") => Some(Fault::BadChunk(in_body)),
        Some("extra") => Some(Fault::Extra(extra)),
        Some("wrong-length") => Some(Fault::WrongLength(by)),
        Some("wrong-content") => Some(Fault::WrongContent),
        Some("status") => Some(Fault::Status),
        Some("no-close-notify") => Some(Fault::NoCloseNotify(after.unwrap_or(At::Body(size)))),
        Some("reset-stream") => Some(Fault::ResetStream(code.unwrap_or(Code::INTERNAL), start)),
        Some("refused-stream") => Some(Fault::ResetStream(Code::REFUSED, At::Start)),
        Some("end-stream") => Some(Fault::EndStream(in_body)),
        Some("split-head") => Some(Fault::SplitHead(span.unwrap_or(Duration::from_millis(10)))),
        Some("goaway") => Some(Fault::GoAway(code.unwrap_or(Code::NO_ERROR))),
        Some(other) => {
            return Err(QueryError(format!(
                "fault={other}: write one of reset, close, stall, truncate, garbage, bad-chunk, extra, wrong-length, \
                 wrong-content, status, no-close-notify, reset-stream, refused-stream, goaway, end-stream and split-head"
            )));
        }
    };
    Ok(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(query: &str) -> Option<Fault> {
        TestAnswer::parse(Some(query)).unwrap().fault
    }

    #[test]
    fn faults_have_places() {
        assert_eq!(fault_of("size=10"), None);
        assert_eq!(fault_of("fault=reset"), Some(Fault::Reset(At::Start)));
        assert_eq!(fault_of("fault=reset&after=head"), Some(Fault::Reset(At::Head)));
        assert_eq!(fault_of("fault=close&after=500&size=1k"), Some(Fault::Close(At::Body(500))));
        assert_eq!(fault_of("fault=truncate&size=1k"), Some(Fault::Close(At::Body(500))));
        assert_eq!(fault_of("fault=wrong-length&by=-3"), Some(Fault::WrongLength(-3)));
        let stall = Fault::Stall(At::Body(0), Some(Duration::from_secs(1)));
        assert_eq!(fault_of("fault=stall&after=0&for=1s"), Some(stall));
    }

    #[test]
    fn what_would_test_nothing_is_refused() {
        for (query, expected) in [
            ("fault=resett", "fault=resett"),
            ("after=3", "need fault="),
            ("fault=reset&after=2000", "from 0 to 1000"),
            ("status=100", "from 200 to 599"),
            ("drip=1ms&writes=2", "give only one of"),
            ("delays=1ms,", "delays="),
            ("sizes=1,x", "sizes=x"),
            ("every=0", "every=0"),
            ("dealy=1s", "dealy"),
        ] {
            let error = TestAnswer::parse(Some(query)).unwrap_err();
            assert!(error.0.contains(expected), "{query}: {error}");
        }
    }
}
