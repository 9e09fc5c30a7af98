//! What the server counts: per thread, without locks, exact when nothing is under way.
//!
//! Each thread writes only its own block, on cache lines of its own, so counting is a plain load and store.
//!
//! Everything is counted *before* the system call by which the client could notice it, and corrected if the call did less. A
//! client that has read the last byte of an answer therefore finds that answer and all its bytes counted, whichever thread it
//! asks.
//!
//! A connection that asks for a control path is not counted: its counts are taken back. A reader can therefore take differences
//! without allowing for its own requests.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use webstone_measure::since_all;

/// Totals of all threads since the start. At quiescence `requests = responses + aborted + faults`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Requests whose head was read and understood.
    pub requests: u64,
    /// Answers handed to the connection whole.
    pub responses: u64,
    /// Answers cut off because the client went away or a file could not be read to its end.
    pub aborted: u64,
    /// Answers with a fault, which are not in `responses`.
    pub faults: u64,
    /// Requests that are not HTTP, refused before any handler saw them (400, 414, 431); not part of `requests`.
    pub bad_requests: u64,
    /// Bytes read from connections.
    pub bytes_received: u64,
    /// Bytes that the operating system took: whole answers, heads, framing and records included. Left out is the close_notify that answers
    /// a client's own: the client need not read it.
    pub bytes_sent: u64,
    /// Of that, bodies of whole answers, without chunk framing.
    pub body_bytes_sent: u64,
    /// `responses` by class of status.
    pub status: StatusClasses,
    /// TLS handshakes that ended well and resumed no session.
    #[serde(default)]
    pub handshakes_full: u64,
    /// TLS handshakes that resumed a session.
    #[serde(default)]
    pub handshakes_resumed: u64,
    /// TLS handshakes that failed: nothing in common, an alert, a client that went away, or a fault.
    #[serde(default)]
    pub handshakes_failed: u64,
    /// Connections on which HTTP/2 is spoken.
    #[serde(default)]
    pub http2_connections: u64,
    /// Connections on which HTTP/3 is spoken.
    #[serde(default)]
    pub http3_connections: u64,
    /// Streams of requests that clients of HTTP/3 opened, including refused ones.
    #[serde(default)]
    pub streams: u64,
    /// Of them, those that came before the handshake was complete, as early data (0-RTT).
    #[serde(default)]
    pub early_requests: u64,
    /// UDP datagrams received on connections, counted some 50 ms late like the bytes of HTTP/3.
    #[serde(default)]
    pub datagrams_received: u64,
    /// UDP datagrams sent on connections, counted likewise.
    #[serde(default)]
    pub datagrams_sent: u64,
    /// Failed attempts to accept a connection (too many open files, no memory).
    pub accept_errors: u64,
    /// Lines that the access log lost: its writer was too slow, or its file could not be written.
    pub log_lines_dropped: u64,
    /// Time since the start, in nanoseconds.
    pub uptime_ns: u64,
    /// Threads that answer requests.
    pub threads: u64,
    /// Process identifier of the server.
    pub pid: u32,
}

/// Whole answers by class of status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusClasses {
    /// 200 to 299.
    pub success: u64,
    /// 300 to 399.
    pub redirection: u64,
    /// 400 to 499.
    pub client_error: u64,
    /// 500 to 599.
    pub server_error: u64,
}

impl Counters {
    /// What was counted since an earlier reading of the same server. `open`, `threads` and `pid` stay as they are now.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        let status = since_all!(self.status, earlier.status, StatusClasses {
            success, redirection, client_error, server_error;
        });
        let since = since_all!(self.clone(), earlier, Counters {
            accepted, requests, responses, aborted, faults, bad_requests, bytes_received, bytes_sent, body_bytes_sent,
            handshakes_full, handshakes_resumed, handshakes_failed, http2_connections, http3_connections, streams,
            early_requests, datagrams_received, datagrams_sent, accept_errors, log_lines_dropped, uptime_ns;
            open, status, threads, pid
        });
        Counters { status, ..since }
    }
}

/// What a thread counts for each connection.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    Accepted,
    Closed,
    Requests,
    Responses,
    Aborted,
    Faults,
    BadRequests,
    BytesReceived,
    BytesSent,
    Success,
    Redirection,
    ClientError,
    ServerError,
    BodyBytesSent,
    HandshakesFull,
    HandshakesResumed,
    HandshakesFailed,
    Http2Connections,
    Http3Connections,
    Streams,
    EarlyRequests,
    DatagramsReceived,
    DatagramsSent,
}

const COUNTS: usize = Count::DatagramsSent as usize + 1;

impl Count {
    /// The class of a status; `None` for 1xx, which is never a final answer.
    pub(crate) fn of_status(status: u16) -> Option<Count> {
        match status / 100 {
            2 => Some(Count::Success),
            3 => Some(Count::Redirection),
            4 => Some(Count::ClientError),
            5 => Some(Count::ServerError),
            _ => None,
        }
    }
}

/// The block of one thread. 128 bytes: processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    counts: [AtomicU64; COUNTS],
    /// Connections that have ended, including those of control paths. The thread's load is the number handed over, less this.
    finished: AtomicU64,
    /// Connections with bytes that the operating system has not taken yet.
    blocked: AtomicU64,
}

impl ThreadCounters {
    fn add(&self, count: Count, n: u64) {
        add(&self.counts[count as usize], n);
    }

    fn read(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Acquire)
    }

    pub(crate) fn connection_finished(&self) {
        add(&self.finished, 1);
    }

    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn set_blocked(&self, blocked: bool) {
        add(&self.blocked, if blocked { 1 } else { 1_u64.wrapping_neg() });
    }

    /// Whether no answer is under way and none waits to be sent.
    pub(crate) fn is_quiet(&self) -> bool {
        let ended = self.read(Count::Responses) + self.read(Count::Aborted) + self.read(Count::Faults);
        self.read(Count::Requests) == ended && self.blocked.load(Ordering::Acquire) == 0
    }

    /// Adds this thread's counts to a sum over threads.
    pub(crate) fn add_to(&self, sum: &mut Counters) {
        let closed = self.read(Count::Closed);
        let accepted = self.read(Count::Accepted);
        sum.accepted += accepted;
        sum.open += accepted.saturating_sub(closed);
        sum.requests += self.read(Count::Requests);
        sum.responses += self.read(Count::Responses);
        sum.aborted += self.read(Count::Aborted);
        sum.faults += self.read(Count::Faults);
        sum.bad_requests += self.read(Count::BadRequests);
        sum.bytes_received += self.read(Count::BytesReceived);
        sum.bytes_sent += self.read(Count::BytesSent);
        sum.body_bytes_sent += self.read(Count::BodyBytesSent);
        sum.handshakes_full += self.read(Count::HandshakesFull);
        sum.handshakes_resumed += self.read(Count::HandshakesResumed);
        sum.handshakes_failed += self.read(Count::HandshakesFailed);
        sum.http2_connections += self.read(Count::Http2Connections);
        sum.http3_connections += self.read(Count::Http3Connections);
        sum.streams += self.read(Count::Streams);
        sum.early_requests += self.read(Count::EarlyRequests);
        sum.datagrams_received += self.read(Count::DatagramsReceived);
        sum.datagrams_sent += self.read(Count::DatagramsSent);
        sum.status.success += self.read(Count::Success);
        sum.status.redirection += self.read(Count::Redirection);
        sum.status.client_error += self.read(Count::ClientError);
        sum.status.server_error += self.read(Count::ServerError);
    }
}

/// Adds to a counter that only the calling thread writes: no locked instruction is needed.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
}

/// What one connection has added, so that it can be taken back.
#[derive(Debug)]
pub(crate) struct Tally {
    thread: Rc<ThreadTally>,
    counts: [Cell<u64>; COUNTS],
    hidden: Cell<bool>,
}

/// A thread's own block of the shared counters.
#[derive(Debug)]
pub(crate) struct ThreadTally {
    pub(crate) all: std::sync::Arc<[ThreadCounters]>,
    pub(crate) index: usize,
}

impl ThreadTally {
    pub(crate) fn block(&self) -> &ThreadCounters {
        &self.all[self.index]
    }
}

impl Tally {
    /// The tally of a new connection, which is counted as accepted.
    pub(crate) fn accepted(thread: &Rc<ThreadTally>) -> Tally {
        let tally = Tally { thread: Rc::clone(thread), counts: Default::default(), hidden: Cell::new(false) };
        tally.add(Count::Accepted, 1);
        tally
    }

    pub(crate) fn add(&self, count: Count, n: u64) {
        if !self.hidden.get() {
            let mine = &self.counts[count as usize];
            mine.set(mine.get().wrapping_add(n));
            self.thread.block().add(count, n);
        }
    }

    pub(crate) fn take_back(&self, count: Count, n: u64) {
        self.add(count, n.wrapping_neg());
    }

    /// The connection asked for a control path: none of its traffic counts, before or after.
    pub(crate) fn hide(&self) {
        if !self.hidden.replace(true) {
            for (index, mine) in self.counts.iter().enumerate() {
                add(&self.thread.block().counts[index], mine.get().wrapping_neg());
            }
        }
    }

    /// Whether the connection asked for a control path.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden.get()
    }

    pub(crate) fn block(&self) -> &ThreadCounters {
        self.thread.block()
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.add(Count::Closed, 1);
        self.thread.block().connection_finished();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> Rc<ThreadTally> {
        Rc::new(ThreadTally { all: [ThreadCounters::default()].into(), index: 0 })
    }

    fn sum(thread: &ThreadTally) -> Counters {
        let mut sum = Counters::default();
        thread.block().add_to(&mut sum);
        sum
    }

    #[test]
    fn a_hidden_connection_leaves_no_count() {
        let thread = thread();
        let visible = Tally::accepted(&thread);
        visible.add(Count::BytesSent, 100);
        let hidden = Tally::accepted(&thread);
        hidden.add(Count::BytesSent, 10);
        hidden.add(Count::Requests, 1);
        hidden.take_back(Count::BytesSent, 3);
        hidden.hide();
        hidden.add(Count::BytesSent, 99);
        let expected = Counters { accepted: 1, open: 1, bytes_sent: 100, ..Counters::default() };
        assert_eq!(sum(&thread), expected);
        drop(hidden);
        assert_eq!(sum(&thread), expected);
        drop(visible);
        assert_eq!(sum(&thread), Counters { open: 0, ..expected });
        assert_eq!(thread.block().finished(), 2);
    }

    #[test]
    fn differences_are_taken_field_by_field() {
        let earlier = Counters { requests: 3, bytes_sent: 10, pid: 7, ..Counters::default() };
        let later = Counters { requests: 5, bytes_sent: 30, open: 2, pid: 7, ..Counters::default() };
        let difference = later.since(&earlier);
        assert_eq!((difference.requests, difference.bytes_sent, difference.open), (2, 20, 2));
    }
}
