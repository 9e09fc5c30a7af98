//! Processes of the comparison: pinned, in groups of their own, measured, and always ended.
//!
//! A child is started through `taskset` and `setpriv --pdeathsig`, which replace themselves by it: pinning needs no
//! unsafe code, and the kernel ends the child even if this program is killed.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Groups of children that run now.
static RUNNING: Mutex<Vec<i32>> = Mutex::new(Vec::new());
/// Exit code of an interruption; 0: there was none.
static INTERRUPTED: AtomicU8 = AtomicU8::new(0);

/// Where server and clients run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPU of the server; `None`: not pinned.
    pub server: Option<u32>,
    /// CPU of the clients.
    pub client: Option<u32>,
}

impl Cpus {
    /// The CPUs of server and clients together, as `taskset` takes them; `None` where nothing is pinned.
    pub fn both(&self) -> Option<String> {
        Some(format!("{},{}", self.server?, self.client?))
    }

    /// The CPUs that were asked for, if there are two.
    pub fn choose(server: u32, client: u32) -> Cpus {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        if count < 2 || server == client {
            eprintln!(
                "note: server and clients share a CPU; client CPU per request still compares, rates do not"
            );
            return Cpus { server: None, client: None };
        }
        Cpus { server: Some(server), client: Some(client) }
    }
}

/// A child that came to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// User CPU time, in seconds.
    pub user_s: f64,
    /// System CPU time, in seconds.
    pub system_s: f64,
    /// From start to end, in seconds.
    pub wall_s: f64,
    /// Peak of its own memory, in bytes (`Pss_Anon`): heap and stacks, without its code and the kernel's buffers of its
    /// sockets. `None` if it was not monitored.
    pub memory_bytes_max: Option<u64>,
}

/// How a command is run.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// CPUs that it may use, as `taskset` takes them; `None`: any.
    pub cpus: Option<&'a str>,
    /// Ends it, if it takes longer.
    pub limit: Duration,
    /// Whether its memory is watched.
    pub watch_memory: bool,
}

impl How<'_> {
    /// Anywhere, within a limit.
    pub fn within(limit: Duration) -> How<'static> {
        How { cpus: None, limit, watch_memory: false }
    }
}

/// How often memory is read: often enough for the peak of a load that lasts seconds.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a command to its end, or ends it after its limit.
///
/// # Errors
/// If it cannot be started, or a step of waiting for it fails.
pub fn run(command: &[String], how: How<'_>) -> Result<Finished, String> {
    // Children are waited for one at a time, so the growth of their sum is this one's use.
    let before = children_use()?;
    let start = Instant::now();
    let mut child = Group::start(command, how.cpus, Stdio::piped())?;
    let (stdout, stderr) = (child.process.stdout.take(), child.process.stderr.take());
    let (done, watched) = mpsc::channel::<()>();
    let group = child.id;
    let (limit, watch_memory) = (how.limit, how.watch_memory);
    let guard = std::thread::spawn(move || {
        let mut memory_bytes_max = None;
        while start.elapsed() < limit {
            let wait = if watch_memory { LOOK_EVERY } else { limit.saturating_sub(start.elapsed()) };
            if watched.recv_timeout(wait) != Err(mpsc::RecvTimeoutError::Timeout) {
                return memory_bytes_max;
            }
            if watch_memory {
                memory_bytes_max = memory_bytes_max.max(own_memory(group));
            }
        }
        end_group(group, Signal::SIGKILL);
        memory_bytes_max
    });
    let errors = std::thread::spawn(move || read_all(stderr));
    let stdout = read_all(stdout);
    let status = child.process.wait().map_err(|error| format!("cannot be waited for: {error}"))?;
    let wall_s = start.elapsed().as_secs_f64();
    drop(done);
    let stderr = errors.join().unwrap_or_default();
    let memory_bytes_max = guard.join().map_err(|_| "its guard failed".to_owned())?;
    child.forget();
    let after = children_use()?;
    Ok(Finished {
        stdout,
        stderr,
        code: status.code(),
        user_s: after.0 - before.0,
        system_s: after.1 - before.1,
        wall_s,
        memory_bytes_max,
    })
}

/// A child and its descendants. They end with this value.
#[derive(Debug)]
pub struct Group {
    /// The child itself.
    pub process: Child,
    id: i32,
    ended: bool,
}

impl Group {
    /// Starts a command in a group of its own.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &[String], cpus: Option<&str>, output: Stdio) -> Result<Group, String> {
        use std::os::unix::process::CommandExt as _;
        let mut words: Vec<String> = Vec::new();
        if let Some(cpus) = cpus {
            words.extend(["taskset", "-c", cpus].map(str::to_owned));
        }
        words.extend(["setpriv", "--pdeathsig", "TERM"].map(str::to_owned));
        words.extend(command.iter().cloned());
        let process = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                format!("cannot start {}: {error}\nhint: taskset and setpriv are in util-linux", words[0])
            })?;
        let id = process.id() as i32;
        running().push(id);
        Ok(Group { process, id, ended: false })
    }

    /// Marks a child that was waited for: its number may belong to another process by now.
    fn forget(&mut self) {
        self.ended = true;
        running().retain(|id| *id != self.id);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        end_group(self.id, Signal::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(3);
        while Instant::now() < deadline {
            match self.process.try_wait() {
                Ok(Some(_)) => break,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        // Members of the group may outlive its leader.
        end_group(self.id, Signal::SIGKILL);
        if let Err(error) = self.process.wait() {
            eprintln!("cannot wait for process {}: {error}", self.id);
        }
        self.forget();
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP end all children; the one that runs now then fails, and the program ends. A second
/// signal ends the program at once.
///
/// # Errors
/// If the signals cannot be taken over.
pub fn end_them_on_signals() -> Result<(), String> {
    // Handlers, not a blocked mask: a mask would be inherited by the children, which then could not be ended.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| format!("cannot take over signals: {error}"))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let code = if signal == SIGINT { 130 } else { 143 };
            let first = INTERRUPTED.swap(code, Ordering::SeqCst) == 0;
            let groups = running().clone();
            for group in groups {
                end_group(group, if first { Signal::SIGTERM } else { Signal::SIGKILL });
            }
            if !first {
                std::process::exit(i32::from(code));
            }
        }
    });
    Ok(())
}

/// The exit code of an interruption, if one came.
pub fn interrupted() -> Option<u8> {
    Some(INTERRUPTED.load(Ordering::SeqCst)).filter(|code| *code != 0)
}

fn running() -> std::sync::MutexGuard<'static, Vec<i32>> {
    RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn end_group(id: i32, signal: Signal) {
    // The group may be gone already.
    let _ = killpg(Pid::from_raw(id), signal);
}

/// Lets this program and its children open as many files as the system allows, and returns that number.
///
/// # Errors
/// If the limit cannot be read.
pub fn raise_descriptor_limit() -> Result<u64, String> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("descriptor limit: {error}"))?;
    // If that is not allowed, the present limit has to do.
    Ok(if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft })
}

/// Anonymous memory of a process, in bytes, with its share of shared pages.
fn own_memory(process: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"))?;
    Some(kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn children_use() -> Result<(f64, f64), String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| format!("getrusage: {error}"))?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

fn read_all(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // Output before an error is still shown.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Children's CPU time is a sum over the process, so tests that wait for children take turns.
    static TURN: Mutex<()> = Mutex::new(());

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn output_and_cpu_time_are_the_childs_own() {
        let _turn = TURN.lock();
        let script = "echo out; echo err >&2; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let busy = run(&shell(script), How::within(Duration::from_secs(60))).unwrap();
        assert_eq!(busy.code, Some(0));
        assert_eq!((busy.stdout.as_str(), busy.stderr.as_str()), ("out\n", "err\n"));
        let idle = run(&shell("sleep 0.2"), How::within(Duration::from_secs(60))).unwrap();
        assert!(busy.user_s > idle.user_s, "{busy:?} {idle:?}");
        assert!(idle.wall_s >= 0.2);
        assert_eq!(run(&shell("exit 3"), How::within(Duration::from_secs(60))).unwrap().code, Some(3));
    }

    #[test]
    fn memory_that_a_child_takes_is_seen() {
        let _turn = TURN.lock();
        let watched = |script: &str| {
            let how = How { watch_memory: true, ..How::within(Duration::from_secs(60)) };
            run(&shell(script), how).unwrap().memory_bytes_max.unwrap()
        };
        // The shell holds what it substitutes: 4 MB of text.
        let large = watched("x=$(head -c 4000000 /dev/zero | tr '\\0' x); sleep 5; : $x");
        let small = watched("sleep 5");
        assert!(large > small + 3_000_000, "{large} {small}");
    }

    #[test]
    fn a_child_beyond_its_limit_is_ended() {
        let _turn = TURN.lock();
        let finished = run(&shell("sleep 60"), How::within(Duration::from_millis(100))).unwrap();
        assert!(finished.code.is_none() && finished.wall_s < 30.0);
    }

    #[test]
    fn a_dropped_group_is_gone_with_its_children() {
        let _turn = TURN.lock();
        let group = Group::start(&shell("sleep 60 & echo $!; wait"), None, Stdio::piped()).unwrap();
        let mut group = group;
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(group.process.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        let grandchild = format!("/proc/{}", line.trim());
        assert!(std::path::Path::new(&grandchild).exists());
        drop(group);
        let gone = (0..3000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let state = std::fs::read_to_string(format!("{grandchild}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
        assert!(gone, "{grandchild} is still there");
    }
}
