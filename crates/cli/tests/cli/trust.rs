//! `certify`, `verify`, `archive`, and what a record must not contain: from a real run and a real key, checked with
//! OpenSSH's own ssh-keygen, to a flipped byte in every file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::program::{Said, Server, only_entry, webstone_in};

/// The files of a record without special options, beside `MANIFEST.sha256`.
pub(crate) const FILES: [&str; 8] = [
    "environment.json",
    "figures.json",
    "histograms.hlog",
    "intervals.ndjson",
    "page-rows.csv.gz",
    "pages.csv",
    "record.json",
    "report.html",
];

/// A stored run of two short levels.
fn run(dir: &Path) -> PathBuf {
    let said = webstone_in(dir, &["run", "-c", "1,3", "-d", "300ms", "--warmup", "50ms", "-q"]);
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    only_entry(&dir.join("runs"))
}

fn key(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    path
}

/// OpenSSH is on nearly every machine, and the format was chosen so that it can give a second opinion.
#[expect(clippy::print_stderr, reason = "a skipped test says why")]
fn has_ssh_keygen() -> bool {
    let there =
        Command::new("ssh-keygen").arg("-?").stderr(Stdio::null()).stdout(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: ssh-keygen is not installed");
    }
    there
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn verify(run: &Path, more: &[&str]) -> Said {
    webstone_in(run.parent().unwrap(), &[&["verify", text(run)], more].concat())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Rewrites the check sums, as a forger would do who knows the format.
pub(crate) fn mend_manifest(run: &Path) {
    let manifest = run.join("MANIFEST.sha256");
    let names = fs::read_to_string(&manifest).unwrap();
    let line = |line: &str| {
        let (_, name) = line.split_once("  ").unwrap();
        format!("{:x}  {name}\n", Sha256::digest(fs::read(run.join(name)).unwrap()))
    };
    fs::write(&manifest, names.lines().map(line).collect::<String>()).unwrap();
}

#[test]
fn a_run_that_breaks_a_rule_is_signed_only_as_uncertified() {
    if !has_ssh_keygen() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, key) = (run(dir.path()), key(dir.path(), "tester"));
    let refused = webstone_in(dir.path(), &["certify", text(&run), "--key", text(&key)]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.out.contains("not met     every timed run at least 10 minutes long"), "{}", refused.out);
    assert!(refused.out.contains("met         a standard workload, unchanged"), "{}", refused.out);
    assert!(!run.join("certificate.json").exists() && !run.join("MANIFEST.sha256.sig").exists());

    let signed = webstone_in(
        dir.path(),
        &["certify", text(&run), "--key", text(&key), "--uncertified", "--format", "json"],
    );
    assert_eq!(signed.code, 0, "{signed:?}");
    assert!(signed.err.starts_with("signed as uncertified by SHA256:"), "{}", signed.err);
    let certificate = fs::read_to_string(run.join("certificate.json")).unwrap();
    assert_eq!(signed.out, certificate);
    let certificate: serde_json::Value = serde_json::from_str(&certificate).unwrap();
    assert_eq!(certificate["certified"], false);
    assert_eq!(certificate["rules"].as_array().unwrap().len(), 20);

    // OpenSSH agrees, without webstone.
    let allowed = dir.path().join("allowed");
    let public = fs::read_to_string(dir.path().join("tester.pub")).unwrap();
    fs::write(&allowed, format!("tester@example.org namespaces=\"webstone\" {public}")).unwrap();
    let by_openssh = |run: &Path| {
        Command::new("ssh-keygen")
            .args(["-Y", "verify", "-n", "webstone", "-I", "tester@example.org", "-f", text(&allowed), "-s"])
            .arg(run.join("MANIFEST.sha256.sig"))
            .stdin(fs::File::open(run.join("MANIFEST.sha256")).unwrap())
            .output()
            .unwrap()
    };
    let good = by_openssh(&run);
    assert!(good.status.success(), "{good:?}");
    assert!(
        Command::new("sha256sum")
            .args(["-c", "--quiet", "MANIFEST.sha256"])
            .current_dir(&run)
            .status()
            .unwrap()
            .success()
    );

    let said = verify(&run, &["--allowed-signers", text(&allowed)]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert!(said.out.starts_with("VERIFIED  "), "{}", said.out);
    assert!(
        said.out.contains("9 files have the check sums")
            && said.out.contains("signed by tester@example.org, SHA256:"),
        "{}",
        said.out
    );
    let said = verify(&run, &["--signer", text(&dir.path().join("tester.pub"))]);
    assert_eq!(said.code, 0, "{said:?}");

    let other = self::key(dir.path(), "other").with_extension("pub");
    let said = verify(&run, &["--signer", text(&other)]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.out.contains("not by a signer that was asked for"), "{}", said.out);

    let again = webstone_in(dir.path(), &["certify", text(&run), "--uncertified"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(
        again.err.contains("is signed already, by SHA256:") && again.err.contains("--force"),
        "{}",
        again.err
    );
}

#[test]
fn openssh_signs_what_webstone_verifies_and_pkcs8_signs_too() {
    if !has_ssh_keygen() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, key) = (run(dir.path()), key(dir.path(), "tester"));
    let signed = Command::new("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", "webstone", "-f", text(&key)])
        .arg(run.join("MANIFEST.sha256"))
        .stderr(Stdio::null())
        .status();
    assert!(signed.unwrap().success());
    let said = verify(&run, &["--signer", text(&key.with_extension("pub"))]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("no certificate"), "{}", said.out);

    // The private key of RFC 8410, section 10.3, and the public key for it given there.
    let pkcs8 = dir.path().join("key.pem");
    fs::write(
        &pkcs8,
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    let arguments = ["certify", text(&run), "--key", text(&pkcs8), "--uncertified", "--force", "-q"];
    assert_eq!(webstone_in(dir.path(), &arguments).code, 0);
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBm/RAlphM3+hUG6wWfcO5bIUIaqMLa2ywxcOK1wMWbh";
    let said = verify(&run, &["--signer", public]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(verify(&run, &["--signer", text(&key.with_extension("pub"))]).code, 6);
}

/// Rules change. What another build judged must neither make an intact, signed record look forged, nor be presented
/// as this build's judgement.
#[test]
fn a_certificate_of_another_version_verifies_with_its_differences_noted() {
    if !has_ssh_keygen() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, key) = (run(dir.path()), key(dir.path(), "tester"));
    let said = webstone_in(dir.path(), &["certify", text(&run), "--key", text(&key), "--uncertified", "-q"]);
    assert_eq!(said.code, 0, "{said:?}");
    let path = run.join("certificate.json");
    let own = fs::read_to_string(&path).unwrap();
    let sign = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut certificate: serde_json::Value = serde_json::from_str(&own).unwrap();
        change(&mut certificate);
        fs::write(&path, serde_json::to_vec_pretty(&certificate).unwrap()).unwrap();
        mend_manifest(&run);
        let signature = run.join("MANIFEST.sha256.sig");
        fs::remove_file(&signature).ok();
        let signed = Command::new("ssh-keygen")
            .args(["-Y", "sign", "-n", "webstone", "-f", text(&key), text(&run.join("MANIFEST.sha256"))])
            .output()
            .unwrap();
        assert!(signed.status.success() && signature.exists(), "{signed:?}");
    };
    let certified = |certificate: &mut serde_json::Value| {
        certificate["certified"] = true.into();
        certificate["rules"].as_array_mut().unwrap().pop();
    };

    sign(&|certificate| {
        certified(certificate);
        certificate["tool"]["version"] = "0.0.9".into();
    });
    let said = verify(&run, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("certificate.json was made by webstone 0.0.9"), "{}", said.out);
    assert!(
        said.out.contains("certified: the certificate says `true`, the record gives `false`"),
        "{}",
        said.out
    );
    assert!(!said.out.contains("certified: every run rule is met"), "{}", said.out);

    // The same without a signature, and the same by this build, are forgeries.
    fs::remove_file(run.join("MANIFEST.sha256.sig")).unwrap();
    assert_eq!(verify(&run, &[]).code, 6);
    sign(&certified);
    assert_eq!(verify(&run, &[]).code, 6);

    // A certificate belongs to its own record only.
    sign(&|certificate| {
        certificate["run"] = "another".into();
        certificate["tool"]["version"] = "0.0.9".into();
    });
    assert_eq!(verify(&run, &[]).code, 6);
}

#[test]
fn one_flipped_byte_anywhere_is_found_and_named() {
    if !has_ssh_keygen() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (run, key) = (run(dir.path()), key(dir.path(), "tester"));
    let said = webstone_in(dir.path(), &["certify", text(&run), "--key", text(&key), "--uncertified", "-q"]);
    assert_eq!(said.code, 0, "{said:?}");
    for name in FILES.iter().chain(&["certificate.json", "MANIFEST.sha256", "MANIFEST.sha256.sig"]) {
        let path = run.join(name);
        let whole = fs::read(&path).unwrap();
        let last = whole.len() - 1;
        let places = [0, 1, last / 3, last / 2, last * 3 / 4, last - 1, last];
        for (at, bit) in places.into_iter().zip([0x01, 0x20].into_iter().cycle()) {
            let mut changed = whole.clone();
            changed[at] ^= bit;
            fs::write(&path, &changed).unwrap();
            let said = verify(&run, &[]);
            assert_eq!(said.code, 6, "byte {at} of {name}, bit {bit}: {said:?}");
            assert!(said.out.starts_with("NOT VERIFIED"), "{}", said.out);
            // A changed line of the manifest is reported by what then does not match.
            assert!(said.out.contains(&format!("\n  {name}: ")), "byte {at} of {name}: {}", said.out);
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(verify(&run, &[]).code, 0);
}

#[test]
fn files_that_are_missing_surplus_or_renamed_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    for name in FILES {
        let damaged = dir.path().join("damaged");
        copy(&run, &damaged);
        fs::rename(damaged.join(name), damaged.join("renamed")).unwrap();
        let said = verify(&damaged, &[]);
        assert_eq!(said.code, 6, "{name}: {said:?}");
        assert!(said.out.contains(&format!("{name}: is missing")), "{}", said.out);
        assert!(said.out.contains("renamed: is not listed in"), "{}", said.out);
        fs::remove_dir_all(&damaged).unwrap();
    }
    let damaged = dir.path().join("damaged");
    copy(&run, &damaged);
    std::os::unix::fs::symlink("/etc/passwd", damaged.join("link")).unwrap();
    fs::create_dir(damaged.join("more")).unwrap();
    let said = verify(&damaged, &[]);
    assert!(
        said.out.contains("link: is not a plain file") && said.out.contains("more: is not a plain file"),
        "{}",
        said.out
    );
    fs::remove_file(damaged.join("MANIFEST.sha256")).unwrap();
    let said = verify(&damaged, &[]);
    assert_eq!(said.code, 6);
    assert!(said.out.contains("MANIFEST.sha256: cannot be read: No such file or directory"), "{}", said.out);
}

#[test]
fn an_edited_figure_is_found_though_every_check_sum_was_fixed() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let edit = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let path = run.join(name);
        let whole = fs::read(&path).unwrap();
        let mut tree: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        change(&mut tree);
        fs::write(&path, serde_json::to_vec_pretty(&tree).unwrap()).unwrap();
        mend_manifest(&run);
        let said = verify(&run, &[]);
        fs::write(&path, &whole).unwrap();
        mend_manifest(&run);
        assert_eq!(said.code, 6, "{name}: {said:?}");
        said.out
    };
    let said = edit("figures.json", &|tree| tree["levels"][1]["figures"]["request_rate"] = 123_456.5.into());
    assert!(
        said.contains("figures.json: levels[1].figures.request_rate is 123456.5, and the record gives "),
        "{said}"
    );
    let said = edit("record.json", &|tree| {
        let counts = &mut tree["iterations"][0]["measured"]["counts"];
        for name in ["succeeded", "started", "planned"] {
            counts[name] = (counts[name].as_u64().unwrap() + 1).into();
        }
    });
    assert!(said.contains("1 client, iteration 1: response times: one per success"), "{said}");
    let said = edit("record.json", &|tree| tree["iterations"][0]["measured"]["response"]["sum"] = 1.into());
    assert!(said.contains("their sum is one that their distribution allows"), "{said}");
    let said = edit("environment.json", &|tree| tree["hostname"] = "other".into());
    assert!(said.contains("environment.json: is not the environment that record.json holds"), "{said}");
    // Some programs take the first of two values, and this one the last.
    for (name, table, forged) in [
        ("environment.json", "", r#""hostname": "other","#),
        ("figures.json", "", r#""peak": 1,"#),
        ("record.json", "\"environment\"", r#""hostname": "other","#),
    ] {
        let path = run.join(name);
        let whole = fs::read_to_string(&path).unwrap();
        let table = whole.find(table).unwrap();
        let inside = table + whole[table..].find('{').unwrap() + 1;
        fs::write(&path, [&whole[..inside], forged, &whole[inside..]].concat()).unwrap();
        mend_manifest(&run);
        let said = verify(&run, &[]).out;
        fs::write(&path, &whole).unwrap();
        mend_manifest(&run);
        assert!(said.contains(&format!("{name}: two entries are named ")), "{said}");
    }
    assert_eq!(verify(&run, &[]).code, 0);
}

#[test]
fn archives_are_the_same_bytes_and_verify_like_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    for name in ["a.tar.gz", "a.zip"] {
        let first = webstone_in(dir.path(), &["archive", text(&run), "-o", name]);
        assert_eq!((first.code, first.err.as_str()), (0, format!("archive: {name}\n").as_str()));
        let second = format!("again-{name}");
        assert_eq!(webstone_in(dir.path(), &["archive", text(&run), "-o", &second, "-q"]).code, 0);
        assert_eq!(
            fs::read(dir.path().join(name)).unwrap(),
            fs::read(dir.path().join(&second)).unwrap(),
            "{name}"
        );
        let said = webstone_in(dir.path(), &["verify", name]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains("8 files have the check sums"), "{}", said.out);
        let twice = webstone_in(dir.path(), &["archive", text(&run), "-o", name]);
        assert_eq!(twice.code, 1, "{twice:?}");
        let mut longer = fs::read(dir.path().join(&second)).unwrap();
        longer.push(0);
        fs::write(dir.path().join(&second), longer).unwrap();
        let said = webstone_in(dir.path(), &["verify", &second]);
        assert_eq!(said.code, 6, "{said:?}");
        assert!(said.out.contains("data was appended after its end"), "{}", said.out);
    }
    let listed = Command::new("tar").args(["tzf", "a.tar.gz"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), 9);
    let wrong = webstone_in(dir.path(), &["archive", text(&run), "-o", "a.rar"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (2, "error: the archive a.rar: its name has no known ending\nhint: end it in .tar.gz or .zip\n")
    );
}

/// Path, type and size of an entry in an archive.
type Entry = (&'static str, tar::EntryType, u64);

fn tar_gz(path: &Path, entries: &[Entry]) {
    let out = flate2::write::GzEncoder::new(fs::File::create(path).unwrap(), flate2::Compression::best());
    let mut tar = tar::Builder::new(out);
    for (name, kind, size) in entries {
        let mut header = tar::Header::new_gnu();
        // Written by hand: the library refuses to write such paths.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(*size);
        header.set_entry_type(*kind);
        header.set_cksum();
        tar.append(&header, std::io::Read::take(std::io::repeat(0), *size)).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap();
}

#[test]
fn hostile_archives_are_refused_and_leave_no_files() {
    use tar::EntryType::{Regular, Symlink};
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&str, &[Entry], &str); 7] = [
        ("up", &[("../evil", Regular, 1)], "is not that of a file"),
        ("absolute", &[("/tmp/evil", Regular, 1)], "is not that of a file"),
        ("deep", &[("a/b/c", Regular, 1)], "is not that of a file"),
        ("link", &[("a/record.json", Symlink, 0)], "is a link or a device"),
        ("twice", &[("a/x", Regular, 1), ("a/x", Regular, 1)], "is in it twice"),
        (
            "mixed",
            &[("a/x", Regular, 1), ("b/y", Regular, 1)],
            "is not in the same directory as the other files",
        ),
        ("bomb", &[("a/page-rows.csv.gz", Regular, 200 << 20)], "no record has"),
    ];
    for (name, entries, expected) in cases {
        let path = dir.path().join(format!("{name}.tar.gz"));
        tar_gz(&path, entries);
        let said = webstone_in(dir.path(), &["verify", text(&path)]);
        assert_eq!(said.code, 6, "{name}: {said:?}");
        assert!(said.out.contains(expected), "{name}: {}", said.out);
    }
    assert!(!dir.path().parent().unwrap().join("evil").exists());

    let path = dir.path().join("up.zip");
    let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    zip.start_file("../evil", zip::write::SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap();
    let said = webstone_in(dir.path(), &["verify", text(&path)]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.out.contains("is not that of a file"), "{}", said.out);

    fs::write(dir.path().join("text"), "no archive").unwrap();
    let said = webstone_in(dir.path(), &["verify", "text"]);
    assert!(said.out.contains("neither a directory nor an archive"), "{said:?}");
    fs::write(dir.path().join("cut.tar.gz"), &fs::read(dir.path().join("bomb.tar.gz")).unwrap()[..200])
        .unwrap();
    assert_eq!(webstone_in(dir.path(), &["verify", "cut.tar.gz"]).code, 6);
}

#[test]
fn an_unfinished_record_is_reported_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let missing = webstone_in(dir.path(), &["verify", "nothing"]);
    assert_eq!(
        (missing.code, missing.err.lines().next()),
        (1, Some("error: cannot read nothing: No such file or directory"))
    );
    fs::create_dir(dir.path().join("foreign")).unwrap();
    let foreign = webstone_in(dir.path(), &["verify", "foreign"]);
    assert_eq!(foreign.code, 1);
    assert!(foreign.err.contains("foreign is not a record"), "{}", foreign.err);

    let newer =
        fs::read_to_string(run.join("record.json")).unwrap().replacen("\"schema\": 1", "\"schema\": 99", 1);
    fs::write(run.join("record.json"), newer).unwrap();
    let said = verify(&run, &[]);
    assert_eq!(said.code, 6);
    assert!(
        said.out.contains("schema 99") && said.out.contains("read it with the version that wrote it"),
        "{}",
        said.out
    );
}

#[test]
fn keys_that_cannot_sign_are_reported_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    for (content, expected) in [
        (
            "ssh-ed25519 AAAA tester",
            "it is a public key\nhint: name the private key: the file without .pub\n",
        ),
        (
            "hello",
            "it is neither an OpenSSH private key nor PKCS#8\nhint: `ssh-keygen -t ed25519 -f webstone-key` makes one\n",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\n",
            "it is not an ed25519 key\nhint: `ssh-keygen -t ed25519 -f webstone-key` makes one\n",
        ),
    ] {
        fs::write(dir.path().join("key"), content).unwrap();
        let said = webstone_in(dir.path(), &["certify", text(&run), "--key", "key"]);
        assert_eq!((said.code, said.err), (2, format!("error: --key key: {expected}")));
    }
    if has_ssh_keygen() {
        let path = dir.path().join("locked");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "secret", "-f"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        let said = webstone_in(dir.path(), &["certify", text(&run), "--key", "locked"]);
        assert_eq!(said.code, 2);
        assert!(
            said.err.contains("it has a passphrase, and there is no terminal to ask for it"),
            "{}",
            said.err
        );
    }
}

#[test]
fn no_secret_reaches_the_record_and_the_server_still_gets_it() {
    const SECRET: &str = "Basic c2VjcmV0OmggdW50ZXIy";
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let config = dir.path().join("nginx.conf");
    fs::write(&config, format!("worker_processes 2;\nproxy_set_header Authorization \"{SECRET}\";\n"))
        .unwrap();
    let header = format!("Authorization: {SECRET}");
    let said = webstone_in(
        dir.path(),
        &[
            "run",
            &server.url,
            "-c",
            "1",
            "-n",
            "20",
            "-d",
            "0s",
            "--warmup",
            "0s",
            "-H",
            &header,
            "--server-config",
            text(&config),
            "--trace",
            "1",
        ],
    );
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    let run = only_entry(&dir.path().join("runs"));
    for name in FILES {
        let content = fs::read(run.join(name)).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains("c2VjcmV0"), "{name}");
    }
    let record = fs::read_to_string(run.join("record.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["spec"]["client"]["headers"]["Authorization"], "[redacted]");
    assert!(record["command_line"].as_array().unwrap().contains(&"Authorization: [redacted]".into()));
    let kept = &record["environment"]["server.configuration"][0];
    assert_eq!(kept["text"], "worker_processes 2;\nproxy_set_header Authorization \"[redacted]\";\n");
    assert_eq!(record["environment"]["sources"]["kernel.release"], "/proc/sys/kernel/osrelease");
    assert_eq!(verify(&run, &[]).code, 0);

    let missing = webstone_in(dir.path(), &["run", &server.url, "--server-config", "/nonexistent"]);
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (
            2,
            "error: --server-config /nonexistent: cannot read it: No such file or directory\nhint: name a file or a directory that you may read, or remove --server-config\n"
        )
    );
}
