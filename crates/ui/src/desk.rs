//! What the front asks of the command line, which knows all flags and their meaning: so a form, a testbed file and flags are
//! checked against the same rules.

use serde::Serialize;
use webstone_model::spec::RunSpec;

/// What a testbed file would run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// All of the run, or of what the cells of a series have in common.
    pub spec: RunSpec,
    /// Of a series: its cells' names.
    pub cells: Vec<String>,
    /// Of a series: how often each cell runs.
    pub rounds: u32,
    /// What may not be as the user expects.
    pub warnings: Vec<String>,
    /// What would be typed for the same, where flags alone can say it.
    pub command_line: Option<Vec<String>>,
}

/// Why a testbed file cannot be run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The key, where it is known: `load.duration`.
    pub key: Option<String>,
    /// The line in the testbed file, from 1.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A server that can be named.
#[derive(Clone, Debug, Serialize)]
pub struct KnownServer {
    /// Its name in testbed files.
    pub name: &'static str,
    /// Its version here; absent where it is not installed.
    pub installed: Option<String>,
    /// What it is, or how to install it.
    pub hint: String,
}

/// The command line, as the front sees it.
pub trait Desk: Send + Sync {
    /// Reads the text of a testbed file as `webstone COMMAND -f FILE` would.
    ///
    /// # Errors
    /// The first rule that it breaks.
    fn plan(&self, command: &str, testbed: &str) -> Result<Planned, Problem>;

    /// The servers that can be named, and which are installed.
    fn servers(&self) -> Vec<KnownServer>;

    /// The workloads that are built in: name, and what it is.
    fn workloads(&self) -> Vec<(String, String)>;

    /// What this host's load generator can do at best; `None` if it was not measured.
    fn calibration(&self) -> Option<String>;

    /// The program's version, with its commit.
    fn version(&self) -> String;
}
