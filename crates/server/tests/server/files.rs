//! Files: from memory and from a directory, cached and not, and no way out of the root.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use webstone_model::spec::ServerSpec;
use webstone_server::{Fileset, RunningServer, ServeOptions, Server};

use crate::peer::{Peer, content, content_of, fileset, server};

/// A directory `root` beside a file `secret`, with ways out and ways in.
fn tree() -> tempfile::TempDir {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    std::fs::create_dir_all(root.join("sub/dir")).unwrap();
    std::fs::write(outer.path().join("secret"), "the secret").unwrap();
    std::fs::write(root.join("index.html"), "the index").unwrap();
    std::fs::write(root.join("sub/index.html"), "the sub index").unwrap();
    std::fs::write(root.join("sub/a b.txt"), "with a space").unwrap();
    std::fs::write(root.join("sub/%2e%2e"), "named like an escape").unwrap();
    std::fs::write(root.join("large.bin"), content_of("/large.bin", 5_000_000)).unwrap();
    std::fs::write(root.join("empty"), "").unwrap();
    symlink("../secret", root.join("link-out")).unwrap();
    symlink(outer.path().join("secret"), root.join("link-absolute")).unwrap();
    symlink("..", root.join("link-up")).unwrap();
    symlink("sub/index.html", root.join("link-in")).unwrap();
    outer
}

fn serve(root: &Path, cache: bool) -> RunningServer {
    let root = Some(root.to_str().unwrap().to_owned());
    Server::start(ServeOptions::new(ServerSpec {
        root,
        cache: Some(cache),
        threads: 1,
        ..ServerSpec::default()
    }))
    .unwrap()
}

#[test]
fn a_directory_is_served() {
    for cache in [true, false] {
        let outer = tree();
        let server = serve(&outer.path().join("root"), cache);
        let mut peer = Peer::connect(&server);
        for _ in 0..3 {
            for (path, expected) in [
                ("/", "the index"),
                ("/index.html", "the index"),
                ("/sub/", "the sub index"),
                ("/sub/index.html?query=1", "the sub index"),
                ("/sub/a%20b.txt", "with a space"),
                ("/sub/%252e%252e", "named like an escape"),
                ("//sub/./index.html", "the sub index"),
                ("/link-in", "the sub index"),
                ("/empty", ""),
            ] {
                let answer = peer.get(path);
                assert_eq!((answer.status, answer.text()), (200, expected), "{path}");
            }
            let large = peer.get("/large.bin");
            assert!(large.body == content_of("/large.bin", 5_000_000));
        }
        for path in
            ["/none", "/sub", "/sub/dir/", "/index.html/", "/index.html/x", &format!("/{}", "x".repeat(5000))]
        {
            assert_eq!(peer.get(path).status, 404, "{path}");
        }
    }
}

#[test]
fn there_is_no_way_out_of_the_root() {
    for cache in [true, false] {
        let outer = tree();
        let server = serve(&outer.path().join("root"), cache);
        for target in [
            "/../secret",
            "/sub/../../secret",
            "/%2e%2e/secret",
            "/%2e%2e%2fsecret",
            "/..%2fsecret",
            "/.%2e/secret",
            "/%252e%252e%252fsecret",
            "/..%252fsecret",
            "/..\\secret",
            "/%5c..%5csecret",
            "/..%5csecret",
            "/....//secret",
            "/sub/..;/secret",
            "/%c0%ae%c0%ae/secret",
            "/\u{2025}/secret",
            "/link-out",
            "/link-absolute",
            "/link-up/secret",
            "/sub/../link-up/secret",
            "/secret%00.html",
            "/..",
            "/%",
            "/%2",
            "//etc/passwd",
            "/etc/passwd",
            "/proc/self/environ",
            "http://other.host/../secret",
            "http://other.host/%2e%2e/secret",
            "http://other.host/link-out",
            "../secret",
            "*",
        ] {
            let mut peer = Peer::connect(&server);
            peer.send(&format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n"));
            let answer = peer.answer(false);
            assert!(matches!(answer.status, 400 | 404), "{target}: {}", answer.status);
            assert!(!answer.text().contains("secret") && !answer.text().contains("root:"), "{target}");
        }
        let mut peer = Peer::connect(&server);
        // The absolute form that proxies send is an ordinary way to ask for a file.
        assert_eq!(peer.get("http://other.host:81/sub/index.html").text(), "the sub index");
    }
}

#[test]
fn cached_files_stay_as_they_were_read() {
    for (cache, expected) in [(true, "the index"), (false, "changed")] {
        let outer = tree();
        let server = serve(&outer.path().join("root"), cache);
        let mut peer = Peer::connect(&server);
        assert_eq!(peer.get("/index.html").text(), "the index");
        std::fs::write(outer.path().join("root/index.html"), "changed").unwrap();
        assert_eq!(peer.get("/index.html").text(), expected);
    }
}

#[test]
fn what_does_not_fit_the_cache_is_still_served() {
    let outer = tree();
    let root = Some(outer.path().join("root").to_str().unwrap().to_owned());
    let spec = ServerSpec { root, threads: 1, ..ServerSpec::default() };
    let server = Server::start(ServeOptions { cache_bytes_max: 12, ..ServeOptions::new(spec) }).unwrap();
    let mut peer = Peer::connect(&server);
    for _ in 0..2 {
        assert_eq!(peer.get("/index.html").text(), "the index");
        assert_eq!(peer.get("/sub/index.html").text(), "the sub index");
        assert_eq!(peer.get("/large.bin").body.len(), 5_000_000);
    }
    std::fs::write(outer.path().join("root/index.html"), "changed").unwrap();
    std::fs::write(outer.path().join("root/sub/index.html"), "changed").unwrap();
    assert_eq!(peer.get("/index.html").text(), "the index");
    assert_eq!(peer.get("/sub/index.html").text(), "changed");
}

#[test]
fn an_unchanged_file_is_not_sent_again() {
    let outer = tree();
    for server in
        [serve(&outer.path().join("root"), true), serve(&outer.path().join("root"), false), server(1)]
    {
        let mut peer = Peer::connect(&server);
        for path in ["/large.bin", "/large.bin"] {
            let modified = peer.get(path).header("last-modified").unwrap().to_owned();
            let mut ask = |since: &str| {
                peer.send(&format!("GET {path} HTTP/1.1\r\nHost: t\r\nIf-Modified-Since: {since}\r\n\r\n"));
                peer.answer(false)
            };
            let unchanged = ask(&modified);
            assert_eq!((unchanged.status, unchanged.header("last-modified")), (304, Some(modified.as_str())));
            assert_eq!(ask("Fri, 01 Jan 2100 00:00:00 GMT").status, 304);
            assert_eq!(ask("Sun, 06 Nov 1994 08:49:37 GMT").body.len(), peer_size(&server));
            assert_eq!(ask("yesterday").status, 200);
        }
    }
}

fn peer_size(server: &RunningServer) -> usize {
    Peer::connect(server).get("/large.bin").body.len()
}

#[test]
fn a_set_is_served_from_its_rule() {
    for (cache, cache_bytes_max) in [(true, 1 << 30), (false, 1 << 30), (true, 600)] {
        let spec = ServerSpec { cache: Some(cache), threads: 2, ..ServerSpec::default() };
        let options = ServeOptions { fileset: fileset(), cache_bytes_max, ..ServeOptions::new(spec) };
        let server = Server::start(options).unwrap();
        for _ in 0..4 {
            let mut peer = Peer::connect(&server);
            for (path, size) in [("/small.html", 500), ("/large.bin", 3_000_000), ("/empty.txt", 0)] {
                let answer = peer.get(path);
                assert!(answer.body == content_of(path, size), "{path}");
            }
            assert_eq!(peer.get("/a%20b.txt").body, content_of("/a b.txt", 7));
            assert_eq!(peer.get("/./small.html").body.len(), 500);
            assert_eq!(peer.get("/small.html/").status, 404);
            assert_eq!(peer.get("/").status, 404);
        }
    }
}

#[test]
fn a_huge_file_of_a_set_needs_no_memory() {
    let set = Fileset::from_entries(vec![("/huge".to_owned(), 200 << 30)], content);
    let spec = ServerSpec { threads: 1, ..ServerSpec::default() };
    let server = Server::start(ServeOptions { fileset: set, ..ServeOptions::new(spec) }).unwrap();
    let mut peer = Peer::connect(&server);
    peer.send("GET /huge HTTP/1.1\r\nHost: t\r\n\r\n");
    let head = peer.read_head();
    assert_eq!(head.header("content-length"), Some("214748364800"));
    while peer.rest.len() < 4_000_000 {
        assert!(peer.read_some().unwrap() > 0);
    }
    assert!(peer.rest[..4_000_000] == content_of("/huge", 4_000_000));
}

#[test]
fn answers_are_dated_as_asked() {
    let date = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
    let spec = ServerSpec { threads: 1, ..ServerSpec::default() };
    let options = ServeOptions { fileset: fileset(), date, ..ServeOptions::new(spec) };
    let server = Server::start(options).unwrap();
    for path in ["/small.html", "/missing"] {
        let answer = Peer::connect(&server).get(path);
        assert_eq!(answer.header("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"), "{path}");
    }
}
