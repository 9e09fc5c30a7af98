//! Options of the server, and their checks.

use std::path::PathBuf;
use std::time::SystemTime;

use rustix::thread::CpuSet;
use webstone_model::spec::{ServerSpec, parse_cpu_list};

use crate::error::ServeError;
use crate::fileset::Fileset;
use crate::gateway::GatewayOptions;

/// Most bytes of files that are kept in memory unless asked otherwise.
const CACHE_BYTES_MAX: u64 = 1 << 30;
/// Most threads; each has its own event loop, and more than there are CPUs gain nothing.
const THREADS_MAX: u32 = 1024;

/// All settings of `webstone serve`.
#[derive(Debug)]
pub struct ServeOptions {
    /// The settings that a run's specification holds. `listen` may name several addresses, separated by commas, each
    /// `ADDRESS:PORT`, `[ADDRESS]:PORT`, `NAME:PORT` (the first address of the name) or `unix:/path`.
    pub server: ServerSpec,
    /// Files to serve where `server.root` names no directory.
    pub fileset: Fileset,
    /// Most bytes of file content kept in memory with `server.cache`; what does not fit is read for each request.
    pub cache_bytes_max: u64,
    /// Whether `/test`, `/schedule`, `/echo` and `/.webstone/refuse` exist. They let any client stall, break and close the
    /// server.
    pub test_handlers: bool,
    /// The program that answers `/send`; `None`: the server does, by itself.
    pub gateway: Option<GatewayOptions>,
    /// [`crate::serve()`] ends when its standard input ends: a child process dies with its parent.
    pub until_stdin_closes: bool,
    /// What the Date field says instead of the time, for answers that never change.
    pub date: Option<SystemTime>,
}

impl ServeOptions {
    /// The given settings with no files, without test handlers, and independent of standard input.
    pub fn new(server: ServerSpec) -> ServeOptions {
        ServeOptions {
            server,
            fileset: Fileset::empty(),
            cache_bytes_max: CACHE_BYTES_MAX,
            test_handlers: false,
            gateway: None,
            until_stdin_closes: false,
            date: None,
        }
    }
}

/// Where each thread may run, decided once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// CPUs of each thread, in the order of threads; empty: not pinned.
    pub(crate) threads: Vec<Vec<u32>>,
    /// CPUs of every other thread (log writer, main); empty: not pinned.
    pub(crate) all: Vec<u32>,
}

impl Placement {
    /// Decides the number of threads and their CPUs.
    pub(crate) fn of_spec(spec: &ServerSpec) -> Result<Placement, ServeError> {
        let mut cpus = parse_cpu_list(&spec.cpus).map_err(|rule| ServeError {
            what: format!("--cpus: {rule}"),
            hint: Some("leave --cpus out to let the operating system choose".to_owned()),
        })?;
        cpus.sort_unstable();
        cpus.dedup();
        let allowed = allowed_cpus()?;
        if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            let rule = format!("this process may not run on CPU {cpu}");
            let hint = format!("it may run on {}", join(&allowed));
            return Err(ServeError::option("--cpus", &spec.cpus, &rule, &hint));
        }
        if spec.threads > THREADS_MAX {
            let rule = format!("more than {THREADS_MAX} threads");
            let hint = "one thread per CPU is enough; 0 means that";
            return Err(ServeError::option("--threads", &spec.threads.to_string(), &rule, hint));
        }
        let threads = match spec.threads {
            0 if cpus.is_empty() => allowed.len(),
            0 => cpus.len(),
            threads => threads as usize,
        };
        Ok(Placement {
            threads: (0..threads).map(|thread| share(&cpus, thread, threads)).collect(),
            all: cpus,
        })
    }
}

/// The directory to serve, where one is named.
pub(crate) fn root(spec: &ServerSpec) -> Option<PathBuf> {
    spec.root.as_ref().map(PathBuf::from)
}

/// Pins the calling thread, and those that it starts from now on. No CPUs: nothing happens.
pub(crate) fn pin(cpus: &[u32]) -> Result<(), ServeError> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| ServeError::system("pinning a thread", &error.into()))
}

/// A thread's share of the CPUs: one of them in turn, or several where there are more CPUs than threads.
fn share(cpus: &[u32], thread: usize, threads: usize) -> Vec<u32> {
    if cpus.len() <= threads {
        return cpus.get(thread % cpus.len().max(1)).copied().into_iter().collect();
    }
    cpus.iter().copied().skip(thread).step_by(threads).collect()
}

fn allowed_cpus() -> Result<Vec<u32>, ServeError> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|error| ServeError::system("asking for the CPUs of this process", &error.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

fn join(cpus: &[u32]) -> String {
    let words: Vec<String> = cpus.iter().map(u32::to_string).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_cpus_in_turn() {
        assert_eq!(share(&[], 3, 4), Vec::<u32>::new());
        assert_eq!(share(&[5], 3, 4), [5]);
        assert_eq!(share(&[0, 1], 3, 4), [1]);
        assert_eq!(share(&[0, 1, 2], 0, 2), [0, 2]);
        assert_eq!(share(&[0, 1, 2], 1, 2), [1]);
        assert_eq!(share(&[0, 1], 0, 1), [0, 1]);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let spec = ServerSpec { cpus: "1023".to_owned(), ..ServerSpec::default() };
        let error = Placement::of_spec(&spec).unwrap_err();
        assert!(error.what.contains("--cpus 1023") && error.what.contains("CPU 1023"), "{error}");
        let spec = ServerSpec { cpus: "x".to_owned(), ..ServerSpec::default() };
        assert!(Placement::of_spec(&spec).unwrap_err().what.contains("0-1,4"));
        let spec = ServerSpec { threads: 5000, ..ServerSpec::default() };
        assert!(Placement::of_spec(&spec).unwrap_err().what.contains("--threads 5000"));
    }

    #[test]
    fn zero_threads_means_one_for_each_cpu() {
        let allowed = allowed_cpus().unwrap();
        assert_eq!(Placement::of_spec(&ServerSpec::default()).unwrap().threads.len(), allowed.len());
        let spec = ServerSpec { cpus: allowed[0].to_string(), ..ServerSpec::default() };
        let placement = Placement::of_spec(&spec).unwrap();
        assert_eq!(placement, Placement { threads: vec![vec![allowed[0]]], all: vec![allowed[0]] });
    }
}
