//! A row of the library: what a list, a search and a history need of a run, a series or a duel, without reading its record again.
//!
//! Texts come from records of strangers and are only clipped here. Code that shows them must make them harmless.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use webstone_judge::search;
use webstone_judge::statistics::mean_interval;
use webstone_judge::steps;
use webstone_judge::verdict::{self, LimitingResource, NoiseBound, Standing, Verdict};
use webstone_measure::figures::Reading;
use webstone_measure::keys::LevelKey;
use webstone_measure::strict;
use webstone_model::record::{IterationRecord, RunRecord, RunState};
use webstone_model::search::Over;
use webstone_model::series::{Cell, SERIES_SCHEMA, Series};
use webstone_model::spec::HttpVersion;

use super::files::{Folder, is_partial};
use crate::certify::{Certificate, signature};
use crate::plain_file::{self, Links};
use crate::{CERTIFICATE, MANIFEST, SIGNATURE, Store, clock, read_file};

/// The plan of a series in its directory.
pub const SERIES: &str = "series.json";
/// Largest plan that is read, in bytes.
const PLAN_BYTES_MAX: u64 = 256 << 20;
/// Characters of a text that a row keeps.
const TEXT_MAX: usize = 200;
/// Facts of the environment that a row keeps.
const FACTS_MAX: usize = 300;
/// Levels that a row keeps; of a sweep of more, only the peak.
const LEVELS_MAX: usize = 32;

/// What a row is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// A run.
    #[default]
    Run,
    /// A series of runs.
    Series,
    /// A duel.
    Duel,
}

impl RowKind {
    /// The word that searches type.
    pub fn word(self) -> &'static str {
        match self {
            RowKind::Run => "run",
            RowKind::Series => "series",
            RowKind::Duel => "duel",
        }
    }
}

/// A run, a series or a duel of the library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LibraryRow {
    /// Name of its directory.
    pub name: String,
    /// What it is.
    pub kind: RowKind,
    /// Why it cannot be read; then everything below is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether it was not read yet ([`super::Library::open_newest`]); then everything below is empty.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// When it began (RFC 3339, UTC).
    pub started: String,
    /// Time between its begin and its end, in seconds; absent if it did not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// The command that made it: `run`, `hit`, `find`, `servers` …
    pub command: String,
    /// The program that measured, with its version.
    pub tool: String,
    /// The server's name: `nginx`; of the embedded one `webstone`. Empty where it is unknown.
    pub server: String,
    /// Profile of its configuration, where it has one.
    pub profile: String,
    /// The server's version, as far as it is known.
    pub server_version: String,
    /// Whether it was the embedded reference server.
    pub embedded: bool,
    /// Whether it was another server that webstone started.
    pub own: bool,
    /// URL of the target.
    pub target: String,
    /// The workload's name.
    pub workload: String,
    /// `http/1.0`, `http/1.1` or `h2`.
    pub protocol: String,
    /// Whether requests went over TLS.
    pub tls: bool,
    /// Name of the generator's host.
    pub host: String,
    /// The verdict; of a series the worst of its cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Whether it is certified: every rule is met now, its certificate says so, every file is what the signed check sums
    /// say. `webstone verify` says who signed.
    pub certified: bool,
    /// How it ended; of a series `complete` where every cell did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
    /// Number of windows that were measured, without void ones.
    pub windows: u64,
    /// Number of windows that were void.
    pub voids: u64,
    /// The level with the highest request rate, among those with conclusive figures if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<Peak>,
    /// All levels, ascending, if there are not too many; otherwise only the peak.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Peak>,
    /// Of a search: the highest load that keeps the SLO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// The bottleneck at the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitingResource>,
    /// Requests that failed, in all windows.
    pub errors: u64,
    /// What must be equal for two runs to be in one history, as a digest ([`steps::conditions`]); empty of a series.
    pub conditions: String,
    /// What may change from run to run and is shown with a step ([`steps::surroundings`]).
    #[serde(skip_serializing_if = "is_nothing")]
    pub environment: Arc<BTreeMap<String, String>>,
    /// The runs of a series, each named `SERIES/RUN`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<LibraryRow>,
    /// Cells that the series has by its plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
    /// Who took part in a duel, without the twin; the first is what the others are compared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contestants: Vec<String>,
    /// What a duel found, in short: `new +2.4 % CPU/request`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub answer: String,
}

/// A level in figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Which level: `20 clients`, `5,000 arrivals/s`.
    pub level: String,
    /// Its number of clients; in open loop those that stood ready.
    pub clients: u32,
    /// Valid responses per second, over all its iterations.
    pub rate_per_s: f64,
    /// Both ends of the 95 % interval of its mean over the iterations; absent below two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_interval: Option<[f64; 2]>,
    /// 99th percentile of the response time, in seconds; absent where nothing was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<f64>,
    /// What these are worth.
    pub standing: Standing,
    /// How far noise may have moved them; absent without noise that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<LevelNoise>,
}

/// How far noise may have moved the figures of a level, with what the machine gave in earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelNoise {
    /// By which factor it may have lowered the rate at most; absent: by any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_factor: Option<f64>,
    /// By which factor it may have lengthened the 99th percentile of the response time at most; absent: by any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_factor: Option<f64>,
}

impl LevelNoise {
    fn of_bound(noise: &NoiseBound, is_open_loop: bool) -> LevelNoise {
        let factor = noise.rate_factor();
        // What took more than a hundredth of the time may have delayed more than a hundredth of the requests, for any time.
        let reaches_p99 = |factor: &f64| 1.0 - 1.0 / factor > 0.01;
        LevelNoise {
            // In open loop the rate is that of the arrivals.
            rate_factor: if is_open_loop { Some(1.0) } else { factor },
            p99_factor: factor.filter(|factor| !reaches_p99(factor)),
        }
    }
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What was searched over.
    pub over: Over,
    /// The highest load that keeps the SLO: arrivals per second, or clients.
    pub load: u64,
}

fn is_nothing(environment: &Arc<BTreeMap<String, String>>) -> bool {
    environment.is_empty()
}

impl LibraryRow {
    /// The verdict in a word: `VALID`, `CERTIFIED` …; empty where there is none.
    pub fn verdict(&self) -> &'static str {
        match self.standing {
            Some(Standing::Valid) if self.certified => "CERTIFIED",
            Some(standing) => standing.word(),
            None => "",
        }
    }

    /// What was measured: `nginx (tuned)` of a server that webstone started, the URL of another.
    pub fn server_or_target(&self) -> String {
        match (self.embedded, self.own, self.profile.as_str()) {
            (true, ..) => "the embedded server".to_owned(),
            (false, false, _) => self.target.clone(),
            (false, true, "") => self.server.clone(),
            (false, true, profile) => format!("{} ({profile})", self.server),
        }
    }

    /// Who fought a duel: `new against old`.
    pub fn duellists(&self) -> String {
        match self.contestants.as_slice() {
            [first, others @ ..] => format!("{} against {first}", others.join(", ")),
            [] => String::new(),
        }
    }

    /// The figures of a level, where they are kept.
    pub fn level(&self, level: &str) -> Option<&Peak> {
        self.levels.iter().find(|found| found.level == level)
    }

    /// A row that says why there is no more to it.
    pub(super) fn unreadable(name: &str, kind: RowKind, problem: impl Into<String>) -> LibraryRow {
        LibraryRow {
            name: name.to_owned(),
            kind,
            problem: Some(clipped(&problem.into())),
            ..LibraryRow::default()
        }
    }

    /// Reads a directory.
    pub(super) fn read(folder: &Folder, path: &Path) -> LibraryRow {
        let made = match folder.kind {
            RowKind::Run => run(&folder.name, path),
            RowKind::Series => series(folder, path),
            RowKind::Duel => super::duel::row(&folder.name, path),
        };
        made.unwrap_or_else(|problem| LibraryRow::unreadable(&folder.name, folder.kind, problem))
    }

    /// The row of a record, without whether it is certified, which depends on its directory.
    pub fn of_record(name: &str, record: &RunRecord) -> LibraryRow {
        let verdict = verdict::of_record(record);
        let (keys, levels): (Vec<LevelKey>, Vec<Peak>) = levels(record, &verdict).into_iter().unzip();
        let rate = |place: &usize| levels[*place].rate_per_s;
        let highest = |a: &usize, b: &usize| rate(a).total_cmp(&rate(b));
        // As in reports: what is not conclusive is the peak only where nothing else was answered.
        let is_conclusive =
            |place: &usize| verdict.of_level(keys[*place]).is_conclusive() && rate(place) > 0.0;
        let best = (0..levels.len()).filter(is_conclusive).max_by(highest);
        let best = best.or_else(|| (0..levels.len()).max_by(highest));
        let peak = best.map(|place| levels[place].clone());
        let limit = best.and_then(|place| verdict.level_limits.get(place)).map(|it| it.limit.resource);
        let (server, server_version) = server(record);
        let kept = search::of_record(record)
            .and_then(|found| Some(Kept { over: record.spec.find.as_ref()?.over, load: found.kept? }));
        let environment = environment(record);
        LibraryRow {
            name: name.to_owned(),
            kind: RowKind::Run,
            started: clipped(&record.started_at),
            duration_s: duration(record),
            command: command(&record.command_line),
            tool: clipped(&format!("{} {}", record.tool.name, record.tool.version)),
            server,
            profile: record.target.software.as_ref().map_or_else(String::new, |it| clipped(&it.profile)),
            server_version,
            embedded: record.target.embedded,
            own: record.target.software.is_some(),
            target: clipped(&record.target.url),
            workload: clipped(&record.workload.name),
            protocol: protocol(record.spec.client.http).to_owned(),
            tls: record.target.url.starts_with("https:")
                || record.iterations.iter().any(|run| run.measured.handshakes.is_some()),
            host: host(&record.environment),
            standing: Some(verdict.standing),
            state: Some(record.state),
            windows: record.iterations.len() as u64,
            voids: record.voids.len() as u64,
            levels: if levels.len() > LEVELS_MAX { peak.iter().cloned().collect() } else { levels },
            limit,
            peak,
            kept,
            errors: record
                .iterations
                .iter()
                .map(|run| run.measured.counts.failed)
                .fold(0, u64::saturating_add),
            conditions: digest(&steps::conditions(record)),
            environment,
            ..LibraryRow::default()
        }
    }
}

/// The generator's name.
pub(super) fn host(environment: &BTreeMap<String, Value>) -> String {
    environment.get("hostname").and_then(|it| it.as_str()).map_or_else(String::new, clipped)
}

fn run(name: &str, path: &Path) -> Result<LibraryRow, String> {
    let record = Store::load(path).map_err(|error| error.to_string())?;
    let mut row = LibraryRow::of_record(name, &record);
    row.certified = row.standing == Some(Standing::Valid) && is_certified(path);
    Ok(row)
}

/// Whether the certificate says so, and is one of the files whose check sums are signed.
fn is_certified(path: &Path) -> bool {
    let says_so = read_file(path, CERTIFICATE)
        .is_ok_and(|bytes| strict::json::<Certificate>(&bytes).is_ok_and(|it| it.certified));
    let signed = || match (read_file(path, SIGNATURE), read_file(path, MANIFEST)) {
        (Ok(signature), Ok(manifest)) => signature::check(&signature, &manifest).is_ok(),
        _ => false,
    };
    says_so && signed() && Store::check(path).is_ok_and(|integrity| integrity.damage.is_empty())
}

fn series(folder: &Folder, path: &Path) -> Result<LibraryRow, String> {
    let file = path.join(SERIES);
    let text = plain_file::read_text(&file, Links::Refused, PLAN_BYTES_MAX)
        .map_err(|error| format!("cannot read {SERIES}: {}", crate::without_number(&error)))?;
    let series: Series = strict::json(text.as_bytes()).map_err(|error| format!("{SERIES}: {error}"))?;
    if series.schema > SERIES_SCHEMA {
        return Err(format!(
            "{SERIES} has schema {}; schemas up to {SERIES_SCHEMA} are known",
            series.schema
        ));
    }
    let cells: Vec<LibraryRow> = folder
        .cells
        .iter()
        .map(|cell| {
            let name = format!("{}/{cell}", folder.name);
            run(&name, &path.join(cell))
                .unwrap_or_else(|problem| LibraryRow::unreadable(&name, RowKind::Run, problem))
        })
        .collect();
    let ended = |row: &&LibraryRow| row.state == Some(RunState::Complete) && !is_partial(&row.name);
    let complete = cells.iter().filter(ended).count() >= series.cells.len();
    let first = cells.first();
    let of_first = |part: fn(&LibraryRow) -> &String| first.map_or_else(String::new, |row| part(row).clone());
    let workloads: Vec<&String> = cells.iter().map(|row| &row.workload).collect();
    let servers = joined(cells.iter().map(|row| row.server.as_str()));
    Ok(LibraryRow {
        name: folder.name.clone(),
        kind: RowKind::Series,
        started: clipped(&series.started_at),
        command: series.kind.command().to_owned(),
        tool: clipped(&format!("{} {}", series.tool.name, series.tool.version)),
        server: servers,
        workload: joined(workloads.into_iter().map(String::as_str)),
        host: of_first(|row| &row.host),
        protocol: joined(cells.iter().map(|row| row.protocol.as_str())),
        tls: cells.iter().any(|row| row.tls),
        standing: cells.iter().filter_map(|row| row.standing).max(),
        state: Some(if complete { RunState::Complete } else { RunState::Partial }),
        windows: cells.iter().map(|row| row.windows).sum(),
        voids: cells.iter().map(|row| row.voids).sum(),
        errors: cells.iter().map(|row| row.errors).fold(0, u64::saturating_add),
        planned: series.cells.iter().map(|cell: &Cell| clipped(&cell.name)).collect(),
        cells,
        ..LibraryRow::default()
    })
}

/// Words that differ, in the order in which they appear.
pub(super) fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut found: Vec<&str> = Vec::new();
    words.filter(|word| !word.is_empty()).for_each(|word| {
        if !found.contains(&word) {
            found.push(word);
        }
    });
    clipped(&found.join(", "))
}

/// Versions and facts first, then the kernel's settings: there are a hundred, and in a stranger's record any number.
fn environment(record: &RunRecord) -> Arc<BTreeMap<String, String>> {
    let mut all: Vec<(String, String)> = steps::surroundings(record).into_iter().collect();
    all.sort_by_key(|(what, _)| what.contains(": "));
    let kept = all.into_iter().take(FACTS_MAX).map(|(what, value)| (clipped(&what), clipped(&value)));
    Arc::new(kept.collect())
}

fn levels(record: &RunRecord, verdict: &Verdict) -> Vec<(LevelKey, Peak)> {
    let level = |(key, runs): (LevelKey, Vec<&IterationRecord>)| {
        let reading = Reading::of_level(&runs);
        let rates: Vec<f64> = runs.iter().map(|run| Reading::of_run(run).figures().request_rate).collect();
        let interval = mean_interval(&rates).map(|interval| [interval.low, interval.high]);
        let level = Peak {
            level: key.to_string(),
            clients: runs[0].clients,
            rate_per_s: finite(reading.figures().request_rate),
            rate_interval: interval.filter(|ends| ends.iter().all(|end| end.is_finite())),
            p99_s: reading.distributions().response.as_ref().map(|times| times.p99_s),
            standing: verdict.of_level(key),
            noise: verdict.noise_of(key).map(|noise| LevelNoise::of_bound(&noise, runs[0].rate.is_some())),
        };
        (key, level)
    };
    record.levels().into_iter().map(level).collect()
}

/// JSON has no other numbers.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Name and version, as far as they are known: of a program that webstone started, what it says; of another, its `Server` field.
fn server(record: &RunRecord) -> (String, String) {
    match (&record.target.software, record.target.embedded, &record.target.server) {
        (Some(software), _, _) => (clipped(&software.name), clipped(&software.version)),
        (None, true, _) => ("webstone".to_owned(), clipped(&record.tool.version)),
        (None, false, Some(field)) => {
            let first = field.split_whitespace().next().unwrap_or_default();
            let (name, version) = first.split_once('/').unwrap_or((first, ""));
            (clipped(&name.to_lowercase()), clipped(version))
        }
        (None, false, None) => (String::new(), String::new()),
    }
}

pub(super) fn protocol(http: HttpVersion) -> &'static str {
    match http {
        HttpVersion::Http10 => "http/1.0",
        HttpVersion::Http11 => "http/1.1",
        HttpVersion::Http2 => "h2",
        HttpVersion::Http3 => "h3",
        HttpVersion::Auto => "auto",
    }
}

pub(super) fn command(words: &[String]) -> String {
    let is_command =
        |word: &&String| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    words
        .get(1)
        .filter(|word| !word.starts_with('-'))
        .filter(is_command)
        .map_or_else(String::new, |it| clipped(it))
}

fn duration(record: &RunRecord) -> Option<f64> {
    if let Some(took_ns) = record.took_ns {
        return Some(took_ns as f64 / 1e9);
    }
    let started = clock::parse_rfc3339(&record.started_at)?;
    let finished = clock::parse_rfc3339(record.finished_at.as_deref()?)?;
    finished.duration_since(started).ok().map(|took| took.as_secs_f64())
}

/// 16 hexadecimal digits that differ where a condition does.
fn digest(conditions: &[(&'static str, String)]) -> String {
    let mut sum = Sha256::new();
    for (name, value) in conditions {
        for text in [*name, value.as_str()] {
            sum.update((text.len() as u64).to_le_bytes());
            sum.update(text);
        }
    }
    sum.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// At most [`TEXT_MAX`] characters of a text.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_a_bound_for_a_percentile_that_it_does_not_reach() {
        let of = |factor, is_open_loop| {
            let bound = NoiseBound {
                held_up_percent: 1.0,
                factor,
                cpu_factor: None,
                at_best: None,
                undisturbed: None,
            };
            let noise = LevelNoise::of_bound(&bound, is_open_loop);
            (noise.rate_factor, noise.p99_factor)
        };
        assert_eq!(of(Some(1.005), false), (Some(1.005), Some(1.005)));
        assert_eq!(of(Some(1.2), false), (Some(1.2), None));
        assert_eq!(of(None, false), (None, None));
        assert_eq!(of(None, true), (Some(1.0), None), "the rate is that of the arrivals");
    }
}
