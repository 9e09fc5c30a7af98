//! A client's page: pick it, ask for its files in order, end it, think, and begin the next.

use std::sync::atomic::Ordering::Relaxed;

use webstone_workload::load::ConnectionPolicy;

use crate::client::Doing;
use crate::exchange::Exchanges;
use crate::layer::Layer;
use crate::session::Session;
use crate::sys::Backend;
use crate::worker::{Stage, Worker};

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Makes a client begin a page with its first file, or stop if no more pages are to begin. `intended_ns` is when an
    /// open loop's schedule starts the page; in closed loop it is now.
    #[inline(always)]
    pub(crate) fn start_page(&mut self, client: u32, intended_ns: u64, now: u64) {
        if now >= self.rests_from_ns || !self.may_start_page() {
            self.clients[client].stop();
            self.clients.answered(client);
            return;
        }
        self.clients[client].begin_page(&self.plan.sampler, intended_ns, now);
        self.clients.page_began();
        self.ask_for_files(client, now);
    }

    /// Continues with a client after one of its requests ended.
    #[inline(always)]
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
            Doing::Stopped => self.start_page(client, now, now),
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
            // Only pages of the window count towards the limit; earlier ones are warm-up.
            Stage::WarmUp => !self.shared.settle.load(Relaxed),
            _ => self.shared.pages_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok(),
        }
    }

    /// Asks for as many files as may be in progress at once; for the first one alone, as a browser must read the
    /// document before it knows the others.
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
            // After the first file, all others may be requested at once.
            let request = page.first_request + state.ask_for_next_file();
            self.clients.request_began();
            self.start_request(client, request, now);
        }
    }

    fn end_page(&mut self, client: u32, now: u64) {
        self.clients.page_ended(now);
        let state = &self.clients[client];
        let page = self.plan.pages[state.page as usize];
        // A page cut off by the end of the window is neither completed nor failed.
        if state.next_file >= page.requests {
            let (number, ok) = (state.page, state.page_ok);
            let starts_ns = (state.intended_ns, state.page_start_ns);
            self.recorder.page_ended(&self.plan, client as usize, number, ok, starts_ns, now);
        }
        if self.plan.policy == ConnectionPolicy::PerPage {
            self.close_idle(client);
        }
        // In open loop the schedule sets the pace, so there is no think time.
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
            // Each client has its own links, so they are all idle.
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
