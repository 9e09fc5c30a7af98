//! What is requested, and how: the modes of the comparison.

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
}

impl Mode {
    /// Every mode, in the order in which they run.
    pub const ALL: [Mode; 4] = [Mode::KeepAlive, Mode::PerRequest, Mode::Large, Mode::Standard];

    /// Its name on the command line and in `bars.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::KeepAlive => "keep-alive",
            Mode::PerRequest => "per-request",
            Mode::Large => "large",
            Mode::Standard => "standard",
        }
    }

    /// Concurrent clients.
    pub fn clients(self) -> u32 {
        // Sixteen large bodies fill loopback; more only wait in each other's way.
        if self == Mode::Large { 16 } else { 64 }
    }

    /// Path of the one file that is requested; `None` where there are several.
    pub fn path(self) -> Option<&'static str> {
        match self {
            Mode::KeepAlive | Mode::PerRequest => Some("/file500.html"),
            Mode::Large => Some("/file500k.html"),
            Mode::Standard => None,
        }
    }

    /// Whether connections are kept.
    pub fn keeps_alive(self) -> bool {
        self != Mode::PerRequest
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
