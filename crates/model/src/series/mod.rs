//! A series: runs over a matrix of servers, interfaces, connection policies and CPUs, their iterations interleaved.
//!
//! A cell of the matrix is an ordinary run with its own record. Here is the plan ([`Series`]), which is stored beside
//! the records; `webstone-judge` decides what follows from all of them together.

mod delivery;
mod handshakes;
mod matrix;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use delivery::{Delivery, DeliveryError};
pub use handshakes::{Handshakes, HandshakesError};
pub use matrix::{CELLS_MAX, Caching, Matrix, MatrixError};

use crate::network_path::PathChoice;
use crate::record::Tool;
use crate::spec::{ConnectionPolicy, HttpVersion, RunSpec, ServerChoice};
use webstone_measure::units::Nanos;

/// Version of `series.json`. It is raised when older readers would misunderstand a change.
pub const SERIES_SCHEMA: u32 = 1;

/// The purpose of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Comparing servers: `webstone servers`.
    Servers,
    /// Scaling over CPUs: `webstone scale`.
    Scale,
    /// Comparing dynamic responses with files: `webstone spice`.
    Spice,
}

impl Kind {
    /// The command that makes it.
    pub fn command(self) -> &'static str {
        match self {
            Kind::Servers => "servers",
            Kind::Scale => "scale",
            Kind::Spice => "spice",
        }
    }
}

/// The plan of a series: `series.json`. Its progress is in its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// [`SERIES_SCHEMA`] of the writer.
    pub schema: u32,
    /// Name of its directory.
    pub id: String,
    /// Its purpose.
    pub kind: Kind,
    /// The program that planned it.
    pub tool: Tool,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// The command line, as typed, without secrets.
    pub command_line: Vec<String>,
    /// Iterations of each level of each cell: rounds through all of them.
    pub rounds: u32,
    /// What was predicted.
    pub warnings: Vec<String>,
    /// Whether the specifications had secrets, which are not stored: such a series cannot be resumed.
    #[serde(default)]
    pub without_secrets: bool,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// A cell of the matrix: one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name, which is also its run's and is unique.
    pub name: String,
    /// Its place in the matrix.
    pub at: Coordinates,
    /// The run.
    pub spec: RunSpec,
}

/// A cell's place in the matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinates {
    /// The server and its profile.
    pub server: ServerChoice,
    /// Index of the build in `series.builds`, from 1; absent if builds do not vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<u32>,
    /// The interface through which answers come; absent if interfaces do not vary.
    pub interface: Option<Delivery>,
    /// The workload, without directory and extension; absent if workloads do not vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Whether the server looks up names; absent if that does not vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve_names: Option<Caching>,
    /// Whether the server caches; absent if that does not vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caching: Option<Caching>,
    /// Whether connections use TLS, and with which handshakes; absent if that does not vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// The path between clients and server; absent if paths do not vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChoice>,
    /// Version of HTTP; absent if that does not vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpVersion>,
    /// Connection policy.
    pub connections: ConnectionPolicy,
    /// Number of CPUs of the server; absent if that does not vary.
    pub cpus: Option<u32>,
}

impl Coordinates {
    /// Whether answers are made by a program.
    pub fn is_dynamic(&self) -> bool {
        matches!(self.interface, Some(Delivery::Dynamic(_)))
    }

    /// Everything except the server and its profile, in words: `cgi, keep-alive, 2 CPUs`.
    pub fn beside_server(&self) -> String {
        let policy = match self.connections {
            ConnectionPolicy::PerRequest => "per-request",
            ConnectionPolicy::PerPage => "per-page",
            ConnectionPolicy::KeepAlive => "keep-alive",
        };
        let cpus = self.cpus.map(|cpus| format!("{cpus} {}", if cpus == 1 { "CPU" } else { "CPUs" }));
        let interface = self.interface.as_ref().map(ToString::to_string);
        let caching = self.caching.map(|caching| format!("cache {}", caching.name()));
        let build = self.build.map(|build| format!("build {build}"));
        let names = self.resolve_names.map(|names| format!("names {}", names.name()));
        let handshakes = self.handshakes.map(|handshakes| handshakes.in_words());
        let workload = self.workload.clone();
        let http = self.http.map(|http| http.name().to_owned());
        let path = self.path.map(PathChoice::in_words);
        let policy = Some(policy.to_owned());
        let parts = [build, interface, workload, names, caching, handshakes, http, path, policy, cpus];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Coordinates {
    /// `nginx:tuned, cgi, keep-alive, 2 CPUs`, `haproxy, cache on, keep-alive`: the server first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.server.name(), self.beside_server())
    }
}

impl Series {
    /// Time under load of one round, including warm-up; levels that end by pages count as nothing.
    pub fn round_time(&self) -> Nanos {
        let of_cell = |cell: &Cell| {
            let load = &cell.spec.load;
            let level = load.duration.0.saturating_add(load.warmup.0);
            if load.duration == Nanos::ZERO { 0 } else { level.saturating_mul(load.levels() as u64) }
        };
        Nanos(self.cells.iter().map(of_cell).fold(0, u64::saturating_add))
    }
}
