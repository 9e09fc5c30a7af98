//! Answers, and the header fields that every one of them carries.

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use webstone_store::StoreError;
use webstone_store::library::{LibraryError, NotesError};

/// Scripts and styles are the front's own files; nothing is requested from anywhere else, and nobody may frame a page.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A report has its own policy in the page, which admits its own script by its hash. Here it is put into an origin of its own, which
/// can reach neither the front's pages nor its token.
const REPORT_POLICY: &str = "sandbox allow-scripts; frame-ancestors 'self'";

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it.
    Whole(Option<Bytes>),
    /// Lines, sent as they come.
    Lines(Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Lines(lines) => lines.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Lines(_) => SizeHint::default(),
        }
    }
}

/// An answer.
pub(crate) type Answer = Response<Content>;

/// Why something is not done.
#[derive(Debug)]
pub(crate) struct Failed {
    status: StatusCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failed {
    /// With what to do about it, where that is known.
    pub(crate) fn new(status: StatusCode, message: &str, hint: Option<&str>) -> Failed {
        Failed { status, message: message.to_owned(), hint: hint.map(str::to_owned) }
    }

    /// Because of what is stored.
    pub(crate) fn stored(error: impl Display, hint: Option<&str>) -> Failed {
        Failed::new(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string(), hint)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        Failed::stored(&error, error.hint())
    }
}

impl From<LibraryError> for Failed {
    fn from(error: LibraryError) -> Failed {
        Failed::stored(&error, error.hint())
    }
}

impl From<NotesError> for Failed {
    fn from(error: NotesError) -> Failed {
        Failed::stored(&error, error.hint())
    }
}

impl From<Failed> for Answer {
    fn from(failed: Failed) -> Answer {
        failure(failed.status, &failed.message, failed.hint.as_deref())
    }
}

/// Any bytes.
pub(crate) fn bytes(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    with(status, kind, Content::Whole(Some(bytes.into())))
}

/// A value.
pub(crate) fn value(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => bytes(status, "application/json", json),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None),
    }
}

/// Success, without a body.
pub(crate) fn done() -> Answer {
    let mut answer = with(StatusCode::NO_CONTENT, "text/plain", Content::Whole(None));
    answer.headers_mut().remove(CONTENT_TYPE);
    answer
}

/// What went wrong, and what to do about it.
pub(crate) fn failure(status: StatusCode, message: &str, hint: Option<&str>) -> Answer {
    let body = match hint {
        Some(hint) => json!({ "error": message, "hint": hint }),
        None => json!({ "error": message }),
    };
    bytes(status, "application/json", body.to_string())
}

/// Lines of JSON.
pub(crate) fn lines(lines: Receiver<Bytes>) -> Answer {
    with(StatusCode::OK, "application/x-ndjson", Content::Lines(lines))
}

/// A report, in an origin of its own.
pub(crate) fn report(page: Vec<u8>) -> Answer {
    let mut answer = bytes(StatusCode::OK, "text/html; charset=utf-8", page);
    answer
        .headers_mut()
        .insert(HeaderName::from_static("content-security-policy"), HeaderValue::from_static(REPORT_POLICY));
    // A sandboxed page must not have this field: Fetch, "opener policy".
    answer.headers_mut().remove(HeaderName::from_static("cross-origin-opener-policy"));
    answer
}

fn with(status: StatusCode, kind: &'static str, content: Content) -> Answer {
    let mut answer = Response::new(content);
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("content-security-policy"), PAGE_POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
