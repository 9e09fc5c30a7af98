//! A worker whose one connection always has more to read, so that only the worker's own rounds end a round. The back end is
//! a stand-in, because no real server floods as reliably as this one.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use webstone_model::errors::ErrorClass;
use webstone_model::spec::{Check, RunSpec};
use webstone_model::units::Nanos;
use webstone_model::workload::{FileRequest, Page, Workload};

use crate::plan::Plan;
use crate::sys::clock::now_ns;
use crate::sys::{Address, Backend, Connect, Event, Received, Socket};
use crate::worker::{Published, Seat, Shared, Worker};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\n";
/// What one read gives.
const READ_BYTES: usize = 64 * 1024;
/// A level that is kept from its end is given up after so many reads, each of which takes microseconds.
const READS_MAX: u64 = 4_000_000;

/// Connects and writes at once, reports each connection once, and never runs dry.
struct Endless {
    /// Connections that are reported next.
    reported: Vec<Event>,
    taken: Vec<Event>,
    bytes: Vec<u8>,
    has_head: Vec<bool>,
    reads: u64,
}

impl Backend for Endless {
    const NAME: &'static str = "endless";

    fn new(_: bool) -> io::Result<Endless> {
        let (reported, taken, has_head) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Endless { reported, taken, has_head, bytes: Vec::new(), reads: 0 })
    }

    fn watch(&mut self, _: impl AsFd, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn add(&mut self, _: u32, _: &Socket) -> io::Result<()> {
        Ok(())
    }

    fn connect(&mut self, index: u32, _: &Socket, _: &Address) -> io::Result<Connect> {
        self.has_head.resize(self.has_head.len().max(index as usize + 1), false);
        self.has_head[index as usize] = false;
        // An edge: never again, whatever is left.
        self.reported.push(Event { token: u64::from(index), readable: true, ..Event::default() });
        Ok(Connect::Done)
    }

    fn send(&mut self, _: u32, _: &Socket, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn receive(&mut self, index: u32, _: &Socket) -> io::Result<Received> {
        self.reads += 1;
        assert!(self.reads < READS_MAX, "the worker reads on and on");
        self.bytes.clear();
        if !std::mem::replace(&mut self.has_head[index as usize], true) {
            self.bytes.extend_from_slice(HEAD);
        }
        self.bytes.resize(READ_BYTES, b'x');
        Ok(Received::Bytes(READ_BYTES))
    }

    fn stamp(&mut self, _: u32, _: &Socket) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn receive_stamped(&mut self, index: u32, socket: &Socket) -> io::Result<(Received, Option<u64>)> {
        Ok((self.receive(index, socket)?, None))
    }

    fn receives_most(&self) -> usize {
        READ_BYTES
    }

    fn bytes(&self, n: usize) -> &[u8] {
        &self.bytes[..n]
    }

    fn discard(&mut self, _: &Socket, _: usize) -> io::Result<Received> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn wait(&mut self, _: u64) -> io::Result<usize> {
        self.taken = std::mem::take(&mut self.reported);
        Ok(self.taken.len())
    }

    fn event(&self, number: usize) -> Event {
        self.taken[number]
    }
}

#[test]
fn a_server_that_never_pauses_keeps_nobody_from_time_outs_and_the_end() {
    let mut spec = RunSpec { target: vec!["http://127.0.0.1:9".into()], ..RunSpec::default() };
    // So that bodies are received, not thrown away.
    spec.client.check = Check::Content;
    spec.client.request_timeout = Nanos::from_millis(100);
    spec.load.warmup = Nanos::ZERO;
    spec.load.duration = Nanos::from_millis(400);
    spec.load.drain = Nanos::from_millis(50);
    spec.generator.pin = false;
    let file = FileRequest { url: "/".into(), ..FileRequest::default() };
    let page = Page { weight: 1, files: vec![file], think: Nanos::ZERO };
    let workload = Workload { name: "w".into(), pages: vec![page], ..Workload::default() };
    let plan = Arc::new(Plan::compile(&spec, &workload).unwrap());
    let start = now_ns();
    let shared = Arc::new(Shared {
        open_ns: AtomicU64::new(start),
        close_ns: AtomicU64::new(start + plan.duration_ns),
        abort: AtomicBool::new(false),
        settle: AtomicBool::new(false),
        pages_left: AtomicU64::new(u64::MAX),
        traced: AtomicU32::new(0),
        workers: vec![Published::default()],
    });
    let seat = Seat { number: 0, workers: 1, cpu: None, first_client: 0, clients: 3, rate: None };
    let measured = Worker::<Endless>::new(plan, shared, seat).unwrap().run(start).unwrap();
    // One connection that is read without end would leave the other clients without their first.
    assert!(measured.clients.iter().all(|client| client.errors > 0), "{:?}", measured.clients);
    assert_eq!(measured.errors.total(), measured.errors.count(ErrorClass::RequestTimeout));
    assert_eq!(measured.counts.succeeded, 0);
}
