//! Passes on what happened: events of a batch, and deadlines that have passed.

use webstone_measure::errors::ErrorClass;

use crate::exchange::{ExchangeId, Exchanges};
use crate::layer::Layer;
use crate::link::LinkState;
use crate::session::Session;
use crate::sys::{Backend, Event};
use crate::worker::{ECHO_TOKEN, RESOLVER_TOKEN, Worker};

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Handles one event of the batch.
    #[inline]
    pub(crate) fn handle(&mut self, event: Event) {
        self.deal(event);
        if P::Exchanges::MANY {
            self.flush();
        }
    }

    #[inline(always)]
    fn deal(&mut self, event: Event) {
        if event.token >= ECHO_TOKEN {
            return match event.token {
                RESOLVER_TOKEN => self.take_answers(),
                ECHO_TOKEN => self.echo(),
                _ => self.ticked(),
            };
        }
        let index = event.token as u32;
        let link = &self.links[index];
        // The descriptor was connected again within this round: the event is about the previous connection.
        if self.clock.is_of_this_round(link.opened_in_round, link.connect_begun_ns) {
            return;
        }
        if P::DATAGRAMS {
            return self.receive_datagrams(index);
        }
        // Nearly always an answer has arrived.
        if link.state == LinkState::Up {
            if !(event.readable || event.ended) {
                return;
            }
            return match P::Exchanges::MANY || link.exchanges.any_in_progress() {
                true => self.receive(index, event.ended),
                false => self.idle_event(index),
            };
        }
        match link.state {
            LinkState::Full => self.room(index, event),
            LinkState::Connecting if event.error => self.connect_failed(index),
            LinkState::Connecting if event.writable => {
                let now = self.now();
                self.note_delay(now);
                self.connected(index, now);
            }
            LinkState::Lingering => self.linger(index),
            LinkState::Handshaking if !L::IS_PLAIN => {
                let is_asked = event.readable || event.ended;
                match is_asked && self.lines.are_limited() {
                    true => self.await_line(index, event.ended),
                    false => self.shake_hands(index, is_asked, event.ended, usize::MAX),
                }
            }
            _ => {}
        }
    }

    /// Handles an event of a link whose socket was full. A server may answer, or close, before it has read the whole
    /// request, so it is heard first: after a reset, sending fails, but what it wrote before is still in the queue
    /// (RFC 9112, section 9.5).
    fn room(&mut self, index: u32, event: Event) {
        let now = self.now();
        self.note_delay(now);
        let connection = self.links[index].connection;
        if event.readable || event.ended {
            self.receive(index, event.ended);
        }
        let link = &mut self.links[index];
        if event.writable && link.state == LinkState::Full && link.connection == connection {
            link.state = LinkState::Up;
            let now = self.now();
            self.send(index, now);
        }
    }

    /// Fails every exchange that is past its deadline, and closes connections that servers should have closed but did not.
    pub(crate) fn enforce_deadlines(&mut self, now: u64) {
        for index in self.links.indices() {
            // Exchanges that were due before their link has its error; the others end with the link.
            let link_ns = self.links[index].deadline_ns;
            for slot in 0..self.links[index].exchanges.slots() {
                let deadline_ns = self.links[index].exchanges.at(slot).deadline_ns;
                if now >= deadline_ns && deadline_ns < link_ns {
                    self.exchange_timed_out(ExchangeId { link: index, slot }, now);
                }
            }
            if now >= self.links[index].deadline_ns {
                self.link_timed_out(index, now);
            }
        }
    }

    #[cold]
    fn link_timed_out(&mut self, index: u32, now: u64) {
        match self.links[index].state {
            LinkState::Resolving | LinkState::Connecting | LinkState::Handshaking => {
                let limit = self.plan.connect_timeout_ns;
                if P::DATAGRAMS
                    && let Some(silence) =
                        self.links[index].session.silence(&webstone_measure::units::Nanos(limit).to_string())
                {
                    return self.fail_link_by(index, silence, now);
                }
                self.fail_link(index, ErrorClass::ConnectTimeout, now, &|_| after(limit));
            }
            LinkState::Lingering => {
                self.recorder.lingered();
                self.drop_link(index);
            }
            LinkState::Free | LinkState::Up | LinkState::Full => {}
        }
    }

    #[cold]
    fn exchange_timed_out(&mut self, at: ExchangeId, now: u64) {
        let limit = self.plan.request_timeout_ns;
        if now - self.links.exchange(at).start_ns >= limit {
            return self.fail(at, ErrorClass::RequestTimeout, now, &|exchange| {
                format!("{}, with {} bytes received", after(limit), exchange.received_bytes())
            });
        }
        let limit = self.plan.first_byte_timeout_ns;
        self.fail(at, ErrorClass::FirstByteTimeout, now, &|_| after(limit));
    }
}

fn after(limit_ns: u64) -> String {
    format!("nothing within {}", webstone_measure::units::Nanos(limit_ns))
}
