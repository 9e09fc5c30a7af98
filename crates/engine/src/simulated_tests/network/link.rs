//! One socket of the simulated network, and the bytes in transit to and from it.

use std::collections::VecDeque;
use std::io;

use rustix::io::Errno;

use super::Wire;
use super::datagrams::DatagramSocket;
use crate::sys::{Event, Received};

/// Bytes that arrive together.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// This many bytes, whose content does not matter.
    Fill(u64),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Fill(bytes) => *bytes,
        }
    }

    /// Takes bytes from the front; copies them into `to` if given.
    fn take(&mut self, count: usize, to: Option<&mut [u8]>) {
        match self {
            Piece::Bytes(bytes) => {
                let taken = bytes.drain(..count);
                if let Some(to) = to {
                    to[..count].copy_from_slice(taken.as_slice());
                }
            }
            Piece::Fill(left) => {
                *left -= count as u64;
                if let Some(to) = to {
                    to[..count].fill(b'x');
                }
            }
        }
    }
}

/// One direction of a connection: first in, first out.
#[derive(Debug, Default)]
pub(super) struct Lane {
    free_ns: u64,
}

impl Lane {
    /// When the last of these bytes, sent at an instant, has left.
    pub(super) fn carry(&mut self, at_ns: u64, bytes: u64, wire: &Wire) -> u64 {
        let takes_ns = wire.bytes_per_s.map_or(0, |rate| bytes * 1_000_000_000 / rate);
        self.free_ns = self.free_ns.max(at_ns) + takes_ns;
        self.free_ns
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not connected.
    Fresh,
    Connecting,
    Up,
    /// Refused, or reset.
    Dead,
    Closed,
    /// Not a stream.
    Datagrams,
}

/// See the module comment.
#[derive(Debug)]
pub(super) struct SimulatedLink {
    index: u32,
    stage: Stage,
    /// Which connection of this socket: what is in transit for an earlier one is lost.
    pub(super) connection: u32,
    pub(super) has_edge: bool,
    pub(super) handshake_ns: u64,
    /// The error that the next call returns.
    pub(super) error: Option<Errno>,
    pub(super) up: Lane,
    pub(super) down: Lane,
    room: usize,
    /// Whether a send found too little space.
    wants_room: bool,
    /// The part of a request that has reached the server.
    pub(super) at_server: Vec<u8>,
    pub(super) is_served: bool,
    /// When the server will close or reset the connection, once it is about to. From then on it reads no more.
    pub(super) finishes_ns: u64,
    /// What can be received, with the time of its arrival.
    queue: VecDeque<(u64, Piece)>,
    /// Fewer bytes than these in the queue are not reported.
    awaited: u64,
    ended: bool,
    pub(super) datagrams: DatagramSocket,
}

impl SimulatedLink {
    pub(super) fn new(index: u32, room: usize) -> SimulatedLink {
        SimulatedLink {
            index,
            stage: Stage::Fresh,
            connection: 0,
            has_edge: false,
            handshake_ns: 0,
            error: None,
            up: Lane::default(),
            down: Lane::default(),
            room,
            wants_room: false,
            at_server: Vec::new(),
            is_served: false,
            finishes_ns: u64::MAX,
            queue: VecDeque::new(),
            awaited: 1,
            ended: false,
            datagrams: DatagramSocket::default(),
        }
    }

    pub(super) fn of_datagrams(index: u32, is_ect: bool) -> SimulatedLink {
        let mut link = SimulatedLink { stage: Stage::Datagrams, ..SimulatedLink::new(index, 0) };
        link.datagrams.is_ect = is_ect;
        link
    }

    pub(super) fn connects(&mut self, handshake_ns: u64) {
        self.stage = Stage::Connecting;
        self.handshake_ns = handshake_ns;
    }

    pub(super) fn established(&mut self) {
        self.stage = Stage::Up;
    }

    pub(super) fn refused(&mut self) {
        self.stage = Stage::Dead;
        self.error = Some(Errno::CONNREFUSED);
    }

    pub(super) fn reset(&mut self) {
        self.stage = Stage::Dead;
        self.error = Some(Errno::CONNRESET);
    }

    pub(super) fn finished(&mut self) {
        self.ended = true;
    }

    /// Bytes arrived; returns whether that is reported.
    pub(super) fn arrived(&mut self, at_ns: u64, piece: Piece) -> bool {
        self.queue.push_back((at_ns, piece));
        self.is_readable()
    }

    /// Reports only this many bytes in the queue; returns whether they are already there.
    pub(super) fn awaits(&mut self, bytes: u64) -> bool {
        self.awaited = bytes;
        self.is_readable()
    }

    fn is_readable(&self) -> bool {
        self.queued() >= self.awaited
    }

    /// Bytes that can be received.
    pub(super) fn queued(&self) -> u64 {
        self.queue.iter().map(|(_, piece)| piece.len()).sum()
    }

    /// There is more space to send; returns whether a send waited for it.
    pub(super) fn acknowledged(&mut self, bytes: usize) -> bool {
        self.room = self.room.saturating_add(bytes);
        std::mem::replace(&mut self.wants_room, false)
    }

    pub(super) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// Makes the socket as good as new.
    pub(super) fn disconnected(&mut self, room: usize) {
        let (connection, has_edge, awaited) = (self.connection + 1, self.has_edge, self.awaited);
        *self = SimulatedLink { connection, has_edge, awaited, ..SimulatedLink::new(self.index, room) };
    }

    pub(super) fn closed(&mut self) {
        self.datagrams.is_closed = true;
        // What a client sent last still reaches the server.
        self.connection += u32::from(self.stage != Stage::Datagrams);
        self.stage = Stage::Closed;
    }

    /// What epoll would report of it now.
    pub(super) fn event(&self) -> Option<Event> {
        let token = u64::from(self.index);
        match self.stage {
            Stage::Connecting | Stage::Closed => None,
            Stage::Datagrams => self.datagrams.event(token),
            Stage::Fresh => Some(Event { token, ended: true, error: true, readable: false, writable: true }),
            Stage::Dead => Some(Event { token, ended: true, error: true, readable: true, writable: true }),
            Stage::Up => {
                let readable = self.ended || self.is_readable();
                Some(Event { token, ended: self.ended, error: false, readable, writable: self.room > 0 })
            }
        }
    }

    /// How many of this many bytes can be sent.
    pub(super) fn send(&mut self, bytes: usize) -> io::Result<usize> {
        match (self.error.take(), self.stage) {
            (Some(error), _) => Err(error.into()),
            (None, Stage::Up) => {
                let taken = bytes.min(self.room);
                self.room -= taken;
                self.wants_room = taken < bytes;
                Ok(taken)
            }
            (None, _) => Err(Errno::PIPE.into()),
        }
    }

    /// Reads into `to`; also returns when the last of these bytes arrived.
    pub(super) fn receive(&mut self, to: &mut [u8]) -> io::Result<(Received, Option<u64>)> {
        self.read(to.len(), Some(to))
    }

    pub(super) fn discard(&mut self, most: usize) -> io::Result<Received> {
        Ok(self.read(most, None)?.0)
    }

    fn read(&mut self, most: usize, mut to: Option<&mut [u8]>) -> io::Result<(Received, Option<u64>)> {
        let (mut read, mut last_ns) = (0, None);
        while read < most
            && let Some((arrived_ns, piece)) = self.queue.front_mut()
        {
            let count = piece.len().min((most - read) as u64) as usize;
            piece.take(count, to.as_deref_mut().map(|to| &mut to[read..]));
            read += count;
            last_ns = Some(*arrived_ns);
            if piece.len() == 0 {
                self.queue.pop_front();
            }
        }
        if read > 0 {
            return Ok((Received::Bytes(read), last_ns));
        }
        match (self.error.take(), self.stage) {
            (Some(error), _) => Err(error.into()),
            (None, Stage::Up) if !self.ended => Ok((Received::WouldBlock, None)),
            (None, Stage::Up | Stage::Dead) => Ok((Received::End, None)),
            (None, _) => Err(Errno::NOTCONN.into()),
        }
    }
}
