//! A raw TCP peer that answers every request with a script of bytes, and what is needed to run a level against it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use webstone_engine::{Control, LevelJob, LevelOutcome, Plan, run_level};
use webstone_measure::errors::ErrorClass;
use webstone_measure::identities::{Expectation, check};
use webstone_measure::units::Nanos;
use webstone_server::{Counters, RunningServer};
use webstone_workload::load::{ConnectionPolicy, GeneratorTask};
use webstone_workload::{FileRequest, Page, Workload};

/// What the peer does once it has read a request head.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Writes bytes.
    Write(Vec<u8>),
    /// Writes bytes one at a time, each in a segment of its own.
    Drip(Vec<u8>),
    /// Writes bytes again and again until the client closes.
    Flood(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// Closes its sending side.
    Finish,
    /// Resets the connection.
    Reset,
    /// Leaves the connection open and reads on until the client closes.
    Hold,
}

/// A peer that plays one script for each request.
pub(crate) struct Peer {
    pub(crate) url: String,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

type Script = Arc<dyn Fn(&str) -> Vec<Act> + Send + Sync>;

impl Peer {
    /// Starts a peer; its threads end with the test's process.
    pub(crate) fn start(script: Vec<Act>) -> Peer {
        Peer::start_with(move |_| script.clone())
    }

    /// Starts a peer whose script depends on the request head.
    pub(crate) fn start_with(script: impl Fn(&str) -> Vec<Act> + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        // Not generic over the script: the threads would be compiled for each test.
        Peer::listen(listener, requests.clone(), Arc::new(script));
        Peer { url, requests }
    }

    fn listen(listener: TcpListener, log: Arc<Mutex<Vec<String>>>, script: Script) {
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, log, script) = (stream.unwrap(), log.clone(), script.clone());
                std::thread::spawn(move || serve(stream, &log, &*script));
            }
        });
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>, script: &dyn Fn(&str) -> Vec<Act>) {
    stream.set_nodelay(true).unwrap();
    while let Some(head) = read_head(&mut stream) {
        log.lock().unwrap().push(head.clone());
        for act in script(&head) {
            let result = match act {
                Act::Write(bytes) => stream.write_all(&bytes),
                Act::Drip(bytes) => bytes.iter().try_for_each(|byte| stream.write_all(&[*byte])),
                Act::Flood(bytes) => loop {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                    // Other tests of this process need a CPU, too.
                    std::thread::sleep(Duration::from_millis(1));
                },
                Act::Wait(span) => {
                    std::thread::sleep(span);
                    Ok(())
                }
                Act::Finish => {
                    let _ = stream.shutdown(Shutdown::Write);
                    drain(&mut stream);
                    return;
                }
                Act::Reset => {
                    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                    return;
                }
                Act::Hold => {
                    drain(&mut stream);
                    return;
                }
            };
            if result.is_err() {
                return;
            }
        }
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

fn drain(stream: &mut TcpStream) {
    let mut sink = [0; 4096];
    while matches!(stream.read(&mut sink), Ok(n) if n > 0) {}
}

/// A specification for short exact runs: `pages` pages, no warm-up, and time-outs that are not reached even on a busy
/// machine. A test of time-outs has [`impatient`] clients.
pub(crate) fn spec(url: &str, policy: ConnectionPolicy, pages: u64) -> GeneratorTask {
    let mut spec = GeneratorTask { target: vec![url.to_owned()], ..GeneratorTask::default() };
    spec.load.duration = Nanos::from_secs(300);
    spec.load.pages = Some(pages);
    spec.load.warmup = Nanos::ZERO;
    spec.load.drain = Nanos::from_millis(200);
    spec.client.connections = policy;
    spec.client.connect_timeout = Nanos::from_secs(300);
    spec.client.first_byte_timeout = Nanos::from_secs(300);
    spec.client.request_timeout = Nanos::from_secs(300);
    spec.generator.workers = 1;
    spec.generator.pin = false;
    spec
}

/// The same, with a short time-out if the class is one of time-outs.
pub(crate) fn impatient(mut spec: GeneratorTask, class: ErrorClass) -> GeneratorTask {
    match class {
        // Other test programs run at the same time, and a correct answer must come in time.
        ErrorClass::FirstByteTimeout => spec.client.first_byte_timeout = Nanos::from_secs(1),
        ErrorClass::RequestTimeout => spec.client.request_timeout = Nanos::from_millis(800),
        _ => {}
    }
    spec
}

/// A workload of one page with the given files.
pub(crate) fn one_page(files: Vec<FileRequest>) -> Workload {
    let page = Page { weight: 1, files, think: Nanos::ZERO };
    Workload { name: "one page".into(), pages: vec![page], ..Workload::default() }
}

/// A file with a path and, if it matters, a size.
pub(crate) fn file(url: &str, size: Option<u64>) -> FileRequest {
    FileRequest { url: url.into(), size, ..FileRequest::default() }
}

/// Runs a level; every identity must hold.
pub(crate) fn run(spec: &GeneratorTask, workload: &Workload, clients: u32) -> LevelOutcome {
    let plan = Arc::new(Plan::compile(spec, workload).unwrap());
    let job = LevelJob::new(plan, clients);
    let outcome = run_level(&job, &Control::new()).unwrap();
    let expected = Expectation { clients: clients.into(), one_request_each: false, server_bytes: None };
    for identity in check(&outcome.measured, &expected) {
        assert!(identity.holds, "{identity:?}");
    }
    outcome
}

/// What a server counted of clients that have ended. It may read the last bytes of a connection long after the client
/// has closed it, so this waits until the server has closed all of them.
pub(crate) fn counted(server: &RunningServer) -> Counters {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let counters = server.counters();
        if counters.open == 0 {
            return counters;
        }
        assert!(Instant::now() < deadline, "connections are open that the clients closed: {counters:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The errors of an outcome by class.
pub(crate) fn errors(outcome: &LevelOutcome) -> Vec<(ErrorClass, u64)> {
    outcome.measured.errors.iter().map(|(class, count, _)| (class, count)).collect()
}
