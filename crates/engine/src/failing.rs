//! What happens to an exchange that fails, and to those on a link that fails: they are retried where the standard
//! allows it, otherwise counted as errors of their class.

use std::io;

use webstone_measure::errors::{ErrorClass, ErrorExample};

use crate::exchange::{Exchange, ExchangeId, Exchanges, Marks, Progress};
use crate::failure::{class_of, describe};
use crate::layer::Layer;
use crate::link::LinkState;
use crate::session::{AnswerError, Session};
use crate::sys::Backend;
use crate::worker::Worker;

/// What the example of an error says besides its class. Called only for the first error of a class. Not generic: all
/// callees would be compiled again for each place where something can fail.
pub(crate) type Detail<'a> = &'a dyn Fn(&Exchange) -> String;

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Counts a whole response that is not the one asked for as an error; the link stays usable.
    pub(crate) fn refuse(
        &mut self,
        at: ExchangeId,
        class: ErrorClass,
        ended: bool,
        now: u64,
        detail: Detail<'_>,
    ) {
        let client = self.links.exchange(at).client;
        self.record_failure(at, class, now, detail);
        self.part(at, ended, now);
        self.clients.request_ended(client, false);
        self.clients.hold(client, now);
    }

    /// A system call on an established connection failed.
    #[cold]
    pub(crate) fn broken(&mut self, index: u32, error: &io::Error, now: u64) {
        self.lose(index, class_of(error, false), now, &|exchange| {
            format!("{} after {} bytes of the answer", describe(error), exchange.received_bytes())
        });
    }

    /// The keys of a link's layer must not seal more records, and cannot be renewed.
    #[cold]
    pub(crate) fn keys_spent(&mut self, index: u32, now: u64) {
        self.say_last_words(index);
        self.lose(index, ErrorClass::TlsKeyLimit, now, &|_| {
            "the connection's keys have sealed as many records as they may, and TLS 1.2 has no others"
                .to_owned()
        });
    }

    /// A link is no longer usable: what is in progress on it is sent again where the standard allows it.
    fn lose(&mut self, index: u32, class: ErrorClass, now: u64, detail: Detail<'_>) {
        self.no_more_on(index);
        self.note_failed_handshake(index);
        for slot in 0..self.links[index].exchanges.slots() {
            let at = ExchangeId { link: index, slot };
            if self.links[index].exchanges.at(slot).progress == Progress::Over {
                continue;
            }
            if self.may_retry(at) {
                self.retry(at, now);
            } else {
                self.end_in_error(at, class, now, detail);
            }
        }
        self.drop_link(index);
    }

    /// Whether the failure is the race that is inherent in keep-alive: the server closed just as the request was
    /// sent. RFC 9112 section 9.3.1 allows a client to send it again on a new connection.
    pub(crate) fn may_retry(&self, at: ExchangeId) -> bool {
        let exchange = self.links.exchange(at);
        let request = &self.plan.requests[exchange.request as usize];
        // What waits for capacity on an established link was never sent.
        if P::Exchanges::MANY && exchange.progress == Progress::Waiting && self.links[at.link].state.is_up() {
            return true;
        }
        exchange.marks.has(Marks::REUSED) && request.is_idempotent && exchange.is_unanswered()
    }

    /// Whether an exchange that waits is not concerned by the error of its link: the link was established, and has carried
    /// others. Without those, a server that breaks each connection would be asked for ever.
    fn outlives_link(&self, at: ExchangeId) -> bool {
        let link = &self.links[at.link];
        P::Exchanges::MANY && link.state.is_up() && link.uses > 0
    }

    /// A link's connection is lost: closes it at once, as its descriptor may be the last one available, and lets no more
    /// exchanges join the link.
    #[inline]
    pub(crate) fn no_more_on(&mut self, index: u32) {
        if P::Exchanges::MANY {
            self.links.unshare(index);
            self.close_socket(index);
        }
    }

    /// Moves an exchange to a new link. The caller ends it on the old one.
    pub(crate) fn retry(&mut self, at: ExchangeId, now: u64) {
        if P::Exchanges::MANY {
            if self.links.exchange(at).progress != Progress::Waiting {
                self.recorder.retried();
            }
            return self.move_on(at, now);
        }
        self.recorder.retried();
        // Its descriptor may be the last one available.
        self.close_socket(at.link);
        let mut exchange = std::mem::take(self.links.exchange_mut(at));
        exchange.wait_again();
        let link = self.links.take_free();
        let exchanges = &mut self.links[link].exchanges;
        let slot = exchanges.vacant_slot();
        *exchanges.at_mut(slot) = exchange;
        self.connect(ExchangeId { link, slot }, now);
    }

    /// Ends an exchange with an error, and also its link if that is no longer usable.
    pub(crate) fn fail(&mut self, at: ExchangeId, class: ErrorClass, now: u64, detail: Detail<'_>) {
        let link = &mut self.links[at.link];
        // Others may still wait for the connection.
        if P::Exchanges::MANY && !link.state.is_up() && link.exchanges.waiting() > 1 {
            return self.end_in_error(at, class, now, detail);
        }
        // Without a handshake, nothing on the link gets an answer.
        if !P::Exchanges::MANY || !link.state.is_up() || !link.session.is_agreed() {
            return self.fail_link(at.link, class, now, detail);
        }
        link.session.abandon(at.slot, &mut link.exchanges, &mut self.memory);
        self.end_in_error(at, class, now, detail);
        self.settle(at.link, now);
    }

    /// Ends a link, and each exchange on it with an error. What waits on an established link was never sent, and is moved.
    pub(crate) fn fail_link(&mut self, index: u32, class: ErrorClass, now: u64, detail: Detail<'_>) {
        let link = &self.links[index];
        let stood = !matches!(link.state, LinkState::Resolving | LinkState::Connecting);
        match stood {
            true => self.note_failed_handshake(index),
            false => self.recorder.connection_failed(now.saturating_sub(link.connect_begun_ns)),
        }
        if P::Exchanges::MANY {
            self.say_why(index, class);
            self.no_more_on(index);
        }
        for slot in 0..self.links[index].exchanges.slots() {
            let at = ExchangeId { link: index, slot };
            match self.links[index].exchanges.at(slot).progress {
                Progress::Over => {}
                Progress::Waiting if self.outlives_link(at) => self.retry(at, now),
                _ => {
                    let client = self.links.exchange(at).client;
                    self.end_in_error(at, class, now, detail);
                    // Whatever the class: trying again at once would loop.
                    if !stood && !no_connection(class) {
                        self.back_off(client);
                    }
                }
            }
        }
        self.drop_link(index);
    }

    /// As [`Self::fail_link`], for an error of a layer or a session. By value: a borrowed one must be in memory,
    /// which would cost every successful request something, too.
    #[cold]
    pub(crate) fn fail_link_by(&mut self, index: u32, failure: AnswerError, now: u64) {
        let awaits = |progress| matches!(progress, Progress::Sending | Progress::Receiving);
        let exchanges = &self.links[index].exchanges;
        // Without an answer that they could belong to, bytes are no error of a request.
        if failure.is_surplus() && !(0..exchanges.slots()).any(|slot| awaits(exchanges.at(slot).progress)) {
            self.recorder.surplus();
        }
        self.fail_link(index, failure.class(), now, &|exchange| failure.describe::<P>(exchange));
    }

    /// Ends one exchange with an error of its session; the caller handles the link.
    #[cold]
    pub(crate) fn end_in_error_by(&mut self, at: ExchangeId, failure: AnswerError, now: u64) {
        self.end_in_error(at, failure.class(), now, &|exchange| failure.describe::<P>(exchange));
    }

    /// Counts a failed handshake, if the connection ends in one. With early data, requests are already in progress
    /// then.
    pub(crate) fn note_failed_handshake(&mut self, index: u32) {
        let link = &self.links[index];
        let is_shaking = link.state == LinkState::Handshaking || link.state.is_up();
        let is_agreed =
            if P::DATAGRAMS { link.session.is_agreed() } else { L::IS_PLAIN || link.layer.is_agreed() };
        if is_shaking && !is_agreed {
            self.recorder.handshake_failed();
        }
    }

    /// Tells the server why its connection ends, if the link is up and the protocol can say so.
    #[cold]
    fn say_why(&mut self, index: u32, class: ErrorClass) {
        self.links.unshare(index);
        let link = &mut self.links[index];
        let is_there = link.state.is_up() || (P::DATAGRAMS && link.socket.is_some());
        if is_there && link.session.say_farewell(Some(class)) {
            self.send_last(index);
        }
    }

    /// Ends an exchange with an error; the caller handles the link.
    pub(crate) fn end_in_error(&mut self, at: ExchangeId, class: ErrorClass, now: u64, detail: Detail<'_>) {
        self.record_failure(at, class, now, detail);
        let exchanges = &mut self.links[at.link].exchanges;
        let client = exchanges.at(at.slot).client;
        exchanges.over(at.slot);
        self.clients.request_ended(client, false);
        if no_connection(class) {
            self.back_off(client);
        }
        self.clients.hold(client, now);
    }

    /// Makes a client wait before its next page.
    fn back_off(&mut self, client: u32) {
        let state = &mut self.clients[client];
        state.back_off();
        // The rest of the page would fail in the same way.
        state.give_page_up(self.plan.pages[state.page as usize].requests);
    }

    /// Lets every held client continue; returns whether there was one.
    pub(crate) fn resume_held(&mut self) -> bool {
        let any_held = self.clients.any_held();
        while let Some(client) = self.clients.next_held() {
            // Not of the round: what others began in it took time, which is the load generator's and not the server's.
            let now = self.now();
            let since_ns = self.clients[client].resume();
            self.recorder.waited(since_ns, now);
            self.advance(client, now);
            self.send_begun();
        }
        any_held
    }

    fn record_failure(&mut self, at: ExchangeId, class: ErrorClass, now: u64, detail: Detail<'_>) {
        if self.observer.is_there() {
            self.note_ended(at, Some(class), class.name(), now);
        }
        let link = &self.links[at.link];
        let exchange = link.exchanges.at(at.slot);
        let at_ns = now.saturating_sub(self.recorder.open_ns());
        let plan = &self.plan;
        self.recorder.failed(plan, exchange, class, now, || ErrorExample {
            at_ns,
            address: plan.peer(link),
            request: plan.label(exchange.request),
            detail: detail(exchange),
        });
    }
}

/// Whether a class means that no connection is possible, so that trying again at once would loop.
fn no_connection(class: ErrorClass) -> bool {
    use ErrorClass::{
        Alpn, ConnectTimeout, Dns, GeneratorIo, OutOfDescriptors, OutOfPorts, QuicSilence, QuicVersion,
        Refused, TlsCertificate, TlsHandshake, TlsIncompatible, Unreachable,
    };
    matches!(
        class,
        Refused
            | ConnectTimeout
            | Unreachable
            | Dns
            | OutOfPorts
            | OutOfDescriptors
            | GeneratorIo
            | TlsHandshake
            | TlsCertificate
            | TlsIncompatible
            | Alpn
            | QuicSilence
            | QuicVersion
    )
}
