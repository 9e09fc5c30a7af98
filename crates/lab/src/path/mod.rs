//! A path between clients and a server that webstone starts: two network namespaces, and a relay between them that delays and loses
//! packets.
//!
//! The thread that makes a path moves into a network namespace of its own, with everything that it starts from then on: the load
//! generator's threads, checks, readers of the kernel's counters. It comes back when the last path is dropped, so paths stay on the thread
//! that made them. The server has the relay's other namespace ([`Path::within`]). Nothing of the host's own network is touched, and
//! everything is gone when the processes are: the relay and the server end with this program, however it ends.

mod devices;
mod direction;
mod relay;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::rc::{Rc, Weak};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tracing::info;
use webstone_measure::strict;
use webstone_model::network_path::PathSpec;
use webstone_model::record::PathUse;

pub(crate) use devices::counters;
use relay::{Counted, READY};
pub use relay::{Relay, relay};

use crate::attended::{Attended, POLL};
use crate::child::{CHILD, Child};
use crate::servers::{Refusal, only_inherited};

/// How long the relay may take to end by itself, then on SIGTERM.
const STOP_PATIENCE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(1)];
/// How long it may take to be ready.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to say what it has counted.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// Networks for benchmarks (RFC 2544, appendix C.2.2; RFC 5180, section 8); each path has one of 256.
const NETWORK: [u8; 2] = [198, 18];
const NETWORK_V6: [u16; 3] = [0x2001, 0x2, 0];

/// See the module comment.
pub struct Path {
    process: RefCell<Attended>,
    said: Receiver<String>,
    /// The server's namespace.
    there: OwnedFd,
    device: String,
    server: IpAddr,
    spec: PathSpec,
    // Last: the relay has ended when the thread goes back.
    network: Rc<Network>,
}

/// What has been counted so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathReading {
    at: Instant,
    counted: Counted,
    overflowed: u64,
}

impl Path {
    /// Makes a path: its namespaces, devices and relay, with addresses of IPv6 if `is_v6`. `program` is webstone's executable.
    ///
    /// # Errors
    /// With what is missing.
    pub fn start(program: PathBuf, spec: PathSpec, seed: u64, is_v6: bool) -> Result<Path, Refusal> {
        let network = Network::of_thread().map_err(|error| {
            refused(&format!("cannot make a network namespace: {}", webstone_store::without_number(&error)))
        })?;
        let number = network.next.replace(network.next.get().wrapping_add(1));
        let at = |host: u8| -> IpAddr {
            let ([a, b], [c, d, e]) = (NETWORK, NETWORK_V6);
            match is_v6 {
                false => Ipv4Addr::new(a, b, number, host).into(),
                true => Ipv6Addr::new(c, d, e, number.into(), 0, 0, 0, host.into()).into(),
            }
        };
        let relay =
            Relay { path: spec, seed, device: format!("path{number}"), clients: at(1), server: at(2) };
        let (device, server) = (relay.device.clone(), relay.server);
        let mut command = Command::new(&program);
        command.arg(CHILD);
        only_inherited(&mut command);
        let not_started = |error: io::Error| {
            refused(&format!("cannot start its relay: {}", webstone_store::without_number(&error)))
        };
        let (mut process, said) = Attended::start(command, STOP_PATIENCE).map_err(not_started)?;
        if let Some(stdin) = process.stdin() {
            Child::Relay(relay).tell(stdin).map_err(not_started)?;
        }
        wait_until_ready(&mut process, &said)?;
        let there = File::open(format!("/proc/{}/ns/net", process.pid())).map_err(not_started)?.into();
        info!(pid = process.pid(), path = %spec, device, "path is ready");
        Ok(Path { process: RefCell::new(process), said, there, device, server, spec, network })
    }

    /// The server's address.
    pub fn server(&self) -> IpAddr {
        self.server
    }

    /// The device over which clients reach it.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The path.
    pub fn spec(&self) -> PathSpec {
        self.spec
    }

    /// Does something in the server's network: processes and threads that it starts stay there.
    pub fn within<T>(&self, what: impl FnOnce() -> T) -> T {
        struct Back<'a>(&'a Network);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                enter(&self.0.own).expect("the thread came from there, with the same rights");
            }
        }
        enter(&self.there).expect("its process lives, or its descriptor keeps it");
        let _back = Back(&self.network);
        what()
    }

    /// How the relay ended, if it did.
    pub fn exit(&self) -> Option<String> {
        let exit = self.process.borrow_mut().exit();
        exit.map(|exit| format!("the relay of the path ended during the run: {exit}"))
    }

    /// What has been counted so far; `None` if the relay does not answer.
    pub(crate) fn reading(&self) -> Option<PathReading> {
        let mut process = self.process.borrow_mut();
        // An answer that came too late for its own question would be taken for the one to this.
        while self.said.try_recv().is_ok() {}
        process.stdin()?.write_all(b"\n").ok()?;
        let line = self.said.recv_timeout(ANSWER_PATIENCE).ok()?;
        let at = Instant::now();
        let counted = strict::json(line.as_bytes()).ok()?;
        let overflowed = || devices::overflowed(&self.device);
        Some(PathReading { at, counted, overflowed: overflowed() + self.within(overflowed) })
    }
}

impl PathReading {
    /// What was done from this reading to a later one.
    pub(crate) fn until(&self, later: &PathReading) -> PathUse {
        PathUse {
            elapsed_ns: later.at.saturating_duration_since(self.at).as_nanos() as u64,
            cpu_ns: later.counted.cpu_ns.saturating_sub(self.counted.cpu_ns),
            overflowed: later.overflowed.saturating_sub(self.overflowed),
            to_server: later.counted.to_server.since(self.counted.to_server),
            to_clients: later.counted.to_clients.since(self.counted.to_clients),
        }
    }
}

fn refused(what: &str) -> Refusal {
    Refusal {
        what: format!("server.path: {what}"),
        hint: "a path needs CAP_SYS_ADMIN, CAP_NET_ADMIN and /dev/net/tun: run as root, in a container with --cap-add SYS_ADMIN \
               --cap-add NET_ADMIN --device /dev/net/tun, or as another user with `unshare --user --map-root-user --net` before \
               the command"
            .to_owned(),
    }
}

fn wait_until_ready(process: &mut Attended, said: &Receiver<String>) -> Result<(), Refusal> {
    let until = Instant::now() + START_PATIENCE;
    loop {
        match said.recv_timeout(POLL) {
            Ok(line) if line == READY => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
            _ => {}
        }
        if let Some(exit) = process.exit() {
            let why = exit.stderr.first().cloned().unwrap_or_else(|| exit.to_string());
            return Err(refused(why.strip_prefix("error: ").unwrap_or(&why)));
        }
        if Instant::now() >= until {
            return Err(refused(&format!("its relay was not ready within {START_PATIENCE:?}")));
        }
    }
}

/// The network namespace that a thread is in while it has paths.
struct Network {
    before: OwnedFd,
    own: OwnedFd,
    /// Number of the next path.
    next: Cell<u8>,
}

thread_local! {
    static OF_THREAD: RefCell<Weak<Network>> = const { RefCell::new(Weak::new()) };
}

impl Network {
    /// The thread's, which it is in from now on.
    fn of_thread() -> io::Result<Rc<Network>> {
        OF_THREAD.with_borrow_mut(|known| {
            if let Some(network) = known.upgrade() {
                return Ok(network);
            }
            let current = || Ok::<_, io::Error>(File::open("/proc/thread-self/ns/net")?.into());
            let before = current()?;
            devices::own_network().inspect_err(|_| drop(enter(&before)))?;
            let network = Rc::new(Network { before, own: current()?, next: Cell::new(0) });
            *known = Rc::downgrade(&network);
            Ok(network)
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // It came from there, with the same rights.
        let _ = enter(&self.before);
    }
}

fn enter(network: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?)
}
