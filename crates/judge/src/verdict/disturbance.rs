//! What took the generator's and the server's CPUs away in a window, and what follows from that: nothing, doubt, or that the
//! window is void. Other programs, the hypervisor, a CPU quota, heat, a suspend, a stop: whatever it was, the figures show it
//! and not the server.
//!
//! The rule is fixed in advance and looks at nothing that the window was to measure, so that repeating void windows cannot
//! favour a result. More of anything here never gives a better answer.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::bounds::{
    SHORT_WINDOW_NS, STALL_NS_CLEAN, STALL_NS_VOID, TAKEN_PERCENT_CLEAN, TAKEN_PERCENT_VOID, percent, time,
};
use super::rules::this_host;
use super::server_hosts::{self, ServerHost, are_numbered_alike};
use super::{crowding, fleet, left_out, slowness};
use webstone_measure::metrics::WorkerUse;
use webstone_model::generators::LoadMaker;
use webstone_model::record::{AgentRecord, HostUse, IterationRecord, OthersUse, RunRecord, ThreadUse};

/// What a window is worth, by what disturbed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Worth {
    /// Nothing that matters was taken.
    Clean,
    /// Enough was taken to doubt the figures.
    Disturbed,
    /// So much was taken that the figures show it and not the server.
    Void,
}

/// What took CPU time away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Taker {
    Programs,
    Hypervisor,
    Quota,
    Heat,
    Suspend,
}

/// What was taken of the generator or of the server in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// From whom: `worker 0 of the load generator on CPU 1`, `the server`.
    pub of: String,
    /// Whether it is a worker of the load generator.
    pub is_generator: bool,
    /// All that was taken, in percent of the CPU time that it could have had; of a CPU that was slow, by how much.
    pub percent: f64,
    /// The most that it may have been, with what was not observed.
    pub percent_max: f64,
    /// The longest time for which it stood still, in nanoseconds.
    pub stalled_ns_max: u64,
    /// What that makes of the window.
    pub worth: Worth,
    /// Who took how much, in words.
    pub by: String,
    /// What became of it.
    pub kind: LossKind,
    /// Whether other programs took all that matters: the kernel of its host reports all of that waiting.
    pub by_programs: bool,
}

/// What became of a loser of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Its CPU was taken from it.
    Taken,
    /// Nothing was taken, and the CPU did less in its time.
    Slow,
    /// Other programs filled the time that was left of its CPUs.
    Crowded,
    /// A host that made load was lost.
    Gone,
    /// A host that made load did not open its window with the others.
    Apart,
    /// So much of the window was not observed that more may have been lost than is known.
    Unseen,
    /// Slices in which more was taken are in no figure.
    LeftOut,
}

impl Loss {
    /// A share that is known exactly, of something other than a worker of the load generator.
    pub(super) fn new(kind: LossKind, worth: Worth, of: String, percent: f64, by: String) -> Loss {
        Loss {
            of,
            is_generator: false,
            percent,
            percent_max: percent,
            stalled_ns_max: 0,
            worth,
            by,
            kind,
            by_programs: false,
        }
    }

    /// In one sentence, without its end.
    pub fn sentence(&self) -> String {
        let Loss { of, percent, stalled_ns_max, by, kind, .. } = self;
        match kind {
            LossKind::Gone => format!("{of} was lost: {by}"),
            LossKind::Apart => format!("{of} opened its window {by}"),
            LossKind::Unseen => format!("what {of} lost cannot be judged: {by}"),
            LossKind::LeftOut => format!("{of} was disturbed: {by}"),
            LossKind::Slow => format!("{of} lost {percent:.0} % to a slow CPU: {by}"),
            LossKind::Crowded => {
                format!("{of} used {by}; a request may have cost up to {percent:.0} % more CPU time")
            }
            LossKind::Taken if *percent >= TAKEN_PERCENT_CLEAN => {
                format!("{of} lost {percent:.1} % of its CPU time: {by}")
            }
            LossKind::Taken => format!("{of} stood still for {}: {by}", time(*stalled_ns_max as f64)),
        }
    }

    /// Order among equal losses: a lost host and windows that do not match come first, because they cause the others.
    fn order(&self) -> u8 {
        match self.kind {
            LossKind::Gone => 0,
            LossKind::Apart => 1,
            LossKind::Taken | LossKind::Slow | LossKind::Unseen | LossKind::Crowded => 2,
            LossKind::LeftOut => 3,
        }
    }
}

/// What was taken in a window from each worker on each host, from the server, and from the origin behind it, and which host was lost
/// or late: the worst first, and only what matters. Of a short window it is what was taken in all short windows of its level together.
pub fn losses(record: &RunRecord, run: &IterationRecord) -> Vec<Loss> {
    let mut found = all(record, run);
    found.extend(left_out::of_window(run));
    found.retain(|loss| loss.worth > Worth::Clean);
    found.extend(fleet::losses(record, run));
    found.sort_by(|a, b| {
        b.worth.cmp(&a.worth).then(a.order().cmp(&b.order())).then(b.percent.total_cmp(&a.percent))
    });
    found
}

/// What was taken, whether it matters or not.
pub(super) fn all(record: &RunRecord, run: &IterationRecord) -> Vec<Loss> {
    let mut seats: Vec<Seat<'_>> = Vec::new();
    for run in judged_with(record, run) {
        for seat in seats_of(record, run) {
            match seats.iter_mut().find(|other| other.of == seat.of) {
                Some(other) => other.add_window(seat),
                None => seats.push(seat),
            }
        }
    }
    let mut found: Vec<Loss> = seats.into_iter().map(Seat::loss).collect();
    // A few pieces of work say nothing of a CPU's speed.
    if run.measured.window_ns >= SHORT_WINDOW_NS {
        let hosts = server_hosts::in_window(record, run);
        found.extend(hosts.into_iter().filter_map(|there| slowness::of_server(record, run, there)));
    }
    found.extend(crowding::of_cpus(record, run));
    found.extend(judged_with(record, run).into_iter().find_map(|run| server_hosts::missing(record, run)));
    found
}

/// The windows on whose sum one is judged: itself, or if it is short, all short ones of its level.
pub(super) fn judged_with<'a>(record: &'a RunRecord, run: &'a IterationRecord) -> Vec<&'a IterationRecord> {
    let is_short = |run: &IterationRecord| run.measured.window_ns < SHORT_WINDOW_NS;
    let alike = record.iterations.iter().filter(|other| is_short(other) && other.level() == run.level());
    let alike: Vec<&IterationRecord> = alike.collect();
    // One that is not in the record, or not any more, stands by itself.
    let is_one = is_short(run) && alike.iter().any(|other| std::ptr::eq(*other, run));
    if is_one { alike } else { vec![run] }
}

fn seats_of<'a>(record: &'a RunRecord, run: &'a IterationRecord) -> Vec<Seat<'a>> {
    let mut seats = Vec::new();
    for maker in run.load_makers() {
        for (number, worker) in maker.workers.iter().enumerate() {
            seats.extend(of_worker(record, run, &maker, number, worker));
        }
    }
    seats.extend(
        server_hosts::in_window(record, run).into_iter().filter_map(|there| of_server(record, run, there)),
    );
    seats
}

/// What a window is worth: what the worst loss makes of it.
pub fn worth(record: &RunRecord, run: &IterationRecord) -> Worth {
    losses(record, run).iter().map(|loss| loss.worth).max().unwrap_or(Worth::Clean)
}

/// The sum of what was taken of one worker or server: over takers, and over the windows that are judged together.
struct Seat<'a> {
    of: String,
    is_generator: bool,
    /// CPU time that it could have had.
    could_ns: u64,
    taken: Vec<(Taker, u64)>,
    /// The part of `could_ns` that was not observed.
    unseen_ns: u64,
    stalled_ns_max: u64,
    others: Option<&'a OthersUse>,
    /// Whether all its processes are known. Only then can other programs make a window void.
    is_ours: bool,
}

impl<'a> Seat<'a> {
    fn add(&mut self, taker: Taker, ns: u64) {
        match self.taken.iter_mut().find(|(other, _)| *other == taker) {
            Some((_, all_ns)) => *all_ns = all_ns.saturating_add(ns),
            None => self.taken.push((taker, ns)),
        }
    }

    /// The same seat in another window.
    fn add_window(&mut self, other: Seat<'a>) {
        self.could_ns = self.could_ns.saturating_add(other.could_ns);
        self.unseen_ns = self.unseen_ns.saturating_add(other.unseen_ns);
        self.stalled_ns_max = self.stalled_ns_max.max(other.stalled_ns_max);
        other.taken.into_iter().for_each(|(taker, ns)| self.add(taker, ns));
        let used = |others: Option<&OthersUse>| others.map(|others| others.cpu_ns);
        if used(other.others) > used(self.others) {
            self.others = other.others;
        }
    }

    fn share(&self, of: impl Fn(Taker) -> bool) -> f64 {
        let ns = self.taken.iter().filter(|(taker, _)| of(*taker)).map(|(_, ns)| *ns as f64).sum::<f64>();
        percent(ns, self.could_ns as f64)
    }

    fn worth(&self, all: f64) -> Worth {
        let can_be_void = self.is_ours || self.share(|taker| taker != Taker::Programs) >= TAKEN_PERCENT_VOID;
        match () {
            () if can_be_void && all >= TAKEN_PERCENT_VOID => Worth::Void,
            () if self.stalled_ns_max >= STALL_NS_VOID => Worth::Void,
            () if all >= TAKEN_PERCENT_CLEAN || self.stalled_ns_max >= STALL_NS_CLEAN => Worth::Disturbed,
            () => Worth::Clean,
        }
    }

    fn loss(self) -> Loss {
        let all = self.share(|_| true);
        let unseen = percent(self.unseen_ns as f64, self.could_ns as f64);
        // What was not observed may all have been taken.
        let (seen, at_most) = (self.worth(all), self.worth(all + unseen));
        let (kind, by) = match at_most > seen {
            false => (LossKind::Taken, self.told()),
            true => {
                let known = if all >= 0.1 {
                    format!(", and {all:.1} % was taken of the rest")
                } else {
                    String::new()
                };
                let by =
                    format!("its counters were first read when {unseen:.1} % of the window was over{known}");
                (LossKind::Unseen, by)
            }
        };
        let percent = if kind == LossKind::Unseen { all + unseen } else { all };
        let by_programs = kind == LossKind::Taken
            && self.share(|taker| taker != Taker::Programs) < TAKEN_PERCENT_CLEAN
            && self.stalled_ns_max < STALL_NS_CLEAN;
        Loss {
            of: self.of,
            is_generator: self.is_generator,
            percent: percent.min(100.0),
            percent_max: (all + unseen).min(100.0),
            stalled_ns_max: self.stalled_ns_max,
            worth: at_most,
            by,
            kind,
            by_programs,
        }
    }

    fn told(&self) -> String {
        let share = |ns: u64| percent(ns as f64, self.could_ns as f64);
        let mut shares: Vec<(Taker, f64)> =
            self.taken.iter().map(|(taker, ns)| (*taker, share(*ns))).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        // Less than a tenth of a percent is not worth mentioning.
        let several = shares.iter().filter(|(_, share)| *share >= 0.1).count() > 1;
        let told: Vec<String> = shares
            .iter()
            .filter(|(_, share)| *share >= 0.1)
            .map(|(taker, share)| {
                let what = match taker {
                    Taker::Programs => format!("other programs used it{}", named(self.others)),
                    Taker::Hypervisor => "the hypervisor took it, or the process was stopped".to_owned(),
                    Taker::Quota => "a CPU quota of its control group throttled it".to_owned(),
                    Taker::Heat => "the processor slowed down because of heat".to_owned(),
                    Taker::Suspend => "the host was suspended".to_owned(),
                };
                if several { format!("{what}: {share:.1} %") } else { what }
            })
            .collect();
        match told.is_empty() {
            true => "the hypervisor took its CPU, or the process was stopped".to_owned(),
            false => told.join("; "),
        }
    }
}

/// The programs that used most, with their identifiers, so that they can be found.
pub(super) fn named(others: Option<&OthersUse>) -> String {
    let busiest = others.map(|others| others.busiest.as_slice()).unwrap_or_default();
    let most = busiest.first().map_or(0, |other| other.cpu_ns);
    // Those that matter beside the first.
    let mut programs: Vec<(&str, Vec<u32>)> = Vec::new();
    for other in busiest.iter().filter(|other| other.cpu_ns * 10 >= most) {
        match programs.iter_mut().find(|(name, _)| *name == other.name) {
            Some((_, processes)) => processes.push(other.process),
            None => programs.push((&other.name, vec![other.process])),
        }
    }
    let named: Vec<String> = (programs.iter())
        .map(|(name, processes)| match processes[..] {
            [process] => format!("{name} (process {process})"),
            _ => format!("{name} ({} processes)", processes.len()),
        })
        .collect();
    if named.is_empty() { String::new() } else { format!(", mostly {}", named.join(", ")) }
}

fn of_worker<'a>(
    record: &RunRecord,
    run: &IterationRecord,
    maker: &LoadMaker<'a>,
    number: usize,
    worker: &WorkerUse,
) -> Option<Seat<'a>> {
    let window_ns = Some(run.measured.window_ns).filter(|window_ns| *window_ns > 0)?;
    let host = maker.host;
    let on = worker.cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
    let mut seat = Seat {
        of: format!("worker {number} of {}{on}", maker.name()),
        is_generator: true,
        could_ns: window_ns,
        taken: Vec::new(),
        unseen_ns: 0,
        stalled_ns_max: worker.stalled_ns_max,
        others: host.and_then(|host| host.others.as_ref()),
        is_ours: true,
    };
    let queued = worker.run_queue_ns.unwrap_or(0);
    let by_programs = match shares_its_cpu(record, maker, worker) {
        // Workers, or worker and server, wait for each other there, which is the test's own arrangement.
        true => queued.min(host.map_or(0, used_by_others)),
        false => queued,
    };
    seat.add(Taker::Programs, by_programs);
    let told = worker.cpu.and_then(|cpu| cpu_of(host?, cpu));
    let stolen = told.map_or(0, |cpu| cpu.stolen_ns);
    seat.add(Taker::Hypervisor, stolen.max(worker.stalled_ns.saturating_sub(queued)).min(window_ns));
    seat.add(Taker::Heat, told.map_or(0, |cpu| cpu.heat_ns).min(window_ns));
    of_host(&mut seat, host, window_ns);
    Some(seat)
}

/// CPU time that other programs may have used in the window: what they are known to have used, and all CPUs until they were first observed.
fn used_by_others(host: &HostUse) -> u64 {
    let unseen_ns = host.opening_delay_ns.saturating_mul(host.cpus.len() as u64);
    host.others.as_ref().map_or(0, |others| others.cpu_ns.saturating_add(unseen_ns))
}

fn of_server<'a>(record: &RunRecord, run: &IterationRecord, there: ServerHost<'a>) -> Option<Seat<'a>> {
    let window_ns = Some(run.measured.window_ns).filter(|window_ns| *window_ns > 0)?;
    let ServerHost { agent, host, cpus, server, delay_ns } = there;
    let of_server = host.cpus.iter().filter(|cpu| cpus.contains(&cpu.cpu));
    let could_use = record.target.software.as_ref().and_then(|software| software.cpus_max);
    let seats = could_use.map_or(cpus.len(), |most| cpus.len().min(most as usize)).max(1) as u64;
    let could_ns = seats * window_ns;
    let mut seat = Seat {
        of: server_hosts::named(record, agent),
        is_generator: false,
        could_ns,
        taken: Vec::new(),
        unseen_ns: delay_ns.min(window_ns) * seats,
        stalled_ns_max: 0,
        others: host.others.as_ref(),
        // Programs beside a server that webstone did not start may be a part of it: a database, a pool of processes.
        is_ours: record.target.embedded || record.target.software.is_some(),
    };
    let processes = server.and_then(|server| server.processes.as_ref());
    if let (Some(queued), Some(others)) = (processes.and_then(|use_| use_.run_queue_ns), seat.others) {
        // If the server has more threads than CPUs, they wait for each other, which is its own matter: others can have taken
        // no more than they used, nor more than its CPUs were busy with anything else.
        let (busy, used) =
            (of_server.clone().map(|cpu| cpu.busy_ns).sum::<u64>(), used_there(record, run, there));
        // In a short window, ticks of 10 ms do not tell how busy they were.
        let is_known = !cpus.is_empty() && window_ns >= SHORT_WINDOW_NS;
        let elsewhere = if is_known { busy.saturating_sub(used) } else { u64::MAX };
        let by_all = queued.min(others.cpu_ns).min(elsewhere).min(could_ns);
        // One thread that does all the work loses as much as is taken of its one CPU.
        let by_one = busiest_alone(&processes?.busiest).min(others.cpu_ns).min(elsewhere).min(window_ns);
        seat.add(Taker::Programs, by_all.max(by_one.saturating_mul(seats)));
    }
    let stolen: u64 = of_server.clone().map(|cpu| cpu.stolen_ns).sum();
    let watched = host.watched.iter().filter(|watch| cpus.contains(&watch.cpu));
    let stalled: u64 = watched.clone().map(|watch| watch.stalled_ns).sum();
    seat.stalled_ns_max = watched.map(|watch| watch.stalled_ns_max).max().unwrap_or(0);
    seat.add(Taker::Hypervisor, stolen.max(stalled).min(could_ns));
    seat.add(Taker::Heat, of_server.map(|cpu| cpu.heat_ns).sum::<u64>().min(could_ns));
    of_host(&mut seat, Some(host).filter(|_| !record.target.agents.is_empty()), could_ns);
    Some(seat)
}

/// Run-queue delay of the thread that used more CPU time than all others of its server together; 0 without one.
fn busiest_alone(busiest: &[ThreadUse]) -> u64 {
    let Some((first, others)) = busiest.split_first() else { return 0 };
    let rest = others.iter().map(|thread| thread.cpu_ns).fold(0, u64::saturating_add);
    if first.cpu_ns > rest { first.run_queue_ns } else { 0 }
}

/// What stopped the whole host.
fn of_host(seat: &mut Seat<'_>, host: Option<&HostUse>, most_ns: u64) {
    let Some(host) = host else { return };
    seat.add(Taker::Quota, host.throttled_ns.unwrap_or(0).min(most_ns));
    seat.add(Taker::Suspend, host.suspended_ns.min(most_ns));
    seat.stalled_ns_max = seat.stalled_ns_max.max(host.suspended_ns);
}

/// CPU time that the server, its origin and the generator used themselves, as far as the last shares the server's CPUs.
pub(super) fn used_there(record: &RunRecord, run: &IterationRecord, there: ServerHost<'_>) -> u64 {
    let of = |server: &webstone_model::record::ServerUse| server.user_ns.saturating_add(server.system_ns);
    let origin = run.origin.as_ref().and_then(|origin| origin.server.as_ref());
    let own = server_hosts::used_ns(record, run, there.agent).unwrap_or(0);
    let servers = origin.into_iter().map(of).fold(own, u64::saturating_add);
    let makers = run.load_makers();
    let makers = makers.iter().filter(|maker| are_numbered_alike(record, maker, there.agent));
    let workers = makers.flat_map(|maker| maker.workers);
    let workers = workers.filter(|worker| worker.cpu.is_none_or(|cpu| there.cpus.contains(&cpu)));
    workers.map(|worker| worker.user_ns.saturating_add(worker.system_ns)).fold(servers, u64::saturating_add)
}

/// Whether a worker shares its CPU with the server, its origin, or another worker.
pub(super) fn shares_its_cpu(record: &RunRecord, maker: &LoadMaker<'_>, worker: &WorkerUse) -> bool {
    let Some(cpu) = worker.cpu else { return true };
    if maker.workers.iter().filter(|other| other.cpu == Some(cpu)).count() > 1 {
        return true;
    }
    let target = &record.target;
    let (is_elsewhere, servers) = match (maker.generator, &target.agents[..]) {
        (None, _) => (this_host(record) == Some(false), Cow::Borrowed(&target.cpus)),
        (Some(_), []) => (!are_numbered_alike(record, maker, None), Cow::Borrowed(&target.cpus)),
        (Some(_), [agent]) => (!are_numbered_alike(record, maker, None), Cow::Borrowed(&agent.cpus)),
        (Some(_), agents) => {
            let alike = |place: u32| are_numbered_alike(record, maker, Some(place));
            let there: Vec<&AgentRecord> =
                (0..).zip(agents).filter(|(place, _)| alike(*place)).map(|(_, agent)| agent).collect();
            (there.is_empty(), Cow::Owned(there.iter().flat_map(|agent| agent.cpus.clone()).collect()))
        }
    };
    if is_elsewhere {
        return false;
    }
    let origin = record.target.origin.as_ref().map(|origin| origin.cpus.as_slice()).unwrap_or_default();
    // Where it is not known where the server runs, it may run here.
    servers.is_empty() || servers.contains(&cpu) || origin.contains(&cpu)
}

pub(super) fn cpu_of(host: &HostUse, number: u32) -> Option<&webstone_model::record::CpuUse> {
    host.cpus.iter().find(|cpu| cpu.cpu == number)
}
