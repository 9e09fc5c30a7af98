//! Which handler answers which path, and the answers that need no state: files, `/send`, texts.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::Body;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, IF_MODIFIED_SINCE, LAST_MODIFIED};
use hyper::{Method, Request, Response, StatusCode};

use crate::body::{Content, Made, ServerBody, respond};
use crate::control;
use crate::exchange::Exchange;
use crate::files::{self, FileError, FileHead, Found};
use crate::gateway;
use crate::query::QueryError;
use crate::send::Send;
use crate::test_answer;

/// Longest request body that is kept, for `/echo` and for external handlers.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Answers any request. The fast way, a file in this thread's memory, was tried before.
pub(crate) async fn answer<B>(exchange: Exchange, request: Request<B>) -> Response<ServerBody>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (parts, body) = request.into_parts();
    let echo = parts.uri.path() == "/echo" && exchange.shard.shared.test_handlers;
    let outside = exchange.shard.shared.gateway.is_some() && gateway::is_handled(parts.uri.path());
    // A body is read to its end before the answer, so that closing never resets an answer on its way.
    let body = match read_body(body, if echo || outside { KEPT_BYTES_MAX } else { 0 }).await {
        Ok(body) => body,
        Err(_) => return text(exchange, StatusCode::BAD_REQUEST, false, "the request's body is malformed\n"),
    };
    let is_head = parts.method == Method::HEAD;
    let tests = exchange.shard.shared.test_handlers;
    match parts.uri.path() {
        _ if outside => match body {
            Some(body) => gateway::answer(exchange, &parts, body).await,
            None => too_long(exchange, is_head),
        },
        "/send" => send(exchange, is_head, parts.uri.query()),
        control::COUNTERS_PATH => control::counters(exchange, is_head),
        control::REFUSE_PATH if tests => control::refuse(exchange, is_head, parts.uri.query()).await,
        control::FAULT_PATH if tests => control::fault(exchange, is_head, parts.uri.query()),
        "/test" | "/schedule" if tests => test_answer::answer(exchange, &parts).await,
        "/echo" if tests => match body {
            Some(body) => respond(exchange, StatusCode::OK, is_head, Content::Whole(body)),
            None => too_long(exchange, is_head),
        },
        _ if is_head || parts.method == Method::GET => {
            let shard = Rc::clone(&exchange.shard);
            let found = files::find(&shard, parts.uri.path()).await;
            file(exchange, is_head, parts.headers.get(IF_MODIFIED_SINCE), found)
        }
        _ => {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            let mut response = text(exchange, status, is_head, "files are served for GET and HEAD only\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        }
    }
}

fn too_long(exchange: Exchange, is_head: bool) -> Response<ServerBody> {
    text(exchange, StatusCode::PAYLOAD_TOO_LARGE, is_head, "the body is longer than 16 MiB\n")
}

/// Answers with a file that was found, or says why there is none.
pub(crate) fn file(
    exchange: Exchange,
    is_head: bool,
    modified_since: Option<&HeaderValue>,
    found: Result<Found, FileError>,
) -> Response<ServerBody> {
    let (head, content) = match found {
        Ok(Found::Memory(entry)) => {
            if is_unmodified(&entry.head, modified_since) {
                return not_modified(exchange, is_head, &entry.head);
            }
            (entry.head.clone(), Content::Whole(entry.content.clone()))
        }
        Ok(Found::Disk(head, file)) => (head, Content::Disk(Arc::new(file))),
        Ok(Found::Set { head, path, size }) => (head, Content::Set { path, size }),
        Err(error) => return no_file(exchange, is_head, &error),
    };
    if is_unmodified(&head, modified_since) {
        return not_modified(exchange, is_head, &head);
    }
    let mut response = respond(exchange, StatusCode::OK, is_head, content);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, head.content_type);
    headers.insert(LAST_MODIFIED, head.last_modified);
    response
}

/// A short answer in words.
pub(crate) fn text(
    exchange: Exchange,
    status: StatusCode,
    is_head: bool,
    words: impl Into<Bytes>,
) -> Response<ServerBody> {
    let mut response = respond(exchange, status, is_head, Content::Whole(words.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The answer to an ambiguous request. Later bytes on the connection are not trusted either.
pub(crate) fn refused(exchange: Exchange, is_head: bool, what: &'static str) -> Response<ServerBody> {
    let mut response = text(exchange, StatusCode::BAD_REQUEST, is_head, what);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The answer to a request that came as early data and has to be sent again.
pub(crate) fn too_early(exchange: Exchange, is_head: bool) -> Response<ServerBody> {
    text(exchange, StatusCode::TOO_EARLY, is_head, "send it again after the handshake\n")
}

/// The answer to invalid parameters.
pub(crate) fn bad_query(exchange: Exchange, is_head: bool, error: &QueryError) -> Response<ServerBody> {
    text(exchange, StatusCode::BAD_REQUEST, is_head, format!("{error}\n"))
}

fn send(exchange: Exchange, is_head: bool, query: Option<&str>) -> Response<ServerBody> {
    match Send::parse(query) {
        Err(error) => bad_query(exchange, is_head, &error),
        Ok(send) => {
            let made = Made {
                fill: send.fill,
                size: send.size,
                chunked: false,
                pieces: send.pieces(),
                separate: send.writes > 1,
                gap: Duration::ZERO,
                pause: Duration::ZERO,
            };
            let mut response = respond(exchange, StatusCode::OK, is_head, Content::Made(made));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            response
        }
    }
}

fn is_unmodified(head: &FileHead, since: Option<&HeaderValue>) -> bool {
    let Some(since) = since else { return false };
    if since == head.last_modified {
        return true;
    }
    let date = since.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok());
    let seconds = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok());
    seconds.is_some_and(|since| head.modified_s <= since.as_secs())
}

fn not_modified(exchange: Exchange, is_head: bool, head: &FileHead) -> Response<ServerBody> {
    let mut response = respond(exchange, StatusCode::NOT_MODIFIED, is_head, Content::Empty);
    response.headers_mut().insert(LAST_MODIFIED, head.last_modified.clone());
    response
}

fn no_file(exchange: Exchange, is_head: bool, error: &FileError) -> Response<ServerBody> {
    let (status, words) = match error {
        FileError::Path(error) => (StatusCode::BAD_REQUEST, error.to_string()),
        FileError::NotFound => (StatusCode::NOT_FOUND, "no such file".to_owned()),
        FileError::Forbidden => (StatusCode::FORBIDDEN, "no permission to read the file".to_owned()),
        FileError::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many open files, or no memory".to_owned()),
        FileError::Failed(errno) => {
            let mut words = String::from("the file cannot be read: ");
            // Writing to a String cannot fail.
            let _ = write!(words, "{errno}");
            (StatusCode::INTERNAL_SERVER_ERROR, words)
        }
    };
    text(exchange, status, is_head, words + "\n")
}

/// Reads a request body to its end and keeps at most `limit` bytes; `None` if it was longer.
async fn read_body<B>(mut body: B, limit: usize) -> Result<Option<Bytes>, B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut kept = BytesMut::new();
    let mut is_longer = false;
    while !body.is_end_stream() {
        let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await;
        let Some(frame) = frame.transpose()? else { break };
        if let Ok(data) = frame.into_data() {
            is_longer |= kept.len() + data.len() > limit;
            if !is_longer {
                kept.extend_from_slice(&data);
            }
        }
    }
    Ok((!is_longer).then(|| kept.freeze()))
}
