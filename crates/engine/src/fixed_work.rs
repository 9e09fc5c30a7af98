//! A fixed piece of work, timed: how fast a CPU is at the moment, given what else it does. Another thread on the same
//! core, another virtual machine or a lower clock rate makes it take longer, even if no counter shows any CPU time
//! taken.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A few microseconds on today's CPUs: much longer than reading the clock, and too short to disturb what is measured.
const ROUNDS: u64 = 4_000;

/// Does the work and returns how long it took. It uses registers only, and several execution units at once: work that
/// waits for memory would measure caches, and a single chain of additions would not notice another thread on its
/// core.
pub fn fixed_work() -> Duration {
    // The first rounds after a thread switch are slower by themselves.
    black_box(rounds(ROUNDS / 16));
    let began = Instant::now();
    black_box(rounds(ROUNDS));
    began.elapsed()
}

fn rounds(rounds: u64) -> u64 {
    let (mut a, mut b, mut c, mut d) = (1_u64, 2_u64, 3_u64, 4_u64);
    for round in 0..black_box(rounds) {
        a = a.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
        b = (b ^ (b >> 13)).wrapping_add(round);
        c = c.rotate_left(7) ^ round;
        d = d.wrapping_add(d >> 3).wrapping_add(round);
    }
    a ^ b ^ c ^ d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_times_the_work_takes_longer() {
        let fastest = |count: u64| {
            let one = || {
                let began = Instant::now();
                black_box(rounds(count));
                began.elapsed()
            };
            (0..500).map(|_| one()).min().unwrap()
        };
        assert!(fastest(4 * ROUNDS) > 2 * fastest(ROUNDS), "the loop is still there");
    }
}
