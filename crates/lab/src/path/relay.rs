//! The relay of a path, a process of its own: it takes IP packets from a TUN device in the clients' network namespace and one in the
//! server's, and gives each to the other end when it is due, or never.
//!
//! Packets, not bytes of TCP: a lost one is lost for the kernel's TCP as well as for QUIC, and each retransmits it by its own rules. The
//! devices offer neither segmentation nor check sums, so that what is read is what would be on a wire: packets of at most the MTU.

use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use webstone_measure::host_use::DirectionUse;
use webstone_model::network_path::PathSpec;

use super::devices;
use super::direction::Direction;

/// The relay's message once the path is there.
pub(super) const READY: &str = "READY";
/// Packets that are read from one device before those that are due are sent.
const READ_AT_ONCE: usize = 64;
/// Longest IP packet.
const PACKET_BYTES: usize = 65_536;
/// The second direction draws its losses by another seed.
const OTHER_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a relay has to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    /// The path.
    pub path: PathSpec,
    /// Seed of its losses.
    pub seed: u64,
    /// Name of its devices.
    pub device: String,
    /// Address of clients.
    pub clients: IpAddr,
    /// Address of the server.
    pub server: IpAddr,
}

/// What it has done so far: the answer to each line on its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counted {
    /// CPU time of the process, in nanoseconds.
    pub(super) cpu_ns: u64,
    pub(super) to_server: DirectionUse,
    pub(super) to_clients: DirectionUse,
}

/// Makes the path and serves it until standard input ends. `told` gets each line that it says.
///
/// # Errors
/// If the path cannot be made, or a device fails.
pub fn relay(relay: &Relay, told: &mut dyn FnMut(&str)) -> io::Result<()> {
    let doing =
        |what: &'static str| move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let of_clients = webstone_engine::tun_device(&relay.device).map_err(doing("cannot open /dev/net/tun"))?;
    devices::up(&relay.device, relay.clients).map_err(doing("cannot set up the clients' device"))?;
    devices::own_network().map_err(doing("cannot make a network namespace for the server"))?;
    let of_server = webstone_engine::tun_device(&relay.device).map_err(doing("cannot open /dev/net/tun"))?;
    devices::up(&relay.device, relay.server).map_err(doing("cannot set up the server's device"))?;
    // Without permission packets leave up to 50 µs late, and the lateness shows it.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    told(READY);
    carry(relay, &of_clients, &of_server, told).map_err(doing("the path"))
}

fn carry(
    relay: &Relay,
    of_clients: &OwnedFd,
    of_server: &OwnedFd,
    told: &mut dyn FnMut(&str),
) -> io::Result<()> {
    let mut to_server = Direction::new(relay.path, relay.seed);
    let mut to_clients = Direction::new(relay.path, relay.seed ^ OTHER_SEED);
    let mut packet = vec![0; PACKET_BYTES];
    let readable = |event: &PollFd<'_>| !event.revents().is_empty();
    loop {
        send_due(&mut to_server, of_server)?;
        send_due(&mut to_clients, of_clients)?;
        let next_ns = [&to_server, &to_clients].into_iter().filter_map(Direction::due_ns).min();
        let patience = next_ns.map(|due_ns| timespec(due_ns.saturating_sub(now_ns())));
        let mut events = [of_clients.as_fd(), of_server.as_fd(), stdin()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut events, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [from_clients, from_server, asked] = events.each_ref().map(readable);
        let woke_ns = now_ns();
        if from_clients {
            read(of_clients, &mut packet, woke_ns, &mut to_server)?;
        }
        if from_server {
            read(of_server, &mut packet, woke_ns, &mut to_clients)?;
        }
        if asked {
            let mut lines = [0; 64];
            match rustix::io::read(stdin(), &mut lines) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            }
            let counted = Counted {
                cpu_ns: nanos(clock_gettime(ClockId::ProcessCPUTime)),
                to_server: to_server.counted,
                to_clients: to_clients.counted,
            };
            told(&serde_json::to_string(&counted)?);
            io::stdout().flush()?;
            (to_server.counted.late_ns_max, to_clients.counted.late_ns_max) = (0, 0);
        }
    }
}

/// Takes what has come, up to a number of packets.
fn read(from: &OwnedFd, packet: &mut [u8], woke_ns: u64, direction: &mut Direction) -> io::Result<()> {
    for _ in 0..READ_AT_ONCE {
        match rustix::io::read(from, &mut *packet) {
            Ok(length) if is_of_run(&packet[..length]) => {
                direction.take(&packet[..length], woke_ns, now_ns());
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether a packet is of the run. IPv6 sends others by itself on any device that is up: to groups, and from addresses of the link.
fn is_of_run(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => true,
        Some(6) => packet.len() >= 40 && packet[24] != 0xff && packet[8] != 0xfe,
        _ => false,
    }
}

fn send_due(direction: &mut Direction, to: &OwnedFd) -> io::Result<()> {
    while let Some(packet) = direction.next(now_ns()) {
        match rustix::io::write(to, packet) {
            Ok(_) => direction.left(now_ns()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn now_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
