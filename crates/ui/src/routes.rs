//! The addresses of the front, all of them in one table, and what each does. Whether a request may pass is [`crate::guard`]'s matter
//! and was decided before.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{StatusCode, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use webstone_model::spec::RunSpec;
use webstone_model::strict;
use webstone_runner::series;

use crate::answer::{self, Answer, Failed};
use crate::desk::{Desk, Problem};
use crate::form::{self, Filled};
use crate::guard::{Door, Guard};
use crate::launch::{Order, What};
use crate::library::{self, Shelf, Trouble};
use crate::pages::{self, NoPage};
use crate::runs::{Runs, Started};
use crate::tickets::Tickets;
use crate::{Options, assets, detail, permission, program, stored};

/// Time between two frames of a live page.
const FRAME: Duration = Duration::from_secs(1);

/// Rows of the library in an answer that asks for no number.
const ROWS: usize = 200;

/// Addresses that change something.
const CHANGES: [&str; 13] = [
    "/api/check",
    "/api/runs",
    "/api/live/*/stop",
    "/api/queue/*/remove",
    "/api/runs/*/notes",
    "/api/runs/*/trash",
    "/api/runs/*/resume",
    "/api/runs/*/page",
    "/api/runs/*/verify",
    "/api/runs/*/archive",
    "/api/runs/*/certify",
    "/api/compare",
    "/api/trash/*/restore",
];

/// What an address is for.
pub(crate) fn door(path: &str) -> Door {
    if CHANGES.iter().any(|pattern| captured(pattern, path).is_some()) {
        Door::Change
    } else if path.starts_with("/api/") {
        Door::Read
    } else if path.starts_with("/render/") {
        Door::Once
    } else {
        Door::Asset
    }
}

/// What stands for the star of a pattern, or nothing where it has none; `None` if the path is another.
fn captured(pattern: &str, path: &str) -> Option<String> {
    let Some((before, after)) = pattern.split_once('*') else {
        return (pattern == path).then(String::new);
    };
    let middle = path.strip_prefix(before)?.strip_suffix(after)?;
    (!middle.is_empty() && !middle.contains('/')).then(|| unescaped(middle)).flatten()
}

/// Percent-encoding taken back; `None` where it is broken.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// A parameter of the query.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| unescaped(value))
}

/// Everything that addresses work on.
pub(crate) struct Front {
    options: Options,
    guard: Guard,
    desk: Arc<dyn Desk>,
    runs: Mutex<Runs>,
    tickets: Mutex<Tickets>,
    shelf: Shelf,
    /// CPUs that the front was given at its start.
    cpus: usize,
    /// When something was last asked for.
    asked: Mutex<Instant>,
}

impl Front {
    /// Of its parts.
    pub(crate) fn new(options: Options, guard: Guard, runs: Runs, desk: Arc<dyn Desk>, cpus: usize) -> Front {
        Front {
            options,
            guard,
            desk,
            runs: Mutex::new(runs),
            tickets: Mutex::default(),
            shelf: Shelf::default(),
            cpus,
            asked: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Looks at the runs; the processes of those that are on.
    pub(crate) fn refresh(&self) -> Vec<u32> {
        let mut runs = self.runs();
        runs.refresh();
        runs.processes()
    }

    /// Whether it ends by itself, and nobody has asked for anything for so long.
    pub(crate) fn is_idle_for(&self, time: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        self.options.until_idle && asked.elapsed() >= time
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // Whoever panicked in a look at a file left nothing half done that matters.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locate(&self, name: &str) -> Result<PathBuf, Failed> {
        stored::locate(&self.options.runs_dir, name).ok_or_else(|| {
            let message = format!("there is no run `{name}` in {}", self.options.runs_dir.display());
            Failed::new(StatusCode::NOT_FOUND, &message, None)
        })
    }
}

/// Answers a request that may pass.
pub(crate) async fn answer(front: &Arc<Front>, uri: &Uri, body: Vec<u8>) -> Answer {
    let path = uri.path().to_owned();
    *front.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    if let Some(id) = captured("/api/live/*", &path) {
        return live(front, id).await;
    }
    if let Some(given) = captured("/render/*", &path) {
        let redeemed = front.tickets.lock().unwrap_or_else(PoisonError::into_inner).redeem(&given);
        let gone = || {
            answer::failure(StatusCode::NOT_FOUND, "this address was good once", Some("open the run again"))
        };
        return redeemed.map_or_else(gone, answer::report);
    }
    if !path.starts_with("/api/") {
        return assets::answer(&path);
    }
    // What reads files or starts programs may take its time, and must hold up no other page.
    let (front, uri) = (Arc::clone(front), uri.clone());
    let answered = tokio::task::spawn_blocking(move || api(&front, &uri, &body)).await;
    answered.unwrap_or_else(|error| {
        answer::failure(StatusCode::INTERNAL_SERVER_ERROR, &format!("the front failed: {error}"), None)
    })
}

fn api(front: &Front, uri: &Uri, body: &[u8]) -> Answer {
    let path = uri.path();
    let answered = match path {
        "/api/status" => Ok(status(front)),
        "/api/form" => Ok(answer::value(StatusCode::OK, &form::form(front.desk.as_ref()))),
        "/api/live" => Ok(on(front)),
        "/api/library" => library(front, uri),
        "/api/history" => history(front, uri),
        "/api/trash" => library::trashed(&front.options.runs_dir)
            .map(|rows| answer::value(StatusCode::OK, &rows))
            .map_err(troubled),
        "/api/check" => parsed(body).and_then(|filled| check(front, &filled)),
        "/api/runs" => parsed(body).and_then(|filled| start(front, &filled)),
        "/api/compare" => parsed(body).and_then(|wanted| compare(front, &wanted)),
        _ => below(front, path, body),
    };
    answered.unwrap_or_else(Answer::from)
}

/// Addresses with a name in them.
fn below(front: &Front, path: &str, body: &[u8]) -> Result<Answer, Failed> {
    if let Some(id) = captured("/api/live/*/stop", path) {
        return stop(front, &id, &parsed(body)?);
    }
    if let Some(id) = captured("/api/queue/*/remove", path) {
        changing(front)?;
        let removed = id.parse().is_ok_and(|id| front.runs().forget(id));
        let missing = || Failed::new(StatusCode::NOT_FOUND, "this run does not wait any more", None);
        return removed.then(answer::done).ok_or_else(missing);
    }
    if let Some(name) = captured("/api/runs/*/page", path) {
        let page = pages::report(&front.locate(&name)?).map_err(no_page)?;
        return Ok(answer::value(StatusCode::OK, &json!({ "url": ticket(front, page)? })));
    }
    if let Some(name) = captured("/api/runs/*/notes", path) {
        changing(front)?;
        let directory = front.locate(&name)?;
        let noted = front.shelf.note(&directory, parsed(body)?).map_err(troubled)?;
        return Ok(answer::value(StatusCode::OK, &noted));
    }
    if let Some(name) = captured("/api/runs/*/trash", path) {
        changing(front)?;
        let directory = front.locate(&name)?;
        if front.runs().is_written(&directory) {
            return Err(Failed::new(StatusCode::CONFLICT, "this run is on", Some("stop it first")));
        }
        front.shelf.discard(&front.options.runs_dir, &name).map_err(troubled)?;
        return Ok(answer::done());
    }
    if let Some(name) = captured("/api/trash/*/restore", path) {
        changing(front)?;
        front.shelf.restore(&front.options.runs_dir, &name).map_err(troubled)?;
        return Ok(answer::done());
    }
    if let Some(name) = captured("/api/runs/*", path) {
        return stored_run(front, &name);
    }
    if let Some(name) = captured("/api/runs/*/verify", path) {
        return printed(front, "verify", &name);
    }
    if let Some(name) = captured("/api/runs/*/resume", path) {
        return resume(front, &name);
    }
    for (command, pattern) in [("archive", "/api/runs/*/archive"), ("certify", "/api/runs/*/certify")] {
        let Some(name) = captured(pattern, path) else { continue };
        changing(front)?;
        if !front.options.allow_commands {
            let hint = format!("start it with --allow-commands, or run: webstone {command} {name}");
            let message = "this front writes no archives and certificates";
            return Err(Failed::new(StatusCode::FORBIDDEN, message, Some(&hint)));
        }
        return printed(front, command, &name);
    }
    Err(Failed::new(StatusCode::NOT_FOUND, &format!("there is nothing at {path}"), None))
}

fn status(front: &Front) -> Answer {
    let cpus = front.cpus;
    let mut advice = Vec::new();
    if cpus <= 2 {
        advice.push(format!(
            "This host has {cpus} CPU{}: a browser on it takes time from what is measured. Watch from another host: \
             `ssh -L PORT:127.0.0.1:PORT HOST`, with the port of this address.",
            if cpus == 1 { "" } else { "s" }
        ));
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let runs = front.runs();
    answer::value(
        StatusCode::OK,
        &json!({
            "version": front.desk.version(),
            "host": host.trim(),
            "runs_dir": front.options.runs_dir.display().to_string(),
            "cpus": cpus,
            "read_only": front.options.read_only,
            "commands_allowed": front.options.allow_commands,
            "live": runs.briefs(),
            "queued": runs.queue(),
            "advice": advice,
        }),
    )
}

fn on(front: &Front) -> Answer {
    let runs = front.runs();
    answer::value(StatusCode::OK, &json!({ "live": runs.briefs(), "queued": runs.queue() }))
}

fn library(front: &Front, uri: &Uri) -> Result<Answer, Failed> {
    let number = |name: &str, default: usize| {
        parameter(uri, name).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let search = parameter(uri, "q").unwrap_or_default();
    let rows = front.shelf.rows(&front.options.runs_dir, &search, number("offset", 0), number("limit", ROWS));
    rows.map(|rows| answer::value(StatusCode::OK, &rows)).map_err(troubled)
}

fn history(front: &Front, uri: &Uri) -> Result<Answer, Failed> {
    let name = parameter(uri, "name").unwrap_or_default();
    front.locate(&name)?;
    let found = front.shelf.history(&front.options.runs_dir, &name).map_err(troubled)?;
    let missing =
        || Failed::new(StatusCode::NOT_FOUND, &format!("there is no run `{name}` in the library"), None);
    found.map(|history| answer::value(StatusCode::OK, &history)).ok_or_else(missing)
}

/// A run with its row, its notes, and what is to be known of it.
fn stored_run(front: &Front, name: &str) -> Result<Answer, Failed> {
    let directory = front.locate(name)?;
    let row = front.shelf.row(&front.options.runs_dir, name).map_err(troubled)?;
    let mut run = match detail::of(&directory) {
        Ok(detail) => detail,
        // What cannot be read has a row that says why, and notes all the same.
        Err(error) => json!({ "unreadable": error.message, "hint": error.hint }),
    };
    run["row"] = json!(row);
    run["notes"] = match library::notes(&directory) {
        Ok(notes) => notes,
        Err(trouble) => json!({ "text": "", "tags": [], "updated": "", "problem": trouble.message }),
    };
    Ok(answer::value(StatusCode::OK, &run))
}

fn troubled(trouble: Trouble) -> Failed {
    Failed::new(StatusCode::UNPROCESSABLE_ENTITY, &trouble.message, trouble.hint.as_deref())
}

fn check(front: &Front, filled: &Filled) -> Result<Answer, Failed> {
    Ok(answer::value(StatusCode::OK, &checked(front, filled)))
}

fn checked(front: &Front, filled: &Filled) -> form::Checked {
    filled.check(front.desk.as_ref(), front.options.granted())
}

fn start(front: &Front, filled: &Filled) -> Result<Answer, Failed> {
    changing(front)?;
    let checked = checked(front, filled);
    // What was read is what is started: nothing without a plan, and with all that the plan may do.
    let Some(spec) = &checked.planned else {
        return match checked.problem {
            Some(problem) if checked.refused => Err(forbidden(&problem)),
            _ => Ok(answer::value(StatusCode::UNPROCESSABLE_ENTITY, &checked)),
        };
    };
    permit(front, spec)?;
    let (command, what) = (filled.program_command().to_owned(), What::Testbed(checked.toml));
    launch(front, Order { command, name: checked.name, what }, filled.queue)
}

/// Refuses what in a testbed needs a right that this front was not given.
fn permit(front: &Front, spec: &RunSpec) -> Result<(), Failed> {
    permission::refusal(spec, front.options.granted()).map_or(Ok(()), |problem| Err(forbidden(&problem)))
}

fn forbidden(problem: &Problem) -> Failed {
    Failed::new(StatusCode::FORBIDDEN, &problem.message, problem.hint.as_deref())
}

/// Makes what is missing of a series.
fn resume(front: &Front, name: &str) -> Result<Answer, Failed> {
    changing(front)?;
    let directory = front.locate(name)?;
    let refused = |message: &str, hint: Option<&str>| Failed::new(StatusCode::CONFLICT, message, hint);
    let (_, series) =
        series::load(&directory).map_err(|error| refused(&error.to_string(), error.hint().as_deref()))?;
    if series.without_secrets {
        let hint =
            format!("in a terminal, the command line that began it, with --resume {}", directory.display());
        return Err(refused("what this series needs is not stored: its requests have secrets", Some(&hint)));
    }
    // What lies in the directory of runs may be somebody else's, and the run reads it again.
    if !front.options.allow_commands {
        let found = permission::may_change(&front.options.runs_dir, &directory.join(series::SERIES));
        if let Some(problem) = found.map_err(|error| refused(&error.to_string(), None))? {
            return Err(forbidden(&problem));
        }
    }
    for cell in &series.cells {
        permit(front, &cell.spec)?;
    }
    let command = series.kind.command().to_owned();
    launch(front, Order { command, name: series.id, what: What::Rest(directory) }, false)
}

fn launch(front: &Front, order: Order, may_wait: bool) -> Result<Answer, Failed> {
    match front.runs().start(order, may_wait) {
        Ok(Started::Now(id)) => Ok(answer::value(StatusCode::CREATED, &json!({ "id": id }))),
        Ok(Started::Queued(id)) => Ok(answer::value(StatusCode::ACCEPTED, &json!({ "queued": id }))),
        Ok(Started::Busy(on)) => Err(Failed::new(
            StatusCode::CONFLICT,
            &format!("`{}` is on, and two at a time would measure each other", on.name),
            Some("wait until it has ended, stop it, or let this one wait for its turn"),
        )),
        Err(error) => {
            let message = format!("the run cannot be started: {error}");
            Err(Failed::new(StatusCode::INTERNAL_SERVER_ERROR, &message, None))
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    #[serde(default)]
    now: bool,
}

fn stop(front: &Front, id: &str, stop: &Stop) -> Result<Answer, Failed> {
    changing(front)?;
    match front.runs().stop(id, stop.now) {
        Some(Ok(())) => Ok(answer::value(StatusCode::ACCEPTED, &json!({}))),
        Some(Err(error)) => {
            let message = format!("the run cannot be stopped: {error}");
            Err(Failed::new(StatusCode::CONFLICT, &message, Some("it may have ended just now")))
        }
        None => Err(Failed::new(StatusCode::NOT_FOUND, &format!("there is no run {id}"), None)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    runs: Vec<String>,
    #[serde(default)]
    force: bool,
}

fn compare(front: &Front, wanted: &Compare) -> Result<Answer, Failed> {
    let paths: Vec<PathBuf> = wanted.runs.iter().map(|name| front.locate(name)).collect::<Result<_, _>>()?;
    let compared = pages::compare(&paths, wanted.force).map_err(no_page)?;
    let mut summary = compared.summary;
    summary["url"] = match compared.page {
        Some(page) => json!(ticket(front, page)?),
        None => Value::Null,
    };
    Ok(answer::value(StatusCode::OK, &summary))
}

/// What a command of the program printed about a stored run.
fn printed(front: &Front, command: &str, name: &str) -> Result<Answer, Failed> {
    let path = front.locate(name)?;
    match program::run(&front.options.program, command, &path) {
        Ok(printed) => Ok(answer::value(StatusCode::OK, &printed)),
        Err(error) => {
            let message = format!("`webstone {command}` cannot be started: {error}");
            Err(Failed::new(StatusCode::INTERNAL_SERVER_ERROR, &message, None))
        }
    }
}

fn ticket(front: &Front, page: Vec<u8>) -> Result<String, Failed> {
    let issued = front.tickets.lock().unwrap_or_else(PoisonError::into_inner).issue(page);
    issued.map_err(|error| Failed::new(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None))
}

fn no_page(error: NoPage) -> Failed {
    Failed::new(StatusCode::UNPROCESSABLE_ENTITY, &error.message, error.hint.as_deref())
}

/// Refuses changes where pages may only look.
fn changing(front: &Front) -> Result<(), Failed> {
    match front.options.read_only {
        false => Ok(()),
        true => Err(Failed::new(
            StatusCode::FORBIDDEN,
            "this front is for looking only",
            Some("start `webstone ui` without --read-only to start and stop runs"),
        )),
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failed> {
    strict::json(body).map_err(|error| {
        Failed::new(
            StatusCode::BAD_REQUEST,
            &format!("the body is not what is asked for here: {error}"),
            None,
        )
    })
}

/// A page that watches a run, as long as it does.
struct Watching {
    front: Arc<Front>,
    id: String,
}

impl Watching {
    fn begin(front: &Arc<Front>, id: &str) -> Watching {
        front.runs().count_page(id, true);
        Watching { front: Arc::clone(front), id: id.to_owned() }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.front.runs().count_page(&self.id, false);
    }
}

/// The stream of a run: what there is so far, then a frame every second, to the end.
async fn live(front: &Arc<Front>, id: String) -> Answer {
    let (lines, to_send) = mpsc::channel(16);
    let begun = {
        let mut runs = front.runs();
        runs.refresh();
        runs.snapshot(&id).zip(runs.told(&id))
    };
    let Some((snapshot, mut told)) = begun else {
        return answer::failure(StatusCode::NOT_FOUND, &format!("there is no run {id}"), None);
    };
    let watching = Watching::begin(front, &id);
    let front = Arc::clone(front);
    tokio::spawn(async move {
        let _watching = watching;
        let line = |value: &Value| Bytes::from(value.to_string() + "\n");
        if lines.send(line(&json!({ "snapshot": snapshot }))).await.is_err() {
            return;
        }
        loop {
            let Some(news) = front.runs().news(&id, &mut told) else { return };
            let is_over = news.iter().any(|one| one.get("finished").is_some());
            for one in &news {
                if lines.send(line(one)).await.is_err() {
                    return;
                }
            }
            if is_over {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(FRAME) => {}
                () = lines.closed() => return,
            }
        }
    });
    answer::lines(to_send)
}
