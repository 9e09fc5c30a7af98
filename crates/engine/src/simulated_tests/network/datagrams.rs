//! Datagrams on the simulated network: each is delayed, and may be lost, sent twice, overtaken or marked, by seed.

use std::collections::VecDeque;
use std::io;

use super::{Happening, Simulated};
use crate::sys::{Datagrams, Event};

/// Fewer than those of a real call, so that several calls are needed more often.
const BATCHES_MAX: usize = 3;
const BATCH_BYTES: usize = 65_536;

/// What a path does to datagrams. Shares are of 1,000.
#[derive(Clone, Debug)]
pub(crate) struct DatagramPath {
    pub(crate) seed: u64,
    pub(crate) loss: u64,
    pub(crate) duplicates: u64,
    /// Share that takes this much longer, and so is overtaken.
    pub(crate) late: (u64, u64),
    /// Share that is marked CE.
    pub(crate) marks: u64,
    /// Marks of ECN are removed.
    pub(crate) bleaches: bool,
    /// Longer ones are lost.
    pub(crate) bytes_max: usize,
    /// After this many batches, a socket once reports that nobody receives at the server, before it returns what lies in it.
    pub(crate) refused_after: u64,
}

impl Default for DatagramPath {
    fn default() -> DatagramPath {
        DatagramPath {
            seed: 1,
            loss: 0,
            duplicates: 0,
            late: (0, 0),
            marks: 0,
            bleaches: false,
            bytes_max: 65_527,
            refused_after: u64::MAX,
        }
    }
}

/// What happened to datagrams of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatagramTotals {
    /// Those that clients sent, and their bytes.
    pub(crate) sent: (u64, u64),
    /// How many of them were marked ECT(0).
    pub(crate) marked: u64,
    /// Those that reached clients, and their bytes.
    pub(crate) received: (u64, u64),
    /// Calls by which clients sent some, and by which they received some.
    pub(crate) calls: (u64, u64),
    /// Lost on the way.
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
}

/// A client's socket.
#[derive(Debug, Default)]
pub(super) struct DatagramSocket {
    pub(super) is_closed: bool,
    pub(super) is_ect: bool,
    received: u64,
    queue: VecDeque<(Vec<u8>, u8)>,
}

impl DatagramSocket {
    pub(super) fn event(&self, token: u64) -> Option<Event> {
        (!self.is_closed).then(|| Event { token, readable: !self.queue.is_empty(), ..Event::default() })
    }
}

impl Simulated<'_> {
    fn draws(&mut self, share: u64) -> bool {
        share > 0 && self.draw(1000) < share
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.datagram_draws.below(below)
    }

    /// Puts a datagram on its way.
    fn dispatch(&mut self, at_ns: u64, number: usize, bytes: &[u8], ecn: u8, is_to_server: bool) {
        let path = self.wire.datagrams.clone();
        if self.draws(path.loss) || bytes.len() > path.bytes_max {
            self.totals().lost += 1;
            return;
        }
        let ecn = if ecn != 0 && self.draws(path.marks) { 3 } else { ecn };
        let ecn = if path.bleaches { 0 } else { ecn };
        let copies = 1 + u64::from(self.draws(path.duplicates));
        self.totals().duplicated += copies - 1;
        for copy in 0..copies {
            let late_ns = if self.draws(path.late.0) { self.draw(path.late.1.max(1)) } else { 0 };
            let at_ns = at_ns + self.wire.latency_ns + late_ns + copy;
            let bytes = bytes.to_vec();
            let happening = match is_to_server {
                true => Happening::DatagramThere(bytes, ecn),
                false => Happening::DatagramHere(bytes, ecn),
            };
            self.at(at_ns, number, happening);
        }
    }

    fn totals(&mut self) -> &mut DatagramTotals {
        self.peer.datagram_totals()
    }

    pub(super) fn datagram_there(&mut self, at_ns: u64, number: usize, bytes: &[u8], ecn: u8) {
        self.peer.hear_datagram(at_ns, number, bytes, ecn);
        self.drive_peer(at_ns);
    }

    pub(super) fn datagram_here(&mut self, number: usize, bytes: Vec<u8>, ecn: u8) {
        let socket = &mut self.links[number].datagrams;
        if socket.is_closed {
            return;
        }
        socket.queue.push_back((bytes, ecn));
        self.edge(number);
    }

    /// Lets servers send what is due.
    pub(super) fn drive_peer(&mut self, at_ns: u64) {
        for (number, bytes, ecn) in self.peer.drive_datagrams(at_ns) {
            self.dispatch(at_ns, number, &bytes, ecn, false);
        }
    }

    pub(super) fn send_each(&mut self, number: usize, bytes: &[u8], segment: usize) {
        let now = self.now_ns.get();
        let ecn = if self.links[number].datagrams.is_ect { 2 } else { 0 };
        self.totals().calls.0 += 1;
        for datagram in bytes.chunks(segment) {
            let sent = &mut self.totals().sent;
            *sent = (sent.0 + 1, sent.1 + datagram.len() as u64);
            self.totals().marked += u64::from(ecn != 0);
            self.dispatch(now, number, datagram, ecn, true);
        }
    }

    /// Receives a few batches, `most` or fewer, and returns how many.
    pub(super) fn receive_batches(&mut self, number: usize, most: usize) -> io::Result<usize> {
        self.batches.clear();
        let refused_after = self.wire.datagrams.refused_after;
        let socket = &mut self.links[number].datagrams;
        if socket.received >= refused_after && !socket.queue.is_empty() {
            socket.received = 0;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        while self.batches.len() < most.min(BATCHES_MAX)
            && let Some(batch) = self.receive_batch(number)
        {
            self.batches.push(batch);
        }
        let socket = &mut self.links[number].datagrams;
        socket.received += self.batches.len() as u64;
        if !socket.queue.is_empty() {
            self.edge(number);
        }
        self.totals().calls.1 += u64::from(!self.batches.is_empty());
        Ok(self.batches.len())
    }

    /// Datagrams of one size and mark, as many as the kernel puts together.
    fn receive_batch(&mut self, number: usize) -> Option<(Datagrams, Vec<u8>)> {
        let queue = &mut self.links[number].datagrams.queue;
        let (first, ecn) = queue.front()?;
        let (stride, ecn) = (first.len(), *ecn);
        let (mut bytes, mut count) = (Vec::new(), 0);
        while let Some((next, mark)) = queue.front()
            && *mark == ecn
            && next.len() <= stride
            && bytes.len() + next.len() <= BATCH_BYTES
        {
            let length = next.len();
            bytes.extend_from_slice(next);
            count += 1;
            queue.pop_front();
            if length < stride {
                break;
            }
        }
        let received = &mut self.totals().received;
        *received = (received.0 + count, received.1 + bytes.len() as u64);
        Some((Datagrams { bytes: bytes.len(), stride, ecn, dropped: 0 }, bytes))
    }
}
