//! An exchange: a request of a client, its instants, and what has arrived of its answer. A link carries one or many
//! at a time; the exchange does not know which link.

use crate::body_sum::BodySum;

/// Where an exchange is stored: its link, and the slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeId {
    pub(crate) link: u32,
    pub(crate) slot: u32,
}

/// The exchanges of a link. If the protocol carries one at a time, it is stored in the link itself, and no request
/// needs a look-up or an allocation.
pub(crate) trait Exchanges: Default {
    /// Whether there can be more than one.
    const MANY: bool;

    /// The number of slots, whether their exchanges are in progress or not.
    fn slots(&self) -> u32;

    fn at(&self, slot: u32) -> &Exchange;

    fn at_mut(&mut self, slot: u32) -> &mut Exchange;

    /// A slot whose exchange is over, so that another can begin there.
    fn vacant_slot(&mut self) -> u32;

    /// Takes the exchange out of its slot.
    fn take(&mut self, slot: u32) -> Exchange {
        std::mem::take(self.at_mut(slot))
    }

    /// The exchange in a slot has ended, successfully or not.
    fn over(&mut self, slot: u32);

    /// The exchange in a slot waits until the session has capacity, after those that already wait.
    fn wait(&mut self, _: u32) {}

    /// The exchange that has waited longest.
    fn next_waiting(&mut self) -> Option<u32> {
        None
    }

    /// How often servers refused the exchange in a slot without having processed it.
    fn refusals(&mut self, _: u32) -> Option<&mut u8> {
        None
    }

    /// Number of exchanges that wait.
    fn waiting(&self) -> u32 {
        0
    }

    /// Whether one is in progress.
    #[inline]
    fn any_in_progress(&self) -> bool {
        (0..self.slots()).any(|slot| self.at(slot).progress != Progress::Over)
    }

    /// Whether an exchange waits for the handshake, because the server found it too early.
    fn any_too_early(&self) -> bool {
        (0..self.slots()).any(|slot| {
            let exchange = self.at(slot);
            exchange.progress == Progress::Waiting && exchange.marks.has(Marks::TOO_EARLY)
        })
    }

    /// The first exchange that is traced.
    #[inline]
    fn traced(&self) -> Option<u32> {
        (0..self.slots()).find(|slot| self.at(*slot).traced > 0)
    }
}

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has ended, or none has begun.
    Over,
    /// It waits for its link.
    Waiting,
    /// Its request has been sent in part.
    Sending,
    /// Its response is awaited or being read.
    Receiving,
}

/// What is true of an exchange, in one byte: the exchange is most of the memory of a link of HTTP/1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    /// Its link has carried other exchanges before.
    pub(crate) const REUSED: u8 = 1;
    /// Its request was begun before the handshake had ended (0-RTT).
    pub(crate) const EARLY: u8 = 2;
    /// The server answered it with 425 (Too Early), or rejected it with other early data: it is sent again, after a handshake.
    pub(crate) const TOO_EARLY: u8 = 4;

    #[inline]
    pub(crate) fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, mark: u8, is_set: bool) {
        self.0 = if is_set { self.0 | mark } else { self.0 & !mark };
    }
}

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) progress: Progress,
    pub(crate) marks: Marks,
    /// Status of its response; 0 until the whole head has arrived.
    pub(crate) status: u16,
    /// Client, by its index in the worker.
    pub(crate) client: u32,
    pub(crate) request: u32,
    /// Its number in the trace; 0 when it is not traced.
    pub(crate) traced: u32,
    /// Bytes of the request that were sent.
    pub(crate) sent: u32,
    /// Bytes of a head that has not arrived completely.
    pub(crate) begun_head_bytes: u32,
    /// When the request should have started; latency counts from here. In closed loop, when it did start.
    pub(crate) intended_ns: u64,
    pub(crate) start_ns: u64,
    /// When the connection made for it was established; 0 if it used an existing one.
    pub(crate) connected_ns: u64,
    pub(crate) sent_ns: u64,
    /// 0 until the first byte of the answer.
    pub(crate) first_byte_ns: u64,
    pub(crate) headers_done_ns: u64,
    /// When the answer must have begun, or must have ended.
    pub(crate) deadline_ns: u64,
    pub(crate) head_bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) framing_bytes: u64,
    /// Check sum of the body so far. Not allocated unless contents are checked.
    pub(crate) body_sum: Option<Box<BodySum>>,
    /// The request as filled in from its template. Not allocated without templates.
    pub(crate) rendered: Vec<u8>,
}

/// No exchange in progress.
impl Default for Exchange {
    fn default() -> Exchange {
        Exchange {
            progress: Progress::Over,
            marks: Marks::default(),
            status: 0,
            client: 0,
            request: 0,
            traced: 0,
            sent: 0,
            begun_head_bytes: 0,
            intended_ns: 0,
            start_ns: 0,
            connected_ns: 0,
            sent_ns: 0,
            first_byte_ns: 0,
            headers_done_ns: 0,
            deadline_ns: u64::MAX,
            head_bytes: 0,
            body_bytes: 0,
            framing_bytes: 0,
            body_sum: None,
            rendered: Vec::new(),
        }
    }
}

impl Exchange {
    /// Begins an exchange in this place at `now`; forgets the last one.
    #[inline]
    pub(crate) fn begin(&mut self, client: u32, request: u32, intended_ns: u64, now: u64) {
        self.progress = Progress::Waiting;
        self.marks = Marks::default();
        self.status = 0;
        self.client = client;
        self.request = request;
        self.traced = 0;
        self.begun_head_bytes = 0;
        self.intended_ns = intended_ns;
        self.start_ns = now;
        self.connected_ns = 0;
        self.sent_ns = 0;
        self.first_byte_ns = 0;
        self.headers_done_ns = 0;
        self.head_bytes = 0;
        self.body_bytes = 0;
        self.framing_bytes = 0;
        self.rendered.clear();
    }

    /// Ends it, successfully or not.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.progress = Progress::Over;
        self.deadline_ns = u64::MAX;
    }

    /// Sends it again, on another connection. The start stays the same, as the user has waited all the time.
    pub(crate) fn wait_again(&mut self) {
        self.progress = Progress::Waiting;
        self.marks.set(Marks::REUSED, false);
        self.connected_ns = 0;
        self.sent_ns = 0;
        self.deadline_ns = u64::MAX;
    }

    /// Forgets an answer after which the request is sent again. The start stays the same.
    pub(crate) fn forget_answer(&mut self) {
        self.status = 0;
        self.begun_head_bytes = 0;
        self.sent_ns = 0;
        self.first_byte_ns = 0;
        self.headers_done_ns = 0;
        self.head_bytes = 0;
        self.body_bytes = 0;
        self.framing_bytes = 0;
    }

    /// Whether nothing of the answer has arrived, so that the server may not have seen the request.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.first_byte_ns == 0
    }

    /// Bytes of the response that were read so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.head_bytes + self.body_bytes + self.framing_bytes + u64::from(self.begun_head_bytes)
    }
}
