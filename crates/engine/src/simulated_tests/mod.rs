//! Levels on a simulated network: a real worker, with servers and a clock that do what a test says. Nothing here
//! depends on the machine, so what is reported must equal what was put in to the nanosecond.

mod client_model;
mod draw;
mod http3;
mod http3_misdeeds;
mod http3_server;
mod layers;
mod lines;
mod machine;
pub(crate) mod network;
mod open_loop;
mod opening;
mod pages;
mod pipelines;
mod schedules;
mod several_hosts;
mod shared_links;
mod slices;
mod stranded;
mod tls;
mod trouble;
mod uploads;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use webstone_measure::errors::ErrorClass;
use webstone_measure::identities::{Expectation, check};
use webstone_measure::metrics::{Histogram, Measured, Moments};
use webstone_measure::units::Nanos;
use webstone_model::connection_identity::{ConnectionRules, of_connections};
use webstone_model::record::{RunRecord, TargetRecord};
use webstone_model::spec::RunSpec;
use webstone_workload::load::{ConnectionPolicy, GeneratorTask};
use webstone_workload::{FileRequest, Page, Workload};

use crate::h1::session::Http1;
use crate::layer::{Layer, Plain};
use crate::level::LevelJob;
use crate::observe::Observer;
use crate::plan::Plan;
use crate::seats::Seats;
use crate::session::Session;
use crate::shared::Shared;
use crate::simulated_tests::network::{Act, Attempt, BEGIN_NS, Peer, Simulated, Wire};
use crate::slices::Judgements;
use crate::sys::Address;
use crate::transactions::Transaction;
use crate::worker::{Seat, Worker};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

const POLICIES: [ConnectionPolicy; 3] =
    [ConnectionPolicy::PerRequest, ConnectionPolicy::PerPage, ConnectionPolicy::KeepAlive];

/// A level of one worker.
#[derive(Clone)]
pub(crate) struct Level {
    pub(crate) spec: GeneratorTask,
    pub(crate) workload: Workload,
    pub(crate) clients: u32,
    /// Open loop.
    pub(crate) rate: Option<String>,
    pub(crate) wire: Wire,
    /// Length of its slices, 0 for none; how many are judged, and which of them are left out.
    pub(crate) slice_ns: u64,
    pub(crate) slices: u32,
    pub(crate) left_out: Vec<u32>,
    /// Whether figures cover all slices anyway.
    pub(crate) is_whole: bool,
}

impl Level {
    /// One client for this long, on one page of files, with time-outs that are never reached.
    pub(crate) fn new(policy: ConnectionPolicy, urls: &[&str], duration_ns: u64) -> Level {
        let mut spec = GeneratorTask { target: vec!["http://192.0.2.1".into()], ..GeneratorTask::default() };
        spec.load.duration = Nanos(duration_ns);
        spec.load.warmup = Nanos::ZERO;
        spec.load.drain = Nanos::ZERO;
        spec.client.connections = policy;
        spec.client.connect_timeout = Nanos::from_secs(600);
        spec.client.first_byte_timeout = Nanos::from_secs(600);
        spec.client.request_timeout = Nanos::from_secs(600);
        let page = Page { weight: 1, files: urls.iter().map(|url| file(url)).collect(), think: Nanos::ZERO };
        let workload = Workload { name: "w".into(), pages: vec![page], ..Workload::default() };
        Level {
            spec,
            workload,
            clients: 1,
            rate: None,
            wire: Wire::default(),
            slice_ns: duration_ns.div_ceil(7).next_multiple_of(MS),
            slices: 0,
            left_out: Vec::new(),
            is_whole: false,
        }
    }

    /// Runs it to its end; every identity must hold, identity 2 (the time of clients) to the nanosecond.
    fn run(&self, peer: impl Peer) -> Measured {
        self.run_with(peer, None)
    }

    /// The same; also returns every transaction.
    fn run_told(&self, peer: impl Peer) -> (Measured, Vec<Transaction>) {
        let (sender, receiver) = sync_channel(1024);
        let measured = self.run_with(peer, Some(sender));
        (measured, receiver.try_iter().flatten().collect())
    }

    fn run_with(&self, peer: impl Peer, transactions: Option<SyncSender<Vec<Transaction>>>) -> Measured {
        self.run_over::<Plain, Http1>(peer, transactions)
    }

    /// The same over another layer, or in another protocol.
    fn run_over<L: Layer, P: Session>(
        &self,
        mut peer: impl Peer,
        transactions: Option<SyncSender<Vec<Transaction>>>,
    ) -> Measured {
        let job = self.job(1);
        self.run_seat::<L, P>(&job, job.dealt().unwrap()[0], &mut peer, transactions)
    }

    /// The level as a single host with this many workers makes it.
    pub(crate) fn job(&self, workers: u32) -> LevelJob {
        let plan = Arc::new(Plan::compile(&self.spec, &self.workload).unwrap());
        let rate = self.rate.as_ref().map(|rate| rate.parse().unwrap());
        LevelJob { rate, seats: Seats::all_here(workers), ..LevelJob::new(plan, self.clients) }
    }

    /// The part of one of its workers, in a simulation of its own.
    fn run_seat<L: Layer, P: Session>(
        &self,
        job: &LevelJob,
        seat: Seat,
        peer: &mut dyn Peer,
        transactions: Option<SyncSender<Vec<Transaction>>>,
    ) -> Measured {
        let mut shared = Shared::new(&job.plan, u64::MAX, 1);
        // In slices that are all kept, what is measured must be the same.
        shared.judgements = Judgements::new(self.slice_ns, job.plan.duration_ns);
        (0..self.slices).for_each(|slice| shared.judgements.judge(!self.left_out.contains(&slice)));
        shared.opening.set(BEGIN_NS + job.plan.warmup_ns);
        self.run_told_of::<L, P>(job, seat, Arc::new(shared), peer, transactions)
    }

    /// The same, with a window that `shared` announces.
    fn run_told_of<L: Layer, P: Session>(
        &self,
        job: &LevelJob,
        seat: Seat,
        shared: Arc<Shared>,
        peer: &mut dyn Peer,
        transactions: Option<SyncSender<Vec<Transaction>>>,
    ) -> Measured {
        let seat = Seat { number: 0, ..seat };
        let plan = job.plan.clone();
        let network = Simulated::new(peer, self.wire.clone());
        let observer = Observer::new(None, transactions);
        let worker = Worker::<_, L, P>::new(plan.clone(), shared.clone(), seat, network, observer).unwrap();
        let measured = match worker.run(BEGIN_NS).unwrap() {
            (ending, Some(slices)) => slices.together(&shared.judgements, self.is_whole, &ending),
            (measured, None) => measured,
        };
        let one_request_each = plan.parallel == 1;
        let expected = Expectation { clients: seat.clients.into(), one_request_each, server_bytes: None };
        for identity in check(&measured, &expected) {
            assert!(identity.holds, "{identity:?}");
        }
        // The toy layers count no handshakes.
        if L::IS_PLAIN || plan.tls.is_some() {
            self.connections_are_what_requests_need(&measured, seat.clients);
        }
        assert_eq!(measured.span_ns(), plan.duration_ns);
        if one_request_each {
            assert_eq!(
                client_ns(&measured),
                u64::from(seat.clients) * measured.window_ns,
                "{:?}",
                measured.counts
            );
        }
        measured
    }

    /// Identity 6.
    fn connections_are_what_requests_need(&self, measured: &Measured, clients: u32) {
        let spec = RunSpec { client: self.spec.client.clone(), ..RunSpec::default() };
        let target = TargetRecord { url: self.spec.target.join(" "), ..TargetRecord::default() };
        let record = RunRecord { target, ..RunRecord::default() };
        for identity in of_connections(measured, clients.into(), &ConnectionRules::of_run(&spec, &record)) {
            assert!(identity.holds, "{identity:?}: {:?}", measured.counts);
        }
    }
}

/// The accounted time of all clients.
fn client_ns(measured: &Measured) -> u64 {
    let free_ns = measured.open_loop.as_ref().map_or(0, |open_loop| open_loop.free_ns);
    measured.counts.busy_ns + measured.counts.idle_ns + free_ns
}

fn file(url: &str) -> FileRequest {
    FileRequest { url: url.into(), ..FileRequest::default() }
}

/// A server for which a test says when it accepts and what it answers.
struct Scripted<C, A> {
    connect: C,
    answer: A,
}

impl<C: FnMut(u64) -> Attempt, A: FnMut(u64, &str) -> Vec<Act>> Peer for Scripted<C, A> {
    fn connect(&mut self, now_ns: u64, _: &Address) -> Attempt {
        (self.connect)(now_ns - BEGIN_NS)
    }

    /// As scripted. If the request asks for the end of the connection, it ends with the last byte.
    fn answer(&mut self, now_ns: u64, request: &[u8]) -> Vec<Act> {
        let request = std::str::from_utf8(request).unwrap();
        let mut acts = (self.answer)(now_ns - BEGIN_NS, request);
        if request.contains("Connection: close") {
            acts.push(Act::Finish);
        }
        acts
    }
}

/// A server that accepts after `handshake_ns`, and answers each request in turn as `answer` says.
pub(crate) fn server(handshake_ns: u64, answer: impl FnMut(u64, &str) -> Vec<Act>) -> impl Peer {
    let connect = move |_| Attempt::Stands { handshake_ns, served_ns: handshake_ns };
    Scripted { connect, answer }
}

/// The same with one answer for all: a body of this many bytes after this delay.
pub(crate) fn steady(handshake_ns: u64, delay_ns: u64, bytes: usize) -> impl Peer {
    server(handshake_ns, move |_, _| vec![Act::Wait(delay_ns), Act::Write(response(bytes))])
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";

pub(crate) fn response(bytes: usize) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    response.resize(response.len() + bytes, b'x');
    response
}

/// Times must be these, each as often as given, in their moments and in their distribution.
fn are(what: &str, moments: &Moments, histogram: &Histogram, expected: &[(u64, u64)]) {
    let (mut right, mut distribution) = (Moments::default(), Histogram::new());
    for (time_ns, count) in expected {
        (0..*count).for_each(|_| right.record(*time_ns));
        distribution.record_n(*time_ns, *count);
    }
    assert_eq!(moments, &right, "{what}");
    assert!(histogram == &distribution, "{what}: {:?}", histogram.buckets().collect::<Vec<_>>());
}

/// Errors by class.
fn errors(measured: &Measured) -> Vec<(ErrorClass, u64)> {
    measured.errors.iter().map(|(class, count, _)| (class, count)).filter(|(_, count)| *count > 0).collect()
}
