//! Starting and stopping: sockets, threads, and their order.

use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use webstone_model::spec::ServerSpec;
use webstone_workload::tls::TlsVersion;

use crate::accept::{self, Accepted, Acceptor, Dealer, Order};
use crate::access_log::{HAND_OVER_EVERY, LogWriter, ThreadLog};
use crate::connection_faults::ConnectionFaults;
use crate::counters::{Counters, ThreadCounters};
use crate::directory::Root;
use crate::error::ServeError;
use crate::files::{Files, Source};
use crate::gateway::Gateway;
use crate::h3;
use crate::listener::{Address, Listener};
use crate::names::NameServer;
use crate::options::{self, Placement, ServeOptions};
use crate::shard::{Shard, Shared};
use crate::tls::Tls;

/// How long answers under way may take once the server is told to stop.
const GRACE: Duration = Duration::from_secs(1);
/// Threads of each serving thread that may wait for disks and name servers.
const BLOCKING_THREADS: usize = 64;

/// What a server reports when it is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// A URL at which it can be reached from this host: that of the first TCP address. `http://localhost` where it
    /// listens at Unix sockets only. `https:` with TLS.
    pub url: String,
    /// A URL at which it can be reached over TLS, where `url` is without TLS. `None` where it does not listen for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_url: Option<String>,
    /// All addresses that it listens at, with their real ports: `127.0.0.1:8080`, `unix:/path`.
    pub addresses: Vec<String>,
    /// Threads that answer requests.
    pub threads: u64,
    /// CPUs that they are pinned to; empty: none.
    pub cpus: Vec<u32>,
    /// Its process identifier.
    pub pid: u32,
    /// The certificate that was made for it, as PEM: what clients have to trust. `None` where one was named, and without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Options that could not be met exactly, in words.
    pub notes: Vec<String>,
}

/// The result of a server that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeReport {
    /// Everything it counted. `open` is the number of connections that it closed because it was stopped.
    pub counters: Counters,
    /// Why the access log is incomplete, if it is.
    pub log_error: Option<String>,
}

/// The reference server.
#[derive(Debug)]
pub struct Server {}

/// A server that runs in this process, on threads of its own. Dropping it stops it.
#[derive(Debug)]
pub struct RunningServer {
    ready: Ready,
    shared: Arc<Shared>,
    threads: Vec<ServingThread>,
    log: Option<LogWriter>,
}

#[derive(Debug)]
struct ServingThread {
    /// First, no more connections are accepted; then, all ends.
    stop_accepting: Option<oneshot::Sender<()>>,
    stop: Option<oneshot::Sender<()>>,
    thread: JoinHandle<()>,
}

/// What a thread needs to begin.
struct Start {
    index: usize,
    cpus: Vec<u32>,
    shared: Arc<Shared>,
    log: ThreadLog,
    work: Work,
    stop_accepting: oneshot::Receiver<()>,
    stop: oneshot::Receiver<()>,
    started: Sender<Result<(), ServeError>>,
}

/// A UDP socket, and its address.
type Datagrams = (UdpSocket, SocketAddr);

/// Where a thread's connections come from.
enum Work {
    /// It accepts them, for all threads.
    Accept {
        listeners: Vec<(Listener, UnboundedReceiver<Order>)>,
        datagrams: Vec<(Datagrams, UnboundedReceiver<Order>)>,
        others: Vec<UnboundedSender<Accepted>>,
    },
    /// The accepting thread gives them.
    Queue(UnboundedReceiver<Accepted>),
}

impl Server {
    /// Starts a server in this process. Returns when it listens.
    ///
    /// # Errors
    /// An option that cannot be met: an address in use or not of this host, a missing root, a log that cannot be
    /// written, a CPU that is not there.
    pub fn start(options: ServeOptions) -> Result<RunningServer, ServeError> {
        let ServeOptions {
            server: spec,
            fileset,
            cache_bytes_max,
            test_handlers,
            gateway,
            until_stdin_closes: _,
            date,
        } = options;
        if spec.resolve_names && spec.access_log.is_none() {
            let hint = "add --access-log FILE, or remove --resolve-names";
            let what = "--resolve-names: host names appear only in the access log, which is off".to_owned();
            return Err(ServeError { what, hint: Some(hint.to_owned()) });
        }
        let placement = Placement::of_spec(&spec)?;
        let source = match options::root(&spec) {
            Some(root) => Source::Directory(Root::open(&root)?),
            None => Source::Set(fileset),
        };
        let gateway = gateway.map(|gateway| Gateway::new(gateway, options::root(&spec))).transpose()?;
        let log_lines_dropped = Arc::new(AtomicU64::new(0));
        let log = match &spec.access_log {
            Some(path) => Some(LogWriter::open(path, &log_lines_dropped, &placement.all)?),
            None => None,
        };
        let delay = spec.dns_delay.filter(|_| spec.resolve_names);
        let names = delay.map(|delay| NameServer::start(delay.as_duration())).transpose();
        let names = names.map_err(|error| ServeError {
            what: format!("--dns-delay: cannot start a DNS server on 127.0.0.1: {error}"),
            hint: None,
        })?;
        let addresses = addresses(&spec)?;
        let all: Vec<Address> = addresses.iter().map(|(address, _)| address.clone()).collect();
        let tls = spec.tls.as_ref().map(|tls| Tls::new(tls, &spec, &all)).transpose()?;
        let certificate = tls.as_ref().and_then(|tls| tls.made.as_ref()).map(|made| made.cert_pem.clone());
        let has_1_3 = spec.tls.as_ref().is_some_and(|tls| tls.has(TlsVersion::Tls13));
        let quic = match (&tls, spec.http3) {
            (Some(_), true) if !has_1_3 => {
                let hint = "add 1.3 to --tls-versions, or leave out HTTP/3";
                let what = "--http 3: HTTP/3 needs TLS 1.3, which --tls-versions leaves out".to_owned();
                return Err(ServeError { what, hint: Some(hint.to_owned()) });
            }
            (Some(tls), true) => Some(tls.quic()?),
            (None, true) => {
                let hint = "add --tls, or --http 2";
                let what = "--http 3: HTTP/3 is always encrypted, and there is no TLS".to_owned();
                return Err(ServeError { what, hint: Some(hint.to_owned()) });
            }
            (_, false) => None,
        };
        let mut listeners = addresses
            .iter()
            .map(|(address, over_tls)| match over_tls {
                true => Listener::bind_both(address, spec.reference_backlog(), spec.http3),
                false => Listener::bind(address, spec.reference_backlog()),
            })
            .collect::<Result<Vec<Listener>, ServeError>>()?;
        let datagrams: Vec<(UdpSocket, SocketAddr)> = listeners
            .iter_mut()
            .filter_map(|listener| {
                let Address::Tcp(address) = listener.address else { return None };
                listener.datagrams.take().map(|socket| (socket, address))
            })
            .collect();
        let (acceptor, mut orders) = Acceptor::new(listeners.len() + datagrams.len());
        let of_datagrams = orders.split_off(listeners.len());
        let alternative = datagrams
            .first()
            .and_then(|(_, address)| HeaderValue::from_str(&format!("h3=\":{}\"", address.port())).ok());
        let shared = Arc::new(Shared {
            files: Files::new(source, spec.reference_caches(), cache_bytes_max),
            counters: placement.threads.iter().map(|_| ThreadCounters::default()).collect(),
            accept_errors: AtomicU64::new(0),
            log_lines_dropped: Arc::clone(&log_lines_dropped),
            keep_alive: spec.keep_alive,
            resolve_names: spec.resolve_names,
            names,
            test_handlers,
            tls,
            http2: spec.http2,
            quic,
            alternative,
            date: date.and_then(|date| HeaderValue::from_str(&httpdate::fmt_http_date(date)).ok()),
            connection_faults: ConnectionFaults::default(),
            gateway,
            started: Instant::now(),
            test_counts: Mutex::default(),
            test_firsts: Mutex::default(),
            acceptor,
        });
        let scheme = if addresses.first().is_some_and(|(_, over_tls)| *over_tls) { "https" } else { "http" };
        let has_both = addresses.iter().any(|(_, over_tls)| *over_tls) && scheme == "http";
        let secure = || listeners.iter().filter(|listener| listener.over_tls).find_map(Listener::url);
        let ready = Ready {
            url: listeners
                .iter()
                .filter(|listener| !(has_both && listener.over_tls))
                .find_map(Listener::url)
                .unwrap_or_else(|| format!("{scheme}://localhost")),
            secure_url: has_both.then(|| secure().unwrap_or_else(|| "https://localhost".to_owned())),
            addresses: listeners.iter().map(Listener::name).collect(),
            threads: placement.threads.len() as u64,
            cpus: placement.all.clone(),
            pid: std::process::id(),
            certificate,
            notes: backlog_note(spec.reference_backlog()).into_iter().collect(),
        };
        let mut running = RunningServer { ready, shared, threads: Vec::new(), log };
        let listeners = listeners.into_iter().zip(orders).collect();
        running.start_threads(placement, listeners, datagrams.into_iter().zip(of_datagrams).collect())?;
        Ok(running)
    }
}

impl RunningServer {
    /// What it reported when it was ready.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// A URL at which it can be reached, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.ready.url
    }

    /// What it has counted so far; exact when nothing is under way.
    pub fn counters(&self) -> Counters {
        self.shared.count()
    }

    /// Stops: no more connections are accepted, answers under way get up to a second to end, then all connections are
    /// closed and the access log is written to its end.
    pub fn stop(mut self) -> ServeReport {
        self.end()
    }

    fn start_threads(
        &mut self,
        placement: Placement,
        listeners: Vec<(Listener, UnboundedReceiver<Order>)>,
        datagrams: Vec<(Datagrams, UnboundedReceiver<Order>)>,
    ) -> Result<(), ServeError> {
        let (others, queues): (Vec<_>, Vec<_>) =
            (1..placement.threads.len()).map(|_| unbounded_channel::<Accepted>()).unzip();
        let work = std::iter::once(Work::Accept { listeners, datagrams, others })
            .chain(queues.into_iter().map(Work::Queue));
        let (started, results) = mpsc::channel();
        for (index, (cpus, work)) in placement.threads.into_iter().zip(work).enumerate() {
            let (stop_accepting, stop_accepting_now) = oneshot::channel();
            let (stop, stop_now) = oneshot::channel();
            let start = Start {
                index,
                cpus,
                shared: Arc::clone(&self.shared),
                log: self
                    .log
                    .as_ref()
                    .map_or_else(ThreadLog::off, |log| log.thread_log(&self.shared.log_lines_dropped)),
                work,
                stop_accepting: stop_accepting_now,
                stop: stop_now,
                started: started.clone(),
            };
            let thread = std::thread::Builder::new()
                .name(format!("serve-{index}"))
                .spawn(move || run_thread(start))
                .map_err(|error| ServeError::system("starting a thread", &error))?;
            self.threads.push(ServingThread {
                stop_accepting: Some(stop_accepting),
                stop: Some(stop),
                thread,
            });
        }
        drop(started);
        // Each thread reports once; one that does not has panicked and dropped its end of the channel.
        let results: Vec<Result<(), ServeError>> = results.iter().collect();
        let all = results.len() == self.threads.len();
        results.into_iter().collect::<Result<(), ServeError>>()?;
        if !all {
            return Err(ServeError::system("starting a thread", &std::io::Error::other("it panicked")));
        }
        Ok(())
    }

    fn end(&mut self) -> ServeReport {
        for thread in &mut self.threads {
            // A thread that is gone need not be told.
            let _ = thread.stop_accepting.take().map(|stop| stop.send(()));
        }
        let deadline = Instant::now() + GRACE;
        let is_quiet = || self.shared.counters.iter().all(ThreadCounters::is_quiet);
        while !is_quiet() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        let open = self.shared.count().open;
        if let Some(quic) = &self.shared.quic {
            quic.close();
        }
        for thread in &mut self.threads {
            let _ = thread.stop.take().map(|stop| stop.send(()));
        }
        let panicked = self.threads.drain(..).filter_map(|thread| thread.thread.join().err()).count();
        let log_error = self.log.take().and_then(LogWriter::finish);
        let mut counters = self.shared.count();
        counters.open = open;
        let log_error = log_error.or((panicked > 0).then(|| format!("{panicked} serving threads panicked")));
        ServeReport { counters, log_error }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if !self.threads.is_empty() || self.log.is_some() {
            self.end();
        }
    }
}

fn run_thread(start: Start) {
    let Start { index, cpus, shared, log, work, stop_accepting, stop, started } = start;
    let runtime = options::pin(&cpus).and_then(|()| {
        tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .build_local(LocalOptions::default())
            .map_err(|error| ServeError::system("starting an event loop", &error))
    });
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(error))),
    };
    let shard = Rc::new(Shard::new(shared, index, log));
    runtime.block_on(async {
        // The starter waits for this; if it has gone, `stop` is gone too and ends this at once.
        let _ = started.send(Ok(()));
        drop(started);
        if shard.log.is_on() {
            tokio::task::spawn_local(hand_over_log(Rc::clone(&shard)));
        }
        let tasks = begin(work, &shard);
        // An error means that the handle was dropped, which stops the thread, too.
        let _ = stop_accepting.await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        for task in tasks {
            // It is aborted; the sockets are closed after that.
            let _ = task.await;
        }
        let _ = stop.await;
    });
    // Name look-ups under way may take seconds, and nobody needs them any more.
    runtime.shutdown_background();
}

fn begin(work: Work, shard: &Rc<Shard>) -> Vec<tokio::task::JoinHandle<()>> {
    match work {
        Work::Queue(queue) => {
            // It ends by itself when the accepting thread's dealer is dropped; until then no connection may be lost.
            tokio::task::spawn_local(accept::serve_queue(queue, Rc::clone(shard)));
            Vec::new()
        }
        Work::Accept { listeners, datagrams, others } => {
            let dealer = Rc::new(Dealer::new(Rc::clone(shard), others));
            let accept = |(listener, orders)| {
                tokio::task::spawn_local(accept::accept(listener, orders, Rc::clone(&dealer)))
            };
            let mut tasks: Vec<_> = listeners.into_iter().map(accept).collect();
            tasks.extend(datagrams.into_iter().map(|((socket, local), orders)| {
                tokio::task::spawn_local(h3::accept(socket, local, orders, Rc::clone(&dealer)))
            }));
            tasks
        }
    }
}

async fn hand_over_log(shard: Rc<Shard>) {
    loop {
        tokio::time::sleep(HAND_OVER_EVERY).await;
        shard.log.hand_over();
    }
}

/// Where to listen, each with whether TLS is spoken there: all of `listen` alike, and `tls.listen` besides.
fn addresses(spec: &ServerSpec) -> Result<Vec<(Address, bool)>, ServeError> {
    let second = spec.tls.as_ref().and_then(|tls| tls.listen.as_ref());
    let over_tls = spec.tls.is_some() && second.is_none();
    let first = Address::parse_list(&spec.listen)?.into_iter().map(|address| (address, over_tls));
    let second = second.map_or(Ok(Vec::new()), |list| Address::parse_list(list))?;
    Ok(first.chain(second.into_iter().map(|address| (address, true))).collect())
}

/// The kernel shortens a listen queue silently.
fn backlog_note(backlog: u32) -> Option<String> {
    let limit: u32 = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?.trim().parse().ok()?;
    (backlog > limit).then(|| {
        format!("--backlog {backlog}: the kernel allows {limit}; raise it with `sysctl net.core.somaxconn={backlog}`")
    })
}
