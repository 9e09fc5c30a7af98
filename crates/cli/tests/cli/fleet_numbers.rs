//! The numbers promised for several hosts (`docs/generators.md`), measured between network namespaces, by observers
//! outside the program. The tests print what they find and assert what must hold on a busy machine, too; for the
//! numbers, run them with no other program running:
//!
//! ```sh
//! cargo test --release -p webstone --test cli -- --ignored --nocapture --test-threads 1 fleet_numbers
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agents::{is_gone, json, pid_in, signal};
use crate::generators::two;
use crate::namespace::Switch;
use crate::program::{Running, Server, command, program, webstone_in};

/// Agents end by themselves if they hear nothing for this long.
const LEASE: Duration = Duration::from_secs(15);
/// Number of controllers that are killed.
const KILLS: usize = 100;
/// How many of them run at the same time.
const KILLED_AT_ONCE: usize = 5;
/// A controller is killed within this time after its start: while agents start, prepare, begin, warm up, and measure.
const KILLED_WITHIN_MS: u64 = 5_000;
/// Number of levels whose beginning is observed.
const LEVELS: usize = 20;

#[test]
#[ignore = "takes minutes"]
fn no_load_outlives_its_controller_wherever_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    if two(dir.path()).is_none() {
        return;
    }
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let url = server.url.as_str();
    let longest = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..KILLED_AT_ONCE)
            .map(|lane| {
                scope.spawn(move || {
                    let kills = (lane..KILLS).step_by(KILLED_AT_ONCE);
                    kills.map(|kill| kill_one(kill, url)).max().unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    println!("{KILLS} controllers killed; the last agent of any ended {longest:.1?} after its controller");
    assert!(longest <= LEASE, "an agent went on for {longest:?}");
}

/// Kills a controller at a given instant, and returns how long its agents outlived it.
fn kill_one(number: usize, url: &str) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let agents = two(dir.path()).unwrap();
    let load = ["-K", "-c", "4", "-d", "1h", "--warmup", "1s", "-q", "--no-store"];
    let hosts = agents.iter().flat_map(|(agent, _)| ["--generator", agent.as_str()]);
    let arguments: Vec<&str> = ["run", url].into_iter().chain(hosts).chain(load).collect();
    // Spread over the whole time, in mixed order.
    let after = Duration::from_millis(number as u64 * 37 % KILLS as u64 * KILLED_WITHIN_MS / KILLS as u64);
    let mut controller = command(dir.path(), &arguments).spawn().unwrap();
    std::thread::sleep(after);
    signal("KILL", controller.id());
    let since = Instant::now();
    controller.wait().unwrap();
    // An agent that was just being started may only appear now.
    std::thread::sleep(Duration::from_millis(200));
    for (_, file) in agents.iter().filter(|(_, file)| file.exists()) {
        assert!(is_gone(pid_in(file)), "an agent outlived its controller, killed {after:?} after its start");
    }
    since.elapsed()
}

#[test]
#[ignore = "for its numbers it needs a quiet machine"]
fn loads_of_two_hosts_begin_at_one_moment_by_an_outside_witness() {
    let Some(hosts) = Switch::for_hosts(2) else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut witness) = Witness::start(&hosts, &dir.path().join("packets")) else { return };
    let mut server = hosts.serve(&["--threads", "1"]);
    let url = format!("http://{}:8080", hosts.address);
    let agents = hosts.agents();
    let mut arguments = vec!["run", &url];
    agents.iter().for_each(|agent| arguments.extend(["--generator", agent]));
    let (levels, load) = (LEVELS.to_string(), ["-c", "2", "-d", "1s", "--warmup", "0s", "--retries", "0"]);
    arguments.extend(load);
    arguments.extend(["-i", &levels, "-q", "--format", "json", "--connections", "per-request"]);
    let record = json(&webstone_in(dir.path(), &arguments));
    let first = witness.first_of_each_level(&hosts);
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(first.len() >= LEVELS, "{} levels were seen", first.len());
    // Earlier connections are the hosts' check that they can reach the server.
    let mut apart_ms: Vec<f64> = first[first.len() - LEVELS..]
        .iter()
        .map(|level| {
            assert_eq!(level.len(), 2, "both hosts: {level:?}");
            let (least, most) =
                level.values().fold((f64::MAX, 0.0_f64), |(least, most), at| (least.min(*at), most.max(*at)));
            (most - least) * 1e3
        })
        .collect();
    apart_ms.sort_by(f64::total_cmp);
    let runs = record["iterations"].as_array().unwrap();
    let own = runs.iter().flat_map(|run| run["parts"].as_array().unwrap());
    let own = own.map(|part| part["opening_skew_ns"].as_i64().unwrap().unsigned_abs()).max().unwrap();
    println!(
        "first packets of two hosts over {LEVELS} levels: {:.3} ms apart at the median, {:.3} at most; by their own clocks windows \
         opened within {:.3} ms of the agreed instant",
        apart_ms[LEVELS / 2],
        apart_ms[LEVELS - 1],
        own as f64 / 1e6
    );
}

/// Sees every connection opened to the server, with the kernel's time stamps.
struct Witness {
    tcpdump: Child,
    file: PathBuf,
}

impl Witness {
    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    fn start(hosts: &Switch, file: &Path) -> Option<Witness> {
        let mut tcpdump = Command::new("ip");
        tcpdump.args([
            "netns",
            "exec",
            &hosts.server,
            "tcpdump",
            "-i",
            &hosts.bridge,
            "-nn",
            "-tt",
            "-l",
            "-U",
        ]);
        tcpdump.args(["--time-stamp-precision=nano", "tcp[tcpflags] == tcp-syn"]);
        let said = file.with_extension("err");
        let started = tcpdump
            .stdin(Stdio::null())
            .stdout(fs::File::create(file).unwrap())
            .stderr(fs::File::create(&said).unwrap())
            .spawn();
        let mut witness = Witness { tcpdump: started.ok()?, file: file.to_owned() };
        let until = Instant::now() + Duration::from_secs(20);
        while !fs::read_to_string(&said).unwrap_or_default().contains("listening on") {
            if Instant::now() > until || witness.tcpdump.try_wait().unwrap().is_some() {
                println!("skipped: there is no tcpdump");
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(witness)
    }

    /// When each host first opened a connection after a pause, in seconds.
    fn first_of_each_level(&mut self, hosts: &Switch) -> Vec<BTreeMap<usize, f64>> {
        /// Levels are further apart than this, requests of a level are not.
        const APART_S: f64 = 0.4;
        std::thread::sleep(Duration::from_millis(500));
        signal("INT", self.tcpdump.id());
        self.tcpdump.wait().unwrap();
        let (mut levels, mut last) = (Vec::<BTreeMap<usize, f64>>::new(), f64::MIN);
        for line in fs::read_to_string(&self.file).unwrap().lines() {
            // 1700000000.123456789 IP 198.19.0.2.40000 > 198.19.0.1.8080: Flags [S], …
            let words: Vec<&str> = line.split_whitespace().collect();
            let [at, "IP", from, ">", ..] = words[..] else { continue };
            let at: f64 = at.parse().unwrap();
            let from = from.rsplit_once('.').unwrap().0;
            // The controller checks the server's files.
            let Some(host) = hosts.generators.iter().position(|(_, address)| address == from) else {
                continue;
            };
            if at - last > APART_S {
                levels.push(BTreeMap::new());
            }
            last = at;
            levels.last_mut().unwrap().entry(host).or_insert(at);
        }
        levels
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

#[test]
#[ignore = "for its numbers it needs a quiet machine"]
fn control_costs_each_host_next_to_nothing() {
    /// The part of the window that is examined.
    const LOOKED: Duration = Duration::from_secs(20);
    let Some(hosts) = Switch::for_hosts(2) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = hosts.serve(&["--threads", "1"]);
    let url = format!("http://{}:8080", hosts.address);
    let file = |of: usize, what: &str| dir.path().join(format!("{of}.{what}"));
    // Messages in both directions are copied to files.
    let agents: Vec<String> = (0..hosts.generators.len())
        .map(|of| {
            let [told, said, pid] = ["told", "said", "pid"].map(|what| file(of, what).display().to_string());
            let (name, cpu) = (&hosts.generators[of].0, of % hosts.cpus);
            format!(
                "sh -c 'tee {told} | ip netns exec {name} taskset -c {cpu} sh -c \"echo \\$\\$ > {pid}; exec {} agent\" | tee {said}'",
                program()
            )
        })
        .collect();
    let mut arguments = vec!["run", &url];
    agents.iter().for_each(|agent| arguments.extend(["--generator", agent]));
    // Hardly any load, so that only control is left.
    arguments.extend(["-R", "2", "-c", "2", "-d", "32s", "-i", "1", "--warmup", "0s", "--retries", "0"]);
    arguments.extend(["-q", "--format", "json", "--events", "events"]);
    let controller = Running::start(dir.path(), &arguments);
    let pids: Vec<u32> = (0..agents.len()).map(|of| pid_in(&file(of, "pid"))).collect();
    controller.wait_for_window(&dir.path().join("events"));
    std::thread::sleep(Duration::from_secs(3));
    let look = || {
        let bytes = |of: usize| ["told", "said"].map(|what| fs::metadata(file(of, what)).unwrap().len());
        let of_agents = pids.iter().map(|pid| cpu_ns(*pid, |thread| !thread.starts_with("worker-")));
        let bytes: Vec<[u64; 2]> = (0..agents.len()).map(bytes).collect();
        (Instant::now(), bytes, of_agents.collect::<Vec<_>>(), cpu_ns(controller.child.id(), |_| true))
    };
    let (before, after) = (look(), {
        std::thread::sleep(LOOKED);
        look()
    });
    let record = json(&controller.end());
    drop(server.stdin.take());
    server.wait().unwrap();
    assert_eq!(record["iterations"][0]["lost"], Value::Null, "{record}");
    let seconds = (after.0 - before.0).as_secs_f64();
    for of in 0..agents.len() {
        let rate = |way: usize| (after.1[of][way] - before.1[of][way]) as f64 / seconds;
        let percent = (after.2[of] - before.2[of]) as f64 / seconds / 1e7;
        println!(
            "generator {}: {:.0} B/s to it and {:.0} B/s from it; its threads that are not workers used {percent:.3} % of a CPU",
            of + 1,
            rate(0),
            rate(1)
        );
        assert!(rate(0) > 0.0 && rate(1) > 0.0, "signs of life");
    }
    let percent = (after.3 - before.3) as f64 / seconds / 1e7;
    println!(
        "controller: {percent:.3} % of a CPU, {:.3} % for each generator",
        percent / agents.len() as f64
    );
}

/// CPU time of those threads of a process whose names are wanted, in nanoseconds.
fn cpu_ns(pid: u32, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| is_wanted(&name)))
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok())
        .sum()
}
