//! Early data (0-RTT) over QUIC, taken and rejected, and what qlog says of it.

use std::path::Path;

use serde_json::Value;

use crate::program::{Server, webstone_in};

/// A connection for each request, with early data from the second on.
const EARLY: [&str; 7] =
    ["--http", "3", "--connections", "per-request", "--tls-resume", "100%", "--early-data"];

/// Asks the server for a fault on every n-th connection from now on.
fn ask(dir: &Path, server: &Server, fault: &str, every: u32) {
    let url = format!("{}/.webstone/fault?fault={fault}&times=0&every={every}", server.url);
    let said = webstone_in(dir, &["hit", &url, "-k", "-c", "1", "-n", "1", "-d", "0", "--warmup", "0s"]);
    assert!(matches!(said.code, 0 | 4), "{said:?}");
}

#[test]
fn early_data_is_taken_or_sent_again_and_logged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--tls", "--http", "3"]);
    // Of each third connection from now on. Its tickets allow none, so that the next one sends none.
    ask(dir.path(), &server, "reject-early-data", 3);
    let url = format!("{}/test", server.url);
    let load = ["run", &url, "-k", "-c", "1", "-n", "20", "-d", "0", "--warmup", "0s", "--no-store"];
    let qlog = ["--qlog", "qlogs", "--qlog-connections", "3", "--format", "json"];
    let said = webstone_in(dir.path(), &[&load[..], &EARLY, &qlog].concat());
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let measured = &record["iterations"][0]["measured"];
    let (handshakes, http3) = (&measured["handshakes"], &measured["http3"]);
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    assert_eq!((number(&measured["counts"], "succeeded"), number(&measured["counts"], "failed")), (20, 0));
    assert_eq!((number(handshakes, "full"), number(handshakes, "resumed")), (1, 19));
    let [taken, rejected] =
        ["early_data_accepted", "early_data_rejected"].map(|name| number(handshakes, name));
    assert!((5..=7).contains(&taken) && (5..=7).contains(&rejected), "{handshakes}");
    assert_eq!(
        (number(http3, "early_requests"), number(http3, "early_repeated")),
        (taken + rejected, rejected)
    );
    let mut files: Vec<_> =
        std::fs::read_dir(dir.path().join("qlogs")).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3);
    let mut early = 0;
    for (place, file) in files.iter().enumerate() {
        let text = std::fs::read_to_string(file).unwrap();
        let events: Vec<Value> = text
            .split_terminator('\n')
            .map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap())
            .collect();
        let has = |what: &str| text.contains(what);
        assert!(
            events.len() > 5 && has("transport:packet_received") && has("recovery:metrics_updated"),
            "{text}"
        );
        early += usize::from(has("\"packet_type\":\"0RTT\""));
        assert!(place > 0 || early == 0, "the first connection has no session");
        assert!(has("connectivity:connection_closed"), "{text}");
    }
    assert!((1..=2).contains(&early), "{early}");
    let said = webstone_in(dir.path(), &["hit", &url, "-k", "--qlog", "qlogs"]);
    assert!(said.code == 2 && said.err.contains("qlog is of QUIC"), "{said:?}");
    let said = webstone_in(dir.path(), &["hit", &url, "-k", "--http", "3", "--quic-version", "2"]);
    assert!(said.code == 1, "{said:?}");
    assert!(
        said.err.contains("the server does not speak version 2 of QUIC; it offers 1, draft-29,"),
        "{said:?}"
    );
}

/// Requests that the server answers with 425 (Too Early) are sent again after the handshake, and count once.
#[test]
fn requests_that_are_too_early_are_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--tls", "--http", "3"]);
    ask(dir.path(), &server, "too-early", 2);
    let url = format!("{}/test", server.url);
    let load = ["run", &url, "-k", "-c", "1", "-n", "20", "-d", "0", "--warmup", "0s", "--no-store"];
    let said = webstone_in(dir.path(), &[&load[..], &EARLY, &["--format", "json"]].concat());
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    let measured = &record["iterations"][0]["measured"];
    let number = |name: &str| measured.pointer(name).and_then(Value::as_u64).unwrap_or_default();
    assert_eq!((number("/counts/succeeded"), number("/counts/failed")), (20, 0), "{}", said.err);
    let (early, too_early) = (number("/handshakes/early_data_accepted"), number("/handshakes/too_early"));
    assert!(early == 19 && (9..=10).contains(&too_early), "{measured}");
    assert_eq!(number("/lifetime/requests"), 20 + too_early);
}
