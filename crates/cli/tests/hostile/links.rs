//! Links with which a server's user tries to make root write or read something else. Skipped unless run by root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{command, only_entry, webstone_in};

const USER: u32 = 33;
const KEPT: &str = "root:hunter2:0\n";

/// A directory that everybody may read, and a file in it that only root may read.
fn prepared() -> Option<(tempfile::TempDir, PathBuf)> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    if fs::metadata("/proc/self").unwrap().uid() != 0 || !passwd.contains("\nwww-data:x:33:") {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, KEPT).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    Some((dir, secret))
}

fn untouched(secret: &Path) {
    let found = fs::metadata(secret).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777, found.nlink()), (0, 0o600, 1));
    assert_eq!(fs::read_to_string(secret).unwrap(), KEPT);
}

#[test]
fn the_servers_user_puts_links_where_root_writes() {
    let Some((dir, secret)) = prepared() else {
        println!("skipped: root and a user www-data are needed");
        return;
    };
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    // Like /tmp.
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).unwrap();
    let script = dir.path().join("attack.sh");
    fs::write(
        &script,
        "while :; do for d in $1/webstone-server-*; do for n in nginx.conf haproxy.cfg mime.types error.log access.log files \
         own own/error.log own/access.log own/nginx.pid; do ln -sn $2 $d/$n; done; done; done 2>/dev/null",
    )
    .unwrap();
    let mut attacker = Command::new("sh")
        .arg(&script)
        .args([&temporary, &secret])
        .uid(USER)
        .gid(USER)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for server in ["nginx", "haproxy", "lighttpd", "apache", "nginx"] {
        let arguments = ["run", "--server", server, "-c", "1", "-d", "200ms", "-i", "1"];
        let said = command(dir.path(), &arguments).env("TMPDIR", &temporary).output().unwrap();
        // It may prevent its own server from starting, but no more.
        let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        assert!(!text.contains("hunter2"), "{server}: {text}");
        untouched(&secret);
    }
    attacker.kill().unwrap();
    attacker.wait().unwrap();
}

#[test]
fn the_servers_user_replaces_the_log_that_root_quotes() {
    let Some((dir, secret)) = prepared() else {
        println!("skipped: root and a user www-data are needed");
        return;
    };
    let script = dir.path().join("server.sh");
    for (attack, expected) in [
        (format!("ln -s {} $1/error.log", secret.display()), "exit status 3"),
        ("mkfifo $1/error.log".to_owned(), "exit status 3"),
        ("ln -s /dev/zero $1/error.log".to_owned(), "exit status 3"),
        ("echo broken > $1/error.log".to_owned(), "broken"),
        ("touch $1/../x || echo held >&2".to_owned(), "held"),
    ] {
        fs::write(&script, format!("cd /; {attack}; exit 3 # $2\n")).unwrap();
        let line = format!("sh {} {{directory}} {{port}}", script.display());
        let said = webstone_in(
            dir.path(),
            &["run", "--server", "command", "--server-command", &line, "-c", "1", "-d", "200ms"],
        );
        assert_eq!(said.code, 1, "{attack}: {}", said.err);
        assert!(said.err.contains(expected) && !said.err.contains("hunter2"), "{attack}: {}", said.err);
        untouched(&secret);
    }
}

#[test]
fn the_log_that_a_run_names_is_a_link() {
    let Some((dir, secret)) = prepared() else {
        println!("skipped: root and a user www-data are needed");
        return;
    };
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).unwrap();
    std::os::unix::fs::symlink(&secret, logs.join("link.log")).unwrap();
    std::os::unix::fs::symlink("/dev/null", logs.join("device.log")).unwrap();
    for name in ["link.log", "device.log"] {
        let log = logs.join(name);
        let arguments =
            ["run", "--server", "nginx", "--server-log", log.to_str().unwrap(), "-c", "1", "-d", "200ms"];
        let said = webstone_in(dir.path(), &arguments);
        if said.err.contains("is not installed") {
            println!("skipped: nginx is not installed");
            return;
        }
        assert!(said.err.contains("cannot write"), "{name}: {}", said.err);
        untouched(&secret);
        assert_eq!(fs::metadata("/dev/null").unwrap().uid(), 0);
    }
}

#[test]
fn a_series_has_more_rounds_than_can_be() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("series")).unwrap();
    for rounds in [0, 10_001, u32::MAX] {
        let cells: Vec<_> = ["one", "other"]
            .map(|name| {
                let at = serde_json::json!({ "server": "reference", "interface": null, "connections": "keep-alive", "cpus": null });
                serde_json::json!({ "name": name, "at": at, "spec": {} })
            })
            .into();
        let series = serde_json::json!({
            "schema": 1, "id": "series", "kind": "servers", "tool": { "name": "webstone", "version": "0", "commit": "" }, "started_at": "",
            "command_line": [], "rounds": rounds, "warnings": [], "cells": cells,
        });
        fs::write(dir.path().join("series/series.json"), series.to_string()).unwrap();
        for arguments in [&["servers", "--resume", "series"][..], &["report", "series"]] {
            let said = webstone_in(dir.path(), arguments);
            assert_eq!(said.code, 1, "{rounds}: {}", said.err);
            assert!(said.err.contains("is not from 1 to 10,000"), "{rounds}: {}", said.err);
        }
    }
}

#[test]
fn a_cell_of_a_series_is_a_link_to_another_record() {
    let dir = tempfile::tempdir().unwrap();
    let cells =
        ["servers", "reference", "-w", "workout-0k", "-c", "1", "-d", "100ms", "--warmup", "0s", "-q"];
    let said = webstone_in(dir.path(), &[&cells[..], &["-i", "1"]].concat());
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    let series = only_entry(&dir.path().join("runs"));
    let cell = fs::read_dir(&series).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let (cell, elsewhere) = (cell.unwrap(), dir.path().join("elsewhere"));
    fs::rename(&cell, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &cell).unwrap();
    for arguments in
        [["report", series.to_str().unwrap()].as_slice(), &["servers", "--resume", series.to_str().unwrap()]]
    {
        let said = webstone_in(dir.path(), arguments);
        assert_eq!(said.code, 1, "{arguments:?}: {said:?}");
        assert!(said.err.contains("it is a symbolic link"), "{}", said.err);
    }
}
