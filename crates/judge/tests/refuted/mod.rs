//! Which claims of a sentence about the bottleneck a record's own tables refute. Written from the tables, not from the code that
//! makes the sentence, so that one misreading does not cancel out the other.

use webstone_judge::verdict::{Limit, LimitingResource};
use webstone_model::record::{IterationRecord, RunRecord};

/// The claim that is refuted, and by what; `None` where the tables agree.
pub(crate) fn refuted(record: &RunRecord, runs: &[&IterationRecord], limit: &Limit) -> Option<String> {
    let table = Tables::of_runs(record, runs);
    let no = |why: String| Some(format!("{why}: {} ({table:?})", limit.sentence));
    match limit.resource {
        LimitingResource::Server if limit.sentence.contains("quota") => {
            (table.throttled < 4.0).then(|| no("no quota held it up".into()))?
        }
        LimitingResource::Server | LimitingResource::Origin if table.server + table.interrupts < 84.0 => {
            no("neither its processes nor interrupts had its CPUs".into())
        }
        LimitingResource::ServerThread if table.thread < 89.0 => {
            no("no thread had or wanted a CPU all the time".into())
        }
        LimitingResource::Generator if table.worker < 89.0 => no("no worker had its CPU all the time".into()),
        LimitingResource::Network if table.link < 89.0 => no("no link was full".into()),
        LimitingResource::OfferedRate if table.missed > 1.5 => no("the rate was missed".into()),
        // Whatever had the CPUs: a server that neither ran nor waited for one lacked none.
        LimitingResource::None if table.busiest.min(table.wanted) + table.worker > 55.0 => {
            no("CPUs were busy, and the server had or wanted them".into())
        }
        LimitingResource::None if table.thread > 55.0 => {
            no("a thread had or wanted a CPU most of the time".into())
        }
        LimitingResource::None if table.link > 90.0 => no("a link was full".into()),
        LimitingResource::None if table.missed <= 0.5 && runs[0].schedule.is_some() && table.failed < 0.5 => {
            no("the rate was delivered".into())
        }
        _ if limit.sentence.contains("more clients may raise") && runs[0].rate.is_some() => {
            no("clients are not asked".into())
        }
        _ => None,
    }
}

/// What the tables say, in percent.
#[derive(Debug)]
struct Tables {
    /// The server's CPU time, of the CPUs that it may use.
    server: f64,
    interrupts: f64,
    /// The server's busiest thread, with its waiting.
    thread: f64,
    /// CPU time that the whole server had or waited for, and interrupts, of one CPU; infinite where its waiting is not known.
    wanted: f64,
    /// The server's busiest CPU, of all that ran on it but workers of the generator.
    busiest: f64,
    worker: f64,
    link: f64,
    missed: f64,
    failed: f64,
    throttled: f64,
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

impl Tables {
    fn of_runs(record: &RunRecord, runs: &[&IterationRecord]) -> Tables {
        let sum = |of: &dyn Fn(&IterationRecord) -> f64| runs.iter().map(|run| of(run)).sum::<f64>();
        let window = sum(&|run| run.measured.window_ns as f64);
        let of_processes = |of: fn(&webstone_model::record::ProcessUse) -> f64| {
            sum(&|run| run.server.as_ref().and_then(|it| it.processes.as_ref()).map_or(0.0, of))
        };
        let cpus = &record.target.cpus;
        let all: std::collections::BTreeSet<u32> =
            runs.iter().flat_map(|run| &run.host).flat_map(|host| &host.cpus).map(|cpu| cpu.cpu).collect();
        let may_use: Vec<u32> =
            all.iter().copied().filter(|cpu| cpus.is_empty() || cpus.contains(cpu)).collect();
        let of_cpu = |number: u32, of: fn(&webstone_model::record::CpuUse) -> u64| {
            sum(&|run| {
                let found = run.host.iter().flat_map(|host| &host.cpus).find(|cpu| cpu.cpu == number);
                found.map_or(0.0, |cpu| of(cpu) as f64)
            })
        };
        let time = |cpu| of_cpu(cpu, |it| it.busy_ns + it.idle_ns + it.stolen_ns);
        let workers = |cpu: u32| {
            sum(&|run| {
                let here = run.measured.generator.workers.iter().filter(|worker| worker.cpu == Some(cpu));
                here.map(|worker| (worker.user_ns + worker.system_ns) as f64).sum()
            })
        };
        let busiest =
            may_use.iter().map(|cpu| share(of_cpu(*cpu, |it| it.busy_ns) - workers(*cpu), time(*cpu)));
        let threads = match record.target.software.as_ref().and_then(|it| it.cpus_max) {
            Some(most) => most as usize,
            None if record.target.embedded && record.spec.server.threads > 0 => {
                record.spec.server.threads as usize
            }
            None => usize::MAX,
        };
        let used = sum(&|run| run.server.as_ref().map_or(0.0, |it| (it.user_ns + it.system_ns) as f64));
        let known = of_processes(|it| it.threads_cpu_ns.unwrap_or(0) as f64);
        let waited = of_processes(|it| it.run_queue_ns.unwrap_or(0) as f64);
        let interrupted = may_use.iter().map(|cpu| share(of_cpu(*cpu, |it| it.interrupt_ns), time(*cpu)));
        let wanted = match share(known, used) >= 89.0 {
            true => share(used + waited, window) + interrupted.fold(0.0, f64::max),
            false => f64::INFINITY,
        };
        let most = runs.iter().map(|run| run.measured.generator.workers.len()).max().unwrap_or(0);
        let worker = |place: usize| {
            let used = sum(&|run| {
                run.measured.generator.workers.get(place).map_or(0.0, |worker| worker.worked_ns() as f64)
            });
            share(used, window)
        };
        let links = runs.iter().flat_map(|run| &run.host).flat_map(|host| {
            let seconds = host.elapsed_ns as f64 / 1e9;
            host.links.iter().filter_map(move |link| {
                let bits = link.received_bytes.max(link.sent_bytes) as f64 * 8.0;
                Some(share(bits / seconds, link.speed_bps.filter(|_| !link.loopback)? as f64))
            })
        });
        let schedule = |of: fn(&webstone_model::record::ScheduleKept) -> f64| {
            sum(&|run| run.schedule.as_ref().map_or(0.0, of))
        };
        let failed = sum(&|run| run.measured.counts.failed as f64);
        Tables {
            server: share(used, window * may_use.len().min(threads).max(1) as f64),
            interrupts: share(
                may_use.iter().map(|cpu| of_cpu(*cpu, |it| it.interrupt_ns)).sum(),
                may_use.iter().map(|cpu| time(*cpu)).sum(),
            ),
            thread: share(
                of_processes(|it| {
                    let wanted = it.busiest.iter().map(|thread| thread.cpu_ns + thread.run_queue_ns);
                    wanted.max().unwrap_or(0) as f64
                }),
                window,
            ),
            wanted,
            busiest: busiest.fold(0.0, f64::max),
            worker: (0..most).map(worker).fold(0.0, f64::max),
            link: links.fold(0.0, f64::max),
            missed: share(
                (schedule(|it| it.asked_rate) - schedule(|it| it.offered_rate)).abs(),
                schedule(|it| it.asked_rate),
            ),
            failed: share(failed, failed + sum(&|run| run.measured.counts.succeeded as f64)),
            throttled: share(of_processes(|it| it.throttled_ns.unwrap_or(0) as f64), window),
        }
    }
}
