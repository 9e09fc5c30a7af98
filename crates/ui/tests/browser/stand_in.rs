//! A front whose pages are the real one's, header fields and all, and whose answers are those of `answers.json`: so each page can be
//! seen in each of its states.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use webstone_model::spec::RunSpec;
use webstone_model::toml_text;
use webstone_ui::{Bound, Desk, KnownServer, Options, Planned, Problem};

/// What a hostile record may have in the place of any text: markup, a script, an address, a change of direction.
const HOSTILE: &str = "\"><img src=x onerror=window.broken=1><script>window.broken=1</script>{{7*7}}\u{202e}javascript:window.broken=1";
/// Keys whose values nobody else writes: words that the front itself chooses, instants, addresses of runs.
const CHOSEN: [&str; 13] = [
    "state", "standing", "kind", "started", "time", "at_run", "id", "toml", "spec", "command", "name",
    "schema", "run",
];

struct Plain;

impl Desk for Plain {
    fn plan(&self, _: &str, text: &str) -> Result<Planned, Problem> {
        match toml_text::read::<RunSpec>(text) {
            Ok(spec) => {
                Ok(Planned { spec, cells: Vec::new(), rounds: 0, warnings: Vec::new(), command_line: None })
            }
            Err(error) => {
                Err(Problem { line: Some(error.line(text)), message: error.rule, ..Problem::default() })
            }
        }
    }

    fn servers(&self) -> Vec<KnownServer> {
        let hint = String::new;
        vec![
            KnownServer { name: "reference", installed: Some("webstone".to_owned()), hint: hint() },
            KnownServer { name: "nginx", installed: Some("nginx/1.22.1".to_owned()), hint: hint() },
        ]
    }

    fn workloads(&self) -> Vec<(String, String)> {
        vec![("standard".to_owned(), "five files".to_owned())]
    }

    fn calibration(&self) -> Option<String> {
        None
    }

    fn version(&self) -> String {
        "webstone 0".to_owned()
    }
}

/// The real front, on a directory of runs, until it is dropped.
pub struct Real {
    pub port: u16,
    pub token: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Real {
    pub fn start(runs_dir: &Path) -> Real {
        let options = Options {
            port: 0,
            runs_dir: runs_dir.to_owned(),
            program: "/bin/false".into(),
            read_only: false,
            allow_commands: false,
            until_idle: false,
        };
        let bound = Bound::new(options, Arc::new(Plain)).unwrap();
        let (address, token) = bound.url().split_once("/#token=").unwrap();
        let (port, token) = (address.rsplit(':').next().unwrap().parse().unwrap(), token.to_owned());
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || bound.serve(|| is_over.load(Ordering::Relaxed)).unwrap());
        Real { port, token, ends, thread: Some(thread) }
    }

    /// An answer with its head, as it came.
    fn answer(&self, path: &str) -> Vec<u8> {
        let (port, token) = (self.port, &self.token);
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// What the stand-in answers with now, and what it was asked.
#[derive(Default)]
struct Stage {
    scenes: Vec<String>,
    is_hostile: bool,
    asked: Vec<(String, Value)>,
    /// Streams that have not ended.
    held: Vec<TcpStream>,
}

pub struct StandIn {
    pub port: u16,
    pub token: String,
    stage: Arc<Mutex<Stage>>,
}

impl StandIn {
    pub fn start(real: Arc<Real>) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let all: Value = serde_json::from_str(include_str!("answers.json")).unwrap();
        let form = real.answer("/api/form");
        let start = form.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let form: Value = serde_json::from_slice(&form[start..]).unwrap();
        let all = Arc::new((all, form["schema"].clone()));
        let stage = Arc::new(Mutex::new(Stage::default()));
        let shared = Arc::clone(&stage);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (real, stage, all) = (Arc::clone(&real), Arc::clone(&shared), Arc::clone(&all));
                std::thread::spawn(move || {
                    // A browser opens connections that it does not use, and ends others when a page is left.
                    let _ = serve(stream, &real, &stage, &all);
                });
            }
        });
        StandIn { port, token: "a".repeat(64), stage }
    }

    /// Sets what there is to see: scenes of `answers.json`, the first that has an answer; `usual` has all others.
    pub fn set(&self, scenes: &[&str]) {
        let mut stage = self.stage.lock().unwrap();
        let is_hostile = scenes.contains(&"hostile");
        *stage =
            Stage { scenes: scenes.iter().map(|&s| s.to_owned()).collect(), is_hostile, ..Stage::default() };
    }

    /// What was sent to an address of the interface, the last time.
    pub fn sent(&self, key: &str) -> Option<Value> {
        self.stage
            .lock()
            .unwrap()
            .asked
            .iter()
            .rev()
            .find(|(one, _)| one == key)
            .map(|(_, body)| body.clone())
    }
}

fn serve(
    mut stream: TcpStream,
    real: &Real,
    stage: &Mutex<Stage>,
    all: &(Value, Value),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let field = |name: &str| {
        head.iter().find_map(|line| {
            line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v.to_owned())
        })
    };
    let mut words = head.first().map(String::as_str).unwrap_or_default().split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(()) };
    let mut body = vec![0; field("content-length").and_then(|n| n.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let path = target.split('?').next().unwrap_or_default();
    if path.starts_with("/render/") {
        let page = "<!doctype html><html lang=en><title>Report</title><h1>Report</h1>\
            <script>try { parent.document.title = 'broken'; } catch { document.body.append('kept out'); }</script>";
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Security-Policy: sandbox allow-scripts\r\nConnection: close\r\n\r\n{page}"
        );
    }
    if !path.starts_with("/api/") {
        return stream.write_all(&real.answer(target));
    }
    if field("authorization") != Some(format!("Bearer {}", "a".repeat(64))) {
        return reply(&mut stream, 401, &json!({ "error": "the token is missing or wrong" }));
    }
    let key = format!("{method} {path}");
    let mut stage = stage.lock().unwrap();
    stage.asked.push((key.clone(), serde_json::from_slice(&body).unwrap_or(Value::Null)));
    let scenes = stage.scenes.iter().map(String::as_str).chain(["usual"]);
    let Some(mut answer) = scenes.map(|scene| &all.0[scene][&key]).find(|answer| !answer.is_null()).cloned()
    else {
        return reply(&mut stream, 404, &json!({ "error": format!("there is nothing at {key}") }));
    };
    if stage.is_hostile {
        poison(&mut answer, "");
    }
    if key == "GET /api/form" && answer["body"].is_object() && answer["status"].is_null() {
        answer["body"]["schema"] = all.1.clone();
    }
    if let Some(lines) = answer["lines"].as_array() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n";
        // In one piece: a page that paints between two lines would not paint the second.
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        stream.write_all((head.to_owned() + &lines).as_bytes())?;
        if answer["holds"] == json!(true) {
            stage.held.push(stream);
        }
        return Ok(());
    }
    reply(&mut stream, answer["status"].as_u64().unwrap_or(200), &answer["body"])
}

fn reply(stream: &mut TcpStream, status: u64, body: &Value) -> std::io::Result<()> {
    let body = if status == 204 { String::new() } else { body.to_string() };
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Makes every text hostile that comes from a record, a program or another host.
fn poison(value: &mut Value, key: &str) {
    match value {
        Value::String(text) if !CHOSEN.contains(&key) => text.push_str(HOSTILE),
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| poison(value, key)),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, key)),
        _ => {}
    }
}
