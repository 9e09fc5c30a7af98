//! Who may stay connected where there are more connections than places. Clients without a token share the places by user, so that
//! a user who opens thousands takes them from nobody but himself; with a token, a client keeps its place.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// A user, by number; `None`: one that the kernel does not know.
type User = Option<u32>;

/// A connection.
#[derive(Debug)]
struct Visitor {
    user: User,
    since: Instant,
    has_token: Arc<AtomicBool>,
    task: AbortHandle,
}

/// The places, and those who wait for one.
#[derive(Debug)]
pub(crate) struct Places {
    places: usize,
    grace: Duration,
    crowd: Mutex<Crowd>,
}

#[derive(Debug, Default)]
struct Crowd {
    /// Open connections, the oldest first.
    visitors: Vec<Visitor>,
    /// How many of each user wait.
    waiting: BTreeMap<User, usize>,
}

impl Places {
    /// Makes this many places. A user's new connection replaces another of the same user only after `grace`.
    pub(crate) fn new(places: usize, grace: Duration) -> Places {
        Places { places, grace, crowd: Mutex::default() }
    }

    /// Waits for a place; `false` where there is none in time, or too many of this user wait already.
    pub(crate) async fn wait(&self, user: User) -> bool {
        if self.make_room(user) {
            return true;
        }
        if !self.queue(user) {
            return false;
        }
        let mut found = false;
        let began = Instant::now();
        while !found && began.elapsed() < 2 * self.grace {
            tokio::time::sleep(self.grace / 20).await;
            found = self.make_room(user);
        }
        self.crowd().waiting.entry(user).and_modify(|waiting| *waiting -= 1);
        found
    }

    /// Whether this user may have another connection wait.
    fn queue(&self, user: User) -> bool {
        let mut crowd = self.crowd();
        crowd.waiting.retain(|_, waiting| *waiting > 0);
        let waiting = crowd.waiting.entry(user).or_default();
        let is_room = *waiting < self.places;
        *waiting += usize::from(is_room);
        is_room
    }

    fn crowd(&self) -> MutexGuard<'_, Crowd> {
        self.crowd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a place now for another connection of this user. Where all are taken, the oldest connection without a token
    /// of the user with most of them ends for it.
    fn make_room(&self, user: User) -> bool {
        let all = &mut self.crowd().visitors;
        all.retain(|visitor| !visitor.task.is_finished());
        if all.len() < self.places {
            return true;
        }
        let mut counts: BTreeMap<User, usize> = BTreeMap::new();
        let without_token = || all.iter().enumerate().filter(|(_, one)| !one.has_token.load(Relaxed));
        without_token().for_each(|(_, one)| *counts.entry(one.user).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or(0);
        let Some((oldest, visitor)) = without_token().find(|(_, one)| counts[&one.user] == most) else {
            return false;
        };
        let own = counts.get(&user).copied().unwrap_or(0);
        if own + 1 > most && visitor.since.elapsed() < self.grace {
            return false;
        }
        visitor.task.abort();
        all.remove(oldest);
        true
    }

    /// Takes the place that there was.
    pub(crate) fn take(&self, user: User, has_token: Arc<AtomicBool>, task: AbortHandle) {
        let visitor = Visitor { user, since: Instant::now(), has_token, task };
        self.crowd().visitors.push(visitor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of these users in order, and the places that are left of each; an upper-case letter has shown the token.
    fn after(places: usize, grace: Duration, users: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let all = Places::new(places, grace);
        for letter in users.chars() {
            let user = Some(u32::from(letter.to_ascii_lowercase()));
            if all.make_room(user) {
                let task = tokio::spawn(std::future::pending::<()>());
                let has_token = Arc::new(AtomicBool::new(letter.is_ascii_uppercase()));
                all.take(user, has_token, task.abort_handle());
            }
        }
        let left = all.crowd.into_inner().unwrap().visitors;
        let letter = |one: &Visitor| {
            let letter = char::from_u32(one.user.unwrap()).unwrap();
            if one.has_token.load(Relaxed) { letter.to_ascii_uppercase() } else { letter }
        };
        left.iter().map(letter).collect()
    }

    #[test]
    fn a_flood_takes_places_from_its_own_user_only() {
        let hour = Duration::from_secs(3600);
        assert_eq!(after(4, hour, "aaaaaaaa"), "aaaa", "young ones stay, what comes later is refused");
        assert_eq!(after(4, hour, "aaaab"), "aaab", "another user gets a place at once");
        assert_eq!(after(4, hour, "aaaabb"), "aabb");
        assert_eq!(after(4, hour, "aabbba"), "aabb", "equal shares: no one takes from the other");
        assert_eq!(after(4, hour, "abcde"), "bcde", "one of a new user replaces the oldest");
        assert_eq!(after(4, hour, "aaaaBaaaa"), "aaaB");
        assert_eq!(after(3, hour, "AAAb"), "AAA", "with a token a place is kept");
    }

    #[test]
    fn those_that_stay_without_a_token_give_way_after_a_while() {
        assert_eq!(after(3, Duration::ZERO, "abcd"), "bcd");
        assert_eq!(after(3, Duration::ZERO, "aAbc"), "Abc");
    }
}
