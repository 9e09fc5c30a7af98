//! Links that carry many exchanges at once, if the protocol allows it: which link an exchange joins, how it waits
//! there, and what happens if the server refuses it. Workers whose links carry one at a time contain none of this
//! code.

use webstone_measure::errors::ErrorClass;
use webstone_workload::load::ConnectionPolicy;

use crate::exchange::{Exchange, ExchangeId, Exchanges, Progress};
use crate::layer::Layer;
use crate::link::{Family, LinkState};
use crate::plan::Plan;
use crate::session::{AnswerError, Session};
use crate::sys::Backend;
use crate::worker::{Stage, Worker};

/// How often the server may refuse a request without having processed it.
const REFUSALS_MAX: u8 = 16;

impl Plan {
    /// The group of clients that share links with this one; `None` if each request has a link of its own.
    fn group(&self, client: u32) -> Option<u32> {
        match self.policy {
            ConnectionPolicy::PerRequest => None,
            ConnectionPolicy::PerPage => Some(client),
            ConnectionPolicy::KeepAlive => Some(client / self.clients_per_connection),
        }
    }
}

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// A link that an exchange may join, and whether it is new.
    pub(crate) fn joinable(&mut self, client: u32, origin: u32) -> (u32, bool) {
        let group = self.plan.group(client);
        let most = self.plan.requests_per_connection;
        let found = group.and_then(|group| {
            self.links.shared(group).find(|index| {
                let link = &self.links[*index];
                let is_closing = link.state.is_up() && !link.session.goes_on();
                link.origin == origin
                    && !is_closing
                    && u64::from(link.uses) + u64::from(link.exchanges.waiting()) < most
            })
        });
        if let Some(link) = found {
            return (link, false);
        }
        (self.new_link(client), true)
    }

    /// A link without a connection, which others of the client's group may join.
    pub(crate) fn new_link(&mut self, client: u32) -> u32 {
        let link = self.links.take_free();
        if let Some(group) = self.plan.group(client) {
            self.links.share(link, group);
        }
        link
    }

    /// An exchange joins its link: at once, or when the link is up, or when it has capacity.
    pub(crate) fn join(&mut self, at: ExchangeId, is_new: bool, now: u64) {
        let link = &mut self.links[at.link];
        if is_new {
            link.exchanges.wait(at.slot);
            return self.connect(at, now);
        }
        let is_up = link.state.is_up();
        if is_up && link.exchanges.waiting() == 0 && link.session.capacity() > 0 {
            return self.send_request(at, now);
        }
        link.exchanges.wait(at.slot);
        if is_up {
            return self.waits_for_room(at, now);
        }
        let exchange = link.exchanges.at_mut(at.slot);
        exchange.deadline_ns = exchange.start_ns + self.plan.request_timeout_ns;
    }

    /// Begins the first exchanges on an established link.
    pub(crate) fn begin_first(&mut self, index: u32, now: u64) {
        // The server may have ended the connection together with the handshake.
        if !self.links[index].exchanges.any_in_progress() {
            return self.settle(index, now);
        }
        self.begin_waiting(index, now);
        if self.links[index].exchanges.waiting() > 0 {
            for slot in 0..self.links[index].exchanges.slots() {
                if self.links[index].exchanges.at(slot).progress == Progress::Waiting {
                    self.waits_for_room(ExchangeId { link: index, slot }, now);
                }
            }
        }
    }

    /// Makes an exchange wait until its link has capacity. The time-out for the first byte runs from now on.
    pub(crate) fn waits_for_room(&mut self, at: ExchangeId, now: u64) {
        let exchange = self.links[at.link].exchanges.at_mut(at.slot);
        let first_byte_ns = now + self.plan.first_byte_timeout_ns;
        exchange.deadline_ns = first_byte_ns.min(exchange.start_ns + self.plan.request_timeout_ns);
        P::count_waited(&mut self.memory);
    }

    /// Begins as many waiting exchanges as the link allows.
    pub(crate) fn begin_waiting(&mut self, index: u32, now: u64) {
        loop {
            let link = &mut self.links[index];
            if !link.state.is_up() || link.session.capacity() == 0 {
                return;
            }
            let Some(slot) = link.exchanges.next_waiting() else { return };
            self.send_request(ExchangeId { link: index, slot }, now);
        }
    }

    /// An exchange on a link has ended, so that others may begin. The link ends if none is in progress and none may
    /// begin.
    pub(crate) fn settle(&mut self, index: u32, now: u64) {
        self.begin_waiting(index, now);
        let link = &self.links[index];
        if !link.state.is_up() {
            return;
        }
        if link.exchanges.waiting() > 0 && !link.session.goes_on() {
            // They are in progress, but would never begin here.
            return self.capacity_changed(index, now);
        }
        if link.exchanges.any_in_progress() || (link.session.goes_on() && self.stage != Stage::Draining) {
            // The session may have a message about the ended stream.
            return self.links.mark_due(index);
        }
        // After an answer that ended with its connection there is no socket any more.
        if self.plan.reset && link.family != Family::Unix && link.socket.is_some() {
            self.disconnect(index);
        } else {
            self.leave(index);
        }
    }

    /// More exchanges may begin on a link than before, or no more at all.
    #[cold]
    pub(crate) fn capacity_changed(&mut self, index: u32, now: u64) {
        if self.links[index].session.goes_on() {
            return self.begin_waiting(index, now);
        }
        self.links.unshare(index);
        for slot in 0..self.links[index].exchanges.slots() {
            let link = &mut self.links[index];
            match link.exchanges.at(slot).progress {
                Progress::Over => continue,
                Progress::Waiting => {}
                _ if link.session.is_passed_over(slot, &link.exchanges) => {
                    link.session.abandon(slot, &mut link.exchanges, &mut self.memory);
                }
                _ => continue,
            }
            self.refused(ExchangeId { link: index, slot }, P::PASSED_OVER, now);
        }
        self.settle(index, now);
    }

    /// The server has ended a connection because of an error: what it may have processed fails, the rest is sent again
    /// (RFC 9113, section 6.8).
    #[cold]
    pub(crate) fn given_up(&mut self, index: u32, failure: AnswerError, now: u64) {
        self.no_more_on(index);
        for slot in 0..self.links[index].exchanges.slots() {
            let (at, link) = (ExchangeId { link: index, slot }, &self.links[index]);
            match link.exchanges.at(slot).progress {
                Progress::Over => {}
                Progress::Waiting => self.refused(at, P::PASSED_OVER, now),
                _ if link.session.is_passed_over(slot, &link.exchanges) => {
                    self.refused(at, P::PASSED_OVER, now);
                }
                _ => self.end_in_error_by(at, failure.clone(), now),
            }
        }
        self.drop_link(index);
    }

    /// The server did not process a request, so it may be sent again whatever its method.
    #[cold]
    pub(crate) fn refused(&mut self, at: ExchangeId, class: ErrorClass, now: u64) {
        let was_sent = self.links.exchange(at).progress != Progress::Waiting;
        // A server that ends each connection before a request is sent must not be asked for ever.
        let counts = was_sent || self.links[at.link].uses == 0;
        let refusals = self.links[at.link].exchanges.refusals(at.slot).map_or(0, |refusals| {
            *refusals += u8::from(counts);
            *refusals
        });
        let is_given_up = refusals > REFUSALS_MAX;
        if was_sent {
            P::count_refused(&mut self.memory, !is_given_up);
        }
        if is_given_up {
            return self.end_in_error(at, class, now, &|_| {
                format!("the server refused the request {refusals} times without processing it")
            });
        }
        self.move_on(at, now);
    }

    /// Moves an exchange to another link that it may join.
    pub(crate) fn move_on(&mut self, at: ExchangeId, now: u64) {
        let refusals = self.links[at.link].exchanges.refusals(at.slot).map_or(0, |refusals| *refusals);
        let mut exchange: Exchange = self.links[at.link].exchanges.take(at.slot);
        exchange.wait_again();
        // The server may have begun to answer before it refused.
        exchange.forget_answer();
        let origin = self.plan.requests[exchange.request as usize].origin;
        let (link, is_new) = self.joinable(exchange.client, origin);
        let exchanges = &mut self.links[link].exchanges;
        let slot = exchanges.vacant_slot();
        *exchanges.at_mut(slot) = exchange;
        if let Some(place) = exchanges.refusals(slot) {
            *place = refusals;
        }
        self.join(ExchangeId { link, slot }, is_new, now);
    }

    /// Sends what has become due on links, once for all exchanges of a link.
    #[inline]
    pub(crate) fn flush(&mut self) {
        while let Some(index) = self.links.next_due() {
            if P::DATAGRAMS {
                self.flush_datagrams(index);
                continue;
            }
            // A full socket sends the rest when it is writable.
            let link = &self.links[index];
            if link.state == LinkState::Up && !link.session.unsent(&self.plan, &link.exchanges).is_empty() {
                let now = self.clock.read_ns();
                self.send(index, now);
            }
        }
    }

    /// Sends the session's last message if the socket takes it; does not wait.
    pub(crate) fn send_last(&mut self, index: u32) {
        if P::DATAGRAMS {
            return self.send_last_datagrams(index);
        }
        let link = &mut self.links[index];
        let wire = link.layer.seal(link.session.unsent(&self.plan, &link.exchanges), &mut self.layers);
        if let Some(socket) = link.socket.as_ref().filter(|_| !wire.is_empty())
            && let Ok(written) = self.backend.send(socket, wire)
        {
            link.layer.sent(written, &mut self.layers);
            self.recorder.sent(written, 0);
        }
    }
}
