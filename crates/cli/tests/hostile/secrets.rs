//! Where a user's password could appear.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::program::{assert_ended, command, only_entry, webstone_in};

const SECRET: &str = "hunter2-Tr0ub4dor";

/// Files below a directory that contain a text.
fn holding(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if fs::read(entry.path()).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_password_in_a_url_a_header_a_body_and_a_feed_gets_into_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let server = crate::program::Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let url = format!("{}/test?size=1&password={SECRET}&sig={SECRET};jsessionid={SECRET}", server.url);
    let said = webstone_in(
        dir.path(),
        &[
            "hit",
            &url,
            "-d",
            "200ms",
            "-c",
            "1",
            "-H",
            &format!("X-Auth: {SECRET}"),
            "-H",
            &format!("Ocp-Apim-Subscription-Key: {SECRET}"),
            "--body",
            &format!("pin={SECRET}&a=1"),
            "--trace",
            "2",
            // The server refuses the query.
            "--no-check",
        ],
    );
    assert_ended(&said);
    assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET), "{}{}", said.out, said.err);
    assert!(said.err.contains("> X-Auth: [redacted]"), "{}", said.err);
    let workload = format!(
        "name = \"w\"\n[feeds.users]\ncolumns = [\"name\", \"word\"]\nrows = [[\"ann\", \"{SECRET}\"]]\n\n[[pages]]\nweight = 1\nurl = \
         \"/test?size=1&a={{{{users.word}}}}\"\n"
    );
    fs::write(dir.path().join("w.toml"), workload).unwrap();
    let said = webstone_in(
        dir.path(),
        &["run", &server.url, "-w", "w.toml", "-d", "200ms", "-c", "1", "-i", "1", "--full"],
    );
    assert_ended(&said);
    assert!(said.out.contains("left out") && said.out.contains("rows of feeds"), "{}", said.out);
    assert_eq!(holding(&dir.path().join("runs"), SECRET), [""; 0], "{}", said.out);
    for run in fs::read_dir(dir.path().join("runs")).unwrap() {
        let said = webstone_in(dir.path(), &["verify", run.unwrap().path().to_str().unwrap()]);
        assert_eq!(said.code, 0, "what was taken out does not spoil the rest: {}", said.out);
    }
}

#[test]
fn a_password_of_a_contestant_gets_into_the_record_of_a_duel_or_on_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    let server = crate::program::Server::start(dir.path(), &["--threads", "1", "--workload", "workout-0k"]);
    let path = format!("/test?size=1&password={SECRET}&sig={SECRET}");
    let started =
        format!("env TOKEN={SECRET} {} serve --listen 127.0.0.1:{{port}}", crate::program::program());
    let header = format!("X-Auth: {SECRET}");
    let duel = |contestants: &[&str]| {
        let options =
            ["--path", &path, "-H", &header, "-c", "1", "--no-twin", "--at-most", "2s", "--no-check"];
        let said = webstone_in(
            dir.path(),
            &[&["duel"], contestants, &options, &["--starts", "1", "--restart-every", "500ms"]].concat(),
        );
        assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET), "{}{}", said.out, said.err);
        said
    };
    let said = duel(&[&server.url, &started]);
    assert!(said.err.contains("stored: "), "{said:?}");
    assert_eq!(holding(&dir.path().join("runs"), SECRET), [""; 0], "{}", said.out);
    let record = only_entry(&dir.path().join("runs"));
    let verified = webstone_in(dir.path(), &["verify", record.to_str().unwrap()]);
    assert_eq!(verified.code, 0, "what was taken out does not spoil the rest: {}", verified.out);
    for format in ["text", "html", "markdown", "json", "junit"] {
        let report = webstone_in(dir.path(), &["report", "last", "--format", format]);
        assert!(report.code == 0 && !report.out.contains(SECRET), "{format}: {}", report.out);
        // Markdown escapes brackets, and JUnit says nothing of URLs.
        let is_said = report.out.replace('\\', "").contains("[redacted]") || format == "junit";
        assert!(is_said, "{format}: {}", report.out);
    }
    // Nor into what is said of one that fails.
    for wrong in [
        format!("env TOKEN={SECRET} /none {{port}}"),
        format!("PASSWORD={SECRET} {{port}}"),
        server.url.replace("://", &format!("://ann:{SECRET}@")),
        format!("htp://ann:{SECRET}@127.0.0.1/"),
    ] {
        let said = duel(&[&server.url, &wrong]);
        assert!(said.code != 0 && !said.err.contains("stored: "), "{said:?}");
    }
}

/// Descendants of a process, from `/proc`.
fn below(pid: u32) -> Vec<u32> {
    let parent_of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let all: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|pid| parent_of(**pid) == Some(parent)));
        at += 1;
    }
    found.split_off(1)
}

#[test]
fn a_password_in_the_environment_gets_into_a_started_server() {
    let line = "busybox httpd -f -p {address}:{port} -h {root}";
    let servers: [&[&str]; 9] = [
        &["--server", "reference", "--server-interface", "fastcgi"],
        &["--server", "nginx"],
        &["--server", "nginx", "--server-interface", "fastcgi"],
        &["--server", "apache"],
        &["--server", "lighttpd"],
        &["--server", "caddy"],
        &["--server", "haproxy"],
        &["--server", "nginx-proxy"],
        &["--server", "command", "--server-command", line],
    ];
    let mut tried = 0;
    for server in servers {
        let dir = tempfile::tempdir().unwrap();
        let mut arguments = vec![
            "run",
            "-d",
            "300ms",
            "--warmup",
            "0s",
            "-c",
            "1",
            "-i",
            "1",
            "--retries",
            "0",
            "--no-check",
        ];
        arguments.extend(server);
        let mut run = command(dir.path(), &arguments)
            .env("WEBSTONE_PASSWORD", SECRET)
            .stdout(std::process::Stdio::null())
            .stderr(fs::File::create(dir.path().join("err")).unwrap())
            .spawn()
            .unwrap();
        let mut seen = BTreeSet::new();
        let until = Instant::now() + Duration::from_secs(60);
        let status = loop {
            for pid in below(run.id()) {
                let line = || {
                    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                    String::from_utf8_lossy(&line).replace('\0', " ")
                };
                let before = line();
                let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
                let line = line();
                // Between fork and exec it is still a copy of its parent, and during exec it has no arguments.
                if line != before || line.is_empty() || line.contains(" run ") {
                    continue;
                }
                let environment = String::from_utf8_lossy(&environment).into_owned();
                assert!(!environment.contains(SECRET), "{server:?}: {line}: {environment}");
                assert!(!line.contains(SECRET), "{line}");
                seen.insert(line);
            }
            if let Some(status) = run.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "{server:?}: {seen:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let err = fs::read_to_string(dir.path().join("err")).unwrap();
        if err.contains("is not installed") || err.contains("there is no program") {
            println!("skipped: {server:?} is not installed");
            continue;
        }
        assert!([Some(0), Some(4)].contains(&status.code()), "{server:?}: {err}");
        assert!(!seen.is_empty(), "{server:?}");
        assert_eq!(holding(&only_entry(&dir.path().join("runs")), SECRET), [""; 0]);
        tried += 1;
    }
    assert!(tried > 0);
}

#[test]
fn a_password_in_a_query_is_looked_for_in_a_started_servers_log() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut run =
        command(dir.path(), &["run", "--server", "nginx", "-c", "1", "-d", "1s", "--no-store", "-q"])
            .env("TMPDIR", &temporary)
            .spawn()
            .unwrap();
    let logs = || {
        let servers = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path().join("own"));
        servers.filter(|own| own.join("access.log").exists()).collect::<Vec<_>>()
    };
    let mut mode = None;
    while mode.is_none() && run.try_wait().unwrap().is_none() {
        mode = logs().first().and_then(|own| Some(fs::metadata(own).ok()?.permissions().mode() & 0o777));
    }
    let _ = run.kill();
    run.wait().unwrap();
    match mode {
        Some(mode) => assert_eq!(mode & 0o007, 0, "{mode:o}"),
        None => println!("skipped: nginx is not installed"),
    }
}
