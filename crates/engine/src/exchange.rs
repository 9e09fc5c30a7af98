//! An exchange on a connection: a request is begun and written, events are dealt to where they belong, deadlines are
//! kept. `connecting`, `receiving`, `parting` and `failing` hold the rest, in the order in which it happens.

use std::sync::atomic::Ordering::Relaxed;

use webstone_model::errors::ErrorClass;
use webstone_model::spec::ConnectionPolicy;

use crate::connection::State;
use crate::plan::NO_TEMPLATE;
use crate::sys::{Backend, Event};
use crate::worker::{RESOLVER_TOKEN, TICKER_TOKEN, Worker};

impl<B: Backend> Worker<B> {
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
        // The files behind a page's first are asked for when they are known, and have no schedule of their own.
        let intended_ns = if plan.file == 0 { self.clients[client as usize].intended_ns } else { now };
        connection.begin(client, request, plan.is_head, intended_ns, now);
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
        if event.token >= TICKER_TOKEN {
            return match event.token {
                RESOLVER_TOKEN => self.take_answers(),
                _ => self.ticked(),
            };
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
                // A server may answer, or hang up, before it has read the whole request; and what it wrote by now raises no
                // further event, even if the last of the request has just left.
                let state = self.connections[index as usize].state;
                let still_there = matches!(state, State::Sending | State::Receiving);
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

    pub(crate) fn kept_connection(&mut self, client: u32, origin: u32) -> Option<u32> {
        let connections = &self.connections;
        let idle = &mut self.clients[client as usize].idle;
        let at = idle.iter().rposition(|index| connections[*index as usize].origin == origin)?;
        Some(idle.swap_remove(at))
    }

    /// Writes what is left of the request.
    pub(crate) fn send_request(&mut self, index: u32, now: u64) {
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
            let slice = if connection.is_last { request.last } else { request.keep };
            &plan.bytes[slice.start() + connection.sent as usize..slice.end()]
        } else {
            if connection.rendered.is_empty() {
                let client = &mut self.clients[connection.client as usize];
                plan.render(connection.request, connection.is_last, client, &mut connection.rendered);
            }
            &connection.rendered[connection.sent as usize..]
        };
        let socket = connection.socket.as_ref().expect("a sending connection has one");
        let due = bytes.len();
        let result = self.backend.send(socket, bytes);
        match result {
            Ok(written) => {
                let is_whole = written == due;
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

    pub(crate) fn take_trace_number(&mut self, index: u32) {
        let number = self.shared.traced.fetch_add(1, Relaxed);
        self.connections[index as usize].traced = if number < self.plan.trace { number + 1 } else { 0 };
    }
}

fn after(limit_ns: u64) -> String {
    format!("nothing within {}", webstone_model::units::Nanos(limit_ns))
}
