//! External handlers: `/send` is not answered by the server itself but by a program, through CGI/1.1 (a process per request), FastCGI
//! (processes that stay, behind sockets), or the persistent protocol (processes that stay, behind pipes). These are the three columns of
//! WASD's report: CGI, FastCGI with a process for each request slot, CGIplus.
//!
//! Nothing of a request reaches a shell or a command line: it is in the environment, as RFC 3875 has it, or in a frame that
//! holds the same. A program that is silent for too long, or sends too much, or garbage, is ended with its children, and the
//! client gets a 5xx or a connection that ends early, never a part that looks complete.

mod cgi;
mod fastcgi;
mod head;
mod output;
mod persistent;
mod process;
mod slots;
mod stream;
mod variables;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, IF_MODIFIED_SINCE, LOCATION};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use crate::body::{Content, ServerBody, respond};
use crate::error::ServeError;
use crate::exchange::Exchange;
use crate::files;
use crate::handlers;
use head::{Head, Redirect};
pub(crate) use output::HandlerBody;
use process::Reaper;
pub(crate) use slots::Slots;

/// Path of the handler.
const SCRIPT: &str = "/send";
/// How often a handler may redirect a request to another path of this server (RFC 3875, 6.2.2).
const LOCAL_REDIRECTS_MAX: usize = 5;

/// The protocol of an external handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// CGI/1.1: a process for each request.
    Cgi,
    /// FastCGI: processes that stay, each behind a socket of its own.
    FastCgi,
    /// The persistent protocol: processes that stay, each with one request at a time on its standard input.
    Persistent,
}

/// The settings of external handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// How they are spoken to.
    pub interface: Interface,
    /// The program, with its whole path, and its arguments.
    pub command: Vec<OsString>,
    /// Requests, and so processes, at once, divided among the server's threads; at least one for each of them. 0: two for
    /// each.
    pub slots: u32,
    /// How long a handler may be silent, and a request may wait for a free slot.
    pub silence_max: Duration,
    /// Most bytes of one answer.
    pub output_bytes_max: u64,
}

impl GatewayOptions {
    /// A program with two slots for each thread, 30 s of silence and 2^40 bytes of an answer.
    pub fn new(interface: Interface, command: Vec<OsString>) -> GatewayOptions {
        GatewayOptions {
            interface,
            command,
            slots: 0,
            silence_max: Duration::from_secs(30),
            output_bytes_max: crate::send::MADE_BYTES_MAX,
        }
    }
}

/// External handlers, as all threads see them.
#[derive(Debug)]
pub(crate) struct Gateway {
    options: GatewayOptions,
    reaper: Reaper,
    root: Option<PathBuf>,
}

impl Gateway {
    /// Checks that the program can be started.
    pub(crate) fn new(options: GatewayOptions, root: Option<PathBuf>) -> Result<Gateway, ServeError> {
        let program = options.command.first().map(PathBuf::from).unwrap_or_default();
        if !program.is_absolute() || !program.is_file() {
            return Err(ServeError {
                what: format!("--handler {}: there is no such program", program.display()),
                hint: Some("give its full path, as in --handler '/usr/lib/cgi-bin/send'".to_owned()),
            });
        }
        let reaper = Reaper::start().map_err(|error| ServeError::system("starting a thread", &error))?;
        Ok(Gateway { options, reaper, root })
    }
}

/// Whether a path is the handler's, with whatever follows it.
pub(crate) fn is_handled(path: &str) -> bool {
    path.strip_prefix(SCRIPT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Why a handler's output is not an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandlerFailure {
    /// The request cannot be put into an environment.
    #[error("{0}")]
    Request(&'static str),
    /// No slot was free for long.
    #[error("all slots of the handler were busy for {0:?}")]
    Busy(Duration),
    /// It could not be started.
    #[error("the handler cannot be started: {0}")]
    Start(std::io::Error),
    /// It sent nothing.
    #[error("the handler sent nothing for {0:?}")]
    Silent(Duration),
    /// What it sent is not an answer.
    #[error("the handler's answer is malformed: {0}")]
    Malformed(String),
    /// It ended before its answer was whole.
    #[error("the handler ended early: {0}")]
    Ended(String),
    /// It sent requests round in a circle.
    #[error("the handler sent the request on to other paths more than {LOCAL_REDIRECTS_MAX} times")]
    Circle,
}

impl HandlerFailure {
    fn status(&self) -> StatusCode {
        match self {
            HandlerFailure::Request(_) => StatusCode::BAD_REQUEST,
            HandlerFailure::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            HandlerFailure::Silent(_) => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

/// What a handler is asked.
pub(crate) struct Asked<'a> {
    method: Method,
    /// [`SCRIPT`] and what follows it, as the client wrote it.
    path: String,
    /// What follows the question mark, as the client wrote it; empty where there is none.
    query: String,
    parts: &'a Parts,
    body: Bytes,
    peer: Option<IpAddr>,
    local: Option<SocketAddr>,
    is_encrypted: bool,
}

/// Answers a request through the handler.
pub(crate) async fn answer(exchange: Exchange, parts: &Parts, body: Bytes) -> Response<ServerBody> {
    let is_head = parts.method == Method::HEAD;
    let shard = Rc::clone(&exchange.shard);
    let mut asked = Asked {
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        parts,
        body,
        peer: exchange.wire.peer,
        local: exchange.wire.local(),
        is_encrypted: exchange.wire.is_encrypted(),
    };
    for _ in 0..=LOCAL_REDIRECTS_MAX {
        let (head, handled) = match slots::ask(&shard, &asked).await {
            Ok(answered) => answered,
            Err(failure) => return failed(exchange, is_head, &failure),
        };
        let Redirect::Local(location) = &head.redirect else {
            return response(exchange, is_head, head, handled);
        };
        handled.finish();
        let location = location.split('#').next().unwrap_or_default();
        let (path, query) = location.split_once('?').unwrap_or((location, ""));
        if !is_handled(path) {
            let found = files::find(&shard, path).await;
            return handlers::file(exchange, is_head, parts.headers.get(IF_MODIFIED_SINCE), found);
        }
        // As if the client had asked for it with GET (RFC 3875, 6.2.2).
        asked.method = Method::GET;
        (asked.path, asked.query, asked.body) = (path.to_owned(), query.to_owned(), Bytes::new());
    }
    failed(exchange, is_head, &HandlerFailure::Circle)
}

fn failed(exchange: Exchange, is_head: bool, failure: &HandlerFailure) -> Response<ServerBody> {
    handlers::text(exchange, failure.status(), is_head, format!("{failure}\n"))
}

fn response(exchange: Exchange, is_head: bool, head: Head, handled: HandlerBody) -> Response<ServerBody> {
    let mut response = respond(exchange, head.status, is_head, Content::Handled(Box::new(handled)));
    let headers = response.headers_mut();
    if let Some(media_type) = head.content_type {
        headers.insert(CONTENT_TYPE, media_type);
    }
    if let Redirect::Client(location) = head.redirect {
        headers.insert(LOCATION, location);
    }
    for (name, value) in head.others {
        headers.append(name, value);
    }
    response
}
