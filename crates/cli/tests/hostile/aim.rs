//! Attempts to send load to somebody who is not on the command line.

use crate::peer::Peer;
use crate::program::webstone_in;

const SHORT: [&str; 8] = ["-c", "1", "-n", "2", "-d", "0s", "--warmup", "0s"];

#[test]
fn a_proxy_probe_in_an_access_log_is_load_on_its_host() {
    let (victim, target) = (Peer::polite(), Peer::polite());
    let dir = tempfile::tempdir().unwrap();
    let line = |url: &str| format!("h - - [10/Oct/2000:13:55:36 -0700] \"GET {url} HTTP/1.1\" 200 0\n");
    let probes =
        [format!("http://{}/x", victim.authority), format!("//{}/x", victim.authority), "/own".to_owned()];
    let log: String = probes.iter().map(|url| line(url)).collect();
    std::fs::write(
        dir.path().join("access.log"),
        log + "h - - [10/Oct/2000:13:55:36 -0700] \"CONNECT h:443 HTTP/1.1\" 200 0\n",
    )
    .unwrap();
    let said = webstone_in(dir.path(), &["mine", "access.log", "-o", "mined.toml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("4 lines: 1 hits of 1 URLs"), "{}", said.err);
    assert!(said.err.contains("2 for other hosts"), "{}", said.err);
    assert!(said.err.contains("1 of other methods (CONNECT: 1)"), "{}", said.err);
    let arguments = ["run", &target.url(), "-w", "mined.toml"];
    webstone_in(dir.path(), &[&arguments[..], &SHORT].concat());
    assert!(target.requests().iter().any(|head| head.starts_with("GET /own ")));
    assert_eq!(victim.requests(), [""; 0]);
}

#[test]
fn a_workload_with_whole_urls_is_load_on_their_hosts() {
    let (victim, target) = (Peer::polite(), Peer::polite());
    let dir = tempfile::tempdir().unwrap();
    let whole = format!("http://{}/x", victim.authority);
    std::fs::write(dir.path().join("list"), format!("/own 10\n{whole} 10\n")).unwrap();
    std::fs::write(dir.path().join("pages.toml"), format!("[[pages]]\nfiles = [\"/own\", \"{whole}\"]\n"))
        .unwrap();
    let url = target.url();
    for workload in ["list", "pages.toml"] {
        for command in [
            [&["run", &url, "-w", workload][..], &SHORT].concat(),
            [&["run", &url, "-w", workload, "--no-check"][..], &SHORT].concat(),
            [&["run", &url, "-w", workload, "--proxy", &url][..], &SHORT].concat(),
            // The server that webstone starts is not another host either.
            [&["run", "-w", workload][..], &SHORT].concat(),
            vec!["find", &url, "-w", workload, "--slo", "p99<1s"],
            vec!["workout", &url, "-w", workload],
            vec!["checkfiles", &url, "-w", workload],
        ] {
            let said = webstone_in(dir.path(), &command);
            assert_eq!(said.code, 2, "{command:?}: {}", said.err);
            assert!(
                said.err.contains(&victim.authority) && said.err.contains("--allow-hosts"),
                "{}",
                said.err
            );
        }
    }
    assert_eq!(victim.requests(), [""; 0]);
    // If it is intended, one flag allows it.
    let allow = ["checkfiles", &url, "-w", "list", "--allow-hosts", &victim.authority];
    webstone_in(dir.path(), &allow);
    assert!(victim.requests().iter().any(|head| head.starts_with("GET /x ")), "{:?}", victim.requests());
    let asked = victim.requests().len();
    let allowed = ["run", &url, "-w", "pages.toml", "--no-check", "--allow-hosts", "127.0.0.1"];
    webstone_in(dir.path(), &[&allowed[..], &SHORT].concat());
    assert!(victim.requests().len() > asked);
}

#[test]
fn a_redirect_is_load_on_the_host_that_it_names() {
    let victim = Peer::polite();
    let target = Peer::saying(&format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{}/x\r\nContent-Length: 0\r\n\r\n",
        victim.authority
    ));
    let dir = tempfile::tempdir().unwrap();
    let url = format!("{}/", target.url());
    for command in [
        [&["hit", &url][..], &SHORT].concat(),
        [&["hit", &url, "--no-check"][..], &SHORT].concat(),
        vec!["checkfiles", &url],
    ] {
        assert_ne!(webstone_in(dir.path(), &command).code, 0);
    }
    assert!(!target.requests().is_empty());
    assert_eq!(victim.requests(), [""; 0]);
}
