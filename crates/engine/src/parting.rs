//! What happens to a link after a whole response: it is kept for the next request, or closed in such a way that both
//! sides send FIN, neither sends a reset, and the server has the TIME_WAIT.

use std::io;

use crate::exchange::{ExchangeId, Exchanges};
use crate::layer::Layer;
use crate::link::{Family, LinkState};
use crate::session::Session;
use crate::sys::{Backend, Received, Spare};
use crate::worker::{Stage, Worker};

/// How long a server may leave a connection open after the response to a last request. Then the client closes it.
const LINGER_NS: u64 = 2_000_000_000;

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// An exchange has its whole response. If it was the last in progress, decides what happens to its link.
    #[inline(always)]
    pub(crate) fn part(&mut self, at: ExchangeId, ended: bool, now: u64) {
        let plan = &self.plan;
        let index = at.link;
        let link = &mut self.links[index];
        let client = link.exchanges.at(at.slot).client;
        link.exchanges.over(at.slot);
        if P::Exchanges::MANY {
            return self.settle(index, now);
        }
        // With the answer, a layer may have heard that nothing follows it.
        if link.session.goes_on() && !ended && !link.layer.is_ended() {
            if self.stage == Stage::Draining {
                return self.leave(index);
            }
            self.clients[client].keep(index);
        } else if plan.reset && link.family != Family::Unix {
            // The mode that reports label as fast: a reset, and no TIME_WAIT on either side.
            self.disconnect(index);
        } else {
            link.state = LinkState::Lingering;
            link.deadline_ns = now + LINGER_NS;
            self.answer_last_words(index);
            if ended {
                // There will be no further event. One read makes sure that nothing comes before the end.
                self.linger(index);
            }
        }
    }

    /// The server has closed and everything was read: closes our half, too, and keeps the socket for another
    /// connection. Both sides have sent FIN and neither a reset; the server has the TIME_WAIT.
    pub(crate) fn say_farewell(&mut self, index: u32) {
        self.say_last_words(index);
        let link = &self.links[index];
        let socket = link.socket.as_ref().expect("it was open until now");
        // A socket bound to a source address would keep it, and a Unix socket cannot be connected again.
        let reusable = link.family != Family::Unix && self.plan.source.is_empty();
        if reusable && self.backend.shutdown_write(socket).is_ok() {
            self.disconnect(index);
        } else {
            self.drop_link(index);
        }
    }

    /// Ends a connection and keeps its socket for another if possible. The server sees a reset unless both sides have
    /// sent FIN.
    pub(crate) fn disconnect(&mut self, index: u32) {
        let socket = self.links[index].socket.as_ref().expect("it was open until now");
        let is_reusable = self.plan.source.is_empty();
        if !(is_reusable && self.backend.disconnect(socket).is_ok()) {
            // If this fails the server sees a FIN, and the port stays in TIME_WAIT: more expensive, but correct.
            let _ = self.backend.reset_on_close(socket);
            self.close_socket(index);
        }
        self.links.give_back(index);
    }

    pub(crate) fn close_socket(&mut self, index: u32) {
        if P::DATAGRAMS {
            self.links[index].session.retire(&mut self.memory);
        }
        let link = &mut self.links[index];
        let Some(socket) = link.socket.take() else { return };
        match link.session.spare_is_ect() {
            Some(is_ect) if P::DATAGRAMS && self.plan.source.is_empty() => {
                let is_v4 = link.family == Family::V4;
                self.backend.spare_datagrams(Spare { socket, index, is_v4, is_ect });
            }
            _ => self.backend.close(socket),
        }
        self.sampling.closed(index);
    }

    pub(crate) fn linger(&mut self, index: u32) {
        match self.read_surplus(index) {
            Some(Ok(Received::WouldBlock)) => self.answer_last_words(index),
            Some(Ok(Received::End)) => self.say_farewell(index),
            _ => self.drop_link(index),
        }
    }

    /// If the layer has heard the server's last words, says the client's: the server may wait for them before it sends FIN
    /// (RFC 5246, section 7.2.1).
    fn answer_last_words(&mut self, index: u32) {
        if !L::IS_PLAIN && self.links[index].layer.is_ended() {
            self.say_last_words(index);
        }
    }

    /// Handles bytes or an end on a link without exchanges. Messages for the layer alone do no harm; if the server closed
    /// the connection, announced that, or sent data, the connection is given up.
    pub(crate) fn idle_event(&mut self, index: u32) {
        if matches!(self.read_surplus(index), Some(Ok(Received::WouldBlock))) {
            if L::IS_PLAIN || !self.links[index].layer.is_ended() {
                return;
            }
            self.say_last_words(index);
        }
        // The client of the last exchange keeps the link.
        let client = self.links[index].exchanges.at(0).client;
        self.clients[client].forget(index);
        self.drop_link(index);
    }

    /// Reads bytes that no request asked for. They are counted once per connection; then the connection is given up
    /// (`None`).
    pub(crate) fn read_surplus(&mut self, index: u32) -> Option<io::Result<Received>> {
        let link = &mut self.links[index];
        let socket = link.socket.as_ref().expect("an open connection has one");
        loop {
            let result = self.backend.receive(socket);
            let Ok(Received::Bytes(n)) = result else { return Some(result) };
            self.recorder.received(n);
            if link.layer.unseal(self.backend.bytes(n), &mut self.layers) != Ok(0) {
                break;
            }
        }
        self.recorder.surplus();
        None
    }

    /// Closes a sound connection on which nothing is in progress. The session sends no GOAWAY or the like: a server
    /// would answer it, and nobody would read the answer.
    pub(crate) fn leave(&mut self, index: u32) {
        if P::Exchanges::MANY {
            // The server has ended the connection together with an answer.
            if self.links[index].socket.is_none() {
                return self.drop_link(index);
            }
            if P::DATAGRAMS {
                // Nothing else tells the server that the connection has ended.
                self.links[index].session.say_farewell(None);
            }
            self.send_last(index);
        }
        self.links[index].layer.close();
        let _ = self.send_for_layer(index);
        self.drop_link(index);
    }

    /// Announces that no more will be sent, if the session or the layer has a message for that. If the socket does not
    /// take it, the peer is not told.
    pub(crate) fn say_last_words(&mut self, index: u32) {
        if P::Exchanges::MANY && self.links[index].session.say_farewell(None) {
            self.send_last(index);
        }
        self.links[index].layer.close();
        let _ = self.send_for_layer(index);
    }

    /// Ends an exchange, and also its link if that is no longer usable.
    pub(crate) fn give_up(&mut self, at: ExchangeId) {
        let link = &mut self.links[at.link];
        let goes_on = link.session.abandon(at.slot, &mut link.exchanges, &mut self.memory);
        link.exchanges.over(at.slot);
        if P::Exchanges::MANY && goes_on {
            let now = self.clock.read_ns();
            self.settle(at.link, now);
        } else {
            self.drop_link(at.link);
        }
    }

    /// Closes a link's connection and forgets its socket.
    pub(crate) fn drop_link(&mut self, index: u32) {
        self.close_socket(index);
        self.links.give_back(index);
    }
}
