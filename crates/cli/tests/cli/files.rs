//! `genfiles`, `checkfiles`, `mine`, `workloads`: from a workload to files and to a server, and from a log to a
//! workload.

use crate::program::{Server, webstone_in};

#[test]
fn generated_files_are_served_checked_and_found_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let said = webstone_in(dir.path(), &["genfiles", "www", "-w", "workout-16k"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{}", said.err);
    assert_eq!(
        said.err,
        "1 files of 16384 bytes: 1 written, 0 were there with the right size\n\
         www holds the files of workout-16k; MANIFEST.sha256 in it holds their check sums\n"
    );
    let again = webstone_in(dir.path(), &["genfiles", "www", "-w", "workout-16k"]);
    assert!(again.err.starts_with("1 files of 16384 bytes: 0 written, 1 were there"), "{}", again.err);

    let server = Server::start(dir.path(), &["--threads", "1", "--root", "www", "--no-cache"]);
    let check = ["checkfiles", server.url.as_str(), "-w", "workout-16k"];
    let said = webstone_in(dir.path(), &check);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{}", said.err);
    assert_eq!(said.err, "1 file of workout-16k: all are as they should be\n");

    let list = webstone_in(dir.path(), &["workloads", "show", "workout-16k", "--format", "webstone2"]).out;
    let path = list.lines().find(|line| line.starts_with('/')).unwrap().split(' ').next().unwrap().to_owned();
    std::fs::write(dir.path().join("www").join(&path[1..]), "short").unwrap();
    let said = webstone_in(dir.path(), &check);
    assert_eq!(said.code, 1);
    let url = &server.url;
    assert_eq!(said.out, format!("page 0: {url}{path}: 5 bytes where the workload states 16384\n"));
    assert_eq!(
        said.err,
        format!(
            "error: 1 of 1 file at {url} are not as the workload workout-16k has them\n\
             hint: write the files with `webstone genfiles DIR -w WORKLOAD`, let the server serve DIR as its root, and see \
             what is still missing with `webstone checkfiles URL -w WORKLOAD`\n"
        )
    );
}

#[test]
fn a_log_becomes_a_workload_that_can_be_run() {
    let dir = tempfile::tempdir().unwrap();
    let line = |path: &str, status: u16, size: u32| {
        format!("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET {path} HTTP/1.0\" {status} {size}\n")
    };
    let log =
        [line("/a.html", 200, 700), line("/a.html", 200, 700), line("/b.png", 200, 90), line("/c", 404, 5)]
            .concat();
    std::fs::write(dir.path().join("access.log"), log + "nonsense\n").unwrap();
    let said = webstone_in(dir.path(), &["mine", "access.log", "--name", "shop", "-o", "shop.toml"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{}", said.err);
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines[0], "5 lines: 3 hits of 2 URLs, 2 pages");
    assert_eq!(lines[1], "           1 answered otherwise (404: 1)");
    assert_eq!(lines[2], "           1 not understood:");
    assert!(lines[3].contains("access.log:5: ") && lines[3].ends_with(": nonsense"), "{}", lines[3]);
    assert_eq!(lines.len(), 4);

    let run = ["run", "-w", "shop.toml", "-c", "1", "-n", "9", "-d", "0s", "--warmup", "0s", "--no-store"];
    let said = webstone_in(dir.path(), &[run.as_slice(), &["--format", "json"]].concat());
    // On a busy machine such a short window may be invalid.
    assert!(matches!(said.code, 0 | 4), "{}", said.err);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["workload"]["name"], "shop");
    assert_eq!(report["iterations"][0]["measured"]["counts"]["succeeded"], 9);
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn the_built_in_workloads_are_listed_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let list = webstone_in(dir.path(), &["workloads"]);
    assert_eq!((list.code, list.err.as_str()), (0, ""));
    let names: Vec<&str> = list.out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "name",
            "standard",
            "general-and-media",
            "general-modem",
            "general",
            "media-rich",
            "silicon-surf",
            "webbench-static",
            "webbench-dynamic",
            "webbench-ecommerce",
            "spice",
            "dynamic-light",
            "dynamic-medium",
            "dynamic-heavy",
            "cgi-heavy",
            "workout-0k",
            "workout-16k",
            "workout-64k",
            "transfer-2m",
            "transfer-7m",
            "send-random",
            "send-ready-random",
            "send-ready-pattern",
            "send-ready-none"
        ]
    );
    assert_eq!(webstone_in(dir.path(), &["workloads", "list"]).out, list.out);
    for name in &names[1..] {
        let toml = webstone_in(dir.path(), &["workloads", "show", name]);
        assert_eq!((toml.code, toml.err.as_str()), (0, ""), "{name}");
        let file = dir.path().join("copy.toml");
        std::fs::write(&file, &toml.out).unwrap();
        let again = webstone_in(dir.path(), &["workloads", "show", "copy.toml"]);
        assert_eq!((again.code, again.out), (0, toml.out), "{name}");
    }
    let said = webstone_in(dir.path(), &["workloads", "show", "general", "--format", "webstone2"]);
    assert_eq!(said.code, 2, "pages of several files fit no WebStone 2.x list");
    assert!(
        said.err.starts_with("error: --format: page 1: ") && said.err.contains("\nhint: "),
        "{}",
        said.err
    );
}
