//! What happened is dealt to where it belongs: events of the batch, and deadlines that have passed.

use webstone_model::errors::ErrorClass;

use crate::exchange::Progress;
use crate::link::LinkState;
use crate::sys::{Backend, Event};
use crate::worker::{RESOLVER_TOKEN, TICKER_TOKEN, Worker};

impl<B: Backend> Worker<B> {
    /// Handles one event of the batch.
    #[inline]
    pub(crate) fn handle(&mut self, event: Event) {
        if event.token >= TICKER_TOKEN {
            return match event.token {
                RESOLVER_TOKEN => self.take_answers(),
                _ => self.ticked(),
            };
        }
        let index = event.token as u32;
        let link = &self.links[index as usize];
        // The descriptor was connected anew within this round: the event is its predecessor's.
        if link.opened_in_round == self.round {
            return;
        }
        match link.state {
            LinkState::Up => match link.exchange.progress {
                Progress::Receiving if event.readable || event.ended => self.receive(index, event.ended),
                Progress::Sending => self.sending_event(index, event),
                Progress::Over if event.readable || event.ended => self.idle_ended(index),
                _ => {}
            },
            LinkState::Connecting if event.error => self.connect_failed(index),
            LinkState::Connecting if event.writable => {
                let now = self.now();
                self.note_delay(now);
                self.connected(index, now);
            }
            LinkState::Lingering => self.linger(index),
            _ => {}
        }
    }

    fn sending_event(&mut self, index: u32, event: Event) {
        let now = self.now();
        self.note_delay(now);
        if event.writable {
            self.send_request(index, now);
        }
        // A server may answer, or hang up, before it has read the whole request; and what it wrote by now raises no
        // further event, even if the last of the request has just left.
        let link = &self.links[index as usize];
        let is_still_there = link.state == LinkState::Up
            && matches!(link.exchange.progress, Progress::Sending | Progress::Receiving);
        if is_still_there && (event.readable || event.ended) {
            self.receive(index, event.ended);
        }
    }

    /// Fails every exchange that is past its deadline, and parts from servers that do not close.
    pub(crate) fn enforce_deadlines(&mut self, now: u64) {
        for index in 0..self.links.len() as u32 {
            let link = &self.links[index as usize];
            if now >= link.deadline_ns {
                self.link_timed_out(index, now);
            } else if now >= link.exchange.deadline_ns {
                self.exchange_timed_out(index, now);
            }
        }
    }

    #[cold]
    fn link_timed_out(&mut self, index: u32, now: u64) {
        match self.links[index as usize].state {
            LinkState::Resolving | LinkState::Connecting => {
                let limit = self.plan.connect_timeout_ns;
                self.fail(index, ErrorClass::ConnectTimeout, now, |_| after(limit));
            }
            LinkState::Lingering => {
                if self.recorder.is_open {
                    self.recorder.measured.counts.lingered += 1;
                }
                self.drop_link(index);
            }
            LinkState::Free | LinkState::Up => {}
        }
    }

    #[cold]
    fn exchange_timed_out(&mut self, index: u32, now: u64) {
        let limit = self.plan.request_timeout_ns;
        if now - self.links[index as usize].exchange.start_ns >= limit {
            return self.fail(index, ErrorClass::RequestTimeout, now, |exchange| {
                format!("{}, with {} bytes received", after(limit), exchange.received_bytes())
            });
        }
        let limit = self.plan.first_byte_timeout_ns;
        self.fail(index, ErrorClass::FirstByteTimeout, now, |_| after(limit));
    }
}

fn after(limit_ns: u64) -> String {
    format!("nothing within {}", webstone_model::units::Nanos(limit_ns))
}
