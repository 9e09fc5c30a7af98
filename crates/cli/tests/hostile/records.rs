//! Shared by the tests: a stored run, its copies, and the program with limited memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::program::{Said, command, only_entry, webstone_in};

/// Memory that the program may request from the kernel, in KiB; its code, its threads' stacks and its data need a
/// fraction of it.
pub(crate) const ADDRESS_SPACE_KIB: u64 = 1 << 20;

/// A stored run of two levels.
pub(crate) fn run(dir: &Path) -> PathBuf {
    // A connection per request, so that every time and count of connections is in it.
    let arguments = [
        "run",
        "-c",
        "1,3",
        "-d",
        "300ms",
        "-i",
        "2",
        "--warmup",
        "50ms",
        "-q",
        "--connections",
        "per-request",
    ];
    let said = webstone_in(dir, &arguments);
    assert!(said.code == 0 || said.code == 4, "{said:?}");
    only_entry(&dir.join("runs"))
}

/// A copy of a record.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Rewrites the check sums of the existing files, as a forger would do who knows the format.
pub(crate) fn mend_manifest(run: &Path) {
    let manifest = run.join("MANIFEST.sha256");
    let names = fs::read_to_string(&manifest).unwrap();
    let line = |line: &str| {
        let (_, name) = line.split_once("  ").unwrap();
        let content = fs::read(run.join(name)).ok()?;
        Some(format!("{:x}  {name}\n", Sha256::digest(content)))
    };
    fs::write(&manifest, names.lines().filter_map(line).collect::<String>()).unwrap();
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Calls the program with so little memory that unlimited use fails, and so little time that endless waiting fails.
pub(crate) fn confined(dir: &Path, arguments: &[&str]) -> Said {
    let plain = command(dir, arguments);
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", "120", "sh", "-c"]);
    limited.arg(format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\""));
    limited.arg(plain.get_program()).args(plain.get_args()).current_dir(dir);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let output = limited.stdin(std::process::Stdio::null()).output().unwrap();
    Said {
        code: output.status.code().expect("ended by itself"),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
