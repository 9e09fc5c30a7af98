//! From an answer to frames.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::SystemTime;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::{Response, StatusCode};
use quinn::{SendStream, WriteError};

use super::frames::{DATA, HEADERS, put_head};
use super::{Spoilt, code, qpack, varint};
use crate::body::{BodyError, ServerBody};
use crate::delay;
use crate::wire::Wire;

/// A frame of HTTP/2's PING, which HTTP/3 forbids.
const GARBAGE: &[u8] = b"\x06\x04oops";

/// Sends an answer, or resets its stream.
pub(super) async fn write(
    send: &mut SendStream,
    answer: Result<Response<ServerBody>, BodyError>,
    is_head: bool,
    wire: &Wire,
) {
    let written = match answer {
        Ok(response) => attempt(send, response, is_head, wire).await,
        Err(error) => {
            end_by(send, &error);
            return;
        }
    };
    // An error means that the client has gone, or wants the answer no more.
    if written.is_ok() {
        let _ = send.finish();
    }
}

/// `Ok`: the stream ends in order.
async fn attempt(
    send: &mut SendStream,
    response: Response<ServerBody>,
    is_head: bool,
    wire: &Wire,
) -> Result<(), WriteError> {
    let (mut parts, mut body) = response.into_parts();
    let spoilt = parts.extensions.remove::<Spoilt>();
    let mut out = head(&parts, &body, is_head);
    match spoilt {
        Some(Spoilt::Garbage) => return send.write_all(GARBAGE).await,
        Some(Spoilt::SplitHead(span)) => {
            let rest = out.split_off(out.len() / 2);
            send.write_all(&out).await?;
            wire.count_flush();
            delay::pause(span).await;
            out = rest;
        }
        Some(Spoilt::Extra(_)) | None => {}
    }
    loop {
        let has_bytes = !out.is_empty();
        // What is ready is sent with the head; the head does not wait for the rest.
        let frame = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Pending if has_bytes => Poll::Ready(None),
            poll => poll.map(Some),
        });
        match frame.await {
            None => {
                send.write_chunk(std::mem::take(&mut out).into()).await?;
                wire.count_flush();
            }
            Some(None) => break,
            Some(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                put_head(&mut out, DATA, data.len() as u64);
                send.write_all_chunks(&mut [Bytes::from(std::mem::take(&mut out)), data]).await?;
                wire.count_flush();
            }
            Some(Some(Err(error))) => {
                send.write_chunk(out.into()).await?;
                if !matches!(error, BodyError::End) {
                    end_by(send, &error);
                }
                return Ok(());
            }
        }
    }
    if let Some(Spoilt::Extra(extra)) = spoilt {
        put_head(&mut out, DATA, extra);
        out.resize(out.len() + extra as usize, b'!');
    }
    if !out.is_empty() {
        send.write_chunk(out.into()).await?;
    }
    Ok(())
}

/// Resets the stream by the error's code.
fn end_by(send: &mut SendStream, error: &BodyError) {
    let code = match error {
        BodyError::Reset(_, code) => code.of_http3(),
        BodyError::Io(_) | BodyError::End => code::INTERNAL_ERROR,
    };
    // An error means that it has ended already.
    let _ = send.reset(varint(code));
}

/// The frame with the head.
fn head(parts: &Parts, body: &ServerBody, is_head: bool) -> Vec<u8> {
    let mut block = qpack::begin();
    qpack::encode(&mut block, ":status", parts.status.as_str().as_bytes());
    for (name, value) in &parts.headers {
        if name != CONNECTION && name != TRANSFER_ENCODING {
            qpack::encode(&mut block, name.as_str(), value.as_bytes());
        }
    }
    let no_body = parts.status == StatusCode::NO_CONTENT || parts.status == StatusCode::NOT_MODIFIED;
    if !is_head
        && !no_body
        && !parts.headers.contains_key(CONTENT_LENGTH)
        && let Some(length) = body.size_hint().exact()
    {
        qpack::encode(&mut block, CONTENT_LENGTH.as_str(), length.to_string().as_bytes());
    }
    if !parts.headers.contains_key(DATE) {
        let date = httpdate::fmt_http_date(SystemTime::now());
        qpack::encode(&mut block, DATE.as_str(), date.as_bytes());
    }
    let mut frame = Vec::with_capacity(block.len() + 8);
    put_head(&mut frame, HEADERS, block.len() as u64);
    frame.extend_from_slice(&block);
    frame
}
