//! Links over datagrams: connecting, what datagrams bring, what is sent, and timers. Workers whose links are streams contain none of
//! this code.

use std::io;
use std::net::SocketAddr;

use webstone_measure::metrics::Handshake;

use crate::exchange::{ExchangeId, Exchanges, Marks, Progress};
use crate::layer::Layer;
use crate::link::{Family, LinkState};
use crate::receiving::ROUND_BYTES_MAX;
use crate::session::{AnswerError, Session, Sink};
use crate::sys::{Address, BATCHES_MAX, Backend};
use crate::worker::Worker;

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Begins a connection for the exchanges that wait on a link.
    pub(crate) fn begin_datagrams(&mut self, index: u32, now: u64) {
        let link = &mut self.links[index];
        link.state = LinkState::Connecting;
        link.opened_in_round = self.clock.round();
        let Some(address) = self.datagram_address(index) else {
            let error = io::Error::from(io::ErrorKind::Unsupported);
            return self.fail_to_connect(index, &error, now);
        };
        let link = &mut self.links[index];
        let source = self.plan.source.get(link.source as usize).copied();
        let is_ect = P::begins_marked(&self.memory, link.origin);
        match self.backend.open_datagrams(index, &address, source, is_ect) {
            Ok(socket) => link.socket = Some(socket),
            Err(error) => return self.fail_to_connect(index, &error, now),
        }
        link.family = Family::of_address(&Address::Internet(address));
        match link.session.open_datagrams(link.origin, &self.plan, &mut self.memory, now) {
            Ok(()) => {
                self.links.mark_due(index);
                // Requests that wait for no handshake take no time to connect.
                let link = &self.links[index];
                if link.session.sends_early() && !link.exchanges.any_too_early() {
                    self.note_connected(index, 0, now);
                    self.opened(index, now);
                }
            }
            Err(failure) => self.fail_link_by(index, failure, now),
        }
    }

    /// Sends the first datagram of a connection that has just begun: those that others begin after it would delay it.
    #[inline]
    pub(crate) fn send_begun(&mut self) {
        if P::DATAGRAMS
            && let Some(index) = self.links.last_due()
            && self.links[index].opened_in_round == self.clock.round()
        {
            self.flush();
        }
    }

    /// Where a link's datagrams go.
    fn datagram_address(&self, index: u32) -> Option<SocketAddr> {
        let link = &self.links[index];
        match (&link.resolved, &self.plan.origins[link.origin as usize].addresses[link.address as usize]) {
            (Some(address), _) => Some(**address),
            (None, Address::Internet(address)) => Some(*address),
            (None, Address::Unix(_)) => None,
        }
    }

    /// The socket has reported datagrams.
    pub(crate) fn receive_datagrams(&mut self, index: u32) {
        self.read_datagrams(index, true, None);
    }

    /// Reads datagrams until nothing more is awaited or the socket is empty, or other links need their turn; what is left is reported
    /// again. `is_reported`: an event says that there are some; otherwise the socket is emptied. `refused`: nobody receives any more at
    /// the server; the connection ends once the socket is empty.
    fn read_datagrams(&mut self, index: u32, is_reported: bool, mut refused: Option<io::Error>) {
        let connection = self.links[index].connection;
        let (mut brought, mut all_batches) = (0, 0);
        // Looking for more than there usually is costs the kernel as much as finding it. But where other answers are awaited as well,
        // finding fewer than this tells that the socket is empty.
        let one_more = usize::from(self.plan.streams > 1);
        let usual = (self.usual_batches + one_more).min(BATCHES_MAX);
        let mut most = if is_reported { usual } else { BATCHES_MAX };
        loop {
            let Some(socket) = self.links[index].socket.as_ref() else { return };
            let asked = std::mem::replace(&mut most, BATCHES_MAX);
            let received = self.backend.receive_datagrams(socket, asked);
            if matches!(received, Ok(0)) && brought > 0 {
                break;
            }
            let now = self.now();
            if brought == 0 && is_reported {
                self.note_delay(now);
            }
            let batches = match received {
                Ok(0) => break,
                Ok(batches) => batches,
                // The kernel reports it once, before what arrived earlier.
                Err(error) if self.is_refused_late(index, &error) && refused.is_none() => {
                    refused = Some(error);
                    continue;
                }
                Err(error) => return self.datagrams_failed(index, &error, now),
            };
            let link = &mut self.links[index];
            let mut sink = Sink { exchanges: &mut link.exchanges, plan: &self.plan, now };
            all_batches += batches;
            P::count_receive(&mut self.memory);
            for number in 0..batches {
                let (batch, bytes) = self.backend.batch(number);
                brought += batch.bytes.max(1);
                self.recorder.received(batch.bytes);
                link.session.count_dropped(&mut self.memory, batch.dropped);
                for datagram in bytes.chunks_mut(batch.stride) {
                    link.session.hear(datagram, batch.ecn, &mut self.memory, &mut sink);
                }
            }
            if link.session.outgrows_queue()
                && let Some(socket) = &link.socket
            {
                self.backend.lengthen_queue(socket);
            }
            // Asked before clients begin their next requests. If an answer is not whole, its rest is probably here or about to come: one
            // acknowledgement for all of it is cheaper than one for each part.
            let are_whole = is_reported && !link.session.awaits_datagrams();
            let is_empty = is_reported && batches < asked && !link.session.is_amid_answer();
            if !self.take_in_datagram(index, connection, now) {
                return;
            }
            if are_whole || is_empty {
                self.usual_batches = all_batches.min(BATCHES_MAX);
            }
            if refused.is_none() && (are_whole || is_empty || brought >= ROUND_BYTES_MAX) {
                break;
            }
        }
        if let Some(error) = refused {
            let now = self.clock.read_ns();
            return self.datagrams_failed(index, &error, now);
        }
        self.links.mark_due(index);
    }

    /// Whether the server's host reports that nobody receives on a connection that was established. Answers may lie in the socket still.
    #[cold]
    fn is_refused_late(&self, index: u32, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::ConnectionRefused && self.links[index].state.is_up()
    }

    /// Acts on what datagrams brought. Returns whether the link still has this connection.
    fn take_in_datagram(&mut self, index: u32, connection: u32, now: u64) -> bool {
        let link = &mut self.links[index];
        if !link.session.is_agreed() {
            match link.session.take_agreed(&mut self.memory) {
                Ok(None) => {}
                Ok(Some(agreed)) => self.agreed(index, agreed, now),
                Err(failure) => {
                    self.fail_link_by(index, failure, now);
                    return false;
                }
            }
        }
        while let Some((slot, text)) = self.links[index].session.take_text() {
            self.trace_text(ExchangeId { link: index, slot }, &text);
        }
        while let Some(heard) = P::next_heard(&mut self.memory) {
            self.take_heard(index, heard, now);
            // What clients did next may have ended the connection, and begun another in its place.
            if !self.is_still_up(index, connection) {
                while P::next_heard(&mut self.memory).is_some() {}
                return false;
            }
        }
        self.connection_goes_on(index, now)
    }

    /// Ends the link if its connection has ended. Returns whether the connection continues.
    fn connection_goes_on(&mut self, index: u32, now: u64) -> bool {
        match self.links[index].session.end_of_connection(&self.memory) {
            None => true,
            Some(failure) => {
                self.connection_ended(index, failure, now);
                false
            }
        }
    }

    /// The handshake is complete. Unless the connection began with early data, it counts as established from now on.
    fn agreed(&mut self, index: u32, agreed: Handshake, now: u64) {
        let link = &self.links[index];
        let (took_ns, was_early) = (now - link.connect_begun_ns, link.state.is_up());
        if was_early || self.note_connected(index, took_ns, now) {
            self.recorder.shook_hands(agreed, took_ns);
        }
        if self.plan.trace > 0 {
            self.trace_handshake(index, &agreed, took_ns);
        }
        if was_early {
            // The server may allow more streams now than it did when the session began.
            self.begin_waiting(index, now);
        } else {
            self.opened(index, now);
        }
    }

    /// A connection has ended, or must be ended.
    #[cold]
    fn connection_ended(&mut self, index: u32, failure: AnswerError, now: u64) {
        let link = &self.links[index];
        let was_rejected = link.session.was_rejected();
        if !(link.state.is_up() && (was_rejected || link.session.may_have_been_in_vain())) {
            return self.fail_link_by(index, failure, now);
        }
        // Early data may be in progress.
        self.note_failed_handshake(index);
        self.send_last_datagrams(index);
        self.no_more_on(index);
        for slot in 0..self.links[index].exchanges.slots() {
            let at = ExchangeId { link: index, slot };
            if self.links[index].exchanges.at(slot).progress == Progress::Over {
                continue;
            }
            if was_rejected {
                // Without early data, as another session may remember the same limits.
                self.links.exchange_mut(at).marks.set(Marks::TOO_EARLY, true);
                self.refused(at, failure.class(), now);
            } else if self.may_retry(at) {
                self.retry(at, now);
            } else {
                self.end_in_error_by(at, failure.clone(), now);
            }
        }
        self.drop_link(index);
    }

    /// A system call on a socket for datagrams failed: the server's host reported that nobody listens, or the network is down.
    #[cold]
    fn datagrams_failed(&mut self, index: u32, error: &io::Error, now: u64) {
        match self.links[index].state {
            LinkState::Connecting => self.fail_to_connect(index, error, now),
            _ => self.broken(index, error, now),
        }
    }

    /// Sends what is due on a link.
    #[inline]
    pub(crate) fn flush_datagrams(&mut self, index: u32) {
        let now = self.clock.read_ns();
        loop {
            let link = &mut self.links[index];
            if link.socket.is_none() {
                return;
            }
            let Some(packed) = link.session.pack(&mut self.memory, now) else { break };
            if link.session.marks(packed.is_ect, &mut self.memory) {
                self.mark_datagrams(index, packed.is_ect);
            }
            let link = &self.links[index];
            let socket = link.socket.as_ref().expect("checked above");
            let bytes = P::packed(&self.memory, packed.bytes);
            match self.backend.send_datagrams(socket, bytes, packed.segment) {
                // One that looks for a larger MTU may be longer than this host's network takes.
                Ok(false) if packed.is_probe => self.links[index].session.take_back(packed.bytes),
                Ok(were_all) => {
                    self.recorder.sent(packed.bytes, 0);
                    if !were_all {
                        P::count_unsent(&mut self.memory);
                    }
                }
                Err(error) if self.is_refused_late(index, &error) => {
                    return self.read_datagrams(index, false, Some(error));
                }
                Err(error) => return self.datagrams_failed(index, &error, now),
            }
        }
        let link = &mut self.links[index];
        let requests = link.session.take_sent();
        if let Some(due_ns) = link.session.due_ns() {
            self.timers.wants(index, due_ns);
        }
        if requests > 0 {
            self.recorder.sent(0, requests);
            if self.observer.is_there() {
                self.note_sent(index);
            }
        }
        self.connection_goes_on(index, now);
    }

    #[cold]
    fn mark_datagrams(&mut self, index: u32, is_ect: bool) {
        let Some(address) = self.datagram_address(index) else { return };
        if let Some(socket) = &self.links[index].socket {
            self.backend.mark_datagrams(socket, &address, is_ect);
        }
    }

    /// Sends a session's last datagrams, if the socket takes them.
    pub(crate) fn send_last_datagrams(&mut self, index: u32) {
        let now = self.clock.read_ns();
        let link = &mut self.links[index];
        let Some(socket) = link.socket.as_ref() else { return };
        while let Some(packed) = link.session.pack(&mut self.memory, now) {
            let bytes = P::packed(&self.memory, packed.bytes);
            match self.backend.send_datagrams(socket, bytes, packed.segment) {
                Ok(_) => self.recorder.sent(packed.bytes, 0),
                Err(_) => return,
            }
        }
    }

    /// Runs the timers of links that have expired.
    pub(crate) fn run_timers(&mut self, now: u64) {
        self.timers.pass(now);
        while let Some(index) = self.timers.next_ready() {
            let link = &mut self.links[index];
            if link.socket.is_none() {
                continue;
            }
            match link.session.due_ns() {
                None => {}
                Some(due_ns) if due_ns > now => self.timers.wants(index, due_ns),
                Some(_) => self.timer_expired(index),
            }
        }
    }

    /// Acts on a link's timer, unless what it waits for lies in the socket already: the worker may have been late, not the server.
    fn timer_expired(&mut self, index: u32) {
        let connection = self.links[index].connection;
        self.read_datagrams(index, false, None);
        let link = &mut self.links[index];
        if link.socket.is_none() || link.connection != connection {
            return;
        }
        // Does nothing that is not due any more.
        let now = self.clock.read_ns();
        link.session.timeout(now);
        if self.connection_goes_on(index, now) {
            self.links.mark_due(index);
        }
    }

    /// Ends every connection and tells its server, at the end of a level.
    pub(crate) fn leave_all(&mut self) {
        for index in self.links.indices() {
            if self.links[index].socket.is_some() {
                self.links[index].session.say_farewell(None);
                self.send_last_datagrams(index);
                self.close_socket(index);
            }
        }
    }
}
