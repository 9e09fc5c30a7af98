//! What this host, the server's processes and those of its origin did while a window was open: read where it opens and where it
//! closes, and sampled in between for what the kernel keeps no peak of. The cost of sampling is measured, too.
//!
//! The thread that watches the level calls `look` whenever it checks the level itself; what is due then is decided here.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use webstone_engine::{Control, Echo};
use webstone_judge::plausible;
use webstone_model::event::Phase;
use webstone_model::record::{CpuWatch, HostUse, OriginCounts, OriginUse, ServerUse};
use webstone_server::Counters;

use crate::aside::Aside;
use crate::cpu_watch::Watch;
use crate::environment::is_virtual;
use crate::host_use::HostReading;
use crate::listeners::Ports;
use crate::machine::Root;
use crate::origin::View;
use crate::path::Path;
use crate::process_tree::{Memory, Present, ProcessTree, TreeReading};
use webstone_store::clock::own_cpu_time;

/// Pause between two samples while the window is open.
const PAUSE: Duration = Duration::from_secs(1);
/// A sample is followed by a pause of at least this many times its CPU time: its share stays below a thousandth.
const PAUSE_PER_COST: u32 = 1000;
/// Without a warm-up, a reading before the level counts for the window if it opened within this time: nothing has to be read
/// while its clients are at work.
const READ_BEFORE_MAX: Duration = Duration::from_millis(50);
/// How long before the window opens everything is read: it takes some milliseconds.
pub const SOON: Duration = Duration::from_millis(50);
/// How long before the window opens servers are read.
const SHORTLY: Duration = Duration::from_millis(2);
/// CPU time of a program on another CPU is known as of the last timer interrupt, at most 10 ms ago. In a window shorter
/// than `SHORT` that matters, so there the use by others is read this much later.
const TIMER: Duration = Duration::from_millis(10);
const SHORT: Duration = Duration::from_secs(1);

/// Why a window has no figures of a server that was there when it opened.
const SERVER_ENDED: &str = "the server's processes ended or were replaced in this window";

/// What a window monitors.
pub struct Watched<'a> {
    /// The server's processes, where they can be seen.
    pub server: Option<ProcessTree>,
    /// The origin, where it is a proxy.
    pub origin: Option<View>,
    /// Whether the window opens before the first request: there is no warm-up.
    pub from_start: bool,
    /// Network interfaces towards the target.
    pub links: &'a BTreeSet<String>,
    /// CPUs of this host that the server and its origin may run on, as far as they are known.
    pub cpus: Vec<u32>,
    /// Addresses of the target, where its clients are on this host.
    pub targets: &'a BTreeSet<SocketAddr>,
    /// Ports that the server listens on, if it is on this host.
    pub listening: Ports,
    /// The path to the server, if webstone made one.
    pub path: Option<Rc<Path>>,
    /// Echoes of the workers, for `cpus`. Used on virtual machines only.
    pub echoes: Vec<Echo>,
}

/// The processes of a server over a window.
#[derive(Default)]
struct Processes {
    tree: Option<ProcessTree>,
    opened: Option<(Instant, TreeReading)>,
    closed: Option<(Instant, TreeReading)>,
    /// They were there when the window opened, and not when it closed.
    have_ended: bool,
    /// The most that was there at any look.
    present: Present,
    memory: Memory,
}

/// What the processes of a server used from one reading to a later one.
fn used_until(before: &TreeReading, now: &TreeReading) -> ServerUse {
    let cpu = now.cpu.since(before.cpu);
    ServerUse {
        user_ns: cpu.user_ns,
        system_ns: cpu.system_ns,
        processes: Some(before.until(now, Present::default(), Memory::default())),
        ..ServerUse::default()
    }
}

impl Processes {
    fn of_tree(tree: Option<ProcessTree>) -> Processes {
        let mut processes = Processes { tree, ..Processes::default() };
        processes.open();
        processes
    }

    fn reading(&self) -> Option<(Instant, TreeReading)> {
        // Before it is taken: on a busy machine, taking it may itself be interrupted.
        let at = Instant::now();
        Some((at, self.tree.as_ref()?.reading()?))
    }

    /// The reading with which the window, and so its first slice, begins.
    fn at_opening(&self) -> Option<TreeReading> {
        self.opened.clone().map(|(_, reading)| reading)
    }

    /// The reading with which the window closed, or one of now.
    fn at_slice(&self) -> Option<TreeReading> {
        match &self.closed {
            Some((_, reading)) => Some(reading.clone()),
            None => self.tree.as_ref()?.reading(),
        }
    }

    fn open(&mut self) {
        self.opened = self.reading();
        self.present = Present::default();
    }

    fn look(&mut self) {
        let now = self.tree.as_ref().map(ProcessTree::present).unwrap_or_default();
        self.present = self.present.most(now);
    }

    fn close(&mut self) {
        self.closed = self.reading();
        let is_gone = self.closed.is_none() || self.tree.as_ref().is_some_and(ProcessTree::has_ended);
        self.have_ended = self.opened.is_some() && is_gone;
    }

    fn weigh(&mut self) {
        self.memory = self.tree.as_ref().map(ProcessTree::memory).unwrap_or_default();
    }

    /// What was used in the window. What the server says of itself is not in it.
    fn used(&self) -> ServerUse {
        let both = self.opened.as_ref().zip(self.closed.as_ref());
        let cpu = both.map(|((_, opened), (_, closed))| closed.cpu.since(opened.cpu)).unwrap_or_default();
        ServerUse {
            user_ns: cpu.user_ns,
            system_ns: cpu.system_ns,
            resident_bytes_max: self.memory.resident_max,
            processes: both.map(|((_, opened), (_, closed))| {
                opened.until(closed, self.present, self.memory).of_window()
            }),
            ..ServerUse::default()
        }
    }

    /// Time between its two readings.
    fn read_for(&self) -> Option<Duration> {
        let ((opened, _), (closed, _)) = self.opened.as_ref().zip(self.closed.as_ref())?;
        Some(closed.saturating_duration_since(*opened))
    }
}

/// What the origin had counted where the window opened and where it closed.
struct Counted {
    /// Of the window, not of the level's start.
    is_of_window: bool,
    opened: Option<Counters>,
    closed: Option<Counters>,
}

impl Counted {
    fn between(&self) -> Option<OriginCounts> {
        let (opened, closed) = (self.opened.as_ref()?, self.closed.as_ref()?);
        self.is_of_window.then(|| Counted::from_to(opened, closed))
    }

    fn from_to(before: &Counters, after: &Counters) -> OriginCounts {
        let counted = after.since(before);
        OriginCounts {
            requests: counted.requests,
            not_modified: counted.status.redirection,
            connections: counted.accepted,
            body_bytes: counted.body_bytes_sent,
            sent_bytes: counted.bytes_sent,
            received_bytes: counted.bytes_received,
            elapsed_ns: counted.uptime_ns,
        }
    }
}

/// A window that is being monitored.
pub struct Window<'a> {
    watched: Watched<'a>,
    server: Processes,
    origin: Processes,
    counted: Counted,
    host: HostReading,
    /// When the server was read, by the clock that windows open by.
    read_ns: u64,
    is_virtual: bool,
    /// How often it was read between the announcement of the window and its opening.
    readings: u8,
    is_open: bool,
    /// Set once the level's threads run, because they would inherit it.
    aside: Option<Aside>,
    watch: Option<Watch>,
    stalls: Vec<CpuWatch>,
    host_closed: Option<HostReading>,
    /// What was read at the end of the last slice.
    slice: Option<SliceReading>,
    /// The longest that a packet left the path's relay too late, to the server and to clients, before the current slice.
    late_ns_max: [u64; 2],
    /// Of the slice that ended with the window.
    stalls_of_last: Vec<CpuWatch>,
    /// How often the server was read at the end of a slice, and was blocked then.
    slice_readings: (u64, u64),
    looks: u64,
    cost: Duration,
    next_look: Instant,
}

/// What was read at the end of a slice.
struct SliceReading {
    server: Option<TreeReading>,
    origin: Option<TreeReading>,
    counted: Option<Counters>,
    host: HostReading,
}

/// What was used in a slice of a window.
#[derive(Clone, Debug, Default)]
pub struct SliceUse {
    /// By this host: what is a sum.
    pub host: HostUse,
    /// By the server's processes; `None` where they cannot be seen.
    pub server: Option<ServerUse>,
    /// By the origin of a proxy, if there is one.
    pub origin: Option<OriginUse>,
}

/// What was used in a window.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// By this host.
    pub host: HostUse,
    /// When the first of the server's two readings had been taken, by [`Control::now_ns`].
    pub read_ns: u64,
    /// By the server, without what it says of itself.
    pub server: ServerUse,
    /// Time between the two readings of the server's processes; `None` where they could not be seen.
    pub server_read_for: Option<Duration>,
    /// The server's processes were there when the window opened, and not when it closed.
    pub server_ended: bool,
    /// By the origin, where there is one.
    pub origin: Option<OriginUse>,
}

impl Used {
    /// Leaves out the server's figures if its processes ended, or if its readings do not fit a window of this length, and says so: on a
    /// very busy machine a reading may come a second late and contain the work of another window.
    pub fn on_time(self, window_ns: u64) -> (Used, Option<String>) {
        if self.server_ended {
            return (Used { server: ServerUse::default(), ..self }, Some(SERVER_ENDED.to_owned()));
        }
        let Some(read_for) = self.server_read_for else { return (self, None) };
        if plausible::is_of_window(read_for.as_nanos() as u64, window_ns) {
            return (self, None);
        }
        let why = format!(
            "its counters were read over {:.2} s, and the window was {:.2} s long",
            read_for.as_secs_f64(),
            window_ns as f64 / 1e9
        );
        // The origin's are taken right after them.
        let origin = self.origin.map(|origin| OriginUse { server: None, ..origin });
        (Used { server: ServerUse::default(), origin, ..self }, Some(why))
    }
}

impl<'a> Window<'a> {
    /// A level is about to start. If it ends before its window is seen to open, counts begin here.
    pub fn before(watched: Watched<'a>) -> Window<'a> {
        let origin = watched.origin.as_ref();
        let mut window = Window {
            server: Processes::of_tree(watched.server.clone()),
            origin: Processes::of_tree(origin.and_then(|view| view.processes.clone())),
            counted: Counted {
                is_of_window: watched.from_start,
                opened: origin.and_then(View::counters),
                closed: None,
            },
            host: host_reading(&watched),
            watched,
            is_virtual: is_virtual(&Root::default()),
            read_ns: Control::now_ns(),
            readings: 0,
            is_open: false,
            aside: None,
            watch: None,
            stalls: Vec::new(),
            host_closed: None,
            slice: None,
            late_ns_max: [0; 2],
            stalls_of_last: Vec::new(),
            slice_readings: (0, 0),
            looks: 0,
            cost: Duration::ZERO,
            next_look: Instant::now(),
        };
        window.count(own_cpu_time());
        window
    }

    /// Whether `opens` must be called at the moment at which the window opens.
    pub fn waits_for_opening(&self) -> bool {
        self.watched.origin.is_some() && !self.counted.is_of_window
    }

    /// The window opens now: earlier counts of the origin do not belong to it. Clients may start at any moment, so nothing else
    /// is read here.
    pub fn opens(&mut self) {
        if self.waits_for_opening() {
            self.counted.is_of_window = true;
            self.counted.opened = self.watched.origin.as_ref().and_then(View::counters);
        }
    }

    /// The window opens after this time. Its first reading is made shortly before: it takes milliseconds of CPU time, which fall into
    /// the warm-up and not the window. Servers, which take least, are read again just before it opens.
    pub fn opens_in(&mut self, left: Duration) {
        let opens = Instant::now() + left;
        if self.until_read(left) != Some(Duration::ZERO) {
            return;
        }
        self.step_aside();
        let (server, origin) = (self.server.reading(), self.origin.reading());
        let read_ns = Control::now_ns();
        let host = (self.readings == 0).then(|| host_reading(&self.watched));
        // A thread that was interrupted may have read late.
        if Instant::now() > opens {
            return;
        }
        self.readings = if left <= SHORTLY { 2 } else { 1 };
        (self.server.opened, self.origin.opened, self.read_ns) = (server, origin, read_ns);
        if let Some(host) = host {
            self.host = host;
        }
    }

    fn step_aside(&mut self) {
        self.aside.get_or_insert_with(|| Aside::step(&self.watched.cpus));
    }

    /// Time until servers are to be read again, if the window opens after this time.
    pub fn until_read(&self, left: Duration) -> Option<Duration> {
        let before = match self.readings {
            0 => SOON,
            1 => SHORTLY,
            _ => return None,
        };
        (!self.is_open && !left.is_zero()).then(|| left.saturating_sub(before))
    }

    /// The level is in this phase.
    pub fn look(&mut self, phase: Phase) {
        let began = own_cpu_time();
        match phase {
            Phase::Measuring if !self.is_open => {
                self.is_open = true;
                self.step_aside();
                // Late, if it was not called in time.
                self.opens();
                let is_of_start = self.watched.from_start && self.host.ended().elapsed() <= READ_BEFORE_MAX;
                if self.readings == 0 && !is_of_start {
                    // The servers first, so that the rest of the reading is not in their window.
                    self.server.open();
                    self.origin.open();
                    self.read_ns = Control::now_ns();
                    self.host = host_reading(&self.watched);
                }
                (self.looks, self.cost) = Default::default();
                // What was counted before the level is of another load.
                (self.server.present, self.origin.present) = Default::default();
                self.count(began);
                let echoes = std::mem::take(&mut self.watched.echoes);
                self.watch = self.is_virtual.then(|| Watch::begin(&self.watched.cpus, echoes));
            }
            Phase::Measuring if Instant::now() >= self.next_look => self.count(began),
            Phase::Draining | Phase::Done if self.host_closed.is_none() => self.close(),
            _ => {}
        }
    }

    /// How long there is nothing to do while the window is open; `None` while it is not.
    pub(crate) fn until_look(&self) -> Option<Duration> {
        let open = self.is_open && self.host_closed.is_none();
        open.then(|| self.next_look.saturating_duration_since(Instant::now()))
    }

    /// When its last reading was taken.
    pub(crate) fn read_at(&self) -> Instant {
        let slice = self.slice.as_ref().map(|slice| &slice.host);
        self.host_closed.as_ref().or(slice).map_or(self.host.began(), HostReading::ended)
    }

    /// When the server was read for the opening of the window, by [`Control::now_ns`].
    pub fn opened_at_ns(&self) -> u64 {
        self.read_ns
    }

    /// When the window was read at its close, by the same clock; `None` before.
    pub fn closed_at_ns(&self) -> Option<u64> {
        let ended = self.host_closed.as_ref()?.ended();
        Some(Control::now_ns().saturating_sub(ended.elapsed().as_nanos() as u64))
    }

    /// Counts processes, threads and files, and the time since `began` as one sample.
    fn count(&mut self, began: Duration) {
        let looked = own_cpu_time();
        self.server.look();
        self.origin.look();
        let ended = own_cpu_time();
        self.looks += 1;
        self.cost += ended.saturating_sub(began);
        // Readings of the whole host, at both ends of the window, cost more, but are not repeated.
        self.next_look = Instant::now() + pause_after(ended.saturating_sub(looked));
    }

    /// A slice of the window has just ended, or the window itself: what was used in it.
    pub fn end_slice(&mut self) -> SliceUse {
        let (began, root) = (own_cpu_time(), Root::default());
        let now = SliceReading {
            counted: match &self.host_closed {
                Some(_) => self.counted.closed.clone(),
                None => self.watched.origin.as_ref().and_then(View::counters),
            },
            server: self.server.at_slice(),
            origin: self.origin.at_slice(),
            host: match &self.host_closed {
                Some(host) => host.clone(),
                None => self.host.of_slice(&root, self.watched.links, self.watched.path.as_deref()),
            },
        };
        let before = self.slice.take().unwrap_or_else(|| SliceReading {
            counted: self.counted.opened.clone().filter(|_| self.counted.is_of_window),
            server: self.server.at_opening(),
            origin: self.origin.at_opening(),
            host: self.host.clone(),
        });
        let used_by = |before: &Option<TreeReading>, now: &Option<TreeReading>| {
            before.as_ref().zip(now.as_ref()).map(|(before, now)| used_until(before, now))
        };
        let mut used = SliceUse {
            host: before.host.until(&now.host, &root, &self.own()),
            server: used_by(&before.server, &now.server),
            origin: self.watched.origin.is_some().then(|| OriginUse {
                server: used_by(&before.origin, &now.origin),
                counted: before
                    .counted
                    .as_ref()
                    .zip(now.counted.as_ref())
                    .map(|(before, now)| Counted::from_to(before, now)),
            }),
        };
        used.host.watched = match &self.watch {
            Some(watch) => watch.slice(),
            None => std::mem::take(&mut self.stalls_of_last),
        };
        if let Some(path) = used.host.path.filter(|_| self.host_closed.is_none()) {
            let [to_server, to_clients] = &mut self.late_ns_max;
            *to_server = path.to_server.late_ns_max.max(*to_server);
            *to_clients = path.to_clients.late_ns_max.max(*to_clients);
        }
        if let Some(server) = &now.server {
            self.slice_readings.0 += 1;
            self.slice_readings.1 += u64::from(server.is_blocked);
        }
        self.slice = Some(now);
        self.looks += 1;
        self.cost += own_cpu_time().saturating_sub(began);
        used
    }

    /// Processes that, with their descendants, are not other programs.
    fn own(&self) -> BTreeSet<u32> {
        let trees = self.server.tree.iter().chain(&self.origin.tree);
        let mut own: BTreeSet<u32> = trees.flat_map(|tree| tree.heads.iter().copied()).collect();
        own.insert(std::process::id());
        own
    }

    fn close(&mut self) {
        let began = own_cpu_time();
        self.counted.closed = self.watched.origin.as_ref().and_then(View::counters);
        self.server.close();
        self.origin.close();
        let mut closed = host_reading(&self.watched);
        if let Some(watch) = self.watch.take() {
            self.stalls_of_last = watch.slice();
            self.stalls = watch.end();
        }
        if closed.began().saturating_duration_since(self.host.ended()) < SHORT {
            std::thread::sleep(TIMER.saturating_sub(closed.began().elapsed()));
            closed.others_again(&Root::default());
        }
        self.host_closed = Some(closed);
        self.count(began);
        // After the window, because it takes longer than all the rest.
        self.server.weigh();
        self.origin.weigh();
    }

    /// What was used in the window.
    pub fn used(mut self) -> Used {
        if self.host_closed.is_none() {
            self.close();
        }
        let closed = self.host_closed.take().expect("closed just now, or before");
        let own = self.own();
        let mut host = self.host.until(&closed, &Root::default(), &own);
        if let Some(path) = &mut host.path {
            // The relay tells the longest since the reading before.
            let [to_server, to_clients] = self.late_ns_max;
            path.to_server.late_ns_max = path.to_server.late_ns_max.max(to_server);
            path.to_clients.late_ns_max = path.to_clients.late_ns_max.max(to_clients);
        }
        let seen = self.origin.tree.is_some().then(|| self.origin.used());
        let mut server = self.server.used();
        // The last slice ends with the closing reading.
        if let (readings @ 1.., blocked) = self.slice_readings
            && let Some(processes) = &mut server.processes
        {
            (processes.readings, processes.readings_blocked) = (readings, blocked);
        }
        Used {
            host: HostUse {
                probes: self.looks,
                probe_cpu_ns: self.cost.as_nanos() as u64,
                watched: std::mem::take(&mut self.stalls),
                ..host
            },
            read_ns: self.read_ns,
            server,
            server_read_for: self.server.read_for(),
            server_ended: self.server.have_ended,
            origin: self
                .watched
                .origin
                .is_some()
                .then(|| OriginUse { server: seen, counted: self.counted.between() }),
        }
    }
}

fn host_reading(watched: &Watched<'_>) -> HostReading {
    let path = watched.path.as_deref();
    HostReading::take(&Root::default(), watched.links, watched.targets, &watched.listening, path)
}

/// How long to wait after a sample that took this much CPU time.
fn pause_after(cost: Duration) -> Duration {
    PAUSE.max(cost * PAUSE_PER_COST)
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
