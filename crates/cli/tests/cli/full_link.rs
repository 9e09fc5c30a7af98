//! The network as the bottleneck: a link of 100 Mbit/s, made from a pair of interfaces with a queueing discipline.

use std::fs;
use std::process::Command;

use webstone_judge::verdict::{self, LimitingResource};
use webstone_model::record::RunRecord;

use crate::namespace::Namespace;
use crate::program::program;
use crate::refuted::refuted;

const MBIT_PER_SECOND: u32 = 100;

#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn skipped(why: &str) {
    println!("skipped: {why}");
}

/// How often a level in which a busy machine kept the generator from filling the link is run again.
const ATTEMPTS: u32 = 5;

#[test]
fn a_full_link_is_the_bottleneck_by_its_name() {
    let Some(namespace) = Namespace::make() else { return };
    if !namespace.limit(MBIT_PER_SECOND) {
        return skipped("this user may not shape traffic (`tc qdisc add … tbf`)");
    }
    for attempt in 1..=ATTEMPTS {
        let Some(record) = filled(&namespace) else {
            return skipped("this user may not mount a file over another (`unshare --mount`)");
        };
        let levels = record.levels();
        let [level] = &verdict::of_record(&record).level_limits[..] else { panic!("one level") };
        assert_eq!(refuted(&record, &levels[0].1, &level.limit), None);
        let sentence = &level.limit.sentence;
        if level.limit.resource != LimitingResource::Network && attempt < ATTEMPTS {
            continue;
        }
        assert!(sentence.starts_with("The network is the bottleneck at 8 clients: "), "{sentence}");
        assert!(sentence.contains(&format!("{} received ", namespace.here)), "{sentence}");
        assert!(sentence.contains("of the link's 100"), "{sentence}");
        return;
    }
}

/// A run of which the namespace's link, whose speed it is told, carries the responses. None where files cannot be mounted over others.
fn filled(namespace: &Namespace) -> Option<RunRecord> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("speed"), format!("{MBIT_PER_SECOND}\n")).unwrap();
    fs::create_dir(dir.path().join("device")).unwrap();
    fs::create_dir(dir.path().join("statistics")).unwrap();
    // A pair of virtual interfaces reports no speed of its own. For this program alone it is replaced by the real
    // rate.
    let script = r#"net=/sys/class/net/$2
        mount --bind "$net/statistics" "$1/statistics" && mount --rbind "$1" "$net" || exit 77
        shift 2; exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(dir.path()).args([&namespace.here, &program()]);
    command.args(["run", &format!("http://{}:8080", namespace.address), "-K"]);
    command.args([
        "-c",
        "8",
        "-d",
        "3s",
        "-i",
        "1",
        "--warmup",
        "1s",
        "-q",
        "--no-store",
        "--format",
        "json",
    ]);
    let mut server = namespace.serve(&["--threads", "1"]);
    let output = command.output().unwrap();
    drop(server.stdin.take());
    server.wait().unwrap();
    if output.status.code() == Some(77) {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}")))
}
