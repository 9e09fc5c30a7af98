//! Courses played without a clock, a process or a stream: every row of what may go wrong, and a thousand hosts at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use webstone_lab::agent::load::Ended;

use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn times(warmup_s: u64) -> Times {
    Times {
        warmup: Duration::from_secs(warmup_s),
        duration: Duration::from_secs(10),
        drain: Duration::from_secs(2),
    }
}

fn ended() -> LoadAnswer {
    LoadAnswer::Ended(Box::new(Ended { opened_ns: 1, ..Ended::default() }))
}

/// A course whose hosts are all warm, just before the last says so.
fn nearly_warm(hosts: usize) -> LevelCourse {
    let mut course = LevelCourse::new(&vec![true; hosts], times(1), S);
    for host in 0..hosts {
        let told = course.said(host, &LoadAnswer::Armed, S + MS);
        let all_are_armed = host + 1 == hosts;
        assert_eq!(told.len(), if all_are_armed { hosts } else { 0 });
    }
    assert_eq!((course.stage(), course.go_ns()), (Stage::Warming, Some(2 * S + MS)));
    for host in 1..hosts {
        assert!(course.said(host, &LoadAnswer::Warm, 3 * S).is_empty());
    }
    course
}

#[test]
fn all_are_told_the_same_instants_once_all_are_ready() {
    let mut course = nearly_warm(3);
    assert_eq!(course.open_ns(), None);
    let told = course.said(0, &LoadAnswer::Warm, 4 * S);
    let at_ns = 5 * S;
    assert_eq!(told, [(0, Tell::Open(at_ns)), (1, Tell::Open(at_ns)), (2, Tell::Open(at_ns))]);
    assert_eq!((course.open_ns(), course.close_ns()), (Some(at_ns), Some(at_ns + 10 * S)));
    for host in 0..3 {
        assert_eq!(course.stage(), Stage::Opened);
        assert!(course.said(host, &ended(), 15 * S).is_empty());
    }
    assert_eq!((course.stage(), course.lost()), (Stage::Done, None));
}

#[test]
fn without_a_warm_up_the_window_opens_with_the_load_and_hosts_without_a_part_are_not_asked() {
    let mut course = LevelCourse::new(&[true, false], times(0), S);
    assert_eq!(course.said(0, &LoadAnswer::Armed, S), [(0, Tell::Go(2 * S))]);
    assert_eq!(course.open_ns(), Some(2 * S));
    assert!(course.said(1, &ended(), 2 * S).is_empty());
    assert!(course.said(0, &ended(), 14 * S).is_empty());
    assert_eq!((course.stage(), course.lost()), (Stage::Done, None));
}

#[test]
fn one_that_is_lost_ends_the_level_for_the_others_who_keep_what_they_have() {
    let mut course = nearly_warm(3);
    course.said(0, &LoadAnswer::Warm, 4 * S);
    let told = course.lose(1, "ended: killed by signal 9".to_owned(), 6 * S);
    assert_eq!(told, [(0, Tell::End), (2, Tell::End)]);
    assert_eq!(course.lost(), Some(&(1, "ended: killed by signal 9".to_owned())));
    assert!(course.said(0, &ended(), 7 * S).is_empty());
    // A second loss does not hide the first.
    assert!(course.lose(2, "ended: exit status 1".to_owned(), 7 * S).is_empty());
    assert_eq!((course.stage(), course.lost().unwrap().0), (Stage::Done, 1));
}

#[test]
fn before_the_window_opens_a_loss_ends_everything_at_once() {
    for lose in [
        |course: &mut LevelCourse| course.lose(0, "ended".to_owned(), 3 * S),
        |course: &mut LevelCourse| course.said(0, &LoadAnswer::Failed("no memory".to_owned()), 3 * S),
        |course: &mut LevelCourse| course.said(0, &LoadAnswer::Late(5), 3 * S),
        |course: &mut LevelCourse| course.said(0, &LoadAnswer::Ended(Box::default()), 3 * S),
        // Messages that no host may send at this point.
        |course: &mut LevelCourse| course.said(0, &LoadAnswer::Armed, 3 * S),
    ] {
        let mut course = nearly_warm(2);
        assert_eq!(lose(&mut course), [(1, Tell::Abort)]);
        assert_eq!(course.lost().unwrap().0, 0);
        course.said(1, &LoadAnswer::Ended(Box::default()), 4 * S);
        assert_eq!(course.stage(), Stage::Done);
    }
}

#[test]
fn silence_is_a_loss_after_the_lease_and_not_before() {
    let mut course = nearly_warm(2);
    course.said(0, &LoadAnswer::Warm, 4 * S);
    // Beats and echoes are signs of life, whatever they say.
    course.said(0, &LoadAnswer::Beat(Default::default()), 12 * S);
    course.heard(1, 5 * S);
    assert!(course.tick(19 * S + 999 * MS).is_empty());
    course.heard(0, 20 * S);
    let told = course.tick(20 * S + MS);
    assert_eq!(told, [(0, Tell::End)]);
    assert_eq!(course.lost(), Some(&(1, "was silent for 15 s".to_owned())));
}

#[test]
fn who_is_there_and_does_nothing_is_not_waited_for_for_ever() {
    let alive = |course: &mut LevelCourse, now_ns| (0..2).for_each(|host| course.heard(host, now_ns));
    let mut arming = LevelCourse::new(&[true, true], times(1), S);
    arming.said(0, &LoadAnswer::Armed, S);
    alive(&mut arming, 62 * S);
    arming.tick(62 * S);
    assert_eq!(arming.lost(), Some(&(1, "did not set up its workers in time".to_owned())));
    let mut warming = nearly_warm(2);
    alive(&mut warming, 50 * S);
    warming.tick(50 * S);
    assert_eq!(warming.lost(), Some(&(0, "did not get warm in time".to_owned())));
    let mut measuring = nearly_warm(2);
    measuring.said(0, &LoadAnswer::Warm, 4 * S);
    measuring.said(0, &ended(), 15 * S);
    alive(&mut measuring, 46 * S);
    assert!(measuring.tick(46 * S).is_empty(), "30 s after the drain");
    alive(&mut measuring, 48 * S);
    measuring.tick(48 * S);
    assert_eq!(measuring.lost(), Some(&(1, "did not send its result in time".to_owned())));
    assert_eq!(measuring.stage(), Stage::Done);
}

#[test]
fn a_result_that_came_is_not_lost_with_its_host() {
    let mut course = nearly_warm(2);
    course.said(0, &LoadAnswer::Warm, 4 * S);
    course.said(0, &ended(), 15 * S);
    assert!(course.lose(0, "ended: killed by signal 9".to_owned(), 15 * S + MS).is_empty());
    course.said(1, &ended(), 15 * S + 2 * MS);
    assert_eq!((course.stage(), course.lost()), (Stage::Done, None));
}

#[test]
fn the_user_ends_the_window_and_then_everything() {
    let mut course = nearly_warm(2);
    course.said(0, &LoadAnswer::Warm, 4 * S);
    assert_eq!(course.end(6 * S), [(0, Tell::End), (1, Tell::End)]);
    assert!(course.end(6 * S).is_empty());
    assert_eq!(course.abort(7 * S), [(0, Tell::Abort), (1, Tell::Abort)]);
    (0..2).for_each(|host| drop(course.said(host, &ended(), 8 * S)));
    assert_eq!((course.stage(), course.lost()), (Stage::Done, None));
}

/// What happens next to a host that is played, by when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Comes {
    Armed,
    Warm,
    Beat,
    Ended,
    Dies,
}

/// A thousand hosts, each as slow as chance has it; some die where `deaths` says how many.
fn play(hosts: usize, deaths: usize, seed: u64) -> LevelCourse {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut up_to = |most: u64| random.next_u64() % most;
    let mut course = LevelCourse::new(&vec![true; hosts], times(1), S);
    let mut events = BinaryHeap::new();
    for host in 0..hosts {
        events.push(Reverse((S + up_to(2 * S), host, Comes::Armed)));
    }
    for host in 0..deaths {
        events.push(Reverse((S + up_to(14 * S), host * 7 % hosts, Comes::Dies)));
    }
    let mut dead = vec![false; hosts];
    let mut is_over = vec![false; hosts];
    let mut opened: Vec<Option<u64>> = vec![None; hosts];
    let mut next_tick = S;
    while course.stage() != Stage::Done {
        let next = events.pop();
        let now_ns = next.as_ref().map_or(next_tick, |Reverse((at_ns, ..))| *at_ns);
        let mut told = Vec::new();
        while next_tick <= now_ns {
            told.extend(course.tick(next_tick));
            next_tick += 100 * MS;
        }
        if let Some(Reverse((_, host, comes))) = next
            && !dead[host]
        {
            told.extend(match comes {
                Comes::Armed => course.said(host, &LoadAnswer::Armed, now_ns),
                Comes::Warm if is_over[host] => Vec::new(),
                Comes::Warm => course.said(host, &LoadAnswer::Warm, now_ns),
                Comes::Beat => {
                    if !is_over[host] {
                        events.push(Reverse((now_ns + S, host, Comes::Beat)));
                    }
                    course.said(host, &LoadAnswer::Beat(Default::default()), now_ns)
                }
                Comes::Ended if is_over[host] => Vec::new(),
                Comes::Ended => {
                    is_over[host] = true;
                    course.said(host, &ended(), now_ns)
                }
                Comes::Dies => {
                    dead[host] = true;
                    course.lose(host, "ended: killed by signal 9".to_owned(), now_ns)
                }
            });
        }
        for (host, tell) in told {
            match tell {
                Tell::Go(at_ns) => {
                    events.push(Reverse((at_ns, host, Comes::Beat)));
                    events.push(Reverse((at_ns + S + up_to(3 * S), host, Comes::Warm)));
                }
                Tell::Open(at_ns) => {
                    opened[host] = Some(at_ns);
                    events.push(Reverse((at_ns + 10 * S + up_to(2 * S), host, Comes::Ended)));
                }
                Tell::End | Tell::Abort => {
                    events.push(Reverse((now_ns + 20 * MS + up_to(S), host, Comes::Ended)));
                }
            }
        }
        assert!(now_ns < 200 * S, "it hangs: {:?}", course.stage());
    }
    let instants: std::collections::BTreeSet<u64> = opened.iter().flatten().copied().collect();
    assert!(instants.len() <= 1, "one instant for all");
    course
}

#[test]
fn a_thousand_hosts_open_at_one_instant_and_all_end() {
    let course = play(1_000, 0, 1);
    assert_eq!((course.stage(), course.lost()), (Stage::Done, None));
    assert!(course.open_ns().is_some());
}

#[test]
fn whichever_host_dies_at_any_time_the_level_ends_and_says_so() {
    for seed in 0..300 {
        let course = play(20, 1 + seed as usize % 3, seed);
        let (_, how) = course.lost().expect("somebody died before the last result");
        assert_eq!(how, "ended: killed by signal 9", "seed {seed}");
    }
}
