//! The boundary between a worker and a protocol. A [`Session`] implements one protocol on a link: it makes the bytes
//! of requests, and tells a [`Sink`] what received bytes mean to the link's exchanges. It has no I/O and no clock.
//!
//! The protocol is fixed for a run, so a worker is compiled once for each, and no call through here is dynamic.

use std::borrow::Cow;

use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::{Handshake, Measured};

use crate::exchange::{Exchange, Exchanges, Progress};
use crate::plan::{Plan, RequestPlan};
use crate::quic::Packed;

/// See the module comment. Exchanges are known by their slot on the link.
pub(crate) trait Session: Default {
    /// How a link holds its exchanges.
    type Exchanges: Exchanges;
    /// State shared by the sessions of a worker.
    type Memory;

    /// `slot` is the worker's first slot among those of all hosts. To be called by the thread that runs the worker.
    fn memory(plan: &Plan, slot: u32) -> Self::Memory;

    /// Counts an exchange that waits for capacity on its link.
    fn count_waited(_: &mut Self::Memory) {}

    /// Counts a request that the server refused without processing it; it is sent again or given up.
    fn count_refused(_: &mut Self::Memory, _is_sent_again: bool) {}

    /// To be called when the window opens, with the sessions of all links.
    fn open_window<'a>(_: &mut Self::Memory, _: impl Iterator<Item = &'a Self>)
    where
        Self: 'a,
    {
    }

    /// To be called when the window closes, or a slice of it ends: adds what was counted besides requests. What is counted once per
    /// connection is added only when the window closes.
    fn close_window<'a>(
        _: &mut Self::Memory,
        _: &mut Measured,
        _: impl Iterator<Item = &'a Self>,
        _is_slice: bool,
    ) where
        Self: 'a,
    {
    }

    /// A connection begins; forgets the last one.
    #[inline]
    fn open(&mut self, _: &Plan) {}

    /// Whether other exchanges may begin on the connection once those in progress are over.
    fn goes_on(&self) -> bool;

    /// Lets another exchange follow the last one, unless the server was told that it was the last. Returns whether one may begin.
    fn extend(&mut self) -> bool {
        self.goes_on()
    }

    /// How many more exchanges may begin now, if a link can have many.
    #[inline]
    fn capacity(&self) -> u32 {
        u32::from(self.goes_on())
    }

    /// Begins an exchange in a slot with a request of the plan. [`Session::unsent`] then returns its bytes.
    fn begin(&mut self, start: Start<'_>, exchanges: &mut Self::Exchanges, memory: &mut Self::Memory);

    /// Bytes still to be sent.
    fn unsent<'a>(&'a self, plan: &'a Plan, exchanges: &'a Self::Exchanges) -> &'a [u8];

    /// The first `n` bytes of [`Session::unsent`] were sent; `are_all`: all of them. Returns how many requests that
    /// completed.
    fn sent(&mut self, n: usize, are_all: bool, sink: &mut Sink<'_, Self::Exchanges>) -> u32;

    /// The whole request sent last in a slot, for traces.
    fn request<'a>(&'a self, slot: u32, plan: &'a Plan, exchanges: &'a Self::Exchanges) -> Cow<'a, [u8]>;

    /// Takes received bytes until something concerns an exchange; otherwise takes all. Returns how many, and what they
    /// mean.
    fn input(
        &mut self,
        input: &[u8],
        memory: &mut Self::Memory,
        sink: &mut Sink<'_, Self::Exchanges>,
    ) -> Result<(usize, Heard), AnswerError>;

    /// How many of the following bytes are certainly body, so that they may be discarded unread. 0 where frames are within a body, or
    /// another answer may follow.
    #[inline]
    fn skippable(&self) -> u64 {
        0
    }

    /// `n` bytes were discarded, at most one more than [`Session::skippable`]. Returns the slot whose answer they
    /// complete.
    #[inline]
    fn skip(&mut self, _n: usize, _: &mut Sink<'_, Self::Exchanges>) -> Result<Option<u32>, AnswerError> {
        Ok(None)
    }

    /// What the end of the stream means to the exchange in a slot: its answer is complete, or has failed.
    fn end(&self, slot: u32, exchanges: &Self::Exchanges) -> Result<(), AnswerError>;

    /// A traced answer as text, and its slot, for protocols whose bytes are not readable.
    fn take_text(&mut self) -> Option<(u32, Vec<u8>)> {
        None
    }

    /// Gives up the exchange in a slot. Returns whether the link can be used without it.
    fn abandon(&mut self, slot: u32, exchanges: &mut Self::Exchanges, memory: &mut Self::Memory) -> bool;

    /// The class of an exchange that the server will not answer because it ends the connection.
    const PASSED_OVER: ErrorClass = ErrorClass::ClosedEarly;

    /// Whether the exchange in a slot is after the last that the server will answer.
    fn is_passed_over(&self, _: u32, _: &Self::Exchanges) -> bool {
        false
    }

    /// Makes [`Session::unsent`] announce the end of the connection, and the reason if this side found an error.
    /// Returns whether the protocol has such a message; then it is not necessary to wait for the server to close
    /// first.
    #[inline]
    fn say_farewell(&mut self, _: Option<ErrorClass>) -> bool {
        false
    }

    /// [`AnswerError::GivenUp`] in words: its class and code, and how many bytes of the answer had been received.
    fn given_up(_: ErrorClass, code: u32, _received: u64) -> String {
        format!("error {code}")
    }

    // The rest is for protocols over datagrams.

    /// Whether it uses datagrams, which it makes and reads itself, and no stream of bytes. The layer is [`Plain`](crate::layer::Plain).
    const DATAGRAMS: bool = false;

    /// Begins a connection to an origin; forgets the last one. [`Session::pack`] then has something to send.
    fn open_datagrams(
        &mut self,
        _origin: u32,
        _: &Plan,
        _: &mut Self::Memory,
        _now: u64,
    ) -> Result<(), AnswerError> {
        Ok(())
    }

    /// Takes a received datagram, with its ECN bits. What it means to exchanges is in [`Session::next_heard`].
    fn hear(&mut self, _: &mut [u8], _ecn: u8, _: &mut Self::Memory, _: &mut Sink<'_, Self::Exchanges>) {}

    /// Takes the next of what the datagrams mean that a link received last.
    fn next_heard(_: &mut Self::Memory) -> Option<Heard> {
        None
    }

    /// Makes the next datagrams to be sent; they are in [`Session::packed`].
    fn pack(&mut self, _: &mut Self::Memory, _now: u64) -> Option<Packed> {
        None
    }

    /// What [`Session::pack`] made last.
    fn packed(_: &Self::Memory, _bytes: usize) -> &[u8] {
        &[]
    }

    /// Whether the next connection to an origin begins with datagrams that are marked ECT(0).
    fn begins_marked(_: &Self::Memory, _origin: u32) -> bool {
        false
    }

    /// Notes whether datagrams are marked ECT(0) from now on; returns whether that is a change.
    fn marks(&mut self, _is_ect: bool, _: &mut Self::Memory) -> bool {
        false
    }

    /// If the socket may be connected again for another connection: whether it marks its datagrams ECT(0).
    fn spare_is_ect(&self) -> Option<bool> {
        None
    }

    /// Whether the socket's queue must be longer now. True once for each connection.
    fn outgrows_queue(&mut self) -> bool {
        false
    }

    /// How many requests have been packed completely since the last call.
    fn take_sent(&mut self) -> u32 {
        0
    }

    /// Whether a request that was given to the session has left it: with datagrams, it may wait for the server's permission.
    fn has_left(&self, _slot: u32, _: &Self::Exchanges) -> bool {
        true
    }

    /// Counts a call that received datagrams.
    fn count_receive(_: &mut Self::Memory) {}

    /// Counts how often the socket dropped datagrams; `dropped`: by now.
    fn count_dropped(&mut self, _: &mut Self::Memory, _dropped: u32) {}

    /// Counts a call of which the socket did not take all datagrams.
    fn count_unsent(_: &mut Self::Memory) {}

    /// A datagram of this size did not leave this host, so it was not sent.
    fn take_back(&mut self, _bytes: usize) {}

    /// Acknowledges at once what it would acknowledge later: its timers will not run for a while.
    fn acknowledge_now(&mut self) {}

    /// Whether more datagrams are on their way for certain: of an answer, or of the handshake.
    fn awaits_datagrams(&self) -> bool {
        false
    }

    /// Whether what arrived last was not the end of an answer.
    fn is_amid_answer(&self) -> bool {
        false
    }

    /// When [`Session::timeout`] is to be called, and something may have to be sent.
    fn due_ns(&self) -> Option<u64> {
        None
    }

    /// Acts on what is due.
    fn timeout(&mut self, _now: u64) {}

    /// Whether requests may be sent although the handshake has not ended (0-RTT).
    fn sends_early(&self) -> bool {
        false
    }

    /// Whether the handshake has ended, if the session does it.
    fn is_agreed(&self) -> bool {
        true
    }

    /// What the handshake agreed on; returned once, as soon as it has ended.
    fn take_agreed(&mut self, _: &mut Self::Memory) -> Result<Option<Handshake>, AnswerError> {
        Ok(None)
    }

    /// Why the connection has ended, or must end.
    fn end_of_connection(&self, _: &Self::Memory) -> Option<AnswerError> {
        None
    }

    /// Whether it ended in such a way that the server may not have seen a request without an answer.
    fn may_have_been_in_vain(&self) -> bool {
        false
    }

    /// Whether it ended in such a way that the server has processed no request.
    fn was_rejected(&self) -> bool {
        false
    }

    /// The error of a connection on which nothing has arrived within the connect timeout.
    fn silence(&self, _within: &str) -> Option<AnswerError> {
        None
    }

    /// The link's connection has ended: adds what it counted.
    fn retire(&mut self, _: &mut Self::Memory) {}
}

/// An exchange that begins.
pub(crate) struct Start<'a> {
    pub(crate) slot: u32,
    /// Number of its request in the plan.
    pub(crate) number: u32,
    pub(crate) request: &'a RequestPlan,
    /// It will be the last on this connection.
    pub(crate) is_last: bool,
    pub(crate) plan: &'a Plan,
}

/// What received bytes mean to exchanges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing more than what the sink was told.
    Nothing,
    /// The answer in this slot is whole.
    Whole(u32),
    /// The same, and the server will answer none of the others on this link.
    WholeAndLast(u32),
    /// The exchange in this slot will get no answer. The link stays usable.
    Failed(u32, AnswerError),
    /// The server did not process the request in this slot, which may be sent again. The class counts if it is given
    /// up.
    Refused(u32, ErrorClass),
    /// More exchanges may begin than before, or no more at all.
    Capacity,
    /// The server ends the connection because of an error. It has not processed those that [`Session::is_passed_over`]
    /// names.
    GivenUp(AnswerError),
}

/// Why a request has no valid answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerError {
    /// Not an answer, and why.
    Malformed(&'static str),
    /// This many bytes after the last expected answer.
    Surplus(usize),
    /// The stream ended before the answer's head was complete.
    EndInHead,
    /// It ended this many bytes before the end of the body, if the head gives the length.
    EndInBody(Option<u64>),
    /// It ended where a body may end, but the layer below should have announced that.
    Cut,
    /// Something that the protocol forbids, with its class.
    Forbidden(ErrorClass, &'static str),
    /// The server gave up an exchange, or all: the class, and its error code.
    GivenUp(ErrorClass, u32),
    /// It ended in the middle of the layer's handshake.
    EndInHandshake,
    /// The layer below failed: the class, and what happened in words.
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

    /// Whether these are bytes that no request asked for, if none is in progress.
    pub(crate) fn is_surplus(&self) -> bool {
        matches!(self, AnswerError::Surplus(_) | AnswerError::Forbidden(ErrorClass::H2Protocol, _))
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

/// With this, a session records in exchanges what has happened to them.
pub(crate) struct Sink<'a, E> {
    pub(crate) exchanges: &'a mut E,
    pub(crate) plan: &'a Plan,
    pub(crate) now: u64,
}

impl<E: Exchanges> Sink<'_, E> {
    /// `n` more bytes of a request were sent; `is_whole`: all of it.
    #[inline]
    pub(crate) fn sent(&mut self, slot: u32, n: usize, is_whole: bool) {
        let exchange = self.exchanges.at_mut(slot);
        exchange.sent += n as u32;
        exchange.progress = Progress::Receiving;
        if !is_whole {
            exchange.progress = Progress::Sending;
        }
    }

    /// Bytes of an answer have arrived, not necessarily its first.
    #[inline]
    pub(crate) fn answer(&mut self, slot: u32) {
        let exchange = self.exchanges.at_mut(slot);
        if exchange.first_byte_ns == 0 {
            exchange.first_byte_ns = self.now;
            exchange.deadline_ns = exchange.start_ns + self.plan.request_timeout_ns;
        }
    }

    /// This many bytes of an incomplete head have arrived.
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

    /// A piece of the body that was discarded unread.
    #[inline]
    pub(crate) fn unseen_body(&mut self, slot: u32, bytes: u64) {
        self.exchanges.at_mut(slot).body_bytes += bytes;
    }

    /// Bytes of the protocol between pieces of the body, and after it.
    #[inline]
    pub(crate) fn framing(&mut self, slot: u32, bytes: usize) {
        self.exchanges.at_mut(slot).framing_bytes += bytes as u64;
    }
}
