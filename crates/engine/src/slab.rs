//! The exchanges of a link that carries many at a time, as in HTTP/2 and HTTP/3: a slab whose slots are reused.

use std::collections::VecDeque;

use crate::exchange::{Exchange, Exchanges, Progress};

/// An exchange, and what a protocol keeps of its stream.
pub(crate) trait Stream: Default {
    /// The slots by stream, for a protocol that has to look them up.
    type Index: Default;

    fn exchange(&self) -> &Exchange;

    fn exchange_mut(&mut self) -> &mut Exchange;

    /// The exchange is over: no stream belongs to it any more.
    fn close(&mut self);

    /// A slot was added.
    fn grown(_: &[Slot<Self>], _: &mut Self::Index) {}
}

/// A stream, and how often servers refused its request.
#[derive(Debug, Default)]
pub(crate) struct Slot<S> {
    pub(crate) stream: S,
    refusals: u8,
}

/// See the module comment.
#[derive(Debug, Default)]
pub(crate) struct Slab<S: Stream> {
    pub(crate) slots: Vec<Slot<S>>,
    pub(crate) index: S::Index,
    vacant: Vec<u32>,
    waiting: VecDeque<u32>,
    in_progress: u32,
}

impl<S: Stream> Slab<S> {
    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> &S {
        &self.slots[slot as usize].stream
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, slot: u32) -> &mut S {
        &mut self.slots[slot as usize].stream
    }
}

impl<S: Stream> Exchanges for Slab<S> {
    const MANY: bool = true;

    #[inline]
    fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline]
    fn at(&self, slot: u32) -> &Exchange {
        self.slot(slot).exchange()
    }

    #[inline]
    fn at_mut(&mut self, slot: u32) -> &mut Exchange {
        self.slot_mut(slot).exchange_mut()
    }

    #[inline]
    fn vacant_slot(&mut self) -> u32 {
        self.in_progress += 1;
        if let Some(slot) = self.vacant.pop() {
            self.slots[slot as usize].refusals = 0;
            return slot;
        }
        self.slots.push(Slot::default());
        S::grown(&self.slots, &mut self.index);
        self.slots.len() as u32 - 1
    }

    fn take(&mut self, slot: u32) -> Exchange {
        let (progress, exchange) = {
            let exchange = self.at_mut(slot);
            (exchange.progress, std::mem::take(exchange))
        };
        // `over` needs the progress to remove the slot from the waiting ones.
        self.at_mut(slot).progress = progress;
        self.over(slot);
        exchange
    }

    #[inline]
    fn over(&mut self, slot: u32) {
        if self.at(slot).progress == Progress::Waiting {
            self.waiting.retain(|waiting| *waiting != slot);
        }
        let stream = self.slot_mut(slot);
        stream.exchange_mut().end();
        stream.close();
        self.vacant.push(slot);
        self.in_progress -= 1;
    }

    fn wait(&mut self, slot: u32) {
        self.waiting.push_back(slot);
    }

    #[inline]
    fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    fn refusals(&mut self, slot: u32) -> Option<&mut u8> {
        Some(&mut self.slots[slot as usize].refusals)
    }

    #[inline]
    fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    #[inline]
    fn any_in_progress(&self) -> bool {
        self.in_progress > 0
    }
}
