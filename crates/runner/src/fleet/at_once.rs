//! Starts several hosts at a time, and reports which of them have not answered yet.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::Sender;

use super::member::lock;
use super::pods::Launch;
use crate::waiting;

/// How many agents start at once: a jump host drops logins above its sshd's MaxStartups, by default 10.
const STARTED_AT_ONCE: usize = 8;

/// What `one` returns for each host, in their order, each on a thread of its own. It puts the place of a host whose agent has
/// answered into `there`; if that takes long, `tell` hears which are missing.
pub(super) fn each<T: Send>(
    launches: &[Launch],
    ring: &Sender<usize>,
    one: &(impl Fn(usize, &Launch, Sender<usize>) -> T + Sync),
    there: &Mutex<BTreeSet<usize>>,
    tell: &mut dyn FnMut(String),
) -> Vec<T> {
    let numbered: Vec<(usize, &Launch)> = launches.iter().enumerate().collect();
    let mut all = Vec::new();
    for some in numbered.chunks(STARTED_AT_ONCE) {
        let start = || {
            std::thread::scope(|scope| {
                let start = |(place, launch): &(usize, &Launch)| {
                    let (place, launch, ring) = (*place, (*launch).clone(), ring.clone());
                    scope.spawn(move || one(place, &launch, ring))
                };
                let threads: Vec<_> = some.iter().map(start).collect();
                threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<T>>()
            })
        };
        all.extend(waiting::saying_after(waiting::AGENT_SILENCE, start, || {
            let there = lock(there);
            let missing: Vec<_> = some.iter().filter(|(place, _)| !there.contains(place)).collect();
            if let Some((first, _)) = missing.first() {
                let commands: Vec<&str> = missing.iter().map(|(_, launch)| &*launch.command).collect();
                tell(waiting::for_agents(&format!("generator {}", first + 1), &commands));
            }
        }));
    }
    all
}
