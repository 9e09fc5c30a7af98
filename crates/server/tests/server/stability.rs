//! What the server does when it is told to refuse, when it is short of something, and when it cannot start.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use webstone_model::spec::ServerSpec;
use webstone_server::{ServeOptions, Server};

use crate::peer::{PATIENCE, Peer, server, start};

#[test]
fn connections_are_refused_for_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listen = format!("127.0.0.1:0,unix:{}", path.display());
    let server = start(ServerSpec { listen, threads: 2, ..ServerSpec::default() });
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let mut earlier = Peer::connect(&server);
    earlier.get("/small.html");
    let mut control = Peer::connect(&server);
    let start = Instant::now();
    let answer = control.get("/.webstone/refuse?for=3s");
    assert_eq!(answer.status, 200);
    assert_eq!(TcpStream::connect(&address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // Open connections continue meanwhile.
    assert_eq!(earlier.get("/small.html").status, 200);
    let mut refused = 0;
    while TcpStream::connect(&address).is_err() {
        refused += 1;
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(start.elapsed() >= Duration::from_secs(3) && refused > 0);
    assert_eq!(Peer::connect(&server).get("/small.html").status, 200);
    while UnixStream::connect(&path).is_err() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(control.get("/.webstone/refuse?for=never").status, 400);
}

#[test]
fn test_handlers_are_there_only_if_asked_for() {
    let server = Server::start(ServeOptions::new(ServerSpec::default())).unwrap();
    let mut peer = Peer::connect(&server);
    for path in ["/test", "/schedule", "/echo", "/.webstone/refuse?for=1h"] {
        assert_eq!(peer.get(path).status, 404, "{path}");
    }
    assert_eq!(peer.get("/.webstone/counters").status, 200);
}

#[test]
fn an_address_in_use_is_named() {
    let first = server(1);
    let listen = first.ready().addresses[0].clone();
    let error =
        Server::start(ServeOptions::new(ServerSpec { listen: listen.clone(), ..ServerSpec::default() }));
    let error = error.unwrap_err();
    assert!(error.what.contains(&format!("--listen {listen}")) && error.what.contains("in use"), "{error}");
    assert!(error.hint.unwrap().contains("port 0"));
    // The port is free as soon as the server has stopped, and connections in TIME_WAIT do not matter.
    Peer::connect(&first).send("GET / HTTP/1.0\r\n\r\n");
    first.stop();
    Server::start(ServeOptions::new(ServerSpec { listen, ..ServerSpec::default() })).unwrap();
}

#[test]
fn a_socket_in_use_is_not_taken_over_and_a_stale_one_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let spec = ServerSpec { listen: format!("unix:{}", path.display()), threads: 1, ..ServerSpec::default() };
    let stale = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = Server::start(ServeOptions::new(spec.clone())).unwrap_err();
    assert!(error.what.contains("in use"), "{error}");
    drop(stale);
    let server = Server::start(ServeOptions::new(spec.clone())).unwrap();
    drop(server);
    std::fs::write(&path, "a file").unwrap();
    assert!(Server::start(ServeOptions::new(spec)).unwrap_err().what.contains("in use"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
}

#[test]
fn what_cannot_be_met_is_named_before_anything_starts() {
    let default = ServerSpec::default;
    let some = |text: &str| Some(text.to_owned());
    for (spec, expected) in [
        (ServerSpec { root: some("/no/such"), ..default() }, "--root /no/such: the directory does not exist"),
        (ServerSpec { listen: "nonsense".to_owned(), ..default() }, "--listen nonsense"),
        (
            ServerSpec { listen: "192.0.2.77:0".to_owned(), ..default() },
            "--listen 192.0.2.77:0: no network interface",
        ),
        (ServerSpec { access_log: some("/no/such/log"), ..default() }, "--access-log /no/such/log"),
        (ServerSpec { resolve_names: true, ..default() }, "--resolve-names"),
        (ServerSpec { cpus: "4000".to_owned(), ..default() }, "--cpus 4000"),
        (
            ServerSpec { listen: "unix:/no/such/dir/s".to_owned(), ..default() },
            "directory of the Unix socket",
        ),
    ] {
        let error = Server::start(ServeOptions::new(spec)).unwrap_err();
        assert!(error.what.contains(expected), "{error}");
        assert!(error.hint.is_some(), "{error}");
    }
}

#[test]
fn many_connections_at_once_are_all_served() {
    let server = server(2);
    let mut peers: Vec<Peer> = (0..300).map(|_| Peer::connect(&server)).collect();
    for peer in &mut peers {
        peer.send("GET /small.html HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    for peer in &mut peers {
        assert_eq!(peer.answer(false).body.len(), 500);
    }
    let counters = server.counters();
    assert_eq!((counters.accepted, counters.open, counters.responses), (300, 300, 300));
}
