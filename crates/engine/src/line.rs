//! Clients with lines of their own, such as modems: what has arrived is read only as fast as the client's line would
//! deliver it, so that the rest stays with the server.
//!
//! A line delivers one piece after the other, for all connections of its client in turn. A piece is what waits in a
//! socket, but no more than the line delivers in a twentieth of a second. It is read when its last byte would arrive. An
//! answer ends with a piece, so that its end is exact; its first byte may be late by a piece.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use webstone_measure::units::Bandwidth;

use crate::exchange::Exchanges;
use crate::layer::Layer;
use crate::link::{HeldOver, LinkState};
use crate::session::Session;
use crate::sys::Backend;
use crate::worker::Worker;

/// Pieces of a line per second, and the smallest and the largest piece in bytes.
const PIECES_PER_S: u64 = 20;
const PIECE_BYTES_MIN: u64 = 64;
const PIECE_BYTES_MAX: u64 = 16 << 10;
/// The smallest receive queue of a connection that is asked for, in bytes. The kernel's own minimum is half of it.
const QUEUE_BYTES_MIN: u64 = 8 << 10;
/// The largest. For faster lines, the kernel's own choice is small enough.
const QUEUE_BYTES_MAX: u64 = 128 << 10;
/// Maximum number of pieces that are read in a round.
const PIECES_MAX: usize = 256;

/// A piece on a line: when its last byte arrives, the link, its connection, and the number of bytes.
type Piece = (u64, u32, u32, u32);

/// The lines of a worker's clients.
pub(crate) struct Lines {
    bandwidth: Option<Bandwidth>,
    pieces: BinaryHeap<Reverse<Piece>>,
}

impl Lines {
    pub(crate) fn new(bandwidth: Option<Bandwidth>) -> Lines {
        Lines { bandwidth, pieces: BinaryHeap::new() }
    }

    /// Whether clients have lines of their own.
    #[inline]
    pub(crate) fn are_limited(&self) -> bool {
        self.bandwidth.is_some()
    }

    /// When the next piece arrives; [`u64::MAX`] if none is due.
    #[inline]
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.pieces.peek().map_or(u64::MAX, |Reverse((due_ns, ..))| *due_ns)
    }

    /// How large the receive queue of a connection should be, in bytes: what the line delivers in a quarter of a second.
    /// `None` if the kernel's own choice is right.
    pub(crate) fn queue_bytes(&self) -> Option<u32> {
        let bytes = (self.bandwidth?.bits_per_s() / 32).max(QUEUE_BYTES_MIN);
        (bytes <= QUEUE_BYTES_MAX).then_some(bytes as u32)
    }
}

fn piece_bytes(bandwidth: Bandwidth) -> u64 {
    (bandwidth.bits_per_s() / 8 / PIECES_PER_S).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
}

impl<B: Backend, L: Layer, P: Session> Worker<B, L, P> {
    /// Bytes, or the end, have arrived on a link; its client's line must still deliver them.
    #[cold]
    pub(crate) fn await_line(&mut self, index: u32, ended: bool) {
        let now = self.now();
        self.bring_from(index, ended, now);
    }

    /// Puts a piece of what waits on a link on the line, from `from_ns` or as soon as the line is free.
    fn bring_from(&mut self, index: u32, ended: bool, from_ns: u64) {
        let Some(bandwidth) = self.lines.bandwidth else { return };
        let link = &mut self.links[index];
        if link.held_over != HeldOver::No {
            // A piece of this link is on the line already, and no further event reports the end.
            if ended {
                link.held_over = HeldOver::Ended;
            }
            return;
        }
        let socket = link.socket.as_ref().expect("an established connection has one");
        let queued = self.backend.queued(socket) as u64;
        if queued == 0 {
            if ended {
                self.take_piece(index, true, 1);
            }
            return;
        }
        let bytes = queued.min(piece_bytes(bandwidth));
        let client = &mut self.clients[link.exchanges.at(0).client];
        let due_ns = client.line_free_ns.max(from_ns) + bandwidth.time_of(bytes).0;
        client.line_free_ns = due_ns;
        link.held_over = if ended { HeldOver::Ended } else { HeldOver::Open };
        self.lines.pieces.push(Reverse((due_ns, index, link.connection, bytes as u32)));
    }

    /// Reads the pieces that have arrived; returns whether there were any.
    #[inline]
    pub(crate) fn read_lines(&mut self, now: u64) -> bool {
        now >= self.lines.next_due_ns() && self.read_pieces(now)
    }

    #[cold]
    fn read_pieces(&mut self, now: u64) -> bool {
        for _ in 0..PIECES_MAX {
            if self.lines.next_due_ns() > now {
                break;
            }
            let Some(Reverse((due_ns, index, connection, bytes))) = self.lines.pieces.pop() else { break };
            let link = &mut self.links[index];
            let is_there = link.connection == connection
                && (link.state.is_up() || link.state == LinkState::Handshaking)
                && link.held_over != HeldOver::No;
            if !is_there {
                continue;
            }
            let ended = std::mem::replace(&mut link.held_over, HeldOver::No) == HeldOver::Ended;
            self.recorder.loop_delay(now - due_ns);
            self.take_piece(index, ended, bytes as usize);
            self.go_on_after(index, connection, ended, due_ns);
        }
        true
    }

    /// Reads up to this many bytes of a link.
    fn take_piece(&mut self, index: u32, ended: bool, bytes: usize) {
        let link = &self.links[index];
        if link.state == LinkState::Handshaking {
            return self.shake_hands(index, true, ended, bytes);
        }
        match P::Exchanges::MANY || link.exchanges.any_in_progress() {
            true => self.take_in(index, ended, bytes),
            false => self.idle_event(index),
        }
    }

    /// Continues after a piece: what else waits on the link raises no further event.
    fn go_on_after(&mut self, index: u32, connection: u32, ended: bool, from_ns: u64) {
        let link = &self.links[index];
        let Some(socket) = link.socket.as_ref().filter(|_| link.connection == connection) else { return };
        match link.state {
            LinkState::Up | LinkState::Full | LinkState::Handshaking => {
                let is_idle = link.state.is_up() && !P::Exchanges::MANY && !link.exchanges.any_in_progress();
                match is_idle {
                    true if self.backend.queued(socket) > 0 => self.idle_event(index),
                    true => {}
                    false => self.bring_from(index, ended, from_ns),
                }
            }
            LinkState::Lingering if self.backend.queued(socket) > 0 => self.linger(index),
            _ => {}
        }
    }
}
