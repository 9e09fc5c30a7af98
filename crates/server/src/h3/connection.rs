//! One connection of HTTP/3 from its first packet to its last.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use hyper::Method;
use quinn::{Connection, ConnectionError, ConnectionStats, Incoming, RecvStream, SendStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::frames::{CONTROL, Frames, GOAWAY, ReadFailure, SETTINGS, put_head, put_integer};
use super::request::{self, RequestBody};
use super::{code, qpack, response, varint};
use crate::connection::{Handler, client_name};
use crate::connection_faults::{ConnectionFault, Misdeed, QuicFault};
use crate::counters::{Count, Tally};
use crate::delay;
use crate::shard::Shard;
use crate::wire::{QuicSide, Stream, Wire};

/// The alert by which a server refuses all protocols that a client offers.
const NO_APPLICATION_PROTOCOL: u8 = 120;
/// How long a client that was told that no more requests are wanted may take to close the connection.
const LINGER: Duration = Duration::from_secs(1);

/// How often datagrams are counted while a connection sends or receives some.
const FOLLOW_EVERY: Duration = Duration::from_millis(50);

/// Serves a connection to its end.
pub(crate) async fn run(incoming: Incoming, local: SocketAddr, shard: Rc<Shard>) {
    let Some(quic) = &shard.shared.quic else { return };
    // A connection that comes back after a Retry has had its fault.
    let is_new = incoming.may_retry();
    let may_fail = shard.shared.test_handlers && is_new;
    let fault = may_fail.then(|| shard.shared.connection_faults.next()).flatten();
    match fault {
        Some(ConnectionFault::Quic(QuicFault::Retry)) => {
            // A new connection may be retried, so this cannot fail.
            let _ = incoming.retry();
            return shard.tally.block().connection_finished();
        }
        Some(ConnectionFault::Handshake(Misdeed::Delay(span))) => delay::pause(span).await,
        _ => {}
    }
    let tally = Rc::new(Tally::accepted(&shard.tally));
    let failed = || tally.add(Count::HandshakesFailed, 1);
    let mut speaks_h3 = true;
    match fault {
        Some(ConnectionFault::Quic(QuicFault::Silence)) => {
            failed();
            return incoming.ignore();
        }
        Some(ConnectionFault::Handshake(Misdeed::Alert(NO_APPLICATION_PROTOCOL))) => speaks_h3 = false,
        Some(ConnectionFault::Handshake(misdeed)) if !matches!(misdeed, Misdeed::Delay(_)) => {
            failed();
            return incoming.refuse();
        }
        _ => {}
    }
    let early_data = fault != Some(ConnectionFault::Quic(QuicFault::RejectEarlyData));
    let Some((config, sessions)) = quic.for_one(early_data, speaks_h3) else { return failed() };
    let peer = incoming.remote_address().ip().to_canonical();
    let Ok(connecting) = incoming.accept_with(config) else { return failed() };
    // Servers may always send before the handshake is complete, to answer early data.
    let Ok((connection, mut handshake)) = connecting.into_0rtt() else { return failed() };
    let stream = Stream::Quic(QuicSide { tally: Rc::clone(&tally), local, code: Cell::new(code::NO_ERROR) });
    let wire = Rc::new(Wire::new(stream, Some(peer), Rc::clone(&shard)));
    let client = client_name(&shard, Some(peer)).await;
    let bytes = Rc::new(Bytes {
        connection: connection.clone(),
        tally: Rc::clone(&tally),
        counted: Cell::default(),
        is_followed: Cell::default(),
    });
    let handler = Rc::new(Handler { shard: Rc::clone(&shard), wire: Rc::clone(&wire), client });
    let late = match fault {
        Some(ConnectionFault::LateSettings(span)) => span,
        _ => Duration::ZERO,
    };
    let (say_goaway, goaway) = oneshot::channel();
    let mut say_goaway = Some(say_goaway);
    let mut others = JoinSet::new();
    others.spawn_local(control(connection.clone(), late, goaway));
    others.spawn_local(drop_streams(connection.clone()));
    let mut requests = JoinSet::new();
    let (mut is_complete, mut next_id) = (false, 0);
    loop {
        let mut accept = std::pin::pin!(connection.accept_bi());
        let event = poll_fn(|cx| {
            wire.wake_on_change(cx.waker());
            if !is_complete && Pin::new(&mut handshake).poll(cx).is_ready() {
                return Poll::Ready(Event::Handshake);
            }
            while let Poll::Ready(Some(_)) = requests.poll_join_next(cx) {}
            if wire.has_ended() {
                return Poll::Ready(Event::Close);
            }
            if wire.wants_no_more() && (say_goaway.is_some() || requests.is_empty()) {
                return Poll::Ready(Event::NoMore);
            }
            accept.as_mut().poll(cx).map(|stream| stream.map_or(Event::Over, Event::Request))
        });
        match event.await {
            Event::Handshake => {
                is_complete = true;
                // A client closes by a code of HTTP/3 only when the handshake is over (RFC 9000, 10.2.3).
                let is_over =
                    matches!(connection.close_reason(), None | Some(ConnectionError::ApplicationClosed(_)));
                match (is_over, sessions.has_resumed()) {
                    (false, _) => {
                        failed();
                        break;
                    }
                    (true, true) => tally.add(Count::HandshakesResumed, 1),
                    (true, false) => tally.add(Count::HandshakesFull, 1),
                }
                tally.add(Count::Http3Connections, 1);
            }
            Event::Request((send, receive)) => {
                tally.add(Count::Streams, 1);
                let is_early = receive.is_0rtt();
                tally.add(Count::EarlyRequests, u64::from(is_early));
                let is_too_early = is_early && fault == Some(ConnectionFault::Quic(QuicFault::TooEarly));
                next_id = u64::from(receive.id()) + 4;
                let ends = Rc::clone(&bytes);
                let handler = Rc::clone(&handler);
                match say_goaway.is_some() {
                    true => drop(requests.spawn_local(async move {
                        ends.count();
                        answer(handler, send, receive, is_too_early).await;
                        follow(ends);
                    })),
                    false => reject(send, receive),
                }
            }
            Event::NoMore => match say_goaway.take() {
                // If it has ended, the connection is failing.
                Some(say_goaway) => drop(say_goaway.send(next_id)),
                None => {
                    // What was answered must arrive: the client closes when it has it.
                    let _ = tokio::time::timeout(LINGER, connection.closed()).await;
                    break;
                }
            },
            Event::Close | Event::Over => break,
        }
    }
    connection.close(varint(wire.close_code()), b"");
    follow(bytes);
}

enum Event {
    /// It is complete, or has failed.
    Handshake,
    Request((SendStream, RecvStream)),
    /// No more requests are wanted.
    NoMore,
    /// A handler ended the connection.
    Close,
    /// It has ended.
    Over,
}

/// Counts datagrams and their bytes as quinn has counted them.
struct Bytes {
    connection: Connection,
    tally: Rc<Tally>,
    counted: Cell<ConnectionStats>,
    /// Whether a task counts what is still being sent.
    is_followed: Cell<bool>,
}

/// Counts until nothing is sent or received any more: quinn sends most of a long answer, and what was lost, after it was handed over.
fn follow(bytes: Rc<Bytes>) {
    if bytes.is_followed.replace(true) {
        return;
    }
    tokio::task::spawn_local(async move {
        while bytes.count() {
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
        bytes.is_followed.set(false);
    });
}

impl Bytes {
    /// Counts what came since the last time; returns whether there was anything.
    fn count(&self) -> bool {
        let now = self.connection.stats();
        let before = self.counted.replace(now);
        self.tally.add(Count::BytesSent, now.udp_tx.bytes - before.udp_tx.bytes);
        self.tally.add(Count::BytesReceived, now.udp_rx.bytes - before.udp_rx.bytes);
        self.tally.add(Count::DatagramsSent, now.udp_tx.datagrams - before.udp_tx.datagrams);
        self.tally.add(Count::DatagramsReceived, now.udp_rx.datagrams - before.udp_rx.datagrams);
        now.udp_tx.datagrams > before.udp_tx.datagrams || now.udp_rx.datagrams > before.udp_rx.datagrams
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.count();
    }
}

/// The server's own stream: SETTINGS, and GOAWAY with the first stream that is not answered. It stays open to the end.
async fn control(connection: Connection, late: Duration, goaway: oneshot::Receiver<u64>) {
    if !late.is_zero() {
        delay::pause(late).await;
    }
    let attempt = async {
        let mut stream = connection.open_uni().await.ok()?;
        let mut bytes = Vec::new();
        put_integer(&mut bytes, CONTROL);
        // No dynamic table, no limits: the defaults.
        put_head(&mut bytes, SETTINGS, 0);
        stream.write_all(&bytes).await.ok()?;
        let id = goaway.await.ok()?;
        let (mut frame, mut content) = (Vec::new(), Vec::new());
        put_integer(&mut content, id);
        put_head(&mut frame, GOAWAY, content.len() as u64);
        stream.write_all(&[frame, content].concat()).await.ok()?;
        Some(stream)
    };
    let _stream = attempt.await;
    pending().await
}

/// Reads the client's control stream and those of QPACK, which say nothing that this server needs.
async fn drop_streams(connection: Connection) {
    let mut streams = JoinSet::new();
    while let Ok(mut stream) = connection.accept_uni().await {
        streams.spawn_local(async move { while let Ok(Some(_)) = stream.read_chunk(4096, true).await {} });
    }
}

/// Refuses a request that came after GOAWAY: the client may send it elsewhere.
fn reject(mut send: SendStream, mut receive: RecvStream) {
    // Errors mean that the stream has ended.
    let _ = send.reset(varint(code::REQUEST_REJECTED));
    let _ = receive.stop(varint(code::REQUEST_REJECTED));
}

/// Reads a request and answers it; with `is_too_early` by status 425.
async fn answer(handler: Rc<Handler>, mut send: SendStream, receive: RecvStream, is_too_early: bool) {
    let mut frames = Frames::new(receive);
    let fields = match frames.head().await {
        Ok(block) => qpack::decode(&block).map_err(|_| ReadFailure(Some(code::DECOMPRESSION_FAILED))),
        Err(failure) => Err(failure),
    };
    let built = fields.and_then(|fields| {
        request::build(fields, RequestBody::Ended).ok_or(ReadFailure(Some(code::MESSAGE_ERROR)))
    });
    let mut request = match built {
        Ok(request) => request,
        Err(ReadFailure(reason)) => {
            let Some(reason) = reason else { return };
            handler.wire.tally.add(Count::BadRequests, 1);
            match reason {
                code::MESSAGE_ERROR | code::REQUEST_INCOMPLETE | code::EXCESSIVE_LOAD => {
                    frames.stop(reason);
                    // An error means that the stream has ended.
                    let _ = send.reset(varint(reason));
                }
                _ => handler.wire.close_with(reason),
            }
            return;
        }
    };
    if !frames.is_at_end().await {
        *request.body_mut() = RequestBody::Idle(Some(frames));
    }
    let is_head = request.method() == Method::HEAD;
    let answer = match is_too_early {
        true => Ok(handler.too_early(&request)),
        false => handler.begin(request).await,
    };
    response::write(&mut send, answer, is_head, &handler.wire).await;
}
