//! Comma-separated values (RFC 4180: a header line, CRLF, quotes where needed). Units stand in the names of columns;
//! a cell is empty where nothing was measured, so that a spreadsheet does not average zeros that are none.
//!
//! Columns are only ever added at the end, so that what addresses them by number keeps working as well.

use std::collections::BTreeMap;
use std::io;

use webstone_judge::statistics::{Interval, LevelStatistics};
use webstone_model::errors::ErrorClass;
use webstone_model::figures::Figures;
use webstone_model::metrics::{Measured, Moments, OpenLoop, PageTotals, fairness};
use webstone_model::origin_figures::OriginFigures;
use webstone_model::rate::RateProfile;
use webstone_model::record::{
    CpuUse, HostUse, InterfaceUse, IterationRecord, OriginCounts, ProcessUse, RunRecord, ServerHostUse,
};
use webstone_model::server_figures::ServerFigures;
use webstone_model::shown::shown;
use webstone_model::units::NANOS_PER_SECOND;

use crate::cell::Cell;
use crate::{CsvTable, ReportError, classic};
use webstone_model::figures::distributions::{Distribution, Distributions};

/// The table, ending in CRLF. Pages are written iteration by iteration.
pub(crate) fn write(record: &RunRecord, table: CsvTable, out: &mut dyn io::Write) -> Result<(), ReportError> {
    let mut writer = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(out);
    match table {
        CsvTable::Levels => levels(record, &mut writer)?,
        CsvTable::Pages => pages(record, &mut writer)?,
    }
    Ok(writer.flush()?)
}

type Writer<'a> = ::csv::Writer<&'a mut dyn io::Write>;

/// Cells of a row with the names of their columns: both come from one place, so they cannot drift apart.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) names: Vec<String>,
    pub(crate) cells: Vec<Cell>,
}

impl Row {
    fn put(&mut self, name: &str, value: impl Into<Cell>) {
        self.names.push(name.to_owned());
        self.cells.push(value.into());
    }

    fn maybe(&mut self, name: &str, value: Option<impl Into<Cell>>) {
        self.put(name, value);
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), ::csv::Error> {
        writer.write_record(self.cells.iter().map(|cell| shown(&cell.to_string()).into_owned()))
    }
}

fn levels(record: &RunRecord, writer: &mut Writer<'_>) -> Result<(), ::csv::Error> {
    let table = LevelTable::of(record);
    writer.write_record(table.row(record, &nothing()).names)?;
    record.iterations.iter().try_for_each(|run| table.row(record, run).write(writer))
}

/// The table of levels: one row a level and iteration, with what is computed over the iterations of its level.
pub(crate) struct LevelTable(BTreeMap<(u32, Option<RateProfile>), LevelStatistics>);

impl LevelTable {
    pub(crate) fn of(record: &RunRecord) -> LevelTable {
        let statistics = |(clients, runs): (u32, Vec<&IterationRecord>)| {
            ((clients, runs[0].rate), LevelStatistics::of(&runs))
        };
        LevelTable(record.levels().into_iter().map(statistics).collect())
    }

    /// Every column, for one timed run.
    pub(crate) fn row(&self, record: &RunRecord, run: &IterationRecord) -> Row {
        let mut row = level_row(record, run);
        interval_columns(&mut row, run, self.0.get(&(run.clients, run.rate)));
        open_loop_columns(&mut row, run);
        server_columns(&mut row, run);
        server_host_columns(&mut row, run);
        origin_columns(&mut row, run);
        row
    }
}

/// An iteration for the names of columns alone: whoever reads an empty table finds its columns and no rows.
pub(crate) fn nothing() -> IterationRecord {
    IterationRecord {
        clients: 0,
        iteration: 0,
        started_at: String::new(),
        interrupted: false,
        measured: Measured::default(),
        identities: Vec::new(),
        server: None,
        ..IterationRecord::default()
    }
}

fn level_row(record: &RunRecord, run: &IterationRecord) -> Row {
    let measured = &run.measured;
    let figures = Figures::of(measured);
    let distributions = Distributions::of(measured);
    let mut row = Row::default();
    identity_of(&mut row, record, run);
    row.put("test_time_s", figures.test_time_s);
    row.put("connections_per_s", figures.connection_rate);
    row.put("requests_per_s", figures.request_rate);
    row.put("errors_per_s", figures.error_rate);
    row.put("error_level_percent", figures.error_level_percent);
    row.put("throughput_bit_per_s", figures.throughput_bps);
    row.put("client_throughput_bit_per_s", figures.client_throughput_bps);
    row.put("little_load_factor", figures.little);
    row.put("pages_per_minute", figures.pages_per_minute);
    row.put("webstone_number", figures.webstone_number);
    times(&mut row, "latency", Some(&measured.response), distributions.response.as_ref());
    times(&mut row, "connect", Some(&measured.connect), distributions.connect.as_ref());
    times(&mut row, "first_byte", None, distributions.first_byte.as_ref());
    times(&mut row, "page", Some(&measured.page), distributions.page.as_ref());
    sizes(&mut row, "response_size", &measured.response_bytes);
    sizes(&mut row, "body_size", &measured.body_bytes);
    counters(&mut row, measured);
    clients(&mut row, measured);
    machines(&mut row, run, &figures);
    row.put("identities_broken", run.identities.iter().filter(|check| !check.holds).count());
    for class in ErrorClass::ALL {
        row.put(&format!("errors_{}", class.name().replace('-', "_")), measured.errors.count(class));
    }
    row
}

/// What is the level's, not the iteration's: the same in every row of a level.
fn interval_columns(row: &mut Row, run: &IterationRecord, statistics: Option<&LevelStatistics>) {
    let mut interval = |name: &str, of: fn(&LevelStatistics) -> Option<Interval>| {
        let interval = statistics.and_then(of);
        row.maybe(&format!("level_{name}_ci95_low"), interval.map(|interval| interval.low));
        row.maybe(&format!("level_{name}_ci95_high"), interval.map(|interval| interval.high));
    };
    interval("requests_per_s", |level| level.request_rate);
    interval("latency_mean_s", |level| level.latency_mean_s);
    interval("throughput_bit_per_s", |level| level.throughput_bps);
    row.maybe(
        "level_noise_floor_percent",
        statistics.and_then(|level| level.noise).map(|noise| noise.percent),
    );
    row.maybe("arm", run.arm.map(|arm| format!("{arm:?}")));
    let tcp = run.host.as_ref().and_then(|host| host.tcp);
    row.maybe("host_listen_overflows", tcp.map(|tcp| tcp.listen_overflows));
    row.maybe("host_segments_sent", tcp.map(|tcp| tcp.segments_sent));
    row.maybe("host_segments_retransmitted", tcp.map(|tcp| tcp.retransmitted));
}

/// What an open loop has besides; empty in closed loop.
fn open_loop_columns(row: &mut Row, run: &IterationRecord) {
    let open_loop = run.measured.open_loop.as_ref();
    row.maybe("rate_per_s", run.rate.map(|rate| rate.to_string()));
    row.maybe("asked_per_s", run.schedule.map(|kept| kept.asked_rate));
    row.maybe("offered_per_s", run.schedule.map(|kept| kept.offered_rate));
    let mut count = |name: &str, of: fn(&OpenLoop) -> u64| row.maybe(name, open_loop.map(of));
    count("arrivals_carried_in", |o| o.carried_in);
    count("arrivals_planned", |o| o.planned);
    count("arrivals_started", |o| o.started);
    count("arrivals_skipped", |o| o.skipped);
    count("arrivals_queued", |o| o.queued);
    count("arrivals_waited", |o| o.waited);
    let spun_ns = run.measured.generator.workers.iter().map(|worker| worker.spun_ns).sum();
    row.maybe("generator_spun_s", open_loop.map(|_| seconds(spun_ns)));
    let d = Distributions::of(&run.measured);
    let none = OpenLoop::default();
    let of = open_loop.unwrap_or(&none);
    times(row, "schedule_lag", Some(&of.lag), d.schedule_lag.as_ref());
    times(row, "latency_uncorrected", Some(&of.response), d.response_uncorrected.as_ref());
    times(row, "first_byte_uncorrected", Some(&of.first_byte), d.first_byte_uncorrected.as_ref());
}

/// What the server's processes did besides, the network towards it, and what looking cost.
fn server_columns(row: &mut Row, run: &IterationRecord) {
    let used = run.server.as_ref().and_then(|server| server.processes.as_ref());
    row.maybe(
        "server_cpu_per_1000_requests_s",
        ServerFigures::of(&[run]).map(|it| it.cpu_per_1000_requests_s),
    );
    let mut count = |name: &str, of: fn(&ProcessUse) -> Option<u64>| row.maybe(name, used.and_then(of));
    count("server_switches_voluntary", |used| Some(used.switches_voluntary));
    count("server_switches_involuntary", |used| Some(used.switches_involuntary));
    count("server_faults_minor", |used| Some(used.faults_minor));
    count("server_faults_major", |used| Some(used.faults_major));
    count("server_disk_read_bytes", |used| used.disk_read_bytes);
    count("server_disk_written_bytes", |used| used.disk_written_bytes);
    count("server_processes_max", |used| Some(used.processes_max));
    count("server_threads_max", |used| Some(used.threads_max));
    count("server_descriptors_max", |used| used.descriptors_max);
    count("server_resident_bytes", |used| Some(used.resident_bytes));
    count("server_proportional_bytes", |used| used.proportional_bytes);
    row.maybe("server_throttled_s", used.and_then(|used| used.throttled_ns).map(seconds));
    let host = run.host.as_ref();
    let links = host.map(|host| host.interfaces.as_slice()).filter(|links| !links.is_empty());
    let mut sum = |name: &str, of: fn(&InterfaceUse) -> u64| {
        row.maybe(name, links.map(|links| links.iter().map(of).sum::<u64>()));
    };
    sum("network_received_bytes", |link| link.received_bytes);
    sum("network_received_packets", |link| link.received_packets);
    sum("network_sent_bytes", |link| link.sent_bytes);
    sum("network_sent_packets", |link| link.sent_packets);
    sum("network_dropped_packets", |link| link.dropped_packets);
    let mut cpus = |name: &str, of: fn(&CpuUse) -> u64| {
        let known = host.map(|host| host.cpus.as_slice()).filter(|cpus| !cpus.is_empty());
        row.maybe(name, known.map(|cpus| seconds(cpus.iter().map(of).sum())));
    };
    cpus("host_cpu_user_s", |cpu| cpu.user_ns);
    cpus("host_cpu_system_s", |cpu| cpu.system_ns);
    cpus("host_cpu_interrupt_s", |cpu| cpu.interrupt_ns);
    cpus("host_cpu_idle_s", |cpu| cpu.idle_ns);
    cpus("host_cpu_stolen_s", |cpu| cpu.stolen_ns);
    row.maybe("host_listen_drops", host.and_then(|host| host.tcp).map(|tcp| tcp.listen_drops));
    let probed = host.filter(|host| host.probes > 0);
    row.maybe("probes", probed.map(|host| host.probes));
    row.maybe("probe_cpu_s", probed.map(|host| seconds(host.probe_cpu_ns)));
    let seen = host.and_then(|host| host.disturbance);
    row.maybe("disturbance_looked_s", seen.map(|seen| seconds(seen.looked_ns)));
    row.maybe("disturbance_taken_s", seen.map(|seen| seconds(seen.taken_ns)));
    row.maybe("disturbance_longest_s", seen.map(|seen| seconds(seen.longest_ns)));
}

/// What an agent read of the server's host.
fn server_host_columns(row: &mut Row, run: &IterationRecord) {
    let there = run.server_host.as_ref();
    let mut of_server = |name: &str, of: fn(&HostUse) -> Option<u64>| {
        row.maybe(&format!("server_host_{name}"), there.and_then(|there| of(&there.host)));
    };
    of_server("listen_overflows", |host| Some(host.tcp?.listen_overflows));
    of_server("listen_drops", |host| Some(host.tcp?.listen_drops));
    of_server("segments_retransmitted", |host| Some(host.tcp?.retransmitted));
    of_server("received_bytes", |host| Some(host.interfaces.iter().map(|link| link.received_bytes).sum()));
    of_server("sent_bytes", |host| Some(host.interfaces.iter().map(|link| link.sent_bytes).sum()));
    of_server("probes", |host| Some(host.probes));
    let mut time = |name: &str, of: fn(&ServerHostUse) -> u64| {
        row.maybe(&format!("server_host_{name}_s"), there.map(of).map(seconds));
    };
    time("elapsed", |there| there.host.elapsed_ns);
    time("cpu_busy", |there| there.host.cpus.iter().map(|cpu| cpu.busy_ns).sum());
    time("cpu_idle", |there| there.host.cpus.iter().map(|cpu| cpu.idle_ns).sum());
    time("probe_cpu", |there| there.host.probe_cpu_ns);
    time("opening_delay_max", |there| there.opening_delay_ns_max);
    time("close_delay_max", |there| there.close_delay_ns_max);
    row.maybe("server_missing", run.server_missing.as_deref());
}

/// What the server behind a proxy did; empty of others.
fn origin_columns(row: &mut Row, run: &IterationRecord) {
    let used = run.origin.as_ref().and_then(|origin| origin.server.as_ref());
    row.maybe("origin_user_s", used.map(|used| seconds(used.user_ns)));
    row.maybe("origin_system_s", used.map(|used| seconds(used.system_ns)));
    row.maybe("origin_resident_max_bytes", used.map(|used| used.resident_bytes_max));
    let counted = run.origin.as_ref().and_then(|origin| origin.counted);
    let mut count = |name: &str, of: fn(OriginCounts) -> u64| row.maybe(name, counted.map(of));
    count("origin_requests", |it| it.requests);
    count("origin_not_modified", |it| it.not_modified);
    count("origin_connections", |it| it.connections);
    count("origin_body_bytes", |it| it.body_bytes);
    count("origin_sent_bytes", |it| it.sent_bytes);
    count("origin_received_bytes", |it| it.received_bytes);
    let asked = OriginFigures::of(&[run]).and_then(|origin| origin.asked);
    row.maybe("origin_requests_per_request", asked.and_then(|it| it.origin_requests_per_request));
    row.maybe("origin_hit_percent", asked.and_then(|it| it.hit_percent));
    row.maybe("origin_saved_percent", asked.and_then(|it| it.saved_percent));
}

fn identity_of(row: &mut Row, record: &RunRecord, run: &IterationRecord) {
    row.put("run", &record.id);
    row.put("clients", run.clients);
    row.put("iteration", run.iteration);
    row.put("started_at", &run.started_at);
    row.put("interrupted", run.interrupted);
}

fn times(row: &mut Row, name: &str, moments: Option<&Moments>, distribution: Option<&Distribution>) {
    let column = |part: &str| format!("{name}_{part}_s");
    if let Some(moments) = moments {
        let known = (moments.count > 0).then_some(moments);
        row.maybe(&column("mean"), known.map(|m| m.mean() / NANOS_PER_SECOND as f64));
        row.maybe(
            &column("std_dev"),
            known.map(|m| classic::standard_deviation(m) / NANOS_PER_SECOND as f64),
        );
        row.maybe(&column("min"), known.map(|m| seconds(m.min)));
    }
    let of = |value: fn(&Distribution) -> f64| distribution.map(value);
    row.maybe(&column("p50"), of(|d| d.p50_s));
    row.maybe(&column("p75"), of(|d| d.p75_s));
    row.maybe(&column("p90"), of(|d| d.p90_s));
    row.maybe(&column("p95"), of(|d| d.p95_s));
    row.maybe(&column("p99"), of(|d| d.p99_s));
    row.maybe(&column("p99_9"), of(|d| d.p99_9_s));
    row.maybe(&column("p99_99"), of(|d| d.p99_99_s));
    let exact = moments.filter(|m| m.count > 0).map(|m| seconds(m.max));
    row.maybe(&column("max"), exact.or(of(|d| d.max_s)));
}

fn sizes(row: &mut Row, name: &str, moments: &Moments) {
    let known = (moments.count > 0).then_some(moments);
    row.maybe(&format!("{name}_mean_bytes"), known.map(Moments::mean));
    row.maybe(&format!("{name}_std_dev_bytes"), known.map(classic::standard_deviation));
    row.maybe(&format!("{name}_min_bytes"), known.map(|m| m.min));
    row.maybe(&format!("{name}_max_bytes"), known.map(|m| m.max));
}

fn counters(row: &mut Row, measured: &Measured) {
    let counts = &measured.counts;
    row.put("requests_planned", counts.planned);
    row.put("requests_skipped", counts.skipped);
    row.put("requests_carried_in", counts.carried_in);
    row.put("requests_started", counts.started);
    row.put("requests_succeeded", counts.succeeded);
    row.put("requests_failed", counts.failed);
    row.put("requests_in_flight", counts.in_flight);
    row.put("connections", counts.connections);
    row.put("connections_failed", counts.connections_failed);
    row.put("stale_retries", counts.stale_retries);
    row.put("connections_lingered", counts.lingered);
    row.put("pages_completed", counts.pages_completed);
    row.put("pages_failed", counts.pages_failed);
    row.put("head_bytes", counts.head_bytes);
    row.put("body_bytes", counts.body_bytes);
    row.put("framing_bytes", counts.framing_bytes);
    row.put("sent_bytes", counts.sent_bytes);
}

fn clients(row: &mut Row, measured: &Measured) {
    let fairness = fairness(&measured.clients);
    row.maybe("fairness_jain_pages", fairness.map(|f| f.jain_pages));
    row.maybe("fairness_jain_latency", fairness.map(|f| f.jain_latency));
    row.maybe("client_pages_min", fairness.map(|f| f.pages.0));
    row.maybe("client_pages_max", fairness.map(|f| f.pages.1));
    row.maybe("clients_starved", fairness.map(|f| f.starved));
}

fn machines(row: &mut Row, run: &IterationRecord, figures: &Figures) {
    let workers = &run.measured.generator.workers;
    let known = !workers.is_empty();
    row.put("generator_workers", workers.len());
    row.maybe("generator_user_s", known.then(|| seconds(workers.iter().map(|w| w.user_ns).sum())));
    row.maybe("generator_system_s", known.then(|| seconds(workers.iter().map(|w| w.system_ns).sum())));
    row.maybe("generator_cpu_per_request_s", known.then_some(figures.generator_cpu_per_request_s));
    row.maybe("server_user_s", run.server.as_ref().map(|server| seconds(server.user_ns)));
    row.maybe("server_system_s", run.server.as_ref().map(|server| seconds(server.system_ns)));
    row.maybe("server_resident_max_bytes", run.server.as_ref().map(|server| server.resident_bytes_max));
}

fn pages(record: &RunRecord, writer: &mut Writer<'_>) -> Result<(), ReportError> {
    writer.write_record(page_row(record, &nothing(), 0, &PageTotals::default()).names)?;
    for run in &record.iterations {
        for row in record.page_rows(run, usize::MAX)? {
            page_row(record, run, row.page as usize, &row.totals).write(writer)?;
        }
    }
    Ok(())
}

fn page_row(record: &RunRecord, run: &IterationRecord, index: usize, page: &PageTotals) -> Row {
    let stated = record.workload.pages.get(index);
    let mut row = Row::default();
    identity_of(&mut row, record, run);
    row.put("page", index);
    row.maybe("url", stated.and_then(|page| page.files.first()).map(|file| &file.url));
    row.maybe("files", stated.map(|page| page.files.len()));
    row.maybe("weight", stated.map(|page| page.weight));
    row.maybe("page_size_bytes", classic::page_size(record, index, page));
    row.put("hits", page.hits);
    row.put("failed", page.failed);
    row.put("time_total_s", seconds(page.time_ns));
    row.maybe("time_mean_s", mean_s(page.time_ns, page.hits));
    row.put("time_max_s", seconds(page.time_ns_max));
    row.put("requests", page.requests);
    row.put("errors", page.errors);
    row.put("latency_total_s", seconds(page.response_ns));
    row.maybe("latency_mean_s", mean_s(page.response_ns, page.requests));
    row.put("latency_max_s", seconds(page.response_ns_max));
    row.put("connects", page.connects);
    row.put("connect_total_s", seconds(page.connect_ns));
    row.maybe("connect_mean_s", mean_s(page.connect_ns, page.connects));
    row.put("connect_max_s", seconds(page.connect_ns_max));
    row.put("body_bytes", page.body_bytes);
    row.put("head_bytes", page.head_bytes);
    row
}

fn mean_s(sum_ns: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| seconds(sum_ns) / count as f64)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND as f64
}
