//! A server on this host that webstone did not start: the processes that listen on its port, their CPUs and use. It is measured
//! like the embedded server, as far as this user may see its processes.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use tracing::{info, warn};
use webstone_server::Counters;

pub use crate::listening_sockets::Ports;
use crate::listening_sockets::listening;
use crate::machine::{Root, after, allowed_cpus_of};
use crate::measured::MeasuredServer;
use crate::process_tree::ProcessTree;
use crate::process_use::{Stat, descendants};

/// The processes of a server, given by the roots of their process trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProcesses {
    root: Root,
    /// Where they listen.
    ports: Ports,
    heads: Vec<u32>,
    /// When each of the heads started, to know it from a later process of that number.
    started: Vec<Option<u64>>,
    /// CPUs that any of them may run on, ascending.
    pub cpus: Vec<u32>,
}

/// Programs that forward what arrives at their port to a server in a container or on another host, by the names that the kernel has of
/// them, 15 bytes at most.
const FORWARDERS: [&str; 14] = [
    "docker-proxy",
    // It listens itself, and leaves forwarding to the kernel, if it is told to do without docker-proxy.
    "dockerd",
    "rootlessport",
    "rootlesskit",
    "slirp4netns",
    "pasta",
    "pasta.avx2",
    "ssh",
    "sshd",
    "sshd-session",
    "kubectl",
    "socat",
    "systemd-socket-",
    "gvproxy",
];

/// A program that holds the ports of a server which listens elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarder {
    ports: BTreeSet<u16>,
    /// Its name.
    pub name: String,
}

/// `port 8080 is held by docker-proxy, which forwards it`.
impl fmt::Display for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        write!(f, "port {} is held by {}, which forwards it", ports.join(", "), self.name)
    }
}

/// The processes that listen on any of these ports; `None` if this user can see none, or only a forwarder.
pub fn find(root: &Root, ports: &Ports) -> Option<ServerProcesses> {
    find_or_forwarder(root, ports).ok().flatten()
}

/// The same.
///
/// # Errors
/// If a program listens that only forwards what arrives: what it uses is not what the server uses.
pub fn find_or_forwarder(root: &Root, ports: &Ports) -> Result<Option<ServerProcesses>, Forwarder> {
    let Some(sockets) = sockets(root, ports).filter(|sockets| !sockets.is_empty()) else { return Ok(None) };
    let own = std::process::id();
    let mut pids: Vec<u32> = root
        .names("/proc")
        .iter()
        .filter_map(|name| name.parse().ok())
        .filter(|pid| *pid != own && holds(root, *pid, &sockets))
        .collect();
    let parent = |pid: u32| status(root, pid, "PPid:")?.parse::<u32>().ok();
    // systemd keeps the sockets of the services that it starts on demand, and everything descends from it.
    let above: BTreeSet<u32> = std::iter::successors(parent(own), |pid| parent(*pid)).collect();
    if pids.iter().any(|pid| !above.contains(pid)) {
        pids.retain(|pid| !above.contains(pid));
    }
    let forwarding = |pid: &u32| {
        let name = root.lossy_text(&format!("/proc/{pid}/comm"))?;
        FORWARDERS.contains(&name.trim_end()).then(|| name.trim_end().to_owned())
    };
    let forwarder = pids.iter().find_map(forwarding);
    pids.retain(|pid| forwarding(pid).is_none());
    if let (Some(name), true) = (forwarder, pids.is_empty()) {
        return Err(Forwarder { ports: ports.numbers.clone(), name });
    }
    let heads: Vec<u32> = pids
        .iter()
        .copied()
        .filter(|pid| parent(*pid).is_none_or(|parent| !pids.contains(&parent)))
        .collect();
    // A parent that only waits, like nginx's master, may run anywhere; its children are pinned.
    let working: Vec<u32> =
        pids.iter().copied().filter(|pid| !pids.iter().any(|child| parent(*child) == Some(*pid))).collect();
    let cpus = working
        .iter()
        .filter_map(|pid| allowed_cpus_of(root, &pid.to_string()))
        .flatten()
        .collect::<BTreeSet<u32>>();
    Ok((!heads.is_empty()).then(|| ServerProcesses {
        root: root.clone(),
        ports: ports.clone(),
        started: heads.iter().map(|pid| started(root, *pid)).collect(),
        heads,
        cpus: cpus.into_iter().collect(),
    }))
}

/// Whether a descendant of a process listens on a port: false only if other processes are seen to listen.
pub(crate) fn is_held_by(root: &Root, port: u16, ancestor: u32) -> bool {
    let Some(sockets) = sockets(root, &Ports::tcp([port])) else { return true };
    if sockets.is_empty() {
        return false;
    }
    let ours = descendants(root, ancestor);
    let is_hidden = |pid: &u32| root.names(&format!("/proc/{pid}/fd")).is_empty();
    ours.iter().any(|pid| holds(root, *pid, &sockets) || is_hidden(pid))
}

/// When a process started, in ticks since the machine did; `None` of one that has ended, even if its parent has not waited for it.
pub fn started(root: &Root, pid: u32) -> Option<u64> {
    Stat::started(root, pid)
}

/// The sockets that listen on any of these ports, of any process, by inode.
pub(crate) fn inodes(root: &Root, ports: &Ports) -> BTreeSet<u64> {
    listening(root, ports).unwrap_or_default().into_iter().collect()
}

impl ServerProcesses {
    /// Them and all that descend from them.
    pub(crate) fn tree(&self) -> ProcessTree {
        ProcessTree { root: self.root.clone(), heads: self.heads.clone(), with_heads: true }
    }

    /// Whether the heads are those that were found.
    fn are_the_same(&self) -> bool {
        let mut known = self.heads.iter().zip(&self.started);
        known.all(|(pid, known)| known.is_some() && *known == started(&self.root, *pid))
    }
}

/// The listening sockets of these ports, as `/proc/<pid>/fd` names them; `None` if the kernel does not report them.
fn sockets(root: &Root, ports: &Ports) -> Option<BTreeSet<PathBuf>> {
    let inodes = listening(root, ports)?;
    Some(inodes.iter().map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect())
}

impl MeasuredServer for ServerProcesses {
    fn exit(&mut self) -> Option<String> {
        // It is not ours: its answers show whether it still runs.
        None
    }

    /// Finds it again if it was restarted.
    fn level_starts(&mut self) {
        if self.are_the_same() {
            return;
        }
        match find(&self.root, &self.ports) {
            Some(found) => {
                info!(before = ?self.heads, now = ?found.heads, "the server was restarted");
                *self = found;
            }
            None => {
                warn!(before = ?self.heads, "the server's processes are gone, and none is seen to listen")
            }
        }
    }

    fn processes(&self) -> ProcessTree {
        self.tree()
    }

    fn counted(&self) -> Option<Counters> {
        None
    }
}

fn holds(root: &Root, pid: u32, sockets: &BTreeSet<PathBuf>) -> bool {
    let directory = format!("/proc/{pid}/fd");
    let names = root.names(&directory);
    names
        .iter()
        .filter_map(|name| root.link(&format!("{directory}/{name}")))
        .any(|link| sockets.contains(&link))
}

fn status(root: &Root, pid: u32, field: &str) -> Option<String> {
    let text = root.text(&format!("/proc/{pid}/status"))?;
    after(&text, field).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listening_sockets::tests::TABLE;
    use crate::machine::tests::root_with;
    use std::net::TcpListener;

    #[test]
    fn a_master_and_its_pinned_workers_are_one_server() {
        let (keep, root) = root_with(&[
            ("/proc/net/tcp", TABLE),
            ("/proc/7/status", "Name: nginx\nPPid:\t1\nCpus_allowed_list:\t0-3\n"),
            ("/proc/8/status", "PPid:\t7\nCpus_allowed_list:\t0\n"),
            ("/proc/9/status", "PPid:\t7\nCpus_allowed_list:\t1\n"),
            ("/proc/10/status", "PPid:\t1\nCpus_allowed_list:\t2\n"),
        ]);
        for (pid, socket) in
            [(7, "socket:[4711]"), (8, "socket:[4711]"), (9, "socket:[4711]"), (10, "socket:[4713]")]
        {
            let directory = keep.path().join(format!("proc/{pid}/fd"));
            std::fs::create_dir_all(&directory).unwrap();
            std::os::unix::fs::symlink(socket, directory.join("5")).unwrap();
        }
        let server = find(&root, &Ports::tcp([8080])).unwrap();
        assert_eq!((server.heads, server.cpus), (vec![7], vec![0, 1]));
        assert_eq!(find(&root, &Ports::tcp([443])), None);
    }

    /// With all that this program descends from, PID 1 would be every process of the host. CPU 1 is switched off.
    #[test]
    fn who_only_keeps_the_socket_of_a_service_is_not_the_server() {
        let own = std::process::id();
        let own_status = (format!("/proc/{own}/status"), "PPid:\t1\n".to_owned());
        let held = |pids: &[u32]| {
            let (keep, root) = root_with(&[
                ("/proc/net/tcp", TABLE),
                ("/proc/1/status", "Name: systemd\nPPid:\t0\nCpus_allowed_list:\t0-3\n"),
                ("/proc/7/status", "PPid:\t1\nCpus_allowed_list:\t1-2\n"),
                ("/sys/devices/system/cpu/online", "0,2-3\n"),
                (own_status.0.as_str(), own_status.1.as_str()),
            ]);
            for pid in pids {
                let directory = keep.path().join(format!("proc/{pid}/fd"));
                std::fs::create_dir_all(&directory).unwrap();
                std::os::unix::fs::symlink("socket:[4711]", directory.join("5")).unwrap();
            }
            find(&root, &Ports::tcp([8080])).map(|server| (server.heads, server.cpus))
        };
        assert_eq!(held(&[1, 7]), Some((vec![7], vec![2])));
        assert_eq!(held(&[1]), Some((vec![1], vec![0, 2, 3])));
    }

    #[test]
    fn a_program_that_forwards_the_port_is_not_the_server() {
        let listening = |names: &[(u32, &str)]| {
            let (keep, root) = root_with(&[("/proc/net/tcp", TABLE)]);
            for (pid, name) in names {
                let directory = keep.path().join(format!("proc/{pid}"));
                std::fs::create_dir_all(directory.join("fd")).unwrap();
                std::fs::write(directory.join("comm"), format!("{name}\n")).unwrap();
                std::os::unix::fs::symlink("socket:[4711]", directory.join("fd/5")).unwrap();
            }
            find_or_forwarder(&root, &Ports::tcp([8080])).map(|server| server.map(|server| server.heads))
        };
        assert_eq!(listening(&[(7, "nginx"), (8, "docker-proxy-x")]), Ok(Some(vec![7, 8])));
        let forwarder = listening(&[(7, "docker-proxy"), (8, "docker-proxy")]).unwrap_err();
        assert_eq!(forwarder.to_string(), "port 8080 is held by docker-proxy, which forwards it");
        // One that a server started has inherited its socket.
        assert_eq!(listening(&[(7, "nginx"), (8, "ssh")]), Ok(Some(vec![7])));
        assert_eq!(listening(&[]), Ok(None));
    }

    #[test]
    fn a_server_that_was_restarted_is_found_again_where_a_level_starts() {
        let (keep, root) = root_with(&[("/proc/net/tcp", TABLE)]);
        let process = |pid: u32, state: &str, started: u64| {
            let directory = keep.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(directory.join("fd")).unwrap();
            let stat = format!("{pid} (a b) {state} {}{started} 0", "0 ".repeat(18));
            std::fs::write(directory.join("stat"), stat).unwrap();
            std::fs::write(directory.join("status"), "PPid:\t1\nCpus_allowed_list:\t0-1\n").unwrap();
            let _ = std::os::unix::fs::symlink("socket:[4711]", directory.join("fd/5"));
        };
        let ended = |pid: u32| std::fs::remove_dir_all(keep.path().join(format!("proc/{pid}"))).unwrap();
        process(7, "S", 100);
        let mut server = find(&root, &Ports::tcp([8080])).unwrap();
        let mut heads = || {
            server.level_starts();
            server.tree().heads
        };
        assert_eq!(heads(), [7]);
        // Nobody listens yet: what was known stays, and is looked for again at the next level.
        ended(7);
        assert_eq!(heads(), [7]);
        process(12, "S", 200);
        assert_eq!(heads(), [12]);
        // Its parent has not waited for it, so it is still listed, without its files.
        process(12, "Z", 200);
        std::fs::remove_dir_all(keep.path().join("proc/12/fd")).unwrap();
        process(13, "S", 300);
        assert_eq!(heads(), [13]);
        // Another process has its number, and beside it a server listens.
        process(13, "S", 400);
        std::fs::remove_dir_all(keep.path().join("proc/13/fd")).unwrap();
        process(14, "S", 500);
        assert_eq!(heads(), [14]);
    }

    #[test]
    fn a_port_is_held_by_a_descendant_or_by_somebody_else() {
        let (keep, root) = root_with(&[
            ("/proc/net/tcp", TABLE),
            ("/proc/7/task/7/children", "8"),
            ("/proc/8/fd/0", ""),
            ("/proc/9/task/9/children", "10"),
            ("/proc/10/fd/0", ""),
        ]);
        std::os::unix::fs::symlink("socket:[4711]", keep.path().join("proc/8/fd/5")).unwrap();
        let held = [7, 9].map(|ancestor| is_held_by(&root, 8080, ancestor));
        assert_eq!((held, is_held_by(&root, 443, 7)), ([true, false], false));
    }

    #[test]
    fn this_process_is_never_the_server_that_it_measures() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(find(&Root::default(), &Ports::tcp([port])), None);
    }
}
