//! How busy threads of this program are while they work: for the live display, not for the record.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::machine::Root;
use crate::process_use::Scheduled;

/// Threads of this process whose names begin alike.
pub struct ThreadShare {
    prefix: &'static str,
    /// CPU time of each at the last look, in nanoseconds.
    before: BTreeMap<String, u64>,
    looked_at: Instant,
}

impl ThreadShare {
    /// Watches from now on.
    pub fn of_threads(prefix: &'static str) -> ThreadShare {
        ThreadShare { prefix, before: BTreeMap::new(), looked_at: Instant::now() }
    }

    /// The busiest thread's share of one CPU since the last look, from 0 to 1. `None` at the first look, and where the kernel keeps no
    /// account of threads.
    pub fn busiest(&mut self) -> Option<f64> {
        self.busiest_at(&Root::default(), Instant::now())
    }

    fn busiest_at(&mut self, root: &Root, now: Instant) -> Option<f64> {
        let pid = std::process::id();
        let ours = |thread: &String| {
            let name = root.text(&format!("/proc/{pid}/task/{thread}/comm"));
            name.is_some_and(|name| name.starts_with(self.prefix))
        };
        let threads = root.names(&format!("/proc/{pid}/task"));
        let now_ns: BTreeMap<String, u64> = threads
            .into_iter()
            .filter(ours)
            .filter_map(|thread| Some((thread.clone(), Scheduled::read(root, pid, &thread)?.cpu_ns)))
            .collect();
        let elapsed_ns = now.saturating_duration_since(self.looked_at).as_nanos().max(1) as f64;
        let used = |(thread, cpu_ns): (&String, &u64)| Some(cpu_ns.saturating_sub(*self.before.get(thread)?));
        let most_ns = now_ns.iter().filter_map(used).max();
        (self.before, self.looked_at) = (now_ns, now);
        Some((most_ns? as f64 / elapsed_ns).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::machine::tests::root_with;

    fn at(threads: &[(&str, &str, u64)]) -> (tempfile::TempDir, Root) {
        let pid = std::process::id();
        let files: Vec<(String, String)> = threads
            .iter()
            .flat_map(|(thread, name, cpu_ns)| {
                let of = |file: &str| format!("/proc/{pid}/task/{thread}/{file}");
                [(of("comm"), format!("{name}\n")), (of("schedstat"), format!("{cpu_ns} 5 1\n"))]
            })
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        root_with(&files)
    }

    #[test]
    fn the_busiest_of_those_that_are_meant_counts() {
        let mut share = ThreadShare::of_threads("worker-");
        let start = share.looked_at;
        let second = Duration::from_secs(1);
        let (_dir, before) = at(&[("1", "webstone", 9), ("2", "worker-0", 100), ("3", "worker-1", 100)]);
        assert_eq!(share.busiest_at(&before, start + second), None);
        let (_dir, after) = at(&[
            ("1", "webstone", 900_000_000),
            ("2", "worker-0", 250_000_100),
            ("3", "worker-1", 600_000_100),
            ("4", "worker-2", 1_000_000_000),
        ]);
        assert_eq!(share.busiest_at(&after, start + second * 2), Some(0.6));
        let (_dir, gone) = at(&[]);
        assert_eq!(share.busiest_at(&gone, start + second * 3), None);
    }
}
