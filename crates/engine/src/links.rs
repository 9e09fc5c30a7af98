//! The table of a worker's links: which are free, which are to be read on in the next round, how many connections there were.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut, Range};

use crate::exchange::{Exchange, ExchangeId, Exchanges};
use crate::layer::Layer;
use crate::link::{HeldOver, Link, LinkState};
use crate::session::Session;

/// See the module comment. A link is known by its index, which is small and stays as it is.
pub(crate) struct Links<S, L, P: Session> {
    all: Vec<Link<S, L, P>>,
    /// Those in state `Free`.
    free: Vec<u32>,
    /// Those whose receive queue was left before it was empty.
    held_over: VecDeque<u32>,
    /// Connections begun so far.
    begun: u32,
    /// Where links carry many exchanges: by group, those that more may join; and whose group a link is in.
    shared: Vec<Vec<u32>>,
    group_of: Vec<Option<u32>>,
    /// Those that have something to send.
    due: Vec<u32>,
}

impl<S, L: Layer, P: Session> Links<S, L, P> {
    /// With room for the links of this many clients.
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

    /// When each connection was begun that is still being made.
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

    /// A link that nobody uses. Its socket, if it kept one, may be connected again.
    #[inline]
    pub(crate) fn take_free(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        self.all.push(Link::vacant());
        self.all.len() as u32 - 1
    }

    /// Gives a link's place back.
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

    /// A link is one of a group's.
    pub(crate) fn share(&mut self, index: u32, group: u32) {
        let groups = self.shared.len().max(group as usize + 1);
        self.shared.resize_with(groups, Vec::new);
        self.shared[group as usize].push(index);
        let links = self.group_of.len().max(index as usize + 1);
        self.group_of.resize(links, None);
        self.group_of[index as usize] = Some(group);
    }

    /// No more exchanges join a link.
    pub(crate) fn unshare(&mut self, index: u32) {
        let group = self.group_of.get_mut(index as usize).and_then(Option::take);
        if let Some(group) = group {
            self.shared[group as usize].retain(|shared| *shared != index);
        }
    }

    /// A link may have something to send.
    #[inline]
    pub(crate) fn mark_due(&mut self, index: u32) {
        if self.due.last() != Some(&index) {
            self.due.push(index);
        }
    }

    /// One that may have.
    #[inline]
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        self.due.pop()
    }

    /// The number of a connection that begins.
    #[inline]
    pub(crate) fn next_connection(&mut self) -> u32 {
        self.begun = self.begun.wrapping_add(1);
        self.begun
    }

    /// Notes a link to be read on in the next round. `ended`: its server has closed.
    #[cold]
    pub(crate) fn hold_over(&mut self, index: u32, ended: bool) {
        let link = &mut self.all[index as usize];
        if link.held_over == HeldOver::No {
            self.held_over.push_back(index);
        }
        link.held_over = if ended { HeldOver::Ended } else { link.held_over.max(HeldOver::Open) };
    }

    /// How many links were noted. Of some the connection may be another by now.
    #[inline]
    pub(crate) fn held_over(&self) -> usize {
        self.held_over.len()
    }

    /// The link that was noted first, and how it stood then.
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
