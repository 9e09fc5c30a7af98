//! Misbehaving clients: threads, each with one connection at a time, so that their number is that of the connections.
//! They measure nothing and need not be fast; blocking calls keep each misdeed a few lines.

use std::collections::BTreeMap;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use webstone_judge::workout::{Misdeed, Tally};

use super::misdeeds::{Scene, below, commit};

/// Longest pause of an offender between two misdeeds, in microseconds: without one, they would take the CPUs from those
/// that are measured.
const PAUSE_US_MAX: u64 = 5000;
/// How often the number of offenders changes.
const VARY_EVERY: Duration = Duration::from_millis(100);
/// Memory of a thread, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// Offenders at work.
#[derive(Debug)]
pub(super) struct Offenders {
    scene: Arc<Scene>,
    threads: Vec<JoinHandle<(Misdeed, Tally)>>,
    varying: Option<JoinHandle<()>>,
}

impl Offenders {
    /// Starts this many. With `vary`, their number changes ten times a second, from one to all.
    ///
    /// # Errors
    /// If the machine gives no more threads.
    pub(super) fn start(
        scene: Arc<Scene>,
        misdeeds: &[Misdeed],
        count: u32,
        vary: bool,
        seed: u64,
    ) -> io::Result<Offenders> {
        let active = Arc::new(AtomicU32::new(count));
        let mut offenders = Offenders { scene: Arc::clone(&scene), threads: Vec::new(), varying: None };
        for number in 0..count {
            // Each thread keeps to one misdeed, or soon all of them would be busy with slow ones.
            let misdeed = misdeeds[number as usize % misdeeds.len()];
            let (scene, active) = (Arc::clone(&scene), Arc::clone(&active));
            let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (u64::from(number) << 32));
            let thread = Builder::new().name(format!("offender-{number}")).stack_size(STACK_BYTES);
            let work = move || offend(&scene, misdeed, number, &active, random);
            // Threads that run already end when `offenders` is dropped.
            offenders.threads.push(thread.spawn(work)?);
        }
        if vary && count > 0 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(!seed);
            let work = move || {
                while !scene.stop.load(Relaxed) {
                    active.store(1 + below(&mut random, u64::from(count)) as u32, Relaxed);
                    sleep(VARY_EVERY);
                }
            };
            offenders.varying = Some(Builder::new().stack_size(STACK_BYTES).spawn(work)?);
        }
        Ok(offenders)
    }

    /// Ends them, and returns how the server reacted to each misdeed.
    pub(super) fn stop(mut self) -> Vec<(Misdeed, Tally)> {
        self.scene.stop.store(true, Relaxed);
        let mut sums: BTreeMap<Misdeed, Tally> = BTreeMap::new();
        for thread in self.threads.drain(..) {
            let (misdeed, tally) = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            sums.entry(misdeed).or_default().merge(&tally);
        }
        sums.into_iter().collect()
    }
}

impl Drop for Offenders {
    fn drop(&mut self) {
        self.scene.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        self.varying.take().map(JoinHandle::join);
    }
}

fn offend(
    scene: &Scene,
    misdeed: Misdeed,
    number: u32,
    active: &AtomicU32,
    mut random: Xoshiro256PlusPlus,
) -> (Misdeed, Tally) {
    let mut tally = Tally::default();
    while !scene.stop.load(Relaxed) {
        if number < active.load(Relaxed) {
            commit(misdeed, scene, &mut random, &mut tally);
        }
        sleep(Duration::from_micros(1 + below(&mut random, PAUSE_US_MAX)));
    }
    (misdeed, tally)
}
