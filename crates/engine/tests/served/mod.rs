//! The reference server in a process of its own, so that memory, descriptors and threads of this process are only the
//! generator's. The server's process is the test binary itself, started with a variable that makes its test
//! `child_server` serve.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use webstone_model::server_tls::ServerTls;
use webstone_model::spec::ServerSpec;
use webstone_server::{ServeOptions, Server};

const CHILD: &str = "WEBSTONE_TEST_SERVER";
/// Its value for a server that speaks HTTP/3.
const QUIC: &str = "quic";

/// Whether this is the server's process, in which other tests do nothing.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The server's process: runs until its standard input ends. Does nothing without the variable.
#[test]
fn child_server() {
    if !is_child() {
        return;
    }
    raise_descriptors();
    let over_quic = std::env::var(CHILD).is_ok_and(|how| how == QUIC);
    let tls = over_quic.then(ServerTls::default);
    let server = Server::start(ServeOptions {
        test_handlers: true,
        ..ServeOptions::new(ServerSpec { threads: 1, tls, http3: over_quic, ..ServerSpec::default() })
    })
    .unwrap();
    println!("\nURL {}", server.url());
    let _ = std::io::stdin().read(&mut [0]);
}

/// The server, running.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
    /// Kept open: the child's test harness writes its summary there.
    _output: BufReader<ChildStdout>,
}

impl Served {
    pub(crate) fn start() -> Served {
        Served::start_as("1")
    }

    /// In HTTP/3 too.
    pub(crate) fn start_over_quic() -> Served {
        Served::start_as(QUIC)
    }

    fn start_as(how: &str) -> Served {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "served::child_server", "--nocapture"])
            .env(CHILD, how)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("URL ") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server ended before it told its address");
        }
        Served { child, url: line["URL ".len()..].trim().to_owned(), _output: output }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Raises the soft limit of descriptors to the hard limit, and returns it.
pub(crate) fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    hard.unwrap_or(u64::MAX)
}

/// A number of `/proc/self/status`: kilobytes or a plain count.
pub(crate) fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
