//! What a client does between connections: pick a page, ask for its files in order, end the page, think, go on.

use std::sync::atomic::Ordering::Relaxed;

use webstone_workload::load::ConnectionPolicy;

use crate::client::Doing;
use crate::exchange::Exchanges;
use crate::layer::Layer;
use crate::session::Session;
use crate::sys::Backend;
use crate::worker::{Stage, Worker};

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// The client picks a page and asks for its first file; or stops, where no more pages are to begin. `intended_ns` is
    /// when an open loop's schedule would have had it start; in closed loop it is now.
    pub(crate) fn start_page(&mut self, client: u32, intended_ns: u64, now: u64) {
        if !self.may_start_page() {
            self.clients[client].stop();
            self.clients.answered(client);
            return;
        }
        self.clients[client].begin_page(&self.plan.sampler, intended_ns, now);
        self.clients.page_began();
        self.ask_for_files(client, now);
    }

    /// Goes on with a client after one of its requests ended.
    pub(crate) fn advance(&mut self, client: u32, now: u64) {
        let state = &self.clients[client];
        match state.doing {
            Doing::Page => {
                let page = self.plan.pages[state.page as usize];
                let is_over = self.stage == Stage::Draining || state.next_file >= page.requests;
                if !is_over {
                    self.ask_for_files(client, now);
                } else if state.outstanding == 0 {
                    self.end_page(client, now);
                }
            }
            Doing::Stopped if self.stage == Stage::Measuring => self.start_page(client, now, now),
            _ => {}
        }
    }

    fn may_start_page(&self) -> bool {
        if self.stage == Stage::Draining {
            return false;
        }
        if self.plan.page_limit.is_none() {
            return true;
        }
        match self.stage {
            // Only pages of the window count against the limit; before it, load is for warming up alone.
            Stage::WarmUp => !self.shared.settle.load(Relaxed),
            _ => self.shared.pages_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok(),
        }
    }

    /// Asks for as many files as may be under way at once: the first alone, as a browser must read the document before
    /// it knows the rest.
    fn ask_for_files(&mut self, client: u32, now: u64) {
        let page = self.plan.pages[self.clients[client].page as usize];
        loop {
            let state = &mut self.clients[client];
            let first_alone = state.next_file <= 1;
            let at_once = if first_alone { 1 } else { self.plan.parallel };
            let may_ask =
                if state.next_file == 1 { state.outstanding == 0 } else { state.outstanding < at_once };
            if state.next_file >= page.requests || !may_ask {
                return;
            }
            // Behind the first file, all the others may go out in this loop.
            let request = page.first_request + state.ask_for_next_file();
            self.clients.request_began();
            self.start_request(client, request, now);
        }
    }

    fn end_page(&mut self, client: u32, now: u64) {
        self.clients.page_ended(now);
        let state = &self.clients[client];
        let page = self.plan.pages[state.page as usize];
        // Cut short by the end of the window, a page is neither completed nor failed.
        if state.next_file >= page.requests {
            let (number, ok) = (state.page, state.page_ok);
            let starts_ns = (state.intended_ns, state.page_start_ns);
            self.recorder.page_ended(&self.plan, client as usize, number, ok, starts_ns, now);
        }
        if self.plan.policy == ConnectionPolicy::PerPage {
            self.close_idle(client);
        }
        // In open loop the schedule is what sets the pace, so that nobody thinks.
        let think_ns = if self.pacing.is_open_loop() { 0 } else { page.think_ns };
        let pause_ns = think_ns.max(self.clients[client].take_backoff_ns());
        if pause_ns > 0 && self.stage != Stage::Draining {
            self.clients.wait(client, now, now + pause_ns);
        } else {
            self.client_is_free(client, now);
        }
    }

    /// Ends the connections that a client keeps.
    fn close_idle(&mut self, client: u32) {
        if P::Exchanges::MANY {
            // Pages share no links, so that all of them are idle.
            loop {
                let Some(link) = self.links.shared(client).next() else { return };
                self.leave(link);
            }
        }
        while let Some(link) = self.clients[client].take_any_kept() {
            self.leave(link);
        }
    }
}
