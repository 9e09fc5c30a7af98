//! Where connections go, and how they begin: addresses of a name, zones, `--unix-socket`, `--connect-to`, `--proxy-protocol`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

use crate::program::{Said, Server, program, said, webstone, webstone_in};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Takes the header of the PROXY protocol from a connection: its bytes.
fn header(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut header = vec![0; 12];
    stream.read_exact(&mut header).ok()?;
    if header == SIGNATURE {
        let mut rest = [0; 4];
        stream.read_exact(&mut rest).ok()?;
        let mut addresses = vec![0; usize::from(u16::from_be_bytes([rest[2], rest[3]]))];
        stream.read_exact(&mut addresses).ok()?;
        return Some([header, rest.to_vec(), addresses].concat());
    }
    while !header.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        header.push(byte[0]);
    }
    Some(header)
}

/// Answers requests on one connection, and tells the first whole.
fn answer(mut stream: impl Read + Write, tell: &Sender<Vec<u8>>, mut first: Vec<u8>) {
    let mut request = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut request) {
        if !first.is_empty() || request.starts_with(b"GET") {
            let _ = tell.send([std::mem::take(&mut first), request[..read].to_vec()].concat());
        }
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").is_err() {
            return;
        }
    }
}

/// A server that tells what it reads; of each connection, where it came from.
pub(crate) fn server(listen: &str) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind(listen).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, tell) = (stream.unwrap(), tell.clone());
            std::thread::spawn(move || answer(stream, &tell, Vec::new()));
        }
    });
    (address, told)
}

fn host_of(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let line = text.lines().find_map(|line| line.strip_prefix("Host: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn a_unix_sockets_host_is_not_resolved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let first = header(&mut stream).unwrap_or_default();
            let tell = tell.clone();
            std::thread::spawn(move || answer(stream, &tell, first));
        }
    });
    for (version, begins) in
        [("v1", b"PROXY UNKNOWN\r\n".to_vec()), ("v2", [SIGNATURE, &[0x21, 0, 0, 0]].concat())]
    {
        let socket = path.to_str().unwrap();
        let line = ["hit", "http://no.such.host.invalid/x", "--unix-socket", socket, "-c", "1", "-n", "3"];
        let said = webstone(&[&line[..], &["--proxy-protocol", version]].concat());
        assert!(matches!(said.code, 0 | 4), "{}", said.err);
        assert!(said.out.contains("3 valid responses"), "{}", said.out);
        let first: Vec<u8> = told.try_iter().collect::<Vec<_>>().swap_remove(0);
        assert!(first.starts_with(&[&begins[..], b"GET /x HTTP/1.1\r\n"].concat()), "{first:?}");
        assert_eq!(host_of(&first), "no.such.host.invalid");
    }
}

#[test]
fn connections_are_led_elsewhere_and_requests_name_the_url() {
    let (address, told) = server("127.0.0.1:0");
    let route = format!("shop.invalid:80:127.0.0.1:{}", address.port());
    let dir = tempfile::tempdir().unwrap();
    let line = ["hit", "http://shop.invalid/x", "-c", "1", "-n", "3", "--connect-to", &route];
    let said = webstone_in(dir.path(), &[&line[..], &["--format", "json", "--store"]].concat());
    assert!(matches!(said.code, 0 | 4), "{}", said.err);
    assert!(told.try_iter().all(|request| host_of(&request) == "shop.invalid"));
    let record: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(record["spec"]["client"]["connect_to"][0], route);
    for (arguments, what) in [
        (
            &["--connect-to", "a:80:b"][..],
            "error: --connect-to: `a:80:b` does not have four parts\n\
             hint: write HOST:PORT:HOST:PORT, as in a.test:443:127.0.0.1:8443\n",
        ),
        (
            &["--connect-to", "a:80:b:80", "--proxy", "http://127.0.0.1:1"],
            "error: --connect-to and --proxy cannot be used together\nhint: leave out one of them\n",
        ),
        (
            &["--connect-to", "a:80:b:80", "--unix-socket", "/s"],
            "error: --connect-to and --unix-socket cannot be used together\nhint: leave out one of them\n",
        ),
    ] {
        let said = webstone(&[&["hit", "http://a/"], arguments].concat());
        assert_eq!((said.code, said.err.as_str()), (2, what));
    }
}

/// A load balancer's counterpart before a server: takes the header, tells it with the place that the connection came from, and
/// passes on what follows.
fn after_header(server: SocketAddr) -> (u16, Receiver<(Vec<u8>, SocketAddr)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, from)) = listener.accept() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                // Nothing follows the connection that only tries whether somebody listens.
                let Some(header) = header(&mut stream) else { return };
                let _ = tell.send((header, from));
                let mut inner = TcpStream::connect(server).unwrap();
                let (mut back, mut out) = (inner.try_clone().unwrap(), stream.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut back, &mut out);
                    let _ = out.shutdown(std::net::Shutdown::Write);
                });
                let _ = std::io::copy(&mut stream, &mut inner);
                let _ = inner.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    (port, told)
}

#[test]
fn every_connection_begins_with_the_proxy_protocol_even_before_tls() {
    let dir = tempfile::tempdir().unwrap();
    for (tls, version, http) in
        [(false, "v1", "1.1"), (false, "v2", "2"), (true, "v2", "1.1"), (true, "v1", "2")]
    {
        let arguments: &[&str] = if tls { &["--tls", "--http", "2"] } else { &["--http", "2"] };
        let server = Server::start(dir.path(), arguments);
        let inner = server.url.rsplit("//").next().unwrap().trim_end_matches('/').parse().unwrap();
        let (port, told) = after_header(inner);
        let url = format!("{}://127.0.0.1:{port}/", if tls { "https" } else { "http" });
        let policy = if http == "2" { "keep-alive" } else { "per-request" };
        let line = ["hit", &url, "-c", "2", "-n", "6", "--insecure", "--connections", policy, "--no-check"];
        let said = webstone(&[&line[..], &["--proxy-protocol", version, "--http", http]].concat());
        assert!(matches!(said.code, 0 | 4), "{tls} {version} {http}: {}\n{}", said.err, said.out);
        let seen: Vec<_> = told.try_iter().collect();
        assert!(seen.len() >= if http == "2" { 2 } else { 6 }, "{seen:?}");
        for (header, from) in seen {
            let expected = match version {
                "v1" => format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {port}\r\n", from.port()).into_bytes(),
                _ => {
                    let ports = [from.port().to_be_bytes(), port.to_be_bytes()].concat();
                    let addresses = [127, 0, 0, 1, 127, 0, 0, 1];
                    [SIGNATURE, &[0x21, 0x11, 0, 12], &addresses, &ports].concat()
                }
            };
            assert_eq!(header, expected);
        }
    }
}

#[test]
fn a_server_that_webstone_starts_is_not_spoken_to_with_the_proxy_protocol() {
    let said = webstone(&["run", "--proxy-protocol", "v1"]);
    let what = "error: --proxy-protocol (client.proxy_protocol): `v1`, but a server that webstone starts does not expect it\n\
                hint: start the server yourself and give its URL, or remove it\n";
    assert_eq!((said.code, said.err.as_str()), (2, what));
    let said = webstone(&["workout", "http://127.0.0.1:1", "--proxy-protocol", "v2"]);
    assert_eq!(said.code, 2);
    assert!(said.err.starts_with("error: --proxy-protocol: clients that misbehave"), "{}", said.err);
}

/// Runs the program with a file of hosts in place of the system's; `None` where this user may not.
fn with_hosts(hosts: &str, arguments: &[&str]) -> Option<Said> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hosts");
    std::fs::write(&file, hosts).unwrap();
    let may = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        return None;
    }
    let script = format!("mount --bind {} /etc/hosts && exec \"$@\"", file.display());
    let mut outer = Command::new("unshare");
    outer.args(["-m", "bash", "-c", &script, "-", &program()]).args(arguments);
    outer.current_dir(dir.path()).env("LC_ALL", "C.UTF-8").env("XDG_DATA_HOME", dir.path().join("data"));
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(said(&mut outer))
}

#[test]
fn of_the_addresses_of_a_name_those_that_answer_are_used_and_said() {
    const HOSTS: &str = "::1 both.test\n127.0.0.1 both.test\n";
    for (listen, told) in [
        ("[::1]:0", "both.test is ::1 (127.0.0.1 refuses)"),
        ("127.0.0.1:0", "both.test is 127.0.0.1 (::1 refuses)"),
    ] {
        let (address, requests) = server(listen);
        let url = format!("http://both.test:{}/", address.port());
        let line = ["hit", &url, "-c", "2", "-n", "10", "--connections", "per-request"];
        let Some(said) = with_hosts(HOSTS, &line) else {
            return println!("skipped: this user may not make a mount namespace (`unshare -m`)");
        };
        assert!(matches!(said.code, 0 | 4), "{}", said.err);
        assert!(said.out.contains("10 valid responses"), "{}", said.out);
        assert!(said.out.contains(told), "{}", said.out);
        assert!(requests.try_iter().count() >= 10);
    }
    let line = ["hit", "http://both.test:1/", "-c", "1", "-n", "1"];
    let refused = with_hosts(HOSTS, &line).unwrap();
    assert!(
        refused.err.contains("connection refused by ") && refused.err.contains(" and "),
        "{}",
        refused.err
    );
}

#[test]
fn a_link_local_address_is_reached_through_its_interface() {
    // Address, number, prefix, scope (20: link), flags (those of a duplicate and of one that is still tried: 48), name.
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let usable =
        |row: &Vec<&str>| row[3] == "20" && u8::from_str_radix(row[4], 16).is_ok_and(|it| it & 0x48 == 0);
    let Some(row) = rows.into_iter().find(usable) else {
        return println!("skipped: no interface has a link-local address (`ip -6 addr`)");
    };
    let number = u128::from_str_radix(row[0], 16).unwrap();
    let (address, name) = (std::net::Ipv6Addr::from_bits(number), row[5]);
    let (listening, told) = server(&format!("[{address}%{}]:0", u32::from_str_radix(row[1], 16).unwrap()));
    let port = listening.port();
    for zone in [name.to_owned(), format!("25{name}")] {
        let said = webstone(&["hit", &format!("http://[{address}%{zone}]:{port}/"), "-c", "1", "-n", "3"]);
        assert!(matches!(said.code, 0 | 4), "{}", said.err);
        assert_eq!(host_of(&told.try_iter().next().unwrap()), format!("[{address}]:{port}"));
    }
    let said = webstone(&["hit", &format!("http://[{address}%no-such]:{port}/"), "-c", "1", "-n", "3"]);
    let what = format!(
        "error: the address `{address}%no-such`: there is no network interface `no-such`\n\
         hint: after the % stands an interface of this host: `ip address` lists them\n"
    );
    assert_eq!((said.code, said.err), (1, what));
    let said = webstone(&["hit", &format!("http://[{address}]:{port}/"), "-c", "1", "-n", "3"]);
    assert!(said.err.contains("hint: a link-local address needs its interface"), "{}", said.err);
}
