//! Reading responses, and checking complete ones. Bodies are copied if their content is needed, otherwise discarded in
//! the kernel.

use std::ops::Range;

use webstone_measure::errors::ErrorClass;
use webstone_workload::load::Check;

use crate::exchange::{ExchangeId, Exchanges, Marks, Progress};
use crate::layer::Layer;
use crate::link::{Family, HeldOver, LinkState};
use crate::plan::{LISTED, Plan, RequestPlan};
use crate::session::{AnswerError, Heard, Session, Sink};
use crate::sys::{Backend, DISCARD_BYTES, Received};
use crate::worker::Worker;

/// How much is read from one link in a round of the loop. A server that sends faster than it is read would otherwise
/// occupy its worker for as long as it likes: no timeout, no other client, no end of the level. Answers up to this
/// size take a single round.
pub(crate) const ROUND_BYTES_MAX: usize = 1 << 20;
/// Maximum content of a TLS record in bytes (RFC 8446, section 5.1).
const RECORD_BYTES: u64 = 16 << 10;
/// Minimum and maximum number of body bytes over TLS that are waited for at once: two records, and what fits one
/// read.
const AWAITED_BYTES_MIN: u64 = 2 * RECORD_BYTES;
const AWAITED_BYTES_MAX: u64 = 8 * RECORD_BYTES;
/// The status of a request that the server does not process as early data (RFC 8470 section 5.2).
const TOO_EARLY: u16 = 425;
/// Maximum number of held-over links that are read from in a round, after its events.
const HELD_OVER_MAX: usize = 256;

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    pub(crate) fn receive(&mut self, index: u32, ended: bool) {
        match self.lines.are_limited() {
            true => self.await_line(index, ended),
            false => self.take_in(index, ended, usize::MAX),
        }
    }

    /// Reads up to `most` bytes.
    #[inline(always)]
    pub(crate) fn take_in(&mut self, index: u32, ended: bool, most: usize) {
        let mut brought = 0_usize;
        let connection = self.links[index].connection;
        loop {
            let link = &mut self.links[index];
            let socket = link.socket.as_ref().expect("a link that is up has one");
            // MSG_TRUNC has no effect on Unix sockets, and a body whose content is needed must be copied.
            let skippable = link.session.skippable();
            let skips = L::IS_PLAIN
                && skippable > 0
                && link.family != Family::Unix
                && link.exchanges.traced().is_none()
                && self.plan.check != Check::Content;
            let (result, asked) = if skips {
                // One byte more than expected: if the server sends too much, that must not stay unnoticed in the
                // queue, as no further event would report it.
                let most =
                    (skippable.saturating_add(1).min(DISCARD_BYTES as u64) as usize).min(most - brought);
                (self.backend.discard(socket, most), most)
            } else if most != usize::MAX {
                let most = self.backend.receives_most().min(most - brought);
                (self.backend.receive_up_to(socket, most), most)
            } else if self.sampling.is_stamped(index) {
                let taken = self.backend.receive_stamped(socket);
                if let Ok((_, Some(lag_ns))) = &taken {
                    self.recorder.receive_lag(*lag_ns);
                }
                (taken.map(|(received, _)| received), self.backend.receives_most())
            } else {
                (self.backend.receive(socket), self.backend.receives_most())
            };
            let now = self.now();
            if brought == 0 && most == usize::MAX {
                self.note_delay(now);
            }
            match result {
                Ok(Received::WouldBlock) => return self.await_body(index),
                Ok(Received::End) => return self.stream_ended(index, now),
                Err(error) => return self.broken(index, &error, now),
                Ok(Received::Bytes(n)) => {
                    match if skips { self.skip(index, n, now) } else { self.hear(index, 0..n, now) } {
                        Err(failure) => {
                            return self.fail_link_by(index, failure, now);
                        }
                        // What clients did next may have ended the connection.
                        Ok(_) if P::Exchanges::MANY && !self.is_still_up(index, connection) => return,
                        Ok(Some(slot)) => {
                            // The next answer may be shorter than the number of bytes waited for in this one.
                            self.awaits(index, 1);
                            return self.finish(ExchangeId { link: index, slot }, ended, now);
                        }
                        // The layer has received the end, and the server may wait for the client to close first.
                        Ok(None) if !L::IS_PLAIN && self.links[index].layer.is_ended() => {
                            self.say_last_words(index);
                            return self.stream_ended(index, now);
                        }
                        // Fewer bytes than asked for: the queue is empty, and the next bytes bring an event of their
                        // own. If the end has already come there will be no event, so read up to it.
                        Ok(None) if n < asked && !ended => return self.await_body(index),
                        Ok(None) => {
                            brought += n;
                            if brought >= most {
                                return;
                            }
                            if brought >= ROUND_BYTES_MAX {
                                // Gives the other links a turn. What is still in the queue raises no further event.
                                return self.links.hold_over(index, ended);
                            }
                        }
                    }
                }
            }
        }
    }

    /// For a large encrypted body, waits for many records at once: waking up for each would cost more than decrypting
    /// it. The last records are waited for one by one, so that no measured instant is late. For bodies that are
    /// discarded in the kernel this would gain nothing: there, a server that finds the queue full stalls.
    #[inline]
    fn await_body(&mut self, index: u32) {
        let link = &mut self.links[index];
        if L::IS_PLAIN || P::Exchanges::MANY || link.family == Family::Unix || self.lines.are_limited() {
            return;
        }
        // The wire has more bytes than the body, so that all that are waited for will come.
        let bytes = match link.session.skippable() {
            u64::MAX => 0,
            left => left.saturating_sub(RECORD_BYTES).min(AWAITED_BYTES_MAX),
        };
        self.awaits(index, if bytes < AWAITED_BYTES_MIN { 1 } else { bytes as u32 });
    }

    /// Makes the socket of a link report only once this many bytes have arrived, unless it does so already.
    #[inline]
    fn awaits(&mut self, index: u32, bytes: u32) {
        let link = &mut self.links[index];
        if link.layer.awaits(bytes)
            && let Some(socket) = &link.socket
        {
            self.backend.awaits(socket, bytes);
        }
    }

    /// Continues to read held-over links, the longest waiting first.
    #[cold]
    pub(crate) fn read_on(&mut self) {
        for _ in 0..self.links.held_over().min(HELD_OVER_MAX) {
            let Some((index, held_over)) = self.links.next_held_over() else { return };
            // Its exchange may have ended meanwhile, and another begun.
            let link = &self.links[index];
            if held_over != HeldOver::No
                && link.state.is_up()
                && (P::Exchanges::MANY || link.exchanges.any_in_progress())
            {
                self.receive(index, held_over == HeldOver::Ended);
            }
        }
    }

    /// `n` bytes were discarded. Returns the slot whose answer they complete.
    #[inline]
    fn skip(&mut self, index: u32, n: usize, now: u64) -> Result<Option<u32>, AnswerError> {
        self.recorder.received(n);
        let link = &mut self.links[index];
        let mut sink = Sink { exchanges: &mut link.exchanges, plan: &self.plan, now };
        link.session.skip(n, &mut sink)
    }

    /// Passes bytes of the buffer to the session. Returns the slot whose answer they complete, if the link carries
    /// one at a time. If it carries many, each is finished as it becomes complete.
    #[inline(always)]
    pub(crate) fn hear(
        &mut self,
        index: u32,
        wire: Range<usize>,
        now: u64,
    ) -> Result<Option<u32>, AnswerError> {
        let n = wire.end;
        self.recorder.received(wire.len());
        if L::IS_PLAIN
            && !P::Exchanges::MANY
            && let Some(slot) = self.links[index].exchanges.traced()
        {
            self.trace_received(ExchangeId { link: index, slot }, n);
        }
        let link = &mut self.links[index];
        let connection = link.connection;
        let due = link.layer.unseal(&self.backend.bytes(n)[wire.start..], &mut self.layers)?;
        if !L::IS_PLAIN {
            if link.layer.must_send() && link.state == LinkState::Up && self.send_for_layer(index).is_err() {
                // The next read reports why it failed.
                return Ok(None);
            }
            self.note_handshake(index, now);
            // The layer needed all bytes for itself.
            if due == 0 {
                return Ok(None);
            }
            // Frames are traced in words, each for the exchange that it belongs to.
            if !P::Exchanges::MANY
                && let Some(slot) = self.links[index].exchanges.traced()
            {
                self.trace_unsealed(ExchangeId { link: index, slot }, wire.clone());
            }
        }
        let mut taken = 0;
        loop {
            let link = &mut self.links[index];
            let mut sink = Sink { exchanges: &mut link.exchanges, plan: &self.plan, now };
            let input = &link.layer.plain(&self.backend.bytes(n)[wire.start..], &self.layers)[taken..];
            let (used, heard) = link.session.input(input, &mut self.memory, &mut sink)?;
            taken += used;
            if !P::Exchanges::MANY {
                return Ok(if let Heard::Whole(slot) = heard { Some(slot) } else { None });
            }
            while let Some((slot, text)) = self.links[index].session.take_text() {
                self.trace_text(ExchangeId { link: index, slot }, &text);
            }
            self.take_heard(index, heard, now);
            // What clients did next may have ended the connection, and begun another in its place. It need not be up: this
            // may have come with the end of the handshake.
            let link = &self.links[index];
            if taken == due || link.state == LinkState::Free || link.connection != connection {
                self.links.mark_due(index);
                return Ok(None);
            }
        }
    }

    /// Acts on what the session reported about one of many exchanges on a link.
    #[inline]
    pub(crate) fn take_heard(&mut self, index: u32, heard: Heard, now: u64) {
        let at = |slot| ExchangeId { link: index, slot };
        match heard {
            Heard::Nothing => {}
            Heard::Whole(slot) => self.finish(at(slot), false, now),
            Heard::WholeAndLast(slot) => {
                let connection = self.links[index].connection;
                self.finish(at(slot), false, now);
                if self.is_still_up(index, connection) {
                    self.capacity_changed(index, now);
                }
            }
            Heard::Failed(slot, failure) => {
                self.end_in_error_by(at(slot), failure, now);
                self.settle(index, now);
            }
            Heard::Refused(slot, class) => {
                self.refused(at(slot), class, now);
                self.settle(index, now);
            }
            Heard::Capacity => self.capacity_changed(index, now),
            Heard::GivenUp(failure) => self.given_up(index, failure, now),
        }
    }

    /// Whether a link is up and still has the same connection as before.
    #[inline]
    pub(crate) fn is_still_up(&self, index: u32, connection: u32) -> bool {
        let link = &self.links[index];
        link.state.is_up() && link.connection == connection
    }

    /// The peer sends no more. This completes an answer; otherwise its request is retried, or has failed.
    fn stream_ended(&mut self, index: u32, now: u64) {
        self.no_more_on(index);
        // A request may have been sent as early data.
        let is_shaking = !self.links[index].layer.is_agreed();
        self.note_failed_handshake(index);
        for slot in 0..self.links[index].exchanges.slots() {
            let at = ExchangeId { link: index, slot };
            let link = &self.links[index];
            if link.exchanges.at(slot).progress == Progress::Over {
                continue;
            }
            let is_cut = !link.layer.may_end();
            match link.session.end(slot, &link.exchanges) {
                Ok(()) if is_cut => {
                    self.end_in_error_by(at, AnswerError::Cut, now);
                }
                Ok(()) => return self.finish(at, true, now),
                Err(_) if self.may_retry(at) => self.retry(at, now),
                Err(failure) => {
                    let failure = match failure {
                        _ if is_shaking => AnswerError::EndInHandshake,
                        _ if is_cut && !self.links.exchange(at).is_unanswered() => AnswerError::Cut,
                        failure => failure,
                    };
                    self.end_in_error_by(at, failure, now);
                }
            }
        }
        self.drop_link(index);
    }

    /// The response is complete: checks and counts it, decides what happens to the link, and lets the client
    /// continue.
    pub(crate) fn finish(&mut self, at: ExchangeId, ended: bool, now: u64) {
        let exchange = self.links.exchange(at);
        let request = self.plan.requests[exchange.request as usize];
        if exchange.progress == Progress::Sending {
            return self.answered_early(at, now);
        }
        if !self.plan.status_fits(request.status, exchange.status) {
            if exchange.status == TOO_EARLY
                && exchange.marks.has(Marks::EARLY)
                && !exchange.marks.has(Marks::TOO_EARLY)
            {
                return self.send_after_handshake(at, ended, now);
            }
            let plan = self.plan.clone();
            return self.refuse(at, ErrorClass::WrongStatus, ended, now, &|e| {
                format!("status {} instead of {}", e.status, plan.expected_in_words(request.status))
            });
        }
        if request.size != u64::MAX
            && exchange.body_bytes != request.size
            && self.plan.has_body(&request, exchange.status)
        {
            return self.refuse(at, ErrorClass::WrongLength, ended, now, &|e| {
                format!("a body of {} bytes instead of {}", e.body_bytes, request.size)
            });
        }
        if let Some(contents) = &self.plan.contents
            && !contents.accepts(exchange.request, exchange.body_sum.as_ref().map_or(0, |sum| sum.value()))
            && self.plan.has_body(&request, exchange.status)
        {
            return self.refuse(at, ErrorClass::WrongContent, ended, now, &|e| {
                format!("a body of {} bytes whose content differs from the generated file", e.body_bytes)
            });
        }
        let client = exchange.client;
        self.record_success(at, now);
        if self.observer.is_there() {
            self.note_ended(at, None, "whole", now);
        }
        self.part(at, ended, now);
        self.clients.request_ended(client, true);
        self.advance(client, now);
    }

    /// Counts a request that ended with a valid answer.
    #[inline(always)]
    fn record_success(&mut self, at: ExchangeId, now: u64) {
        let link = &mut self.links[at.link];
        let is_first = !std::mem::replace(&mut link.answered, true);
        self.recorder.succeeded(&self.plan, link.exchanges.at(at.slot), is_first, now);
    }

    /// A whole answer came while the request was still being sent. The server decided without reading the request's
    /// body, and the rest of the body would be taken for the next request, so the connection ends here (RFC 9112
    /// sections 9.3 and 9.5). If the workload expects this status, it is a success.
    #[cold]
    fn answered_early(&mut self, at: ExchangeId, now: u64) {
        let exchange = self.links.exchange(at);
        let request = self.plan.requests[exchange.request as usize];
        if !self.plan.status_fits(request.status, exchange.status) {
            let plan = self.plan.clone();
            return self.fail(at, ErrorClass::WrongStatus, now, &|e| {
                let expected = plan.expected_in_words(request.status);
                format!("status {} instead of {expected}, before the whole request was sent", e.status)
            });
        }
        if exchange.status < 400 {
            return self.fail(at, ErrorClass::AnsweredEarly, now, &|e| {
                format!("status {} after only {} bytes of the request were sent", e.status, e.sent)
            });
        }
        let client = exchange.client;
        self.record_success(at, now);
        if self.observer.is_there() {
            self.note_ended(at, None, "whole", now);
        }
        self.give_up(at);
        self.clients.request_ended(client, true);
        self.advance(client, now);
    }
}

impl Plan {
    /// Whether a status is an expected one.
    #[inline]
    fn status_fits(&self, asked: u16, status: u16) -> bool {
        match asked {
            0 => (200..300).contains(&status),
            LISTED => self.expected.has(status),
            asked => status == asked,
        }
    }

    fn expected_in_words(&self, asked: u16) -> String {
        match asked {
            0 => "200 to 299".to_owned(),
            LISTED => self.expected.in_words(),
            asked => asked.to_string(),
        }
    }

    /// Whether an answer must have the length and content of its file. One that is not 2xx, but expected, has a body of its own.
    #[cold]
    fn has_body(&self, request: &RequestPlan, status: u16) -> bool {
        request.status != LISTED || (200..300).contains(&status)
    }
}
