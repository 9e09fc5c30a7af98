//! A network namespace of the tests' own, for what cannot be seen on the loopback interface.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::program;

/// A network namespace joined to this one by a pair of interfaces, gone when this is dropped.
pub(crate) struct Namespace {
    pub(crate) name: String,
    /// This side's interface, and the other's.
    pub(crate) here: String,
    pub(crate) there: String,
    /// Of the other side's interface.
    pub(crate) address: String,
}

impl Namespace {
    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    pub(crate) fn make() -> Option<Namespace> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let name = format!("wsag{pid}-{number}");
        let (here, there) = (format!("wsa{pid}-{number}"), format!("wsb{pid}-{number}"));
        // Of the block for benchmarks of network devices (RFC 2544): four addresses, for two at a time of each process.
        let net = format!("198.{}.{}.{}", 18 + number % 2, pid / 64 % 256, pid % 64 * 4);
        let host = |n: u32| {
            let (head, last) = net.rsplit_once('.').unwrap();
            format!("{head}.{}", last.parse::<u32>().unwrap() + n)
        };
        let ip = |line: String| {
            let mut command = Command::new("ip");
            command.args(line.split_whitespace()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        if !ip(format!("netns add {name}")) {
            println!("skipped: this user may not make a network namespace (`ip netns add`)");
            return None;
        }
        let namespace =
            Namespace { name: name.clone(), here: here.clone(), there: there.clone(), address: host(2) };
        let made = [
            format!("link add {here} type veth peer name {there} netns {name}"),
            format!("addr add {}/30 dev {here}", host(1)),
            format!("link set {here} up"),
            format!("-n {name} addr add {}/30 dev {there}", host(2)),
            format!("-n {name} link set {there} up"),
            format!("-n {name} link set lo up"),
        ];
        if !made.into_iter().all(ip) {
            println!("skipped: this user may not join network namespaces (`ip link add … type veth`)");
            return None;
        }
        Some(namespace)
    }

    /// The reference server on port 8080 of the other side. It ends when its input does.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Child {
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &self.name, &program(), "serve", "--until-stdin-closes"]);
        server.args(["--listen", &format!("{}:8080", self.address)]).args(arguments);
        let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("READY "), "{line}");
        server
    }

    /// Holds what the other side sends to a rate, as a link of that speed would; false where this user may not.
    pub(crate) fn limit(&self, mbit_per_second: u32) -> bool {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "tc", "qdisc", "add", "dev", &self.there, "root", "tbf"]);
        command.args(["rate", &format!("{mbit_per_second}mbit"), "burst", "64kb", "latency", "50ms"]);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Its end of the pair goes with it, and so the other.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
