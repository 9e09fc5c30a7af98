//! What a server's processes hold between phases: open files, memory, threads, from `/proc`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use webstone_judge::workout::ServerState;

use webstone_lab::listeners::{self, Ports};
use webstone_lab::machine::Root;
use webstone_lab::measured::MeasuredServer;

/// How long a server may take to release what ended connections held.
const SETTLE: Duration = Duration::from_secs(5);
/// Time between two readings, and how many in a row must be equal.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const ALIKE: usize = 4;

/// The state when the number of descriptors has stopped changing, or after five seconds; `None` if no process is seen to listen.
pub(super) fn settled(root: &Root, ports: &Ports) -> Option<ServerState> {
    let start = Instant::now();
    let mut last = look(root, ports)?;
    let mut alike = 1;
    while alike < ALIKE && start.elapsed() < SETTLE {
        sleep(LOOK_EVERY);
        let now = look(root, ports)?;
        alike = if now.descriptors == last.descriptors { alike + 1 } else { 1 };
        last = now;
    }
    Some(last)
}

fn look(root: &Root, ports: &Ports) -> Option<ServerState> {
    let server = listeners::find(root, ports)?;
    let tree = server.processes();
    let present = tree.present();
    let first = tree.heads.iter().min().copied();
    Some(ServerState {
        head: first.map(|pid| (pid, listeners::started(root, pid).unwrap_or_default())),
        processes: present.processes,
        threads: present.threads,
        descriptors: present.descriptors,
        resident_bytes: tree.memory().resident,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    #[test]
    fn a_listener_is_seen_with_what_it_opens() {
        let root = Root::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ports = Ports::tcp([listener.local_addr().unwrap().port()]);
        // The generator never takes itself for the server.
        assert_eq!(look(&root, &ports), None);
        // The listening socket is the child's standard output; at a line it opens ten files more.
        let script = "read line; for n in 1 2 3 4 5 6 7 8 9 10; do exec {opened}</dev/null; done; read line";
        let mut child = Command::new("bash")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::from(OwnedFd::from(listener)))
            .spawn()
            .unwrap();
        let before = settled(&root, &ports);
        let own = || root.descriptors(child.id()).unwrap();
        let opened = own();
        child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        let start = Instant::now();
        while own() < opened + 10 && start.elapsed() < SETTLE {
            sleep(Duration::from_millis(20));
        }
        let (then, after) = (own(), look(&root, &ports));
        child.kill().unwrap();
        child.wait().unwrap();
        let (before, after) = (before.unwrap(), after.unwrap());
        assert_eq!(before.head.unwrap().0, child.id());
        assert!(before.head.unwrap().1 > 0 && before.resident_bytes > 0);
        assert_eq!(then, opened + 10);
        assert!(after.descriptors.unwrap() >= opened + 10);
        assert_eq!(look(&root, &ports), None, "its end is seen");
    }
}
