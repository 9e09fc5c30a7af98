//! The specification of a run, the same whether it comes from flags, a testbed file or a message.
//!
//! All its defaults are here. A specification can always be printed as a TOML file (`--dump-spec`) and is part of the
//! record of the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::generators::GeneratorHost;
pub use crate::interfaces::{Interface, InterfaceError};
use crate::search::SearchSpec;
use crate::series::Matrix;
pub use crate::servers::{
    Logging, Profile, REFERENCE_BACKLOG, ServerChoice, ServerChoiceError, ServerSpec, Software,
};
pub use webstone_workload::load::{
    Check, ClientSpec, ConnectionPolicy, GeneratorSpec, GeneratorTask, Http2Settings, HttpVersion, Levels,
    LevelsError, LoadSpec, Order, QuicVersion, Resolve, WhenBusy, parse_cpu_list,
};

/// A whole run: target, workload, load, clients, generator and, if webstone starts it, the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RunSpec {
    /// Name of the run; part of its directory's name.
    pub name: String,
    /// URLs of the server under test, used in turn by connections; empty: webstone starts the one under `server`.
    pub target: Vec<String>,
    /// A built-in workload's name, or the path of a filelist or TOML workload.
    pub workload: String,
    /// Configuration files of the server under test, or directories of them: kept in the record, without their secrets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server_config: Vec<String>,
    /// How much load, how long, how often.
    pub load: LoadSpec,
    /// How each client behaves.
    pub client: ClientSpec,
    /// The generator's own settings.
    pub generator: GeneratorSpec,
    /// Hosts that make the load together, in order; empty: this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorHost>,
    /// The server that webstone starts, if there is no target.
    pub server: ServerSpec,
    /// How levels are searched for, if they are not listed: `webstone find`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub find: Option<SearchSpec>,
    /// How several runs are made of it: `webstone servers`, `scale` and `spice`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Matrix>,
    /// What no program can find out: topology, sponsor, hardware notes; `docs/certify.md` has the keys that rules
    /// require. Copied into the record.
    pub disclosure: BTreeMap<String, String>,
}

impl Default for RunSpec {
    fn default() -> RunSpec {
        RunSpec {
            name: "webstone".to_owned(),
            target: Vec::new(),
            workload: "standard".to_owned(),
            server_config: Vec::new(),
            load: LoadSpec::default(),
            client: ClientSpec::default(),
            generator: GeneratorSpec::default(),
            generators: Vec::new(),
            server: ServerSpec::default(),
            find: None,
            series: None,
            disclosure: BTreeMap::new(),
        }
    }
}

impl RunSpec {
    /// The part that its load generator needs.
    pub fn task(&self) -> GeneratorTask {
        GeneratorTask {
            target: self.target.clone(),
            load: self.load.clone(),
            client: self.client.clone(),
            generator: self.generator.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_workload::tls::{Share, TlsVersion};

    #[test]
    fn a_specification_reads_back_from_its_own_file() {
        let mut spec = RunSpec::default();
        spec.load.pages = Some(7);
        spec.client.headers.add("Accept", "*/*");
        let text = toml::to_string(&spec).unwrap();
        assert_eq!(toml::from_str::<RunSpec>(&text).unwrap(), spec);
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let error = toml::from_str::<RunSpec>("[load]\nclient = 3").unwrap_err();
        assert!(error.to_string().contains("unknown field `client`"), "{error}");
    }

    #[test]
    fn a_full_specification_reads_back_completely() {
        let mut spec = RunSpec::default();
        assert!(!toml::to_string(&spec).unwrap().contains("tls"));
        spec.client.tls.resume = Share::ALL;
        spec.client.tls.versions = vec![TlsVersion::Tls13];
        let text = toml::to_string(&spec).unwrap();
        assert!(text.contains("[client.tls]") && text.contains("resume = \"100%\""), "{text}");
        assert_eq!(toml::from_str::<RunSpec>(&text).unwrap(), spec);
        let error = toml::from_str::<RunSpec>("[client.tls]\nversion = 3").unwrap_err();
        assert!(error.to_string().contains("unknown field `version`"), "{error}");
    }
}
