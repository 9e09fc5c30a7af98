//! Answers that hyper rightly refuses to produce, written to the connection past it.
//!
//! The handler waits until hyper has handed over all earlier answers, writes the fault, ends the connection, and never returns:
//! the connection's task notices the end and drops the connection and this handler.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use hyper::{Response, StatusCode};

use crate::body::{SERVER_NAME, ServerBody};
use crate::delay;
use crate::exchange::Exchange;
use crate::fill::{BodyFill, FRAME_BYTES};
use crate::stream_faults::Code;
use crate::test_answer::FILLER;
use crate::wire::Wire;

/// What goes wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is reset.
    Reset(At),
    /// The connection ends with a FIN.
    Close(At),
    /// Nothing more is sent, forever or for a time.
    Stall(At, Option<Duration>),
    /// Bytes that are not HTTP.
    Garbage,
    /// A chunked body in which the chunk after this many bytes has no size.
    BadChunk(u64),
    /// This many bytes after the answer.
    Extra(u64),
    /// The body is longer or shorter than asked for, in good HTTP.
    WrongLength(i64),
    /// The body is not what was asked for.
    WrongContent,
    /// The status is not 200.
    Status,
    /// Over TLS: a FIN without the `close_notify` that would say that the answer is complete.
    NoCloseNotify(At),
    /// In HTTP/2 and 3: the stream is reset.
    ResetStream(Code, At),
    /// In HTTP/2 and 3: no more requests are wanted on the connection.
    GoAway(Code),
    /// In HTTP/3: the stream ends in order after this many bytes of the body.
    EndStream(u64),
    /// In HTTP/3: the frame of the head comes in two halves.
    SplitHead(Duration),
}

/// How far an answer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Not one byte.
    Start,
    /// Half of its head.
    Head,
    /// Its head and this many bytes of its body.
    Body(u64),
}

/// The answer that is spoilt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) size: u64,
    pub(crate) fill: BodyFill,
    pub(crate) header: usize,
    pub(crate) is_head: bool,
    pub(crate) pause: Duration,
}

/// How a body's end is announced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunked,
    UntilClose,
}

/// What the first bytes of a `garbage` answer are: a TLS alert, as a TLS port gives it to plain HTTP, then noise.
const GARBAGE: &[u8] = b"\x15\x03\x01\x00\x02\x02\x46 \xff\xfe this is not HTTP \x00\r\n\r\n";
/// Time for the kernel to send the written bytes before a reset discards the rest.
pub(crate) const BEFORE_RESET: Duration = Duration::from_millis(10);
/// How long the connection stays open after `extra` bytes.
const AFTER_EXTRA: Duration = Duration::from_secs(1);

impl Fault {
    /// Whether hyper cannot produce it.
    pub(crate) fn is_raw(self) -> bool {
        !matches!(self, Fault::WrongLength(_) | Fault::WrongContent | Fault::Status)
    }
}

/// Sends interim answers. Errors are left to hyper, which meets them next.
pub(crate) async fn interim(exchange: &Exchange, count: u64) {
    const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n";
    exchange.wire.drained().await;
    for first in (0..count).step_by(100) {
        let some = INTERIM.repeat((count - first).min(100) as usize);
        if exchange.wire.write_all(some.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Answers with a fault. Never returns; see the module.
pub(crate) async fn perform(mut exchange: Exchange, raw: Raw, fault: Fault) -> Response<ServerBody> {
    let wire = Rc::clone(&exchange.wire);
    wire.drained().await;
    if !matches!(fault, Fault::Stall(_, Some(_))) {
        exchange.spoil();
    }
    // If writing fails, the client has gone.
    let _ = attempt(&mut exchange, raw, fault, &wire).await;
    drop(exchange);
    wire.close();
    match pending::<Infallible>().await {}
}

/// Sends a whole answer whose body ends with the connection. Never returns; see the module.
pub(crate) async fn perform_until_close(mut exchange: Exchange, raw: Raw) -> Response<ServerBody> {
    let wire = Rc::clone(&exchange.wire);
    wire.drained().await;
    let sent = async {
        wire.write_all(raw.head(Framing::UntilClose, true).as_bytes()).await?;
        delay::pause(raw.pause).await;
        raw.write_body(&mut exchange, 0, raw.size).await
    };
    if sent.await.is_ok() {
        exchange.complete();
        wire.end_encryption().await;
    }
    wire.close();
    match pending::<Infallible>().await {}
}

async fn attempt(exchange: &mut Exchange, raw: Raw, fault: Fault, wire: &Wire) -> io::Result<()> {
    match fault {
        Fault::Reset(at) => {
            raw.write_up_to(exchange, at, false).await?;
            if at != At::Start {
                delay::pause(BEFORE_RESET).await;
            }
            wire.reset();
        }
        Fault::Close(at) | Fault::NoCloseNotify(at) => raw.write_up_to(exchange, at, false).await?,
        Fault::Stall(at, None) => {
            raw.write_up_to(exchange, at, false).await?;
            while wire.discard().await? > 0 {}
        }
        Fault::Stall(at, Some(span)) => {
            raw.write_up_to(exchange, at, true).await?;
            delay::pause(span).await;
            exchange.count_complete();
            raw.write_from(exchange, at).await?;
        }
        Fault::Garbage => wire.write_all(GARBAGE).await?,
        Fault::BadChunk(at) => {
            wire.write_all(raw.head(Framing::Chunked, false).as_bytes()).await?;
            let at = at.min(raw.size);
            if at > 0 {
                wire.write_all(format!("{at:x}\r\n").as_bytes()).await?;
                raw.write_body(exchange, 0, at).await?;
                wire.write_all(b"\r\n").await?;
            }
            wire.write_all(b"zz\r\n").await?;
        }
        Fault::Extra(extra) => {
            wire.write_all(raw.head(Framing::Length, false).as_bytes()).await?;
            let body = if raw.is_head { 0 } else { raw.size };
            // The last bytes and the extra ones go in one write, so that a client gets them together.
            let last = body.min(FRAME_BYTES as u64);
            raw.write_body(exchange, 0, body - last).await?;
            let mut end = raw.fill.make(body - last, last as usize, &exchange.shard.random).to_vec();
            exchange.add_body(last);
            end.resize(end.len() + extra as usize, b'!');
            wire.write_all(&end).await?;
            let _ = tokio::time::timeout(AFTER_EXTRA, wire.discard()).await;
        }
        Fault::WrongLength(_)
        | Fault::WrongContent
        | Fault::Status
        | Fault::ResetStream(..)
        | Fault::GoAway(_)
        | Fault::EndStream(_)
        | Fault::SplitHead(_) => {}
    }
    if !matches!(fault, Fault::Reset(_) | Fault::NoCloseNotify(_)) {
        wire.end_encryption().await;
    }
    Ok(())
}

impl Raw {
    fn head(&self, framing: Framing, close: bool) -> String {
        let reason = StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        let date = httpdate::fmt_http_date(SystemTime::now());
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nserver: {SERVER_NAME}\r\ndate: {date}\r\ncontent-type: text/plain\r\n",
            self.status,
            reason.unwrap_or("")
        );
        match framing {
            Framing::Length => head += &format!("content-length: {}\r\n", self.size),
            Framing::Chunked => head += "transfer-encoding: chunked\r\n",
            Framing::UntilClose => {}
        }
        if close {
            head += "connection: close\r\n";
        }
        if self.header > 0 {
            head += &format!("{FILLER}: {}\r\n", "x".repeat(self.header));
        }
        head + "\r\n"
    }

    async fn write_up_to(&self, exchange: &mut Exchange, at: At, close: bool) -> io::Result<()> {
        let wire = Rc::clone(&exchange.wire);
        let head = self.head(Framing::Length, close);
        match at {
            At::Start => Ok(()),
            At::Head => wire.write_all(&head.as_bytes()[..head.len() / 2]).await,
            At::Body(bytes) => {
                wire.write_all(head.as_bytes()).await?;
                delay::pause(self.pause).await;
                self.write_body(exchange, 0, bytes.min(self.size)).await
            }
        }
    }

    /// What [`Raw::write_up_to`] left out. The head is made again, of the same length: only its date may differ.
    async fn write_from(&self, exchange: &mut Exchange, at: At) -> io::Result<()> {
        let wire = Rc::clone(&exchange.wire);
        let head = self.head(Framing::Length, true);
        let (left, offset) = match at {
            At::Start => (head.as_bytes(), 0),
            At::Head => (&head.as_bytes()[head.len() / 2..], 0),
            At::Body(bytes) => (&b""[..], bytes.min(self.size)),
        };
        wire.write_all(left).await?;
        self.write_body(exchange, offset, self.size).await
    }

    async fn write_body(&self, exchange: &mut Exchange, from: u64, to: u64) -> io::Result<()> {
        let mut offset = from;
        while offset < to && !self.is_head {
            let length = (to - offset).min(FRAME_BYTES as u64);
            let bytes = self.fill.make(offset, length as usize, &exchange.shard.random);
            exchange.add_body(length);
            exchange.wire.write_all(&bytes).await?;
            offset += length;
        }
        Ok(())
    }
}
