//! Beginning and sending a request, on a link that its client keeps or on a new one. What happens next is in
//! `connecting`, `receiving`, `parting` and `failing`, in this order.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use webstone_workload::load::ConnectionPolicy;

use crate::exchange::{ExchangeId, Exchanges, Marks};
use crate::layer::Layer;
use crate::link::LinkState;
use crate::plan::{NO_TEMPLATE, Plan};
use crate::session::{Session, Sink, Start};
use crate::shared::Shared;
use crate::sys::{Backend, Received};
use crate::worker::Worker;

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Asks for a file: on a link that the client keeps, or on a new one.
    pub(crate) fn start_request(&mut self, client: u32, request: u32, now: u64) {
        self.recorder.started();
        let plan = self.plan.requests[request as usize];
        let (link, is_new) = if P::Exchanges::MANY {
            self.joinable(client, plan.origin)
        } else {
            match self.kept_link(client, plan.origin) {
                Some(link) => (link, false),
                None => (self.links.take_free(), true),
            }
        };
        // Files after a page's first are requested once they are known; the schedule does not plan them.
        let intended_ns = if plan.file == 0 { self.clients[client].intended_ns } else { now };
        let exchanges = &mut self.links[link].exchanges;
        let at = ExchangeId { link, slot: exchanges.vacant_slot() };
        let exchange = exchanges.at_mut(at.slot);
        exchange.begin(client, request, intended_ns, now);
        exchange.marks.set(Marks::REUSED, !is_new);
        if self.plan.trace > 0 {
            exchange.traced = take_trace_number(&self.plan, &self.shared);
        }
        if P::Exchanges::MANY {
            // An established link has been used by others before.
            let was_used = self.links[link].uses > 0;
            let exchange = self.links.exchange_mut(at);
            exchange.marks.set(Marks::REUSED, !is_new && was_used);
            self.join(at, is_new, now);
        } else if is_new {
            self.connect(at, now);
        } else {
            self.send_request(at, now);
        }
    }

    fn kept_link(&mut self, client: u32, origin: u32) -> Option<u32> {
        let links = &self.links;
        self.clients[client].take_kept(|link| links[link].origin == origin)
    }

    /// Sends a request on a link that is up.
    #[inline(always)]
    pub(crate) fn send_request(&mut self, at: ExchangeId, now: u64) {
        let plan = &self.plan;
        let link = &mut self.links[at.link];
        let exchange = link.exchanges.at_mut(at.slot);
        let request = &plan.requests[exchange.request as usize];
        // No connection reaches a limit that nobody set.
        link.uses = link.uses.saturating_add(1);
        let is_last = match plan.policy {
            ConnectionPolicy::PerRequest => true,
            ConnectionPolicy::KeepAlive => u64::from(link.uses) >= plan.requests_per_connection,
            ConnectionPolicy::PerPage => {
                let page = &plan.pages[request.page as usize];
                u64::from(link.uses) >= plan.requests_per_connection
                    || (plan.parallel == 1 && request.file + 1 == page.requests)
            }
        };
        exchange.deadline_ns =
            (now + plan.first_byte_timeout_ns).min(exchange.start_ns + plan.request_timeout_ns);
        if request.template != NO_TEMPLATE && exchange.rendered.is_empty() {
            let client = &mut self.clients[exchange.client];
            plan.render(exchange.request, is_last, client, &mut exchange.rendered);
        }
        exchange.sent = 0;
        if P::DATAGRAMS || !L::IS_PLAIN {
            let is_agreed = if P::DATAGRAMS { link.session.is_agreed() } else { link.layer.is_agreed() };
            exchange.marks.set(Marks::EARLY, !is_agreed);
        }
        let start = Start { slot: at.slot, number: exchange.request, request, is_last, plan };
        link.session.begin(start, &mut link.exchanges, &mut self.memory);
        if P::Exchanges::MANY {
            self.links.mark_due(at.link);
        } else {
            self.send(at.link, now);
        }
    }

    /// Sends as much as the socket takes.
    #[inline(always)]
    pub(crate) fn send(&mut self, index: u32, now: u64) {
        let plan = &self.plan;
        let link = &mut self.links[index];
        let wire = link.layer.seal(link.session.unsent(plan, &link.exchanges), &mut self.layers);
        let socket = link.socket.as_ref().expect("a link that is up has one");
        let due = wire.len();
        match self.backend.send(socket, wire) {
            Ok(written) => {
                let are_all = written == due;
                if !are_all {
                    link.state = LinkState::Full;
                }
                let sent = link.layer.sent(written, &mut self.layers);
                if !L::IS_PLAIN && link.layer.is_spent() {
                    self.recorder.sent(written, 0);
                    return self.keys_spent(index, now);
                }
                let mut sink = Sink { exchanges: &mut link.exchanges, plan, now };
                let requests = link.session.sent(sent, are_all, &mut sink);
                self.recorder.sent(written, requests);
                if P::Exchanges::MANY && are_all {
                    // More of the request bodies may be left to send.
                    self.links.mark_due(index);
                }
                if requests > 0 && self.observer.is_there() {
                    self.note_sent(index);
                }
            }
            Err(error) => self.cannot_send(index, &error, now),
        }
    }

    /// Nothing more can be sent. What the server wrote before it closed or reset the connection is still in the queue, and
    /// may be its answer, or say which requests it has processed (RFC 9112 section 9.5, RFC 9113 section 6.8). If nothing
    /// of a single request was sent, it cannot be an answer.
    #[cold]
    fn cannot_send(&mut self, index: u32, error: &io::Error, now: u64) {
        let connection = self.links[index].connection;
        let is_gone = matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
        let may_be_answered = P::Exchanges::MANY || self.links[index].exchanges.at(0).sent > 0;
        while is_gone
            && may_be_answered
            && let Some(socket) = &self.links[index].socket
            && let Ok(Received::Bytes(n)) = self.backend.receive(socket)
        {
            match self.hear(index, 0..n, now) {
                Err(failure) => return self.fail_link_by(index, failure, now),
                Ok(Some(slot)) => return self.finish(ExchangeId { link: index, slot }, true, now),
                Ok(None) if !self.is_still_up(index, connection) => return,
                Ok(None) => {}
            }
        }
        self.broken(index, error, now);
    }

    /// Sends the layer's own data; an error if the socket refuses it.
    pub(crate) fn send_for_layer(&mut self, index: u32) -> io::Result<()> {
        let link = &mut self.links[index];
        let wire = link.layer.seal(&[], &mut self.layers);
        if wire.is_empty() {
            return Ok(());
        }
        let socket = link.socket.as_ref().expect("an established connection has one");
        let written = self.backend.send(socket, wire)?;
        link.layer.sent(written, &mut self.layers);
        self.recorder.sent(written, 0);
        Ok(())
    }
}

/// Number of an exchange in the trace; 0 if there are enough already.
fn take_trace_number(plan: &Plan, shared: &Shared) -> u32 {
    if shared.traced.load(Relaxed) >= plan.trace {
        return 0;
    }
    let number = shared.traced.fetch_add(1, Relaxed);
    if number < plan.trace { number + 1 } else { 0 }
}
