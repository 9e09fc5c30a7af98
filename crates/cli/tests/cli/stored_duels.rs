//! What can be done with a stored duel: shown again, listed, checked, packed, signed; and where a run is needed, it is refused by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::program::{Said, webstone_in};

/// A measured duel of the reference server against itself, short: nothing is concluded from it.
fn duel(dir: &Path) -> PathBuf {
    let said = webstone_in(
        dir,
        &[
            "duel",
            "old=reference",
            "new=reference",
            "-c",
            "4",
            "--starts",
            "1",
            "--restart-every",
            "500ms",
            "--at-most",
            "2s",
            "--no-twin",
            "-w",
            "workout-0k",
        ],
    );
    assert!(said.err.contains("stored: "), "{said:?}");
    let mut entries = fs::read_dir(dir.join("runs")).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.join("duel.json").is_file()).unwrap()
}

fn name(duel: &Path) -> &str {
    duel.file_name().unwrap().to_str().unwrap()
}

/// Writes the check sums again, as somebody would who knows the format.
fn mend_manifest(directory: &Path) {
    let path = directory.join("MANIFEST.sha256");
    let mended: String = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| {
            let name = line.split_once("  ").unwrap().1;
            format!("{:x}  {name}\n", Sha256::digest(fs::read(directory.join(name)).unwrap()))
        })
        .collect();
    fs::write(path, mended).unwrap();
}

fn verify(dir: &Path, duel: &Path) -> Said {
    webstone_in(dir, &["verify", duel.to_str().unwrap()])
}

#[test]
fn a_stored_duel_is_shown_again_listed_and_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = duel(dir.path());
    let say = |arguments: &[&str]| webstone_in(dir.path(), arguments);
    let text = say(&["report", "last"]);
    assert!(text.code == 0 && text.out.contains("Duel: new against old"), "{text:?}");
    for named in [name(&path), path.to_str().unwrap(), path.join("duel.json").to_str().unwrap()] {
        assert_eq!(say(&["report", named]).out, text.out, "{named}");
    }
    let page = say(&["report", "last", "--format", "html"]);
    assert_eq!(page.out, fs::read_to_string(path.join("report.html")).unwrap());
    let json: Value = serde_json::from_str(&say(&["report", "last", "-o", "d.json"]).out).unwrap_or_default();
    assert_eq!(json, Value::Null, "it is in the file");
    let json: Value = serde_json::from_slice(&fs::read(dir.path().join("d.json")).unwrap()).unwrap();
    assert_eq!(json["duel"]["contestants"][1]["name"], "new");
    assert!(say(&["report", "last", "--format", "markdown"]).out.contains("Duel: new against old"));
    assert!(say(&["report", "last", "--format", "junit"]).out.starts_with("<?xml"));
    for (format, name) in [("csv", "csv"), ("xlsx", "xlsx"), ("prometheus", "prometheus")] {
        let refused = say(&["report", "last", "--format", format]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        let expected = format!(
            "error: a duel cannot be written as {name}\nhint: write one of text, html, markdown, json, junit\n"
        );
        assert_eq!(refused.err, expected);
    }
    let refused = say(&["report", "last", "--threshold", "rate > 1"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--threshold: a duel has no levels") && refused.err.contains("--fail-if"));

    let list = say(&["list", "duel"]);
    assert!(list.out.contains(name(&path)) && list.out.contains("new against old"), "{list:?}");
    assert_eq!(say(&["list", "kind:run"]).out, "");
    assert_eq!(say(&["note", "last", "--tag", "baseline"]).code, 0);
    assert!(say(&["list", "tag:baseline"]).out.contains(name(&path)));
}

#[test]
fn where_a_run_is_needed_a_duel_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = duel(dir.path());
    for arguments in [
        &["compare", "last", "last"][..],
        &["compare", "last", "x", "--noise-floor", "2%"],
        &["history", "last"],
        &["report", "last", "last"],
    ] {
        let refused = webstone_in(dir.path(), arguments);
        assert_eq!(
            (refused.code, refused.err),
            (
                2,
                format!(
                    "error: last ({}) is a duel, not a run\n\
                     hint: its contestants are compared with each other: `webstone report last` shows how\n",
                    name(&path)
                )
            ),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_duel_verifies_in_its_directory_packed_and_signed_and_not_if_a_byte_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = duel(dir.path());
    let say = |arguments: &[&str]| webstone_in(dir.path(), arguments);
    let good = verify(dir.path(), &path);
    assert_eq!(good.code, 0, "{good:?}");
    assert!(
        good.out.starts_with("VERIFIED  ") && good.out.contains("3 files have the check sums"),
        "{good:?}"
    );
    assert!(good.out.contains("numbers of the record agree with each other"), "{good:?}");
    assert!(!good.out.contains("certificate"), "{good:?}");

    for ending in ["tar.gz", "zip"] {
        let archive = format!("d.{ending}");
        assert_eq!(say(&["archive", "last", "-o", &archive]).code, 0);
        let said = say(&["verify", &archive]);
        assert_eq!((said.code, said.out), (0, good.out.clone()), "{}", said.err);
    }
    let refused = say(&["certify", "last"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("last is a duel, and run rules are for runs\nhint: --key KEY signs it"));

    // Damage, and then the same by somebody who writes the check sums again.
    let copy = dir.path().join("copy");
    let edited = |file: &str, edit: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let _ = fs::remove_dir_all(&copy);
        assert!(Command::new("cp").arg("-r").arg(&path).arg(&copy).status().unwrap().success());
        fs::write(copy.join(file), edit(fs::read(copy.join(file)).unwrap())).unwrap();
        let damaged = verify(dir.path(), &copy);
        assert!(
            damaged.code == 6 && damaged.out.contains(&format!("{file}: its check sum is ")),
            "{damaged:?}"
        );
        mend_manifest(&copy);
        let forged = verify(dir.path(), &copy);
        assert_eq!(forged.code, 6, "{forged:?}");
        forged.out
    };
    let said = edited("report.html", &|page| [page, b" ".to_vec()].concat());
    assert!(said.contains("report.html: is not the report that the record gives"), "{said}");
    let said = edited("duel.json", &|json| {
        let mut tree: Value = serde_json::from_slice(&json).unwrap();
        let succeeded = &mut tree["starts"][0]["sides"][1]["counts"]["succeeded"];
        *succeeded = (succeeded.as_u64().unwrap() + 1).into();
        serde_json::to_vec(&tree).unwrap()
    });
    assert!(said.contains("duel.json: start 1, new: requests: slices = total: "), "{said}");
    let said = edited("slices.csv.gz", &|_| Vec::new());
    assert!(said.contains("slices.csv.gz: cannot be read, so no figure was recomputed"), "{said}");
    fs::remove_file(copy.join("duel.json")).unwrap();
    let said = verify(dir.path(), &copy);
    assert!(said.code == 6 && said.out.contains("duel.json: is missing"), "{said:?}");

    let key = dir.path().join("key");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: ssh-keygen is not installed");
        return;
    }
    let signed = say(&["certify", "last", "--key", key.to_str().unwrap()]);
    assert!(signed.code == 0 && signed.err.starts_with("signed by SHA256:"), "{signed:?}");
    let public = fs::read_to_string(dir.path().join("key.pub")).unwrap();
    let checked = say(&["verify", "last", "--signer", public.trim()]);
    assert!(checked.code == 0 && checked.out.contains("  signed by "), "{checked:?}");
    mend_manifest(&path);
    fs::write(path.join("report.html"), "x").unwrap();
    mend_manifest(&path);
    let said = say(&["verify", "last"]);
    assert!(
        said.code == 6 && said.out.contains("MANIFEST.sha256.sig: the signature does not match"),
        "{said:?}"
    );
}

#[test]
fn a_duel_that_was_killed_is_shown_and_does_not_verify() {
    let dir = tempfile::tempdir().unwrap();
    let path = duel(dir.path());
    let mut tree: Value = serde_json::from_slice(&fs::read(path.join("duel.json")).unwrap()).unwrap();
    tree["state"] = "partial".into();
    fs::write(path.join("duel.json"), tree.to_string()).unwrap();
    for file in ["MANIFEST.sha256", "report.html"] {
        fs::remove_file(path.join(file)).unwrap();
    }
    fs::rename(&path, format!("{}.partial", path.display())).unwrap();
    for named in ["last", name(&path)] {
        let shown = webstone_in(dir.path(), &["report", named]);
        assert!(shown.code == 0 && shown.out.contains("Duel: new against old"), "{shown:?}");
        let said = webstone_in(dir.path(), &["verify", named]);
        assert_eq!(said.code, 6, "{said:?}");
        assert!(said.out.contains("MANIFEST.sha256: is not there yet: the duel did not end"), "{said:?}");
    }
    assert!(webstone_in(dir.path(), &["list"]).out.contains("new against old"));
}

#[test]
fn the_shell_completes_duel() {
    let script = webstone_in(Path::new("/"), &["completions", "bash"]).out;
    assert!(
        script.contains("webstone,duel)") && script.contains("--at-most") && script.contains("--fail-if")
    );
}
