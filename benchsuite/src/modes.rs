//! What is requested, and how: the modes of the comparison, the servers they load, and the cases they fall into.

use clap::ValueEnum;

/// One way to load the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// 500 bytes, connections kept.
    KeepAlive,
    /// 500 bytes, a connection for each request.
    PerRequest,
    /// 512,500 bytes, connections kept.
    Large,
    /// The five files of the `standard` workload by weight, connections kept.
    Standard,
    /// 500 bytes, connections kept, from 10 to 10,000 of them: memory for each, and what a request then costs.
    Scale,
    /// 500 bytes, connections kept, one worker, two, and two processes of one: what a request then costs.
    Workers,
    /// 500 bytes, connections kept, 10,000 requests a second by schedule: how late they are sent.
    Pacing,
    /// 500 bytes over TLS 1.3, connections kept.
    HttpsKeepAlive,
    /// 500 bytes over TLS 1.3, a connection and a full handshake for each request.
    HttpsFull,
    /// The same with resumed handshakes.
    HttpsResumed,
    /// 512,500 bytes over TLS 1.3, connections kept.
    HttpsLarge,
    /// 500 bytes over TLS 1.3, connections kept, 100 and 10,000 of them: memory for each.
    HttpsScale,
    /// 500 bytes in HTTP/2 over TLS 1.3: 64 connections with one stream each at a time, 8 with 10, one with 100.
    #[value(name = "h2-64x1")]
    H2One,
    /// See [`Mode::H2One`].
    #[value(name = "h2-8x10")]
    H2Ten,
    /// See [`Mode::H2One`].
    #[value(name = "h2-1x100")]
    H2Hundred,
    /// The same without TLS.
    #[value(name = "h2c-64x1")]
    H2cOne,
    /// See [`Mode::H2cOne`].
    #[value(name = "h2c-8x10")]
    H2cTen,
    /// See [`Mode::H2cOne`].
    #[value(name = "h2c-1x100")]
    H2cHundred,
    /// The same in HTTP/3.
    #[value(name = "h3-64x1")]
    H3One,
    /// See [`Mode::H3One`].
    #[value(name = "h3-8x10")]
    H3Ten,
    /// See [`Mode::H3One`].
    #[value(name = "h3-1x100")]
    H3Hundred,
    /// 500 bytes in HTTP/3, a connection and a full handshake for each request.
    #[value(name = "h3-full")]
    H3Full,
    /// 512,500 bytes in HTTP/3, connections kept.
    #[value(name = "h3-large")]
    H3Large,
    /// 500 bytes in HTTP/3, connections kept, 100 and 10,000 of them: memory for each.
    #[value(name = "h3-scale")]
    H3Scale,
}

/// A server to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Server {
    /// An nginx of one worker that serves files.
    Nginx,
    /// The same with a second worker on the clients' CPU, which keeps that CPU full: answers pile up while a client does not run,
    /// and how often it is woken up no longer depends on how fast it is.
    NginxShared,
    /// `webstone-canned`, cheaper than any real server: so the client is the bottleneck.
    Canned,
    /// A Caddy on one CPU that serves the same files. It sends many datagrams of HTTP/3 by one call, which nginx does not.
    Caddy,
}

/// One thing that is measured in each round, of every tool that can do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Mode.
    pub mode: Mode,
    /// Server.
    pub server: Server,
    /// Concurrent clients, all workers together: requests in progress.
    pub clients: u32,
    /// Clients that share a connection, each with a stream of its own; 1 except in HTTP/2 and HTTP/3.
    pub streams: u32,
    /// Worker threads, each on a CPU of its own.
    pub workers: u32,
    /// Whether another process of the same tool loads the same server from the other CPU meanwhile.
    pub accompanied: bool,
}

/// Requests per second of [`Mode::Pacing`].
pub const PACE: u32 = 10_000;
/// Numbers of clients of [`Mode::Scale`].
pub const SCALE: [u32; 4] = [10, 100, 1_000, 10_000];
/// Memory per connection is the difference between these two client counts.
pub const MEMORY_BETWEEN: (u32, u32) = (SCALE[1], SCALE[3]);

impl Mode {
    /// Every mode, in the order in which they run.
    pub fn all() -> impl Iterator<Item = Mode> {
        Mode::value_variants().iter().copied()
    }

    /// Its name on the command line and in `bars.toml`.
    pub fn name(self) -> String {
        name(&self)
    }

    /// The servers that it can load.
    pub fn servers(self) -> &'static [Server] {
        match self {
            // A canned server has one answer.
            Mode::Standard => &[Server::Nginx],
            // A server that uses little of the CPU that it shares with a worker.
            Mode::Workers => &[Server::Canned],
            Mode::H3Ten => &[Server::Nginx, Server::Caddy],
            // Each worker of nginx has a queue of datagrams of its own, to which the kernel deals connections: unevenly, if they are few.
            _ if self.is_http3() => &[Server::Nginx],
            // It knows neither TLS nor HTTP/2. One connection is served by one worker, so a second has nothing to do.
            Mode::HttpsFull | Mode::HttpsResumed | Mode::HttpsScale | Mode::H2Hundred | Mode::H2cHundred => {
                &[Server::Nginx]
            }
            _ if self.is_secure() || self.is_http2() => &[Server::Nginx, Server::NginxShared],
            _ => &[Server::Nginx, Server::Canned],
        }
    }

    /// What is measured in each round.
    pub fn cases(self, server: Server) -> Vec<Case> {
        let case =
            |clients, workers| Case { mode: self, server, clients, streams: 1, workers, accompanied: false };
        let shared = |connections: u32, streams| Case { streams, ..case(connections * streams, 1) };
        match self {
            // Sixteen large bodies fill loopback; more would only wait.
            Mode::Large | Mode::HttpsLarge | Mode::H3Large => vec![case(16, 1)],
            Mode::HttpsScale | Mode::H3Scale => vec![case(MEMORY_BETWEEN.0, 1), case(MEMORY_BETWEEN.1, 1)],
            Mode::H2Ten | Mode::H2cTen | Mode::H3Ten => vec![shared(8, 10)],
            Mode::H2Hundred | Mode::H2cHundred | Mode::H3Hundred => vec![shared(1, 100)],
            Mode::Scale => SCALE.map(|clients| case(clients, 1)).to_vec(),
            Mode::Workers => {
                vec![case(64, 1), Case { accompanied: true, ..case(64, 1) }, case(128, 2)]
            }
            _ => vec![case(64, 1)],
        }
    }

    /// Path and size in bytes of the one file that is requested; `None` where there are several.
    pub fn file(self) -> Option<(&'static str, u64)> {
        match self {
            Mode::Large | Mode::HttpsLarge | Mode::H3Large => Some(("/file500k.html", 512_500)),
            Mode::Standard => None,
            _ => Some(("/file500.html", 500)),
        }
    }

    /// Whether connections are kept.
    pub fn keeps_alive(self) -> bool {
        !matches!(self, Mode::PerRequest | Mode::HttpsFull | Mode::HttpsResumed | Mode::H3Full)
    }

    /// Whether it is over TLS.
    pub fn is_secure(self) -> bool {
        use Mode::{
            H2Hundred, H2One, H2Ten, HttpsFull, HttpsKeepAlive, HttpsLarge, HttpsResumed, HttpsScale,
        };
        self.is_http3()
            || matches!(
                self,
                HttpsKeepAlive
                    | HttpsFull
                    | HttpsResumed
                    | HttpsLarge
                    | HttpsScale
                    | H2One
                    | H2Ten
                    | H2Hundred
            )
    }

    /// Whether it is in HTTP/3.
    pub fn is_http3(self) -> bool {
        use Mode::{H3Full, H3Hundred, H3Large, H3One, H3Scale, H3Ten};
        matches!(self, H3One | H3Ten | H3Hundred | H3Full | H3Large | H3Scale)
    }

    /// Whether it is in HTTP/2.
    pub fn is_http2(self) -> bool {
        use Mode::{H2Hundred, H2One, H2Ten, H2cHundred, H2cOne, H2cTen};
        matches!(self, H2One | H2Ten | H2Hundred | H2cOne | H2cTen | H2cHundred)
    }

    /// Whether the memory of the client for each connection is measured.
    pub fn watches_memory(self) -> bool {
        matches!(self, Mode::Scale | Mode::HttpsScale | Mode::H3Scale)
    }

    /// Whether the server has an event loop on the workers' CPUs, too, so that it is not the bottleneck of two workers.
    pub fn shares_cpus(self) -> bool {
        self == Mode::Workers
    }
}

impl Server {
    /// Its name on the command line and in `bars.toml`.
    pub fn name(self) -> String {
        name(&self)
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A Lua script that makes wrk pick the `standard` workload's files by weight.
pub const WRK_STANDARD: &str = r#"
local files = { {350, "/file500.html"}, {500, "/file5k.html"}, {140, "/file50k.html"}, {9, "/file500k.html"}, {1, "/file5m.html"} }
local requests = {}
init = function(args)
  for _, file in ipairs(files) do
    local bytes = wrk.format("GET", file[2])
    for _ = 1, file[1] do requests[#requests + 1] = bytes end
  end
  math.randomseed(1995)
end
request = function() return requests[math.random(#requests)] end
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_progress_are_connections_times_streams() {
        for mode in Mode::all() {
            for server in mode.servers() {
                for case in mode.cases(*server) {
                    assert_eq!(case.clients % case.streams, 0, "{case:?}");
                    assert!(mode.is_http2() || mode.is_http3() || case.streams == 1, "{case:?}");
                }
            }
        }
        let of = |mode: Mode| {
            let case = mode.cases(Server::Nginx)[0];
            (case.clients / case.streams, case.streams)
        };
        assert_eq!([Mode::H2One, Mode::H2Ten, Mode::H2cHundred].map(of), [(64, 1), (8, 10), (1, 100)]);
        assert_eq!([Mode::H3One, Mode::H3Ten, Mode::H3Hundred].map(of), [(64, 1), (8, 10), (1, 100)]);
        assert_eq!(Mode::HttpsScale.cases(Server::Nginx).len(), 2);
    }

    #[test]
    fn a_canned_server_gets_only_plain_http1() {
        for mode in Mode::all().filter(|mode| mode.is_secure() || mode.is_http2()) {
            assert!(!mode.servers().contains(&Server::Canned), "{mode:?}");
        }
    }
}
