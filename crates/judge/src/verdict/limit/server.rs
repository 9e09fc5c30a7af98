//! What the processes of a server used: all together, and its busiest threads. The server under test, or the origin behind it.

use super::processors::Processors;
use super::{QUOTA_PERCENT_MAX, THREAD_CPU_PERCENT_MAX, limit, processors};
use crate::verdict::bounds::{RUN_QUEUE_PERCENT_MAX, SERVER_CPU_PERCENT_MAX, counted, percent};
use crate::verdict::{Limit, LimitingResource};
use webstone_measure::server_figures::{ServerFigures, while_read};
use webstone_model::record::{IterationRecord, ProcessUse, RunRecord, ServerUse, ThreadUse};

/// How much more the server's CPU time and the interrupts of its CPUs, in percent, may be than these CPUs were busy, until it is
/// clear that a part was counted in both.
const COUNTED_TWICE_PERCENT_MAX: f64 = 2.0;

/// At least this much of the server's CPU time, in percent, must be that of threads whose waiting is known.
const KNOWN_PERCENT_MIN: f64 = 90.0;

/// A server over all iterations of a level.
pub(super) struct Server {
    who: String,
    /// The subject of a sentence about a bottleneck: `The server's CPU`.
    possessive: String,
    /// CPUs that it may run on.
    allowed: usize,
    /// CPUs that it can use at the same time: no more than it has threads that work.
    cpus: usize,
    /// CPU time of its processes in percent of one CPU, as tables have it.
    cpu_percent: f64,
    throttled_percent: Option<f64>,
    /// Time that its threads were ready to run and did not, in percent of one CPU; `None` where that is not known of all.
    waited_percent: Option<f64>,
    /// By rank, the busiest first; empty where they were not measured.
    threads: Vec<Thread>,
}

/// The busiest thread of every iteration, or the second of each, and so on.
struct Thread {
    /// Who that was, where it was the same in all.
    is: Option<(u32, u32)>,
    name: String,
    /// CPU time in percent of the windows.
    used: f64,
    /// Time that it was ready to run and did not.
    waited: f64,
}

impl Server {
    /// On one of its hosts. `None` where its processes were not seen, or nothing is known of its CPUs.
    pub(super) fn of_level(
        record: &RunRecord,
        runs: &[&IterationRecord],
        agent: Option<u32>,
    ) -> Option<Server> {
        let allowed = Some(processors::of_server(record, agent)?.len()).filter(|cpus| *cpus > 0)?;
        if let Some(agent) = agent {
            let figures = ServerFigures::on_host(runs, agent)?;
            let who = record.server_host_named(agent);
            return Server::over(who, (allowed, allowed), figures, runs, |run| {
                let there = run.server_hosts.iter().find(|there| there.agent == agent)?;
                Some((there.host.elapsed_ns as f64, run.server_on(there)?))
            });
        }
        let who = if record.target.origin.is_some() { "proxy" } else { "server" };
        let figures = ServerFigures::of_runs(runs)?;
        let cpus = match record.spec.server.threads as usize {
            threads @ 1.. if record.target.embedded => allowed.min(threads),
            _ => match record.target.software.as_ref().and_then(|software| software.cpus_max) {
                Some(most) => allowed.min(most as usize).max(1),
                None => allowed,
            },
        };
        let used = |run| Some((while_read(run).0, run.server_used()?));
        Server::over(who.to_owned(), (allowed, cpus), figures, runs, used)
            .map(|server| Server { possessive: "The server's CPU".to_owned(), ..server })
    }

    /// The origin behind a proxy.
    pub(super) fn of_origin(record: &RunRecord, runs: &[&IterationRecord]) -> Option<Server> {
        let cpus = Some(record.target.origin.as_ref()?.cpus.len()).filter(|cpus| *cpus > 0)?;
        let figures = ServerFigures::of_origin(runs)?;
        let used = |run| Some((while_read(run).0, run.origin.as_ref()?.server.as_ref()?));
        Server::over("origin".to_owned(), (cpus, cpus), figures, runs, used)
            .map(|server| Server { possessive: "The origin".to_owned(), ..server })
    }

    fn over<'a>(
        who: String,
        (allowed, cpus): (usize, usize),
        figures: ServerFigures,
        runs: &[&'a IterationRecord],
        of: impl Fn(&'a IterationRecord) -> Option<(f64, &'a ServerUse)>,
    ) -> Option<Server> {
        let throttled_percent = figures.processes.and_then(|it| it.throttled_percent);
        let seen: Vec<(f64, &ProcessUse)> = runs
            .iter()
            .filter_map(|run| of(run))
            .filter_map(|(read_ns, used)| Some((read_ns, used.processes.as_ref()?)))
            .filter(|(_, processes)| !processes.busiest.is_empty())
            .collect();
        let waited_percent = waited(runs.iter().filter_map(|run| of(run)));
        let threads = (0..ProcessUse::BUSIEST_MAX).map_while(|rank| Thread::by_rank(&seen, rank)).collect();
        let cpu_percent = figures.cpu_percent;
        let possessive = format!("The CPU of the {who}");
        (cpu_percent > 0.0).then_some(Server {
            who,
            possessive,
            allowed,
            cpus,
            cpu_percent,
            throttled_percent,
            waited_percent,
            threads,
        })
    }

    /// CPU time that all of it had or waited for, in percent of one CPU. `None` where some of its waiting is not known.
    pub(super) fn wanted_in_all(&self) -> Option<f64> {
        Some(self.cpu_percent + self.waited_percent?)
    }

    /// CPU time in percent of the CPUs that it can use.
    pub(super) fn used(&self) -> f64 {
        self.cpu_percent / self.cpus as f64
    }

    /// The most of one CPU that it wanted: its busiest thread used it or waited for it. Where threads are not known, all of its
    /// CPU time may have been one thread's.
    pub(super) fn wanted(&self) -> f64 {
        let threads = self.threads.iter().map(|thread| thread.used + thread.waited);
        threads.reduce(f64::max).unwrap_or(self.cpu_percent).min(100.0)
    }

    /// What it waited for CPUs, where that is worth telling.
    pub(super) fn waited_text(&self) -> Option<String> {
        let waited = self.waited_percent.filter(|waited| *waited >= 1.0)?;
        Some(format!("its threads waited for a CPU {waited:.0} % of the time in all"))
    }

    pub(super) fn text(&self) -> String {
        match self.threads.first() {
            Some(thread) if self.cpus > 1 => {
                format!("{}, its busiest thread {:.0} % of one", self.share(), thread.used)
            }
            _ => self.share(),
        }
    }

    fn share(&self) -> String {
        let cpus = counted(self.cpus as u64, "CPU", "CPUs");
        let its = match self.cpus < self.allowed {
            true => format!("{cpus} (of {} that it may run on)", self.allowed),
            false => format!("its {cpus}"),
        };
        format!("the {} used {:.0} % of {its}", self.who, self.used())
    }

    /// Its CPUs, its quota or some of its threads were at their ceiling.
    pub(super) fn at_ceiling(&self, at: &str, besides: &str) -> Option<Limit> {
        let busy: Vec<&Thread> =
            self.threads.iter().take_while(|thread| thread.used >= THREAD_CPU_PERCENT_MAX).collect();
        // If fewer threads than CPUs are busy, they are named.
        let are_all = self.cpus == self.allowed || busy.is_empty();
        if are_all && (self.used() >= SERVER_CPU_PERCENT_MAX || busy.len() >= self.cpus) {
            let sentence =
                format!("{} is the bottleneck at {at}: {}{besides}.", self.possessive, self.text());
            return Some(limit(LimitingResource::Server, sentence));
        }
        if let Some(held) = self.throttled_percent.filter(|held| *held >= QUOTA_PERCENT_MAX) {
            let sentence = format!(
                "The CPU quota of the server's control group is the bottleneck at {at}: it throttled the {} for {held:.0} % \
                 of the time; {}{besides}.",
                self.who,
                self.text()
            );
            return Some(limit(LimitingResource::Server, sentence));
        }
        let (first, others) = busy.split_first()?;
        let (whose, verb, each) = match others {
            [] => (format!("A single thread of the {}", self.who), "is", first.text()),
            _ => {
                let names: Vec<String> = busy.iter().map(|thread| thread.text()).collect();
                // More than are kept may be as busy.
                let at_least = if busy.len() == ProcessUse::BUSIEST_MAX { "At least " } else { "" };
                let whose = format!("{at_least}{} threads of the {}", busy.len(), self.who);
                (whose, "are", names.join(", "))
            }
        };
        let sentence = format!(
            "{whose} {verb} the bottleneck at {at}: {each}; {}{besides}. One thread cannot use more than one CPU.",
            self.share()
        );
        Some(limit(LimitingResource::ServerThread, sentence))
    }

    /// Interrupts took the rest of its CPUs: a kernel that counts them by themselves charges the server's network work to none of
    /// its processes.
    pub(super) fn with_interrupts(&self, at: &str, processors: &Processors) -> Option<Limit> {
        let (busy, interrupts) = (processors.all_busy, processors.interrupts?);
        // Other programs are in neither. Some kernels also charge an interrupt to the program that it interrupted.
        let both = self.cpu_percent / self.allowed as f64 + interrupts;
        let is_theirs = (SERVER_CPU_PERCENT_MAX..=busy + COUNTED_TWICE_PERCENT_MAX).contains(&both);
        if busy < SERVER_CPU_PERCENT_MAX || !is_theirs || processors.others.is_none() {
            return None;
        }
        let sentence = format!(
            "{} is the bottleneck at {at}: {}, and with {interrupts:.0} % in interrupts {busy:.0} % were busy in all.",
            self.possessive,
            self.text()
        );
        Some(limit(LimitingResource::Server, sentence))
    }

    /// A thread ran or waited for a CPU all the time, and no other program had it: threads of the server share a CPU.
    pub(super) fn in_its_own_way(&self, at: &str) -> Option<Limit> {
        if self.cpu_percent < THREAD_CPU_PERCENT_MAX {
            return None;
        }
        let crowded = self.threads.iter().find(|thread| {
            thread.waited >= RUN_QUEUE_PERCENT_MAX && thread.used + thread.waited >= THREAD_CPU_PERCENT_MAX
        })?;
        let sentence = format!(
            "Threads of the {} that share a CPU are the bottleneck at {at}: {}; {}.",
            self.who,
            crowded.text(),
            self.share()
        );
        Some(limit(LimitingResource::ServerThread, sentence))
    }
}

/// How long threads were ready to run and did not, in percent of one CPU. The kernel does not report it of ended threads, so
/// the living ones must have had nearly all of the CPU time.
fn waited<'a>(uses: impl Iterator<Item = (f64, &'a ServerUse)>) -> Option<f64> {
    let (mut waited_ns, mut read_ns) = (0.0, 0.0);
    for (over_ns, server) in uses {
        let processes = server.processes.as_ref()?;
        let used_ns = server.user_ns.saturating_add(server.system_ns) as f64;
        if percent(processes.threads_cpu_ns? as f64, used_ns) < KNOWN_PERCENT_MIN && used_ns > 0.0 {
            return None;
        }
        waited_ns += processes.run_queue_ns? as f64;
        read_ns += over_ns;
    }
    (read_ns > 0.0).then(|| percent(waited_ns, read_ns))
}

impl Thread {
    fn by_rank(seen: &[(f64, &ProcessUse)], rank: usize) -> Option<Thread> {
        let read_ns: f64 = seen.iter().map(|(read_ns, _)| read_ns).sum();
        let threads: Vec<&ThreadUse> =
            seen.iter().filter_map(|(_, processes)| processes.busiest.get(rank)).collect();
        let first = threads.first()?;
        let is = |thread: &ThreadUse| (thread.process, thread.thread);
        let sum = |of: fn(&ThreadUse) -> u64| threads.iter().map(|thread| of(thread) as f64).sum::<f64>();
        Some(Thread {
            is: Some(is(first)).filter(|it| threads.iter().all(|thread| is(thread) == *it)),
            // A record may come from anywhere.
            name: ThreadUse::plain_name(&first.name),
            used: percent(sum(|thread| thread.cpu_ns), read_ns),
            waited: percent(sum(|thread| thread.run_queue_ns), read_ns),
        })
    }

    fn text(&self) -> String {
        let number = match self.is {
            Some((process, thread)) if process == thread => format!(" (process {process})"),
            Some((process, thread)) => format!(" (thread {thread} of process {process})"),
            None => String::new(),
        };
        let waited = match self.waited >= RUN_QUEUE_PERCENT_MAX {
            true => format!(" and waited for it {:.0} % of the time", self.waited),
            false => String::new(),
        };
        format!("`{}`{number} used {:.0} % of a CPU{waited}", self.name, self.used)
    }
}
