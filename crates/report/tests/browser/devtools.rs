//! A headless Chromium, driven by its DevTools protocol. `--remote-debugging-pipe` speaks it over two descriptors, as
//! JSON between NUL bytes, so that neither a port nor a WebSocket is needed; named pipes bring them there.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for any answer: a machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(300);
const NAMES: [&str; 2] = ["chromium", "google-chrome"];

/// A running browser with one page.
pub struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    session: String,
    next: u64,
    /// Everything that the page reported on its own.
    pub events: Vec<Value>,
    _directory: tempfile::TempDir,
}

/// Path of the browser, where one is installed.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |f| f.join(name))).find(|file| file.is_file())
}

impl Browser {
    pub fn start(program: &Path) -> Browser {
        let directory = tempfile::tempdir().unwrap();
        let fifo = |name: &str| {
            let path = directory.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let (to, from) = (fifo("to"), fifo("from"));
        // The shell opens the pipes as descriptors 3 and 4, where the browser expects them. Both are opened for reading and writing:
        // otherwise each end would wait for the other.
        let script = "exec \"$0\" \"$@\" 3<>\"$TO\" 4<>\"$FROM\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            // Keys that come before the first picture would be dropped.
            .args(["--allow-pre-commit-input", "--disable-features=PaintHolding"])
            .args(["--disable-extensions", "--disable-background-networking", "--disable-component-update"])
            .args(["--remote-debugging-pipe", "--force-color-profile=srgb", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
            .env("TO", &to)
            .env("FROM", &from)
            .env("HOME", directory.path())
            .env("TMPDIR", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let commands = OpenOptions::new().read(true).write(true).open(&to).unwrap();
        let answers = OpenOptions::new().read(true).write(true).open(&from).unwrap();
        let messages = reader(answers);
        let mut browser = Browser {
            child,
            commands,
            messages,
            session: String::new(),
            next: 0,
            events: Vec::new(),
            _directory: directory,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        let answer = self.wait(&format!("the answer to {method}"), |message| message["id"] == json!(id));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Opens a file and waits until it is loaded; events from before are forgotten.
    pub fn open(&mut self, file: &Path) {
        self.open_url(&format!("file://{}", file.display()));
    }

    /// The same with any address.
    pub fn open_url(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }));
        if !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.wait("the page", |message| message["method"] == "Page.loadEventFired");
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate(expression) != Value::Bool(true) {
            if Instant::now() >= end {
                let shown = self.evaluate("document.body.innerText.slice(0, 600)");
                panic!("not within {PATIENCE:?}: {expression}\n{shown}");
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Types text where the focus is.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Width and height of the page, and which theme the system asks for.
    pub fn show_as(&mut self, width: u32, height: u32, theme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features =
            json!({ "media": "screen", "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Lays the page out as on paper: A4 with margins of 10 mm, at 96 pixels per inch.
    pub fn show_printed(&mut self) {
        let size = json!({ "width": 718, "height": 1047, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    }

    /// Presses a key, by its name in the DOM, where the focus is.
    pub fn press(&mut self, key: &str) {
        let codes = [
            ("Tab", 9),
            ("Enter", 13),
            ("Escape", 27),
            (" ", 32),
            ("End", 35),
            ("Home", 36),
            ("ArrowDown", 40),
        ];
        let code = codes.iter().find(|(name, _)| *name == key).map_or(0, |(_, code)| *code);
        let text = match key {
            "Enter" => "\r",
            _ if key.chars().count() == 1 => key,
            _ => "",
        };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let down = json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", down);
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", up);
    }

    /// Drags the mouse from one place of the window to another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        for (kind, (x, y), buttons) in [
            ("mouseMoved", from, 0),
            ("mousePressed", from, 1),
            ("mouseMoved", to, 1),
            ("mouseReleased", to, 0),
        ] {
            let button = if kind == "mouseMoved" && buttons == 0 { "none" } else { "left" };
            let event = json!({
                "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1
            });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Keeps a picture of the whole page, where a directory for pictures is named by the environment.
    pub fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("WEBSTONE_PICTURES") else { return };
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call("Page.captureScreenshot", params);
        let bytes = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            picture["data"].as_str().unwrap(),
        );
        std::fs::write(Path::new(&directory).join(name), bytes.unwrap()).unwrap();
    }

    #[track_caller]
    fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.messages.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(message) if wanted(&message) => {
                    if message.get("id").is_none() {
                        self.events.push(message.clone());
                    }
                    return message;
                }
                Ok(message) => self.events.push(message),
                Err(RecvTimeoutError::Timeout) => panic!("{what} did not come within {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser ended before {what}"),
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser is a group of processes of its own, and all of them end with it.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}

/// Messages as they come, on a thread, so that waiting for one can end.
fn reader(mut pipe: File) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        while let Ok(read) = pipe.read(&mut chunk) {
            if read == 0 {
                return;
            }
            buffer.extend_from_slice(&chunk[..read]);
            while let Some(end) = buffer.iter().position(|byte| *byte == 0) {
                let message: Vec<u8> = buffer.drain(..=end).collect();
                let Ok(message) = serde_json::from_slice(&message[..end]) else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        }
    });
    receiver
}
