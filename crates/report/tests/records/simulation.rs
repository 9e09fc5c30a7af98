//! A closed loop in virtual time: every client fetches pages one after the other from a server of fixed capacity.
//! Deterministic to the bit, so that golden files can hold its results.

use webstone_measure::metrics::{
    ClientMoments, ClientTotals, Histogram, Lifetime, Measured, PageTotals, Second, Seconds, WorkerUse,
};
use webstone_workload::Workload;

use super::SECOND;

/// How the simulated server answers.
pub struct Service {
    /// Requests per second that it can answer in all.
    pub per_second: u64,
    /// Response time of a lone client, in nanoseconds.
    pub alone_ns: u64,
    /// Whether connections are kept, and were opened before the window.
    pub keep_alive: bool,
    /// Start of the random sequence.
    pub seed: u64,
}

impl Default for Service {
    fn default() -> Service {
        Service { per_second: 2_000, alone_ns: 2_500_000, keep_alive: false, seed: 1 }
    }
}

const HEAD_BYTES: u64 = 143;

/// Plays `clients` through a window.
pub fn simulate(workload: &Workload, clients: u32, window_ns: u64, service: &Service) -> Measured {
    let mut loop_ = Loop {
        measured: Measured {
            window_ns,
            pages: vec![PageTotals::default(); workload.pages.len()],
            clients: vec![ClientTotals::default(); clients as usize],
            seconds: Seconds(vec![Second::default(); window_ns.div_ceil(SECOND) as usize]),
            ..Measured::default()
        },
        random: service.seed,
        service,
        mean_ns: service.alone_ns.max(u64::from(clients) * SECOND / service.per_second),
    };
    for client in 0..clients as usize {
        loop_.client(workload, client);
    }
    let counts = &mut loop_.measured.counts;
    counts.planned = counts.started;
    let connections = if service.keep_alive { u64::from(clients) } else { counts.connections };
    let received_bytes = counts.head_bytes + counts.body_bytes;
    loop_.measured.lifetime = Lifetime { connections, received_bytes, ..Lifetime::default() };
    loop_.measured
}

/// What the one worker of the generator used for these requests.
pub fn worker(measured: &Measured) -> WorkerUse {
    WorkerUse {
        backend: "epoll".to_owned(),
        cpu: Some(1),
        user_ns: measured.counts.ended() * 4_000,
        system_ns: measured.counts.ended() * 26_000,
        loops: measured.counts.ended() / 2,
        events: measured.counts.ended() * 3,
        ..WorkerUse::default()
    }
}

/// Delays of the event loop from 1 to 100 µs.
pub fn loop_delay() -> Histogram {
    let mut histogram = Histogram::new();
    (1..=100).for_each(|microseconds| histogram.record(microseconds * 1_000));
    histogram
}

/// Times that bytes lay in the kernel, from 2 to 200 µs.
pub fn receive_lag() -> Histogram {
    let mut histogram = Histogram::new();
    (1..=100).for_each(|microseconds| histogram.record(microseconds * 2_000));
    histogram
}

/// What the event loop adds to connect times, from 1 to 4 µs.
pub fn connect_lag() -> Histogram {
    let mut histogram = Histogram::new();
    (1..=4).for_each(|microseconds| histogram.record(microseconds * 1_000));
    histogram
}

struct Loop<'a> {
    measured: Measured,
    random: u64,
    service: &'a Service,
    mean_ns: u64,
}

impl Loop<'_> {
    fn client(&mut self, workload: &Workload, client: usize) {
        let window = self.measured.window_ns;
        let mut now = 0;
        loop {
            let page = self.choose(workload);
            let page_start = now;
            for file in &workload.pages[page].files {
                let connect = if self.service.keep_alive { 0 } else { 40_000 + self.next() % 30_000 };
                let wait = self.wait();
                let response = connect + wait;
                self.measured.counts.started += 1;
                if now + response > window {
                    self.measured.counts.in_flight += 1;
                    self.measured.counts.busy_ns += window - now;
                    self.unanswered(page, client, window - now);
                    self.measured.unanswered.page(window - page_start);
                    return;
                }
                now += response;
                self.request(page, client, now, connect, wait, file.size.unwrap());
            }
            self.page(page, client, now, now - page_start);
        }
    }

    fn unanswered(&mut self, page: usize, client: usize, waited_ns: u64) {
        let measured = &mut self.measured;
        measured.unanswered.request_in_flight(waited_ns, false);
        let (page, client) = (&mut measured.pages[page], &mut measured.clients[client]);
        page.unanswered += 1;
        page.unanswered_ns += waited_ns;
        page.unanswered_ns_max = page.unanswered_ns_max.max(waited_ns);
        client.unanswered += 1;
        client.unanswered_ns += waited_ns;
    }

    fn request(&mut self, page: usize, client: usize, now: u64, connect: u64, wait: u64, body: u64) {
        let measured = &mut self.measured;
        let response = connect + wait;
        let bytes = body + HEAD_BYTES;
        let second = ((now - 1) / SECOND) as usize;
        measured.client_moments.resize(measured.clients.len(), ClientMoments::default());
        let moments = &mut measured.client_moments[client];
        let (page, client) = (&mut measured.pages[page], &mut measured.clients[client]);
        let interval = &mut measured.seconds.0[second];
        if !self.service.keep_alive {
            measured.counts.connections += 1;
            measured.counts.connections_answered += 1;
            measured.connect.record(connect);
            measured.histograms.connect.record(connect);
            page.connects += 1;
            page.connect_ns += connect;
            page.connect_ns_max = page.connect_ns_max.max(connect);
            page.connect.record(connect);
            moments.connect.record(connect);
            client.connects += 1;
            interval.connections += 1;
        }
        measured.counts.succeeded += 1;
        measured.counts.head_bytes += HEAD_BYTES;
        measured.counts.body_bytes += body;
        measured.counts.sent_bytes += 78;
        measured.counts.busy_ns += response;
        measured.first_byte.record(connect + wait / 2);
        measured.response.record(response);
        measured.response_bytes.record(bytes);
        measured.body_bytes.record(body);
        measured.histograms.response.record(response);
        measured.histograms.first_byte.record(connect + wait / 2);
        page.requests += 1;
        page.response_ns += response;
        page.response_ns_max = page.response_ns_max.max(response);
        page.body_bytes += body;
        page.head_bytes += HEAD_BYTES;
        page.response.record(response);
        page.answer.record(bytes);
        page.body.record(body);
        moments.response.record(response);
        moments.answer.record(bytes);
        moments.body.record(body);
        client.requests += 1;
        client.response_ns += response;
        client.bytes += bytes;
        interval.requests += 1;
        interval.bytes += bytes;
        interval.response_ns += response;
        interval.response_ns_max = interval.response_ns_max.max(response);
    }

    fn page(&mut self, page: usize, client: usize, now: u64, took: u64) {
        let measured = &mut self.measured;
        let page = &mut measured.pages[page];
        measured.counts.pages_completed += 1;
        measured.page.record(took);
        measured.histograms.page.record(took);
        page.hits += 1;
        page.time_ns += took;
        page.time_ns_max = page.time_ns_max.max(took);
        measured.clients[client].pages += 1;
        measured.seconds.0[((now - 1) / SECOND) as usize].pages += 1;
    }

    fn choose(&mut self, workload: &Workload) -> usize {
        let mut share = self.next() % workload.total_weight();
        workload
            .pages
            .iter()
            .position(|page| {
                let here = share < page.weight;
                share = share.saturating_sub(page.weight);
                here
            })
            .unwrap()
    }

    /// Half to three halves of the mean, and ten times that once in a hundred.
    fn wait(&mut self) -> u64 {
        let wait = self.mean_ns / 2 + self.next() % self.mean_ns;
        if self.next().is_multiple_of(100) { wait * 10 } else { wait }
    }

    /// SplitMix64: S. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number Generators, 2014.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
