//! Bodies of answers, from any source, tied to the exchange that they end.
//!
//! Streams hold one frame at a time, and hyper buffers a bounded amount (`connection`), so the memory of a connection
//! does not grow with the size of a file.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{ALT_SVC, CONTENT_LENGTH, DATE, HeaderValue, SERVER};
use hyper::{Response, StatusCode};
use tokio::task::JoinHandle;

use crate::delay;
use crate::directory::{OpenFile, Wait};
use crate::exchange::Exchange;
use crate::files::Source;
use crate::fill::{BodyFill, FRAME_BYTES};
use crate::gateway::HandlerBody;
use crate::shard::Shared;
use crate::stream_faults::{Code, Cut};
use crate::wire::Wire;

/// What this server calls itself.
pub(crate) const SERVER_NAME: &str = concat!("webstone/", env!("CARGO_PKG_VERSION"));

/// Bytes of a large file read, or made, at once.
const STREAM_BYTES: usize = 64 * 1024;

/// What an answer's body is made from.
#[derive(Debug)]
pub(crate) enum Content {
    /// Nothing.
    Empty,
    /// Bytes in memory.
    Whole(Bytes),
    /// An open file.
    Disk(Arc<OpenFile>),
    /// A file of the set, made while it is sent.
    Set { path: Box<str>, size: u64 },
    /// A body made by rule.
    Made(Made),
    /// The output of an external handler.
    Handled(Box<HandlerBody>),
}

/// A body made by rule, in pieces.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) fill: BodyFill,
    pub(crate) size: u64,
    /// Without a length announced: chunked, or up to the end of the connection in HTTP/1.0.
    pub(crate) chunked: bool,
    pub(crate) pieces: Pieces,
    /// Each piece is a write of its own, begun after the one before was handed to the operating system.
    pub(crate) separate: bool,
    /// Time between pieces.
    pub(crate) gap: Duration,
    /// Time between the head and the first piece.
    pub(crate) pause: Duration,
}

/// Where the pieces of a body end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// One piece.
    One,
    /// This number of pieces, as equal as possible.
    Equal(u64),
    /// Pieces of this many bytes; the last may be shorter.
    Of(u64),
    /// Two: one up to this offset, one after it.
    SplitAt(u64),
}

impl Pieces {
    /// Where the piece that begins at `offset` ends.
    pub(crate) fn end(self, offset: u64, size: u64) -> u64 {
        let end = match self {
            Pieces::One => size,
            Pieces::Equal(count) => {
                let boundary = |index: u128| (u128::from(size) * index / u128::from(count.max(1))) as u64;
                let mut index = u128::from(offset) * u128::from(count) / u128::from(size.max(1));
                while boundary(index) <= offset && boundary(index) < size {
                    index += 1;
                }
                boundary(index)
            }
            Pieces::Of(bytes) => offset.saturating_add(bytes.max(1)),
            Pieces::SplitAt(at) => {
                if offset < at {
                    at
                } else {
                    size
                }
            }
        };
        end.min(size)
    }
}

/// Builds an answer. To HEAD the length is announced and no body sent. A status without a body has neither.
pub(crate) fn respond(
    mut exchange: Exchange,
    status: StatusCode,
    is_head: bool,
    content: Content,
) -> Response<ServerBody> {
    exchange.set_status(status.as_u16());
    let (alternative, date) = (exchange.wire.alternative(), exchange.shard.shared.date.clone());
    let no_body = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let announced = content.announced();
    let body = if is_head || no_body || announced == Some(0) {
        exchange.complete();
        content.finish();
        ServerBody {
            content: Content::Empty,
            state: State::default(),
            left: Some(0),
            exchange: None,
            cut: None,
        }
    } else {
        ServerBody { content, state: State::default(), left: announced, exchange: Some(exchange), cut: None }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(4);
    headers.insert(SERVER, HeaderValue::from_static(SERVER_NAME));
    if let Some(alternative) = alternative {
        headers.insert(ALT_SVC, alternative);
    }
    if let Some(date) = date {
        headers.insert(DATE, date);
    }
    if is_head
        && !no_body
        && let Some(length) = announced
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

impl Content {
    /// The length to announce.
    fn announced(&self) -> Option<u64> {
        match self {
            Content::Empty => Some(0),
            Content::Whole(bytes) => Some(bytes.len() as u64),
            Content::Disk(file) => Some(file.size),
            Content::Set { size, .. } => Some(*size),
            Content::Made(made) => (!made.chunked).then_some(made.size),
            Content::Handled(handled) => handled.length(),
        }
    }

    /// Nothing more of it is wanted.
    fn finish(self) {
        if let Content::Handled(handled) = self {
            handled.finish();
        }
    }
}

/// Why a body, or the whole answer, is cut off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// It could not be read.
    #[error("the body cannot be read: {0}")]
    Io(#[from] io::Error),
    /// In HTTP/2 and 3, its stream is reset on purpose. hyper takes the reason from the error's sources.
    #[error("the stream is reset: {0}")]
    Reset(#[source] h2::Error, Code),
    /// In HTTP/3, its stream ends in order, but too early.
    #[error("the stream ends early")]
    End,
}

/// `http::Extensions` require `Clone`; a reset is identified by its reason.
impl Clone for BodyError {
    fn clone(&self) -> BodyError {
        match self {
            BodyError::Io(error) => BodyError::Io(error.kind().into()),
            BodyError::Reset(_, code) => code.error(),
            BodyError::End => BodyError::End,
        }
    }
}

/// A body under way.
pub(crate) struct ServerBody {
    content: Content,
    state: State,
    /// Bytes left, where the length was announced.
    left: Option<u64>,
    /// The exchange, until it ends.
    exchange: Option<Exchange>,
    /// In HTTP/2 and 3: where it ends too early, and how.
    pub(crate) cut: Option<Cut>,
}

#[derive(Default)]
struct State {
    offset: u64,
    /// A read of the file on a thread that may wait.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
    /// The count of flushes when the last piece ended: the next piece begins after one more.
    flush: Option<u64>,
    delay: Option<Pin<Box<dyn Future<Output = ()>>>>,
    paused: bool,
}

impl ServerBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let Some(exchange) = &self.exchange else { return Poll::Ready(Ok(Bytes::new())) };
        let state = &mut self.state;
        let bytes = match &mut self.content {
            Content::Empty => Bytes::new(),
            Content::Whole(bytes) => bytes.slice(usize::try_from(state.offset).unwrap_or(usize::MAX)..),
            Content::Disk(file) => ready!(state.poll_disk(cx, file))?,
            Content::Set { path, size } => state.next_of_set(&exchange.shard.shared, path, *size),
            Content::Made(made) => {
                ready!(state.poll_turn(cx, made, &exchange.wire));
                let length = made.pieces.end(state.offset, made.size) - state.offset;
                let length = usize::try_from(length).unwrap_or(usize::MAX).min(FRAME_BYTES);
                let bytes = made.fill.make(state.offset, length, &exchange.shard.random);
                state.after_frame(made, bytes.len() as u64, &exchange.wire);
                bytes
            }
            Content::Handled(handled) => {
                let bytes = ready!(handled.poll_next(cx, self.left.unwrap_or(u64::MAX)))?;
                if bytes.is_empty() && self.left.is_some() {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                bytes
            }
        };
        state.offset += bytes.len() as u64;
        Poll::Ready(Ok(bytes))
    }

    fn is_whole(&self) -> bool {
        match (&self.content, self.left) {
            (_, Some(left)) => left == 0,
            (Content::Made(made), None) => self.state.offset >= made.size,
            (Content::Handled(handled), None) => handled.has_ended(),
            (_, None) => true,
        }
    }
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.exchange.is_none() {
            return Poll::Ready(None);
        }
        let body = &mut *self;
        if let Some(cut) = &mut body.cut
            && body.state.offset >= cut.at
        {
            body.exchange.iter_mut().for_each(Exchange::spoil);
            return Poll::Ready(Some(Err(ready!(cut.deed.as_mut().poll(cx)))));
        }
        let bytes = if self.is_whole() { Bytes::new() } else { ready!(self.poll_next(cx))? };
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.add_body(bytes.len() as u64);
        }
        if self.is_whole()
            && let Some(exchange) = self.exchange.take()
        {
            exchange.complete();
            std::mem::replace(&mut self.content, Content::Empty).finish();
        }
        Poll::Ready(if bytes.is_empty() { None } else { Some(Ok(Frame::data(bytes))) })
    }

    fn is_end_stream(&self) -> bool {
        self.exchange.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl State {
    fn poll_disk(&mut self, cx: &mut Context<'_>, file: &Arc<OpenFile>) -> Poll<io::Result<Bytes>> {
        let limit = usize::try_from(file.size - self.offset).unwrap_or(usize::MAX).min(STREAM_BYTES);
        if self.reading.is_none() {
            match file.read_at(self.offset, limit, Wait::Never) {
                Ok(bytes) if !bytes.is_empty() => return Poll::Ready(Ok(bytes.into())),
                Ok(_) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Err(rustix::io::Errno::AGAIN) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
            let (file, offset) = (Arc::clone(file), self.offset);
            let read = move || file.read_at(offset, limit, Wait::Allowed).map_err(io::Error::from);
            self.reading = Some(tokio::task::spawn_blocking(read));
        }
        let Some(reading) = &mut self.reading else { return Poll::Pending };
        let result = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let bytes = result.map_err(io::Error::other)??;
        if bytes.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(bytes.into()))
    }

    fn next_of_set(&mut self, shared: &Shared, path: &str, size: u64) -> Bytes {
        let limit = usize::try_from(size - self.offset).unwrap_or(usize::MAX).min(STREAM_BYTES);
        let mut bytes = vec![0; limit];
        if let Source::Set(set) = &shared.files.source {
            set.fill(path, self.offset, &mut bytes);
        }
        bytes.into()
    }

    /// Ready when the next piece may begin.
    fn poll_turn(&mut self, cx: &mut Context<'_>, made: &Made, wire: &Wire) -> Poll<()> {
        if !std::mem::replace(&mut self.paused, true) && !made.pause.is_zero() {
            // hyper hands the head over while this is pending.
            self.delay = Some(Box::pin(delay::pause(made.pause)));
        }
        if let Some(flushes) = self.flush {
            ready!(wire.poll_flushed(cx, flushes));
            self.flush = None;
            if !made.gap.is_zero() {
                self.delay = Some(Box::pin(delay::pause(made.gap)));
            }
        }
        if let Some(delay) = &mut self.delay {
            ready!(delay.as_mut().poll(cx));
            self.delay = None;
        }
        Poll::Ready(())
    }

    /// Notes what has to happen before the frame after this one.
    fn after_frame(&mut self, made: &Made, length: u64, wire: &Wire) {
        let ends_piece = self.offset + length == made.pieces.end(self.offset, made.size);
        if ends_piece && made.separate {
            self.flush = Some(wire.flushes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(pieces: Pieces, size: u64) -> Vec<u64> {
        let mut ends = Vec::new();
        let mut offset = 0;
        while offset < size {
            offset = pieces.end(offset, size);
            ends.push(offset);
        }
        ends
    }

    #[test]
    fn pieces_cover_the_body() {
        assert_eq!(ends(Pieces::One, 10), [10]);
        assert_eq!(ends(Pieces::Equal(4), 6250), [1562, 3125, 4687, 6250]);
        assert_eq!(ends(Pieces::Equal(4), 2), [1, 2]);
        assert_eq!(ends(Pieces::Equal(1), 2), [2]);
        assert_eq!(ends(Pieces::Of(4), 10), [4, 8, 10]);
        assert_eq!(ends(Pieces::SplitAt(3), 10), [3, 10]);
        assert_eq!(ends(Pieces::SplitAt(30), 10), [10]);
        for size in 1..50 {
            for count in 1..=size {
                assert_eq!(ends(Pieces::Equal(count), size).len() as u64, count, "{size} in {count}");
            }
        }
    }
}
