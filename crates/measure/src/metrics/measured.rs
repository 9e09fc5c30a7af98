//! Everything measured in one window: what a load generator returns and a record stores.

use serde::{Deserialize, Serialize};

use super::{
    ClientMoments, ClientTotals, Counts, Handshakes, Histogram, Http2Counts, Http3Counts, Moments, OpenLoop,
    PageTotals, Second, Seconds, Statuses, Unanswered, add, add_all,
};
use crate::errors::ErrorTable;

/// The four distributions of a window: of successful requests, and of complete pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histograms {
    /// TCP connect time, in nanoseconds.
    pub connect: Histogram,
    /// Start to first byte of the response.
    pub first_byte: Histogram,
    /// Start to last byte: the response time, called latency.
    pub response: Histogram,
    /// First file's start to last file's last byte.
    pub page: Histogram,
}

impl Histograms {
    /// The four by name, as in tags of `histograms.hlog`.
    pub fn named(&self) -> [(&'static str, &Histogram); 4] {
        [
            ("connect", &self.connect),
            ("first-byte", &self.first_byte),
            ("response", &self.response),
            ("page", &self.page),
        ]
    }

    /// All four, mutable.
    pub(super) fn each_mut(&mut self) -> [&mut Histogram; 4] {
        let Histograms { connect, first_byte, response, page } = self;
        [connect, first_byte, response, page]
    }

    /// One by name, mutable.
    pub fn named_mut(&mut self, name: &str) -> Option<&mut Histogram> {
        match name {
            "connect" => Some(&mut self.connect),
            "first-byte" => Some(&mut self.first_byte),
            "response" => Some(&mut self.response),
            "page" => Some(&mut self.page),
            _ => None,
        }
    }

    /// Adds the counts of others.
    pub fn merge(&mut self, other: &Histograms) {
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
        self.response.merge(&other.response);
        self.page.merge(&other.page);
    }
}

/// Histograms of one page of the workload. Only the pages with the greatest weights have them, at most
/// `generator.page_histograms`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageHistograms {
    /// Index of the page in the workload.
    pub page: u32,
    /// Its four distributions.
    pub histograms: Histograms,
}

/// What one worker used while the window was open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WorkerUse {
    /// CPU it was pinned to.
    pub cpu: Option<u32>,
    /// Its event loop's back end: `epoll`.
    pub backend: String,
    /// User CPU time of its thread, in nanoseconds.
    pub user_ns: u64,
    /// System CPU time of its thread, in nanoseconds.
    pub system_ns: u64,
    /// Time that it waited awake for arrivals or answers, or answered an echo, in nanoseconds. Part of its CPU time, but not work: it could have
    /// done something else.
    pub spun_ns: u64,
    /// Time that it was ready to run while its CPU ran something else, in nanoseconds (the second number in Linux's
    /// `/proc/thread-self/schedstat`); absent if the kernel does not report it.
    pub run_queue_ns: Option<u64>,
    /// How often it stood still for 2 ms or longer without a reason of its own: between two readings of its clock
    /// while it handled events, or after the instant at which its ticker should have woken it.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub stalls: u64,
    /// Time of those stalls, in nanoseconds: a late tick stands for the 10 ms between two ticks. Includes waiting for
    /// the CPU (`run_queue_ns`); the rest is in no counter of the kernel.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub stalled_ns: u64,
    /// The longest stall, in nanoseconds.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub stalled_ns_max: u64,
    /// How late it opened its window, in nanoseconds.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub opening_delay_ns: u64,
    /// Rounds of its event loop.
    pub loops: u64,
    /// Events that it handled.
    pub events: u64,
    /// How often it slept until something woke it: voluntary context switches (`ru_nvcsw`).
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub sleeps: u64,
}

impl WorkerUse {
    /// CPU time of its thread that was work, in nanoseconds: without waiting awake.
    pub fn worked_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns).saturating_sub(self.spun_ns)
    }
}

/// What the load generator itself used and added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GeneratorUse {
    /// Worker by worker.
    pub workers: Vec<WorkerUse>,
    /// Delay from a reported readiness to the handling of the event, in nanoseconds. In `histograms.hlog`.
    #[serde(skip)]
    pub loop_delay: Histogram,
    /// How long bytes had been in the kernel before they were read, in nanoseconds: for reads on one connection of
    /// each worker at a time, by the kernel's own stamps. In `histograms.hlog`.
    #[serde(skip)]
    pub receive_lag: Histogram,
    /// How much longer connecting took for the client than for the kernel, in nanoseconds, for one connection in
    /// seventeen: the delay that the event loop added to connect times. In `histograms.hlog`.
    #[serde(skip)]
    pub connect_lag: Histogram,
    /// Upper bound on the memory of metrics in bytes, for all workers together.
    pub metrics_bytes_max: u64,
}

/// Totals over the whole life of the level's connections, including warm-up and drain, to be compared with the
/// server's own counters (identity 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Lifetime {
    /// Connections established.
    pub connections: u64,
    /// Requests sent completely.
    pub requests: u64,
    /// Bytes read from sockets.
    pub received_bytes: u64,
    /// Bytes written to sockets.
    pub sent_bytes: u64,
    /// Requests that were cut off at the end because they did not finish within the drain.
    pub cut_off: u64,
    /// Requests that failed: what the server sent of their answers may not all have been read.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub failed: u64,
}

/// The part of a window that was left out of its figures, because something took CPU time from the load generator or
/// the server. The rest of the window, its clean slices, is what everything else here is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LeftOut {
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// Number of slices.
    pub slices: u64,
    /// What ended in them.
    pub total: Second,
}

impl LeftOut {
    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.slices == 0
    }
}

/// The result of one measured window, for one worker or all. Merges exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Measured {
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Counters.
    pub counts: Counts,
    /// Connect time in nanoseconds, for connections established in the window.
    pub connect: Moments,
    /// Time to the first byte of the response in nanoseconds, for successful requests.
    pub first_byte: Moments,
    /// Response time in nanoseconds, for successful requests.
    pub response: Moments,
    /// Page time in nanoseconds, for complete pages.
    pub page: Moments,
    /// Waits that brought no valid answer.
    #[serde(skip_serializing_if = "Unanswered::is_empty")]
    pub unanswered: Unanswered,
    /// Bytes of a response including its head, for successful requests.
    pub response_bytes: Moments,
    /// Bytes of its body.
    pub body_bytes: Moments,
    /// Errors by class.
    pub errors: ErrorTable,
    /// Responses by status code, including failed ones.
    #[serde(skip_serializing_if = "Statuses::is_empty")]
    pub statuses: Statuses,
    /// Distributions; stored in `histograms.hlog`. In open loop from the intended start.
    #[serde(skip)]
    pub histograms: Histograms,
    /// What only an open loop measures; absent in closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// Streams and frames; absent if the run was not in HTTP/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Counts>,
    /// Streams, datagrams and packets; absent if the run was not in HTTP/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http3: Option<Http3Counts>,
    /// TLS handshakes; absent if none ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// Totals page by page, in the order of the workload, while the level runs. Stored in `page-rows.csv.gz`.
    #[serde(skip)]
    pub pages: Vec<PageTotals>,
    /// Distributions of the heaviest pages; stored in `histograms.hlog`.
    #[serde(skip)]
    pub page_histograms: Vec<PageHistograms>,
    /// Totals client by client; the index is the client's number.
    pub clients: Vec<ClientTotals>,
    /// Moments client by client, where there are few clients; otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_moments: Vec<ClientMoments>,
    /// Second by second; stored in `intervals.ndjson`.
    #[serde(skip)]
    pub seconds: Seconds,
    /// The part of the time that is in no figure but `seconds`.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
    /// The generator's own use.
    pub generator: GeneratorUse,
    /// Whole-life totals.
    pub lifetime: Lifetime,
}

impl Measured {
    /// All pages together.
    pub fn pages_together(&self) -> PageTotals {
        self.pages.iter().fold(PageTotals::default(), |mut sum, page| {
            sum.merge(page);
            sum
        })
    }

    /// Reduces the memory of its distributions to a minimum, if it is only read from now on.
    pub fn pack(&mut self) {
        self.distributions_mut().for_each(Histogram::pack);
    }

    /// Every distribution, in an order that depends only on which parts exist: open loop, handshakes, pages.
    pub(super) fn distributions_mut(&mut self) -> impl Iterator<Item = &mut Histogram> {
        let GeneratorUse { loop_delay, receive_lag, connect_lag, .. } = &mut self.generator;
        let open_loop = self.open_loop.iter_mut().flat_map(|open_loop| {
            std::iter::once(&mut open_loop.lag_histogram).chain(open_loop.uncorrected.each_mut())
        });
        let of_pages = self.page_histograms.iter_mut().flat_map(|of| of.histograms.each_mut());
        self.histograms
            .each_mut()
            .into_iter()
            .chain(self.unanswered.histograms.each_mut())
            .chain([loop_delay, receive_lag, connect_lag])
            .chain(self.handshakes.iter_mut().map(|handshakes| &mut handshakes.histogram))
            .chain(open_loop)
            .chain(of_pages)
    }

    /// Adds another worker, or generator, that ran *at the same time*: the window is the longer of the two, its
    /// clients are appended, pages and seconds are added.
    pub fn merge_parallel(&mut self, other: Measured) {
        self.window_ns = self.window_ns.max(other.window_ns);
        self.clients.extend(other.clients.iter().copied());
        self.client_moments.extend(other.client_moments.iter().cloned());
        if self.client_moments.len() != self.clients.len() {
            self.client_moments.clear();
        }
        self.generator.workers.extend(other.generator.workers.iter().cloned());
        add(&mut self.generator.metrics_bytes_max, other.generator.metrics_bytes_max);
        self.seconds.merge(&other.seconds);
        self.left_out.ns = self.left_out.ns.max(other.left_out.ns);
        self.left_out.slices = self.left_out.slices.max(other.left_out.slices);
        self.merge_sums(&other);
    }

    /// Length of the window with what was left out of it, in nanoseconds: the time that `seconds` cover.
    pub fn span_ns(&self) -> u64 {
        self.window_ns.saturating_add(self.left_out.ns)
    }

    /// Everything that ended in the window.
    pub fn total(&self) -> Second {
        Second {
            requests: self.counts.succeeded,
            errors: self.counts.failed,
            connections: self.counts.connections,
            pages: self.counts.pages_completed,
            bytes: self.response_bytes.sum,
            response_ns: self.response.sum,
            response_ns_max: 0,
        }
    }

    /// Everything that ended in the window and in what was left out of it: the sum of `seconds`.
    pub fn span_total(&self) -> Second {
        let mut total = self.total();
        total.merge(&self.left_out.total);
        total
    }

    /// Adds a later slice of the same window. If it `follows` at once, what was in progress in between is counted once;
    /// otherwise those requests were left open.
    pub fn append(&mut self, slice: &Measured, follows: bool) {
        let (open, queue) = (self.counts.in_flight, self.open_loop.as_ref().map_or(0, |o| o.queued));
        let http3 = self.http3.as_ref().map_or((0, 0), |all| (all.streams_in_flight, all.packets_in_flight));
        self.merge_sequential(slice);
        let seam = |in_flight: &mut u64, carried_in: &mut u64, left_open: &mut u64, open: u64| {
            *in_flight = in_flight.saturating_sub(open);
            if follows {
                *carried_in = carried_in.saturating_sub(open);
            } else {
                add(left_open, open);
            }
        };
        let counts = &mut self.counts;
        seam(&mut counts.in_flight, &mut counts.carried_in, &mut counts.left_open, open);
        if let Some(arrivals) = &mut self.open_loop {
            seam(&mut arrivals.queued, &mut arrivals.carried_in, &mut arrivals.left_open, queue);
        }
        if let Some(all) = &mut self.http3 {
            let (streams, packets) = http3;
            seam(
                &mut all.streams_in_flight,
                &mut all.streams_carried_in,
                &mut all.streams_left_open,
                streams,
            );
            seam(
                &mut all.packets_in_flight,
                &mut all.packets_carried_in,
                &mut all.packets_left_open,
                packets,
            );
        }
    }

    /// Adds another iteration of the same level, which ran *afterwards*: windows are added, so that rates are means
    /// over the whole time; clients are added one by one; seconds are appended.
    pub fn merge_sequential(&mut self, other: &Measured) {
        add(&mut self.window_ns, other.window_ns);
        if self.clients.len() < other.clients.len() {
            self.clients.resize(other.clients.len(), ClientTotals::default());
        }
        for (mine, theirs) in self.clients.iter_mut().zip(&other.clients) {
            mine.merge(theirs);
        }
        if self.client_moments.is_empty() {
            self.client_moments.clone_from(&other.client_moments);
        } else {
            let both = self.client_moments.iter_mut().zip(&other.client_moments);
            both.for_each(|(mine, theirs)| mine.merge(theirs));
        }
        let mine = &mut self.generator.workers;
        if mine.len() < other.generator.workers.len() {
            mine.resize(other.generator.workers.len(), WorkerUse::default());
        }
        for (mine, theirs) in mine.iter_mut().zip(&other.generator.workers) {
            mine.cpu = theirs.cpu;
            mine.backend.clone_from(&theirs.backend);
            add_all!(mine, theirs, [user_ns, system_ns, spun_ns]);
            if let Some(waited) = theirs.run_queue_ns {
                add(mine.run_queue_ns.get_or_insert(0), waited);
            }
            add(&mut mine.stalls, theirs.stalls);
            add(&mut mine.stalled_ns, theirs.stalled_ns);
            mine.stalled_ns_max = mine.stalled_ns_max.max(theirs.stalled_ns_max);
            mine.opening_delay_ns = mine.opening_delay_ns.max(theirs.opening_delay_ns);
            add(&mut mine.loops, theirs.loops);
            add(&mut mine.events, theirs.events);
            add(&mut mine.sleeps, theirs.sleeps);
        }
        self.generator.metrics_bytes_max =
            self.generator.metrics_bytes_max.max(other.generator.metrics_bytes_max);
        self.seconds.0.extend_from_slice(&other.seconds.0);
        add_all!(self.left_out, other.left_out, [ns, slices]);
        self.merge_sums(other);
    }

    fn merge_sums(&mut self, other: &Measured) {
        self.counts.merge(&other.counts);
        self.left_out.total.merge(&other.left_out.total);
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
        self.response.merge(&other.response);
        self.page.merge(&other.page);
        self.unanswered.merge(&other.unanswered);
        self.response_bytes.merge(&other.response_bytes);
        self.body_bytes.merge(&other.body_bytes);
        self.errors.merge(&other.errors);
        self.statuses.merge(&other.statuses);
        self.histograms.merge(&other.histograms);
        if let Some(theirs) = &other.handshakes {
            self.handshakes.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = &other.open_loop {
            self.open_loop.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = &other.http2 {
            self.http2.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = &other.http3 {
            self.http3.get_or_insert_default().merge(theirs);
        }
        if self.pages.len() < other.pages.len() {
            self.pages.resize(other.pages.len(), PageTotals::default());
        }
        self.pages.iter_mut().zip(&other.pages).for_each(|(mine, theirs)| mine.merge(theirs));
        for theirs in &other.page_histograms {
            match self.page_histograms.iter_mut().find(|mine| mine.page == theirs.page) {
                Some(mine) => mine.histograms.merge(&theirs.histograms),
                None => self.page_histograms.push(theirs.clone()),
            }
        }
        self.generator.loop_delay.merge(&other.generator.loop_delay);
        self.generator.receive_lag.merge(&other.generator.receive_lag);
        self.generator.connect_lag.merge(&other.generator.connect_lag);
        add_all!(
            self.lifetime,
            other.lifetime,
            [connections, requests, received_bytes, sent_bytes, cut_off, failed]
        );
    }
}
