//! Other servers that webstone runs: each driver with the real program, and that nothing is left of it, however the
//! run ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Running, Said, command, said, webstone, webstone_in};

/// Longer than anything here takes on the slowest machine; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a program is installed; prints a note if not.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
pub(crate) fn is_installed(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.any(|folder: PathBuf| folder.join(program).is_file());
    if !found {
        println!("skipped: {program} is not installed (Debian's package {package})");
    }
    found
}

/// A directory for temporary files that an unprivileged server can read.
pub(crate) fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.path().join("tmp")).unwrap();
    fs::set_permissions(dir.path().join("tmp"), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// A run with its temporary files in the directory.
pub(crate) fn run_in(dir: &Path, arguments: &[&str]) -> Said {
    said(command(dir, arguments).env("TMPDIR", dir.join("tmp")))
}

/// Checks that no file is left, and no process: all that are started have a directory below this one in a variable or
/// on their command line. A free port would prove nothing, because another test's server may have been given it by
/// now.
fn assert_nothing_is_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir.join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let processes = knowing(dir);
    assert!(processes.is_empty(), "{processes:?} still run");
}

/// Processes with a directory's path in their environment or on their command line.
fn knowing(dir: &Path) -> Vec<String> {
    let path = dir.to_str().unwrap();
    let knows = |process: &Path| {
        ["environ", "cmdline"].iter().any(|file| {
            let text = fs::read(process.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(path)
        })
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let processes = processes.filter(|process| process.join("stat").is_file() && knows(process));
    processes.map(|process| fs::read_to_string(process.join("stat")).unwrap_or_default()).collect()
}

/// The record of a run of a few pages, every answer of which was checked byte by byte and none of which failed. Pages
/// end it, not time, in which a busy machine may answer nothing.
pub(crate) fn measured(dir: &Path, server: &str, more: &[&str]) -> Value {
    let arguments = ["run", "--server", server, "-c", "3", "-n", "60", "-d", "0s", "--warmup", "50ms"];
    let arguments = [&arguments[..], &["-i", "1", "--retries", "0", "--check", "content", "-q"]].concat();
    let said = run_in(dir, &[arguments.as_slice(), &["--no-store", "--format", "json"], more].concat());
    let record: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{server} {more:?}: {}", said.err));
    let iteration = &record["iterations"][0];
    let counts = &iteration["measured"]["counts"];
    assert_eq!(counts["failed"], 0, "{server} {more:?}: {}", iteration["measured"]["errors"]);
    assert!(counts["succeeded"].as_u64().unwrap() > 0, "{server} {more:?}: {counts}");
    assert_nothing_is_left(dir);
    record
}

/// Whether the server's use was read when the window opened and when it closed. On a busy machine a short window may
/// be over before it is read; then the record says so, and has no figures.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
pub(crate) fn was_read(iteration: &Value) -> bool {
    let why = iteration["server_missing"].as_str();
    if let Some(why) = why {
        println!("skipped: what the server used: {why}");
    }
    why.is_none()
}

/// Runs a server in both profiles, with every connection policy.
fn serves(server: &str, program: &str, package: &str) {
    if !is_installed(program, package) {
        return;
    }
    let dir = directory();
    for profile in ["stock", "tuned"] {
        let choice = format!("{server}:{profile}");
        for policy in ["per-request", "keep-alive"] {
            let record = measured(dir.path(), &choice, &["--connections", policy]);
            let software = &record["target"]["software"];
            assert_eq!((&software["name"], &software["profile"]), (&server.into(), &profile.into()));
            assert!(
                software["version"].as_str().unwrap().contains(|c: char| c.is_ascii_digit()),
                "{software}"
            );
            assert!(Path::new(software["program"].as_str().unwrap()).ends_with(program));
            let configuration = &record["environment"]["server.configuration"];
            let text = configuration[0]["text"].as_str().unwrap();
            assert!(text.contains(&format!("profile {profile}, written by webstone")), "{text}");
            for fact in ["server.logging", "server.dns", "server.processes", "server.software"] {
                assert!(record["environment"][fact].is_string(), "{server}: {fact}");
            }
            let iteration = &record["iterations"][0];
            if !was_read(iteration) {
                continue;
            }
            let used = &iteration["server"];
            assert!(used["resident_bytes_max"].as_u64().unwrap() > 0, "{server}: {used}");
            // Apache's listening socket counts every handshake as dropped (TCP_DEFER_ACCEPT).
            let (host, number) = (&iteration["host"], |value: &Value| value.as_u64().unwrap());
            let dropped = number(&host["listener_drops"]);
            assert!(dropped <= number(&host["tcp"]["listen_drops"]), "{server}: {dropped} of {host}");
        }
    }
    for option in ["--server-no-keep-alive", "--server-log=off", "--server-log=on", "--server-threads=2"] {
        measured(dir.path(), server, &[option, "--connections", "keep-alive"]);
    }
}

#[test]
fn nginx_is_run() {
    serves("nginx", "nginx", "nginx-light");
}

#[test]
fn apache_with_threads_is_run() {
    serves("apache", "apache2", "apache2");
}

#[test]
fn apache_with_processes_is_run() {
    serves("apache-prefork", "apache2", "apache2");
}

/// It keeps files open for seconds after they were sent: more than allowed, unless it is configured otherwise.
#[test]
fn lighttpd_serves_thousands_of_files() {
    if !is_installed("lighttpd", "lighttpd") {
        return;
    }
    let dir = directory();
    let workload = dir.path().join("many.list");
    fs::write(&workload, (0..6_000).map(|n| format!("/{n}.txt 1 #1\n")).collect::<String>()).unwrap();
    for choice in ["lighttpd:stock", "lighttpd:tuned"] {
        let load = ["-c", "8", "-n", "8000", "-d", "0s", "--connections", "per-request"];
        let run = [
            "run",
            "--server",
            choice,
            "-w",
            workload.to_str().unwrap(),
            "-q",
            "--no-store",
            "--format",
            "json",
        ];
        let said = run_in(dir.path(), &[&run[..], &load].concat());
        let record: Value =
            serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{choice}: {}", said.err));
        let measured = &record["iterations"][0]["measured"];
        assert_eq!(measured["counts"]["failed"], 0, "{choice}: {}", measured["errors"]);
        assert_eq!((&record["state"], &measured["counts"]["succeeded"]), (&"complete".into(), &8_000.into()));
    }
}

#[test]
fn lighttpd_is_run() {
    serves("lighttpd", "lighttpd", "lighttpd");
}

#[test]
fn caddy_is_run() {
    serves("caddy", "caddy", "caddy");
}

#[test]
fn haproxy_is_run_before_an_origin() {
    serves("haproxy", "haproxy", "haproxy");
}

#[test]
fn nginx_is_run_before_an_origin() {
    serves("nginx-proxy", "nginx", "nginx-light");
}

#[test]
fn caches_are_switched_and_serve_the_same() {
    for (server, program, package, options) in [
        ("nginx", "nginx", "nginx-light", &["--server-cache"][..]),
        ("nginx:tuned", "nginx", "nginx-light", &["--server-no-cache"]),
        ("apache", "apache2", "apache2", &["--server-cache", "--server-no-cache"]),
        ("lighttpd", "lighttpd", "lighttpd", &["--server-cache", "--server-no-cache"]),
        ("nginx-proxy", "nginx", "nginx-light", &["--server-cache"]),
        ("haproxy", "haproxy", "haproxy", &["--server-cache"]),
    ] {
        if !is_installed(program, package) {
            continue;
        }
        let dir = directory();
        for option in options {
            measured(dir.path(), server, &[option]);
        }
    }
}

#[test]
fn apaches_log_has_names_instead_of_addresses() {
    if !is_installed("apache2", "apache2") {
        return;
    }
    let dir = directory();
    let first_word = |more: &[&str]| {
        let log = dir.path().join("a.log");
        let record = measured(dir.path(), "apache", &[["--server-log", "a.log"].as_slice(), more].concat());
        let text = fs::read_to_string(&log).unwrap();
        let answered = record["iterations"][0]["measured"]["lifetime"]["requests"].as_u64().unwrap();
        // Besides the load, the files were requested before it.
        assert!(text.lines().count() as u64 >= answered, "{answered} requests");
        text.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(first_word(&[]), "127.0.0.1");
    assert_ne!(first_word(&["--server-resolve-names"]), "127.0.0.1");
}

/// A server that leaves its parent, as daemons do.
const DAEMON: &str = "\
import functools, http.server, os, sys
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[3])
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), handler).serve_forever()
";

#[test]
fn a_daemon_is_a_server_too_and_does_not_get_away() {
    // Not one in a user's home, which an unprivileged server cannot read.
    if !is_installed("/usr/bin/python3", "python3") {
        return;
    }
    let dir = directory();
    fs::write(dir.path().join("daemon.py"), DAEMON).unwrap();
    let line = format!("/usr/bin/python3 {}/daemon.py {{address}} {{port}} {{root}}", dir.path().display());
    let record = measured(dir.path(), "command", &["--server-command", &line]);
    assert_eq!(record["target"]["software"]["name"], "command");
    let iteration = &record["iterations"][0];
    assert!(!was_read(iteration) || iteration["server"]["user_ns"].as_u64().unwrap() > 0);
    killed_with(dir.path(), "command", &["--server-command", &line]);
}

/// All descendants of a process.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children: Vec<u32> =
                children.split_whitespace().map(|child| child.parse().unwrap()).collect();
            found.extend(&children);
            open.extend(children);
        }
    }
    found
}

/// A run that is killed while it measures takes its server along, whatever that has become.
fn killed_with(dir: &Path, server: &str, more: &[&str]) {
    let arguments =
        ["run", "--server", server, "-c", "2", "-d", "10m", "--warmup", "0s", "--trace", "3", "--no-store"];
    let mut started = command(dir, &[arguments.as_slice(), more].concat());
    let mut run = Running::spawn(started.env("TMPDIR", dir.join("tmp")));
    run.wait_for("[3 ");
    let processes = descendants(run.child.id());
    // At least the supervisor and the server.
    assert!(processes.len() >= 2 && knowing(dir).len() >= 2, "{processes:?}");
    run.signal("KILL");
    let _ = run.end();
    let is_alive = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie is not running, even if its parent has not waited for it yet.
        !stat.is_empty() && !stat.contains(") Z ")
    };
    let until = Instant::now() + PATIENCE;
    while processes.iter().any(is_alive) || fs::read_dir(dir.join("tmp")).unwrap().next().is_some() {
        let alive: Vec<_> = processes.iter().copied().filter(|pid| is_alive(pid)).collect();
        assert!(Instant::now() < until, "{server}: {alive:?} of {processes:?} are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_run_leaves_no_server() {
    for (server, program, package) in [
        ("nginx", "nginx", "nginx-light"),
        ("apache-prefork", "apache2", "apache2"),
        ("apache:tuned", "apache2", "apache2"),
        ("lighttpd:tuned", "lighttpd", "lighttpd"),
        ("caddy", "caddy", "caddy"),
        ("haproxy", "haproxy", "haproxy"),
    ] {
        if is_installed(program, package) {
            killed_with(directory().path(), server, &[]);
        }
    }
}

#[test]
fn an_interrupted_run_stops_its_server() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let dir = directory();
    let arguments =
        ["run", "--server", "nginx", "-c", "2", "-d", "10m", "--warmup", "0s", "--trace", "3", "--no-store"];
    let mut run = Running::spawn(command(dir.path(), &arguments).env("TMPDIR", dir.path().join("tmp")));
    run.wait_for("[3 ");
    run.signal("INT");
    assert_eq!(run.end().code, 130);
    assert!(fs::read_dir(dir.path().join("tmp")).unwrap().next().is_none());
}

#[test]
fn a_server_that_does_not_start_is_quoted() {
    let dir = directory();
    let failing = "sh -c 'echo no such thing as {port} >&2; exit 3'";
    let said = run_in(
        dir.path(),
        &["run", "--server", "command", "--server-command", failing, "--server-listen", "127.0.0.1:9"],
    );
    let shell = said.err.rsplit_once(": ").map_or("", |(_, line)| line).split(' ').next().unwrap_or_default();
    assert!(shell.ends_with("/sh"), "{}", said.err);
    assert_eq!(
        (said.code, said.err.replace(shell, "SH").replace(", as the user www-data", "").as_str()),
        (
            1,
            "error: command ended before it answered: exit status 3; it said:\n  no such thing as 9\n\
             hint: start it by hand to see more: SH -c 'echo no such thing as 9 >&2; exit 3'\n"
        )
    );
    assert!(fs::read_dir(dir.path().join("tmp")).unwrap().next().is_none());
    if is_installed("nginx", "nginx-light") {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap().to_string();
        let said = run_in(dir.path(), &["run", "--server", "nginx", "--server-listen", &taken]);
        assert_eq!(said.code, 1);
        assert!(
            said.err.starts_with("error: nginx ended before it answered: exit status 1; it said:\n"),
            "{}",
            said.err
        );
        assert!(said.err.contains("Address already in use"), "{}", said.err);
    }
}

#[test]
fn unsupported_options_are_reported_before_anything_is_started() {
    for (arguments, expected) in [
        (
            &["--server", "iis"][..],
            "error: --server: `iis` is not a server\n\
             hint: write one of reference, nginx, apache, apache-prefork, lighttpd, caddy, haproxy, nginx-proxy, envoy, nghttpd, command, \
             with :tuned after it for the tuned profile\n",
        ),
        (
            &["--server", "nginx", "http://127.0.0.1:1"],
            "error: --server (server.software): it applies to a server that webstone starts, but the server under test is \
             http://127.0.0.1:1\nhint: remove it, or remove the URL: webstone then starts the server\n",
        ),
        (
            &["--server", "caddy", "--server-backlog", "7"],
            "error: --server-backlog (server.backlog): Caddy always uses the longest listen queue that the kernel allows (net.core.somaxconn)\nhint: remove it, or choose another server\n",
        ),
        (
            &["--server", "nginx", "--server-program", "/nonexistent/nginx"],
            "error: there is no program `/nonexistent/nginx` for the server nginx\n\
             hint: remove --server-program (server.program): the program is then found by its name\n",
        ),
        (
            &["--server", "nginx", "--server-listen", "localhost:80"],
            "error: --server-listen (server.listen): `localhost:80` is not an address with a port: write it as in 127.0.0.1:0 or [::1]:8080\nhint: only the reference server listens on several addresses and on sockets\n",
        ),
        (
            &["--server", "haproxy", "--server-origin", "http://127.0.0.1:1"],
            "error: --server-origin (server.origin): http://127.0.0.1:1 does not accept connections: Connection refused\n\
             hint: start the server behind the proxy first, or remove the option: webstone then starts one\n",
        ),
        (
            &["--server-processes", "7"],
            "error: --server-processes (server.processes): it does not apply to the reference server\n\
             hint: choose another server, such as nginx, or remove it; `webstone servers` lists the servers\n",
        ),
    ] {
        // Without it, a message about nginx itself comes first.
        if expected.contains("[::1]:8080") && !is_installed("nginx", "nginx-light") {
            continue;
        }
        let said = webstone(&[["run"].as_slice(), arguments].concat());
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (2, "", expected));
    }
}

#[test]
fn servers_are_listed_and_shown() {
    let dir = directory();
    let said = webstone_in(dir.path(), &["servers"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let names: Vec<&str> =
        said.out.lines().skip(1).take(11).map(|line| line.split_whitespace().next().unwrap()).collect();
    let expected = [
        "reference",
        "nginx",
        "apache",
        "apache-prefork",
        "lighttpd",
        "caddy",
        "haproxy",
        "nginx-proxy",
        "envoy",
        "nghttpd",
        "command",
    ];
    assert_eq!(names, expected);
    assert_eq!(webstone(&["servers", "list"]).out, said.out);
    let shown = webstone(&["servers", "show", "nginx:tuned"]);
    assert!(
        shown.out.contains("worker_processes 1;") && shown.out.contains("# The log stays on"),
        "{}",
        shown.out
    );
    let shown = webstone(&["servers", "show", "command"]);
    assert_eq!(shown.code, 2);
}
