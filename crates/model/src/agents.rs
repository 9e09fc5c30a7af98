//! Agents that watched the server under test on its hosts, and the names of their hosts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::RunRecord;

/// The agent that watched the server on one of its hosts. With a single host, facts about it are in the run's
/// environment, under `server.environment`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AgentRecord {
    /// The command that started it, without secrets.
    pub command: String,
    /// The host's own name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Version of webstone there.
    pub version: String,
    /// Minimum of several round trips before the load, in nanoseconds.
    pub round_trip_ns_min: u64,
    /// The boot of that host's kernel: agents with the same boot are on the same machine. Absent if it could not be
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Ports by which it found the server, if they are not the target's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// CPUs of that host that the server may run on, as found before the load; empty if its processes were not
    /// visible.
    pub cpus: Vec<u32>,
    /// With several hosts: facts about this one, by name; those about a single host are in the run's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Value>,
}

/// Facts about a host, by name.
pub type Facts<'a> = BTreeMap<&'a str, &'a Value>;

impl AgentRecord {
    /// A fact about its host, if it is a text.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.environment.get(name)?.as_str()
    }
}

impl RunRecord {
    /// A host of the server in words: `the server's host`; one of several: `server host web2`, or `server host 2
    /// (web)` if its name is not unique.
    pub fn server_host_named(&self, agent: u32) -> String {
        match &self.target.agents[..] {
            [] | [_] => "the server's host".to_owned(),
            _ => format!("server host {}", self.server_host_name(agent)),
        }
    }

    /// The same for a table: `web2`, or `2 (web)`.
    pub fn server_host_name(&self, agent: u32) -> String {
        host_name(&self.target.agents, agent)
    }

    /// The server's hosts with facts from an agent, by agent.
    pub fn server_environments(&self) -> Vec<(u32, Facts<'_>)> {
        if let Some(Value::Object(facts)) = self.environment.get("server.environment") {
            return vec![(0, facts.iter().map(|(name, fact)| (name.as_str(), fact)).collect())];
        }
        let agents = (0..).zip(&self.target.agents);
        agents
            .map(|(place, agent)| {
                (place, agent.environment.iter().map(|(name, fact)| (name.as_str(), fact)).collect())
            })
            .filter(|(_, facts): &(u32, Facts<'_>)| !facts.is_empty())
            .collect()
    }
}

/// Its own name; with its number if it has no name, or shares it with another host of the server.
pub fn host_name(agents: &[AgentRecord], agent: u32) -> String {
    let name = agents.get(agent as usize).map_or("", |agent| agent.name.as_str());
    let number = agent.saturating_add(1);
    match agents.iter().filter(|other| other.name == name).count() {
        _ if name.is_empty() => number.to_string(),
        1 => name.to_owned(),
        _ => format!("{number} ({name})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::TargetRecord;

    #[test]
    fn hosts_have_names_of_their_own() {
        let record = |names: &[&str]| {
            let mut record = crate::fixture::record("a", &[]);
            let agent = |name: &&str| AgentRecord { name: (*name).to_owned(), ..AgentRecord::default() };
            record.target.agents = names.iter().map(agent).collect();
            record
        };
        let of = |names: &[&str]| -> Vec<String> {
            (0..names.len() as u32).map(|agent| record(names).server_host_named(agent)).collect()
        };
        assert_eq!(of(&["web1"]), ["the server's host"]);
        assert_eq!(of(&["web1", "web2"]), ["server host web1", "server host web2"]);
        assert_eq!(of(&["vm", "vm", ""]), ["server host 1 (vm)", "server host 2 (vm)", "server host 3"]);
    }

    #[test]
    fn a_record_of_one_agent_keeps_its_form() {
        let old = json!({
            "url": "http://a", "server": null, "embedded": false, "cpus": [],
            "agent": { "command": "ssh a webstone agent", "version": "0.1.0", "round_trip_ns_min": 5, "cpus": [0, 1] },
        });
        let read: TargetRecord = serde_json::from_value(old.clone()).unwrap();
        assert_eq!((read.agents.len(), &read.agents[0].cpus[..]), (1, &[0, 1][..]));
        assert_eq!(serde_json::to_value(&read).unwrap(), old);
    }
}
