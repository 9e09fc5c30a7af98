//! What is requested, and how: the modes of the comparison, the servers they load, and the cases they fall into.

/// One way to load the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// A server to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// An nginx that serves files.
    Nginx,
    /// `webstone-canned`, cheaper than any real server: what then limits is the client.
    Canned,
}

/// One thing that is measured in each round, of every tool that can do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Mode.
    pub mode: Mode,
    /// Server.
    pub server: Server,
    /// Concurrent clients, all workers together.
    pub clients: u32,
    /// Worker threads, each on a CPU of its own.
    pub workers: u32,
    /// Whether another process of the same tool loads the same server from the other CPU meanwhile.
    pub accompanied: bool,
}

/// Requests a second of [`Mode::Pacing`].
pub const PACE: u32 = 10_000;
/// Numbers of clients of [`Mode::Scale`].
pub const SCALE: [u32; 4] = [10, 100, 1_000, 10_000];
/// Between these two, memory for each connection is taken: small enough to be start-up only, and the whole.
pub const MEMORY_BETWEEN: (u32, u32) = (SCALE[1], SCALE[3]);

impl Mode {
    /// Every mode, in the order in which they run.
    pub const ALL: [Mode; 7] = [
        Mode::KeepAlive,
        Mode::PerRequest,
        Mode::Large,
        Mode::Standard,
        Mode::Scale,
        Mode::Workers,
        Mode::Pacing,
    ];

    /// Its name on the command line and in `bars.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::KeepAlive => "keep-alive",
            Mode::PerRequest => "per-request",
            Mode::Large => "large",
            Mode::Standard => "standard",
            Mode::Scale => "scale",
            Mode::Workers => "workers",
            Mode::Pacing => "pacing",
        }
    }

    /// The servers that it can load.
    pub fn servers(self) -> &'static [Server] {
        match self {
            // A canned server has one answer.
            Mode::Standard => &[Server::Nginx],
            // A server that spares the CPU which it shares with a worker.
            Mode::Workers => &[Server::Canned],
            _ => &Server::ALL,
        }
    }

    /// What is measured in each round.
    pub fn cases(self, server: Server) -> Vec<Case> {
        let case = |clients, workers| Case { mode: self, server, clients, workers, accompanied: false };
        match self {
            // Sixteen large bodies fill loopback; more only wait in each other's way.
            Mode::Large => vec![case(16, 1)],
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
            Mode::Large => Some(("/file500k.html", 512_500)),
            Mode::Standard => None,
            _ => Some(("/file500.html", 500)),
        }
    }

    /// Whether connections are kept.
    pub fn keeps_alive(self) -> bool {
        self != Mode::PerRequest
    }

    /// Whether the server has an event loop on the workers' CPUs, too, so that it does not limit two of them.
    pub fn shares_cpus(self) -> bool {
        self == Mode::Workers
    }
}

impl Server {
    /// Both, the real one first.
    pub const ALL: [Server; 2] = [Server::Nginx, Server::Canned];

    /// Its name on the command line and in `bars.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Server::Nginx => "nginx",
            Server::Canned => "canned",
        }
    }
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
