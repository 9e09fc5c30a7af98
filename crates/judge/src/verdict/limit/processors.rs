//! The CPUs that the server could use, with everything that ran on them: how busy each was, and how much of that was neither
//! the server's nor the generator's.

use std::collections::{BTreeMap, BTreeSet};

use super::super::rules::this_host;
use super::super::server_hosts::{self, are_numbered_alike};
use crate::verdict::bounds::{counted, percent};
use webstone_model::generators::LoadMaker;
use webstone_model::record::{CpuUse, HostUse, IterationRecord, RunRecord, ServerUse};
use webstone_model::spec::parse_cpu_list;

/// Over all iterations of a level, in percent of the time.
#[derive(Debug, Default)]
pub(super) struct Processors {
    /// The busiest of the server's CPUs: what was not idle, without what the generator's workers had of it.
    pub(super) busiest: f64,
    /// The same of the origin's CPUs; 0 where there is none.
    pub(super) origin_busiest: f64,
    /// All of the server's CPUs, with the generator.
    pub(super) all_busy: f64,
    /// Interrupts on all of them; `None` where they were not counted apart.
    pub(super) interrupts: Option<f64>,
    /// Interrupts on the one that had most; 0 where they were not counted apart.
    pub(super) interrupts_most: f64,
    /// What neither server, origin and generator nor interrupts had of the server's CPUs; `None` where the server's part is not
    /// known.
    pub(super) others: Option<f64>,
    /// The busiest CPU that server and generator share, by its number, and how busy it was with both.
    pub(super) shared: Option<(u32, f64)>,
    /// The CPU of server or generator that a hypervisor took most of, and how much.
    pub(super) stolen: Option<(String, f64)>,
    /// CPUs that no worker is pinned to, where those of the server are not known: how many, and how busy.
    left: Option<(usize, f64)>,
}

/// CPUs that the server may run on, by the numbers of its own host: the only one, or that of an agent. `None` where nothing is known
/// of them.
pub(super) fn of_server(record: &RunRecord, agent: Option<u32>) -> Option<Vec<u32>> {
    let target = &record.target;
    let bound = target.agents.get(agent.unwrap_or(0) as usize).map_or(&target.cpus, |agent| &agent.cpus);
    if !bound.is_empty() {
        return Some(bound.clone());
    }
    let text = record.environment.get("cpu.allowed")?.as_str()?;
    parse_cpu_list(text).ok().filter(|_| target.agents.is_empty() && this_host(record) == Some(true))
}

/// What the host that the server runs on counted.
fn host<'a>(record: &RunRecord, run: &'a IterationRecord, agent: Option<u32>) -> Option<&'a HostUse> {
    if record.target.agents.is_empty() {
        return run.host.as_ref();
    }
    Some(&run.server_hosts.iter().find(|there| there.agent == agent.unwrap_or(0))?.host)
}

/// What a CPU did in all windows, in nanoseconds.
#[derive(Default)]
struct Sum {
    busy: f64,
    interrupt: f64,
    stolen: f64,
    all: f64,
    workers: f64,
}

impl Sum {
    fn add(&mut self, cpu: &CpuUse) {
        self.busy += cpu.busy_ns as f64;
        self.interrupt += cpu.interrupt_ns as f64;
        self.stolen += cpu.stolen_ns as f64;
        self.all += cpu.busy_ns as f64 + cpu.idle_ns as f64 + cpu.stolen_ns as f64;
    }

    /// Without the generator's workers.
    fn without_workers(&self) -> f64 {
        percent((self.busy + self.stolen - self.workers).max(0.0), self.all)
    }
}

impl Processors {
    /// `None` where the host's CPUs were not read in every window.
    pub(super) fn of_level(
        record: &RunRecord,
        runs: &[&IterationRecord],
        agent: Option<u32>,
    ) -> Option<Processors> {
        // Of several hosts, only workers on the server's host count: elsewhere, the same number is another CPU.
        let is_elsewhere = !record.target.agents.is_empty() && record.generators.is_empty();
        let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
        let mut pinned: BTreeMap<u32, f64> = BTreeMap::new();
        for run in runs {
            let host = host(record, run, agent).filter(|host| !host.cpus.is_empty())?;
            host.cpus.iter().for_each(|cpu| sums.entry(cpu.cpu).or_default().add(cpu));
            let makers = run.load_makers();
            let there = |maker: &&LoadMaker<'_>| {
                maker.generator.is_none() || are_numbered_alike(record, maker, agent)
            };
            for worker in makers.iter().filter(there).flat_map(|maker| maker.workers) {
                // Its whole CPU time, waiting awake too: what is left is what others had.
                let used_ns = (worker.user_ns + worker.system_ns) as f64;
                *pinned.entry(worker.cpu.unwrap_or(u32::MAX)).or_default() += used_ns;
            }
        }
        for (cpu, used_ns) in pinned.iter().filter(|_| !is_elsewhere) {
            sums.entry(*cpu).or_default().workers += used_ns;
        }
        let mut found = Processors { stolen: stolen(runs, &sums, record, agent), ..Processors::default() };
        let Some(cpus) = of_server(record, agent) else {
            let left = || sums.iter().filter(|(cpu, sum)| sum.all > 0.0 && !pinned.contains_key(cpu));
            let (busy, all) =
                left().fold((0.0, 0.0), |total, (_, sum)| (total.0 + sum.busy, total.1 + sum.all));
            let here = this_host(record) == Some(true) && !pinned.contains_key(&u32::MAX) && all > 0.0;
            found.left = here.then(|| (left().count(), percent(busy, all)));
            return found.left.is_some().then_some(found);
        };
        let own = || sums.iter().filter(|(cpu, sum)| cpus.contains(cpu) && sum.all > 0.0);
        let total = |of: fn(&Sum) -> f64| own().map(|(_, sum)| of(sum)).sum::<f64>();
        let all = total(|sum| sum.all);
        if all == 0.0 {
            return None;
        }
        let (busy, interrupt) = (total(|sum| sum.busy), total(|sum| sum.interrupt));
        found.busiest = own().map(|(_, sum)| sum.without_workers()).fold(0.0, f64::max);
        found.all_busy = percent(busy + total(|sum| sum.stolen), all);
        // Some kernels do not account for them.
        let are_known = total(|sum| sum.interrupt) > 0.0;
        found.interrupts = are_known.then(|| percent(interrupt, all));
        found.interrupts_most = own().map(|(_, sum)| percent(sum.interrupt, sum.all)).fold(0.0, f64::max);
        let mut known = Some(
            total(|sum| sum.workers)
                + if is_elsewhere { 0.0 } else { pinned.get(&u32::MAX).copied().unwrap_or_default() },
        );
        for run in runs {
            let used = |server: &ServerUse| (server.user_ns + server.system_ns) as f64;
            let behind = run.origin.as_ref().and_then(|origin| origin.server.as_ref()).map_or(0.0, used);
            let own = server_hosts::used_ns(record, run, agent);
            known = known.zip(own).map(|(sum, own)| sum + own as f64 + behind);
        }
        found.others = known.map(|known| percent((busy - interrupt - known).max(0.0), all));
        let behind = record.target.origin.as_ref();
        let is_behind = |cpu: &u32| behind.is_some_and(|origin| origin.cpus.contains(cpu));
        let origins = sums.iter().filter(|(cpu, _)| is_behind(cpu));
        found.origin_busiest = origins.map(|(_, sum)| sum.without_workers()).fold(0.0, f64::max);
        let shared = own().filter(|(cpu, _)| !is_elsewhere && pinned.contains_key(cpu));
        found.shared =
            shared.map(|(cpu, sum)| (*cpu, percent(sum.busy, sum.all))).max_by(|a, b| a.1.total_cmp(&b.1));
        Some(found)
    }

    /// How busy its busiest CPU was.
    pub(super) fn text(&self) -> Option<String> {
        let others = self.others.filter(|others| *others >= 1.0);
        let others =
            others.map_or(String::new(), |others| format!(", other programs used {others:.0} % of its CPUs"));
        let busy = format!("its busiest CPU was busy {:.0} % of the time", self.busiest);
        self.left.is_none().then(|| format!("{busy}{others}"))
    }

    /// How busy the CPUs were that the generator left to a server of which nothing else is known.
    pub(super) fn left_to_it(&self) -> Option<String> {
        let (cpus, busy) = self.left?;
        let cpus = counted(cpus as u64, "CPU", "CPUs");
        Some(format!(
            "and what was left to it, {cpus}, was busy {busy:.0} % of the time, for it or for others"
        ))
    }
}

/// The CPU that lost most to a hypervisor, of those that the server and the workers have, in words.
fn stolen(
    runs: &[&IterationRecord],
    of_servers_host: &BTreeMap<u32, Sum>,
    record: &RunRecord,
    agent: Option<u32>,
) -> Option<(String, f64)> {
    let mut workers: BTreeSet<(Option<u32>, u32)> = BTreeSet::new();
    let mut here: BTreeMap<(Option<u32>, u32), Sum> = BTreeMap::new();
    for maker in runs.iter().flat_map(|run| run.load_makers()) {
        workers.extend(maker.workers.iter().filter_map(|worker| Some((maker.generator, worker.cpu?))));
        for cpu in maker.host.iter().flat_map(|host| &host.cpus) {
            here.entry((maker.generator, cpu.cpu)).or_default().add(cpu);
        }
    }
    let servers = of_server(record, agent).unwrap_or_default();
    let theirs = of_servers_host.iter().filter(|(cpu, _)| servers.contains(cpu));
    let ours = here.iter().filter(|(place, _)| workers.contains(place));
    let is_fleet = !record.generators.is_empty();
    let theirs = theirs.map(|(cpu, sum)| {
        let whose = match agent {
            Some(agent) => format!(" of the {}", record.server_host_named(agent)),
            None if is_fleet => " of the server's host".to_owned(),
            None => String::new(),
        };
        (format!("CPU {cpu}{whose}"), sum)
    });
    let ours = ours.map(|((generator, cpu), sum)| {
        let whose = generator.map(|number| format!(" of generator {}", number + 1)).unwrap_or_default();
        (format!("CPU {cpu}{whose}"), sum)
    });
    let shares = theirs.chain(ours).map(|(cpu, sum)| (cpu, percent(sum.stolen, sum.all)));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}
