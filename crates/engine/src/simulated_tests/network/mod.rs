//! A simulated network and clock: what happens is scheduled, and time jumps from one event to the next. A worker on
//! it does in milliseconds what takes minutes elsewhere, and every instant that it sees is known in advance.
//!
//! This file has the clock and what a worker asks of it; `link` has one connection and its bytes in transit. What
//! servers do is a [`Peer`], which a test writes. Flags of events, errors and their order are those of TCP with epoll
//! on Linux. Names are not resolved here: a run that resolves them for each connection cannot be simulated.

mod datagrams;
mod link;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::io::Errno;

pub(crate) use self::datagrams::{DatagramPath, DatagramTotals};
use self::link::{Piece, SimulatedLink};
use crate::draws::Draws;
use crate::sys::{
    Address, Backend, Connect, Datagrams, EVENTS_PER_WAIT, Event, Received, Source, Ticks, WITHOUT_END,
};

/// The clock's first time. Not zero, which means "never" to a connection.
pub(crate) const BEGIN_NS: u64 = 1_000_000_000;
/// How long a poll for events takes, so that time passes for a loop that does nothing but poll; and after how many
/// polls at the same instant.
const POLL_NS: u64 = 500;
const POLLS_MAX: u32 = 3;

/// What the servers of a simulated network do.
pub(crate) trait Peer {
    /// A client begins to connect.
    fn connect(&mut self, now_ns: u64, address: &Address) -> Attempt;

    /// Takes the next whole request from what has reached the server on a connection.
    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        take_http1_request(at_server)
    }

    /// The server has read a whole request.
    fn answer(&mut self, now_ns: u64, request: &[u8]) -> Vec<Act>;

    /// A datagram has arrived from a client's socket, known by its number.
    fn hear_datagram(&mut self, _now_ns: u64, _socket: usize, _bytes: &[u8], _ecn: u8) {}

    /// When it has something to do by itself.
    fn datagrams_due_ns(&mut self) -> Option<u64> {
        None
    }

    /// Does what is due, and returns datagrams to send: socket, content, ECN bits.
    fn drive_datagrams(&mut self, _now_ns: u64) -> Vec<(usize, Vec<u8>, u8)> {
        Vec::new()
    }

    /// Where the network counts datagrams, so that a test can read it afterwards.
    fn datagram_totals(&mut self) -> &mut DatagramTotals {
        unreachable!("a server that has no datagrams")
    }
}

/// The next whole request of HTTP/1.
pub(crate) fn take_http1_request(at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
    let head = memchr::memmem::find(at_server, b"\r\n\r\n")? + 4;
    let length = memchr::memmem::find(&at_server[..head], b"Content-Length: ").map_or(0, |at| {
        let digits = at_server[at + 16..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |length, digit| 10 * length + usize::from(digit - b'0'))
    });
    let whole = head + length;
    (at_server.len() >= whole).then(|| at_server.drain(..whole).collect())
}

/// The result of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The connection is established after the handshake; the server reads from it after `served_ns`. Both count from the attempt.
    Stands { handshake_ns: u64, served_ns: u64 },
    /// It is established at once, like that of a Unix socket.
    StandsAtOnce,
    /// Nobody listens: reported after this time.
    Refused { after_ns: u64 },
    /// Nothing ever comes back.
    Lost,
    /// The call itself fails.
    Fails(Errno),
}

/// What a server does for a request, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Lets time pass, in nanoseconds.
    Wait(u64),
    /// Writes bytes.
    Write(Vec<u8>),
    /// Writes this many bytes, whose content does not matter.
    Fill(u64),
    /// Closes the connection after what was written.
    Finish,
    /// Resets it after what was written.
    Reset,
}

/// The network between clients and servers, and the machine of the clients.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// How long a byte takes, each way.
    pub(crate) latency_ns: u64,
    /// Bandwidth of a connection in each direction; absent: unlimited.
    pub(crate) bytes_per_s: Option<u64>,
    /// Maximum number of bytes that arrive together.
    pub(crate) segment_bytes: usize,
    /// How much a socket takes before the server acknowledges it.
    pub(crate) send_room: usize,
    /// Maximum number of bytes that one read returns.
    pub(crate) receives_most: usize,
    /// How long each call on a socket takes.
    pub(crate) call_ns: u64,
    /// Spans in which the machine stands still, counted from [`BEGIN_NS`]: a wait that would end in one ends at its end.
    pub(crate) stalls: Vec<(u64, u64)>,
    /// What happens to datagrams.
    pub(crate) datagrams: DatagramPath,
    /// Time passes between any two readings of the clock, mostly a little, as on a busy machine: drawn from this seed.
    pub(crate) interrupted: Option<u64>,
}

impl Default for Wire {
    fn default() -> Wire {
        Wire {
            latency_ns: 0,
            bytes_per_s: None,
            segment_bytes: usize::MAX,
            send_room: usize::MAX,
            receives_most: 16 * 1024,
            call_ns: 0,
            stalls: Vec::new(),
            datagrams: DatagramPath::default(),
            interrupted: None,
        }
    }
}

/// Something that will happen to a link, unless it has another connection by then.
#[derive(Debug)]
enum Happening {
    Established,
    Refused,
    /// Bytes reach the server.
    Request(Vec<u8>),
    /// The server begins to read.
    Served,
    /// Bytes that were sent are acknowledged.
    Room(usize),
    /// Bytes reach the client.
    Arrived(Piece),
    Finished,
    Reset,
    /// A datagram reaches the server; or the client.
    DatagramThere(Vec<u8>, u8),
    DatagramHere(Vec<u8>, u8),
}

/// See the module comment. Not generic over the peer: the whole worker would be compiled for each test.
pub(crate) struct Simulated<'a> {
    peer: &'a mut dyn Peer,
    wire: Wire,
    now_ns: Cell<u64>,
    /// State of the random numbers for interruptions.
    draws: Cell<u64>,
    /// Links by number; numbers are not used again.
    links: Vec<SimulatedLink>,
    /// What will happen, by instant and then in the order of scheduling.
    schedule: BinaryHeap<Reverse<(u64, u64)>>,
    /// What will happen, by its number in the schedule: on which link, on which of its connections.
    happenings: BTreeMap<u64, (usize, u32, Happening)>,
    scheduled: u64,
    /// Links that have something to report, each once.
    edges: VecDeque<usize>,
    ticker: Option<Ticker>,
    events: Vec<Event>,
    buffer: Vec<u8>,
    batches: Vec<(Datagrams, Vec<u8>)>,
    datagram_draws: Draws,
    /// How many polls found nothing, without waiting, since the clock last moved.
    polls: u32,
}

struct Ticker {
    period_ns: u64,
    token: u64,
    due_ns: u64,
    was_told: bool,
}

impl<'a> Simulated<'a> {
    pub(crate) fn new(peer: &'a mut dyn Peer, wire: Wire) -> Simulated<'a> {
        Simulated {
            buffer: vec![0; wire.receives_most],
            batches: Vec::new(),
            datagram_draws: Draws(wire.datagrams.seed),
            draws: Cell::new(wire.interrupted.unwrap_or(0)),
            peer,
            wire,
            now_ns: Cell::new(BEGIN_NS),
            links: Vec::new(),
            schedule: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            scheduled: 0,
            edges: VecDeque::new(),
            ticker: None,
            events: Vec::new(),
            polls: 0,
        }
    }

    fn at(&mut self, at_ns: u64, link: usize, happening: Happening) {
        self.schedule.push(Reverse((at_ns, self.scheduled)));
        self.happenings.insert(self.scheduled, (link, self.links[link].connection, happening));
        self.scheduled += 1;
    }

    /// When something happens next.
    fn next_ns(&mut self) -> u64 {
        let by_itself = self.peer.datagrams_due_ns();
        let tick = self.ticker.as_ref().filter(|ticker| !ticker.was_told).map(|ticker| ticker.due_ns);
        let next = self.schedule.peek().map(|Reverse((at, _))| *at);
        tick.into_iter().chain(next).chain(by_itself).min().unwrap_or(u64::MAX)
    }

    /// Moves the clock, and lets everything happen that is due by then, each at its own instant.
    pub(crate) fn pass_to(&mut self, at_ns: u64) {
        self.now_ns.set(self.now_ns.get().max(at_ns));
        loop {
            let next = self.schedule.peek().copied().filter(|Reverse((at, _))| *at <= self.now_ns.get());
            let before = next.map_or(self.now_ns.get(), |Reverse((at, _))| at);
            if let Some(due_ns) = self.peer.datagrams_due_ns().filter(|due_ns| *due_ns <= before) {
                self.drive_peer(due_ns);
                continue;
            }
            let Some(Reverse((at, number))) = next else { break };
            self.schedule.pop();
            let (link, connection, happening) = self.happenings.remove(&number).expect("scheduled once");
            if self.links[link].connection == connection {
                self.happen(at, link, happening);
            }
        }
    }

    /// Lets time pass before the clock is read, if interruptions are requested: up to 200 ns, every tenth time up to
    /// 20 µs, every hundredth up to 15 ms.
    fn interrupt(&self) {
        if self.wire.interrupted.is_none() {
            return;
        }
        // Linear congruential, by D. Knuth (MMIX); its upper bits are good enough.
        let draw =
            self.draws.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.draws.set(draw);
        let (kind, span) = ((draw >> 48) % 100, (draw >> 20) & 0xfff_ffff);
        let most_ns = match kind {
            0 => 15_000_000,
            1..10 => 20_000,
            _ => 200,
        };
        self.now_ns.set(self.now_ns.get() + span % most_ns);
    }

    /// Accounts for a call on a socket.
    fn call(&mut self) {
        self.pass_to(self.now_ns.get() + self.wire.call_ns);
    }

    fn happen(&mut self, at_ns: u64, number: usize, happening: Happening) {
        let link = &mut self.links[number];
        match happening {
            Happening::Established => link.established(),
            Happening::Refused => link.refused(),
            Happening::Arrived(piece) => {
                if !link.arrived(at_ns, piece) {
                    return;
                }
            }
            Happening::Finished => link.finished(),
            Happening::Reset => link.reset(),
            Happening::Room(bytes) => {
                if !link.acknowledged(bytes) {
                    return;
                }
            }
            Happening::Request(bytes) => {
                link.at_server.extend_from_slice(&bytes);
                if link.finishes_ns <= at_ns {
                    // A server that has closed answers everything with a reset.
                    return self.at(at_ns + self.wire.latency_ns, number, Happening::Reset);
                }
                return self.serve(at_ns, number);
            }
            Happening::DatagramThere(bytes, ecn) => return self.datagram_there(at_ns, number, &bytes, ecn),
            Happening::DatagramHere(bytes, ecn) => return self.datagram_here(number, bytes, ecn),
            Happening::Served => {
                link.is_served = true;
                return self.serve(at_ns, number);
            }
        }
        self.edge(number);
    }

    fn edge(&mut self, number: usize) {
        if !std::mem::replace(&mut self.links[number].has_edge, true) {
            self.edges.push_back(number);
        }
    }

    /// Lets the server read what has arrived.
    fn serve(&mut self, at_ns: u64, number: usize) {
        while self.links[number].is_served
            && self.links[number].finishes_ns == u64::MAX
            && let Some(request) = self.peer.take_request(&mut self.links[number].at_server)
        {
            let acts = self.peer.answer(at_ns, &request);
            self.play(at_ns, number, acts);
        }
    }

    /// Schedules what a server does from an instant on.
    fn play(&mut self, mut at_ns: u64, number: usize, acts: Vec<Act>) {
        let latency_ns = self.wire.latency_ns;
        for act in acts {
            match act {
                Act::Wait(span_ns) => at_ns += span_ns,
                Act::Write(bytes) => {
                    for segment in bytes.chunks(self.wire.segment_bytes) {
                        let left_ns = self.links[number].down.carry(at_ns, segment.len() as u64, &self.wire);
                        let piece = Piece::Bytes(segment.to_vec());
                        self.at(left_ns + latency_ns, number, Happening::Arrived(piece));
                    }
                }
                Act::Fill(bytes) => {
                    let left_ns = self.links[number].down.carry(at_ns, bytes, &self.wire);
                    self.at(left_ns + latency_ns, number, Happening::Arrived(Piece::Fill(bytes)));
                }
                Act::Finish | Act::Reset => {
                    self.links[number].finishes_ns = at_ns;
                    let left_ns = self.links[number].down.carry(at_ns, 0, &self.wire);
                    let ends = if act == Act::Finish { Happening::Finished } else { Happening::Reset };
                    return self.at(left_ns + latency_ns, number, ends);
                }
            }
        }
    }

    /// Collects what there is to report.
    fn gather(&mut self) {
        self.events.clear();
        if let Some(ticker) = &mut self.ticker
            && ticker.due_ns <= self.now_ns.get()
            && !std::mem::replace(&mut ticker.was_told, true)
        {
            self.events.push(Event { token: ticker.token, readable: true, ..Event::default() });
        }
        while self.events.len() < EVENTS_PER_WAIT
            && let Some(number) = self.edges.pop_front()
        {
            self.links[number].has_edge = false;
            self.events.extend(self.links[number].event());
        }
    }

    /// When a wait that would end at this instant really ends.
    fn awake_ns(&self, at_ns: u64) -> u64 {
        let since_ns = at_ns - BEGIN_NS;
        let stall = self.wire.stalls.iter().find(|(from, to)| (*from..*to).contains(&since_ns));
        stall.map_or(at_ns, |(_, to)| BEGIN_NS + to)
    }
}

impl Backend for Simulated<'_> {
    /// The link's number.
    type Socket = usize;

    const NAME: &'static str = "simulated";

    fn now_ns(&self) -> u64 {
        self.interrupt();
        self.now_ns.get()
    }

    fn sleep_until(&mut self, at_ns: u64) {
        self.pass_to(at_ns);
    }

    fn spin_until(&mut self, at_ns: u64) -> u64 {
        self.pass_to(self.awake_ns(at_ns));
        self.now_ns.get()
    }

    fn watch(&mut self, _: impl AsFd, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn tick_every(&mut self, period_ns: u64, token: u64) -> io::Result<()> {
        self.ticker =
            Some(Ticker { period_ns, token, due_ns: self.now_ns.get() + period_ns, was_told: false });
        Ok(())
    }

    fn take_ticks(&mut self) -> Option<Ticks> {
        let now_ns = self.now_ns.get();
        let ticker = self.ticker.as_mut().filter(|ticker| ticker.due_ns <= now_ns)?;
        let count = (now_ns - ticker.due_ns) / ticker.period_ns + 1;
        let ticks = Ticks { due_ns: ticker.due_ns, count };
        ticker.due_ns += count * ticker.period_ns;
        ticker.was_told = false;
        Some(ticks)
    }

    fn open(&mut self, index: u32, _: &Address, _: Option<Source>) -> io::Result<usize> {
        self.links.push(SimulatedLink::new(index, self.wire.send_room));
        // epoll reports a socket that is not connected as hung up.
        self.edge(self.links.len() - 1);
        Ok(self.links.len() - 1)
    }

    fn close(&mut self, socket: usize) {
        self.links[socket].closed();
    }

    fn connect(&mut self, socket: &usize, address: &Address) -> io::Result<Connect> {
        self.call();
        let now = self.now_ns.get();
        match self.peer.connect(now, address) {
            Attempt::Stands { handshake_ns, served_ns } => {
                self.links[*socket].connects(handshake_ns);
                self.at(now + handshake_ns, *socket, Happening::Established);
                self.at(now + served_ns, *socket, Happening::Served);
            }
            Attempt::StandsAtOnce => {
                let link = &mut self.links[*socket];
                link.established();
                link.is_served = true;
                self.edge(*socket);
                return Ok(Connect::Done);
            }
            Attempt::Refused { after_ns } => {
                self.links[*socket].connects(0);
                self.at(now + after_ns, *socket, Happening::Refused);
            }
            Attempt::Lost => self.links[*socket].connects(0),
            Attempt::Fails(errno) => return Err(errno.into()),
        }
        Ok(Connect::InProgress)
    }

    fn connect_error(&mut self, socket: &usize) -> Option<io::Error> {
        self.links[*socket].error.take().map(io::Error::from)
    }

    fn local_address(&self, _: &usize) -> Option<SocketAddr> {
        None
    }

    fn handshake_ns(&self, socket: &usize) -> Option<u64> {
        Some(self.links[*socket].handshake_ns)
    }

    fn send(&mut self, socket: &usize, bytes: &[u8]) -> io::Result<usize> {
        self.call();
        let now = self.now_ns.get();
        let link = &mut self.links[*socket];
        let taken = link.send(bytes.len())?;
        if taken > 0 {
            let arrives_ns = link.up.carry(now, taken as u64, &self.wire) + self.wire.latency_ns;
            self.at(arrives_ns, *socket, Happening::Request(bytes[..taken].to_vec()));
            self.at(arrives_ns + self.wire.latency_ns, *socket, Happening::Room(taken));
        }
        Ok(taken)
    }

    fn receive(&mut self, socket: &usize) -> io::Result<Received> {
        Ok(self.receive_stamped(socket)?.0)
    }

    fn receive_up_to(&mut self, socket: &usize, most: usize) -> io::Result<Received> {
        self.call();
        let most = most.min(self.buffer.len());
        Ok(self.links[*socket].receive(&mut self.buffer[..most])?.0)
    }

    fn queued(&self, socket: &usize) -> usize {
        self.links[*socket].queued() as usize
    }

    fn bound_queue(&mut self, _: &usize, _: u32) {}

    fn stamp(&mut self, _: &usize) -> io::Result<()> {
        Ok(())
    }

    fn receive_stamped(&mut self, socket: &usize) -> io::Result<(Received, Option<u64>)> {
        self.call();
        let (received, arrived_ns) = self.links[*socket].receive(&mut self.buffer)?;
        Ok((received, arrived_ns.map(|arrived_ns| self.now_ns.get() - arrived_ns)))
    }

    fn receives_most(&self) -> usize {
        self.buffer.len()
    }

    fn awaits(&mut self, socket: &usize, bytes: u32) {
        self.call();
        if self.links[*socket].awaits(u64::from(bytes)) {
            self.edge(*socket);
        }
    }

    fn bytes(&self, n: usize) -> &[u8] {
        &self.buffer[..n]
    }

    fn discard(&mut self, socket: &usize, most: usize) -> io::Result<Received> {
        self.call();
        self.links[*socket].discard(most)
    }

    fn shutdown_write(&mut self, socket: &usize) -> io::Result<()> {
        self.call();
        if self.links[*socket].is_up() { Ok(()) } else { Err(Errno::NOTCONN.into()) }
    }

    fn disconnect(&mut self, socket: &usize) -> io::Result<()> {
        self.call();
        self.links[*socket].disconnected(self.wire.send_room);
        self.edge(*socket);
        Ok(())
    }

    fn reset_on_close(&mut self, _: &usize) -> io::Result<()> {
        Ok(())
    }

    fn open_datagrams(
        &mut self,
        index: u32,
        _: &SocketAddr,
        _: Option<Source>,
        is_ect: bool,
    ) -> io::Result<usize> {
        self.links.push(SimulatedLink::of_datagrams(index, is_ect));
        Ok(self.links.len() - 1)
    }

    fn mark_datagrams(&mut self, socket: &usize, _: &SocketAddr, is_ect: bool) {
        self.links[*socket].datagrams.is_ect = is_ect;
    }

    fn send_datagrams(&mut self, socket: &usize, bytes: &[u8], segment: usize) -> io::Result<bool> {
        self.call();
        self.send_each(*socket, bytes, segment);
        Ok(true)
    }

    fn receive_datagrams(&mut self, socket: &usize, most: usize) -> io::Result<usize> {
        self.call();
        self.receive_batches(*socket, most)
    }

    fn batch(&mut self, number: usize) -> (Datagrams, &mut [u8]) {
        let (batch, bytes) = &mut self.batches[number];
        (*batch, bytes)
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.pass_to(self.now_ns.get());
        let begun_ns = self.now_ns.get();
        let until_ns = match timeout_ns {
            WITHOUT_END => u64::MAX,
            0 if self.polls >= POLLS_MAX => begun_ns + POLL_NS,
            _ => begun_ns.saturating_add(timeout_ns),
        };
        loop {
            self.gather();
            if !self.events.is_empty() || self.now_ns.get() >= until_ns {
                break;
            }
            let next_ns = self.next_ns().min(until_ns);
            assert!(next_ns < u64::MAX, "someone waits for what will never happen");
            self.pass_to(self.awake_ns(next_ns));
        }
        let in_vain = timeout_ns == 0 && self.now_ns.get() == begun_ns && self.events.is_empty();
        self.polls = if in_vain { self.polls + 1 } else { 0 };
        Ok(self.events.len())
    }

    fn event(&self, number: usize) -> Event {
        self.events[number]
    }
}
