//! Requests that the server did not process as early data (status 425, RFC 8470 section 5.2): sent again, once, after the handshake.

use crate::exchange::{Exchange, ExchangeId, Exchanges, Marks, Progress};
use crate::layer::Layer;
use crate::session::Session;
use crate::sys::Backend;
use crate::worker::Worker;

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Retries a request that was answered with 425: on its connection, whose handshake has ended, or, if that takes no more requests,
    /// on a new one without early data.
    #[cold]
    pub(crate) fn send_after_handshake(&mut self, at: ExchangeId, ended: bool, now: u64) {
        self.recorder.too_early();
        let link = &mut self.links[at.link];
        let goes_on = link.state.is_up() && !ended && link.session.extend();
        let exchange = link.exchanges.at_mut(at.slot);
        exchange.forget_answer();
        exchange.marks.set(Marks::TOO_EARLY, true);
        if !P::Exchanges::MANY && goes_on {
            exchange.marks.set(Marks::REUSED, true);
            return self.send_request(at, now);
        }
        let mut exchange = link.exchanges.take(at.slot);
        exchange.wait_again();
        if goes_on {
            exchange.marks.set(Marks::REUSED, true);
            let at = self.place(exchange, at.link);
            self.links[at.link].exchanges.wait(at.slot);
            self.settle(at.link, now);
            // It may have begun, or moved because another has become the last on the connection.
            if self.links.exchange(at).progress == Progress::Waiting {
                self.waits_for_room(at, now);
            }
            return;
        }
        // Ends the old link first: the new one may need its descriptor.
        let client = exchange.client;
        if P::Exchanges::MANY {
            self.settle(at.link, now);
        } else {
            self.part(at, ended, now);
        }
        let index = if P::Exchanges::MANY { self.new_link(client) } else { self.links.take_free() };
        let at = self.place(exchange, index);
        match P::Exchanges::MANY {
            true => self.join(at, true, now),
            false => self.connect(at, now),
        }
    }

    /// Puts an exchange into a vacant slot of a link.
    fn place(&mut self, exchange: Exchange, index: u32) -> ExchangeId {
        let exchanges = &mut self.links[index].exchanges;
        let slot = exchanges.vacant_slot();
        *exchanges.at_mut(slot) = exchange;
        ExchangeId { link: index, slot }
    }
}
