//! HTTP/1 on a link: one exchange at a time. The request's bytes are in the plan, or in the exchange if they come
//! from a template, so sending copies nothing.

use std::borrow::Cow;

use super::known_heads::KnownHeads;
use super::response::{AtEnd, Malformed, ResponseParser, Step};
use crate::exchange::{Exchange, Exchanges};
use crate::plan::{NO_TEMPLATE, Plan};
use crate::session::{AnswerError, Heard, Session, Sink, Start};
use crate::slice::Slice;

/// The slot of the only exchange.
const SLOT: u32 = 0;

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Http1 {
    parser: ResponseParser,
    request: u32,
    /// The request within the plan's bytes; empty if it was filled in from a template.
    bytes: Slice,
    /// The request says that it is the last on its connection.
    is_last: bool,
    /// The answer's head says that the server keeps the connection open.
    server_keeps: bool,
    /// The part of a head that has arrived so far. Empty and not allocated for nearly all links.
    kept: Vec<u8>,
}

impl Default for Http1 {
    fn default() -> Http1 {
        Http1 {
            parser: ResponseParser::new(false),
            request: 0,
            bytes: Slice::default(),
            is_last: false,
            server_keeps: false,
            kept: Vec::new(),
        }
    }
}

impl Session for Http1 {
    type Exchanges = Exchange;
    /// Heads that were parsed before.
    type Memory = KnownHeads;

    fn memory(plan: &Plan, _: u32) -> KnownHeads {
        KnownHeads::new(plan.requests.len())
    }

    #[inline]
    fn goes_on(&self) -> bool {
        self.server_keeps && !self.is_last
    }

    #[inline]
    fn begin(&mut self, start: Start<'_>, _: &mut Exchange, _: &mut KnownHeads) {
        let Start { number, request, is_last, .. } = start;
        self.parser = ResponseParser::new(request.is_head);
        self.request = number;
        self.bytes = match request.template {
            NO_TEMPLATE if is_last => request.last,
            NO_TEMPLATE => request.keep,
            _ => Slice::default(),
        };
        self.is_last = is_last;
        self.server_keeps = false;
        self.kept.clear();
    }

    #[inline]
    fn unsent<'a>(&'a self, plan: &'a Plan, exchange: &'a Exchange) -> &'a [u8] {
        let sent = exchange.sent as usize;
        if self.bytes.is_empty() {
            return &exchange.rendered[sent..];
        }
        &plan.bytes[self.bytes.start() + sent..self.bytes.end()]
    }

    #[inline]
    fn sent(&mut self, n: usize, are_all: bool, sink: &mut Sink<'_, Exchange>) -> u32 {
        sink.sent(SLOT, n, are_all);
        u32::from(are_all)
    }

    fn request<'a>(&'a self, _: u32, plan: &'a Plan, exchange: &'a Exchange) -> Cow<'a, [u8]> {
        Cow::Borrowed(if self.bytes.is_empty() { &exchange.rendered } else { plan.slice(self.bytes) })
    }

    // Workers are compiled for several layers, and with more than one caller the compiler would not inline this.
    #[inline(always)]
    fn input(
        &mut self,
        input: &[u8],
        known: &mut KnownHeads,
        sink: &mut Sink<'_, Exchange>,
    ) -> Result<(usize, Heard), AnswerError> {
        sink.answer(SLOT);
        // Nearly always the head arrives whole and nothing was kept.
        let mut kept = std::mem::take(&mut self.kept);
        let due = if kept.is_empty() {
            input
        } else {
            kept.extend_from_slice(input);
            &kept[..]
        };
        let mut at = 0;
        while at < due.len() && !self.parser.is_done() {
            let rest = &due[at..];
            let (used, step) = self.parser.step_known(rest, known, self.request).map_err(malformed)?;
            match step {
                Step::NeedMore => {
                    sink.head_begun(SLOT, rest.len());
                    self.kept = rest.to_vec();
                    return Ok((input.len(), Heard::Nothing));
                }
                Step::Interim => sink.interim(SLOT, used),
                Step::Head(head) => {
                    self.server_keeps = head.keep_alive;
                    sink.head(SLOT, head.status, used);
                }
                Step::Body => sink.body(SLOT, &rest[..used]),
                Step::Framing => sink.framing(SLOT, used),
                Step::Done => break,
            }
            at += used;
        }
        let left_over = due.len() - at;
        kept.clear();
        self.kept = kept;
        Ok((input.len(), self.whole(left_over)?.map_or(Heard::Nothing, Heard::Whole)))
    }

    #[inline]
    fn skippable(&self) -> u64 {
        self.parser.skippable()
    }

    #[inline]
    fn skip(&mut self, n: usize, sink: &mut Sink<'_, Exchange>) -> Result<Option<u32>, AnswerError> {
        let due = self.parser.skippable().min(n as u64);
        self.parser.skipped(due);
        sink.unseen_body(SLOT, due);
        self.whole(n - due as usize)
    }

    fn end(&self, _: u32, _: &Exchange) -> Result<(), AnswerError> {
        match self.parser.at_end() {
            AtEnd::Complete => Ok(()),
            AtEnd::InHead => Err(AnswerError::EndInHead),
            AtEnd::InBody(missing) => Err(AnswerError::EndInBody(missing)),
        }
    }

    /// The answer to the abandoned request will still come, so the connection cannot be used for another.
    #[inline]
    fn abandon(&mut self, _: u32, _: &mut Exchange, _: &mut KnownHeads) -> bool {
        false
    }
}

impl Http1 {
    /// Whether the answer is whole. Bytes after it are an error.
    #[inline]
    fn whole(&self, left_over: usize) -> Result<Option<u32>, AnswerError> {
        match (self.parser.is_done(), left_over) {
            (false, _) => Ok(None),
            (true, 0) => Ok(Some(SLOT)),
            (true, _) => Err(AnswerError::Surplus(left_over)),
        }
    }
}

pub(super) fn malformed(Malformed(what): Malformed) -> AnswerError {
    AnswerError::Malformed(what)
}

/// A link of HTTP/1 has one exchange, stored in the link itself.
impl Exchanges for Exchange {
    const MANY: bool = false;

    #[inline]
    fn slots(&self) -> u32 {
        1
    }

    #[inline]
    fn at(&self, _: u32) -> &Exchange {
        self
    }

    #[inline]
    fn at_mut(&mut self, _: u32) -> &mut Exchange {
        self
    }

    #[inline]
    fn vacant_slot(&mut self) -> u32 {
        SLOT
    }

    #[inline]
    fn over(&mut self, _: u32) {
        self.end();
    }
}
