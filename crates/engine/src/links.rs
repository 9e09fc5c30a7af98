//! The table of a worker's links: which are free, and which are to be read again in the next round. It also numbers
//! connections.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut, Range};

use crate::exchange::{Exchange, ExchangeId, Exchanges};
use crate::layer::Layer;
use crate::link::{HeldOver, Link, LinkState};
use crate::session::Session;

/// See the module comment. A link is identified by its index, which is small and never changes.
pub(crate) struct Links<S, L, P: Session> {
    all: Vec<Link<S, L, P>>,
    /// Links in state `Free`.
    free: Vec<u32>,
    /// Links whose receive queue may not be empty yet.
    held_over: VecDeque<u32>,
    /// Connections begun so far.
    begun: u32,
    /// If links carry many exchanges: for each group, the links that more may join; and for each link, its group.
    shared: Vec<Vec<u32>>,
    group_of: Vec<Option<u32>>,
    /// Links that have something to send.
    due: Vec<u32>,
}

impl<S, L: Layer, P: Session> Links<S, L, P> {
    /// Space for the links of this many clients.
    pub(crate) fn new(clients: u32) -> Links<S, L, P> {
        Links {
            all: Vec::with_capacity(clients as usize + clients as usize / 4 + 16),
            free: Vec::new(),
            held_over: VecDeque::new(),
            begun: 0,
            shared: Vec::new(),
            group_of: Vec::new(),
            due: Vec::new(),
        }
    }

    pub(crate) fn indices(&self) -> Range<u32> {
        0..self.all.len() as u32
    }

    /// All exchanges, in progress or over.
    pub(crate) fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.all.iter().flat_map(|link| (0..link.exchanges.slots()).map(|slot| link.exchanges.at(slot)))
    }

    /// The sessions of all links.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &P> {
        self.all.iter().map(|link| &link.session)
    }

    /// When each unfinished connect began.
    pub(crate) fn connecting(&self) -> impl Iterator<Item = u64> {
        let connecting = |state| matches!(state, LinkState::Resolving | LinkState::Connecting);
        self.all.iter().filter(move |link| connecting(link.state)).map(|link| link.connect_begun_ns)
    }

    #[inline]
    pub(crate) fn exchange(&self, at: ExchangeId) -> &Exchange {
        self[at.link].exchanges.at(at.slot)
    }

    #[inline]
    pub(crate) fn exchange_mut(&mut self, at: ExchangeId) -> &mut Exchange {
        self[at.link].exchanges.at_mut(at.slot)
    }

    /// A free link. If it has kept its socket, that can be connected again.
    #[inline]
    pub(crate) fn take_free(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        self.all.push(Link::vacant());
        self.all.len() as u32 - 1
    }

    /// Frees a link.
    #[inline]
    pub(crate) fn give_back(&mut self, index: u32) {
        if P::Exchanges::MANY {
            self.unshare(index);
        }
        let link = &mut self[index];
        link.state = LinkState::Free;
        link.deadline_ns = u64::MAX;
        self.free.push(index);
    }

    /// The links of a group that more exchanges may join.
    pub(crate) fn shared(&self, group: u32) -> impl Iterator<Item = u32> {
        self.shared.get(group as usize).into_iter().flatten().copied()
    }

    /// Adds a link to a group.
    pub(crate) fn share(&mut self, index: u32, group: u32) {
        let groups = self.shared.len().max(group as usize + 1);
        self.shared.resize_with(groups, Vec::new);
        self.shared[group as usize].push(index);
        let links = self.group_of.len().max(index as usize + 1);
        self.group_of.resize(links, None);
        self.group_of[index as usize] = Some(group);
    }

    /// Lets no more exchanges join a link.
    pub(crate) fn unshare(&mut self, index: u32) {
        let group = self.group_of.get_mut(index as usize).and_then(Option::take);
        if let Some(group) = group {
            self.shared[group as usize].retain(|shared| *shared != index);
        }
    }

    /// Notes that a link may have something to send.
    #[inline]
    pub(crate) fn mark_due(&mut self, index: u32) {
        if self.due.last() != Some(&index) {
            self.due.push(index);
        }
    }

    /// The link that was noted last.
    #[inline]
    pub(crate) fn last_due(&self) -> Option<u32> {
        self.due.last().copied()
    }

    /// A link that may have something to send.
    #[inline]
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        self.due.pop()
    }

    /// A new connection's number.
    #[inline]
    pub(crate) fn next_connection(&mut self) -> u32 {
        self.begun = self.begun.wrapping_add(1);
        self.begun
    }

    /// Queues a link to be read again in the next round. `ended`: its server has closed.
    #[cold]
    pub(crate) fn hold_over(&mut self, index: u32, ended: bool) {
        let link = &mut self.all[index as usize];
        if link.held_over == HeldOver::No {
            self.held_over.push_back(index);
        }
        link.held_over = if ended { HeldOver::Ended } else { link.held_over.max(HeldOver::Open) };
    }

    /// How many links are queued. Some may have another connection by now.
    #[inline]
    pub(crate) fn held_over(&self) -> usize {
        self.held_over.len()
    }

    /// The link queued first, and its state at that time.
    pub(crate) fn next_held_over(&mut self) -> Option<(u32, HeldOver)> {
        let index = self.held_over.pop_front()?;
        Some((index, std::mem::replace(&mut self[index].held_over, HeldOver::No)))
    }
}

impl<S, L, P: Session> Index<u32> for Links<S, L, P> {
    type Output = Link<S, L, P>;

    #[inline]
    fn index(&self, index: u32) -> &Link<S, L, P> {
        &self.all[index as usize]
    }
}

impl<S, L, P: Session> IndexMut<u32> for Links<S, L, P> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Link<S, L, P> {
        &mut self.all[index as usize]
    }
}
