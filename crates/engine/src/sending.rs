//! How a request is begun, on a link that its client keeps or on a new one, and written. `connecting`, `receiving`, `parting`
//! and `failing` hold what follows, in the order in which it happens.

use std::sync::atomic::Ordering::Relaxed;

use webstone_model::spec::ConnectionPolicy;

use crate::exchange::Progress;
use crate::plan::NO_TEMPLATE;
use crate::sys::Backend;
use crate::worker::Worker;

impl<B: Backend> Worker<B> {
    /// Asks for a file: on a link that the client keeps, or on a new one.
    pub(crate) fn start_request(&mut self, client: u32, request: u32, now: u64) {
        if self.recorder.is_open {
            self.recorder.measured.counts.planned += 1;
            self.recorder.measured.counts.started += 1;
        }
        let plan = self.plan.requests[request as usize];
        let kept = self.kept_link(client, plan.origin);
        let index = match kept {
            Some(index) => index,
            None => self.free_link(),
        };
        let link = &mut self.links[index as usize];
        // The files behind a page's first are asked for when they are known, and have no schedule of their own.
        let intended_ns = if plan.file == 0 { self.clients[client as usize].intended_ns } else { now };
        link.begin(plan.is_head);
        link.exchange.begin(client, request, intended_ns, now);
        link.exchange.reused = kept.is_some();
        if self.plan.trace > 0 {
            self.take_trace_number(index);
        }
        if kept.is_some() {
            self.send_request(index, now);
        } else {
            self.connect(index, now);
        }
    }

    pub(crate) fn kept_link(&mut self, client: u32, origin: u32) -> Option<u32> {
        let links = &self.links;
        let idle = &mut self.clients[client as usize].idle;
        let at = idle.iter().rposition(|index| links[*index as usize].origin == origin)?;
        Some(idle.swap_remove(at))
    }

    /// Writes what is left of the request.
    pub(crate) fn send_request(&mut self, index: u32, now: u64) {
        let plan = &self.plan;
        let link = &mut self.links[index as usize];
        let request = &plan.requests[link.exchange.request as usize];
        if link.sent == 0 {
            link.uses += 1;
            link.is_last = match plan.policy {
                ConnectionPolicy::PerRequest => true,
                ConnectionPolicy::KeepAlive => link.uses >= plan.requests_per_connection,
                ConnectionPolicy::PerPage => {
                    let page = &plan.pages[request.page as usize];
                    link.uses >= plan.requests_per_connection
                        || (plan.parallel == 1 && request.file + 1 == page.requests)
                }
            };
            link.exchange.deadline_ns =
                (now + plan.first_byte_timeout_ns).min(link.exchange.start_ns + plan.request_timeout_ns);
        }
        let bytes = if request.template == NO_TEMPLATE {
            let slice = if link.is_last { request.last } else { request.keep };
            &plan.bytes[slice.start() + link.sent as usize..slice.end()]
        } else {
            if link.rendered.is_empty() {
                let client = &mut self.clients[link.exchange.client as usize];
                plan.render(link.exchange.request, link.is_last, client, &mut link.rendered);
            }
            &link.rendered[link.sent as usize..]
        };
        let socket = link.socket.as_ref().expect("a link that is up has one");
        let due = bytes.len();
        let result = self.backend.send(socket, bytes);
        match result {
            Ok(written) => {
                let is_whole = written == due;
                link.sent += written as u32;
                link.exchange.progress =
                    if is_whole { Progress::Receiving } else { Progress::Sending };
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
        self.links[index as usize].exchange.traced = if number < self.plan.trace { number + 1 } else { 0 };
    }
}
