//! A front on a free port, and the requests that tests send to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use webstone_model::spec::RunSpec;
use webstone_ui::{Bound, Desk, KnownServer, Options, Planned, Problem};

/// What the tests' command line knows: any testbed that is TOML of a specification.
pub(crate) struct Plain;

impl Desk for Plain {
    fn plan(&self, _: &str, testbed: &Path) -> Result<Planned, Problem> {
        let text = std::fs::read_to_string(testbed).unwrap();
        match toml::from_str::<RunSpec>(&text) {
            Ok(spec) => Ok(Planned { spec, cells: Vec::new(), rounds: 0, warnings: Vec::new() }),
            Err(error) => {
                let line = error.span().map(|span| text[..span.start].lines().count().max(1));
                Err(Problem { line, message: error.message().to_owned(), ..Problem::default() })
            }
        }
    }

    fn servers(&self) -> Vec<KnownServer> {
        vec![KnownServer { name: "reference", installed: Some("webstone".to_owned()), hint: String::new() }]
    }

    fn workloads(&self) -> Vec<(String, String)> {
        vec![("standard".to_owned(), "five files".to_owned())]
    }

    fn version(&self) -> String {
        "webstone 0".to_owned()
    }
}

/// A front that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) port: u16,
    pub(crate) token: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(runs_dir: &Path, program: PathBuf, read_only: bool) -> Running {
        let options = Options {
            port: 0,
            runs_dir: runs_dir.to_owned(),
            program,
            read_only,
            allow_commands: false,
            until_idle: false,
        };
        let bound = Bound::new(options, Arc::new(Plain)).unwrap();
        let (address, token) = bound.url().split_once("/#token=").unwrap();
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        let (token, ends) = (token.to_owned(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || bound.serve(|| is_over.load(Ordering::Relaxed)).unwrap());
        Running { port, token, ends, thread: Some(thread) }
    }

    /// Sends bytes as they are; the answer whole.
    pub(crate) fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        split(&self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.port, self.token
        )))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (port, token, body) = (self.port, &self.token, body.to_string());
        split(&self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n\
             Sec-Fetch-Site: same-origin\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )))
    }

    /// The lines of a stream, until one is wanted or the stream ends.
    pub(crate) fn stream(&self, path: &str, mut is_wanted: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.port, self.token
        )
        .unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            if line == "0" {
                break;
            }
            if let Ok(value @ Value::Object(_)) = serde_json::from_str(&line) {
                let wanted = is_wanted(&value);
                lines.push(value);
                if wanted {
                    break;
                }
            }
        }
        lines
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

pub(crate) fn split(answer: &str) -> (u16, Value) {
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}
