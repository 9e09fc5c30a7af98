//! Keeps the thread that reads counters off the server's CPUs. Among a hundred runnable server processes it woke up to half a second
//! late, and its readings missed the window. Reading would also take CPU time from the server.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// While it lives, the thread that made it runs on other CPUs than the server, if it may use others.
#[derive(Debug)]
pub(crate) struct Aside {
    before: Option<CpuSet>,
}

impl Aside {
    /// Threads that this one starts meanwhile keep off them, too.
    pub(crate) fn step(server: &[u32]) -> Aside {
        Aside { before: off(server) }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = sched_setaffinity(None, before)
        {
            tracing::debug!(%error, "the thread that reads counters stays off the server's CPUs");
        }
    }
}

/// Takes CPUs from the calling thread. Returns those that it had, if it has fewer now.
fn off(server: &[u32]) -> Option<CpuSet> {
    let before = sched_getaffinity(None).ok()?;
    let mut others = before;
    for cpu in server.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU) {
        others.unset(cpu);
    }
    let is_less = others.count() > 0 && others.count() < before.count();
    (is_less && sched_setaffinity(None, &others).is_ok()).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<u32> {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
    }

    #[test]
    fn the_servers_cpus_are_left_until_it_ends() {
        let all = allowed();
        let [first, rest @ ..] = &all[..] else { panic!("no CPU") };
        if rest.is_empty() {
            println!("skipped: this machine has one CPU");
            return;
        }
        let aside = Aside::step(&[*first, u32::MAX]);
        assert_eq!(allowed(), rest);
        drop(aside);
        assert_eq!(allowed(), all);
    }

    #[test]
    fn a_server_on_all_cpus_or_on_unknown_ones_changes_nothing() {
        let all = allowed();
        let (_shared, _unknown) = (Aside::step(&all), Aside::step(&[]));
        assert_eq!(allowed(), all);
    }
}
