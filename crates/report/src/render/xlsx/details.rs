//! The tables below a level: clients, pages, seconds, workers, errors, identities; and what the run was made with.

use serde_json::Value;
use webstone_measure::errors::{ErrorClass, ErrorExample};
use webstone_measure::figures::level::{LATENCY_MAX, LATENCY_MEAN};
use webstone_measure::identities::IdentityCheck;
use webstone_measure::metrics::{ClientTotals, Histogram, PageTotals, Second, WorkerUse};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};

use super::book::Sheet;
use super::levels::{BookRun, MS};
use crate::csv::Row;
use crate::definitions::{definition, definitions};
use crate::generators;
use crate::numbers::in_seconds;
use crate::server_hosts;
use crate::text::header;
use crate::{classic, configuration, csv, summary};

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn mean_ms(sum_ns: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| ms(sum_ns) / count as f64)
}

/// The first columns of every table below an iteration.
fn begun(record: &str, run: &IterationRecord) -> Row {
    let mut line = Row::default();
    line.cell("Run", "", record);
    line.cell("Clients", "", run.clients);
    line.cell("Iteration", "", run.iteration);
    line
}

/// A sheet with some lines for each iteration.
fn by_iteration<'a, I: Iterator<Item = Row> + 'a>(
    name: &'static str,
    blank: Row,
    runs: &'a [BookRun<'a>],
    count: fn(&IterationRecord) -> usize,
    lines: impl Fn(&'a RunRecord, &'a IterationRecord) -> I + Copy + 'a,
) -> Sheet<'a> {
    let iterations =
        move || runs.iter().flat_map(|run| run.record.iterations.iter().map(|i| (run.record, i)));
    Sheet {
        name,
        blank,
        count: iterations().map(|(_, run)| count(run)).sum(),
        lines: Box::new(iterations().flat_map(move |(record, run)| lines(record, run))),
        frozen: 3,
    }
}

/// A sheet with a line per item of a list in each iteration.
fn of_each<'a, T: Default + 'a>(
    name: &'static str,
    runs: &'a [BookRun<'a>],
    list: fn(&IterationRecord) -> &[T],
    line: fn(&str, &IterationRecord, usize, &T) -> Row,
) -> Sheet<'a> {
    let blank = line("", &IterationRecord::default(), 0, &T::default());
    let lines = move |record: &'a RunRecord, run: &'a IterationRecord| {
        list(run).iter().enumerate().map(move |(number, it)| line(&record.id, run, number, it))
    };
    Sheet {
        count: runs.iter().flat_map(|run| &run.record.iterations).map(|run| list(run).len()).sum(),
        ..by_iteration(name, blank, runs, |_| 0, lines)
    }
}

/// `Client Data`: what every client did in each timed run, as WebBench's report of that name.
pub(super) fn clients<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    of_each("Client Data", runs, |run| &run.measured.clients, client_line)
}

fn client_line(record: &str, run: &IterationRecord, number: usize, client: &ClientTotals) -> Row {
    let window_s = in_seconds(run.measured.window_ns);
    let mut line = begun(record, run);
    line.cell("Client", "", number);
    line.cell("Pages", "", client.pages);
    line.cell("Requests", "", client.requests);
    line.cell("Errors", "", client.errors);
    line.cell("Request rate", "1/s", summary::quotient(client.requests as f64, window_s));
    line.cell(
        LATENCY_MEAN.long,
        "ms",
        client.response_mean().map(|mean| mean.ns / NANOS_PER_SECOND as f64 * MS),
    );
    line.cell("Received", "bytes", client.bytes);
    line.cell("Throughput", "bytes/s", summary::quotient(client.bytes as f64, window_s));
    line.cell("Connections", "", client.connects);
    csv::rate(&mut line, run);
    line
}

/// `Pages`: totals page by page, all levels and iterations of a run together.
pub(super) fn pages<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    Sheet {
        name: "Pages",
        blank: page_line(runs[0].record, 1, 0, &PageTotals::default()),
        count: runs.iter().map(|run| run.record.page_totals().len()).sum(),
        lines: Box::new(runs.iter().flat_map(|run| {
            let totals = run.record.page_totals().into_owned();
            let weights = run.record.workload.total_weight();
            totals
                .into_iter()
                .enumerate()
                .map(move |(index, page)| page_line(run.record, weights, index, &page))
        })),
        frozen: 3,
    }
}

fn page_line(record: &RunRecord, weights: u64, index: usize, page: &PageTotals) -> Row {
    let stated = record.workload.pages.get(index);
    let mut line = Row::default();
    line.cell("Run", "", &record.id);
    line.cell("Page", "", index);
    line.cell(
        "First file",
        "",
        stated.and_then(|page| page.files.first()).map(|file| file.shown().into_owned()),
    );
    line.cell("Files", "", stated.map(|page| page.files.len()));
    line.cell("Weight", "", stated.map(|page| page.weight));
    let share = |page: &webstone_workload::Page| page.weight as f64 * 100.0 / weights.max(1) as f64;
    line.cell("Share by weight", "%", stated.map(share));
    line.cell("Size", "bytes", classic::page_size(record, index, page));
    line.cell("Hits", "", page.hits);
    line.cell("Failed", "", page.failed);
    line.cell("Page time mean", "ms", mean_ms(page.time_ns, page.hits));
    line.cell("Page time max", "ms", (page.hits > 0).then(|| ms(page.time_ns_max)));
    line.cell("Requests", "", page.requests);
    line.cell("Errors", "", page.errors);
    line.cell(
        LATENCY_MEAN.long,
        "ms",
        page.response_mean().map(|mean| mean.ns / NANOS_PER_SECOND as f64 * MS),
    );
    line.cell(LATENCY_MAX.long, "ms", (page.requests > 0).then(|| ms(page.longest_ns())));
    line.cell("Connections", "", page.connects);
    line.cell("Connect mean", "ms", mean_ms(page.connect_ns, page.connects));
    line.cell("Connect max", "ms", (page.connects > 0).then(|| ms(page.connect_ns_max)));
    line.cell("Bodies", "bytes", page.body_bytes);
    line.cell("Heads", "bytes", page.head_bytes);
    line
}

/// `Seconds`: second by second of each timed run.
pub(super) fn series<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    of_each("Seconds", runs, |run| &run.measured.seconds.0, second_line)
}

fn second_line(record: &str, run: &IterationRecord, index: usize, interval: &Second) -> Row {
    let mut line = begun(record, run);
    // The end of the interval; the last one may be shorter than a second, and its rate is over what it has.
    let from_s = index as f64;
    let until_s = in_seconds(run.measured.span_ns()).clamp(from_s, from_s + 1.0);
    let rate = |count: u64| summary::quotient(count as f64, until_s - from_s);
    line.cell("Until", "s", until_s);
    line.cell("Request rate", "1/s", rate(interval.requests));
    line.cell("Requests", "", interval.requests);
    line.cell("Errors", "", interval.errors);
    line.cell("Connections", "", interval.connections);
    line.cell("Pages", "", interval.pages);
    line.cell("Received", "bytes", interval.bytes);
    line.cell("Throughput", "bytes/s", rate(interval.bytes));
    line.cell(LATENCY_MEAN.long, "ms", mean_ms(interval.response_ns, interval.requests));
    line.cell(LATENCY_MAX.long, "ms", (interval.requests > 0).then(|| ms(interval.response_ns_max)));
    csv::rate(&mut line, run);
    line
}

/// `Errors`: one row per class and timed run, with the first example.
pub(super) fn errors<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    by_iteration(
        "Errors",
        error_line("", &IterationRecord::default(), (ErrorClass::Refused, 0, None)),
        runs,
        |run| run.measured.errors.iter().count(),
        |record, run| run.measured.errors.iter().map(move |error| error_line(&record.id, run, error)),
    )
}

fn error_line(
    record: &str,
    run: &IterationRecord,
    (class, count, first): (ErrorClass, u64, Option<&ErrorExample>),
) -> Row {
    let ended = run.measured.counts.ended();
    let mut line = begun(record, run);
    line.cell("Class", "", class.name());
    line.cell("Blames", "", crate::text::errors::blames(class.blame()));
    line.cell("Errors", "", count);
    line.cell("Share of ended requests", "%", summary::quotient(count as f64 * 100.0, ended as f64));
    line.cell("When", "", definition("Errors", class.name()).map(|d| &d.text));
    line.cell("First at", "s", first.map(|first| in_seconds(first.at_ns)));
    line.cell("First from", "", first.map(|first| &first.address));
    line.cell("First request", "", first.map(|first| &first.request));
    line.cell("What was seen", "", first.map(|first| &first.detail));
    csv::rate(&mut line, run);
    line
}

/// `Identities`: equations between counters, and whether they hold.
pub(super) fn identities<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    let line = |record: &str, run: &IterationRecord, check: Option<&IdentityCheck>| {
        let mut line = begun(record, run);
        line.cell("Identity", "", check.map(|it| it.number));
        line.cell("Must hold", "", check.map(|it| &it.rule));
        line.cell("Both sides", "", check.map(|it| &it.evidence));
        line.cell("Holds", "", check.map(|it| it.holds));
        csv::rate(&mut line, run);
        line
    };
    by_iteration(
        "Identities",
        line("", &IterationRecord::default(), None),
        runs,
        |run| run.identities.len(),
        move |record, run| run.identities.iter().map(move |check| line(&record.id, run, Some(check))),
    )
}

/// `Generator`: what each worker of the load generator used.
pub(super) fn workers<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    of_each("Generator", runs, |run| &run.measured.generator.workers, worker_line)
}

/// `Load generators`: the part of each of several hosts in each timed run.
pub(super) fn generators<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    let blank = csv::generator_row(runs[0].record, &IterationRecord::default(), None);
    by_iteration(
        "Load generators",
        blank,
        runs,
        |run| run.parts.len(),
        |record, run| {
            let hosts = generators::rows(record, &[run]);
            hosts.into_iter().map(move |host| csv::generator_row(record, run, Some(&host)))
        },
    )
}

/// `Server hosts`: what the server did on each of several hosts in each timed run.
pub(super) fn server_hosts<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    let blank = csv::server_host_row(runs[0].record, &IterationRecord::default(), None);
    by_iteration(
        "Server hosts",
        blank,
        runs,
        |run| run.server_hosts.len(),
        move |record, run| {
            let hosts = server_hosts::rows(record, &[run]);
            hosts.into_iter().map(move |host| csv::server_host_row(record, run, Some(&host)))
        },
    )
}

fn worker_line(record: &str, run: &IterationRecord, number: usize, worker: &WorkerUse) -> Row {
    let mut line = begun(record, run);
    line.cell("Worker", "", number);
    line.cell("CPU", "", worker.cpu);
    line.cell("User time", "s", in_seconds(worker.user_ns));
    line.cell("System time", "s", in_seconds(worker.system_ns));
    let share = summary::quotient(worker.worked_ns() as f64 * 100.0, run.measured.window_ns as f64);
    line.cell("Share of its CPU", "%", share);
    line.cell("Rounds of its loop", "", worker.loops);
    line.cell("Events", "", worker.events);
    line.cell("Sleeps", "", worker.sleeps);
    let generator = &run.measured.generator;
    let at = |times: &Histogram, percentile| {
        (!times.is_empty()).then(|| in_seconds(times.value_at_percentile(percentile)) * MS)
    };
    line.cell("Loop delay p99 of all workers", "ms", at(&generator.loop_delay, 99.0));
    line.cell("Receive lag p99 of all workers", "ms", at(&generator.receive_lag, 99.0));
    line.cell("Connect lag p50 of all workers", "ms", at(&generator.connect_lag, 50.0));
    line.cell("Awake", "s", in_seconds(worker.spun_ns));
    csv::rate(&mut line, run);
    line
}

/// `Disclosure`: the run's options, programs and target.
pub(super) fn disclosure<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    facts("Disclosure", runs, |record| {
        let mut facts: Vec<(String, Value)> = vec![
            ("tool".to_owned(), Value::from(format!("{} {}", record.tool.name, record.tool.version))),
            ("tool.commit".to_owned(), record.tool.commit.clone().into()),
            ("command line".to_owned(), record.command_line.join(" ").into()),
            ("started at".to_owned(), record.started_at.clone().into()),
            ("finished at".to_owned(), record.finished_at.clone().into()),
            ("target.url".to_owned(), record.target.url.clone().into()),
            ("target.server".to_owned(), record.target.server.clone().into()),
            ("target.embedded".to_owned(), record.target.embedded.into()),
            ("clients".to_owned(), header::policy(record).join(" · ").into()),
            ("workload.name".to_owned(), record.workload.name.clone().into()),
            ("workload.pages".to_owned(), record.workload.pages.len().into()),
            ("workload.mean body, bytes".to_owned(), record.workload.mean_size().into()),
            ("workload.sha256".to_owned(), record.workload_sha256.clone().into()),
        ];
        let state = serde_json::to_value(record.state).unwrap_or_default();
        facts.push(("state".to_owned(), state));
        flatten("", &serde_json::to_value(&record.spec).unwrap_or_default(), &mut facts);
        for (number, warning) in record.warnings.iter().enumerate() {
            facts.push((format!("warning {}", number + 1), warning.clone().into()));
        }
        facts
    })
}

/// `Configuration`: server, hosts and network that were measured, by group.
pub(super) fn configuration<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    let line = |run: &str, group: &str, name: &str, value: &str| {
        let mut line = Row::default();
        line.cell("Run", "", run);
        line.cell("Group", "", group);
        line.cell("Name", "", name);
        line.cell("Value", "", value);
        line
    };
    let of = |run: &BookRun<'_>| -> Vec<Row> {
        let groups = configuration::groups(run.record);
        let rows =
            groups.iter().flat_map(|group| group.rows.iter().map(|(label, text)| (group.title, label, text)));
        rows.map(|(group, label, text)| line(&run.record.id, group, label, text)).collect()
    };
    let lines: Vec<Row> = runs.iter().flat_map(of).collect();
    Sheet::new("Configuration", line("", "", "", ""), lines, 3)
}

/// `Environment`: everything that was read of the machine.
pub(super) fn environment<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    facts("Environment", runs, |record| {
        let mut facts = Vec::new();
        for (name, value) in &record.environment {
            flatten(name, value, &mut facts);
        }
        for (place, host) in record.generators.iter().enumerate() {
            for (name, value) in &host.environment {
                flatten(&format!("generator {}.{name}", place + 1), value, &mut facts);
            }
        }
        for (place, agent) in record.target.agents.iter().enumerate() {
            for (name, value) in &agent.environment {
                flatten(&format!("server host {}.{name}", place + 1), value, &mut facts);
            }
        }
        facts
    })
}

fn facts<'a>(
    name: &'static str,
    runs: &'a [BookRun<'a>],
    of: fn(&RunRecord) -> Vec<(String, Value)>,
) -> Sheet<'a> {
    let line = |run: &str, name: String, value: &Value| {
        let mut line = Row::default();
        line.cell("Run", "", run);
        line.cell("Name", "", name);
        match value {
            Value::Null => line.cell("Value", "", None::<f64>),
            Value::Bool(value) => line.cell("Value", "", *value),
            Value::Number(number) => match number.as_u64() {
                Some(whole) => line.cell("Value", "", whole),
                None => line.cell("Value", "", number.as_f64()),
            },
            Value::String(text) => line.cell("Value", "", text),
            other => line.cell("Value", "", other.to_string()),
        }
        line
    };
    let lines: Vec<Row> = runs
        .iter()
        .flat_map(|run| of(run.record).into_iter().map(|(name, value)| line(&run.record.id, name, &value)))
        .collect();
    Sheet::new(name, line("", String::new(), &Value::Null), lines, 2)
}

/// Objects become dotted names; lists stay lists, in JSON.
fn flatten(name: &str, value: &Value, facts: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, facts);
            }
        }
        other => facts.push((name.to_owned(), other.clone())),
    }
}

/// `Definitions`: what each figure means.
pub(super) fn meanings() -> Sheet<'static> {
    let line = |d: &crate::definitions::Definition| {
        let mut line = Row::default();
        line.cell("Of", "", d.section);
        line.cell("Name in record.json", "", &d.name);
        line.cell("Definition", "", &d.text);
        line.cell("Unit", "", &d.unit);
        line.cell("Source", "", &d.source);
        line
    };
    let all = definitions();
    Sheet::new("Definitions", line(&all[0]), all.iter().map(line).collect(), 2)
}
