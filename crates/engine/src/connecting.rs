//! How a connection comes to be: a name resolved where that is asked for each, a socket made or used again, a connect
//! that succeeds or fails.

use std::io;
use std::net::SocketAddr;

use webstone_model::errors::ErrorClass;

use crate::connection::{Family, HeldOver, State};
use crate::failure::{class_of, describe};
use crate::origins::pair;
use crate::resolver::Resolver;
use crate::sys::{Address, Backend, Connect};
use crate::worker::{NO_CONNECTION, Worker};

/// One connection in so many is asked for its handshake: 300 ns of system call are then 20 ns each, a thousandth of what a
/// connection costs. A prime, so that it keeps no step with the number of clients.
pub(crate) const HANDSHAKES_ASKED_EVERY: u32 = 17;

impl<B: Backend> Worker<B> {
    pub(crate) fn connect(&mut self, index: u32, now: u64) {
        let plan = &self.plan;
        let connection = &mut self.connections[index as usize];
        let request = &plan.requests[connection.request as usize];
        let origin = &plan.origins[request.origin as usize];
        let client = &mut self.clients[connection.client as usize];
        connection.origin = request.origin;
        let (destination, source) = pair(client.rotation, origin.addresses.len(), plan.source.len());
        connection.address = destination as u32;
        connection.source = source as u32;
        client.rotation = client.rotation.wrapping_add(1);
        connection.uses = 0;
        connection.connect_begun_ns = now;
        connection.connected_ns = 0;
        connection.resolved = None;
        connection.deadline_ns = now + plan.connect_timeout_ns.min(plan.request_timeout_ns);
        if let Some(resolver) = self.resolver.as_ref().filter(|_| origin.is_named) {
            self.tickets = self.tickets.wrapping_add(1);
            connection.ticket = self.tickets;
            connection.state = State::Resolving;
            resolver.ask(index, connection.ticket, &origin.target.host, origin.target.port);
        } else {
            self.connect_to_address(index, now);
        }
    }

    pub(crate) fn connect_to_address(&mut self, index: u32, now: u64) {
        let connection = &mut self.connections[index as usize];
        connection.state = State::Connecting;
        connection.opened_in_round = self.round;
        // Its place in the queue, if it has one, means its predecessor.
        connection.held_over = connection.held_over.min(HeldOver::Open);
        match self.start_connect(index) {
            Ok(Connect::InProgress) => {}
            Ok(Connect::Done) => {
                let now = self.now();
                self.connected(index, now);
            }
            Err(error) => self.fail_to_connect(index, &error, now),
        }
    }

    /// Goes on with connections whose names were resolved.
    pub(crate) fn take_answers(&mut self) {
        let now = self.now();
        if let Some(resolver) = &self.resolver {
            resolver.waker().clear();
        }
        while let Some(answer) = self.resolver.as_ref().and_then(Resolver::answer) {
            let connection = &mut self.connections[answer.connection as usize];
            if connection.state != State::Resolving || connection.ticket != answer.ticket {
                continue;
            }
            match answer.addresses {
                Ok(list) => {
                    // Of the family that the run began with, where the name still has one: see `origin::resolve`.
                    let first = &self.plan.origins[connection.origin as usize].addresses[0];
                    let fits =
                        |found: &&SocketAddr| Family::of(&Address::Internet(**found)) == Family::of(first);
                    let fitting = list.iter().filter(fits).count().max(1);
                    let nth = connection.address as usize % fitting;
                    let address = *list.iter().filter(fits).nth(nth).unwrap_or(&list[0]);
                    connection.resolved = Some(address);
                    self.connect_to_address(answer.connection, now);
                }
                Err(what) => self.fail(answer.connection, ErrorClass::Dns, now, |_| what),
            }
        }
    }

    pub(crate) fn start_connect(&mut self, index: u32) -> io::Result<Connect> {
        let connection = &mut self.connections[index as usize];
        let resolved = connection.resolved.map(Address::Internet);
        // Borrowed, not cloned: the plan's reference count is a cache line that all workers share.
        let addresses = &self.plan.origins[connection.origin as usize].addresses;
        let address = resolved.as_ref().unwrap_or(&addresses[connection.address as usize]);
        let family = Family::of(address);
        if connection.socket.is_none() || connection.family != family {
            let source = self.plan.source.get(connection.source as usize).copied();
            if let Some(other) = connection.socket.take() {
                self.backend.close(other);
                if self.stamped == index {
                    self.stamped = NO_CONNECTION;
                }
            }
            let socket = self.backend.open(index, address, source)?;
            // One connection at a time is a sample. Where the kernel does not stamp, there is none.
            if self.stamped == NO_CONNECTION && family != Family::Unix && self.backend.stamp(&socket).is_ok()
            {
                self.stamped = index;
            }
            let connection = &mut self.connections[index as usize];
            connection.socket = Some(socket);
            connection.family = family;
        }
        let socket = self.connections[index as usize].socket.as_ref().expect("made above");
        self.backend.connect(socket, address)
    }

    pub(crate) fn connected(&mut self, index: u32, now: u64) {
        let connection = &mut self.connections[index as usize];
        connection.connected_ns = now;
        self.recorder.connected(&self.plan, connection, now);
        self.connections_until_asked -= 1;
        if self.connections_until_asked == 0 {
            self.ask_for_handshake(index, now);
        }
        self.send_request(index, now);
    }

    /// Notes how much longer a connect took for the client than for the kernel: what the event loop added to it.
    #[cold]
    fn ask_for_handshake(&mut self, index: u32, now: u64) {
        self.connections_until_asked = HANDSHAKES_ASKED_EVERY;
        let connection = &self.connections[index as usize];
        // The time of a connection that had its name resolved is the resolver's too.
        if !self.recorder.is_open || connection.resolved.is_some() {
            return;
        }
        let took_ns = now - connection.connect_begun_ns;
        let handshake_ns = connection.socket.as_ref().and_then(|socket| self.backend.handshake_ns(socket));
        if let Some(handshake_ns) = handshake_ns {
            self.recorder.measured.generator.connect_lag.record(took_ns.saturating_sub(handshake_ns));
        }
    }

    pub(crate) fn connect_failed(&mut self, index: u32) {
        let now = self.now();
        let socket =
            self.connections[index as usize].socket.as_ref().expect("a connecting connection has one");
        let error = self
            .backend
            .connect_error(socket)
            .unwrap_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset));
        self.fail_to_connect(index, &error, now);
    }

    pub(crate) fn fail_to_connect(&mut self, index: u32, error: &io::Error, now: u64) {
        self.fail(index, class_of(error, true), now, |_| describe(error));
    }
}
