//! CPU time that a hypervisor takes from the server without reporting it: a thread on each CPU asks to be woken every 10 ms,
//! measures how late that happens, and times a fixed piece of work. The time that it waited for other threads is known and
//! taken out. Every 100 ms it asks a worker of the load generator on another CPU for an echo (`engine/src/echo.rs`), in closed loop.
//!
//! It costs the CPU a quarter of a percent, and runs only on virtual machines: elsewhere the kernel's counters are complete. A
//! worker of the load generator sees stalls of its own CPU (`engine/src/stalls.rs`).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use webstone_engine::Echo;
use webstone_measure::metrics::Histogram;
use webstone_model::record::CpuWatch;

const PERIOD: Duration = Duration::from_millis(10);
/// Echoes are asked for in one of this many periods.
const PERIODS_PER_ECHO: u32 = 10;
/// Smaller delays come from the timer or an interrupt.
const LATE: Duration = Duration::from_millis(1);
/// At most this many CPUs are watched, those with the lowest numbers.
const CPUS_MAX: usize = 16;

/// Watches until it is asked for what it saw.
#[derive(Debug)]
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    /// CPU by CPU: stalls since they were last taken.
    stalls: Vec<Arc<Stalls>>,
    threads: Vec<JoinHandle<Option<CpuWatch>>>,
}

/// Stalls of one CPU since they were last taken.
#[derive(Debug, Default)]
struct Stalls {
    cpu: u32,
    all_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Watch {
    /// Begins to watch these CPUs, except those that this program may not use. The first asks for the first of the echoes, and so on.
    pub(crate) fn begin(cpus: &[u32], echoes: Vec<Echo>) -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let of = |cpu: &u32| Arc::new(Stalls { cpu: *cpu, ..Stalls::default() });
        let stalls: Vec<Arc<Stalls>> = cpus.iter().take(CPUS_MAX).map(of).collect();
        let mut echoes = echoes.into_iter();
        let threads = stalls.iter().filter_map(|stalls| {
            let (stalls, over) = (Arc::clone(stalls), Arc::clone(&over));
            let echo = echoes.next();
            std::thread::Builder::new()
                .name("watch".to_owned())
                .spawn(move || pin(stalls.cpu).then(|| watch(&stalls, echo, &over)))
                .ok()
        });
        Watch { threads: threads.collect(), stalls, over }
    }

    /// The stalls since it was last asked, CPU by CPU.
    pub(crate) fn slice(&self) -> Vec<CpuWatch> {
        let of = |stalls: &Arc<Stalls>| CpuWatch {
            cpu: stalls.cpu,
            stalled_ns: stalls.all_ns.swap(0, Relaxed),
            stalled_ns_max: stalls.longest_ns.swap(0, Relaxed),
            ..CpuWatch::default()
        };
        self.stalls.iter().map(of).collect()
    }

    /// Ends, and says what was seen, CPU by CPU.
    pub(crate) fn end(mut self) -> Vec<CpuWatch> {
        self.over.store(true, Relaxed);
        self.threads.drain(..).filter_map(|thread| thread.join().ok()?).collect()
    }
}

impl Drop for Watch {
    /// Its threads end even if nobody asks.
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

fn pin(cpu: u32) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    if cpu as usize >= rustix::thread::CpuSet::MAX_CPU {
        return false;
    }
    set.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

fn watch(stalls: &Stalls, mut echo: Option<Echo>, over: &AtomicBool) -> CpuWatch {
    let began = Instant::now();
    let mut seen = CpuWatch { cpu: stalls.cpu, ..CpuWatch::default() };
    let mut due = began + PERIOD;
    let queue = RunQueue::open();
    let mut before = queue.waited();
    let mut works = Histogram::default();
    let (mut echoes, mut periods) = (Vec::new(), 0);
    while !over.load(Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let late = due.elapsed();
        let now = queue.waited();
        if late >= LATE {
            let mut one = CpuWatch::default();
            note(&mut one, late, now.saturating_sub(before));
            stalls.all_ns.fetch_add(one.stalled_ns, Relaxed);
            stalls.longest_ns.fetch_max(one.stalled_ns_max, Relaxed);
            seen.stalled_ns += one.stalled_ns;
            seen.stalled_ns_max = seen.stalled_ns_max.max(one.stalled_ns_max);
        }
        let work = webstone_engine::fixed_work();
        before = queue.waited();
        add(&mut works, work, before.saturating_sub(now));
        periods += 1;
        if periods % PERIODS_PER_ECHO == 0
            && let Some(echo) = &mut echo
        {
            echoes.extend(echo.ask());
            before = queue.waited();
        }
        while due <= Instant::now() {
            due += PERIOD;
        }
    }
    seen.watched_ns = began.elapsed().as_nanos() as u64;
    (seen.work_ns_median, seen.work_ns_best) = speed(&works);
    (seen.echoes, seen.echo_ns) = usual(echoes);
    seen
}

/// Number and mean, in nanoseconds, of the echoes that took at most twice their median. Longer ones were interrupted. Not the median itself,
/// because CPUs may move within a window, and it would ignore the shorter part. Zeros without any.
fn usual(mut echoes: Vec<Duration>) -> (u64, u64) {
    echoes.sort_unstable();
    let most = echoes.get(echoes.len() / 2).map_or(Duration::ZERO, |median| 2 * *median);
    echoes.retain(|echo| *echo <= most);
    let sum: Duration = echoes.iter().sum();
    (echoes.len() as u64, (sum.as_nanos() / echoes.len().max(1) as u128) as u64)
}

/// Median and best of the pieces of work: see [`CpuWatch`]. The mean would count interrupts, which a busy server has in every
/// fourth piece, as a slow CPU.
fn speed(works: &Histogram) -> (u64, u64) {
    (works.value_at_quantile(0.5), works.value_at_quantile(0.1))
}

/// How late it woke, and how much of that it waited in the run queue.
fn note(seen: &mut CpuWatch, late: Duration, queued: Duration) {
    let Some(unknown) = late.checked_sub(queued).filter(|unknown| *unknown >= LATE) else { return };
    let periods = (unknown - LATE).as_nanos() / PERIOD.as_nanos() + 1;
    seen.stalled_ns += periods as u64 * PERIOD.as_nanos() as u64;
    seen.stalled_ns_max = seen.stalled_ns_max.max(unknown.as_nanos() as u64);
}

/// How long the work took, and whether this thread waited in the run queue meanwhile: then something else ran in between, and
/// the time says nothing of the CPU's speed.
fn add(works: &mut Histogram, work: Duration, queued: Duration) {
    if queued.is_zero() {
        works.record(work.as_nanos() as u64);
    }
}

/// The kernel's account of this thread's run-queue delay. Only the thread that opened it may read it.
struct RunQueue(Option<File>);

impl RunQueue {
    fn open() -> RunQueue {
        RunQueue(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Its run-queue delay so far; zero if the kernel does not count it.
    fn waited(&self) -> Duration {
        let mut text = [0; 64];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let nanos = std::str::from_utf8(&text[..length]).ok().and_then(|text| {
            let mut numbers = text.split_whitespace();
            numbers.nth(1)?.parse().ok()
        });
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_what_nobody_accounts_for_is_a_stall() {
        let mut seen = CpuWatch::default();
        note(&mut seen, 5 * MS, Duration::ZERO);
        assert_eq!((seen.stalled_ns, seen.stalled_ns_max), (10_000_000, 5_000_000));
        // Other threads had the CPU.
        note(&mut seen, 5 * MS, 5 * MS);
        note(&mut seen, 5 * MS, 9 * MS);
        assert_eq!(seen.stalled_ns, 10_000_000);
        // Three periods: 11, 21 and 31 ms late, less 2 ms of run queue.
        note(&mut seen, 31 * MS, 2 * MS);
        assert_eq!((seen.stalled_ns, seen.stalled_ns_max), (40_000_000, 29_000_000));
    }

    #[test]
    fn interrupted_work_says_nothing_of_the_speed() {
        let mut works = Histogram::default();
        assert_eq!(speed(&works), (0, 0));
        works.record_n(1_000, 30);
        works.record_n(1_500, 50);
        works.record_n(90_000, 20);
        let (median, best) = speed(&works);
        assert!((1_499..=1_501).contains(&median), "{median}");
        assert!((1_000..=1_001).contains(&best), "{best}");
    }

    #[test]
    fn echoes_during_an_interruption_are_not_in_their_mean() {
        assert_eq!(usual(Vec::new()), (0, 0));
        assert_eq!(usual(vec![2 * MS, 4 * MS]), (2, 3_000_000));
        let two_states = [vec![2 * MS; 9], vec![3 * MS; 9], vec![50 * MS; 4]].concat();
        assert_eq!(usual(two_states), (18, 2_500_000));
    }

    #[test]
    fn work_in_which_something_else_ran_says_nothing_of_the_cpu() {
        let mut works = Histogram::default();
        (0..9).for_each(|_| add(&mut works, 9 * MS, Duration::from_nanos(1)));
        assert_eq!(speed(&works), (0, 0));
        add(&mut works, 2 * MS, Duration::ZERO);
        assert_eq!(works.len(), 1);
    }

    #[test]
    fn waiting_for_a_cpu_is_seen() {
        let cpu =
            (0..1024).find(|cpu| rustix::thread::sched_getaffinity(None).unwrap().is_set(*cpu)).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let burner = std::thread::spawn(move || {
            pin(cpu as u32);
            while !is_over.load(Relaxed) {}
        });
        let waited = std::thread::spawn(move || {
            pin(cpu as u32);
            let queue = RunQueue::open();
            let before = queue.waited();
            let began = Instant::now();
            while queue.waited() == before && began.elapsed() < Duration::from_secs(5) {}
            queue.waited() - before
        });
        let waited = waited.join().unwrap();
        over.store(true, Relaxed);
        burner.join().unwrap();
        // A kernel that keeps no account says zero.
        assert!(!waited.is_zero() || RunQueue::open().waited().is_zero());
    }

    #[test]
    fn every_available_cpu_is_watched() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..1024).find(|cpu| allowed.is_set(*cpu)).unwrap() as u32;
        let watched = |time: Duration| {
            let since = Instant::now();
            let watch = Watch::begin(&[cpu, 1_000_000], Vec::new());
            std::thread::sleep(time);
            let seen = watch.end();
            assert_eq!(seen.iter().map(|seen| seen.cpu).collect::<Vec<_>>(), [cpu]);
            assert!(u128::from(seen[0].watched_ns) <= since.elapsed().as_nanos(), "{seen:?}");
            seen
        };
        // Where others use the CPU, the thread may not get to work in this time.
        let seen = (0..8).map(|tries| watched(50 * MS * (1 << tries))).find(|seen| seen[0].work_ns_best > 0);
        let seen = seen.expect("a thread gets to its work within seconds");
        assert!(seen[0].work_ns_median >= seen[0].work_ns_best, "{seen:?}");
    }
}
