//! Traces and transactions, if requested. Off the hot path: without either, no request gets here.

use std::ops::Range;
use std::sync::mpsc::SyncSender;

use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::Handshake;

use crate::exchange::{ExchangeId, Exchanges, Progress};
use crate::layer::Layer;
use crate::session::Session;
use crate::sys::Backend;
use crate::transactions::{TraceEvent, TraceKind, Transaction};
use crate::worker::Worker;

/// How many transactions are handed over at once.
const TRANSACTIONS_BATCH: usize = 1024;
/// Header fields whose values are masked in traces.
const SECRET_FIELDS: [&[u8]; 4] = [b"authorization", b"proxy-authorization", b"cookie", b"set-cookie"];

/// The receivers, and what was gathered for them.
#[derive(Default)]
pub(crate) struct Observer {
    /// Whether there is a receiver.
    is_there: bool,
    trace: Option<SyncSender<TraceEvent>>,
    transactions: Option<SyncSender<Vec<Transaction>>>,
    gathered: Vec<Transaction>,
}

impl Observer {
    pub(crate) fn new(
        trace: Option<SyncSender<TraceEvent>>,
        transactions: Option<SyncSender<Vec<Transaction>>>,
    ) -> Observer {
        let is_there = trace.is_some() || transactions.is_some();
        Observer { is_there, trace, transactions, gathered: Vec::new() }
    }

    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    fn tell(&mut self, event: TraceEvent) {
        if let Some(receiver) = &self.trace {
            // Waits if the reader is late: a trace with gaps would mislead, and load has hardly begun with the first exchanges.
            if receiver.send(event).is_err() {
                self.trace = None;
            }
        }
    }

    fn gather(&mut self, transaction: Transaction) {
        self.gathered.push(transaction);
        if self.gathered.len() >= TRANSACTIONS_BATCH {
            self.flush();
        }
    }

    /// Hands the transactions gathered so far to the writer, and waits if it is late, so that none is lost.
    pub(crate) fn flush(&mut self) {
        if let Some(receiver) = &self.transactions
            && !self.gathered.is_empty()
        {
            let full = std::mem::replace(&mut self.gathered, Vec::with_capacity(TRANSACTIONS_BATCH));
            if receiver.send(full).is_err() {
                // The writer has given up and reports the reason itself.
                self.transactions = None;
            }
        }
    }
}

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Records that requests on a link have been sent completely.
    pub(crate) fn note_sent(&mut self, index: u32) {
        let now = self.now();
        for slot in 0..self.links[index].exchanges.slots() {
            let link = &mut self.links[index];
            let exchange = link.exchanges.at_mut(slot);
            if exchange.progress != Progress::Receiving || exchange.sent_ns > 0 {
                continue;
            }
            if !link.session.has_left(slot, &link.exchanges) {
                continue;
            }
            let exchange = link.exchanges.at_mut(slot);
            exchange.sent_ns = now;
            if exchange.traced > 0 {
                let bytes = link.session.request(slot, &self.plan, &link.exchanges);
                let kind = TraceKind::Sent(masked(&bytes));
                self.trace_event(ExchangeId { link: index, slot }, kind);
            }
        }
    }

    /// Traces the `n` bytes of a response in the buffer.
    pub(crate) fn trace_received(&mut self, at: ExchangeId, n: usize) {
        let kind = TraceKind::Received(masked(self.backend.bytes(n)));
        self.trace_event(at, kind);
    }

    /// Traces text of a response.
    pub(crate) fn trace_text(&mut self, at: ExchangeId, text: &[u8]) {
        self.trace_event(at, TraceKind::Received(masked(text)));
    }

    /// Traces bytes of a response that came out of the layer.
    pub(crate) fn trace_unsealed(&mut self, at: ExchangeId, wire: Range<usize>) {
        let wire = &self.backend.bytes(wire.end)[wire.start..];
        let plain = self.links[at.link].layer.plain(wire, &self.layers);
        let kind = TraceKind::Received(masked(plain));
        self.trace_event(at, kind);
    }

    /// Traces the end of a handshake for a traced exchange.
    pub(crate) fn trace_handshake(&mut self, index: u32, handshake: &Handshake, took_ns: u64) {
        let Some(slot) = self.links[index].exchanges.traced() else { return };
        let group = handshake.group.map_or("no new key exchange", |group| group.name());
        let text = format!(
            "TLS {}, {}, {group}, {}, {}, {} in {}",
            handshake.version,
            handshake.cipher,
            handshake.alpn.unwrap_or("no ALPN"),
            if handshake.is_resumed { "resumed" } else { "full handshake" },
            if handshake.is_verified { "certificate verified" } else { "certificate not verified" },
            webstone_measure::units::Nanos(took_ns / 1000 * 1000),
        );
        self.trace_event(ExchangeId { link: index, slot }, TraceKind::Secured(text));
    }

    /// Records the end of a request, successful or not.
    pub(crate) fn note_ended(&mut self, at: ExchangeId, error: Option<ErrorClass>, how: &str, now: u64) {
        let exchange = self.links.exchange(at);
        if exchange.traced > 0 {
            let took = webstone_measure::units::Nanos((now - exchange.start_ns) / 1000 * 1000);
            let text =
                format!("{how}: status {}, {} bytes in {took}", exchange.status, exchange.received_bytes());
            self.trace_event(at, TraceKind::Ended(text));
        }
        if self.observer.transactions.is_none() || !self.recorder.is_open() {
            return;
        }
        let exchange = self.links.exchange(at);
        let request = &self.plan.requests[exchange.request as usize];
        let since_open = |instant: u64| instant as i64 - self.recorder.open_ns() as i64;
        let happened = |instant: u64| (instant > 0).then(|| since_open(instant));
        let transaction = Transaction {
            client: self.clients.number(exchange.client),
            page: request.page,
            file: request.file,
            intended_ns: since_open(exchange.intended_ns),
            start_ns: since_open(exchange.start_ns),
            connected_ns: happened(exchange.connected_ns),
            sent_ns: happened(exchange.sent_ns),
            first_byte_ns: happened(exchange.first_byte_ns),
            headers_done_ns: happened(exchange.headers_done_ns),
            end_ns: since_open(now),
            status: exchange.status,
            head_bytes: exchange.head_bytes + exchange.framing_bytes,
            body_bytes: exchange.body_bytes,
            error,
        };
        self.observer.gather(transaction);
    }

    fn trace_event(&mut self, at: ExchangeId, kind: TraceKind) {
        let link = &self.links[at.link];
        let exchange = link.exchanges.at(at.slot);
        let event = TraceEvent {
            exchange: exchange.traced,
            client: self.clients.number(exchange.client),
            address: self.plan.peer(link),
            kind,
        };
        self.observer.tell(event);
    }
}

/// A copy in which the values of secret fields are masked, line by line; bytes after the head are unchanged.
fn masked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut in_head = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        in_head &= line != b"\r\n" && line != b"\n";
        let colon = line.iter().position(|byte| *byte == b':').filter(|_| in_head);
        match colon {
            Some(colon) if SECRET_FIELDS.iter().any(|name| line[..colon].eq_ignore_ascii_case(name)) => {
                out.extend_from_slice(&line[..colon]);
                out.extend_from_slice(b": ***\r\n");
            }
            _ => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_reach_a_trace() {
        let request = b"GET / HTTP/1.1\r\nHost: h\r\nauthorization: Basic c2VjcmV0\r\nCookie: a=1\r\n\r\nCookie: body\n";
        let text = String::from_utf8(masked(request)).unwrap();
        assert_eq!(
            text,
            "GET / HTTP/1.1\r\nHost: h\r\nauthorization: ***\r\nCookie: ***\r\n\r\nCookie: body\n"
        );
    }
}
