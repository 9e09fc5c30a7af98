//! The matrix of a series: what varies, and the cells that result. It is `[series]` in a testbed file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Cell, Coordinates, Delivery, Handshakes};
use crate::network_path::PathChoice;
use crate::spec::{ConnectionPolicy, HttpVersion, Profile, RunSpec, ServerChoice, Software};

/// Maximum number of cells of a series. A larger matrix is a typing error.
pub const CELLS_MAX: usize = 1_000;

/// What a series varies. What is not listed is the same in every cell, as in the rest of the testbed file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Matrix {
    /// Servers, with their profiles if `profiles` is empty: `nginx`, `apache:tuned`.
    pub servers: Vec<ServerChoice>,
    /// Profiles in which every server that has profiles is run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// Builds of the server to compare: its programs (`server.program`), or command lines if the server is `command`
    /// (`server.command`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<String>,
    /// Server-side interfaces through which answers come; `static` serves files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Delivery>,
    /// Workloads, each in separate cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Workloads of cells in which a program answers; if empty, `dynamic_workload`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dynamic_workloads: Vec<String>,
    /// Whether the server looks up the names of its clients: `on`, `off`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resolve_names: Vec<Caching>,
    /// The workload of cells in which a program answers; if absent, that of all cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_workload: Option<String>,
    /// Whether a proxy caches answers (other servers: files): `on`, `off`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caching: Vec<Caching>,
    /// Connection policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionPolicy>,
    /// Whether connections use TLS, and with which handshakes: `off`, `full`, `resumed`, or the share that resumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handshakes: Vec<Handshakes>,
    /// Paths between clients and server: `off`, or a path as in `server.path`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathChoice>,
    /// Versions of HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpVersion>,
    /// Numbers of CPUs for the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// By name of a workload: the pages that a level of its cells fetches, instead of `load.pages`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<String, u64>,
}

webstone_measure::named! {
    /// Whether a server does something: cache what it has read, or look up names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    Caching:
    /// It does.
    On "on",
    /// It does not.
    Off "off",
}

/// Why a matrix is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct MatrixError {
    /// What is wrong, with the key in the file.
    pub what: String,
    /// What to do about it.
    pub hint: &'static str,
}

impl Matrix {
    /// Whether nothing varies.
    pub fn is_empty(&self) -> bool {
        *self == Matrix::default()
    }

    /// The workloads that cells may have, each once; `own` is that of the specification.
    fn workloads_of<'a>(&'a self, own: &'a str) -> Vec<&'a str> {
        let own = Some(own).filter(|_| self.workloads.is_empty());
        let listed = self.workloads.iter().chain(&self.dynamic_workloads).chain(&self.dynamic_workload);
        let mut all: Vec<&str> = own.into_iter().chain(listed.map(String::as_str)).collect();
        let mut seen = BTreeSet::new();
        all.retain(|name| seen.insert(*name));
        all
    }

    /// Forgets the pages of workloads that it has not, or not any more.
    pub fn drop_unused_pages(&mut self, own: &str) {
        let known: BTreeSet<String> = self.workloads_of(own).into_iter().map(str::to_owned).collect();
        self.pages.retain(|name, _| known.contains(name));
    }

    /// The servers, each in every listed profile.
    fn choices(&self, own: ServerChoice) -> Result<Vec<ServerChoice>, MatrixError> {
        let servers = if self.servers.is_empty() { vec![own] } else { self.servers.clone() };
        if self.profiles.is_empty() {
            return Ok(servers);
        }
        if let Some(twice) = servers.iter().find(|choice| choice.profile == Profile::Tuned) {
            return Err(MatrixError {
                what: format!(
                    "{twice} names a profile, and the profiles of every server are listed (series.profiles)"
                ),
                hint: "leave the profile out of the server's name, or leave out the list of profiles",
            });
        }
        let has_profiles = |software| !matches!(software, Software::Reference | Software::Command);
        let in_each = servers.iter().flat_map(|choice| {
            let profiles = match has_profiles(choice.software) {
                true => self.profiles.as_slice(),
                false => &[Profile::Stock],
            };
            profiles.iter().map(|profile| ServerChoice { profile: *profile, ..*choice })
        });
        Ok(in_each.collect())
    }

    /// Every cell, with servers varying slowest, then CPUs, and caching fastest. Each has a specification made from
    /// `base`, complete except for what depends on the machine (which CPUs).
    ///
    /// # Errors
    /// If something is listed twice, is contradictory, or makes more than [`CELLS_MAX`] cells.
    pub fn cells(&self, base: &RunSpec) -> Result<Vec<Cell>, MatrixError> {
        let own = ServerChoice { software: base.server.software, profile: base.server.profile };
        let choices = self.choices(own)?;
        once("servers", &choices)?;
        once("profiles", &self.profiles)?;
        once("builds", &self.builds)?;
        once("interfaces", &self.interfaces)?;
        once("caching", &self.caching)?;
        once("connections", &self.connections)?;
        once("cpus", &self.cpus)?;
        once("workloads", &self.workloads)?;
        once("dynamic_workloads", &self.dynamic_workloads)?;
        once("resolve_names", &self.resolve_names)?;
        once("handshakes", &self.handshakes)?;
        once("paths", &self.paths)?;
        once("http", &self.http)?;
        let known = self.workloads_of(&base.workload);
        if let Some(unknown) = self.pages.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(MatrixError {
                what: format!(
                    "pages (series.pages): `{unknown}` is not a workload of the series; it has {}",
                    known.join(", ")
                ),
                hint: "write the workload as it stands in the file, or remove it from series.pages",
            });
        }
        if self.cpus.contains(&0) {
            return Err(MatrixError {
                what: "cpus (series.cpus): a server cannot run on 0 CPUs".to_owned(),
                hint: "write numbers from 1: 1,2,4",
            });
        }
        let deliveries: Vec<Option<&Delivery>> = or_none(&self.interfaces);
        let caching: Vec<Option<&Caching>> = or_none(&self.caching);
        let policies: Vec<Option<&ConnectionPolicy>> = or_none(&self.connections);
        let counts: Vec<Option<&u32>> = or_none(&self.cpus);
        let builds = or_none(&self.builds);
        let workloads = self.workloads.len().max(self.dynamic_workloads.len()).max(1);
        let beside = [builds.len(), workloads, self.resolve_names.len().max(1), self.handshakes.len().max(1)];
        let network = [self.paths.len().max(1), self.http.len().max(1)];
        let number = [choices.len(), deliveries.len(), caching.len(), policies.len(), counts.len()]
            .into_iter()
            .chain(beside)
            .chain(network)
            .fold(1_usize, usize::saturating_mul);
        if number > CELLS_MAX {
            return Err(MatrixError {
                what: format!("the matrix has {number} cells, and a series takes at most {CELLS_MAX}"),
                hint: "list less of one of its dimensions, or make several series",
            });
        }
        let mut cells = Vec::with_capacity(number);
        for choice in &choices {
            for (place, build) in builds.iter().enumerate() {
                let base = &built(base, *choice, *build);
                for delivery in &deliveries {
                    for policy in &policies {
                        for count in &counts {
                            let at = build.map(|_| place as u32 + 1);
                            let cell = self.cell(base, *choice, at, delivery.copied(), *policy, *count);
                            for cell in self.asked(&cell) {
                                cells.extend(caching.iter().map(|caching| cached(cell.clone(), *caching)));
                            }
                        }
                    }
                }
            }
        }
        // Each cell has its own file of transactions: `all.tsv` gives all-nginx.tsv.
        for Cell { name, spec, .. } in &mut cells {
            if let Some(path) = &mut spec.generator.record_all {
                let (stem, ending) = match path.rsplit_once('.') {
                    Some((stem, ending)) if !ending.contains('/') => (stem, format!(".{ending}")),
                    _ => (path.as_str(), String::new()),
                };
                *path = format!("{stem}-{name}{ending}");
            }
        }
        Ok(cells)
    }

    fn cell(
        &self,
        base: &RunSpec,
        choice: ServerChoice,
        build: Option<u32>,
        delivery: Option<Delivery>,
        policy: Option<&ConnectionPolicy>,
        cpus: Option<&u32>,
    ) -> Cell {
        let mut spec = base.clone();
        spec.series = None;
        (spec.server.software, spec.server.profile) = (choice.software, choice.profile);
        let mut name = choice.software.name().to_owned();
        if choice.profile == Profile::Tuned {
            name += "-tuned";
        }
        if let Some(build) = build {
            name += &format!("-build{build}");
        }
        if let Some(delivery) = delivery {
            name += &format!("-{delivery}");
            spec.server.interface = delivery.interface();
            if let (Delivery::Dynamic(_), Some(workload)) = (delivery, &self.dynamic_workload) {
                spec.workload.clone_from(workload);
            }
        }
        if let Some(policy) = policy {
            spec.client.connections = *policy;
            name += match policy {
                ConnectionPolicy::PerRequest => "-per-request",
                ConnectionPolicy::PerPage => "-per-page",
                ConnectionPolicy::KeepAlive => "-keep-alive",
            };
        }
        if let Some(cpus) = cpus {
            name += &format!("-{cpus}cpu");
        }
        spec.name.clone_from(&name);
        let at = Coordinates {
            server: choice,
            build,
            interface: delivery,
            workload: None,
            resolve_names: None,
            caching: None,
            handshakes: None,
            path: None,
            http: None,
            connections: spec.client.connections,
            cpus: cpus.copied(),
        };
        Cell { name, at, spec }
    }
}

/// The specification with one of the builds, if they vary.
fn built(base: &RunSpec, choice: ServerChoice, build: Option<&String>) -> RunSpec {
    let mut spec = base.clone();
    if let Some(build) = build {
        let server = &mut spec.server;
        let place =
            if choice.software == Software::Command { &mut server.command } else { &mut server.program };
        *place = Some(build.clone());
    }
    spec
}

impl Matrix {
    /// A cell for each workload, each way to handle names and each kind of handshakes, if they vary; with that in its
    /// name.
    fn asked(&self, cell: &Cell) -> Vec<Cell> {
        let workloads = match cell.at.is_dynamic() && !self.dynamic_workloads.is_empty() {
            true => &self.dynamic_workloads,
            // All workloads share one dynamic workload.
            false if cell.at.is_dynamic() && self.dynamic_workload.is_some() => &Vec::new(),
            false => &self.workloads,
        };
        let mut cells = Vec::new();
        for workload in or_none(workloads) {
            for (resolve, handshakes) in pairs(&self.resolve_names, &self.handshakes) {
                let mut cell = cell.clone();
                if let Some(workload) = workload {
                    cell.spec.workload.clone_from(workload);
                    cell.at.workload = Some(stem(workload));
                    cell.name += &format!("-{}", stem(workload));
                }
                if let Some(resolve) = resolve {
                    cell.spec.server.resolve_names = *resolve == Caching::On;
                    cell.at.resolve_names = Some(*resolve);
                    cell.name += &format!("-names-{}", resolve.name());
                }
                if let Some(handshakes) = handshakes {
                    handshakes.applied(&mut cell.spec);
                    cell.at.handshakes = Some(*handshakes);
                    cell.name += &format!("-{}", handshakes.in_name());
                }
                if let Some(pages) = self.pages.get(&cell.spec.workload) {
                    cell.spec.load.pages = Some(*pages);
                }
                cells.extend(
                    pairs(&self.paths, &self.http).map(|(path, http)| over(cell.clone(), path, http)),
                );
            }
        }
        cells
    }
}

/// A cell over a path in a version of HTTP, if they vary; with that in its name.
fn over(mut cell: Cell, path: Option<&PathChoice>, http: Option<&HttpVersion>) -> Cell {
    if let Some(path) = path {
        cell.spec.server.path = path.path();
        cell.name += &format!("-{}", path.in_name());
    }
    if let Some(http) = http {
        cell.spec.client.http = *http;
        cell.name += &format!("-{}", http.name().to_lowercase().replace('/', ""));
    }
    (cell.at.path, cell.at.http) = (path.copied(), http.copied());
    cell.spec.name.clone_from(&cell.name);
    cell
}

/// A workload's name as part of a cell's: for a file, without its directory and extension.
fn stem(workload: &str) -> String {
    let file = workload.rsplit('/').next().unwrap_or(workload);
    file.strip_suffix(".toml").unwrap_or(file).to_owned()
}

/// A cell with its cache switched on or off, if that varies; with that in its name.
fn cached(mut cell: Cell, caching: Option<&Caching>) -> Cell {
    if let Some(caching) = caching {
        cell.spec.server.cache = Some(*caching == Caching::On);
        cell.name += &format!("-cache-{}", caching.name());
        cell.spec.name.clone_from(&cell.name);
    }
    cell.at.caching = caching.copied();
    cell
}

/// If nothing is listed, one cell that leaves it as it is.
fn or_none<T>(listed: &[T]) -> Vec<Option<&T>> {
    if listed.is_empty() { vec![None] } else { listed.iter().map(Some).collect() }
}

/// All combinations of the two.
fn pairs<'a, A, B>(one: &'a [A], other: &'a [B]) -> impl Iterator<Item = (Option<&'a A>, Option<&'a B>)> {
    or_none(one)
        .into_iter()
        .flat_map(move |first| or_none(other).into_iter().map(move |second| (first, second)))
}

fn once<T: PartialEq + Serialize>(key: &str, listed: &[T]) -> Result<(), MatrixError> {
    let twice = listed.iter().enumerate().find(|(place, value)| listed[..*place].contains(value));
    let Some((_, value)) = twice else { return Ok(()) };
    let value = serde_json::to_value(value).unwrap_or_default();
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Err(MatrixError {
        what: format!("{key} (series.{key}): {text} is listed twice"),
        hint: "name each once; -i sets how often every cell is measured",
    })
}

#[cfg(test)]
#[path = "matrix_tests.rs"]
mod tests;
