//! The real server that everyone loads: an nginx of our own, with a configuration of our own, on a free port of loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::children::{self, Group, How};

/// Files of the `standard` workload and their sizes in bytes.
const FILES: [(&str, u64); 5] = [
    ("/file500.html", 500),
    ("/file5k.html", 5_125),
    ("/file50k.html", 51_250),
    ("/file500k.html", 512_500),
    ("/file5m.html", 5_248_000),
];

/// A running nginx; it ends with this value.
#[derive(Debug)]
pub struct Nginx {
    _process: Group,
    base_url: String,
}

/// Writes the fileset below `folder`.
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
    Ok(())
}

impl Nginx {
    /// Starts on the files of [`write_files`].
    ///
    /// # Errors
    /// If nginx is missing or does not serve every file within 10 seconds, with its own error log.
    pub fn start(folder: &Path, cpu: Option<&str>) -> Result<Nginx, String> {
        let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"]
            .into_iter()
            .find(|path| Path::new(path).is_file());
        let program = program
            .ok_or("nginx is not installed\nhint: apt-get install nginx-light, or --servers canned")?;
        // Between finding a free port and listening on it another program may take it.
        let mut last = String::new();
        for _ in 0..3 {
            let port = free_port()?;
            let file = folder.join("nginx.conf");
            fs::write(&file, configuration(folder, port))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let command = [program, "-p", &folder.display().to_string(), "-c", &file.display().to_string()]
                .map(str::to_owned);
            let mut process = Group::start(&command, cpu, Stdio::null())?;
            match ready(&mut process, port) {
                Ok(()) => {
                    return Ok(Nginx { _process: process, base_url: format!("http://127.0.0.1:{port}") });
                }
                Err(error) => last = error,
            }
        }
        let log = fs::read_to_string(folder.join("error.log")).unwrap_or_default();
        Err(format!("nginx does not serve: {last}\n{log}"))
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }
}

/// One worker, no log, connections without a limit: the server shall be the same for everyone, and fast.
fn configuration(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    // The directory is readable by its owner only; workers of a nginx started by root would run as somebody else.
    let user = if nix::unistd::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;\nworker_processes 1;\nworker_rlimit_nofile 20000;\npid {folder}/nginx.pid;\n\
         error_log {folder}/error.log warn;\n\
         events {{ worker_connections 16384; multi_accept on; }}\n\
         http {{\n\
         \x20 access_log off;\n  sendfile on;\n  tcp_nopush on;\n  default_type text/html;\n\
         \x20 keepalive_timeout 300s;\n  keepalive_requests 1000000000;\n  open_file_cache max=100 inactive=1h;\n\
         \x20 client_body_temp_path {folder}/body;\n  proxy_temp_path {folder}/proxy;\n\
         \x20 fastcgi_temp_path {folder}/fastcgi;\n  uwsgi_temp_path {folder}/uwsgi;\n  scgi_temp_path {folder}/scgi;\n\
         \x20 server {{ listen 127.0.0.1:{port} backlog=4096; root {folder}/www; }}\n}}\n"
    )
}

fn free_port() -> Result<u16, String> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("no free port: {error}"))?;
    listener.local_addr().map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// Waits until every file is served in its full length.
fn ready(process: &mut Group, port: u16) -> Result<(), String> {
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
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        return Err(std::io::Error::other(String::from_utf8_lossy(line).into_owned()));
    }
    Ok((answer.len() - head) as u64)
}
