//! How a response is read: with a copy where it must be looked at, thrown away in the kernel where not; and what is
//! checked when it is whole.

use webstone_model::errors::ErrorClass;
use webstone_model::spec::Check;

use crate::exchange::Progress;
use crate::h1::response::{AtEnd, Malformed, Step};
use crate::link::{Family, HeldOver, LinkState};
use crate::sys::{Backend, DISCARD_BYTES, Received};
use crate::worker::Worker;

/// What one link may bring in a round of the loop. A server that sends faster than it is read would otherwise keep
/// its worker for as long as it likes: no timeout, no other client, no end of the level. An answer within this takes no
/// second round.
const ROUND_BYTES_MAX: usize = 1 << 20;
/// Links that go on in a round behind its events.
const HELD_OVER_MAX: usize = 256;

impl<B: Backend> Worker<B> {
    pub(crate) fn receive(&mut self, index: u32, ended: bool) {
        let mut brought = 0_usize;
        loop {
            let link = &mut self.links[index as usize];
            let socket = link.socket.as_ref().expect("a link that is up has one");
            // Unix sockets copy whatever the flag says, and a body that is looked at must be copied.
            let skippable = link.parser.skippable();
            let skips = skippable > 0
                && link.family != Family::Unix
                && link.exchange.traced == 0
                && self.plan.check != Check::Content;
            let (result, asked) = if skips {
                // One byte more than is due: what a server sends too much must not stay unseen in the queue, where no
                // further event would tell of it.
                let most = skippable.saturating_add(1).min(DISCARD_BYTES as u64) as usize;
                (self.backend.discard(socket, most), most)
            } else if self.stamped == index {
                let taken = self.backend.receive_stamped(socket);
                if let (Ok((_, Some(lag_ns))), true) = (&taken, self.recorder.is_open) {
                    self.recorder.measured.generator.receive_lag.record(*lag_ns);
                }
                (taken.map(|(received, _)| received), self.backend.receives_most())
            } else {
                (self.backend.receive(socket), self.backend.receives_most())
            };
            let now = self.now();
            if brought == 0 {
                self.note_delay(now);
            }
            match result {
                Ok(Received::WouldBlock) => return,
                Ok(Received::End) => return self.stream_ended(index, now),
                Err(error) => return self.broken(index, &error, now),
                Ok(Received::Bytes(n)) => {
                    let is_whole = if skips { self.skipped(index, n) } else { self.parse(index, n, now) };
                    match is_whole {
                        Err(Malformed(what)) => {
                            return self.fail(index, ErrorClass::Malformed, now, |_| what.to_owned());
                        }
                        Ok(Some(left_over)) => return self.finish(index, left_over, ended, now),
                        // Fewer bytes than asked for: the queue is empty, and what comes next brings an event of its
                        // own. If the end has come already there will be none, so read on to it.
                        Ok(None) if n < asked && !ended => return,
                        Ok(None) => {
                            brought += n;
                            if brought >= ROUND_BYTES_MAX {
                                return self.hold_over(index, ended);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Lets the others have their turn. What is still in the queue raises no further event, so the link is noted.
    #[cold]
    fn hold_over(&mut self, index: u32, ended: bool) {
        let link = &mut self.links[index as usize];
        if link.held_over == HeldOver::No {
            self.held_over.push_back(index);
        }
        link.held_over = if ended { HeldOver::Ended } else { link.held_over.max(HeldOver::Open) };
    }

    /// Reads on where the last round left off, the longest waiting first.
    #[cold]
    pub(crate) fn read_on(&mut self) {
        for _ in 0..self.held_over.len().min(HELD_OVER_MAX) {
            let Some(index) = self.held_over.pop_front() else { return };
            let link = &mut self.links[index as usize];
            let held_over = std::mem::replace(&mut link.held_over, HeldOver::No);
            // Meanwhile its request may have ended, and another begun.
            let goes_on = link.state == LinkState::Up && link.exchange.progress != Progress::Over;
            if held_over != HeldOver::No && goes_on {
                self.receive(index, held_over == HeldOver::Ended);
            }
        }
    }

    /// `n` bytes were thrown away. When the response is whole: how many of them lay behind its end.
    #[inline]
    pub(crate) fn skipped(&mut self, index: u32, n: usize) -> Result<Option<usize>, Malformed> {
        let link = &mut self.links[index as usize];
        let due = link.parser.skippable().min(n as u64);
        link.parser.skipped(due);
        link.exchange.body_bytes += due;
        self.recorder.measured.lifetime.received_bytes += n as u64;
        Ok(link.parser.is_done().then_some(n - due as usize))
    }

    /// Parses `n` bytes from the buffer. When the response is whole: how many bytes lie behind its end.
    pub(crate) fn parse(&mut self, index: u32, n: usize, now: u64) -> Result<Option<usize>, Malformed> {
        self.recorder.measured.lifetime.received_bytes += n as u64;
        if self.links[index as usize].exchange.traced > 0 {
            self.trace_received(index, n);
        }
        let link = &mut self.links[index as usize];
        if link.exchange.first_byte_ns == 0 {
            link.exchange.first_byte_ns = now;
            link.exchange.deadline_ns = link.exchange.start_ns + self.plan.request_timeout_ns;
        }
        // Nearly always the head comes whole and nothing was kept.
        let mut kept = std::mem::take(&mut link.kept);
        let input = if kept.is_empty() {
            self.backend.bytes(n)
        } else {
            kept.extend_from_slice(self.backend.bytes(n));
            &kept[..]
        };
        let mut at = 0;
        while at < input.len() && !link.parser.is_done() {
            let (used, step) =
                link.parser.step_known(&input[at..], &mut self.known_heads, link.exchange.request)?;
            match step {
                Step::NeedMore => {
                    link.exchange.begun_head_bytes = (input.len() - at) as u32;
                    link.kept = input[at..].to_vec();
                    return Ok(None);
                }
                Step::Interim => {
                    link.exchange.begun_head_bytes = 0;
                    link.exchange.head_bytes += used as u64;
                }
                Step::Head(head) => {
                    link.exchange.head_bytes += used as u64;
                    link.exchange.begun_head_bytes = 0;
                    link.exchange.status = head.status;
                    link.server_keeps = head.keep_alive;
                    link.exchange.headers_done_ns = now;
                    if self.plan.contents.is_some() {
                        link.exchange.body_sum.get_or_insert_default().clear();
                    }
                }
                Step::Body => {
                    if let Some(sum) = &mut link.exchange.body_sum {
                        sum.extend(&input[at..at + used]);
                    }
                    link.exchange.body_bytes += used as u64;
                }
                Step::Framing => link.exchange.framing_bytes += used as u64,
                Step::Done => break,
            }
            at += used;
        }
        let left_over = input.len() - at;
        kept.clear();
        link.kept = kept;
        Ok(link.parser.is_done().then_some(left_over))
    }

    pub(crate) fn stream_ended(&mut self, index: u32, now: u64) {
        let link = &self.links[index as usize];
        match link.parser.at_end() {
            AtEnd::Complete => self.finish(index, 0, true, now),
            AtEnd::InHead if self.may_retry(index) => self.retry(index, now),
            AtEnd::InHead => self.fail(index, ErrorClass::ClosedEarly, now, |c| match c.received_bytes() {
                0 => "the connection was closed before an answer".to_owned(),
                n => format!("the connection was closed {n} bytes into the head"),
            }),
            AtEnd::InBody(missing) => self.fail(index, ErrorClass::ShortBody, now, |c| match missing {
                Some(missing) => {
                    format!("the connection was closed {missing} bytes before the end of the body")
                }
                None => format!("the connection was closed {} bytes into a chunked body", c.body_bytes),
            }),
        }
    }

    /// The response is whole: check it, write it down, decide what becomes of the link, and let the client go on.
    pub(crate) fn finish(&mut self, index: u32, left_over: usize, ended: bool, now: u64) {
        let link = &self.links[index as usize];
        let request = self.plan.requests[link.exchange.request as usize];
        if left_over > 0 {
            return self.fail(index, ErrorClass::Malformed, now, |_| {
                format!("{left_over} bytes behind the end of the response")
            });
        }
        if link.exchange.progress == Progress::Sending {
            return self.answered_early(index, now);
        }
        if !status_fits(request.status, link.exchange.status) {
            return self.refuse(index, ErrorClass::WrongStatus, ended, now, |c| {
                format!("status {} instead of {}", c.status, expected(request.status))
            });
        }
        if request.size != u64::MAX && link.exchange.body_bytes != request.size {
            return self.refuse(index, ErrorClass::WrongLength, ended, now, |c| {
                format!("a body of {} bytes instead of {}", c.body_bytes, request.size)
            });
        }
        if let Some(contents) = &self.plan.contents
            && !contents
                .accepts(link.exchange.request, link.exchange.body_sum.as_ref().map_or(0, |sum| sum.value()))
        {
            return self.refuse(index, ErrorClass::WrongContent, ended, now, |c| {
                format!("a body of {} bytes with another content than the generated file", c.body_bytes)
            });
        }
        let client = link.exchange.client;
        self.recorder.succeeded(&self.plan, &link.exchange, now);
        if self.trace.is_some() || self.transactions.is_some() {
            self.note_ended(index, None, "whole", now);
        }
        self.part(index, ended, now);
        self.request_ended(client, true);
        self.advance(client, now);
    }
    /// A whole answer came while the request was still being written. The server has decided without having read it, so
    /// it answers no more than the request's head; and what is left of the request stands where the next one would begin,
    /// so the connection ends here (RFC 9112 sections 9.3 and 9.5). A refusal that the workload expects is a success.
    #[cold]
    fn answered_early(&mut self, index: u32, now: u64) {
        let link = &self.links[index as usize];
        let request = self.plan.requests[link.exchange.request as usize];
        if !status_fits(request.status, link.exchange.status) {
            return self.fail(index, ErrorClass::WrongStatus, now, |c| {
                format!(
                    "status {} instead of {}, before the whole request was written",
                    c.status,
                    expected(request.status)
                )
            });
        }
        if link.exchange.status < 400 {
            let sent = link.sent;
            return self.fail(index, ErrorClass::AnsweredEarly, now, |c| {
                format!("status {} when {sent} bytes of the request were written, and not all", c.status)
            });
        }
        let client = link.exchange.client;
        self.recorder.succeeded(&self.plan, &link.exchange, now);
        if self.trace.is_some() || self.transactions.is_some() {
            self.note_ended(index, None, "whole", now);
        }
        self.links[index as usize].exchange.end();
        self.drop_link(index);
        self.request_ended(client, true);
        self.advance(client, now);
    }
}

/// Whether a status is the one that was asked for; 0 asks for any from 200 to 299.
#[inline]
fn status_fits(asked: u16, status: u16) -> bool {
    if asked == 0 { (200..300).contains(&status) } else { status == asked }
}

fn expected(asked: u16) -> String {
    if asked == 0 { "200 to 299".to_owned() } else { asked.to_string() }
}
