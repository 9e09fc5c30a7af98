//! What ran against what, when, with which workload, from where.

use serde_json::Value;
use webstone_judge::calibration;
use webstone_judge::verdict::Standing;
use webstone_measure::units::{NANOS_PER_SECOND, Nanos};
use webstone_model::record::{RunRecord, RunState};
use webstone_model::redacted;
use webstone_model::spec::{Check, ClientSpec, ConnectionPolicy, Order, Resolve, WhenBusy, parse_cpu_list};
use webstone_workload::arrivals::ArrivalProcess;
use webstone_workload::redirect::is_redirect;
use webstone_workload::{Page, Workload};

use crate::asctime::{date_time, seconds_between};
use crate::document::{Block, Document, Tone};
use crate::judged::Judged;
use crate::numbers::{DOT, bytes, count, counted, cpu_list};

/// Width of the labels, in columns.
pub(super) const LABEL: usize = 10;

/// The first line: tool, workload, target, the verdict, and how it ended if it is not complete.
pub(crate) fn title(judged: &Judged<'_>, doc: &mut Document) {
    let (record, standing) = (judged.record, judged.verdict.standing);
    let tone = match standing {
        Standing::Valid => Tone::Good,
        Standing::Sound => Tone::Strong,
        Standing::Noisy => Tone::Caution,
        Standing::Inconclusive | Standing::Invalid => Tone::Alarm,
    };
    let ended = match record.state {
        RunState::Complete => "",
        RunState::Partial => ", PARTIAL",
        RunState::Interrupted => ", INTERRUPTED",
        RunState::Failed => ", FAILED",
    };
    let (version, workload) = (&record.tool.version, &record.workload.name);
    let title = format!("webstone {version} – {workload} on {}: ", target(record));
    // The last words are those that must be seen.
    doc.0.push(Block::Text(vec![(Tone::Strong, title), (tone, format!("{}{ended}", standing.word()))]));
}

/// The block of facts.
pub(super) fn whole(record: &RunRecord, doc: &mut Document) {
    doc.gap();
    facts(record).into_iter().for_each(|(label, text)| doc.item(label, LABEL, Tone::Plain, text));
}

/// What the default report says of the load: how long, and on which connections.
pub(super) fn brief(record: &RunRecord, doc: &mut Document) {
    let version = record.target.http.clone();
    let parts = load(record).into_iter().chain(policy(record).into_iter().take(1)).chain(version);
    let parts = parts.chain(slowness(record));
    doc.note(Tone::Faint, joined(parts, DOT));
}

/// Facts on one line, without those that are not known.
pub(crate) fn joined(parts: impl IntoIterator<Item = String>, between: &str) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(between)
}

/// What ran against what, as label and text; the text is the record's and may hold anything.
pub(crate) fn facts(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut fact = |label, parts: Vec<String>| {
        let text = joined(parts, DOT);
        if !text.is_empty() {
            facts.push((label, text));
        }
    };
    fact("run", vec![record.id.clone(), when(record)]);
    fact("target", target_facts(record));
    fact("workload", workload(record));
    redirects(record).into_iter().for_each(|chain| fact("followed", vec![chain]));
    fact("coded", codings(record).into_iter().collect());
    fact("load", load(record));
    fact("clients", policy(record));
    fact(if record.generators.is_empty() { "host" } else { "run from" }, host(record));
    fact("server on", server_host(record));
    fact("generator", calibration::said(record).into_iter().collect());
    fact("command", vec![record.command_line.join(" ")]);
    let left_out =
        redacted::left_out(record).into_iter().map(|(place, number)| format!("{} {place}", count(number)));
    let left_out: Vec<String> = left_out.collect();
    if !left_out.is_empty() {
        fact("left out", vec![format!("values that may be secrets: {}", left_out.join(", "))]);
    }
    facts
}

/// What was measured, in a few words: the target's URL, unless it was the embedded server.
pub(crate) fn target(record: &RunRecord) -> String {
    match record.target.embedded {
        true => "the embedded server".to_owned(),
        false => record
            .target
            .software
            .as_ref()
            .map_or_else(|| record.target.url.clone(), |software| software.to_string()),
    }
}

fn when(record: &RunRecord) -> String {
    let start = date_time(&record.started_at);
    let Some(end) = &record.finished_at else { return format!("started {start}") };
    // A clock that is set, and the pauses of a series, change the time between the two dates.
    let took = record.took_ns.map(|nanos| nanos.saturating_add(NANOS_PER_SECOND / 2) / NANOS_PER_SECOND);
    let took = took.or_else(|| seconds_between(&record.started_at, end));
    // Dates may be anything.
    match took.filter(|seconds| *seconds <= u64::MAX / NANOS_PER_SECOND) {
        Some(seconds) => format!("{start}, took {}", Nanos::from_secs(seconds)),
        None => format!("{start} to {}", date_time(end)),
    }
}

fn target_facts(record: &RunRecord) -> Vec<String> {
    let target = &record.target;
    let mut facts = vec![target.url.clone()];
    facts.push(target.server.clone().unwrap_or_else(|| "server software not named".to_owned()));
    facts.extend(target.offers_http3.iter().map(|offer| format!("also offers HTTP/3 ({offer})")));
    if target.embedded {
        facts.push("the embedded reference server".to_owned());
    }
    if let Some(ours) = &target.software {
        facts.push(format!("started as {ours}: {}", ours.version));
    }
    if !target.cpus.is_empty() {
        facts.push(format!("on CPU {}", cpu_list(&target.cpus)));
    }
    facts
}

pub(crate) fn workload(record: &RunRecord) -> Vec<String> {
    let workload = &record.workload;
    let files: usize = workload.pages.iter().map(|page| page.files.len()).sum();
    let mut facts = vec![
        workload.name.clone(),
        counted(workload.pages.len() as u64, "page", "pages"),
        counted(files as u64, "file", "files"),
    ];
    if let Some(mean) = workload.mean_size() {
        facts.push(format!("mean body {}", bytes(mean.round() as u64)));
    }
    // Half of the hash is enough to see that two workloads differ; the whole is in the JSON.
    let hash: String = record.workload_sha256.chars().take(16).collect();
    if !hash.is_empty() {
        facts.push(format!("sha256 {hash}"));
    }
    facts
}

pub(crate) fn load(record: &RunRecord) -> Vec<String> {
    let load = &record.spec.load;
    let mut length = Vec::new();
    if load.duration > Nanos::ZERO {
        length.push(load.duration.to_string());
    }
    if let Some(pages) = load.pages {
        length.push(counted(pages, "page", "pages"));
    }
    let order = match load.order {
        Order::Interleaved => "interleaved",
        Order::Sequential => "level by level",
        Order::Random => "in random order",
    };
    let iterations = match load.iterations {
        0 | 1 => String::new(),
        several => format!("{several} iterations, {order}"),
    };
    vec![
        match &load.rate {
            None => format!(
                "closed loop, {} each{}",
                length.join(" or "),
                if record.stays_awake() { ", load generator awake" } else { "" }
            ),
            Some(_) => format!(
                "open loop, {}, {} each, arrivals that find all clients busy {}{}",
                arrivals(load.arrivals),
                length.join(" or "),
                match load.when_busy {
                    WhenBusy::Queue => "wait",
                    WhenBusy::Skip => "are skipped",
                },
                if record.spec.generator.spin == Some(true) { ", spinning" } else { "" }
            ),
        },
        format!("warm-up {}", load.warmup),
        iterations,
        format!("seed {}", record.spec.client.seed),
    ]
}

/// How arrivals are spaced, in words.
pub(crate) fn arrivals(process: ArrivalProcess) -> &'static str {
    match process {
        ArrivalProcess::Constant => "constant arrivals",
        ArrivalProcess::Poisson => "Poisson arrivals",
    }
}

pub(crate) fn policy(record: &RunRecord) -> Vec<String> {
    let client = &record.spec.client;
    let connections = match (client.connections, client.requests_per_connection) {
        (ConnectionPolicy::PerRequest, _) => "a new connection for each request".to_owned(),
        (ConnectionPolicy::PerPage, _) => "a new connection for each page".to_owned(),
        (ConnectionPolicy::KeepAlive, None) => "connections kept alive".to_owned(),
        (ConnectionPolicy::KeepAlive, Some(limit)) => {
            format!("connections kept alive for {}", counted(u64::from(limit), "request", "requests"))
        }
    };
    let version = record.target.http.as_deref().unwrap_or(client.http.name());
    let mut facts =
        vec![connections, format!("{} {version}", client.method), checked(client, &record.workload)];
    if !client.expect_status.is_default() {
        facts.push(format!("expected statuses: {}", client.expect_status));
    }
    if client.follow > 0 {
        facts.push(format!("redirects followed, at most {} for a file", client.follow));
    }
    if client.parallel > 1 {
        facts.push(format!("{} files of a page at once", client.parallel));
    }
    if !client.http2_settings.is_default() {
        facts.push(format!("HTTP/2 settings: {}", client.http2_settings.in_words()));
    }
    if !client.quic_version.is_default() {
        facts.push("QUIC version 2".to_owned());
    }
    if client.pipeline > 1 {
        facts.push(format!("up to {} requests in progress on a connection (pipelining)", client.pipeline));
    }
    if client.clients_per_connection > 1 {
        facts.push(format!("{} clients per connection", client.clients_per_connection));
    }
    facts.extend(client.streams.map(|streams| {
        format!("at most {} per connection", counted(u64::from(streams), "stream", "streams"))
    }));
    facts.extend(slowness(record));
    facts.extend(
        record.spec.server.path.map(|path| format!("over a path of webstone's: {}", path.in_words())),
    );
    if client.reset {
        facts.push("connections ended by reset, unlike a browser".to_owned());
    }
    if client.resolve == Resolve::PerConnection {
        facts.push("names resolved for every connection".to_owned());
    }
    facts.extend(client.proxy.iter().map(|proxy| format!("through the proxy {proxy}")));
    facts.extend(client.connect_to.iter().map(|route| format!("connections led by {route}")));
    facts.extend(client.proxy_protocol.map(|version| format!("PROXY protocol {}", version.name())));
    facts.extend(client.unix_socket.iter().map(|path| format!("over the Unix socket {path}")));
    facts
}

/// What makes clients slow on purpose: lines of their own, pauses.
pub(crate) fn slowness(record: &RunRecord) -> impl Iterator<Item = String> {
    let line = record.spec.client.bandwidth.map(|line| format!("{} for each client", line.in_words()));
    line.into_iter().chain(think(record))
}

/// How long clients pause after pages: all of them, or by the workload's weights.
fn think(record: &RunRecord) -> Option<String> {
    if record.spec.load.rate.is_some() {
        return None;
    }
    let pages = &record.workload.pages;
    let pause = |page: &Page| record.spec.client.think.unwrap_or(page.think);
    let (least, most) = (pages.iter().map(pause).min()?, pages.iter().map(pause).max()?);
    match (least, most) {
        (_, Nanos::ZERO) => None,
        (least, most) if least == most => Some(format!("think time {most}")),
        (least, most) => Some(format!("think time {least} to {most}")),
    }
}

/// Redirects that are followed, each with the requests that it takes: `/old 301 → /new`.
pub(crate) fn redirects(record: &RunRecord) -> Vec<String> {
    /// More are counted.
    const NAMED_MAX: usize = 5;
    if record.spec.client.follow == 0 {
        return Vec::new();
    }
    let mut chains: Vec<String> = Vec::new();
    for page in &record.workload.pages {
        let mut chain = String::new();
        for file in &page.files {
            chain += &file.url;
            match file.detail.status.filter(|status| is_redirect(*status)) {
                Some(status) => chain += &format!(" {status} → "),
                None if chain.len() > file.url.len() && !chains.contains(&chain) => {
                    chains.push(std::mem::take(&mut chain))
                }
                None => chain.clear(),
            }
        }
    }
    let more = chains.len().saturating_sub(NAMED_MAX);
    chains.truncate(NAMED_MAX);
    if more > 0 {
        chains.push(format!("and {} more", count(more as u64)));
    }
    chains
}

/// Content codings that the check before the load found, where codings were accepted.
pub(crate) fn codings(record: &RunRecord) -> Option<String> {
    let accepted = &record.spec.client.accept_encoding;
    if accepted.is_empty() {
        return None;
    }
    let coded = &record.target.coded;
    let mut codings: Vec<&str> = coded.iter().map(|sample| &*sample.coding).collect();
    codings.sort_unstable();
    codings.dedup();
    let (wire, decoded) = coded
        .iter()
        .fold((0, 0), |(wire, decoded), sample| (wire + sample.wire_bytes, decoded + sample.decoded_bytes));
    Some(match coded.len() {
        0 => format!("no answer of the check was coded ({} accepted)", accepted.field()),
        files => format!(
            "{} in {}: {} on the wire, {} decoded ({:.0} %)",
            codings.join(" and "),
            counted(files as u64, "answer of the check", "answers of the check"),
            bytes(wire),
            bytes(decoded),
            100.0 * wire as f64 / decoded.max(1) as f64
        ),
    })
}

/// What answers were checked for; without a stated size, the status alone.
fn checked(client: &ClientSpec, workload: &Workload) -> String {
    let files = || workload.pages.iter().flat_map(|page| &page.files);
    let all = files().count();
    let sized = files().filter(|file| file.known_size(&client.method).is_some()).count();
    let generated = files().filter(|file| file.generated_size(&client.method).is_some()).count();
    let of_all = counted(all as u64, "file", "files");
    match (client.check, sized, generated) {
        (Check::Status, ..) => "status checked".to_owned(),
        (Check::Size, ..) if !client.accept_encoding.is_empty() => {
            "status checked, bodies may be coded".to_owned()
        }
        (Check::Size, 0, _) => "status checked, no size known".to_owned(),
        (Check::Size, ..) if sized == all => "status and size checked".to_owned(),
        (Check::Size, ..) => format!("status checked, size of {sized} of {of_all}"),
        (Check::Content, 0, _) => "status checked, no size and no content known".to_owned(),
        (Check::Content, ..) if generated == all => "status, size and content checked".to_owned(),
        (Check::Content, _, 0) if sized == all => "status and size checked, no content known".to_owned(),
        (Check::Content, ..) => {
            format!("status checked, size of {sized} and content of {generated} of {of_all}")
        }
    }
}

/// The machine in a line: name, processor, memory, kernel. Everything else that was read is in the JSON.
pub(crate) fn host(record: &RunRecord) -> Vec<String> {
    machine(&|name| record.environment.get(name))
}

/// The same of the server's machine, where an agent reported it; of several, their names.
pub(crate) fn server_host(record: &RunRecord) -> Vec<String> {
    match &record.server_environments()[..] {
        [] => Vec::new(),
        [(_, facts)] if record.target.agents.len() < 2 => machine(&|name| facts.get(name).copied()),
        _ => {
            let agents = 0..record.target.agents.len() as u32;
            let names: Vec<String> = agents.map(|agent| record.server_host_name(agent)).collect();
            vec![counted(names.len() as u64, "host", "hosts"), names.join(", ")]
        }
    }
}

/// A machine by its facts: name, processor, governor, memory, kernel; empty what is not known.
pub(crate) fn machine<'a>(fact: &dyn Fn(&str) -> Option<&'a Value>) -> Vec<String> {
    let text = |name: &str| fact(name).and_then(Value::as_str);
    let online = text("cpu.online").and_then(|list| parse_cpu_list(list).ok()).map(|cpus| cpus.len() as u64);
    let allowed =
        text("cpu.allowed").and_then(|list| parse_cpu_list(list).ok()).map(|cpus| cpus.len() as u64);
    let cpus = match (online, allowed) {
        (Some(online), Some(allowed)) if allowed < online => {
            format!("{allowed} of {} allowed", counted(online, "CPU", "CPUs"))
        }
        (Some(cpus), _) | (None, Some(cpus)) => counted(cpus, "CPU", "CPUs"),
        (None, None) => String::new(),
    };
    let processor = [text("cpu.model").unwrap_or_default().to_owned(), cpus];
    let memory = fact("memory.bytes").and_then(Value::as_u64);
    vec![
        text("hostname").unwrap_or_default().to_owned(),
        joined(processor, ", "),
        text("cpu.frequency.governor").map(|governor| format!("governor {governor}")).unwrap_or_default(),
        memory.map(|size| format!("{} memory", bytes(size))).unwrap_or_default(),
        text("kernel.release").map(|release| format!("Linux {release}")).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_workload::{FileRequest, Page};

    #[test]
    fn how_long_a_run_took_is_of_the_clock_that_cannot_be_set() {
        let at = |time: &str| format!("2026-11-21T{time}Z");
        let mut record = RunRecord {
            started_at: at("10:00:00"),
            finished_at: Some(at("11:00:43")),
            took_ns: Some(43_400_000_000),
            ..RunRecord::default()
        };
        assert_eq!(when(&record), "2026-11-21 10:00:00 UTC, took 43s");
        record.took_ns = None;
        assert_eq!(when(&record), "2026-11-21 10:00:00 UTC, took 1h43s");
        record.started_at = "0001-01-01T00:00:00Z".to_owned();
        assert_eq!(when(&record), "0001-01-01 00:00:00 UTC to 2026-11-21 11:00:43 UTC");
        record.started_at = at("10:00:00");
        record.finished_at = None;
        assert_eq!(when(&record), "started 2026-11-21 10:00:00 UTC");
    }

    #[test]
    fn a_server_that_offers_http3_besides_is_said_to() {
        let mut record = RunRecord::default();
        let said = |record: &RunRecord| target_facts(record).join(DOT);
        assert!(!said(&record).contains("HTTP/3"));
        record.target.offers_http3 = Some("h3=\":443\"".to_owned());
        assert!(said(&record).ends_with(" · also offers HTTP/3 (h3=\":443\")"), "{}", said(&record));
    }

    #[test]
    fn it_says_what_was_checked_and_of_how_many_files() {
        let said = |check: Check, files: &[(&str, Option<u64>)]| {
            let file = |(url, size): &(&str, Option<u64>)| FileRequest {
                url: (*url).into(),
                size: *size,
                ..FileRequest::default()
            };
            let page = Page { weight: 1, files: files.iter().map(file).collect(), think: Nanos::ZERO };
            let workload = Workload { pages: vec![page], ..Workload::default() };
            checked(&ClientSpec { check, ..ClientSpec::default() }, &workload)
        };
        let (known, dynamic, typed) = (("/a", Some(1)), ("/cgi?1", Some(1)), ("/b", None));
        assert_eq!(said(Check::Status, &[known]), "status checked");
        assert_eq!(said(Check::Size, &[known, dynamic]), "status and size checked");
        assert_eq!(said(Check::Size, &[typed]), "status checked, no size known");
        assert_eq!(said(Check::Size, &[known, typed]), "status checked, size of 1 of 2 files");
        assert_eq!(said(Check::Content, &[known]), "status, size and content checked");
        assert_eq!(said(Check::Content, &[typed]), "status checked, no size and no content known");
        assert_eq!(said(Check::Content, &[dynamic]), "status and size checked, no content known");
        assert_eq!(
            said(Check::Content, &[known, dynamic, typed]),
            "status checked, size of 2 and content of 1 of 3 files"
        );
    }
}
