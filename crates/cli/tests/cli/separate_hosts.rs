//! Which run rules a run from separate hosts meets. The hosts are network namespaces with a boot identifier of their
//! own instead of this kernel's, because a test machine has only one. Only they can resolve the server's name, and
//! the controller has no route to it. The record must be complete, and be read as such elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::namespace::Switch;
use crate::program::{command, program, webstone_in};
use crate::trust::mend_manifest;

/// Runs the rest of its arguments with files from the directory in its first argument in place of the kernel's boot
/// identifier and of the table of hosts.
const WITH_BOOT: &str = r#"mount --bind "$1/boot" /proc/sys/kernel/random/boot_id && mount --bind "$1/hosts" /etc/hosts || exit 77
shift; exec "$@""#;
const NAME: &str = "web.webstone.test";

/// An agent in a namespace with its own boot identifier and directory, and the server's address in its table of
/// hosts.
fn on_its_own(hosts: &Switch, dir: &Path, namespace: &str, cpu: usize, arguments: &str) -> String {
    let place = dir.join(namespace);
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("boot"), format!("{namespace}\n")).unwrap();
    fs::write(place.join("hosts"), format!("127.0.0.1 localhost\n{} {NAME}\n", hosts.address)).unwrap();
    format!(
        "unshare --mount sh -c '{WITH_BOOT}' sh {} env XDG_DATA_HOME={} ip netns exec {namespace} taskset -c {cpu} {} {arguments}",
        place.display(),
        place.display(),
        program()
    )
}

fn may_mount(hosts: &Switch, dir: &Path) -> bool {
    let words = shlex::split(&on_its_own(hosts, dir, &hosts.server, 0, "--version")).unwrap();
    let output = std::process::Command::new(&words[0]).args(&words[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn separate_hosts_meet_the_rules_that_are_about_them() {
    let Some(hosts) = Switch::for_hosts(2) else { return };
    let dir = tempfile::tempdir().unwrap();
    if hosts.cpus < 2 || !may_mount(&hosts, dir.path()) {
        println!(
            "skipped: this user may not mount a file over another (`unshare --mount`), or there is one CPU"
        );
        return;
    }
    let mut server = hosts.serve(&["--threads", "1"]);
    let url = format!("http://{NAME}:8080");
    // Each is calibrated where it makes the load.
    let calibrating: Vec<_> = hosts
        .generators
        .iter()
        .enumerate()
        .map(|(cpu, (name, _))| {
            let words = on_its_own(&hosts, dir.path(), name, cpu, "calibrate -d 100ms -i 1");
            std::process::Command::new("sh").args(["-c", &words]).output()
        })
        .collect();
    for output in calibrating {
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let agent =
        |(cpu, (name, _)): (usize, &(String, String))| on_its_own(&hosts, dir.path(), name, cpu, "agent");
    let agents: Vec<String> = hosts.generators.iter().enumerate().map(agent).collect();
    let checked = ["generators", "check", "--generator", &agents[0]];
    let said = webstone_in(dir.path(), &checked);
    assert!(said.out.contains(", calibrated 20"), "{}{}", said.out, said.err);
    let of_server = on_its_own(&hosts, dir.path(), &hosts.server, 0, "agent");
    let mut arguments = vec!["run", &url, "--server-agent", &of_server];
    agents.iter().for_each(|agent| arguments.extend(["--generator", agent]));
    arguments.extend([
        "-c",
        "4",
        "-d",
        "1s",
        "-i",
        "3",
        "--warmup",
        "0s",
        "--connections",
        "per-request",
        "-q",
    ]);
    let said = webstone_in(dir.path(), &arguments);
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!([0, 4].contains(&said.code), "{}", said.err);

    let said = webstone_in(dir.path(), &["certify", "last", "--uncertified"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let run = fs::read_dir(dir.path().join("runs")).unwrap().flatten().map(|entry| entry.path());
    let run = run.filter(|path| path.is_dir()).find(|path| path.join("certificate.json").exists()).unwrap();
    // Received by the first generator, when it requested the files.
    let record: Value = serde_json::from_slice(&fs::read(run.join("record.json")).unwrap()).unwrap();
    assert!(record["target"]["server"].as_str().unwrap().starts_with("webstone/"), "{}", record["target"]);
    let certificate: Value =
        serde_json::from_slice(&fs::read(run.join("certificate.json")).unwrap()).unwrap();
    let rules: BTreeMap<&str, (&str, &str)> = certificate["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| ["id", "standing", "evidence"].map(|key| rule[key].as_str().unwrap()))
        .map(|[id, standing, evidence]| (id, (standing, evidence)))
        .collect();
    let evidence = |id: &str| {
        let (standing, evidence) = rules[id];
        assert_eq!(standing, "met", "{id}: {evidence}");
        evidence
    };
    assert!(evidence("load-generators").starts_with("2 hosts, 2 workers, "), "{rules:?}");
    assert_eq!(
        evidence("separate-hosts"),
        "the server's agent runs on another machine than every load generator"
    );
    assert!(evidence("same-program").ends_with("… on 2 load generators"), "{rules:?}");
    assert!(
        evidence("calibration")
            .contains("the highest share of 2 generators (2 workers, epoll; oldest calibration ")
    );
    // A busy machine may be late, and the rule then says so.
    assert_ne!(rules["aligned-windows"].0, "cannot-tell", "{rules:?}");
    for id in ["ten-minutes", "client-range", "topology"] {
        assert_eq!(rules[id].0, "not-met", "{id}");
    }

    // What each host measured is in the record, and adds up.
    let log = fs::read_to_string(run.join("histograms.hlog")).unwrap();
    let of = |tag: &str| log.lines().filter(|line| line.split(',').next().unwrap().ends_with(tag)).count();
    // If a run lost a host, on a stalled machine, it has only the other host's.
    assert!(of(";kind=response;generator=0") > 0 && of(";kind=response;generator=1") > 0, "{log}");
    let verify = |expected: i32| {
        let output = command(dir.path(), &["verify", "last"]).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{said}");
        said
    };
    verify(0);
    // Without the lines of one host, and with corrected check sums.
    let changed: String =
        log.lines().filter(|line| !line.contains(";generator=0,")).map(|line| format!("{line}\n")).collect();
    fs::write(run.join("histograms.hlog"), changed).unwrap();
    mend_manifest(&run);
    let said = verify(6);
    assert!(said.contains("distribution of response times: hosts = total"), "{said}");
}
