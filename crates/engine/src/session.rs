//! The boundary between a worker and a protocol. A [`Session`] is a link's machine for one protocol: it makes bytes of requests,
//! and tells a [`Sink`] what the bytes that come mean to the link's exchanges. It has no I/O and no clock.
//!
//! The protocol is fixed for a run, so a worker is compiled once for each, and no call through here is dynamic.

use std::borrow::Cow;

use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::Measured;

use crate::exchange::{Exchange, Exchanges, Progress};
use crate::plan::{Plan, RequestPlan};

/// See the module comment. Exchanges are known by their slot on the link.
pub(crate) trait Session: Default {
    /// How a link holds its exchanges.
    type Exchanges: Exchanges;
    /// What the sessions of a worker remember together.
    type Memory;

    fn memory(plan: &Plan) -> Self::Memory;

    /// An exchange waits for room on its link.
    fn count_waited(_: &mut Self::Memory) {}

    /// The server did not look at a request that was sent to it, which is sent again or given up.
    fn count_refused(_: &mut Self::Memory, _is_sent_again: bool) {}

    /// The window opens.
    fn open_window(_: &mut Self::Memory) {}

    /// The window closes: adds what was counted in it besides requests.
    fn close_window(_: &mut Self::Memory, _: &mut Measured) {}

    /// A connection begins; what was known of the last is void.
    #[inline]
    fn open(&mut self, _: &Plan) {}

    /// Whether other exchanges may begin once those in progress are over.
    fn goes_on(&self) -> bool;

    /// How many more exchanges may begin now, where a link may have many.
    #[inline]
    fn capacity(&self) -> u32 {
        u32::from(self.goes_on())
    }

    /// The exchange in `slot` begins with a request, given by its number in the plan and what that says, whose bytes
    /// [`Session::unsent`] has from now on.
    fn begin(&mut self, start: Start<'_>, exchanges: &mut Self::Exchanges, memory: &mut Self::Memory);

    /// What is still to be sent.
    fn unsent<'a>(&'a self, plan: &'a Plan, exchanges: &'a Self::Exchanges) -> &'a [u8];

    /// The first `n` bytes of [`Session::unsent`] were sent, which are all or not: how many requests are thereby whole.
    fn sent(&mut self, n: usize, are_all: bool, sink: &mut Sink<'_, Self::Exchanges>) -> u32;

    /// The whole request in a slot that was sent last, for traces.
    fn request<'a>(&'a self, slot: u32, plan: &'a Plan, exchanges: &'a Self::Exchanges) -> Cow<'a, [u8]>;

    /// Takes bytes that came, up to the first that mean something to an exchange: how many, and what. Less than all are taken
    /// only there.
    fn input(
        &mut self,
        input: &[u8],
        memory: &mut Self::Memory,
        sink: &mut Sink<'_, Self::Exchanges>,
    ) -> Result<(usize, Heard), AnswerError>;

    /// Bytes to come that nothing but body is in, so that they may be thrown away unseen.
    fn skippable(&self) -> u64;

    /// `n` bytes were thrown away, at most one more than [`Session::skippable`]: whose answer they make whole.
    fn skip(&mut self, n: usize, sink: &mut Sink<'_, Self::Exchanges>) -> Result<Option<u32>, AnswerError>;

    /// What the end of the stream means to the exchange in a slot: its answer is whole, or has failed.
    fn end(&self, slot: u32, exchanges: &Self::Exchanges) -> Result<(), AnswerError>;

    /// Bytes of a traced answer in words, and its slot, where bytes as they come are none.
    fn take_text(&mut self) -> Option<(u32, Vec<u8>)> {
        None
    }

    /// The exchange in a slot is given up: whether the link can go on without it.
    fn abandon(&mut self, slot: u32, exchanges: &mut Self::Exchanges) -> bool;

    /// The class of an exchange that the server will not answer because it ends the connection.
    const PASSED_OVER: ErrorClass = ErrorClass::ClosedEarly;

    /// Whether the exchange in a slot lies beyond the last that the server will answer.
    fn is_passed_over(&self, _: u32, _: &Self::Exchanges) -> bool {
        false
    }

    /// Has [`Session::unsent`] say that the connection ends, and why where this side found an error. Whether the protocol has
    /// words for it, so that nobody need wait for the server to close first.
    #[inline]
    fn say_farewell(&mut self, _: Option<ErrorClass>) -> bool {
        false
    }

    /// What [`AnswerError::GivenUp`] means in words: its class and code, and how many bytes of the answer were received before.
    fn given_up(_: ErrorClass, code: u32, _received: u64) -> String {
        format!("error {code}")
    }
}

/// An exchange that begins.
pub(crate) struct Start<'a> {
    pub(crate) slot: u32,
    /// Number of its request in the plan.
    pub(crate) number: u32,
    pub(crate) request: &'a RequestPlan,
    /// No other will begin on this connection.
    pub(crate) is_last: bool,
    pub(crate) plan: &'a Plan,
}

/// What bytes that came mean to exchanges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing by themselves, or what the sink was told.
    Nothing,
    /// The answer in this slot is whole.
    Whole(u32),
    /// There will be none to the one in this slot. The link goes on.
    Failed(u32, AnswerError),
    /// The server has not looked at the one in this slot, which may be sent again; if it is given up, in this class.
    Refused(u32, ErrorClass),
    /// More exchanges may begin than before, or none any more.
    Capacity,
}

/// Why the answer to a request is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerError {
    /// Bytes that are no answer, and why.
    Malformed(&'static str),
    /// This many bytes after the last answer that is due.
    Surplus(usize),
    /// The stream ended before the answer's head was whole.
    EndInHead,
    /// It ended this many bytes before the end of the body, if the head said.
    EndInBody(Option<u64>),
    /// It ended where a body may, but the layer below was to announce that.
    Cut,
    /// What the protocol forbids, by its class.
    Forbidden(ErrorClass, &'static str),
    /// The server gave up an exchange, or all: which class, and its error code.
    GivenUp(ErrorClass, u32),
    /// It ended in the middle of the layer's handshake.
    EndInHandshake,
    /// The layer below cannot go on: the class, and what happened in words.
    Layer(Box<(ErrorClass, String)>),
}

impl AnswerError {
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            AnswerError::Malformed(_) | AnswerError::Surplus(_) => ErrorClass::Malformed,
            AnswerError::EndInHead => ErrorClass::ClosedEarly,
            AnswerError::EndInBody(_) => ErrorClass::ShortBody,
            AnswerError::Forbidden(class, _) | AnswerError::GivenUp(class, _) => *class,
            AnswerError::Cut => ErrorClass::TlsTruncated,
            AnswerError::EndInHandshake => ErrorClass::TlsHandshake,
            AnswerError::Layer(failure) => failure.0,
        }
    }

    /// What happened to an exchange, in words.
    pub(crate) fn describe<P: Session>(&self, exchange: &Exchange) -> String {
        match (self, exchange.received_bytes()) {
            (AnswerError::Malformed(what) | AnswerError::Forbidden(_, what), _) => (*what).to_owned(),
            (AnswerError::GivenUp(class, code), n) => P::given_up(*class, *code, n),
            (AnswerError::Surplus(bytes), _) => format!("{bytes} bytes after the end of the response"),
            (AnswerError::EndInHead, 0) => "the connection was closed before an answer".to_owned(),
            (AnswerError::EndInHead, n) => format!("the connection was closed {n} bytes into the head"),
            (AnswerError::EndInBody(Some(missing)), _) => {
                format!("the connection was closed {missing} bytes before the end of the body")
            }
            (AnswerError::EndInBody(None), _) => {
                format!("the connection was closed {} bytes into a chunked body", exchange.body_bytes)
            }
            (AnswerError::Cut, n) => {
                format!("the connection ended {n} bytes into the answer, without TLS's close_notify")
            }
            (AnswerError::EndInHandshake, _) => {
                "the server closed the connection during the TLS handshake".to_owned()
            }
            (AnswerError::Layer(failure), _) => failure.1.clone(),
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

    /// A piece of the body that was discarded unseen.
    #[inline]
    pub(crate) fn unseen_body(&mut self, slot: u32, bytes: u64) {
        self.exchanges.at_mut(slot).body_bytes += bytes;
    }

    /// What the protocol needs between pieces of the body, and after it.
    #[inline]
    pub(crate) fn framing(&mut self, slot: u32, bytes: usize) {
        self.exchanges.at_mut(slot).framing_bytes += bytes as u64;
    }
}
