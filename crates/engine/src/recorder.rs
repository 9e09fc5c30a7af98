//! What a worker counts. Nothing is counted before the window opens and after it closes, except totals over the whole
//! life of the worker.

mod sliced;

use webstone_measure::errors::{ErrorClass, ErrorExample};
use webstone_measure::metrics::{
    ClientMoments, ClientTotals, Handshake, Histogram, Measured, OpenLoop, PageHistograms, PageTotals,
    Second, Statuses, WorkerUse,
};
use webstone_measure::units::NANOS_PER_SECOND;

use crate::exchange::Exchange;
use crate::pacing::Fate;
use crate::plan::Plan;
use crate::slices::Slices;
use crate::sys::thread::{CpuUse, cpu_use};
use sliced::Sliced;

/// Whether anything is counted. A build with `--cfg webstone_without_statistics` makes the same load and keeps only
/// whole-life totals: `benchsuite` compares it with the ordinary build to show what measuring costs.
const COUNTS: bool = cfg!(not(webstone_without_statistics));

/// Number of seconds for which memory is reserved; a longer series grows.
const SERIES_SECONDS_RESERVED: u64 = 86_400;

/// Statuses have three digits (RFC 9110, section 15).
const STATUSES: usize = 1000;

pub(crate) struct Recorder {
    pub(crate) measured: Measured,
    is_open: bool,
    open_ns: u64,
    /// When the current slice began; without slices, when the window opened.
    part_ns: u64,
    /// End of the current second.
    second_end_ns: u64,
    /// Totals at the start of the current second.
    second_start: Second,
    second_response_ns_max: u64,
    /// Responses by status.
    statuses: Box<[u64; STATUSES]>,
    cpu_at_open: CpuUse,
    /// When the last copy for percentiles was taken.
    copied_ns: u64,
    /// Present if the window has slices.
    sliced: Option<Box<Sliced>>,
}

impl Recorder {
    pub(crate) fn new(plan: &Plan, clients: usize, is_open_loop: bool, is_sliced: bool) -> Recorder {
        let histograms = |page: &u32| PageHistograms { page: *page, ..PageHistograms::default() };
        let mut measured = Measured {
            pages: vec![PageTotals::default(); plan.pages.len()],
            clients: vec![ClientTotals::default(); clients],
            client_moments: vec![
                ClientMoments::default();
                if plan.spreads && clients <= ClientMoments::CLIENTS_MAX {
                    clients
                } else {
                    0
                }
            ],
            page_histograms: plan.histogram_pages.iter().map(histograms).collect(),
            open_loop: is_open_loop.then(OpenLoop::default),
            ..Measured::default()
        };
        let seconds = (plan.duration_ns / NANOS_PER_SECOND + 2).min(SERIES_SECONDS_RESERVED);
        measured.generator.metrics_bytes_max = bytes_max(plan, clients, seconds, is_open_loop);
        let sliced = is_sliced.then(|| {
            // The current slice, one that waits for its judgement, the sum of those kept, and of all.
            measured.generator.metrics_bytes_max *= 4;
            let (slices, empty) = (Slices::default(), measured.clone());
            Box::new(Sliced { slices, empty, end_ns: u64::MAX, ended: Second::default(), arrivals: (0, 0) })
        });
        measured.seconds.0.reserve(seconds as usize);
        Recorder {
            measured,
            sliced,
            is_open: false,
            open_ns: u64::MAX,
            part_ns: u64::MAX,
            second_end_ns: u64::MAX,
            second_start: Second::default(),
            second_response_ns_max: 0,
            statuses: Box::new([0; STATUSES]),
            cpu_at_open: CpuUse::default(),
            copied_ns: 0,
        }
    }

    /// Whether the window is open, so that anything is counted.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// When it opened; [`u64::MAX`] before.
    pub(crate) fn open_ns(&self) -> u64 {
        self.open_ns
    }

    /// Opens the window, with this many requests in progress and waiting arrivals carried into it.
    pub(crate) fn open(&mut self, at_ns: u64, in_progress: (u32, u64), slice_ns: u64) {
        self.is_open = COUNTS;
        self.open_ns = at_ns;
        self.second_end_ns = at_ns + NANOS_PER_SECOND;
        self.open_part(at_ns, in_progress, slice_ns);
    }

    fn open_part(&mut self, at_ns: u64, (requests, arrivals): (u32, u64), slice_ns: u64) {
        self.measured.counts.carried_in = u64::from(requests);
        if let Some(open_loop) = &mut self.measured.open_loop {
            open_loop.carried_in = arrivals;
        }
        self.part_ns = at_ns;
        self.cpu_at_open = cpu_use();
        if let Some(sliced) = &mut self.sliced {
            sliced.end_ns = at_ns.saturating_add(slice_ns);
        }
    }

    pub(crate) fn close(&mut self, at_ns: u64, worker: WorkerUse) {
        let second_begin = self.second_end_ns - NANOS_PER_SECOND;
        if at_ns > second_begin || self.totals() != self.second_start {
            self.end_second();
        }
        self.close_use(at_ns, worker, 0);
        self.is_open = false;
        self.second_end_ns = u64::MAX;
    }

    /// Notes what the thread used. Of its waiting for a CPU at most `later_ns` is later; returns how much.
    fn close_use(&mut self, at_ns: u64, worker: WorkerUse, later_ns: u64) -> u64 {
        let cpu = cpu_use();
        self.measured.window_ns = at_ns - self.part_ns;
        let waited = cpu.run_queue_ns.zip(self.cpu_at_open.run_queue_ns);
        let waited_ns = waited.map(|(close, open)| close.saturating_sub(open));
        let waits_later_ns = waited_ns.map_or(0, |ns| ns.min(later_ns));
        self.measured.generator.workers = vec![WorkerUse {
            user_ns: cpu.user_ns - self.cpu_at_open.user_ns,
            system_ns: cpu.system_ns - self.cpu_at_open.system_ns,
            // A thread that waits for its CPU when the window closes reads the counter only after that wait, part of
            // which is after the window.
            run_queue_ns: waited_ns.map(|ns| (ns - waits_later_ns).min(self.measured.window_ns)),
            sleeps: cpu.sleeps - self.cpu_at_open.sleeps,
            ..worker
        }];
        waits_later_ns
    }

    /// Everything that was measured. `cut_off` requests were in progress at the end.
    pub(crate) fn finish(&mut self, cut_off: u32) -> Measured {
        self.measured.lifetime.cut_off = u64::from(cut_off);
        self.measured.statuses = Statuses::of_counts(&*self.statuses);
        std::mem::take(&mut self.measured)
    }

    /// End of the current second; [`u64::MAX`] if nothing is counted.
    pub(crate) fn second_end_ns(&self) -> u64 {
        self.second_end_ns
    }

    /// Ends all seconds that are over at `at_ns`.
    pub(crate) fn end_seconds(&mut self, at_ns: u64) {
        while self.second_end_ns <= at_ns {
            self.end_second();
        }
    }

    /// Ends the current second and begins the next.
    fn end_second(&mut self) {
        let totals = self.totals();
        self.measured.seconds.0.push(Second {
            response_ns_max: self.second_response_ns_max,
            ..totals.since(&self.second_start)
        });
        self.second_start = totals;
        self.second_response_ns_max = 0;
        self.second_end_ns += NANOS_PER_SECOND;
    }

    /// Totals of the window so far, as one interval.
    pub(crate) fn totals(&self) -> Second {
        let mut totals = self.measured.total();
        if let Some(sliced) = &self.sliced {
            totals.merge(&sliced.ended);
        }
        totals
    }

    /// The part of a span that lies within the open window, or the current slice.
    #[inline]
    fn clipped(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns.saturating_sub(from_ns.max(self.part_ns))
    }

    /// Counts the start of a request.
    #[inline]
    pub(crate) fn started(&mut self) {
        if self.is_open {
            self.measured.counts.planned += 1;
            self.measured.counts.started += 1;
        }
    }

    /// Counts bytes sent, which completed this many requests.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize, requests: u32) {
        self.measured.lifetime.sent_bytes += bytes as u64;
        self.measured.lifetime.requests += u64::from(requests);
        if self.is_open {
            self.measured.counts.sent_bytes += bytes as u64;
        }
    }

    /// Counts received bytes.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.measured.lifetime.received_bytes += bytes as u64;
    }

    /// Records how long an event waited for others of its batch.
    #[inline]
    pub(crate) fn loop_delay(&mut self, delay_ns: u64) {
        if self.is_open {
            self.measured.generator.loop_delay.record(delay_ns);
        }
    }

    /// Records how long bytes lay in the kernel.
    pub(crate) fn receive_lag(&mut self, lag_ns: u64) {
        if self.is_open {
            self.measured.generator.receive_lag.record(lag_ns);
        }
    }

    /// Records how much longer a connect took for the client than for the kernel.
    pub(crate) fn connect_lag(&mut self, lag_ns: u64) {
        if self.is_open {
            self.measured.generator.connect_lag.record(lag_ns);
        }
    }

    /// Counts a connection that could not be made, after this wait.
    pub(crate) fn connection_failed(&mut self, waited_ns: u64) {
        if self.is_open {
            self.measured.counts.connections_failed += 1;
            self.measured.unanswered.connect(waited_ns);
        }
    }

    /// Counts a successful handshake that took this long.
    pub(crate) fn shook_hands(&mut self, handshake: Handshake, took_ns: u64) {
        if self.is_open {
            self.measured.handshakes.get_or_insert_default().record(&handshake, took_ns);
        }
    }

    /// Counts a failed handshake.
    pub(crate) fn handshake_failed(&mut self) {
        if self.is_open {
            self.measured.handshakes.get_or_insert_default().failed += 1;
        }
    }

    /// Counts a connection without TLS, in a run that also uses TLS.
    pub(crate) fn connected_without_tls(&mut self) {
        if self.is_open {
            let handshakes = self.measured.handshakes.get_or_insert_default();
            handshakes.in_the_clear += 1;
        }
    }

    /// Counts a request that is sent again on another connection.
    pub(crate) fn retried(&mut self) {
        if self.is_open {
            self.measured.counts.stale_retries += 1;
        }
    }

    /// Counts a request that was too early and is sent again after the handshake.
    pub(crate) fn too_early(&mut self) {
        if self.is_open {
            self.measured.handshakes.get_or_insert_default().too_early += 1;
        }
    }

    /// Counts a server that did not close after the response to a last request.
    pub(crate) fn lingered(&mut self) {
        if self.is_open {
            self.measured.counts.lingered += 1;
        }
    }

    /// Counts bytes that belong to no response.
    pub(crate) fn surplus(&mut self) {
        if self.is_open {
            self.measured.counts.surplus += 1;
        }
    }

    /// Counts a connection made for an exchange.
    #[inline(never)]
    pub(crate) fn connected(&mut self, plan: &Plan, exchange: &Exchange, took_ns: u64) {
        self.measured.lifetime.connections += 1;
        if !self.is_open {
            return;
        }
        let page = plan.requests[exchange.request as usize].page as usize;
        self.measured.counts.connections += 1;
        self.measured.connect.record(took_ns);
        self.measured.histograms.connect.record(took_ns);
        let totals = &mut self.measured.pages[page];
        totals.connects += 1;
        totals.connect_ns += took_ns;
        totals.connect_ns_max = totals.connect_ns_max.max(took_ns);
        self.measured.clients[exchange.client as usize].connects += 1;
        if plan.spreads {
            spread_connect(&mut self.measured, page, exchange, took_ns);
        }
        if let Some(slot) = plan.histogram_slots[page] {
            self.measured.page_histograms[usize::from(slot)].histograms.connect.record(took_ns);
        }
    }

    /// Counts a valid response; `is_first`: the first on its connection.
    #[inline]
    pub(crate) fn succeeded(&mut self, plan: &Plan, exchange: &Exchange, is_first: bool, now: u64) {
        if !self.is_open {
            return;
        }
        let response_ns = now - exchange.intended_ns;
        let first_byte_ns = exchange.first_byte_ns - exchange.intended_ns;
        let head = exchange.head_bytes + exchange.framing_bytes;
        let bytes = head + exchange.body_bytes;
        let busy = self.clipped(exchange.start_ns, now);
        let page = plan.requests[exchange.request as usize].page as usize;
        let measured = &mut self.measured;

        measured.counts.succeeded += 1;
        measured.counts.connections_answered += u64::from(is_first);
        self.statuses[usize::from(exchange.status) % STATUSES] += 1;
        measured.counts.head_bytes += exchange.head_bytes;
        measured.counts.framing_bytes += exchange.framing_bytes;
        measured.counts.body_bytes += exchange.body_bytes;
        measured.counts.busy_ns += busy;
        measured.first_byte.record(first_byte_ns);
        measured.response.record(response_ns);
        measured.response_bytes.record(bytes);
        measured.body_bytes.record(exchange.body_bytes);
        measured.histograms.response.record(response_ns);
        measured.histograms.first_byte.record(first_byte_ns);
        self.second_response_ns_max = self.second_response_ns_max.max(response_ns);
        if let Some(open_loop) = &mut measured.open_loop {
            let waited_ns = exchange.start_ns - exchange.intended_ns;
            let (response_ns, first_byte_ns) = (response_ns - waited_ns, first_byte_ns - waited_ns);
            open_loop.response.record(response_ns);
            open_loop.first_byte.record(first_byte_ns);
            open_loop.uncorrected.response.record(response_ns);
            open_loop.uncorrected.first_byte.record(first_byte_ns);
        }

        let totals = &mut measured.pages[page];
        totals.requests += 1;
        totals.response_ns += response_ns;
        totals.response_ns_max = totals.response_ns_max.max(response_ns);
        totals.body_bytes += exchange.body_bytes;
        totals.head_bytes += head;

        let client = &mut measured.clients[exchange.client as usize];
        client.requests += 1;
        client.response_ns += response_ns;
        client.bytes += bytes;
        if plan.spreads {
            spread_answer(measured, page, exchange, response_ns, bytes);
        }

        if let Some(slot) = plan.histogram_slots[page] {
            let histograms = &mut measured.page_histograms[usize::from(slot)].histograms;
            histograms.response.record(response_ns);
            histograms.first_byte.record(first_byte_ns);
        }
    }

    /// Counts a request that failed. `example` is called only for the first of a class.
    pub(crate) fn failed(
        &mut self,
        plan: &Plan,
        exchange: &Exchange,
        class: ErrorClass,
        now: u64,
        example: impl FnOnce() -> ErrorExample,
    ) {
        self.measured.lifetime.failed += 1;
        if !self.is_open {
            return;
        }
        self.measured.counts.failed += 1;
        if exchange.status != 0 {
            self.statuses[usize::from(exchange.status) % STATUSES] += 1;
        }
        self.measured.pages[plan.requests[exchange.request as usize].page as usize].errors += 1;
        self.measured.clients[exchange.client as usize].errors += 1;
        self.measured.errors.add(class, example);
        let waited_ns = self.unanswered(plan, exchange, now);
        self.measured.unanswered.request(waited_ns, exchange.first_byte_ns != 0);
    }

    /// Records that a request has no valid answer yet, and returns for how long.
    fn unanswered(&mut self, plan: &Plan, exchange: &Exchange, now: u64) -> u64 {
        let waited_ns = now.saturating_sub(exchange.intended_ns);
        self.measured.counts.busy_ns += self.clipped(exchange.start_ns, now);
        let page = &mut self.measured.pages[plan.requests[exchange.request as usize].page as usize];
        page.unanswered += 1;
        page.unanswered_ns += waited_ns;
        page.unanswered_ns_max = page.unanswered_ns_max.max(waited_ns);
        let client = &mut self.measured.clients[exchange.client as usize];
        client.unanswered += 1;
        client.unanswered_ns += waited_ns;
        waited_ns
    }

    /// Counts the end of a page, complete or with a failed file.
    #[inline(always)]
    pub(crate) fn page_ended(
        &mut self,
        plan: &Plan,
        client: usize,
        page: u32,
        ok: bool,
        (intended_ns, start_ns): (u64, u64),
        now: u64,
    ) {
        if !self.is_open {
            return;
        }
        let measured = &mut self.measured;
        let totals = &mut measured.pages[page as usize];
        if !ok {
            totals.failed += 1;
            measured.counts.pages_failed += 1;
            measured.unanswered.page(now - intended_ns);
            return;
        }
        let took = now - intended_ns;
        if let Some(open_loop) = &mut measured.open_loop {
            open_loop.page.record(now - start_ns);
            open_loop.uncorrected.page.record(now - start_ns);
        }
        totals.hits += 1;
        totals.time_ns += took;
        totals.time_ns_max = totals.time_ns_max.max(took);
        measured.counts.pages_completed += 1;
        measured.clients[client].pages += 1;
        measured.page.record(took);
        measured.histograms.page.record(took);
        if let Some(slot) = plan.histogram_slots[page as usize] {
            measured.page_histograms[usize::from(slot)].histograms.page.record(took);
        }
    }

    /// Counts a scheduled arrival that was released `lag_ns` late. One that was due before the window opened, but
    /// released within it, is carried in.
    #[inline]
    pub(crate) fn arrival(&mut self, in_window: bool, fate: Fate, lag_ns: u64) {
        let Some(open_loop) = self.measured.open_loop.as_mut().filter(|_| self.is_open) else { return };
        match in_window {
            true => open_loop.planned += 1,
            false => open_loop.carried_in += 1,
        }
        open_loop.lag.record(lag_ns);
        open_loop.lag_histogram.record(lag_ns);
        if fate == Fate::Skipped {
            open_loop.skipped += 1;
            self.measured.counts.skipped += 1;
            self.measured.counts.planned += 1;
        }
    }

    /// Counts an arrival that begins its page, at once or after waiting for a client.
    #[inline]
    pub(crate) fn arrival_started(&mut self, has_waited: bool) {
        if let Some(open_loop) = self.measured.open_loop.as_mut().filter(|_| self.is_open) {
            open_loop.started += 1;
            open_loop.waited += u64::from(has_waited);
        }
    }

    /// Counts, as the window closes, an arrival that has waited this long without a client. If it was not even
    /// released, it is counted here as planned.
    pub(crate) fn arrival_left(&mut self, was_seen: bool, waited_ns: u64) {
        if let Some(open_loop) = &mut self.measured.open_loop {
            open_loop.planned += u64::from(!was_seen);
            open_loop.queued += 1;
            self.measured.unanswered.request_in_flight(waited_ns, false);
            self.measured.unanswered.page(waited_ns);
        }
    }

    /// Adds time in which a client was free.
    #[inline]
    pub(crate) fn was_free(&mut self, since_ns: u64, now: u64) {
        if self.is_open {
            let free_ns = self.clipped(since_ns, now);
            if let Some(open_loop) = &mut self.measured.open_loop {
                open_loop.free_ns += free_ns;
            }
        }
    }

    /// Adds time in which a client waited without a request: not yet started, thinking, or held after a failure.
    pub(crate) fn waited(&mut self, since_ns: u64, now: u64) {
        if self.is_open {
            self.measured.counts.idle_ns += self.clipped(since_ns, now);
        }
    }

    /// Records a request in progress as the window closes.
    pub(crate) fn in_flight(&mut self, plan: &Plan, exchange: &Exchange, close_ns: u64) {
        if !COUNTS {
            return;
        }
        self.measured.counts.in_flight += 1;
        let waited_ns = self.unanswered(plan, exchange, close_ns);
        self.measured.unanswered.request_in_flight(waited_ns, exchange.first_byte_ns != 0);
    }

    /// Records a connection being made as the window closes.
    pub(crate) fn connecting(&mut self, begun_ns: u64, close_ns: u64) {
        self.measured.unanswered.connect(close_ns.saturating_sub(begun_ns));
    }

    /// Records a page in progress as the window closes.
    pub(crate) fn page_in_progress(&mut self, intended_ns: u64, close_ns: u64) {
        self.measured.unanswered.page(close_ns.saturating_sub(intended_ns));
    }
}

/// Records the spreads of a page and a client, which only some runs keep. A function of its own, so that other runs pay
/// for no more than a comparison.
#[cold]
#[inline(never)]
fn spread_answer(measured: &mut Measured, page: usize, exchange: &Exchange, response_ns: u64, bytes: u64) {
    let totals = &mut measured.pages[page];
    totals.response.record(response_ns);
    totals.answer.record(bytes);
    totals.body.record(exchange.body_bytes);
    if let Some(moments) = measured.client_moments.get_mut(exchange.client as usize) {
        moments.response.record(response_ns);
        moments.answer.record(bytes);
        moments.body.record(exchange.body_bytes);
    }
}

/// The same for a connect time.
#[cold]
#[inline(never)]
fn spread_connect(measured: &mut Measured, page: usize, exchange: &Exchange, took_ns: u64) {
    measured.pages[page].connect.record(took_ns);
    if let Some(moments) = measured.client_moments.get_mut(exchange.client as usize) {
        moments.connect.record(took_ns);
    }
}

/// Upper bound on the memory of a worker's metrics, stated in every record.
fn bytes_max(plan: &Plan, clients: usize, seconds: u64, is_open_loop: bool) -> u64 {
    let open_loop = if is_open_loop { 4 } else { 0 };
    let handshakes = usize::from(plan.tls.is_some());
    let histograms = (11 + handshakes + open_loop + 4 * plan.histogram_pages.len()) * Histogram::bytes_max();
    let totals = plan.pages.len() * size_of::<PageTotals>() + clients * size_of::<ClientTotals>();
    let totals = totals + clients.min(ClientMoments::CLIENTS_MAX) * size_of::<ClientMoments>();
    (histograms + totals + STATUSES * size_of::<u64>()) as u64 + seconds * size_of::<Second>() as u64
}
