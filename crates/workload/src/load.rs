//! How load is made: how much of it ([`LoadSpec`]), by which clients ([`ClientSpec`]), by which workers
//! ([`GeneratorSpec`]).
//!
//! All defaults are here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::addresses::{AddressRange, PortRange};
use crate::arrivals::ArrivalProcess;
use crate::body::Base64;
use crate::codings::Codings;
use crate::fields::Fields;
pub use crate::http2_settings::Http2Settings;
use crate::route::{ConnectTo, ProxyProtocol, Reached};
use crate::statuses::Statuses;
use crate::tls::TlsSpec;
use webstone_measure::rate::Rates;
use webstone_measure::units::{Bandwidth, Nanos};

/// A load generator's task: its target, how much load, and which clients. The part of a run's specification that it
/// needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeneratorTask {
    /// URLs of the server under test, used in turn by connections.
    pub target: Vec<String>,
    /// How much load, how long, how often.
    pub load: LoadSpec,
    /// How each client behaves.
    pub client: ClientSpec,
    /// The generator's own settings.
    pub generator: GeneratorSpec,
}

/// How much load, how long, how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LoadSpec {
    /// Numbers of clients, one level each: `20..100+10`, `1,2,4`, `1..64*2`.
    pub clients: Levels,
    /// Open loop: arrivals per second, one level each: `10k`, `1k..10k+1k`, `1k..50k/60s`. Absent: closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rates>,
    /// Open loop: how arrivals are spaced.
    pub arrivals: ArrivalProcess,
    /// Open loop: what happens to an arrival that finds no free client.
    pub when_busy: WhenBusy,
    /// Length of a level's measured window; 0s: only the number of pages ends the level. With both, whichever comes
    /// first.
    pub duration: Nanos,
    /// Pages that a level fetches, over all clients.
    pub pages: Option<u64>,
    /// Repetition test: how often each page is fetched, in the order of the workload; then the level ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// Timed runs of each level.
    pub iterations: u32,
    /// Time under load before the window opens, in every iteration.
    pub warmup: Nanos,
    /// Time that requests in progress may take to finish after the window has closed; then they are cut off and
    /// counted.
    pub drain: Nanos,
    /// Order of levels and iterations.
    pub order: Order,
    /// Maximum number of void timed runs that are repeated, for every four of a level: runs in which too much CPU
    /// time was taken from the generator or the server. 0: none.
    pub retries: u32,
    /// Whether each level's iterations are two interleaved arms of the same thing, to learn the noise floor.
    pub aa: bool,
}

impl Default for LoadSpec {
    fn default() -> LoadSpec {
        LoadSpec {
            clients: Levels(vec![5, 10, 20, 40]),
            rate: None,
            arrivals: ArrivalProcess::Constant,
            when_busy: WhenBusy::Queue,
            duration: Nanos::from_secs(6),
            pages: None,
            repetitions: None,
            iterations: 1,
            warmup: Nanos::from_secs(1),
            drain: Nanos::from_secs(2),
            order: Order::Interleaved,
            retries: 2,
            aa: false,
        }
    }
}

impl LoadSpec {
    /// Maximum number of void timed runs of one level that are repeated.
    pub fn retries_of_level(&self) -> usize {
        self.retries as usize * (self.iterations as usize).div_ceil(4).max(1)
    }

    /// Number of levels of the sweep: of rates in open loop, otherwise of client counts.
    pub fn levels(&self) -> usize {
        self.rate.as_ref().map_or(self.clients.0.len(), |rates| rates.0.len())
    }
}

/// What happens to an arrival that finds no free client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WhenBusy {
    /// It waits for one, and the wait is part of its latency.
    #[default]
    Queue,
    /// It is skipped, and counted as skipped.
    Skip,
}

/// The order in which levels × iterations run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All levels once, then all levels again, so that drift of the machine does not look like a trend over levels.
    #[default]
    Interleaved,
    /// All iterations of a level before the next level.
    Sequential,
    /// A seeded shuffle.
    Random,
}

/// Numbers of clients, one level each, in the order given. At least one; each at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels(pub Vec<u32>);

/// Why a text is not a list of levels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a list of client counts: {rule}; write one count (64), a list (1,2,4), a range with a step (20..100+10) or with a factor (1..64*2)"
)]
pub struct LevelsError {
    text: String,
    rule: String,
}

/// Maximum number of levels in a range. A longer sweep is a typing error.
const LEVELS_MAX: usize = 10_000;

/// Maximum number of clients of a level: the engine has 32-bit numbers of connections and needs some of them for
/// parallel fetches.
const CLIENTS_MAX: u64 = 10_000_000;

impl FromStr for Levels {
    type Err = LevelsError;

    fn from_str(text: &str) -> Result<Levels, LevelsError> {
        let error = |rule: String| LevelsError { text: text.to_owned(), rule };
        let count = |word: &str| -> Result<u64, LevelsError> {
            // For a single count the hint would suggest another single count.
            let value = webstone_measure::units::parse_count(word)
                .map_err(|_| error(format!("`{word}` is not a whole number, such as 64 or 10k")))?;
            if (1..=CLIENTS_MAX).contains(&value) {
                return Ok(value);
            }
            Err(error(format!("{value} is not between 1 and {CLIENTS_MAX}")))
        };
        let mut levels = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let Some((from, rest)) = part.split_once("..") else {
                levels.push(count(part)? as u32);
                continue;
            };
            let (to, step, factor) = match (rest.split_once('+'), rest.split_once('*')) {
                (Some((_, "0")), None) => {
                    return Err(error(format!("the step of {part} must be at least 1")));
                }
                (Some((to, step)), None) => (to, count(step)?, 1),
                (None, Some((to, factor))) => (to, 0, count(factor)?),
                _ => return Err(error(format!("the range {part} has no step"))),
            };
            let (from, to) = (count(from)?, count(to)?);
            if from > to {
                return Err(error(format!("the range {part} runs backwards")));
            }
            if step == 0 && factor < 2 {
                return Err(error(format!("the factor of {part} must be at least 2")));
            }
            let mut value = from;
            while value <= to {
                if levels.len() >= LEVELS_MAX {
                    return Err(error(format!("more than {LEVELS_MAX} levels")));
                }
                levels.push(value as u32);
                value = value * factor + step;
            }
        }
        Ok(Levels(levels))
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, level) in self.0.iter().enumerate() {
            write!(f, "{}{level}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

webstone_measure::as_text!(Levels, "Levels", "Client counts: 64, 1,2,4, 20..100+10 or 1..64*2");

/// When a client's connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionPolicy {
    /// A new connection for each file, as WebStone, WebBench and WASD measured.
    #[default]
    PerRequest,
    /// A new connection (or `parallel` of them) for each page.
    PerPage,
    /// Connections are kept until the server ends them or a limit is reached.
    KeepAlive,
}

/// Version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum HttpVersion {
    /// HTTP/1.0; keep-alive is requested with `Connection: keep-alive`.
    #[serde(rename = "1.0")]
    Http10,
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1.1")]
    Http11,
    /// HTTP/2 with prior knowledge.
    #[serde(rename = "2")]
    Http2,
    /// HTTP/3, over QUIC.
    #[serde(rename = "3")]
    Http3,
    /// The highest that the server offers: by ALPN, and by Alt-Svc. The check before the load decides, once for a run.
    #[serde(rename = "auto")]
    Auto,
}

impl HttpVersion {
    /// Whether a connection carries many requests at a time, each on a stream.
    pub fn has_streams(self) -> bool {
        matches!(self, HttpVersion::Http2 | HttpVersion::Http3)
    }

    /// Its name: `HTTP/1.1`.
    pub fn name(self) -> &'static str {
        match self {
            HttpVersion::Http10 => "HTTP/1.0",
            HttpVersion::Http11 => "HTTP/1.1",
            HttpVersion::Http2 => "HTTP/2",
            HttpVersion::Http3 => "HTTP/3",
            HttpVersion::Auto => "HTTP",
        }
    }
}

/// Version of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum QuicVersion {
    /// RFC 9000.
    #[default]
    #[serde(rename = "1")]
    V1,
    /// RFC 9369.
    #[serde(rename = "2")]
    V2,
}

impl QuicVersion {
    /// Whether it is the one that all servers of HTTP/3 have.
    pub fn is_default(&self) -> bool {
        *self == QuicVersion::V1
    }
}

/// When host names are resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Resolve {
    /// Once, before the run.
    #[default]
    Once,
    /// For every connection; the time counts as connect time.
    PerConnection,
}

/// What to check in each response, besides being complete and well-formed HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Status only.
    Status,
    /// Status, and body length if the workload states one.
    #[default]
    Size,
    /// Status, length, and the content of the generated fileset, byte by byte.
    Content,
}

/// How each client behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ClientSpec {
    /// When connections end.
    pub connections: ConnectionPolicy,
    /// With keep-alive: requests per connection, after which the client closes it.
    pub requests_per_connection: Option<u32>,
    /// Files of a page fetched at once, after its first. WebStone fetched one at a time.
    pub parallel: u32,
    /// Version of HTTP.
    pub http: HttpVersion,
    /// HTTP/2 and HTTP/3: maximum number of concurrent streams per connection; absent: as many as clients need and servers
    /// allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// HTTP/2: the settings that clients send when a connection begins.
    #[serde(skip_serializing_if = "Http2Settings::is_default")]
    pub http2_settings: Http2Settings,
    /// HTTP/3: the version of QUIC, which is not negotiated.
    #[serde(skip_serializing_if = "QuicVersion::is_default")]
    pub quic_version: QuicVersion,
    /// HTTP/2 and HTTP/3: number of clients that share each connection.
    #[serde(skip_serializing_if = "is_one")]
    pub clients_per_connection: u32,
    /// HTTP/1.1: maximum number of requests in progress on a connection, each of another client. 0 or 1: one.
    #[serde(skip_serializing_if = "is_zero")]
    pub pipeline: u32,
    /// Method of files that do not state one.
    pub method: String,
    /// Header fields added to every request, in order; `NAME = ["…", "…"]` sends several of one name.
    pub headers: Fields,
    /// Content codings that clients accept, as `br,gzip,zstd`; a sample of answers is decoded before the load.
    #[serde(skip_serializing_if = "Codings::is_empty")]
    pub accept_encoding: Codings,
    /// Body of every request that has none of its own.
    pub body: Option<String>,
    /// The same in base64, for bytes that are not text: sent as it is, without templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<Base64>,
    /// Seed of the page sequences. The same seed gives each client the same pages on any machine.
    pub seed: u64,
    /// When names are resolved.
    pub resolve: Resolve,
    /// A Unix socket to connect to instead of the target's address.
    pub unix_socket: Option<String>,
    /// Where connections to a host go instead: `HOST:PORT:HOST:PORT`, the first that fits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_to: Vec<ConnectTo>,
    /// The PROXY protocol, with which every connection begins; absent: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Addresses at which hosts were reached before the load; of others, names are resolved.
    #[serde(skip)]
    pub reached: Vec<Reached>,
    /// Local addresses of connections, used in turn.
    pub source: Vec<AddressRange>,
    /// Local ports of connections, as `40000-50000`; absent: chosen by the operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ports: Option<PortRange>,
    /// A proxy: connections go there, and request lines have absolute URLs.
    pub proxy: Option<String>,
    /// Hosts besides the target that the workload may send requests to, as `HOST` or `HOST:PORT`. Others are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// Whether feeds of the workload may be files outside its own directory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_feeds: bool,
    /// What each client's line brings, in bits per second; absent: what the network does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Closed loop: pause of a client after each page; absent: the workload's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Nanos>,
    /// Maximum time for a connection to be established.
    pub connect_timeout: Nanos,
    /// Maximum time from the request to the first byte of its answer.
    pub first_byte_timeout: Nanos,
    /// Maximum time from start to the last byte.
    pub request_timeout: Nanos,
    /// What is checked in each answer.
    pub check: Check,
    /// Statuses that count as a success, of files that state none: `304`, `2xx`, `200,304,404`.
    #[serde(skip_serializing_if = "Statuses::is_default")]
    pub expect_status: Statuses,
    /// Maximum number of redirects that are followed for a file, as the check before the load finds them. 0: they are measured as
    /// they are.
    #[serde(skip_serializing_if = "is_zero")]
    pub follow: u32,
    /// Close connections with a TCP reset after the response: faster, but not what a browser does.
    pub reset: bool,
    /// How TLS handshakes are done, if a URL is `https`.
    #[serde(skip_serializing_if = "TlsSpec::is_default")]
    pub tls: TlsSpec,
}

impl ClientSpec {
    /// Number of clients that share a connection.
    pub fn clients_per_link(&self) -> u32 {
        self.clients_per_connection.max(self.pipeline).max(1)
    }

    /// Maximum number of connections that this many clients have at once.
    pub fn connections_max(&self, clients: u32) -> u64 {
        let clients = u64::from(clients);
        match self.http {
            _ if self.http.has_streams() && self.connections != ConnectionPolicy::PerRequest => {
                clients.div_ceil(self.clients_per_link().into())
            }
            _ if self.pipeline > 1 => clients.div_ceil(self.clients_per_link().into()),
            _ => clients * u64::from(self.parallel.max(1)),
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

impl Default for ClientSpec {
    fn default() -> ClientSpec {
        ClientSpec {
            connections: ConnectionPolicy::PerRequest,
            requests_per_connection: None,
            parallel: 1,
            http: HttpVersion::Http11,
            streams: None,
            http2_settings: Http2Settings::default(),
            quic_version: QuicVersion::V1,
            clients_per_connection: 1,
            pipeline: 0,
            method: "GET".to_owned(),
            headers: Fields::default(),
            accept_encoding: Codings::default(),
            body: None,
            body_base64: None,
            seed: 1995,
            resolve: Resolve::Once,
            unix_socket: None,
            connect_to: Vec::new(),
            proxy_protocol: None,
            reached: Vec::new(),
            source: Vec::new(),
            source_ports: None,
            proxy: None,
            allow_hosts: Vec::new(),
            allow_feeds: false,
            bandwidth: None,
            think: None,
            connect_timeout: Nanos::from_secs(10),
            first_byte_timeout: Nanos::from_secs(30),
            request_timeout: Nanos::from_secs(60),
            check: Check::Size,
            expect_status: Statuses::default(),
            follow: 0,
            reset: false,
            tls: TlsSpec::default(),
        }
    }
}

/// The generator's own settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorSpec {
    /// Number of event loops. 0: one for each CPU that the server under test does not need.
    pub workers: u32,
    /// CPUs that workers are pinned to, in turn (`0-1,4`). Empty: chosen by the program; see `pin`.
    pub cpus: String,
    /// Whether workers are pinned at all.
    pub pin: bool,
    /// Whether load generator and server get a higher CPU priority than other programs, where the kernel allows it and the server is
    /// not somebody else's on this host.
    pub priority: bool,
    /// Whether workers wait for answers and arrivals without sleeping, each on a whole CPU. Unset: decided by the program.
    pub spin: Option<bool>,
    /// Number of pages, the heaviest first, that have their own histograms; all pages have totals. Limits memory:
    /// each takes four histograms per worker.
    pub page_histograms: u32,
    /// Whether the spread of times and sizes is kept of each page and each client, as WebStone's text prints it. Costs a tenth of the
    /// generator's work for a request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spreads: bool,
    /// Number of exchanges to print completely, for debugging.
    pub trace: u32,
    /// File that receives the instants of every transaction (WebStone's -R).
    pub record_all: Option<String>,
    /// HTTP/3: directory that receives a qlog file of each of the first connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qlog: Option<String>,
    /// Number of connections that are logged there.
    #[serde(skip_serializing_if = "is_default_of_qlog")]
    pub qlog_connections: u32,
}

/// Connections that are logged in qlog, if nothing else is said.
const QLOG_CONNECTIONS: u32 = 10;

fn is_default_of_qlog(connections: &u32) -> bool {
    *connections == QLOG_CONNECTIONS
}

impl Default for GeneratorSpec {
    fn default() -> GeneratorSpec {
        GeneratorSpec {
            workers: 0,
            cpus: String::new(),
            pin: true,
            priority: true,
            spin: None,
            page_histograms: 32,
            spreads: false,
            trace: 0,
            record_all: None,
            qlog: None,
            qlog_connections: QLOG_CONNECTIONS,
        }
    }
}

/// Reads a list of CPUs in Linux's format: `0-1,4`.
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>, String> {
    let error = || format!("`{text}` is not a list of CPUs: write numbers and ranges, as in 0-1,4");
    let number = |word: &str| word.trim().parse::<u32>().ok().filter(|n| *n < 4096).ok_or_else(error);
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        match part.split_once('-') {
            Some((from, to)) if number(from)? <= number(to)? => cpus.extend(number(from)?..=number(to)?),
            Some(_) => return Err(error()),
            None => cpus.push(number(part)?),
        }
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(text: &str) -> Vec<u32> {
        text.parse::<Levels>().unwrap().0
    }

    #[test]
    fn levels_have_four_forms() {
        assert_eq!(levels("64"), [64]);
        assert_eq!(levels("1,2,4"), [1, 2, 4]);
        assert_eq!(levels("20..100+10"), [20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(levels("1..64*2"), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(levels("1, 10..20+10, 1k"), [1, 10, 20, 1000]);
    }

    #[test]
    fn wrong_levels_name_the_rule() {
        for (text, rule) in [
            ("0", "between 1"),
            ("100..20+10", "backwards"),
            ("1..9*1", "factor"),
            ("1..9", "no step"),
            ("", "not a whole number"),
            ("1..10000000+1", "more than"),
        ] {
            let message = text.parse::<Levels>().unwrap_err().to_string();
            assert!(message.contains(rule) && message.contains("20..100+10"), "{message}");
        }
    }

    #[test]
    fn cpu_lists_are_linux_lists() {
        assert_eq!(parse_cpu_list("0-1,4"), Ok(vec![0, 1, 4]));
        assert_eq!(parse_cpu_list(""), Ok(vec![]));
        for text in ["a", "1-", "3-1", "-1", "99999"] {
            assert!(parse_cpu_list(text).is_err(), "{text}");
        }
    }
}
