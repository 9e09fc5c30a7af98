//! The output of a handler, piece by piece, within limits of silence and length; first its head, then its body.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, Sleep, sleep};

use super::head::{self, HEAD_BYTES_MAX, Head};
use super::{Gateway, HandlerFailure};

/// How long a handler may take to end its output once the client has all that was announced.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes that it may send beyond that.
const SURPLUS_BYTES_MAX: u64 = 1 << 20;

/// The output of one request, of any interface. Dropping it before its end also ends the handler's process: the rest could not be
/// distinguished from the next answer.
pub(super) trait Output {
    /// The next piece, never empty; `None` when the handler has said in its interface's way that it is done. Not called
    /// again after that.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>>;

    /// Ended as it should: gives the slot to the next request.
    fn release(self: Box<Self>);
}

/// Output under its limits.
pub(crate) struct HandlerBody {
    /// `None` once it has ended.
    output: Option<Box<dyn Output>>,
    /// Pieces that came with the head.
    first: Bytes,
    /// Bytes of the body, where they are announced.
    length: Option<u64>,
    /// Bytes that may still come.
    left: u64,
    silence_max: Duration,
    silence: Pin<Box<Sleep>>,
}

impl std::fmt::Debug for HandlerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerBody")
            .field("length", &self.length)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl HandlerBody {
    /// Reads the head of an output.
    pub(super) async fn begin(
        output: Box<dyn Output>,
        gateway: &Gateway,
    ) -> Result<(Head, HandlerBody), HandlerFailure> {
        let silence_max = gateway.options.silence_max;
        let mut body = HandlerBody {
            output: Some(output),
            first: Bytes::new(),
            length: None,
            left: gateway.options.output_bytes_max,
            silence_max,
            silence: Box::pin(sleep(silence_max)),
        };
        let mut came = BytesMut::new();
        let end = loop {
            if let Some(end) = head::end(&came) {
                break end;
            }
            if came.len() > HEAD_BYTES_MAX {
                return Err(HandlerFailure::Malformed("its head is longer than 64 KiB".to_owned()));
            }
            let piece = std::future::poll_fn(|cx| body.poll_output(cx)).await.map_err(|error| match error
                .kind()
            {
                io::ErrorKind::TimedOut => HandlerFailure::Silent(silence_max),
                _ => HandlerFailure::Ended(error.to_string()),
            })?;
            if piece.is_empty() {
                return Err(match came.is_empty() {
                    true => HandlerFailure::Ended("it sent nothing".to_owned()),
                    false => HandlerFailure::Malformed("its head does not end with an empty line".to_owned()),
                });
            }
            came.extend_from_slice(&piece);
        };
        let head = Head::parse(&came[..end]).map_err(HandlerFailure::Malformed)?;
        body.first = came.split_off(end).freeze();
        if head.length.is_some_and(|length| length > body.left + body.first.len() as u64) {
            return Err(HandlerFailure::Malformed("its body is longer than --handler-output-max".to_owned()));
        }
        body.length = head.length;
        Ok((head, body))
    }

    /// Length of the body, where the handler gave it.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next piece, at most `most` bytes; empty at the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, most: u64) -> Poll<io::Result<Bytes>> {
        if self.first.is_empty() {
            match std::task::ready!(self.poll_output(cx)) {
                Ok(piece) => self.first = piece,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.first.len());
        Poll::Ready(Ok(self.first.split_to(length)))
    }

    /// Whether all has been given out.
    pub(crate) fn has_ended(&self) -> bool {
        self.output.is_none() && self.first.is_empty()
    }

    /// The client has its answer: waits for the handler's end, and frees its slot.
    pub(crate) fn finish(mut self) {
        let mut surplus = SURPLUS_BYTES_MAX;
        // Usually the end is already there.
        if self.poll_surplus(&mut Context::from_waker(Waker::noop()), &mut surplus).is_ready() {
            return;
        }
        tokio::task::spawn_local(async move {
            let rest = std::future::poll_fn(|cx| self.poll_surplus(cx, &mut surplus));
            // If it does not end in time, dropping it ends it.
            let _ = tokio::time::timeout(END_PATIENCE, rest).await;
        });
    }

    /// Ready at the end, however it came, or when too much has come.
    fn poll_surplus(&mut self, cx: &mut Context<'_>, surplus: &mut u64) -> Poll<()> {
        loop {
            let Some(output) = &mut self.output else { return Poll::Ready(()) };
            match output.poll_piece(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(piece))) if piece.len() as u64 <= *surplus => {
                    *surplus -= piece.len() as u64;
                }
                Poll::Ready(Ok(None)) => {
                    self.end();
                    return Poll::Ready(());
                }
                Poll::Ready(_) => {
                    self.output = None;
                    return Poll::Ready(());
                }
            }
        }
    }

    fn end(&mut self) {
        if let Some(output) = self.output.take() {
            output.release();
        }
    }

    /// The next piece of the output, head and body; empty at the end.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let Some(output) = &mut self.output else { return Poll::Ready(Ok(Bytes::new())) };
        match output.poll_piece(cx) {
            Poll::Ready(Ok(Some(piece))) => {
                self.silence.as_mut().reset(Instant::now() + self.silence_max);
                let Some(left) = self.left.checked_sub(piece.len() as u64) else {
                    self.output = None;
                    return Poll::Ready(Err(io::Error::other("it sent more than --handler-output-max")));
                };
                self.left = left;
                Poll::Ready(Ok(piece))
            }
            Poll::Ready(Ok(None)) => {
                self.end();
                Poll::Ready(Ok(Bytes::new()))
            }
            Poll::Ready(Err(error)) => {
                self.output = None;
                Poll::Ready(Err(error))
            }
            Poll::Pending => {
                std::task::ready!(self.silence.as_mut().poll(cx));
                self.output = None;
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}
