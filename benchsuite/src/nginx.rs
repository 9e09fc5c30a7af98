//! The real server that everyone loads: an nginx of our own, with a configuration of our own, on free ports of loopback. One of
//! them speaks what the mode asks for, the other plain HTTP/1, by which it is found ready.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::children::{self, Cpus, Group, How};
use crate::handshakes::{Handshakes, LOG_FORMAT};
use crate::modes::{Mode, Server};

/// Files of the `standard` workload and their sizes in bytes.
const FILES: [(&str, u64); 5] = [
    ("/file500.html", 500),
    ("/file5k.html", 5_125),
    ("/file50k.html", 51_250),
    ("/file500k.html", 512_500),
    ("/file5m.html", 5_248_000),
];

const PROGRAMS: [&str; 3] = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
/// With ngx_http_v3_module.
const HTTP3_PROGRAMS: [&str; 1] = ["/opt/webstone-http3/usr/sbin/nginx"];

/// A running nginx; it ends with this value.
#[derive(Debug)]
pub struct Nginx {
    _process: Group,
    base_url: String,
    handshakes: PathBuf,
}

/// The certificate that every server shows, which clients that verify it trust.
pub fn certificate(folder: &Path) -> PathBuf {
    folder.join("certificate.pem")
}

/// Writes the fileset below `folder`, and a certificate of ECDSA with P-256 and its key.
///
/// # Errors
/// If webstone cannot, or if a file is not of the length that is counted on.
pub fn write_files(folder: &Path, webstone: &Path) -> Result<(), String> {
    let root = folder.join("www");
    let mut command = vec![webstone.display().to_string(), "genfiles".into(), root.display().to_string()];
    command.extend(["-w", "standard"].map(str::to_owned));
    let written = children::run(&command, How::within(Duration::from_secs(60)))?;
    if written.code != Some(0) {
        return Err(format!("webstone genfiles failed:\n{}{}", written.stdout, written.stderr));
    }
    for (path, size) in FILES {
        let file = root.join(&path[1..]);
        match fs::metadata(&file) {
            Ok(metadata) if metadata.len() == size => {}
            Ok(metadata) => {
                return Err(format!("{}: {} bytes, expected {size}", file.display(), metadata.len()));
            }
            Err(error) => return Err(format!("{}: {error}", file.display())),
        }
    }
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
        .map_err(|error| format!("no certificate: {error}"))?;
    for (file, text) in
        [(certificate(folder), made.cert.pem()), (folder.join("key.pem"), made.signing_key.serialize_pem())]
    {
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

impl Nginx {
    /// Starts on the files of [`write_files`], as a mode and a server need it.
    ///
    /// # Errors
    /// If nginx is missing or does not serve every file within 10 seconds, with its own error log.
    pub fn start(folder: &Path, mode: Mode, server: Server, cpus: &Cpus) -> Result<Nginx, String> {
        let (programs, hint) = match mode.is_http3() {
            true => (&HTTP3_PROGRAMS[..], "as root, sh xtask/http3.sh /opt/webstone-http3"),
            false => (&PROGRAMS[..], "apt-get install nginx-light, or --servers canned"),
        };
        let program = programs.iter().copied().find(|path| Path::new(path).is_file());
        let program = program.ok_or_else(|| format!("nginx is not installed\nhint: {hint}"))?;
        // Between finding a free port and listening on it another program may take it.
        let mut last = String::new();
        for _ in 0..3 {
            let (port, plain_port) = free_ports()?;
            let file = folder.join("nginx.conf");
            fs::write(&file, configuration(folder, mode, server, cpus, (port, plain_port)))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let command = [program, "-p", &folder.display().to_string(), "-c", &file.display().to_string()]
                .map(str::to_owned);
            let on = match server {
                Server::NginxShared => cpus.both(),
                _ => cpus.server.map(|cpu| cpu.to_string()),
            };
            let mut process = Group::start(&command, on.as_deref(), Stdio::null())?;
            match ready(&mut process, plain_port) {
                Ok(()) => {
                    let scheme = if mode.is_secure() { "https" } else { "http" };
                    return Ok(Nginx {
                        _process: process,
                        base_url: format!("{scheme}://127.0.0.1:{port}"),
                        handshakes: folder.join(HANDSHAKES),
                    });
                }
                Err(error) => last = error,
            }
        }
        let log = fs::read_to_string(folder.join("error.log")).unwrap_or_default();
        Err(format!("nginx does not serve: {last}\n{log}"))
    }

    /// `http://127.0.0.1:PORT`, or `https`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Takes the TLS handshakes that were logged since the last call.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn take_handshakes(&self) -> Result<Handshakes, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.handshakes.display());
        let text = match fs::read_to_string(&self.handshakes) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Handshakes::default()),
            text => text.map_err(failed)?,
        };
        // nginx appends, wherever the end is.
        fs::OpenOptions::new()
            .write(true)
            .open(&self.handshakes)
            .and_then(|file| file.set_len(0))
            .map_err(failed)?;
        Ok(Handshakes::of_log(&text))
    }
}

/// The log of handshakes, in the server's folder.
const HANDSHAKES: &str = "handshakes.log";

/// Connections without a limit, and a log of only the first request of each connection over TLS, so that the server is fast and
/// the same for all. One cipher suite and one group, whatever clients would rather have.
fn configuration(
    folder: &Path,
    mode: Mode,
    server: Server,
    cpus: &Cpus,
    (port, plain_port): (u16, u16),
) -> String {
    let folder = folder.display();
    // The directory is readable by its owner only; workers of a nginx started by root would run as somebody else.
    let user = if nix::unistd::geteuid().is_root() { "user root;\n" } else { "" };
    let mask = |cpu: u32| format!("1{}", "0".repeat(cpu as usize));
    let workers = match (server, cpus.server, cpus.client) {
        (Server::NginxShared, Some(one), Some(other)) => {
            format!("worker_processes 2;\nworker_cpu_affinity {} {};\n", mask(one), mask(other))
        }
        (Server::NginxShared, ..) => "worker_processes 2;\n".to_owned(),
        _ => "worker_processes 1;\n".to_owned(),
    };
    // Room for the first datagrams of many clients at once.
    let quic = match mode.is_http3() {
        true => format!("    listen 127.0.0.1:{port} quic reuseport rcvbuf=4m;\n"),
        false => String::new(),
    };
    // In HTTP/3 each stream takes one, too, and a connection has up to six at a time. And with `multi_accept`, nginx reads datagrams
    // until none is left before it sends any: under a load that never pauses it then answers nobody.
    let (connections, accept) = if mode.is_http3() { (131_072, "off") } else { (16_384, "on") };
    let speaks = match (mode.is_secure(), mode.is_http2()) {
        (true, true) => " ssl http2",
        (true, false) => " ssl",
        (false, true) => " http2",
        (false, false) => "",
    };
    // Each worker has a queue of its own, so that both get connections.
    let reuse = if server == Server::NginxShared { " reuseport" } else { "" };
    let secure = if mode.is_secure() {
        let tickets = if mode == Mode::HttpsResumed { "on" } else { "off" };
        format!(
            "    ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;\n\
             \x20   ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_ecdh_curve X25519;\n\
             \x20   ssl_session_cache off; ssl_session_tickets {tickets};\n\
             \x20   access_log {folder}/{HANDSHAKES} handshake if=$is_first;\n"
        )
    } else {
        String::new()
    };
    format!(
        "{user}daemon off;\n{workers}worker_rlimit_nofile 20000;\npid {folder}/nginx.pid;\n\
         error_log {folder}/error.log warn;\n\
         events {{ worker_connections {connections}; multi_accept {accept}; }}\n\
         http {{\n\
         \x20 log_format handshake '{LOG_FORMAT}';\n  map $connection_requests $is_first {{ 1 1; default 0; }}\n\
         \x20 access_log off;\n  sendfile on;\n  tcp_nopush on;\n  default_type text/html;\n\
         \x20 keepalive_timeout 300s;\n  keepalive_requests 1000000000;\n  open_file_cache max=100 inactive=1h;\n\
         \x20 client_body_temp_path {folder}/body;\n  proxy_temp_path {folder}/proxy;\n\
         \x20 fastcgi_temp_path {folder}/fastcgi;\n  uwsgi_temp_path {folder}/uwsgi;\n  scgi_temp_path {folder}/scgi;\n\
         \x20 server {{ listen 127.0.0.1:{plain_port}; root {folder}/www; }}\n\
         \x20 server {{\n    listen 127.0.0.1:{port}{speaks} backlog=4096{reuse}; root {folder}/www;\n{quic}{secure}  }}\n}}\n"
    )
}

/// Two free ports of loopback.
///
/// # Errors
/// If no port is free.
pub fn free_ports() -> Result<(u16, u16), String> {
    let failed = |error| format!("no free port: {error}");
    // Both at once, so that they differ.
    let both = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let [one, other] = both.map(|listener| listener.and_then(|listener| listener.local_addr()));
    Ok((one.map_err(failed)?.port(), other.map_err(failed)?.port()))
}

/// Waits until every file is served in its full length on a port of plain HTTP/1.
///
/// # Errors
/// If the process ends, or if that takes 10 seconds: what was missing last.
pub fn ready(process: &mut Group, port: u16) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let missing = FILES.iter().find_map(|(path, size)| match length(port, path) {
            Ok(length) if length == *size => None,
            Ok(length) => Some(format!("{path} has {length} bytes, expected {size}")),
            Err(error) => Some(format!("{path}: {error}")),
        });
        let Some(missing) = missing else { return Ok(()) };
        if let Ok(Some(status)) = process.process.try_wait() {
            return Err(format!("it ended with {status}"));
        }
        if Instant::now() > deadline || children::interrupted().is_some() {
            return Err(missing);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Length of the body that a path gives, read to its end.
fn length(port: u16, path: &str) -> Result<u64, std::io::Error> {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let mut stream = TcpStream::connect_timeout(&address.into(), Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    // A server may answer with the version that was asked for.
    if !(answer.starts_with(b"HTTP/1.") && answer[7..].get(1..6) == Some(b" 200 ")) {
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        return Err(std::io::Error::other(String::from_utf8_lossy(line).into_owned()));
    }
    Ok((answer.len() - head) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_protocol_and_the_wanted_handshakes() {
        let cpus = Cpus { server: Some(0), client: Some(2) };
        let of = |mode, server| configuration(Path::new("/F"), mode, server, &cpus, (1, 2));
        let plain = of(Mode::KeepAlive, Server::Nginx);
        assert!(plain.contains("worker_processes 1;") && !plain.contains("ssl_cert"), "{plain}");
        assert!(plain.contains("listen 127.0.0.1:1 backlog=4096;"), "{plain}");
        for (mode, listens, tickets) in [
            (Mode::HttpsFull, "listen 127.0.0.1:1 ssl backlog", "tickets off"),
            (Mode::HttpsResumed, "listen 127.0.0.1:1 ssl backlog", "tickets on"),
            (Mode::H2Ten, "listen 127.0.0.1:1 ssl http2 backlog", "tickets off"),
            (Mode::H3Ten, "listen 127.0.0.1:1 quic reuseport rcvbuf=4m;", "tickets off"),
        ] {
            let text = of(mode, Server::Nginx);
            assert!(text.contains(listens) && text.contains(tickets), "{text}");
            assert!(text.contains("access_log /F/handshakes.log handshake if=$is_first;"), "{text}");
        }
        let shared = of(Mode::H2cTen, Server::NginxShared);
        assert!(shared.contains("worker_cpu_affinity 1 100;"), "{shared}");
        assert!(shared.contains("listen 127.0.0.1:1 http2 backlog=4096 reuseport;"), "{shared}");
    }
}
