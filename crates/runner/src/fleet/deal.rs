//! Which workers, clients and arrivals of a level each of several hosts has. Numbers of clients and arrivals are those of the
//! whole level, so each client asks for the pages that it would ask for on a single host.

use webstone_engine::Seats;
use webstone_judge::calibration::{self, Calibration, Mode};
use webstone_model::generators::GeneratorRecord;
use webstone_model::spec::ConnectionPolicy;

/// Slots of a worker of the slowest host: a host whose workers can do an eighth more has one slot more for each.
const SLOTS_MIN: u32 = 8;
/// The most that a worker has, however fast.
const SLOTS_MAX: u32 = 256;

/// Slots of a host's workers among those of all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Slots of the hosts before it.
    pub(crate) first: u32,
    /// Slots of each of its workers.
    pub(crate) each: u32,
    /// Its workers; 0: it has no part in the level.
    pub(crate) workers: u32,
}

/// Deals a level to hosts with these numbers of workers and slots per worker; also returns the number of all slots. What is dealt are
/// `groups`: the clients, or the groups of them that share connections. A worker without any would have arrivals that nobody serves.
///
/// Each worker has one slot if one of the slowest host would get less than one group. With fewer groups than workers, some workers are
/// idle, spread evenly.
pub(crate) fn deal(hosts: &[(u32, u32)], groups: u32) -> (Vec<Share>, u32) {
    let groups = u64::from(groups.max(1));
    let slots: u64 = hosts.iter().map(|(workers, each)| u64::from(*workers) * u64::from(*each)).sum();
    let least = hosts.iter().filter(|(workers, _)| *workers > 0).map(|(_, each)| *each).min();
    if u64::from(least.unwrap_or(1)) * groups >= slots && slots <= u64::from(u32::MAX) {
        return in_slots(hosts);
    }
    let wanted: u64 = hosts.iter().map(|(workers, _)| u64::from(*workers)).sum();
    let all = wanted.min(groups);
    let (mut before, mut shares) = (0_u64, Vec::new());
    for (workers, _) in hosts {
        // Slots before this host, if `all` are dealt evenly to `wanted` workers.
        let first = (before * all).div_ceil(wanted.max(1));
        before += u64::from(*workers);
        let next = (before * all).div_ceil(wanted.max(1));
        shares.push(Share { first: first as u32, each: 1, workers: (next - first) as u32 });
    }
    (shares, all as u32)
}

/// Each host with the slots that it has, one host after the other.
pub(crate) fn in_slots(hosts: &[(u32, u32)]) -> (Vec<Share>, u32) {
    let mut first = 0_u32;
    let place = |(workers, each): &(u32, u32)| {
        let share = Share { first, each: *each, workers: *workers };
        first += workers * each;
        share
    };
    let shares = hosts.iter().map(place).collect();
    (shares, first)
}

/// Each host with its slots, dealt to as many of its workers as have a client: one without any would have arrivals that nobody serves,
/// and nothing to say of its slices.
pub(super) fn in_own_slots(
    hosts: &[(u32, u32)],
    clients: u32,
    clients_per_connection: u32,
) -> (Vec<Share>, u32) {
    let slots = |(workers, each): &(u32, u32)| u64::from(*workers) * u64::from(*each);
    let mut workers: Vec<u32> = hosts.iter().map(|(workers, _)| *workers).collect();
    loop {
        let common =
            workers.iter().filter(|it| **it > 0).fold(1, |all, one| multiple_of_both(all, u64::from(*one)));
        let all: u64 = hosts.iter().map(slots).sum();
        // If that is too large for 32 bits, shares are approximate.
        let scale = if all.saturating_mul(common) <= u64::from(u32::MAX) { common } else { 1 };
        let of_host = |(host, workers): (&(u32, u32), &u32)| match u64::from(*workers) {
            0 => (0, 0),
            own => (*workers, (slots(host) * scale / own).max(1) as u32),
        };
        let (shares, of) = in_slots(&hosts.iter().zip(&workers).map(of_host).collect::<Vec<_>>());
        let busy = shares.iter().map(|share| {
            let Share { first, each, workers } = *share;
            let has_clients = |worker: &u32| {
                let seats = Seats { first: first + worker * each, each, workers: 1, of };
                !seats.clients(clients, clients_per_connection).is_empty()
            };
            (0..workers).filter(has_clients).count() as u32
        });
        let busy: Vec<u32> = busy.collect();
        if busy == workers {
            return (shares, of);
        }
        workers = busy;
    }
}

fn multiple_of_both(a: u64, b: u64) -> u64 {
    a.saturating_mul(b) / gcd(a, b)
}

/// Slots of each worker of each host, so that each host has its number of clients in a level of all hosts: its slots are its clients
/// times the least common multiple of all numbers of workers.
pub(super) fn by_clients(hosts: &[GeneratorRecord], clients: &[u32]) -> Vec<u32> {
    let workers = || hosts.iter().map(|host| u64::from(host.workers.max(1)));
    let all: u64 = clients.iter().map(|clients| u64::from(*clients)).sum();
    let common = workers().fold(1, multiple_of_both);
    // If that is too large for 32 bits, shares are approximate.
    let multiple = common.min(u64::from(u32::MAX) / all.max(1)).max(1);
    let each =
        clients.iter().zip(workers()).map(|(clients, workers)| multiple * u64::from(*clients) / workers);
    each.map(|each| each.max(1) as u32).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Slots of each worker of each host, by what their calibrations say that a worker can do; one each if any host has no usable
/// calibration.
pub(super) fn weigh(hosts: &[GeneratorRecord], policy: ConnectionPolicy) -> Vec<u32> {
    let rates: Option<Vec<f64>> = hosts.iter().map(|host| rate_of_a_worker(host, policy)).collect();
    let slowest = rates.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    match rates {
        Some(rates) if slowest > 0.0 => {
            let slots = |rate: &f64| (rate / slowest * f64::from(SLOTS_MIN)).round() as u32;
            rates.iter().map(|rate| slots(rate).clamp(SLOTS_MIN, SLOTS_MAX)).collect()
        }
        _ => vec![1; hosts.len()],
    }
}

/// Requests per second of one worker, as the host's calibration has it for these connections.
fn rate_of_a_worker(host: &GeneratorRecord, policy: ConnectionPolicy) -> Option<f64> {
    let stored = host.environment.get(calibration::KEY)?;
    let calibration = Calibration::read(stored).ok()?;
    let mode = match policy {
        ConnectionPolicy::PerRequest => Mode::PerRequest,
        _ => Mode::KeepAlive,
    };
    let rows = calibration.rows.iter().filter(|row| row.mode == mode && row.workers <= host.workers.max(1));
    let row = rows.max_by_key(|row| row.workers)?;
    Some(row.requests_per_s / f64::from(row.workers.max(1))).filter(|rate| rate.is_finite() && *rate > 0.0)
}

/// Who has which share of the load, in words, before it begins.
pub(super) fn in_words(hosts: &[GeneratorRecord], slots: &[u32], is_by_clients: bool) -> String {
    let all: f64 = hosts.iter().zip(slots).map(|(host, each)| f64::from(host.workers * each)).sum();
    let are_weighted = slots.iter().any(|each| *each > 1);
    let each = |(host, each): (&GeneratorRecord, &u32)| {
        let workers = match host.workers {
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        };
        let share = f64::from(host.workers * each) * 100.0 / all.max(1.0);
        format!("{} {workers}, {share:.0} %", host.name)
    };
    let told: Vec<String> = hosts.iter().zip(slots).map(each).collect();
    let by = match (is_by_clients, are_weighted) {
        (true, _) => "by their clients",
        (false, true) => "by their calibrations",
        (false, false) => "by their workers",
    };
    format!("dealing the load to {} hosts {by}: {}", hosts.len(), told.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_worker_has_its_place_and_none_is_left_over() {
        for hosts in [
            &[(1_u32, 1)][..],
            &[(4, 1), (4, 1)],
            &[(1, 8), (8, 12), (3, 9)],
            &[(2, 1), (0, 1), (5, 1)],
            &[(64, 8); 40],
        ] {
            let workers: u32 = hosts.iter().map(|(workers, _)| workers).sum();
            let weighted: u32 = hosts.iter().map(|(workers, each)| workers * each).sum();
            for groups in [1, 2, 3, 7, workers, weighted, 100_000] {
                let (shares, of) = deal(hosts, groups);
                let mut next = 0;
                for (share, (workers, _)) in shares.iter().zip(hosts) {
                    assert!(share.workers == 0 || share.first == next, "{shares:?}");
                    assert!(share.workers <= *workers, "{shares:?}");
                    next += share.workers * share.each;
                }
                assert_eq!(next, of, "{shares:?}");
                assert!(of == weighted || of == workers.min(groups), "{hosts:?} {groups}: {of}");
                // As the engine deals clients to slots.
                let before = |slot: u32| u64::from(groups) * u64::from(slot) / u64::from(of);
                for share in shares {
                    for worker in 0..share.workers {
                        let first = share.first + worker * share.each;
                        assert!(before(first) < before(first + share.each), "{hosts:?} {groups}: nobody");
                    }
                }
            }
        }
    }

    #[test]
    fn few_clients_are_spread_over_the_hosts() {
        let (shares, all) = deal(&[(4, 1), (4, 1), (4, 1)], 3);
        assert_eq!(all, 3);
        assert_eq!(shares.iter().map(|share| share.workers).collect::<Vec<_>>(), [1, 1, 1]);
        let (shares, all) = deal(&[(2, 8), (2, 16)], 4);
        assert_eq!((shares[1], all), (Share { first: 2, each: 1, workers: 2 }, 4), "too few for weights");
    }

    #[test]
    fn hosts_have_the_clients_that_the_run_gives_them() {
        for (workers, clients) in
            [(&[2_u32, 2, 2, 2][..], &[6_u32, 6, 6, 6][..]), (&[3, 2], &[5, 7]), (&[4, 1, 16], &[1, 30, 2])]
        {
            let hosts: Vec<GeneratorRecord> = workers.iter().map(|workers| host(*workers, &[])).collect();
            let slots = by_clients(&hosts, clients);
            let (shares, of) = in_slots(&workers.iter().copied().zip(slots).collect::<Vec<_>>());
            for times in [1, 3] {
                let all = times * clients.iter().sum::<u32>();
                let dealt = shares.iter().map(|Share { first, each, workers }| {
                    let seats = webstone_engine::Seats { first: *first, each: *each, workers: *workers, of };
                    seats.clients(all, 1).len() as u32
                });
                let wanted: Vec<u32> = clients.iter().map(|clients| times * clients).collect();
                assert_eq!(dealt.collect::<Vec<_>>(), wanted, "{workers:?}");
            }
        }
    }

    #[test]
    fn hosts_with_clients_of_their_own_start_no_worker_without_one() {
        for (workers, own) in [([8, 8], [6, 4]), ([8, 2], [1, 9]), ([3, 64], [2, 50]), ([5, 7], [1, 1])] {
            let hosts: Vec<GeneratorRecord> = workers.iter().map(|workers| host(*workers, &[])).collect();
            let slots = workers.into_iter().zip(by_clients(&hosts, &own)).collect::<Vec<_>>();
            for clients in 1..=2 * own.iter().sum::<u32>() {
                let (shares, of) = in_own_slots(&slots, clients, 1);
                let mut seen = 0;
                for (share, (workers, _)) in shares.iter().zip(&slots) {
                    assert!(share.workers <= *workers, "{share:?}");
                    for worker in 0..share.workers {
                        let first = share.first + worker * share.each;
                        let seats = Seats { first, each: share.each, workers: 1, of };
                        let own = seats.clients(clients, 1);
                        assert!(own.start == seen && !own.is_empty(), "{clients}: {own:?} of {shares:?}");
                        seen = own.end;
                    }
                }
                assert_eq!(seen, clients, "every client has a worker");
            }
            let (shares, of) = in_own_slots(&slots, own.iter().sum(), 1);
            let dealt = shares.iter().map(|Share { first, each, workers }| {
                let seats = Seats { first: *first, each: *each, workers: *workers, of };
                seats.clients(own.iter().sum(), 1).len() as u32
            });
            assert_eq!(dealt.collect::<Vec<_>>(), own, "{workers:?}");
        }
    }

    fn host(workers: u32, rows: &[(&str, u32, f64)]) -> GeneratorRecord {
        let row = |(mode, workers, rate): &(&str, u32, f64)| {
            json!({"mode": mode, "backend": "epoll", "workers": workers, "clients": 1, "body_bytes": 1,
                   "iterations": 1, "requests_per_s": rate, "requests_reach_percent": null,
                   "connections_per_s": 0.0, "throughput_bps": 0.0, "response_bytes": 1.0, "worker_percent": 99.0,
                   "server_percent": 1.0, "cpu_per_request_s": 0.0, "ceiling": "generator"})
        };
        let mut host = GeneratorRecord { name: "gen".to_owned(), workers, ..GeneratorRecord::default() };
        if !rows.is_empty() {
            let rows: Vec<_> = rows.iter().map(row).collect();
            let calibration = json!({"made_at": "", "tool": {"name": "webstone", "version": "1", "commit": null},
                "host": {"hostname": "", "cpu_model": "", "architecture": "", "cpus": "", "kernel": ""},
                "shared_cpus": false, "rows": rows});
            host.environment.insert(calibration::KEY.to_owned(), calibration);
        }
        host
    }

    #[test]
    fn hosts_have_slots_by_what_their_workers_can_do() {
        let slow = host(
            4,
            &[("keep-alive", 1, 90_000.0), ("keep-alive", 4, 200_000.0), ("per-request", 4, 40_000.0)],
        );
        let fast = host(
            2,
            &[("keep-alive", 2, 200_000.0), ("keep-alive", 4, 300_000.0), ("per-request", 2, 30_000.0)],
        );
        let hosts = [slow.clone(), fast];
        assert_eq!(weigh(&hosts, ConnectionPolicy::KeepAlive), [8, 16]);
        assert_eq!(weigh(&hosts, ConnectionPolicy::PerRequest), [8, 12]);
        assert_eq!(
            in_words(&hosts, &[8, 16], false),
            "dealing the load to 2 hosts by their calibrations: gen 4 workers, 50 %; gen 2 workers, 50 %"
        );
        let unknown = [slow, host(1, &[])];
        assert_eq!(weigh(&unknown, ConnectionPolicy::KeepAlive), [1, 1]);
        assert!(
            in_words(&unknown, &[1, 1], false)
                .ends_with("by their workers: gen 4 workers, 80 %; gen 1 worker, 20 %")
        );
    }
}
