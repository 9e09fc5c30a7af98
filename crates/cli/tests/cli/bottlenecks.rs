//! Bottlenecks of servers whose limit is known: each sentence in the situation that it describes. A busy machine may
//! prevent a run from showing it; then the report must say that the bottleneck is unknown, and never what the tables
//! of the record refute.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use webstone_judge::verdict::{self, Limit, LimitingResource};
use webstone_model::record::{IterationRecord, RunRecord};

use crate::own_servers::{directory, run_in};
use crate::refuted::refuted;

/// A server that answers in a way that the test chooses. It ends when its output is closed.
const SERVER: &str = r#"
import socket, sys, threading, time
port, kind, queue = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('127.0.0.1', port))
listener.listen(queue)
lock = threading.Lock()
def burn():
    end = time.thread_time() + 0.002
    while time.thread_time() < end: pass
def work():
    if kind == 'burn': burn()
    elif kind == 'lock':
        with lock: time.sleep(0.01)
    else: time.sleep(0.01)
def serve(peer):
    while True:
        asked = b''
        while b'\r\n\r\n' not in asked:
            more = peer.recv(65536)
            if not more: return peer.close()
            asked += more
        work()
        keeps = b'close' not in asked.lower() and b'HTTP/1.0' not in asked
        peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n' + (b'' if keeps else b'Connection: close\r\n') + b'\r\nok')
        if not keeps: return peer.close()
def accept():
    while True:
        peer = listener.accept()[0]
        try: serve(peer)
        except OSError: pass
if kind in ('burn', 'queue', 'pool'):
    for _ in range(1 if kind == 'pool' else 0): threading.Thread(target=accept, daemon=True).start()
    accept()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;
const PYTHON: &str = "/usr/bin/python3";
const KEPT: &[&str] = &["--connections", "keep-alive", "--warmup", "300ms"];
/// For tests that need nothing from the beginning.
const SHORT: &[&str] = &["--warmup", "300ms"];
/// One connection per request, which the server closes.
const CLOSED: &[&str] = &["--connections", "per-request", "--http", "1.0"];

#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn skipped(why: &str) {
    println!("skipped: {why}");
}

/// A short run with the server; prints why and returns `None` if it is not possible here.
fn measured(kind: &str, queue: u32, arguments: &[&str]) -> Option<RunRecord> {
    if !Path::new(PYTHON).exists() || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skipped("it takes /usr/bin/python3 and two CPUs");
        return None;
    }
    let dir = directory();
    let script = dir.path().join("server.py");
    fs::write(&script, SERVER).unwrap();
    fs::write(dir.path().join("files.txt"), "/index.html 1 #2\n").unwrap();
    let command = format!("{PYTHON} {} {{port}} {kind} {queue}", script.display());
    let common = [
        "run",
        "--server",
        "command",
        "--server-command",
        &command,
        "-w",
        "files.txt",
        "-q",
        "--no-store",
        "--spin",
    ];
    let times = ["--format", "json", "-d", "2s", "-i", "1"];
    let said = run_in(dir.path(), &[&common[..], &times, arguments].concat());
    let record = serde_json::from_str(&said.out);
    Some(record.unwrap_or_else(|error| panic!("{kind}: {error}: {}", said.err)))
}

/// The bottlenecks of all levels; none may be refuted by its tables.
fn limits(record: &RunRecord) -> Vec<Limit> {
    let levels = record.levels();
    let limits: Vec<Limit> =
        verdict::of_record(record).level_limits.into_iter().map(|level| level.limit).collect();
    assert_eq!(levels.len(), limits.len());
    for ((_, runs), limit) in levels.iter().zip(&limits) {
        assert_eq!(refuted(record, runs, limit), None);
    }
    limits
}

/// Whether other programs used some of the CPUs, by the record's tables: then nothing else needs to be reported.
fn disturbed(record: &RunRecord) -> Option<String> {
    let mut why = String::new();
    for run in &record.iterations {
        let others = others(run);
        let kept_off = run.measured.generator.workers.iter().filter_map(|worker| worker.run_queue_ns).max();
        let kept_off = kept_off.unwrap_or_default() as f64 * 100.0 / run.measured.window_ns as f64;
        if others >= 4.0 || kept_off >= 4.0 || !verdict::losses(record, run).is_empty() {
            let _ = write!(
                why,
                "other programs had {others:.0} % of the CPUs, and kept the generator off its own for {kept_off:.0} %; "
            );
        }
    }
    (!why.is_empty()).then_some(why)
}

/// What was not used by server, generator or interrupts on this host's CPUs, in percent.
fn others(run: &IterationRecord) -> f64 {
    let host = run.host.as_ref().unwrap();
    let busy: u64 = host.cpus.iter().map(|cpu| cpu.busy_ns + cpu.stolen_ns - cpu.interrupt_ns).sum();
    let all: u64 = host.cpus.iter().map(|cpu| cpu.busy_ns + cpu.idle_ns + cpu.stolen_ns).sum();
    let server = run.server.as_ref().map_or(0, |server| server.user_ns + server.system_ns);
    let workers: u64 =
        run.measured.generator.workers.iter().map(|worker| worker.user_ns + worker.system_ns).sum();
    busy.saturating_sub(server + workers) as f64 * 100.0 / all as f64
}

/// Whether something is reported with precedence over other programs on the server's CPUs: a hypervisor that took a
/// CPU, or a generator that had to wait for its own.
fn hindered(record: &RunRecord) -> Option<String> {
    let run = &record.iterations[0];
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let cpus = &run.host.as_ref().unwrap().cpus;
    let stolen = cpus.iter().map(|cpu| percent(cpu.stolen_ns, cpu.busy_ns + cpu.idle_ns + cpu.stolen_ns));
    let stolen = stolen.fold(0.0, f64::max);
    let workers = &run.measured.generator.workers;
    let wanted = workers.iter().map(|it| it.worked_ns() + it.run_queue_ns.unwrap_or_default());
    let wanted = percent(wanted.max().unwrap_or_default(), run.measured.window_ns);
    (stolen >= 5.0 || wanted >= 90.0).then(|| {
        format!("the hypervisor took {stolen:.0} % of a CPU, the generator wanted {wanted:.0} % of its own")
    })
}

/// Checks that the bottleneck is the known one, or that the machine was disturbed and it is unknown.
#[track_caller]
fn assert_told(record: &RunRecord, limit: &Limit, resource: LimitingResource, parts: &[&str]) {
    if let (LimitingResource::Unknown, Some(why)) = (limit.resource, disturbed(record)) {
        return skipped(&format!("{why}and said was: {}", limit.sentence));
    }
    assert_eq!(limit.resource, resource, "{}", limit.sentence);
    for part in parts {
        assert!(limit.sentence.contains(part), "`{part}` is not in: {}", limit.sentence);
    }
}

#[test]
fn one_thread_on_two_cpus_is_the_bottleneck_by_its_name() {
    let cpus = ["--server-cpus", "0,1", "--cpus", "1", "-c", "8"];
    let Some(record) = measured("burn", 512, &[&cpus[..], SHORT, CLOSED].concat()) else { return };
    let [limit] = &limits(&record)[..] else { panic!("one level") };
    let parts = ["A single thread of the server is the bottleneck at 8 clients: `python3"];
    assert_told(&record, limit, LimitingResource::ServerThread, &parts);
}

#[test]
fn one_thread_on_one_cpu_is_the_servers_cpu() {
    let cpus = ["--server-cpus", "0", "--cpus", "1", "-c", "8"];
    let Some(record) = measured("burn", 512, &[&cpus[..], SHORT, CLOSED].concat()) else { return };
    let [limit] = &limits(&record)[..] else { panic!("one level") };
    assert_told(
        &record,
        limit,
        LimitingResource::Server,
        &["The server's CPU is the bottleneck at 8 clients"],
    );
}

#[test]
fn a_lock_shows_in_a_rate_that_more_clients_do_not_raise() {
    let Some(record) = measured("lock", 512, &[&["-c", "4,16"][..], KEPT].concat()) else { return };
    let [few, many] = &limits(&record)[..] else { panic!("two levels") };
    assert_told(&record, few, LimitingResource::None, &["or the clients are too few to keep it busy"]);
    if many.resource == LimitingResource::None && !many.sentence.contains("4 clients had the same rate") {
        return skipped(&many.sentence);
    }
    assert_told(&record, many, LimitingResource::None, &["A lock, a queue,"]);
}

#[test]
fn a_slow_backend_is_no_cpu_and_more_clients_may_help() {
    let Some(record) = measured("slow", 512, &[&["-c", "4,16"][..], KEPT].concat()) else { return };
    for limit in limits(&record) {
        let parts =
            ["Neither CPU nor network is the bottleneck", "or the clients are too few to keep it busy"];
        assert_told(&record, &limit, LimitingResource::None, &parts);
    }
}

#[test]
fn a_limit_of_workers_is_shown_with_the_requests_in_progress() {
    let Some(record) = measured("pool", 512, &[&["-c", "2,16"][..], SHORT, CLOSED].concat()) else { return };
    let [_, many] = &limits(&record)[..] else { panic!("two levels") };
    assert_told(&record, many, LimitingResource::None, &["for 2 threads of the server"]);
}

#[test]
fn a_queue_that_is_too_short_is_seen_by_its_overflows() {
    // From the start, when they all come at once: a connection that finds the queue full tries again after one
    // second, then after two.
    let arguments = [&["-c", "32", "--warmup", "0s"][..], CLOSED].concat();
    let Some(record) = measured("queue", 1, &arguments) else { return };
    let [limit] = &limits(&record)[..] else { panic!("one level") };
    let host = record.iterations[0].host.as_ref().unwrap();
    let dropped = host.listener_drops.unwrap();
    assert!(dropped > 0, "31 clients find a queue of two full");
    // For all sockets; read at another instant, so neither is a bound for the other.
    assert!(host.tcp.unwrap().listen_drops > 0, "{host:?}");
    let told = format!("the server's listening sockets dropped {dropped} connection request");
    assert_told(&record, limit, LimitingResource::None, &["a lock, a queue", &told]);
}

#[test]
fn a_rate_that_was_delivered_is_the_limit() {
    let Some(record) = measured("slow", 512, &[&["-R", "50", "-c", "40"][..], KEPT].concat()) else { return };
    let [limit] = &limits(&record)[..] else { panic!("one level") };
    let kept = record.iterations[0].schedule.unwrap();
    if (kept.asked_rate - kept.offered_rate).abs() > kept.asked_rate / 100.0 {
        return skipped("the machine was too busy to keep to 50 arrivals/s");
    }
    let parts = ["The offered rate is the limit at 50 arrivals/s: the server kept up with it"];
    assert_told(&record, limit, LimitingResource::OfferedRate, &parts);
}

/// A shell that does nothing but use CPU 0, and ends by itself after some time.
struct Burner(std::process::Child);

impl Burner {
    fn on_first_cpu() -> Option<Burner> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "timeout", "60", "sh", "-c", "while :; do :; done"]);
        command.spawn().ok().map(Burner)
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // `timeout` passes the signal on to its child.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &pid]).status();
        let until = Instant::now() + Duration::from_secs(5);
        while self.0.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn with_other_programs_on_the_servers_cpu_the_bottleneck_is_unknown() {
    let Some(_burner) = Burner::on_first_cpu() else { return skipped("there is no taskset") };
    let cpus = ["--server-cpus", "0", "--cpus", "1"];
    for (kind, more) in [("burn", &[SHORT, CLOSED].concat()[..]), ("lock", KEPT)] {
        let Some(record) = measured(kind, 512, &[&cpus[..], &["-c", "8"], more].concat()) else { return };
        let [limit] = &limits(&record)[..] else { panic!("one level") };
        if kind == "lock" && limit.resource == LimitingResource::None {
            // A server that hardly uses its CPU may get it whenever it wants it, for its priority.
            skipped(&format!("the server hardly waited: {}", limit.sentence));
            continue;
        }
        assert_eq!(limit.resource, LimitingResource::Unknown, "{}", limit.sentence);
        if let Some(why) = hindered(&record) {
            skipped(&format!("{why}, and said was: {}", limit.sentence));
            continue;
        }
        assert!(limit.sentence.contains("other programs ran on the server's CPUs"), "{}", limit.sentence);
    }
}
