//! FIFOs, devices and links in place of files of a record, workloads, feeds and testbeds.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::webstone_in;
use crate::records::{confined, copy, run, text};

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn link(to: &str, path: &Path) {
    std::os::unix::fs::symlink(to, path).unwrap();
}

#[test]
fn a_record_of_fifos_devices_and_links() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let secret = dir.path().join("secret");
    fs::write(&secret, "root:$6$salt$hash:0:0\n").unwrap();
    let names: Vec<String> = fs::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .chain(["MANIFEST.sha256.sig".to_owned(), "certificate.json".to_owned()])
        .collect();
    type Odd = fn(&Path, &str);
    let odd: [(&str, Odd); 3] = [
        ("fifo", |path, _| fifo(path)),
        ("endless device", |path, _| link("/dev/zero", path)),
        ("link to a secret", |path, secret| link(secret, path)),
    ];
    for name in &names {
        for (kind, make) in &odd {
            let bad = dir.path().join("bad");
            copy(&run, &bad);
            let _ = fs::remove_file(bad.join(name));
            make(&bad.join(name), text(&secret));
            let said = confined(dir.path(), &["verify", "bad"]);
            assert!(said.code == 6 || said.code == 1, "{kind} as {name}: {said:?}");
            assert!(!said.out.contains("\nVERIFIED") && !said.out.starts_with("VERIFIED"), "{said:?}");
            for arguments in [&["report", "bad"][..], &["compare", "bad", text(&run)]] {
                let said = confined(dir.path(), arguments);
                assert!((0..=6).contains(&said.code), "{kind} as {name}, {arguments:?}: {said:?}");
            }
            let said = confined(dir.path(), &["archive", "bad", "-o", "bad.zip"]);
            assert_eq!(said.code, 1, "{kind} as {name}: {said:?}");
            assert!(
                said.err.contains("only plain files are read") || said.err.contains("not a record"),
                "{said:?}"
            );
            assert!(!dir.path().join("bad.zip").exists());
            fs::remove_dir_all(&bad).unwrap();
        }
    }
}

#[test]
fn a_certificate_that_is_written_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let victim = dir.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    for name in ["certificate.json.tmp", "MANIFEST.sha256.tmp", "certificate.json", "MANIFEST.sha256.sig.tmp"]
    {
        link(text(&victim), &run.join(name));
    }
    let said = webstone_in(dir.path(), &["certify", text(&run), "--uncertified"]);
    assert!((0..=6).contains(&said.code), "{said:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
}

#[test]
fn workloads_feeds_testbeds_and_bodies_that_are_fifos_or_devices() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fifo(&at("fifo"));
    link("/dev/zero", &at("zero"));
    for odd in ["fifo", "zero", "/dev/zero"] {
        let feed = format!("[feeds.user]\nfile = \"{odd}\"\n[[pages]]\nurl = \"/\"\n");
        fs::write(at("feed.toml"), feed).unwrap();
        let body = format!("@{odd}");
        for arguments in [
            &["run", "http://127.0.0.1:9", "-w", odd][..],
            &["run", "http://127.0.0.1:9", "-w", "feed.toml", "--allow-feeds"],
            &["run", "-f", odd],
            &["hit", "http://127.0.0.1:9/", "--method", "POST", "--body", &body],
            &["checkfiles", "http://127.0.0.1:9", "-w", odd],
            &["genfiles", "files", "-w", odd],
            &["series", "-f", odd],
        ] {
            let said = confined(dir.path(), arguments);
            assert!((1..=5).contains(&said.code), "{arguments:?}: {said:?}");
            if arguments[0] != "series" {
                assert!(said.err.contains("only plain files are read"), "{arguments:?}: {said:?}");
            }
        }
    }
}

#[test]
fn numbers_that_plan_more_than_memory_holds() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [
        &["-i", "4294967295"][..],
        &["-i", "10000", "-c", "1..10000"],
        &["-c", "1..4294967295"],
        &["-R", "1..4294967295"],
    ] {
        let said = confined(dir.path(), &[&["run", "http://127.0.0.1:9"], arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {said:?}");
        assert!(said.err.contains("hint: "), "{said:?}");
    }
}

#[test]
fn a_long_body_is_sent_whole_and_kept_by_its_check_sum() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("body"), vec![b'a'; 16_000_000]).unwrap();
    let server = crate::program::Server::start(dir.path(), &["--threads", "1"]);
    let said = webstone_in(
        dir.path(),
        &[
            "run",
            &server.url,
            "-w",
            "standard",
            "--method",
            "POST",
            "--body",
            "@body",
            "-c",
            "1",
            "-n",
            "3",
            "-d",
            "0s",
            "--warmup",
            "0s",
            "-q",
            "--no-check",
        ],
    );
    assert!((0..=5).contains(&said.code), "{said:?}");
    let run = crate::program::only_entry(&dir.path().join("runs"));
    let record = fs::read_to_string(run.join("record.json")).unwrap();
    assert!(record.len() < 1 << 20, "{} bytes", record.len());
    assert!(record.contains("[body of 16000000 bytes, SHA-256 "));
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let sent = record["iterations"][0]["measured"]["lifetime"]["sent_bytes"].as_u64().unwrap();
    assert!(sent > 16_000_000, "{sent}");
}

#[test]
fn a_file_of_a_record_that_claims_terabytes() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    for (name, what) in [
        ("report.html", "it has 1099511627776 bytes; at most 268435456 are read"),
        ("intervals.ndjson", "it has a hole at byte"),
        ("page-rows.csv.gz", "it has a hole at byte"),
    ] {
        let path = run.join(name);
        let whole = fs::read(&path).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let record = text(&run);
        let commands: [(&[&str], i32); 4] = [
            (&["verify", record], 6),
            (&["archive", record, "-o", "a.tar.gz"], 1),
            (&["archive", record, "-o", "a.zip"], 1),
            (&["certify", record, "--uncertified"], 6),
        ];
        for (arguments, code) in commands {
            let said = confined(dir.path(), arguments);
            assert_eq!(said.code, code, "{name}, {arguments:?}: {said:?}");
            // A certificate does not say what is damaged.
            assert!(
                arguments[0] == "certify" || (said.out + &said.err).contains(what),
                "{name}, {arguments:?}"
            );
        }
        fs::write(&path, whole).unwrap();
    }
    let said = confined(dir.path(), &["verify", text(&run)]);
    assert_eq!(said.code, 0, "{said:?}");
}
