//! The handler `send` through every interface of every server, with the real programs: the same contract everywhere,
//! and no process left over. Then misbehaving handlers with the reference server's own interfaces.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::own_servers::{directory, is_installed, measured, was_read};
use crate::program::{Server, command, program, said, webstone};

/// Longer than anything here takes on the slowest machine; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Size, writes, fill.
const CASES: [(usize, usize, &str); 8] = [
    (0, 1, "random"),
    (1, 1, "pattern"),
    (6250, 1, "random"),
    (6250, 4, "random"),
    (6250, 4, "pattern"),
    (6250, 1, "none"),
    (100_000, 1, "random"),
    (100_000, 4, "none"),
];

/// A whole answer: status, head, body. `None` if the connection ended before it was complete.
fn ask(url: &str, request: &str) -> Option<(u16, String, Vec<u8>)> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes);
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let body = bytes.split_off(split + 4);
    let head = String::from_utf8(bytes).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let announced = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let is_whole = match announced {
        Some(length) => length == body.len(),
        None if head.to_ascii_lowercase().contains("chunked") => body.ends_with(b"0\r\n\r\n"),
        None => end.is_ok(),
    };
    (is_whole && end.is_ok()).then_some((status, head, body))
}

fn get(url: &str, path: &str) -> Option<(u16, String, Vec<u8>)> {
    ask(url, &format!("GET {path} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"))
}

/// A workload of all cases, each with the size that its answer must have.
fn workload(dir: &Path) -> PathBuf {
    let mut text = String::from("name = \"contract\"\n");
    for (size, writes, fill) in CASES {
        text += &format!(
            "[[pages]]\nfiles = [{{ url = \"/send?size={size}&writes={writes}&fill={fill}\", size = {size} }}]\n"
        );
    }
    let path = dir.join("contract.toml");
    fs::write(&path, text).unwrap();
    path
}

/// Each interface of a server in these profiles, with three clients at the same time; the length of every answer is
/// checked.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn keeps_the_contract(server: &str, program: &str, package: &str, profiles: &[&str]) {
    if !is_installed(program, package) {
        return;
    }
    let listed = webstone(&["servers"]).out;
    // Its last entry under interfaces, including continuation lines.
    let interfaces = listed.split("\nTLS (").next().unwrap();
    let lines: Vec<&str> = interfaces.lines().collect();
    let first = lines.iter().rposition(|line| line.split_whitespace().next() == Some(server)).unwrap();
    let more = lines[first + 1..].iter().take_while(|line| line.starts_with("    "));
    let line = std::iter::once(&lines[first]).chain(more).copied().collect::<String>();
    let interfaces = line.strip_prefix(server).unwrap().split(',').map(str::trim);
    let dir = directory();
    let workload = workload(dir.path());
    for interface in interfaces {
        // In parentheses: the package to install, or the user who cannot run it.
        if let Some((name, why)) = interface.split_once(' ') {
            println!("skipped: {name} of {server} is not available here: {why}");
            continue;
        }
        for profile in profiles {
            let choice = format!("{server}:{profile}");
            let options = ["--server-interface", interface, "-w", workload.to_str().unwrap()];
            let options = [&options[..], &["--connections", "keep-alive"]].concat();
            // A handler in an interpreted language, on a machine that is busy with other things.
            measured(dir.path(), &choice, &options);
        }
    }
}

#[test]
fn nginx_keeps_the_contract() {
    keeps_the_contract("nginx", "nginx", "nginx-light", &["stock", "tuned"]);
}

#[test]
fn apache_keeps_the_contract() {
    keeps_the_contract("apache", "apache2", "apache2", &["stock", "tuned"]);
}

#[test]
fn apache_with_processes_keeps_the_contract() {
    // Its configuration differs from that of `apache` in the module of processes alone.
    keeps_the_contract("apache-prefork", "apache2", "apache2", &["tuned"]);
}

#[test]
fn lighttpd_keeps_the_contract() {
    keeps_the_contract("lighttpd", "lighttpd", "lighttpd", &["stock", "tuned"]);
}

#[test]
fn the_reference_server_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    for interface in ["native", "cgi", "fastcgi", "persistent"] {
        let server = Server::start(dir.path(), &["--interface", interface, "--threads", "2"]);
        for (size, writes, fill) in CASES {
            let path = format!("/send?size={size}&writes={writes}&fill={fill}");
            let (status, head, body) =
                get(&server.url, &path).unwrap_or_else(|| panic!("{interface} {path}"));
            assert_eq!((status, body.len()), (200, size), "{interface} {path}: {head}");
            assert!(body.iter().all(|byte| (63..89).contains(byte)), "{interface} {path}");
            match fill {
                "none" => assert!(body.iter().all(|byte| *byte == b'?')),
                "pattern" => {
                    assert!(body.iter().enumerate().all(|(i, byte)| usize::from(*byte) == 63 + i % 26))
                }
                _ => {}
            }
        }
        assert_eq!(get(&server.url, "/send").unwrap().2.len(), 10_240, "{interface}");
        assert_eq!(get(&server.url, "/send?size=x").unwrap().0, 400, "{interface}");
        let head = ask(&server.url, "HEAD /send?size=7 HTTP/1.0\r\n\r\n");
        assert!(head.is_none(), "the length of a body that HEAD has not: {head:?}");
        let long = "x".repeat(200_000);
        let post = format!(
            "POST /send?size=5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 200000\r\n\r\n{long}"
        );
        assert_eq!(ask(&server.url, &post).unwrap().2.len(), 5, "{interface}");
        let many: Vec<_> = (0..24)
            .map(|_| {
                let url = server.url.clone();
                std::thread::spawn(move || get(&url, "/send?size=100000&writes=7").unwrap().2.len())
            })
            .collect();
        assert!(many.into_iter().all(|thread| thread.join().unwrap() == 100_000), "{interface}");
        let said = server.end();
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{interface}");
    }
}

/// uvicorn in a directory that only root may enter, for example because it was installed in root's home, is not
/// available to servers: the list says so, a run refuses it, and a series leaves out its cells.
#[test]
fn a_program_that_the_servers_user_cannot_run_is_not_installed_for_servers() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 || !is_installed("nginx", "nginx-light") {
        println!("skipped: it takes root, who runs servers as another user, and nginx");
        return;
    }
    let dir = directory();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let shim = closed.join("uvicorn");
    fs::write(&shim, "#!/bin/sh\nexec true\n").unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    let in_closed = |arguments: &[&str]| {
        let with_shim = command(dir.path(), arguments);
        let mut command = std::process::Command::new(program());
        command.args(with_shim.get_args().skip(2)).current_dir(dir.path());
        with_shim.get_envs().for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        said(command.env("PATH", &closed).env("TMPDIR", dir.path().join("tmp")))
    };
    let why = format!(", as which servers run, cannot enter {}", closed.display());
    let listed = in_closed(&["servers"]).out;
    assert!(listed.contains("asgi (not for "), "{listed}");
    assert!(listed.contains(&format!("{}: ", shim.display())) && listed.contains(&why), "{listed}");
    let refused = in_closed(&["run", "--server", "nginx", "--server-interface", "asgi", "--no-store"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("what nginx needs for it cannot be run: ") && refused.err.contains(&why));
    assert!(refused.err.contains("hint: install it where every user can run it"), "{}", refused.err);
    let series = [
        "spice",
        "--server",
        "nginx",
        "--interfaces",
        "static,fastcgi,asgi",
        "-c",
        "1",
        "-d",
        "100ms",
        "-i",
        "1",
    ];
    let named = in_closed(&series);
    assert_eq!(named.code, 2, "an interface that was named is not left out in silence: {}", named.err);
    assert!(named.err.contains("asgi: what nginx needs for it cannot be run: "), "{}", named.err);
}

/// The module's ready-made head is the complete head of the answer, whatever httpd would add, and the connection ends
/// with it.
#[test]
fn a_ready_made_head_is_the_modules_own() {
    if !is_installed("apache2", "apache2") {
        return;
    }
    if !is_installed("apxs", "apache2-dev") && !is_installed("apxs2", "apache2-dev") {
        println!("skipped: a module cannot be compiled");
        return;
    }
    let dir = directory();
    let path = dir.path().join("ready.toml");
    // The last one does not fit into a socket's buffer.
    for (server, size, fill) in [
        ("apache-prefork", 0, "random"),
        ("apache-prefork", 6836, "random"),
        ("apache", 6836, "pattern"),
        ("apache-prefork", 204_800, "none"),
        ("apache", 204_800, "pattern"),
    ] {
        let text = format!(
            "[[pages]]\nfiles = [{{ dynamic = {{ size = {size}, fill = \"{fill}\", head = \"ready\" }} }}]\n"
        );
        fs::write(&path, text).unwrap();
        let options =
            ["--server-interface", "module", "-w", path.to_str().unwrap(), "--connections", "keep-alive"];
        let record = measured(dir.path(), server, &options);
        let measured = &record["iterations"][0]["measured"];
        let number = |name: &str, key: &str| measured[name][key].as_u64().unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
        );
        let answers = number("counts", "succeeded");
        assert_eq!(number("body_bytes", "sum"), size * answers, "{server} {size}");
        assert_eq!(
            number("response_bytes", "sum"),
            (size + head.len() as u64) * answers,
            "{server} {size}: a head of {head:?}"
        );
        assert!(number("counts", "connections") >= answers, "{server} {size}: {}", measured["counts"]);
    }
    let said = webstone(&["run", "-w", path.to_str().unwrap(), "--no-store", "-d", "10ms"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("which only a module within the server has"), "{}", said.err);
}

/// A CGI program, or a persistent handler, of a few lines.
fn script(dir: &Path, text: &str) -> String {
    let path = dir.join(format!("handler-{}", text.len()));
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Processes with a text in their command line.
fn processes_with(text: &str) -> Vec<String> {
    let of = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
    let lines = fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(of);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|line| line.contains(text)).collect()
}

fn assert_gone(text: &str) {
    let until = Instant::now() + PATIENCE;
    while !processes_with(text).is_empty() {
        assert!(Instant::now() < until, "{:?}", processes_with(text));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn cgi(dir: &Path, text: &str) -> Server {
    let handler = script(dir, text);
    // One that is to answer may be slow on a busy machine.
    let timeout = if text.contains("sleep 987") { "3s" } else { "30s" };
    let limits = ["--handler-timeout", timeout, "--handler-output-max", "1000000", "--threads", "1"];
    Server::start(dir, &[&["--interface", "cgi", "--handler", &handler][..], &limits].concat())
}

#[test]
fn a_cgi_program_gets_the_environment_of_the_standard_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = cgi(dir.path(), "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n/usr/bin/env\ncat\n");
    let port = server.url.rsplit_once(':').unwrap().1.to_owned();
    let request = "POST /send/a%20b?x=1&y=%20 HTTP/1.0\r\nHost: example.org:1\r\nContent-Type: text/x\r\n\
                   X-A: $(id)\r\nProxy: evil\r\nContent-Length: 6\r\n\r\nBODY=1";
    let (status, _, body) = ask(&server.url, request).unwrap();
    let text = String::from_utf8(body).unwrap();
    // The shell's own variables.
    let own = ["PWD=", "OLDPWD=", "_=", "SHLVL="];
    let mut found: Vec<&str> =
        text.lines().filter(|line| !own.iter().any(|name| line.starts_with(name))).collect();
    found.sort_unstable();
    let server_port = format!("SERVER_PORT={port}");
    let software = format!("SERVER_SOFTWARE=webstone/{}", env!("CARGO_PKG_VERSION"));
    let mut expected = vec![
        "BODY=1",
        "CONTENT_LENGTH=6",
        "CONTENT_TYPE=text/x",
        "GATEWAY_INTERFACE=CGI/1.1",
        "HTTP_HOST=example.org:1",
        "HTTP_X_A=$(id)",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "PATH_INFO=/a b",
        "QUERY_STRING=x=1&y=%20",
        "REMOTE_ADDR=127.0.0.1",
        "REQUEST_METHOD=POST",
        "SCRIPT_NAME=/send",
        "SERVER_NAME=example.org",
        &server_port,
        "SERVER_PROTOCOL=HTTP/1.0",
        &software,
    ];
    expected.sort_unstable();
    assert_eq!((status, found), (200, expected));
}

#[test]
fn a_misbehaving_cgi_program_costs_only_its_request() {
    let head = "printf 'Content-Type: text/plain\\n\\n'";
    for (name, text, status) in [
        ("hangs", "sleep 987".to_owned(), Some(504)),
        ("says garbage", "echo nonsense; echo".to_owned(), Some(502)),
        ("says nothing", "exit 0".to_owned(), Some(502)),
        ("fails at once", "exit 3".to_owned(), Some(502)),
        ("has no end of its head", "printf 'Content-Type: a\\n'".to_owned(), Some(502)),
        ("hangs half-way", format!("{head}; echo x; sleep 987"), None),
        ("dies half-way", format!("{head}; echo x; kill -9 $$"), None),
        ("floods", format!("{head}; cat /dev/zero"), None),
        ("says less than announced", "printf 'Content-Type: a\\nContent-Length: 9\\n\\nx'".to_owned(), None),
        (
            "says more than announced",
            "printf 'Content-Type: a\\nContent-Length: 1\\n\\nxyz'".to_owned(),
            Some(200),
        ),
        ("moves", "printf 'Location: http://a/\\n\\n'".to_owned(), Some(302)),
        ("is missing", "printf 'Status: 404 No\\n\\n'".to_owned(), Some(404)),
        ("turns in circles", "printf 'Location: /send?a\\n\\n'".to_owned(), Some(502)),
        // The text is in the child's arguments, by which `assert_gone` finds processes.
        ("leaves a child", format!("{head}; sh -c 'sleep 987; :' $0 >/dev/null 2>&1 & echo x"), Some(200)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let server = cgi(dir.path(), &format!("#!/bin/sh\n{text}\n"));
        for _ in 0..3 {
            let answer = get(&server.url, "/send");
            assert_eq!(answer.as_ref().map(|(status, ..)| *status), status, "{name}: {answer:?}");
        }
        assert_eq!(get(&server.url, "/none").unwrap().0, 404, "{name}: the server goes on");
        let handler = dir.path().to_str().unwrap().to_owned() + "/handler";
        server.end();
        assert_gone(&handler);
    }
}

#[test]
fn a_persistent_handler_that_misbehaves_is_restarted() {
    let frame = |kind: char, text: &str| {
        let length: String = (text.len() as u32).to_be_bytes().iter().map(|b| format!("\\{b:03o}")).collect();
        format!("printf '{kind}{length}{}'\n", text.replace('\n', "\\n"))
    };
    let ready = frame('V', "1");
    let answer = frame('O', "Content-Type: a\nContent-Length: 1\n\nx") + &frame('E', "");
    for (name, text, status) in [
        ("answers once and dies", format!("{ready}head -c 20 >/dev/null; {answer}"), Some(200)),
        ("is silent", "sleep 987".to_owned(), Some(504)),
        ("says garbage", "echo HTTP/1.1 200 OK; sleep 987".to_owned(), Some(502)),
        ("is of another version", frame('V', "2"), Some(502)),
        ("hangs in a request", format!("{ready}sleep 987"), Some(504)),
        ("dies in a request", format!("{ready}head -c 20 >/dev/null"), Some(502)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let handler = script(dir.path(), &format!("#!/bin/sh\n{text}\n"));
        let timeout = if text.contains("sleep 987") { "3s" } else { "30s" };
        let arguments = ["--interface", "persistent", "--handler", &handler, "--handler-timeout", timeout];
        let server = Server::start(dir.path(), &arguments);
        for _ in 0..3 {
            let answer = get(&server.url, "/send");
            assert_eq!(answer.as_ref().map(|(status, ..)| *status), status, "{name}: {answer:?}");
        }
        server.end();
        assert_gone(&handler);
    }
}

#[test]
fn nothing_of_a_killed_server_is_left() {
    for interface in ["fastcgi", "persistent"] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start(dir.path(), &["--interface", interface]);
        assert_eq!(get(&server.url, "/send?size=1").unwrap().2.len(), 1);
        let of_server = |pid: u32| {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().filter_map(Result::ok);
            let all: String = threads
                .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default())
                .collect();
            (children + &all).split_whitespace().map(str::to_owned).collect::<Vec<String>>()
        };
        let children = of_server(server.child.id());
        assert!(!children.is_empty(), "{interface}");
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let until = Instant::now() + PATIENCE;
        let runs = |pid: &String| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        };
        while children.iter().any(runs) {
            assert!(Instant::now() < until, "{interface}: {children:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// CPU time per request, in milliseconds, of a server whose CGI processes each fill a million bytes with random text.
fn cgi_milliseconds(dir: &Path, server: &str) -> Option<f64> {
    let path = dir.join("dear.toml");
    let text = "name = \"dear\"\n[[pages]]\nfiles = [{ url = \"/send?size=1000000\", size = 1000000 }]\n";
    fs::write(&path, text).unwrap();
    let record = measured(dir, server, &["--server-interface", "cgi", "-w", path.to_str().unwrap()]);
    let runs = record["iterations"].as_array().unwrap();
    if !runs.iter().all(was_read) {
        return None;
    }
    let of = |name: &str| -> f64 { runs.iter().map(|run| run["server"][name].as_f64().unwrap()).sum() };
    let requests: f64 = runs.iter().map(|run| run["measured"]["counts"]["succeeded"].as_f64().unwrap()).sum();
    Some((of("user_ns") + of("system_ns")) / 1e6 / requests)
}

/// fcgiwrap and mod_cgid's daemon do not wait for their CGI processes, lighttpd does: the same program must cost the
/// same.
#[test]
fn unawaited_cgi_processes_count() {
    if !["", "/unified"].iter().any(|mount| {
        fs::OpenOptions::new().append(true).open(format!("/sys/fs/cgroup{mount}/cgroup.procs")).is_ok()
            && Path::new(&format!("/sys/fs/cgroup{mount}/cgroup.controllers")).exists()
    }) {
        println!("skipped: this user may not make control groups of version 2");
        return;
    }
    let needed = [
        ("lighttpd", "lighttpd"),
        ("nginx", "nginx-light"),
        ("fcgiwrap", "fcgiwrap"),
        ("apache2", "apache2"),
    ];
    if !needed.iter().all(|(program, package)| is_installed(program, package)) {
        return;
    }
    let dir = directory();
    let Some(waited) = cgi_milliseconds(dir.path(), "lighttpd") else { return };
    for server in ["nginx", "apache"] {
        let Some(counted) = cgi_milliseconds(dir.path(), server) else { continue };
        assert!(
            (waited / 2.0..waited * 2.0).contains(&counted),
            "{server}: {counted} ms; lighttpd: {waited} ms"
        );
    }
}

#[test]
fn an_answer_of_wrong_length_is_an_error_with_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--interface", "persistent"]);
    let text = "name = \"wrong\"\n[[pages]]\nfiles = [{ url = \"/send?size=99\", size = 100 }]\n";
    fs::write(dir.path().join("wrong.toml"), text).unwrap();
    let arguments = ["run", &server.url, "-w", "wrong.toml", "-c", "1", "-d", "100ms", "--no-store", "-q"];
    let said = crate::program::webstone_in(dir.path(), &arguments);
    assert!((said.out.clone() + &said.err).contains("/send?size=99"), "{} {}", said.out, said.err);
    assert_ne!(said.code, 0, "{}", said.out);
}

#[test]
fn options_of_a_handler_that_is_not_there_are_refused() {
    for (arguments, message) in [
        (&["serve", "--handlers", "3"][..], "--handlers is for a program that answers /send"),
        (&["serve", "--interface", "lua"], "reference has no such interface"),
        (
            &["serve", "--interface", "cgi", "--handler", "/no/such"],
            "--handler /no/such: there is no such program",
        ),
        (&["run", "--server", "caddy", "--server-interface", "cgi"], "caddy has no such interface"),
        (
            &["run", "--server", "nginx", "--server-handlers", "3"],
            "without an interface, nginx has no handler processes",
        ),
    ] {
        let said = webstone(arguments);
        assert!(said.err.contains(message), "{arguments:?}: {}", said.err);
        assert!(said.err.contains("hint: "), "{arguments:?}: {}", said.err);
    }
}
