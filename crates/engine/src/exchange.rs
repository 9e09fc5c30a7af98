//! An exchange: a request of a client, its instants, and what its answer has brought so far. A link carries it, one or many at
//! a time; which link, it does not know.

use crate::body_sum::BodySum;

/// Where an exchange lies: on which link, and in which of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeId {
    pub(crate) link: u32,
    pub(crate) slot: u32,
}

/// The exchanges of a link. Where the protocol carries one at a time it lies in the link itself, and nothing is looked up or
/// allocated for a request.
pub(crate) trait Exchanges: Default {
    /// Whether there can be more than one.
    const MANY: bool;

    /// All slots, with exchanges in progress or without.
    fn slots(&self) -> u32;

    fn at(&self, slot: u32) -> &Exchange;

    fn at_mut(&mut self, slot: u32) -> &mut Exchange;

    /// A slot whose exchange is over, for another to begin in.
    fn vacant_slot(&mut self) -> u32;

    /// Takes the exchange in a slot out of it.
    fn take(&mut self, slot: u32) -> Exchange {
        std::mem::take(self.at_mut(slot))
    }

    /// The exchange in a slot has ended, whole or in an error.
    fn over(&mut self, slot: u32);

    /// The exchange in a slot waits until the session has capacity, after those that wait already.
    fn wait(&mut self, _: u32) {}

    /// The exchange that has waited longest.
    fn next_waiting(&mut self) -> Option<u32> {
        None
    }

    /// How often servers said of the exchange in a slot that they had not looked at its request.
    fn refusals(&mut self, _: u32) -> Option<&mut u8> {
        None
    }

    /// How many wait.
    fn waiting(&self) -> u32 {
        0
    }

    /// Whether one is in progress.
    #[inline]
    fn any_in_progress(&self) -> bool {
        (0..self.slots()).any(|slot| self.at(slot).progress != Progress::Over)
    }

    /// The first that is traced.
    #[inline]
    fn traced(&self) -> Option<u32> {
        (0..self.slots()).find(|slot| self.at(*slot).traced > 0)
    }
}

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has ended, or never was.
    Over,
    /// It waits for its link.
    Waiting,
    /// Its request is partly written.
    Sending,
    /// Its response is awaited or being read.
    Receiving,
}

/// See the module comment.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) progress: Progress,
    /// Its link had carried others before.
    pub(crate) reused: bool,
    /// Status of its response; 0 while that has no whole head.
    pub(crate) status: u16,
    /// Client, by its index in the worker.
    pub(crate) client: u32,
    pub(crate) request: u32,
    /// Its number in the trace; 0 when it is not traced.
    pub(crate) traced: u32,
    /// Bytes of the request that were sent.
    pub(crate) sent: u32,
    /// Bytes of a head that has not come whole.
    pub(crate) begun_head_bytes: u32,
    /// When the request was to start, from where its latency counts: in closed loop its start.
    pub(crate) intended_ns: u64,
    pub(crate) start_ns: u64,
    /// When the link that was made for it stood; 0 where it took one that was there.
    pub(crate) connected_ns: u64,
    pub(crate) sent_ns: u64,
    /// 0 while nothing of the answer has come.
    pub(crate) first_byte_ns: u64,
    pub(crate) headers_done_ns: u64,
    /// When the answer must have begun, or ended, by.
    pub(crate) deadline_ns: u64,
    pub(crate) head_bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) framing_bytes: u64,
    /// Check sum of the body so far; without memory where contents are not checked.
    pub(crate) body_sum: Option<Box<BodySum>>,
    /// The request as filled from its template. Without memory where there is none.
    pub(crate) rendered: Vec<u8>,
}

/// None in progress.
impl Default for Exchange {
    fn default() -> Exchange {
        Exchange {
            progress: Progress::Over,
            reused: false,
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
    /// Forgets the last exchange in this place; `now` is the start of the next.
    #[inline]
    pub(crate) fn begin(&mut self, client: u32, request: u32, intended_ns: u64, now: u64) {
        self.progress = Progress::Waiting;
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

    /// It has ended, whole or in an error.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.progress = Progress::Over;
        self.deadline_ns = u64::MAX;
    }

    /// It is to be sent again, on another connection. The whole wait is the user's: the start stays where it was.
    pub(crate) fn wait_again(&mut self) {
        self.progress = Progress::Waiting;
        self.reused = false;
        self.connected_ns = 0;
        self.deadline_ns = u64::MAX;
    }

    /// Whether nothing of the answer has come, so that the server may not have seen the request.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.first_byte_ns == 0
    }

    /// Bytes of the response that were read so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.head_bytes + self.body_bytes + self.framing_bytes + u64::from(self.begun_head_bytes)
    }
}
