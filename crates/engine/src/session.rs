//! The boundary between a worker and a protocol. A [`Session`] is a link's machine for one protocol: it makes bytes of requests,
//! and tells a [`Sink`] what the bytes that come mean to the link's exchanges. It has no I/O and no clock.
//!
//! The protocol is fixed for a run, so a worker is compiled once for each, and no call through here is dynamic.

use webstone_model::errors::ErrorClass;

use crate::exchange::{Exchange, Exchanges, Progress};
use crate::plan::{Plan, RequestPlan};

/// See the module comment. Exchanges are known by their slot on the link.
pub(crate) trait Session: Default {
    /// How a link holds its exchanges.
    type Exchanges: Exchanges;
    /// What the sessions of a worker remember together.
    type Memory;

    fn memory(plan: &Plan) -> Self::Memory;

    /// How many more exchanges may begin.
    fn capacity(&self) -> u32;

    /// The exchange in `slot` begins with a request, given by its number in the plan and what that says, whose bytes
    /// [`Session::unsent`] has from now on. `is_last`: no other will begin on this connection.
    fn begin(&mut self, slot: u32, number: u32, request: &RequestPlan, is_last: bool);

    /// What is still to be sent.
    fn unsent<'a>(&'a self, plan: &'a Plan, exchanges: &'a Self::Exchanges) -> &'a [u8];

    /// The first `n` bytes of [`Session::unsent`] were sent, which are all or not: how many requests are thereby whole.
    fn sent(&mut self, n: usize, are_all: bool, sink: &mut Sink<'_, Self::Exchanges>) -> u32;

    /// The whole request in a slot that was sent last, for traces.
    fn request<'a>(&'a self, slot: u32, plan: &'a Plan, exchanges: &'a Self::Exchanges) -> &'a [u8];

    /// Takes bytes that came, up to the end of the first answer that they make whole: how many, and whose answer that is. Less
    /// than all are taken only there.
    fn input(
        &mut self,
        input: &[u8],
        memory: &mut Self::Memory,
        sink: &mut Sink<'_, Self::Exchanges>,
    ) -> Result<(usize, Option<u32>), Failure>;

    /// Bytes to come that nothing but body is in, so that they may be thrown away unseen.
    fn skippable(&self) -> u64;

    /// `n` bytes were thrown away, at most one more than [`Session::skippable`]: whose answer they make whole.
    fn skip(&mut self, n: usize, sink: &mut Sink<'_, Self::Exchanges>) -> Result<Option<u32>, Failure>;

    /// What the end of the stream means to the exchange in a slot: its answer is whole, or has failed.
    fn end(&self, slot: u32) -> Result<(), Failure>;

    /// The exchange in a slot is given up: whether the link can go on without it.
    fn abandon(&mut self, slot: u32) -> bool;
}

/// Why the answer to a request is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Bytes that are no answer, and why.
    Malformed(&'static str),
    /// So many bytes behind the last answer that is due.
    Surplus(usize),
    /// The stream ended before the answer's head was whole.
    EndInHead,
    /// It ended so many bytes before the end of the body, where the head told.
    EndInBody(Option<u64>),
    /// It ended where a body may, but the layer below was to announce that.
    Cut,
    /// It ended in the middle of the layer's handshake.
    EndInHandshake,
    /// The layer below cannot go on: the class, and what happened in words.
    Layer(Box<(ErrorClass, String)>),
}

impl Failure {
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            Failure::Malformed(_) | Failure::Surplus(_) => ErrorClass::Malformed,
            Failure::EndInHead => ErrorClass::ClosedEarly,
            Failure::EndInBody(_) => ErrorClass::ShortBody,
            Failure::Cut => ErrorClass::TlsTruncated,
            Failure::EndInHandshake => ErrorClass::TlsHandshake,
            Failure::Layer(failure) => failure.0,
        }
    }

    /// What happened to an exchange, in words.
    pub(crate) fn describe(&self, exchange: &Exchange) -> String {
        match (self, exchange.received_bytes()) {
            (Failure::Malformed(what), _) => (*what).to_owned(),
            (Failure::Surplus(bytes), _) => format!("{bytes} bytes behind the end of the response"),
            (Failure::EndInHead, 0) => "the connection was closed before an answer".to_owned(),
            (Failure::EndInHead, n) => format!("the connection was closed {n} bytes into the head"),
            (Failure::EndInBody(Some(missing)), _) => {
                format!("the connection was closed {missing} bytes before the end of the body")
            }
            (Failure::EndInBody(None), _) => {
                format!("the connection was closed {} bytes into a chunked body", exchange.body_bytes)
            }
            (Failure::Cut, n) => {
                format!(
                    "the connection ended {n} bytes into the answer, without the close_notify that TLS asks for"
                )
            }
            (Failure::EndInHandshake, _) => {
                "the server closed the connection during the TLS handshake".to_owned()
            }
            (Failure::Layer(failure), _) => failure.1.clone(),
        }
    }
}

/// Where a session tells what has happened to exchanges; it writes that down in them.
pub(crate) struct Sink<'a, E> {
    pub(crate) exchanges: &'a mut E,
    pub(crate) plan: &'a Plan,
    pub(crate) now: u64,
}

impl<E: Exchanges> Sink<'_, E> {
    /// `n` more bytes of a request were sent; whether that is all of it.
    #[inline]
    pub(crate) fn sent(&mut self, slot: u32, n: usize, is_whole: bool) {
        let exchange = self.exchanges.at_mut(slot);
        exchange.sent += n as u32;
        exchange.progress = Progress::Receiving;
        if !is_whole {
            exchange.progress = Progress::Sending;
        }
    }

    /// Bytes of an answer have come; perhaps not the first.
    #[inline]
    pub(crate) fn answer(&mut self, slot: u32) {
        let exchange = self.exchanges.at_mut(slot);
        if exchange.first_byte_ns == 0 {
            exchange.first_byte_ns = self.now;
            exchange.deadline_ns = exchange.start_ns + self.plan.request_timeout_ns;
        }
    }

    /// So many bytes of a head have come, and not all.
    #[cold]
    pub(crate) fn head_begun(&mut self, slot: u32, bytes: usize) {
        self.exchanges.at_mut(slot).begun_head_bytes = bytes as u32;
    }

    /// An interim head.
    pub(crate) fn interim(&mut self, slot: u32, bytes: usize) {
        let exchange = self.exchanges.at_mut(slot);
        exchange.begun_head_bytes = 0;
        exchange.head_bytes += bytes as u64;
    }

    /// The final head.
    #[inline]
    pub(crate) fn head(&mut self, slot: u32, status: u16, bytes: usize) {
        let exchange = self.exchanges.at_mut(slot);
        exchange.begun_head_bytes = 0;
        exchange.head_bytes += bytes as u64;
        exchange.status = status;
        exchange.headers_done_ns = self.now;
        if self.plan.contents.is_some() {
            exchange.body_sum.get_or_insert_default().clear();
        }
    }

    /// A piece of the body.
    #[inline]
    pub(crate) fn body(&mut self, slot: u32, piece: &[u8]) {
        let exchange = self.exchanges.at_mut(slot);
        if let Some(sum) = &mut exchange.body_sum {
            sum.extend(piece);
        }
        exchange.body_bytes += piece.len() as u64;
    }

    /// A piece of the body that nobody has seen.
    #[inline]
    pub(crate) fn unseen_body(&mut self, slot: u32, bytes: u64) {
        self.exchanges.at_mut(slot).body_bytes += bytes;
    }

    /// What the protocol needs between pieces of the body, and behind it.
    #[inline]
    pub(crate) fn framing(&mut self, slot: u32, bytes: usize) {
        self.exchanges.at_mut(slot).framing_bytes += bytes as u64;
    }
}
