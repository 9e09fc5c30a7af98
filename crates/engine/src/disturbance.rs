//! How much CPU time others take: other programs, interrupts, and other virtual machines on the same host, which this
//! machine's counters may not show. A thread that only reads the clock sees gaps.

use std::thread;
use std::time::{Duration, Instant};

use webstone_measure::disturbance::Disturbance;

use crate::sys::thread::pin;

/// Longer than reading the clock takes by itself.
const GAP: Duration = Duration::from_micros(2);

/// Watches each of these CPUs for `length`, all at the same time; if the list is empty, one that the kernel chooses. The
/// thread for a CPU that is not available runs on any; a thread that cannot start sees nothing.
pub fn disturbance(cpus: &[u32], length: Duration) -> Disturbance {
    let look = |cpu: Option<u32>| {
        thread::Builder::new().spawn(move || {
            if let Some(cpu) = cpu {
                let _ = pin(cpu);
            }
            let began = Instant::now();
            let mut last = began;
            // The first reading after the end counts, too: the CPU may have been taken just before it.
            seen(
                began,
                std::iter::from_fn(|| {
                    let goes_on = last - began < length;
                    last = Instant::now();
                    goes_on.then_some(last)
                }),
            )
        })
    };
    let wanted = if cpus.is_empty() { vec![None] } else { cpus.iter().copied().map(Some).collect() };
    let looking: Vec<_> = wanted.into_iter().filter_map(|cpu| look(cpu).ok()).collect();
    let looks = looking.into_iter().filter_map(|thread| thread.join().ok());
    looks.fold(Disturbance::default(), Disturbance::plus)
}

/// The disturbance that consecutive readings of the clock show.
fn seen(began: Instant, readings: impl Iterator<Item = Instant>) -> Disturbance {
    let (mut last, mut taken, mut longest) = (began, Duration::ZERO, Duration::ZERO);
    for now in readings {
        let gap = now - last;
        if gap >= GAP {
            taken += gap;
            longest = longest.max(gap);
        }
        last = now;
    }
    Disturbance {
        looked_ns: (last - began).as_nanos() as u64,
        taken_ns: taken.as_nanos() as u64,
        longest_ns: longest.as_nanos() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn gaps_between_readings_were_taken() {
        let began = Instant::now();
        // 300 µs and 50 µs of 354, and readings that took one microsecond each.
        let readings = [1, 2, 302, 303, 353, 354].map(|us| began + Duration::from_micros(us));
        let expected = Disturbance { looked_ns: 354_000, taken_ns: 350_000, longest_ns: 300_000 };
        assert_eq!(seen(began, readings.into_iter()), expected);
        assert_eq!(seen(began, std::iter::empty()), Disturbance::default());
    }

    #[test]
    fn a_neighbour_on_its_cpu_is_seen() {
        let length = Duration::from_millis(300);
        let Some(cpu) = (0..1024).find(|cpu| {
            let cpu = *cpu;
            thread::spawn(move || pin(cpu).is_ok()).join().unwrap()
        }) else {
            panic!("this process runs on some CPU");
        };
        let (is_there, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let looked = thread::scope(|scope| {
            scope.spawn(|| {
                pin(cpu).unwrap();
                is_there.store(true, Relaxed);
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while !is_there.load(Relaxed) {
                thread::yield_now();
            }
            let looked = disturbance(&[cpu], length);
            over.store(true, Relaxed);
            looked
        });
        // Half of the time is the neighbour's, in slices of a few milliseconds; others may take more.
        assert!(looked.taken_percent() >= 25.0 && looked.longest_ns >= 500_000, "{looked:?}");
        assert!(looked.taken_ns <= looked.looked_ns && looked.looked_ns >= 300_000_000, "{looked:?}");
    }

    #[test]
    fn every_cpu_is_watched() {
        // CPU 1,000 does not exist; its thread runs on any.
        let looked = disturbance(&[0, 1_000], Duration::from_millis(5));
        assert!(looked.looked_ns >= 10_000_000, "{looked:?}");
        assert!(disturbance(&[], Duration::from_millis(5)).looked_ns >= 5_000_000);
    }
}
