//! HTTP/1.1 with several requests on a link at a time (RFC 9112, section 9.3.2): sent one after the other, answered in the same order. Each
//! is of another client, so that each has instants of its own. Requests are copied into one buffer for all of them, and sent together.
//!
//! The answer to a request that was given up still arrives. No more requests then begin on the link, which ends after the last answer that
//! is awaited.

use std::borrow::Cow;
use std::collections::VecDeque;

use webstone_measure::metrics::Measured;

use super::known_heads::KnownHeads;
use super::response::{AtEnd, ResponseParser, Step};
use super::session::malformed;
use crate::exchange::{Exchange, Exchanges, Progress};
use crate::plan::{NO_TEMPLATE, Plan};
use crate::session::{AnswerError, Heard, Session, Sink, Start};

/// In place of a slot: nobody awaits the answer any more.
const GIVEN_UP: u32 = u32::MAX;

/// Whole requests that were sent stay in the buffer until they are this long together: removing them moves the rest.
const FORGOTTEN_BYTES_MIN: usize = 256 << 10;

/// State shared by the sessions of a worker.
pub(crate) struct Memory {
    known: KnownHeads,
    /// Requests sent again because the server ended the connection, as announced, before it answered them.
    refused: u64,
    /// The same when the window opened.
    refused_at_open: u64,
}

/// A request on its way, or whose answer is being read.
#[derive(Clone, Copy, Debug)]
struct Turn {
    slot: u32,
    request: u32,
    is_head: bool,
    /// Where the request begins in [`Pipelined::out`], as long as that has its last byte.
    begun: usize,
}

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Pipelined {
    /// Parses the answer of the first turn.
    parser: ResponseParser,
    turns: VecDeque<Turn>,
    depth: u32,
    /// Bytes to send, and how many of them were sent.
    out: Vec<u8>,
    sent: usize,
    /// Requests whose last byte is in `out`: its position, the slot, the serial number.
    ends: VecDeque<(usize, u32, u64)>,
    /// The part of a head that has arrived so far.
    kept: Vec<u8>,
    /// A request announced that it is the last.
    is_last: bool,
    /// The server has announced that it will end the connection after the answer in this slot.
    closes_with: Option<u32>,
    /// A request was given up.
    is_given_up: bool,
    /// Answers of traced requests, as they came.
    told: VecDeque<(u32, Vec<u8>)>,
}

impl Default for Pipelined {
    fn default() -> Pipelined {
        Pipelined {
            parser: ResponseParser::new(false),
            turns: VecDeque::new(),
            depth: 0,
            out: Vec::new(),
            sent: 0,
            ends: VecDeque::new(),
            kept: Vec::new(),
            is_last: false,
            closes_with: None,
            is_given_up: false,
            told: VecDeque::new(),
        }
    }
}

impl Session for Pipelined {
    type Exchanges = Queue;
    type Memory = Memory;

    fn memory(plan: &Plan, _: u32) -> Memory {
        Memory { known: KnownHeads::new(plan.requests.len()), refused: 0, refused_at_open: 0 }
    }

    fn count_refused(memory: &mut Memory, is_sent_again: bool) {
        memory.refused += u64::from(is_sent_again);
    }

    fn open_window<'a>(memory: &mut Memory, _: impl Iterator<Item = &'a Self>) {
        memory.refused_at_open = memory.refused;
    }

    fn close_window<'a>(
        memory: &mut Memory,
        measured: &mut Measured,
        _: impl Iterator<Item = &'a Self>,
        _is_slice: bool,
    ) {
        measured.counts.stale_retries += memory.refused - memory.refused_at_open;
    }

    fn open(&mut self, plan: &Plan) {
        self.turns.clear();
        self.depth = plan.clients_per_connection;
        self.out.clear();
        self.sent = 0;
        self.ends.clear();
        self.kept.clear();
        self.is_last = false;
        self.closes_with = None;
        self.is_given_up = false;
    }

    fn goes_on(&self) -> bool {
        !self.is_last && !self.is_given_up && self.closes_with.is_none()
    }

    fn capacity(&self) -> u32 {
        if self.goes_on() { self.depth.saturating_sub(self.turns.len() as u32) } else { 0 }
    }

    fn begin(&mut self, start: Start<'_>, queue: &mut Queue, _: &mut Memory) {
        let Start { slot, number, request, is_last, plan } = start;
        self.is_last = is_last;
        let begun = self.out.len();
        let serial = queue.begun(slot);
        let exchange = queue.at_mut(slot);
        exchange.progress = Progress::Sending;
        self.out.extend_from_slice(match request.template {
            NO_TEMPLATE if is_last => plan.slice(request.last),
            NO_TEMPLATE => plan.slice(request.keep),
            _ => &exchange.rendered,
        });
        exchange.sent = (self.out.len() - begun) as u32;
        self.ends.push_back((self.out.len(), slot, serial));
        if self.turns.is_empty() {
            self.parser = ResponseParser::new(request.is_head);
        }
        self.turns.push_back(Turn { slot, request: number, is_head: request.is_head, begun });
    }

    fn unsent<'a>(&'a self, _: &'a Plan, _: &'a Queue) -> &'a [u8] {
        &self.out[self.sent..]
    }

    fn sent(&mut self, n: usize, _: bool, sink: &mut Sink<'_, Queue>) -> u32 {
        self.sent += n;
        let (mut requests, mut whole) = (0, 0);
        while let Some((end, slot, serial)) = self.ends.front().copied() {
            if end > self.sent {
                break;
            }
            self.ends.pop_front();
            whole = end;
            if sink.exchanges.serial(slot) == serial {
                sink.sent(slot, 0, true);
                requests += 1;
            }
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        } else if whole >= FORGOTTEN_BYTES_MIN {
            self.forget(whole);
        }
        requests
    }

    fn request<'a>(&'a self, slot: u32, plan: &'a Plan, queue: &'a Queue) -> Cow<'a, [u8]> {
        let exchange = queue.at(slot);
        let request = &plan.requests[exchange.request as usize];
        Cow::Borrowed(match request.template {
            NO_TEMPLATE => plan.slice(request.keep),
            _ => &exchange.rendered,
        })
    }

    fn input(
        &mut self,
        input: &[u8],
        memory: &mut Memory,
        sink: &mut Sink<'_, Queue>,
    ) -> Result<(usize, Heard), AnswerError> {
        let mut kept = std::mem::take(&mut self.kept);
        // What was kept is the beginning of a head, which continues in the input.
        let held = kept.len();
        let due = if held == 0 {
            input
        } else {
            kept.extend_from_slice(input);
            &kept[..]
        };
        let mut at = 0;
        while at < due.len() {
            let rest = &due[at..];
            let Some(Turn { slot, request, .. }) = self.turns.front().copied() else {
                return Err(AnswerError::Surplus(rest.len()));
            };
            let is_awaited = slot != GIVEN_UP;
            if is_awaited {
                sink.answer(slot);
            }
            let (used, step) = self.parser.step_known(rest, &mut memory.known, request).map_err(malformed)?;
            let mut closes = false;
            match step {
                Step::NeedMore => {
                    if is_awaited {
                        sink.head_begun(slot, rest.len());
                    }
                    self.kept = rest.to_vec();
                    return Ok((input.len(), Heard::Nothing));
                }
                Step::Head(head) => {
                    closes = !head.keep_alive;
                    if is_awaited {
                        sink.head(slot, head.status, used);
                    }
                }
                Step::Interim if is_awaited => sink.interim(slot, used),
                Step::Body if is_awaited => sink.body(slot, &rest[..used]),
                Step::Framing if is_awaited => sink.framing(slot, used),
                Step::Interim | Step::Body | Step::Framing | Step::Done => {}
            }
            if is_awaited && sink.exchanges.at(slot).traced > 0 {
                self.told.push_back((slot, rest[..used].to_vec()));
            }
            at += used;
            if closes {
                self.closes_with = Some(slot);
            }
            if self.parser.is_done() {
                self.turns.pop_front();
                if at < due.len() && !self.awaits_answer(sink.exchanges) {
                    return Err(AnswerError::Surplus(due.len() - at));
                }
                self.parser = ResponseParser::new(self.turns.front().is_some_and(|next| next.is_head));
                match (is_awaited, self.closes_with) {
                    // The server answers none of the others.
                    (true, Some(_)) => return Ok((at - held, Heard::WholeAndLast(slot))),
                    (true, None) => return Ok((at - held, Heard::Whole(slot))),
                    (false, Some(_)) => return Ok((at - held, Heard::Capacity)),
                    (false, None) => {}
                }
            } else if closes {
                return Ok((at - held, Heard::Capacity));
            }
        }
        Ok((input.len(), Heard::Nothing))
    }

    fn end(&self, slot: u32, _: &Queue) -> Result<(), AnswerError> {
        if self.turns.front().is_none_or(|turn| turn.slot != slot) {
            return Err(AnswerError::EndInHead);
        }
        match self.parser.at_end() {
            AtEnd::Complete => Ok(()),
            AtEnd::InHead => Err(AnswerError::EndInHead),
            AtEnd::InBody(missing) => Err(AnswerError::EndInBody(missing)),
        }
    }

    fn take_text(&mut self) -> Option<(u32, Vec<u8>)> {
        self.told.pop_front()
    }

    fn abandon(&mut self, slot: u32, _: &mut Queue, _: &mut Memory) -> bool {
        self.is_given_up = true;
        self.turns.iter_mut().filter(|turn| turn.slot == slot).for_each(|turn| turn.slot = GIVEN_UP);
        true
    }

    fn is_passed_over(&self, slot: u32, _: &Queue) -> bool {
        self.closes_with.is_some_and(|last| last != slot)
    }
}

impl Pipelined {
    /// Removes whole requests that were sent, which are this long together: where some bytes always wait to be sent, the buffer would
    /// grow by all that was ever sent.
    fn forget(&mut self, whole: usize) {
        self.out.drain(..whole);
        self.sent -= whole;
        self.ends.iter_mut().for_each(|(end, ..)| *end -= whole);
        self.turns.iter_mut().for_each(|turn| turn.begun = turn.begun.saturating_sub(whole));
    }

    /// Whether the first request without an answer has been sent, at least in part. Nothing can answer one that was begun,
    /// but is still in the buffer.
    fn awaits_answer(&self, queue: &Queue) -> bool {
        self.turns.front().is_some_and(|next| {
            let is_sent = next.slot == GIVEN_UP || queue.at(next.slot).progress != Progress::Sending;
            is_sent || next.begun < self.sent
        })
    }
}

/// The exchanges of a link: a slab whose slots are reused.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    slots: Vec<Place>,
    vacant: Vec<u32>,
    waiting: VecDeque<u32>,
    in_progress: u32,
    serial: u64,
}

#[derive(Debug, Default)]
struct Place {
    exchange: Exchange,
    /// Serial number of the request in this slot; 0 if it is over.
    serial: u64,
}

impl Queue {
    fn begun(&mut self, slot: u32) -> u64 {
        self.serial += 1;
        self.slots[slot as usize].serial = self.serial;
        self.serial
    }

    fn serial(&self, slot: u32) -> u64 {
        self.slots[slot as usize].serial
    }
}

impl Exchanges for Queue {
    const MANY: bool = true;

    fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    fn at(&self, slot: u32) -> &Exchange {
        &self.slots[slot as usize].exchange
    }

    fn at_mut(&mut self, slot: u32) -> &mut Exchange {
        &mut self.slots[slot as usize].exchange
    }

    fn vacant_slot(&mut self) -> u32 {
        self.in_progress += 1;
        self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Place::default());
            self.slots.len() as u32 - 1
        })
    }

    fn take(&mut self, slot: u32) -> Exchange {
        let progress = self.at(slot).progress;
        let exchange = std::mem::take(self.at_mut(slot));
        // `over` needs the progress to remove the slot from the waiting ones.
        self.at_mut(slot).progress = progress;
        self.over(slot);
        exchange
    }

    fn over(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if place.exchange.progress == Progress::Waiting {
            self.waiting.retain(|waiting| *waiting != slot);
        }
        place.exchange.end();
        place.serial = 0;
        self.vacant.push(slot);
        self.in_progress -= 1;
    }

    fn wait(&mut self, slot: u32) {
        self.waiting.push_back(slot);
    }

    fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    fn any_in_progress(&self) -> bool {
        self.in_progress > 0
    }
}
