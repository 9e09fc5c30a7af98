//! A random schedule, drawn from a seed: what clients ask for, and the result of each attempt and each request, which
//! depend on the instant of the attempt or request. So worker and model get different answers if one of them is late
//! by a nanosecond.

use webstone_measure::errors::ErrorClass;
use webstone_measure::units::Nanos;
use webstone_workload::Page;
use webstone_workload::load::{ConnectionPolicy, WhenBusy};

use super::{Level, MS, POLICIES, SECOND, US, file};
use crate::plan::Plan;
use crate::simulated_tests::network::{Act, Attempt, BEGIN_NS, Peer, Wire};
use crate::sys::Address;

/// The schedule that belongs to a seed.
#[derive(Debug)]
pub(super) struct Schedule {
    seed: u64,
    grid_ns: u64,
    pub(super) policy: ConnectionPolicy,
    pub(super) clients: usize,
    pub(super) targets: usize,
    pub(super) rate: Option<u64>,
    pub(super) skips: bool,
    pub(super) pages: Vec<PageDrawn>,
    pub(super) uses_max: u32,
    pub(super) warmup_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) latency_ns: u64,
    pub(super) send_room: usize,
    pub(super) connect_timeout_ns: u64,
    pub(super) first_byte_timeout_ns: u64,
    pub(super) request_timeout_ns: u64,
    receives_most: usize,
    /// How many of a thousand attempts and answers go wrong.
    trouble: u64,
    /// Size in bytes of each page's requests: keeping the connection, and ending it.
    request_bytes: Vec<Vec<[usize; 2]>>,
}

#[derive(Debug)]
pub(super) struct PageDrawn {
    pub(super) files: usize,
    pub(super) think_ns: u64,
}

/// The result of an attempt to connect.
pub(super) struct ConnectFate {
    /// When it succeeds, after the attempt; `None`: never.
    pub(super) stands_ns: Option<u64>,
    pub(super) error: Option<ErrorClass>,
    /// When the server begins to read, after the attempt.
    pub(super) served_ns: u64,
    attempt: Attempt,
}

/// How a server ends a connection after what it wrote, and how long afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Never,
    Finish(u64),
    Reset(u64),
}

/// The result of a request.
pub(super) struct AnswerFate {
    /// The pieces of the answer: how long after the previous one each comes, and its size in bytes.
    pub(super) pieces: Vec<(u64, u64)>,
    pub(super) ending: Ending,
    /// Bytes of the whole answer, and of its head.
    pub(super) whole_bytes: u64,
    pub(super) head_bytes: u64,
    pub(super) until_close: bool,
    pub(super) is_garbage: bool,
    /// Whether the status is the expected one.
    pub(super) ok: bool,
    /// Whether the head does not announce the end of the connection.
    pub(super) keeps: bool,
    bytes: Vec<u8>,
}

/// All instants of an open loop are multiples of this. In the last 1.5 µs before an arrival a worker only reads the
/// clock, and would notice anything else late. So here everything happens at an arrival, or well before it.
const OPEN_GRID_NS: u64 = 10_000;
/// Arrivals per second whose intervals are multiples of `OPEN_GRID_NS`.
const RATES: [u64; 9] = [20, 50, 100, 125, 200, 400, 500, 800, 1000];

/// SplitMix64 (G. Steele, D. Lea, C. Flood, 2014), with a key for each question.
struct Draw {
    state: u64,
    grid_ns: u64,
}

impl Draw {
    fn from_seed(seed: u64, grid_ns: u64, key: [u64; 2]) -> Draw {
        let mut draw = Draw { state: seed, grid_ns };
        for part in key {
            draw.state = draw.next() ^ part;
        }
        draw
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A time from 0 up to, but not including, `end_ns`.
    fn time(&mut self, end_ns: u64) -> u64 {
        self.below(end_ns) / self.grid_ns * self.grid_ns
    }

    /// The same, but never 0.
    fn some_time(&mut self, end_ns: u64) -> u64 {
        self.grid_ns + self.time(end_ns)
    }

    /// A number from 0 up to, but not including, `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of_thousand(&mut self, share: u64) -> bool {
        self.below(1000) < share
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

impl Schedule {
    /// A closed loop with trouble of every kind, or with `is_open` an open loop.
    pub(super) fn new(seed: u64, is_open: bool) -> Schedule {
        let grid_ns = if is_open { OPEN_GRID_NS } else { 1 };
        let mut draw = Draw::from_seed(seed, grid_ns, [0, u64::from(is_open)]);
        let clients = 1 + draw.below(4) as usize;
        let pages = if is_open { 1 } else { 1 + draw.below(3) };
        let pages = (0..pages).map(|_| PageDrawn {
            files: 1 + draw.below(4) as usize,
            think_ns: if draw.of_thousand(500) { 0 } else { draw.time(5 * MS) },
        });
        let pages: Vec<PageDrawn> = pages.collect();
        // Deadlines are checked at intervals of a twentieth of the shortest, which is less than a tick.
        let time_out = |draw: &mut Draw| 20 * MS + draw.time(7_500 * US) * 20;
        let mut schedule = Schedule {
            seed,
            grid_ns,
            // Kept connections belong to a client, so in open loop it would matter which client takes an arrival.
            policy: if is_open { ConnectionPolicy::PerRequest } else { draw.one(&POLICIES) },
            clients,
            targets: if is_open { 1 } else { clients },
            rate: is_open.then(|| draw.one(&RATES)),
            skips: draw.of_thousand(300),
            uses_max: draw.one(&[u32::MAX, u32::MAX, 1, 2, 5]),
            warmup_ns: if draw.of_thousand(300) { 0 } else { draw.time(50 * MS) },
            duration_ns: if draw.of_thousand(100) {
                draw.some_time(3 * SECOND)
            } else {
                draw.some_time(200 * MS)
            },
            latency_ns: if draw.of_thousand(300) { 0 } else { draw.time(2 * MS) },
            send_room: draw.one(&[usize::MAX, usize::MAX, 1_000, 17]),
            connect_timeout_ns: time_out(&mut draw),
            first_byte_timeout_ns: time_out(&mut draw),
            request_timeout_ns: time_out(&mut draw),
            receives_most: draw.one(&[16_384, 16_384, 64, 5, 1]),
            trouble: draw.one(&[0, 20, 100, 400]),
            request_bytes: Vec::new(),
            pages,
        };
        let level = schedule.level();
        let plan = Plan::compile(&level.spec, &level.workload).unwrap();
        let requests = plan.pages.iter().map(|page| {
            let own = &plan.requests[page.first_request as usize..][..page.requests as usize];
            own.iter()
                .map(|request| [request.keep, request.last].map(|slice| slice.end() - slice.start()))
                .collect()
        });
        schedule.request_bytes = requests.collect();
        schedule
    }

    pub(super) fn close_ns(&self) -> u64 {
        self.warmup_ns + self.duration_ns
    }

    /// When a missed deadline is noticed: deadlines are checked several times within the shortest of them.
    pub(super) fn swept_ns(&self, deadline_ns: u64) -> u64 {
        let shortest = self.connect_timeout_ns.min(self.first_byte_timeout_ns).min(self.request_timeout_ns);
        deadline_ns.next_multiple_of((shortest / 20).max(MS))
    }

    pub(super) fn request_bytes(&self, page: usize, file: usize, is_last: bool) -> usize {
        self.request_bytes[page][file][usize::from(is_last)]
    }

    /// The level that the worker runs.
    pub(super) fn level(&self) -> Level {
        let mut level = Level::new(self.policy, &["/"], self.duration_ns);
        level.clients = self.clients as u32;
        level.rate = self.rate.map(|rate| rate.to_string());
        level.spec.target =
            (0..self.targets).map(|target| format!("http://192.0.2.{}", target + 1)).collect();
        level.spec.load.warmup = Nanos(self.warmup_ns);
        level.spec.load.when_busy = if self.skips { WhenBusy::Skip } else { WhenBusy::Queue };
        level.spec.client.seed = self.seed;
        level.spec.client.requests_per_connection = (self.uses_max != u32::MAX).then_some(self.uses_max);
        level.spec.client.connect_timeout = Nanos(self.connect_timeout_ns);
        level.spec.client.first_byte_timeout = Nanos(self.first_byte_timeout_ns);
        level.spec.client.request_timeout = Nanos(self.request_timeout_ns);
        let pages = self.pages.iter().enumerate().map(|(number, page)| Page {
            weight: 1 + number as u64,
            files: (0..page.files).map(|nth| file(&format!("/{number}{nth}"))).collect(),
            think: Nanos(page.think_ns),
        });
        level.workload.pages = pages.collect();
        level.wire = Wire {
            latency_ns: self.latency_ns,
            send_room: self.send_room,
            receives_most: self.receives_most,
            ..Wire::default()
        };
        level
    }

    pub(super) fn connect(&self, now_ns: u64, target: usize) -> ConnectFate {
        let mut draw = Draw::from_seed(self.seed ^ 1, self.grid_ns, [now_ns, target as u64]);
        let after_ns = draw.some_time(3 * MS);
        let served_ns = after_ns + if draw.of_thousand(200) { draw.time(10 * MS) } else { 0 };
        let stands = Attempt::Stands { handshake_ns: after_ns, served_ns };
        let fate =
            |stands_ns, error, served_ns, attempt| ConnectFate { stands_ns, error, served_ns, attempt };
        // After a failure a client waits, so it would matter which it was; the open loop's model does not know that.
        if self.rate.is_some() || !draw.of_thousand(self.trouble) {
            return match draw.below(8) {
                0 => fate(Some(0), None, 0, Attempt::StandsAtOnce),
                _ => fate(Some(after_ns), None, served_ns, stands),
            };
        }
        match draw.below(4) {
            0 => fate(
                Some(0),
                Some(ErrorClass::OutOfPorts),
                0,
                Attempt::Fails(rustix::io::Errno::ADDRNOTAVAIL),
            ),
            1 => fate(None, None, 0, Attempt::Lost),
            // Later than most time-outs.
            2 => {
                let after_ns = draw.time(200 * MS);
                let stands = Attempt::Stands { handshake_ns: after_ns, served_ns: after_ns };
                fate(Some(after_ns), None, after_ns, stands)
            }
            _ => fate(Some(after_ns), Some(ErrorClass::Refused), 0, Attempt::Refused { after_ns }),
        }
    }

    pub(super) fn answer(&self, now_ns: u64, page: usize, file: usize) -> AnswerFate {
        let mut draw = Draw::from_seed(self.seed ^ 2, self.grid_ns, [now_ns, (page * 10 + file) as u64]);
        let troubled = draw.of_thousand(self.trouble);
        let trouble = if troubled { draw.below(6) } else { u64::MAX };
        let size = if draw.of_thousand(100) { draw.below(5_000) } else { draw.below(200) } as usize;
        let status = if trouble == 0 { "503 Busy" } else { "200 OK" };
        let (framing, keeps, until_close) = match draw.below(8) {
            0 => (String::new(), false, true),
            1 | 2 => ("Transfer-Encoding: chunked\r\n".to_owned(), true, false),
            3 => (format!("Content-Length: {size}\r\nConnection: close\r\n"), false, false),
            _ => (format!("Content-Length: {size}\r\n"), true, false),
        };
        let interim = if draw.of_thousand(100) { "HTTP/1.1 103 Early Hints\r\n\r\n" } else { "" };
        let head = format!("{interim}HTTP/1.1 {status}\r\n{framing}\r\n");
        let mut bytes = head.clone().into_bytes();
        if framing.starts_with("Transfer") {
            let first = size / 3;
            for part in [first, size - first].into_iter().filter(|part| *part > 0) {
                bytes.extend(format!("{part:x}\r\n{}\r\n", "x".repeat(part)).bytes());
            }
            bytes.extend(b"0\r\n\r\n");
        } else {
            bytes.resize(head.len() + size, b'x');
        }
        let whole_bytes = bytes.len() as u64;
        let is_garbage = trouble == 1;
        if is_garbage {
            bytes = b"ICY 200 OK\r\n\r\n".to_vec();
        }
        let cut = match trouble {
            // Silence, an end or a stall within the answer.
            2 => 0,
            3..=5 => draw.below(whole_bytes) as usize,
            _ => bytes.len(),
        };
        bytes.truncate(cut);
        let mut pieces = Vec::new();
        let mut left = cut as u64;
        while left > 0 {
            let all_at_once = is_garbage || draw.of_thousand(600);
            let piece = if all_at_once { left } else { 1 + draw.below(left) };
            // Some time must pass, or a client would ask again and again at the same instant.
            let is_next = draw.of_thousand(300) && !pieces.is_empty();
            let wait_ns = if is_next { 0 } else { draw.some_time(3 * MS) };
            pieces.push((wait_ns, piece));
            left -= piece;
        }
        let is_at_once = draw.of_thousand(300) && !pieces.is_empty();
        let late_ns = if is_at_once { 0 } else { draw.some_time(10 * MS) };
        let ending = match trouble {
            2 | 3 => Ending::Never,
            4 => Ending::Finish(late_ns),
            5 => Ending::Reset(late_ns),
            _ if until_close || !keeps => Ending::Finish(if until_close { late_ns } else { 0 }),
            // A connection that the client keeps may end at any time.
            _ if draw.of_thousand(self.trouble) => {
                if draw.of_thousand(500) {
                    Ending::Finish(late_ns)
                } else {
                    Ending::Reset(late_ns.max(self.grid_ns))
                }
            }
            _ => Ending::Never,
        };
        let head_bytes = head.len() as u64;
        let ok = trouble != 0;
        AnswerFate { pieces, ending, whole_bytes, head_bytes, until_close, is_garbage, ok, keeps, bytes }
    }
}

impl Peer for &Schedule {
    fn connect(&mut self, now_ns: u64, address: &Address) -> Attempt {
        let Address::Internet(std::net::SocketAddr::V4(address)) = address else { unreachable!("all are") };
        let target = usize::from(address.ip().octets()[3]) - 1;
        Schedule::connect(self, now_ns - BEGIN_NS, target).attempt
    }

    fn answer(&mut self, now_ns: u64, request: &[u8]) -> Vec<Act> {
        let digit = |at: usize| usize::from(request[at] - b'0');
        let at = memchr::memchr(b'/', request).expect("a target") + 1;
        let fate = Schedule::answer(self, now_ns - BEGIN_NS, digit(at), digit(at + 1));
        let (mut acts, mut from) = (Vec::new(), 0);
        for (wait_ns, bytes) in fate.pieces {
            let to = from + bytes as usize;
            acts.extend([Act::Wait(wait_ns), Act::Write(fate.bytes[from..to].to_vec())]);
            from = to;
        }
        let asks_for_end = memchr::memmem::find(request, b"Connection: close").is_some();
        match fate.ending {
            Ending::Finish(wait_ns) => acts.extend([Act::Wait(wait_ns), Act::Finish]),
            Ending::Reset(wait_ns) => acts.extend([Act::Wait(wait_ns), Act::Reset]),
            Ending::Never if asks_for_end && from as u64 == fate.whole_bytes => acts.push(Act::Finish),
            Ending::Never => {}
        }
        acts
    }
}
