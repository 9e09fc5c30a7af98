//! The specification of the server under test that webstone starts: which software, in which profile, with which
//! settings changed. Part of [`crate::spec::RunSpec`].
//!
//! All software has the same options: a driver refuses options that its server cannot implement, and never ignores
//! them. Options that are not given are decided by the profile. How each server is found, configured and run is in
//! `webstone-lab`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::interfaces::Interface;
use crate::network_path::PathSpec;
use crate::server_tls::ServerTls;
use webstone_measure::one_or_several;
use webstone_measure::units::Nanos;

webstone_measure::named! {
    /// A server that webstone can start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    Software:
    /// The reference server, embedded in webstone.
    #[default]
    Reference "reference",
    /// nginx, serving files.
    Nginx "nginx",
    /// Apache httpd with its event MPM.
    Apache "apache",
    /// Apache httpd with its prefork MPM.
    ApachePrefork "apache-prefork",
    /// lighttpd.
    Lighttpd "lighttpd",
    /// Caddy.
    Caddy "caddy",
    /// HAProxy as a proxy in front of an origin.
    Haproxy "haproxy",
    /// nginx as a proxy in front of an origin, and with `cache` as a cache.
    NginxProxy "nginx-proxy",
    /// Envoy as a proxy in front of an origin.
    Envoy "envoy",
    /// nghttpd, the small server of nghttp2: HTTP/2 only.
    Nghttpd "nghttpd",
    /// Any command line.
    Command "command",
}

impl Software {
    /// Whether it is a proxy in front of an origin and serves no files itself.
    pub fn is_proxy(self) -> bool {
        matches!(self, Software::Haproxy | Software::NginxProxy | Software::Envoy)
    }
}

webstone_measure::named! {
    /// Who chose a configuration.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    Profile:
    /// As in Debian's package, reduced to what serves a benchmark.
    #[default]
    Stock "stock",
    /// For speed; the file has the reason for each choice beside it.
    Tuned "tuned",
}

/// The value of `--server`: software and profile, `nginx` or `nginx:tuned`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerChoice {
    /// The software.
    pub software: Software,
    /// Its profile.
    pub profile: Profile,
}

impl fmt::Display for ServerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.software.name(), self.profile.name())
    }
}

/// Why a text is not a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a server{rule}; write one of {names}, with :tuned after it for the tuned profile", names = names())]
pub struct ServerChoiceError {
    text: String,
    /// Which part of it is wrong, after a colon; empty if all of it is.
    rule: String,
}

fn names() -> String {
    Software::ALL.map(Software::name).join(", ")
}

impl ServerChoice {
    /// In the short form, without the stock profile: `nginx`, `nginx:tuned`.
    pub fn name(self) -> String {
        match self.profile {
            Profile::Stock => self.software.name().to_owned(),
            Profile::Tuned => self.to_string(),
        }
    }
}

impl Serialize for ServerChoice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for ServerChoice {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ServerChoice, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ServerChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ServerChoice".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "A server and its profile: nginx, nginx:tuned" })
    }
}

impl FromStr for ServerChoice {
    type Err = ServerChoiceError;

    fn from_str(text: &str) -> Result<ServerChoice, ServerChoiceError> {
        let error = |rule: String| ServerChoiceError { text: text.to_owned(), rule };
        let (name, profile) = text.split_once(':').unwrap_or((text, "stock"));
        let software = Software::ALL
            .into_iter()
            .find(|software| software.name() == name)
            .ok_or_else(|| error(String::new()))?;
        let profile = Profile::ALL
            .into_iter()
            .find(|known| known.name() == profile)
            .ok_or_else(|| error(format!(": `{profile}` is not a profile (stock, tuned)")))?;
        if profile == Profile::Tuned && matches!(software, Software::Reference | Software::Command) {
            return Err(error(format!(": {name} has no profiles")));
        }
        Ok(ServerChoice { software, profile })
    }
}

/// Length of the reference server's listen queue, in connections, unless another is given.
pub const REFERENCE_BACKLOG: u32 = 4096;

/// The settings of the server that webstone starts; also the flags of `webstone serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ServerSpec {
    /// Which software.
    pub software: Software,
    /// Who chose its configuration.
    pub profile: Profile,
    /// The program, if it is not the one that is found by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The command line of `software = "command"`, with the placeholders `{port}`, `{address}`, `{root}`,
    /// `{directory}` and `{threads}`. Split into words as a shell would do; no shell is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// For a proxy: the server behind it, as `http://HOST:PORT`. Absent: a reference server, started for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// CPUs of the origin that webstone starts behind a proxy (`0-1,4`). Empty: chosen by the program.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub origin_cpus: String,
    /// Address and port to listen on; port 0 means a free one.
    pub listen: String,
    /// Serve files below this directory instead of the workload's fileset.
    pub root: Option<String>,
    /// Degree of parallelism: threads of the reference server and HAProxy, worker processes of nginx and lighttpd,
    /// request workers of Apache, CPUs of Caddy. 0: one for each CPU it may run on, or decided by the profile.
    pub threads: u32,
    /// For Apache's event MPM: number of processes among which its threads are divided. 0: decided by the profile.
    #[serde(skip_serializing_if = "is_zero")]
    pub processes: u32,
    /// CPUs to be pinned to (`0-1,4`). Empty: chosen by the program.
    pub cpus: String,
    /// Whether files (proxies: answers) are cached. Absent: decided by the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<bool>,
    /// Whether connections may be kept alive.
    pub keep_alive: bool,
    /// Access log: `on`, `off`, or a file. Absent: decided by the profile.
    pub access_log: Option<String>,
    /// Whether the log has names of clients instead of their addresses.
    pub resolve_names: bool,
    /// With `resolve_names`, of the reference server: a DNS server of webstone's answers after this time. Absent: the system's
    /// resolver, where the hosts file knows this host at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_delay: Option<Nanos>,
    /// Length of the listen queue. Absent: decided by the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// What answers `/send`. Absent: the server itself, which only the reference server can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Number of processes of the handler behind the interface. 0: decided by the profile.
    #[serde(skip_serializing_if = "is_zero")]
    pub handlers: u32,
    /// TLS. Absent: the server has plain HTTP only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// Whether it also supports HTTP/2: over TLS by negotiation (ALPN), without TLS by prior knowledge.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// Whether it also supports HTTP/3, at the UDP port of the same number as that of TLS. Needs `tls`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub http3: bool,
    /// The path between clients and the server, which a relay of webstone's makes. Absent: this host's loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSpec>,
    /// For a server on another host, with a target URL: the command that runs `webstone agent` there, as in `ssh web1
    /// webstone agent`; a list of commands if it has several hosts, behind a load balancer. Split into words as a
    /// shell would do; no shell is started.
    #[serde(rename = "agent", with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "webstone_measure::one_or_several::OneOrSeveral<String>")
    )]
    pub agents: Vec<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Default for ServerSpec {
    fn default() -> ServerSpec {
        ServerSpec {
            software: Software::Reference,
            profile: Profile::Stock,
            program: None,
            command: None,
            origin: None,
            origin_cpus: String::new(),
            listen: "127.0.0.1:0".to_owned(),
            root: None,
            threads: 0,
            processes: 0,
            cpus: String::new(),
            cache: None,
            keep_alive: true,
            access_log: None,
            resolve_names: false,
            dns_delay: None,
            backlog: None,
            interface: None,
            handlers: 0,
            tls: None,
            http2: false,
            http3: false,
            path: None,
            agents: Vec::new(),
        }
    }
}

/// Setting of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging<'a> {
    /// Not given: the profile decides.
    Unsaid,
    /// None is written.
    Off,
    /// One is written, into the run's own directory.
    On,
    /// One is written into this file.
    File(&'a str),
}

impl ServerSpec {
    /// The setting of the access log.
    pub fn logging(&self) -> Logging<'_> {
        match self.access_log.as_deref() {
            None => Logging::Unsaid,
            Some("off") => Logging::Off,
            Some("on") => Logging::On,
            Some(path) => Logging::File(path),
        }
    }

    /// Length of the reference server's listen queue, in connections.
    pub fn reference_backlog(&self) -> u32 {
        self.backlog.unwrap_or(REFERENCE_BACKLOG)
    }

    /// Whether an origin has to be started with it.
    pub fn starts_origin(&self) -> bool {
        self.software.is_proxy() && self.origin.is_none()
    }

    /// Whether the reference server keeps files in memory.
    pub fn reference_caches(&self) -> bool {
        self.cache.unwrap_or(true)
    }
}

/// Whether a program that is started for a run gets this variable from webstone's environment. Programs are found by
/// `PATH`, and the others decide language, time zone and directories; any other variable might hold a password.
pub fn is_inherited(variable: &str) -> bool {
    ["PATH", "LANG", "LANGUAGE", "TZ", "TZDIR", "HOME", "TMPDIR"].contains(&variable)
        || variable.starts_with("LC_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_software_and_a_profile() {
        for software in Software::ALL {
            let choice: ServerChoice = software.name().parse().unwrap();
            assert_eq!(choice, ServerChoice { software, profile: Profile::Stock });
            let written = toml::Value::try_from(software).unwrap();
            assert_eq!(written.as_str(), Some(software.name()), "files use the same name");
        }
        let tuned: ServerChoice = "apache-prefork:tuned".parse().unwrap();
        assert_eq!(tuned.to_string(), "apache-prefork:tuned");
    }

    #[test]
    fn an_unknown_server_is_reported_with_all_known_ones() {
        for (text, rule) in [
            ("iis", "`iis` is not a server; write"),
            ("nginx:fast", "`fast` is not a profile"),
            ("", "`` is not a server; write"),
            ("reference:tuned", "reference has no profiles"),
        ] {
            let message = text.parse::<ServerChoice>().unwrap_err().to_string();
            assert!(
                message.contains(rule)
                    && message.contains("nginx-proxy, envoy, nghttpd, command, with :tuned"),
                "{message}"
            );
        }
    }

    #[test]
    fn the_log_is_on_off_or_a_file() {
        let logging = |text: Option<&str>| {
            let spec = ServerSpec { access_log: text.map(str::to_owned), ..ServerSpec::default() };
            format!("{:?}", spec.logging())
        };
        assert_eq!(logging(None), "Unsaid");
        assert_eq!(logging(Some("on")), "On");
        assert_eq!(logging(Some("off")), "Off");
        assert_eq!(logging(Some("./off")), "File(\"./off\")");
    }
}
