//! A front as a process: started, asked, looked at, ended.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A front, ended when this is dropped.
#[derive(Debug)]
pub struct Front {
    child: Child,
    /// Its address as it printed it.
    pub url: String,
    port: u16,
    token: String,
}

impl Front {
    /// Starts one on a directory of runs.
    pub fn start(webstone: &Path, runs_dir: &Path) -> Result<Front, String> {
        let mut command = Command::new(webstone);
        command.args(["--quiet", "ui", "--runs-dir"]).arg(runs_dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", webstone.display()))?;
        let mut url = String::new();
        let out = child.stdout.take().ok_or("the front has no output")?;
        BufReader::new(out).read_line(&mut url).map_err(|error| error.to_string())?;
        let url = url.trim().to_owned();
        let (address, token) = url.split_once("/#token=").ok_or("the front printed no address")?;
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("no port")?;
        let token = token.to_owned();
        Ok(Front { child, port, token, url })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The address of a page.
    pub fn page(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What it answers to a read.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        let mut stream = self.ask(&format!("GET {path} HTTP/1.1\r\nConnection: close\r\n"), "")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(|_| answer)
    }

    /// What it answers to a change.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nConnection: close\r\nOrigin: http://127.0.0.1:{}\r\nSec-Fetch-Site: same-origin\r\n\
             Content-Type: application/json\r\n",
            self.port
        );
        let mut stream = self.ask(&head, &body.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(|_| answer)
    }

    /// The stream of a run as a browser reads it; to its end, or until it is dropped.
    pub fn stream(&self, id: &str) -> Result<TcpStream, String> {
        stream_of(self.port, &self.token, id)
    }

    fn ask(&self, head: &str, body: &str) -> Result<TcpStream, String> {
        ask(self.port, &self.token, head, body)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(port: u16, token: &str, head: &str, body: &str) -> Result<TcpStream, String> {
    let connected = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        write!(
            stream,
            "{head}Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        Ok(stream)
    });
    connected.map_err(|error| error.to_string())
}

/// The stream of a run of any front.
pub fn stream_of(port: u16, token: &str, id: &str) -> Result<TcpStream, String> {
    ask(port, token, &format!("GET /api/live/{id} HTTP/1.1\r\n"), "")
}

/// CPU time of a process in seconds: `/proc/PID/stat`, fields 14 and 15, in clock ticks of 10 ms.
pub fn cpu_seconds(process: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<f64>().ok();
    Some((field()? + field()?) / 100.0)
}

/// When a process began, in clock ticks: field 22.
pub fn began(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Names, CPUs (as the kernel lists them) and CPU time in nanoseconds of a process's threads.
pub fn threads(process: u32) -> Vec<(String, String, u64)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().filter_map(Result::ok);
    let look = |task: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
        let status = read("status")?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
        let used = read("schedstat")?.split_whitespace().next()?.parse().ok()?;
        Some((read("comm")?.trim().to_owned(), cpus, used))
    };
    tasks.filter_map(look).collect()
}
