//! Load that several hosts make together: which hosts. The part of each in a level, and what it measured, is in
//! [`webstone_measure::parts`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kubernetes::{PodRecord, PodsOfJob};
use crate::record::RunRecord;

pub use webstone_measure::parts::{
    ClockOffset, DISTRIBUTIONS_OF_HOSTS_MAX, GeneratorLoss, GeneratorPart, LoadMaker,
};

/// A host that makes load, or all pods of a Job that do, as in the specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorHost {
    /// Command whose standard input and output connect to `webstone agent` there: `ssh gen1 webstone agent`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// Instead of a command: pods of a Kubernetes Job, each of which is a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<PodsOfJob>,
    /// Its name in reports; absent: the host's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its clients, if all hosts say how many they have (of a Job: each pod). A level of another number of clients is divided in the
    /// same proportion. Absent: clients are divided by workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// URL at which it reaches the server under test; absent: the run's. A server with several networks has an address in each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl GeneratorHost {
    /// The host that a command reaches.
    pub fn reached_by(command: impl Into<String>) -> GeneratorHost {
        GeneratorHost { agent: command.into(), ..GeneratorHost::default() }
    }

    /// Number of hosts that this means.
    pub fn count(&self) -> usize {
        self.kubernetes.as_ref().map_or(1, |pods| pods.pods as usize)
    }
}

/// A host that made load, as it described itself before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GeneratorRecord {
    /// The command that started its agent, without secrets.
    pub command: String,
    /// The host's own name, or the one that the run gives it.
    pub name: String,
    /// URL at which it reached the server under test, if that is not the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The pod that its agent ran in, if Kubernetes started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRecord>,
    /// Version of webstone there, with its commit.
    pub version: String,
    /// SHA-256 of the program that ran there, in hex.
    pub program_sha256: String,
    /// The boot of its kernel: two agents with the same boot are on one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// CPUs that its workers were pinned to.
    pub cpus: Vec<u32>,
    /// Its workers.
    pub workers: u32,
    /// Slots of each of its workers, by which clients and arrivals are divided: more if a calibration says that its
    /// workers can do more than those of other hosts.
    pub slots: u32,
    /// Whether the address of the server under test is on this host; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_server: Option<bool>,
    /// Minimum of several round trips between controller and agent before the load, in nanoseconds.
    pub round_trip_ns_min: u64,
    /// Facts about the host, by name, as in the environment of a host that makes load by itself.
    pub environment: BTreeMap<String, serde_json::Value>,
}

impl RunRecord {
    /// The record of the host that made this load.
    pub fn generator_of(&self, maker: &LoadMaker<'_>) -> Option<&GeneratorRecord> {
        self.generators.get(maker.generator? as usize)
    }

    /// A generator with the command that started its agent, `generator 2 (ssh gen2 webstone agent)`, or with its pod,
    /// `generator 2 (pod webstone-1-x7k2p on node2)`.
    pub fn generator_named(&self, generator: u32) -> String {
        let name = format!("generator {}", generator.saturating_add(1));
        match self.generators.get(generator as usize) {
            Some(GeneratorRecord { pod: Some(pod), .. }) => format!("{name} ({})", pod.in_words()),
            Some(host) if !host.command.is_empty() => format!("{name} ({})", host.command),
            _ => name,
        }
    }
}

impl GeneratorRecord {
    /// The host's name, with the node if that has another name, as in a pod: `webstone-1 on node2`.
    pub fn place(&self) -> String {
        match &self.pod {
            Some(pod) if pod.node != self.name => format!("{} on {}", self.name, pod.node),
            _ => self.name.clone(),
        }
    }

    /// A fact about the host, if it is a text.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.environment.get(name)?.as_str()
    }
}
