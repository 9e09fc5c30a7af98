//! Comma-separated values (RFC 4180: a header line, CRLF, quotes where needed). Names of columns contain the unit; a cell is empty
//! where nothing was measured, so that a spreadsheet does not average it as a zero.
//!
//! New columns are added at the end, so that programs that address columns by number keep working.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use webstone_judge::statistics::{Interval, LevelStatistics};
use webstone_judge::verdict::{NoiseBound, Verdict};
use webstone_measure::errors::ErrorClass;
use webstone_measure::figures::{Figure, Group, Reading, Value, level, table};
use webstone_measure::keys::LevelKey;
use webstone_measure::metrics::PageTotals;
use webstone_measure::shown::shown;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};

use crate::cell::Cell;
use crate::generators::{self, HostRow};
use crate::judged::Judged;
use crate::numbers::in_seconds;
use crate::server_hosts::{self, ServerHostRow};
use crate::{CsvTable, ReportError, classic};

/// The table, ending in CRLF. Pages are written iteration by iteration.
pub(crate) fn write(
    judged: &Judged<'_>,
    table: CsvTable,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    let record = judged.record;
    let mut writer = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(out);
    match table {
        CsvTable::Levels => levels(judged, &mut writer)?,
        CsvTable::Pages => pages(record, &mut writer)?,
        CsvTable::Generators => generators(record, &mut writer)?,
        CsvTable::ServerHosts => server_hosts(record, &mut writer)?,
    }
    Ok(writer.flush()?)
}

type Writer<'a> = ::csv::Writer<&'a mut dyn io::Write>;

/// The column of a cell: its name here, and the words and unit that a workbook has for it.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: Cow<'static, str>,
    pub(crate) heading: Cow<'static, str>,
    pub(crate) unit: &'static str,
}

impl Column {
    /// As a workbook has it.
    pub(crate) fn title(&self) -> String {
        if self.unit.is_empty() {
            self.heading.to_string()
        } else {
            format!("{}, {}", self.heading, self.unit)
        }
    }
}

/// Cells of a row with their columns: both come from one place, so they cannot drift apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) columns: Vec<Column>,
    pub(crate) cells: Vec<Cell>,
}

impl Row {
    /// A cell of a table that only a workbook has; the unit chooses its number format.
    pub(crate) fn cell(
        &mut self,
        heading: impl Into<Cow<'static, str>>,
        unit: &'static str,
        value: impl Into<Cell>,
    ) {
        self.push("", heading, unit, value);
    }

    /// A cell of a table that no workbook has.
    pub(crate) fn named(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Cell>) {
        self.push(name, "", "", value);
    }

    /// A cell of a column that is not a figure.
    fn put(&mut self, name: &'static str, heading: &'static str, value: impl Into<Cell>) {
        self.push(name, heading, "", value);
    }

    fn push(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        heading: impl Into<Cow<'static, str>>,
        unit: &'static str,
        value: impl Into<Cell>,
    ) {
        self.columns.push(Column { name: name.into(), heading: heading.into(), unit });
        self.cells.push(value.into());
    }

    fn figure(&mut self, figure: &'static Figure, value: Option<Value>) {
        self.push(figure.key, figure.long, figure.quantity.base().name, value);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| &*column.name)
    }

    pub(crate) fn write(&self, writer: &mut ::csv::Writer<impl io::Write>) -> Result<(), ::csv::Error> {
        writer.write_record(self.cells.iter().map(|cell| plain(&cell.to_string())))
    }
}

/// A cell as a file has it: nothing hidden, and an apostrophe before what a spreadsheet would take for a formula. Names come from
/// records of strangers.
pub(crate) fn plain(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    format!("{}{}", if is_formula { "'" } else { "" }, shown(cell))
}

fn levels(judged: &Judged<'_>, writer: &mut Writer<'_>) -> Result<(), ::csv::Error> {
    let record = judged.record;
    let table = LevelTable::of_record(record, &judged.verdict);
    writer.write_record(table.row(record, &IterationRecord::default()).names())?;
    record.iterations.iter().try_for_each(|run| table.row(record, run).write(writer))
}

/// The table of levels: one row per level and iteration, with what is computed over the iterations of its level.
pub(crate) struct LevelTable<'a> {
    statistics: BTreeMap<LevelKey, LevelStatistics>,
    verdict: &'a Verdict,
}

impl LevelTable<'_> {
    pub(crate) fn of_record<'a>(record: &RunRecord, verdict: &'a Verdict) -> LevelTable<'a> {
        let levels = record.levels().into_iter();
        let statistics = levels.map(|(key, runs)| (key, LevelStatistics::of_runs(&runs))).collect();
        LevelTable { statistics, verdict }
    }

    /// Every column of one timed run: the table of figures, and the columns that are not figures at their old places.
    pub(crate) fn row(&self, record: &RunRecord, run: &IterationRecord) -> Row {
        let reading = Reading::of_run(run);
        let mut row = Row::default();
        identity_of(&mut row, record, run);
        for (group, figures) in &table::TABLE {
            for figure in *figures {
                row.figure(figure, figure.value(&reading));
            }
            match group {
                Group::Identities => {
                    errors(&mut row, run);
                    interval_columns(&mut row, run, self.statistics.get(&run.level()));
                }
                Group::Host if figures[0].key == "host_listen_overflows" => {
                    rate(&mut row, run);
                }
                Group::ServerHost => {
                    row.put("server_missing", "Server missing", run.server_missing.as_deref())
                }
                Group::Path => {
                    let of_level = self.verdict.of_level(run.level());
                    row.put("verdict", "Verdict on the run", self.verdict.standing.word());
                    row.put("level_verdict", "Verdict on the level", of_level.word());
                    noise(&mut row, self.verdict.noise_of(run.level()));
                }
                _ => {}
            }
        }
        row
    }
}

fn errors(row: &mut Row, run: &IterationRecord) {
    for class in ErrorClass::ALL {
        let words = class.name().replace('-', " ");
        let name = format!("errors_{}", class.name().replace('-', "_"));
        row.push(name, format!("Errors {words}"), "", run.measured.errors.count(class));
    }
}

/// Columns of the level, the same in each of its rows.
fn interval_columns(row: &mut Row, run: &IterationRecord, statistics: Option<&LevelStatistics>) {
    let mut interval = |figure: &Figure, of: fn(&LevelStatistics) -> Option<Interval>| {
        let interval = statistics.and_then(of);
        let unit = figure.quantity.base().name;
        for (end, words, value) in [
            ("low", "95 % from", interval.map(|interval| interval.low)),
            ("high", "95 % to", interval.map(|interval| interval.high)),
        ] {
            let heading = format!("{}, {words}", figure.short);
            row.push(format!("level_{}_ci95_{end}", figure.key), format!("Level {heading}"), unit, value);
        }
    };
    interval(&level::REQUEST_RATE, |level| level.request_rate);
    interval(&level::LATENCY_MEAN, |level| level.latency_mean_s);
    interval(&level::THROUGHPUT, |level| level.throughput_bps);
    let noise = statistics.and_then(|level| level.noise).map(|noise| noise.percent);
    row.push("level_noise_floor_percent", "Level noise floor", "%", noise);
    row.put("arm", "Arm", run.arm.map(|arm| format!("{arm:?}")));
}

/// How far noise may have moved the level's figures. Empty without noise that matters, and where there is no bound, which
/// `level_verdict` tells apart.
fn noise(row: &mut Row, noise: Option<NoiseBound>) {
    let rate = noise.and_then(|noise| noise.rate_factor());
    let cpu_time = noise.and_then(|noise| noise.cpu_time_factor());
    row.put("level_noise_rate_factor", "Noise factor of the level's request rate", rate);
    row.put("level_noise_cpu_factor", "Noise factor of the level's CPU time", cpu_time);
}

fn identity_of(row: &mut Row, record: &RunRecord, run: &IterationRecord) {
    row.put("run", "Run", &record.id);
    row.put("clients", "Clients", run.clients);
    row.put("iteration", "Iteration", run.iteration);
    row.put("started_at", "Started at", &run.started_at);
    row.put("interrupted", "Interrupted", run.interrupted);
}

/// Open loop: which level it was.
pub(crate) fn rate(row: &mut Row, run: &IterationRecord) {
    row.push("rate_per_s", "Rate", "1/s", run.rate.map(|rate| rate.to_string()));
}

fn pages(record: &RunRecord, writer: &mut Writer<'_>) -> Result<(), ReportError> {
    writer.write_record(page_row(record, &IterationRecord::default(), 0, &PageTotals::default()).names())?;
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
    row.named("page", index);
    row.named("url", stated.and_then(|page| page.files.first()).map(|file| &file.url));
    row.named("files", stated.map(|page| page.files.len()));
    row.named("weight", stated.map(|page| page.weight));
    row.named("page_size_bytes", classic::page_size(record, index, page));
    row.named("hits", page.hits);
    row.named("failed", page.failed);
    row.named("time_total_s", in_seconds(page.time_ns));
    row.named("time_mean_s", mean_s(page.time_ns, page.hits));
    row.named("time_max_s", in_seconds(page.time_ns_max));
    row.named("requests", page.requests);
    row.named("errors", page.errors);
    row.named("latency_total_s", in_seconds(page.response_ns));
    let mean = page.response_mean();
    row.named("latency_mean_s", mean.map(|mean| mean.ns / NANOS_PER_SECOND as f64));
    row.named("latency_max_s", in_seconds(page.longest_ns()));
    row.named("connects", page.connects);
    row.named("connect_total_s", in_seconds(page.connect_ns));
    row.named("connect_mean_s", mean_s(page.connect_ns, page.connects));
    row.named("connect_max_s", in_seconds(page.connect_ns_max));
    row.named("body_bytes", page.body_bytes);
    row.named("head_bytes", page.head_bytes);
    row.named("tls", stated.and_then(|page| page.files.first()).map(|file| u8::from(file.detail.tls)));
    rate(&mut row, run);
    row
}

fn generators(record: &RunRecord, writer: &mut Writer<'_>) -> Result<(), ReportError> {
    writer.write_record(generator_row(record, &IterationRecord::default(), None).names())?;
    for run in &record.iterations {
        for row in generators::rows(record, &[run]) {
            generator_row(record, run, Some(&row)).write(writer)?;
        }
    }
    Ok(())
}

/// The part of one of several hosts in a timed run.
pub(crate) fn generator_row(record: &RunRecord, run: &IterationRecord, row: Option<&HostRow>) -> Row {
    let host = row.and_then(|row| record.generators.get(row.generator as usize));
    let mut cells = Row::default();
    identity_of(&mut cells, record, run);
    cells.put("generator", "Generator", row.map(|row| row.generator + 1));
    cells.put("host", "Host", host.map(|host| &host.name));
    cells.put("command", "Command", host.map(|host| &host.command));
    cells.put("workers", "Workers", host.map(|host| host.workers));
    cells.put("generator_clients", "Clients of the host", row.map(|row| row.clients));
    cells.push("requests_per_s", "Requests", "1/s", row.map(|row| row.request_rate));
    cells.push("errors_percent", "Errors", "%", row.map(|row| row.errors_percent));
    cells.push("latency_p50_s", "Latency p50", "s", row.map(|row| row.p50_s));
    cells.push("latency_p99_s", "Latency p99", "s", row.map(|row| row.p99_s));
    cells.push("worker_cpu_max_percent", "Busiest worker", "%", row.map(|row| row.worker_percent_max));
    cells.push("link_max_percent", "Fullest link", "%", row.and_then(|row| row.link_percent_max));
    cells.push("opening_skew_s", "Opened late", "s", row.map(|row| row.opening_skew_ns as f64 / 1e9));
    cells.push("clock_bound_s", "Clock within", "s", row.map(|row| in_seconds(row.clock.bound_ns)));
    cells.push("clock_offset_s", "Clock ahead", "s", row.map(|row| row.clock.offset_ns as f64 / 1e9));
    rate(&mut cells, run);
    cells
}

fn server_hosts(record: &RunRecord, writer: &mut Writer<'_>) -> Result<(), ReportError> {
    writer.write_record(server_host_row(record, &IterationRecord::default(), None).names())?;
    for run in &record.iterations {
        for row in server_hosts::rows(record, &[run]) {
            server_host_row(record, run, Some(&row)).write(writer)?;
        }
    }
    Ok(())
}

/// What the server did on one of several hosts in a timed run.
pub(crate) fn server_host_row(record: &RunRecord, run: &IterationRecord, row: Option<&ServerHostRow>) -> Row {
    let agent = row.and_then(|row| record.target.agents.get(row.agent as usize));
    let there = row.and_then(|row| run.server_hosts.iter().find(|there| there.agent == row.agent));
    let used = there.and_then(|there| run.server_on(there));
    let figures = row.and_then(|row| row.server);
    let processes = figures.and_then(|figures| figures.processes);
    let host = row.map(|row| &row.host);
    let mut cells = Row::default();
    identity_of(&mut cells, record, run);
    cells.put("server_host", "Server host", row.map(|row| row.agent + 1));
    cells.put("host", "Host", agent.map(|agent| &agent.name));
    cells.put("command", "Command", agent.map(|agent| &agent.command));
    cells.push("server_user_s", "Server user", "s", used.map(|used| in_seconds(used.user_ns)));
    cells.push("server_system_s", "Server system", "s", used.map(|used| in_seconds(used.system_ns)));
    cells.push("server_cpu_percent", "Server CPU", "%", figures.map(|it| it.cpu_percent));
    let cost = figures.map(|it| it.cpu_per_1000_requests_s);
    cells.push("server_cpu_per_1000_requests_s", "Server CPU per 1,000 requests", "s", cost);
    cells.push(
        "server_resident_max_bytes",
        "Server memory",
        "bytes",
        figures.map(|it| it.resident_bytes_max),
    );
    cells.put("server_processes_max", "Server processes", processes.map(|it| it.processes_max));
    cells.put("server_threads_max", "Server threads", processes.map(|it| it.threads_max));
    cells.push("host_cpu_busy_percent", "All CPUs busy", "%", row.and_then(|row| row.busy_percent));
    cells.push("link_max_percent", "Fullest link", "%", row.and_then(|row| row.link_percent_max));
    let tcp = host.and_then(|host| host.tcp);
    cells.put("listen_overflows", "Listen overflows", tcp.map(|tcp| tcp.listen_overflows));
    cells.put("segments_retransmitted", "Segments retransmitted", tcp.map(|tcp| tcp.retransmitted));
    cells.push("elapsed_s", "Time between the readings", "s", host.map(|host| host.elapsed_s));
    rate(&mut cells, run);
    cells
}

fn mean_s(sum_ns: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| in_seconds(sum_ns) / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_formula_and_numbers_are_numbers() {
        for (cell, written) in [
            ("=HYPERLINK(\"http://a\")", "'=HYPERLINK(\"http://a\")"),
            ("@a", "'@a"),
            ("+a", "'+a"),
            ("-1+2", "'-1+2"),
            ("\t=1", "' =1"),
            ("-1.5", "-1.5"),
            ("1e-9", "1e-9"),
            ("a=b", "a=b"),
            ("", ""),
        ] {
            assert_eq!(plain(cell), written);
        }
        let (mut row, mut file) = (Row::default(), Vec::new());
        row.named("host", "=1");
        row.named("change", -2.5);
        row.write(&mut ::csv::Writer::from_writer(&mut file)).unwrap();
        assert_eq!(file, b"'=1,-2.5\n");
    }
}
