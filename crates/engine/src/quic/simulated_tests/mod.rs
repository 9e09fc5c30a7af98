//! The client against quinn-proto's server on a simulated path, in virtual time. A schedule is drawn from a seed: what the path does
//! to datagrams, what is asked for, and what is answered. Every byte must arrive, and every count must add up.

mod path;
mod schedules;
pub(super) mod server;

use rustls::pki_types::ServerName;

use super::counts::DirectionCounts;
use super::{Connection, Events, Settings, Stream, fuzzing};
use path::Path;
use server::{ANSWER, CODE, HEAD_BYTES, RESET, STOP, Server, content};

pub(super) const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// A request of the client.
#[derive(Clone, Copy, Debug)]
struct Request {
    answer_bytes: u32,
    body_bytes: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Answer,
    ServerResets,
    ServerStops,
    /// The client gives up as soon as something has arrived.
    ClientResets,
}

/// What came of a request.
#[derive(Clone, Debug, Default)]
struct Exchange {
    id: u64,
    written: usize,
    got: u64,
    is_over: bool,
    was_reset: bool,
    was_stopped: bool,
}

/// What the client's owner knows.
#[derive(Debug, Default)]
struct Owner {
    requests: Vec<Request>,
    exchanges: Vec<Exchange>,
    in_progress: usize,
    writable: Vec<u32>,
    received: u64,
}

impl Events for Owner {
    fn data(&mut self, stream: Stream, bytes: &[u8], is_last: bool) {
        let exchange = &mut self.exchanges[stream.tag as usize];
        assert!(!exchange.is_over && exchange.id == stream.id, "{stream:?}");
        assert!(is_last || !bytes.is_empty());
        for byte in bytes {
            assert_eq!(
                *byte,
                content(stream.id, exchange.got),
                "stream {}, byte {}",
                stream.id,
                exchange.got
            );
            exchange.got += 1;
        }
        self.received += bytes.len() as u64;
        exchange.is_over = is_last;
        self.in_progress -= usize::from(is_last);
    }

    fn reset(&mut self, stream: Stream, code: u64) {
        let exchange = &mut self.exchanges[stream.tag as usize];
        assert!(!exchange.is_over && code == CODE, "{stream:?}, {code}");
        (exchange.is_over, exchange.was_reset) = (true, true);
        self.in_progress -= 1;
    }

    fn stopped(&mut self, stream: Stream, code: u64) {
        assert_eq!(code, CODE);
        self.exchanges[stream.tag as usize].was_stopped = true;
    }

    fn writable(&mut self, stream: Stream) {
        self.writable.push(stream.tag);
    }
}

/// A client and a server on a path.
struct World {
    now_ns: u64,
    path: Path,
    client: Connection,
    server: Server,
    owner: Owner,
    /// Maximum number of streams in progress.
    parallel: usize,
    /// The client's timer has ticks of a millisecond.
    ticks: bool,
    out: Vec<u8>,
}

impl World {
    fn new(path: Path, server: Server) -> World {
        World {
            now_ns: SECOND,
            path,
            client: Connection::default(),
            server,
            owner: Owner::default(),
            parallel: 1,
            ticks: false,
            out: vec![0; 64 * 1472],
        }
    }

    fn open(&mut self, settings: &Settings, requests: Vec<Request>) {
        let id = self.path.draws.next().to_be_bytes();
        self.client.open(settings, ServerName::try_from("localhost").unwrap(), id, self.now_ns).unwrap();
        self.owner = Owner { requests, ..Owner::default() };
    }

    /// Begins requests, and continues those that were cut short.
    fn ask(&mut self) {
        while self.owner.exchanges.len() < self.owner.requests.len() && self.owner.in_progress < self.parallel
        {
            let tag = self.owner.exchanges.len() as u32;
            let Some(id) = self.client.open_bi(tag) else { break };
            self.owner.exchanges.push(Exchange { id, ..Exchange::default() });
            self.owner.in_progress += 1;
            self.write(tag);
        }
        for tag in std::mem::take(&mut self.owner.writable) {
            self.write(tag);
        }
        for tag in 0..self.owner.exchanges.len() {
            let exchange = &mut self.owner.exchanges[tag];
            if self.owner.requests[tag].what == What::ClientResets && exchange.got > 0 && !exchange.is_over {
                exchange.is_over = true;
                self.owner.in_progress -= 1;
                self.client.reset(exchange.id, CODE);
            }
        }
    }

    fn write(&mut self, tag: u32) {
        let request = self.owner.requests[tag as usize];
        let exchange = &mut self.owner.exchanges[tag as usize];
        let what = match request.what {
            What::Answer | What::ClientResets => ANSWER,
            What::ServerResets => RESET,
            What::ServerStops => STOP,
        };
        let mut whole = request.answer_bytes.to_be_bytes().to_vec();
        whole.push(what);
        whole.extend((HEAD_BYTES..HEAD_BYTES + request.body_bytes).map(|at| content(exchange.id, at as u64)));
        exchange.written += self.client.write(exchange.id, &whole[exchange.written..], true);
    }

    fn flush(&mut self) {
        while let Some(packed) = self.client.pack(self.now_ns, &mut self.out) {
            assert!(packed.bytes > 0 && packed.segment <= packed.bytes);
            if self.path.is_narrow_at_client && packed.is_probe && packed.bytes > self.path.mtu {
                self.path.too_long += 1;
                self.client.take_back(packed.bytes);
                self.check();
                continue;
            }
            for datagram in self.out[..packed.bytes].chunks(packed.segment) {
                self.path.send(self.now_ns, true, datagram, if packed.is_ect { 2 } else { 0 });
            }
            self.check();
        }
    }

    /// One step: sends, lets time pass until something happens, and lets both sides act on it. Returns whether anything can still happen.
    fn step(&mut self) -> bool {
        self.ask();
        self.flush();
        self.server.drive(self.now_ns, &mut self.path);
        let tick = if self.ticks { MS } else { 1 };
        let due = self.client.due_ns().map(|at| at.max(self.now_ns).div_ceil(tick) * tick);
        let next = [self.path.next_ns(), due, self.server.due_ns()].into_iter().flatten().min();
        let Some(next) = next else { return false };
        self.now_ns = self.now_ns.max(next);
        while let Some(mut flying) = self.path.take(self.now_ns) {
            if flying.is_to_server {
                self.server.hear(self.now_ns, &flying.bytes, flying.ecn, &mut self.path);
            } else {
                let before = self.client.counts().received;
                self.client.hear(self.now_ns, &mut flying.bytes, flying.ecn, &mut self.owner);
                never_falls(before, self.client.counts().received);
            }
        }
        if due.is_some_and(|due| due <= self.now_ns) {
            self.client.timeout(self.now_ns);
        }
        self.check();
        true
    }

    /// Runs until a condition holds, or the client failed.
    fn run_until(&mut self, mut is_done: impl FnMut(&World) -> bool) -> bool {
        let end = self.now_ns + 300 * SECOND;
        for _ in 0..1_000_000 {
            if is_done(self) {
                return true;
            }
            if !self.step() || self.now_ns > end || self.client.failure().is_some() {
                return false;
            }
        }
        false
    }

    fn is_all_over(&self) -> bool {
        self.owner.exchanges.len() == self.owner.requests.len()
            && self.owner.exchanges.iter().all(|exchange| exchange.is_over)
    }

    /// What must hold of counts at any time.
    fn check(&self) {
        fuzzing::check(&self.client);
    }

    /// Runs all requests, closes, and checks what came of them.
    fn finish(&mut self) {
        let is_done = self.run_until(World::is_all_over);
        assert!(is_done, "{:?} after {} ns: {:?}", self.client.failure(), self.now_ns, self.client.counts());
        for (request, exchange) in self.owner.requests.iter().zip(&self.owner.exchanges) {
            match request.what {
                What::Answer => assert!(
                    !exchange.was_reset && exchange.got == u64::from(request.answer_bytes),
                    "{request:?}, {exchange:?}"
                ),
                // A reset may overtake data.
                What::ServerResets => {
                    assert!(exchange.was_reset && exchange.got <= u64::from(request.answer_bytes))
                }
                What::ServerStops => {
                    assert!(!exchange.was_reset && exchange.got == u64::from(request.answer_bytes))
                }
                What::ClientResets => {}
            }
        }
        self.client.close(0x100, "");
        self.flush();
        assert!(self.client.is_closed());
        self.check();
    }
}

/// No count may fall: those of a window are differences between its end and its beginning.
fn never_falls(before: DirectionCounts, now: DirectionCounts) {
    let all = |it: DirectionCounts| {
        let parts = [it.stream_new, it.stream_repeated, it.other_frames, it.padding, it.overhead];
        [&parts[..], &[it.ignored, it.datagrams, it.udp_bytes]].concat()
    };
    let falls = all(before).iter().zip(all(now)).any(|(before, now)| *before > now);
    assert!(!falls, "{before:?}, then {now:?}");
}
