//! Making a connection: resolve the name if each connection does that, open or reuse a socket, and connect.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use webstone_measure::errors::ErrorClass;
use webstone_workload::route::ProxyProtocol;

use crate::exchange::{ExchangeId, Exchanges, Marks, Progress};
use crate::failure::{class_of, describe};
use crate::layer::Layer;
use crate::link::{Family, HeldOver, LinkState};
use crate::origins::pair;
use crate::proxy_protocol;
use crate::resolver::Resolver;
use crate::session::{AnswerError, Session};
use crate::sys::{Address, Backend, Connect, Received};
use crate::worker::Worker;

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Connects a link for an exchange that waits on it.
    pub(crate) fn connect(&mut self, at: ExchangeId, now: u64) {
        let plan = &self.plan;
        let index = at.link;
        let connection = self.links.next_connection();
        let link = &mut self.links[index];
        let exchange = link.exchanges.at_mut(at.slot);
        let request = &plan.requests[exchange.request as usize];
        let origin = &plan.origins[request.origin as usize];
        let client = &mut self.clients[exchange.client];
        link.origin = request.origin;
        let (destination, source) = pair(client.next_rotation(), origin.addresses.len(), plan.source.len());
        link.address = destination as u32;
        link.source = source as u32;
        link.answered = false;
        link.uses = 0;
        link.connection = connection;
        link.connect_begun_ns = now;
        link.resolved = None;
        link.layer.open(request.origin, plan, &mut self.layers);
        if exchange.marks.has(Marks::TOO_EARLY) {
            link.layer.hold_early_data();
        }
        link.session.open(plan);
        link.deadline_ns = now + plan.connect_timeout_ns;
        exchange.deadline_ns = exchange.start_ns + plan.request_timeout_ns;
        if let Some(resolver) = self.resolver.as_ref().filter(|_| origin.is_named) {
            link.state = LinkState::Resolving;
            resolver.ask(index, link.connection, &origin.target.host, origin.target.port);
        } else {
            self.connect_to_address(index, now);
        }
    }

    pub(crate) fn connect_to_address(&mut self, index: u32, now: u64) {
        if P::DATAGRAMS {
            return self.begin_datagrams(index, now);
        }
        let link = &mut self.links[index];
        link.state = LinkState::Connecting;
        link.opened_in_round = self.clock.round();
        // Whatever is still queued for the link, a read or a piece on a line, belongs to its previous connection.
        link.held_over =
            if self.lines.are_limited() { HeldOver::No } else { link.held_over.min(HeldOver::Open) };
        match self.start_connect(index) {
            Ok(Connect::InProgress) => {}
            Ok(Connect::Done) => self.connected_at_once(index),
            Err(error) => self.fail_to_connect(index, &error, now),
        }
    }

    #[cold]
    fn connected_at_once(&mut self, index: u32) {
        let now = self.now();
        self.connected(index, now);
    }

    /// Continues with connections whose names have been resolved.
    pub(crate) fn take_answers(&mut self) {
        let now = self.now();
        if let Some(resolver) = &self.resolver {
            resolver.waker().clear();
        }
        while let Some(answer) = self.resolver.as_ref().and_then(Resolver::answer) {
            let link = &mut self.links[answer.connection];
            if link.state != LinkState::Resolving || link.connection != answer.ticket {
                continue;
            }
            match answer.addresses {
                Ok(list) => {
                    // Of the address family that the run began with, if the name still has one: see
                    // `origin::resolve`.
                    let first = &self.plan.origins[link.origin as usize].addresses[0];
                    let fits = |found: &&SocketAddr| {
                        Family::of_address(&Address::Internet(**found)) == Family::of_address(first)
                    };
                    let fitting = list.iter().filter(fits).count().max(1);
                    let nth = link.address as usize % fitting;
                    let address = *list.iter().filter(fits).nth(nth).unwrap_or(&list[0]);
                    link.resolved = Some(Box::new(address));
                    self.connect_to_address(answer.connection, now);
                }
                Err(what) => self.fail_link(answer.connection, ErrorClass::Dns, now, &|_| what.clone()),
            }
        }
    }

    pub(crate) fn start_connect(&mut self, index: u32) -> io::Result<Connect> {
        let link = &mut self.links[index];
        let resolved = link.resolved.as_deref().copied().map(Address::Internet);
        // Borrowed, not cloned: the plan's reference count is a cache line shared by all workers.
        let addresses = &self.plan.origins[link.origin as usize].addresses;
        let address = resolved.as_ref().unwrap_or(&addresses[link.address as usize]);
        let family = Family::of_address(address);
        if link.socket.is_none() || link.family != family {
            let source = self.plan.source.get(link.source as usize).copied();
            if let Some(other) = link.socket.take() {
                self.backend.close(other);
                self.sampling.closed(index);
            }
            let socket = self.backend.open(index, address, source)?;
            // Without kernel timestamps no link is marked.
            if self.sampling.wants_a_stamped_link()
                && family != Family::Unix
                && self.backend.stamp(&socket).is_ok()
            {
                self.sampling.stamps(index);
            }
            if let Some(bytes) = self.lines.queue_bytes() {
                self.backend.bound_queue(&socket, bytes);
            }
            let link = &mut self.links[index];
            link.socket = Some(socket);
            link.family = family;
        }
        let link = &mut self.links[index];
        let socket = link.socket.as_ref().expect("made above");
        if link.layer.awaits(1) {
            // The previous connection may have ended in the middle of a body.
            self.backend.awaits(socket, 1);
        }
        self.backend.connect(socket, address)
    }

    /// Counts a connection that exchanges waited for. Returns whether any did.
    #[inline(always)]
    pub(crate) fn note_connected(&mut self, index: u32, took_ns: u64, now: u64) -> bool {
        let link = &mut self.links[index];
        let mut is_counted = false;
        for slot in 0..link.exchanges.slots() {
            let exchange = link.exchanges.at_mut(slot);
            if exchange.progress == Progress::Waiting {
                exchange.connected_ns = now;
                if !std::mem::replace(&mut is_counted, true) {
                    self.recorder.connected(&self.plan, exchange, took_ns);
                }
            }
        }
        is_counted
    }

    #[inline(always)]
    pub(crate) fn connected(&mut self, index: u32, now: u64) {
        if self.sampling.asks_for_handshake() {
            self.ask_for_handshake(index, now);
        }
        let is_counted = self.note_connected(index, now - self.links[index].connect_begun_ns, now);
        let link = &mut self.links[index];
        if !L::IS_PLAIN {
            link.connect_begun_ns = now;
            if is_counted && link.layer.is_agreed() {
                self.recorder.connected_without_tls();
            }
        }
        if let Some(version) = self.plan.proxy_protocol
            && let Err(error) = self.say_who_connects(index, version)
        {
            // The connection stands; a handshake that was to follow fails with it.
            self.links[index].state = LinkState::Handshaking;
            return self.broken(index, &error, now);
        }
        let link = &mut self.links[index];
        if L::IS_PLAIN || link.layer.is_open() {
            return self.opened(index, now);
        }
        link.state = LinkState::Handshaking;
        if let Err(error) = self.send_for_layer(index) {
            self.broken(index, &error, now);
        }
    }

    /// Sends the header of the PROXY protocol, in one piece: the first bytes of a connection always find room.
    #[cold]
    fn say_who_connects(&mut self, index: u32, version: ProxyProtocol) -> io::Result<()> {
        let link = &self.links[index];
        let socket = link.socket.as_ref().expect("a connection that stands has one");
        let resolved = link.resolved.as_deref().copied().map(Address::Internet);
        let addresses = &self.plan.origins[link.origin as usize].addresses;
        let ends = match resolved.as_ref().unwrap_or(&addresses[link.address as usize]) {
            Address::Internet(to) => self.backend.local_address(socket).map(|from| (from, *to)),
            Address::Unix(_) => None,
        };
        let header = proxy_protocol::header(version, ends);
        if self.backend.send(socket, &header)? != header.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.recorder.sent(header.len(), 0);
        Ok(())
    }

    /// The layer is open: sends what waits for the link.
    #[inline(always)]
    pub(crate) fn opened(&mut self, index: u32, now: u64) {
        let link = &mut self.links[index];
        link.state = LinkState::Up;
        link.deadline_ns = u64::MAX;
        if P::Exchanges::MANY {
            return self.begin_first(index, now);
        }
        for slot in 0..link.exchanges.slots() {
            if self.links[index].exchanges.at(slot).progress == Progress::Waiting {
                self.send_request(ExchangeId { link: index, slot }, now);
            }
        }
    }

    /// Continues the handshake of a link's layer. `is_asked`: there may be something to read, of which at most `most`
    /// bytes are read.
    #[cold]
    pub(crate) fn shake_hands(&mut self, index: u32, mut is_asked: bool, ended: bool, most: usize) {
        let mut now = self.now();
        if most == usize::MAX {
            self.note_delay(now);
        }
        let mut left = most;
        while is_asked {
            let link = &mut self.links[index];
            let socket = link.socket.as_ref().expect("an established connection has one");
            let received = self.backend.receive_up_to(socket, left);
            now = self.now();
            match received {
                Ok(Received::WouldBlock) => is_asked = false,
                Ok(Received::End) => {
                    return self.fail_link_by(index, AnswerError::EndInHandshake, now);
                }
                Err(error) => return self.broken(index, &error, now),
                Ok(Received::Bytes(n)) => {
                    left -= n;
                    is_asked = left > 0;
                    let link = &mut self.links[index];
                    let connection = link.connection;
                    let taken = link.layer.handshake(self.backend.bytes(n), &mut self.layers);
                    let is_open = link.layer.is_open();
                    let heard = taken.and_then(|taken| {
                        self.recorder.received(taken);
                        self.note_handshake(index, now);
                        // The bytes that the layer took may hold the session's first ones, too.
                        if is_open { self.hear_first(index, taken..n, now) } else { Ok(()) }
                    });
                    if let Err(failure) = heard {
                        // The layer sends the server an alert. If the socket does not take it, the server gets none.
                        let _ = self.send_for_layer(index);
                        return self.fail_link_by(index, failure, now);
                    }
                    if is_open {
                        // The server may have ended the connection together with the handshake.
                        let link = &self.links[index];
                        if link.state != LinkState::Handshaking || link.connection != connection {
                            return;
                        }
                        self.opened(index, now);
                        let link = &self.links[index];
                        if link.state.is_up() && link.connection == connection {
                            // What arrived meanwhile raises no further event.
                            self.receive(index, ended);
                        }
                        return;
                    }
                }
            }
        }
        if let Err(error) = self.send_for_layer(index) {
            self.broken(index, &error, now);
        }
    }

    /// Reads what came with the end of the handshake. On a link that carries one exchange at a time, its request has not been
    /// sent yet, so that nothing can answer it.
    fn hear_first(&mut self, index: u32, wire: Range<usize>, now: u64) -> Result<(), AnswerError> {
        if P::Exchanges::MANY {
            return self.hear(index, wire, now).map(drop);
        }
        self.recorder.received(wire.len());
        let bytes = &self.backend.bytes(wire.end)[wire.start..];
        match self.links[index].layer.unseal(bytes, &mut self.layers)? {
            0 => Ok(()),
            _ => Err(AnswerError::Malformed("bytes before the first request")),
        }
    }

    /// Records what a finished handshake agreed on, and how long it took.
    pub(crate) fn note_handshake(&mut self, index: u32, now: u64) {
        let link = &mut self.links[index];
        if let Some(agreed) = link.layer.take_agreed(&self.layers) {
            let took_ns = now - link.connect_begun_ns;
            self.recorder.shook_hands(agreed, took_ns);
            if self.plan.trace > 0 {
                self.trace_handshake(index, &agreed, took_ns);
            }
        }
    }

    /// Records how much longer the client saw a connect take than the kernel did: the delay of the event loop.
    #[cold]
    fn ask_for_handshake(&mut self, index: u32, now: u64) {
        let link = &self.links[index];
        // After name resolution the connect time contains the resolver's time, too.
        if !self.recorder.is_open() || link.resolved.is_some() {
            return;
        }
        let took_ns = now - link.connect_begun_ns;
        let handshake_ns = link.socket.as_ref().and_then(|socket| self.backend.handshake_ns(socket));
        if let Some(handshake_ns) = handshake_ns {
            self.recorder.connect_lag(took_ns.saturating_sub(handshake_ns));
        }
    }

    pub(crate) fn connect_failed(&mut self, index: u32) {
        let now = self.now();
        let socket = self.links[index].socket.as_ref().expect("a connecting link has one");
        let error = self
            .backend
            .connect_error(socket)
            .unwrap_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset));
        self.fail_to_connect(index, &error, now);
    }

    pub(crate) fn fail_to_connect(&mut self, index: u32, error: &io::Error, now: u64) {
        let class = class_of(error, true);
        self.fail_link(index, class, now, &|_| match class {
            ErrorClass::OutOfPorts => format!("no local port is free: {}", describe(error)),
            _ => describe(error),
        });
    }
}
