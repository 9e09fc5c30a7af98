//! Programs of others: found, started, waited for, and stopped by their process identifier.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where a program is, or `None` with the reason printed.
pub(crate) fn find(name: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers out of an ordinary user's PATH.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file());
    if found.is_none() {
        println!("skipped: {name} is not installed (Debian's package {package})");
    }
    found
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server of somebody else, stopped when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) port: u16,
}

impl Running {
    /// Starts a server in the foreground and waits until it accepts connections.
    pub(crate) fn start(mut command: Command, port: u16) -> Running {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = child.try_wait().unwrap() {
                let mut why = String::new();
                child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
                panic!("{command:?} ended with {status}: {why}");
            }
            assert!(Instant::now() < until, "{command:?} does not accept on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Running { child, port }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM lets a server with several processes take its workers along.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let until = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > until {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Writes a file into a folder and gives its path.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
