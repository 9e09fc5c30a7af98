//! The streams of a link. QUIC knows the slot of each.

use super::frames::Reader;
use super::order::Order;
use crate::exchange::Exchange;
use crate::slab::{self, Slab};

/// An exchange and its stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) exchange: Exchange,
    /// [`NONE`] without an open stream.
    pub(super) id: u64,
    pub(super) reader: Reader,
    pub(super) order: Order,
    /// The part of a HEADERS frame that has arrived, and the size of the frame's head.
    pub(super) section: Vec<u8>,
    pub(super) section_head_bytes: u8,
    /// Bytes of the request's body that QUIC has not taken yet.
    pub(super) unsent: usize,
}

/// In place of the identifier of a stream.
pub(super) const NONE: u64 = u64::MAX;

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            exchange: Exchange::default(),
            id: NONE,
            reader: Reader::default(),
            order: Order::new(false),
            section: Vec::new(),
            section_head_bytes: 0,
            unsent: 0,
        }
    }
}

impl Stream {
    /// A request begins on a stream.
    #[inline]
    pub(super) fn open(&mut self, id: u64, is_head: bool) {
        self.id = id;
        self.reader = Reader::default();
        self.order = Order::new(is_head);
        self.section.clear();
        self.unsent = 0;
    }
}

/// The exchanges of a link.
pub(crate) type Streams = Slab<Stream>;

impl slab::Stream for Stream {
    type Index = ();

    #[inline]
    fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    #[inline]
    fn exchange_mut(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    #[inline]
    fn close(&mut self) {
        self.id = NONE;
    }
}
