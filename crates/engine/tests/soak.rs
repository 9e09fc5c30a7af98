//! Soak: full rate with every fault that the reference server can inject, under all connection policies, for as long
//! as requested (`cargo xtask soak --minutes 10`; 5 seconds otherwise). Nothing may leak: no memory, descriptors,
//! threads, nor connections that only the kernel still has; every identity holds; every error is in its class and
//! occurs as often as it was injected.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue must fail")]
#![allow(clippy::print_stdout, reason = "it reports what it found, a skipped test says why")]

#[path = "cases/peer/mod.rs"]
#[allow(dead_code, reason = "only its function to run a level is used here")]
mod peer;
mod served;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use peer::{file, run, spec};
use served::{Served, is_child, raise_descriptors, status};
use webstone_engine::{LevelOutcome, workers_own_descriptors};
use webstone_measure::errors::ErrorClass;
use webstone_measure::units::Nanos;
use webstone_workload::load::{Check, ConnectionPolicy, GeneratorTask, HttpVersion};
use webstone_workload::{FileRequest, Page, Workload};

/// The number of seconds that `cargo xtask soak` requests.
const SECONDS: &str = "WEBSTONE_SOAK_SECONDS";
const CLIENTS: u32 = 64;
const WORKERS: u32 = 2;
/// Growth of resident memory that is not a leak, in KiB: from the end of the first round over everything to the end
/// of the last, and within one level of at least [`LONG_LEVEL`] from its first third to its last. A histogram that
/// reaches one more octave takes 8 KiB more, up to 280 KiB each; there are six per worker, and six for their sum: 5
/// MiB, reached late if the machine is busy.
const GROWTH_KIB_MAX: u64 = 8192;
/// With this many injections of a class at least one must be counted. If a busy machine lets fewer happen in the time
/// available, the class is named, but the test does not fail.
const CERTAIN: u64 = 20;
const LONG_LEVEL: Duration = Duration::from_secs(5);
/// How often memory is measured while a level runs.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// Descriptors of this process and of a worker that are not connections of clients.
const OTHER_DESCRIPTORS: usize = 32;
/// How long the kernel may take to end a level's connections and threads.
const PATIENCE: Duration = Duration::from_secs(3);

/// A fault: its URL, one of how many requests has it, and how it must be counted.
struct Fault {
    query: &'static str,
    every: u64,
    weight: u64,
    class: ErrorClass,
    /// It comes before the first byte of an answer, so on a reused connection the request is sent again and is not an
    /// error.
    may_be_stale: bool,
}

const FAULTS: [Fault; 12] = {
    use ErrorClass::{
        ClosedEarly, FirstByteTimeout, Malformed, RequestTimeout, Reset, ShortBody, WrongLength, WrongStatus,
    };
    const fn fault(query: &'static str, every: u64, weight: u64, class: ErrorClass) -> Fault {
        Fault { query, every, weight, class, may_be_stale: false }
    }
    [
        Fault { may_be_stale: true, ..fault("fault=reset&size=1000", 4, 40, Reset) },
        fault("fault=reset&after=head&size=1000", 3, 40, Reset),
        fault("fault=reset&after=500&size=1000", 2, 40, Reset),
        Fault { may_be_stale: true, ..fault("fault=close&size=1000", 4, 40, ClosedEarly) },
        fault("fault=close&after=head&size=1000", 5, 40, ClosedEarly),
        fault("fault=truncate&size=100000", 3, 20, ShortBody),
        fault("fault=garbage&size=1000", 2, 40, Malformed),
        fault("fault=bad-chunk&size=30000", 3, 20, Malformed),
        fault("fault=wrong-length&by=-10&size=1000", 2, 40, WrongLength),
        fault("fault=status&status=503&size=1000", 2, 40, WrongStatus),
        fault("fault=stall&size=1000", 2, 20, FirstByteTimeout),
        fault("fault=stall&after=500&size=1000", 2, 20, RequestTimeout),
    ]
};
const TIMEOUTS: [ErrorClass; 3] =
    [ErrorClass::ConnectTimeout, ErrorClass::FirstByteTimeout, ErrorClass::RequestTimeout];
/// Pages before those of the faults: sound ones, one at a port where nobody listens, one at a port where nobody
/// accepts.
const SOUND: usize = 3;
const REFUSED: usize = 3;
const UNANSWERED: usize = 4;

/// A listener that takes no more connections: its queue is full, and the kernel drops SYNs.
struct Full {
    address: SocketAddr,
    _open: (TcpListener, Vec<TcpStream>),
}

impl Full {
    fn new() -> Full {
        use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
        let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&descriptor, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        listen(&descriptor, 0).unwrap();
        let listener = TcpListener::from(descriptor);
        let address = listener.local_addr().unwrap();
        let mut open = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            open.push(stream);
        }
        Full { address, _open: (listener, open) }
    }
}

fn workload(refused: SocketAddr, full: SocketAddr) -> Workload {
    let page = |weight: u64, files: Vec<FileRequest>| Page { weight, files, think: Nanos::ZERO };
    let sound = |query: &str, size| file(&format!("/test?{query}"), Some(size));
    let mut pages = vec![
        page(4000, vec![sound("size=500", 500)]),
        page(
            500,
            vec![sound("size=500", 500), sound("size=20000&chunked=1", 20_000), sound("size=3000", 3000)],
        ),
        page(50, vec![sound("size=300000", 300_000)]),
        page(5, vec![file(&format!("http://{refused}/"), None)]),
        page(5, vec![file(&format!("http://{full}/"), None)]),
    ];
    assert_eq!((REFUSED, UNANSWERED), (SOUND, pages.len() - 1));
    pages.extend(FAULTS.iter().map(|fault| {
        let size = fault.query.split("size=").nth(1).unwrap().parse().unwrap();
        page(fault.weight, vec![sound(&format!("{}&every={}", fault.query, fault.every), size)])
    }));
    Workload { name: "faults".into(), pages, ..Workload::default() }
}

/// Every way to use connections, under each policy.
fn variants(url: &str) -> Vec<(String, GeneratorTask)> {
    let mut variants = Vec::new();
    for policy in [ConnectionPolicy::PerRequest, ConnectionPolicy::PerPage, ConnectionPolicy::KeepAlive] {
        let mut plain = spec(url, policy, 0);
        plain.load.pages = None;
        plain.load.warmup = Nanos::from_millis(20);
        plain.client.connect_timeout = Nanos::from_millis(200);
        plain.client.first_byte_timeout = Nanos::from_millis(250);
        plain.client.request_timeout = Nanos::from_millis(450);
        // Some of the faults are servers of their own.
        plain.client.allow_hosts = vec!["127.0.0.1".to_owned()];
        plain.generator.workers = WORKERS;
        // Their memory grows with the spread of what is measured, up to a known limit that would hide a leak.
        plain.generator.page_histograms = 0;
        let mut parallel = plain.clone();
        parallel.client.parallel = 4;
        parallel.client.check = Check::Content;
        parallel.client.requests_per_connection = Some(50);
        let mut reset = plain.clone();
        reset.client.reset = true;
        reset.client.source = vec!["127.0.0.2-127.0.0.4".parse().unwrap()];
        for (name, spec) in [("plain", plain), ("parallel", parallel), ("reset", reset)] {
            variants.push((format!("{policy:?} {name}"), spec));
        }
    }
    variants
}

#[test]
fn nothing_leaks_and_no_error_goes_astray() {
    if is_child() {
        return;
    }
    raise_descriptors();
    let seconds: f64 = std::env::var(SECONDS).map_or(5.0, |text| text.parse().unwrap());
    let served = Served::start();
    soak(&served.url, Duration::from_secs_f64(seconds));
}

/// A connection of QUIC for each request: neither sockets nor memory are left over.
#[test]
fn handshakes_of_quic_leave_nothing() {
    if is_child() {
        return;
    }
    let seconds: f64 = std::env::var(SECONDS).map_or(0.0, |text| text.parse().unwrap());
    let served = Served::start_over_quic();
    let mut spec = spec(&served.url, ConnectionPolicy::PerRequest, 150 + (500.0 * seconds) as u64);
    spec.client.http = HttpVersion::Http3;
    spec.client.tls.verify = false;
    let workload = peer::one_page(vec![file("/test?size=500", Some(500))]);
    let before = owned();
    let mut after = [(); 2].map(|()| {
        let outcome = run(&spec, &workload, 16);
        let measured = &outcome.measured;
        assert_eq!((measured.counts.failed, measured.lifetime.connections), (0, measured.lifetime.requests));
        owned_without_ended_threads(&before)
    });
    assert!(after[1].resident_kib <= after[0].resident_kib + GROWTH_KIB_MAX, "{after:?}");
    (after[0].resident_kib, after[1].resident_kib) = (0, 0);
    assert_eq!(after[0], after[1]);
}

/// What must not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owned {
    descriptors: usize,
    threads: u64,
    resident_kib: u64,
}

fn owned() -> Owned {
    // Reading the directory takes a descriptor of its own, each time.
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    Owned { descriptors, threads: status("Threads:"), resident_kib: status("VmRSS:") }
}

/// The same, once threads that have ended are gone: the kernel still lists a thread for a moment after it has been joined.
fn owned_without_ended_threads(before: &Owned) -> Owned {
    let start = Instant::now();
    while status("Threads:") > before.threads && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    owned()
}

/// Files open in the fullest table of this process: each worker has its own, which is gone when the level is over.
fn descriptors_of_a_thread() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    // A thread may end meanwhile.
    threads.filter_map(|thread| Some(std::fs::read_dir(thread.join("fd")).ok()?.count())).max().unwrap()
}

fn soak(url: &str, total: Duration) {
    let full = Full::new();
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let workload = workload(refused, full.address);
    let variants = variants(url);
    // At least two rounds. A level is longer than the time limits, or their errors could not occur in it, and at most
    // ten seconds, so that a soak of minutes has many.
    let each =
        (total / (3 * variants.len() as u32)).clamp(Duration::from_millis(700), Duration::from_secs(10));
    let server: SocketAddr = url["http://".len()..].parse().unwrap();
    let (before, kept) = (owned(), open_to(&[server, full.address]).len());
    println!("levels of {each:?}; at first {before:?}");
    let start = Instant::now();
    let mut seen: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut due: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut requests, mut settled_kib) = (0, None);
    let mut late = 0;
    for round in 1.. {
        let mut round_requests = 0;
        for (variant, spec) in &variants {
            let mut spec = spec.clone();
            spec.load.duration = Nanos(each.as_nanos() as u64);
            let outcome = run_watched(&spec, &workload, each);
            late += check_errors(variant, &outcome, spec.client.parallel);
            outcome
                .measured
                .errors
                .iter()
                .for_each(|(class, count, _)| *seen.entry(class.name()).or_default() += count);
            for (fault, page) in FAULTS.iter().zip(&outcome.measured.pages[UNANSWERED + 1..]) {
                *due.entry(fault.class.name()).or_default() += (page.requests + page.errors) / fault.every;
            }
            round_requests += outcome.measured.lifetime.requests;
            check_kernel(variant, &[server, full.address], kept);
            let now = owned_without_ended_threads(&before);
            assert_eq!(
                (now.descriptors, now.threads),
                (before.descriptors, before.threads),
                "{variant}, round {round}: descriptors or threads are left over"
            );
        }
        let now = owned();
        requests += round_requests;
        println!("round {round}, {:.0?}: {round_requests} requests, {now:?}", start.elapsed());
        let settled_kib = *settled_kib.get_or_insert(now.resident_kib);
        assert!(
            now.resident_kib <= settled_kib + GROWTH_KIB_MAX,
            "{} KiB resident after round {round}, {settled_kib} KiB after the first",
            now.resident_kib
        );
        // Rare faults, and those that take longer than a level, may not have occurred yet.
        let mut missing =
            expected().map(ErrorClass::name).filter(|class| !seen.contains_key(class)).peekable();
        let is_complete = missing.peek().is_none();
        if round >= 2 && start.elapsed() >= total && (is_complete || start.elapsed() > total * 4) {
            for class in missing {
                // Errors that the server does not inject come by themselves, each time.
                let due = due.get(class).copied().unwrap_or(u64::MAX);
                assert!(due < CERTAIN, "{class} was injected {due} times and never counted: {seen:?}");
                println!("not seen: {class}; this machine was too busy to have it more than {due} times");
            }
            break;
        }
    }
    println!(
        "{requests} requests in {:.0?}; errors: {seen:?}, {late} of the time-outs by the machine",
        start.elapsed()
    );
}

/// Classes of error that must occur.
fn expected() -> impl Iterator<Item = ErrorClass> {
    let others = [ErrorClass::Refused, ErrorClass::ConnectTimeout];
    others.into_iter().chain(FAULTS.iter().map(|fault| fault.class))
}

/// Runs a level, whose identities must hold, and checks that its memory does not grow while it runs.
fn run_watched(spec: &GeneratorTask, workload: &Workload, length: Duration) -> LevelOutcome {
    let done = AtomicBool::new(false);
    let (outcome, (samples, descriptors)) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut samples, mut most) = (Vec::new(), 0);
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(SAMPLE_EVERY);
                samples.push(status("VmRSS:"));
                most = most.max(descriptors_of_a_thread());
            }
            (samples, most)
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| run(spec, workload, CLIENTS)));
        // In any case: the scope waits for the watcher, so that a failure would become a hang.
        done.store(true, Ordering::Relaxed);
        let seen = watcher.join().unwrap();
        (outcome.unwrap_or_else(|panic| resume_unwind(panic)), seen)
    });
    // If each file or page has its own connection, the previous one may still wait for the server's end.
    let connections = 2 * CLIENTS * spec.client.parallel;
    let allowed =
        (if workers_own_descriptors() { connections.div_ceil(WORKERS) } else { connections }) as usize;
    assert!(
        descriptors <= allowed + OTHER_DESCRIPTORS,
        "{descriptors} descriptors for {connections} connections"
    );
    if length >= LONG_LEVEL {
        let early = samples[samples.len() / 3];
        let late = *samples.iter().skip(samples.len() * 2 / 3).min().unwrap();
        assert!(late <= early + GROWTH_KIB_MAX, "from {early} to {late} KiB within a level");
    }
    outcome
}

/// Each error is in the class of its page's fault and occurs as often as the server injects it. Returns how many
/// time-outs occurred where none was injected: on a busy machine an answer may be late by itself.
fn check_errors(what: &str, outcome: &LevelOutcome, parallel: u32) -> u64 {
    let measured = &outcome.measured;
    let all: Vec<_> = measured.errors.iter().collect();
    let faults = || FAULTS.iter().zip(&measured.pages[UNANSWERED + 1..]);
    let struck = |class: ErrorClass| -> u64 {
        faults().filter(|(fault, _)| fault.class == class).map(|(_, page)| page.errors).sum()
    };
    let timeouts: u64 = TIMEOUTS.iter().map(|class| measured.errors.count(*class)).sum();
    let injected =
        TIMEOUTS.iter().map(|class| struck(*class)).sum::<u64>() + measured.pages[UNANSWERED].errors;
    assert!(timeouts >= injected, "{what}: {injected} time-outs were injected: {all:?}");
    let late = timeouts - injected;
    let mut total = timeouts;
    let mut classes: Vec<ErrorClass> = expected().filter(|class| !TIMEOUTS.contains(class)).collect();
    classes.sort();
    classes.dedup();
    for class in classes {
        let counted = measured.errors.count(class);
        let pages = if class == ErrorClass::Refused { measured.pages[REFUSED].errors } else { struck(class) };
        assert!(counted <= pages && pages <= counted + late, "{what}: {}: {pages} {all:?}", class.name());
        total += counted;
    }
    assert_eq!(total, measured.counts.failed, "{what}: an error of another class: {all:?}");
    let sound: u64 = measured.pages[..SOUND].iter().map(|page| page.errors).sum();
    assert!(sound <= late, "{what}: {sound} errors of sound pages: {all:?}");
    // The server injects a fault into each k-th request that reaches it; those in progress at either end of the
    // window may be counted or not, and there is at most one for each client and parallel file.
    let under_way = 2 * u64::from(CLIENTS * parallel) + 1 + late;
    for (fault, page) in faults() {
        let ended = page.requests + page.errors;
        let due = ended / fault.every;
        let is_enough = fault.may_be_stale || page.errors + under_way >= due;
        assert!(
            is_enough && page.errors <= due + under_way,
            "{what}: {}: {} of {ended}",
            fault.query,
            page.errors
        );
    }
    late
}

/// No more than `kept` connections to these may be left, including those that no descriptor refers to.
fn check_kernel(what: &str, peers: &[SocketAddr], kept: usize) {
    let start = Instant::now();
    loop {
        let left = open_to(peers);
        if left.len() <= kept {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: the kernel still has {}: {}", left.len(), left[0]);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The kernel's connections, and attempts at one, to any of these.
fn open_to(peers: &[SocketAddr]) -> Vec<String> {
    // Line by line: with everything in TIME_WAIT the table may have tens of megabytes, which would look like a leak.
    let table = BufReader::new(File::open("/proc/net/tcp").unwrap());
    table.lines().map(Result::unwrap).skip(1).filter(|line| is_open_to(line, peers)).collect()
}

/// Whether a line of `/proc/net/tcp` is a client's side of a connection, or of an attempt at one, that was not closed.
fn is_open_to(line: &str, peers: &[SocketAddr]) -> bool {
    const ESTABLISHED: &str = "01";
    const SYN_SENT: &str = "02";
    const CLOSE_WAIT: &str = "08";
    let mut words = line.split_whitespace().skip(2);
    let (Some(remote), Some(state)) = (words.next(), words.next()) else { return false };
    let port = remote.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
    let is_peer = peers.iter().any(|peer| Some(peer.port()) == port);
    is_peer && [ESTABLISHED, SYN_SENT, CLOSE_WAIT].contains(&state)
}
