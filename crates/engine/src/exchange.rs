//! What happens on a connection: connect, send a request, read its response, and part from the server decently.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use webstone_model::errors::{ErrorClass, ErrorExample};
use webstone_model::spec::{Check, ConnectionPolicy};

use crate::connection::{Connection, Family, State};
use crate::failure::{class_of, describe};
use crate::h1::response::{AtEnd, Malformed, Step};
use crate::plan::NO_TEMPLATE;
use crate::resolver::Resolver;
use crate::sys::{Address, Connect, Event, Received, Socket};
use crate::worker::{RESOLVER_TOKEN, Stage, Worker};

/// How long a server may leave a connection open after a response announced as the last. Then the client closes.
const LINGER_NS: u64 = 2_000_000_000;

impl Worker {
    /// Asks for a file: on a connection that the client keeps, or on a new one.
    pub(crate) fn start_request(&mut self, client: u32, request: u32, now: u64) {
        if self.recorder.is_open {
            self.recorder.measured.counts.planned += 1;
            self.recorder.measured.counts.started += 1;
        }
        let plan = self.plan.requests[request as usize];
        let kept = self.kept_connection(client, plan.origin);
        let index = match kept {
            Some(index) => index,
            None => self.free_connection(),
        };
        let connection = &mut self.connections[index as usize];
        connection.begin(client, request, plan.is_head, now);
        connection.reused = kept.is_some();
        if self.plan.trace > 0 {
            self.take_trace_number(index);
        }
        if kept.is_some() {
            self.send_request(index, now);
        } else {
            self.connect(index, now);
        }
    }

    /// Handles one event of the batch.
    #[inline]
    pub(crate) fn handle(&mut self, event: Event) {
        if event.token == RESOLVER_TOKEN {
            return self.take_answers();
        }
        let index = event.token as u32;
        let connection = &self.connections[index as usize];
        // The descriptor was connected anew within this round: the event is its predecessor's.
        if connection.opened_in_round == self.round {
            return;
        }
        match connection.state {
            State::Receiving if event.readable || event.ended => self.receive(index, event.ended),
            State::Connecting if event.error => self.connect_failed(index),
            State::Connecting if event.writable => {
                let now = self.now();
                self.note_delay(now);
                self.connected(index, now);
            }
            State::Sending => {
                let now = self.now();
                self.note_delay(now);
                if event.writable {
                    self.send_request(index, now);
                }
                // A server may answer, or hang up, before it has read the whole request.
                let still_there = self.connections[index as usize].state == State::Sending;
                if still_there && (event.readable || event.ended) {
                    self.receive(index, event.ended);
                }
            }
            State::Lingering => self.linger(index),
            State::Idle if event.readable || event.ended => self.idle_ended(index),
            _ => {}
        }
    }

    /// Fails every request that is past its deadline, and parts from servers that do not close.
    pub(crate) fn enforce_deadlines(&mut self, now: u64) {
        for index in 0..self.connections.len() as u32 {
            let connection = &self.connections[index as usize];
            if now < connection.deadline_ns {
                continue;
            }
            match connection.state {
                State::Resolving | State::Connecting => {
                    let limit = self.plan.connect_timeout_ns;
                    self.fail(index, ErrorClass::ConnectTimeout, now, |_| after(limit));
                }
                State::Sending | State::Receiving
                    if now - connection.start_ns >= self.plan.request_timeout_ns =>
                {
                    let limit = self.plan.request_timeout_ns;
                    self.fail(index, ErrorClass::RequestTimeout, now, |c| {
                        format!("{}, with {} bytes received", after(limit), c.received_bytes())
                    });
                }
                State::Sending | State::Receiving => {
                    let limit = self.plan.first_byte_timeout_ns;
                    self.fail(index, ErrorClass::FirstByteTimeout, now, |_| after(limit));
                }
                State::Lingering => {
                    if self.recorder.is_open {
                        self.recorder.measured.counts.lingered += 1;
                    }
                    self.drop_connection(index);
                }
                State::Free | State::Idle => {}
            }
        }
    }

    /// Closes a connection and forgets its socket.
    pub(crate) fn drop_connection(&mut self, index: u32) {
        self.connections[index as usize].socket = None;
        self.give_back(index);
    }

    fn kept_connection(&mut self, client: u32, origin: u32) -> Option<u32> {
        let connections = &self.connections;
        let idle = &mut self.clients[client as usize].idle;
        let at = idle.iter().rposition(|index| connections[*index as usize].origin == origin)?;
        Some(idle.swap_remove(at))
    }

    fn connect(&mut self, index: u32, now: u64) {
        let plan = self.plan.clone();
        let connection = &mut self.connections[index as usize];
        let request = &plan.requests[connection.request as usize];
        let origin = &plan.origins[request.origin as usize];
        let client = &mut self.clients[connection.client as usize];
        connection.origin = request.origin;
        connection.address = client.rotation % origin.addresses.len() as u32;
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
            resolver.ask(index, connection.ticket, &origin.host, origin.port);
        } else {
            let address = &origin.addresses[connection.address as usize];
            self.connect_to(index, address, now);
        }
    }

    fn connect_to(&mut self, index: u32, address: &Address, now: u64) {
        let connection = &mut self.connections[index as usize];
        connection.state = State::Connecting;
        connection.opened_in_round = self.round;
        match self.start_connect(index, address) {
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
                    self.connect_to(answer.connection, &Address::Internet(address), now);
                }
                Err(what) => self.fail(answer.connection, ErrorClass::Dns, now, |_| what),
            }
        }
    }

    fn start_connect(&mut self, index: u32, address: &Address) -> io::Result<Connect> {
        let family = Family::of(address);
        let connection = &mut self.connections[index as usize];
        if connection.socket.is_none() || connection.family != family {
            let sources = &self.plan.source;
            let source = (!sources.is_empty())
                .then(|| sources[self.clients[connection.client as usize].rotation as usize % sources.len()]);
            connection.socket = Some(Socket::new(address, source)?);
            connection.family = family;
            self.register(index)?;
        }
        let socket = self.connections[index as usize].socket.as_ref().expect("made above");
        socket.connect(address)
    }

    fn connected(&mut self, index: u32, now: u64) {
        let connection = &mut self.connections[index as usize];
        connection.connected_ns = now;
        self.recorder.connected(&self.plan, connection, now);
        self.send_request(index, now);
    }

    fn connect_failed(&mut self, index: u32) {
        let now = self.now();
        let socket =
            self.connections[index as usize].socket.as_ref().expect("a connecting connection has one");
        let error = socket.take_error().unwrap_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset));
        self.fail_to_connect(index, &error, now);
    }

    fn fail_to_connect(&mut self, index: u32, error: &io::Error, now: u64) {
        if self.recorder.is_open {
            self.recorder.measured.counts.connections_failed += 1;
        }
        self.fail(index, class_of(error, true), now, |_| describe(error));
    }

    /// Writes what is left of the request.
    fn send_request(&mut self, index: u32, now: u64) {
        let plan = &self.plan;
        let connection = &mut self.connections[index as usize];
        let request = &plan.requests[connection.request as usize];
        if connection.sent == 0 {
            connection.uses += 1;
            connection.is_last = match plan.policy {
                ConnectionPolicy::PerRequest => true,
                ConnectionPolicy::KeepAlive => connection.uses >= plan.requests_per_connection,
                ConnectionPolicy::PerPage => {
                    let page = &plan.pages[request.page as usize];
                    connection.uses >= plan.requests_per_connection
                        || (plan.parallel == 1 && request.file + 1 == page.requests)
                }
            };
            connection.deadline_ns =
                (now + plan.first_byte_timeout_ns).min(connection.start_ns + plan.request_timeout_ns);
        }
        let bytes = if request.template == NO_TEMPLATE {
            plan.slice(if connection.is_last { request.last } else { request.keep })
        } else {
            if connection.rendered.is_empty() {
                let client = &mut self.clients[connection.client as usize];
                plan.render(connection.request, connection.is_last, client, &mut connection.rendered);
            }
            &connection.rendered
        };
        let socket = connection.socket.as_ref().expect("a sending connection has one");
        let result = socket.send(&bytes[connection.sent as usize..]);
        match result {
            Ok(written) => {
                let is_whole = connection.sent as usize + written == bytes.len();
                connection.sent += written as u32;
                connection.state = if is_whole { State::Receiving } else { State::Sending };
                self.recorder.measured.lifetime.sent_bytes += written as u64;
                if self.recorder.is_open {
                    self.recorder.measured.counts.sent_bytes += written as u64;
                }
                if is_whole {
                    self.recorder.measured.lifetime.requests += 1;
                    if self.trace.is_some() || self.transactions.is_some() {
                        self.note_sent(index);
                    }
                }
            }
            Err(error) => self.broken(index, &error, now),
        }
    }

    fn receive(&mut self, index: u32, ended: bool) {
        let mut first = true;
        loop {
            let connection = &mut self.connections[index as usize];
            let socket = connection.socket.as_ref().expect("a receiving connection has one");
            // Unix sockets copy whatever the flag says, and a body that is looked at must be copied.
            let skippable = connection.parser.skippable();
            let skips = skippable > 0
                && connection.family != Family::Unix
                && connection.traced == 0
                && self.plan.check != Check::Content;
            let (result, asked) = if skips {
                // One byte more than is due: what a server sends too much must not stay unseen in the queue, where no
                // further event would tell of it.
                let most = skippable.saturating_add(1).min(self.scratch.len() as u64) as usize;
                (socket.discard(&mut self.scratch[..most]), most)
            } else {
                (socket.receive(&mut self.buffer), self.buffer.len())
            };
            let now = self.now();
            if first {
                self.note_delay(now);
                first = false;
            }
            match result {
                Ok(Received::WouldBlock) => return,
                Ok(Received::End) => return self.stream_ended(index, now),
                Err(error) => return self.broken(index, &error, now),
                Ok(Received::Bytes(n)) => {
                    let is_whole = if skips { self.skipped(index, n) } else { self.parse(index, n, now) };
                    match is_whole {
                        Err(Malformed(what)) => {
                            return self.fail(index, ErrorClass::Malformed, now, |_| what.to_owned());
                        }
                        Ok(Some(left_over)) => return self.finish(index, left_over, ended, now),
                        // Fewer bytes than asked for: the queue is empty, and what comes next brings an event of its
                        // own. If the end has come already there will be none, so read on to it.
                        Ok(None) if n < asked && !ended => return,
                        Ok(None) => {}
                    }
                }
            }
        }
    }

    /// `n` bytes were thrown away. When the response is whole: how many of them lay behind its end.
    #[inline]
    fn skipped(&mut self, index: u32, n: usize) -> Result<Option<usize>, Malformed> {
        let connection = &mut self.connections[index as usize];
        let due = connection.parser.skippable().min(n as u64);
        connection.parser.skipped(due);
        connection.body_bytes += due;
        self.recorder.measured.lifetime.received_bytes += n as u64;
        Ok(connection.parser.is_done().then_some(n - due as usize))
    }

    /// Parses `n` bytes from the buffer. When the response is whole: how many bytes lie behind its end.
    fn parse(&mut self, index: u32, n: usize, now: u64) -> Result<Option<usize>, Malformed> {
        self.recorder.measured.lifetime.received_bytes += n as u64;
        if self.connections[index as usize].traced > 0 {
            self.trace_received(index, n);
        }
        let connection = &mut self.connections[index as usize];
        if connection.first_byte_ns == 0 {
            connection.first_byte_ns = now;
            connection.deadline_ns = connection.start_ns + self.plan.request_timeout_ns;
        }
        // Nearly always the head comes whole and nothing was kept.
        let mut kept = std::mem::take(&mut connection.kept);
        let input = if kept.is_empty() {
            &self.buffer[..n]
        } else {
            kept.extend_from_slice(&self.buffer[..n]);
            &kept[..]
        };
        let mut at = 0;
        while at < input.len() && !connection.parser.is_done() {
            let (used, step) = connection.parser.step(&input[at..])?;
            match step {
                Step::NeedMore => {
                    connection.kept = input[at..].to_vec();
                    return Ok(None);
                }
                Step::Interim => connection.head_bytes += used as u64,
                Step::Head(head) => {
                    connection.head_bytes += used as u64;
                    connection.status = head.status;
                    connection.server_keeps = head.keep_alive;
                    connection.has_head = true;
                    connection.headers_done_ns = now;
                }
                Step::Body => {
                    if let Some(contents) = &self.plan.contents {
                        let content = contents[connection.request as usize];
                        connection.is_other_content |=
                            content.is_some_and(|c| !c.matches(connection.body_bytes, &input[at..at + used]));
                    }
                    connection.body_bytes += used as u64;
                }
                Step::Framing => connection.framing_bytes += used as u64,
                Step::Done => break,
            }
            at += used;
        }
        let left_over = input.len() - at;
        kept.clear();
        connection.kept = kept;
        Ok(connection.parser.is_done().then_some(left_over))
    }

    /// The response is whole: check it, write it down, decide what becomes of the connection, and let the client go on.
    fn finish(&mut self, index: u32, left_over: usize, ended: bool, now: u64) {
        let connection = &self.connections[index as usize];
        let request = self.plan.requests[connection.request as usize];
        if left_over > 0 {
            return self.fail(index, ErrorClass::Malformed, now, |_| {
                format!("{left_over} bytes behind the end of the response")
            });
        }
        let status = connection.status;
        let status_fits =
            if request.status == 0 { (200..300).contains(&status) } else { status == request.status };
        if !status_fits {
            let expected =
                if request.status == 0 { "200 to 299".to_owned() } else { request.status.to_string() };
            return self.refuse(index, ErrorClass::WrongStatus, ended, now, |c| {
                format!("status {} instead of {expected}", c.status)
            });
        }
        if request.size != u64::MAX && connection.body_bytes != request.size {
            return self.refuse(index, ErrorClass::WrongLength, ended, now, |c| {
                format!("a body of {} bytes instead of {}", c.body_bytes, request.size)
            });
        }
        if connection.is_other_content {
            return self.refuse(index, ErrorClass::WrongContent, ended, now, |c| {
                format!("a body of {} bytes with another content than the generated file", c.body_bytes)
            });
        }
        let client = connection.client;
        self.recorder.succeeded(&self.plan, connection, now);
        if self.trace.is_some() || self.transactions.is_some() {
            self.note_ended(index, None, "whole", now);
        }
        self.part(index, ended, now);
        self.request_ended(client, true);
        self.advance(client, now);
    }

    /// A whole response that is not the one asked for: an error, but the connection is sound.
    fn refuse(
        &mut self,
        index: u32,
        class: ErrorClass,
        ended: bool,
        now: u64,
        detail: impl FnOnce(&Connection) -> String,
    ) {
        let client = self.connections[index as usize].client;
        self.record_failure(index, class, now, detail);
        self.part(index, ended, now);
        self.request_ended(client, false);
        self.runnable.push(client);
    }

    /// Decides what becomes of a connection behind a whole response.
    fn part(&mut self, index: u32, ended: bool, now: u64) {
        let plan = &self.plan;
        let connection = &mut self.connections[index as usize];
        connection.deadline_ns = u64::MAX;
        if connection.server_keeps && !connection.is_last && !ended {
            if self.stage == Stage::Draining {
                return self.drop_connection(index);
            }
            connection.state = State::Idle;
            self.clients[connection.client as usize].idle.push(index);
        } else if plan.reset && connection.family != Family::Unix {
            // The labelled fast mode: a reset, and no TIME_WAIT on either side.
            self.disconnect(index);
        } else {
            connection.state = State::Lingering;
            connection.deadline_ns = now + LINGER_NS;
            if ended {
                // There will be no further event. One read makes sure that nothing lies before the end.
                self.linger(index);
            }
        }
    }

    /// The server has closed and everything was read: close our half too, and keep the socket for another connection.
    /// Both sides have sent FIN and neither a reset; TIME_WAIT is the server's.
    fn say_farewell(&mut self, index: u32) {
        let connection = &self.connections[index as usize];
        let socket = connection.socket.as_ref().expect("it was open until now");
        // A socket bound to a source address would keep it, and a Unix socket cannot be connected again.
        let reusable = connection.family != Family::Unix && self.plan.source.is_empty();
        if reusable && socket.shutdown_write().is_ok() {
            self.disconnect(index);
        } else {
            self.drop_connection(index);
        }
    }

    fn disconnect(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let socket = connection.socket.as_ref().expect("it was open until now");
        if !self.plan.source.is_empty() || socket.disconnect().is_err() {
            connection.socket = None;
        }
        self.give_back(index);
    }

    fn linger(&mut self, index: u32) {
        match self.read_surplus(index) {
            Some(Ok(Received::WouldBlock)) => {}
            Some(Ok(Received::End)) => self.say_farewell(index),
            _ => self.drop_connection(index),
        }
    }

    /// The server ended, or wrote on, a connection that was kept for later: it is of no more use.
    fn idle_ended(&mut self, index: u32) {
        let client = self.connections[index as usize].client;
        self.clients[client as usize].idle.retain(|kept| *kept != index);
        let _ = self.read_surplus(index);
        self.drop_connection(index);
    }

    /// Reads what comes behind the end of a response. Bytes that belong to no response are counted once a connection;
    /// then the connection is given up (`None`).
    fn read_surplus(&mut self, index: u32) -> Option<io::Result<Received>> {
        let connection = &self.connections[index as usize];
        let socket = connection.socket.as_ref().expect("an open connection has one");
        let result = socket.receive(&mut self.buffer);
        let Ok(Received::Bytes(n)) = result else { return Some(result) };
        self.recorder.measured.lifetime.received_bytes += n as u64;
        if self.recorder.is_open {
            self.recorder.measured.counts.surplus += 1;
        }
        None
    }

    fn stream_ended(&mut self, index: u32, now: u64) {
        let connection = &self.connections[index as usize];
        match connection.parser.at_end() {
            AtEnd::Complete => self.finish(index, 0, true, now),
            AtEnd::InHead if self.may_retry(index) => self.retry(index, now),
            AtEnd::InHead => self.fail(index, ErrorClass::ClosedEarly, now, |c| match c.received_bytes() {
                0 => "the connection was closed before an answer".to_owned(),
                n => format!("the connection was closed {n} bytes into the head"),
            }),
            AtEnd::InBody(missing) => self.fail(index, ErrorClass::ShortBody, now, |c| match missing {
                Some(missing) => {
                    format!("the connection was closed {missing} bytes before the end of the body")
                }
                None => format!("the connection was closed {} bytes into a chunked body", c.body_bytes),
            }),
        }
    }

    /// A system call on an established connection failed.
    fn broken(&mut self, index: u32, error: &io::Error, now: u64) {
        if self.may_retry(index) {
            return self.retry(index, now);
        }
        self.fail(index, class_of(error, false), now, |c| {
            format!("{} after {} bytes of the answer", describe(error), c.received_bytes())
        });
    }

    /// Whether the failure is the race that keep-alive cannot avoid: the server closed just as the request left.
    /// RFC 9112 section 9.3.1 lets a client send it again on a new connection.
    fn may_retry(&self, index: u32) -> bool {
        let connection = &self.connections[index as usize];
        let request = &self.plan.requests[connection.request as usize];
        connection.reused && request.is_idempotent && connection.received_bytes() == 0
    }

    fn retry(&mut self, index: u32, now: u64) {
        if self.recorder.is_open {
            self.recorder.measured.counts.stale_retries += 1;
        }
        let connection = &mut self.connections[index as usize];
        connection.socket = None;
        connection.reused = false;
        connection.sent = 0;
        // The whole wait is the user's: the start stays where it was.
        self.connect(index, now);
    }

    /// Ends a request in an error, and its connection with it.
    fn fail(&mut self, index: u32, class: ErrorClass, now: u64, detail: impl FnOnce(&Connection) -> String) {
        let client = self.connections[index as usize].client;
        self.record_failure(index, class, now, detail);
        self.drop_connection(index);
        self.request_ended(client, false);
        if no_connection(class) {
            let state = &mut self.clients[client as usize];
            state.back_off();
            // The rest of the page would meet the same closed door.
            state.next_file = self.plan.pages[state.page as usize].requests;
        }
        self.runnable.push(client);
    }

    fn record_failure(
        &mut self,
        index: u32,
        class: ErrorClass,
        now: u64,
        detail: impl FnOnce(&Connection) -> String,
    ) {
        if self.trace.is_some() || self.transactions.is_some() {
            self.note_ended(index, Some(class), class.name(), now);
        }
        let connection = &self.connections[index as usize];
        let at_ns = now.saturating_sub(self.recorder.open_ns);
        let plan = &self.plan;
        self.recorder.failed(plan, connection, class, now, || ErrorExample {
            at_ns,
            address: plan.peer(connection),
            request: plan.label(connection.request),
            detail: detail(connection),
        });
    }

    fn take_trace_number(&mut self, index: u32) {
        let number = self.shared.traced.fetch_add(1, Relaxed);
        self.connections[index as usize].traced = if number < self.plan.trace { number + 1 } else { 0 };
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

fn after(limit_ns: u64) -> String {
    format!("nothing within {}", webstone_model::units::Nanos(limit_ns))
}
