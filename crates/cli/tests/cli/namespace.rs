//! A network namespace for tests of what does not exist on the loopback interface.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::program;

/// A network namespace connected to this one by a pair of interfaces, removed when this is dropped.
pub(crate) struct Namespace {
    pub(crate) name: String,
    /// The interface on this side, and the one on the other side.
    pub(crate) here: String,
    pub(crate) there: String,
    /// Address of the other side's interface.
    pub(crate) address: String,
}

impl Namespace {
    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    pub(crate) fn make() -> Option<Namespace> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let name = format!("wsag{pid}-{number}");
        let (here, there) = (format!("wsa{pid}-{number}"), format!("wsb{pid}-{number}"));
        // From the block for benchmarks of network devices (RFC 2544): four addresses, for two namespaces at a time
        // per process.
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

    /// The reference server on port 8080 of the other side. It ends when its input ends.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Child {
        serve(&self.name, &self.address, arguments)
    }

    /// Limits the rate of what the other side sends, like a link of that speed; false without permission.
    pub(crate) fn limit(&self, mbit_per_second: u32) -> bool {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "tc", "qdisc", "add", "dev", &self.there, "root", "tbf"]);
        command.args(["rate", &format!("{mbit_per_second}mbit"), "burst", "64kb", "latency", "50ms"]);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

/// A server and several load generators, each in its own network namespace, connected by a bridge in the server's.
/// There is no route to them from here. Removed when this is dropped.
pub(crate) struct Switch {
    /// The server's namespace.
    pub(crate) server: String,
    /// Its bridge, with its address.
    pub(crate) bridge: String,
    pub(crate) address: String,
    /// Names of the generators' namespaces, and their addresses.
    pub(crate) generators: Vec<(String, String)>,
    /// CPUs of this machine.
    pub(crate) cpus: usize,
}

impl Switch {
    /// With this many generators, at most four.
    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    pub(crate) fn for_hosts(generators: usize) -> Option<Switch> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        // From the block for benchmarks of network devices (RFC 2544): eight addresses.
        let block = pid % 4_096 * 8 + number % 2 * 32_768;
        let host = |n: u32| format!("198.19.{}.{}", block / 256 % 256, block % 256 + n);
        let server = format!("wsns{pid}-{number}");
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut switch = Switch {
            server: server.clone(),
            bridge: "br0".to_owned(),
            address: host(1),
            generators: Vec::new(),
            cpus,
        };
        let ip = |line: String| {
            let mut command = Command::new("ip");
            command.args(line.split_whitespace()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let mut made = vec![
            format!("netns add {server}"),
            format!("-n {server} link add br0 type bridge"),
            format!("-n {server} addr add {}/29 dev br0", host(1)),
            format!("-n {server} link set br0 up"),
            format!("-n {server} link set lo up"),
        ];
        for place in 0..generators as u32 {
            let (name, port) = (format!("wsng{pid}-{number}-{place}"), format!("port{place}"));
            made.extend([
                format!("netns add {name}"),
                format!("-n {name} link add eth0 type veth peer name {port} netns {server}"),
                format!("-n {server} link set {port} master br0"),
                format!("-n {server} link set {port} up"),
                format!("-n {name} addr add {}/29 dev eth0", host(place + 2)),
                format!("-n {name} link set eth0 up"),
                format!("-n {name} link set lo up"),
            ]);
            switch.generators.push((name, host(place + 2)));
        }
        if !made.into_iter().all(ip) {
            println!(
                "skipped: this user may not make and join network namespaces (`ip netns add`, `ip link add`)"
            );
            return None;
        }
        Some(switch)
    }

    /// The reference server on port 8080. It ends when its input ends.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Child {
        serve(&self.server, &self.address, arguments)
    }

    /// A command for an agent in each generator's namespace, on CPUs in turn.
    pub(crate) fn agents(&self) -> Vec<String> {
        let agent = |(place, (name, _)): (usize, &(String, String))| {
            format!("ip netns exec {name} taskset -c {} {} agent", place % self.cpus, program())
        };
        self.generators.iter().enumerate().map(agent).collect()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for name in self.generators.iter().map(|(name, _)| name).chain([&self.server]) {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

fn serve(namespace: &str, address: &str, arguments: &[&str]) -> Child {
    let mut server = Command::new("ip");
    server.args(["netns", "exec", namespace, &program(), "serve", "--until-stdin-closes"]);
    server.args(["--listen", &format!("{address}:8080")]).args(arguments);
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("READY "), "{line}");
    server
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Its end of the pair is removed with it, and so the other end.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
