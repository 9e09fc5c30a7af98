//! Which part of a level this process makes, if several hosts make it together. Clients and arrivals are numbered
//! over all hosts and divided by slots, so that every client asks for the same pages, and every arrival is due at the
//! same instant, as if one host made them all.

use std::ops::Range;

use webstone_workload::arrivals::Slots;

/// The slots of this host's workers among those of all hosts. The slots of a level are divided among its hosts
/// without gap or overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seats {
    /// This host's first slot, from 0.
    pub first: u32,
    /// Slots of each worker of this host: more if its workers are to carry more than those of other hosts.
    pub each: u32,
    /// Workers of this host. Those that would have no client are not started.
    pub workers: u32,
    /// Slots of all hosts together.
    pub of: u32,
}

impl Seats {
    /// A level on this host alone: this many workers with one slot each.
    pub fn all_here(workers: u32) -> Seats {
        Seats { first: 0, each: 1, workers, of: workers }
    }

    /// Whether they are valid; if not, why.
    pub(crate) fn check(&self) -> Result<(), String> {
        let last = u64::from(self.first) + u64::from(self.each) * u64::from(self.workers);
        if self.each == 0 || self.workers == 0 {
            return Err(format!("{self:?}: a host has at least one worker, and a worker at least one slot"));
        }
        if last > u64::from(self.of) {
            return Err(format!("{self:?}: the host's slots end at {last}, behind the last of all hosts"));
        }
        Ok(())
    }

    /// The slots of a worker of this host.
    pub(crate) fn slots(&self, worker: u32) -> Slots {
        Slots { first: self.first + worker * self.each, count: self.each, of: self.of }
    }

    /// Which clients of the level, by number, run here. Each `together` consecutive clients share connections and
    /// stay on one worker.
    pub fn clients(&self, clients: u32, together: u32) -> Range<u32> {
        let slots = Slots { first: self.first, count: self.each * self.workers, of: self.of };
        clients_of(slots, clients, together)
    }
}

/// The clients that slots carry in a level of this many.
pub(crate) fn clients_of(slots: Slots, clients: u32, together: u32) -> Range<u32> {
    let groups = clients.div_ceil(together);
    let first_of = |slot| (share(groups.into(), slots.of, slot) as u32).saturating_mul(together).min(clients);
    first_of(slots.first)..first_of(slots.first + slots.count)
}

/// How much of `all` belongs to earlier slots if it is divided evenly.
fn share(all: u64, of: u32, slot: u32) -> u64 {
    (u128::from(all) * u128::from(slot) / u128::from(of)) as u64
}

/// How many of a level's pages some of its clients may begin: in proportion to their number.
pub(crate) fn pages_of(pages: u64, mine: &Range<u32>, clients: u32) -> u64 {
    let clients = clients.max(1);
    if mine.is_empty() { 0 } else { share(pages, clients, mine.end) - share(pages, clients, mine.start) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clients_are_dealt_evenly() {
        for (clients, workers) in [(10, 3), (1, 1), (7, 7), (100_000, 64)] {
            let seats = Seats::all_here(workers);
            let sizes: Vec<usize> =
                (0..workers).map(|w| clients_of(seats.slots(w), clients, 1).len()).collect();
            assert_eq!(sizes.iter().sum::<usize>(), clients as usize);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            assert_eq!(seats.clients(clients, 1), 0..clients);
        }
    }

    proptest! {
        /// Hosts and their workers, in order, have every client exactly once, and clients that share a connection are
        /// not separated.
        #[test]
        fn hosts_together_have_every_client_and_page_once(
            hosts in prop::collection::vec((1..5_u32, 1..6_u32), 1..6),
            clients in 1..500_u32,
            together in 1..9_u32,
            pages in 0..10_000_u64,
        ) {
            let of = hosts.iter().map(|(each, workers)| each * workers).sum();
            let (mut first, mut next_client, mut dealt_pages) = (0, 0, 0);
            for (each, workers) in hosts {
                let seats = Seats { first, each, workers, of };
                seats.check().unwrap();
                let here = seats.clients(clients, together);
                prop_assert_eq!(here.start, next_client);
                for worker in 0..workers {
                    let mine = clients_of(seats.slots(worker), clients, together);
                    prop_assert_eq!(mine.start, next_client);
                    prop_assert!(mine.start.is_multiple_of(together) || mine.start == clients);
                    next_client = mine.end;
                }
                prop_assert_eq!(here.end, next_client);
                dealt_pages += pages_of(pages, &here, clients);
                first += each * workers;
            }
            prop_assert_eq!((next_client, dealt_pages), (clients, pages));
        }
    }

    #[test]
    fn invalid_seats_are_refused() {
        let right = Seats { first: 2, each: 3, workers: 2, of: 8 };
        assert_eq!(right.check(), Ok(()));
        for wrong in [
            Seats { each: 0, ..right },
            Seats { workers: 0, ..right },
            Seats { of: 7, ..right },
            Seats { first: 3, ..right },
            Seats { workers: u32::MAX, ..right },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
