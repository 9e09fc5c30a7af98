//! How fast this machine's CPUs were in earlier runs: the time of the fixed work at its best, in the last windows of each. It is one file
//! beside the calibration of the load generator. `webstone_judge::verdict` bounds figures by it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;
use webstone_judge::calibration::HostIdentity;
use webstone_judge::verdict;
use webstone_measure::strict;
use webstone_model::record::{EarlierSpeed, RunRecord, Tool};
use webstone_store::plain_file::{self, Links};

/// Windows that are kept of a CPU: the last ones. About forty runs of the default.
const WINDOWS_MAX: usize = 500;
/// Machines that are kept: a home directory may be shared.
const MACHINES_MAX: usize = 16;
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Which of the windows counts as the CPU at its best, from the fastest.
const FASTEST_SHARE: f64 = 0.05;

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Speeds {
    /// Most recently used last.
    machines: Vec<Machine>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Machine {
    hostname: String,
    cpu_model: String,
    architecture: String,
    /// Another version of the program may do another piece of work.
    version: String,
    /// Nanoseconds, window by window, the latest last.
    cpus: BTreeMap<u32, Vec<u64>>,
}

impl Machine {
    fn of_environment(environment: &BTreeMap<String, Value>, tool: &Tool) -> Machine {
        let HostIdentity { hostname, cpu_model, architecture, .. } =
            HostIdentity::of_environment(environment);
        let build = if cfg!(debug_assertions) { " (debug)" } else { "" };
        let version = format!("{}{build}", tool.version);
        Machine { hostname, cpu_model, architecture, version, cpus: BTreeMap::new() }
    }

    /// Neither its kernel nor what the program may use makes a machine another one.
    fn is_same(&self, other: &Machine) -> bool {
        (&self.hostname, &self.cpu_model) == (&other.hostname, &other.cpu_model)
            && (&self.architecture, &self.version) == (&other.architecture, &other.version)
    }
}

impl Speeds {
    /// What is stored; empty if there is no file, or one that cannot be read.
    fn read(path: &Path) -> Speeds {
        let bytes = match plain_file::read(path, Links::Followed, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Speeds::default(),
            Err(error) => {
                warn!(path = %path.display(), %error, "the speeds of earlier runs cannot be read");
                return Speeds::default();
            }
        };
        strict::json(&bytes).unwrap_or_else(|error| {
            warn!(path = %path.display(), %error, "the speeds of earlier runs are begun anew");
            Speeds::default()
        })
    }
}

/// What earlier runs on this machine showed, CPU by CPU.
pub(crate) fn earlier(
    path: Option<&Path>,
    environment: &BTreeMap<String, Value>,
    tool: &Tool,
) -> Vec<EarlierSpeed> {
    let Some(path) = path else { return Vec::new() };
    let this = Machine::of_environment(environment, tool);
    let known = Speeds::read(path).machines.into_iter().find(|machine| machine.is_same(&this));
    let of = |(cpu, mut windows): (u32, Vec<u64>)| {
        windows.retain(|work_ns| *work_ns > 0);
        windows.sort_unstable();
        let rank = (windows.len() as f64 * FASTEST_SHARE).ceil() as usize;
        let work_ns = *windows.get(rank.saturating_sub(1))?;
        Some(EarlierSpeed { cpu, windows: windows.len() as u32, work_ns })
    };
    known.into_iter().flat_map(|machine| machine.cpus).filter_map(of).collect()
}

/// Adds the windows of a run. A failure is only logged: the run itself is stored elsewhere.
pub(crate) fn remember(path: Option<&Path>, record: &RunRecord) {
    let new = verdict::speeds(record, |watch| watch.work_ns_best);
    let Some(path) = path.filter(|_| !new.is_empty()) else { return };
    if let Err(error) = add(path, Machine::of_environment(&record.environment, &record.tool), new) {
        warn!(path = %path.display(), %error, "the speed of this run's CPUs cannot be stored");
    }
}

fn add(path: &Path, this: Machine, new: BTreeMap<u32, Vec<u64>>) -> Result<(), Box<dyn Error>> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    // Runs may end at the same moment. A run that finds it locked stores nothing, instead of waiting for a process that may be stopped.
    let lock = File::open(directory)?;
    lock.try_lock()?;
    let mut speeds = Speeds::read(path);
    let known = speeds.machines.iter().position(|machine| machine.is_same(&this));
    let mut machine = known.map_or(this, |place| speeds.machines.remove(place));
    for (cpu, windows) in new {
        let all = machine.cpus.entry(cpu).or_default();
        all.extend(windows);
        all.drain(..all.len().saturating_sub(WINDOWS_MAX));
    }
    speeds.machines.push(machine);
    speeds.machines.drain(..speeds.machines.len().saturating_sub(MACHINES_MAX));
    Ok(webstone_store::replace(path, &serde_json::to_vec(&speeds)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::fixture::timed;

    #[test]
    fn the_best_of_the_last_windows_is_known_on_the_same_machine() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/cpu-speed.json");
        let known = |record: &RunRecord| earlier(Some(&path), &record.environment, &record.tool);
        let first = timed("box", &[5_000, 6_000]);
        assert_eq!(known(&first), []);
        remember(Some(&path), &first);
        assert_eq!(known(&first), [EarlierSpeed { cpu: 0, windows: 2, work_ns: 5_000 }]);
        assert_eq!(known(&timed("another", &[1])), []);
        let mut newer = first.clone();
        newer.tool.version = "9".to_owned();
        assert_eq!(known(&newer), []);
        // The 5th percentile of 40 is the second; what was never timed does not count.
        remember(Some(&path), &timed("box", &[0; 3]));
        remember(Some(&path), &timed("box", &[7_000; 38]));
        assert_eq!(known(&first), [EarlierSpeed { cpu: 0, windows: 40, work_ns: 6_000 }]);
        remember(Some(&path), &timed("box", &[8_000; WINDOWS_MAX]));
        assert_eq!(known(&first)[0], EarlierSpeed { cpu: 0, windows: WINDOWS_MAX as u32, work_ns: 8_000 });
    }

    #[test]
    fn a_file_of_something_else_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu-speed.json");
        for junk in ["", "{\"machines\": 1}", "\u{0}"] {
            fs::write(&path, junk).unwrap();
            let record = timed("box", &[5_000]);
            assert_eq!(earlier(Some(&path), &record.environment, &record.tool), []);
            remember(Some(&path), &record);
            assert_eq!(earlier(Some(&path), &record.environment, &record.tool).len(), 1);
        }
        // While another run has it locked, and where nothing can be written.
        let lock = File::open(directory.path()).unwrap();
        lock.lock().unwrap();
        let before = fs::read(&path).unwrap();
        remember(Some(&path), &timed("box", &[5_000]));
        assert_eq!(fs::read(&path).unwrap(), before);
        remember(Some(Path::new("/dev/null/cpu-speed.json")), &timed("box", &[5_000]));
    }
}
