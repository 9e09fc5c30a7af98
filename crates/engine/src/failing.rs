//! What becomes of a request that fails: tried again where the standard lets it, counted in its class where not.

use std::io;

use webstone_model::errors::{ErrorClass, ErrorExample};

use crate::client::NOT_HELD;
use crate::exchange::Exchange;
use crate::failure::{class_of, describe};
use crate::link::{Link, LinkState};
use crate::sys::Backend;
use crate::worker::Worker;

impl<B: Backend> Worker<B> {
    /// A whole response that is not the one asked for: an error, but the link is sound.
    pub(crate) fn refuse(
        &mut self,
        index: u32,
        class: ErrorClass,
        ended: bool,
        now: u64,
        detail: impl FnOnce(&Exchange) -> String,
    ) {
        let client = self.links[index as usize].exchange.client;
        self.record_failure(index, class, now, detail);
        self.part(index, ended, now);
        self.request_ended(client, false);
        self.hold(client, now);
    }

    /// A system call on an established connection failed.
    pub(crate) fn broken(&mut self, index: u32, error: &io::Error, now: u64) {
        if self.may_retry(index) {
            return self.retry(index, now);
        }
        self.fail(index, class_of(error, false), now, |c| {
            format!("{} after {} bytes of the answer", describe(error), c.received_bytes())
        });
    }

    /// Whether the failure is the race that keep-alive cannot avoid: the server closed just as the request left.
    /// RFC 9112 section 9.3.1 lets a client send it again on a new connection.
    pub(crate) fn may_retry(&self, index: u32) -> bool {
        let link = &self.links[index as usize];
        let request = &self.plan.requests[link.exchange.request as usize];
        link.exchange.reused && request.is_idempotent && link.exchange.is_unanswered()
    }

    pub(crate) fn retry(&mut self, index: u32, now: u64) {
        if self.recorder.is_open {
            self.recorder.measured.counts.stale_retries += 1;
        }
        self.close_socket(index);
        let link = &mut self.links[index as usize];
        link.exchange.wait_again();
        link.sent = 0;
        self.connect(index, now);
    }

    /// Ends an exchange in an error, and its link with it.
    pub(crate) fn fail(
        &mut self,
        index: u32,
        class: ErrorClass,
        now: u64,
        detail: impl FnOnce(&Exchange) -> String,
    ) {
        let Link { state, exchange: Exchange { client, .. }, .. } = self.links[index as usize];
        if self.recorder.is_open && matches!(state, LinkState::Resolving | LinkState::Connecting) {
            self.recorder.measured.counts.connections_failed += 1;
        }
        self.record_failure(index, class, now, detail);
        self.links[index as usize].exchange.end();
        self.drop_link(index);
        self.request_ended(client, false);
        if no_connection(class) {
            let state = &mut self.clients[client as usize];
            state.back_off();
            // The rest of the page would meet the same closed door.
            state.next_file = self.plan.pages[state.page as usize].requests;
        }
        self.hold(client, now);
    }

    /// Lets a client go on once the events at hand are handled. With a few hundred clients whose connections are closed at
    /// once that takes longer than a request, so it is booked: as waiting, because nothing is asked of the server meanwhile.
    fn hold(&mut self, client: u32, now: u64) {
        let state = &mut self.clients[client as usize];
        if state.outstanding == 0 {
            state.held_since_ns = now;
        }
        self.runnable.push(client);
    }

    /// Goes on with every client that was held; whether there was one.
    pub(crate) fn resume_held(&mut self, now: u64) -> bool {
        let any_held = !self.runnable.is_empty();
        while let Some(client) = self.runnable.pop() {
            let state = &mut self.clients[client as usize];
            let since_ns = std::mem::replace(&mut state.held_since_ns, NOT_HELD);
            // A failure found while this round began is later than the round.
            let resumed_ns = if since_ns == NOT_HELD { now } else { now.max(since_ns) };
            self.recorder.waited(since_ns, resumed_ns);
            self.advance(client, resumed_ns);
        }
        any_held
    }

    pub(crate) fn record_failure(
        &mut self,
        index: u32,
        class: ErrorClass,
        now: u64,
        detail: impl FnOnce(&Exchange) -> String,
    ) {
        if self.trace.is_some() || self.transactions.is_some() {
            self.note_ended(index, Some(class), class.name(), now);
        }
        let link = &self.links[index as usize];
        let at_ns = now.saturating_sub(self.recorder.open_ns);
        let plan = &self.plan;
        self.recorder.failed(plan, &link.exchange, class, now, || ErrorExample {
            at_ns,
            address: plan.peer(link),
            request: plan.label(link.exchange.request),
            detail: detail(&link.exchange),
        });
    }
}

/// Whether a class means that there is no connection to be had, so that asking again at once would spin.
fn no_connection(class: ErrorClass) -> bool {
    use ErrorClass::{ConnectTimeout, Dns, GeneratorIo, OutOfDescriptors, OutOfPorts, Refused, Unreachable};
    matches!(
        class,
        Refused | ConnectTimeout | Unreachable | Dns | OutOfPorts | OutOfDescriptors | GeneratorIo
    )
}
