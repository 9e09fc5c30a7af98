//! The addresses of the front, all of them in one table, and what each does. Whether a request may pass is [`crate::guard`]'s matter
//! and was decided before.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{StatusCode, Uri};
use matchit::Router;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use webstone_measure::strict;
use webstone_model::spec::RunSpec;
use webstone_runner::series;

use crate::answer::{self, Answer, Failed};
use crate::desk::{Desk, Problem};
use crate::form::{self, Filled};
use crate::guard::{Door, Guard};
use crate::launch::{Order, What};
use crate::library::{self, Shelf};
use crate::pages;
use crate::runs::{Runs, Started};
use crate::tickets::Tickets;
use crate::{Options, assets, detail, permission, program, stored};

/// Time between two frames of a live page.
const FRAME: Duration = Duration::from_secs(1);

/// Rows of the library in an answer that asks for no number.
const ROWS: usize = 200;

/// What is asked of an address.
struct Asked<'a> {
    uri: &'a Uri,
    /// The part of the path that names a run; empty where the address has none.
    name: &'a str,
    body: &'a [u8],
}

impl Asked<'_> {
    /// A parameter of the query.
    fn parameter(&self, name: &str) -> Option<String> {
        let query = self.uri.query().unwrap_or_default();
        form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }
}

type Handler = fn(&Front, &Asked<'_>) -> Result<Answer, Failed>;

/// What an address does.
#[derive(Clone, Copy)]
enum Does {
    /// Answers a GET.
    Reads(Handler),
    /// Answers a POST, and changes nothing.
    Judges(Handler),
    /// Changes or starts something, by a POST; not where pages may only look.
    Changes(Handler),
    /// Sends the figures of a run as they come.
    Streams,
    /// Sends a report, once.
    Renders,
}

/// Every address but those of the pages' own files.
const ROUTES: [(&str, Does); 22] = [
    ("/render/{ticket}", Does::Renders),
    ("/api/status", Does::Reads(|front, _| Ok(status(front)))),
    (
        "/api/form",
        Does::Reads(|front, _| Ok(answer::value(StatusCode::OK, &form::form(front.desk.as_ref())))),
    ),
    ("/api/check", Does::Judges(check)),
    ("/api/live", Does::Reads(|front, _| Ok(running(front)))),
    ("/api/live/{name}", Does::Streams),
    ("/api/live/{name}/stop", Does::Changes(stop)),
    ("/api/queue/{name}/remove", Does::Changes(remove)),
    ("/api/library", Does::Reads(library)),
    ("/api/history", Does::Reads(history)),
    ("/api/compare", Does::Judges(compare)),
    ("/api/runs", Does::Changes(start)),
    ("/api/runs/{name}", Does::Reads(stored_run)),
    ("/api/runs/{name}/page", Does::Judges(page)),
    ("/api/runs/{name}/verify", Does::Judges(|front, asked| printed(front, "verify", asked.name))),
    ("/api/runs/{name}/notes", Does::Changes(note)),
    ("/api/runs/{name}/resume", Does::Changes(resume)),
    ("/api/runs/{name}/archive", Does::Changes(|front, asked| written(front, "archive", asked.name))),
    ("/api/runs/{name}/certify", Does::Changes(|front, asked| written(front, "certify", asked.name))),
    ("/api/runs/{name}/trash", Does::Changes(discard)),
    ("/api/trash", Does::Reads(trash)),
    ("/api/trash/{name}/restore", Does::Changes(restore)),
];

static ROUTER: LazyLock<Router<Does>> = LazyLock::new(|| {
    let mut router = Router::new();
    for (path, does) in ROUTES {
        router.insert(path, does).expect("no two addresses of the table are alike");
    }
    router
});

/// What an address does, and the name in it; `None` where there is nothing, or the name is no text.
fn found(path: &str) -> Option<(Does, String)> {
    let matched = ROUTER.at(path).ok()?;
    let name = matched.params.iter().next().map_or("", |(_, name)| name);
    Some((*matched.value, percent_decode_str(name).decode_utf8().ok()?.into_owned()))
}

/// What an address is for.
pub(crate) fn door(path: &str) -> Door {
    match found(path) {
        Some((Does::Judges(_) | Does::Changes(_), _)) => Door::Post,
        Some((Does::Renders, _)) => Door::Once,
        Some(_) => Door::Read,
        None if path.starts_with("/api/") => Door::Read,
        None => Door::Asset,
    }
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
    /// A front of these parts.
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

    /// Looks at the runs, and returns the processes of those that are on.
    pub(crate) fn refresh(&self) -> Vec<u32> {
        let mut runs = self.runs();
        runs.refresh();
        runs.processes()
    }

    /// Whether it ends by itself, and nobody has asked for anything for this time.
    pub(crate) fn is_idle_for(&self, time: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        self.options.until_idle && asked.elapsed() >= time
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // A panic while a file was read left the state consistent.
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
    let path = uri.path();
    *front.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    let (handler, name) = match found(path) {
        Some((Does::Streams, id)) => return live(front, id).await,
        Some((Does::Renders, ticket)) => return render(front, &ticket),
        Some((Does::Changes(_), _)) if front.options.read_only => return looking_only().into(),
        Some((Does::Reads(handler) | Does::Judges(handler) | Does::Changes(handler), name)) => {
            (handler, name)
        }
        None if path.starts_with("/api/") => {
            return Failed::new(StatusCode::NOT_FOUND, &format!("there is nothing at {path}"), None).into();
        }
        None => return assets::answer(path),
    };
    // What reads files or starts programs may take its time, and must not delay other pages.
    let (front, uri) = (Arc::clone(front), uri.clone());
    let answered = tokio::task::spawn_blocking(move || {
        handler(&front, &Asked { uri: &uri, name: &name, body: &body }).unwrap_or_else(Answer::from)
    });
    answered.await.unwrap_or_else(|error| {
        answer::failure(StatusCode::INTERNAL_SERVER_ERROR, &format!("the front failed: {error}"), None)
    })
}

fn looking_only() -> Failed {
    let hint = "start `webstone ui` without --read-only to start and stop runs";
    Failed::new(StatusCode::FORBIDDEN, "this front is for looking only", Some(hint))
}

fn render(front: &Front, ticket: &str) -> Answer {
    let redeemed = front.tickets.lock().unwrap_or_else(PoisonError::into_inner).redeem(ticket);
    let gone =
        || answer::failure(StatusCode::NOT_FOUND, "this address was good once", Some("open the run again"));
    redeemed.map_or_else(gone, answer::report)
}

fn remove(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let removed = asked.name.parse().is_ok_and(|id| front.runs().forget(id));
    let missing = || Failed::new(StatusCode::NOT_FOUND, "this run does not wait any more", None);
    removed.then(answer::done).ok_or_else(missing)
}

fn page(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let page = pages::report(&front.locate(asked.name)?)?;
    Ok(answer::value(StatusCode::OK, &json!({ "url": ticket(front, page)? })))
}

fn note(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let directory = front.locate(asked.name)?;
    let noted = front.shelf.note(&directory, parsed(asked.body)?)?;
    Ok(answer::value(StatusCode::OK, &noted))
}

fn discard(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    front.locate(asked.name)?;
    front.shelf.discard(&front.options.runs_dir, asked.name)?;
    Ok(answer::done())
}

fn trash(front: &Front, _: &Asked<'_>) -> Result<Answer, Failed> {
    let rows = library::trashed(&front.options.runs_dir)?;
    Ok(answer::value(StatusCode::OK, &rows))
}

fn restore(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    front.shelf.restore(&front.options.runs_dir, asked.name)?;
    Ok(answer::done())
}

/// Runs a command that writes files of its own, and returns what it printed.
fn written(front: &Front, command: &str, name: &str) -> Result<Answer, Failed> {
    if front.options.allow_commands {
        return printed(front, command, name);
    }
    let hint = format!("start it with --allow-commands, or run: webstone {command} {name}");
    Err(Failed::new(StatusCode::FORBIDDEN, "this front writes no archives and certificates", Some(&hint)))
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

fn running(front: &Front) -> Answer {
    let runs = front.runs();
    let found = json!({ "live": runs.briefs(), "queued": runs.queue(), "unstarted": runs.unstarted() });
    answer::value(StatusCode::OK, &found)
}

fn library(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let number = |name: &str, default: usize| {
        asked.parameter(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let search = asked.parameter("q").unwrap_or_default();
    let sort = asked.parameter("sort").unwrap_or_default();
    let part = (number("offset", 0), number("limit", ROWS));
    let rows = front.shelf.rows(&front.options.runs_dir, &search, &sort, part);
    rows.map(|rows| answer::value(StatusCode::OK, &rows))
}

fn history(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let name = asked.parameter("name").unwrap_or_default();
    front.locate(&name)?;
    let found = front.shelf.history(&front.options.runs_dir, &name)?;
    let missing =
        || Failed::new(StatusCode::NOT_FOUND, &format!("there is no run `{name}` in the library"), None);
    found.map(|history| answer::value(StatusCode::OK, &history)).ok_or_else(missing)
}

/// A run with its row, its notes and its details.
fn stored_run(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let name = asked.name;
    let directory = front.locate(name)?;
    let row = front.shelf.row(&front.options.runs_dir, name)?;
    let mut run = match detail::of_run(&directory) {
        Ok(detail) => detail,
        // A run that cannot be read has notes too, and a row that says why.
        Err(error) => json!({ "unreadable": error.message, "hint": error.hint }),
    };
    run["row"] = json!(row);
    run["notes"] = match library::notes(&directory) {
        Ok(notes) => notes,
        Err(error) => json!({ "text": "", "tags": [], "updated": "", "problem": error.message }),
    };
    Ok(answer::value(StatusCode::OK, &run))
}

fn check(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    Ok(answer::value(StatusCode::OK, &checked(front, &parsed(asked.body)?)))
}

fn checked(front: &Front, filled: &Filled) -> form::Checked {
    filled.check(front.desk.as_ref(), front.options.granted())
}

fn start(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let filled: Filled = parsed(asked.body)?;
    let checked = checked(front, &filled);
    // Exactly the text that was checked is started: never without a plan, and only with what the plan may do.
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

/// Measures what is missing of a series.
fn resume(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let directory = front.locate(asked.name)?;
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

fn stop(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let Stop { now } = parsed(asked.body)?;
    let id = asked.name;
    match front.runs().stop(id, now) {
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

fn compare(front: &Front, asked: &Asked<'_>) -> Result<Answer, Failed> {
    let wanted: Compare = parsed(asked.body)?;
    let paths: Vec<PathBuf> = wanted.runs.iter().map(|name| front.locate(name)).collect::<Result<_, _>>()?;
    let compared = pages::compare(&paths, wanted.force)?;
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

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failed> {
    strict::json(body).map_err(|error| {
        Failed::new(
            StatusCode::BAD_REQUEST,
            &format!("the body is not what is asked for here: {error}"),
            None,
        )
    })
}

/// Counts a page that watches a run, until it is dropped.
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
